//! CAKE: shaper, tins, fair queues and their control law in one.
//!
//! ```text
//!   ──▶ tin by code point ──▶ queue by flow (8-way hash) ──▶ [ACK filter] ──▶ ┐ new, then old queues in turn,   ──▶ shaper ──▶
//!                                                                            ┘ each under COBALT
//! ```
//!
//! Law: a packet may leave when the shaper's clock has come ([`shaper`]). Among tins that have packets the last goes first that is within its
//! threshold, else the one that will be so soonest; without a rate they take turns by weight ([`tins`]). Within a tin queues
//! take turns, those that have just begun before the others, a turn being a quantum divided by the busy flows of the
//! flow's host ([`hash`]); each queue's packets pass its control law ([`cobalt`]). A queue that is found empty leaves when its law has come to
//! rest. When memory runs out the longest queue of all loses its head ([`longest`]).
//!
//! Sources: Høiland-Jørgensen, Täht, Morton: Piece of CAKE, LANMAN 2018; tc-cake(8); Linux 6.12 `cake`, packet by packet
//! (`core/tests/queue_replay.rs`).
//!
//! As in Linux: the last packet of a queue is not dropped by its law. A turn is rounded at random to whole bytes, so
//! that nobody gains by rounding.
//! Deviations: `fwmark` is left out, packets have no marks here. `nat` and `split_gso` are taken and change nothing.

pub mod ack_filter;
pub mod autorate;
pub mod cobalt;
pub mod hash;
pub mod longest;
pub mod overhead;
pub mod params;
pub mod rotation;
pub mod shaper;
mod tin;
pub mod tins;

use super::codel::MTU;
use super::pool::Pool;
use super::{Backlog, Limit, Place, QueueDiscipline, QueueKind, Sink, Why};
use crate::packet::Packet;
use crate::param::{no_check, Params};
use crate::rng::Rng;
use crate::units::{Span, Time};
use ack_filter::Filter;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use autorate::Estimator;
use hash::{Hashes, Isolation};
use longest::Longest;
use overhead::Line;
use rotation::Chain;
use shaper::{Pace, Shaper};
use tin::Tin;
use tins::Diffserv;

pub use params::PARAMS;

/// Packets that Linux counts as full frames to know how much memory may be used at most.
const PACKETS: u64 = 10_240;
/// Memory that may be used at least.
const LEAST_MEMORY: u64 = 4 << 20;

/// What is set once.
struct Config {
    diffserv: &'static Diffserv,
    isolation: Isolation,
    line: Line,
    filter: Filter,
    rtt: Span,
    memlimit: u64,
    limit: Option<Limit>,
    ingress: bool,
    wash: bool,
    seed: u64,
}

impl Config {
    fn memory(&self, bytes_per_s: u64) -> u64 {
        let most = (PACKETS * MTU.get()).max(self.memlimit);
        let want = if self.memlimit > 0 {
            self.memlimit
        } else if bytes_per_s > 0 {
            let four_rtts = u128::from(bytes_per_s) * u128::from(self.rtt.as_us()) / 250_000;
            u64::try_from(four_rtts).unwrap_or(u64::MAX).max(LEAST_MEMORY)
        } else {
            u64::MAX
        };
        want.min(most)
    }
}

/// The whole of it.
pub struct Cake<P> {
    config: Config,
    memory_limit: u64,
    shaper: Shaper,
    /// When the shaper lets the next packet go, if that has kept one back.
    due: Option<Time>,
    tins: Vec<Tin>,
    /// The tin that was served last.
    current: usize,
    pool: Pool<P>,
    backlog: Backlog,
    memory: u64,
    longest: Longest,
    autorate: Option<Estimator>,
    rng: Rng,
}

impl<P: Packet> Cake<P> {
    /// Empty. `limit` takes the place of `memlimit`, `seed` is of hashes and of what is random.
    pub fn new(params: &Params, limit: Option<Limit>, seed: u64) -> Cake<P> {
        let rtt = match params.span("rtt") {
            Span::ZERO => params::network(params.word("network")),
            rtt => rtt,
        };
        let diffserv = tins::of(params.word("diffserv"));
        let isolation = Isolation::of(params.word("flows"));
        let rate = params.rate("bandwidth").as_bit() / 8;
        let autorate = params.bool("autorate_ingress");
        let mut cake = Cake {
            config: Config {
                diffserv,
                isolation,
                line: Line::of(params),
                filter: Filter::of(params.word("ack_filter")),
                rtt,
                memlimit: params.bytes("memlimit").get(),
                limit,
                ingress: params.bool("ingress"),
                wash: params.bool("wash"),
                seed,
            },
            memory_limit: 0,
            shaper: Shaper::default(),
            due: None,
            tins: diffserv.tins.iter().map(|share| Tin::new(share, isolation)).collect(),
            current: 0,
            pool: Pool::default(),
            backlog: Backlog::default(),
            memory: 0,
            longest: Longest::default(),
            autorate: autorate.then(|| Estimator::new(rate)),
            rng: Rng::named(seed, "cake"),
        };
        cake.configure(rate);
        cake
    }

    /// Shapes to so many bytes per second; 0: does not shape.
    fn configure(&mut self, rate: u64) {
        self.shaper.pace = Pace::of(rate);
        self.memory_limit = self.config.memory(rate);
        for tin in &mut self.tins {
            tin.configure(rate, self.config.rtt);
        }
    }

    /// Takes the head of a queue, with all that is counted of it.
    fn take(&mut self, tin: usize, queue: usize) -> Option<P> {
        let slot = longest::slot(tin, queue);
        let packet = self.pool.pop(&mut self.tins[tin].flows[queue].list)?;
        self.gone(tin, &packet);
        self.longest.remove(slot, packet.size().get());
        Some(packet)
    }

    fn gone(&mut self, tin: usize, packet: &P) {
        self.tins[tin].backlog.remove(packet.size());
        self.backlog.remove(packet.size());
        self.memory -= packet.memory().get();
    }

    /// A packet is paid for; did it leave? The bytes that it cost.
    fn charge(&mut self, tin: usize, packet: &P, now: Time, left: bool) -> i64 {
        let len = self.config.line.bytes(packet);
        if !self.shaper.pace.is_unlimited() {
            self.tins[tin].schedule.charge(len, now);
            self.shaper.charge(len, left);
        }
        len as i64
    }

    fn too_much(&self) -> bool {
        match self.config.limit {
            Some(limit) => limit.exceeded(self.backlog),
            None => self.memory > self.memory_limit,
        }
    }

    /// The longest queue of all loses its head.
    #[cold]
    fn make_room(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        while self.too_much() && self.backlog.packets > 0 {
            let (tin, queue) = self.longest.longest();
            let Some(packet) = self.take(tin, queue) else {
                self.longest.was_wrong();
                continue;
            };
            let Tin { flows, law, .. } = &mut self.tins[tin];
            flows[queue].cobalt.overflows(law, now);
            if self.config.ingress {
                self.charge(tin, &packet, now, false);
            }
            sink.dropped(now, packet, Why::Overflow);
        }
    }

    /// The tin whose turn it is.
    fn choose(&self, now: Time) -> Option<usize> {
        let mut best: Option<(Time, usize)> = None;
        for (number, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active()) {
            let due = tin.schedule.due();
            if due <= now || best.is_none_or(|(soonest, _)| due <= soonest) {
                best = Some((due, number));
            }
        }
        best.map(|(_, number)| number)
    }

    /// The tin whose turn it is where there is no rate: by weight.
    fn rotate(&mut self) -> Option<usize> {
        if !self.tins.iter().any(Tin::is_active) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.weight;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// A packet of the queue, which may leave; what may not goes to `sink`.
    fn serve(&mut self, at: usize, queue: usize, now: Time, sink: &mut dyn Sink<P>) -> Served<P> {
        loop {
            let Some(mut packet) = self.take(at, queue) else {
                return Served::Empty;
            };
            let tin = &mut self.tins[at];
            let crowd = if self.config.ingress { tin.busy } else { 0 };
            let flow = &mut tin.flows[queue];
            let drop = flow
                .cobalt
                .drops(&tin.law, &mut packet, crowd, now, &mut self.rng, sink);
            if !drop || flow.list.is_empty() {
                let len = self.charge(at, &packet, now, true);
                self.tins[at].pays(queue, len);
                return Served::Packet(packet);
            }
            if self.config.ingress {
                let len = self.charge(at, &packet, now, false);
                self.tins[at].pays(queue, len);
                sink.dropped(now, packet, Why::Law);
                return Served::Dropped;
            }
            sink.dropped(now, packet, Why::Law);
        }
    }
}

/// What became of a queue's turn.
enum Served<P> {
    /// This packet leaves.
    Packet(P),
    /// Its head was dropped, and paid for.
    Dropped,
    /// It had none.
    Empty,
}

impl<P: Packet + Send> QueueDiscipline<P> for Cake<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        let at = (self.config.diffserv.tin)(packet.dscp());
        if self.config.wash {
            packet.set_dscp(0);
        }
        let hashes = Hashes::of(&packet, self.config.isolation, self.config.seed);
        let (size, memory) = (packet.size(), packet.memory().get());
        if self.tins[at].backlog.packets == 0 {
            self.tins[at].schedule.wake(now);
            if self.backlog.packets == 0 {
                self.shaper.wake(now);
            }
        }
        let queue = self.tins[at].queue(hashes);
        let slot = longest::slot(at, queue);
        let tin = &mut self.tins[at];
        self.pool.push(&mut tin.flows[queue].list, packet);
        tin.backlog.add(size);
        self.backlog.add(size);
        self.memory += memory;
        let needless = self.config.filter.filter(&mut self.pool, &mut tin.flows[queue].list);
        self.longest.add(slot, size.get());
        if let Some(ack) = needless {
            self.gone(at, &ack);
            self.longest.remove(slot, ack.size().get());
            if self.config.ingress {
                self.charge(at, &ack, now, false);
            }
            sink.dropped(now, ack, Why::Law);
        }
        if let Some(rate) = self.autorate.as_mut().and_then(|rate| rate.arrive(size.get(), now)) {
            self.configure(rate);
        }
        self.tins[at].arrives(queue, &mut self.rng);
        if self.too_much() {
            self.make_room(now, sink);
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.due = None;
        // Only the first look may be at an empty queue whose law fades.
        let mut looked = false;
        'tin: while self.backlog.packets > 0 {
            let shaped = !self.shaper.pace.is_unlimited();
            if shaped && self.shaper.due() > now {
                self.due = Some(self.shaper.due());
                return None;
            }
            let at = if shaped { self.choose(now) } else { self.rotate() }?;
            self.current = at;
            loop {
                let tin = &mut self.tins[at];
                let chains = [Chain::Decaying, Chain::New, Chain::Old, Chain::Decaying];
                let chains = &chains[usize::from(core::mem::replace(&mut looked, true))..];
                let Some(queue) = chains.iter().find_map(|chain| tin.chains.first(*chain)) else {
                    continue 'tin;
                };
                if !tin.has_turn(queue, &mut self.rng) {
                    continue;
                }
                match self.serve(at, queue, now, sink) {
                    Served::Packet(packet) => {
                        self.longest.sent();
                        return Some(packet);
                    }
                    Served::Dropped => {}
                    Served::Empty => {
                        self.tins[at].found_empty(queue, now);
                        continue 'tin;
                    }
                }
            }
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {
        // Whoever asked is told; the link asks for the packet.
        self.due = None;
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn classes(&self) -> Vec<String> {
        match self.config.diffserv.tins {
            [_] => Vec::new(),
            tins => tins.iter().map(|share| String::from(share.name)).collect(),
        }
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.tins.get(class).map_or(Backlog::default(), |tin| tin.backlog)
    }
    fn class_served(&self) -> usize {
        self.current
    }
}

/// Its line in the registry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "cake",
        help: "shaper, tins by code point, fair queues for hosts and flows, each under COBALT",
        source: "Piece of CAKE (2018), Linux 6.12 cake",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: |params: &Params, place: &Place| Box::new(Cake::<P>::new(params, place.limit, place.seed)),
    }
}
