//! What the flows of one end get and what they send in a [turn](crate::world), flow by flow and yet
//! in the order of time.
//!
//! Within a turn no flow of an end sees what another does there, so each can do all of its own at
//! once: then its state is fetched once for a turn and not once for each packet. Only on the path
//! they meet again. What they send is sorted for that into the order in which it would have been
//! sent event by event: by time; at one instant first what arrivals caused, in their order, and
//! then what timers did, by their number.

use crate::packet::Packet;
use crate::prefetch::prefetch;
use narrows_core::units::{Span, Time};
use std::collections::VecDeque;

/// What is on its way to one end, in the order of arrival and each with its time.
pub(crate) type Arrivals = VecDeque<(Time, Packet)>;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// The place of what a timer causes, behind that of all arrivals.
const TIMER: u32 = 1 << 31;

/// What the flows of one end have to do.
#[derive(Default)]
pub(crate) struct Inbox {
    alarms: Alarms,
    /// What has arrived for each flow.
    flows: Vec<Agenda>,
    /// Of each arrival of this turn the next one of its flow.
    next: Vec<u32>,
    /// Those that have something to do in this turn.
    busy: Vec<u32>,
}

/// What has arrived for one flow and waits: the places of the first and the last one.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Agenda {
    pub first: u32,
    last: u32,
}

/// Nothing.
const IDLE: Agenda = Agenda {
    first: NONE,
    last: NONE,
};

/// When each flow's timer fires; [`Time::MAX`] for never. Within a turn they need no order, so
/// those that fire are simply looked for, block by block, and blocks where none can fire are passed
/// over.
#[derive(Debug, Default)]
struct Alarms {
    due: Vec<Time>,
    /// No timer of a block fires before this.
    blocks: Vec<Time>,
    /// None at all does.
    next: Time,
}

/// Flows of a block: their times fill eight lines of the cache.
const BLOCK: usize = 64;

impl Alarms {
    fn new(n: usize) -> Alarms {
        Alarms {
            due: vec![Time::MAX; n],
            blocks: vec![Time::MAX; n.div_ceil(BLOCK)],
            next: Time::MAX,
        }
    }
    #[inline]
    fn set(&mut self, id: u32, due: Time) {
        let block = &mut self.blocks[id as usize / BLOCK];
        *block = due.min(*block);
        self.next = due.min(self.next);
        self.due[id as usize] = due;
    }
    /// Those that fire before `end`, all of which are to be set again.
    fn fire(&mut self, end: Time, mut fires: impl FnMut(u32)) {
        if self.next >= end {
            return;
        }
        self.next = Time::MAX;
        for (number, (block, due)) in self
            .blocks
            .iter_mut()
            .zip(self.due.chunks(BLOCK))
            .enumerate()
        {
            if *block < end {
                *block = Time::MAX;
                for (i, due) in due.iter().enumerate() {
                    if *due < end {
                        fires((number * BLOCK + i) as u32);
                    } else {
                        *block = (*block).min(*due);
                    }
                }
            }
            self.next = self.next.min(*block);
        }
    }
}

impl Inbox {
    /// Nothing to do for any of `n` flows.
    pub fn new(n: usize) -> Inbox {
        Inbox {
            alarms: Alarms::new(n),
            flows: vec![IDLE; n],
            next: Vec::new(),
            busy: Vec::new(),
        }
    }
    /// No timer fires before this.
    pub fn next(&self) -> Time {
        self.alarms.next
    }
    /// Sets the timer of a flow, or takes it back.
    pub fn set(&mut self, id: u32, due: Option<Time>) {
        self.alarms.set(id, due.unwrap_or(Time::MAX));
    }
    /// The next packet arrives, for a flow or for none. Answers its
    /// [place](Outbox::caused_by_arrival).
    #[inline]
    pub fn arrive(&mut self, flow: Option<u32>) -> u32 {
        let place = self.next.len() as u32;
        self.next.push(NONE);
        if let Some(id) = flow {
            let agenda = &mut self.flows[id as usize];
            if agenda.first == NONE {
                agenda.first = place;
                self.busy.push(id);
            } else {
                self.next[agenda.last as usize] = place;
            }
            agenda.last = place;
        }
        place
    }
    /// How many have.
    pub fn arrived(&self) -> usize {
        self.next.len()
    }
    /// The agenda of whom a packet is for that arrives soon is fetched into the cache.
    #[inline]
    pub fn fetch_agenda_of(&self, packet: &Packet) {
        if let Some(agenda) = self.flows.get(packet.flow() as usize) {
            prefetch(agenda);
        }
    }
    /// Nothing more arrives in this turn: which timers fire before `end`?
    pub fn wake(&mut self, end: Time) {
        self.alarms.fire(end, |id| {
            if self.flows[id as usize].first == NONE {
                self.busy.push(id);
            }
        });
    }
    /// The `n`th flow with something to do.
    #[inline]
    pub fn busy(&self, n: usize) -> Option<u32> {
        self.busy.get(n).copied()
    }
    /// The agenda of the `n`th of them is fetched into the cache, and its alarm.
    #[inline]
    pub fn fetch_agenda(&self, n: usize) {
        if let Some(id) = self.busy(n) {
            prefetch(&self.flows[id as usize]);
            prefetch(&self.alarms.due[id as usize]);
        }
    }
    /// The first arrival of the `n`th of them is, likewise.
    #[inline]
    pub fn fetch_arrival(&self, n: usize, arrivals: &Arrivals) {
        if let Some(arrival) = self.first_of(n, arrivals) {
            prefetch(arrival);
        }
    }
    /// The first arrival of the `n`th of them.
    #[inline]
    pub fn first_of<'a>(&self, n: usize, arrivals: &'a Arrivals) -> Option<&'a (Time, Packet)> {
        arrivals.get(self.flows[self.busy(n)? as usize].first as usize)
    }
    /// What has arrived for flow `id`, and when its timer fires.
    #[inline]
    pub fn agenda(&self, id: u32) -> (Agenda, Time) {
        (self.flows[id as usize], self.alarms.due[id as usize])
    }
    /// The next arrival is taken off an agenda.
    #[inline]
    pub fn take_arrival(&self, agenda: &mut Agenda) {
        agenda.first = self.next[agenda.first as usize];
    }
    /// Flow `id` has done all that it had to do, and its timer fires at `due`.
    #[inline]
    pub fn done(&mut self, id: u32, due: Time) {
        self.flows[id as usize] = IDLE;
        self.alarms.set(id, due);
    }
    /// All have.
    pub fn clear(&mut self) {
        self.next.clear();
        self.busy.clear();
    }
}

/// What one end has sent and the path is yet to be told of.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// When the turn began.
    began: Time,
    /// The place among all of its instant of what sends now, and has it sent already?
    place: u32,
    sent: bool,
    packets: Vec<Packet>,
    bursts: Vec<Burst>,
    /// For sorting them.
    sorted: Vec<Burst>,
    slots: Vec<u32>,
}

/// Packets that were sent at once, in one integer for the sake of sorting: when, counted from the
/// beginning of the turn, the place at that instant, the first packet and their number, 32 bits
/// each.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Burst(u128);

/// So many places ahead what comes is fetched into the cache.
pub(crate) const AHEAD: usize = 8;
/// More in one slot are not sorted one by one.
const CROWDED: u32 = 32;

impl Burst {
    fn new(after: Span, place: u32, first: usize) -> Burst {
        Burst(u128::from(after.as_ns() << 32 | u64::from(place)) << 64 | (first as u128) << 32 | 1)
    }
    fn after(self) -> Span {
        Span::ns((self.0 >> 96) as u64)
    }
    /// The first and their number.
    fn packets(self) -> (usize, usize) {
        ((self.0 >> 32) as u32 as usize, self.0 as u32 as usize)
    }
}

impl Outbox {
    /// A turn begins.
    pub fn begin(&mut self, now: Time) {
        debug_assert!(self.is_empty());
        self.began = now;
    }
    /// Is nothing in it?
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// What is sent now was caused by the arrival with this place.
    #[inline]
    pub fn caused_by_arrival(&mut self, place: u32) {
        (self.place, self.sent) = (place, false);
    }
    /// What is sent now was caused by the timer of this number.
    #[inline]
    pub fn caused_by_timer(&mut self, number: u32) {
        (self.place, self.sent) = (TIMER | number, false);
    }
    /// A packet is sent.
    #[inline]
    pub fn push(&mut self, now: Time, packet: Packet) {
        match self.bursts.last_mut() {
            Some(burst) if self.sent => burst.0 += 1,
            _ => {
                debug_assert!(now >= self.began);
                let burst = Burst::new(now.since(self.began), self.place, self.packets.len());
                self.bursts.push(burst);
                self.sent = true;
            }
        }
        self.packets.push(packet);
    }
    /// Everything in the order of time.
    #[inline]
    pub fn drain(&mut self, mut push: impl FnMut(Time, Packet)) {
        self.sort();
        for (i, burst) in self.sorted.iter().enumerate() {
            let (first, number) = burst.packets();
            if let Some(ahead) = self.sorted.get(i + AHEAD) {
                prefetch(&self.packets[ahead.packets().0]);
            }
            for packet in &self.packets[first..first + number] {
                push(self.began + burst.after(), *packet);
            }
        }
        self.bursts.clear();
        self.sorted.clear();
        self.packets.clear();
        self.sent = false;
    }
    /// Sorts by slots of time first, as many as there are bursts: hardly any is out of its place
    /// then.
    fn sort(&mut self) {
        if self.bursts.is_sorted() {
            return std::mem::swap(&mut self.bursts, &mut self.sorted);
        }
        let last = self
            .bursts
            .iter()
            .map(|burst| burst.after().as_ns())
            .max()
            .unwrap_or(0);
        let slots = self.bursts.len().next_power_of_two();
        let shift = (u64::BITS - last.leading_zeros()).saturating_sub(slots.ilog2());
        let slot = |burst: &Burst| (burst.after().as_ns() >> shift) as usize;
        self.slots.clear();
        self.slots.resize(slots, 0);
        for burst in &self.bursts {
            self.slots[slot(burst)] += 1;
        }
        let (mut end, mut most) = (0, 0);
        for number in &mut self.slots {
            most = most.max(*number);
            end += *number;
            *number = end;
        }
        self.sorted.resize(self.bursts.len(), Burst(0));
        for burst in self.bursts.iter().rev() {
            let place = &mut self.slots[slot(burst)];
            *place -= 1;
            self.sorted[*place as usize] = *burst;
        }
        if most > CROWDED {
            return self.sorted.sort_unstable();
        }
        for i in 1..self.sorted.len() {
            let (burst, mut to) = (self.sorted[i], i);
            while to > 0 && burst < self.sorted[to - 1] {
                self.sorted[to] = self.sorted[to - 1];
                to -= 1;
            }
            self.sorted[to] = burst;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_core::rng::Rng;

    /// Alarms that are set, moved and taken back at random, beside those that a plain list would
    /// fire; each is set again.
    #[test]
    fn alarms_fire_in_the_turn_they_are_due_in() {
        let mut rng = Rng::named(1, "alarms");
        const N: u64 = 5 * BLOCK as u64 - 7;
        let mut alarms = Alarms::new(N as usize);
        let mut due = vec![Time::MAX; N as usize];
        let mut later = |end: u64| match rng.below(4) {
            0 => Time::MAX,
            n => Time::from_ns(end + rng.below(10u64.pow(n as u32))),
        };
        let mut fired_ever = 0;
        for end in (0..4000).step_by(40) {
            for (id, due) in (0..).zip(&mut due) {
                if (u64::from(id) * 31 + end) % 7 == 0 {
                    *due = later(end);
                    alarms.set(id, *due);
                }
            }
            assert!(alarms.next <= *due.iter().min().unwrap());
            let before = Time::from_ns(end + 40);
            let mut fired = Vec::new();
            alarms.fire(before, |id| fired.push(id as usize));
            let expected: Vec<usize> = (0..due.len()).filter(|id| due[*id] < before).collect();
            assert_eq!(fired, expected);
            for id in fired {
                fired_ever += 1;
                due[id] = later(end + 40);
                alarms.set(id as u32, due[id]);
            }
        }
        assert!(fired_ever > 1000);
    }

    /// What flows send one after the other comes out by time, and at one instant arrivals' first,
    /// by their place.
    #[test]
    fn what_was_sent_comes_out_in_the_order_of_events() {
        let mut rng = Rng::named(1, "post");
        // Few instants for many bursts, and many for few.
        for (bursts, instants) in [(0, 1), (1, 1), (50, 3), (500, 3), (500, 1_000_000)] {
            let (mut outbox, mut expected) = (Outbox::default(), Vec::new());
            let began = Time::from_ns(7_000_000);
            outbox.begin(began);
            for place in 0..bursts {
                let (after, timer) = (rng.below(instants), rng.below(2) == 1);
                let (at, place) = (began + Span::ns(after), (place * 7919 % 1_000_003) as u32);
                if timer {
                    outbox.caused_by_timer(place);
                } else {
                    outbox.caused_by_arrival(place);
                }
                for number in 0..=rng.below(3) {
                    outbox.push(at, Packet::ping(place, number));
                    expected.push((at, timer, place, number));
                }
            }
            expected.sort_unstable();
            let mut found = Vec::new();
            outbox.drain(|at, packet| found.push((at, packet.flow(), packet.number())));
            let expected: Vec<_> = expected
                .iter()
                .map(|(at, _, flow, number)| (*at, *flow, *number))
                .collect();
            assert!(found == expected, "{bursts} bursts at {instants} instants");
            assert!(outbox.is_empty());
        }
    }
}
