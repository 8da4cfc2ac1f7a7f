//! Parses the section `[wifi]`, which describes an access point and its stations, and writes it
//! back. With `[wifi]`, `[path]` is the path between the servers and the access point.

use super::error::{Collector, Fix};
use super::hop::{path, usual_queue};
use super::parse::{Known, MOST_NAME, inside, missing, optional, section, sections};
use super::read::Section;
use super::schema::Values;
use super::value::Node;
use super::write::{Entries, choice_node, put, put_all, quote, write};
use super::{PathSpec, Speed, StationSpec, WifiSpec};
use crate::net::wifi::airtime::AqlLimits;
use crate::net::wifi::ampdu::Limits;
use crate::net::wifi::mac::{SLOW_CODEL, Slow};
use crate::net::wifi::phy::{Band, Phy, Standard, Width};
use crate::net::wifi::{DRIVER_FRAMES, MOST_STATIONS, STACKS, Stack, Tuning};
use crate::units::format_rate;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const WIDTHS: [(&str, Width); 3] = [
    ("20MHz", Width::W20),
    ("40MHz", Width::W40),
    ("80MHz", Width::W80),
];
const STANDARDS: [(&str, Standard); 2] = [("n", Standard::N), ("ac", Standard::Ac)];
const BANDS: [(&str, Band); 2] = [("5GHz", Band::Ghz5), ("2.4GHz", Band::Ghz2)];
const CONTROLS: [(&str, bool); 2] = [("fixed", false), ("minstrel", true)];
/// Default signal-to-noise ratio: every MCS of 802.11n works.
pub(super) const SNR_DB: f64 = 40.0;
const LEAST_SNR_DB: f64 = 0.0;
const MOST_SNR_DB: f64 = 60.0;
/// The default queue discipline of the stack `before`.
pub(super) const QDISC: &str = "pfifo_fast";
/// Maximum number of characters of the key `station` of a flow or a probe: a name with its number.
pub(super) const MOST_STATION: usize = 80;
/// Keys that need one of these stacks.
const STACK_KEYS: [(&str, &[Stack]); 12] = [
    ("qdisc", &[Stack::Before]),
    ("aql", &[Stack::Airtime]),
    ("aql_low", &[Stack::Airtime]),
    ("aql_high", &[Stack::Airtime]),
    ("aql_threshold", &[Stack::Airtime]),
    ("weight", &[Stack::Airtime]),
    ("quantum", &[Stack::FqMac, Stack::Airtime]),
    ("codel_target", &[Stack::FqMac, Stack::Airtime]),
    ("codel_interval", &[Stack::FqMac, Stack::Airtime]),
    ("codel_slow_rate", &[Stack::FqMac, Stack::Airtime]),
    ("codel_slow_target", &[Stack::FqMac, Stack::Airtime]),
    ("codel_slow_interval", &[Stack::FqMac, Stack::Airtime]),
];
/// Keys that need `aql`, in `[wifi]` and in a station.
const AQL_KEYS: [&str; 3] = ["aql_low", "aql_high", "aql_threshold"];
const GUARDS: [(&str, bool); 2] = [("short", true), ("long", false)];

/// A ratio in a scenario's notation.
pub(super) fn decibels(db: f64) -> String {
    format!("{db}dB")
}

/// The valid signal-to-noise ratios in words.
pub(super) fn snr_range() -> String {
    format!("{} to {}", decibels(LEAST_SNR_DB), decibels(MOST_SNR_DB))
}

/// The highest MCS of a standard; that of 802.11n contains the number of streams.
pub(super) fn most_mcs(standard: Standard) -> u64 {
    match standard {
        Standard::N => 31,
        Standard::Ac => 9,
    }
}

fn name_of<T: PartialEq + Copy>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, known)| *known == value);
    found.map_or("", |(name, _)| name)
}

/// A `[wifi]`, and the names of its stations: those of a `count` share one.
pub(super) struct Written {
    pub spec: WifiSpec,
    names: Vec<String>,
}

impl Written {
    /// The stations that a name means: one, or all of a count.
    fn named(&self, name: &str) -> Vec<Option<u8>> {
        let one = self
            .spec
            .stations
            .iter()
            .position(|station| station.name == name);
        let group = self
            .names
            .iter()
            .enumerate()
            .filter(|(_, written)| *written == name);
        match one {
            Some(one) => alloc::vec![Some(one as u8)],
            None => group.map(|(i, _)| Some(i as u8)).collect(),
        }
    }
}

/// The stations of a flow or a probe: one entry for each station, or a single `None` without
/// stations.
pub(super) fn stations(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    wifi: Option<&Written>,
) -> Option<Vec<Option<u8>>> {
    match (s.field("station"), wifi) {
        (None, None) => Some(alloc::vec![None]),
        (Some(f), None) => {
            out.refuse(&f, "needs a [wifi], whose stations have names", Fix::None);
            None
        }
        (None, Some(wifi)) if wifi.spec.stations.len() == 1 => Some(alloc::vec![Some(0)]),
        (None, Some(wifi)) => {
            let line = format!("station = {}", quote(&wifi.names[0]));
            missing(out, s, "station", &line)
        }
        (Some(f), Some(wifi)) => {
            let found = wifi.named(out.text(&f, MOST_STATION)?);
            if found.is_empty() {
                let mut names: Vec<&str> = wifi.names.iter().map(String::as_str).collect();
                names.dedup();
                let fix = Fix::Value(quote(names[0]));
                out.refuse(
                    &f,
                    format!("is not the name of a station; known: {}", names.join(", ")),
                    fix,
                );
                return None;
            }
            Some(found)
        }
    }
}

/// Reads `[wifi]`, if there is one.
pub(super) fn read(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    known: &Known,
) -> Option<Option<Written>> {
    let Some(s) = section(out, top, "wifi").ok()? else {
        return Some(None);
    };
    let wan = wan(out, top, known);
    let mut values = out.values(&s);
    let wrong = values.is_wrong("stack");
    let stack = values.word("stack", &STACKS);
    let before = wrong || stack == Stack::Before;
    let mut fits = wrong || stack_fits(out, &s, stack);
    let qdisc = optional(
        s.field("qdisc").filter(|_| before),
        usual_queue(QDISC, known),
        |f| out.choice(&f, "queue", &known.queues, &[]),
    );
    let tuning = tuning(&mut values);
    if !tuning.aql {
        for f in AQL_KEYS.iter().filter_map(|name| s.field(name)) {
            out.refuse(&f, "needs aql = true", Fix::None);
            fits = false;
        }
    }
    if tuning.slow.is_none() && s.field("codel_slow_rate").is_none() {
        for name in ["codel_slow_target", "codel_slow_interval"] {
            if let Some(f) = s.field(name) {
                out.refuse(&f, "needs codel_slow_rate = \"6Mbit\"", Fix::None);
                fits = false;
            }
        }
    }
    if !fits {
        return None;
    }
    let limits = limits(out, &s);
    let stations = sections(out, &s, "wifi.station");
    let mut wifi = WifiSpec {
        standard: values.word("standard", &STANDARDS),
        width: values.word("width", &WIDTHS),
        band: values.word("band", &BANDS),
        short_guard: values.word("guard", &GUARDS),
        stack,
        qdisc: qdisc?,
        driver: values
            .optional("driver")
            .or((stack == Stack::Before).then_some(DRIVER_FRAMES)),
        limits: limits?,
        tuning,
        stations: Vec::new(),
        wan: wan?.map(Box::new),
        keys: values.rest()?,
    };
    if wifi.standard == Standard::N && wifi.width == Width::W80 {
        if let Some(f) = s.field("width") {
            out.refuse(&f, "needs standard = \"ac\"", Fix::Value(quote("40MHz")));
        }
        return None;
    }
    if wifi.standard == Standard::Ac && wifi.band == Band::Ghz2 {
        if let Some(f) = s.field("band") {
            out.refuse(
                &f,
                "is not available in 802.11ac",
                Fix::Value(quote("5GHz")),
            );
        }
        return None;
    }
    let list = stations?;
    if list.is_empty() {
        let line = "[[wifi.station]]\nname = \"near\"\nmcs = 7";
        out.missing(
            "wifi.station".into(),
            s.at.as_ref(),
            "is missing: a [wifi] has at least one station",
            line.into(),
        );
        return None;
    }
    let (mut names, mut written) = (BTreeSet::new(), Vec::new());
    let mut good = true;
    for s in &list {
        match station(out, s, &wifi) {
            None => good = false,
            Some((station, count)) => {
                let room = (MOST_STATIONS - wifi.stations.len()) as u64;
                if count > room {
                    let problem =
                        format!("is too large: a [wifi] has at most {MOST_STATIONS} stations");
                    out.missing(
                        s.path_of("count"),
                        s.at.as_ref(),
                        problem,
                        format!("count = {}", room.max(1)),
                    );
                    return None;
                }
                for i in 0..count {
                    let name = if count == 1 {
                        station.name.clone()
                    } else {
                        format!("{}{i}", station.name)
                    };
                    if !names.insert(name.clone()) {
                        let problem = format!("is \"{name}\", the name of another station");
                        let line = format!("name = {}", quote(&format!("{name}-2")));
                        out.missing(s.path_of("name"), s.at.as_ref(), problem, line);
                        return None;
                    }
                    written.push(station.name.clone());
                    wifi.stations.push(StationSpec {
                        name,
                        ..station.clone()
                    });
                }
            }
        }
    }
    good.then_some(Some(Written {
        spec: wifi,
        names: written,
    }))
}

/// Refuses keys that need another stack.
fn stack_fits(out: &mut Collector<'_>, s: &Section<'_>, stack: Stack) -> bool {
    let mut fits = true;
    for (name, stacks) in STACK_KEYS {
        if let Some(f) = s.field(name).filter(|_| !stacks.contains(&stack)) {
            let known: Vec<String> = stacks.iter().map(|stack| quote(stack.name())).collect();
            out.refuse(
                &f,
                format!("needs stack = {}", known.join(" or ")),
                Fix::None,
            );
            fits = false;
        }
    }
    fits
}

/// Reads the settings of the driver and of mac80211.
fn tuning(values: &mut Values) -> Tuning {
    let slow = (
        values.take("codel_slow_target"),
        values.take("codel_slow_interval"),
    );
    Tuning {
        txops: values.take("txops"),
        aql: values.take("aql"),
        aql_limits: AqlLimits {
            low: values.take("aql_low"),
            high: values.take("aql_high"),
        },
        aql_threshold: values.take("aql_threshold"),
        weight: values.take("weight"),
        quantum: values.take("quantum"),
        codel: (values.take("codel_target"), values.take("codel_interval")),
        slow: values
            .optional("codel_slow_rate")
            .map(|rate| Slow { rate, codel: slow }),
    }
}

/// Reads `[path]`, which is the path before the access point.
fn wan(out: &mut Collector<'_>, top: &Section<'_>, known: &Known) -> Option<Option<PathSpec>> {
    let Some(f) = top.field("path") else {
        return Some(None);
    };
    let path = path(out, top, known)?;
    let s = inside(&f, "path")?;
    for (key, given) in [("offload", path.offload), ("nat", path.nat)] {
        if let Some(f) = s.field(key).filter(|_| given) {
            out.refuse(
                &f,
                "cannot be combined with [wifi]",
                Fix::Value("false".into()),
            );
            return None;
        }
    }
    Some(Some(path))
}

/// Reads `frames`, `bytes` and `duration` of an aggregate.
fn limits(out: &mut Collector<'_>, s: &Section<'_>) -> Option<Limits> {
    let most = Limits::default();
    let Some(s) = section(out, s, "wifi.aggregate").ok()? else {
        return Some(most);
    };
    out.values(&s).all(|values| Limits {
        frames: values.take("frames"),
        bytes: values.optional("bytes").unwrap_or(most.bytes),
        duration: values.take("duration"),
    })
}

/// One `[[wifi.station]]`, and its count.
fn station(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    wifi: &WifiSpec,
) -> Option<(StationSpec, u64)> {
    let name = match s.field("name") {
        None => missing(out, s, "name", "name = \"near\""),
        Some(f) => Some(out.name(&f, MOST_NAME, "a name", "near")?),
    };
    let mut values = out.values(s);
    let speed = speed(out, s, wifi, &mut values);
    let snr = snr(out, s, &mut values);
    let (name, speed, snr_db) = (name?, speed?, snr?);
    let count = values.take("count");
    let mut fits = stack_fits(out, s, wifi.stack);
    for f in AQL_KEYS.iter().filter_map(|name| s.field(name)) {
        if wifi.stack == Stack::Airtime && !wifi.tuning.aql {
            out.refuse(&f, "needs aql = true in the section wifi", Fix::None);
            fits = false;
        }
    }
    if !fits {
        return None;
    }
    let (aql, usual) = (wifi.tuning.aql_limits, wifi.tuning.codel);
    let codel = (
        values.optional("codel_target"),
        values.optional("codel_interval"),
    );
    let station = StationSpec {
        name,
        speed,
        snr_db,
        error: values.take("error"),
        weight: values.optional("weight").unwrap_or(wifi.tuning.weight),
        aql: AqlLimits {
            low: values.optional("aql_low").unwrap_or(aql.low),
            high: values.optional("aql_high").unwrap_or(aql.high),
        },
        codel: match codel {
            (None, None) => None,
            (target, interval) => Some((target.unwrap_or(usual.0), interval.unwrap_or(usual.1))),
        },
        rtt: values.take("rtt"),
        keys: values.rest()?,
    };
    Some((station, count))
}

/// Reads `rate_control` and `snr`: the signal-to-noise ratio of a station with rate control, in dB.
fn snr(out: &mut Collector<'_>, s: &Section<'_>, values: &mut Values) -> Option<Option<f64>> {
    let chosen = values.word("rate_control", &CONTROLS);
    if let Some(f) = s.field("rate").filter(|_| chosen) {
        out.refuse(
            &f,
            "is a fixed rate, but rate_control selects rates; write mcs, the highest one",
            Fix::None,
        );
        return None;
    }
    let Some(f) = s.field("snr") else {
        return Some(chosen.then_some(SNR_DB));
    };
    if !chosen {
        out.refuse(&f, "needs rate_control = \"minstrel\"", Fix::None);
        return None;
    }
    let text = out.text(&f, 20)?;
    let number = text
        .strip_suffix("dB")
        .and_then(|number| number.trim().parse::<f64>().ok());
    let fine = number.filter(|db| (LEAST_SNR_DB..=MOST_SNR_DB).contains(db));
    if fine.is_none() {
        out.refuse(
            &f,
            format!("is not a signal-to-noise ratio from {}", snr_range()),
            Fix::Value(quote("25dB")),
        );
    }
    fine.map(Some)
}

/// Reads `mcs` and `streams`, or `rate`.
fn speed(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    wifi: &WifiSpec,
    values: &mut Values,
) -> Option<Speed> {
    let streams: Option<u8> = values.optional("streams");
    if let (Some(f), Some(rate)) = (s.field("rate"), values.optional("rate")) {
        for other in ["mcs", "streams"] {
            if let Some(f) = s.field(other) {
                out.refuse(
                    &f,
                    "cannot be combined with rate, which is a rate without MCS",
                    Fix::None,
                );
                return None;
            }
        }
        if Phy::legacy(rate, wifi.band).is_none() {
            let near = Phy::legacy_rates(wifi.band)
                .min_by_key(|known| known.as_bit().abs_diff(rate.as_bit()));
            let known: Vec<String> = Phy::legacy_rates(wifi.band).map(format_rate).collect();
            let fix = near.map_or(Fix::None, |near| Fix::Value(quote(&format_rate(near))));
            out.refuse(
                &f,
                format!("is not a rate of the band; known: {}", known.join(", ")),
                fix,
            );
            return None;
        }
        return Some(Speed::Legacy(rate));
    }
    let Some(f) = s.field("mcs") else {
        return missing(out, s, "mcs", "mcs = 7");
    };
    let index = out.count(&f, 0, most_mcs(wifi.standard))? as u8;
    let streams = match (wifi.standard, s.field("streams")) {
        (Standard::N, Some(f)) => {
            out.refuse(
                &f,
                "is part of the MCS in 802.11n: 8 to 15 have two streams",
                Fix::None,
            );
            return None;
        }
        (Standard::N, None) => index / 8 + 1,
        (Standard::Ac, _) => streams.unwrap_or(1),
    };
    let mcs = if wifi.standard == Standard::N {
        index % 8
    } else {
        index
    };
    let speed = Speed::Mcs(mcs, streams);
    if wifi.phy(speed).is_none() {
        let problem = format!("is not an MCS of 802.11ac with this width and {streams} streams");
        out.refuse(&f, problem, Fix::Value(mcs.saturating_sub(1).to_string()));
        return None;
    }
    Some(speed)
}

/// `[wifi]` for writing.
pub(super) fn node(wifi: &WifiSpec) -> Node {
    let mut e = Entries::new();
    let mut word = |name: &str, word: &str| put(&mut e, name, Node::string(word));
    word("standard", name_of(&STANDARDS, wifi.standard));
    word("width", name_of(&WIDTHS, wifi.width));
    word("band", name_of(&BANDS, wifi.band));
    word("guard", name_of(&GUARDS, wifi.short_guard));
    word("stack", wifi.stack.name());
    if wifi.stack == Stack::Before {
        put(&mut e, "qdisc", choice_node(&wifi.qdisc));
    }
    if let Some(driver) = wifi.driver {
        write(&mut e, "driver", &driver);
    }
    let mut limits = Entries::new();
    write(&mut limits, "frames", &wifi.limits.frames);
    write(&mut limits, "bytes", &wifi.limits.bytes);
    write(&mut limits, "duration", &wifi.limits.duration);
    put(&mut e, "aggregate", Node::table(limits));
    write_tuning(&mut e, &wifi.tuning);
    let stations = wifi.stations.iter().map(|station| {
        let mut e = Entries::new();
        put(&mut e, "name", Node::string(station.name.clone()));
        if let Some(db) = station.snr_db {
            put(&mut e, "rate_control", Node::string("minstrel"));
            put(&mut e, "snr", Node::string(decibels(db)));
        }
        match station.speed {
            Speed::Legacy(rate) => write(&mut e, "rate", &rate),
            Speed::Mcs(mcs, streams) if wifi.standard == Standard::N => {
                put(
                    &mut e,
                    "mcs",
                    Node::integer(8 * (u64::from(streams) - 1) + u64::from(mcs)),
                );
            }
            Speed::Mcs(mcs, streams) => {
                put(&mut e, "mcs", Node::integer(u64::from(mcs)));
                write(&mut e, "streams", &streams);
            }
        }
        if station.error > 0.0 {
            write(&mut e, "error", &station.error);
        }
        if station.weight != wifi.tuning.weight {
            write(&mut e, "weight", &station.weight);
        }
        if station.aql.low != wifi.tuning.aql_limits.low {
            write(&mut e, "aql_low", &station.aql.low);
        }
        if station.aql.high != wifi.tuning.aql_limits.high {
            write(&mut e, "aql_high", &station.aql.high);
        }
        if let Some((target, interval)) = station.codel {
            write(&mut e, "codel_target", &target);
            write(&mut e, "codel_interval", &interval);
        }
        write(&mut e, "rtt", &station.rtt);
        put_all(&mut e, &station.keys);
        Node::table(e)
    });
    put(&mut e, "station", Node::array(stations.collect()));
    put_all(&mut e, &wifi.keys);
    Node::table(e)
}

/// The settings that differ from the defaults.
fn write_tuning(e: &mut Entries, tuning: &Tuning) {
    let usual = Tuning::default();
    if tuning.txops != usual.txops {
        write(e, "txops", &tuning.txops);
    }
    if tuning.aql != usual.aql {
        write(e, "aql", &tuning.aql);
    }
    if tuning.aql_limits.low != usual.aql_limits.low {
        write(e, "aql_low", &tuning.aql_limits.low);
    }
    if tuning.aql_limits.high != usual.aql_limits.high {
        write(e, "aql_high", &tuning.aql_limits.high);
    }
    if tuning.aql_threshold != usual.aql_threshold {
        write(e, "aql_threshold", &tuning.aql_threshold);
    }
    if tuning.weight != usual.weight {
        write(e, "weight", &tuning.weight);
    }
    if tuning.quantum != usual.quantum {
        write(e, "quantum", &tuning.quantum);
    }
    if tuning.codel != usual.codel {
        write(e, "codel_target", &tuning.codel.0);
        write(e, "codel_interval", &tuning.codel.1);
    }
    if let Some(Slow { rate, codel }) = tuning.slow {
        write(e, "codel_slow_rate", &rate);
        if codel != SLOW_CODEL {
            write(e, "codel_slow_target", &codel.0);
            write(e, "codel_slow_interval", &codel.1);
        }
    }
}
