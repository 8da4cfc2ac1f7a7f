//! Quantities as text: `40ms`, `50Mbit`, `250kB` (k = 1000, Ki = 1024). A bare number is rejected.
//!
//! Parsing is exact: decimal digits are scaled as integers and rounded once, half up, to the whole
//! nanosecond, byte or bit. A text that is nearly right (`40msec`, `10mbps`, `5MB/s`) is rejected
//! with the corrected text. A guessed unit could be wrong by a factor of eight.

use super::{Bytes, Rate, Span};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The reason why a text is not a quantity, with the corrected text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// The problem, in words for a person; a continuation of "`key = value`".
    pub problem: String,
    /// The corrected text.
    pub fix: String,
}

/// A dimension: its units in order of preference, wrong spellings of them, and an example.
struct Dimension {
    what: &'static str,
    units: &'static [(&'static str, u64)],
    /// Wrong spellings in lower case, each with the unit that it stands for.
    aliases: &'static [(&'static str, &'static str)],
    example: &'static str,
}

const SPAN: Dimension = Dimension {
    what: "a time",
    units: &[
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    aliases: &[
        ("nsec", "ns"),
        ("nanosecond", "ns"),
        ("usec", "us"),
        ("microsecond", "us"),
        ("msec", "ms"),
        ("milli", "ms"),
        ("millisecond", "ms"),
        ("sec", "s"),
        ("second", "s"),
        ("m", "min"),
        ("minute", "min"),
        ("hr", "h"),
        ("hour", "h"),
    ],
    example: "40ms",
};

const BYTES: Dimension = Dimension {
    what: "a number of bytes",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    aliases: &[
        ("byte", "B"),
        ("k", "kB"),
        ("kbyte", "kB"),
        ("kilobyte", "kB"),
        ("m", "MB"),
        ("mbyte", "MB"),
        ("megabyte", "MB"),
        ("g", "GB"),
        ("gbyte", "GB"),
        ("gigabyte", "GB"),
        ("ki", "KiB"),
        ("kibyte", "KiB"),
        ("kibibyte", "KiB"),
        ("mi", "MiB"),
        ("mibyte", "MiB"),
        ("mebibyte", "MiB"),
        ("gi", "GiB"),
        ("gibyte", "GiB"),
        ("gibibyte", "GiB"),
    ],
    example: "250kB",
};

const RATE: Dimension = Dimension {
    what: "a rate",
    units: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("Mbit", 1_000_000),
        ("Gbit", 1_000_000_000),
        ("Tbit", 1_000_000_000_000),
        ("Kibit", 1 << 10),
        ("Mibit", 1 << 20),
        ("Gibit", 1 << 30),
        ("Tibit", 1 << 40),
    ],
    aliases: &[
        ("b", "bit"),
        ("k", "kbit"),
        ("kb", "kbit"),
        ("m", "Mbit"),
        ("mb", "Mbit"),
        ("g", "Gbit"),
        ("gb", "Gbit"),
        ("t", "Tbit"),
        ("tb", "Tbit"),
        ("kib", "Kibit"),
        ("mib", "Mibit"),
        ("gib", "Gibit"),
        ("tib", "Tibit"),
    ],
    example: "50Mbit",
};

/// Parses a time, such as `40ms`, `1.5s`, `200us`, `3min`.
///
/// ```
/// use narrows_core::units::{parse_span, Span};
/// assert_eq!(parse_span("1.5s"), Ok(Span::ms(1500)));
/// assert_eq!(parse_span("40msec").unwrap_err().fix, "40ms");
/// ```
pub fn parse_span(text: &str) -> Result<Span, UnitError> {
    SPAN.parse(text, "ms").map(Span::ns)
}
/// As [`parse_span`], for durations of whole commands: for a bare number, the error proposes
/// seconds.
///
/// ```
/// use narrows_core::units::parse_seconds;
/// assert_eq!(parse_seconds("5").unwrap_err().fix, "5s");
/// ```
pub fn parse_seconds(text: &str) -> Result<Span, UnitError> {
    SPAN.parse(text, "s").map(Span::ns)
}
/// Parses a number of bytes, such as `1514B`, `250kB`, `1MiB`.
///
/// ```
/// use narrows_core::units::{parse_bytes, Bytes};
/// assert_eq!(parse_bytes("1.5KiB"), Ok(Bytes::new(1536)));
/// assert_eq!(parse_bytes("64KB").unwrap_err().fix, "64kB");
/// ```
pub fn parse_bytes(text: &str) -> Result<Bytes, UnitError> {
    BYTES.parse(text, "B").map(Bytes::new)
}
/// Parses a rate, such as `50Mbit`, `1.5Gbit`; always per second.
///
/// ```
/// use narrows_core::units::{parse_rate, Rate};
/// assert_eq!(parse_rate("1.5Gbit"), Ok(Rate::mbit(1500)));
/// assert_eq!(parse_rate("10mbps").unwrap_err().fix, "10Mbit");
/// assert_eq!(parse_rate("5MB/s").unwrap_err().fix, "40Mbit");
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    RATE.parse(text, "Mbit").map(Rate::bit)
}

/// As [`parse_span`]; `bare` is the unit that the error proposes for a number without unit.
pub(crate) fn parse_span_near(text: &str, bare: &str) -> Result<Span, UnitError> {
    SPAN.parse(text, bare).map(Span::ns)
}
/// As [`parse_bytes`]; `bare` is the unit that the error proposes for a number without unit.
pub(crate) fn parse_bytes_near(text: &str, bare: &str) -> Result<Bytes, UnitError> {
    BYTES.parse(text, bare).map(Bytes::new)
}
/// As [`parse_rate`]; `bare` is the unit that the error proposes for a number without unit.
pub(crate) fn parse_rate_near(text: &str, bare: &str) -> Result<Rate, UnitError> {
    RATE.parse(text, bare).map(Rate::bit)
}

/// The shortest text that parses back to the same span, with a number of at least 1 (`500ms`, not
/// `0.5s`).
pub fn format_span(span: Span) -> String {
    SPAN.format(span.as_ns())
}
/// The shortest text that parses back to the same bytes, with a number of at least 1.
pub fn format_bytes(bytes: Bytes) -> String {
    BYTES.format(bytes.get())
}
/// The shortest text that parses back to the same rate, with a number of at least 1.
pub fn format_rate(rate: Rate) -> String {
    RATE.format(rate.as_bit())
}

impl Dimension {
    fn parse(&self, text: &str, bare: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (number, unit) = split(unsigned);
        let unit = unit.trim();
        let Some(number) = Decimal::parse(number) else {
            return Err(self.not_a_number(unsigned, bare));
        };
        if sign {
            let fix = match self.parse(unsigned, bare) {
                Ok(_) => unsigned.to_string(),
                Err(e) => e.fix,
            };
            return self.refuse("must not be negative", fix);
        }
        let Some(scale) = self.scale(unit) else {
            return Err(self.wrong_unit(&number, unit, bare));
        };
        let Some(value) = number.times(scale) else {
            return self.refuse("is too large", self.format(u64::MAX));
        };
        if value == 0 && number.digits != 0 {
            return self.refuse(format!("is less than {}", self.format(1)), self.format(1));
        }
        Ok(value)
    }

    fn scale(&self, unit: &str) -> Option<u64> {
        let unit = match unit {
            "µs" | "μs" => "us",
            u => u,
        };
        self.units
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, scale)| *scale)
    }

    fn refuse<T>(
        &self,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Result<T, UnitError> {
        Err(UnitError {
            problem: problem.into(),
            fix: fix.into(),
        })
    }

    /// The corrected text that an error proposes: `number` with `unit` if that parses, the example
    /// otherwise.
    fn proposal(&self, number: &Decimal, unit: &str) -> String {
        match self.scale(unit).and_then(|scale| number.times(scale)) {
            Some(value) if value > 0 || number.digits == 0 => match number.to_text() {
                Some(text) => format!("{text}{unit}"),
                None => self.format(value),
            },
            _ => self.example.into(),
        }
    }

    fn not_a_number(&self, text: &str, bare: &str) -> UnitError {
        let low = text.to_lowercase();
        if low.starts_with("nan") || low.starts_with("inf") {
            return UnitError {
                problem: "is not a finite number".into(),
                fix: self.example.into(),
            };
        }
        let plain: String = text.chars().filter(|c| *c != '_').collect();
        let plain = plain.replacen(',', ".", 1);
        if plain != text {
            let fix = match self.parse(&plain, bare) {
                Ok(_) => plain,
                Err(e) => e.fix,
            };
            return UnitError {
                problem: "is not a plain decimal number with a unit".into(),
                fix,
            };
        }
        let problem = if text.is_empty() {
            "is empty".into()
        } else {
            format!("is not {}", self.what)
        };
        UnitError {
            problem,
            fix: self.example.into(),
        }
    }

    fn wrong_unit(&self, number: &Decimal, unit: &str, bare: &str) -> UnitError {
        if unit.is_empty() {
            let bare = match self.what {
                // A rate of six digits and more is probably in bits, a time below 1 in seconds.
                what if what == RATE.what && number.times(1).is_some_and(|n| n >= 100_000) => "bit",
                what if what == SPAN.what
                    && number.digits != 0
                    && number.times(1000).is_some_and(|n| n < 1000) =>
                {
                    "s"
                }
                _ => bare,
            };
            return UnitError {
                problem: "needs a unit".into(),
                fix: self.proposal(number, bare),
            };
        }
        let other = [&SPAN, &BYTES, &RATE]
            .into_iter()
            .find(|other| other.what != self.what && other.scale(unit).is_some());
        if let Some((meant, factor, divisor)) = self.bits_for_bytes(unit) {
            let problem = if divisor == 1 {
                format!("has the unit {unit}, which counts bytes; a rate counts bits")
            } else {
                format!("has the unit {unit}, which counts bits; this value counts bytes")
            };
            let fix = self
                .scale(meant)
                .and_then(|scale| number.times(scale))
                .and_then(|v| v.checked_mul(factor))
                .map(|v| v / divisor)
                .filter(|v| *v > 0)
                .map_or_else(|| self.example.into(), |v| self.format(v));
            return UnitError { problem, fix };
        }
        if let Some(other) = other {
            return UnitError {
                problem: format!("is {}, not {}", other.what, self.what),
                fix: self.example.into(),
            };
        }
        if let Some(meant) = self.near(unit) {
            let fix = self.proposal(number, meant);
            let bytes = self.scale(meant).and_then(|scale| number.times(scale));
            // tc reads `mbps` and `Mbps` as bytes per second.
            let problem = match bytes.and_then(|bits| bits.checked_mul(8)) {
                Some(bits) if self.what == RATE.what && unit.ends_with("bps") => format!(
                    "has the ambiguous unit {unit}: for bits, write {fix}; for bytes, as in tc, \
                     write {}",
                    self.format(bits)
                ),
                _ => format!("has the unit {unit}, which is written {meant}"),
            };
            return UnitError { problem, fix };
        }
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        let shown: String = unit.chars().take(20).flat_map(char::escape_debug).collect();
        UnitError {
            problem: format!("has no known unit ({shown}; known: {})", names.join(", ")),
            fix: self.proposal(number, bare),
        }
    }

    /// Recognizes a unit of bytes (`MB`, `MB/s`) in a rate, and a unit of bits (`kbit`) in a number
    /// of bytes. Returns the intended unit, and the factor and divisor that convert the number.
    fn bits_for_bytes(&self, unit: &str) -> Option<(&'static str, u64, u64)> {
        if self.what == RATE.what {
            let stem = unit
                .strip_suffix("/s")
                .or_else(|| unit.strip_suffix("ps"))
                .unwrap_or(unit);
            let prefix = ["Bytes", "bytes", "Byte", "byte", "B"]
                .iter()
                .find_map(|b| stem.strip_suffix(b))?;
            let bits = self.near(&format!("{prefix}bit")).or_else(|| {
                self.units
                    .iter()
                    .map(|u| u.0)
                    .find(|u| *u == format!("{prefix}bit"))
            })?;
            return Some((bits, 8, 1));
        }
        if self.what == BYTES.what {
            let prefix = unit
                .strip_suffix("bits")
                .or_else(|| unit.strip_suffix("bit"))?;
            let bytes = self.near(&format!("{prefix}b"))?;
            return Some((bytes, 1, 8));
        }
        None
    }

    /// The unit for which a wrong spelling stands; `None` for an unknown spelling.
    fn near(&self, unit: &str) -> Option<&'static str> {
        let low = unit.to_lowercase();
        let mut stem = low.as_str();
        if self.what == RATE.what {
            stem = stem
                .strip_suffix("/s")
                .or_else(|| stem.strip_suffix("/sec"))
                .unwrap_or(stem);
            stem = stem.strip_suffix("ps").unwrap_or(stem);
        }
        let lookup = |word: &str| {
            let exact = self
                .units
                .iter()
                .map(|u| u.0)
                .find(|u| u.to_lowercase() == word);
            exact.or_else(|| {
                self.aliases
                    .iter()
                    .find(|(alias, _)| *alias == word)
                    .map(|(_, unit)| *unit)
            })
        };
        lookup(stem).or_else(|| stem.strip_suffix('s').and_then(lookup))
    }

    fn format(&self, value: u64) -> String {
        if value == 0 {
            return format!("0{}", self.units[0].0);
        }
        let mut best = String::new();
        for &(unit, scale) in self.units {
            let Some(number) = exact_quotient(value, scale) else {
                continue;
            };
            let shorter = best.is_empty() || number.len() + unit.len() < best.len();
            let integer_at_last = number.len() + unit.len() == best.len()
                && best.contains('.')
                && !number.contains('.');
            if shorter || integer_at_last {
                best = format!("{number}{unit}");
            }
        }
        best
    }
}

/// `value / scale` as a finite decimal of at least 1, if it is one.
fn exact_quotient(value: u64, scale: u64) -> Option<String> {
    if value < scale {
        return None;
    }
    let (whole, rest) = (value / scale, u128::from(value % scale));
    if rest == 0 {
        return Some(whole.to_string());
    }
    let mut power = 1_u128;
    for places in 1..=19 {
        power *= 10;
        let scaled = rest * power;
        if scaled % u128::from(scale) == 0 {
            return Some(format!("{whole}.{:0places$}", scaled / u128::from(scale)));
        }
    }
    None
}

/// Splits the text into the number and the unit. Commas and underscores are separated from units
/// here and rejected later. An `e` belongs to the number only if digits follow.
fn split(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes
            .get(i)
            .is_some_and(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'_'))
        {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    text.split_at(end)
}

/// A decimal number as it was written: `digits × 10^exponent`.
struct Decimal {
    digits: u128,
    exponent: i64,
}

impl Decimal {
    /// Digits are kept up to this value, which exceeds the range of a `u64`. Such digits multiplied
    /// by the largest unit still fit a `u128`.
    const SIGNIFICANT: u128 = 10_u128.pow(24);

    fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (
                m,
                e.parse::<i64>()
                    .unwrap_or(if e.starts_with('-') { -10_000 } else { 10_000 }),
            ),
            None => (text, 0),
        };
        let exponent = exponent.clamp(-10_000, 10_000);
        let mut number = Decimal {
            digits: 0,
            exponent,
        };
        let (mut seen_digit, mut seen_point) = (false, false);
        for c in mantissa.bytes() {
            match c {
                b'.' if !seen_point => seen_point = true,
                b'0'..=b'9' => {
                    seen_digit = true;
                    let keep = number.digits < Self::SIGNIFICANT;
                    if keep {
                        number.digits = number.digits * 10 + u128::from(c - b'0');
                    }
                    number.exponent += i64::from(!keep) - i64::from(seen_point);
                }
                _ => return None,
            }
        }
        seen_digit.then_some(number)
    }

    /// The number times `scale`, rounded half up; `None` if it exceeds a `u64`.
    fn times(&self, scale: u64) -> Option<u64> {
        let mut value = self.digits * u128::from(scale);
        if value == 0 {
            return Some(0);
        }
        if self.exponent >= 0 {
            let power = 10_u128.checked_pow(u32::try_from(self.exponent).ok()?)?;
            value = value.checked_mul(power)?;
        } else {
            value = match u32::try_from(-self.exponent)
                .ok()
                .and_then(|e| 10_u128.checked_pow(e))
            {
                Some(power) => {
                    (value / power).checked_add(u128::from(value % power >= power / 2))?
                }
                None => 0,
            };
        }
        u64::try_from(value).ok()
    }

    /// The number in plain decimal digits; `None` if that would be long.
    fn to_text(&self) -> Option<String> {
        match self.exponent {
            0 => Some(self.digits.to_string()),
            -9..=-1 => {
                let places = self.exponent.unsigned_abs() as usize;
                let power = 10_u128.pow(places as u32);
                let fraction = format!("{:0places$}", self.digits % power);
                let fraction = fraction.trim_end_matches('0');
                let whole = self.digits / power;
                Some(if fraction.is_empty() {
                    whole.to_string()
                } else {
                    format!("{whole}.{fraction}")
                })
            }
            _ => None,
        }
    }
}
