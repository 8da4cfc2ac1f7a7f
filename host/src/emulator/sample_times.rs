//! The times at which the drivers of flows take samples: for the metrics, and for rows of the table
//! of samples.

use crate::emulator::preflight::metric_interval;
use narrows_core::metrics::SERIES_INTERVAL;
use narrows_core::units::{Span, Time};

/// Which samples are due.
#[derive(Copy, Clone, Default, PartialEq, Debug)]
pub struct Due {
    /// A sample for the metrics of the summary.
    pub metrics: bool,
    /// A point of the series of the summary.
    pub point: bool,
    /// A row of the table of samples.
    pub rows: bool,
}

/// The times of the next samples, none of them after the end of the run.
pub struct SampleTimes {
    end: Time,
    interval: Span,
    row_interval: Option<Span>,
    metrics: Time,
    rows: Time,
}

impl SampleTimes {
    /// The times of samples until `end`. `row_interval`: interval of the rows of the table of
    /// samples, if one is recorded.
    pub fn new(end: Time, row_interval: Option<Span>) -> SampleTimes {
        let interval = metric_interval(end);
        let first = |interval| following(Time::ZERO, interval, Time::ZERO, end);
        SampleTimes {
            end,
            interval,
            row_interval,
            metrics: first(interval),
            rows: row_interval.map_or(Time::MAX, first),
        }
    }
    /// Returns the next time of a sample; `Time::MAX` if there is none.
    pub fn next(&self) -> Time {
        self.metrics.min(self.rows)
    }
    /// Returns which samples are due, and determines the times of the next ones; `None` if none is
    /// due.
    pub fn take(&mut self, now: Time) -> Option<Due> {
        if now < self.next() {
            return None;
        }
        let metrics = now >= self.metrics;
        let due = Due {
            metrics,
            point: metrics && self.metrics.as_ns() % SERIES_INTERVAL.as_ns() == 0,
            rows: now >= self.rows,
        };
        self.metrics = following(self.metrics, self.interval, now, self.end);
        if let Some(interval) = self.row_interval {
            self.rows = following(self.rows, interval, now, self.end);
        }
        Some(due)
    }
}

/// The first time later than `now` that is a multiple of `interval` after `at`; `Time::MAX` if it
/// lies after `end`.
fn following(at: Time, interval: Span, now: Time, end: Time) -> Time {
    let mut next = at;
    while next <= now && next <= end {
        next += interval;
    }
    if next <= end { next } else { Time::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_end_with_the_run() {
        let end = Time::ZERO + Span::s(10);
        let interval = metric_interval(end);
        let of = |n: u64| Span::ns(n * interval.as_ns());
        let mut times = SampleTimes::new(end, Some(of(40)));
        assert_eq!(times.next(), Time::ZERO + interval);
        assert_eq!(times.take(Time::ZERO), None);
        let metrics = Due {
            metrics: true,
            ..Due::default()
        };
        assert_eq!(times.take(Time::ZERO + interval), Some(metrics));
        // Called late: times that have passed are skipped.
        let both = Due {
            rows: true,
            ..metrics
        };
        assert_eq!(times.take(Time::ZERO + of(41)), Some(both));
        assert_eq!(times.next(), Time::ZERO + of(42));
        // A driver that waits longer than the run does not wake up for samples.
        assert!(times.take(end).is_some());
        assert_eq!(times.next(), Time::MAX);
        assert_eq!(times.take(end + Span::s(5)), None);
    }
}
