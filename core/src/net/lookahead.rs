//! Access to the future arrivals of a path that are already determined. Engines use this access to
//! run the two hosts one after the other, and to prefetch.

use super::{NetworkObserver, Port};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// A network whose two ends affect each other only after a delay.
pub trait Lookahead<P> {
    /// Returns the minimum times after which an event at NEAR can affect FAR, and one at FAR can
    /// affect NEAR, if there are constant minima.
    fn lookahead(&self) -> Option<[Span; 2]>;
    /// Passes packets that enter at `port` at one time to the network, in this order.
    fn push_burst<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packets: impl Iterator<Item = P>,
        out: &mut O,
    );
    /// Handles everything up to `now` in the forward direction except arrivals, for engines that
    /// take arrivals with [`arrivals`](Self::arrivals).
    fn serve<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O);
    /// Returns the time of the next event in the forward direction, arrivals included;
    /// [`Time::MAX`] for never.
    fn due(&self) -> Time;
    /// Returns when the next packet arrives at `port`, if it has left the queues; [`Time::MAX`] for
    /// never.
    fn arrival(&self, port: Port) -> Time;
    /// Returns the packets on their way to `port` behind the last queue. The packets are in the
    /// order of arrival, each with its time of arrival. Returns `None` if the order is not known
    /// yet. An engine may take many packets at once, and must put back those that it does not
    /// deliver before any other call.
    fn arrivals(&mut self, port: Port) -> Option<&mut VecDeque<(Time, P)>>;
    /// Returns the packet that arrives at `port` as the `n`th from now, counted from 0, if it has
    /// left the queues.
    fn upcoming(&self, port: Port, n: usize) -> Option<&P>;
}
