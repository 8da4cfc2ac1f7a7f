//! The rate of a link, estimated from the packets that arrive (`autorate-ingress`): an averaged
//! peak of the arrival rate.
//!
//! Algorithm: gaps between packets are averaged. A gap above the average changes it by a quarter of
//! the difference, a gap below it by 1/256. A gap that is still above the new average ends a
//! window. The rate of the window is its bytes divided by its duration. These rates are averaged in
//! the same way into the peak rate, and the shaper is set to 15/16 of the peak rate. Sources:
//! tc-cake(8); Linux 6.12, compared packet by packet (`core/tests/queue_replay.rs`).
//!
//! Measured in Linux 6.12: the end of every window sets the rate, although the source code intends
//! to wait for a quarter of a second. The first gap counts as a second, so about 1500 packets pass
//! until the average is low enough for short gaps to end windows.

use crate::units::{Span, Time};

/// The estimator of the rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Estimator {
    last: Time,
    gap_ns: u64,
    began: Time,
    bytes: u64,
    /// The averaged peak rate, in bytes per second.
    peak: u64,
}

/// Moves an average towards a sample: by a quarter of the difference upwards, by 1/256 downwards.
fn average(average: u64, sample: u64) -> u64 {
    let shift = if sample > average { 2 } else { 8 };
    average - (average >> shift) + (sample >> shift)
}

impl Estimator {
    /// An estimator whose peak rate begins with `bytes_per_s`.
    pub fn new(bytes_per_s: u64) -> Estimator {
        Estimator {
            peak: bytes_per_s,
            ..Estimator::default()
        }
    }
    /// Handles the arrival of a packet of `bytes` bytes. If it ends a window, returns the new rate
    /// of the shaper in bytes per second.
    pub fn arrive(&mut self, bytes: u64, now: Time) -> Option<u64> {
        self.bytes = self.bytes.saturating_add(bytes);
        let gap = now.since(self.last).min(Span::s(1)).as_ns();
        self.gap_ns = average(self.gap_ns, gap);
        self.last = now;
        if gap <= self.gap_ns {
            return None;
        }
        let window = now.since(self.began).as_ns().max(1);
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(window);
        self.peak = average(self.peak, u64::try_from(rate).unwrap_or(u64::MAX));
        (self.bytes, self.began) = (0, now);
        Some((u128::from(self.peak) * 15 / 16) as u64)
    }
}
