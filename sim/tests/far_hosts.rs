//! Far hosts: which flows share an address, and how CAKE shares the rate among hosts.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;

/// Eight flows of one far host and one flow of another; returns the share of that one flow in the
/// goodput of all.
fn share(path: &str, direction: &str) -> f64 {
    let text = format!(
        "duration = \"30s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"40ms\"\n{path}\n\
         [[flow]]\nid = \"many\"\ncc = \"cubic\"\ncount = 8\nhost = 1\ndirection = \
         \"{direction}\"\n\
         [[flow]]\nid = \"one\"\ncc = \"cubic\"\nhost = 2\ndirection = \"{direction}\"\n"
    );
    let scenario =
        Scenario::from_toml(&text, "hosts", &registry()).unwrap_or_else(|e| panic!("{e}"));
    let goodput: Vec<f64> = play(&scenario)
        .flows
        .iter()
        .map(|flow| flow.goodput_mbit)
        .collect();
    goodput[8] / goodput.iter().sum::<f64>()
}

/// Asserts that `share` is a host's half (which one CUBIC flow does not always fill), or else a
/// flow's ninth.
fn is(share: f64, of_hosts: bool, what: &str) {
    let fair = if of_hosts { 0.38..0.52 } else { 0.09..0.14 };
    assert!(fair.contains(&share), "{what}: {share}");
}

#[test]
fn each_host_has_the_same_and_behind_one_address_each_flow_unless_cake_looks_behind_it() {
    for (nat, looks, of_hosts) in [
        (false, false, true),
        (false, true, true),
        (true, false, false),
        (true, true, true),
    ] {
        let path = format!(
            "nat = {nat}\nqueue = {{ kind = \"cake\", flows = \"dual-dsthost\", nat = {looks} }}"
        );
        is(share(&path, "down"), of_hosts, &path);
    }
}

/// In downloads, far hosts are destinations; in uploads, on the reverse path, they are sources. All
/// flows share one `near` host, so triple-isolate gives the one flow the same short turn as each of
/// the eight.
#[test]
fn only_distinguished_hosts_count() {
    for (words, down, up) in [
        ("dual-dsthost", true, false),
        ("dual-srchost", false, true),
        ("hosts", true, true),
        ("flows", false, false),
        ("triple-isolate", false, false),
    ] {
        let queue = format!("queue = {{ kind = \"cake\", flows = \"{words}\" }}");
        is(share(&queue, "down"), down, words);
        let back = format!("[path.reverse]\nrate = \"10Mbit\"\n{queue}");
        is(share(&back, "up"), up, words);
    }
}
