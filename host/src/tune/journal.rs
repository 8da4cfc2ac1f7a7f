//! The journal: a file with the changes of a plan and the values before them, written before
//! anything is changed.
//!
//! The journal is written as a whole, synced and renamed into place *before* the first change. The
//! progress of a plan is not recorded, since the present values show it. A value that is still the
//! old one needs no action, and a new one is restored. The process may therefore end between any
//! two steps, and a later [`revert`](super::engine::revert) restores all values.
//!
//! If a plan is applied while another is in effect, its journal contains that of the earlier plan.
//! A revert restores the later plan first, then the earlier one.

use super::netns::{Namespace, boot};
use super::plan::{Change, grouped, namespace};
use super::safe_file::{Dir, Found, LONGEST};
use crate::HostError;
use crate::sys;
use crate::tune::target::{VOLATILE, World};
use serde_json::{Value, json};
use std::fs::File;

const VERSION: u64 = 1;
const NAME: &str = "journal.json";
/// A file that is locked as long as a watchdog process exists.
const WATCHED: &str = "watch.lock";
/// The log of automatic reverts, with one JSON object per line.
pub const UNDONE: &str = "undone.log";
/// Number of bytes by which a journal may grow after its first write: names of phases, times.
const ROOM: usize = 4096;
/// Limit of nested journals. The JSON parser limits the nesting, too.
const DEEPEST: usize = 16;

/// The phase of a journal.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Changes are being made. If no process is making them, it was interrupted.
    Applying,
    /// The changes of the running system are made and wait for confirmation. Files for the next
    /// boot are not written yet.
    Unconfirmed,
    /// The changes are complete.
    Applied,
    /// The changes are being reverted.
    Reverting,
}

const PHASES: [(&str, Phase); 4] = [
    ("applying", Phase::Applying),
    ("unconfirmed", Phase::Unconfirmed),
    ("applied", Phase::Applied),
    ("reverting", Phase::Reverting),
];

/// A change and the value before it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The change.
    pub change: Change,
    /// The live value before it.
    pub before: Value,
}

/// The deadline by which a plan must be confirmed.
#[derive(Clone, PartialEq, Debug)]
pub struct Deadline {
    /// Time since the boot, s.
    pub at: f64,
    /// The boot that `at` refers to (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Time from the start to the deadline, s.
    pub within: f64,
}

impl Deadline {
    /// Returns the deadline that is `seconds` from now.
    pub fn within(seconds: f64) -> Deadline {
        Deadline {
            at: now() + seconds,
            boot: boot(),
            within: seconds,
        }
    }
    /// Time until the deadline, s; negative after the deadline, `None` if the host has booted
    /// since.
    pub fn remains(&self) -> Option<f64> {
        (self.boot == boot()).then(|| self.at - now())
    }
}

/// Time since the boot, s.
fn now() -> f64 {
    crate::sys::since_boot() as f64 / 1e9
}

/// The journal of one plan.
#[derive(Clone, Debug)]
pub struct Journal {
    /// The identifier of the plan.
    pub id: String,
    /// The phase of the plan.
    pub phase: Phase,
    /// Time at which the plan was applied, UTC.
    pub made: String,
    /// The title of the plan, which states its purpose.
    pub title: String,
    /// Name of the network namespace given by the option `--netns` or by the plan, if any.
    pub netns: Option<String>,
    /// The network namespace in which the plan was applied; `None` in journals of earlier versions,
    /// which always belong to the host.
    pub namespace: Option<Namespace>,
    /// The deadline of the confirmation; `None` if none is pending or required.
    pub deadline: Option<Deadline>,
    /// The changes of the plan in order.
    pub entries: Vec<Entry>,
    /// The journal of the plan that was in effect when this one was applied.
    pub below: Option<Box<Journal>>,
}

impl Journal {
    /// A new journal without changes, in the phase `Applying`.
    pub fn new(title: String, netns: Option<String>, namespace: Namespace) -> Journal {
        let seed = [
            sys::realtime().to_ne_bytes(),
            u64::from(std::process::id()).to_ne_bytes(),
        ]
        .concat();
        Journal {
            id: super::to_hex(&seed[..12]),
            phase: Phase::Applying,
            made: crate::measure::report::now(),
            title,
            netns,
            namespace: Some(namespace),
            deadline: None,
            entries: Vec::new(),
            below: None,
        }
    }
    fn to_json(&self) -> Value {
        let phase = PHASES
            .iter()
            .find(|(_, p)| *p == self.phase)
            .map_or("", |(name, _)| name);
        let entry = |e: &Entry| json!({ "change": e.change.json, "before": e.before });
        json!({
            "journal": VERSION,
            "narrows": env!("CARGO_PKG_VERSION"),
            "id": self.id,
            "phase": phase,
            "made": self.made,
            "title": self.title,
            "netns": self.netns,
            "namespace": self.namespace.as_ref().map(Namespace::to_json),
            "deadline": self.deadline.as_ref().map(|d| json!({ "uptime_s": d.at, "boot": d.boot,
            "within_s": d.within })),
            "entries": self.entries.iter().map(entry).collect::<Vec<_>>(),
            "below": self.below.as_ref().map(|below| below.to_json()),
        })
    }
    /// Reads the JSON of a journal; the error states what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Journal, String> {
        let json: Value = serde_json::from_slice(bytes).map_err(|e| format!("not JSON: {e}"))?;
        Journal::read(&json, DEEPEST)
    }
    fn read(json: &Value, deep: usize) -> Result<Journal, String> {
        let deep = deep.checked_sub(1).ok_or("too many nested plans")?;
        if json["journal"].as_u64() != Some(VERSION) {
            return Err(format!("its format is not {VERSION}"));
        }
        let text = |key: &str| json[key].as_str().map(str::to_string);
        let need = |key: &str| text(key).ok_or_else(|| format!("{key} is missing"));
        let phase = need("phase")?;
        let phase = PHASES.iter().find(|(name, _)| *name == phase);
        let entry = |e: &Value| {
            let mut changes = grouped(std::slice::from_ref(&e["change"]))?;
            match (changes.pop(), changes.is_empty()) {
                (Some(change), true) => Ok(Entry {
                    change,
                    before: e["before"].clone(),
                }),
                _ => Err("an entry has no change, or several".to_string()),
            }
        };
        let entries = json["entries"].as_array().ok_or("entries are missing")?;
        let netns = text("netns");
        if netns.as_deref().is_some_and(|name| !namespace(name)) {
            return Err("netns is not a name".to_string());
        }
        let namespace = match &json["namespace"] {
            Value::Null => None,
            told => Some(Namespace::from_json(told).ok_or("namespace is none")?),
        };
        let deadline = &json["deadline"];
        let until = deadline["uptime_s"].as_f64().zip(deadline["boot"].as_str());
        Ok(Journal {
            id: need("id")?,
            phase: phase.ok_or("its phase is unknown")?.1,
            made: need("made")?,
            title: need("title")?,
            netns,
            namespace,
            deadline: until.map(|(at, boot)| Deadline {
                at,
                boot: boot.to_string(),
                within: deadline["within_s"].as_f64().unwrap_or(0.0),
            }),
            entries: entries.iter().map(entry).collect::<Result<_, String>>()?,
            below: match &json["below"] {
                Value::Null => None,
                below => Some(Box::new(Journal::read(below, deep)?)),
            },
        })
    }
    fn bytes(&self) -> Vec<u8> {
        format!("{:#}\n", self.to_json()).into_bytes()
    }
    /// Whether the journal belongs to the network namespace of `world`.
    pub fn is_here(&self, world: &World) -> bool {
        match &self.namespace {
            Some(namespace) => namespace.is(&world.here),
            None => world.home,
        }
    }
    /// Whether the host has booted since the plan was applied.
    pub fn is_of_another_boot(&self) -> bool {
        self.namespace
            .as_ref()
            .is_some_and(Namespace::ended_with_its_boot)
    }
    /// Whether the journal is short enough to be read again (1 MiB); one that cannot be read would
    /// prevent a revert.
    pub fn fits(&self) -> bool {
        self.bytes().len() + ROOM <= LONGEST as usize
    }
    /// Number of journals nested in this one.
    pub fn depth(&self) -> usize {
        self.below.as_ref().map_or(0, |below| 1 + below.depth())
    }
    /// Whether another plan may be applied while this one is in effect: the number of nested
    /// journals is limited.
    pub fn may_be_covered(&self) -> bool {
        self.depth() + 2 < DEEPEST
    }
}

/// The directory of the journal, which is locked until this value is dropped.
#[derive(Debug)]
pub struct Store<'a> {
    world: &'a World,
    dir: Dir,
    _lock: File,
}

impl<'a> Store<'a> {
    /// Opens and locks the directory; `None` if it does not exist. With `make`, the directory is
    /// created.
    pub fn open(world: &'a World, make: bool) -> Result<Option<Store<'a>>, HostError> {
        let failed = |e: std::io::Error| {
            let denied = e.kind() == std::io::ErrorKind::PermissionDenied && sys::ids().0 != 0;
            let fix = if denied {
                "changing a host needs root (sudo)"
            } else {
                "select another directory of the journal with --state DIR"
            };
            HostError::Unlike(format!("{e}\n    {fix}"))
        };
        let dir = Dir::open(&world.root, &world.state, make.then_some(0o700)).map_err(failed)?;
        let Some(dir) = dir else { return Ok(None) };
        if make {
            world.step();
        }
        if !dir.is_private().map_err(failed)? {
            return Err(HostError::Unlike(format!(
                "{0}: users other than its owner have access; chmod 0700 {0}",
                world.state
            )));
        }
        let lock = dir.lock().map_err(failed)?;
        Ok(Some(Store {
            world,
            dir,
            _lock: lock,
        }))
    }
    /// Reads the journal in the directory `state` without a lock.
    pub fn peek(world: &World, state: &str) -> Result<Option<Journal>, HostError> {
        let dir = Dir::open(&world.root, state, None).map_err(HostError::failed("the journal"))?;
        dir.map_or(Ok(None), |dir| journal_of(&dir, world, state))
    }
    /// Reads the journal; `None` if there is none, or if it was written by an earlier namespace
    /// with the same inode.
    pub fn read(&self) -> Result<Option<Journal>, HostError> {
        let journal = journal_of(&self.dir, self.world, &self.world.state)?;
        Ok(journal.filter(|journal| self.world.home || journal.is_here(self.world)))
    }
    /// Creates a marker file in `/run/narrows/tune`, which states that the journal `id` is being
    /// reverted. It is used if the disk has no space for the journal.
    pub fn mark_reverting(&self, id: &str) {
        let dir = Dir::open(&self.world.root, VOLATILE, Some(0o755));
        let _ = dir.map(|dir| dir.map(|dir| dir.mark(&reverting(id))));
    }
    /// Removes the marker of [`mark_reverting`](Self::mark_reverting).
    pub fn forget_reverting(&self, id: &str) {
        let dir = Dir::open(&self.world.root, VOLATILE, None);
        let _ = dir.map(|dir| dir.map(|dir| dir.remove(&reverting(id))));
    }
    /// Locks the file of the watchdogs until the result is dropped; `None` if the directory does
    /// not exist.
    pub fn hold_watch(world: &World) -> std::io::Result<Option<File>> {
        let dir = Dir::open(&world.root, &world.state, None)?;
        dir.map(|dir| dir.hold(WATCHED)).transpose()
    }
    /// Whether a process holds the lock of the watchdogs.
    pub fn is_watched(&self) -> bool {
        self.dir.is_held(WATCHED).unwrap_or(false)
    }
    /// Appends a line about an automatic revert to `undone.log`.
    pub fn log(&self, entry: &Value) -> std::io::Result<()> {
        self.dir.append(UNDONE, &format!("{entry}\n"))
    }
    /// The last line of `undone.log`.
    pub fn last_undone(&self) -> Option<Value> {
        let file = self.dir.read(UNDONE).ok()??;
        let text = String::from_utf8(file.bytes).ok()?;
        serde_json::from_str(text.lines().next_back()?).ok()
    }
    /// Writes the journal; `None` removes it.
    pub fn write(&self, journal: Option<&Journal>) -> Result<(), HostError> {
        let done = match journal {
            Some(journal) => {
                let file = Found {
                    bytes: journal.bytes(),
                    mode: 0o600,
                    owner: sys::ids(),
                };
                self.dir.replace(NAME, &file, &mut || self.world.step())
            }
            None => self.dir.remove(NAME),
        };
        done.map_err(HostError::failed("the journal"))?;
        if journal.is_none_or(|journal| journal.deadline.is_none()) {
            let _ = self.dir.remove(WATCHED);
        }
        self.world.step();
        Ok(())
    }
}

/// The name of the marker file for a journal that is being reverted.
fn reverting(id: &str) -> String {
    let safe = |c: &char| c.is_ascii_alphanumeric();
    format!(
        "reverting-{}",
        id.chars().filter(safe).take(64).collect::<String>()
    )
}

fn journal_of(dir: &Dir, world: &World, state: &str) -> Result<Option<Journal>, HostError> {
    let place = format!("{state}/{NAME}");
    let file = dir
        .read(NAME)
        .map_err(|e| HostError::Unlike(e.to_string()))?;
    let Some(file) = file else { return Ok(None) };
    if file.mode & 0o077 != 0 {
        return Err(HostError::Unlike(format!(
            "{place}: other users have access; chmod 0600 {place}"
        )));
    }
    let mut journal = Journal::parse(&file.bytes).map_err(|e| {
        HostError::Unlike(format!(
            "{place}: not a journal of this version of \
         narrows: {e}"
        ))
    })?;
    let volatile = Dir::open(&world.root, VOLATILE, None).ok().flatten();
    if volatile.is_some_and(|dir| matches!(dir.read(&reverting(&journal.id)), Ok(Some(_)))) {
        journal.phase = Phase::Reverting;
    }
    Ok(Some(journal))
}
