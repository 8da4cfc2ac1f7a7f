//! CAKE: shaper, tins, fair queues and their control law in one discipline.
//!
//! ```text
//!   ──▶ tin by code point ──▶ queue by flow (8-way hash) ──▶ [ACK filter] ──┐
//!   ┌───────────────────────────────────────────────────────────────────────┘
//!   └─▶ new, then old queues in turn, each with COBALT ──▶ shaper ──▶
//! ```
//!
//! Algorithm: a packet may leave when the shaper's clock is due ([`shaper`]). Of the tins with
//! packets that are within their thresholds, the one with the highest number is served. If no tin
//! is within its threshold, the tin that will be within it soonest is served. Without a rate, tins
//! take turns by weight ([`tins`]). Within a tin queues take turns, new ones first. In its turn, a
//! queue may send a quantum divided by the number of busy flows of the flow's host ([`hash`]). Each
//! queue has a control law ([`cobalt`]). An empty queue leaves the order of service. It becomes
//! idle when the state of its control law has decayed. When the packets exceed the memory limit,
//! the longest queue of all tins drops its head ([`longest`]).
//!
//! Sources: Høiland-Jørgensen, Täht, Morton: Piece of CAKE, LANMAN 2018; tc-cake(8); Linux 6.12
//! `cake`, compared packet by packet (`core/tests/queue_replay.rs`).
//!
//! As in Linux: the control law does not drop the last packet of a queue. The bytes of a turn are
//! rounded at random to whole bytes, so that no flow gains by rounding. Deviations: a queue that
//! needs 64 turns or more until it may send receives them at once (`tin`). `fwmark` is rejected,
//! because packets have no firewall marks.

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
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::Params;
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use ack_filter::Filter;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use autorate::Estimator;
use core::num::NonZeroU32;
use hash::Isolation;
use longest::Longest;
use overhead::Line;
use shaper::{Pace, Shaper};
use tin::Tin;
use tins::Diffserv;

pub use params::PARAMS;

/// Number of full frames whose bytes are the maximum of the memory limit, unless `memlimit` exceeds
/// them.
const PACKETS: u64 = 10_240;
/// Minimum of a memory limit that is computed from the rate, in bytes.
const LEAST_MEMORY: u64 = 4 << 20;

/// The settings, which do not change.
struct Config {
    diffserv: &'static Diffserv,
    /// The tin of each code point.
    tin_of: [u8; 64],
    line: Line,
    filter: Filter,
    rtt: Span,
    memlimit: u64,
    ingress: bool,
    wash: bool,
    split_gso: bool,
    /// Whether ACKs are filtered, or the rate follows arrivals.
    observes_arrivals: bool,
    seed: u64,
}

impl Config {
    fn memory(&self, bytes_per_s: u64) -> u64 {
        let most = (PACKETS * MTU.get()).max(self.memlimit);
        let want = if self.memlimit > 0 {
            self.memlimit
        } else if bytes_per_s > 0 {
            let four_rtts = u128::from(bytes_per_s) * u128::from(self.rtt.as_us()) / 250_000;
            u64::try_from(four_rtts)
                .unwrap_or(u64::MAX)
                .max(LEAST_MEMORY)
        } else {
            u64::MAX
        };
        want.min(most)
    }
}

/// A packet in a queue, with its size, which would otherwise be computed again when it leaves.
struct Queued<P> {
    packet: P,
    /// The size in bytes plus one. It is not zero, so an entry of the pool needs no other mark.
    size: NonZeroU32,
}

impl<P> Queued<P> {
    #[inline]
    fn new(packet: P, size: Bytes) -> Queued<P> {
        let size = NonZeroU32::MIN.saturating_add(size.get() as u32);
        Queued { packet, size }
    }
    #[inline]
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size.get() - 1))
    }
}

/// Counters of all queues, and their limit.
#[derive(Default)]
struct Stock {
    backlog: Backlog,
    /// The limit of the scenario, which replaces the memory limit.
    limit: Option<Limit>,
    /// The memory limit, in bytes.
    memory_limit: u64,
    /// Memory that the packets occupy, in bytes. It is not counted if `limit` is set.
    memory: u64,
    longest: Longest,
}

impl Stock {
    /// Adds a packet of `size` bytes that joins a queue of `tin`.
    #[inline(always)]
    fn add<P: Packet>(&mut self, tin: &mut Tin, packet: &P, size: Bytes) {
        tin.backlog.add(size);
        self.backlog.add(size);
        if self.limit.is_none() {
            self.memory += packet.memory(size).get();
        }
    }
    /// Subtracts a packet of `size` bytes that left a queue of `tin`.
    #[inline(always)]
    fn remove<P: Packet>(&mut self, tin: &mut Tin, packet: &P, size: Bytes) {
        tin.backlog.remove(size);
        self.backlog.remove(size);
        if self.limit.is_none() {
            self.memory -= packet.memory(size).get();
        }
    }
    /// Returns whether the packets exceed the limit.
    #[inline]
    fn exceeds_limit(&self) -> bool {
        match self.limit {
            Some(limit) => limit.exceeded(self.backlog),
            None => self.memory > self.memory_limit,
        }
    }
}

/// Charges a frame of `size` bytes to the shaper and to its tin. `left` is whether the frame was
/// sent; if not, it was dropped. Returns the charged bytes, including the overhead of the line.
#[inline(always)]
fn charge(
    shaper: &mut Shaper,
    line: &Line,
    tin: &mut Tin,
    size: Bytes,
    now: Time,
    left: bool,
) -> i64 {
    if shaper.pace.is_unlimited() && line.is_bare() {
        return size.get() as i64;
    }
    charge_line(shaper, line, tin, size, now, left)
}

/// As `charge`, with a rate or an overhead.
#[inline(never)]
fn charge_line(
    shaper: &mut Shaper,
    line: &Line,
    tin: &mut Tin,
    size: Bytes,
    now: Time,
    left: bool,
) -> i64 {
    let len = line.bytes(size);
    if !shaper.pace.is_unlimited() {
        tin.schedule.charge(len, now);
        shaper.charge(len, left);
    }
    len as i64
}

/// The queue discipline.
pub struct Cake<P> {
    config: Config,
    shaper: Shaper,
    /// Time of the shaper's next release, if it holds a packet back.
    due: Option<Time>,
    tins: Vec<Tin>,
    /// The tin that was served last.
    current: usize,
    /// Whether there is no rate, and no other tin has packets or a deficit to make up. Then the
    /// deficit of the current tin is updated only when this ends.
    alone: bool,
    /// The deficit of the current tin before its last packets were charged.
    deficit: i64,
    pool: Pool<Queued<P>>,
    stock: Stock,
    autorate: Option<Estimator>,
    rng: Rng,
}

impl<P: Packet + Send> Cake<P> {
    /// An empty discipline. `limit` replaces `memlimit`; `seed` is for hashes and random decisions.
    pub fn new(params: &Params, limit: Option<Limit>, seed: u64) -> Cake<P> {
        let rtt = match params.span("rtt") {
            Span::ZERO => params::network(params.word("network")),
            rtt => rtt,
        };
        let diffserv = tins::of(params.word("diffserv"));
        let isolation = Isolation::of(params.word("flows"), params.bool("nat"));
        let rate = params.rate("bandwidth").as_bit() / 8;
        let autorate = params.bool("autorate_ingress");
        let filter = Filter::of(params.word("ack_filter"));
        let mut cake = Cake {
            config: Config {
                diffserv,
                tin_of: core::array::from_fn(|dscp| (diffserv.tin)(dscp as u8) as u8),
                line: Line::of(params),
                filter,
                rtt,
                memlimit: params.bytes("memlimit").get(),
                ingress: params.bool("ingress"),
                wash: params.bool("wash"),
                split_gso: params.bool("split_gso"),
                observes_arrivals: filter != Filter::Off || autorate,
                seed,
            },
            shaper: Shaper::default(),
            due: None,
            tins: diffserv
                .tins
                .iter()
                .map(|share| Tin::new(share, isolation))
                .collect(),
            current: 0,
            alone: false,
            deficit: 0,
            pool: Pool::default(),
            stock: Stock {
                limit,
                ..Stock::default()
            },
            autorate: autorate.then(|| Estimator::new(rate)),
            rng: Rng::named(seed, "cake"),
        };
        cake.configure(rate);
        cake
    }

    /// Sets the shaper's rate in bytes per second; 0 disables it.
    fn configure(&mut self, rate: u64) {
        self.shaper.pace = Pace::of(rate);
        self.end_alone();
        self.stock.memory_limit = self.config.memory(rate);
        for tin in &mut self.tins {
            tin.configure(rate, self.config.rtt);
        }
    }

    /// Called when other tins may have packets from now on: updates the deficit of the tin that was
    /// alone.
    fn end_alone(&mut self) {
        if core::mem::take(&mut self.alone) {
            self.tins[self.current].make_up_deficit(self.deficit);
        }
    }

    /// Handles a packet that arrives at an empty tin.
    #[cold]
    #[inline(never)]
    fn end_idle(&mut self, now: Time, at: usize) {
        self.end_alone();
        self.tins[at].schedule.end_idle(now);
        if self.stock.backlog.packets == 0 {
            self.shaper.end_idle(now);
        }
    }

    /// Enqueues all segments of a super-packet but the last, one by one; `packet` becomes the last.
    #[cold]
    fn segment(&mut self, now: Time, packet: &mut P, sink: &mut dyn Sink<P>) {
        while let Some(first) = packet.first_segment() {
            self.enqueue(now, first, sink);
        }
    }

    /// Handles the arrival of a packet of `size` bytes: removes an ACK that it makes redundant, and
    /// updates the estimated rate.
    #[cold]
    #[inline(never)]
    fn observe_arrival(
        &mut self,
        now: Time,
        at: usize,
        queue: usize,
        size: Bytes,
        sink: &mut dyn Sink<P>,
    ) {
        if self.config.filter != Filter::Off {
            self.filter_ack(now, at, queue, sink);
        }
        if let Some(rate) = self
            .autorate
            .as_mut()
            .and_then(|rate| rate.arrive(size.get(), now))
        {
            self.configure(rate);
        }
        self.tins[at].on_arrival(queue, &mut self.rng);
    }

    /// Removes an ACK that the ACK at the tail of a queue makes redundant, if there is one.
    fn filter_ack(&mut self, now: Time, at: usize, queue: usize, sink: &mut dyn Sink<P>) {
        let tin = &mut self.tins[at];
        let list = &mut tin.lists[queue];
        let Some(ack) = self
            .config
            .filter
            .redundant_ack(&mut self.pool, list, &*sink)
        else {
            return;
        };
        let size = ack.size();
        self.stock.remove(tin, &ack.packet, size);
        self.stock.longest.left(at, queue, size);
        if self.config.ingress {
            charge(&mut self.shaper, &self.config.line, tin, size, now, false);
        }
        sink.dropped(now, ack.packet, DropReason::Aqm);
    }

    /// Drops the head of a queue by decision of its control law.
    #[cold]
    fn drop_head(&mut self, now: Time, at: usize, queue: usize, sink: &mut dyn Sink<P>) {
        let tin = &mut self.tins[at];
        let Some(head) = self.pool.pop(&mut tin.lists[queue]) else {
            return;
        };
        let size = head.size();
        self.stock.remove(tin, &head.packet, size);
        self.stock.longest.left(at, queue, size);
        if self.config.ingress {
            let len = charge(&mut self.shaper, &self.config.line, tin, size, now, false);
            tin.charge(queue, len);
        }
        sink.dropped(now, head.packet, DropReason::Aqm);
    }

    /// Returns the next packet, if one may leave. If `first` is true, this also lets the control
    /// law of the first decaying queue of the tin decay.
    #[inline(always)]
    fn serve(&mut self, now: Time, first: bool, sink: &mut dyn Sink<P>) -> Option<P> {
        if self.stock.backlog.packets == 0 {
            return None;
        }
        if !self.alone {
            self.current = self.select_tin(now)?;
        }
        let at = self.current;
        let tin = &mut self.tins[at];
        self.deficit = tin.deficit;
        if first {
            tin.check_decaying(now);
        }
        let Some(queue) = tin.next(now, &mut self.rng) else {
            return self.serve_another(now, sink);
        };
        let mut head = self.pool.head(&tin.lists[queue])?;
        let queued = head.packet()?;
        let (size, entered) = (queued.size(), queued.packet.enqueued_at());
        if !tin.cobalts[queue].passes(&tin.law, entered, now) {
            return self.serve_with_law(now, at, queue, sink);
        }
        self.stock.remove(tin, &queued.packet, size);
        self.stock.longest.sent(at, queue, size);
        let len = charge(&mut self.shaper, &self.config.line, tin, size, now, true);
        tin.charge(queue, len);
        Some(head.take(&mut tin.lists[queue])?.packet)
    }

    /// Called when the tin in turn has no packet: serves another tin.
    #[cold]
    #[inline(never)]
    fn serve_another(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.serve(now, false, sink)
    }

    /// Applies the control law to the head of `queue`, and returns it if it is not dropped. After
    /// drops, returns a later packet of this queue or of another one.
    #[inline(never)]
    fn serve_with_law(
        &mut self,
        now: Time,
        at: usize,
        mut queue: usize,
        sink: &mut dyn Sink<P>,
    ) -> Option<P> {
        while self.should_drop(now, at, queue, sink) {
            match self.tins[at].next(now, &mut self.rng) {
                Some(next) => queue = next,
                None => return self.serve_another(now, sink),
            }
        }
        let tin = &mut self.tins[at];
        let head = self.pool.pop(&mut tin.lists[queue])?;
        let size = head.size();
        self.stock.remove(tin, &head.packet, size);
        self.stock.longest.sent(at, queue, size);
        let len = charge(&mut self.shaper, &self.config.line, tin, size, now, true);
        tin.charge(queue, len);
        Some(head.packet)
    }

    /// Applies the control law of a queue to its head. The head may be marked, or dropped unless it
    /// is the last packet of the queue. Returns whether it was dropped.
    fn should_drop(&mut self, now: Time, at: usize, queue: usize, sink: &mut dyn Sink<P>) -> bool {
        let tin = &mut self.tins[at];
        let Some(Queued { packet, .. }) = self.pool.front_mut(&tin.lists[queue]) else {
            return false;
        };
        let bulk_flows = if self.config.ingress { tin.busy() } else { 0 };
        let signal =
            tin.cobalts[queue].should_drop(&tin.law, packet, bulk_flows, now, &mut self.rng, sink);
        let dropped = signal && !tin.lists[queue].is_one();
        if dropped {
            self.drop_head(now, at, queue, sink);
        }
        dropped
    }

    /// Drops heads of the longest queue until the packets no longer exceed the limit.
    #[cold]
    fn make_room(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        while self.stock.exceeds_limit() && self.stock.backlog.packets > 0 {
            let (tins, stock) = (&mut self.tins, &mut self.stock);
            let (at, queue) = stock.longest.longest(tins.len(), |tin, queue| {
                let waiting = self.pool.iter(&tins[tin].lists[queue]);
                waiting.map(|(_, queued)| queued.size().get()).sum()
            });
            let tin = &mut tins[at];
            let Some(head) = self.pool.pop(&mut tin.lists[queue]) else {
                stock.longest.invalidate();
                continue;
            };
            let size = head.size();
            stock.remove(tin, &head.packet, size);
            stock.longest.left(at, queue, size);
            tin.cobalts[queue].on_overflow(&tin.law, now);
            if self.config.ingress {
                charge(&mut self.shaper, &self.config.line, tin, size, now, false);
            }
            sink.dropped(now, head.packet, DropReason::Overflow);
        }
    }

    /// Returns the tin to serve, if a packet may leave now.
    fn select_tin(&mut self, now: Time) -> Option<usize> {
        if self.shaper.pace.is_unlimited() {
            return self.select_by_weight();
        }
        if self.shaper.due() > now {
            self.due = Some(self.shaper.due());
            return None;
        }
        self.select_by_threshold(now)
    }

    /// Returns the tin to serve with a rate: by the thresholds.
    fn select_by_threshold(&self, now: Time) -> Option<usize> {
        let mut best: Option<(Time, usize)> = None;
        for (number, tin) in self
            .tins
            .iter()
            .enumerate()
            .filter(|(_, tin)| tin.is_active())
        {
            let due = tin.schedule.due();
            if due <= now || best.is_none_or(|(soonest, _)| due <= soonest) {
                best = Some((due, number));
            }
        }
        best.map(|(_, number)| number)
    }

    /// Returns the tin to serve without a rate: by the weights.
    fn select_by_weight(&mut self) -> Option<usize> {
        let (current, tins) = (self.current, &mut self.tins);
        if tins[current].deficit >= 0 && tins[current].is_active() {
            return Some(current);
        }
        let idle =
            |(at, tin): (usize, &Tin)| at == current || (tin.deficit > 0 && !tin.is_active());
        self.alone = tins[current].is_active() && tins.iter().enumerate().all(idle);
        if self.alone {
            return Some(current);
        }
        if !tins.iter().any(Tin::is_active) {
            return None;
        }
        loop {
            let tin = &mut tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.weight;
            }
            self.current += 1;
            if self.current == tins.len() {
                self.current = 0;
            }
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Cake<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        let mut size = packet.size();
        if size > MTU && self.config.split_gso {
            self.segment(now, &mut packet, sink);
            size = packet.size();
        }
        let at = usize::from(self.config.tin_of[usize::from(packet.dscp() & 63)]);
        let mut tin = &mut self.tins[at];
        let queue = tin.queue(&packet, self.config.seed);
        if self.config.wash {
            packet.set_dscp(0);
        }
        if tin.backlog.packets == 0 {
            self.end_idle(now, at);
            tin = &mut self.tins[at];
        }
        self.stock.add(tin, &packet, size);
        self.stock.longest.joined(at, queue, size);
        self.pool
            .push(&mut tin.lists[queue], Queued::new(packet, size));
        if self.config.observes_arrivals {
            self.observe_arrival(now, at, queue, size, sink);
        } else {
            tin.on_arrival(queue, &mut self.rng);
        }
        if self.stock.exceeds_limit() {
            self.make_room(now, sink);
        }
    }

    fn refuses(&self, _why: DropReason) -> bool {
        false
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.due = None;
        self.serve(now, true, sink)
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<P>) {
        // The wake-up was delivered; the link dequeues the packet.
        self.due = None;
    }
    fn backlog(&self) -> Backlog {
        self.stock.backlog
    }
    fn classes(&self) -> Vec<String> {
        match self.config.diffserv.tins {
            [_] => Vec::new(),
            tins => tins.iter().map(|share| String::from(share.name)).collect(),
        }
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.tins
            .get(class)
            .map_or(Backlog::default(), |tin| tin.backlog)
    }
    fn class_served(&self) -> usize {
        self.current
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "cake",
        help: "shaper, tins by code point, fair queues for hosts and flows, each with COBALT",
        source: "Piece of CAKE (2018), Linux 6.12 cake",
        params: PARAMS,
        check: params::check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            Box::new(Cake::<P>::new(params, context.limit, context.seed))
        },
    }
}
