//! Queue disciplines, one file or folder each. A discipline decides which packet leaves next, and
//! which packets are dropped or marked. The link decides when a packet leaves, unless the
//! discipline shapes or paces.

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
    /// The control law of the discipline (AQM), or another rule of the discipline.
    Aqm,
    /// Random loss of the path (`loss`).
    Loss,
    /// The packet exceeded the rate of a policer.
    Policer,
}

/// The receiver of dropped and marked packets. Drops are not a return value of `enqueue`, because a
/// fair queue may drop packets of other flows.
pub trait Sink<P> {
    /// Called when `packet` was dropped.
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason);
    /// Called when `packet` was marked CE; it is forwarded.
    fn marked(&mut self, _now: Time, _packet: &P, _why: DropReason) {}
    /// Adds the fields of the acknowledgement in `packet` that the driver stores outside of the
    /// packet.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// The backlog of a discipline.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Bytes of the packets, with all headers.
    pub bytes: Bytes,
    /// Number of packets.
    pub packets: u64,
}

/// The counters of a class.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Packets and bytes sent.
    pub sent: Backlog,
    /// Packets dropped, on arrival or later.
    pub drops: u64,
    /// Number of times that the class reached its maximum rate.
    pub overlimits: u64,
    /// Packets sent with tokens of another class.
    pub borrowed: u64,
}

/// A function that creates a nested discipline. It returns `None` if no discipline has the name.
pub type Factory<'a, P> =
    dyn FnMut(&Choice, &QueueContext) -> Option<Box<dyn QueueDiscipline<P>>> + 'a;

/// A queue discipline. The caller sets `enqueued_at` before `enqueue`.
pub trait QueueDiscipline<P>: Send {
    /// Takes an arriving packet. It is queued, or dropped and passed to `sink`.
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>);
    /// Takes a packet with an earliest departure time that its sender, on this host, requests.
    /// Disciplines without pacing ignore the time.
    fn enqueue_for(&mut self, now: Time, packet: P, _departs: Time, sink: &mut dyn Sink<P>) {
        self.enqueue(now, packet, sink);
    }
    /// Returns the effect that a drop for this reason, during the enqueue of a packet, has on a
    /// sender on this host. `true`: the sender counts its packet as rejected (`NET_XMIT_DROP`).
    /// `false`: the sender only detects congestion (`NET_XMIT_CN`).
    fn refuses(&self, _why: DropReason) -> bool {
        true
    }
    /// Returns the next packet, if one may leave. Called when the link is free.
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P>;
    /// Returns the size of the packet that `dequeue` would return, if the discipline knows this
    /// packet in advance, as a FIFO does.
    fn peek(&self) -> Option<Bytes> {
        None
    }
    /// Returns whether the discipline ever requests a wake-up. Called once; a discipline without
    /// wake-ups needs less computing time.
    fn wakes(&self) -> bool {
        true
    }
    /// Returns the limit of a FIFO that drops at the tail, whose departures its driver may compute
    /// itself; `None` for any other discipline. Called once.
    fn tail_drop(&self) -> Option<Limit> {
        None
    }
    /// Returns whether every call must be made at the time `now` of the call, because the
    /// discipline runs on a clock of its own. If not, a driver may make calls later, with past
    /// times. Called once.
    fn timely(&self) -> bool {
        false
    }
    /// Returns the time at which `on_wakeup` must be called even if no packet arrives or leaves.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// Called when a time that `next_wakeup` returned is reached.
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {}
    /// Returns the backlog.
    fn backlog(&self) -> Backlog;
    /// Returns the names of the classes or bands of the discipline, in its own order. A discipline
    /// with a single queue, or with one queue per flow, has no names. Called once.
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
    /// Returns the counters of a class, if the discipline has counters.
    fn counts_of(&self, _class: usize) -> Option<ClassCounts> {
        None
    }
    /// Creates nested disciplines; called once, before any other function.
    fn build_nested(&mut self, _make: &mut Factory<'_, P>) {}
}

/// A scenario's `buffer`, with `bdp` resolved to bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Maximum number of bytes of the queued packets, with all headers.
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
    /// Returns whether `backlog` exceeds this limit.
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
    /// The rate of the link that serves the queue; if the rate varies, its mean.
    pub rate: Rate,
    /// Timer frequency of the kernel, in Hz; some disciplines measure time in ticks.
    pub hz: u32,
    /// The seed of this queue's random numbers and hashes.
    pub seed: u64,
}

/// A closure that creates a queue discipline. It is not a plain function, because the closure of a
/// plugin refers to the loaded plugin.
pub type MakeQueue<P> = dyn Fn(&Params, &QueueContext) -> Box<dyn QueueDiscipline<P>> + Send + Sync;

/// One queue discipline of a registry.
pub struct QueueKind<P: 'static> {
    /// The name in tc.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification that the discipline implements.
    pub source: &'static str,
    /// The parameters of the queue discipline.
    pub params: &'static [Param],
    /// Checks conditions between parameters; [`no_check`](crate::param::no_check) if there are
    /// none.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// Whether the discipline writes into the congestion headers of packets.
    pub feedback: bool,
    /// Creates an instance. [`Registry::make_queue`](crate::registry::Registry::make_queue) also
    /// creates nested disciplines.
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
