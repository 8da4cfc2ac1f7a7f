//! A histogram for millions of delays in a few kilobytes.

use super::Quantiles;
use crate::units::Span;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Buckets per octave: a bucket is 1/128 of its octave wide, so its middle differs by at most 0.4 %
/// from its values.
const PER_OCTAVE: usize = 128;

/// A log-linear histogram of spans. The mean and the extremes are exact, percentiles are within 0.4
/// % (exact below 256 ns). The histogram takes a kilobyte of memory per octave with values.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    octaves: Vec<Option<Box<[u64; PER_OCTAVE]>>>,
    count: u64,
    sum_ns: u128,
    least: u64,
    most: u64,
}

/// Octave and bucket of a value. The first octave is 0…127 ns and the second 128…255 ns, both with
/// buckets of 1 ns. Each further octave (256…511 ns …) doubles the width of the buckets.
fn place(ns: u64) -> (usize, usize) {
    let octave = (64 - ns.leading_zeros()).saturating_sub(7) as usize;
    let bucket = ns >> octave.saturating_sub(1);
    (octave, bucket as usize % PER_OCTAVE)
}

/// The middle of a bucket.
fn middle(octave: usize, bucket: usize) -> u64 {
    let Some(shift) = octave.checked_sub(1) else {
        return bucket as u64;
    };
    (((PER_OCTAVE + bucket) as u64) << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        Histogram::default()
    }
    /// Counts `span`.
    #[inline(always)]
    pub fn record(&mut self, span: Span) {
        let ns = span.as_ns();
        let (octave, bucket) = place(ns);
        match self.octaves.get_mut(octave) {
            Some(Some(buckets)) => buckets[bucket] += 1,
            _ => self.octave(octave)[bucket] += 1,
        }
        self.least = if self.count == 0 {
            ns
        } else {
            self.least.min(ns)
        };
        self.most = self.most.max(ns);
        self.count += 1;
        self.sum_ns += u128::from(ns);
    }
    #[cold]
    fn octave(&mut self, octave: usize) -> &mut [u64; PER_OCTAVE] {
        if octave >= self.octaves.len() {
            self.octaves.resize(octave + 1, None);
        }
        self.octaves[octave].get_or_insert_with(|| Box::new([0; PER_OCTAVE]))
    }
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        for (octave, theirs) in other.octaves.iter().enumerate() {
            if let Some(theirs) = theirs {
                for (mine, n) in self.octave(octave).iter_mut().zip(theirs.iter()) {
                    *mine += n;
                }
            }
        }
        self.least = if self.count == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }
    /// The value of rank `min(n − 1, ⌊q·n⌋)`; `None` without values.
    pub fn percentile(&self, q: f64) -> Option<Span> {
        let rank = super::rank(q, self.count as usize)? as u64;
        let mut below = 0;
        for (octave, buckets) in self.octaves.iter().enumerate() {
            for (bucket, n) in buckets.iter().flat_map(|b| b.iter()).enumerate() {
                below += n;
                if below > rank {
                    return Some(Span::ns(
                        middle(octave, bucket).clamp(self.least, self.most),
                    ));
                }
            }
        }
        None
    }
    /// The middle of every bucket with values, as [`percentile`](Self::percentile) returns it, with
    /// the number of values up to this bucket.
    pub fn cumulative(&self) -> Vec<(Span, u64)> {
        let mut upto = 0;
        let mut points = Vec::new();
        for (octave, buckets) in self.octaves.iter().enumerate() {
            for (bucket, n) in buckets
                .iter()
                .flat_map(|b| b.iter())
                .enumerate()
                .filter(|(_, n)| **n > 0)
            {
                upto += n;
                points.push((
                    Span::ns(middle(octave, bucket).clamp(self.least, self.most)),
                    upto,
                ));
            }
        }
        points
    }
    /// The exact mean in milliseconds; NaN without values.
    pub fn mean_ms(&self) -> f64 {
        self.sum_ns as f64 / self.count as f64 / 1e6
    }
    /// Mean and percentiles for reports, in milliseconds.
    pub fn quantiles(&self) -> Quantiles {
        let at = |q| self.percentile(q).map_or(f64::NAN, Span::as_ms);
        Quantiles {
            mean: self.mean_ms(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}
