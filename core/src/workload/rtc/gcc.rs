//! `gcc`: a video call with a controller like Google's congestion control for WebRTC.
//!
//! Algorithm, with the sections of draft-ietf-rmcat-gcc-02 (Holmer et al., 2016). Both controllers
//! run at the sender (section 3).
//! - Sending (section 4): the queue leaves in groups, one each `burst_time`.
//! - Arrival filter (5.1 to 5.3): packets sent within `burst_time` are a group, and packets that
//!   arrive in a burst join it. The delay variation `d(i)` of two groups is the input of a Kalman
//!   filter with state noise `q`. Its estimate is `m(i)`.
//! - Over-use detector (5.4): over-use is signalled if `m(i)` is above a threshold for
//!   `overuse_time` and does not fall. The threshold follows `|m(i)|`, upwards with `k_up` and
//!   downwards with `k_down`, within 6 to 600 ms. It ignores estimates of more than 15 ms above it.
//! - Rate control (5.5): the states increase, hold and decrease. The increase is by `eta` per
//!   second, or by half a packet per response time near to convergence. It ends at 1.5 times the
//!   received rate. A decrease sets the rate to `beta` times the received rate.
//! - Loss (section 6): below `loss_low`, the loss-based rate grows by 5 %. Above `loss_high`, it
//!   shrinks by half of the loss ratio. The target is the smaller of the two rates.
//!
//! Deviations, because the draft leaves these points open or WebRTC differs from it:
//! - `m(i)` is multiplied by the number of groups so far, at most `gain`. WebRTC's detector does so
//!   (`overuse_detector.cc`), and its threshold has this scale. The draft's equation is `gain = 1`.
//! - The pacer sends at `pacing` times the target; the draft's value 1 lets the queue of the sender
//!   grow without limit when frame sizes vary.
//! - After a decrease, the increase is additive until the received rate is three standard
//!   deviations above its mean at decreases, as in WebRTC (`aimd_rate_control.cc`). By the draft,
//!   it is multiplicative while the rate is three standard deviations below. As a decrease is
//!   larger than that, the increase would nearly always be multiplicative, and two calls would not
//!   converge to equal rates.
//! - The normalised variance of the received rate at decreases starts at 0.4, as in WebRTC
//!   (`link_capacity_estimator.cc`), and stays within 0.4 to 2.5. Otherwise the first deviation
//!   would be zero.
//! - An over-use between two reports counts, even if it has ended when the report is sent.
//! - A loss ratio is computed over at least 20 packets (WebRTC: `kLimitNumPackets`).
//! - There are no bandwidth probes, and no reaction if reports are missing.

use super::{Controller, FPS, Feedback, MAX_RATE, MIN_RATE, Permit, SPREAD, call, check, packet};
use crate::metrics::{Metric, Named};
use crate::param::{Kind, Param, Params};
use crate::units::{Rate, Span, Time};
use crate::workload::{Setting, WorkloadKind, datagrams};
use alloc::collections::VecDeque;

/// Limits of the threshold, and the excess above it that does not change it, ms.
const LEAST_THRESHOLD: f64 = 6.0;
const MOST_THRESHOLD: f64 = 600.0;
const OUTLIER: f64 = 15.0;
/// Maximum time between two updates of the threshold that counts, ms.
const LONGEST_UPDATE: f64 = 100.0;
/// Number of groups whose shortest gap defines the rate of the filter (K).
const GAPS: usize = 60;
/// Minimum number of packets of a loss ratio.
const LOSS_PACKETS: u64 = 20;
/// Frames per second and packet size in bits of the additive increase (section 5.5), whatever the
/// call has.
const INCREASE_FPS: f64 = 30.0;
const INCREASE_PACKET: f64 = 1200.0 * 8.0;
/// Share of an old mean that remains (section 5.5), and limits of the normalised variance.
const SMOOTHING: f64 = 0.95;
const LEAST_VARIANCE: f64 = 0.4;
const MOST_VARIANCE: f64 = 2.5;
/// Maximum number of packets in the window of the received rate.
const MOST_RECEIVED: usize = 1 << 17;

/// A call.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "gcc",
    help: "a video call with a controller like Google's: rate, frame delay, loss, stalls",
    source: "draft-ietf-rmcat-gcc-02",
    params: &[
        MAX_RATE,
        MIN_RATE,
        Param {
            name: "start_rate",
            kind: Kind::Rate(Rate::bit(300_000), Rate::bit(1000), Rate::mbit(1000)),
            help: "initial target rate",
            source: "WebRTC",
        },
        FPS,
        SPREAD,
        packet(1200, "draft section 5.5: 1200 bytes"),
        Param {
            name: "feedback",
            kind: Kind::Span(Span::ms(100), Span::ms(5), Span::s(10)),
            help: "time between two reports of the receiver",
            source: "draft section 3: at most 100 ms",
        },
        Param {
            name: "burst_time",
            kind: Kind::Span(Span::ms(5), Span::us(100), Span::ms(100)),
            help: "time span of a group of packets, in the pacer and in the arrival filter",
            source: "draft table 1",
        },
        Param {
            name: "pacing",
            kind: Kind::Number(2.5, 1.0, 100.0),
            help: "rate of the pacer, as a multiple of the target rate",
            source: "WebRTC; draft section 4: 1",
        },
        Param {
            name: "q",
            kind: Kind::Number(1e-3, 1e-9, 1e3),
            help: "variance of the state noise of the Kalman filter, ms²",
            source: "draft table 1",
        },
        Param {
            name: "chi",
            kind: Kind::Number(0.01, 1e-4, 0.5),
            help: "coefficient of the noise variance of the Kalman filter",
            source: "draft table 1: 0.1 to 0.001",
        },
        Param {
            name: "gain",
            kind: Kind::Number(60.0, 1.0, 1000.0),
            help: "largest factor of the filter's estimate before its comparison with the \
                   threshold",
            source: "WebRTC; draft section 5.4: 1",
        },
        Param {
            name: "threshold",
            kind: Kind::Number(12.5, LEAST_THRESHOLD, MOST_THRESHOLD),
            help: "initial threshold of the detector, ms",
            source: "draft table 1",
        },
        Param {
            name: "k_up",
            kind: Kind::Number(0.01, 0.0, 1.0),
            help: "coefficient of a threshold increase, 1/ms; if both are 0, the threshold is \
                constant",
            source: "draft table 1",
        },
        Param {
            name: "k_down",
            kind: Kind::Number(0.000_18, 0.0, 1.0),
            help: "coefficient of a decrease of the threshold, 1/ms",
            source: "draft table 1",
        },
        Param {
            name: "overuse_time",
            kind: Kind::Span(Span::ms(10), Span::ZERO, Span::s(10)),
            help: "time above the threshold before over-use is signalled",
            source: "draft table 1",
        },
        Param {
            name: "rate_window",
            kind: Kind::Span(Span::ms(500), Span::ms(50), Span::s(10)),
            help: "window of the received rate",
            source: "draft table 1: 0.5 to 1 s",
        },
        Param {
            name: "beta",
            kind: Kind::Number(0.85, 0.1, 0.99),
            help: "target rate after a decrease, relative to the received rate",
            source: "draft table 1",
        },
        Param {
            name: "eta",
            kind: Kind::Number(1.08, 1.0, 2.0),
            help: "factor of the multiplicative increase per second",
            source: "draft section 5.5",
        },
        Param {
            name: "loss_low",
            kind: Kind::Probability(0.02),
            help: "loss ratio below which the loss-based rate grows",
            source: "draft section 6",
        },
        Param {
            name: "loss_high",
            kind: Kind::Probability(0.1),
            help: "loss ratio above which the loss-based rate shrinks",
            source: "draft section 6",
        },
    ],
    check,
    cc: "",
    traffic: datagrams,
    make: |params, setting| call(KIND.name, Gcc::new(params, setting), params, setting),
};

/// The signal of the detector.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Signal {
    Normal,
    Over,
    Under,
}

/// The state of the rate control.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Increase,
    Hold,
    Decrease,
}

/// Packets that were sent together.
#[derive(Copy, Clone, Debug)]
struct Group {
    first_sent: Time,
    sent: Time,
    arrived: Time,
}

/// Sections 5.1 to 5.4: from arrival times to a signal.
struct Detector {
    burst: f64,
    q: f64,
    chi: f64,
    gain: f64,
    k_up: f64,
    k_down: f64,
    overuse: f64,

    current: Option<Group>,
    previous: Option<Group>,
    gaps: VecDeque<f64>,
    groups: u32,
    m: f64,
    e: f64,
    variance: f64,
    threshold: f64,
    /// The last estimate and its time, ms.
    last: Option<(f64, f64)>,
    over_since: Option<f64>,
    signal: Signal,
}

fn ms(at: Time) -> f64 {
    at.as_ns() as f64 / 1e6
}

impl Detector {
    fn new(params: &Params) -> Detector {
        Detector {
            burst: params.span("burst_time").as_ms(),
            q: params.number("q"),
            chi: params.number("chi"),
            gain: params.number("gain"),
            k_up: params.number("k_up"),
            k_down: params.number("k_down"),
            overuse: params.span("overuse_time").as_ms(),
            current: None,
            previous: None,
            gaps: VecDeque::new(),
            groups: 0,
            m: 0.0,
            e: 0.1,
            variance: 1.0,
            threshold: params.number("threshold"),
            last: None,
            over_since: None,
            signal: Signal::Normal,
        }
    }

    /// Adds a packet; returns whether the detector has a new estimate.
    fn packet(&mut self, sent: Time, arrived: Time) -> bool {
        let alone = Group {
            first_sent: sent,
            sent,
            arrived,
        };
        let Some(group) = &mut self.current else {
            self.current = Some(alone);
            return false;
        };
        // Packets out of order are ignored.
        if sent < group.first_sent {
            return false;
        }
        let between = ms(arrived) - ms(group.arrived);
        let joins = between < self.burst && between < ms(sent) - ms(group.sent);
        if ms(sent) - ms(group.first_sent) < self.burst || joins {
            group.sent = group.sent.max(sent);
            group.arrived = group.arrived.max(arrived);
            return false;
        }
        let complete = *group;
        self.current = Some(alone);
        let before = self.previous.replace(complete);
        if let Some(before) = before {
            let gap = ms(complete.sent) - ms(before.sent);
            let d = ms(complete.arrived) - ms(before.arrived) - gap;
            self.filter(d, gap);
            self.detect(ms(complete.arrived));
        }
        before.is_some()
    }

    /// The Kalman filter: `d` and the time between the groups, ms.
    fn filter(&mut self, d: f64, gap: f64) {
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap.max(0.1));
        self.groups = self.groups.saturating_add(1);
        let shortest = self.gaps.iter().copied().fold(f64::INFINITY, f64::min);
        let alpha = libm::pow(1.0 - self.chi, 30.0 * shortest / 1000.0);
        let z = d - self.m;
        let most = 3.0 * libm::sqrt(self.variance);
        let noise = z.clamp(-most, most);
        self.variance = (alpha * self.variance + (1.0 - alpha) * noise * noise).max(1.0);
        let spread = self.e + self.q;
        let k = spread / (self.variance + spread);
        self.m += z * k;
        self.e = (1.0 - k) * spread;
    }

    /// The detector with its threshold, for the estimate at time `now`, ms.
    fn detect(&mut self, now: f64) {
        let m = self.m * f64::from(self.groups).min(self.gain);
        let (before, since) = self.last.unwrap_or((m, now));
        if m > self.threshold {
            let first = *self.over_since.get_or_insert(since);
            if now - first >= self.overuse && m >= before {
                self.signal = Signal::Over;
            }
        } else {
            self.over_since = None;
            self.signal = if m < -self.threshold {
                Signal::Under
            } else {
                Signal::Normal
            };
        }
        let excess = m.abs() - self.threshold;
        if excess <= OUTLIER {
            let k = if excess < 0.0 { self.k_down } else { self.k_up };
            let passed = (now - since).clamp(0.0, LONGEST_UPDATE);
            self.threshold =
                (self.threshold + passed * k * excess).clamp(LEAST_THRESHOLD, MOST_THRESHOLD);
        }
        self.last = Some((m, now));
    }
}

struct Gcc {
    least: f64,
    most: f64,
    feedback: Span,
    burst: Span,
    pacing: f64,
    window: Span,
    beta: f64,
    eta: f64,
    loss_low: f64,
    loss_high: f64,
    from: Time,

    detector: Detector,
    state: State,
    /// The delay-based and the loss-based rate, bit/s.
    by_delay: f64,
    by_loss: f64,
    /// Arrivals in the window of the received rate, and the time of the first one of all.
    received: VecDeque<(Time, u16)>,
    received_bytes: u64,
    began: Option<Time>,
    /// Mean of the received rate at decreases, kbit/s, and its normalised variance.
    decreases: Option<(f64, f64)>,
    updated: Option<Time>,
    counted: u64,
    lost: u64,
    /// The present group: time of its start, and its bytes.
    group: (Time, u64),
    overuses: u64,
}

impl Gcc {
    fn new(params: &Params, setting: Setting) -> Gcc {
        let rate = |name: &str| params.rate(name).as_bit() as f64;
        let (least, most) = (rate("min_rate"), rate("max_rate"));
        let start = rate("start_rate").clamp(least, most);
        Gcc {
            least,
            most,
            feedback: params.span("feedback"),
            burst: params.span("burst_time"),
            pacing: params.number("pacing"),
            window: params.span("rate_window"),
            beta: params.number("beta"),
            eta: params.number("eta"),
            loss_low: params.number("loss_low"),
            loss_high: params.number("loss_high"),
            from: setting.from,
            detector: Detector::new(params),
            state: State::Increase,
            by_delay: start,
            by_loss: start,
            received: VecDeque::new(),
            received_bytes: 0,
            began: None,
            decreases: None,
            updated: None,
            counted: 0,
            lost: 0,
            group: (Time::ZERO, 0),
            overuses: 0,
        }
    }

    /// Counts an arrival for the received rate.
    fn receive(&mut self, at: Time, bytes: u16) {
        self.began.get_or_insert(at);
        self.received.push_back((at, bytes));
        self.received_bytes += u64::from(bytes);
        while self.received.front().is_some_and(|(first, _)| {
            at.since(*first) >= self.window || self.received.len() > MOST_RECEIVED
        }) {
            if let Some((_, bytes)) = self.received.pop_front() {
                self.received_bytes -= u64::from(bytes);
            }
        }
    }

    /// The received rate, bit/s; `None` before the first window is over.
    fn received_rate(&self) -> Option<f64> {
        let (began, (last, _)) = (self.began?, self.received.back()?);
        (last.since(began) >= self.window)
            .then(|| self.received_bytes as f64 * 8.0 / self.window.as_s())
    }

    /// Three standard deviations of the received rate at earlier decreases, kbit/s.
    fn deviations((mean, variance): (f64, f64)) -> f64 {
        3.0 * libm::sqrt(variance * mean)
    }

    /// Whether the rate was exceeded before, so that the increase is additive. A received rate far
    /// above the mean at earlier decreases discards this mean.
    fn near(&mut self, rate: f64) -> bool {
        let above = |of: &(f64, f64)| rate / 1e3 > of.0 + Gcc::deviations(*of);
        self.decreases = self.decreases.filter(|of| !above(of));
        self.decreases.is_some()
    }

    fn increase(&mut self, now: Time, rtt: Span) {
        let passed = now.since(self.updated.unwrap_or(now)).as_ms();
        let rate = self.received_rate();
        let more = if rate.is_some_and(|rate| self.near(rate)) {
            let frame = self.by_delay / INCREASE_FPS;
            let packets = libm::ceil(frame / INCREASE_PACKET).max(1.0);
            let alpha = 0.5 * (passed / (100.0 + rtt.as_ms())).min(1.0);
            self.by_delay + (alpha * frame / packets).max(1000.0)
        } else {
            self.by_delay * libm::pow(self.eta, (passed / 1000.0).min(1.0))
        };
        let bound = rate.map_or(more, |rate| 1.5 * rate);
        self.by_delay = more.min(bound.max(self.by_delay));
    }

    fn decrease(&mut self) {
        let rate = self.received_rate().unwrap_or(self.by_delay);
        let kbit = rate / 1e3;
        let near = |of: &(f64, f64)| kbit >= of.0 - Gcc::deviations(*of);
        let known = self.decreases.filter(near);
        let (mean, variance) = known.unwrap_or((kbit, LEAST_VARIANCE));
        let deviation = kbit - mean;
        let mean = SMOOTHING * mean + (1.0 - SMOOTHING) * kbit;
        let normal = deviation * deviation / mean.max(1.0);
        let variance = SMOOTHING * variance + (1.0 - SMOOTHING) * normal;
        self.decreases = Some((mean, variance.clamp(LEAST_VARIANCE, MOST_VARIANCE)));
        self.by_delay = self.by_delay.min(self.beta * rate);
    }

    fn control(&mut self, now: Time, signal: Signal, rtt: Span) {
        self.state = match (signal, self.state) {
            (Signal::Over, _) => State::Decrease,
            (Signal::Normal, State::Decrease) | (Signal::Under, _) => State::Hold,
            (Signal::Normal, _) => State::Increase,
        };
        match self.state {
            State::Increase => self.increase(now, rtt),
            State::Decrease => {
                self.overuses += u64::from(now >= self.from);
                self.decrease();
            }
            State::Hold => {}
        }
        self.by_delay = self.by_delay.clamp(self.least, self.most);
        self.updated = Some(now);
    }

    fn loss(&mut self) {
        if self.counted < LOSS_PACKETS {
            return;
        }
        let ratio = self.lost as f64 / self.counted as f64;
        if ratio < self.loss_low {
            self.by_loss *= 1.05;
        } else if ratio > self.loss_high {
            self.by_loss *= 1.0 - 0.5 * ratio;
        }
        self.by_loss = self.by_loss.clamp(self.least, self.most);
        (self.counted, self.lost) = (0, 0);
    }

    fn group_bytes(&self) -> u64 {
        (self.pacing * self.target() * self.burst.as_s() / 8.0) as u64
    }
}

impl Controller for Gcc {
    fn target(&self) -> f64 {
        self.by_delay.min(self.by_loss)
    }
    fn permits(&self, now: Time, _bytes: u16, _in_flight: u64) -> Permit {
        let (started, bytes) = self.group;
        if started == now && bytes < self.group_bytes() {
            return Permit::Now;
        }
        let takes = bytes as f64 * 8.0 / (self.pacing * self.target());
        let next = started + self.burst.max(Span::ns((takes * 1e9) as u64));
        if bytes == 0 || next <= now {
            Permit::Now
        } else {
            Permit::At(next)
        }
    }
    fn sent(&mut self, now: Time, bytes: u16, _in_flight: u64) {
        if self.group.0 != now {
            self.group = (now, 0);
        }
        self.group.1 += u64::from(bytes);
    }
    fn reported(&mut self, now: Time, feedback: &Feedback<'_>) {
        let mut signal = None;
        for packet in feedback.acked {
            self.receive(packet.arrived, packet.bytes);
            if self.detector.packet(packet.sent, packet.arrived) && signal != Some(Signal::Over) {
                signal = Some(self.detector.signal);
            }
        }
        self.counted += feedback.acked.len() as u64 + feedback.lost;
        self.lost += feedback.lost;
        self.loss();
        self.control(now, signal.unwrap_or(self.detector.signal), feedback.rtt);
    }
    fn interval(&self, _rate: f64) -> Span {
        self.feedback
    }
    fn metrics(&self) -> Named {
        alloc::vec![("overuses", Metric::Count(self.overuses))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Value;

    fn detector(set: &[(&'static str, f64)]) -> Detector {
        let mut params = Params::defaults(KIND.params);
        set.iter()
            .for_each(|(name, x)| params.set(name, Value::Number(*x)));
        Detector::new(&params)
    }

    fn gcc() -> Gcc {
        let setting = Setting {
            seed: 1,
            from: Time::ZERO,
            end: Time::ZERO + Span::s(1),
            datagram: crate::workload::MOST_DATAGRAM,
            ip: crate::packet::Ip::V4,
        };
        Gcc::new(&Params::defaults(KIND.params), setting)
    }

    /// A queue that grows by 0.1 ms per ms: `d` of each group is a tenth of its distance.
    #[test]
    fn the_filter_converges_to_the_growth_of_the_queue() {
        let mut detector = detector(&[]);
        let at = |us: u64| Time::ZERO + Span::us(us);
        for n in 0..2000 {
            detector.packet(at(10_000 * n), at(11_000 * n + 20_000));
        }
        assert!((detector.m - 1.0).abs() < 0.01, "{}", detector.m);
        assert_eq!(detector.signal, Signal::Over);
        for n in 2000..2300 {
            detector.packet(at(10_000 * n), at(9_000 * (n - 2000) + 22_020_000));
        }
        assert_eq!(detector.signal, Signal::Under);
    }

    #[test]
    fn packets_of_a_burst_are_one_group() {
        let mut detector = detector(&[]);
        let at = Time::ZERO + Span::ms(100);
        // Three packets within 5 ms, and one that arrives together with them.
        for sent in [0, 2, 4, 20] {
            assert!(!detector.packet(Time::ZERO + Span::ms(sent), at));
        }
        let next = detector.packet(Time::ZERO + Span::ms(40), at + Span::ms(20));
        assert!(!next, "the first group has no predecessor");
        let next = detector.packet(Time::ZERO + Span::ms(60), at + Span::ms(40));
        assert!(next);
        assert_eq!(detector.m, 0.0);
    }

    /// Section 5.4: the threshold moves by K · Δt · (|m| − threshold).
    #[test]
    fn the_threshold_follows_the_estimate() {
        let mut detector = detector(&[("gain", 1.0)]);
        detector.groups = 1;
        detector.last = Some((0.0, 0.0));
        (detector.m, detector.threshold) = (20.0, 10.0);
        detector.detect(10.0);
        assert!((detector.threshold - (10.0 + 10.0 * 0.01 * 10.0)).abs() < 1e-9);
        detector.m = 0.0;
        detector.detect(20.0);
        assert!((detector.threshold - (11.0 - 10.0 * 0.000_18 * 11.0)).abs() < 1e-9);
        let before = detector.threshold;
        detector.m = before + 15.1;
        detector.detect(30.0);
        assert_eq!(detector.threshold, before, "an outlier");
    }

    /// Section 6.
    #[test]
    fn the_loss_based_rate_grows_stays_and_shrinks() {
        let mut gcc = gcc();
        let mut after = |lost: u64, counted: u64| {
            (gcc.lost, gcc.counted) = (lost, counted);
            gcc.loss();
            gcc.by_loss
        };
        assert!((after(1, 100) - 315_000.0).abs() < 1e-6);
        assert!((after(5, 100) - 315_000.0).abs() < 1e-6);
        assert!((after(20, 100) - 315_000.0 * 0.9).abs() < 1e-6);
        assert!(
            (after(1, 19) - 315_000.0 * 0.9).abs() < 1e-6,
            "too few packets"
        );
    }

    /// Section 5.5: the table of states, and a decrease to 0.85 of the received rate.
    #[test]
    fn the_rate_control_has_the_states_of_the_draft() {
        let mut gcc = gcc();
        let (rtt, mut now) = (Span::ms(50), Time::ZERO);
        for _ in 0..100 {
            now += Span::ms(10);
            gcc.receive(now, 1250);
        }
        assert!((gcc.received_rate().unwrap() - 1e6).abs() < 1.0);
        gcc.by_delay = 2e6;
        let mut next = |signal| {
            now += Span::ms(100);
            gcc.control(now, signal, rtt);
            (gcc.state, gcc.by_delay)
        };
        assert_eq!(next(Signal::Over), (State::Decrease, 850_000.0));
        assert_eq!(next(Signal::Normal), (State::Hold, 850_000.0));
        let (state, rate) = next(Signal::Normal);
        // The received rate is that of the decrease, so the increase is additive: half of a packet
        // of 7083 bits for a response time of 150 ms.
        assert_eq!(state, State::Increase);
        let more = 0.5 * (100.0 / 150.0) * 850_000.0 / 30.0 / 3.0;
        assert!((rate - 850_000.0 - more).abs() < 1e-6, "{rate}");
        assert_eq!(next(Signal::Under).0, State::Hold);
        assert_eq!(next(Signal::Under).0, State::Hold);
    }
}
