//! Packets of a part of a run, one row for each event, for animations of packets in motion.
//!
//! The trace keeps the events of an interval, up to a maximum number of rows. It changes nothing in
//! the run.

use crate::units::Time;
use alloc::vec::Vec;

/// An event of a packet; a row has its index.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// The packet enters the network at the side of [`NEAR`](crate::net::NEAR).
    EntersNear = 0,
    /// The packet enters the network at any other port.
    EntersFar = 1,
    /// The packet leaves the network at the side of [`NEAR`](crate::net::NEAR).
    LeavesNear = 2,
    /// The packet leaves the network at any other port.
    LeavesFar = 3,
    /// The packet leaves a hop: a serial link has transmitted it, or a token bucket lets it pass.
    Departs = 4,
    /// It was dropped.
    Dropped = 5,
    /// The packet was marked and is forwarded.
    Marked = 6,
}

/// The events of packets between two times.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketTrace {
    from: Time,
    until: Time,
    most: usize,
    /// Number of events that had no room.
    pub left_out: u64,
    /// Time in seconds.
    pub t_s: Vec<f64>,
    /// The [`TraceEvent`].
    pub event: Vec<u8>,
    /// Number of the hop; 0 for packets that enter or leave the network.
    pub hop: Vec<u8>,
    /// Index of the flow in the scenario; probes follow the last flow.
    pub flow: Vec<u32>,
    /// Bytes on the wire.
    pub bytes: Vec<u32>,
    /// Time in seconds at which the packet entered its queue; NaN if it was in none.
    pub entered_s: Vec<f64>,
}

impl PacketTrace {
    /// A trace of the interval from `from` to `until`, with at most `most` rows.
    pub fn new(from: Time, until: Time, most: usize) -> PacketTrace {
        PacketTrace {
            from,
            until,
            most,
            left_out: 0,
            t_s: Vec::new(),
            event: Vec::new(),
            hop: Vec::new(),
            flow: Vec::new(),
            bytes: Vec::new(),
            entered_s: Vec::new(),
        }
    }
    /// Returns whether events at `now` are kept.
    #[inline]
    pub fn covers(&self, now: Time) -> bool {
        now >= self.from && now < self.until
    }
    /// Appends an event, or counts it if there is no room.
    pub fn push(
        &mut self,
        now: Time,
        event: TraceEvent,
        hop: u8,
        flow: u32,
        bytes: u64,
        entered: Option<Time>,
    ) {
        if self.t_s.len() >= self.most {
            self.left_out += 1;
            return;
        }
        self.t_s.push(now.as_s());
        self.event.push(event as u8);
        self.hop.push(hop);
        self.flow.push(flow);
        self.bytes.push(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.entered_s.push(entered.map_or(f64::NAN, Time::as_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    #[test]
    fn only_events_of_the_interval_are_wanted_and_the_rest_is_counted() {
        let at = |ms| Time::ZERO + Span::ms(ms);
        let mut trace = PacketTrace::new(at(10), at(20), 1);
        assert!(!trace.covers(at(9)) && trace.covers(at(10)) && !trace.covers(at(20)));
        trace.push(at(11), TraceEvent::EntersNear, 0, 3, 1514, None);
        trace.push(at(12), TraceEvent::Departs, 0, 3, 1514, Some(at(11)));
        assert_eq!((trace.t_s.len(), trace.left_out), (1, 1));
        assert!(trace.entered_s[0].is_nan());
    }
}
