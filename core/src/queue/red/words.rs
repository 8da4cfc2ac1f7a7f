//! The parameters of RED in tc (its words), and the values that tc and the kernel derive from them:
//! thresholds, weight, decay, probability.
//!
//! Defaults of parameters that are not set: `max` is a quarter of the limit, `min` a third of
//! `max`, `burst` (2·min + max) / (3·avpkt). In `red`, if only `min` is set, `max` is three times
//! `min`. These values are derived:
//! - the weight w = 2^-Wlog is the largest that lets `burst` packets enter an empty queue before
//!   the average exceeds `min`. Its condition is `(1 − (1−w)^burst) / w ≥ burst + 1 − min/avpkt`
//!   (Floyd, Jacobson 1993, section 6);
//! - entry i of the table of idle decay has the number of halvings of the average in an idle time
//!   of i·2^Scell. In idle time, the average changes as if a packet arrived at the empty queue in
//!   each transmission time of `avpkt` bytes at `bandwidth`;
//! - Plog, the probability for kernels before 3.3, is the least number with 2^Plog > (max −
//!   min)/probability.
//!
//! Sources: iproute2 6.1, from the messages that tc sends for these words; Linux 6.12.
//!
//! Two errors of tc and Linux are reproduced, because they determine the behaviour:
//! - tc rounds the transmission time of a packet down to whole microseconds and counts it in ticks
//!   of 64 ns. The kernel indexes the table by microseconds. In idle time, averages therefore decay
//!   15.6 times more slowly than in Floyd's algorithm. If the transmission time is less than a
//!   microsecond, an idle time of 1 to 254 µs halves the average. A longer one divides it by 2^31;
//! - a probability of 1 is 2^32 and overflows. The kernel then uses Plog, which results in a
//!   probability between 1/2 and 1. For CHOKe, whose thresholds are packets in the kernel but bytes
//!   in tc, Plog results in about 1/avpkt.

use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Bytes, Rate, format_bytes};
use alloc::format;
use alloc::string::String;

/// The parameter `avpkt`.
pub const AVPKT: Param = Param {
    name: "avpkt",
    kind: Kind::Bytes(Bytes::new(1000), Bytes::new(1), Bytes::new(1 << 20)),
    help: "usual packet size: scales burst and the decay in idle time",
    source: "tc-red(8) advises 1000",
};
/// The parameter `burst`.
pub const BURST: Param = Param {
    name: "burst",
    kind: Kind::Count(0, 0, 1_000_000),
    help: "packets that may arrive at once before the average exceeds min; 0: (2 min + max) / (3 \
        avpkt)",
    source: "tc-red(8)",
};
/// The parameter `probability`.
pub const PROBABILITY: Param = Param {
    name: "probability",
    kind: Kind::Probability(0.02),
    help: "probability of a mark or drop when the average reaches max",
    source: "iproute2 6.1",
};
/// The parameter `bandwidth`.
pub const BANDWIDTH: Param = Param {
    name: "bandwidth",
    kind: Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::mbit(10_000_000)),
    help: "rate at which the average decays while the queue is idle; 0bit: the rate of the link",
    source: "tc-red(8)",
};
/// The parameter `ecn`.
pub const ECN: Param = Param {
    name: "ecn",
    kind: Kind::Bool(false),
    help: "mark ECN-capable packets instead of dropping them",
    source: "tc-red(8)",
};
/// The parameter `harddrop`.
pub const HARDDROP: Param = Param {
    name: "harddrop",
    kind: Kind::Bool(false),
    help: "drop packets while the average is at max or above, even with ecn",
    source: "tc-red(8)",
};

fn usual_burst(min: u64, max: u64, avpkt: u64) -> u64 {
    min.saturating_mul(2).saturating_add(max) / avpkt.saturating_mul(3)
}

/// The settings of RED as tc has them after it has set all defaults. Thresholds are in bytes.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Words {
    /// Average backlog below which every packet passes, bytes.
    pub min: u64,
    /// Average backlog from which on every packet is marked or dropped, bytes.
    pub max: u64,
    /// Size of a usual packet, bytes.
    pub avpkt: u64,
    /// Packets that may arrive at an empty queue before the average exceeds `min`.
    pub burst: u64,
    /// Probability of a mark or drop when the average reaches `max`.
    pub probability: f64,
    /// Rate at which the average decays in idle time.
    pub bandwidth: Rate,
}

impl Words {
    /// Settings from parameters, with thresholds in bytes, before a link of `rate`.
    pub fn of(params: &Params, min: u64, max: u64, rate: Rate) -> Words {
        let avpkt = params.bytes("avpkt").get().max(1);
        Words {
            min,
            max,
            avpkt,
            burst: match params.count("burst") {
                0 => usual_burst(min, max, avpkt),
                given => given,
            },
            probability: params.number("probability"),
            bandwidth: match params.rate("bandwidth") {
                none if none.as_bit() == 0 => rate,
                given => given,
            },
        }
    }
    /// Wlog; `None` if `burst` is too small for `min`, or if no weight meets the condition.
    pub fn weight_log(&self) -> Option<u32> {
        let burst = self.burst as f64;
        let room = burst + 1.0 - self.min as f64 / self.avpkt as f64;
        if room < 1.0 {
            return None;
        }
        let mut weight = 1.0;
        (1..32).find(|_| {
            weight /= 2.0;
            room <= (1.0 - libm::pow(1.0 - weight, burst)) / weight
        })
    }

    /// Plog; `None` if the probability is too small for a Plog below 32.
    pub fn probability_log(&self) -> Option<u32> {
        let mut p = self.probability / self.max.saturating_sub(self.min).max(1) as f64;
        (0..32).find(|_| {
            let over = p > 1.0;
            p *= 2.0;
            over
        })
    }

    /// The probability in units of 2^-32, as in the kernel. `apart` is the distance of the
    /// thresholds in the unit of the kernel.
    pub fn probability_32(&self, apart: u64) -> u32 {
        match (self.probability * 4_294_967_296.0) as u64 as u32 {
            0 => {
                let unit = u64::from(u32::MAX >> self.probability_log().unwrap_or(31).min(31));
                u32::try_from(unit.saturating_mul(apart)).unwrap_or(u32::MAX)
            }
            p => p,
        }
    }

    /// Scell and the table of idle decay.
    pub fn damping(&self, weight_log: u32) -> (u32, [u8; 256]) {
        let mut table = [0; 256];
        table[255] = 31;
        let us = self.avpkt.saturating_mul(8_000_000) / self.bandwidth.as_bit().max(1);
        let ticks = libm::floor(us as f64 * 15.625);
        if ticks < 1.0 {
            return (0, table);
        }
        let halvings = -libm::log(1.0 - 1.0 / (1_u64 << weight_log) as f64) / ticks;
        let longest = 31.0 / halvings;
        let cell = (0..31)
            .find(|cell| longest / ((1_u64 << cell) as f64) < 512.0)
            .unwrap_or(31);
        for (i, entry) in table.iter_mut().enumerate().take(255).skip(1) {
            *entry = (((i as u64) << cell) as f64 * halvings).min(31.0) as u8;
        }
        (cell, table)
    }

    /// Checks conditions between the settings. `packets` is whether messages have `min` and `max`
    /// in packets, as CHOKe does.
    pub fn check(&self, packets: bool) -> Result<(), Refusal> {
        let text = |bytes: u64| match packets {
            true => format!("{}p", bytes / self.avpkt),
            false => format_bytes(Bytes::new(bytes)),
        };
        let refuse = |param, problem: String, fix: String| {
            Err(Refusal {
                param,
                problem,
                fix,
            })
        };
        if self.min >= self.max {
            let fix = format!("\"{}\"", text(self.min.saturating_mul(3)));
            return refuse("max", format!("is not above min ({})", text(self.min)), fix);
        }
        if self.min < self.avpkt {
            let fix = format!("\"{}\"", text(self.avpkt));
            return refuse(
                "min",
                format!("is less than a packet ({})", text(self.avpkt)),
                fix,
            );
        }
        if self.weight_log().is_none() {
            let fix = format!("{}", self.min / self.avpkt + 1);
            let problem = format!(
                "is too small for min ({}): no average could rise so fast",
                text(self.min)
            );
            return refuse("burst", problem, fix);
        }
        if self.probability_log().is_none() {
            return refuse("probability", "is too small".into(), "0.02".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(
        min: u64,
        max: u64,
        avpkt: u64,
        burst: u64,
        probability: f64,
        bandwidth: Rate,
    ) -> Words {
        let burst = if burst > 0 {
            burst
        } else {
            usual_burst(min, max, avpkt)
        };
        Words {
            min,
            max,
            avpkt,
            burst,
            probability,
            bandwidth,
        }
    }

    /// Wlog, Plog, Scell that tc of iproute2 6.1 sent to the kernel for these words.
    #[test]
    fn parameters_convert_to_the_values_of_tc() {
        let mbit = Rate::mbit;
        for (words, wlog, plog, cell) in [
            (words(30_000, 90_000, 1000, 55, 0.1, mbit(20)), 5, 20, 14),
            (words(30_000, 30_001, 1500, 21, 1.0, mbit(100)), 2, 1, 9),
            (words(97_500, 97_501, 1500, 66, 1.0, mbit(100)), 1, 1, 8),
            (words(33_333, 100_000, 1000, 0, 0.02, mbit(20)), 5, 22, 14),
            (words(5_000, 15_000, 500, 0, 0.5, mbit(1)), 3, 15, 15),
            (
                words(300_000, 900_000, 1500, 600, 0.02, mbit(1000)),
                10,
                25,
                14,
            ),
            (
                words(30_000, 90_000, 1000, 0, 0.1, Rate::bit(100_000)),
                5,
                20,
                22,
            ),
            (words(20_000, 60_000, 1000, 0, 0.02, mbit(10)), 4, 21, 14),
            (words(6_666, 20_000, 1000, 0, 0.02, mbit(10)), 3, 20, 13),
            (
                words(3_000_000, 9_000_000, 9000, 0, 0.02, mbit(10_000)),
                8,
                29,
                11,
            ),
            (words(1_500, 9_000, 1500, 0, 0.02, mbit(10)), 27, 19, 31),
        ] {
            assert_eq!(words.weight_log(), Some(wlog), "{words:?}");
            assert_eq!(words.probability_log(), Some(plog), "{words:?}");
            assert_eq!(words.damping(wlog).0, cell, "{words:?}");
        }
        for (min, max, burst) in [(30_000, 90_000, 29), (500, 1_500, 0), (900, 2_700, 2)] {
            assert_eq!(
                words(min, max, 1000, burst, 0.02, mbit(10)).weight_log(),
                None
            );
        }
        assert_eq!(
            words(30_000, 90_000, 1000, 30, 0.02, mbit(10)).weight_log(),
            Some(1)
        );
        assert_eq!(
            words(0, 60_000, 1000, 55, 1e-9, mbit(10)).probability_log(),
            None
        );
    }

    /// The table that tc sent for the first words of the test above.
    #[test]
    fn the_average_halves_at_the_rate_of_tc() {
        let (_, table) = words(30_000, 90_000, 1000, 55, 0.1, Rate::mbit(20)).damping(5);
        let cells = |value| table.iter().filter(|cell| **cell == value).count();
        assert!((1..21).all(|value| cells(value) == 12) && table.is_sorted());
        assert_eq!((cells(0), cells(21), table[255]), (13, 2, 31));
        // Less than a microsecond per packet: a table that halves once, and resets after 255 µs.
        let (cell, table) =
            words(3_000_000, 9_000_000, 1500, 0, 0.02, Rate::mbit(25_000)).damping(11);
        assert_eq!((cell, table[1], table[254], table[255]), (0, 0, 0, 31));
    }

    #[test]
    fn a_probability_of_one_does_not_fit_and_tcs_words_for_choke_make_it_small() {
        let share = |words: Words, apart| f64::from(words.probability_32(apart)) / 4_294_967_296.0;
        assert!(
            (share(words(30_000, 90_000, 1000, 0, 0.1, Rate::mbit(20)), 60_000) - 0.1).abs() < 1e-9
        );
        assert!(
            (share(words(30_000, 30_001, 1500, 21, 1.0, Rate::mbit(20)), 1) - 0.5).abs() < 1e-9
        );
        assert!(
            (share(words(20_000, 21_000, 1000, 100, 1.0, Rate::mbit(20)), 1) - 1.0 / 1024.0).abs()
                < 1e-9
        );
    }

    #[test]
    fn conflicting_parameters_are_rejected_with_a_correction() {
        let rate = Rate::mbit(20);
        let fix = |words: Words, packets| words.check(packets).unwrap_err();
        let refusal = fix(words(30_000, 20_000, 1000, 55, 0.1, rate), false);
        assert_eq!((refusal.param, refusal.fix.as_str()), ("max", "\"90kB\""));
        assert_eq!(
            fix(words(20_000, 20_000, 1000, 55, 0.1, rate), true).fix,
            "\"60p\""
        );
        assert_eq!(
            fix(words(500, 1_500, 1000, 0, 0.1, rate), false).param,
            "min"
        );
        assert_eq!(
            fix(words(30_000, 90_000, 1000, 20, 0.1, rate), false).fix,
            "31"
        );
        assert_eq!(
            fix(words(30_000, 90_000, 1000, 55, 0.0, rate), false).param,
            "probability"
        );
        assert_eq!(
            words(30_000, 90_000, 1000, 55, 0.1, rate).check(false),
            Ok(())
        );
    }
}
