//! Frames of a video encoder.
//!
//! Algorithm: frame n is captured `n / fps` after the start. Its size is `target / fps`, times one
//! plus a Laplace-distributed number of scale `spread`, clipped to −1 to 1. Source: RFC 8593,
//! the steady state of the statistical model.
//!
//! Deviations: frames come at equal intervals, and the encoder follows its target at once and
//! without transients.

use super::Setting;
use crate::param::Params;
use crate::rng::Rng;
use crate::units::{Span, Time};

pub(super) struct Source {
    fps: u64,
    spread: f64,
    /// Largest UDP payload of a packet, bytes.
    pub packet: u16,
    sizes: Rng,
    started: Time,
    frame: u64,
}

impl Source {
    pub fn new(params: &Params, setting: Setting) -> Source {
        Source {
            fps: params.count("fps").max(1),
            spread: params.number("spread"),
            packet: params.bytes("packet").get() as u16,
            sizes: Rng::named(setting.seed, "frames"),
            started: Time::ZERO,
            frame: 0,
        }
    }
    pub fn start(&mut self, now: Time) {
        self.started = now;
    }
    /// Time between two frames.
    pub fn interval(&self) -> Span {
        Span::ns(1_000_000_000 / self.fps)
    }
    /// Time of the next frame.
    pub fn due(&self) -> Time {
        self.started
            + Span::ns((u128::from(self.frame) * 1_000_000_000 / u128::from(self.fps)) as u64)
    }
    /// Encodes a frame at `target` bit/s; returns its number and its size in bytes.
    pub fn frame(&mut self, target: f64) -> (u64, u64) {
        let frame = self.frame;
        self.frame += 1;
        let side = self.sizes.unit() - 0.5;
        let size = -self.spread * libm::log(1.0 - 2.0 * side.abs().min(0.499_999)) * side.signum();
        let bytes = target / 8.0 / self.fps as f64 * (1.0 + size.clamp(-1.0, 1.0));
        (frame, (bytes as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::rtc::gcc::KIND;

    #[test]
    fn frames_have_the_target_rate_and_the_spread_of_a_laplace_distribution() {
        let setting = Setting {
            seed: 1,
            from: Time::ZERO,
            end: Time::ZERO + Span::s(1),
            datagram: crate::workload::MOST_DATAGRAM,
            ip: crate::packet::Ip::V4,
        };
        let mut source = Source::new(&Params::defaults(KIND.params), setting);
        let sizes: alloc::vec::Vec<f64> = (0..30_000)
            .map(|_| source.frame(3e6).1 as f64 / 12_500.0)
            .collect();
        let mean = sizes.iter().sum::<f64>() / 30_000.0;
        let deviation = sizes.iter().map(|x| (x - 1.0).abs()).sum::<f64>() / 30_000.0;
        // The mean absolute deviation of a Laplace distribution is its scale.
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
        assert!((deviation - 0.15).abs() < 0.005, "{deviation}");
        assert_eq!(source.due(), Time::ZERO + Span::s(1000));
    }
}
