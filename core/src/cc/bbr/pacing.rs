//! The pacing rate, and the size of a burst at that rate.
//!
//! Algorithm: `rate = 0.99 · gain · bw` in payload bytes per second; until the pipe is full, the
//! rate never decreases. The first rate is `0.99 · 2.885 · initial window / rtt of the handshake`.
//! A burst contains the data of 2⁻¹⁰ s (about a millisecond) at this rate. It has at least two
//! segments, or at least one segment if the rate is below 1.2 Mbit/s.

use super::bandwidth::Bw;
use super::{Bbr, UNIT, Window};
use crate::units::{Rate, Span};

/// Below this rate a burst may be one segment: 1.2 Mbit/s, in bytes per second.
const SMALL_RATE: u64 = 1_200_000 / 8;
/// A burst contains the data of 2⁻ⁿ seconds, where n is this constant.
const BURST_SHIFT: u32 = 10;
/// Maximum payload of a super-packet, in bytes.
const MOST_BURST_BYTES: u64 = 65_536 - 1 - 320;
/// Maximum number of segments of a burst.
const MOST_BURST: u64 = 0x7f;

/// The pacing rate, and the factors that convert a bandwidth into it.
#[derive(Copy, Clone, Debug)]
#[repr(Rust, packed(4))]
pub(in crate::cc) struct Paced {
    /// Bytes per second.
    rate: u64,
    /// The bandwidth and the gain of this rate. Most ACKs change neither.
    bw: Bw,
    gain: u16,
    packet: u32,
    /// Payload of a full segment, in bytes.
    mss: u32,
    millionths: u32,
    /// Number of segments of a burst at this rate.
    burst: u8,
}

impl Paced {
    /// A rate of 0 at first. A bandwidth converts to `millionths`/10⁶ of its bytes per second, in
    /// packets of `packet` bytes. `mss`: payload of a full segment, in bytes.
    pub fn new(packet: u64, mss: u32, millionths: u64) -> Paced {
        let mut paced = Paced {
            rate: 0,
            bw: Bw(0),
            gain: 0,
            packet: packet as u32,
            mss,
            millionths: millionths as u32,
            burst: 0,
        };
        paced.take((Bw(0), 0), 0);
        paced
    }
    /// Takes the rate of this bandwidth and this gain.
    fn take(&mut self, of: (Bw, u64), rate: u64) {
        (self.bw, self.gain, self.rate) = (of.0, of.1 as u16, rate);
        let bytes = (self.rate >> BURST_SHIFT).min(MOST_BURST_BYTES);
        let segments = bytes / u64::from(self.mss);
        self.burst = segments.max(self.least_burst()).min(MOST_BURST) as u8;
    }
    /// The pacing rate for `gain`/256 times `bw`, in bytes per second.
    pub fn at(&self, bw: Bw, gain: u64) -> u64 {
        bw.bytes_per_s(self.packet.into(), gain, self.millionths.into())
    }

    /// Sets the rate before any sample, from the initial window and the round trip of the
    /// handshake.
    pub fn by_handshake(&mut self, w: &mut Window, srtt: Span, gain: u64) {
        // Without a round trip: a millisecond.
        let us = if srtt == Span::ZERO {
            1000
        } else {
            srtt.as_us()
        };
        let bw = Bw::of(u64::from(w.cwnd), us);
        self.take((bw, gain), self.at(bw, gain));
        self.show(w);
    }

    /// Sets the rate for `gain`/256 times `bw`. The rate decreases only if `falls` is true.
    pub fn set(&mut self, w: &mut Window, bw: Bw, gain: u64, falls: bool) {
        if ({ self.bw }, u64::from(self.gain)) != (bw, gain) {
            let rate = self.at(bw, gain);
            if falls || rate > self.rate {
                self.take((bw, gain), rate);
            }
        }
        self.show(w);
    }

    fn show(&self, w: &mut Window) {
        w.pacing = Some(Rate::bit(self.rate * 8));
        w.min_burst = self.least_burst() as u32;
    }

    fn least_burst(&self) -> u64 {
        if self.rate < SMALL_RATE { 1 } else { 2 }
    }

    /// Number of segments of a burst at the present rate.
    pub fn burst_goal(&self) -> u64 {
        self.burst.into()
    }

    /// Returns how many of `in_flight` packets will be in flight after `wait`, if the path delivers
    /// at the rate `bw` until then. If the gain is above 1, the burst that leaves then is included.
    pub fn in_flight_after(&self, wait: Span, in_flight: u32, bw: Bw, gain: u64) -> u64 {
        let mut then = u64::from(in_flight);
        if gain > UNIT {
            then += self.burst_goal();
        }
        then.saturating_sub(bw.packets_in(wait.as_us()))
    }
}

impl Bbr {
    pub(super) fn pace(&mut self, w: &mut Window, bw: Bw, gain: u64) {
        self.paced.set(w, bw, gain, self.full_pipe);
    }
}
