//! Several flows of BBR that share one queue.

use crate::common::{flow, registry, scenario};
use narrows_core::cc::bbr;
use narrows_core::param::Params;
use narrows_core::scenario::Buffer;
use narrows_core::units::Span;
use narrows_sim::{Options, run};

/// The times, in s, at which the window of flow `which` was at its minimum of 4 packets for at
/// least 100 ms.
fn probes(t_s: &[f64], flow: &[u32], cwnd: &[u32], which: u32) -> Vec<f64> {
    let mut begun: Option<f64> = None;
    let mut found = Vec::new();
    for i in (0..t_s.len()).filter(|i| flow[*i] == which) {
        if cwnd[i] > 4 {
            found.extend(begun.take().filter(|t| t_s[i] - t >= 0.1));
        } else {
            begun = begun.or(Some(t_s[i]));
        }
    }
    found
}

/// All flows see the empty queue at the same time, so after some probes all of them probe for the
/// minimum RTT at the same time.
#[test]
fn flows_of_one_queue_probe_its_round_trip_together() {
    let mut s = scenario(Span::s(60));
    s.path.hops[0].buffer = Some(Buffer::Bdp(8.0));
    s.flows = vec![
        flow("a", "bbr"),
        flow("b", "bbr"),
        flow("c", "bbr"),
        flow("late", "bbr"),
    ];
    s.flows[3].start = Span::s(7);
    for flow in &mut s.flows {
        flow.cc.params = Params::defaults(bbr::PARAMS);
    }
    let options = Options {
        sample_interval: Some(Span::ms(5)),
        ..Options::default()
    };
    let run = run(&s, &registry(), &options, &mut |_| true).unwrap();
    let f = &run.samples.flows;
    let all: Vec<Vec<f64>> = (0..4)
        .map(|i| probes(&f.t_s, &f.flow, &f.cwnd_packets, i))
        .collect();
    // The queue makes round trips of up to 20 · (1 + 8) ms.
    let late: Vec<Vec<f64>> = all
        .iter()
        .map(|p| p.iter().copied().filter(|t| *t > 25.0).collect())
        .collect();
    assert!(late.iter().all(|p| (2..=4).contains(&p.len())), "{all:?}");
    for (first, probes) in late[0].iter().enumerate() {
        for other in &late {
            assert!((other[first] - probes).abs() <= 0.18, "{all:?}");
        }
    }
    for p in &late {
        for two in p.windows(2) {
            assert!((10.0..10.8).contains(&(two[1] - two[0])), "{all:?}");
        }
    }
}
