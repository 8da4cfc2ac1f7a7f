//! Findings about boot files, virtual machines, containers and routers.

use super::{ERROR, Finding, GOOD, NOTE, Path, Rule, WARNING, pick};
use crate::tune::facts::{CC, Facts, QDISC, State};
use crate::tune::features::{has, release_and_commit};
use crate::tune::listed;
use crate::tune::persist::SECTIONS;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) const RULES: &[Rule] = &[files, modules, networkd, openwrt, router, machine];

/// Names of container types that systemd-detect-virt prints.
const CONTAINERS: [&str; 9] = [
    "docker",
    "podman",
    "lxc",
    "lxc-libvirt",
    "systemd-nspawn",
    "openvz",
    "rkt",
    "wsl",
    "container-other",
];

/// Files that set the congestion control or the default qdisc at boot, files that are overridden,
/// and lines with comments after the value.
fn files(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let order = facts.boot_order();
    for key in [CC, QDISC] {
        let lines: Vec<_> = order.iter().filter(|line| line.key == key).collect();
        let [earlier @ .., last] = lines.as_slice() else {
            continue;
        };
        let losers: Vec<String> = earlier
            .iter()
            .filter(|line| line.value != last.value)
            .map(|line| format!("; /{} sets {} and is overridden", line.file, line.value))
            .collect();
        let lost = !losers.is_empty();
        let by = pick(
            facts.is_openwrt(),
            "OpenWrt's /etc/init.d/sysctl",
            "sysctl.d(5)",
        );
        let (file, value) = (&last.file, &last.value);
        to.push(
            Finding::new(
                "boot-files",
                pick(lost, WARNING, GOOD),
                format!("/{file} sets it to {value} at boot{}", losers.concat()),
                "files are read in the order of their names in all folders, and the last one wins",
                by,
            )
            .about(key)
            .remedy(pick(lost, "remove the line from the overridden files", "")),
        );
    }
    for line in &facts.boot {
        let mark = |c: char| c == '#' || c == ';';
        let mut words = line.value.split_whitespace().skip(1);
        let later = words.any(|word| word.starts_with(mark));
        if later || line.value.ends_with(mark) {
            to.push(
                Finding::new(
                    "boot-comment",
                    ERROR,
                    format!(
                        "`{}`: the comment after the value is part of the value",
                        line.text
                    ),
                    "the kernel rejects this value and keeps the old one",
                    "sysctl.d(5): a comment is a line that begins with # or ;",
                )
                .about(format!("/{}", line.file))
                .remedy("write the comment on its own line"),
            );
        }
    }
}

/// Reports boot files that select a congestion control or qdisc whose kernel module is missing.
fn modules(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for (key, prefix) in [(CC, "tcp_"), (QDISC, "sch_")] {
        let Some(line) = facts.decided(key) else {
            continue;
        };
        let value = line.value.as_str();
        let module = format!("{prefix}{value}");
        let used = facts.available().contains(&value) || facts.value(key) == Some(value);
        if facts.has_module(&module) == State::Missing && !used {
            to.push(
                Finding::new(
                    "boot-module",
                    ERROR,
                    format!("it selects {value}, but this kernel has no {module}"),
                    "the setting fails at every boot, although the file contains it",
                    "/lib/modules, the kernel's configuration",
                )
                .about(format!("/{}", line.file))
                .remedy("`narrows tune plan` names the package that contains it"),
            );
        }
    }
}

/// Queue disciplines and congestion controls of routes that systemd-networkd sets.
fn networkd(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for (file, lines) in &facts.networkd {
        let heads = lines.iter().filter(|line| line.starts_with('['));
        let sections = heads.map(|line| line.trim_matches(['[', ']']));
        let is_kind = |name: &&str| SECTIONS.iter().any(|(_, section)| section == name);
        let kinds: Vec<&str> = sections.filter(is_kind).collect();
        let chosen: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("TCPCongestionControlAlgorithm="))
            .collect();
        let mut text = Vec::new();
        if !kinds.is_empty() {
            text.push(format!("a queue discipline ({})", kinds.join(", ")));
        }
        if !chosen.is_empty() {
            text.push(format!(
                "a route's congestion control ({})",
                chosen.join(", ")
            ));
        }
        if text.is_empty() {
            continue;
        }
        to.push(
            Finding::new(
                "boot-networkd",
                NOTE,
                format!("it sets {}", listed(&text)),
                "networkd sets it each time it configures the interface and overrides other \
                 settings",
                "systemd.network(5)",
            )
            .about(format!("/{file}")),
        );
    }
}

/// OpenWrt: the package of BBR, and a router without SQM.
fn openwrt(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if !facts.is_openwrt() {
        return;
    }
    let has = |name: &str| facts.packages.iter().any(|package| package == name);
    if has("kmod-tcp-bbr") {
        to.push(Finding::new(
            "openwrt-bbr",
            NOTE,
            "the package kmod-tcp-bbr is installed",
            "its file /etc/sysctl.d/12-tcp-bbr.conf makes BBR the default until the package is \
             removed; only connections that end on this router use BBR",
            "OpenWrt's package/kernel/linux/modules/netsupport.mk",
        ));
    }
    let sqm = facts
        .sqm
        .iter()
        .any(|line| line.contains("option enabled '1'"));
    if facts.forwards() && !sqm {
        let lacks = ", and sqm-scripts is not installed";
        to.push(
            Finding::new(
                "openwrt-sqm",
                NOTE,
                format!("SQM is off{}", pick(has("sqm-scripts"), "", lacks)),
                "the queue at the bottleneck makes a home connection slow under load; a shaper \
                 with cake or fq_codel on this router removes it for all hosts behind it, and BBR \
                 on this router does not",
                "OpenWrt's documentation of SQM",
            )
            .remedy(
                "measure the connection, then `opkg install sqm-scripts` and set its rates \
                 slightly below",
            ),
        );
    }
}

/// Reports that the host forwards packets, so that its congestion control does not affect the
/// forwarded flows.
fn router(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if !facts.forwards() {
        return;
    }
    to.push(
        Finding::new(
            "router",
            NOTE,
            "this host forwards packets",
            "the congestion control of this host applies only to connections that end here; for \
             forwarded connections, only its queue disciplines matter",
            "/proc/sys/net/ipv4/ip_forward",
        )
        .remedy(
            "fq_codel or cake on the interface to the slower side, shaped slightly below its \
             rate; not BBR and not fq",
        ),
    );
}

/// Virtual machines and containers, and their restrictions.
fn machine(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let kind = container(facts);
    if let Some(kind) = &kind {
        let locked = pick(facts.locked(), "; its sysctls are read-only", "");
        let old = has(facts.kernel(), "cc_netns") == Some(false);
        let old = pick(old, ", and before Linux 4.15 not even that", "");
        to.push(
            Finding::new(
                "container",
                NOTE,
                format!("this host is a container ({kind}){locked}"),
                format!(
                    "modules, net.core.default_qdisc and physical interfaces belong to the host of \
                     the container; a namespace has only its own default congestion control{old}"
                ),
                release_and_commit("cc_netns"),
            )
            .remedy(
                "run narrows on that host, or load the module there and start the container with \
                 --sysctl net.ipv4.tcp_congestion_control=…",
            ),
        );
    } else if !matches!(facts.uid, None | Some(0)) && facts.default_cc().is_some() {
        to.push(Finding::new(
            "privilege",
            NOTE,
            "the audit ran without root privileges",
            "other network namespaces and debugfs were not checked because they require root",
            "id -u",
        ));
    }
    if let Some(by) = hypervisor(facts).filter(|_| kind.is_none()) {
        to.push(Finding::new(
            "virtual",
            NOTE,
            format!("this host is a virtual machine ({by})"),
            "the hypervisor may suspend its CPU during a burst, so pacing and timestamps are less \
             accurate; the queue of its network card belongs to the hypervisor",
            "DMI, /proc/cpuinfo",
        ));
    }
}

/// The type of the container, or `None` if the host is not a container. A container in which root
/// can change all settings of the host counts as no container.
pub(in crate::tune) fn container(facts: &Facts) -> Option<String> {
    if facts.uid == Some(0) && facts.writes_sysctl && facts.value(QDISC).is_some() {
        return None;
    }
    if let Some(kind) = facts.container.clone().filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    let by_systemd = facts.r#virtual.as_deref();
    if let Some(kind) = by_systemd.filter(|kind| CONTAINERS.contains(kind)) {
        return Some(kind.into());
    }
    let there = |path: &str| facts.there.contains(path);
    if there("/run/.containerenv") {
        return Some("podman".into());
    }
    if there("/proc/vz") && !there("/proc/bc") {
        return Some("openvz".into());
    }
    let groups = ["/docker", "/lxc", "/kubepods", "/containerd"];
    let named = |line: &String| groups.iter().any(|group| line.contains(group));
    if facts.cgroup.iter().any(named) {
        return Some("docker or similar".into());
    }
    (there("/.dockerenv") && !facts.writes_sysctl).then(|| "docker".into())
}

/// The type of the virtual machine, or `None` if none is detected.
fn hypervisor(facts: &Facts) -> Option<String> {
    const PRODUCTS: [(&str, &str); 8] = [
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google Compute", "Google Compute Engine"),
        ("Virtual Machine", "Hyper-V"),
    ];
    let by_systemd = facts.r#virtual.as_deref().unwrap_or_default();
    if !by_systemd.is_empty() && by_systemd != "none" && !CONTAINERS.contains(&by_systemd) {
        return Some(by_systemd.into());
    }
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let text = format!("{} {}", known(&facts.vendor), known(&facts.product));
    if let Some((_, name)) = PRODUCTS.iter().find(|(mark, _)| text.contains(mark)) {
        return Some((*name).to_string());
    }
    let virtual_cpu = |line: &String| line.starts_with("flags") && line.contains(" hypervisor");
    let found = facts.cpu.iter().any(virtual_cpu);
    found.then(|| "hypervisor detected".into())
}
