//! Transmission through the host's own interface: whole super-packets, each with its departure
//! time, and their completions.
//!
//! Algorithm: a super-packet that the host's queue discipline rejects was never sent. A rejected
//! super-packet stays in the send queue, and the window is reduced as after an ECN mark, once per
//! round trip. The same reduction follows if the discipline accepted the super-packet but dropped
//! another packet of the flow. The sender tries a rejected super-packet once more with the next ACK
//! or departure. If nothing is in flight, the zero-window timer tries again after one
//! retransmission timeout and then every half second. A rejected retransmission stays marked lost.
//! If the retransmission of a timeout is rejected, the timer fires again half a second later,
//! without backoff.
//!
//! Where the host's queue discipline paces (`fq`), TCP passes a super-packet to it before its
//! departure time. The TCP timestamp is that of the departure. Only the limit of TCP small queues
//! delays the next super-packet. Up to two super-packets wait in the discipline and count as in
//! flight. The decision to send, or to wait for the next ACK, is therefore one or two pacing gaps
//! earlier than with TCP's own pacing.
//!
//! If the host has no interface with its own queue, segments enter the path one by one, and none is
//! rejected. Segments also enter the path one by one if routers write into each segment (XCP),
//! because no device may divide super-packets of such segments.
//!
//! Sources: Linux 6.12 `__tcp_transmit_skb`, `tcp_enter_cwr`, `net_xmit_eval`,
//! `tcp_retransmit_timer` (`TCP_RESOURCE_PROBE_INTERVAL`), `tcp_check_probe_timer`,
//! `tcp_send_probe0`, `tcp_update_skb_after_send`. Deviation: Linux ends the connection after 15
//! rejected attempts (`tcp_retries2`), narrows never does.

use super::Sender;
use super::output::{Push, WHOLE, emit};
use crate::cc::Cause;
use crate::host::Fate;
use crate::tcp::scoreboard::PUSHED;
use crate::tcp::wire::Segment;
use crate::units::{Span, Time};

/// Time until the next attempt after the host's own queue rejected a packet while nothing was in
/// flight, or the retransmission of a timeout.
pub(super) const RESOURCE_PROBE: Span = Span::ms(500);

impl Sender {
    /// Returns whether super-packets go to the interface whole.
    #[inline]
    pub(super) fn hands_down(&self) -> bool {
        self.small_queue.is_some() && !self.needs.needs_feedback
    }
    /// Sends `bytes` of new data as one super-packet. Returns whether the interface accepted the
    /// super-packet.
    #[inline(never)]
    pub(super) fn hand_down<R: Into<Fate>>(
        &mut self,
        now: Time,
        bytes: u64,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        let psh = bytes > self.full() || self.send_buffer.ends_with(bytes);
        let mut segment = self.super_packet(now, self.board.nxt(), bytes as u32, psh);
        self.ecn.mark_data(&mut segment);
        let fate = emit(segment, WHOLE, wire).into();
        let taken = self.told(now, fate);
        if !taken && self.board.packets_out() == 0 {
            self.persist(now);
        }
        taken
    }
    /// Passes the lost segments from `number` on that left in one super-packet, at most `most`, to
    /// the interface as one super-packet. Returns whether the interface accepted the super-packet.
    /// If segments go one by one, this function sends nothing and returns true.
    pub(super) fn hand_again<R: Into<Fate>>(
        &mut self,
        now: Time,
        number: u64,
        most: u32,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        if !self.hands_down() {
            return true;
        }
        let count = self.lost_together(number, most);
        let last = number + u64::from(count) - 1;
        let bytes = (number..=last).map(|i| self.board.seg(i).len).sum();
        let psh = count > 1 || self.board.seg(last).is(PUSHED);
        let segment = self.super_packet(now, self.board.seg(number).seq, bytes, psh);
        let fate = emit(segment, WHOLE, wire).into();
        self.told(now, fate)
    }
    fn super_packet(&self, now: Time, seq: u64, len: u32, psh: bool) -> Segment {
        let departs = if self.pacer.below {
            self.pacer.wstamp.max(now)
        } else {
            Time::ZERO
        };
        Segment {
            departs,
            ..self.data(self.pacer.stamped(now), seq, len, psh)
        }
    }
    /// Handles the fate of a super-packet; returns whether it counts as sent.
    fn told(&mut self, now: Time, fate: Fate) -> bool {
        match fate {
            Fate::Sent => {}
            Fate::Gone => self.small_queue.iter_mut().for_each(|queue| queue.passes()),
            Fate::Congested | Fate::Refused => self.enter_cwr(now, Cause::Mark),
        }
        fate != Fate::Refused
    }
    /// Number of lost segments from `first` on that are retransmitted as one super-packet, at most
    /// `most`.
    pub(super) fn lost_together(&self, first: u64, most: u32) -> u32 {
        let room = self.w.cwnd.saturating_sub(self.board.in_flight());
        let most = most.min(room).max(1);
        let mut count = 1;
        while count < most && self.board.lost_with_next(first + u64::from(count) - 1) {
            count += 1;
        }
        count
    }
    /// A super-packet has left the host's device, or was dropped above it: less of the connection's
    /// data is below TCP. Only with [`Config::device`](crate::tcp::Config::device).
    pub fn on_departed<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        if self
            .small_queue
            .as_mut()
            .is_some_and(|queue| queue.departed())
        {
            self.go_on(now, wire);
        }
    }
    /// Sends the data that waited for a departure.
    pub(super) fn go_on<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        if self.phase != super::Phase::Established {
            return;
        }
        if self.board.lost_out() > self.board.retrans_out() && self.w.cwnd > self.board.in_flight()
        {
            self.retransmit_lost(now, wire);
        }
        self.write(now, Push::All, wire);
    }
}
