//! Deficit round robin among many queues, in which new queues go before the others.
//!
//! A queue that gets its first packet joins the new ones with a deficit of one `quantum`. The first
//! new queue is served, or the first old queue if there is no new one. A queue whose deficit is
//! used up gets a `quantum` and goes behind the old queues. An empty new queue goes behind the old
//! queues, if there are any. A queue that receives single packets now and then therefore does not
//! remain new. Any other empty queue leaves the round. Sources: RFC 8290, section 4; Linux 6.12
//! `fq_codel`, `fq_pie`.

use crate::units::Bytes;
use alloc::vec::Vec;

/// No queue.
const NONE: u32 = u32::MAX;

/// A queue's entry in the order. Storing it with the other state of the queue saves an access for
/// each visit.
#[derive(Copy, Clone, Debug)]
pub struct Node {
    /// The next queue in its ring.
    next: u32,
    listed: bool,
    /// Bytes that it may still send in this turn.
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

impl AsRef<Node> for Node {
    fn as_ref(&self) -> &Node {
        self
    }
}

impl AsMut<Node> for Node {
    fn as_mut(&mut self) -> &mut Node {
        self
    }
}

/// Queues in the order of service.
#[derive(Copy, Clone)]
struct Ring {
    head: u32,
    tail: u32,
}

impl Ring {
    const EMPTY: Ring = Ring {
        head: NONE,
        tail: NONE,
    };
    #[inline]
    fn push<Q: AsMut<Node>>(&mut self, queues: &mut [Q], index: u32) {
        queues[index as usize].as_mut().next = NONE;
        match queues.get_mut(self.tail as usize) {
            Some(last) => last.as_mut().next = index,
            None => self.head = index,
        }
        self.tail = index;
    }
    #[inline]
    fn pop<Q: AsRef<Node>>(&mut self, queues: &[Q]) {
        if let Some(first) = queues.get(self.head as usize) {
            self.head = first.as_ref().next;
            if self.head == NONE {
                self.tail = NONE;
            }
        }
    }
}

/// The order of service among queues that are stored elsewhere, in one slice. Several orders may
/// share the slice if each queue is in one of them.
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
    /// Handles a packet that arrived at a queue. A turn is `quantum` bytes.
    #[inline]
    pub fn wants<Q: AsMut<Node>>(&mut self, queues: &mut [Q], queue: usize, quantum: i64) {
        let node = queues[queue].as_mut();
        if !node.listed {
            node.listed = true;
            node.deficit = quantum;
            self.new.push(queues, queue as u32);
        }
    }
    /// Returns the queue to serve now. Call [`sent`](Node::sent) or [`empty`](Order::empty) for it
    /// next.
    #[inline]
    pub fn next_queue<Q: AsRef<Node> + AsMut<Node>>(
        &mut self,
        queues: &mut [Q],
        quantum: i64,
    ) -> Option<usize> {
        loop {
            let ring = if self.new.head == NONE {
                &mut self.old
            } else {
                &mut self.new
            };
            let index = ring.head;
            let node = queues.get_mut(index as usize)?.as_mut();
            if node.deficit > 0 {
                return Some(index as usize);
            }
            node.deficit += quantum;
            ring.pop(queues);
            self.old.push(queues, index);
        }
    }
    /// The queue that `next_queue` returned was empty. Returns whether it left the order.
    #[inline]
    pub fn empty<Q: AsRef<Node> + AsMut<Node>>(&mut self, queues: &mut [Q]) -> bool {
        let is_new = self.new.head != NONE;
        let stays = is_new && self.old.head != NONE;
        let ring = if is_new { &mut self.new } else { &mut self.old };
        let index = ring.head;
        ring.pop(queues);
        if stays {
            self.old.push(queues, index);
        } else if let Some(queue) = queues.get_mut(index as usize) {
            queue.as_mut().listed = false;
        }
        !stays
    }
}

impl Node {
    /// Reports that the queue has sent a packet of `size`.
    #[inline]
    pub fn sent(&mut self, size: Bytes) {
        self.deficit -= size.get().min(1 << 40) as i64;
    }
}

/// A turn as [`Order`] counts it: at least a byte, because otherwise no queue would ever be served.
pub fn turn_bytes(quantum: Bytes) -> i64 {
    quantum.get().clamp(1, 1 << 30) as i64
}

/// The order of queues that are identified by number, with other state of each.
pub struct RoundRobin<Q = Node> {
    queues: Vec<Q>,
    order: Order,
    quantum: i64,
}

impl<Q: AsRef<Node> + AsMut<Node> + Clone + Default> RoundRobin<Q> {
    /// For `queues` empty queues. A turn is `quantum`.
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
    /// Handles a packet that arrived at a queue.
    #[inline]
    pub fn wants(&mut self, queue: usize) {
        self.order.wants(&mut self.queues, queue, self.quantum);
    }
    /// Returns the queue to serve now. Call [`sent`](RoundRobin::sent) or
    /// [`empty`](RoundRobin::empty) for it next.
    #[inline]
    pub fn next_queue(&mut self) -> Option<usize> {
        self.order.next_queue(&mut self.queues, self.quantum)
    }
    /// The queue that `next_queue` returned has sent a packet of `size`.
    #[inline]
    pub fn sent(&mut self, queue: usize, size: Bytes) {
        self.queues[queue].as_mut().sent(size);
    }
    /// The queue that `next_queue` returned was empty.
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
    fn who_begins_goes_first_and_cannot_stay_so() {
        let mut ring: RoundRobin = RoundRobin::new(3, Bytes::new(1000));
        let mut left = [4, 3, 0];
        ring.wants(0);
        ring.wants(1);
        let mut served: Vec<_> = (0..4).map_while(|_| serve(&mut ring, &mut left)).collect();
        assert_eq!(served, [0, 1, 0, 1]);
        for _ in 0..2 {
            left[2] += 1;
            ring.wants(2);
            served.extend(serve(&mut ring, &mut left));
        }
        // The second time it is still listed, so it waits for its turn.
        served.extend(core::iter::from_fn(|| serve(&mut ring, &mut left)));
        assert_eq!(served[4..], [2, 0, 2, 1, 0]);
        assert_eq!(left, [0; 3]);
    }
}
