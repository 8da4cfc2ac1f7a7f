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
/// Number of links: one for each queue, and one for each sweep, which leads to its first queue.
const LINKS: usize = QUEUES + SWEEPS;
/// The index of a link, the number of a queue, or [`NONE`].
type Link = u32;
/// The value of a link to no queue.
const NONE: Link = Link::MAX;

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
    /// The queue after each queue in its chain, and the first queue of each later sweep. The last
    /// queue of a later sweep has no valid link.
    next: [Link; LINKS],
    /// The queue before each decaying queue.
    before: [Link; QUEUES],
    /// The first new queue.
    new: Link,
    /// The last new queue; undefined if there is none.
    last_new: Link,
    /// The first queue of the present sweep.
    old: Link,
    /// The index of the present sweep.
    sweep: usize,
    /// The last link of each later sweep, to which the next queue is appended. It is the link of
    /// the last queue, or that of the sweep if it is empty.
    last: [Link; SWEEPS],
    /// 1 for each later sweep with queues, otherwise 0.
    filled: [u8; SWEEPS],
    /// The head of the ring of decaying queues.
    decaying: Link,
}

impl Default for Chains {
    /// Empty chains.
    fn default() -> Chains {
        Chains {
            next: [NONE; LINKS],
            before: [NONE; QUEUES],
            new: NONE,
            last_new: NONE,
            old: NONE,
            sweep: 0,
            last: core::array::from_fn(link_of),
            filled: [0; SWEEPS],
            decaying: NONE,
        }
    }
}

/// The index of the link of a sweep.
#[inline]
fn link_of(sweep: usize) -> Link {
    (QUEUES + sweep) as Link
}

/// Returns the number of the queue, or `None` if the link points to no queue.
#[inline]
fn queue(number: Link) -> Option<usize> {
    let queue = number as usize;
    (queue < QUEUES).then_some(queue)
}

impl Chains {
    /// The first new queue.
    #[inline]
    pub fn first_new(&self) -> Option<usize> {
        queue(self.new)
    }
    /// The first old queue of the present sweep.
    #[inline]
    pub fn first_old(&self) -> Option<usize> {
        queue(self.old)
    }
    /// The first decaying queue.
    #[inline]
    pub fn first_decaying(&self) -> Option<usize> {
        queue(self.decaying)
    }
    /// Moves to the next sweep that has a queue. The present sweep must have none. Returns false if
    /// no sweep has one.
    #[inline(never)]
    pub fn next_sweep(&mut self) -> bool {
        // A word with a byte that has just been written takes longer to read than this byte.
        let next = (self.sweep + 1) % SWEEPS;
        if self.filled[next] != 0 {
            self.start_sweep(next);
            return true;
        }
        let mut begin = self.sweep & !7;
        // The sweeps from the present one on come first, and those before it in the same word last.
        let mut mask = !0 << (self.sweep % 8 * 8);
        for _ in 0..=SWEEPS / 8 {
            let word = self.filled[begin..].first_chunk();
            let bits = word.map_or(0, |word| u64::from_le_bytes(*word)) & mask;
            if bits != 0 {
                self.start_sweep(begin + bits.trailing_zeros() as usize / 8);
                return true;
            }
            begin = (begin + 8) % SWEEPS;
            mask = !0;
        }
        false
    }
    /// Makes a sweep with queues the present one.
    #[inline]
    fn start_sweep(&mut self, sweep: usize) {
        self.sweep = sweep;
        self.filled[sweep] = 0;
        let last = core::mem::replace(&mut self.last[sweep], link_of(sweep));
        self.next[last as usize % LINKS] = NONE;
        self.old = self.next[link_of(sweep) as usize];
    }
    /// Appends a queue that is in no chain to the new queues. The code has no branch, because it is
    /// unpredictable whether there are new queues.
    #[inline]
    pub fn push_new(&mut self, queue: usize) {
        let number = queue as Link;
        let empty = self.new == NONE;
        let last = if empty { number } else { self.last_new };
        self.new = if empty { number } else { self.new };
        self.last_new = number;
        self.next[last as usize % QUEUES] = number;
        self.next[queue] = NONE;
    }
    /// Appends a queue that is in no chain to a later sweep, 1 to [`FARTHEST`] ahead.
    #[inline]
    pub fn push_to_sweep(&mut self, queue: usize, ahead: u64) {
        let queue = queue as Link;
        self.append((self.sweep + ahead as usize) % SWEEPS, queue, queue);
    }
    /// Appends linked queues to a later sweep, from `first` to `last`.
    #[inline]
    fn append(&mut self, sweep: usize, first: Link, last: Link) {
        self.filled[sweep] = 1;
        let before = core::mem::replace(&mut self.last[sweep], last);
        self.next[before as usize % LINKS] = first;
    }
    /// Removes the first queue of a chain, which is `queue`.
    #[inline]
    pub fn pop(&mut self, chain: Chain, queue: usize) {
        match chain {
            Chain::New => self.new = self.next[queue],
            Chain::Old => self.old = self.next[queue],
        }
    }
    /// Moves old queues of the present sweep to the end of the next sweep, in the same order.
    /// Begins with the first queue and ends before the first one for which `moves` returns false.
    #[inline]
    pub fn move_to_next_sweep(&mut self, mut moves: impl FnMut(usize) -> bool) {
        let first = self.old;
        let (mut head, mut last) = (first, first);
        while let Some(queue) = queue(head).filter(|queue| moves(*queue)) {
            (last, head) = (head, self.next[queue]);
        }
        if head != first {
            self.old = head;
            self.append((self.sweep + 1) % SWEEPS, first, last);
        }
    }
    /// Appends a queue that is in no chain to the decaying queues.
    #[inline]
    pub fn push_decaying(&mut self, queue: usize) {
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
    pub fn rotate_decaying(&mut self, queue: usize) {
        self.decaying = self.next[queue];
    }
    /// Removes a decaying queue from any position.
    #[inline]
    pub fn remove_decaying(&mut self, queue: usize) {
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
    fn old_queues_are_served_by_sweep_and_insertion_order() {
        let mut chains = Chains::default();
        for (queue, ahead) in [(5, 1), (6, 3), (7, 1), (8, FARTHEST), (9, 3)] {
            chains.push_to_sweep(queue, ahead);
        }
        let mut came = Vec::new();
        while let Some((queue, chain)) = first(&mut chains) {
            came.push(queue);
            chains.pop(chain, queue);
            if queue == 5 && came.len() == 1 {
                // Behind those of the third sweep: the present one is the first.
                chains.push_to_sweep(5, 2);
            }
            if came.len() == 4 {
                // One sweep before the farthest one.
                chains.push_to_sweep(1, FARTHEST - 4);
            }
        }
        assert_eq!(came, [5, 7, 6, 9, 5, 1, 8]);
    }

    #[test]
    fn new_queues_are_first_and_moved_queues_keep_their_order() {
        let mut chains = Chains::default();
        for (queue, ahead) in [(5, 1), (6, 1), (7, 1), (8, 2)] {
            chains.push_to_sweep(queue, ahead);
        }
        assert_eq!(first(&mut chains).map(|(queue, _)| queue), Some(5));
        // 5 and 6 move from the first sweep to the second, which already has 8.
        chains.move_to_next_sweep(|queue| queue != 7);
        let mut came = Vec::new();
        chains.push_new(1);
        while let Some((queue, chain)) = first(&mut chains) {
            assert_eq!(chain == Chain::New, queue == 1);
            came.push(queue);
            chains.pop(chain, queue);
        }
        assert_eq!(came, [1, 7, 8, 5, 6]);
        // From an empty sweep nothing moves.
        chains.move_to_next_sweep(|_| true);
        assert_eq!(first(&mut chains), None);
    }

    #[test]
    fn decaying_queues_rotate_and_can_be_removed_anywhere() {
        let mut chains = Chains::default();
        let round = |chains: &mut Chains, times| -> Vec<usize> {
            let step = |_| {
                let first = chains.first_decaying();
                first.inspect(|first| chains.rotate_decaying(*first))
            };
            (0..times).map_while(step).collect()
        };
        assert_eq!(chains.first_decaying(), None);
        [3, 1, 4]
            .into_iter()
            .for_each(|queue| chains.push_decaying(queue));
        assert_eq!(round(&mut chains, 4), [3, 1, 4, 3]);
        // The first is now 1, the last 3: a new one follows that.
        chains.push_decaying(9);
        assert_eq!(round(&mut chains, 4), [1, 4, 3, 9]);
        chains.remove_decaying(4);
        chains.remove_decaying(1);
        assert_eq!(round(&mut chains, 3), [3, 9, 3]);
        chains.remove_decaying(9);
        assert_eq!(round(&mut chains, 2), [3, 3]);
        chains.remove_decaying(3);
        assert_eq!(chains.first_decaying(), None);
        chains.push_decaying(3);
        assert_eq!(round(&mut chains, 2), [3, 3]);
    }
}
