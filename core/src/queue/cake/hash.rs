//! The assignment of flows to queues, and of queues to hosts (set-associative hashing).
//!
//! Algorithm: a flow's hash selects one of 1024 queues, which belongs to a set of eight queues. The
//! search begins at the selected queue and continues in its set. The flow uses the queue that
//! already belongs to it. If there is none, the flow uses the first idle queue, which then belongs
//! to the flow. If no queue of the set is idle, the flow shares the selected queue with another
//! flow. Of 100 flows, fewer than one shares a queue on average. With a plain hash, at least two of
//! 100 flows almost always share a queue. Hosts have a table of the same kind. Sources: Piece of
//! CAKE (2018), section III.C; Linux 6.12.
//!
//! Modes: `flowblind` uses one queue; `srchost`, `dsthost` and `hosts` use one for each host or
//! pair of hosts; `flows` uses one for each flow. `dual-srchost`, `dual-dsthost` and
//! `triple-isolate` also use one queue for each flow. In these three modes, the more flows of a
//! host are busy, the fewer bytes each of its queues sends per turn. With `nat`, hosts behind one
//! translated address are distinguished; otherwise each address is one host.

use crate::packet::Packet;

/// Number of queues of a tin.
pub const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// The isolation mode: flows and hosts that get queues of their own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Isolation {
    flows: bool,
    source: bool,
    destination: bool,
    /// Whether hosts behind translated addresses are distinguished.
    nat: bool,
}

/// The words of tc for the modes; the first is tc's default.
pub const WORDS: &[&str] = &[
    "triple-isolate",
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
];

impl Isolation {
    /// The mode of tc's `word`. `nat` is whether hosts behind translated addresses are
    /// distinguished.
    pub fn of(word: &str, nat: bool) -> Isolation {
        let (flows, source, destination) = match word {
            "flowblind" => (false, false, false),
            "srchost" => (false, true, false),
            "dsthost" => (false, false, true),
            "hosts" => (false, true, true),
            "flows" => (true, false, false),
            "dual-srchost" => (true, true, false),
            "dual-dsthost" => (true, false, true),
            _ => (true, true, true),
        };
        Isolation {
            flows,
            source,
            destination,
            nat,
        }
    }
}

/// The hashes of a packet: of its flow and of its two hosts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Hashes {
    flow: u32,
    source: u32,
    destination: u32,
}

impl Isolation {
    /// The hash that selects a packet's queue; 0 for all with `flowblind`.
    #[inline]
    fn flow<P: Packet>(self, packet: &P, seed: u64) -> u32 {
        if self.flows {
            packet.flow_hash(seed)
        } else {
            self.source(packet, seed) ^ self.destination(packet, seed)
        }
    }
    fn source<P: Packet>(self, packet: &P, seed: u64) -> u32 {
        match (self.source, self.nat) {
            (false, _) => 0,
            (true, false) => packet.src_hash(seed),
            (true, true) => packet.src_behind(seed),
        }
    }
    fn destination<P: Packet>(self, packet: &P, seed: u64) -> u32 {
        match (self.destination, self.nat) {
            (false, _) => 0,
            (true, false) => packet.dst_hash(seed),
            (true, true) => packet.dst_behind(seed),
        }
    }
}

/// `65 535 / n` at index `n`: the share of each of `n` busy flows of a host. A table replaces the
/// division, as in Linux. A host has at most as many busy flows as there are queues. The size is a
/// power of two, so that any index can be reduced to the size.
const QUANTUM_DIV: [u16; 2 * QUEUES] = {
    let (mut parts, mut sharers) = ([u16::MAX; 2 * QUEUES], 1);
    while sharers < parts.len() {
        parts[sharers] = u16::MAX / sharers as u16;
        sharers += 1;
    }
    parts
};

/// The table of source hosts or of destination hosts.
struct Hosts {
    tags: [u32; QUEUES],
    /// Number of busy flows per host.
    busy: [u16; QUEUES],
    /// Weight of a busy flow: 1, or 0 if hosts of this side are not distinguished.
    weight: u16,
}

impl Hosts {
    fn new(distinguished: bool) -> Hosts {
        Hosts {
            tags: [0; QUEUES],
            busy: [0; QUEUES],
            weight: u16::from(distinguished),
        }
    }
    #[inline]
    fn busy(&mut self, host: u16) -> &mut u16 {
        &mut self.busy[usize::from(host) % QUEUES]
    }
    fn index_of(&mut self, hash: u32) -> u16 {
        let selected = hash as usize % QUEUES;
        if self.tags[selected] == hash {
            return selected as u16;
        }
        let set = Set::of(hash);
        let own = set.first(&self.tags, |tag| *tag == hash);
        let place = own
            .or_else(|| set.first(&self.busy, |busy| *busy == 0))
            // If no entry is free, the selected one is shared, as in Linux.
            .unwrap_or(selected);
        self.tags[place] = hash;
        place as u16
    }
}

/// A set of eight queues, and the queue in it that a hash selects.
#[derive(Copy, Clone)]
struct Set {
    begin: usize,
    selected: usize,
}

impl Set {
    #[inline]
    fn of(hash: u32) -> Set {
        let selected = hash as usize % QUEUES;
        Set {
            begin: selected - selected % WAYS,
            selected: selected % WAYS,
        }
    }
    /// The first entry of the set for which `fits` returns true. The search begins at the selected
    /// entry and wraps around at the end of the set.
    fn first<T>(self, table: &[T; QUEUES], fits: impl Fn(&T) -> bool) -> Option<usize> {
        (self.selected..self.selected + WAYS)
            .map(|way| self.begin + way % WAYS)
            .find(|place| fits(&table[place % QUEUES]))
    }
    /// The first idle queue of the set, by the same search.
    #[inline]
    fn idle(self, states: &[State; QUEUES]) -> Option<usize> {
        let ways: &[State; WAYS] = states[self.begin..].first_chunk()?;
        let word = u64::from_le_bytes(ways.map(|state| state as u8));
        let zeros = zero_bytes(word.rotate_right(8 * self.selected as u32));
        (zeros != 0)
            .then(|| self.begin + (self.selected + zeros.trailing_zeros() as usize / 8) % WAYS)
    }
    /// The queue of the set whose tag in `tags` is `tag`. `bytes` has the highest byte of each tag,
    /// and eight of those are compared at once. The start of the search is irrelevant, because no
    /// tag is in a set twice. The exception is the tag 0 of unused queues, for which the first
    /// queue is returned.
    #[inline]
    fn tagged(self, tags: &[u32; QUEUES], bytes: &[u8; QUEUES], tag: u32) -> Option<usize> {
        let ways: &[u8; WAYS] = bytes[self.begin..].first_chunk()?;
        let mut differs = u64::from_le_bytes(*ways) ^ (EACH * u64::from(tag >> 24));
        loop {
            let same = zero_bytes(differs);
            if same == 0 {
                return None;
            }
            let place = self.begin + same.trailing_zeros() as usize / 8;
            if tags[place % QUEUES] == tag {
                return Some(place % QUEUES);
            }
            differs |= same & same.wrapping_neg();
        }
    }
}

/// A word with 1 in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// A word whose lowest set bit lies in the first byte of `word` that is zero; 0 if none is.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & (EACH << 7)
}

/// The flows and the hosts of a tin.
pub struct Table {
    isolation: Isolation,
    /// The hash of the flow to which each queue belongs.
    tags: [u32; QUEUES],
    /// The highest byte of each tag.
    bytes: [u8; QUEUES],
    /// Number of busy queues (state `Bulk`).
    pub busy: u64,
    /// The state of each queue.
    pub states: [State; QUEUES],
    /// The indices of the source host and of the destination host of each queue.
    hosts: [[u16; 2]; QUEUES],
    sources: Hosts,
    destinations: Hosts,
}

/// The state of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// The queue is idle: it belongs to no flow.
    None,
    /// The queue has packets and has not used up its first turn: it is in the chain of new queues.
    Sparse,
    /// The queue used up its first turn and was empty: it is still sparse, but in the chain of old
    /// queues.
    SparseWait,
    /// The queue is busy: it counts as a busy flow of its hosts.
    Bulk,
    /// The queue is empty, and its COBALT state still decays.
    Decaying,
}

impl State {
    /// Returns whether an arriving packet makes the queue sparse: the queue is idle or decaying.
    /// The code has no branch on the state, because this would be mispredicted half of the time.
    #[inline]
    pub fn is_inactive(self) -> bool {
        const INACTIVE: u32 = 1 << State::None as u32 | 1 << State::Decaying as u32;
        INACTIVE >> self as u32 & 1 != 0
    }
}

impl Table {
    /// A table without flows.
    pub fn new(isolation: Isolation) -> Table {
        Table {
            isolation,
            tags: [0; QUEUES],
            bytes: [0; QUEUES],
            busy: 0,
            states: [State::None; QUEUES],
            hosts: [[0; 2]; QUEUES],
            sources: Hosts::new(isolation.flows && isolation.source),
            destinations: Hosts::new(isolation.flows && isolation.destination),
        }
    }

    /// Returns the queue of a packet. The hashes of its hosts are computed only if the queue is
    /// idle or belongs to another flow.
    #[inline]
    pub fn queue<P: Packet>(&mut self, packet: &P, seed: u64) -> usize {
        let flow = self.isolation.flow(packet, seed);
        let own = Set::of(flow).tagged(&self.tags, &self.bytes, flow);
        match own {
            Some(own) if self.states[own] != State::None => own,
            _ => {
                let source = self.isolation.source(packet, seed);
                let destination = self.isolation.destination(packet, seed);
                let hashes = Hashes {
                    flow,
                    source,
                    destination,
                };
                self.assign(own, hashes) % QUEUES
            }
        }
    }

    /// Assigns a queue to a flow: the idle queue that belonged to it before, another idle queue, or
    /// the queue that its hash selects.
    #[inline(never)]
    fn assign(&mut self, own: Option<usize>, hashes: Hashes) -> usize {
        let idle = || Set::of(hashes.flow).idle(&self.states);
        let queue = own.or_else(idle).unwrap_or(hashes.flow as usize % QUEUES);
        self.tags[queue] = hashes.flow;
        self.bytes[queue] = (hashes.flow >> 24) as u8;
        if self.isolation.flows && (self.isolation.source || self.isolation.destination) {
            let busy = self.states[queue] == State::Bulk;
            self.dec_bulk_flows(queue, busy);
            let [mut source, mut destination] = self.hosts[queue];
            if self.isolation.source {
                source = self.sources.index_of(hashes.source);
            }
            if self.isolation.destination {
                destination = self.destinations.index_of(hashes.destination);
            }
            self.hosts[queue] = [source, destination];
            self.inc_bulk_flows(queue, busy);
        }
        queue
    }

    /// Called when the queue's flow may become busy; `bulk` is whether it does so. Its hosts then
    /// have one more busy flow. The code has no branch, because this is unpredictable.
    #[inline]
    pub fn inc_bulk_flows(&mut self, queue: usize, bulk: bool) {
        let [source, destination] = self.hosts[queue];
        self.busy += u64::from(bulk);
        *self.sources.busy(source) += u16::from(bulk) & self.sources.weight;
        *self.destinations.busy(destination) += u16::from(bulk) & self.destinations.weight;
    }
    /// Called when the queue's flow is no longer busy; `was_bulk` is whether it was busy. The code
    /// has no branch, because this is unpredictable.
    #[inline]
    pub fn dec_bulk_flows(&mut self, queue: usize, was_bulk: bool) {
        let [source, destination] = self.hosts[queue];
        self.busy -= u64::from(was_bulk);
        *self.sources.busy(source) -= u16::from(was_bulk) & self.sources.weight;
        *self.destinations.busy(destination) -= u16::from(was_bulk) & self.destinations.weight;
    }
    /// The indices of the source host and of the destination host of a queue.
    #[inline]
    pub fn hosts(&self, queue: usize) -> [u16; 2] {
        self.hosts[queue]
    }
    /// The share of the quantum that the queue gets per turn, in 1/65 535. The share is one divided
    /// by the number of busy flows of the queue's source or destination host, whichever has more.
    #[inline]
    pub fn quantum_share(&self, queue: usize) -> u16 {
        let [source, destination] = self.hosts[queue].map(|host| usize::from(host) % QUEUES);
        let busy = self.sources.busy[source].max(self.destinations.busy[destination]);
        QUANTUM_DIV[usize::from(busy) % QUANTUM_DIV.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::units::{Bytes, Time};
    use alloc::vec::Vec;

    /// A packet of a flow with this hash, to and from these hosts, behind these translated
    /// addresses.
    struct Hashed {
        flow: u32,
        hosts: (u32, u32),
        behind: (u32, u32),
    }

    impl Packet for Hashed {
        fn size(&self) -> Bytes {
            Bytes::new(1514)
        }
        fn enqueued_at(&self) -> Time {
            Time::ZERO
        }
        fn set_enqueued_at(&mut self, _now: Time) {}
        fn flow_hash(&self, _seed: u64) -> u32 {
            self.flow
        }
        fn src_hash(&self, _seed: u64) -> u32 {
            self.hosts.0
        }
        fn dst_hash(&self, _seed: u64) -> u32 {
            self.hosts.1
        }
        fn src_behind(&self, _seed: u64) -> u32 {
            self.behind.0
        }
        fn dst_behind(&self, _seed: u64) -> u32 {
            self.behind.1
        }
        fn ecn(&self) -> Ecn {
            Ecn::NotEct
        }
        fn set_ce(&mut self) {}
    }

    #[test]
    fn colliding_flows_use_different_queues_of_a_set() {
        let mut table = Table::new(Isolation::of("flows", false));
        let queue = |table: &mut Table, flow: u32| {
            let queue = table.queue(
                &Hashed {
                    flow,
                    hosts: (0, 0),
                    behind: (0, 0),
                },
                0,
            );
            table.states[queue] = State::Sparse;
            queue
        };
        // 6 is the seventh of the eight of its set, and the search wraps.
        let flows = [6, 6 + 1024, 6 + 2048, 6 + 3072];
        assert_eq!(flows.map(|flow| queue(&mut table, flow)), [6, 7, 0, 1]);
        assert_eq!(flows.map(|flow| queue(&mut table, flow)), [6, 7, 0, 1]);
        let more: Vec<usize> = (4..8).map(|n| queue(&mut table, 6 + 1024 * n)).collect();
        assert_eq!(more, [2, 3, 4, 5]);
        // A ninth finds no idle queue, and shares the one that its hash selects.
        assert_eq!(queue(&mut table, 6 + 1024 * 8), 6);
    }

    #[test]
    fn flow_hash_depends_on_mode_and_nat() {
        for (words, nat, expected) in [
            ("srchost", false, 1),
            ("srchost", true, 3),
            ("dsthost", false, 2),
            ("dsthost", true, 4),
            ("hosts", false, 1 ^ 2),
            ("hosts", true, 3 ^ 4),
            ("flows", true, 9),
        ] {
            let packet = Hashed {
                flow: 9,
                hosts: (1, 2),
                behind: (3, 4),
            };
            assert_eq!(
                Isolation::of(words, nat).flow(&packet, 0),
                expected,
                "{words} {nat}"
            );
        }
    }
}
