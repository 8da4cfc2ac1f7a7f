//! The watchdog of an unconfirmed plan: two processes that revert the plan at the deadline unless
//! the user confirms it.
//!
//! The process that reaches the deadline first reverts. If one of the two processes is killed, the
//! other one starts a new one, so `kill -9` of one process does not end the watchdog. If both are
//! killed or stopped (SIGSTOP) at the same time, there is no automatic revert, and `verify` reports
//! that. An automatic revert is recorded in `undone.log` beside the journal, and in the system's
//! log.
//!
//! No change is made before the watchdog has reported that it runs. The watchdog has its own
//! session, and no terminal. The watchdog therefore continues when the login in which the change
//! was made ends, perhaps because of the change. At SIGTERM, the watchdog reverts at once.

use super::engine::{Foreign, revert_top};
use super::journal::{Deadline, Journal, Phase, Store};
use super::netns::Namespace;
use crate::HostError;
use crate::sys;
use crate::sys::process;
use crate::tune::target::World;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

/// Interval between two checks of the deadline, ns.
const LOOK: u64 = 200_000_000;
const READY: &str = "watching";

/// Starts the watchdog of a journal, and returns when it runs.
pub fn start(world: &World, journal: &Journal) -> Result<(), HostError> {
    let failed = HostError::failed("the watchdog of the change");
    let program = std::env::current_exe().map_err(&failed)?;
    let mut command = Command::new(program);
    command.args([
        "tune",
        "watch",
        "--id",
        &journal.id,
        "--state",
        &world.state,
    ]);
    command.arg("--root").arg(&world.root);
    let (ours, theirs) = (Stdio::piped(), Stdio::null());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(ours)
        .stderr(theirs)
        .spawn()
        .map_err(&failed)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(&failed)?;
    }
    // The started process ends at once; its descendants are the watchdog.
    child.wait().map_err(&failed)?;
    if line.trim() == READY {
        return Ok(());
    }
    Err(HostError::Broken(
        "the watchdog of the change did not start; nothing was changed".to_string(),
    ))
}

/// Runs the watchdog as two processes. Each of them reverts the plan at the deadline, and starts a
/// new process if the other one was killed.
pub fn run(world: &World, id: &str) -> Result<(), HostError> {
    process::outlive().map_err(HostError::failed("a session of its own"))?;
    sys::remember_end();
    // Both processes hold the lock of the file, so that `verify` sees whether one of them exists.
    let held = Store::hold_watch(world).map_err(HostError::failed("the journal's directory"))?;
    let (partner, second) = paired().map_err(HostError::failed("a second process"))?;
    if !second {
        let mut out = std::io::stdout();
        writeln!(out, "{READY}")
            .and_then(|()| out.flush())
            .map_err(HostError::failed("stdout"))?;
    }
    // A reader of this output must not wait for the watchdog.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Ok(null) = null {
        process::become_stdout(null.as_fd());
    }
    let done = watch(world, id, partner);
    drop(held);
    done
}

/// Forks this process. Returns, in each process, its end of a connection to the other one, and
/// whether it is the child.
fn paired() -> std::io::Result<(UnixStream, bool)> {
    let (ours, theirs) = UnixStream::pair()?;
    for end in [&ours, &theirs] {
        end.set_nonblocking(true)?;
    }
    let second = process::fork()?;
    Ok((if second { theirs } else { ours }, second))
}

/// The watchdog processes of a journal that are visible in `/proc`.
#[derive(Debug)]
pub struct Watching {
    held: bool,
    processes: Vec<(u32, &'static str)>,
}

impl Watching {
    /// Returns the watchdogs of the journal `id`. `held` states whether some process holds the file
    /// of the watchdogs.
    pub fn of(id: &str, held: bool) -> Watching {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut processes: Vec<_> = pids
            .filter_map(|pid| Some((pid, state_of(pid, id)?)))
            .collect();
        processes.sort_unstable();
        Watching { held, processes }
    }
    /// Whether a watchdog can revert. From another PID namespace its processes are not visible;
    /// then the lock of the file decides.
    pub fn works(&self) -> bool {
        self.held
            && (self.processes.is_empty()
                || self.processes.iter().any(|(_, state)| *state == RUNNING))
    }
    /// Returns the process IDs and states of the watchdogs.
    pub fn to_json(&self) -> Value {
        let one = |(pid, state): &(u32, &str)| json!({ "pid": pid, "state": state });
        self.processes.iter().map(one).collect()
    }
}

const RUNNING: &str = "running";

/// The state of a watchdog process: running, stopped or zombie; `None` if `pid` is no watchdog of
/// the journal `id`.
fn state_of(pid: u32, id: &str) -> Option<&'static str> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let has = |wanted: &str| {
        words
            .split(|byte| *byte == 0)
            .any(|word| word == wanted.as_bytes())
    };
    if !(has("watch") && has(id)) {
        return None;
    }
    // The state follows the name of the program, which may contain any character
    // (proc_pid_stat(5)). A zombie has closed its files, so it holds no lock.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    match stat.rsplit_once(')')?.1.trim_start().chars().next()? {
        'T' | 't' => Some("stopped"),
        'Z' | 'X' => Some("zombie"),
        _ => Some(RUNNING),
    }
}

fn watch(world: &World, id: &str, mut partner: UnixStream) -> Result<(), HostError> {
    loop {
        let at = sys::monotonic() + LOOK;
        let Some(deadline) = deadline(world, id)? else {
            return Ok(());
        };
        if sys::stopped() {
            return undo(
                world,
                id,
                "the watchdog received SIGTERM, as at a logout or a shutdown",
            );
        }
        if deadline.remains().is_none_or(|seconds| seconds <= 0.0) {
            return undo(
                world,
                id,
                &format!("nobody confirmed it within {} s", deadline.within),
            );
        }
        // The connection ends when the other process ends. If no new process can be started, the
        // next check tries again.
        if matches!(partner.read(&mut [0]), Ok(0)) {
            if let Ok((next, _)) = paired() {
                partner = next;
            }
        }
        sys::sleep_until(at);
    }
}

/// The deadline of the journal `id`; `None` if no confirmation is pending. The journal is replaced
/// atomically, so `watch` and `undo` read it without a lock.
fn deadline(world: &World, id: &str) -> Result<Option<Deadline>, HostError> {
    let journal = Store::peek(world, &world.state)?;
    let journal =
        journal.filter(|j| j.id == id && matches!(j.phase, Phase::Unconfirmed | Phase::Applying));
    Ok(journal.and_then(|j| j.deadline))
}

fn undo(world: &World, id: &str, why: &str) -> Result<(), HostError> {
    let Some(store) = Store::open(world, false)? else {
        return Ok(());
    };
    // Checks again with the lock, since the plan may have been confirmed meanwhile.
    if deadline(world, id)?.is_none() {
        return Ok(());
    }
    let Some(mut journal) = store.read()? else {
        return Ok(());
    };
    // Only the unconfirmed plan is reverted; earlier plans stay in effect.
    let done = revert_top(&store, &mut journal, world, Foreign::Leave, false);
    let (notes, error) = match &done {
        Ok((notes, None)) => (notes.clone(), None),
        Ok((notes, Some(error))) => (notes.clone(), Some(error.to_string())),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let entry = json!({
        "at": crate::measure::report::now(),
        "id": journal.id,
        "title": journal.title,
        "namespace": journal.namespace.as_ref().map(Namespace::described),
        "why": why,
        "notes": notes,
        "error": error,
    });
    // A failure to write the log does not change the result.
    let _ = store.log(&entry);
    let outcome = error.map_or("everything is as it was before".to_string(), |error| {
        format!("not everything: {error}")
    });
    let _ = to_syslog(
        world,
        &format!("reverted {:?}: {why}; {outcome}", journal.title),
    );
    done.map(drop)
}

/// Sends a line to the system's log, with facility daemon and severity warning (RFC 3164).
fn to_syslog(world: &World, text: &str) -> std::io::Result<()> {
    const DAEMON_WARNING: u8 = 3 << 3 | 4;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let socket = UnixDatagram::unbound()?;
    let message = format!("<{DAEMON_WARNING}>narrows[{}]: {line}", std::process::id());
    socket.set_nonblocking(true)?;
    socket
        .send_to(message.as_bytes(), world.root.join("dev/log"))
        .map(drop)
}
