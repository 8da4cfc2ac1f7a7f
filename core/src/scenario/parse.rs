//! From a tree to a scenario: sections, defaults, and conditions between keys.

use super::application;
use super::dscp;
use super::ecn;
use super::error::{Collector, Errors, Fix, MOST, show};
use super::hop::path;
use super::host;
use super::hosts::{self, Hosts};
use super::ip;
use super::keys;
use super::links::{self, Routes};
use super::model::{Offer, of_kernel};
use super::probes::{far_host, probes};
use super::read::{Field, Section};
use super::schema::Values;
use super::transport;
use super::value::{Tree, Value};
use super::varying::{Files, no_files};
use super::version;
use super::wifi::{self, Written};
use super::write::quote;
use super::{Direction, FlowSpec, HostSpec, PathSpec, Scenario, SectionNumber};
use crate::cc::Need;
use crate::kernel::{Kernel, Rule};
use crate::packet::Ip;
use crate::packet::Packet;
use crate::param::{Choice, Param, Params, Refusal, no_check};
use crate::registry::Registry;
use crate::registry::endpoint::Kind as Transport;
use crate::tcp::{Clock, EcnMode, EcnNegotiation, Pacing};
use crate::units::{Bytes, Span, format_span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A full frame: the minimum of a buffer or a bucket, because otherwise no full packet passes.
pub(super) const FRAME: Bytes = Bytes::new(1514);
pub(super) const DAY: Span = Span::s(24 * 3600);
pub(super) const HOUR: Span = Span::s(3600);
pub(super) const MOST_FLOWS: u64 = 100_000;
/// Maximum number of characters of a title, and of the name of a flow or a station.
pub(super) const MOST_TITLE: usize = 200;
pub(super) const MOST_NAME: usize = 64;
const DIRECTIONS: [(&str, Direction); 2] = [("down", Direction::Down), ("up", Direction::Up)];

impl Scenario {
    /// Reads a TOML document that names no files. `file_name` is for errors.
    pub fn from_toml<P: Packet + Send + 'static>(
        text: &str,
        file_name: &str,
        registry: &Registry<P>,
    ) -> Result<Scenario, Errors> {
        let tree = Tree::from_toml(text, file_name)?;
        Scenario::from_tree(&tree, file_name, Some(text), registry, &no_files)
    }

    /// Reads a tree, from TOML or from another language's values. Errors refer to lines of
    /// `source_text` if the tree has positions in it, else to the key's path. `files` reads the
    /// files that the tree names.
    pub fn from_tree<P: Packet + Send + 'static>(
        tree: &Tree,
        file_name: &str,
        source_text: Option<&str>,
        registry: &Registry<P>,
        files: &Files<'_>,
    ) -> Result<Scenario, Errors> {
        let known = Known {
            ccs: registry
                .ccs()
                .iter()
                .map(|k| offer(k.name, k.params, no_check))
                .collect(),
            needs: registry.ccs().iter().map(|k| (k.name, k.needs)).collect(),
            feedback: registry
                .queues()
                .iter()
                .filter(|k| k.feedback)
                .map(|k| k.name)
                .collect(),
            queues: registry
                .queues()
                .iter()
                .map(|k| offer(k.name, k.params, k.check))
                .collect(),
            transports: registry.transports().to_vec(),
        };
        let mut out = Collector::new(file_name, source_text, files);
        let mut tree = tree.clone();
        match source_text {
            Some(_) => tree.migrate(),
            None => tree.migrate_values(),
        }
        let scenario = scenario(&mut out, &tree, &known);
        out.finish(scenario)
    }
}

/// The entries of a registry, without its packet type.
pub(super) struct Known {
    pub ccs: Vec<Offer>,
    pub queues: Vec<Offer>,
    /// Requirements of each congestion control, by its name.
    pub needs: Vec<(&'static str, &'static [Need])>,
    /// Queues that write into congestion headers.
    pub feedback: Vec<&'static str>,
    pub transports: Vec<Transport>,
}

impl Known {
    /// The first flow's congestion control with this requirement, among the flows that `count`.
    fn who<'f>(
        &self,
        flows: &'f [FlowSpec],
        need: Need,
        counts: impl Fn(&FlowSpec) -> bool,
    ) -> Option<&'f str> {
        let kinds = flows
            .iter()
            .filter(|flow| flow.transport.is_none() && counts(flow))
            .map(|flow| flow.cc.kind.as_str());
        kinds
            .into_iter()
            .find(|kind| self.needs_of(kind).contains(&need))
    }
    /// The requirements of a congestion control on the connection or the path ([`Need`]); none if
    /// it is unknown.
    fn needs_of(&self, cc: &str) -> &'static [Need] {
        let found = self.needs.iter().find(|(name, _)| *name == cc);
        found.map_or(&[], |(_, needs)| needs)
    }
}

fn offer(
    name: &'static str,
    params: &'static [Param],
    check: fn(&Params) -> Result<(), Refusal>,
) -> Offer {
    Offer {
        name,
        params,
        check,
    }
}

/// Reads every section even after errors in others, so that all errors are reported at once.
fn scenario(out: &mut Collector<'_>, tree: &Tree, known: &Known) -> Option<Scenario> {
    let top = Section {
        name: "",
        path: String::new(),
        table: &tree.root,
        at: None,
    };
    if version::is_newer(out, &top) {
        return None;
    }
    out.known_keys(&top);

    let title = optional(top.field("title"), String::new(), |f| {
        out.text(&f, MOST_TITLE).map(Into::into)
    });
    let mut values = out.values(&top);
    let duration: Option<Span> = values.optional("duration");
    let end = duration.unwrap_or(DAY);
    let fifth = Span::ns(end.as_ns() / 5);
    let warmup = values.optional("warmup").unwrap_or(fifth);
    let f = top.field("warmup");
    let kept = out.require(
        f.as_ref(),
        warmup < end,
        "is not shorter than the duration",
        || quote(&format_span(fifth)),
    );
    let wifi = wifi::read(out, &top, known);
    let links = links::read(out, &top, known);
    let mut path = match (&wifi, links) {
        (_, Some(Some(links))) => Some(links),
        (Some(Some(wifi)), Some(None)) => Some(wifi.spec.as_path()),
        (Some(None), Some(None)) => path(out, &top, known),
        _ => None,
    };
    let seed: u64 = values.take("seed");
    let hosts = hosts::read(out, &top, known);
    // A wrong path may have a reverse hop.
    let reverse =
        path.as_ref().is_none_or(|p| p.reverse.is_some()) || matches!(wifi, Some(Some(_)));
    // The stations of a wrong Wi-Fi are unknown.
    let wifi = wifi?;
    links::refuse_interface(out, &top, path.as_ref(), hosts.usual.as_ref());
    let routes = Routes::new(path.as_ref(), top.field("link").is_some(), seed, end);
    let context = FlowContext {
        end,
        routes: &routes,
        hosts: &hosts,
        reverse,
        wifi: wifi.as_ref(),
    };
    let flows = flows(out, &top, known, &context);
    if let Some(flows) = &flows {
        needs(out, &top, known, flows, &hosts);
    }
    if let (Some(flows), Some(path)) = (&flows, &path) {
        feedback(out, &top, known, flows, path);
    }
    if let (Some(path), Some(flows)) = (&mut path, &flows) {
        links::measure(out, &top, path, flows);
    }
    let farther = flows.iter().flatten().map(|flow| flow.rtt).max();
    let rtt = path.as_ref().map_or(Span::ZERO, PathSpec::rtt) + farther.unwrap_or(Span::ZERO);
    // A flow whose start was moved past the end would never start.
    let start_jitter = optional(top.field("start_jitter"), rtt.min(end).min(HOUR), |f| {
        out.quantity(&f, "ms", Span::ZERO, end.min(HOUR))
    });
    let probes = probes(out, &top, wifi.as_ref(), &routes);
    if let (Some(path), Some(flows), Some(probes)) = (&mut path, &flows, &probes) {
        out.number_flows(path, flows, probes);
    }
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
    kept?;
    let (host, hosts) = hosts.finish()?;
    Some(Scenario {
        title: title?,
        duration: duration?,
        warmup,
        seed,
        start_jitter: start_jitter?,
        path: path?,
        wifi: wifi.map(|wifi| wifi.spec),
        host,
        hosts,
        flows: flows?,
        probes: probes?,
        keys: values.rest()?,
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

/// Records that a required key is absent, unless it was misspelt: then that error has been recorded
/// already.
pub(super) fn missing<T>(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    name: &str,
    line: &str,
) -> Option<T> {
    if misspelt(s, name) {
        return None;
    }
    out.missing(s.path_of(name), s.at.as_ref(), "is missing", line.into());
    None
}

/// Returns whether an unknown key of the section is probably the absent key `name`.
pub(super) fn misspelt(s: &Section<'_>, name: &str) -> bool {
    let unknown = s
        .table
        .entries
        .iter()
        .filter(|e| keys::of(s.name).all(|k| k.name != e.key));
    let absent: Vec<&str> = keys::of(s.name)
        .map(|k| k.name)
        .filter(|name| s.table.get(name).is_none())
        .collect();
    // Unknown keys beyond this number have not been reported.
    unknown
        .take(MOST)
        .any(|e| keys::nearest(&e.key, absent.iter().copied()) == Some(name))
}

/// The section called `name`, if it was written as one; `Err` for another value.
pub(super) fn section<'t>(
    out: &mut Collector<'_>,
    parent: &Section<'t>,
    name: &'static str,
) -> Result<Option<Section<'t>>, ()> {
    let Some(f) = parent.field(keys::last(name)) else {
        return Ok(None);
    };
    match &f.entry.node.value {
        Value::Table(table) => {
            let s = Section {
                name,
                path: f.path.clone(),
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
pub(super) fn sections<'t>(
    out: &mut Collector<'_>,
    parent: &Section<'t>,
    name: &'static str,
) -> Option<Vec<Section<'t>>> {
    let Some(f) = parent.field(keys::last(name)) else {
        return Some(Vec::new());
    };
    let line = || Fix::Line(format!("[[{name}]]"));
    let entry = keys::entry(name);
    let Value::Array(items) = &f.entry.node.value else {
        let (problem, fix) = match (&f.entry.node.value, entry) {
            (_, None) => ("is not a list of sections", line()),
            (table @ Value::Table(_), _) => {
                let list = format!("[{}]", super::write::inline(table));
                ("is not a list", Fix::Value(list))
            }
            (_, Some(entry)) => ("is not a list", Fix::Value(format!("[{entry}]"))),
        };
        out.refuse(&f, problem, fix);
        return None;
    };
    if items.is_empty() && entry.is_some() {
        return Some(Vec::new());
    }
    if items.is_empty() {
        out.refuse(&f, "is an empty list", line());
        return None;
    }
    let mut list = Vec::new();
    let mut good = true;
    for (i, item) in items.iter().enumerate() {
        let path = format!("{}[{i}]", f.path);
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
            let (problem, fix) = match entry {
                Some(entry) => ("is not a table", Fix::Value(entry.into())),
                None => ("is not a section", line()),
            };
            out.value(path, item.at.as_ref(), item, problem, fix);
            good = false;
        }
    }
    good.then_some(list)
}

/// The values of the rest of the scenario that a flow depends on.
struct FlowContext<'a> {
    /// The links, and the routes over them.
    routes: &'a Routes,
    /// End of the scenario.
    end: Span,
    /// The hosts.
    hosts: &'a Hosts,
    /// Whether the path has a reverse hop.
    reverse: bool,
    /// The Wi-Fi, if there is one.
    wifi: Option<&'a Written>,
}

fn flows(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    known: &Known,
    context: &FlowContext<'_>,
) -> Option<Vec<FlowSpec>> {
    let list = sections(out, top, "flow")?;
    let mut flows = Vec::new();
    let mut ids = BTreeSet::new();
    let written = written_ids(&list);
    let mut unnamed: BTreeMap<String, u64> = BTreeMap::new();
    let mut good = true;
    for (number, s) in list.iter().enumerate() {
        let room = MOST_FLOWS - flows.len() as u64;
        let stations = wifi::stations(out, s, context.wifi);
        let routes = context.routes.read(out, s);
        let reverse = routes.as_ref().is_none_or(|r| r.reverse(context.reverse));
        let template = flow(out, s, known, context, reverse);
        let (Some((template, count, named)), Some(stations), Some(routes)) =
            (template, stations, routes)
        else {
            good = false;
            continue;
        };
        let each = count;
        let count = each * stations.len() as u64;
        if count > room {
            let f = s.field("count");
            let near = f
                .as_ref()
                .and_then(|f| f.entry.key_at.as_ref())
                .or(s.at.as_ref());
            let problem = format!("is too large: a scenario has at most {MOST_FLOWS} flows");
            out.missing(s.path_of("count"), near, problem, format!("count = {room}"));
            return None;
        }
        for i in 0..count {
            let mut id = match &named {
                Some(id) if count == 1 => id.clone(),
                Some(id) => format!("{id}{i}"),
                None => {
                    let kind = &template.workload.as_ref().unwrap_or(&template.cc).kind;
                    let kind = template.transport.as_ref().unwrap_or(kind);
                    // As an id, `kernel:cubic` is `kernel_cubic`.
                    let kind = kind.replace(':', "_");
                    let n = unnamed.entry(kind.clone()).or_default();
                    *n += 1;
                    format!("{kind}{}", *n - 1)
                }
            };
            // A generated name yields: `bbr30` is the first of bbr3 and the thirty-first of bbr.
            while named.is_none() && (ids.contains(&id) || written.contains(&id)) {
                id.push_str("-2");
            }
            if !ids.insert(id.clone()) {
                let near = s
                    .field("id")
                    .and_then(|f| f.entry.key_at.clone())
                    .or(s.at.clone());
                let mut other = id.clone();
                while ids.contains(&other) {
                    other.push_str("-2");
                }
                let problem = format!("is \"{id}\", the id of another flow");
                out.missing(
                    s.path_of("id"),
                    near.as_ref(),
                    problem,
                    format!("id = {}", quote(&other)),
                );
                good = false;
                break;
            }
            flows.push(FlowSpec {
                route: routes.for_one(&id, context.routes.seed),
                id,
                station: stations[(i / each) as usize],
                section: SectionNumber(number),
                ..template.clone()
            });
        }
    }
    good.then_some(flows)
}

/// The ids that sections give to flows, including sections with a count or with stations.
fn written_ids(list: &[Section<'_>]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for s in list {
        let Some(Value::String(id)) = s.field("id").map(|f| &f.entry.node.value) else {
            continue;
        };
        let count = match s.field("count").map(|f| &f.entry.node.value) {
            Some(Value::Integer(n)) => u64::try_from(*n).unwrap_or(0).min(MOST_FLOWS),
            _ => 1,
        };
        ids.insert(id.clone());
        if count > 1 || s.field("station").is_some() {
            ids.extend((0..count.max(u64::from(u8::MAX))).map(|i| format!("{id}{i}")));
        }
    }
    ids
}

/// Rejects hosts without the properties that their flows require.
fn needs(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    known: &Known,
    flows: &[FlowSpec],
    hosts: &Hosts,
) {
    let Some(all) = top.field("host").and_then(|f| inside(&f, "host")) else {
        return;
    };
    let numbers = (0..hosts.named.len()).map(|number| Some(number as u8));
    for number in core::iter::once(None).chain(numbers) {
        let named = number.and_then(|number| hosts.named.get(usize::from(number)));
        let own = named.and_then(|(name, _)| inside(&all.field(name)?, "host"));
        let Some(host) = hosts.of(number) else {
            continue;
        };
        let lacks = [
            (
                "pacing",
                Need::Pacing,
                host.pacing == Pacing::Off,
                Pacing::Auto.word(),
            ),
            (
                "clock",
                Need::FineRtt,
                host.clock != Clock::Us,
                Clock::Us.word(),
            ),
        ];
        for (key, need, lacking, right) in lacks {
            let field = own.as_ref().and_then(|s| s.field(key));
            if let (true, Some(who), Some(f)) = (
                lacking,
                known.who(flows, need, |flow| flow.sender == number),
                field.or_else(|| all.field(key)),
            ) {
                let problem = format!("is not sufficient for {who}, which needs {}", need.help());
                out.refuse(&f, problem, Fix::Value(quote(right)));
            }
        }
    }
}

/// Rejects a path whose bottleneck does not give the feedback that a flow requires.
fn feedback(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    known: &Known,
    flows: &[FlowSpec],
    path: &PathSpec,
) {
    let whole = top.field("path").and_then(|f| inside(&f, "path"));
    let down = whole.as_ref().and_then(|s| match s.field("hop") {
        None => inside(&top.field("path")?, "path"),
        Some(f) => match &f.entry.node.value {
            Value::Array(hops) => {
                let (i, hop) = (path.narrowest(), hops.get(path.narrowest())?);
                let Value::Table(table) = &hop.value else {
                    return None;
                };
                Some(Section {
                    name: "path.hop",
                    path: format!("{}[{i}]", f.path),
                    table,
                    at: hop.at.clone(),
                })
            }
            _ => None,
        },
    });
    let up = whole
        .as_ref()
        .and_then(|s| inside(&s.field("reverse")?, "path.reverse"));
    let hops = [
        (Direction::Down, Some(path.bottleneck()), down),
        (Direction::Up, path.reverse.as_ref(), up),
    ];
    for (direction, hop, s) in hops {
        let (Some(hop), Some(s)) = (hop, s) else {
            continue;
        };
        let Some(who) = known.who(flows, Need::Feedback, |flow| flow.direction == direction) else {
            continue;
        };
        if known.feedback.contains(&hop.queue.kind.as_str()) {
            continue;
        }
        let example = known.feedback.first().copied().unwrap_or("");
        let need = format!("for {who}, which needs {}", Need::Feedback.help());
        match s.field("queue") {
            Some(f) => out.refuse(
                &f,
                format!("is not sufficient {need}"),
                Fix::Value(quote(example)),
            ),
            None => {
                let (path, line) = (s.path_of("queue"), format!("queue = {}", quote(example)));
                out.missing(path, s.at.as_ref(), format!("is missing {need}"), line);
            }
        }
    }
}

/// The section in a field, after a check of its keys.
pub(super) fn inside<'t>(f: &Field<'t>, name: &'static str) -> Option<Section<'t>> {
    let Value::Table(table) = &f.entry.node.value else {
        return None;
    };
    Some(Section {
        name,
        path: f.path.clone(),
        table,
        at: f.entry.key_at.clone(),
    })
}

/// An example of a congestion control.
fn cc_line(known: &Known) -> String {
    format!(
        "cc = {}",
        quote(known.ccs.first().map_or("", |offer| offer.name))
    )
}

/// One `[[flow]]`: the flow, its count, and the id it was given.
fn flow(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &Known,
    context: &FlowContext<'_>,
    reverse: bool,
) -> Option<(FlowSpec, u64, Option<String>)> {
    let &FlowContext {
        end, hosts, wifi, ..
    } = context;
    let no_way_back = links::no_way_back(context.routes);
    let workload = application::workload(out, s, reverse, no_way_back);
    let transport = transport::transport(out, s, known)?;
    let cc = match s.field("cc") {
        of if transport.is_some() => transport::cc(out, of.as_ref(), transport),
        None if workload.as_ref().is_none_or(Option::is_some) => {
            let workload = workload.iter().flatten().next();
            workload.and_then(|workload| application::usual(known, workload))
        }
        Some(f) => of_kernel(&f).or_else(|| out.choice(&f, "congestion control", &known.ccs, &[])),
        None => missing(out, s, "cc", &cc_line(known)),
    };
    let like = optional(s.field("like"), None, |f| host::like(out, &f).map(Some));
    let mut values = out.values(s);
    let direction = values.word("direction", &DIRECTIONS);
    let ends = hosts.ends(out, s, direction);
    let [sender, receiver] = ends.unwrap_or_default();
    let (spec, host_ecn) = (hosts.of(sender), hosts.ecn(sender, receiver));
    let ip = optional(s.field("ip"), Ip::V4, |f| ip::read(out, &f))?;
    let largest = hosts.datagram([sender, receiver], ip);
    if let (Some(Some(workload)), Some(most)) = (&workload, largest) {
        application::fits(out, s, workload, ip, most)?;
    }
    if let (Some(cc), None) = (&cc, transport) {
        let needs = known.needs_of(&cc.kind);
        hosts.segments(out, s, [sender, receiver], ip, needs)?;
    }
    if let (Some(cc), Some(like), Some(host), None) = (&cc, &like, spec, transport) {
        available(out, s, known, (cc, like.as_deref()), host)?;
    }
    let times = times(out, s, &mut values, end);
    let upwards = match s.field("direction") {
        Some(f) if direction == Direction::Up && !reverse => {
            let (problem, line) = links::no_way_back(context.routes);
            out.refuse(&f, format!("{problem} for its data"), Fix::Line(line));
            None
        }
        _ => Some(()),
    };
    let dscp = optional(s.field("dscp"), dscp::USUAL, |f| dscp::read(out, &f));
    let host = far_host(out, s, &mut values, wifi.is_some());
    let wants = cc
        .as_ref()
        .filter(|_| transport.is_none())
        .is_some_and(|cc| {
            let needs = known.needs_of(&cc.kind);
            needs.contains(&Need::EcnEcho) || needs.contains(&Need::EcnCount)
        });
    let unless_said = match host_ecn {
        EcnMode::Off => EcnNegotiation::Off,
        EcnMode::Passive | EcnMode::On if wants => EcnNegotiation::Both,
        EcnMode::Passive => EcnNegotiation::Off,
        EcnMode::On => EcnNegotiation::Requested,
    };
    let ecn = optional(s.field("ecn"), unless_said, |f| ecn::read(out, &f));
    let (f, problem) = (s.field("ecn"), "contradicts ecn = \"off\" of [host]");
    let on = matches!(
        ecn,
        Some(EcnNegotiation::Requested | EcnNegotiation::Accurate)
    );
    let off = on && host_ecn == EcnMode::Off;
    let negotiable = out.require(f.as_ref(), !off, problem, || "false".into());
    let named = optional(s.field("id"), None, |f| {
        out.name(&f, MOST_NAME, "an id", "a").map(Some)
    });
    let (start, stop, restart) = times?;
    upwards.and(negotiable).and(ends)?;
    let count = values.take("count");
    let flow = FlowSpec {
        id: String::new(),
        cc: cc?,
        rtt: values.take("rtt"),
        start,
        stop,
        restart,
        direction,
        dscp: dscp?,
        host: host?,
        ip,
        ecn: ecn?,
        sender,
        receiver,
        size: values.optional("size"),
        like: like?,
        station: None,
        route: None,
        workload: workload?,
        transport: transport.map(|kind| kind.name.into()),
        section: SectionNumber::default(),
        keys: values.rest()?,
    };
    Some((flow, count, named?))
}

/// Rejects a congestion control that the release of the sender does not have, or cannot pace.
fn available(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &Known,
    (cc, like): (&Choice, Option<&str>),
    host: &HostSpec,
) -> Option<()> {
    let kernel = like
        .and_then(Kernel::named)
        .unwrap_or_else(|| host.kernel());
    let f = s.field("cc");
    let problem = "is not part of Linux before 4.9";
    let absent = cc.kind == "bbr" && !kernel.follows(Rule::Bbr);
    out.require(f.as_ref(), !absent, problem, || quote("cubic"))?;
    let paces = kernel.follows(Rule::PacingInTcp)
        || host.config().device.is_some_and(|device| device.paces);
    if paces || !known.needs_of(&cc.kind).contains(&Need::Pacing) {
        return Some(());
    }
    let f = f?;
    let problem = "needs pacing, which Linux before 4.13 has only in the queue discipline fq";
    out.refuse(&f, problem, Fix::Line("[host]\npacing = \"fq\"".into()));
    None
}

/// Start, stop and restart of a flow, in this order. The flow must start before `end`, the end of
/// the scenario; an error message proposes `end` as `stop`.
fn times(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    values: &mut Values,
    end: Span,
) -> Option<(Span, Option<Span>, Option<Span>)> {
    let start: Span = values.take("start");
    let stop: Option<Span> = values.optional("stop");
    let restart: Option<Span> = values.optional("restart");
    let [of_start, of_stop, of_restart] = ["start", "stop", "restart"].map(|key| s.field(key));
    let problem = "is not before the end of the scenario";
    let started = out.require(of_start.as_ref(), start < end, problem, || quote("0s"));
    let later = started.is_none() || stop.is_none_or(|stop| stop > start);
    let stopped = out.require(
        of_stop.as_ref(),
        later,
        "is not after the flow's start",
        || quote(&format_span(end)),
    );
    if let (Some(restart), None, Some(f)) = (restart, &of_stop, &of_restart) {
        let stop = format_span(Span::ns(restart.as_ns() / 2));
        let line = format!("stop = \"{stop}\"\nrestart = {}", show(&f.entry.node.value));
        out.refuse(f, "needs a stop before it", Fix::Line(line));
        return None;
    }
    let later = restart.is_none_or(|restart| stop.is_none_or(|stop| restart > stop));
    out.require(
        of_restart.as_ref(),
        later,
        "is not after the flow's stop",
        || quote(&format_span(stop.unwrap_or(start) + Span::s(1))),
    )?;
    started.and(stopped)?;
    Some((start, stop, restart))
}
