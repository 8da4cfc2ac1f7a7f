//! Measurements from ACKs: the maximum rate of two cycles, the deliveries of the latest round trip,
//! and the short-term bounds. These bounds apply until the next probe.
//!
//! Algorithm: `max_bw` is the maximum rate of this cycle of ProbeBW and the one before. A rate that
//! the application limited counts only if it is at least the maximum. After a round trip with
//! losses, except while probing, `bw_short = max(bw of that round trip, 0.7 · bw_short)`. The
//! short-term bound of data in flight is computed in the same way from the data delivered. `bw =
//! min(max_bw, bw_short)`. The next probe drops both bounds.

use super::{Bbr3, Delivery, Mode, Window};
use crate::cc::RateSample;
use crate::cc::bbr::bandwidth::Bw;

/// No bound.
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
    /// Ends a cycle, unless it has no rate at all.
    pub fn next_cycle(&mut self) {
        if self.0[1] > Bw::default() {
            self.0 = [self.0[1], Bw::default()];
        }
    }
}

/// The latest round trip. The first loss starts a new one, so that all its losses are judged
/// together.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    /// The maximum rate in it.
    pub bw: Bw,
    /// The maximum number of packets delivered in it.
    pub inflight: u64,
    /// It ends with a packet that was sent after this many deliveries.
    pub ends: u64,
    /// Whether it ended with this ACK.
    pub over: bool,
    /// Whether a loss was detected in it.
    pub lost: bool,
}

/// Short-term bounds, until the next probe.
#[derive(Copy, Clone, Debug)]
pub(super) struct Short {
    pub bw: Bw,
    /// Packets in flight.
    pub inflight: u64,
}

impl Short {
    pub const NONE: Short = Short {
        bw: Bw(UNBOUND),
        inflight: UNBOUND,
    };
}

impl Bbr3 {
    /// The bandwidth in use.
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

    /// At the end of an ACK that started the next round trip.
    pub(super) fn begin_latest(&mut self, sample: &RateSample, bw: Bw) {
        if self.latest.over {
            self.latest.bw = bw;
            self.latest.inflight = sample.delivered;
        }
    }

    pub(super) fn asks_for_more(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    fn bound_by_losses(&mut self, w: &Window) {
        if self.asks_for_more() || !self.latest.lost {
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

    /// Records a loss, detected after `delivered` deliveries.
    pub(super) fn note_loss(&mut self, w: &Window, delivered: u64) {
        if !self.latest.lost {
            self.latest.ends = delivered;
        }
        self.latest.lost = true;
        self.save_state(w);
    }

    /// A probe has ended: discards its round trip.
    pub(super) fn forget_latest(&mut self) {
        self.latest.lost = false;
        self.latest.bw = Bw::default();
        self.latest.inflight = 0;
    }
}
