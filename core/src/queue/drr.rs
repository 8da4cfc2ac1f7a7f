//! DRR, deficit round robin: classes send in turn, each a quantum of bytes per turn, and keep the
//! unused rest.
//!
//! Algorithm: an empty class that gets a packet joins the end of the round with a deficit of one
//! `quantum`. The first class of the round is served. If the size of its first packet does not
//! exceed its deficit, the packet is sent, and its size is subtracted from the deficit. If not, the
//! deficit grows by one `quantum`, and the class goes to the end of the round. A class that has
//! sent its last packet leaves the round and loses the rest of its deficit.
//!
//! Sources: Shreedhar and Varghese, *Efficient Fair Queueing using Deficit Round Robin*, SIGCOMM
//! 1995; Linux 6.12 `sch_drr`, compared packet by packet (`core/tests/queue_replay.rs`); tc-drr(8).
//!
//! As in Linux: the round, the default quantum (a full frame), and each class's own `pfifo` of
//! `txqueuelen` packets that drops at its tail. In the paper, a class gets its quantum at the start
//! of its turn. In Linux, a class gets a quantum when it joins the round and at the end of each
//! turn. The order of service is the same.
//!
//! Deviation: the assignment of packets to classes. Linux has no classes by default; filters assign
//! packets, and packets that no filter matches are dropped. Here flows are hashed to `classes`
//! equal classes. The `buffer` of the path limits each class separately.

use super::fifo::Fifo;
use super::{Backlog, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "classes",
        kind: Kind::Count(1024, 1, 65_536),
        help: "number of classes to which flows are hashed",
        source: "as many as fq_codel's; Linux has those that are made",
    },
    Param {
        name: "quantum",
        kind: Kind::Bytes(Bytes::new(1514), Bytes::new(64), Bytes::new(1 << 20)),
        help: "bytes that a class may send in its turn",
        source: "Linux 6.12 sch_drr: the device's MTU and its Ethernet header",
    },
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, u32::MAX as u64),
        help: "largest backlog of a class in packets, if the path has no buffer",
        source: "Linux 6.12 pfifo: a device's default txqueuelen",
    },
];

struct Class<P> {
    queue: Fifo<P>,
    deficit: u64,
}

/// The queue discipline `drr`.
pub struct Drr<P> {
    seed: u64,
    quantum: u64,
    classes: Vec<Class<P>>,
    /// The classes with packets, in the order of service.
    round: VecDeque<u32>,
    backlog: Backlog,
}

impl<P: Packet + Send> Drr<P> {
    /// A discipline with `classes` empty classes, each with the given limit; `seed` is the seed of
    /// the flow hash.
    pub fn new(classes: usize, quantum: Bytes, limit: Limit, seed: u64) -> Drr<P> {
        let classes = classes.clamp(1, 65_536);
        let class = || Class {
            queue: Fifo::new(limit),
            deficit: 0,
        };
        Drr {
            seed,
            // Without a quantum no class would ever be served.
            quantum: quantum.get().max(1),
            classes: core::iter::repeat_with(class).take(classes).collect(),
            round: VecDeque::with_capacity(classes),
            backlog: Backlog::default(),
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Drr<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        let hash = packet.flow_hash(self.seed);
        let index = (u64::from(hash) * self.classes.len() as u64) >> 32;
        let class = &mut self.classes[index as usize];
        let before = class.queue.backlog();
        class.queue.enqueue(now, packet, sink);
        if class.queue.backlog().packets == before.packets {
            return;
        }
        self.backlog.add(size);
        if before.packets == 0 {
            class.deficit = self.quantum;
            self.round.push_back(index as u32);
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        loop {
            let index = *self.round.front()?;
            let class = &mut self.classes[index as usize];
            let size = class.queue.peek()?;
            if size.get() > class.deficit {
                class.deficit += self.quantum;
                self.round.rotate_left(1);
                continue;
            }
            class.deficit -= size.get();
            let packet = class.queue.dequeue(now, sink);
            self.backlog.remove(size);
            if class.queue.backlog().packets == 0 {
                self.round.pop_front();
            }
            return packet;
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "drr",
        help: "deficit round robin: classes of flows in turn, each with the same number of bytes",
        source: "Shreedhar and Varghese 1995, Linux 6.12 sch_drr",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            let limit = context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit")));
            Box::new(Drr::<P>::new(
                params.count("classes") as usize,
                params.bytes("quantum"),
                limit,
                context.seed,
            ))
        },
    }
}
