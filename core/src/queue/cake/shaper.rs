//! The shaper: a clock with the time of the next packet, without a token bucket.
//!
//! Algorithm: a packet advances `next` by its bytes' time at the rate; a packet may leave when
//! `next` is due. An idle shaper's clock is set to the present, so no credit accumulates. There are
//! no bursts, and a late packet does not delay the next one. A second clock runs at two thirds of
//! the rate and counts only packets that were sent. A shaper behind the bottleneck (`ingress`) also
//! charges its drops to the first clock. The second clock then guarantees that packets are still
//! sent at two thirds of the rate. Source: Piece of CAKE (2018), section III.A; Linux 6.12.

use crate::units::{Span, Time};

/// Time per byte, as a fraction of two powers: `ns · 2⁻ˢʰⁱᶠᵗ`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    ns: u64,
    shift: u32,
}

impl Pace {
    /// At this many bytes per second, at least 64; 0 is without limit.
    pub fn of(bytes_per_s: u64) -> Pace {
        if bytes_per_s == 0 {
            return Pace::default();
        }
        // 34 bits of a time per byte, rounded up to Linux's precision.
        let (mut ns, mut shift) = ((1_000_000_000u64 << 34) / bytes_per_s.max(64), 34);
        while ns >> 34 != 0 {
            ns >>= 1;
            shift -= 1;
        }
        Pace { ns, shift }
    }
    /// The time of `len` bytes.
    pub fn time(self, len: u64) -> Span {
        Span::ns(((u128::from(len) * u128::from(self.ns)) >> self.shift) as u64)
    }
    /// Returns whether there is no limit.
    pub fn is_unlimited(self) -> bool {
        self.ns == 0
    }
}

/// The two clocks.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Shaper {
    /// The rate.
    pub pace: Pace,
    next: Time,
    failsafe: Time,
}

impl Shaper {
    /// Handles a packet that arrives at empty queues.
    pub fn wake(&mut self, now: Time) {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
        }
    }
    /// Returns when a packet may leave.
    pub fn due(&self) -> Time {
        self.next.min(self.failsafe)
    }
    /// Charges `len` bytes; `left`: they were sent.
    pub fn charge(&mut self, len: u64, left: bool) {
        let span = self.pace.time(len);
        self.next += span;
        if left {
            self.failsafe += span + Span::ns(span.as_ns() / 2);
        }
    }
}

/// The clock of a tin, which determines its priority and delays no packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// The rate up to which a tin has its priority.
    pub pace: Pace,
    next: Time,
}

impl Schedule {
    /// Handles a packet that arrives at an empty tin.
    pub fn wake(&mut self, now: Time) {
        self.next = self.next.max(now);
    }
    /// Returns when it has its priority again.
    pub fn due(&self) -> Time {
        self.next
    }
    /// Charges `len` bytes. A tin above its rate is never further ahead than by its last packet.
    pub fn charge(&mut self, len: u64, now: Time) {
        let span = self.pace.time(len);
        if self.next < now {
            self.next += span;
        } else if self.next < now + span {
            self.next = now + span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_its_time_at_every_rate() {
        for (rate, bytes, ns) in [
            (1, 64, 1_000_000_000),
            (125, 1, 8_000_000),
            (2_500_000, 1514, 605_600),
            (125_000_000_000, 1514, 12),
        ] {
            let got = Pace::of(rate).time(bytes).as_ns();
            assert!(ns - got <= 1, "{rate}: {got}");
        }
        assert_eq!(Pace::of(0).time(1514), Span::ZERO);
    }

    #[test]
    fn nothing_is_saved_up() {
        let mut shaper = Shaper {
            pace: Pace::of(1_000_000),
            ..Shaper::default()
        };
        let now = Time::from_ns(5_000_000);
        shaper.wake(now);
        shaper.charge(1000, true);
        shaper.charge(1000, true);
        assert_eq!(shaper.due(), now + Span::ms(2));
        // Dropped packets advance only the first clock.
        (0..8).for_each(|_| shaper.charge(1000, false));
        assert_eq!(shaper.due(), now + Span::ms(3));
    }
}
