//! Why there is no run, in one sentence with the cure.

use narrows_core::units::{format_span, Span};
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
    pub(crate) fn interval(of: &str, interval: Span, least: Span) -> HostError {
        let (interval, least) = (format_span(interval), format_span(least));
        HostError::Unlike(format!(
            "an interval of \"{interval}\" between {of} is too short for this run; \"{least}\" fits"
        ))
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Missing(text) | HostError::Unlike(text) | HostError::Broken(text) => write!(f, "{text}"),
            HostError::Failed(doing, error) => write!(f, "{doing}: {error}"),
            HostError::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for HostError {}
