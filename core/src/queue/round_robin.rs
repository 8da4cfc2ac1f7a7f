//! Deficit round robin among many queues, in which new queues are served before old queues.
//!
//! A queue that is not in the order of service and gets a packet joins the new queues with a
//! deficit of one `quantum`. The first new queue is served, or the first old queue if there is no
//! new one. A queue whose deficit is used up gets a `quantum` and goes behind the old queues. An
//! empty new queue goes behind the old queues, if there are any. A queue that receives single
//! packets now and then therefore does not remain new. Any other empty queue leaves the order of
//! service. Sources: RFC 8290, section 4; Linux 6.12 `fq_codel`, `fq_pie`.

use crate::units::Bytes;
use alloc::vec::Vec;

/// The value of an index that refers to no queue.
const NONE: u32 = u32::MAX;

/// The entry of a queue in the order of service. It is stored with the other state of the queue,
/// which saves a memory access per visit.
#[derive(Copy, Clone, Debug)]
pub struct Node {
    /// The next queue in the same ring.
    next: u32,
    /// Whether the queue is in the order of service.
    listed: bool,
    /// Bytes that the queue may still send in its present turn.
    deficit: i64,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            next: NONE,
            listed: false,
            deficit: 0,
        }
    }
}

impl AsMut<Node> for Node {
    fn as_mut(&mut self) -> &mut Node {
        self
    }
}

/// A list of new or old queues, in the order of service.
#[derive(Copy, Clone)]
struct Ring {
    head: u32,
    /// Undefined for an empty ring.
    tail: u32,
}

impl Ring {
    const EMPTY: Ring = Ring {
        head: NONE,
        tail: NONE,
    };
    /// Appends a queue. The code has no branch, because it is unpredictable whether the ring is
    /// empty. The first queue of a ring is linked to itself temporarily.
    #[inline]
    fn push<Q: AsMut<Node>>(&mut self, queues: &mut [Q], index: u32) {
        let empty = self.head == NONE;
        let last = if empty { index } else { self.tail };
        self.head = if empty { index } else { self.head };
        self.tail = index;
        queues[last as usize].as_mut().next = index;
        queues[index as usize].as_mut().next = NONE;
    }
}

/// The order of service among queues that are stored elsewhere, in one slice. Several orders may
/// share the slice if each queue is in at most one of them.
#[derive(Copy, Clone)]
pub struct Order {
    new: Ring,
    old: Ring,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            new: Ring::EMPTY,
            old: Ring::EMPTY,
        }
    }
}

impl Order {
    /// Adds a queue at which a packet has arrived to the new queues, if it is not in the order. A
    /// turn has `quantum` bytes.
    #[inline]
    pub fn activate<Q: AsMut<Node>>(&mut self, queues: &mut [Q], queue: usize, quantum: i64) {
        let node = queues[queue].as_mut();
        if !node.listed {
            node.listed = true;
            node.deficit = quantum;
            self.new.push(queues, queue as u32);
        }
    }
    /// Returns the queue to serve now. The caller must then call [`sent`](Order::sent) or
    /// [`empty`](Order::empty) for this queue.
    #[inline]
    pub fn next_queue<Q: AsMut<Node>>(&mut self, queues: &mut [Q], quantum: i64) -> Option<usize> {
        if self.new.head != NONE {
            return Some(self.new.head as usize);
        }
        loop {
            let index = self.old.head;
            let node = queues.get_mut(index as usize)?.as_mut();
            if node.deficit > 0 {
                return Some(index as usize);
            }
            node.deficit += quantum;
            self.old.head = node.next;
            self.old.push(queues, index);
        }
    }
    /// Called when the queue that `next_queue` returned has sent a packet of `size`. If it is a new
    /// queue and its turn is over, it goes behind the old queues. Linux moves it when it looks for
    /// the next queue; until then, queues join only the new queues, so the order is the same.
    #[inline]
    pub fn sent<Q: AsMut<Node>>(
        &mut self,
        queues: &mut [Q],
        queue: usize,
        size: Bytes,
        quantum: i64,
    ) {
        let node = queues[queue].as_mut();
        node.deficit -= size.get().min(1 << 40) as i64;
        if node.deficit <= 0 && self.new.head as usize == queue {
            node.deficit += quantum;
            self.new.head = node.next;
            self.old.push(queues, queue as u32);
        }
    }
    /// Called when the queue that `next_queue` returned is empty. Returns whether it left the
    /// order.
    #[inline]
    pub fn empty<Q: AsMut<Node>>(&mut self, queues: &mut [Q]) -> bool {
        let is_new = self.new.head != NONE;
        let stays = is_new && self.old.head != NONE;
        let ring = if is_new { &mut self.new } else { &mut self.old };
        let index = ring.head;
        let node = queues[index as usize].as_mut();
        ring.head = node.next;
        node.listed = stays;
        if stays {
            self.old.push(queues, index);
        }
        !stays
    }
}

/// The bytes of a turn for [`Order`]: `quantum`, but at least one byte, because otherwise no queue
/// would ever be served.
pub fn turn_bytes(quantum: Bytes) -> i64 {
    quantum.get().clamp(1, 1 << 30) as i64
}

/// Queues, each with its state, and their order of service.
pub struct RoundRobin<Q = Node> {
    queues: Vec<Q>,
    order: Order,
    quantum: i64,
}

impl<Q: AsMut<Node> + Clone + Default> RoundRobin<Q> {
    /// An order of `queues` empty queues. A turn has `quantum` bytes.
    pub fn new(queues: usize, quantum: Bytes) -> RoundRobin<Q> {
        RoundRobin {
            queues: alloc::vec![Q::default(); queues],
            order: Order::default(),
            quantum: turn_bytes(quantum),
        }
    }
    /// The state of a queue.
    #[inline]
    pub fn queue(&mut self, queue: usize) -> &mut Q {
        &mut self.queues[queue]
    }
    /// Adds a queue at which a packet arrives to the new queues, if it is not in the order. Returns
    /// the state of the queue.
    #[inline]
    pub fn activate(&mut self, queue: usize) -> &mut Q {
        self.order.activate(&mut self.queues, queue, self.quantum);
        &mut self.queues[queue]
    }
    /// Returns the queue to serve now. The caller must then call [`sent`](RoundRobin::sent) or
    /// [`empty`](RoundRobin::empty) for this queue.
    #[inline]
    pub fn next_queue(&mut self) -> Option<usize> {
        self.order.next_queue(&mut self.queues, self.quantum)
    }
    /// Called when the queue that `next_queue` returned has sent a packet of `size`. Returns the
    /// state of the queue.
    #[inline]
    pub fn sent(&mut self, queue: usize, size: Bytes) -> &mut Q {
        self.order.sent(&mut self.queues, queue, size, self.quantum);
        &mut self.queues[queue]
    }
    /// Called when the queue that `next_queue` returned is empty.
    #[inline]
    pub fn empty(&mut self) {
        self.order.empty(&mut self.queues);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(ring: &mut RoundRobin, left: &mut [u32]) -> Option<usize> {
        while let Some(queue) = ring.next_queue() {
            if left[queue] > 0 {
                left[queue] -= 1;
                ring.sent(queue, Bytes::new(1000));
                return Some(queue);
            }
            ring.empty();
        }
        None
    }

    #[test]
    fn a_new_queue_is_first_and_does_not_remain_new() {
        let mut ring: RoundRobin = RoundRobin::new(3, Bytes::new(1000));
        let mut left = [4, 3, 0];
        ring.activate(0);
        ring.activate(1);
        let mut served: Vec<_> = (0..4).map_while(|_| serve(&mut ring, &mut left)).collect();
        assert_eq!(served, [0, 1, 0, 1]);
        for _ in 0..2 {
            left[2] += 1;
            ring.activate(2);
            served.extend(serve(&mut ring, &mut left));
        }
        // The second time it is still listed, so it waits for its turn.
        served.extend(core::iter::from_fn(|| serve(&mut ring, &mut left)));
        assert_eq!(served[4..], [2, 0, 2, 1, 0]);
        assert_eq!(left, [0; 3]);
    }
}
