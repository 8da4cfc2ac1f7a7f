//! Metrics: the results of a run. Metrics are computed here for every engine, and only displayed
//! elsewhere.
//!
//! | metric | meaning |
//! |---|---|
//! | `goodput_mbit` | payload bytes that arrived in the summary interval, over that interval |
//! | `active_goodput_mbit` | payload bytes acknowledged while the flow was active, over this time |
//! | `active_s` | part of the summary interval in which the flow was active |
//! | `rtt_ms` | smoothed RTT, sampled each [`metric_interval`] while ACKs arrive |
//! | `sampled_rtt_ms` | as `rtt_ms`, but including samples without ACKs |
//! | `cwnd_packets` | congestion window, sampled as `sampled_rtt_ms` |
//! | `retransmits` | retransmitted packets in the whole run |
//! | `retransmit_rate` | retransmitted over all bytes sent, in the whole run |
//! | `run_retransmit_rate` | the same as `retransmit_rate` |
//! | `summary_retransmits`, `summary_retransmit_rate` | the same for the summary interval |
//! | `fct_s` | from connect to the ACK of a transfer's last byte; null if it did not finish |
//! | `series` | one point per second, and one when the flow ends before the run |
//! | `queue.drops`, `queue.marks` | packets dropped and marked by queue discipline and policer, whole run |
//! | `queue.delay_ms` | queueing delay of packets that leave the bottleneck after the warm-up |
//! | `queue.backlog_packets` | backlog, sampled each [`metric_interval`] after the warm-up |
//! | `queues` | the same for every hop; delay and backlog of every class or band |
//! | `queues[].carried_mbit` | mean rate of the frames carried by a link, in the summary interval |
//! | `queues[].carried_bytes` | bytes of these frames |
//! | `queues[].lost` | packets dropped or lost at a link, by drop reason, whole run |
//! | `probes[].sent`, `received` | pings of the whole run; `rtt_ms` is of pings sent after the warm-up |
//! | `flows[].workload` | metrics of its application, by kind |
//! | `fairness` | Jain's index of goodputs |
//!
//! The summary interval is from the end of the warm-up to the end of the run. A flow is active from
//! max(warm-up, start) to min(end, stop, last byte of a transfer), except while its application is
//! silent. Samples without ACKs repeat the last RTT, for instance while a flow waits for a timeout.
//! Random losses (`loss`) are not drops. `queue` is the bottleneck's entry of `queues`. Jain's
//! index is over all flows with a congestion control, over those of each congestion control, and
//! over those of each direction.
//!
//! A percentile of `n` sorted values is the one of rank `min(n − 1, ⌊q·n⌋)`. A percentile from a
//! [`Histogram`] differs from this value by at most 0.4 %. A metric without a value (without
//! measurements) is NaN here and `null` in JSON, where numbers have six significant digits.
//!
//! | file | contents |
//! |---|---|
//! | `agreement` | [`compare`]: comparison of a metric with a reference |
//! | `engine_comparison` | [`compare_engines`]: comparison of two engines by their runs |
//! | `serialize` | [`Samples`] as bytes, from one process to another |
//! | `delays` | [`DelaySamples`]: distributions of delays, for charts |
//! | `histogram` | [`Histogram`]: percentiles of millions of delays |
//! | `history` | samples and series of a flow, in few bytes |
//! | `meters` | [`FlowMeter`], [`QueueMeter`], [`ProbeMeter`]: an engine reports events to them |
//! | `path` | [`PathMetrics`]: the path's limits, for comparison with metrics |
//! | `samples` | [`Samples`]: columns over time |
//! | `states` | [`StateSamples`]: the internal state of congestion controls over time |
//! | `stations` | [`StationMetrics`]: the metrics of each station of a Wi-Fi |
//! | `summary` | [`FlowMetrics`], [`QueueMetrics`], [`ProbeMetrics`], [`Fairness`] |
//! | `transfers` | [`TransferSamples`]: the transfers of workloads, one by one |
//! | `workload` | [`WorkloadMetrics`]: the metrics of a flow's application |
//! | `packet_events` | [`PacketEvents`]: packets that were dropped, marked or lost, one by one |

mod agreement;
mod delays;
mod engine_comparison;
mod histogram;
mod history;
mod meters;
mod packet_events;
mod path;
mod samples;
mod serialize;
mod states;
mod stations;
mod summary;
mod transfers;
mod workload;

pub use agreement::{Agreement, Conditions, compare, median};
pub use delays::{DELAYS_OF, DelaySamples};
pub use engine_comparison::{EngineComparison, NEAR, Standing, WIDE, compare_engines};
pub use histogram::Histogram;
pub use meters::{FlowMeter, ProbeMeter, QueueMeter};
pub use path::PathMetrics;
pub(crate) use path::{FRAME_MBIT, SUPER_MBIT, passes};
pub use samples::{
    ClassSample, ClassSamples, FlowSample, FlowSamples, PHASES, PingSample, PingSamples,
    QueueSample, QueueSamples, Samples,
};

pub use states::{MODE, MOST_CONNECTIONS, NO_CONNECTION, NO_WORD, REPORTED, StateSamples};
pub use transfers::{Empty, TransferSamples};
pub use workload::{Metric, Named, WorkloadMetrics};

pub use summary::{
    CcFairness, ClassMetrics, CountMetrics, DropMetrics, Fairness, FlowMetrics, LimitMetrics,
    LinkMetrics, NO_CC, ProbeMetrics, QueueMetrics,
};

pub use packet_events::{DROP_REASONS, PacketEvent, PacketEvents, VERDICTS};
pub use stations::{
    AggregateMetrics, LevelDelays, LevelMeter, StationMetrics, UsageMeter, level_meters,
};

use crate::units::Span;
use alloc::format;
use serde::{Serialize, Serializer};

/// Interval between samples of a metric in a run of at least a second.
pub const FIGURE_INTERVAL: Span = Span::ms(100);
/// Minimum number of samples of a metric in a shorter run.
const SHORT_SAMPLES: u64 = 100;

/// Interval between samples of a metric: [`FIGURE_INTERVAL`]. In a run of less than a second, the
/// interval is a round value of at most a hundredth of the run.
pub fn metric_interval(duration: Span) -> Span {
    if duration >= Span::s(1) {
        return FIGURE_INTERVAL;
    }
    let most = Span::ns(duration.as_ns() / SHORT_SAMPLES);
    round_intervals()
        .take_while(|step| *step <= most)
        .last()
        .unwrap_or(Span::us(1))
}

/// Round values are 1, 2 and 5 µs, and these times a power of ten.
fn round_intervals() -> impl Iterator<Item = Span> {
    (0..).flat_map(|e| [1, 2, 5].map(|n| Span::us(n * 10u64.pow(e))))
}

/// Interval between points of a series.
pub const SERIES_INTERVAL: Span = Span::s(1);

/// Interval between samples for charts: a round value that gives 300 to 750 instants. There are
/// fewer instants if the rows of all flows would exceed `most_rows`.
pub fn picture_interval(duration: Span, flows: usize, most_rows: u64) -> Span {
    let rows = duration.as_ns().saturating_mul(flows.max(1) as u64);
    let least = (duration.as_ns() / 750).max(rows / most_rows);
    round_intervals()
        .find(|step| step.as_ns() > least)
        .unwrap_or(duration)
}

/// The rank of percentile `q` (0…1) among `n` sorted values; `None` when there are none.
pub fn rank(q: f64, n: usize) -> Option<usize> {
    Some(((q * n as f64) as usize).min(n.checked_sub(1)?))
}

/// Mean and percentiles; NaN without measurements.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct Quantiles {
    /// The mean.
    #[serde(serialize_with = "six_digits")]
    pub mean: f64,
    /// The median.
    #[serde(serialize_with = "six_digits")]
    pub p50: f64,
    /// The 95th percentile.
    #[serde(serialize_with = "six_digits")]
    pub p95: f64,
    /// The 99th percentile.
    #[serde(serialize_with = "six_digits")]
    pub p99: f64,
}

impl Quantiles {
    /// Of `values` in any order.
    pub fn of(values: &mut [f64]) -> Quantiles {
        values.sort_unstable_by(f64::total_cmp);
        Quantiles::of_sorted(values.len(), |i| values[i])
    }
    /// Of `n` values in ascending order, of which `value` returns the one of an index.
    pub(crate) fn of_sorted(n: usize, value: impl Fn(usize) -> f64) -> Quantiles {
        let (mean, at) = percentiles(n, value);
        Quantiles {
            mean,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// Mean and spread of a congestion window or a backlog in packets; NaN without measurements.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The mean.
    #[serde(serialize_with = "six_digits")]
    pub mean: f64,
    /// The 5th percentile.
    #[serde(serialize_with = "six_digits")]
    pub p5: f64,
    /// The 95th percentile.
    #[serde(serialize_with = "six_digits")]
    pub p95: f64,
}

impl Spread {
    /// Of `n` values in ascending order, of which `value` returns the one of an index.
    pub(crate) fn of_sorted(n: usize, value: impl Fn(usize) -> f64) -> Spread {
        let (mean, at) = percentiles(n, value);
        Spread {
            mean,
            p5: at(0.05),
            p95: at(0.95),
        }
    }
}

/// The mean of `n` values in ascending order, and a function for their percentiles.
fn percentiles(n: usize, value: impl Fn(usize) -> f64) -> (f64, impl Fn(f64) -> f64) {
    let mean = (0..n).map(&value).sum::<f64>() / n as f64;
    (mean, move |q| rank(q, n).map_or(f64::NAN, &value))
}

/// Jain's index of `shares`: 1 if all are equal, 1/n if one flow has everything; NaN if all are
/// zero.
///
/// ```
/// use narrows_core::metrics::jain;
/// assert_eq!(jain([3.0, 3.0]), 1.0);
/// assert_eq!(jain([3.0, 0.0]), 0.5);
/// ```
pub fn jain(shares: impl IntoIterator<Item = f64>) -> f64 {
    let (n, sum, squares) = shares
        .into_iter()
        .fold((0.0, 0.0, 0.0), |(n, sum, squares), x| {
            (n + 1.0, sum + x, squares + x * x)
        });
    sum * sum / (n * squares)
}

/// A number for JSON: six significant digits, whole numbers without a fraction, `null` without a
/// value.
struct Shown(f64);

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Via text: the shortest text that reads back is then the one that is written.
        let rounded = format!("{:.5e}", self.0).parse().unwrap_or(self.0);
        if !rounded.is_finite() {
            to.serialize_none()
        } else if rounded.abs() < 1e15 && rounded == rounded as i64 as f64 {
            to.serialize_i64(rounded as i64)
        } else {
            to.serialize_f64(rounded)
        }
    }
}

fn six_digits<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
    Shown(*x).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_rank_below() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        let q = Quantiles::of(&mut values);
        assert_eq!((q.mean, q.p50, q.p95, q.p99), (2.5, 3.0, 4.0, 4.0));
        assert!(Quantiles::of(&mut []).p50.is_nan());
    }

    #[test]
    fn a_short_run_has_a_hundred_samples_of_a_metric() {
        let at = |duration| metric_interval(duration);
        assert_eq!([Span::s(1), Span::s(3600)].map(at), [FIGURE_INTERVAL; 2]);
        assert_eq!(
            [Span::ms(999), Span::ms(100)].map(at),
            [Span::ms(5), Span::ms(1)]
        );
        assert_eq!(
            [Span::ms(40), Span::us(150)].map(at),
            [Span::us(200), Span::us(1)]
        );
        assert_eq!(picture_interval(Span::s(60), 1, 1_000_000), Span::ms(100));
        assert_eq!(picture_interval(Span::ms(100), 1, 1_000_000), Span::us(200));
    }

    #[test]
    fn json_numbers_have_six_digits() {
        let q = Quantiles {
            mean: 1.0 / 3.0,
            p50: 40.0,
            p95: f64::NAN,
            p99: 1234567.8,
        };
        assert_eq!(
            serde_json::to_string(&q).unwrap(),
            r#"{"mean":0.333333,"p50":40,"p95":null,"p99":1234570}"#
        );
    }
}
