//! Three chains of queues: the new, the old, and those that are empty but whose control law has not come to rest.
//!
//! A queue is in one of them or in none, and moves to the tail of another from wherever it stands, at one cost.

use super::hash::QUEUES;

/// One of the chains.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Chain {
    /// Those that have just begun.
    New,
    /// Those that have used up a turn.
    Old,
    /// The empty ones.
    Decaying,
}

#[derive(Copy, Clone)]
struct Link {
    next: u16,
    before: u16,
}

/// The chains of a tin: rings, each closed by a place behind the queues.
pub struct Chains {
    links: [Link; QUEUES + 3],
}

impl Default for Chains {
    /// Without any queue.
    fn default() -> Chains {
        Chains {
            links: core::array::from_fn(|at| Link {
                next: at as u16,
                before: at as u16,
            }),
        }
    }
}

impl Chains {
    /// The first of a chain.
    #[inline]
    pub fn first(&self, chain: Chain) -> Option<usize> {
        let first = usize::from(self.links[QUEUES + chain as usize].next);
        (first < QUEUES).then_some(first)
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
        self.leave(queue);
        let ring = QUEUES + chain as usize;
        let last = self.links[ring].before;
        self.links[queue] = Link {
            next: ring as u16,
            before: last,
        };
        self.links[usize::from(last)].next = queue as u16;
        self.links[ring].before = queue as u16;
    }
}
