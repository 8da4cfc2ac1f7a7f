//! What every client of a far end shares: the limits, the threads that carry load, the datagram socket, the counters.

use super::counters::Counters;
use super::udp::Exchange;
use super::xdp::{Count, Echo};
use crate::bulk::{Budget, Carriers, Place, Stream, Way};
use crate::latency::exchange::Stall;
use crate::latency::policy::Policy;
use narrows_core::units::{Bytes, Rate, Span};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What one client may, and how many there may be.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Of one client, all its streams together, each way alike.
    pub rate: Option<Rate>,
    /// Of one client's visit.
    pub duration: Span,
    /// At once.
    pub clients: u64,
    /// Of one client's visit.
    pub bytes: Bytes,
}

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
    /// Limits.
    pub limits: Limits,
    /// Who does not know it is refused.
    pub token: Option<String>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Threads for load.
    pub carriers: Carriers,
    /// Datagrams.
    pub exchange: Arc<Exchange>,
    /// How threads that answer single clients are served, and whether they stand still now and then.
    pub answering: (Policy, Option<Stall>),
    /// Datagrams that the kernel answers.
    pub echo: Option<Echo>,
}

impl Shared {
    /// A seat for one more client, if there is one.
    pub fn seat(&self) -> Option<Seat> {
        // Only one thread admits clients: nobody comes between the two.
        if self.counters.clients.load(Relaxed) >= self.limits.clients {
            return None;
        }
        Counters::more(&self.counters.clients);
        Some(Seat(Arc::clone(&self.counters)))
    }
    /// What has been counted, for Prometheus.
    pub fn counted(&self) -> String {
        if let Some(echo) = &self.echo {
            let answers = echo.count(Count::Answered);
            self.counters.kernel_answers_total.store(answers, Relaxed);
        }
        self.counters.to_text()
    }
    /// What a new client may move.
    pub fn budget(&self) -> Arc<Budget> {
        Budget::new(self.limits.rate.map(|rate| rate.as_bit() / 8), self.limits.bytes.get())
    }
}

/// A client that counts; it is given back when it is dropped.
#[derive(Debug)]
pub struct Seat(Arc<Counters>);

impl Drop for Seat {
    fn drop(&mut self) {
        Counters::less(&self.0.clients);
    }
}

/// A connection under load at this end: what it moved is counted when it is stopped.
pub struct Carried {
    /// It.
    pub stream: Arc<Stream>,
    place: Option<Place>,
}

impl Carried {
    /// Not yet running.
    pub fn new(socket: OwnedFd, way: Way, budget: &Arc<Budget>, shared: &Shared) -> Carried {
        Counters::more(&shared.counters.streams_total);
        Carried {
            stream: Stream::new(socket, way, Arc::clone(budget)),
            place: None,
        }
    }
    /// From now on it moves load.
    pub fn start(&mut self, shared: &Shared) {
        if self.place.is_none() {
            self.place = shared.carriers.start(&self.stream).ok();
        }
    }
    /// Does it run?
    pub fn runs(&self) -> bool {
        self.place.is_some()
    }
    /// No more.
    pub fn stop(&mut self, shared: &Shared) {
        let Some(place) = self.place.take() else { return };
        shared.carriers.stop(place);
        let total = match self.stream.way() {
            Way::Out => &shared.counters.down_bytes_total,
            Way::In => &shared.counters.up_bytes_total,
        };
        total.fetch_add(self.stream.moved(), Relaxed);
    }
}

/// By what a connection of load finds its client.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// A session.
    Narrows(crate::wire::Cookie),
    /// A test.
    Iperf(crate::iperf3::Cookie),
}

/// A client: bytes of its control connection in, bytes out. It is told the time, and never waits.
pub trait Speaker {
    /// Reads what it can of `input`; answers how many bytes that was.
    fn heard(&mut self, input: &[u8], out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<usize, End>;
    /// So many bytes may wait to be understood.
    fn most(&self) -> usize;
    /// A connection of load has come, from `from`.
    fn joined(
        &mut self,
        stream: u16,
        socket: OwnedFd,
        from: IpAddr,
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
    /// It has gone.
    fn gone(&mut self, shared: &Shared);
}
