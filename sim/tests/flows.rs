//! The world with flows in it.

mod common;

use common::{flow, json, ping, play, registry, scenario};
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Span};
use narrows_sim::{run, Options, SimError};

fn two_flows() -> Scenario {
    let mut s = scenario(Span::s(10));
    s.flows = vec![flow("cubic0", "cubic"), flow("reno0", "reno")];
    s.probes = vec![ping(Span::ms(20))];
    s.path.loss.probability = 0.001;
    s
}

#[test]
fn same_seed_same_bytes() {
    let (mut s, mut other) = (two_flows(), two_flows());
    let (first, second) = (play(&s), play(&s));
    assert_eq!(json(&first), json(&second));
    assert_eq!(first.samples.flows, second.samples.flows);
    assert_eq!(first.samples.queue, second.samples.queue);
    other.seed = 2;
    assert_ne!(json(&first), json(&play(&other)));
    // Without jitter and loss nothing is left to chance.
    for s in [&mut s, &mut other] {
        (s.path.loss.probability, s.start_jitter) = (0.0, Span::ZERO);
    }
    let flows = |s: &Scenario| serde_json::to_string(&play(s).flows).unwrap();
    assert_eq!(flows(&s), flows(&other));
}

#[test]
fn figures_do_not_depend_on_the_interval_of_samples() {
    let s = two_flows();
    let sparse = Options { sample_interval: None };
    let dense = Options {
        sample_interval: Some(Span::ms(3)),
    };
    let [sparse, dense] = [sparse, dense].map(|o| run(&s, &registry(), &o, &mut |_| true).unwrap());
    assert_eq!(json(&sparse), json(&dense));
    assert!(sparse.samples.flows.is_empty() && sparse.samples.pings.is_empty());
    assert_eq!(dense.samples.queue.len(), 3333);
}

#[test]
fn two_flows_fill_the_path() {
    let run = play(&two_flows());
    let goodput: f64 = run.flows.iter().map(|f| f.goodput_mbit).sum();
    // 1448 of 1514 bytes of 10 Mbit/s, less what loss costs.
    assert!((8.0..9.57).contains(&goodput), "{goodput}");
    assert_eq!(run.flows[0].series.len(), 10);
    assert_eq!(run.samples.queue.len(), 100);
    assert!(run.fairness.jain > 0.5 && run.fairness.jain <= 1.0);
    assert!(run.queue.delay_ms.p50 > 1.0 && run.probes[0].rtt_ms.p50 > 21.0);
}

#[test]
fn a_transfer_ends_with_its_last_byte_and_a_stopped_flow_at_its_stop() {
    let mut s = scenario(Span::s(10));
    s.warmup = Span::ZERO;
    s.flows = vec![flow("a", "reno"), flow("b", "reno"), flow("late", "reno")];
    s.flows[0].size = Some(Bytes::new(100_000));
    s.flows[1].start = Span::s(4);
    s.flows[1].stop = Some(Span::ms(6500));
    s.flows[2].start = Span::s(20);
    let run = play(&s);
    let [a, b, late] = &run.flows[..] else { panic!() };
    // Handshake, four windows of ten and more, 0.09 s of transmission.
    assert!((0.1..0.3).contains(&a.fct_s), "{}", a.fct_s);
    assert_eq!(a.series.len(), 1);
    assert_eq!(a.series[0].1, 100_000);
    assert!(b.fct_s.is_nan());
    assert_eq!(b.series.iter().map(|p| p.0).collect::<Vec<_>>(), [5.0, 6.0, 6.5]);
    assert!(b.goodput_mbit > 8.0);
    assert!(late.goodput_mbit.is_nan() && late.series.is_empty());
}

#[test]
fn a_caller_may_stop_a_run() {
    let mut s = two_flows();
    s.duration = Span::s(1000);
    let mut calls = 0;
    let stopped = run(&s, &registry(), &Options::default(), &mut |progress| {
        calls += 1;
        assert!(progress.now < progress.end);
        calls < 3
    });
    assert_eq!((stopped.unwrap_err(), calls), (SimError::Stopped, 3));
}
