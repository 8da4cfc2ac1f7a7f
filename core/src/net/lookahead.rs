//! Lookahead: the future events of a path that are already known. Drivers use them to run its two
//! ends one after the other, and to prefetch.

use super::{NetworkObserver, Port};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// A network whose two ends affect each other only after a delay.
pub trait Lookahead<P> {
    /// The least time until an action at one port is visible at the other, if there is a constant
    /// bound.
    fn lookahead(&self) -> Option<Span>;
    /// Handles everything up to `now` in the forward direction except arrivals, for drivers that
    /// [take](Self::arrivals) those.
    fn serve<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O);
    /// Returns the time of the next event in the forward direction, arrivals included;
    /// [`Time::MAX`] for never.
    fn due(&self) -> Time;
    /// Returns when the next packet arrives at `port`, if it has left the queues; [`Time::MAX`] for
    /// never.
    fn arrival(&self, port: Port) -> Time;
    /// The packets on their way to `port` behind the last queue, in the order of arrival, each with
    /// its time, if that is known. A driver may take many at once, and must put back the rest
    /// before any other call.
    fn arrivals(&mut self, port: Port) -> Option<&mut VecDeque<(Time, P)>>;
    /// Returns the packet that arrives at `port` as the `n`th from now, counted from 0, if it has
    /// left the queues.
    fn upcoming(&self, port: Port, n: usize) -> Option<&P>;
}
