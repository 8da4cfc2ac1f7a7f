//! Which of all queues is the longest: a heap that is built at the first overflow and kept up for a while after the last.
//!
//! As in Linux 6.12: an entry that must sink does so by one place only, so that the one at the top is not always the longest. That is
//! seen in what is dropped (`core/tests/queue_cake.rs`). Source: measurement of Linux 6.12.

use alloc::vec::Vec;

/// Dequeues for which the heap is kept up after an overflow.
const KEPT: u16 = u16::MAX;

/// Bytes of all queues, and who has most.
pub struct Longest {
    bytes: Vec<u64>,
    heap: Vec<u16>,
    place: Vec<u16>,
    kept: u16,
}

impl Longest {
    /// For so many queues, all empty.
    pub fn new(queues: usize) -> Longest {
        let queues = queues.min(usize::from(u16::MAX));
        Longest {
            bytes: alloc::vec![0; queues],
            heap: (0..queues as u16).collect(),
            place: (0..queues as u16).collect(),
            kept: 0,
        }
    }
    /// Bytes of a queue.
    pub fn bytes(&self, queue: usize) -> u64 {
        self.bytes[queue]
    }
    /// A packet joins a queue.
    #[inline]
    pub fn add(&mut self, queue: usize, bytes: u64) {
        self.bytes[queue] += bytes;
        if self.kept > 0 {
            self.rise(usize::from(self.place[queue]));
        }
    }
    /// A packet leaves a queue.
    #[inline]
    pub fn remove(&mut self, queue: usize, bytes: u64) {
        self.bytes[queue] -= bytes;
        if self.kept > 0 {
            self.sink(usize::from(self.place[queue]));
        }
    }
    /// A packet was sent.
    #[inline]
    pub fn sent(&mut self) {
        self.kept = self.kept.saturating_sub(1);
    }
    /// The queue that is to lose a packet.
    #[cold]
    pub fn longest(&mut self) -> usize {
        if self.kept == 0 {
            (0..self.heap.len() / 2).rev().for_each(|at| self.sink(at));
        }
        self.kept = KEPT;
        usize::from(self.heap[0])
    }
    /// It had none: the heap is built anew next time.
    pub fn was_wrong(&mut self) {
        self.kept = 0;
    }
    fn of(&self, at: usize) -> Option<u64> {
        self.heap.get(at).map(|queue| self.bytes[usize::from(*queue)])
    }
    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[usize::from(self.heap[a])] = a as u16;
        self.place[usize::from(self.heap[b])] = b as u16;
    }
    fn sink(&mut self, at: usize) {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let larger = if self.of(right) > self.of(left) { right } else { left };
        if self.of(larger) > self.of(at) {
            self.swap(at, larger);
        }
    }
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.of((at - 1) / 2) < self.of(at) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }
}
