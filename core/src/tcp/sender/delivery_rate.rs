//! Delivery-rate samples as in Linux.
//!
//! Algorithm: a leaving packet stores the number of delivered packets and the time of the last
//! delivery. The leaving packet also stores the time when the packet delivered last had been sent.
//! When an ACK delivers packets, the snapshot of the packet that was sent last among them is used.
//! The sample is the number of packets delivered since this snapshot, divided by a duration. The
//! duration is the time in which these packets were sent or the time in which they were
//! acknowledged, whichever is longer. Therefore neither aggregated ACKs nor bursts make a path look
//! faster than it is.
//!
//! A sample shorter than the minimum round trip is discarded. An attempt to send may find no data
//! although the window has room and no repairs are pending. The samples of all data in flight at
//! that time count as limited by the application.
//!
//! Sources: draft-cheng-iccrg-delivery-rate-estimation; Linux 6.12 `tcp_rate.c`. Deviation:
//! reneging receivers (which discard SACKed data) do not stop the samples; no receiver of narrows
//! reneges.

use crate::cc::{RateSample, Totals};
use crate::tcp::scoreboard::{Seg, Snapshot};
use crate::units::{Rate, Span, Time};

/// The packet sent last of those that one ACK delivered.
#[derive(Copy, Clone, Debug)]
pub(super) struct Newest {
    pub sent_us: u64,
    /// The number of its segment.
    pub number: u64,
    pub snapshot: Snapshot,
}

impl Newest {
    /// A segment by its record and its number.
    #[inline]
    pub fn of(seg: &Seg, number: u64) -> Newest {
        Newest {
            sent_us: seg.sent_us,
            number,
            snapshot: seg.snapshot(),
        }
    }
}

/// Delivery counters of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    /// Packets, the SYN included.
    pub packets: u64,
    last_us: u64,
    first_sent_us: u64,
    /// The application limits the connection until more packets than this number are delivered; 0
    /// if the application is not the limit.
    app_limited: u64,
    /// The reported rate: of the last sample not limited by the application, or of a later, faster
    /// one.
    shown_packets: u32,
    shown_us: u64,
    shown_app_limited: bool,
}

impl Delivered {
    /// The snapshot for a packet that leaves now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            delivered: self.packets,
            delivered_us: self.last_us,
            first_sent_us: self.first_sent_us,
            app_limited: self.app_limited > 0,
        }
    }
    /// Begins a flight: no other packet is in flight.
    pub fn begin_flight(&mut self, sent_us: u64) {
        self.first_sent_us = sent_us;
        self.last_us = sent_us;
    }
    /// Records that the application is the limit: samples of the packets in flight count as limited
    /// by it.
    pub fn limit_by_app(&mut self, in_flight: u32) {
        self.app_limited = (self.packets + u64::from(in_flight)).max(1);
    }
    /// Returns whether the application is the limit.
    pub fn app_limited(&self) -> bool {
        self.app_limited > 0
    }
    /// Takes the sample of an ACK for `delivered` packets (already counted); `newest` was sent last
    /// of them. Returns the duration of the sample, µs.
    #[inline(always)]
    pub fn sample(
        &mut self,
        now_us: u64,
        newest: Option<&Newest>,
        delivered: u32,
        min_rtt_us: Option<u64>,
    ) -> Option<u64> {
        if self.app_limited > 0 && self.packets > self.app_limited {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.last_us = now_us;
        }
        let newest = newest?;
        self.first_sent_us = newest.sent_us;
        let then = &newest.snapshot;
        let sending = newest.sent_us - then.first_sent_us;
        let interval_us = sending.max(now_us.saturating_sub(then.delivered_us));
        if interval_us < min_rtt_us.unwrap_or(u64::MAX) {
            return None;
        }
        let delivered = self.packets - then.delivered;
        let shown = u64::from(self.shown_packets);
        if !then.app_limited || delivered * self.shown_us >= shown * interval_us {
            // All these packets were in flight together.
            self.shown_packets = delivered as u32;
            self.shown_us = interval_us;
            self.shown_app_limited = then.app_limited;
        }
        Some(interval_us)
    }
    /// The sample of the ACK that was counted last, which delivered `newest` and lasted
    /// `interval_us`.
    pub fn rate_sample(&self, newest: &Newest, interval_us: u64) -> RateSample {
        let then = &newest.snapshot;
        RateSample {
            prior_delivered: then.delivered,
            delivered: self.packets - then.delivered,
            interval: Span::us(interval_us),
            app_limited: then.app_limited,
        }
    }
    /// The delivery rate that TCP_INFO shows, with segments of `mss` bytes, and whether the
    /// application limited it.
    pub fn shown(&self, mss: u32) -> (Option<Rate>, bool) {
        let (packets, us) = (u64::from(self.shown_packets), self.shown_us);
        let rate = (us > 0).then(|| Rate::bit(packets * u64::from(mss) * 8_000_000 / us));
        (rate, self.shown_app_limited)
    }
    /// Counters for congestion controls; the scoreboard counts `lost`.
    pub fn totals(&self, lost: u64) -> Totals {
        Totals {
            delivered: self.packets,
            delivered_at: Time::from_ns(self.last_us * 1000),
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets leave 1 ms apart over a path of 40 ms, and their ACKs all arrive at once:
    /// sending took longer.
    #[test]
    fn acks_that_come_in_a_clump_do_not_raise_the_rate() {
        let mut d = Delivered {
            packets: 1,
            ..Delivered::default()
        };
        d.begin_flight(0);
        let first = d.snapshot();
        d.packets += 1;
        let newest = Newest {
            sent_us: 0,
            number: 0,
            snapshot: first,
        };
        d.sample(40_000, Some(&newest), 1, Some(40_000)).unwrap();
        let sent = d.snapshot();
        d.packets += 50;
        let newest = Newest {
            sent_us: 90_000,
            number: 50,
            snapshot: sent,
        };
        let interval_us = d.sample(90_001, Some(&newest), 50, Some(40_000)).unwrap();
        let sample = d.rate_sample(&newest, interval_us);
        assert_eq!((sample.delivered, sample.interval), (50, Span::us(90_000)));
    }

    #[test]
    fn a_sample_shorter_than_the_least_round_trip_is_none() {
        let mut d = Delivered::default();
        d.begin_flight(1000);
        let newest = Newest {
            sent_us: 1000,
            number: 0,
            snapshot: d.snapshot(),
        };
        d.packets += 1;
        assert_eq!(d.sample(30_000, Some(&newest), 1, Some(40_000)), None);
    }

    #[test]
    fn what_was_in_flight_when_the_application_ran_dry_is_marked() {
        let mut d = Delivered {
            packets: 10,
            ..Delivered::default()
        };
        d.limit_by_app(3);
        assert!(d.snapshot().app_limited);
        d.packets = 13;
        d.sample(1, None, 3, None);
        assert!(d.app_limited());
        d.packets = 14;
        d.sample(2, None, 1, None);
        assert!(!d.app_limited());
    }
}
