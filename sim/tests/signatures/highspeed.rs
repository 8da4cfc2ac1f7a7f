//! HighSpeed: it grows as Reno where windows are small, and much faster where they are large.

use super::epochs::{alone, epochs, typical};

#[test]
fn highspeed_is_the_faster_the_larger_the_window() {
    let faster = |rate: &str, duration| {
        let path = format!("rate = \"{rate}\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"");
        let length = |cc| typical(&epochs(&alone(cc, &path, duration)), |e| e.length_s);
        length("reno") / length("highspeed")
    };
    // With windows of 26 packets it uses Reno's rule, but counts ACKs, of which there is one for
    // two packets.
    let small = faster("4Mbit", "30s");
    assert!((0.4..0.6).contains(&small), "{small}");
    // With windows of 660 packets it grows by six packets per round trip in that count, and reduces
    // by a third on loss.
    let large = faster("100Mbit", "50s");
    assert!(large > 2.5, "{large}");
}
