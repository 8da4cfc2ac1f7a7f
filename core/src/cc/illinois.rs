//! TCP Illinois as in Linux: losses determine when the window decreases, queueing delay determines
//! by how much.
//!
//! Algorithm: `d` is the mean queueing delay of the last round trip, `d_m` the maximum queueing
//! delay of the connection, `d₁ = d_m/100`. Per round trip in congestion avoidance `cwnd += α`, on
//! loss `ssthresh = (1 − β) cwnd`.
//! - `α = 10` while `d ≤ d₁`, else `10 (d_m − d₁) / (d_m − d₁ + 32.7 (d − d₁))`, which is 0.3 at `d
//!   = d_m`.
//! - `β = 1/8` while `d ≤ d_m/10`, 1/2 from `0.8 d_m` on, linear between them.
//! - Below 15 packets `α = 1`, `β = 1/2`.
//!
//! The window therefore follows a concave curve, and a loss without a queue costs little.
//!
//! Sources: Liu, Başar, Srikant, "TCP-Illinois: a loss- and delay-based congestion control
//! algorithm for high-speed networks" (VALUETOOLS 2006; Performance Evaluation 65, 2008). Linux
//! 6.12 for the details:
//! - α is in 1/128 and β in 1/64, both computed once per round trip, also in slow start;
//! - after a round trip with a queue, α is 10 again in the fifth round trip without a queue. In the
//!   four before, α keeps its value. Round trips with a queue do not restart this count;
//! - the minimum and the maximum RTT are kept for the whole connection. A timeout does not reset
//!   them, but sets α = 1 and β = 1/2;
//! - growth counts packets acknowledged in order, and discards the rest when the window changes;
//! - the reduction is computed from `cwnd`, not from the flight size; an ACK that crosses
//!   `ssthresh` does not count in congestion avoidance.

use super::reno::slow_start;
use super::{Ack, CcKind, CongestionControl, Family, Loss, Rto, Sample, Window};
use crate::param::{Kind, Param, Params};
use crate::units::Span;
use alloc::boxed::Box;

/// Unit of α: 1/128.
const ALPHA_BITS: u32 = 7;
const ALPHA_ONE: u64 = 1 << ALPHA_BITS;
/// 0.3, rounded down: the 32.7 of the formula is `(ALPHA_MOST − ALPHA_LEAST)/ALPHA_LEAST`.
const ALPHA_LEAST: u64 = 3 * ALPHA_ONE / 10;
const ALPHA_MOST: u64 = 10 * ALPHA_ONE;
/// Unit of β: 1/64.
const BETA_BITS: u32 = 6;
const BETA_LEAST: u64 = (1 << BETA_BITS) / 8;
const BETA_MOST: u64 = (1 << BETA_BITS) / 2;
/// Upper limit of RTTs in µs (3.36 s), because Linux's arithmetic has 32 bits.
const RTT_MOST: u64 = u32::MAX as u64 / ALPHA_MOST;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "win_thresh",
        kind: Kind::Count(15, 0, 1_000_000),
        help: "window in packets below which Illinois is Reno",
        source: "Linux 6.12 tcp_illinois: win_thresh = 15",
    },
    Param {
        name: "theta",
        kind: Kind::Count(5, 1, 100),
        help: "RTTs without a queue before the window grows by ten packets per RTT again",
        source: "Linux 6.12 tcp_illinois: theta = 5",
    },
];

/// The RTT samples of the present round trip.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Round {
    /// The round trip ends when a byte above this one is acknowledged. `None`, after a timeout, is
    /// replaced by the end of the sent data when the next ACK arrives.
    end: Option<u64>,
    sum_us: u64,
    samples: u64,
}

/// Observations of the queue: whether a queueing delay above `d₁` was measured.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Queue {
    /// No queue so far, or five round trips without one since the last.
    Unseen,
    /// A queue, and since the first one this many round trips without one.
    Met(u64),
}

/// Illinois's state.
#[derive(Clone, Debug)]
pub struct Illinois {
    win_thresh: u32,
    theta: u64,

    alpha: u64,
    beta: u64,
    /// The minimum and the maximum RTT of the connection, µs.
    range_us: Option<(u64, u64)>,
    round: Round,
    queue: Queue,
    /// Packets acknowledged in order by this ACK.
    acked: u32,
}

impl Illinois {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Illinois {
        Illinois {
            win_thresh: params.count("win_thresh") as u32,
            theta: params.count("theta"),
            alpha: ALPHA_MOST,
            beta: BETA_MOST,
            range_us: None,
            round: Round {
                end: Some(0),
                ..Round::default()
            },
            queue: Queue::Unseen,
            acked: 0,
        }
    }

    /// Updates α and β; called once per round trip.
    fn update(&mut self, cwnd: u32) {
        if cwnd < self.win_thresh {
            self.be_reno();
        } else if let (Some((least, most)), Some(mean)) = (
            self.range_us,
            self.round.sum_us.checked_div(self.round.samples),
        ) {
            let (delay, worst) = (mean.saturating_sub(least), most - least);
            self.alpha = self.alpha(delay, worst);
            self.beta = beta(delay, worst);
        }
    }

    fn be_reno(&mut self) {
        self.alpha = ALPHA_ONE;
        self.beta = BETA_MOST;
    }

    fn alpha(&mut self, delay: u64, worst: u64) -> u64 {
        let low = worst / 100;
        if delay <= low {
            return match self.queue {
                Queue::Met(rounds) if rounds + 1 < self.theta => {
                    self.queue = Queue::Met(rounds + 1);
                    self.alpha
                }
                _ => {
                    self.queue = Queue::Unseen;
                    ALPHA_MOST
                }
            };
        }
        // A round trip with a queue does not restart the count of round trips without one.
        if self.queue == Queue::Unseen {
            self.queue = Queue::Met(0);
        }
        let (delay, worst) = (delay - low, worst - low);
        worst * ALPHA_MOST / (worst + delay * (ALPHA_MOST - ALPHA_LEAST) / ALPHA_LEAST)
    }
}

fn beta(delay: u64, worst: u64) -> u64 {
    let (low, high) = (worst / 10, worst * 8 / 10);
    if delay <= low {
        BETA_LEAST
    } else if delay >= high || high <= low {
        BETA_MOST
    } else {
        BETA_LEAST + (BETA_MOST - BETA_LEAST) * (delay - low) / (high - low)
    }
}

impl CongestionControl for Illinois {
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.acked = ev.acked;
        // After a timeout, the round trip ends when all data sent so far is acknowledged.
        self.round.end.get_or_insert(ev.nxt);
        let Some(rtt) = ev.rtt else { return };
        let us = rtt.as_us().min(RTT_MOST);
        let (least, most) = self.range_us.unwrap_or((us, us));
        self.range_us = Some((least.min(us), most.max(us)));
        self.round.samples += 1;
        self.round.sum_us = self.round.sum_us.saturating_add(us);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow {
            return;
        }
        if self.round.end.is_some_and(|end| ev.una > end) {
            self.update(w.cwnd);
            self.round = Round {
                end: Some(ev.nxt),
                ..Round::default()
            };
        }
        if !ev.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            slow_start(w, ev.delivered);
            return;
        }
        w.cwnd_cnt = w.cwnd_cnt.saturating_add(self.acked);
        let due = (u64::from(w.cwnd_cnt) * self.alpha) >> ALPHA_BITS;
        let steps = due / u64::from(w.cwnd.max(1));
        if steps > 0 {
            w.cwnd = w
                .cwnd
                .saturating_add(steps.min(u64::from(u32::MAX)) as u32)
                .min(w.clamp);
            w.cwnd_cnt = 0;
        }
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        let less = (u64::from(w.cwnd) * self.beta) >> BETA_BITS;
        w.ssthresh = (w.cwnd - less as u32).max(2);
    }

    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {
        self.be_reno();
        self.queue = Queue::Unseen;
        self.round = Round::default();
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("alpha", self.alpha as f64 / ALPHA_ONE as f64);
        visit("beta", self.beta as f64 / f64::from(1 << BETA_BITS));
        let (least, most) = self.range_us.unwrap_or((0, 0));
        visit("greatest_delay_ms", Span::us(most - least).as_ms());
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "illinois",
    help: "a loss triggers a reduction; the queueing delay sets how large it is and how fast the \
        window grows (fast while there is no queue)",
    source: "Liu, Başar, Srikant 2006; Linux 6.12",
    family: Family::Loss,
    year: 2006,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Illinois::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    struct Flow {
        cc: Illinois,
        w: Window,
        una: u64,
    }

    impl Flow {
        /// A flow in congestion avoidance.
        fn new(cwnd: u32) -> Flow {
            let mut w = Window::new(cwnd);
            w.ssthresh = cwnd;
            let cc = Illinois::new(&Params::defaults(PARAMS));
            Flow { cc, w, una: 0 }
        }
        /// An ACK of one packet with this round trip; ten others are in flight.
        fn ack(&mut self, rtt_us: u64) {
            self.una += 1;
            let mut sample = Sample::at(Time::ZERO);
            (sample.rtt, sample.acked, sample.una, sample.nxt) =
                (Some(Span::us(rtt_us)), 1, self.una, self.una + 10);
            self.cc.on_sample(&mut self.w, &sample);
            let mut ev = Ack::at(Time::ZERO);
            (ev.delivered, ev.una, ev.nxt) = (1, self.una, self.una + 10);
            self.cc.on_ack(&mut self.w, &ev);
        }
        /// A round trip of ACKs with this delay; the last of them ends it.
        fn round(&mut self, rtt_us: u64) -> (u64, u64) {
            for _ in 0..11 {
                self.ack(rtt_us);
            }
            (self.cc.alpha, self.cc.beta)
        }
        /// A flow after a round trip in which RTTs of 10 ms and 60 ms were measured.
        fn on_a_path(cwnd: u32) -> Flow {
            let mut f = Flow::new(cwnd);
            f.ack(10_000);
            f.round(60_000);
            f
        }
        fn lose(&mut self) -> u32 {
            self.cc.on_loss(&mut self.w, &Loss::at(Time::ZERO));
            self.w.ssthresh
        }
    }

    /// Liu, Başar, Srikant, section 2, with η₁ = 0.01, α from 0.3 to 10, at delays of 1, 10, 50 and
    /// 100 % of the maximum delay.
    #[test]
    fn alpha_falls_with_the_delay() {
        let alpha = |delay| Flow::new(100).cc.alpha(delay, 50_000);
        assert_eq!(
            [500, 501, 5000, 25_000, 50_000].map(alpha),
            [1280, 1279, 322, 74, 38]
        );
    }

    /// η₂ = 0.1, η₃ = 0.8, β from 1/8 to 1/2.
    #[test]
    fn beta_rises_with_the_delay() {
        let at = |delay| beta(delay, 50_000);
        assert_eq!(
            [0, 5000, 22_500, 39_999, 40_000, 50_000].map(at),
            [8, 8, 20, 31, 32, 32]
        );
        // Without a queue there is nothing to divide.
        assert_eq!([beta(0, 0), beta(1, 1), beta(0, 1)], [8, 32, 8]);
    }

    #[test]
    fn alpha_and_beta_move_once_per_round_trip() {
        let mut f = Flow::new(100);
        f.ack(10_000);
        assert_eq!((f.cc.alpha, f.cc.beta), (1280, 8));
        // Ten were in flight: the eleventh ACK ends the round trip, with a mean queue of 50 ms.
        for _ in 0..10 {
            f.ack(60_000);
            assert_eq!((f.cc.alpha, f.cc.beta), (1280, 8));
        }
        f.ack(60_000);
        assert_eq!((f.cc.alpha, f.cc.beta), (38, 32));
        // The mean counts: five ACKs without a queue, six with all of it.
        for rtt in [
            10_000, 60_000, 10_000, 60_000, 10_000, 60_000, 10_000, 60_000, 10_000, 60_000,
        ] {
            f.ack(rtt);
        }
        assert_eq!((f.cc.alpha, f.cc.beta), (38, 32));
        f.ack(60_000);
        let delay = (5 * 10_000 + 6 * 60_000) / 11 - 10_000;
        let expected = Flow::new(100).cc.alpha(delay, 50_000);
        assert_eq!((f.cc.alpha, f.cc.beta), (expected, beta(delay, 50_000)));
    }

    #[test]
    fn a_small_window_is_renos() {
        let mut f = Flow::on_a_path(100);
        let mut at = |cwnd| {
            (f.w.cwnd, f.w.ssthresh, f.w.cwnd_cnt) = (cwnd, 2, 0);
            f.round(30_000)
        };
        assert_eq!([at(15), at(14)], [(92, 18), (128, 32)]);
    }

    #[test]
    fn a_queue_counts_as_gone_after_five_round_trips_without_delay() {
        let mut f = Flow::on_a_path(100);
        f.round(60_000);
        let alpha = [0; 5].map(|_| f.round(10_000).0);
        assert_eq!(alpha, [38, 38, 38, 38, 1280]);
        // Then at once, until there is a queue again; a queue in between does not restart the
        // count.
        assert_eq!(f.round(10_000).0, 1280);
        f.round(60_000);
        let alpha = [10, 10, 60, 10, 10, 10].map(|ms| f.round(ms * 1000).0);
        assert_eq!(alpha, [38, 38, 38, 38, 38, 1280]);
    }

    #[test]
    fn the_greatest_round_trip_is_never_forgotten() {
        let mut f = Flow::on_a_path(100);
        f.cc.on_rto(&mut f.w, &Rto::at(Time::ZERO));
        assert_eq!(f.cc.range_us, Some((10_000, 60_000)));
        // Round trips from 3.36 s on count as one value.
        f.ack(5_000_000);
        assert_eq!(f.cc.range_us, Some((10_000, 3_355_443)));
    }

    #[test]
    fn after_a_timeout_it_is_reno_until_all_earlier_data_are_acknowledged() {
        let mut f = Flow::on_a_path(100);
        f.cc.on_rto(&mut f.w, &Rto::at(Time::ZERO));
        assert_eq!((f.cc.alpha, f.cc.beta), (128, 32));
        for _ in 0..11 {
            f.ack(20_000);
            assert_eq!((f.cc.alpha, f.cc.beta), (128, 32));
        }
        f.ack(20_000);
        assert_ne!((f.cc.alpha, f.cc.beta), (128, 32));
        // Nor was there a queue.
        f.cc.on_rto(&mut f.w, &Rto::at(Time::ZERO));
        f.ack(10_000);
        assert_eq!(f.round(10_000).0, 1280);
    }

    #[test]
    fn a_window_of_acks_adds_alpha_packets() {
        // 10 per round trip: one per ten ACKs of a window of a hundred.
        let mut f = Flow::new(100);
        let mut grown = Flow::new(100);
        for _ in 0..10 {
            f.ack(10_000);
        }
        assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (101, 0));
        for _ in 0..100 {
            grown.ack(10_000);
        }
        assert!((109..=110).contains(&grown.w.cwnd), "{}", grown.w.cwnd);
        // The rest is discarded when the window changes.
        f.w.cwnd_cnt = 25;
        f.ack(10_000);
        assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (103, 0));
    }

    #[test]
    fn growth_counts_cumulatively_acknowledged_packets() {
        let mut f = Flow::new(1000);
        let mut sample = Sample::at(Time::ZERO);
        sample.acked = 3;
        f.cc.on_sample(&mut f.w, &sample);
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 5;
        f.cc.on_ack(&mut f.w, &ev);
        assert_eq!(f.w.cwnd_cnt, 3);
    }

    #[test]
    fn an_ack_that_crosses_the_threshold_adds_no_credit_to_avoidance() {
        let mut f = Flow::new(10);
        f.w.ssthresh = 11;
        f.cc.acked = 40;
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 40;
        f.cc.on_ack(&mut f.w, &ev);
        assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (11, 0));
    }

    #[test]
    fn a_loss_reduces_the_window_by_beta() {
        let mut f = Flow::new(100);
        assert_eq!(f.lose(), 50);
        f.ack(10_000);
        assert_eq!(f.lose(), 88);
        f.w.cwnd = 2;
        assert_eq!(f.lose(), 2);
        f.w.cwnd = 0;
        assert_eq!(f.lose(), 2);
    }
}
