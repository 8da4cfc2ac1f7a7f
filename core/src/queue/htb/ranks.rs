//! A set of small numbers with a search for the next number in the set. Each number is a bit; above
//! the bits are layers of summary bits, one for each 64 bits of the layer below. In a set of a
//! thousand numbers, a search reads at most three words.

use alloc::vec::Vec;

/// A set of numbers below a size.
pub(super) struct Ranks {
    /// The lowest layer has a bit for each number. Each further layer has a bit for each word of
    /// the layer below, set if this word is not 0.
    layers: Vec<Vec<u64>>,
}

impl Ranks {
    /// An empty set of numbers below `size`.
    pub fn new(size: usize) -> Ranks {
        let mut layers = Vec::new();
        let mut words = size.div_ceil(64).max(1);
        loop {
            layers.push(alloc::vec![0; words]);
            if words == 1 {
                return Ranks { layers };
            }
            words = words.div_ceil(64);
        }
    }
    #[inline]
    pub fn insert(&mut self, mut number: usize) {
        for layer in &mut self.layers {
            layer[number / 64] |= 1 << (number % 64);
            number /= 64;
        }
    }
    #[inline]
    pub fn remove(&mut self, mut number: usize) {
        for layer in &mut self.layers {
            let word = &mut layer[number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                return;
            }
            number /= 64;
        }
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.layers.last().is_none_or(|top| top[0] == 0)
    }
    /// The least number in the set that is at least `number`.
    #[inline]
    pub fn from(&self, number: usize) -> Option<usize> {
        let mut at = number;
        for (height, layer) in self.layers.iter().enumerate() {
            let word = layer.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let first = at / 64 * 64 + word.trailing_zeros() as usize;
                let down = self.layers[..height].iter().rev();
                return Some(down.fold(first, |at, layer| {
                    at * 64 + layer[at].trailing_zeros() as usize
                }));
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_returns_the_results_of_a_sorted_set() {
        let mut rng = Rng::named(1, "ranks");
        for size in [1, 63, 64, 65, 4096, 4097, 10_000] {
            let (mut ranks, mut set) = (Ranks::new(size), BTreeSet::new());
            for _ in 0..2000 {
                let number = rng.below(size as u64) as usize;
                if rng.below(3) > 0 {
                    ranks.insert(number);
                    set.insert(number);
                } else {
                    ranks.remove(number);
                    set.remove(&number);
                }
                let from = rng.below(size as u64 + 1) as usize;
                assert_eq!(
                    ranks.from(from),
                    set.range(from..).next().copied(),
                    "{size}"
                );
                assert_eq!(ranks.is_empty(), set.is_empty());
            }
        }
    }
}
