//! TIMELY: a pacing rate that follows the gradient of the RTT, for data centres.
//!
//! Algorithm, at every completed segment of 64 KiB, with `rtt` the RTT of the segment without its
//! own transmission time: `diff ← (1 − α) diff + α (rtt − rtt of the last segment)`, `gradient =
//! diff/20 µs`;
//! - `rtt < 50 µs`: `rate += δ`; `rtt > 500 µs`: `rate *= 1 − β (1 − 500 µs/rtt)`;
//! - between them, `gradient ≤ 0`: `rate += N δ`, with `N = 5` from the fifth segment in a row with
//!   `gradient ≤ 0` on, before `N = 1`; `gradient > 0`: `rate *= 1 − β gradient`.
//!
//! Between the thresholds, nothing determines the length of the queue or the shares of flows. Any
//! queue length is stable, and so are any rates whose sum is the rate of the link. There is no
//! unique fixed point, and flows need not be fair. Source: Zhu, Ghobadi, Misra, Padhye, "ECN or
//! delay: lessons learnt from analysis of DCQCN and TIMELY", CoNEXT 2016.
//!
//! Source: Mittal et al., "TIMELY: RTT-based congestion control for the datacenter" (SIGCOMM 2015).
//! The values of α and the minimum RTT (20 µs) are from the paper of 2016. The defaults are for 10
//! Gbit/s. TIMELY was designed for network cards that send and time segments. Over TCP:
//! - a segment is 64 KiB of data acknowledged in order, in whole packets. Bursts have this size.
//!   The RTT of a segment is the minimum of the RTTs of its ACKs. This is the RTT of its first
//!   packets, because the other packets wait behind them. The paper uses the RTT of the last packet
//!   and subtracts the transmission time of the segment at the rate of the card. Both results are
//!   equal if card and bottleneck are equally fast;
//! - a flow begins at the line rate, and its rate stays between `δ` and the line rate. In the
//!   paper, the initial rate is divided by the number of flows of the host, which is one here;
//! - no segment reduces the rate by more than half, as in the authors' published code. Without this
//!   limit, a gradient above 1/β would reduce the rate to zero;
//! - the window limits nothing. Lost packets are retransmitted without an effect on the rate,
//!   because the paper's network is lossless.

use super::{
    Ack, CcKind, CongestionControl, Family, Host, Loss, NO_WINDOW, Need, Sample, SpuriousLoss,
    Start, Window,
};
use crate::param::{Kind, Param, Params};
use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "line_rate",
        kind: Kind::Rate(Rate::mbit(10_000), Rate::bit(1_000), Rate::mbit(10_000_000)),
        help: "rate of the host's link: the initial and the largest rate of a flow",
        source: "TIMELY (SIGCOMM 2015) section 6: 10 Gbit/s",
    },
    Param {
        name: "segment",
        kind: Kind::Bytes(Bytes::new(65_536), Bytes::new(1), Bytes::new(1 << 30)),
        help: "bytes between two updates of the rate, which leave as one burst",
        source: "TIMELY (SIGCOMM 2015) section 5: 16 to 64 KB",
    },
    Param {
        name: "t_low",
        kind: Kind::Span(Span::us(50), Span::ZERO, Span::s(10)),
        help: "RTT below which the rate grows regardless of the gradient",
        source: "TIMELY (SIGCOMM 2015) section 6: 50 us",
    },
    Param {
        name: "t_high",
        kind: Kind::Span(Span::us(500), Span::ns(1), Span::s(10)),
        help: "RTT above which the rate falls regardless of the gradient",
        source: "TIMELY (SIGCOMM 2015) section 6: 500 us",
    },
    Param {
        name: "min_rtt",
        kind: Kind::Span(Span::us(20), Span::ns(1), Span::s(10)),
        help: "RTT of the path; changes of the RTT are relative to it",
        source: "Zhu et al. (CoNEXT 2016) table 2: 20 us",
    },
    Param {
        name: "delta",
        kind: Kind::Rate(Rate::mbit(10), Rate::bit(1), Rate::mbit(1_000_000)),
        help: "additive increase, also the smallest rate",
        source: "TIMELY (SIGCOMM 2015) section 6: 10 Mbit/s",
    },
    Param {
        name: "alpha",
        kind: Kind::Number(0.875, 0.0, 1.0),
        help: "weight of the newest difference between two RTTs",
        source: "Zhu et al. (CoNEXT 2016) table 2: 0.875",
    },
    Param {
        name: "beta",
        kind: Kind::Number(0.8, 0.0, 1.0),
        help: "factor of the multiplicative decrease",
        source: "TIMELY (SIGCOMM 2015) section 6: 0.8",
    },
    Param {
        name: "hai_after",
        kind: Kind::Count(5, 1, 1_000_000),
        help: "segments in a row without a rising RTT after which the increase is five times as \
            large",
        source: "TIMELY (SIGCOMM 2015) section 4.3: five",
    },
];

/// `N` from the fifth segment without a rising RTT on (hyperactive increase).
const HURRY: f64 = 5.0;
/// Minimum of the rate after a segment, as a share of the rate before.
const LEFT: f64 = 0.5;

/// The state of TIMELY.
#[derive(Clone, Debug)]
pub struct Timely {
    line_rate: f64,
    /// Packets per segment.
    segment: u32,
    t_low: f64,
    t_high: f64,
    min_rtt: f64,
    delta: f64,
    alpha: f64,
    beta: f64,
    hai_after: u64,

    /// The pacing rate, bit/s.
    rate: f64,
    /// The RTT of the last segment, s.
    last: Option<f64>,
    /// The smoothed difference between the RTTs of successive segments, s.
    diff: f64,
    /// Number of successive segments with `gradient ≤ 0`.
    calm: u64,
    /// The minimum RTT of the present segment.
    least: Option<Span>,
    /// The segment is complete when every byte below this one is acknowledged.
    segment_ends: u64,
    /// Payload of a full segment, in bytes.
    mss: u64,
}

impl Timely {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Timely {
        let line_rate = params.rate("line_rate").as_bit() as f64;
        let packets = params.bytes("segment").get() / u64::from(host.mss);
        Timely {
            line_rate,
            mss: u64::from(host.mss),
            segment: packets.clamp(1, u64::from(u32::MAX)) as u32,
            t_low: params.span("t_low").as_s(),
            t_high: params.span("t_high").as_s(),
            min_rtt: params.span("min_rtt").as_s(),
            delta: params.rate("delta").as_bit() as f64,
            alpha: params.number("alpha"),
            beta: params.number("beta"),
            hai_after: params.count("hai_after"),
            rate: line_rate,
            last: None,
            diff: 0.0,
            calm: 0,
            least: None,
            segment_ends: 0,
        }
    }

    /// Computes the rate after a complete segment with an RTT of `rtt` seconds.
    fn complete(&mut self, rtt: f64) {
        let change = rtt - self.last.unwrap_or(rtt);
        self.last = Some(rtt);
        self.diff = (1.0 - self.alpha) * self.diff + self.alpha * change;
        let gradient = self.diff / self.min_rtt;
        self.calm = if gradient <= 0.0 {
            self.calm.saturating_add(1)
        } else {
            0
        };
        let rate = if rtt < self.t_low {
            self.rate + self.delta
        } else if rtt > self.t_high {
            self.rate * (1.0 - self.beta * (1.0 - self.t_high / rtt))
        } else if gradient <= 0.0 {
            let n = if self.calm >= self.hai_after {
                HURRY
            } else {
                1.0
            };
            self.rate + n * self.delta
        } else {
            self.rate * (1.0 - self.beta * gradient)
        };
        let rate = rate.max(self.rate * LEFT);
        self.rate = rate.min(self.line_rate).max(self.delta);
    }

    fn show(&self, w: &mut Window) {
        w.cwnd = NO_WINDOW.min(w.clamp);
        w.pacing = Some(Rate::bit(self.rate as u64));
        w.min_burst = self.segment;
    }
}

impl CongestionControl for Timely {
    fn on_start(&mut self, w: &mut Window, _ev: &Start) {
        self.show(w);
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        if let Some(rtt) = ev.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if ev.una < self.segment_ends {
            return;
        }
        self.segment_ends = ev.una + u64::from(self.segment) * self.mss;
        if let Some(rtt) = self.least.take() {
            self.complete(rtt.as_s());
        }
    }

    fn on_ack(&mut self, w: &mut Window, _ev: &Ack) {
        self.show(w);
    }

    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}

    fn on_spurious_loss(&mut self, w: &mut Window, _ev: &SpuriousLoss) {
        self.show(w);
    }

    fn in_slow_start(&self, _w: &Window) -> bool {
        false
    }
    fn owns_recovery(&self) -> bool {
        true
    }
    fn needs_pacing(&self) -> bool {
        true
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("rate_mbit", self.rate / 1e6);
        visit("gradient", self.diff / self.min_rtt);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "timely",
    help: "for data centres: the rate depends on how fast the RTT rises or falls",
    source: "Mittal et al., SIGCOMM 2015",
    family: Family::Delay,
    year: 2015,
    needs: &[Need::Pacing, Need::FineRtt],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Timely::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;
    use alloc::vec::Vec;

    /// A flow at 1 Gbit/s whose last segment had an RTT of `us`.
    fn after(us: f64) -> Timely {
        Timely {
            rate: 1e9,
            last: Some(us / 1e6),
            ..Timely::new(&Params::defaults(PARAMS), &Host::default())
        }
    }

    fn rate(t: &mut Timely, us: f64) -> f64 {
        t.complete(us / 1e6);
        t.rate / 1e6
    }

    #[track_caller]
    fn near(rate: f64, expected: f64) {
        assert!((rate - expected).abs() < 1e-6, "{rate} {expected}");
    }

    #[test]
    fn below_the_low_threshold_it_grows_whatever_the_gradient() {
        near(rate(&mut after(20.0), 49.9), 1010.0);
        near(rate(&mut after(49.9), 30.0), 1010.0);
    }

    /// An RTT of 1000 µs is twice the threshold, so the rate is reduced by 0.8 · ½.
    #[test]
    fn above_the_high_threshold_it_falls_whatever_the_gradient() {
        near(rate(&mut after(2000.0), 1000.0), 600.0);
        near(rate(&mut after(900.0), 1000.0), 600.0);
        near(rate(&mut after(500.0), 501.0), 1000.0 * (1.0 - 0.8 / 501.0));
    }

    /// An increase from 100 to 101 µs is 0.875 µs smoothed. The gradient is 0.04375, and the rate
    /// is reduced by 0.8 of that. With 2 µs more, the smoothed increase is 1.859375 µs.
    #[test]
    fn between_them_it_falls_with_the_gradient() {
        let mut t = after(100.0);
        near(rate(&mut t, 101.0), 965.0);
        near(rate(&mut t, 103.0), 965.0 * (1.0 - 0.8 * 1.859375 / 20.0));
    }

    /// Without the limit, an increase of the RTT by more than 1/(0.8 · 0.875) of the minimum would
    /// make the rate negative.
    #[test]
    fn no_segment_reduces_the_rate_by_more_than_half() {
        near(rate(&mut after(100.0), 400.0), 500.0);
    }

    #[test]
    fn the_rate_never_falls_below_the_increase_nor_rises_above_the_line() {
        let mut t = after(100.0);
        t.rate = 1.1e7;
        near(rate(&mut t, 400.0), 10.0);
        let mut t = after(30.0);
        t.rate = 9.995e9;
        near(rate(&mut t, 30.0), 10_000.0);
    }

    /// Segments with falling or constant RTTs add 10 Mbit/s each, and 50 Mbit/s from the fifth on.
    #[test]
    fn from_the_fifth_calm_segment_on_it_hurries() {
        let mut t = after(300.0);
        let rates: Vec<f64> = [290.0, 290.0, 280.0, 280.0, 270.0, 270.0]
            .map(|us| rate(&mut t, us))
            .into();
        for (rate, expected) in rates
            .iter()
            .zip([1010.0, 1020.0, 1030.0, 1040.0, 1090.0, 1140.0])
        {
            near(*rate, expected);
        }
        assert!(rate(&mut t, 290.0) < 1140.0 && t.calm == 0);
    }

    /// Segments of 45 packets; the minimum round trip of each counts.
    #[test]
    fn a_segment_has_one_round_trip_that_of_its_first_packets() {
        let mut t = Timely::new(&Params::defaults(PARAMS), &Host::default());
        let mut w = Window::new(10);
        t.on_start(&mut w, &Start::at(Time::ZERO));
        assert_eq!(
            (w.cwnd, w.min_burst, w.pacing),
            (NO_WINDOW, 45, Some(Rate::mbit(10_000)))
        );
        let mut seen = Vec::new();
        for packet in 1..=91u64 {
            let mut ev = Sample::at(Time::ZERO);
            ev.una = packet * 1448;
            ev.rtt = Some(Span::us(100 + packet % 45));
            t.on_sample(&mut w, &ev);
            seen.push(t.last.map_or(0, |s| libm::round(s * 1e6) as u64));
        }
        seen.dedup();
        assert_eq!(seen, [101, 100]);
    }

    #[test]
    fn neither_a_loss_nor_a_timeout_changes_anything() {
        let mut t = after(100.0);
        let mut w = Window::new(10);
        t.on_loss(&mut w, &Loss::at(Time::ZERO));
        w.cwnd = 1;
        t.on_ack(&mut w, &Ack::at(Time::ZERO));
        assert_eq!((w.cwnd, w.pacing), (NO_WINDOW, Some(Rate::mbit(1000))));
    }
}
