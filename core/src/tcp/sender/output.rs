//! Transmission: room in the window, size of bursts, TSO deferral, and whether the window was the
//! limit.
//!
//! A burst is a super-packet (`tcp_tso_autosize`). It contains about 1 ms of the pacing rate, or
//! more if the minimum RTT is a few milliseconds or less ([`Rule::TsoSizeByRtt`]). It has at least
//! two segments, unless the congestion control requests one. It is at most half the window, at most
//! `max_burst`, and at most the largest super-packet (`gso`). If the window admits only a part of
//! it and the next ACK is expected soon, the burst waits for this ACK. "Soon" means within half an
//! RTT, and within at most 1 ms with [`Rule::TsoDeferralCapped`] (`tcp_tso_should_defer`).

use super::chrono::Limit;
use super::{Sender, State, Time};
use crate::cc::{INFINITE_SSTHRESH, Sent};
use crate::host::Fate;
use crate::kernel::Rule;
use crate::packet::Congestion;
use crate::tcp::flight::Flight;
use crate::tcp::scoreboard::{PUSHED, Seg};
use crate::tcp::sender::stamp;
use crate::tcp::wire::Segment;
use crate::units::{MaybeTime, Rate};

/// `tcp_tso_rtt_log`: a burst grows by the maximum super-packet, halved for every 2⁹ µs of the
/// minimum RTT.
const TSO_RTT_LOG: u32 = 9;
/// With [`Rule::TsoDeferralCapped`], a burst does not wait for an ACK that is expected later than
/// this. With [`Rule::TsoDeferralByDeparture`], a burst after a silence of more than this is not
/// deferred.
const DEFER_NS: u64 = 1_000_000;
/// If a third of the window may leave, the burst is not deferred (`tcp_tso_win_divisor`).
const DEFER_DIVISOR: u64 = 3;

#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Push {
    /// As much data as the window admits.
    All,
    /// One super-packet, without waiting for more: the application has filled a buffer.
    One,
    /// One segment, even beyond the window: a tail loss probe.
    Probe,
}

/// The position of a retransmitted segment in its super-packet.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Position {
    Alone,
    First,
    Middle,
    Last,
}

pub(super) enum Hold {
    No,
    /// The congestion window stops a full burst.
    ForWindow,
    /// The peer's window stops a full burst.
    ForPeer,
    /// A lack of data stops a full burst.
    ForOther,
}

/// The size limit of [`emit`] for super-packets that are not split.
pub(super) const WHOLE: u32 = u32::MAX;

/// Calls `wire` with a segment, or one by one with its parts of up to `full` bytes. Only this
/// function calls `wire`, so that the compiler can inline that function.
#[inline(never)]
pub(super) fn emit<R>(segment: Segment, full: u32, wire: &mut impl FnMut(Segment) -> R) -> R {
    if segment.len > full {
        return emit_parts(segment, full, wire);
    }
    wire(segment)
}

/// As [`emit`], for a segment of more than `full` bytes.
#[inline(never)]
fn emit_parts<R>(mut rest: Segment, full: u32, wire: &mut impl FnMut(Segment) -> R) -> R {
    loop {
        let fate = emit(rest.take_part(full), WHOLE, wire);
        if rest.len == 0 {
            return fate;
        }
    }
}

impl Sender {
    /// Sends the data that the window admits.
    pub(super) fn push<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        self.write(now, Push::All, wire);
    }

    /// Payload of a full segment.
    #[inline]
    pub(super) fn full(&self) -> u64 {
        u64::from(self.board.options.payload())
    }

    /// Payload of a full segment without the AccECN option (Linux: `mss_cache`). Rates and
    /// thresholds are multiples of it.
    pub(super) fn mss(&self) -> u64 {
        u64::from(self.board.options.mss())
    }

    pub(super) fn window_end(&self) -> u64 {
        self.board.una().saturating_add(self.peer_window)
    }

    /// Number of segments in one burst.
    #[inline]
    pub(super) fn burst_segments(&self) -> u32 {
        if !self.cfg.autosize {
            return self.gso_segments.min(self.w.max_burst);
        }
        let mut bytes = (self.pacing.as_bit() / 8) >> self.cfg.pacing_shift;
        let shift = self.rtt.min_us().unwrap_or(u64::MAX) >> TSO_RTT_LOG;
        let gso = self.cfg.gso;
        if shift < 32 && self.cfg.kernel.follows(Rule::TsoSizeByRtt) {
            bytes += gso.payload() >> shift;
        }
        (self.board.options.full_segments(bytes.min(gso.payload())) as u32)
            .max(self.w.min_burst)
            .min(self.gso_segments.min(self.w.max_burst))
    }

    /// Sends new data; returns whether any left.
    #[inline(never)]
    pub(super) fn write<R: Into<Fate>>(
        &mut self,
        now: Time,
        push: Push,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        !self.waits_for_departure(now) && self.write_now(now, push, wire)
    }

    /// As [`write`](Self::write), within the code of the caller if the connection is not paced.
    /// Most ACKs of paced connections send nothing.
    #[inline(always)]
    pub(super) fn write_inline<R: Into<Fate>>(
        &mut self,
        now: Time,
        push: Push,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        if self.pacer.on {
            !self.waits_for_departure(now) && self.write(now, push, wire)
        } else {
            self.write_now(now, push, wire)
        }
    }

    /// Returns whether data waits for its departure time.
    #[inline(always)]
    fn waits_for_departure(&mut self, now: Time) -> bool {
        if self.send_buffer.is_empty() || self.pacer.may_send(now) {
            return false;
        }
        self.limit_ends(now, Limit::PeerWindow);
        if self.board.in_flight() >= self.w.cwnd
            && self.cfg.kernel.follows(Rule::CwndLimitedByDeferral)
        {
            self.use_window(now);
        }
        true
    }

    /// Stores that the window was the limit, although nothing was sent.
    #[inline(never)]
    fn use_window(&mut self, now: Time) {
        self.validate_window(now, true);
    }

    /// As [`write`](Self::write), if no data waits for its departure time.
    #[inline(always)]
    fn write_now<R: Into<Fate>>(
        &mut self,
        now: Time,
        push: Push,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        let mut burst = None;
        let mut sent = 0u32;
        let mut limited = false;
        let mut peer_limits = false;
        let any = !self.send_buffer.is_empty();
        let mut in_flight = self.board.in_flight();
        // The caller has checked whether the first super-packet may leave now.
        while !self.send_buffer.is_empty() && (sent == 0 || self.pacer.may_send(now)) {
            let mut quota = if in_flight < self.w.cwnd {
                (self.w.cwnd / 2).max(1).min(self.w.cwnd - in_flight)
            } else {
                0
            };
            if quota == 0 {
                if push != Push::Probe {
                    break;
                }
                quota = 1;
            }
            let mss = self.full();
            let burst = *burst.get_or_insert_with(|| self.burst_segments());
            let quota = u64::from(quota.min(burst));
            self.send_buffer.gather(quota * mss);
            let Some(head) = self.send_buffer.head() else {
                break;
            };
            let room = self.window_end().saturating_sub(self.board.nxt());
            if room < head.min(mss) {
                peer_limits = true;
                break;
            }
            if push == Push::All && head > mss {
                match self.should_defer(now, in_flight, burst, room, head) {
                    Hold::No => {}
                    Hold::ForWindow => {
                        limited = true;
                        break;
                    }
                    Hold::ForPeer => {
                        peer_limits = true;
                        break;
                    }
                    Hold::ForOther => break,
                }
            }
            let bytes = self.split(head, quota * mss, room, push);
            if bytes == 0 || self.held_by_device(bytes, false) {
                break;
            }
            let segments = self.send_burst(now, bytes, wire);
            if segments == 0 {
                break;
            }
            sent += segments;
            in_flight = self.board.in_flight();
            self.last_sent = MaybeTime::at(now);
            if push != Push::All {
                break;
            }
        }
        if peer_limits {
            self.limit_begins(now, Limit::PeerWindow);
        } else if any {
            self.limit_ends(now, Limit::PeerWindow);
        }
        limited |= in_flight >= self.w.cwnd;
        if sent > 0 || (limited && self.cfg.kernel.follows(Rule::CwndLimitedByDeferral)) {
            self.validate_window(now, limited);
        }
        if sent > 0 {
            if self.reducing() {
                self.prr.sent(sent);
            }
            if push != Push::Probe {
                self.schedule_probe(now, false);
            }
        }
        sent > 0
    }

    /// Returns whether too much of this connection is in the host's own queue and device.
    #[inline]
    fn held_by_device(&mut self, payload: u64, again: bool) -> bool {
        let Some(queue) = &mut self.small_queue else {
            return false;
        };
        let only = self.board.buffers() <= 1;
        queue.holds(payload, self.pacing, self.pacer.on, again, only)
    }

    /// Counts a super-packet of `payload` bytes for a device that reports its departure.
    #[inline]
    fn lies_below(&mut self, payload: u64) {
        if let Some(queue) = &mut self.small_queue {
            queue.sent(payload);
        }
    }

    /// The bytes of `head` that leave: `most`, or what the peer's `room` admits, including a short
    /// segment at the edge. At most one short segment is in flight (Nagle's algorithm with
    /// Minshall's change).
    #[inline]
    fn split(&self, head: u64, most: u64, room: u64, push: Push) -> u64 {
        let bytes = head.min(room);
        if most <= bytes {
            return most;
        }
        let last = self.send_buffer.head_is_tail() || bytes < head;
        let short = self.board.options.short_segment(bytes);
        let waits = self.short_end > self.board.una();
        if short > 0 && last && waits && push == Push::All {
            bytes - short
        } else {
            bytes
        }
    }

    #[inline(always)]
    pub(super) fn should_defer(
        &self,
        now: Time,
        in_flight: u32,
        burst: u32,
        room: u64,
        chunk: u64,
    ) -> Hold {
        if matches!(self.state, State::Recovery | State::Loss) {
            return Hold::No;
        }
        let mss = self.mss();
        let by_departure = self.cfg.kernel.follows(Rule::TsoDeferralByDeparture);
        let silent = if by_departure {
            now.as_ns() > self.pacer.wstamp.as_ns() + DEFER_NS
        } else {
            self.last_sent
                .get()
                .is_none_or(|sent| self.ticks.at(now) > self.ticks.at(sent))
        };
        if silent {
            return Hold::No;
        }
        let cong = u64::from(self.w.cwnd.saturating_sub(in_flight)) * mss;
        let limit = room.min(cong);
        if limit >= u64::from(burst) * mss
            || (!self.send_buffer.head_is_tail() && limit >= chunk)
            || limit >= self.peer_window.min(u64::from(self.w.cwnd) * mss) / DEFER_DIVISOR
        {
            return Hold::No;
        }
        let Some(head) = self.board.first() else {
            return Hold::No;
        };
        let srtt_ns = self.rtt.srtt8_us() * 125;
        let ack_in = (head.sent_us * 1000 + srtt_ns) as i64 - now.as_ns() as i64;
        let soon = if self.cfg.kernel.follows(Rule::TsoDeferralCapped) {
            (srtt_ns / 2).min(DEFER_NS)
        } else {
            srtt_ns / 2
        };
        if ack_in > soon as i64 {
            return Hold::No;
        }
        if cong < room && cong <= chunk {
            Hold::ForWindow
        } else if room <= cong && room <= chunk {
            Hold::ForPeer
        } else {
            Hold::ForOther
        }
    }

    /// Sends `bytes` as one super-packet; returns its number of segments, zero if the host's own
    /// interface rejected it.
    #[inline(never)]
    pub(super) fn send_burst<R: Into<Fate>>(
        &mut self,
        now: Time,
        bytes: u64,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> u32 {
        let was_empty = self.board.packets_out() == 0;
        let sent_us = self.begin_burst(now);
        let down = self.hands_down();
        if down && !self.hand_down(now, bytes, wire) {
            return 0;
        }
        let snapshot = self.delivered.snapshot();
        let ends_write = self.send_buffer.take(bytes);
        self.window_probes = 0;
        // All segments leave before any is recorded. Their records are seldom in the cache, and the
        // path's reads of a packet would wait for record writes before them.
        if !down {
            self.let_out(now, bytes, ends_write, wire);
        }
        let record = Seg::sent(sent_us, &snapshot);
        let first = self.board.numbers().end;
        self.board
            .push(bytes, &record, if ends_write { PUSHED } else { 0 });
        let sent = self.board.numbers().end - first;
        if self.flights.is_some() {
            self.note_flights(first);
        }
        self.bytes_sent += bytes;
        self.pacer.add(bytes, sent);
        self.pacer.end(now, self.pacing);
        self.lies_below(bytes);
        if !self.probe_follows() && (was_empty || self.timer == Some(super::TimerKind::Probe)) {
            self.rearm_rto(now);
        }
        if sent * self.full() > bytes {
            self.short_end = self.board.nxt();
        }
        self.check_space(now);
        sent as u32
    }

    /// Sends a super-packet of `bytes`: its segments one by one, unless the driver divides it.
    fn let_out<R: Into<Fate>>(
        &mut self,
        now: Time,
        bytes: u64,
        ends_write: bool,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        // Linux sets PSH on the last segment of every super-packet of more than one, and at the end
        // of a write.
        let psh = bytes > self.full() || ends_write;
        let mut segment = self.data(now, self.board.nxt(), bytes as u32, psh);
        self.ecn.mark_data(&mut segment);
        let full = if self.cfg.tso && !self.needs.needs_feedback {
            WHOLE
        } else {
            self.board.options.payload()
        };
        emit(segment, full, wire);
    }

    /// Begins a super-packet; returns its departure time, µs.
    #[inline]
    fn begin_burst(&mut self, now: Time) -> u64 {
        if self.board.in_flight() == 0 {
            let mut ev = Sent::at(now);
            ev.last_sent = self.last_sent.get();
            ev.app_limited = self.delivered.app_limited();
            ev.nxt = self.board.nxt();
            ev.totals = self.totals();
            self.cc.on_sent(&mut self.w, &ev);
            self.take_pacing();
        }
        let sent_us = self.pacer.begin(now).as_us();
        if self.board.packets_out() == 0 {
            self.delivered.begin_flight(sent_us);
        }
        sent_us
    }

    /// As [`note_flight`](Self::note_flight), for the segments from number `first` on.
    #[inline(never)]
    fn note_flights(&mut self, first: u64) {
        for number in first..self.board.numbers().end {
            self.note_flight(number, self.board.in_flight_up_to(number));
        }
    }

    /// Records the state at the departure of segment `number`, for congestion controls that need
    /// it.
    fn note_flight(&mut self, number: u64, in_flight: u32) {
        let flight = Flight {
            in_flight,
            lost: self.board.lost_total(),
            delivered_ce: self.delivered_ce,
        };
        if let Some(flights) = &mut self.flights {
            flights.sent(self.board.numbers().start, number, flight);
        }
    }

    /// Sets the congestion header. This is a separate function, because almost no congestion
    /// control uses this header.
    #[cold]
    fn header(&self) -> Option<Congestion> {
        self.cc.congestion(&self.w)
    }

    /// Builds a segment of data in place. A copy would read a header that may be absent, and so
    /// wait for all earlier writes.
    #[inline(always)]
    pub(super) fn data(&self, now: Time, seq: u64, len: u32, psh: bool) -> Segment {
        let mut segment = Segment {
            seq,
            len,
            tsval: stamp(now),
            tsecr: self.ts_recent,
            psh,
            ecn: self.ecn.control,
            options: self.board.options,
            ..Segment::default()
        };
        if self.needs.needs_feedback {
            segment.congestion = self.header();
        }
        segment
    }

    /// Retransmits segment `number`, which [went to the interface](Self::hand_again) if there is
    /// one. `counted`: the segment counts as a retransmission in flight.
    pub(super) fn resend<R: Into<Fate>>(
        &mut self,
        now: Time,
        number: u64,
        counted: bool,
        position: Position,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        let seg = *self.board.seg(number);
        let sent_us = match position {
            Position::Alone | Position::First => self.begin_burst(now),
            // Linux splits nothing between them: they have one time.
            Position::Middle | Position::Last => self.pacer.wstamp.as_us(),
        };
        self.board
            .resend(number, sent_us, &self.delivered.snapshot(), counted);
        if self.flights.is_some() {
            self.note_flight(number, self.board.in_flight());
        }
        self.pacer.add(u64::from(seg.len), 1);
        self.retransmits += 1;
        self.bytes_sent += u64::from(seg.len);
        self.bytes_retrans += u64::from(seg.len);
        if counted {
            self.retrans_stamp
                .get_or_insert(stamp(self.pacer.stamped(now)));
            if let Some(undo) = &mut self.undo {
                undo.retransmissions = Some(undo.retransmissions.unwrap_or(0) + 1);
            }
        }
        if matches!(position, Position::Alone | Position::First) {
            self.board.cut_before(number);
        }
        if matches!(position, Position::Alone | Position::Last) {
            self.board.cut_after(number);
            self.lies_below(self.pacer.bytes());
            self.pacer.end(now, self.pacing);
        }
        self.last_sent = MaybeTime::at(now);
        if self.hands_down() {
            return;
        }
        let psh = position == Position::Last || seg.is(PUSHED);
        let mut segment = self.data(now, seg.seq, seg.len, psh);
        segment.joined = matches!(position, Position::Middle | Position::Last);
        emit(segment, WHOLE, wire);
    }

    /// Retransmits lost segments while the window has room.
    pub(super) fn retransmit_lost<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        let mut rearm = false;
        let mut most = None;
        let mut together = 0;
        while self.board.in_flight() < self.w.cwnd {
            let Some(i) = self.board.next_to_retransmit() else {
                break;
            };
            if together == 0 && (!self.pacer.may_send(now) || self.held_by_device(self.mss(), true))
            {
                break;
            }
            let most = *most.get_or_insert_with(|| self.burst_segments());
            let room = most.min(self.w.cwnd - self.board.in_flight());
            if together == 0 && self.spares_memory() && !self.leaves_whole(i, u64::from(room)) {
                // As in Linux, without setting the timer.
                return;
            }
            if together == 0 && !self.hand_again(now, i, most, wire) {
                break;
            }
            let head = self.board.first_number() == Some(i);
            // Neighbours of one super-packet that were lost together are retransmitted together,
            // with PSH on the last.
            together += 1;
            let more = together < most
                && self.board.in_flight() + 1 < self.w.cwnd
                && self.board.lost_with_next(i);
            let position = match (together > 1, more) {
                (false, false) => Position::Alone,
                (false, true) => Position::First,
                (true, true) => Position::Middle,
                (true, false) => Position::Last,
            };
            self.resend(now, i, true, position, wire);
            if !more {
                together = 0;
            }
            if self.reducing() {
                self.prr.sent(1);
            }
            if head && self.timer != Some(super::TimerKind::Reorder) {
                rearm = true;
            }
        }
        if rearm {
            self.arm(
                now,
                super::TimerKind::Retransmit,
                self.rto_ticks() + self.pacing_delay(now),
            );
        }
    }

    /// Stores whether the window was the limit (`limited`) until the data sent so far is
    /// acknowledged. A window that the application does not use is reduced.
    #[inline(always)]
    pub(super) fn validate_window(&mut self, now: Time, limited: bool) {
        if let Some(flights) = &mut self.flights {
            flights.used(limited, self.board.una(), self.board.nxt());
        }
        let out = self.board.packets_out();
        let stronger = if self.cfg.kernel.follows(Rule::CwndLimitedForAWindow) {
            limited || (!self.cwnd_limited && out > self.max_packets_out)
        } else {
            out > self.max_packets_out
        };
        if self.board.una() >= self.cwnd_usage_seq || stronger {
            self.cwnd_limited = limited;
            self.max_packets_out = out;
            self.cwnd_usage_seq = self.board.nxt();
        }
        if self.window_is_limit() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
            return;
        }
        if self.send_buffer.is_empty() && self.send_buffer.blocked {
            self.limit_begins(now, Limit::SendBuffer);
        }
        self.cwnd_used = self.cwnd_used.max(out);
        let since = self.ticks.at(self.cwnd_stamp);
        let unused = self.ticks.at(now).saturating_sub(since) >= self.rto_ticks();
        if unused && self.cfg.slow_start_after_idle && !self.needs.owns_recovery {
            if self.state == State::Open && !self.send_buffer.blocked {
                // For a whole timeout, the window was not used up and no data were acknowledged:
                // reduce it halfway to the used part.
                let used = self.cwnd_used.max(self.cfg.iw);
                if used < self.w.cwnd {
                    self.w.ssthresh = self.current_ssthresh();
                    self.w.cwnd = (self.w.cwnd + used) / 2;
                }
                self.cwnd_used = 0;
            }
            self.cwnd_stamp = now;
        }
    }

    /// Returns whether the window was the limit, so that it may grow. In slow start, a window of
    /// less than twice the maximum of packets in flight is enough.
    #[inline]
    pub(super) fn window_is_limit(&self) -> bool {
        self.cwnd_limited || (self.w.in_slow_start() && self.w.cwnd < 2 * self.max_packets_out)
    }

    /// Takes the pacing rate of the congestion control, if it sets one.
    pub(super) fn take_pacing(&mut self) {
        if let Some(rate) = self.w.pacing {
            self.pacing = rate;
        }
    }

    /// Updates the rate that sizes bursts and paces. This rate is twice the window per RTT while
    /// the window is below half of `ssthresh`, otherwise 1.2 times the window per RTT.
    #[inline(always)]
    pub(super) fn update_pacing(&mut self) {
        let Some(percent) = (self.rtt.srtt8_us() > 0).then_some(
            if self.w.cwnd < self.w.ssthresh.min(INFINITE_SSTHRESH) / 2 {
                200u64
            } else {
                120
            },
        ) else {
            return;
        };
        let window = u64::from(self.w.cwnd.max(self.board.packets_out()));
        let bytes_per_s = self.mss() * 80_000 * percent * window / self.rtt.srtt8_us();
        self.pacing = Rate::bit(bytes_per_s.saturating_mul(8));
    }
}
