//! The keys of `[[flow]]` and `[[probe]]`.

use crate::kernel;
use crate::param::Kind;
use crate::scenario::dscp;
use crate::scenario::parse::{DAY, MOST_FLOWS, MOST_NAME};
use crate::scenario::schema::{
    Key, custom, made, named, optional, plain, registered, required, text,
};
use crate::scenario::wifi::MOST_STATION;
use crate::units::{Bytes, Span};
use alloc::format;

pub(super) const KEYS: &[Key] = &[
    registered(
        "flow",
        "cc",
        "required; a workload has its own",
        "congestion control",
    ),
    plain(
        "flow",
        "count",
        Kind::Count(1, 1, MOST_FLOWS),
        "number of identical flows",
    )
    .ranging(|| format!("1 to {MOST_FLOWS}, for all flows together")),
    plain(
        "flow",
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
        "propagation delay of both directions together, added to the rtt of the path: a more \
         distant receiver",
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
    named(
        "flow",
        "id",
        MOST_NAME,
        "<cc><n>",
        "name of the flow; with a count, a number is appended: 0, 1, 2 …",
    ),
    custom(
        "flow",
        "transport",
        "name",
        "the TCP of Linux",
        "transport of an adapter, with a congestion control of its own in cc",
    )
    .within("a transport that --plugin loads"),
    custom(
        "flow",
        "ecn",
        "boolean or name",
        "as the cc requires; otherwise true if ecn of [host] is on",
        "negotiation of ECN; true: classic ECN (RFC 3168), even if the cc would use another \
         feedback of marks; accecn: accurate ECN (RFC 9768) at both ends, as tcp_ecn = 3 of \
         Linux 7.3; false: no ECN",
    )
    .within("true, false, accecn"),
    plain(
        "flow",
        "direction",
        Kind::Word(&["down", "up"]),
        "direction of the data: down over the hops of the path, or up over the reverse hop",
    )
    .within("down, up; up needs [path.reverse]"),
    made(
        "flow",
        "dscp",
        "name or count",
        dscp::usual,
        "differentiated-services code point (DSCP) of the packets, including ACKs",
    )
    .within(dscp::KNOWN),
    custom(
        "flow",
        "like",
        "release",
        "like of [host], with its rules",
        "Linux release of the sender's host, if it differs from [host]; with_rules and \
         without_rules do not apply to it",
    )
    .ranging(kernel::range),
    registered(
        "flow",
        "workload",
        "unlimited data",
        "application of the flow: web pages, calls, transfers with random arrivals",
    )
    .within("a kind of `narrows list workload`"),
    text(
        "flow",
        "sender",
        MOST_NAME,
        "[host]",
        "host that sends the data, with the settings of [host.NAME]; flows with the same host \
         share its interface",
    )
    .within("the name of a host"),
    text(
        "flow",
        "receiver",
        MOST_NAME,
        "[host]",
        "host that receives the data, with the settings of [host.NAME]",
    )
    .within("the name of a host"),
    optional(
        "flow",
        "host",
        Kind::Count(1, 1, 63),
        "one host for all flows and probes without this key",
        "number of the far host; flows with the same number share one address",
    )
    .within("1 to 63; not with wifi"),
    custom(
        "flow",
        "ip",
        "4 or 6",
        "4",
        "version of IP; the header of IPv6 has 20 bytes more, and a full segment 20 bytes less \
         payload; a transport has IPv4",
    )
    .within("4, 6"),
    text(
        "flow",
        "station",
        MOST_STATION,
        "the only station",
        "station of the flow; with a group of stations, each one has such a flow",
    )
    .within("the name of a station, or of a group with a count"),
    optional(
        "probe",
        "host",
        Kind::Count(1, 1, 63),
        "one host for all flows and probes without this key",
        "number of the far host that responds",
    )
    .within("1 to 63; not with wifi"),
    custom(
        "probe",
        "ip",
        "4 or 6",
        "4",
        "version of IP; the header of IPv6 has 20 bytes more",
    )
    .within("4, 6"),
    text(
        "probe",
        "station",
        MOST_STATION,
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
        "mean time between two probe packets",
    ),
    plain(
        "probe",
        "spacing",
        Kind::Word(&["constant", "random"]),
        "times between probe packets: constant, or one packet at a random time in each interval, \
         which finds traffic that is synchronised with a constant interval",
    ),
    made(
        "probe",
        "dscp",
        "name or count",
        dscp::usual,
        "DSCP of the probe packets and of their responses",
    )
    .within(dscp::KNOWN),
];
