//! The response to ECN marks, if the parameter `ecn` is true. It follows Google's published code
//! for very short paths, because the draft does not define a response.
//!
//! Algorithm, if the minimum round trip is at most 5 ms: per round trip `alpha += (marked share −
//! alpha)/16`. A round trip with marks multiplies the short-term bound of data in flight by `1 −
//! alpha/3`, except in Startup, Refill and ProbeUp. If more than half of the packets are marked, a
//! probe ends. Two successive round trips with at least half of the packets marked end Startup.
//!
//! The ECN variant of the connection determines which packets count as marked. With ECN according
//! to RFC 3168, all packets count from the first mark until the sender confirms its response (CWR).
//! Deviation from Google's code: the flow does not start a probe at once when marks cease.

use super::signals::UNBOUND;
use super::{Bbr3, Delivery, Mode, Window};
use crate::cc::FlightSample;

/// Weight of a round trip in `alpha`, the moving average of the share of marked packets.
const ALPHA_GAIN: f64 = 1.0 / 16.0;
/// Relative reduction of the bound per round trip with marks, as a multiple of `alpha`.
const FACTOR: f64 = 1.0 / 3.0;
/// The share of marked packets above which a probe ends. Startup ends at this share.
const THRESHOLD: f64 = 0.5;
/// Number of successive round trips with this share that end Startup.
const STARTUP_ROUNDS: u32 = 2;

/// The moving average of the share of marked packets, and the marks of the present round trip.
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
    fn reacts_to_marks(&self) -> bool {
        self.set.ecn
            && self
                .min_rtt
                .us()
                .is_some_and(|us| us <= self.set.ecn_max_rtt.as_us())
    }

    pub(super) fn marks_too_high(&self, flight: &FlightSample) -> bool {
        self.reacts_to_marks() && flight.delivered_ce as f64 > THRESHOLD * flight.delivered as f64
    }

    pub(super) fn take_marks(&mut self, w: &Window, d: &Delivery) {
        let Some(flight) = d
            .flight
            .filter(|f| f.delivered > 0 && self.reacts_to_marks())
        else {
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
            if self.marks.in_round && !self.is_probing() {
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
