//! ProbeBW: ProbeDown drains the queue, then follow Cruise, Refill and ProbeUp.
//!
//! ```text
//!   Down ──── in flight ≤ bdp, and ≤ 0.85 of the bound ────▶ Cruise
//!   0.9 · bw                                                 1 · bw
//!    ▲   │                                                     │
//!    │   └── 2 to 3 s, or the round trips of Reno's growth ────┤
//!    │                                                         ▼
//!    Up ◀─────────────────── a round trip ──────────────────  Refill
//!   1.25 · bw                                                1 · bw, short-term bounds dropped
//! ```
//!
//! ProbeUp ends when the rate no longer grows, or when more than 2 % of the packets in flight are
//! lost. The bound is `inflight_long`. The round trips of Reno's growth are those in which Reno's
//! window would grow by the packets in flight: one per packet, at most 63.
//!
//! A probe that follows a probe with too many losses is cautious: it stops when the packets in
//! flight reach the bound. If the cautious probe does not lose too many packets, Refill and ProbeUp
//! follow as soon as its ACKs have arrived.
//!
//! The decisions use the number of packets in flight before this ACK, as in the published code.
//! From it, the packets are subtracted that the path delivers until pacing releases the next
//! packet. The number that is left after an ACK would never reach the bound in a cautious probe,
//! because the bound limits the window.

use super::long_term::AckPhase;
use super::signals::Short;
use super::{Ack, Bbr3, Delivery, Mode, Window};
use crate::cc::bbr::UNIT;
use crate::cc::bbr::bandwidth::Bw;
use crate::units::{Span, Time};

/// Timing of the next probe.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    /// Start of ProbeDown.
    since: Time,
    /// Maximum time from the start of ProbeDown to the next Refill.
    wait: Span,
    /// Round trips since the start of ProbeDown, plus a random 0 or 1.
    pub rounds: u64,
    /// Start of ProbeUp.
    up_since: Time,
}

impl Bbr3 {
    pub(super) fn go_down(&mut self, now: Time, delivered: u64) {
        self.forget_latest();
        self.long.stop();
        self.cycle.rounds = self.rng.below(2);
        let random_ns = self
            .rng
            .below(self.set.probe_wait_random.as_ns().saturating_add(1));
        self.cycle.wait = self.set.probe_wait + Span::ns(random_ns);
        self.cycle.since = now;
        self.rounds.end_after(delivered);
        self.mode = Mode::Down;
    }
    pub(super) fn cruise(&mut self) {
        self.mode = Mode::Cruise;
    }
    pub(super) fn refill(&mut self, delivered: u64) {
        self.short = Short::NONE;
        self.long.refill();
        self.rounds.end_after(delivered);
        self.mode = Mode::Refill;
    }
    fn go_up(&mut self, w: &Window, now: Time, delivered: u64, bw: Bw) {
        self.long.phase = AckPhase::Starting;
        self.long.sampling = true;
        self.rounds.end_after(delivered);
        self.startup.reset_full_pipe(bw);
        self.cycle.up_since = now;
        self.mode = Mode::Up;
        self.long.steepen(w.cwnd);
    }

    pub(super) fn take_phase(
        &mut self,
        w: &Window,
        ev: &Ack,
        d: &Delivery,
        bw: Bw,
        app_limited: bool,
    ) {
        if !self.startup.full || self.adapt_long(w, d, ev.delivered, ev.now, app_limited) {
            return;
        }
        let (now, delivered) = (ev.now, d.totals.delivered);
        let in_flight = self.in_flight_at_departure(d.prior_in_flight, ev, d);
        let mode = self.mode;
        match mode {
            Mode::Down | Mode::Cruise if self.is_time_to_probe(w, now) => self.refill(delivered),
            Mode::Down if self.is_time_to_cruise(in_flight) => self.cruise(),
            Mode::Refill if self.rounds.start => self.go_up(w, now, delivered, bw),
            Mode::Up if self.is_time_to_go_down(w, now, d, in_flight, bw) => {
                self.long.too_high = false;
                self.go_down(now, delivered);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, w: &Window, now: Time) -> bool {
        let reno = self.target(w).min(self.set.probe_rounds);
        now > self.cycle.since + self.cycle.wait || self.cycle.rounds >= reno
    }

    pub(super) fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.max_bw.get(), UNIT)
    }

    fn is_time_to_go_down(
        &mut self,
        w: &Window,
        now: Time,
        d: &Delivery,
        in_flight: u64,
        bw: Bw,
    ) -> bool {
        if self.long.too_high && in_flight >= self.long.inflight {
            self.long.cautious = true;
            return true;
        }
        if self.set.version.up_ends_by_queue {
            let long = self
                .min_rtt
                .us()
                .is_some_and(|us| now > self.cycle.up_since + Span::us(us));
            return long && in_flight >= self.inflight(self.max_bw.get(), self.set.up_gain);
        }
        let limited = d.flight.is_some_and(|f| f.cwnd_limited);
        if limited && u64::from(w.cwnd) >= self.long.inflight {
            // The bound limits the rate; the path does not.
            self.startup.reset_full_pipe(bw);
            return false;
        }
        self.startup.full_now
    }
}
