//! Three chains of queues: the new, the old, and those that are empty but whose control law has not come to rest.
//!
//! A queue is in one of them or in none, and moves to the tail of another from wherever it stands, at one cost. The old ones
//! go round: a sweep visits each once, and who has used up its turn stands in the next sweep, or in a later one if it knows that it will
//! not have a turn before. Sweeps in which nobody stands cost nothing.

use super::hash::QUEUES;

/// One of the chains.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Chain {
    /// Those that have just begun.
    New,
    /// The empty ones.
    Decaying,
}

/// Chains beside the sweeps.
const CHAINS: usize = 2;
/// Sweeps that are told apart, the present one among them: a power of two.
const SWEEPS: usize = 1024;
/// How far on a queue may be put.
pub const FARTHEST: u64 = SWEEPS as u64 - 1;

#[derive(Copy, Clone)]
struct Link {
    next: u16,
    before: u16,
}

/// The chains of a tin: rings, each closed by a place behind the queues.
pub struct Chains {
    links: [Link; QUEUES + CHAINS + SWEEPS],
    /// The present sweep, modulo their number.
    sweep: usize,
    /// A bit for each sweep that has queues, or had.
    filled: [u64; SWEEPS / 64],
}

impl Default for Chains {
    /// Without any queue.
    fn default() -> Chains {
        Chains {
            links: core::array::from_fn(|at| Link {
                next: at as u16,
                before: at as u16,
            }),
            sweep: 0,
            filled: [0; SWEEPS / 64],
        }
    }
}

impl Chains {
    /// The first of a chain.
    #[inline]
    pub fn first(&self, chain: Chain) -> Option<usize> {
        self.first_of(QUEUES + chain as usize)
    }
    #[inline]
    fn first_of(&self, ring: usize) -> Option<usize> {
        let first = usize::from(self.links[ring].next);
        (first < QUEUES).then_some(first)
    }
    /// The first of the old ones.
    #[inline]
    pub fn first_old(&mut self) -> Option<usize> {
        self.first_of(QUEUES + CHAINS + self.sweep)
            .or_else(|| self.next_sweep())
    }
    /// Goes on to the next sweep that has a queue.
    fn next_sweep(&mut self) -> Option<usize> {
        let mut word = self.sweep / 64;
        // Of the present word first those behind the present sweep, at last those before it.
        let mut mask = !0 << (self.sweep % 64);
        for _ in 0..=self.filled.len() {
            loop {
                let bits = self.filled[word] & mask;
                if bits == 0 {
                    break;
                }
                let sweep = word * 64 + bits.trailing_zeros() as usize;
                if let Some(first) = self.first_of(QUEUES + CHAINS + sweep) {
                    self.sweep = sweep;
                    return Some(first);
                }
                self.filled[word] &= !(1 << (sweep % 64));
            }
            word = (word + 1) % self.filled.len();
            mask = !0;
        }
        None
    }
    /// Takes a queue out.
    #[inline]
    pub fn leave(&mut self, queue: usize) {
        let Link { next, before } = self.links[queue];
        self.links[usize::from(before)].next = next;
        self.links[usize::from(next)].before = before;
        self.links[queue] = Link {
            next: queue as u16,
            before: queue as u16,
        };
    }
    /// Puts a queue at the tail of a chain, from wherever it is.
    #[inline]
    pub fn to_tail(&mut self, queue: usize, chain: Chain) {
        self.append(queue, QUEUES + chain as usize);
    }
    /// Puts a queue behind those that stand so many sweeps on, 1 to [`FARTHEST`], from wherever it is.
    #[inline]
    pub fn to_sweep(&mut self, queue: usize, ahead: u64) {
        let sweep = (self.sweep + ahead as usize) % SWEEPS;
        self.filled[sweep / 64] |= 1 << (sweep % 64);
        self.append(queue, QUEUES + CHAINS + sweep);
    }
    #[inline]
    fn append(&mut self, queue: usize, ring: usize) {
        let Link { next, before } = self.links[queue];
        self.links[usize::from(before)].next = next;
        self.links[usize::from(next)].before = before;
        let last = self.links[ring].before;
        self.links[queue] = Link {
            next: ring as u16,
            before: last,
        };
        self.links[usize::from(last)].next = queue as u16;
        self.links[ring].before = queue as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn old_queues_come_up_sweep_by_sweep_in_the_order_in_which_they_were_put() {
        let mut chains = Chains::default();
        for (queue, ahead) in [(5, 1), (6, 3), (7, 1), (8, FARTHEST), (9, 3)] {
            chains.to_sweep(queue, ahead);
        }
        let mut came = Vec::new();
        while let Some(queue) = chains.first_old() {
            came.push(queue);
            match queue {
                // Goes on behind those of the third sweep: the present one is the first.
                5 => chains.to_sweep(5, 2),
                _ => chains.leave(queue),
            }
            if came.len() == 4 {
                // Goes one sweep before the one that was put farthest on.
                chains.to_sweep(1, FARTHEST - 4);
            }
            if queue == 5 && came.len() > 4 {
                chains.leave(5);
            }
        }
        assert_eq!(came, [5, 7, 6, 9, 5, 1, 8]);
    }
}
