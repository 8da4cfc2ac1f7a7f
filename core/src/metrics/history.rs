//! The samples and points of a flow, in few bytes: thousands of flows have ten samples a second.
//!
//! A number takes one byte for every seven bits, the lowest bits first. The highest bit of a byte
//! is set if another byte follows (LEB128). A time is stored in a larger unit if it is a multiple
//! of this unit; its lowest bit states the unit. All values are exact, except for an RTT above half
//! an hour, which a sample limits to that value.

use super::SERIES_INTERVAL;
use crate::cc::NO_WINDOW;
use crate::tcp::Info;
use crate::units::{Span, Time};
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Numbers, each one of 1 to 10 bytes.
#[derive(Clone, Debug, Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
    /// Adds a time in ns, in units of `unit` if possible.
    fn push_time(&mut self, ns: u64, unit: Span) {
        if ns % unit.as_ns() == 0 {
            self.push((ns / unit.as_ns()) << 1);
        } else {
            self.push(ns << 1 | 1);
        }
    }
    fn iter(&self) -> Reader<'_> {
        Reader(&self.0)
    }
}

/// The numbers that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }
    fn time(&mut self, unit: Span) -> Option<u64> {
        let number = self.number()?;
        let scale = if number & 1 == 0 { unit.as_ns() } else { 1 };
        Some((number >> 1) * scale)
    }
}

/// A sample of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    /// The smoothed RTT, µs.
    pub srtt_us: u32,
    /// Whether an ACK arrived since the sample before. Otherwise the RTT is an old one.
    pub is_fresh: bool,
    /// Packets; `None` if no window limits the flow.
    pub cwnd: Option<NonZeroU32>,
}

/// Maximum RTT of a sample, µs.
const LONGEST_US: u32 = (1 << 31) - 1;

impl Sample {
    /// A sample of this state.
    pub fn of(info: &Info, is_fresh: bool) -> Sample {
        let srtt_us = u32::try_from(info.srtt.as_us()).unwrap_or(LONGEST_US);
        Sample {
            srtt_us: srtt_us.min(LONGEST_US),
            is_fresh,
            cwnd: NonZeroU32::new(info.cwnd).filter(|cwnd| cwnd.get() != NO_WINDOW),
        }
    }
}

/// The samples of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleHistory(Numbers);

impl SampleHistory {
    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        let srtt = u64::from(sample.srtt_us);
        self.0.push(srtt << 1 | u64::from(sample.is_fresh));
        self.0
            .push(u64::from(sample.cwnd.map_or(0, NonZeroU32::get)));
    }
    /// All samples, in order.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        let mut numbers = self.0.iter();
        core::iter::from_fn(move || {
            let (srtt, cwnd) = (numbers.number()?, numbers.number()?);
            Some(Sample {
                srtt_us: (srtt >> 1) as u32,
                is_fresh: srtt & 1 == 1,
                cwnd: NonZeroU32::new(cwnd as u32),
            })
        })
    }
}

/// The points of a flow's series.
#[derive(Clone, Debug, Default)]
pub(super) struct Series(Numbers);

impl Series {
    /// Adds a point.
    pub fn push(&mut self, now: Time, info: &Info) {
        self.0.push_time(now.as_ns(), SERIES_INTERVAL);
        self.0.push(info.bytes_acked);
        self.0.push(u64::from(info.cwnd));
        self.0.push_time(info.srtt.as_ns(), Span::us(1));
    }
    /// All points: time in seconds, bytes acknowledged, window in packets, smoothed RTT in
    /// milliseconds.
    pub fn points(&self) -> Vec<(f64, u64, u32, f64)> {
        let mut numbers = self.0.iter();
        let point = || {
            Some((
                Time::from_ns(numbers.time(SERIES_INTERVAL)?).as_s(),
                numbers.number()?,
                numbers.number()? as u32,
                Span::ns(numbers.time(Span::us(1))?).as_ms(),
            ))
        };
        core::iter::from_fn(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_and_points_are_read_as_they_were_written() {
        let (mut samples, mut series) = (SampleHistory::default(), Series::default());
        let (mut sampled, mut points) = (Vec::new(), Vec::new());
        let times = [0, 1_000_000_000, 1_000_000_001, u64::MAX / 4];
        let spans = [0, 999, 1000, 40_000_000, 40_000_001, 10_000_000_000_000];
        for (at, srtt) in times
            .into_iter()
            .flat_map(|at| spans.map(|srtt| (at, srtt)))
        {
            for (cwnd, bytes_acked) in [(1, 0), (127, 127), (128, 128), (NO_WINDOW, u64::MAX)] {
                let info = Info {
                    srtt: Span::ns(srtt),
                    cwnd,
                    bytes_acked,
                    ..Info::default()
                };
                let now = Time::from_ns(at);
                sampled.push(Sample::of(&info, at % 2 == 0));
                samples.push(Sample::of(&info, at % 2 == 0));
                points.push((now.as_s(), bytes_acked, cwnd, Span::ns(srtt).as_ms()));
                series.push(now, &info);
            }
        }
        assert!(samples.iter().eq(sampled.iter().copied()));
        assert_eq!(series.points(), points);
        assert_eq!(sampled[3].cwnd, None);
        assert_eq!(sampled.last().unwrap().srtt_us, LONGEST_US);
    }

    /// An RTT of 40 ms and a window of less than 128 packets.
    #[test]
    fn a_typical_sample_needs_four_bytes_and_a_point_nine() {
        let info = Info {
            srtt: Span::ms(40),
            cwnd: 100,
            bytes_acked: 100_000_000,
            ..Info::default()
        };
        let (mut samples, mut series) = (SampleHistory::default(), Series::default());
        samples.push(Sample::of(&info, true));
        series.push(Time::ZERO + Span::s(8), &info);
        assert_eq!((samples.0.0.len(), series.0.0.len()), (4, 9));
    }
}
