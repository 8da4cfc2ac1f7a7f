//! The target of a change: file tree, network namespace, and directory of the journal.

use super::netns::{Namespace, owns_files};
use crate::sys::process;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

/// The target of a change.
#[derive(Debug)]
pub struct World {
    /// The root of all files; `/` except in tests.
    pub root: PathBuf,
    /// The directory for journals given by `--state`, below `root`.
    pub given: Option<String>,
    /// The directory of this namespace's journal, below `root`.
    pub state: String,
    /// The network namespace of this process.
    pub here: Namespace,
    /// Whether files for the next boot may be written from this namespace.
    pub home: bool,
    /// The name of the namespace in `ip netns`; `None` if it has none, or if `home`.
    pub name: Option<String>,
    /// Whether queue disciplines of other programs may be replaced.
    pub replace: bool,
    /// For tests: the number of steps after which the process dies.
    pub stop_after: Option<u64>,
    /// Number of steps done.
    pub steps: Cell<u64>,
}

/// Directory of a host's journal.
pub const STATE: &str = "/var/lib/narrows/tune";
/// Directory of the journals of other network namespaces. Like these namespaces, it does not
/// persist over a boot.
pub const VOLATILE: &str = "/run/narrows/tune";

impl Default for World {
    fn default() -> World {
        World {
            root: PathBuf::from("/"),
            given: None,
            state: STATE.to_string(),
            here: Namespace::default(),
            home: true,
            name: None,
            replace: false,
            stop_after: None,
            steps: Cell::new(0),
        }
    }
}

impl World {
    /// Determines the network namespace of this process and the directory of its journal.
    /// `entered`: this process has entered another namespace than that of its caller.
    pub fn settle(&mut self, entered: bool) -> io::Result<()> {
        self.here = Namespace::own()?;
        // A root given by `--root` contains the files of the network namespace that the caller is
        // in.
        let named = self.root != Path::new("/") && !entered;
        self.home = named || owns_files(&self.here);
        self.name = (!self.home).then(|| self.here.name()).flatten();
        self.state = if self.home {
            self.hosts()
        } else {
            format!("{}/{}", self.namespaces(), self.here.directory())
        };
        Ok(())
    }
    /// The directory of the host's own journal.
    pub fn hosts(&self) -> String {
        self.given.clone().unwrap_or_else(|| STATE.to_string())
    }
    /// The directory that contains the journal directories of the other namespaces.
    pub fn namespaces(&self) -> String {
        self.given.clone().unwrap_or_else(|| VOLATILE.to_string())
    }
    /// The options `--state` and `--root` that select the same directories, for printed commands.
    pub fn options(&self) -> String {
        let state = self.given.as_ref().map(|dir| format!(" --state {dir}"));
        let root =
            (self.root != Path::new("/")).then(|| format!(" --root {}", self.root.display()));
        state.into_iter().chain(root).collect()
    }
    /// The command line that runs `narrows tune VERB` for this target.
    pub fn command(&self, verb: &str) -> String {
        let netns = self.name.as_ref().map(|name| format!(" --netns {name}"));
        format!(
            "narrows tune {verb}{}{}",
            netns.unwrap_or_default(),
            self.options()
        )
    }
    /// Counts a step that changes a file or the kernel's state. With `stop_after`, the process dies
    /// after that number of steps, as at a power failure.
    pub fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.stop_after == Some(self.steps.get()) {
            process::die();
        }
    }
}
