//! The states of recovery, their entries and exits, and undo.

use super::input::{News, Repair};
use super::{Sender, Time, Undo};
use crate::cc::{Cause, INFINITE_SSTHRESH, LostPacket, Reduced, SpuriousLoss};
use crate::kernel::Rule;
use crate::tcp::State;
use crate::tcp::prr::Prr;
use crate::tcp::scoreboard::{APP_LIMITED, LOST, SACKED};

impl Sender {
    /// Returns whether PRR is reducing the window.
    pub(super) fn reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    /// The threshold to restore if a reduction must be undone: `ssthresh`, and outside of Cwr and
    /// Recovery at least three quarters of the window.
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            self.w.ssthresh
        } else {
            self.w.ssthresh.max(self.w.cwnd / 2 + self.w.cwnd / 4)
        }
    }

    /// Handles an ACK that is a duplicate, has new SACKs, a DSACK or ECE, or arrives in any state
    /// but Open.
    pub(super) fn on_dubious_ack(&mut self, now: Time, news: &mut News) -> Repair {
        if news.ece {
            self.prior_ssthresh = None;
        }
        let selects = self.cfg.sack;
        // Is the episode over?
        if self.state == State::Open {
            self.retrans_stamp = None;
        } else if self.board.una() >= self.high_seq {
            match self.state {
                State::Cwr if self.board.una() != self.high_seq => {
                    self.end_reduction(now);
                    self.set_state(now, State::Open);
                }
                State::Recovery => {
                    if !selects {
                        self.forget_duplicates();
                    }
                    if !self.recover(now, news) {
                        return Repair::None;
                    }
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if news.una_advanced && self.undo_partial(now, news) {
                    return Repair::None;
                }
                if !selects {
                    self.count_duplicate(news);
                }
                if self.undo_by_dsack(now) {
                    self.try_open(now, news);
                }
                self.identify_losses(now, news);
                if self.state != State::Recovery {
                    if self.board.lost_out() == 0 {
                        return Repair::None;
                    }
                    self.enter_recovery(now, news.ece);
                }
                self.count_losses(now, news, false);
            }
            State::Loss => {
                let mut repair = Repair::None;
                self.on_ack_in_loss(now, news, &mut repair);
                self.identify_losses(now, news);
                if self.state != State::Open && !news.retrans_lost {
                    return repair;
                }
                return self.on_ack_otherwise(now, news);
            }
            _ => return self.on_ack_otherwise(now, news),
        }
        Repair::Lost
    }

    fn on_ack_otherwise(&mut self, now: Time, news: &mut News) -> Repair {
        if !self.cfg.sack {
            if news.una_advanced {
                self.forget_duplicates();
            }
            self.count_duplicate(news);
        }
        if matches!(self.state, State::Open | State::Disorder) {
            self.undo_by_dsack(now);
        }
        self.identify_losses(now, news);
        if self.board.lost_out() == 0 && !self.enough_duplicates() {
            self.try_open(now, news);
            return Repair::None;
        }
        self.enter_recovery(now, news.ece);
        self.count_losses(now, news, true);
        Repair::Lost
    }

    /// Handles F-RTO and the end of a timeout's episode.
    fn on_ack_in_loss(&mut self, now: Time, news: &mut News, repair: &mut Repair) {
        let recovered = self.board.una() >= self.high_seq;
        if news.una_advanced && self.may_undo(news) {
            self.undo_loss(now, self.cfg.sack);
            return;
        }
        if self.frto {
            if news.original_delivered {
                // Data sent once, before the timeout, has arrived: not everything was lost.
                self.undo_loss(now, true);
                return;
            }
            if self.board.nxt() > self.high_seq {
                if news.sacked || news.duplicate() {
                    self.frto = false; // the loss was real
                }
            } else if news.una_advanced && !recovered {
                self.high_seq = self.board.nxt();
                if !self.send_buffer.is_empty() && self.window_end() > self.board.nxt() {
                    *repair = Repair::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.recover(now, news);
            return;
        }
        if !self.cfg.sack {
            if news.una_advanced {
                self.forget_duplicates();
            } else if self.board.nxt() > self.high_seq {
                // New data that F-RTO sent has arrived: the window has room for repairs.
                self.count_duplicate(news);
            }
        }
        *repair = Repair::Lost;
    }

    /// Everything sent before the episode is acknowledged: returns to Open, and undoes a spurious
    /// reduction. Returns whether the episode is over.
    fn recover(&mut self, now: Time, news: &News) -> bool {
        if self.may_undo(news) {
            self.undo_reduction(now, false);
        } else {
            self.rack.recovered();
        }
        if self.stays() {
            return false;
        }
        self.set_state(now, State::Open);
        // Until the next loss, most windows grow by half at most. A larger one takes more places.
        self.board.fit(u64::from(self.w.cwnd) * 3 / 2);
        true
    }

    /// Detects losses. If RACK waits for a segment, the reordering timer is armed instead of
    /// another timer.
    fn identify_losses(&mut self, now: Time, news: &mut News) {
        if self.board.packets_out() == 0 {
            return;
        }
        if !self.cfg.sack {
            self.judge_first(news);
            self.tell_lost(now);
            return;
        }
        self.run_rack(now, news);
    }
    /// As [`identify_losses`](Self::identify_losses), with SACK and while data is in flight.
    #[inline(always)]
    pub(super) fn run_rack(&mut self, now: Time, news: &mut News) {
        let retransmissions = self.board.retrans_out();
        if self.rack.advanced && self.cfg.has_rack() {
            self.rack.advanced = false;
            let next = self.detect_losses(now);
            if let Some(us) = next.filter(|_| self.cfg.kernel.follows(Rule::RackTimer)) {
                self.arm_reorder(now, us);
                news.set_timer = false;
            }
        }
        news.retrans_lost |= self.board.retrans_out() < retransmissions;
    }
    /// Runs RACK; returns the time until the last waiting segment counts as lost, µs.
    pub(super) fn detect_losses(&mut self, now: Time) -> Option<u64> {
        let in_recovery = matches!(self.state, State::Recovery | State::Loss);
        let window = self
            .rack
            .window_us(&self.board, &self.rtt, in_recovery, self.reordering);
        let next = self.rack.detect(now.as_us(), &mut self.board, window);
        self.tell_lost(now);
        next
    }

    /// Reports the packets marked lost since the last call, to a congestion control that needs
    /// them.
    #[inline]
    pub(super) fn tell_lost(&mut self, now: Time) {
        if self.flights.is_some() {
            self.report_lost(now);
        }
    }
    #[inline(never)]
    fn report_lost(&mut self, now: Time) {
        let Some(flights) = &self.flights else { return };
        let found = self.board.take_found_lost();
        let mut lost_total = self.board.lost_total() - found.len() as u64;
        let totals = self.totals();
        for number in found {
            lost_total += 1;
            let (seg, then) = (self.board.seg(number), flights.of(number));
            let mut ev = LostPacket::at(now);
            (ev.seq, ev.end) = (seg.seq, seg.end());
            ev.in_flight = then.in_flight;
            ev.lost = lost_total - then.lost;
            ev.app_limited = seg.is(APP_LIMITED);
            ev.totals = totals;
            self.cc.on_packet_lost(&mut self.w, &ev);
        }
    }

    /// Returns whether the number of SACKed segments detects losses: without RACK, and in kernels
    /// before [`Rule::RackSubsumesDupacks`].
    fn counts_duplicates(&self) -> bool {
        let by_rack = self.cfg.kernel.follows(Rule::RackSubsumesDupacks) && self.cfg.has_rack();
        self.cfg.sack && !by_rack
    }
    fn enough_duplicates(&self) -> bool {
        self.counts_duplicates()
            && (self.board.sacked_out() >= self.reordering
                || (self.by_fack() && self.up_to_fack() > self.reordering))
    }
    /// Before 4.15, the distance from the highest SACKed segment counted instead of the number of
    /// SACKed segments, until reordering was seen.
    fn by_fack(&self) -> bool {
        !self.cfg.kernel.follows(Rule::FackRetired) && !self.rack.reordering_seen
    }
    /// Number of segments up to the highest SACKed one (`fackets_out`).
    fn up_to_fack(&self) -> u32 {
        let bytes = self.board.fack().saturating_sub(self.board.una());
        bytes.div_ceil(self.mss()) as u32
    }
    /// Marks segments lost that are more than `reordering` below the highest SACKed one, at least
    /// the first.
    fn mark_lost_by_fack(&mut self) {
        let most = self.up_to_fack().saturating_sub(self.reordering).max(1);
        let Some(first) = self.board.first_number() else {
            return;
        };
        for i in first..first + u64::from(most.min(self.board.packets_out())) {
            if !self.board.seg(i).is(SACKED | LOST) {
                self.board.mark_lost(i);
            }
        }
    }
    /// Marks segments lost by counting: those with enough SACKed segments above them, and at the
    /// begin of recovery at least the first.
    #[inline]
    pub(super) fn count_losses(&mut self, now: Time, news: &News, entered: bool) {
        if self.counts_duplicates() {
            self.mark_lost_by_counting(now, news, entered);
        }
    }
    #[inline(never)]
    fn mark_lost_by_counting(&mut self, now: Time, news: &News, entered: bool) {
        let far = self.board.fack() > self.board.una() + u64::from(self.reordering) * self.mss();
        let duplicate = !(news.una_advanced || news.window_update);
        let due = if news.una_advanced && !entered {
            far
        } else {
            duplicate || (news.sacked && far)
        };
        if !due {
            return;
        }
        if self.by_fack() {
            self.mark_lost_by_fack();
        } else if self.board.sacked_out() >= self.reordering {
            self.board.mark_lost_by_count(self.reordering);
        } else if let Some(first) = self.board.first_number().filter(|_| entered) {
            if !self.board.seg(first).is(LOST) {
                self.board.mark_lost(first);
            }
        }
        self.tell_lost(now);
    }

    /// `marked`: the network also marked packets, so a reduction would be due even without a loss.
    pub(super) fn enter_recovery(&mut self, now: Time, marked: bool) {
        if !self.board.any_retransmitted() {
            self.retrans_stamp = None;
        }
        self.prior_ssthresh = None;
        self.begin_undo();
        if !self.reducing() {
            self.prior_ssthresh = (!marked).then(|| self.current_ssthresh());
            self.begin_reduction(now, Cause::Loss);
        }
        self.set_state(now, State::Recovery);
    }
    pub(super) fn begin_undo(&mut self) {
        let mut out = self.board.retrans_out();
        if self.probe.is_some_and(|p| p.retransmission) {
            out += 1;
        }
        self.undo = Some(Undo {
            marker: self.board.una(),
            retransmissions: (out > 0).then_some(out),
        });
    }
    pub(super) fn begin_reduction(&mut self, now: Time, cause: Cause) {
        self.high_seq = self.board.nxt();
        self.probe = None;
        self.w.cwnd_cnt = 0;
        self.prior_cwnd = self.w.cwnd;
        self.prr = Prr::begin(self.w.cwnd, self.cfg.kernel);
        self.tell_loss(now, cause);
        self.ecn.reduced();
    }
    /// Returns whether this ACK is safe for PRR: the window may then grow faster, up to the
    /// threshold.
    pub(super) fn safe(&self, news: &News, newly_lost: u32) -> bool {
        if self.cfg.kernel.follows(Rule::PrrSafeAck) {
            news.una_advanced && newly_lost == 0
        } else {
            news.retrans_acked && !news.retrans_lost
        }
    }
    pub(super) fn reduce_window(&mut self, delivered: u32, safe: bool) {
        if let Some(cwnd) =
            self.prr
                .on_ack(delivered, self.board.in_flight(), self.w.ssthresh, safe)
        {
            self.w.cwnd = cwnd;
        }
    }
    pub(super) fn end_reduction(&mut self, now: Time) {
        if self.needs.owns_recovery {
            return;
        }
        if self.w.ssthresh < INFINITE_SSTHRESH && (self.state == State::Cwr || self.undo.is_some())
        {
            self.w.cwnd = self.w.ssthresh;
        }
        self.cc.on_reduced(&mut self.w, &Reduced::at(now));
    }

    /// Sets Open, or Disorder while a segment is SACKed, marked lost or was retransmitted.
    pub(super) fn keep_open(&mut self, now: Time) {
        let state = if self.board.left_out() > 0 || self.board.any_retransmitted() {
            State::Disorder
        } else {
            State::Open
        };
        if self.state != state {
            self.set_state(now, state);
            self.high_seq = self.board.nxt();
        }
    }
    fn try_open(&mut self, now: Time, news: &News) {
        if !self.board.any_retransmitted() {
            self.retrans_stamp = None;
        }
        if news.ece {
            self.enter_cwr(now, Cause::Mark);
        }
        if self.state != State::Cwr {
            self.keep_open(now);
        }
    }

    // undo

    /// Returns whether the ACK echoes a timestamp before the first retransmission: the original was
    /// late, not lost.
    fn packet_delayed(&self, news: &News) -> bool {
        match self.retrans_stamp {
            Some(stamp) => news.tsecr > 0 && news.tsecr < stamp,
            // Nothing was retransmitted, or a lasting episode has forgotten it.
            None => self.cfg.sack || self.board.una() < self.high_seq,
        }
    }
    fn may_undo(&self, news: &News) -> bool {
        self.undo
            .is_some_and(|u| u.retransmissions == Some(0) || self.packet_delayed(news))
    }
    fn undo_reduction(&mut self, now: Time, unmark_lost: bool) {
        if unmark_lost {
            self.board.unmark_all_lost();
        }
        if let Some(prior) = self.prior_ssthresh {
            let mut ev = SpuriousLoss::at(now);
            ev.prior_cwnd = self.prior_cwnd;
            ev.totals = self.totals();
            self.cc.on_spurious_loss(&mut self.w, &ev);
            if prior > self.w.ssthresh {
                self.w.ssthresh = prior;
                self.ecn.withdraw();
            }
        }
        self.undo = None;
        self.rack.advanced = true;
    }
    /// Undoes the reduction of a timeout. `over`: the state may return to Open.
    fn undo_loss(&mut self, now: Time, over: bool) {
        self.undo_reduction(now, true);
        self.timeouts = 0;
        if !self.stays() && over {
            self.set_state(now, State::Open);
        }
    }
    fn undo_by_dsack(&mut self, now: Time) -> bool {
        if self.undo.is_none_or(|u| u.retransmissions != Some(0)) {
            return false;
        }
        self.rack.undone();
        self.undo_reduction(now, false);
        true
    }
    /// A partial ACK shows that the recovery was spurious: undone as soon as no retransmission is
    /// in flight. Returns whether this ACK needs no further handling.
    fn undo_partial(&mut self, now: Time, news: &News) -> bool {
        if self.undo.is_none() || !self.packet_delayed(news) {
            return false;
        }
        self.check_reordering(news.prior_una, self.board.fack());
        if self.board.retrans_out() > 0 {
            return true;
        }
        if !self.board.any_retransmitted() {
            self.retrans_stamp = None;
        }
        self.undo_reduction(now, true);
        self.keep_open(now);
        false
    }
}
