//! One-way delays of each direction, and their variation.
//!
//! A one-way delay is the time from the departure of a datagram at one host to its arrival at the
//! other one. Each time is that of the clock of its host. If the clocks are not the same, their
//! unknown difference is added to one direction and subtracted from the other one. Then only the
//! variation is meaningful. It is reported in two forms (RFC 5481, section 4):
//!
//! - PDV: the delay minus the minimum delay of the direction (section 4.2).
//! - IPDV: the absolute difference of the delays of two consecutive requests or replies (section
//!   4.1, RFC 3393). It does not depend on the drift of the clocks.
//!
//! **Drift.** Clocks with different rates shift the delays of both directions in opposite senses,
//! which PDV includes. The minima of the first and of the last window of `WINDOW` show the drift:
//! half of the change of their difference between the directions. A path whose minimum delay
//! changed in one direction only has the same effect.

use super::histogram::Histogram;
use serde_json::{Value, json};

/// Duration of a window whose minimum is kept, ns.
const WINDOW: u64 = 1_000_000_000;

/// The delays of one direction. Their zero is arbitrary.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// The first delay. Delays are recorded as differences to it, so that a drift of the clocks
    /// moves no recorded value.
    first: i128,
    above: Histogram,
    below: Histogram,
    between: Histogram,
    last: Option<(u32, i128)>,
    first_window: Option<(u64, i128)>,
    last_window: Option<(u64, i128)>,
}

impl Delays {
    /// Records the delay of a datagram: its number, and its departure and arrival, ns, each by the
    /// clock of its host. `at`: time of the client, ns.
    pub fn record(&mut self, number: u32, departed: u64, arrived: u64, at: u64) {
        let delay = i128::from(arrived) - i128::from(departed);
        if self.above.count() == 0 {
            self.first = delay;
        }
        if delay < self.first {
            self.below.record(ns(self.first - delay));
        } else {
            self.above.record(ns(delay - self.first));
        }
        if let Some((before, other)) = self.last {
            if before.checked_add(1) == Some(number) {
                self.between.record(ns((delay - other).abs()));
            }
        }
        self.last = Some((number, delay));
        let window = at / WINDOW;
        for (kept, renew) in [
            (&mut self.first_window, false),
            (&mut self.last_window, true),
        ] {
            match kept {
                Some((of, least)) if *of == window => *least = (*least).min(delay),
                Some(_) if !renew => {}
                _ => *kept = Some((window, delay)),
            }
        }
    }
    /// How far the minimum delay is below the first one, ns.
    fn depth(&self) -> u64 {
        self.below.extremes().map_or(0, |(_, most)| most)
    }
    fn least(&self) -> i128 {
        self.first - i128::from(self.depth())
    }
    /// The delays minus their minimum.
    fn pdv(&self) -> Histogram {
        let mut all = self.above.raised(self.depth());
        all.merge(&self.below.mirrored(self.depth()));
        all
    }
    /// Adds the delays of another slice of the test. `common`: the zero of both is the same.
    fn merge(&mut self, other: &Delays, common: bool) {
        if self.above.count() == 0 {
            *self = other.clone();
            return;
        }
        if other.above.count() == 0 {
            return;
        }
        let least = if common {
            self.least().min(other.least())
        } else {
            self.least()
        };
        let mut all = self.pdv().raised(ns(self.least() - least));
        let lift = if common { ns(other.least() - least) } else { 0 };
        all.merge(&other.pdv().raised(lift));
        (self.first, self.above, self.below) = (least, all, Histogram::default());
        self.between.merge(&other.between);
        // Each slice has its own session, so windows of different slices are not comparable.
        (self.first_window, self.last_window) = (None, None);
    }
    /// The change of the minimum between the first and the last window, ns.
    fn change(&self) -> Option<i128> {
        let ((first, before), (last, after)) = self.first_window.zip(self.last_window)?;
        (last > first).then_some(after - before)
    }
    fn to_json(&self, common: bool) -> Value {
        if self.above.count() == 0 {
            return Value::Null;
        }
        json!({
            "delay_us": (common && self.least() >= 0)
                .then(|| self.pdv().raised(ns(self.least())).to_json()),
            "pdv_us": self.pdv().to_json(),
            "ipdv_us": (self.between.count() > 0).then(|| self.between.to_json()),
        })
    }
}

/// A difference that is not negative, ns.
fn ns(difference: i128) -> u64 {
    u64::try_from(difference.max(0)).unwrap_or(u64::MAX)
}

/// The delays of both directions.
#[derive(Clone, Debug, Default)]
pub struct OneWay {
    /// From the client to the server.
    pub forward: Delays,
    /// From the server to the client.
    pub reverse: Delays,
    /// Whether both hosts have the same clock.
    pub common: bool,
}

impl OneWay {
    /// Adds the delays of another slice of the test.
    pub fn merge(&mut self, other: &OneWay) {
        let empty = self.forward.above.count() + self.reverse.above.count() == 0;
        let common = other.common && (self.common || empty);
        self.common = common;
        self.forward.merge(&other.forward, common);
        self.reverse.merge(&other.reverse, common);
    }
    /// The delays as JSON; null if the protocol reports no times of the server.
    pub fn to_json(&self) -> Value {
        if self.forward.above.count() + self.reverse.above.count() == 0 {
            return Value::Null;
        }
        let changes = self.forward.change().zip(self.reverse.change());
        let drift = changes.filter(|_| !self.common);
        json!({
            "clocks": if self.common { "common" } else { "separate" },
            "drift_us": drift.map(|(forward, reverse)| (forward - reverse) as f64 / 2000.0),
            "forward": self.forward.to_json(self.common),
            "reverse": self.reverse.to_json(self.common),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ways(common: bool, ahead: u64, drift_per_ms: u64) -> Value {
        let mut all = OneWay {
            common,
            ..OneWay::default()
        };
        for i in 0..3000_u32 {
            let at = 10_000 * MS + u64::from(i) * MS;
            // The clock of the server is `ahead`, and drifts.
            let there = |at: u64| at + ahead + u64::from(i) * drift_per_ms;
            let forward = 5 * MS + if i % 4 == 3 { 2 * MS } else { 0 };
            all.forward.record(i, at, there(at + forward), at);
            all.reverse
                .record(i, there(at + forward), at + forward + 15 * MS, at);
        }
        all.to_json()
    }

    #[test]
    fn a_common_clock_shows_the_delay_of_each_direction() {
        let told = ways(true, 0, 0);
        assert_eq!(told["forward"]["delay_us"]["min"], 5000.0);
        assert_eq!(told["forward"]["delay_us"]["max"], 7000.0);
        assert_eq!(told["forward"]["delay_us"]["mean"], 5500.0);
        assert_eq!(told["reverse"]["delay_us"]["min"], 15_000.0);
        assert_eq!(told["drift_us"], Value::Null);
    }

    #[test]
    fn separate_clocks_show_only_the_variation() {
        for ahead in [0, 3_600_000 * MS] {
            let told = ways(false, ahead, 0);
            let forward = &told["forward"];
            assert_eq!(forward["delay_us"], Value::Null);
            assert_eq!(
                (&forward["pdv_us"]["min"], &forward["pdv_us"]["max"]),
                (&json!(0.0), &json!(2000.0))
            );
            // Two of four differences are 2 ms.
            assert_eq!(forward["ipdv_us"]["n"], 2999);
            assert_eq!(forward["ipdv_us"]["max"], 2000.0);
            let mean = forward["ipdv_us"]["mean"].as_f64().unwrap();
            assert!((mean - 1000.0).abs() < 1.0, "{mean}");
            assert_eq!(told["reverse"]["pdv_us"]["max"], 0.0);
            assert_eq!(told["drift_us"], 0.0);
        }
    }

    #[test]
    fn the_drift_of_the_clocks_is_reported() {
        // 10 ns in each ms are 20 us between the first and the last window of one second.
        let told = ways(false, 7 * MS, 10);
        assert_eq!(told["drift_us"], 20.0);
        assert_eq!(told["reverse"]["ipdv_us"]["max"], 0.01);
    }

    #[test]
    fn a_lower_delay_raises_the_earlier_ones_and_gaps_have_no_ipdv() {
        let mut delays = Delays::default();
        for (number, delay) in [(0, 9 * MS), (1, 4 * MS), (3, 5 * MS)] {
            delays.record(number, 100, 100 + delay, 0);
        }
        let told = delays.to_json(false);
        assert_eq!(
            (&told["pdv_us"]["max"], &told["pdv_us"]["mean"]),
            (&json!(5000.0), &json!(2000.0))
        );
        assert_eq!(
            (&told["ipdv_us"]["n"], &told["ipdv_us"]["max"]),
            (&json!(1), &json!(5000.0))
        );
    }

    #[test]
    fn a_slow_drift_moves_all_percentiles() {
        let mut way = Delays::default();
        // The clock of the server runs slower: the delay falls by 10 ns with each datagram.
        for i in 0..60_000_u32 {
            let at = u64::from(i) * MS;
            way.record(i, at, at + 5 * MS - u64::from(i) * 10, at);
        }
        let told = way.to_json(false);
        let median = told["pdv_us"]["p50"].as_f64().unwrap();
        assert!((median - 300.0).abs() < 1.0, "{median}");
    }

    #[test]
    fn slices_are_merged_by_their_clocks() {
        let slice = |common, delay: u64| {
            let mut one = OneWay {
                common,
                ..OneWay::default()
            };
            one.forward.record(0, 0, delay, 0);
            one
        };
        for (common, delay, most) in [(true, json!(4000.0), 5000.0), (false, Value::Null, 0.0)] {
            let mut all = OneWay::default();
            all.merge(&slice(common, 9 * MS));
            all.merge(&slice(common, 4 * MS));
            let told = &all.to_json()["forward"];
            assert_eq!(told["delay_us"]["min"], delay);
            assert_eq!(told["pdv_us"]["max"], most);
        }
    }
}
