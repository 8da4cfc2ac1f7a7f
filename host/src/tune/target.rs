//! Where a change happens: the tree of files, the network namespace, the place of the journal, and
//! how far to go.

use super::netns::{Namespace, owns_files};
use crate::sys::process;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

/// Where a change happens.
#[derive(Debug)]
pub struct World {
    /// What stands before every path of a file; `/` but in tests.
    pub root: PathBuf,
    /// The directory that was named for journals, below that.
    pub given: Option<String>,
    /// The directory of this namespace's journal, below `root`.
    pub state: String,
    /// The network namespace.
    pub here: Namespace,
    /// Files for the next boot belong to this namespace.
    pub home: bool,
    /// Its name of `ip netns`.
    pub name: Option<String>,
    /// A qdisc that somebody made may be replaced.
    pub replace: bool,
    /// For tests: die after so many steps.
    pub stop_after: Option<u64>,
    /// Steps done.
    pub steps: Cell<u64>,
}

/// Where the journal of a host is.
pub const STATE: &str = "/var/lib/narrows/tune";
/// Where journals of other network namespaces are: gone after a boot, as the namespaces are.
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
    /// Finds out in which namespace this is and where its journal lies. `entered`: it is another
    /// one than the caller's.
    pub fn settle(&mut self, entered: bool) -> io::Result<()> {
        self.here = Namespace::own()?;
        // Whoever names a tree names the files that belong to the network in which he is.
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
    /// The directory in which each other namespace has one.
    pub fn namespaces(&self) -> String {
        self.given.clone().unwrap_or_else(|| VOLATILE.to_string())
    }
    /// Options that must be repeated to find the same journal.
    pub fn options(&self) -> String {
        let state = self.given.as_ref().map(|dir| format!(" --state {dir}"));
        let root =
            (self.root != Path::new("/")).then(|| format!(" --root {}", self.root.display()));
        state.into_iter().chain(root).collect()
    }
    /// The command that does something here.
    pub fn command(&self, verb: &str) -> String {
        let netns = self.name.as_ref().map(|name| format!(" --netns {name}"));
        format!(
            "narrows tune {verb}{}{}",
            netns.unwrap_or_default(),
            self.options()
        )
    }
    /// One more thing was done that lasts. Everything that lasts calls this, so that a test can
    /// have the process die after each.
    pub fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.stop_after == Some(self.steps.get()) {
            process::die();
        }
    }
}
