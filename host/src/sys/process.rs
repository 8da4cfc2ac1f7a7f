//! Processes: starts programs of a shell in their own namespaces, forwards signals, forks, and
//! detaches background processes.
//!
//! Each program of a shell has its own PID and mount namespaces. Therefore all processes that it
//! starts end with it, and its `/etc/hosts` can contain the other host.
//!
//! ```text
//!   narrows-host ── thread in the host ── init (process 1 there) ── the program ── its children
//! ```
//!
//! The first process of a PID namespace ignores signals without a handler and inherits orphans.
//! Therefore an init is started as that process: it forwards signals, reaps children, and returns
//! the exit code of the program. The kernel kills the init when the thread that started it ends,
//! and with the init every other process of its namespace.

use super::signals::{default_sigttou, ignore};
use super::{c_string, check};
use std::ffi::{CStr, c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

/// Exit code of shells for a program that was not found.
const NOT_FOUND: u8 = 127;
/// Exit code of shells for a program that is not executable.
const NOT_RUNNABLE: u8 = 126;
/// Offset that shells add to the number of a signal that ended a program.
const SIGNALLED: i32 = 128;

fn mount(what: &CStr, place: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: `what`, `place` and `kind` are C strings that outlive the call, or null for `kind`,
    // which a bind mount and a change of propagation ignore; no data is passed.
    check(unsafe {
        libc::mount(
            what.as_ptr(),
            place.as_ptr(),
            kind,
            flags,
            std::ptr::null::<c_void>(),
        )
    })
    .map(drop)
}

/// Moves this thread into its own mount namespace; other threads do not see its mounts.
fn new_mounts() -> io::Result<()> {
    // SAFETY: the call takes an integer and changes the namespace of the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Makes this thread and its children read `text` in `/etc/hosts`.
pub fn new_hosts_file(text: &str) -> io::Result<()> {
    new_mounts()?;
    // The file lies on a tmpfs that covers /tmp for a moment, in this mount namespace only; the
    // bind mount keeps the file after the tmpfs is detached.
    mount(c"narrows", c"/tmp", Some(c"tmpfs"), 0)?;
    let bound = fs::write("/tmp/hosts", text)
        .and_then(|()| mount(c"/tmp/hosts", c"/etc/hosts", None, libc::MS_BIND));
    // SAFETY: the path is a C string with static lifetime.
    check(unsafe { libc::umount2(c"/tmp".as_ptr(), libc::MNT_DETACH) })?;
    bound
}

/// Makes the next child of this thread the first process of a new PID namespace.
pub fn new_processes() -> io::Result<()> {
    // SAFETY: the call takes an integer; the caller stays in its namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) }).map(drop)
}

/// Starts an init that runs `program`. The kernel kills the init when this thread ends. `end`
/// becomes the variable `NARROWS_END`. With `apart`, the input is empty and the output goes to
/// stderr.
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
    // SAFETY: the closure makes one system call and allocates nothing, which is allowed between
    // fork and exec.
    unsafe {
        init.pre_exec(parent_death_signal);
    }
    init.spawn()
}

fn parent_death_signal() -> io::Result<()> {
    // SAFETY: the call takes integers and is async-signal-safe.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// Makes the kernel kill this process when its parent ends.
pub fn end_with_parent() {
    let _ = parent_death_signal();
}

/// Makes this process and its children write no core dumps.
pub fn without_core_dumps() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel reads one `rlimit`, which outlives the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) }).map(drop)
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: c_int) {
    // SAFETY: the call takes integers only.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// The exit code that a shell would report for this status.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|s| SIGNALLED + s));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

static LAST: AtomicI32 = AtomicI32::new(0);
static PROGRAM: AtomicI32 = AtomicI32::new(0);

const PASSED_ON: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Records a signal and forwards it to the program. SIGINT and SIGQUIT of a terminal are ignored:
/// the kernel sends them to every process of the foreground group, including the program.
extern "C" fn forward(signal: c_int, info: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: the kernel passes a valid record, or null, to a handler with SA_SIGINFO.
    let by_terminal = unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if by_terminal && (signal == libc::SIGINT || signal == libc::SIGQUIT) {
        return;
    }
    LAST.store(signal, Ordering::Relaxed);
    let program = PROGRAM.load(Ordering::Relaxed);
    if program > 0 {
        // SAFETY: the call takes integers and is async-signal-safe.
        unsafe { libc::kill(program, signal) };
    }
}

/// From now on, SIGINT, SIGQUIT, SIGTERM and SIGHUP are recorded, and forwarded to the program if
/// this process is an init.
pub fn listen() {
    for signal in PASSED_ON {
        // SAFETY: `sigaction` consists of integers and a pointer, for which all zeros is a valid
        // value; it outlives the call. The handler stores to atomics and calls kill(2), which
        // signal-safety(7) allows.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                forward as extern "C" fn(c_int, *const libc::siginfo_t, *const c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    // Without a foreground group, taking the terminal back would stop this process.
    ignore(&[libc::SIGTTOU]);
}

/// The last signal that has been recorded since the previous call, if any.
pub fn heard() -> Option<c_int> {
    Some(LAST.swap(0, Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Makes this process group the foreground group of the terminal again, after an interactive shell.
pub fn take_terminal_back() {
    // SAFETY: the calls take integers; without a terminal they fail and change nothing.
    unsafe { libc::tcsetpgrp(0, libc::getpgrp()) };
}

/// The first process of a host's PID namespace: runs `program` and returns its exit code.
pub fn init(program: &[String]) -> u8 {
    // The mount namespace keeps the new `/proc` from the thread that started this process. Without
    // a new `/proc`, `ps` shows the processes outside.
    if new_mounts().is_ok() {
        let _ = mount(c"proc", c"/proc", Some(c"proc"), 0);
    }
    let Some((name, rest)) = program.split_first() else {
        return NOT_FOUND;
    };
    listen();
    let child = match spawn(name, rest) {
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
        // SAFETY: the kernel writes one integer to `status`, which outlives the call.
        let ended = unsafe { libc::waitpid(-1, &mut status, 0) };
        if ended == pid {
            return code_of(ExitStatus::from_raw(status));
        }
        if ended < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 1;
        }
    }
}

/// Starts a program with the default action of SIGTTOU, which this process ignores.
pub fn spawn(name: &str, rest: &[String]) -> io::Result<Child> {
    let mut command = Command::new(name);
    // SAFETY: the closure makes one async-signal-safe call and allocates nothing, which is allowed
    // between fork and exec.
    unsafe {
        command.args(rest).pre_exec(|| {
            default_sigttou();
            Ok(())
        });
    }
    command.spawn()
}

/// Whether an executable file of that name exists, in `$PATH` if the name has no slash.
pub fn found(name: &str) -> bool {
    let runs = |path: &str| {
        c_string(path).is_ok_and(|path| {
            // SAFETY: `path` is a C string that outlives the call.
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

/// Forks this process, which must have one thread; `true` in the child.
pub fn fork() -> io::Result<bool> {
    // SAFETY: the process has one thread, which every caller ensures, so the child holds no lock of
    // another thread.
    check(unsafe { libc::fork() }).map(|pid| pid == 0)
}

/// Replaces a standard descriptor (0, 1 or 2).
fn redirect(standard: c_int, to: BorrowedFd) {
    // SAFETY: `to` is open, and the standard descriptors are not owned by any value of Rust.
    unsafe { libc::dup2(to.as_raw_fd(), standard) };
}

/// Redirects the standard output of this process.
pub fn become_stdout(to: BorrowedFd) {
    redirect(1, to);
}

fn new_session() -> io::Result<()> {
    // SAFETY: the call takes no arguments.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Forks a child that continues in a new session with `/dev/null` as its standard streams. Returns
/// `true` in the child and `false` in the parent. The process must have a single thread.
pub fn go_on_apart() -> io::Result<bool> {
    if !fork()? {
        return Ok(false);
    }
    let _ = new_session();
    if let Ok(null) = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        for standard in 0..3 {
            redirect(standard, null.as_fd());
        }
    }
    Ok(true)
}

/// Detaches this process: a child continues in a new session, and ignores the signals of a
/// terminal. The calling process ends here. It must have a single thread.
pub fn outlive() -> io::Result<()> {
    new_session()?;
    if !fork()? {
        // SAFETY: the call does not return; buffers of the standard library belong to the child.
        unsafe { libc::_exit(0) };
    }
    // SIGCHLD is ignored too, so that the kernel reaps children.
    ignore(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGTSTP,
        libc::SIGCHLD,
    ]);
    std::env::set_current_dir("/")
}

/// Ends this process immediately, as a power failure would: for tests.
pub fn die() -> ! {
    signal(std::process::id(), libc::SIGKILL);
    std::process::abort()
}
