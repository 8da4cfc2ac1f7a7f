//! Timers: numbered alarms that fire in order of time, then of number.
//!
//! A TCP timer moves later with nearly every packet and hardly ever fires. So an alarm that moves later costs no heap
//! operation: its entry stays where it is, and when it comes up too early it goes back in at the time wanted by then. An
//! alarm that moves earlier, as a paced sender's does from its timeout to its next burst and back, is entered a second
//! time; the later entry is kept for the way back. So the heap holds no more than a few entries for each alarm however
//! often they move.
//!
//! The heap has four children to a node: they lie in one or two cache lines, and it is half as deep as with two. Ten
//! thousand flows have some thirty thousand entries, and each level costs a miss.

use narrows_core::units::Time;

/// Alarms by number.
#[derive(Debug)]
pub struct Timers {
    heap: Vec<Entry>,
    alarms: Vec<Alarm>,
}

/// When an alarm comes up, and its number, in one integer: comparing two is then one comparison.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u128);

impl Entry {
    fn new(at: Time, number: u32) -> Entry {
        Entry(u128::from(at.as_ns()) << 32 | u128::from(number))
    }
    fn at(self) -> Time {
        Time::from_ns((self.0 >> 32) as u64)
    }
    fn number(self) -> u32 {
        self.0 as u32
    }
}

#[derive(Copy, Clone, Debug)]
struct Alarm {
    /// When it shall fire; [`Time::MAX`] for never.
    wanted: Time,
    /// The time of its first entry in the heap, never later than `wanted`; [`Time::MAX`] without an entry.
    entered: Time,
    /// The time of a second entry, later than the first; [`Time::MAX`] without one.
    kept: Time,
}

const UNSET: Alarm = Alarm {
    wanted: Time::MAX,
    entered: Time::MAX,
    kept: Time::MAX,
};

/// Children of a node of the heap.
const ARITY: usize = 4;

impl Timers {
    /// `n` alarms, none of them set.
    pub fn new(n: usize) -> Timers {
        Timers {
            heap: Vec::with_capacity(2 * n),
            alarms: vec![UNSET; n],
        }
    }
    /// At least `n` alarms; more of them are not set.
    pub fn grow(&mut self, n: usize) {
        if n > self.alarms.len() {
            self.alarms.resize(n, UNSET);
        }
    }
    /// Sets alarm `number` to `at`, or takes it back.
    #[inline]
    pub fn set(&mut self, number: u32, at: Option<Time>) {
        let alarm = &mut self.alarms[number as usize];
        alarm.wanted = at.unwrap_or(Time::MAX);
        if alarm.wanted < alarm.entered {
            self.enter(number);
        }
    }
    #[inline(never)]
    fn enter(&mut self, number: u32) {
        let alarm = &mut self.alarms[number as usize];
        // Of three entries the middle one goes stale: it is recognised when it comes up.
        if alarm.kept == Time::MAX {
            alarm.kept = alarm.entered;
        }
        alarm.entered = alarm.wanted;
        let entry = Entry::new(alarm.wanted, number);
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
    }
    /// No alarm fires before this; [`Time::MAX`] when none is set.
    pub fn next(&self) -> Time {
        self.heap.first().map_or(Time::MAX, |entry| entry.at())
    }
    /// The alarm that may come up next, and later on the way there.
    pub fn coming(&self) -> Option<u32> {
        self.heap.first().map(|entry| entry.number())
    }
    /// Where alarm `number` is kept, for whoever prepares what is to come.
    pub fn place(&self, number: u32) -> &impl Sized {
        &self.alarms[number as usize]
    }
    /// The next alarm that is due at `now`; it is no longer set.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        while self.next() <= now {
            let (at, number) = (self.heap[0].at(), self.heap[0].number());
            let alarm = &mut self.alarms[number as usize];
            if at != alarm.entered {
                self.remove_first();
                continue;
            }
            if alarm.wanted <= at {
                (alarm.wanted, alarm.entered, alarm.kept) = (Time::MAX, alarm.kept, Time::MAX);
                self.remove_first();
                return Some(number);
            }
            // Too early: on to its second entry, unless it is wanted before that.
            if alarm.wanted < alarm.kept {
                alarm.entered = alarm.wanted;
                let entry = Entry::new(alarm.wanted, number);
                self.sink(entry);
            } else {
                (alarm.entered, alarm.kept) = (alarm.kept, Time::MAX);
                self.remove_first();
            }
        }
        None
    }

    /// Takes the first entry out of the heap.
    fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop().filter(|_| !self.heap.is_empty()) {
            self.sink(last);
        }
    }
    /// Puts `entry` in the place of the first and moves it down to where it belongs.
    fn sink(&mut self, entry: Entry) {
        let mut hole = 0;
        loop {
            let first = ARITY * hole + 1;
            let least = match self.heap.get(first..first + ARITY) {
                Some(&[a, b, c, d]) => {
                    let (ab, i) = if b < a { (b, 1) } else { (a, 0) };
                    let (cd, j) = if d < c { (d, 3) } else { (c, 2) };
                    first + if cd < ab { j } else { i }
                }
                _ => match (first..self.heap.len()).min_by_key(|&child| self.heap[child]) {
                    Some(least) => least,
                    None => break,
                },
            };
            if entry < self.heap[least] {
                break;
            }
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        self.heap[hole] = entry;
    }
    /// Moves `entry`, which belongs at `hole` or above, up to where it belongs.
    fn rise(&mut self, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }
}
