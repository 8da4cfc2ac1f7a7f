//! RED's control law: an average of the backlog, and the number of packets between refusals while
//! the average is between two thresholds.
//!
//! Algorithm: with each arrival, avg += (backlog − avg)·2^-Wlog, where the backlog does not include
//! the arriving packet. While avg is below `min`, every packet passes; from `max` on every packet
//! is refused. Between them, packets since the last refusal are counted, and one is refused when
//! (avg − min)·count ≥ R. R is uniform in [0, (max − min)/probability) and drawn anew after each
//! refusal, which spaces refusals evenly. After an idle time of t microseconds, avg is halved
//! `table[t >> Scell]` times. If this entry is zero, avg is reduced by the fraction t / 2^Scell, at
//! most by half.
//!
//! - Gentle: while avg is between `max` and 2·`max`, the probability grows from `probability` to 1;
//!   from 2·`max` on every packet is refused.
//! - Adaptive: at the end of each half second, the probability changes if avg is outside of the
//!   middle fifth of [min, max]. If avg is above this fifth, a probability of at most 50 %
//!   grows by a quarter of its value or by 1 %, whichever is less. If avg is below this fifth, a
//!   probability of at least 1 % is multiplied by 0.9.
//!
//! Sources: Floyd, Jacobson, "Random Early Detection gateways for congestion avoidance", 1993.
//! Floyd, "Recommendation on using the gentle_ variant of RED", 2000. Floyd, Gummadi, Shenker,
//! "Adaptive RED", 2001. Linux 6.12, with the same integer arithmetic, compared packet by packet
//! (`core/tests/queue_red.rs`).
//!
//! Linux differs from the paper in two points, which this file follows. R is drawn from a range
//! once per refusal; there is no probability per packet. After an idle time, the average is updated
//! either for this time or for the packet that ends it, not for both.

use super::words::Words;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// Time between two updates of Adaptive RED.
pub const ADAPTED_EACH: Span = Span::ms(500);
const ONE_PERCENT: u32 = 42_949_673;
const MOST_ADAPTED: u32 = ONE_PERCENT * 50;

/// The settings. Thresholds and backlogs are in the unit of the discipline: bytes or packets.
#[derive(Clone, Debug)]
pub struct Law {
    min: u64,
    max: u64,
    weight_log: u32,
    cell_log: u32,
    table: [u8; 256],
    gentle: bool,
    /// The probability at `max`, in units of 2^-32.
    probability: u32,
    /// `probability` divided by `max − min`. R is a random number of 32 bits divided by this.
    slope: u32,
}

/// The verdict on a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet may enter the queue.
    Pass,
    /// An early refusal: mark or drop.
    Early,
    /// The average is at `max` or above: mark or drop.
    Forced,
}

/// The average, and the state of refusals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vars {
    /// The average backlog, in units of 2^-Wlog.
    average: u64,
    /// Time since which the queue is known to be empty.
    idle_since: Option<Time>,
    /// Packets since the last refusal; `None` if the average is not between the thresholds.
    count: Option<u64>,
    /// R of the module header.
    wait: u64,
}

impl Law {
    /// Settings from the words of tc; `min` and `max` are in the unit of the discipline.
    pub fn new(words: &Words, min: u64, max: u64, gentle: bool) -> Law {
        // With a buffer of a few packets, the derived words may have no valid weight. Then the
        // weight of a new backlog is the greatest, a half.
        let weight_log = words.weight_log().unwrap_or(1);
        let (cell_log, table) = words.damping(weight_log);
        let apart = max.saturating_sub(min).max(1);
        let probability = words.probability_32(apart);
        Law {
            min,
            max,
            weight_log,
            cell_log,
            table,
            gentle,
            probability,
            slope: slope(u64::from(probability) / apart),
        }
    }

    /// The probability at `max`, which Adaptive RED changes.
    pub fn probability(&self) -> f64 {
        f64::from(self.probability) / 4_294_967_296.0
    }
    fn apart(&self) -> u64 {
        self.max.saturating_sub(self.min).max(1)
    }
    fn scaled(&self, threshold: u64) -> u64 {
        threshold.saturating_mul(1 << self.weight_log)
    }

    /// Applies an update of Adaptive RED, to the average at `now`.
    pub fn adapt(&mut self, vars: &Vars, now: Time) {
        let average = vars.average_at(self, now) >> self.weight_log;
        let fifth = self.apart() / 5;
        let p = self.probability;
        if average > self.min.saturating_add(3 * fifth) && p <= MOST_ADAPTED {
            self.probability = p + ONE_PERCENT.min(p / 4);
        } else if average < self.min.saturating_add(2 * fifth) && p >= ONE_PERCENT {
            self.probability = p / 10 * 9;
        }
        let apart = self.apart();
        self.slope = slope((u64::from(self.probability) + apart / 2) / apart);
    }
}

fn slope(per_unit: u64) -> u32 {
    u32::try_from(per_unit).unwrap_or(u32::MAX).max(1)
}

impl Vars {
    /// The average, rounded down to the unit of the discipline.
    pub fn average(&self, law: &Law) -> u64 {
        self.average >> law.weight_log
    }

    /// Updates the average for a packet that arrives behind `backlog`, or for the idle time before
    /// it.
    pub fn arrival(&mut self, law: &Law, now: Time, backlog: u64) {
        match self.idle_since {
            Some(_) => {
                self.average = self.average_at(law, now);
                self.idle_since = None;
            }
            None => self.arrival_in_use(law, backlog),
        }
    }
    /// As `arrival`, for a discipline that has no idle time, because it resets the state when the
    /// queue is empty.
    pub fn arrival_in_use(&mut self, law: &Law, backlog: u64) {
        let kept = self.average - (self.average >> law.weight_log);
        self.average = kept.saturating_add(backlog);
    }
    /// Called when the link finds the queue empty.
    pub fn idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    fn average_at(&self, law: &Law, now: Time) -> u64 {
        let Some(since) = self.idle_since else {
            return self.average;
        };
        let us = now.since(since).as_us().min(255 << law.cell_log);
        match law.table[(us >> law.cell_log) as usize & 255] {
            0 => {
                let lost = (u128::from(self.average) * u128::from(us)) >> law.cell_log;
                let half = self.average / 2;
                match u64::try_from(lost) {
                    Ok(lost) if lost < half => self.average - lost,
                    _ => self.average >> 1,
                }
            }
            halvings => self.average >> halvings.min(63),
        }
    }

    /// Returns the verdict on an arriving packet.
    pub fn judge(&mut self, law: &Law, rng: &mut Rng) -> Verdict {
        let top = if law.gentle {
            law.max.saturating_mul(2)
        } else {
            law.max
        };
        if self.average < law.scaled(law.min) {
            self.count = None;
            Verdict::Pass
        } else {
            self.judge_above(self.average >= law.scaled(top), law, rng)
        }
    }
    /// The verdict while the average is above `min`. `forced` is whether the average has reached
    /// the value from which on every packet is refused.
    #[inline]
    fn judge_above(&mut self, forced: bool, law: &Law, rng: &mut Rng) -> Verdict {
        if forced {
            self.count = None;
            Verdict::Forced
        } else if self.is_one_of_many(law, rng) {
            Verdict::Early
        } else {
            Verdict::Pass
        }
    }
    /// CHOKe's first test: whether the average is at or below `min`. If so, the count is reset.
    pub fn is_calm(&mut self, law: &Law) -> bool {
        let calm = self.average <= law.scaled(law.min);
        if calm {
            self.count = None;
        }
        calm
    }
    /// CHOKe's second test, for an average above `min`.
    pub fn judge_excited(&mut self, law: &Law, rng: &mut Rng) -> Verdict {
        self.judge_above(self.average > law.scaled(law.max), law, rng)
    }

    fn is_one_of_many(&mut self, law: &Law, rng: &mut Rng) -> bool {
        let Some(counted) = self.count else {
            self.count = Some(0);
            self.wait = draw(law, rng);
            return false;
        };
        let count = counted.saturating_add(1);
        let due = self.excess(law).saturating_mul(count) >= self.wait;
        self.count = Some(if due { 0 } else { count });
        if due {
            self.wait = draw(law, rng);
        }
        due
    }

    /// Excess of the average over `min`. With `gentle`, the excess grows faster above `max`, so
    /// that the probability reaches 1 at 2·`max`.
    fn excess(&self, law: &Law) -> u64 {
        let above_max = self.average.saturating_sub(law.scaled(law.max)) >> law.weight_log;
        if !law.gentle || self.average < law.scaled(law.max) {
            return (self.average - law.scaled(law.min).min(self.average)) >> law.weight_log;
        }
        let certain = (1 << 32) / u64::from(law.slope);
        let more = u128::from(certain.saturating_sub(law.apart())) * u128::from(above_max)
            / u128::from(law.max.max(1));
        law.apart()
            .saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

fn draw(law: &Law, rng: &mut Rng) -> u64 {
    (rng.next_u64() >> 32) / u64::from(law.slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    fn law(gentle: bool) -> Law {
        let words = Words {
            min: 30_000,
            max: 90_000,
            avpkt: 1000,
            burst: 55,
            probability: 0.1,
            bandwidth: Rate::mbit(20),
        };
        Law::new(&words, words.min, words.max, gentle)
    }

    fn standing(law: &Law, average: u64) -> Vars {
        Vars {
            average: law.scaled(average),
            ..Vars::default()
        }
    }

    /// The share of refusals at a constant average.
    fn refused(law: &Law, average: u64) -> f64 {
        let (mut vars, mut rng) = (standing(law, average), Rng::named(1, "test"));
        let n = (0..20_000)
            .filter(|_| vars.judge(law, &mut rng) != Verdict::Pass)
            .count();
        n as f64 / 20_000.0
    }

    /// Values of Linux 6.12 with `adaptive` in the encoding of iproute2 before 5.7. The queue was
    /// empty, full, empty and half full, one after the other.
    #[test]
    fn the_probability_moves_as_in_linux() {
        let mut law = law(false);
        let (low, mid, high) = (
            standing(&law, 0),
            standing(&law, 60_000),
            standing(&law, 80_000),
        );
        let mut seen = alloc::vec::Vec::new();
        for vars in [
            &low, &low, &high, &high, &high, &high, &high, &high, &low, &low, &high, &mid,
        ] {
            law.adapt(vars, Time::ZERO);
            seen.push(libm::round(law.probability() * 1e6) / 1e6);
        }
        let linux = [
            0.09, 0.081, 0.091, 0.101, 0.111, 0.121, 0.131, 0.141, 0.1269, 0.11421, 0.12421,
            0.12421,
        ];
        assert_eq!(seen, linux);
    }

    #[test]
    fn spaced_evenly_refusals_come_twice_as_often_as_alone() {
        // R is uniform up to (max − min)/p, so its mean is half of that: 2p of the packets, and one
        // for a new draw.
        let half = refused(&law(false), 60_000);
        assert!((half - 0.1).abs() < 0.01, "{half}");
    }

    #[test]
    fn gentle_rises_to_one_at_twice_max_where_linux_jumps_at_max() {
        assert_eq!(refused(&law(false), 90_000), 1.0);
        assert_eq!(refused(&law(true), 180_000), 1.0);
        let at = [89_999, 90_001, 112_500, 135_000, 157_500, 179_999]
            .map(|average| refused(&law(true), average));
        assert!(at.is_sorted(), "{at:?}");
        assert!((at[0] - at[1]).abs() < 0.01 && at[5] > 0.99, "{at:?}");
    }

    /// In tc's table the first halving is in entry 13, and each entry stands for 2^14 µs. Before,
    /// the linear rule reduces the average by up to a half.
    #[test]
    fn an_idle_average_decays_by_the_table() {
        let law = law(false);
        let after = |us: u64| {
            let mut vars = standing(&law, 64_000);
            vars.idle(Time::ZERO);
            vars.idle(Time::from_ns(1));
            vars.arrival(&law, Time::ZERO + Span::us(us), 1_000_000);
            vars.average(&law)
        };
        assert_eq!(
            [0, 4096, 16_384, 13 << 14, 25 << 14].map(after),
            [64_000, 48_000, 32_000, 32_000, 16_000]
        );
        assert_eq!(after(10_000_000), 0);
    }
}
