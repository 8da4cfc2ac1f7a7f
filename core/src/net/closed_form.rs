//! The closed form of a frequent hop: a FIFO with tail drop before a serial link of constant rate.
//!
//! At such a hop, the packets that have entered so far determine the departure of each one. A
//! packet starts when its predecessor has left or, without one, when it enters. Therefore the
//! departure of a packet is computed when the packet enters, and the packet is passed to the delay
//! line at once. The hop only keeps the times and the sizes of packets that have not left, for the
//! backlog and the metrics. The results are those of [`Hop`](super::hop::Hop) in its general form.

use super::NetworkObserver;
use crate::queue::{Backlog, Limit};
use crate::units::{Bytes, Time};
use alloc::collections::VecDeque;

/// A packet that has entered and not left.
struct Pending {
    entered: Time,
    departs: Time,
    size: Bytes,
}

/// The queue and the packet in service.
pub(super) struct ClosedForm {
    limit: Limit,
    /// The first packet is in service, all others wait.
    pending: VecDeque<Pending>,
    backlog: Backlog,
}

impl ClosedForm {
    /// An empty queue with this limit.
    pub fn new(limit: Limit) -> ClosedForm {
        ClosedForm {
            limit,
            pending: VecDeque::new(),
            backlog: Backlog::default(),
        }
    }
    /// Returns the backlog at the time of the last [`settle`](Self::settle).
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// Reports all departures up to `now`.
    #[inline]
    pub fn settle<P, O: NetworkObserver<P>>(&mut self, now: Time, hop: u8, out: &mut O) {
        while let Some(first) = self.pending.front().filter(|first| first.departs <= now) {
            out.has_departed(first.departs, hop, first.entered);
            self.pending.pop_front();
            if let Some(next) = self.pending.front() {
                self.backlog.remove(next.size);
            }
        }
    }
    /// Returns the time at which a packet of `size` that enters at `now` goes into service, or
    /// `None` if the queue is full. Departures up to `now` are settled.
    #[inline]
    pub fn start(&self, now: Time, size: Bytes) -> Option<Time> {
        if !self.limit.admits(self.backlog, size) {
            return None;
        }
        Some(self.pending.back().map_or(now, |last| last.departs))
    }
    /// Adds the packet, which leaves at `departs`.
    #[inline]
    pub fn add(&mut self, entered: Time, departs: Time, size: Bytes) {
        if !self.pending.is_empty() {
            self.backlog.add(size);
        }
        self.pending.push_back(Pending {
            entered,
            departs,
            size,
        });
    }
}
