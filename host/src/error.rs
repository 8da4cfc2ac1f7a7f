//! Errors that prevent or end a run, each with its remedy.

use narrows_core::engine::{TooShort, UnknownQueue};
use std::fmt;
use std::io;

/// Reason why there is no run.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// A requirement that this host or this user does not meet; nothing was started.
    Missing(String),
    /// A valid scenario has a setting that the kernel does not support, or an argument is wrong;
    /// nothing was started.
    Unlike(String),
    /// An operation failed during the run: the operation, and the error of the kernel.
    Failed(&'static str, io::Error),
    /// A flow failed.
    Broken(String),
    /// The other host does not answer or cannot be reached: the fact, and what to do if it never
    /// answered.
    Silent(String, String),
    /// Stopped by a signal or by the progress callback.
    Stopped,
}

impl HostError {
    /// For `map_err`: the error of an operation.
    pub fn failed(doing: &'static str) -> impl Fn(io::Error) -> HostError {
        move |error| HostError::Failed(doing, error)
    }
    /// Whether the other host was lost, so that observations until then remain valid: the reason.
    pub fn loss(&self) -> Option<String> {
        match self {
            HostError::Broken(text) | HostError::Silent(text, _) => Some(text.clone()),
            HostError::Failed(doing, error) if is_outage(error) => {
                Some(format!("{doing}: {error}"))
            }
            _ => None,
        }
    }
}

/// Whether an error of a socket shows that the other host cannot be reached or no longer answers.
/// A refusal is an answer: no server listens at this port.
pub fn is_outage(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::HostUnreachable
            | Kind::TimedOut
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
    )
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
            HostError::Silent(text, advice) => write!(f, "{text}; {advice}"),
            HostError::Failed(doing, error) => write!(f, "{doing}: {error}"),
            HostError::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for HostError {}
