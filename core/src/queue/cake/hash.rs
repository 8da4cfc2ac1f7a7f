//! Which queue a packet's flow has, and which hosts it counts for.
//!
//! Law: a flow's hash names one of 1024 queues, and with it the eight of its set. The first of them, from the named one on, that is its own is
//! taken; else the first that is idle, which becomes its own; else the named one, which two flows share then. So 100
//! flows share a queue less than once in 100, where a plain hash would nearly always have two that do. Hosts have a table of the same
//! kind. Source: Piece of CAKE (2018), section III.C; Linux 6.12.
//!
//! The modes: `flowblind` puts all into one queue; `srchost`, `dsthost` and `hosts` give one to each host or pair of them; `flows` one to each
//! flow; `dual-srchost`, `dual-dsthost` and `triple-isolate` likewise, with a turn that is shorter the more flows of the same
//! host are busy.

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
    /// Of this word.
    pub fn of(word: &str) -> Isolation {
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
        }
    }
    fn is_blind(self) -> bool {
        !(self.flows || self.source || self.destination)
    }
}

/// What a packet's hashes are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Hashes {
    flow: u32,
    source: u32,
    destination: u32,
}

impl Hashes {
    /// Of `packet`, as far as they are asked for.
    #[inline]
    pub fn of<P: Packet>(packet: &P, isolation: Isolation, seed: u64) -> Hashes {
        let source = if isolation.source { packet.src_hash(seed) } else { 0 };
        let destination = if isolation.destination {
            packet.dst_hash(seed)
        } else {
            0
        };
        let flow = if isolation.flows {
            packet.flow_hash(seed)
        } else {
            source ^ destination
        };
        Hashes {
            flow,
            source,
            destination,
        }
    }
}

/// One side of the hosts.
struct Hosts {
    tags: [u32; QUEUES],
    busy: [u16; QUEUES],
}

impl Hosts {
    const NEW: Hosts = Hosts {
        tags: [0; QUEUES],
        busy: [0; QUEUES],
    };
    fn place(&mut self, hash: u32) -> u16 {
        let ways = || ways(hash);
        let place = ways()
            .find(|place| self.tags[*place] == hash)
            .or_else(|| ways().find(|place| self.busy[*place] == 0))
            // As in Linux, whose search ends where it began.
            .unwrap_or(hash as usize % QUEUES);
        self.tags[place] = hash;
        place as u16
    }
}

/// The places of a set, from the named one on.
#[inline]
fn ways(hash: u32) -> impl Iterator<Item = usize> {
    let named = hash as usize % QUEUES;
    (0..WAYS).map(move |way| named - named % WAYS + (named + way) % WAYS)
}

/// Flows and hosts of a tin.
pub struct Table {
    isolation: Isolation,
    tags: [u32; QUEUES],
    /// Each queue's hosts.
    hosts: [(u16, u16); QUEUES],
    sources: Hosts,
    destinations: Hosts,
}

/// How a queue stands when a packet is looked up.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// Nobody has it.
    Idle,
    /// A flow has it.
    Taken,
    /// A flow has it and counts for its hosts.
    Busy,
}

impl Table {
    /// Nobody's yet.
    pub fn new(isolation: Isolation) -> Table {
        Table {
            isolation,
            tags: [0; QUEUES],
            hosts: [(0, 0); QUEUES],
            sources: Hosts::NEW,
            destinations: Hosts::NEW,
        }
    }

    /// The queue of a packet; `uses` says how a queue stands.
    #[inline]
    pub fn queue(&mut self, hashes: Hashes, uses: impl Fn(usize) -> Use) -> usize {
        if self.isolation.is_blind() {
            return 0;
        }
        let named = hashes.flow as usize % QUEUES;
        if self.tags[named] == hashes.flow && uses(named) != Use::Idle {
            return named;
        }
        self.search(hashes, uses)
    }

    #[cold]
    fn search(&mut self, hashes: Hashes, uses: impl Fn(usize) -> Use) -> usize {
        let ways = || ways(hashes.flow);
        let own = ways().find(|place| self.tags[*place] == hashes.flow);
        if let Some(own) = own.filter(|own| uses(*own) != Use::Idle) {
            return own;
        }
        let queue = own
            .or_else(|| ways().find(|place| uses(*place) == Use::Idle))
            .unwrap_or(hashes.flow as usize % QUEUES);
        self.tags[queue] = hashes.flow;
        if self.isolation.flows && (self.isolation.source || self.isolation.destination) {
            let busy = uses(queue) == Use::Busy;
            if busy {
                self.rests(queue);
            }
            if self.isolation.source {
                self.hosts[queue].0 = self.sources.place(hashes.source);
            }
            if self.isolation.destination {
                self.hosts[queue].1 = self.destinations.place(hashes.destination);
            }
            if busy {
                self.toils(queue);
            }
        }
        queue
    }

    fn counts(&mut self, queue: usize, change: impl Fn(u16) -> u16) {
        let (source, destination) = self.hosts[queue];
        if self.isolation.flows && self.isolation.source {
            let busy = &mut self.sources.busy[source as usize];
            *busy = change(*busy);
        }
        if self.isolation.flows && self.isolation.destination {
            let busy = &mut self.destinations.busy[destination as usize];
            *busy = change(*busy);
        }
    }
    /// The queue's flow is busy: its hosts have one more.
    pub fn toils(&mut self, queue: usize) {
        self.counts(queue, |busy| (busy + 1).min(QUEUES as u16));
    }
    /// It is no longer.
    pub fn rests(&mut self, queue: usize) {
        self.counts(queue, |busy| busy.saturating_sub(1));
    }
    /// Busy flows of the queue's hosts, the more of the two; 1 at least.
    #[inline]
    pub fn load(&self, queue: usize) -> usize {
        let (source, destination) = self.hosts[queue];
        let (sources, destinations) = (
            self.sources.busy[source as usize],
            self.destinations.busy[destination as usize],
        );
        usize::from(sources.max(destinations).max(1))
    }
}
