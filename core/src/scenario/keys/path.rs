//! The keys of `[path]`, its hops and its lists.

use crate::net::{bernoulli, jitter, link, loss, policer, reorder};
use crate::param::Kind;
use crate::scenario::hop;
use crate::scenario::parse::{DAY, HOUR};
use crate::scenario::schema::{
    Key, custom, model, optional, plain, registered, required, section, sections, text,
};
use crate::scenario::varying::{MOST_FILE_NAME, MOST_STEPS};
use crate::units::{Rate, Span};
use alloc::format;
use alloc::vec::Vec;

pub(super) const KEYS: &[Key] = &[
    optional(
        "path",
        "rate",
        Kind::Rate(Rate::mbit(20), Rate::bit(1), Rate::mbit(10_000_000)),
        "required",
        "rate of the bottleneck",
    ),
    required(
        "path",
        "rtt",
        Kind::Span(Span::ms(40), Span::us(1), HOUR),
        "two-way propagation delay",
    )
    .of_a_distance(),
    custom(
        "path",
        "delay_forward",
        "time",
        "half of rtt",
        "part of rtt on the forward path",
    )
    .within("0s to rtt")
    .of_a_distance(),
    custom(
        "path",
        "buffer",
        "buffer",
        "the default limit of the queue discipline",
        "buffer of the bottleneck in bytes, packets (170p) or bandwidth-delay products (0.5bdp)",
    )
    .ranging(hop::buffer_range),
    registered(
        "path",
        "queue",
        hop::QUEUE,
        "queue discipline of the bottleneck",
    ),
    registered(
        "path",
        "link",
        link::KINDS[0].name,
        "mechanism that limits the rate: a serial line or a shaper",
    )
    .ranging(|| {
        let names: Vec<&str> = link::KINDS.iter().map(|kind| kind.name).collect();
        names.join(", ")
    }),
    plain(
        "path",
        "offload",
        Kind::Bool(false),
        "super-packets cross the path in one piece, as between machines with TSO and GRO: queue, \
         loss model and receiver process each one as a single packet",
    )
    .within("true, false; with serial and htb only")
    .of_the_whole_path(),
    plain(
        "path",
        "nat",
        Kind::Bool(false),
        "the far hosts share one address, as behind a home router; a queue discipline can \
         separate them only if it looks up the addresses behind NAT",
    )
    .of_the_whole_path(),
    model(
        "path",
        "loss",
        loss::KINDS,
        "probability or { kind, parameters }",
        "loss before the queue, drawn once for each super-packet (all of its segments are lost \
         together) or for each packet",
    )
    .within(
        "0 to 1, or 0% to 100%, or a kind of `narrows list loss`; per superpacket (the default) \
         or packet",
    ),
    sections(
        "path",
        "steps",
        "list of { at, rate, rtt, delay, ordered, loss }",
        Some(MOST_STEPS),
        "none",
        "changes of rate, propagation delay and loss: [{ at = \"10s\", rate = \"5Mbit\" }]",
    ),
    sections(
        "path",
        "outages",
        "list of { at, lasts }",
        Some(MOST_STEPS),
        "none",
        "times without any transmission: [{ at = \"20s\", lasts = \"2s\" }]",
    ),
    custom(
        "path",
        "trace",
        "file name or { file, repeat }",
        "none",
        "file with the rate over time, instead of rate; its name is relative to the scenario",
    )
    .within("CSV of time and rate, or packet-delivery trace of Mahimahi"),
    custom(
        "path",
        "delay_trace",
        "file name or { file, repeat, ordered }",
        "none",
        "file with the propagation delay behind the hop over time, in the direction of the hop; \
         its name is relative to the scenario",
    )
    .within("lines of time and delay in milliseconds"),
    model(
        "path",
        "jitter",
        jitter::KINDS,
        "time or { kind, parameters }",
        "variable part of the propagation delay, behind the queue",
    )
    .within("a time (the spread), or a kind of `narrows list jitter`"),
    model(
        "path",
        "reorder",
        reorder::KINDS,
        "probability or { probability, late, correlation }",
        "packets that are delayed so that later packets overtake them",
    )
    .within("0 to 1, or 0% to 100%"),
    model(
        "path",
        "duplicate",
        bernoulli::DUPLICATE,
        "probability or { probability, correlation }",
        "packets that are duplicated before the policer and the queue",
    )
    .within("0 to 1, or 0% to 100%"),
    model(
        "path",
        "corrupt",
        bernoulli::CORRUPT,
        "probability or { probability, correlation }",
        "packets that arrive damaged, so that the receiver drops them",
    )
    .within("0 to 1, or 0% to 100%"),
    model(
        "path",
        "policer",
        policer::KINDS,
        "{ rate, burst } or { kind, parameters }",
        "rate limit without a queue, in front of the queue: a policer drops excess packets",
    )
    .within("a kind of `narrows list policer`"),
    section(
        "path",
        "reverse",
        "propagation delay only",
        "bottleneck of the reverse path, which ACKs, responses and uploads cross",
    )
    .within("the keys of a hop except rtt and delay_forward")
    .of_the_whole_path(),
    sections(
        "path",
        "hop",
        "list of sections",
        Some(hop::MOST_HOPS),
        "one hop with the keys of [path]",
        "several hops in the order of the forward path, each with its own propagation delay \
         behind it",
    )
    .ranging(|| format!("up to {}, each with the keys of a hop", hop::MOST_HOPS))
    .of_the_whole_path(),
    required(
        "path.steps",
        "at",
        Kind::Span(Span::s(10), Span::ZERO, DAY),
        "time of the change",
    ),
    optional(
        "path.steps",
        "rate",
        Kind::Rate(Rate::mbit(5), Rate::bit(0), Rate::mbit(10_000_000)),
        "unchanged",
        "rate from this time on",
    ),
    optional(
        "path.steps",
        "rtt",
        Kind::Span(Span::ms(80), Span::us(1), HOUR),
        "unchanged",
        "two-way propagation delay from this time on, of a step in [path] or [[path.hop]]",
    ),
    optional(
        "path.steps",
        "delay",
        Kind::Span(Span::ms(40), Span::ZERO, HOUR),
        "unchanged",
        "propagation delay from this time on, of a step in [link.NAME]",
    ),
    plain(
        "path.steps",
        "ordered",
        Kind::Bool(true),
        "packets keep their order when the delay falls: each waits for the packets before it",
    ),
    model(
        "path.steps",
        "loss",
        loss::KINDS,
        "probability or { kind, parameters }",
        "loss before the queue from this time on",
    )
    .usually(|| "unchanged".into())
    .within("0 to 1, or 0% to 100%, or a kind of `narrows list loss`"),
    required(
        "path.outages",
        "at",
        Kind::Span(Span::s(10), Span::ZERO, DAY),
        "start of the outage",
    ),
    required(
        "path.outages",
        "lasts",
        Kind::Span(Span::s(2), Span::ZERO, DAY),
        "duration of the outage",
    ),
    text(
        "path.trace",
        "file",
        MOST_FILE_NAME,
        "required",
        "file name, relative to the scenario",
    ),
    plain(
        "path.trace",
        "repeat",
        Kind::Bool(true),
        "restart the trace at its end; a packet-delivery trace always restarts",
    ),
    text(
        "path.delay_trace",
        "file",
        MOST_FILE_NAME,
        "required",
        "file name, relative to the scenario",
    ),
    plain(
        "path.delay_trace",
        "repeat",
        Kind::Bool(true),
        "restart the trace at its end",
    ),
    plain(
        "path.delay_trace",
        "ordered",
        Kind::Bool(true),
        "packets keep their order when the delay falls: each waits for the packets before it",
    ),
];
