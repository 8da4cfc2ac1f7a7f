//! Replaces the TCP sockets that a program creates by sockets of this process, with seccomp user
//! notifications.
//!
//! ```text
//!   program ── socket(AF_INET, SOCK_STREAM, …) ──> kernel ── notification ──> this process
//!   program <── a descriptor <──────────────────── kernel <── a socket that this process created
//! ```
//!
//! Children of the program inherit the filter, and it also works for statically linked programs. It
//! needs no privilege. The filter examines the three arguments of `socket`; every other system call
//! passes.
//!
//! Sources: `seccomp(2)`, `seccomp_unotify(2)` (Linux man-pages 6.9); Linux 5.9, "seccomp:
//! Introduce addfd ioctl to seccomp user notifier".

use super::{check, no_new_privileges, owned};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

/// The `AUDIT_ARCH` number of this machine (include/uapi/linux/audit.h); `None` if unknown here.
const MACHINE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else if cfg!(all(target_arch = "arm", target_endian = "little")) {
    Some(0x4000_0028)
} else {
    None
};

/// Mask of the socket type, without the flags in the same argument.
const KIND: u32 = 0xf;

/// A call of `socket` that waits for a response.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    id: u64,
    /// The calling thread.
    pub pid: u32,
    /// `AF_INET`, `AF_INET6`.
    pub domain: c_int,
    /// `SOCK_STREAM` and flags.
    pub kind: c_int,
    /// 0 or `IPPROTO_TCP`.
    pub protocol: c_int,
}

/// The state of a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No notification within the time.
    Quiet,
    /// A notification waits.
    Asked,
    /// No process with the filter is left.
    Over,
}

/// An instruction of a filter (linux/filter.h).
const fn step(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// The offset of the low half of argument `n` in `seccomp_data`.
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// The filter program without its last instruction, which notifies this process. Calls other than
/// `socket` for TCP are allowed.
fn program(machine: u32) -> [libc::sock_filter; 14] {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const END: u32 = libc::BPF_RET | libc::BPF_K;
    let equal = |what: i64, yes, no| step(EQUAL, what as u32, yes, no);
    [
        step(LOAD, 4, 0, 0),
        equal(i64::from(machine), 0, 11),
        step(LOAD, 0, 0, 0),
        equal(super::wide(libc::SYS_socket), 0, 9),
        step(LOAD, argument(0), 0, 0),
        equal(i64::from(libc::AF_INET), 1, 0),
        equal(i64::from(libc::AF_INET6), 0, 6),
        step(LOAD, argument(1), 0, 0),
        step(AND, KIND, 0, 0),
        equal(i64::from(libc::SOCK_STREAM), 0, 3),
        step(LOAD, argument(2), 0, 0),
        equal(0, 2, 0),
        equal(i64::from(libc::IPPROTO_TCP), 1, 0),
        step(END, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]
}

fn install(flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let machine = MACHINE.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut steps = program(machine).to_vec();
    steps.push(step(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_USER_NOTIF,
        0,
        0,
    ));
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: `filter` points to `steps` with its length; both outlive the call, which copies them.
    owned(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &filter,
        )
    } as c_int)
}

/// Installs the filter for this thread and its children, and returns the listener.
///
/// Without privilege, the thread and its children also get the flag no_new_privs, so that setuid
/// programs gain no privileges.
pub fn filter() -> io::Result<OwnedFd> {
    // With the flag, only fatal signals interrupt a call that waits for a response. Kernels before
    // 5.19 do not know it.
    let once = |flags| match install(flags) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(0),
        other => other,
    };
    match once(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            no_new_privileges()?;
            once(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        }
        other => other,
    }
}

/// Waits for a notification, at most `timeout` ms or until a signal arrives.
pub fn wait(listener: &OwnedFd, timeout: c_int) -> io::Result<State> {
    let mut one = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes one entry, which outlives the call.
    let n = unsafe { libc::poll(&mut one, 1, timeout) };
    if n < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(State::Quiet)
        } else {
            Err(error)
        };
    }
    Ok(if one.revents & libc::POLLIN != 0 {
        State::Asked
    } else if one.revents != 0 {
        State::Over
    } else {
        State::Quiet
    })
}

fn ioctl<T>(listener: &OwnedFd, what: libc::Ioctl, value: &mut T) -> io::Result<c_int> {
    // SAFETY: every caller passes a value of the type that the request `what` reads and writes; it
    // is borrowed exclusively during the call.
    check(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            what,
            std::ptr::from_mut(value).cast::<c_void>(),
        )
    })
}

/// Receives the next call; `None` if the calling thread has ended or a signal arrived.
pub fn receive(listener: &OwnedFd) -> io::Result<Option<Asked>> {
    // SAFETY: `seccomp_notif` consists of integers, and the kernel requires zeros.
    let mut told: libc::seccomp_notif = unsafe { zeroed() };
    match ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut told) {
        Ok(_) => {}
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(None),
        Err(e) => return Err(e),
    }
    Ok(Some(Asked {
        id: told.id,
        pid: told.pid,
        domain: told.data.args[0] as c_int,
        kind: told.data.args[1] as c_int,
        protocol: told.data.args[2] as c_int,
    }))
}

fn respond(listener: &OwnedFd, id: u64, val: i64, error: i32, flags: u32) {
    let mut told = libc::seccomp_notif_resp {
        id,
        val,
        error,
        flags,
    };
    // A thread that has gone needs no response.
    let _ = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut told);
}

/// Makes the call return `socket`.
pub fn give(listener: &OwnedFd, asked: &Asked, socket: &OwnedFd) -> io::Result<()> {
    let mut told = libc::seccomp_notif_addfd {
        id: asked.id,
        flags: 0,
        srcfd: socket.as_raw_fd() as u32,
        newfd: 0,
        newfd_flags: (asked.kind & libc::SOCK_CLOEXEC) as u32,
    };
    let fd = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut told)?;
    respond(listener, asked.id, i64::from(fd), 0, 0);
    Ok(())
}

/// Makes the call fail with `error`.
pub fn refuse(listener: &OwnedFd, asked: &Asked, error: &io::Error) {
    respond(
        listener,
        asked.id,
        0,
        -error.raw_os_error().unwrap_or(libc::EIO),
        0,
    );
}

/// Lets the kernel execute the call.
pub fn let_pass(listener: &OwnedFd, asked: &Asked) {
    respond(
        listener,
        asked.id,
        0,
        0,
        libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    );
}

/// Creates a socket with the arguments of the call. In this process, it is closed on exec.
pub fn socket(asked: &Asked) -> io::Result<OwnedFd> {
    let kind = asked.kind | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes integers only.
    owned(unsafe { libc::socket(asked.domain, kind, asked.protocol) })
}

const _: () = assert!(size_of::<libc::seccomp_notif>() == 80);

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of the filter on a call, computed by an interpreter of its instructions.
    fn verdict(machine: u32, nr: i64, args: [u64; 3]) -> u32 {
        let mut steps = program(0xc000_003e).to_vec();
        steps.push(step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_USER_NOTIF,
            0,
            0,
        ));
        let word = |at: u32| match at {
            0 => nr as u32,
            4 => machine,
            at => (args[(at as usize - 16) / 8] >> (8 * (at as usize % 8))) as u32,
        };
        let (mut a, mut at) = (0, 0);
        loop {
            let one = steps[at];
            let code = u32::from(one.code);
            at += 1;
            if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                a = word(one.k);
            } else if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K {
                a &= one.k;
            } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
                at += usize::from(if a == one.k { one.jt } else { one.jf });
            } else {
                return one.k;
            }
        }
    }

    #[test]
    fn only_tcp_sockets_are_notified() {
        const HERE: u32 = 0xc000_003e;
        let ask = |args: [i32; 3]| verdict(HERE, libc::SYS_socket, args.map(|a| a as u64));
        for domain in [libc::AF_INET, libc::AF_INET6] {
            for kind in [
                libc::SOCK_STREAM,
                libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            ] {
                for protocol in [0, libc::IPPROTO_TCP] {
                    assert_eq!(ask([domain, kind, protocol]), libc::SECCOMP_RET_USER_NOTIF);
                }
            }
        }
        for other in [
            [libc::AF_UNIX, libc::SOCK_STREAM, 0],
            [libc::AF_INET, libc::SOCK_DGRAM, 0],
            [libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP],
            [libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP],
            [libc::AF_NETLINK, libc::SOCK_RAW, 0],
        ] {
            assert_eq!(ask(other), libc::SECCOMP_RET_ALLOW, "{other:?}");
        }
        let tcp = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
        assert_eq!(
            verdict(HERE, libc::SYS_connect, tcp),
            libc::SECCOMP_RET_ALLOW
        );
        assert_eq!(
            verdict(0x4000_0003, libc::SYS_socket, tcp),
            libc::SECCOMP_RET_ALLOW
        );
    }
}
