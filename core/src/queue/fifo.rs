//! First in, first out. When the queue is full, it drops the arriving packet (`tail`) or the oldest
//! packets (`head`).
//!
//! Algorithm: a packet enters if `backlog + size <= limit` (limit in bytes) or `packets < limit`
//! (limit in packets). With `drop = "head"`, the oldest packets are dropped until the arriving
//! packet fits. An arriving packet that would not fit into an empty queue is dropped itself.
//! Source: Linux 6.12 `bfifo`, `pfifo`, `pfifo_head_drop`. If the scenario sets no buffer, the
//! limit is 1000 packets (a device's default `txqueuelen`). Deviation: Linux has head drop with a
//! limit in packets only.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[Param {
    name: "drop",
    kind: Kind::Word(&["tail", "head"]),
    help: "packet that a full queue drops: the arriving one, or the oldest",
    source: "Linux 6.12 pfifo, pfifo_head_drop",
}];

/// A first-in first-out queue, limited in bytes or in packets.
pub struct Fifo<P> {
    limit: Limit,
    from_head: bool,
    backlog: Backlog,
    packets: VecDeque<P>,
}

impl<P> Fifo<P> {
    /// An empty queue with this limit that drops the arriving packet when it is full.
    pub fn new(limit: Limit) -> Fifo<P> {
        Fifo {
            limit,
            from_head: false,
            backlog: Backlog::default(),
            packets: VecDeque::new(),
        }
    }
    /// An empty queue with this limit that drops the oldest packets when it is full.
    pub fn dropping_oldest(limit: Limit) -> Fifo<P> {
        Fifo {
            from_head: true,
            ..Fifo::new(limit)
        }
    }
}

impl<P: Packet + Send> Fifo<P> {
    fn take(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.size());
        Some(packet)
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Fifo<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        if self.from_head && self.limit.admits(Backlog::default(), size) {
            while !self.limit.admits(self.backlog, size) {
                match self.take() {
                    Some(oldest) => sink.dropped(now, oldest, DropReason::Overflow),
                    None => break,
                }
            }
        }
        if self.limit.admits(self.backlog, size) {
            self.backlog.add(size);
            self.packets.push_back(packet);
        } else {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }
    fn refuses(&self, _why: DropReason) -> bool {
        !self.from_head
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        self.take()
    }
    fn wakes(&self) -> bool {
        false
    }
    fn tail_drop(&self) -> Option<Limit> {
        (!self.from_head).then_some(self.limit)
    }
    fn peek(&self) -> Option<Bytes> {
        self.packets.front().map(Packet::size)
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "fifo",
        help: "first in, first out; drops at the tail",
        source: "Linux 6.12 bfifo, pfifo, pfifo_head_drop",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            let limit = context.limit.unwrap_or(Limit::Packets(1000));
            match params.word("drop") {
                "head" => Box::new(Fifo::dropping_oldest(limit)),
                _ => Box::new(Fifo::<P>::new(limit)),
            }
        },
    }
}
