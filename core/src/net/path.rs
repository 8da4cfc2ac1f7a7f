//! The path between two hosts: hops in the forward direction, and in reverse either one hop or
//! propagation only.
//!
//! ```text
//!   NEAR ──▶ hop ──▶ propagation ──▶ … ──▶ hop ──▶ propagation ──▶ FAR     download data, pings
//!   NEAR ◀────────── propagation ◀──────────── reverse hop ◀────── FAR     ACKs, upload data
//! ```
//!
//! Without a reverse hop, packets are neither lost nor queued on the reverse path. For the elements
//! of a hop see [`hop`](super::hop).
//!
//! **Order of events at one instant**: each hop handles its own events and then passes packets to
//! the next hop in the direction of travel. The forward direction precedes the reverse one. After
//! both directions come the arrivals at FAR, then the arrivals at NEAR. Packets of one step of this
//! order keep their order of entry.
//!
//! If `poll` is called late, events are handled with the times at which they were due, so only
//! arrivals are late. While an earlier packet is still behind the last hop, the path requests no
//! wake-up for a departure: the earlier packet arrives first. A caller that needs the state of the
//! queues at `now` polls the path first.

use super::closed_form::ClosedForm;
use super::delay::{ConstantDelay, DelayLine};
use super::delay_schedule::Delays;
use super::hop::Hop;
use super::jitter::Jitter;
use super::lookahead::Lookahead;
use super::spec::{HopSpec, PathSpec};
use super::{FAR, NEAR, Network, NetworkObserver, Port};
use crate::packet::Packet;
use crate::queue::{QueueContext, QueueDiscipline};
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One direction.
struct Direction<P> {
    hops: Vec<Hop<P>>,
    /// Propagation behind each hop but the last, to the next one.
    between: Vec<DelayLine<P>>,
    /// Propagation behind the last hop, to the port.
    out: DelayLine<P>,
    /// Times of the next event other than an arrival, and of the next one that must be handled even
    /// if an arrival follows. These times are cached because they are read more often than they
    /// change.
    due: Time,
    news: Time,
}

impl<P: Packet> Direction<P> {
    /// A direction without hops.
    fn distance(delays: Delays) -> Direction<P> {
        Direction {
            hops: Vec::new(),
            between: Vec::new(),
            out: DelayLine::new(delays),
            due: Time::MAX,
            news: Time::MAX,
        }
    }
    /// Hops, each with the propagation behind it.
    fn of(hops: Vec<(Hop<P>, DelayLine<P>)>) -> Direction<P> {
        let mut direction = Direction::distance(Delays::default());
        let last = hops.len().saturating_sub(1);
        for (i, (hop, line)) in hops.into_iter().enumerate() {
            direction.hops.push(hop);
            if i == last {
                direction.out = line;
            } else {
                direction.between.push(line);
            }
        }
        direction.note();
        direction
    }
    fn len(&self) -> u64 {
        let hops: u64 = self.hops.iter().map(Hop::len).sum();
        let lines: usize = self.between.iter().map(DelayLine::len).sum();
        hops + (lines + self.out.len()) as u64
    }
    /// Takes packets that enter the network at `port` at one time.
    #[inline(always)]
    fn push<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packets: impl Iterator<Item = P>,
        out: &mut O,
    ) {
        if self.hops.is_empty() {
            for packet in packets {
                out.entered(now, port, &packet);
                self.out.push(now, packet);
            }
        } else {
            self.push_to_hops(now, port, packets, out);
        }
    }
    #[inline(never)]
    fn push_to_hops<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packets: impl Iterator<Item = P>,
        out: &mut O,
    ) {
        if let Some((closed, line)) = self.closed_form() {
            closed.pass(now, port, packets, line, out);
        } else {
            for packet in packets {
                out.entered(now, port, &packet);
                self.enter(now, packet, out);
            }
        }
    }
    /// Passes a packet to the first hop in its general form.
    fn enter<O: NetworkObserver<P>>(&mut self, now: Time, packet: P, out: &mut O) {
        self.serve(now, out);
        let behind = self.between.first_mut().unwrap_or(&mut self.out);
        self.hops[0].push(now, packet, behind, out);
        self.note();
    }
    /// The closed form of the only hop, and the line behind it, if the closed form is in use.
    #[inline]
    fn closed_form(&mut self) -> Option<(&mut ClosedForm, &mut ConstantDelay<P>)> {
        match (self.hops.first_mut()?.closed_form(), &mut self.out) {
            (Some(closed), DelayLine::Constant(line)) => Some((closed, line)),
            _ => None,
        }
    }
    /// Handles everything up to `now` except arrivals.
    #[inline]
    fn serve<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        if self.due > now {
            if let Some((closed, line)) = self.closed_form() {
                closed.settle(now, line, out);
            }
            return;
        }
        match self.hops.as_mut_slice() {
            [hop] => hop.serve(now, &mut self.out, out),
            _ => self.serve_several(now, out),
        }
        self.note();
    }
    /// Updates the cached times.
    #[inline]
    fn note(&mut self) {
        (self.due, self.news) = match self.hops.as_slice() {
            [hop] if self.out.in_order() => (hop.due(), hop.wakeup()),
            hops => {
                let own = hops.iter().map(Hop::due).min().unwrap_or(Time::MAX);
                let handed = self
                    .between
                    .iter()
                    .map(DelayLine::next)
                    .min()
                    .unwrap_or(Time::MAX);
                (own.min(handed), own.min(handed))
            }
        };
    }
    /// Handles events in the order of time, because packets that leave one hop enter the next.
    fn serve_several<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        loop {
            let own = self.hops.iter().map(Hop::due).enumerate();
            let handed = self.between.iter().map(DelayLine::next).enumerate();
            let first = |(i, at): (usize, Time)| (at, i);
            let (hop_at, hop) = own.map(first).min().unwrap_or((Time::MAX, 0));
            let (line_at, line) = handed.map(first).min().unwrap_or((Time::MAX, 0));
            let at = hop_at.min(line_at);
            if at > now || at == Time::MAX {
                return;
            }
            if hop_at <= line_at {
                let behind = self.between.get_mut(hop).unwrap_or(&mut self.out);
                self.hops[hop].serve(at, behind, out);
            } else if let Some(packet) = self.between[line].pop(at) {
                let behind = self.between.get_mut(line + 1).unwrap_or(&mut self.out);
                self.hops[line + 1].push(at, packet, behind, out);
            }
        }
    }
    /// Returns the time of the next event that needs a poll.
    #[inline]
    fn wakeup(&self) -> Time {
        // A packet that leaves the last queue now is visible only when it arrives, and a packet
        // ahead of it arrives first.
        match self.out.next() {
            Time::MAX => self.due,
            next => next.min(self.news),
        }
    }
}

/// The path between two hosts: a [`Network`] with the ports [`NEAR`] and
/// [`FAR`].
pub struct Path<P> {
    forward: Direction<P>,
    reverse: Direction<P>,
}

/// Returns the names of a path's hops, by number: `path`, or `hop0`, `hop1` … if there are several,
/// and `reverse`. Links have names of their own.
pub fn hop_names(spec: &PathSpec) -> Vec<String> {
    if let Some(links) = &spec.links {
        return links.links.iter().map(|link| link.name.clone()).collect();
    }
    let mut names: Vec<String> = match spec.hops.len() {
        1 => alloc::vec!["path".into()],
        n => (0..n).map(|i| format!("hop{i}")).collect(),
    };
    if spec.reverse.is_some() {
        names.push("reverse".into());
    }
    names
}

/// Returns the hops of a path by number, each with the context of its queue discipline. `seed` is
/// that of the scenario, and `hz` is the timer frequency of its kernels.
pub fn queue_contexts(spec: &PathSpec, seed: u64, hz: u32) -> Vec<(&HopSpec, QueueContext)> {
    let hops = spec.hops.iter().chain(&spec.reverse);
    let context = |(hop, name): (_, String)| {
        let context = QueueContext {
            limit: spec.limit(hop),
            rate: hop.rate,
            hz,
            seed: Rng::named(seed, &format!("{name}/queue")).next_u64(),
        };
        (hop, context)
    };
    hops.zip(hop_names(spec)).map(context).collect()
}

/// The propagation behind a hop called `name`.
pub(super) fn behind<P>(hop: &HopSpec, delays: Delays, seed: u64, name: &str) -> DelayLine<P> {
    if hop.jitter.is_none() && hop.reorder.is_none() {
        return DelayLine::new(delays);
    }
    let rng = |part: &str| Rng::named(seed, &format!("{name}/{part}"));
    let mut line = Jitter::following(delays);
    if let Some(jitter) = &hop.jitter {
        line = line.varying(&jitter.kind, &jitter.params, rng("jitter"));
    }
    if let Some(reorder) = &hop.reorder {
        line = line.reordering(&reorder.params, rng("reorder"));
    }
    DelayLine::Jitter(Box::new(line))
}

impl<P: Packet> Path<P> {
    /// Creates an empty path. `queues` are the disciplines for its [`queue_contexts`], and `seed`
    /// is that of the scenario.
    pub fn new(spec: &PathSpec, queues: Vec<Box<dyn QueueDiscipline<P>>>, seed: u64) -> Path<P> {
        let mut queues = queues.into_iter();
        let names = hop_names(spec);
        let mut hops = Vec::new();
        for (number, (hop, queue)) in spec.hops.iter().zip(&mut queues).enumerate() {
            let line = behind(hop, hop.delays(), seed, &names[number]);
            hops.push((
                Hop::new(hop, queue, number as u8, seed, &names[number]),
                line,
            ));
        }
        let distance = spec.delays_back();
        let reverse = match (&spec.reverse, queues.next()) {
            (Some(hop), Some(queue)) => {
                let number = hops.len();
                Direction::of(alloc::vec![(
                    Hop::new(hop, queue, number as u8, seed, &names[number]),
                    behind(hop, distance, seed, &names[number])
                )])
            }
            _ => Direction::distance(distance),
        };
        Path {
            forward: Direction::of(hops),
            reverse,
        }
    }

    /// Uses the closed form of hops that have one. Call this only while the path is empty, and only
    /// if its observer needs no more about a departure than
    /// [`have_departed`](super::NetworkObserver::have_departed) reports.
    pub fn use_closed_form(&mut self) {
        for way in [&mut self.forward, &mut self.reverse] {
            if let ([hop], DelayLine::Constant(_)) = (way.hops.as_mut_slice(), &way.out) {
                hop.use_closed_form();
            }
        }
    }

    /// Returns an empty path without hops, with the propagation delay of this path's reverse
    /// direction. Returns `None` if that direction has a hop or a varying delay.
    pub fn reverse_alone(&self) -> Option<Path<P>> {
        let out = match &self.reverse.out {
            DelayLine::Constant(line) if self.reverse.hops.is_empty() => {
                DelayLine::Constant(ConstantDelay::new(line.delay()))
            }
            _ => return None,
        };
        let mut path = Path {
            forward: Direction::distance(Delays::default()),
            reverse: Direction::distance(Delays::default()),
        };
        path.reverse.out = out;
        Some(path)
    }

    /// Returns the hops by number.
    pub fn hops(&self) -> impl Iterator<Item = &Hop<P>> {
        self.forward.hops.iter().chain(&self.reverse.hops)
    }

    fn line(&self, port: Port) -> &DelayLine<P> {
        if port == FAR {
            &self.forward.out
        } else {
            &self.reverse.out
        }
    }

    /// Updates the stored wake-up times of all queue disciplines. Call this after something other
    /// than a packet has changed these times.
    pub fn rouse(&mut self, now: Time) {
        for way in [&mut self.forward, &mut self.reverse] {
            way.hops.iter_mut().for_each(|hop| hop.rouse(now));
            way.note();
        }
    }

    /// Returns the number of packets between the two ports.
    pub fn in_transit(&self) -> u64 {
        self.forward.len() + self.reverse.len()
    }
}

impl<P: Packet> Network<P> for Path<P> {
    /// Passes a packet to the path. No packet arrives during this call, even if the propagation
    /// delay is 0. Call `next_wakeup` after it.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O) {
        self.push_burst(now, port, core::iter::once(packet), out);
    }

    fn next_wakeup(&self) -> Option<Time> {
        let next = self.forward.wakeup().min(self.reverse.wakeup());
        (next != Time::MAX).then_some(next)
    }

    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        self.forward.serve(now, out);
        self.reverse.serve(now, out);
        while let Some(packet) = self.forward.out.pop(now) {
            out.arrived(now, FAR, packet);
        }
        while let Some(packet) = self.reverse.out.pop(now) {
            out.arrived(now, NEAR, packet);
        }
    }
}

impl<P: Packet> Lookahead<P> for Path<P> {
    #[inline(always)]
    fn push_burst<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packets: impl Iterator<Item = P>,
        out: &mut O,
    ) {
        if port == FAR {
            self.reverse.push(now, port, packets, out);
        } else {
            debug_assert_eq!(port, NEAR);
            self.forward.push(now, port, packets, out);
        }
    }

    /// Returns `None` unless the delay behind the last hop is constant and the reverse path has no
    /// hop.
    fn lookahead(&self) -> Option<[Span; 2]> {
        match (&self.forward.out, &self.reverse.out) {
            (DelayLine::Constant(forward), DelayLine::Constant(reverse))
                if self.reverse.hops.is_empty() =>
            {
                Some([forward.delay(), reverse.delay()])
            }
            _ => None,
        }
    }

    fn serve<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        self.forward.serve(now, out);
    }

    fn due(&self) -> Time {
        self.forward.wakeup()
    }

    #[inline]
    fn arrival(&self, port: Port) -> Time {
        self.line(port).next()
    }

    fn arrivals(&mut self, port: Port) -> Option<&mut VecDeque<(Time, P)>> {
        let line = if port == FAR {
            &mut self.forward.out
        } else {
            &mut self.reverse.out
        };
        match line {
            DelayLine::Constant(line) => Some(line.packets()),
            DelayLine::Jitter(_) => None,
        }
    }

    #[inline]
    fn upcoming(&self, port: Port, n: usize) -> Option<&P> {
        self.line(port).coming(n)
    }
}
