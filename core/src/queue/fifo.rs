//! First in, first out. When the queue is full, it drops the arriving packet (`tail`) or the oldest
//! packets (`head`).
//!
//! Algorithm: a packet enters if `backlog + size <= limit` (limit in bytes) or `packets < limit`
//! (limit in packets). With `drop = "head"`, the oldest packets are dropped until the arriving
//! packet fits. An arriving packet that would not fit into an empty queue is dropped itself.
//! Source: Linux 6.12 `bfifo`, `pfifo`, `pfifo_head_drop`. If the scenario sets no buffer, the
//! limit is 1000 packets (a device's default `txqueuelen`). Deviation: Linux has head drop with a
//! limit in packets only.
//!
//! With `mark_above`, an ECN-capable packet is marked if at least this many packets are in the
//! queue when it arrives. This is the marking threshold K of DCTCP's switches (RFC 8257 section
//! 3.1). It counts the present backlog, as RED does in a switch with equal thresholds and a weight
//! of 1. Linux has no such FIFO.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "drop",
        kind: Kind::Word(&["tail", "head"]),
        help: "packet that a full queue drops: the arriving one, or the oldest",
        source: "Linux 6.12 pfifo, pfifo_head_drop",
    },
    MARK_ABOVE,
];

/// The parameter `mark_above`.
pub const MARK_ABOVE: Param = Param {
    name: "mark_above",
    kind: Kind::Packets(0, 0, 1_000_000),
    help: "mark arriving ECN-capable packets while the queue has at least this many packets (the \
        threshold K of DCTCP); 0p: no marks",
    source: "RFC 8257 section 3.1",
};

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

/// A FIFO queue that marks packets above a threshold.
struct Marking<P> {
    queue: Fifo<P>,
    /// The threshold, in packets.
    above: u64,
}

impl<P: Packet + Send> QueueDiscipline<P> for Marking<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        let waiting = self.queue.backlog.packets;
        let fits =
            self.queue.from_head || self.queue.limit.admits(self.queue.backlog, packet.size());
        if fits && waiting >= self.above && packet.ecn() != Ecn::NotEct {
            packet.set_ce();
            sink.marked(now, &packet, DropReason::Aqm);
        }
        self.queue.enqueue(now, packet, sink);
    }
    fn refuses(&self, why: DropReason) -> bool {
        QueueDiscipline::<P>::refuses(&self.queue, why)
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.queue.dequeue(now, sink)
    }
    fn wakes(&self) -> bool {
        false
    }
    fn peek(&self) -> Option<Bytes> {
        self.queue.peek()
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
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
            let queue = match params.word("drop") {
                "head" => Fifo::dropping_oldest(limit),
                _ => Fifo::<P>::new(limit),
            };
            match params.packets("mark_above") {
                0 => Box::new(queue),
                above => Box::new(Marking { queue, above }),
            }
        },
    }
}
