//! Propagation: what enters a line comes out of it after a fixed time, in order.

use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// A line of constant delay.
#[derive(Clone, Debug)]
pub struct Line<P> {
    delay: Span,
    packets: VecDeque<(Time, P)>,
}

impl<P> Line<P> {
    /// An empty line.
    pub fn new(delay: Span) -> Line<P> {
        Line {
            delay,
            packets: VecDeque::new(),
        }
    }
    /// The time it takes.
    pub fn delay(&self) -> Span {
        self.delay
    }
    /// `packet` enters; `now` never goes back.
    pub fn push(&mut self, now: Time, packet: P) {
        self.packets.push_back((now + self.delay, packet));
    }
    /// When the next packet comes out; [`Time::MAX`] from an empty line.
    pub fn next(&self) -> Time {
        self.packets.front().map_or(Time::MAX, |(at, _)| *at)
    }
    /// The next packet, if it has come out by `now`.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        if self.next() > now {
            return None;
        }
        self.packets.pop_front().map(|(_, packet)| packet)
    }
    /// The packet that comes out as the `n`th from now, counted from 0.
    pub fn coming(&self, n: usize) -> Option<&P> {
        self.packets.get(n).map(|(_, packet)| packet)
    }
    /// Packets inside.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Is nothing inside?
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
