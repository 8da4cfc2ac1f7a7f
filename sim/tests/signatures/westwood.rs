//! Westwood+: random losses reduce the goodput little.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// Goodput in Mbit/s over 20 Mbit/s and 40 ms, with random loss of one burst (super-packet) in
/// three hundred.
fn goodput(cc: &str) -> f64 {
    let text = format!(
        "duration = \"30s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\nloss = \
         \"0.3%\"\n\
         [[flow]]\ncc = \"{cc}\"\n"
    );
    let scenario = Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}"));
    play(&scenario).flows[0].goodput_mbit
}

#[test]
fn westwood_has_twice_the_goodput_of_reno_with_random_loss() {
    let (westwood, reno) = (goodput("westwood"), goodput("reno"));
    assert!(reno < 10.0, "{reno}");
    assert!(westwood > 2.0 * reno, "{westwood} {reno}");
}
