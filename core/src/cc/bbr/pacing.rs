//! The pacing rate, and the size of a burst that goes with it.
//!
//! Law: `rate = 0.99 · gain · bw` in payload bytes per second; until the pipe is full it only rises. It begins at
//! `2.885 · initial window / rtt of the handshake`. A burst is a millisecond of it (2⁻¹⁰ s), at least two segments, or one
//! below 1.2 Mbit/s.

use super::bandwidth::Bw;
use super::{Bbr, Window};
use crate::tcp::MSS;
use crate::units::{Rate, Span};

/// Below it a burst may be one segment, bytes per second: 1.2 Mbit/s.
const SMALL_RATE: u64 = 1_200_000 / 8;
/// A burst is this share of a second: 2⁻¹⁰.
const BURST_SHIFT: u32 = 10;
/// What a super-packet carries at most, and the most segments that count as a burst.
const MOST_BURST_BYTES: u64 = 65_536 - 1 - 320;
const MOST_BURST: u64 = 0x7f;

impl Bbr {
    /// The rate before any sample.
    pub(super) fn pace_by_handshake(&mut self, w: &mut Window, srtt: Span) {
        // Without a round trip: a millisecond.
        let us = if srtt == Span::ZERO { 1000 } else { srtt.as_us() };
        let bw = Bw::of(u64::from(w.cwnd), us);
        self.pacing = bw.bytes_per_s(self.set.paced_packet, self.set.startup_gain, self.set.paced_millionths);
        self.show_pacing(w);
    }

    pub(super) fn pace(&mut self, w: &mut Window, bw: Bw, gain: u64) {
        let rate = bw.bytes_per_s(self.set.paced_packet, gain, self.set.paced_millionths);
        if self.pipe.full || rate > self.pacing {
            self.pacing = rate;
        }
        self.show_pacing(w);
    }

    fn show_pacing(&self, w: &mut Window) {
        w.pacing = Some(Rate::bit(self.pacing * 8));
        w.min_burst = self.least_burst() as u32;
    }

    fn least_burst(&self) -> u64 {
        if self.pacing < SMALL_RATE {
            1
        } else {
            2
        }
    }

    /// Segments of a burst at the present rate.
    pub(super) fn burst_goal(&self) -> u64 {
        let bytes = (self.pacing >> BURST_SHIFT).min(MOST_BURST_BYTES);
        (bytes / u64::from(MSS)).max(self.least_burst()).min(MOST_BURST)
    }
}
