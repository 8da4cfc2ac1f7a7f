//! CoDel: controls the time that packets spend in a queue, by drops or marks when packets leave it.
//! This file has the control law, which other disciplines use as well, and the discipline `codel`.
//!
//! Algorithm: the head is the packet that leaves next. It is above target if it has waited for at
//! least `target`, and more bytes than a full frame wait behind it. Once all heads have
//! been above target for `interval`, one packet is dropped (or marked, with `ecn`), and a dropping
//! phase begins. The next drop is at `drop_next`, which advances by `interval / √count` with each
//! drop. A head that is not above target ends the phase. `count` grows by 1 with each drop. If a
//! new phase begins earlier than 16 intervals after `drop_next`, `count` starts with its growth in
//! the last phase, if that is above 1. Otherwise `count` starts with 1.
//!
//! ```text
//!            ┌───────── head waited < target, or <= 1514 B behind it ─────────┐
//!            ▼                                                                │
//!   quiet ──▶ above since t ── still above, now > t + interval ──▶ dropping: next at drop_next
//! ```
//!
//! Sources: RFC 8289; Linux 6.12 `codel`, compared packet by packet (`core/tests/queue_replay.rs`).
//!
//! Linux differs from the RFC in four points, which this file follows:
//! - the clock counts units of 1024 ns;
//! - `1 / √count` is updated by one Newton step per drop, in 16 bits ([`newton_step`]). After a
//!   jump of `count`, it has an error of some per cent;
//! - after a mark, the dequeue returns the marked packet without checking `drop_next` again;
//! - `count` of a new phase starts from its growth in the last phase.
//!
//! Deviation: Linux's clock wraps after 73 minutes, so a time more than 37 minutes ago counts as
//! future. The clock of this file does not wrap.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Size of a full frame, which may always wait behind the head: a device's MTU of 1500 B and its
/// Ethernet header.
pub const MTU: Bytes = Bytes::new(1514);

/// The parameter `target` of every discipline with CoDel's control law.
pub const TARGET: Param = Param {
    name: "target",
    kind: Kind::Span(Span::ms(5), Span::us(1), Span::s(100)),
    help: "largest acceptable sojourn time of the first packet",
    source: "RFC 8289, Linux 6.12",
};
/// The parameter `interval` of every discipline with CoDel's control law.
pub const INTERVAL: Param = Param {
    name: "interval",
    kind: Kind::Span(Span::ms(100), Span::us(1), Span::s(100)),
    help: "time above target before packets are dropped: an RTT that most flows do not exceed",
    source: "RFC 8289, Linux 6.12",
};
/// The parameter `ce_threshold` of every discipline with CoDel's control law.
pub const CE_THRESHOLD: Param = Param {
    name: "ce_threshold",
    kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(100)),
    help: "sojourn time above which ECN-capable packets are marked, regardless of the control \
        law; 0s: never",
    source: "Linux 6.12",
};

/// Parameters of `codel`.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, 10_000_000),
        help: "largest backlog in packets, if the path has no buffer",
        source: "Linux 6.12 codel",
    },
    TARGET,
    INTERVAL,
    Param {
        name: "ecn",
        kind: Kind::Bool(false),
        help: "mark ECN-capable packets instead of dropping them",
        source: "Linux 6.12 codel",
    },
    CE_THRESHOLD,
];

/// Time in units of 1024 ns.
type Tick = u64;

fn ticks(span: Span) -> Tick {
    span.as_ns() >> 10
}

fn tick(now: Time) -> Tick {
    now.as_ns() >> 10
}

/// The interface of a queue for the control law. Disciplines with several queues create a value of
/// this type for the queue that is served.
pub trait Head<P> {
    /// Removes and returns the packet at the head.
    fn pop(&mut self) -> Option<P>;
    /// The bytes that wait behind the packet that was removed last. In Linux's queue disciplines,
    /// these are the bytes of all queues of the discipline; in mac80211, those of the one queue.
    fn behind(&self) -> Bytes;
}

/// The settings of the control law.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Law {
    target: Tick,
    interval: Tick,
    ecn: bool,
    ce_threshold: Tick,
    /// Mask of the DS field, and the masked value for which `ce_threshold` applies. With the mask
    /// 0, it applies to all packets.
    ds: (u8, u8),
    /// Bytes that may always wait behind the head.
    exempt: Bytes,
}

impl Law {
    /// Settings without `ce_threshold`.
    pub fn new(target: Span, interval: Span, ecn: bool) -> Law {
        Law {
            target: ticks(target),
            interval: ticks(interval),
            ecn,
            ce_threshold: Tick::MAX,
            ds: (0, 0),
            exempt: MTU,
        }
    }
    /// Replaces the full frame that may always wait behind the head by `exempt`.
    pub fn exempting(self, exempt: Bytes) -> Law {
        Law { exempt, ..self }
    }
    /// Settings from the parameters `target`, `interval`, `ecn` and `ce_threshold`.
    pub fn of(params: &Params) -> Law {
        let ce_threshold = params.span("ce_threshold");
        Law {
            ce_threshold: if ce_threshold == Span::ZERO {
                Tick::MAX
            } else {
                ticks(ce_threshold)
            },
            ..Law::new(
                params.span("target"),
                params.span("interval"),
                params.bool("ecn"),
            )
        }
    }
    /// Restricts `ce_threshold` to packets whose DS field (with the ECN bits lowest), combined with
    /// `mask` by AND, equals `selector`.
    pub fn selecting(self, selector: u8, mask: u8) -> Law {
        Law {
            ds: (mask, selector),
            ..self
        }
    }
    fn selects<P: Packet>(&self, packet: &P) -> bool {
        let ecn = match packet.ecn() {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        (packet.dscp() << 2 | ecn) & self.ds.0 == self.ds.1 || self.ds.0 == 0
    }
}

/// One Newton step towards `1 / √count`, from `inverse` to `inverse · (3 − count · inverse²) / 2`,
/// in units of 2⁻³².
///
/// The result equals that of Linux in every bit. If `count · inverse² > 3`, the step overshoots:
/// the result wraps around as in Linux, and is no approximation. The count of a queue of a fair
/// queue discipline can jump so far.
pub fn newton_step(inverse: u32, count: u32) -> u32 {
    let inverse = u64::from(inverse);
    let square = (inverse * inverse) >> 32;
    let rest = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square));
    // A quarter of the rest, so that the product fits; the remaining factor follows with the shift.
    ((rest >> 2).wrapping_mul(inverse) >> 31) as u32
}

/// The state of the control law for one queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Vars {
    /// Time from which on the heads have been above target for an interval; `None` while they are
    /// not above target.
    first_above: Option<Tick>,
    drop_next: Tick,
    /// Drops (or marks) since the dropping phase began, plus the start value of the phase.
    count: u32,
    /// The start value of `count` in the present or last dropping phase.
    lastcount: u32,
    /// About `2¹⁶ / √count`.
    inverse: u16,
    dropping: bool,
}

impl Vars {
    /// Called when an overflow dropped `packets` packets of this queue: increases `count`, and so
    /// the rate of drops.
    pub fn press(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// Called when the queue was found empty: ends the dropping phase.
    #[inline]
    pub fn rest(&mut self) {
        self.dropping = false;
        self.first_above = None;
    }

    /// Returns whether a packet that was enqueued at `entered` leaves without a mark or drop,
    /// because it waited for less than `target`. In other cases, `dequeue` decides.
    #[inline]
    pub fn passes(&mut self, law: &Law, entered: Time, now: Time) -> bool {
        let stood = tick(now).saturating_sub(tick(entered));
        let passes = stood < law.target && stood <= law.ce_threshold;
        if passes {
            self.rest();
        }
        passes
    }

    /// Removes packets from the head; returns the first one that is not dropped. Dropped packets go
    /// to `sink`.
    #[inline]
    pub fn dequeue<P: Packet, H: Head<P>>(
        &mut self,
        law: &Law,
        head: &mut H,
        now: Time,
        sink: &mut dyn Sink<P>,
    ) -> Option<P> {
        let at = tick(now);
        let Some(mut packet) = head.pop() else {
            self.rest();
            return None;
        };
        let mut stood = at.saturating_sub(tick(packet.enqueued_at()));
        let act = self.judge(law, stood, head.behind(), at);
        if self.dropping && act {
            while self.dropping && at >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.step();
                if law.ecn && mark(&mut packet, now, sink) {
                    self.drop_next = self.after(law, self.drop_next);
                    break;
                }
                sink.dropped(now, packet, DropReason::Aqm);
                (packet, self.dropping) = self.next(law, head, at, &mut stood)?;
                if self.dropping {
                    self.drop_next = self.after(law, self.drop_next);
                }
            }
        } else if act {
            let gained = self.count.wrapping_sub(self.lastcount);
            if gained > 1 && at < self.drop_next.saturating_add(16 * law.interval) {
                self.count = gained;
                self.step();
            } else {
                self.count = 1;
                self.inverse = u16::MAX;
            }
            self.lastcount = self.count;
            self.drop_next = self.after(law, at);
            self.dropping = true;
            if !(law.ecn && mark(&mut packet, now, sink)) {
                sink.dropped(now, packet, DropReason::Aqm);
                packet = self.next(law, head, at, &mut stood)?.0;
            }
        } else {
            self.dropping = false;
        }
        if stood > law.ce_threshold && law.selects(&packet) {
            mark(&mut packet, now, sink);
        }
        Some(packet)
    }

    /// Removes and returns the head after a drop, and whether it may be dropped, too.
    #[cold]
    fn next<P: Packet, H: Head<P>>(
        &mut self,
        law: &Law,
        head: &mut H,
        at: Tick,
        stood: &mut Tick,
    ) -> Option<(P, bool)> {
        let Some(packet) = head.pop() else {
            self.rest();
            return None;
        };
        *stood = at.saturating_sub(tick(packet.enqueued_at()));
        Some((packet, self.judge(law, *stood, head.behind(), at)))
    }

    /// Returns whether the heads have been above target for more than an interval, so that this
    /// head may be dropped. `stood` is its waiting time.
    #[inline]
    fn judge(&mut self, law: &Law, stood: Tick, behind: Bytes, at: Tick) -> bool {
        if stood < law.target || behind <= law.exempt {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(at + law.interval);
                false
            }
            Some(ripe) => at > ripe,
        }
    }

    fn step(&mut self) {
        self.inverse = (newton_step(u32::from(self.inverse) << 16, self.count) >> 16) as u16;
    }

    /// The time `interval / √count` after `from`.
    fn after(&self, law: &Law, from: Tick) -> Tick {
        from.saturating_add((law.interval * (u64::from(self.inverse) << 16)) >> 32)
    }
}

/// Marks a packet if it is ECN-capable. Returns whether it is marked now, also if it was marked
/// before.
pub fn mark<P: Packet>(packet: &mut P, now: Time, sink: &mut dyn Sink<P>) -> bool {
    match packet.ecn() {
        Ecn::NotEct => return false,
        Ecn::Ce => {}
        Ecn::Ect0 | Ecn::Ect1 => {
            packet.set_ce();
            sink.marked(now, packet, DropReason::Aqm);
        }
    }
    true
}

/// The queue discipline `codel`: a first-in first-out queue with CoDel's control law.
pub struct Codel<P> {
    limit: Limit,
    law: Law,
    vars: Vars,
    queue: Plain<P>,
}

/// A first-in first-out queue.
struct Plain<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
}

impl<P: Packet> Head<P> for Plain<P> {
    #[inline]
    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.size());
        Some(packet)
    }
    #[inline]
    fn behind(&self) -> Bytes {
        self.backlog.bytes
    }
}

impl<P> Codel<P> {
    /// An empty queue.
    pub fn new(limit: Limit, law: Law) -> Codel<P> {
        Codel {
            limit,
            law,
            vars: Vars::default(),
            queue: Plain {
                packets: VecDeque::new(),
                backlog: Backlog::default(),
            },
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Codel<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        if self.limit.admits(self.queue.backlog, size) {
            self.queue.backlog.add(size);
            self.queue.packets.push_back(packet);
        } else {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.vars.dequeue(&self.law, &mut self.queue, now, sink)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "codel",
        help: "drops or marks packets after the queue has been standing for an interval",
        source: "RFC 8289, Linux 6.12 codel",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            let limit = context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit")));
            Box::new(Codel::<P>::new(limit, Law::of(params)))
        },
    }
}
