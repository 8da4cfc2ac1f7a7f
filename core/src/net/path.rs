//! The path between two hosts: a bottleneck on the way there, nothing but distance on the way back.
//!
//! ```text
//!   NEAR ──▶ loss ──▶ queue ──▶ link ──▶ propagation ──▶ FAR       data, pings
//!   NEAR ◀────────────────────────────── propagation ◀── FAR       ACKs, answers: never lost, never queued
//! ```
//!
//! **Loss** takes whole super-packets, as `netem` at the sender does (see [`loss`](super::loss)); queue and link see single
//! packets.
//!
//! **The link** is a serial wire (the packet in service has left the buffer, as it has in a network card) or a token bucket
//! as tc's `tbf` and `htb`: the head of the queue stays in the buffer until the tokens suffice. A discipline whose head is not known
//! before `dequeue` decides (CoDel's is not) gives it up to the bucket, which holds it outside of the buffer; Linux does
//! the same with such children.
//!
//! **Queue delay** runs from entry to the departure instant, when `departed` is called: with a serial link it includes the
//! packet's own transmission, with a token bucket it does not, for there transmission takes no time.
//!
//! **Everything due at one instant**, in this order: the discipline's wake-up, the link's departures, arrivals at FAR,
//! arrivals at NEAR; packets of one kind in their order of entry. What lies in the past when a late driver asks is done at
//! its own instant, so a late poll delays arrivals but not the link. That is why nobody is asked to poll for a departure
//! behind which something else arrives first; who wants to see the queue as it is `now` polls before.

use super::delay::Line;
use super::link::{Serial, TokenBucket};
use super::loss::Independent;
use super::{Network, Out, Port, FAR, NEAR};
use crate::packet::Packet;
use crate::queue::{Backlog, QueueDiscipline, Why};
use crate::rng::Rng;
use crate::scenario::{Link, PathSpec};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// What serves the queue.
enum Server {
    Serial(Serial),
    Bucket(TokenBucket),
}

/// A [`Network`] of two ports.
pub struct Path<P> {
    loss: Independent,
    queue: Box<dyn QueueDiscipline<P>>,
    /// When the discipline wants to be woken; `Time::MAX` for never.
    queue_due: Time,
    server: Server,
    /// The packet in service, or the head that waits for tokens outside of its queue.
    held: Option<P>,
    /// When the server acts next; `Time::MAX` while it has nothing to do.
    server_due: Time,
    there: Line<P>,
    back: Line<P>,
}

impl<P: Packet> Path<P> {
    /// An empty path. `seed` is the scenario's.
    pub fn new(spec: &PathSpec, queue: Box<dyn QueueDiscipline<P>>, seed: u64) -> Path<P> {
        let server = match spec.link {
            Link::Serial => Server::Serial(Serial::new(spec.rate)),
            Link::Tbf { burst } => Server::Bucket(TokenBucket::new(spec.rate, burst)),
            Link::Htb { burst } => Server::Bucket(TokenBucket::owing(spec.rate, burst)),
        };
        let forward = spec.delay_forward.min(spec.rtt);
        Path {
            loss: Independent::new(&spec.loss, Rng::named(seed, "path/loss")),
            queue_due: queue.next_wakeup().unwrap_or(Time::MAX),
            queue,
            server,
            held: None,
            server_due: Time::MAX,
            there: Line::new(forward),
            back: Line::new(spec.rtt - forward),
        }
    }

    /// What waits for the link: the discipline's backlog, and the head that a token bucket has taken out of it.
    pub fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        if let (Server::Bucket(_), Some(head)) = (&self.server, &self.held) {
            backlog.bytes += head.size();
            backlog.packets += 1;
        }
        backlog
    }

    /// What arrives at FAR and at NEAR as the `n`th from now, counted from 0, as far as it has left the queue. For drivers that
    /// prepare what is to come.
    pub fn coming(&self, n: usize) -> (Option<&P>, Option<&P>) {
        (self.there.coming(n), self.back.coming(n))
    }

    /// Packets anywhere between the two ports.
    pub fn in_transit(&self) -> u64 {
        self.queue.backlog().packets + u64::from(self.held.is_some()) + (self.there.len() + self.back.len()) as u64
    }

    /// Runs queue and link up to `now`.
    #[inline]
    fn serve<O: Out<P>>(&mut self, now: Time, out: &mut O) {
        if self.queue_due.min(self.server_due) <= now {
            self.serve_due(now, out);
        }
    }
    fn serve_due<O: Out<P>>(&mut self, now: Time, out: &mut O) {
        loop {
            let at = self.queue_due.min(self.server_due);
            if at > now || at == Time::MAX {
                return;
            }
            if self.queue_due <= at {
                self.queue.on_wakeup(at, out);
                if self.server_due == Time::MAX {
                    self.start(at, out);
                }
                // A discipline that asks again for the instant it was just given would stop the clock.
                self.rearm(at + Span::ns(1));
            } else {
                if let Server::Serial(_) = self.server {
                    if let Some(packet) = self.held.take() {
                        self.depart(at, packet, out);
                    }
                }
                self.start(at, out);
                self.rearm(at);
            }
        }
    }

    /// Notes when the discipline wants to be woken, not before `earliest`.
    fn rearm(&mut self, earliest: Time) {
        self.queue_due = self.queue.next_wakeup().map_or(Time::MAX, |at| at.max(earliest));
    }

    /// The server is free: the next packet gets it.
    fn start<O: Out<P>>(&mut self, now: Time, out: &mut O) {
        self.server_due = Time::MAX;
        if let Server::Serial(wire) = &mut self.server {
            if let Some(packet) = self.queue.dequeue(now, out) {
                self.server_due = wire.serve(now, packet.size());
                self.held = Some(packet);
            }
            return;
        }
        while let Server::Bucket(bucket) = &mut self.server {
            let peeked = if self.held.is_none() { self.queue.peek() } else { None };
            let size = match peeked {
                Some(size) => size,
                None => {
                    if self.held.is_none() {
                        self.held = self.queue.dequeue(now, out);
                    }
                    match &self.held {
                        Some(head) => head.size(),
                        None => return,
                    }
                }
            };
            if let Err(later) = bucket.take(now, size) {
                self.server_due = later;
                return;
            }
            let head = if peeked.is_some() {
                self.queue.dequeue(now, out)
            } else {
                self.held.take()
            };
            match head {
                Some(packet) => self.depart(now, packet, out),
                None => return,
            }
        }
    }

    fn depart<O: Out<P>>(&mut self, now: Time, packet: P, out: &mut O) {
        out.departed(now, &packet);
        self.there.push(now, packet);
    }
}

impl<P: Packet> Network<P> for Path<P> {
    /// Nothing arrives within a push, not even over no distance: ask `next_wakeup` again.
    fn push<O: Out<P>>(&mut self, now: Time, port: Port, mut packet: P, out: &mut O) {
        if port == FAR {
            return self.back.push(now, packet);
        }
        debug_assert_eq!(port, NEAR);
        self.serve(now, out);
        if self.loss.is_lost(packet.joined()) {
            return out.dropped(now, packet, Why::Loss);
        }
        if let Server::Bucket(bucket) = &self.server {
            if bucket.never_passes(packet.size()) {
                return out.dropped(now, packet, Why::Overflow);
            }
        }
        packet.set_enqueued_at(now);
        self.queue.enqueue(now, packet, out);
        if self.server_due == Time::MAX {
            self.start(now, out);
        }
        self.rearm(now);
    }

    fn next_wakeup(&self) -> Option<Time> {
        // What leaves the queue now is nobody's news before it arrives, and then something ahead of it has arrived first.
        let there = if self.there.is_empty() {
            self.server_due
        } else {
            self.there.next()
        };
        let next = there.min(self.queue_due).min(self.back.next());
        (next != Time::MAX).then_some(next)
    }

    fn poll<O: Out<P>>(&mut self, now: Time, out: &mut O) {
        self.serve(now, out);
        while let Some(packet) = self.there.pop(now) {
            out.arrived(now, FAR, packet);
        }
        while let Some(packet) = self.back.pop(now) {
            out.arrived(now, NEAR, packet);
        }
    }
}
