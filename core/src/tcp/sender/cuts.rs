//! What may be cut of that which was sent.
//!
//! What left together stays one buffer in the kernel until part of it is selected, or sent again,
//! and the rest is not: then it is cut in two, and the second half needs memory of its own. A peer
//! who selects every other segment could make that much. So, where what waits takes more than twice
//! the send buffer and 258 KiB, no buffer is cut any more but the first and the last. What an ACK
//! selects of others is not taken note of, nor what it selects behind them with the same block, and
//! the next ACK that says the same is not looked at for it again. And nothing leaves again that
//! would be a part of one.
//!
//! A sender with a small buffer gets there in slow start: while the window lets all leave that is
//! written, one write follows the other into the last buffer, however much is in flight. When it
//! then loses every other segment, it knows of next to nothing that arrived, waits for its timeout,
//! and repairs a segment or two per round trip. Source: Linux 6.12 `tcp_fragment`,
//! `tcp_match_skb_to_sack`, `tcp_shift_skb_data`; counted there as `TCPWqueueTooBig`.

use super::Sender;
use crate::kernel::{Kernel, Rule};
use crate::tcp::scoreboard::{LOST, RETRANS, SACKED};
use core::ops::Range;

/// Nothing is cut where memory is short.
pub const CUTS_NEED_MEMORY: Rule = Rule {
    name: "cuts need memory",
    since: Kernel(5, 2),
    help: "where what was sent takes more than twice the send buffer, parts of super-packets are \
        neither selected nor sent again; before, always",
    source: "Linux 5.2: tcp: tcp_fragment() should apply sane memory limits; as refined in 5.3: \
        tcp: be more careful in tcp_fragment()",
};

impl Sender {
    /// Does what was written take so much memory that cuts would be refused?
    pub(super) fn spares_memory(&self) -> bool {
        self.writer.overfull(&self.board) && self.cfg.kernel.follows(&CUTS_NEED_MEMORY)
    }

    /// May the super-packet of these segments be cut although memory is spared?
    fn is_at_an_end(&self, buffer: &Range<u64>) -> bool {
        let all = self.board.numbers();
        buffer.start == all.start || buffer.end == all.end
    }

    /// Memory is spared: may segment `i` leave again, if `most` segments may? Then it does with all
    /// of its super-packet.
    pub(super) fn leaves_whole(&self, i: u64, most: u64) -> bool {
        let buffer = self.board.buffer_of(i);
        buffer.end - buffer.start <= most || self.is_at_an_end(&buffer)
    }

    /// Not everything that was selected before segment `from` was taken note of: where a block that
    /// starts at `start` is looked at from. What was selected before is skipped, up to the
    /// super-packet of `from`, but not if nothing above it is.
    pub(super) fn looks_again(&mut self, from: u64, start: u64) -> u64 {
        let first = self.board.number_of(start);
        if start >= self.board.fack() || !self.board.numbers().contains(&from) {
            return first;
        }
        self.board.buffer_of(from).start.max(first)
    }

    /// Memory is spared: can the bytes from `start` up to `end` be selected of the super-packet
    /// that segment `i` is part of?
    pub(super) fn can_select(&self, i: u64, start: u64, end: u64) -> bool {
        let buffer = self.board.buffer_of(i);
        let first = self.board.seg(buffer.start);
        let from_the_front = start <= first.seq;
        if from_the_front && self.board.seg(buffer.end - 1).end() <= end {
            return true;
        }
        // A part at the front can be moved to what was selected before it.
        let joins = from_the_front
            && first.flags & (LOST | RETRANS) != RETRANS
            && buffer.start > self.board.numbers().start
            && self.board.seg(buffer.start - 1).flags & (SACKED | LOST | RETRANS) == SACKED;
        joins || self.is_at_an_end(&buffer)
    }
}
