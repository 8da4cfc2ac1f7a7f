//! The parameters of `cake`, in tc's words.

use super::{ack_filter, hash, overhead, tins};
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Span};
use alloc::string::String;

/// tc's names for networks, and their round trips in µs; the first is its default.
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

/// Its parameters.
pub const PARAMS: &[Param] = &[
    param(
        "bandwidth",
        Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::mbit(1_000_000)),
        "rate that it shapes to; 0: it does not, and the link behind it is the narrow place",
    ),
    param(
        "diffserv",
        Kind::Word(tins::WORDS),
        "how code points become tins",
    ),
    param(
        "flows",
        Kind::Word(hash::WORDS),
        "what has a queue of its own, and whose share is fair",
    ),
    param(
        "network",
        Kind::Word(NETWORK_WORDS),
        "tc's word for a round trip: 100us, 1ms, 10ms, 30ms, 300ms, 1s, 1000s; internet is 100ms",
    ),
    param(
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(1000)),
        "round trip that most flows are within: queues react in that time, packets may stand a \
         twentieth of it; 0s: the network's",
    ),
    param(
        "ingress",
        Kind::Bool(false),
        "the shaper stands behind the narrow place: what it drops has passed there and is paid for",
    ),
    param(
        "autorate_ingress",
        Kind::Bool(false),
        "the rate follows what arrives; bandwidth is where it begins",
    ),
    param(
        "line",
        Kind::Word(overhead::WORDS),
        "tc's word for the framing of a line: overhead, mpu and cells",
    ),
    param(
        "overhead",
        Kind::Number(0.0, -64.0, 256.0),
        "bytes on top of an IP packet; 0: the line's, of a raw one the frame as it is",
    ),
    param("ether_vlan", Kind::Bool(false), "4 bytes more of overhead"),
    param(
        "mpu",
        Kind::Bytes(Bytes::ZERO, Bytes::ZERO, Bytes::new(256)),
        "bytes that a packet is paid as at least; 0: the line's",
    ),
    param(
        "cells",
        Kind::Word(&["line", "noatm", "atm", "ptm"]),
        "cells of 48 in 53 bytes, or 64 in 65; line: the line's",
    ),
    param(
        "ack_filter",
        Kind::Word(ack_filter::WORDS),
        "drop ACKs that a newer one behind them makes needless",
    ),
    param(
        "memlimit",
        Kind::Bytes(Bytes::ZERO, Bytes::ZERO, Bytes::new(1 << 32)),
        "memory that all queues may take, as Linux counts it; 0: four times what rtt has room \
         for, 4 MB or more, 15.5 MB at most",
    ),
    param(
        "wash",
        Kind::Bool(false),
        "clear the code point once the tin is chosen",
    ),
    param(
        "nat",
        Kind::Bool(false),
        "tell hosts apart that a translation shows as one address (`path.nat`)",
    ),
    param(
        "fwmark",
        Kind::Count(0, 0, u32::MAX as u64),
        "mask of the firewall mark that chooses the tin: refused, packets have none here",
    ),
    param(
        "split_gso",
        Kind::Bool(true),
        "take super-packets apart when they come, where they cross the path whole (offload)",
    ),
];

/// Rejects parameters without an effect.
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
            "chooses the tin by a firewall mark, and packets have none here: give the flow a \
             dscp, by which `diffserv` chooses",
            "0",
        );
    }
    Ok(())
}

/// The round trip of a word.
pub fn network(word: &str) -> Span {
    let (_, us) = NETWORKS
        .iter()
        .find(|network| network.0 == word)
        .unwrap_or(&NETWORKS[0]);
    Span::us(*us)
}
