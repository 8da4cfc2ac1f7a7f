//! Loss recovery without SACK: duplicate ACKs are counted (RFC 6582, NewReno).
//!
//! Algorithm, as in Linux 6.12:
//!
//! - A duplicate ACK reports that one more segment has arrived, but not which.
//! - After three duplicate ACKs, the first segment in flight counts as lost. If the path was seen
//!   to reorder by more segments, more duplicate ACKs are required. In recovery, every partial ACK
//!   makes the first segment behind it count as lost, so one hole is repaired per round trip.
//! - Segments that duplicate ACKs have reported do not count as in flight. So new data leaves for
//!   duplicate ACKs, also before recovery (limited transmit, RFC 3042).
//! - Recovery, or the episode after a timeout, lasts until data is acknowledged that was sent after
//!   it began (beyond `high_seq`). Duplicate ACKs before the end of the episode must not begin
//!   another recovery.
//! - Without SACK there is no RACK, no tail loss probe and no DSACK.
//!
//! Deviations from the RFC, all Linux's:
//! - an ACK for `n` segments subtracts `n − 1` duplicates, and no window is inflated or deflated:
//!   PRR sets it;
//! - if there are more duplicate ACKs than the segments in flight could cause, this counts as
//!   reordering. From then on, as many duplicate ACKs as segments were in flight are required, at
//!   most 300;
//! - every partial ACK restarts the timer ("slow but steady"), and F-RTO after a timeout is that of
//!   RFC 5682 without SACK.

use super::input::News;
use super::{Sender, State};
use crate::tcp::scoreboard::LOST;

/// The maximum number of duplicates that reordering may cause (`tcp_max_reordering`).
const MOST_REORDERING: u32 = 300;

impl Sender {
    /// Counts a duplicate ACK.
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
    /// Handles an ACK that acknowledged `packets` in order: the first one filled a hole, and
    /// duplicate ACKs had reported the others.
    pub(super) fn take_back_duplicates(&mut self, packets: u32, news: &mut News) {
        if packets == 0 {
            return;
        }
        let counted = self.board.sacked_out();
        news.delivered = packets.saturating_sub(counted).max(1);
        self.board.set_arrived(counted.saturating_sub(packets - 1));
        self.limit_duplicates(packets);
        // Some of the acknowledged segments may be retransmissions; the others arrived long before.
        if news.retrans_acked {
            news.original_delivered = false;
        }
    }
    pub(super) fn forget_duplicates(&mut self) {
        self.board.set_arrived(0);
    }
    /// Limits the count: at least one segment in flight is missing, or there would be no
    /// duplicates. `acked`: the number of segments just acknowledged.
    fn limit_duplicates(&mut self, acked: u32) {
        let out = self.board.packets_out();
        let most = out - self.board.lost_out().max(1).min(out);
        if self.board.sacked_out() > most {
            self.board.set_arrived(most);
            self.reordering = (out + acked).min(MOST_REORDERING);
        }
    }

    /// Marks the first segment in flight lost if enough duplicates have arrived, or in recovery if
    /// a partial ACK has.
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

    /// Returns whether the episode lasts, although exactly its `high_seq` is acknowledged:
    /// duplicates may follow.
    pub(super) fn stays(&mut self) -> bool {
        let stays = !self.cfg.sack && self.board.una() == self.high_seq;
        if stays && !self.board.any_retransmitted() {
            self.retrans_stamp = None;
        }
        stays
    }
}
