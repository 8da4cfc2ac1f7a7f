//! The two ends of a path in turns.
//!
//! What is done at one end is seen at the other no sooner than the distance between them allows. So within a span of time
//! that is no longer than that, each of them can be run by itself, and the path between them, too:
//!
//! ```text
//!   senders, to t ──▶ the path: all that they sent, in order ──▶ receivers, to t + span ──▶ senders, to t + span ──▶ …
//! ```
//!
//! Nothing comes out otherwise than event by event: each part sees what reaches it in the same order, and of what happens to
//! different parts at one instant neither sees the other. It is only faster: the code of one part fits the nearest cache of
//! instructions, that of all three does not; and what comes next is known farther ahead.
//!
//! It is done where all of that is so: data goes down a path without a queue on the way back, behind whose last hop all packets
//! travel for the same time, to receivers at its very end; without workloads, an interface or a capture, whose rows are in
//! the order of all events.

use crate::medium::Medium;
use crate::packet::Kind;
use crate::prefetch::prefetch;
use crate::timers::Timers;
use crate::world::{World, MANY_FLOWS};
use narrows_core::net::{Network, FAR, NEAR};
use narrows_core::units::{Span, Time};

/// A turn is no longer than this: what is under way and what waits to be sent must find room in the next cache.
const LONGEST: Span = Span::ms(1);
/// Shorter ones would save nothing.
const SHORTEST: Span = Span::us(50);

/// Whose turn it is.
pub(crate) struct Turns {
    /// A timer of each receiver.
    pub timers: Timers,
    span: Span,
    /// The far end has done everything before this.
    until: Time,
    /// It has something to do again, unless more is sent.
    next: Time,
}

impl Turns {
    /// When the path and the far end are to be run.
    pub fn next(&self, medium: &Medium) -> Time {
        match medium {
            Medium::Path(_, Some(sent)) if !sent.is_empty() => self.until,
            _ => self.next,
        }
    }
}

impl World {
    /// From now on in turns, where that can be.
    pub fn take_turns(&mut self) {
        let (flows, watch) = (&self.flows, &self.watch);
        let down = flows
            .iter()
            .all(|f| f.port == NEAR && f.there.is_none() && f.back.is_none());
        if !down || !self.works.is_empty() || self.device.is_some() || watch.record.is_some() {
            return;
        }
        let Medium::Path(path, sent) = &mut self.path else {
            return;
        };
        let Some(distance) = path.distance().filter(|distance| *distance >= SHORTEST) else {
            return;
        };
        *sent = Some(Vec::new());
        self.turns = Some(Box::new(Turns {
            timers: Timers::new(flows.len()),
            span: distance.min(LONGEST),
            until: Time::ZERO,
            next: Time::ZERO,
        }));
    }

    /// The path is told of all that was sent, and does what is due.
    pub fn run_path(&mut self, now: Time) {
        let (Medium::Path(path, Some(sent)), Some(turns)) = (&mut self.path, &mut self.turns) else {
            return;
        };
        for (at, packet) in sent.drain(..) {
            path.push(at, NEAR, packet, &mut self.watch);
        }
        path.serve(now, &mut self.watch);
        turns.next = turns.until;
    }

    /// The path, and then the far end up to a turn from `now`, not beyond `until`.
    pub fn run_far_end(&mut self, now: Time, until: Time) {
        self.run_path(now);
        let Some(turns) = &mut self.turns else { return };
        let end = (now + turns.span).min(until + Span::ns(1));
        loop {
            let (Some(turns), Medium::Path(path, _)) = (&mut self.turns, &mut self.path) else {
                return;
            };
            let (arrival, timer) = (path.arrival(FAR), turns.timers.next());
            let at = arrival.min(timer);
            if at >= end {
                turns.until = end;
                turns.next = end.max(timer.min(path.due()));
                return;
            }
            self.events += 1;
            if arrival == at {
                let Some(packet) = path.take(at, FAR) else { return };
                self.look_ahead_of_receivers();
                match packet.kind() {
                    _ if packet.damaged() => self.watch.forget(&packet),
                    Kind::Data => self.receive(at, &packet),
                    _ => self.path.push(at, FAR, packet.pong(), &mut self.watch),
                }
            } else if let Some(id) = turns.timers.pop(at) {
                self.fire_receiver(at, id);
            }
        }
    }

    fn look_ahead_of_receivers(&self) {
        if self.flows.len() < MANY_FLOWS {
            return;
        }
        if let (Some(packet), Some(turns)) = (self.path.coming(1).0, &self.turns) {
            if packet.kind() == Kind::Data {
                prefetch(&self.flows[packet.flow() as usize].receiver);
                prefetch(turns.timers.place(packet.flow()));
            }
        }
    }
}
