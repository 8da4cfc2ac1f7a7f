//! Units as types: a comparison of a gain with bytes does not compile.
//!
//! Time is in nanoseconds, rates are in bits per second, both in `u64`. Arithmetic saturates and
//! never panics.

mod text;
pub use text::{
    UnitError, format_bytes, format_rate, format_span, parse_bytes, parse_rate, parse_seconds,
    parse_span,
};
pub(crate) use text::{parse_bytes_near, parse_rate_near, parse_span_near};

use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in time: nanoseconds since the start of its clock. Comparable only within one clock.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(u64);

/// A length of time in nanoseconds; never negative.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Span(u64);

/// A time that may be absent, in the space of a [`Time`]. An absent time is [`Time::MAX`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MaybeTime(Time);

impl MaybeTime {
    /// The absent time.
    pub const NONE: MaybeTime = MaybeTime(Time::MAX);
    /// The time `at`.
    pub const fn at(at: Time) -> MaybeTime {
        MaybeTime(at)
    }
    /// Returns the time as an option.
    pub fn get(self) -> Option<Time> {
        (self.0 != Time::MAX).then_some(self.0)
    }
    /// Returns the time, or [`Time::MAX`].
    pub const fn or_max(self) -> Time {
        self.0
    }
    /// Returns whether there is a time and it is not after `now`.
    pub fn is_due(self, now: Time) -> bool {
        self.0 <= now
    }
    /// Returns whether there is no time.
    pub fn is_none(self) -> bool {
        self.0 == Time::MAX
    }
}

/// A number of bytes.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(u64);

/// A rate in bits per second (SI: 1 kbit = 1000 bit).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

/// A factor without dimension.
#[derive(Copy, Clone, PartialEq, PartialOrd, Default, Debug)]
pub struct Gain(pub f64);

impl Time {
    /// The earlier of two times; `None` is a time that never comes.
    pub fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
            (a, None) => a,
            (None, b) => b,
        }
    }
    /// The start of the clock.
    pub const ZERO: Time = Time(0);
    /// Later than every event.
    pub const MAX: Time = Time(u64::MAX);
    /// From nanoseconds since the start of the clock.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }
    /// Nanoseconds since the start of the clock.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the start of the clock (rounded down, as Linux's TCP clock).
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds since the start of the clock.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The span from `earlier` to `self`; zero when `earlier` is the later one.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// An empty span.
    pub const ZERO: Span = Span(0);
    /// From nanoseconds.
    pub const fn ns(n: u64) -> Span {
        Span(n)
    }
    /// From microseconds.
    pub const fn us(n: u64) -> Span {
        Span(n.saturating_mul(1_000))
    }
    /// From milliseconds.
    pub const fn ms(n: u64) -> Span {
        Span(n.saturating_mul(1_000_000))
    }
    /// From seconds.
    pub const fn s(n: u64) -> Span {
        Span(n.saturating_mul(1_000_000_000))
    }
    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }
    /// Milliseconds.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Seconds.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// From a count of bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }
    /// The count of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// From bits per second.
    pub const fn bit(n: u64) -> Rate {
        Rate(n)
    }
    /// From megabits per second.
    pub const fn mbit(n: u64) -> Rate {
        Rate(n.saturating_mul(1_000_000))
    }
    /// Bits per second.
    pub const fn as_bit(self) -> u64 {
        self.0
    }
    /// Megabits per second.
    pub fn as_mbit(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The rate at which `bytes` pass in `span`; `None` when the span is zero.
    ///
    /// ```
    /// use narrows_core::units::{Bytes, Rate, Span};
    /// assert_eq!(Rate::of(Bytes::new(125_000), Span::ms(100)), Some(Rate::mbit(10)));
    /// assert_eq!(Rate::of(Bytes::new(1), Span::ZERO), None);
    /// ```
    pub fn of(bytes: Bytes, span: Span) -> Option<Rate> {
        if span.0 == 0 {
            return None;
        }
        let bits = u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(span.0);
        Some(Rate(u64::try_from(bits).unwrap_or(u64::MAX)))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, s: Span) -> Time {
        Time(self.0.saturating_add(s.0))
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, s: Span) {
        *self = *self + s;
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, s: Span) -> Time {
        Time(self.0.saturating_sub(s.0))
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, s: Span) -> Span {
        Span(self.0.saturating_add(s.0))
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, s: Span) -> Span {
        Span(self.0.saturating_sub(s.0))
    }
}
impl Add for Bytes {
    type Output = Bytes;
    fn add(self, b: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(b.0))
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, b: Bytes) {
        *self = *self + b;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, b: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(b.0))
    }
}
impl Mul<Span> for Rate {
    type Output = Bytes;
    fn mul(self, s: Span) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(s.0) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}
impl Mul<Bytes> for Gain {
    type Output = Bytes;
    fn mul(self, b: Bytes) -> Bytes {
        Bytes((self.0 * b.0 as f64) as u64)
    }
}
impl Mul<Rate> for Gain {
    type Output = Rate;
    fn mul(self, r: Rate) -> Rate {
        Rate((self.0 * r.0 as f64) as u64)
    }
}
impl Mul<Span> for Gain {
    type Output = Span;
    fn mul(self, s: Span) -> Span {
        Span((self.0 * s.0 as f64) as u64)
    }
}
