//! State that all clients of a server share: accounts and limits, threads for load, the datagram
//! socket, and counters. It also has the trait of clients, [`Speaker`].

use super::budget::{Accounts, Allowance, Refused};
use super::counters::Counters;
use super::metered::Connection;
use super::shares::Descriptor;
use super::udp::Exchange;
use super::xdp::{Count, Echo};
use crate::latency::exchange::Stall;
use crate::latency::policy::Policy;
use crate::measure::bulk::{Carriers, Role, Slot, Stream, UNSENT};
use crate::sys;
use crate::sys::kernel;
use crate::sys::socket;
use narrows_core::cc::CcKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reason why a session ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The client has finished.
    Done,
    /// The bytes belong to no known protocol.
    Garbage,
    /// A time limit has expired: the client was silent for too long, or a request or a step of an
    /// iperf3 test took too long.
    Timeout,
    /// The largest number of clients, of the host or of the client's address or network, is
    /// reached.
    Full,
    /// The token is wrong or missing.
    Token,
    /// Another limit is reached.
    Limit,
}

/// Largest number of received bytes that are discarded when this host starts to send on a
/// connection.
const UNREAD: usize = 1 << 20;

/// The shared state.
pub struct Shared {
    /// Accounts of sessions and sources, and the limits.
    pub accounts: Arc<Accounts>,
    /// Token that clients need.
    pub token: Option<String>,
    /// Addresses and ports at which clients reach this host through a NAT.
    pub public: Vec<SocketAddr>,
    /// Counters for Prometheus.
    pub counters: Arc<Counters>,
    /// Threads for load.
    pub carriers: Carriers,
    /// Congestion controls of flows of datagrams.
    pub ccs: Vec<CcKind>,
    /// The datagram socket and its tables.
    pub exchange: Arc<Exchange>,
    /// Scheduling policy and deliberate stalls of the threads that answer single clients.
    pub answering: (Policy, Option<Stall>),
    /// Whether clients may select every loaded congestion control; otherwise only those permitted
    /// to all users.
    pub net_admin: bool,
    /// The XDP program that answers datagrams, if there is one.
    pub echo: Option<Echo>,
}

impl Shared {
    /// Admits one more session of a client at that address; the error is the reason against it.
    pub fn admit(&self, ip: IpAddr, now: u64) -> Result<Arc<Allowance>, Refused> {
        let allowance = self.accounts.admit(ip, now)?;
        self.counters
            .clients
            .store(self.accounts.clients(), Relaxed);
        Ok(allowance)
    }
    /// Ends the session of a client that has left.
    pub fn leave(&self, allowance: &Allowance) {
        allowance.end();
        self.counters
            .clients
            .store(self.accounts.clients(), Relaxed);
    }
    /// Checks whether clients may select a congestion control, and returns the reason if not. No
    /// other name is passed to the kernel: for a process with `CAP_NET_ADMIN` it would load the
    /// module `tcp_<name>`.
    pub fn may_choose(&self, cc: &str) -> Result<(), String> {
        let ccs = kernel::ccs();
        let (list, file) = if self.net_admin {
            (ccs.available, "available")
        } else {
            (ccs.allowed, "allowed")
        };
        if list.iter().any(|one| one == cc) {
            return Ok(());
        }
        Err(format!(
            "{cc}: the server's net.ipv4.tcp_{file}_congestion_control does not have it; \
             write --cc {}",
            list.join(" or ")
        ))
    }
    /// The counters, for Prometheus.
    pub fn counted(&self) -> String {
        if let Some(echo) = &self.echo {
            let answers = echo.count(Count::Answered);
            self.counters.kernel_answers_total.store(answers, Relaxed);
        }
        self.counters.to_text()
    }
}

/// A stream that carries load of a session. Its bytes are added to the counters when it
/// stops.
pub struct Carried {
    /// The stream.
    pub stream: Arc<Stream>,
    allowance: Arc<Allowance>,
    slot: Option<Slot>,
    charged: u64,
    /// Number of bytes that the peer had acknowledged (this host sends) or sent (this host
    /// receives) at the last check.
    seen: u64,
    _descriptor: Descriptor,
}

impl Carried {
    /// A connection whose load has not started.
    pub fn new(
        link: Connection,
        role: Role,
        allowance: &Arc<Allowance>,
        shared: &Shared,
    ) -> Carried {
        Counters::more(&shared.counters.streams_total);
        let (socket, descriptor) = link.into_load();
        if role == Role::Sender {
            // The client sends no data on this connection. Bytes that have arrived are discarded,
            // and further ones are limited by a minimal receive buffer.
            socket::limit_input(&socket, 1);
            let _ = sys::discard(&socket, UNREAD);
        }
        let stream = Stream::new(socket, role, Arc::clone(allowance.load()));
        Carried::of(stream, allowance, descriptor)
    }
    /// A stream whose load has not started.
    pub fn of(stream: Arc<Stream>, allowance: &Arc<Allowance>, descriptor: Descriptor) -> Carried {
        Carried {
            stream,
            allowance: Arc::clone(allowance),
            slot: None,
            charged: 0,
            seen: 0,
            _descriptor: descriptor,
        }
    }
    /// Starts the load.
    pub fn start(&mut self, shared: &Shared) {
        if self.slot.is_none() {
            let now = sys::monotonic();
            self.allowance.progressed(now);
            if self.stream.role() == Role::Sender {
                // Until the first check of its memory, the buffer that it may fill by then is
                // charged.
                self.allowance.hold(&mut self.charged, UNSENT.into(), now);
            }
            self.allowance.alive(now);
            self.slot = shared.carriers.start(&self.stream).ok();
            if self.runs() && self.stream.role() == Role::Sender {
                self.allowance.sends(true);
            }
        }
    }
    /// Whether the load runs.
    pub fn runs(&self) -> bool {
        self.slot.is_some()
    }
    /// Charges the memory of the socket, and records progress of the load and when the peer was
    /// last heard.
    pub fn look(&mut self, now: u64) {
        let memory = socket::memory(self.stream.socket()) + self.stream.memory();
        self.allowance.hold(&mut self.charged, memory, now);
        if !self.runs() {
            return;
        }
        if self.stream.role() == Role::Sender || self.stream.is_datagrams() {
            let silence = self.stream.silence(now);
            self.allowance.alive(now.saturating_sub(silence));
        }
        let moved = self.stream.progress();
        if std::mem::replace(&mut self.seen, moved) != moved {
            self.allowance.progressed(now);
        }
    }
    /// Stops the load.
    pub fn stop(&mut self, shared: &Shared) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        shared.carriers.stop(slot);
        if self.stream.role() == Role::Sender {
            self.allowance.sends(false);
        }
        let total = match self.stream.role() {
            Role::Sender => &shared.counters.down_bytes_total,
            Role::Receiver => &shared.counters.up_bytes_total,
        };
        total.fetch_add(self.stream.moved(), Relaxed);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.allowance.release(&mut self.charged);
    }
}

/// The key by which a connection of load is assigned to its client.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// Cookie of a session.
    Narrows(crate::protocols::wire::Cookie),
    /// Cookie of an iperf3 test.
    Iperf(crate::protocols::iperf3::Cookie),
}

/// The protocol state of a client: it converts bytes received on the control connection into bytes
/// to send. It never blocks; the caller passes the present time.
pub trait Speaker {
    /// Processes a prefix of `input` and returns its length.
    fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End>;
    /// Largest number of unprocessed bytes of input.
    fn most(&self) -> usize;
    /// Accepts a connection of load.
    fn joined(
        &mut self,
        stream: u16,
        link: Connection,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End>;
    /// Called when time has passed or part of `out` has left.
    fn tick(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End>;
    /// Latest time of the next call, ns of the monotonic clock.
    fn due(&self) -> u64;
    /// Whether requests wait because of the rate of replies.
    fn waits(&self) -> bool {
        false
    }
    /// The key by which connections of load are assigned to this client.
    fn key(&self) -> Option<Key>;
    /// Returns the allowance of the session, once it is admitted.
    fn allowance(&self) -> Option<&Arc<Allowance>>;
    /// Called before the session is ended because its client does not read; may write a last
    /// message to `out`.
    fn ended(&mut self, _out: &mut Vec<u8>) {}
    /// Charges the socket memory of the load, and records when the client was last heard.
    fn look(&mut self, _now: u64) {}
    /// Ends the session: stops its load and frees its seat.
    fn gone(&mut self, shared: &Shared);
}
