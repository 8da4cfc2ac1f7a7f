//! Why there is no run, in one sentence with the cure.

use narrows_core::engine::{TooShort, UnknownQueue};
use std::fmt;
use std::io;

/// Why there is no run.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// Something that this machine or this user would need; nothing was started.
    Missing(String),
    /// A right scenario says what no kernel can be told; nothing was started.
    Unlike(String),
    /// Something went wrong underway: where, and what the kernel said.
    Failed(&'static str, io::Error),
    /// A flow broke.
    Broken(String),
    /// Ctrl-C, or the progress callback said so.
    Stopped,
}

impl HostError {
    /// For `map_err`: it went wrong while `doing`.
    pub fn failed(doing: &'static str) -> impl Fn(io::Error) -> HostError {
        move |error| HostError::Failed(doing, error)
    }
}

impl From<TooShort> for HostError {
    fn from(error: TooShort) -> HostError {
        HostError::Unlike(error.to_string())
    }
}

impl From<UnknownQueue> for HostError {
    fn from(error: UnknownQueue) -> HostError {
        HostError::Unlike(error.to_string())
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Missing(text) | HostError::Unlike(text) | HostError::Broken(text) => {
                write!(f, "{text}")
            }
            HostError::Failed(doing, error) => write!(f, "{doing}: {error}"),
            HostError::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for HostError {}
