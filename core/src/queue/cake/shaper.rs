//! The shaper: a clock with the time at which the next packet may leave, without a token bucket.
//!
//! Algorithm: a packet advances the clock `next` by its transmission time at the rate; a packet may
//! leave when the time `next` is reached. If a packet arrives at empty queues, a clock in the past
//! is set to the present, so no credit accumulates. There are no bursts, and a late packet does not
//! delay the next one. A second clock runs at two thirds of the rate and counts only packets that
//! were sent. A shaper behind the bottleneck (`ingress`) also charges dropped packets to the first
//! clock. A packet may leave when either clock is reached, so packets are still sent at two thirds
//! of the rate. Sources: Piece of CAKE (2018), section III.A; Linux 6.12.

use crate::units::{Span, Time};

/// A rate as time per byte: `ns / 2^shift` nanoseconds. 0 stands for no limit.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    ns: u64,
    shift: u32,
}

impl Pace {
    /// The pace of a rate in bytes per second. Rates below 64 bytes/s count as 64; 0 is no limit.
    pub fn of(bytes_per_s: u64) -> Pace {
        if bytes_per_s == 0 {
            return Pace::default();
        }
        // The time per byte with 34 significant bits, rounded down, as in Linux.
        let (mut ns, mut shift) = ((1_000_000_000u64 << 34) / bytes_per_s.max(64), 34);
        while ns >> 34 != 0 {
            ns >>= 1;
            shift -= 1;
        }
        Pace { ns, shift }
    }
    /// The transmission time of `len` bytes.
    pub fn time(self, len: u64) -> Span {
        Span::ns(((u128::from(len) * u128::from(self.ns)) >> self.shift) as u64)
    }
    /// Returns whether the rate has no limit.
    pub fn is_unlimited(self) -> bool {
        self.ns == 0
    }
}

/// The two clocks of the shaper.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Shaper {
    /// The rate of the shaper.
    pub pace: Pace,
    /// The first clock.
    next: Time,
    /// The second clock, at two thirds of the rate.
    failsafe: Time,
}

impl Shaper {
    /// Handles a packet that arrives at empty queues.
    pub fn end_idle(&mut self, now: Time) {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
        }
    }
    /// Returns the time from which on a packet may leave.
    pub fn due(&self) -> Time {
        self.next.min(self.failsafe)
    }
    /// Charges `len` bytes. `left` is whether they were sent; if not, they were dropped.
    pub fn charge(&mut self, len: u64, left: bool) {
        let span = self.pace.time(len);
        self.next += span;
        if left {
            self.failsafe += span + Span::ns(span.as_ns() / 2);
        }
    }
}

/// The clock of a tin, which determines whether the tin is within its threshold. It delays no
/// packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// The threshold: the rate up to which a tin has priority.
    pub pace: Pace,
    next: Time,
}

impl Schedule {
    /// Handles a packet that arrives at an empty tin.
    pub fn end_idle(&mut self, now: Time) {
        self.next = self.next.max(now);
    }
    /// Returns the time from which on the tin is within its threshold.
    pub fn due(&self) -> Time {
        self.next
    }
    /// Charges `len` bytes to the clock. One packet of a tin above its threshold moves the clock at
    /// most to the transmission time of this packet after `now`.
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
    fn pace_is_exact_at_every_rate() {
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
    fn idle_time_gives_no_credit() {
        let mut shaper = Shaper {
            pace: Pace::of(1_000_000),
            ..Shaper::default()
        };
        let now = Time::from_ns(5_000_000);
        shaper.end_idle(now);
        shaper.charge(1000, true);
        shaper.charge(1000, true);
        assert_eq!(shaper.due(), now + Span::ms(2));
        // Dropped packets advance only the first clock.
        (0..8).for_each(|_| shaper.charge(1000, false));
        assert_eq!(shaper.due(), now + Span::ms(3));
    }
}
