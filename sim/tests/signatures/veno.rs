//! Veno: a loss that finds no queue costs a fifth.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// 20 Mbit/s, 40 ms, one packet in two hundred lost: Mbit/s.
fn goodput(cc: &str) -> f64 {
    let text = format!(
        "duration = \"40s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\nloss = \
         \"0.5%\"\n\
         [[flow]]\ncc = \"{cc}\"\n"
    );
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}"))).flows[0]
        .goodput_mbit
}

/// With a fifth off instead of half the mean window is larger by √3: (1 + 4/5)/(1 − 4/5) over (1 +
/// 1/2)/(1 − 1/2), its root.
#[test]
fn veno_bears_random_loss_better_than_reno() {
    let (veno, reno) = (goodput("veno"), goodput("reno"));
    assert!(veno > 1.4 * reno, "{veno} {reno}");
    assert!(veno < 2.1 * reno, "{veno} {reno}");
}
