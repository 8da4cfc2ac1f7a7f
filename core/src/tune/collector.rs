//! Reads the text that the collector script prints.
//!
//! The text has sections, which begin with `@ NAME WORDS`. Each line of a section follows a `|`,
//! and lines of files have the form `path:line`.

use super::facts::{Facts, Interface, Line, Qdisc, Space, is_digits, number};
use super::ordered::Ordered;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The collector: a POSIX shell script that only reads a host, and prints what it read.
pub const SCRIPT: &str = include_str!("collect.sh");

/// Time within which the collector must end, s.
pub const PATIENCE_S: u64 = 120;
/// Size limit of the collector's text, bytes. The number of lines of each section is limited; even
/// 64 namespaces with 2000 connections each need less.
pub const MOST_BYTES: u64 = 64 << 20;

/// Version of the format of the collector's text.
const VERSION: &str = "1";

/// Limits of a text, which may be that of an untrusted host. The collector prints less. They keep
/// the memory and the time of each rule small.
const MOST_LINES: usize = 1_000_000;
const MOST_SECTIONS: usize = 50_000;
/// Largest number of lines of a section.
const MOST_IN_SECTION: usize = 20_000;
/// Largest size of a line, bytes.
const LONGEST: usize = 16 << 10;
/// Largest number of words of the first line of a section; further words are left out.
const MOST_WORDS: usize = 8;

/// Words before the congestion control in a line of `ss -ti`.
const NOT_CC: [&str; 9] = [
    "ts",
    "sack",
    "ecn",
    "ecnseen",
    "fastopen",
    "accecn",
    "syn_ack_data",
    "app_limited",
    "cong_control",
];

struct Section<'a> {
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
}

/// Path and line of a file.
type Rows<'a> = [(&'a str, &'a str)];

/// Parses the collector's text.
///
/// # Errors
///
/// A message that begins with `name`, if the text is something else, is incomplete, has another
/// version, or is longer than the collector's.
pub fn parse(text: &str, name: &str) -> Result<Facts, String> {
    let lines: Vec<String> = lines(text).take(MOST_LINES + 1).collect();
    if lines.len() > MOST_LINES || lines.iter().any(|line| line.len() > LONGEST) {
        return Err(too_long(name));
    }
    let mut facts = Facts::default();
    for section in sections(&lines, name)? {
        read(
            &mut facts,
            section.words[0],
            &section.words[1..],
            &section.lines,
        );
    }
    Ok(facts)
}

fn too_long(name: &str) -> String {
    format!("{name}: it has more or longer lines than the collector prints")
}

/// The lines of a text. Control characters are replaced, because the text of an untrusted host is
/// printed later.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}'
        ) || matches!(c, '\u{2028}' | '\u{2029}')
    };
    let plain = |c: char| if c != '\t' && c.is_control() { '?' } else { c };
    text.split(ends)
        .map(move |line| line.chars().map(plain).collect())
}

fn sections<'a>(text: &'a [String], name: &str) -> Result<Vec<Section<'a>>, String> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for line in text {
        let words: Vec<&str> = match line.strip_prefix("@ ") {
            Some(rest) => rest.split_whitespace().take(MOST_WORDS).collect(),
            None => Vec::new(),
        };
        if !words.is_empty() {
            let lines = Vec::new();
            sections.push(Section { words, lines });
        } else if let (Some(line), Some(last)) = (line.strip_prefix('|'), sections.last_mut()) {
            last.lines.push(line.trim_end());
        }
    }
    let long = |section: &Section<'_>| section.lines.len() > MOST_IN_SECTION;
    if sections.len() > MOST_SECTIONS || sections.iter().any(long) {
        return Err(too_long(name));
    }
    let first = sections.first().map(|section| section.words.as_slice());
    let problem = match first {
        Some(["collector", VERSION]) => match sections.last().map(|last| last.words.as_slice()) {
            Some(["end"]) => return Ok(sections),
            _ => "the collector's text ends in the middle; collect it anew".to_string(),
        },
        Some(["collector", ..]) => {
            format!("the collector's version is not {VERSION}; collect it anew")
        }
        _ => {
            "not the output of the script that `narrows tune audit --collector` prints".to_string()
        }
    };
    Err(format!("{name}: {problem}"))
}

fn read(facts: &mut Facts, what: &str, words: &[&str], lines: &[&str]) {
    let owned = || lines.iter().map(|line| (*line).into()).collect();
    match what {
        "who" => who(facts, lines),
        "files" => {
            let rows: Vec<_> = lines
                .iter()
                .filter_map(|line| line.split_once(':'))
                .collect();
            files(facts, words.first().copied().unwrap_or_default(), &rows);
        }
        "config" => {
            facts.config_file = words.first().map(|word| (*word).into());
            lines.iter().for_each(|line| option_of(facts, line));
        }
        "list" => match words {
            ["/run/netns", ..] => facts.namespaces = owned(),
            [folder, ..] => {
                facts.boot_files.insert((*folder).into(), owned());
            }
            [] => {}
        },
        "link" => {
            if let [from, to, ..] = words {
                facts.links.insert((*from).into(), (*to).into());
            }
        }
        "module" => {
            if let Some(found) = words.first().and_then(|word| module(word)) {
                facts.loadable.push(found.into());
                facts.modules_seen = true;
            }
        }
        "modules" => facts.modules_seen = true,
        "interface" => facts.interfaces.push(interface(words, lines)),
        "says" => parse_output(facts, words, lines),
        "sockets" => {
            facts.said.insert("ss".into());
            facts.sockets = counted(lines);
        }
        "space" => {
            if let [number, pid, ..] = words {
                let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
                let cc = lines
                    .first()
                    .filter(|line| !line.is_empty() && line.bytes().all(is_name));
                facts.spaces.push(Space {
                    number: (*number).into(),
                    pid: (*pid).into(),
                    cc: cc.map(|cc| (*cc).into()),
                    sockets: counted(lines.get(1..).unwrap_or_default()),
                });
            }
        }
        "lacks" => facts.lacks.extend(words.first().map(|word| (*word).into())),
        _ => {}
    }
}

fn who(facts: &mut Facts, lines: &[&str]) {
    for line in lines {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "uid" => facts.uid = number(value),
            "netns" => {
                let known = matches!(value, "initial" | "container" | "other");
                facts.netns = known.then(|| value.into());
            }
            "machine" => facts.machine = Some(value.into()),
            "there" => {
                facts.there.insert(value.into());
            }
            _ if *line == "writes sysctl" => facts.writes_sysctl = true,
            _ => {}
        }
    }
}

fn files(facts: &mut Facts, what: &str, rows: &Rows) {
    match what {
        "system" => system(facts, rows),
        "machine" => machine(facts, rows),
        "cpu" => facts.cpu = values(rows),
        "loaded" => {
            let named = |value: &str| value.bytes().take_while(|b| is_module(*b)).count();
            let found = rows.iter().map(|(_, value)| &value[..named(value)]);
            facts
                .loaded
                .extend(found.filter(|name| !name.is_empty()).map(String::from));
        }
        "loadable" | "builtin" => {
            // A line of modules.dep is `path: dependencies`. The dependencies have lines of their
            // own.
            let path = |value: &'_ str| value.split(':').next().and_then(module).map(String::from);
            let found: Vec<String> = rows.iter().filter_map(|(_, value)| path(value)).collect();
            match what {
                "loadable" => facts.loadable.extend(found),
                _ => facts.builtin.extend(found),
            }
            facts.modules_seen |= !rows.is_empty();
        }
        "config" => {
            for (path, value) in rows {
                facts.config_file = Some(format!("/{path}"));
                option_of(facts, value);
            }
        }
        "sysctl" => {
            for (path, value) in rows {
                facts.sysctl.insert(path.replace('/', "."), joined(value));
            }
        }
        "boot" => facts
            .boot
            .extend(rows.iter().filter_map(|(path, value)| boot(path, value))),
        "modules" => {
            for (path, value) in rows {
                let word = value.split_whitespace().next();
                if let Some(word) = word.filter(|word| !word.starts_with(['#', ';'])) {
                    facts.boot_modules.push(((*path).into(), word.into()));
                }
            }
        }
        "networkd" => {
            for (path, value) in rows {
                let lines = facts.networkd.entry((*path).into()).or_default();
                lines.push(value.trim().into());
            }
        }
        "links" => {
            let of = |(path, value): &(&str, &str)| {
                let index = path.rsplit('/').next().unwrap_or_default();
                format!(
                    "{index} {}",
                    value.split_once('=').map_or("", |(_, file)| file)
                )
            };
            facts.network_files = rows.iter().map(of).collect();
        }
        "sqm" => facts.sqm = values(rows),
        "packages" => {
            let name = |value: &str| {
                value
                    .split_once(':')
                    .map_or("", |(_, name)| name.trim())
                    .into()
            };
            facts.packages = rows.iter().map(|(_, value)| name(value)).collect();
        }
        "wireless" => {
            for (path, value) in rows {
                let lines = facts.debug.entry((*path).into()).or_default();
                lines.push((*value).into());
            }
        }
        "devices" => {
            let names = rows.iter().filter_map(|(_, value)| value.split_once(':'));
            facts.devices = names.map(|(name, _)| name.trim().into()).collect();
        }
        "own" => {
            for (path, value) in rows {
                *facts.own.entry(format!("/{path}")).or_default() += &format!("{value}\n");
            }
        }
        _ => {}
    }
}

fn values(rows: &Rows) -> Vec<String> {
    rows.iter().map(|(_, value)| (*value).into()).collect()
}

/// The words of a text, separated by single spaces.
pub(super) fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn system(facts: &mut Facts, rows: &Rows) {
    for (path, value) in rows {
        let assigned = || {
            let (key, text) = value.split_once('=').unwrap_or((value, ""));
            (key.into(), text.trim_matches(['"', '\'']).into())
        };
        let ends = |name: &str| path.ends_with(name);
        if ends("osrelease") {
            facts.release = (*value).into();
        } else if ends("hostname") {
            facts.hostname = (*value).into();
        } else if ends("boot_id") {
            facts.boot_id = Some((*value).into());
        } else if ends("os-release") {
            facts.os.extend([assigned()]);
        } else if ends("openwrt_release") {
            facts.openwrt.extend([assigned()]);
        } else if ends("cgroup") {
            facts.cgroup.push((*value).into());
        } else if ends("systemd/container") {
            facts.container = Some((*value).into());
        }
    }
}

fn machine(facts: &mut Facts, rows: &Rows) {
    for (path, value) in rows {
        if path.ends_with("scaling_governor") {
            facts.governors.push((*value).into());
        } else if path.ends_with("sys_vendor") {
            facts.vendor = Some((*value).into());
        } else if path.ends_with("product_name") {
            facts.product = Some((*value).into());
        }
    }
}

fn is_module(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'
}

/// The name of the module in the path of a module file (`tcp_bbr.ko.xz`): a congestion control,
/// queue discipline, classifier or action, or `ifb`.
fn module(path: &str) -> Option<&str> {
    const GROUPS: [&str; 4] = ["tcp_", "sch_", "cls_", "act_"];
    path.split('/').find_map(|part| {
        let length = part.bytes().take_while(|b| is_module(*b)).count();
        let (name, rest) = part.split_at(length);
        let in_group = |group: &&str| {
            name.strip_prefix(*group)
                .is_some_and(|rest| !rest.is_empty())
        };
        let known = name == "ifb" || GROUPS.iter().any(in_group);
        (known && rest.starts_with(".ko")).then_some(name)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn option_of(facts: &mut Facts, line: &str) {
    let named = |text: &'_ str| {
        let rest = text.strip_prefix("CONFIG_")?;
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        (end > 0).then(|| text.len() - rest.len() + end)
    };
    let off = line.strip_prefix("# ");
    if let Some(value) = named(line).and_then(|end| Some((end, line[end..].strip_prefix('=')?))) {
        let (end, value) = value;
        facts
            .config
            .insert(line[..end].into(), value.trim_matches('"').into());
    } else if let Some((off, end)) = off.and_then(|off| Some((off, named(off)?))) {
        if off[end..].starts_with(" is not set") {
            facts.config.insert(off[..end].into(), "n".into());
        }
    }
}

/// A line `key = value` of a sysctl file; a `-` before the key means that errors are ignored.
fn boot(path: &str, value: &str) -> Option<Line> {
    let of_key = |c: char| is_word(c) || matches!(c, '.' | '/' | '*' | '-');
    let assigned = |text: &'_ str| {
        let text = text.trim_start();
        let end = text.find(|c| !of_key(c)).unwrap_or(text.len());
        let value = text[end..].trim_start().strip_prefix('=')?;
        (end > 0).then(|| (text[..end].replace('/', "."), joined(value)))
    };
    let text = value.trim();
    let plain = text.strip_prefix('-').and_then(assigned);
    let (key, value) = plain.or_else(|| assigned(text))?;
    let (file, text) = (path.into(), text.into());
    Some(Line {
        file,
        key,
        value,
        text,
    })
}

fn interface(words: &[&str], lines: &[&str]) -> Interface {
    let mut one = Interface::named(words.first().copied().unwrap_or_default());
    let folder = format!("sys/class/net/{}/", one.name);
    for line in lines {
        let Some((path, value)) = line.split_once(':') else {
            one.hardware |= *line == "device";
            one.wireless |= *line == "wireless";
            one.bridge |= *line == "bridge";
            one.queues += usize::from(line.starts_with("queue "));
            continue;
        };
        attribute(&mut one, path.strip_prefix(&folder).unwrap_or(path), value);
    }
    one
}

fn attribute(one: &mut Interface, what: &str, value: &str) {
    let amount = number(value);
    match what {
        "operstate" => one.state = value.into(),
        "address" => one.address = Some(value.into()),
        "speed" => one.speed_mbit = amount.filter(|rate| *rate > 0),
        "mtu" => one.mtu = amount,
        "ifindex" => one.index = amount,
        "type" => one.kind = amount,
        "tx_queue_len" => one.tx_queue_len = amount,
        "statistics/tx_bytes" => one.tx_bytes = amount,
        "device/uevent" if value.starts_with("DRIVER=") => {
            one.driver = value.strip_prefix("DRIVER=").map(String::from);
        }
        "uevent" if value.starts_with("DEVTYPE=") => {
            one.devtype = value.strip_prefix("DEVTYPE=").map(String::from);
        }
        _ if what.ends_with("byte_queue_limits/limit") => one.bql_limits.extend(amount),
        _ => {}
    }
}

fn parse_output(facts: &mut Facts, words: &[&str], lines: &[&str]) {
    let first = words
        .first()
        .is_some_and(|word| facts.said.insert((*word).into()));
    let trimmed = || lines.iter().map(|line| line.trim().into());
    let named = |name: &str| facts.interfaces.iter().position(|one| one.name == name);
    match words {
        ["tc", ..] if first => {
            here(facts);
            qdiscs(facts, lines);
        }
        ["ip", "-o", ..] => {
            let family = if words.contains(&"-6") {
                "inet6"
            } else {
                "inet"
            };
            let routes = trimmed().filter(|line: &String| !line.is_empty());
            facts
                .routes
                .extend(routes.map(|line| (family.into(), line)));
        }
        ["ethtool", what, name] => {
            if let Some(at) = named(name) {
                ethtool(&mut facts.interfaces[at], what, lines);
            }
        }
        ["iw", "dev", name, what] => {
            if let Some(at) = named(name) {
                let one = &mut facts.interfaces[at];
                let to = if *what == "link" {
                    &mut one.link
                } else {
                    &mut one.about
                };
                *to = trimmed().collect();
            }
        }
        ["iw", "phy", ..] => facts.phys.extend(trimmed()),
        ["systemd-detect-virt", ..] => facts.r#virtual = lines.first().map(|line| (*line).into()),
        _ => {}
    }
}

/// Removes interfaces of other network namespaces, and adds those that /sys does not show.
fn here(facts: &mut Facts) {
    if facts.devices.is_empty() {
        return;
    }
    let names = facts.interfaces.iter().map(|one| one.name.clone());
    let seen: BTreeSet<String> = names.collect();
    let devices: BTreeSet<&String> = facts.devices.iter().collect();
    facts.interfaces.retain(|one| devices.contains(&one.name));
    let new = facts.devices.iter().filter(|name| !seen.contains(*name));
    facts
        .interfaces
        .extend(new.map(|name| Interface::named(name)));
}

fn qdiscs(facts: &mut Facts, lines: &[&str]) {
    // The last queue discipline, and the index of its interface if this is known.
    let mut last: Option<(Option<usize>, usize)> = None;
    let mut places = BTreeMap::new();
    for (at, one) in facts.interfaces.iter().enumerate() {
        places.entry(one.name.clone()).or_insert(at);
    }
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["qdisc", kind, handle, "dev", dev, rest @ ..] = words.as_slice() {
            let mut rest = rest;
            let mut parent = "root";
            if let ["parent", of, left @ ..] = rest {
                (parent, rest) = (of, left);
            } else if let ["root", left @ ..] = rest {
                rest = left;
            } else if rest.first() == Some(&"ingress") || matches!(*kind, "ingress" | "clsact") {
                parent = "ingress";
            }
            if let ["refcnt", left @ ..] = rest {
                rest = left.get(1..).unwrap_or_default();
            }
            let found = Qdisc {
                kind: (*kind).into(),
                handle: (*handle).into(),
                dev: (*dev).into(),
                parent: parent.into(),
                words: rest.iter().map(|word| (*word).into()).collect(),
                ..Qdisc::default()
            };
            let name = dev.split('@').next().unwrap_or_default();
            let at = places.get(name).copied();
            let place = at.map_or(0, |at| {
                facts.interfaces[at].qdiscs.push(found);
                facts.interfaces[at].qdiscs.len() - 1
            });
            last = Some((at, place));
        } else if let Some((Some(at), place)) = last {
            if let (true, Some(counts)) = (line.trim_start().starts_with("Sent "), drops(line)) {
                let qdisc = &mut facts.interfaces[at].qdiscs[place];
                (qdisc.dropped, qdisc.overlimits) = (Some(counts.0), Some(counts.1));
            }
        }
    }
}

/// The numbers of `dropped N, overlimits N`; each has at most 19 digits.
fn drops(line: &str) -> Option<(i128, i128)> {
    let (_, rest) = line.split_once("dropped ")?;
    let (dropped, rest) = rest.split_once(", overlimits ")?;
    let digits = rest.bytes().take(19).take_while(u8::is_ascii_digit).count();
    let known = dropped.len() <= 19 && is_digits(dropped);
    known
        .then(|| Some((number(dropped)?, number(&rest[..digits])?)))
        .flatten()
}

fn ethtool(one: &mut Interface, what: &str, lines: &[&str]) {
    let mut current = false;
    for line in lines {
        let (key, value) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
        let value = value.trim();
        match what {
            "-i" if key == "driver" && one.driver.as_deref().unwrap_or_default().is_empty() => {
                one.driver = Some(value.into());
            }
            "-k" if !value.is_empty() => {
                one.offloads.insert(key.into(), value.into());
            }
            "-g" => {
                current |= key.starts_with("Current hardware");
                if current && key == "TX" && number(value).is_some() {
                    one.ring_tx = number(value);
                }
            }
            "-c" if !value.is_empty() => {
                one.coalesce.insert(key.into(), value.into());
            }
            _ => {}
        }
    }
}

/// The congestion control in a line of `ss -ti`: the last word that is not a known flag, before the
/// first word with a colon.
///
/// ```
/// use narrows_core::tune::collector::cc_of;
///
/// assert_eq!(cc_of(" ts sack ecn cubic wscale:7,7 rto:204"), Some("cubic"));
/// assert_eq!(cc_of(" bbr wscale:7,7"), Some("bbr"));
/// assert_eq!(cc_of(" rto:204 cwnd:10"), None);
/// ```
pub fn cc_of(line: &str) -> Option<&str> {
    let flags = line
        .split_whitespace()
        .take_while(|word| !word.contains(':'));
    flags.filter(|word| !NOT_CC.contains(word)).last()
}

/// Number of connections by congestion control, the largest first.
fn counted(lines: &[&str]) -> Ordered<usize> {
    let mut found = Ordered::<usize>::default();
    let mut places = BTreeMap::new();
    for cc in lines.iter().filter_map(|line| cc_of(line)) {
        let at = *places.entry(cc).or_insert_with(|| {
            found.0.push((cc.into(), 0));
            found.0.len() - 1
        });
        found.0[at].1 += 1;
    }
    found.0.sort_by_key(|one| core::cmp::Reverse(one.1));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_no_collector_prints_is_refused() {
        let read = |inside: &str| {
            let text = format!("@ collector {VERSION}\n@ sockets\n{inside}@ end\n");
            parse(&text, "a file").err().unwrap_or_default()
        };
        assert_eq!(read(&"| x\n".repeat(MOST_IN_SECTION)), "");
        for inside in [
            "| x\n".repeat(MOST_IN_SECTION + 1),
            format!("|{}\n", "x".repeat(LONGEST)),
            "@ x\n".repeat(MOST_SECTIONS),
            "\n".repeat(MOST_LINES),
        ] {
            assert_eq!(read(&inside), too_long("a file"));
        }
    }
}
