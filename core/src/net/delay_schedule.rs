//! A propagation delay over time: steps of a scenario, or the table of a file.
//!
//! The delay of a packet is the delay at the time when the packet enters the propagation. Later
//! steps do not change it. If the delay falls by more than the gap between two packets, the second
//! packet would therefore overtake the first one. Each step states whether this is possible:
//!
//! - An ordered step keeps the order: a packet waits until those before it have arrived. FIFO
//!   links, tunnels and radio bearers with delivery in sequence keep the order.
//! - After a step that is not ordered, packets overtake those that entered before the step. A
//!   change of the route and a change of the delay of Linux's `netem` reorder packets.
//!
//! The delay over several hops without queues is the sum of their delays at the time of entry
//! ([`Delays`]).
//!
//! Source: tc-netem(8), Linux 6.12 `sch_netem`. It computes the departure time of a packet from the
//! delay at its entry, and a later change does not affect this time.

use crate::units::{Span, Time};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A delay from `at` on, within one repetition.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Step {
    at: u64,
    delay: Span,
    ordered: bool,
}

/// A delay over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelaySchedule {
    /// Steps by time; the first at 0.
    steps: Vec<Step>,
    /// Duration of one repetition.
    period: Option<u64>,
}

impl DelaySchedule {
    /// Creates a schedule with the delay `first` from the start, and each delay of `steps` from its
    /// time on, ordered or not. `steps` may have any order; of two delays at one time, the later in
    /// the list counts.
    pub fn new(first: Span, steps: impl IntoIterator<Item = (Time, Span, bool)>) -> DelaySchedule {
        let first = Step {
            at: 0,
            delay: first,
            ordered: true,
        };
        let later = steps.into_iter().map(|(at, delay, ordered)| Step {
            at: at.as_ns(),
            delay,
            ordered,
        });
        let mut steps: Vec<Step> = core::iter::once(first).chain(later).collect();
        steps.sort_by_key(|step| step.at);
        DelaySchedule {
            steps,
            period: None,
        }
    }
    /// Returns this schedule, repeated every `period` (at least 1 ns). Steps after `period` are
    /// dropped.
    pub fn repeating(mut self, period: Span) -> DelaySchedule {
        let period = period.as_ns().max(1);
        self.steps.retain(|step| step.at < period);
        self.period = Some(period);
        self
    }
    /// Returns this schedule with all of its steps ordered, or none.
    pub fn ordered(mut self, ordered: bool) -> DelaySchedule {
        self.steps
            .iter_mut()
            .for_each(|step| step.ordered = ordered);
        self
    }
    /// Returns the delay at `now`.
    pub fn at(&self, now: Time) -> Span {
        let within = self.within(now).1;
        let next = self.steps.partition_point(|step| step.at <= within);
        self.steps[next.saturating_sub(1)].delay
    }
    /// Returns the difference between the longest and the shortest delay.
    pub fn range(&self) -> Span {
        let delays = || self.steps.iter().map(|step| step.delay);
        match (delays().max(), delays().min()) {
            (Some(longest), Some(shortest)) => longest - shortest,
            _ => Span::ZERO,
        }
    }

    /// Returns the number of whole repetitions until `now`, and the time since then.
    fn within(&self, now: Time) -> (u64, u64) {
        let now = now.as_ns();
        self.period
            .map_or((0, now), |period| (now / period, now % period))
    }
}

/// A schedule with a position.
#[derive(Clone, Debug)]
struct Cursor {
    schedule: Arc<DelaySchedule>,
    /// The present step, and the repetition.
    at: usize,
    repetition: u64,
}

impl Cursor {
    /// Moves to `now`, which is not earlier than in the call before. Returns the delay, and whether
    /// a step has been passed that is not ordered.
    fn advance(&mut self, now: Time) -> (Span, bool) {
        let steps = &self.schedule.steps;
        let (repetition, within) = self.schedule.within(now);
        let mut overtakes = false;
        if repetition != self.repetition {
            // All steps of a repeating schedule are alike.
            overtakes = !steps[0].ordered;
            (self.repetition, self.at) = (repetition, 0);
        }
        while let Some(step) = steps.get(self.at + 1).filter(|step| step.at <= within) {
            overtakes |= !step.ordered;
            self.at += 1;
        }
        (steps[self.at].delay, overtakes)
    }
}

/// The delay of a distance: the sum of a constant and of schedules.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    constant: Span,
    varying: Vec<Cursor>,
}

impl Delays {
    /// Creates a constant delay.
    pub fn constant(delay: Span) -> Delays {
        Delays {
            constant: delay,
            varying: Vec::new(),
        }
    }
    /// Creates the delay of one schedule.
    pub fn of(schedule: Arc<DelaySchedule>) -> Delays {
        let start = Cursor {
            schedule,
            at: 0,
            repetition: 0,
        };
        Delays {
            constant: Span::ZERO,
            varying: alloc::vec![start],
        }
    }
    /// Adds the delay of a further part of the distance.
    pub fn add(&mut self, other: Delays) {
        self.constant = self.constant + other.constant;
        self.varying.extend(other.varying);
    }
    /// Returns the delay if it never changes.
    pub fn fixed(&self) -> Option<Span> {
        self.varying.is_empty().then_some(self.constant)
    }
    /// Returns the largest possible difference between two delays.
    pub fn range(&self) -> Span {
        let ranges = self.varying.iter().map(|cursor| cursor.schedule.range());
        ranges.fold(Span::ZERO, |sum, range| sum + range)
    }
    /// Returns the delay of a packet that enters at `now`, and whether it may overtake the packets
    /// of earlier calls. `now` is not earlier than in the call before.
    #[inline]
    pub fn next(&mut self, now: Time) -> (Span, bool) {
        let mut overtakes = false;
        let mut sum = self.constant;
        for cursor in &mut self.varying {
            let (delay, passed) = cursor.advance(now);
            sum = sum + delay;
            overtakes |= passed;
        }
        (sum, overtakes)
    }
}
