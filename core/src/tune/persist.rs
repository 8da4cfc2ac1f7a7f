//! The files that make a change persistent, for each kind of configuration: sysctl.d,
//! systemd-networkd, udev and OpenWrt.

use super::facts::{Facts, Interface};
use super::ordered::Ordered;
use super::routes::replacement;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The file for sysctls.
pub const SYSCTL_FILE: &str = "/etc/sysctl.d/99-narrows.conf";
/// The file for sysctls if another file, which is read after [`SYSCTL_FILE`], sets another value,
/// such as Debian's link 99-sysctl.conf.
pub const SYSCTL_FILE_LAST: &str = "/etc/sysctl.d/99-zz-narrows.conf";

const HEAD: &str = "# Written by narrows tune; `narrows tune revert` removes it.\n";

/// Names of queue disciplines in systemd-networkd (systemd.network(5)).
pub const SECTIONS: &[(&str, &str)] = &[
    ("fq", "FairQueueing"),
    ("fq_codel", "FairQueueingControlledDelay"),
    ("cake", "CAKE"),
    ("pfifo_fast", "PFIFOFast"),
    ("pfifo", "PFIFO"),
    ("bfifo", "BFIFO"),
];

/// A file.
pub struct File {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its mode, such as `0644`.
    pub mode: &'static str,
}

/// The text of a sysctl.d file with these settings.
pub fn sysctl_text(settings: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("{key} = {value}\n"))
        .collect();
    format!("{HEAD}{}", lines.concat())
}

/// The path of the file that lists modules to load at boot, before sysctls are set; `None` if
/// unknown.
pub fn modules_file(facts: &Facts) -> Option<&'static str> {
    if facts.is_openwrt() {
        return Some("/etc/modules.d/99-narrows");
    }
    (!facts.os.is_empty()).then_some("/etc/modules-load.d/narrows.conf")
}

/// The name of the file with which networkd configures an interface; `None` if networkd does not.
fn network<'a>(facts: &'a Facts, one: &Interface) -> Option<&'a str> {
    let own = one
        .index
        .map_or("None".to_string(), |index| index.to_string());
    facts.network_files.iter().find_map(|each| {
        let (index, file) = each.split_once(' ').unwrap_or((each, ""));
        let mut roots = ["/etc", "/run", "/usr/lib", "/lib"].iter();
        let folder = |root: &&str| file.strip_prefix(root)?.strip_prefix("/systemd/network/");
        let name = roots.find_map(folder)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'@' | b'-');
        let stem = name.strip_suffix(".network")?;
        (index == own && !stem.is_empty() && stem.bytes().all(plain)).then_some(name)
    })
}

/// A script of OpenWrt that runs when an interface comes up.
fn hotplug(device: &str, commands: &str) -> File {
    File {
        path: "/etc/hotplug.d/iface/99-narrows".into(),
        text: format!(
            "#!/bin/sh\n{HEAD}[ \"$ACTION\" = ifup ] && [ \"$DEVICE\" = {device} ] || exit \
             0\n{commands}"
        ),
        mode: "0755",
    }
}

fn drop_in(name: &str, text: &str) -> File {
    File {
        path: format!("/etc/systemd/network/{name}.d/99-narrows.conf"),
        text: format!("{HEAD}{text}"),
        mode: "0644",
    }
}

fn is_mac(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let octet = |part: &str| part.len() == 2 && part.bytes().all(hex);
    text.len() == 17 && text.split(':').all(octet)
}

/// The file that sets the queue discipline of an interface at boot; `None` if the system is
/// unknown.
pub fn qdisc_file(facts: &Facts, one: &Interface, kind: &str) -> Option<File> {
    let device = &one.name;
    let several = one.root().is_some_and(|root| root.kind == "mq");
    let section = SECTIONS.iter().find(|(own, _)| *own == kind && !several);
    if let (Some(name), Some((_, section))) = (network(facts, one), section) {
        return Some(drop_in(name, &format!("[{section}]\nParent=root\n")));
    }
    let mut commands = Vec::from([format!("root {kind}")]);
    if several {
        commands[0] = "root handle 1: mq".into();
        let minor = |parent: &str| parent.rsplit(':').next().unwrap_or_default().to_string();
        let leaves = one.leaves();
        let leaves = leaves.iter().rev();
        commands.extend(leaves.map(|leaf| format!("parent 1:{} {kind}", minor(&leaf.parent))));
    }
    if facts.is_openwrt() {
        let line = |command: &String| format!("tc qdisc replace dev {device} {command}\n");
        let lines: Vec<String> = commands.iter().map(line).collect();
        return Some(hotplug(device, &lines.concat()));
    }
    if facts.os.is_empty() {
        return None;
    }
    let known = |address: &&String| is_mac(address) && *address != "00:00:00:00:00:00";
    let found = match one.address.as_ref().filter(known).filter(|_| one.hardware) {
        Some(address) => format!("ATTR{{address}}==\"{address}\""),
        None => format!("KERNEL==\"{device}\""),
    };
    let run = |command: &String| format!(", RUN+=\"/sbin/tc qdisc replace dev $name {command}\"");
    let runs: Vec<String> = commands.iter().map(run).collect();
    let runs = runs.concat();
    Some(File {
        path: format!("/etc/udev/rules.d/99-narrows-{device}.rules"),
        text: format!("{HEAD}ACTION==\"add\", SUBSYSTEM==\"net\", {found}{runs}\n"),
        mode: "0644",
    })
}

/// The file that sets a route with its congestion control at boot; `None` if no way to do it is
/// known.
pub fn route_file(facts: &Facts, family: &str, words: &[String]) -> Option<File> {
    let mut values = Ordered::<String>::default();
    for pair in words[1..].chunks_exact(2) {
        values.entry(&pair[0]).clone_from(&pair[1]);
    }
    let value = |key: &str| {
        values
            .0
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value)
    };
    let device = value("dev").map_or("", |device| device);
    if let Some(name) = facts.interface(device).and_then(|one| network(facts, one)) {
        let destination = match (words[0].as_str(), family) {
            ("default", "inet") => "0.0.0.0/0",
            ("default", _) => "::/0",
            (other, _) => other,
        };
        let mut text = format!("[Route]\nDestination={destination}\n");
        for (key, option) in [
            ("via", "Gateway"),
            ("metric", "Metric"),
            ("congctl", "TCPCongestionControlAlgorithm"),
        ] {
            if let Some(value) = value(key) {
                text += &format!("{option}={value}\n");
            }
        }
        return Some(drop_in(name, &text));
    }
    let command = replacement(family, words) + "\n";
    facts.is_openwrt().then(|| hotplug(device, &command))
}
