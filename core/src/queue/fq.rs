//! Fair queueing with pacing, Linux's `fq`: a queue for each flow, served by deficit round robin.
//!
//! - Deficit round robin: each flow has a credit, which its packets reduce. A flow without credit
//!   gets a `quantum` and goes behind the other flows. New flows start with `initial_quantum` and
//!   are served before old flows. A flow that was empty for `refill_delay` has at least a quantum
//!   again, unless its credit is negative.
//! - Three bands by priority, which take turns: in each round, a band may send its weight in bytes.
//!   A band without credit waits for the next round.
//! - Pacing, if `maxrate` is set: a flow that has spent its credit waits for `max(size, quantum) /
//!   maxrate`, at most 1 s. If the flow sent its last packet late, the wait is shorter by this
//!   lateness, at most by half. If `maxrate` is at most `low_rate_threshold`, the flow waits after
//!   each packet for `size / maxrate`. A packet with a departure time waits until this time.
//! - No AQM: a packet is dropped if its flow has `flow_limit` packets or its band `limit`. It is
//!   also dropped if its departure time is more than `horizon` ahead. An ECN-capable packet that
//!   leaves more than `ce_threshold` after its due time is marked.
//!
//! ```text
//!                      ┌─ fast path: nothing else is due, at most 8 packets ──────────────┐
//!   packet ─▶ band? ─▶ flow ─▶ [new flows]─▶┐                                             ├─▶ link
//!                              [old flows]◀─┴─ credit? ── due? ── no ─▶ throttled ─▶ old  │
//!                                              └──────────── yes ─────────────────────────┘
//! ```
//!
//! Sources: tc-fq(8); Linux 6.12 `sch_fq`, measured packet by packet. On a router packets have
//! neither a socket nor a departure time. The bits of the hash of the 5-tuple that `orphan_mask`
//! selects identify a flow, so two flows may share a queue. The code point selects the band by the
//! map that Linux uses for forwarded packets. As in Linux, a negative credit is not refilled after
//! an idle time.
//!
//! Deviations: Linux discards a flow that was idle for three seconds when another flow of the same
//! bucket is looked up. This file discards no flow. The map from priorities to bands is Linux's
//! default and cannot be changed.

use super::pool::{List, Pool};
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

const SOURCE: &str = "Linux 6.12 sch_fq";
const LEAST_WEIGHT: u64 = 16_384;

const fn row(name: &'static str, kind: Kind, help: &'static str) -> Param {
    Param {
        name,
        kind,
        help,
        source: SOURCE,
    }
}
const fn weight(name: &'static str, default: u64, help: &'static str) -> Param {
    row(name, Kind::Count(default, LEAST_WEIGHT, 1 << 30), help)
}

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    row(
        "limit",
        Kind::Packets(10_000, 1, 1_000_000),
        "largest backlog of a band in packets; the path's buffer takes its place",
    ),
    row(
        "flow_limit",
        Kind::Packets(100, 1, 1_000_000),
        "largest backlog of a flow in packets",
    ),
    row(
        "quantum",
        Kind::Bytes(Bytes::new(3028), Bytes::new(1), Bytes::new(1 << 20)),
        "bytes that a flow may send before the next flow has its turn",
    ),
    row(
        "initial_quantum",
        Kind::Bytes(Bytes::new(15_140), Bytes::ZERO, Bytes::new((1 << 31) - 1)),
        "bytes that a new flow may send first",
    ),
    row("pacing", Kind::Bool(true), "enable pacing"),
    row(
        "maxrate",
        Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::bit(u64::MAX)),
        "pacing rate of a flow; 0: unlimited",
    ),
    row(
        "low_rate_threshold",
        Kind::Rate(Rate::bit(550_000), Rate::bit(0), Rate::bit(u64::MAX)),
        "rate up to which packets are paced one by one; above it, a quantum is sent at once",
    ),
    row(
        "refill_delay",
        Kind::Span(Span::ms(40), Span::ZERO, Span::s(3600)),
        "idle time after which a flow receives a new quantum",
    ),
    row(
        "ce_threshold",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
        "delay after the departure time above which packets are marked; 0: never",
    ),
    row(
        "horizon",
        Kind::Span(Span::s(10), Span::ZERO, Span::s(3600)),
        "largest distance of a packet's departure time from now",
    ),
    row(
        "horizon_drop",
        Kind::Bool(true),
        "drop packets beyond the horizon instead of reducing their departure time to it",
    ),
    row(
        "timer_slack",
        Kind::Span(Span::us(10), Span::ZERO, Span::s(1)),
        "delay of the pacing timer (timer slack)",
    ),
    row(
        "orphan_mask",
        Kind::Count(1023, 0, (1 << 20) - 1),
        "bits of a packet's hash that distinguish flows",
    ),
    weight(
        "weight_high",
        589_824,
        "bytes of the high band in each round",
    ),
    weight(
        "weight_middle",
        196_608,
        "bytes of the middle band in each round",
    ),
    weight("weight_low", 65_536, "bytes of the low band in each round"),
];

/// Maximum number of packets in the fast path while throttled flows have packets.
const FAST: usize = 8;

/// The band of a code point. Linux uses two of its bits, the former type of service
/// (`rt_tos2priority`). `fq` maps interactive (6) to band 0, best effort (0) and interactive bulk
/// (4) to 1, bulk (2) to 2.
fn band_of(dscp: u8) -> usize {
    match (dscp >> 1) & 3 {
        1 => 2,
        2 => 0,
        _ => 1,
    }
}

/// The value of an index that refers to no flow.
const NONE: u32 = u32::MAX;

/// A packet in the queue.
struct Waiting<P> {
    packet: P,
    /// The due time of the packet: its departure time, or its arrival time if it has none.
    due: Time,
    band: usize,
    /// Whether the packet has a departure time of its own.
    timed: bool,
}

/// A list of flows, which `Flow::next` links.
#[derive(Copy, Clone)]
struct Line {
    head: u32,
    tail: u32,
}

impl Line {
    const EMPTY: Line = Line {
        head: NONE,
        tail: NONE,
    };
}

/// The list that a flow is in.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Where {
    /// No list, since this tick: the flow has no packets.
    Detached(u64),
    /// The list of new or old flows of the flow's band.
    Listed,
    /// The heap of throttled flows.
    Throttled,
}

struct Flow {
    packets: List,
    /// Due time of the flow's last packet.
    last_due: Time,
    len: u64,
    credit: i64,
    /// Earliest departure of the flow's next packet; zero before any packet was paced.
    next_packet: Time,
    band: usize,
    at: Where,
    next: u32,
}

struct Band {
    new: Line,
    old: Line,
    credit: i64,
    weight: i64,
    /// The backlog that counts against the limit: all packets of the band except those in the fast
    /// path.
    counted: Backlog,
    /// All packets of the band.
    waiting: Backlog,
}

/// The queue discipline `fq`.
pub struct Fq<P> {
    limit: Limit,
    flow_limit: u64,
    quantum: Bytes,
    initial_quantum: Bytes,
    pacing: bool,
    /// The parameter `maxrate`, in bytes per second.
    maxrate: Option<u64>,
    low_rate: u64,
    refill_ticks: u64,
    ce_threshold: Option<Span>,
    horizon: Span,
    horizon_drop: bool,
    timer_slack: Span,
    mask: u32,
    hz: u64,
    seed: u64,

    packets: Pool<Waiting<P>>,
    flows: Vec<Flow>,
    /// The flow of each masked hash, or [`NONE`] if no packet with this hash has arrived.
    flow_of: Vec<u32>,
    fast: List,
    fast_len: usize,
    bands: [Band; 3],
    band: usize,
    /// Throttled flows in the order of their departure times, and in order of entry for equal
    /// times.
    delayed: BinaryHeap<Reverse<(Time, u64, u32)>>,
    delays: u64,
    /// Number of flows that have packets (without the fast path).
    active: usize,
    backlog: Backlog,
    served: usize,
    wake: Option<Time>,
}

impl<P: Packet> Fq<P> {
    /// An empty queue.
    pub fn new(params: &Params, context: &QueueContext) -> Fq<P> {
        let mask = params.count("orphan_mask").min((1 << 20) - 1) as u32;
        let hz = u64::from(context.hz.max(1));
        let refill = u128::from(params.span("refill_delay").as_ns()) * u128::from(hz);
        let maxrate = params.rate("maxrate").as_bit() / 8;
        let ce = params.span("ce_threshold");
        let band = |weight| Band {
            new: Line::EMPTY,
            old: Line::EMPTY,
            credit: 0,
            weight: signed(params.count(weight)),
            counted: Backlog::default(),
            waiting: Backlog::default(),
        };
        Fq {
            limit: context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit"))),
            flow_limit: params.packets("flow_limit"),
            quantum: params.bytes("quantum"),
            initial_quantum: params.bytes("initial_quantum"),
            pacing: params.bool("pacing"),
            maxrate: (params.rate("maxrate") != Rate::default()).then_some(maxrate.max(1)),
            low_rate: params.rate("low_rate_threshold").as_bit() / 8,
            refill_ticks: u64::try_from(refill.div_ceil(1_000_000_000)).unwrap_or(u64::MAX),
            ce_threshold: (ce > Span::ZERO).then_some(ce),
            horizon: params.span("horizon"),
            horizon_drop: params.bool("horizon_drop"),
            timer_slack: params.span("timer_slack"),
            mask,
            hz,
            seed: context.seed,
            packets: Pool::default(),
            flows: Vec::new(),
            flow_of: alloc::vec![NONE; mask as usize + 1],
            fast: List::default(),
            fast_len: 0,
            bands: [
                band("weight_high"),
                band("weight_middle"),
                band("weight_low"),
            ],
            band: 0,
            delayed: BinaryHeap::new(),
            delays: 0,
            active: 0,
            backlog: Backlog::default(),
            served: 0,
            wake: None,
        }
    }

    /// The tick at `now`. The tick of a detachment is stored with its lowest bit set, as in Linux.
    fn tick(&self, now: Time) -> u64 {
        (u128::from(now.as_ns()) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    /// Returns whether the packet may use the fast path, because nothing else is due.
    fn fast_path(&self, now: Time, due: Time) -> bool {
        let idle = self.backlog.packets == 0
            || (self.active == self.delayed.len()
                && self.fast_len < FAST
                && self.next_delayed() > now);
        due <= now && idle && self.maxrate.is_none()
    }

    fn next_delayed(&self) -> Time {
        self.delayed
            .peek()
            .map_or(Time::MAX, |Reverse((at, ..))| *at)
    }

    fn flow_for(&mut self, hash: u32, now: Time) -> u32 {
        let masked = (hash & self.mask) as usize;
        if self.flow_of[masked] == NONE {
            self.flow_of[masked] = self.flows.len() as u32;
            self.flows.push(Flow {
                packets: List::default(),
                last_due: Time::ZERO,
                len: 0,
                credit: signed(self.initial_quantum.get()),
                next_packet: Time::ZERO,
                band: 0,
                at: Where::Detached(self.tick(now) | 1),
                next: NONE,
            });
        }
        self.flow_of[masked]
    }

    /// Adds a packet to the backlogs.
    fn joins(&mut self, waiting: &Waiting<P>) {
        let size = waiting.packet.size();
        self.backlog.add(size);
        self.bands[waiting.band].waiting.add(size);
    }

    /// Subtracts a packet from the backlogs.
    fn leaves(&mut self, waiting: &Waiting<P>) {
        let size = waiting.packet.size();
        self.backlog.remove(size);
        self.bands[waiting.band].waiting.remove(size);
        self.served = waiting.band;
    }

    /// Inserts a packet into its flow, behind all packets that are due no later.
    fn join_flow(&mut self, flow: u32, waiting: Waiting<P>) {
        let (flow, due) = (&mut self.flows[flow as usize], waiting.due);
        let in_order = flow.packets.is_empty() || flow.last_due <= due;
        if in_order {
            flow.last_due = due;
            return self.packets.push(&mut flow.packets, waiting);
        }
        // Moves every packet once from the head to the tail. This is rare, because only packets
        // with a departure time can be out of order.
        let mut waiting = Some(waiting);
        for _ in 0..flow.len {
            if let Some(next) = self.packets.pop(&mut flow.packets) {
                if let Some(earlier) = waiting.take_if(|w| w.due < next.due) {
                    self.packets.push(&mut flow.packets, earlier);
                }
                self.packets.push(&mut flow.packets, next);
            }
        }
    }

    /// Appends a flow to the list of new or old flows of its band.
    fn enlist(&mut self, flow: u32, new: bool) {
        let it = &mut self.flows[flow as usize];
        (it.at, it.next) = (Where::Listed, NONE);
        let band = &mut self.bands[it.band];
        let list = if new { &mut band.new } else { &mut band.old };
        let tail = list.tail;
        list.tail = flow;
        match tail {
            NONE => list.head = flow,
            tail => self.flows[tail as usize].next = flow,
        }
    }

    /// Removes the first flow of the list of new or old flows of a band.
    fn delist(&mut self, band: usize, new: bool) {
        let band = &mut self.bands[band];
        let list = if new { &mut band.new } else { &mut band.old };
        list.head = self.flows[list.head as usize].next;
        if list.head == NONE {
            list.tail = NONE;
        }
    }

    /// Moves throttled flows whose departure time is reached to the old flows of their bands.
    fn release(&mut self, now: Time) {
        while self.next_delayed() <= now {
            if let Some(Reverse((_, _, flow))) = self.delayed.pop() {
                self.enlist(flow, false);
            }
        }
    }

    /// Returns the flow to serve, and whether it is a new flow.
    fn turn(&mut self) -> Option<(u32, bool)> {
        let mut empty = 0;
        loop {
            let band = &self.bands[self.band];
            if band.credit > 0 {
                if band.new.head != NONE {
                    return Some((band.new.head, true));
                }
                if band.old.head != NONE {
                    return Some((band.old.head, false));
                }
            }
            loop {
                empty += 1;
                if empty > self.bands.len() {
                    return None;
                }
                self.band = (self.band + 1) % self.bands.len();
                let band = &mut self.bands[self.band];
                band.credit = (band.credit + band.weight).min(band.weight);
                if band.credit > 0 {
                    break;
                }
                empty = 0;
            }
        }
    }

    /// Sets the earliest next departure of a flow after a packet of `size` has left. `has_time` is
    /// whether the packet had a departure time of its own.
    fn pace(&mut self, now: Time, flow: u32, size: Bytes, has_time: bool) {
        if !self.pacing {
            return;
        }
        let flow = &mut self.flows[flow as usize];
        let rate = self.maxrate.unwrap_or(u64::MAX);
        let mut size = size;
        if !has_time {
            if rate <= self.low_rate {
                flow.credit = 0;
            } else {
                size = size.max(self.quantum);
                if flow.credit > 0 {
                    return;
                }
            }
        }
        if self.maxrate.is_none() {
            return;
        }
        let mut ns = (size.get().saturating_mul(1_000_000_000) / rate).min(1_000_000_000);
        if flow.next_packet > Time::ZERO {
            ns -= now.since(flow.next_packet).as_ns().min(ns / 2);
        }
        flow.next_packet = now + Span::ns(ns);
    }

    /// Handles an arriving packet, with its departure time `departs`, if it has one.
    fn enter(&mut self, now: Time, packet: P, departs: Option<Time>, sink: &mut dyn Sink<P>) {
        let band = band_of(packet.dscp());
        if !self.limit.admits(self.bands[band].counted, packet.size()) {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        let mut due = departs.unwrap_or(now);
        if due > now + self.horizon {
            if self.horizon_drop {
                return sink.dropped(now, packet, DropReason::Overflow);
            }
            due = now + self.horizon;
        }
        if self.fast_path(now, due) {
            let waiting = Waiting {
                packet,
                due,
                band,
                timed: departs.is_some(),
            };
            self.joins(&waiting);
            self.fast_len += 1;
            return self.packets.push(&mut self.fast, waiting);
        }
        let at = self.flow_for(packet.flow_hash(self.seed), now);
        if self.flows[at as usize].len >= self.flow_limit {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        if let Where::Detached(since) = self.flows[at as usize].at {
            // As in Linux, the flow joins the list of its former band. The band of this packet
            // applies only when the flow is listed the next time.
            self.enlist(at, true);
            let rested = self.tick(now) > since + self.refill_ticks;
            let flow = &mut self.flows[at as usize];
            if rested && flow.credit >= 0 {
                flow.credit = flow.credit.max(signed(self.quantum.get()));
            }
        }
        self.bands[band].counted.add(packet.size());
        let waiting = Waiting {
            packet,
            due,
            band,
            timed: departs.is_some(),
        };
        self.joins(&waiting);
        self.join_flow(at, waiting);
        let flow = &mut self.flows[at as usize];
        flow.band = band;
        self.active += usize::from(flow.len == 0);
        flow.len += 1;
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl<P: Packet + Send> QueueDiscipline<P> for Fq<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let departs = packet.departure();
        self.enter(now, packet, departs, sink);
    }

    fn enqueue_for(&mut self, now: Time, packet: P, departs: Time, sink: &mut dyn Sink<P>) {
        self.enter(
            now,
            packet,
            Some(departs).filter(|at| *at > Time::ZERO),
            sink,
        );
    }

    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.wake = None;
        if let Some(waiting) = self.packets.pop(&mut self.fast) {
            self.leaves(&waiting);
            self.fast_len -= 1;
            return Some(waiting.packet);
        }
        self.release(now);
        loop {
            let Some((at, new)) = self.turn() else {
                let next = self.next_delayed();
                self.wake = (next < Time::MAX).then(|| next + self.timer_slack);
                return None;
            };
            let band = self.band;
            let flow = &mut self.flows[at as usize];
            if flow.credit <= 0 {
                flow.credit += signed(self.quantum.get());
                self.delist(band, new);
                self.enlist(at, false);
                continue;
            }
            let Some(head) = self.packets.front(&flow.packets) else {
                self.delist(band, new);
                // An empty new flow becomes an old flow for a round before it may be new again.
                if new {
                    self.enlist(at, false);
                } else {
                    self.flows[at as usize].at = Where::Detached(self.tick(now) | 1);
                }
                continue;
            };
            let due = head.due.max(flow.next_packet);
            if due > now {
                flow.next_packet = due;
                flow.at = Where::Throttled;
                self.delist(band, new);
                self.delays += 1;
                self.delayed.push(Reverse((due, self.delays, at)));
                continue;
            }
            let waiting = self.packets.pop(&mut flow.packets)?;
            self.leaves(&waiting);
            let timed = waiting.timed;
            let mut packet = waiting.packet;
            let size = packet.size();
            let flow = &mut self.flows[at as usize];
            flow.len -= 1;
            flow.credit -= signed(size.get());
            self.active -= usize::from(flow.len == 0);
            self.bands[self.served].counted.remove(size);
            self.bands[band].credit -= signed(size.get());
            let late = self.ce_threshold.is_some_and(|most| now.since(due) > most);
            if late && matches!(packet.ecn(), Ecn::Ect0 | Ecn::Ect1) {
                packet.set_ce();
                sink.marked(now, &packet, DropReason::Aqm);
            }
            self.pace(now, at, size, timed);
            return Some(packet);
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.wake
    }
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {
        self.wake = None;
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn classes(&self) -> Vec<String> {
        ["high", "middle", "low"].map(String::from).to_vec()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.bands
            .get(class)
            .map_or_else(Backlog::default, |band| band.waiting)
    }
    fn class_served(&self) -> usize {
        self.served
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "fq",
        help: "a queue for each flow, served in turn; paces flows",
        source: SOURCE,
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params, context| Box::new(Fq::<P>::new(params, context)),
    }
}
