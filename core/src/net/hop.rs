//! One hop: what happens to the packets of one direction at one narrow place.
//!
//! ```text
//!   ──▶ loss ──▶ queue ──▶ link ──▶ the line behind it
//! ```
//!
//! **The link** is a serial wire (the packet in service has left the buffer, as it has in a network card) or a token bucket:
//!
//! - tc's `tbf` looks at the head of its queue, which stays in the buffer until the tokens suffice. A discipline whose head
//!   is not known before `dequeue` decides (CoDel's is not) gives it up to the bucket, which holds it and counts it as
//!   waiting; so does Linux.
//! - tc's `htb` does not look: it takes a packet when nothing is owed, and pays for it afterwards. Thus a discipline below it
//!   decides at the very instant of departure.
//!
//! **Queue delay** runs from entry to the departure instant, when `departed` is called: with a serial link it includes the
//! packet's own transmission, with a token bucket it does not, for there transmission takes no time.
//!
//! **At one instant**: the discipline's wake-up, then the link's departures, then what enters.

use super::delay::Line;
use super::link::{Serial, TokenBucket};
use super::loss::LossModel;
use super::Out;
use crate::packet::Packet;
use crate::queue::{Backlog, QueueDiscipline, Sink, Why};
use crate::rng::Rng;
use crate::scenario::{HopSpec, Link};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::format;

/// What serves the queue.
enum Server {
    Serial(Serial),
    /// `tbf`.
    Bucket(TokenBucket),
    /// `htb`.
    Owing(TokenBucket),
}

/// What may happen to a packet before the queue; boxed, for most paths have none of it.
struct Before {
    loss: Option<LossModel>,
}

impl Before {
    fn new(spec: &HopSpec, seed: u64, name: &str) -> Option<Box<Before>> {
        let rng = |part: &str| Rng::named(seed, &format!("{name}/{part}"));
        let loss = spec.loss.as_ref().and_then(|model| LossModel::new(model, rng("loss")));
        loss.is_some().then(|| Box::new(Before { loss }))
    }
}

/// Where a discipline's drops and marks go: to `out`, with the number of the hop.
struct Here<'a, O> {
    hop: u8,
    out: &'a mut O,
}

impl<P, O: Out<P>> Sink<P> for Here<'_, O> {
    fn dropped(&mut self, now: Time, packet: P, why: Why) {
        self.out.dropped(now, self.hop, packet, why);
    }
    fn marked(&mut self, now: Time, packet: &P, why: Why) {
        self.out.marked(now, self.hop, packet, why);
    }
}

/// One hop in one direction. What leaves goes onto the line that the caller hands in.
pub struct Hop<P> {
    /// When the discipline wants to be woken; `Time::MAX` for never.
    queue_due: Time,
    /// When the server acts next; `Time::MAX` while it has nothing to do.
    server_due: Time,
    queue: Box<dyn QueueDiscipline<P>>,
    server: Server,
    /// The packet in service, or the head that waits for tokens outside of its queue.
    held: Option<P>,
    before: Option<Box<Before>>,
    /// As `out` is told it.
    number: u8,
    /// Does the discipline tell classes apart?
    classful: bool,
}

impl<P: Packet> Hop<P> {
    /// An idle hop. `name` splits the scenario's `seed`.
    pub fn new(spec: &HopSpec, queue: Box<dyn QueueDiscipline<P>>, number: u8, seed: u64, name: &str) -> Hop<P> {
        Hop {
            queue_due: queue.next_wakeup().unwrap_or(Time::MAX),
            server_due: Time::MAX,
            classful: !queue.classes().is_empty(),
            queue,
            server: match spec.link {
                Link::Serial => Server::Serial(Serial::new(spec.rate)),
                Link::Tbf { burst } => Server::Bucket(TokenBucket::new(spec.rate, burst)),
                Link::Htb { burst } => Server::Owing(TokenBucket::owing(spec.rate, burst)),
            },
            held: None,
            before: Before::new(spec, seed, name),
            number,
        }
    }

    /// The discipline, to look at.
    pub fn queue(&self) -> &dyn QueueDiscipline<P> {
        &*self.queue
    }

    /// What waits for the link: the discipline's backlog, and the head that a token bucket has taken out of it.
    pub fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        if let (Server::Bucket(_), Some(head)) = (&self.server, &self.held) {
            backlog.add(head.size());
        }
        backlog
    }

    /// Packets inside.
    pub fn len(&self) -> u64 {
        self.queue.backlog().packets + u64::from(self.held.is_some())
    }

    /// Is nothing inside?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When something of its own is to be done: `Time::MAX` for never.
    #[inline]
    pub fn due(&self) -> Time {
        self.queue_due.min(self.server_due)
    }

    /// When something has to be done that is nobody else's news.
    #[inline]
    pub fn wakeup(&self) -> Time {
        self.queue_due
    }

    /// Everything of its own up to `now`.
    pub fn serve<O: Out<P>>(&mut self, now: Time, line: &mut Line<P>, out: &mut O) {
        loop {
            let at = self.due();
            if at > now || at == Time::MAX {
                return;
            }
            if self.queue_due <= at {
                let mut here = Here { hop: self.number, out };
                self.queue.on_wakeup(at, &mut here);
                if self.server_due == Time::MAX {
                    self.start(at, line, out);
                }
                // A discipline that asks again for the instant it was just given would stop the clock.
                self.rearm(at + Span::ns(1));
            } else {
                if let Server::Serial(_) = self.server {
                    if let Some(packet) = self.held.take() {
                        self.depart(at, packet, line, out);
                    }
                }
                self.start(at, line, out);
                self.rearm(at);
            }
        }
    }

    /// `packet` enters; `serve` has been called for `now`.
    pub fn push<O: Out<P>>(&mut self, now: Time, mut packet: P, line: &mut Line<P>, out: &mut O) {
        if let Some(before) = &mut self.before {
            if before.loss.as_mut().is_some_and(|loss| loss.is_lost(packet.joined())) {
                return out.dropped(now, self.number, packet, Why::Loss);
            }
        }
        if let Server::Bucket(bucket) = &self.server {
            if bucket.never_passes(packet.size()) {
                return out.dropped(now, self.number, packet, Why::Overflow);
            }
        }
        packet.set_enqueued_at(now);
        let mut here = Here { hop: self.number, out };
        self.queue.enqueue(now, packet, &mut here);
        if self.server_due == Time::MAX {
            self.start(now, line, out);
        }
        self.rearm(now);
    }

    /// Notes when the discipline wants to be woken, not before `earliest`.
    fn rearm(&mut self, earliest: Time) {
        self.queue_due = self.queue.next_wakeup().map_or(Time::MAX, |at| at.max(earliest));
    }

    /// The next packet of the discipline, if any.
    fn dequeue<O: Out<P>>(&mut self, now: Time, out: &mut O) -> Option<P> {
        let mut here = Here { hop: self.number, out };
        self.queue.dequeue(now, &mut here)
    }

    /// The server is free: the next packet gets it.
    fn start<O: Out<P>>(&mut self, now: Time, line: &mut Line<P>, out: &mut O) {
        self.server_due = Time::MAX;
        loop {
            match &mut self.server {
                Server::Serial(_) => {
                    let Some(packet) = self.dequeue(now, out) else { return };
                    if let Server::Serial(wire) = &mut self.server {
                        self.server_due = wire.serve(now, packet.size());
                    }
                    self.held = Some(packet);
                    return;
                }
                Server::Owing(bucket) => {
                    if let Err(later) = bucket.ready(now) {
                        if self.queue.backlog().packets > 0 {
                            self.server_due = later;
                        }
                        return;
                    }
                    let Some(packet) = self.dequeue(now, out) else { return };
                    if let Server::Owing(bucket) = &mut self.server {
                        bucket.charge(now, packet.size());
                    }
                    self.depart(now, packet, line, out);
                }
                Server::Bucket(_) => {
                    let peeked = if self.held.is_none() { self.queue.peek() } else { None };
                    let size = match peeked {
                        Some(size) => size,
                        None => {
                            if self.held.is_none() {
                                self.held = self.dequeue(now, out);
                            }
                            match &self.held {
                                Some(head) => head.size(),
                                None => return,
                            }
                        }
                    };
                    if let Server::Bucket(bucket) = &mut self.server {
                        if let Err(later) = bucket.take(now, size) {
                            self.server_due = later;
                            return;
                        }
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

    fn depart<O: Out<P>>(&mut self, now: Time, packet: P, line: &mut Line<P>, out: &mut O) {
        let class = if self.classful {
            self.queue.class_served() as u8
        } else {
            0
        };
        out.departed(now, self.number, class, &packet);
        line.push(now, packet);
    }
}
