//! Three chains of queues of a tin: new queues, old queues, and decaying queues (empty queues whose
//! control law still decays).
//!
//! A queue is in at most one of the chains. The chains of new and old queues are lists with removal
//! at the head and insertion at the tail, with one link per queue. The old queues are served in
//! sweeps: a sweep visits each of its queues once. A queue that has used up its turn moves to the
//! next sweep in which it may send. Sweeps without a queue cost nothing. A decaying queue that gets
//! a packet leaves from the middle of its chain, so this chain is linked in both directions. The
//! chain of decaying queues is a ring, whose head moves to its tail in one step, because this
//! happens with every dequeue.

use super::hash::QUEUES;

/// Number of sweeps, including the present one: a power of two.
const SWEEPS: usize = 1024;
/// The maximum number of sweeps from the present one to that of a queue.
pub const FARTHEST: u64 = SWEEPS as u64 - 1;
/// The number of a queue, or [`NONE`].
type Link = u32;
/// The value of a link to no queue.
const NONE: Link = Link::MAX;

/// The first and the last queue of a list. In an empty list, `head` is [`NONE`] and `tail` is
/// undefined.
#[derive(Copy, Clone)]
struct Ends {
    head: Link,
    tail: Link,
}

/// A chain from which the first queue can be removed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Chain {
    /// New queues.
    New,
    /// Queues of the present sweep.
    Old,
}

/// The chains of a tin.
pub struct Chains {
    /// The queue after each queue in its chain.
    next: [Link; QUEUES],
    /// The queue before each decaying queue.
    before: [Link; QUEUES],
    new: Ends,
    sweeps: [Ends; SWEEPS],
    /// The index of the present sweep.
    sweep: usize,
    /// The head of the ring of decaying queues.
    decaying: Link,
    /// One bit per sweep, set if the sweep has queues or had queues before.
    filled: [u64; SWEEPS / 64],
}

impl Default for Chains {
    /// Empty chains.
    fn default() -> Chains {
        let empty = Ends {
            head: NONE,
            tail: NONE,
        };
        Chains {
            next: [NONE; QUEUES],
            before: [NONE; QUEUES],
            new: empty,
            sweeps: [empty; SWEEPS],
            sweep: 0,
            decaying: NONE,
            filled: [0; SWEEPS / 64],
        }
    }
}

/// Returns the number of the queue, or `None` if the link points to no queue.
#[inline]
fn queue(number: Link) -> Option<usize> {
    let queue = number as usize;
    (queue < QUEUES).then_some(queue)
}

impl Ends {
    /// Appends `queue`. The code has no branch, because it is unpredictable whether the list is
    /// empty.
    #[inline]
    fn push(&mut self, next: &mut [Link; QUEUES], queue: usize) {
        let empty = self.head == NONE;
        let last = if empty { queue as Link } else { self.tail };
        self.head = if empty { queue as Link } else { self.head };
        self.tail = queue as Link;
        next[last as usize % QUEUES] = queue as Link;
        next[queue] = NONE;
    }
    #[inline]
    fn pop(&mut self, next: &[Link; QUEUES]) {
        self.head = next[self.head as usize % QUEUES];
    }
}

impl Chains {
    /// The first new queue.
    #[inline]
    pub fn first_new(&self) -> Option<usize> {
        queue(self.new.head)
    }
    /// The first old queue of the present sweep.
    #[inline]
    pub fn first_old(&mut self) -> Option<usize> {
        queue(self.present().head)
    }
    #[inline]
    fn present(&mut self) -> &mut Ends {
        &mut self.sweeps[self.sweep % SWEEPS]
    }
    /// The first decaying queue.
    #[inline]
    pub fn first_decaying(&self) -> Option<usize> {
        queue(self.decaying)
    }
    /// Moves to the next sweep that has a queue. Returns false if no sweep has one.
    #[inline(never)]
    pub fn next_sweep(&mut self) -> bool {
        let mut word = self.sweep / 64;
        // The sweeps from the present one on come first, and those before it in the same word last.
        let mut mask = !0 << (self.sweep % 64);
        for _ in 0..=self.filled.len() {
            loop {
                let bits = self.filled[word] & mask;
                if bits == 0 {
                    break;
                }
                let sweep = word * 64 + bits.trailing_zeros() as usize;
                if self.sweeps[sweep].head != NONE {
                    self.sweep = sweep;
                    return true;
                }
                self.filled[word] &= !(1 << (sweep % 64));
            }
            word = (word + 1) % self.filled.len();
            mask = !0;
        }
        false
    }
    /// Appends a queue that is in no chain to the new queues.
    #[inline]
    pub fn begins(&mut self, queue: usize) {
        self.new.push(&mut self.next, queue);
    }
    /// Appends a queue that is in no chain to a later sweep, 1 to [`FARTHEST`] ahead.
    #[inline]
    pub fn to_sweep(&mut self, queue: usize, ahead: u64) {
        let sweep = (self.sweep + ahead as usize) % SWEEPS;
        self.filled[sweep / 64] |= 1 << (sweep % 64);
        self.sweeps[sweep].push(&mut self.next, queue);
    }
    /// Removes the first queue of a chain.
    #[inline]
    pub fn pop(&mut self, chain: Chain) {
        let ends = match chain {
            Chain::New => &mut self.new,
            Chain::Old => &mut self.sweeps[self.sweep % SWEEPS],
        };
        ends.pop(&self.next);
    }
    /// Moves old queues of the present sweep to the end of the next sweep, in the same order.
    /// Begins with the first queue and ends before the first one for which `goes` returns false.
    #[inline]
    pub fn go_on(&mut self, mut goes: impl FnMut(usize) -> bool) {
        let first = self.present().head;
        let (mut head, mut last) = (first, first);
        while let Some(queue) = queue(head).filter(|queue| goes(*queue)) {
            (last, head) = (head, self.next[queue]);
        }
        if head == first {
            return;
        }
        self.present().head = head;
        let sweep = (self.sweep + 1) % SWEEPS;
        self.filled[sweep / 64] |= 1 << (sweep % 64);
        let to = &mut self.sweeps[sweep];
        if to.head == NONE {
            to.head = first;
        } else {
            self.next[to.tail as usize % QUEUES] = first;
        }
        to.tail = last;
        self.next[last as usize % QUEUES] = NONE;
    }
    /// Appends a queue that is in no chain to the decaying queues.
    #[inline]
    pub fn decays(&mut self, queue: usize) {
        let (head, number) = (self.decaying, queue as Link);
        let head = if head == NONE { number } else { head };
        // If the queue is the only one, it is its own predecessor.
        self.before[queue] = number;
        let last = self.before[head as usize % QUEUES];
        self.decaying = head;
        self.next[last as usize % QUEUES] = number;
        self.before[head as usize % QUEUES] = number;
        self.next[queue] = head;
        self.before[queue] = last;
    }
    /// Moves the first decaying queue, `queue`, to the end.
    #[inline]
    pub fn pass_over(&mut self, queue: usize) {
        self.decaying = self.next[queue];
    }
    /// Removes a decaying queue from any position.
    #[inline]
    pub fn recovers(&mut self, queue: usize) {
        let (next, before) = (self.next[queue], self.before[queue]);
        if self.decaying == queue as Link {
            self.decaying = if next == queue as Link { NONE } else { next };
        }
        self.next[before as usize % QUEUES] = next;
        self.before[next as usize % QUEUES] = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The queue that is served next, and its chain.
    fn first(chains: &mut Chains) -> Option<(usize, Chain)> {
        let new = chains.first_new().map(|queue| (queue, Chain::New));
        if new.is_none() && chains.first_old().is_none() {
            chains.next_sweep();
        }
        new.or_else(|| chains.first_old().map(|queue| (queue, Chain::Old)))
    }

    #[test]
    fn old_queues_come_up_sweep_by_sweep_in_the_order_in_which_they_were_put() {
        let mut chains = Chains::default();
        for (queue, ahead) in [(5, 1), (6, 3), (7, 1), (8, FARTHEST), (9, 3)] {
            chains.to_sweep(queue, ahead);
        }
        let mut came = Vec::new();
        while let Some((queue, chain)) = first(&mut chains) {
            came.push(queue);
            chains.pop(chain);
            if queue == 5 && came.len() == 1 {
                // Behind those of the third sweep: the present one is the first.
                chains.to_sweep(5, 2);
            }
            if came.len() == 4 {
                // One sweep before the farthest one.
                chains.to_sweep(1, FARTHEST - 4);
            }
        }
        assert_eq!(came, [5, 7, 6, 9, 5, 1, 8]);
    }

    #[test]
    fn new_ones_go_first_and_those_that_go_on_keep_their_order() {
        let mut chains = Chains::default();
        for (queue, ahead) in [(5, 1), (6, 1), (7, 1), (8, 2)] {
            chains.to_sweep(queue, ahead);
        }
        assert_eq!(first(&mut chains).map(|(queue, _)| queue), Some(5));
        // 5 and 6 move from the first sweep to the second, which already has 8.
        chains.go_on(|queue| queue != 7);
        let mut came = Vec::new();
        chains.begins(1);
        while let Some((queue, chain)) = first(&mut chains) {
            assert_eq!(chain == Chain::New, queue == 1);
            came.push(queue);
            chains.pop(chain);
        }
        assert_eq!(came, [1, 7, 8, 5, 6]);
        // From an empty sweep nothing moves.
        chains.go_on(|_| true);
        assert_eq!(first(&mut chains), None);
    }

    #[test]
    fn those_that_decay_go_round_and_leave_from_anywhere() {
        let mut chains = Chains::default();
        let round = |chains: &mut Chains, times| -> Vec<usize> {
            let step = |_| {
                let first = chains.first_decaying();
                first.inspect(|first| chains.pass_over(*first))
            };
            (0..times).map_while(step).collect()
        };
        assert_eq!(chains.first_decaying(), None);
        [3, 1, 4].into_iter().for_each(|queue| chains.decays(queue));
        assert_eq!(round(&mut chains, 4), [3, 1, 4, 3]);
        // The first is now 1, the last 3: a new one follows that.
        chains.decays(9);
        assert_eq!(round(&mut chains, 4), [1, 4, 3, 9]);
        chains.recovers(4);
        chains.recovers(1);
        assert_eq!(round(&mut chains, 3), [3, 9, 3]);
        chains.recovers(9);
        assert_eq!(round(&mut chains, 2), [3, 3]);
        chains.recovers(3);
        assert_eq!(chains.first_decaying(), None);
        chains.decays(3);
        assert_eq!(round(&mut chains, 2), [3, 3]);
    }
}
