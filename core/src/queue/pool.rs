//! A common store for the packets of many queues, so that a fair queue with a thousand queues does
//! not need a thousand buffers.
//!
//! A [`Pool`] contains the packets. A [`List`] is one queue in the pool, with a head, a tail, and
//! links between the packets in both directions. An access to either end of a list costs one memory
//! access. Entries are reused, so the pool has as many entries as the maximum number of packets
//! that were in it at once.

use alloc::vec::Vec;

/// The value of an index that refers to no entry.
const NONE: u32 = u32::MAX;

struct Slot<P> {
    packet: Option<P>,
    /// The next entry in the same list, or the next free entry.
    next: u32,
    /// The previous entry in the same list; undefined for the head of a list.
    before: u32,
}

/// The packets of any number of lists.
pub struct Pool<P> {
    slots: Vec<Slot<P>>,
    free: u32,
}

/// The index of a packet while it is in the pool.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct At(u32);

/// A queue of packets in a [`Pool`]. A list is valid only with the pool to which its packets were
/// pushed.
#[derive(Copy, Clone, Debug)]
pub struct List {
    head: u32,
    /// Undefined for an empty list.
    tail: u32,
}

impl Default for List {
    fn default() -> List {
        List {
            head: NONE,
            tail: NONE,
        }
    }
}

impl<P> Default for Pool<P> {
    fn default() -> Pool<P> {
        Pool {
            slots: Vec::new(),
            free: NONE,
        }
    }
}

impl List {
    /// Returns whether the list has no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
    /// Returns whether the list has exactly one packet.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.head == self.tail && !self.is_empty()
    }
}

/// The head of a list, looked up once for several operations.
pub struct Head<'a, P> {
    slot: &'a mut Slot<P>,
    free: &'a mut u32,
}

impl<P> Head<'_, P> {
    /// The packet at the head.
    #[inline]
    pub fn packet(&mut self) -> Option<&mut P> {
        self.slot.packet.as_mut()
    }
    /// Removes the packet from `list`, which must be the list whose head this is.
    #[inline]
    pub fn take(self, list: &mut List) -> Option<P> {
        let at = list.head;
        // The `before` of the new head and the tail of an empty list are not updated, because they
        // are not read.
        list.head = self.slot.next;
        self.slot.next = *self.free;
        *self.free = at;
        self.slot.packet.take()
    }
}

impl<P> Pool<P> {
    /// Appends `packet` to `list`.
    #[inline]
    pub fn push(&mut self, list: &mut List, packet: P) {
        if self.free == NONE {
            self.grow();
        }
        let (at, before) = (self.free, list.tail);
        // There is no branch, because it is unpredictable whether the list is empty. The first
        // packet of a list is linked to itself temporarily.
        let empty = list.is_empty();
        let last = if empty { at } else { before };
        list.head = if empty { at } else { list.head };
        list.tail = at;
        let slots = self.slots.as_mut_slice();
        self.free = slots[at as usize].next;
        slots[last as usize].next = at;
        slots[at as usize] = Slot {
            packet: Some(packet),
            next: NONE,
            before,
        };
    }
    /// Adds a free entry. Called if no entry is free.
    #[cold]
    fn grow(&mut self) {
        self.free = self.slots.len() as u32;
        self.slots.push(Slot {
            packet: None,
            next: NONE,
            before: NONE,
        });
    }
    /// Removes the packet at the head of `list`.
    #[inline]
    pub fn pop(&mut self, list: &mut List) -> Option<P> {
        self.head(list)?.take(list)
    }
    /// The head of `list`, if there is one, for inspection and removal.
    #[inline]
    pub fn head(&mut self, list: &List) -> Option<Head<'_, P>> {
        let slot = self.slots.get_mut(list.head as usize)?;
        Some(Head {
            slot,
            free: &mut self.free,
        })
    }
    /// Removes the packet at the tail of `list`.
    #[inline]
    pub fn pop_back(&mut self, list: &mut List) -> Option<P> {
        if list.is_empty() || list.head == list.tail {
            return self.pop(list);
        }
        let at = list.tail;
        list.tail = self.slots.get(at as usize)?.before;
        self.slots.get_mut(list.tail as usize)?.next = NONE;
        self.release(at)
    }
    /// The packet at the tail of `list`.
    pub fn back(&self, list: &List) -> Option<&P> {
        if list.is_empty() {
            return None;
        }
        self.slots.get(list.tail as usize)?.packet.as_ref()
    }
    /// Returns whether `at` is the entry at the tail of `list`.
    pub fn is_back(&self, list: &List, at: At) -> bool {
        list.tail == at.0
    }
    /// The packets of `list` from its head on, with their indices.
    pub fn iter(&self, list: &List) -> impl Iterator<Item = (At, &P)> {
        let mut next = list.head;
        core::iter::from_fn(move || {
            let (at, slot) = (next, self.slots.get(next as usize)?);
            next = slot.next;
            Some((At(at), slot.packet.as_ref()?))
        })
    }
    /// Removes the packet with this index from `list`.
    pub fn remove(&mut self, list: &mut List, at: At) -> Option<P> {
        if at.0 == list.head {
            return self.pop(list);
        }
        let (next, before) = self
            .slots
            .get(at.0 as usize)
            .map(|slot| (slot.next, slot.before))?;
        match self.slots.get_mut(next as usize) {
            Some(slot) => slot.before = before,
            None => list.tail = before,
        }
        self.slots.get_mut(before as usize)?.next = next;
        self.release(at.0)
    }
    /// Frees an entry to which no list refers; returns its packet.
    fn release(&mut self, at: u32) -> Option<P> {
        let slot = self.slots.get_mut(at as usize)?;
        slot.next = self.free;
        self.free = at;
        slot.packet.take()
    }
    /// The packet at the head of `list`.
    #[inline]
    pub fn front(&self, list: &List) -> Option<&P> {
        self.slots.get(list.head as usize)?.packet.as_ref()
    }
    /// The packet at the head of `list`, mutable.
    #[inline]
    pub fn front_mut(&mut self, list: &List) -> Option<&mut P> {
        self.slots.get_mut(list.head as usize)?.packet.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_entries_are_reused() {
        let mut pool = Pool::default();
        let mut lists = [List::default(); 3];
        for n in 0..1000 {
            pool.push(&mut lists[n % 3], n);
            if n >= 10 {
                let of = (n - 10) % 3;
                assert_eq!(pool.front(&lists[of]), Some(&(n - 10)));
                assert_eq!(pool.pop(&mut lists[of]), Some(n - 10));
            }
        }
        assert_eq!(pool.slots.len(), 11);
        for list in &mut lists {
            while pool.pop(list).is_some() {}
            assert!(list.is_empty() && pool.front(list).is_none());
        }
    }

    #[test]
    fn a_list_pops_from_both_ends() {
        let mut pool = Pool::default();
        let mut list = List::default();
        for n in 0..4 {
            pool.push(&mut list, n);
        }
        assert_eq!(
            (pool.pop_back(&mut list), pool.pop(&mut list)),
            (Some(3), Some(0))
        );
        pool.push(&mut list, 4);
        let back: Vec<i32> = core::iter::from_fn(|| pool.pop_back(&mut list)).collect();
        assert_eq!(back, [4, 2, 1]);
        assert!(list.is_empty());
    }
}
