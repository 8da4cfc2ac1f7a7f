//! Hosts with names: `[host.NAME]`, and the hosts of each flow.
//!
//! A section `[host.NAME]` has the keys of `[host]`; a key that it lacks has the value of `[host]`.
//! The keys `sender` and `receiver` of a flow select hosts by name. In a network of links, the
//! nodes `from` and `to` of a flow are hosts, if there are hosts with these names. All other flows
//! are between hosts with the settings of `[host]`.
//!
//! Settings of the sender's side, such as the initial window, come from the host of the sender.
//! Settings of the receiver's side, such as the receive buffer and delayed ACKs, come from the host
//! of the receiver. SACK and timestamps need both hosts, and segments are as large as both permit.

use super::error::{Collector, Fix};
use super::keys;
use super::parse::{Known, MOST_NAME};
use super::read::{Field, Section, listed};
use super::value::{Node, Table, Value};
use super::write::{Entries, key, put, quote};
use super::{Direction, FlowSpec, HostSpec, Scenario};
use crate::cc::Need;
use crate::kernel::Kernel;
use crate::packet::Ip;
use crate::tcp::{Config, EcnMode, USUAL_MSS};
use crate::workload::UDP;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of hosts with names.
pub(super) const MOST_HOSTS: usize = 250;

/// The hosts of a scenario.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// The settings of hosts without a name; `None` after an error.
    pub usual: Option<HostSpec>,
    /// The hosts with names; those with an error have `None`.
    pub named: Vec<(String, Option<HostSpec>)>,
}

/// The keys of `[host]`, without the sections of hosts with names.
pub(super) fn own_keys(table: &Table) -> Table {
    let entries = table.entries.iter().filter(|entry| !is_host(entry));
    Table {
        entries: entries.cloned().collect(),
    }
}

/// Returns whether an entry of `[host]` is the section of a host with a name. A table with a `kind`
/// is the value of a key, which may be misspelt.
fn is_host(entry: &super::value::Entry) -> bool {
    match &entry.node.value {
        Value::Table(table) => {
            keys::of("host").all(|key| key.name != entry.key) && table.get("kind").is_none()
        }
        _ => false,
    }
}

/// Reads `[host]` and all `[host.NAME]`.
pub(super) fn read(out: &mut Collector<'_>, top: &Section<'_>, known: &Known) -> Hosts {
    let Some(f) = top.field("host") else {
        return Hosts {
            usual: Some(HostSpec::default()),
            named: Vec::new(),
        };
    };
    let Value::Table(table) = &f.entry.node.value else {
        out.refuse(&f, "is not a section", Fix::Line("[host]".into()));
        return Hosts::default();
    };
    let own = own_keys(table);
    let s = Section {
        name: "host",
        path: f.path.clone(),
        table: &own,
        at: f.entry.key_at.clone(),
    };
    out.known_keys(&s);
    let usual = HostSpec::read(out, &s, &own, known);
    let mut named = Vec::new();
    for entry in table.entries.iter().filter(|entry| is_host(entry)) {
        let field = Field {
            path: format!("host.{}", key(&entry.key)),
            entry,
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name = &entry.key;
        if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(fine) {
            let problem = format!(
                "has an invalid name; write up to {MOST_NAME} letters, digits, '_', '-', '.'"
            );
            out.refuse(&field, problem, Fix::None);
            named.push((name.clone(), None));
            continue;
        }
        let Value::Table(written) = &entry.node.value else {
            continue;
        };
        let at = entry.key_at.clone();
        let path = field.path;
        out.known_keys(&Section {
            name: "host",
            path: path.clone(),
            table: written,
            at: at.clone(),
        });
        let mut whole = written.clone();
        // The mistakes of [host] have been reported.
        if usual.is_some() {
            let others = own.entries.iter().filter(|e| written.get(&e.key).is_none());
            whole.entries.extend(others.cloned());
        }
        let s = Section {
            name: "host",
            path,
            table: &whole,
            at,
        };
        named.push((name.clone(), HostSpec::read(out, &s, written, known)));
    }
    if named.len() > MOST_HOSTS {
        let problem = format!("has {} hosts; up to {MOST_HOSTS} are possible", named.len());
        out.refuse(&f, problem, Fix::None);
        return Hosts::default();
    }
    Hosts { usual, named }
}

/// The largest UDP payload of a packet between two hosts, bytes.
fn largest_datagram(sender: &HostSpec, receiver: &HostSpec, ip: Ip) -> u16 {
    sender.mtu().min(receiver.mtu()) as u16 - ip.header() - UDP
}

impl Hosts {
    /// The hosts with names, unless one of them has an error.
    pub fn finish(self) -> Option<(HostSpec, Vec<(String, HostSpec)>)> {
        let named = self.named.into_iter();
        let named: Option<Vec<_>> = named.map(|(name, host)| Some((name, host?))).collect();
        Some((self.usual?, named?))
    }
    /// The settings of a host by number; `None` after an error.
    pub fn of(&self, number: Option<u8>) -> Option<&HostSpec> {
        match number {
            None => self.usual.as_ref(),
            Some(number) => self.named.get(usize::from(number))?.1.as_ref(),
        }
    }
    /// The ECN mode of a flow from `sender` to `receiver`.
    pub fn ecn(&self, sender: Option<u8>, receiver: Option<u8>) -> EcnMode {
        let mode = |number| self.of(number).map_or(EcnMode::default(), |host| host.ecn);
        match (mode(sender), mode(receiver)) {
            (_, EcnMode::Off) => EcnMode::Off,
            (mode, _) => mode,
        }
    }

    /// The hosts of a flow, sender and receiver. `None` after an error.
    pub fn ends(
        &self,
        out: &mut Collector<'_>,
        s: &Section<'_>,
        direction: Direction,
    ) -> Option<[Option<u8>; 2]> {
        let nodes = match direction {
            Direction::Down => ["from", "to"],
            Direction::Up => ["to", "from"],
        };
        let mut ends = [None; 2];
        for ((key, node), end) in ["sender", "receiver"].iter().zip(nodes).zip(&mut ends) {
            let at_node = s.field(node).and_then(|f| self.number(&f));
            *end = at_node;
            let Some(f) = s.field(key) else { continue };
            let Some(number) = self.number(&f) else {
                self.refuse(out, &f);
                return None;
            };
            if at_node.is_some_and(|at_node| at_node != number) {
                let problem = format!("contradicts {node}, which is another host");
                out.refuse(&f, problem, Fix::None);
                return None;
            }
            *end = Some(number);
        }
        Some(ends)
    }
    /// The largest UDP payload of a packet between the hosts of a flow, bytes. `None` after an
    /// error.
    pub fn datagram(&self, [sender, receiver]: [Option<u8>; 2], ip: Ip) -> Option<u16> {
        Some(largest_datagram(self.of(sender)?, self.of(receiver)?, ip))
    }
    /// Rejects a congestion control that needs the default segment size and timestamps, with hosts
    /// or a version of IP that change them. The packets carry its congestion header.
    pub fn segments(
        &self,
        out: &mut Collector<'_>,
        s: &Section<'_>,
        ends: [Option<u8>; 2],
        ip: Ip,
        needs: &[Need],
    ) -> Option<()> {
        let unusual = |host: &HostSpec| {
            let config = host.config();
            !config.timestamps || config.mss != USUAL_MSS
        };
        let hosts = ends.iter().filter_map(|end| self.of(*end));
        if !needs.contains(&Need::Feedback) {
            return Some(());
        }
        let problem = if ip == Ip::V6 {
            "needs the default segment size; remove ip = 6 of its flow"
        } else if hosts.into_iter().any(unusual) {
            "needs the default segment size and timestamps; remove mtu, mss and timestamps of its \
             hosts"
        } else {
            return Some(());
        };
        out.refuse(&s.field("cc")?, problem, Fix::Value(quote("cubic")));
        None
    }
    fn number(&self, f: &Field<'_>) -> Option<u8> {
        let Value::String(name) = &f.entry.node.value else {
            return None;
        };
        let place = self.named.iter().position(|(known, _)| known == name)?;
        u8::try_from(place).ok()
    }
    fn refuse(&self, out: &mut Collector<'_>, f: &Field<'_>) {
        let written = match &f.entry.node.value {
            Value::String(name) => name.as_str(),
            _ => "",
        };
        let names: Vec<&str> = self.named.iter().map(|(name, _)| name.as_str()).collect();
        let near = keys::nearest(written, names.iter().copied()).or(names.first().copied());
        let known = listed(&names[..names.len().min(8)]);
        let fix = match near {
            Some(near) => Fix::Value(quote(near)),
            None => {
                let name = if written.is_empty() { "a" } else { written };
                Fix::Line(format!("[host.{}]", key(name)))
            }
        };
        out.refuse(f, format!("names no host; known: {known}"), fix);
    }
}

/// `[host]`, and all `[host.NAME]` in it.
pub(super) fn node(scenario: &Scenario) -> Node {
    let node = scenario.host.node(false);
    let Value::Table(mut table) = node.value else {
        return node;
    };
    let mut named = Entries::new();
    for (name, host) in &scenario.hosts {
        put(&mut named, name, host.node(true));
    }
    if let Value::Table(named) = Node::table(named).value {
        table.entries.extend(named.entries);
    }
    Node {
        value: Value::Table(table),
        at: None,
    }
}

/// The keys `sender` and `receiver` of a flow.
pub(super) fn put_ends(e: &mut Entries, scenario: &Scenario, flow: &FlowSpec) {
    for (key, end) in [("sender", flow.sender), ("receiver", flow.receiver)] {
        let named = end.and_then(|number| scenario.hosts.get(usize::from(number)));
        if let Some((name, _)) = named {
            put(e, key, Node::string(name.clone()));
        }
    }
}

impl Scenario {
    fn host_of(&self, number: Option<u8>) -> &HostSpec {
        let named = number.and_then(|number| self.hosts.get(usize::from(number)));
        named.map_or(&self.host, |(_, host)| host)
    }
    /// The host that sends the data of a flow.
    pub fn sender_of(&self, flow: &FlowSpec) -> &HostSpec {
        self.host_of(flow.sender)
    }
    /// The host that receives the data of a flow.
    pub fn receiver_of(&self, flow: &FlowSpec) -> &HostSpec {
        self.host_of(flow.receiver)
    }
    /// The set of rules that the sender of a flow follows: those of the flow's own release, if it
    /// has one.
    pub fn kernel_of(&self, flow: &FlowSpec) -> Kernel {
        let own = flow.like.as_deref().and_then(Kernel::named);
        own.unwrap_or_else(|| self.sender_of(flow).kernel())
    }
    /// The largest UDP payload of a packet between the hosts of a flow, bytes.
    pub fn datagram_of(&self, flow: &FlowSpec) -> u16 {
        largest_datagram(self.sender_of(flow), self.receiver_of(flow), flow.ip)
    }
    /// The configurations of the sender's and the receiver's end of a flow, after their handshake.
    pub fn ends_of(&self, flow: &FlowSpec) -> [Config; 2] {
        let far = match flow.direction {
            Direction::Down => 1,
            Direction::Up => 0,
        };
        let mut place = 0;
        let [mut sender, mut receiver] = [flow.sender, flow.receiver].map(|number| {
            let host = self.host_of(number);
            let config = match number {
                None if place == far => host.far_config(),
                _ => host.config(),
            };
            place += 1;
            config
        });
        sender.kernel = self.kernel_of(flow);
        for (config, number) in [(&mut sender, flow.sender), (&mut receiver, flow.receiver)] {
            config.ip = flow.ip;
            config.mss = self.host_of(number).mss(flow.ip);
        }
        Config::negotiate(&mut sender, &mut receiver);
        [sender, receiver]
    }
}
