//! Station scheduling of an access point: round-robin, or by airtime.
//!
//! **Round-robin**: the first station of the round gets one transmission and goes to the end. The
//! first station also goes to the end if the hardware has no room for its transmission. The driver
//! goes through the round with every arriving packet and after every transmission, until a station
//! finds no room. The hardware has room for single frames longer than for aggregates, so stations
//! with single frames get the most turns. One legacy station among many can therefore fill the
//! hardware.
//!
//! **By airtime**: a station has a deficit, the airtime that it may still use (negative: its debt).
//! The first station of the round is served. A station whose deficit is below zero gets its weight
//! added and goes to the end. A station with too much pending airtime (AQL) also goes to the end,
//! without an addition. Airtime of sent and received frames is subtracted after the exchange. A
//! station that becomes active joins at the head, so a station with little traffic never waits
//! behind one with much. A station with debt and nothing to send stays in the round for `ACTIVE`.
//!
//! **AQL**, airtime queue limits: the driver estimates the airtime of the packets that it holds. A
//! station's category gets more packets while its own pending airtime is below the low limit, 5 ms.
//! Up to the high limit of 12 ms, it gets more only below a threshold of 24 ms for all stations.
//! Above a driver queue, the category of all stations together has a limit, too. It is the high
//! limit, and half of the low limit for each station of the round but one. Deviations: Linux also
//! applies this limit without a driver queue, and checks it before each round instead of each turn.
//!
//! Sources: Linux 6.12 mac80211 (`ieee80211_next_txq`, `ieee80211_txq_airtime_check`,
//! `ieee80211_txq_schedule_airtime_check`, `airtime.c`);
//! round-robin: Linux 4.10 ath9k (`ath_txq_schedule`); Høiland-Jørgensen et al., *Ending the
//! Anomaly*, ATC 2017.

use super::phy::Phy;
use crate::units::{Bytes, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Default weight of a station: its credit per round, in µs.
pub const WEIGHT: u64 = 256;
/// Time after its last activity for which a station with debt stays in the round.
const ACTIVE: Span = Span::ms(100);
/// Default limits of a station's pending airtime.
pub const AQL_LIMITS: AqlLimits = AqlLimits {
    low: Span::us(5000),
    high: Span::us(12_000),
};
/// Default maximum of the pending airtime of all stations together, for a station above its low
/// limit.
pub const AQL_THRESHOLD: Span = Span::us(24_000);

/// The limits of a station's pending airtime in one category.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AqlLimits {
    /// Below this pending airtime, a station may always get more.
    pub low: Span,
    /// Maximum pending airtime; at most `low` if this is below `low`.
    pub high: Span,
}

/// The expected airtime of a packet of this size. The time before a transmission is shared by the
/// expected length of an aggregate, which doubles with each class of rates.
pub fn estimate(phy: &Phy, size: Bytes) -> Span {
    let ns_of = |bytes: u64| (bytes * 8).saturating_mul(1_000_000_000) / phy.rate().as_bit().max(1);
    // QoS header, LLC and FCS, as Linux adds them to what Ethernet's header leaves.
    let data = ns_of(size.get() + 38 - 14);
    let shift = match ns_of(1024) / 1000 {
        _ if !phy.aggregates() => 0,
        400.. => 1,
        250.. => 2,
        150.. => 3,
        70.. => 4,
        20.. => 5,
        _ => 6,
    };
    let before = (36 + 4 * u64::from(phy.streams())) * 1000;
    Span::ns((data + (before >> shift)).max(4000))
}

/// Airtime queue limits of one host.
#[derive(Clone, Debug)]
pub struct Aql {
    total: Span,
    threshold: Span,
    enabled: bool,
}

impl Aql {
    /// No pending airtime; without `enabled`, every station may always get more.
    pub fn new(enabled: bool, threshold: Span) -> Aql {
        Aql {
            total: Span::ZERO,
            threshold,
            enabled,
        }
    }
    /// Returns whether a station with these limits and this pending airtime may get more.
    pub fn allows(&self, limits: &AqlLimits, pending: Span) -> bool {
        !self.enabled
            || pending < limits.low
            || (self.total < self.threshold && pending < limits.high)
    }
    /// Returns whether a category with this pending airtime of all stations may get more, with so
    /// many stations in the round.
    pub fn allows_category(&self, limits: &AqlLimits, listed: usize, pending: Span) -> bool {
        let others = listed.saturating_sub(1) as u64;
        !self.enabled || pending.as_ns() < limits.high.as_ns() + others * limits.low.as_ns() / 2
    }
    /// Adds the estimate of a packet that goes to the driver.
    pub fn add_pending(&mut self, pending: &mut Span, estimate: Span) {
        *pending = *pending + estimate;
        self.total = self.total + estimate;
    }
    /// Subtracts the estimate of a packet that was sent or given up.
    pub fn subtract_pending(&mut self, pending: &mut Span, estimate: Span) {
        *pending = *pending - estimate;
        self.total = self.total - estimate;
    }
}

/// One station in the round of a category.
#[derive(Clone, Debug)]
struct Account {
    listed: bool,
    /// In microseconds.
    deficit: i64,
    /// Credit per round, in µs.
    weight: i64,
    active: Time,
}

/// The round of one category.
#[derive(Clone, Debug)]
pub struct Round {
    by_airtime: bool,
    accounts: Vec<Account>,
    list: VecDeque<usize>,
}

impl Round {
    /// A round of stations with these weights, in µs.
    pub fn new(weights: impl Iterator<Item = u64>, by_airtime: bool) -> Round {
        let fresh = |weight: u64| Account {
            listed: false,
            deficit: weight as i64,
            weight: weight as i64,
            active: Time::ZERO,
        };
        Round {
            by_airtime,
            accounts: weights.map(fresh).collect(),
            list: VecDeque::new(),
        }
    }
    /// Adds a station that has frames to send.
    pub fn activate(&mut self, now: Time, station: usize) {
        let account = &mut self.accounts[station];
        account.active = now;
        if !account.listed {
            account.listed = true;
            if self.by_airtime {
                self.list.push_front(station);
            } else {
                self.list.push_back(station);
            }
        }
    }
    /// Returns the number of stations in the round.
    pub fn listed(&self) -> usize {
        self.list.len()
    }
    /// Returns the station to serve now, which stays at the head. `has`: whether a station has
    /// frames to send; `may`: whether it may send them.
    pub fn turn(
        &mut self,
        now: Time,
        has: impl Fn(usize) -> bool,
        may: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if !self.by_airtime {
            return self.list.front().copied();
        }
        let mut blocked = 0;
        while blocked < self.list.len() {
            let station = *self.list.front()?;
            let account = &mut self.accounts[station];
            let has = has(station);
            if account.deficit < 0 && (has || now.since(account.active) < ACTIVE) {
                account.deficit += account.weight;
                self.list.rotate_left(1);
            } else if !has {
                self.leaves(station);
            } else if !may(station) {
                blocked += 1;
                self.list.rotate_left(1);
            } else {
                return Some(station);
            }
        }
        None
    }
    /// The station at the head was served; `more`: this station has frames left.
    pub fn served(&mut self, station: usize, more: bool) {
        if self.by_airtime {
            return;
        }
        self.leaves(station);
        if more {
            self.accounts[station].listed = true;
            self.list.push_back(station);
        }
    }
    /// The station at the head found the hardware full; with round-robin, it goes to the end.
    pub fn misses(&mut self, station: usize) {
        if !self.by_airtime && self.list.front() == Some(&station) {
            self.list.rotate_left(1);
        }
    }
    /// Removes a station from the round.
    pub fn leaves(&mut self, station: usize) {
        self.accounts[station].listed = false;
        if self.list.front() == Some(&station) {
            self.list.pop_front();
        } else {
            self.list.retain(|other| *other != station);
        }
    }
    /// Subtracts a station's used airtime from its deficit.
    pub fn charge(&mut self, now: Time, station: usize, airtime: Span) {
        let account = &mut self.accounts[station];
        account.active = now;
        account.deficit -= airtime.as_us() as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::phy::{Band, Standard, Width};
    use super::*;

    #[test]
    fn a_station_four_times_slower_is_served_a_quarter_as_often() {
        let mut round = Round::new([WEIGHT; 2].into_iter(), true);
        let mut served = [0u32; 2];
        (0..2).for_each(|station| round.activate(Time::ZERO, station));
        for _ in 0..5000 {
            let station = round.turn(Time::ZERO, |_| true, |_| true).unwrap();
            served[station] += 1;
            round.charge(Time::ZERO, station, Span::us([1000, 4000][station]));
            round.served(station, true);
        }
        assert_eq!(served, [4000, 1000]);
    }

    #[test]
    fn airtime_is_proportional_to_the_weight() {
        let mut round = Round::new([256, 768].into_iter(), true);
        let mut served = [0u32; 2];
        (0..2).for_each(|station| round.activate(Time::ZERO, station));
        for _ in 0..8000 {
            let station = round.turn(Time::ZERO, |_| true, |_| true).unwrap();
            served[station] += 1;
            round.charge(Time::ZERO, station, Span::us(1000));
            round.served(station, true);
        }
        assert!(served[0].abs_diff(2000) <= 1, "{served:?}");
    }

    #[test]
    fn a_station_without_room_loses_its_turn_in_round_robin() {
        let mut round = Round::new([WEIGHT; 3].into_iter(), false);
        (0..3).for_each(|station| round.activate(Time::ZERO, station));
        let turn = |round: &mut Round| round.turn(Time::ZERO, |_| true, |_| true).unwrap();
        round.misses(0);
        assert_eq!(turn(&mut round), 1);
        round.served(1, true);
        assert_eq!(round.list, [2, 0, 1]);
        // By airtime, the station stays.
        let mut round = Round::new([WEIGHT; 2].into_iter(), true);
        round.activate(Time::ZERO, 1);
        round.activate(Time::ZERO, 0);
        round.misses(0);
        assert_eq!(turn(&mut round), 0);
    }

    #[test]
    fn an_idle_station_keeps_its_airtime_debt_for_100_ms() {
        // It owes 344 µs, has nothing when its turn comes, and returns beside a station without
        // debt.
        let first_after = |ms| {
            let mut round = Round::new([WEIGHT; 2].into_iter(), true);
            let at = Time::ZERO + Span::ms(ms);
            round.activate(Time::ZERO, 0);
            round.charge(Time::ZERO, 0, Span::us(600));
            assert_eq!(round.turn(at, |_| false, |_| true), None);
            round.activate(at, 1);
            round.activate(at, 0);
            round.turn(at, |_| true, |_| true)
        };
        assert_eq!((first_after(99), first_after(100)), (Some(0), Some(1)));
    }

    #[test]
    fn a_round_with_all_stations_blocked_returns_none() {
        let mut round = Round::new([WEIGHT; 3].into_iter(), true);
        (0..3).for_each(|station| round.activate(Time::ZERO, station));
        assert_eq!(round.turn(Time::ZERO, |_| true, |_| false), None);
        assert_eq!(
            round.turn(Time::ZERO, |_| true, |station| station == 1),
            Some(1)
        );
        assert_eq!(round.turn(Time::ZERO, |_| false, |_| true), None);
        assert!(round.list.is_empty());
    }

    #[test]
    fn pending_airtime_has_two_limits() {
        let mut aql = Aql::new(true, AQL_THRESHOLD);
        let mut pending = [Span::ZERO; 3];
        let mut fill = |aql: &mut Aql, station: usize| {
            while aql.allows(&AQL_LIMITS, pending[station]) {
                aql.add_pending(&mut pending[station], Span::us(1000));
            }
            pending[station].as_us()
        };
        assert_eq!(fill(&mut aql, 0), 12_000);
        assert_eq!(fill(&mut aql, 1), 12_000);
        assert_eq!(fill(&mut aql, 2), 5000);
    }

    #[test]
    fn each_station_fills_up_to_its_own_limits() {
        let limits = [(20, 30), (1, 50), (8, 2)].map(|(low, high)| AqlLimits {
            low: Span::ms(low),
            high: Span::ms(high),
        });
        let mut aql = Aql::new(true, Span::ms(40));
        let filled = limits.map(|limits| {
            let mut pending = Span::ZERO;
            while aql.allows(&limits, pending) {
                aql.add_pending(&mut pending, Span::ms(1));
            }
            pending.as_ms()
        });
        // The second reaches the threshold of all, the third has only a low limit.
        assert_eq!(filled, [30.0, 10.0, 8.0]);
    }

    #[test]
    fn a_category_has_half_of_the_low_limit_for_each_other_station() {
        let aql = Aql::new(true, AQL_THRESHOLD);
        for (listed, most) in [(1, 12_000), (3, 17_000), (30, 84_500)] {
            let allows = |us| aql.allows_category(&AQL_LIMITS, listed, Span::us(us));
            assert!(allows(most - 1) && !allows(most), "{listed}");
        }
    }

    #[test]
    fn estimates_are_close_to_the_airtime_of_an_aggregate() {
        let slow = Phy::new(Standard::N, Band::Ghz5, Width::W20, 0, 1, true).unwrap();
        let fast = Phy::new(Standard::N, Band::Ghz5, Width::W20, 7, 2, true).unwrap();
        let us = |phy: &Phy| estimate(phy, Bytes::new(1514)).as_us();
        assert_eq!((us(&slow), us(&fast)), (1723, 86));
    }
}
