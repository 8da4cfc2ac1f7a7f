//! First in, first out; what does not fit is dropped at the tail.
//!
//! Law: a packet enters while `backlog + size <= limit` (bytes) or `packets < limit` (packets).
//! Source: Linux 6.12 `bfifo` and `pfifo`; without a buffer in the scenario, 1000 packets (a device's default
//! `txqueuelen`).

use super::{Backlog, Limit, Place, QueueDiscipline, QueueKind, Sink, Why};
use crate::packet::Packet;
use crate::param::Params;
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// A drop-tail queue, limited in bytes or in packets.
pub struct Fifo<P> {
    limit: Limit,
    bytes: Bytes,
    packets: VecDeque<P>,
}

impl<P> Fifo<P> {
    /// An empty queue with this limit.
    pub fn new(limit: Limit) -> Fifo<P> {
        Fifo {
            limit,
            bytes: Bytes::ZERO,
            packets: VecDeque::new(),
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Fifo<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let fits = match self.limit {
            Limit::Bytes(most) => self.bytes + packet.size() <= most,
            Limit::Packets(most) => (self.packets.len() as u64) < most,
        };
        if fits {
            self.bytes += packet.size();
            self.packets.push_back(packet);
        } else {
            sink.dropped(now, packet, Why::Overflow);
        }
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes = self.bytes - packet.size();
        Some(packet)
    }
    fn peek(&self) -> Option<Bytes> {
        self.packets.front().map(Packet::size)
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.packets.len() as u64,
        }
    }
}

/// Its line in the registry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "fifo",
        help: "first in, first out; drops at the tail",
        source: "Linux 6.12 bfifo, pfifo",
        params: &[],
        make: |_: &Params, place: &Place| Box::new(Fifo::new(place.limit.unwrap_or(Limit::Packets(1000)))),
    }
}
