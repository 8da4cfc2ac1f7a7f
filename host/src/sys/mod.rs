//! System calls, netlink and BPF: the only unsafe code of this crate. Times are in nanoseconds.
//!
//! | module | holds |
//! |---|---|
//! | [`time`], [`clock`] | the kernel's clocks; the clock of a run |
//! | [`files`], [`io`], [`poll`] | files below an open directory; reads and writes; readiness |
//! | [`namespaces`], [`device`] | network and user namespaces; devices of a namespace |
//! | [`gate`] | a device whose queue discipline releases packets on request |
//! | [`process`], [`signals`], [`user`] | processes and their namespaces; requests to stop; user IDs |
//! | [`schedule`], [`idle`] | scheduling classes, niceness, processors, memory locks; idle states |
//! | [`socket`], [`mod@tcp`], [`datagram`] | options of sockets; TCP connections; batches of datagrams |
//! | [`timed_socket`], [`control`] | sockets with kernel timestamps; control messages |
//! | [`netlink`], [`bpf`], [`seccomp_notify`] | rtnetlink and sock_diag; BPF programs; notified calls |
//! | [`kernel`] | release, modules and congestion controls of the kernel |
//! | [`machine`] | the first process of a virtual machine |
//!
//! A call whose failure matters to the caller returns `io::Result` with the error number of the
//! kernel. A comment at each unsafe block states why the call is sound; clippy rejects a block
//! without one.

pub mod bpf;
pub mod clock;
pub mod control;
pub mod datagram;
pub mod device;
pub mod files;
pub mod gate;
pub mod idle;
pub mod io;
pub mod kernel;
pub mod machine;
pub mod namespaces;
pub mod netlink;
pub mod poll;
pub mod process;
pub mod schedule;
pub mod seccomp_notify;
pub mod signals;
pub mod socket;
pub mod tcp;
pub mod time;
pub mod timed_socket;
pub mod user;

pub use datagram::{receive_classed, receive_stamped, set_classes, set_stamps};
pub use device::{addresses, broadcasts, ethtool, hardware, interface, open_tun, source_towards};
pub use io::{read, send, write};
pub use namespaces::{enter_network, network_cookie, new_network, new_user};
pub use poll::{BROKEN, Epoll, READABLE, WRITABLE, wait_readable};
pub use process::end_with_parent;
pub use schedule::{prefer, prefer_exact_timers, real_time};
pub use signals::{remember_end, remember_signals, stopped, stopped_code, take_stop};
pub use tcp::{
    ECN, TcpInfo, accept, choose_cc, connect, discard, error_of, listen, send_some,
    set_delayed_ack, set_dscp, set_notsent_lowat, set_reset, tcp, tcp_cc_info, tcp_info,
    unacknowledged, unsent,
};
#[cfg(test)]
pub use time::AHEAD;
pub use time::{kernel_hz, monotonic, process_cpu, realtime, since_boot, sleep_until, thread_cpu};
pub use user::{become_user, give, ids, no_new_privileges};

use std::ffi::{CString, c_int};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{FromRawFd, OwnedFd};

/// The number of a system call for `seccompiler`; a C `long` has 32 bits on some processors.
#[allow(
    clippy::unnecessary_cast,
    reason = "both types are equal on 64-bit processors"
)]
pub(crate) const fn wide(call: libc::c_long) -> i64 {
    call as i64
}

/// The result of a call: a negative number is an error, whose number is in `errno`.
fn check(result: c_int) -> Result<c_int> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The number of bytes that a call has moved.
fn length(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// The descriptor that a call returned, which this process owns.
fn owned(result: c_int) -> Result<OwnedFd> {
    // SAFETY: every caller passes the return value of a call that creates a descriptor, so nothing
    // else owns it.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Converts an error of a call that would block, or that a signal interrupted, to `None`.
fn unless_empty<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// A text with a terminating zero byte, as system calls require.
fn c_string(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "the name contains a zero byte"))
}

/// A system call by its number, with up to six arguments; the others are zero.
#[cfg(test)]
pub fn call_for_test(number: libc::c_long, arguments: &[usize]) -> Result<libc::c_long> {
    let [a, b, c, d, e, f] = std::array::from_fn(|i| arguments.get(i).copied().unwrap_or(0));
    // SAFETY: the tests pass arguments that the kernel rejects before it reads or writes memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}
