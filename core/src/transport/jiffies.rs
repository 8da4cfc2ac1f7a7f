//! Jiffies, the ticks of a kernel's coarse clock, and the timer wheel that advances with them.
//!
//! A Linux timer never fires early and may fire late: it fires at the next boundary of its level of
//! the timer wheel. Level 0 holds timers up to 62 ticks ahead and has a boundary every tick. Each
//! further level reaches 8 times as far with boundaries 8 times as far apart. At 1000 Hz, timeouts
//! of 240 ms fire on multiples of 8 ms, and those of 1 s on multiples of 64 ms. Source: Linux 6.12
//! `kernel/time/timer.c` (the non-cascading wheel of 4.8 and later).

use crate::units::Time;

/// The tick clock of one host's kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Jiffies {
    /// Length of a tick.
    ns: u32,
}

const LEVEL_BITS: u32 = 3;
const LEVELS: u32 = 9;
const LEVEL_0_REACH: u64 = 63;

impl Jiffies {
    /// Creates the clock of a kernel with `hz` ticks per second.
    pub fn new(hz: u32) -> Jiffies {
        let hz = hz.clamp(1, 10_000);
        Jiffies {
            ns: 1_000_000_000 / hz,
        }
    }
    /// Returns the number of jiffies from the start of the clock to `now`.
    #[inline(always)]
    pub fn at(self, now: Time) -> u64 {
        // The usual divisor is a constant, which needs no division.
        match self.ns {
            1_000_000 => now.as_ns() / 1_000_000,
            _ => self.divide(now),
        }
    }
    /// Returns the time of a tick.
    pub fn time(self, tick: u64) -> Time {
        Time::from_ns(tick.saturating_mul(u64::from(self.ns)))
    }
    /// Returns the number of ticks that cover `us` microseconds.
    #[inline(always)]
    pub fn from_us(self, us: u64) -> u64 {
        match self.ns {
            1_000_000 => us.saturating_add(999) / 1_000,
            _ => self.divide_us(us),
        }
    }
    // Functions that are never inlined, because the compiler would merge both divisions into one.
    #[cold]
    #[inline(never)]
    fn divide(self, now: Time) -> u64 {
        now.as_ns() / u64::from(self.ns)
    }
    #[cold]
    #[inline(never)]
    fn divide_us(self, us: u64) -> u64 {
        us.div_ceil(self.us())
    }
    /// Returns the microseconds of `ticks`.
    pub fn to_us(self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.us())
    }
    /// Length of a tick in whole microseconds.
    fn us(self) -> u64 {
        u64::from(self.ns / 1000)
    }
    /// Returns the time at which a timer fires that is armed at tick `now` to expire at tick
    /// `expires`.
    #[inline(always)]
    pub fn fires(self, now: u64, expires: u64) -> Time {
        let ahead = expires.saturating_sub(now);
        let mut level = 0;
        while level + 1 < LEVELS && ahead >= LEVEL_0_REACH << (LEVEL_BITS * level) {
            level += 1;
        }
        let shift = LEVEL_BITS * level;
        self.time(((expires.max(now) >> shift) + 1) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_on_the_edges_of_their_level() {
        let t = Jiffies::new(1000);
        let ms = |n: u64| Time::from_ns(n * 1_000_000);
        assert_eq!(t.fires(100, 140), ms(141));
        assert_eq!(t.fires(100, 340), ms(344));
        assert_eq!(t.fires(0, 1000), ms(1024));
        assert_eq!(t.fires(0, 10_000), ms(10_240));
    }

    /// A flow over 50 Mbit/s, 40 ms whose packets are all lost, as in Linux 6.12 in virtual time,
    /// in ticks of its clock. The tail loss probe follows the last ACK, then four timeouts of 266
    /// ms and its doubles.
    #[test]
    fn a_dying_flow_of_linux_fired_when_these_do() {
        let t = Jiffies::new(1000);
        let mut now = 1621;
        for (timeout, fired) in [
            (133, 1760),
            (266, 2032),
            (532, 2624),
            (1064, 3712),
            (2128, 5888),
        ] {
            let at = t.fires(now, now + timeout);
            assert_eq!(at, t.time(fired));
            now = fired;
        }
    }
}
