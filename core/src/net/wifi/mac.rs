//! The queues inside mac80211: FQ-CoDel per station and category, with a common store.
//!
//! Algorithm: flows hash to 4096 queues, which all stations and categories share. If another
//! station or category uses the queue of a flow, the flow gets the spare queue of its own station
//! and category. Within a station's category, queues are served by deficit round-robin with a
//! quantum of 300 bytes, as in [`fq_codel`](crate::queue::fq_codel), new queues first. Each queue
//! has CoDel on its own backlog. Its target of 20 ms and its interval of 100 ms are settings of the
//! station. Above 8192 packets in all or the memory limit, the longest queue (in bytes) drops half
//! of its packets from its head, at most 32.
//!
//! **Slow stations** ([`Slow`]): in Linux 5.10 and 6.1, a station is slow if its expected
//! throughput is below 6 Mbit/s times the number of stations. A slow station has a target of 50 ms,
//! an interval of 300 ms, and no marks. Linux 6.16 removed this rule (Revert "mac80211: Dynamically
//! set CoDel parameters per station"), and so did later stable releases of 6.12. The defaults of
//! narrows have no such rule.
//!
//! Sources: Linux 6.12 mac80211 (`include/net/fq.h`, `net/mac80211/tx.c`): 4096 flows, quantum 300,
//! limit 8192, 16 MiB of memory, 4 MiB without 802.11ac; CoDel 20 ms, 100 ms, marking. Linux 6.1
//! `sta_update_codel_params` (`net/mac80211/sta_info.c`). Deviation: a station's category has one
//! set of queues, where Linux has one for each of its two traffic identifiers.

use crate::packet::Packet;
use crate::queue::codel::{Head, Law, Vars};
use crate::queue::pool::{List, Pool};
use crate::queue::round_robin::{Node, Order, turn_bytes};
use crate::queue::{Backlog, DropReason, Sink};
use crate::units::{Bytes, Rate, Span, Time};
use alloc::vec::Vec;

const FLOWS: usize = 4096;
/// Default number of bytes of a queue's turn.
pub const QUANTUM: Bytes = Bytes::new(300);
const LIMIT: u64 = 8192;
const DROP_BATCH: u64 = 32;
/// Default target of CoDel.
pub const TARGET: Span = Span::ms(20);
/// Default interval of CoDel.
pub const INTERVAL: Span = Span::ms(100);
/// Default target and interval of CoDel of slow stations, where they differ.
pub const SLOW_CODEL: (Span, Span) = (Span::ms(50), Span::ms(300));

/// The rule for slow stations.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    /// A station is slow if its expected throughput is below this rate times the number of
    /// stations.
    pub rate: Rate,
    /// Target and interval of CoDel.
    pub codel: (Span, Span),
}

impl Slow {
    /// Returns whether a station with this expected throughput in bit/s is slow; zero means
    /// unknown.
    pub fn applies(&self, throughput: f64, stations: usize) -> bool {
        throughput > 0.0 && throughput < self.rate.as_bit() as f64 * stations as f64
    }
}

/// The control law with this target and interval, with or without marks.
pub fn law(codel: (Span, Span), ecn: bool) -> Law {
    Law::new(codel.0, codel.1, ecn).exempting(Bytes::ZERO)
}

/// One queue.
#[derive(Clone, Default)]
struct Flow {
    list: List,
    vars: Vars,
    node: Node,
    backlog: Backlog,
    /// The owner of the queue while it is in an order: the index of a station's category, plus one.
    of: u32,
}

impl AsMut<Node> for Flow {
    fn as_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

/// One station's category.
#[derive(Clone, Default)]
struct Txq {
    order: Order,
    packets: u64,
}

/// Queues of one host.
pub struct Mac<P> {
    packets: Pool<P>,
    /// Allocated with the first packet: most stations never have many.
    flows: Vec<Flow>,
    txqs: Vec<Txq>,
    total: u64,
    memory: u64,
    memory_limit: u64,
    /// Of each station.
    laws: Vec<Law>,
    quantum: i64,
    seed: u64,
}

/// One queue during its turn.
struct Turn<'a, P> {
    packets: &'a mut Pool<P>,
    list: &'a mut List,
    backlog: &'a mut Backlog,
    taken: u64,
    memory: u64,
    size: Bytes,
}

impl<P: Packet> Head<P> for Turn<'_, P> {
    fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop(self.list)?;
        self.size = packet.size();
        self.backlog.remove(self.size);
        self.memory += packet.memory(self.size).get();
        self.taken += 1;
        Some(packet)
    }
    fn behind(&self) -> Bytes {
        self.backlog.bytes
    }
}

impl<P: Packet> Mac<P> {
    /// Empty queues of the four categories of stations with these control laws.
    pub fn new(memory_limit: Bytes, quantum: Bytes, laws: Vec<Law>, seed: u64) -> Mac<P> {
        Mac {
            packets: Pool::default(),
            flows: Vec::new(),
            txqs: alloc::vec![Txq::default(); 4 * laws.len()],
            total: 0,
            memory: 0,
            memory_limit: memory_limit.get(),
            laws,
            quantum: turn_bytes(quantum),
            seed,
        }
    }

    /// Replaces the control law of a station.
    pub fn set_law(&mut self, station: usize, law: Law) {
        self.laws[station] = law;
    }

    /// Number of packets of one station's category.
    pub fn waiting(&self, txq: usize) -> u64 {
        self.txqs[txq].packets
    }

    /// Enqueues a packet.
    pub fn enqueue(&mut self, now: Time, txq: usize, packet: P, sink: &mut dyn Sink<P>) {
        if self.flows.is_empty() {
            self.flows = alloc::vec![Flow::default(); FLOWS + self.txqs.len()];
        }
        let hashed = (u64::from(packet.flow_hash(self.seed)) * FLOWS as u64) >> 32;
        let own = txq as u32 + 1;
        let index = match self.flows[hashed as usize].of {
            0 => hashed as usize,
            of if of == own => hashed as usize,
            _ => FLOWS + txq,
        };
        let flow = &mut self.flows[index];
        flow.of = own;
        flow.backlog.add(packet.size());
        self.memory += packet.memory(packet.size()).get();
        self.packets.push(&mut flow.list, packet);
        self.total += 1;
        let Txq { order, packets } = &mut self.txqs[txq];
        *packets += 1;
        order.activate(&mut self.flows, index, self.quantum);
        while self.total > LIMIT || self.memory > self.memory_limit {
            self.make_room(now, sink);
        }
    }

    /// Drops from the head of the queue with the most bytes, the first of equals.
    #[cold]
    fn make_room(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        let most = self
            .flows
            .iter()
            .map(|flow| flow.backlog.bytes)
            .max()
            .unwrap_or_default();
        let Some(flow) = self
            .flows
            .iter_mut()
            .find(|flow| flow.backlog.bytes == most)
        else {
            return;
        };
        let batch = (flow.backlog.packets / 2).clamp(1, DROP_BATCH);
        for _ in 0..batch {
            let Some(packet) = self.packets.pop(&mut flow.list) else {
                // All queues are empty: reset the counters.
                (self.total, self.memory) = (0, 0);
                return;
            };
            flow.backlog.remove(packet.size());
            self.memory -= packet.memory(packet.size()).get();
            self.total -= 1;
            self.txqs[flow.of as usize - 1].packets -= 1;
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }

    /// The next packet of a station's category, if CoDel leaves one.
    pub fn dequeue(&mut self, now: Time, txq: usize, sink: &mut dyn Sink<P>) -> Option<P> {
        let Txq { order, packets } = &mut self.txqs[txq];
        while let Some(index) = order.next_queue(&mut self.flows, self.quantum) {
            let flow = &mut self.flows[index];
            let mut turn = Turn {
                packets: &mut self.packets,
                list: &mut flow.list,
                backlog: &mut flow.backlog,
                taken: 0,
                memory: 0,
                size: Bytes::ZERO,
            };
            let packet = flow.vars.dequeue(&self.laws[txq / 4], &mut turn, now, sink);
            let (taken, memory, size) = (turn.taken, turn.memory, turn.size);
            self.total -= taken;
            self.memory -= memory;
            *packets -= taken;
            if packet.is_some() {
                order.sent(&mut self.flows, index, size, self.quantum);
                return packet;
            }
            if order.empty(&mut self.flows) {
                self.flows[index].of = 0;
            }
        }
        None
    }
}
