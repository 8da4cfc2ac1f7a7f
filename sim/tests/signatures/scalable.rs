//! Scalable: the time to recover from a loss does not depend on the rate.

use super::epochs::{alone, epochs, typical};

#[test]
fn scalable_recovers_as_fast_at_three_times_the_rate() {
    let length = |cc, rate: &str, duration| {
        let path = format!("rate = \"{rate}\"\nrtt = \"100ms\"\nbuffer = \"1bdp\"");
        typical(&epochs(&alone(cc, &path, duration)), |e| e.length_s)
    };
    let slower = |cc, duration| length(cc, "30Mbit", duration) / length(cc, "10Mbit", "40s");
    let (scalable, reno) = (slower("scalable", "30s"), slower("reno", "100s"));
    assert!((0.75..1.33).contains(&scalable), "{scalable}");
    assert!(reno > 2.5, "{reno}");
}
