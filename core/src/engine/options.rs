//! How a scenario is run, beside what it says, and how far a run is.

use crate::figures::{figure_interval, picture_interval};
use crate::scenario::Scenario;
use crate::units::{Span, Time, format_span};
use core::fmt;

/// The most rows that a run may sample: some 300 MB.
pub const MOST_ROWS: u64 = 5_000_000;

/// How a scenario is run, beside what it says.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Options {
    /// From one sample to the next; `None` samples nothing. Figures do not depend on it.
    pub sample_interval: Option<Span>,
    /// The number of dropped, marked and lost packets that are reported one by one; the rest is
    /// counted.
    pub verdicts: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sample_interval: Some(Span::ms(100)),
            verdicts: 0,
        }
    }
}

impl Options {
    /// A row for each sample of a figure, as tables have them unless another interval is given.
    pub fn usual(scenario: &Scenario) -> Options {
        Options {
            sample_interval: Some(figure_interval(scenario.duration)),
            ..Options::default()
        }
    }
    /// Rows for pictures: 300 to 750 instants, at round intervals, fewer where a run has thousands
    /// of flows.
    pub fn pictures(scenario: &Scenario) -> Options {
        let interval = picture_interval(scenario.duration, scenario.flows.len(), MOST_ROWS);
        Options {
            sample_interval: Some(interval),
            ..Options::default()
        }
    }
    /// An engine samples at this interval or longer ones.
    pub fn at_least(self, least: Span) -> Options {
        Options {
            sample_interval: self.sample_interval.map(|interval| interval.max(least)),
            ..self
        }
    }
}

/// How far a run is.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Progress {
    /// The run's own time.
    pub now: Time,
    /// Its end.
    pub end: Time,
    /// Events so far; 0 from an engine that does not count them.
    pub events: u64,
}

/// An interval that a scenario or its options have and that is too short for the run.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct TooShort {
    /// Of what: `"samples"` or `"pings"`.
    pub of: &'static str,
    /// The interval.
    pub interval: Span,
    /// The least one that fits.
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

/// Refuses intervals of samples and pings whose rows would be more than [`MOST_ROWS`], or that are
/// shorter than what the engine can do.
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
        check("samples", interval, scenario.flows.len(), least_samples)?;
    }
    let probes = &scenario.probes;
    probes
        .iter()
        .try_for_each(|probe| check("pings", probe.interval, probes.len(), least_pings))
}
