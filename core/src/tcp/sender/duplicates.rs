//! Without SACK: duplicate ACKs are counted in place of what would have been selected (RFC 6582,
//! NewReno).
//!
//! Law, as Linux 6.12 runs it: a duplicate ACK tells that one segment more has arrived, not which.
//! After three of them (or as many as the path was seen to reorder) the first segment is lost; so
//! is, in recovery, the first one behind every ACK that advances, a partial one: one hole per round
//! trip is repaired. What was counted is not in flight: new data leaves for duplicates, before
//! recovery too (limited transmit, RFC 3042). Recovery (or a timeout's episode) stays until
//! something beyond what had been sent when it began is acknowledged: what duplicates come of that
//! before must not begin another. No RACK, no tail loss probes, no DSACK: nobody says what arrived.
//!
//! Deviations from the RFC, all Linux's:
//! - an ACK that advances by `n` segments takes `n − 1` duplicates back, and no window is inflated
//!   or deflated: PRR sets it;
//! - more duplicates than segments that could have caused them are taken for reordering, and it
//!   takes that many from then on;
//! - every partial ACK restarts the timer ("slow but steady"), and a timeout's F-RTO is that of RFC
//!   5682 without SACK.

use super::input::News;
use super::{Sender, State};
use crate::tcp::scoreboard::LOST;

/// The most duplicates that reordering may be taken to cause (`tcp_max_reordering`).
const MOST_REORDERING: u32 = 300;

impl Sender {
    /// One duplicate ACK more.
    pub(super) fn count_duplicate(&mut self, news: &mut News) {
        if !news.duplicate() {
            return;
        }
        let before = self.board.sacked_out();
        self.board.set_arrived(before + 1);
        self.limit_duplicates(0);
        if self.board.sacked_out() > before {
            news.delivered += 1;
            self.delivered.packets += 1;
            self.delivered_ce += u64::from(news.ece);
        }
    }
    /// An ACK acknowledged `packets` in order: the first fills a hole, duplicates had told of the
    /// others.
    pub(super) fn take_back_duplicates(&mut self, packets: u32, news: &mut News) {
        if packets == 0 {
            return;
        }
        let counted = self.board.sacked_out();
        news.delivered = packets.saturating_sub(counted).max(1);
        self.board.set_arrived(counted.saturating_sub(packets - 1));
        self.limit_duplicates(packets);
        // Of what it acknowledged some may have been sent again and the rest arrived long before.
        if news.retrans_acked {
            news.original_delivered = false;
        }
    }
    pub(super) fn forget_duplicates(&mut self) {
        self.board.set_arrived(0);
    }
    /// Of what is in flight one segment is missing at least, or there would be no duplicates.
    /// `acked`: so many were just acknowledged.
    fn limit_duplicates(&mut self, acked: u32) {
        let out = self.board.packets_out();
        let most = out - self.board.lost_out().max(1).min(out);
        if self.board.sacked_out() > most {
            self.board.set_arrived(most);
            self.reordering = (out + acked).min(MOST_REORDERING);
        }
    }

    /// Is the first segment in flight lost?
    pub(super) fn judge_first(&mut self, news: &News) {
        let lost = match self.state {
            State::Recovery => news.una_advanced,
            State::Loss => false,
            State::Open | State::Disorder | State::Cwr => {
                self.board.sacked_out() >= self.reordering
            }
        };
        let Some(first) = self.board.first_number().filter(|_| lost) else {
            return;
        };
        if !self.board.seg(first).is(LOST) {
            self.board.mark_lost(first);
        }
    }

    /// Does the episode stay, although all that had been sent when it began is acknowledged? Only
    /// just that is: duplicates of it may follow.
    pub(super) fn stays(&mut self) -> bool {
        let stays = !self.cfg.sack && self.board.una() == self.high_seq;
        if stays && !self.board.any_retransmitted() {
            self.retrans_stamp = None;
        }
        stays
    }
}
