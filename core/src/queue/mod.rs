//! Queue disciplines, one file each. A discipline decides which packet leaves next, which is
//! dropped and which is marked. The link decides when a packet leaves.

pub mod cake;
pub mod choke;
pub mod codel;
pub mod drr;
pub mod dualpi2;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod hhf;
pub mod htb;
pub mod pfifo_fast;
pub mod pie;
pub mod pool;
pub mod psched;
pub mod red;
pub mod round_robin;
pub mod sfb;
pub mod sfq;
pub mod xcp;

use crate::packet::{Ack, Packet};
use crate::param::{Choice, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// The reason of a drop or a mark.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The buffer was full.
    Overflow,
    /// The discipline's control law decided so.
    Aqm,
    /// Random loss of the path (`loss`).
    Loss,
    /// A policer measured an excess of its rate.
    Policer,
}

/// The receiver of dropped and marked packets. It is not a result, because fair queues drop packets
/// of other flows.
pub trait Sink<P> {
    /// `packet` was dropped.
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason);
    /// `packet` was marked CE and is forwarded.
    fn marked(&mut self, _now: Time, _packet: &P, _why: DropReason) {}
    /// Completes the acknowledgement of `packet`, if its driver stores parts of it elsewhere.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// The backlog of a discipline.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
}

/// The counters of a class.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Packets and bytes sent.
    pub sent: Backlog,
    /// Packets dropped, on entry or later.
    pub drops: u64,
    /// Number of times that it reached its limit.
    pub overlimits: u64,
    /// Packets sent with another class's tokens.
    pub borrowed: u64,
}

/// Creates a nested discipline; `None` if there is none of that name.
pub type Factory<'a, P> =
    dyn FnMut(&Choice, &QueueContext) -> Option<Box<dyn QueueDiscipline<P>>> + 'a;

/// A queue discipline. The caller sets `enqueued_at` before `enqueue`.
pub trait QueueDiscipline<P>: Send {
    /// Takes an arriving packet, which is queued or passed to `sink`.
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>);
    /// Takes a packet with an earliest departure time that its sender, on this host, requests.
    /// Disciplines without pacing ignore the time.
    fn enqueue_for(&mut self, now: Time, packet: P, _departs: Time, sink: &mut dyn Sink<P>) {
        self.enqueue(now, packet, sink);
    }
    /// Returns whether a sender on this host counts its own packet as rejected (`NET_XMIT_DROP`)
    /// when one is dropped for this reason during its enqueue. Otherwise it only sees congestion
    /// (`NET_XMIT_CN`).
    fn refuses(&self, _why: DropReason) -> bool {
        true
    }
    /// Returns the next packet, if there is one; the link is free.
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P>;
    /// Returns the size of the packet that `dequeue` would return, if it is known before (in a
    /// plain queue).
    fn peek(&self) -> Option<Bytes> {
        None
    }
    /// Returns whether it ever requests a wake-up. Called once; a discipline without wake-ups costs
    /// less.
    fn wakes(&self) -> bool {
        true
    }
    /// Returns whether every call must come at its own time, because the discipline has a clock
    /// that nobody can turn back. Otherwise a driver may make up for past calls. Called once.
    fn timely(&self) -> bool {
        false
    }
    /// Returns when `on_wakeup` must be called even if no packet moves.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// Handles a time that `next_wakeup` returned.
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {}
    /// Returns the backlog.
    fn backlog(&self) -> Backlog;
    /// Returns the names of its classes or bands, in its own order. A discipline with a single
    /// queue, or with one per flow, has none. Called once.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the backlog of a class.
    fn backlog_of(&self, _class: usize) -> Backlog {
        self.backlog()
    }
    /// Returns the class of the packet that `dequeue` returned last.
    fn class_served(&self) -> usize {
        0
    }
    /// Returns the counters of a class, if it counts.
    fn counts_of(&self, _class: usize) -> Option<ClassCounts> {
        None
    }
    /// Creates nested disciplines; called once, before any other function.
    fn build_nested(&mut self, _make: &mut Factory<'_, P>) {}
}

/// A scenario's `buffer`, with `bdp` resolved to bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Maximum number of bytes, in whole frames.
    Bytes(Bytes),
    /// Maximum number of packets.
    Packets(u64),
}

impl Limit {
    /// Returns whether a packet of `size` may join `backlog`.
    pub fn admits(self, backlog: Backlog, size: Bytes) -> bool {
        match self {
            Limit::Bytes(most) => backlog.bytes + size <= most,
            Limit::Packets(most) => backlog.packets < most,
        }
    }
    /// Returns whether `backlog` exceeds it.
    pub fn exceeded(self, backlog: Backlog) -> bool {
        match self {
            Limit::Bytes(most) => backlog.bytes > most,
            Limit::Packets(most) => backlog.packets > most,
        }
    }
}

impl Backlog {
    /// Adds a packet of `size`.
    pub fn add(&mut self, size: Bytes) {
        self.bytes += size;
        self.packets += 1;
    }
    /// Removes a packet of `size`.
    pub fn remove(&mut self, size: Bytes) {
        self.bytes = self.bytes - size;
        self.packets -= 1;
    }
}

/// The context of a discipline when it is created.
#[derive(Copy, Clone, Debug)]
pub struct QueueContext {
    /// The scenario's `buffer`, if it has one; otherwise the discipline's own default applies.
    pub limit: Option<Limit>,
    /// The rate of the link that serves the queue; the mean of a varying rate.
    pub rate: Rate,
    /// Timer frequency of its kernel, in Hz; some disciplines measure time in ticks.
    pub hz: u32,
    /// The seed of this queue's random numbers and hashes.
    pub seed: u64,
}

/// Creates a queue discipline. It is a closure, because a plugin's refers to the loaded plugin.
pub type MakeQueue<P> = dyn Fn(&Params, &QueueContext) -> Box<dyn QueueDiscipline<P>> + Send + Sync;

/// One queue discipline of a registry.
pub struct QueueKind<P: 'static> {
    /// tc's name.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification that it implements.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Checks conditions between parameters; [`no_check`](crate::param::no_check) if there are
    /// none.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// Whether it writes into the congestion headers of packets.
    pub feedback: bool,
    /// Creates one. [`Registry::make_queue`](crate::registry::Registry::make_queue) also creates
    /// nested disciplines.
    pub make: &'static MakeQueue<P>,
}

/// The queue disciplines of narrows.
pub fn kinds<P: Packet + Send + 'static>() -> Vec<QueueKind<P>> {
    // Alphabetical except for the first, which is the default.
    alloc::vec![
        fifo::kind(),
        cake::kind(),
        choke::kind(),
        codel::kind(),
        drr::kind(),
        dualpi2::kind(),
        fq::kind(),
        fq_codel::kind(),
        fq_pie::kind(),
        hhf::kind(),
        htb::kind(),
        pfifo_fast::kind(),
        pie::kind(),
        red::kind(),
        sfb::kind(),
        sfq::kind(),
        xcp::kind(),
    ]
}
