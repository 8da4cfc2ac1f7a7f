//! Pacing rate and window; the state that is stored at the first loss, and its restoration if the
//! losses were spurious (undo).
//!
//! Algorithm: `pacing = 0.99 · gain · bw`; until the pipe is full, the pacing rate never decreases.
//! `cwnd` grows by the delivered packets up to a goal. The goal is `gain · bw · min_rtt +
//! aggregation`, at least three bursts, plus 2 packets in ProbeUp. In ProbeDown, Refill and
//! ProbeUp, `cwnd` is at most `inflight_long`; in Cruise and ProbeRTT it is at most 85 % of
//! `inflight_long`. In every mode, `cwnd` is at most `inflight_short`, and at least 4 packets.
//!
//! Losses reduce the window only by those bounds: there is no packet conservation. A timeout
//! reduces the window to the packets in flight plus one; the end of recovery restores the window.
//!
//! The undo restores the state at the first loss of an episode. Deviation: the draft stores the
//! state again at each round trip with losses and at the start of recovery. By then, the loss that
//! began the recovery may already have lowered the bounds.

use super::signals::Short;
use super::{Ack, Bbr3, Mode, SpuriousLoss, Window};
use crate::cc::Delivery;
use crate::cc::bbr::bandwidth::Bw;
use crate::cc::bbr::{INITIAL_WINDOW, UNIT};
use crate::transport::State;

/// The state before recovery.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// The window before recovery or before ProbeRTT, in packets.
    prior_cwnd: u32,
    /// The present state of recovery.
    pub state: State,
    saved: bool,
    short: Short,
    long: u64,
    /// The mode (Startup or ProbeUp) that losses of this episode ended, if any.
    pub mode: Option<Mode>,
}

impl Default for Undo {
    fn default() -> Undo {
        Undo {
            prior_cwnd: 0,
            state: State::Open,
            saved: false,
            short: Short {
                bw: Bw(0),
                inflight: 0,
            },
            long: 0,
            mode: None,
        }
    }
}

pub(super) fn repairs(state: State) -> bool {
    matches!(state, State::Recovery | State::Loss)
}

fn packets(n: u64) -> u32 {
    n.min(u64::from(u32::MAX)) as u32
}

impl Bbr3 {
    /// `gain`/256 bandwidth-delay products, in packets.
    pub(super) fn products(&self, bw: Bw, gain: u64) -> u64 {
        match self.min_rtt.us() {
            Some(us) => bw.product(us, gain),
            None => u64::from(INITIAL_WINDOW),
        }
    }
    pub(super) fn bdp(&self, bw: Bw) -> u64 {
        self.products(bw, UNIT)
    }
    /// Raises `packets` to at least three bursts and 4 packets. Adds 2 packets in ProbeUp: a probe
    /// must put more packets into flight even if the bandwidth-delay product is small.
    fn with_bursts(&self, packets: u64) -> u64 {
        let room = packets
            .max(3 * self.paced.burst_goal())
            .max(self.set.min_cwnd);
        room + if self.mode == Mode::Up { 2 } else { 0 }
    }
    /// Packets in flight for `gain`/256 bandwidth-delay products, with room for bursts.
    pub(super) fn inflight(&self, bw: Bw, gain: u64) -> u64 {
        self.with_bursts(self.products(bw, gain))
    }
    /// Returns how many of `in_flight` packets will be in flight when pacing releases the next
    /// packet. Until then, the path is expected to deliver at the rate `bw`.
    pub(super) fn in_flight_at_departure(&self, in_flight: u32, ev: &Ack, d: &Delivery) -> u64 {
        let wait = d.next_departure.max(ev.now).since(ev.now);
        self.paced
            .in_flight_after(wait, in_flight, self.bw(), self.gains().0)
    }

    /// Gains of pacing and window, in 1/256.
    pub(super) fn gains(&self) -> (u64, u64) {
        let set = &self.set;
        match self.mode {
            Mode::Startup => (set.startup_gain, set.startup_cwnd_gain),
            Mode::Drain => (set.drain_gain, set.startup_cwnd_gain),
            Mode::Down => (set.down_gain, set.cwnd_gain),
            Mode::Cruise | Mode::Refill => (UNIT, set.cwnd_gain),
            Mode::Up => (set.up_gain, set.up_cwnd_gain),
            Mode::ProbeRtt => (UNIT, set.probe_rtt_cwnd_gain),
        }
    }

    pub(super) fn set_window(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        if ev.delivered > 0 {
            let goal = self.products(self.bw(), self.gains().1) + self.extra_acked();
            let goal = packets(self.with_bursts(goal));
            let grown = w.cwnd.saturating_add(ev.delivered);
            if self.startup.full {
                w.cwnd = grown.min(goal);
            } else if w.cwnd < goal || d.totals.delivered < u64::from(INITIAL_WINDOW) {
                w.cwnd = grown;
            }
            w.cwnd = w.cwnd.max(packets(self.set.min_cwnd));
        }
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(packets(self.probe_rtt_window()));
        }
        let long = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.long.inflight,
            Mode::Cruise | Mode::ProbeRtt => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => u64::MAX,
        };
        let cap = long.min(self.short.inflight).max(self.set.min_cwnd);
        w.cwnd = w.cwnd.min(packets(cap)).min(w.clamp);
    }

    /// The window, in packets. After a timeout, it is at least the window before the timeout.
    pub(super) fn window_unmodulated(&self, w: &Window) -> u64 {
        let before = if self.undo.state == State::Loss {
            self.undo.prior_cwnd
        } else {
            0
        };
        u64::from(w.cwnd.max(before))
    }

    /// Stores the window, to restore it later.
    pub(super) fn save_window(&mut self, w: &Window) {
        self.undo.prior_cwnd = if repairs(self.undo.state) || self.mode == Mode::ProbeRtt {
            self.undo.prior_cwnd.max(w.cwnd)
        } else {
            w.cwnd
        };
    }
    pub(super) fn restore_window(&mut self, w: &mut Window) {
        w.cwnd = w.cwnd.max(self.undo.prior_cwnd);
    }

    /// Stores window and bounds at the first loss of an episode; does nothing at further losses.
    pub(super) fn save_state(&mut self, w: &Window) {
        if self.undo.saved {
            return;
        }
        self.save_window(w);
        self.undo.saved = true;
        self.undo.mode = None;
        self.undo.short = self.short;
        self.undo.long = self.long.inflight;
    }

    pub(super) fn take_state(&mut self, w: &mut Window, to: State) {
        if repairs(self.undo.state) && !repairs(to) {
            self.restore_window(w);
        }
        if !repairs(to) {
            self.undo.saved = false;
        }
        self.undo.state = to;
    }

    /// Restores the stored window and bounds, because the losses were spurious, and in version 3
    /// also Startup or a probe that the losses ended.
    pub(super) fn undo(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        self.restore_window(w);
        self.latest.lost = false;
        self.startup.reset_full_pipe(Bw::default());
        self.short.bw = self.short.bw.max(self.undo.short.bw);
        self.short.inflight = self.short.inflight.max(self.undo.short.inflight);
        self.long.inflight = self.long.inflight.max(self.undo.long);
        let ended = self
            .undo
            .mode
            .take()
            .filter(|_| self.set.version.undoes_phases);
        let elsewhere = self.mode != Mode::ProbeRtt;
        match ended {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.startup.full = false;
                if elsewhere {
                    self.mode = Mode::Startup;
                }
            }
            Some(Mode::Up) if self.mode != Mode::Up && elsewhere => {
                self.refill(ev.totals.delivered)
            }
            _ => {}
        }
    }
}
