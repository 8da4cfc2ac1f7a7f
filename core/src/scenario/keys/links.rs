//! The keys of `[link.NAME]` and `[switch.NAME]`, and those of routes.

use crate::param::Kind;
use crate::scenario::links::{MOST_CHANGES, MOST_LINKS, MOST_ROUTES};
use crate::scenario::parse::{DAY, HOUR, MOST_NAME};
use crate::scenario::schema::{Key, custom, named, optional, plain, required, section, sections};
use crate::units::{Bytes, Span};
use alloc::format;

const ABSENT: &str = "no network of links";

pub(super) const KEYS: &[Key] = &[
    section(
        "",
        "link",
        "none",
        "links of a network, instead of a path: a section [link.NAME] for each link and direction",
    )
    .ranging(|| format!("up to {MOST_LINKS}, each with the keys of a hop except rtt")),
    section(
        "",
        "switch",
        "none",
        "switches whose ports share memory: a section [switch.NAME] for each one",
    ),
    plain(
        "link",
        "delay",
        Kind::Span(Span::ZERO, Span::ZERO, HOUR),
        "propagation delay of the link, in its direction",
    ),
    named(
        "link",
        "from",
        MOST_NAME,
        "none",
        "node where the link begins",
    ),
    named("link", "to", MOST_NAME, "none", "node where the link ends"),
    named(
        "link",
        "switch",
        MOST_NAME,
        "memory of its own",
        "switch whose memory the queue of the link shares; buffer limits the queue as well",
    ),
    optional(
        "link",
        "alpha",
        Kind::Number(1.0, 0.001, 1000.0),
        "alpha of the switch",
        "maximum length of the queue of this link, in multiples of the free memory; needs switch",
    ),
    required(
        "switch",
        "buffer",
        Kind::Bytes(
            Bytes::new(2_000_000),
            Bytes::new(1514),
            Bytes::new(1_000_000_000_000),
        ),
        "memory that all links of the switch share",
    ),
    plain(
        "switch",
        "alpha",
        Kind::Number(1.0, 0.001, 1000.0),
        "maximum length of a queue, in multiples of the memory that is free (dynamic thresholds)",
    ),
    custom(
        "flow",
        "route",
        "list of names",
        "the only link",
        "links that the data of a download crosses, in this order",
    )
    .within("names of links"),
    custom(
        "flow",
        "route_back",
        "list of names",
        "propagation only, with the delay of the route",
        "links of the reverse direction, for ACKs, requests and the data of uploads",
    )
    .within("names of links that route does not contain"),
    named(
        "flow",
        "from",
        MOST_NAME,
        ABSENT,
        "node of the sender of a download, instead of route; the flow takes a route with the \
         fewest links, and the hash of its id selects one of several (ECMP)",
    )
    .ranging(|| format!("a node; at most {MOST_ROUTES} equal routes are considered")),
    named("flow", "to", MOST_NAME, ABSENT, "node of the receiver"),
    sections(
        "flow",
        "reroute",
        "list of { at, route, route_back }",
        Some(MOST_CHANGES),
        "none",
        "changes of the route: [{ at = \"10s\", route = [\"b\"] }]; packets under way keep the \
         former route until it meets the new one",
    ),
    custom(
        "probe",
        "route",
        "list of names",
        "the only link",
        "links that the packets cross, in this order",
    )
    .within("names of links"),
    custom(
        "probe",
        "route_back",
        "list of names",
        "propagation only, with the delay of the route",
        "links that the responses cross",
    )
    .within("names of links that route does not contain"),
    named(
        "probe",
        "from",
        MOST_NAME,
        ABSENT,
        "node that sends the packets, instead of route",
    ),
    named("probe", "to", MOST_NAME, ABSENT, "node that responds"),
    sections(
        "probe",
        "reroute",
        "list of { at, route, route_back }",
        Some(MOST_CHANGES),
        "none",
        "changes of the route, as those of a flow",
    ),
    at("flow.reroute"),
    custom(
        "flow.reroute",
        "route",
        "list of names",
        "required",
        "links from this time on",
    ),
    custom(
        "flow.reroute",
        "route_back",
        "list of names",
        "propagation only",
        "links of the reverse direction from this time on",
    )
    .within("required if the flow has a route_back"),
    at("probe.reroute"),
    custom(
        "probe.reroute",
        "route",
        "list of names",
        "required",
        "links from this time on",
    ),
    custom(
        "probe.reroute",
        "route_back",
        "list of names",
        "propagation only",
        "links of the reverse direction from this time on",
    )
    .within("required if the probe has a route_back"),
];

const fn at(section: &'static str) -> Key {
    required(
        section,
        "at",
        Kind::Span(Span::s(10), Span::ZERO, DAY),
        "time of the change",
    )
}
