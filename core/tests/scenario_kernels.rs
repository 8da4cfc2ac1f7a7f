//! The releases of Linux that hosts of a scenario follow.

use crate::common;
use narrows_core::kernel::{Kernel, Rule};
use narrows_core::scenario::Scenario;

/// A scenario with these lines in `[host]` and these flows, for congestion controls of narrows.
fn read(host: &str, flows: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"10s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\n[host]\n{host}\n{flows}"
    );
    common::read(&text).map_err(|e| e.to_string())
}

/// A server with BBR on 4.11 beside one with CUBIC on 4.4.
#[test]
fn senders_with_different_releases_share_a_path() {
    let flows = "[[flow]]\ncc = \"cubic\"\n[[flow]]\ncc = \"bbr\"\nlike = \"linux-4.11\"";
    let s = read("like = \"linux-4.4\"\npacing = \"fq\"", flows).unwrap();
    let [old, new] = [0, 1].map(|i| s.host.kernel_of(&s.flows[i]));
    assert_eq!(old, Kernel::named("linux-4.4").unwrap());
    assert_eq!(new, Kernel::named("linux-4.11").unwrap());
    assert!(new.follows(Rule::Bbr) && !old.follows(Rule::Bbr));
    assert_eq!(common::read(&s.to_toml()).unwrap(), s);
}

#[test]
fn single_rules_of_a_host_are_added_and_removed() {
    let rules = "with_rules = [\"sack_compression_third\"]\nwithout_rules = [\"prr_safe_ack\"]";
    let s = read(rules, "[[flow]]\ncc = \"reno\"").unwrap();
    let kernel = s.host.config().kernel;
    assert!(kernel.follows(Rule::SackCompressionThird) && !kernel.follows(Rule::PrrSafeAck));
    let both = "with_rules = [\"prr_safe_ack\"]\nwithout_rules = [\"prr_safe_ack\"]";
    let problem = read(both, "[[flow]]\ncc = \"reno\"").unwrap_err();
    assert!(problem.contains("contradicts with_rules"), "{problem}");
    let problem = read("with_rules = [\"tso\"]", "[[flow]]\ncc = \"reno\"").unwrap_err();
    assert!(problem.contains("tso_deferral_capped"), "{problem}");
}

/// BBR itself does not require pacing; Copa does.
#[test]
fn bbr_needs_linux_4_9_and_pacing_before_4_13_the_discipline_fq() {
    let [bbr, copa] = ["bbr", "copa"].map(|cc| format!("[[flow]]\ncc = \"{cc}\""));
    let problem = read("like = \"linux-4.8\"", &bbr).unwrap_err();
    assert!(
        problem.contains("not part of Linux before 4.9"),
        "{problem}"
    );
    assert!(read("like = \"linux-4.9\"", &bbr).is_ok());
    let problem = read("like = \"linux-4.12\"", &copa).unwrap_err();
    assert!(problem.contains("pacing = \"fq\""), "{problem}");
    assert!(read("like = \"linux-4.12\"\npacing = \"fq\"", &copa).is_ok());
    assert!(read("like = \"linux-4.13\"", &copa).is_ok());
}
