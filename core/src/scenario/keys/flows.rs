//! The keys of `[[flow]]` and `[[probe]]`.

use crate::param::Kind;
use crate::scenario::parse::{DAY, MOST_FLOWS};
use crate::scenario::schema::{Key, custom, optional, plain, required};
use crate::units::{Bytes, Span};

pub(super) const KEYS: &[Key] = &[
    custom(
        "flow",
        "cc",
        "name or { kind, parameters }",
        "required; a workload has its own",
        "congestion control",
    ),
    plain(
        "flow",
        "count",
        Kind::Count(1, 1, MOST_FLOWS),
        "number of identical flows",
    )
    .within("1 to 100000, for all flows together"),
    plain(
        "flow",
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
        "propagation delay in addition to the path's rtt, for a more distant receiver",
    ),
    plain(
        "flow",
        "start",
        Kind::Span(Span::ZERO, Span::ZERO, DAY),
        "time of the connection setup",
    )
    .within("0s to duration")
    .unit("s"),
    optional(
        "flow",
        "stop",
        Kind::Span(Span::s(1), Span::ns(1), DAY),
        "the end of the run",
        "time at which the application stops writing",
    )
    .within("after start, to 24h"),
    optional(
        "flow",
        "restart",
        Kind::Span(Span::s(1), Span::ns(1), DAY),
        "never",
        "time at which the application resumes writing on the same connection; \
         data written before stop is still sent",
    )
    .within("after stop, to 24h"),
    optional(
        "flow",
        "size",
        Kind::Bytes(
            Bytes::new(1_000_000),
            Bytes::new(1),
            Bytes::new(1_000_000_000_000_000),
        ),
        "unbounded",
        "bytes to transfer",
    )
    .within("1B to 1000000GB"),
    custom(
        "flow",
        "id",
        "text",
        "<cc><n>",
        "name of the flow; with a count, a number is appended: 0, 1, 2 …",
    )
    .within("up to 64 letters, digits, _ - ."),
    optional(
        "flow",
        "ecn",
        Kind::Bool(true),
        "as the cc requires; otherwise true if ecn of [host] is on",
        "negotiation of ECN; true: classic ECN (RFC 3168), even if the cc would use another \
         feedback of marks; false: no ECN",
    ),
    plain(
        "flow",
        "direction",
        Kind::Word(&["down", "up"]),
        "direction of the data: down over the hops of the path, or up over the reverse hop",
    )
    .within("down, up; up needs [path.reverse]"),
    custom(
        "flow",
        "dscp",
        "name or count",
        "BE",
        "differentiated-services code point (DSCP) of the packets, including ACKs",
    )
    .within("BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63"),
    custom(
        "flow",
        "workload",
        "name or { kind, parameters }",
        "unlimited data",
        "application of the flow: web pages, calls, transfers with random arrivals",
    )
    .within("a kind of `narrows list workload`"),
    optional(
        "flow",
        "host",
        Kind::Count(1, 1, 63),
        "one host for all flows and probes without this key",
        "number of the host at the far end; flows with the same number share one address",
    )
    .within("1 to 63; needs a path"),
    custom(
        "flow",
        "station",
        "text",
        "the only station",
        "station of the flow; with a group of stations, each one has such a flow",
    )
    .within("the name of a station, or of a group with a count"),
    optional(
        "probe",
        "host",
        Kind::Count(1, 1, 63),
        "one host for all flows and probes without this key",
        "number of the host at the far end that responds",
    )
    .within("1 to 63; needs a path"),
    custom(
        "probe",
        "station",
        "text",
        "the only station",
        "station that responds; with a group of stations, each one has such a probe",
    )
    .within("the name of a station, or of a group with a count"),
    required(
        "probe",
        "kind",
        Kind::Word(&["ping"]),
        "ping: UDP packets with 64 bytes of payload on the path of the flows",
    ),
    plain(
        "probe",
        "interval",
        Kind::Span(Span::ms(20), Span::us(100), Span::s(3600)),
        "time between two probe packets",
    ),
    custom(
        "probe",
        "dscp",
        "name or count",
        "BE",
        "DSCP of the probe packets and of their responses",
    )
    .within("BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63"),
];
