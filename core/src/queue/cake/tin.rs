//! A tin: its queues, their order of service, and their deficits.

use super::cobalt::{Cobalt, Law};
use super::hash::{Isolation, QUEUES, State, Table};
use super::rotation::{Chain, Chains, FARTHEST};
use super::shaper::{Pace, Schedule};
use super::tins::{Share, Threshold};
use crate::packet::Packet;
use crate::queue::Backlog;
use crate::queue::codel::MTU;
use crate::queue::pool::List;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// After a packet, a queue needs a number of turns until its deficit is positive. If it needs fewer
/// turns than this, it gets them one by one, as in Linux. If the host has many busy flows, the
/// bytes per turn are few. With a thousand flows, a packet costs Linux a thousand visits of the
/// queue. A queue that needs this many turns or more gets them at once, by the present share of its
/// host. It is visited after as many sweeps, before queues that enter that sweep later.
const ONE_BY_ONE: u64 = 64;

/// Maximum number of bytes charged for a packet, far above the size of any packet.
const MOST: i64 = 1 << 24;

/// A tin.
pub struct Tin {
    threshold: Threshold,
    /// Bytes that the tin's deficit gains per turn, without a rate.
    pub weight: i64,
    /// Bytes that the tin may still send in its turn, without a rate.
    pub deficit: i64,
    pub schedule: Schedule,
    pub law: Law,
    pub backlog: Backlog,
    /// Bytes per turn of a queue whose hosts have no other busy flow.
    quantum: u64,
    /// Number of queues in the chains of new and old queues.
    listed: u64,
    chains: Chains,
    table: Table,
    /// Time until which the control law of each decaying queue does not change.
    quiet: [Time; QUEUES],
    /// Bytes that each queue may still send in its turn; 0 or less after its turn.
    deficits: [i32; QUEUES],
    pub lists: [List; QUEUES],
    pub cobalts: [Cobalt; QUEUES],
}

impl Tin {
    /// An empty tin; `configure` completes it.
    pub fn new(share: &Share, isolation: Isolation) -> Tin {
        Tin {
            threshold: share.rate,
            weight: share.weight,
            deficit: 0,
            schedule: Schedule::default(),
            law: Law::new(Span::ZERO, Span::ZERO, Span::ZERO),
            backlog: Backlog::default(),
            quantum: MTU.get(),
            listed: 0,
            chains: Chains::default(),
            table: Table::new(isolation),
            quiet: [Time::ZERO; QUEUES],
            deficits: [0; QUEUES],
            lists: [List::default(); QUEUES],
            cobalts: [Cobalt::default(); QUEUES],
        }
    }

    /// Sets the values that depend on the rate in bytes per second (0: no rate) and on the RTT.
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

    /// Updates the deficit of a tin that was the only one with packets. `before` is the deficit
    /// before its last packets. If it was negative, the tin has had as many turns as were necessary
    /// to make it up.
    pub fn make_up_deficit(&mut self, before: i64) {
        if before < 0 {
            let rounds = before.unsigned_abs().div_ceil(self.weight as u64);
            self.deficit += rounds as i64 * self.weight;
        }
    }

    /// Number of busy queues of the tin.
    pub fn busy(&self) -> u64 {
        self.table.busy
    }

    /// Returns whether any queue is new or old, and so may have packets.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.listed > 0
    }

    /// Returns the queue of a packet.
    #[inline]
    pub fn queue<P: Packet>(&mut self, packet: &P, seed: u64) -> usize {
        self.table.queue(packet, seed)
    }

    /// Bytes per turn of the queue, in units of 2⁻¹⁶ byte.
    #[inline]
    fn share(&self, queue: usize) -> u64 {
        self.quantum * u64::from(self.table.quantum_share(queue))
    }

    /// Handles a queue that a packet has joined.
    #[inline(always)]
    pub fn on_arrival(&mut self, queue: usize, rng: &mut Rng) {
        let state = self.table.states[queue];
        if state.is_inactive() {
            if state == State::Decaying {
                self.chains.remove_decaying(queue);
            }
            self.listed += 1;
            self.table.states[queue] = State::Sparse;
            self.deficits[queue] = whole(self.share(queue), rng);
            self.chains.push_new(queue);
        } else {
            self.set_bulk(queue, state == State::SparseWait, state);
        }
    }

    /// Makes a queue in the state `state` busy, if `bulk` is true.
    #[inline]
    fn set_bulk(&mut self, queue: usize, bulk: bool, state: State) {
        self.table.states[queue] = if bulk { State::Bulk } else { state };
        self.table.inc_bulk_flows(queue, bulk);
    }

    /// Returns the next queue in the order of service that has a packet and may send. Ends the
    /// turns of queues before it, and removes empty queues.
    #[inline(always)]
    pub fn next(&mut self, now: Time, rng: &mut Rng) -> Option<usize> {
        while let Some(queue) = self.chains.first_new() {
            if self.deficits[queue] <= 0 {
                self.ends_first_turn(queue, rng);
            } else if self.lists[queue].is_empty() {
                self.found_empty(queue, Chain::New, now);
            } else {
                return Some(queue);
            }
        }
        loop {
            while let Some(queue) = self.chains.first_old() {
                if self.deficits[queue] <= 0 {
                    self.ends_turn(queue, rng);
                } else if self.lists[queue].is_empty() {
                    self.found_empty(queue, Chain::Old, now);
                } else {
                    return Some(queue);
                }
            }
            if !self.chains.next_sweep() {
                return None;
            }
        }
    }

    /// Ends the turn of the first old queue. The queues after it whose turns are over are included,
    /// while they have the same hosts and so the same share. All get the bytes of another turn and
    /// move to the next sweep together. If a host has many busy flows, this is most of the work.
    #[inline(never)]
    fn end_turns(&mut self, first: usize, share: u64, rng: &mut Rng) {
        let hosts = self.table.hosts(first);
        let least = -(((share * ONE_BY_ONE - 1) >> 16) as i32);
        let (table, deficits) = (&self.table, &mut self.deficits);
        // A local copy stays in registers. This matters, because a packet waits for this loop.
        let mut random = rng.clone();
        self.chains.move_to_next_sweep(|queue| {
            let deficit = &mut deficits[queue];
            let moves = (least..=0).contains(deficit) && table.hosts(queue) == hosts;
            if moves {
                *deficit += whole(share, &mut random);
            }
            moves
        });
        *rng = random;
    }

    /// Ends the first turn of the first new queue, which joins the old queues.
    #[inline(always)]
    fn ends_first_turn(&mut self, queue: usize, rng: &mut Rng) {
        if self.lists[queue].is_empty() {
            self.table.states[queue] = State::SparseWait;
        } else {
            self.set_bulk(queue, true, State::Bulk);
        }
        let (share, shortfall) = (self.share(queue), self.shortfall(queue));
        let turns = if shortfall < share * ONE_BY_ONE {
            1
        } else {
            turns(shortfall, share)
        };
        self.grant_turns(queue, Chain::New, turns, share, rng);
    }

    /// Ends the turn of the first old queue.
    #[inline]
    fn ends_turn(&mut self, queue: usize, rng: &mut Rng) {
        let (share, shortfall) = (self.share(queue), self.shortfall(queue));
        if shortfall < share * ONE_BY_ONE {
            self.end_turns(queue, share, rng);
        } else {
            self.grant_turns(queue, Chain::Old, turns(shortfall, share), share, rng);
        }
    }

    /// The amount by which the deficit of a queue is below zero after its turn, in units of 2⁻¹⁶
    /// byte.
    #[inline]
    fn shortfall(&self, queue: usize) -> u64 {
        u64::from(self.deficits[queue].wrapping_neg() as u32) << 16
    }

    /// Gives the bytes of `turns` turns to the first queue of a chain. Moves the queue to the end
    /// of the sweep that is `turns` sweeps ahead.
    #[inline]
    fn grant_turns(&mut self, queue: usize, chain: Chain, turns: u64, share: u64, rng: &mut Rng) {
        self.chains.pop(chain, queue);
        self.deficits[queue] += whole(share * turns, rng);
        self.chains.push_to_sweep(queue, turns);
    }

    /// Checks the first decaying queue: it continues to decay or becomes idle.
    #[inline]
    pub fn check_decaying(&mut self, now: Time) {
        let Some(queue) = self.chains.first_decaying() else {
            return;
        };
        if now < self.quiet[queue] {
            self.chains.rotate_decaying(queue);
        } else {
            self.decay(queue, now);
        }
    }

    #[cold]
    fn decay(&mut self, queue: usize, now: Time) {
        let cobalt = &mut self.cobalts[queue];
        if cobalt.found_empty(&self.law, now) {
            self.quiet[queue] = cobalt.quiet_until();
            self.chains.rotate_decaying(queue);
        } else {
            self.table.states[queue] = State::None;
            self.chains.remove_decaying(queue);
        }
    }

    /// Charges `bytes` bytes to the deficits of the queue and of the tin.
    #[inline]
    pub fn charge(&mut self, queue: usize, bytes: i64) {
        self.deficits[queue] -= bytes.min(MOST) as i32;
        self.deficit -= bytes;
    }

    /// Called when the first queue of a chain has no packet: it leaves the chain, and decays or
    /// becomes idle.
    #[inline(always)]
    fn found_empty(&mut self, queue: usize, chain: Chain, now: Time) {
        self.chains.pop(chain, queue);
        let cobalt = &mut self.cobalts[queue];
        let decays = cobalt.found_empty(&self.law, now);
        if decays {
            self.quiet[queue] = cobalt.quiet_until();
            self.chains.push_decaying(queue);
        }
        let state = if decays { State::Decaying } else { State::None };
        let was_busy = core::mem::replace(&mut self.table.states[queue], state) == State::Bulk;
        self.listed -= 1;
        self.table.dec_bulk_flows(queue, was_busy);
    }
}

/// The number of turns until a queue may send, if its deficit is `shortfall` below zero and it gets
/// `share` per turn.
#[inline]
fn turns(shortfall: u64, share: u64) -> u64 {
    shortfall
        .checked_div(share)
        .map_or(FARTHEST, |turns| (turns + 1).min(FARTHEST))
}

/// Rounds `share`, in units of 2⁻¹⁶ byte, to whole bytes at random: up with a probability equal to
/// the fraction of a byte.
#[inline]
fn whole(share: u64, rng: &mut Rng) -> i32 {
    ((share + (rng.next_u64() >> 48)) >> 16) as i32
}
