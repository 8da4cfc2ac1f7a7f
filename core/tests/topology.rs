//! Networks of links: what must hold for any routes and any arrivals.

use crate::frame::Frame;
use narrows_core::net::loss;
use narrows_core::net::topology::Topology;
use narrows_core::net::{FAR, NEAR, Network, NetworkObserver, Port};
use narrows_core::param::Value;
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{DropReason, Limit, QueueDiscipline};
use narrows_core::scenario::{
    Choice, HopSpec, LinkPlace, Links, PathSpec, Route, RouteChange, Step, SwitchSpec, Varying,
};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::sync::Arc;

/// What a packet carries: its number, and the flow that sent it.
#[derive(Copy, Clone, Debug)]
struct Sent {
    number: u64,
    owner: u32,
}

#[derive(Default)]
struct Log {
    arrived: Vec<(Time, Port, Frame<Sent>)>,
    dropped: Vec<u64>,
    /// The flow of the connection that now has the number of all earlier packets.
    later: Option<u32>,
}

impl NetworkObserver<Frame<Sent>> for Log {
    fn owner(&self, packet: &Frame<Sent>) -> u32 {
        self.later.unwrap_or(packet.content.owner)
    }
    fn is_late(&self, _packet: &Frame<Sent>) -> bool {
        self.later.is_some()
    }
    fn arrived(&mut self, now: Time, port: Port, packet: Frame<Sent>) {
        self.arrived.push((now, port, packet));
    }
    fn dropped(&mut self, _now: Time, _hop: u8, packet: Frame<Sent>, _reason: DropReason) {
        self.dropped.push(packet.content.number);
    }
}

const LINKS: usize = 6;

/// A permutation of the links, cut into a route, a route back and the rest.
fn route() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let links: Vec<u8> = (0..LINKS as u8).collect();
    (Just(links).prop_shuffle(), 1..LINKS, 0..3usize).prop_map(|(links, cut, back)| {
        let forward = links[..cut].to_vec();
        let back = links[cut..].iter().take(back).copied().collect();
        (forward, back)
    })
}

/// Up to five flows, whose routes change up to three times, 20 ms apart.
fn routes() -> impl Strategy<Value = Vec<Route>> {
    let later = proptest::collection::vec(route(), 0..4);
    let one = (route(), later).prop_map(|((forward, back), later)| {
        let (mut ahead, mut behind) = (forward.clone(), back.clone());
        let mut changes: Vec<RouteChange> = Vec::new();
        for mut other in later {
            // A link carries one direction.
            other.0.retain(|link| !behind.contains(link));
            other.1.retain(|link| !ahead.contains(link));
            if other.0.is_empty() || other.1.is_empty() != back.is_empty() {
                continue;
            }
            ahead.extend(&other.0);
            behind.extend(&other.1);
            changes.push(RouteChange {
                at: Span::ms(20 * (changes.len() as u64 + 1)),
                forward: other.0,
                back: other.1,
            });
        }
        Route {
            forward,
            back,
            changes,
        }
    });
    proptest::collection::vec(one, 1..6)
}

/// For a link, the time of a step, and its delay and loss from then on.
type Later = Option<(u64, u64, f64)>;

fn later() -> impl Strategy<Value = Vec<Later>> {
    let step = (0u64..50_000, 0u64..3000, 0.0..0.5f64);
    proptest::collection::vec(proptest::option::of(step), LINKS)
}

fn varying((at, delay, loss): (u64, u64, f64)) -> Box<Varying> {
    let loss = [("probability", Value::Number(loss))];
    let step = Step {
        at: Span::us(at),
        rate: None,
        rtt: None,
        delay: Some(Span::us(delay)),
        ordered: true,
        loss: Some(Choice::new("independent", loss::KINDS[0].params, &loss)),
    };
    Box::new(Varying {
        steps: vec![step],
        ..Varying::default()
    })
}

fn network(
    rates: &[u64],
    limit: u64,
    routes: &[Route],
    shared: bool,
    later: &[Later],
) -> Topology<Frame<Sent>> {
    let fifo = || Choice::new("fifo", &[], &[]);
    let hop = |(i, rate): (u64, &u64)| HopSpec {
        delay_forward: Span::us(i * 300),
        varying: later[i as usize].map(varying),
        ..HopSpec::new(Rate::mbit(*rate), Span::ms(4), fifo())
    };
    let place = |i: usize| LinkPlace {
        name: format!("l{i}"),
        from: None,
        to: None,
        switch: (shared && i < 3).then_some(0),
    };
    let spec = PathSpec {
        hops: (0..).zip(rates).map(hop).collect(),
        links: Some(Box::new(Links {
            links: (0..rates.len()).map(place).collect(),
            switches: vec![SwitchSpec {
                name: "s".into(),
                buffer: Bytes::new(20_000),
                alpha: 1.0,
            }],
        })),
        ..PathSpec::from(HopSpec::new(Rate::mbit(1), Span::ms(1), fifo()))
    };
    let queue =
        |_| Box::new(Fifo::new(Limit::Packets(limit))) as Box<dyn QueueDiscipline<Frame<Sent>>>;
    let queues = (0..rates.len()).map(queue).collect();
    let routes = routes.iter().cloned().map(Arc::new);
    Topology::new(&spec, queues, routes, 1, Time::ZERO)
}

/// A packet of a closed connection, whose number a flow with another route has got, is dropped and
/// counted behind the link that this route does not contain.
#[test]
fn late_packets_are_dropped_where_their_route_ends() {
    let route = |forward: &[u8]| Route {
        forward: forward.to_vec(),
        back: vec![5],
        changes: Vec::new(),
    };
    let routes = [route(&[0, 1]), route(&[2])];
    let mut network = network(&[1; LINKS], 10, &routes, false, &[const { None }; LINKS]);
    let mut log = Log::default();
    for number in 0..2 {
        let sent = Sent { number, owner: 0 };
        network.push(Time::ZERO, NEAR, Frame::new(1000, sent), &mut log);
    }
    log.later = Some(1);
    while let Some(at) = network.next_wakeup() {
        network.poll(at, &mut log);
    }
    assert_eq!(log.dropped, [0, 1]);
    assert!(log.arrived.is_empty());
    assert_eq!(network.in_transit(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every packet arrives once at the end of its route or is dropped once. Without changes of
    /// routes, packets of one flow and direction keep their order.
    #[test]
    fn packets_are_conserved(
        rates in proptest::collection::vec(1u64..20, LINKS),
        limit in 1u64..20,
        routes in routes(),
        shared in any::<bool>(),
        later in later(),
        arrivals in proptest::collection::vec(
            (0u64..500_000, any::<prop::sample::Index>(), any::<bool>(), 60u64..1514), 1..300),
    ) {
        let mut network = network(&rates, limit, &routes, shared, &later);
        let mut log = Log::default();
        let (mut now, mut sent) = (Time::ZERO, 0);
        for (gap, owner, back, size) in &arrivals {
            let next = now + Span::ns(*gap);
            while let Some(at) = network.next_wakeup().filter(|at| *at <= next) {
                network.poll(at, &mut log);
            }
            now = next;
            let owner = owner.index(routes.len()) as u32;
            let frame = Frame::new(*size, Sent { number: sent, owner });
            network.push(now, if *back { FAR } else { NEAR }, frame, &mut log);
            sent += 1;
            let gone = (log.arrived.len() + log.dropped.len()) as u64;
            prop_assert_eq!(gone + network.in_transit(), sent);
        }
        while let Some(at) = network.next_wakeup() {
            network.poll(at, &mut log);
        }
        prop_assert_eq!(network.in_transit(), 0);
        let mut ends: Vec<u64> = log.arrived.iter().map(|(_, _, f)| f.content.number).collect();
        ends.extend(&log.dropped);
        ends.sort_unstable();
        prop_assert_eq!(ends, (0..sent).collect::<Vec<u64>>());
        for (_, port, frame) in &log.arrived {
            let back = arrivals[frame.content.number as usize].2;
            prop_assert_eq!(*port, if back { NEAR } else { FAR });
        }
        for (owner, route) in (0..).zip(&routes) {
            for port in [NEAR, FAR] {
                let sent = log.arrived.iter().map(|(_, to, f)| (*to, f.content));
                let of = sent.filter(|(to, sent)| sent.owner == owner && *to == port);
                let numbers: Vec<u64> = of.map(|(_, sent)| sent.number).collect();
                prop_assert!(numbers.is_sorted() || !route.changes.is_empty());
            }
        }
    }
}
