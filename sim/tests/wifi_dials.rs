//! Settings of the queues of a Wi-Fi: each has a law that holds for every value of the setting.

use crate::common::registry;
use narrows_core::engine::Run;
use narrows_core::metrics::StationMetrics;
use narrows_core::net::wifi::airtime::estimate;
use narrows_core::net::wifi::phy::{Band, Phy, Standard, Width};
use narrows_core::scenario::Scenario;
use narrows_core::units::Bytes;
use narrows_sim::Options;

/// Payload of a datagram, and the size of its frame.
const PAYLOAD_BITS: f64 = 1448.0 * 8.0;
const FRAME: Bytes = Bytes::new(1490);

fn run(toml: &str) -> Run {
    let registry = registry();
    let scenario = Scenario::from_toml(toml, "wifi", &registry).unwrap_or_else(|e| panic!("{e}"));
    narrows_sim::run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

/// One station that receives more than it can, with these keys of `[wifi]`.
fn one(mcs: u8, keys: &str) -> StationMetrics {
    let run = run(&format!(
        "duration = \"10s\"\nwarmup = \"3s\"\n[wifi]\n{keys}\n[[wifi.station]]\nname = \
         \"one\"\nmcs = {mcs}\n[[flow]]\nworkload = {{ kind = \"udp\", rate = \"100Mbit\" }}\n"
    ));
    run.stations.into_iter().next().unwrap()
}

/// Median time in the driver and on the air, in milliseconds.
fn below_mac80211(station: &StationMetrics) -> f64 {
    let delays = &station.delay_ms;
    delays.driver.as_ref().unwrap().p50 + delays.air.as_ref().unwrap().p50
}

/// Airtime of a packet that the medium takes, compared with the estimate of AQL.
fn real_over_estimate(station: &StationMetrics, mcs: u8) -> f64 {
    let phy = Phy::new(Standard::N, Band::Ghz5, Width::W20, mcs, 1, true).unwrap();
    let us = PAYLOAD_BITS / station.goodput_mbit;
    us / (estimate(&phy, FRAME).as_ns() as f64 / 1000.0)
}

/// Asserts that two values differ by at most this share of the second.
#[track_caller]
fn near(value: f64, expected: f64, share: f64) {
    assert!(
        (value / expected - 1.0).abs() < share,
        "{value} instead of {expected}"
    );
}

#[test]
fn the_delay_of_a_single_station_grows_by_the_airtime_queue_limit() {
    // The limit is in estimated airtime. The number of packets below mac80211 is the limit by the
    // estimate of a packet, and their delay is this number times the real time of a packet.
    for (mcs, hardware) in [(0, "txops = 64"), (7, "driver = 10000")] {
        let with = |ms: u32| {
            let keys = format!("{hardware}\naql_high = \"{ms}ms\"\naql_threshold = \"1s\"");
            let station = one(mcs, &keys);
            (
                below_mac80211(&station),
                real_over_estimate(&station, mcs) * f64::from(ms),
            )
        };
        let (short, long) = (with(20), with(60));
        near(long.0 - short.0, long.1 - short.1, 0.05);
        near(long.0, long.1, 0.1);
    }
}

#[test]
fn from_the_threshold_of_all_stations_the_low_limit_holds() {
    let high = one(
        7,
        "driver = 10000\naql_high = \"30ms\"\naql_threshold = \"1s\"",
    );
    let low = one(
        7,
        "driver = 10000\naql_low = \"30ms\"\naql_high = \"900ms\"\naql_threshold = \"0s\"",
    );
    near(below_mac80211(&low), below_mac80211(&high), 0.01);
}

#[test]
fn the_delay_in_a_driver_is_its_frames_by_the_throughput() {
    // Little's law. The stack decides who is in the driver, not how long its queue is.
    for stack in [
        "stack = \"before\"",
        "stack = \"fq_mac\"",
        "stack = \"airtime\"\naql = false",
    ] {
        for frames in [64, 200] {
            let station = one(7, &format!("{stack}\ndriver = {frames}"));
            let ms = f64::from(frames) * PAYLOAD_BITS / station.goodput_mbit / 1000.0;
            near(below_mac80211(&station), ms, 0.05);
        }
    }
}

/// Two near stations and a far one, two flows for each, and these keys.
fn three(wifi: &str, far: &str, traffic: [&str; 2]) -> Run {
    let flows = |station: &str| {
        traffic
            .iter()
            .map(|flow| format!("[[flow]]\n{flow}\nstation = \"{station}\"\n"))
            .collect::<String>()
    };
    run(&format!(
        "duration = \"20s\"\nwarmup = \"5s\"\n[wifi]\n{wifi}\n[[wifi.station]]\nname = \
         \"near\"\ncount = 2\nmcs = 15\n[[wifi.station]]\nname = \"far\"\nmcs = 0\n{far}\n{}{}",
        flows("near"),
        flows("far"),
    ))
}

const CUBIC: [&str; 2] = ["cc = \"cubic\""; 2];
/// The same rate in large and in small datagrams.
const DATAGRAMS: [&str; 2] = [
    "workload = { kind = \"udp\", rate = \"30Mbit\" }",
    "workload = { kind = \"udp\", rate = \"30Mbit\", packet = \"500B\" }",
];

#[test]
fn shares_do_not_depend_on_the_quantum_of_the_flows() {
    for quantum in ["100B", "300B", "1514B", "6000B"] {
        let run = three(&format!("quantum = \"{quantum}\""), "", DATAGRAMS);
        // Quanta are bytes of Ethernet frames: 28 bytes of headers and 14 of Ethernet.
        let frames =
            |flow: usize, payload: f64| run.flows[flow].goodput_mbit * (payload + 42.0) / payload;
        // A flow of both near stations counts twice.
        for (large, small) in [(0, 2), (1, 3), (4, 5)] {
            let (large, small) = (frames(large, 1448.0), frames(small, 500.0));
            near(small, large, 0.03);
        }
    }
}

#[test]
fn shares_of_airtime_do_not_depend_on_the_weight_that_all_stations_have() {
    let shares = |weight: u32| -> Vec<f64> {
        let run = three(&format!("weight = {weight}"), "", DATAGRAMS);
        run.stations.iter().map(|s| s.airtime_share).collect()
    };
    let usual = shares(256);
    for weight in [64, 300, 1024] {
        for (share, usual) in shares(weight).iter().zip(&usual) {
            near(*share, *usual, 0.03);
        }
    }
}

/// The result without the scenario, which has the settings.
fn result(run: &Run) -> String {
    format!("{:?} {:?} {:?}", run.flows, run.stations, run.queues)
}

#[test]
fn codel_of_slow_stations_is_the_codel_of_these_stations() {
    let usual = result(&three("", "", CUBIC));
    let rule = |more: &str| {
        result(&three(
            &format!("codel_slow_rate = \"6Mbit\"\n{more}"),
            "",
            CUBIC,
        ))
    };
    // With three stations, those below 18 Mbit/s are slow: only the far one.
    let own = "codel_target = \"50ms\"\ncodel_interval = \"300ms\"";
    assert_eq!(rule(""), result(&three("", own, CUBIC)));
    assert_ne!(rule(""), usual);
    assert_eq!(
        rule("codel_slow_target = \"20ms\"\ncodel_slow_interval = \"100ms\""),
        usual
    );
    // A rate that no station is below, and one that all are below.
    assert_eq!(
        result(&three("codel_slow_rate = \"1Mbit\"", "", CUBIC)),
        usual
    );
    assert_eq!(
        result(&three("codel_slow_rate = \"1000Mbit\"", "", CUBIC)),
        result(&three(own, "", CUBIC)),
    );
    // A station with its own settings keeps them.
    let own = "codel_target = \"20ms\"";
    assert_eq!(
        result(&three("codel_slow_rate = \"6Mbit\"", own, CUBIC)),
        usual
    );
}

#[test]
fn a_slow_station_has_a_longer_queue_and_no_marks() {
    let ecn = ["cc = \"cubic\"\necn = true"; 2];
    let (usual, slow) = (
        three("", "", ecn),
        three("codel_slow_rate = \"6Mbit\"", "", ecn),
    );
    let delay = |run: &Run, station: usize| run.stations[station].delay_ms.mac80211.unwrap().p50;
    assert!(
        delay(&slow, 2) > 1.5 * delay(&usual, 2),
        "{} and {}",
        delay(&slow, 2),
        delay(&usual, 2)
    );
    near(delay(&slow, 0), delay(&usual, 0), 0.2);
    let far = |run: &Run| run.flows[4].retransmits + run.flows[5].retransmits;
    assert!(
        far(&usual) == 0 && far(&slow) > 0,
        "{} and {}",
        far(&usual),
        far(&slow)
    );
}

#[test]
fn the_rate_control_determines_the_slow_station() {
    let with = |snr: u32, rule: &str| {
        let keys = format!("rate_control = \"minstrel\"\nsnr = \"{snr}dB\"");
        let toml = format!(
            "duration = \"10s\"\n[wifi]\n{rule}\n[[wifi.station]]\nname = \"one\"\nmcs = \
             7\n{keys}\n[[flow]]\ncc = \"cubic\"\n"
        );
        result(&run(&toml))
    };
    // The lowest rate has about 6 Mbit/s, the rates that arrive at 10 dB less than 20 Mbit/s.
    let rule = |mbit: u32| format!("codel_slow_rate = \"{mbit}Mbit\"");
    assert_eq!(with(40, &rule(5)), with(40, ""));
    assert_ne!(with(10, &rule(20)), with(10, ""));
}
