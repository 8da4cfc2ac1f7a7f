//! SFB, Stochastic Fair BLUE: marks the packets of each flow with a probability that follows the
//! number of packets of this flow in the queue.
//!
//! Algorithm: a flow has one bin in each of 8 levels with 16 bins each. A bin counts its waiting
//! packets and has a probability. A packet that arrives at an empty bin reduces the probability of
//! the bin by `decrement`. A packet that finds `target` packets or more in the bin increases its
//! probability by `increment`. The minimum count and the minimum probability p of the eight bins of
//! a packet decide:
//! - if the minimum count is `max` or more, the packet is dropped;
//! - if p = 1, the flow is unresponsive; all unresponsive flows together are limited to
//!   `penalty_rate` packets per second;
//! - otherwise, the packet is marked with probability p, or dropped if it cannot be marked. If p is
//!   above one half, the packet is dropped with probability 2 (p − ½) even if it can be marked.
//!
//! After every `rehash`, the flows use the bins of a second set. During the time `db` before this
//! change, flows with p = 1 are also counted in the second set.
//!
//! Sources: Feng, Kandlur, Saha, Shin, "BLUE: a new class of active queue management algorithms",
//! 1999, and "Stochastic Fair Blue", 2001; tc-sfb(8); Linux 6.12 `sfb`. `core/tests/queue_sfb.rs`
//! compares the probability with that of Linux, packet by packet.
//!
//! As in Linux:
//! - probabilities are in units of 1/65535;
//! - p is updated by packets that are then dropped, but not by those beyond `limit`;
//! - tokens of `penalty_rate` accumulate since the last packet that found none. Such a packet
//!   restarts this time, so unresponsive flows that send fast get no tokens;
//! - a set that is not in use keeps its probabilities for its next use;
//! - the packet at which the sets change uses the hash of the old set in the new set.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;
use crate::transport::Jiffies;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Maximum number of packets in a bin, which Linux counts in 16 bits.
const MOST: u64 = 65_535;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, u32::MAX as u64),
        help: "largest backlog in packets, if the path has no buffer",
        source: "Linux 6.12 sfb: a device's txqueuelen",
    },
    Param {
        name: "max",
        kind: Kind::Packets(0, 0, MOST),
        help: "largest backlog of a bin in packets; 0p: 5/4 of target, 25p without target",
        source: "tc-sfb(8), iproute2 6.1",
    },
    Param {
        name: "target",
        kind: Kind::Packets(0, 0, MOST),
        help: "packets in a bin from which its probability grows; 0p: 4/5 of max",
        source: "tc-sfb(8), iproute2 6.1",
    },
    Param {
        name: "increment",
        kind: Kind::Probability(0.0005),
        help: "increase of the probability by a packet that arrives at a bin with target packets \
            or more",
        source: "tc-sfb(8)",
    },
    Param {
        name: "decrement",
        kind: Kind::Probability(0.00005),
        help: "decrease of the probability by a packet that arrives at an empty bin",
        source: "tc-sfb(8)",
    },
    Param {
        name: "penalty_rate",
        kind: Kind::Count(10, 0, 1_000_000_000),
        help: "rate limit, in packets per second, of all flows with probability 1 together; 0: \
            none pass",
        source: "tc-sfb(8)",
    },
    Param {
        name: "penalty_burst",
        kind: Kind::Packets(20, 0, u32::MAX as u64),
        help: "burst of the flows with probability 1, in packets; 0p: none",
        source: "tc-sfb(8)",
    },
    Param {
        name: "rehash",
        kind: Kind::Span(Span::s(600), Span::ZERO, Span::s(1_000_000)),
        help: "time after which flows are assigned to other bins; 0: never",
        source: "tc-sfb(8)",
    },
    Param {
        name: "db",
        kind: Kind::Span(Span::s(60), Span::ZERO, Span::s(1_000_000)),
        help: "time before the rehash at which the other bins begin to count (double buffering)",
        source: "tc-sfb(8)",
    },
];

/// The source of random decisions.
pub trait Coin {
    /// A uniform number from 0 to 65535. If it is below `probability`, the packet is marked or
    /// dropped.
    fn draw(&mut self, probability: u32) -> u32;
}

impl Coin for Rng {
    fn draw(&mut self, _probability: u32) -> u32 {
        self.below(1 << 16) as u32
    }
}

/// A probability of 1.
const ONE: u32 = 65_535;
const LEVELS: usize = 8;
const BINS: usize = 16;
/// Maximum time for which penalty tokens accumulate, in seconds.
const LONGEST_REST: u64 = 10;

/// The parameters of BLUE, by which the probability of a bin changes.
#[derive(Copy, Clone, Debug)]
struct Blue {
    target: u32,
    increment: u32,
    decrement: u32,
}

/// One bin.
#[derive(Copy, Clone, Debug, Default)]
struct Bin {
    packets: u32,
    /// The probability, in units of 1/65535.
    probability: u32,
}

impl Bin {
    #[inline]
    fn update(&mut self, blue: &Blue) {
        if self.packets == 0 {
            self.probability = self.probability.saturating_sub(blue.decrement);
        } else if self.packets >= blue.target {
            self.probability = self.probability.saturating_add(blue.increment).min(ONE);
        }
    }
}

/// A set of bins, and the seed of the hash that assigns flows to bins.
struct Set {
    seed: u64,
    levels: [[Bin; BINS]; LEVELS],
}

impl Set {
    fn new(seed: u64) -> Set {
        Set {
            seed,
            levels: [[Bin::default(); BINS]; LEVELS],
        }
    }
    /// The bins of a hash: four bits of the hash are the index of the bin in each level.
    #[inline]
    fn bins(&mut self, hash: u32) -> impl Iterator<Item = &mut Bin> {
        let levels = self.levels.iter_mut().enumerate();
        levels.map(move |(level, bins)| &mut bins[(hash >> (4 * level)) as usize % BINS])
    }
    /// Updates the bins of an arriving packet; returns their minimum count and probability.
    #[inline]
    fn update(&mut self, hash: u32, blue: &Blue) -> Bin {
        let mut least = Bin {
            packets: u32::MAX,
            probability: ONE,
        };
        for bin in self.bins(hash) {
            bin.update(blue);
            least.packets = least.packets.min(bin.packets);
            least.probability = least.probability.min(bin.probability);
        }
        least
    }
}

/// The tokens of the flows with probability 1.
struct Penalty {
    per_second: u64,
    burst: u64,
    tokens: u64,
    /// The tick of the last packet that found no token.
    token_time: u64,
    hz: u64,
}

impl Penalty {
    /// Takes a token, if there is one. Returns whether there was one, so that the packet may pass.
    fn passes(&mut self, tick: u64) -> bool {
        if self.per_second == 0 {
            return false;
        }
        if self.tokens == 0 {
            let rest = tick
                .saturating_sub(self.token_time)
                .min(LONGEST_REST * self.hz);
            self.tokens = (rest.saturating_mul(self.per_second) / self.hz).min(self.burst);
            self.token_time = tick;
        }
        let passes = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        passes
    }
}

/// The hashes under which a packet is counted in the two sets.
type Counted = [Option<u32>; 2];

/// The queue discipline `sfb`.
pub struct Sfb<P, C = Rng> {
    limit: Limit,
    max: u32,
    blue: Blue,
    penalty: Penalty,
    ticks: Jiffies,
    /// The parameter `rehash`, in ticks; 0 for never.
    rehash: u64,
    /// The parameter `db`, in ticks.
    warm_up: u64,
    /// The tick of the last rehash.
    rehashed: u64,
    sets: [Set; 2],
    /// The set in use.
    used: usize,
    /// The source of the seeds of the hashes.
    rng: Rng,
    coin: C,
    backlog: Backlog,
    packets: VecDeque<(P, Counted)>,
}

/// A share in units of 1/65535, as tc rounds it.
fn units(share: f64) -> u32 {
    ((share * 65_536.0 + 0.5) as u32).min(ONE)
}

impl<P: Packet> Sfb<P> {
    /// An empty queue.
    pub fn new(params: &Params, context: &QueueContext) -> Sfb<P> {
        Sfb::following(params, context, Rng::named(context.seed, "sfb"))
    }
}

impl<P: Packet, C: Coin> Sfb<P, C> {
    /// An empty queue with the random numbers of `coin`, to reproduce a recorded queue.
    pub fn following(params: &Params, context: &QueueContext, coin: C) -> Sfb<P, C> {
        let ticks = Jiffies::new(context.hz);
        let in_ticks = |name| ticks.from_us(params.span(name).as_ns().div_ceil(1000));
        let (max, target) = match (params.packets("max"), params.packets("target")) {
            (0, 0) => (25, 20),
            (0, target) => ((target * 5 / 4).max(1), target),
            // Rounded as in tc.
            (max, 0) => (max, (max * 4 + 3) / 5),
            both => both,
        };
        let mut rng = Rng::named(context.seed, "sfb/hashes");
        let burst = params.packets("penalty_burst");
        Sfb {
            limit: context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit"))),
            max: max.min(MOST) as u32,
            blue: Blue {
                target: target.min(MOST) as u32,
                increment: units(params.number("increment")),
                decrement: units(params.number("decrement")),
            },
            penalty: Penalty {
                per_second: params.count("penalty_rate"),
                burst,
                tokens: burst,
                token_time: 0,
                hz: u64::from(context.hz.max(1)),
            },
            ticks,
            rehash: in_ticks("rehash"),
            warm_up: in_ticks("db"),
            rehashed: 0,
            sets: [(); 2].map(|()| Set::new(rng.next_u64())),
            used: 0,
            rng,
            coin,
            backlog: Backlog::default(),
            packets: VecDeque::new(),
        }
    }

    /// Changes the set in use if `rehash` has passed. Returns whether packets are also counted in
    /// the other set (`db`).
    #[inline]
    fn rehash_if_due(&mut self, tick: u64) -> bool {
        let age = tick.saturating_sub(self.rehashed);
        if self.rehash == 0 {
            return false;
        }
        if age > self.rehash {
            self.sets[self.used].seed = self.rng.next_u64();
            self.used ^= 1;
            self.rehashed = tick;
            return false;
        }
        self.warm_up > 0 && age.saturating_add(self.warm_up) > self.rehash
    }

    /// Changes the packet counts of the bins to which a packet belongs, in both sets.
    #[inline]
    fn count(&mut self, counted: Counted, change: impl Fn(&mut u32)) {
        for (set, hash) in self.sets.iter_mut().zip(counted) {
            if let Some(hash) = hash {
                set.bins(hash).for_each(|bin| change(&mut bin.packets));
            }
        }
    }
}

impl<P: Packet + Send, C: Coin + Send> QueueDiscipline<P> for Sfb<P, C> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        if !self.limit.admits(self.backlog, packet.size()) {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        let tick = self.ticks.at(now);
        // The hash is computed before the sets change, as in Linux. After a change, one packet is
        // judged by bins that are not those of its flow.
        let hash = packet.flow_hash(self.sets[self.used].seed);
        let warms = self.rehash_if_due(tick);
        let (used, other) = (self.used, self.used ^ 1);
        let mut counted: Counted = [None; 2];
        counted[used] = Some(hash);
        let Bin {
            packets,
            probability,
        } = self.sets[used].update(hash, &self.blue);
        if packets >= self.max {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        if probability >= ONE {
            if warms {
                let hash = packet.flow_hash(self.sets[other].seed);
                counted[other] = Some(hash);
                self.sets[other].update(hash, &self.blue);
            }
            if !self.penalty.passes(tick) {
                return sink.dropped(now, packet, DropReason::Aqm);
            }
        } else if probability > 0 {
            let drawn = self.coin.draw(probability);
            if drawn < probability {
                // With a probability above one half, the flow does not respond to marks.
                let beyond = probability.saturating_sub(ONE / 2);
                if drawn < 2 * beyond || packet.ecn() == Ecn::NotEct {
                    return sink.dropped(now, packet, DropReason::Aqm);
                }
                if packet.ecn() != Ecn::Ce {
                    packet.set_ce();
                    sink.marked(now, &packet, DropReason::Aqm);
                }
            }
        }
        self.count(counted, |packets| *packets += 1);
        self.backlog.add(packet.size());
        self.packets.push_back((packet, counted));
    }
    fn refuses(&self, _why: DropReason) -> bool {
        false
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let (packet, counted) = self.packets.pop_front()?;
        self.count(counted, |packets| *packets -= 1);
        self.backlog.remove(packet.size());
        Some(packet)
    }
    fn peek(&self) -> Option<Bytes> {
        self.packets.front().map(|(packet, _)| packet.size())
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "sfb",
        help: "stochastic fair blue: each flow has its own mark probability, which its share of \
            the queue determines",
        source: "Feng, Kandlur, Saha, Shin 1999 and 2001; Linux 6.12 sfb",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Sfb::<P>::new(params, context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A flow has one bin in each level; four bits of the hash select it.
    #[test]
    fn a_flow_has_a_bin_per_level_and_the_minimum_is_used() {
        let mut set = Set::new(0);
        let hash = 0x7654_3210;
        set.bins(hash).for_each(|bin| {
            *bin = Bin {
                packets: 7,
                probability: 70,
            }
        });
        for (level, bins) in set.levels.iter().enumerate() {
            let taken: Vec<usize> = (0..BINS).filter(|bin| bins[*bin].packets > 0).collect();
            assert_eq!(taken, [level]);
        }
        set.levels[0][0].packets = 2;
        set.levels[3][3].probability = 5;
        let no_change = Blue {
            target: u32::MAX,
            increment: 1,
            decrement: 1,
        };
        let least = set.update(hash, &no_change);
        assert_eq!((least.packets, least.probability), (2, 5));
    }
}
