//! BIC: after a loss its window soon returns near the window of that loss, and stays there for a
//! long time.

use super::epochs::{alone, epochs, typical};

#[test]
fn bic_is_soon_back_and_dwells_at_its_last_maximum() {
    let path = "rate = \"50Mbit\"\nrtt = \"50ms\"\nbuffer = \"1bdp\"";
    let [bic, reno] = ["bic", "reno"].map(|cc| epochs(&alone(cc, path, "40s")));
    let [quick, slow] = [&bic, &reno].map(|e| typical(e, |e| e.length_s));
    assert!(quick * 2.5 < slow, "{quick} {slow}");
    // The share of the time that the window spends within eight packets, of a window of 400.
    let [long, short] = [&bic, &reno].map(|e| typical(e, |e| e.dwell));
    assert!(long > 0.4, "{long}");
    assert!(short < 0.1, "{short}");
}
