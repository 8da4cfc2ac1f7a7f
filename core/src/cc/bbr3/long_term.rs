//! The long-term bound of data in flight, which the flow learns from the losses of each probe for
//! bandwidth.
//!
//! Algorithm: let a packet be lost that was sent during a probe. If more than 2 % of the packets in
//! flight at its departure are lost, then `inflight_long = max(packets in flight when losses
//! exceeded 2 %, 0.7 · min(bdp, cwnd))`, once per probe, and the probe ends. The bound is unchanged
//! if the application limited the flow. A larger number of packets in flight without such losses
//! raises the bound to this number. If ProbeUp uses the whole bound, the bound grows by 1, 2, 4 …
//! packets per round trip.
//!
//! The number of packets in flight at which losses exceeded the threshold is estimated within a
//! burst. `lost` and `in flight` are the numbers before the lost packet. All further packets of the
//! burst count as lost, so the estimate is `in flight + x` with `(lost + x)/(in flight + x) =
//! threshold`.

use super::signals::UNBOUND;
use super::{Bbr3, Delivery, LostPacket, Mode, Window};
use crate::units::Time;

/// Number of round trips of ProbeUp after which the growth of the bound per round trip no longer
/// doubles.
const MOST_DOUBLINGS: u32 = 30;

/// The phase of the cycle in which the packets were sent that ACKs report now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    /// Neither a probe nor the phase before it.
    Init,
    /// Refill, the phase that fills the pipe before a probe.
    Refilling,
    /// A probe has begun; its ACKs have not arrived yet.
    Starting,
    /// ACKs of the probe.
    Feedback,
    /// The probe has ended; its ACKs still arrive.
    Stopping,
}

/// The long-term bound, and the state of the probe that measures it.
#[derive(Clone, Debug)]
pub(super) struct Long {
    /// The bound, in packets.
    pub inflight: u64,
    pub phase: AckPhase,
    /// Whether losses of the probe's packets count; the first reaction resets it.
    pub sampling: bool,
    /// Packets acknowledged towards the next increase of the bound.
    acked: u64,
    /// Number of acknowledged packets that increase the bound by one packet.
    per_increase: u64,
    doublings: u32,
    /// Whether the last probe exceeded the path's capacity: too many packets were lost or marked.
    pub too_high: bool,
    /// Whether the last probe stopped at the bound, because the probe before had exceeded the
    /// capacity.
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
    /// Starts another round trip of growth, with the window `cwnd`. The bound grows by twice as
    /// many packets as in the round trip before.
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

/// Estimates the packets in flight when losses exceeded `threshold`, within a burst. A packet of
/// the burst was lost. `in_flight` is the number of packets in flight after its departure, and
/// `lost` the number lost since, both including this packet.
pub(super) fn inflight_at_loss(threshold: f64, in_flight: u32, lost: u64) -> u64 {
    let before = f64::from(in_flight.saturating_sub(1));
    let lost_before = lost.saturating_sub(1) as f64;
    // With a threshold of 1, no loss rate exceeds the threshold.
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
        // If the application limits the flow, losses do not show the capacity of the path.
        if !app_limited {
            let least = (self.target(w) as f64 * self.set.beta) as u64;
            self.long.inflight = safe.max(least);
        }
        if self.mode == Mode::Up {
            self.undo.mode = Some(Mode::Up);
            self.go_down(now, delivered);
        }
    }

    /// The target of packets in flight: a bandwidth-delay product, or the window if that is
    /// smaller.
    pub(super) fn target(&self, w: &Window) -> u64 {
        self.bdp(self.bw()).min(u64::from(w.cwnd))
    }

    /// The bound minus the headroom for other flows (15 %, at least one packet), and at least 4
    /// packets.
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

    /// Updates the bound with an ACK. Returns whether this ACK began Refill.
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
                // The ACKs of the probe, which show the highest rate of this cycle, have arrived.
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
            let counts = self.set.version.judges_acks || self.marks_too_high(&flight);
            if counts && self.long.sampling {
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
