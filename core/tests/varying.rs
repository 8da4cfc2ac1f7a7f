//! Steps of delay and loss, and tables of delays: closed forms, and what must hold for any steps
//! and any arrivals.

use crate::common::registry;
use crate::frame::Frame;
use narrows_core::net::delay_schedule::{DelaySchedule, Delays};
use narrows_core::net::path::Path;
use narrows_core::net::trace::delays;
use narrows_core::net::{FAR, NEAR, Network, NetworkObserver, Port};
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{DropReason, Limit, QueueDiscipline};
use narrows_core::scenario::{PathSpec, Scenario, Tree};
use narrows_core::units::{Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::sync::Arc;

fn ms(n: u64) -> Time {
    Time::ZERO + Span::ms(n)
}

const TABLE: &str = "# ms ms\n0 25\n100 5\n150 40\n";

fn file(name: &str) -> Result<String, String> {
    match name {
        "delays.txt" => Ok(TABLE.into()),
        _ => Err("does not exist".into()),
    }
}

/// A scenario with these lines in its path.
fn scenario(path: &str) -> Scenario {
    let text = format!("duration = \"60s\"\n{path}\n[[probe]]\nkind = \"ping\"\n");
    let tree = Tree::from_toml(&text, "x").unwrap();
    let read = Scenario::from_tree(&tree, "x", Some(&text), &registry(), &file);
    read.unwrap_or_else(|e| panic!("{e}"))
}

fn spec(path: &str) -> PathSpec {
    scenario(&format!("[path]\n{path}")).path
}

#[derive(Default)]
struct Log {
    arrived: Vec<(Time, Port, u64)>,
    departed: Vec<(Time, u64)>,
    lost: Vec<u64>,
}

impl NetworkObserver<Frame<u64>> for Log {
    fn arrived(&mut self, now: Time, port: Port, packet: Frame<u64>) {
        self.arrived.push((now, port, packet.content));
    }
    fn departed(&mut self, now: Time, _hop: u8, _class: u8, packet: &Frame<u64>) {
        self.departed.push((now, packet.content));
    }
    fn dropped(&mut self, _now: Time, _hop: u8, packet: Frame<u64>, reason: DropReason) {
        assert_eq!(reason, DropReason::Loss);
        self.lost.push(packet.content);
    }
}

fn path(spec: &PathSpec) -> Path<Frame<u64>> {
    let queue =
        |_| Box::new(Fifo::new(Limit::Packets(1 << 20))) as Box<dyn QueueDiscipline<Frame<u64>>>;
    let hops = spec.hops.len() + usize::from(spec.reverse.is_some());
    Path::new(spec, (0..hops).map(queue).collect(), 1)
}

/// Sends packets of 1000 bytes at these times from `port`, and handles all events.
fn send(spec: &PathSpec, port: Port, times: impl IntoIterator<Item = Time>) -> Log {
    let (mut path, mut log) = (path(spec), Log::default());
    for (number, at) in (0..).zip(times) {
        while let Some(due) = path.next_wakeup().filter(|due| *due <= at) {
            path.poll(due, &mut log);
        }
        path.push(at, port, Frame::new(1000, number), &mut log);
    }
    while let Some(due) = path.next_wakeup() {
        path.poll(due, &mut log);
    }
    log
}

/// Two-way delay of a ping of 1000 bytes sent at `at`.
fn ping(spec: &PathSpec, sent: Time) -> Span {
    let (mut path, mut log) = (path(spec), Log::default());
    path.push(sent, NEAR, Frame::new(1000, 0), &mut log);
    while let Some(due) = path.next_wakeup() {
        path.poll(due, &mut log);
        for (at, port, number) in std::mem::take(&mut log.arrived) {
            match port {
                FAR => path.push(at, FAR, Frame::new(1000, number), &mut log),
                _ => return at.since(sent),
            }
        }
    }
    panic!("the ping is lost");
}

#[test]
fn after_a_step_the_base_rtt_is_the_new_one() {
    // 1000 bytes take 1 ms at 8 Mbit/s.
    let spec = spec(
        "rate = \"8Mbit\"\nrtt = \"40ms\"\nsteps = [{ at = \"1s\", rtt = \"90.5ms\" }, \
         { at = \"2s\", rtt = \"7001ns\" }]",
    );
    for (at, rtt) in [
        (ms(0), Span::ms(40)),
        (ms(900), Span::ms(40)),
        (ms(1000), Span::us(90_500)),
        (ms(1900), Span::us(90_500)),
        (ms(2000), Span::ns(7001)),
        (ms(9000), Span::ns(7001)),
    ] {
        assert_eq!(ping(&spec, at), Span::ms(1) + rtt, "{at:?}");
    }
}

#[test]
fn a_step_is_divided_as_the_rtt_of_its_hop() {
    let spec = spec(
        "rate = \"8Mbit\"\nrtt = \"40ms\"\ndelay_forward = \"10ms\"\n\
         steps = [{ at = \"1s\", rtt = \"80ms\" }]",
    );
    let forward = send(&spec, NEAR, [ms(0), ms(1000)]).arrived;
    assert_eq!(forward, [(ms(11), FAR, 0), (ms(1021), FAR, 1)]);
    let back = send(&spec, FAR, [ms(0), ms(1000)]).arrived;
    assert_eq!(back, [(ms(30), NEAR, 0), (ms(1060), NEAR, 1)]);
}

#[test]
fn the_delays_of_several_hops_add_up() {
    let hop = |at: u64, rtt: u64| {
        format!(
            "[[path.hop]]\nrate = \"8Mbit\"\nrtt = \"10ms\"\nsteps = [{{ at = \"{at}s\", rtt = \
             \"{rtt}ms\" }}]\n"
        )
    };
    let spec = scenario(&format!("{}{}", hop(1, 30), hop(2, 50))).path;
    for (at, rtt) in [(500, 20), (1500, 40), (2500, 80)] {
        assert_eq!(ping(&spec, ms(at)), Span::ms(2 + rtt));
    }
}

/// The delay falls from 50 to 10 ms in each direction at 100 ms; packets leave the link at 59, 89,
/// 101, 121 and 141 ms.
#[test]
fn packets_stay_in_order_unless_the_step_allows_overtaking() {
    let arrivals = |ordered: bool| {
        let spec = spec(&format!(
            "rate = \"8Mbit\"\nrtt = \"100ms\"\nsteps = [{{ at = \"100ms\", rtt = \"20ms\", \
             ordered = {ordered} }}]"
        ));
        [NEAR, FAR].map(|port| {
            let sent = [58, 88, 100, 120, 140].map(ms);
            let log = send(&spec, port, sent);
            log.arrived
                .into_iter()
                .map(|(at, _, n)| (at, n))
                .collect::<Vec<_>>()
        })
    };
    let of = |list: [(u64, u64); 5]| list.map(|(at, number)| (ms(at), number)).to_vec();
    assert_eq!(
        arrivals(true),
        [
            of([(109, 0), (139, 1), (139, 2), (139, 3), (151, 4)]),
            of([(108, 0), (138, 1), (138, 2), (138, 3), (150, 4)]),
        ]
    );
    assert_eq!(
        arrivals(false),
        [
            of([(109, 0), (111, 2), (131, 3), (139, 1), (151, 4)]),
            of([(108, 0), (110, 2), (130, 3), (138, 1), (150, 4)]),
        ]
    );
}

#[test]
fn the_share_of_losses_in_each_interval_is_its_probability() {
    let steps = [
        (0.0, 0),
        (0.05, 20_000),
        (0.0, 40_000),
        (0.5, 60_000),
        (0.001, 80_000),
    ];
    for per in ["packet", "superpacket"] {
        let list = steps[1..].iter().map(|(p, at)| {
            let loss = format!("{{ probability = {p:?}, per = \"{per}\" }}");
            format!("{{ at = \"{at}ms\", loss = {loss} }}, ")
        });
        let spec = spec(&format!(
            "rate = \"80Mbit\"\nrtt = \"20ms\"\nsteps = [{}]",
            list.collect::<String>()
        ));
        let log = send(&spec, NEAR, (0..100_000).map(ms));
        assert_eq!(log.arrived.len() + log.lost.len(), 100_000);
        for (p, from) in steps {
            let inside = |number: &&u64| (from..from + 20_000).contains(*number);
            let lost = log.lost.iter().filter(inside).count() as f64;
            let deviation = f64::sqrt(20_000.0 * p * (1.0 - p));
            assert!(
                (lost - 20_000.0 * p).abs() <= 4.0 * deviation,
                "{per}, {p}: {lost}"
            );
        }
    }
}

/// A model that begins at a step draws at once, also within a super-packet.
#[test]
fn certain_loss_begins_at_its_step_and_ends_at_the_next() {
    let spec = spec(
        "rate = \"80Mbit\"\nrtt = \"20ms\"\nloss = \"100%\"\nsteps = [{ at = \"100ms\", loss = \
         \"0%\" }, { at = \"200ms\", loss = 1.0 }]",
    );
    let log = send(&spec, NEAR, (0..300).map(ms));
    let passed: Vec<u64> = log.arrived.iter().map(|a| a.2).collect();
    assert_eq!(passed, (100..200).collect::<Vec<u64>>());
}

#[test]
fn a_table_of_delays_repeats() {
    let once = delays(TABLE, false).unwrap();
    // The last delay lasts as long as the one before it: a repetition has 200 ms.
    let again = delays(TABLE, true).unwrap();
    for (at, first, later) in [
        (0, 25, 25),
        (99, 25, 25),
        (100, 5, 5),
        (199, 40, 40),
        (200, 40, 25),
    ] {
        assert_eq!(once.at(ms(at)), Span::ms(first), "{at}");
        assert_eq!(again.at(ms(at)), Span::ms(later), "{at}");
        assert_eq!(again.at(ms(at + 1_000_000)), Span::ms(later), "{at}");
    }
    assert_eq!(again.range(), Span::ms(35));
}

#[test]
fn a_delay_trace_is_the_delay_of_its_direction() {
    let forward = spec("rate = \"8Mbit\"\nrtt = \"40ms\"\ndelay_trace = \"delays.txt\"");
    // Packets leave the link 1 ms later.
    let sent = [0, 120, 180, 400].map(ms);
    let at = |log: Log| log.arrived.iter().map(|a| a.0).collect::<Vec<Time>>();
    assert_eq!(at(send(&forward, NEAR, sent)), [26, 126, 221, 426].map(ms));
    assert_eq!(at(send(&forward, FAR, sent)), [20, 140, 200, 420].map(ms));
    let both = scenario(
        "[path]\nrate = \"8Mbit\"\nrtt = \"40ms\"\n[path.reverse]\nrate = \"8Mbit\"\n\
         delay_trace = { file = \"delays.txt\", repeat = false }",
    );
    assert_eq!(
        at(send(&both.path, NEAR, sent)),
        [21, 141, 201, 421].map(ms)
    );
    assert_eq!(at(send(&both.path, FAR, sent)), [26, 126, 221, 441].map(ms));
}

#[test]
fn a_scenario_with_steps_is_written_as_it_is_read() {
    let lines = "rate = \"8Mbit\"\nrtt = \"40ms\"\nsteps = [{ at = \"1s\", rtt = \"9ms\", \
                 ordered = false }, { at = \"2s\", loss = { kind = \"gilbert_elliott\", \
                 mean_loss = \"1%\", mean_burst = 5.0 } }, { at = \"3s\", rate = \"1Mbit\" }]";
    let trace = "rate = \"8Mbit\"\nrtt = \"40ms\"\ndelay_trace = \"delays.txt\"";
    for lines in [lines, trace] {
        let first = scenario(&format!("[path]\n{lines}"));
        let text = first.to_toml();
        let tree = Tree::from_toml(&text, "x").unwrap();
        let again = Scenario::from_tree(&tree, "x", Some(&text), &registry(), &file);
        assert_eq!(again.unwrap(), first, "{text}");
    }
}

/// A step of rate, RTT and loss, in this order, and whether it keeps the order.
type Change = (u64, Option<u64>, Option<u64>, Option<f64>, bool);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (
        0u64..200_000,
        proptest::option::of(1u64..20),
        proptest::option::of(1u64..100_000),
        proptest::option::of(0.0..1.0f64),
        any::<bool>(),
    );
    proptest::collection::vec(change, 1..8)
}

fn written(changes: &[Change], ordered: bool) -> String {
    let steps = changes.iter().map(|(at, rate, rtt, loss, keeps)| {
        let rate = rate.map(|rate| format!(", rate = \"{rate}Mbit\""));
        let keeps = *keeps || ordered;
        let rtt = rtt.map(|rtt| format!(", rtt = \"{rtt}us\", ordered = {keeps}"));
        let mut parts: String = [rate, rtt].into_iter().flatten().collect();
        // A step without a change is an error.
        if loss.is_some() || parts.is_empty() {
            parts += &format!(", loss = {:?}", loss.unwrap_or(0.0));
        }
        format!("{{ at = \"{at}us\"{parts} }}, ")
    });
    format!(
        "rate = \"8Mbit\"\nrtt = \"20ms\"\nsteps = [{}]",
        steps.collect::<String>()
    )
}

/// The delay of one direction by the steps, searched from the beginning.
fn one_way(changes: &[Change], now: Time, forward: bool) -> Span {
    let mut sorted: Vec<&Change> = changes.iter().collect();
    sorted.sort_by_key(|change| change.0);
    let begun = sorted
        .iter()
        .filter(|change| Time::ZERO + Span::us(change.0) <= now);
    let rtt = begun
        .filter_map(|change| change.2)
        .next_back()
        .unwrap_or(20_000);
    let ahead = Span::ns(rtt * 1000 / 2);
    if forward {
        ahead
    } else {
        Span::us(rtt) - ahead
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every packet arrives once or is lost once. It arrives after the delay at its departure, and
    /// with ordered steps after the packets before it.
    #[test]
    fn packets_are_conserved_over_every_step(
        changes in changes(),
        ordered in any::<bool>(),
        back in any::<bool>(),
        gaps in proptest::collection::vec(0u64..5000, 1..200),
    ) {
        let spec = spec(&written(&changes, ordered));
        let times = gaps.iter().scan(Time::ZERO, |now, gap| {
            *now += Span::us(*gap);
            Some(*now)
        });
        let times: Vec<Time> = times.collect();
        let log = send(&spec, if back { FAR } else { NEAR }, times.iter().copied());
        let mut ends: Vec<u64> = log.arrived.iter().map(|a| a.2).collect();
        let numbers = ends.clone();
        ends.extend(&log.lost);
        ends.sort_unstable();
        prop_assert_eq!(ends, (0..gaps.len() as u64).collect::<Vec<u64>>());
        prop_assert!(log.arrived.is_sorted_by_key(|a| a.0));
        let leaves = |number: u64| match back {
            true => times[number as usize],
            false => log.departed.iter().find(|d| d.1 == number).unwrap().0,
        };
        let mut last = Time::ZERO;
        for (at, _, number) in &log.arrived {
            let left = leaves(*number);
            let alone = left + one_way(&changes, left, !back);
            prop_assert!(*at >= alone);
            if ordered {
                prop_assert_eq!(*at, alone.max(last));
                last = *at;
            }
        }
        prop_assert!(numbers.is_sorted() || !ordered);
    }

    /// The position in a schedule gives the delays that a search from the beginning gives.
    #[test]
    fn a_position_agrees_with_a_search(
        steps in proptest::collection::vec((0u64..1000, 0u64..100), 0..20),
        period in proptest::option::of(1u64..1200),
        gaps in proptest::collection::vec(0u64..400, 1..100),
    ) {
        let list = steps.iter().map(|(at, delay)| (ms(*at), Span::ms(*delay), true));
        let mut schedule = DelaySchedule::new(Span::ms(7), list);
        if let Some(period) = period {
            schedule = schedule.repeating(Span::ms(period));
        }
        let mut delays = Delays::of(Arc::new(schedule.clone()));
        delays.add(Delays::constant(Span::ms(1)));
        let mut now = Time::ZERO;
        for gap in gaps {
            now += Span::ms(gap);
            prop_assert_eq!(delays.next(now).0, schedule.at(now) + Span::ms(1));
        }
    }
}

/// The rate of a hop with steps of other values does not vary.
#[test]
fn steps_of_the_delay_leave_the_rate() {
    let path = spec("rate = \"8Mbit\"\nrtt = \"40ms\"\nsteps = [{ at = \"1s\", rtt = \"9ms\" }]");
    let hop = &path.hops[0];
    assert!(!hop.has_varying_rate());
    let varying = hop.varying.as_ref().unwrap();
    assert_eq!(varying.mean(hop.rate, ms(0), ms(9)), None);
    assert_eq!(hop.target(), Rate::mbit(8));
}
