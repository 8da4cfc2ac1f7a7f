//! Round-trip times: the smoothed estimate, the retransmission timeout, and the connection's
//! minimum.
//!
//! Algorithm (RFC 6298 as in Linux 6.12; times in µs, `srtt` scaled by 8, deviations by 4):
//!
//! - `srtt += (m − srtt)/8`.
//! - The deviation moves by 1/4 of its error, but only by 1/32 if the sample is far below `srtt`.
//! - `rttvar` follows the maximum deviation of a round trip, at least `rto_min`. `rttvar` increases
//!   at once, and decreases once per round trip by a quarter of the difference.
//! - `RTO = srtt + rttvar`. As `rttvar` is at least `rto_min`, `RTO ≥ srtt + rto_min`. The minimum
//!   is 200 ms unless the host has another one (`tcp_rto_min_us` since Linux 6.11, or the attribute
//!   `rto_min` of a route).

use crate::transport::Jiffies;
use crate::units::Span;
use crate::windowed::WindowedMin;

/// Minimum of the variance part of a timeout: 200 ms.
pub const RTO_MIN_US: u64 = 200_000;
/// Maximum timeout (`TCP_RTO_MAX`).
pub const RTO_MAX: Span = Span::s(120);
/// Timeout before any sample: 1 s (RFC 6298).
pub const RTO_INITIAL_US: u64 = 1_000_000;
/// Time for which a minimum is valid: 300 s (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW_TICKS_S: u64 = 300;

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub struct Rtt {
    srtt8: u64,
    mdev4: u64,
    mdev_max4: u64,
    rttvar4: u64,
    /// The variance is renewed when this sequence number is acknowledged.
    round_end: u64,
    min: WindowedMin<u32>,
    hz: u32,
    min_rto_us: u32,
    /// The latest sample, µs.
    pub latest_us: u64,
}

impl Rtt {
    /// An estimator without a sample.
    pub fn new(hz: u32) -> Rtt {
        Rtt {
            srtt8: 0,
            mdev4: 0,
            mdev_max4: 0,
            rttvar4: 0,
            round_end: 0,
            min: WindowedMin::default(),
            hz,
            min_rto_us: RTO_MIN_US as u32,
            latest_us: 0,
        }
    }
    /// Returns the estimator with this minimum of the variance part of a timeout, µs.
    pub fn with_min_rto(self, us: u32) -> Rtt {
        Rtt {
            min_rto_us: us,
            ..self
        }
    }
    /// Adds a sample of `m` µs; `una` and `nxt` are the bounds of the data in flight.
    #[inline(always)]
    pub fn sample(&mut self, m: u64, una: u64, nxt: u64) {
        self.latest_us = m;
        let m = m.max(1) as i64;
        if self.srtt8 == 0 {
            return self.first_sample(m as u64, nxt);
        }
        let mut err = m - (self.srtt8 >> 3) as i64;
        self.srtt8 = (self.srtt8 as i64 + err).max(1) as u64;
        if err < 0 {
            err = -err - (self.mdev4 >> 2) as i64;
            if err > 0 {
                err >>= 3;
            }
        } else {
            err -= (self.mdev4 >> 2) as i64;
        }
        self.mdev4 = (self.mdev4 as i64 + err).max(0) as u64;
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
        }
        if una > self.round_end {
            if self.mdev_max4 < self.rttvar4 {
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) >> 2;
            }
            self.round_end = nxt;
            self.mdev_max4 = u64::from(self.min_rto_us);
        }
    }
    #[cold]
    fn first_sample(&mut self, m: u64, nxt: u64) {
        self.srtt8 = m << 3;
        self.mdev4 = m << 1;
        self.rttvar4 = self.mdev4.max(u64::from(self.min_rto_us));
        self.mdev_max4 = self.rttvar4;
        self.round_end = nxt;
    }
    /// Adds a sample for the minimum, at tick `now`.
    #[inline(always)]
    pub fn sample_min(&mut self, us: u64, now: u64) {
        let window_ticks = MIN_RTT_WINDOW_TICKS_S * u64::from(self.hz);
        self.min.update(us.max(1), now, window_ticks);
    }
    /// The smoothed RTT scaled by 8, µs; 0 before the first sample.
    pub fn srtt8_us(&self) -> u64 {
        self.srtt8
    }
    /// The smoothed RTT, µs; 0 before the first sample.
    pub fn srtt_us(&self) -> u64 {
        self.srtt8 >> 3
    }
    /// The minimum RTT, µs; `None` before the first sample.
    #[inline(always)]
    pub fn min_us(&self) -> Option<u64> {
        self.min.get()
    }
    /// The timeout without backoff, in ticks.
    #[inline(always)]
    pub fn rto_ticks(&self, ticks: Jiffies) -> u64 {
        if self.srtt8 == 0 {
            return ticks.from_us(RTO_INITIAL_US);
        }
        ticks.from_us((self.srtt8 >> 3) + self.rttvar4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_sets_the_rto_to_three_times_it_or_200_ms_more() {
        let ticks = Jiffies::new(1000);
        let mut r = Rtt::new(1000);
        assert_eq!(r.rto_ticks(ticks), 1000);
        r.sample(300_000, 0, 1);
        assert_eq!(r.rto_ticks(ticks), 900);
        let mut r = Rtt::new(1000);
        r.sample(40_000, 0, 1);
        assert_eq!(r.rto_ticks(ticks), 240);
    }

    #[test]
    fn a_far_lower_sample_hardly_moves_the_deviation() {
        let (mut low, mut high) = (Rtt::new(1000), Rtt::new(1000));
        for r in [&mut low, &mut high] {
            for i in 0..200 {
                r.sample(100_000, i, i + 1);
            }
        }
        low.sample(50_000, 0, 0);
        high.sample(150_000, 0, 0);
        assert!(low.mdev4 * 4 < high.mdev4);
    }
}
