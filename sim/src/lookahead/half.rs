//! Lookahead on two threads: each thread runs both ends of every second flow.
//!
//! Within a window, flows are independent of each other, since they interact only on the path in
//! the forward direction. The first half of the flows keeps that path. The second half has a delay
//! line of its own for its ACKs, on which they neither wait nor get lost. Between two windows, the
//! data packets of both halves enter the path in the order of time:
//!
//! ```text
//!   thread 1: path ──▶ receivers, senders (flows 0, 2, …) ──▶ path ──▶ …
//!   thread 2:          receivers, senders (flows 1, 3, …)              …
//! ```
//!
//! Results are those of one thread. At one instant, the order of ACKs is that of the packets or
//! timers that caused them. Packets and ACKs carry their places in this order. So the order of the
//! data packets that ACKs cause is also that of a run on one thread.
//!
//! **Conditions**, in addition to those of lookahead: there are two flows or more. No packet has a
//! congestion header, because its content would be in one half and the path in the other.

use super::inbox::{Arrivals, Inbox};
use super::{Lookahead, outbox, put_back, run_end, send, take_arrivals};
use crate::datapath::Datapath;
use crate::device::Devices;
use crate::flow::TIMERS_PER_FLOW;
use crate::network::SimNetwork;
use crate::observer::Observer;
use narrows_core::engine::Network;
use narrows_core::net::access::AccessLinks;
use narrows_core::net::lookahead::Lookahead as _;
use narrows_core::net::{FAR, NEAR};
use narrows_core::units::Time;

/// The second half of the flows of a run, between two windows.
pub(crate) struct Half {
    pub datapath: Datapath,
    pub lookahead: Lookahead,
    /// Copies of the packets that arrive at its receivers in the present window. A processor core
    /// reads memory that another core has written slowly, so the second thread reads only these.
    pub arrivals: Arrivals,
    /// A time before which it has no event.
    pub next: Time,
    /// Number of events handled in the last window.
    pub events: u64,
}

/// A window of the senders.
#[derive(Copy, Clone)]
pub(crate) struct Window {
    pub begin: Time,
    pub end: Time,
    /// The receivers of both halves handle the events before this time.
    received: Time,
}

/// Whether a timer belongs to the second half of the flows.
fn is_second(timer: u32) -> bool {
    timer / TIMERS_PER_FLOW % 2 == 1
}

impl Half {
    /// Moves the second half of the flows out of `datapath`, before the run begins. `observer` is
    /// one without queues. Returns `None` if the conditions are not met.
    pub fn divide(
        datapath: &mut Datapath,
        lookahead: &mut Lookahead,
        observer: Observer,
    ) -> Option<Half> {
        let headers = |cc: &dyn narrows_core::cc::CongestionControl| cc.needs_feedback();
        let flows = &mut datapath.flows;
        if flows.len() < 2 || flows.iter().any(|flow| headers(flow.sender.cc())) {
            return None;
        }
        let Network::Wired(path) = &datapath.network.network else {
            return None;
        };
        let reverse = path.reverse_alone()?;
        let n = flows.len();
        let timers_of_flows = n as u32 * TIMERS_PER_FLOW;
        let second = |timer| timer < timers_of_flows && is_second(timer);
        let timers = datapath.timers.selected(second);
        datapath.timers = datapath.timers.selected(|timer| !second(timer));
        Some(Half {
            datapath: Datapath {
                flows: flows.divide(),
                probes: Vec::new(),
                devices: Devices::default(),
                offload: datapath.offload,
                network: SimNetwork {
                    network: Network::Wired(Box::new(reverse)),
                    outbox: Some(Box::default()),
                    stations: Vec::new(),
                },
                access: AccessLinks::default(),
                observer,
                timers,
                events: 0,
            },
            lookahead: Lookahead {
                inbox: Inbox::new(n),
                ..*lookahead
            },
            arrivals: Arrivals::new(),
            next: Time::ZERO,
            events: 0,
        })
    }

    /// Moves the flows back to those of the first half, with their timers and packets.
    pub fn join(self, datapath: &mut Datapath, lookahead: &mut Lookahead) {
        let Half {
            datapath: mut other,
            lookahead: others,
            ..
        } = self;
        send_both(datapath, &mut other);
        let mut acks = take_arrivals::<NEAR>(datapath);
        let contents = &mut datapath.observer.packets.acks;
        for (at, packet) in take_arrivals::<NEAR>(&mut other) {
            let content = other.observer.packets.acks.take(&packet);
            let stored = contents.packet(packet.flow(), content);
            acks.push_back((at, packet.with_content_of(&stored)));
        }
        acks.make_contiguous()
            .sort_by_key(|(at, packet)| (*at, packet.place()));
        put_back::<NEAR>(datapath, acks);
        datapath.flows.join(other.flows);
        datapath.timers.add(&other.timers, is_second);
        lookahead.inbox.add(&others.inbox);
        datapath.events += other.events;
    }
}

impl Lookahead {
    /// Returns the next window from `begin` on, and takes the packets that arrive. Copies those for
    /// the second half to `of_second`. The senders' window ends at `end` or before, and that of the
    /// receivers at `limit` or before.
    pub fn take_window(
        &self,
        datapath: &mut Datapath,
        of_second: &mut Arrivals,
        begin: Time,
        [end, limit]: [Time; 2],
    ) -> (Window, Arrivals) {
        let received = (begin + self.ahead).min(limit);
        let arrivals = take_arrivals::<FAR>(datapath);
        of_second.clear();
        let now = arrivals.iter().take_while(|(at, _)| *at < received);
        for ((at, packet), place) in now.zip(0..) {
            if packet.is_of_endpoint() && !datapath.flows.hold(packet.flow() as usize) {
                of_second.push_back((*at, packet.with_place(place)));
            }
        }
        let window = Window {
            begin,
            end: (begin + self.span).min(end),
            received,
        };
        (window, arrivals)
    }

    /// Runs the receivers of one half in a window. Returns the number of arrivals handled.
    pub fn run_receivers_of_half(
        &mut self,
        datapath: &mut Datapath,
        window: Window,
        arrivals: &Arrivals,
    ) -> usize {
        self.until = window.end;
        outbox(datapath, |outbox| outbox.begin(self.received));
        self.received = window.received;
        let received = self.received;
        let n = run_end::<FAR>(&mut self.inbox, datapath, arrivals, received, received);
        outbox(datapath, |outbox| outbox.number());
        send::<FAR>(datapath);
        outbox(datapath, |outbox| outbox.begin(window.begin));
        n
    }

    /// Ends the window of one half: sorts the packets that its senders have sent.
    pub fn sort(datapath: &mut Datapath) {
        outbox(datapath, |outbox| outbox.sort());
    }
}

/// Ends a window of which both halves have handled all events: removes the first `n` arrivals.
pub(crate) fn end_window(datapath: &mut Datapath, mut arrivals: Arrivals, n: usize) {
    arrivals.drain(..n);
    put_back::<FAR>(datapath, arrivals);
}

impl Window {
    /// Whether at least `n` packets arrive at the receivers in the window.
    pub fn has(self, n: usize, arrivals: &Arrivals) -> bool {
        arrivals
            .get(n - 1)
            .is_some_and(|(at, _)| *at < self.received)
    }
}

/// Passes all packets that the senders of both halves have sent to the path of the first one.
pub(crate) fn send_both(datapath: &mut Datapath, other: &mut Datapath) {
    let observer = &mut datapath.observer;
    if let (Some((path, outbox)), Some(others)) =
        (datapath.network.with_outbox(), &mut other.network.outbox)
    {
        outbox.drain_both(others, |at, burst| {
            path.push_burst(at, NEAR, burst.iter().copied(), observer);
        });
    }
}
