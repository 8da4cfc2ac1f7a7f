//! CAKE's ACK filter on a way back that is too slow for all ACKs.

mod common;

use common::{play, registry};
use narrows_core::scenario::Scenario;

/// The mean RTT in ms and the goodput in Mbit/s of a download whose ACKs pass 100 kbit/s.
fn download(filter: &str) -> (f64, f64) {
    let text = format!(
        "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nqueue = \"cake\"\n\
         [path.reverse]\nrate = \"100kbit\"\nqueue = {{ kind = \"cake\", ack_filter = \"{filter}\" }}\n\
         [[flow]]\ncc = \"cubic\"\n"
    );
    let scenario = Scenario::from_toml(&text, "ack_filter", &registry()).unwrap_or_else(|e| panic!("{e}"));
    let run = play(&scenario);
    (run.flows[0].rtt_ms.mean, run.flows[0].goodput_mbit)
}

#[test]
fn acks_that_say_nothing_new_make_way() {
    let (slow, less) = download("no-ack-filter");
    for filter in ["ack-filter", "ack-filter-aggressive"] {
        let (rtt, goodput) = download(filter);
        assert!(
            rtt < slow / 3.0 && goodput > less,
            "{filter}: {rtt} ms, {goodput}; without: {slow} ms, {less}"
        );
    }
}
