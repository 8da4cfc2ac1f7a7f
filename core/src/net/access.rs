//! Access lines: propagation delay between the shared path and single receivers.
//!
//! ```text
//!   NEAR ──▶ path ──▶ FAR ──▶ line ──▶ receiver
//!   NEAR ◀── path ◀── FAR ◀── line ◀── receiver
//! ```
//!
//! A line only delays packets. All packets with the same delay share one line, so their order of
//! entry is kept. If packets of several lines are due at one instant, the line that was created
//! first goes first. A packet costs O(log lines); a receiver without a line costs nothing.

use super::delay::Line;
use crate::units::{Span, Time};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Lines by number.
#[derive(Debug)]
pub struct Access<P> {
    lines: Vec<Line<P>>,
    /// The time of the next packet of every line that holds one.
    heads: BinaryHeap<Reverse<(Time, u32)>>,
}

impl<P> Default for Access<P> {
    fn default() -> Access<P> {
        Access {
            lines: Vec::new(),
            heads: BinaryHeap::new(),
        }
    }
}

impl<P> Access<P> {
    /// Returns the number of the line with this delay, which is created if needed; `None` for no
    /// delay.
    pub fn line(&mut self, delay: Span) -> Option<u32> {
        if delay == Span::ZERO {
            return None;
        }
        let found = self.lines.iter().position(|line| line.delay() == delay);
        let number = found.unwrap_or_else(|| {
            self.lines.push(Line::new(delay));
            self.lines.len() - 1
        });
        Some(number as u32)
    }
    /// Adds `packet` to line `number`; `now` never decreases.
    pub fn push(&mut self, now: Time, number: u32, packet: P) {
        let line = &mut self.lines[number as usize];
        if line.is_empty() {
            self.heads.push(Reverse((now + line.delay(), number)));
        }
        line.push(now, packet);
    }
    /// Number of packets in all lines.
    pub fn len(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }
    /// Returns whether all lines are empty.
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
        let line = &mut self.lines[number as usize];
        let packet = line.pop(now);
        if !line.is_empty() {
            self.heads.push(Reverse((line.next(), number)));
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
        let mut access = Access::default();
        let (near, far) = (access.line(Span::ms(10)), access.line(Span::ms(30)));
        assert_eq!((near, far), (Some(0), Some(1)));
        assert_eq!(access.line(Span::ZERO), None);
        assert_eq!(access.line(Span::ms(30)), far);
        for (ms, line, name) in [
            (0, 1, 'a'),
            (1, 1, 'b'),
            (5, 0, 'c'),
            (21, 0, 'd'),
            (21, 0, 'e'),
        ] {
            access.push(at(ms), line, name);
        }
        let mut out = vec![];
        while access.next() < Time::MAX {
            let now = access.next();
            assert_eq!(access.pop(Time::from_ns(now.as_ns() - 1)), None);
            out.push((now, access.pop(now).unwrap()));
        }
        // At 31 ms, the line that was created first.
        let expected = [(15, 'c'), (30, 'a'), (31, 'd'), (31, 'e'), (31, 'b')];
        assert_eq!(out, expected.map(|(ms, name)| (at(ms), name)));
    }
}
