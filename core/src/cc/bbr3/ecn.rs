//! The response to ECN marks, if `ecn` is set. It follows Google's published code for very short
//! paths, because the draft does not define a response.
//!
//! Algorithm, if the minimum round trip is at most 5 ms: per round trip `alpha += (marked share −
//! alpha)/16`. While the flow does not probe, a round trip with marks multiplies the bound of data
//! in flight by `1 − alpha/3`. A share of marked packets above one half ends a probe. It ends
//! Startup after two such round trips.
//!
//! The ECN variant of the connection determines which packets count as marked. With ECN according
//! to RFC 3168, all packets count from the first mark until the sender responds. Deviation from
//! Google's code: the flow does not start a probe at once when marks cease.

use super::signals::UNBOUND;
use super::{Bbr3, Delivery, Mode, Window};
use crate::cc::FlightSample;

/// Weight of a round trip in the average.
const ALPHA_GAIN: f64 = 1.0 / 16.0;
/// Reduction, as a multiple of the average.
const FACTOR: f64 = 1.0 / 3.0;
/// The share of marked packets that is too high.
const THRESHOLD: f64 = 0.5;
/// Number of such round trips that end Startup.
const STARTUP_ROUNDS: u32 = 2;

/// The marked share.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    alpha: f64,
    in_round: bool,
    high_rounds: u32,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            alpha: 1.0,
            in_round: false,
            high_rounds: 0,
        }
    }
}

impl Bbr3 {
    fn answers_marks(&self) -> bool {
        self.set.ecn
            && self
                .min_rtt
                .us()
                .is_some_and(|us| us <= self.set.ecn_max_rtt.as_us())
    }

    pub(super) fn marks_too_high(&self, flight: &FlightSample) -> bool {
        self.answers_marks() && flight.delivered_ce as f64 > THRESHOLD * flight.delivered as f64
    }

    pub(super) fn take_marks(&mut self, w: &Window, d: &Delivery) {
        let Some(flight) = d.flight.filter(|f| f.delivered > 0 && self.answers_marks()) else {
            return;
        };
        self.marks.in_round |= flight.delivered_ce > 0;
        if self.rounds.start {
            let share = flight.delivered_ce as f64 / flight.delivered as f64;
            self.marks.alpha += ALPHA_GAIN * (share - self.marks.alpha);
            let high = self.mode == Mode::Startup && share >= THRESHOLD;
            self.marks.high_rounds = if high { self.marks.high_rounds + 1 } else { 0 };
            if self.marks.high_rounds >= STARTUP_ROUNDS {
                self.leave_startup();
            }
        }
        if self.latest.over {
            if self.marks.in_round && !self.asks_for_more() {
                if self.short.inflight == UNBOUND {
                    self.short.inflight = u64::from(w.cwnd);
                }
                let left = 1.0 - self.marks.alpha * FACTOR;
                self.short.inflight = (self.short.inflight as f64 * left) as u64;
            }
            self.marks.in_round = false;
        }
    }
}
