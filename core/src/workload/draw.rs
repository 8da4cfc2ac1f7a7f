//! Random gaps and sizes.
//!
//! - Exponential: `−mean · ln(1 − u)`.
//! - Bounded Pareto on `[L, H]` with shape `α`: `F(x) = (1 − (L/x)^α) / (1 − (L/H)^α)`. The mean of
//!   this distribution is `α/(α−1) · L^α/(1 − (L/H)^α) · (L^(1−α) − H^(1−α))`, for α = 1 `ln(H/L) ·
//!   L·H/(H − L)`. `L` is computed from the specified mean. The sizes of files and of transfers
//!   have heavy tails of this form, with α from 1.05 to 1.4. For transfers, α is 1.06 to 1.16
//!   (Crovella and Bestavros, "Self-similarity in World Wide Web traffic", 1997).

use crate::rng::Rng;
use crate::units::{Bytes, Span};
use alloc::vec::Vec;

/// An exponentially distributed time of this mean.
pub fn exponential(rng: &mut Rng, mean: Span) -> Span {
    let ns = -(mean.as_ns() as f64) * libm::log(1.0 - rng.unit());
    Span::ns(ns as u64)
}

/// A distribution of sizes.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Sizes {
    /// A constant.
    Fixed(f64),
    /// Exponential, of this mean.
    Exponential(f64),
    /// Bounded Pareto.
    Pareto {
        /// Minimum.
        least: f64,
        /// Maximum.
        most: f64,
        /// α.
        shape: f64,
    },
}

impl Sizes {
    /// A bounded Pareto distribution of this mean; a constant if `most` is not above the mean.
    pub fn pareto(mean: f64, most: f64, shape: f64) -> Sizes {
        if most <= mean {
            return Sizes::Fixed(mean);
        }
        // The mean grows with the minimum: halve until the interval is one of floats.
        let (mut low, mut high) = (mean * 1e-9, mean);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if pareto_mean(middle, most, shape) < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        Sizes::Pareto {
            least: high,
            most,
            shape,
        }
    }
    /// Draws a size of at least a byte.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        Bytes::new((self.weight(rng) + 0.5).max(1.0) as u64)
    }
    /// Draws a number of this distribution.
    fn weight(&self, rng: &mut Rng) -> f64 {
        match *self {
            Sizes::Fixed(x) => x,
            Sizes::Exponential(mean) => -mean * libm::log(1.0 - rng.unit()),
            Sizes::Pareto { least, most, shape } => {
                let tail = 1.0 - libm::pow(least / most, shape);
                least * libm::pow(1.0 - rng.unit() * tail, -1.0 / shape)
            }
        }
    }
    /// Draws `n` sizes of this distribution, scaled to the sum `total`; each is at least a byte.
    pub fn share(&self, rng: &mut Rng, n: usize, total: Bytes) -> Vec<Bytes> {
        let weights: Vec<f64> = (0..n).map(|_| self.weight(rng)).collect();
        let sum: f64 = weights.iter().sum();
        let spare = total.get().saturating_sub(n as u64);
        // Cut at the running sum, so that rounding errors cancel.
        let (mut so_far, mut given) = (0.0, 0);
        let cut = |weight: &f64| {
            so_far += weight;
            let until = ((spare as f64 * (so_far / sum) + 0.5) as u64).clamp(given, spare);
            let size = until - given + 1;
            given = until;
            Bytes::new(size)
        };
        weights.iter().map(cut).collect()
    }
}

/// The mean of a bounded Pareto distribution.
fn pareto_mean(least: f64, most: f64, shape: f64) -> f64 {
    if libm::fabs(shape - 1.0) < 1e-9 {
        return libm::log(most / least) * least * most / (most - least);
    }
    let ratio = libm::pow(least / most, shape);
    // L^α · L^(1−α) is L, and L^α · H^(1−α) is H · (L/H)^α.
    shape / (shape - 1.0) * (least - most * ratio) / (1.0 - ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_pareto_distribution_has_the_requested_mean() {
        for (mean, most, shape) in [
            (1e5, 1e7, 1.2),
            (1e5, 1e9, 1.0),
            (3e4, 1e6, 2.5),
            (500.0, 501.0, 1.2),
        ] {
            let Sizes::Pareto { least, .. } = Sizes::pareto(mean, most, shape) else {
                panic!("alike");
            };
            assert!(
                (pareto_mean(least, most, shape) / mean - 1.0).abs() < 1e-9,
                "{mean} {most} {shape}"
            );
        }
        let sizes = Sizes::pareto(1e4, 1e6, 1.5);
        let mut rng = Rng::named(1, "sizes");
        let n = 200_000;
        let mean = (0..n)
            .map(|_| sizes.draw(&mut rng).get() as f64)
            .sum::<f64>()
            / f64::from(n);
        assert!((mean / 1e4 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn shares_come_to_the_total_and_none_is_empty() {
        let mut rng = Rng::named(1, "shares");
        for (n, total) in [(62, 1_800_000), (1, 5), (10, 10), (7, 1_000_003)] {
            let shares = Sizes::pareto(1.0, 1000.0, 1.2).share(&mut rng, n, Bytes::new(total));
            assert_eq!(shares.iter().map(|b| b.get()).sum::<u64>(), total);
            assert!(shares.len() == n && shares.iter().all(|b| b.get() > 0));
        }
    }
}
