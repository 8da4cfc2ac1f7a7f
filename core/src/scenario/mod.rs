//! The scenario: the path, the flows, the probes. Options of a run are not part of the scenario.
//!
//! The types here are plain data. The files of this module read scenarios from text and write them
//! back:
//!
//! | file | contents |
//! |---|---|
//! | [`value`] | the tree of values that TOML and Python share, with positions in the source |
//! | `parse` | from a tree to a scenario: sections, defaults, conditions between keys |
//! | `dscp` | names of code points |
//! | [`version`] | the version of the format, and the conversion of older texts |
//! | `hop` | parser and writer of a hop of `[path]` |
//! | `links` | the sections `[link.NAME]` and `[switch.NAME]`, and the routes of flows |
//! | `probes` | the section `[[probe]]` |
//! | `host` | parser and writer of the section `[host]` |
//! | `hosts` | hosts with names, and the hosts of flows |
//! | `nested` | lists of tables, models and flows inside a model's parameters |
//! | `read` | one section and one value: unknown keys, switches, words, texts |
//! | `quantity` | quantities, counts and numbers: checks of unit and range |
//! | `model` | models with their parameters |
//! | [`keys`] | every key: its default, range and help |
//! | `schema` | the structure of their rows; reading and writing by rows |
//! | [`error`] | errors: place, key, value, the corrected line |
//! | `notices` | warnings about a scenario that is valid |
//! | `application` | the application of a flow |
//! | `transport` | the transport of a flow |
//! | `varying` | steps, outages, traces of rate and delay |
//! | `wifi` | parser and writer of the section `[wifi]` |
//! | [`likeness`] | the properties by which scenarios are compared |
//! | `write` | writing: canonical TOML and JSON, every default explicit |
//! | [`list`] | the vocabulary of scenarios, for `narrows list` and the documentation |
//!
//! An error is reported with its place and the corrected line, and all errors are reported at once:
//!
//! ```text
//! scenarios/x.toml:7: path.rtt = 40 needs a unit
//!     write: rtt = "40ms"
//! ```

mod application;
mod dscp;
mod ecn;
pub mod error;
mod hop;
mod host;
mod hosts;
mod ip;
pub mod keys;
pub mod likeness;
mod links;
pub mod list;
mod model;
mod nested;
mod notices;
mod parse;
mod probes;
mod quantity;
mod read;
mod schema;
mod transport;
pub mod value;
mod varying;
pub mod version;
mod wifi;
mod write;

pub use dscp::code_point;
pub use error::{Error, Errors};
pub use host::{HostSpec, Nic};
pub use likeness::Likeness;
pub use value::Tree;
pub use varying::{Files, no_files};
pub use version::FORMAT;
pub use write::key as quoted_key;

pub use crate::net::spec::{
    Buffer, DelayFile, HopSpec, Link, LinkPlace, Links, PathSpec, Route, RouteChange, Step,
    SwitchSpec, TraceFile, Varying,
};
use crate::net::wifi::LEVELS;
pub use crate::net::wifi::{Speed, StationSpec, WifiSpec};
pub use crate::param::Choice;

use crate::packet::Ip;
use crate::param::Params;
use crate::tcp::EcnNegotiation;
use crate::units::{Bytes, Span};
use crate::workload;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A scenario with every default filled in.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The title of the scenario.
    pub title: String,
    /// Duration of the run.
    pub duration: Span,
    /// Initial part of the run that the summary interval excludes (20 % of the duration by
    /// default).
    pub warmup: Span,
    /// Seed of every random choice.
    pub seed: u64,
    /// Maximum random shift of a flow's start (by default one RTT, that of the farthest flow).
    pub start_jitter: Span,
    /// The path between the hosts; for a `wifi` the result of [`WifiSpec::as_path`].
    pub path: PathSpec,
    /// The Wi-Fi, if it replaces the path.
    pub wifi: Option<WifiSpec>,
    /// The properties of hosts without a name.
    pub host: HostSpec,
    /// The hosts with names.
    pub hosts: Vec<(String, HostSpec)>,
    /// The flows, `count` expanded; every flow has its id.
    pub flows: Vec<FlowSpec>,
    /// The probes.
    pub probes: Vec<ProbeSpec>,
    /// Keys of the top level that have no field, by name.
    pub keys: Params,
}

/// One flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSpec {
    /// The id of the flow; unique, `<cc><n>` by default.
    pub id: String,
    /// The congestion control of the flow.
    pub cc: Choice,
    /// Two-way propagation beyond the path's, for a receiver that is farther away.
    pub rtt: Span,
    /// Time when it connects.
    pub start: Span,
    /// Time when the application stops writing, if before the end.
    pub stop: Option<Span>,
    /// Time when the application resumes writing after `stop`.
    pub restart: Option<Span>,
    /// Direction of its data.
    pub direction: Direction,
    /// Differentiated-services code point of its packets, ACKs included.
    pub dscp: u8,
    /// The transport that carries the flow, from an adapter; `None` for the TCP of Linux. With such
    /// a transport, the flow's congestion control is one of the transport's own.
    pub transport: Option<String>,
    /// Use of explicit congestion notification by both ends. A congestion control that needs a kind
    /// of ECN runs as Reno without it.
    pub ecn: EcnNegotiation,
    /// Size of a transfer; `None` for unlimited data.
    pub size: Option<Bytes>,
    /// Number of the flow's far host, from 1; 0 is the common host of all flows and probes without
    /// the key `host`.
    pub host: u8,
    /// The version of IP.
    pub ip: Ip,
    /// The number in [`Scenario::hosts`] of the host that sends the data; `None` for a host without
    /// a name.
    pub sender: Option<u8>,
    /// The number of the host that receives the data.
    pub receiver: Option<u8>,
    /// The release of the flow's sending host, if it differs from that of [`HostSpec`].
    pub like: Option<String>,
    /// The station of the flow, with a Wi-Fi.
    pub station: Option<u8>,
    /// The route of the flow, in a network of links.
    pub route: Option<Arc<Route>>,
    /// The application of the flow, one of [`workload::KINDS`]; without one
    /// it has unlimited data.
    pub workload: Option<Choice>,
    /// Its section in the scenario file.
    pub section: SectionNumber,
    /// Keys that have no field, by name.
    pub keys: Params,
}

/// The number of the section `[[flow]]` or `[[probe]]` that describes a flow or probe, from 0. It
/// is for error messages and no property of the flow: all values are equal.
#[derive(Copy, Clone, Debug, Default)]
pub struct SectionNumber(pub usize);

impl PartialEq for SectionNumber {
    fn eq(&self, _: &SectionNumber) -> bool {
        true
    }
}

impl Scenario {
    /// Returns the number of the bottleneck's queue. It belongs to the hop with the lowest rate on
    /// the forward path, or is the first level of a Wi-Fi.
    pub fn bottleneck(&self) -> usize {
        let wan = self.wifi.as_ref().and_then(WifiSpec::narrower);
        wan.map_or(self.path.narrowest(), |wan| LEVELS + wan.narrowest())
    }
    /// Returns the path of the section that describes a hop by number, such as `link.up`.
    pub fn section_of_hop(&self, number: usize) -> String {
        let hops = self.path.hops.len();
        let link = self.path.links.as_ref().and_then(|l| l.links.get(number));
        match (link, hops) {
            (Some(link), _) => format!("link.{}", quoted_key(&link.name)),
            _ if number >= hops => "path.reverse".into(),
            (_, 1) => "path".into(),
            _ => format!("path.hop[{number}]"),
        }
    }
    /// Returns the two-way propagation delay of a flow.
    pub fn rtt_of(&self, flow: &FlowSpec) -> Span {
        let route = flow.route.as_ref();
        route.map_or(self.path.rtt(), |route| self.path.rtt_of(route)) + flow.rtt
    }
}

impl FlowSpec {
    /// Returns whether the flow has a congestion control: that of TCP or of another transport.
    pub fn has_cc(&self) -> bool {
        let udp = |choice: &Choice| {
            workload::find(&choice.kind).is_some_and(|kind| kind.is_udp(&choice.params))
        };
        !self.workload.as_ref().is_some_and(udp)
    }
    /// The name of the flow's congestion control in metrics, with its transport: `cubic`,
    /// `quinn:cubic`.
    pub fn cc_name(&self) -> String {
        match &self.transport {
            Some(transport) => alloc::format!("{transport}:{}", self.cc.kind),
            None => self.cc.kind.clone(),
        }
    }
}

/// Direction of a flow's data.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Over the hops of the path.
    #[default]
    Down,
    /// Over the reverse hop.
    Up,
}

/// A measurement beside the flows.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeSpec {
    /// `ping`: UDP packets with 64 bytes of payload, through the same bottleneck as the flows. The
    /// first ping leaves at t = 0 or, with random spacing, in the first interval.
    pub kind: ProbeKind,
    /// Mean interval between pings.
    pub interval: Span,
    /// Distribution of the intervals.
    pub spacing: Spacing,
    /// Differentiated-services code point of its packets and their answers.
    pub dscp: u8,
    /// Number of the far host that responds, from 1; 0 is the common host of all flows and probes
    /// without the key `host`.
    pub host: u8,
    /// The version of IP.
    pub ip: Ip,
    /// The responding station, with a Wi-Fi.
    pub station: Option<u8>,
    /// The route of its packets, in a network of links.
    pub route: Option<Arc<Route>>,
    /// Its section in the scenario file.
    pub section: SectionNumber,
    /// Keys that have no field, by name.
    pub keys: Params,
}

/// Distribution of the intervals between pings.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Spacing {
    /// All intervals are equal.
    #[default]
    Constant,
    /// One ping in each interval, at a random time.
    Random,
}

/// Kinds of probes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ProbeKind {
    /// UDP echo.
    Ping,
}

impl ProbeKind {
    /// Returns the name of the probe kind in a scenario and in a run.
    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Ping => "ping",
        }
    }
}
