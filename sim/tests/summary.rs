//! The summary interval, which is the same for all flows. In it, no flow and no sum of flows has
//! more goodput than the path can carry.

use crate::common::{play, registry};
use narrows_core::engine::path_metrics;
use narrows_core::metrics::Fairness;
use narrows_core::scenario::Scenario;
use narrows_sim::Run;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fmt::Write;

fn run(text: &str) -> Run {
    play(
        &Scenario::from_toml(text, "summary", &registry())
            .unwrap_or_else(|e| panic!("{e}\n{text}")),
    )
}

/// The goodput of all flows of each direction, as a share of that direction's capacity.
fn used(run: &Run) -> [f64; 2] {
    let path = path_metrics(&run.scenario);
    let sum = |up: bool| {
        let flows = run.flows.iter().zip(&run.scenario.flows);
        let own = flows
            .filter(|(_, spec)| (spec.direction == narrows_core::scenario::Direction::Up) == up);
        own.map(|(flow, _)| flow.goodput_mbit)
            .filter(|x| !x.is_nan())
            .sum::<f64>()
    };
    [
        sum(false) / path.capacity_mbit,
        sum(true) / path.reverse_mbit.unwrap_or(f64::INFINITY),
    ]
}

/// The same goodput as a share of what could arrive. A packet that was in transmission when the
/// interval began counts in full.
fn arrived(run: &Run) -> [f64; 2] {
    let path = path_metrics(&run.scenario);
    let [down, up] = used(run);
    [
        down * path.capacity_mbit / path.arriving_mbit,
        up * path.reverse_mbit.unwrap_or(0.0) / path.reverse_arriving_mbit.unwrap_or(1.0),
    ]
}

const PATH: &str = "[path]\nrate = \"50Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\n";

/// Runs a flow that fills its path, with a summary interval of `packets` transmission times of a
/// full packet.
fn short(mbit: u64, rtt_ms: u64, packets: u64, more: &str, flows: &str) -> Run {
    let packet_ns = 1514 * 8 * 1000 / mbit;
    // The interval is a fifth of a packet's transmission time longer than `packets` packets take.
    // For each number of packets it begins at another phase of a packet's transmission.
    let warmup = rtt_ms * 20_000_000 + packets * packet_ns / 10;
    let last = packets * packet_ns + packet_ns / 5;
    run(&format!(
        "duration = \"{}ns\"\nwarmup = \"{warmup}ns\"\n\
         [path]\nrate = \"{mbit}Mbit\"\nrtt = \"{rtt_ms}ms\"\nbuffer = \"2bdp\"\n{more}{flows}",
        warmup + last
    ))
}

/// Goodput counts the payload that arrived. Within two transmission times, up to three packets can
/// arrive, which is more than the rate of the path. Goodput is never more than what can arrive.
#[test]
fn an_interval_of_a_few_packets_has_no_more_than_can_arrive() {
    let most = (1..22).map(|packets| {
        let run = short(20, 10, packets, "", "[[flow]]\ncc = \"cubic\"\n");
        assert!(arrived(&run)[0] <= 1.0, "{packets}: {:?}", arrived(&run));
        assert!(
            run.notices
                .iter()
                .any(|notice| notice.contains("summary interval"))
        );
        used(&run)[0]
    });
    let most = most.fold(0.0, f64::max);
    assert!(most > 1.0, "of the rate alone: {most}");
}

/// A run whose delays vary has a notice if its summary interval is short compared with that
/// variation.
#[test]
fn an_interval_that_is_short_beside_varying_delays_has_a_notice() {
    let warnings = |duration: &str, more: &str, flow: &str| {
        let run = run(&format!(
            "duration = \"{duration}\"\nwarmup = \"100ms\"\n{PATH}{more}[[flow]]\ncc = \
             \"reno\"\n{flow}"
        ));
        run.notices
            .iter()
            .filter(|notice| notice.contains("varies by up to"))
            .count()
    };
    assert_eq!(
        (
            warnings("1s", "", ""),
            warnings("1s", "jitter = \"50ms\"\n", "")
        ),
        (0, 1)
    );
    assert_eq!(warnings("20s", "jitter = \"50ms\"\n", ""), 0);
    assert_eq!(
        warnings("1s", "", "[[flow]]\ncc = \"reno\"\nrtt = \"100ms\"\n"),
        1
    );
}

/// Each of three flows is alone on the path for ten of thirty seconds. The goodput of each is a
/// third of the path's rate, not all of it.
#[test]
fn flows_that_take_turns_share_one_interval() {
    let mut text = format!("duration = \"30s\"\nwarmup = \"0s\"\n{PATH}");
    for (start, stop) in [(0, 10), (10, 20), (20, 30)] {
        write!(
            text,
            "[[flow]]\ncc = \"cubic\"\nstart = \"{start}s\"\nstop = \"{stop}s\"\n"
        )
        .unwrap();
    }
    let run = run(&text);
    let own: f64 = run.flows.iter().map(|flow| flow.active_goodput_mbit).sum();
    assert!(own > 2.5 * 50.0 * 0.9, "each alone: {own}");
    assert!((0.85..1.0).contains(&used(&run)[0]), "{:?}", used(&run));
    for flow in &run.flows {
        let ratio = flow.goodput_mbit / flow.active_goodput_mbit;
        assert!(
            (ratio / (flow.active_s / 30.0) - 1.0).abs() < 0.02,
            "{} {ratio} {}",
            flow.id,
            flow.active_s
        );
    }
}

/// Forty transfers begin at the same time over 1 Gbit/s, and each lasts for some hundredths of a
/// second.
#[test]
fn incast_uses_no_more_than_there_is() {
    let run = run(
        "duration = \"200ms\"\nwarmup = \"0s\"\nstart_jitter = \"100us\"\n\
         [path]\nrate = \"1000Mbit\"\nrtt = \"200us\"\nbuffer = \"512kB\"\n\
         [[flow]]\ncc = \"reno\"\ncount = 40\nsize = \"256kB\"\n",
    );
    assert!(run.flows.iter().all(|flow| !flow.goodput_mbit.is_nan()));
    let own: f64 = run.flows.iter().map(|flow| flow.active_goodput_mbit).sum();
    assert!(own > 1000.0, "each over its own time: {own}");
    let mbit: f64 = run.flows.iter().map(|flow| flow.goodput_mbit * 0.2).sum();
    assert!(mbit <= 40.0 * 256_000.0 * 8e-6 + 1e-6, "{mbit} Mbit");
    assert!((0.2..1.0).contains(&used(&run)[0]), "{:?}", used(&run));
}

/// Retransmissions in slow start count in the rate of the whole run, and not in that of the summary
/// interval. The Linux reference states bytes retransmitted divided by bytes sent over the whole
/// connection (`tcp_info`).
#[test]
fn retransmission_rates_state_their_interval() {
    let run = run(&format!(
        "duration = \"60s\"\nwarmup = \"59s\"\n{PATH}[[flow]]\ncc = \"reno\"\n"
    ));
    let flow = &run.flows[0];
    assert!(flow.retransmits > 0 && flow.retransmit_rate > 0.0);
    assert_eq!(flow.run_retransmit_rate, flow.retransmit_rate);
    assert_eq!(
        (flow.summary_retransmits, flow.summary_retransmit_rate),
        (0, 0.0)
    );
}

/// A stream of datagrams of constant rate does not count in Jain's index, because it keeps its rate
/// whatever the others have.
#[test]
fn a_constant_rate_has_no_part_in_fairness() {
    let stream = "workload = { kind = \"udp\", rate = \"1Mbit\" }\n";
    let text =
        format!("duration = \"20s\"\n{PATH}[[flow]]\ncc = \"reno\"\ncount = 2\n[[flow]]\n{stream}");
    let run = run(&text);
    let Fairness { jain, by_cc, .. } = &run.fairness;
    assert_eq!(*jain, by_cc["reno"].jain);
    assert!((by_cc["udp"].goodput_mbit - 1.0).abs() < 0.1);
}

/// Flows of different directions share no bottleneck, so Jain's index is computed for each
/// direction separately.
#[test]
fn fairness_is_of_each_direction() {
    let flows = "[[flow]]\ncc = \"reno\"\ncount = 2\n[[flow]]\ncc = \"cubic\"\ncount = \
        2\ndirection = \"up\"\n";
    let run = run(&format!(
        "duration = \"20s\"\n{PATH}[path.reverse]\nrate = \"5Mbit\"\n{flows}"
    ));
    let Fairness {
        jain,
        by_cc,
        by_direction,
    } = &run.fairness;
    assert_eq!(
        (&by_direction["down"], &by_direction["up"]),
        (&by_cc["reno"], &by_cc["cubic"])
    );
    assert!(
        by_direction
            .values()
            .all(|of| of.flows == 2 && of.jain > *jain)
    );
}

/// A run of 50 ms is sampled every 0.5 ms.
#[test]
fn a_short_run_has_samples() {
    let run = run("duration = \"50ms\"\nwarmup = \"10ms\"\n\
         [path]\nrate = \"100Mbit\"\nrtt = \"1ms\"\nbuffer = \"4bdp\"\n[[flow]]\ncc = \"reno\"\n");
    let flow = &run.flows[0];
    assert!(flow.rtt_ms.mean > 1.0 && flow.cwnd_packets.mean > 1.0);
    assert!(run.queue.backlog_packets.mean > 1.0);
    assert!(run.flows[0].goodput_mbit > 80.0);
}

#[derive(Clone, Debug)]
struct Sender {
    cc: &'static str,
    up: bool,
    start: u64,
    stop: Option<u64>,
    kb: Option<u64>,
    count: u64,
}

fn sender() -> impl Strategy<Value = Sender> {
    let cc = prop_oneof![
        Just("cubic"),
        Just("reno"),
        Just("bbr"),
        Just("vegas"),
        Just("ledbat")
    ];
    let kb = prop_oneof![2 => Just(None), 1 => (1u64..2000).prop_map(Some)];
    (
        cc,
        any::<bool>(),
        0u64..90,
        prop::option::of(1u64..60),
        kb,
        1u64..12,
    )
        .prop_map(|(cc, up, start, lasts, kb, count)| {
            let stop = lasts.map(|n| start + n);
            Sender {
                cc,
                up,
                start,
                stop,
                kb,
                count,
            }
        })
}

/// The scenario as text. Start, stop and warm-up are in percent of the run.
fn text(
    mbit: u64,
    rtt_ms: u64,
    bdp: u64,
    ms: u64,
    warmup: u64,
    place: u32,
    senders: &[Sender],
) -> String {
    let part = |percent: u64| format!("{}us", ms * 10 * percent);
    let mut text = format!("duration = \"{ms}ms\"\nwarmup = \"{}\"\n", part(warmup));
    let (rate, rtt) = (
        format!("rate = \"{mbit}Mbit\"\n"),
        format!("rtt = \"{rtt_ms}ms\"\n"),
    );
    let buffer = format!("buffer = \"{}bdp\"\n", bdp as f64 / 10.0);
    let burst = mbit * 20_000;
    text += &match place {
        0 => format!("[path]\n{rate}{rtt}{buffer}"),
        1 => format!(
            "[path]\n{rate}{rtt}{buffer}loss = \"1%\"\njitter = \
             \"2ms\"\n[path.reverse]\n{rate}{buffer}"
        ),
        2 => format!(
            "[path]\n[[path.hop]]\n{rate}{rtt}{buffer}\n[[path.hop]]\nrate = \
             \"{}Mbit\"\n{rtt}{buffer}",
            2 * mbit
        ),
        3 => format!(
            "[path]\nrate = \"{}Mbit\"\n{rtt}{buffer}\
             policer = {{ kind = \"police\", rate = \"{mbit}Mbit\", burst = \"{burst}B\" }}\n",
            10 * mbit
        ),
        4 => format!(
            "[path]\n{rate}{rtt}{buffer}link = {{ kind = \"tbf\", burst = \"{burst}B\" }}\n"
        ),
        5 => format!(
            "[path]\n{rate}{rtt}{buffer}steps = [{{ at = \"{}\", rate = \"{}Mbit\" }}]\n\
             outages = [{{ at = \"{}\", lasts = \"{}\" }}]\n",
            part(40),
            3 * mbit,
            part(70),
            part(10)
        ),
        _ => format!("[wifi]\nstandard = \"n\"\n[[wifi.station]]\nname = \"a\"\nmcs = 7\n{rtt}"),
    };
    for s in senders {
        write!(
            text,
            "[[flow]]\ncc = \"{}\"\ncount = {}\nstart = \"{}\"\n",
            s.cc,
            s.count,
            part(s.start)
        )
        .unwrap();
        if let Some(stop) = s.stop.filter(|_| s.kb.is_none()) {
            writeln!(text, "stop = \"{}\"", part(stop)).unwrap();
        }
        if let Some(kb) = s.kb {
            writeln!(text, "size = \"{kb}kB\"").unwrap();
        }
        if s.up && place == 1 {
            writeln!(text, "direction = \"up\"").unwrap();
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Property test: for any start times, stop times and paths.
    #[test]
    fn utilization_is_at_most_one(
        mbit in 1u64..60,
        rtt_ms in 1u64..80,
        bdp in 2u64..80,
        ms in 100u64..6000,
        warmup in 0u64..80,
        place in 0u32..7,
        senders in prop::collection::vec(sender(), 1..4),
    ) {
        let text = text(mbit, rtt_ms, bdp, ms, warmup, place, &senders);
        let used = used(&run(&text));
        prop_assert!(used.iter().all(|share| *share <= 1.0), "{used:?}\n{text}");
    }

    /// Property test: for summary intervals down to the transmission time of one packet.
    #[test]
    fn no_flow_exceeds_the_arrival_rate(
        mbit in 1u64..60,
        rtt_ms in 1u64..30,
        packets in 1u64..60,
        offload in any::<bool>(),
        reverse in any::<bool>(),
        ccs in prop::collection::vec(prop_oneof![Just("cubic"), Just("reno"), Just("bbr")], 1..4),
    ) {
        let offload = if offload { "offload = true\n" } else { "" };
        let more = format!("{offload}{}", if reverse { format!("[path.reverse]\nrate = \
            \"{mbit}Mbit\"\n") } else { String::new() });
        let up = if reverse { "direction = \"up\"\n" } else { "" };
        let flows: String = ccs
            .iter()
            .enumerate()
            .map(|(i, cc)| format!("[[flow]]\ncc = \"{cc}\"\n{}", if i % 2 == 1 { up } else { "" }))
            .collect();
        let run = short(mbit, rtt_ms, packets, &more, &flows);
        prop_assert!(arrived(&run).iter().all(|share| *share <= 1.0), "{:?} {mbit} {rtt_ms} \
            {packets} {more}{flows}", arrived(&run));
    }
}
