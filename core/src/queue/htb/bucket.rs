//! The token bucket of one rate of a class. Tokens are counted in nanoseconds of this rate.
//!
//! Algorithm: tokens accumulate with time, up to the depth of the bucket. The cost of a packet is
//! its transmission time at the rate. It is subtracted even if the tokens do not suffice. A class
//! with fewer than zero tokens is in debt. A debt is limited to the tokens of one minute. Source:
//! Linux 6.12 `htb_accnt_tokens`.

use crate::queue::psched::{Pace, burst};
use crate::units::{Bytes, Rate};

/// A minute in nanoseconds: the maximum debt, and the maximum time for which tokens accumulate at
/// once.
pub(super) const MINUTE: i64 = 60_000_000_000;

/// The overhead of the line after the discipline, which determines the charged size of a packet.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Line {
    /// Bytes that are added to the size of a packet.
    pub overhead: u64,
    /// Minimum size of a packet, including the overhead, in bytes.
    pub least: u64,
    /// Whether the line has ATM cells: 48 bytes of a packet occupy 53 bytes.
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

/// A token bucket with a rate.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bucket {
    pace: Pace,
    depth: i64,
    pub tokens: i64,
}

impl Bucket {
    /// A full bucket of `depth` bytes. The depth 0 selects the default of tc. This is 1600 bytes (a
    /// full frame and its link layer) plus the bytes of a nanosecond, the tick of tc's clock.
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
    /// Adds the tokens of `passed` nanoseconds since the last update, and subtracts the cost of a
    /// packet of `size`.
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
