//! TCP-LP, low priority, as in Linux: yields as soon as one-way delays grow.
//!
//! Algorithm, per sample of the one-way delay (the peer's timestamp minus the echo of the sender's
//! timestamp): `owd = 7/8 owd + 1/8 sample`. `min` and `max` are the minimum and the maximum
//! sample. While `owd < min + 0.15 (max − min)`, the flow behaves as Reno. If `owd` reaches this
//! threshold, `cwnd` is halved, and an *inference* of three round trips begins, in which the window
//! does not grow. If `owd` reaches the threshold again before the inference ends, `cwnd = 1`, and
//! the inference begins again. With each such reduction, `min` is set to `owd` and `max` to
//! `2 owd`. A loss has the effect that it has in Reno. A reduction for delay does not change
//! `ssthresh`, so the window grows back to `ssthresh` by slow start.
//!
//! Sources: Kuzmanovic, Knightly, "TCP-LP: low-priority service via end-point congestion control"
//! (IEEE/ACM ToN 14(4), 2006; first at INFOCOM 2003). Linux 6.12 for the following details, which
//! determine its behaviour:
//! - timestamps count milliseconds, so smaller changes are invisible. A delay of 0 ms is not a
//!   sample;
//! - a delay that equals the threshold counts as a queue. The first delay is the minimum, the
//!   maximum and therefore the threshold, so it halves the window;
//! - the rate of the peer's clock is estimated from the timestamps of successive ACKs, 63/64 old
//!   and 1/64 new, in whole hertz. A lower new value decreases the estimate by at least 1 Hz. Only
//!   a new value that is higher by at least 64 Hz increases it. One unit of the peer's timestamps
//!   counts as 1000/rate ms, rounded down: 1 ms from 501 to 1000 Hz, and 0 above;
//! - `max` is the second greatest delay, because the greatest is discarded;
//! - the arithmetic has 32 bits, which must hold eighths of a delay. Linux's timestamps have a
//!   random offset (`tcp_timestamps = 1`), so seven of eight connections never see the delay grow,
//!   and behave as Reno. `stamp_offset = "none"` corresponds to `tcp_timestamps = 2` on both hosts:
//!   the algorithm of the paper.
//!
//! Deviation: timestamps begin with the run, not with the host. This matters only if the estimate
//! of the peer's clock rate is wrong.

use super::reno::Reno;
use super::{Ack, CcKind, CongestionControl, Family, Host, Loss, Sample, Window};
use crate::param::{Kind, Param, Params};
use crate::rng::Rng;
use alloc::boxed::Box;

/// Rate of the sender's timestamp clock, Hz.
const STAMP_HZ: u32 = 1000;
/// Weight of a new measurement of the rate of the peer's clock: 1/2⁶.
const CLOCK_BITS: u32 = 6;
/// Weight of a new delay sample, and unit of the smoothed delay: 1/2³.
const DELAY_BITS: u32 = 3;
/// Position of the threshold between the minimum and the maximum delay, in hundredths.
const THRESHOLD: u32 = 15;
/// Duration of an inference, in round trips.
const INFERENCE: u32 = 3;

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "stamp_offset",
    kind: Kind::Word(&["random", "none"]),
    help: "start value of the peer's timestamps: anywhere (seven of eight flows then never give \
        way), or with its clock",
    source: "Linux 6.12: tcp_timestamps = 1 (random), 2 (none)",
}];

/// One-way delays, in ms beyond an unknown offset, modulo 2³².
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Delays {
    /// The smoothed delay, in eighths of a millisecond; 0 before the first sample.
    smoothed8: u32,
    least: u32,
    most: u32,
    /// The greatest delay, which is not used as the maximum. It becomes `most` when a greater delay
    /// arrives.
    most_reserve: u32,
}

/// TCP-LP's state.
#[derive(Clone, Debug)]
pub struct Lp {
    /// Offset that is added to the peer's timestamps.
    offset: u32,
    delays: Delays,
    /// The estimated rate of the peer's clock, Hz.
    remote_hz: u32,
    /// The timestamps of the last ACK: the peer's timestamp, and the echo of the sender's.
    last_stamps: (u32, u32),
    /// Time of the last reduction for delay, ms; `None` before the first.
    last_cut_ms: Option<u32>,
    /// Duration of an inference, ms.
    inference_ms: u32,
    inferring: bool,
}

impl Lp {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Lp {
        let offset = match params.word("stamp_offset") {
            "none" => 0,
            _ => (Rng::named(host.seed, "lp").next_u64() >> 32) as u32,
        };
        Lp {
            offset,
            delays: Delays {
                smoothed8: 0,
                least: u32::MAX,
                most: 0,
                most_reserve: 0,
            },
            remote_hz: 0,
            last_stamps: (0, 0),
            last_cut_ms: None,
            inference_ms: 0,
            inferring: false,
        }
    }

    /// Estimates the rate of the peer's clock from the timestamps of an ACK.
    fn judge_clock(&mut self, theirs: u32, ours: u32) {
        let (their_last, our_last) = core::mem::replace(&mut self.last_stamps, (theirs, ours));
        let moved = their_last != 0 && our_last != 0 && theirs != their_last && ours != our_last;
        let scaled = i64::from(self.remote_hz) << CLOCK_BITS;
        let hz = if moved {
            i64::from(
                STAMP_HZ.wrapping_mul(theirs.wrapping_sub(their_last))
                    / ours.wrapping_sub(our_last),
            )
        } else {
            0
        };
        self.remote_hz = match (self.remote_hz, moved) {
            (0, _) => hz as u32,
            (_, true) => ((scaled + hz - (scaled >> CLOCK_BITS)) >> CLOCK_BITS) as u32,
            // Without a new measurement, the estimate is unchanged.
            (_, false) => self.remote_hz,
        };
    }

    /// Returns the one-way delay in ms, from the timestamps of an ACK. Returns `None` if it is 0,
    /// and until the rate of the peer's clock is known.
    fn delay(&mut self, theirs: u32, ours: u32) -> Option<u32> {
        self.judge_clock(theirs, ours);
        let step = STAMP_HZ.checked_div(self.remote_hz)?;
        Some(theirs.wrapping_mul(step).wrapping_sub(ours)).filter(|&owd| owd > 0)
    }

    /// Returns whether the smoothed delay is below the threshold.
    fn within_threshold(&self) -> bool {
        let d = &self.delays;
        let share = THRESHOLD.wrapping_mul(d.most.wrapping_sub(d.least)) / 100;
        d.smoothed8 >> DELAY_BITS < d.least.wrapping_add(share)
    }
}

impl Delays {
    fn take(&mut self, owd: u32) {
        self.least = self.least.min(owd);
        if owd > self.most {
            if owd > self.most_reserve {
                self.most = if self.most_reserve == 0 {
                    owd
                } else {
                    self.most_reserve
                };
                self.most_reserve = owd;
            } else {
                self.most = owd;
            }
        }
        self.smoothed8 = if self.smoothed8 == 0 {
            owd << DELAY_BITS
        } else {
            let error = owd.wrapping_sub(self.smoothed8 >> DELAY_BITS);
            self.smoothed8.wrapping_add(error)
        };
    }

    /// Called when the window was reduced: the minimum becomes the smoothed delay, and the maximum
    /// twice that delay.
    fn begin_anew(&mut self) {
        self.least = self.smoothed8 >> DELAY_BITS;
        self.most = self.smoothed8 >> (DELAY_BITS - 1);
        self.most_reserve = self.most;
    }
}

impl CongestionControl for Lp {
    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        let now_ms = (ev.now.as_us() / 1000) as u32;
        let (theirs, ours) = ev.stamps;
        if ev.rtt.is_some_and(|rtt| rtt.as_us() > 0) {
            if let Some(owd) = self.delay(theirs.wrapping_add(self.offset), ours) {
                self.delays.take(owd);
            }
        }
        let round_ms = now_ms.wrapping_sub(ours) as i32;
        if round_ms > 0 {
            self.inference_ms = (round_ms as u32).wrapping_mul(INFERENCE);
        }
        self.inferring = self
            .last_cut_ms
            .is_some_and(|cut| now_ms.wrapping_sub(cut) < self.inference_ms);
        if self.within_threshold() {
            return;
        }
        self.delays.begin_anew();
        w.cwnd = if self.inferring {
            1
        } else {
            (w.cwnd / 2).max(1)
        };
        self.last_cut_ms = Some(now_ms);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !self.inferring {
            Reno.on_ack(w, ev);
        }
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        Reno.on_loss(w, ev);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        let d = &self.delays;
        visit("owd_ms", f64::from(d.smoothed8 >> DELAY_BITS));
        visit("owd_min_ms", f64::from(d.least));
        visit("remote_hz", f64::from(self.remote_hz));
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "lp",
    help: "low priority: halves its window when one-way delays grow; with the random offset that \
     Linux adds to TCP timestamps by default, most flows do not detect the growth and behave as \
     Reno",
    source: "Kuzmanovic, Knightly, ToN 2006; Linux 6.12",
    family: Family::Delay,
    year: 2003,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Lp::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Value;
    use crate::units::{Span, Time};

    fn lp() -> Lp {
        let mut params = Params::defaults(PARAMS);
        params.set("stamp_offset", Value::Word("none".into()));
        Lp::new(&params, &Host::default())
    }

    /// A flow with one ACK per millisecond, on a path of 50 ms to which a queue adds `queue_ms`.
    struct Flow {
        cc: Lp,
        w: Window,
        now_ms: u64,
    }
    impl Flow {
        fn new(cwnd: u32) -> Flow {
            let mut w = Window::new(cwnd);
            w.ssthresh = 2;
            Flow {
                cc: lp(),
                w,
                now_ms: 1000,
            }
        }
        fn ack(&mut self, queue_ms: u32) {
            self.now_ms += 1;
            let now = Time::from_ns(self.now_ms * 1_000_000);
            let mut ev = Sample::at(now);
            let ours = self.now_ms as u32 - 50 - queue_ms;
            // The delay of the reverse path is 40 ms.
            ev.stamps = (self.now_ms as u32 - 40, ours);
            ev.rtt = Some(Span::ms(u64::from(50 + queue_ms)));
            self.cc.on_sample(&mut self.w, &ev);
            let mut ev = Ack::at(now);
            ev.delivered = 1;
            self.cc.on_ack(&mut self.w, &ev);
        }
        fn acks(&mut self, n: usize, queue_ms: u32) {
            (0..n).for_each(|_| self.ack(queue_ms));
        }
    }

    /// The first delay halves the window. After the inference of 150 ms, the window grows.
    #[test]
    fn a_delay_that_stays_is_reno_after_the_first_delay() {
        let mut f = Flow::new(100);
        f.acks(151, 0);
        assert_eq!((f.w.cwnd, f.cc.remote_hz), (50, 1000));
        assert_eq!((f.cc.delays.smoothed8 >> 3, f.cc.delays.least), (10, 10));
        f.acks(51, 0);
        assert_eq!(f.w.cwnd, 51);
    }

    /// Delays from 10 to 110 ms have been measured: 24 ms is below the threshold, 25 ms is not.
    #[test]
    fn from_a_threshold_of_fifteen_hundredths_the_window_is_halved() {
        let cwnd = |owd: u32| {
            let mut cc = lp();
            cc.delays = Delays {
                smoothed8: owd * 8,
                least: 10,
                most: 110,
                most_reserve: 110,
            };
            let mut w = Window::new(100);
            cc.on_sample(&mut w, &Sample::at(Time::ZERO));
            (w.cwnd, w.ssthresh, cc.delays.least, cc.delays.most)
        };
        let any = crate::cc::INFINITE_SSTHRESH;
        assert_eq!(cwnd(24), (100, any, 10, 110));
        assert_eq!(
            cwnd(25),
            (50, any, 25, 50),
            "and what follows is measured from there"
        );
    }

    #[test]
    fn a_second_time_within_three_round_trips_leaves_one_packet() {
        let cut = |after_ms: u64| {
            let mut f = Flow::new(100);
            f.w.cwnd_cnt = 0;
            f.cc.last_cut_ms = Some(1000);
            f.cc.delays = Delays {
                smoothed8: 800,
                least: 10,
                most: 20,
                most_reserve: 20,
            };
            let mut ev = Sample::at(Time::from_ns((1000 + after_ms) * 1_000_000));
            ev.stamps = (0, (1000 + after_ms - 50) as u32);
            f.cc.on_sample(&mut f.w, &ev);
            f.w.cwnd
        };
        assert_eq!([149, 150].map(cut), [1, 50]);
    }

    #[test]
    fn an_inference_of_three_round_trips_has_no_growth() {
        let mut f = Flow::new(10);
        f.acks(2, 0);
        f.cc.last_cut_ms = Some(f.now_ms as u32);
        let (cwnd, cwnd_cnt) = (f.w.cwnd, f.w.cwnd_cnt);
        f.acks(149, 0);
        assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (cwnd, cwnd_cnt));
        f.acks(6, 0);
        assert_eq!(f.w.cwnd, cwnd + 1);
    }

    #[test]
    fn a_queue_that_grows_is_noticed() {
        let mut f = Flow::new(100);
        f.acks(50, 0);
        let least = (0..40).map(|q| {
            f.ack(q);
            f.w.cwnd
        });
        assert!(least.min() < Some(60));
    }

    #[test]
    fn delays_are_smoothed_by_eighths() {
        let mut d = lp().delays;
        d.take(80);
        d.take(160);
        assert_eq!((d.smoothed8, d.least), (8 * 90, 80));
    }

    #[test]
    fn the_greatest_delay_is_the_greatest_but_one() {
        let mut d = lp().delays;
        d.take(10);
        d.take(200);
        assert_eq!((d.most, d.most_reserve), (10, 200));
        d.take(100);
        assert_eq!((d.most, d.most_reserve), (100, 200));
        d.take(300);
        assert_eq!((d.most, d.most_reserve), (200, 300));
    }

    /// The peer's timestamp advances by eleven while the sender's advances by ten. The first
    /// measurement, 1100 Hz, is used unchanged; later ones have the weight 1/64, rounded down.
    #[test]
    fn the_peers_clock_is_estimated_by_sixty_fourths() {
        let mut cc = lp();
        cc.judge_clock(5, 5);
        assert_eq!(cc.remote_hz, 0);
        cc.judge_clock(16, 15);
        assert_eq!(cc.remote_hz, 1100);
        cc.judge_clock(26, 25);
        assert_eq!(
            cc.remote_hz, 1098,
            "100 too many: 100/64 less, rounded down"
        );
        cc.judge_clock(26, 30);
        cc.judge_clock(30, 30);
        assert_eq!(cc.remote_hz, 1098, "one of the two stood still");
        cc.judge_clock(53, 50);
        assert_eq!(cc.remote_hz, 1098, "1150: 52/64 more, rounded down");
    }

    #[test]
    fn a_peers_stamp_counts_for_whole_milliseconds() {
        let owd = |hz| {
            let mut cc = lp();
            cc.remote_hz = hz;
            cc.last_stamps = (1000, 900);
            cc.delay(1000, 990)
        };
        assert_eq!([501, 1000].map(owd), [Some(10); 2]);
        assert_eq!(owd(500), Some(1010));
        assert_eq!(owd(1001), Some(0u32.wrapping_sub(990)));
        assert_eq!(owd(0), None);
    }

    /// Linux 6.12 with `tcp_timestamps = 2` over a path of 100.3 ms: the ACKs of the first two
    /// round trips show a delay of 0 ms, those of the third 1 ms. The window grows to 40 packets,
    /// and is one packet after the third.
    #[test]
    fn a_delay_of_zero_is_no_sample_and_the_first_delays_leave_one_packet() {
        let mut cc = lp();
        let mut w = Window::new(10);
        let rounds = [(451, 451, 10), (551, 551, 20), (652, 651, 16)];
        let windows = rounds.map(|(theirs, ours, acks)| {
            for _ in 0..acks {
                let now = Time::from_ns((u64::from(ours) + 101) * 1_000_000);
                let mut ev = Sample::at(now);
                ev.stamps = (theirs, ours);
                ev.rtt = Some(Span::ms(100));
                cc.on_sample(&mut w, &ev);
                let mut ev = Ack::at(now);
                ev.delivered = 1;
                cc.on_ack(&mut w, &ev);
            }
            w.cwnd
        });
        assert_eq!(windows, [20, 40, 1]);
        assert_eq!(cc.delay(700, 700), None);
    }

    /// Only flows with a random offset below 2²⁹, one in eight, detect a delay. The others never
    /// yield.
    #[test]
    fn seven_of_eight_random_offsets_blind_it() {
        let gives_way = |offset: u32| {
            let mut f = Flow::new(100);
            f.cc.offset = offset;
            f.acks(50, 0);
            (0..100).for_each(|q| f.ack(q));
            f.cc.last_cut_ms.is_some()
        };
        assert!(gives_way(0x1000_0000));
        assert!((1..8).all(|top| !gives_way(top << 29)));
        let blind = (0..800).filter(|&seed| {
            let host = Host {
                seed,
                ..Host::default()
            };
            Lp::new(&Params::defaults(PARAMS), &host).offset >> 29 > 0
        });
        assert!((670..730).contains(&blind.count()));
    }

    #[test]
    fn a_loss_halves_the_congestion_window() {
        let mut f = Flow::new(100);
        f.cc.on_loss(&mut f.w, &Loss::at(Time::ZERO));
        assert_eq!(f.w.ssthresh, 50);
    }
}
