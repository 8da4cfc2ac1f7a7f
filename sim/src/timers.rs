//! Timers: numbered alarms that fire in order of time, then of number.
//!
//! A TCP timer moves later with nearly every packet and hardly ever fires. So an alarm that moves
//! later costs nothing: its entry stays where it is, and when it comes up too early it goes back in
//! at the time wanted by then. An alarm that moves earlier, as a paced sender's does from its
//! timeout to its next burst and back, is entered a second time; the later entry is kept for the
//! way back. So there are no more than a few entries for each alarm however often they move.
//!
//! Entries are sorted only when they are about to come up. Time is cut into slots of 131 µs, and an
//! entry waits in the list of its slot; when nothing earlier is left, the entries of the next slot
//! go into a heap, and what is entered for that slot from then on, too. So the heap is small enough
//! for the nearest cache, where one of all entries costs a miss a level with ten thousand flows.
//! What lies beyond the last slot (268 ms, longer than most timeouts) waits in a second heap.

use narrows_core::units::Time;

/// Alarms by number.
#[derive(Debug, Default)]
pub struct Timers {
    alarms: Vec<Alarm>,
    /// Entries of slots below `slot`.
    near: Heap,
    /// The first slot that is still a list.
    slot: u64,
    /// For each slot from there on, modulo their number, the first of its list.
    lists: Vec<u32>,
    /// Entries in lists, and places that are free, in a list as well.
    links: Vec<Link>,
    free: u32,
    /// How many wait in lists.
    listed: usize,
    /// Entries of slots beyond those of the lists.
    far: Heap,
}

/// A slot has two to the power of this nanoseconds.
const SLOT: u32 = 17;
const SLOTS: u64 = 2048;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// An entry in a list.
#[derive(Copy, Clone, Debug)]
struct Link {
    at: Time,
    number: u32,
    next: u32,
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
    fn slot(self) -> u64 {
        self.at().as_ns() >> SLOT
    }
}

#[derive(Copy, Clone, Debug)]
struct Alarm {
    /// When it shall fire; [`Time::MAX`] for never.
    wanted: Time,
    /// The time of its first entry, never later than `wanted`; [`Time::MAX`] without an entry.
    entered: Time,
    /// The time of a second entry, later than the first; [`Time::MAX`] without one.
    kept: Time,
}

const UNSET: Alarm = Alarm {
    wanted: Time::MAX,
    entered: Time::MAX,
    kept: Time::MAX,
};

impl Timers {
    /// `n` alarms, none of them set.
    pub fn new(n: usize) -> Timers {
        Timers {
            alarms: vec![UNSET; n],
            near: Heap::default(),
            slot: 0,
            lists: vec![NONE; SLOTS as usize],
            links: Vec::new(),
            free: NONE,
            listed: 0,
            far: Heap::default(),
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
        self.put(entry);
        self.advance();
    }
    /// No alarm fires before this; [`Time::MAX`] when none is set.
    #[inline]
    pub fn next(&self) -> Time {
        self.near.first().map_or(Time::MAX, Entry::at)
    }
    /// The alarm that may come up next, and later on the way there.
    pub fn coming(&self) -> Option<u32> {
        self.near.first().map(Entry::number)
    }
    /// Where alarm `number` is kept, for whoever prepares what is to come.
    pub fn place(&self, number: u32) -> &impl Sized {
        &self.alarms[number as usize]
    }
    /// The next alarm that is due at `now`; it is no longer set.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        while let Some(entry) = self.near.first().filter(|entry| entry.at() <= now) {
            self.near.remove_first();
            let (at, number) = (entry.at(), entry.number());
            let alarm = &mut self.alarms[number as usize];
            let mut fired = None;
            if at == alarm.entered {
                if alarm.wanted <= at {
                    (alarm.wanted, alarm.entered, alarm.kept) = (Time::MAX, alarm.kept, Time::MAX);
                    fired = Some(number);
                } else if alarm.wanted < alarm.kept {
                    // Too early: back in.
                    alarm.entered = alarm.wanted;
                    let entry = Entry::new(alarm.wanted, number);
                    self.put(entry);
                } else {
                    // Its second entry comes up before it is wanted.
                    (alarm.entered, alarm.kept) = (alarm.kept, Time::MAX);
                }
            }
            self.advance();
            if fired.is_some() {
                return fired;
            }
        }
        None
    }

    /// Puts an entry where it belongs.
    fn put(&mut self, entry: Entry) {
        let slot = entry.slot();
        if slot < self.slot {
            self.near.push(entry);
        } else if slot < self.slot + SLOTS {
            let list = &mut self.lists[(slot % SLOTS) as usize];
            let (at, number, next) = (entry.at(), entry.number(), *list);
            let link = Link { at, number, next };
            if self.free == NONE {
                *list = self.links.len() as u32;
                self.links.push(link);
            } else {
                *list = self.free;
                let place = &mut self.links[self.free as usize];
                self.free = place.next;
                *place = link;
            }
            self.listed += 1;
        } else {
            self.far.push(entry);
        }
    }
    /// Sorts the next slots, if nothing is sorted any more.
    #[inline]
    fn advance(&mut self) {
        if self.near.first().is_none() {
            self.sort_next();
        }
    }
    #[inline(never)]
    fn sort_next(&mut self) {
        while self.near.first().is_none() {
            if self.listed == 0 {
                // Nothing but what lies far ahead, if anything.
                let Some(first) = self.far.first() else {
                    return;
                };
                self.slot = first.slot();
            }
            let list = &mut self.lists[(self.slot % SLOTS) as usize];
            let mut place = std::mem::replace(list, NONE);
            self.slot += 1;
            while place != NONE {
                let link = &mut self.links[place as usize];
                self.near.push(Entry::new(link.at, link.number));
                let next = std::mem::replace(&mut link.next, self.free);
                self.free = std::mem::replace(&mut place, next);
                self.listed -= 1;
            }
            while let Some(entry) = self
                .far
                .first()
                .filter(|entry| entry.slot() < self.slot + SLOTS)
            {
                self.far.remove_first();
                self.put(entry);
            }
        }
    }
}

/// A heap of entries, the least first. It has four children to a node: it is half as deep as with
/// two.
#[derive(Debug, Default)]
struct Heap(Vec<Entry>);

/// Children of a node.
const ARITY: usize = 4;

impl Heap {
    #[inline]
    fn first(&self) -> Option<Entry> {
        self.0.first().copied()
    }
    /// Moves `entry` up from the end to where it belongs.
    fn push(&mut self, entry: Entry) {
        let mut hole = self.0.len();
        self.0.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.0[parent] < entry {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = entry;
    }
    /// Moves the last one down from the place of the first to where it belongs.
    fn remove_first(&mut self) {
        let Some(entry) = self.0.pop().filter(|_| !self.0.is_empty()) else {
            return;
        };
        let heap = &mut self.0;
        let mut hole = 0;
        loop {
            let first = ARITY * hole + 1;
            let least = match heap.get(first..first + ARITY) {
                Some(&[a, b, c, d]) => {
                    let (ab, i) = if b < a { (b, 1) } else { (a, 0) };
                    let (cd, j) = if d < c { (d, 3) } else { (c, 2) };
                    first + if cd < ab { j } else { i }
                }
                _ => match (first..heap.len()).min_by_key(|&child| heap[child]) {
                    Some(least) => least,
                    None => break,
                },
            };
            if entry < heap[least] {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = entry;
    }
}
