//! Access links: additional propagation delays between the shared path and single receivers.
//!
//! ```text
//!   NEAR ──▶ path ──▶ FAR ──▶ link ──▶ receiver
//!   NEAR ◀── path ◀── FAR ◀── link ◀── receiver
//! ```
//!
//! An access link only delays packets. All packets with the same delay share one link, so their
//! order of entry is kept. If packets of several links are due at one instant, the packet of the
//! link that was created first leaves first. A packet costs O(log links); a receiver without a link
//! costs nothing.

use super::delay::ConstantDelay;
use crate::units::{Span, Time};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Access links by number.
#[derive(Debug)]
pub struct AccessLinks<P> {
    links: Vec<ConstantDelay<P>>,
    /// The time of the next packet of every link that holds one.
    heads: BinaryHeap<Reverse<(Time, u32)>>,
}

impl<P> Default for AccessLinks<P> {
    fn default() -> AccessLinks<P> {
        AccessLinks {
            links: Vec::new(),
            heads: BinaryHeap::new(),
        }
    }
}

impl<P> AccessLinks<P> {
    /// Returns the number of the link with this delay, which is created if needed; `None` for no
    /// delay.
    pub fn link(&mut self, delay: Span) -> Option<u32> {
        if delay == Span::ZERO {
            return None;
        }
        let found = self.links.iter().position(|link| link.delay() == delay);
        let number = found.unwrap_or_else(|| {
            self.links.push(ConstantDelay::new(delay));
            self.links.len() - 1
        });
        Some(number as u32)
    }
    /// Adds `packet` to link `number`. The caller never passes an earlier `now` than in the call
    /// before.
    pub fn push(&mut self, now: Time, number: u32, packet: P) {
        let link = &mut self.links[number as usize];
        if link.is_empty() {
            self.heads.push(Reverse((now + link.delay(), number)));
        }
        link.push(now, packet);
    }
    /// Returns the number of packets in all links.
    pub fn len(&self) -> usize {
        self.links.iter().map(ConstantDelay::len).sum()
    }
    /// Returns whether all links are empty.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
    /// Returns when the next packet leaves; [`Time::MAX`] if there is none.
    pub fn next(&self) -> Time {
        self.heads.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }
    /// Returns the next packet if it leaves by `now`.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        if self.next() > now {
            return None;
        }
        let Reverse((_, number)) = self.heads.pop()?;
        let link = &mut self.links[number as usize];
        let packet = link.pop(now);
        if !link.is_empty() {
            self.heads.push(Reverse((link.next(), number)));
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn at(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    #[test]
    fn packets_come_out_after_their_own_delay_in_their_own_order() {
        let mut access = AccessLinks::default();
        let (near, far) = (access.link(Span::ms(10)), access.link(Span::ms(30)));
        assert_eq!((near, far), (Some(0), Some(1)));
        assert_eq!(access.link(Span::ZERO), None);
        assert_eq!(access.link(Span::ms(30)), far);
        for (ms, link, name) in [
            (0, 1, 'a'),
            (1, 1, 'b'),
            (5, 0, 'c'),
            (21, 0, 'd'),
            (21, 0, 'e'),
        ] {
            access.push(at(ms), link, name);
        }
        let mut out = vec![];
        while access.next() < Time::MAX {
            let now = access.next();
            assert_eq!(access.pop(Time::from_ns(now.as_ns() - 1)), None);
            out.push((now, access.pop(now).unwrap()));
        }
        // At 31 ms, the link that was created first.
        let expected = [(15, 'c'), (30, 'a'), (31, 'd'), (31, 'e'), (31, 'b')];
        assert_eq!(out, expected.map(|(ms, name)| (at(ms), name)));
    }
}
