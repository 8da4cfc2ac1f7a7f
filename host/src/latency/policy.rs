//! How a thread of a latency test asks its host to be served: one policy each, named on the command line.

use crate::HostError;
use std::os::fd::OwnedFd;

/// A policy, ready to be entered by a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    text: String,
    spin: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            text: "default".into(),
            spin: false,
        }
    }
}

/// What a thread holds while it works under a policy; dropping it gives everything back.
#[derive(Debug)]
pub struct Guard(());

impl Policy {
    /// From its name: `default`, or `spin`, which asks again and again instead of sleeping.
    pub fn parse(text: &str) -> Result<Policy, String> {
        match text {
            "default" | "spin" => Ok(Policy {
                text: text.into(),
                spin: text == "spin",
            }),
            _ => Err(format!("{text} is no policy; one of default spin")),
        }
    }
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Does the thread ask again and again instead of sleeping?
    pub fn spins(&self) -> bool {
        self.spin
    }
    /// What a socket is to be told.
    pub fn apply(&self, _socket: &OwnedFd) -> Result<(), HostError> {
        Ok(())
    }
    /// From now on this thread works so.
    pub fn enter(&self) -> Result<Guard, HostError> {
        Ok(Guard(()))
    }
}
