//! Findings about wireless interfaces: queues, airtime fairness and link rate.

use super::{Finding, GOOD, NOTE, Path, Rule, WARNING, pick};
use crate::tune::facts::{Facts, Interface, Release, is_digits};
use crate::tune::features::{has, release_and_commit};
use crate::tune::general;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) const RULES: &[Rule] = &[queue, air, link];

/// Drivers that use the fair queues of mac80211, each with the first release of Linux in which it
/// does. The qdisc of such an interface is `noqueue`.
const INTERMEDIATE: &[(&str, Release)] = &[
    ("ath9k", (4, 10)),
    ("ath10k_pci", (4, 10)),
    ("ath10k_core", (4, 10)),
    ("mt76", (4, 16)),
    ("mt7603e", (4, 16)),
    ("mt76x2e", (4, 16)),
    ("mt7615e", (5, 1)),
    ("mt7915e", (5, 10)),
    ("mt7921e", (5, 12)),
    ("iwlwifi", (5, 1)),
    ("rtw88", (5, 2)),
    ("rtw88_8822be", (5, 2)),
    ("ath11k_pci", (5, 6)),
];

/// OpenWrt builds mac80211 and the drivers from later kernels (its package `mac80211`). Therefore
/// its drivers use these queues since OpenWrt 17.01 with Linux 4.4.
const BACKPORTED: Release = (4, 4);

/// A weaker signal is reported, dBm.
const WEAK_DBM: i64 = -75;

fn since(one: &Interface) -> Option<Release> {
    let driver = one.driver.as_deref().unwrap_or_default();
    let row = INTERMEDIATE.iter().find(|(name, _)| *name == driver);
    row.map(|(_, since)| *since)
}

/// Findings about the queues of wireless interfaces.
fn queue(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for one in facts.interfaces.iter().filter(|one| one.wireless) {
        let inner = is_fair(facts, one);
        let waits = pick(
            inner,
            "packets wait in the fair queues of mac80211, one per station",
            "packets wait in the queue discipline and then in the network card",
        );
        let why = pick(
            inner,
            "packets to a slow station do not delay those to a fast one",
            "the card queues more packets than it can send soon, which a queue discipline cannot \
             control",
        );
        let fix = pick(inner, String::new(), cure(facts, one));
        let what = format!("{}: {waits}", one.driver_name());
        let severity = pick(inner, GOOD, WARNING);
        to.push(
            Finding::new(
                "wifi-queue",
                severity,
                what,
                why,
                release_and_commit("wifi_fq"),
            )
            .about(&one.name)
            .remedy(fix),
        );
    }
}

/// Whether packets wait in the fair queues of mac80211. The result follows from visible settings
/// or, without them, from the driver and the release of Linux.
fn is_fair(facts: &Facts, one: &Interface) -> bool {
    let wireless = facts.interfaces.iter().filter(|one| one.wireless).count();
    if one.root().is_some_and(|root| root.kind == "noqueue") {
        return true;
    }
    if wireless == 1 && facts.debug.keys().any(|path| path.ends_with("/aqm")) {
        // mac80211 creates this file only for a driver with queues per station.
        return true;
    }
    let (Some(since), Some(kernel)) = (since(one), facts.kernel()) else {
        return false;
    };
    (facts.is_openwrt() && kernel >= BACKPORTED) || (one.root().is_none() && kernel >= since)
}

fn cure(facts: &Facts, one: &Interface) -> String {
    let (name, driver) = (&one.name, one.driver.as_deref().unwrap_or_default());
    match since(one) {
        Some(since) if facts.kernel().is_some_and(|kernel| kernel < since) => {
            let (major, minor) = since;
            format!("Linux {major}.{minor} or newer, where {driver} uses the mac80211 queues")
        }
        Some(_) if one.root().is_some() => format!(
            "`tc qdisc replace dev {name} root noqueue`: {driver} has the queues of mac80211 \
             below it"
        ),
        _ => "a driver that uses the queues of mac80211 (ath9k, ath10k, mt76, iwlwifi from 5.1)"
            .into(),
    }
}

/// Airtime queue limits (AQL) and airtime fairness of wireless drivers.
fn air(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if !facts.interfaces.iter().any(|one| one.wireless) {
        return;
    }
    let debug = &facts.debug;
    if !debug.iter().any(|(path, _)| path.contains("ieee80211")) {
        // OpenWrt's mac80211 is newer than its kernel.
        let old = has(facts.kernel(), "aql") == Some(false) && !facts.is_openwrt();
        let lacks = pick(old, "; this kernel has no airtime queue limits", "");
        to.push(
            Finding::new(
                "wifi-airtime",
                NOTE,
                format!(
                    "could not check airtime fairness and airtime queue limits (AQL), because \
                     debugfs requires root{lacks}"
                ),
                "if a driver lacks them, one slow station can take most of the airtime",
                format!(
                    "{}; {}",
                    release_and_commit("airtime"),
                    release_and_commit("aql")
                ),
            )
            .remedy("run the audit as root, with debugfs mounted"),
        );
        return;
    }
    let enable = debug
        .iter()
        .filter(|(path, _)| path.ends_with("aql_enable"));
    let aql = enable.flat_map(|(_, lines)| lines).next();
    let (severity, state, fix) = match aql {
        Some(line) if line.trim() == "1" => (GOOD, "on", ""),
        Some(_) => {
            let fix = "`echo 1 > /sys/kernel/debug/ieee80211/PHY/aql_enable`";
            (WARNING, "off", fix)
        }
        None => {
            let newer = pick(
                facts.is_openwrt(),
                "OpenWrt from 21.02 on",
                "Linux 5.5 or newer",
            );
            (NOTE, "missing", newer)
        }
    };
    to.push(
        Finding::new(
            "wifi-airtime",
            severity,
            format!("airtime queue limits are {state}"),
            "they limit the queue of the card by time, which keeps the latency of a slow link low",
            release_and_commit("aql"),
        )
        .remedy(fix),
    );
}

/// Bit rate, signal and channel width of a wireless link; the channel width is compared with that
/// of the card.
fn link(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for one in facts.interfaces.iter().filter(|one| one.wireless) {
        let (mut rate, mut wide, mut signal) = (None, None, None);
        for line in &one.link {
            if let Some((mbit, rest)) = bit_rate(line) {
                (rate, wide) = (Some(mbit), width(rest));
            }
            signal = level(line).or(signal);
        }
        let Some(rate) = rate else { continue };
        let most = widest(facts);
        let narrow = wide.zip(most).is_some_and(|(wide, most)| wide < most);
        let weak = signal.is_some_and(|dbm| dbm < WEAK_DBM);
        let mut what = format!("transmit bit rate {} Mbit/s", general(rate));
        if let Some(mhz) = wide {
            what += &format!(", channel width {mhz} MHz");
        }
        if let Some(dbm) = signal {
            what += &format!(", signal {dbm} dBm");
        }
        if weak {
            what += &format!(" (weak: below {WEAK_DBM} dBm)");
        }
        if let (true, Some(most)) = (narrow, most) {
            what += &format!(". The card supports {most} MHz");
        }
        let fix = "a shorter distance to the access point, another band or channel; the access \
                   point selects the channel width";
        to.push(
            Finding::new(
                "wifi-link",
                pick(weak, WARNING, pick(narrow, NOTE, GOOD)),
                what,
                "a slow link needs more airtime for each packet, at the expense of all stations \
                 on the channel; no queue discipline or congestion control can compensate it",
                format!("iw dev {} link; iw phy", one.name),
            )
            .about(&one.name)
            .remedy(pick(weak || narrow, fix, "")),
        );
    }
}

/// The rate of a line `tx bitrate: 117.0 MBit/s MCS …`, Mbit/s, and the text after it.
fn bit_rate(line: &str) -> Option<(f64, &str)> {
    let (_, text) = line.split_once("tx bitrate: ")?;
    let (number, rest) = text.split_once(" MBit/s")?;
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    Some((number.parse().ok().filter(|_| plain)?, rest))
}

/// The number of a text before a unit, which a blank may separate from it: `40MHz`.
fn width(text: &str) -> Option<u32> {
    let before = text.match_indices("MHz").map(|(at, _)| &text[..at]);
    let mut numbers = before.map(|text| {
        let text = text.strip_suffix(' ').unwrap_or(text);
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        &text[text.len() - digits..]
    });
    numbers.find(|digits| is_digits(digits))?.parse().ok()
}

/// The signal of a line `signal: -78 dBm`, dBm.
fn level(line: &str) -> Option<i64> {
    let (_, text) = line.split_once("signal: ")?;
    let (number, _) = text.split_once(" dBm")?;
    let digits = number.strip_prefix('-').unwrap_or(number);
    number.parse().ok().filter(|_| is_digits(digits))
}

/// The largest channel width that the cards support, in MHz, from `iw phy`; `None` if unknown.
fn widest(facts: &Facts) -> Option<u32> {
    let text = facts.phys.join(" ");
    if text.contains("HE160") || text.contains("Supported Channel Width: 160 MHz") {
        return Some(160);
    }
    if text.contains("VHT Capabilities") {
        return Some(80);
    }
    text.contains("HT20/HT40").then_some(40)
}
