//! The accounts to which the server of a latency test charges its answers.

use crate::serve::budget::{Accounts, Allowance, Permit};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The account to which answers are charged.
#[derive(Clone, Debug)]
pub enum Payer {
    /// The source address of each question.
    Source(Arc<Accounts>),
    /// The session of the only client.
    Session(Arc<Allowance>),
}

impl Payer {
    /// A permit to send `answer` bytes to `to` in reply to a datagram of `asked` bytes; `None` if a
    /// limit is reached. `recognised`: the datagram is a question of a known protocol.
    pub fn permit(
        &self,
        to: SocketAddr,
        (asked, answer): (usize, usize),
        recognised: bool,
        now: u64,
    ) -> Option<Permit> {
        match self {
            Payer::Source(accounts) => accounts.reply(to, asked, answer, recognised, now),
            Payer::Session(allowance) => allowance.answer(answer.min(asked), now),
        }
    }
    /// The index of the source of `ip` in tables of [`BUCKETS`](crate::serve::budget::BUCKETS)
    /// entries.
    pub fn bucket(&self, ip: IpAddr) -> usize {
        match self {
            Payer::Source(accounts) => accounts.bucket(ip),
            Payer::Session(_) => 0,
        }
    }
}
