//! H-TCP: after a reduction the window soon recovers, however large it is.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// The used share of a path of 100 Mbit/s and 100 ms, with a tenth of the buffer that Reno would
/// need to fill it.
fn used(cc: &str) -> f64 {
    let text = format!(
        "duration = \"60s\"\nwarmup = \"20s\"\n[path]\nrate = \"100Mbit\"\nrtt = \
         \"100ms\"\nbuffer = \"0.1bdp\"\n\
         [[flow]]\ncc = \"{cc}\"\n"
    );
    let scenario = Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}"));
    play(&scenario).flows[0].goodput_mbit / 95.6
}

#[test]
fn htcp_keeps_a_large_path_busy_that_reno_leaves_idle() {
    let (htcp, reno) = (used("htcp"), used("reno"));
    assert!(htcp > 0.9 && reno < 0.8, "{htcp} {reno}");
}
