//! A histogram of times with the buckets of HdrHistogram, whose memory does not grow with the
//! number of values.
//!
//! Source: the description of counts of the HdrHistogram project. Values have three significant
//! digits. The range of each bucket is twice that of the previous one, and is divided into 2048
//! places. All buckets except the first use only the upper half of these places. A place stands for
//! values with the same leading 11 bits, which is a resolution of 0.1 %. Mean, minimum and maximum
//! are exact. The unit is one nanosecond; in the places, values above an hour count as an hour.
//! docs/dependencies.md compares it with the crate `hdrhistogram`.
//!
//! **Sample size.** A percentile is reported only if at least [`BEYOND`] answers lie beyond it: p99
//! from 1000 answers, p99.999 from a million. With fewer answers it would depend on single ones;
//! the maximum shows these.

use serde_json::{Value, json};

/// Number of places of a bucket above the first.
const HALF: u64 = 1024;
const HALF_BITS: u32 = 10;
/// An hour, ns.
pub const HIGHEST: u64 = 3_600_000_000_000;
/// Smallest number of values that must lie beyond a percentile to report it.
pub const BEYOND: u64 = 10;
/// The percentiles of a summary: name, and the reciprocal of the share of values beyond.
pub const PERCENTILES: [(&str, u64); 6] = [
    ("p50", 2),
    ("p90", 10),
    ("p99", 100),
    ("p99_9", 1000),
    ("p99_99", 10_000),
    ("p99_999", 100_000),
];

/// A histogram of times in ns.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

fn place(ns: u64) -> usize {
    let bucket = (u64::BITS - ns.leading_zeros()).saturating_sub(HALF_BITS + 1);
    (u64::from(bucket) * HALF + (ns >> bucket)) as usize
}

/// The smallest value of a place, and the number of integer values for which the place stands.
fn span(place: usize) -> (u64, u64) {
    let place = place as u64;
    let bucket = (place / HALF).saturating_sub(1);
    ((place - bucket * HALF) << bucket, 1 << bucket)
}

impl Histogram {
    /// Adds a value.
    pub fn record(&mut self, ns: u64) {
        let at = place(ns.min(HIGHEST));
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.least = if self.count == 0 {
            ns
        } else {
            self.least.min(ns)
        };
        self.most = self.most.max(ns);
        self.count += 1;
        self.sum += u128::from(ns);
    }
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Minimum and maximum, ns.
    pub fn extremes(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.least, self.most))
    }
    /// The mean, ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
    /// The percentile beyond which one in `beyond` values lies, ns, regardless of the sample size;
    /// `None` without values.
    pub fn below(&self, beyond: u64) -> Option<u64> {
        let rank = self.count - self.count / beyond.max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                let (from, width) = span(at);
                return Some((from + width / 2).clamp(self.least, self.most));
            }
        }
        None
    }
    /// The same percentile; `None` if fewer than [`BEYOND`] values lie beyond it.
    pub fn percentile(&self, beyond: u64) -> Option<u64> {
        (self.count / beyond >= BEYOND)
            .then(|| self.below(beyond))
            .flatten()
    }
    /// The same values plus `by` ns. Minimum, maximum and mean remain exact.
    pub fn raised(&self, by: u64) -> Histogram {
        let mut raised = Histogram {
            count: self.count,
            sum: self.sum + u128::from(by) * u128::from(self.count),
            least: self.least.saturating_add(by),
            most: self.most.saturating_add(by),
            ..Histogram::default()
        };
        raised.place_all(self, |middle| middle.saturating_add(by));
        raised
    }
    /// The differences of `from` ns, which is at least the maximum, and the same values. Minimum,
    /// maximum and mean remain exact.
    pub fn mirrored(&self, from: u64) -> Histogram {
        let mut mirrored = Histogram {
            count: self.count,
            sum: (u128::from(from) * u128::from(self.count)).saturating_sub(self.sum),
            least: from.saturating_sub(self.most),
            most: from.saturating_sub(self.least),
            ..Histogram::default()
        };
        mirrored.place_all(self, |middle| from.saturating_sub(middle));
        mirrored
    }
    fn place_all(&mut self, of: &Histogram, moved: impl Fn(u64) -> u64) {
        for (at, count) in of.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let (from, width) = span(at);
            let at = place(moved(from + width / 2).min(HIGHEST));
            if at >= self.counts.len() {
                self.counts.resize(at + 1, 0);
            }
            self.counts[at] += count;
        }
    }
    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (to, from) in self.counts.iter_mut().zip(&other.counts) {
            *to += from;
        }
        self.least = if self.count == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum += other.sum;
    }
    /// The places that are not empty: the smallest value of each, ns, and its count.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let places = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        places.map(|(at, count)| (span(at).0, *count))
    }
    /// Count, minimum, mean, maximum and percentiles as JSON, µs. Percentiles are null if the
    /// sample is too small.
    pub fn metrics(&self) -> Value {
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1000.0);
        let mut told = json!({
            "n": self.count,
            "min": us(self.extremes().map(|e| e.0)),
            "mean": self.mean().map(|ns| (ns.round()) / 1000.0),
            "max": us(self.extremes().map(|e| e.1)),
        });
        for (name, beyond) in PERCENTILES {
            told[name] = json!(us(self.percentile(beyond)));
        }
        told
    }
    /// The metrics and all places, for plots and for HdrHistogram's log format.
    pub fn to_json(&self) -> Value {
        let mut told = self.metrics();
        told["histogram_ns"] = self
            .places()
            .map(|(from, count)| json!([from, count]))
            .collect();
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percentile_is_told_only_if_its_sample_carries_it() {
        let mut all = Histogram::default();
        for ns in 1..1000 {
            all.record(ns);
        }
        assert_eq!(all.percentile(100), None);
        assert_eq!(all.percentile(10), Some(900));
        assert!(all.metrics()["p99"].is_null());
        all.record(1000);
        assert_eq!(all.percentile(100), Some(990));
        assert_eq!(all.metrics()["p99"], 0.99);
        assert_eq!(all.mean(), Some(500.5));
        assert_eq!(all.extremes(), Some((1, 1000)));
    }

    #[test]
    fn an_hour_is_the_most_that_is_told_apart() {
        let mut all = Histogram::default();
        all.record(u64::MAX);
        all.record(HIGHEST);
        assert_eq!(all.places().count(), 1);
        assert!(all.counts.len() < 40_000);
    }

    proptest! {
        #[test]
        fn a_place_is_within_a_thousandth(ns in 0_u64..HIGHEST) {
            let (from, width) = span(place(ns));
            prop_assert!(from <= ns && ns < from + width);
            prop_assert!(width == 1 || from / width >= HALF);
        }

        #[test]
        fn two_halves_are_the_whole(a in proptest::collection::vec(0_u64..1_000_000, 0..50),
            b in proptest::collection::vec(0_u64..1_000_000, 0..50)) {
            let (mut left, mut right, mut whole) = (Histogram::default(), Histogram::default(),
                Histogram::default());
            a.iter().for_each(|ns| left.record(*ns));
            b.iter().for_each(|ns| right.record(*ns));
            a.iter().chain(&b).for_each(|ns| whole.record(*ns));
            left.merge(&right);
            prop_assert_eq!(left.to_json(), whole.to_json());
        }
    }
}
