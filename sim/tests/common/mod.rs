//! Scenarios that are built in code, and helpers to build them.
#![allow(dead_code)] // each test crate takes what it needs

use narrows_core::net::loss;
use narrows_core::param::{Params, Value};
use narrows_core::scenario::{
    Buffer, Choice, Direction, FlowSpec, HopSpec, HostSpec, PathSpec, ProbeKind, ProbeSpec,
    Scenario,
};
use narrows_core::tcp::EcnNegotiation;
use narrows_core::units::{Rate, Span};
use narrows_sim::{Options, Packet, Run, run};

pub fn choice(kind: &str) -> Choice {
    Choice {
        kind: kind.into(),
        params: Params::default(),
    }
}

/// Random loss that drops each super-packet independently with `probability`.
pub fn loss(probability: f64) -> Option<Choice> {
    let set = [("probability", Value::Number(probability))];
    Some(Choice::new("independent", loss::KINDS[0].params, &set))
}

pub fn flow(id: &str, cc: &str) -> FlowSpec {
    FlowSpec {
        id: id.into(),
        cc: Choice {
            params: registry()
                .cc(cc)
                .map_or_else(Params::default, |kind| Params::defaults(kind.params)),
            ..choice(cc)
        },
        rtt: Span::ZERO,
        start: Span::ZERO,
        stop: None,
        restart: None,
        direction: Direction::Down,
        dscp: 0,
        host: 0,
        ip: Default::default(),
        ecn: EcnNegotiation::Off,
        size: None,
        sender: None,
        receiver: None,
        like: None,
        station: None,
        route: None,
        workload: None,
        transport: None,
        section: Default::default(),
        keys: Params::default(),
    }
}

pub fn ping(interval: Span) -> ProbeSpec {
    ProbeSpec {
        kind: ProbeKind::Ping,
        interval,
        spacing: Default::default(),
        dscp: 0,
        host: 0,
        ip: Default::default(),
        station: None,
        route: None,
        section: Default::default(),
        keys: Params::default(),
    }
}

/// A path of 10 Mbit/s and 20 ms with one BDP of drop-tail buffer, and no flows.
pub fn scenario(duration: Span) -> Scenario {
    Scenario {
        title: String::new(),
        duration,
        warmup: Span::ns(duration.as_ns() / 5),
        seed: 1,
        start_jitter: Span::ms(20),
        path: PathSpec::from(HopSpec {
            buffer: Some(Buffer::Bdp(1.0)),
            ..HopSpec::new(Rate::mbit(10), Span::ms(20), choice("fifo"))
        }),
        wifi: None,
        host: HostSpec::default(),
        hosts: Vec::new(),
        flows: Vec::new(),
        probes: Vec::new(),
        keys: Params::default(),
    }
}

pub fn registry() -> narrows_core::registry::Registry<Packet> {
    narrows_core::registry::Registry::standard()
}

pub fn play(scenario: &Scenario) -> Run {
    run(scenario, &registry(), &Options::default(), &mut |_| true).expect("a scenario that runs")
}

pub fn json(run: &Run) -> String {
    run.to_json("test", &serde_json::Value::Null, None)
}
