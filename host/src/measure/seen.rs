//! Observations of a measurement. Times are ns of this host's monotonic clock.

use super::link::Offset;
use super::ping::Pings;
use super::plan::{Direction, FlowSpec};
use crate::measure::bulk::{Role, Stream};
use crate::protocols::tcp_info::Row;
use crate::sys;
use serde_json::Value;

/// A flow.
#[derive(Clone, Debug)]
pub struct FlowSeen {
    /// The name of the flow, such as `up1` or `down12`.
    pub id: String,
    /// The direction of the flow.
    pub direction: Direction,
    /// Whether it consists of datagrams.
    pub udp: bool,
    /// Congestion control of the sender.
    pub cc: Option<String>,
    /// Code point of the sender.
    pub dscp: u8,
    /// Code point with which it arrived, if known.
    pub arrived: Option<u8>,
    /// Whether ECN was negotiated, if known.
    pub ecn: Option<bool>,
    /// Segment size, bytes.
    pub mss: Option<u64>,
    /// The rows of the sender, the first at its start; those of the receiver if the sender reports
    /// none.
    pub rows: Vec<Row>,
    /// Whether the rows are those of the sender.
    pub sender: bool,
    /// Bytes that the receiver got.
    pub received: Option<u64>,
    /// Retransmitted segments, if the sender reports nothing else.
    pub resent: Option<u64>,
}

/// Time without progress after which a download has ended, ns.
const STALLED: u64 = 1_000_000_000;

impl FlowSeen {
    /// A flow that does not run yet.
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
    /// Records a row: TCP_INFO at a sender, received bytes at a receiver.
    pub fn note(&mut self, stream: &Stream, now: u64) {
        match stream.role() {
            Role::Sender => self
                .rows
                .extend(sys::tcp_info(stream.socket()).map(|info| Row::of(now, &info))),
            Role::Receiver => {
                self.received = Some(stream.moved());
                if !self.sender {
                    self.count(now, stream.moved());
                }
            }
        }
    }
    /// Records received bytes.
    pub fn count(&mut self, now: u64, bytes: u64) {
        self.rows.push(Row {
            at: now,
            bytes,
            ..Row::default()
        });
    }
    /// Whether nothing has arrived for a long time.
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
    /// The options of this host's socket.
    pub fn close(&mut self, stream: &Stream) {
        if let Ok(info) = sys::tcp_info(stream.socket()) {
            self.mss = self.mss.or(Some(info.snd_mss.into()));
            self.ecn = self.ecn.or(Some(info.options() & sys::ECN != 0));
        }
    }
}

/// A phase of the measurement.
#[derive(Clone, Debug)]
pub struct PhaseSeen {
    /// The name of the phase.
    pub name: &'static str,
    /// The start of the phase.
    pub from: u64,
    /// The end of the phase.
    pub to: u64,
    /// Congestion control of its flows.
    pub cc: Option<String>,
}

/// Reason why the load ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StoppedBy {
    /// Stopped by the user; the observations count.
    User,
    /// The duration has passed.
    Duration,
    /// The largest amount of data has moved.
    MaxData,
    /// The server ended it.
    Peer,
    /// The server no longer answered.
    Lost,
}

/// All observations.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Start.
    pub begin: u64,
    /// In order.
    pub phases: Vec<PhaseSeen>,
    /// In order.
    pub flows: Vec<FlowSeen>,
    /// In order of the probes.
    pub pings: Vec<Pings>,
    /// The server's clock at the beginning and at the end.
    pub offsets: Option<(Offset, Offset)>,
    /// Whether both ends share a clock.
    pub common: bool,
    /// Bytes in both directions.
    pub moved: u64,
    /// Reason of the end.
    pub stopped_by: StoppedBy,
    /// Processor time of this host, ns.
    pub cpu: u64,
    /// The server's description of itself.
    pub far: Value,
    /// Result of datagram load.
    pub udp_load: Value,
    /// Result of a call.
    pub voip: Value,
    /// Results of pages.
    pub page: Value,
    /// Description of the peer.
    pub peer: Value,
    /// Warnings.
    pub notes: Vec<String>,
}
