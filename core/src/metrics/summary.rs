//! The metrics of flows, queues and probes over the summary interval, and of fairness among flows.

use super::{Histogram, LevelDelays, Quantiles, Shown, Spread, WorkloadMetrics, jain, six_digits};
use crate::queue::{ClassCounts, DropReason};
use crate::units::{Bytes, Rate, Span};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// The metrics of one flow; see the [module](super) for their meaning.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowMetrics {
    /// The id of the flow, unique in the scenario.
    pub id: String,
    /// The congestion control of the flow.
    pub cc: String,
    /// Payload that arrived in the summary interval over the length of this interval, Mbit/s. The
    /// interval is the same for all flows; NaN if the flow was never active in it.
    #[serde(serialize_with = "six_digits")]
    pub goodput_mbit: f64,
    /// Payload acknowledged in order, over the part of the summary interval in which the flow was
    /// active, Mbit/s.
    #[serde(serialize_with = "six_digits")]
    pub active_goodput_mbit: f64,
    /// Duration of that part, seconds.
    #[serde(serialize_with = "six_digits")]
    pub active_s: f64,
    /// Retransmitted packets in the whole run.
    pub retransmits: u64,
    /// Retransmitted over all bytes sent in the whole run.
    #[serde(serialize_with = "six_digits")]
    pub retransmit_rate: f64,
    /// Retransmitted packets in the summary interval.
    pub summary_retransmits: u64,
    /// Retransmitted over all bytes sent in the summary interval.
    #[serde(serialize_with = "six_digits")]
    pub summary_retransmit_rate: f64,
    /// The same as [`retransmit_rate`](Self::retransmit_rate), under a name that states the
    /// interval.
    #[serde(serialize_with = "six_digits")]
    pub run_retransmit_rate: f64,
    /// Smoothed RTT at the samples before which a new ACK arrived, milliseconds.
    pub rtt_ms: Quantiles,
    /// Smoothed RTT at all samples, as TCP_INFO shows it, milliseconds.
    pub sampled_rtt_ms: Quantiles,
    /// Packets.
    pub cwnd_packets: Spread,
    /// Flow completion time, seconds; NaN for a flow that is no transfer or did not finish.
    #[serde(serialize_with = "six_digits")]
    pub fct_s: f64,
    /// The time when the sender ended the connection, because nothing was acknowledged for too
    /// long, seconds; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_out_s: Option<f64>,
    /// Time for which each limit applied.
    pub limits: LimitMetrics,
    /// In a network of links, the links that the flow crosses from the sender of a download to the
    /// receiver, at the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<String>,
    /// The same in the reverse direction; empty for propagation only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub route_back: Vec<String>,
    /// Metrics of its application, for a flow with a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadMetrics>,
    /// Points over time: seconds, bytes acknowledged, congestion window in packets, smoothed RTT in
    /// milliseconds.
    #[serde(serialize_with = "points")]
    pub series: Vec<(f64, u64, u32, f64)>,
}

/// Time for which each limit applied to a flow in the whole run, in seconds: TCP_INFO's
/// `busy_time`, `rwnd_limited` and `sndbuf_limited`.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize)]
pub struct LimitMetrics {
    /// Time with data unsent or in flight.
    #[serde(serialize_with = "six_digits")]
    pub busy_s: f64,
    /// Part of `busy_s` in which the receiver's window was the limit.
    #[serde(serialize_with = "six_digits")]
    pub rwnd_limited_s: f64,
    /// Part of `busy_s` in which the send buffer was the limit.
    #[serde(serialize_with = "six_digits")]
    pub sndbuf_limited_s: f64,
    /// Time without data: the application was the limit, or the handshake was not complete.
    #[serde(serialize_with = "six_digits")]
    pub app_limited_s: f64,
}

impl LimitMetrics {
    /// The values of a flow without such measurements: NaN.
    pub fn unknown() -> LimitMetrics {
        LimitMetrics {
            busy_s: f64::NAN,
            rwnd_limited_s: f64::NAN,
            sndbuf_limited_s: f64::NAN,
            app_limited_s: f64::NAN,
        }
    }
}

/// The metrics of one queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueMetrics {
    /// The name of its hop: `"path"`, or `"hop0"`, `"hop1"` … if there are several, and
    /// `"reverse"`. In a network of links, the name is that of the link, on Wi-Fi that of the
    /// level.
    pub name: String,
    /// The name of its discipline.
    pub kind: String,
    /// Packets.
    pub drops: u64,
    /// Packets.
    pub marks: u64,
    /// Milliseconds.
    pub delay_ms: Quantiles,
    /// Packets in the queue.
    pub backlog_packets: Spread,
    /// Metrics of each class or band of the discipline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassMetrics>,
    /// Metrics of the link behind the queue, in a network of links.
    #[serde(flatten)]
    pub link: Option<LinkMetrics>,
}

/// Packets that were lost at a link in the whole run, by drop reason.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropMetrics {
    /// The buffer was full.
    pub overflow: u64,
    /// The queue discipline's active queue management.
    pub aqm: u64,
    /// The packet exceeded the rate of a policer.
    pub policer: u64,
    /// Random loss, which `drops` does not include.
    pub loss: u64,
}

impl DropMetrics {
    /// Counts a packet.
    pub fn add(&mut self, reason: DropReason) {
        let count = match reason {
            DropReason::Overflow => &mut self.overflow,
            DropReason::Aqm => &mut self.aqm,
            DropReason::Policer => &mut self.policer,
            DropReason::Loss => &mut self.loss,
        };
        *count += 1;
    }
    /// Packets that the queue discipline and the policer dropped.
    pub fn drops(&self) -> u64 {
        self.overflow + self.aqm + self.policer
    }
}

/// The metrics of one link of a network.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct LinkMetrics {
    /// Mean rate over the summary interval, Mbit/s.
    #[serde(serialize_with = "six_digits")]
    pub rate_mbit: f64,
    /// Mean rate of the frames that have arrived behind the link in the summary interval, Mbit/s.
    #[serde(serialize_with = "six_digits")]
    pub carried_mbit: f64,
    /// Bytes of these frames.
    pub carried_bytes: u64,
    /// `carried_mbit` over `rate_mbit`.
    #[serde(serialize_with = "six_digits")]
    pub utilisation: f64,
    /// Lost packets by drop reason.
    pub lost: DropMetrics,
    /// Share of packets that were lost at the link in the summary interval, for every reason.
    #[serde(serialize_with = "six_digits")]
    pub loss_rate: f64,
}

impl LinkMetrics {
    /// For a link with this mean rate, before its counter is known.
    pub fn new(rate: Rate) -> LinkMetrics {
        LinkMetrics {
            rate_mbit: rate.as_mbit(),
            carried_mbit: f64::NAN,
            carried_bytes: 0,
            utilisation: f64::NAN,
            lost: DropMetrics::default(),
            loss_rate: f64::NAN,
        }
    }
    /// Returns the metrics with the lost packets: by drop reason, and their number `later` in the
    /// summary interval. `delays` are those of the packets that left the queue in this interval.
    pub(super) fn losing(self, lost: DropMetrics, later: u64, delays: &Histogram) -> LinkMetrics {
        LinkMetrics {
            lost,
            loss_rate: later as f64 / (later + delays.count()) as f64,
            ..self
        }
    }
    /// Stores the bytes that the link carried in `time`.
    pub fn carried(&mut self, bytes: Bytes, time: Span) {
        self.carried_bytes = bytes.get();
        self.carried_mbit = bytes.get() as f64 * 8e-6 / time.as_s();
        self.utilisation = self.carried_mbit / self.rate_mbit;
    }
}

/// The metrics of one class or band of a queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassMetrics {
    /// The discipline's name for it.
    pub name: String,
    /// Milliseconds.
    pub delay_ms: Quantiles,
    /// Packets in the queue.
    pub backlog_packets: Spread,
    /// The counters of the class, if the discipline keeps them.
    #[serde(flatten)]
    pub counted: Option<CountMetrics>,
}

/// The counters of a class, over the whole run.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct CountMetrics {
    /// Bytes of frames.
    pub sent_bytes: u64,
    /// Packets.
    pub sent_packets: u64,
    /// Packets.
    pub drops: u64,
    /// Number of times that the class reached its limit.
    pub overlimits: u64,
    /// Packets sent with another class's tokens.
    pub borrowed: u64,
}

impl From<ClassCounts> for CountMetrics {
    fn from(counts: ClassCounts) -> CountMetrics {
        CountMetrics {
            sent_bytes: counts.sent.bytes.get(),
            sent_packets: counts.sent.packets,
            drops: counts.drops,
            overlimits: counts.overlimits,
            borrowed: counts.borrowed,
        }
    }
}

/// The metrics of a probe.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProbeMetrics {
    /// `"ping"`.
    pub kind: &'static str,
    /// Packets.
    pub sent: u64,
    /// Responses.
    pub received: u64,
    /// Milliseconds.
    pub rtt_ms: Quantiles,
    /// Waiting times of the pings at each level on their way to a station of a `[wifi]`,
    /// milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<LevelDelays>,
}

/// The name in the place of a congestion control, for flows whose application sends datagrams.
pub const NO_CC: &str = "udp";

/// Distribution of goodput among the flows that were active in the summary interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fairness {
    /// Jain's index over flows with a congestion control. A stream of datagrams does not count,
    /// because it does not adapt its rate.
    #[serde(serialize_with = "six_digits")]
    pub jain: f64,
    /// By congestion control; flows without one are under `udp`.
    pub by_cc: BTreeMap<String, CcFairness>,
    /// Flows with a congestion control, by the direction of their data: on a path, flows of
    /// opposite directions share no bottleneck.
    pub by_direction: BTreeMap<&'static str, CcFairness>,
}

/// The flows of one congestion control, or of one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CcFairness {
    /// Number of flows.
    pub flows: u32,
    /// Sum of their goodputs, Mbit/s.
    #[serde(serialize_with = "six_digits")]
    pub goodput_mbit: f64,
    /// Jain's index among them.
    #[serde(serialize_with = "six_digits")]
    pub jain: f64,
}

impl CcFairness {
    fn of(goodputs: Vec<f64>) -> CcFairness {
        CcFairness {
            flows: goodputs.len() as u32,
            goodput_mbit: goodputs.iter().sum(),
            jain: jain(goodputs),
        }
    }
}

impl Fairness {
    /// For these flows; `up` returns whether a flow's data goes in the reverse direction.
    pub fn of(flows: &[FlowMetrics], up: impl Fn(usize) -> bool) -> Fairness {
        let mut by_cc: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut by_direction: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for (i, flow) in flows
            .iter()
            .enumerate()
            .filter(|(_, f)| !f.goodput_mbit.is_nan())
        {
            by_cc
                .entry(flow.cc.clone())
                .or_default()
                .push(flow.goodput_mbit);
            if flow.cc != NO_CC {
                let direction = if up(i) { "up" } else { "down" };
                by_direction
                    .entry(direction)
                    .or_default()
                    .push(flow.goodput_mbit);
            }
        }
        let controlled = by_cc.iter().filter(|(cc, _)| *cc != NO_CC);
        Fairness {
            jain: jain(controlled.flat_map(|(_, goodputs)| goodputs).copied()),
            by_cc: by_cc
                .into_iter()
                .map(|(cc, of)| (cc, CcFairness::of(of)))
                .collect(),
            by_direction: by_direction
                .into_iter()
                .map(|(direction, of)| (direction, CcFairness::of(of)))
                .collect(),
        }
    }
}

fn points<S: Serializer>(series: &[(f64, u64, u32, f64)], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(series.len()))?;
    for (t_s, bytes, cwnd, rtt_ms) in series {
        list.serialize_element(&(Shown(*t_s), bytes, cwnd, Shown(*rtt_ms)))?;
    }
    list.end()
}
