//! Properties of the simulated network that hold for any congestion control.

use crate::common::{self, flow, json, ping, play, registry, scenario};
use narrows_core::scenario::{Link, Scenario};
use narrows_core::units::{Bytes, Span};
use narrows_sim::{Options, SimError, run};

/// The RTT of a ping in an empty network, in ms: 20 ms and the transmission of 106 B at 10 Mbit/s,
/// 84.8 µs. The reverse path has no rate, so the reply takes no transmission time.
const PING_MS: f64 = 20.0 + 0.0848;

#[test]
fn a_ping_over_an_empty_path_needs_its_transmission_time_and_the_rtt() {
    let mut s = scenario(Span::s(1));
    s.probes = vec![ping(Span::ms(20))];
    let probe = &play(&s).probes[0];
    assert_eq!((probe.sent, probe.received), (50, 50));
    for shown in [probe.rtt_ms.mean, probe.rtt_ms.p50, probe.rtt_ms.p99] {
        assert!((shown - PING_MS).abs() < 1e-9, "{shown}");
    }
    // A token bucket that is never empty adds no delay.
    s.path.hops[0].link = Link::Tbf {
        burst: Bytes::new(3080),
        peak: None,
    };
    assert!((play(&s).probes[0].rtt_ms.p99 - 20.0).abs() < 1e-9);
}

#[test]
fn late_ping_replies_are_awaited_for_a_limited_time() {
    let mut s = scenario(Span::ms(100));
    s.probes = vec![ping(Span::ms(20))];
    s.path.hops[0].rtt = Span::ms(1900);
    assert_eq!(play(&s).probes[0].received, 5);
    s.path.hops[0].rtt = Span::ms(2050);
    // The replies of the three pings sent at 0, 20 and 40 ms are back by 2100 ms.
    assert_eq!(play(&s).probes[0].received, 3);
}

#[test]
fn lost_pings_have_no_rtt() {
    let mut s = scenario(Span::s(10));
    s.probes = vec![ping(Span::ms(1))];
    s.path.hops[0].loss = common::loss(0.5);
    let run = play(&s);
    let lost = run
        .samples
        .pings
        .rtt_ms
        .iter()
        .filter(|rtt| rtt.is_nan())
        .count() as u64;
    assert_eq!(
        (run.probes[0].sent, run.samples.pings.len()),
        (10_000, 10_000)
    );
    assert_eq!(run.probes[0].received + lost, 10_000);
    assert!(lost.abs_diff(5000) < 250, "{lost}");
    assert_eq!(run.queue.drops, 0);
}

#[test]
fn metrics_without_measurements_are_null() {
    let run = play(&scenario(Span::ms(50)));
    let value: serde_json::Value = serde_json::from_str(&json(&run)).unwrap();
    assert_eq!(value["queue"]["drops"], 0);
    assert!(value["queue"]["delay_ms"]["p50"].is_null());
    assert!(value["fairness"]["jain"].is_null());
}

#[test]
fn metrics_that_would_not_fit_into_memory_are_refused() {
    let mut s = scenario(Span::s(86_400));
    s.flows = vec![flow("cubic", "cubic"); 1000];
    s.flows[0].start = Span::s(86_000);
    s.flows[1].stop = Some(Span::s(10));
    let refused = run(
        &s,
        &registry(),
        &Options {
            sample_interval: None,
            ..Options::default()
        },
        &mut |_| panic!("it ran"),
    );
    let flow_seconds = 998 * 86_400 + 400 + 10;
    assert_eq!(refused.unwrap_err(), SimError::TooLong { flow_seconds });
}

#[test]
fn too_many_rows_are_refused_with_an_interval_that_fits() {
    let mut s = scenario(Span::s(6000));
    s.flows = vec![flow("cubic0", "cubic")];
    let refused = |s: &Scenario, interval| match run(
        s,
        &registry(),
        &Options {
            sample_interval: Some(interval),
            ..Options::default()
        },
        &mut |_| true,
    ) {
        Err(SimError::IntervalTooShort { of, at_least, .. }) => (of, at_least),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&s, Span::ms(1)), ("samples", Span::us(1200)));
    s.duration = Span::s(1);
    assert_eq!(refused(&s, Span::ns(999)), ("samples", Span::us(1)));
    s.duration = Span::s(50);
    s.probes = vec![ping(Span::us(9))];
    assert_eq!(refused(&s, Span::ms(100)), ("pings", Span::us(10)));
}

#[test]
fn unknown_names_are_reported() {
    let mut s = scenario(Span::s(1));
    s.flows = vec![flow("x0", "x")];
    let refused = run(&s, &registry(), &Options::default(), &mut |_| true).unwrap_err();
    assert_eq!(refused, SimError::UnknownCc("x".into()));
    s.path.hops[0].queue = common::choice("y");
    let refused = run(&s, &registry(), &Options::default(), &mut |_| true).unwrap_err();
    assert_eq!(refused, SimError::UnknownQueue("y".into()));
}
