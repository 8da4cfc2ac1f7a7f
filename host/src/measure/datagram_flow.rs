//! The interface of a transport that a thread for load drives over a socket of datagrams
//! ([`super::bulk`]). [`super::transport`] has the transports.

use super::bulk::Budget;
use crate::protocols::tcp_info::Row;
use std::os::fd::OwnedFd;

/// The next turn of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another turn when a datagram arrives, and not later than this time, ns.
    Until(u64),
    /// Another turn at this time, ns, and not before.
    At(u64),
    /// No further turn: the budget is used up, or the flow has ended.
    Stop,
}

/// Why a flow ended before its load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The circuit breaker ended it, for this reason.
    Breaker(&'static str),
    /// One of the ends closed it, for this reason.
    Closed(String),
}

impl Ended {
    /// The reason for users.
    pub fn text(&self) -> &str {
        match self {
            Ended::Breaker(text) => text,
            Ended::Closed(text) => text,
        }
    }
}

/// One end of a flow of datagrams.
pub trait DatagramFlow: Send + std::fmt::Debug {
    /// Handles the datagrams that have arrived and the timers that are due, and sends.
    fn turn(&mut self, fd: &OwnedFd, budget: &Budget) -> Next;
    /// The congestion control of the sender.
    fn cc(&self) -> &'static str;
    /// Payload of a full segment, bytes; for QUIC, that of a full datagram.
    fn payload(&self) -> u32;
    /// Whether both ends use ECN.
    fn ecn(&self) -> bool;
    /// Why the flow has ended, if it has.
    fn ended(&self) -> Option<Ended>;
    /// Arrival of the last datagram of the peer, ns of the monotonic clock.
    fn heard(&self) -> u64;
    /// Bytes acknowledged (this end sends), or received.
    fn progress(&self) -> u64;
    /// Bytes sent for the first time, or received.
    fn moved(&self) -> u64;
    /// A sample; of a receiver only the bytes.
    fn row(&self, now: u64) -> Row;
    /// Largest memory of the state of the flow, bytes, without that of its socket.
    fn memory(&self) -> u64;
}
