//! Rates of Linux's packet schedulers: the cost of a packet in tokens, which are nanoseconds at the
//! rate.
//!
//! Algorithm: `L` bytes cost `L · factor >> shift` nanoseconds, rounded down. A rate is a whole
//! number of bytes per second. Sources: Linux 6.12 `psched_ratecfg`; iproute2 6.1, which rounds the
//! duration of a burst down to whole microseconds and passes it in ticks of 64 ns. Measured: `burst
//! 3010` at 700 Mbit/s lets 2973 bytes pass.

use crate::units::{Bytes, Rate};

/// A rate as the cost of a byte: `factor / 2^shift` nanoseconds.
#[derive(Copy, Clone, Debug)]
pub struct Pace {
    factor: u64,
    shift: u32,
}

impl Pace {
    /// The pace of `rate`, which is rounded down to whole bytes per second, but at least one.
    pub fn new(rate: Rate) -> Pace {
        let per_second = (rate.as_bit() / 8).max(1);
        // The factor has 32 significant bits, unless 10⁹ then no longer fits into 64 bits.
        let mut work = 1_000_000_000_u64;
        let mut shift = 0;
        while work / per_second < 1 << 31 && work < 1 << 63 {
            work <<= 1;
            shift += 1;
        }
        Pace {
            factor: work / per_second,
            shift,
        }
    }
    /// The cost of `size`, in nanoseconds.
    #[inline]
    pub fn ns(self, size: Bytes) -> i64 {
        let ns = (u128::from(size.get()) * u128::from(self.factor)) >> self.shift;
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// The depth, in nanoseconds, of a bucket that tc configures with `burst` bytes.
pub fn burst(rate: Rate, burst: Bytes) -> i64 {
    let us = u128::from(burst.get()) * 1_000_000 / u128::from((rate.as_bit() / 8).max(1));
    // A microsecond has 15.625 ticks.
    i64::try_from(us * 125 / 8 * TICK).unwrap_or(i64::MAX)
}

/// Nanoseconds in a tick.
const TICK: u128 = 64;
