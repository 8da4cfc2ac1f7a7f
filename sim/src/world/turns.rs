//! The two ends of a path in turns.
//!
//! What is done at one end is seen at the other no sooner than the distance between them allows. So
//! within a span of time that is no longer than that, each of them can be run by itself, and the
//! path between them, too:
//!
//! ```text
//!   the path: all that was sent before t ──▶ receivers, from t to t + span ──▶ senders, from t to t + span ──▶ …
//! ```
//!
//! And since no sender sees another but by the path, nor a receiver, each end is run [flow by
//! flow](crate::post).
//!
//! Nothing comes out otherwise than event by event: each part sees what reaches it in the same
//! order, and of what happens to different parts at one instant neither sees the other. It is only
//! faster: the code of one part fits the nearest cache of instructions, that of all three does not;
//! a flow's state is fetched once for all its packets of a turn; and what comes next is
//! known farther ahead. Whatever concerns more than one flow, or how it is watched, is done at its
//! own instant: senders are run up to it.
//!
//! It is done where all of that is so: data goes down a path without a queue on the way back,
//! behind whose last hop all packets travel for the same time, to receivers at its very end;
//! without workloads, an interface or a capture, whose rows are in the order of all events.

use super::{RECEIVER, SENDER, TIMERS_PER_FLOW, World};
use crate::error::SimError;
use crate::packet::Kind;
use crate::post::{AHEAD, Arrivals, Inbox, Outbox};
use crate::prefetch::{load, prefetch};
use narrows_core::engine::{Network, Progress};
use narrows_core::net::lookahead::Lookahead as _;
use narrows_core::net::{FAR, NEAR, Network as _, Port};
use narrows_core::prefetch::Prefetch as _;
use narrows_core::units::{Span, Time};

/// A turn is no longer than this. The longer it is, the more of a flow's packets it has; but all
/// that comes and goes in it waits in memory meanwhile.
const LONGEST: Span = Span::ms(25);
/// Shorter ones would save nothing.
const SHORTEST: Span = Span::us(50);

/// Both ends.
pub(crate) struct Turns {
    near: Inbox,
    far: Inbox,
    span: Span,
    /// Both have done everything before this.
    until: Time,
}

impl Turns {
    fn end(&mut self, port: Port) -> &mut Inbox {
        if port == FAR {
            &mut self.far
        } else {
            &mut self.near
        }
    }
    /// Sets the timer of a sender, or takes it back.
    pub fn set_sender(&mut self, id: u32, due: Option<Time>) {
        self.near.set(id, due);
    }
    /// No timers any more.
    pub fn close(&mut self, id: u32) {
        self.near.set(id, None);
        self.far.set(id, None);
    }
}

/// One nanosecond later.
fn after(now: Time) -> Time {
    now + Span::ns(1)
}

impl World {
    /// From now on in turns, where that can be.
    pub fn take_turns(&mut self) {
        let flows = &self.flows;
        let down = flows
            .iter()
            .all(|f| f.port == NEAR && f.there.is_none() && f.back.is_none());
        if !down
            || !self.works.is_empty()
            || self.device.is_some()
            || self.observer.recorder.is_some()
        {
            return;
        }
        let Network::Wired(path) = &self.network.network else {
            return;
        };
        let Some(distance) = path.lookahead().filter(|distance| *distance >= SHORTEST) else {
            return;
        };
        self.network.outbox = Some(Box::default());
        self.turns = Some(Box::new(Turns {
            near: Inbox::new(flows.len()),
            far: Inbox::new(flows.len()),
            span: distance.min(LONGEST),
            until: Time::ZERO,
        }));
    }

    /// Everything up to and including `until`; after the end of the run, as long as pings are under
    /// way.
    pub fn run_in_turns(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        loop {
            let Some(begin) = self.next_turn() else {
                return Ok(());
            };
            if begin > until || (until > self.end && self.observer.packets.pings == 0) {
                return Ok(());
            }
            let Some(turns) = &mut self.turns else {
                return Ok(());
            };
            turns.until = (begin + turns.span).min(after(until));
            let end = turns.until;
            self.run_path(begin);
            self.outbox(|outbox| outbox.begin(begin));
            self.run_end::<FAR>(end, end);
            self.send(FAR);
            self.outbox(|outbox| outbox.begin(begin));
            loop {
                let (timer, sampler) =
                    (self.timers.next(), self.next_figures.min(self.next_samples));
                let now = timer.min(sampler);
                if now >= end {
                    break;
                }
                // Timers of one instant fire by number, samplers after them.
                let timers = if timer == now { now } else { after(now) };
                self.run_end::<NEAR>(after(now), timers);
                if timer == now {
                    if let Some(number) = self.timers.pop(now) {
                        self.outbox(|outbox| outbox.caused_by_timer(number));
                        self.fire(now, number);
                    }
                } else {
                    self.sample(now);
                    self.outbox(|outbox| outbox.begin(now));
                }
                self.events += 1;
            }
            self.run_end::<NEAR>(end, end);
            self.events += 1;
            self.report(begin, progress)?;
        }
    }

    /// When there is something to do again.
    fn next_turn(&self) -> Option<Time> {
        let (Network::Wired(path), Some(sent)) = (&self.network.network, &self.network.outbox)
        else {
            return None;
        };
        let turns = self.turns.as_ref()?;
        if !sent.is_empty() {
            return Some(turns.until);
        }
        let ends = turns
            .near
            .next()
            .min(turns.far.next())
            .min(path.arrival(NEAR));
        let all = ends.min(path.due()).min(self.timers.next());
        Some(
            turns
                .until
                .max(all.min(self.next_figures).min(self.next_samples)),
        )
    }

    #[inline]
    fn outbox(&mut self, act: impl FnOnce(&mut Outbox)) {
        if let Some(outbox) = &mut self.network.outbox {
            act(outbox);
        }
    }

    /// The path is told of all that was sent from `port`.
    fn send(&mut self, port: Port) {
        if let Some((path, sent)) = self.network.in_turns() {
            sent.drain(|at, packet| path.push(at, port, packet, &mut self.observer));
        }
    }

    /// The path is told of all that was sent, and does what is due.
    pub fn run_path(&mut self, now: Time) {
        self.send(NEAR);
        if let Some((path, _)) = self.network.in_turns() {
            path.serve(now, &mut self.observer);
        }
    }

    /// What arrives at one end before one instant, and the timers that fire before another, flow by
    /// flow.
    fn run_end<const PORT: Port>(&mut self, before: Time, timers: Time) {
        let (Some((path, _)), Some(turns)) = (self.network.in_turns(), &mut self.turns) else {
            return;
        };
        let mut arrivals = path.arrivals(PORT).map(std::mem::take).unwrap_or_default();
        let mut inbox = std::mem::take(turns.end(PORT));
        self.sort_by_flow(&mut inbox, &arrivals, before);
        inbox.wake(timers);
        let mut n = 0;
        while let Some(id) = inbox.busy(n) {
            n += 1;
            self.look_ahead_in_turn::<PORT>(&inbox, &arrivals, n);
            let (mut agenda, mut due) = inbox.agenda(id);
            loop {
                let arrival = arrivals
                    .get(agenda.first as usize)
                    .filter(|(at, _)| *at <= due);
                let next = if let Some((now, packet)) = arrival {
                    let place = agenda.first;
                    inbox.take_arrival(&mut agenda);
                    if let Some(next) = arrivals.get(agenda.first as usize) {
                        prefetch(next);
                        if PORT == NEAR {
                            prefetch(self.observer.packets.acks.look(&next.1));
                        }
                    }
                    self.outbox(|outbox| outbox.caused_by_arrival(place));
                    if PORT == FAR {
                        self.received(*now, packet)
                    } else {
                        self.acknowledged(*now, packet)
                    }
                } else if due < timers {
                    let which = if PORT == FAR { RECEIVER } else { SENDER };
                    self.outbox(|outbox| outbox.caused_by_timer(id * TIMERS_PER_FLOW + which));
                    if PORT == FAR {
                        self.wake_receiver(due, id)
                    } else {
                        self.wake_sender(due, id)
                    }
                } else {
                    break;
                };
                due = next.unwrap_or(Time::MAX);
                self.events += 1;
            }
            inbox.done(id, due);
        }
        arrivals.drain(..inbox.arrived());
        inbox.clear();
        if let (Some((path, _)), Some(turns)) = (self.network.in_turns(), &mut self.turns) {
            *turns.end(PORT) = inbox;
            if let Some(place) = path.arrivals(PORT) {
                *place = arrivals;
            }
        }
    }

    /// Sorts by flow what arrives before `end`; pings are answered, or taken for answered.
    fn sort_by_flow(&mut self, inbox: &mut Inbox, arrivals: &Arrivals, end: Time) {
        let Some(outbox) = &mut self.network.outbox else {
            return;
        };
        for (i, (now, packet)) in arrivals.iter().enumerate() {
            if *now >= end {
                return;
            }
            if let Some((_, ahead)) = arrivals.get(i + AHEAD) {
                inbox.fetch_agenda_of(ahead);
            }
            let kind = packet.kind();
            let for_flow = !packet.damaged() && matches!(kind, Kind::Data | Kind::Ack);
            let place = inbox.arrive(for_flow.then_some(packet.flow()));
            if packet.damaged() {
                self.observer.packets.forget(packet);
                self.events += 1;
            } else if kind == Kind::Ping {
                outbox.caused_by_arrival(place);
                outbox.push(*now, packet.pong());
                self.events += 1;
            } else if kind == Kind::Pong {
                self.observer.packets.pings -= 1;
                let probe = packet.flow() as usize - self.flows.len();
                self.probes[probe].meter.received(*now, packet.number());
                self.events += 1;
            }
        }
    }

    /// The flows that come next are fetched into the cache while others are served; `n` is the next
    /// one.
    #[inline]
    fn look_ahead_in_turn<const PORT: Port>(&self, inbox: &Inbox, arrivals: &Arrivals, n: usize) {
        let flow = |n| inbox.busy(n).map(|id| &self.flows[id as usize]);
        inbox.fetch_agenda(n + 4);
        inbox.fetch_arrival(n + 3, arrivals);
        if PORT == FAR {
            if let Some(next) = flow(n) {
                next.receiver.prefetch(None, load);
            }
            if let Some(next_but_one) = flow(n + 1) {
                prefetch(&next_but_one.receiver);
            }
            return;
        }
        let acks = &self.observer.packets.acks;
        if let Some((_, packet)) = inbox.first_of(n + 1, arrivals) {
            prefetch(acks.look(packet));
        }
        if let Some(next) = flow(n) {
            let first = inbox.first_of(n, arrivals);
            next.sender
                .prefetch(first.map(|(_, packet)| acks.look(packet)), load);
        }
        if let Some(next_but_one) = flow(n + 1) {
            prefetch(&next_but_one.sender);
        }
    }
}
