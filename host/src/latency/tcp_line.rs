//! A [`Line`] over TCP, for paths that block UDP. It returns each question unchanged, like an echo
//! server.
//!
//! - [`Messages`]: small messages over the session with `narrows serve`. TCP delivers them in
//!   order, so a lost packet delays the later ones.
//! - [`Handshakes`]: a connection for each question. The answer is the SYN-ACK of the host, or the
//!   reset of a closed port. The kernel retransmits a SYN after one second. An attempt therefore
//!   counts as lost after `PATIENCE`.
//!
//! The kernel timestamps neither of them, so a response time is not divided between the hosts and
//! the network.

use super::exchange::Line;
use super::protocol::number_at;
use crate::HostError;
use crate::measure::link::Link;
use crate::sys::socket::{self, Wanted};
use crate::sys::timed_socket::{Got, Left};
use crate::sys::{self, Epoll};
use crate::terminal::field;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Time after which an attempt to connect counts as lost, ns.
const PATIENCE: u64 = 990_000_000;
/// Largest number of concurrent attempts to connect.
const OPEN: usize = 128;
/// Largest number of messages without an answer, and size of the question that is kept for each.
const PENDING: usize = 4096;
const QUESTION: usize = 64;

/// Copies a question to `to` as the datagram that arrived now.
fn echoed(question: &[u8], to: &mut [u8]) -> Got {
    let len = question.len().min(to.len());
    to[..len].copy_from_slice(&question[..len]);
    Got {
        len: question.len(),
        from: None,
        class: 0,
        ttl: 0,
        stamp: sys::monotonic(),
        hardware: 0,
        lost: 0,
    }
}

fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

/// Messages over the session with a server of narrows.
pub struct Messages {
    link: Link,
    pending: VecDeque<Vec<u8>>,
}

impl Messages {
    /// Messages over this session.
    pub fn new(link: Link) -> Messages {
        socket::no_delay(link.socket());
        Messages {
            link,
            pending: VecDeque::new(),
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        let _ = self.link.say(&json!({ "do": "bye" }));
    }
}

fn failed(error: HostError) -> io::Error {
    match error {
        // The caller notices the request to stop.
        HostError::Stopped => io::ErrorKind::Interrupted.into(),
        error => match error.loss() {
            Some(why) => io::Error::new(io::ErrorKind::ConnectionAborted, why),
            None => io::Error::other(error.to_string()),
        },
    }
}

/// The reason with which the server ends the session, if `told` does that.
fn ended(told: &Value) -> Option<io::Error> {
    let ends = matches!(told["is"].as_str(), Some("refused" | "over"));
    let why = told["why"]
        .as_str()
        .map_or("without a reason".into(), field);
    let text = format!("the server ended the session: {why}");
    ends.then(|| io::Error::new(io::ErrorKind::ConnectionAborted, text))
}

impl Line for Messages {
    fn now(&mut self) -> u64 {
        sys::monotonic()
    }
    fn ahead(&self) -> u64 {
        sys::realtime().saturating_sub(sys::monotonic())
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        if self.pending.len() >= PENDING {
            return Ok(None);
        }
        let number = number_at(bytes, 0);
        self.link
            .say(&json!({ "do": "clock", "at": number }))
            .map_err(failed)?;
        self.pending.push_back(bytes.to_vec());
        Ok(u32::try_from(number).ok())
    }
    fn wait(&mut self, to: &mut [u8], until: u64, _exact: bool) -> io::Result<Option<Got>> {
        let wait = until.saturating_sub(sys::monotonic());
        let heard = match self.link.hear(wait) {
            Err(HostError::Stopped) => {
                // The signal is handled at the next pulse, which must not be missed.
                sys::sleep_until(until.min(sys::monotonic() + 1_000_000));
                return Ok(None);
            }
            heard => heard.map_err(failed)?,
        };
        let Some(told) = heard else {
            return Ok(None);
        };
        if let Some(error) = ended(&told) {
            return Err(error);
        }
        if told["is"] != "clock" {
            return Ok(None);
        }
        let number = told["at"].as_u64();
        let at = self
            .pending
            .iter()
            .position(|question| Some(number_at(question, 0)) == number);
        let question = at.and_then(|at| self.pending.drain(..=at).next_back());
        Ok(question.map(|question| echoed(&question, to)))
    }
    fn rest(&mut self, until: u64) {
        sys::sleep_until(until);
    }
    fn departure(&mut self) -> Option<Left> {
        None
    }
    fn tells_departures(&self) -> bool {
        false
    }
    fn largest(&self) -> usize {
        QUESTION
    }
}

/// An attempt to connect.
struct Attempt {
    question: Vec<u8>,
    since: u64,
    fd: OwnedFd,
}

/// A TCP handshake for each question.
pub struct Handshakes {
    to: SocketAddr,
    wanted: Wanted,
    epoll: Epoll,
    open: Vec<(u64, Attempt)>,
    done: VecDeque<Vec<u8>>,
}

impl Handshakes {
    /// Handshakes with a port, whose packets have this DSCP.
    pub fn new(to: SocketAddr, dscp: u8) -> io::Result<Handshakes> {
        Ok(Handshakes {
            to,
            wanted: Wanted {
                dscp,
                ..Wanted::default()
            },
            epoll: Epoll::new()?,
            open: Vec::new(),
            done: VecDeque::new(),
        })
    }
}

impl Line for Handshakes {
    fn now(&mut self) -> u64 {
        sys::monotonic()
    }
    fn ahead(&self) -> u64 {
        sys::realtime().saturating_sub(sys::monotonic())
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        let now = sys::monotonic();
        self.open
            .retain(|(_, attempt)| now.saturating_sub(attempt.since) < PATIENCE);
        if self.open.len() >= OPEN {
            return Ok(None);
        }
        let (number, question) = (number_at(bytes, 0), bytes.to_vec());
        match socket::connect(self.to, &self.wanted) {
            Ok(fd) => {
                self.epoll.add(&fd, sys::WRITABLE, number)?;
                let since = now;
                self.open.push((
                    number,
                    Attempt {
                        question,
                        since,
                        fd,
                    },
                ));
            }
            // If `to` is this host, the reset arrives during the call.
            Err(error) if refused(&error) => self.done.push_back(question),
            Err(error) => return Err(error),
        }
        Ok(u32::try_from(number).ok())
    }
    fn wait(&mut self, to: &mut [u8], until: u64, _exact: bool) -> io::Result<Option<Got>> {
        if let Some(question) = self.done.pop_front() {
            return Ok(Some(echoed(&question, to)));
        }
        let wait = until.saturating_sub(sys::monotonic());
        let ready = self.epoll.wait(wait)?;
        let mut first = None;
        for (_, number) in ready {
            let Some(place) = self.open.iter().position(|(n, _)| *n == number) else {
                continue;
            };
            let (_, attempt) = self.open.swap_remove(place);
            let in_time = sys::monotonic().saturating_sub(attempt.since) < PATIENCE;
            let answered = match socket::error(&attempt.fd) {
                None => {
                    // A reset leaves no connection behind at either host.
                    let _ = sys::set_reset(&attempt.fd);
                    true
                }
                Some(error) => refused(&error),
            };
            if !answered || !in_time {
                continue;
            }
            match first {
                None => first = Some(echoed(&attempt.question, to)),
                Some(_) => self.done.push_back(attempt.question),
            }
        }
        Ok(first)
    }
    fn rest(&mut self, until: u64) {
        sys::sleep_until(until);
    }
    fn departure(&mut self) -> Option<Left> {
        None
    }
    fn tells_departures(&self) -> bool {
        false
    }
    fn largest(&self) -> usize {
        QUESTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::exchange::{Pace, Plan, run};
    use crate::latency::protocol::Echo;
    use std::net::TcpListener;

    fn answered(to: SocketAddr) -> (u64, u64) {
        let plan = Plan {
            count: 5,
            warmup: 0,
            pace: Pace::PingPong,
            interval: 0,
            patience: 100_000_000,
            ..Plan::default()
        };
        let mut line = Handshakes::new(to, 0).unwrap();
        let seen = run(&plan, &mut line, &mut Echo, &mut |_| true).unwrap();
        (seen.answered, seen.sent)
    }

    #[test]
    fn a_handshake_is_answered_by_an_open_and_by_a_closed_port() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                continue; // a host without IPv6
            };
            let to = listener.local_addr().unwrap();
            assert_eq!(answered(to), (5, 5));
            drop(listener);
            assert_eq!(answered(to), (5, 5));
        }
    }
}
