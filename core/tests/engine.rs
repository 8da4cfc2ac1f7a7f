//! The engine layer as an engine sees it: time, a network, an observer, and packets of its own. The
//! engine here only sends pings, so every metric is known beforehand.

use crate::frame::Frame;
use narrows_core::capture::{Capture, INTERFACES};
use narrows_core::engine::{
    self, Network, Observer, Options, Outcome, Recorder, Run, TooShort, probe_metrics,
};
use narrows_core::metrics::{ProbeMeter, QueueMeter, Samples};
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Span, Time};
use std::sync::{Arc, Mutex};

/// Size of a ping in bytes.
const SIZE: u64 = 1000;

#[derive(Clone)]
struct Content {
    number: u64,
    answer: bool,
}

type Ping = Frame<Content>;

#[derive(Default)]
struct Pings(Vec<(Port, Ping)>);

impl engine::Packets<Ping> for Pings {
    fn owner(&self, _packet: &Ping) -> Option<u32> {
        Some(0)
    }
    fn is_ping(&self, packet: &Ping) -> bool {
        !packet.content.answer
    }
    fn is_damaged(&self, _packet: &Ping) -> bool {
        false
    }
    fn arrived(&mut self, port: Port, packet: Ping) {
        self.0.push((port, packet));
    }
    fn dropped(&mut self, _packet: Ping) {}
    fn duplicate(&mut self, packet: &Ping) -> Option<Ping> {
        Some(packet.clone())
    }
    fn headers(&self, packet: &Ping, head: &mut Vec<u8>) -> u32 {
        head.push(packet.content.number as u8);
        SIZE as u32
    }
}

fn read(network: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\nduration = \"1s\"\nwarmup = \"0s\"\n{network}\n\
         [[probe]]\nkind = \"ping\"\ninterval = \"100ms\"\n"
    );
    Scenario::from_toml(&text, "t", &Registry::<Ping>::standard()).unwrap()
}

/// `together` pings each 100 ms; a run, and the bytes of its capture.
fn ping(scenario: &Scenario, together: usize) -> (Run, Vec<u8>) {
    let options = Options {
        sample_interval: Some(Span::ms(100)),
        verdicts: 100,
        ..Options::default()
    };
    let station = Box::new(|_: &Ping| 0);
    let (mut network, queues) = Network::new(scenario, &Registry::standard(), station).unwrap();
    let mut observer = Observer::new(scenario, queues, &options, Pings::default());
    let written = Arc::new(Mutex::new(Vec::new()));
    let sink = written.clone();
    let sink = Box::new(move |bytes: &[u8]| {
        sink.lock().unwrap().extend_from_slice(bytes);
        true
    });
    observer.recorder = Some(Box::new(Recorder::new(
        Capture::new("t", INTERFACES, sink),
        scenario,
    )));
    let (mut meter, mut samples) = (ProbeMeter::new(), Samples::default());
    let (mut next, end) = (Time::ZERO, Time::ZERO + scenario.duration);
    loop {
        let network_due = network.next_wakeup().unwrap_or(Time::MAX);
        let now = network_due.min(next);
        if now >= end {
            break;
        }
        if network_due == now {
            network.poll(now, &mut observer);
            for (port, packet) in std::mem::take(&mut observer.packets.0) {
                let Content { number, answer } = packet.content;
                if answer {
                    meter.received(now, number);
                } else {
                    let answer = true;
                    let pong = Frame::new(SIZE, Content { number, answer });
                    network.push(now, port, pong, &mut observer);
                }
            }
            continue;
        }
        for _ in 0..together {
            let (number, answer) = (meter.sent(now), false);
            let ping = Frame::new(SIZE, Content { number, answer });
            network.push(now, NEAR, ping, &mut observer);
        }
        observer.sample(now, &network, true, Some(&mut samples));
        next = now + scenario.probes[0].interval;
    }
    let used = network.close(&mut observer.queues);
    observer.delays(&mut samples);
    assert!(observer.recorder.take().unwrap().finish());
    samples.verdicts = std::mem::take(&mut observer.verdicts);
    let meters = [meter];
    let outcome = Outcome {
        flows: Vec::new(),
        queues: observer.queues.iter().map(QueueMeter::metrics).collect(),
        used,
        probes: probe_metrics(scenario, meters.iter(), observer.levels, Some(&mut samples)),
        samples,
    };
    let written = written.lock().unwrap().clone();
    (Run::new("pings", scenario, outcome), written)
}

#[test]
fn an_engine_of_pings_has_the_metrics_of_its_path() {
    // 1000 bytes each 1 ms; two packets fit behind the one in service.
    let scenario =
        read("[path]\nrate = \"8Mbit\"\nrtt = \"20ms\"\nqueue = \"fifo\"\nbuffer = \"2p\"\n");
    let (run, capture) = ping(&scenario, 5);
    let probe = &run.probes[0];
    assert_eq!((probe.sent, probe.received), (50, 30));
    assert_eq!(
        (probe.rtt_ms.p50, probe.rtt_ms.p99, probe.rtt_ms.mean),
        (22.0, 23.0, 22.0)
    );
    assert_eq!((run.queue.drops, run.queue.delay_ms.p99), (20, 3.0));
    assert_eq!(run.samples.pings.len(), 50);
    assert!(run.stations.is_empty());
    let dropped = b"dropped by hop path: its buffer was full";
    let drops = capture
        .windows(dropped.len())
        .filter(|w| w == dropped)
        .count();
    assert_eq!(drops, 20);
    let json = run.to_json("0", &serde_json::Value::Null, None);
    assert!(
        json.contains("\"engine\":\"pings\"") && json.contains("\"drops\":20"),
        "{json}"
    );
}

#[test]
fn the_same_engine_runs_over_wifi() {
    let scenario = read("[wifi]\n[[wifi.station]]\nname = \"near\"\nmcs = 7\nrtt = \"10ms\"\n");
    let (run, _) = ping(&scenario, 1);
    let probe = &run.probes[0];
    assert_eq!(
        (probe.sent, probe.received, run.stations.len()),
        (10, 10, 1)
    );
    let waited = probe.delay_ms.unwrap();
    let air = waited.air.unwrap().p50;
    assert!(
        probe.rtt_ms.p50 > 10.0 && probe.rtt_ms.p99 < 12.0,
        "{:?}",
        probe.rtt_ms
    );
    assert!(
        air > 0.0 && air < probe.rtt_ms.p50 - 10.0 && waited.mac80211.is_some(),
        "{waited:?}"
    );
    assert!(run.stations[0].airtime_share > 0.0);
}

#[test]
fn an_unknown_discipline_and_too_many_rows_are_rejected_with_a_message() {
    let mut scenario = read("[path]\nrate = \"8Mbit\"\nrtt = \"20ms\"\n");
    let options = Options {
        sample_interval: Some(Span::us(10)),
        ..Options::default()
    };
    let refused = engine::check_rows(&scenario, &options, Span::ms(1), Span::us(1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "an interval of \"10us\" between samples is too short for this run; \"1ms\" fits"
    );
    let fine = options.at_least(Span::ms(1));
    assert_eq!(
        engine::check_rows(&scenario, &fine, Span::ms(1), Span::us(1)),
        Ok(())
    );
    let pings = engine::check_rows(&scenario, &fine, Span::ms(1), Span::s(1))
        .map_err(|TooShort { of, .. }| of);
    assert_eq!(pings, Err("pings"));
    scenario.path.hops[0].queue.kind = "x".into();
    let network = Network::new(&scenario, &Registry::<Ping>::standard(), Box::new(|_| 0));
    let refused = network.err().map(|error| error.to_string());
    assert_eq!(
        refused.as_deref(),
        Some("no queue discipline is called \"x\"")
    );
}

#[test]
fn a_flow_starts_and_enters_where_every_engine_has_it() {
    let text = "title = \"t\"\nduration = \"1s\"\n[path]\nrate = \"8Mbit\"\nrtt = \
        \"20ms\"\ndelay_forward = \"5ms\"\n\
                [path.reverse]\nrate = \"8Mbit\"\n\
                [[flow]]\ncc = \"reno\"\nrtt = \"40ms\"\nstart = \"100ms\"\n\
                [[flow]]\ncc = \"reno\"\nrtt = \"40ms\"\ndirection = \"up\"\n";
    let scenario = Scenario::from_toml(text, "t", &Registry::<Ping>::standard()).unwrap();
    let [down, up] = &scenario.flows[..] else {
        panic!("two flows")
    };
    let from = Time::ZERO + down.start;
    let start = engine::start(&scenario, down);
    assert!(
        start >= from
            && start < from + scenario.start_jitter
            && start == engine::start(&scenario, down)
    );
    assert_eq!(
        (engine::sender_port(down), engine::sender_port(up)),
        (NEAR, FAR)
    );
    assert_eq!(
        engine::access_delays(&scenario, down),
        (Span::ms(10), Span::ms(30))
    );
    assert_eq!(
        engine::access_delays(&scenario, up),
        (Span::ms(30), Span::ms(10))
    );
}
