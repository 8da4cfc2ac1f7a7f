//! One tin: its queues, whose turn it is among them, and what it owes.

use super::cobalt::{Cobalt, Law};
use super::hash::{Hashes, Isolation, Table, Use, QUEUES};
use super::rotation::{Chain, Chains, FARTHEST};
use super::shaper::{Pace, Schedule};
use super::tins::{Share, Threshold};
use crate::queue::codel::MTU;
use crate::queue::pool::List;
use crate::queue::Backlog;
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::boxed::Box;

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

/// A queue that lacks fewer turns than this is asked again at each of them, as in Linux: a turn is short where its host has many
/// busy flows, and with a thousand of them a packet costs Linux a thousand visits. One that lacks more is given them all at once, by what
/// its host has now, and asked after as many sweeps. It then stands before those that come to that sweep later.
const ONE_BY_ONE: u64 = 64;

/// 65 535 by the busy flows of a host.
const PARTS: [u16; QUEUES + 1] = {
    let (mut parts, mut load) = ([u16::MAX; QUEUES + 1], 1);
    while load <= QUEUES {
        parts[load] = (65_535 / load) as u16;
        load += 1;
    }
    parts
};

/// One queue, in a cache line.
#[derive(Clone)]
#[repr(align(64))]
pub struct Flow {
    pub list: List,
    pub cobalt: Cobalt,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    /// Bytes that wait.
    pub bytes: u64,
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
    pub flows: Box<[Flow; QUEUES]>,
    pub chains: Box<Chains>,
    table: Box<Table>,
    /// Until when nothing becomes of a queue that decays.
    quiet: Box<[Time; QUEUES]>,
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
            bytes: 0,
            set: Set::None,
        };
        Tin {
            threshold: share.rate,
            weight: share.weight,
            deficit: 0,
            schedule: Schedule::default(),
            law: Law::new(Span::ZERO, Span::ZERO, Span::ZERO),
            backlog: Backlog::default(),
            flows: alloc::vec![flow; QUEUES].try_into().unwrap_or_else(|_| unreachable!()),
            chains: Box::default(),
            table: Box::new(Table::new(isolation)),
            quiet: Box::new([Time::ZERO; QUEUES]),
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

    /// The bytes of a turn of the queue, of 2⁻¹⁶.
    #[inline]
    fn share(&self, queue: usize) -> u64 {
        self.quantum * u64::from(PARTS[self.table.load(queue)])
    }

    /// The queue has got a packet.
    #[inline]
    pub fn arrives(&mut self, queue: usize, rng: &mut Rng) {
        match self.flows[queue].set {
            Set::None | Set::Decaying => {
                self.sparse += 1;
                self.flows[queue].set = Set::Sparse;
                self.flows[queue].deficit = whole(self.share(queue), rng);
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
        let share = self.share(queue);
        let flow = &mut self.flows[queue];
        let lacks = flow.deficit.unsigned_abs() << 16;
        let turns = if lacks < share * ONE_BY_ONE {
            1
        } else {
            (lacks / share.max(1) + 1).min(FARTHEST)
        };
        flow.deficit += whole(share * turns, rng);
        self.chains.to_sweep(queue, turns);
        false
    }

    /// The first queue that decays is passed over, if nothing becomes of it yet.
    #[inline]
    pub fn passes_over(&mut self, queue: usize, now: Time) -> bool {
        let quiet = now < self.quiet[queue];
        if quiet {
            self.chains.to_tail(queue, Chain::Decaying);
        }
        quiet
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
            self.quiet[queue] = self.flows[queue].cobalt.quiet_until();
            self.chains.to_tail(queue, Chain::Decaying);
        }
    }
}

/// Whole bytes of so many times 2⁻¹⁶: a fraction of a byte becomes one with that probability.
#[inline]
fn whole(share: u64, rng: &mut Rng) -> i64 {
    ((share + (rng.next_u64() >> 48)) >> 16) as i64
}
