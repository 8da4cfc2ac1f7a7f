//! A congestion control and a queue discipline from outside of the project: written against the public interface,
//! registered, named by a scenario. Nothing in core or sim knows of them.

use narrows_core::cc::{Ack, CcKind, CongestionControl, Loss, Window};
use narrows_core::packet::Packet as _;
use narrows_core::param::{Kind, Param, Params};
use narrows_core::queue::{Backlog, Limit, QueueDiscipline, QueueKind, Sink, Why};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Time};
use narrows_sim::{run, Options, Packet, Run};

/// Increases by a constant per round trip, multiplies by a constant on loss.
#[derive(Clone)]
struct Aimd {
    increase: f64,
    factor: f64,
    /// The part of a packet that the window has yet to grow by.
    rest: f64,
}

impl CongestionControl for Aimd {
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        self.rest += f64::from(ev.delivered)
            * if w.in_slow_start() {
                1.0
            } else {
                self.increase / f64::from(w.cwnd)
            };
        let whole = self.rest as u32;
        self.rest -= f64::from(whole);
        w.cwnd = w.cwnd.saturating_add(whole).min(w.clamp);
    }
    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = ((f64::from(w.cwnd) * self.factor) as u32).max(2);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

const PARAMS: &[Param] = &[
    Param {
        name: "increase",
        kind: Kind::Number(1.0, 0.01, 100.0),
        help: "packets per round trip",
        source: "RFC 5681",
    },
    Param {
        name: "factor",
        kind: Kind::Number(0.5, 0.1, 0.95),
        help: "what is left of the window after a loss",
        source: "RFC 5681",
    },
];

const KIND: CcKind = CcKind {
    name: "aimd",
    help: "additive increase, multiplicative decrease",
    source: "Chiu and Jain 1989",
    params: PARAMS,
    make: |params: &Params, _hz| {
        Box::new(Aimd {
            increase: params.number("increase"),
            factor: params.number("factor"),
            rest: 0.0,
        })
    },
};

/// Last in, first out: nobody would, but anybody may.
struct Lifo {
    stack: Vec<Packet>,
    most: usize,
}

impl QueueDiscipline<Packet> for Lifo {
    fn enqueue(&mut self, now: Time, packet: Packet, sink: &mut dyn Sink<Packet>) {
        if self.stack.len() < self.most {
            self.stack.push(packet);
        } else {
            sink.dropped(now, packet, Why::Overflow);
        }
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<Packet>) -> Option<Packet> {
        self.stack.pop()
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: Bytes::new(self.stack.iter().map(|p| p.size().get()).sum()),
            packets: self.stack.len() as u64,
        }
    }
}

const LIFO_PARAMS: &[Param] = &[Param {
    name: "depth",
    kind: Kind::Count(100, 1, 100_000),
    help: "packets, where the path has no buffer of so many",
    source: "",
}];

fn lifo() -> QueueKind<Packet> {
    QueueKind {
        name: "lifo",
        help: "last in, first out",
        source: "",
        params: LIFO_PARAMS,
        make: |params, place| {
            let most = match place.limit {
                Some(Limit::Packets(n)) => n,
                _ => params.count("depth"),
            };
            Box::new(Lifo {
                stack: Vec::new(),
                most: most as usize,
            })
        },
    }
}

fn registry() -> Registry<Packet> {
    let mut registry = Registry::standard();
    registry.register_cc(KIND);
    registry.register_queue(lifo());
    registry
}

fn play(text: &str) -> Run {
    let registry = registry();
    let scenario = Scenario::from_toml(text, "aimd.toml", &registry).unwrap();
    run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

const SCENARIO: &str = r#"
duration = "10s"
[path]
rate   = "20Mbit"
rtt    = "40ms"
buffer = "0.5bdp"
[[flow]]
cc = { kind = "aimd", factor = 0.8 }
"#;

#[test]
fn a_scenario_may_name_what_was_registered() {
    let run = play(SCENARIO);
    assert_eq!(run.flows[0].id, "aimd0");
    assert!(run.flows[0].goodput_mbit > 17.0, "{}", run.flows[0].goodput_mbit);
    // It is the law of this file that ran, with this parameter: the gentler one keeps the buffer fuller.
    let timid = play(&SCENARIO.replace("0.8", "0.3"));
    assert!(timid.flows[0].cwnd_packets.p5 < 0.7 * run.flows[0].cwnd_packets.p5);
}

#[test]
fn a_queue_that_was_registered_too() {
    let lifo = SCENARIO.replace("\"0.5bdp\"", "\"1bdp\"\nqueue = { kind = \"lifo\", depth = 40 }");
    let (fifo, lifo) = (play(&SCENARIO.replace("0.5bdp", "40p")), play(&lifo));
    let (first, last) = (fifo.queue.delay_ms, lifo.queue.delay_ms);
    // The packet that came last waits for nobody; the one below it waits for all that come.
    assert!(
        last.p50 < 0.5 * first.p50 && last.p99 > 2.0 * first.p99,
        "{first:?} {last:?}"
    );
    assert!(lifo.queue.drops > 0 && lifo.flows[0].retransmits > 0);
}

#[test]
fn their_parameters_are_checked_as_any_other() {
    let told = |text: &str| {
        Scenario::from_toml(text, "aimd.toml", &registry())
            .unwrap_err()
            .to_string()
    };
    let factor = told(&SCENARIO.replace("0.8", "1.5"));
    assert!(factor.contains("factor = 1.5 must be at most 0.95"), "{factor}");
    let depth = told(&SCENARIO.replace("\"0.5bdp\"", "\"1bdp\"\nqueue = { kind = \"lifo\", depth = 0 }"));
    assert!(depth.contains("depth = 0 must be at least 1"), "{depth}");
}
