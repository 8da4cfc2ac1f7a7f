//! The properties of a scenario that decide whether the result of a stored case, such as a
//! comparison with Linux, applies to it.
//!
//! Kinds (of queue, policer and further elements) must be equal, otherwise the case does not apply.
//! Numbers may differ, and their difference is a distance that the caller computes. Only plain
//! paths are comparable with each other; additional elements are listed in [`Likeness::besides`].
//!
//! - The rate is the long-term rate. On a path with a policer, the rate that counts is the rate of
//!   the policer. The buffer is then taken as the burst of the policer, because almost no packets
//!   queue behind the policer. The headroom is the ratio of the rate of the link to the rate of the
//!   policer.
//! - A token bucket that releases at most two full frames, or a millisecond of its rate, at once is
//!   a plain link. One that releases more is a shaper. (The token buckets of stored cases release
//!   0.25 ms of their rate at once, at least two frames.)
//! - Number, start, end and size of flows do not count. Hosts do not count either, unless the
//!   interface of a sender has a rate of its own; this rate is then decisive.

use super::{Choice, HopSpec, Link, PathSpec, Scenario, Varying};
use crate::net::{loss, policer};
use crate::packet::Packet;
use crate::param::{Param, Params};
use crate::queue::Limit;
use crate::registry::Registry;
use crate::tcp::EcnNegotiation;
use crate::units::{Bytes, Rate, Span};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A full Ethernet frame, in bytes.
const FRAME: u64 = 1514;

/// The difference of a host whose interface has a rate.
const INTERFACE: &str = "a sender's interface with a rate";

/// Upper bound of [`Likeness::headroom`]: a greater ratio makes no difference.
const HEADROOM: f64 = 10.0;

/// The kinds and numbers of a scenario's path.
#[derive(Clone, PartialEq, Debug)]
pub struct Likeness {
    /// The queue discipline at the bottleneck, with its parameters that differ from the defaults.
    pub queue: String,
    /// The policer at the bottleneck, with its parameters that differ from the defaults, except
    /// rate and burst.
    pub policer: Option<String>,
    /// Differences from a plain path, in words for a person.
    pub besides: Vec<String>,
    /// The long-term rate.
    pub rate: Rate,
    /// The RTTs without a queue, each once; the path's own without flows.
    pub rtts: Vec<Span>,
    /// The buffer, or a policer's burst, in bandwidth-delay products; `None` for the discipline's
    /// own limit.
    pub room_bdp: Option<f64>,
    /// Ratio of the bottleneck's link rate to the long-term rate: 1 without a policer, at most 10.
    pub headroom: f64,
    /// Probability of random loss, from 0 to 1.
    pub loss: f64,
}

impl Likeness {
    /// For a scenario whose names `registry` has.
    pub fn of<P: Packet + Send + 'static>(scenario: &Scenario, registry: &Registry<P>) -> Likeness {
        let path = &scenario.path;
        let hop = path.bottleneck();
        let (loss, lost) = random_loss(hop);
        let mut besides = elements(path, hop);
        besides.extend(scenario.wifi.as_ref().map(|_| String::from("Wi-Fi")));
        besides.extend(lost);
        besides.extend(senders(scenario, registry));
        let wider = hop.policer.is_some() && policed(hop).is_none_or(|rate| rate > hop.rate);
        if wider {
            besides.push("a policer that is not the narrowest".into());
        }
        let table = registry
            .queue(&hop.queue.kind)
            .map_or(&[][..], |kind| kind.params);
        let mut rtts: Vec<Span> = scenario.flows.iter().map(|f| scenario.rtt_of(f)).collect();
        if rtts.is_empty() {
            rtts.push(path.rtt());
        }
        rtts.sort_unstable();
        rtts.dedup();
        Likeness {
            queue: describe(&hop.queue, table, &[]),
            policer: hop.policer.as_ref().map(|choice| {
                let kind = policer::KINDS.iter().find(|kind| kind.name == choice.kind);
                describe(
                    choice,
                    kind.map_or(&[][..], |kind| kind.params),
                    &["rate", "burst"],
                )
            }),
            besides,
            rate: hop.target(),
            rtts,
            room_bdp: room(path, hop, !wider)
                .map(|bytes| bytes as f64 / path.bdp().get().max(1) as f64),
            headroom: (hop.rate.as_mbit() / hop.target().as_mbit()).clamp(1.0, HEADROOM),
            loss,
        }
    }
}

/// The long-term rate of a policer.
fn policed(hop: &HopSpec) -> Option<Rate> {
    hop.policer
        .as_ref()
        .and_then(|c| policer::passes(&c.kind, &c.params))
}

/// Bytes that fit before a drop.
fn room(path: &PathSpec, hop: &HopSpec, policed: bool) -> Option<u64> {
    let burst = hop
        .policer
        .as_ref()
        .filter(|_| policed)
        .and_then(|c| c.params.get("burst"));
    match (burst, path.limit(hop)) {
        (Some(crate::param::Value::Bytes(burst)), _) => Some(burst.get()),
        (_, Some(Limit::Bytes(bytes))) => Some(bytes.get()),
        (_, Some(Limit::Packets(packets))) => Some(packets * FRAME),
        (_, None) => None,
    }
}

/// The elements of the path beside a queue, a policer and a plain link.
fn elements(path: &PathSpec, hop: &HopSpec) -> Vec<String> {
    let few = Bytes::new(2 * FRAME + 2 * 26).max(hop.rate * Span::ms(1));
    let shaper = match hop.link {
        Link::Serial => None,
        Link::Tbf { peak: Some(_), .. } => Some("tbf with a peak rate"),
        Link::Tbf { burst, .. } => Some("tbf with a burst").filter(|_| burst > few),
        Link::Htb { burst } => Some("htb with a burst").filter(|_| burst > few),
        Link::ShapeAverage { .. } => Some("shape average"),
        Link::ShapePeak { .. } => Some("shape peak"),
    };
    let several = path.hops.len() > 1 && path.links.is_none();
    let varies = |how: fn(&Varying) -> bool| hop.varying.as_deref().is_some_and(how);
    [
        path.links.is_some().then(|| "a network of links".into()),
        shaper.map(String::from),
        several.then(|| format!("{} hops", path.hops.len())),
        path.reverse.is_some().then(|| "a reverse hop".into()),
        path.offload.then(|| "offload".into()),
        hop.has_varying_rate().then(|| "a varying rate".into()),
        varies(Varying::has_delays).then(|| "a varying delay".into()),
        varies(Varying::has_losses).then(|| "a varying loss rate".into()),
        hop.jitter.is_some().then(|| "jitter".into()),
        hop.reorder.is_some().then(|| "reordering".into()),
        hop.duplicate.is_some().then(|| "duplication".into()),
        hop.corrupt.is_some().then(|| "corruption".into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The loss probability, and its model unless that is the first kind with its defaults.
fn random_loss(hop: &HopSpec) -> (f64, Option<String>) {
    let plain = &loss::KINDS[0];
    match &hop.loss {
        None => (0.0, None),
        Some(choice) if choice.kind == plain.name => {
            let other = describe(choice, plain.params, &["probability"]);
            let other = Some(format!("loss {other}")).filter(|_| other != plain.name);
            (choice.params.number("probability"), other)
        }
        Some(choice) => (0.0, Some(format!("loss {}", choice.kind))),
    }
}

/// The differences of the flows from plain downloads.
fn senders<P: Packet + Send + 'static>(scenario: &Scenario, registry: &Registry<P>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for flow in &scenario.flows {
        let table = registry
            .cc(&flow.cc.kind)
            .map_or(&[][..], |kind| kind.params);
        found.extend(
            flow.transport
                .as_ref()
                .map(|name| format!("transport {name}")),
        );
        let cc = describe(&flow.cc, table, &[]);
        found.extend(Some(cc).filter(|cc| *cc != flow.cc.kind));
        found.extend((flow.direction == super::Direction::Up).then(|| "upload flows".into()));
        found.extend((flow.dscp > 0).then(|| "code points".into()));
        found.extend((flow.host > 0).then(|| "separate hosts".into()));
        for host in [scenario.sender_of(flow), scenario.receiver_of(flow)] {
            found.extend(host.unusual().map(|key| format!("{key} of a host")));
            found.extend(host.nic.as_ref().map(|_| INTERFACE.into()));
        }
        found.extend(match flow.ecn {
            EcnNegotiation::Off => None,
            EcnNegotiation::Requested => Some("ecn".into()),
            EcnNegotiation::Accurate => Some("accurate ecn".into()),
            EcnNegotiation::Both => Some("ecn as the congestion control needs".into()),
        });
        found.extend(
            flow.workload
                .as_ref()
                .map(|workload| format!("workload {}", workload.kind)),
        );
    }
    found.extend(scenario.host.nic.as_ref().map(|_| INTERFACE.into()));
    found.sort_unstable();
    found.dedup();
    found
}

/// `kind name=value …` with the parameters that differ from their table's defaults, without those
/// in `left`.
fn describe(choice: &Choice, table: &[Param], left: &[&str]) -> String {
    let defaults = Params::defaults(table);
    let mut text = choice.kind.to_string();
    for (name, value) in choice.params.iter() {
        if !left.contains(&name) && defaults.get(name) != Some(value) {
            let value = super::write::inline(&super::write::param_node(value).value);
            text += &format!(" {name}={}", value.trim_matches('"'));
        }
    }
    text
}
