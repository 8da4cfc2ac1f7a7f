//! Round trips, and the maximum delivery rate of the last ten round trips.
//!
//! A round trip ends when a packet is delivered that was sent after the round trip had begun. A
//! delivery rate that the application limited is only a lower bound of the rate of the path. It
//! counts only if it is at least the present maximum.

use super::{Ack, Bbr, Delivery};
use crate::windowed::WindowedMax;

/// A rate in packets per µs, scaled by 2²⁴. With packets of 1500 bytes, the unit is 715 bit/s.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in crate::cc) struct Bw(pub u64);

const SCALE: u32 = 24;

impl Bw {
    /// The rate of `packets` packets in `us` microseconds.
    pub fn of(packets: u64, us: u64) -> Bw {
        Bw((packets << SCALE) / us.max(1))
    }
    /// Whole packets that this rate delivers in `us` microseconds.
    pub fn packets_in(self, us: u64) -> u64 {
        ((u128::from(self.0) * u128::from(us)) >> SCALE) as u64
    }
    /// The rate in packets per second, for traces.
    pub fn packets_per_s(self) -> f64 {
        self.0 as f64 * 1e6 / (1u64 << SCALE) as f64
    }
    /// Packets that `gain`/256 times this rate delivers in `us` microseconds, rounded up.
    #[inline]
    pub fn product(self, us: u64, gain: u64) -> u64 {
        let exact = us.checked_mul(gain).and_then(|by| by.checked_mul(self.0));
        match exact {
            Some(exact) => (exact >> 8).div_ceil(1 << SCALE).min(u64::from(u32::MAX)),
            None => self.large_product(us, gain),
        }
    }
    /// As [`product`](Self::product), if the exact product needs more than 64 bits.
    #[cold]
    fn large_product(self, us: u64, gain: u64) -> u64 {
        let exact = (u128::from(self.0) * u128::from(us) * u128::from(gain)) >> 8;
        exact.div_ceil(1 << SCALE).min(u128::from(u32::MAX)) as u64
    }
    /// Bytes per second of this rate times `gain`/256 times `millionths`/10⁶, if each packet has
    /// `packet` bytes.
    pub fn bytes_per_s(self, packet: u64, gain: u64, millionths: u64) -> u64 {
        let rate = (u128::from(self.0) * u128::from(packet) * u128::from(gain)) >> 8;
        ((rate * u128::from(millionths)) >> SCALE).min(u128::from(u64::MAX / 16)) as u64
    }
}

/// Round trips, by counts of delivered packets.
#[derive(Clone, Debug, Default)]
pub(in crate::cc) struct Rounds {
    /// The present round trip ends with the delivery of a packet that was sent after this many
    /// deliveries. This is the lower half of the count, as in Linux.
    ends: u32,
    /// Number of round trips that have begun.
    pub count: u32,
    /// Whether this ACK began a round trip.
    pub start: bool,
}

impl Rounds {
    /// Handles the delivery of a packet that was sent after `prior` deliveries. `delivered` is the
    /// present number of deliveries.
    pub fn take(&mut self, prior: u64, delivered: u64) {
        self.start = (prior as u32).wrapping_sub(self.ends) as i32 >= 0;
        if self.start {
            self.end_after(delivered);
            self.count += 1;
        }
    }
    /// Ends the present round trip with the delivery of a packet that is sent after `delivered`
    /// deliveries.
    pub fn end_after(&mut self, delivered: u64) {
        self.ends = delivered as u32;
    }
}

/// Round trips, and the maximum filter of delivery rates.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    /// Times are counts of round trips.
    filter: WindowedMax<u64, u32>,
    pub rounds: Rounds,
}

impl Bandwidth {
    /// The maximum delivery rate in the window of round trips.
    pub fn max(&self) -> Bw {
        Bw(self.filter.get().unwrap_or(0))
    }
}

impl Bbr {
    pub(super) fn take_bandwidth(&mut self, ev: &Ack, d: &Delivery) {
        self.bandwidth.rounds.start = false;
        let Some(sample) = &d.sample else { return };
        self.bandwidth
            .rounds
            .take(sample.prior_delivered, d.totals.delivered);
        self.recovery.conserves &= !self.bandwidth.rounds.start;
        self.take_policer(ev.lost, sample.app_limited, &d.totals);
        let bw = Bw::of(sample.delivered, sample.interval.as_us());
        if !sample.app_limited || bw >= self.bandwidth.max() {
            let (rounds, window) = (self.bandwidth.rounds.count, self.set.bw_window);
            self.bandwidth
                .filter
                .update(bw.0, rounds.into(), window.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip that begins below 2³² deliveries ends above.
    #[test]
    fn round_trips_end_correctly_after_2_to_32_deliveries() {
        let limit = 1 << 32;
        let mut rounds = Rounds::default();
        rounds.end_after(limit - 10);
        let mut starts = |prior: u64, delivered: u64| {
            rounds.take(prior, delivered);
            rounds.start
        };
        assert!(!starts(limit - 11, limit - 1));
        assert!(starts(limit - 10, limit + 5));
        assert!(!starts(limit - 1, limit + 6) && !starts(limit + 4, limit + 7));
        assert!(starts(limit + 5, limit + 20));
    }

    #[test]
    fn the_filter_holds_rates_above_256_packets_per_microsecond() {
        let mut bandwidth = Bandwidth::default();
        let bw = Bw::of(1000, 1);
        bandwidth.filter.update(bw.0, 1, 10);
        assert_eq!(bandwidth.max(), bw);
    }

    #[test]
    fn a_rate_times_a_time_is_packets_rounded_up() {
        // 50 Mbit/s of full frames: 4128 packets/s.
        let bw = Bw::of(4128, 1_000_000);
        assert_eq!(bw.product(40_000, 256), 166);
        assert_eq!(bw.packets_in(40_000), 165);
        // Within 2⁻¹⁷, the resolution of 24 bits.
        let exact = 4128 * 1448;
        assert!(
            (exact - exact / (1 << 17)..=exact).contains(&bw.bytes_per_s(1448, 256, 1_000_000))
        );
    }
}
