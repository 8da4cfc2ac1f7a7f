//! The long-term rate: detection of a policer, a token bucket that passes its rate and drops the
//! rest.
//!
//! Algorithm: from the first loss on, intervals of 4 to 16 round trips are measured. An interval
//! ends with a loss if at least 50 packets were lost for every 256 delivered in it. This is a loss
//! rate of 50/306, or 16.3 %. If the delivery rates of two successive intervals differ by at most
//! an eighth, or by 4 kbit/s, BBR assumes a policer. For 48 round trips of ProbeBW, the bandwidth
//! is then the mean of the two delivery rates. The pacing gain of ProbeBW is then 1 (before Linux
//! 4.16, only until the next ProbeRTT). The detection starts again after these 48 round trips. It
//! also starts again if an interval exceeds 16 round trips, or if the application limits the rate
//! during an interval. Random loss of 16.3 % also makes BBR assume a policer.

use super::bandwidth::Bw;
use super::{Bbr, Mode, UNIT};
use crate::cc::Totals;

/// Round trips of the shortest interval.
const LEAST_ROUNDS: u8 = 4;
/// Round trips of the longest interval.
const MOST_ROUNDS: u8 = 4 * LEAST_ROUNDS;
/// Minimum number of packets lost for every 256 delivered in an interval that a policer causes:
/// 16.3 % of the packets sent.
const LOSS_THRESHOLD: u64 = 50;
/// Maximum relative difference of two rates that count as equal, in 1/256: an eighth.
const SAME_RATIO: u64 = 32;
/// Maximum absolute difference of two rates that count as equal: 4 kbit/s, in bytes per second.
const SAME_BYTES_PER_S: u64 = 4000 / 8;
/// Round trips of ProbeBW for which the policed rate is used.
const USED_ROUNDS: u8 = 48;

/// The detection of a policer, and the policed rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    used: bool,
    bw: Bw,
    rounds: u8,
    /// Time of the last delivery before the interval, in ms.
    since_ms: u32,
    /// The lower halves of the connection's totals at the start of the interval.
    delivered: u32,
    lost: u32,
}

/// Time of the last delivery in ms, which 32 bits hold for 49 days.
fn ms_of(totals: &Totals) -> u32 {
    (totals.delivered_at.as_us() / 1000) as u32
}

impl Policer {
    /// Returns whether the policed rate is used as the bandwidth.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used
    }
    /// The policed rate if it is used, otherwise `bw`. The code has no branch, because flows differ
    /// in this and the processor cannot predict it.
    #[inline]
    pub fn rate_or(&self, bw: Bw) -> Bw {
        let mask = u64::from(self.used).wrapping_neg();
        Bw(self.bw.0 & mask | bw.0 & !mask)
    }
    fn begin_interval(&mut self, totals: &Totals) {
        self.since_ms = ms_of(totals);
        (self.delivered, self.lost) = (totals.delivered as u32, totals.lost as u32);
        self.rounds = 0;
    }
    /// Discards the policed rate and restarts the detection.
    pub fn forget(&mut self, totals: &Totals) {
        self.bw = Bw::default();
        self.used = false;
        self.sampling = false;
        self.begin_interval(totals);
    }
    /// Ends an interval with the delivery rate `bw`. Returns whether it agrees with that of the
    /// last interval: a policer is detected. `paced` converts a rate to the pacing rate in bytes
    /// per second.
    fn end_interval(&mut self, bw: Bw, paced: impl Fn(Bw) -> u64, totals: &Totals) -> bool {
        if self.bw > Bw::default() {
            let off = Bw(bw.0.abs_diff(self.bw.0));
            if off.0 * UNIT <= SAME_RATIO * self.bw.0 || paced(off) <= SAME_BYTES_PER_S {
                self.bw = Bw((bw.0 + self.bw.0) >> 1);
                self.used = true;
                self.rounds = 0;
                return true;
            }
        }
        self.bw = bw;
        self.begin_interval(totals);
        false
    }
}

impl Bbr {
    pub(super) fn take_policer(&mut self, lost: u32, app_limited: bool, totals: &Totals) {
        if !self.set.policer_detection {
            return;
        }
        if !self.policer.used {
            return self.judge_interval(lost, app_limited, totals);
        }
        if self.mode == Mode::ProbeBw && self.bandwidth.rounds.start {
            self.policer.rounds += 1;
            if self.policer.rounds >= USED_ROUNDS {
                self.policer.forget(totals);
                self.enter_probe_bw(totals.delivered_at);
            }
        }
    }

    fn judge_interval(&mut self, lost: u32, app_limited: bool, totals: &Totals) {
        let policer = &mut self.policer;
        if !policer.sampling {
            if lost == 0 {
                return;
            }
            policer.begin_interval(totals);
            policer.sampling = true;
        }
        if app_limited {
            return policer.forget(totals);
        }
        policer.rounds += u8::from(self.bandwidth.rounds.start);
        if policer.rounds < LEAST_ROUNDS {
            return;
        }
        if policer.rounds > MOST_ROUNDS {
            return policer.forget(totals);
        }
        // An interval ends with a loss: then the policer's tokens have run out.
        if lost == 0 {
            return;
        }
        let lost = u64::from((totals.lost as u32).wrapping_sub(policer.lost));
        let delivered = u64::from((totals.delivered as u32).wrapping_sub(policer.delivered));
        if delivered == 0 || lost * UNIT < LOSS_THRESHOLD * delivered {
            return;
        }
        let ms = ms_of(totals).saturating_sub(policer.since_ms);
        if ms == 0 {
            return;
        }
        if ms >= u32::MAX / 1000 {
            return policer.forget(totals);
        }
        let paced = |bw: Bw| self.paced.at(bw, UNIT);
        if policer.end_interval(Bw::of(delivered, u64::from(ms) * 1000), paced, totals)
            && !self.set.rules.policed_unity_gain
        {
            self.cycle.gain = UNIT as u16;
        }
    }
}
