//! Times at which a probe sends its pings.
//!
//! With constant spacing, ping `n` (from 0) leaves `n` intervals after the start of the run. With
//! random spacing, ping `n` leaves at a time that is uniformly distributed between `n` and `n + 1`
//! intervals. So the number of pings is that of constant spacing, and the RTT is sampled at all
//! phases of periodic cross traffic. Pings with equal intervals would sample traffic of the same
//! period at one phase only.
//!
//! Sources: RFC 2330, section 11.1 (disadvantages of periodic sampling; random additive sampling);
//! RFC 3432, section 3.1; RFC 7679, section 4. Deviation: one ping per interval (stratified
//! sampling) instead of a Poisson process, whose number of pings is random.

use crate::rng::Rng;
use crate::scenario::Spacing;
use crate::units::{Span, Time};

/// The times of the pings of a probe, in ascending order, without an end.
#[derive(Clone, Debug)]
pub struct Departures {
    slot: Time,
    interval: Span,
    rng: Option<Rng>,
}

impl Departures {
    /// Creates the times of pings from time zero on; `rng` is used for random spacing only.
    pub fn new(interval: Span, spacing: Spacing, rng: Rng) -> Departures {
        Departures {
            slot: Time::ZERO,
            interval,
            rng: (spacing == Spacing::Random).then_some(rng),
        }
    }
    /// The time of the next ping.
    pub fn next_ping(&mut self) -> Time {
        let within = self
            .rng
            .as_mut()
            .map(|rng| rng.below(self.interval.as_ns()));
        let at = self.slot + Span::ns(within.unwrap_or(0));
        self.slot += self.interval;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_has_one_ping() {
        let interval = Span::ms(20);
        let rng = Rng::named(1, "probe/0");
        let mut constant = Departures::new(interval, Spacing::Constant, rng.clone());
        let mut random = Departures::new(interval, Spacing::Random, rng);
        let mut phases = [0_u32; 4];
        for number in 0..4000 {
            let slot = constant.next_ping();
            assert_eq!(slot, Time::ZERO + Span::ms(20 * number));
            let phase = random.next_ping().since(slot);
            assert!(phase < interval);
            phases[(phase.as_ns() / 5_000_000) as usize] += 1;
        }
        assert!(phases.iter().all(|n| n.abs_diff(1000) < 150), "{phases:?}");
    }
}
