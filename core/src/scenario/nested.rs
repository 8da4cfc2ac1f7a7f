//! Nested parameters of a model: lists of tables, other models, and selections of packets.
//!
//! ```text
//! queue = { kind = "htb", classes = [ { id = "1:10", rate = "5Mbit", queue = "fq_codel", match = {
//! flow = "web", dscp = ["EF", 8] } } ] }
//! ```
//!
//! A flow is named by its id; the name without its final number means all flows with that name
//! (`cubic` is `cubic0`, `cubic1` …). Probes are `ping0`, `ping1` … in the order of the file. Names
//! are resolved to numbers once all flows are known.

use super::dscp;
use super::error::{Collector, Fix};
use super::keys;
use super::model::Offer;
use super::read::{Field, listed};
use super::value::{Entry, Node, Table, Value};
use super::write::{Entries, choice_node, inline, param_node, quote};
use super::{Choice, FlowSpec, PathSpec, ProbeSpec};
use crate::param::{self, Match, Params, Rows, no_check};
use crate::queue::htb::NAME;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum depth of models within models.
const DEEPEST: usize = 8;
/// Maximum number of names of single flows.
const MOST_NAMES: usize = 1000;

/// A flow that a model refers to, with its place.
pub(super) struct Named {
    name: String,
    path: String,
    key_at: Option<Range<usize>>,
    node: Node,
}

/// A value, or a list of values.
fn items(node: &Node) -> Vec<&Node> {
    match &node.value {
        Value::Array(items) => items.iter().collect(),
        _ => alloc::vec![node],
    }
}

/// A traffic class in canonical form, `"1:10"`; the error is the correction.
pub(super) fn handle(node: &Node) -> Result<param::Value, (String, Fix)> {
    let text = match &node.value {
        Value::String(text) => text.trim().to_string(),
        Value::Integer(n) => n.to_string(),
        _ => String::new(),
    };
    if text.is_empty() && matches!(&node.value, Value::String(_)) {
        return Ok(param::Value::Word(text));
    }
    let part = |digits: &str, most| match digits {
        "" => Some(0),
        digits if digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16).ok().filter(|n| *n <= most)
        }
        _ => None,
    };
    let read = text.split_once(':').and_then(|(major, minor)| {
        Some((
            part(major, 0xfffe).filter(|n| *n > 0)?,
            part(minor, 0xffff)?,
        ))
    });
    if let (Some((major, minor)), Value::String(_)) = (read, &node.value) {
        let minor = if minor == 0 {
            String::new()
        } else {
            format!("{minor:x}")
        };
        return Ok(param::Value::Word(format!("{major:x}:{minor}")));
    }
    let near = match part(&text, 0xffff) {
        Some(minor) if minor > 0 => format!("1:{minor:x}"),
        _ => "1:10".into(),
    };
    let problem = "is not a class identifier of tc: major:minor in hexadecimal digits";
    Err((problem.into(), Fix::Value(quote(&near))))
}

impl Collector<'_> {
    /// A list of tables.
    pub fn rows(
        &mut self,
        f: &Field<'_>,
        rows: &'static Rows,
        known: &[Offer],
    ) -> Option<param::Value> {
        let Value::Array(items) = &f.entry.node.value else {
            let fix = match &f.entry.node.value {
                table @ Value::Table(_) => Fix::Value(format!("[{}]", inline(table))),
                _ => Fix::Value("[]".into()),
            };
            self.refuse(f, format!("is not a list of {}", rows.what), fix);
            return None;
        };
        if items.len() > rows.most {
            self.refuse(
                f,
                format!("has more than {} {}", rows.most, rows.what),
                Fix::None,
            );
            return None;
        }
        if f.path.matches('[').count() > DEEPEST {
            self.refuse(f, "is nested too deeply", Fix::None);
            return None;
        }
        let offer = Offer {
            name: rows.what,
            params: rows.params,
            check: no_check,
        };
        let entries: Vec<Entry> = (items.iter().enumerate())
            .map(|(i, item)| Entry {
                key: format!("{}[{i}]", f.entry.key),
                key_at: item.at.clone(),
                node: item.clone(),
            })
            .collect();
        let field = |i: usize| Field {
            path: format!("{}[{i}]", f.path),
            entry: &entries[i],
        };
        let read: Vec<Option<Params>> = (0..entries.len())
            .map(|i| {
                if !matches!(entries[i].node.value, Value::Table(_)) {
                    self.refuse(&field(i), "is not a table", Fix::None);
                    return None;
                }
                self.table(&field(i), &offer, known)
            })
            .collect();
        let read: Vec<Params> = read.into_iter().collect::<Option<_>>()?;
        if let Err((i, refusal)) = (rows.check)(&read) {
            self.refuse_param(&field(i), &offer, refusal);
            return None;
        }
        Some(param::Value::Rows(read))
    }

    /// A model of the same registry.
    pub fn inner(&mut self, f: &Field<'_>, known: &[Offer]) -> Option<param::Value> {
        let choice = self.choice(f, "queue", known, keys::OTHER_QUEUES)?;
        Some(param::Value::Choice(Box::new(choice)))
    }

    /// A selection of packets.
    pub fn matching(&mut self, f: &Field<'_>) -> Option<param::Value> {
        let Value::Table(table) = &f.entry.node.value else {
            let fix = match &f.entry.node.value {
                Value::String(text) => format!("{{ flow = {} }}", quote(text)),
                _ => "{ dscp = \"EF\" }".into(),
            };
            self.refuse(f, "is not a table of flow and dscp", Fix::Value(fix));
            return None;
        };
        let mut which = Match::default();
        let mut good = true;
        for entry in &table.entries {
            let path = format!("{}.{}", f.path, super::write::key(&entry.key));
            let nodes = items(&entry.node);
            match entry.key.as_str() {
                "flow" => {
                    for node in nodes {
                        let Value::String(name) = &node.value else {
                            let field = Field {
                                path: path.clone(),
                                entry,
                            };
                            self.refuse(
                                &field,
                                "is not the id of a flow, or a list of them",
                                Fix::None,
                            );
                            good = false;
                            continue;
                        };
                        if which.names.len() < MOST_NAMES {
                            which.names.push(name.clone());
                        }
                        self.named.push(Named {
                            name: name.clone(),
                            path: path.clone(),
                            key_at: entry.key_at.clone(),
                            node: node.clone(),
                        });
                    }
                }
                "dscp" => {
                    for node in nodes {
                        let entry = Entry {
                            node: node.clone(),
                            ..entry.clone()
                        };
                        let field = Field {
                            path: path.clone(),
                            entry: &entry,
                        };
                        match dscp::read(self, &field) {
                            Some(point) => which.dscp |= 1 << point,
                            None => good = false,
                        }
                    }
                }
                _ => {
                    let field = Field { path, entry };
                    let absent = ["flow", "dscp"]
                        .into_iter()
                        .filter(|k| table.get(k).is_none());
                    let near = keys::nearest(&entry.key, absent);
                    let fix = near.map_or(Fix::None, Fix::Key);
                    self.refuse(&field, "is not a key of a match; known: flow, dscp", fix);
                    good = false;
                }
            }
        }
        good.then_some(param::Value::Match(which))
    }

    /// Resolves the names of flows in models to numbers, and rejects unknown names.
    pub fn number_flows(&mut self, path: &mut PathSpec, flows: &[FlowSpec], probes: &[ProbeSpec]) {
        let probes = (0..probes.len()).map(|i| format!("ping{i}"));
        let names: Vec<String> = flows
            .iter()
            .map(|flow| flow.id.clone())
            .chain(probes)
            .collect();
        for named in core::mem::take(&mut self.named) {
            let meant = numbers(&names, &named.name);
            let works = |number: &u32| {
                flows
                    .get(*number as usize)
                    .is_some_and(|flow| flow.workload.is_some())
            };
            if meant.iter().any(works) {
                let problem = "has a workload, whose connections are separate flows; set its dscp, \
                    and match the dscp";
                let path = named.path;
                self.value(path, named.key_at.as_ref(), &named.node, problem, Fix::None);
            } else if meant.is_empty() {
                let near = keys::nearest(&named.name, names.iter().map(String::as_str))
                    .or(names.first().map(String::as_str));
                let first: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
                let more = if names.len() > first.len() {
                    " …"
                } else {
                    ""
                };
                let problem = format!("names an unknown flow; known: {}{more}", listed(&first));
                let fix = near.map_or(Fix::None, |near| Fix::Value(quote(near)));
                self.value(named.path, named.key_at.as_ref(), &named.node, problem, fix);
            }
        }
        for hop in path.hops.iter_mut().chain(&mut path.reverse) {
            number(&mut hop.queue.params, &names);
        }
    }
}

/// The indices of the flows or probes with this name.
fn numbers(names: &[String], name: &str) -> Vec<u32> {
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let all = |is: &dyn Fn(&String) -> bool| -> Vec<u32> {
        (0..)
            .zip(names)
            .filter(|(_, n)| is(n))
            .map(|(i, _)| i)
            .collect()
    };
    match all(&|n| n == name) {
        found if found.is_empty() => all(&|n| n.strip_prefix(name).is_some_and(numbered)),
        found => found,
    }
}

fn number(params: &mut Params, names: &[String]) {
    for value in params.values_mut() {
        match value {
            param::Value::Match(which) => {
                which.flows = which
                    .names
                    .iter()
                    .flat_map(|name| numbers(names, name))
                    .collect();
            }
            param::Value::Rows(rows) => rows.iter_mut().for_each(|row| number(row, names)),
            param::Value::Choice(choice) => number(&mut choice.params, names),
            _ => {}
        }
    }
}

/// Writes a value of these kinds.
pub(super) fn node(value: &param::Value) -> Node {
    let few = |mut nodes: Vec<Node>| match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::array(nodes),
    };
    match value {
        param::Value::Choice(choice) => choice_node(choice),
        param::Value::Rows(rows) => Node::array(rows.iter().map(table).collect()),
        param::Value::Match(which) => {
            let mut entries = Entries::new();
            if !which.names.is_empty() {
                let names = which.names.iter().map(|name| Node::string(name.clone()));
                entries.push(("flow".into(), few(names.collect())));
            }
            let points: Vec<Node> = (0..64)
                .filter(|i| which.dscp >> i & 1 > 0)
                .map(dscp::node)
                .collect();
            if !points.is_empty() {
                entries.push(("dscp".into(), few(points)));
            }
            Node::table(entries)
        }
        _ => param_node(value),
    }
}

fn table(params: &Params) -> Node {
    // An empty name is none.
    let unnamed = params.word(NAME).is_empty();
    Value::Table(Table::new(
        params
            .iter()
            .filter(|(name, _)| *name != NAME || !unnamed)
            .map(|(name, value)| (name.into(), param_node(value)))
            .collect(),
    ))
    .into()
}

/// A model of this name with its defaults, if there is one.
pub(super) fn default_of(kind: &str, known: &[Offer]) -> Option<Choice> {
    let offer = known.iter().find(|offer| offer.name == kind)?;
    Some(Choice::new(kind, offer.params, &[]))
}
