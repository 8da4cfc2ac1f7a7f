//! TIMELY: the queue of a data centre's link stays between two thresholds, with any shares.

use narrows_sim::Run;

/// 10 Gbit/s over 20 µs, and room for 5 ms.
fn run(cc: &str, flows: u32) -> Run {
    let text = format!(
        "duration = \"200ms\"\nwarmup = \"50ms\"\nstart_jitter = \"1ms\"\n[path]\nrate = \
         \"10Gbit\"\nrtt = \"20us\"\n\
         buffer = \"6250kB\"\n[[flow]]\ncc = \"{cc}\"\ncount = {flows}\n"
    );
    super::run(&text)
}

/// Alone it fills most of the link, and four that begin at the link's rate at once do not fill its
/// buffer, as Reno does.
#[test]
fn timely_keeps_the_round_trip_between_its_thresholds() {
    let (one, four, reno) = (run("timely", 1), run("timely", 4), run("reno", 4));
    assert!(
        one.flows[0].goodput_mbit > 8_000.0,
        "{}",
        one.flows[0].goodput_mbit
    );
    for timely in [&one, &four] {
        // Of the 50 µs the path has 20.
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

/// Between the thresholds nothing determines the shares: a flow that lost more in the beginning
/// stays behind.
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
