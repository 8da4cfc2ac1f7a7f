//! Metrics of a workload: named values of a few forms. Each kind of workload defines its own
//! metrics, and all reports show them in the same way. A name ends in its unit, if it has one.

use super::{Histogram, Quantiles, Shown};
use alloc::string::String;
use alloc::vec::Vec;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One metric.
#[derive(Clone, PartialEq, Debug)]
pub enum Metric {
    /// A count.
    Count(u64),
    /// A number; NaN without measurements.
    Number(f64),
    /// Mean and percentiles.
    Quantiles(Quantiles),
    /// Metrics of several classes, by the name of the class.
    Rows(Vec<(String, Named)>),
}

/// Metrics by name, in the order of display.
pub type Named = Vec<(&'static str, Metric)>;

/// The metrics of a workload.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadMetrics {
    /// The kind of workload.
    pub kind: &'static str,
    /// The metrics of the workload.
    pub metrics: Named,
    /// Distribution of its users' waiting times (pages, responses, transfers, datagrams):
    /// milliseconds, and the share of at most that. The distribution is for charts and not among
    /// the metrics.
    pub delays: Vec<(f64, f64)>,
    /// The transfers of the workload, if it has any: time of the SYN in seconds, bytes, completion
    /// time in seconds or NaN. The transfers are for a table and not among the metrics.
    pub transfers: Vec<(f64, u64, f64)>,
}

impl WorkloadMetrics {
    /// For the workload `kind`.
    pub fn new(kind: &'static str, metrics: Named) -> WorkloadMetrics {
        WorkloadMetrics {
            kind,
            metrics,
            delays: Vec::new(),
            transfers: Vec::new(),
        }
    }
    /// Adds this distribution.
    pub fn with_delays(mut self, delays: &Histogram) -> WorkloadMetrics {
        let all = delays.count() as f64;
        let points = delays.cumulative().into_iter();
        self.delays = points
            .map(|(delay, upto)| (delay.as_ms(), upto as f64 / all))
            .collect();
        self
    }
    /// Adds the distribution of these times, in seconds.
    pub fn with_times(mut self, mut times: Vec<f64>) -> WorkloadMetrics {
        times.sort_unstable_by(f64::total_cmp);
        let all = times.len() as f64;
        let points = (1u32..).zip(times);
        self.delays = points
            .map(|(upto, time)| (1000.0 * time, f64::from(upto) / all))
            .collect();
        self
    }
    /// The metric called `name`.
    pub fn get(&self, name: &str) -> Option<&Metric> {
        self.metrics
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, metric)| metric)
    }
    /// The number or count called `name`; NaN if there is none.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Metric::Count(n)) => *n as f64,
            Some(Metric::Number(x)) => *x,
            _ => f64::NAN,
        }
    }
    /// The quantiles called `name`.
    pub fn quantiles(&self, name: &str) -> Option<&Quantiles> {
        match self.get(name) {
            Some(Metric::Quantiles(q)) => Some(q),
            _ => None,
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Metric::Count(n) => to.serialize_u64(*n),
            Metric::Number(x) => Shown(*x).serialize(to),
            Metric::Quantiles(q) => q.serialize(to),
            Metric::Rows(rows) => {
                let mut map = to.serialize_map(Some(rows.len()))?;
                for (name, row) in rows {
                    map.serialize_entry(name, &Row(row))?;
                }
                map.end()
            }
        }
    }
}

struct Row<'a>(&'a Named);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, metric)| (name, metric)))
    }
}

impl Serialize for WorkloadMetrics {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.metrics.len() + 1))?;
        map.serialize_entry("kind", self.kind)?;
        for (name, metric) in &self.metrics {
            map.serialize_entry(name, metric)?;
        }
        map.end()
    }
}
