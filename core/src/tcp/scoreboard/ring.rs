//! The places of the ring. Segments take one place after the other, and then begin again. A small
//! window in a large ring would use all places in turn, although it needs few. With many flows,
//! they would not stay in the processor's cache. Therefore only as many places are in use as the
//! window needs. Their number never changes a result.

use super::{Place, Scoreboard};

/// Least number of places in use, if there are any.
const LEAST: usize = 16;

impl Scoreboard {
    /// Index of the place of segment `i`.
    #[inline(always)]
    pub(super) fn place(&self, i: u64) -> usize {
        i as usize & self.mask as usize
    }
    /// Number of places in use.
    #[inline]
    pub(super) fn places(&self) -> usize {
        (self.mask as usize + 1).min(self.ring.len())
    }
    /// Doubles the number of places in use, and allocates them if there are no others.
    #[cold]
    pub(super) fn grow(&mut self) {
        let places = self.places();
        if places < self.ring.len() {
            return self.use_places(2 * places);
        }
        let size = (2 * places).max(LEAST);
        let mut ring = alloc::vec![Place::default(); size];
        for i in self.head..self.tail {
            ring[i as usize & (size - 1)].0 = *self.at(i);
        }
        (self.ring, self.mask) = (ring.into_boxed_slice(), (size - 1) as u32);
    }
    /// Expects at most `segments` in flight for some time. Places that they do not need are no
    /// longer used, but their memory is kept.
    pub fn fit(&mut self, segments: u64) {
        let most = segments.max(self.tail - self.head) as usize;
        let places = most.next_power_of_two().max(LEAST);
        if places < self.places() {
            self.use_places(places);
        }
    }
    /// Uses the first `places` of the ring. A place that is in use before and afterwards has the
    /// same segment. Therefore no segment overwrites another one.
    #[cold]
    fn use_places(&mut self, places: usize) {
        let mask = places - 1;
        for i in self.head..self.tail {
            let (from, to) = (self.place(i), i as usize & mask);
            if from != to {
                self.ring[to] = self.ring[from];
            }
        }
        self.mask = mask as u32;
    }
}
