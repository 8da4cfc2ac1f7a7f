//! The sender's only timer: retransmission (RFC 6298), tail loss probe and reordering (RFC 8985),
//! zero-window probes (RFC 9293). Arming one disarms the others.
//!
//! A connection ends if a timer fires too long after the first retransmission without progress.
//! This time is the duration of `tcp_retries2` timeouts and one more, which begin with 200 ms and
//! double up to the host's maximum. The actual timeouts, and their number, have no influence. A
//! handshake ends in the same way, with six timeouts (`tcp_syn_retries`) that begin with 1 s.
//! Unanswered zero-window probes never end a connection; in Linux, `tcp_retries2` of them do.
//! Source: Linux 6.12 and 7.3 `tcp_write_timeout`, `retransmits_timed_out`, `tcp_model_timeout`.

use super::device_queue::RESOURCE_PROBE;
use super::output::{Position, Push, WHOLE, emit};
use super::{Phase, Sender, State, TailProbe, Time, TimerKind, stamp};
use crate::cc::{Cause, Rto};
use crate::host::Fate;
use crate::kernel::Rule;
use crate::tcp::rtt::{RTO_INITIAL_US, RTO_MIN_US};
use crate::tcp::wire::Segment;
use crate::units::{MaybeTime, Span};

/// Time added to the tail loss probe's timeout and to that of the reordering timer: 2 ms
/// (`TCP_TIMEOUT_MIN`).
const TIMEOUT_MIN_US: u64 = 2_000;
/// The maximum delay of an ACK (`TCP_DELACK_MAX`).
const DELAYED_ACK_US: u64 = 200_000;
/// The minimum of a tail loss probe's timeout before [`Rule::TailProbeTimeout`].
const OLD_PROBE_MIN_US: u64 = 10_000;
/// Maximum number of doublings of the interval of zero-window probes.
const MAX_PERSIST_SHIFT: u32 = 15;
/// SYN timeouts before backoff becomes exponential (`tcp_syn_linear_timeouts`).
const SYN_LINEAR_TIMEOUTS: u32 = 4;
/// `tcp_syn_retries`.
const SYN_RETRIES: u32 = 6;

/// The duration of `retries` timeouts and one more, which begin with `first` and double up to
/// `longest` (`tcp_model_timeout`), ms.
fn model_timeout_ms(retries: u32, first: Span, longest: Span) -> u64 {
    let [first, longest] = [first, longest].map(|span| span.as_us() / 1000);
    let doublings = (longest / first).max(1).ilog2();
    let doubled = ((2 << retries.min(doublings)) - 1) * first;
    doubled + u64::from(retries.saturating_sub(doublings)) * longest
}

impl Sender {
    /// Arms the timer to fire in `ticks`, at the next boundary of the timer wheel.
    #[inline]
    pub(super) fn arm(&mut self, now: Time, kind: TimerKind, ticks: u64) {
        let tick = self.ticks.at(now);
        let ticks = ticks.min(self.longest_ticks.into());
        self.timer = Some(kind);
        self.fires = self.ticks.fires(tick, tick + ticks);
    }

    /// Time until the retransmission timeout of the first segment, counted from its last
    /// transmission, µs.
    #[inline]
    fn rto_delta_us(&self, now: Time) -> i64 {
        let sent = self.board.first().map_or(now.as_us(), |s| s.sent_us);
        (sent + self.ticks.to_us(self.rto_ticks())) as i64 - now.as_us() as i64
    }

    /// Arms the retransmission timer. If a timer of another kind was armed, the timeout counts from
    /// the last transmission of the first segment, otherwise from now.
    #[inline]
    pub(super) fn rearm_rto(&mut self, now: Time) {
        if self.board.packets_out() == 0 {
            self.timer = None;
            return;
        }
        let waited = self.timer.is_some_and(|kind| kind != TimerKind::Retransmit);
        let ticks = if waited {
            self.ticks.from_us(self.rto_delta_us(now).max(1) as u64)
        } else {
            self.rto_ticks()
        };
        self.arm(now, TimerKind::Retransmit, ticks + self.pacing_delay(now));
    }

    /// Ticks until the next departure, from which timers count.
    #[inline(always)]
    pub(super) fn pacing_delay(&self, now: Time) -> u64 {
        match self.pacer.delay(now).as_ns() {
            0 => 0,
            ns => self.ticks.at(Time::from_ns(ns)),
        }
    }

    /// After an ACK: arms a tail loss probe if one may be sent, otherwise the retransmission timer.
    #[inline]
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Arms the timer of a tail loss probe, for about two round trips from now, but no later than
    /// the retransmission timeout. `advancing`: the retransmission timeout counts from now, not
    /// from the last transmission of the first segment. Returns whether the probe was armed.
    #[inline(always)]
    pub(super) fn schedule_probe(&mut self, now: Time, advancing: bool) -> bool {
        let out = self.board.packets_out();
        if out == 0 || !matches!(self.state, State::Open | State::Cwr) || !self.cfg.sack {
            return false;
        }
        let open = self.state == State::Open;
        let idle = self.send_buffer.is_empty() || self.board.in_flight() >= self.w.cwnd;
        if !(self.cfg.kernel.follows(Rule::TailProbesInCwr) || open && idle) {
            return false;
        }
        let mut us = if self.rtt.srtt8_us() > 0 {
            // The ACK of a single segment may be delayed.
            if self.cfg.kernel.follows(Rule::TailProbeTimeout) {
                let extra = if out == 1 {
                    u64::from(self.cfg.rto_min_us)
                } else {
                    TIMEOUT_MIN_US
                };
                (self.rtt.srtt8_us() >> 2) + extra
            } else {
                let srtt_us = self.rtt.srtt8_us() >> 3;
                let single = if out == 1 {
                    srtt_us * 3 / 2 + DELAYED_ACK_US
                } else {
                    0
                };
                (2 * srtt_us).max(single).max(OLD_PROBE_MIN_US)
            }
        } else {
            self.ticks.to_us(self.rto_ticks())
        };
        let ticks = if advancing {
            self.ticks.from_us(us).min(self.rto_ticks())
        } else {
            let rto_us = self.rto_delta_us(now);
            if rto_us > 0 {
                us = us.min(rto_us as u64);
            }
            self.ticks.from_us(us)
        };
        self.arm(now, TimerKind::Probe, ticks + self.pacing_delay(now));
        true
    }

    /// Returns whether a tail loss probe will be armed once all data has been sent; then no other
    /// timer is needed before.
    #[inline]
    pub(super) fn probe_follows(&self) -> bool {
        matches!(self.state, State::Open | State::Cwr)
            && self.cfg.sack
            && self.cfg.kernel.follows(Rule::TailProbesInCwr)
    }

    pub(super) fn arm_reorder(&mut self, now: Time, us: u64) {
        let ticks = self
            .ticks
            .from_us(us + TIMEOUT_MIN_US)
            .min(self.rto_ticks());
        self.arm(now, TimerKind::Reorder, ticks);
    }

    pub(super) fn on_reorder_timer<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        let before = self.board.in_flight();
        self.detect_losses(now);
        if self.board.in_flight() != before {
            if self.state != State::Recovery {
                self.enter_recovery(now, false);
                if !self.needs.owns_recovery {
                    self.reduce_window(1, false);
                }
            }
            self.retransmit_lost(now, wire);
        }
        if self.timer != Some(TimerKind::Retransmit) {
            self.rearm_rto(now);
        }
    }

    pub(super) fn on_probe_timer<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        if self.probe.is_none() {
            let retransmission =
                if !self.send_buffer.is_empty() && self.write(now, Push::Probe, wire) {
                    Some(false)
                } else if self.send_buffer.is_empty() || self.window_end() < self.board.nxt() + 1 {
                    self.board
                        .last_number()
                        .filter(|last| self.hand_again(now, *last, 1, wire))
                        .map(|last| {
                            self.resend(now, last, false, Position::Alone, wire);
                            true
                        })
                } else {
                    None
                };
            if let Some(retransmission) = retransmission {
                self.probe = Some(TailProbe {
                    high_seq: self.board.nxt(),
                    retransmission,
                });
                self.timer = None;
            }
        }
        self.rearm_rto(now);
    }

    /// Arms the zero-window timer if nothing is in flight, data is unsent and no timer runs. The
    /// peer's window is closed then, or the host's own queue rejected the data; without this timer,
    /// the connection could stall.
    #[inline]
    pub(super) fn persist(&mut self, now: Time) {
        if self.board.packets_out() == 0 && !self.send_buffer.is_empty() && self.timer.is_none() {
            let ticks = self.rto_ticks() << self.window_probes.min(MAX_PERSIST_SHIFT);
            self.arm(now, TimerKind::Persist, ticks);
        }
    }

    /// Sends as much as the peer's window admits, even if that fills no segment. If the window has
    /// no room at all, the sender sends an empty segment with an acknowledged sequence number. The
    /// peer must answer this segment, with its window (RFC 9293 section 3.8.6.1).
    pub(super) fn on_persist_timer<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        self.timer = None;
        let room = self.window_end().saturating_sub(self.board.nxt());
        if let Some(head) = self.send_buffer.head().filter(|_| room > 0) {
            if self.send_burst(now, head.min(room).min(self.full()), wire) == 0 {
                let ticks = self.ticks.from_us(RESOURCE_PROBE.as_us());
                return self.arm(now, TimerKind::Persist, ticks);
            }
            self.last_sent = MaybeTime::at(now);
            self.rearm_rto(now);
            return;
        }
        self.window_probes += 1;
        let seq = self.board.una().saturating_sub(1);
        let probe = Segment {
            seq,
            ..self.pure_ack(now)
        };
        emit(probe, WHOLE, wire);
        self.persist(now);
    }

    pub(super) fn on_retransmit_timer<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        if self.gives_up(now) {
            self.stop();
            self.timed_out = MaybeTime::at(now);
            return;
        }
        if self.phase == Phase::SynSent {
            self.syn_retransmits += 1;
            self.retransmits += 1;
            emit(self.syn(now), WHOLE, wire);
            if self.syn_retransmits > SYN_LINEAR_TIMEOUTS {
                self.back_off();
            }
            self.arm(now, TimerKind::Retransmit, self.rto_ticks());
            return;
        }
        let Some(first) = self.board.first_number() else {
            return;
        };
        self.enter_loss(now);
        self.timeouts += 1;
        if !self.hand_again(now, first, 1, wire) {
            let ticks = self.ticks.from_us(RESOURCE_PROBE.as_us());
            return self.arm(now, TimerKind::Retransmit, ticks);
        }
        self.resend(now, first, true, Position::Alone, wire);
        self.back_off();
        self.arm(now, TimerKind::Retransmit, self.rto_ticks());
    }
    /// Returns whether a retransmission timeout ends the connection.
    fn gives_up(&self, now: Time) -> bool {
        let longest = self.cfg.longest_timeout();
        let lasts = |since: u32, retries, first_us| {
            let limit_ms = model_timeout_ms(retries, Span::us(first_us), longest);
            u64::from(stamp(now).saturating_sub(since)) >= limit_ms
        };
        if self.phase == Phase::SynSent {
            return self.syn_retransmits >= SYN_RETRIES + SYN_LINEAR_TIMEOUTS
                || self.syn_retransmits > 0
                    && lasts(stamp(self.syn_sent), SYN_RETRIES, RTO_INITIAL_US);
        }
        let since = self.retrans_stamp.filter(|_| self.timeouts > 0);
        since.is_some_and(|since| lasts(since, self.cfg.retries, RTO_MIN_US))
    }
    fn back_off(&mut self) {
        self.take_timeout(self.rto_ticks() * 2);
    }

    /// Enters Loss: marks segments lost, and sets the window to one packet more than those in
    /// flight. With [`Rule::TimeoutSparesRecent`], segments sent less than a round trip ago are not
    /// marked.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let fresh = !matches!(self.state, State::Recovery | State::Loss);
        self.mark_lost_by_timeout(now);
        let again = self.state == State::Loss && self.timeouts == 0;
        if matches!(self.state, State::Open | State::Disorder)
            || self.high_seq <= self.board.una()
            || again
        {
            self.prior_ssthresh = Some(self.current_ssthresh());
            self.prior_cwnd = self.w.cwnd;
            self.tell_loss(now, Cause::Timeout);
            self.begin_undo();
        }
        self.w.cwnd = self.board.in_flight() + 1;
        self.w.cwnd_cnt = 0;
        self.cwnd_stamp = now;
        if matches!(self.state, State::Open | State::Disorder)
            && self.board.sacked_out() >= self.reordering
        {
            self.reordering = self.reordering.min(super::REORDERING);
        }
        self.set_state(now, State::Loss);
        let mut ev = Rto::at(now);
        ev.totals = self.totals();
        self.cc.on_rto(&mut self.w, &ev);
        self.high_seq = self.board.nxt();
        self.probe = None;
        self.ecn.reduced();
        self.frto = fresh || self.timeouts > 0;
    }
    fn mark_lost_by_timeout(&mut self, now: Time) {
        if !self.cfg.sack {
            self.forget_duplicates();
        }
        let Some(first) = self.board.first() else {
            return;
        };
        let spares = self.cfg.sack
            && self.cfg.has_rack()
            && self.cfg.kernel.follows(Rule::TimeoutSparesRecent);
        // A SACK of the first segment would have advanced `una`: the receiver has discarded the
        // segment.
        let reneged = first.is(crate::tcp::scoreboard::SACKED);
        if reneged {
            self.board.forget_sacks();
            self.sacked = Default::default();
        }
        for i in self.board.numbers() {
            let sent = self.board.seg(i).sent_us;
            let recent = spares
                && Some(i) != self.board.first_number()
                && self.rack.remaining_us(now.as_us(), sent, 0) > 0;
            if reneged || !recent {
                self.board.mark_lost_by_timeout(i);
            }
        }
        self.tell_lost(now);
    }
}
