//! Queue disciplines, one file each. A discipline decides which packet leaves next, which is
//! dropped and which is marked; the link that serves it decides when.

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
pub mod sfb;
pub mod sfq;
pub mod turns;
pub mod xcp;

use crate::packet::{Ack, Packet};
use crate::param::{Choice, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Why a packet was dropped or marked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The buffer was full.
    Overflow,
    /// The discipline's control law decided so.
    Law,
    /// The path lost it at random (`loss`).
    Loss,
    /// A policer found it over its rate.
    Policer,
}

/// Where dropped and marked packets go. Fair queues drop other flows' packets, hence a sink and not
/// a result.
pub trait Sink<P> {
    /// `packet` is gone.
    fn dropped(&mut self, now: Time, packet: P, why: Why);
    /// `packet` was marked CE and goes on.
    fn marked(&mut self, _now: Time, _packet: &P, _why: Why) {}
    /// Completes what `packet` acknowledges, where its driver keeps that elsewhere.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// What waits in a discipline.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
}

/// What a class has counted since the start.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// What left.
    pub sent: Backlog,
    /// Packets dropped, on entry or later.
    pub drops: u64,
    /// How often it used up what it may have at most.
    pub overlimits: u64,
    /// Packets that left on another class's account.
    pub borrowed: u64,
}

/// Makes a discipline that is in another one; `None` where there is none of that name.
pub type Maker<'a, P> = dyn FnMut(&Choice, &Place) -> Option<Box<dyn QueueDiscipline<P>>> + 'a;

/// A queue discipline: a fold of arrivals and departures. The caller stamps `enqueued_at` before
/// `enqueue`.
pub trait QueueDiscipline<P>: Send {
    /// A packet arrives: kept, or handed to `sink`.
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>);
    /// The same of a packet whose sender, on this host, wants it to leave at `departs` and not
    /// before. Who does not pace takes no notice.
    fn enqueue_for(&mut self, now: Time, packet: P, _departs: Time, sink: &mut dyn Sink<P>) {
        self.enqueue(now, packet, sink);
    }
    /// What a sender on this host is told of a packet that was dropped for this reason while its
    /// own came: was its own not taken (`NET_XMIT_DROP`), or is there only congestion
    /// (`NET_XMIT_CN`)?
    fn refuses(&self, _why: Why) -> bool {
        true
    }
    /// The link is free: the next packet, if any.
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P>;
    /// The size of the packet that `dequeue` would answer, where that is known before it decides (a
    /// plain queue).
    fn peek(&self) -> Option<Bytes> {
        None
    }
    /// Does it ever ask to be woken? Asked once; one that never does costs its host less.
    fn wakes(&self) -> bool {
        true
    }
    /// When `on_wakeup` wants to be called although no packet moves.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// A time asked for by `next_wakeup` has come.
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {}
    /// What waits.
    fn backlog(&self) -> Backlog;
    /// The names of the classes or bands that it tells apart, in its own order; none for a
    /// discipline that is one queue, or one per flow. Asked once.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }
    /// What waits in a class.
    fn backlog_of(&self, _class: usize) -> Backlog {
        self.backlog()
    }
    /// The class of the packet that `dequeue` answered last.
    fn class_served(&self) -> usize {
        0
    }
    /// What a class has counted, where it counts.
    fn counts_of(&self, _class: usize) -> Option<ClassCounts> {
        None
    }
    /// Called once, before anything else: a discipline that others are in has them made.
    fn furnish(&mut self, _make: &mut Maker<'_, P>) {}
}

/// A scenario's `buffer`, resolved: `bdp` has become bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limit {
    /// At most so many bytes of whole frames.
    Bytes(Bytes),
    /// At most so many packets.
    Packets(u64),
}

impl Limit {
    /// May a packet of `size` join `backlog`?
    pub fn admits(self, backlog: Backlog, size: Bytes) -> bool {
        match self {
            Limit::Bytes(most) => backlog.bytes + size <= most,
            Limit::Packets(most) => backlog.packets < most,
        }
    }
    /// Is `backlog` more than it allows?
    pub fn exceeded(self, backlog: Backlog) -> bool {
        match self {
            Limit::Bytes(most) => backlog.bytes > most,
            Limit::Packets(most) => backlog.packets > most,
        }
    }
}

impl Backlog {
    /// A packet of `size` joins.
    pub fn add(&mut self, size: Bytes) {
        self.bytes += size;
        self.packets += 1;
    }
    /// A packet of `size` leaves.
    pub fn remove(&mut self, size: Bytes) {
        self.bytes = self.bytes - size;
        self.packets -= 1;
    }
}

/// What a discipline is told of its place when it is made.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    /// The scenario's `buffer`, if it gives one; otherwise the discipline's own default holds.
    pub limit: Option<Limit>,
    /// The rate of the link that serves the queue; of a varying one its mean.
    pub rate: Rate,
    /// Ticks per second of the kernel that it runs in: some disciplines keep their time in them.
    pub hz: u32,
    /// The seed of this queue's randomness and hashes.
    pub seed: u64,
}

/// One queue discipline of a registry.
pub struct QueueKind<P> {
    /// tc's name.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification it is written from.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What must hold between them; [`no_check`](crate::param::no_check) where nothing must.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// Does it write into the congestion headers of packets?
    pub feedback: bool,
    /// Makes one; [`Registry::make_queue`](crate::registry::Registry::make_queue) also has those
    /// made that are in it.
    pub make: fn(&Params, &Place) -> Box<dyn QueueDiscipline<P>>,
}

/// The disciplines that narrows ships.
pub fn kinds<P: Packet + Send + 'static>() -> Vec<QueueKind<P>> {
    // Alphabetical but for the first, which is everybody's default.
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
