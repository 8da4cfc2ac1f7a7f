//! RACK: a segment counts as lost when a segment sent later has arrived and the reordering window
//! has passed.
//!
//! Algorithm (RFC 8985 as in Linux 6.12): consider the most recently *sent* segment that has
//! arrived. Let `t` be its time of transmission, and `end` its end. Let `rtt` be the round trip of
//! the segment whose arrival was reported last. Every segment sent before `(t, end)` is lost once
//! `now ≥ sent + rtt + reo_wnd`; until then, a timer is armed for the newest of these segments.
//! `reo_wnd = min(steps · min_rtt/4, srtt)`. `reo_wnd = 0` while no reordering was seen and either
//! recovery has begun or three segments are SACKed. `steps` grows by one per round with a DSACK and
//! returns to 1 after 16 recoveries without one.
//!
//! Before 4.18 ([`Rule::RackSubsumesDupacks`]) `reo_wnd` is at least a millisecond, and counting
//! SACKs detects losses as well. A segment is lost when three segments with higher sequence numbers
//! are SACKed. If the path was seen to reorder by more segments, this greater number is required.

use super::rtt::Rtt;
use super::scoreboard::{EVER_RETRANS, LOST, RETRANS, Scoreboard};
use crate::kernel::{Kernel, Rule};

/// Recoveries without DSACK after which the reordering window returns to one step.
const PERSIST: u8 = 16;
/// The minimum reordering window before [`Rule::RackSubsumesDupacks`].
const OLD_LEAST_US: u64 = 1_000;

/// RACK's state.
#[derive(Clone, Debug)]
pub struct Rack {
    /// Whether RACK replaces the count of duplicates ([`Rule::RackSubsumesDupacks`]).
    subsumes_dupacks: bool,
    sent_us: u64,
    end: u64,
    rtt_us: u64,
    /// Whether the arrival of any segment was recorded since the last detection of losses.
    pub advanced: bool,
    steps: u8,
    persist: u8,
    /// Whether a DSACK has arrived that will widen the reordering window.
    pub dsack_seen: bool,
    last_delivered: u64,
    /// Whether reordering was seen on this connection.
    pub reordering_seen: bool,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack::new(Kernel::default())
    }
}

impl Rack {
    /// The state of a host of this release.
    pub fn new(kernel: Kernel) -> Rack {
        Rack {
            subsumes_dupacks: kernel.follows(Rule::RackSubsumesDupacks),
            sent_us: 0,
            end: 0,
            rtt_us: 0,
            advanced: false,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            last_delivered: 0,
            reordering_seen: false,
        }
    }
    /// Records the arrival of a segment sent at `sent_us` that ends at `end`.
    #[inline(always)]
    pub fn delivered(&mut self, now_us: u64, sent_us: u64, end: u64, flags: u16, rtt: &Rtt) {
        let took = now_us.saturating_sub(sent_us);
        // Faster than the minimum RTT: the original arrived, not the retransmission at this time.
        if flags & EVER_RETRANS != 0 && took < rtt.min_us().unwrap_or(u64::MAX) {
            return;
        }
        self.advanced = true;
        self.rtt_us = took;
        if (sent_us, end) > (self.sent_us, self.end) {
            self.sent_us = sent_us;
            self.end = end;
        }
    }
    /// Returns the reordering window, µs.
    pub fn window_us(
        &self,
        board: &Scoreboard,
        rtt: &Rtt,
        in_recovery: bool,
        reordering: u32,
    ) -> u64 {
        if !self.subsumes_dupacks {
            let waits = self.reordering_seen || !in_recovery;
            return rtt
                .min_us()
                .filter(|_| waits)
                .map_or(OLD_LEAST_US, |least| {
                    (least / 4 * u64::from(self.steps))
                        .max(OLD_LEAST_US)
                        .min(rtt.srtt_us())
                });
        }
        if !self.reordering_seen && (in_recovery || board.sacked_out() >= reordering) {
            return 0;
        }
        let quarter = rtt.min_us().unwrap_or(u64::from(u32::MAX)) / 4;
        (quarter * u64::from(self.steps)).min(rtt.srtt_us())
    }
    /// Returns the time until a segment sent at `sent_us` counts as lost, µs; zero or less if it is
    /// lost now.
    pub fn remaining_us(&self, now_us: u64, sent_us: u64, window_us: u64) -> i64 {
        (self.rtt_us + window_us) as i64 - now_us.saturating_sub(sent_us) as i64
    }
    /// Marks lost segments. Returns the time until the last segment that waits for the reordering
    /// window counts as lost, µs; `None` if no segment waits.
    #[inline]
    pub fn detect(&self, now_us: u64, board: &mut Scoreboard, window_us: u64) -> Option<u64> {
        let mut at = board.oldest_sent();
        while let Some(i) = at {
            let seg = *board.seg(i);
            at = board.next_sent(i);
            if seg.flags & (LOST | RETRANS) == LOST {
                continue;
            }
            if !self.sent_before(seg.sent_us, seg.end()) {
                return None;
            }
            let remaining = self.remaining_us(now_us, seg.sent_us, window_us);
            if remaining > 0 {
                // Segments expire in order of transmission, so the newest segment sent before
                // RACK's is the last.
                let newest = board.last_sent_before(|seg| self.sent_before(seg.sent_us, seg.end()));
                let sent_us = newest.map_or(seg.sent_us, |i| board.seg(i).sent_us);
                let longest = self.remaining_us(now_us, sent_us, window_us);
                return Some(longest.max(remaining) as u64);
            }
            board.mark_lost_by_rack(i);
        }
        None
    }
    fn sent_before(&self, sent_us: u64, end: u64) -> bool {
        (self.sent_us, self.end) > (sent_us, end)
    }
    /// Updates the reordering window for an ACK. `prior_delivered` is the number of packets that
    /// had been delivered when the most recently sent segment that this ACK delivers was sent.
    /// `delivered` is this number now.
    #[inline]
    pub fn update_window(&mut self, prior_delivered: Option<u64>, delivered: u64) {
        let Some(prior) = prior_delivered else { return };
        if prior < self.last_delivered {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = self.steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }
    /// Counts a recovery that ended without an undo.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }
    /// DSACKs have undone a recovery: the wider window persists for one more recovery, at most 16.
    pub fn undone(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimum and smoothed round trip of 2 ms: a quarter is 0.5 ms; before 4.18 the minimum was
    /// a millisecond.
    #[test]
    fn before_4_18_a_millisecond_was_waited_at_least() {
        let mut rtt = Rtt::new(1000);
        rtt.sample(2_000, 0, 1);
        rtt.sample_min(2_000, 0);
        let board = Scoreboard::default();
        let waits = |kernel, in_recovery, reordering_seen| {
            let mut rack = Rack::new(kernel);
            rack.reordering_seen = reordering_seen;
            rack.window_us(&board, &rtt, in_recovery, 3)
        };
        for (in_recovery, reordering_seen, new) in
            [(false, false, 500), (true, false, 0), (true, true, 500)]
        {
            assert_eq!(
                waits(Kernel::published(4, 17), in_recovery, reordering_seen),
                1_000
            );
            assert_eq!(
                waits(Kernel::published(4, 18), in_recovery, reordering_seen),
                new
            );
        }
    }
}
