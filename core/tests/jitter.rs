//! Jitter and reordering compared with their distributions; every packet leaves, in the specified
//! order.

use narrows_core::net::jitter::{Jitter, KINDS, PARAMS};
use narrows_core::net::reorder;
use narrows_core::param::{Params, Value};
use narrows_core::rng::Rng;
use narrows_core::units::{Span, Time};
use proptest::prelude::*;

const DELAY: Span = Span::ms(100);
const SPREAD: Span = Span::ms(10);
/// So many packets for a distribution.
const N: u64 = 500_000;

fn params(correlation: f64, ordered: bool) -> Params {
    let mut params = Params::defaults(PARAMS);
    params.set("spread", Value::Span(SPREAD));
    params.set("correlation", Value::Number(correlation));
    params.set("ordered", Value::Bool(ordered));
    params
}

fn late(probability: f64, late: Span, correlation: f64) -> Params {
    let mut params = Params::defaults(reorder::PARAMS);
    params.set("probability", Value::Number(probability));
    params.set("late", Value::Span(late));
    params.set("correlation", Value::Number(correlation));
    params
}

fn line(kind: &str, correlation: f64, ordered: bool) -> Jitter<u64> {
    Jitter::new(DELAY).varying(
        kind,
        &params(correlation, ordered),
        Rng::named(7, "path/jitter"),
    )
}

/// The variations of `n` packets, in spreads, in order of entry.
fn variations(kind: &str, correlation: f64, n: u64) -> Vec<f64> {
    let mut line = line(kind, correlation, true);
    let mut got = Vec::new();
    for number in 0..n {
        // A second apart: nobody waits for anybody.
        let now = Time::from_ns(number * 1_000_000_000);
        line.push(now, number);
        let at = line.next();
        assert_eq!(line.pop(at), Some(number));
        got.push((at.since(now).as_ns() as f64 - DELAY.as_ns() as f64) / SPREAD.as_ns() as f64);
    }
    got
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// Of `x` with what comes `lag` later.
fn correlation(x: &[f64], lag: usize) -> f64 {
    let m = mean(x);
    let squares: f64 = x.iter().map(|a| (a - m) * (a - m)).sum();
    let products: f64 = x
        .iter()
        .zip(&x[lag..])
        .map(|(a, b)| (a - m) * (b - m))
        .sum();
    products / squares
}

/// Mean, deviation, and the quantiles at 1 %, 25 %, 50 %, 75 %, 98 % and 99.5 %, in spreads. Normal
/// quantiles: 2.3263, 0.6745, 2.0537, 2.5758. Pareto: a cap of 4 spreads is 4.5 = c of x, so the
/// mean is 1 + (1 − 1/c²)/2 and the mean square 3 − 2/c.
const SHAPES: [(&str, f64, f64, [f64; 6]); 4] = [
    ("uniform", 0.0, 0.5774, [-0.98, -0.5, 0.0, 0.5, 0.96, 0.99]),
    (
        "normal",
        0.0,
        1.0,
        [-2.3263, -0.6745, 0.0, 0.6745, 2.0537, 2.5758],
    ),
    (
        "pareto",
        -0.0329,
        0.8209,
        [-0.6622, -0.5325, -0.3201, 0.1165, 2.9120, 4.0],
    ),
    (
        "paretonormal",
        -0.0247,
        0.8349,
        [-1.0782, -0.5680, -0.2401, 0.2560, 2.6974, 3.6439],
    ),
];

#[test]
fn each_kind_has_its_mean_its_deviation_and_its_quantiles() {
    assert_eq!(KINDS.map_names(), SHAPES.map(|s| s.0));
    // A correlation leaves the distribution as it is, though neighbours tell less that is new.
    for (c, tolerance) in [(0.0, 1.0), (0.8, 3.0)] {
        for (kind, average, deviation, quantiles) in SHAPES {
            let mut got = variations(kind, c, N);
            let m = mean(&got);
            assert!((m - average).abs() < 0.004 * tolerance, "{kind}: {m}");
            let squares = mean(&got.iter().map(|x| (x - m) * (x - m)).collect::<Vec<_>>());
            assert!(
                (squares.sqrt() - deviation).abs() < 0.004 * tolerance,
                "{kind}: {}",
                squares.sqrt()
            );
            got.sort_by(f64::total_cmp);
            for (share, want) in [0.01, 0.25, 0.5, 0.75, 0.98, 0.995]
                .into_iter()
                .zip(quantiles)
            {
                let x = got[(share * N as f64) as usize];
                // Where a tail is thin a quantile is known less well.
                let wide = if !(0.1..=0.9).contains(&share) {
                    0.04
                } else {
                    0.006
                };
                assert!(
                    (x - want).abs() < wide * tolerance,
                    "{kind} {share}: {x}, {want}"
                );
            }
            assert!(*got.last().unwrap() <= 4.0);
        }
    }
}

trait Names {
    fn map_names(&self) -> [&'static str; 4];
}
impl Names for &[narrows_core::net::ElementKind] {
    fn map_names(&self) -> [&'static str; 4] {
        [self[0].name, self[1].name, self[2].name, self[3].name]
    }
}

#[test]
fn the_correlation_is_that_of_normal_deviates() {
    for c in [0.0, 0.25, 0.8] {
        let normal = variations("normal", c, 400_000);
        for lag in 1..4 {
            let want = f64::powi(c, lag as i32);
            let got = correlation(&normal, lag);
            assert!((got - want).abs() < 0.012, "{c} {lag}: {got}");
        }
        // Of the uniform numbers behind normal deviates of correlation c: 6/π · asin(c/2)
        // (Spearman's).
        let got = correlation(&variations("uniform", c, 400_000), 1);
        let want = 6.0 / std::f64::consts::PI * (c / 2.0).asin();
        assert!((got - want).abs() < 0.012, "{c}: {got}, {want}");
    }
}

#[test]
fn a_delay_is_never_negative() {
    let mut line =
        Jitter::new(Span::ms(1)).varying("normal", &params(0.0, false), Rng::named(1, "x"));
    for number in 0..10_000u64 {
        let now = Time::from_ns(number * 1_000_000_000);
        line.push(now, number);
        assert!(line.next() >= now);
        line.pop(Time::MAX);
    }
}

#[test]
fn without_variation_it_is_a_line() {
    let mut line =
        Jitter::new(DELAY).varying("normal", &Params::defaults(PARAMS), Rng::named(1, "x"));
    line = line.reordering(&Params::defaults(reorder::PARAMS), Rng::named(1, "y"));
    (0..10).for_each(|n| line.push(Time::from_ns(n), n));
    assert_eq!(line.coming(3), Some(&3));
    for n in 0..10 {
        assert_eq!(line.next(), Time::from_ns(n) + DELAY);
        assert_eq!(line.pop(Time::from_ns(n)), None);
        assert_eq!(line.pop(Time::from_ns(n) + DELAY), Some(n));
    }
    assert_eq!((line.next(), line.is_empty()), (Time::MAX, true));
}

#[test]
fn late_packets_are_overtaken_by_later_packets() {
    let params = late(0.1, Span::us(35), 0.0);
    assert_eq!((reorder::KINDS[0].check)(&params), Ok(()));
    assert!((reorder::KINDS[0].check)(&late(0.1, Span::ZERO, 0.0)).is_err());
    let mut line = Jitter::new(DELAY).reordering(&params, Rng::named(3, "path/reorder"));
    // One each 10 us.
    (0..100_000u64).for_each(|n| line.push(Time::from_ns(n * 10_000), n));
    let (mut left, mut late) = (Vec::new(), 0);
    while !line.is_empty() {
        let at = line.next();
        let n = line.pop(at).unwrap();
        let took = at.since(Time::from_ns(n * 10_000));
        late += u32::from(took == DELAY + Span::us(35));
        assert!(took == DELAY || took == DELAY + Span::us(35));
        left.push(n);
    }
    assert!(late.abs_diff(10_000) < 475, "{late}");
    // Three enter meanwhile; those of them that are late themselves do not overtake. The last
    // packets have nobody behind.
    let reordered = left
        .iter()
        .enumerate()
        .filter(|(at, n)| left[..*at].iter().rev().take(8).any(|o| o > n));
    let share = reordered.count() as f64 / 1e5;
    assert!((share - 0.1 * (1.0 - 0.001)).abs() < 0.005, "{share}");
}

#[test]
fn a_late_packet_does_not_delay_packets_in_order() {
    let mut line =
        line("uniform", 0.0, true).reordering(&late(0.3, Span::s(1), 0.0), Rng::named(3, "r"));
    (0..1000u64).for_each(|n| line.push(Time::from_ns(n), n));
    let on_time: Vec<u64> = std::iter::from_fn(|| line.pop(Time::ZERO + Span::ms(500))).collect();
    assert!(on_time.windows(2).all(|w| w[0] < w[1]));
    assert!(on_time.len().abs_diff(700) < 70, "{}", on_time.len());
}

proptest! {
    #[test]
    fn packets_leave_on_time_and_in_order(
        gaps in prop::collection::vec(0u64..5_000_000, 1..300),
        kind in 0usize..4, ordered: bool, delay in 0u64..50, probability in 0.0f64..0.5,
        c in 0.0f64..1.0, pops in 0u64..3, seed: u64,
    ) {
        let mut line = Jitter::new(Span::ms(delay)).varying(KINDS[kind].name, &params(c, ordered),
            Rng::named(seed, "j"));
        if probability > 0.2 {
            line = line.reordering(&late(probability, Span::ms(2), c), Rng::named(seed, "r"));
        }
        let (mut now, mut left, mut entered) = (Time::ZERO, Vec::new(), Vec::new());
        for (n, gap) in gaps.iter().enumerate() {
            now += Span::ns(*gap);
            entered.push(now);
            line.push(now, n);
            prop_assert!(line.next() <= now + Span::ms(delay + 42));
            for _ in 0..pops {
                let at = line.next();
                if let Some(packet) = line.pop(now) {
                    left.push((at, packet));
                }
            }
            prop_assert_eq!(line.len() + left.len(), n + 1);
        }
        while !line.is_empty() {
            let at = line.next();
            left.push((at, line.pop(at).unwrap()));
        }
        // In order of time, ties by entry, nothing before it entered.
        prop_assert!(left.windows(2).all(|w| w[0] < w[1]));
        prop_assert!(left.iter().all(|(at, n)| *at >= entered[*n]));
        if ordered && probability <= 0.2 {
            prop_assert!(left.windows(2).all(|w| w[0].1 < w[1].1));
        }
        let mut numbers: Vec<usize> = left.iter().map(|l| l.1).collect();
        numbers.sort_unstable();
        prop_assert!(numbers.into_iter().eq(0..gaps.len()));
    }
}
