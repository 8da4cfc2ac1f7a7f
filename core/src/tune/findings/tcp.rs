//! Findings about TCP: buffers for a path, TCP features, ECN, MTU probing, and the CPU governor.

use super::{ERROR, Finding, GOOD, IP_SYSCTL, NOTE, Path, Rule, WARNING, pick};
use crate::tune::facts::Facts;
use crate::tune::features::release_and_commit;
use crate::tune::general;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) const RULES: &[Rule] = &[buffers, switches, ecn, mtu, governor];

/// Share of a socket buffer that payload can use; Linux counts the rest as overhead
/// (`tcp_adv_win_scale` 1 until Linux 6.6, measured for each connection since).
const SHARE: f64 = 0.5;

/// RTT for which findings state a rate, if no path is given, in ms.
const RTT_MS: f64 = 100.0;

fn size(bytes: f64) -> String {
    if bytes >= 1e6 {
        format!("{:.1} MB", bytes / 1e6)
    } else {
        format!("{:.0} kB", bytes / 1e3)
    }
}

/// Reports whether the TCP buffers let one connection fill the path.
fn buffers(facts: &Facts, path: &Path, to: &mut Vec<Finding>) {
    for (name, what) in [("tcp_wmem", "send"), ("tcp_rmem", "receive")] {
        let key = format!("net.ipv4.{name}");
        // Least, default, most.
        let [_, _, most] = facts.numbers(&key)[..] else {
            continue;
        };
        let most = most as f64;
        let usable = most * SHARE;
        let bdp = path.bdp_bytes();
        let short = bdp.is_some_and(|bdp| usable < bdp);
        let text = format!(
            "the {what} buffer of a connection is at most {} (about half of it is payload, the \
             rest is overhead of the kernel)",
            size(most)
        );
        let held = match bdp {
            None => format!(
                "{text}: enough for {:.0} Mbit/s at an RTT of {RTT_MS:.0} ms",
                usable * 8.0 / 1e6 / (RTT_MS / 1e3)
            ),
            Some(bdp) => {
                let bdp = size(bdp);
                format!("{text}; the bandwidth-delay product of the path is {bdp}")
            }
        };
        let mut why = format!("the {what} buffer limits the data in flight");
        let mut fix = String::new();
        let rtt = path.rtt_ms.unwrap_or_default();
        if short {
            let mbit = usable * 8.0 / 1e3 / pick(rtt == 0.0, 1.0, rtt);
            why += &format!(", here to {mbit:.0} Mbit/s at {rtt:.0} ms");
            let rate = general(path.rate_mbit.unwrap_or_default());
            let rtt = general(rtt);
            fix = format!("`narrows tune plan --rate {rate}Mbit --rtt {rtt}ms`");
        } else if bdp.is_none() {
            why += "; `narrows tune audit --rate 1Gbit --rtt 80ms` checks it for a given path";
        }
        let severity = match bdp {
            None => NOTE,
            Some(_) => pick(short, WARNING, GOOD),
        };
        let source = format!("{IP_SYSCTL}: {name}");
        to.push(
            Finding::new("buffers", severity, held, why, source)
                .about(key)
                .remedy(fix),
        );
    }
}

/// TCP features that are off, and the restart of slow start after an idle period.
fn switches(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for (name, severity, why) in [
        (
            "tcp_window_scaling",
            ERROR,
            "windows are limited to 64 kB: 5 Mbit/s at an RTT of 100 ms",
        ),
        (
            "tcp_moderate_rcvbuf",
            WARNING,
            "receive buffers stay at their default and do not grow",
        ),
        (
            "tcp_sack",
            WARNING,
            "after losses, the sender retransmits only one packet per round trip",
        ),
        (
            "tcp_timestamps",
            NOTE,
            "RTT samples are less frequent, and old segments cannot be detected (PAWS)",
        ),
    ] {
        let key = format!("net.ipv4.{name}");
        if facts.value(&key) == Some("0") {
            let fix = format!("`narrows tune plan --set {key}=1`");
            let source = format!("{IP_SYSCTL}: {name}");
            to.push(
                Finding::new("tcp-switches", severity, "this feature is off", why, source)
                    .about(key)
                    .remedy(fix),
            );
        }
    }
    let idle = "net.ipv4.tcp_slow_start_after_idle";
    if facts.value(idle) == Some("1") {
        to.push(
            Finding::new(
                "tcp-idle",
                NOTE,
                "after an idle period, a connection restarts with a window of ten packets",
                "this adds round trips to large responses on persistent connections; it protects \
                 the path from bursts",
                format!("{IP_SYSCTL}; RFC 5681, 4.1; RFC 7661"),
            )
            .about(idle)
            .remedy(
                "`narrows tune plan --set net.ipv4.tcp_slow_start_after_idle=0`, if the path can \
                 buffer such bursts",
            ),
        );
    }
}

/// Finding about explicit congestion notification (ECN).
fn ecn(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let key = "net.ipv4.tcp_ecn";
    let value = facts.value(key).unwrap_or_default();
    let (meaning, severity) = match value.chars().next() {
        Some('0') => ("neither requested nor accepted", NOTE),
        Some('1') => ("requested and accepted", GOOD),
        Some('2') => ("accepted but not requested", NOTE),
        _ => return,
    };
    let fallback = facts.value("net.ipv4.tcp_ecn_fallback") != Some("0");
    let hangs = pick(
        fallback,
        "",
        "; connections hang on paths that do not pass ECN",
    );
    to.push(
        Finding::new(
            "ecn",
            severity,
            format!("ECN is {meaning}{hangs}"),
            "a queue that marks packets (fq_codel, cake) signals congestion without loss; on paths \
             without such a queue, ECN has no effect",
            format!(
                "{IP_SYSCTL}: tcp_ecn; RFC 3168; {}",
                release_and_commit("ecn_fallback")
            ),
        )
        .about(key)
        .remedy(pick(value == "1", "", "`narrows tune plan --ecn on`")),
    );
}

/// TCP MTU probing, which detects paths on which large packets are lost without an ICMP message.
fn mtu(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let key = "net.ipv4.tcp_mtu_probing";
    let Some(value) = facts.value(key) else {
        return;
    };
    let off = value == "0";
    let what = match value {
        "0" => "TCP MTU probing (RFC 4821) is off",
        "1" => "TCP MTU probing (RFC 4821) begins after repeated timeouts",
        _ => "TCP MTU probing (RFC 4821) is on for every connection",
    };
    to.push(
        Finding::new(
            "mtu-probing",
            pick(off, NOTE, GOOD),
            what,
            "if a path has a smaller MTU and ICMP is filtered (often with tunnels), full-size \
             packets are lost and connections stall",
            format!("{IP_SYSCTL}: tcp_mtu_probing; RFC 4821"),
        )
        .about(key)
        .remedy(pick(off, "`narrows tune plan --mtu-probing`", "")),
    );
}

/// Finding about the CPU frequency governor.
fn governor(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if facts.governors.is_empty() {
        return;
    }
    let names: BTreeSet<&str> = facts.governors.iter().map(String::as_str).collect();
    let slow = ["powersave", "ondemand", "conservative"];
    let slow = slow.iter().any(|name| names.contains(name));
    let names: Vec<&str> = names.into_iter().collect();
    let fix = "`cpupower frequency-set -g performance`, if latency is worth the power consumption";
    to.push(
        Finding::new(
            "governor",
            pick(slow, NOTE, GOOD),
            format!("the CPU frequency governor is {}", names.join(", ")),
            "a CPU at low frequency adds tens of microseconds to a response",
            "Documentation/admin-guide/pm/cpufreq.rst of Linux",
        )
        .remedy(pick(slow, fix, "")),
    );
}
