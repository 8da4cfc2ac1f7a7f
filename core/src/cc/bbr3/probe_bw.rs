//! ProbeBW: ProbeDown drains the queue, then follow Cruise, Refill and ProbeUp.
//!
//! ```text
//!   Down ── in flight ≤ bdp, and ≤ 0.85 of the bound ──▶ Cruise
//!   0.9 · bw ◀───────────┐      └─── time ───┐           1 · bw
//!      ▲                 │ too much lost     ▼              │ 2 to 3 s, or the round trips
//!      │                 └───────────────▶ Refill ◀─────────┘ of Reno's growth
//!      │ the rate grows no more            1 · bw, short-term bounds dropped
//!      └──────────── Up ◀────────────────────┘ a round trip
//!                    1.25 · bw
//! ```
//!
//! A probe that follows a probe with too many losses is cautious: it stops when the packets in
//! flight reach the bound. If the cautious probe causes no loss, Refill and ProbeUp follow at once.
//!
//! The number of packets in flight is that at the next departure plus the packets delivered by this
//! ACK, as in the published code. The number that is left after an ACK would never reach the bound
//! in a cautious probe, because the bound limits the window.

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
    /// Time from there to the next probe.
    wait: Span,
    /// Round trips since, or one more.
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
        self.rounds.ends = delivered;
        self.mode = Mode::Down;
    }
    pub(super) fn cruise(&mut self) {
        self.mode = Mode::Cruise;
    }
    pub(super) fn refill(&mut self, delivered: u64) {
        self.short = Short::NONE;
        self.long.refill();
        self.rounds.ends = delivered;
        self.mode = Mode::Refill;
    }
    fn go_up(&mut self, w: &Window, now: Time, delivered: u64, bw: Bw) {
        self.long.phase = AckPhase::Starting;
        self.long.sampling = true;
        self.rounds.ends = delivered;
        self.startup.ask_anew(bw);
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
            // The bound limits the rate, not the path.
            self.startup.ask_anew(bw);
            return false;
        }
        self.startup.full_now
    }
}
