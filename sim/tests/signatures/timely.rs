//! TIMELY: the RTT over a link of a data centre stays between two thresholds, and the shares of
//! flows are not determined.

use narrows_sim::Run;

/// Runs flows over 10 Gbit/s and 20 µs, with a buffer of 5 ms.
fn run(cc: &str, flows: u32) -> Run {
    let text = format!(
        "duration = \"200ms\"\nwarmup = \"50ms\"\nstart_jitter = \"1ms\"\n[path]\nrate = \
         \"10Gbit\"\nrtt = \"20us\"\n\
         buffer = \"6250kB\"\n[[flow]]\ncc = \"{cc}\"\ncount = {flows}\n"
    );
    super::run(&text)
}

/// One flow alone uses most of the link. Four flows that begin at the same time at the link's rate
/// do not fill its buffer, while Reno flows do.
#[test]
fn timely_keeps_the_round_trip_between_its_thresholds() {
    let (one, four, reno) = (run("timely", 1), run("timely", 4), run("reno", 4));
    assert!(
        one.flows[0].goodput_mbit > 8_000.0,
        "{}",
        one.flows[0].goodput_mbit
    );
    for timely in [&one, &four] {
        // 20 µs of the 50 µs are the propagation delay of the path.
        assert!(
            (0.02..0.48).contains(&timely.queue.delay_ms.p50),
            "{}",
            timely.queue.delay_ms.p50
        );
        assert!(
            timely.queue.delay_ms.p99 < 0.48,
            "{}",
            timely.queue.delay_ms.p99
        );
        assert!(timely.flows.iter().all(|f| f.retransmits == 0));
    }
    assert!(reno.queue.delay_ms.p50 > 1.0, "{}", reno.queue.delay_ms.p50);
}

/// Between the thresholds nothing makes the shares equal: a flow that reduced its rate more at the
/// begin keeps a lower rate.
#[test]
fn two_flows_need_not_share_fairly() {
    let share = |cc: &str| {
        let run = run(cc, 2);
        let (a, b) = (run.flows[0].goodput_mbit, run.flows[1].goodput_mbit);
        a.max(b) / a.min(b)
    };
    let (timely, reno) = (share("timely"), share("reno"));
    assert!(timely > 2.0, "{timely}");
    assert!(reno < 1.6, "{reno}");
}
