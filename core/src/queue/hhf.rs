//! HHF, the heavy-hitter filter: flows that send much data in a short time wait behind all other
//! flows.
//!
//! Algorithm: four arrays of 1024 counters are cleared every `reset_timeout`. The flow of a packet
//! has one counter in each array. Let the sum be the minimum of the four counters plus the size of
//! the packet. The flow has not sent more bytes than this sum since the last reset. If this sum is
//! at most `admit_bytes`, those of the four counters that are below the sum are raised to it.
//! Otherwise the flow is heavy, if the table of heavy flows has room. A heavy flow is no longer
//! counted, and is stored until it has been idle for `evict_timeout`. Packets of heavy flows wait
//! in the heavy queue, all others in the light queue. Deficit round robin serves both queues. Per
//! turn, the heavy queue sends `quantum` bytes, and the light queue `non_hh_weight` times as many.
//! When the light queue becomes active, it is served first. When `limit` is exceeded, the head of
//! the heavy queue is dropped, or the head of the light queue if the heavy queue is empty.
//!
//! Sources: Estan, Varghese, "New directions in traffic measurement and accounting", 2002
//! (multistage filter, conservative update, shielding); `tc qdisc add … hhf help`; Linux 6.12
//! `hhf`, compared packet by packet (`core/tests/queue_replay.rs`).
//!
//! As in Linux, time is in ticks, and a timeout expires only when it is exceeded. The packet that
//! makes a flow heavy enters the heavy queue and is not counted. Heavy flows are stored in 1024
//! lists, at most `hh_limit` flows in all. Only an arriving flow of the same list can replace an
//! idle flow. Deviation: the indices of the counters are parts of the product of the flow's hash
//! and a constant.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, Refusal};
use crate::transport::Jiffies;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, u32::MAX as u64),
        help: "largest backlog of both queues in packets, if the path has no buffer",
        source: "Linux 6.12 hhf",
    },
    Param {
        name: "quantum",
        kind: Kind::Bytes(Bytes::new(1514), Bytes::new(256), Bytes::new(1 << 30)),
        help: "bytes that the queue of heavy flows may send in its turn",
        source: "Linux 6.12 hhf: the device's MTU and its Ethernet header",
    },
    Param {
        name: "hh_limit",
        kind: Kind::Count(2048, 1, 2048),
        help: "number of heavy flows in the table",
        source: "Linux 6.12 hhf",
    },
    Param {
        name: "reset_timeout",
        kind: Kind::Span(Span::ms(40), Span::us(1), Span::s(1000)),
        help: "time after which the counters are cleared, rounded up to ticks",
        source: "Linux 6.12 hhf",
    },
    Param {
        name: "admit_bytes",
        kind: Kind::Bytes(
            Bytes::new(128 << 10),
            Bytes::new(1),
            Bytes::new(u32::MAX as u64),
        ),
        help: "bytes within reset_timeout above which a flow counts as heavy",
        source: "Linux 6.12 hhf",
    },
    Param {
        name: "evict_timeout",
        kind: Kind::Span(Span::s(1), Span::us(1), Span::s(1000)),
        help: "idle time after which a flow is no longer heavy, rounded up to ticks",
        source: "Linux 6.12 hhf",
    },
    Param {
        name: "non_hh_weight",
        kind: Kind::Count(2, 1, 1 << 20),
        help: "quanta that the queue of the other flows may send in its turn",
        source: "Linux 6.12 hhf",
    },
];

/// Maximum number of bytes per turn, which Linux stores in 31 bits.
const MOST_IN_A_TURN: u64 = i32::MAX as u64;

fn check(params: &Params) -> Result<(), Refusal> {
    let (quantum, weight) = (
        params.bytes("quantum").get().max(1),
        params.count("non_hh_weight"),
    );
    if quantum.saturating_mul(weight) <= MOST_IN_A_TURN {
        return Ok(());
    }
    Err(Refusal {
        param: "non_hh_weight",
        problem: alloc::format!(
            "is too much for a quantum of {quantum}B: a turn has at most 2147483647 bytes"
        ),
        fix: alloc::format!("{}", (MOST_IN_A_TURN / quantum).max(1)),
    })
}

const STAGES: usize = 4;
const COUNTERS: usize = 1024;
/// Number of lists of heavy flows.
const LISTS: u64 = 1024;
/// The value of an index that refers to no flow.
const NONE: u32 = u32::MAX;

/// The index of the queue of heavy flows.
const HEAVY: usize = 0;
/// The index of the queue of all other flows.
const LIGHT: usize = 1;

/// Counters, which give upper bounds of the bytes that flows have sent since the last reset.
struct Filter {
    /// The number of resets before the counter last changed, and its bytes. If resets have followed
    /// since, the counter stands for 0.
    counters: [Vec<(u32, u32)>; STAGES],
    /// Number of resets so far.
    resets: u32,
    /// The tick of the last reset.
    since: u64,
    /// Time between two resets, in ticks.
    timeout: u64,
    admit: u32,
}

impl Filter {
    #[inline]
    fn reset_if_due(&mut self, tick: u64) {
        if tick.saturating_sub(self.since) > self.timeout {
            self.since = tick;
            self.resets = self.resets.wrapping_add(1);
        }
    }
    /// Returns whether the upper bound for the flow of `hash` does not exceed `admit_bytes` with
    /// `size` more bytes. If so, these bytes are counted.
    #[inline]
    fn passes(&mut self, hash: u32, size: Bytes) -> bool {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the hash.
        let product = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = |stage: usize| (product >> (54 - 10 * stage)) as usize % COUNTERS;
        let resets = self.resets;
        let read = |(of, bytes): (u32, u32)| if of == resets { bytes } else { 0 };
        let mut least = u32::MAX;
        for (stage, counters) in self.counters.iter().enumerate() {
            least = least.min(read(counters[at(stage)]));
        }
        let sum = u64::from(least) + size.get();
        if sum > u64::from(self.admit) {
            return false;
        }
        for (stage, counters) in self.counters.iter_mut().enumerate() {
            let counter = &mut counters[at(stage)];
            *counter = (resets, read(*counter).max(sum as u32));
        }
        true
    }
}

/// A heavy flow.
struct Flow {
    hash: u32,
    /// The tick of the flow's last packet.
    seen: u64,
    /// The next flow in the same list, or the next free entry.
    next: u32,
}

/// The table of heavy flows.
struct Flows {
    /// The first flow of each list.
    heads: Vec<u32>,
    flows: Vec<Flow>,
    /// The first free entry of `flows`.
    free: u32,
    /// Number of stored flows, including idle flows.
    held: u64,
    limit: u64,
    /// Idle time after which a flow is no longer heavy, in ticks.
    timeout: u64,
}

impl Flows {
    fn list(hash: u32) -> usize {
        ((u64::from(hash) * LISTS) >> 32) as usize
    }
    fn is_idle(&self, flow: &Flow, tick: u64) -> bool {
        tick.saturating_sub(flow.seen) > self.timeout
    }
    /// Returns whether the flow of `hash` is heavy. Idle flows before it in the same list are
    /// removed, except the last flow of the list.
    #[inline]
    fn is_heavy(&mut self, hash: u32, tick: u64) -> bool {
        let list = Flows::list(hash);
        let (mut before, mut at) = (NONE, self.heads[list]);
        while let Some(flow) = self.flows.get(at as usize) {
            let next = flow.next;
            if !self.is_idle(flow, tick) {
                if flow.hash == hash {
                    self.flows[at as usize].seen = tick;
                    return true;
                }
                before = at;
            } else if next == NONE {
                return false;
            } else {
                match self.flows.get_mut(before as usize) {
                    Some(before) => before.next = next,
                    None => self.heads[list] = next,
                }
                self.flows[at as usize].next = self.free;
                self.free = at;
                self.held -= 1;
            }
            at = next;
        }
        false
    }
    /// Stores a flow as heavy, in the place of an idle flow of the same list or in a free entry.
    /// Returns false if there is no room.
    #[cold]
    fn insert(&mut self, hash: u32, tick: u64) -> bool {
        let list = Flows::list(hash);
        let new = Flow {
            hash,
            seen: tick,
            next: NONE,
        };
        let (mut last, mut at) = (NONE, self.heads[list]);
        while let Some(flow) = self.flows.get(at as usize) {
            if self.is_idle(flow, tick) {
                self.flows[at as usize] = Flow {
                    next: flow.next,
                    ..new
                };
                return true;
            }
            (last, at) = (at, flow.next);
        }
        if self.held >= self.limit {
            return false;
        }
        let at = match self.flows.get_mut(self.free as usize) {
            Some(slot) => {
                let at = self.free;
                self.free = slot.next;
                *slot = new;
                at
            }
            None => {
                self.flows.push(new);
                (self.flows.len() - 1) as u32
            }
        };
        match self.flows.get_mut(last as usize) {
            Some(last) => last.next = at,
            None => self.heads[list] = at,
        }
        self.held += 1;
        true
    }
}

/// One of the two queues.
struct Class<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
    /// Bytes per turn.
    turn: i64,
    /// Bytes that the queue may still send in its present turn.
    deficit: i64,
    /// Whether the queue is in the order of service.
    listed: bool,
}

impl<P: Packet> Class<P> {
    fn new(turn: u64) -> Class<P> {
        Class {
            packets: VecDeque::new(),
            backlog: Backlog::default(),
            // With 0 bytes per turn, the queue would never be served.
            turn: turn.clamp(1, MOST_IN_A_TURN) as i64,
            deficit: 0,
            listed: false,
        }
    }
    fn push(&mut self, packet: P) {
        self.backlog.add(packet.size());
        self.packets.push_back(packet);
    }
    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.size());
        Some(packet)
    }
}

/// The queue discipline `hhf`.
pub struct Hhf<P> {
    limit: Limit,
    seed: u64,
    ticks: Jiffies,
    filter: Filter,
    flows: Flows,
    /// The heavy queue and the light queue.
    classes: [Class<P>; 2],
    /// Whether the light queue has become active and is served first.
    light_is_new: bool,
    /// The queues in the order of service, without a light queue that is new.
    old: VecDeque<usize>,
    backlog: Backlog,
    served: usize,
}

impl<P: Packet> Hhf<P> {
    /// Empty queues.
    pub fn new(params: &Params, context: &QueueContext) -> Hhf<P> {
        let ticks = Jiffies::new(context.hz);
        let in_ticks = |name| ticks.from_us(params.span(name).as_ns().div_ceil(1000));
        let quantum = params.bytes("quantum").get();
        Hhf {
            limit: context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit"))),
            seed: context.seed,
            ticks,
            filter: Filter {
                counters: [(); STAGES].map(|()| alloc::vec![(0, 0); COUNTERS]),
                resets: 0,
                since: 0,
                timeout: in_ticks("reset_timeout"),
                admit: params.bytes("admit_bytes").get().min(u64::from(u32::MAX)) as u32,
            },
            flows: Flows {
                heads: alloc::vec![NONE; LISTS as usize],
                flows: Vec::new(),
                free: NONE,
                held: 0,
                limit: params.count("hh_limit"),
                timeout: in_ticks("evict_timeout"),
            },
            classes: [
                Class::new(quantum),
                Class::new(quantum.saturating_mul(params.count("non_hh_weight"))),
            ],
            light_is_new: false,
            old: VecDeque::with_capacity(2),
            backlog: Backlog::default(),
            served: LIGHT,
        }
    }

    fn class(&mut self, now: Time, packet: &P) -> usize {
        let tick = self.ticks.at(now);
        let hash = packet.flow_hash(self.seed);
        self.filter.reset_if_due(tick);
        let heavy = self.flows.is_heavy(hash, tick)
            || (!self.filter.passes(hash, packet.size()) && self.flows.insert(hash, tick));
        if heavy { HEAVY } else { LIGHT }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Hhf<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let at = self.class(now, &packet);
        let class = &mut self.classes[at];
        self.backlog.add(packet.size());
        class.push(packet);
        if !class.listed {
            class.listed = true;
            class.deficit = class.turn;
            if at == LIGHT {
                self.light_is_new = true;
            } else {
                self.old.push_back(HEAVY);
            }
        }
        while self.limit.exceeded(self.backlog) {
            let victim = self.classes.iter_mut().find_map(Class::pop);
            let Some(victim) = victim else { return };
            self.backlog.remove(victim.size());
            sink.dropped(now, victim, DropReason::Overflow);
        }
    }

    fn refuses(&self, _why: DropReason) -> bool {
        false
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        loop {
            let new = self.light_is_new;
            let at = if new { LIGHT } else { *self.old.front()? };
            let class = &mut self.classes[at];
            let spent = class.deficit <= 0;
            if !spent {
                if let Some(packet) = class.pop() {
                    class.deficit -= packet.size().get().min(1 << 40) as i64;
                    self.backlog.remove(packet.size());
                    self.served = at;
                    return Some(packet);
                }
            }
            if new {
                self.light_is_new = false;
            } else {
                self.old.pop_front();
            }
            if spent {
                class.deficit += class.turn;
                self.old.push_back(at);
            } else if new && !self.old.is_empty() {
                // An empty new queue becomes old, so that sparse packets do not keep it new.
                self.old.push_back(at);
            } else {
                class.listed = false;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn classes(&self) -> Vec<String> {
        ["heavy", "light"].map(String::from).into()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.classes
            .get(class)
            .map_or_else(Backlog::default, |class| class.backlog)
    }
    fn class_served(&self) -> usize {
        self.served
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "hhf",
        help: "heavy-hitter filter: flows that send much wait behind the others",
        source: "Estan, Varghese 2002; Linux 6.12 hhf",
        params: PARAMS,
        check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Hhf::<P>::new(params, context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other flows have increased three of the four counters of a flow: the fourth is the upper
    /// bound.
    #[test]
    fn the_minimum_counter_is_used_and_only_lower_counters_grow() {
        let counters = [0, 900, 900, 900].map(|bytes| alloc::vec![(0, bytes); COUNTERS]);
        let mut filter = Filter {
            counters,
            resets: 0,
            since: 0,
            timeout: 1,
            admit: 1000,
        };
        assert!(filter.passes(77, Bytes::new(500)));
        let counted = |stage: usize, bytes: u32| {
            filter.counters[stage]
                .iter()
                .filter(|of| of.1 == bytes)
                .count()
        };
        assert_eq!((counted(0, 500), counted(0, 0)), (1, COUNTERS - 1));
        assert!((1..STAGES).all(|stage| counted(stage, 900) == COUNTERS));
        assert!(
            !filter.passes(77, Bytes::new(501)),
            "1001 bytes are more than 1000"
        );
        assert!(filter.passes(77, Bytes::new(500)));
    }
}
