//! BBR does not take a loss as a sign of congestion: 2 % of random loss costs it little goodput,
//! and costs Reno nearly all.

use super::run;

#[test]
fn bbr_bears_two_percent_of_chance_losses() {
    let alone = |cc: &str| {
        run(&format!(
            "duration = \"20s\"\n[path]\nrate = \"50Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\n\
             loss = {{ probability = \"2%\", per = \"packet\" }}\n[[flow]]\ncc = \"{cc}\"\n"
        ))
        .flows[0]
            .goodput_mbit
    };
    let (bbr, reno) = (alone("bbr"), alone("reno"));
    assert!(bbr > 43.0, "{bbr}");
    assert!(reno < 10.0, "{reno}");
}
