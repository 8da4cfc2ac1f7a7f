//! Findings about queue disciplines, pacing and the layers below them.

use super::{ERROR, Finding, GOOD, NOTE, Path, Rule, WARNING, pick};
use crate::registry::linux::{self, Role};
use crate::tune::facts::{Facts, Interface, QDISC, Qdisc, State, is_digits};
use crate::tune::features::{has, release_and_commit};
use crate::tune::ordered::Ordered;
use crate::tune::{is_paced, listed};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) const RULES: &[Rule] = &[default, interfaces, pacing, bql, offloads, coalescing];

/// A ring that takes longer is reported, ms.
const RING_MS: f64 = 10.0;
const FRAME_BYTES: f64 = 1514.0;
/// After this number of sent bytes, a driver that supports byte queue limits has set a limit.
const USED_BYTES: i128 = 1_000_000;
const SLOW_MBIT: i128 = 100;
const COALESCED_US: u128 = 100;

/// Interfaces that are up and queue packets: network cards, and other interfaces with a queue
/// discipline.
pub(in crate::tune) fn carriers(facts: &Facts) -> Vec<&Interface> {
    let queues = |one: &Interface| one.root().is_some_and(|root| root.kind != "noqueue");
    let carries = |one: &&Interface| !one.loopback() && one.up() && (one.hardware || queues(one));
    facts.interfaces.iter().filter(carries).collect()
}

/// Whether an administrator configured this queue discipline: it is not the kernel's default and of
/// a kind, such as a shaper, that no default sets.
pub(in crate::tune) fn is_configured(one: &Qdisc) -> bool {
    !one.attached_by_kernel() && linux::Qdisc::role_of(&one.kind) == Role::Configured
}

fn is_fifo(kind: &str) -> bool {
    linux::Qdisc::named(kind).is_some_and(|qdisc| qdisc.fifo)
}

/// The remedy (a command) that gives each flow its own queue.
fn fair(facts: &Facts, dev: &str) -> String {
    let is_there = |kind: &&str| facts.has_module(&format!("sch_{kind}")) != State::Missing;
    let order = pick(facts.forwards(), ["fq_codel", "fq"], ["fq", "fq_codel"]);
    match order.iter().find(|kind| is_there(kind)) {
        None => "this kernel has neither sch_fq nor sch_fq_codel: install the package that \
                 contains them, or use another kernel; then run `narrows tune plan --qdisc \
                 fq_codel`"
            .into(),
        Some(kind) if dev.is_empty() => format!("`narrows tune plan --qdisc {kind}`"),
        Some(kind) => format!("`narrows tune plan --qdisc {kind} --dev {dev}`"),
    }
}

/// The effect of a queue discipline in which flows share a queue, as text.
fn shared(kind: &str) -> String {
    let other = match kind {
        "pfifo_fast" => "the other packets of the same priority band",
        _ => "all other packets that this host sends",
    };
    format!("it has no queue for each flow and no AQM; a bulk transfer delays {other}")
}

/// Finding about the default queue discipline of new interfaces.
fn default(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let Some(kind) = facts.value(QDISC) else {
        to.push(Finding::new(
            "qdisc-default",
            NOTE,
            "net.core.default_qdisc is not visible here",
            "it belongs to the initial network namespace; a container cannot read it",
            release_and_commit("default_qdisc"),
        ));
        return;
    };
    let fifo = is_fifo(kind);
    to.push(
        Finding::new(
            "qdisc-default",
            pick(fifo, NOTE, GOOD),
            format!("new interfaces use the queue discipline {kind}"),
            pick(fifo, shared(kind), "each flow has its own queue".into()),
            release_and_commit("default_qdisc"),
        )
        .remedy(pick(fifo, fair(facts, ""), String::new())),
    );
}

/// Findings about the queue discipline of each interface.
fn interfaces(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if facts.lacks.contains("tc") {
        to.push(
            Finding::new(
                "qdisc",
                NOTE,
                "the queue disciplines of the interfaces are unknown: `tc` is missing",
                "the default applies only to interfaces that come up afterwards",
                "tc(8)",
            )
            .remedy("install iproute2 (OpenWrt: tc-tiny)"),
        );
        return;
    }
    for one in carriers(facts) {
        to.extend(one.root().map(|root| interface(facts, one, root)));
    }
}

fn interface(facts: &Facts, one: &Interface, root: &Qdisc) -> Finding {
    let leaves = one.leaves();
    let mut kinds = Ordered::<usize>::default();
    leaves.iter().for_each(|leaf| *kinds.entry(&leaf.kind) += 1);
    let named = |(kind, n): &(String, usize)| match n {
        1 => kind.clone(),
        n => format!("{n} × {kind}"),
    };
    let names: Vec<String> = kinds.0.iter().map(named).collect();
    let told_kinds = match (root.kind.as_str(), names.is_empty()) {
        (multi @ ("mq" | "mqprio"), true) => format!("{multi} with no leaves"),
        (multi @ ("mq" | "mqprio"), false) => format!("{multi} with {}", listed(&names)),
        _ => listed(&names),
    };
    let is = |name: &str| kinds.0.iter().any(|(kind, _)| kind == name);
    let by_kernel = leaves.iter().all(|leaf| leaf.attached_by_kernel());
    let stale = facts.value(QDISC).filter(|wanted| {
        let only = kinds.0.len() == 1 && is(wanted);
        by_kernel && !kinds.0.is_empty() && !only && !is("noqueue")
    });
    let fifo = kinds.0.iter().find(|(kind, _)| is_fifo(kind));
    let finding = if one.qdiscs.iter().any(is_configured) {
        Finding::new(
            "qdisc",
            GOOD,
            format!("it uses {told_kinds}, configured by an administrator"),
            "narrows does not replace a configured shaper or emulator without --replace",
            "tc -s qdisc show",
        )
    } else if let Some(wanted) = stale {
        let name = &one.name;
        Finding::new(
            "qdisc",
            WARNING,
            format!("it uses {told_kinds}, but the default is {wanted}"),
            "the default applies when an interface comes up for the first time; this one was up \
             before",
            release_and_commit("default_qdisc"),
        )
        .remedy(format!("`narrows tune plan --qdisc {wanted} --dev {name}`"))
    } else {
        let why = fifo.map(|(kind, _)| shared(kind));
        let fix = fifo.map(|_| fair(facts, &one.name));
        Finding::new(
            "qdisc",
            pick(fifo.is_some(), NOTE, GOOD),
            format!("it uses {told_kinds}"),
            why.unwrap_or_else(|| "it is not a plain FIFO queue".into()),
            "tc -s qdisc show",
        )
        .remedy(fix.unwrap_or_default())
    };
    finding.about(&one.name)
}

/// Reports whether congestion controls that require pacing are paced, by fq or by TCP.
fn pacing(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let mut asks: Vec<&str> = Vec::new();
    let used = facts.sockets.0.iter().map(|(cc, _)| cc.as_str());
    for cc in facts.default_cc().into_iter().chain(used) {
        if is_paced(cc) && !asks.contains(&cc) {
            asks.push(cc);
        }
    }
    let Some(internal) = has(facts.kernel(), "pacing").filter(|_| !asks.is_empty()) else {
        return;
    };
    let carrying = carriers(facts);
    let only_fq = |one: &Interface| {
        let leaves = one.leaves();
        !leaves.is_empty() && leaves.iter().all(|leaf| leaf.kind == "fq")
    };
    let names = |of: &mut dyn Iterator<Item = &&Interface>| -> Vec<String> {
        of.map(|one| one.name.clone()).collect()
    };
    let without = names(&mut carrying.iter().filter(|one| !only_fq(one)));
    let who = listed(&asks);
    if without.is_empty() && !carrying.is_empty() {
        let on = listed(&names(&mut carrying.iter()));
        to.push(Finding::new(
            "pacing",
            GOOD,
            format!("{who} is paced by fq on {on}"),
            "packets leave at the pacing rate of the congestion control",
            release_and_commit("fq"),
        ));
    } else if internal {
        let on = match without.len() {
            0 => String::new(),
            _ => format!(" ({})", without.join(", ")),
        };
        let each = "; before Linux 4.20, each packet needs its own timer";
        let timers = pick(has(facts.kernel(), "edt") == Some(true), "", each);
        to.push(Finding::new(
            "pacing",
            GOOD,
            format!("{who} is paced by TCP itself; fq is not needed{on}"),
            format!(
                "since Linux 4.13, sockets pace themselves without fq; fq paces with less CPU \
                 time if there are thousands of flows{timers}"
            ),
            release_and_commit("pacing"),
        ));
    } else {
        let lack = match without.len() {
            0 => "and the queue disciplines are unknown".into(),
            1 => format!("which {} does not have", without[0]),
            _ => format!("which {} do not have", listed(&without)),
        };
        to.push(
            Finding::new(
                "pacing",
                ERROR,
                format!(
                    "{who} is not paced: Linux {} paces only in fq, {lack}",
                    facts.release
                ),
                "it sends bursts of a whole window, which overflow the queue of the bottleneck",
                release_and_commit("pacing"),
            )
            .about(without.join(", "))
            .remedy("`narrows tune plan --qdisc fq`, or Linux 4.13 or newer"),
        );
    }
}

/// Findings about byte queue limits of drivers, below the queue discipline.
fn bql(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for one in carriers(facts) {
        if !one.hardware || one.wireless {
            continue;
        }
        let (name, driver) = (&one.name, one.driver_name());
        let used = one.tx_bytes.is_some_and(|bytes| bytes > USED_BYTES);
        let limit = one.bql_limits.iter().max().filter(|limit| **limit > 0);
        let finding = if let Some(limit) = limit {
            Finding::new(
                "bql",
                GOOD,
                format!("its driver ({driver}) has a byte queue limit of {limit} bytes"),
                "packets therefore wait in the queue discipline",
                release_and_commit("bql"),
            )
        } else if used || (one.ring_tx.is_some() && one.bql_limits.is_empty()) {
            let mut what = format!("its driver ({driver}) has no byte queue limits");
            if let Some(ring) = one.ring_tx {
                what += &format!("; its ring holds {ring} packets");
            }
            let waits = one.ring_tx.zip(one.speed_mbit).map(|(ring, mbit)| {
                let ms = ring as f64 * FRAME_BYTES * 8.0 / mbit as f64 / 1e3;
                what += &format!(", {ms:.0} ms at {mbit} Mbit/s");
                ms
            });
            let deep = waits.is_some_and(|ms| ms > RING_MS);
            let fix = format!("shape slightly below the link rate, or `ethtool -G {name} tx 64`");
            Finding::new(
                "bql",
                pick(deep, WARNING, NOTE),
                what,
                "no queue discipline can manage packets in the ring",
                release_and_commit("bql"),
            )
            .remedy(pick(deep, fix, String::new()))
        } else {
            continue;
        };
        to.push(finding.about(name));
    }
}

/// Findings about segmentation and receive offload.
fn offloads(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for one in carriers(facts) {
        let name = &one.name;
        let is = |what: &str, value: &str| one.offloads.get(what).is_some_and(|v| v == value);
        let off: Vec<&str> = [
            ("tcp-segmentation-offload", "TSO"),
            ("generic-segmentation-offload", "GSO"),
            ("generic-receive-offload", "GRO"),
        ]
        .iter()
        .filter(|(what, _)| is(what, "off"))
        .map(|(_, short)| *short)
        .collect();
        let slow = one.speed_mbit.filter(|mbit| *mbit < SLOW_MBIT);
        if is("large-receive-offload", "on") && facts.forwards() {
            to.push(
                Finding::new(
                    "offloads",
                    ERROR,
                    "large receive offload is on, and this host forwards packets",
                    "merged packets cannot be split into the original ones, so forwarding breaks",
                    "Documentation/networking/netdevices.rst of Linux: NETIF_F_LRO",
                )
                .about(name)
                .remedy(format!("`ethtool -K {name} lro off`")),
            );
        }
        if !off.is_empty() {
            let why = pick(
                slow.is_some(),
                "each packet passes the stack individually; on a slow link this avoids bursts",
                "each packet passes the stack individually, which limits fast links",
            );
            let on: Vec<String> = off
                .iter()
                .map(|f| format!("{} on", f.to_lowercase()))
                .collect();
            let fix = format!("`ethtool -K {name} {}`", on.join(" "));
            let what = format!("off: {}", off.join(", "));
            to.push(
                Finding::new("offloads", NOTE, what, why, "ethtool(8)")
                    .about(name)
                    .remedy(pick(slow.is_some(), String::new(), fix)),
            );
        } else if let Some(mbit) = slow.filter(|_| is("tcp-segmentation-offload", "on")) {
            let ms = 65536.0 * 8.0 / mbit as f64 / 1e3;
            to.push(
                Finding::new(
                    "offloads",
                    NOTE,
                    format!("segmentation offload is on, on a link of {mbit} Mbit/s"),
                    format!(
                        "up to 64 kB leave as one burst, which delays other packets by {ms:.0} ms"
                    ),
                    "Documentation/networking/segmentation-offloads.rst of Linux",
                )
                .about(name)
                .remedy(
                    "cake splits them if it shapes; otherwise the limits of TCP keep bursts small",
                ),
            );
        }
    }
}

/// Findings about the delay of interrupts (coalescing) of network cards.
fn coalescing(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for one in carriers(facts) {
        let adapts = one.coalesce.get("Adaptive RX");
        let adapts = adapts.is_some_and(|value| value.starts_with("on"));
        let Some(text) = one.coalesce.get("rx-usecs").filter(|text| is_digits(text)) else {
            continue;
        };
        let long = text.parse().unwrap_or(u128::MAX) >= COALESCED_US && !adapts;
        let adapting = pick(adapts, " and adapt to the load", "");
        let name = &one.name;
        let fix = format!("`ethtool -C {name} rx-usecs 0` for latency-sensitive traffic");
        to.push(
            Finding::new(
                "coalescing",
                pick(long, NOTE, GOOD),
                format!("interrupts are delayed by up to {text} µs{adapting}"),
                "on short paths this can be the largest part of the delay; it saves CPU time at \
                 high throughput",
                "ethtool(8), -C".to_string(),
            )
            .about(name)
            .remedy(pick(long, fix, String::new())),
        );
    }
}
