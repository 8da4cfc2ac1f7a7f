//! Features of Linux releases, kernels of distributions, and packages of newer kernels.
//!
//! The source of a feature is the subject of the commit that introduced it in Linux. A distribution
//! may backport a feature, so that the release does not prove its absence. Findings prefer facts of
//! the host itself, if they are visible.

use super::facts::{Facts, Release};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;

/// A feature that a release of Linux introduced.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// The first release with it.
    pub since: Release,
    /// Description for users.
    pub what: &'static str,
    /// Subject of the commit.
    pub source: &'static str,
}

impl Feature {
    /// Release and commit as text.
    pub fn release_and_commit(&self) -> String {
        let (major, minor) = self.since;
        format!("Linux {major}.{minor}, commit \"{}\"", self.source)
    }
}

/// The features.
#[rustfmt::skip]
pub const FEATURES: &[Feature] = &[
    feature("bql", (3, 3), "byte queue limits (BQL): limit the queue of a driver in bytes",
        "dql: Dynamic queue limits"),
    feature("fq_codel", (3, 5), "queue discipline fq_codel", "fq_codel: Fair Queue Codel AQM"),
    feature("tsq", (3, 6), "TCP small queues (TSQ): limit the data of a socket below TCP",
        "tcp: TCP Small Queues"),
    feature("fq", (3, 12), "queue discipline fq, with pacing",
        "pkt_sched: fq: Fair Queue packet scheduler"),
    feature("default_qdisc", (3, 12), "sysctl net.core.default_qdisc",
        "qdisc: allow setting default queuing discipline"),
    feature("congctl", (4, 0), "congestion control per route",
        "net: tcp: add per route congestion control"),
    feature("ecn_fallback", (4, 2),
        "ECN fallback, which connects without ECN where its negotiation fails",
        "tcp: add rfc3168, section 6.1.1.1. fallback"),
    feature("bbr", (4, 9), "BBR", "tcp_bbr: add BBR congestion control"),
    feature("wifi_fq", (4, 10),
        "FQ-CoDel inside mac80211 instead of a qdisc, for drivers that use it",
        "mac80211: Move reorder-sensitive TX handlers to after TXQ dequeue"),
    feature("pacing", (4, 13), "TCP-internal pacing where fq is not used",
        "tcp: internal implementation for pacing"),
    feature("cc_netns", (4, 15), "default congestion control per network namespace",
        "tcp: Namespace-ify sysctl_tcp_default_congestion_control"),
    feature("buffers_netns", (4, 15), "tcp_rmem and tcp_wmem per network namespace",
        "tcp: Namespace-ify sysctl_tcp_rmem and sysctl_tcp_wmem"),
    feature("cake", (4, 19), "queue discipline cake",
        "sched: Add Common Applications Kept Enhanced (cake) qdisc"),
    feature("edt", (4, 20),
        "pacing by earliest departure times, which is exact with and without fq",
        "tcp: switch tcp and sch_fq to new earliest departure time model"),
    feature("bbr_aggregation", (5, 1),
        "compensation for ACK aggregation, as on Wi-Fi, in BBR",
        "tcp_bbr: adapt cwnd based on ack aggregation estimation"),
    feature("airtime", (5, 1), "airtime fairness in mac80211 for drivers that use it",
        "mac80211: Add TXQ scheduling API"),
    feature("aql", (5, 5),
        "airtime queue limits (AQL), which limit the hardware queue of a Wi-Fi card in time",
        "mac80211: Implement Airtime-based Queue Limit (AQL)"),
    feature("fq_pie", (5, 6), "queue discipline fq_pie",
        "net: sched: add Flow Queue PIE packet scheduler"),
    feature("addfd", (5, 9),
        "seccomp notifications that pass a socket to the notified process",
        "seccomp: Introduce addfd ioctl to seccomp user notifier"),
];

const fn feature(
    name: &'static str,
    since: Release,
    what: &'static str,
    source: &'static str,
) -> Feature {
    Feature {
        name,
        since,
        what,
        source,
    }
}

/// The feature of a name; `None` if there is none.
pub fn named(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// Release and commit of a feature as text; empty for an unknown name.
pub fn release_and_commit(name: &str) -> String {
    named(name)
        .map(Feature::release_and_commit)
        .unwrap_or_default()
}

/// Whether a release is at least the one that introduced a feature; `None` if either is unknown.
///
/// ```
/// use narrows_core::tune::features::has;
///
/// assert_eq!(has(Some((4, 9)), "bbr"), Some(true));
/// assert_eq!(has(Some((4, 9)), "pacing"), Some(false));
/// assert_eq!(has(None, "bbr"), None);
/// ```
pub fn has(release: Option<Release>, feature: &str) -> Option<bool> {
    Some(release? >= named(feature)?.since)
}

/// The kernel of a distribution release, and the package of a newer kernel.
struct Shipped {
    distribution: &'static str,
    version: &'static str,
    /// The oldest kernel that the package of a newer kernel has had.
    newer: Option<Release>,
    /// The name of a Debian release.
    codename: &'static str,
}

const fn ubuntu(version: &'static str, newer: Option<Release>) -> Shipped {
    shipped("ubuntu", version, "", newer)
}

const fn debian(version: &'static str, codename: &'static str, newer: Option<Release>) -> Shipped {
    shipped("debian", version, codename, newer)
}

const fn shipped(
    distribution: &'static str,
    version: &'static str,
    codename: &'static str,
    newer: Option<Release>,
) -> Shipped {
    Shipped {
        distribution,
        version,
        newer,
        codename,
    }
}

/// Distribution releases with a package of a newer kernel.
const SHIPPED: &[Shipped] = &[
    ubuntu("16.04", Some((4, 15))),
    ubuntu("18.04", Some((5, 4))),
    ubuntu("20.04", Some((5, 15))),
    ubuntu("22.04", Some((6, 8))),
    ubuntu("24.04", Some((6, 11))),
    debian("8", "jessie", Some((4, 9))),
    debian("9", "stretch", Some((4, 19))),
    debian("10", "buster", Some((5, 10))),
    debian("11", "bullseye", Some((6, 1))),
    debian("12", "bookworm", Some((6, 12))),
];

/// Debian's name of an architecture, by the machine of `uname -m`.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("x86_64", "amd64"),
    ("aarch64", "arm64"),
    ("armv7l", "armmp"),
    ("i686", "686"),
    ("ppc64le", "powerpc64le"),
    ("riscv64", "riscv64"),
];

/// A package that would add a missing feature, and the command that installs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cure {
    /// Name of the package.
    pub name: String,
    /// The command that installs it.
    pub command: Vec<String>,
    /// The reason.
    pub why: String,
}

fn cure(command: &[&str], name: &str, why: String) -> Cure {
    let words = command.iter().chain([&name]);
    Cure {
        name: name.into(),
        command: words.map(ToString::to_string).collect(),
        why,
    }
}

/// The package of a kernel of a host that is at least `since`; `None` if no such package is known.
pub fn newer_kernel(facts: &Facts, since: Release) -> Option<Cure> {
    let (distribution, version) = facts.distribution();
    // A point release (24.10.2) has the row of its release (24.10).
    let of_version = |own: &str| {
        let rest = version.strip_prefix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut rows = SHIPPED.iter();
    let row = rows.find(|row| row.distribution == distribution && of_version(row.version))?;
    let newer = row.newer.filter(|newer| *newer >= since)?;
    let why = format!("it contains Linux {}.{} or newer", newer.0, newer.1);
    if row.distribution == "ubuntu" {
        let name = format!("linux-generic-hwe-{}", row.version);
        let command = ["apt-get", "install", "--install-recommends"];
        return Some(cure(&command, &name, why));
    }
    let machine = facts.machine.as_deref().unwrap_or_default();
    let known = ARCHITECTURES.iter().find(|(own, _)| *own == machine);
    let name = format!("linux-image-{}", known.map_or("amd64", |(_, name)| name));
    let from = format!("{}-backports", row.codename);
    let why = format!("{why}; it requires {from} in the sources of apt");
    Some(cure(&["apt-get", "install", "-t", &from], &name, why))
}

/// Packages of qdisc modules of OpenWrt; `fq_codel` is missing, because it is built into the
/// kernels of OpenWrt.
const OPENWRT_QDISCS: &[(&str, &str)] = &[
    ("sch_cake", "kmod-sched-cake"),
    ("sch_fq", "kmod-sched"),
    ("sch_htb", "kmod-sched-core"),
    ("sch_fq_pie", "kmod-sched-fq-pie"),
];

/// The command that installs a package of OpenWrt, without the name of the package.
pub fn openwrt_install(facts: &Facts) -> [&'static str; 2] {
    if facts.has_apk() {
        ["apk", "add"]
    } else {
        ["opkg", "install"]
    }
}

/// The package that contains a missing module for the running kernel; `None` if no such package is
/// known.
pub fn module_package(facts: &Facts, module: &str) -> Option<Cure> {
    let contains = |name: &str| format!("the package {name} contains {module}");
    match facts.distribution().0 {
        "openwrt" => {
            let mut rows = OPENWRT_QDISCS.iter();
            let name = match module.starts_with("tcp_") {
                true => format!("kmod-{}", module.replace('_', "-")),
                false => rows.find(|(own, _)| *own == module)?.1.to_string(),
            };
            let mut why = contains(&name);
            if module == "tcp_bbr" {
                why += " and makes BBR the default in /etc/sysctl.d/12-tcp-bbr.conf";
            }
            Some(cure(&openwrt_install(facts), &name, why))
        }
        "ubuntu" => {
            let name = format!("linux-modules-extra-{}", facts.release);
            Some(cure(&["apt-get", "install"], &name, contains(&name)))
        }
        "rhel" | "centos" | "rocky" | "almalinux" | "fedora" => {
            let name = format!("kernel-modules-extra-{}", facts.release);
            Some(cure(&["dnf", "install"], &name, contains(&name)))
        }
        _ => None,
    }
}

/// The note of a plan about releases whose TCP paces with one timer per connection. Such a release
/// does not need fq, but fq takes less processor time.
pub fn own_timers(release: Option<Release>, cc: &str) -> Option<String> {
    if has(release, "pacing") != Some(true) || has(release, "edt") == Some(true) {
        return None;
    }
    Some(format!(
        "{cc} needs no fq on this kernel: TCP paces itself, with a timer for each connection \
         ({}). With fq, these timers are not needed, which saves CPU time. To use it, add \
         --qdisc fq.",
        release_and_commit("pacing")
    ))
}

impl Cure {
    /// The words of the command, separated by spaces.
    pub fn line(&self) -> String {
        self.command.join(" ")
    }
}
