//! Where a change happens: the tree of files, the place of the journal, and how far to go.

use super::place;
use std::cell::Cell;
use std::path::PathBuf;

/// Where a change happens.
#[derive(Debug)]
pub struct World {
    /// What stands before every path of a file; `/` but in tests.
    pub root: PathBuf,
    /// The directory of the journal, below that.
    pub state: String,
    /// A qdisc that somebody made may be replaced.
    pub replace: bool,
    /// For tests: die after so many steps.
    pub stop_after: Option<u64>,
    /// Steps done.
    pub steps: Cell<u64>,
}

/// Where journals are.
pub const STATE: &str = "/var/lib/narrows/tune";

impl Default for World {
    fn default() -> World {
        World {
            root: PathBuf::from("/"),
            state: STATE.to_string(),
            replace: false,
            stop_after: None,
            steps: Cell::new(0),
        }
    }
}

impl World {
    /// One more thing was done that lasts. Everything that lasts calls this, so that a test can have the process die after each.
    pub fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.stop_after == Some(self.steps.get()) {
            place::die();
        }
    }
}
