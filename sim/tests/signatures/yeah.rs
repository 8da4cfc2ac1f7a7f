//! YeAH: it grows fast on a path with a large BDP, and nevertheless keeps the queue short.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs one flow over 100 Mbit/s and 100 ms, a BDP of 833 packets, with a buffer of one BDP.
fn alone(cc: &str, loss: &str) -> Run {
    let text = format!(
        "duration = \"40s\"\nwarmup = \"10s\"\n[path]\nrate = \"100Mbit\"\nrtt = \
         \"100ms\"\nbuffer = \"1bdp\"\n\
         loss = \"{loss}\"\n[[flow]]\ncc = \"{cc}\"\n"
    );
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}")))
}

/// The transmission of eighty packets takes 9.7 ms. A longer queue is removed within a round trip,
/// in which the window grows by 1 %.
#[test]
fn yeah_fills_a_long_path_and_drains_its_queue() {
    let (yeah, reno) = (alone("yeah", "0%"), alone("reno", "0%"));
    let waits = [yeah.queue.delay_ms.p95, reno.queue.delay_ms.p95];
    assert!(waits[0] < 13.5, "{waits:?}");
    assert!(waits[1] > 2.0 * waits[0], "{waits:?}");
    let (yeah, reno) = (yeah.flows[0].goodput_mbit, reno.flows[0].goodput_mbit);
    assert!(yeah > 0.95 * reno, "{yeah} {reno}");
}

#[test]
fn yeah_returns_to_a_large_window_soon() {
    let (yeah, reno) = (alone("yeah", "0.01%"), alone("reno", "0.01%"));
    let (yeah, reno) = (yeah.flows[0].goodput_mbit, reno.flows[0].goodput_mbit);
    assert!(yeah > 2.0 * reno, "{yeah} {reno}");
}
