//! CoDel's control law by itself: its drops follow the closed form, within the precision of Linux's
//! arithmetic.

use crate::trace::Frame;
use narrows_core::packet::Ecn;
use narrows_core::queue::codel::{Codel, Law, newton_step};
use narrows_core::queue::{DropReason, Limit, QueueDiscipline, Sink};
use narrows_core::units::{Span, Time};

const TARGET: Span = Span::ms(5);
const INTERVAL: Span = Span::ms(100);
/// One packet leaves in this time.
const SERVICE: Span = Span::us(10);
/// The clock of the control law.
const TICK_NS: f64 = 1024.0;

struct Drops(Vec<Time>);

impl Sink<Frame> for Drops {
    fn dropped(&mut self, now: Time, _: Frame, reason: DropReason) {
        assert_eq!(reason, DropReason::Aqm);
        self.0.push(now);
    }
    fn marked(&mut self, now: Time, frame: &Frame, _: DropReason) {
        assert_eq!(frame.ecn, Ecn::Ce);
        self.0.push(now);
    }
}

/// Twice as much comes as leaves, for `seconds`: when packets were dropped, or marked.
fn overload(law: Law, ecn: Ecn, seconds: u64) -> Vec<Time> {
    let mut queue = Codel::new(Limit::Packets(u64::MAX), law);
    let mut drops = Drops(Vec::new());
    let mut now = Time::ZERO;
    let mut number = 0;
    while now < Time::ZERO + Span::s(seconds) {
        for _ in 0..2 {
            let frame = Frame {
                number,
                flow: 0,
                size: 1514,
                dscp: 0,
                ecn,
                enqueued_at: now,
                ack: None,
            };
            number += 1;
            queue.enqueue(now, frame, &mut drops);
        }
        now += SERVICE;
        queue.dequeue(now, &mut drops);
    }
    drops.0
}

/// How the k-th gap between drops differs from `interval / √k`, relative to it: one Newton step
/// from the gap before, in real numbers. From 2 on it falls fast: 29.3 %, 2.6 %, 2.4 %, 1.3 %, 1.0
/// % …
fn error_of_newton(gaps: usize) -> Vec<f64> {
    let mut inverse = 1.0_f64;
    let error = |k: usize| {
        if k > 1 {
            inverse *= (3.0 - k as f64 * inverse * inverse) / 2.0;
        }
        inverse * (k as f64).sqrt() - 1.0
    };
    (1..=gaps).map(error).collect()
}

fn check_gaps(drops: &[Time]) {
    let grain_ns = SERVICE.as_ns() as f64 + TICK_NS;
    let known = error_of_newton(drops.len());
    let (mut exact_ns, interval_ns) = (0.0, INTERVAL.as_ns() as f64);
    for (k, pair) in drops.windows(2).enumerate().map(|(i, pair)| (i + 1, pair)) {
        let root = interval_ns / (k as f64).sqrt();
        let gap = pair[1].since(pair[0]).as_ns() as f64;
        // The root has 16 bits, so its error is up to 2⁻¹⁶ of the interval. The step before adds as
        // much again.
        let rounding = interval_ns / 32768.0;
        let expected = root * (1.0 + known[k - 1]);
        assert!(
            (gap - expected).abs() <= grain_ns + rounding,
            "drop {k}: {gap} ns to the next, not {expected}"
        );
        // The deficit of the first steps is at most a quarter of an interval in total.
        exact_ns += root;
        let since_first = pair[1].since(drops[0]).as_ns() as f64;
        let early = (exact_ns - since_first) / interval_ns;
        assert!(
            (-0.001..0.28).contains(&early),
            "drop {k}: {early} intervals early"
        );
    }
}

#[test]
fn under_constant_overload_drops_come_interval_over_the_root_of_their_count_apart() {
    let drops = overload(Law::new(TARGET, INTERVAL, false), Ecn::NotEct, 6);
    // 6 s are 2 (√n) intervals: some 900 drops.
    assert!(drops.len() > 800, "{}", drops.len());
    // Twice as much comes as leaves, so a head has stood for half of the time: for the target after
    // two targets.
    let first = Time::ZERO + Span::ns(2 * TARGET.as_ns()) + INTERVAL;
    let off = drops[0].since(first).max(first.since(drops[0]));
    assert!(off <= Span::us(40), "{:?}", drops[0]);
    check_gaps(&drops);
}

#[test]
fn marks_come_at_the_same_times_as_drops() {
    let law = |ecn| Law::new(TARGET, INTERVAL, ecn);
    let marks = overload(law(true), Ecn::Ect0, 6);
    check_gaps(&marks);
    let drops = overload(law(true), Ecn::NotEct, 6);
    assert_eq!(
        drops,
        overload(law(false), Ecn::Ect0, 6),
        "who cannot be marked is dropped"
    );
    assert!((marks.len() as i64 - drops.len() as i64).abs() <= 2);
}

#[test]
fn a_newton_step_at_a_time_keeps_near_the_root() {
    // In 32 bits; the square of the root, about `1 / count`, loses up to the last of them.
    let mut inverse = u32::MAX;
    for count in 2..=1_000_000_u32 {
        inverse = newton_step(inverse, count);
        let error = f64::from(inverse) / 2f64.powi(32) * f64::from(count).sqrt() - 1.0;
        let known = (f64::from(count) / 2f64.powi(32)).max(5e-5);
        assert!(count < 100 || error.abs() < known, "{count}: {error}");
    }
}

#[test]
fn a_step_from_too_far_away_is_linuxs_and_no_root() {
    // 64 more at once, from a guess for 1: 3 − 65 is below zero, and wraps.
    let inverse = newton_step(0xffff_0000, 65);
    let root = (2f64.powi(32) / 65f64.sqrt()) as u32;
    assert_ne!(inverse >> 16, root >> 16);
    // Every input has a result; 0 stays 0.
    assert_eq!(newton_step(0, u32::MAX), 0);
    newton_step(u32::MAX, u32::MAX);
}
