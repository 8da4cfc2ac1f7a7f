//! Which queue a packet's flow has, and which hosts it counts for.
//!
//! Law: a flow's hash names one of 1024 queues, and with it the eight of its set. The first of
//! them, from the named one on, that is its own is taken; else the first that is idle, which
//! becomes its own; else the named one, which two flows share then. So 100 flows share a queue less
//! than once in 100, where a plain hash would nearly always have two that do. Hosts have a table of
//! the same kind. Source: Piece of CAKE (2018), section III.C; Linux 6.12.
//!
//! The modes: `flowblind` puts all into one queue; `srchost`, `dsthost` and `hosts` give one to
//! each host or pair of them; `flows` one to each flow; `dual-srchost`, `dual-dsthost` and
//! `triple-isolate` likewise, with a turn that is shorter the more flows of the same host are busy.
//! With `nat` a host is the one behind a translated address, otherwise the address.

use crate::packet::Packet;

/// Queues of a tin.
pub const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// What is told apart.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Isolation {
    flows: bool,
    source: bool,
    destination: bool,
    /// Look behind translated addresses.
    nat: bool,
}

/// tc's words; the first is its default.
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
    /// Of this word, and whether hosts behind translated addresses are told apart.
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

/// What a packet's hashes are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Hashes {
    flow: u32,
    source: u32,
    destination: u32,
}

impl Isolation {
    /// The hash that names a packet's queue; 0 of all if nothing is told apart.
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

/// What of 65 535 one has of so many that share it: a table in the place of a division, as in
/// Linux. Of a power of two, so that no index is too large; there are no more sharers than queues.
const PARTS: [u16; 2 * QUEUES] = {
    let (mut parts, mut sharers) = ([u16::MAX; 2 * QUEUES], 1);
    while sharers < parts.len() {
        parts[sharers] = u16::MAX / sharers as u16;
        sharers += 1;
    }
    parts
};

/// One side of the hosts.
struct Hosts {
    tags: [u32; QUEUES],
    /// Busy flows of each.
    busy: [u16; QUEUES],
    /// As how many a busy flow counts: 1, or 0 where hosts of this side are not told apart.
    weight: u16,
}

impl Hosts {
    fn new(told_apart: bool) -> Hosts {
        Hosts {
            tags: [0; QUEUES],
            busy: [0; QUEUES],
            weight: u16::from(told_apart),
        }
    }
    #[inline]
    fn busy(&mut self, host: u16) -> &mut u16 {
        &mut self.busy[usize::from(host) % QUEUES]
    }
    fn place(&mut self, hash: u32) -> u16 {
        let named = hash as usize % QUEUES;
        if self.tags[named] == hash {
            return named as u16;
        }
        let set = Set::of(hash);
        let own = set.first(&self.tags, |tag| *tag == hash);
        let place = own
            .or_else(|| set.first(&self.busy, |busy| *busy == 0))
            // As in Linux, whose search ends where it began.
            .unwrap_or(named);
        self.tags[place] = hash;
        place as u16
    }
}

/// Eight places, and the one among them that a hash names.
#[derive(Copy, Clone)]
struct Set {
    begin: usize,
    named: usize,
}

impl Set {
    #[inline]
    fn of(hash: u32) -> Set {
        let named = hash as usize % QUEUES;
        Set {
            begin: named - named % WAYS,
            named: named % WAYS,
        }
    }
    /// The first place, from the named one on and round, where `fits` holds.
    #[inline]
    fn first<T>(self, table: &[T; QUEUES], fits: impl Fn(&T) -> bool) -> Option<usize> {
        let ways: &[T; WAYS] = table[self.begin..].first_chunk()?;
        let fitting: [u8; WAYS] = core::array::from_fn(|way| u8::from(fits(&ways[way])));
        let turned = u64::from_le_bytes(fitting).rotate_right(8 * self.named as u32);
        (turned != 0)
            .then(|| self.begin + (self.named + turned.trailing_zeros() as usize / 8) % WAYS)
    }
    /// The place where `tags` has this tag, of which `bytes` has the highest byte: eight of those
    /// are compared at once. Where the search begins does not matter: no tag is in a set twice,
    /// but that of the places that nobody has had, which is 0 and names the first.
    #[inline]
    fn tagged(self, tags: &[u32; QUEUES], bytes: &[u8; QUEUES], tag: u32) -> Option<usize> {
        const EACH: u64 = 0x0101_0101_0101_0101;
        let ways: &[u8; WAYS] = bytes[self.begin..].first_chunk()?;
        let mut differs = u64::from_le_bytes(*ways) ^ (EACH * u64::from(tag >> 24));
        loop {
            // The lowest bit of this is that of the first byte that is zero.
            let same = differs.wrapping_sub(EACH) & !differs & (EACH << 7);
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

/// Flows and hosts of a tin.
pub struct Table {
    isolation: Isolation,
    tags: [u32; QUEUES],
    /// Of each tag the highest byte.
    bytes: [u8; QUEUES],
    /// Busy queues.
    pub busy: u64,
    /// Each queue's state.
    pub states: [State; QUEUES],
    /// Each queue's hosts.
    hosts: [[u16; 2]; QUEUES],
    sources: Hosts,
    destinations: Hosts,
}

/// As what a queue counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nobody's.
    None,
    /// Has just begun.
    Sparse,
    /// Used up its turn, and was empty: still sparse, but in the chain of the busy ones.
    SparseWait,
    /// Busy: counts for its hosts.
    Bulk,
    /// Empty, its law fades.
    Decaying,
}

impl State {
    /// Is a packet that comes the first of a new burst? One look, where a choice among five would
    /// be guessed wrong half of the time.
    #[inline]
    pub fn begins(self) -> bool {
        const REST: u32 = 1 << State::None as u32 | 1 << State::Decaying as u32;
        REST >> self as u32 & 1 != 0
    }
}

impl Table {
    /// Nobody's yet.
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

    /// The queue of a packet. Hosts are asked for only where a queue gets another flow.
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
                self.takes(own, hashes) % QUEUES
            }
        }
    }

    /// A flow without a queue takes one: the one that was its own, one that is idle, or the one
    /// that its hash names.
    #[inline(never)]
    fn takes(&mut self, own: Option<usize>, hashes: Hashes) -> usize {
        let idle = || Set::of(hashes.flow).first(&self.states, |state| *state == State::None);
        let queue = own.or_else(idle).unwrap_or(hashes.flow as usize % QUEUES);
        self.tags[queue] = hashes.flow;
        self.bytes[queue] = (hashes.flow >> 24) as u8;
        if self.isolation.flows && (self.isolation.source || self.isolation.destination) {
            let busy = self.states[queue] == State::Bulk;
            self.rests(queue, busy);
            if self.isolation.source {
                self.hosts[queue][0] = self.sources.place(hashes.source);
            }
            if self.isolation.destination {
                self.hosts[queue][1] = self.destinations.place(hashes.destination);
            }
            if busy {
                self.toils(queue);
            }
        }
        queue
    }

    /// The queue's flow is busy: its hosts have one more.
    #[inline]
    pub fn toils(&mut self, queue: usize) {
        let [source, destination] = self.hosts[queue];
        self.busy += 1;
        *self.sources.busy(source) += self.sources.weight;
        *self.destinations.busy(destination) += self.destinations.weight;
    }
    /// It is no longer, if it was. Without a branch: nobody could foresee which was.
    #[inline]
    pub fn rests(&mut self, queue: usize, was: bool) {
        let [source, destination] = self.hosts[queue];
        self.busy -= u64::from(was);
        *self.sources.busy(source) -= u16::from(was) & self.sources.weight;
        *self.destinations.busy(destination) -= u16::from(was) & self.destinations.weight;
    }
    /// The hosts of a queue.
    #[inline]
    pub fn hosts(&self, queue: usize) -> [u16; 2] {
        self.hosts[queue]
    }
    /// The part of a turn, of 65 535, that the queue gets: the less, the more busy flows its hosts
    /// have. Of two hosts the busier one counts.
    #[inline]
    pub fn part(&self, queue: usize) -> u16 {
        let [source, destination] = self.hosts[queue].map(|host| usize::from(host) % QUEUES);
        let busy = self.sources.busy[source].max(self.destinations.busy[destination]);
        PARTS[usize::from(busy) % PARTS.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::units::{Bytes, Time};
    use alloc::vec::Vec;

    /// A packet of a flow with this hash, to and from these hosts, whose addresses others stand
    /// before.
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
    fn flows_whose_hashes_name_one_queue_have_each_its_own_of_a_set() {
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
        // 6 is the seventh of the eight of its set, and the search goes round.
        let flows = [6, 6 + 1024, 6 + 2048, 6 + 3072];
        assert_eq!(flows.map(|flow| queue(&mut table, flow)), [6, 7, 0, 1]);
        assert_eq!(flows.map(|flow| queue(&mut table, flow)), [6, 7, 0, 1]);
        let more: Vec<usize> = (4..8).map(|n| queue(&mut table, 6 + 1024 * n)).collect();
        assert_eq!(more, [2, 3, 4, 5]);
        // A ninth finds nothing idle, and shares the one that its hash names.
        assert_eq!(queue(&mut table, 6 + 1024 * 8), 6);
    }

    #[test]
    fn hosts_behind_an_address_are_told_apart_by_who_looks_there() {
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
