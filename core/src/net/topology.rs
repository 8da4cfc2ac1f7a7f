//! A network of links: each flow crosses a sequence of links of its own.
//!
//! ```text
//!   sender ──▶ link ──▶ … ──▶ link ──▶ receiver      the route of the data
//!   sender ◀── link ◀── … ◀── link ◀── receiver      the route back, or propagation only
//! ```
//!
//! A link is a [`Hop`](super::hop) with the propagation behind it, and carries one direction. A
//! flow without a route back has ACKs that are neither lost nor queued; their propagation delay is
//! that of the forward route. The owner of a packet, a flow or a probe, determines its route. The
//! observer knows the owner ([`NetworkObserver::owner`]).
//!
//! **Routes may change.** A packet on a link that belongs to the former route only follows the
//! former route up to the first link of the new route. From that link on, the packet follows the
//! new route.
//!
//! **Late packets.** A packet of a closed connection may still be in the network when a connection
//! of another flow gets the same number. Such a packet follows the route of the other flow. If this
//! route does not contain the link that the packet has just crossed, the packet is dropped and
//! counted behind this link. Its receiver would discard it as well.
//!
//! **Shared buffers.** The links of a switch share its memory. A packet enters the queue of a link
//! only if the queue is then not longer than α times the free memory. This rule is the dynamic
//! threshold of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6(2), 1998). A link may
//! have an α of its own. The queue's own limit applies, too.
//!
//! **Order of events at one instant**: departures from the links by number, then arrivals behind
//! the links by number, then arrivals over propagation only. Events are handled at their own times:
//! `poll` must be called at each `next_wakeup`.

use super::delay::DelayLine;
use super::hop::Hop;
use super::path::{behind, hop_names};
use super::spec::{PathSpec, Route};
use super::{FAR, NEAR, Network, NetworkObserver, Port};
use crate::packet::Packet;
use crate::queue::{DropReason, QueueDiscipline};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The next element behind a link on a route.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Next {
    /// The route does not contain the link. Only late packets can arrive here.
    Nothing,
    Link(u8),
    Host(Port),
}

/// The times of numbered events; the time of the earliest event is found in constant time.
struct Agenda {
    /// A tree in an array: a node has the earliest time of its two children. The leaves are in the
    /// second half.
    earliest: Vec<Time>,
}

impl Agenda {
    fn new(size: usize) -> Agenda {
        Agenda {
            earliest: alloc::vec![Time::MAX; 2 * size.next_power_of_two()],
        }
    }
    fn next(&self) -> Time {
        self.earliest[1]
    }
    /// The first event, that with the lowest number at equal times.
    fn first(&self) -> usize {
        let leaves = self.earliest.len() / 2;
        let mut node = 1;
        while node < leaves {
            node *= 2;
            node += usize::from(self.earliest[node + 1] < self.earliest[node]);
        }
        node - leaves
    }
    #[inline]
    fn set(&mut self, number: usize, at: Time) {
        let mut node = self.earliest.len() / 2 + number;
        self.earliest[node] = at;
        while node > 1 {
            let both = self.earliest[node].min(self.earliest[node ^ 1]);
            node /= 2;
            if self.earliest[node] == both {
                return;
            }
            self.earliest[node] = both;
        }
    }
}

/// A link, and the propagation behind it.
struct Stage<P> {
    hop: Hop<P>,
    line: DelayLine<P>,
    /// The switch whose memory its queue uses.
    switch: Option<u8>,
    /// α of its queue, if that is not the one of the switch.
    alpha: Option<f64>,
    /// Bytes that have arrived behind the link since the end of the warm-up.
    carried: Bytes,
}

/// The shared memory of a switch.
struct Memory {
    size: Bytes,
    alpha: f64,
    ports: Vec<usize>,
}

/// The route of some flows and probes, and the element behind each link of it.
struct Table {
    route: Arc<Route>,
    /// The element behind each link.
    next: Vec<Next>,
    /// Without links back: numbers of the lines of propagation from the receiver, that of the first
    /// route and then those of its changes.
    distances: Vec<usize>,
    /// Number of changes that have taken effect.
    changed: usize,
}

impl Table {
    /// Stores the order of the links of a route; links of former routes keep their successors.
    fn follow(&mut self, forward: &[u8], back: &[u8]) {
        for (way, port) in [(forward, FAR), (back, NEAR)] {
            for (i, link) in way.iter().enumerate() {
                let next = way.get(i + 1).map_or(Next::Host(port), |n| Next::Link(*n));
                self.next[usize::from(*link)] = next;
            }
        }
    }
    /// The first link on the present route of a packet that enters at `port`; `None` for
    /// propagation only.
    fn first(&self, port: Port) -> Option<u8> {
        let (forward, back) = match self.changed {
            0 => (&self.route.forward, &self.route.back),
            n => (
                &self.route.changes[n - 1].forward,
                &self.route.changes[n - 1].back,
            ),
        };
        let way = if port == FAR { back } else { forward };
        way.first().copied()
    }
}

/// A network of links. The ports are [`NEAR`], the senders' side of every route, and
/// [`FAR`].
pub struct Topology<P> {
    stages: Vec<Stage<P>>,
    switches: Vec<Memory>,
    tables: Vec<Table>,
    /// The table of each flow, then of each probe.
    of_owner: Vec<u32>,
    /// Propagation from receivers to senders, for routes without links back.
    distances: Vec<DelayLine<P>>,
    /// Departures of each link, arrivals behind each link, then those of each distance.
    agenda: Agenda,
    /// Future changes of routes, the next one last: time, and number of the table whose route
    /// changes.
    changes: Vec<(Time, usize)>,
    warmup: Time,
}

impl<P: Packet> Topology<P> {
    /// Creates an empty network. `queues` are the disciplines of the links, `routes` those of the
    /// flows and then of the probes, and `seed` is that of the scenario.
    pub fn new(
        spec: &PathSpec,
        queues: Vec<Box<dyn QueueDiscipline<P>>>,
        routes: impl Iterator<Item = Arc<Route>>,
        seed: u64,
        warmup: Time,
    ) -> Topology<P> {
        let names = hop_names(spec);
        let links = spec.links.as_deref();
        let switch_of = |i: usize| links.and_then(|links| links.links.get(i)?.switch);
        let stages: Vec<Stage<P>> = spec
            .hops
            .iter()
            .zip(queues)
            .zip(&names)
            .enumerate()
            .map(|(i, ((hop, queue), name))| Stage {
                hop: Hop::new(hop, queue, i as u8, seed, name),
                line: behind(hop, hop.delays(), seed, name),
                switch: switch_of(i),
                alpha: hop.keys.get("alpha").map(|_| hop.keys.number("alpha")),
                carried: Bytes::ZERO,
            })
            .collect();
        let switches = links.map_or(&[][..], |links| &links.switches).iter();
        let switches = (0..).zip(switches).map(|(number, switch)| Memory {
            size: switch.buffer,
            alpha: switch.alpha,
            ports: (0..stages.len())
                .filter(|i| stages[*i].switch == Some(number))
                .collect(),
        });
        let switches = switches.collect();
        let (mut tables, mut of_owner) = (Vec::<Table>::new(), Vec::new());
        let (mut distances, mut changes) = (Vec::new(), Vec::new());
        for route in routes {
            let known = tables.iter().rposition(|table| table.route == route);
            let number = known.unwrap_or(tables.len());
            of_owner.push(number as u32);
            if known.is_some() {
                continue;
            }
            let mut table = Table {
                next: alloc::vec![Next::Nothing; stages.len()],
                distances: Vec::new(),
                changed: 0,
                route,
            };
            let (forward, back) = (table.route.forward.clone(), table.route.back.clone());
            table.follow(&forward, &back);
            if back.is_empty() {
                let changed = table.route.changes.iter().map(|change| &change.forward);
                for forward in core::iter::once(&forward).chain(changed) {
                    table.distances.push(distances.len());
                    distances.push(DelayLine::new(spec.delays_over(forward)));
                }
            }
            changes.extend(
                table
                    .route
                    .changes
                    .iter()
                    .map(|c| (Time::ZERO + c.at, number)),
            );
            tables.push(table);
        }
        changes.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        let agenda = Agenda::new(2 * stages.len() + distances.len());
        let mut topology = Topology {
            stages,
            switches,
            tables,
            of_owner,
            distances,
            agenda,
            changes,
            warmup,
        };
        (0..topology.stages.len()).for_each(|link| topology.note(link));
        topology
    }

    /// Updates the stored wake-up times of all queue disciplines. Call this after something other
    /// than a packet has changed these times.
    pub fn rouse(&mut self, now: Time) {
        for link in 0..self.stages.len() {
            self.stages[link].hop.rouse(now);
            self.note(link);
        }
    }
    /// Returns the links by number.
    pub fn hops(&self) -> impl Iterator<Item = &Hop<P>> {
        self.stages.iter().map(|stage| &stage.hop)
    }
    /// Returns the bytes of frames that have arrived behind each link since the end of the
    /// warm-up.
    pub fn carried(&self) -> impl Iterator<Item = Bytes> {
        self.stages.iter().map(|stage| stage.carried)
    }
    /// Returns the number of packets in the network.
    pub fn in_transit(&self) -> u64 {
        let links = self.stages.iter();
        let links: u64 = links.map(|s| s.hop.len() + s.line.len() as u64).sum();
        let distances: usize = self.distances.iter().map(DelayLine::len).sum();
        links + distances as u64
    }

    /// Updates the times of a link's events.
    #[inline]
    fn note(&mut self, link: usize) {
        let stage = &self.stages[link];
        self.agenda.set(link, stage.hop.due());
        self.agenda.set(self.stages.len() + link, stage.line.next());
    }
    fn note_distance(&mut self, number: usize) {
        let next = self.distances[number].next();
        self.agenda.set(2 * self.stages.len() + number, next);
    }

    fn table_of(&self, owner: u32) -> usize {
        self.of_owner.get(owner as usize).map_or(0, |n| *n as usize)
    }

    /// Whether the memory of the link's switch has room for a packet.
    fn has_room(&self, link: usize, size: Bytes) -> bool {
        let Some(switch) = self.stages[link].switch else {
            return true;
        };
        let memory = &self.switches[usize::from(switch)];
        let backlog = |link: &usize| self.stages[*link].hop.backlog().bytes;
        let used = memory
            .ports
            .iter()
            .map(backlog)
            .fold(Bytes::ZERO, |a, b| a + b);
        let free = (memory.size - used).get();
        let own = (backlog(&link) + size).get();
        let alpha = self.stages[link].alpha.unwrap_or(memory.alpha);
        size.get() <= free && own as f64 <= alpha * free as f64
    }

    /// A packet enters a link.
    #[inline]
    fn enter<O: NetworkObserver<P>>(&mut self, now: Time, link: usize, packet: P, out: &mut O) {
        if !self.has_room(link, packet.size()) {
            return out.dropped(now, link as u8, packet, DropReason::Overflow);
        }
        let stage = &mut self.stages[link];
        stage.hop.serve(now, &mut stage.line, out);
        stage.hop.push(now, packet, &mut stage.line, out);
        self.note(link);
    }

    /// The first packet arrives behind a link.
    fn leave<O: NetworkObserver<P>>(&mut self, now: Time, link: usize, out: &mut O) {
        let Some(packet) = self.stages[link].line.pop(now) else {
            return;
        };
        if now >= self.warmup {
            self.stages[link].carried += packet.size();
        }
        self.note(link);
        let table = self.table_of(out.owner(&packet));
        match self.tables[table].next[link] {
            Next::Link(next) => self.enter(now, usize::from(next), packet, out),
            Next::Host(port) => out.arrived(now, port, packet),
            Next::Nothing => {
                debug_assert!(out.is_late(&packet), "the route does not contain the link");
                out.dropped(now, link as u8, packet, DropReason::Overflow);
            }
        }
    }

    /// Routes change up to `now`.
    fn change(&mut self, now: Time) {
        while let Some((_, number)) = self.changes.last().copied().filter(|(at, _)| *at <= now) {
            self.changes.pop();
            let table = &mut self.tables[number];
            let change = &table.route.changes[table.changed];
            let (forward, back) = (change.forward.clone(), change.back.clone());
            table.follow(&forward, &back);
            table.changed += 1;
        }
    }
}

impl<P: Packet> Network<P> for Topology<P> {
    /// Passes a packet to the first link of its route. No packet arrives during this call.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O) {
        out.entered(now, port, &packet);
        self.change(now);
        let table = &self.tables[self.table_of(out.owner(&packet))];
        match (table.first(port), table.distances.get(table.changed)) {
            (Some(link), _) => self.enter(now, usize::from(link), packet, out),
            (None, Some(&number)) => {
                self.distances[number].push(now, packet);
                self.note_distance(number);
            }
            (None, None) => debug_assert!(false, "a route without links"),
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.agenda.next()).filter(|at| *at != Time::MAX)
    }

    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        while self.agenda.next() <= now && self.agenda.next() != Time::MAX {
            let (at, first, links) = (self.agenda.next(), self.agenda.first(), self.stages.len());
            self.change(at);
            if first < links {
                let stage = &mut self.stages[first];
                stage.hop.serve(at, &mut stage.line, out);
                self.note(first);
            } else if first < 2 * links {
                self.leave(at, first - links, out);
            } else if let Some(packet) = self.distances[first - 2 * links].pop(at) {
                self.note_distance(first - 2 * links);
                out.arrived(at, NEAR, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_first_event_is_that_of_a_sorted_list() {
        let mut rng = Rng::named(1, "agenda");
        let mut times = [Time::MAX; 37];
        let mut agenda = Agenda::new(times.len());
        for _ in 0..10_000 {
            let number = rng.below(37) as usize;
            times[number] = match rng.below(3) {
                0 => Time::MAX,
                _ => Time::from_ns(rng.below(50)),
            };
            agenda.set(number, times[number]);
            let first = (0..37).min_by_key(|i| times[*i]);
            assert_eq!(agenda.next(), times[first.unwrap_or(0)]);
            if agenda.next() != Time::MAX {
                assert_eq!(Some(agenda.first()), first);
            }
        }
    }
}
