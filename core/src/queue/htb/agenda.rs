//! A priority queue of numbered entries (classes), in the order of their times. Entries with equal
//! times are in the order of insertion.
//!
//! The entries form a binary heap. The position of each entry in the heap is stored, so that an
//! entry can be removed from the middle of the heap. The heap allocates memory once.

use crate::units::Time;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// A heap of entries with the numbers from 0 up.
pub(super) struct Agenda {
    heap: Vec<(Time, u64, u32)>,
    /// The position of each entry in the heap; [`NONE`] if it is not in the heap.
    place: Vec<u32>,
    /// Number of insertions so far.
    came: u64,
}

impl Agenda {
    /// An empty heap for entries with numbers below `size`.
    pub fn new(size: usize) -> Agenda {
        Agenda {
            heap: Vec::with_capacity(size),
            place: alloc::vec![NONE; size],
            came: 0,
        }
    }
    /// The time and the number of the first entry.
    #[inline]
    pub fn first(&self) -> Option<(Time, usize)> {
        self.heap
            .first()
            .map(|(at, _, number)| (*at, *number as usize))
    }
    /// Adds an entry that is not in the heap.
    pub fn add(&mut self, number: usize, at: Time) {
        self.came += 1;
        self.heap.push((at, self.came, number as u32));
        self.rise(self.heap.len() - 1);
    }
    /// Removes an entry, if it is in the heap.
    pub fn remove(&mut self, number: usize) {
        let at = self.place[number] as usize;
        if at >= self.heap.len() {
            return;
        }
        self.place[number] = NONE;
        let last = self.heap.len() - 1;
        self.heap.swap(at, last);
        self.heap.pop();
        if at < last {
            self.rise(at);
            self.sink(at);
        }
    }
    /// Sets the time of an entry, or removes it if `at` is `None`.
    #[inline]
    pub fn set(&mut self, number: usize, at: Option<Time>) {
        let known = self
            .heap
            .get(self.place[number] as usize)
            .map(|(at, ..)| *at);
        if known != at {
            self.remove(number);
            if let Some(at) = at {
                self.add(number, at);
            }
        }
    }
    fn before(&self, a: usize, b: usize) -> bool {
        let key = |i: usize| (self.heap[i].0, self.heap[i].1);
        key(a) < key(b)
    }
    fn settle(&mut self, at: usize) {
        self.place[self.heap[at].2 as usize] = at as u32;
    }
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            self.settle(at);
            at = (at - 1) / 2;
        }
        self.settle(at);
    }
    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return self.settle(at);
            }
            self.heap.swap(at, least);
            self.settle(at);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_orders_as_a_sorted_list_does() {
        let mut rng = Rng::named(1, "agenda");
        let (mut agenda, mut list, mut came) = (Agenda::new(100), BTreeMap::new(), 0);
        let mut keys = [None; 100];
        for _ in 0..10_000 {
            let number = rng.below(100) as usize;
            let at = Some(Time::from_ns(rng.below(50))).filter(|_| rng.below(3) > 0);
            if keys[number].map(|(at, _): (Time, u64)| at) != at {
                keys[number].take().map(|key| list.remove(&key));
                if let Some(at) = at {
                    came += 1;
                    keys[number] = Some((at, came));
                    list.insert((at, came), number);
                }
            }
            agenda.set(number, at);
            let first = list
                .first_key_value()
                .map(|((at, _), number)| (*at, *number));
            assert_eq!(agenda.first(), first);
        }
    }
}
