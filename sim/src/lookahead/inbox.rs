//! The events of one end of the path in a window (arrivals and timers), sorted by flow. The timers
//! of both ends are kept between windows.

use crate::packet::Packet;
use crate::prefetch::prefetch;
use narrows_core::net::Port;
use narrows_core::units::Time;
use std::collections::VecDeque;

/// Packets on their way to one end, in the order of arrival, each with its time of arrival.
pub(crate) type Arrivals = VecDeque<(Time, Packet)>;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The timers of both ends, and the events of one end in the present window.
#[derive(Default)]
pub(crate) struct Inbox {
    /// The timers of the end at each port.
    alarms: [Alarms; 2],
    /// The arrivals of each flow.
    flows: Vec<Agenda>,
    /// The runs of this window, each at the place of its first arrival.
    runs: Vec<Run>,
    /// Flows with events in this window.
    busy: Vec<u32>,
}

/// Neighbouring arrivals of one flow.
#[derive(Copy, Clone, Default, Debug)]
struct Run {
    /// Place of the last arrival.
    last: u32,
    /// Place of the next run of the flow.
    next: u32,
}

/// The arrivals of one flow that are not handled yet: the places of the first and the last run.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Agenda {
    pub first: u32,
    last: u32,
}

/// No arrival.
const IDLE: Agenda = Agenda {
    first: NONE,
    last: NONE,
};

/// Time of each flow's timer; [`Time::MAX`] for none. Within a window, timers need no order.
/// Therefore those that fire are found by a search, which skips blocks in which none can fire.
#[derive(Debug, Default)]
struct Alarms {
    due: Vec<Time>,
    /// For each block, a time before which no timer fires.
    blocks: Vec<Time>,
    /// A time before which no timer of any block fires.
    next: Time,
}

/// Number of flows per block. The times of a block fill eight cache lines.
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
    /// Calls `fires` for each timer before `end`. The caller must set these timers again
    /// afterwards.
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
    /// An inbox for `n` flows, without events.
    pub fn new(n: usize) -> Inbox {
        Inbox {
            alarms: [Alarms::new(n), Alarms::new(n)],
            flows: vec![IDLE; n],
            runs: Vec::new(),
            busy: Vec::new(),
        }
    }
    /// A time before which no timer fires.
    pub fn next(&self) -> Time {
        self.alarms[0].next.min(self.alarms[1].next)
    }
    /// Sets the timer of a flow at the end of `port`, or clears it.
    pub fn set(&mut self, port: Port, id: u32, due: Option<Time>) {
        self.alarms[usize::from(port)].set(id, due.unwrap_or(Time::MAX));
    }
    /// Adds the timers of other flows.
    pub fn add(&mut self, others: &Inbox) {
        for (alarms, others) in self.alarms.iter_mut().zip(&others.alarms) {
            for (due, id) in others.due.iter().zip(0..) {
                if *due < Time::MAX {
                    alarms.set(id, *due);
                }
            }
        }
    }
    /// Begins a window with `n` arrivals, whose [places](super::Outbox::caused_by_arrival) are 0 to
    /// `n − 1`.
    pub fn begin(&mut self, n: usize) {
        self.runs.clear();
        self.runs.resize(n, Run::default());
    }
    /// Records that the arrivals from place `first` to `last` belong to flow `id`.
    #[inline]
    pub fn arrive(&mut self, id: u32, first: u32, last: u32) {
        self.runs[first as usize] = Run { last, next: NONE };
        let agenda = &mut self.flows[id as usize];
        if agenda.first == NONE {
            agenda.first = first;
            self.busy.push(id);
        } else {
            self.runs[agenda.last as usize].next = first;
        }
        agenda.last = first;
    }
    /// Number of arrivals in this window.
    pub fn arrived(&self) -> usize {
        self.runs.len()
    }
    /// Prefetches the agenda of the flow of a packet that arrives soon.
    #[inline]
    pub fn prefetch_agenda_of(&self, packet: &Packet) {
        if let Some(agenda) = self.flows.get(packet.flow() as usize) {
            prefetch(agenda);
        }
    }
    /// Called when all arrivals of the window are recorded. Adds the flows whose timers fire before
    /// `end`.
    pub fn wake<const PORT: Port>(&mut self, end: Time) {
        self.alarms[usize::from(PORT)].fire(end, |id| {
            if self.flows[id as usize].first == NONE {
                self.busy.push(id);
            }
        });
    }
    /// The `n`th flow with events in this window.
    #[inline]
    pub fn busy(&self, n: usize) -> Option<u32> {
        self.busy.get(n).copied()
    }
    /// Prefetches the agenda and the timer of the `n`th flow with events.
    #[inline]
    pub fn prefetch_agenda<const PORT: Port>(&self, n: usize) {
        if let Some(id) = self.busy(n) {
            prefetch(&self.flows[id as usize]);
            prefetch(&self.alarms[usize::from(PORT)].due[id as usize]);
        }
    }
    /// Prefetches the first arrival of the `n`th flow with events.
    #[inline]
    pub fn prefetch_arrival(&self, n: usize, arrivals: &Arrivals) {
        if let Some(arrival) = self.first_of(n, arrivals) {
            prefetch(arrival);
        }
    }
    /// The first arrival of the `n`th flow with events.
    #[inline]
    pub fn first_of<'a>(&self, n: usize, arrivals: &'a Arrivals) -> Option<&'a (Time, Packet)> {
        arrivals.get(self.flows[self.busy(n)? as usize].first as usize)
    }
    /// The arrivals of flow `id`, and the time of its timer.
    #[inline]
    pub fn agenda<const PORT: Port>(&self, id: u32) -> (Agenda, Time) {
        let due = self.alarms[usize::from(PORT)].due[id as usize];
        (self.flows[id as usize], due)
    }
    /// Removes the first run from an agenda. Returns the place of its first arrival, and the
    /// arrivals; none if the agenda is empty.
    #[inline]
    pub fn take_run<'a>(
        &self,
        agenda: &mut Agenda,
        arrivals: &'a Arrivals,
    ) -> (u32, &'a [(Time, Packet)]) {
        let first = agenda.first;
        let Some(run) = self.runs.get(first as usize) else {
            return (first, &[]);
        };
        agenda.first = run.next;
        // A run does not continue from one slice to the other.
        let (front, back) = arrivals.as_slices();
        let (from, to) = (first as usize, run.last as usize + 1);
        let run = if from < front.len() {
            &front[from..to]
        } else {
            &back[from - front.len()..to - front.len()]
        };
        (first, run)
    }
    /// Records that all events of flow `id` are handled, and that its timer fires at `due`.
    #[inline]
    pub fn done<const PORT: Port>(&mut self, id: u32, due: Time) {
        self.flows[id as usize] = IDLE;
        self.alarms[usize::from(PORT)].set(id, due);
    }
    /// Ends the window: all its events are handled.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.busy.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_core::rng::Rng;

    /// Sets, moves and clears alarms at random, and compares them with a plain list.
    #[test]
    fn alarms_fire_in_the_window_they_are_due_in() {
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
}
