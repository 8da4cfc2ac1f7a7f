//! Is the pipe full? Then what Startup left in the queue is drained.
//!
//! Law: at the beginning of a round trip that the application did not limit, the greatest rate has grown by 25 % since it last
//! had, or three such round trips have passed: the pipe is full, for good. Drain lasts until one bandwidth-delay product is
//! in flight.

use super::bandwidth::Bw;
use super::{Ack, Bbr, Delivery, Mode, Window, STARTUP_THRESHOLD, UNIT};

/// What is known of the pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    /// It is full.
    pub full: bool,
    /// The rate when it last had grown enough.
    pub full_bw: Bw,
    /// Round trips since.
    pub rounds: u64,
}

impl Bbr {
    pub(super) fn judge_pipe(&mut self, d: &Delivery) {
        let app_limited = d.sample.is_some_and(|s| s.app_limited);
        if self.pipe.full || !self.bandwidth.round_start || app_limited {
            return;
        }
        let max = self.bandwidth.max();
        let pipe = &mut self.pipe;
        if max.0 >= (pipe.full_bw.0 * self.set.full_pipe_gain) >> 8 {
            pipe.full_bw = max;
            pipe.rounds = 0;
            return;
        }
        pipe.rounds += 1;
        pipe.full = pipe.rounds >= self.set.full_pipe_rounds;
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
