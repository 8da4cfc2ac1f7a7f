//! The minimum round trip of the last ten seconds, and ProbeRTT, which measures it again after five
//! seconds.
//!
//! Algorithm: after five seconds without a lower round trip, ProbeRTT limits the window to half a
//! bandwidth-delay product, but not below 4 packets. Once no more than this window is in flight,
//! ProbeRTT lasts for at least 200 ms and at least one round trip. Delivery rates of packets sent
//! in ProbeRTT count as limited by the application. Such a rate enters `max_bw` only if it is at
//! least as high as `max_bw`. After losses in ProbeRTT, these rates still lower `bw_short`. The end
//! of ProbeRTT drops the short-term bounds; the flow continues in Cruise, or in Startup if the pipe
//! was never full. A flow that resumes after an idle period does not enter ProbeRTT, because its
//! queue was empty.

use super::long_term::AckPhase;
use super::signals::Short;
use super::{Ack, Bbr3, Delivery, Mode, Window};
use crate::units::{Span, Time};

/// The minimum round trip and its probe.
#[derive(Clone, Debug, Default)]
pub(super) struct MinRtt {
    us: Option<u64>,
    seen: Time,
    /// The minimum of the last five seconds.
    recent_us: Option<u64>,
    recent_seen: Time,
    /// ProbeRTT ends after this time at the earliest; `None` until the packets in flight are few
    /// enough.
    done: Option<Time>,
    round_done: bool,
}

impl MinRtt {
    pub fn start(&mut self, rtt: Span, now: Time) {
        self.us = (rtt > Span::ZERO).then_some(rtt.as_us());
        self.recent_us = self.us;
        (self.seen, self.recent_seen) = (now, now);
    }
    /// The minimum round trip of the last ten seconds, in µs; `None` before the first measurement.
    pub fn us(&self) -> Option<u64> {
        self.us
    }
}

impl Bbr3 {
    pub(super) fn take_min_rtt(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        let now = ev.now;
        let m = &mut self.min_rtt;
        let expired = now > m.recent_seen + self.set.probe_rtt_interval;
        if let Some(us) = d.rtt.map(Span::as_us) {
            if expired || m.recent_us.is_none_or(|least| us < least) {
                (m.recent_us, m.recent_seen) = (Some(us), now);
            }
        }
        let lower = m
            .recent_us
            .is_some_and(|us| m.us.is_none_or(|least| us < least));
        if lower || now > m.seen + self.set.min_rtt_window {
            (m.us, m.seen) = (m.recent_us, m.recent_seen);
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(w);
            self.mode = Mode::ProbeRtt;
            self.min_rtt.done = None;
            self.long.phase = AckPhase::Stopping;
            self.rounds.end_after(d.totals.delivered);
        }
        if self.mode == Mode::ProbeRtt {
            w.app_limited = true;
            if self.min_rtt.done.is_some() {
                self.min_rtt.round_done |= self.rounds.start;
                if self.min_rtt.round_done {
                    self.end_probe_rtt_when_due(w, now, d.totals.delivered);
                }
            } else if u64::from(ev.in_flight) <= self.probe_rtt_window() {
                self.min_rtt.done = Some(now + self.set.probe_rtt_time);
                self.min_rtt.round_done = false;
                self.rounds.end_after(d.totals.delivered);
            }
        }
        self.idle_restart &= ev.delivered == 0;
    }

    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.products(self.bw(), self.set.probe_rtt_cwnd_gain)
            .max(self.set.min_cwnd)
    }

    pub(super) fn end_probe_rtt_when_due(&mut self, w: &mut Window, now: Time, delivered: u64) {
        if self.min_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_seen = now;
        self.restore_window(w);
        self.short = Short::NONE;
        if self.startup.full {
            self.go_down(now, delivered);
            self.cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
