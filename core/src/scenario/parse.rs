//! From a tree to a scenario: sections, defaults, and what must hold between keys.

use super::error::{show, Collector, Errors, Fix};
use super::keys::{self, LATER_CCS, LATER_QUEUES};
use super::read::{listed, within, Field, Offer, Section};
use super::value::{Tree, Value};
use super::write::quote;
use super::{Buffer, Choice, FlowSpec, HostSpec, Link, Loss, LossUnit, PathSpec, ProbeKind, ProbeSpec, Scenario};
use crate::packet::Packet;
use crate::param::{no_check, Param, Params, Refusal};
use crate::registry::Registry;
use crate::tcp::EcnMode;
use crate::units::{format_bytes, Bytes, Rate, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A full frame: what a buffer or a bucket must hold for anything to pass.
const FRAME: Bytes = Bytes::new(1514);
const DAY: Span = Span::s(24 * 3600);
const HOUR: Span = Span::s(3600);
const MOST_FLOWS: u64 = 100_000;
const MOST_BDP: f64 = 10_000.0;

impl Scenario {
    /// Reads a TOML document. `file_name` is what errors call it.
    pub fn from_toml<P: Packet + Send + 'static>(
        text: &str,
        file_name: &str,
        registry: &Registry<P>,
    ) -> Result<Scenario, Errors> {
        let tree = Tree::from_toml(text, file_name)?;
        Scenario::from_tree(&tree, file_name, Some(text), registry)
    }

    /// Reads a tree, from TOML or from another language's values. Errors name lines of `source_text` where the tree has
    /// positions in it, else the key's path.
    pub fn from_tree<P: Packet + Send + 'static>(
        tree: &Tree,
        file_name: &str,
        source_text: Option<&str>,
        registry: &Registry<P>,
    ) -> Result<Scenario, Errors> {
        let known = Known {
            ccs: registry
                .ccs()
                .iter()
                .map(|k| offer(k.name, k.params, no_check))
                .collect(),
            queues: registry
                .queues()
                .iter()
                .map(|k| offer(k.name, k.params, k.check))
                .collect(),
        };
        let mut out = Collector::new(file_name, source_text);
        let scenario = scenario(&mut out, tree, &known);
        out.finish(scenario)
    }
}

/// What a registry has, without its packet type.
struct Known {
    ccs: Vec<Offer>,
    queues: Vec<Offer>,
}

fn offer(name: &'static str, params: &'static [Param], check: fn(&Params) -> Result<(), Refusal>) -> Offer {
    Offer { name, params, check }
}

/// Reads every section whatever the others hold, so that all errors are told at once.
fn scenario(out: &mut Collector<'_>, tree: &Tree, known: &Known) -> Option<Scenario> {
    let top = Section {
        name: "",
        path: String::new(),
        table: &tree.root,
        at: None,
    };
    out.known_keys(&top);

    let title = optional(top.field("title"), String::new(), |f| out.text(&f, 200).map(Into::into));
    let duration = match top.field("duration") {
        Some(f) => out.quantity(&f, "s", Span::ms(1), DAY),
        None => missing(out, &top, "duration", "duration = \"60s\""),
    };
    let end = duration.unwrap_or(DAY);
    let warmup = optional(top.field("warmup"), Span::ns(end.as_ns() / 5), |f| {
        let before_end = Span::ns(end.as_ns() - 1);
        let warmup = out.quantity(&f, "s", Span::ZERO, DAY)?;
        if warmup > before_end {
            let fix = crate::units::format_span(Span::ns(end.as_ns() / 5));
            out.refuse(&f, "leaves nothing of the duration", Fix::Value(quote(&fix)));
            return None;
        }
        Some(warmup)
    });
    let seed = optional(top.field("seed"), 1, |f| out.count(&f, 0, u64::MAX));
    let path = path(out, &top, known);
    let host = match section(out, &top, "host") {
        Ok(Some(s)) => HostSpec::read(out, &s),
        Ok(None) => Some(HostSpec::default()),
        Err(()) => None,
    };
    let ecn = host.as_ref().map_or(EcnMode::default(), |host| host.ecn);
    let flows = flows(out, &top, known, end, ecn);
    let farther = flows.iter().flatten().map(|flow| flow.rtt).max();
    let rtt = path.as_ref().map_or(Span::ZERO, |p| p.rtt) + farther.unwrap_or(Span::ZERO);
    // A start moved past the end would be no start.
    let start_jitter = optional(top.field("start_jitter"), rtt.min(end).min(HOUR), |f| {
        out.quantity(&f, "ms", Span::ZERO, end.min(HOUR))
    });
    let probes = probes(out, &top);
    if ["flow", "probe"]
        .iter()
        .all(|name| top.field(name).is_none() && !misspelt(&top, name))
    {
        let line = format!("[[flow]]\n{}", cc_line(known));
        out.missing(
            "flow".into(),
            None,
            "is missing: a scenario has at least one flow or probe",
            line,
        );
    }
    Some(Scenario {
        title: title?,
        duration: duration?,
        warmup: warmup?,
        seed: seed?,
        start_jitter: start_jitter?,
        path: path?,
        host: host?,
        flows: flows?,
        probes: probes?,
    })
}

/// The default where a field is absent; `None` where it is wrong.
pub(super) fn optional<'t, T>(
    f: Option<Field<'t>>,
    default: T,
    read: impl FnOnce(Field<'t>) -> Option<T>,
) -> Option<T> {
    match f {
        Some(f) => read(f),
        None => Some(default),
    }
}

/// Notes that a required key is absent, unless it is there misspelt, which has been told.
fn missing<T>(out: &mut Collector<'_>, s: &Section<'_>, name: &str, line: &str) -> Option<T> {
    if misspelt(s, name) {
        return None;
    }
    out.missing(s.path_of(name), s.at.as_ref(), "is missing", line.into());
    None
}

fn misspelt(s: &Section<'_>, name: &str) -> bool {
    let mut unknown = s
        .table
        .entries
        .iter()
        .filter(|e| keys::of(s.name).all(|k| k.name != e.key));
    unknown.any(|e| keys::nearest(&e.key, keys::of(s.name).map(|k| k.name)) == Some(name))
}

/// The section called `name`, if it was written as one. `Err` where it is something else.
fn section<'t>(out: &mut Collector<'_>, top: &Section<'t>, name: &'static str) -> Result<Option<Section<'t>>, ()> {
    let Some(f) = top.field(name) else { return Ok(None) };
    match &f.entry.node.value {
        Value::Table(table) => {
            let s = Section {
                name,
                path: name.into(),
                table,
                at: f.entry.key_at.clone(),
            };
            out.known_keys(&s);
            Ok(Some(s))
        }
        _ => {
            out.refuse(&f, "is not a section", Fix::Line(format!("[{name}]")));
            Err(())
        }
    }
}

/// The sections of a list, `[[name]]`.
fn sections<'t>(out: &mut Collector<'_>, top: &Section<'t>, name: &'static str) -> Option<Vec<Section<'t>>> {
    let Some(f) = top.field(name) else {
        return Some(Vec::new());
    };
    let line = || Fix::Line(format!("[[{name}]]"));
    let Value::Array(items) = &f.entry.node.value else {
        out.refuse(&f, "is not a list of sections", line());
        return None;
    };
    if items.is_empty() {
        out.refuse(&f, "is an empty list", line());
        return None;
    }
    let mut list = Vec::new();
    let mut good = true;
    for (i, item) in items.iter().enumerate() {
        let path = format!("{name}[{i}]");
        if let Value::Table(table) = &item.value {
            let s = Section {
                name,
                path,
                table,
                at: item.at.clone(),
            };
            out.known_keys(&s);
            list.push(s);
        } else {
            out.value(path, item.at.as_ref(), item, "is not a section", line());
            good = false;
        }
    }
    good.then_some(list)
}

fn path(out: &mut Collector<'_>, top: &Section<'_>, known: &Known) -> Option<PathSpec> {
    let Some(s) = section(out, top, "path").ok()? else {
        return missing(out, top, "path", "[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"");
    };
    let rate = match s.field("rate") {
        Some(f) => out.quantity(&f, "Mbit", Rate::bit(1), Rate::mbit(10_000_000)),
        None => missing(out, &s, "rate", "rate = \"20Mbit\""),
    };
    let rtt = match s.field("rtt") {
        Some(f) => out.quantity(&f, "ms", Span::us(1), HOUR),
        None => missing(out, &s, "rtt", "rtt = \"40ms\""),
    };
    let whole = rtt.unwrap_or(HOUR);
    let delay_forward = optional(s.field("delay_forward"), Span::ns(whole.as_ns() / 2), |f| {
        out.quantity(&f, "ms", Span::ZERO, whole)
    });
    let buffer = optional(s.field("buffer"), None, |f| buffer(out, &f).map(Some));
    let fifo = || Choice {
        kind: "fifo".into(),
        params: known
            .queues
            .iter()
            .find(|offer| offer.name == "fifo")
            .map_or_else(Params::default, |offer| Params::defaults(offer.params)),
    };
    let queue = match s.field("queue") {
        Some(f) => out.choice(&f, "queue", &known.queues, LATER_QUEUES),
        None => Some(fifo()),
    };
    let link = optional(s.field("link"), Link::Serial, |f| link(out, &f, rate));
    let loss = optional(s.field("loss"), Loss::NONE, |f| loss(out, &f));
    let offload = optional(s.field("offload"), false, |f| {
        let offload = out.switch(&f)?;
        if offload && matches!(link, Some(Link::Tbf { .. })) {
            let problem = "does not go with tbf, which cuts super-packets; htb and serial pass them whole";
            out.refuse(&f, problem, Fix::Value("false".into()));
            return None;
        }
        Some(offload)
    });
    Some(PathSpec {
        rate: rate?,
        rtt: rtt?,
        delay_forward: delay_forward?,
        buffer: buffer?,
        queue: queue?,
        link: link?,
        loss: loss?,
        offload: offload?,
    })
}

/// `"0.5bdp"`, `"170p"`, `"250kB"`.
fn buffer(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Buffer> {
    const FORM: &str = "needs a unit: bdp, p (packets) or bytes";
    let text = match &f.entry.node.value {
        Value::String(text) => text.trim(),
        Value::Integer(n) => {
            // Small numbers were meant as products, middling ones as packets, large ones as bytes.
            let fix = match n {
                i128::MIN..=0 => "1bdp".into(),
                1..=10 => format!("{n}bdp"),
                11..=10_000 => format!("{n}p"),
                n => format_bytes(Bytes::new(u64::try_from(*n).unwrap_or(u64::MAX).min(MOST_BUFFER.get()))),
            };
            out.refuse(f, FORM, Fix::Value(quote(&fix)));
            return None;
        }
        Value::Float(x) => {
            let x = if *x > 0.0 && *x <= MOST_BDP { *x } else { 1.0 };
            out.refuse(f, FORM, Fix::Value(quote(&format!("{x}bdp"))));
            return None;
        }
        _ => {
            out.refuse(
                f,
                "is not a buffer: bdp, p (packets) or bytes",
                Fix::Value("\"1bdp\"".into()),
            );
            return None;
        }
    };
    let unit_at = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, unit) = (text[..unit_at].trim(), text[unit_at..].trim());
    if number.is_empty() {
        out.refuse(
            f,
            "is not a buffer: bdp, p (packets) or bytes",
            Fix::Value("\"1bdp\"".into()),
        );
        return None;
    }
    match unit.to_lowercase().as_str() {
        unit_text if keys::nearest(unit_text, ["bdp"].into_iter()).is_some() => {
            let x: f64 = number.parse().unwrap_or(f64::NAN);
            let good = x > 0.0 && x <= MOST_BDP;
            if good && unit == "bdp" {
                return Some(Buffer::Bdp(x));
            }
            let problem = if good {
                "has a unit that is written bdp"
            } else {
                "must be above 0bdp and at most 10000bdp"
            };
            let fix = if good {
                x
            } else if x > MOST_BDP {
                MOST_BDP
            } else {
                1.0
            };
            out.refuse(f, problem, Fix::Value(quote(&format!("{fix}bdp"))));
            None
        }
        "p" | "pkt" | "pkts" | "packet" | "packets" => {
            let n: Option<u64> = number.parse().ok();
            match n {
                Some(n @ 1..=10_000_000) if unit == "p" => return Some(Buffer::Packets(n)),
                Some(n @ 1..=10_000_000) => {
                    out.refuse(f, "has a unit that is written p", Fix::Value(quote(&format!("{n}p"))));
                }
                _ => {
                    let near = number.parse::<f64>().map_or(1000.0, |x| libm::round(x).clamp(1.0, 1e7));
                    out.refuse(
                        f,
                        "must be whole packets from 1p to 10000000p",
                        Fix::Value(quote(&format!("{near}p"))),
                    );
                }
            }
            None
        }
        "" => {
            let x: f64 = number.parse().unwrap_or(1.0);
            let fix = if x > 0.0 && x <= 10.0 {
                format!("{x}bdp")
            } else {
                "1bdp".into()
            };
            out.refuse(f, FORM, Fix::Value(quote(&fix)));
            None
        }
        _ => match within(text, "kB", FRAME, MOST_BUFFER) {
            Ok(n) => Some(Buffer::Bytes(n)),
            Err(e) => {
                out.refuse(
                    f,
                    e.problem.replace("known: ", "known: bdp, p, "),
                    Fix::Value(quote(&e.fix)),
                );
                None
            }
        },
    }
}
const MOST_BUFFER: Bytes = Bytes::new(1_000_000_000_000);

/// `"serial"`, `"tbf"`, `{ kind = "htb", burst = "3080B" }`.
fn link(out: &mut Collector<'_>, f: &Field<'_>, rate: Option<Rate>) -> Option<Link> {
    let (name, field) = out.kind(f, "link")?;
    let parameters: &[&str] = match name {
        "serial" => &[],
        "tbf" | "htb" => &["burst"],
        _ => {
            let fix = keys::nearest(name, ["serial", "tbf", "htb"].into_iter()).unwrap_or("tbf");
            let problem = "is not a known link; known: serial, tbf, htb";
            out.refuse(field.as_ref().unwrap_or(f), problem, Fix::Value(quote(fix)));
            return None;
        }
    };
    let mut burst = tbf_burst(rate.unwrap_or_default());
    if let Value::Table(table) = &f.entry.node.value {
        for entry in table.entries.iter().filter(|e| e.key != "kind") {
            let field = Field {
                path: format!("{}.{}", f.path, entry.key),
                entry,
            };
            if !parameters.contains(&field.name()) {
                let fix = keys::nearest(&entry.key, ["burst"].into_iter().filter(|_| name != "serial"));
                let problem = format!("is not a parameter of {name}; it has: {}", listed(parameters));
                out.refuse(&field, problem, fix.map_or(Fix::None, Fix::Key));
                return None;
            }
            burst = out.quantity(&field, "B", FRAME, Bytes::new(1_000_000_000))?;
        }
    }
    Some(match name {
        "tbf" => Link::Tbf { burst },
        "htb" => Link::Htb { burst },
        _ => Link::Serial,
    })
}

/// `0.01`, `"1%"`, `{ probability = "1%", per = "packet" }`.
fn loss(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Loss> {
    let Value::Table(table) = &f.entry.node.value else {
        let probability = out.probability(f)?;
        return Some(Loss {
            probability,
            ..Loss::NONE
        });
    };
    const KEYS: [&str; 2] = ["probability", "per"];
    let units = LossUnit::ALL.map(LossUnit::word);
    if table.get("kind").is_some() {
        let problem = "(a model of loss) is not supported yet by this version; a probability is";
        out.refuse(f, problem, Fix::Value("\"1%\"".into()));
        return None;
    }
    let (mut probability, mut per, mut good) = (None, Loss::NONE.per, true);
    for entry in &table.entries {
        let field = Field {
            path: format!("{}.{}", f.path, super::write::key(&entry.key)),
            entry,
        };
        match field.name() {
            "probability" => {
                probability = out.probability(&field);
                good &= probability.is_some();
            }
            "per" => match out.word(&field, &units, units[1]) {
                Some(word) => {
                    per = LossUnit::ALL
                        .into_iter()
                        .find(|unit| unit.word() == word)
                        .unwrap_or(per)
                }
                None => good = false,
            },
            _ => {
                let problem = format!("is not a parameter of loss; it has: {}", listed(&KEYS));
                let fix = keys::nearest(&entry.key, KEYS.into_iter()).map_or(Fix::None, Fix::Key);
                out.refuse(&field, problem, fix);
                good = false;
            }
        }
    }
    if good && probability.is_none() {
        let fix = format!("{{ probability = \"1%\", per = \"{}\" }}", per.word());
        out.refuse(f, "has no probability", Fix::Value(fix));
    }
    let probability = probability.filter(|_| good)?;
    Some(Loss { probability, per })
}

/// Two frames with their link layer's overhead, or a quarter of a millisecond, whichever is more.
fn tbf_burst(rate: Rate) -> Bytes {
    Bytes::new(3080)
        .max(rate * Span::us(250))
        .min(Bytes::new(1_000_000_000))
}

fn flows(out: &mut Collector<'_>, top: &Section<'_>, known: &Known, end: Span, ecn: EcnMode) -> Option<Vec<FlowSpec>> {
    let list = sections(out, top, "flow")?;
    let mut flows = Vec::new();
    let mut ids = BTreeSet::new();
    let mut unnamed: BTreeMap<String, u64> = BTreeMap::new();
    let mut good = true;
    for s in &list {
        let room = MOST_FLOWS - flows.len() as u64;
        let Some((template, count, named)) = flow(out, s, known, end, ecn) else {
            good = false;
            continue;
        };
        if count > room {
            let f = s.field("count");
            let near = f.as_ref().and_then(|f| f.entry.key_at.as_ref()).or(s.at.as_ref());
            let problem = format!("is too much: {MOST_FLOWS} flows at most, all together");
            out.missing(s.path_of("count"), near, problem, format!("count = {room}"));
            return None;
        }
        for i in 0..count {
            let id = match &named {
                Some(id) if count == 1 => id.clone(),
                Some(id) => format!("{id}{i}"),
                None => {
                    let n = unnamed.entry(template.cc.kind.clone()).or_default();
                    *n += 1;
                    format!("{}{}", template.cc.kind, *n - 1)
                }
            };
            if !ids.insert(id.clone()) {
                let near = s.field("id").and_then(|f| f.entry.key_at.clone()).or(s.at.clone());
                let mut other = id.clone();
                while ids.contains(&other) {
                    other.push_str("-2");
                }
                let problem = format!("is \"{id}\", which another flow is called already");
                out.missing(
                    s.path_of("id"),
                    near.as_ref(),
                    problem,
                    format!("id = {}", quote(&other)),
                );
                good = false;
                break;
            }
            flows.push(FlowSpec { id, ..template.clone() });
        }
    }
    good.then_some(flows)
}

/// An example of a congestion control.
fn cc_line(known: &Known) -> String {
    format!("cc = {}", quote(known.ccs.first().map_or("", |offer| offer.name)))
}

/// One `[[flow]]`: the flow, how many of it, and the id it was given.
fn flow(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &Known,
    end: Span,
    host_ecn: EcnMode,
) -> Option<(FlowSpec, u64, Option<String>)> {
    let cc = match s.field("cc") {
        Some(f) => out.choice(&f, "congestion control", &known.ccs, LATER_CCS),
        None => missing(out, s, "cc", &cc_line(known)),
    };
    let count = optional(s.field("count"), 1, |f| out.count(&f, 1, MOST_FLOWS));
    let rtt = optional(s.field("rtt"), Span::ZERO, |f| out.quantity(&f, "ms", Span::ZERO, HOUR));
    let start = optional(s.field("start"), Span::ZERO, |f| {
        let start = out.quantity(&f, "s", Span::ZERO, DAY)?;
        if start >= end {
            out.refuse(&f, "is not before the end of the scenario", Fix::Value("\"0s\"".into()));
            return None;
        }
        Some(start)
    });
    let stop = optional(s.field("stop"), None, |f| {
        let stop = out.quantity(&f, "s", Span::ns(1), DAY)?;
        if start.is_some_and(|start| stop <= start) {
            let fix = crate::units::format_span(end);
            out.refuse(&f, "is not after the flow's start", Fix::Value(quote(&fix)));
            return None;
        }
        Some(Some(stop))
    });
    let restart = optional(s.field("restart"), None, |f| {
        let restart = out.quantity(&f, "s", Span::ns(1), DAY)?;
        let after = match stop.flatten() {
            Some(stop) if restart > stop => return Some(Some(restart)),
            Some(stop) => stop,
            None => start.unwrap_or(Span::ZERO),
        };
        let later = crate::units::format_span(after + Span::s(1));
        match stop {
            Some(None) => {
                let stop = crate::units::format_span(Span::ns(restart.as_ns() / 2));
                let line = format!("stop = \"{stop}\"\nrestart = {}", show(&f.entry.node.value));
                out.refuse(&f, "needs a stop before it", Fix::Line(line));
            }
            _ => out.refuse(&f, "is not after the flow's stop", Fix::Value(quote(&later))),
        }
        None
    });
    let size = optional(s.field("size"), None, |f| {
        out.quantity(&f, "B", Bytes::new(1), Bytes::new(1_000_000_000_000_000))
            .map(Some)
    });
    let ecn = optional(s.field("ecn"), host_ecn == EcnMode::On, |f| {
        let asks = out.switch(&f)?;
        if asks && host_ecn == EcnMode::Off {
            out.refuse(
                &f,
                "is not what the hosts do: their ecn is off",
                Fix::Value("false".into()),
            );
            return None;
        }
        Some(asks)
    });
    let named = optional(s.field("id"), None, |f| {
        let id = out.text(&f, 64)?;
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if id.is_empty() || !id.chars().all(fine) {
            let cleaned: String = id.chars().map(|c| if fine(c) { c } else { '_' }).collect();
            let fix = if cleaned.is_empty() { "a".into() } else { cleaned };
            out.refuse(&f, "is not an id: letters, digits, _ - .", Fix::Value(quote(&fix)));
            return None;
        }
        Some(Some(id.to_string()))
    });
    let flow = FlowSpec {
        id: String::new(),
        cc: cc?,
        rtt: rtt?,
        start: start?,
        stop: stop?,
        restart: restart?,
        ecn: ecn?,
        size: size?,
    };
    Some((flow, count?, named?))
}

fn probes(out: &mut Collector<'_>, top: &Section<'_>) -> Option<Vec<ProbeSpec>> {
    let list = sections(out, top, "probe")?;
    let read: Vec<Option<ProbeSpec>> = list
        .iter()
        .map(|s| {
            let kind = match s.field("kind") {
                Some(f) => out.text(&f, 100).and_then(|kind| {
                    if kind == "ping" {
                        return Some(ProbeKind::Ping);
                    }
                    out.refuse(&f, "is not a known probe; known: ping", Fix::Value("\"ping\"".into()));
                    None
                }),
                None => missing(out, s, "kind", "kind = \"ping\""),
            };
            let interval = optional(s.field("interval"), Span::ms(20), |f| {
                out.quantity(&f, "ms", Span::us(100), HOUR)
            });
            Some(ProbeSpec {
                kind: kind?,
                interval: interval?,
            })
        })
        .collect();
    read.into_iter().collect()
}
