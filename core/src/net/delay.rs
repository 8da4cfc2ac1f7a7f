//! Propagation: what enters a line comes out of it after a fixed time, in order; a [`Wire`] may
//! also vary.

use super::jitter::Jitter;
use crate::units::{Span, Time};
use alloc::boxed::Box;
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
    /// All that is inside, each with the time when it comes out. For drivers that take many at
    /// once.
    pub fn packets(&mut self) -> &mut VecDeque<(Time, P)> {
        &mut self.packets
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

/// What lies behind a hop. Most are plain lines, so the other kind is boxed.
#[derive(Clone, Debug)]
pub enum Wire<P> {
    /// Of constant delay.
    Line(Line<P>),
    /// Of varying delay.
    Jitter(Box<Jitter<P>>),
}

impl<P> Wire<P> {
    /// `packet` enters; `now` never goes back.
    #[inline]
    pub fn push(&mut self, now: Time, packet: P) {
        match self {
            Wire::Line(line) => line.push(now, packet),
            Wire::Jitter(jitter) => jitter.push(now, packet),
        }
    }
    /// When the next packet comes out; [`Time::MAX`] from an empty wire.
    #[inline]
    pub fn next(&self) -> Time {
        match self {
            Wire::Line(line) => line.next(),
            Wire::Jitter(jitter) => jitter.next(),
        }
    }
    /// The next packet, if it has come out by `now`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<P> {
        match self {
            Wire::Line(line) => line.pop(now),
            Wire::Jitter(jitter) => jitter.pop(now),
        }
    }
    /// The packet that comes out as the `n`th from now, counted from 0, as far as that is known.
    pub fn coming(&self, n: usize) -> Option<&P> {
        match self {
            Wire::Line(line) => line.coming(n),
            Wire::Jitter(jitter) => jitter.coming(n),
        }
    }
    /// Packets inside.
    pub fn len(&self) -> usize {
        match self {
            Wire::Line(line) => line.len(),
            Wire::Jitter(jitter) => jitter.len(),
        }
    }
    /// Is nothing inside?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Does what is inside come out before anything that enters later?
    #[inline]
    pub fn in_order(&self) -> bool {
        matches!(self, Wire::Line(_))
    }
}
