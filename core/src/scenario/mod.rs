//! The scenario: what the path is, who sends, what is watched. Never how it is run.
//!
//! Plain data here; how it comes from text and goes back:
//!
//! | file | holds |
//! |---|---|
//! | [`value`] | the tree of values that TOML and Python share, with its places in the source |
//! | `parse` | from a tree to a scenario: sections, defaults, what must hold between keys |
//! | `dscp` | names of code points |
//! | `hop` | one hop of `[path]`, there and back |
//! | `host` | the section `[host]`, there and back |
//! | `nested` | lists of tables, models and flows inside of a model's parameters |
//! | `read` | one section and one value: unknown keys, switches, words, texts |
//! | `quantity` | quantities, counts and numbers: unit and range |
//! | `model` | models with their parameters |
//! | [`keys`] | every key: its default, range and help |
//! | `schema` | the structure of their rows; reading and writing by rows |
//! | [`error`] | what is told of a mistake: place, key, value, the corrected line |
//! | `notices` | what it says that its writer may not mean |
//! | `work` | what a flow's application does |
//! | `varying` | steps, outages, traces |
//! | `wifi` | the section `[wifi]`, there and back |
//! | [`likeness`] | what decides whether a case that was run elsewhere says anything about it |
//! | `write` | the way back: canonical TOML and JSON, every default explicit |
//! | [`list`] | what may be chosen, for `narrows list` and the docs |
//!
//! A mistake is told with its place and the line as it should be, all mistakes at once:
//!
//! ```text
//! scenarios/x.toml:7: path.rtt = 40 needs a unit
//!     write: rtt = "40ms"
//! ```

mod dscp;
pub mod error;
mod hop;
mod host;
pub mod keys;
pub mod likeness;
pub mod list;
mod model;
mod nested;
mod notices;
mod parse;
mod quantity;
mod read;
mod schema;
pub mod value;
mod varying;
mod wifi;
mod work;
mod write;

pub use dscp::code_point;
pub use error::{Error, Errors};
pub use host::{HostSpec, Nic};
pub use likeness::Likeness;
pub use value::Tree;
pub use varying::{Files, no_files};

pub use crate::net::spec::{Buffer, HopSpec, Link, PathSpec, TraceFile, Varying};
pub use crate::net::wifi::{Speed, StationSpec, WifiSpec};
pub use crate::param::Choice;

use crate::param::Params;
use crate::tcp::EcnEnds;
use crate::units::{Bytes, Span};
use crate::workload;
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
    /// The most that a flow's start is moved at random (one RTT unless given, that of the farthest
    /// flow).
    pub start_jitter: Span,
    /// What lies between the hosts; of a `wifi` what [`WifiSpec::as_path`] says of it.
    pub path: PathSpec,
    /// The medium in the place of a path.
    pub wifi: Option<WifiSpec>,
    /// Both ends.
    pub host: HostSpec,
    /// Who sends; `count` has been expanded, every flow has its id.
    pub flows: Vec<FlowSpec>,
    /// What is measured beside the flows.
    pub probes: Vec<ProbeSpec>,
    /// Keys of the top level without a place of their own, under their names.
    pub keys: Params,
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
    /// Which way its data goes.
    pub direction: Direction,
    /// Differentiated-services code point of its packets, ACKs included.
    pub dscp: u8,
    /// Do its ends negotiate explicit congestion notification, and in the way that its law needs?
    /// Where not, such a law is Reno.
    pub ecn: EcnEnds,
    /// A transfer of so many bytes; unbounded otherwise.
    pub size: Option<Bytes>,
    /// The host at the far end that it is of, from 1 on; 0: the one of all that say nothing.
    pub host: u8,
    /// The station whose flow it is, where there is a medium.
    pub station: Option<u8>,
    /// What its application does, one of [`workload::KINDS`](crate::workload::KINDS); without one
    /// it sends all it can.
    pub workload: Option<Choice>,
    /// Keys without a place of their own, under their names.
    pub keys: Params,
}

impl FlowSpec {
    /// Is it TCP, so that its congestion control means something?
    pub fn has_cc(&self) -> bool {
        let udp = |choice: &Choice| {
            workload::find(&choice.kind).is_some_and(|kind| kind.is_udp(&choice.params))
        };
        !self.workload.as_ref().is_some_and(udp)
    }
}

/// Which way the data of a flow goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// With the path: over its hops.
    #[default]
    Down,
    /// Against it: over the reverse hop.
    Up,
}

/// Something measured beside the flows.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeSpec {
    /// `ping`: UDP, 64 bytes of payload, through the same bottleneck, the first at t = 0.
    pub kind: ProbeKind,
    /// From one to the next.
    pub interval: Span,
    /// Differentiated-services code point of its packets and their answers.
    pub dscp: u8,
    /// The host at the far end that answers, from 1 on; 0: the one of all that say nothing.
    pub host: u8,
    /// The station that answers, where there is a medium.
    pub station: Option<u8>,
    /// Keys without a place of their own, under their names.
    pub keys: Params,
}

/// Kinds of probes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ProbeKind {
    /// UDP echo.
    Ping,
}

impl ProbeKind {
    /// As a scenario and a run write it.
    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Ping => "ping",
        }
    }
}
