//! Is the pipe full? Then what Startup left in the queue is drained.
//!
//! Law: at the beginning of a round trip that the application did not limit, the greatest rate has
//! grown by 25 % since it last had, or three such round trips have passed: the pipe is full, for
//! good. Drain lasts until one bandwidth-delay product is in flight.

use super::bandwidth::Bw;
use super::{Ack, Bbr, Delivery, Mode, STARTUP_THRESHOLD, UNIT, Window};

/// Does a rate still grow?
#[derive(Clone, Debug, Default)]
pub(in crate::cc) struct Plateau {
    /// The rate when it last had grown enough.
    pub bw: Bw,
    /// Round trips since.
    pub rounds: u64,
}

impl Plateau {
    /// `bw` after one more round trip: have there been `most` in which it did not grow by
    /// `gain`/256?
    pub fn reached(&mut self, bw: Bw, gain: u64, most: u64) -> bool {
        if bw.0 >= (self.bw.0 * gain) >> 8 {
            (self.bw, self.rounds) = (bw, 0);
            return false;
        }
        self.rounds += 1;
        self.rounds >= most
    }
}

/// What is known of the pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    /// It is full.
    pub full: bool,
    pub plateau: Plateau,
}

impl Bbr {
    pub(super) fn judge_pipe(&mut self, d: &Delivery) {
        let app_limited = d.sample.is_some_and(|s| s.app_limited);
        if self.pipe.full || !self.bandwidth.rounds.start || app_limited {
            return;
        }
        let (gain, most) = (self.set.full_pipe_gain, self.set.full_pipe_rounds);
        self.pipe.full = self.pipe.plateau.reached(self.bandwidth.max(), gain, most);
    }

    pub(super) fn judge_drain(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        if self.mode == Mode::Startup && self.pipe.full {
            self.mode = Mode::Drain;
            if self.set.kernel.follows(&STARTUP_THRESHOLD) {
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
