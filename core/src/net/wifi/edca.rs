//! EDCA: the contention of 802.11's four access categories.
//!
//! Algorithm: a category with frames waits until the medium has been idle for `AIFS = SIFS + AIFSN
//! · slot`. From then on, the category acts at each slot boundary. With its backoff counter at 0, a
//! category transmits, otherwise it counts down. The boundary at which another category begins to
//! transmit counts as well. Contenders that begin at the same boundary collide, and all their
//! frames are lost. Between categories of one host the higher one sends and the lower counts a
//! collision.
//!
//! After a successful transmission, the contention window is `CWmin`. After a failed transmission,
//! the window is twice as large plus one, at most `CWmax`. When [`RETRIES`] retries have failed,
//! too, the window is `CWmin` again. In either case a new counter is drawn, uniformly from 0 to the
//! window, even if no frame waits.
//!
//! Sources: IEEE 802.11-2016, 10.22.2 (the slots), table 9-137 (stations). For the access point's
//! own transmissions: the Wi-Fi Alliance's WMM defaults, which are hostapd's. The count at the
//! boundary of another's transmission distinguishes EDCA from DCF in Bianchi's model (Bianchi,
//! Tinnirello, Scalia, 2005).

use super::phy::Band;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// The four access categories, the lowest first.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// Background.
    Background,
    /// Best effort.
    BestEffort,
    /// Video.
    Video,
    /// Voice.
    Voice,
}

/// All of them.
pub const CATEGORIES: [Category; 4] = [
    Category::Background,
    Category::BestEffort,
    Category::Video,
    Category::Voice,
];

impl Category {
    /// The category of a code point by its three highest bits, Linux's default.
    pub fn of_dscp(dscp: u8) -> Category {
        match dscp >> 3 & 7 {
            1 | 2 => Category::Background,
            0 | 3 => Category::BestEffort,
            4 | 5 => Category::Video,
            _ => Category::Voice,
        }
    }
    /// Returns the index of the category in tables.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Contention parameters of a category.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Edca {
    /// Slots after SIFS.
    pub aifsn: u32,
    /// Minimum contention window.
    pub cw_min: u32,
    /// Maximum contention window.
    pub cw_max: u32,
    /// Maximum duration of a transmission opportunity; zero: one transmission.
    pub txop: Span,
}

const fn edca(aifsn: u32, cw_min: u32, cw_max: u32, txop_us: u64) -> Edca {
    Edca {
        aifsn,
        cw_min,
        cw_max,
        txop: Span::us(txop_us),
    }
}

/// Parameters of stations, by category.
pub const STATION: [Edca; 4] = [
    edca(7, 15, 1023, 0),
    edca(3, 15, 1023, 0),
    edca(2, 7, 15, 3008),
    edca(2, 3, 7, 1504),
];
/// Parameters of the access point's own transmissions.
pub const ACCESS_POINT: [Edca; 4] = [
    edca(7, 15, 1023, 0),
    edca(3, 15, 63, 0),
    edca(1, 7, 15, 3008),
    edca(1, 3, 7, 1504),
];

/// Maximum number of retries of a transmission. If the last one fails, the transmission is returned
/// to the driver and the window is `CWmin` again (dot11ShortRetryLimit).
pub const RETRIES: u32 = 7;

/// One category of one host.
#[derive(Clone, Debug)]
pub struct Contender {
    edca: Edca,
    window: u32,
    /// Slots left to count.
    counter: u32,
    failures: u32,
    /// Time since which the category has frames to send; `None` if it has none.
    ready: Option<Time>,
}

impl Contender {
    /// A contender without frames.
    pub fn new(edca: Edca) -> Contender {
        Contender {
            edca,
            window: edca.cw_min,
            counter: 0,
            failures: 0,
            ready: None,
        }
    }
    /// Returns the contention parameters.
    pub fn edca(&self) -> &Edca {
        &self.edca
    }
    /// Returns whether the category has frames to send.
    pub fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
    /// Number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }
    /// Reports frames to send from `now` on. If the medium is busy and the backoff counter is 0,
    /// the contender draws a new counter.
    pub fn contend(&mut self, now: Time, busy: bool, rng: &mut Rng) {
        if self.ready.is_none() {
            self.ready = Some(now);
            if busy && self.counter == 0 {
                self.draw(rng);
            }
        }
    }
    /// Reports that there are no more frames to send.
    pub fn stop_contending(&mut self) {
        self.ready = None;
    }
    /// The first slot boundary at which the contender decides, on a medium idle since `idle`.
    fn base(&self, idle: Time, band: Band) -> Time {
        idle + band.sifs() + Span::ns(u64::from(self.edca.aifsn) * band.slot().as_ns())
    }
    /// Returns when the contender transmits on a medium idle since `idle`, if no other does before;
    /// [`Time::MAX`] without frames.
    pub fn transmits(&self, idle: Time, band: Band) -> Time {
        let Some(ready) = self.ready else {
            return Time::MAX;
        };
        let slot = band.slot().as_ns();
        let base = self.base(idle, band);
        let counted = base + Span::ns(u64::from(self.counter) * slot);
        if counted >= ready {
            return counted;
        }
        base + Span::ns(ready.since(base).as_ns().next_multiple_of(slot))
    }
    /// Another contender begins to transmit at `now`, on a medium idle since `idle`. Not to be
    /// called for the contenders that transmit at `now`.
    pub fn freezes(&mut self, now: Time, idle: Time, band: Band, rng: &mut Rng) {
        let base = self.base(idle, band);
        let had = self.counter;
        if now >= base {
            let boundaries = now.since(base).as_ns() / band.slot().as_ns() + 1;
            self.counter = self
                .counter
                .saturating_sub(u32::try_from(boundaries).unwrap_or(u32::MAX));
        }
        // It became ready on an idle medium and would have transmitted without counting.
        if had == 0 && self.ready.is_some_and(|ready| ready >= idle) {
            self.draw(rng);
        }
    }
    /// Reports that the transmission was acknowledged.
    pub fn succeeds(&mut self, rng: &mut Rng) {
        self.failures = 0;
        self.window = self.edca.cw_min;
        self.draw(rng);
    }
    /// Reports that the transmission was not acknowledged. Returns whether the transmission is
    /// returned to the driver.
    pub fn fails(&mut self, rng: &mut Rng) -> bool {
        self.failures += 1;
        let gives_up = self.failures > RETRIES;
        if gives_up {
            self.failures = 0;
            self.window = self.edca.cw_min;
        } else {
            self.window = (2 * self.window + 1).min(self.edca.cw_max);
        }
        self.draw(rng);
        gives_up
    }
    fn draw(&mut self, rng: &mut Rng) {
        self.counter = rng.below(u64::from(self.window) + 1) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::us(n)
    }

    #[test]
    fn a_station_transmits_at_once_on_a_long_idle_medium() {
        let mut rng = Rng::named(1, "edca");
        let mut one = Contender::new(STATION[1]);
        one.contend(us(1000), false, &mut rng);
        // SIFS and three slots have passed; the next boundary is 43 + 9 · 107 µs.
        assert_eq!(one.transmits(us(0), Band::Ghz5), us(1006));
        assert_eq!(one.transmits(us(990), Band::Ghz5), us(990 + 43));
    }

    #[test]
    fn a_slot_with_another_transmission_counts() {
        let mut rng = Rng::named(1, "edca");
        let mut one = Contender::new(STATION[1]);
        one.contend(us(0), true, &mut rng);
        one.counter = 5;
        assert_eq!(one.transmits(us(0), Band::Ghz5), us(43 + 45));
        one.freezes(us(43 + 18), us(0), Band::Ghz5, &mut rng);
        assert_eq!(one.counter, 2);
        // A transmission before its first boundary takes nothing off its counter.
        one.freezes(us(134), us(100), Band::Ghz5, &mut rng);
        assert_eq!(one.counter, 2);
    }

    #[test]
    fn the_window_doubles_and_begins_anew() {
        let mut rng = Rng::named(1, "edca");
        let mut one = Contender::new(STATION[1]);
        let windows: [u32; 8] = core::array::from_fn(|_| {
            one.fails(&mut rng);
            one.window
        });
        assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 1023, 15]);
        one.fails(&mut rng);
        one.succeeds(&mut rng);
        assert_eq!((one.window, one.failures), (15, 0));
    }

    #[test]
    fn a_counter_is_drawn_from_zero_to_the_window() {
        let mut rng = Rng::named(1, "edca");
        let mut one = Contender::new(STATION[3]);
        let mut seen = [0; 4];
        for _ in 0..400 {
            one.succeeds(&mut rng);
            seen[one.counter as usize] += 1;
        }
        assert!(
            seen.iter().all(|times| (60..140).contains(times)),
            "{seen:?}"
        );
    }

    #[test]
    fn code_points_have_categories() {
        let of = |dscp| Category::of_dscp(dscp);
        assert_eq!(
            (of(0), of(8), of(34), of(46)),
            (
                Category::BestEffort,
                Category::Background,
                Category::Video,
                Category::Video
            )
        );
        assert_eq!(of(48), Category::Voice);
    }
}
