//! The keys before any section.

use crate::param::Kind;
use crate::scenario::parse::DAY;
use crate::scenario::schema::{Key, custom, optional, plain, required};
use crate::units::Span;

pub(super) const KEYS: &[Key] = &[
    custom(
        "",
        "title",
        "text",
        "empty",
        "title of the scenario in reports",
    )
    .within("up to 200 characters"),
    required(
        "",
        "duration",
        Kind::Span(Span::s(60), Span::ms(1), DAY),
        "length of the run",
    ),
    optional(
        "",
        "warmup",
        Kind::Span(Span::s(1), Span::ZERO, DAY),
        "20% of duration",
        "initial part of the run that the summary excludes",
    )
    .within("0s to duration"),
    plain(
        "",
        "seed",
        Kind::Count(1, 0, u64::MAX),
        "seed of all random choices",
    )
    .within("0 to 2^64 - 1"),
    custom(
        "",
        "start_jitter",
        "time",
        "the largest RTT of a flow",
        "upper limit of the random delay that is added to the start of each flow",
    )
    .within("0s to duration, at most 1h"),
    custom(
        "",
        "path",
        "section",
        "required unless wifi is given",
        "path between the hosts",
    ),
    custom(
        "",
        "wifi",
        "section",
        "none",
        "access point and stations, instead of a path",
    ),
    custom(
        "",
        "host",
        "section",
        "Linux 6.12",
        "TCP settings of both ends",
    ),
    custom(
        "",
        "flow",
        "list of sections",
        "at least one flow or probe",
        "flows, which send the data",
    ),
    custom(
        "",
        "probe",
        "list of sections",
        "none",
        "measurements beside the flows",
    ),
];
