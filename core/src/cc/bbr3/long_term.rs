//! The long-term bound of data in flight, which the flow learns from losses of single packets while
//! it probes.
//!
//! Algorithm: let a packet be lost that was sent during a probe. If more than 2 % of the packets in
//! flight at its departure are lost, then `inflight_long = max(packets in flight when losses
//! exceeded 2 %, 0.7 · min(bdp, cwnd))`, once per probe, and the probe ends. More packets in flight
//! without such losses raise the bound. If ProbeUp uses the whole bound, the bound grows by 1, 2, 4
//! … packets per round trip.
//!
//! The position in a burst at which losses exceeded the threshold follows from `(lost + x)/(in
//! flight + x) = threshold`. The equation is solved for `x`, the number of packets of the burst
//! after the last packet before it.

use super::signals::UNBOUND;
use super::{Bbr3, Delivery, LostPacket, Mode, Window};
use crate::units::Time;

/// Number of round trips after which growth no longer doubles.
const MOST_DOUBLINGS: u32 = 30;

/// The phase of probing that ACKs belong to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    /// No probe.
    Init,
    /// ACKs of the phase that fills the pipe.
    Refilling,
    /// A probe has begun; its ACKs have not arrived yet.
    Starting,
    /// ACKs of the probe.
    Feedback,
    /// The probe has ended; its ACKs still arrive.
    Stopping,
}

/// The bound and its probe.
#[derive(Clone, Debug)]
pub(super) struct Long {
    /// The bound, in packets.
    pub inflight: u64,
    pub phase: AckPhase,
    /// Whether losses of the probe's packets count; the first reaction resets it.
    pub sampling: bool,
    /// Packets acknowledged towards the next increase, and the number that an increase needs.
    acked: u64,
    per_increase: u64,
    doublings: u32,
    /// The last probe exceeded the path's capacity.
    pub too_high: bool,
    /// The last probe stopped at the bound, because the one before exceeded the capacity.
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
    /// Starts another round trip of growth in a window of `cwnd`.
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

/// Packets in flight when losses exceeded `threshold`, within a burst. One packet of it left with
/// `in_flight` packets (itself included), and was lost as the `lost`th since.
pub(super) fn inflight_at_loss(threshold: f64, in_flight: u32, lost: u64) -> u64 {
    let before = f64::from(in_flight.saturating_sub(1));
    let lost_before = lost.saturating_sub(1) as f64;
    // With a threshold of 1, no loss is too high.
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
        // The limit of a flow that its application limits is unknown.
        if !app_limited {
            let least = (self.target(w) as f64 * self.set.beta) as u64;
            self.long.inflight = safe.max(least);
        }
        if self.mode == Mode::Up {
            self.undo.mode = Some(Mode::Up);
            self.go_down(now, delivered);
        }
    }

    /// The target of packets in flight: a product, or less if losses have reduced the window.
    pub(super) fn target(&self, w: &Window) -> u64 {
        self.bdp(self.bw()).min(u64::from(w.cwnd))
    }

    /// The bound minus the headroom for other flows.
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

    /// Returns whether this ACK began a new phase.
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
                // The time of this cycle with the highest rate is over.
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
