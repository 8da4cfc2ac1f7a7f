//! State that all clients of a server share: limits, threads for load, the datagram socket, and
//! counters.

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
    /// The client was silent for too long.
    Timeout,
    /// The largest number of clients is reached.
    Full,
    /// The token is wrong or missing.
    Token,
    /// A limit is reached.
    Limit,
}

/// Largest number of bytes that have come before a connection became a sender.
const UNREAD: usize = 1 << 20;

/// The shared state.
pub struct Shared {
    /// Use of resources and limits.
    pub accounts: Arc<Accounts>,
    /// Token that clients need.
    pub token: Option<String>,
    /// Other addresses of this host, outside a NAT.
    pub public: Vec<SocketAddr>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Threads for load.
    pub carriers: Carriers,
    /// Datagrams.
    pub exchange: Arc<Exchange>,
    /// Scheduling policy and deliberate stalls of the threads that answer single clients.
    pub answering: (Policy, Option<Stall>),
    /// Whether clients may select every loaded congestion control, or only those permitted to all
    /// users.
    pub net_admin: bool,
    /// The XDP program that answers datagrams.
    pub echo: Option<Echo>,
}

impl Shared {
    /// A seat for one more client of that address, if there is one.
    pub fn admit(&self, ip: IpAddr, now: u64) -> Result<Arc<Allowance>, Refused> {
        let allowance = self.accounts.admit(ip, now)?;
        self.counters
            .clients
            .store(self.accounts.clients(), Relaxed);
        Ok(allowance)
    }
    /// Records that a client has gone.
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

/// A connection under load at this end; its bytes are counted when it stops.
pub struct Carried {
    /// The stream.
    pub stream: Arc<Stream>,
    allowance: Arc<Allowance>,
    slot: Option<Slot>,
    charged: u64,
    /// Bytes that the peer has acknowledged or sent until the last check.
    seen: u64,
    _descriptor: Descriptor,
}

impl Carried {
    /// A connection that does not run yet.
    pub fn new(
        link: Connection,
        role: Role,
        allowance: &Arc<Allowance>,
        shared: &Shared,
    ) -> Carried {
        Counters::more(&shared.counters.streams_total);
        let (socket, descriptor) = link.into_load();
        if role == Role::Sender {
            // Its client has nothing more to say: what has come is discarded, and more finds no
            // room.
            socket::limit_input(&socket, 1);
            let _ = sys::discard(&socket, UNREAD);
        }
        Carried {
            stream: Stream::new(socket, role, Arc::clone(allowance.load())),
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
                // Until the first check of its memory: the buffers that it may fill by then.
                self.allowance.hold(&mut self.charged, UNSENT.into(), now);
            }
            self.allowance.alive(now);
            self.slot = shared.carriers.start(&self.stream).ok();
            if self.runs() && self.stream.role() == Role::Sender {
                self.allowance.sends(true);
            }
        }
    }
    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.slot.is_some()
    }
    /// Charges its memory and records when its peer was heard.
    pub fn look(&mut self, now: u64) {
        let socket = self.stream.socket();
        self.allowance
            .hold(&mut self.charged, socket::memory(socket), now);
        if !self.runs() {
            return;
        }
        let moved = match self.stream.role() {
            Role::Receiver => self.stream.moved(),
            Role::Sender => {
                self.allowance
                    .alive(now.saturating_sub(socket::silence(socket)));
                sys::tcp_info(socket).map_or(0, |info| info.bytes_acked)
            }
        };
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

/// The key by which a connection of load finds its client.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// A session.
    Narrows(crate::protocols::wire::Cookie),
    /// A test.
    Iperf(crate::protocols::iperf3::Cookie),
}

/// A client: turns bytes of its control connection into bytes to send. It never blocks; the caller
/// passes the time.
pub trait Speaker {
    /// Processes a prefix of `input` and returns its length.
    fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End>;
    /// Largest number of bytes that may wait to be processed.
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
    /// Time of the next call at the latest, ns.
    fn due(&self) -> u64;
    /// Whether requests wait because of the rate of replies.
    fn waits(&self) -> bool {
        false
    }
    /// The key of its load.
    fn key(&self) -> Option<Key>;
    /// Returns the limits of the connection, once it has a seat.
    fn allowance(&self) -> Option<&Arc<Allowance>>;
    /// Ends it because it sends to a client that does not read.
    fn ended(&mut self, _out: &mut Vec<u8>) {}
    /// Charges the socket memory of its load and records when its client was heard.
    fn look(&mut self, _now: u64) {}
    /// Ends it because the connection has gone.
    fn gone(&mut self, shared: &Shared);
}
