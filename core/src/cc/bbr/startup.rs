//! Detection of a full pipe, and Drain, which removes Startup's queue.
//!
//! Algorithm: the pipe is full once three round trips have passed since the maximum delivery rate
//! last grew by 25 % or more. Round trips in which the application limited the rate do not count.
//! Drain lasts until at most one bandwidth-delay product is in flight.

use super::bandwidth::Bw;
use super::{Ack, Bbr, Delivery, Mode, UNIT, Window};

/// Detects that a rate no longer grows.
#[derive(Copy, Clone, Debug, Default)]
#[repr(Rust, packed(2))]
pub(in crate::cc) struct Plateau {
    /// The rate after its last sufficient growth.
    pub bw: Bw,
    /// Round trips since this growth.
    pub rounds: u16,
}

impl Plateau {
    /// Adds the rate `bw` of one more round trip. Returns whether the rate has not grown by the
    /// factor `gain`/256 for `most` round trips.
    pub fn reached(&mut self, bw: Bw, gain: u64, most: u64) -> bool {
        if bw.0 >= (self.bw.0 * gain) >> 8 {
            (self.bw, self.rounds) = (bw, 0);
            return false;
        }
        self.rounds += 1;
        u64::from(self.rounds) >= most
    }
}

impl Bbr {
    pub(super) fn judge_pipe(&mut self, d: &Delivery) {
        let app_limited = d.sample.is_some_and(|s| s.app_limited);
        if self.full_pipe || !self.bandwidth.rounds.start || app_limited {
            return;
        }
        let (gain, most) = (self.set.full_pipe_gain, self.set.full_pipe_rounds);
        self.full_pipe = self
            .plateau
            .reached(self.bandwidth.max(), gain.into(), most.into());
    }

    pub(super) fn judge_drain(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        if self.mode == Mode::Startup && self.full_pipe {
            self.mode = Mode::Drain;
            if self.set.rules.startup_threshold {
                w.ssthresh = self.inflight(self.bandwidth.max(), UNIT) as u32;
            }
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_flight_at_departure(ev.in_flight, ev.now, d.next_departure);
            if in_flight <= self.inflight(self.bandwidth.max(), UNIT) {
                self.enter_probe_bw(d.totals.delivered_at);
            }
        }
    }
}
