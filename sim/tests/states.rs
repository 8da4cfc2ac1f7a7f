//! The internal state of congestion controls over time, and the phase of a flow (slow start,
//! congestion avoidance, recovery …).

use crate::common::{flow, registry, scenario};
use narrows_core::metrics::{NO_CONNECTION, NO_WORD, PHASES, Samples};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, run};
use std::collections::BTreeSet;

fn samples(cc: &str, seconds: u64, states: bool) -> Samples {
    let mut s = scenario(Span::s(seconds));
    s.flows = vec![flow("it", cc)];
    let options = Options {
        states,
        sample_interval: Some(Span::ms(10)),
        ..Options::default()
    };
    let done = run(&s, &registry(), &options, &mut |_| true);
    done.unwrap().samples
}

/// The time and the mode of each sample of a congestion control.
fn modes(samples: &Samples) -> Vec<(f64, &'static str)> {
    let states = &samples.states;
    (0..states.t_s.len())
        .filter(|row| states.word[*row] != NO_WORD)
        .map(|row| (states.t_s[row], states.names[states.word[row] as usize]))
        .collect()
}

#[test]
fn modes_of_bbr_are_recorded_and_its_phase_follows_them() {
    for (cc, known) in [
        ("bbr", &["startup", "drain", "probe_bw", "probe_rtt"][..]),
        (
            "bbr3",
            &[
                "startup",
                "drain",
                "probe_bw_down",
                "probe_bw_cruise",
                "probe_bw_refill",
                "probe_bw_up",
                "probe_rtt",
            ],
        ),
    ] {
        let samples = samples(cc, 25, true);
        let modes = modes(&samples);
        let seen: BTreeSet<_> = modes.iter().map(|(_, mode)| *mode).collect();
        assert_eq!(seen, known.iter().copied().collect(), "{cc}");
        assert_eq!(modes.len(), samples.flows.len(), "{cc}");
        for (row, (t_s, mode)) in modes.iter().enumerate() {
            assert_eq!(samples.flows.t_s[row], *t_s);
            let phase = PHASES[usize::from(samples.flows.phase[row])];
            let open = ["slow_start", "avoidance"].contains(&phase);
            // Only samples outside loss recovery (`open`) are compared: there, the phase is slow
            // start exactly when the mode is Startup.
            assert!(
                !open || (phase == "slow_start") == (*mode == "startup"),
                "{cc} at {t_s} s: {mode}, {phase}"
            );
        }
    }
}

#[test]
fn the_phase_of_a_window_follows_its_threshold() {
    for cc in ["reno", "cubic", "vegas", "westwood", "htcp", "illinois"] {
        let flows = samples(cc, 20, false).flows;
        let mut seen = BTreeSet::new();
        for row in 0..flows.len() {
            let phase = PHASES[usize::from(flows.phase[row])];
            let below = flows.cwnd_packets[row] < flows.ssthresh_packets[row];
            seen.insert(phase);
            match phase {
                "slow_start" => assert!(below, "{cc} at {} s", flows.t_s[row]),
                "avoidance" => assert!(!below, "{cc} at {} s", flows.t_s[row]),
                _ => {}
            }
        }
        assert!(
            seen.contains("slow_start") && seen.contains("avoidance"),
            "{cc}: {seen:?}"
        );
    }
}

#[test]
fn connections_of_a_workload_have_states_of_their_own() {
    let mut s = scenario(Span::s(5));
    let page = "duration = \"5s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"20ms\"\n\
                [[flow]]\ncc = \"bbr\"\n\
                workload = { kind = \"web\", objects = 30, hosts = 1, connections = 6 }\n";
    let page = Scenario::from_toml(page, "page", &registry()).unwrap();
    s.flows = vec![flow("long", "cubic"), page.flows[0].clone()];
    let states = |states| {
        let options = Options {
            states,
            sample_interval: Some(Span::ms(10)),
            ..Options::default()
        };
        run(&s, &registry(), &options, &mut |_| true).unwrap()
    };
    let (with, without) = (states(true), states(false));
    assert_eq!(with.samples.flows, without.samples.flows);
    let rows = &with.samples.states;
    let of = |number: u32| (0..rows.t_s.len()).filter(move |row| rows.flow[*row] == number);
    assert!(of(0).all(|row| rows.connection[row] == NO_CONNECTION));
    let seen: BTreeSet<u32> = of(1).map(|row| rows.connection[row]).collect();
    // A page of the workload is loaded over six connections.
    assert_eq!(seen, (0..6).collect());
    let modes: BTreeSet<_> = of(1)
        .filter(|row| rows.word[*row] != NO_WORD)
        .map(|row| rows.names[rows.word[row] as usize])
        .collect();
    assert!(modes.contains("startup"), "{modes:?}");
    // Each connection has exactly one mode at each time of a sample.
    let words: Vec<_> = of(1)
        .filter(|row| rows.word[*row] != NO_WORD)
        .map(|row| (rows.t_s[row].to_bits(), rows.connection[row]))
        .collect();
    assert_eq!(words.len(), words.iter().collect::<BTreeSet<_>>().len());
}

#[test]
fn values_have_names_and_are_recorded_only_on_request() {
    for (cc, names) in [
        (
            "cubic",
            &["w_max", "epoch_start_s", "origin", "k_s", "w_est"][..],
        ),
        (
            "ledbat",
            &["mode", "queue_ms", "base_ms", "gain", "slowdown"],
        ),
        ("vegas", &["queued", "base_rtt_ms"]),
    ] {
        let with = samples(cc, 10, true);
        let seen: BTreeSet<_> = with
            .states
            .name
            .iter()
            .map(|n| with.states.names[*n as usize])
            .collect();
        assert_eq!(seen, names.iter().copied().collect(), "{cc}");
        let without = samples(cc, 10, false);
        assert!(without.states.t_s.is_empty());
        assert_eq!(with.flows, without.flows);
    }
    // The begin of an epoch of CUBIC is stated as a time of the run.
    let cubic = samples("cubic", 10, true).states;
    let epochs = (0..cubic.t_s.len())
        .filter(|row| cubic.names[cubic.name[*row] as usize] == "epoch_start_s");
    let mut last = 0.0;
    for row in epochs {
        assert!(cubic.value[row] >= last && cubic.value[row] <= cubic.t_s[row]);
        last = cubic.value[row];
    }
    assert!(last > 1.0);
}
