//! A hop that changes over time: steps of rate, delay and loss, outages, and traces from files.

use super::error::{Collector, Fix};
use super::hop::Place;
use super::keys;
use super::parse::{misspelt, sections};
use super::read::{Field, Section};
use super::schema::Values;
use super::value::{Node, Value};
use super::write::{choice_node, quote};
use super::{DelayFile, Step, TraceFile, Varying};
use crate::net::trace::{self, Trace, TraceError};
use crate::units::{Span, format_rate, format_span};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Maximum number of steps and outages of a hop.
pub(super) const MOST_STEPS: usize = 100_000;
/// Maximum number of characters of the name of a file.
pub(super) const MOST_FILE_NAME: usize = 4096;

/// Reads a scenario's files: returns the text of a file, or the problem in words for a person.
/// Names are as in the scenario; the driver resolves relative names.
pub type Files<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// The function [`Files`] of drivers that read no files: it reports an error for every name.
pub fn no_files(_: &str) -> Result<String, String> {
    Err("cannot be read here".into())
}

/// Reads the changes of a hop. `None` after an error; `Some(None)` for a hop without changes.
pub(super) fn read(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    place: Place,
) -> Option<Option<Box<Varying>>> {
    let steps = steps(out, s, place);
    let outages = list(out, s, "path.outages", |out, entry| {
        out.values(entry).all(|v| (v.take("at"), v.take("lasts")))
    });
    let trace = match s.field("trace") {
        Some(f) => rates(out, &f).map(Some),
        None => Some(None),
    };
    let delays = match s.field("delay_trace") {
        Some(f) => delays(out, &f).map(Some),
        None => Some(None),
    };
    let varying = Varying {
        steps: steps?,
        outages: outages?,
        trace: trace?,
        delays: delays?,
    };
    let steps = |has: fn(&Step) -> bool| s.field("steps").filter(|_| varying.steps.iter().any(has));
    if let (Some(_), Some(f)) = (&varying.trace, steps(|step| step.rate.is_some())) {
        let problem = "cannot be combined with a trace, which contains every rate";
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    let delay = steps(|step| step.rtt.is_some() || step.delay.is_some());
    if let (Some(_), Some(f)) = (&varying.delays, delay) {
        let problem = "cannot change the delay beside a delay_trace, which contains every delay";
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    let deliveries =
        matches!(&varying.trace, Some(file) if matches!(file.trace, Trace::Deliveries(_)));
    if let (true, Some(f)) = (deliveries, s.field("outages")) {
        let problem =
            "cannot be combined with a packet-delivery trace; remove lines of the trace instead";
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    Some((varying != Varying::default()).then(|| Box::new(varying)))
}

/// Reads the steps of a hop.
fn steps(out: &mut Collector<'_>, s: &Section<'_>, place: Place) -> Option<Vec<Step>> {
    list(out, s, "path.steps", |out, entry| {
        let step = out.values(entry).all(|v| Step {
            at: v.take("at"),
            rate: v.optional("rate"),
            rtt: v.optional("rtt"),
            delay: v.optional("delay"),
            ordered: v.take("ordered"),
            loss: v.optional("loss"),
        })?;
        let (foreign, problem, fix) = match place {
            Place::Forward => (
                &["delay"][..],
                "is the one-way delay of a link; the steps of a hop have rtt",
                Fix::Key("rtt"),
            ),
            Place::Link => (
                &["rtt"][..],
                "is the two-way delay of a hop; the steps of a link have delay",
                Fix::Key("delay"),
            ),
            Place::Reverse => (
                &["rtt", "delay"][..],
                "cannot change here: the steps of [path] change rtt in both directions",
                Fix::None,
            ),
        };
        if let Some(f) = foreign.iter().find_map(|name| entry.field(name)) {
            out.refuse(&f, problem, fix);
            return None;
        }
        let delayed = step.rtt.is_some() || step.delay.is_some();
        if let (false, Some(f)) = (delayed, entry.field("ordered")) {
            let problem = "has no effect in a step without a change of the delay";
            out.refuse(&f, problem, Fix::None);
            return None;
        }
        if !delayed && step.rate.is_none() && step.loss.is_none() {
            if !["rate", "rtt", "delay", "loss"]
                .iter()
                .any(|name| misspelt(entry, name))
            {
                let (path, line) = (entry.path_of("rate"), "rate = \"5Mbit\"");
                let problem = "is missing: a step changes the rate, the delay or the loss";
                out.missing(path, entry.at.as_ref(), problem, line.into());
            }
            return None;
        }
        Some(step)
    })
}

/// A list of small sections.
fn list<T>(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    name: &'static str,
    read: impl Fn(&mut Collector<'_>, &Section<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let list = sections(out, s, name)?;
    if list.len() > MOST_STEPS {
        let problem = format!("has more than {MOST_STEPS} entries; a trace may have more");
        out.missing(
            s.path.clone(),
            s.at.as_ref(),
            problem,
            "trace = \"rates.csv\"".into(),
        );
        return None;
    }
    // All of them are read, so that all errors are reported.
    let read: Vec<Option<T>> = list.iter().map(|entry| read(out, entry)).collect();
    read.into_iter().collect()
}

/// Returns the field with the name of a file, which is `"file"` or `{ file = "file", … }`, and the
/// values of the other keys of `section`.
fn file<'t>(
    out: &mut Collector<'_>,
    f: &Field<'t>,
    section: &'static str,
) -> Option<(Field<'t>, Values)> {
    let Value::Table(table) = &f.entry.node.value else {
        let field = Field {
            path: f.path.clone(),
            entry: f.entry,
        };
        return Some((field, Values::defaults(section)));
    };
    let s = Section {
        name: section,
        path: f.path.clone(),
        table,
        at: f.entry.key_at.clone(),
    };
    out.known_keys(&s);
    let values = out.values(&s);
    let Some(file) = s.field("file") else {
        let example = keys::entry(section).unwrap_or_default();
        out.refuse(f, "has no file", Fix::Value(example.into()));
        return None;
    };
    Some((file, values))
}

/// Reads a file, and returns its name and its contents.
fn contents<T>(
    out: &mut Collector<'_>,
    file: &Field<'_>,
    read: impl FnOnce(&str) -> Result<T, TraceError>,
) -> Option<(String, T)> {
    let name = String::from(out.text(file, MOST_FILE_NAME)?);
    let text = match (out.files)(&name) {
        Ok(text) => text,
        Err(problem) => {
            out.refuse(file, problem, Fix::None);
            return None;
        }
    };
    match read(&text) {
        Ok(contents) => Some((name, contents)),
        Err(e) => {
            let place = match e.line {
                0 => String::new(),
                n => format!(" in line {n}"),
            };
            let problem = format!("has a mistake{place}: {}; {}", e.problem, e.fix);
            out.refuse(file, problem, Fix::None);
            None
        }
    }
}

/// Reads `trace`.
fn rates(out: &mut Collector<'_>, f: &Field<'_>) -> Option<TraceFile> {
    let (file, values) = file(out, f, "path.trace")?;
    let repeats = values.all(|values| values.take("repeat"))?;
    let (name, trace) = contents(out, &file, |text| Trace::read(text, repeats))?;
    Some(TraceFile {
        name,
        repeats,
        trace,
    })
}

/// Reads `delay_trace`.
fn delays(out: &mut Collector<'_>, f: &Field<'_>) -> Option<DelayFile> {
    let (file, values) = file(out, f, "path.delay_trace")?;
    let (repeats, ordered) = values.all(|v| (v.take("repeat"), v.take("ordered")))?;
    let (name, delays) = contents(out, &file, |text| trace::delays(text, repeats))?;
    Some(DelayFile {
        name,
        repeats,
        ordered,
        delays: Arc::new(delays.ordered(ordered)),
    })
}

/// The entries to write, by key.
pub(super) fn nodes(varying: &Varying) -> Vec<(&'static str, Node)> {
    let span = |span: Span| Node::string(format_span(span));
    let table = |entries: Vec<(&str, Node)>| {
        Node::table(
            entries
                .into_iter()
                .map(|(key, n)| (key.into(), n))
                .collect(),
        )
    };
    let mut nodes = Vec::new();
    if let Some(file) = &varying.trace {
        let name = ("file", Node::string(file.name.clone()));
        let entries = alloc::vec![name, ("repeat", Node::bool(file.repeats))];
        nodes.push(("trace", table(entries)));
    }
    if let Some(file) = &varying.delays {
        let name = ("file", Node::string(file.name.clone()));
        let repeat = ("repeat", Node::bool(file.repeats));
        let ordered = ("ordered", Node::bool(file.ordered));
        nodes.push(("delay_trace", table(alloc::vec![name, repeat, ordered])));
    }
    let mut list = |name, entries: Vec<Node>| {
        if !entries.is_empty() {
            nodes.push((name, Node::array(entries)));
        }
    };
    let step = |step: &Step| {
        let mut entries = alloc::vec![("at", span(step.at))];
        let rate = step.rate.map(|rate| Node::string(format_rate(rate)));
        entries.extend(rate.map(|rate| ("rate", rate)));
        entries.extend(step.rtt.map(|rtt| ("rtt", span(rtt))));
        entries.extend(step.delay.map(|delay| ("delay", span(delay))));
        if step.rtt.is_some() || step.delay.is_some() {
            entries.push(("ordered", Node::bool(step.ordered)));
        }
        entries.extend(step.loss.as_ref().map(|loss| ("loss", choice_node(loss))));
        table(entries)
    };
    list("steps", varying.steps.iter().map(step).collect());
    let outage =
        |(at, lasts): &(Span, Span)| table(alloc::vec![("at", span(*at)), ("lasts", span(*lasts))]);
    list("outages", varying.outages.iter().map(outage).collect());
    nodes
}

/// Rejects a rate beside a trace, which already specifies it.
pub(super) fn refuse_rate(out: &mut Collector<'_>, f: &Field<'_>, trace: &TraceFile) {
    let line = format!("trace = {}", quote(&trace.name));
    out.refuse(
        f,
        "cannot be combined with a trace, which contains every rate",
        Fix::Line(line),
    );
}
