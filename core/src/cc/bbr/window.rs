//! The window: a goal of two bandwidth-delay products, rounded to leave room for bursts and delayed
//! ACKs; and recovery.
//!
//! Algorithm: `goal = ⌈gain · bw · min_rtt⌉ + aggregation + 3 bursts`, rounded up to an even
//! number, plus 2 in the phase of ProbeBW with the gain 1.25. A burst is one super-packet of TSO.
//! Once the pipe is full, the window grows by the delivered packets up to the goal, and follows the
//! goal down at once. Before, it grows while it is below the goal. The minimum is 4 packets.
//!
//! In recovery, lost packets are subtracted from the window. At the start of recovery, the window
//! is set to the packets in flight plus those just delivered. For a round trip it is not less than
//! this sum, and does not grow otherwise (packet conservation). Afterwards the window grows towards
//! the goal again. The end of recovery restores the window before recovery.

use super::bandwidth::Bw;
use super::{Ack, Bbr, Delivery, INITIAL_WINDOW, Mode, UNIT, Window};
use crate::transport::State;

/// The state before recovery.
#[derive(Copy, Clone, Debug, Default)]
#[repr(Rust, packed(2))]
pub(super) struct Recovery {
    /// The window before recovery or before ProbeRTT, in packets.
    pub prior_cwnd: u32,
    /// The state of recovery at the last ACK.
    pub prior_state: State,
    /// Whether this is the first round trip of recovery, with packet conservation.
    pub conserves: bool,
}

fn repairs(state: State) -> bool {
    matches!(state, State::Recovery | State::Loss)
}

impl Bbr {
    /// Stores the window, to restore it later.
    pub(super) fn save_window(&mut self, w: &Window) {
        let r = &mut self.recovery;
        r.prior_cwnd = if repairs(r.prior_state) || self.mode == Mode::ProbeRtt {
            r.prior_cwnd.max(w.cwnd)
        } else {
            w.cwnd
        };
    }

    /// `gain`/256 bandwidth-delay products, in packets.
    fn bdp(&self, bw: Bw, gain: u64) -> u64 {
        match self.min_rtt.us() {
            Some(us) => bw.product(us.into(), gain),
            None => u64::from(INITIAL_WINDOW),
        }
    }
    /// Adds room to `packets`: three bursts (both ends and the path), and rounding up to an even
    /// number for receivers that acknowledge every second packet.
    fn rounded(&self, packets: u64, gain: u64) -> u64 {
        let even = (packets + 3 * self.paced.burst_goal() + 1) & !1;
        // Probing must put more packets into flight even if the product is small.
        let rules = &self.set.rules;
        let adds = if rules.only_probing_adds_two {
            self.cycle.phase == 0
        } else {
            gain > UNIT && rules.probing_adds_two
        };
        even + if adds && self.mode == Mode::ProbeBw {
            2
        } else {
            0
        }
    }
    /// Packets in flight for `gain`/256 bandwidth-delay products, with room for bursts.
    pub(super) fn inflight(&self, bw: Bw, gain: u64) -> u64 {
        self.rounded(self.bdp(bw, gain), gain)
    }

    pub(super) fn set_window(&mut self, w: &mut Window, ev: &Ack, d: &Delivery, bw: Bw) {
        let mut cwnd = w.cwnd;
        if ev.delivered > 0 {
            let conserved = self.recover(w, ev, d);
            cwnd = conserved.unwrap_or_else(|after_loss| {
                let gain = u64::from(self.cwnd_gain);
                let goal = self.rounded(self.bdp(bw, gain) + self.aggregation_room(), gain);
                let goal = goal.min(u64::from(u32::MAX)) as u32;
                let grown = after_loss.saturating_add(ev.delivered);
                let next = if self.full_pipe {
                    grown.min(goal)
                } else if after_loss < goal || d.totals.delivered < u64::from(INITIAL_WINDOW) {
                    grown
                } else {
                    after_loss
                };
                next.max(self.set.min_cwnd.into())
            });
        }
        w.cwnd = cwnd.min(w.clamp);
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(self.set.min_cwnd.into());
        }
    }

    /// Applies losses and recovery to the window. `Ok` contains the final window, `Err` a window
    /// that may still grow.
    fn recover(&mut self, w: &Window, ev: &Ack, d: &Delivery) -> Result<u32, u32> {
        // A loss leaves at least one packet. There is no branch, because losses are unpredictable.
        let least = u32::from(ev.lost > 0);
        let mut cwnd = w.cwnd.saturating_sub(ev.lost).max(least);
        let (before, now) = (self.recovery.prior_state, ev.state);
        let held = ev.in_flight + ev.delivered;
        if now == State::Recovery && before != State::Recovery {
            self.recovery.conserves = true;
            self.bandwidth.rounds.end_after(d.totals.delivered);
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
