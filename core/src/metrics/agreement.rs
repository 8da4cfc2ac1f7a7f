//! Agreement: the comparison of a metric with a reference.
//!
//! The reference is several runs of one case that differ only in random choices, above all in start
//! times; its value is their median. The tolerance is at least one and a half times the spread of
//! these runs, because a few runs do not show the whole spread. The tolerance is also at least the
//! value in this table:
//!
//! | metric | tolerance |
//! |---|---|
//! | `fct_s` | 15 %, as a ratio; an unfinished transfer is infinite |
//! | `retransmit_pct` | a factor of two, with 0.1 points added to both values |
//! | `goodput_mbit` | 10 %, or 0.2 % of the rate (1 % with several flows), at most half the metric |
//! | `jain` | 0.05 |
//! | `cwnd_mean` | 10 % or 2 packets |
//! | `cwnd_p5`, `cwnd_p95` | 15 % or 3 packets, because they are single samples |
//! | `acked_mb_at_…` | 15 % or 30 kB, two initial windows |
//! | `srtt_ms`, `ping_p50_ms` | 15 % of the excess over the base RTT, 2 % of this RTT, or 1 ms |
//! | `ping_p95_ms` | 25 % of the excess over the base RTT, 2 % of this RTT, or 1.5 ms |
//!
//! If a row of the table has several values, the greatest counts. The 0.1 points prevent a single
//! packet from determining the result. Among several flows, the goodput of a starving flow is small
//! and random. 1 ms is about a timer tick and the transmission time of a frame.
//!
//! Whatever the spread is, a metric that is compared as a ratio never agrees at a ratio above four.
//! A goodput below a tenth of the reference never agrees, so a flow without data never passes. If
//! the reference did not finish a transfer within the run, a completion after more than half of the
//! run still agrees. In this case, a transfer that is not completed agrees, too.
//!
//! Every engine is compared with a reference by this measure.
//!
//! A stored case of Linux (`sim/tests/data/reference`) agrees if every compared metric does. The
//! median of the seeds 1, 2 and 3 is compared with the median of Linux's runs. Metrics marked
//! `late` in the stored case are not compared: Linux's recording itself began one round trip late
//! (`validation/evidence/first-neighbour.md`). The Rust test (`sim/tests/reference.rs`),
//! `validation/` and the README all count cases in this way.

use crate::units::{Rate, Span};
use alloc::vec::Vec;
use libm::{fabs, log};

/// The properties of a case on which its tolerances depend.
#[derive(Copy, Clone, Debug)]
pub struct Conditions {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// RTT without a queue.
    pub rtt: Span,
    /// Duration of the run.
    pub duration: Span,
    /// Number of flows.
    pub flows: usize,
}

/// A metric compared with its reference.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Agreement {
    /// Whether it agrees.
    pub agrees: bool,
    /// The median of the reference's runs, in the metric's unit; infinite if a transfer did not
    /// finish.
    pub reference: f64,
    /// The maximum difference at which the metric agrees, in the metric's unit, or as the logarithm
    /// of a ratio. NaN if the reference did not finish a transfer.
    pub tolerance: f64,
}

/// The median; NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// Compares `ours` with the `reference` runs for the metric called `name`; `None` for an unknown
/// name.
pub fn compare(name: &str, reference: &[f64], ours: f64, on: &Conditions) -> Option<Agreement> {
    let middle = median(reference);
    let rtt = on.rtt.as_s() * 1e3;
    // The minimum tolerance of a difference; a ratio has none.
    let part = match name {
        "fct_s" | "retransmit_pct" => None,
        "goodput_mbit" | "cwnd_mean" => Some(0.1 * middle),
        "jain" => Some(0.0),
        "cwnd_p5" | "cwnd_p95" => Some(0.15 * middle),
        "srtt_ms" | "ping_p50_ms" => Some(0.15 * (middle - rtt)),
        "ping_p95_ms" => Some(0.25 * (middle - rtt)),
        _ if name.starts_with("acked_mb_at_") => Some(0.15 * middle),
        _ => return None,
    };
    let floor = part.and_then(|part| Some(part.max(least(name, middle, on)?)));
    if middle == f64::INFINITY {
        let agrees = ours > 0.5 * on.duration.as_s();
        return Some(Agreement {
            agrees,
            reference: middle,
            tolerance: f64::NAN,
        });
    }
    let (agrees, tolerance) = match floor {
        Some(floor) => {
            let most = if name == "goodput_mbit" {
                0.9 * middle
            } else {
                f64::INFINITY
            };
            let tolerance = floor.max(1.5 * spread(reference.iter().copied())).min(most);
            (fabs(ours - middle) <= tolerance, tolerance)
        }
        None => {
            let (least, added) = if name == "fct_s" {
                (1.15, 0.0)
            } else {
                (2.0, 0.1)
            };
            let ln = |x: f64| log((x + added).max(1e-6));
            let chance = 1.5 * spread(reference.iter().filter(|x| x.is_finite()).map(|x| ln(*x)));
            let tolerance = log(least).max(chance).min(log(4.0));
            (
                ours.is_finite() && fabs(ln(ours) - ln(middle)) <= tolerance,
                tolerance,
            )
        }
    };
    Some(Agreement {
        agrees,
        reference: middle,
        tolerance,
    })
}

/// The difference that is always tolerated, in the metric's unit; `None` for a metric without such
/// a difference.
pub(super) fn least(name: &str, middle: f64, on: &Conditions) -> Option<f64> {
    let rtt = on.rtt.as_s() * 1e3;
    match name {
        "retransmit_pct" => Some(0.1),
        "goodput_mbit" => {
            let share = if on.flows > 1 { 0.01 } else { 0.002 };
            Some((share * on.rate.as_mbit()).min(0.5 * middle))
        }
        "jain" => Some(0.05),
        "cwnd_mean" => Some(2.0),
        "cwnd_p5" | "cwnd_p95" => Some(3.0),
        "srtt_ms" | "ping_p50_ms" => Some((0.02 * rtt).max(1.0)),
        "ping_p95_ms" => Some((0.02 * rtt).max(1.5)),
        _ if name.starts_with("acked_mb_at_") => Some(0.03),
        _ => None,
    }
}

pub(super) fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| {
        (a.min(x), b.max(x))
    });
    most - least
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Conditions = Conditions {
        rate: Rate::mbit(50),
        rtt: Span::ms(40),
        duration: Span::s(90),
        flows: 1,
    };

    fn agrees(name: &str, reference: &[f64], ours: f64) -> bool {
        compare(name, reference, ours, &ON)
            .expect("a figure of that name")
            .agrees
    }

    #[test]
    fn a_tolerance_is_never_less_than_half_as_much_again_as_the_spread() {
        assert!(
            agrees("goodput_mbit", &[40.0, 42.0], 45.09)
                && !agrees("goodput_mbit", &[40.0, 42.0], 45.2)
        );
        assert!(
            agrees("goodput_mbit", &[38.0, 44.0], 49.9)
                && !agrees("goodput_mbit", &[38.0, 44.0], 50.1)
        );
        assert!(agrees("srtt_ms", &[60.0, 60.0], 63.0) && !agrees("srtt_ms", &[60.0, 60.0], 63.1));
    }

    #[test]
    fn empty_samples_never_agree() {
        assert!(!agrees("goodput_mbit", &[0.01, 30.0], 0.0));
        assert!(!agrees("fct_s", &[1.0, 20.0, 1.0, 20.0], f64::INFINITY));
    }

    #[test]
    fn a_transfer_that_linux_does_not_finish_need_not_be_finished() {
        let late = [f64::INFINITY, f64::INFINITY, 80.0];
        assert!(agrees("fct_s", &late, f64::INFINITY) && agrees("fct_s", &late, 46.0));
        assert!(!agrees("fct_s", &late, 44.0));
    }

    #[test]
    fn nan_agrees_with_no_value() {
        for name in [
            "fct_s",
            "goodput_mbit",
            "retransmit_pct",
            "jain",
            "acked_mb_at_1s",
        ] {
            assert!(!agrees(name, &[1.0, 1.0], f64::NAN), "{name}");
        }
        assert_eq!(compare("speed", &[1.0], 1.0, &ON), None);
    }
}
