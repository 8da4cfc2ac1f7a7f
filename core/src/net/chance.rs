//! A thing that happens to each packet with a probability: loss, a second copy, damage, lateness.
//!
//! Law: `x ← (1 − correlation) · u + correlation · x` with `u` uniform in 0…1; it happens when `x <
//! probability`. Source: tc-netem(8), Linux 6.12 `sch_netem`, which keeps 32 bits of `x` where we
//! keep 64; `x` starts uniform, as there.
//!
//! What that gives is not what its words promise. The correlation of two successive `x` is
//! `correlation`, but their distribution is no longer uniform: they crowd around 1/2, with the
//! variance `(1 − c) / (1 + c) / 12`. So a probability below 50 % happens more seldom than it says:
//! 25 % with a correlation of 50 % is 5/72 = 6.94 %, 12.5 % is 1/288 = 0.35 % (values of the Fabius
//! function, which is that distribution's at 50 %); Linux 6.12 loses 6.97 % of 60 000 packets at
//! `loss 25% 50%`. Who wants bursts of a known share takes `gilbert_elliott` of
//! [`loss`](super::loss).

use super::ElementKind;
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;

/// `probability` of 2⁶⁴, clamped to 0…1. At 1 the cast saturates: once in 2⁶⁴ it does not happen.
pub(super) fn of_2_64(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

/// The row that most elements have.
pub(super) const CORRELATION: Param = Param {
    name: "correlation",
    kind: Kind::Probability(0.0),
    help: "of each draw with the one before; netem's law, under which small probabilities shrink",
    source: "tc-netem(8), Linux 6.12 sch_netem",
};

/// Their parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "probability",
        kind: Kind::Probability(0.0),
        help: "of each packet",
        source: "tc-netem(8)",
    },
    CORRELATION,
];

/// How packets come to be there twice, the second copy right behind the first.
pub const DUPLICATE: &[ElementKind] = &[ElementKind {
    name: "independent",
    help: "a packet is there twice with a probability",
    source: "tc-netem(8), Linux 6.12 sch_netem",
    params: PARAMS,
    check: no_check,
}];

/// How packets come to be damaged: they use the path to its end, where the checksum finds them out.
pub const CORRUPT: &[ElementKind] = &[ElementKind {
    name: "independent",
    help: "a packet is damaged with a probability and thrown away by its receiver",
    source: "tc-netem(8), Linux 6.12 sch_netem",
    params: PARAMS,
    check: no_check,
}];

/// Random 64 bits, each correlated with the one before.
#[derive(Clone, Debug)]
pub struct Correlated {
    rng: Rng,
    /// Of the last draw, of 2⁶⁴.
    weight: u64,
    last: u64,
}

impl Correlated {
    /// With `correlation` in 0…1; at 0 these are the numbers of `rng` itself.
    pub fn new(correlation: f64, mut rng: Rng) -> Correlated {
        let weight = of_2_64(correlation);
        let last = if weight > 0 { rng.next_u64() } else { 0 };
        Correlated { rng, weight, last }
    }
    /// The next draw.
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

/// Something that happens now and then.
#[derive(Clone, Debug)]
pub struct Chance {
    /// It happens when a draw is below.
    threshold: u64,
    draws: Correlated,
}

impl Chance {
    /// `None` for what never happens.
    pub fn new(probability: f64, correlation: f64, rng: Rng) -> Option<Chance> {
        (probability > 0.0).then(|| Chance {
            threshold: of_2_64(probability),
            draws: Correlated::new(correlation, rng),
        })
    }
    /// With the values of [`PARAMS`] or of a table that has these names.
    pub fn of(params: &Params, rng: Rng) -> Option<Chance> {
        Chance::new(
            params.number("probability"),
            params.number("correlation"),
            rng,
        )
    }
    /// Does it happen this time?
    pub fn happens(&mut self) -> bool {
        self.draws.next_u64() < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of `n` draws that happen.
    fn share(probability: f64, correlation: f64, n: u32) -> f64 {
        let mut chance = Chance::new(probability, correlation, Rng::named(1, "chance")).unwrap();
        (0..n).filter(|_| chance.happens()).count() as f64 / f64::from(n)
    }

    #[test]
    fn without_correlation_it_is_the_probability() {
        for p in [0.001, 0.01, 0.25, 0.999] {
            let deviation = libm::sqrt(p * (1.0 - p) / 1e6);
            let got = share(p, 0.0, 1_000_000);
            assert!(libm::fabs(got - p) < 4.0 * deviation, "{p}: {got}");
        }
        assert!(Chance::new(0.0, 0.5, Rng::named(1, "chance")).is_none());
        assert_eq!(share(1.0, 0.0, 1000), 1.0);
    }

    #[test]
    fn with_half_of_it_the_shares_are_fabius() {
        // A share of correlated draws varies by up to sqrt((1 + c) / (1 - c)) times a binomial's
        // deviation; five of those.
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
    fn draws_have_the_correlation_and_the_variance_that_the_header_says() {
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
