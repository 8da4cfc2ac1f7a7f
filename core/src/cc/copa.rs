//! Copa: keeps a few packets per flow in the queue, by moving towards a target rate that follows
//! the delay.
//!
//! Algorithm: `standing` is the minimum RTT over the last half of the smoothed RTT. `least` is the
//! minimum RTT of the last 10 s, and `dq = standing − least` is the queueing delay.
//! - per packet acknowledged `cwnd += v/(δ cwnd)` if `cwnd/standing ≤ 1/(δ dq)`, otherwise
//!   `cwnd −= v/(δ cwnd)`; `δ = 0.5`;
//! - `v` is 1 at first. It doubles at the end of each round trip that is at least the third one in
//!   which the window moved in the same direction. A change of direction resets it to 1;
//! - slow start doubles per round trip until the first `cwnd/standing > 1/(δ dq)`; the pacing rate
//!   is `2 cwnd/standing`;
//! - the queue is nearly empty if `dq < 0.1 (max − least)`, where `max` is the maximum RTT of the
//!   last 4 round trips. After 5 round trips in which the queue was never nearly empty, the mode is
//!   competitive, until the queue is nearly empty again. In this mode, `1/δ` grows by 1 per round
//!   trip without loss and is halved on loss, never below 2. In the default mode a loss has no
//!   effect.
//!
//! In the steady state, the sender detects one round trip late that the window exceeds its target,
//! and then reduces the window. The queue oscillates between nothing and 2.5/δ packets per flow,
//! with a period of 5 round trips. A queue that is regularly empty indicates that all competing
//! flows use Copa.
//!
//! Sources: Arun, Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet",
//! NSDI 2018. Choices where the paper is open:
//! - when `v > 1` and an ACK requires the other direction, `v` is 1 at once. If `v` were reset at
//!   the end of the round trip only, the oscillation would be larger;
//! - `v/δ` is at most `cwnd`, so that the window never grows faster than in slow start;
//! - a queue with less than one packet of the flow counts as empty, too. The paper models the queue
//!   as a fluid. Real flows send whole packets, which are acknowledged in pairs, so the last packet
//!   rarely leaves the queue. A tenth of an oscillation of five packets is only half a packet.
//!   Without this rule, flows of Copa alone would enter the competitive mode;
//! - packets leave one by one, as those of the paper's sender do;
//! - a window that is not used up does not grow, but may decrease; a timeout restarts slow start.

use super::reno::slow_start;
use super::{Ack, CcKind, CongestionControl, Family, Host, Loss, Need, Rto, Sample, Start, Window};
use crate::param::{Kind, Param, Params};
use crate::units::{Rate, Span, Time};
use crate::windowed::{WindowedMax, WindowedMin};
use alloc::boxed::Box;

/// Minimum window, packets.
const LEAST: f64 = 2.0;
/// The velocity doubles from this round trip in the same direction on.
const STEADY: u32 = 3;
/// Number of round trips over which the maximum RTT is taken.
const GREATEST_OF: u64 = 4;
/// Round trips without a nearly empty queue that indicate competing flows.
const PATIENCE: u64 = 5;
/// The queue is nearly empty if its delay is below this share of the range of RTTs.
const NEARLY: f64 = 0.1;
/// The queue also counts as empty if it contains fewer packets of this flow than this number.
const WHOLE: f64 = 1.0;
/// Pacing rate, as a multiple of the window per round trip.
const PACING_GAIN: f64 = 2.0;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "delta",
        kind: Kind::Number(0.5, 0.001, 100.0),
        help: "weight of delay against rate: the target of a flow is 1/delta packets in the queue",
        source: "Copa (NSDI 2018) section 2.2: 0.5",
    },
    Param {
        name: "min_rtt_window",
        kind: Kind::Span(Span::s(10), Span::ms(1), Span::s(86_400)),
        help: "time for which a minimum RTT is valid",
        source: "Copa (NSDI 2018) section 2.1: 10 s",
    },
    Param {
        name: "competitive",
        kind: Kind::Bool(true),
        help: "compete with flows that keep the queue full",
        source: "Copa (NSDI 2018) section 2.2",
    },
];

/// Direction in which the window moves.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Direction {
    Up,
    Down,
}

/// The state of Copa.
#[derive(Clone, Debug)]
pub struct Copa {
    /// δ of the default mode.
    delta: f64,
    min_rtt_window: Span,
    may_compete: bool,

    slow_start: bool,
    /// Fraction of a packet by which the window exceeds `Window::cwnd`.
    part: f64,
    /// `v`, the multiple of the step size.
    velocity: f64,
    direction: Option<Direction>,
    /// Number of successive round trips in this direction, including the last one.
    steady: u32,
    /// The window at the start of the round trip, in packets.
    began_with: f64,
    /// The round trip ends when every byte below this one is acknowledged.
    round_ends: u64,

    /// 1/δ in competitive mode; `None` in the default mode.
    competing: Option<f64>,
    lost: bool,
    seen_empty: Option<Time>,

    srtt: Span,
    least: WindowedMin,
    standing: WindowedMin,
    greatest: WindowedMax,
    /// Payload of a full segment, in bytes.
    mss: u32,
}

impl Copa {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Copa {
        Copa {
            mss: host.mss,
            delta: params.number("delta"),
            min_rtt_window: params.span("min_rtt_window"),
            may_compete: params.bool("competitive"),
            slow_start: true,
            part: 0.0,
            velocity: 1.0,
            direction: None,
            steady: 0,
            began_with: 0.0,
            round_ends: 0,
            competing: None,
            lost: false,
            seen_empty: None,
            srtt: Span::ZERO,
            least: WindowedMin::default(),
            standing: WindowedMin::default(),
            greatest: WindowedMax::default(),
        }
    }

    fn delta(&self) -> f64 {
        self.competing.map_or(self.delta, |packets| 1.0 / packets)
    }

    /// The RTTs `standing` and `dq` of the module header, in seconds.
    fn delays(&self) -> Option<(f64, f64)> {
        let (standing, least) = (self.standing.get()?, self.least.get()?);
        Some((
            Span::ns(standing).as_s(),
            Span::ns(standing.saturating_sub(least)).as_s(),
        ))
    }

    fn pace(&self, w: &mut Window, rtt: f64) {
        let bits = PACING_GAIN * f64::from(w.cwnd) * f64::from(self.mss) * 8.0 / rtt.max(1e-9);
        w.pacing = Some(Rate::bit(bits as u64));
        (w.min_burst, w.max_burst) = (1, 1);
    }

    /// Chooses the mode: competitive if other flows keep the queue full. `queue` is the queueing
    /// delay in seconds, `own` the number of this flow's packets in the queue.
    fn choose_mode(&mut self, now: Time, queue: f64, own: f64) {
        let greatest = self.greatest.get().unwrap_or(0);
        let swing = Span::ns(greatest.saturating_sub(self.least.get().unwrap_or(0))).as_s();
        let seen = self.seen_empty.get_or_insert(now);
        if queue < NEARLY * swing || own < WHOLE {
            *seen = now;
        }
        let full = now.since(*seen).as_ns() > PATIENCE * self.srtt.as_ns();
        if !full || !self.may_compete {
            self.competing = None;
        } else if self.competing.is_none() {
            self.competing = Some(1.0 / self.delta);
        }
    }

    /// Handles the end of a round trip: updates `1/δ` in competitive mode, and the velocity.
    fn end_round(&mut self, cwnd: f64) {
        if let Some(packets) = self.competing.as_mut().filter(|_| !self.lost) {
            *packets += 1.0;
        }
        self.lost = false;
        let direction = if cwnd > self.began_with {
            Direction::Up
        } else {
            Direction::Down
        };
        if self.direction == Some(direction) {
            self.steady = self.steady.saturating_add(1);
        } else {
            (self.direction, self.steady) = (Some(direction), 1);
        }
        self.velocity = if self.steady >= STEADY {
            self.velocity * 2.0
        } else {
            1.0
        };
        self.began_with = cwnd;
    }

    /// Moves the window towards the target, after `packets` packets were acknowledged.
    fn step(&mut self, w: &mut Window, direction: Direction, packets: u32) {
        if self.velocity > 1.0 && self.direction.is_some_and(|was| was != direction) {
            (self.velocity, self.steady) = (1.0, 0);
        }
        let cwnd = f64::from(w.cwnd) + self.part;
        self.velocity = self.velocity.min((cwnd * self.delta()).max(1.0));
        let step = f64::from(packets) * (self.velocity / (self.delta() * cwnd)).min(1.0);
        let cwnd = match direction {
            Direction::Up => cwnd + step,
            Direction::Down => (cwnd - step).max(LEAST),
        };
        w.cwnd = (cwnd as u32).min(w.clamp);
        self.part = (cwnd - f64::from(w.cwnd)).min(1.0);
    }
}

impl CongestionControl for Copa {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        if ev.srtt > Span::ZERO {
            self.pace(w, ev.srtt.as_s());
        }
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt = Span::us(ev.srtt8_us / 8);
        if let Some(rtt) = ev.rtt {
            let (rtt, now, srtt) = (rtt.as_ns(), ev.now.as_ns(), self.srtt.as_ns());
            self.least.update(rtt, now, self.min_rtt_window.as_ns());
            self.standing.update(rtt, now, srtt / 2);
            self.greatest.update(rtt, now, GREATEST_OF * srtt);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let Some((standing, queue)) = self.delays() else {
            return;
        };
        let cwnd = f64::from(w.cwnd) + self.part;
        self.choose_mode(ev.now, queue, cwnd * queue / standing);
        if ev.una >= self.round_ends {
            self.round_ends = ev.nxt;
            self.end_round(cwnd);
        }
        let direction = if cwnd * self.delta() * queue <= standing {
            Direction::Up
        } else {
            Direction::Down
        };
        if self.slow_start && direction == Direction::Down {
            self.slow_start = false;
            (self.velocity, self.direction, self.steady) = (1.0, None, 0);
        }
        if direction == Direction::Down || ev.cwnd_limited {
            if self.slow_start {
                slow_start(w, ev.delivered);
            } else {
                self.step(w, direction, ev.delivered);
            }
        }
        self.pace(w, standing);
    }

    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {
        self.lost = true;
        if let Some(packets) = &mut self.competing {
            *packets = (*packets / 2.0).max(1.0 / self.delta);
        }
    }

    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {
        self.slow_start = true;
        self.part = 0.0;
    }

    fn in_slow_start(&self, _w: &Window) -> bool {
        self.slow_start
    }
    fn owns_recovery(&self) -> bool {
        true
    }
    fn needs_pacing(&self) -> bool {
        true
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("delta", self.delta());
        visit("velocity", self.velocity);
        visit(
            "queue_ms",
            self.delays().map_or(0.0, |(_, queue)| queue * 1000.0),
        );
        visit("competing", f64::from(u8::from(self.competing.is_some())));
    }

    fn mode(&self) -> Option<&'static str> {
        Some(if self.competing.is_some() {
            "competitive"
        } else {
            "default"
        })
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "copa",
    help: "moves its rate towards a target that decreases with the queueing delay, so that each \
        flow keeps a few packets in the queue",
    source: "Arun, Balakrishnan, NSDI 2018",
    family: Family::Delay,
    year: 2018,
    needs: &[Need::Pacing, Need::FineRtt],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Copa::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn copa() -> Copa {
        Copa {
            slow_start: false,
            round_ends: u64::MAX,
            ..Copa::new(&Params::defaults(PARAMS), &Host::default())
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }

    fn sample(c: &mut Copa, ms: u64, rtt: u64) {
        let mut ev = Sample::at(at(ms));
        ev.rtt = Some(Span::ms(rtt));
        ev.srtt8_us = 8 * 100_000;
        c.on_sample(&mut Window::new(1), &ev);
    }

    fn ack(c: &mut Copa, w: &mut Window, ms: u64, packets: u32) {
        let mut ev = Ack::at(at(ms));
        ev.delivered = packets;
        c.on_ack(w, &ev);
    }

    /// A flow with a minimum and a smoothed RTT of 100 ms, `standing` ms and a window of `cwnd`.
    fn with_queue(standing: u64, cwnd: u32) -> (Copa, Window) {
        let mut c = copa();
        sample(&mut c, 0, 100);
        sample(&mut c, 100, standing);
        assert_eq!(c.standing.get(), Some(standing * 1_000_000));
        (c, Window::new(cwnd))
    }

    /// With 10 packets and a queue of 20 ms, the rate is 83 packets/s and the target 100 packets/s.
    /// At 25 ms both are 80 packets/s, at 26 ms the target is less than the rate.
    #[test]
    fn the_window_moves_towards_the_target() {
        for (standing, up) in [(120, true), (125, true), (126, false)] {
            let (mut c, mut w) = with_queue(standing, 10);
            ack(&mut c, &mut w, 100, 1);
            let cwnd = f64::from(w.cwnd) + c.part;
            // 1/(0.5 · 10) of a packet.
            assert!(
                (cwnd - if up { 10.2 } else { 9.8 }).abs() < 1e-9,
                "{standing} {cwnd}"
            );
        }
    }

    #[test]
    fn a_window_that_is_not_used_shrinks_but_does_not_grow() {
        for (standing, left) in [(120, 10.0), (150, 9.8)] {
            let (mut c, mut w) = with_queue(standing, 10);
            let mut ev = Ack::at(at(100));
            (ev.delivered, ev.cwnd_limited) = (1, false);
            c.on_ack(&mut w, &ev);
            assert!((f64::from(w.cwnd) + c.part - left).abs() < 1e-9);
        }
    }

    #[test]
    fn the_standing_round_trip_is_the_least_of_half_a_smoothed_one() {
        let mut c = copa();
        sample(&mut c, 0, 100);
        sample(&mut c, 40, 140);
        assert_eq!(c.standing.get(), Some(100_000_000));
        sample(&mut c, 55, 140);
        assert_eq!(c.standing.get(), Some(140_000_000));
        assert_eq!(c.least.get(), Some(100_000_000));
        // The minimum expires after 10 s.
        (100..=10_100)
            .step_by(50)
            .for_each(|ms| sample(&mut c, ms, 130));
        assert_eq!(c.least.get(), Some(130_000_000));
    }

    /// Each ACK ends a round trip and increases the window by 0.02 packets times the velocity.
    #[test]
    fn the_velocity_doubles_from_the_third_round_trip_on() {
        let (mut c, mut w) = with_queue(101, 100);
        c.began_with = 99.0;
        let mut seen = Vec::new();
        for _ in 0..5 {
            c.round_ends = 0;
            ack(&mut c, &mut w, 100, 1);
            seen.push(c.velocity);
        }
        assert_eq!(seen, [1.0, 1.0, 2.0, 4.0, 8.0]);
        // It turns: the window was larger at the begin of the round trip.
        c.end_round(90.0);
        assert_eq!((c.velocity, c.direction), (1.0, Some(Direction::Down)));
    }

    #[test]
    fn a_turn_within_a_round_trip_ends_the_velocity_at_once() {
        let (mut c, mut w) = with_queue(200, 100);
        (c.velocity, c.direction, c.steady) = (8.0, Some(Direction::Up), 5);
        ack(&mut c, &mut w, 100, 1);
        assert_eq!((c.velocity, c.steady), (1.0, 0));
        assert!((f64::from(w.cwnd) + c.part - 99.98).abs() < 1e-9);
    }

    #[test]
    fn no_velocity_is_faster_than_slow_start() {
        let (mut c, mut w) = with_queue(101, 20);
        (c.velocity, c.direction) = (1024.0, Some(Direction::Up));
        ack(&mut c, &mut w, 100, 4);
        assert_eq!((w.cwnd, c.velocity), (24, 10.0));
    }

    #[test]
    fn slow_start_doubles_until_the_target_is_passed() {
        let (mut c, mut w) = with_queue(110, 10);
        c.slow_start = true;
        ack(&mut c, &mut w, 100, 10);
        assert_eq!(w.cwnd, 20);
        // 1/(0.5 · 10 ms) are 200/s; 22 packets in 110 ms are equal, 23 are more.
        ack(&mut c, &mut w, 100, 3);
        assert!(w.cwnd == 23 && c.slow_start);
        ack(&mut c, &mut w, 100, 1);
        assert!(w.cwnd == 22 && !c.slow_start);
    }

    /// The pacing rate is twice that of 100 packets of 1448 bytes in 120 ms.
    #[test]
    fn packets_leave_twice_as_fast_as_the_window_passes() {
        let (mut c, mut w) = with_queue(120, 100);
        ack(&mut c, &mut w, 100, 0);
        assert_eq!(w.pacing, Some(Rate::bit(19_306_666)));
        assert_eq!((w.min_burst, w.max_burst), (1, 1));
    }

    #[test]
    fn without_an_empty_queue_for_five_round_trips_it_competes() {
        let (mut c, mut w) = with_queue(150, 100);
        // The oscillation is 50 ms, the queue never below 5.
        for ms in (100..=600).step_by(10) {
            sample(&mut c, ms, 150);
            ack(&mut c, &mut w, ms, 0);
            assert_eq!(c.competing, None, "{ms}");
        }
        sample(&mut c, 610, 150);
        ack(&mut c, &mut w, 610, 0);
        assert_eq!(c.competing, Some(2.0));
        // Nearly empty: 4 ms of 50.
        sample(&mut c, 620, 104);
        ack(&mut c, &mut w, 620, 0);
        assert_eq!((c.competing, c.delta()), (None, 0.5));
    }

    /// A delay of 2 ms is more than a tenth of a range of 10 ms. With a window of 50 packets, a
    /// queue of 2 ms contains less than one packet of the flow; with 60 packets it contains more.
    #[test]
    fn a_queue_without_a_packet_of_its_own_is_empty() {
        for (cwnd, competing) in [(50, None), (60, Some(2.0))] {
            let mut c = copa();
            c.seen_empty = Some(at(0));
            for (ms, rtt) in [(0, 100), (300, 110), (600, 102)] {
                sample(&mut c, ms, rtt);
            }
            ack(&mut c, &mut Window::new(cwnd), 600, 0);
            assert_eq!(c.competing, competing, "{cwnd}");
        }
    }

    #[test]
    fn a_swing_older_than_four_round_trips_does_not_count() {
        let mut c = copa();
        sample(&mut c, 0, 100);
        sample(&mut c, 10, 300);
        (20..=500)
            .step_by(20)
            .for_each(|ms| sample(&mut c, ms, 150));
        assert_eq!(c.greatest.get(), Some(150_000_000));
    }

    #[test]
    fn competing_it_grows_by_one_and_halves_on_loss() {
        let (mut c, mut w) = with_queue(150, 100);
        c.competing = Some(5.0);
        c.end_round(100.0);
        assert_eq!((c.competing, c.delta()), (Some(6.0), 1.0 / 6.0));
        c.on_loss(&mut w, &Loss::at(at(0)));
        assert_eq!(c.competing, Some(3.0));
        c.end_round(100.0);
        assert_eq!(c.competing, Some(3.0), "not in a round trip with a loss");
        c.on_loss(&mut w, &Loss::at(at(0)));
        assert_eq!(
            c.competing,
            Some(2.0),
            "never gentler than in the default mode"
        );
        assert_eq!(w.cwnd, 100);
    }

    #[test]
    fn by_default_losses_are_ignored_and_a_timeout_resets() {
        let (mut c, mut w) = with_queue(120, 100);
        c.on_loss(&mut w, &Loss::at(at(0)));
        assert_eq!((w.cwnd, c.delta()), (100, 0.5));
        c.on_rto(&mut w, &Rto::at(at(0)));
        assert!(c.slow_start);
    }
}
