//! The parameters of `cake`, with the names of tc-cake(8) where tc has them.

use super::{ack_filter, hash, overhead, tins};
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Span};
use alloc::string::String;

/// The names of tc for networks, and their RTTs in µs; the first is tc's default.
pub const NETWORKS: &[(&str, u64)] = &[
    ("internet", 100_000),
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];
const NETWORK_WORDS: &[&str] = &[
    "internet",
    "datacentre",
    "lan",
    "metro",
    "regional",
    "oceanic",
    "satellite",
    "interplanetary",
];

const fn param(name: &'static str, kind: Kind, help: &'static str) -> Param {
    Param {
        name,
        kind,
        help,
        source: "Linux 6.12 cake",
    }
}

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    param(
        "bandwidth",
        Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::mbit(1_000_000)),
        "rate of the shaper; 0: no shaping, the link behind it is the bottleneck",
    ),
    param(
        "diffserv",
        Kind::Word(tins::WORDS),
        "assignment of code points to tins",
    ),
    param(
        "flows",
        Kind::Word(hash::WORDS),
        "flow isolation: which flows and hosts have queues of their own and a fair share",
    ),
    param(
        "network",
        Kind::Word(NETWORK_WORDS),
        "name of an RTT, as in tc: 100us, 1ms, 10ms, 30ms, 300ms, 1s, 1000s; internet is 100ms",
    ),
    param(
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(1000)),
        "RTT that most flows do not exceed: the control law reacts within this time, and its \
         target delay is a twentieth of this time; 0s: the RTT of network",
    ),
    param(
        "ingress",
        Kind::Bool(false),
        "the shaper is behind the bottleneck: dropped packets have already passed the bottleneck \
         and count towards the rate",
    ),
    param(
        "autorate_ingress",
        Kind::Bool(false),
        "the rate follows the arriving traffic; bandwidth is the initial rate",
    ),
    param(
        "line",
        Kind::Word(overhead::WORDS),
        "name of a link layer, as in tc: sets overhead, mpu and cells",
    ),
    param(
        "overhead",
        Kind::Number(0.0, -64.0, 256.0),
        "bytes that are added to the size of an IP packet; 0: the overhead of line; with raw, the \
         whole frame counts",
    ),
    param(
        "ether_vlan",
        Kind::Bool(false),
        "4 bytes of additional overhead",
    ),
    param(
        "mpu",
        Kind::Bytes(Bytes::ZERO, Bytes::ZERO, Bytes::new(256)),
        "minimum number of bytes that count for a packet; 0: the minimum of line",
    ),
    param(
        "cells",
        Kind::Word(&["line", "noatm", "atm", "ptm"]),
        "cells of the link layer: 48 bytes of payload in 53 bytes (atm), or 64 in 65 bytes (ptm); \
         line: the cells of line",
    ),
    param(
        "ack_filter",
        Kind::Word(ack_filter::WORDS),
        "drop ACKs that a newer queued ACK makes redundant",
    ),
    param(
        "memlimit",
        Kind::Bytes(Bytes::ZERO, Bytes::ZERO, Bytes::new(1 << 32)),
        "memory limit of all queues, counted as in Linux; 0: four bandwidth-delay products \
         (bandwidth * rtt), at least 4 MB, at most 15.5 MB",
    ),
    param(
        "wash",
        Kind::Bool(false),
        "clear the code point after the choice of the tin",
    ),
    param(
        "nat",
        Kind::Bool(false),
        "distinguish hosts that share one address behind NAT (`path.nat`)",
    ),
    param(
        "fwmark",
        Kind::Count(0, 0, u32::MAX as u64),
        "mask of the firewall mark that selects the tin; only 0 is supported, because packets have \
         no mark",
    ),
    param(
        "split_gso",
        Kind::Bool(true),
        "split super-packets into packets on arrival; no effect unless `path.offload` is set",
    ),
];

/// Rejects a value of `fwmark`, which would have no effect.
pub fn check(params: &Params) -> Result<(), Refusal> {
    let refusal = |param, problem: &str, fix: &str| {
        Err(Refusal {
            param,
            problem: String::from(problem),
            fix: String::from(fix),
        })
    };
    if params.count("fwmark") != 0 {
        return refusal(
            "fwmark",
            "selects the tin by a firewall mark, but packets have no mark; set the dscp of the \
                 flow, by which `diffserv` selects",
            "0",
        );
    }
    Ok(())
}

/// The RTT of a value of the parameter `network`.
pub fn network(word: &str) -> Span {
    let (_, us) = NETWORKS
        .iter()
        .find(|network| network.0 == word)
        .unwrap_or(&NETWORKS[0]);
    Span::us(*us)
}
