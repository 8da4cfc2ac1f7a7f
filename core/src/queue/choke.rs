//! CHOKe: choose and keep for responsive flows, choose and kill for unresponsive ones.
//!
//! Algorithm: CHOKe computes RED's average of the backlog ([`law`](super::red::law)), here in
//! packets. If the average is at or below `min`, every packet is enqueued. If it is above `min`,
//! the arriving packet is compared with a packet drawn at random from the queue. If both belong to
//! the same flow, both are dropped. Otherwise the arriving packet is refused: always if the average
//! is above `max`, and else with the probability of RED. A refused packet is marked and enqueued if
//! `ecn` is set and it is ECN-capable, else dropped. Flows with many packets in the queue are drawn
//! most often.
//!
//! Sources: Pan, Prabhakar, Psounis, "CHOKe, a stateless active queue management scheme for
//! approximating fair bandwidth allocation", 2000; Linux 6.12 `choke`; iproute2 6.1.
//!
//! As in Linux, a packet that was dropped from the middle of the queue leaves a hole. A draw that
//! selects a hole is repeated up to two times; after three holes, the packet at the head is
//! selected. Two packets belong to the same flow if their hashes are equal.
//!
//! Deviations: when the table is full and contains holes, this file closes the holes, where Linux
//! would overwrite the head of the table. The default `limit` is 1000 packets; tc has none.

use super::red::law::{Law, Vars, Verdict};
use super::red::words::{self, Words};
use super::red::{Refused, mark};
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::units::{Bytes, Rate, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Maximum number of packets of Linux's `choke`.
const MOST: u64 = 131_072;
/// Number of draws after which the head is selected.
const DRAWS: u32 = 3;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, MOST),
        help: "largest backlog in packets, if the path has no buffer",
        source: "tc-choke(8); the default: a device's txqueuelen",
    },
    Param {
        name: "min",
        kind: Kind::Packets(0, 0, MOST),
        help: "average backlog in packets up to which no packet is dropped; 0p: a third of max",
        source: "tc-choke(8)",
    },
    Param {
        name: "max",
        kind: Kind::Packets(0, 0, MOST),
        help: "average backlog in packets above which all packets are dropped; 0p: a quarter of \
            limit",
        source: "tc-choke(8)",
    },
    words::AVPKT,
    words::BURST,
    words::PROBABILITY,
    words::BANDWIDTH,
    words::ECN,
];

/// The parameters in tc's unit, bytes, for a queue of `limit` packets before a link of `rate`.
fn words(params: &Params, limit: u64, rate: Rate) -> Words {
    let or = |given: u64, usual: u64| if given > 0 { given } else { usual };
    let max = or(params.packets("max"), limit / 4);
    let min = or(params.packets("min"), max / 3);
    let avpkt = params.bytes("avpkt").get();
    Words::of(
        params,
        min.saturating_mul(avpkt),
        max.saturating_mul(avpkt),
        rate,
    )
}

fn check(params: &Params) -> Result<(), Refusal> {
    words(params, params.packets("limit"), Rate::mbit(10)).check(true)
}

/// A queue in which arriving packets are compared with random ones.
pub struct Choke<P> {
    law: Law,
    vars: Vars,
    refused: Refused,
    rng: Rng,
    /// Seed of the flow hash.
    seed: u64,
    limit: Limit,
    /// Minimum number of packets and holes at which holes are closed.
    table: usize,
    backlog: Backlog,
    /// The packets and holes (`None`). Neither the head nor the tail is a hole.
    packets: VecDeque<Option<P>>,
}

impl<P: Packet + Send> Choke<P> {
    /// An empty queue with these parameters.
    pub fn new(params: &Params, context: &QueueContext) -> Choke<P> {
        let limit = context
            .limit
            .unwrap_or(Limit::Packets(params.packets("limit")));
        let avpkt = params.bytes("avpkt").get().max(1);
        let packets = match limit {
            Limit::Packets(n) => n,
            Limit::Bytes(bytes) => bytes.get() / avpkt,
        };
        let words = words(params, packets, context.rate);
        Choke {
            law: Law::new(&words, words.min / avpkt, words.max / avpkt, false),
            vars: Vars::default(),
            refused: Refused::of(params),
            rng: Rng::named(context.seed, "choke"),
            seed: context.seed,
            limit,
            table: packets
                .clamp(64, 1 << 20)
                .saturating_add(1)
                .next_power_of_two() as usize,
            backlog: Backlog::default(),
            packets: VecDeque::new(),
        }
    }

    /// The index of a packet drawn at random.
    fn draw(&mut self) -> usize {
        for _ in 0..DRAWS {
            let at = self.rng.below(self.packets.len() as u64) as usize;
            if let Some(Some(_)) = self.packets.get(at) {
                return at;
            }
        }
        0
    }
    /// Returns whether the packet at the index `at` belongs to the same flow as `packet`.
    fn is_companion(&self, at: usize, packet: &P) -> bool {
        let hash = packet.flow_hash(self.seed);
        matches!(self.packets.get(at), Some(Some(drawn)) if drawn.flow_hash(self.seed) == hash)
    }
    /// Removes the packet at the index `at`, and then holes at the head and the tail.
    fn take(&mut self, at: usize) -> Option<P> {
        let packet = self.packets.get_mut(at)?.take()?;
        self.backlog.remove(packet.size());
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
        }
        while let Some(None) = self.packets.back() {
            self.packets.pop_back();
        }
        Some(packet)
    }
    fn close_holes(&mut self) {
        let held = self.backlog.packets as usize;
        if self.packets.len() >= self.table.max(2 * held) {
            self.packets.retain(Option::is_some);
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Choke<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        self.vars.arrival(&self.law, now, self.backlog.packets);
        if !self.vars.is_calm(&self.law) {
            if self.backlog.packets > 0 {
                let at = self.draw();
                if self.is_companion(at, &packet) {
                    if let Some(companion) = self.take(at) {
                        sink.dropped(now, companion, DropReason::Aqm);
                    }
                    return sink.dropped(now, packet, DropReason::Aqm);
                }
            }
            let verdict = self.vars.judge_excited(&self.law, &mut self.rng);
            if verdict != Verdict::Pass
                && !(self.refused.marks(verdict) && mark(now, &mut packet, sink))
            {
                return sink.dropped(now, packet, DropReason::Aqm);
            }
        }
        if self.limit.admits(self.backlog, packet.size()) {
            self.backlog.add(packet.size());
            self.close_holes();
            self.packets.push_back(Some(packet));
        } else {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }
    fn refuses(&self, reason: DropReason) -> bool {
        reason == DropReason::Overflow
    }
    fn dequeue(&mut self, now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let packet = self.take(0);
        if packet.is_none() {
            self.vars.idle(now);
        }
        packet
    }
    fn peek(&self) -> Option<Bytes> {
        self.packets.front()?.as_ref().map(Packet::size)
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "choke",
        help: "RED that drops a packet together with a queued packet of the same flow",
        source: "Pan, Prabhakar, Psounis 2000; Linux 6.12 choke",
        params: PARAMS,
        check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Choke::<P>::new(params, context)),
    }
}
