//! The packets that one end of the path sends during a window, sorted into the order of a run event
//! by event.
//!
//! In a window, an end handles all events of one flow before those of the next one. Before the
//! packets enter the path, they are sorted by time. At one instant, packets caused by arrivals come
//! first, in the order of the arrivals. Packets caused by timers follow, in the order of the
//! timers' numbers.

use super::AHEAD;
use crate::packet::Packet;
use crate::prefetch::prefetch;
use narrows_core::units::{Span, Time};

/// Bit in the place of packets caused by timers, which sorts them after those caused by arrivals.
const TIMER: u32 = 1 << 31;

/// The packets that one end has sent and that have not entered the path yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Begin of the window.
    began: Time,
    /// Place of the present event among those of its instant.
    place: u32,
    sent: bool,
    packets: Vec<Packet>,
    bursts: Vec<Burst>,
    /// The bursts in sorted order.
    sorted: Vec<Burst>,
    slots: Vec<u32>,
    /// Maximum number of packets in the last windows.
    recent: usize,
}

/// Packets sent by one event, as one integer for sorting. The integer has four parts of 32 bits.
/// They are the time since the begin of the window (ns), the place at that instant, the first
/// packet's index, and the number of packets.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Burst(u128);

/// Number of windows after which a large window is mostly forgotten.
const RECENT_WINDOWS: usize = 64;
/// An outbox for fewer packets never shrinks.
const LEAST_CAPACITY: usize = 256;

/// Largest number of bursts in a slot that is sorted by insertion alone.
const CROWDED: u32 = 32;

impl Burst {
    fn new(after: Span, place: u32, first: usize, packets: usize) -> Burst {
        let order = after.as_ns() << 32 | u64::from(place);
        let position = (first as u64) << 32 | packets as u64;
        Burst(u128::from(order) << 64 | u128::from(position))
    }
    /// Time and place, by which bursts of several outboxes are sorted.
    fn order(self) -> u64 {
        (self.0 >> 64) as u64
    }
    fn place(self) -> u32 {
        (self.0 >> 64) as u32
    }
    fn after(self) -> Span {
        Span::ns((self.0 >> 96) as u64)
    }
    /// Index of the first packet, and their number.
    fn packets(self) -> (usize, usize) {
        ((self.0 >> 32) as u32 as usize, self.0 as u32 as usize)
    }
}

impl Outbox {
    /// Begins a window at `now`.
    pub fn begin(&mut self, now: Time) {
        debug_assert!(self.is_empty());
        self.began = now;
    }
    /// Whether there are no packets in the outbox.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Records that the next packets are caused by the arrival with this place.
    #[inline]
    pub fn caused_by_arrival(&mut self, place: u32) {
        (self.place, self.sent) = (place, false);
    }
    /// Records that the next packets are caused by the timer with this number.
    #[inline]
    pub fn caused_by_timer(&mut self, number: u32) {
        (self.place, self.sent) = (TIMER | number, false);
    }
    /// Adds a packet that is sent at `now`.
    #[inline]
    pub fn push(&mut self, now: Time, packet: Packet) {
        self.add(now, self.packets.len(), 1);
        self.packets.push(packet);
    }
    /// Adds the segments of a super-packet of data that is sent at `now`.
    #[inline]
    pub fn push_segments(&mut self, now: Time, whole: Packet) {
        let first = self.packets.len();
        whole.divide(|segment| self.packets.push(segment));
        self.add(now, first, self.packets.len() - first);
    }
    /// Adds the `n` packets from the index `first` on to those of the present event.
    #[inline(always)]
    fn add(&mut self, now: Time, first: usize, n: usize) {
        match self.bursts.last_mut() {
            Some(burst) if self.sent => burst.0 += n as u128,
            _ => {
                debug_assert!(now >= self.began);
                let after = now.since(self.began);
                self.bursts.push(Burst::new(after, self.place, first, n));
                self.sent = true;
            }
        }
    }
    /// Removes all packets, and calls `push` with those of each event, in the order of time.
    #[inline]
    pub fn drain(&mut self, mut push: impl FnMut(Time, &[Packet])) {
        self.sort();
        for (i, burst) in self.sorted.iter().enumerate() {
            let (first, number) = burst.packets();
            if let Some(ahead) = self.sorted.get(i + AHEAD) {
                prefetch(&self.packets[ahead.packets().0]);
            }
            push(
                self.began + burst.after(),
                &self.packets[first..first + number],
            );
        }
        self.clear();
    }
    /// As [`drain`](Self::drain), for the packets of two outboxes, whose windows begin at one time.
    pub fn drain_both(&mut self, other: &mut Outbox, mut push: impl FnMut(Time, &[Packet])) {
        debug_assert!(self.is_empty() || other.is_empty() || self.began == other.began);
        self.sort();
        other.sort();
        let (mut here, mut there) = (0, 0);
        loop {
            let (outbox, next) = match (self.sorted.get(here), other.sorted.get(there)) {
                (Some(own), Some(its)) if own.order() < its.order() => (&*self, &mut here),
                (Some(_), None) => (&*self, &mut here),
                (_, Some(_)) => (&*other, &mut there),
                (None, None) => break,
            };
            let burst = outbox.sorted[*next];
            if let Some(ahead) = outbox.sorted.get(*next + AHEAD) {
                let (first, number) = ahead.packets();
                prefetch(&outbox.packets[first..first + number]);
            }
            *next += 1;
            let (first, number) = burst.packets();
            push(
                outbox.began + burst.after(),
                &outbox.packets[first..first + number],
            );
        }
        self.clear();
        other.clear();
    }
    /// Stores in each ACK its place among those that are sent at the same time.
    pub fn number(&mut self) {
        for burst in &self.bursts {
            // Places of packets caused by timers stay above those of packets caused by arrivals.
            let place = burst.place();
            let place = place & !TIMER | (place & TIMER) >> 1;
            let (first, number) = burst.packets();
            for packet in &mut self.packets[first..first + number] {
                *packet = packet.with_place(place);
            }
        }
    }
    fn clear(&mut self) {
        self.shrink();
        self.bursts.clear();
        self.sorted.clear();
        self.packets.clear();
        self.sent = false;
    }
    /// Frees most of the memory that only a much earlier window needed, such as the start of all
    /// flows.
    fn shrink(&mut self) {
        let forgotten = self.recent / RECENT_WINDOWS;
        self.recent = self.packets.len().max(self.recent - forgotten);
        if self.packets.capacity() > 4 * self.recent.max(LEAST_CAPACITY) {
            self.packets.shrink_to(2 * self.recent);
            for bursts in [&mut self.bursts, &mut self.sorted] {
                bursts.shrink_to(2 * self.recent);
            }
            self.slots.shrink_to(2 * self.recent);
        }
    }
    /// Sorts the bursts: first into about as many slots of time as there are bursts, then by
    /// insertion. Until the outbox is drained, no packet may be added.
    pub fn sort(&mut self) {
        if !self.sorted.is_empty() {
            return;
        }
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
            // The timers of many flows fire at the same tick.
            let ends = self.slots[1..].iter().copied().chain([end]);
            for (first, end) in self.slots.iter().zip(ends) {
                if end - first > CROWDED {
                    self.sorted[*first as usize..end as usize].sort_unstable();
                }
            }
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

    /// Packets sent flow by flow are drained in the order of time. At one instant, those of
    /// arrivals come first, by their place.
    #[test]
    fn packets_leave_the_outbox_in_the_order_of_events() {
        let mut rng = Rng::named(1, "outbox");
        // Few different times for many bursts, and many for few.
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
            outbox.drain(|at, burst| {
                found.extend(burst.iter().map(|p| (at, p.flow(), p.number())));
            });
            let expected: Vec<_> = expected
                .iter()
                .map(|(at, _, flow, number)| (*at, *flow, *number))
                .collect();
            assert!(found == expected, "{bursts} bursts at {instants} instants");
            assert!(outbox.is_empty());
        }
    }
}
