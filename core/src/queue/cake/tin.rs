//! One tin: its queues, whose turn it is among them, and what it owes.

use super::cobalt::{Cobalt, Law};
use super::hash::{Hashes, Isolation, Table, Use, QUEUES};
use super::rotation::{Chain, Chains};
use super::shaper::{Pace, Schedule};
use super::tins::{Share, Threshold};
use crate::queue::codel::MTU;
use crate::queue::pool::List;
use crate::queue::Backlog;
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// As what a queue counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Set {
    /// Nobody's.
    None,
    /// Has just begun.
    Sparse,
    /// Used up its turn, and was empty: still sparse, but in the chain of the busy ones.
    SparseWait,
    /// Busy.
    Bulk,
    /// Empty, its law fades.
    Decaying,
}

/// One queue.
#[derive(Clone)]
pub struct Flow {
    pub list: List,
    pub cobalt: Cobalt,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    set: Set,
}

/// A tin.
pub struct Tin {
    threshold: Threshold,
    pub weight: i64,
    pub deficit: i64,
    pub schedule: Schedule,
    pub law: Law,
    pub backlog: Backlog,
    pub flows: Vec<Flow>,
    pub chains: Box<Chains>,
    table: Box<Table>,
    /// Bytes of a turn.
    quantum: u64,
    sparse: u64,
    /// Busy queues.
    pub busy: u64,
}

impl Tin {
    /// Empty; `configure` makes it whole.
    pub fn new(share: &Share, isolation: Isolation) -> Tin {
        let flow = Flow {
            list: List::default(),
            cobalt: Cobalt::default(),
            deficit: 0,
            set: Set::None,
        };
        Tin {
            threshold: share.rate,
            weight: share.weight,
            deficit: 0,
            schedule: Schedule::default(),
            law: Law::new(Span::ZERO, Span::ZERO, Span::ZERO),
            backlog: Backlog::default(),
            flows: alloc::vec![flow; QUEUES],
            chains: Box::default(),
            table: Box::new(Table::new(isolation)),
            quantum: MTU.get(),
            sparse: 0,
            busy: 0,
        }
    }

    /// Sets what follows from the whole rate in bytes per second (0: none) and the round trip.
    pub fn configure(&mut self, rate: u64, rtt: Span) {
        let rate = self.threshold.of(rate);
        self.schedule.pace = Pace::of(rate);
        self.quantum = match rate {
            0 => MTU.get(),
            rate => (rate >> 12).clamp(300, MTU.get()),
        };
        let frame = self.schedule.pace.time(MTU.get());
        let least = Span::us((rtt.as_us() / 20).max(1));
        let target = Span::ns(frame.as_ns() * 3 / 2).max(least);
        let interval = (rtt + (target - least)).max(target + target);
        self.law = Law::new(target, interval, frame);
    }

    /// Is there any queue that may have packets?
    pub fn is_active(&self) -> bool {
        self.sparse + self.busy > 0
    }

    /// The queue of a packet with these hashes.
    #[inline]
    pub fn queue(&mut self, hashes: Hashes) -> usize {
        let flows = &self.flows;
        self.table.queue(hashes, |queue| match flows[queue].set {
            Set::None => Use::Idle,
            Set::Bulk => Use::Busy,
            Set::Sparse | Set::SparseWait | Set::Decaying => Use::Taken,
        })
    }

    /// The bytes of the queue's next turn.
    fn turn(&self, queue: usize, rng: &mut Rng) -> i64 {
        let share = self.quantum * u64::from(65_535 / self.table.load(queue));
        // A fraction of a byte becomes one with that probability.
        ((share + (rng.next_u64() >> 48)) >> 16) as i64
    }

    /// The queue has got a packet.
    #[inline]
    pub fn arrives(&mut self, queue: usize, rng: &mut Rng) {
        match self.flows[queue].set {
            Set::None | Set::Decaying => {
                self.sparse += 1;
                self.flows[queue].set = Set::Sparse;
                self.flows[queue].deficit = self.turn(queue, rng);
                self.chains.to_tail(queue, Chain::New);
            }
            Set::SparseWait => {
                self.sparse -= 1;
                self.grows(queue);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    fn grows(&mut self, queue: usize) {
        self.flows[queue].set = Set::Bulk;
        self.busy += 1;
        self.table.toils(queue);
    }

    /// Is it still the queue's turn? If not it gets one, behind the old ones.
    #[inline]
    pub fn has_turn(&mut self, queue: usize, rng: &mut Rng) -> bool {
        let flow = &mut self.flows[queue];
        if flow.deficit > 0 {
            return true;
        }
        if flow.set == Set::Sparse {
            if flow.list.is_empty() {
                flow.set = Set::SparseWait;
            } else {
                self.sparse -= 1;
                self.grows(queue);
            }
        }
        self.flows[queue].deficit += self.turn(queue, rng);
        self.chains.to_tail(queue, Chain::Old);
        false
    }

    /// The queue has sent so many bytes.
    #[inline]
    pub fn pays(&mut self, queue: usize, bytes: i64) {
        self.flows[queue].deficit -= bytes;
        self.deficit -= bytes;
    }

    /// The queue, at its turn, had no packet.
    pub fn found_empty(&mut self, queue: usize, now: Time) {
        let flow = &mut self.flows[queue];
        flow.cobalt.found_empty(&self.law, now);
        let rests = !flow.cobalt.is_active(now);
        match core::mem::replace(&mut flow.set, if rests { Set::None } else { Set::Decaying }) {
            Set::Sparse | Set::SparseWait => self.sparse -= 1,
            Set::Bulk => {
                self.busy -= 1;
                self.table.rests(queue);
            }
            Set::Decaying | Set::None => {}
        }
        if rests {
            self.chains.leave(queue);
        } else {
            self.chains.to_tail(queue, Chain::Decaying);
        }
    }
}
