//! A piecewise constant rate over time, and its exact integral.
//!
//! The work done until `t` is `W(t) = ∫₀ᵗ rate`, counted in bit-nanoseconds (`r` bit/s do `r` of
//! them per nanosecond). All numbers are integers, so an interval may be split anywhere and the
//! parts add up. After its last step a schedule holds the last rate, or it repeats: `W(k · period +
//! t) = k · W(period) + W(t)`.
//!
//! Each step stores the work done before it, so `W` and its inverse are one search in a list. A
//! [`Pace`] begins the search where the last one ended. Over a run, each step is passed once. A
//! search ahead takes a time that grows with the logarithm of the number of steps passed.

use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// A rate from `at` on, within one repetition.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Step {
    at: u64,
    bits: u64,
    /// The work done before it.
    done: u128,
}

/// A rate over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateSchedule {
    /// Steps by time; the first at 0.
    steps: Vec<Step>,
    /// One repetition: its duration, and the work done in it.
    cycle: Option<(u64, u128)>,
}

impl RateSchedule {
    /// Creates a schedule with the same rate at all times.
    pub fn constant(rate: Rate) -> RateSchedule {
        RateSchedule::new(rate, &[])
    }
    /// Creates a schedule with the rate `first` from the start, and each rate of `steps` from its
    /// time on. `steps` may have any order; of two rates at one time, the later in the list counts.
    pub fn new(first: Rate, steps: &[(Time, Rate)]) -> RateSchedule {
        let mut list: Vec<(u64, u64)> = Vec::with_capacity(steps.len() + 1);
        list.push((0, first.as_bit()));
        list.extend(steps.iter().map(|(at, rate)| (at.as_ns(), rate.as_bit())));
        list.sort_by_key(|(at, _)| *at);
        RateSchedule::sorted(list, None)
    }
    /// Returns this schedule, repeated every `period` (at least 1 ns). Steps at or after `period`
    /// are dropped.
    pub fn repeating(self, period: Span) -> RateSchedule {
        let list = self.steps.iter().map(|s| (s.at, s.bits)).collect();
        RateSchedule::sorted(list, Some(period.as_ns().max(1)))
    }
    /// Returns this schedule with a rate of zero from each of these times on, for these spans. A
    /// repeating schedule has the outages in each repetition, as far as they lie in it.
    pub fn with_outages(self, outages: &[(Time, Span)]) -> RateSchedule {
        let mut dark: Vec<(u64, u64)> = outages
            .iter()
            .map(|(at, lasts)| (at.as_ns(), (*at + *lasts).as_ns()))
            .filter(|(from, to)| from < to)
            .collect();
        dark.sort_unstable();
        let mut ends: Vec<u64> = self.steps.iter().map(|s| s.at).collect();
        ends.extend(dark.iter().flat_map(|(from, to)| [*from, *to]));
        ends.sort_unstable();
        ends.dedup();
        let (mut step, mut next, mut dark_until) = (0, 0, 0);
        let list = ends.into_iter().map(|at| {
            while self.steps.get(step + 1).is_some_and(|s| s.at <= at) {
                step += 1;
            }
            while let Some((_, to)) = dark.get(next).filter(|(from, _)| *from <= at) {
                dark_until = dark_until.max(*to);
                next += 1;
            }
            (
                at,
                if at < dark_until {
                    0
                } else {
                    self.steps[step].bits
                },
            )
        });
        let list = list.collect();
        RateSchedule::sorted(list, self.cycle.map(|(period, _)| period))
    }

    /// From times and bit/s by time, the first at 0.
    fn sorted(list: Vec<(u64, u64)>, period: Option<u64>) -> RateSchedule {
        let mut steps: Vec<Step> = Vec::with_capacity(list.len());
        for (at, bits) in list {
            if period.is_some_and(|period| at >= period) {
                break;
            }
            match steps.last_mut() {
                Some(last) if last.at == at => last.bits = bits,
                Some(last) if last.bits == bits => {}
                _ => steps.push(Step { at, bits, done: 0 }),
            }
        }
        // After a replacement, two neighbouring rates may be equal; that only costs a step.
        for i in 1..steps.len() {
            steps[i].done = steps[i - 1].until(steps[i].at);
        }
        let cycle = period.and_then(|period| steps.last().map(|last| (period, last.until(period))));
        RateSchedule { steps, cycle }
    }

    /// Returns the rate at `now`.
    pub fn rate(&self, now: Time) -> Rate {
        let (_, within) = self.repetitions(now);
        Rate::bit(self.steps[self.last(0, |s| s.at <= within)].bits)
    }
    /// Returns the mean rate: of one repetition, or of the first `span` if the schedule does not
    /// repeat (an empty span gives the first rate).
    pub fn mean(&self, span: Span) -> Rate {
        let (ns, done) = match self.cycle {
            Some(cycle) => cycle,
            None if span == Span::ZERO => return Rate::bit(self.steps[0].bits),
            None => (span.as_ns(), self.done(Time::ZERO + span, &mut 0)),
        };
        Rate::bit(saturated(done / u128::from(ns)))
    }
    /// Returns the work that is done from one time to a later one, in bit-nanoseconds.
    pub fn work(&self, from: Time, to: Time) -> u128 {
        self.done(to, &mut 0)
            .saturating_sub(self.done(from, &mut 0))
    }
    /// Returns the first time at which `work` bit-nanoseconds are done, counted from `from`;
    /// [`Time::MAX`] for never.
    pub fn when(&self, from: Time, work: u128) -> Time {
        let (at, left) = self.reach(from, work, &mut 0);
        at + Span::ns(u64::from(left > 0))
    }

    /// Number of whole repetitions until `now`, and the time since.
    fn repetitions(&self, now: Time) -> (u64, u64) {
        self.cycle.map_or((0, now.as_ns()), |(period, _)| {
            (now.as_ns() / period, now.as_ns() % period)
        })
    }
    /// The last step for which `holds` is true; it is true for all steps before. `hint` is a guess.
    fn last(&self, hint: usize, holds: impl Fn(&Step) -> bool) -> usize {
        let mut at = if self.steps.get(hint).is_some_and(&holds) {
            hint
        } else {
            0
        };
        for _ in 0..4 {
            match self.steps.get(at + 1) {
                Some(next) if holds(next) => at += 1,
                _ => return at,
            }
        }
        at + self.steps[at + 1..].partition_point(holds)
    }
    /// Returns W(`now`).
    fn done(&self, now: Time, hint: &mut usize) -> u128 {
        let (times, within) = self.repetitions(now);
        *hint = self.last(*hint, |s| s.at <= within);
        let before = self.cycle.map_or(0, |(_, work)| u128::from(times) * work);
        // At most 2⁶⁴ − 1 bit/s for 2⁶⁴ − 1 ns: it fits.
        before + self.steps[*hint].until(within)
    }
    /// Returns the first time at which exactly `work` is done since `from`. If no nanosecond meets
    /// `work` exactly, returns the last nanosecond before that. Also returns the work missing at
    /// that time, which is less than the work of a nanosecond.
    fn reach(&self, from: Time, work: u128, hint: &mut usize) -> (Time, u64) {
        if work == 0 {
            return (from, 0);
        }
        let Some(target) = self.done(from, hint).checked_add(work) else {
            return (Time::MAX, 0);
        };
        let (since, rest) = match self.cycle {
            None => (0, target),
            Some((_, 0)) => return (Time::MAX, 0),
            // One less, so that the end of a repetition belongs to it.
            Some((period, each)) => {
                let times = (target - 1) / each;
                (
                    u128::from(period).saturating_mul(times),
                    target - times * each,
                )
            }
        };
        *hint = self.last(*hint, |s| s.done < rest);
        let step = self.steps[*hint];
        let bits = u128::from(step.bits);
        // Only the final rate can be zero here: the step behind any other zero rate starts with the
        // same work done, so `last` selects that one.
        if bits == 0 {
            return (Time::MAX, 0);
        }
        let need = rest - step.done;
        let at = since
            .saturating_add(u128::from(step.at))
            .saturating_add(need / bits);
        match u64::try_from(at) {
            Ok(at) => (Time::from_ns(at), (need % bits) as u64),
            Err(_) => (Time::MAX, 0),
        }
    }
}

impl Step {
    /// The work done until `at`, not before its own time.
    fn until(&self, at: u64) -> u128 {
        self.done + u128::from(self.bits) * u128::from(at - self.at)
    }
}

/// Saturates at 64 bits.
fn saturated(x: u128) -> u64 {
    u64::try_from(x).unwrap_or(u64::MAX)
}

/// A schedule with a position, for the links of [`link`](super::link).
#[derive(Clone, Debug)]
pub struct Pace {
    schedule: RateSchedule,
    /// The step at which the last search ended.
    hint: usize,
}

/// The departure time of a packet that never leaves. This time is earlier than [`Time::MAX`], which
/// means an idle link.
const NEVER: Time = Time::from_ns(u64::MAX - 1);

// Cold: links of constant rate, the most frequent ones, pay only for the test which kind they are.
impl Pace {
    /// Creates a position at the start of `schedule`.
    pub fn new(schedule: RateSchedule) -> Pace {
        Pace { schedule, hint: 0 }
    }
    /// Returns the schedule.
    pub fn schedule(&self) -> &RateSchedule {
        &self.schedule
    }
    /// Returns the same as [`RateSchedule::work`], at most `u64::MAX`.
    #[cold]
    #[inline(never)]
    pub fn work(&mut self, from: Time, to: Time) -> u64 {
        let before = self.schedule.done(from, &mut self.hint);
        saturated(
            self.schedule
                .done(to, &mut self.hint)
                .saturating_sub(before),
        )
    }
    /// Returns the same as [`RateSchedule::when`], but never later than one nanosecond before
    /// [`Time::MAX`].
    #[cold]
    #[inline(never)]
    pub fn when(&mut self, from: Time, work: u64) -> Time {
        let (at, left) = self.schedule.reach(from, u128::from(work), &mut self.hint);
        (at + Span::ns(u64::from(left > 0))).min(NEVER)
    }
    /// Returns the first time at which exactly `work` is done since `from`, or the last time before
    /// that if nanoseconds are too coarse. Also returns the missing work. The time is at most one
    /// nanosecond before [`Time::MAX`].
    #[cold]
    #[inline(never)]
    pub fn reach(&mut self, from: Time, work: u64) -> (Time, u64) {
        let (at, left) = self.schedule.reach(from, u128::from(work), &mut self.hint);
        (at.min(NEVER), left)
    }
}
