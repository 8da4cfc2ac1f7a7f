//! Hybla: its window grows on a satellite path as fast as on a terrestrial path with a short RTT.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// Goodput in Mbit/s over 10 Mbit/s and 600 ms, as over a satellite, with random loss of one burst
/// (super-packet) in two thousand.
fn goodput(cc: &str) -> f64 {
    let text = format!(
        "duration = \"60s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"600ms\"\nbuffer = \"1bdp\"\nloss \
         = \"0.05%\"\n\
         [[flow]]\ncc = \"{cc}\"\n"
    );
    let scenario = Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}"));
    play(&scenario).flows[0].goodput_mbit
}

#[test]
fn hybla_uses_a_far_path_that_reno_does_not() {
    let (hybla, reno) = (goodput("hybla"), goodput("reno"));
    assert!(hybla > 5.0 && hybla > 3.0 * reno, "{hybla} {reno}");
}
