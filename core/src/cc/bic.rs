//! BIC as in Linux: after a loss, the window approaches the old maximum by binary search.
//!
//! Algorithm, below `W_max` by `d` packets: per round trip `cwnd += d/4`, at most 16 packets. From
//! 7 packets below to 3 packets beyond `W_max`, growth is one packet in five round trips. From 4
//! packets beyond `W_max` on, growth per round trip is a third of the distance to `W_max`, at most
//! 16 packets. On loss `ssthresh = 0.8 cwnd` and `W_max = cwnd`. If `cwnd` is below the previous
//! `W_max` at the loss, `W_max = 0.9 cwnd` instead (fast convergence). Up to 14 packets, growth and
//! reduction are those of Reno.
//!
//! Sources: Xu, Harfoush, Rhee, "Binary increase congestion control (BIC) for fast long-distance
//! networks" (INFOCOM 2004); Linux 6.12 for these differences, which measurements of Linux show:
//! - β = 819/1024, and a search in quarters, not in halves;
//! - the window grows by one packet per `cnt` acknowledged packets. Above 14 packets, `cnt` is
//!   divided by the packets per ACK, a moving average with the weight 1/16. This division once
//!   compensated for growth that counted ACKs. Since 5.7, growth counts packets, and Linux still
//!   divides. A receiver that acknowledges every second packet therefore doubles the growth rates
//!   above;
//! - `cnt` is computed anew when the window has changed, otherwise after 1/32 s;
//! - before the first loss, growth per round trip is at least 5 % of the window, multiplied by the
//!   packets per ACK;
//! - the reduction is computed from `cwnd`, not from the flight size; a timeout resets all state
//!   but the packets per ACK.

use super::reno::{avoid, beyond_slow_start};
use super::{Ack, CcKind, CongestionControl, DefaultIn, Family, Host, Loss, Rto, Sample, Window};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::Time;
use alloc::boxed::Box;

/// Unit of β: 1/1024.
const SCALE: u64 = 1024;
/// Each round trip, the search covers the distance to `W_max` divided by this.
const PART: u32 = 4;
/// Unit and weight of the average of packets per ACK: 2⁻⁴ = 1/16.
const RATIO_BITS: u32 = 4;
/// Initial average of packets per ACK: 2, that of a receiver that delays ACKs.
const FIRST_RATIO: u32 = 2 << RATIO_BITS;
/// Maximum of `cnt` before the first loss, before the division by the packets per ACK.
const FIRST_SEARCH: u32 = 20;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "fast_convergence",
        kind: Kind::Bool(true),
        help: "after a loss below the previous maximum, store 0.9 of the window instead of all of \
            it, which leaves bandwidth to other flows",
        source: "Linux 6.12 tcp_bic: fast_convergence = 1",
    },
    Param {
        name: "max_increment",
        kind: Kind::Count(16, 1, 1000),
        help: "largest increase per RTT during the search, in packets",
        source: "Linux 6.12 tcp_bic: max_increment = 16",
    },
    Param {
        name: "low_window",
        kind: Kind::Count(14, 0, 1_000_000),
        help: "window in packets up to which BIC is Reno",
        source: "Linux 6.12 tcp_bic: low_window = 14",
    },
    Param {
        name: "beta",
        kind: Kind::Count(819, 1, 1023),
        help: "window after a loss, in 1/1024 of the window before",
        source: "Linux 6.12 tcp_bic: beta = 819",
    },
    Param {
        name: "smooth_part",
        kind: Kind::Count(20, 1, 1000),
        help: "RTTs in which the window grows by the four packets around its maximum",
        source: "Linux 6.12 tcp_bic: smooth_part = 20",
    },
];

/// BIC's state.
#[derive(Clone, Debug)]
pub struct Bic {
    hz: u64,
    ns_per_tick: u64,
    fast_convergence: bool,
    max_increment: u32,
    low_window: u32,
    beta: u64,
    smooth_part: u32,

    /// Acknowledged packets per packet of growth.
    cnt: u32,
    /// The window at the last loss, or 0.9 of it, in packets; 0 before the first loss.
    w_max: u32,
    last_cwnd: u32,
    last_tick: u64,
    /// Average of packets per ACK, in 1/16 packet.
    ratio: u32,
}

impl Bic {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Bic {
        let hz = u64::from(host.hz.max(1));
        let count = |name| params.count(name) as u32;
        Bic {
            hz,
            ns_per_tick: 1_000_000_000 / hz,
            fast_convergence: params.bool("fast_convergence"),
            max_increment: count("max_increment"),
            low_window: count("low_window"),
            beta: params.count("beta"),
            smooth_part: count("smooth_part"),
            cnt: 0,
            w_max: 0,
            last_cwnd: 0,
            last_tick: 0,
            ratio: FIRST_RATIO,
        }
    }

    /// Computes `cnt`, if the window has changed or 1/32 s has passed.
    fn update(&mut self, now: Time, cwnd: u32) {
        let tick = now.as_ns() / self.ns_per_tick;
        if self.last_cwnd == cwnd && tick.saturating_sub(self.last_tick) <= self.hz / 32 {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_tick = tick;
        self.cnt = cwnd;
        if cwnd > self.low_window {
            let mut per = self.search(cwnd);
            if self.w_max == 0 {
                per = per.min(FIRST_SEARCH);
            }
            self.cnt = ((u64::from(per) << RATIO_BITS) / u64::from(self.ratio)).max(1) as u32;
        }
    }

    /// The value of `cnt` before the division by the packets per ACK.
    fn search(&self, cwnd: u32) -> u32 {
        let linear = cwnd / self.max_increment;
        let smooth = cwnd.saturating_mul(self.smooth_part) / PART;
        if cwnd < self.w_max {
            let step = (self.w_max - cwnd) / PART;
            if step > self.max_increment {
                linear
            } else if step <= 1 {
                smooth
            } else {
                cwnd / step
            }
        } else {
            let beyond = cwnd - self.w_max;
            if beyond < PART {
                smooth
            } else if beyond < self.max_increment * (PART - 1) {
                cwnd.saturating_mul(PART - 1) / beyond
            } else {
                linear
            }
        }
    }
}

impl CongestionControl for Bic {
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        // In recovery each ACK acknowledges one packet.
        if ev.state == State::Open {
            self.ratio = (self.ratio - (self.ratio >> RATIO_BITS)).saturating_add(ev.acked);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let Some(acked) = beyond_slow_start(w, ev) else {
            return;
        };
        self.update(ev.now, w.cwnd);
        avoid(w, self.cnt, acked);
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        let cwnd = u64::from(w.cwnd);
        self.w_max = if w.cwnd < self.w_max && self.fast_convergence {
            (cwnd * (SCALE + self.beta) / (2 * SCALE)) as u32
        } else {
            w.cwnd
        };
        let left = if w.cwnd <= self.low_window {
            w.cwnd / 2
        } else {
            (cwnd * self.beta / SCALE) as u32
        };
        w.ssthresh = left.max(2);
    }

    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {
        self.cnt = 0;
        self.w_max = 0;
        self.last_cwnd = 0;
        self.last_tick = 0;
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("w_max", f64::from(self.w_max));
        visit("cnt", f64::from(self.cnt));
        visit(
            "packets_per_ack",
            f64::from(self.ratio) / f64::from(1 << RATIO_BITS),
        );
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "bic",
    help: "default of Linux before CUBIC: a binary search for the window of the last loss",
    source: "Xu, Harfoush, Rhee 2004; Linux 6.12",
    family: Family::Loss,
    year: 2004,
    needs: &[],
    default_in: &[DefaultIn {
        system: "Linux",
        since: "2.6.8 (2004-08)",
        until: "2.6.19 (2006-11)",
    }],
    params: PARAMS,
    make: &|params, host| Box::new(Bic::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn bic() -> Bic {
        Bic::new(&Params::defaults(PARAMS), &Host::default())
    }

    /// `cnt` at `cwnd` after a loss at `w_max`, with `acked` packets per ACK.
    fn cnt(w_max: u32, cwnd: u32, acked: u32) -> u32 {
        let mut b = bic();
        b.w_max = w_max;
        b.ratio = acked << RATIO_BITS;
        b.update(Time::ZERO + Span::s(1), cwnd);
        b.cnt
    }

    fn lose(b: &mut Bic, cwnd: u32) -> u32 {
        let mut w = Window::new(cwnd);
        b.on_loss(&mut w, &Loss::at(Time::ZERO));
        w.ssthresh
    }

    #[test]
    fn a_loss_leaves_819_of_1024_and_remembers_where() {
        let mut b = bic();
        assert_eq!((lose(&mut b, 1000), b.w_max), (799, 1000));
        // A loss below the last maximum: 900 · (1024 + 819)/2048.
        assert_eq!((lose(&mut b, 900), b.w_max), (719, 809));
        b.fast_convergence = false;
        assert_eq!((lose(&mut b, 800), b.w_max), (639, 800));
    }

    #[test]
    fn up_to_fourteen_packets_it_is_reno() {
        assert_eq!(lose(&mut bic(), 14), 7);
        assert_eq!(lose(&mut bic(), 15), 11);
        assert_eq!(lose(&mut bic(), 3), 2);
        assert_eq!([cnt(1000, 14, 2), cnt(1000, 15, 1)], [14, 1]);
    }

    #[test]
    fn far_from_the_maximum_sixteen_packets_per_round_trip() {
        // A quarter of 68 is 17, more than 16; a quarter of 67 is 16.
        assert_eq!(
            [cnt(1068, 1000, 1), cnt(1067, 1000, 1), cnt(1063, 1000, 1)],
            [62, 62, 66]
        );
        assert_eq!(cnt(2000, 1000, 1), 62);
    }

    #[test]
    fn near_the_maximum_growth_is_a_quarter_of_the_distance() {
        assert_eq!([cnt(1040, 1000, 1), cnt(1008, 1000, 1)], [100, 500]);
    }

    #[test]
    fn around_the_maximum_a_packet_in_five_round_trips() {
        assert_eq!(
            [cnt(1007, 1000, 1), cnt(1000, 1000, 1), cnt(997, 1000, 1)],
            [5000; 3]
        );
    }

    #[test]
    fn far_above_the_maximum_growth_is_a_third_of_the_distance() {
        assert_eq!([cnt(996, 1000, 1), cnt(953, 1000, 1)], [750, 63]);
        assert_eq!([cnt(952, 1000, 1), cnt(500, 1000, 1)], [62; 2]);
    }

    #[test]
    fn before_the_first_loss_at_least_five_per_cent() {
        assert_eq!([cnt(0, 1000, 1), cnt(0, 160, 1)], [20, 10]);
    }

    #[test]
    fn delayed_acks_halve_the_count() {
        assert_eq!([cnt(2000, 1000, 2), cnt(2000, 1000, 4)], [31, 15]);
        // Never zero.
        assert_eq!(cnt(1000, 15, 2), 1);
    }

    #[test]
    fn packets_per_ack_are_a_moving_average_of_sixteenths() {
        let mut b = bic();
        let mut see = |acked, state| {
            let mut ev = Sample::at(Time::ZERO);
            (ev.acked, ev.state) = (acked, state);
            b.on_sample(&mut Window::new(10), &ev);
            b.ratio
        };
        assert_eq!(
            [
                see(2, State::Open),
                see(1, State::Open),
                see(1, State::Open)
            ],
            [32, 31, 31]
        );
        assert_eq!([see(18, State::Open), see(1, State::Recovery)], [48, 48]);
    }

    #[test]
    fn a_window_that_stands_is_looked_at_every_thirty_second_of_a_second() {
        let mut b = bic();
        b.w_max = 2000;
        let mut at = |ms, cwnd, ratio| {
            b.ratio = ratio;
            b.update(Time::ZERO + Span::ms(ms), cwnd);
            b.cnt
        };
        assert_eq!(
            [at(1000, 1000, 16), at(1031, 1000, 32), at(1032, 1000, 32)],
            [62, 62, 31]
        );
        assert_eq!(at(1033, 1008, 16), 63);
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut b = bic();
        lose(&mut b, 1000);
        b.on_rto(&mut Window::new(1), &Rto::at(Time::ZERO));
        // 700 is not below it, so it is stored unchanged.
        lose(&mut b, 700);
        assert_eq!(b.w_max, 700);
    }

    /// Over a whole round trip the window follows `cnt`.
    #[test]
    fn a_round_trip_far_away_adds_sixteen_and_with_delayed_acks_thirty_two() {
        for (acked, grown) in [(1, 16), (2, 32)] {
            let mut b = bic();
            b.w_max = 4000;
            b.ratio = acked << RATIO_BITS;
            let mut w = Window::new(1600);
            w.ssthresh = 1600;
            for i in 0..1600 / acked {
                let mut ev = Ack::at(Time::ZERO + Span::us(u64::from(60 * i)));
                ev.delivered = acked;
                b.on_ack(&mut w, &ev);
            }
            assert!(w.cwnd.abs_diff(1600 + grown) <= 1, "{}", w.cwnd);
        }
    }
}
