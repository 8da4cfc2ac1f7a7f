//! Errors that prevent or end a run, each with its remedy.

use narrows_core::engine::{TooShort, UnknownQueue};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a command failed or a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// This host, this user or the peer does not meet a requirement.
    Missing(String),
    /// An argument is wrong, or a valid scenario or plan does not fit this host; nothing was
    /// started or changed.
    Unlike(String),
    /// The engine does not support a key of a valid scenario: the path of the key, and the problem.
    /// The problem continues a sentence that begins with key and value.
    Key(String, String),
    /// An operation failed: its name, and the error of the kernel.
    Failed(&'static str, io::Error),
    /// Something failed during a run, such as a flow or the other host.
    Broken(String),
    /// The other host does not answer or cannot be reached: what happened, and what to do if it has
    /// never answered.
    Silent(String, String),
    /// Stopped by a signal or by the progress callback.
    Stopped,
}

impl HostError {
    /// A function for `map_err`, which adds the name of the operation to an error.
    pub fn failed(doing: &'static str) -> impl Fn(io::Error) -> HostError {
        move |error| HostError::Failed(doing, error)
    }
    /// The error with the address of the other host, if it is the cause.
    pub fn of(self, to: SocketAddr) -> HostError {
        match self {
            HostError::Broken(text) if !text.starts_with(&format!("{to}: ")) => {
                HostError::Broken(format!("{to}: {text}"))
            }
            HostError::Failed(doing, error) if is_outage(&error) => HostError::Silent(
                format!("{to}: {doing}: {error}"),
                "check that the server still runs there".into(),
            ),
            other => other,
        }
    }
    /// The reason, if the other host was lost, so that earlier observations remain valid; otherwise
    /// `None`.
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
            HostError::Key(path, problem) => write!(f, "{path} {problem}"),
            HostError::Silent(text, advice) => write!(f, "{text}; {advice}"),
            HostError::Failed(doing, error) => write!(f, "{doing}: {error}"),
            HostError::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for HostError {}

/// The text of a system error, without its error number.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
