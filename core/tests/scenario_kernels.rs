//! The releases of Linux that hosts of a scenario follow.

use crate::common;
use narrows_core::kernel::{Kernel, Rule};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;

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
    let [old, new] = [0, 1].map(|i| s.kernel_of(&s.flows[i]));
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

/// `rmem = "release"` is tcp_rmem of the release.
#[test]
fn buffers_of_the_release_grew_with_4_20_and_6_16() {
    let buffers = |like: &str| {
        let host = format!("like = \"{like}\"\nrmem = \"release\"\nwmem = \"release\"");
        let s = read(&host, "[[flow]]\ncc = \"reno\"").unwrap();
        assert_eq!(common::read(&s.to_toml()).unwrap(), s);
        let config = s.host.config();
        assert_eq!(
            (config.wmem_default.get(), config.wmem_max.get()),
            (16 << 10, 4 << 20)
        );
        (config.rmem_default.get(), config.rmem_max.get())
    };
    assert_eq!(buffers("linux-4.19"), (87_380, 6 << 20));
    assert_eq!(buffers("linux-6.15"), (128 << 10, 6 << 20));
    assert_eq!(buffers("linux-6.16"), (128 << 10, 32 << 20));
}

#[test]
fn given_settings_of_a_host_are_written() {
    let s = read("rto_max = \"2s\"\nrack = false", "[[flow]]\ncc = \"reno\"").unwrap();
    let config = s.host.config();
    assert_eq!((config.rto_max, config.rack), (Span::s(2), false));
    assert_eq!(common::read(&s.to_toml()).unwrap(), s);
    let plain = read("iw = 10", "[[flow]]\ncc = \"reno\"").unwrap();
    assert!(!plain.to_toml().contains("rto_max"));
    assert!(read("rto_max = \"500ms\"", "[[flow]]\ncc = \"reno\"").is_err());
}

#[test]
fn a_run_on_a_kernel_reports_the_keys_that_this_kernel_ignores() {
    let notices = |host: &str, release: &str| {
        let s = read(host, "[[flow]]\ncc = \"cubic\"\n").unwrap();
        s.kernel_notices(&common::registry(), release)
    };
    // The engine sets the sysctl, or fails if the kernel does not have it.
    assert_eq!(notices("rto_max = \"2s\"", "linux-6.18"), [""; 0]);
    let rack = "rack = false\nlike = \"linux-6.12\"";
    assert_eq!(notices(rack, "linux-6.12"), [""; 0]);
    assert_eq!(
        notices(rack, "linux-6.18"),
        [
            "rack = false of [host] has no effect: linux-6.18 always uses RACK; remove rack, or \
          use the simulator with like = \"linux-6.16\" or earlier."
        ]
    );
    let named = format!("{rack}\n[host.a]\nrack = false\n[host.b]\niw = 3");
    assert_eq!(
        notices(&named, "linux-6.18")
            .iter()
            .filter(|n| n.contains("rack"))
            .count(),
        1
    );
}

#[test]
fn keys_that_the_release_ignores_are_noticed() {
    let cubic = "[[flow]]\ncc = \"cubic\"\n";
    let warnings = |host: &str, flow: &str| {
        let s = read(host, &format!("{cubic}{flow}")).unwrap();
        s.notices(&common::registry())
    };
    let ignored = "rto_max = \"2s\" of [host] has no effect: linux-6.12 has no tcp_rto_max_ms; \
        write like = \"linux-6.15\" or later, or with_rules = [\"rto_max\"].";
    assert_eq!(warnings("rto_max = \"2s\"", ""), [ignored]);
    assert_eq!(
        warnings("rto_max = \"2s\"\nlike = \"linux-6.15\"", ""),
        [""; 0]
    );
    let with = "rto_max = \"2s\"\nwith_rules = [\"rto_max\"]";
    assert_eq!(warnings(with, ""), [""; 0]);
    // The limit of all releases before.
    assert_eq!(warnings("rto_max = \"120s\"", ""), [""; 0]);
    // A flow with a later release uses the value.
    assert_eq!(
        warnings("rto_max = \"2s\"", "like = \"linux-6.15\""),
        [""; 0]
    );
    // The value of [host] is reported once, that of another host with its name.
    let named = |keys: &str| format!("[host.a]\n{keys}\n{cubic}sender = \"a\"");
    assert_eq!(
        warnings(&format!("rto_max = \"2s\"\n{}", named("iw = 3")), ""),
        [ignored]
    );
    let own = warnings(&named("rto_max = \"2s\""), "");
    assert_eq!(own, [ignored.replace("[host]", "[host.a]")]);
    let newer = warnings(
        &format!("rto_max = \"2s\"\n{}", named("like = \"linux-6.15\"")),
        "",
    );
    assert_eq!(newer, [""; 0]);
    assert_eq!(
        warnings("rack = false\nlike = \"linux-6.17\"", ""),
        [
            "rack = false of [host] has no effect: linux-6.17 always uses RACK; write like = \
          \"linux-6.16\" or earlier, or without_rules = [\"rack_only\"]."
        ]
    );
    assert_eq!(warnings("rack = false", ""), [""; 0]);
}

/// An error names a key that the file has.
#[test]
fn an_error_in_an_inherited_key_is_reported_at_its_origin() {
    let flow = "[[flow]]\ncc = \"reno\"\nsender = \"a\"";
    let error =
        |host: &str, named: &str| read(host, &format!("[host.a]\n{named}\n{flow}")).unwrap_err();
    assert_eq!(
        error("mss = \"1400B\"", "mtu = \"576B\""),
        "x.toml:8: host.a.mtu = \"576B\" permits segments of 536B, but [host] has mss = \
         \"1400B\"\n    write: mtu = \"576B\"\n           mss = \"536B\""
    );
    let error = error("delayed_ack_max = \"20ms\"", "quickack = true");
    assert!(
        error.starts_with("x.toml:8: host.a.quickack = true contradicts delayed_ack_max of [host]"),
        "{error}"
    );
}
