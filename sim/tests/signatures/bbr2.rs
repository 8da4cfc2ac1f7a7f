//! BBR, version 2: N flows that share a buffer keep a queue of (N − 1)/(4N + 1) bandwidth-delay
//! products (BDP) in it.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// Runs `flows` flows of `cc` over 100 Mbit/s and 40 ms with a buffer of one BDP. Returns the mean
/// queue in BDP, and the goodput of all flows in Mbit/s.
fn queue_bdp(cc: &str, flows: u32) -> (f64, f64) {
    let text = format!(
        "duration = \"30s\"\nwarmup = \"10s\"\n[path]\nrate = \"100Mbit\"\nrtt = \"40ms\"\nbuffer \
         = \"1bdp\"\n\
         [[flow]]\ncc = \"{cc}\"\ncount = {flows}\n"
    );
    let run = play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}")));
    let goodput = run.flows.iter().map(|f| f.goodput_mbit).sum();
    (run.queue.delay_ms.mean / 40.0, goodput)
}

/// Scherrer et al. (IMC 2022): version 1 fills such a buffer, and version 2 keeps a queue of at
/// most a quarter of a BDP.
#[test]
fn flows_of_version_2_leave_less_than_a_third_of_a_product_in_the_queue() {
    for n in [2, 5] {
        let expected = f64::from(n - 1) / f64::from(4 * n + 1);
        let (v2, goodput) = queue_bdp("bbr2", n);
        assert!(
            (v2 - expected).abs() < 0.1,
            "{n} flows: {v2}, expected {expected}"
        );
        assert!(goodput > 93.0, "{goodput}");
        let (v1, _) = queue_bdp("bbr", n);
        let (reno, _) = queue_bdp("reno", n);
        assert!(v1 > 0.85, "{v1}");
        assert!(reno > expected + 0.3, "{reno}");
    }
}
