//! DualPI2: two queues, L (low latency) and C (classic), with one controller. Flows with a scalable
//! congestion control use L and have a short queueing delay. Their windows are about equal to those
//! of flows with a classic congestion control, which needs a standing queue and uses C.
//!
//! Algorithm:
//! - Packets with ECT(1) (and CE) enter queue L, others queue C.
//! - Let `d` be the waiting time of the head of L or of the head of C, whichever is longer. At
//!   every `tupdate`, the change of `p` is `alpha (d - target)` plus `beta (d - previous d)`.
//! - The probability of a mark or drop is `p²` for C (two random numbers below `p`), and
//!   `coupling · p` for L. A packet that can be marked is marked, others are dropped.
//!   These probabilities do not apply to a packet if both queues together contain fewer bytes than
//!   two full frames besides it.
//! - A packet of L is also marked if it waited longer than `step`, or dropped if it cannot be
//!   marked. This applies if L contained at least `min_qlen_step` packets when the packet arrived.
//! - When `coupling · p` is above 1 the queue is overloaded. Then C drops instead of marking. L
//!   drops packets with the probability `p²` and marks all others. Without `drop_overload`,
//!   `coupling · p` is limited to 1.
//! - L is served first while it has credit. While both queues have packets, a byte sent from L
//!   reduces the credit by `protection`, and a byte sent from C increases it by `100 - protection`.
//! - The probabilities apply when packets leave, or, with `drop_early`, when they arrive.
//! - The segments of a super-packet enter the queue one by one.
//!
//! Fairness: let `pC` and `pL` be the probabilities of C and L. A sender that halves its window on
//! a mark or drop sends about `1.22 / √pC` packets per round trip. A sender that responds to each
//! mark sends `2 / pL` packets per round trip. With `pC = p²` and `pL = 2 p`, both are nearly
//! equal.
//!
//! Sources: RFC 9332 (appendix A for the algorithm, section 2.5 for the coupling); Linux 7.3
//! `sch_dualpi2` for defaults, step, credit and order. Deviations: the time of the first update is
//! random. In Linux the timer starts when the discipline is installed, at an unknown time before
//! the flows. Linux also limits the memory of both queues, to twice the size of `limit` full
//! frames; this file does not.

use super::codel::mark;
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(10_000, 1, u32::MAX as u64),
        help: "largest backlog of both queues in packets, if the path has no buffer",
        source: "Linux 6.17 sch_dualpi2",
    },
    Param {
        name: "target",
        kind: Kind::Span(Span::ms(15), Span::us(1), Span::s(100)),
        help: "target delay of the control law",
        source: "RFC 9332, Linux 6.17 sch_dualpi2",
    },
    Param {
        name: "tupdate",
        kind: Kind::Span(Span::ms(16), Span::us(1), Span::s(100)),
        help: "time between two updates of the probability",
        source: "RFC 9332, Linux 6.17 sch_dualpi2",
    },
    Param {
        name: "alpha",
        kind: Kind::Number(41.0 / 256.0, 0.0, 256.0),
        help: "weight of the difference between delay and target, per second",
        source: "RFC 9332 (0.16), Linux 6.17 sch_dualpi2 (41/256)",
    },
    Param {
        name: "beta",
        kind: Kind::Number(819.0 / 256.0, 0.0, 256.0),
        help: "weight of the growth of the delay, per second",
        source: "RFC 9332 (3.2), Linux 6.17 sch_dualpi2 (819/256)",
    },
    Param {
        name: "coupling",
        kind: Kind::Count(2, 1, 255),
        help: "ratio of the mark probability of L to the base probability, whose square applies \
            to C",
        source: "RFC 9332 section 2.5",
    },
    Param {
        name: "step",
        kind: Kind::Span(Span::ms(1), Span::ZERO, Span::s(10)),
        help: "sojourn time above which a packet of L is marked",
        source: "Linux 6.17 sch_dualpi2 (step_thresh)",
    },
    Param {
        name: "min_qlen_step",
        kind: Kind::Count(0, 0, u32::MAX as u64),
        help: "packets in L from which step applies to a new packet",
        source: "Linux 6.17 sch_dualpi2",
    },
    Param {
        name: "protection",
        kind: Kind::Count(10, 0, 50),
        help: "share of the rate, in percent, that C receives while L is overloaded",
        source: "Linux 6.17 sch_dualpi2 (classic_protection)",
    },
    Param {
        name: "drop_overload",
        kind: Kind::Bool(true),
        help: "drop packets of L, too, if marks are not sufficient; otherwise only the limit \
            drops them",
        source: "Linux 6.17 sch_dualpi2",
    },
    Param {
        name: "drop_early",
        kind: Kind::Bool(false),
        help: "decide at the arrival of a packet instead of at its departure",
        source: "Linux 6.17 sch_dualpi2",
    },
];

/// A full frame (`psched_mtu` of an Ethernet device), in bytes.
const FRAME: u64 = 1514;
/// If both queues together contain fewer bytes than this besides a packet, the probabilities do not
/// apply to it: two full frames.
const SPARED: u64 = 2 * FRAME;
/// A probability of 1.
const ONE: u64 = 1 << 32;

/// The proportional integral controller: one probability for both queues.
#[derive(Clone, PartialEq, Debug)]
pub struct Law {
    target: Span,
    alpha: f64,
    beta: f64,
    coupling: u64,
    drop_overload: bool,
    /// The base probability, in units of 1/[`ONE`].
    p: u64,
    /// The delay at the last update.
    before: Span,
}

/// The verdict on a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet passes unchanged.
    None,
    /// The packet is marked, or dropped if it is not ECN-capable.
    Mark,
    /// The packet is dropped.
    Drop,
}

impl Law {
    fn new(params: &Params) -> Law {
        Law {
            target: params.span("target"),
            alpha: params.number("alpha"),
            beta: params.number("beta"),
            coupling: params.count("coupling"),
            drop_overload: params.bool("drop_overload"),
            p: 0,
            before: Span::ZERO,
        }
    }
    /// Updates the probability when the timer fires. `delay` is the waiting time of the head of L
    /// or C, whichever is longer.
    pub fn update(&mut self, delay: Span) {
        let s = |a: Span, b: Span| a.as_s() - b.as_s();
        let step = self.alpha * s(delay, self.target) + self.beta * s(delay, self.before);
        self.before = delay;
        // Without `drop_overload`, every packet of L is marked at most: coupling · p ≤ 1.
        let most = if self.drop_overload {
            ONE
        } else {
            ONE / self.coupling
        };
        let next = self.p as f64 + step * ONE as f64;
        self.p = (next.max(0.0) as u64).min(most);
    }
    /// The probability whose square applies to C, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.p as f64 / ONE as f64
    }
    /// Draws the verdict on a packet, of L if `low` is true, otherwise of C.
    pub fn verdict(&self, low: bool, coin: &mut Rng) -> Verdict {
        let p = self.p;
        let mut draw = |p: u64| coin.next_u64() >> 32 < p;
        let coupled = self.coupling * p;
        let overload = coupled > ONE;
        if low {
            if overload {
                // Marks are at their maximum; drops keep L from starving C.
                return if draw(p) && draw(p) {
                    Verdict::Drop
                } else {
                    Verdict::Mark
                };
            }
            return if draw(coupled) {
                Verdict::Mark
            } else {
                Verdict::None
            };
        }
        match draw(p) && draw(p) {
            true if overload => Verdict::Drop,
            true => Verdict::Mark,
            false => Verdict::None,
        }
    }
}

/// A packet in the queue.
struct Waiting<P> {
    packet: P,
    /// Whether the step applies to the packet.
    step: bool,
}

struct Queue<P> {
    packets: VecDeque<Waiting<P>>,
    backlog: Backlog,
}

impl<P: Packet> Queue<P> {
    fn new() -> Queue<P> {
        Queue {
            packets: VecDeque::new(),
            backlog: Backlog::default(),
        }
    }
    fn push(&mut self, packet: P, step: bool) {
        self.backlog.add(packet.size());
        self.packets.push_back(Waiting { packet, step });
    }
    fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_front()?;
        self.backlog.remove(waiting.packet.size());
        Some(waiting)
    }
    fn waits(&self, now: Time) -> Span {
        self.packets
            .front()
            .map_or(Span::ZERO, |w| now.since(w.packet.enqueued_at()))
    }
}

const LOW: usize = 0;
const CLASSIC: usize = 1;

/// Both queues and their controller.
pub struct DualPi2<P> {
    limit: Limit,
    law: Law,
    tupdate: Span,
    due: Time,
    step: Span,
    min_qlen_step: u64,
    /// Credit that a byte of L costs, and credit that a byte of C returns.
    weights: [i64; 2],
    /// The credit of L with the opposite sign: L is served first while this is not positive.
    credit: i64,
    drop_early: bool,
    coin: Rng,
    queues: [Queue<P>; 2],
    served: usize,
}

impl<P: Packet> DualPi2<P> {
    /// Empty queues.
    pub fn new(params: &Params, context: &QueueContext) -> DualPi2<P> {
        let mut coin = Rng::named(context.seed, "queue/dualpi2");
        let tupdate = params.span("tupdate");
        let protection = params.count("protection") as i64;
        let mut it = DualPi2 {
            limit: context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit"))),
            law: Law::new(params),
            tupdate,
            due: Time::ZERO + Span::ns(coin.below(tupdate.as_ns()).max(1)),
            step: params.span("step"),
            min_qlen_step: params.count("min_qlen_step"),
            weights: [protection, 100 - protection],
            credit: 0,
            drop_early: params.bool("drop_early"),
            coin,
            queues: [Queue::new(), Queue::new()],
            served: CLASSIC,
        };
        it.reset_credit();
        it
    }
    /// Returns the controller and its state.
    pub fn law(&self) -> &Law {
        &self.law
    }
    fn reset_credit(&mut self) {
        self.credit = FRAME as i64 * (self.weights[LOW] - self.weights[CLASSIC]);
    }
    fn bytes(&self) -> Bytes {
        self.queues[LOW].backlog.bytes + self.queues[CLASSIC].backlog.bytes
    }
    /// Applies the probabilities to a packet, which may be marked. Returns whether it is not
    /// dropped. `waiting` is the number of bytes in both queues besides it.
    fn passes(
        &mut self,
        now: Time,
        class: usize,
        packet: &mut P,
        waiting: Bytes,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        if waiting.get() < SPARED {
            return true;
        }
        match self.law.verdict(class == LOW, &mut self.coin) {
            Verdict::None => true,
            Verdict::Mark => mark(packet, now, sink),
            Verdict::Drop => false,
        }
    }
    /// Returns the queue to serve next.
    fn next(&self) -> Option<usize> {
        let [low, classic] = [LOW, CLASSIC].map(|class| !self.queues[class].packets.is_empty());
        match (low, classic) {
            (true, true) => Some(if self.credit <= 0 { LOW } else { CLASSIC }),
            (true, false) => Some(LOW),
            (false, true) => Some(CLASSIC),
            (false, false) => None,
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        while let Some(first) = packet.first_segment() {
            self.enqueue(now, first, sink);
        }
        let class = match packet.ecn() {
            Ecn::Ect1 | Ecn::Ce => LOW,
            Ecn::NotEct | Ecn::Ect0 => CLASSIC,
        };
        if !self.limit.admits(self.backlog(), packet.size()) {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        if self.drop_early {
            let waiting = self.bytes();
            if !self.passes(now, class, &mut packet, waiting, sink) {
                return sink.dropped(now, packet, DropReason::Aqm);
            }
        }
        let step = class == LOW && self.queues[LOW].backlog.packets >= self.min_qlen_step;
        self.queues[class].push(packet, step);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        loop {
            let Some(class) = self.next() else {
                self.reset_credit();
                return None;
            };
            let Waiting { mut packet, step } = self.queues[class].pop()?;
            let waiting = self.bytes();
            if !self.drop_early && !self.passes(now, class, &mut packet, waiting, sink) {
                sink.dropped(now, packet, DropReason::Aqm);
                continue;
            }
            let late = step && now.since(packet.enqueued_at()) > self.step;
            if late && !mark(&mut packet, now, sink) {
                sink.dropped(now, packet, DropReason::Aqm);
                continue;
            }
            let other = LOW + CLASSIC - class;
            if !self.queues[other].packets.is_empty() {
                let cost = self.weights[class].saturating_mul(packet.size().get() as i64);
                self.credit = self
                    .credit
                    .saturating_add(if class == LOW { cost } else { -cost });
            }
            self.served = class;
            return Some(packet);
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.due)
    }
    fn on_wakeup(&mut self, now: Time, _sink: &mut dyn Sink<P>) {
        if now >= self.due {
            let [low, classic] = [LOW, CLASSIC].map(|class| self.queues[class].waits(now));
            self.law.update(low.max(classic));
            self.due = now + self.tupdate;
        }
    }
    fn backlog(&self) -> Backlog {
        let [a, b] = [LOW, CLASSIC].map(|class| self.queues[class].backlog);
        Backlog {
            bytes: a.bytes + b.bytes,
            packets: a.packets + b.packets,
        }
    }
    fn classes(&self) -> Vec<String> {
        ["l4s", "classic"].map(String::from).into()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.queues[class.min(CLASSIC)].backlog
    }
    fn class_served(&self) -> usize {
        self.served
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "dualpi2",
        help: "two queues with one control law: short delays for flows that react to each mark, a \
            fair share for all others",
        source: "Linux 6.17 sch_dualpi2, RFC 9332",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params, context| Box::new(DualPi2::<P>::new(params, context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law() -> Law {
        Law::new(&Params::defaults(PARAMS))
    }

    /// The numbers of RFC 9332: a constant delay 10 ms above the target adds 0.16 · 0.01 to the
    /// probability per update. An increase of the delay by 10 ms adds 3.2 · 0.01 more.
    #[test]
    fn the_probability_moves_by_distance_and_growth() {
        let mut law = law();
        law.update(Span::ms(25));
        assert!((law.probability() - (41.0 / 256.0 * 0.010 + 819.0 / 256.0 * 0.025)).abs() < 1e-9);
        let before = law.probability();
        law.update(Span::ms(25));
        assert!((law.probability() - before - 41.0 / 256.0 * 0.010).abs() < 1e-9);
        (0..10_000).for_each(|_| law.update(Span::ZERO));
        assert_eq!(law.p, 0);
        (0..10_000).for_each(|_| law.update(Span::s(1)));
        assert_eq!(law.p, ONE);
    }

    #[test]
    fn without_drops_the_maximum_probability_marks_every_packet_of_l() {
        let mut law = Law {
            drop_overload: false,
            ..law()
        };
        (0..10_000).for_each(|_| law.update(Span::s(1)));
        assert_eq!(law.p, ONE / 2);
        let mut coin = Rng::named(1, "test");
        assert!((0..1000).all(|_| law.verdict(true, &mut coin) == Verdict::Mark));
    }

    /// pC = p² and pL = 2p, with 200 000 draws each (standard deviations below 0.0011).
    #[test]
    fn c_is_marked_with_the_square_and_l_with_twice_the_probability() {
        let mut law = law();
        law.p = ONE / 10;
        let mut coin = Rng::named(2, "test");
        let mut share = |low: bool| {
            let share = (0..200_000)
                .filter(|_| law.verdict(low, &mut coin) == Verdict::Mark)
                .count();
            share as f64 / 200_000.0
        };
        assert!((share(false) - 0.01).abs() < 0.001);
        assert!((share(true) - 0.2).abs() < 0.005);
    }

    #[test]
    fn in_overload_c_is_dropped_and_l_is_always_marked_or_dropped() {
        let mut law = law();
        law.p = ONE / 10 * 8;
        let mut coin = Rng::named(3, "test");
        let mut drops = 0;
        for _ in 0..20_000 {
            assert_ne!(law.verdict(false, &mut coin), Verdict::Mark);
            match law.verdict(true, &mut coin) {
                Verdict::None => panic!("a packet of L passed unmarked"),
                Verdict::Mark => {}
                Verdict::Drop => drops += 1,
            }
        }
        assert!((f64::from(drops) / 20_000.0 - 0.64).abs() < 0.02);
    }
}
