//! What a scenario may say, as data: congestion controls and queues with their parameters, the scenario's own keys, and the
//! rules that releases of Linux brought.
//! From here come `narrows list --verbose` and the reference pages.

use super::keys::KEYS;
use super::value::{Node, Tree};
use super::write::param_node;
use crate::cc::CcKind;
use crate::net::{chance, jitter, link, loss, policer, reorder, ElementKind};
use crate::packet::Packet;
use crate::param::{Kind, Param, Value};
use crate::registry::{Registry, RULES};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a hop has beside its queue, by the key that names it.
const ELEMENTS: &[(&str, &[ElementKind])] = &[
    ("link", link::KINDS),
    ("policer", policer::KINDS),
    ("loss", loss::KINDS),
    ("corrupt", chance::CORRUPT),
    ("duplicate", chance::DUPLICATE),
    ("jitter", jitter::KINDS),
    ("reorder", reorder::KINDS),
];

/// `{"cc": […], "queue": […], "link": […], "policer": […], "loss": […], …, "scenario": […], "rules": […]}`. A kind has `name`, `help`, `source` and `params`; a parameter `name`,
/// `kind`, `default`, `min` and `max` (as a scenario writes them, with their unit) or `words` (of a file: those that come with narrows), `help` and `source`, a list the `params` of its tables; a key
/// of the scenario `section`, `name`, `takes`, `default`, `range`, `help` and `supported`; a rule `of` (what follows it),
/// `name`, `since`, `help` and `source`.
pub fn describe<P: Packet + Send + 'static>(registry: &Registry<P>) -> Tree {
    let ccs = registry.ccs().iter().map(congestion_control).collect();
    let queues = registry
        .queues()
        .iter()
        .map(|k| kind(k.name, k.help, k.source, k.params))
        .collect();
    let keys = KEYS
        .iter()
        .map(|k| {
            Node::table(alloc::vec![
                ("section".into(), Node::string(k.section)),
                ("name".into(), Node::string(k.name)),
                ("takes".into(), Node::string(k.takes)),
                ("default".into(), Node::string(k.default)),
                ("range".into(), Node::string(k.range)),
                ("help".into(), Node::string(k.help)),
                ("supported".into(), Node::bool(k.built)),
            ])
        })
        .collect();
    let rules = RULES
        .iter()
        .flat_map(|(of, rules)| rules.iter().map(move |rule| (of, rule)))
        .map(|(of, rule)| {
            Node::table(alloc::vec![
                ("of".into(), Node::string(*of)),
                ("name".into(), Node::string(rule.name)),
                (
                    "since".into(),
                    Node::string(format!("{}.{}", rule.since.0, rule.since.1))
                ),
                ("help".into(), Node::string(rule.help)),
                ("source".into(), Node::string(rule.source)),
            ])
        })
        .collect();
    let mut lists = alloc::vec![("cc".into(), Node::array(ccs)), ("queue".into(), Node::array(queues))];
    for (name, kinds) in ELEMENTS {
        let kinds = kinds.iter().map(|k| kind(k.name, k.help, k.source, k.params));
        lists.push(((*name).into(), Node::array(kinds.collect())));
    }
    let workloads = crate::workload::KINDS
        .iter()
        .map(|k| kind(k.name, k.help, k.source, k.params));
    lists.push(("workload".into(), Node::array(workloads.collect())));
    lists.extend([
        ("scenario".into(), Node::array(keys)),
        ("rules".into(), Node::array(rules)),
    ]);
    Tree::new(lists)
}

/// [`describe`] as JSON.
pub fn describe_json<P: Packet + Send + 'static>(registry: &Registry<P>) -> String {
    describe(registry).to_json()
}

fn congestion_control(k: &CcKind) -> Node {
    let words = |words: &mut dyn Iterator<Item = &'static str>| Node::array(words.map(Node::string).collect());
    let default_in = k.default_in.iter().map(|d| {
        Node::table(alloc::vec![
            ("system".into(), Node::string(d.system)),
            ("since".into(), Node::string(d.since)),
            ("until".into(), Node::string(d.until)),
        ])
    });
    Node::table(alloc::vec![
        ("name".into(), Node::string(k.name)),
        ("help".into(), Node::string(k.help)),
        ("source".into(), Node::string(k.source)),
        ("family".into(), Node::string(k.family.name())),
        ("year".into(), Node::integer(k.year)),
        ("needs".into(), words(&mut k.needs.iter().map(|need| need.help()))),
        ("default_in".into(), Node::array(default_in.collect())),
        ("params".into(), Node::array(k.params.iter().map(param).collect())),
    ])
}

fn kind(name: &str, help: &str, source: &str, params: &[Param]) -> Node {
    Node::table(alloc::vec![
        ("name".into(), Node::string(name)),
        ("help".into(), Node::string(help)),
        ("source".into(), Node::string(source)),
        ("params".into(), Node::array(params.iter().map(param).collect())),
    ])
}

fn param(p: &Param) -> Node {
    let range = |name: &'static str, least: Value, most: Value| (name, Some((least, most)));
    let (kind, ends) = match &p.kind {
        Kind::Bool(_) => ("bool", None),
        Kind::Word(_) => ("word", None),
        Kind::Text(_) => ("file", None),
        Kind::Handle(_) => ("class", None),
        Kind::Rows(_) => ("list", None),
        Kind::Choice(_) => ("queue", None),
        Kind::Match => ("match", None),
        Kind::Count(_, a, b) => range("count", Value::Count(*a), Value::Count(*b)),
        Kind::Number(_, a, b) => range("number", Value::Number(*a), Value::Number(*b)),
        Kind::Span(_, a, b) => range("time", Value::Span(*a), Value::Span(*b)),
        Kind::Bytes(_, a, b) => range("bytes", Value::Bytes(*a), Value::Bytes(*b)),
        Kind::Rate(_, a, b) => range("rate", Value::Rate(*a), Value::Rate(*b)),
        Kind::Packets(_, a, b) => range("packets", Value::Packets(*a), Value::Packets(*b)),
        Kind::Probability(_) => range("probability", Value::Number(0.0), Value::Number(1.0)),
        Kind::Sizes(_, a, b) => range("list of bytes", Value::Bytes(*a), Value::Bytes(*b)),
        Kind::Rates(_, a, b) => range("list of rates", Value::Rate(*a), Value::Rate(*b)),
    };
    let mut entries: Vec<(String, Node)> = alloc::vec![
        ("name".into(), Node::string(p.name)),
        ("kind".into(), Node::string(kind)),
        ("default".into(), param_node(&p.default())),
    ];
    if let Some((least, most)) = ends {
        entries.push(("min".into(), param_node(&least)));
        entries.push(("max".into(), param_node(&most)));
    }
    let words: Option<Vec<Node>> = match &p.kind {
        Kind::Word(words) => Some(words.iter().map(|w| Node::string(*w)).collect()),
        Kind::Text(kind) => Some(kind.names().chain(["a file"]).map(Node::string).collect()),
        Kind::Handle(_) => Some(alloc::vec![Node::string("major:minor")]),
        Kind::Choice(_) => Some(alloc::vec![Node::string("any queue")]),
        Kind::Match => Some(alloc::vec![Node::string("{ flow, dscp }")]),
        _ => None,
    };
    entries.extend(words.map(|words| ("words".into(), Node::array(words))));
    if let Kind::Rows(rows) = p.kind {
        entries.push(("params".into(), Node::array(rows.params.iter().map(param).collect())));
    }
    entries.push(("help".into(), Node::string(p.help)));
    entries.push(("source".into(), Node::string(p.source)));
    Node::table(entries)
}
