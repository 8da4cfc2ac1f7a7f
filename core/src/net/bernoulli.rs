//! Bernoulli trials per packet, with optional correlation: for loss, duplication, corruption and
//! reordering.
//!
//! Algorithm: `x ← (1 − correlation) · u + correlation · x` with `u` uniform in 0…1; the event
//! occurs when `x < probability`. Source: tc-netem(8), Linux 6.12 `sch_netem`. Linux keeps 32 bits
//! of `x`, this file keeps 64. As in Linux, `x` is uniform at the start.
//!
//! With correlation, the event rate generally differs from `probability`. Successive values of `x`
//! have the stated correlation, but are not uniformly distributed. With the correlation `c`, the
//! distribution of `x` concentrates around 1/2, with the variance `(1 − c) / (1 + c) / 12`. A
//! probability below 50 % therefore gives a lower event rate. At a correlation of 50 %, a
//! probability of 25 % gives an event rate of 5/72 = 6.94 %, and one of 12.5 % gives 1/288 = 0.35
//! %. These event rates are values of the Fabius function, the distribution function of `x` at a
//! correlation of 50 %. Linux 6.12 loses 6.97 % of 60 000 packets at `loss 25% 50%`. For bursts
//! with a given loss rate, use `gilbert_elliott` of [`loss`](super::loss).

use super::ElementKind;
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;

/// Returns `probability` × 2⁶⁴, with `probability` clamped to 0…1. At 1 the result is 2⁶⁴ − 1, so
/// one draw in 2⁶⁴ gives no event.
pub(super) fn of_2_64(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

/// The parameter `correlation`, which most elements share.
pub(super) const CORRELATION: Param = Param {
    name: "correlation",
    kind: Kind::Probability(0.0),
    help: "correlation of each draw with the previous one; as in netem, it reduces small \
        probabilities",
    source: "tc-netem(8), Linux 6.12 sch_netem",
};

/// The parameters of a Bernoulli trial.
pub const PARAMS: &[Param] = &[
    Param {
        name: "probability",
        kind: Kind::Probability(0.0),
        help: "probability for each packet",
        source: "tc-netem(8)",
    },
    CORRELATION,
];

/// Models of duplication; the second copy follows directly behind the first.
pub const DUPLICATE: &[ElementKind] = &[ElementKind {
    name: "independent",
    help: "duplicates each packet with a probability",
    source: "tc-netem(8), Linux 6.12 sch_netem",
    params: PARAMS,
    check: no_check,
}];

/// Models of corruption. A corrupted packet travels to the end of the path, where the checksum
/// fails.
pub const CORRUPT: &[ElementKind] = &[ElementKind {
    name: "independent",
    help: "damages packets with a probability; the receiver drops a damaged packet",
    source: "tc-netem(8), Linux 6.12 sch_netem",
    params: PARAMS,
    check: no_check,
}];

/// Random 64-bit numbers, each correlated with the one before.
#[derive(Clone, Debug)]
pub struct Correlated {
    rng: Rng,
    /// Weight of the previous draw, in units of 2⁻⁶⁴.
    weight: u64,
    last: u64,
}

impl Correlated {
    /// `correlation` is in 0…1; at 0 the numbers are those of `rng` itself.
    pub fn new(correlation: f64, mut rng: Rng) -> Correlated {
        let weight = of_2_64(correlation);
        let last = if weight > 0 { rng.next_u64() } else { 0 };
        Correlated { rng, weight, last }
    }
    /// Returns the next draw.
    pub fn next_u64(&mut self) -> u64 {
        let fresh = self.rng.next_u64();
        if self.weight == 0 {
            return fresh;
        }
        let ours = u128::from(fresh) * ((1 << 64) - u128::from(self.weight));
        self.last = ((ours + u128::from(self.last) * u128::from(self.weight)) >> 64) as u64;
        self.last
    }
}

/// A Bernoulli trial.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    /// The event occurs when a draw is below this value.
    threshold: u64,
    draws: Correlated,
}

impl Bernoulli {
    /// Returns `None` if the event never occurs.
    pub fn new(probability: f64, correlation: f64, rng: Rng) -> Option<Bernoulli> {
        (probability > 0.0).then(|| Bernoulli {
            threshold: of_2_64(probability),
            draws: Correlated::new(correlation, rng),
        })
    }
    /// Creates the trial from the values of [`PARAMS`], or of another table with these names.
    pub fn of(params: &Params, rng: Rng) -> Option<Bernoulli> {
        Bernoulli::new(
            params.number("probability"),
            params.number("correlation"),
            rng,
        )
    }
    /// Draws, and returns whether the event occurs.
    pub fn happens(&mut self) -> bool {
        self.draws.next_u64() < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of `n` draws in which the event occurs.
    fn share(probability: f64, correlation: f64, n: u32) -> f64 {
        let mut trial = Bernoulli::new(probability, correlation, Rng::named(1, "chance")).unwrap();
        (0..n).filter(|_| trial.happens()).count() as f64 / f64::from(n)
    }

    #[test]
    fn without_correlation_it_is_the_probability() {
        for p in [0.001, 0.01, 0.25, 0.999] {
            let deviation = libm::sqrt(p * (1.0 - p) / 1e6);
            let got = share(p, 0.0, 1_000_000);
            assert!(libm::fabs(got - p) < 4.0 * deviation, "{p}: {got}");
        }
        assert!(Bernoulli::new(0.0, 0.5, Rng::named(1, "chance")).is_none());
        assert_eq!(share(1.0, 0.0, 1000), 1.0);
    }

    #[test]
    fn with_half_of_it_the_shares_are_fabius() {
        // The standard deviation of a share of correlated draws is up to sqrt((1 + c) / (1 - c))
        // times that of a binomial; the bound is five of those.
        for (p, exactly) in [
            (0.5, 0.5),
            (0.25, 5.0 / 72.0),
            (0.125, 1.0 / 288.0),
            (0.75, 67.0 / 72.0),
        ] {
            let got = share(p, 0.5, 4_000_000);
            let deviation = libm::sqrt(exactly * (1.0 - exactly) / 4e6);
            assert!(
                libm::fabs(got - exactly) < 5.0 * 1.8 * deviation,
                "{p}: {got}, {exactly}"
            );
        }
    }

    #[test]
    fn draws_have_the_documented_correlation_and_variance() {
        for c in [0.0, 0.25, 0.5, 0.9] {
            let mut draws = Correlated::new(c, Rng::named(2, "chance"));
            let (mut squares, mut products, mut before) = (0.0, 0.0, 0.0);
            let n = 1_000_000;
            for _ in 0..n {
                let x = draws.next_u64() as f64 / 18_446_744_073_709_551_616.0 - 0.5;
                squares += x * x;
                products += x * before;
                before = x;
            }
            let variance = squares / f64::from(n);
            assert!(
                libm::fabs(variance * 12.0 * (1.0 + c) / (1.0 - c) - 1.0) < 0.02,
                "{c}: {variance}"
            );
            assert!(
                libm::fabs(products / squares - c) < 0.005,
                "{c}: {}",
                products / squares
            );
        }
    }
}
