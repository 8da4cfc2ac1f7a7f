//! COBALT: CoDel, which reacts to the delay of packets, and BLUE, which reacts to overflows; each
//! queue has both.
//!
//! Algorithm: a leaving packet that waited for more than `target` and more than the transmission
//! time of four full frames makes the queue bad. Any other packet makes the queue good. With
//! `ingress`, the time of two frames per flow also counts. A bad queue signals with the first
//! packet from the time `drop_next` on: it marks the packet, or drops it if it cannot be marked.
//! Then `count` grows by one, and `drop_next` advances by `interval / √count`. In a good queue,
//! `count` decreases by one at `drop_next`, which advances as well, so `count` decays gradually.
//! BLUE drops packets with a probability, regardless of ECN. This probability grows by 1/256 when
//! the buffer overflows and this queue is the longest. It decreases by 1/4096 when the queue is
//! found empty. Each change occurs at most once per `target`.
//!
//! ```text
//!           ┌─────────────── one waited <= target ────────────────┐
//!           ▼                                                     │
//!   good: count falls ─▶ one waited > target ─▶ bad: at drop_next a signal, count rises
//! ```
//!
//! Sources: Høiland-Jørgensen, Täht, Morton: Piece of CAKE (2018), section III.E; Linux 6.12,
//! packet by packet (`core/tests/queue_replay.rs`).
//!
//! Linux 6.12 differs from the paper: a queue that becomes bad for the first time signals with its
//! next packet. The reason is that Linux's value of `1/√count` starts at zero. In the paper the
//! queue signals an interval later. If `drop_next` is in the past after a mark or in a good queue,
//! it is set to the present time. Deviation: in this place, Linux truncates the interval to 32 bits
//! of nanoseconds (4.3 s); this file does not.

use crate::packet::Packet;
use crate::queue::Sink;
use crate::queue::codel::{mark, newton_step};
use crate::rng::Rng;
use crate::units::{Span, Time};

/// Below this count, `1/√count` is exact to 2⁻³². From it on, each change of `count` causes one
/// Newton step.
const EXACT: usize = 16;
/// Increase of BLUE's probability after an overflow, in units of 2⁻³².
const RISE: u32 = 1 << 24;
/// Decrease of BLUE's probability when the queue is found empty, in units of 2⁻³².
const FALL: u32 = 1 << 20;

/// The settings of COBALT, which the queues of a tin share.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Law {
    /// Maximum waiting time of a packet in a good queue.
    pub target: Span,
    /// Time from the first signal to the second, about the RTT in which senders react.
    pub interval: Span,
    /// Transmission time of a full frame.
    pub frame: Span,
    roots: [u32; EXACT],
}

impl Law {
    /// Settings from these values.
    pub fn new(target: Span, interval: Span, frame: Span) -> Law {
        let mut roots = [u32::MAX; EXACT];
        for (count, root) in (0u128..).zip(&mut roots).skip(1) {
            *root = u32::try_from(((1u128 << 64) / count).isqrt()).unwrap_or(u32::MAX);
        }
        Law {
            target,
            interval,
            frame,
            roots,
        }
    }
    /// The time `interval · inverse / 2³²` after `from`.
    fn after(&self, from: Time, inverse: u32) -> Time {
        let span = (u128::from(self.interval.as_ns()) * u128::from(inverse)) >> 32;
        from + Span::ns(span as u64)
    }
}

/// The state of COBALT for one queue, within one cache line.
#[repr(align(32))]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Cobalt {
    count: u32,
    /// About `2³² / √count`; 0 before the first signal.
    inverse: u32,
    drop_next: Time,
    /// Time of the last change of BLUE's probability.
    blue_changed: Time,
    /// BLUE's probability, in units of 2⁻³².
    probability: u32,
    bad: bool,
}

impl Cobalt {
    fn set_count(&mut self, law: &Law, count: u32) {
        self.count = count;
        self.inverse = match law.roots.get(count as usize) {
            Some(root) => *root,
            None => newton_step(self.inverse, count),
        };
        self.drop_next = law.after(self.drop_next, self.inverse);
    }

    fn due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    /// Returns whether `count` and BLUE's probability are 0. Then the queue is good.
    #[inline]
    fn is_calm(&self) -> bool {
        self.count | self.probability == 0
    }

    /// Returns the time until which finding the queue empty changes nothing.
    pub fn quiet_until(&self) -> Time {
        if self.probability > 0 {
            Time::ZERO
        } else {
            self.drop_next
        }
    }

    /// Handles an overflow of the buffer while this queue is the longest.
    pub fn on_overflow(&mut self, law: &Law, now: Time) {
        if now.since(self.blue_changed) > law.target {
            self.probability = self.probability.saturating_add(RISE);
            self.blue_changed = now;
        }
        self.bad = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Handles the attempt to dequeue from the empty queue. Returns whether the state still changes
    /// while the queue is empty: BLUE's probability or `count` is above 0, or `drop_next` lies
    /// ahead.
    #[inline]
    pub fn found_empty(&mut self, law: &Law, now: Time) -> bool {
        (!self.is_calm() && self.decay(law, now)) || now < self.drop_next
    }

    /// As `found_empty`, if `count` or BLUE's probability is above 0. Returns whether this is still
    /// so.
    fn decay(&mut self, law: &Law, now: Time) -> bool {
        self.bad = false;
        if self.probability > 0 && now.since(self.blue_changed) > law.target {
            self.probability = self.probability.saturating_sub(FALL);
            self.blue_changed = now;
        }
        if self.due(now) {
            self.set_count(law, self.count - 1);
        }
        !self.is_calm()
    }

    /// Returns whether a packet that was enqueued at `entered` leaves without a mark or drop. It
    /// does so if `count` and BLUE's probability are 0 and it waited for at most `target`. In other
    /// cases, `should_drop` decides.
    #[inline]
    pub fn passes(&mut self, law: &Law, entered: Time, now: Time) -> bool {
        let passes = self.is_calm() && now.since(entered) <= law.target;
        if passes {
            self.drop_next = now + law.interval;
        }
        passes
    }

    /// Returns whether the leaving `packet` is dropped; marks it if a signal is due and it is
    /// ECN-capable. `bulk_flows` is the number of flows on the link if `ingress` is set, else 0.
    pub fn should_drop<P: Packet>(
        &mut self,
        law: &Law,
        packet: &mut P,
        bulk_flows: u64,
        now: Time,
        rng: &mut Rng,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        let sojourn = now.since(packet.enqueued_at());
        let frames = law
            .frame
            .as_ns()
            .saturating_mul(4.max(bulk_flows.saturating_mul(2)));
        let due = self.due(now);
        let mut overdue = now > self.drop_next;
        let mut drop = false;
        let was_bad = core::mem::replace(
            &mut self.bad,
            sojourn > law.target && sojourn.as_ns() > frames,
        );
        if self.bad {
            if !was_bad {
                self.drop_next = law.after(now, self.inverse);
            }
            self.count = self.count.max(1);
        }
        if due && self.bad {
            drop = !mark(packet, now, sink);
            self.set_count(law, self.count.saturating_add(1));
            overdue = now > self.drop_next;
        } else if due {
            while self.due(now) {
                self.set_count(law, self.count - 1);
            }
            overdue = now > self.drop_next;
        }
        if self.probability > 0 {
            drop |= ((rng.next_u64() >> 32) as u32) < self.probability;
        }
        if self.count == 0 {
            self.drop_next = now + law.interval;
        } else if overdue && !drop {
            self.drop_next = now;
        }
        drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BLUE's probability grows by 1/256 and decreases by 1/4096, and changes at most once in 5 ms.
    #[test]
    fn blue_increases_on_overflow_and_decreases_when_empty() {
        let law = Law::new(Span::ms(5), Span::ms(100), Span::ZERO);
        let at = |ms| Time::ZERO + Span::ms(ms);
        let mut cobalt = Cobalt::default();
        let steps = [(10, RISE), (12, RISE), (16, 2 * RISE), (17, 2 * RISE)];
        for (ms, probability) in steps {
            cobalt.on_overflow(&law, at(ms));
            assert_eq!(cobalt.probability, probability, "overflow at {ms} ms");
        }
        for (ms, falls) in [(18, 0), (22, 1), (23, 1), (28, 2)] {
            cobalt.found_empty(&law, at(ms));
            assert_eq!(
                cobalt.probability,
                2 * RISE - falls * FALL,
                "empty at {ms} ms"
            );
        }
        (0..1000).for_each(|i| _ = cobalt.found_empty(&law, at(100 + 10 * i)));
        assert_eq!(cobalt.probability, 0);
    }
}
