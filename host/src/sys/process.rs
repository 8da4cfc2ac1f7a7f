//! Programs at a host of a shell: each in namespaces of processes and of mounts of its own, so that
//! whatever it starts ends with it and `/etc/hosts` knows the other end. Thin, as
//! [`sys`](crate::sys): calls of the kernel.
//!
//! ```text
//!   narrows-host ── thread in the host ── init (process 1 there) ── the program ── whatever it starts
//! ```
//!
//! The first process of a namespace of processes is deaf to signals without a handler and inherits
//! orphans, so it is one that knows: it passes signals on, buries who ends, and answers the
//! program's exit code. The kernel kills it when its thread ends, and everybody else there when it
//! does.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

/// Exit code of a program that was not found, as shells have it.
const NOT_FOUND: u8 = 127;
/// Of one that may not be run.
const NOT_RUNNABLE: u8 = 126;
/// Of one that ended by a signal: this and its number.
const SIGNALLED: i32 = 128;

fn answer(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn mount(what: &CStr, place: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every text ends with a zero.
    answer(unsafe {
        libc::mount(
            what.as_ptr(),
            place.as_ptr(),
            kind,
            flags,
            std::ptr::null::<c_void>(),
        )
    })
}

/// This thread sees mounts of its own from now on; others do not see them.
fn new_mounts() -> io::Result<()> {
    // SAFETY: only this thread is moved.
    answer(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)
}

/// This thread, and whom it starts, reads `text` in `/etc/hosts`.
pub fn new_hosts_file(text: &str) -> io::Result<()> {
    new_mounts()?;
    // The file lies in memory; what is mounted over /tmp for a moment nobody else sees, and the
    // file stays where it is bound to.
    mount(c"narrows", c"/tmp", Some(c"tmpfs"), 0)?;
    let bound = fs::write("/tmp/hosts", text)
        .and_then(|()| mount(c"/tmp/hosts", c"/etc/hosts", None, libc::MS_BIND));
    // SAFETY: the text ends with a zero.
    answer(unsafe { libc::umount2(c"/tmp".as_ptr(), libc::MNT_DETACH) })?;
    bound
}

/// Whom this thread starts from now on is the first process of a namespace of its own.
pub fn new_processes() -> io::Result<()> {
    // SAFETY: takes a number only; the caller stays where it is.
    answer(unsafe { libc::unshare(libc::CLONE_NEWPID) })
}

/// Starts `program` by way of an init, which dies with this thread. `apart`: it reads nothing, and
/// writes to stderr alone.
pub fn start(program: &[String], end: &str, apart: bool) -> io::Result<Child> {
    let mut init = Command::new(std::env::current_exe()?);
    init.arg("init")
        .arg("--")
        .args(program)
        .env("NARROWS_END", end);
    if apart {
        init.stdin(Stdio::null())
            .stdout(io::stderr().as_fd().try_clone_to_owned()?);
    }
    // SAFETY: one call that takes numbers, allowed between fork and exec.
    unsafe {
        init.pre_exec(|| answer(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)));
    }
    init.spawn()
}

/// Tells a process.
pub fn signal(pid: u32, signal: c_int) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// The exit code that a shell would tell for it.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|s| SIGNALLED + s));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

static LAST: AtomicI32 = AtomicI32::new(0);
static PROGRAM: AtomicI32 = AtomicI32::new(0);

const PASSED_ON: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// What a terminal sends goes to everybody in the foreground, the program too: telling it again
/// would be once too often.
extern "C" fn came(signal: c_int, info: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: the kernel gives a valid record to a handler of this kind.
    let by_terminal = unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if by_terminal && (signal == libc::SIGINT || signal == libc::SIGQUIT) {
        return;
    }
    LAST.store(signal, Ordering::Relaxed);
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: takes numbers only, and is allowed in a handler.
        unsafe { libc::kill(program, signal) };
    }
}

/// From now on signals are not obeyed but remembered, and passed on to the program of this init.
pub fn listen() {
    for signal in PASSED_ON {
        // SAFETY: all zeros is a valid action; the handler does only what handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                came as extern "C" fn(c_int, *const libc::siginfo_t, *const c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    // Whoever had the terminal may have left it to nobody; asking for it back must not stop us.
    // SAFETY: takes numbers only.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// The signal that has come since the last call.
pub fn heard() -> Option<c_int> {
    Some(LAST.swap(0, Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// An interactive shell takes the terminal; when it has ended, this process takes it back.
pub fn take_terminal_back() {
    // SAFETY: takes numbers only; where there is no terminal nothing happens.
    unsafe { libc::tcsetpgrp(0, libc::getpgrp()) };
}

/// The first process of a host's namespace: runs `program` and answers its exit code.
pub fn init(program: &[String]) -> u8 {
    // Its own mounts, so that the thread that started it keeps its view of processes. Without
    // `/proc` of our own, `ps` shows those outside.
    if new_mounts().is_ok() {
        let _ = mount(c"proc", c"/proc", Some(c"proc"), 0);
    }
    let Some((name, rest)) = program.split_first() else {
        return NOT_FOUND;
    };
    listen();
    let mut command = Command::new(name);
    // SAFETY: one call that takes numbers, allowed between fork and exec: what this init ignores
    // the program does not.
    unsafe {
        command.args(rest).pre_exec(|| {
            libc::signal(libc::SIGTTOU, libc::SIG_DFL);
            Ok(())
        });
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            crate::terminal::say(format!("{name}: {error}"));
            return if error.kind() == io::ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_RUNNABLE
            };
        }
    };
    let pid = child.id() as libc::pid_t;
    PROGRAM.store(pid, Ordering::Relaxed);
    loop {
        let mut status = 0;
        // SAFETY: the number is valid for the call.
        let ended = unsafe { libc::waitpid(-1, &mut status, 0) };
        if ended == pid {
            return code_of(ExitStatus::from_raw(status));
        }
        if ended < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 1;
        }
    }
}

/// Is a program of that name to be found? Only then is it worth starting anything.
pub fn found(name: &str) -> bool {
    let runs = |path: &str| {
        CString::new(path).is_ok_and(|path| {
            // SAFETY: the text ends with a zero.
            unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
        })
    };
    if name.contains('/') {
        return runs(name);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .any(|folder| runs(&format!("{folder}/{name}")))
}
