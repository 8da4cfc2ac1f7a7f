//! The histogram against the values themselves.

use narrows_core::metrics::{Histogram, rank};
use narrows_core::units::Span;
use proptest::prelude::*;

fn spans() -> impl Strategy<Value = Vec<u64>> {
    // From nanoseconds to hours, each order of magnitude as likely as the next.
    prop::collection::vec(
        (0u32..44, any::<u64>()).prop_map(|(bits, x)| x % (1 << bits).max(2)),
        1..400,
    )
}

fn histogram(values: &[u64]) -> Histogram {
    let mut h = Histogram::new();
    values.iter().for_each(|ns| h.record(Span::ns(*ns)));
    h
}

proptest! {
    #[test]
    fn percentiles_are_within_four_per_mille(mut values in spans(), q in 0.0..=1.0) {
        let h = histogram(&values);
        values.sort_unstable();
        let exact = values[rank(q, values.len()).unwrap()];
        let shown = h.percentile(q).unwrap().as_ns();
        prop_assert!(shown.abs_diff(exact) as f64 <= 0.004 * exact as f64, "{} for {}", shown,
            exact);
        let sum = values.iter().map(|ns| u128::from(*ns)).sum::<u128>() as f64;
        let mean = sum / values.len() as f64 / 1e6;
        prop_assert!((h.mean_ms() - mean).abs() <= 1e-12 * mean);
        prop_assert_eq!(h.count(), values.len() as u64);
    }

    #[test]
    fn merging_is_counting_everything(a in spans(), b in spans(), q in 0.0..=1.0) {
        let mut merged = histogram(&a);
        merged.merge(&histogram(&b));
        merged.merge(&Histogram::new());
        let all = histogram(&[a, b].concat());
        prop_assert_eq!(merged.percentile(q), all.percentile(q));
        prop_assert_eq!(merged.mean_ms(), all.mean_ms());
    }
}

#[test]
fn metrics_without_samples_have_no_value() {
    assert_eq!(Histogram::new().percentile(0.5), None);
    assert!(Histogram::new().mean_ms().is_nan());
}
