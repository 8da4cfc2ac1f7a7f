//! `scream`: a video call with Self-Clocked Rate Adaptation for Multimedia (SCReAM).
//!
//! Algorithm, with the sections of RFC 8298 (Johansson and Sarker, 2017):
//! - Network congestion control (4.1.2): a congestion window in bytes. In the fast-increase mode it
//!   grows by the bytes reported. Afterwards it follows the queueing delay as LEDBAT does (RFC
//!   6817). A loss multiplies it by `beta_loss` and an ECN mark by `beta_ecn`, once per round trip.
//!   The queueing delay is the one-way delay minus its minimum.
//! - The trend of the queueing delay (4.1.2) is the autocorrelation of twenty samples, one every 50
//!   ms, times the mean share of the target. It ends the fast-increase mode.
//! - The target of the queueing delay (4.1.2.3) grows from `target_low` up to `target_high` if
//!   competing flows fill the queue, unless `compensate` is off.
//! - Sender transmission control (4.1.2.5 and 4.1.2.6): packets leave while the window has room,
//!   paced at the window per round trip.
//! - Media rate control (4.1.3): every 200 ms, and at losses and marks.
//! - Feedback (4.2.1): 2.5 to 50 reports per second; more at a higher received rate.
//!
//! With `ecn`, packets are ECT(0), and the reaction is that of classic ECN.
//!
//! Deviations, because the RFC leaves these points open: a packet is lost after three later ones.
//! The minimum delay is that of the last ten minutes. If no report arrives for a second and for two
//! round trips, packets in flight count as lost. The window then becomes its minimum, and a packet
//! probes the path. Without this rule, a sender whose last packets are lost would wait forever. L4S
//! and the other changes of the successor (draft-ietf-ccwg-rfc8298bis-screamv2) are not included.

use super::{Controller, FPS, Feedback, MAX_RATE, MIN_RATE, Permit, SPREAD, call, check, packet};
use crate::metrics::{Histogram, Metric, Named};
use crate::packet::Ecn;
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Rate, Span, Time, format_span};
use crate::workload::{Setting, WorkloadKind, datagrams};
use alloc::collections::VecDeque;

/// Section 4.1.1.1, in its order; times in seconds.
const QDELAY_WEIGHT: f64 = 0.1;
const QDELAY_TREND_TH: f64 = 0.2;
const MIN_CWND: f64 = 3000.0;
const MAX_BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.1;
const RATE_ADJUST_INTERVAL: Span = Span::ms(200);
const RTP_QDELAY_TH: f64 = 0.02;
const TARGET_RATE_SCALE_RTP_QDELAY: f64 = 0.95;
const QDELAY_TREND_LO: f64 = 0.2;
const T_RESUME_FAST_INCREASE: Span = Span::s(5);
const RATE_PACE_MIN: f64 = 50_000.0;
/// Section 4.1.2: interval and number of samples of the trend.
const TREND_INTERVAL: Span = Span::ms(50);
const TREND_SAMPLES: usize = 20;
/// Section 4.1.2.3: samples of the variance and of the mean, and the loss event rate that counts.
const VARIANCE_SAMPLES: usize = 200;
const MEAN_SAMPLES: usize = 50;
const LOSS_EVENT_RATE: f64 = 0.002;
/// Weight of a round trip in the loss event rate.
const LOSS_EVENT_WEIGHT: f64 = 0.01;
/// Section 4.1.2.2: seconds of the largest number of bytes in flight.
const IN_FLIGHT_SECONDS: usize = 5;
/// Number of samples of the median of the media rate: more than 10 s (section 4.1.1.2).
const MEDIA_SAMPLES: usize = 55;
/// RFC 6817 section 3.4.1: minutes of the minimum delay (BASE_HISTORY).
const BASE_MINUTES: usize = 10;

/// A call.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "scream",
    help: "a video call with SCReAM: rate, frame delay, loss, stalls",
    source: "RFC 8298",
    params: &[
        MAX_RATE,
        MIN_RATE,
        FPS,
        SPREAD,
        packet(1000, "RFC 8298 section 4.1.1.1: MSS"),
        Param {
            name: "target_low",
            kind: Kind::Span(Span::ms(100), Span::ms(1), Span::s(10)),
            help: "initial and minimum target of the queueing delay",
            source: "RFC 8298 section 4.1.1.1: QDELAY_TARGET_LO",
        },
        Param {
            name: "target_high",
            kind: Kind::Span(Span::ms(400), Span::ms(1), Span::s(10)),
            help: "maximum target of the queueing delay",
            source: "RFC 8298 section 4.1.1.1: QDELAY_TARGET_HI",
        },
        Param {
            name: "compensate",
            kind: Kind::Bool(true),
            help: "raise the target of the queueing delay if competing flows fill the queue",
            source: "RFC 8298 section 4.1.2.3",
        },
        Param {
            name: "gain",
            kind: Kind::Number(1.0, 0.01, 10.0),
            help: "gain of the congestion window",
            source: "RFC 8298 section 4.1.1.1: GAIN",
        },
        Param {
            name: "beta_loss",
            kind: Kind::Number(0.8, 0.1, 1.0),
            help: "factor of the congestion window after a loss",
            source: "RFC 8298 section 4.1.1.1: BETA_LOSS",
        },
        Param {
            name: "beta_ecn",
            kind: Kind::Number(0.9, 0.1, 1.0),
            help: "factor of window and rate after an ECN mark",
            source: "RFC 8298 section 4.1.1.1: BETA_ECN",
        },
        Param {
            name: "beta_rate",
            kind: Kind::Number(0.9, 0.1, 1.0),
            help: "factor of the target rate after a loss",
            source: "RFC 8298 section 4.1.1.1: BETA_R",
        },
        Param {
            name: "ramp_up",
            kind: Kind::Rate(Rate::bit(200_000), Rate::bit(1000), Rate::mbit(1000)),
            help: "largest increase of the target rate per second",
            source: "RFC 8298 section 4.1.1.1: RAMP_UP_SPEED",
        },
        Param {
            name: "guard",
            kind: Kind::Number(0.1, 0.0, 1.0),
            help: "weight of the trend of the queueing delay in the target rate",
            source: "RFC 8298 section 4.1.1.1: PRE_CONGESTION_GUARD",
        },
        Param {
            name: "queue_factor",
            kind: Kind::Number(1.0, 0.0, 2.0),
            help: "weight of the sender's queue in the target rate",
            source: "RFC 8298 section 4.1.1.1: TX_QUEUE_SIZE_FACTOR",
        },
        Param {
            name: "ecn",
            kind: Kind::Bool(false),
            help: "send packets as ECN-capable, ECT(0)",
            source: "RFC 8298 section 4.1.2.1",
        },
    ],
    check: check_scream,
    cc: "",
    traffic: datagrams,
    make: |params, setting| call(KIND.name, Scream::new(params, setting), params, setting),
};

fn check_scream(params: &Params) -> Result<(), Refusal> {
    check(params)?;
    let (low, high) = (params.span("target_low"), params.span("target_high"));
    if low <= high {
        return Ok(());
    }
    Err(Refusal {
        param: "target_high",
        problem: "is below target_low".into(),
        fix: alloc::format!("\"{}\"", format_span(low)),
    })
}

/// The newest samples.
struct History {
    samples: VecDeque<f64>,
    most: usize,
}

impl History {
    fn new(most: usize) -> History {
        History {
            samples: VecDeque::new(),
            most,
        }
    }
    fn push(&mut self, x: f64) {
        if self.samples.len() == self.most {
            self.samples.pop_front();
        }
        self.samples.push_back(x);
    }
    /// The mean of the newest `n` samples; 0 without samples.
    fn mean(&self, n: usize) -> f64 {
        let n = n.min(self.samples.len());
        let sum: f64 = self.samples.iter().rev().take(n).sum();
        sum / n.max(1) as f64
    }
    fn variance(&self) -> f64 {
        let mean = self.mean(self.most);
        let squares = self.samples.iter().map(|x| (x - mean) * (x - mean));
        squares.sum::<f64>() / self.samples.len().max(1) as f64
    }
    /// The autocorrelation at lag 1 without the mean, as a share of that at lag 0.
    fn prediction(&self) -> f64 {
        let mean = self.mean(self.most);
        let of = |n: usize| self.samples[n] - mean;
        let at_lag =
            |lag: usize| -> f64 { (lag..self.samples.len()).map(|n| of(n) * of(n - lag)).sum() };
        let all = at_lag(0);
        if all > 0.0 { at_lag(1) / all } else { 0.0 }
    }
    fn median(&self) -> f64 {
        let mut sorted: alloc::vec::Vec<f64> = self.samples.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

struct Scream {
    least: f64,
    most: f64,
    mss: f64,
    target_low: f64,
    target_high: f64,
    compensate: bool,
    gain: f64,
    beta_loss: f64,
    beta_ecn: f64,
    beta_rate: f64,
    ramp_up: f64,
    guard: f64,
    queue_factor: f64,
    ecn: bool,
    from: Time,

    cwnd: f64,
    fast: bool,
    /// Since when the trend is low.
    calm_since: Option<Time>,
    srtt: Span,
    qdelay: f64,
    qdelay_target: f64,
    /// The minimum delay of each of the last minutes, by the number of the minute.
    base: [(u64, f64); BASE_MINUTES],
    fraction_avg: f64,
    fractions: History,
    sampled: Option<Time>,
    trend: f64,
    trend_mem: f64,
    norms: History,
    /// The largest number of bytes in flight in each of the last seconds.
    in_flight: [(u64, f64); IN_FLIGHT_SECONDS],
    loss_event_rate: f64,
    round: Time,
    lost_in_round: bool,
    /// The last congestion event.
    event: Option<Time>,
    next_packet: Time,

    target: f64,
    last_max: f64,
    adjust: Time,
    /// Bytes since the last adjustment: sent, reported, encoded.
    sent: u64,
    acked: u64,
    encoded: u64,
    media: History,

    events: u64,
    qdelays: Histogram,
}

impl Scream {
    fn new(params: &Params, setting: Setting) -> Scream {
        let rate = |name: &str| params.rate(name).as_bit() as f64;
        Scream {
            least: rate("min_rate"),
            most: rate("max_rate"),
            mss: params.bytes("packet").get() as f64,
            target_low: params.span("target_low").as_s(),
            target_high: params.span("target_high").as_s(),
            compensate: params.bool("compensate"),
            gain: params.number("gain"),
            beta_loss: params.number("beta_loss"),
            beta_ecn: params.number("beta_ecn"),
            beta_rate: params.number("beta_rate"),
            ramp_up: rate("ramp_up"),
            guard: params.number("guard"),
            queue_factor: params.number("queue_factor"),
            ecn: params.bool("ecn"),
            from: setting.from,
            cwnd: MIN_CWND,
            fast: true,
            calm_since: None,
            srtt: Span::ZERO,
            qdelay: 0.0,
            qdelay_target: params.span("target_low").as_s(),
            base: [(u64::MAX, f64::INFINITY); BASE_MINUTES],
            fraction_avg: 0.0,
            fractions: History::new(TREND_SAMPLES),
            sampled: None,
            trend: 0.0,
            trend_mem: 0.0,
            norms: History::new(VARIANCE_SAMPLES),
            in_flight: [(u64::MAX, 0.0); IN_FLIGHT_SECONDS],
            loss_event_rate: 0.0,
            round: Time::ZERO,
            lost_in_round: false,
            event: None,
            next_packet: Time::ZERO,
            target: rate("min_rate"),
            last_max: 1.0,
            adjust: Time::ZERO,
            sent: 0,
            acked: 0,
            encoded: 0,
            media: History::new(MEDIA_SAMPLES),
            events: 0,
            qdelays: Histogram::new(),
        }
    }

    /// The queueing delay of a packet with this one-way delay, in seconds.
    fn queueing(&mut self, now: Time, delay: f64) -> f64 {
        let minute = now.as_ns() / 60_000_000_000;
        let place = &mut self.base[(minute % BASE_MINUTES as u64) as usize];
        if place.0 != minute {
            *place = (minute, delay);
        }
        place.1 = place.1.min(delay);
        let base = self.base.iter().map(|(_, delay)| *delay);
        (delay - base.fold(f64::INFINITY, f64::min)).max(0.0)
    }

    /// Section 4.1.2: `update_variables`.
    fn sample(&mut self, now: Time) {
        if self
            .sampled
            .is_some_and(|at| now.since(at) < TREND_INTERVAL)
        {
            return;
        }
        self.sampled = Some(now);
        let fraction = self.qdelay / self.qdelay_target;
        self.fraction_avg += QDELAY_WEIGHT * (fraction - self.fraction_avg);
        self.fractions.push(fraction);
        let a = self.fractions.prediction();
        self.trend = (a * self.fraction_avg).clamp(0.0, 1.0);
        self.trend_mem = (0.99 * self.trend_mem).max(self.trend);
        // Section 4.1.2.7.
        if self.trend >= QDELAY_TREND_LO {
            self.calm_since = None;
        } else {
            let since = *self.calm_since.get_or_insert(now);
            self.fast |= now.since(since) >= T_RESUME_FAST_INCREASE;
        }
    }

    /// Section 4.1.2.3.
    fn adjust_target(&mut self) {
        self.norms.push(self.qdelay / self.target_low);
        if !self.compensate {
            return;
        }
        let variance = self.norms.variance();
        let new = (self.norms.mean(MEAN_SAMPLES) + libm::sqrt(variance)) * self.target_low;
        let target = if self.loss_event_rate > LOSS_EVENT_RATE {
            1.5 * new
        } else if variance < 0.2 {
            new
        } else if new < self.target_low {
            (self.qdelay_target * 0.5).max(new)
        } else {
            self.qdelay_target * 0.9
        };
        self.qdelay_target = target.clamp(self.target_low, self.target_high);
    }

    /// Section 4.1.2.2: a loss or a mark.
    fn congestion(&mut self, now: Time, factor: f64, rate_factor: f64) {
        self.event = Some(now);
        self.events += u64::from(now >= self.from);
        self.fast = false;
        self.calm_since = None;
        self.cwnd = (self.cwnd * factor).max(MIN_CWND);
        self.last_max = self.target.max(1.0);
        self.target = (self.target * rate_factor).max(self.least);
    }

    /// Section 4.1.2.2: `update_cwnd`.
    fn update_cwnd(&mut self, newly: f64, in_flight: f64) {
        if self.fast && self.trend >= QDELAY_TREND_TH {
            self.fast = false;
            self.last_max = self.target.max(1.0);
        }
        if self.fast {
            if in_flight * 1.5 + newly > self.cwnd {
                self.cwnd += newly;
            }
            return;
        }
        let off = (self.qdelay_target - self.qdelay) / self.qdelay_target;
        let underused = off > 0.0 && in_flight * 1.25 + newly <= self.cwnd;
        if !underused {
            self.cwnd += self.gain * off * newly * self.mss / self.cwnd;
        }
        let most = self.in_flight.iter().map(|(_, bytes)| *bytes);
        let most = most.fold(0.0, f64::max) * MAX_BYTES_IN_FLIGHT_HEAD_ROOM;
        self.cwnd = self.cwnd.min(most).max(MIN_CWND);
    }

    /// Section 4.1.3, without the reaction to losses and marks.
    fn adjust_rate(&mut self, queued: f64) {
        let seconds = RATE_ADJUST_INTERVAL.as_s();
        let rate = |bytes: u64| bytes as f64 * 8.0 / seconds;
        let media = rate(self.encoded);
        let current = rate(self.sent).max(rate(self.acked));
        self.media.push(media);
        (self.sent, self.acked, self.encoded) = (0, 0, 0);
        let ramp_up = self.ramp_up.min(self.target / 2.0);
        let scale = 4.0 * (self.target - self.last_max) / self.last_max;
        let scale = (scale * scale).clamp(0.2, 1.0);
        if self.fast {
            self.target += ramp_up * seconds * scale;
        } else {
            let mut change = current * (1.0 - self.guard * self.trend) - self.queue_factor * queued;
            if change > 0.0 {
                change = (change * scale).min(ramp_up * seconds);
            }
            self.target += change;
            if queued > RTP_QDELAY_TH * current {
                self.target *= TARGET_RATE_SCALE_RTP_QDELAY;
            }
        }
        let limit = current.max(media).max(self.media.median()) * (2.0 - self.trend_mem);
        self.target = self.target.min(limit).min(self.most).max(self.least);
    }
}

impl Controller for Scream {
    fn target(&self) -> f64 {
        self.target
    }
    fn permits(&self, now: Time, bytes: u16, in_flight: u64) -> Permit {
        let slack = if self.qdelay <= self.qdelay_target {
            self.mss
        } else {
            0.0
        };
        // A window that has no room for a packet does not stop the flow.
        let window = self.cwnd + slack;
        if in_flight > 0 && in_flight as f64 + f64::from(bytes) > window {
            return Permit::Feedback;
        }
        if self.next_packet > now {
            return Permit::At(self.next_packet);
        }
        Permit::Now
    }
    fn sent(&mut self, now: Time, bytes: u16, in_flight: u64) {
        self.sent += u64::from(bytes);
        let second = now.as_ns() / 1_000_000_000;
        let place = &mut self.in_flight[(second % IN_FLIGHT_SECONDS as u64) as usize];
        if place.0 != second {
            *place = (second, 0.0);
        }
        place.1 = place.1.max(in_flight as f64);
        if self.srtt > Span::ZERO {
            let pace = (self.cwnd * 8.0 / self.srtt.as_s()).max(RATE_PACE_MIN);
            self.next_packet = now + Span::ns((f64::from(bytes) * 8e9 / pace) as u64);
        }
    }
    fn encoded(&mut self, bytes: u64) {
        self.encoded += bytes;
    }
    fn reported(&mut self, now: Time, feedback: &Feedback<'_>) {
        let Some(last) = feedback.acked.last() else {
            return;
        };
        self.srtt = feedback.srtt;
        self.qdelay = self.queueing(now, last.arrived.since(last.sent).as_s());
        if now >= self.from {
            self.qdelays.record(Span::ns((self.qdelay * 1e9) as u64));
        }
        let acked = feedback.acked.iter().map(|packet| u64::from(packet.bytes));
        self.acked += acked.sum::<u64>();
        self.sample(now);
        self.lost_in_round |= feedback.lost > 0;
        if now.since(self.round) >= self.srtt {
            let seen = f64::from(u8::from(self.lost_in_round));
            self.loss_event_rate += LOSS_EVENT_WEIGHT * (seen - self.loss_event_rate);
            (self.round, self.lost_in_round) = (now, false);
        }
        let free = self.event.is_none_or(|at| now.since(at) >= self.srtt);
        let marked = feedback.acked.iter().any(|packet| packet.ce);
        if free && feedback.lost > 0 {
            self.congestion(now, self.beta_loss, self.beta_rate);
        } else if free && marked {
            self.congestion(now, self.beta_ecn, self.beta_ecn);
        } else {
            let in_flight = (feedback.in_flight + feedback.newly) as f64;
            self.update_cwnd(feedback.newly as f64, in_flight);
        }
        self.adjust_target();
    }
    fn silence(&mut self, now: Time) {
        self.lost_in_round = true;
        self.congestion(now, 0.0, self.beta_rate);
    }
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.adjust)
    }
    fn on_wakeup(&mut self, now: Time, queued: u64) {
        self.adjust = now + RATE_ADJUST_INTERVAL;
        self.adjust_rate(queued as f64 * 8.0);
    }
    fn interval(&self, rate: f64) -> Span {
        let per_second = (rate / 10_000.0).clamp(2.5, 50.0);
        Span::ns((1e9 / per_second) as u64)
    }
    fn ecn(&self) -> Ecn {
        if self.ecn { Ecn::Ect0 } else { Ecn::NotEct }
    }
    fn metrics(&self) -> Named {
        alloc::vec![
            ("congestion_events", Metric::Count(self.events)),
            ("queueing_ms", Metric::Quantiles(self.qdelays.quantiles())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Acked;
    use super::*;

    fn scream() -> Scream {
        let setting = Setting {
            seed: 1,
            from: Time::ZERO,
            end: Time::ZERO + Span::s(1),
            datagram: crate::workload::MOST_DATAGRAM,
            ip: crate::packet::Ip::V4,
        };
        Scream::new(&Params::defaults(KIND.params), setting)
    }

    #[test]
    fn the_trend_is_the_autocorrelation_of_the_samples() {
        let mut history = History::new(4);
        [9.0, 1.0, 2.0, 3.0, 4.0]
            .iter()
            .for_each(|x| history.push(*x));
        // Without the mean, the samples are −1.5, −0.5, 0.5 and 1.5.
        let law = (0.75 - 0.25 + 0.75) / (2.25 + 0.25 + 0.25 + 2.25);
        assert!((history.prediction() - law).abs() < 1e-12);
        assert_eq!((history.mean(2), history.median()), (3.5, 3.0));
        assert!((history.variance() - 1.25).abs() < 1e-12);
        assert_eq!(History::new(4).prediction(), 0.0);
    }

    /// A report at `now` of a packet with this one-way delay.
    fn report(scream: &mut Scream, now: Time, delay: Span, lost: u64, ce: bool) {
        let acked = [Acked {
            sent: now - delay,
            arrived: now,
            bytes: 1000,
            ce,
        }];
        let (rtt, srtt) = (Span::ms(50), Span::ms(50));
        let feedback = Feedback {
            acked: &acked,
            lost,
            newly: 1000,
            in_flight: 1_000_000,
            rtt,
            srtt,
        };
        scream.reported(now, &feedback);
    }

    /// Section 4.1.2.2.
    #[test]
    fn the_window_shrinks_once_per_round_trip() {
        let mut scream = scream();
        let now = Time::ZERO + Span::s(1);
        (scream.cwnd, scream.target) = (100_000.0, 1e6);
        report(&mut scream, now, Span::ms(20), 3, false);
        assert!((scream.cwnd - 80_000.0).abs() < 1e-6);
        assert!((scream.target - 900_000.0).abs() < 1e-6);
        let before = scream.cwnd;
        report(&mut scream, now + Span::ms(10), Span::ms(20), 3, true);
        assert!(scream.cwnd <= before && scream.events == 1);
        scream.cwnd = 100_000.0;
        report(&mut scream, now + Span::ms(60), Span::ms(20), 0, true);
        assert!((scream.cwnd - 90_000.0).abs() < 1e-6);
        assert!((scream.target - 810_000.0).abs() < 1e-6);
    }

    /// The increase of the window is that of LEDBAT: none at the target of the queueing delay.
    #[test]
    fn the_window_follows_the_queueing_delay() {
        let mut scream = scream();
        scream.fast = false;
        scream.compensate = false;
        scream.in_flight[0] = (0, 1e9);
        report(&mut scream, Time::ZERO + Span::s(1), Span::ms(20), 0, false);
        for (queueing, law) in [(0, 1.0), (50, 0.5), (100, 0.0), (150, -0.5)] {
            scream.cwnd = 100_000.0;
            let delay = Span::ms(20 + queueing);
            report(&mut scream, Time::ZERO + Span::s(2), delay, 0, false);
            let change = law * 1000.0 * 1000.0 / 100_000.0;
            assert!(
                (scream.cwnd - 100_000.0 - change).abs() < 1e-6,
                "{queueing}"
            );
        }
    }

    /// Section 4.2.1.
    #[test]
    fn reports_come_more_often_at_higher_rates() {
        let ms = |rate| scream().interval(rate).as_ms();
        assert_eq!((ms(0.0), ms(100_000.0), ms(1e7)), (400.0, 100.0, 20.0));
    }
}
