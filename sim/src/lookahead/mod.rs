//! Conservative parallel discrete-event lookahead: the two ends of the path run window by window
//! instead of event by event.
//!
//! The lookahead of an end is the propagation delay to the other end. An event at one end has no
//! effect at the other end before this time has passed. Three parts are therefore independent of
//! each other within a window, like logical processes in a conservative parallel simulation with
//! synchronous windows. `t` is the begin of a window of the senders, `F` the delay in the forward
//! direction and `R` that in the reverse direction:
//!
//! ```text
//!   path: packets sent before t ──▶ receivers: up to t + F ──▶ senders: t to t + F + R ──▶ next
//! ```
//!
//! The receivers are thus ahead of the senders, and a window has the length of the base RTT. With
//! windows of the same time at both ends, it would have the length of the shorter delay.
//!
//! The flows at one end interact only on the path. So each end handles all events of one flow
//! ([`inbox`]) before those of the next one. The packets that they send are sorted by time before
//! they enter the path ([`outbox`]).
//!
//! The parts run one after the other, on one thread. This is faster than a run event by event, for
//! three reasons. The code of one part fits into the innermost instruction cache. The state of a
//! flow is loaded only once per window. More of the next packets are known for prefetching.
//!
//! Results are equal to those of a run event by event. Each part receives its events in the same
//! order, and events of different parts at one instant do not depend on each other. An event that
//! concerns several flows, or that samples them, is handled at its own time; the senders first run
//! up to that time ([`event_loop`](crate::world)).
//!
//! **Conditions.** All data travels in the forward direction. The path has no queue in the reverse
//! direction, and a constant delay after the last hop. No receiver has an access link. There are no
//! applications, no transports and no interface. There is no capture, since that records the order
//! of all events.
//!
//! Sources:
//!
//! - lookahead: Chandy and Misra, *Distributed Simulation*, IEEE TSE 1979;
//! - windows: Nicol, *The Cost of Conservative Synchronization in Parallel Discrete Event
//!   Simulations*, JACM 1993.

mod half;
mod inbox;
mod outbox;

use crate::datapath::{Datapath, ReceiverEnd, SenderEnd};
use crate::flow::{RECEIVER, SENDER, TIMERS_PER_FLOW};
use crate::packet::{Acks, Kind, Packet};
use crate::prefetch::{load, prefetch};
pub(crate) use half::{Half, Window, end_window, send_both};
pub(crate) use inbox::Arrivals;
use inbox::Inbox;
use narrows_core::engine::Network;
use narrows_core::net::lookahead::Lookahead as _;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::prefetch::Prefetch as _;
use narrows_core::units::{Span, Time};
pub(crate) use outbox::Outbox;

/// Distance between the present element and the prefetched one, in elements.
const AHEAD: usize = 8;
/// Longest window. In a longer one, a flow would have more packets, but the memory for all packets
/// of the window would grow.
const LONGEST: Span = Span::ms(25);
/// Shortest window; a shorter one would save nothing.
const SHORTEST: Span = Span::us(50);

/// Both ends of the path.
pub(crate) struct Lookahead {
    inbox: Inbox,
    /// Length of a window of the senders.
    span: Span,
    /// Time by which the receivers are ahead of the begin of such a window.
    ahead: Span,
    /// The senders have handled all events before this time.
    until: Time,
    /// The receivers have handled all events before this time.
    received: Time,
}

impl Lookahead {
    /// Lookahead for this network and these flows; `None` if the conditions are not met. The caller
    /// has checked that there are no applications and transports.
    pub fn new(datapath: &mut Datapath) -> Option<Lookahead> {
        let forward = datapath
            .flows
            .iter()
            .all(|f| f.port == NEAR && [f.access_forward, f.access_reverse] == [None.into(); 2]);
        if !forward || !datapath.devices.list.is_empty() || datapath.observer.recorder.is_some() {
            return None;
        }
        let Network::Wired(path) = &datapath.network.network else {
            return None;
        };
        let [forward, reverse] = path.lookahead()?;
        if forward.min(reverse) < SHORTEST {
            return None;
        }
        datapath.network.outbox = Some(Box::default());
        Some(Lookahead {
            inbox: Inbox::new(datapath.flows.len()),
            span: (forward + reverse).min(LONGEST),
            ahead: forward,
            until: Time::ZERO,
            received: Time::ZERO,
        })
    }

    /// Sets the timer of a sender, or clears it.
    pub fn set_sender(&mut self, id: u32, due: Option<Time>) {
        self.inbox.set(NEAR, id, due);
    }

    /// Clears the timers of a flow.
    pub fn close(&mut self, id: u32) {
        self.inbox.set(NEAR, id, None);
        self.inbox.set(FAR, id, None);
    }

    /// Begin of the next window, given the time of the next sample; `None` without lookahead. It is
    /// `last` or earlier until the receivers have handled all events up to `last`.
    pub fn next_window(&self, datapath: &Datapath, sample: Time, last: Time) -> Option<Time> {
        datapath.network.outbox.as_ref()?;
        let next = self.next_event(datapath).min(sample.max(self.until));
        let behind = self.received <= last;
        Some(if behind { next.min(last) } else { next })
    }

    /// A time before which nothing happens at both ends and on the path.
    pub fn next_event(&self, datapath: &Datapath) -> Time {
        let network = &datapath.network;
        let (Network::Wired(path), Some(sent)) = (&network.network, &network.outbox) else {
            return Time::MAX;
        };
        if !sent.is_empty() {
            return self.until;
        }
        let ends = self.inbox.next().min(path.arrival(NEAR));
        let all = ends.min(path.due()).min(datapath.timers.next());
        self.until.max(all)
    }

    /// Begins a window: runs the path up to `begin`, then all receivers. Returns the end of the
    /// window, at most `limit`.
    pub fn run_receivers(&mut self, datapath: &mut Datapath, begin: Time, limit: Time) -> Time {
        self.until = (begin + self.span).min(limit);
        run_path(datapath, begin);
        outbox(datapath, |outbox| outbox.begin(self.received));
        self.received = (begin + self.ahead).min(limit);
        with_arrivals::<FAR>(datapath, |datapath, arrivals| {
            run_end::<FAR>(
                &mut self.inbox,
                datapath,
                arrivals,
                self.received,
                self.received,
            )
        });
        send::<FAR>(datapath);
        outbox(datapath, |outbox| outbox.begin(begin));
        self.until
    }

    /// Runs the senders: arrivals before one time and timers before another one.
    pub fn run_senders(&mut self, datapath: &mut Datapath, arrivals: Time, timers: Time) {
        with_arrivals::<NEAR>(datapath, |datapath, waiting| {
            run_end::<NEAR>(&mut self.inbox, datapath, waiting, arrivals, timers)
        });
    }
}

/// Passes all packets that senders have sent to the path, and handles the path's events up to
/// `now`.
pub(crate) fn run_path(datapath: &mut Datapath, now: Time) {
    send::<NEAR>(datapath);
    if let Some((path, _)) = datapath.network.with_outbox() {
        path.serve(now, &mut datapath.observer);
    }
}

/// Calls `act` with the outbox.
#[inline]
pub(crate) fn outbox(datapath: &mut Datapath, act: impl FnOnce(&mut Outbox)) {
    if let Some(outbox) = &mut datapath.network.outbox {
        act(outbox);
    }
}

/// Passes the packets in the outbox to the path at `PORT`.
#[inline]
fn send<const PORT: Port>(datapath: &mut Datapath) {
    if let Some((path, outbox)) = datapath.network.with_outbox() {
        outbox.drain(|at, burst| {
            path.push_burst(at, PORT, burst.iter().copied(), &mut datapath.observer);
        });
    }
}

/// Takes the packets on their way to one end. `act` handles the first of them, and returns their
/// number.
fn with_arrivals<const PORT: Port>(
    datapath: &mut Datapath,
    act: impl FnOnce(&mut Datapath, &Arrivals) -> usize,
) {
    let mut arrivals = take_arrivals::<PORT>(datapath);
    let n = act(datapath, &arrivals);
    arrivals.drain(..n);
    put_back::<PORT>(datapath, arrivals);
}

fn take_arrivals<const PORT: Port>(datapath: &mut Datapath) -> Arrivals {
    let path = datapath.network.with_outbox();
    let arrivals = path.and_then(|(path, _)| path.arrivals(PORT));
    arrivals.map(std::mem::take).unwrap_or_default()
}

fn put_back<const PORT: Port>(datapath: &mut Datapath, arrivals: Arrivals) {
    let path = datapath.network.with_outbox();
    if let Some(place) = path.and_then(|(path, _)| path.arrivals(PORT)) {
        *place = arrivals;
    }
}

/// Handles the arrivals at one end before `before`, and its timers before `timers`, flow by flow.
/// Returns the number of these arrivals.
fn run_end<const PORT: Port>(
    inbox: &mut Inbox,
    datapath: &mut Datapath,
    arrivals: &Arrivals,
    before: Time,
    timers: Time,
) -> usize {
    let numbered = datapath.flows.divided() && !(PORT == FAR && datapath.flows.begin_with_first());
    sort_by_flow(inbox, datapath, arrivals, before);
    inbox.wake::<PORT>(timers);
    let mut n = 0;
    while let Some(id) = inbox.busy(n) {
        n += 1;
        prefetch_flows::<PORT>(datapath, inbox, arrivals, n);
        let (due, events) = if PORT == FAR {
            let end = datapath.receiver(id);
            run_flow::<PORT, _>(end, inbox, id, arrivals, timers, numbered)
        } else {
            let end = datapath.sender(id);
            run_flow::<PORT, _>(end, inbox, id, arrivals, timers, numbered)
        };
        datapath.events += events;
        inbox.done::<PORT>(id, due);
    }
    let n = inbox.arrived();
    inbox.clear();
    n
}

/// Handles the events of one end of flow `id` in a window. Returns the time of its next timer, and
/// the number of events.
#[inline(always)]
fn run_flow<const PORT: Port, E: End>(
    mut end: E,
    inbox: &Inbox,
    id: u32,
    arrivals: &Arrivals,
    timers: Time,
    numbered: bool,
) -> (Time, u64) {
    let (mut agenda, mut due) = inbox.agenda::<PORT>(id);
    let (mut place, mut run) = inbox.take_run(&mut agenda, arrivals);
    let mut events = 0;
    loop {
        match run {
            [(now, packet), rest @ ..] if *now <= due => {
                let of_packet = if numbered { packet.place() } else { place };
                let after = || arrivals.get(agenda.first as usize);
                if let Some(next) = rest.first().or_else(after) {
                    prefetch(next);
                    end.prefetch(&next.1);
                }
                if let Some(outbox) = end.outbox() {
                    outbox.caused_by_arrival(of_packet);
                }
                // After the end of the run, a receiver may have an overdue timer.
                due = end.arrived(*now, packet).max(*now);
                (place, run) = (place + 1, rest);
                if run.is_empty() {
                    (place, run) = inbox.take_run(&mut agenda, arrivals);
                }
            }
            _ if due < timers => {
                if let Some(outbox) = end.outbox() {
                    outbox.caused_by_timer(id * TIMERS_PER_FLOW + E::TIMER);
                }
                due = end.woken(due);
            }
            _ => return (due, events),
        }
        events += 1;
    }
}

/// One end of a flow.
trait End {
    /// The timer of this end, among those of a flow.
    const TIMER: u32;
    /// The packets that both ends of the flow send.
    fn outbox(&mut self) -> Option<&mut Outbox>;
    /// Prefetches the content of a packet that arrives next.
    fn prefetch(&self, packet: &Packet);
    /// Handles the arrival of a packet. Returns the time of the timer; [`Time::MAX`] for none.
    fn arrived(&mut self, now: Time, packet: &Packet) -> Time;
    /// Handles the timer. Returns its next time; [`Time::MAX`] for none.
    fn woken(&mut self, now: Time) -> Time;
}

impl End for ReceiverEnd<'_> {
    const TIMER: u32 = RECEIVER;
    #[inline(always)]
    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.network().outbox.as_deref_mut()
    }
    #[inline(always)]
    fn prefetch(&self, _packet: &Packet) {}
    #[inline(always)]
    fn arrived(&mut self, now: Time, packet: &Packet) -> Time {
        self.received(now, packet).or_max()
    }
    fn woken(&mut self, now: Time) -> Time {
        ReceiverEnd::woken(self, now).unwrap_or(Time::MAX)
    }
}

impl End for SenderEnd<'_> {
    const TIMER: u32 = SENDER;
    #[inline(always)]
    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.network().outbox.as_deref_mut()
    }
    #[inline(always)]
    fn prefetch(&self, packet: &Packet) {
        prefetch_ack(&self.packets().acks, packet);
    }
    #[inline(always)]
    fn arrived(&mut self, now: Time, packet: &Packet) -> Time {
        self.acknowledged(now, packet).unwrap_or(Time::MAX)
    }
    fn woken(&mut self, now: Time) -> Time {
        SenderEnd::woken(self, now).unwrap_or(Time::MAX)
    }
}

/// Prefetches the content of an ACK, unless the packet contains it.
#[inline]
fn prefetch_ack(acks: &Acks, packet: &Packet) {
    if let Some(ack) = acks.look(packet) {
        prefetch(ack);
    }
}

/// Sorts the arrivals before `end` by flow. Pings are answered, and answers are recorded.
fn sort_by_flow(inbox: &mut Inbox, datapath: &mut Datapath, arrivals: &Arrivals, end: Time) {
    let n = arrivals.partition_point(|(at, _)| *at < end);
    inbox.begin(n);
    let many = datapath.flows.len() > 1;
    let (front, back) = arrivals.as_slices();
    for (half, offset) in [(front, 0), (back, front.len())] {
        let mut rest = &half[..n.saturating_sub(offset).min(half.len())];
        let mut place = offset;
        while let [(now, packet), ..] = rest {
            let run = if packet.is_of_endpoint() {
                // Neighbours of one flow, such as a burst, are sorted together.
                let id = packet.flow();
                let same = |(_, p): &&(Time, Packet)| p.flow() == id && p.is_of_endpoint();
                let run = rest.iter().take_while(same).count();
                if many {
                    if let Some((_, ahead)) = arrivals.get(place + run - 1 + AHEAD) {
                        inbox.prefetch_agenda_of(ahead);
                    }
                }
                if datapath.flows.hold(id as usize) {
                    inbox.arrive(id, place as u32, (place + run - 1) as u32);
                }
                run
            } else if !datapath.flows.begin_with_first() {
                1
            } else {
                handle_other(datapath, *now, packet, place as u32);
                1
            };
            rest = &rest[run..];
            place += run;
        }
    }
}

/// Handles the arrival, at this place, of a packet that no endpoint handles.
#[cold]
fn handle_other(datapath: &mut Datapath, now: Time, packet: &Packet, place: u32) {
    datapath.events += 1;
    if packet.damaged() {
        datapath.observer.packets.forget(packet);
    } else if packet.kind() == Kind::Ping {
        outbox(datapath, |outbox| {
            outbox.caused_by_arrival(place);
            outbox.push(now, packet.pong());
        });
    } else {
        datapath.on_pong(now, packet);
    }
}

/// Prefetches the flows that are handled next, beginning with the `n`th flow with events.
#[inline]
fn prefetch_flows<const PORT: Port>(
    datapath: &Datapath,
    inbox: &Inbox,
    arrivals: &Arrivals,
    n: usize,
) {
    let flow = |n| inbox.busy(n).map(|id| &datapath.flows[id as usize]);
    inbox.prefetch_agenda::<PORT>(n + 4);
    inbox.prefetch_arrival(n + 3, arrivals);
    if PORT == FAR {
        if let Some(next) = flow(n) {
            next.receiver.prefetch(None, load);
        }
        if let Some(next_but_one) = flow(n + 1) {
            prefetch(&next_but_one.receiver);
        }
        return;
    }
    let acks = &datapath.observer.packets.acks;
    if let Some((_, packet)) = inbox.first_of(n + 1, arrivals) {
        prefetch_ack(acks, packet);
    }
    if let Some(next) = flow(n) {
        let ack = inbox.first_of(n, arrivals);
        next.sender
            .prefetch(ack.and_then(|(_, packet)| acks.look(packet)), load);
    }
    if let Some(next_but_one) = flow(n + 1) {
        prefetch(&next_but_one.sender);
    }
}
