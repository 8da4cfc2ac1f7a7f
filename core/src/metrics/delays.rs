//! Distributions of delays: points of the cumulative distribution, for charts.
//!
//! A row contains a delay and the share of packets with at most this delay. The delays of a queue
//! are those of its [`Histogram`], so the percentiles that the metrics report are points of the
//! curve. The delays of a probe are its exact round-trip times. The delays of a workload, by flow,
//! are the waiting times of its users (`WorkloadMetrics::delays`).

use super::{FlowMetrics, Histogram};
use crate::units::Span;
use alloc::vec::Vec;

/// Subjects of a row; [`DelaySamples::of`] has indices into this.
pub const DELAYS_OF: &[&str] = &["queue", "probe", "workload"];

/// Maximum number of points of a probe's distribution; between two of them is a thousandth of its
/// pings.
const MOST_POINTS: usize = 1000;

/// Columns of delays.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DelaySamples {
    /// Index into [`DELAYS_OF`].
    pub of: Vec<u8>,
    /// The index of the series, counted from 0.
    pub number: Vec<u32>,
    /// Milliseconds.
    pub delay_ms: Vec<f64>,
    /// The share of packets with at most that delay.
    pub share: Vec<f64>,
}

impl DelaySamples {
    fn push(&mut self, of: u8, number: u32, delay_ms: f64, share: f64) {
        self.of.push(of);
        self.number.push(number);
        self.delay_ms.push(delay_ms);
        self.share.push(share);
    }
    /// Appends the delays of the packets that left queue `number`.
    pub fn push_queue(&mut self, number: u32, delays: &Histogram) {
        for (delay, upto) in delays.cumulative() {
            self.push(
                0,
                number,
                delay.as_ms(),
                upto as f64 / delays.count() as f64,
            );
        }
    }
    /// Appends the waiting times of the applications of these flows.
    pub fn push_workloads(&mut self, flows: &[FlowMetrics]) {
        for (number, flow) in (0..).zip(flows) {
            let delays = flow.workload.iter().flat_map(|work| &work.delays);
            delays.for_each(|(delay_ms, share)| self.push(2, number, *delay_ms, *share));
        }
    }
    /// Appends the round-trip times of probe `number`, in any order.
    pub fn push_probe(&mut self, number: u32, mut rtts: Vec<Span>) {
        rtts.sort_unstable();
        let (n, points) = (rtts.len(), rtts.len().min(MOST_POINTS));
        for point in 1..=points {
            let upto = (point * n).div_ceil(points);
            self.push(1, number, rtts[upto - 1].as_ms(), upto as f64 / n as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_curve_passes_through_its_percentiles() {
        let mut delays = Histogram::new();
        (1..=1000).for_each(|ms| delays.record(Span::ms(ms)));
        let mut rows = DelaySamples::default();
        rows.push_queue(0, &delays);
        for (q, told) in [
            (0.5, delays.quantiles().p50),
            (0.99, delays.quantiles().p99),
        ] {
            let at = rows.share.iter().position(|share| *share > q).unwrap();
            assert_eq!(rows.delay_ms[at], told);
        }
        assert_eq!(rows.share.last(), Some(&1.0));
    }

    #[test]
    fn few_pings_are_reported_in_full_and_many_are_thinned() {
        let mut rows = DelaySamples::default();
        rows.push_probe(2, alloc::vec![Span::ms(3), Span::ms(1)]);
        assert_eq!(
            (rows.delay_ms, rows.share),
            (alloc::vec![1.0, 3.0], alloc::vec![0.5, 1.0])
        );
        let mut rows = DelaySamples::default();
        rows.push_probe(0, (0..12_345).map(Span::us).collect());
        assert_eq!(
            (rows.share.len(), rows.share.last()),
            (MOST_POINTS, Some(&1.0))
        );
        assert_eq!(rows.delay_ms.last(), Some(&12.344));
    }
}
