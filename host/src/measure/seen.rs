//! The observations of a measurement. Times are ns of this host's monotonic clock.

use super::link::Offset;
use super::ping::Pings;
use super::plan::{Direction, FlowSpec};
use crate::measure::bulk::{Role, Stream};
use crate::protocols::tcp_info::Row;
use serde_json::Value;

/// The observations of a flow.
#[derive(Clone, Debug)]
pub struct FlowSeen {
    /// The name of the flow, such as `up1` or `down12`.
    pub id: String,
    /// The direction of the flow.
    pub direction: Direction,
    /// The protocol of its packets.
    pub protocol: &'static str,
    /// Congestion control of the sender.
    pub cc: Option<String>,
    /// DSCP with which the sender sends.
    pub dscp: u8,
    /// DSCP with which packets arrived at the receiver, if known.
    pub arrived: Option<u8>,
    /// Whether ECN was negotiated, if known.
    pub ecn: Option<bool>,
    /// Maximum segment size of the sender, bytes.
    pub mss: Option<u64>,
    /// Samples, the first at the start: those of the sender, or those of the receiver if the sender
    /// reports none.
    pub rows: Vec<Row>,
    /// Whether `rows` are samples of the sender.
    pub sender: bool,
    /// Number of payload bytes that arrived at the receiver.
    pub received: Option<u64>,
    /// Number of retransmitted segments, if the sender reports it without samples.
    pub resent: Option<u64>,
}

/// Time without progress after which a download counts as stalled, ns.
const STALLED: u64 = 1_000_000_000;

impl FlowSeen {
    /// A flow that has not started.
    pub fn new(id: String, spec: &FlowSpec) -> FlowSeen {
        FlowSeen {
            id,
            direction: spec.direction,
            protocol: "tcp",
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
    /// Records a sample: the state of the sender if this host sends, the number of received bytes
    /// if it receives.
    pub fn note(&mut self, stream: &Stream, now: u64) {
        match stream.role() {
            Role::Sender => self.rows.extend(stream.row(now)),
            Role::Receiver => {
                self.received = Some(stream.moved());
                if !self.sender {
                    self.count(now, stream.moved());
                }
            }
        }
    }
    /// Records a sample with the number of received bytes.
    pub fn count(&mut self, now: u64, bytes: u64) {
        self.rows.push(Row {
            at: now,
            bytes,
            ..Row::default()
        });
    }
    /// Whether nothing has arrived for more than `STALLED`.
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
    /// Records segment size and ECN of this host's socket, if they are not known yet.
    pub fn close(&mut self, stream: &Stream) {
        let sending = stream.sending();
        self.mss = self.mss.or(Some(sending.mss));
        self.ecn = self.ecn.or(Some(sending.ecn));
    }
}

/// A phase of the measurement that has ended.
#[derive(Clone, Debug)]
pub struct PhaseSeen {
    /// The name of the phase.
    pub name: &'static str,
    /// The start of the phase.
    pub from: u64,
    /// The end of the phase.
    pub to: u64,
    /// Requested congestion control of the flows.
    pub cc: Option<String>,
}

/// Reason why the load ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StoppedBy {
    /// Stopped by the user; the observations count.
    User,
    /// The duration has passed.
    Duration,
    /// The limit of `--max-data` is reached.
    MaxData,
    /// The server ended the load.
    Peer,
    /// The circuit breaker of a flow over UDP.
    Breaker,
    /// The connection to the server was lost.
    Lost,
}

/// All observations of a measurement.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Start of the measurement.
    pub begin: u64,
    /// In order.
    pub phases: Vec<PhaseSeen>,
    /// In order.
    pub flows: Vec<FlowSeen>,
    /// The pings of each probe, in the order of the probes.
    pub pings: Vec<Pings>,
    /// Difference of the server's clock at the beginning and at the end of the measurement.
    pub offsets: Option<(Offset, Offset)>,
    /// Whether both ends run on the same host since its boot, and so share a clock.
    pub common: bool,
    /// Payload of both directions, pings included, bytes.
    pub moved: u64,
    /// Why the load ended.
    pub stopped_by: StoppedBy,
    /// CPU time of this process during the measurement, ns.
    pub cpu: u64,
    /// The server's report at the end.
    pub far: Value,
    /// Result of the test `udp_flood`.
    pub udp_load: Value,
    /// Result of the test `voip`.
    pub voip: Value,
    /// Results of the tests with pages.
    pub page: Value,
    /// Description of the server.
    pub peer: Value,
    /// Warnings.
    pub notes: Vec<String>,
}
