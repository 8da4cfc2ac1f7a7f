//! TCP-NV, New Vegas, as in Linux: Vegas that changes its window only after a minimum number of RTT
//! samples.
//!
//! Algorithm, per RTT sample: `rate` = packets in flight when the acknowledged packet left /
//! averaged RTT. Once per round trip, from the maximum `rate` since the last decision:
//! `ideal = rate · min_rtt`, which fills the path without a queue, and `max = ideal + 10` packets.
//! - `cwnd > max`, with at least 60 samples since the last decision: `ssthresh = max`, and `cwnd`
//!   loses 30 % of the excess, at least 2 packets. An excess of up to 2 packets is removed
//!   entirely. Growth stops.
//! - `cwnd ≤ max − 2`, with at least 20 samples since the last decision: from now on, the window
//!   grows as in Reno.
//! - Otherwise there is no decision.
//!
//! On loss `ssthresh = 0.8 cwnd`, and growth waits for the next decision to grow.
//!
//! Sources: Brakmo, TCP-NV (Linux Plumbers Conference 2010); Linux 6.12 for all of the following:
//! - while `ssthresh` is infinite, a decision to decrease needs only 30 samples. A decision to
//!   decrease is made in the second round trip after the last decision at the earliest. If it lacks
//!   samples for more than ten round trips, growth stops until the next decision to grow;
//! - the RTT is averaged, half old, half new. The number of packets in flight when a packet left is
//!   the number of packets delivered since then. Before 5.16, it was computed from the bytes sent
//!   and not acknowledged;
//! - the minimum RTT is valid for a random 3.75 to 6.25 s, and for 2 s at first. Then the minimum
//!   of that period replaces it. This new minimum is correct only if the queue drains in that
//!   period. Otherwise the 10 packets that NV keeps in the queue become part of the minimum;
//! - let a round trip have only one sample, although at least 3 packets were acknowledged. It is
//!   extended until 6 more packets are acknowledged, and growth is allowed. Both numbers increase
//!   by 2 with each such round trip, up to 79 and 81;
//! - a timeout halves the growth rate, and each further timeout halves it again, down to 1/256.
//!   Nine decisions to grow in a row double it, up to that of Reno;
//! - at the end of a reduction, the average and the minimum RTT restart with the next sample.
//!
//! Deviations: no bounds of the round trip from a BPF program, and no catch-up mode (nothing in
//! 6.12 enters it).

use super::reno::{avoid, beyond_slow_start};
use super::{
    Ack, CcKind, CongestionControl, Family, Host, INFINITE_SSTHRESH, Loss, Sample, Start,
    StateChange, Window,
};
use crate::param::{Kind, Param, Params};
use crate::rng::Rng;
use crate::transport::State;
use crate::units::Time;
use alloc::boxed::Box;

/// Factor from bytes per µs to hundreds of bits per second, the unit of rates.
const RATE_UNIT: u64 = 80_000;
/// Initial value of `small_cwnd`, in packets.
const SMALL_CWND: u32 = 4;
/// Increment of `small_cwnd`, in packets.
const SMALL_CWND_STEP: u32 = 2;
/// Maximum of `small_cwnd`, in packets.
const SMALL_CWND_MOST: u32 = 81;
/// Minimum of the binary logarithm of the growth rate, which timeouts decrease.
const SLOWEST: i32 = -8;
/// Minimum number of acknowledged packets per packet of growth.
const FASTEST_GROWTH: u32 = 4;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "nv_pad",
        kind: Kind::Count(10, 0, 255),
        help: "packets that the flow keeps in the queue",
        source: "Linux 6.12 tcp_nv: nv_pad = 10",
    },
    Param {
        name: "nv_pad_buffer",
        kind: Kind::Count(2, 0, 255),
        help: "packets below the largest window at which growth stops",
        source: "Linux 6.12 tcp_nv: nv_pad_buffer = 2",
    },
    Param {
        name: "nv_reset_period",
        kind: Kind::Count(5, 1, 3600),
        help: "time in s for which a minimum RTT is valid, at random up to a quarter more or less",
        source: "Linux 6.12 tcp_nv: nv_reset_period = 5",
    },
    Param {
        name: "nv_min_cwnd",
        kind: Kind::Count(2, 1, 1000),
        help: "smallest window after a decision, in packets",
        source: "Linux 6.12 tcp_nv: nv_min_cwnd = 2",
    },
    Param {
        name: "nv_cong_dec_mult",
        kind: Kind::Count(38, 0, 128),
        help: "share of the excess window that a decision removes, in 1/128",
        source: "Linux 6.12 tcp_nv: nv_cong_dec_mult = 30 %",
    },
    Param {
        name: "nv_ssthresh_factor",
        kind: Kind::Count(8, 1, 64),
        help: "ssthresh after a decision to shrink, in eighths of the largest window",
        source: "Linux 6.12 tcp_nv: nv_ssthresh_factor = 8",
    },
    Param {
        name: "nv_rtt_factor",
        kind: Kind::Count(128, 0, 256),
        help: "weight of a new RTT in the average, in 1/256; 0 disables averaging",
        source: "Linux 6.12 tcp_nv: nv_rtt_factor = 128",
    },
    Param {
        name: "nv_loss_dec_factor",
        kind: Kind::Count(819, 0, 1024),
        help: "window after a loss, in 1/1024 of the window before",
        source: "Linux 6.12 tcp_nv: nv_loss_dec_factor = 80 %",
    },
    Param {
        name: "nv_cwnd_growth_rate_neg",
        kind: Kind::Count(8, 0, 255),
        help: "decisions to grow after which the growth that a timeout slowed doubles; 0: \
            timeouts do not slow it",
        source: "Linux 6.12 tcp_nv: nv_cwnd_growth_rate_neg = 8",
    },
    Param {
        name: "nv_cwnd_growth_rate_pos",
        kind: Kind::Count(0, 0, 255),
        help: "decisions to grow after which the growth doubles beyond that of Reno; 0: never",
        source: "Linux 6.12 tcp_nv: nv_cwnd_growth_rate_pos = 0",
    },
    Param {
        name: "nv_dec_eval_min_calls",
        kind: Kind::Count(60, 0, 255),
        help: "samples required for a decision to shrink",
        source: "Linux 6.12 tcp_nv: nv_dec_eval_min_calls = 60",
    },
    Param {
        name: "nv_inc_eval_min_calls",
        kind: Kind::Count(20, 0, 255),
        help: "samples required for a decision to grow",
        source: "Linux 6.12 tcp_nv: nv_inc_eval_min_calls = 20",
    },
    Param {
        name: "nv_ssthresh_eval_min_calls",
        kind: Kind::Count(30, 0, 255),
        help: "samples required to end slow start",
        source: "Linux 6.12 tcp_nv: nv_ssthresh_eval_min_calls = 30",
    },
    Param {
        name: "nv_stop_rtt_cnt",
        kind: Kind::Count(10, 0, 255),
        help: "number of RTTs with too few samples for a decision to shrink, after which growth \
         stops",
        source: "Linux 6.12 tcp_nv: nv_stop_rtt_cnt = 10",
    },
    Param {
        name: "nv_rtt_min_cnt",
        kind: Kind::Count(2, 0, 255),
        help: "RTTs required for a decision to shrink",
        source: "Linux 6.12 tcp_nv: nv_rtt_min_cnt = 2",
    },
];

/// The values of [`PARAMS`].
#[derive(Copy, Clone, Debug)]
struct Settings {
    pad: u32,
    pad_buffer: u32,
    reset_period_s: u64,
    min_cwnd: u32,
    dec_mult: u64,
    ssthresh_factor: u64,
    rtt_factor: u64,
    loss_factor: u64,
    growth_neg: u32,
    growth_pos: u32,
    dec_calls: u32,
    inc_calls: u32,
    ssthresh_calls: u32,
    stop_rounds: u32,
    min_rounds: u32,
}

impl Settings {
    fn new(params: &Params) -> Settings {
        let small = |name| params.count(name) as u32;
        Settings {
            pad: small("nv_pad"),
            pad_buffer: small("nv_pad_buffer"),
            reset_period_s: params.count("nv_reset_period"),
            min_cwnd: small("nv_min_cwnd"),
            dec_mult: params.count("nv_cong_dec_mult"),
            ssthresh_factor: params.count("nv_ssthresh_factor"),
            rtt_factor: params.count("nv_rtt_factor"),
            loss_factor: params.count("nv_loss_dec_factor"),
            growth_neg: small("nv_cwnd_growth_rate_neg"),
            growth_pos: small("nv_cwnd_growth_rate_pos"),
            dec_calls: small("nv_dec_eval_min_calls"),
            inc_calls: small("nv_inc_eval_min_calls"),
            ssthresh_calls: small("nv_ssthresh_eval_min_calls"),
            stop_rounds: small("nv_stop_rtt_cnt"),
            min_rounds: small("nv_rtt_min_cnt"),
        }
    }
}

/// The measurements since the last decision.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Seen {
    samples: u32,
    rounds: u32,
    /// The maximum rate, in hundreds of bits per second.
    rate: u64,
}

/// NV's state.
#[derive(Clone, Debug)]
pub struct Nv {
    set: Settings,
    hz: u64,
    /// Payload of a full segment, in bytes.
    mss: u64,
    rng: Rng,
    seen: Seen,
    may_grow: bool,
    /// Whether a reduction is in progress, at whose end all measurements are reset.
    reset_due: bool,
    /// The growth rate is that of Reno times 2 to the power of this.
    growth: i32,
    /// Number of successive decisions to grow since the growth rate last changed.
    calm: u32,
    /// If a round trip has only one sample, it is extended by this number of packets.
    small_cwnd: u32,
    /// The averaged RTT, µs; 0 before the first sample.
    rtt_us: u64,
    min_rtt_us: u64,
    /// The minimum RTT of the present period, µs.
    next_min_rtt_us: u64,
    /// The tick at which the present period ends and `next_min_rtt_us` becomes the minimum RTT.
    period_ends: u64,
    /// The round trip ends when a byte above this one is acknowledged.
    round_end: u64,
    /// The first byte that is not acknowledged in order.
    una: u64,
    /// The value of `una` at the last sample.
    counted: u64,
}

impl Nv {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Nv {
        Nv {
            set: Settings::new(params),
            hz: u64::from(host.hz.max(1)),
            mss: u64::from(host.mss),
            rng: Rng::named(host.seed, "nv"),
            seen: Seen::default(),
            may_grow: true,
            reset_due: false,
            growth: 0,
            calm: 0,
            small_cwnd: SMALL_CWND,
            rtt_us: 0,
            min_rtt_us: u64::from(u32::MAX),
            next_min_rtt_us: u64::from(u32::MAX),
            period_ends: 0,
            round_end: 0,
            una: 0,
            counted: 0,
        }
    }
    fn tick(&self, now: Time) -> u64 {
        now.as_ns() / (1_000_000_000 / self.hz)
    }

    fn reset(&mut self) {
        self.reset_due = false;
        self.seen = Seen::default();
        self.calm = 0;
        self.rtt_us = 0;
        self.round_end = self.una;
        self.counted = self.una;
    }

    /// Takes an RTT sample, µs, and the bytes that were in flight when the acknowledged packet
    /// left. The bytes are [`Sample::flight`] packets times the MSS.
    fn measure(&mut self, rtt_us: u64, in_flight: u64) {
        let weight = self.set.rtt_factor;
        let average = if weight == 0 {
            rtt_us
        } else if self.rtt_us > 0 {
            (rtt_us * weight + self.rtt_us * (256 - weight)) >> 8
        } else {
            self.min_rtt_us = rtt_us;
            rtt_us
        };
        self.rtt_us = average;
        self.seen.rate = self.seen.rate.max(in_flight * RATE_UNIT / average.max(1));
        self.seen.samples = (self.seen.samples + 1).min(255);
        self.min_rtt_us = self.min_rtt_us.min(average);
        self.next_min_rtt_us = self.next_min_rtt_us.min(average);
    }

    /// Replaces the minimum RTT if its period of validity is over.
    fn renew(&mut self, tick: u64) {
        if tick < self.period_ends {
            return;
        }
        self.min_rtt_us = self.next_min_rtt_us;
        self.next_min_rtt_us = u64::from(u32::MAX);
        let chance = self.rng.below(256);
        self.period_ends = tick + ((self.set.reset_period_s * (384 + chance) * self.hz) >> 9);
        self.small_cwnd = (self.small_cwnd / 2).max(SMALL_CWND);
    }

    /// `max`, in packets: the window that fills the path, plus the packets allowed in the queue.
    fn greatest(&self) -> u32 {
        let ideal = u128::from(self.seen.rate) * u128::from(self.min_rtt_us)
            / u128::from(RATE_UNIT * self.mss);
        (ideal.min(u128::from(u32::MAX / 2)) as u32).saturating_add(self.set.pad)
    }

    /// Decides whether to shrink the window or to allow growth; called once per round trip.
    fn decide(&mut self, w: &mut Window) {
        let set = self.set;
        let greatest = self.greatest();
        if w.cwnd > greatest {
            if self.seen.rounds < set.min_rounds {
                return;
            }
            if w.ssthresh == INFINITE_SSTHRESH {
                if self.seen.samples < set.ssthresh_calls {
                    return;
                }
            } else if self.seen.samples < set.dec_calls {
                if self.seen.rounds > set.stop_rounds {
                    self.may_grow = false;
                }
                return;
            }
            self.shrink(w, greatest);
        } else if w.cwnd.saturating_add(set.pad_buffer) <= greatest {
            if self.seen.samples < set.inc_calls {
                return;
            }
            self.allow_growth();
        } else {
            return;
        }
        self.seen = Seen::default();
        w.cwnd = w.cwnd.max(set.min_cwnd);
    }

    fn shrink(&mut self, w: &mut Window, greatest: u32) {
        self.may_grow = false;
        w.ssthresh = ((self.set.ssthresh_factor * u64::from(greatest)) >> 3)
            .min(u64::from(INFINITE_SSTHRESH)) as u32;
        let excess = w.cwnd - greatest;
        if excess > 2 {
            w.cwnd -= ((u64::from(excess) * self.set.dec_mult) >> 7).max(2) as u32;
        } else if self.set.dec_mult > 0 {
            w.cwnd = greatest;
        }
        self.growth = self.growth.min(0);
        self.calm = 0;
    }

    fn allow_growth(&mut self) {
        self.may_grow = true;
        self.calm += 1;
        let enough = if self.growth < 0 {
            self.set.growth_neg
        } else {
            self.set.growth_pos
        };
        if enough > 0 && self.calm > enough {
            self.growth += 1;
            self.calm = 0;
        }
    }
}

impl CongestionControl for Nv {
    fn on_start(&mut self, _w: &mut Window, ev: &Start) {
        self.period_ends = self.tick(ev.now) + 2 * self.hz;
    }

    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        self.una = ev.una;
        let Some(rtt) = ev
            .rtt
            .filter(|_| matches!(ev.state, State::Open | State::Disorder))
        else {
            return;
        };
        let acked = ev
            .una
            .saturating_sub(core::mem::replace(&mut self.counted, ev.una));
        if ev.flight == 0 {
            return;
        }
        self.measure(rtt.as_us(), u64::from(ev.flight) * self.mss);
        self.renew(self.tick(ev.now));
        if ev.una <= self.round_end {
            return;
        }
        self.round_end = ev.nxt;
        self.seen.rounds = (self.seen.rounds + 1).min(255);
        let small = u64::from(self.small_cwnd) * self.mss;
        if self.seen.samples == 1 && acked >= small - self.mss && self.small_cwnd < SMALL_CWND_MOST
        {
            self.small_cwnd = (self.small_cwnd + SMALL_CWND_STEP).min(SMALL_CWND_MOST);
            self.round_end = ev.nxt + u64::from(self.small_cwnd) * self.mss;
            self.seen.samples = 0;
            self.may_grow = true;
            return;
        }
        self.decide(w);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !self.may_grow {
            return;
        }
        let Some(acked) = beyond_slow_start(w, ev) else {
            return;
        };
        let per = if self.growth < 0 {
            w.cwnd.saturating_mul(1 << -self.growth)
        } else {
            (w.cwnd >> self.growth.min(31)).max(FASTEST_GROWTH)
        };
        avoid(w, per, acked);
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = ((u64::from(w.cwnd) * self.set.loss_factor / 1024) as u32).max(2);
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        match ev.to {
            State::Open if self.reset_due => self.reset(),
            State::Open | State::Disorder => {}
            State::Cwr | State::Recovery | State::Loss => {
                self.reset_due = true;
                self.may_grow = false;
                if ev.to == State::Loss {
                    self.growth = self.growth.min(0);
                    if self.set.growth_neg > 0 && self.growth > SLOWEST {
                        self.growth -= 1;
                    }
                }
            }
        }
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("max_cwnd", f64::from(self.greatest()));
        visit("min_rtt_ms", self.min_rtt_us as f64 / 1000.0);
        visit("samples", f64::from(self.seen.samples));
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "nv",
    help: "New Vegas: aims at ten packets in the queue; grows its window only after \
     20 RTT samples, shrinks it only after 60",
    source: "Brakmo, Linux Plumbers Conference 2010; Linux 6.12",
    family: Family::Delay,
    year: 2010,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Nv::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    const MSS64: u64 = crate::transport::MSS as u64;

    /// A flow of which `flight` packets are in flight, on a path with an RTT of `rtt_us`.
    struct Flow {
        cc: Nv,
        w: Window,
        una: u64,
        now_us: u64,
    }
    impl Flow {
        fn new(cwnd: u32) -> Flow {
            let mut cc = Nv::new(&Params::defaults(PARAMS), &Host::default());
            let mut w = Window::new(cwnd);
            cc.on_start(&mut w, &Start::at(Time::ZERO));
            Flow {
                cc,
                w,
                una: 0,
                now_us: 0,
            }
        }
        /// An ACK of one packet. If it ends a round, `nxt` is the end of the next round.
        fn ack(&mut self, rtt_us: u64, flight: u32, nxt: u64) {
            self.una += MSS64;
            self.now_us += 10;
            let mut ev = Sample::at(Time::from_ns(self.now_us * 1000));
            (ev.rtt, ev.flight, ev.una, ev.nxt) = (Some(Span::us(rtt_us)), flight, self.una, nxt);
            self.cc.on_sample(&mut self.w, &ev);
        }
        /// A round of `n` samples.
        fn round(&mut self, n: u64, rtt_us: u64, flight: u32) {
            let end = self.una + n * MSS64;
            // The first ACK beyond the last round's end begins a round, which lasts until one
            // beyond its own `nxt`.
            for _ in 0..n {
                self.ack(rtt_us, flight, end);
            }
        }
        /// A flow whose path has no queue.
        fn empty_path(cwnd: u32, rtt_us: u64) -> Flow {
            let mut f = Flow::new(cwnd);
            f.cc.seen.rounds = 1;
            f.cc.round_end = u64::MAX;
            f.ack(rtt_us, 0, 0);
            f.cc.round_end = f.una;
            f.cc.measure(rtt_us, 1);
            f.cc.seen = Seen {
                rounds: 10,
                ..Seen::default()
            };
            f
        }
        fn state(&mut self, to: State) {
            let mut ev = StateChange::at(Time::ZERO);
            ev.to = to;
            self.cc.on_state(&mut self.w, &ev);
        }
        fn grow(&mut self, delivered: u32) {
            let mut ev = Ack::at(Time::ZERO);
            ev.delivered = delivered;
            self.cc.on_ack(&mut self.w, &ev);
        }
        /// A decision now, with this many samples and the ideal window `ideal`.
        fn decide(&mut self, samples: u32, ideal: u32) {
            self.cc.min_rtt_us = 40_000;
            self.cc.seen.samples = samples;
            // A hundred bit/s above the exact value, because the division truncates.
            self.cc.seen.rate = u64::from(ideal) * RATE_UNIT * MSS64 / 40_000 + 1;
            self.cc.decide(&mut self.w);
        }
    }

    /// With 100 packets in flight at an RTT of 50 ms and a minimum of 40 ms, 80 packets fill the
    /// path, and ten more may be in the queue.
    #[test]
    fn the_maximum_window_is_the_bdp_plus_ten_packets() {
        let mut f = Flow::new(100);
        f.cc.rtt_us = 50_000;
        f.cc.min_rtt_us = 40_000;
        f.cc.measure(50_000, 100 * MSS64);
        assert_eq!(f.cc.seen.rate, 100 * MSS64 * 80_000 / 50_000);
        assert_eq!(f.cc.greatest(), 80 + 10);
    }

    #[test]
    fn the_greatest_rate_since_the_last_decision_counts() {
        let mut f = Flow::new(100);
        f.cc.measure(40_000, 50 * MSS64);
        f.cc.measure(40_000, 40 * MSS64);
        assert_eq!(f.cc.greatest(), 60);
    }

    #[test]
    fn round_trips_are_averaged_half_and_half() {
        let mut f = Flow::new(100);
        f.cc.measure(40_000, MSS64);
        f.cc.measure(60_000, MSS64);
        assert_eq!((f.cc.rtt_us, f.cc.min_rtt_us), (50_000, 40_000));
    }

    #[test]
    fn a_window_too_large_loses_three_tenths_of_the_excess_from_sixty_samples_on() {
        let mut f = Flow::empty_path(200, 40_000);
        f.w.ssthresh = 100;
        f.decide(59, 90);
        assert_eq!(f.w.cwnd, 200);
        f.decide(60, 90);
        // 38/128 of 100.
        assert_eq!((f.w.cwnd, f.w.ssthresh), (200 - 29, 100));
        assert_eq!(f.cc.seen, Seen::default());
        f.cc.seen.rounds = 10;
        f.w.cwnd = 104;
        f.decide(60, 90);
        assert_eq!(f.w.cwnd, 102, "two at least");
        f.cc.seen.rounds = 10;
        f.decide(60, 90);
        assert_eq!(f.w.cwnd, 100, "two too many are taken away");
    }

    #[test]
    fn slow_start_ends_from_thirty_samples_on() {
        let mut f = Flow::empty_path(200, 40_000);
        f.decide(29, 90);
        assert_eq!(f.w.ssthresh, INFINITE_SSTHRESH);
        f.decide(30, 90);
        assert_eq!((f.w.cwnd, f.w.ssthresh), (171, 100));
    }

    #[test]
    fn the_window_does_not_shrink_before_the_second_round_trip() {
        let mut f = Flow::empty_path(200, 40_000);
        f.cc.seen.rounds = 1;
        f.decide(200, 90);
        assert_eq!(f.w.cwnd, 200);
        f.cc.seen.rounds = 2;
        f.decide(200, 90);
        assert_eq!(f.w.cwnd, 171);
    }

    #[test]
    fn it_stops_to_grow_while_it_cannot_be_sure() {
        let mut f = Flow::empty_path(102, 40_000);
        f.w.ssthresh = 100;
        f.decide(10, 90);
        assert!(f.cc.may_grow);
        f.cc.seen.rounds = 11;
        f.decide(10, 90);
        assert!(!f.cc.may_grow);
        f.grow(102);
        assert_eq!(f.w.cwnd, 102);
    }

    #[test]
    fn it_grows_as_reno_does_up_to_two_below_the_greatest_window() {
        let mut f = Flow::empty_path(98, 40_000);
        f.w.ssthresh = 10;
        f.cc.may_grow = false;
        f.decide(19, 90);
        assert!(!f.cc.may_grow, "19 samples are too few");
        f.decide(20, 90);
        assert!(f.cc.may_grow);
        f.grow(98);
        assert_eq!(f.w.cwnd, 99);
        f.cc.may_grow = false;
        f.decide(20, 90);
        assert!(!f.cc.may_grow, "one below: as it is");
        assert_eq!(f.w.cwnd, 99);
    }

    #[test]
    fn a_loss_leaves_four_fifths_and_growth_waits() {
        let mut f = Flow::new(100);
        f.cc.on_loss(&mut f.w, &Loss::at(Time::ZERO));
        assert_eq!(f.w.ssthresh, 79);
        f.state(State::Recovery);
        f.state(State::Open);
        f.grow(10);
        assert_eq!(f.w.cwnd, 100);
    }

    #[test]
    fn after_a_reduction_all_is_measured_anew() {
        let mut f = Flow::new(100);
        f.round(30, 40_000, 50);
        f.state(State::Cwr);
        let mut ev = Sample::at(Time::ZERO);
        (ev.rtt, ev.flight, ev.una, ev.state) = (Some(Span::ms(90)), 50, f.una + 5, State::Cwr);
        f.cc.on_sample(&mut f.w, &ev);
        assert_eq!(f.cc.rtt_us, 40_000, "no samples meanwhile");
        f.state(State::Open);
        assert_eq!((f.cc.seen, f.cc.round_end), (Seen::default(), f.una + 5));
        f.cc.measure(60_000, MSS64);
        assert_eq!(f.cc.min_rtt_us, 60_000);
    }

    /// The seed determines the period, from 3.75 to 6.25 s; the first period is 2 s.
    #[test]
    fn the_minimum_rtt_of_a_period_replaces_the_previous_one() {
        let mut f = Flow::new(100);
        f.cc.measure(40_000, MSS64);
        f.cc.renew(1_999);
        assert_eq!(f.cc.min_rtt_us, 40_000);
        f.cc.renew(2_000);
        assert_eq!(f.cc.next_min_rtt_us, u64::from(u32::MAX));
        assert!(
            (5_750..8_250).contains(&f.cc.period_ends),
            "{}",
            f.cc.period_ends
        );
        (0..20).for_each(|_| f.cc.measure(50_000, MSS64));
        assert_eq!(f.cc.min_rtt_us, 40_000);
        f.cc.renew(f.cc.period_ends);
        assert!((45_000..50_000).contains(&f.cc.min_rtt_us));
    }

    #[test]
    fn after_a_reduction_growth_waits_for_a_decision() {
        for to in [State::Cwr, State::Recovery, State::Loss] {
            let mut f = Flow::new(100);
            assert!(f.cc.may_grow);
            let mut ev = StateChange::at(Time::ZERO);
            ev.to = to;
            f.cc.on_state(&mut f.w, &ev);
            assert!(!f.cc.may_grow);
        }
    }

    /// A round trip with only one sample is extended, increases `small_cwnd` and allows growth.
    #[test]
    fn a_round_trip_with_one_sample_calls_for_a_larger_window() {
        let mut f = Flow::new(4);
        f.cc.may_grow = false;
        f.una = 3 * MSS64 - MSS64;
        f.ack(40_000, 3, 4 * MSS64);
        assert_eq!((f.cc.small_cwnd, f.cc.may_grow), (6, true));
        assert_eq!(f.cc.round_end, 4 * MSS64 + 6 * MSS64);
        assert_eq!(f.cc.seen.samples, 0);
        f.cc.renew(1_000_000);
        assert_eq!(f.cc.small_cwnd, 4, "halved with each period, 4 at least");
    }

    #[test]
    fn a_timeout_halves_growth_until_nine_decisions_to_grow() {
        let mut f = Flow::empty_path(20, 40_000);
        f.w.ssthresh = 10;
        f.state(State::Loss);
        assert_eq!(f.cc.growth, -1);
        for _ in 0..8 {
            f.decide(20, 90);
        }
        f.grow(20);
        assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (20, 20));
        f.decide(20, 90);
        assert_eq!(f.cc.growth, 0);
        f.grow(1);
        assert_eq!(f.w.cwnd, 21);
    }

    #[test]
    fn one_decision_per_round_trip() {
        let mut f = Flow::empty_path(200, 40_000);
        f.w.ssthresh = 100;
        f.cc.seen.rounds = 1;
        // The first ACK ends a round, the other 61 belong to the next.
        f.round(62, 50_000, 100);
        assert_eq!((f.cc.seen.rounds, f.w.cwnd), (2, 200));
        f.ack(50_000, 100, f.una + 500);
        assert!(f.w.cwnd < 200);
        let cwnd = f.w.cwnd;
        (0..200).for_each(|_| f.ack(50_000, 100, u64::MAX / 2));
        assert_eq!(f.w.cwnd, cwnd);
    }
}
