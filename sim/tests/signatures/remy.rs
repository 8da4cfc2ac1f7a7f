//! RemyCC: its rules depend on gaps between packets and on round-trip times, and not on losses.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

fn run(path: &str, cc: &str) -> Run {
    let text = format!("duration = \"20s\"\n[path]\n{path}\n[[flow]]\ncc = {cc}\n");
    let scenario =
        Scenario::from_toml(&text, "signature", &registry()).unwrap_or_else(|e| panic!("{e}"));
    play(&scenario)
}

/// With random loss of 2 % of the packets the link stays busy and the queue short.
#[test]
fn random_loss_does_not_affect_the_rules() {
    let path = "rate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"4bdp\"\nloss = { probability = \
        0.02, per = \"packet\" }";
    let [remy, reno] = ["\"remy\"", "\"reno\""].map(|cc| run(path, cc));
    assert!(
        remy.flows[0].goodput_mbit > 16.0,
        "{}",
        remy.flows[0].goodput_mbit
    );
    assert!(
        reno.flows[0].goodput_mbit < 5.0,
        "{}",
        reno.flows[0].goodput_mbit
    );
}

/// On paths of the kind that it was trained for, RemyCC fills the link and keeps the buffer nearly
/// empty, while Reno fills the buffer.
#[test]
fn a_deep_buffer_stays_nearly_empty() {
    for (rate, rtt) in [("5Mbit", "40ms"), ("20Mbit", "40ms"), ("50Mbit", "80ms")] {
        let path = format!("rate = \"{rate}\"\nrtt = \"{rtt}\"\nbuffer = \"4bdp\"");
        let [remy, reno] = ["\"remy\"", "\"reno\""].map(|cc| run(&path, cc));
        let busy = remy.flows[0].goodput_mbit / reno.flows[0].goodput_mbit;
        let (short, long) = (remy.queue.delay_ms.p95, reno.queue.delay_ms.p95);
        assert!(busy > 0.85, "{rate} {rtt}: {busy}");
        assert!(short < 0.5 * long, "{rate} {rtt}: {short} {long}");
    }
}

/// The tree of rules determines the behaviour. A tree with a single rule paces at the rate of that
/// rule.
#[test]
fn a_flow_follows_its_tree() {
    let tree = "\"remy-tree 1\\nmultiple 1 increment 1 intersend 3\"";
    let path = "rate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"4bdp\"";
    let run = run(path, &format!("{{ kind = \"remy\", tree = {tree} }}"));
    // 1448 B of payload every 3 ms.
    let goodput = run.flows[0].goodput_mbit;
    assert!((goodput - 3.861).abs() < 0.02, "{goodput}");
    assert_eq!(run.queue.drops, 0);
}
