//! A hop: the elements that packets of one direction pass at one bottleneck.
//!
//! ```text
//!   ──▶ loss ──▶ corruption ──▶ duplication ──▶ policer ──▶ queue ──▶ link ──▶ wire
//!
//!   wire: propagation, jitter and reordering
//! ```
//!
//! A duplicate follows directly behind the first copy, through policer and queue like any other
//! packet. A corrupted packet travels to the end of the path, where its receiver discards it. The
//! model of loss may change at given times; each model has a random stream of its own.
//!
//! **The link** is a serial wire, a token bucket, a router's shaper, or a link that follows a
//! packet-delivery trace. On a serial wire, the packet in service has left the buffer, as in a
//! network card. Token buckets are of two kinds, besides a router's shaper, which peeks like `tbf`:
//!
//! - tc's `tbf` peeks at the head of its queue, which stays in the buffer until the tokens suffice.
//!   Some disciplines, such as CoDel, decide on their next packet only in `dequeue`. These
//!   disciplines pass their head to the bucket, which holds the packet and counts it as backlog, as
//!   Linux does.
//! - tc's `htb` does not peek: it dequeues a packet when the bucket has no debt, and charges the
//!   packet afterwards. A discipline below `htb` therefore makes its decisions at the instant of
//!   departure.
//!
//! **Queue delay** is the time from entry to the departure instant, when `departed` is called. With
//! a serial wire or a packet-delivery trace, the queue delay includes the packet's own
//! transmission. With a token bucket or a shaper, the queue delay does not include transmission,
//! because transmission takes no time there.
//!
//! **Order of events at one instant**: the hop handles the wake-up of the discipline first, then
//! departures from the link, then entering packets.

use super::NetworkObserver;
use super::bernoulli::Bernoulli;
use super::closed_form::ClosedForm;
use super::delay::DelayLine;
use super::delivery_trace::DeliveryTrace;
use super::link::{Serial, TokenBucket};
use super::loss::LossModel;
use super::policer::{Judgement, Policer};
use super::shape::Shaper;
use super::spec::{HopSpec, Link};
use super::trace::Trace;
use crate::packet::{Ack, Packet};
use crate::param::Choice;
use crate::queue::{Backlog, DropReason, QueueDiscipline, Sink};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The link, which serves the queue.
enum Server {
    Serial(Serial),
    /// A packet-delivery trace.
    DeliveryTrace(Box<DeliveryTrace>),
    /// `tbf`.
    Bucket(TokenBucket),
    /// `htb`.
    Owing(TokenBucket),
    /// A router's traffic shaping.
    Shaper(Shaper),
}

impl Server {
    fn new(spec: &HopSpec) -> Server {
        let varying = spec.varying.as_ref();
        let schedule = varying.and_then(|v| v.schedule(spec.rate));
        let follow = |bucket: TokenBucket| match schedule.clone() {
            Some(schedule) => bucket.following(schedule),
            None => bucket,
        };
        if let Some(Trace::Deliveries(o)) = varying
            .and_then(|v| v.trace.as_ref())
            .map(|file| &file.trace)
        {
            return Server::DeliveryTrace(Box::new(o.clone()));
        }
        match spec.link {
            Link::Serial => Server::Serial(match schedule {
                Some(schedule) => Serial::following(schedule),
                None => Serial::new(spec.rate),
            }),
            Link::Tbf { burst, peak } => {
                let bucket = follow(TokenBucket::new(spec.rate, burst));
                Server::Bucket(match peak {
                    Some((peak, mtu)) => bucket.with_peak(peak, mtu),
                    None => bucket,
                })
            }
            Link::Htb { burst } => Server::Owing(follow(TokenBucket::owing(spec.rate, burst))),
            Link::ShapeAverage { bc, be } => Server::Shaper(Shaper::average(spec.rate, bc, be)),
            Link::ShapePeak { bc, be } => Server::Shaper(Shaper::peak(spec.rate, bc, be)),
        }
    }
    /// Returns whether a packet of `size` would wait forever.
    #[inline]
    fn never_passes(&self, size: Bytes) -> bool {
        match self {
            Server::Bucket(bucket) => bucket.never_passes(size),
            Server::Shaper(shaper) => shaper.never_passes(size),
            Server::Serial(_) | Server::DeliveryTrace(_) | Server::Owing(_) => false,
        }
    }
    /// Takes the tokens for `size` bytes at `now`, or returns the time when there are enough.
    fn take(&mut self, now: Time, size: Bytes) -> Result<(), Time> {
        match self {
            Server::Bucket(bucket) => bucket.take(now, size),
            Server::Shaper(shaper) => shaper.take(now, size),
            Server::Serial(_) | Server::DeliveryTrace(_) | Server::Owing(_) => Ok(()),
        }
    }
}

/// The elements before the queue; boxed, because most paths have none.
struct Before {
    loss: Option<LossModel>,
    /// Later models of loss with their times, the next one last.
    losses: Vec<(Time, Option<LossModel>)>,
    corrupt: Option<Bernoulli>,
    duplicate: Option<Bernoulli>,
    policer: Option<Policer>,
}

impl Before {
    fn new(spec: &HopSpec, seed: u64, name: &str) -> Option<Box<Before>> {
        let rng = |part: &str| Rng::named(seed, &format!("{name}/{part}"));
        let trial = |choice: &Option<Choice>, part| {
            choice
                .as_ref()
                .and_then(|c| Bernoulli::of(&c.params, rng(part)))
        };
        let loss = spec.loss.as_ref();
        let varying = spec.varying.iter().flat_map(|v| v.losses()).zip(1..);
        let later = varying.map(|((at, model), number)| {
            let rng = rng(&format!("loss{number}"));
            let model = LossModel::new(&model.kind, &model.params, rng);
            (at, model.map(LossModel::during_a_run))
        });
        let mut losses: Vec<(Time, Option<LossModel>)> = later.collect();
        losses.reverse();
        let before = Before {
            loss: loss.and_then(|model| LossModel::new(&model.kind, &model.params, rng("loss"))),
            losses,
            corrupt: trial(&spec.corrupt, "corrupt"),
            duplicate: trial(&spec.duplicate, "duplicate"),
            policer: spec
                .policer
                .as_ref()
                .map(|c| Policer::new(&c.kind, &c.params)),
        };
        let lossless = before.loss.is_none() && before.losses.is_empty();
        let none = lossless && before.corrupt.is_none() && before.duplicate.is_none();
        (!none || before.policer.is_some()).then(|| Box::new(before))
    }
    /// Replaces the model of loss by the last one whose time has come.
    fn change_loss(&mut self, now: Time) {
        while self.losses.last().is_some_and(|(at, _)| *at <= now) {
            self.loss = self.losses.pop().and_then(|(_, model)| model);
        }
    }
}

/// Passes a discipline's drops and marks to `out`, with the number of the hop.
struct Here<'a, O> {
    hop: u8,
    out: &'a mut O,
}

impl<P, O: NetworkObserver<P>> Sink<P> for Here<'_, O> {
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason) {
        self.out.dropped(now, self.hop, packet, reason);
    }
    fn marked(&mut self, now: Time, packet: &P, reason: DropReason) {
        self.out.marked(now, self.hop, packet, reason);
    }
    fn completes(&self, packet: &P, ack: &mut Ack) {
        self.out.completes(packet, ack);
    }
}

/// A hop in one direction. Packets leave onto the [`DelayLine`] that the
/// caller passes to [`serve`](Self::serve).
pub struct Hop<P> {
    /// Time of the discipline's next wake-up; `Time::MAX` for never.
    queue_due: Time,
    /// Time of the server's next event; `Time::MAX` while it is idle.
    server_due: Time,
    queue: Box<dyn QueueDiscipline<P>>,
    server: Server,
    /// The packet in service, or the head outside of its queue that waits for tokens.
    held: Option<P>,
    before: Option<Box<Before>>,
    /// Number of the hop, for `out`.
    number: u8,
    /// Whether the discipline has classes.
    classful: bool,
    /// Whether the discipline ever requests a wake-up.
    wakes: bool,
    /// Whether every event of the hop must be handled at its own time, and not together with a
    /// later one.
    timely: bool,
    /// Whether `peek` has ever returned a packet; if not, it is not called again in vain.
    peeks: bool,
    /// The queue, the packet in service and the link in closed form; it is used instead of
    /// `queue`, `held` and `server`.
    closed: Option<Box<ClosedForm>>,
}

impl<P: Packet> Hop<P> {
    /// Creates an idle hop. The random numbers of the hop derive from `seed` and `name`.
    pub fn new(
        spec: &HopSpec,
        queue: Box<dyn QueueDiscipline<P>>,
        number: u8,
        seed: u64,
        name: &str,
    ) -> Hop<P> {
        Hop {
            queue_due: queue.next_wakeup().unwrap_or(Time::MAX),
            server_due: Time::MAX,
            classful: !queue.classes().is_empty(),
            wakes: queue.wakes(),
            timely: queue.timely(),
            peeks: false,
            queue,
            server: Server::new(spec),
            held: None,
            before: Before::new(spec, seed, name),
            number,
            closed: None,
        }
    }

    /// Returns the discipline, for inspection.
    pub fn queue(&self) -> &dyn QueueDiscipline<P> {
        &*self.queue
    }

    /// Returns the backlog in front of the link: the packets in the discipline, and the one that a
    /// token bucket has taken out of it.
    pub fn backlog(&self) -> Backlog {
        if let Some(closed) = &self.closed {
            return closed.backlog();
        }
        let mut backlog = self.queue.backlog();
        if let (Server::Bucket(_) | Server::Shaper(_), Some(head)) = (&self.server, &self.held) {
            backlog.add(head.size());
        }
        backlog
    }

    /// Uses the closed form from now on, if the empty hop has one.
    pub(super) fn use_closed_form(&mut self) {
        if let (Server::Serial(serial), None, true) = (&self.server, &self.before, self.is_empty())
        {
            if let Some(limit) = self.queue.tail_drop().filter(|_| serial.is_constant()) {
                self.closed = Some(Box::new(ClosedForm::new(
                    self.number,
                    limit,
                    serial.clone(),
                )));
            }
        }
    }

    /// Returns the closed form of the hop, if it is in use.
    #[inline]
    pub(super) fn closed_form(&mut self) -> Option<&mut ClosedForm> {
        self.closed.as_deref_mut()
    }

    /// Returns the number of packets in the hop, including the one in service. In closed form, all
    /// of them are on the delay line.
    pub fn len(&self) -> u64 {
        self.queue.backlog().packets + u64::from(self.held.is_some())
    }

    /// Returns whether the hop is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the time of the next event of the hop; `Time::MAX` for never.
    #[inline]
    pub fn due(&self) -> Time {
        self.queue_due.min(self.server_due)
    }

    /// Returns the time at which the hop must be served even if no packet arrives behind it. A
    /// departure alone need not be served at its own time, unless the queue discipline requires
    /// this.
    #[inline]
    pub fn wakeup(&self) -> Time {
        if self.timely {
            self.due()
        } else {
            self.queue_due
        }
    }

    /// Updates the stored wake-up time of the discipline. Call this after something other than a
    /// packet has changed the wake-up time.
    pub fn rouse(&mut self, now: Time) {
        self.rearm(now);
    }

    /// Handles wake-ups and departures up to `now`.
    pub fn serve<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        if let (Server::Serial(_), false) = (&self.server, self.wakes) {
            return self.serve_serial(now, line, out);
        }
        loop {
            let at = self.due();
            if at > now || at == Time::MAX {
                return;
            }
            if self.queue_due <= at {
                let mut here = Here {
                    hop: self.number,
                    out,
                };
                self.queue.on_wakeup(at, &mut here);
                if self.server_due == Time::MAX {
                    self.start(at, line, out);
                }
                // A discipline that requests its present wake-up time again would stop the clock.
                self.rearm(at + Span::ns(1));
            } else {
                if let Server::Serial(_) | Server::DeliveryTrace(_) = self.server {
                    if let Some(packet) = self.held.take() {
                        self.depart(at, packet, line, out);
                    }
                }
                self.start(at, line, out);
                self.rearm(at);
            }
        }
    }

    /// The most frequent case of `serve`, specialized for speed.
    #[inline]
    fn serve_serial<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        while self.server_due <= now && self.server_due != Time::MAX {
            let at = self.server_due;
            if let Some(packet) = self.held.take() {
                self.depart(at, packet, line, out);
            }
            self.held = self.dequeue(at, out);
            self.server_due = match (&self.held, &mut self.server) {
                (Some(packet), Server::Serial(serial)) => serial.serve(at, packet.size()),
                _ => Time::MAX,
            };
        }
    }

    /// Takes an entering `packet`. The caller has called [`serve`](Self::serve) for the same `now`.
    #[inline]
    pub fn push<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        packet: P,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        match self.before {
            None => self.enter(now, packet, line, out),
            Some(_) => self.happen(now, packet, line, out),
        }
    }

    /// Applies the elements before the queue.
    #[cold]
    fn happen<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        mut packet: P,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        let Some(before) = &mut self.before else {
            return;
        };
        before.change_loss(now);
        if before
            .loss
            .as_mut()
            .is_some_and(|loss| loss.is_lost(packet.joined()))
        {
            return out.dropped(now, self.number, packet, DropReason::Loss);
        }
        if before.corrupt.as_mut().is_some_and(Bernoulli::happens) {
            packet.damage();
        }
        let twice = before.duplicate.as_mut().is_some_and(Bernoulli::happens);
        let copy = if twice { out.duplicate(&packet) } else { None };
        for mut packet in [Some(packet), copy].into_iter().flatten() {
            let policer = self
                .before
                .as_mut()
                .and_then(|before| before.policer.as_mut());
            match policer.map_or(Judgement::Pass, |policer| policer.judge(now, &mut packet)) {
                Judgement::Pass | Judgement::Remarked => self.enter(now, packet, line, out),
                Judgement::Drop => out.dropped(now, self.number, packet, DropReason::Policer),
            }
        }
    }

    /// Enqueues `packet`.
    fn enter<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        mut packet: P,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        if self.server.never_passes(packet.size()) {
            return out.dropped(now, self.number, packet, DropReason::Overflow);
        }
        packet.set_enqueued_at(now);
        let mut here = Here {
            hop: self.number,
            out,
        };
        self.queue.enqueue(now, packet, &mut here);
        if self.server_due == Time::MAX {
            self.start(now, line, out);
        }
        self.rearm(now);
    }

    /// Stores the discipline's next wake-up, not before `earliest`.
    #[inline]
    fn rearm(&mut self, earliest: Time) {
        if !self.wakes {
            return;
        }
        self.queue_due = self
            .queue
            .next_wakeup()
            .map_or(Time::MAX, |at| at.max(earliest));
    }

    /// Dequeues the next packet of the discipline, if any.
    #[inline]
    fn dequeue<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) -> Option<P> {
        let mut here = Here {
            hop: self.number,
            out,
        };
        self.queue.dequeue(now, &mut here)
    }

    /// Puts the next packet into service; the server is free.
    fn start<O: NetworkObserver<P>>(&mut self, now: Time, line: &mut DelayLine<P>, out: &mut O) {
        self.server_due = Time::MAX;
        loop {
            match &mut self.server {
                Server::Serial(_) | Server::DeliveryTrace(_) => {
                    let Some(packet) = self.dequeue(now, out) else {
                        return;
                    };
                    self.server_due = match &mut self.server {
                        Server::Serial(line) => line.serve(now, packet.size()),
                        Server::DeliveryTrace(link) => link.serve(now, packet.size()),
                        Server::Bucket(_) | Server::Owing(_) | Server::Shaper(_) => now,
                    };
                    self.held = Some(packet);
                    return;
                }
                Server::Owing(bucket) => {
                    // Without packets, the class needs no wake-up.
                    if self.queue.backlog().packets == 0 {
                        return;
                    }
                    if let Err(later) = bucket.ready(now) {
                        self.server_due = later;
                        return;
                    }
                    let Some(packet) = self.dequeue(now, out) else {
                        return;
                    };
                    if let Server::Owing(bucket) = &mut self.server {
                        bucket.charge(now, packet.size());
                    }
                    self.depart(now, packet, line, out);
                }
                Server::Bucket(_) | Server::Shaper(_) => {
                    let peeked = if self.held.is_none() {
                        self.queue.peek()
                    } else {
                        None
                    };
                    self.peeks |= peeked.is_some();
                    let size = match peeked {
                        Some(size) => size,
                        None => {
                            if self.held.is_none() {
                                if self.peeks {
                                    return;
                                }
                                self.held = self.dequeue(now, out);
                            }
                            match &self.held {
                                Some(head) => head.size(),
                                None => return,
                            }
                        }
                    };
                    if let Err(later) = self.server.take(now, size) {
                        self.server_due = later;
                        return;
                    }
                    let head = if peeked.is_some() {
                        self.dequeue(now, out)
                    } else {
                        self.held.take()
                    };
                    match head {
                        Some(packet) => self.depart(now, packet, line, out),
                        None => return,
                    }
                }
            }
        }
    }

    #[inline]
    fn depart<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        packet: P,
        line: &mut DelayLine<P>,
        out: &mut O,
    ) {
        let class = if self.classful {
            self.queue.class_served() as u8
        } else {
            0
        };
        out.departed(now, self.number, class, &packet);
        line.push(now, packet);
    }
}
