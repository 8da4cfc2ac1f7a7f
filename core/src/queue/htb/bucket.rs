//! One rate of a class: tokens, in nanoseconds of that rate.
//!
//! Algorithm: tokens accumulate with time, up to the depth of the bucket. The cost of a packet is
//! subtracted even if the tokens do not suffice. A class with fewer than zero tokens is in debt. A
//! debt is limited to the tokens of one minute. Source: Linux 6.12 `htb_accnt_tokens`.

use crate::queue::psched::{Pace, burst};
use crate::units::{Bytes, Rate};

/// The maximum debt, and the maximum time that accumulates: a minute.
pub(super) const MINUTE: i64 = 60_000_000_000;

/// The size of a packet on the line behind.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Line {
    pub overhead: u64,
    pub least: u64,
    /// Cells of 48 bytes in 53.
    pub atm: bool,
}

impl Line {
    #[inline]
    pub fn size(&self, size: Bytes) -> Bytes {
        let len = size.get().saturating_add(self.overhead).max(self.least);
        Bytes::new(if self.atm {
            len.div_ceil(48).saturating_mul(53)
        } else {
            len
        })
    }
}

/// Tokens at a rate.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bucket {
    pace: Pace,
    depth: i64,
    pub tokens: i64,
}

impl Bucket {
    /// A full bucket. Without a burst it has tc's: a full frame with its link layer, plus the
    /// tokens of one tick of its clock, a nanosecond.
    pub fn new(rate: Rate, depth: Bytes) -> Bucket {
        let depth = match depth {
            Bytes::ZERO => Bytes::new(1600 + rate.as_bit() / 8 / 1_000_000_000),
            depth => depth,
        };
        let depth = burst(rate, depth);
        Bucket {
            pace: Pace::new(rate),
            depth,
            tokens: depth,
        }
    }
    /// Takes the cost of a packet of `size`, `passed` nanoseconds after the last update.
    #[inline]
    pub fn charge(&mut self, passed: i64, size: Bytes) {
        let tokens = passed.saturating_add(self.tokens).min(self.depth);
        let tokens = tokens.saturating_sub(self.pace.ns(size));
        self.tokens = if tokens <= -MINUTE {
            1 - MINUTE
        } else {
            tokens
        };
    }
}
