//! A scenario as a tree, as TOML and as JSON, in canonical form and with every default explicit.
//! The result of a run contains its scenario in this form, so that the run can be repeated from it.

use super::dscp;
use super::ecn;
use super::hop::path_node;
use super::hosts;
use super::ip;
use super::links;
use super::nested;
use super::schema::OfKey;
use super::value::{Node, Table, Tree, Value};
use super::version;
use super::wifi;
use super::{Choice, Direction, FlowSpec, Scenario, Spacing};
use crate::cc::cubic;
use crate::param::{self, Param, Params};
use crate::queue::fifo;
use crate::units::{format_bytes, format_rate, format_span};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) type Entries = Vec<(String, Node)>;

pub(super) fn put(entries: &mut Entries, key: &str, node: Node) {
    entries.push((key.into(), node));
}

/// Writes the value of a key.
pub(super) fn write(entries: &mut Entries, key: &str, value: &impl OfKey) {
    put(entries, key, param_node(&value.value()));
}

/// Writes the value of a key, if there is one.
pub(super) fn write_some(entries: &mut Entries, key: &str, value: &Option<impl OfKey>) {
    value.iter().for_each(|value| write(entries, key, value));
}

/// Writes the keys that have no field.
pub(super) fn put_all(entries: &mut Entries, keys: &Params) {
    keys.iter()
        .for_each(|(name, value)| put(entries, name, param_node(value)));
}

impl Scenario {
    /// The tree from which the parser builds the same scenario. Flows are written one by one, with
    /// their ids.
    pub fn to_tree(&self) -> Tree {
        let mut top = Entries::new();
        put(
            &mut top,
            version::KEY,
            Node::integer(version::FORMAT as i128),
        );
        put(&mut top, "title", Node::string(self.title.clone()));
        write(&mut top, "duration", &self.duration);
        write(&mut top, "warmup", &self.warmup);
        write(&mut top, "seed", &self.seed);
        write(&mut top, "start_jitter", &self.start_jitter);
        put_all(&mut top, &self.keys);
        match (&self.wifi, &self.path.links) {
            (Some(wifi), _) => {
                if let Some(path) = &wifi.wan {
                    put(&mut top, "path", path_node(path));
                }
                put(&mut top, "wifi", wifi::node(wifi));
            }
            (None, Some(network)) => links::put_links(&mut top, &self.path, network),
            (None, None) => put(&mut top, "path", path_node(&self.path)),
        }
        put(&mut top, "host", hosts::node(self));
        if !self.flows.is_empty() {
            put(
                &mut top,
                "flow",
                Node::array(self.flows.iter().map(|flow| self.flow_node(flow)).collect()),
            );
        }
        if !self.probes.is_empty() {
            let probes = self.probes.iter().map(|p| {
                let mut e = Entries::new();
                put(&mut e, "kind", Node::string(p.kind.name()));
                write(&mut e, "interval", &p.interval);
                if p.spacing == Spacing::Random {
                    put(&mut e, "spacing", Node::string("random"));
                }
                if p.dscp > 0 {
                    put(&mut e, "dscp", dscp::node(p.dscp));
                }
                write_some(&mut e, "host", &Some(p.host).filter(|host| *host > 0));
                ip::put(&mut e, p.ip);
                self.put_station(&mut e, p.station);
                links::put_route(&mut e, &self.path, p.route.as_deref());
                put_all(&mut e, &p.keys);
                Node::table(e)
            });
            put(&mut top, "probe", Node::array(probes.collect()));
        }
        Tree::new(top)
    }

    fn put_station(&self, e: &mut Entries, station: Option<u8>) {
        let stations = self.wifi.iter().flat_map(|wifi| &wifi.stations);
        let named = station.and_then(|i| stations.map(|s| &s.name).nth(usize::from(i)));
        if let Some(name) = named {
            put(e, "station", Node::string(name.clone()));
        }
    }

    fn flow_node(&self, flow: &FlowSpec) -> Node {
        let mut e = flow_entries(flow);
        hosts::put_ends(&mut e, self, flow);
        self.put_station(&mut e, flow.station);
        links::put_route(&mut e, &self.path, flow.route.as_deref());
        put_all(&mut e, &flow.keys);
        Node::table(e)
    }

    /// The TOML document from which the parser builds the same scenario.
    pub fn to_toml(&self) -> String {
        self.to_tree().to_toml()
    }

    /// As one JSON object of the same structure: the `"scenario"` of a run.
    pub fn to_json(&self) -> String {
        self.to_tree().to_json()
    }
}

fn flow_entries(flow: &FlowSpec) -> Entries {
    let mut e = Entries::new();
    put(&mut e, "id", Node::string(flow.id.clone()));
    if flow.has_cc() {
        put(&mut e, "cc", choice_node(&flow.cc));
    }
    if let Some(transport) = &flow.transport {
        put(&mut e, "transport", Node::string(transport.clone()));
    }
    if let Some(workload) = &flow.workload {
        put(&mut e, "workload", choice_node(workload));
    }
    if flow.workload.is_none() {
        write(&mut e, "rtt", &flow.rtt);
    }
    write(&mut e, "start", &flow.start);
    write_some(&mut e, "stop", &flow.stop);
    write_some(&mut e, "restart", &flow.restart);
    if flow.direction == Direction::Up {
        put(&mut e, "direction", Node::string("up"));
    }
    if flow.dscp > 0 {
        put(&mut e, "dscp", dscp::node(flow.dscp));
    }
    write_some(&mut e, "host", &Some(flow.host).filter(|host| *host > 0));
    ip::put(&mut e, flow.ip);
    if let Some(like) = &flow.like {
        put(&mut e, "like", Node::string(like.clone()));
    }
    // Without the key, both ends do what the congestion control needs.
    if let Some(node) = ecn::node(flow.ecn) {
        put(&mut e, "ecn", node);
    }
    write_some(&mut e, "size", &flow.size);
    e
}

/// Parameters that are written only if they differ from the default, so that the scenarios in
/// earlier runs stay as they were.
const SILENT: [(&str, &Param); 3] = [
    ("cubic", &cubic::BETA),
    ("cubic", &cubic::C),
    ("fifo", &fifo::MARK_ABOVE),
];

pub(super) fn choice_node(choice: &Choice) -> Node {
    let mut e = Entries::new();
    let silent = SILENT.iter().filter(|(kind, _)| *kind == choice.kind);
    let is_silent = |name: &str, value: &param::Value| {
        silent
            .clone()
            .any(|(_, param)| param.name == name && param.default() == *value)
    };
    for (name, value) in choice.params.iter() {
        if !is_silent(name, value) {
            put(&mut e, name, param_node(value));
        }
    }
    if e.is_empty() {
        return Node::string(choice.kind.clone());
    }
    e.insert(0, ("kind".into(), Node::string(choice.kind.clone())));
    Node::table(e)
}

/// A parameter's value for a scenario.
pub(super) fn param_node(value: &param::Value) -> Node {
    match value {
        param::Value::Bool(b) => Node::bool(*b),
        param::Value::Count(n) => Node::integer(*n),
        param::Value::Number(x) => Node::float(*x),
        param::Value::Span(s) => Node::string(format_span(*s)),
        param::Value::Bytes(b) => Node::string(format_bytes(*b)),
        param::Value::Rate(r) => Node::string(format_rate(*r)),
        param::Value::Packets(n) => Node::string(format!("{n}p")),
        param::Value::Word(w) => Node::string(w.clone()),
        param::Value::Sizes(list) => Node::array(
            list.iter()
                .map(|b| Node::string(format_bytes(*b)))
                .collect(),
        ),
        param::Value::Rates(list) => {
            Node::array(list.iter().map(|r| Node::string(format_rate(*r))).collect())
        }
        param::Value::Text(text) => Node::string(
            text.name
                .clone()
                .unwrap_or_else(|| String::from(&*text.text)),
        ),
        param::Value::Rows(_) | param::Value::Choice(_) | param::Value::Match(_) => {
            nested::node(value)
        }
    }
}

impl Tree {
    /// As TOML: values first, then `[sections]` and `[[lists of sections]]`; deeper values are
    /// inline.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for e in self
            .root
            .entries
            .iter()
            .filter(|e| !is_section(&e.node.value))
        {
            line(&mut out, &e.key, &e.node.value);
        }
        for e in self
            .root
            .entries
            .iter()
            .filter(|e| is_section(&e.node.value))
        {
            match &e.node.value {
                Value::Table(table) => section(&mut out, &format!("[{}]", key(&e.key)), table),
                Value::Array(items) => {
                    for item in items {
                        if let Value::Table(table) = &item.value {
                            section(&mut out, &format!("[[{}]]", key(&e.key)), table);
                        }
                    }
                }
                _ => {}
            }
        }
        out
    }
}

fn is_section(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::Array(items) => {
            !items.is_empty() && items.iter().all(|i| matches!(i.value, Value::Table(_)))
        }
        _ => false,
    }
}

fn section(out: &mut String, header: &str, table: &Table) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(header);
    out.push('\n');
    for e in &table.entries {
        line(out, &e.key, &e.node.value);
    }
}

fn line(out: &mut String, name: &str, value: &Value) {
    out.push_str(&format!("{} = {}\n", key(name), inline(value)));
}

/// A value on one line of TOML.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(s) => quote(s),
        Value::Other(s) => s.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => float(*x),
        Value::Bool(b) => b.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|i| inline(&i.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(t) => {
            let pairs: Vec<String> = t
                .entries
                .iter()
                .map(|e| format!("{} = {}", key(&e.key), inline(&e.node.value)))
                .collect();
            if pairs.is_empty() {
                "{}".into()
            } else {
                format!("{{ {} }}", pairs.join(", "))
            }
        }
    }
}

/// A key, quoted if TOML requires it.
pub fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.into() } else { quote(name) }
}

/// A float that reads back as the same float (and as a float).
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        "nan".into()
    } else {
        format!("{x:?}")
    }
}

/// A basic string of TOML.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
