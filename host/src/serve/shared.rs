//! What every client of a far end shares: the limits, the threads that carry load, the datagram
//! socket, the counters.

use super::budget::{Accounts, Allowance, Refused};
use super::counters::Counters;
use super::metered::Connection;
use super::shares::Descriptor;
use super::udp::Exchange;
use super::xdp::{Count, Echo};
use crate::latency::exchange::Stall;
use crate::latency::policy::Policy;
use crate::measure::bulk::{Carriers, Place, Stream, UNSENT, Way};
use crate::sys;
use crate::sys::kernel;
use crate::sys::socket;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Why a client's visit ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// All is said.
    Done,
    /// Bytes that no protocol has.
    Garbage,
    /// Silent for too long.
    Timeout,
    /// As many clients as allowed.
    Full,
    /// Wrong token, or none.
    Token,
    /// A limit.
    Limit,
}

/// For everybody.
pub struct Shared {
    /// What everybody has in use, and the limits.
    pub accounts: Arc<Accounts>,
    /// Who does not know it is refused.
    pub token: Option<String>,
    /// Other addresses at which clients reach this host, through a NAT in front of it.
    pub public: Vec<SocketAddr>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Threads for load.
    pub carriers: Carriers,
    /// Datagrams.
    pub exchange: Arc<Exchange>,
    /// How threads that answer single clients are served, and whether they stand still now and
    /// then.
    pub answering: (Policy, Option<Stall>),
    /// Clients may choose any loaded congestion control, not only those that everybody may.
    pub net_admin: bool,
    /// Datagrams that the kernel answers.
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
    /// A client has gone.
    pub fn leave(&self, allowance: &Allowance) {
        allowance.end();
        self.counters
            .clients
            .store(self.accounts.clients(), Relaxed);
    }
    /// Whether clients may choose that congestion control; why not, where they may not. The kernel
    /// is never asked for another one: for a process with `CAP_NET_ADMIN` it would load the
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
            "{cc}: the far end's net.ipv4.tcp_{file}_congestion_control does not have it; it has \
             {}",
            list.join(", ")
        ))
    }
    /// What has been counted, for Prometheus.
    pub fn counted(&self) -> String {
        if let Some(echo) = &self.echo {
            let answers = echo.count(Count::Answered);
            self.counters.kernel_answers_total.store(answers, Relaxed);
        }
        self.counters.to_text()
    }
}

/// A connection under load at this end: what it moved is counted when it is stopped.
pub struct Carried {
    /// It.
    pub stream: Arc<Stream>,
    allowance: Arc<Allowance>,
    place: Option<Place>,
    charged: u64,
    /// Bytes that the peer has acknowledged or sent up to the last look.
    seen: u64,
    _descriptor: Descriptor,
}

impl Carried {
    /// Not yet running.
    pub fn new(link: Connection, way: Way, allowance: &Arc<Allowance>, shared: &Shared) -> Carried {
        Counters::more(&shared.counters.streams_total);
        let (socket, descriptor) = link.into_load();
        Carried {
            stream: Stream::new(socket, way, Arc::clone(allowance.load())),
            allowance: Arc::clone(allowance),
            place: None,
            charged: 0,
            seen: 0,
            _descriptor: descriptor,
        }
    }
    /// From now on it moves load.
    pub fn start(&mut self, shared: &Shared) {
        if self.place.is_none() {
            let now = sys::monotonic();
            self.allowance.progressed(now);
            if self.stream.way() == Way::Out {
                // Until its memory is looked at for the first time: what it may fill by then.
                self.allowance.hold(&mut self.charged, UNSENT.into());
            }
            self.allowance.alive(now);
            self.place = shared.carriers.start(&self.stream).ok();
            if self.runs() && self.stream.way() == Way::Out {
                self.allowance.sends(true);
            }
        }
    }
    /// Does it run?
    pub fn runs(&self) -> bool {
        self.place.is_some()
    }
    /// Charges the memory that it takes, and notes when its peer was heard.
    pub fn look(&mut self, now: u64) {
        if !self.runs() {
            return;
        }
        let socket = self.stream.socket();
        self.allowance
            .hold(&mut self.charged, socket::memory(socket));
        let moved = match self.stream.way() {
            Way::In => self.stream.moved(),
            Way::Out => {
                self.allowance
                    .alive(now.saturating_sub(socket::silence(socket)));
                sys::tcp_info(socket).map_or(0, |info| info.bytes_acked)
            }
        };
        if std::mem::replace(&mut self.seen, moved) != moved {
            self.allowance.progressed(now);
        }
    }
    /// No more.
    pub fn stop(&mut self, shared: &Shared) {
        let Some(place) = self.place.take() else {
            return;
        };
        shared.carriers.stop(place);
        if self.stream.way() == Way::Out {
            self.allowance.sends(false);
        }
        let total = match self.stream.way() {
            Way::Out => &shared.counters.down_bytes_total,
            Way::In => &shared.counters.up_bytes_total,
        };
        total.fetch_add(self.stream.moved(), Relaxed);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.allowance.hold(&mut self.charged, 0);
    }
}

/// By what a connection of load finds its client.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// A session.
    Narrows(crate::protocols::wire::Cookie),
    /// A test.
    Iperf(crate::protocols::iperf3::Cookie),
}

/// A client: bytes of its control connection in, bytes out. It is told the time, and never waits.
pub trait Speaker {
    /// Reads what it can of `input`; answers how many bytes that was.
    fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End>;
    /// So many bytes may wait to be understood.
    fn most(&self) -> usize;
    /// A connection of load has come.
    fn joined(
        &mut self,
        stream: u16,
        link: Connection,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End>;
    /// Time has passed; some of `out` may have left.
    fn tick(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End>;
    /// When it wants to be told the time again at the latest, ns.
    fn due(&self) -> u64;
    /// By what its load finds it.
    fn key(&self) -> Option<Key>;
    /// What it may use, once it has a seat.
    fn allowance(&self) -> Option<&Arc<Allowance>>;
    /// It is ended, because it sends to a client that reads nothing.
    fn ended(&mut self, _out: &mut Vec<u8>) {}
    /// Charges what the sockets of its load hold, and notes when its client was heard.
    fn look(&mut self, _now: u64) {}
    /// It has gone.
    fn gone(&mut self, shared: &Shared);
}
