//! The timers, compared with a sorted set of times as the reference.

use narrows_core::units::{Span, Time};
use narrows_sim::timers::Timers;
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
        let (mut timers, mut model) = (Timers::new(N as usize), BTreeSet::new());
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
