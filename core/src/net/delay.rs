//! Propagation: a [`ConstantDelay`] delays packets by a constant time and keeps their order; a
//! [`DelayLine`] may also vary the delay.

use super::delay_schedule::Delays;
use super::jitter::Jitter;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// A line of constant delay.
#[derive(Clone, Debug)]
pub struct ConstantDelay<P> {
    delay: Span,
    packets: VecDeque<(Time, P)>,
}

impl<P> ConstantDelay<P> {
    /// Creates an empty line.
    pub fn new(delay: Span) -> ConstantDelay<P> {
        ConstantDelay {
            delay,
            packets: VecDeque::new(),
        }
    }
    /// Returns the delay.
    pub fn delay(&self) -> Span {
        self.delay
    }
    /// Adds `packet`. The caller never passes an earlier `now` than in the call before.
    pub fn push(&mut self, now: Time, packet: P) {
        self.packets.push_back((now + self.delay, packet));
    }
    /// Returns when the next packet leaves; [`Time::MAX`] from an empty line.
    pub fn next(&self) -> Time {
        self.packets.front().map_or(Time::MAX, |(at, _)| *at)
    }
    /// Returns the next packet if it leaves by `now`.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        if self.next() > now {
            return None;
        }
        self.packets.pop_front().map(|(_, packet)| packet)
    }
    /// Returns the `n` packets that entered last, each with the time when it leaves.
    #[inline]
    pub fn newest(&self, n: usize) -> impl Iterator<Item = &(Time, P)> {
        self.packets.range(self.packets.len().saturating_sub(n)..)
    }
    /// Returns when a packet entered that leaves at `leaves`.
    #[inline]
    pub fn entered(&self, leaves: Time) -> Time {
        Time::from_ns(leaves.as_ns() - self.delay.as_ns())
    }
    /// Returns the packet that leaves as the `n`th from now, counted from 0.
    pub fn coming(&self, n: usize) -> Option<&P> {
        self.packets.get(n).map(|(_, packet)| packet)
    }
    /// Returns all packets, each with the time when it leaves, for engines that take many at once.
    pub fn packets(&mut self) -> &mut VecDeque<(Time, P)> {
        &mut self.packets
    }
    /// Returns the number of packets in the line.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Returns whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// The propagation behind a hop. Most hops have a constant delay, so the varying line is boxed.
#[derive(Clone, Debug)]
pub enum DelayLine<P> {
    /// A line of constant delay.
    Constant(ConstantDelay<P>),
    /// A line of varying delay.
    Jitter(Box<Jitter<P>>),
}

impl<P> DelayLine<P> {
    /// Creates an empty line of these delays, without jitter.
    pub fn new(delays: Delays) -> DelayLine<P> {
        match delays.fixed() {
            Some(delay) => DelayLine::Constant(ConstantDelay::new(delay)),
            None => DelayLine::Jitter(Box::new(Jitter::following(delays))),
        }
    }
    /// Adds `packet`. The caller never passes an earlier `now` than in the call before.
    #[inline]
    pub fn push(&mut self, now: Time, packet: P) {
        match self {
            DelayLine::Constant(line) => line.push(now, packet),
            DelayLine::Jitter(jitter) => jitter.push(now, packet),
        }
    }
    /// Returns when the next packet leaves; [`Time::MAX`] from an empty line.
    #[inline]
    pub fn next(&self) -> Time {
        match self {
            DelayLine::Constant(line) => line.next(),
            DelayLine::Jitter(jitter) => jitter.next(),
        }
    }
    /// Returns the next packet if it leaves by `now`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<P> {
        match self {
            DelayLine::Constant(line) => line.pop(now),
            DelayLine::Jitter(jitter) => jitter.pop(now),
        }
    }
    /// Returns the packet that leaves as the `n`th from now, counted from 0, or `None` if the order
    /// is not known yet.
    pub fn coming(&self, n: usize) -> Option<&P> {
        match self {
            DelayLine::Constant(line) => line.coming(n),
            DelayLine::Jitter(jitter) => jitter.coming(n),
        }
    }
    /// Returns the number of packets in the line.
    pub fn len(&self) -> usize {
        match self {
            DelayLine::Constant(line) => line.len(),
            DelayLine::Jitter(jitter) => jitter.len(),
        }
    }
    /// Returns whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns whether all packets inside leave before any packet that enters later.
    #[inline]
    pub fn in_order(&self) -> bool {
        matches!(self, DelayLine::Constant(_))
    }
}
