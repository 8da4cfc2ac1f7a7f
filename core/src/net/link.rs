//! Links with an exact rate: no rounding error accumulates over any number of packets.
//!
//! Work is counted in bit-nanoseconds. A packet of `L` bytes is `L × 8 × 10⁹` bit-nanoseconds; a
//! link of `r` bit/s does `r` bit-nanoseconds per nanosecond. All links compute in these integers.
//! Only the instants that they report are rounded (up, or with the remainder carried), so the error
//! never exceeds one nanosecond.
//!
//! - [`Serial`]: a wire. A packet has left when the time `L / r` has passed since its transmission
//!   began.
//! - [`TokenBucket`] with debt, for one class of Linux's `htb`. The head of the queue, of any size,
//!   leaves as soon as the bucket has no debt, and is charged afterwards. Source: Linux 6.12
//!   `sch_htb`.
//! - [`TokenBucket`] without debt: Linux's `tbf`. Tokens arrive at the rate, up to `burst` bytes.
//!   The head of the queue leaves when the tokens suffice. The bucket starts full. With a peak
//!   rate, a second bucket of `mtu` bytes fills at that rate, and a packet needs both. Source:
//!   tc-tbf(8), Linux 6.12 `sch_tbf`. Linux keeps tokens in whole nanoseconds; this file keeps the
//!   remainder too.
//! - [`Shaper`](super::shape::Shaper): traffic shaping of routers, a bucket that is filled once per
//!   interval.
//!
//! Wire and bucket also follow a [`RateSchedule`]; the integral of the rate then replaces rate ×
//! time. A packet in service slows down and speeds up with the rate, and stops during an outage.

use super::ElementKind;
use super::rate_schedule::{Pace, RateSchedule};
use crate::param::{Kind, Param, Params, Refusal, no_check};
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::String;

/// The kinds of links, as scenarios name them.
pub const KINDS: &[ElementKind] = &[
    ElementKind {
        name: "serial",
        help: "a serial line: one packet after the other, each for its transmission time",
        source: "closed form",
        params: &[],
        check: no_check,
    },
    ElementKind {
        name: "tbf",
        help: "a token bucket, as tbf of tc",
        source: "tc-tbf(8), Linux 6.12 sch_tbf",
        params: TBF,
        check: check_tbf,
    },
    ElementKind {
        name: "htb",
        help: "one class of tc's htb: a packet may leave while the number of tokens is not \
         negative, even if it makes this number negative",
        source: "Linux 6.12 sch_htb",
        params: &[BURST],
        check: check_burst,
    },
    ElementKind {
        name: "shape_average",
        help: "shaper of a router: bc bytes in each interval of bc / rate, and after idle time up \
         to be bytes more",
        source: SHAPING,
        params: SHAPE,
        check: check_shape,
    },
    ElementKind {
        name: "shape_peak",
        help: "shaper of a router: bc + be bytes in each interval of bc / rate; its target rate \
            is rate x (1 + be / bc)",
        source: SHAPING,
        params: SHAPE,
        check: check_shape,
    },
];

const SHAPING: &str = "Cisco, Policing and Shaping Overview (IOS 15.1)";
const MOST: Bytes = Bytes::new(1_000_000_000);
/// A full frame, which every bucket must hold.
const FRAME: Bytes = Bytes::new(1514);

const BURST: Param = Param {
    name: "burst",
    kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
    help: "bytes that may leave back to back after idle time; 0: 250us of the rate, at least 3080B",
    source: "tc-tbf(8), tc-htb(8)",
};
const TBF: &[Param] = &[
    BURST,
    Param {
        name: "peakrate",
        kind: Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::mbit(10_000_000)),
        help: "rate within a burst; 0: unlimited",
        source: "tc-tbf(8)",
    },
    Param {
        name: "mtu",
        kind: Kind::Bytes(FRAME, FRAME, MOST),
        help: "bytes that may leave back to back at peakrate",
        source: "tc-tbf(8)",
    },
];
const SHAPE: &[Param] = &[
    Param {
        name: "bc",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "committed burst: the bytes added in each interval; required",
        source: SHAPING,
    },
    Param {
        name: "be",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "excess burst",
        source: SHAPING,
    },
];

/// Checks that a bucket holds a full frame; otherwise no frame of this size would ever leave.
fn holds_a_frame(params: &Params, param: &'static str) -> Result<(), Refusal> {
    if params.bytes(param) >= FRAME {
        return Ok(());
    }
    Err(Refusal {
        param,
        problem: String::from("must hold a full frame, 1514B"),
        fix: String::from("\"1514B\""),
    })
}
fn check_burst(params: &Params) -> Result<(), Refusal> {
    match params.bytes("burst") {
        Bytes::ZERO => Ok(()),
        _ => holds_a_frame(params, "burst"),
    }
}
fn check_tbf(params: &Params) -> Result<(), Refusal> {
    check_burst(params)
}
fn check_shape(params: &Params) -> Result<(), Refusal> {
    if params.bytes("bc") == Bytes::ZERO {
        return Err(Refusal {
            param: "bc",
            problem: String::from("must be given"),
            fix: String::from("\"25kB\""),
        });
    }
    holds_a_frame(params, "bc")
}

/// Bit-nanoseconds in a byte.
const PER_BYTE: u64 = 8_000_000_000;

/// Returns the work of sending `size`.
fn work(size: Bytes) -> u64 {
    size.get().saturating_mul(PER_BYTE)
}

/// The rate at which work is done.
#[derive(Clone, Debug)]
enum Flow {
    /// A constant rate in bit/s, never zero.
    Constant(u64),
    Varying(Box<Pace>),
}

impl Flow {
    fn constant(rate: Rate) -> Flow {
        Flow::Constant(rate.as_bit().max(1))
    }
    fn following(schedule: RateSchedule) -> Flow {
        Flow::Varying(Box::new(Pace::new(schedule)))
    }
    /// Returns the work done from one time to a later one.
    #[inline]
    fn done(&mut self, from: Time, to: Time) -> u64 {
        match self {
            Flow::Constant(bits) => to.since(from).as_ns().saturating_mul(*bits),
            Flow::Varying(pace) => pace.work(from, to),
        }
    }
    /// Returns the first time at which `work` is done.
    #[inline]
    fn when(&mut self, from: Time, work: u64) -> Time {
        match self {
            Flow::Constant(bits) => from + Span::ns(work.div_ceil(*bits)),
            Flow::Varying(pace) => pace.when(from, work),
        }
    }
}

/// A wire: one packet after the other.
#[derive(Clone, Debug)]
pub struct Serial {
    flow: Flow,
    free_at: Time,
    remainder: u64,
    last: Division,
}

/// The work of the packet served last, divided by a constant rate. Most packets have the size of
/// the one before, so that they need no division.
#[derive(Copy, Clone, Debug, Default)]
struct Division {
    size: Bytes,
    ns: u64,
    remainder: u64,
}

impl Serial {
    /// Creates an idle wire of constant rate (at least 1 bit/s).
    pub fn new(rate: Rate) -> Serial {
        Serial::with(Flow::constant(rate))
    }
    /// Creates an idle wire with a varying rate. The departure of a packet that never leaves is one
    /// nanosecond before [`Time::MAX`].
    pub fn following(schedule: RateSchedule) -> Serial {
        Serial::with(Flow::following(schedule))
    }
    fn with(flow: Flow) -> Serial {
        Serial {
            flow,
            free_at: Time::ZERO,
            remainder: 0,
            last: Division::default(),
        }
    }
    /// Returns whether the rate is constant.
    pub fn is_constant(&self) -> bool {
        matches!(self.flow, Flow::Constant(_))
    }
    /// Starts to send a packet of `size` bytes at `now`, and returns the time at which it has left.
    /// `now` is not earlier than the time returned last.
    #[inline]
    pub fn serve(&mut self, now: Time, size: Bytes) -> Time {
        if now != self.free_at {
            (self.free_at, self.remainder) = (now, 0);
        }
        self.serve_next(size)
    }
    /// As [`serve`](Self::serve), from the time returned last.
    #[inline]
    pub fn serve_next(&mut self, size: Bytes) -> Time {
        let now = self.free_at;
        (self.free_at, self.remainder) = match &mut self.flow {
            Flow::Constant(bits) => {
                if self.last.size != size {
                    let work = work(size);
                    self.last = Division {
                        size,
                        ns: work / *bits,
                        remainder: work % *bits,
                    };
                }
                let Division { ns, remainder, .. } = self.last;
                let missing = *bits - remainder;
                if self.remainder >= missing {
                    (now + Span::ns(ns + 1), self.remainder - missing)
                } else {
                    (now + Span::ns(ns), self.remainder + remainder)
                }
            }
            Flow::Varying(pace) => pace.reach(now, work(size).saturating_add(self.remainder)),
        };
        self.free_at
    }
}

/// A token bucket.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    flow: Flow,
    burst: Bytes,
    tokens: u64,
    /// Bytes sent without tokens, as work; `None` where no debt is allowed.
    owed: Option<u64>,
    /// The bucket of the peak rate.
    peak: Option<Peak>,
    at: Time,
}

/// The second bucket, for the peak rate.
#[derive(Copy, Clone, Debug)]
struct Peak {
    bits: u64,
    depth: u64,
    tokens: u64,
}

/// Returns the limit of `tbf` in bytes that corresponds to a `latency`. With this limit, no packet
/// waits longer than `latency`, neither for the rate nor for the peak rate. Source: tc-tbf(8).
pub fn limit_for(latency: Span, rate: Rate, burst: Bytes, peak: Option<(Rate, Bytes)>) -> Bytes {
    let limit = rate * latency + burst;
    match peak {
        Some((peak, mtu)) => limit.min(peak * latency + mtu),
        None => limit,
    }
}

impl TokenBucket {
    /// Creates a full bucket of `burst` bytes.
    pub fn new(rate: Rate, burst: Bytes) -> TokenBucket {
        TokenBucket {
            flow: Flow::constant(rate),
            burst,
            tokens: work(burst),
            owed: None,
            peak: None,
            at: Time::ZERO,
        }
    }
    /// Returns this bucket with a peak rate: at most `mtu` bytes at once, then at `peak`.
    pub fn with_peak(self, peak: Rate, mtu: Bytes) -> TokenBucket {
        let peak = Peak {
            bits: peak.as_bit().max(1),
            depth: work(mtu),
            tokens: work(mtu),
        };
        TokenBucket {
            peak: Some(peak),
            ..self
        }
    }
    /// Creates a full bucket of `burst` bytes that lends: a packet of any size leaves while the
    /// bucket has no debt.
    pub fn owing(rate: Rate, burst: Bytes) -> TokenBucket {
        TokenBucket {
            owed: Some(0),
            ..TokenBucket::new(rate, burst)
        }
    }
    /// Returns this bucket with a varying rate; a peak rate stays constant.
    pub fn following(self, schedule: RateSchedule) -> TokenBucket {
        TokenBucket {
            flow: Flow::following(schedule),
            ..self
        }
    }
    /// Returns whether a packet of `size` would wait forever.
    pub fn never_passes(&self, size: Bytes) -> bool {
        let too_long = |peak: Peak| work(size) > peak.depth;
        self.owed.is_none() && (size > self.burst || self.peak.is_some_and(too_long))
    }
    /// Returns `Ok` if the bucket has no debt at `now`, otherwise the time at which the debt is
    /// paid.
    #[inline]
    pub fn ready(&mut self, now: Time) -> Result<(), Time> {
        self.earn(now);
        match self.owed {
            Some(owed) if owed > 0 => match self.flow.when(now, owed) {
                paid if paid > now => Err(paid),
                // The end of time: a caller that waited for it would wait forever at that instant.
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
    /// Charges `size` bytes at `now`, even without tokens. It is for buckets that lend.
    #[inline]
    pub fn charge(&mut self, now: Time, size: Bytes) {
        self.earn(now);
        let lacking = work(size).saturating_sub(self.tokens);
        self.tokens = self.tokens.saturating_sub(work(size));
        if let Some(owed) = &mut self.owed {
            *owed = owed.saturating_add(lacking);
        }
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak.tokens.saturating_sub(work(size));
        }
    }
    /// Takes the tokens for `size` bytes at `now`, or returns the time when there are enough.
    pub fn take(&mut self, now: Time, size: Bytes) -> Result<(), Time> {
        self.ready(now)?;
        if self.owed.is_none() {
            let missing = |tokens: u64| work(size).saturating_sub(tokens);
            let mut enough = self.flow.when(now, missing(self.tokens));
            if let Some(peak) = &self.peak {
                enough = enough.max(now + Span::ns(missing(peak.tokens).div_ceil(peak.bits)));
            }
            if enough > now {
                return Err(enough);
            }
        }
        self.charge(now, size);
        Ok(())
    }
    /// Adds the tokens since the last call; they pay debts first.
    #[inline]
    fn earn(&mut self, now: Time) {
        let passed = now.since(self.at).as_ns();
        if passed == 0 {
            return;
        }
        let mut earned = self.flow.done(self.at, now);
        if let Some(owed) = &mut self.owed {
            let paid = earned.min(*owed);
            *owed -= paid;
            earned -= paid;
        }
        self.tokens = self.tokens.saturating_add(earned).min(work(self.burst));
        if let Some(peak) = &mut self.peak {
            let tokens = peak.tokens.saturating_add(passed.saturating_mul(peak.bits));
            peak.tokens = tokens.min(peak.depth);
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_million_small_packets_at_100_gbit_take_exactly_their_time() {
        // 64 B at 100 Gbit/s is 5.12 ns.
        let mut wire = Serial::new(Rate::mbit(100_000));
        let mut now = Time::from_ns(7);
        for _ in 0..1_000_000 {
            now = wire.serve(now, Bytes::new(64));
        }
        assert_eq!(now, Time::from_ns(7 + 5_120_000));
    }

    #[test]
    fn idleness_forgets_the_remainder() {
        let mut wire = Serial::new(Rate::mbit(100_000));
        assert_eq!(wire.serve(Time::ZERO, Bytes::new(64)), Time::from_ns(5));
        assert_eq!(
            wire.serve(Time::from_ns(100), Bytes::new(64)),
            Time::from_ns(105)
        );
    }

    #[test]
    fn a_bucket_in_debt_passes_one_more_packet_and_repays_first() {
        let mut bucket = TokenBucket::owing(Rate::mbit(8), Bytes::new(3000));
        let now = Time::from_ns(5_000_000_000);
        for size in [1500, 1400, 1500] {
            assert_eq!(bucket.take(now, Bytes::new(size)), Ok(()));
        }
        // 1400 B are owed at 1 B/us.
        let paid = now + Span::us(1400);
        assert_eq!(bucket.take(now, Bytes::new(1)), Err(paid));
        assert_eq!(bucket.take(paid, Bytes::new(60_000)), Ok(()));
        assert_eq!(bucket.take(paid, Bytes::new(1)), Err(paid + Span::ms(60)));
        assert!(!bucket.never_passes(Bytes::new(60_000)));
    }

    #[test]
    fn a_bucket_holds_its_burst_and_no_more() {
        let mut bucket = TokenBucket::new(Rate::mbit(8), Bytes::new(3000));
        let now = Time::from_ns(5_000_000_000);
        assert_eq!(bucket.take(now, Bytes::new(1500)), Ok(()));
        assert_eq!(bucket.take(now, Bytes::new(1500)), Ok(()));
        // 1500 B at 1 B/us.
        assert_eq!(
            bucket.take(now, Bytes::new(1500)),
            Err(now + Span::us(1500))
        );
        assert_eq!(bucket.take(now + Span::us(1500), Bytes::new(1500)), Ok(()));
    }

    #[test]
    fn a_peak_spreads_the_burst() {
        // 1 B/us, and 2 B/us within a burst.
        let mut bucket = TokenBucket::new(Rate::mbit(8), Bytes::new(6000))
            .with_peak(Rate::mbit(16), Bytes::new(1500));
        let mut now = Time::from_ns(5_000_000_000);
        let begin = now;
        let mut left = Vec::new();
        while left.len() < 12 {
            match bucket.take(now, Bytes::new(1500)) {
                Ok(()) => left.push(now.since(begin)),
                Err(later) => now = later,
            }
        }
        // The burst lasts until n packets x 1500 us = 6000 us + n packets x 750 us, then the rate
        // holds.
        let us = [
            0, 750, 1500, 2250, 3000, 3750, 4500, 6000, 7500, 9000, 10_500, 12_000,
        ];
        assert_eq!(left, us.map(Span::us));
        assert!(bucket.never_passes(Bytes::new(1501)) && !bucket.never_passes(Bytes::new(1500)));
    }

    #[test]
    fn a_latency_becomes_a_limit() {
        let (rate, burst) = (Rate::mbit(8), Bytes::new(6000));
        assert_eq!(
            limit_for(Span::ms(50), rate, burst, None),
            Bytes::new(56_000)
        );
        let peak = Some((Rate::mbit(8), Bytes::new(1600)));
        assert_eq!(
            limit_for(Span::ms(50), rate, burst, peak),
            Bytes::new(51_600)
        );
    }

    #[test]
    fn a_bucket_keeps_its_rate_over_a_million_packets() {
        // 1514 B at 7 Mbit/s is 1730285.714… ns.
        let mut bucket = TokenBucket::new(Rate::mbit(7), Bytes::new(2 * 1514));
        let mut now = Time::ZERO;
        for _ in 0..1_000_002 {
            while let Err(later) = bucket.take(now, Bytes::new(1514)) {
                now = later;
            }
        }
        assert_eq!(
            now,
            Time::from_ns((1514 * PER_BYTE * 1_000_000).div_ceil(7_000_000))
        );
    }
}
