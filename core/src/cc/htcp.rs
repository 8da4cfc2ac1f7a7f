//! H-TCP as in Linux: the longer the time since the last congestion, the faster the window grows.
//!
//! Algorithm: let `Δ` be the time since the last congestion event, in seconds. `f(Δ)` is 1 for `Δ ≤
//! 1`, and `1 + 10 (Δ − 1) + ((Δ − 1)/2)²` for a larger `Δ`. `f` is multiplied by `min_rtt / 100
//! ms`, a factor that is limited to the range from 1/10 to 2. The product, at least 1, is called
//! `f` from here on. Each window acknowledged in congestion avoidance adds `α = 2 (1 − β) f`
//! packets to `cwnd`. On congestion `ssthresh = max(β cwnd, 2)`, where `β = min_rtt / max_rtt` is
//! limited to the range from 0.5 to 0.8. To empty a short queue, a reduction by less than half
//! suffices. `β = 0.5` if the maximum throughput has changed by more than a fifth since the
//! previous congestion event.
//!
//! Sources: Leith, Shorten, "H-TCP: TCP for high-speed and long-distance networks" (PFLDnet 2004);
//! draft-leith-tcp-htcp-06; Linux 6.12 for differences:
//! - α, β are in 1/128, `f` in whole packets, time in ticks of the kernel;
//! - α is computed at each congestion event and when the window grows by a packet, not with each
//!   ACK. Towards growth, an ACK in the state Open counts the packets that it acknowledged in
//!   order, an ACK in any other state counts one. The ACK that grows the window does not count;
//! - `max_rtt` grows in the state Open only. An RTT more than 20 ms above it does not count. At
//!   each congestion event, its excess over `min_rtt` decays by a twentieth;
//! - β is 0.5 at a congestion event at which the throughput has changed, and at the next event.
//!   From the second event on with unchanged throughput, β is `min_rtt / max_rtt`, if `min_rtt` is
//!   above 10 ms. The first event of a connection counts as a change.

use super::reno::slow_start;
use super::{
    Ack, CcKind, CongestionControl, Family, Host, Loss, Sample, SpuriousLoss, Start, StateChange,
    Window,
};
use crate::param::{Kind, Param, Params};
use crate::transport::{Jiffies, State};
use crate::units::Span;
use alloc::boxed::Box;

/// Unit of α and β: 1/128.
const UNIT: u32 = 128;
/// Bounds of β: a half, and about 0.8.
const BETA_LEAST: u32 = UNIT / 2;
const BETA_MOST: u32 = 102;
/// If the minimum RTT is at most this, RTTs are too short to measure the queue.
const SHORT: Span = Span::ms(10);
/// Maximum increase of `max_rtt` by one RTT sample; a larger increase is not caused by the queue.
const JUMP: Span = Span::ms(20);
/// α is scaled by the minimum RTT divided by 100 ms, which is a second divided by this.
const SCALE_TENTHS: u64 = 10;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "rtt_scaling",
        kind: Kind::Bool(true),
        help: "grow in packets per second instead of per RTT: the growth is scaled by minimum RTT \
            / 100 ms",
        source: "Linux 6.12 tcp_htcp: use_rtt_scaling = 1",
    },
    Param {
        name: "bandwidth_switch",
        kind: Kind::Bool(true),
        help: "halve the window if the throughput has changed by more than a fifth since the last \
            congestion",
        source: "Linux 6.12 tcp_htcp: use_bandwidth_switch = 1",
    },
];

/// The state that a spurious reduction restores.
#[derive(Copy, Clone, Debug)]
struct Before {
    congestion: u64,
    max_rtt: u64,
    max_bandwidth_before: u64,
}

/// H-TCP's state. Times are in ticks, bandwidths in packets per second.
#[derive(Clone, Debug)]
pub struct Htcp {
    hz: u64,
    ticks: Jiffies,
    rtt_scaling: bool,
    bandwidth_switch: bool,

    alpha: u32,
    beta: u32,
    /// Whether the throughput was unchanged at the last congestion event, so that β may be
    /// `min_rtt / max_rtt` at the next one.
    settled: bool,
    /// Packets of the last ACK that count towards growth.
    packets: u32,
    min_rtt: Option<u64>,
    max_rtt: u64,
    /// Time of the last congestion event, in ticks: its start while recovery lasts, and the end of
    /// recovery afterwards. Before the first event, this is the start of the connection.
    congestion: u64,
    before: Option<Before>,

    /// Packets acknowledged in order since the present bandwidth measurement began.
    measured: u32,
    /// Time when the present bandwidth measurement began.
    since: Option<u64>,
    bandwidth: u64,
    max_bandwidth: u64,
    /// The maximum bandwidth before the last congestion event.
    max_bandwidth_before: u64,
}

impl Htcp {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Htcp {
        Htcp {
            hz: u64::from(host.hz.max(1)),
            ticks: Jiffies::new(host.hz),
            rtt_scaling: params.bool("rtt_scaling"),
            bandwidth_switch: params.bool("bandwidth_switch"),
            alpha: UNIT,
            beta: BETA_LEAST,
            settled: false,
            packets: 1,
            min_rtt: None,
            max_rtt: 0,
            congestion: 0,
            before: None,
            measured: 0,
            since: None,
            bandwidth: 0,
            max_bandwidth: 0,
            max_bandwidth_before: 0,
        }
    }
    fn ticks_of(&self, span: Span) -> u64 {
        self.ticks.from_us(span.as_us())
    }

    fn measure_rtt(&mut self, rtt: u64, state: State) {
        let least = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(least);
        if state == State::Open {
            self.max_rtt = self.max_rtt.max(least);
            if rtt > self.max_rtt && rtt <= self.max_rtt + self.ticks_of(JUMP) {
                self.max_rtt = rtt;
            }
        }
    }

    /// Measures the bandwidth about once per round trip, in the states Open and Disorder.
    fn measure_bandwidth(&mut self, tick: u64, cwnd: u32, acked: u32, state: State) {
        if !matches!(state, State::Open | State::Disorder) {
            self.measured = 0;
            self.since = Some(tick);
            return;
        }
        self.measured = self.measured.saturating_add(acked);
        let grows = (self.alpha / UNIT).max(1);
        let Some(least) = self.min_rtt else { return };
        // In Linux, the first measurement runs from the start of the kernel's clock, so its result
        // is near zero. Here it is zero.
        let took = self.since.map(|since| tick.saturating_sub(since));
        let whole = cwnd >= grows && self.measured >= cwnd - grows;
        if !whole || took.is_some_and(|took| took < least) {
            return;
        }
        let now = took.map_or(0, |took| u64::from(self.measured) * self.hz / took.max(1));
        let just_reduced = tick.saturating_sub(self.congestion) / least.max(1) <= 3;
        if just_reduced {
            self.bandwidth = now;
            self.max_bandwidth = now;
        } else {
            self.bandwidth = (3 * self.bandwidth + now) / 4;
            self.max_bandwidth = self.max_bandwidth.max(self.bandwidth);
        }
        self.measured = 0;
        self.since = Some(tick);
    }

    fn update_beta(&mut self) {
        let (now, before) = (self.max_bandwidth, self.max_bandwidth_before);
        if self.bandwidth_switch {
            self.max_bandwidth_before = now;
            if 5 * now < 4 * before || 5 * now > 6 * before {
                self.beta = BETA_LEAST;
                self.settled = false;
                return;
            }
        }
        match self.min_rtt {
            Some(least) if self.settled && least > self.ticks_of(SHORT) && self.max_rtt > 0 => {
                let ratio = least * u64::from(UNIT) / self.max_rtt;
                self.beta = ratio.clamp(u64::from(BETA_LEAST), u64::from(BETA_MOST)) as u32;
            }
            _ => {
                self.beta = BETA_LEAST;
                self.settled = true;
            }
        }
    }

    fn update_alpha(&mut self, tick: u64) {
        let mut factor = 1;
        let late = tick.saturating_sub(self.congestion).saturating_sub(self.hz);
        if late > 0 {
            factor = 1 + (10 * late + (late / 2) * (late / 2) / self.hz) / self.hz;
        }
        if let Some(least) = self.min_rtt.filter(|_| self.rtt_scaling) {
            // 100 ms over the minimum round trip, from a half to ten, in eighths.
            let scale = (8 * self.hz / (SCALE_TENTHS * least.max(1))).clamp(4, 80);
            factor = (8 * factor / scale).max(1);
        }
        let alpha = 2 * factor * u64::from(UNIT - self.beta);
        self.alpha = alpha.min(u64::from(u32::MAX)) as u32;
    }
}

impl CongestionControl for Htcp {
    fn on_start(&mut self, _w: &mut Window, ev: &Start) {
        self.congestion = self.ticks.at(ev.now);
    }

    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        if ev.state == State::Open {
            self.packets = ev.acked;
        }
        if let Some(rtt) = ev.rtt.filter(|rtt| rtt.as_us() > 0) {
            self.measure_rtt(self.ticks_of(rtt), ev.state);
        }
        if self.bandwidth_switch {
            self.measure_bandwidth(self.ticks.at(ev.now), w.cwnd, ev.acked, ev.state);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            slow_start(w, ev.delivered);
            return;
        }
        if (u64::from(w.cwnd_cnt) * u64::from(self.alpha)) / u64::from(UNIT) >= u64::from(w.cwnd) {
            w.cwnd = w.cwnd.saturating_add(u32::from(w.cwnd < w.clamp));
            w.cwnd_cnt = 0;
            self.update_alpha(self.ticks.at(ev.now));
        } else {
            w.cwnd_cnt = w.cwnd_cnt.saturating_add(self.packets);
        }
        self.packets = 1;
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        self.update_beta();
        self.update_alpha(self.ticks.at(ev.now));
        if let Some(least) = self.min_rtt.filter(|&least| self.max_rtt > least) {
            self.max_rtt = least + (self.max_rtt - least) * 95 / 100;
        }
        w.ssthresh = ((u64::from(w.cwnd) * u64::from(self.beta) / u64::from(UNIT)) as u32).max(2);
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        let tick = self.ticks.at(ev.now);
        match ev.to {
            State::Open => {
                if self.before.take().is_some() {
                    self.congestion = tick;
                }
            }
            State::Disorder => {}
            State::Cwr | State::Recovery | State::Loss => {
                self.before = Some(Before {
                    congestion: self.congestion,
                    max_rtt: self.max_rtt,
                    max_bandwidth_before: self.max_bandwidth_before,
                });
                self.congestion = tick;
            }
        }
    }

    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        if let Some(before) = self.before.take() {
            self.congestion = before.congestion;
            self.max_rtt = before.max_rtt;
            self.max_bandwidth_before = before.max_bandwidth_before;
        }
        w.cwnd = w.cwnd.max(ev.prior_cwnd);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("alpha", f64::from(self.alpha) / f64::from(UNIT));
        visit("beta", f64::from(self.beta) / f64::from(UNIT));
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "htcp",
    help: "grows faster with the time since the last congestion; the reduction depends on the \
        queue",
    source: "Leith, Shorten 2004; draft-leith-tcp-htcp-06; Linux 6.12",
    family: Family::Loss,
    year: 2004,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Htcp::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn htcp() -> Htcp {
        Htcp::new(&Params::defaults(PARAMS), &Host::default())
    }
    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }
    /// An ACK at `ms` for `acked` packets that took `rtt` ms.
    fn sample(c: &mut Htcp, ms: u64, acked: u32, rtt: u64, state: State, cwnd: u32) {
        let mut ev = Sample::at(at(ms));
        (ev.acked, ev.rtt, ev.state) = (acked, Some(Span::ms(rtt)), state);
        c.on_sample(&mut Window::new(cwnd), &ev);
    }
    fn state(c: &mut Htcp, ms: u64, to: State) {
        let mut ev = StateChange::at(at(ms));
        ev.to = to;
        c.on_state(&mut Window::new(10), &ev);
    }
    fn threshold(c: &mut Htcp, ms: u64, cwnd: u32) -> u32 {
        let mut w = Window::new(cwnd);
        c.on_loss(&mut w, &Loss::at(at(ms)));
        w.ssthresh
    }

    /// f(1) = 1, f(2) = 11.25, f(3) = 22, f(11) = 126, rounded down; α = 2 (1 − 0.5) f.
    #[test]
    fn alpha_grows_with_the_square_of_the_time_since_congestion() {
        let mut c = htcp();
        c.min_rtt = Some(100);
        let alpha = [500, 1000, 2000, 3000, 11_000].map(|tick| {
            c.update_alpha(tick);
            c.alpha / UNIT
        });
        assert_eq!(alpha, [1, 1, 11, 22, 126]);
    }

    #[test]
    fn alpha_is_scaled_by_the_round_trip_from_a_tenth_to_twice() {
        let alpha = |ms, scaling| {
            let mut c = htcp();
            (c.min_rtt, c.rtt_scaling) = (Some(ms), scaling);
            c.update_alpha(11_000);
            c.alpha / UNIT
        };
        assert_eq!(
            [1, 10, 40, 100, 200, 1000].map(|ms| alpha(ms, true)),
            [12, 12, 50, 126, 252, 252]
        );
        assert_eq!(alpha(40, false), 126);
        // Never below one.
        let mut c = htcp();
        c.min_rtt = Some(10);
        c.update_alpha(500);
        assert_eq!(c.alpha, UNIT);
    }

    #[test]
    fn the_window_grows_by_alpha_per_window_acknowledged() {
        let mut c = htcp();
        (c.alpha, c.packets) = (4 * UNIT, 2);
        let mut w = Window::new(40);
        w.ssthresh = 20;
        // 2 packets and then one by one, because no new ACK changes it: ten are a quarter of the
        // window.
        for _ in 0..9 {
            c.on_ack(&mut w, &Ack::at(at(1)));
        }
        assert_eq!((w.cwnd, w.cwnd_cnt), (40, 10));
        c.on_ack(&mut w, &Ack::at(at(1)));
        assert_eq!((w.cwnd, w.cwnd_cnt), (41, 0));
    }

    #[test]
    fn acknowledged_packets_count_only_in_the_open_state() {
        let mut c = htcp();
        sample(&mut c, 1, 5, 40, State::Disorder, 10);
        assert_eq!(c.packets, 1);
        sample(&mut c, 2, 5, 40, State::Open, 10);
        assert_eq!(c.packets, 5);
    }

    /// The first congestion event leaves half of the window, with any queue; the second leaves
    /// 40/60 of the window, 85/128.
    #[test]
    fn beta_is_the_ratio_of_round_trips() {
        let mut c = htcp();
        for rtt in [40, 60] {
            sample(&mut c, 1, 1, rtt, State::Open, 1000);
        }
        assert_eq!(threshold(&mut c, 2, 128), 64);
        c.max_rtt = 60;
        assert_eq!(threshold(&mut c, 3, 128), 85);
        c.max_rtt = 400;
        assert_eq!(threshold(&mut c, 4, 128), 64);
        c.max_rtt = 41;
        assert_eq!(threshold(&mut c, 5, 128), 102);
        assert_eq!(threshold(&mut c, 5, 2), 2);
    }

    #[test]
    fn the_queue_is_not_estimated_from_rtts_of_10_ms() {
        let beta = |rtt| {
            let mut c = htcp();
            (c.min_rtt, c.max_rtt, c.settled) = (Some(rtt), rtt, true);
            threshold(&mut c, 1, 128)
        };
        assert_eq!([10, 11].map(beta), [64, 102]);
    }

    /// A change of the throughput by up to 20 % counts as none; a larger one sets β = 0.5.
    #[test]
    fn where_the_throughput_has_changed_half_is_taken() {
        let beta = |now, switch| {
            let mut c = htcp();
            (c.min_rtt, c.max_rtt, c.settled, c.bandwidth_switch) = (Some(40), 50, true, switch);
            (c.max_bandwidth_before, c.max_bandwidth) = (1000, now);
            threshold(&mut c, 1, 128)
        };
        assert_eq!(
            [799, 800, 1200, 1201].map(|now| beta(now, true)),
            [64, 102, 102, 64]
        );
        assert_eq!(beta(2000, false), 102);
    }

    #[test]
    fn the_greatest_round_trip_grows_in_open_by_20_ms_at_most_and_fades() {
        let mut c = htcp();
        let mut seen = |rtt, state| {
            sample(&mut c, 1, 1, rtt, state, 1000);
            c.max_rtt
        };
        assert_eq!(seen(40, State::Open), 40);
        assert_eq!(seen(50, State::Recovery), 40);
        assert_eq!(seen(61, State::Open), 40);
        assert_eq!(seen(60, State::Open), 60);
        threshold(&mut c, 2, 100);
        assert_eq!(c.max_rtt, 59);
    }

    /// Windows of 100 packets that take 100 ms: 1000 packets per second. Within three round trips
    /// of a congestion event a measurement replaces the estimate; later it has a weight of a
    /// quarter.
    #[test]
    fn bandwidth_is_a_window_over_its_time() {
        let mut c = htcp();
        sample(&mut c, 1, 100, 100, State::Open, 100);
        assert_eq!((c.bandwidth, c.since), (0, Some(1)));
        sample(&mut c, 51, 50, 100, State::Open, 100);
        sample(&mut c, 101, 50, 100, State::Open, 100);
        assert_eq!((c.bandwidth, c.max_bandwidth), (1000, 1000));
        sample(&mut c, 601, 1000, 100, State::Open, 100);
        assert_eq!(
            (c.bandwidth, c.max_bandwidth),
            ((3 * 1000 + 2000) / 4, 1250)
        );
        sample(&mut c, 650, 500, 100, State::Recovery, 100);
        assert_eq!((c.measured, c.since), (0, Some(650)));
    }

    #[test]
    fn time_counts_from_the_end_of_a_congestion() {
        let mut c = htcp();
        state(&mut c, 500, State::Recovery);
        assert_eq!(c.congestion, 500);
        state(&mut c, 700, State::Open);
        assert_eq!(c.congestion, 700);
        state(&mut c, 900, State::Disorder);
        state(&mut c, 950, State::Open);
        assert_eq!(c.congestion, 700);
    }

    #[test]
    fn a_congestion_that_was_none_never_was() {
        let mut c = htcp();
        (c.congestion, c.max_bandwidth) = (100, 7);
        for rtt in [40, 60] {
            sample(&mut c, 1, 1, rtt, State::Open, 1000);
        }
        c.on_loss(&mut Window::new(100), &Loss::at(at(500)));
        state(&mut c, 500, State::Recovery);
        let faded = c.max_rtt;
        c.max_rtt = 30;
        let mut w = Window::new(50);
        let mut ev = SpuriousLoss::at(at(600));
        ev.prior_cwnd = 100;
        c.on_spurious_loss(&mut w, &ev);
        state(&mut c, 600, State::Open);
        assert_eq!((w.cwnd, c.congestion, c.max_rtt), (100, 100, faded));
    }
}
