//! Compound TCP: Reno, with a second window that grows fast while there is no queue.
//!
//! Algorithm, with `win = cwnd + dwnd`: `cwnd` is Reno's, but grows by one packet per `win` packets
//! acknowledged. Once per round trip in congestion avoidance, `dwnd` changes. The change depends on
//! `diff = win (1 − base/rtt)`, the packets in the queue:
//! - `diff < γ`: `dwnd += max(α winᵏ − 1, 0)`, if `win` is at least 38;
//! - otherwise `dwnd −= ζ diff`, and `ssthresh` is at most `win`, so that slow start does not undo
//!   this decrease;
//! - on loss `cwnd` is halved and `dwnd = max(win (1 − β) − cwnd/2, 0)`. In slow start and after a
//!   timeout, `dwnd` is 0;
//! - `γ` follows the packets of `cwnd` in the queue: at each loss `γ ← (1 − λ) γ + λ ¾ cwnd (1 −
//!   base/rtt)`, within 5 to 30. Before the first loss and after a timeout, `γ` is 30.
//!
//! Without queues, therefore, `win ≈ 0.255/p^0.8` at a loss rate `p`, where Reno has `1.22/√p`.
//! Once the queue holds `γ` packets, the sum `win` is constant while `cwnd` grows, so `dwnd`
//! shrinks until only the window of Reno is left.
//!
//! Sources: draft-sridharan-tcpm-ctcp-02 (2008); Tan, Song, Zhang, Sridharan, "A Compound TCP
//! approach for high-speed and long distance networks", INFOCOM 2006. Choices where they are open:
//! - `α winᵏ` is computed from the whole window, as in the paper (drafts 00 and 01 use `dwnd`); `k
//!   = 3/4`, as in Windows (0.8 at first);
//! - `rtt` is the mean of the samples of the last round trip; round trips with ACKs in recovery are
//!   omitted. `base` is the minimum of the connection. A timeout sets `base` to the smoothed round
//!   trip, because the path may have changed;
//! - `λ = 0.8`; known implementations use 0.25, 0.5 and 0.8.

use super::reno::{avoid, slow_start};
use super::{
    Ack, CcKind, CongestionControl, DefaultIn, Family, Loss, Rto, Sample, SpuriousLoss,
    StateChange, Window,
};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::Span;
use alloc::boxed::Box;

/// γ tends to this share of the packets that Reno's part has in the queue at a loss.
const OF_RENO: f64 = 0.75;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "alpha",
        kind: Kind::Number(0.125, 0.0, 10.0),
        help: "growth of the delay window: alpha * win^k - 1 packets per RTT",
        source: "draft-sridharan-tcpm-ctcp: 1/8",
    },
    Param {
        name: "beta",
        kind: Kind::Number(0.5, 0.0, 1.0),
        help: "share of the window by which a loss reduces it",
        source: "draft-sridharan-tcpm-ctcp: 1/2",
    },
    Param {
        name: "k",
        kind: Kind::Number(0.75, 0.0, 1.0),
        help: "exponent of the window in the growth of the delay window",
        source: "draft-sridharan-tcpm-ctcp: 3/4",
    },
    Param {
        name: "zeta",
        kind: Kind::Number(1.0, 0.0, 10.0),
        help: "reduction of the delay window as a multiple of the packets in the queue",
        source: "draft-sridharan-tcpm-ctcp: 1",
    },
    Param {
        name: "gamma",
        kind: Kind::Number(30.0, 0.0, 100_000.0),
        help: "packets in the queue that end the growth of the delay window; also the upper limit \
            of the tuning",
        source: "draft-sridharan-tcpm-ctcp: 30",
    },
    Param {
        name: "gamma_low",
        kind: Kind::Number(5.0, 0.0, 100_000.0),
        help: "lower limit of the tuning of gamma",
        source: "draft-sridharan-tcpm-ctcp: 5",
    },
    Param {
        name: "gamma_weight",
        kind: Kind::Number(0.8, 0.0, 1.0),
        help: "weight of the newest loss in gamma; 0 disables the tuning",
        source: "draft-sridharan-tcpm-ctcp leaves it open: 0.8 as in ns-3's model",
    },
    Param {
        name: "low_window",
        kind: Kind::Count(38, 0, 1_000_000),
        help: "window in packets below which Compound is Reno",
        source: "RFC 3649 section 5: Low_Window, the window at a loss rate of 0.001",
    },
];

/// The round trip under measurement.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Round {
    /// The round trip ends when every byte below this one is acknowledged.
    ends: u64,
    /// The sum of the round-trip times measured in this round trip.
    sum: Span,
    /// The number of round-trip times in `sum`.
    samples: u64,
}

/// The state of Compound TCP.
#[derive(Clone, Debug)]
pub struct Compound {
    alpha: f64,
    beta: f64,
    k: f64,
    zeta: f64,
    gamma_range: (f64, f64),
    lambda: f64,
    low_window: u32,

    /// The delay window, in packets. The transport's window `win` includes its whole packets.
    dwnd: f64,
    /// The delay window before the last reduction.
    prior_dwnd: f64,
    /// Packets in the queue above which the delay window decreases.
    gamma: f64,
    /// Packets of Reno's part in the queue in the last round trip. `None` until a round trip has
    /// been measured since the last loss.
    diff_reno: Option<f64>,
    /// The minimum round trip of the connection, or since a timeout.
    base: Option<Span>,
    srtt: Span,
    round: Option<Round>,
}

impl Compound {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Compound {
        let most = params.number("gamma");
        Compound {
            alpha: params.number("alpha"),
            beta: params.number("beta"),
            k: params.number("k"),
            zeta: params.number("zeta"),
            gamma_range: (params.number("gamma_low").min(most), most),
            lambda: params.number("gamma_weight"),
            low_window: u32::try_from(params.count("low_window")).unwrap_or(u32::MAX),
            dwnd: 0.0,
            prior_dwnd: 0.0,
            gamma: most,
            diff_reno: None,
            base: None,
            srtt: Span::ZERO,
            round: None,
        }
    }

    /// Reno's part of the window, in packets.
    fn reno(&self, w: &Window) -> u32 {
        w.cwnd.saturating_sub(self.dwnd as u32)
    }

    /// Sets the delay window to `dwnd`; Reno's part is unchanged.
    fn set_dwnd(&mut self, w: &mut Window, dwnd: f64) {
        let reno = self.reno(w);
        self.dwnd = dwnd.max(0.0);
        w.cwnd = reno.saturating_add(self.dwnd as u32).min(w.clamp);
    }

    /// Adjusts `dwnd` after a round trip with the mean `rtt`.
    fn adjust(&mut self, w: &mut Window, rtt: Span) {
        let Some(base) = self.base else { return };
        let waiting = 1.0 - (base.as_s() / rtt.as_s()).min(1.0);
        let win = f64::from(w.cwnd);
        let diff = win * waiting;
        self.diff_reno = Some(f64::from(self.reno(w)) * waiting);
        if diff >= self.gamma {
            self.set_dwnd(w, self.dwnd - self.zeta * diff);
            // A decrease for delay is part of congestion avoidance. Below the threshold, slow start
            // would return it as Reno's part.
            w.ssthresh = w.ssthresh.min(w.cwnd.max(2));
        } else if w.cwnd >= self.low_window {
            let step = self.alpha * libm::pow(win, self.k) - 1.0;
            self.set_dwnd(w, self.dwnd + step.max(0.0));
        }
    }

    /// Moves γ towards ¾ of the packets that Reno's part had in the queue before a loss.
    fn tune_gamma(&mut self) {
        if let Some(diff) = self.diff_reno.take() {
            let (low, high) = self.gamma_range;
            self.gamma =
                ((1.0 - self.lambda) * self.gamma + self.lambda * OF_RENO * diff).clamp(low, high);
        }
    }
}

impl CongestionControl for Compound {
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt = Span::us(ev.srtt8_us / 8);
        let Some(rtt) = ev.rtt.filter(|rtt| *rtt > Span::ZERO) else {
            return;
        };
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        if let (Some(round), State::Open | State::Disorder) = (&mut self.round, ev.state) {
            round.sum = round.sum + rtt;
            round.samples += 1;
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        // The transport may have reduced the window by more than Reno's part.
        self.dwnd = self.dwnd.min(f64::from(w.cwnd.saturating_sub(1)));
        let mut acked = ev.delivered;
        if w.in_slow_start() {
            self.set_dwnd(w, 0.0);
            self.round = None;
            acked = slow_start(w, acked);
            if acked == 0 {
                return;
            }
        }
        avoid(w, w.cwnd, acked);
        let over = self.round.filter(|round| ev.una >= round.ends);
        if let Some(round) = over.filter(|round| round.samples > 0) {
            self.adjust(w, Span::ns(round.sum.as_ns() / round.samples));
        }
        if over.is_some() || self.round.is_none() {
            self.round = Some(Round {
                ends: ev.nxt,
                sum: Span::ZERO,
                samples: 0,
            });
        }
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        self.tune_gamma();
        let half = f64::from(self.reno(w)) / 2.0;
        self.prior_dwnd = self.dwnd;
        self.dwnd = (f64::from(w.cwnd) * (1.0 - self.beta) - half).max(0.0);
        w.ssthresh = ((half + self.dwnd) as u32).max(2);
    }

    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {
        self.dwnd = 0.0;
        self.gamma = self.gamma_range.1;
        self.diff_reno = None;
        self.base = Some(self.srtt).filter(|srtt| *srtt > Span::ZERO);
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        // A round trip with losses is no measure of the queue.
        if !matches!(ev.to, State::Open | State::Disorder) {
            self.round = None;
        }
    }

    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        w.cwnd = w.cwnd.max(ev.prior_cwnd);
        self.dwnd = self.prior_dwnd;
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("dwnd", self.dwnd);
        visit("gamma", self.gamma);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "compound",
    help: "Reno's window plus a second window, which grows fast while the RTT is low",
    source: "draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006",
    family: Family::Delay,
    year: 2005,
    needs: &[],
    default_in: &[DefaultIn {
        system: "Windows Server",
        since: "2008 (2008-02)",
        until: "2019 (2018-10)",
    }],
    params: PARAMS,
    make: &|params, _| Box::new(Compound::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn compound() -> Compound {
        Compound::new(&Params::defaults(PARAMS))
    }

    fn in_avoidance(cwnd: u32) -> Window {
        Window {
            ssthresh: 2,
            ..Window::new(cwnd)
        }
    }

    /// One round trip of `rtt` ms: `cwnd` packets acknowledged one by one. `una` counts packets
    /// here.
    fn round(c: &mut Compound, w: &mut Window, una: &mut u64, rtt: u64) {
        let window = u64::from(w.cwnd);
        for _ in 0..window {
            *una += 1;
            let mut sample = Sample::at(Time::ZERO);
            sample.rtt = Some(Span::ms(rtt));
            sample.srtt8_us = rtt * 8000;
            c.on_sample(w, &sample);
            let mut ack = Ack::at(Time::ZERO);
            (ack.delivered, ack.una, ack.nxt) = (1, *una, *una + window);
            c.on_ack(w, &ack);
        }
    }

    fn lose(c: &mut Compound, w: &mut Window) {
        c.on_loss(w, &Loss::at(Time::ZERO));
        w.cwnd = w.ssthresh;
        w.cwnd_cnt = 0;
    }

    /// One round trip starts the measurement. The next one ends it: Reno's part grows by one
    /// packet, and the delay window by 0.125 · 257^0.75 − 1 = 7.02 packets.
    #[test]
    fn without_a_queue_it_grows_by_a_power_of_the_window() {
        let (mut c, mut w, mut una) = (compound(), in_avoidance(255), 0);
        round(&mut c, &mut w, &mut una, 100);
        assert_eq!((w.cwnd, c.dwnd), (256, 0.0));
        round(&mut c, &mut w, &mut una, 100);
        let step = 0.125 * libm::pow(256.0, 0.75) - 1.0;
        assert_eq!(step, 7.0);
        assert!((c.dwnd - step).abs() < 0.05, "{}", c.dwnd);
        assert!((263..=264).contains(&w.cwnd), "{}", w.cwnd);
    }

    /// 1000 packets, 3 % of them in the queue: 30, which is γ.
    #[test]
    fn at_gamma_queued_packets_the_delay_window_shrinks_by_the_queue() {
        for (waits, grows) in [(29.5, true), (30.5, false)] {
            let (mut c, mut w) = (compound(), in_avoidance(1000));
            c.dwnd = 400.0;
            c.base = Some(Span::ms(100));
            let rtt = Span::ns((1e8 / (1.0 - waits / 1000.0)) as u64);
            c.adjust(&mut w, rtt);
            let expected = if grows {
                400.0 + 0.125 * libm::pow(1000.0, 0.75) - 1.0
            } else {
                400.0 - waits
            };
            assert!((c.dwnd - expected).abs() < 0.01, "{} {expected}", c.dwnd);
            assert_eq!(w.cwnd, 600 + c.dwnd as u32);
        }
    }

    /// A loss at 100 packets, 60 of Reno's part and 40 of the delay window, leaves 30 and 20, with
    /// the threshold at 50. Slow start does not undo a later decrease for delay.
    #[test]
    fn slow_start_does_not_undo_a_decrease_by_the_queue() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        c.dwnd = 40.0;
        c.base = Some(Span::ms(100));
        lose(&mut c, &mut w);
        assert_eq!((w.cwnd, w.ssthresh, c.dwnd), (50, 50, 20.0));
        c.gamma = 5.0;
        c.adjust(&mut w, Span::ms(200));
        assert_eq!((w.cwnd, w.ssthresh, c.dwnd), (30, 30, 0.0));
        round(&mut c, &mut w, &mut 0, 100);
        assert_eq!(
            w.cwnd, 31,
            "one packet per round trip; slow start would be back at 50"
        );
    }

    #[test]
    fn the_delay_window_is_never_negative() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        c.dwnd = 20.0;
        c.base = Some(Span::ms(100));
        c.adjust(&mut w, Span::ms(200));
        assert_eq!((w.cwnd, c.dwnd), (80, 0.0));
    }

    /// 0.125 · 37^0.75 is 1.9: the delay window would grow, but a window of 37 packets is too
    /// small.
    #[test]
    fn a_small_window_is_renos() {
        for (cwnd, grows) in [(37, false), (38, true)] {
            let (mut c, mut w) = (compound(), in_avoidance(cwnd));
            c.base = Some(Span::ms(100));
            c.adjust(&mut w, Span::ms(100));
            assert_eq!(c.dwnd > 0.0, grows);
        }
    }

    /// The whole window grows by one packet per 100 acknowledged, not per the 40 of Reno's part.
    #[test]
    fn renos_part_grows_by_one_packet_per_window() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        c.dwnd = 60.0;
        let mut ack = Ack::at(Time::ZERO);
        ack.delivered = 40;
        ack.nxt = 1;
        c.on_ack(&mut w, &ack);
        assert_eq!((w.cwnd, w.cwnd_cnt), (100, 40));
    }

    #[test]
    fn a_loss_halves_both() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        c.dwnd = 60.0;
        lose(&mut c, &mut w);
        assert_eq!((w.ssthresh, c.dwnd, c.reno(&w)), (50, 30.0, 20));
        // With a smaller β, only the delay window keeps the difference: 0.8 · 50 less 10.
        let halved = c.clone();
        c.beta = 0.2;
        lose(&mut c, &mut w);
        assert_eq!((w.ssthresh, c.dwnd, c.reno(&w)), (40, 30.0, 10));
        // A spurious reduction is undone for both parts.
        let mut undo = SpuriousLoss::at(Time::ZERO);
        undo.prior_cwnd = 100;
        c = halved;
        c.on_spurious_loss(&mut w, &undo);
        assert_eq!((w.cwnd, c.dwnd), (100, 60.0));
    }

    #[test]
    fn slow_start_and_a_timeout_have_no_delay_window() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        (c.dwnd, c.gamma, c.srtt, c.base) = (60.0, 9.0, Span::ms(150), Some(Span::ms(100)));
        c.on_rto(&mut w, &Rto::at(Time::ZERO));
        assert_eq!((c.dwnd, c.gamma, c.base), (0.0, 30.0, Some(Span::ms(150))));
        (w.cwnd, w.ssthresh, c.dwnd) = (10, 50, 4.0);
        let mut ack = Ack::at(Time::ZERO);
        ack.delivered = 2;
        c.on_ack(&mut w, &ack);
        assert_eq!((w.cwnd, c.dwnd), (8, 0.0));
    }

    /// Reno's part had 20 packets in the queue, of which ¾ count. With λ = 0.8, γ = 0.2 · 30 + 0.8
    /// · 15 = 18. γ is computed once per measurement, and is at least 5.
    #[test]
    fn gamma_follows_the_queue_that_reno_alone_causes() {
        let (mut c, mut w) = (compound(), in_avoidance(100));
        c.diff_reno = Some(20.0);
        lose(&mut c, &mut w);
        assert!((c.gamma - 18.0).abs() < 1e-9, "{}", c.gamma);
        lose(&mut c, &mut w);
        assert!((c.gamma - 18.0).abs() < 1e-9, "{}", c.gamma);
        for _ in 0..3 {
            c.diff_reno = Some(1.0);
            lose(&mut c, &mut w);
        }
        assert_eq!(c.gamma, 5.0);
        // Only Reno's part counts: 40 packets of 100, a fifth of them queued.
        (c.dwnd, w.cwnd, c.base) = (60.0, 100, Some(Span::ms(80)));
        c.adjust(&mut w, Span::ms(100));
        assert!((c.diff_reno.unwrap() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_round_with_losses_gives_no_sample() {
        let (mut c, mut w, mut una) = (compound(), in_avoidance(200), 0);
        round(&mut c, &mut w, &mut una, 100);
        let mut change = StateChange::at(Time::ZERO);
        (change.from, change.to) = (State::Open, State::Recovery);
        c.on_state(&mut w, &change);
        assert_eq!(c.round, None);
    }

    /// The mean window at a loss rate of `p`, without any queue.
    fn response(p: f64) -> f64 {
        let (mut c, mut w, mut una) = (compound(), in_avoidance(100), 0);
        let per_loss = (1.0 / p) as u64;
        let (mut rounds, mut packets, mut since) = (0u64, 0u64, 0u64);
        let mut losses = 0;
        while losses < 60 {
            let window = u64::from(w.cwnd);
            round(&mut c, &mut w, &mut una, 100);
            since += window;
            if losses >= 20 {
                rounds += 1;
                packets += window;
            }
            if since >= per_loss {
                since -= per_loss;
                losses += 1;
                lose(&mut c, &mut w);
            }
        }
        packets as f64 / rounds as f64
    }

    /// The response function of the paper: 0.255/p^0.8; Reno's is 1.22/√p.
    #[test]
    fn the_response_function_is_that_of_the_paper() {
        for p in [1e-4, 1e-5] {
            let (mean, paper) = (response(p), 0.255 / libm::pow(p, 0.8));
            assert!((0.9..1.1).contains(&(mean / paper)), "{p}: {mean} {paper}");
        }
    }
}
