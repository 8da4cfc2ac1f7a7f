//! The keys of a scenario: one table for the parser, the writer, `narrows list` and the
//! documentation.

mod flows;
mod host;
mod links;
mod path;
mod top;
mod wifi;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::schema::{Form, Key};

/// The keys, by section.
const SECTIONS: [&[Key]; 6] = [
    top::KEYS,
    path::KEYS,
    links::KEYS,
    host::KEYS,
    flows::KEYS,
    wifi::KEYS,
];

/// Every key, those of later versions included.
pub fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.into_iter().flatten()
}

/// Queue disciplines of Linux that equal another discipline with a certain buffer, and the problem
/// that the error states. Such disciplines are rejected with this message, unless a registry has
/// them.
pub(super) const OTHER_QUEUES: &[(&str, &str)] = &[
    ("pfifo", "is fifo with a buffer in packets, such as 1000p"),
    ("bfifo", "is fifo with a buffer in bytes, such as 150kB"),
];

/// The keys of one section. A hop has the path's keys, in any section.
pub(super) fn of(section: &str) -> impl Iterator<Item = &'static Key> + use<'_> {
    all().filter(move |k| k.is_of(section))
}

/// An example of an entry, for sections that are often written inline.
pub(super) fn entry(section: &str) -> Option<&'static str> {
    match section {
        "path.steps" => Some("{ at = \"10s\", rate = \"5Mbit\" }"),
        "path.outages" => Some("{ at = \"20s\", lasts = \"2s\" }"),
        "flow.reroute" | "probe.reroute" => Some("{ at = \"10s\", route = [\"b\"] }"),
        "path.trace" => Some("{ file = \"rates.csv\" }"),
        "path.delay_trace" => Some("{ file = \"delays.txt\" }"),
        _ => None,
    }
}

/// The last word of a section's name.
pub(super) fn last(section: &'static str) -> &'static str {
    section.rsplit('.').next().unwrap_or(section)
}

/// The header of a section.
pub(super) fn header(section: &str) -> String {
    match section {
        "flow" | "probe" | "path.hop" | "wifi.station" | "path.steps" | "path.outages"
        | "flow.reroute" | "probe.reroute" => format!("[[{section}]]"),
        "link" | "switch" => format!("[{section}.NAME]"),
        _ => format!("[{section}]"),
    }
}

/// The name nearest to `written`, if it is near enough to be a misspelling. Among equally near
/// names, one that begins with `written` comes first: `rat` is `rate` and not `rtt`.
pub fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > 40 {
        return None;
    }
    let low = written.to_lowercase().replace('-', "_");
    names
        .map(|name| (distance(&low, name), name))
        .filter(|(d, name)| *d <= (name.len().min(low.len()) / 3).max(1) && *d < name.len())
        .min_by_key(|(d, name)| (*d, !name.starts_with(&low)))
        .map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = alloc::vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut d = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(before[j - 2] + 1);
            }
            row.push(d);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that the code of a section does not take stays in the field `keys` of the section.
    /// Sections without `keys` must take all of their values
    /// ([`Values::all`](super::super::schema)).
    #[test]
    fn values_are_in_sections_that_accept_them() {
        const KEEP: [&str; 8] = [
            "",
            "path",
            "link",
            "host",
            "flow",
            "probe",
            "wifi",
            "wifi.station",
        ];
        const TAKE: [&str; 8] = [
            "path.steps",
            "path.outages",
            "path.trace",
            "path.delay_trace",
            "switch",
            "flow.reroute",
            "probe.reroute",
            "wifi.aggregate",
        ];
        for key in all().filter(|key| key.is_kept()) {
            let known = KEEP
                .iter()
                .chain(&TAKE)
                .any(|section| *section == key.section);
            assert!(known, "{}.{}", key.section, key.name);
        }
    }
}
