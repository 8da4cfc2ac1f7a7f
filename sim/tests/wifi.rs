//! Wi-Fi in whole runs: how a slow station reduces the goodput of fast stations, with each of the
//! three stacks.

use crate::common::registry;
use narrows_core::engine::Run;
use narrows_core::metrics::StationMetrics;
use narrows_core::scenario::Scenario;
use narrows_sim::Options;

fn run(toml: &str) -> Run {
    let registry = registry();
    let scenario = Scenario::from_toml(toml, "wifi", &registry).unwrap_or_else(|e| panic!("{e}"));
    narrows_sim::run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

fn three(stack: &str, traffic: &str) -> Run {
    run(&format!(
        r#"
duration = "20s"
warmup = "5s"
[wifi]
stack = "{stack}"
aggregate = {{ frames = 19 }}
[[wifi.station]]
name = "fast"
count = 2
mcs = 15
[[wifi.station]]
name = "slow"
mcs = 0
{traffic}
[[probe]]
kind = "ping"
station = "fast0"
"#
    ))
}

const TCP: &str =
    "[[flow]]\ncc = \"cubic\"\nstation = \"fast\"\n[[flow]]\ncc = \"cubic\"\nstation = \"slow\"\n";
const UP: &str = "[[flow]]\ncc = \"cubic\"\nstation = \"fast\"\ndirection = \"up\"\n[[flow]]\ncc \
    = \"cubic\"\nstation = \"slow\"\n";
const UDP: &str = "[[flow]]\nworkload = { kind = \"udp\", rate = \"50Mbit\" }\nstation = \"fast\"\n\
                   [[flow]]\nworkload = { kind = \"udp\", rate = \"50Mbit\" }\nstation = \
                   \"slow\"\n";

fn shares(run: &Run) -> Vec<f64> {
    run.stations
        .iter()
        .map(|station| station.airtime_share)
        .collect()
}

fn total(run: &Run) -> f64 {
    run.stations
        .iter()
        .map(|station| station.goodput_mbit)
        .sum()
}

#[test]
fn the_slow_station_dominates_until_airtime_fairness() {
    let (before, after) = (three("before", UDP), three("airtime", UDP));
    let slow = shares(&before)[2];
    assert!((0.75..=0.82).contains(&slow), "before: {slow}");
    for share in shares(&after) {
        assert!((0.30..=0.36).contains(&share), "after: {share}");
    }
    // Published: 18.7 and 76.4 Mbit/s (Høiland-Jørgensen et al., ATC 2017, table 1).
    assert!(
        (total(&before) / 18.7 - 1.0).abs() < 0.15,
        "{}",
        total(&before)
    );
    assert!(
        (total(&after) / 76.4 - 1.0).abs() < 0.15,
        "{}",
        total(&after)
    );
}

#[test]
fn a_ping_waits_behind_the_qdisc_before_and_hardly_after() {
    let ping = |stack| three(stack, TCP).probes[0].rtt_ms.p50;
    let (before, fq_mac, airtime) = (ping("before"), ping("fq_mac"), ping("airtime"));
    assert!(
        before > 150.0 && fq_mac < 60.0 && airtime < 60.0,
        "{before}, {fq_mac}, {airtime}"
    );
}

#[test]
fn every_level_of_a_stack_is_seen() {
    let levels =
        |run: &Run| -> Vec<String> { run.queues.iter().map(|queue| queue.name.clone()).collect() };
    let before = three("before", TCP);
    assert_eq!(levels(&before), ["qdisc", "driver", "air", "up"]);
    let StationMetrics {
        delay_ms,
        aggregate,
        ..
    } = &before.stations[2];
    assert!(delay_ms.mac80211.is_none() && delay_ms.qdisc.is_some_and(|q| q.p50 > 50.0));
    // An aggregate of the slow station holds two full frames, which take four milliseconds at the
    // lowest rate, and now and then a ping or a SYN.
    assert!((1.5..3.0).contains(&aggregate.frames), "{aggregate:?}");
    let after = three("fq_mac", TCP);
    assert_eq!(levels(&after), ["mac80211", "driver", "air", "up"]);
    assert!(after.stations[0].delay_ms.qdisc.is_none());
    let rows = &after.samples.queue;
    assert!((0..4).all(|level| rows.queue.contains(&level)));
    assert!(after.samples.classes.backlog_packets.iter().any(|n| *n > 0));
}

#[test]
fn stations_and_access_point_share_the_medium() {
    let run = three("airtime", UP);
    assert!(
        run.flows.iter().all(|flow| flow.goodput_mbit > 0.5),
        "{:?}",
        shares(&run)
    );
    assert!(run.stations[0].aggregate_up.frames > 3.0);
    assert!(shares(&run).iter().sum::<f64>() <= 1.0);
    assert!(
        run.stations
            .iter()
            .all(|station| station.collision_share > 0.0)
    );
}

#[test]
fn damaged_frames_are_sent_again_and_cost_airtime() {
    let with = |error: &str| {
        run(&format!(
            "duration = \"10s\"\n[wifi]\n[[wifi.station]]\nname = \"one\"\nmcs = 7\nerror = \
             {error}\n[[flow]]\ncc = \"cubic\"\n"
        ))
    };
    let (clean, noisy) = (with("0.0"), with("0.2"));
    let lost = |run: &Run| run.queues[2].drops + run.flows[0].retransmits;
    assert!(noisy.stations[0].retries > 1000, "{:?}", noisy.stations[0]);
    assert!(total(&noisy) < 0.9 * total(&clean) && total(&noisy) > 0.5 * total(&clean));
    // TCP retransmits only packets that the queue dropped. No packet is lost on the air, because
    // thirty retries deliver all of them.
    assert!(lost(&noisy) < 200, "{}", lost(&noisy));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let json = |seed: u64| {
        let toml = format!(
            "duration = \"3s\"\nseed = {seed}\n[wifi]\n[[wifi.station]]\nname = \"s\"\ncount = \
             10\nmcs = 4\nerror = 0.1\n\
             [[flow]]\ncc = \"bbr\"\nstation = \"s\"\n[[flow]]\ncc = \"cubic\"\nstation = \
             \"s3\"\ndirection = \"up\"\n"
        );
        run(&toml).to_json("0", &Default::default(), None)
    };
    assert_eq!(json(1), json(1));
    assert_ne!(json(1), json(2));
}
