//! The application of a flow, and the other keys of a flow that it permits.

use super::Choice;
use super::error::{Collector, Fix};
use super::model::Offer;
use super::parse::Known;
use super::read::Section;
use super::write::quote;
use crate::packet::Ip;
use crate::param::{Params, Refusal, Value};
use crate::units::{Bytes, format_bytes};
use crate::workload::{KINDS, UDP, WorkloadKind, find};

/// The workload of a flow, if it has one. `None` after an error. If there is no `reverse` direction
/// but the workload needs one, the error has the given problem and corrected line.
pub(super) fn workload(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    reverse: bool,
    (problem, line): (&str, alloc::string::String),
) -> Option<Option<Choice>> {
    let Some(f) = s.field("workload") else {
        return Some(None);
    };
    let offers: alloc::vec::Vec<Offer> = KINDS.iter().map(offer).collect();
    let choice = out.choice(&f, "workload", &offers, &[])?;
    let kind = find(&choice.kind)?;
    let mut good = true;
    for (key, why) in [
        ("size", "determines the amount of data"),
        ("restart", "determines its idle times"),
        ("rtt", "uses the rtt of the path"),
    ] {
        if let Some(other) = s.field(key) {
            out.refuse(
                &other,
                alloc::format!("cannot be combined with a workload: it {why}"),
                Fix::None,
            );
            good = false;
        }
    }
    let traffic = (kind.traffic)(&choice.params);
    if let Some(cc) = s.field("cc").filter(|_| traffic.udp) {
        out.refuse(
            &cc,
            "has no effect: this workload sends datagrams without congestion control",
            Fix::None,
        );
        good = false;
    }
    if traffic.both_ways && !reverse {
        let problem = alloc::format!("sends data in both directions and {problem}");
        out.refuse(&f, problem, Fix::Line(line));
        good = false;
    }
    good.then_some(Some(choice))
}

fn offer(kind: &WorkloadKind) -> Offer {
    Offer {
        name: kind.name,
        params: kind.params,
        check: kind.check,
    }
}

/// The default congestion control of a flow with a workload.
pub(super) fn usual(known: &Known, workload: &Choice) -> Option<Choice> {
    let wanted = find(&workload.kind).map_or("", |kind| kind.cc);
    let named = |name: &str| known.ccs.iter().find(|offer| offer.name == name);
    let offer = named(wanted)
        .or_else(|| named("cubic"))
        .or(known.ccs.first())?;
    Some(Choice {
        kind: offer.name.into(),
        params: Params::defaults(offer.params),
    })
}

/// Rejects datagrams that the MTU of their hosts does not permit. `most` is the largest UDP
/// payload.
pub(super) fn fits(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    workload: &Choice,
    ip: Ip,
    most: u16,
) -> Option<()> {
    let kind = find(&workload.kind).filter(|kind| kind.is_udp(&workload.params));
    let (Some(kind), Some(f)) = (kind, s.field("workload")) else {
        return Some(());
    };
    match workload.params.get("packet") {
        Some(Value::Bytes(packet)) if packet.get() > u64::from(most) => {}
        _ => return Some(()),
    }
    let fix = quote(&format_bytes(Bytes::new(u64::from(most))));
    let refusal = Refusal {
        param: "packet",
        problem: alloc::format!(
            "exceeds the mtu of its hosts minus {}B of headers",
            ip.header() + UDP
        ),
        fix,
    };
    out.refuse_param(&f, &offer(kind), refusal);
    None
}
