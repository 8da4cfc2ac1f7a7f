//! Limits to splitting super-packets in the send queue.
//!
//! Segments that left together stay one kernel buffer until only a part of them is SACKed or
//! retransmitted. When that happens, the buffer is split, and the second part needs memory of its
//! own. A peer that SACKs every other segment could cause many such splits, and so much memory.
//! Therefore, splitting is limited if the send queue takes more memory than twice the send buffer
//! plus 258 KiB. At this limit, only the first and the last kernel buffer are split.
//!
//! SACKs for parts of other kernel buffers are ignored. The rest of the same SACK block behind such
//! a part is ignored, too. A repetition of the block in the next ACK is also ignored. No part of
//! such a buffer is retransmitted.
//!
//! A sender with a small buffer reaches this limit in slow start. While the window admits all
//! written data, each write extends the last buffer, whatever the amount in flight. If every other
//! segment is then lost, the sender learns of almost no arrivals. Such a sender waits for its
//! timeout, and repairs one or two segments per round trip. Source: Linux 6.12 `tcp_fragment`,
//! `tcp_match_skb_to_sack`, `tcp_shift_skb_data`; counted there as `TCPWqueueTooBig`.

use super::Sender;
use crate::kernel::Rule;
use crate::tcp::scoreboard::{LOST, RETRANS, SACKED};
use core::ops::Range;

impl Sender {
    /// Returns whether the send queue takes so much memory that splitting is refused.
    pub(super) fn spares_memory(&self) -> bool {
        self.send_buffer.overfull(&self.board) && self.cfg.kernel.follows(Rule::FragmentsNeedMemory)
    }

    /// Returns whether this super-packet is the first or the last one, which may be split in spite
    /// of the limit.
    fn is_at_an_end(&self, buffer: &Range<u64>) -> bool {
        let all = self.board.numbers();
        buffer.start == all.start || buffer.end == all.end
    }

    /// Returns whether segment `i` may be retransmitted while at most `most` segments may leave.
    /// The super-packet of segment `i` must have at most `most` segments, or be the first or the
    /// last one, which may be split.
    pub(super) fn leaves_whole(&self, i: u64, most: u64) -> bool {
        let buffer = self.board.buffer_of(i);
        buffer.end - buffer.start <= most || self.is_at_an_end(&buffer)
    }

    /// The start of the search for a block that starts at `start`, if SACKs before segment `from`
    /// were ignored. SACKed segments are skipped, up to the super-packet of `from`, unless no
    /// segment above it is SACKed.
    pub(super) fn looks_again(&mut self, from: u64, start: u64) -> u64 {
        let first = self.board.number_of(start);
        if start >= self.board.fack() || !self.board.numbers().contains(&from) {
            return first;
        }
        self.board.buffer_of(from).start.max(first)
    }

    /// Returns whether the bytes from `start` up to `end` can be SACKed, as a part of the
    /// super-packet of segment `i`.
    pub(super) fn can_select(&self, i: u64, start: u64, end: u64) -> bool {
        let buffer = self.board.buffer_of(i);
        let first = self.board.seg(buffer.start);
        let from_the_front = start <= first.seq;
        if from_the_front && self.board.seg(buffer.end - 1).end() <= end {
            return true;
        }
        // A part at the front can be moved to the SACKed data before it.
        let joins = from_the_front
            && first.flags & (LOST | RETRANS) != RETRANS
            && buffer.start > self.board.numbers().start
            && self.board.seg(buffer.start - 1).flags & (SACKED | LOST | RETRANS) == SACKED;
        joins || self.is_at_an_end(&buffer)
    }
}
