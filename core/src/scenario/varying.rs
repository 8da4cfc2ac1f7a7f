//! A hop whose rate varies: steps, outages, a trace from a file.

use super::error::{Collector, Fix};
use super::parse::sections;
use super::read::{Field, Section};
use super::schema::Values;
use super::value::{Node, Value};
use super::write::quote;
use super::{TraceFile, Varying};
use crate::net::trace::Trace;
use crate::units::{Rate, Span, format_rate, format_span};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
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

/// Reads the variation of a hop's rate. `None` after an error; `Some(None)` for a constant rate.
pub(super) fn read(out: &mut Collector<'_>, s: &Section<'_>) -> Option<Option<Box<Varying>>> {
    let steps = list(out, s, "path.steps", |v| (v.take("at"), v.take("rate")));
    let outages = list(out, s, "path.outages", |v| (v.take("at"), v.take("lasts")));
    let trace = match s.field("trace") {
        Some(f) => trace(out, &f).map(Some),
        None => Some(None),
    };
    let (steps, outages, trace) = (steps?, outages?, trace?);
    if let (Some(_), Some(f)) = (&trace, s.field("steps")) {
        out.refuse(
            &f,
            "cannot be combined with a trace, which contains every rate",
            Fix::None,
        );
        return None;
    }
    let deliveries = matches!(&trace, Some(file) if matches!(file.trace, Trace::Deliveries(_)));
    if let (true, Some(f)) = (deliveries, s.field("outages")) {
        let problem =
            "cannot be combined with a packet-delivery trace; remove lines of the trace instead";
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    let none = steps.is_empty() && outages.is_empty() && trace.is_none();
    Some((!none).then(|| {
        Box::new(Varying {
            steps,
            outages,
            trace,
        })
    }))
}

/// A list of small sections.
fn list<T>(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    name: &'static str,
    read: fn(&mut Values) -> T,
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
    let read: Vec<Option<T>> = list
        .iter()
        .map(|entry| out.values(entry).all(read))
        .collect();
    read.into_iter().collect()
}

/// Reads a trace: `"file"` or `{ file = "file", repeat = false }`.
fn trace(out: &mut Collector<'_>, f: &Field<'_>) -> Option<TraceFile> {
    let (file, repeats) = match &f.entry.node.value {
        Value::Table(table) => {
            let s = Section {
                name: "path.trace",
                path: f.path.clone(),
                table,
                at: f.entry.key_at.clone(),
            };
            out.known_keys(&s);
            let repeats = out.values(&s).all(|values| values.take("repeat"))?;
            match s.field("file") {
                Some(f) => (f, repeats),
                None => {
                    out.refuse(
                        f,
                        "has no file",
                        Fix::Value("{ file = \"rates.csv\" }".into()),
                    );
                    return None;
                }
            }
        }
        _ => (
            Field {
                path: f.path.clone(),
                entry: f.entry,
            },
            true,
        ),
    };
    let name = String::from(out.text(&file, MOST_FILE_NAME)?);
    let text = match (out.files)(&name) {
        Ok(text) => text,
        Err(problem) => {
            out.refuse(&file, problem, Fix::None);
            return None;
        }
    };
    match Trace::read(&text, repeats) {
        Ok(trace) => Some(TraceFile {
            name,
            repeats,
            trace,
        }),
        Err(e) => {
            let place = match e.line {
                0 => String::new(),
                n => format!(" in line {n}"),
            };
            let problem = format!("has a mistake{place}: {}; {}", e.problem, e.fix);
            out.refuse(&file, problem, Fix::None);
            None
        }
    }
}

/// The entries to write, by key.
pub(super) fn nodes(varying: &Varying) -> Vec<(&'static str, Node)> {
    let span = |span: &Span| Node::string(format_span(*span));
    let pair = |a: (&str, Node), b: (&str, Node)| {
        Node::table(alloc::vec![(a.0.into(), a.1), (b.0.into(), b.1)])
    };
    let mut nodes = Vec::new();
    if let Some(file) = &varying.trace {
        let name = ("file", Node::string(file.name.clone()));
        nodes.push(("trace", pair(name, ("repeat", Node::bool(file.repeats)))));
    }
    let mut list = |name, entries: Vec<Node>| {
        if !entries.is_empty() {
            nodes.push((name, Node::array(entries)));
        }
    };
    let step = |(at, rate): &(Span, Rate)| {
        pair(("at", span(at)), ("rate", Node::string(format_rate(*rate))))
    };
    list("steps", varying.steps.iter().map(step).collect());
    let outage = |(at, lasts): &(Span, Span)| pair(("at", span(at)), ("lasts", span(lasts)));
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
