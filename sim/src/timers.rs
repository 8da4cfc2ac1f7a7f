//! Timers: numbered alarms that fire in order of time, then of number.
//!
//! A TCP timer moves later with nearly every packet and hardly ever fires. So an alarm that moves later costs no heap
//! operation: its entry stays where it is, and when it comes up too early it goes back in at the time wanted by then. Only
//! an alarm that moves earlier is entered anew; its old entry is recognised as stale when it comes up.

use narrows_core::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Alarms by number.
#[derive(Debug)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    alarms: Vec<Alarm>,
}

#[derive(Copy, Clone, Debug)]
struct Alarm {
    /// When it shall fire; `Time::MAX` for never.
    wanted: Time,
    /// The time of its entry in the heap, never later than `wanted`; `Time::MAX` without an entry.
    entered: Time,
}

impl Timers {
    /// `n` alarms, none of them set.
    pub fn new(n: usize) -> Timers {
        Timers {
            heap: BinaryHeap::with_capacity(2 * n),
            alarms: vec![
                Alarm {
                    wanted: Time::MAX,
                    entered: Time::MAX
                };
                n
            ],
        }
    }
    /// Sets alarm `number` to `at`, or takes it back.
    pub fn set(&mut self, number: u32, at: Option<Time>) {
        let alarm = &mut self.alarms[number as usize];
        alarm.wanted = at.unwrap_or(Time::MAX);
        if alarm.wanted < alarm.entered {
            alarm.entered = alarm.wanted;
            self.heap.push(Reverse((alarm.wanted, number)));
        }
    }
    /// No alarm fires before this; [`Time::MAX`] when none is set.
    pub fn next(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }
    /// The next alarm that is due at `now`; it is no longer set.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        while self.next() <= now {
            let Reverse((at, number)) = self.heap.pop()?;
            let alarm = &mut self.alarms[number as usize];
            if at != alarm.entered {
                continue;
            }
            let wanted = std::mem::replace(
                alarm,
                Alarm {
                    wanted: Time::MAX,
                    entered: Time::MAX,
                },
            )
            .wanted;
            if wanted <= at {
                return Some(number);
            }
            self.set(number, (wanted != Time::MAX).then_some(wanted));
        }
        None
    }
}
