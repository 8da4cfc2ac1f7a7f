//! NewReno without SACK: recovery takes one round trip for each lost segment.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs a transfer over 20 Mbit/s and 80 ms, with a buffer that the first slow start overflows.
fn transfer(cc: &str) -> Run {
    let text = format!(
        "duration = \"60s\"\nwarmup = \"0s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"80ms\"\nbuffer = \
         \"0.5bdp\"\n\
         [[flow]]\ncc = \"{cc}\"\nsize = \"2MB\"\n"
    );
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn newreno_repairs_one_hole_per_round_trip() {
    let (newreno, reno) = (transfer("newreno"), transfer("reno"));
    let (holes, took) = (newreno.flows[0].retransmits, newreno.flows[0].fct_s);
    assert!(holes > 20, "{holes}");
    // The RTT is at least 80 ms, and 120 ms with the buffer full.
    let each = (took - reno.flows[0].fct_s) / holes as f64;
    assert!((0.06..0.12).contains(&each), "{each} {took}");
    assert!(reno.flows[0].fct_s < 4.0, "{}", reno.flows[0].fct_s);
}
