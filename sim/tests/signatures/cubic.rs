//! CUBIC fills a fast, long path where Reno cannot: after a loss its window recovers in seconds,
//! whatever the RTT is.

use super::run;

#[test]
fn cubic_is_back_after_a_loss_while_reno_still_climbs() {
    let alone = |cc: &str| {
        run(&format!(
            "duration = \"60s\"\nwarmup = \"20s\"\n[path]\nrate = \"200Mbit\"\nrtt = \
             \"100ms\"\nbuffer = \"0.25bdp\"\n\
             [[flow]]\ncc = \"{cc}\"\n"
        ))
        .flows[0]
            .goodput_mbit
    };
    let (cubic, reno) = (alone("cubic"), alone("reno"));
    assert!(cubic > 170.0, "{cubic}");
    assert!(cubic > 1.1 * reno, "{cubic} {reno}");
}
