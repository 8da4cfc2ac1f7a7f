//! Options of a run beside its scenario, and the progress of a run.

use crate::metrics::{MOST_CONNECTIONS, metric_interval, picture_interval};
use crate::scenario::{FlowSpec, Scenario};
use crate::units::{Span, Time, format_span};
use core::fmt;

/// The maximum number of rows that a run may sample; they take about 300 MB of memory.
pub const MOST_ROWS: u64 = 5_000_000;

/// The estimated number of rows for the internal state of one flow at one time; the longest states
/// have about as many.
const STATE_ROWS: usize = 10;

/// Options of a run beside its scenario.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Options {
    /// Interval between samples; `None` takes no samples. Metrics do not depend on it.
    pub sample_interval: Option<Span>,
    /// The number of dropped, marked and lost packets that are reported individually; the others
    /// are counted.
    pub verdicts: usize,
    /// Whether samples include the internal state of congestion controls.
    pub states: bool,
    /// The largest number of threads of one run. Results do not depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sample_interval: Some(Span::ms(100)),
            verdicts: 0,
            states: false,
            threads: 1,
        }
    }
}

impl Options {
    /// Returns the options for tables: a row for each sample of a metric.
    pub fn usual(scenario: &Scenario) -> Options {
        Options {
            sample_interval: Some(metric_interval(scenario.duration)),
            ..Options::default()
        }
    }
    /// Returns the options for plots: 300 to 750 sample times at round intervals, fewer if a run
    /// has thousands of flows.
    pub fn pictures(scenario: &Scenario) -> Options {
        let interval = picture_interval(scenario.duration, scenario.flows.len(), MOST_ROWS);
        Options {
            sample_interval: Some(interval),
            ..Options::default()
        }
    }
    /// Raises the sample interval to at least `least`, for engines that cannot sample faster.
    pub fn at_least(self, least: Span) -> Options {
        Options {
            sample_interval: self.sample_interval.map(|interval| interval.max(least)),
            ..self
        }
    }
}

/// The progress of a run.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Progress {
    /// Current time of the run.
    pub now: Time,
    /// End of the run.
    pub end: Time,
    /// Events so far; 0 from an engine that does not count them.
    pub events: u64,
}

/// Error: an interval of a scenario or its options is too short for the run.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct TooShort {
    /// The kind of interval: `"samples"` or `"pings"`.
    pub of: &'static str,
    /// The interval.
    pub interval: Span,
    /// The shortest interval that is possible.
    pub at_least: Span,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, interval, least) = (
            self.of,
            format_span(self.interval),
            format_span(self.at_least),
        );
        write!(
            f,
            "an interval of \"{interval}\" between {of} is too short for this run; \"{least}\" fits"
        )
    }
}

/// Rejects intervals of samples and pings that give more rows than [`MOST_ROWS`], or that are
/// shorter than the minimum intervals of the engine, `least_samples` and `least_pings`.
pub fn check_rows(
    scenario: &Scenario,
    options: &Options,
    least_samples: Span,
    least_pings: Span,
) -> Result<(), TooShort> {
    let check = |of, interval: Span, per_instant: usize, least: Span| {
        let row_ns = scenario
            .duration
            .as_ns()
            .saturating_mul(per_instant.max(1) as u64);
        let at_least = Span::us(row_ns.div_ceil(MOST_ROWS).div_ceil(1000)).max(least);
        if interval < at_least {
            Err(TooShort {
                of,
                interval,
                at_least,
            })
        } else {
            Ok(())
        }
    };
    if let Some(interval) = options.sample_interval {
        let columns = if options.states { STATE_ROWS } else { 1 };
        let senders = |flow: &FlowSpec| match flow.workload {
            Some(_) if options.states => MOST_CONNECTIONS,
            _ => 1,
        };
        let senders: usize = scenario.flows.iter().map(senders).sum();
        let rows = senders.saturating_mul(columns);
        check("samples", interval, rows, least_samples)?;
    }
    let probes = &scenario.probes;
    probes
        .iter()
        .try_for_each(|probe| check("pings", probe.interval, probes.len(), least_pings))
}
