//! What a measurement saw, before it is put into JSON. Times are ns of this end's even clock.

use super::link::Offset;
use super::ping::Pings;
use super::plan::Direction;
use crate::row::Row;
use serde_json::Value;

/// A flow.
#[derive(Clone, Debug)]
pub struct FlowSeen {
    /// `up1`, `down12`.
    pub id: String,
    /// Which way.
    pub direction: Direction,
    /// Datagrams?
    pub udp: bool,
    /// The sender's congestion control.
    pub cc: Option<String>,
    /// Code point of the sender.
    pub dscp: u8,
    /// The code point with which it arrived, where that is known.
    pub arrived: Option<u8>,
    /// Is congestion notified on it? Where that is known.
    pub ecn: Option<bool>,
    /// Bytes of a segment.
    pub mss: Option<u64>,
    /// What the sender noted, the first at its beginning; of the receiver where the sender tells nothing.
    pub rows: Vec<Row>,
    /// Are the rows a sender's?
    pub sender: bool,
    /// Bytes that the receiver got.
    pub received: Option<u64>,
}

/// A stretch of the measurement.
#[derive(Clone, Debug)]
pub struct PhaseSeen {
    /// Its name.
    pub name: &'static str,
    /// When.
    pub from: u64,
    /// When.
    pub to: u64,
    /// Of its flows.
    pub cc: Option<String>,
}

/// Why the load ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StoppedBy {
    /// It was long enough.
    Duration,
    /// All that was allowed has moved.
    MaxData,
    /// The other end had enough.
    Peer,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The beginning.
    pub begin: u64,
    /// In order.
    pub phases: Vec<PhaseSeen>,
    /// In order.
    pub flows: Vec<FlowSeen>,
    /// In order of the probes.
    pub pings: Vec<Pings>,
    /// The far end's clock, at the beginning and at the end.
    pub offsets: Option<(Offset, Offset)>,
    /// Do both ends have one clock?
    pub common: bool,
    /// Bytes, both ways.
    pub moved: u64,
    /// Why it ended.
    pub stopped_by: StoppedBy,
    /// Processor time of this end, ns.
    pub cpu: u64,
    /// What the far end says of itself.
    pub far: Value,
    /// Load of datagrams.
    pub udp_load: Value,
    /// Pages.
    pub page: Value,
    /// Who the peer is.
    pub peer: Value,
    /// Whatever else is to be confessed.
    pub notes: Vec<String>,
}
