//! Startup, which measures the rate of the path, and Drain, which removes the queue of Startup.
//!
//! Algorithm: Startup paces at 2.77 times the bandwidth, with a window of two bandwidth-delay
//! products. Startup ends once three round trips have passed since the delivery rate last grew by
//! 25 % or more. Round trips in which the application limits the rate do not count. Startup also
//! ends after a round trip of recovery with more than 2 % of the packets lost, in at least six
//! separate ranges of bytes. Then `inflight_long = max(bdp, packets delivered in that round trip)`.
//! Drain paces at half the bandwidth. Drain ends when at most one product is in flight, or after
//! three round trips.

use super::{Ack, Bbr3, Delivery, Mode, Window};
use crate::cc::RateSample;
use crate::cc::bbr::UNIT;
use crate::cc::bbr::bandwidth::Bw;
use crate::cc::bbr::startup::Plateau;
use crate::transport::State;

/// The state of the pipe, and the losses of the round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Startup {
    plateau: Plateau,
    /// Whether the pipe was found full since the last restart of the detection.
    pub full_now: bool,
    /// Whether the pipe was ever found full.
    pub full: bool,
    /// Number of ACKs of this round trip that reported losses.
    pub acks: u64,
    /// Number of separate ranges of bytes that were lost in this round trip.
    pub ranges: u64,
    lost_to: u64,
    /// The round trip in which Drain began.
    drain_since: u32,
}

impl Startup {
    pub fn note_loss(&mut self, seq: u64, end: u64) {
        self.ranges += u64::from(self.ranges == 0 || seq != self.lost_to);
        self.lost_to = end;
    }
    /// Restarts the detection of a full pipe: growth counts from the rate `bw`.
    pub fn reset_full_pipe(&mut self, bw: Bw) {
        self.plateau = Plateau { bw, rounds: 0 };
        self.full_now = false;
    }
}

impl Bbr3 {
    pub(super) fn judge_pipe(&mut self, sample: &RateSample, bw: Bw) {
        if self.startup.full_now || !self.rounds.start || sample.app_limited {
            return;
        }
        let bw = if self.set.version.plateau_of_max {
            self.max_bw.get()
        } else {
            bw
        };
        let (gain, most) = (self.set.full_pipe_gain, self.set.full_pipe_rounds);
        if self.startup.plateau.reached(bw, gain, most) {
            self.startup.full_now = true;
            self.startup.full = true;
        }
    }

    pub(super) fn judge_startup(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        self.judge_losses(ev, d);
        if self.mode == Mode::Startup && self.startup.full {
            self.mode = Mode::Drain;
            self.startup.drain_since = self.rounds.count;
            w.ssthresh = self
                .inflight(self.max_bw.get(), UNIT)
                .min(u64::from(u32::MAX)) as u32;
            self.forget_latest();
        }
    }

    fn judge_losses(&mut self, ev: &Ack, d: &Delivery) {
        self.startup.acks += u64::from(ev.lost > 0);
        if !self.latest.over {
            return;
        }
        let losses = if self.set.version.counts_acks {
            self.startup.acks
        } else {
            self.startup.ranges
        };
        (self.startup.acks, self.startup.ranges) = (0, 0);
        let enough = self.set.startup_losses > 0 && losses >= self.set.startup_losses;
        let many = d
            .flight
            .is_some_and(|f| self.is_too_high(f.lost, f.in_flight));
        if self.mode == Mode::Startup && ev.state == State::Recovery && enough && many {
            self.undo.mode = Some(Mode::Startup);
            self.leave_startup();
        }
    }

    /// Marks the pipe as full and sets the long-term bound: the path's capacity is reached.
    pub(super) fn leave_startup(&mut self) {
        self.startup.full = true;
        self.startup.full_now = true;
        self.long.inflight = if self.set.version.bounds_by_latest {
            self.bdp(self.bw()).max(self.latest.inflight)
        } else {
            self.inflight(self.max_bw.get(), UNIT)
        };
    }

    pub(super) fn judge_drain(&mut self, ev: &Ack, d: &Delivery) {
        if self.mode != Mode::Drain {
            return;
        }
        let rounds = self.rounds.count - self.startup.drain_since;
        let late = self.set.drain_rounds > 0 && u64::from(rounds) > self.set.drain_rounds;
        if late
            || self.in_flight_at_departure(ev.in_flight, ev, d) <= self.inflight(self.bw(), UNIT)
        {
            self.go_down(ev.now, d.totals.delivered);
        }
    }
}
