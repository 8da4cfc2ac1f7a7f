//! The keys before any section.

use crate::param::Kind;
use crate::scenario::parse::{DAY, HOUR, MOST_TITLE};
use crate::scenario::schema::{Key, custom, optional, plain, required, section, sections, text};
use crate::units::{Span, format_span};
use alloc::format;

pub(super) const KEYS: &[Key] = &[
    custom(
        "",
        "format",
        "count",
        "1",
        "version of the scenario format; texts in an older format are converted",
    )
    .within("1"),
    text(
        "",
        "title",
        MOST_TITLE,
        "empty",
        "title of the scenario in reports",
    ),
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
    .ranging(|| format!("0s to duration, at most {}", format_span(HOUR))),
    section(
        "",
        "path",
        "required unless wifi or links are given",
        "path between the hosts; with wifi, the path between the senders and the access point",
    ),
    section(
        "",
        "wifi",
        "none",
        "access point and stations, instead of a path or behind it",
    ),
    section("", "host", "Linux 6.12", "TCP settings of both ends"),
    sections(
        "",
        "flow",
        "list of sections",
        None,
        "at least one flow or probe",
        "flows, which send the data",
    ),
    sections(
        "",
        "probe",
        "list of sections",
        None,
        "none",
        "measurements beside the flows",
    ),
];
