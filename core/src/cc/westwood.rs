//! Westwood+ as in Linux: grows like Reno, but on loss reduces the window to the estimated
//! bandwidth-delay product.
//!
//! Algorithm: the data acknowledged in a time `Δ > max(rtt, 50 ms)` gives a sample of the
//! bandwidth, `bytes/Δ`. Samples are smoothed twice: `b ← (7 b + bytes/Δ)/8`, `bw ← (7 bw + b)/8`.
//! A loss first halves the window, as in Reno. When the reduction ends, `cwnd = ssthresh = max(bw ·
//! rtt_min, 2 packets)`. A timeout sets `ssthresh` to this value, and `rtt_min` is measured anew.
//! Random losses therefore cost little.
//!
//! Sources: Mascolo et al., "TCP Westwood" (MobiCom 2001); Grieco, Mascolo (ACM CCR 34(2), 2004)
//! for the filter over round trips, which distinguishes Westwood+ from Westwood. Linux 6.12
//! differs, as measurements show:
//! - the window is halved during recovery, and set to the estimate only afterwards, which may
//!   increase the window;
//! - bandwidth is a whole number of bytes per tick, and time is in ticks. At 100 Hz, or at some
//!   hundred kbit/s, the truncation is large;
//! - the `rtt` that ends a sample is that of the present ACK, and before 6.15
//!   ([`Rule::DeliveredBeforeEvent`]) that of the previous ACK;
//! - a duplicate ACK counts as one full segment that has arrived. These bytes are subtracted from a
//!   later ACK of more than one segment. ACKs in the kernel's fast path are counted without this
//!   subtraction;
//! - both filters begin with the first sample, not with zero.

use super::reno::Reno;
use super::{
    Ack, Cause, CcKind, CongestionControl, Family, Host, Loss, Reduced, Sample, Start, Window,
};
use crate::kernel::Rule;
use crate::transport::Jiffies;
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// Minimum duration of a bandwidth sample.
const LEAST_INTERVAL: Span = Span::ms(50);
/// The assumed RTT before the first RTT sample. Bandwidth samples do not end before this time.
const UNKNOWN_RTT: Span = Span::s(20);
/// Minimum of the estimated bandwidth-delay product, packets.
const LEAST_WINDOW: u64 = 2;

/// Westwood's state.
#[derive(Clone, Debug)]
pub struct Westwood {
    hz: u32,
    /// Whether the RTT of an ACK is known when its data is evaluated
    /// ([`Rule::DeliveredBeforeEvent`]).
    rtt_first: bool,
    ticks: Jiffies,
    /// Payload of a full segment, in bytes.
    mss: u64,
    /// The bandwidth smoothed once and twice, in bytes per tick; `None` before the first sample.
    bandwidth: Option<(u64, u64)>,
    /// Bytes acknowledged in the present bandwidth sample, including those of duplicate ACKs.
    bytes: u64,
    /// The tick at which the present bandwidth sample began.
    since: u64,
    /// `una` of the last ACK; `None` before the first ACK.
    una: Option<u64>,
    /// Bytes counted for duplicate ACKs that no later ACK has acknowledged yet.
    early: u64,
    /// The latest RTT, in ticks.
    rtt: u64,
    /// The minimum RTT, in ticks.
    least: u64,
    /// Whether the minimum RTT must be measured anew, from the next ACK on.
    forget: bool,
}

impl Westwood {
    /// The state at the start of a connection.
    pub fn new(host: &Host) -> Westwood {
        let ticks = Jiffies::new(host.hz);
        let unknown = ticks.from_us(UNKNOWN_RTT.as_us());
        Westwood {
            hz: host.hz,
            rtt_first: host.kernel.follows(Rule::DeliveredBeforeEvent),
            ticks,
            mss: u64::from(host.mss),
            bandwidth: None,
            bytes: 0,
            since: 0,
            una: None,
            early: 0,
            rtt: unknown,
            least: unknown,
            forget: true,
        }
    }
    /// The estimated bandwidth times the minimum RTT, in packets.
    fn window(&self) -> u32 {
        let (_, bandwidth) = self.bandwidth.unwrap_or_default();
        let packets = bandwidth.saturating_mul(self.least) / self.mss;
        packets.max(LEAST_WINDOW).min(u64::from(u32::MAX)) as u32
    }
    fn take_rtt(&mut self, ev: &Sample) {
        if let Some(rtt) = ev.rtt.filter(|rtt| rtt.as_us() > 0) {
            self.rtt = self.ticks.from_us(rtt.as_us());
        }
    }
    /// Ends the bandwidth sample if it has lasted longer than the RTT and 50 ms.
    fn take_sample(&mut self, now: Time) {
        let tick = self.ticks.at(now);
        let took = tick.saturating_sub(self.since);
        if took <= self.rtt.max(self.ticks.from_us(LEAST_INTERVAL.as_us())) {
            return;
        }
        let sample = self.bytes / took;
        self.bandwidth = Some(match self.bandwidth.filter(|&known| known != (0, 0)) {
            None => (sample, sample),
            Some((once, twice)) => {
                let once = smoothed(once, sample);
                (once, smoothed(twice, once))
            }
        });
        self.bytes = 0;
        self.since = tick;
    }
    /// The bytes that an ACK counts for which acknowledges `jump` more bytes in order.
    fn counted(&mut self, jump: u64) -> u64 {
        let segment = self.mss;
        match jump {
            0 => {
                self.early += segment;
                segment
            }
            _ if jump <= segment => jump,
            // Duplicate ACKs have already counted as `jump` bytes or more. Only the segment that
            // filled the hole counts.
            _ if self.early >= jump => {
                self.early -= jump;
                segment
            }
            _ => jump - core::mem::take(&mut self.early),
        }
    }
}

fn smoothed(old: u64, new: u64) -> u64 {
    (7 * old + new) >> 3
}

impl CongestionControl for Westwood {
    fn on_start(&mut self, _w: &mut Window, ev: &Start) {
        self.since = self.ticks.at(ev.now);
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        // Data that the first ACK acknowledges does not count.
        let jump = ev.una.saturating_sub(self.una.unwrap_or(ev.una));
        self.una = Some(ev.una);
        if self.rtt_first {
            self.take_rtt(ev);
        }
        self.take_sample(ev.now);
        self.bytes += if ev.plain { jump } else { self.counted(jump) };
        self.least = if self.forget {
            self.rtt
        } else {
            self.least.min(self.rtt)
        };
        self.forget = false;
        if !self.rtt_first {
            self.take_rtt(ev);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        Reno.on_ack(w, ev);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        if ev.cause == Cause::Timeout {
            w.ssthresh = self.window();
            self.forget = true;
        } else {
            Reno.on_loss(w, ev);
        }
    }

    fn on_reduced(&mut self, w: &mut Window, _ev: &Reduced) {
        w.ssthresh = self.window();
        w.cwnd = w.ssthresh;
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        if let Some((_, bandwidth)) = self.bandwidth {
            visit("bw_mbit", bandwidth as f64 * f64::from(self.hz) * 8e-6);
            visit("rtt_min_ms", self.ticks.to_us(self.least) as f64 / 1e3);
        }
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "westwood",
    help: "Reno that reduces the window to the estimated bandwidth-delay product: for paths with \
        random loss",
    source: "Mascolo et al. 2001; Grieco, Mascolo 2004; Linux 6.12",
    family: Family::Loss,
    year: 2001,
    needs: &[],
    default_in: &[],
    params: &[],
    make: &|_, host| Box::new(Westwood::new(host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    const SEGMENT: u64 = crate::transport::MSS as u64;

    /// A congestion control and its window after a handshake at 0.
    fn begun(hz: u32) -> (Westwood, Window) {
        let host = Host {
            hz,
            ..Host::default()
        };
        let (mut c, mut w) = (Westwood::new(&host), Window::new(10));
        c.on_start(&mut w, &Start::at(Time::ZERO));
        (c, w)
    }
    /// An ACK up to `una` at `ms`, with a round trip of 40 ms.
    fn ack(c: &mut Westwood, ms: u64, una: u64, plain: bool) {
        let mut ev = Sample::at(Time::ZERO + Span::ms(ms));
        (ev.una, ev.rtt, ev.plain) = (una, Some(Span::ms(40)), plain);
        c.on_sample(&mut Window::new(10), &ev);
    }
    /// An ACK without data that measures the round trip, and one that acknowledges `bytes` and ends
    /// the sample at `ms`.
    fn measured(hz: u32, bytes: u64, ms: u64) -> Westwood {
        let (mut c, _) = begun(hz);
        ack(&mut c, 1, 0, true);
        ack(&mut c, 2, bytes, true);
        ack(&mut c, ms, bytes, true);
        c
    }

    #[test]
    fn the_first_sample_is_believed_at_once_the_later_ones_by_an_eighth_twice() {
        let mut c = measured(1000, 100_000, 100);
        assert_eq!(c.bandwidth, Some((1000, 1000)));
        ack(&mut c, 150, 300_000, true);
        ack(&mut c, 200, 300_000, true);
        // (7 · 1000 + 2000)/8 = 1125; (7 · 1000 + 1125)/8 = 1015.6.
        assert_eq!(c.bandwidth, Some((1125, 1015)));
    }

    #[test]
    fn a_sample_lasts_longer_than_an_rtt_and_50_ms() {
        let mut c = measured(1000, 100_000, 50);
        assert_eq!(c.bandwidth, None);
        ack(&mut c, 51, 100_000, true);
        assert!(c.bandwidth.is_some());
        let (mut c, mut w) = begun(1000);
        let mut ev = Sample::at(Time::ZERO);
        ev.rtt = Some(Span::ms(120));
        c.on_sample(&mut w, &ev);
        (ev.now, ev.una) = (Time::ZERO + Span::ms(120), 1000);
        c.on_sample(&mut w, &ev);
        assert_eq!(c.bandwidth, None);
    }

    /// An ACK with a round trip of 40 ms after 120 ms ends a sample, although the ACK before had
    /// 130 ms.
    #[test]
    fn a_sample_ended_by_the_round_trip_of_the_ack_before_until_6_14() {
        let ends = |kernel| {
            let host = Host {
                kernel,
                ..Host::default()
            };
            let (mut c, mut w) = (Westwood::new(&host), Window::new(10));
            let mut ev = Sample::at(Time::ZERO);
            ev.rtt = Some(Span::ms(130));
            c.on_sample(&mut w, &ev);
            ack(&mut c, 120, 1000, true);
            c.bandwidth.is_some()
        };
        assert!(!ends(Kernel::published(6, 14)));
        assert!(ends(Kernel::published(6, 15)));
    }

    /// The bandwidth is rounded down to whole bytes per tick: 14 999 bytes in 100 ms are 149 bytes
    /// per 1 ms, or 1499 bytes per 10 ms.
    #[test]
    fn bandwidth_is_whole_bytes_per_tick() {
        assert_eq!(measured(1000, 14_999, 100).bandwidth, Some((149, 149)));
        assert_eq!(measured(100, 14_999, 100).bandwidth, Some((1499, 1499)));
    }

    #[test]
    fn duplicates_count_as_segments_and_the_jump_for_the_rest() {
        let (mut c, _) = begun(1000);
        ack(&mut c, 1, 0, true);
        for _ in 0..3 {
            ack(&mut c, 2, 0, false);
        }
        assert_eq!(c.bytes, 3 * SEGMENT);
        ack(&mut c, 3, 10 * SEGMENT, false);
        assert_eq!((c.bytes, c.early), (10 * SEGMENT, 0));
    }

    #[test]
    fn a_jump_smaller_than_the_dupacks_counts_as_one_segment() {
        let (mut c, _) = begun(1000);
        ack(&mut c, 1, 0, true);
        for _ in 0..5 {
            ack(&mut c, 2, 0, false);
        }
        ack(&mut c, 3, 3 * SEGMENT, false);
        assert_eq!((c.bytes, c.early), (6 * SEGMENT, 2 * SEGMENT));
        // On the fast path everything counts.
        ack(&mut c, 4, 6 * SEGMENT, true);
        assert_eq!((c.bytes, c.early), (9 * SEGMENT, 2 * SEGMENT));
    }

    #[test]
    fn a_reduction_begins_at_half_and_ends_at_the_estimated_bdp() {
        let mut c = measured(1000, 100_000, 100);
        let mut w = Window::new(100);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        assert_eq!((w.cwnd, w.ssthresh), (100, 50));
        w.cwnd = 50;
        c.on_reduced(&mut w, &Reduced::at(Time::ZERO));
        // 1000 bytes/ms · 40 ms / 1448 bytes.
        assert_eq!((w.cwnd, w.ssthresh), (27, 27));
    }

    #[test]
    fn two_packets_are_the_least() {
        let mut c = measured(1000, 1000, 100);
        let mut w = Window::new(100);
        c.on_reduced(&mut w, &Reduced::at(Time::ZERO));
        assert_eq!((w.cwnd, w.ssthresh), (2, 2));
    }

    #[test]
    fn a_timeout_sets_the_threshold_and_forgets_the_least_round_trip() {
        let mut c = measured(1000, 100_000, 100);
        let mut w = Window::new(100);
        let mut loss = Loss::at(Time::ZERO);
        loss.cause = Cause::Timeout;
        c.on_loss(&mut w, &loss);
        assert_eq!((w.cwnd, w.ssthresh), (100, 27));
        for ms in [110, 111] {
            let mut ev = Sample::at(Time::ZERO + Span::ms(ms));
            (ev.una, ev.rtt) = (100_000, Some(Span::ms(80)));
            c.on_sample(&mut w, &ev);
        }
        assert_eq!(c.least, 80);
        c.on_loss(&mut w, &loss);
        ack(&mut c, 112, 100_000, true);
        assert_eq!(c.least, 40);
    }

    #[test]
    fn a_round_trip_counted_from_the_next_ack_on_until_6_14() {
        let known = |kernel| {
            let host = Host {
                kernel,
                ..Host::default()
            };
            let (mut c, mut w) = (Westwood::new(&host), Window::new(10));
            ack(&mut c, 1, 0, true);
            let first = (c.rtt, c.least);
            let mut ev = Sample::at(Time::ZERO + Span::ms(2));
            ev.rtt = Some(Span::us(30_001));
            c.on_sample(&mut w, &ev);
            // In whole ticks, rounded up.
            [first, (c.rtt, c.least)]
        };
        assert_eq!(known(Kernel::published(6, 14)), [(40, 20_000), (31, 40)]);
        assert_eq!(known(Kernel::published(6, 15)), [(40, 40), (31, 31)]);
    }

    #[test]
    fn it_grows_as_reno() {
        let (mut c, mut w) = begun(1000);
        let mut reno = w.clone();
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 2;
        for threshold in [1000, 15] {
            (w.ssthresh, reno.ssthresh) = (threshold, threshold);
            for _ in 0..9 {
                c.on_ack(&mut w, &ev);
                Reno.on_ack(&mut reno, &ev);
            }
            assert_eq!(w, reno);
        }
    }
}
