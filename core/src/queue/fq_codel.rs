//! FQ-CoDel: each flow has a queue with CoDel. The queues are served by deficit round robin, and
//! new flows are served first.
//!
//! Algorithm: flows hash to `flows` queues. A queue that was not in the order of service and gets a
//! packet joins the new queues with a deficit of `quantum`. The first new queue is served, or the
//! first old queue if there is no new one. If its deficit is 0 or less, the queue gets a `quantum`
//! and goes behind the old queues. Otherwise CoDel ([`codel`](super::codel)) selects the packet
//! that leaves, and the size of this packet is subtracted from the deficit. An empty new queue goes
//! behind the old queues, if there are any, so that sparse packets do not keep a flow new. Any
//! other empty queue leaves the order of service. When `limit` or `memory_limit` is exceeded, the
//! queue with the most bytes drops half of them from its head, at most `drop_batch` packets. The
//! number of dropped packets is added to the `count` of CoDel of this queue.
//!
//! Sources: RFC 8290; Linux 6.12 `fq_codel`. A test compares every packet of recordings of Linux
//! (`core/tests/queue_replay.rs`).
//!
//! Linux differs from the RFC in two points, which this file follows. First, CoDel drops only while
//! the backlog of all queues together exceeds one full frame ([`MTU`]), not that
//! of the one queue. CoDel may therefore drop the only packet of a flow with little traffic.
//! Second, a batch of drops increases the `count` of CoDel by the whole batch at once.
//! [`newton_step`](super::codel::newton_step) is accurate only if `count` changes by one, so its
//! result may then differ from `1/√count`.

use super::codel::{CE_THRESHOLD, Head, INTERVAL, Law, MTU, TARGET, Vars};
use super::pool::{List, Pool};
use super::round_robin::{Node, RoundRobin};
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(10_240, 1, 10_000_000),
        help: "largest backlog of all queues in packets, if the path has no buffer",
        source: "Linux 6.12 fq_codel",
    },
    Param {
        name: "flows",
        kind: Kind::Count(1024, 1, 65_536),
        help: "number of queues to which flows are hashed",
        source: "Linux 6.12 fq_codel",
    },
    TARGET,
    INTERVAL,
    Param {
        name: "quantum",
        kind: Kind::Bytes(MTU, Bytes::new(256), Bytes::new(1 << 20)),
        help: "bytes that a queue may send in its turn",
        source: "Linux 6.12 fq_codel: the device's MTU and its Ethernet header",
    },
    Param {
        name: "ecn",
        kind: Kind::Bool(true),
        help: "mark ECN-capable packets instead of dropping them",
        source: "Linux 6.12 fq_codel",
    },
    CE_THRESHOLD,
    Param {
        name: "ce_threshold_selector",
        kind: Kind::Count(0, 0, 255),
        help: "value of the masked DS field of packets to which ce_threshold applies",
        source: "Linux 6.12 fq_codel",
    },
    Param {
        name: "ce_threshold_mask",
        kind: Kind::Count(0, 0, 255),
        help: "bits of the DS field that are compared with ce_threshold_selector (the lowest two \
            are those of ECN); 0: none",
        source: "Linux 6.12 fq_codel",
    },
    Param {
        name: "memory_limit",
        kind: Kind::Bytes(Bytes::new(32 << 20), Bytes::new(1), Bytes::new(1 << 31)),
        help: "memory limit of all queues, counted as in Linux",
        source: "Linux 6.12 fq_codel",
    },
    Param {
        name: "drop_batch",
        kind: Kind::Packets(64, 1, 1_000_000),
        help: "largest number of packets that the longest queue loses when the limit is exceeded",
        source: "Linux 6.12 fq_codel",
    },
];

/// One queue, in one cache line. Several flows may share it.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Queue {
    list: List,
    vars: Vars,
    node: Node,
}

impl AsMut<Node> for Queue {
    fn as_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

/// The packets of all queues.
struct Store<P> {
    packets: Pool<P>,
    stock: Stock,
}

/// Counters of all queues.
struct Stock {
    memory: u64,
    /// Bytes in each queue. They are stored separately from the queues, because the search for the
    /// queue with the most bytes reads nothing else.
    bytes: Vec<u64>,
    backlog: Backlog,
}

impl Stock {
    /// Adds a packet of `size` bytes that occupies `memory` bytes and joins the queue `index`.
    #[inline]
    fn joined(&mut self, index: usize, size: Bytes, memory: Bytes) {
        self.backlog.add(size);
        self.memory += memory.get();
        self.bytes[index] += size.get();
    }
    /// Removes a packet of `size` bytes that occupied `memory` bytes and left the queue `index`.
    #[inline]
    fn left(&mut self, index: usize, size: Bytes, memory: Bytes) {
        self.backlog.remove(size);
        self.memory -= memory.get();
        self.bytes[index] -= size.get();
    }
}

/// One queue during its turn.
struct Turn<'a, P> {
    store: &'a mut Store<P>,
    list: &'a mut List,
    index: usize,
    /// Size of the packet that was removed last.
    size: Bytes,
}

impl<P: Packet> Head<P> for Turn<'_, P> {
    #[inline(always)]
    fn pop(&mut self) -> Option<P> {
        let packet = self.store.packets.pop(self.list)?;
        self.size = packet.size();
        let memory = packet.memory(self.size);
        self.store.stock.left(self.index, self.size, memory);
        Some(packet)
    }
    #[inline]
    fn behind(&self) -> Bytes {
        self.store.stock.backlog.bytes
    }
}

/// The queue discipline.
pub struct FqCodel<P> {
    limit: Limit,
    memory_limit: u64,
    drop_batch: u64,
    seed: u64,
    law: Law,
    flows: u64,
    round_robin: RoundRobin<Queue>,
    store: Store<P>,
}

impl<P: Packet> FqCodel<P> {
    /// Empty queues. `limit` applies to all queues together; `seed` is the seed of the flow hash.
    pub fn new(params: &Params, limit: Limit, seed: u64) -> FqCodel<P> {
        let flows = params.count("flows").clamp(1, 65_536) as usize;
        let [selector, mask] =
            ["ce_threshold_selector", "ce_threshold_mask"].map(|name| params.count(name) as u8);
        FqCodel {
            limit,
            memory_limit: params.bytes("memory_limit").get(),
            drop_batch: params.packets("drop_batch"),
            seed,
            law: Law::of(params).selecting(selector, mask),
            flows: flows as u64,
            round_robin: RoundRobin::new(flows, params.bytes("quantum")),
            store: Store {
                packets: Pool::default(),
                stock: Stock {
                    memory: 0,
                    bytes: alloc::vec![0; flows],
                    backlog: Backlog::default(),
                },
            },
        }
    }

    /// Applies the control law to the packets of a queue, and returns the first one that is not
    /// dropped.
    #[inline(never)]
    fn judged(&mut self, index: usize, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        let flow = self.round_robin.queue(index);
        let mut turn = Turn {
            store: &mut self.store,
            list: &mut flow.list,
            index,
            size: Bytes::ZERO,
        };
        let packet = flow.vars.dequeue(&self.law, &mut turn, now, sink)?;
        let size = turn.size;
        self.round_robin.sent(index, size);
        Some(packet)
    }

    /// Drops batches until the limit is met. With a limit in packets, as in Linux, one batch is
    /// always enough. With a limit in bytes, more batches may be necessary.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        self.drop_batch(now, sink);
        while self.limit.exceeded(self.store.stock.backlog) {
            self.drop_batch(now, sink);
        }
    }

    /// Drops a batch of packets from the head of the queue with the most bytes; of equal queues,
    /// the first.
    fn drop_batch(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        let most = self.store.stock.bytes.iter().copied().max().unwrap_or(0);
        let Some(index) = self
            .store
            .stock
            .bytes
            .iter()
            .position(|bytes| *bytes == most)
        else {
            return;
        };
        let flow = self.round_robin.queue(index);
        let mut turn = Turn {
            store: &mut self.store,
            list: &mut flow.list,
            index,
            size: Bytes::ZERO,
        };
        let (mut bytes, mut packets) = (0, 0);
        while packets < self.drop_batch && (packets == 0 || bytes < most / 2) {
            let Some(packet) = turn.pop() else {
                break;
            };
            bytes += turn.size.get();
            packets += 1;
            sink.dropped(now, packet, DropReason::Overflow);
        }
        flow.vars.press(packets as u32);
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        let memory = packet.memory(size);
        let index = ((u64::from(packet.flow_hash(self.seed)) * self.flows) >> 32) as usize;
        let flow = self.round_robin.activate(index);
        self.store.packets.push(&mut flow.list, packet);
        let stock = &mut self.store.stock;
        stock.joined(index, size, memory);
        if self.limit.exceeded(stock.backlog) || stock.memory > self.memory_limit {
            self.make_room(now, sink);
        }
    }

    fn refuses(&self, _why: DropReason) -> bool {
        false
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        while let Some(index) = self.round_robin.next_queue() {
            let flow = self.round_robin.queue(index);
            let Some(mut head) = self.store.packets.head(&flow.list) else {
                // On a busy link most flows found here are empty.
                flow.vars.rest();
                self.round_robin.empty();
                continue;
            };
            let packet = head.packet()?;
            if flow.vars.passes(&self.law, packet.enqueued_at(), now) {
                let size = packet.size();
                let memory = packet.memory(size);
                self.store.stock.left(index, size, memory);
                let flow = self.round_robin.sent(index, size);
                return head.take(&mut flow.list);
            }
            match self.judged(index, now, sink) {
                Some(packet) => return Some(packet),
                None => self.round_robin.empty(),
            };
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.store.stock.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "fq_codel",
        help: "a queue for each flow, served in turn, each with CoDel's control law",
        source: "RFC 8290, Linux 6.12 fq_codel",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            let limit = context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit")));
            Box::new(FqCodel::<P>::new(params, limit, context.seed))
        },
    }
}
