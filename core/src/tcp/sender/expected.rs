//! Handling of the two kinds of ACK that most connections receive: in order while nothing is
//! missing, and a further SACK in recovery. All other ACKs are handled in `input`.

use super::chrono::Limit;
use super::delivery_rate::Newest;
use super::input::{News, is_dsack};
use super::{Sender, Time};
use crate::host::Fate;
use crate::tcp::State;
use crate::tcp::wire::{AckSegment, Range, Segment};

impl Sender {
    /// Handles an ACK. Returns whether the timer must still be set if nothing is sent now (sending
    /// sets it anyway).
    #[inline]
    pub(super) fn on_ack<R: Into<Fate>>(
        &mut self,
        now: Time,
        ack: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        if ack.ack > self.board.nxt() {
            return false; // acknowledges what was never sent
        }
        if let Some(timer_due) = self.on_expected_ack(now, ack) {
            return timer_due;
        }
        if self.state == State::Recovery && self.on_selective_ack(now, ack, wire) {
            return false;
        }
        self.on_any_ack(now, ack, wire)
    }

    /// Handles an ACK that only acknowledges data in order, while nothing is lost or was
    /// retransmitted. The result is that of [`on_any_ack`](Self::on_any_ack), to which all other
    /// ACKs go; for these, the result is `None`.
    #[inline(always)]
    fn on_expected_ack(&mut self, now: Time, ack: &AckSegment) -> Option<bool> {
        let expected = self.state == State::Open
            && self.board.left_out() == 0
            && self.probe.is_none()
            && self.cfg.sack
            && ack.n_sacks == 0
            && !ack.ece
            && ack.marks.counters() == 0;
        if !expected {
            return None;
        }
        let before = self.before();
        let most = self.ecn.most_unmarked(ack);
        let run = self.board.pop_all_untouched(ack.ack, most)?;
        let (first_us, last, acked) = (run.first_sent_us, run.last, run.segments);
        let newest = Newest::of(last, run.last_number);
        self.rack
            .delivered(now.as_us(), last.sent_us, last.end(), last.flags, &self.rtt);
        let news = News {
            una_advanced: true,
            delivered: acked,
            ..News::default()
        };
        self.timeouts = 0;
        let plain = ack.window == self.peer_window;
        self.update_window(ack);
        if self.board.packets_out() == 0 {
            self.limit_ends(now, Limit::Busy);
        }
        let shown = (self.delivered.packets, self.delivered_ce);
        self.delivered.packets += u64::from(acked);
        let prior = newest.snapshot.delivered;
        self.rack.update_window(Some(prior), self.delivered.packets);
        let us = self.since(now, newest.sent_us);
        self.add_rtt(now, self.since(now, first_us), us);
        let rtt = Some(us);
        if self.needs.needs_samples {
            let mut ev = self.sample(now, ack, rtt, Some(prior), shown);
            (ev.acked, ev.plain) = (acked, plain);
            self.cc.on_sample(&mut self.w, &ev);
        }
        let timer_due = self.probe_follows();
        if !timer_due {
            self.set_timer(now);
        }
        if self.needs.needs_delivery {
            self.finish_any_ack(now, &news, &before, Some(&newest), rtt, acked);
        } else {
            self.finish_ack(now, &news, &before, Some(&newest), rtt, (acked, false));
        }
        Some(timer_due)
    }

    /// Handles an ACK in recovery that acknowledges nothing in order, and whose first SACK block is
    /// new or longer than before. The segments that it newly SACKs were sent once. The result is
    /// that of [`on_any_ack`](Self::on_any_ack), to which all other ACKs go; returns whether the
    /// ACK was handled.
    #[inline(never)]
    pub(super) fn on_selective_ack<R: Into<Fate>>(
        &mut self,
        now: Time,
        ack: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        let undone = self
            .undo
            .is_some_and(|undo| undo.retransmissions == Some(0));
        let una = self.board.una();
        let selective = ack.ack == una
            && una < self.high_seq
            && ack.window <= self.peer_window
            && ack.window > 0
            && self.cfg.sack
            && self.probe.is_none()
            && !(undone || ack.ece || self.spared || self.spares_memory())
            && ack.marks.counters() == 0;
        if !selective {
            return false;
        }
        let Some(from) = self.first_new(ack) else {
            return false;
        };
        let (before, fack) = (self.before(), self.board.fack());
        let most = self.ecn.most_unmarked(ack);
        let Some(run) = self.board.sack_all_untouched(from, ack.sacks[0].end, most) else {
            return false;
        };
        let (first_us, first_seq, last, sacked) =
            (run.first_sent_us, run.first_seq, run.last, run.segments);
        let newest = Newest::of(last, run.last_number);
        self.rack
            .delivered(now.as_us(), last.sent_us, last.end(), last.flags, &self.rtt);
        self.sacked = ack.sacks;
        for unused in self.sacked.iter_mut().skip(ack.n_sacks.into()) {
            *unused = Range::default();
        }
        if first_seq < fack {
            self.check_reordering(first_seq, fack.max(self.board.fack()));
        }
        let mut news = News {
            sacked: true,
            delivered: sacked,
            prior_una: una,
            prior_fack: fack,
            tsecr: ack.tsecr,
            ..News::default()
        };
        self.delivered.packets += u64::from(sacked);
        let prior = newest.snapshot.delivered;
        self.rack.update_window(Some(prior), self.delivered.packets);
        let (longest_us, us) = (self.since(now, first_us), self.since(now, newest.sent_us));
        self.add_rtt(now, longest_us, us);
        // SACKs of data sent before the first segment's last transmission must not keep extending
        // its timeout.
        news.set_timer = (self.board.first())
            .is_some_and(|first| longest_us > now.as_us().saturating_sub(first.sent_us));
        let rtt = Some(us);
        if self.needs.needs_samples {
            let shown = (self.delivered.packets, self.delivered_ce);
            self.tell_sample(now, ack, rtt, Some(prior), shown, (0, false, false));
        }
        self.run_rack(now, &mut news);
        self.count_losses(now, &news, false);
        if news.set_timer {
            self.rearm_rto(now);
        }
        self.finish_any_ack(now, &news, &before, Some(&newest), rtt, 0);
        self.repair(now, wire);
        true
    }

    /// The first segment that the first SACK block of an ACK newly reports. This block must be new,
    /// or end later than in the ACK before. The other blocks must be those of the ACK before.
    #[inline(always)]
    fn first_new(&self, ack: &AckSegment) -> Option<u64> {
        let said = ack.sacks.get(..usize::from(ack.n_sacks))?;
        let (first, others) = said.split_first()?;
        let (una, nxt) = (self.board.una(), self.board.nxt());
        let valid = una <= first.start && first.start < first.end && first.end <= nxt;
        if !valid || is_dsack(ack.ack, first, others) {
            return None;
        }
        let [known, rest @ ..] = &self.sacked;
        let from = if first.start == known.start && known.end > 0 {
            let longer = first.end > known.end && others == &rest[..others.len()];
            longer.then_some(known.end)
        } else {
            let known = |block: &Range| block.start <= first.start && first.start < block.end;
            let new = others == &self.sacked[..others.len()] && !self.sacked.iter().any(known);
            new.then_some(first.start)
        };
        from.map(|seq| self.board.number_of(seq))
    }
}
