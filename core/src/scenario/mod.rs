//! The scenario: what the path is, who sends, what is watched. Never how it is run.
//!
//! Plain data here; how it comes from text and goes back:
//!
//! | file | holds |
//! |---|---|
//! | [`value`] | the tree of values that TOML and Python share, with its places in the source |
//! | `parse` | from a tree to a scenario: sections, defaults, what must hold between keys |
//! | `host` | the section `[host]`, there and back |
//! | `read` | one value: its type, unit and range, and what to write instead |
//! | [`keys`] | every key, its default, range and help |
//! | [`error`] | what is told of a mistake: place, key, value, the corrected line |
//! | `write` | the way back: canonical TOML and JSON, every default explicit |
//! | [`list`] | what may be chosen, for `narrows list` and the docs |
//!
//! A mistake is told with its place and the line as it should be, all mistakes at once:
//!
//! ```text
//! scenarios/x.toml:7: path.rtt = 40 needs a unit
//!     write: rtt = "40ms"
//! ```

pub mod error;
mod host;
pub mod keys;
pub mod list;
mod parse;
mod read;
pub mod value;
mod write;

pub use error::{Error, Errors};
pub use host::{HostSpec, Nic};
pub use value::Tree;

use crate::param::Params;
use crate::queue::Limit;
use crate::units::{Bytes, Rate, Span};
use alloc::string::String;
use alloc::vec::Vec;

/// A scenario with every default filled in.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// What a person calls it.
    pub title: String,
    /// How long it runs.
    pub duration: Span,
    /// Left out of the summary (20 % of the duration unless given).
    pub warmup: Span,
    /// Of every random choice.
    pub seed: u64,
    /// The most that a flow's start is moved at random (one RTT unless given, that of the farthest flow).
    pub start_jitter: Span,
    /// What lies between the hosts.
    pub path: PathSpec,
    /// Both ends.
    pub host: HostSpec,
    /// Who sends; `count` has been expanded, every flow has its id.
    pub flows: Vec<FlowSpec>,
    /// What is measured beside the flows.
    pub probes: Vec<ProbeSpec>,
}

/// One hop and the propagation around it.
#[derive(Clone, PartialEq, Debug)]
pub struct PathSpec {
    /// Of the bottleneck.
    pub rate: Rate,
    /// Two-way propagation.
    pub rtt: Span,
    /// The part of it towards the receiver (half unless given).
    pub delay_forward: Span,
    /// As the scenario says it.
    pub buffer: Option<Buffer>,
    /// The discipline at the bottleneck.
    pub queue: Choice,
    /// How the rate is kept.
    pub link: Link,
    /// What is lost at random before the bottleneck, in the data direction: super-packets, unless it says packets.
    pub loss: Loss,
    /// Do super-packets cross the path whole, as between machines with segmentation and receive offload? Queue, loss and
    /// receiver then see one packet of up to 64 KiB.
    pub offload: bool,
}

/// Independent random loss.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Loss {
    /// Of each unit.
    pub probability: f64,
    /// What is lost at once.
    pub per: LossUnit,
}

/// What is lost at once.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LossUnit {
    /// What the sender hands down at once, one to 45 segments, as with `netem` on its own interface.
    SuperPacket,
    /// One packet, as on a wire.
    Packet,
}

impl LossUnit {
    /// Every unit, the default first.
    pub const ALL: [LossUnit; 2] = [LossUnit::SuperPacket, LossUnit::Packet];

    /// As a scenario writes it.
    pub fn word(self) -> &'static str {
        match self {
            LossUnit::SuperPacket => "superpacket",
            LossUnit::Packet => "packet",
        }
    }
}

impl Loss {
    /// None.
    pub const NONE: Loss = Loss {
        probability: 0.0,
        per: LossUnit::SuperPacket,
    };
}

/// A buffer as the scenario says it.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Buffer {
    /// `"250kB"`.
    Bytes(Bytes),
    /// `"170p"`.
    Packets(u64),
    /// `"1.5bdp"`: times rate × rtt.
    Bdp(f64),
}

impl PathSpec {
    /// The part of `rtt` towards the receiver, in the path's proportion.
    pub fn forward_part(&self, rtt: Span) -> Span {
        let forward = u128::from(rtt.as_ns()) * u128::from(self.delay_forward.min(self.rtt).as_ns());
        // At most `rtt`, so it fits.
        Span::ns((forward / u128::from(self.rtt.as_ns().max(1))) as u64)
    }
    /// rate × rtt.
    pub fn bdp(&self) -> Bytes {
        self.rate * self.rtt
    }
    /// The buffer with `bdp` resolved to bytes (at least one full frame).
    pub fn limit(&self) -> Option<Limit> {
        self.buffer.map(|b| match b {
            Buffer::Bytes(n) => Limit::Bytes(n),
            Buffer::Packets(n) => Limit::Packets(n),
            Buffer::Bdp(x) => Limit::Bytes(Bytes::new(((self.bdp().get() as f64 * x) as u64).max(1514))),
        })
    }
}

/// A registered name with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The name in the registry.
    pub kind: String,
    /// Its whole table, defaults filled in.
    pub params: Params,
}

/// How a rate is kept.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Link {
    /// One packet after the other, each for its time on the wire.
    Serial,
    /// A token bucket, as tc's tbf.
    Tbf {
        /// Bytes that may leave back to back after idleness.
        burst: Bytes,
    },
    /// One class of tc's htb: a packet leaves when the ones before it are paid for, and is paid for afterwards.
    Htb {
        /// Bytes that may leave back to back after idleness, and one packet more.
        burst: Bytes,
    },
}

/// One flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSpec {
    /// Unique; `<cc><n>` unless given.
    pub id: String,
    /// Its congestion control.
    pub cc: Choice,
    /// Propagation beside the path's, both ways together: its receiver lies so much farther away.
    pub rtt: Span,
    /// When it connects.
    pub start: Span,
    /// When it stops sending, if before the end.
    pub stop: Option<Span>,
    /// When it writes again, after `stop`.
    pub restart: Option<Span>,
    /// Do its ends negotiate explicit congestion notification?
    pub ecn: bool,
    /// A transfer of so many bytes; unbounded otherwise.
    pub size: Option<Bytes>,
}

/// Something measured beside the flows.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeSpec {
    /// `ping`: UDP, 64 bytes of payload, through the same bottleneck, the first at t = 0.
    pub kind: ProbeKind,
    /// From one to the next.
    pub interval: Span,
}

/// Kinds of probes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ProbeKind {
    /// UDP echo.
    Ping,
}
