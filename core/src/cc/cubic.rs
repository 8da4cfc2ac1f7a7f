//! CUBIC as in Linux: after a loss, the window is a cubic function of time. While this function
//! determines the window, the growth does not depend on the RTT.
//!
//! Algorithm: an epoch begins with the first ACK in congestion avoidance, at the end of slow start
//! and after each reduction. `W(t) = C (t − K)³ + W_max` is the window at the time `t`, and `C =
//! 0.4 packets/s³`. `t` is the time since the epoch began, plus the minimum RTT. `K = cbrt((W_max −
//! cwnd)/C)`, where `cwnd` is the window at the start of the epoch. If this `cwnd` is not below
//! `W_max`, `K = 0`, and `cwnd` takes the place of `W_max`. On loss `ssthresh = 0.7 cwnd` and
//! `W_max = cwnd`. If `cwnd` is below the previous `W_max` at the loss, `W_max = 0.85 cwnd` instead
//! (fast convergence). A second window, the friendly window, grows by 0.53 packets per RTT. With a
//! reduction to 0.7, this growth results in the average rate of Reno. The larger of both windows is
//! used.
//!
//! Sources: RFC 9438, and Linux 6.12 where Linux differs from it. Recordings of Linux show each
//! difference (`sim/tests/reference.rs`, `core/tests/replay.rs`):
//! - β is 717/1024 and C is 410/1024. Times are in units of 1/1024 s, read on the kernel's tick.
//!   The cube root is an initial guess, refined by one Newton step;
//! - the curve is evaluated one *minimum* RTT ahead, not one smoothed RTT;
//! - the window grows by one packet per `cnt` acknowledged packets. The growth is at most 50 % per
//!   RTT, and before the first loss at least 5 % per RTT;
//! - the curve is evaluated at most once per tick. While the window is constant, `cnt` is computed
//!   at most every 1/32 s;
//! - the reduction is computed from `cwnd`, not from the flight size;
//! - the friendly window always grows by 8/15 packets per RTT. In RFC 9438 it grows by one packet
//!   per RTT once it has reached the window before the last reduction;
//! - the epoch begins with the first ACK in congestion avoidance after a reduction. Time without
//!   data in flight does not count as time of the epoch;
//! - RTTs measured in the first second of an epoch do not count for the minimum RTT;
//! - a timeout resets all state.

use super::hystart::{self, HyStart, Mode};
use super::reno::{avoid, slow_start};
use super::{
    Ack, CcKind, CongestionControl, DefaultIn, Family, Host, Loss, Rto, Sample, Sent, Window,
};
use crate::kernel::Rule;
use crate::param::{Kind, Param, Params};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// Unit of β: 1/1024.
const SCALE: u64 = 1024;
/// Unit of C: 10/1024 packets per s³ (Linux: `bic_scale`).
const C_UNIT: f64 = 10.0 / 1024.0;
/// Unit of time: 2⁻¹⁰ s.
const TIME_BITS: u32 = 10;
/// Maximum of `cnt` before the first loss.
const FIRST_SEARCH: u32 = 20;

/// The parameters.
pub const PARAMS: &[Param] = &[
    hystart::PARAM,
    Param {
        name: "fast_convergence",
        kind: Kind::Bool(true),
        help: "after a loss below the previous maximum, store 0.85 of the window instead of all \
            of it, which leaves bandwidth to other flows",
        source: "Linux 6.12 tcp_cubic: fast_convergence = 1",
    },
    Param {
        name: "tcp_friendliness",
        kind: Kind::Bool(true),
        help: "keep the window at least as large as that of Reno with the same reduction factor",
        source: "Linux 6.12 tcp_cubic: tcp_friendliness = 1",
    },
    BETA,
    C,
];

/// The parameter `beta`.
pub const BETA: Param = Param {
    name: "beta",
    kind: Kind::Number(0.7, 0.1, 0.99),
    help: "window after a reduction, relative to the window before; in units of 1/1024",
    source: "RFC 9438 section 4.6; Linux 6.12 tcp_cubic: beta = 717",
};
/// The parameter `c`.
pub const C: Param = Param {
    name: "c",
    kind: Kind::Number(0.4, 0.01, 100.0),
    help: "factor of the cubic function, in packets/s³; in units of 10/1024",
    source: "RFC 9438 section 5; Linux 6.12 tcp_cubic: bic_scale = 41",
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Epoch {
    /// The tick at which the epoch began.
    start: u64,
    /// `K` in 1/1024 s.
    k: u32,
    /// The window at the plateau of the curve, in packets.
    origin: u32,
}

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    hz: u32,
    ns_per_tick: u32,
    hystart: HyStart,
    fast_convergence: bool,
    friendliness: bool,
    fine_clock: bool,
    /// β in 1/1024.
    beta: u32,
    /// C in 1/1024 packet per s³ (Linux: `bic_scale · 10`).
    c: u32,
    /// Acknowledged packets per packet of growth of the friendly window, in eighths of the window:
    /// `8 (1 + β) / (3 (1 − β))`, rounded down. The value for β = 0.7 is 15.
    friendly: u32,

    /// Acknowledged packets per packet of growth.
    cnt: u32,
    w_max: u32,
    epoch: Option<Epoch>,
    last_cwnd: u32,
    last_tick: u64,
    /// Packets acknowledged since the friendly window last grew.
    acked: u32,
    /// The friendly window, in packets.
    w_est: u32,
    /// The minimum RTT since the last timeout; [`NO_RTT`] before a sample.
    min_rtt: Span,
}

const NO_RTT: Span = Span::ns(u64::MAX);

impl Cubic {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Cubic {
        let hz = host.hz.max(1);
        let beta = libm::round(params.number("beta") * SCALE as f64) as u64;
        let c = libm::round(params.number("c") / C_UNIT).max(1.0) as u32 * 10;
        Cubic {
            beta: beta as u32,
            c,
            friendly: (8 * (SCALE + beta) / 3 / (SCALE - beta)) as u32,
            hz,
            ns_per_tick: 1_000_000_000 / hz,
            hystart: HyStart::new(Mode::from_word(params.word("hystart")), host),
            fast_convergence: params.bool("fast_convergence"),
            friendliness: params.bool("tcp_friendliness"),
            fine_clock: host.kernel.follows(Rule::HystartMicroseconds),
            cnt: 0,
            w_max: 0,
            epoch: None,
            last_cwnd: 0,
            last_tick: 0,
            acked: 0,
            w_est: 0,
            min_rtt: NO_RTT,
        }
    }
    fn tick(&self, now: Time) -> u64 {
        now.as_ns() / u64::from(self.ns_per_tick)
    }

    /// Computes `cnt`.
    fn update(&mut self, now: Time, cwnd: u32, acked: u32) {
        let tick = self.tick(now);
        self.acked = self.acked.saturating_add(acked);
        if self.last_cwnd == cwnd && tick.saturating_sub(self.last_tick) <= u64::from(self.hz / 32)
        {
            return;
        }
        // Within one tick the curve is constant; only the friendly window grows.
        if self.epoch.is_none() || tick != self.last_tick {
            self.last_cwnd = cwnd;
            self.last_tick = tick;
            self.follow_curve(tick, cwnd, acked);
        }
        if self.friendliness {
            self.befriend_reno(cwnd);
        }
        self.cnt = self.cnt.max(2);
    }

    fn follow_curve(&mut self, tick: u64, cwnd: u32, acked: u32) {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.acked = acked;
                self.w_est = cwnd;
                let epoch = if self.w_max <= cwnd {
                    Epoch {
                        start: tick,
                        k: 0,
                        origin: cwnd,
                    }
                } else {
                    let k = cube_root(
                        (1 << (10 + 3 * TIME_BITS)) / u64::from(self.c)
                            * u64::from(self.w_max - cwnd),
                    );
                    Epoch {
                        start: tick,
                        k: k as u32,
                        origin: self.w_max,
                    }
                };
                self.epoch = Some(epoch);
                epoch
            }
        };
        let mut ahead = self.min_rtt;
        if ahead == NO_RTT {
            ahead = Span::ZERO;
        }
        if !self.fine_clock {
            ahead = Span::ms(ahead.as_us() / 1000);
        }
        let ahead = ahead.as_ns().div_ceil(u64::from(self.ns_per_tick));
        let t = ((tick.saturating_sub(epoch.start) + ahead) << TIME_BITS) / u64::from(self.hz);
        let k = u64::from(epoch.k);
        let off = t.abs_diff(k);
        // Beyond 2²⁰/1024 s (17 minutes) from the plateau, the curve exceeds every window.
        let off = off.min(1 << 20);
        let delta = ((u128::from(self.c) * u128::from(off) * u128::from(off) * u128::from(off))
            >> (10 + 3 * TIME_BITS))
            .min(u128::from(u32::MAX / 2)) as u32;
        let target = if t < k {
            epoch.origin.saturating_sub(delta)
        } else {
            epoch.origin.saturating_add(delta)
        };
        self.cnt = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.saturating_mul(100)
        };
        if self.w_max == 0 {
            self.cnt = self.cnt.min(FIRST_SEARCH);
        }
    }

    fn befriend_reno(&mut self, cwnd: u32) {
        let per = ((u64::from(cwnd) * u64::from(self.friendly)) >> 3).max(1) as u32;
        // One packet for every full `per`; an exact remainder of `per` waits.
        if self.acked > per {
            let steps = (self.acked - 1) / per;
            self.acked -= steps * per;
            self.w_est = self.w_est.saturating_add(steps);
        }
        if self.w_est > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.w_est - cwnd));
        }
    }
}

impl CongestionControl for Cubic {
    fn on_sent(&mut self, _w: &mut Window, ev: &Sent) {
        // Time without data in flight does not count.
        if let (Some(epoch), Some(last)) = (&mut self.epoch, ev.last_sent) {
            let ns_per_tick = u64::from(self.ns_per_tick);
            let idle = ev.now.since(last).as_ns() / ns_per_tick;
            epoch.start = (epoch.start + idle).min(ev.now.as_ns() / ns_per_tick);
        }
    }

    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        let Some(rtt) = ev.rtt else { return };
        // For a second after the start of an epoch, the queue is not representative of the path.
        let tick = self.tick(ev.now);
        if self
            .epoch
            .is_some_and(|e| tick.saturating_sub(e.start) < u64::from(self.hz))
        {
            return;
        }
        let rtt = rtt.max(Span::us(1));
        let least = self.min_rtt.min(rtt);
        self.min_rtt = least;
        if w.in_slow_start() {
            self.hystart.on_sample(w, ev, rtt, least);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        let mut acked = ev.delivered;
        if w.in_slow_start() {
            self.hystart.on_ack(w, ev);
            acked = self.hystart.growth(acked);
            acked = slow_start(w, acked);
            if acked == 0 {
                return;
            }
        }
        self.update(ev.now, w.cwnd, acked);
        avoid(w, self.cnt, acked);
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        self.epoch = None;
        self.w_max = if w.cwnd < self.w_max && self.fast_convergence {
            (u64::from(w.cwnd) * (SCALE + u64::from(self.beta)) / (2 * SCALE)) as u32
        } else {
            w.cwnd
        };
        w.ssthresh = ((u64::from(w.cwnd) * u64::from(self.beta) / SCALE) as u32).max(2);
    }

    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {
        self.cnt = 0;
        self.w_max = 0;
        self.epoch = None;
        self.last_cwnd = 0;
        self.last_tick = 0;
        self.acked = 0;
        self.w_est = 0;
        self.min_rtt = NO_RTT;
        self.hystart.reset();
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("w_max", f64::from(self.w_max));
        if let Some(epoch) = self.epoch {
            let start_ns = epoch.start.saturating_mul(u64::from(self.ns_per_tick));
            visit("epoch_start_s", start_ns as f64 / 1e9);
            visit("origin", f64::from(epoch.origin));
            visit("k_s", f64::from(epoch.k) / 1024.0);
            visit("w_est", f64::from(self.w_est));
        }
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The cube root as in Linux, within 0.2 %: a guess from the highest four to six bits, and one
/// Newton step. The step is `(2 x + a / (x (x − 1))) / 3`, whose third is 341/1024. A Newton step
/// is too high by about the square of the guess's relative error. A guess that is 1/32 too large in
/// the middle of its range therefore compensates for the 1/1024 by which the third is too small.
/// Linux reads guesses from a table that was refined by hand from there.
fn cube_root(a: u64) -> u64 {
    if a < 64 {
        return libm::cbrt(a as f64) as u64;
    }
    let below = a.ilog2() / 3 - 1;
    let high = (a >> (3 * below)) as f64 + 0.5;
    let guess = ((libm::cbrt(high) * 66.0) as u64) << below >> 6;
    let step = 2 * guess + a / (guess * (guess - 1));
    (step * 341) >> 10
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "cubic",
    help: "default of Linux since 2006: the window is a cubic function of the time since the last \
        loss",
    source: "RFC 9438; Linux 6.12",
    family: Family::Loss,
    year: 2008,
    needs: &[],
    default_in: &[
        DefaultIn {
            system: "Linux",
            since: "2.6.19 (2006-11)",
            until: "",
        },
        DefaultIn {
            system: "macOS",
            since: "10.10 (2014-10)",
            until: "",
        },
        DefaultIn {
            system: "Windows",
            since: "10 1709 (2017-10)",
            until: "",
        },
        DefaultIn {
            system: "FreeBSD",
            since: "14.0 (2023-11)",
            until: "",
        },
    ],
    params: PARAMS,
    make: &|params, host| Box::new(Cubic::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// C = 0.4, in 1/1024.
    const C_SCALED: u64 = 410;

    fn cubic() -> Cubic {
        Cubic::new(&Params::defaults(PARAMS), &Host::default())
    }

    #[test]
    fn a_loss_reduces_the_window_by_three_tenths_and_stores_the_maximum() {
        let mut c = cubic();
        let mut w = Window::new(100);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        assert_eq!((w.ssthresh, c.w_max), (70, 100));
        w.cwnd = 80;
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        assert_eq!((w.ssthresh, c.w_max), (56, 68));
    }

    /// Linux with the module parameters `beta=512 bic_scale=41` and `beta=717 bic_scale=410`.
    #[test]
    fn beta_and_c_equal_those_of_the_linux_module() {
        let with = |name, value| {
            let mut params = Params::defaults(PARAMS);
            params.set(name, crate::param::Value::Number(value));
            Cubic::new(&params, &Host::default())
        };
        let usual = cubic();
        assert_eq!((usual.beta, usual.c, usual.friendly), (717, 410, 15));
        let mut half = with("beta", 0.5);
        assert_eq!((half.beta, half.c, half.friendly), (512, 410, 8));
        let mut w = Window::new(100);
        half.on_loss(&mut w, &Loss::at(Time::ZERO));
        assert_eq!(w.ssthresh, 50);
        assert_eq!(with("c", 4.0).c, 4100);
    }

    /// Times until the window is restored, in 1/1024 s, for several reductions. The exact roots are
    /// 2375, 3771, 4218 and 6448.
    #[test]
    fn the_cube_root_is_off_as_in_linux() {
        let k = |packets: u64| cube_root((1 << 40) / C_SCALED * packets);
        assert_eq!([5, 20, 28, 100].map(k), [2375, 3770, 4215, 6449]);
        for packets in 1..100_000 {
            let exact = libm::cbrt(((1 << 40) / C_SCALED * packets) as f64);
            let off = k(packets) as f64 / exact - 1.0;
            assert!(off.abs() < 0.002, "{packets}: {off}");
        }
        assert_eq!([0, 1, 63].map(cube_root), [0, 1, 3]);
    }

    #[test]
    fn a_window_grows_by_half_in_a_round_trip_at_most() {
        let mut c = cubic();
        let mut w = Window::new(10);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        // Much later the curve is far above: the window may grow at the maximum rate.
        c.update(Time::ZERO + Span::s(1), 10, 1);
        c.update(Time::ZERO + Span::s(100), 10, 1);
        assert_eq!(c.cnt, 2);
    }

    #[test]
    fn before_the_first_loss_it_looks_for_more_by_a_twentieth_per_round_trip() {
        let mut c = cubic();
        c.update(Time::ZERO + Span::s(1), 100, 1);
        assert_eq!(c.cnt, 20);
    }

    #[test]
    fn time_without_anything_in_flight_does_not_count() {
        let mut c = cubic();
        let mut w = Window::new(100);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        c.update(Time::ZERO + Span::s(1), 70, 1);
        let mut sent = Sent::at(Time::ZERO + Span::s(11));
        sent.last_sent = Some(Time::ZERO + Span::s(3));
        c.on_sent(&mut w, &sent);
        assert_eq!(c.epoch.map(|epoch| epoch.start), Some(9000));
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut c = cubic();
        let mut w = Window::new(100);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        c.on_rto(&mut w, &Rto::at(Time::ZERO));
        assert_eq!((c.w_max, c.cnt), (0, 0));
    }

    /// The RTTs of the second round are 1.5 times those of the first: there is a queue.
    #[test]
    fn slow_start_ends_where_a_queue_begins() {
        let mut c = cubic();
        let mut w = Window::new(20);
        for n in 1..=60 {
            let mut ev = Sample::at(Time::ZERO + Span::ms(3 * n));
            (ev.una, ev.nxt) = (n, n + 20);
            ev.rtt = Some(Span::ms(if n <= 20 { 40 } else { 60 }));
            c.on_sample(&mut w, &ev);
            let mut ack = Ack::at(ev.now);
            (ack.una, ack.nxt, ack.delivered, ack.cwnd_limited) = (n, n + 20, 1, false);
            c.on_ack(&mut w, &ack);
        }
        assert_eq!(w.ssthresh, 20);
    }

    /// RFC 9438 section 4.2: the window reaches `W_max` after `K = cbrt(W_max (1 − β)/C)` seconds.
    #[test]
    fn the_window_returns_to_its_maximum_after_k() {
        let mut c = cubic();
        let mut w = Window::new(1000);
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        w.cwnd = w.ssthresh;
        let k = libm::cbrt(1000.0 * 0.3 / 0.4);
        let rtt = 0.1;
        let mut t = 0.0;
        while t < k - rtt {
            // One round trip: `cwnd` packets acknowledged, evenly.
            for i in 0..w.cwnd / 2 {
                let now =
                    Time::from_ns(((t + rtt * f64::from(2 * i) / f64::from(w.cwnd)) * 1e9) as u64);
                let mut ev = Ack::at(now);
                ev.delivered = 2;
                c.on_ack(&mut w, &ev);
            }
            t += rtt;
        }
        assert!((985..=1001).contains(&w.cwnd), "{}", w.cwnd);
    }
}
