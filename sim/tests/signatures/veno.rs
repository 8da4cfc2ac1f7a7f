//! Veno: a loss while the queue is short reduces the window by only a fifth.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// Goodput in Mbit/s over 20 Mbit/s and 40 ms, with random loss of one packet in two hundred.
fn goodput(cc: &str) -> f64 {
    let text = format!(
        "duration = \"40s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\nloss = \
         \"0.5%\"\n\
         [[flow]]\ncc = \"{cc}\"\n"
    );
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}"))).flows[0]
        .goodput_mbit
}

/// If a loss reduces the window by a fifth instead of a half, the mean window is √3 times as large:
/// the root of (1 + 4/5)/(1 − 4/5) divided by (1 + 1/2)/(1 − 1/2).
#[test]
fn veno_bears_random_loss_better_than_reno() {
    let (veno, reno) = (goodput("veno"), goodput("reno"));
    assert!(veno > 1.4 * reno, "{veno} {reno}");
    assert!(veno < 2.1 * reno, "{veno} {reno}");
}
