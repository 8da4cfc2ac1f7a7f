//! Vegas: the path is fully used and the queue stays short.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs one flow over 20 Mbit/s and 40 ms, with a buffer of 267 packets. The queue that slow start
/// leaves shrinks by one packet per round trip, so the metrics are those of the end of the run.
fn alone(cc: &str) -> Run {
    let text = format!(
        "duration = \"40s\"\nwarmup = \"25s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer \
         = \"4bdp\"\n[[flow]]\ncc = \"{cc}\"\n"
    );
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn vegas_fills_the_path_with_a_few_packets_in_the_queue_and_loses_none() {
    let (vegas, reno) = (alone("vegas"), alone("reno"));
    // The transmission of six packets takes 3.6 ms.
    assert!(
        vegas.queue.delay_ms.p95 < 3.6,
        "{}",
        vegas.queue.delay_ms.p95
    );
    assert!(
        reno.queue.delay_ms.p95 > 30.0,
        "{}",
        reno.queue.delay_ms.p95
    );
    assert_eq!(vegas.flows[0].retransmits, 0);
    assert!(reno.flows[0].retransmits > 0);
    let (vegas, reno) = (vegas.flows[0].goodput_mbit, reno.flows[0].goodput_mbit);
    assert!(vegas > 0.98 * reno, "{vegas} {reno}");
}
