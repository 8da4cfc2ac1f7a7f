//! What a measurement saw, before it is put into JSON. Times are ns of this end's even clock.

use super::link::Offset;
use super::ping::Pings;
use super::plan::{Direction, FlowSpec};
use crate::measure::bulk::{Stream, Way};
use crate::protocols::tcp_info::Row;
use crate::sys;
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
    /// What the sender noted, the first at its beginning; of the receiver where the sender tells
    /// nothing.
    pub rows: Vec<Row>,
    /// Are the rows a sender's?
    pub sender: bool,
    /// Bytes that the receiver got.
    pub received: Option<u64>,
    /// Segments sent again, where the sender tells only that.
    pub resent: Option<u64>,
}

/// A download that stands still for so long has ended, ns.
const STALLED: u64 = 1_000_000_000;

impl FlowSeen {
    /// Not yet running.
    pub fn new(id: String, spec: &FlowSpec) -> FlowSeen {
        FlowSeen {
            id,
            direction: spec.direction,
            udp: false,
            cc: None,
            dscp: spec.dscp,
            arrived: None,
            ecn: None,
            mss: None,
            rows: Vec::new(),
            sender: true,
            received: None,
            resent: None,
        }
    }
    /// Notes how it stands: by TCP_INFO where this end sends, else by what has come.
    pub fn note(&mut self, stream: &Stream, now: u64) {
        match stream.way() {
            Way::Out => self
                .rows
                .extend(sys::tcp_info(stream.socket()).map(|info| Row::of(now, &info))),
            Way::In => {
                self.received = Some(stream.moved());
                if !self.sender {
                    self.count(now, stream.moved());
                }
            }
        }
    }
    /// Notes that so many bytes have come.
    pub fn count(&mut self, now: u64, bytes: u64) {
        self.rows.push(Row {
            at: now,
            bytes,
            ..Row::default()
        });
    }
    /// Nothing has come for long.
    pub fn stalled(&self) -> bool {
        let Some(last) = self.rows.last() else {
            return false;
        };
        let same = self
            .rows
            .iter()
            .rev()
            .take_while(|row| row.bytes == last.bytes);
        same.last().is_some_and(|row| last.at - row.at > STALLED)
    }
    /// What this end's socket says of its connection at its end.
    pub fn close(&mut self, stream: &Stream) {
        if let Ok(info) = sys::tcp_info(stream.socket()) {
            self.mss = self.mss.or(Some(info.snd_mss.into()));
            self.ecn = self.ecn.or(Some(info.options() & sys::ECN != 0));
        }
    }
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
    /// Ctrl-C; what was seen until then counts.
    User,
    /// It was long enough.
    Duration,
    /// All that was allowed has moved.
    MaxData,
    /// The other end had enough.
    Peer,
    /// The other end did not answer any more.
    Lost,
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
    /// A call.
    pub voip: Value,
    /// Pages.
    pub page: Value,
    /// Who the peer is.
    pub peer: Value,
    /// Whatever else is to be confessed.
    pub notes: Vec<String>,
}
