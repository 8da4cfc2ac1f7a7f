//! The closed form of a frequent hop: a FIFO with tail drop before a serial link of constant rate.
//!
//! At such a hop, the packets that have entered so far determine the departure of each one. A
//! packet starts when its predecessor has left or, without one, when it enters. Therefore the
//! departure of a packet is computed when the packet enters, and the packet is passed to the delay
//! line at once. The last packets on the delay line are those that have not left the hop; their
//! number and their size are the backlog. The results are those of [`Hop`](super::hop::Hop) in its
//! general form.

use super::delay::ConstantDelay;
use super::link::Serial;
use super::{NetworkObserver, Port};
use crate::packet::Packet;
use crate::queue::{Backlog, DropReason, Limit};
use crate::units::{Bytes, Time};

/// The queue, the packet in service and the link.
pub(super) struct ClosedForm {
    /// Number of the hop, for the observer.
    hop: u8,
    limit: Limit,
    link: Serial,
    /// Number of packets on the delay line that have not left the hop. The first of them is in
    /// service, all others wait.
    inside: usize,
    /// The waiting packets.
    backlog: Backlog,
    /// Departure of the packet in service; [`Time::MAX`] without one.
    next: Time,
    /// Time at which the packet in service entered the queue.
    entered: Time,
}

impl ClosedForm {
    /// An empty queue with this limit before an idle link of constant rate.
    pub fn new(hop: u8, limit: Limit, link: Serial) -> ClosedForm {
        ClosedForm {
            hop,
            limit,
            link,
            inside: 0,
            backlog: Backlog::default(),
            next: Time::MAX,
            entered: Time::ZERO,
        }
    }
    /// Returns the backlog at the time of the last [`settle`](Self::settle).
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// Reports all departures up to `now`. `line` is the delay line of all calls.
    #[inline(always)]
    pub fn settle<P: Packet, O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        line: &ConstantDelay<P>,
        out: &mut O,
    ) {
        if self.next > now || self.inside == 0 {
            return;
        }
        let (mut next, mut entered, mut inside) = (self.next, self.entered, self.inside);
        let (mut left, mut waiting) = (Backlog::default(), line.newest(inside - 1));
        let departures = core::iter::from_fn(|| {
            if next > now || inside == 0 {
                return None;
            }
            let departure = (next, entered);
            inside -= 1;
            next = match waiting.next() {
                Some((arrives, packet)) => {
                    left.add(packet.size());
                    entered = packet.enqueued_at();
                    line.entered(*arrives)
                }
                None => Time::MAX,
            };
            Some(departure)
        });
        out.have_departed(self.hop, departures);
        (self.next, self.entered, self.inside) = (next, entered, inside);
        self.backlog.bytes = self.backlog.bytes - left.bytes;
        self.backlog.packets -= left.packets;
    }
    /// Takes packets that enter at `now`, and handles everything up to `now`. They have entered the
    /// network at `port`.
    #[inline(always)]
    pub fn pass<P: Packet, O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packets: impl Iterator<Item = P>,
        line: &mut ConstantDelay<P>,
        out: &mut O,
    ) {
        self.settle(now, line, out);
        for mut packet in packets {
            out.entered(now, port, &packet);
            if self.next <= now {
                self.settle(now, line, out);
            }
            packet.set_enqueued_at(now);
            match self.admit(now, packet.size()) {
                Some(departs) => line.push(departs, packet),
                None => out.dropped(now, self.hop, packet, DropReason::Overflow),
            }
        }
    }
    /// Adds a packet of `size` bytes that enters at `now`. Returns the time of its departure;
    /// `None` if it is dropped.
    #[inline(always)]
    fn admit(&mut self, now: Time, size: Bytes) -> Option<Time> {
        if !self.limit.admits(self.backlog, size) {
            return None;
        }
        let departs = if self.inside == 0 {
            let departs = self.link.serve(now, size);
            (self.next, self.entered) = (departs, now);
            departs
        } else {
            self.backlog.add(size);
            self.link.serve_next(size)
        };
        self.inside += 1;
        Some(departs)
    }
}
