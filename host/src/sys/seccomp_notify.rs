//! A program's calls of `socket`, answered by somebody else: seccomp's user notification. Thin, as
//! [`sys`](crate::sys).
//!
//! ```text
//!   program ── socket(AF_INET, SOCK_STREAM, …) ──> kernel ── "may it?" ──> this process
//!   program <── a descriptor <──────────────────── kernel <── a socket that this process made
//! ```
//!
//! The filter is inherited by whatever the program starts, whether it is linked statically or not,
//! and needs no privilege. It looks at three numbers of one call; every other call passes at once.
//!
//! Sources: `seccomp(2)`, `seccomp_unotify(2)` (Linux man-pages 6.9); Linux 5.9, "seccomp:
//! Introduce addfd ioctl to seccomp user notifier".
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// What the kernel calls this machine in a filter (include/uapi/linux/audit.h); `None`: not known
/// here.
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

/// The kind of a socket without its flags.
const KIND: u32 = 0xf;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    id: u64,
    /// Who calls.
    pub pid: u32,
    /// `AF_INET`, `AF_INET6`.
    pub domain: c_int,
    /// `SOCK_STREAM` and flags.
    pub kind: c_int,
    /// 0 or `IPPROTO_TCP`.
    pub protocol: c_int,
}

/// What a listener has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing within the time.
    Quiet,
    /// Somebody asks.
    Asked,
    /// Nobody is left who could.
    Over,
}

/// What a load, a jump or an end of a filter is, as in linux/filter.h.
const fn step(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// Where in `seccomp_data` the low half of argument `n` lies.
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// The filter: asks about `socket` for TCP and lets everything else pass.
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
        equal(libc::SYS_socket, 0, 9),
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
    // SAFETY: the program is valid for the call, which copies it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &filter,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given to us alone; it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// From now on this thread, and whom it starts, asks for its TCP sockets at what is answered.
///
/// Without privilege it also gives up gaining any by setuid programs, and so does whom it starts.
pub fn filter() -> io::Result<OwnedFd> {
    // A signal must not make a program ask twice; kernels before 5.19 do not know the flag.
    let once = |flags| match install(flags) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(0),
        other => other,
    };
    match once(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: takes numbers only.
            if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            once(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        }
        other => other,
    }
}

/// Waits for somebody who asks, at most `timeout` ms or until a signal comes.
pub fn wait(listener: &OwnedFd, timeout: c_int) -> io::Result<State> {
    let mut one = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, valid for the call.
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
    // SAFETY: each caller's value is of the type that `what` names, and valid for the call.
    let n = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            what,
            std::ptr::from_mut(value).cast::<c_void>(),
        )
    };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n)
    }
}

/// The next call; `None`: whoever asked has gone.
pub fn receive(listener: &OwnedFd) -> io::Result<Option<Asked>> {
    // SAFETY: plain numbers; the kernel wants zeros.
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

fn answer(listener: &OwnedFd, id: u64, val: i64, error: i32, flags: u32) {
    let mut told = libc::seccomp_notif_resp {
        id,
        val,
        error,
        flags,
    };
    // Whoever has gone meanwhile needs no answer.
    let _ = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut told);
}

/// Gives a socket to who asked for one.
pub fn give(listener: &OwnedFd, asked: &Asked, socket: &OwnedFd) -> io::Result<()> {
    let mut told = libc::seccomp_notif_addfd {
        id: asked.id,
        flags: 0,
        srcfd: socket.as_raw_fd() as u32,
        newfd: 0,
        newfd_flags: (asked.kind & libc::SOCK_CLOEXEC) as u32,
    };
    let fd = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut told)?;
    answer(listener, asked.id, i64::from(fd), 0, 0);
    Ok(())
}

/// The call fails as if the kernel had said `error`.
pub fn refuse(listener: &OwnedFd, asked: &Asked, error: &io::Error) {
    answer(
        listener,
        asked.id,
        0,
        -error.raw_os_error().unwrap_or(libc::EIO),
        0,
    );
}

/// The call goes its usual way.
pub fn let_pass(listener: &OwnedFd, asked: &Asked) {
    answer(
        listener,
        asked.id,
        0,
        0,
        libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    );
}

/// A socket such as was asked for; nobody inherits this copy.
pub fn socket(asked: &Asked) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe {
        libc::socket(
            asked.domain,
            asked.kind | libc::SOCK_CLOEXEC,
            asked.protocol,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The socket counts as that user's from now on, for rules of routing and firewalls.
pub fn owned_by(socket: &OwnedFd, user: u32, group: u32) {
    // SAFETY: takes numbers only; where it is not permitted the socket stays ours.
    unsafe { libc::fchown(socket.as_raw_fd(), user, group) };
}

/// Starts a program that takes signals as it would anywhere.
pub fn start(name: &str, rest: &[String]) -> io::Result<Child> {
    let mut command = Command::new(name);
    // SAFETY: one call that takes numbers, allowed between fork and exec: what this process ignores
    // the program does not.
    unsafe {
        command.args(rest).pre_exec(|| {
            libc::signal(libc::SIGTTOU, libc::SIG_DFL);
            Ok(())
        });
    }
    command.spawn()
}

/// Goes on in a process of its own, in the background. True there; false in the one that may end.
/// For a process of one thread.
pub fn go_on_apart() -> io::Result<bool> {
    // SAFETY: this process has one thread, so the child may do what it could.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: take numbers and a text that ends with a zero.
            unsafe {
                libc::setsid();
                let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                for fd in 0..3 {
                    libc::dup2(nothing, fd);
                }
                libc::close(nothing);
            }
            Ok(true)
        }
        pid if pid > 0 => Ok(false),
        _ => Err(io::Error::last_os_error()),
    }
}

const _: () = assert!(size_of::<libc::seccomp_notif>() == 80);

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a call: an interpreter of the few instructions it has.
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
    fn only_tcp_sockets_are_asked_about() {
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
