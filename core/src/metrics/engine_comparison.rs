//! Comparison of two engines by their runs.
//!
//! Each engine's value of a metric is the median of its runs, which differ in random choices only.
//! One of the two engines is the reference. Two values decide about a metric: the reference's
//! median, and a tolerated difference. The tolerated difference is the one that
//! [`compare`](super::compare) always tolerates:
//!
//! | metric | tolerated difference |
//! |---|---|
//! | `goodput_mbit` | 0.2 % of the rate, 1 % with several flows; at most half of the reference's median |
//! | `retransmit_pct` | 0.1 points |
//! | `jain` | 0.05 |
//! | `cwnd_mean`; `cwnd_p5`, `cwnd_p95` | 2 packets; 3 packets |
//! | `srtt_ms`, `ping_p50_ms` | the greater of 2 % of the base RTT and 1 ms |
//! | `ping_p95_ms` | the greater of 2 % of the base RTT and 1.5 ms |
//!
//! Each metric has one of three results. They are tested in this order:
//!
//! 1. **undecided**: the spread of the reference's runs (largest minus least) exceeds both 15 % of
//!    their median and the tolerated difference. A metric is also undecided if there is no run of
//!    the reference, or their median is not finite.
//! 2. **agreed**: the two medians differ by at most 10 % of the reference's median, or by at most
//!    the tolerated difference.
//! 3. **parted**: all other cases.
//!
//! This comparison is stricter than [`compare`](super::compare). The tolerance of `compare` grows
//! with the spread, because its reference was recorded once and cannot be repeated.

use super::agreement::{Conditions, least, median, spread};
use libm::fabs;

/// Two engines agree if their medians differ by at most this share of the reference's median.
pub const NEAR: f64 = 0.1;
/// The reference is undecided if the spread of its runs exceeds this share of their median and the
/// tolerated difference.
pub const WIDE: f64 = 0.15;

/// The result for one metric.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The two agree.
    Agreed,
    /// They differ.
    Parted,
    /// The reference's own runs differ too much, there are none, or their median is not finite.
    Undecided,
}

impl Standing {
    /// Returns the name of the result in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Agreed => "agreed",
            Standing::Parted => "parted",
            Standing::Undecided => "undecided",
        }
    }
}

/// A metric of two engines; everything except the standing is in the metric's unit.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct EngineComparison {
    /// The result.
    pub standing: Standing,
    /// The median of the reference's runs.
    pub reference: f64,
    /// The difference between the least and the largest value of the reference's runs.
    pub spread: f64,
    /// The median of the other engine's runs.
    pub ours: f64,
    /// The maximum difference of the two medians at which they agree.
    pub tolerance: f64,
}

/// Compares `ours` with the `reference` runs for the metric called `name`; `None` for a name
/// without such a measure.
pub fn compare_engines(
    name: &str,
    reference: &[f64],
    ours: &[f64],
    on: &Conditions,
) -> Option<EngineComparison> {
    let middle = median(reference);
    let floor = least(name, middle, on)?;
    let wide = spread(reference.iter().copied());
    let mine = median(ours);
    let tolerance = (NEAR * middle).max(floor);
    let standing =
        if reference.is_empty() || !middle.is_finite() || wide > (WIDE * middle).max(floor) {
            Standing::Undecided
        } else if fabs(mine - middle) <= tolerance {
            Standing::Agreed
        } else {
            // NaN never agrees.
            Standing::Parted
        };
    Some(EngineComparison {
        standing,
        reference: middle,
        spread: wide,
        ours: mine,
        tolerance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Span};

    const ON: Conditions = Conditions {
        rate: Rate::mbit(50),
        rtt: Span::ms(40),
        duration: Span::s(10),
        flows: 1,
    };

    fn standing(name: &str, reference: &[f64], ours: &[f64]) -> Standing {
        compare_engines(name, reference, ours, &ON)
            .expect("a figure of that name")
            .standing
    }

    #[test]
    fn a_tenth_is_the_same_and_more_is_not() {
        assert_eq!(
            standing("goodput_mbit", &[40.0, 40.0, 41.0], &[43.9]),
            Standing::Agreed
        );
        assert_eq!(
            standing("goodput_mbit", &[40.0, 40.0, 41.0], &[44.1]),
            Standing::Parted
        );
        assert_eq!(
            standing("ping_p50_ms", &[41.0, 41.0], &[42.0]),
            Standing::Agreed
        );
    }

    #[test]
    fn negligible_differences_are_ignored() {
        assert_eq!(
            standing("retransmit_pct", &[0.01, 0.05], &[0.12]),
            Standing::Agreed
        );
        assert_eq!(
            standing("retransmit_pct", &[0.01, 0.05], &[0.14]),
            Standing::Parted
        );
        assert_eq!(standing("cwnd_mean", &[5.0, 5.0], &[7.0]), Standing::Agreed);
    }

    #[test]
    fn a_wide_reference_is_undecided_even_for_equal_medians() {
        assert_eq!(
            standing("goodput_mbit", &[36.0, 40.0, 42.1], &[40.0]),
            Standing::Undecided
        );
        assert_eq!(
            standing("goodput_mbit", &[36.1, 40.0, 42.0], &[40.0]),
            Standing::Agreed
        );
        assert_eq!(standing("goodput_mbit", &[], &[40.0]), Standing::Undecided);
    }

    #[test]
    fn nan_agrees_with_no_value() {
        assert_eq!(
            standing("goodput_mbit", &[40.0], &[f64::NAN]),
            Standing::Parted
        );
        assert_eq!(compare_engines("speed", &[1.0], &[1.0], &ON), None);
    }
}
