//! The minimum round trip of the last ten seconds, and ProbeRTT, which empties the queue to measure
//! it again.
//!
//! Algorithm: if no lower round trip has been measured for 10 s, the window falls to 4 packets. The
//! window stays at 4 packets until no more than 4 packets are in flight. From then on, it stays at
//! 4 packets for at least 200 ms and at least one round trip. When the queue becomes empty, all
//! flows that share it measure a new minimum at the same time. Their ten seconds therefore end at
//! the same time, and they enter ProbeRTT together. Delivery rates of packets sent in ProbeRTT
//! count as limited by the application. Such a rate enters the bandwidth estimate only if it is at
//! least as high as the estimate. A flow that resumes after an idle period does not enter ProbeRTT,
//! because its queue was empty.

use super::{Ack, Bbr, Delivery, Mode, Window};
use crate::units::{Span, Time};

/// No round trip was measured.
const UNKNOWN: u32 = u32::MAX;

/// The minimum round trip and its probe.
#[derive(Copy, Clone, Debug)]
#[repr(Rust, packed(2))]
pub(super) struct MinRtt {
    /// In µs; [`UNKNOWN`] before the first measurement.
    us: u32,
    /// The tick at which the minimum was measured, or at which the last ProbeRTT ended.
    seen: u32,
    /// ProbeRTT ends after this tick at the earliest. It is `known` once the packets in flight have
    /// become few enough.
    done: u32,
    known: bool,
    round_done: bool,
}

/// `rtt` in µs, at most 71 minutes.
fn us_of(rtt: Span) -> u32 {
    rtt.as_us().min(u64::from(UNKNOWN) - 1) as u32
}

impl Default for MinRtt {
    fn default() -> MinRtt {
        MinRtt {
            us: UNKNOWN,
            seen: 0,
            done: 0,
            known: false,
            round_done: false,
        }
    }
}

impl MinRtt {
    pub fn start(&mut self, rtt: Span, tick: u32) {
        self.us = if rtt > Span::ZERO {
            us_of(rtt)
        } else {
            UNKNOWN
        };
        self.seen = tick;
    }
    /// The minimum round trip in µs; `None` before the first measurement.
    pub fn us(&self) -> Option<u32> {
        (self.us < UNKNOWN).then_some(self.us)
    }
}

impl Bbr {
    pub(super) fn take_min_rtt(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        let tick = self.set.tick(ev.now);
        let expired = tick.wrapping_sub(self.min_rtt.seen) > self.set.min_rtt_ticks;
        if let Some(rtt) = d.rtt {
            let rtt = us_of(rtt);
            let doubted = d.maybe_delayed && self.set.rules.delayed_ack_filter;
            if self.is_least(rtt) || (expired && !doubted) {
                self.min_rtt.us = rtt;
                self.min_rtt.seen = tick;
            }
        }
        if self.set.probe_rtt_ticks > 0
            && expired
            && !self.idle_restart
            && self.mode != Mode::ProbeRtt
        {
            self.mode = Mode::ProbeRtt;
            self.save_window(w);
            self.min_rtt.known = false;
        }
        if self.mode == Mode::ProbeRtt {
            w.app_limited = true;
            if self.min_rtt.known {
                self.min_rtt.round_done |= self.bandwidth.rounds.start;
                if self.min_rtt.round_done {
                    self.end_probe_rtt_when_due(w, ev.now, d.totals.delivered_at);
                }
            } else if ev.in_flight <= self.set.min_cwnd.into() {
                self.min_rtt.done = tick.wrapping_add(self.set.probe_rtt_ticks);
                self.min_rtt.known = true;
                self.min_rtt.round_done = false;
                self.bandwidth.rounds.end_after(d.totals.delivered);
            }
        }
        if d.sample.is_some_and(|s| s.delivered > 0) || !self.set.rules.idle_until_delivery {
            self.idle_restart = false;
        }
    }

    fn is_least(&self, us: u32) -> bool {
        let least_counts = !self.set.rules.only_lower_rtt;
        // Any round trip is less than an unknown minimum.
        us < self.min_rtt.us || (least_counts && us == self.min_rtt.us)
    }

    pub(super) fn end_probe_rtt_when_due(&mut self, w: &mut Window, now: Time, delivered_at: Time) {
        let tick = self.set.tick(now);
        if self.min_rtt.known && tick.wrapping_sub(self.min_rtt.done) as i32 > 0 {
            // The next probe follows ten seconds after this one.
            self.min_rtt.seen = tick;
            w.cwnd = w.cwnd.max(self.recovery.prior_cwnd);
            self.resume(delivered_at);
        }
    }
}
