//! LEDBAT++: background transfers that use spare capacity and yield to other flows, by delay.
//!
//! Algorithm, with `W` the congestion window in packets, `base` the minimum RTT of the last ten
//! minutes, `delay` the current RTT minus `base`, and `GAIN = 1/min(16, ⌈2 · 60 ms/base⌉)`:
//! - the first slow start: `W += GAIN` per packet acknowledged, from 2 packets, until `delay > ¾ ·
//!   60 ms`;
//! - congestion avoidance: while `delay ≤ 60 ms`, `W += GAIN` per round trip. Otherwise, once per
//!   round trip, `W += max(GAIN − W (delay/60 ms − 1), −W/2)`, and `ssthresh` is lowered to `W`, so
//!   that slow start does not undo the decrease. A loss halves the window;
//! - slowdown: `W = 2` for two round trips. Then slow start, with any delay, restores the window
//!   before the slowdown. The first slowdown begins 2 round trips after the first slow start. The
//!   time from the end of a slowdown to the next one is nine times the duration of the slowdown.
//!
//! Slowdowns empty the queue, so every flow measures the RTT of the path without the queue. Flows
//! that start late therefore measure the same minimum RTT as older flows, and have the same target.
//!
//! Sources: draft-irtf-iccrg-ledbat-plus-plus-01 (2020); RFC 6817 for the filters. Choices where
//! these documents are open:
//! - the current RTT is the minimum of the last four samples (RFC 6817's CURRENT_FILTER), which
//!   excludes delayed ACKs. For a burst, this minimum is the RTT of its first packets, so a flow
//!   with larger bursts measures less delay (`docs/reference/cc/ledbat.md`);
//! - the slow start out of a slowdown grows by GAIN, too, because its duration determines the time
//!   to the next slowdown;
//! - a loss ends the first slow start, as a delay does. A loss while a slowdown keeps `W = 2`
//!   halves the window that is restored. A loss during the slow start out of a slowdown halves the
//!   present window and ends the slowdown. A timeout ends a slowdown.

use super::{
    Ack, CcKind, CongestionControl, Family, INFINITE_SSTHRESH, Loss, Reduced, Rto, Sample,
    SpuriousLoss, Start, Window,
};
use crate::param::{Kind, Param, Params};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// The window at the start and in slowdowns, and its minimum, in packets.
const LEAST: u32 = 2;
/// The first slow start ends when the delay exceeds this share of the target.
const ENOUGH: f64 = 0.75;
/// Round trips of a slowdown at the minimum window, and between slow start and the first slowdown.
const ROUND_TRIPS: u64 = 2;
/// The current RTT is the minimum of this number of samples.
const FILTER: usize = 4;
/// Number of minutes whose minimum RTTs are stored, including the present minute.
const HISTORY: usize = 10;
const MINUTE: u64 = 60_000_000_000;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "target",
        kind: Kind::Span(Span::ms(60), Span::us(10), Span::s(10)),
        help: "target of the queueing delay",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01 section 4.5: 60 ms",
    },
    Param {
        name: "gain_divisor",
        kind: Kind::Count(16, 1, 1000),
        help: "the smallest gain is one packet per RTT divided by this",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01 section 4.2: 16",
    },
    Param {
        name: "decrease",
        kind: Kind::Number(1.0, 0.0, 16.0),
        help: "factor of the reduction per RTT, which is factor × window × (queueing delay - \
         target) / target",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01 section 4.3: Constant, 1",
    },
    Param {
        name: "slowdown_interval",
        kind: Kind::Count(9, 0, 1000),
        help: "time between two slowdowns as a multiple of the duration of the last one; 0 \
            disables slowdowns",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01 section 4.4: 9",
    },
];

/// The minimum RTT of each of the last ten minutes.
#[derive(Clone, Debug, Default)]
struct Base {
    least: [Option<Span>; HISTORY],
    /// The number of the minute of the newest sample, from the start of the clock.
    minute: u64,
}

impl Base {
    fn update(&mut self, now: Time, rtt: Span) {
        let minute = now.as_ns() / MINUTE;
        for gone in (self.minute + 1..=minute).take(HISTORY) {
            self.least[gone as usize % HISTORY] = None;
        }
        self.minute = minute;
        let slot = &mut self.least[minute as usize % HISTORY];
        *slot = Some(slot.map_or(rtt, |least| least.min(rtt)));
    }
    fn get(&self) -> Option<Span> {
        self.least.iter().flatten().min().copied()
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// The first slow start.
    Start,
    /// Congestion avoidance. The next slowdown begins at `due`; `None` if slowdowns are disabled.
    Avoidance { due: Option<Time> },
    /// A slowdown that began at `since`: the window is at its minimum until `until`.
    Held { since: Time, until: Time },
    /// A slowdown that began at `since`: the window grows by slow start to the threshold.
    Return { since: Time },
}

/// The state of LEDBAT++.
#[derive(Clone, Debug)]
pub struct Ledbat {
    target: Span,
    gain_divisor: u64,
    decrease: f64,
    slowdown_interval: u64,

    phase: Phase,
    base: Base,
    /// The newest RTT samples, in a ring.
    recent: [Option<Span>; FILTER],
    newest: usize,
    srtt: Span,
    /// Fraction of a packet by which the window exceeds `Window::cwnd`.
    owed: f64,
    /// The round trip ends when every byte below this one is acknowledged.
    round_ends: u64,
}

impl Ledbat {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Ledbat {
        Ledbat {
            target: params.span("target"),
            gain_divisor: params.count("gain_divisor").max(1),
            decrease: params.number("decrease"),
            slowdown_interval: params.count("slowdown_interval"),
            phase: Phase::Start,
            base: Base::default(),
            recent: [None; FILTER],
            newest: 0,
            srtt: Span::ZERO,
            owed: 0.0,
            round_ends: 0,
        }
    }

    /// GAIN: growth in packets, per packet acknowledged in slow start and per round trip in
    /// congestion avoidance.
    fn gain(&self) -> f64 {
        let base = self.base.get().map_or(1, |base| base.as_ns().max(1));
        let divisor = (2 * self.target.as_ns())
            .div_ceil(base)
            .clamp(1, self.gain_divisor);
        1.0 / divisor as f64
    }

    /// Returns the queueing delay.
    fn delay(&self) -> Span {
        let now = self.recent.iter().flatten().min().copied();
        now.unwrap_or(Span::ZERO) - self.base.get().unwrap_or(Span::ZERO)
    }

    /// Excess of the queueing delay over the target, as a share of the target. It is negative if
    /// the delay is below the target.
    fn excess(&self) -> f64 {
        self.delay().as_s() / self.target.as_s() - 1.0
    }

    /// Changes the window by `packets`. Whole packets change `Window::cwnd`; the fraction is kept.
    fn move_by(&mut self, w: &mut Window, packets: f64) {
        let cwnd = (f64::from(w.cwnd) + self.owed + packets).max(f64::from(LEAST));
        w.cwnd = (cwnd as u32).min(w.clamp);
        self.owed = (cwnd - f64::from(w.cwnd)).min(1.0);
    }

    fn round_trips(&self) -> Span {
        Span::ns(self.srtt.as_ns().saturating_mul(ROUND_TRIPS))
    }

    fn end_start(&mut self, now: Time) {
        let due = (self.slowdown_interval > 0).then(|| now + self.round_trips());
        self.phase = Phase::Avoidance { due };
    }

    fn end_slowdown(&mut self, now: Time, since: Time) {
        let wait = now
            .since(since)
            .as_ns()
            .saturating_mul(self.slowdown_interval);
        self.phase = Phase::Avoidance {
            due: Some(now + Span::ns(wait)),
        };
    }

    /// Enters the next phase if its time or delay is reached. During a slowdown, keeps the window
    /// at its minimum.
    fn advance(&mut self, w: &mut Window, now: Time) {
        match self.phase {
            Phase::Start if self.excess() > ENOUGH - 1.0 => {
                w.ssthresh = w.cwnd;
                self.end_start(now);
            }
            Phase::Avoidance { due: Some(due) } if due <= now => {
                w.ssthresh = w.cwnd.max(LEAST);
                self.owed = 0.0;
                self.phase = Phase::Held {
                    since: now,
                    until: now + self.round_trips(),
                };
            }
            Phase::Held { since, until } if until <= now => self.phase = Phase::Return { since },
            Phase::Return { since } if w.cwnd >= w.ssthresh => self.end_slowdown(now, since),
            _ => {}
        }
        if matches!(self.phase, Phase::Held { .. }) {
            w.cwnd = LEAST;
        }
    }

    fn avoid(&mut self, w: &mut Window, ev: &Ack) {
        let round_over = ev.una >= self.round_ends;
        if round_over {
            self.round_ends = ev.nxt;
        }
        let (excess, gain, cwnd) = (self.excess(), self.gain(), f64::from(w.cwnd.max(1)));
        if excess <= 0.0 {
            if ev.cwnd_limited {
                self.move_by(w, gain * f64::from(ev.delivered) / cwnd);
            }
        } else if round_over {
            self.move_by(w, (gain - self.decrease * cwnd * excess).max(-cwnd / 2.0));
            // A decrease is part of congestion avoidance. Otherwise the next ACK would start slow
            // start and undo it.
            w.ssthresh = w.ssthresh.min(w.cwnd);
        }
    }
}

impl CongestionControl for Ledbat {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        w.cwnd = w.cwnd.min(LEAST);
        w.ssthresh = INFINITE_SSTHRESH;
        self.srtt = ev.srtt;
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt = Span::us(ev.srtt8_us / 8);
        if let Some(rtt) = ev.rtt {
            self.base.update(ev.now, rtt);
            self.newest = (self.newest + 1) % FILTER;
            self.recent[self.newest] = Some(rtt);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        self.advance(w, ev.now);
        if !ev.may_grow {
            return;
        }
        match self.phase {
            Phase::Held { .. } => {}
            // Slow start, also after a timeout: up to the threshold, with any delay.
            _ if w.in_slow_start() => {
                if ev.cwnd_limited {
                    self.move_by(w, self.gain() * f64::from(ev.delivered));
                    w.cwnd = w.cwnd.min(w.ssthresh);
                }
            }
            _ => self.avoid(w, ev),
        }
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        let from = if matches!(self.phase, Phase::Held { .. }) {
            w.ssthresh
        } else {
            w.cwnd
        };
        w.ssthresh = (from / 2).max(LEAST);
        self.owed = 0.0;
        if self.phase == Phase::Start {
            self.end_start(ev.now);
        }
    }

    fn on_reduced(&mut self, w: &mut Window, _ev: &Reduced) {
        if matches!(self.phase, Phase::Held { .. }) {
            w.cwnd = LEAST;
        }
    }

    fn on_rto(&mut self, _w: &mut Window, ev: &Rto) {
        if let Phase::Held { since, .. } | Phase::Return { since } = self.phase {
            self.end_slowdown(ev.now, since);
        }
    }

    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        if !matches!(self.phase, Phase::Held { .. }) {
            w.cwnd = w.cwnd.max(ev.prior_cwnd);
        }
    }

    fn in_slow_start(&self, w: &Window) -> bool {
        w.in_slow_start() && !matches!(self.phase, Phase::Held { .. })
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("queue_ms", self.delay().as_ms());
        visit("base_ms", self.base.get().unwrap_or(Span::ZERO).as_ms());
        visit("gain", self.gain());
        let slowdown = matches!(self.phase, Phase::Held { .. } | Phase::Return { .. });
        visit("slowdown", f64::from(u8::from(slowdown)));
    }

    fn mode(&self) -> Option<&'static str> {
        Some(match self.phase {
            Phase::Start => "initial_slow_start",
            Phase::Avoidance { .. } => "congestion_avoidance",
            Phase::Held { .. } => "slowdown",
            Phase::Return { .. } => "slow_start",
        })
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "ledbat",
    help: "LEDBAT++, for background traffic: uses the capacity that others leave, with at most 60 \
        ms of queueing delay",
    source: "draft-irtf-iccrg-ledbat-plus-plus-01; RFC 6817",
    family: Family::Delay,
    year: 2019,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Ledbat::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn ledbat() -> Ledbat {
        Ledbat::new(&Params::defaults(PARAMS))
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }

    fn sample(l: &mut Ledbat, w: &mut Window, ms: u64, rtt: u64) {
        let mut ev = Sample::at(at(ms));
        ev.rtt = Some(Span::ms(rtt));
        ev.srtt8_us = rtt * 8000;
        l.on_sample(w, &ev);
    }

    /// `packets` acknowledged, without the end of a round trip.
    fn ack(l: &mut Ledbat, w: &mut Window, ms: u64, packets: u32) {
        let mut ev = Ack::at(at(ms));
        ev.delivered = packets;
        l.on_ack(w, &ev);
    }

    /// A flow in congestion avoidance with a minimum RTT of `base` ms and a queueing delay of
    /// `queue` ms. No slowdown is due.
    fn in_avoidance(base: u64, queue: u64, cwnd: u32) -> (Ledbat, Window) {
        let (mut l, mut w) = (ledbat(), Window::new(cwnd));
        w.ssthresh = LEAST;
        l.phase = Phase::Avoidance { due: None };
        l.round_ends = u64::MAX;
        sample(&mut l, &mut w, 0, base);
        for _ in 0..FILTER {
            sample(&mut l, &mut w, 0, base + queue);
        }
        (l, w)
    }

    /// Section 4.2: the gain is 1/⌈120/base⌉, at least 1/16 and at most 1.
    #[test]
    fn the_gain_is_smaller_the_shorter_the_path() {
        for (base, divisor) in [
            (1, 16.0),
            (7, 16.0),
            (8, 15.0),
            (20, 6.0),
            (50, 3.0),
            (119, 2.0),
            (120, 1.0),
            (300, 1.0),
        ] {
            let (l, _) = in_avoidance(base, 0, 10);
            assert_eq!(l.gain(), 1.0 / divisor, "{base}");
        }
    }

    #[test]
    fn it_starts_at_two_packets_and_slow_start_grows_by_the_gain() {
        let (mut l, mut w) = (ledbat(), Window::new(10));
        l.on_start(&mut w, &Start::at(Time::ZERO));
        assert_eq!(w.cwnd, 2);
        sample(&mut l, &mut w, 0, 50);
        ack(&mut l, &mut w, 0, 2);
        assert_eq!(w.cwnd, 2);
        ack(&mut l, &mut w, 0, 1);
        assert_eq!(w.cwnd, 3);
        ack(&mut l, &mut w, 0, 30);
        assert_eq!(w.cwnd, 13);
    }

    #[test]
    fn slow_start_ends_at_three_quarters_of_the_target() {
        let (mut l, mut w) = (ledbat(), Window::new(20));
        sample(&mut l, &mut w, 0, 50);
        for (queue, ends) in [(45, false), (46, true)] {
            for _ in 0..FILTER {
                sample(&mut l, &mut w, 100, 50 + queue);
            }
            ack(&mut l, &mut w, 100, 0);
            assert_eq!(l.phase != Phase::Start, ends, "{queue}");
        }
        // The first slowdown follows two round trips later.
        assert_eq!(
            (w.ssthresh, l.phase),
            (20, Phase::Avoidance { due: Some(at(292)) })
        );
    }

    #[test]
    fn the_least_of_four_samples_is_the_present_one() {
        let (mut l, mut w) = in_avoidance(50, 10, 10);
        for _ in 0..3 {
            sample(&mut l, &mut w, 0, 250);
        }
        assert_eq!(l.delay(), Span::ms(10));
        sample(&mut l, &mut w, 0, 250);
        assert_eq!(l.delay(), Span::ms(200));
    }

    #[test]
    fn a_least_round_trip_is_forgotten_after_ten_minutes() {
        let (mut l, mut w) = in_avoidance(50, 0, 10);
        for minute in 1..=9 {
            sample(&mut l, &mut w, minute * 60_000, 80);
        }
        assert_eq!(l.base.get(), Some(Span::ms(50)));
        sample(&mut l, &mut w, 600_000, 80);
        assert_eq!(l.base.get(), Some(Span::ms(80)));
        sample(&mut l, &mut w, 6_000_000, 90);
        assert_eq!(l.base.get(), Some(Span::ms(90)));
    }

    /// At the target delay the window still grows, by a third of a packet per window acknowledged.
    #[test]
    fn below_the_target_it_gains_a_share_of_a_packet_per_round_trip() {
        let (mut l, mut w) = in_avoidance(50, 60, 30);
        for _ in 0..3 {
            ack(&mut l, &mut w, 0, 30);
        }
        ack(&mut l, &mut w, 0, 1);
        assert_eq!(w.cwnd, 31);
        assert!(l.owed < 0.02, "{}", l.owed);
    }

    /// A tenth above the target the window decreases by a tenth, minus the gain: 100 + 1/3 − 10. At
    /// twice the target the formula gives all of it, and the limit is half.
    #[test]
    fn above_the_target_the_window_shrinks_in_proportion_at_most_by_half() {
        for (queue, left) in [(66, 90), (75, 75), (120, 50), (600, 50)] {
            let (mut l, mut w) = in_avoidance(50, queue, 100);
            ack(&mut l, &mut w, 0, 1);
            assert_eq!(w.cwnd, 100, "only once per round trip");
            l.round_ends = 0;
            ack(&mut l, &mut w, 0, 1);
            assert_eq!(w.cwnd, left, "{queue}");
        }
    }

    /// The slow start up to 100 packets is over: after a decrease for delay, the window grows by
    /// GAIN per round trip, not per packet.
    #[test]
    fn a_decrease_is_not_undone_by_slow_start() {
        let (mut l, mut w) = in_avoidance(50, 75, 100);
        w.ssthresh = 100;
        l.round_ends = 0;
        ack(&mut l, &mut w, 0, 1);
        assert_eq!((w.cwnd, w.ssthresh), (75, 75));
        for _ in 0..FILTER {
            sample(&mut l, &mut w, 100, 50);
        }
        // A window acknowledged below the target adds a third of a packet; slow start would add 25.
        let owed = l.owed;
        l.round_ends = u64::MAX;
        ack(&mut l, &mut w, 100, 75);
        assert_eq!(w.cwnd, 75);
        assert!((0.33..0.34).contains(&(l.owed - owed)), "{}", l.owed);
    }

    #[test]
    fn a_loss_halves_the_window() {
        let (mut l, mut w) = in_avoidance(50, 0, 100);
        l.on_loss(&mut w, &Loss::at(at(0)));
        assert_eq!(w.ssthresh, 50);
        w.cwnd = 3;
        l.on_loss(&mut w, &Loss::at(at(0)));
        assert_eq!(w.ssthresh, 2);
    }

    /// The slowdown keeps two packets for two round trips of 50 ms. Slow start with the gain then
    /// restores 40 packets. The time to the next slowdown is nine times as long.
    #[test]
    fn a_slowdown_holds_two_packets_for_two_round_trips_and_comes_back() {
        let (mut l, mut w) = in_avoidance(50, 0, 40);
        l.phase = Phase::Avoidance {
            due: Some(at(1000)),
        };
        ack(&mut l, &mut w, 999, 0);
        assert_eq!(w.cwnd, 40);
        ack(&mut l, &mut w, 1000, 10);
        assert_eq!((w.cwnd, w.ssthresh), (2, 40));
        w.cwnd = 40;
        l.on_reduced(&mut w, &Reduced::at(at(1050)));
        ack(&mut l, &mut w, 1099, 10);
        assert_eq!(w.cwnd, 2);
        // With any delay: other flows may have filled the queue.
        for _ in 0..FILTER {
            sample(&mut l, &mut w, 1100, 150);
        }
        ack(&mut l, &mut w, 1100, 12);
        assert_eq!(w.cwnd, 6);
        ack(&mut l, &mut w, 1200, 300);
        assert_eq!(w.cwnd, 40);
        ack(&mut l, &mut w, 1300, 0);
        assert_eq!(
            l.phase,
            Phase::Avoidance {
                due: Some(at(1300 + 9 * 300))
            }
        );
    }

    #[test]
    fn a_loss_in_a_slowdown_halves_the_window_restored_after_it() {
        let (mut l, mut w) = in_avoidance(50, 0, 40);
        l.phase = Phase::Avoidance { due: Some(at(0)) };
        ack(&mut l, &mut w, 0, 1);
        l.on_loss(&mut w, &Loss::at(at(10)));
        assert_eq!((w.cwnd, w.ssthresh), (2, 20));
        let mut undo = SpuriousLoss::at(at(20));
        undo.prior_cwnd = 40;
        l.on_spurious_loss(&mut w, &undo);
        assert_eq!(w.cwnd, 2);
        l.on_rto(&mut w, &Rto::at(at(30)));
        assert_eq!(l.phase, Phase::Avoidance { due: Some(at(300)) });
    }

    #[test]
    fn without_slowdowns_none_is_due() {
        let mut params = Params::defaults(PARAMS);
        params.set("slowdown_interval", crate::param::Value::Count(0));
        let (mut l, mut w) = (Ledbat::new(&params), Window::new(20));
        l.on_loss(&mut w, &Loss::at(at(5)));
        assert_eq!(l.phase, Phase::Avoidance { due: None });
    }
}
