//! Selective acknowledgements: the search for segments that are not SACKed yet, and their marks.

use super::segment::LINKED;
use super::{GLUED, LOST, RETRANS, SACKED, Scoreboard, Seg, TOUCHED, Untouched};

impl Scoreboard {
    /// The first segment from `i` on that is not SACKed (`tail` if there is none).
    pub(super) fn unsacked_from(&mut self, mut i: u64) -> u64 {
        while i < self.tail && self.at(i).is(SACKED) {
            let next = self.at(i).skip;
            if next < self.tail {
                let beyond = self.at(next).skip;
                self.at_mut(i).skip = beyond.max(next);
            }
            i = next;
        }
        i
    }
    /// The first segment from number `from` on that is not SACKed; `None` if it ends after `end`.
    #[inline]
    pub fn next_unsacked(&mut self, from: u64, end: u64) -> Option<u64> {
        let i = self.unsacked_from(from);
        (i < self.tail && self.at(i).end() <= end).then_some(i)
    }
    /// Marks segment `i` as SACKed. Returns its previous state.
    #[inline]
    pub fn sack(&mut self, i: u64) -> Seg {
        let before = *self.at(i);
        if before.is(LINKED) {
            self.bypass(i, before.older, before.newer);
        }
        let mut flags = before.flags & !LINKED | SACKED;
        // A retransmission of a segment that is no longer marked lost stays in flight.
        if before.is(LOST) {
            flags &= !(LOST | RETRANS);
            self.lost_out -= 1;
            self.retrans_out -= u32::from(before.is(RETRANS));
        }
        let seg = self.at_mut(i);
        (seg.flags, seg.skip) = (flags, i + 1);
        self.fack = if self.sacked_out == 0 {
            before.end()
        } else {
            self.fack.max(before.end())
        };
        self.sacked_out += 1;
        if i > self.head {
            self.set_glued(i - 1, self.at(i - 1).is(SACKED));
        }
        if i + 1 < self.tail {
            self.set_glued(i, self.at(i + 1).is(SACKED));
        }
        before
    }
    /// Marks the segments from number `from` up to the byte `end` as SACKed, if there are at most
    /// `most` of them. They must be neighbours in the order of transmission, and none may ever have
    /// been SACKed, marked lost or retransmitted. Otherwise, no segment is marked. The result
    /// equals that of calls of [`sack`](Self::sack).
    #[inline(always)]
    pub fn sack_all_untouched(&mut self, from: u64, end: u64, most: u64) -> Option<Untouched<'_>> {
        let (head, tail) = (self.head, self.tail);
        let (ring, mask) = (&mut self.ring[..], self.mask as usize);
        let mut next = from;
        let (last_end, newer) = loop {
            if next >= tail {
                return None;
            }
            let seg = &ring[next as usize & mask].0;
            next += 1;
            if seg.flags & (TOUCHED | LINKED) != LINKED {
                return None;
            }
            if seg.end() >= end {
                break (seg.end(), seg.newer);
            }
            if seg.newer != next {
                return None;
            }
        };
        if last_end > end || next - from > most {
            return None;
        }
        let last_glued = if next < tail {
            ring[next as usize & mask].0.is(SACKED)
        } else {
            ring[(next - 1) as usize & mask].0.is(GLUED)
        };
        let (mut buffers, mut i) = (self.buffers, from);
        while i < next {
            let seg = &mut ring[i as usize & mask].0;
            i += 1;
            let glued = i < next || last_glued;
            buffers = buffers + u32::from(seg.is(GLUED)) - u32::from(glued);
            seg.flags = seg.flags & !(LINKED | GLUED) | SACKED | if glued { GLUED } else { 0 };
            seg.skip = i;
        }
        let first = &ring[from as usize & mask].0;
        let (older, segments) = (first.older, (next - from) as u32);
        let (first_sent_us, first_seq, first_end) = (first.sent_us, first.seq, first.end());
        self.buffers = buffers;
        if from > head {
            self.set_glued(from - 1, self.at(from - 1).is(SACKED));
        }
        if (from..next).contains(&self.before) {
            self.before = older;
        }
        self.bypass(next - 1, older, newer);
        self.fack = if self.sacked_out == 0 {
            end
        } else {
            self.fack.max(end)
        };
        self.sacked_out += segments;
        Some(Untouched {
            first_sent_us,
            first_seq,
            first_end,
            last: self.at(next - 1),
            last_number: next - 1,
            segments,
        })
    }
}
