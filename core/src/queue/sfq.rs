//! SFQ, stochastic fairness queueing: a short queue for each flow, served round-robin.
//!
//! Algorithm: flows hash to `divisor` buckets. A bucket with packets has one of `flows` queues of
//! at most `depth` packets. The next queue in the round sends while it has allowance, from which
//! packet sizes are subtracted. A queue whose allowance is used up gets a `quantum` and is skipped.
//! A queue that becomes active joins the round behind all others, with an allowance of a `quantum`.
//!
//! If all queues together exceed `limit`, the longest queue drops its newest packet (`headdrop`:
//! its oldest). If several queues are the longest, the one that reached this length last drops the
//! packet. A queue that would exceed `depth` drops the arriving packet (`headdrop`: its oldest).
//! After each `perturb`, the hash changes and all packets are sorted into queues again. With
//! `redflowlimit` each queue has RED ([`law`](super::red::law)), whose state is reset when the
//! queue is empty. With `headdrop`, RED also marks or drops the oldest packet instead of the
//! arriving one.
//!
//! Sources: McKenney, "Stochastic fairness queueing", 1990; Linux 6.12 `sfq`, compared packet by
//! packet (`core/tests/queue_red.rs`); iproute2 6.1.
//!
//! As in Linux: `redflowlimit` itself limits nothing; tc only derives the thresholds of RED from
//! it. If all queues are one packet long, the next queue in the round drops its packet. Sorting
//! packets again resets the round, and drops packets that exceed the depth of their new queue.
//! Allowances are whole bytes, as measured in 6.12.117; older releases round them to multiples of
//! 8.

use super::pool::{List, Pool};
use super::red::law::{Law, Vars, Verdict};
use super::red::words::{self, Words};
use super::red::{Refused, mark};
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::transport::Jiffies;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

const MOST: Bytes = Bytes::new(1 << 40);
const DEPTH: u64 = 127;
const FLOWS: u64 = 65_408;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(DEPTH, 2, DEPTH * FLOWS),
        help: "largest backlog of all queues in packets, if the path has no buffer",
        source: "Linux 6.12 sfq",
    },
    Param {
        name: "depth",
        kind: Kind::Packets(DEPTH, 1, DEPTH),
        help: "largest backlog of a queue in packets",
        source: "Linux 6.12 sfq",
    },
    Param {
        name: "flows",
        kind: Kind::Count(128, 1, FLOWS),
        help: "largest number of queues; packets of a further flow are dropped",
        source: "Linux 6.12 sfq",
    },
    Param {
        name: "divisor",
        kind: Kind::Count(1024, 1, 65_536),
        help: "number of buckets to which flows are hashed, a power of two",
        source: "Linux 6.12 sfq",
    },
    Param {
        name: "quantum",
        kind: Kind::Bytes(Bytes::new(1514), Bytes::new(256), Bytes::new(1 << 20)),
        help: "bytes that a queue may send in its turn",
        source: "Linux 6.12 sfq: the device's MTU and its Ethernet header",
    },
    Param {
        name: "perturb",
        kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(86_400)),
        help: "time after which the hash changes; 0s: never",
        source: "Linux 6.12 sfq",
    },
    Param {
        name: "headdrop",
        kind: Kind::Bool(false),
        help: "drop the oldest packet of a queue instead of the newest",
        source: "tc-sfq(8)",
    },
    Param {
        name: "redflowlimit",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "limit of each queue in bytes under RED, from which the thresholds follow; 0B: no \
            RED",
        source: "tc-sfq(8)",
    },
    Param {
        name: "min",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "average backlog below which no packet is dropped; 0B: a third of max",
        source: "tc-sfq(8)",
    },
    Param {
        name: "max",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "average backlog from which all packets are dropped; 0B: a quarter of redflowlimit",
        source: "tc-sfq(8)",
    },
    words::AVPKT,
    words::BURST,
    words::PROBABILITY,
    words::ECN,
    words::HARDDROP,
];

/// The words of tc for RED in each queue; `None` without `redflowlimit`.
fn words(params: &Params) -> Option<Words> {
    let or = |given: Bytes, usual: u64| if given.get() > 0 { given.get() } else { usual };
    let limit = params.bytes("redflowlimit").get();
    let max = or(params.bytes("max"), limit / 4);
    let min = or(params.bytes("min"), max / 3);
    // The average does not decay in idle time, so the rate of the link is not needed.
    (limit > 0).then(|| Words::of(params, min, max, Rate::mbit(10)))
}

fn check(params: &Params) -> Result<(), Refusal> {
    let divisor = params.count("divisor");
    if !divisor.is_power_of_two() {
        return Err(Refusal {
            param: "divisor",
            problem: "is not a power of two".into(),
            fix: format!("{}", divisor.next_power_of_two().min(65_536)),
        });
    }
    if let Some(words) = words(params) {
        return words.check(false);
    }
    let red = ["min", "max"]
        .iter()
        .any(|name| params.bytes(name).get() > 0);
    if red || params.count("burst") > 0 || params.bool("ecn") || params.bool("harddrop") {
        return Err(Refusal {
            param: "redflowlimit",
            problem: "is missing: RED's parameters need it".into(),
            fix: "\"150000B\"".into(),
        });
    }
    Ok(())
}

const NONE: u32 = u32::MAX;

/// One queue.
#[derive(Clone)]
struct Slot {
    list: List,
    bucket: u32,
    /// The next queue in the round.
    next: u32,
    packets: u32,
    bytes: u64,
    /// Bytes that the queue may still send in its turn.
    allowance: i64,
    vars: Vars,
    /// The previous and the next queue in the list of queues of the same length.
    longer_before: u32,
    longer_after: u32,
}

/// The settings of RED in each queue.
struct Red {
    law: Law,
    refused: Refused,
}

/// The queue discipline `sfq`.
pub struct Sfq<P> {
    limit: Limit,
    depth: u32,
    quantum: i64,
    from_head: bool,
    red: Option<Red>,
    rng: Rng,
    /// Seed of the hash.
    seed: u64,
    perturb: Option<(Jiffies, u64, Time)>,
    packets: Pool<P>,
    slots: Vec<Slot>,
    /// The queue of each bucket.
    buckets: Vec<u32>,
    /// The first queue in the list of queues of each length, in packets.
    by_length: Vec<u32>,
    /// The length of the longest queue, in packets.
    longest: u32,
    /// The last queue in the round. The queue after it is served next.
    tail: u32,
    backlog: Backlog,
}

fn signed(size: Bytes) -> i64 {
    i64::try_from(size.get()).unwrap_or(i64::MAX)
}

impl<P: Packet + Send> Sfq<P> {
    /// Empty queues with these parameters.
    pub fn new(params: &Params, context: &QueueContext) -> Sfq<P> {
        let depth = params.packets("depth").clamp(1, DEPTH);
        let divisor = params.count("divisor").clamp(1, 65_536).next_power_of_two();
        let mut flows = params.count("flows").clamp(1, FLOWS).min(divisor);
        let limit = match context
            .limit
            .unwrap_or(Limit::Packets(params.packets("limit")))
        {
            Limit::Packets(n) => {
                let n = n.max(1).min(depth * flows);
                flows = flows.min(n);
                Limit::Packets(n)
            }
            bytes => bytes,
        };
        let ticks = Jiffies::new(context.hz);
        let period = ticks.from_us(params.span("perturb").as_us());
        let mut sfq = Sfq {
            limit,
            depth: depth as u32,
            quantum: signed(params.bytes("quantum")),
            from_head: params.bool("headdrop"),
            red: words(params).map(|words| Red {
                law: Law::new(&words, words.min, words.max, false),
                refused: Refused::of(params),
            }),
            rng: Rng::named(context.seed, "sfq"),
            seed: context.seed,
            perturb: (period > 0).then(|| (ticks, period, ticks.fires(0, period))),
            packets: Pool::default(),
            slots: Vec::new(),
            buckets: alloc::vec![NONE; divisor as usize],
            by_length: alloc::vec![NONE; depth as usize + 1],
            longest: 0,
            tail: NONE,
            backlog: Backlog::default(),
        };
        let free = Slot {
            list: List::default(),
            bucket: 0,
            next: NONE,
            packets: 0,
            bytes: 0,
            allowance: 0,
            vars: Vars::default(),
            longer_before: NONE,
            longer_after: NONE,
        };
        sfq.slots = alloc::vec![free; flows as usize];
        (0..flows as u32).for_each(|slot| sfq.link(slot));
        sfq
    }

    /// Inserts a queue at the head of the list of queues of its length.
    fn link(&mut self, at: u32) {
        let length = self.slots[at as usize].packets as usize;
        let after = self.by_length[length];
        self.by_length[length] = at;
        let slot = &mut self.slots[at as usize];
        (slot.longer_before, slot.longer_after) = (NONE, after);
        if let Some(after) = self.slots.get_mut(after as usize) {
            after.longer_before = at;
        }
    }
    fn unlink(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        let (before, after, length) =
            (slot.longer_before, slot.longer_after, slot.packets as usize);
        match self.slots.get_mut(before as usize) {
            Some(before) => before.longer_after = after,
            None => self.by_length[length] = after,
        }
        if let Some(after) = self.slots.get_mut(after as usize) {
            after.longer_before = before;
        }
    }

    /// Adds a packet to a queue.
    fn push(&mut self, at: u32, packet: P) {
        self.unlink(at);
        let slot = &mut self.slots[at as usize];
        slot.packets += 1;
        slot.bytes += packet.size().get();
        self.longest = self.longest.max(slot.packets);
        self.backlog.add(packet.size());
        self.packets.push(&mut slot.list, packet);
        self.link(at);
    }
    /// Removes a packet from the head or the tail of a queue that has packets.
    fn pop(&mut self, at: u32, from_head: bool) -> Option<P> {
        let slot = &mut self.slots[at as usize];
        let packet = match from_head {
            true => self.packets.pop(&mut slot.list),
            false => self.packets.pop_back(&mut slot.list),
        }?;
        self.unlink(at);
        let slot = &mut self.slots[at as usize];
        let length = slot.packets;
        slot.packets -= 1;
        slot.bytes = slot.bytes.saturating_sub(packet.size().get());
        self.backlog.remove(packet.size());
        if length == self.longest && self.by_length[length as usize] == NONE {
            self.longest -= 1;
        }
        self.link(at);
        Some(packet)
    }
    /// Adds a packet to a queue and removes its oldest packet. The length of the queue is constant,
    /// so it keeps its position among the queues of the same length.
    fn exchange(&mut self, at: u32, packet: P) -> Option<P> {
        let slot = &mut self.slots[at as usize];
        let oldest = self.packets.pop(&mut slot.list)?;
        let (more, less) = (packet.size(), oldest.size());
        slot.bytes = (slot.bytes + more.get()).saturating_sub(less.get());
        self.backlog.remove(less);
        self.backlog.add(more);
        self.packets.push(&mut slot.list, packet);
        Some(oldest)
    }

    /// The queue of a bucket. A bucket without a queue gets a free one; `None` if none is free.
    fn slot(&mut self, bucket: u32) -> Option<u32> {
        match self.buckets[bucket as usize] {
            NONE => {
                let free = self.by_length[0];
                let slot = self.slots.get_mut(free as usize)?;
                slot.bucket = bucket;
                slot.vars = Vars::default();
                self.buckets[bucket as usize] = free;
                Some(free)
            }
            held => Some(held),
        }
    }
    fn bucket(&self, packet: &P) -> u32 {
        ((u64::from(packet.flow_hash(self.seed)) * self.buckets.len() as u64) >> 32) as u32
    }
    /// Adds a queue that got its first packet to the end of the round.
    fn join(&mut self, at: u32) {
        let next = match self.slots.get_mut(self.tail as usize) {
            Some(last) => core::mem::replace(&mut last.next, at),
            None => at,
        };
        let slot = &mut self.slots[at as usize];
        slot.next = next;
        slot.allowance = self.quantum;
        self.tail = at;
    }
    /// Removes the next queue in the round, which is or becomes empty.
    fn leave(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        self.buckets[slot.bucket as usize] = NONE;
        if slot.next == at {
            self.tail = NONE;
        } else {
            self.slots[self.tail as usize].next = slot.next;
        }
    }

    /// Drops a packet of the longest queue.
    fn drop_of_longest(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        let at = match self.longest {
            0 => return,
            1 => {
                let at = self.slots[self.tail as usize].next;
                self.leave(at);
                at
            }
            more => self.by_length[more as usize],
        };
        if let Some(packet) = self.pop(at, self.from_head) {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }

    /// Applies RED to a packet that arrives at a queue. Returns the verdict, or `Pass` after a
    /// mark.
    fn judge(&mut self, now: Time, at: u32, packet: &mut P, sink: &mut dyn Sink<P>) -> Verdict {
        let (Some(red), slot) = (&self.red, &mut self.slots[at as usize]) else {
            return Verdict::Pass;
        };
        slot.vars.arrival_in_use(&red.law, slot.bytes);
        let verdict = slot.vars.judge(&red.law, &mut self.rng);
        if verdict == Verdict::Pass || !red.refused.marks(verdict) {
            return verdict;
        }
        let head = if self.from_head {
            self.packets.front_mut(&slot.list)
        } else {
            None
        };
        if head.is_some_and(|head| mark(now, head, sink)) || mark(now, packet, sink) {
            return Verdict::Pass;
        }
        verdict
    }

    /// Sorts all packets into queues again, by the new hash.
    fn sort_again(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        let mut all = List::default();
        for at in 0..self.slots.len() as u32 {
            if self.slots[at as usize].packets == 0 {
                continue;
            }
            while let Some(packet) = self.pop(at, true) {
                self.packets.push(&mut all, packet);
            }
            self.buckets[self.slots[at as usize].bucket as usize] = NONE;
        }
        self.tail = NONE;
        while let Some(packet) = self.packets.pop(&mut all) {
            let bucket = self.bucket(&packet);
            let at = match self.slot(bucket) {
                Some(at) if self.slots[at as usize].packets < self.depth => at,
                _ => {
                    sink.dropped(now, packet, DropReason::Overflow);
                    continue;
                }
            };
            let slot = &mut self.slots[at as usize];
            if let Some(red) = &self.red {
                slot.vars.arrival_in_use(&red.law, slot.bytes);
            }
            self.push(at, packet);
            if self.slots[at as usize].packets == 1 {
                self.join(at);
            }
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Sfq<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        let bucket = self.bucket(&packet);
        let Some(at) = self.slot(bucket) else {
            return sink.dropped(now, packet, DropReason::Overflow);
        };
        let verdict = self.judge(now, at, &mut packet, sink);
        let held = self.slots[at as usize].packets;
        if verdict != Verdict::Pass || held >= self.depth {
            let reason = if verdict == Verdict::Pass {
                DropReason::Overflow
            } else {
                DropReason::Aqm
            };
            if held == 0 {
                self.buckets[bucket as usize] = NONE;
            }
            if !self.from_head || held == 0 {
                return sink.dropped(now, packet, reason);
            }
            if let Some(oldest) = self.exchange(at, packet) {
                sink.dropped(now, oldest, reason);
            }
            return;
        }
        self.push(at, packet);
        if held == 0 {
            self.join(at);
        }
        while self.limit.exceeded(self.backlog) {
            self.drop_of_longest(now, sink);
        }
    }
    fn refuses(&self, _why: DropReason) -> bool {
        false
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let mut at = self.slots.get(self.tail as usize)?.next;
        while self.slots[at as usize].allowance <= 0 {
            self.slots[at as usize].allowance += self.quantum;
            self.tail = at;
            at = self.slots[at as usize].next;
        }
        let packet = self.pop(at, true)?;
        if self.slots[at as usize].packets == 0 {
            self.leave(at);
        } else {
            let slot = &mut self.slots[at as usize];
            slot.allowance = slot.allowance.saturating_sub(signed(packet.size()));
        }
        Some(packet)
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.perturb.map(|(_, _, at)| at)
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        let Some((ticks, period, at)) = &mut self.perturb else {
            return;
        };
        if *at <= now {
            let tick = ticks.at(now);
            *at = ticks.fires(tick, tick + *period);
            self.seed = self.rng.next_u64();
            self.sort_again(now, sink);
        }
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "sfq",
        help: "a short queue for each flow, served in turn; with `redflowlimit`, RED acts on each \
            queue",
        source: "McKenney 1990; Linux 6.12 sfq",
        params: PARAMS,
        check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Sfq::<P>::new(params, context)),
    }
}
