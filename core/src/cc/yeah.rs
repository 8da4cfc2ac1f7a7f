//! YeAH as in Linux: the window grows fast while the queue is short, and as in Reno otherwise. The
//! flow removes its own packets from the queue before a loss occurs.
//!
//! Algorithm, once per round trip, with `rtt` its minimum RTT, `base` the minimum RTT of the
//! connection, and `queued = cwnd · (rtt − base) / rtt`, in packets:
//! - slow mode if `queued > alpha` (80) or `rtt − base > base / phy` (8), else fast mode;
//! - congestion avoidance, fast mode: `cwnd + 1` per `min(cwnd, 100)` packets acknowledged
//!   (Scalable). Slow mode: `cwnd + 1` per `cwnd` packets acknowledged (Reno);
//! - `queued > alpha`: `cwnd −= min(queued / gamma, cwnd / 2)`, not below `reno`; `gamma = 1`;
//! - `reno` estimates the window of a competing Reno flow. It is 2 at first. A slow round trip sets
//!   it to half of `cwnd` if it is 2, and otherwise increases it by one. It is halved on loss, and
//!   set to 2 after more than `zeta` (50) fast round trips;
//! - on congestion, `cwnd` is reduced by `queued`, at least by `cwnd / 8` and at most by half.
//!   After `rho` (16) successive slow round trips, which indicate a competing flow that fills the
//!   queue, `cwnd` is halved.
//!
//! Sources: Baiocchi, Castellani, Vacirca, "YeAH-TCP: yet another highspeed TCP" (PFLDnet 2007).
//! Linux 6.12 differs, as measurements show:
//! - slow start is that of Reno, and `queued > alpha` also ends it; the slow start of the paper is
//!   that of Vegas;
//! - all fast round trips since the last loss count towards `zeta`; in the paper, only successive
//!   ones count;
//! - the mode follows from `queued` of the previous round trip; the end of recovery restarts the
//!   estimation of `queued`, but does not change the mode;
//! - the window never exceeds 2³²/128 packets; `base` is reset whenever data leaves while none is
//!   in flight.
//!
//! Before 5.7 Linux counted an ACK of several packets as one packet in slow mode; this is not
//! modelled.

use super::reno::{avoid, slow_start};
use super::vegas::{Delays, RoundTrips};
use super::{
    Ack, CcKind, CongestionControl, Family, Loss, Sample, Sent, Start, StateChange, Window,
};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use alloc::boxed::Box;

/// Acknowledged packets per packet of growth in fast mode, for windows of at least as many packets.
const FAST_PER: u32 = 100;
/// Minimum window, and minimum estimate of the window of a Reno flow, in packets.
const LEAST: u32 = 2;
/// Maximum window, in packets.
const MOST: u32 = u32::MAX / 128;
/// Maximum of the count of slow round trips.
const MANY: u32 = 0xff_ffff;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "alpha",
        kind: Kind::Packets(80, 0, 100_000),
        help: "queued packets above which the queue is reduced and the flow counts as slow",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_ALPHA",
    },
    Param {
        name: "gamma",
        kind: Kind::Count(1, 1, 1000),
        help: "the share of the queued packets that is removed is 1/gamma",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_GAMMA",
    },
    Param {
        name: "delta",
        kind: Kind::Count(3, 1, 31),
        help: "a loss reduces the window by at least 1/2^delta",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_DELTA",
    },
    Param {
        name: "epsilon",
        kind: Kind::Count(1, 1, 31),
        help: "a reduction of the queue removes at most 1/2^epsilon of the window",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_EPSILON",
    },
    Param {
        name: "phy",
        kind: Kind::Count(8, 1, 1000),
        help: "the flow also counts as slow if the queueing delay exceeds 1/phy of the minimum RTT",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_PHY",
    },
    Param {
        name: "rho",
        kind: Kind::Count(16, 0, 1000),
        help: "slow RTTs in a row after which a loss halves the window",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_RHO",
    },
    Param {
        name: "zeta",
        kind: Kind::Count(50, 0, 100_000),
        help: "fast RTTs after which no greedy flow is assumed on the path",
        source: "Linux 6.12 tcp_yeah: TCP_YEAH_ZETA",
    },
];

/// YeAH's state.
#[derive(Clone, Debug)]
pub struct Yeah {
    alpha: u64,
    gamma: u64,
    delta: u32,
    epsilon: u32,
    phy: u64,
    rho: u64,
    zeta: u64,
    rounds: RoundTrips,
    /// `queued` of the last round trip with enough RTT samples, in packets.
    queued: u64,
    /// Number of successive slow round trips; 0 in fast mode.
    slow: u32,
    /// Fast round trips since the last loss. The count restarts when it exceeds `zeta`.
    fast: u64,
    /// The estimated window of a competing Reno flow, in packets.
    reno: u32,
}

impl Yeah {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Yeah {
        Yeah {
            alpha: params.packets("alpha"),
            gamma: params.count("gamma"),
            delta: params.count("delta") as u32,
            epsilon: params.count("epsilon") as u32,
            phy: params.count("phy"),
            rho: params.count("rho"),
            zeta: params.count("zeta"),
            rounds: RoundTrips::default(),
            queued: 0,
            slow: 0,
            fast: 0,
            reno: LEAST,
        }
    }

    fn grow(&self, w: &mut Window, mut acked: u32) {
        if w.in_slow_start() {
            acked = slow_start(w, acked);
            if acked == 0 {
                return;
            }
        }
        let per = if self.slow == 0 {
            w.cwnd.min(FAST_PER)
        } else {
            w.cwnd
        };
        avoid(w, per, acked);
    }

    fn on_round(&mut self, w: &mut Window, seen: Delays) {
        let Delays { base, rtt } = seen;
        let waited = rtt - base;
        self.queued = u64::from(w.cwnd).saturating_mul(waited) / rtt;
        let too_many = self.queued > self.alpha;
        if too_many || waited > base / self.phy {
            if too_many && w.cwnd > self.reno {
                let taken =
                    (self.queued / self.gamma).min(u64::from(w.cwnd >> self.epsilon)) as u32;
                w.cwnd = (w.cwnd - taken).max(self.reno);
                w.ssthresh = w.cwnd;
            }
            self.reno = if self.reno <= LEAST {
                (w.cwnd / 2).max(LEAST)
            } else {
                self.reno.saturating_add(1)
            };
            self.slow = (self.slow + 1).min(MANY);
        } else {
            self.fast += 1;
            if self.fast > self.zeta {
                self.reno = LEAST;
                self.fast = 0;
            }
            self.slow = 0;
        }
    }
}

impl CongestionControl for Yeah {
    fn on_start(&mut self, w: &mut Window, _ev: &Start) {
        w.clamp = w.clamp.min(MOST);
    }

    fn on_sent(&mut self, _w: &mut Window, ev: &Sent) {
        self.rounds = RoundTrips::from(ev.nxt);
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        if ev.to == State::Open {
            self.rounds.begin(ev.nxt);
        }
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        if let Some(rtt) = ev.rtt {
            self.rounds.take(rtt);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        self.grow(w, ev.delivered);
        if self.rounds.over(ev.una) {
            if let Some(seen) = self.rounds.delays() {
                self.on_round(w, seen);
            }
            self.rounds.begin(ev.nxt);
        }
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        let half = (w.cwnd / 2).max(LEAST);
        let lost = if u64::from(self.slow) < self.rho {
            let queued = self.queued.min(u64::from(half)) as u32;
            queued.max(w.cwnd >> self.delta)
        } else {
            half
        };
        self.fast = 0;
        self.reno = (self.reno / 2).max(LEAST);
        w.ssthresh = w.cwnd.saturating_sub(lost).max(LEAST);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("queued", self.queued as f64);
        visit("reno", f64::from(self.reno));
        visit("slow_rounds", f64::from(self.slow));
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "yeah",
    help: "Scalable while its queue is short, Reno beside other flows; reduces its own queue \
        before losses occur",
    source: "Baiocchi, Castellani, Vacirca 2007; Linux 6.12",
    family: Family::Delay,
    year: 2007,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Yeah::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Span, Time};

    struct Bench {
        cc: Yeah,
        w: Window,
        una: u64,
    }

    /// A flow in congestion avoidance, after a fast round trip of 100 ms.
    fn bench(cwnd: u32) -> Bench {
        let mut w = Window::new(cwnd);
        w.ssthresh = 2;
        let cc = Yeah::new(&Params::defaults(PARAMS));
        let mut b = Bench { cc, w, una: 0 };
        b.round(100_000);
        b
    }

    impl Bench {
        fn sample(&mut self, us: u64) {
            let mut ev = Sample::at(Time::ZERO);
            ev.rtt = Some(Span::us(us));
            self.cc.on_sample(&mut self.w, &ev);
        }
        /// An ACK of all data sent before, which delivers `delivered` packets.
        fn ack(&mut self, delivered: u32) {
            self.una += 1;
            let mut ev = Ack::at(Time::ZERO);
            (ev.una, ev.nxt, ev.delivered) = (self.una, self.una, delivered);
            self.cc.on_ack(&mut self.w, &ev);
        }
        /// A round trip of three measurements, without its growth; returns the window after it.
        fn round(&mut self, us: u64) -> u32 {
            for more in [0, 700, 5000] {
                self.sample(us + more);
            }
            self.ack(0);
            self.w.cwnd
        }
        fn loss(&mut self) -> u32 {
            self.cc.on_loss(&mut self.w, &Loss::at(Time::ZERO));
            self.w.ssthresh
        }
    }

    #[test]
    fn fast_it_grows_by_one_per_hundred_packets_or_per_window() {
        let mut b = bench(1000);
        b.ack(1000);
        assert_eq!(b.w.cwnd, 1010);
        let mut b = bench(50);
        b.ack(50);
        assert_eq!(b.w.cwnd, 51);
    }

    #[test]
    fn a_queue_of_more_than_an_eighth_of_the_round_trip_makes_it_reno() {
        let mut b = bench(200);
        b.round(112_500);
        assert_eq!(b.cc.slow, 0);
        b.round(112_600);
        assert_eq!((b.cc.slow, b.w.cwnd), (1, 200));
        b.ack(199);
        assert_eq!(b.w.cwnd, 200);
        b.ack(1);
        assert_eq!(b.w.cwnd, 201);
        b.round(112_500);
        assert_eq!(b.cc.slow, 0, "and a shorter one makes it fast again");
    }

    #[test]
    fn more_than_eighty_packets_queued_are_taken_away() {
        let mut b = bench(1000);
        // 1000 · 8.8/108.8 = 80.9, which is 80.
        assert_eq!(b.round(108_800), 1000);
        assert_eq!((b.cc.queued, b.cc.slow), (80, 0));
        // 1000 · 8.9/108.9 = 81.7.
        assert_eq!(b.round(108_900), 919);
        assert_eq!((b.cc.slow, b.w.ssthresh), (1, 919));
    }

    #[test]
    fn but_at_most_half_and_not_below_renos_window() {
        let mut b = bench(1000);
        assert_eq!(b.round(300_000), 500);
        assert_eq!(b.cc.reno, 250);
        b.cc.reno = 450;
        assert_eq!(b.round(150_000), 450);
        assert_eq!(b.round(150_000), 450, "from there it takes nothing");
        assert_eq!(b.cc.reno, 452);
    }

    #[test]
    fn renos_window_is_guessed_at_half_then_grows_with_slow_round_trips() {
        let mut b = bench(300);
        b.round(120_000);
        assert_eq!(b.cc.reno, 150);
        b.round(120_000);
        assert_eq!(b.cc.reno, 151);
        b.round(100_000);
        assert_eq!(b.cc.reno, 151);
        b.loss();
        assert_eq!(b.cc.reno, 75);
    }

    #[test]
    fn fifty_fast_round_trips_forget_renos_window() {
        let mut b = bench(300);
        b.round(120_000);
        b.loss();
        for _ in 0..25 {
            b.round(100_000);
        }
        b.round(120_000);
        for _ in 0..25 {
            b.round(100_000);
        }
        assert_eq!(b.cc.reno, 76);
        b.round(100_000);
        assert_eq!(b.cc.reno, 2);
    }

    #[test]
    fn a_loss_starts_the_count_of_fast_round_trips_anew() {
        let mut b = bench(300);
        for _ in 0..30 {
            b.round(100_000);
        }
        b.loss();
        b.cc.reno = 100;
        for _ in 0..50 {
            b.round(100_000);
        }
        assert_eq!(b.cc.reno, 100);
    }

    #[test]
    fn a_loss_reduces_the_window_by_the_queue_within_an_eighth_and_half() {
        let mut b = bench(300);
        assert_eq!(b.loss(), 300 - 37);
        // 300 · 25/125 = 60, a little less.
        b.round(125_000);
        assert_eq!(b.loss(), 300 - 59);
        b.w.cwnd = 100;
        b.round(300_000);
        assert_eq!(b.loss(), 50);
        b.w.cwnd = 2;
        assert_eq!(b.loss(), 2);
    }

    #[test]
    fn after_sixteen_slow_rounds_a_loss_halves_the_window() {
        let mut b = bench(300);
        for _ in 0..15 {
            b.round(125_000);
        }
        assert_eq!(b.loss(), 241);
        b.round(125_000);
        assert_eq!(b.loss(), 150);
    }

    #[test]
    fn a_round_with_two_samples_gives_no_estimate() {
        let mut b = bench(300);
        b.sample(200_000);
        b.sample(200_000);
        b.ack(0);
        assert_eq!((b.cc.slow, b.cc.queued), (0, 0));
        b.sample(200_000);
        b.ack(0);
        assert_eq!(b.cc.slow, 0, "nor together with the next");
    }

    #[test]
    fn slow_start_is_renos_and_is_measured() {
        let mut b = bench(1000);
        b.w.ssthresh = 2000;
        b.ack(500);
        assert_eq!(b.w.cwnd, 1500);
        assert_eq!(b.round(130_000), 1500 - 346);
    }

    #[test]
    fn it_rests_while_the_window_is_not_the_limit() {
        let mut b = bench(50);
        let mut ev = Ack::at(Time::ZERO);
        ev.cwnd_limited = false;
        ev.delivered = 50;
        b.cc.on_ack(&mut b.w, &ev);
        (ev.cwnd_limited, ev.may_grow) = (true, false);
        b.cc.on_ack(&mut b.w, &ev);
        assert_eq!(b.w.cwnd, 50);
    }

    #[test]
    fn recovery_begins_the_measure_anew() {
        let mut b = bench(300);
        b.sample(100_000);
        let mut ev = StateChange::at(Time::ZERO);
        (ev.to, ev.nxt) = (State::Open, 10);
        b.cc.on_state(&mut b.w, &ev);
        b.una = 8;
        for us in [125_000, 125_000, 125_000] {
            b.sample(us);
            b.ack(0);
        }
        assert_eq!((b.cc.slow, b.cc.queued), (1, 59));
    }

    #[test]
    fn data_into_an_empty_path_forgets_the_least_round_trip() {
        let mut b = bench(300);
        b.cc.on_sent(&mut b.w, &Sent::at(Time::ZERO));
        b.round(200_000);
        assert_eq!(b.cc.slow, 0);
    }

    #[test]
    fn the_window_has_an_end() {
        let mut b = bench(2);
        b.cc.on_start(&mut b.w, &Start::at(Time::ZERO));
        (b.w.cwnd, b.w.ssthresh) = (MOST - 5, u32::MAX / 2);
        b.ack(100);
        assert_eq!(b.w.cwnd, MOST);
    }
}
