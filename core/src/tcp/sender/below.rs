//! Handing down to the host's own interface: super-packets whole, each with its time of departure,
//! and what is told of them.
//!
//! Law: what the host's discipline does not take was never sent: it stays where it was, and the
//! window comes down as after a mark, once per round trip; so it does where something of the flow's
//! was dropped although this was taken. What was not taken is tried again with the next ACK or
//! departure; if nothing is in flight, by the timer that asks about shut windows, a timeout later
//! and from then on every half second. A retransmission that was not taken stays lost; after a
//! timeout it is tried again in half a second, without backing off.
//!
//! Where the host's discipline paces (`fq`), a super-packet is handed down before its time, with
//! its time, which is what its timestamp says, and TCP waits only for its small queue. So up to two
//! wait there, in flight already: what may leave, and whether that waits for the next ACK, is
//! settled one or two gaps earlier than where TCP paces itself.
//!
//! Without an interface of its own rate segments go onto the path one by one, and nothing is ever
//! refused. So they do with routers that write into each segment, which no device may cut.
//! Sources: Linux 6.12 `__tcp_transmit_skb`, `tcp_enter_cwr`, `net_xmit_eval`,
//! `tcp_retransmit_timer` (`TCP_RESOURCE_PROBE_INTERVAL`), `tcp_check_probe_timer`,
//! `tcp_send_probe0`, `tcp_update_skb_after_send`. Not done: after 15 such attempts
//! (`tcp_retries2`) Linux ends the connection.

use super::Sender;
use super::output::Push;
use crate::cc::Cause;
use crate::host::Fate;
use crate::tcp::MSS;
use crate::tcp::scoreboard::PUSHED;
use crate::tcp::wire::Segment;
use crate::units::{Span, Time};

/// How long a timer waits when its own host took nothing.
pub(super) const RESOURCE_PROBE: Span = Span::ms(500);

impl Sender {
    /// Are super-packets handed down whole?
    #[inline]
    pub(super) fn hands_down(&self) -> bool {
        self.small_queue.is_some() && !self.law.needs_feedback
    }
    /// `bytes` of new data as one super-packet. Was it taken?
    pub(super) fn hand_down<R: Into<Fate>>(
        &mut self,
        now: Time,
        bytes: u64,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        let psh = bytes > u64::from(MSS) || self.writer.ends_with(bytes);
        let mut segment = self.super_packet(now, self.board.nxt(), bytes as u32, psh);
        self.ecn.mark_data(true, &mut segment);
        let fate = wire(segment).into();
        let taken = self.told(now, fate);
        if !taken && self.board.packets_out() == 0 {
            self.persist(now);
        }
        taken
    }
    /// Segments from `number` on that were lost together, `most` at most, once more. Were they
    /// taken? True where they go one by one.
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
        let fate = wire(segment).into();
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
    /// What is told of a super-packet; answers whether it counts as sent.
    fn told(&mut self, now: Time, fate: Fate) -> bool {
        match fate {
            Fate::Sent => {}
            Fate::Gone => self.small_queue.iter_mut().for_each(|queue| queue.passes()),
            Fate::Congested | Fate::Refused => self.enter_cwr(now, Cause::Mark),
        }
        fate != Fate::Refused
    }
    /// Lost segments from `first` on that leave together, `most` at most.
    pub(super) fn lost_together(&self, first: u64, most: u32) -> u32 {
        let room = self.w.cwnd.saturating_sub(self.board.in_flight());
        let most = most.min(room).max(1);
        let mut count = 1;
        while count < most && self.board.lost_with_next(first + u64::from(count) - 1) {
            count += 1;
        }
        count
    }
    /// A super-packet has left the host's device, or was dropped above it: what lies below TCP has
    /// become less. Only with [`Config::device`](crate::tcp::Config::device).
    pub fn on_departed<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        if self
            .small_queue
            .as_mut()
            .is_some_and(|queue| queue.departed())
        {
            self.go_on(now, wire);
        }
    }
    /// What waited for a departure may leave.
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
