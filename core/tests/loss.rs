//! Loss models against their formulas, and the draws of independent loss as they have always been.

use narrows_core::net::loss::{KINDS, LossModel};
use narrows_core::param::{Params, Value};
use narrows_core::rng::Rng;
use proptest::prelude::*;

fn params(kind: &str, values: &[(&'static str, f64)]) -> Params {
    let table = KINDS.iter().find(|k| k.name == kind).unwrap().params;
    let mut params = Params::defaults(table);
    values
        .iter()
        .for_each(|(name, value)| params.set(name, Value::Number(*value)));
    params
}

fn model(kind: &str, values: &[(&'static str, f64)]) -> LossModel {
    let params = params(kind, values);
    let check = KINDS.iter().find(|k| k.name == kind).unwrap().check;
    assert_eq!(check(&params), Ok(()));
    LossModel::new(kind, &params, Rng::named(5, "path/loss")).unwrap()
}

/// The share of `n` units that is lost, and the mean length of losses in a row.
fn measured(mut model: LossModel, n: u32) -> (f64, f64) {
    let (mut lost, mut bursts, mut before) = (0, 0, false);
    for _ in 0..n {
        let now = model.is_lost(false);
        lost += u32::from(now);
        bursts += u32::from(now && !before);
        before = now;
    }
    (
        f64::from(lost) / f64::from(n),
        f64::from(lost) / f64::from(bursts),
    )
}

fn near(got: f64, want: f64, tolerance: f64) -> bool {
    (got / want - 1.0).abs() < tolerance
}

#[test]
fn independent_loss_draws_as_ever() {
    let mut rng = Rng::named(5, "path/loss");
    let threshold = (0.013 * 18_446_744_073_709_551_616.0) as u64;
    let mut loss = model("independent", &[("probability", 0.013)]);
    let mut before = false;
    for n in 0..100_000 {
        let joined = n % 3 == 1;
        if !joined {
            before = rng.next_u64() < threshold;
        }
        assert_eq!(loss.is_lost(joined), before);
    }
}

#[test]
fn a_model_that_never_loses_becomes_none() {
    let none = |kind, values: &[_]| {
        LossModel::new(kind, &params(kind, values), Rng::named(1, "x")).is_none()
    };
    assert!(none("independent", &[]));
    assert!(none("independent", &[("correlation", 0.5)]));
    assert!(none("gilbert_elliott", &[]));
    assert!(none("gilbert_elliott", &[("p", 0.1), ("loss_bad", 0.0)]));
    assert!(!none("gilbert_elliott", &[("loss_good", 0.1)]));
}

#[test]
fn gilbert_has_its_rate_and_its_bursts() {
    for (p, r) in [(0.01, 0.3), (0.002, 0.05), (0.2, 0.9), (1.0, 0.5)] {
        let (rate, burst) = measured(model("gilbert_elliott", &[("p", p), ("r", r)]), 4_000_000);
        assert!(near(rate, p / (p + r), 0.03), "{p} {r}: {rate}");
        assert!(near(burst, 1.0 / r, 0.03), "{p} {r}: {burst}");
    }
}

#[test]
fn elliott_mixes_the_rates_of_its_states() {
    let (p, r, bad, good) = (0.02, 0.1, 0.6, 0.01);
    let values = [("p", p), ("r", r), ("loss_bad", bad), ("loss_good", good)];
    let (rate, _) = measured(model("gilbert_elliott", &values), 4_000_000);
    assert!(near(rate, (p * bad + r * good) / (p + r), 0.02), "{rate}");
}

#[test]
fn without_r_it_is_independent() {
    let (rate, burst) = measured(model("gilbert_elliott", &[("p", 0.1)]), 1_000_000);
    assert!(near(rate, 0.1, 0.02), "{rate}");
    assert!(near(burst, 1.0 / 0.9, 0.02), "{burst}");
}

#[test]
fn bursts_and_gaps_are_geometric() {
    let mut chain = model("gilbert_elliott", &[("p", 0.05), ("r", 0.25)]);
    let (mut runs, mut length, mut state) = ([vec![0u32; 400], vec![0u32; 400]], 0usize, false);
    for _ in 0..4_000_000 {
        let lost = chain.is_lost(false);
        if lost != state {
            runs[usize::from(state)][length.min(399)] += 1;
            (length, state) = (0, lost);
        }
        length += 1;
    }
    for (turns, runs) in [(0.05, &runs[0]), (0.25, &runs[1])] {
        let all: u32 = runs.iter().sum();
        for n in 1..12 {
            let expected = f64::from(all) * turns * (1.0f64 - turns).powi(n - 1);
            let got = f64::from(runs[n as usize]);
            assert!(
                (got - expected).abs() < 4.5 * expected.sqrt(),
                "{turns} {n}: {got}, {expected}"
            );
        }
    }
}

#[test]
fn a_super_packet_steps_the_chain_once() {
    let mut alone = model("gilbert_elliott", &[("p", 0.1), ("r", 0.3)]);
    let mut joined = alone.clone();
    for _ in 0..10_000 {
        let fate = alone.is_lost(false);
        assert!([false, true, true].map(|j| joined.is_lost(j)) == [fate; 3]);
    }
}

#[test]
fn conflicting_parameters_are_rejected_with_a_correction() {
    let check = KINDS[1].check;
    for (values, param) in [
        (&[][..], "p"),
        (
            &[("p", 0.1), ("mean_loss", 0.1), ("mean_burst", 2.0)],
            "mean_loss",
        ),
        (&[("p", 0.1), ("mean_burst", 2.0)], "mean_burst"),
        (&[("mean_loss", 0.1)], "mean_burst"),
        (&[("mean_burst", 3.0)], "mean_loss"),
        (&[("mean_loss", 0.1), ("mean_burst", 0.5)], "mean_burst"),
        (&[("mean_loss", 0.9), ("mean_burst", 2.0)], "mean_burst"),
        (&[("mean_loss", 1.0), ("mean_burst", 2.0)], "mean_loss"),
        (
            &[("mean_loss", 0.1), ("mean_burst", 2.0), ("loss_bad", 0.5)],
            "loss_bad",
        ),
        (
            &[("mean_loss", 0.1), ("mean_burst", 2.0), ("loss_good", 0.5)],
            "loss_good",
        ),
    ] {
        let mut params = params("gilbert_elliott", values);
        let refusal = check(&params).unwrap_err();
        assert_eq!(refusal.param, param, "{values:?}");
        // The fix does, or leads to the next mistake: never to the same one again.
        let fix = refusal.fix.trim_matches('"');
        let number = match fix.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().unwrap() / 100.0,
            None => fix.parse().unwrap(),
        };
        params.set(refusal.param, Value::Number(number));
        assert_ne!(check(&params), Err(refusal), "{values:?}");
    }
}

proptest! {
    #[test]
    fn mean_loss_and_mean_burst_are_met(loss in 0.002f64..0.5, burst in 1.0f64..20.0) {
        let values = [("mean_loss", loss), ("mean_burst", burst)];
        let (rate, length) = measured(model("gilbert_elliott", &values), 200_000);
        // A rate's relative deviation: bursts of geometric length, so many of them.
        let bursts = 2e5 * loss / burst;
        prop_assert!(near(rate, loss, 9.0 / bursts.sqrt()), "{} {}", rate, loss);
        prop_assert!(near(length, burst, 6.0 / bursts.sqrt()), "{} {}", length, burst);
    }
}
