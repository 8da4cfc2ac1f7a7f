//! The dead man's switch: a process of its own that undoes everything unless somebody confirms in time.
//!
//! It is started, and has said that it is there, before anything is changed. It belongs to no terminal and to no parent, so the end of
//! the session in which the change was made (by that change, perhaps) does not end it. Told to end (SIGTERM), it undoes at once.

use super::engine::{revert_top, Foreign};
use super::journal::{boot, Journal, Phase, Store};
use super::place;
use super::world::World;
use crate::{sys, HostError};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// Between two looks.
const LOOK: u64 = 200_000_000;
const READY: &str = "watching";

/// Starts it for a journal; it is at work when this returns.
pub fn start(world: &World, journal: &Journal) -> Result<(), HostError> {
    let failed = HostError::failed("the process that would undo the change");
    let program = std::env::current_exe().map_err(&failed)?;
    let mut command = Command::new(program);
    command.args(["tune", "watch", "--id", &journal.id, "--state", &world.state]);
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
    // The process that was started ends at once; its child's child watches.
    child.wait().map_err(&failed)?;
    if line.trim() == READY {
        return Ok(());
    }
    Err(HostError::Broken(
        "the process that would undo the change did not start; nothing was changed".to_string(),
    ))
}

/// Is it.
pub fn run(world: &World, id: &str) -> Result<(), HostError> {
    place::outlive().map_err(HostError::failed("a session of its own"))?;
    sys::remember_end();
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")
        .and_then(|()| out.flush())
        .map_err(HostError::failed("stdout"))?;
    // Whoever waits for the end of our output must not wait for us.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Ok(null) = null {
        place::become_stdout(null.as_fd());
    }
    loop {
        let at = sys::monotonic() + LOOK;
        match deadline(world, id)? {
            None => return Ok(()),
            Some(deadline) if place::since_boot() as f64 / 1e9 >= deadline || sys::stopped() => return undo(world, id),
            Some(_) => sys::sleep_until(at),
        }
    }
}

/// When; `None`: nobody waits any more. The journal is replaced in one step, so it can be read without its lock.
fn deadline(world: &World, id: &str) -> Result<Option<f64>, HostError> {
    let journal = Store::peek(world)?;
    let journal = journal.filter(|j| j.id == id && matches!(j.phase, Phase::Unconfirmed | Phase::Applying));
    Ok(journal
        .and_then(|j| j.deadline)
        .filter(|(_, boot_)| *boot_ == boot())
        .map(|(at, _)| at))
}

fn undo(world: &World, id: &str) -> Result<(), HostError> {
    let Some(store) = Store::open(world, false)? else {
        return Ok(());
    };
    // Now nobody else is at work: is it still to be done?
    if deadline(world, id)?.is_none() {
        return Ok(());
    }
    let Some(mut journal) = store.read()? else {
        return Ok(());
    };
    // Only this plan; what was in order before stays.
    revert_top(&store, &mut journal, world, Foreign::Leave).map(drop)
}
