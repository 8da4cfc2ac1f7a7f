//! ProbeBW: eight phases of about one minimum round trip each, which probe for bandwidth, drain the
//! queue and cruise.
//!
//! Algorithm: phase 0 of the cycle has a pacing gain of 1.25. It ends when it has lasted `min_rtt`
//! *and* either 1.25 bandwidth-delay products are in flight or packets were lost. Phase 1 has a
//! gain of 0.75. It ends when it has lasted `min_rtt` *or* at most one bandwidth-delay product is
//! in flight. Six phases with a gain of 1 follow, each of one `min_rtt`. Whenever a flow enters
//! ProbeBW, it begins with a random phase, but never with phase 1. Flows therefore do not probe at
//! the same time.

use super::{Ack, Bbr, Delivery, Mode, UNIT};
use crate::units::Time;

/// Phases of a cycle.
const PHASES: u8 = 8;

/// The present phase of the cycle.
#[derive(Copy, Clone, Debug, Default)]
#[repr(Rust, packed(4))]
pub(super) struct Cycle {
    since_us: u64,
    /// The pacing gain of the phase, in 1/256.
    pub gain: u16,
    /// The index of the phase, 0 to 7.
    pub phase: u8,
}

impl Bbr {
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cycle.phase = PHASES - 1 - self.rng.below(u64::from(PHASES) - 1) as u8;
        self.next_phase(now);
    }
    fn next_phase(&mut self, now: Time) {
        self.cycle.phase = (self.cycle.phase + 1) % PHASES;
        self.cycle.since_us = now.as_us();
        self.cycle.gain = match self.cycle.phase {
            0 => self.set.probe_gain,
            1 => self.set.probe_down_gain,
            _ => UNIT as u16,
        };
    }
    /// The pacing gain of the phase, in 1/256; a gain of 1 while a policed rate is used (since
    /// Linux 4.16).
    pub(super) fn cycle_gain(&self) -> u16 {
        // One condition without a branch, as in `rate_or`.
        if self.policer.is_used() & self.set.rules.policed_unity_gain {
            UNIT as u16
        } else {
            self.cycle.gain
        }
    }

    pub(super) fn take_phase(&mut self, ev: &Ack, d: &Delivery) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        if self.policer.is_used() && !self.set.rules.policed_unity_gain {
            return;
        }
        if self.phase_is_over(ev, d) {
            self.next_phase(d.totals.delivered_at);
        }
    }
    fn phase_is_over(&self, ev: &Ack, d: &Delivery) -> bool {
        let lasted = d
            .totals
            .delivered_at
            .as_us()
            .saturating_sub(self.cycle.since_us);
        let long = lasted > self.min_rtt.us().unwrap_or(u32::MAX).into();
        let (gain, max) = (u64::from(self.pacing_gain), self.bandwidth.max());
        let in_flight = || self.in_flight_at_departure(d.prior_in_flight, ev.now, d.next_departure);
        // The first condition is false for most flows, and the second one for most ACKs.
        if gain < UNIT {
            long || in_flight() <= self.inflight(max, UNIT)
        } else {
            long && (gain == UNIT || ev.lost > 0 || in_flight() >= self.inflight(max, gain))
        }
    }

    /// Packets in flight when pacing releases the next packet, if the path delivers at the rate
    /// `bw` until then. Before Linux 4.20, packets in flight now.
    pub(super) fn in_flight_at_departure(&self, in_flight: u32, now: Time, departure: Time) -> u64 {
        if !self.set.rules.in_flight_at_departure {
            return u64::from(in_flight);
        }
        let wait = departure.max(now).since(now);
        self.paced
            .in_flight_after(wait, in_flight, self.bw(), self.pacing_gain.into())
    }
}
