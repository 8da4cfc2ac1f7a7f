//! The window: a goal of two bandwidth-delay products, rounded so that bursts and delayed ACKs find
//! room; and recovery.
//!
//! Law: `goal = ⌈gain · bw · min_rtt⌉ + aggregation + 3 bursts`, even, and 2 more in the phase that
//! asks for more. With the pipe known to be full the window grows by what is delivered up to the
//! goal, and follows it down at once; before, it grows while below the goal. At least 4 packets.
//!
//! In recovery: what is lost leaves the window; for the first round trip it is what is in flight
//! and what was just delivered (packet conservation), afterwards it grows towards the goal again;
//! its end restores the window of before.

use super::bandwidth::Bw;
use super::{
    Ack, Bbr, Delivery, INITIAL_WINDOW, Mode, ONLY_PROBING_ADDS_TWO, PROBING_ADDS_TWO, UNIT, Window,
};
use crate::transport::State;

/// What recovery began with.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// The window before it, or before ProbeRTT.
    pub prior_cwnd: u32,
    /// The state at the last ACK.
    pub prior_state: State,
    /// Its first round trip: a packet for a packet.
    pub conserves: bool,
}

fn repairs(state: State) -> bool {
    matches!(state, State::Recovery | State::Loss)
}

impl Bbr {
    /// Remembers the window, to come back to.
    pub(super) fn save_window(&mut self, w: &Window) {
        let r = &mut self.recovery;
        r.prior_cwnd = if repairs(r.prior_state) || self.mode == Mode::ProbeRtt {
            r.prior_cwnd.max(w.cwnd)
        } else {
            w.cwnd
        };
    }

    /// `gain` bandwidth-delay products, in packets.
    fn bdp(&self, bw: Bw, gain: u64) -> u64 {
        match self.min_rtt.us() {
            Some(us) => bw.product(us, gain),
            None => u64::from(INITIAL_WINDOW),
        }
    }
    /// With room for bursts on both sides and on the way, and for an ACK of every second packet.
    fn rounded(&self, packets: u64, gain: u64) -> u64 {
        let even = (packets + 3 * self.paced.burst_goal() + 1) & !1;
        // So that asking for more puts more into flight even where the product is small.
        let kernel = self.set.kernel;
        let asks = if kernel.follows(&ONLY_PROBING_ADDS_TWO) {
            self.cycle.phase == 0
        } else {
            gain > UNIT && kernel.follows(&PROBING_ADDS_TWO)
        };
        even + if asks && self.mode == Mode::ProbeBw {
            2
        } else {
            0
        }
    }
    /// What is in flight with `gain` bandwidth-delay products.
    pub(super) fn inflight(&self, bw: Bw, gain: u64) -> u64 {
        self.rounded(self.bdp(bw, gain), gain)
    }

    pub(super) fn set_window(&mut self, w: &mut Window, ev: &Ack, d: &Delivery, bw: Bw) {
        let mut cwnd = w.cwnd;
        if ev.delivered > 0 {
            let conserved = self.recover(w, ev, d);
            cwnd = conserved.unwrap_or_else(|after_loss| {
                let goal = self.rounded(
                    self.bdp(bw, self.cwnd_gain) + self.aggregation_room(),
                    self.cwnd_gain,
                );
                let goal = goal.min(u64::from(u32::MAX)) as u32;
                let grown = after_loss.saturating_add(ev.delivered);
                let next = if self.pipe.full {
                    grown.min(goal)
                } else if after_loss < goal || d.totals.delivered < u64::from(INITIAL_WINDOW) {
                    grown
                } else {
                    after_loss
                };
                next.max(self.set.min_cwnd)
            });
        }
        w.cwnd = cwnd.min(w.clamp);
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(self.set.min_cwnd);
        }
    }

    /// The window in recovery: kept as it is with `Ok`, to be grown from with `Err`.
    fn recover(&mut self, w: &Window, ev: &Ack, d: &Delivery) -> Result<u32, u32> {
        let mut cwnd = w.cwnd;
        if ev.lost > 0 {
            cwnd = cwnd.saturating_sub(ev.lost).max(1);
        }
        let (before, now) = (self.recovery.prior_state, ev.state);
        let held = ev.in_flight + ev.delivered;
        if now == State::Recovery && before != State::Recovery {
            self.recovery.conserves = true;
            self.bandwidth.rounds.ends = d.totals.delivered;
            cwnd = held;
        } else if repairs(before) && !repairs(now) {
            cwnd = cwnd.max(self.recovery.prior_cwnd);
            self.recovery.conserves = false;
        }
        self.recovery.prior_state = now;
        if self.recovery.conserves {
            Ok(cwnd.max(held))
        } else {
            Err(cwnd)
        }
    }
}
