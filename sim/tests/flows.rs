//! Whole runs with TCP flows: goodput, completion times, pauses of the application, receive
//! buffers.

use crate::common::{self, flow, json, ping, play, registry, scenario};
use narrows_core::scenario::{Buffer, Link, Scenario};
use narrows_core::units::{Bytes, Rate, Span};
use narrows_sim::{Options, Run, SimError, run};

fn two_flows() -> Scenario {
    let mut s = scenario(Span::s(10));
    s.flows = vec![flow("cubic0", "cubic"), flow("reno0", "reno")];
    s.probes = vec![ping(Span::ms(20))];
    s.path.hops[0].loss = common::loss(0.001);
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
    // Without jitter and random loss a run does not depend on the seed.
    for s in [&mut s, &mut other] {
        (s.path.hops[0].loss, s.start_jitter) = (None, Span::ZERO);
    }
    let flows = |s: &Scenario| serde_json::to_string(&play(s).flows).unwrap();
    assert_eq!(flows(&s), flows(&other));
}

#[test]
fn metrics_do_not_depend_on_the_interval_of_samples() {
    let s = two_flows();
    let sparse = Options {
        sample_interval: None,
        ..Options::default()
    };
    let dense = Options {
        sample_interval: Some(Span::ms(3)),
        ..Options::default()
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
    // 1448 of 1514 bytes of 10 Mbit/s is 9.56 Mbit/s, less the cost of loss.
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
    let [a, b, late] = &run.flows[..] else {
        panic!()
    };
    // The handshake, four round trips of windows from ten packets on, and 0.09 s of transmission.
    assert!((0.1..0.3).contains(&a.fct_s), "{}", a.fct_s);
    assert_eq!(a.series.len(), 1);
    assert_eq!(a.series[0].1, 100_000);
    assert!(b.fct_s.is_nan());
    assert_eq!(
        b.series.iter().map(|p| p.0).collect::<Vec<_>>(),
        [5.0, 6.0, 6.5]
    );
    assert!(b.active_goodput_mbit > 8.0);
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

/// The first sample of the flow at or after `t_s`: window and `ssthresh` in packets, and bytes
/// acknowledged.
fn at(run: &Run, t_s: f64) -> (u32, u32, u64) {
    let s = &run.samples.flows;
    let i = s
        .t_s
        .iter()
        .position(|&t| t >= t_s - 1e-9)
        .expect("a sample");
    (
        s.cwnd_packets[i],
        s.ssthresh_packets[i],
        s.delivered_bytes[i],
    )
}

/// One flow over 20 Mbit/s and 100 ms, sampled every 10 ms. Its application is silent from 10 s on
/// for `gap` seconds.
fn interrupted(cc: &str, gap: u64) -> Run {
    let mut s = scenario(Span::s(20));
    s.start_jitter = Span::ZERO;
    s.path.hops[0].rate = Rate::mbit(20);
    (s.path.hops[0].rtt, s.path.hops[0].delay_forward) = (Span::ms(100), Span::ZERO);
    s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(250_000)));
    s.path.hops[0].link = Link::Tbf {
        burst: Bytes::new(3080),
        peak: None,
    };
    let mut f = flow(cc, cc);
    (f.stop, f.restart) = (Some(Span::s(10)), Some(Span::s(10 + gap)));
    s.flows = vec![f];
    let options = Options {
        sample_interval: Some(Span::ms(10)),
        ..Options::default()
    };
    run(&s, &registry(), &options, &mut |_| true).unwrap()
}

/// Results of Linux 6.12 in virtual time, with an application that pauses. They are the seconds
/// since it resumed, the window, `ssthresh`, and the bytes acknowledged since then. BBR leaves
/// ProbeRTT with the first packet, and has the window of Startup for one round trip.
#[test]
fn after_a_silence_the_window_begins_where_linux_has_it() {
    type Row = (f64, u32, u32, u64);
    let recorded: [(&str, u64, &[Row]); 5] = [
        (
            "cubic",
            1,
            &[
                (0.05, 70, 233, 0),
                (0.1, 72, 233, 2896),
                (0.15, 140, 233, 101_360),
                (0.3, 244, 233, 306_976),
            ],
        ),
        (
            "cubic",
            5,
            &[
                (0.05, 10, 233, 0),
                (0.1, 12, 233, 2896),
                (0.15, 20, 233, 14_480),
                (0.3, 42, 233, 46_336),
            ],
        ),
        (
            "reno",
            1,
            &[
                (0.05, 58, 174, 0),
                (0.3, 175, 174, 251_952),
                (0.5, 177, 174, 728_344),
            ],
        ),
        (
            "reno",
            5,
            &[
                (0.05, 10, 174, 0),
                (0.1, 12, 174, 2896),
                (0.3, 42, 174, 46_336),
                (0.5, 162, 174, 220_096),
            ],
        ),
        (
            "bbr",
            1,
            &[
                (0.05, 494, 178, 0),
                (0.1, 340, 178, 2896),
                (0.15, 340, 178, 121_632),
                (0.3, 340, 178, 477_840),
            ],
        ),
    ];
    for (cc, gap, rows) in recorded {
        let run = interrupted(cc, gap);
        let again = 10.0 + gap as f64;
        let before = at(&run, again).2;
        for &(t, cwnd, ssthresh, acked) in rows {
            let (w, thresh, bytes) = at(&run, again + t);
            assert_eq!((w, thresh), (cwnd, ssthresh), "{cc} {gap} {t}");
            // The window may have differed by one packet when the application fell silent.
            assert!(
                (bytes - before).abs_diff(acked) <= 3 * 1448,
                "{cc} {gap} {t}: {} {acked}",
                bytes - before
            );
        }
        let f = &run.flows[0];
        assert!(
            f.active_goodput_mbit > 18.5,
            "{cc} {gap}: over the time it was to send in, {}",
            f.active_goodput_mbit
        );
        // In Linux the flow was busy for 10.136, 10.132 and 10.071 s before the silence.
        let busy = [("cubic", 10.136), ("reno", 10.132), ("bbr", 10.071)];
        let before = busy.into_iter().find(|(name, _)| *name == cc).unwrap().1;
        assert!(
            (f.limits.busy_s - (before + 10.0 - gap as f64)).abs() < 0.05,
            "{cc} {:?}",
            f.limits
        );
        assert!((f.limits.busy_s + f.limits.app_limited_s - 20.0).abs() < 1e-6);
    }
}

/// The flow's last bytes are acknowledged after the warm-up, but its application has nothing to
/// send by then.
#[test]
fn a_flow_silent_for_all_of_the_summary_has_no_goodput() {
    let mut s = scenario(Span::s(10));
    (s.start_jitter, s.warmup) = (Span::ZERO, Span::s(5));
    s.flows = vec![flow("silent", "reno"), flow("other", "reno")];
    (s.flows[0].stop, s.flows[0].restart) = (Some(Span::s(5)), Some(Span::s(20)));
    let run = play(&s);
    let silent = &run.flows[0];
    assert!(
        silent.goodput_mbit.is_nan()
            && silent.rtt_ms.mean.is_nan()
            && silent.cwnd_packets.mean.is_nan()
    );
    assert_eq!(silent.series.len(), 10);
    assert_eq!(run.fairness.jain, 1.0);
}

#[test]
fn without_the_rule_the_window_stays() {
    let mut s = scenario(Span::s(20));
    (s.start_jitter, s.host.slow_start_after_idle) = (Span::ZERO, false);
    let mut f = flow("reno", "reno");
    (f.stop, f.restart) = (Some(Span::s(10)), Some(Span::s(15)));
    s.flows = vec![f];
    let run = play(&s);
    assert_eq!(at(&run, 14.9).0, at(&run, 15.0).0);
}

/// In Linux 6.12 in virtual time, over 100 Mbit/s and 40 ms with 200 000 B of receive buffer, the
/// flow was busy for 8.960 s of 9 s. For 8.799 s of them the peer's receive window was the limit.
#[test]
fn a_small_receive_buffer_is_reported_as_the_limit() {
    let mut s = scenario(Span::s(9));
    s.start_jitter = Span::ZERO;
    s.path.hops[0].rate = Rate::mbit(100);
    (s.path.hops[0].rtt, s.path.hops[0].delay_forward) = (Span::ms(40), Span::ZERO);
    s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(500_000)));
    (s.host.rmem_default, s.host.rmem_max) = (Bytes::new(131_072), Bytes::new(200_000));
    s.flows = vec![flow("cubic", "cubic")];
    let limits = play(&s).flows[0].limits;
    assert!((limits.busy_s - 8.960).abs() < 0.002, "{limits:?}");
    assert!((limits.rwnd_limited_s - 8.799).abs() < 0.010, "{limits:?}");
    assert_eq!(limits.sndbuf_limited_s, 0.0);
}
