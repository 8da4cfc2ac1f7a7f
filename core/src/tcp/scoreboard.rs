//! The sender's record of every segment in flight.
//!
//! The records form a ring indexed by number. Three orders are kept. With these orders, an ACK
//! visits O(1) records (amortised), for any number of segments and holes:
//!
//! - *by sequence*: the ring itself; `skip` jumps over runs that are already SACKed (union–find
//!   with path halving);
//! - *by time of the last transmission*: a linked list, oldest first, for RACK;
//! - *lost and not yet retransmitted, by sequence*: a range of the ring. The search for the next
//!   retransmission begins where the last one ended. Segments below this place that wait again are
//!   in a heap with lazy removal.
//!
//! Counts are Linux's: `in_flight = packets_out − (sacked_out + lost_out) + retrans_out`.

mod ring;
mod sack;
mod segment;

use crate::prefetch::record;
use crate::transport::TcpOptions;
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
pub use segment::{APP_LIMITED, EVER_RETRANS, GLUED, LOST, PUSHED, RETRANS, SACKED, Seg, Snapshot};
use segment::{LINKED, TIMED_OUT};

const NIL: u64 = u64::MAX;
/// Flags of segments that were SACKed, marked lost or retransmitted at any time.
const TOUCHED: u16 = SACKED | LOST | RETRANS | EVER_RETRANS | TIMED_OUT;

/// Segments that were sent once, and acknowledged or SACKed together.
#[derive(Debug)]
pub struct Untouched<'a> {
    /// Time when the first was sent, µs.
    pub first_sent_us: u64,
    /// Offset of the first byte of the first.
    pub first_seq: u64,
    /// The byte after the last byte of the first.
    pub first_end: u64,
    /// The last.
    pub last: &'a Seg,
    /// Number of the last.
    pub last_number: u64,
    /// Number of segments.
    pub segments: u32,
}

/// Segments that were marked lost, in the order of marking. Few connections need them.
#[derive(Clone, Debug, Default)]
struct FoundLost {
    numbers: Vec<u64>,
}

/// Numbers of lost segments whose retransmission is lost, too; the lowest comes first.
#[derive(Clone, Debug, Default)]
struct LostAgain(BinaryHeap<Reverse<u64>>);

/// A place of the ring, in one cache line of the processor.
#[derive(Copy, Clone, Debug, Default)]
#[repr(align(64))]
struct Place(Seg);

/// The scoreboard of one connection.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    /// The places of segments, of which those up to `mask` are in use.
    ring: Box<[Place]>,
    head: u64,
    tail: u64,
    oldest: u64,
    newest: u64,
    /// The position of `last_sent_before`; older segments cannot be its result any more.
    before: u64,
    /// All segments that are lost and not retransmitted are in this range of numbers, or below it
    /// and in `lost_again`. Between timeouts, the range only moves forward.
    lost_from: u64,
    lost_to: u64,
    /// The first segment below the range that waits again, or `NIL`, and the others.
    again: u64,
    lost_again: Option<Box<LostAgain>>,
    una: u64,
    nxt: u64,
    /// The options of segments, which decide their usual length.
    pub options: TcpOptions,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// Number of places in use, a power of two, minus one; 0 without a place.
    mask: u32,
    buffers: u32,
    lost_total: u64,
    /// The byte after the highest one ever SACKed above `una`.
    fack: u64,
    /// `mark_lost_by_count` has handled every segment below.
    counted: u64,
    /// Segments marked lost that were not reported yet; `None` if losses are not reported.
    found_lost: Option<Box<FoundLost>>,
    /// Records visited so far.
    #[cfg(test)]
    looks: core::cell::Cell<u64>,
}

impl Default for Scoreboard {
    /// No segment in flight, the stream at 0.
    fn default() -> Scoreboard {
        Scoreboard {
            ring: Box::default(),
            head: 0,
            tail: 0,
            oldest: NIL,
            newest: NIL,
            before: NIL,
            lost_from: 0,
            lost_to: 0,
            again: NIL,
            lost_again: None,
            una: 0,
            nxt: 0,
            options: TcpOptions::default(),
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            mask: 0,
            buffers: 0,
            lost_total: 0,
            fack: 0,
            counted: 0,
            found_lost: None,
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

impl Scoreboard {
    /// Every byte below is acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }
    /// Every byte below has been sent.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Segments sent and not cumulatively acknowledged.
    pub fn packets_out(&self) -> u32 {
        (self.tail - self.head) as u32
    }
    /// Returns the number of packets in flight that are SACKed, or counted by
    /// [duplicates](Self::set_arrived).
    pub fn sacked_out(&self) -> u32 {
        self.sacked_out
    }
    /// Returns the number of packets in flight that are marked lost.
    pub fn lost_out(&self) -> u32 {
        self.lost_out
    }
    /// Retransmissions in flight.
    pub fn retrans_out(&self) -> u32 {
        self.retrans_out
    }
    /// Number of loss marks so far; a segment may be counted several times.
    pub fn lost_total(&self) -> u64 {
        self.lost_total
    }
    /// Segments SACKed or lost.
    pub fn left_out(&self) -> u32 {
        self.sacked_out + self.lost_out
    }
    /// Estimated packets in the network.
    pub fn in_flight(&self) -> u32 {
        (self.packets_out() + self.retrans_out).saturating_sub(self.left_out())
    }
    /// As [`in_flight`](Self::in_flight), without the segments after number `last`.
    pub fn in_flight_up_to(&self, last: u64) -> u32 {
        ((last + 1 - self.head) as u32 + self.retrans_out).saturating_sub(self.left_out())
    }
    /// The byte after the highest SACKed one; `una` if no byte is SACKed.
    pub fn fack(&self) -> u64 {
        if self.sacked_out == 0 {
            self.una
        } else {
            self.fack
        }
    }
    /// Super-packets of the data in flight. Super-packets are split where only a part was SACKed or
    /// retransmitted, and merged where neighbours were SACKed.
    pub fn buffers(&self) -> u64 {
        self.buffers.into()
    }
    #[inline]
    fn at(&self, i: u64) -> &Seg {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        &self.ring[self.place(i)].0
    }
    #[inline]
    fn at_mut(&mut self, i: u64) -> &mut Seg {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let place = self.place(i);
        &mut self.ring[place].0
    }
    /// The oldest segment by sequence.
    pub fn first(&self) -> Option<&Seg> {
        (self.head < self.tail).then(|| self.at(self.head))
    }
    /// Passes the records of the two oldest segments, of the newest and of the next two to `load`.
    /// The record from which the search for the next retransmission begins follows.
    #[inline]
    pub(crate) fn prefetch(&self, load: &mut impl FnMut(*const u8, usize)) {
        let (head, tail) = (self.head, self.tail);
        let numbers = [head, head + 1, tail.wrapping_sub(1), tail, tail + 1];
        for number in numbers {
            if let Some(segment) = self.ring.get(self.place(number)) {
                record(segment, load);
            }
        }
        if self.lost_from < self.lost_to {
            if let Some(segment) = self.ring.get(self.place(self.lost_from)) {
                record(segment, load);
            }
        }
    }
    /// Passes the likely record of the segment with byte `seq` to `load`.
    #[inline]
    pub(crate) fn prefetch_segment(&self, seq: u64, load: &mut impl FnMut(*const u8, usize)) {
        if let Some(segment) = self.ring.get(self.place(self.guess(seq))) {
            record(segment, load);
        }
    }
    /// The number of the newest segment by sequence.
    pub fn last_number(&self) -> Option<u64> {
        (self.head < self.tail).then(|| self.tail - 1)
    }
    /// The number of the oldest segment by sequence.
    pub fn first_number(&self) -> Option<u64> {
        (self.head < self.tail).then_some(self.head)
    }
    /// A segment by number.
    pub fn seg(&self, number: u64) -> &Seg {
        self.at(number)
    }

    /// Adds a super-packet of `bytes` of new data that leaves as [`sent`](Seg::sent) states;
    /// `flags` of its last segment: `GLUED`, `PUSHED`.
    #[inline(always)]
    pub fn push(&mut self, bytes: u64, sent: &Seg, flags: u16) {
        if bytes == 0 {
            return;
        }
        let full = u64::from(self.options.payload());
        let (first, newest) = (self.tail, self.newest);
        let segments = self.options.full_segments(bytes + full - 1);
        while (self.tail - self.head + segments) as usize > self.places() {
            self.grow();
        }
        // Local variables, because the compiler cannot exclude that a record contains the fields.
        let (mut i, mut seq, mut older) = (self.tail, self.nxt, self.newest);
        let end = self.nxt + bytes;
        let (ring, mask) = (&mut self.ring[..], self.mask as usize);
        while seq < end {
            let len = full.min(end - seq);
            let last = seq + len == end;
            ring[i as usize & mask].0 = Seg {
                seq,
                skip: i,
                len: len as u32,
                flags: sent.flags | LINKED | if last { flags } else { GLUED },
                older,
                newer: if last { NIL } else { i + 1 },
                ..*sent
            };
            seq += len;
            older = i;
            i += 1;
        }
        (self.tail, self.nxt, self.newest) = (i, end, older);
        self.buffers += u32::from(flags & GLUED == 0);
        self.link_from(newest, first);
    }
    /// Records a retransmission. `counted`: the retransmission counts as in flight (a tail loss
    /// probe does not).
    pub fn resend(&mut self, i: u64, sent_us: u64, known: &Snapshot, counted: bool) {
        self.unlink(i);
        let seg = self.at_mut(i);
        seg.stamp(sent_us, known);
        let newly = counted && !seg.is(RETRANS);
        seg.flags &= !TIMED_OUT;
        seg.flags |= EVER_RETRANS | if counted { RETRANS } else { 0 };
        self.retrans_out += u32::from(newly);
        self.link_newest(i);
    }
    fn link_newest(&mut self, i: u64) {
        let newest = self.newest;
        let seg = self.at_mut(i);
        seg.older = newest;
        seg.newer = NIL;
        seg.flags |= LINKED;
        self.newest = i;
        self.link_from(newest, i);
    }
    /// Links `i` behind `older`, the segment sent before it, if there is one.
    #[inline]
    fn link_from(&mut self, older: u64, i: u64) {
        if older == NIL {
            self.oldest = i;
        } else {
            self.at_mut(older).newer = i;
        }
    }
    fn unlink(&mut self, i: u64) {
        let Seg {
            older,
            newer,
            flags,
            ..
        } = *self.at(i);
        if flags & LINKED != 0 {
            self.at_mut(i).flags &= !LINKED;
            self.bypass(i, older, newer);
        }
    }
    /// Links the neighbours of `i` in the order of transmission.
    #[inline(always)]
    fn bypass(&mut self, i: u64, older: u64, newer: u64) {
        if self.before == i {
            self.before = older;
        }
        if older == NIL {
            self.oldest = newer;
        } else {
            self.at_mut(older).newer = newer;
        }
        if newer == NIL {
            self.newest = older;
        } else {
            self.at_mut(newer).older = older;
        }
    }
    /// The number of the segment sent longest ago that is in the order of transmission. The order
    /// excludes segments that were SACKed, or marked lost by RACK or a timeout since they were
    /// sent.
    pub fn oldest_sent(&self) -> Option<u64> {
        (self.oldest != NIL).then_some(self.oldest)
    }
    /// The next segment by time of transmission.
    pub fn next_sent(&self, i: u64) -> Option<u64> {
        let newer = self.at(i).newer;
        (newer != NIL).then_some(newer)
    }
    /// The last segment by time of transmission for which `is_before` holds. If `is_before` holds
    /// for a segment, it must also hold for all segments sent earlier, and for the same segment in
    /// all later calls. Under these conditions, each segment is visited once.
    pub fn last_sent_before(&mut self, is_before: impl Fn(&Seg) -> bool) -> Option<u64> {
        let after = |board: &Scoreboard| match board.before {
            NIL => board.oldest_sent(),
            i => board.next_sent(i),
        };
        while let Some(i) = after(self).filter(|&i| is_before(self.at(i))) {
            self.before = i;
        }
        (self.before != NIL).then_some(self.before)
    }
    /// The previous segment by time of transmission.
    pub fn previous_sent(&self, i: u64) -> Option<u64> {
        let older = self.at(i).older;
        (older != NIL).then_some(older)
    }
    /// The number of the segment sent last that is in the order of transmission (see
    /// [`oldest_sent`](Self::oldest_sent)).
    pub fn newest_sent(&self) -> Option<u64> {
        (self.newest != NIL).then_some(self.newest)
    }

    /// Returns whether there is a first segment that lies wholly below `ack`.
    #[inline]
    pub fn acknowledges_first(&self, ack: u64) -> bool {
        self.first().is_some_and(|first| first.end() <= ack)
    }
    /// Removes the first segment if it lies wholly below `ack`.
    pub fn pop_acked(&mut self, ack: u64) -> Option<Seg> {
        if !self.acknowledges_first(ack) {
            return None;
        }
        let i = self.head;
        let seg = *self.at(i);
        if seg.is(LINKED) {
            self.bypass(i, seg.older, seg.newer);
        }
        self.head += 1;
        self.una = seg.end();
        if seg.is(SACKED | LOST | RETRANS) {
            self.sacked_out -= u32::from(seg.is(SACKED));
            self.lost_out -= u32::from(seg.is(LOST));
            self.retrans_out -= u32::from(seg.is(RETRANS));
        }
        self.buffers -= u32::from(!seg.is(GLUED));
        Some(seg)
    }

    /// Removes the first segments that lie wholly below `ack`, as far as they were SACKed and are
    /// not in the order of transmission. The result equals that of calls of
    /// [`pop_acked`](Self::pop_acked). Returns the flags of these segments, 0 if there is none.
    #[inline]
    pub fn pop_sacked(&mut self, ack: u64) -> u16 {
        let (mut i, mut flags, mut una) = (self.head, 0, self.una);
        let (mut buffers, mut retransmitted) = (0, 0);
        while i < self.tail {
            let seg = self.at(i);
            if seg.flags & (SACKED | LOST | LINKED) != SACKED || seg.end() > ack {
                break;
            }
            (flags, una) = (flags | seg.flags, seg.end());
            retransmitted += u32::from(seg.is(RETRANS));
            buffers += u32::from(!seg.is(GLUED));
            i += 1;
        }
        self.sacked_out -= (i - self.head) as u32;
        self.retrans_out -= retransmitted;
        (self.head, self.una) = (i, una);
        self.buffers -= buffers;
        flags
    }
    /// Removes the first segments that lie wholly below `ack`, as far as they were never SACKed,
    /// marked lost or retransmitted. The result equals that of calls of
    /// [`pop_acked`](Self::pop_acked), but only the segments at both ends of the run are read
    /// completely. Its segments are neighbours in the order of transmission, too: a segment that
    /// was retransmitted between two of them would lie between them.
    #[inline]
    pub fn pop_untouched(&mut self, ack: u64) -> Option<Untouched<'_>> {
        let (end, buffers) = self.untouched(ack);
        self.pop_run(end, buffers)
    }
    /// As [`pop_untouched`](Self::pop_untouched), if all segments below `ack` are of this kind, and
    /// at most `most`; otherwise, no segment is removed.
    #[inline(always)]
    pub fn pop_all_untouched(&mut self, ack: u64, most: u64) -> Option<Untouched<'_>> {
        let (end, buffers) = self.untouched(ack);
        if end - self.head > most || (end < self.tail && self.at(end).end() <= ack) {
            return None;
        }
        self.pop_run(end, buffers)
    }
    /// The end of the run of [`pop_untouched`](Self::pop_untouched), and the number of
    /// super-packets that end in it.
    #[inline(always)]
    fn untouched(&self, ack: u64) -> (u64, u32) {
        let (mut end, mut buffers) = (self.head, 0);
        while end < self.tail {
            let seg = self.at(end);
            if seg.flags & (TOUCHED | LINKED) != LINKED || seg.end() > ack {
                break;
            }
            buffers += u32::from(!seg.is(GLUED));
            end += 1;
        }
        (end, buffers)
    }
    /// Removes the segments before `end`, with the ends of this many super-packets.
    #[inline(always)]
    fn pop_run(&mut self, end: u64, buffers: u32) -> Option<Untouched<'_>> {
        if end == self.head {
            return None;
        }
        let (first, last) = (self.at(self.head), self.at(end - 1));
        let (older, newer, una) = (first.older, last.newer, last.end());
        let (first_sent_us, first_seq, first_end) = (first.sent_us, first.seq, first.end());
        let segments = (end - self.head) as u32;
        if (self.head..end).contains(&self.before) {
            self.before = older;
        }
        self.bypass(end - 1, older, newer);
        self.head = end;
        self.una = una;
        self.buffers -= buffers;
        Some(Untouched {
            first_sent_us,
            first_seq,
            first_end,
            last: self.at(end - 1),
            last_number: end - 1,
            segments,
        })
    }

    /// The number of the segment with byte `seq` if all segments are full. None is longer, so the
    /// number is never too high.
    #[inline]
    fn guess(&self, seq: u64) -> u64 {
        self.head + self.options.full_segments(seq.saturating_sub(self.una))
    }
    /// The number of the segment in flight that starts at `seq`.
    #[inline(always)]
    pub fn starting_at(&self, seq: u64) -> Option<u64> {
        if seq < self.una || seq >= self.nxt {
            return None;
        }
        let guess = self.guess(seq);
        if guess < self.tail && self.at(guess).seq == seq {
            return Some(guess);
        }
        let number = self.search(seq);
        (number < self.tail && self.at(number).seq == seq).then_some(number)
    }
    /// The number of the first segment that starts at or after `seq`.
    #[inline]
    pub fn number_of(&self, seq: u64) -> u64 {
        if seq <= self.una {
            return self.head;
        }
        self.starting_at(seq).unwrap_or_else(|| self.search(seq))
    }
    /// As [`number_of`](Self::number_of), without a guess.
    #[inline(never)]
    fn search(&self, seq: u64) -> u64 {
        let (mut low, mut high) = (self.head, self.tail);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.at(mid).seq < seq {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }
    /// Without SACK: sets the number of segments that have arrived out of order, whichever they
    /// are.
    pub fn set_arrived(&mut self, segments: u32) {
        self.sacked_out = segments;
        self.fack = self.una;
    }
    /// Sets or clears `GLUED`. The code has no branch, because the processor cannot predict which
    /// neighbours are joined or split.
    #[inline(always)]
    fn set_glued(&mut self, i: u64, glued: bool) {
        let seg = self.at_mut(i);
        let was = seg.is(GLUED);
        seg.flags = seg.flags & !GLUED | if glued { GLUED } else { 0 };
        self.buffers = self.buffers + u32::from(was) - u32::from(glued);
    }
    /// Splits the super-packet of segment `i` before this segment.
    pub fn cut_before(&mut self, i: u64) {
        if i > self.head {
            self.set_glued(i - 1, false);
        }
    }
    /// Splits the super-packet of segment `i` behind this segment.
    pub fn cut_after(&mut self, i: u64) {
        self.set_glued(i, false);
    }
    /// A DSACK reports that the retransmission of segment `i` was redundant: the retransmission is
    /// no longer in flight.
    pub fn clear_retrans(&mut self, i: u64) {
        if self.at(i).is(RETRANS) {
            self.at_mut(i).flags &= !RETRANS;
            self.retrans_out -= 1;
            // It is marked lost and its retransmission is gone: it waits for retransmission as
            // before.
            if self.at(i).is(LOST) {
                self.await_retransmission(i);
            }
        }
    }
    /// Records that segment `i` is lost and not retransmitted.
    fn await_retransmission(&mut self, i: u64) {
        if i >= self.lost_from {
            self.lost_to = self.lost_to.max(i + 1);
            return;
        }
        self.again = match self.next_again() {
            Some(first) => {
                let others = self.lost_again.get_or_insert_default();
                others.0.push(Reverse(first.max(i)));
                first.min(i)
            }
            None => i,
        };
    }
    /// Marks segment `i` lost. If the segment is already marked and its retransmission is in
    /// flight, the retransmission is lost, too: the segment waits for another retransmission.
    pub fn mark_lost(&mut self, i: u64) {
        let seg = self.at_mut(i);
        if seg.is(SACKED) {
            return;
        }
        if !seg.is(LOST) {
            seg.flags |= LOST;
            self.lost_out += 1;
        } else if seg.is(RETRANS) {
            seg.flags &= !RETRANS;
            self.retrans_out -= 1;
        } else {
            return;
        }
        self.lost_total += 1;
        self.await_retransmission(i);
        if let Some(found) = &mut self.found_lost {
            found.numbers.push(i);
        }
    }
    /// From now on, records the segments that are marked lost.
    pub fn watch_losses(&mut self) {
        self.found_lost = Some(Box::default());
    }
    /// Takes the numbers of the segments marked lost since the last call, in order of marking.
    pub fn take_found_lost(&mut self) -> Vec<u64> {
        self.found_lost
            .as_mut()
            .map(|found| core::mem::take(&mut found.numbers))
            .unwrap_or_default()
    }
    /// Marks segments lost that have at least `above` SACKed segments above them (RFC 6675).
    pub fn mark_lost_by_count(&mut self, above: u32) {
        let mut left = above.max(1);
        if self.sacked_out < left {
            return;
        }
        let mut i = self.number_of(self.fack);
        while left > 0 {
            i -= 1;
            left -= u32::from(self.at(i).is(SACKED));
        }
        for lost in self.counted.max(self.head)..i {
            if !self.at(lost).is(SACKED | LOST) {
                self.mark_lost(lost);
            }
        }
        self.counted = self.counted.max(i);
    }
    /// As `mark_lost`, but RACK ignores the segment until it is retransmitted.
    pub fn mark_lost_by_rack(&mut self, i: u64) {
        self.mark_lost(i);
        self.unlink(i);
    }
    /// As `mark_lost`, by a timeout: RACK ignores the segment until it is retransmitted, but sees
    /// it again after an undo.
    pub fn mark_lost_by_timeout(&mut self, i: u64) {
        // A timeout visits every segment, so that the search may begin again.
        let first = self.next_again().unwrap_or(i).min(i);
        self.lost_from = self.lost_from.min(first);
        self.forget_again();
        self.mark_lost(i);
        let seg = self.at_mut(i);
        if seg.flags & (LINKED | LOST | RETRANS) == LINKED | LOST {
            seg.flags |= TIMED_OUT;
            self.unlink(i);
        }
    }
    /// Removes all loss marks.
    pub fn unmark_all_lost(&mut self) {
        let mut put_back = false;
        for i in self.head..self.tail {
            let seg = self.at_mut(i);
            seg.flags &= !LOST;
            put_back |= seg.is(TIMED_OUT);
        }
        self.lost_out = 0;
        self.counted = 0;
        (self.lost_from, self.lost_to) = (0, 0);
        self.forget_again();
        if put_back {
            self.relink();
        }
    }
    fn relink(&mut self) {
        let mut order: Vec<(u64, u64)> = (self.head..self.tail)
            .filter(|&i| {
                self.at(i).is(LINKED) || self.at(i).flags & (TIMED_OUT | SACKED) == TIMED_OUT
            })
            .map(|i| (self.at(i).sent_us, i))
            .collect();
        order.sort_unstable();
        (self.oldest, self.newest, self.before) = (NIL, NIL, NIL);
        for (_, i) in order {
            self.at_mut(i).flags &= !TIMED_OUT;
            self.link_newest(i);
        }
    }
    /// Forgets all SACKs: the receiver has discarded SACKed data, or is assumed to have done so.
    pub fn forget_sacks(&mut self) {
        for i in self.head..self.tail {
            let seg = self.at_mut(i);
            seg.flags &= !SACKED;
            seg.skip = i;
        }
        self.counted = 0;
        self.sacked_out = 0;
    }
    /// The first segment by sequence that is lost and not retransmitted.
    pub fn next_to_retransmit(&mut self) -> Option<u64> {
        if self.again != NIL {
            if let Some(i) = self.next_again() {
                return Some(i);
            }
        }
        let mut i = self.lost_from.max(self.head);
        while i < self.lost_to {
            if self.waits(i) {
                self.lost_from = i;
                return Some(i);
            }
            i = self.unsacked_from(i + 1);
        }
        self.lost_from = self.lost_from.max(self.lost_to);
        None
    }
    /// The first segment below the range that still waits again.
    #[cold]
    fn next_again(&mut self) -> Option<u64> {
        while self.again != NIL {
            if self.again >= self.head && self.waits(self.again) {
                return Some(self.again);
            }
            let next = self.lost_again.as_mut().and_then(|others| others.0.pop());
            self.again = next.map_or(NIL, |Reverse(i)| i);
        }
        None
    }
    /// Removes all segments below the range.
    fn forget_again(&mut self) {
        self.again = NIL;
        if let Some(others) = &mut self.lost_again {
            others.0.clear();
        }
    }
    /// Returns whether segment `i` waits for a retransmission.
    #[inline]
    fn waits(&self, i: u64) -> bool {
        self.at(i).flags & (LOST | RETRANS | SACKED) == LOST
    }
    /// Returns whether the next segment of the same super-packet also waits for retransmission.
    pub fn lost_with_next(&self, i: u64) -> bool {
        self.at(i).is(GLUED)
            && i + 1 < self.tail
            && self.at(i + 1).flags & (LOST | RETRANS | SACKED) == LOST
    }
    /// Returns whether a retransmission is in flight, or the first segment was ever retransmitted.
    pub fn any_retransmitted(&self) -> bool {
        self.retrans_out > 0 || self.first().is_some_and(|s| s.is(EVER_RETRANS))
    }
    /// Numbers of the segments in the super-packet of segment `i`.
    pub fn buffer_of(&self, i: u64) -> core::ops::Range<u64> {
        let (mut first, mut end) = (i, i + 1);
        while first > self.head && self.at(first - 1).is(GLUED) {
            first -= 1;
        }
        while end < self.tail && self.at(end - 1).is(GLUED) {
            end += 1;
        }
        first..end
    }
    /// Numbers of all segments in flight, by sequence.
    pub fn numbers(&self) -> core::ops::Range<u64> {
        self.head..self.tail
    }
}

#[cfg(test)]
pub(super) mod tests;
