//! Out-of-order data, and the SACK blocks that report it.
//!
//! The blocks are Linux's: at most four are kept, the newest first. A new segment extends the block
//! that it touches. A new segment that touches no block begins a new block, which evicts the oldest
//! block if there are four. Beside timestamps, an ACK has room for three blocks.

use crate::tcp::wire::Range;
use alloc::collections::VecDeque;

const REMEMBERED: usize = 4;
/// A pending compressed ACK is sent before a new block, or a block with this index or a higher one,
/// comes to the front.
const EXPECTED: usize = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    /// Disjoint and ascending, all above the next expected byte.
    arrived: VecDeque<Range>,
    /// The kernel memory of the data, in bytes.
    pub truesize: u64,
    blocks: [Range; REMEMBERED],
    n_blocks: u8,
    /// Payload of a full segment, in bytes.
    mss: u32,
}

fn touches(a: Range, b: Range) -> bool {
    (a.start <= b.end) & (b.start <= a.end)
}
fn union(a: Range, b: Range) -> Range {
    Range {
        start: a.start.min(b.start),
        end: a.end.max(b.end),
    }
}

impl Holes {
    /// No data behind a hole; full segments have `mss` bytes.
    pub fn new(mss: u32) -> Holes {
        Holes {
            mss,
            ..Holes::default()
        }
    }
    #[inline]
    fn blocks_len(&self) -> usize {
        usize::from(self.n_blocks)
    }
    /// Payload of a full segment, in bytes.
    pub fn mss(&self) -> u32 {
        self.mss
    }
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }
    /// The first and the last range.
    #[inline]
    pub fn ends(&self) -> Option<(&Range, &Range)> {
        self.arrived.front().zip(self.arrived.back())
    }
    /// The end of the last range.
    #[inline]
    pub fn end(&self) -> Option<u64> {
        self.arrived.back().map(|range| range.end)
    }
    /// Number of bytes in all ranges.
    pub fn bytes(&self) -> u64 {
        self.arrived
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }
    /// The index of the first range that ends at or after `start`. Arrivals are mostly at the end,
    /// fills at the front.
    fn place(&self, start: u64) -> usize {
        match self.arrived.back() {
            Some(last) if last.end < start => self.arrived.len(),
            Some(last) if last.start <= start => self.arrived.len() - 1,
            _ => self.arrived.partition_point(|r| r.end < start),
        }
    }
    /// Adds `range` beyond a hole; returns whether all of it is a duplicate.
    pub fn arrive(&mut self, range: Range) -> bool {
        if let Some(last) = self.arrived.back_mut() {
            if range.start == last.end && range.end > last.end {
                self.truesize -= super::window::truesize_of(*last, self.mss);
                last.end = range.end;
                self.truesize += super::window::truesize_of(*last, self.mss);
                return false;
            }
        }
        let at = self.place(range.start);
        let Some(next) = self.arrived.get_mut(at) else {
            self.truesize += super::window::truesize_of(range, self.mss);
            self.arrived.push_back(range);
            return false;
        };
        if next.start <= range.start && range.end <= next.end {
            return true;
        }
        if !touches(range, *next) {
            self.truesize += super::window::truesize_of(range, self.mss);
            self.arrived.insert(at, range);
            return false;
        }
        let mut whole = union(range, *next);
        self.truesize -= super::window::truesize_of(*next, self.mss);
        *next = whole;
        // It may touch the following ranges.
        while let Some(&next) = self
            .arrived
            .get(at + 1)
            .filter(|next| touches(whole, **next))
        {
            whole = union(whole, next);
            self.truesize -= super::window::truesize_of(next, self.mss);
            self.arrived.remove(at + 1);
            self.arrived[at] = whole;
        }
        self.truesize += super::window::truesize_of(whole, self.mss);
        false
    }
    /// Adds `range` to the last range and to the newest block, if it begins where both end. Returns
    /// whether it was added. The result is that of [`arrive`](Self::arrive) and of
    /// [`report`](Self::report). Most data behind a hole arrives like this.
    #[inline(always)]
    pub fn extend(&mut self, range: Range) -> bool {
        let Some(last) = self.arrived.back_mut() else {
            return false;
        };
        let block = &mut self.blocks[0];
        let follows = range.start == last.end && range.start == block.end && self.n_blocks > 0;
        if !follows || range.end <= range.start {
            return false;
        }
        let before = super::window::truesize_of(*last, self.mss);
        (last.end, block.end) = (range.end, range.end);
        self.truesize += super::window::truesize_of(*last, self.mss) - before;
        true
    }
    /// Everything below `nxt` has arrived: joins waiting ranges and returns the next expected byte.
    pub fn fill(&mut self, mut nxt: u64) -> u64 {
        let before = self.arrived.len();
        while let Some(&first) = self.arrived.front() {
            if first.start > nxt {
                break;
            }
            self.truesize -= super::window::truesize_of(first, self.mss);
            nxt = nxt.max(first.end);
            self.arrived.pop_front();
        }
        if self.arrived.is_empty() {
            self.truesize = 0;
            self.n_blocks = 0;
        } else if self.arrived.len() != before || self.n_blocks > 0 {
            let mut kept = 0;
            for i in 0..self.blocks_len() {
                if self.blocks[i].start > nxt {
                    self.blocks[kept] = self.blocks[i];
                    kept += 1;
                }
            }
            self.n_blocks = kept as u8;
        }
        nxt
    }
    /// The index of the block that `range` would extend; the number of blocks for a new one.
    pub fn place_of_block(&self, range: Range) -> usize {
        let blocks = &self.blocks[..self.blocks_len()];
        blocks
            .iter()
            .position(|b| touches(*b, range))
            .unwrap_or(self.blocks_len())
    }
    /// Returns whether a pending compressed ACK must be sent before the block with this index comes
    /// to the front.
    pub fn is_unexpected(&self, place: usize) -> bool {
        self.n_blocks > 0 && place >= EXPECTED
    }
    /// Moves the block with this index, which contains `range`, to the front.
    pub fn report(&mut self, place: usize, range: Range) {
        let known = place < self.blocks_len();
        let first = if known {
            union(self.blocks[place], range)
        } else {
            range
        };
        if !known {
            self.n_blocks = (self.n_blocks + 1).min(REMEMBERED as u8);
        }
        let mut len = self.blocks_len();
        if place > 0 {
            self.blocks.copy_within(..place.min(len - 1), 1);
        }
        self.blocks[0] = first;
        // The newest block seldom overlaps others. One branch for all of them is predicted well.
        let overlaps = |i: usize| (i < len) & touches(first, self.blocks[i]);
        let some = overlaps(1) | overlaps(2) | overlaps(3);
        let mut i = if known && some { 1 } else { len };
        while i < len {
            if touches(self.blocks[0], self.blocks[i]) {
                self.blocks[0] = union(self.blocks[0], self.blocks[i]);
                self.blocks.copy_within(i + 1..len, i);
                len -= 1;
            } else {
                i += 1;
            }
        }
        self.n_blocks = len as u8;
    }
    /// Copies the newest blocks to `to`; returns their number.
    #[inline]
    pub fn copy_blocks(&self, to: &mut [Range]) -> usize {
        let n = self.blocks_len().min(to.len());
        for (to, block) in to.iter_mut().zip(&self.blocks[..n]) {
            *to = *block;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, end: u64) -> Range {
        Range { start, end }
    }
    fn arrives(holes: &mut Holes, range: Range) {
        assert!(!holes.arrive(range));
        holes.report(holes.place_of_block(range), range);
    }

    #[test]
    fn a_fifth_block_pushes_the_oldest_out_and_it_comes_back_only_as_far_as_seen_again() {
        let mut h = Holes::new(crate::tcp::MSS);
        for i in 1..=5 {
            arrives(&mut h, r(i * 20, i * 20 + 10));
        }
        assert_eq!(h.blocks[0], r(100, 110));
        assert_eq!(usize::from(h.n_blocks), 4);
        arrives(&mut h, r(30, 35));
        assert_eq!(h.blocks[0], r(30, 35));
        assert!(h.arrive(r(20, 35)) && !h.arrive(r(20, 36)));
    }

    /// Data at random, most of which follows the last range or the newest block: `extend` changes
    /// nothing, or has the results of `arrive` and `report`.
    #[test]
    fn extending_the_newest_block_has_the_results_of_any_arrival() {
        let mut extended = 0;
        for seed in 0..200 {
            let mut rng = crate::rng::Rng::named(seed, "extend");
            let mut holes = Holes::new(crate::tcp::MSS);
            let mut nxt = 0;
            for _ in 0..200 {
                let end = holes.end().unwrap_or(nxt);
                let start = match rng.below(8) {
                    0 => end + 1000 * (1 + rng.below(3)),
                    1 => nxt + 1000 * (1 + rng.below(30)),
                    2 => holes.blocks[0].end,
                    _ => end,
                };
                let range = r(start.max(nxt + 1000), start.max(nxt + 1000) + 1000);
                let (mut one, mut other) = (holes.clone(), holes);
                let place = other.place_of_block(range);
                let unexpected = other.is_unexpected(place);
                let duplicate = other.arrive(range);
                other.report(place, range);
                if one.extend(range) {
                    assert!(!duplicate && !unexpected);
                    extended += 1;
                } else {
                    one.arrive(range);
                    one.report(place, range);
                }
                assert_eq!(alloc::format!("{one:?}"), alloc::format!("{other:?}"));
                holes = one;
                if rng.below(5) == 0 {
                    nxt = holes.fill(nxt + 1000 * rng.below(5));
                }
            }
        }
        assert!(extended > 10_000, "{extended}");
    }

    #[test]
    fn filling_joins_what_waited() {
        let mut h = Holes::new(crate::tcp::MSS);
        for x in [r(20, 30), r(40, 50), r(30, 40)] {
            arrives(&mut h, x);
        }
        assert_eq!(h.fill(10), 10);
        assert_eq!(h.fill(20), 50);
        assert!(h.is_empty());
        assert_eq!(usize::from(h.n_blocks), 0);
    }
}
