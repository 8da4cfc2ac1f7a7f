//! The vocabulary of scenarios as data: congestion controls and queue disciplines with their
//! parameters, the scenario's own keys, and dated rules of Linux. `narrows list --verbose` and the
//! reference pages are generated from it.

use super::keys::{self, Form, Key};
use super::value::{Node, Tree};
use super::write::param_node;
use crate::cc::CcKind;
use crate::kernel::{Kernel, Row, TABLE};
use crate::net::{ElementKind, link};
use crate::packet::Packet;
use crate::param::{Kind, Param};
use crate::registry::{Registry, linux, measurement};
use alloc::string::String;
use alloc::vec::Vec;

/// The models that the key `name` selects from.
fn models(name: &str) -> Option<&'static [ElementKind]> {
    if name == "link" {
        return Some(link::KINDS);
    }
    keys::of("path").find_map(|key| match &key.form {
        Form::Model { kinds, .. } if key.name == name => Some(*kinds),
        _ => None,
    })
}

/// The lists of [`describe`], in its order.
const LISTS: &[&str] = &[
    "cc",
    "queue",
    "link",
    "policer",
    "loss",
    "corrupt",
    "duplicate",
    "jitter",
    "reorder",
    "workload",
    "scenario",
    "rules",
    "qdisc",
    "sysctl",
    "linux",
    "measurement",
];

/// `{"cc": […], "queue": […], "link": […], "policer": […], "loss": […], …, "scenario": […],
/// "rules": […]}`, with these entries:
///
/// - a kind: `name`, `help`, `source` and `params`;
/// - a parameter: `name`, `kind`, `default`, `help` and `source`. A parameter with a range has
///   `min` and `max`, as a scenario writes them, with their unit. A word has `words`, a file the
///   texts of narrows, and a list the `params` of its tables;
/// - a key of the scenario: `section`, `name`, `takes`, `default`, `range`, `help` and `supported`;
/// - a rule: `of` (the module that follows it), `name`, `since`, `backports` (the first stable
///   release of each series that also has it), `help` and `source`;
/// - a qdisc and a sysctl: the columns of [`linux`];
/// - `linux`: its congestion controls, and the queue disciplines that are compared;
/// - `measurement`: the tests with their default.
pub fn describe<P: Packet + Send + 'static>(registry: &Registry<P>) -> Tree {
    let lists = LISTS
        .iter()
        .filter_map(|name| Some(((*name).into(), list(registry, name)?)));
    Tree::new(lists.collect())
}

/// [`describe`] as JSON; only these lists, if any are named.
pub fn describe_json<P: Packet + Send + 'static>(
    registry: &Registry<P>,
    only: &[String],
) -> String {
    if only.is_empty() {
        return describe(registry).to_json();
    }
    let lists = only
        .iter()
        .filter_map(|name| Some((name.clone(), list(registry, name)?)));
    Tree::new(lists.collect()).to_json()
}

/// One list of [`describe`].
fn list<P: Packet + Send + 'static>(registry: &Registry<P>, name: &str) -> Option<Node> {
    let rows = match name {
        "cc" => registry.ccs().iter().map(congestion_control).collect(),
        "queue" => {
            let kinds = registry.queues().iter();
            kinds
                .map(|k| kind(k.name, k.help, k.source, k.params))
                .collect()
        }
        "workload" => {
            let kinds = crate::workload::KINDS.iter();
            kinds
                .map(|k| kind(k.name, k.help, k.source, k.params))
                .collect()
        }
        "scenario" => keys::all().map(key).collect(),
        "rules" => TABLE.iter().map(rule).collect(),
        "qdisc" => linux::QDISCS.iter().map(qdisc).collect(),
        "sysctl" => linux::SYSCTLS.iter().map(sysctl).collect(),
        "linux" => return Some(of_linux()),
        "measurement" => return Some(measurement_tests()),
        _ => models(name)?
            .iter()
            .map(|k| kind(k.name, k.help, k.source, k.params))
            .collect(),
    };
    Some(Node::array(rows))
}

fn table(entries: &[(&str, Node)]) -> Node {
    Node::table(
        entries
            .iter()
            .map(|(name, node)| ((*name).into(), node.clone()))
            .collect(),
    )
}

fn key(k: &Key) -> Node {
    table(&[
        ("section", Node::string(k.section)),
        ("name", Node::string(k.name)),
        ("takes", Node::string(k.takes())),
        ("default", Node::string(k.default())),
        ("range", Node::string(k.range())),
        ("help", Node::string(k.help)),
        ("supported", Node::bool(k.built)),
        (
            "without",
            Node::array(k.without.iter().map(|s| Node::string(*s)).collect()),
        ),
    ])
}

fn rule(row: &Row) -> Node {
    Node::table(rule_entries(row))
}

fn rule_entries(row: &Row) -> Vec<(String, Node)> {
    let ports = row.ports.iter().map(|port| Node::string(port.text()));
    [
        ("of", Node::string(row.of)),
        ("name", Node::string(row.name)),
        ("since", Node::string(row.since.text())),
        ("backports", Node::array(ports.collect())),
        ("help", Node::string(row.help)),
        ("source", Node::string(row.source)),
    ]
    .map(|(name, node)| (name.into(), node))
    .into()
}

/// `{"rules": […]}`: the rules of [`describe`], each with `active`: whether the release called
/// `like` has it. `None` if there is no such release.
pub fn rules_of(like: &str) -> Option<Tree> {
    let kernel = Kernel::named(like)?;
    let rows = TABLE.iter().map(|row| {
        let mut entries = rule_entries(row);
        entries.push(("active".into(), Node::bool(kernel.follows(row.rule))));
        Node::table(entries)
    });
    let rules = Node::array(rows.collect());
    Some(Tree::new(alloc::vec![("rules".into(), rules)]))
}

fn qdisc(qdisc: &linux::Qdisc) -> Node {
    table(&[
        ("name", Node::string(qdisc.name)),
        ("role", Node::string(qdisc.role.name())),
        ("planned", Node::bool(qdisc.planned)),
        ("fifo", Node::bool(qdisc.fifo)),
        ("built_in", Node::bool(qdisc.built_in)),
        ("own_classes", Node::bool(qdisc.own_classes)),
    ])
}

fn sysctl(sysctl: &linux::Sysctl) -> Node {
    table(&[
        ("name", Node::string(sysctl.name)),
        ("pattern", Node::string(sysctl.form.pattern())),
        ("global", Node::bool(sysctl.global)),
        ("acts", Node::string(sysctl.acts.name())),
    ])
}

fn of_linux() -> Node {
    let names =
        |names: &[&'static str]| Node::array(names.iter().map(|n| Node::string(*n)).collect());
    let ccs = linux::CONGESTION_CONTROLS.iter().map(|cc| {
        table(&[
            ("name", Node::string(cc.name)),
            ("common", Node::bool(cc.common)),
        ])
    });
    table(&[
        ("congestion_controls", Node::array(ccs.collect())),
        ("at_bottleneck", names(linux::AT_BOTTLENECK)),
        ("below_shaper", names(linux::BELOW_SHAPER)),
    ])
}

fn measurement_tests() -> Node {
    let tests = measurement::TESTS.iter().map(|kind| {
        table(&[
            ("name", Node::string(kind.name)),
            ("streams", Node::integer(kind.streams as u64)),
        ])
    });
    let sequences = measurement::SEQUENCES.iter().map(|(name, parts)| {
        let parts = parts.iter().map(|test| Node::string(test.name()));
        table(&[
            ("name", Node::string(*name)),
            ("parts", Node::array(parts.collect())),
        ])
    });
    let default = measurement::SEQUENCES.first().map_or("", |(name, _)| name);
    table(&[
        ("default", Node::string(default)),
        ("sequences", Node::array(sequences.collect())),
        ("tests", Node::array(tests.collect())),
        (
            "most_streams",
            Node::integer(measurement::MOST_STREAMS as u64),
        ),
    ])
}

fn congestion_control(k: &CcKind) -> Node {
    let words = |words: &mut dyn Iterator<Item = &'static str>| {
        Node::array(words.map(Node::string).collect())
    };
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
        (
            "needs".into(),
            words(&mut k.needs.iter().map(|need| need.help()))
        ),
        ("paced".into(), Node::bool(k.paced())),
        ("default_in".into(), Node::array(default_in.collect())),
        (
            "params".into(),
            Node::array(k.params.iter().map(param).collect())
        ),
    ])
}

fn kind(name: &str, help: &str, source: &str, params: &[Param]) -> Node {
    Node::table(alloc::vec![
        ("name".into(), Node::string(name)),
        ("help".into(), Node::string(help)),
        ("source".into(), Node::string(source)),
        (
            "params".into(),
            Node::array(params.iter().map(param).collect())
        ),
    ])
}

fn param(p: &Param) -> Node {
    let mut entries: Vec<(String, Node)> = alloc::vec![
        ("name".into(), Node::string(p.name)),
        ("kind".into(), Node::string(p.kind.what())),
        ("default".into(), param_node(&p.default())),
    ];
    if let Some((least, most)) = p.kind.ends() {
        entries.push(("min".into(), param_node(&least)));
        entries.push(("max".into(), param_node(&most)));
    }
    let words: Option<Vec<Node>> = match &p.kind {
        Kind::Word(words) => Some(words.iter().map(|w| Node::string(*w)).collect()),
        Kind::Text(kind) => Some(kind.names().chain(["a file"]).map(Node::string).collect()),
        Kind::Handle(_) => Some(alloc::vec![Node::string("major:minor")]),
        Kind::Name => Some(alloc::vec![Node::string("letters, digits, _ - .")]),
        Kind::Choice(_) => Some(alloc::vec![Node::string("any queue")]),
        Kind::Match => Some(alloc::vec![Node::string("{ flow, dscp }")]),
        _ => None,
    };
    entries.extend(words.map(|words| ("words".into(), Node::array(words))));
    if let Kind::Rows(rows) = p.kind {
        let required = rows.required.iter().map(|name| Node::string(*name));
        entries.push(("one".into(), Node::string(rows.one)));
        entries.push(("required".into(), Node::array(required.collect())));
        entries.push((
            "params".into(),
            Node::array(rows.params.iter().map(param).collect()),
        ));
    }
    entries.push(("help".into(), Node::string(p.help)));
    entries.push(("source".into(), Node::string(p.source)));
    Node::table(entries)
}
