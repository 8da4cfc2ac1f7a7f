//! ProbeBW: eight phases of about one minimum round trip each, which probe for bandwidth, drain the
//! queue and cruise.
//!
//! Algorithm: the first phase of the cycle has a gain of 1.25. It ends when it has lasted `min_rtt`
//! *and* either 1.25 bandwidth-delay products are in flight or packets were lost. The next phase
//! has a gain of 0.75, until it has lasted `min_rtt` *or* one bandwidth-delay product is in flight.
//! Six phases with a gain of 1 follow. The first phase of a flow is selected at random, but never
//! the phase with a gain of 0.75. Flows therefore do not probe at the same time.

use super::{Ack, Bbr, Delivery, Mode, UNIT};
use crate::kernel::Rule;
use crate::units::Time;

/// Phases of a cycle.
const PHASES: u64 = 8;

/// The phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    /// The index of the phase, 0 to 7.
    pub phase: u64,
    since_us: u64,
    /// The gain of the phase.
    pub gain: u64,
}

impl Bbr {
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cycle.phase = PHASES - 1 - self.rng.below(PHASES - 1);
        self.next_phase(now);
    }
    fn next_phase(&mut self, now: Time) {
        self.cycle.phase = (self.cycle.phase + 1) % PHASES;
        self.cycle.since_us = now.as_us();
        self.cycle.gain = match self.cycle.phase {
            0 => self.set.probe_gain,
            1 => self.set.probe_down_gain,
            _ => UNIT,
        };
    }
    /// The gain of the phase; 1 at a policed rate.
    pub(super) fn cycle_gain(&self) -> u64 {
        if self.policer.rate().is_some() && self.set.kernel.follows(Rule::BbrPolicedUnityGain) {
            UNIT
        } else {
            self.cycle.gain
        }
    }

    pub(super) fn take_phase(&mut self, ev: &Ack, d: &Delivery) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        if self.policer.rate().is_some() && !self.set.kernel.follows(Rule::BbrPolicedUnityGain) {
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
        let long = lasted > self.min_rtt.us().unwrap_or(u64::from(u32::MAX));
        let gain = self.pacing_gain;
        if gain == UNIT {
            return long;
        }
        let max = self.bandwidth.max();
        let in_flight = self.in_flight_at_departure(d.prior_in_flight, ev.now, d.next_departure);
        if gain > UNIT {
            long && (ev.lost > 0 || in_flight >= self.inflight(max, gain))
        } else {
            long || in_flight <= self.inflight(max, UNIT)
        }
    }

    /// Packets in flight at the next departure by pacing, if ACKs continue at the present rate.
    pub(super) fn in_flight_at_departure(&self, in_flight: u32, now: Time, departure: Time) -> u64 {
        if !self.set.kernel.follows(Rule::BbrInFlightAtDeparture) {
            return u64::from(in_flight);
        }
        let wait = departure.max(now).since(now);
        self.paced
            .in_flight_after(wait, in_flight, self.bw(), self.pacing_gain)
    }
}
