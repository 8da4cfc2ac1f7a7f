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
}

/// A window, and the packets that arrive at the receivers.
pub(crate) struct Window {
    pub begin: Time,
    pub end: Time,
    /// The receivers of both halves handle the events before this time.
    received: Time,
    /// The packets that arrive at the receivers of both halves, and later ones.
    arrivals: Arrivals,
    /// Copies of those for the second half. A processor core reads memory that another core has
    /// written slowly, so the second thread reads only these.
    of_second: Arrivals,
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
                near: Inbox::new(n),
                far: Inbox::new(n),
                of_second: Arrivals::new(),
                ..*lookahead
            },
        })
    }

    /// Moves the flows back to those of the first half, with their timers and packets.
    pub fn join(self, datapath: &mut Datapath, lookahead: &mut Lookahead) {
        let Half {
            datapath: mut other,
            lookahead: others,
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
        lookahead.near.add(&others.near);
        lookahead.far.add(&others.far);
        datapath.events += other.events;
    }
}

impl Lookahead {
    /// Takes the next window from `begin` on, which ends at `limit` or before, and the packets that
    /// arrive in it.
    pub fn take_window(
        &mut self,
        datapath: &mut Datapath,
        begin: Time,
        last: Time,
        limit: Time,
    ) -> Window {
        let received = (begin + self.ahead).min(limit);
        let arrivals = take_arrivals::<FAR>(datapath);
        let mut of_second = std::mem::take(&mut self.of_second);
        of_second.clear();
        let now = arrivals.iter().take_while(|(at, _)| *at < received);
        for ((at, packet), place) in now.zip(0..) {
            if packet.is_of_endpoint() && !datapath.flows.hold(packet.flow() as usize) {
                of_second.push_back((*at, packet.with_place(place)));
            }
        }
        Window {
            begin,
            end: (begin + self.span).min(last),
            received,
            arrivals,
            of_second,
        }
    }

    /// Ends a window of which both halves have handled all events: removes `n` arrivals.
    pub fn end_window(&mut self, datapath: &mut Datapath, mut window: Window, n: usize) {
        window.arrivals.drain(..n);
        self.of_second = window.of_second;
        put_back::<FAR>(datapath, window.arrivals);
    }

    /// Runs the receivers of one half in a window. Returns the number of arrivals handled.
    pub fn run_receivers_of_half(&mut self, datapath: &mut Datapath, window: &Window) -> usize {
        self.until = window.end;
        outbox(datapath, |outbox| outbox.begin(self.received));
        self.received = window.received;
        let arrivals = if datapath.flows.begin_with_first() {
            &window.arrivals
        } else {
            &window.of_second
        };
        let n = run_end::<FAR>(
            &mut self.far,
            datapath,
            arrivals,
            self.received,
            self.received,
        );
        outbox(datapath, |outbox| outbox.number());
        send(datapath, FAR);
        outbox(datapath, |outbox| outbox.begin(window.begin));
        n
    }

    /// Ends the window of one half: sorts the packets that its senders have sent.
    pub fn sort(datapath: &mut Datapath) {
        outbox(datapath, |outbox| outbox.sort());
    }
}

impl Window {
    /// Number of packets that arrive in the window, or `most` if there are more.
    pub fn arrivals(&self, most: usize) -> usize {
        let arrivals = self.arrivals.iter().take(most);
        arrivals.take_while(|(at, _)| *at < self.received).count()
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
