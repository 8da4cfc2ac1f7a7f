//! Figures of a workload: named values of a few forms. A kind defines its own, and all reports show
//! them in the same way. A name ends in its unit, if it has one.

use super::{Histogram, Quantiles, Shown};
use alloc::string::String;
use alloc::vec::Vec;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One figure.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// A count.
    Count(u64),
    /// A number; NaN without measurements.
    Number(f64),
    /// Mean and percentiles.
    Quantiles(Quantiles),
    /// Figures of each class of something, by its name.
    Rows(Vec<(String, Named)>),
}

/// Figures by name, in the order of display.
pub type Named = Vec<(&'static str, Figure)>;

/// The figures of a workload.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadFigures {
    /// The kind of workload.
    pub kind: &'static str,
    /// Its figures.
    pub figures: Named,
    /// Distribution of its users' waiting times (pages, responses, transfers, datagrams):
    /// milliseconds, and the share of at most that. It is for pictures and not among the figures.
    pub delays: Vec<(f64, f64)>,
    /// Its transfers, if it has any: time of the SYN in seconds, bytes, completion time in seconds
    /// or NaN. They are for a table and not among the figures.
    pub transfers: Vec<(f64, u64, f64)>,
}

impl WorkloadFigures {
    /// For the workload `kind`.
    pub fn new(kind: &'static str, figures: Named) -> WorkloadFigures {
        WorkloadFigures {
            kind,
            figures,
            delays: Vec::new(),
            transfers: Vec::new(),
        }
    }
    /// Adds this distribution.
    pub fn with_delays(mut self, delays: &Histogram) -> WorkloadFigures {
        let all = delays.count() as f64;
        let points = delays.cumulative().into_iter();
        self.delays = points
            .map(|(delay, upto)| (delay.as_ms(), upto as f64 / all))
            .collect();
        self
    }
    /// Adds the distribution of these times, in seconds.
    pub fn with_times(mut self, mut times: Vec<f64>) -> WorkloadFigures {
        times.sort_unstable_by(f64::total_cmp);
        let all = times.len() as f64;
        let points = (1u32..).zip(times);
        self.delays = points
            .map(|(upto, time)| (1000.0 * time, f64::from(upto) / all))
            .collect();
        self
    }
    /// The figure called `name`.
    pub fn get(&self, name: &str) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, figure)| figure)
    }
    /// The number or count called `name`; NaN if there is none.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Figure::Count(n)) => *n as f64,
            Some(Figure::Number(x)) => *x,
            _ => f64::NAN,
        }
    }
    /// The quantiles called `name`.
    pub fn quantiles(&self, name: &str) -> Option<&Quantiles> {
        match self.get(name) {
            Some(Figure::Quantiles(q)) => Some(q),
            _ => None,
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Figure::Count(n) => to.serialize_u64(*n),
            Figure::Number(x) => Shown(*x).serialize(to),
            Figure::Quantiles(q) => q.serialize(to),
            Figure::Rows(rows) => {
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
        to.collect_map(self.0.iter().map(|(name, figure)| (name, figure)))
    }
}

impl Serialize for WorkloadFigures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.figures.len() + 1))?;
        map.serialize_entry("kind", self.kind)?;
        for (name, figure) in &self.figures {
            map.serialize_entry(name, figure)?;
        }
        map.end()
    }
}
