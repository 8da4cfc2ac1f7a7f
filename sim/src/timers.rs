//! Numbered timers that fire in the order of time, then of number.
//!
//! The first numbers belong to flows: each flow has [`TIMERS_PER_FLOW`] of them. The first
//! [`FIXED`] fire once, at times that are known before the run. They are one sorted list. The next
//! two can be moved, as all timers with higher numbers. The other numbers of a flow are unused.
//!
//! A TCP timer moves later with nearly every packet and seldom fires. Therefore a move to a later
//! time costs nothing: the entry of the timer stays where it is. If the entry becomes due before
//! the time for which the timer is now set, a new entry is made for that time. A move to an earlier
//! time adds a second entry. An example is a paced sender that moves its timer from the
//! retransmission timeout to its next burst. The entry of the timeout is kept, because the timer is
//! often moved back to it. Each timer therefore has a few entries at most.
//!
//! Entries are sorted shortly before they are due. Time is divided into slots of 131 µs, and an
//! entry is in the list of its slot. When the heap of earlier entries is empty, the entries of the
//! next slot move into it. Entries that are added later for this slot go to the heap, too. This
//! heap is small enough for the innermost cache. With ten thousand flows, a heap of all entries
//! would cost one cache miss per level. Entries beyond the last slot (268 ms, longer than most
//! timeouts) are in a second heap.

use narrows_core::units::Time;

/// Numbers of timers per flow.
pub const TIMERS_PER_FLOW: u32 = 8;
/// Number of fixed timers of a flow.
pub const FIXED: u32 = 4;
/// Number of timers of a flow that can be moved.
const MOVABLE: u32 = 2;

/// A set of timers, identified by number.
#[derive(Debug, Default)]
pub struct Timers {
    /// Entries of fixed timers; the last fires first.
    fixed: Vec<Entry>,
    /// Number of the first timer that belongs to no flow.
    first_other: u32,
    /// The timers of flows that can be moved. With lookahead, none of them is ever set, and the
    /// list is empty.
    of_flows: Vec<Alarm>,
    others: Vec<Alarm>,
    /// Entries of slots below `slot`.
    near: Heap,
    /// The first slot that is still a list.
    slot: u64,
    /// For each slot from `slot` on (modulo the number of slots), the first entry of its list.
    lists: Vec<u32>,
    /// The entries of all lists. Free places form a list, too.
    links: Vec<Link>,
    free: u32,
    /// Number of entries in lists.
    listed: usize,
    /// Entries of slots that are later than those of the lists.
    far: Heap,
}

/// Binary logarithm of a slot's length in ns.
const SLOT: u32 = 17;
const SLOTS: u64 = 2048;
/// The memory of lists with fewer entries is kept.
const LEAST_LINKS: usize = 1024;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// An entry in a list.
#[derive(Copy, Clone, Debug)]
struct Link {
    at: Time,
    number: u32,
    next: u32,
}

/// Time and number of a timer in one integer, so that one operation compares two.
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
    /// The time for which the timer is set; [`Time::MAX`] if it is not set.
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

/// Whether timer `number` of a flow can be moved.
fn is_movable(number: u32) -> bool {
    (FIXED..FIXED + MOVABLE).contains(&(number % TIMERS_PER_FLOW))
}

/// The place of timer `number` of a flow among those that can be moved.
fn place_of(number: u32) -> usize {
    (number / TIMERS_PER_FLOW * MOVABLE + number % MOVABLE) as usize
}

impl Timers {
    /// The timers of `flows` flows, and `others` more; none of them is set.
    pub fn new(flows: usize, others: usize) -> Timers {
        Timers {
            fixed: Vec::new(),
            first_other: flows as u32 * TIMERS_PER_FLOW,
            of_flows: Vec::new(),
            others: vec![UNSET; others],
            near: Heap::default(),
            slot: 0,
            lists: vec![NONE; SLOTS as usize],
            links: Vec::new(),
            free: NONE,
            listed: 0,
            far: Heap::default(),
        }
    }
    /// As many timers, of which those that `keep` selects are set as these are.
    pub fn selected(&self, keep: impl Fn(u32) -> bool) -> Timers {
        let flows = self.first_other / TIMERS_PER_FLOW;
        let mut timers = Timers::new(flows as usize, self.others.len());
        timers.add(self, &keep);
        timers
    }
    /// Sets the timers that `keep` selects as `others` are set.
    pub fn add(&mut self, others: &Timers, keep: impl Fn(u32) -> bool) {
        let movable = (0..others.first_other).filter(|number| is_movable(*number));
        let of_flows = movable.zip(&others.of_flows);
        for (number, alarm) in of_flows.chain((others.first_other..).zip(&others.others)) {
            if alarm.wanted < Time::MAX && keep(number) {
                self.set(number, Some(alarm.wanted));
            }
        }
        let fixed = others.fixed.iter().filter(|entry| keep(entry.number()));
        self.fixed.extend(fixed);
        self.sort_fixed();
    }
    /// Extends the set to at least `n` numbers; new timers are not set.
    pub fn grow(&mut self, n: usize) {
        let others = n - self.first_other as usize;
        if others > self.others.len() {
            self.others.resize(others, UNSET);
        }
    }
    /// Adds the fixed timer `number`, which fires at `at`. Call [`sort_fixed`](Self::sort_fixed)
    /// after the last one.
    pub fn fix(&mut self, number: u32, at: Time) {
        self.fixed.push(Entry::new(at, number));
    }
    /// Sorts the fixed timers by time and number.
    pub fn sort_fixed(&mut self) {
        self.fixed.sort_unstable_by(|a, b| b.cmp(a));
    }
    /// Removes all fixed timers.
    pub fn cancel_all(&mut self) {
        self.fixed = Vec::new();
    }
    /// The alarm of timer `number`, which can be moved.
    #[inline(always)]
    fn alarm(&mut self, number: u32) -> &mut Alarm {
        match number.checked_sub(self.first_other) {
            Some(other) => &mut self.others[other as usize],
            None => &mut self.of_flows[place_of(number)],
        }
    }
    /// Sets timer `number`, which can be moved, to `at`, or clears it.
    #[inline]
    pub fn set(&mut self, number: u32, at: Option<Time>) {
        if self.of_flows.is_empty() && number < self.first_other {
            if at.is_none() {
                return;
            }
            self.add_timers_of_flows();
        }
        let alarm = self.alarm(number);
        alarm.wanted = at.unwrap_or(Time::MAX);
        if alarm.wanted < alarm.entered {
            self.enter(number);
        }
    }
    #[cold]
    fn add_timers_of_flows(&mut self) {
        let flows = self.first_other / TIMERS_PER_FLOW;
        self.of_flows = vec![UNSET; (flows * MOVABLE) as usize];
    }
    #[inline(never)]
    fn enter(&mut self, number: u32) {
        let alarm = self.alarm(number);
        // If the timer already has two entries, the middle one of three becomes invalid. That is
        // detected when it is due.
        if alarm.kept == Time::MAX {
            alarm.kept = alarm.entered;
        }
        alarm.entered = alarm.wanted;
        let entry = Entry::new(alarm.wanted, number);
        self.put(entry);
        self.advance();
    }
    /// A time before which no timer fires; [`Time::MAX`] if there are no entries.
    #[inline]
    pub fn next(&self) -> Time {
        let movable = self.near.first().map_or(Time::MAX, Entry::at);
        movable.min(self.fixed.last().map_or(Time::MAX, |entry| entry.at()))
    }
    /// The movable timer whose entry is due next. The timer itself may have been moved to a later
    /// time.
    pub fn coming(&self) -> Option<u32> {
        self.near.first().map(Entry::number)
    }
    /// The record of timer `number` of a flow, for prefetching.
    pub fn place(&self, number: u32) -> &impl Sized {
        self.of_flows.get(place_of(number)).unwrap_or(&UNSET)
    }
    /// Clears and returns the next timer that is due at `now`.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        while let Some(entry) = self.near.first().filter(|entry| entry.at() <= now) {
            if self.fixed.last().is_some_and(|fixed| *fixed < entry) {
                break;
            }
            self.near.remove_first();
            let (at, number) = (entry.at(), entry.number());
            let alarm = self.alarm(number);
            let mut fired = None;
            if at == alarm.entered {
                if alarm.wanted <= at {
                    (alarm.wanted, alarm.entered, alarm.kept) = (Time::MAX, alarm.kept, Time::MAX);
                    fired = Some(number);
                } else if alarm.wanted < alarm.kept {
                    // The timer was moved to a later time.
                    alarm.entered = alarm.wanted;
                    let entry = Entry::new(alarm.wanted, number);
                    self.put(entry);
                } else {
                    // The second entry is due no later than the timer.
                    (alarm.entered, alarm.kept) = (alarm.kept, Time::MAX);
                }
            }
            self.advance();
            if fired.is_some() {
                return fired;
            }
        }
        self.pop_fixed(now)
    }
    /// Removes and returns the next fixed timer, if it is due at `now`. Frees the memory of timers
    /// that have fired.
    fn pop_fixed(&mut self, now: Time) -> Option<u32> {
        let entry = *self.fixed.last().filter(|entry| entry.at() <= now)?;
        self.fixed.pop();
        if self.fixed.len() <= self.fixed.capacity() / 4 {
            self.fixed.shrink_to_fit();
        }
        Some(entry.number())
    }

    /// Frees the memory of the lists, which are empty, if they were once long, as before the start
    /// of all flows.
    fn release_links(&mut self) {
        if self.links.len() > LEAST_LINKS {
            (self.links, self.free) = (Vec::new(), NONE);
        }
    }

    /// Inserts an entry into the list of its slot, or into one of the heaps.
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
    /// Sorts the entries of the next slots, if no sorted entry is left.
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
                self.release_links();
                // Only entries beyond the last slot may be left.
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

/// A heap of entries, the least first. Each node has four children, which halves the depth compared
/// with two.
#[derive(Debug, Default)]
struct Heap(Vec<Entry>);

/// Children of a node.
const ARITY: usize = 4;

impl Heap {
    #[inline]
    fn first(&self) -> Option<Entry> {
        self.0.first().copied()
    }
    /// Adds `entry` at the end, and moves it up to its place.
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
    /// Removes the least entry: the last one takes its place, and moves down.
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
