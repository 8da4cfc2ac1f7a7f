//! `narrows-host with`: runs one program and its children with another congestion control. Other
//! programs of the host are not affected.
//!
//! When the program or one of its children creates a TCP socket, [`seccomp_notify`] passes the
//! system call to this process. This process creates the socket, sets the congestion control, and
//! returns the socket to the caller. An accepted connection inherits the congestion control of its
//! listening socket. The command needs no privilege, unless the congestion control is restricted to
//! root. It changes no setting of the host. It returns when the program ends, and continues in the
//! background until the program's last process ends.

use crate::HostError;
use crate::arguments::{Argument, Arguments};
use crate::sys;
use crate::sys::kernel;
use crate::sys::process;
use crate::sys::seccomp_notify;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;

/// The usage text.
pub const USAGE: &str = "\
narrows-host with --cc NAME -- COMMAND...
    Run COMMAND, and use another congestion control for the TCP connections that COMMAND opens.

  --cc NAME   congestion control, such as bbr
";

/// Longest wait for a system call, ms. It is also the largest delay of a forwarded signal.
const PATIENCE: i32 = 100;
/// Exit codes of shells for a program that was not found, and for one that is not executable.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

fn asked(args: impl Iterator<Item = String>) -> Result<(String, Vec<String>), String> {
    let (mut cc, mut command) = (None, Vec::new());
    let mut args = Arguments::new(args, USAGE);
    while let Some(arg) = args.next_argument()? {
        match arg {
            Argument::Option(_) => cc = Some(args.value()?),
            Argument::Rest(words) => command = words,
            Argument::Operand(word) => {
                return Err(format!(
                    "{word}: unexpected operand; write -- before the command\n\n{USAGE}"
                ));
            }
        }
    }
    let cc = cc.ok_or_else(|| args.missing("--cc", "narrows with --cc bbr -- COMMAND"))?;
    if command.is_empty() {
        return Err(args.missing("COMMAND", &format!("narrows with --cc {cc} -- COMMAND")));
    }
    Ok((cc, command))
}

/// Checks, before the program is started, that this user may select the congestion control.
fn check(cc: &str) -> Result<(), HostError> {
    let probe = sys::tcp((std::net::Ipv4Addr::UNSPECIFIED, 0).into());
    let probe = probe.map_err(HostError::failed("a socket of TCP"))?;
    let Err(error) = sys::choose_cc(&probe, cc) else {
        return Ok(());
    };
    let known = kernel::ccs();
    let list = |names: &[String]| names.join(", ");
    Err(HostError::Missing(match error.raw_os_error() {
        Some(libc::EPERM) => format!(
            "{cc}: only root may select it here; other users may select {}; root can permit it: \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {cc}\"",
            list(&known.allowed),
            known.allowed.join(" ")
        ),
        _ if known.loadable.iter().any(|name| name == cc) => {
            format!("{cc}: its module is not loaded; root can load it: modprobe tcp_{cc}")
        }
        _ => format!(
            "{cc}: this kernel has no such congestion control; select one of {}",
            list(&known.available)
        ),
    }))
}

/// The error if the seccomp filter cannot be installed. It names an alternative.
fn refused(error: &io::Error) -> HostError {
    let why = match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "this process already has such a filter (of another `narrows with`, or of a sandbox)"
        }
        Some(libc::ENOSYS | libc::EINVAL) | None => {
            "this kernel has no seccomp notifications (Linux 5.9 or later is required)"
        }
        _ => "seccomp is not permitted here",
    };
    HostError::Missing(format!(
        "{why}: {error}; set it by destination instead: narrows tune plan --cc NAME --to PREFIX"
    ))
}

/// The inode of the network namespace of a process (`pid` is `None`: of this process); `None` if it
/// cannot be read.
fn space(pid: Option<u32>) -> Option<u64> {
    let whose = pid.map_or("self".to_string(), |pid| pid.to_string());
    fs::metadata(format!("/proc/{whose}/ns/net"))
        .ok()
        .map(|file| file.ino())
}

/// Effective user ID and group ID of a process.
fn ids_of(pid: u32) -> Option<(u32, u32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let second = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((second("Uid:")?, second("Gid:")?))
}

struct SocketFactory {
    cc: String,
    own_space: Option<u64>,
    own_ids: (u32, u32),
    warned: bool,
}

impl SocketFactory {
    fn warn(&mut self, what: &str) {
        if !self.warned {
            crate::terminal::say(format!("narrows with: {what}"));
            self.warned = true;
        }
    }

    /// Creates the requested socket in the network namespace of the calling process.
    fn make(&self, asked: &seccomp_notify::Asked) -> io::Result<OwnedFd> {
        if space(Some(asked.pid)) == self.own_space {
            return seccomp_notify::socket(asked);
        }
        let there: OwnedFd = fs::File::open(format!("/proc/{}/ns/net", asked.pid))?.into();
        thread::scope(|scope| {
            let made = scope
                .spawn(|| sys::enter_network(&there).and_then(|()| seccomp_notify::socket(asked)));
            made.join()
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }

    fn serve(&mut self, listener: &OwnedFd, asked: &seccomp_notify::Asked) {
        let socket = match self.make(asked) {
            Ok(socket) => socket,
            // The namespace cannot be entered: the kernel executes the caller's system call.
            Err(error) if space(Some(asked.pid)) != self.own_space => {
                self.warn(&format!(
                    "process {} is in another network namespace, which cannot be entered \
                     ({error}); it uses the default there",
                    asked.pid
                ));
                return seccomp_notify::let_pass(listener, asked);
            }
            Err(error) => return seccomp_notify::refuse(listener, asked, &error),
        };
        if let Err(error) = sys::choose_cc(&socket, &self.cc) {
            self.warn(&format!(
                "{} could not be selected in process {}: {error}",
                self.cc, asked.pid
            ));
        }
        if self.own_ids.0 == 0 {
            if let Some(ids) = ids_of(asked.pid).filter(|ids| *ids != self.own_ids) {
                let _ = sys::give(&socket, ids.0, ids.1);
            }
        }
        if let Err(error) = seccomp_notify::give(listener, asked, &socket) {
            match error.raw_os_error() {
                Some(libc::EMFILE) => seccomp_notify::refuse(listener, asked, &error),
                // Linux before 5.9 cannot pass a descriptor (`SECCOMP_IOCTL_NOTIF_ADDFD`).
                _ => {
                    self.warn(&format!(
                        "a socket could not be passed to process {}: {error}",
                        asked.pid
                    ));
                    seccomp_notify::let_pass(listener, asked);
                }
            }
        }
    }
}

/// Runs the subcommand; returns the exit code of the program.
pub fn run(args: impl Iterator<Item = String>) -> Result<u8, HostError> {
    let (cc, command) = asked(args).map_err(HostError::Unlike)?;
    check(&cc)?;
    process::listen();
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<io::Result<ExitStatus>>();
    let name = command[0].clone();
    // Only this thread and the processes that it starts have the seccomp filter.
    let starter = thread::spawn(move || {
        let listener = match seccomp_notify::filter() {
            Ok(listener) => listener,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let child = process::spawn(&command[0], &command[1..]);
        let _ = tell.send(Ok((listener, child.as_ref().map(|child| child.id()).ok())));
        let _ = end.send(child.and_then(|mut child| child.wait()));
    });
    let first = told
        .recv()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    let (listener, child) = first.map_err(|error| refused(&error))?;
    let mut factory = SocketFactory {
        cc,
        own_space: space(None),
        own_ids: sys::ids(),
        warned: false,
    };
    let over = loop {
        serve_once(&listener, &mut factory)?;
        if let (Some(signal), Some(child)) = (process::heard(), child) {
            process::signal(child, signal);
        }
        if let Ok(over) = ended.try_recv() {
            break over;
        }
    };
    process::take_terminal_back();
    let _ = starter.join();
    let code = match over {
        Ok(status) => process::code_of(status),
        Err(error) => {
            crate::terminal::say(format!("{name}: {error}"));
            if error.kind() == io::ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_RUNNABLE
            }
        }
    };
    // Processes that the program left running may still create sockets.
    let left = serve_once(&listener, &mut factory)? != seccomp_notify::State::Over;
    if left && process::go_on_apart().map_err(HostError::failed("continuing in the background"))? {
        while !matches!(
            serve_once(&listener, &mut factory),
            Ok(seccomp_notify::State::Over) | Err(_)
        ) {}
    }
    Ok(code)
}

/// Handles one seccomp notification, if one arrives within 100 ms.
fn serve_once(
    listener: &OwnedFd,
    factory: &mut SocketFactory,
) -> Result<seccomp_notify::State, HostError> {
    let state = seccomp_notify::wait(listener, PATIENCE)
        .map_err(HostError::failed("waiting for the program"))?;
    if state == seccomp_notify::State::Asked {
        if let Some(asked) =
            seccomp_notify::receive(listener).map_err(HostError::failed("the program's call"))?
        {
            factory.serve(listener, &asked);
        }
    }
    Ok(state)
}
