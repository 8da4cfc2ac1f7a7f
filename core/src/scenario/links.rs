//! A network of links: `[link.NAME]`, `[switch.NAME]` and the routes of flows and probes, read and
//! written.
//!
//! A scenario gives a route as a list of links, or as two nodes. Between two nodes, all routes with
//! the fewest links are candidates. The hash of the flow's id and the seed selects one candidate,
//! as a router does for equal costs (ECMP: RFC 2992). Routes are resolved when the scenario is
//! read, and written as lists.

use super::error::{Collector, Fix, show};
use super::hop::{self, Place};
use super::keys;
use super::parse::{Known, MOST_NAME, inside, missing, optional, sections};
use super::read::{Field, Section, listed};
use super::value::{Node, Value};
use super::write::{Entries, put, quote, write};
use super::{
    Buffer, FlowSpec, HostSpec, LinkPlace, Links, PathSpec, Route, RouteChange, SwitchSpec,
};
use crate::param::Params;
use crate::rng::Rng;
use crate::units::{Span, format_span};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Maximum number of links.
pub(super) const MOST_LINKS: usize = 250;
/// Maximum number of equal routes between two nodes.
pub(super) const MOST_ROUTES: usize = 256;
/// Maximum number of changes of one route.
pub(super) const MOST_CHANGES: usize = 1000;

/// The tables of a section that contains one table for each name.
fn named<'t>(
    out: &mut Collector<'_>,
    top: &Section<'t>,
    name: &'static str,
) -> Option<Vec<(String, Section<'t>)>> {
    let Some(f) = top.field(name) else {
        return Some(Vec::new());
    };
    let Value::Table(table) = &f.entry.node.value else {
        let line = Fix::Line(format!("[{name}.a]"));
        out.refuse(&f, "is not a section with names", line);
        return None;
    };
    let mut list = Vec::new();
    let mut good = true;
    for entry in &table.entries {
        let field = Field {
            path: format!("{name}.{}", super::write::key(&entry.key)),
            entry,
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if entry.key.is_empty() || entry.key.len() > MOST_NAME || !entry.key.chars().all(fine) {
            let problem = format!(
                "has an invalid name; write up to {MOST_NAME} letters, digits, '_', '-', '.'"
            );
            out.refuse(&field, problem, Fix::None);
            good = false;
            continue;
        }
        let Value::Table(table) = &entry.node.value else {
            let problem = format!("is not a section: each {name} has a name");
            out.refuse(&field, problem, Fix::Line(format!("[{name}.a]")));
            good = false;
            continue;
        };
        let s = Section {
            name,
            path: field.path,
            table,
            at: entry.key_at.clone(),
        };
        out.known_keys(&s);
        list.push((entry.key.clone(), s));
    }
    good.then_some(list)
}

/// Reads the links, if there are any. `None` after an error.
pub(super) fn read(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    known: &Known,
) -> Option<Option<PathSpec>> {
    let Some(f) = top.field("link") else {
        let Some(f) = top.field("switch") else {
            return Some(None);
        };
        let line = "[link.a]\nrate = \"1Gbit\"\nswitch = \"NAME\"".into();
        out.refuse(&f, "has no links that name it", Fix::Line(line));
        return None;
    };
    let mut good = true;
    for (name, instead) in [
        ("path", "write its keys as those of a link"),
        ("wifi", "write the link before the access point as [path]"),
    ] {
        if let Some(f) = top.field(name) {
            let problem = format!("cannot be combined with [link.NAME]: {instead}");
            out.refuse(&f, problem, Fix::None);
            good = false;
        }
    }
    let switches = switches(out, top);
    // The names of switches with errors are known, too.
    let names: Vec<&str> = match top.field("switch").map(|f| &f.entry.node.value) {
        Some(Value::Table(table)) => table.entries.iter().map(|e| e.key.as_str()).collect(),
        _ => Vec::new(),
    };
    let sections = named(out, top, "link")?;
    if sections.is_empty() || sections.len() > MOST_LINKS {
        let problem = format!(
            "has {} links; 1 to {MOST_LINKS} are possible",
            sections.len()
        );
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    let (mut hops, mut links) = (Vec::new(), Vec::new());
    for (name, s) in &sections {
        let hop = hop::hop(out, s, known, Place::Link);
        let mut node = |key| {
            optional(s.field(key), None, |f| {
                out.name(&f, MOST_NAME, "a node", "a").map(Some)
            })
        };
        let (from, to) = (node("from"), node("to"));
        let switch = optional(s.field("switch"), None, |f| {
            number_of(out, &f, &f.entry.node, "switch", &names).map(Some)
        });
        if let (Some(f), None) = (s.field("alpha"), s.field("switch")) {
            let problem = "needs a switch, whose memory the queue of the link shares";
            let line = format!("switch = \"NAME\"\nalpha = {}", show(&f.entry.node.value));
            out.refuse(&f, problem, Fix::Line(line));
            good = false;
        }
        let (Some(hop), Some(from), Some(to), Some(switch)) = (hop, from, to, switch) else {
            good = false;
            continue;
        };
        hops.push(hop);
        links.push(LinkPlace {
            name: name.clone(),
            from,
            to,
            switch,
        });
    }
    let switches = switches?;
    good.then(|| {
        Some(PathSpec {
            hops,
            reverse: None,
            offload: false,
            nat: false,
            links: Some(Box::new(Links { links, switches })),
            keys: Params::default(),
        })
    })
}

/// `[switch.NAME]`.
fn switches(out: &mut Collector<'_>, top: &Section<'_>) -> Option<Vec<SwitchSpec>> {
    let list = named(out, top, "switch")?;
    let read: Vec<Option<SwitchSpec>> = list
        .into_iter()
        .map(|(name, s)| {
            out.values(&s).all(|values| SwitchSpec {
                name,
                buffer: values.take("buffer"),
                alpha: values.take("alpha"),
            })
        })
        .collect();
    read.into_iter().collect()
}

/// The number of the name in `node`, which is the value of `f` or part of it.
fn number_of(
    out: &mut Collector<'_>,
    f: &Field<'_>,
    node: &Node,
    what: &str,
    names: &[&str],
) -> Option<u8> {
    let written = match &node.value {
        Value::String(text) => text.as_str(),
        _ => "",
    };
    if let Some(number) = names.iter().position(|name| *name == written) {
        return Some(number as u8);
    }
    let near = keys::nearest(written, names.iter().copied()).or(names.first().copied());
    let first: Vec<&str> = names.iter().take(8).copied().collect();
    let more = if names.len() > 8 { " …" } else { "" };
    let problem = format!("names no {what}; known: {}{more}", listed(&first));
    let fix = near.map_or(Fix::None, |near| Fix::Value(quote(near)));
    if core::ptr::eq(node, &f.entry.node) {
        out.refuse(f, problem, fix);
    } else {
        out.value(f.path.clone(), node.at.as_ref(), node, problem, fix);
    }
    None
}

/// Rejects an interface of the sending host in a network of links, where senders are many hosts.
pub(super) fn refuse_interface(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    path: Option<&PathSpec>,
    host: Option<&HostSpec>,
) {
    if path.is_none_or(|path| path.links.is_none()) || host.is_none_or(|host| host.nic.is_none()) {
        return;
    }
    let section = top.field("host").and_then(|f| inside(&f, "host"));
    if let Some(f) = section.and_then(|s| s.field("nic")) {
        let problem = "is the interface of one sending host; in a network of links, write it as \
            the first link of a route";
        out.refuse(&f, problem, Fix::None);
    }
}

/// The problem of a flow without links in the reverse direction, and the line that corrects it.
pub(super) fn no_way_back(routes: &Routes) -> (&'static str, String) {
    match &routes.links {
        Some(_) => (
            "needs links of the reverse direction",
            "route_back = [\"NAME\"]".into(),
        ),
        None => (
            "needs a [path.reverse]",
            "[path.reverse]\nrate = \"5Mbit\"".into(),
        ),
    }
}

/// Sets two RTTs of each link: that of the longest route over it, and the longest base RTT of a
/// flow over it. Rejects a buffer in BDP if the latter is 0.
pub(super) fn measure(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    path: &mut PathSpec,
    flows: &[FlowSpec],
) {
    let Some(links) = &path.links else {
        return;
    };
    let delays = path.hops.iter().map(|hop| {
        let first = hop.first_delay();
        (first + first, first + first)
    });
    let mut rtts: Vec<(Span, Span)> = delays.collect();
    let mut last: Option<(&Route, Span)> = None;
    for (route, own) in flows
        .iter()
        .filter_map(|f| Some((f.route.as_deref()?, f.rtt)))
    {
        if last.is_some_and(|last| core::ptr::eq(last.0, route) && last.1 == own) {
            continue;
        }
        last = Some((route, own));
        let rtt = path.rtt_of(route);
        for link in route.forward.iter().chain(&route.back) {
            let known = &mut rtts[usize::from(*link)];
            *known = (rtt.max(known.0), (rtt + own).max(known.1));
        }
        for change in &route.changes {
            let rtt = path.rtt_over(&change.forward, &change.back) + own;
            for link in change.forward.iter().chain(&change.back) {
                let known = &mut rtts[usize::from(*link)].1;
                *known = rtt.max(*known);
            }
        }
    }
    let all = top.field("link").and_then(|f| inside(&f, "link"));
    for ((hop, place), (_, longest)) in path.hops.iter().zip(&links.links).zip(&rtts) {
        if *longest > Span::ZERO || !matches!(hop.buffer, Some(Buffer::Bdp(_))) {
            continue;
        }
        let section = all.as_ref().and_then(|all| all.field(&place.name));
        let section = section.and_then(|f| inside(&f, "link"));
        if let Some(f) = section.and_then(|s| s.field("buffer")) {
            let problem = "is a multiple of the longest base RTT of a flow over the link, which \
                is 0; write a buffer in packets or bytes, or a delay of the link";
            out.refuse(&f, problem, Fix::Value(quote("100p")));
        }
    }
    for (hop, (rtt, longest)) in path.hops.iter_mut().zip(rtts) {
        (hop.rtt, hop.longest_rtt) = (rtt, longest);
    }
}

/// The links, from which routes are made.
pub(super) struct Routes {
    /// The links, unless there are none or one of them is wrong.
    links: Option<Vec<LinkPlace>>,
    /// Whether the scenario has links that could not be read.
    unknown: bool,
    /// The seed of the scenario.
    pub seed: u64,
    end: Span,
}

/// The routes of one section `[[flow]]` or `[[probe]]`, all of which are equally long.
pub(super) struct Candidates {
    links: bool,
    forward: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
    changes: Vec<RouteChange>,
    /// The route that all flows of the section share, if there is only one candidate.
    only: Option<Arc<Route>>,
}

impl Candidates {
    /// Returns whether data can be sent in the reverse direction; without a network of links,
    /// returns `otherwise`.
    pub fn reverse(&self, otherwise: bool) -> bool {
        if self.links {
            !self.back.is_empty()
        } else {
            otherwise
        }
    }
    /// The route of the flow or probe called `id`.
    pub fn for_one(&self, id: &str, seed: u64) -> Option<Arc<Route>> {
        if self.only.is_some() || !self.links {
            return self.only.clone();
        }
        let one = |routes: &[Vec<u8>], name: String| {
            let hash = Rng::named(seed, &name).below(routes.len() as u64);
            routes.get(hash as usize).cloned().unwrap_or_default()
        };
        Some(Arc::new(Route {
            forward: one(&self.forward, format!("ecmp/{id}")),
            back: one(&self.back, format!("ecmp/{id}/back")),
            changes: self.changes.clone(),
        }))
    }
}

impl Routes {
    /// For the path of a scenario; `present`: the scenario has a section `link`.
    pub fn new(path: Option<&PathSpec>, present: bool, seed: u64, end: Span) -> Routes {
        let links = path.and_then(|path| path.links.as_ref());
        Routes {
            links: links.map(|links| links.links.clone()),
            unknown: present && links.is_none(),
            seed,
            end,
        }
    }

    /// The keys `route`, `route_back`, `from`, `to` and `reroute` of a flow or a probe. `None`
    /// after an error.
    pub fn read(&self, out: &mut Collector<'_>, s: &Section<'_>) -> Option<Candidates> {
        let mut found = Candidates {
            links: false,
            forward: Vec::new(),
            back: Vec::new(),
            changes: Vec::new(),
            only: None,
        };
        let fields = ["route", "route_back", "from", "to", "reroute"].map(|key| s.field(key));
        let Some(links) = &self.links else {
            if let (Some(f), false) = (fields.iter().flatten().next(), self.unknown) {
                let line = "[link.a]\nrate = \"20Mbit\"\ndelay = \"20ms\"".into();
                out.refuse(f, "needs a network of links", Fix::Line(line));
                return None;
            }
            return Some(found);
        };
        found.links = true;
        let [route, back, from, to, _] = fields;
        match (route, from, to) {
            (Some(f), None, None) => {
                found.forward.push(list(out, &f, links)?);
                if let Some(f) = back {
                    found.back.push(list(out, &f, links)?);
                }
            }
            (None, Some(from), Some(to)) => {
                if let Some(f) = back {
                    let problem = "cannot be combined with from and to, which determine it";
                    out.refuse(&f, problem, Fix::None);
                    return None;
                }
                let (a, b) = (node(out, &from, links)?, node(out, &to, links)?);
                found.forward = shortest(links, a, b);
                found.back = shortest(links, b, a);
                if found.forward.is_empty() {
                    let problem = format!("cannot be reached: no links lead to it from \"{a}\"");
                    out.refuse(&to, problem, Fix::None);
                    return None;
                }
            }
            (Some(_), Some(f), _) | (Some(_), None, Some(f)) => {
                let problem = "cannot be combined with route, which determines both ends";
                out.refuse(&f, problem, Fix::None);
                return None;
            }
            (None, Some(_), None) => return missing(out, s, "to", "to = \"NODE\""),
            (None, None, Some(_)) => return missing(out, s, "from", "from = \"NODE\""),
            (None, None, None) if links.len() == 1 && back.is_none() => {
                found.forward.push(alloc::vec![0]);
            }
            (None, None, None) => {
                let names: Vec<String> = links.iter().take(2).map(|l| quote(&l.name)).collect();
                return missing(out, s, "route", &format!("route = [{}]", names.join(", ")));
            }
        }
        let crossed = |link: &u8| found.back.iter().any(|back| back.contains(link));
        if let Some(link) = found.forward.iter().flatten().find(|link| crossed(link)) {
            let key = if s.field("route").is_some() {
                "route"
            } else {
                "from"
            };
            let name = &links[usize::from(*link)].name;
            let problem = format!(
                "and the route back cross \"{name}\", but a link carries one direction; write \
                 another link for the other direction"
            );
            if let Some(f) = s.field(key) {
                out.refuse(&f, problem, Fix::None);
            }
            return None;
        }
        found.changes = self.changes(out, s, links, &found.forward, &found.back)?;
        if let ([forward], [] | [_]) = (found.forward.as_slice(), found.back.as_slice()) {
            found.only = Some(Arc::new(Route {
                forward: forward.clone(),
                back: found.back.first().cloned().unwrap_or_default(),
                changes: found.changes.clone(),
            }));
        }
        Some(found)
    }

    /// `reroute`: routes that replace `forward` and `back` later.
    fn changes(
        &self,
        out: &mut Collector<'_>,
        s: &Section<'_>,
        links: &[LinkPlace],
        forward: &[Vec<u8>],
        back: &[Vec<u8>],
    ) -> Option<Vec<RouteChange>> {
        let name = if s.name == "flow" {
            "flow.reroute"
        } else {
            "probe.reroute"
        };
        let list_of = sections(out, s, name)?;
        let without_back = back.is_empty();
        let mut ahead: Vec<u8> = forward.concat();
        let mut behind: Vec<u8> = back.concat();
        let mut changes: Vec<RouteChange> = Vec::new();
        for s in &list_of {
            let at = out.values(s).all(|values| values.take::<Span>("at"))?;
            let f = s.field("at");
            let before = changes.last().map_or(Span::ZERO, |change| change.at);
            out.require(
                f.as_ref(),
                at >= before && at < self.end && changes.len() < MOST_CHANGES,
                "is not after the change before it and before the end of the scenario",
                || {
                    quote(&format_span(Span::ns(
                        before.as_ns().midpoint(self.end.as_ns()),
                    )))
                },
            )?;
            let Some(route) = s.field("route") else {
                return missing(out, s, "route", "route = [\"NAME\"]");
            };
            let forward = list(out, &route, links)?;
            let back = match (s.field("route_back"), without_back) {
                (Some(f), false) => list(out, &f, links)?,
                (None, true) => Vec::new(),
                (Some(f), true) => {
                    let problem = "needs a route_back of the flow from its start";
                    out.refuse(&f, problem, Fix::None);
                    return None;
                }
                (None, false) => {
                    return missing(out, s, "route_back", "route_back = [\"NAME\"]");
                }
            };
            ahead.extend(&forward);
            behind.extend(&back);
            if let Some(link) = ahead.iter().find(|link| behind.contains(link)) {
                let name = &links[usize::from(*link)].name;
                let problem = format!(
                    "and another route of this flow cross \"{name}\" in opposite directions, but a \
                     link carries one direction"
                );
                out.refuse(&route, problem, Fix::None);
                return None;
            }
            changes.push(RouteChange { at, forward, back });
        }
        Some(changes)
    }
}

/// A list of links, by their names.
fn list(out: &mut Collector<'_>, f: &Field<'_>, links: &[LinkPlace]) -> Option<Vec<u8>> {
    let Value::Array(items) = &f.entry.node.value else {
        let written = super::write::inline(&f.entry.node.value);
        let fix = Fix::Value(format!("[{written}]"));
        out.refuse(f, "is not a list of links", fix);
        return None;
    };
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let mut route: Vec<u8> = Vec::new();
    for item in items {
        let link = number_of(out, f, item, "link", &names)?;
        let (name, before) = (&links[usize::from(link)].name, route.last());
        if route.contains(&link) {
            out.refuse(f, format!("contains \"{name}\" twice"), Fix::None);
            return None;
        }
        let before = before.map(|before| &links[usize::from(*before)]);
        let from = &links[usize::from(link)].from;
        if let (Some(before), Some(from)) = (before, from) {
            if let Some(to) = before.to.as_ref().filter(|to| *to != from) {
                let problem = format!(
                    "is interrupted: \"{}\" ends at \"{to}\", but \"{name}\" begins at \"{from}\"",
                    before.name
                );
                out.refuse(f, problem, Fix::None);
                return None;
            }
        }
        route.push(link);
    }
    if route.is_empty() {
        let first = links.first().map_or("", |link| link.name.as_str());
        let fix = Fix::Value(format!("[{}]", quote(first)));
        out.refuse(f, "is empty; a route has at least one link", fix);
        return None;
    }
    Some(route)
}

/// A node at an end of a link.
fn node<'l>(out: &mut Collector<'_>, f: &Field<'_>, links: &'l [LinkPlace]) -> Option<&'l str> {
    let mut nodes: Vec<&str> = links
        .iter()
        .flat_map(|link| [&link.from, &link.to])
        .flatten()
        .map(String::as_str)
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    // Each link has two nodes, so there may be more nodes than the `u8` of `number_of` can number.
    let number = match &f.entry.node.value {
        Value::String(text) => nodes.iter().position(|node| node == text),
        _ => None,
    };
    match number {
        Some(number) => Some(nodes[number]),
        None => {
            number_of(
                out,
                f,
                &f.entry.node,
                "node, the from or to of a link",
                &nodes,
            );
            None
        }
    }
}

/// The routes with the smallest number of links between two nodes, in the order of the links; at
/// most `MOST_ROUTES`.
fn shortest(links: &[LinkPlace], from: &str, to: &str) -> Vec<Vec<u8>> {
    let ends: Vec<(u8, &str, &str)> = (0..)
        .zip(links)
        .filter_map(|(link, place)| Some((link, place.from.as_deref()?, place.to.as_deref()?)))
        .collect();
    // Number of links from each node to `to`.
    let mut distances = BTreeMap::from([(to, 0)]);
    let mut open = VecDeque::from([to]);
    while let Some(node) = open.pop_front() {
        let farther = distances[node] + 1;
        for (_, begin, _) in ends.iter().filter(|(.., end)| *end == node) {
            distances.entry(*begin).or_insert_with(|| {
                open.push_back(*begin);
                farther
            });
        }
    }
    let mut routes: Vec<Vec<u8>> = Vec::new();
    if from == to {
        return routes;
    }
    // Each link brings a route nearer to `to`, so every partial route becomes a complete one. The
    // last partial route is extended first: the number of partial routes stays below that of links.
    let mut partial = alloc::vec![(from, Vec::new())];
    while let Some((node, route)) = partial.pop().filter(|_| routes.len() < MOST_ROUTES) {
        if node == to {
            routes.push(route);
            continue;
        }
        let Some(distance) = distances.get(node) else {
            continue;
        };
        for (link, _, end) in ends.iter().rev().filter(|(_, begin, _)| *begin == node) {
            if distances.get(end).is_some_and(|rest| rest + 1 == *distance) {
                let mut longer = route.clone();
                longer.push(*link);
                partial.push((*end, longer));
            }
        }
    }
    routes
}

/// For each link, whether it is on a shortest route between the ends of these routes. A route is
/// given by its first and last link.
pub(super) fn on_equal_routes(links: &[LinkPlace], routes: &BTreeSet<(u8, u8)>) -> [bool; 256] {
    let mut found = [false; 256];
    for (first, last) in routes {
        let from = links[usize::from(*first)].from.as_deref();
        let to = links[usize::from(*last)].to.as_deref();
        if let (Some(from), Some(to)) = (from, to) {
            for link in shortest(links, from, to).into_iter().flatten() {
                found[usize::from(link)] = true;
            }
        }
    }
    found
}

/// `[link.NAME]` and `[switch.NAME]`.
pub(super) fn put_links(top: &mut Entries, path: &PathSpec, links: &Links) {
    let mut tables = Entries::new();
    for (hop, place) in path.hops.iter().zip(&links.links) {
        let mut e = hop::entries(hop, Place::Link);
        for (key, node) in [("from", &place.from), ("to", &place.to)] {
            if let Some(node) = node {
                put(&mut e, key, Node::string(node.clone()));
            }
        }
        if let Some(switch) = place.switch {
            let name = links.switches[usize::from(switch)].name.clone();
            put(&mut e, "switch", Node::string(name));
        }
        put(&mut tables, &place.name, Node::table(e));
    }
    put(top, "link", Node::table(tables));
    if links.switches.is_empty() {
        return;
    }
    let mut tables = Entries::new();
    for switch in &links.switches {
        let mut e = Entries::new();
        write(&mut e, "buffer", &switch.buffer);
        write(&mut e, "alpha", &switch.alpha);
        put(&mut tables, &switch.name, Node::table(e));
    }
    put(top, "switch", Node::table(tables));
}

/// The route of a flow or a probe.
pub(super) fn put_route(e: &mut Entries, path: &PathSpec, route: Option<&Route>) {
    let (Some(links), Some(route)) = (&path.links, route) else {
        return;
    };
    let both = |e: &mut Entries, forward: &[u8], back: &[u8]| {
        let name = |link: &u8| Node::string(links.links[usize::from(*link)].name.clone());
        put(e, "route", Node::array(forward.iter().map(name).collect()));
        if !back.is_empty() {
            put(
                e,
                "route_back",
                Node::array(back.iter().map(name).collect()),
            );
        }
    };
    both(e, &route.forward, &route.back);
    let changes = route.changes.iter().map(|change| {
        let mut e = Entries::new();
        write(&mut e, "at", &change.at);
        both(&mut e, &change.forward, &change.back);
        Node::table(e)
    });
    if !route.changes.is_empty() {
        put(e, "reroute", Node::array(changes.collect()));
    }
}
