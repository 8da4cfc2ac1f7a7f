//! The timers, compared with a sorted set of times as the reference.

use narrows_core::units::{Span, Time};
use narrows_sim::timers::{FIXED, TIMERS_PER_FLOW, Timers};
use proptest::prelude::*;
use std::collections::BTreeSet;

const N: u32 = 6;

/// One step of the test: how far time advances, the number of an alarm, and how much later that
/// alarm is set (`None` removes it).
type Step = (u64, u32, Option<u64>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few distinct times, so that many alarms share a time.
    prop::collection::vec(
        (0u64..4, 0..N, prop::option::weighted(0.85, 0u64..12)),
        1..200,
    )
}

/// Returns the next time of an alarm that fired: an alarm with an even number sets itself again, as
/// a pacing timer does.
fn again(number: u32, at: Time, scale: u64) -> Option<Time> {
    (number % 2 == 0).then(|| at + Span::ns((u64::from(number) + 3) * scale))
}

/// Units of time: a nanosecond, half a slot of the timer wheel, and more slots than the wheel's
/// lists hold.
fn scales() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1, 70_000, 20_000_000, 300_000_000])
}

proptest! {
    #[test]
    fn alarms_fire_once_at_their_time_by_number(steps in steps(), scale in scales()) {
        let (mut timers, mut model) = (Timers::new(0, N as usize), BTreeSet::new());
        let (mut fired, mut expected) = (Vec::new(), Vec::new());
        let mut now = Time::ZERO;
        for (wait, number, delay) in steps {
            now += Span::ns(wait * scale);
            while timers.next() <= now {
                let at = timers.next();
                if let Some(number) = timers.pop(at) {
                    fired.push((at, number));
                    timers.set(number, again(number, at, scale));
                }
            }
            while let Some(&(at, number)) = model.first().filter(|(at, _)| *at <= now) {
                model.pop_first();
                expected.push((at, number));
                model.extend(again(number, at, scale).map(|at| (at, number)));
            }
            prop_assert_eq!(&fired, &expected);
            let at = delay.map(|delay| now + Span::ns(delay * scale));
            timers.set(number, at);
            model.retain(|(_, n)| *n != number);
            model.extend(at.map(|at| (at, number)));
        }
    }
}

/// At one instant, fixed timers and those that can be moved fire in the order of their numbers.
#[test]
fn fixed_timers_fire_among_the_others() {
    let at = |ns| Time::from_ns(ns);
    let number = |flow, timer| flow * TIMERS_PER_FLOW + timer;
    let mut timers = Timers::new(3, 1);
    for (flow, ns) in [(2, 7), (1, 5), (0, 5)] {
        timers.fix(number(flow, 0), at(ns));
        timers.fix(number(flow, 3), at(ns));
    }
    timers.sort_fixed();
    let other = number(3, 0);
    for (timer, ns) in [(number(0, FIXED), 5), (number(1, FIXED + 1), 6), (other, 5)] {
        timers.set(timer, Some(at(ns)));
    }
    let mut fired = Vec::new();
    while timers.next() < Time::MAX {
        let now = timers.next();
        fired.extend(timers.pop(now).map(|timer| (now.as_ns(), timer)));
    }
    let expected = [
        (5, number(0, 0)),
        (5, number(0, 3)),
        (5, number(0, FIXED)),
        (5, number(1, 0)),
        (5, number(1, 3)),
        (5, other),
        (6, number(1, FIXED + 1)),
        (7, number(2, 0)),
        (7, number(2, 3)),
    ];
    assert_eq!(fired, expected);
}
