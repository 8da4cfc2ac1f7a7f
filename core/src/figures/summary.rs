//! The figures of flows, queues and probes over the summary interval, and of fairness among flows.

use super::{LevelDelays, Quantiles, Shown, Spread, WorkloadFigures, jain, six_digits};
use crate::queue::ClassCounts;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// The figures of one flow; see the [module](super) for their meaning.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowFigures {
    /// Unique in the scenario.
    pub id: String,
    /// Its congestion control.
    pub cc: String,
    /// Mbit/s over the summary interval, the same for all flows; NaN when the flow was never
    /// active in it.
    #[serde(serialize_with = "six_digits")]
    pub goodput_mbit: f64,
    /// Mbit/s acknowledged in order, over that part of the summary interval in which the flow was
    /// active.
    #[serde(serialize_with = "six_digits")]
    pub active_goodput_mbit: f64,
    /// How long that was, seconds.
    #[serde(serialize_with = "six_digits")]
    pub active_s: f64,
    /// Packets, of the whole run.
    pub retransmits: u64,
    /// Retransmitted over all bytes sent in the summary interval.
    #[serde(serialize_with = "six_digits")]
    pub retransmit_rate: f64,
    /// Packets, of the summary interval.
    pub summary_retransmits: u64,
    /// Retransmitted over all bytes sent in the whole run.
    #[serde(serialize_with = "six_digits")]
    pub run_retransmit_rate: f64,
    /// Milliseconds; of samples since which an ACK came.
    pub rtt_ms: Quantiles,
    /// Milliseconds; of all samples, as those who look at TCP_INFO see it.
    pub sampled_rtt_ms: Quantiles,
    /// Packets.
    pub cwnd_packets: Spread,
    /// Seconds; NaN for a flow that is no transfer or did not finish.
    #[serde(serialize_with = "six_digits")]
    pub fct_s: f64,
    /// What limited it.
    pub limits: LimitFigures,
    /// What its application saw, of a flow with a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadFigures>,
    /// Seconds, bytes acknowledged, congestion window in packets, smoothed RTT in milliseconds.
    #[serde(serialize_with = "points")]
    pub series: Vec<(f64, u64, u32, f64)>,
}

/// What limited a flow, in seconds of the whole run; TCP_INFO's `busy_time`, `rwnd_limited` and
/// `sndbuf_limited`.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize)]
pub struct LimitFigures {
    /// Something waited to be sent or acknowledged.
    #[serde(serialize_with = "six_digits")]
    pub busy_s: f64,
    /// Of that: the receiver's window kept data back.
    #[serde(serialize_with = "six_digits")]
    pub rwnd_limited_s: f64,
    /// Of that: the send buffer did.
    #[serde(serialize_with = "six_digits")]
    pub sndbuf_limited_s: f64,
    /// Nothing waited: the application was the limit, or the handshake was not over.
    #[serde(serialize_with = "six_digits")]
    pub app_limited_s: f64,
}

impl LimitFigures {
    /// Of a flow of which nobody kept account.
    pub fn unknown() -> LimitFigures {
        LimitFigures {
            busy_s: f64::NAN,
            rwnd_limited_s: f64::NAN,
            sndbuf_limited_s: f64::NAN,
            app_limited_s: f64::NAN,
        }
    }
}

/// The figures of one queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueFigures {
    /// Of its hop: `"path"`, or `"hop0"`, `"hop1"` … where there are several, and `"reverse"`.
    pub name: String,
    /// Of its discipline.
    pub kind: String,
    /// Packets.
    pub drops: u64,
    /// Packets.
    pub marks: u64,
    /// Milliseconds.
    pub delay_ms: Quantiles,
    /// Packets that wait.
    pub backlog_packets: Spread,
    /// Of each class or band that the discipline tells apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFigures>,
}

/// The figures of one class or band of a queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassFigures {
    /// The discipline's name for it.
    pub name: String,
    /// Milliseconds.
    pub delay_ms: Quantiles,
    /// Packets that wait.
    pub backlog_packets: Spread,
    /// What it has counted, where it counts.
    #[serde(flatten)]
    pub counted: Option<CountFigures>,
}

/// What a class has counted, over the whole run.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct CountFigures {
    /// Bytes of frames.
    pub sent_bytes: u64,
    /// Packets.
    pub sent_packets: u64,
    /// Packets.
    pub drops: u64,
    /// How often it used up what it may have at most.
    pub overlimits: u64,
    /// Packets that left on another class's account.
    pub borrowed: u64,
}

impl From<ClassCounts> for CountFigures {
    fn from(counts: ClassCounts) -> CountFigures {
        CountFigures {
            sent_bytes: counts.sent.bytes.get(),
            sent_packets: counts.sent.packets,
            drops: counts.drops,
            overlimits: counts.overlimits,
            borrowed: counts.borrowed,
        }
    }
}

/// The figures of a probe.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProbeFigures {
    /// `"ping"`.
    pub kind: &'static str,
    /// Packets.
    pub sent: u64,
    /// Answers.
    pub received: u64,
    /// Milliseconds.
    pub rtt_ms: Quantiles,
    /// Where pings waited on their way to a station of a `[wifi]`, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<LevelDelays>,
}

/// What stands for a congestion control where a flow has none, since its application sends
/// datagrams.
pub const NO_CC: &str = "udp";

/// How goodput was shared by the flows that were active in the summary interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fairness {
    /// Jain's index over those that have a congestion control: a stream of datagrams takes what it
    /// takes, and shares nothing.
    #[serde(serialize_with = "six_digits")]
    pub jain: f64,
    /// By congestion control; flows without one, as `udp`.
    pub by_cc: BTreeMap<String, CcFairness>,
    /// By the direction of their data, of flows with a congestion control: flows of both
    /// directions share no bottleneck.
    pub by_direction: BTreeMap<&'static str, CcFairness>,
}

/// The flows of one congestion control, or of one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CcFairness {
    /// How many.
    pub flows: u32,
    /// Their goodput together, Mbit/s.
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
    /// Of these flows, and whether the data of each goes up.
    pub fn of(flows: &[FlowFigures], up: impl Fn(usize) -> bool) -> Fairness {
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
