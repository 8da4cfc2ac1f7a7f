//! Rate control in the manner of Minstrel, and the frame errors that it learns from.
//!
//! Algorithm: the success probability of each rate is an average over intervals of [`INTERVAL`], in
//! which the old average has the weight `OLD`. The expected throughput of a rate is that
//! probability over the airtime of a frame, in a transmission of average length. Probabilities
//! above nine tenths count as nine tenths, those below one tenth as zero. A transmission is tried
//! twice at the rate with the highest throughput, twice at the second, then at the most reliable
//! one ([`Chain`]). One transmission in `SAMPLE` begins with another rate, a sample. Samples are
//! drawn from the rates that would have a higher throughput than the best one if they had no
//! errors. One sample in four is drawn from all rates. The control begins at the lowest rate,
//! without information about the others.
//!
//! **Errors**: at the minimum sensitivity of a receiver, a tenth of the frames of 4096 bytes is
//! lost. `NEEDS_DB` has the signal-to-noise ratio at this sensitivity, for a noise figure of 10 dB.
//! This ratio is 9 dB for BPSK ½ and up to 34 dB for 256-QAM ⅚. Each doubling of the channel width
//! or of the streams adds 3 dB. With a signal 2 dB lower, errors increase tenfold.
//!
//! Sources: Linux 6.12 mac80211 (`rc80211_minstrel_ht.c`: 50 ms, 75 %, 90 %, 10 %, average length);
//! IEEE 802.11-2016, tables 19-23 and 21-25 (sensitivity). Deviations: samples are random, not
//! cyclic; the chain's tries are two, not as many as fit into 6 ms. The 2 dB are a round number for
//! a channel without fading, because the standard gives only one point of each error curve.

use super::Link;
use super::phy::{Band, Phy, Width};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use alloc::vec::Vec;

/// Interval between updates of the averages.
pub const INTERVAL: Span = Span::ms(50);
/// Weight of the old average.
const OLD: f64 = 0.75;
/// Probabilities above this are treated as equal.
const ENOUGH: f64 = 0.9;
/// A rate with a lower probability counts as useless.
const HOPELESS: f64 = 0.1;
/// One transmission in this many samples another rate.
const SAMPLE: u32 = 16;
/// One sample in this many is drawn from all rates.
const ANY: u64 = 4;
/// Time before a transmission, in addition to its preamble: AIFS and half of the minimum contention
/// window.
const CONTENTION_NS: f64 = 110_500.0;
/// A full frame on the air.
const FRAME: Bytes = Bytes::new(1538);

/// Required signal above the noise by MCS, in dB, at 20 MHz with one stream.
const NEEDS_DB: [f64; 10] = [9.0, 12.0, 14.0, 17.0, 21.0, 25.0, 26.0, 27.0, 32.0, 34.0];

/// The rates of one transmission: for its first two tries, the next two, and the rest.
pub type Chain = [u8; 3];

/// Returns the rate of the chain for a try, counted from 0.
pub fn stage(chain: &Chain, failures: u32) -> u8 {
    chain[(failures / 2).min(2) as usize]
}

/// The error exponent per byte at a signal-to-noise ratio: `n` bytes arrive with probability
/// `exp(-n · errors)`.
pub fn errors(snr_db: f64, width: Width, mcs: u8, streams: u8) -> f64 {
    let doublings = match width {
        Width::W20 => 0.0,
        Width::W40 => 3.0,
        Width::W80 => 6.0,
    };
    let needs = NEEDS_DB[usize::from(mcs.min(9))]
        + doublings
        + 10.0 * libm::log10(f64::from(streams.max(1)));
    -libm::log(0.9) / 4096.0 * libm::pow(10.0, (needs - snr_db) / 2.0)
}

/// Airtime of a full frame in nanoseconds, with its part of the time before a transmission of
/// `length` frames.
fn airtime_ns(phy: &Phy, length: f64) -> f64 {
    let before = phy.duration(Bytes::ZERO).as_ns() as f64 + CONTENTION_NS;
    let data = FRAME.get() as f64 * 8.0 * 1e9 / phy.rate().as_bit() as f64;
    before / length.max(1.0) + data
}

/// Expected throughput of a fixed rate in bit/s, at this probability that a frame arrives damaged.
/// The length of a transmission is the one that Linux assumes before the first transmission
/// (`minstrel_ht_avg_ampdu_len`).
pub fn expected(phy: &Phy, error: f64) -> f64 {
    let us = FRAME.get() as f64 * 8.0 * 1e6 / phy.rate().as_bit() as f64;
    let length = match us {
        _ if !phy.aggregates() => 1.0,
        us if us > 400.0 => 2.0,
        us if us > 250.0 => 4.0,
        us if us > 150.0 => 8.0,
        _ => 16.0,
    };
    let arrives = 1.0 - error;
    if arrives < HOPELESS {
        return 0.0;
    }
    arrives.min(ENOUGH) / airtime_ns(phy, length) * FRAME.get() as f64 * 8e9
}

/// One rate.
#[derive(Clone, Debug)]
struct Rated {
    phy: Phy,
    /// [`errors`] of this link.
    errors: f64,
    /// In this interval.
    attempts: u32,
    successes: u32,
    /// The averaged success probability; `None` before the first try.
    probability: Option<f64>,
}

/// The rate control of one direction of one link.
#[derive(Clone, Debug)]
pub struct Minstrel {
    rates: Vec<Rated>,
    chain: Chain,
    looks: Time,
    sent: u32,
    /// Average number of frames of a transmission.
    length: f64,
    rng: Rng,
}

impl Minstrel {
    /// Starts with all rates that a link may use.
    pub fn new(link: &Link, band: Band, rng: Rng) -> Minstrel {
        let Link {
            standard,
            width,
            short_guard,
            most,
            snr_db,
        } = *link;
        let all = (1..=most.1).flat_map(|streams| (0..=most.0).map(move |mcs| (mcs, streams)));
        let rated = |(mcs, streams)| {
            let phy = Phy::new(standard, band, width, mcs, streams, short_guard)?;
            Some(Rated {
                phy,
                errors: errors(snr_db, width, mcs, streams),
                attempts: 0,
                successes: 0,
                probability: None,
            })
        };
        Minstrel {
            rates: all.filter_map(rated).collect(),
            chain: [0; 3],
            looks: Time::ZERO + INTERVAL,
            sent: 0,
            length: 1.0,
            rng,
        }
    }
    /// A rate.
    pub fn phy(&self, rate: u8) -> Phy {
        self.rates[usize::from(rate)].phy
    }
    /// Returns the probability that a frame of this size arrives damaged.
    pub fn error(&self, rate: u8, size: Bytes) -> f64 {
        1.0 - libm::exp(-self.rates[usize::from(rate)].errors * size.get() as f64)
    }
    /// Updates the errors after a change of the link.
    pub fn moves(&mut self, each: impl Fn(&Phy) -> f64) {
        self.rates
            .iter_mut()
            .for_each(|rate| rate.errors = each(&rate.phy));
    }
    /// Returns the rate of the highest throughput.
    pub fn best(&self) -> u8 {
        self.chain[0]
    }
    /// The rates of the next transmission.
    pub fn choose(&mut self, now: Time) -> Chain {
        if now >= self.looks {
            self.looks = now + INTERVAL;
            self.look();
        }
        self.sent += 1;
        if self.sent % SAMPLE != 0 || self.rates.len() < 2 {
            return self.chain;
        }
        let throughput = self.throughput(usize::from(self.chain[0]));
        let any = self.rng.below(ANY) == 0;
        let better = |rate: &usize| any || 1.0 / self.airtime_ns(*rate) > throughput;
        let others: Vec<usize> = (0..self.rates.len())
            .filter(|rate| *rate != usize::from(self.chain[0]))
            .filter(better)
            .collect();
        match others.len() {
            0 => self.chain,
            n => [
                others[self.rng.below(n as u64) as usize] as u8,
                self.chain[0],
                self.chain[2],
            ],
        }
    }
    /// Records that `successes` of `attempts` frames arrived at a rate.
    pub fn record(&mut self, rate: u8, attempts: u32, successes: u32) {
        let rate = &mut self.rates[usize::from(rate)];
        rate.attempts += attempts;
        rate.successes += successes;
        self.length = self.length * OLD + f64::from(attempts) * (1.0 - OLD);
    }
    /// Expected throughput of the best rate, in bit/s; 0 before the first update.
    pub fn expected(&self) -> f64 {
        self.throughput(usize::from(self.best())) * FRAME.get() as f64 * 8e9
    }
    /// Airtime of a frame in nanoseconds, with its part of the time before a transmission.
    fn airtime_ns(&self, rate: usize) -> f64 {
        airtime_ns(&self.rates[rate].phy, self.length)
    }
    /// Delivered frames per nanosecond.
    fn throughput(&self, rate: usize) -> f64 {
        match self.rates[rate].probability {
            Some(p) if p >= HOPELESS => p.min(ENOUGH) / self.airtime_ns(rate),
            _ => 0.0,
        }
    }
    fn look(&mut self) {
        for rate in self.rates.iter_mut().filter(|rate| rate.attempts > 0) {
            let seen = f64::from(rate.successes) / f64::from(rate.attempts);
            rate.probability = Some(
                rate.probability
                    .map_or(seen, |old| old * OLD + seen * (1.0 - OLD)),
            );
            (rate.attempts, rate.successes) = (0, 0);
        }
        // The first of equals is the lowest rate.
        let most = |of: &dyn Fn(usize) -> f64, but: Option<usize>| {
            let others = (0..self.rates.len()).filter(|rate| Some(*rate) != but);
            others
                .reduce(|best, rate| if of(rate) > of(best) { rate } else { best })
                .unwrap_or(0)
        };
        let best = most(&|rate| self.throughput(rate), None);
        let second = most(
            &|rate| self.throughput(rate),
            Some(best).filter(|_| self.rates.len() > 1),
        );
        let sure = |rate: usize| {
            let p = self.rates[rate].probability.unwrap_or(0.0);
            // Among several reliable rates, the fastest.
            if p > 0.95 {
                1.0 + self.throughput(rate)
            } else {
                p
            }
        };
        let surest = most(&sure, None);
        self.chain = [best, second, surest].map(|rate| rate as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::super::phy::Standard;
    use super::*;

    fn control(snr_db: f64) -> Minstrel {
        let link = Link {
            standard: Standard::N,
            width: Width::W20,
            short_guard: true,
            most: (7, 2),
            snr_db,
        };
        Minstrel::new(&link, Band::Ghz5, Rng::named(1, "minstrel"))
    }

    /// Returns the choice after this many transmissions of 16 frames, one every millisecond from
    /// `from`.
    fn settle(control: &mut Minstrel, from: u64, ms: u64) -> u8 {
        let mut rng = Rng::named(7, "air");
        for ms in from..from + ms {
            let chain = control.choose(Time::ZERO + Span::ms(ms));
            for failures in 0..8 {
                let rate = stage(&chain, failures);
                let error = control.error(rate, FRAME);
                let arrived = (0..16).filter(|_| rng.unit() >= error).count() as u32;
                control.record(rate, 16, arrived);
                if arrived > 0 {
                    break;
                }
            }
        }
        control.best()
    }

    /// Returns the rate of the highest throughput at this length of aggregates, from the error
    /// curve.
    fn oracle(control: &Minstrel) -> u8 {
        let throughput =
            |rate: usize| (1.0 - control.error(rate as u8, FRAME)) / control.airtime_ns(rate);
        let all = 0..control.rates.len();
        all.reduce(|best, rate| {
            if throughput(rate) > throughput(best) {
                rate
            } else {
                best
            }
        })
        .unwrap() as u8
    }

    #[test]
    fn a_tenth_of_4096_byte_frames_is_lost_at_the_sensitivity_of_the_standard() {
        for (mcs, db) in [(0, 9.0), (4, 21.0), (7, 27.0)] {
            let lost = 1.0 - libm::exp(-4096.0 * errors(db, Width::W20, mcs, 1));
            assert!((lost - 0.1).abs() < 1e-12, "{mcs}: {lost}");
        }
        assert!(errors(30.0, Width::W40, 7, 1) > 10.0 * errors(33.0, Width::W40, 7, 1));
        assert_eq!(
            errors(30.0, Width::W40, 7, 1),
            errors(27.0, Width::W20, 7, 1)
        );
    }

    #[test]
    fn it_settles_on_the_rate_of_the_highest_throughput() {
        for snr in [8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 40.0] {
            let mut control = control(snr);
            let chosen = settle(&mut control, 0, 3000);
            let best = oracle(&control);
            let throughput = |rate: u8| {
                (1.0 - control.error(rate, FRAME)) / control.airtime_ns(usize::from(rate))
            };
            assert!(
                throughput(chosen) > 0.93 * throughput(best),
                "{snr} dB: {chosen} instead of {best}"
            );
        }
    }

    #[test]
    fn it_follows_a_link_that_changes_in_either_direction() {
        let mut control = control(35.0);
        let near = settle(&mut control, 0, 3000);
        assert_eq!(near, oracle(&control));
        let at = |snr: f64| {
            move |phy: &Phy| {
                let one = |streams: u8| {
                    (0..8).find(|mcs| {
                        Phy::new(Standard::N, Band::Ghz5, Width::W20, *mcs, streams, true)
                            == Some(*phy)
                    })
                };
                let (mcs, streams) = one(1)
                    .map(|mcs| (mcs, 1))
                    .or(one(2).map(|mcs| (mcs, 2)))
                    .unwrap();
                errors(snr, Width::W20, mcs, streams)
            }
        };
        control.moves(at(14.0));
        let far = settle(&mut control, 3000, 1000);
        assert!(
            control.phy(far).rate() < control.phy(near).rate() && far == oracle(&control),
            "{far}"
        );
        control.moves(at(35.0));
        assert_eq!(settle(&mut control, 4000, 4000), near);
    }

    #[test]
    fn a_transmission_falls_back_along_its_chain() {
        let chain = [9, 5, 1];
        assert_eq!(
            [0, 1, 2, 3, 4, 7].map(|failures| stage(&chain, failures)),
            [9, 9, 5, 5, 1, 1]
        );
    }
}
