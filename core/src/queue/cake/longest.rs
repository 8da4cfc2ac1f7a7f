//! The longest of all queues: a heap that is built at the first overflow and maintained for 65 535
//! dequeues after the last overflow.
//!
//! As in Linux 6.12: an entry that sinks continues only while its child is larger than the entry
//! that has just replaced it. In a valid heap, an entry therefore sinks by one level only, so the
//! top of the heap is not always the longest queue. The drops of Linux show this: in a recording of
//! Linux with 2605 drops, this heap selects the same packets for dropping. A correct heap would
//! select 655 other packets (`cake-longest`). Source: measurement of Linux 6.12.

use super::hash::QUEUES;
use crate::units::Bytes;
use alloc::vec::Vec;

/// Maximum number of tins; the queues of all tins have entries in the heap.
const TINS: usize = 8;

/// The index of the queue `queue` of the tin `tin` in the arrays of the heap.
#[inline]
fn slot(tin: usize, queue: usize) -> usize {
    queue * TINS + tin
}

/// Number of dequeues for which the heap is maintained after an overflow.
const KEPT: u16 = u16::MAX;

/// Bytes of all queues while the heap is in use, and the longest queue.
pub struct Longest {
    bytes: Vec<u64>,
    heap: Vec<u16>,
    place: Vec<u16>,
    kept: u16,
}

impl Default for Longest {
    /// A heap of empty queues.
    fn default() -> Longest {
        let slots = TINS * QUEUES;
        Longest {
            bytes: alloc::vec![0; slots],
            heap: (0..slots as u16).collect(),
            place: (0..slots as u16).collect(),
            kept: 0,
        }
    }
}

impl Longest {
    /// Records a packet of `size` bytes that joined a queue.
    #[inline]
    pub fn joined(&mut self, tin: usize, queue: usize, size: Bytes) {
        if self.kept > 0 {
            self.increase(slot(tin, queue), size);
        }
    }
    #[inline(never)]
    fn increase(&mut self, slot: usize, size: Bytes) {
        self.bytes[slot] += size.get();
        self.rise(usize::from(self.place[slot]));
    }
    /// Records a packet of `size` bytes that left a queue.
    #[inline]
    pub fn left(&mut self, tin: usize, queue: usize, size: Bytes) {
        if self.kept > 0 {
            self.decrease(slot(tin, queue), size);
        }
    }
    #[inline(never)]
    fn decrease(&mut self, slot: usize, size: Bytes) {
        self.bytes[slot] -= size.get();
        self.sink(usize::from(self.place[slot]));
    }
    /// Records a packet of `size` bytes that left a queue by a dequeue.
    #[inline]
    pub fn sent(&mut self, tin: usize, queue: usize, size: Bytes) {
        if self.kept > 0 {
            self.decrease(slot(tin, queue), size);
            self.kept -= 1;
        }
    }
    /// Returns the tin and the queue at the top of the heap, which must drop a packet. `tins` is
    /// the number of tins; `bytes(tin, queue)` returns the bytes in a queue.
    #[cold]
    pub fn longest(&mut self, tins: usize, bytes: impl Fn(usize, usize) -> u64) -> (usize, usize) {
        if self.kept == 0 {
            for (tin, queue) in (0..tins).flat_map(|tin| (0..QUEUES).map(move |queue| (tin, queue)))
            {
                self.bytes[slot(tin, queue)] = bytes(tin, queue);
            }
            (0..self.heap.len() / 2).rev().for_each(|at| self.sink(at));
        }
        self.kept = KEPT;
        let slot = usize::from(self.heap[0]);
        (slot % TINS, slot / TINS)
    }
    /// Called if the queue at the top was empty: the next overflow builds the heap anew.
    pub fn invalidate(&mut self) {
        self.kept = 0;
    }
    fn of(&self, at: usize) -> Option<u64> {
        self.heap
            .get(at)
            .map(|queue| self.bytes[usize::from(*queue)])
    }
    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[usize::from(self.heap[a])] = a as u16;
        self.place[usize::from(self.heap[b])] = b as u16;
    }
    fn sink(&mut self, mut at: usize) {
        // `most` is not set to the sinking entry again after a swap: see the header.
        let mut most = self.of(at);
        loop {
            let mut larger = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if self.of(child) > most {
                    (larger, most) = (child, self.of(child));
                }
            }
            if larger == at {
                return;
            }
            self.swap(at, larger);
            at = larger;
        }
    }
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.of((at - 1) / 2) < self.of(at) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that join or leave after the first call of `longest` count at the next call.
    #[test]
    fn heap_keeps_the_longest_queue_at_the_top() {
        let mut longest = Longest::default();
        assert_eq!(
            longest.longest(1, |_, queue| if queue == 3 { 200 } else { 0 }),
            (0, 3)
        );
        longest.joined(0, 5, Bytes::new(300));
        assert_eq!(longest.longest(1, |_, _| 0), (0, 5));
        longest.left(0, 5, Bytes::new(200));
        assert_eq!(longest.longest(1, |_, _| 0), (0, 3));
    }
}
