//! Which datagrams were echoed a moment ago: by it an echo knows its own answers when another one sends them back.
//!
//! A table of fixed size, one place for each remainder of a hash under a random key, so that nobody outside can aim at a place. An
//! entry keeps its place for a second. Of datagrams that go round between two echoes and share a place, the one that is remembered is
//! dropped when it comes back, and another one takes the place a second later: what goes round dies out.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

/// An entry counts for so long, ns.
const LASTS: u64 = 1_000_000_000;
/// Bytes that are compared, from the beginning and from the end.
const COMPARED: (usize, usize) = (256, 64);

/// Datagrams that were seen.
#[derive(Debug)]
pub struct Repeats {
    key: RandomState,
    /// The hash, and when it was seen, ns.
    seen: Vec<(u64, u64)>,
}

impl Repeats {
    /// For up to `places` of them; with none, nothing ever comes again.
    pub fn new(places: usize) -> Repeats {
        Repeats {
            key: RandomState::new(),
            seen: vec![(0, 0); places],
        }
    }
    /// Whether these bytes came from there within the last second; if not, they are remembered where there is a place.
    pub fn again(&mut self, from: &impl Hash, bytes: &[u8], now: u64) -> bool {
        if self.seen.is_empty() {
            return false;
        }
        let mut hasher = self.key.build_hasher();
        from.hash(&mut hasher);
        bytes.len().hash(&mut hasher);
        hasher.write(&bytes[..bytes.len().min(COMPARED.0)]);
        hasher.write(&bytes[bytes.len().saturating_sub(COMPARED.1)..]);
        let hash = hasher.finish();
        let at = hash as usize % self.seen.len();
        let before = self.seen[at];
        let young = before.1 != 0 && now < before.1 + LASTS;
        if !young {
            self.seen[at] = (hash, now);
        }
        young && before.0 == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_from_the_same_place_count_for_a_second() {
        let mut repeats = Repeats::new(1 << 12);
        assert!(!repeats.again(&1, b"hello", 5));
        assert!(repeats.again(&1, b"hello", 6));
        assert!(!repeats.again(&2, b"hello", 7) && !repeats.again(&1, b"hallo", 8));
        assert!(!repeats.again(&1, b"hello", 6 + LASTS));
        assert!(!Repeats::new(0).again(&1, b"hello", 5));
    }

    #[test]
    fn a_crowd_that_goes_round_dies_out() {
        let mut repeats = Repeats::new(1 << 16);
        let mut round: Vec<u32> = (0..5000).collect();
        for cycle in 0..40 {
            round.retain(|n| !repeats.again(&1, &n.to_be_bytes(), 1 + cycle * LASTS / 4));
        }
        assert!(round.is_empty(), "{} are left", round.len());
    }
}
