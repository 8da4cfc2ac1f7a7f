//! What may be in flight in the long term: learned by probing, from losses packet by packet.
//!
//! Law: of the packets sent while probing, when one is found lost and with it more than 2 % of what
//! was in flight as it left, `inflight_long = max(what was in flight where the losses crossed 2 %,
//! 0.7 · min(bdp, cwnd))`, once per probe, and the probe is over. Whatever more proves safe raises
//! it; while the phase that asks for more uses all of it, it grows by 1, 2, 4 … packets per round
//! trip.
//!
//! Where in a burst the losses crossed the threshold: `(lost + x)/(in flight + x) = threshold`,
//! solved for `x` packets of the burst that the last packet before it left out.

use super::signals::UNBOUND;
use super::{Bbr3, Delivery, LostPacket, Mode, Window};
use crate::units::Time;

/// Round trips after which growth no longer doubles.
const MOST_DOUBLINGS: u32 = 30;

/// What ACKs tell of, as to probing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    /// No probe.
    Init,
    /// What fills the pipe.
    Refilling,
    /// A probe has begun; no ACK tells of it yet.
    Starting,
    /// ACKs tell of the probe.
    Feedback,
    /// The probe is over; ACKs still tell of it.
    Stopping,
}

/// The bound and its probing.
#[derive(Clone, Debug)]
pub(super) struct Long {
    /// Packets.
    pub inflight: u64,
    pub phase: AckPhase,
    /// Do losses tell of packets of a probe, and has none been answered to?
    pub sampling: bool,
    /// Packets acknowledged towards the next increase, and those that one takes.
    acked: u64,
    per_increase: u64,
    doublings: u32,
    /// The last probe went too high.
    pub too_high: bool,
    /// The last probe stopped when it came to the bound, because the one before went too high.
    pub cautious: bool,
}

impl Default for Long {
    fn default() -> Long {
        Long {
            inflight: UNBOUND,
            phase: AckPhase::Init,
            sampling: false,
            acked: 0,
            per_increase: UNBOUND,
            doublings: 0,
            too_high: false,
            cautious: false,
        }
    }
}

impl Long {
    pub fn refill(&mut self) {
        self.doublings = 0;
        self.acked = 0;
        self.cautious = false;
        self.phase = AckPhase::Refilling;
    }
    pub fn stop(&mut self) {
        self.per_increase = UNBOUND;
        self.phase = AckPhase::Stopping;
    }
    /// One round trip more of growth in a window of `cwnd`.
    pub fn steepen(&mut self, cwnd: u32) {
        let growth = 1u64 << self.doublings;
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        self.per_increase = (u64::from(cwnd) / growth).max(1);
    }
    fn grow(&mut self, delivered: u32) {
        self.acked += u64::from(delivered);
        if self.acked >= self.per_increase {
            let more = self.acked / self.per_increase;
            self.acked -= more * self.per_increase;
            self.inflight = self.inflight.saturating_add(more);
        }
    }
}

/// What was in flight where losses crossed `threshold`, in a burst whose one packet left with
/// `in_flight` (itself included) and was lost as the `lost`th since.
pub(super) fn inflight_at_loss(threshold: f64, in_flight: u32, lost: u64) -> u64 {
    let before = f64::from(in_flight.saturating_sub(1));
    let lost_before = lost.saturating_sub(1) as f64;
    // With a threshold of 1 nothing is ever too much.
    let more = (threshold * before - lost_before) / (1.0 - threshold).max(1e-9);
    (before + more.max(0.0)) as u64
}

impl Bbr3 {
    pub(super) fn is_too_high(&self, lost: u64, in_flight: u32) -> bool {
        lost as f64 > f64::from(in_flight) * self.set.loss_threshold
    }

    pub(super) fn take_loss(&mut self, w: &Window, ev: &LostPacket) {
        self.note_loss(w, ev.totals.delivered);
        self.startup.note_loss(ev.seq, ev.end);
        if self.long.sampling && self.is_too_high(ev.lost, ev.in_flight) {
            let safe = inflight_at_loss(self.set.loss_threshold, ev.in_flight, ev.lost);
            self.went_too_high(w, safe, ev.app_limited, ev.now, ev.totals.delivered);
        }
    }

    fn went_too_high(
        &mut self,
        w: &Window,
        safe: u64,
        app_limited: bool,
        now: Time,
        delivered: u64,
    ) {
        self.long.too_high = true;
        self.long.sampling = false;
        // A flow that its application limits does not know how much is too much.
        if !app_limited {
            let least = (self.target(w) as f64 * self.set.beta) as u64;
            self.long.inflight = safe.max(least);
        }
        if self.mode == Mode::Up {
            self.undo.mode = Some(Mode::Up);
            self.go_down(now, delivered);
        }
    }

    /// What it wants in flight: a product, or less if losses have cut the window.
    pub(super) fn target(&self, w: &Window) -> u64 {
        self.bdp(self.bw()).min(u64::from(w.cwnd))
    }

    /// The bound less what is left to others.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.long.inflight == UNBOUND {
            return UNBOUND;
        }
        let headroom = ((self.long.inflight as f64 * self.set.headroom) as u64).max(1);
        self.long
            .inflight
            .saturating_sub(headroom)
            .max(self.set.min_cwnd)
    }

    /// Answers whether a new phase has begun with this ACK.
    pub(super) fn adapt_long(
        &mut self,
        w: &Window,
        d: &Delivery,
        acked: u32,
        now: Time,
        app_limited: bool,
    ) -> bool {
        let delivered = d.totals.delivered;
        if self.long.phase == AckPhase::Starting && self.rounds.start {
            self.long.phase = AckPhase::Feedback;
        }
        if self.long.phase == AckPhase::Stopping && self.rounds.start {
            self.long.sampling = false;
            self.long.phase = AckPhase::Init;
            if self.mode.probes_bw() {
                // The best chance of this cycle to see a high rate has passed.
                if !app_limited {
                    self.max_bw.next_cycle();
                }
                if self.long.cautious && !self.long.too_high {
                    self.refill(delivered);
                    return true;
                }
            }
        }
        let Some(flight) = d.flight else { return false };
        if self.is_too_high(flight.lost, flight.in_flight) || self.marks_too_high(&flight) {
            let told = self.set.version.judges_acks || self.marks_too_high(&flight);
            if told && self.long.sampling {
                self.went_too_high(w, u64::from(flight.in_flight), app_limited, now, delivered);
            }
            return false;
        }
        if self.long.inflight == UNBOUND {
            return false;
        }
        self.long.inflight = self.long.inflight.max(u64::from(flight.in_flight));
        if self.mode == Mode::Up && flight.cwnd_limited && u64::from(w.cwnd) >= self.long.inflight {
            self.long.grow(acked);
            if self.rounds.start {
                self.long.steepen(w.cwnd);
            }
        }
        false
    }
}
