//! Measurements from ACKs: the maximum rate of two cycles, the deliveries of the latest round trip,
//! and the short-term bounds. These bounds apply until the next probe.
//!
//! Algorithm: `max_bw` is the maximum rate of this cycle of ProbeBW and the one before. A rate that
//! the application limited counts only if it is at least the maximum. After a round trip with
//! losses, `bw_short = max(bw of that round trip, 0.7 · bw_short)`, except in Startup, Refill and
//! ProbeUp. The first such round trip begins with `bw_short = max_bw`. The short-term bound of data
//! in flight is computed in the same way from the packets delivered in the round trip. Its first
//! value is computed from the window. `bw = min(max_bw, bw_short)`. The next Refill and the end of
//! ProbeRTT drop both bounds.

use super::{Bbr3, Delivery, Mode, Window};
use crate::cc::RateSample;
use crate::cc::bbr::bandwidth::Bw;

/// The value of a bound that does not limit anything.
pub(super) const UNBOUND: u64 = u64::MAX;

/// The maximum rates of the last cycle and of this one.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxBw([Bw; 2]);

impl MaxBw {
    pub fn get(&self) -> Bw {
        self.0[0].max(self.0[1])
    }
    pub fn take(&mut self, bw: Bw) {
        self.0[1] = self.0[1].max(bw);
    }
    /// Ends a cycle of ProbeBW, unless no rate was measured in it.
    pub fn next_cycle(&mut self) {
        if self.0[1] > Bw::default() {
            self.0 = [self.0[1], Bw::default()];
        }
    }
}

/// The latest round trip. After a loss, it ends one round trip after the first loss. All losses of
/// one episode then belong to the same round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    /// The maximum delivery rate in this round trip.
    pub bw: Bw,
    /// The maximum number of packets that a rate sample of this round trip reports as delivered.
    pub inflight: u64,
    /// The round trip ends with the delivery of a packet that was sent after this many deliveries.
    pub ends: u64,
    /// Whether the round trip ended with this ACK.
    pub over: bool,
    /// Whether a loss was detected in this round trip.
    pub lost: bool,
}

/// Short-term bounds, which apply until the next probe.
#[derive(Copy, Clone, Debug)]
pub(super) struct Short {
    pub bw: Bw,
    /// Maximum number of packets in flight.
    pub inflight: u64,
}

impl Short {
    pub const NONE: Short = Short {
        bw: Bw(UNBOUND),
        inflight: UNBOUND,
    };
}

impl Bbr3 {
    /// The bandwidth in use: the maximum rate, or the short-term bound if that is lower.
    pub(super) fn bw(&self) -> Bw {
        self.max_bw.get().min(self.short.bw)
    }

    pub(super) fn take_signals(&mut self, w: &Window, d: &Delivery, sample: &RateSample, bw: Bw) {
        let now = d.totals.delivered;
        self.latest.bw = self.latest.bw.max(bw);
        self.latest.inflight = self.latest.inflight.max(sample.delivered);
        self.latest.over = sample.prior_delivered >= self.latest.ends;
        if self.latest.over {
            self.latest.ends = now;
        }
        self.rounds.take(sample.prior_delivered, now);
        self.cycle.rounds += u64::from(self.rounds.start);
        if !sample.app_limited || bw >= self.max_bw.get() {
            self.max_bw.take(bw);
        }
        self.take_marks(w, d);
        if self.latest.over {
            self.bound_by_losses(w);
            self.latest.lost = false;
        }
    }

    /// Called at the end of each ACK. If the ACK ended the latest round trip, the next one begins
    /// with its rate sample.
    pub(super) fn begin_latest(&mut self, sample: &RateSample, bw: Bw) {
        if self.latest.over {
            self.latest.bw = bw;
            self.latest.inflight = sample.delivered;
        }
    }

    pub(super) fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    fn bound_by_losses(&mut self, w: &Window) {
        if self.is_probing() || !self.latest.lost {
            return;
        }
        let beta = self.set.beta;
        let cut = |from: u64| (from as f64 * beta) as u64;
        if self.short.bw == Short::NONE.bw {
            self.short.bw = self.max_bw.get();
        }
        if self.short.inflight == UNBOUND {
            self.short.inflight = self.window_unmodulated(w);
        }
        self.short.bw = self.latest.bw.max(Bw(cut(self.short.bw.0)));
        self.short.inflight = self.latest.inflight.max(cut(self.short.inflight));
    }

    /// Records a loss that was detected after `delivered` deliveries.
    pub(super) fn note_loss(&mut self, w: &Window, delivered: u64) {
        if !self.latest.lost {
            self.latest.ends = delivered;
        }
        self.latest.lost = true;
        self.save_state(w);
    }

    /// Discards the measurements of the latest round trip, after a probe or Startup.
    pub(super) fn forget_latest(&mut self) {
        self.latest.lost = false;
        self.latest.bw = Bw::default();
        self.latest.inflight = 0;
    }
}
