//! Quantities, counts and numbers: a value of the file becomes a value in range, or a mistake with
//! its correction.

use super::error::Fix;
use super::value::{Node, Value};
use super::write::{float, quote};
use crate::param;
use crate::units::{self, Bytes, Rate, Span, UnitError};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A quantity with a dimension.
pub(super) trait Quantity: Copy + Ord {
    const WHAT: &'static str;
    /// Reads a text; `bare` is the unit to propose if there is none.
    fn read(text: &str, bare: &str) -> Result<Self, UnitError>;
    fn text(self) -> String;
}
impl Quantity for Span {
    const WHAT: &'static str = "a time";
    fn read(text: &str, bare: &str) -> Result<Span, UnitError> {
        units::parse_span_near(text, bare)
    }
    fn text(self) -> String {
        units::format_span(self)
    }
}
impl Quantity for Bytes {
    const WHAT: &'static str = "a number of bytes";
    fn read(text: &str, bare: &str) -> Result<Bytes, UnitError> {
        units::parse_bytes_near(text, bare)
    }
    fn text(self) -> String {
        units::format_bytes(self)
    }
}
impl Quantity for Rate {
    const WHAT: &'static str = "a rate";
    fn read(text: &str, bare: &str) -> Result<Rate, UnitError> {
        units::parse_rate_near(text, bare)
    }
    fn text(self) -> String {
        units::format_rate(self)
    }
}

/// Reads `text` as a quantity between `least` and `most`; the error is the problem and the
/// corrected text.
pub(super) fn within<Q: Quantity>(
    text: &str,
    bare: &str,
    least: Q,
    most: Q,
) -> Result<Q, UnitError> {
    match Q::read(text, bare) {
        Ok(q) if q < least => Err(UnitError {
            problem: format!("must be at least {}", least.text()),
            fix: least.text(),
        }),
        Ok(q) if q > most => Err(UnitError {
            problem: format!("must be at most {}", most.text()),
            fix: most.text(),
        }),
        Ok(q) => Ok(q),
        Err(e) => {
            let fix = match Q::read(&e.fix, bare) {
                Ok(q) if q < least => least.text(),
                Ok(q) if q > most => most.text(),
                _ => e.fix,
            };
            Err(UnitError {
                problem: e.problem,
                fix,
            })
        }
    }
}

/// Reads the quantity in `node`; the error is the problem and the corrected TOML.
pub(super) fn quantity<Q: Quantity>(
    node: &Node,
    bare: &str,
    least: Q,
    most: Q,
) -> Result<Q, (String, Fix)> {
    let text = match &node.value {
        Value::String(text) => text.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => float(*x),
        // An example in range, independent of the default.
        _ => {
            let example = Q::read("", bare).err().map(|e| e.fix).unwrap_or_default();
            let fix = within(&example, bare, least, most).map_or_else(|e| e.fix, Q::text);
            return Err((format!("is not {}", Q::WHAT), Fix::Value(quote(&fix))));
        }
    };
    within(&text, bare, least, most).map_err(|e| (e.problem, Fix::Value(quote(&e.fix))))
}

/// Reads the quantities in `node`, a list; the error is the problem and the corrected TOML.
pub(super) fn list<Q: Quantity>(
    node: &Node,
    bare: &str,
    least: Q,
    most: Q,
) -> Result<Vec<Q>, (String, Fix)> {
    let Value::Array(items) = &node.value else {
        let one = quantity(node, bare, least, most)
            .map_or_else(|(_, fix)| fix, |q| Fix::Value(quote(&q.text())));
        let fix = match one {
            Fix::Value(text) => Fix::Value(format!("[{text}]")),
            other => other,
        };
        return Err(("is not a list".into(), fix));
    };
    if items.len() > param::MOST_ENTRIES {
        return Err((
            format!("has more than {} entries", param::MOST_ENTRIES),
            Fix::None,
        ));
    }
    let mut read = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        read.push(quantity(item, bare, least, most).map_err(|(problem, fix)| {
            let mut entries: Vec<String> = items
                .iter()
                .map(|n| super::write::inline(&n.value))
                .collect();
            let fix = match fix {
                Fix::Value(text) => {
                    entries[i] = text;
                    Fix::Value(format!("[{}]", entries.join(", ")))
                }
                other => other,
            };
            (
                format!("has an entry, number {}, that {problem}", i + 1),
                fix,
            )
        })?);
    }
    Ok(read)
}

/// A whole number without unit, also one in quotes.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(n) => Some(*n),
        Value::Float(x) if libm::trunc(*x) == *x && libm::fabs(*x) < 9e15 => Some(*x as i128),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

/// Reads the count in `node`; the error is the problem and the corrected TOML.
pub(super) fn count(node: &Node, least: u64, most: u64) -> Result<u64, (String, Fix)> {
    // The number of a quantity: 512 of `512us`.
    let led = || match &node.value {
        Value::String(s) => {
            let end = s.find(|c: char| !c.is_ascii_digit());
            s[..end.unwrap_or(s.len())].parse().ok()
        }
        _ => None,
    };
    let meant = whole(&node.value).or_else(led);
    let clamped = meant.map_or(i128::from(least.max(1).min(most)), |n: i128| {
        n.clamp(least.into(), most.into())
    });
    let fix = Fix::Value(clamped.to_string());
    match node.value {
        Value::Integer(n) if n < i128::from(least) => {
            Err((format!("must be at least {least}"), fix))
        }
        Value::Integer(n) if n > i128::from(most) => Err((format!("must be at most {most}"), fix)),
        Value::Integer(n) => u64::try_from(n).map_err(|_| ("is not a count".into(), fix)),
        _ => Err(("is not a count (a whole number without unit)".into(), fix)),
    }
}

/// Reads the number in `node`; the error is the problem and the corrected TOML.
pub(super) fn number(
    node: &Node,
    default: f64,
    least: f64,
    most: f64,
) -> Result<f64, (String, Fix)> {
    let (x, bare) = match &node.value {
        Value::Integer(n) => (*n as f64, true),
        Value::Float(x) => (*x, true),
        Value::String(s) => (s.trim().parse().unwrap_or(f64::NAN), false),
        _ => (f64::NAN, false),
    };
    let fix = Fix::Value(float(if x.is_nan() {
        default
    } else {
        x.clamp(least, most)
    }));
    if !bare || x.is_nan() {
        Err(("is not a number (without unit)".into(), fix))
    } else if x < least {
        Err((format!("must be at least {}", float(least)), fix))
    } else if x > most {
        Err((format!("must be at most {}", float(most)), fix))
    } else {
        Ok(x)
    }
}

/// Reads the packets in `node` (`"20p"`); the error is the problem and the corrected TOML.
pub(super) fn packets(
    node: &Node,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u64, (String, Fix)> {
    let written = match &node.value {
        Value::String(s) => s
            .trim()
            .strip_suffix('p')
            .map(|n| (n.trim().parse::<f64>(), true)),
        Value::Integer(n) => Some((Ok(*n as f64), false)),
        _ => None,
    };
    let (n, unit) = match written {
        Some((Ok(n), unit)) if !n.is_nan() => (n, unit),
        _ => (f64::NAN, false),
    };
    // The casts saturate; a limit of packets is far below 2⁵³.
    let near = if n.is_nan() {
        default
    } else {
        (n.max(0.0) as u64).clamp(least, most)
    };
    let fix = Fix::Value(quote(&format!("{near}p")));
    if n.is_nan() {
        Err(("is not a number of packets".into(), fix))
    } else if !unit {
        Err(("needs a unit: p (packets)".into(), fix))
    } else if libm::trunc(n) != n || n < least as f64 || n > most as f64 {
        Err((
            format!("must be whole packets from {least}p to {most}p"),
            fix,
        ))
    } else {
        Ok(n as u64)
    }
}

/// The probability in `node`: `0.01` or `"1%"`.
pub(super) fn probability(node: &Node) -> Result<f64, (String, Fix)> {
    let (x, percent) = match &node.value {
        Value::Integer(n) => (*n as f64, false),
        Value::Float(x) => (*x, false),
        Value::String(s) => match s.trim().strip_suffix('%') {
            Some(n) => (n.trim().parse::<f64>().unwrap_or(f64::NAN) / 100.0, true),
            None => {
                let fix = match s.trim().parse::<f64>() {
                    Ok(x) if (0.0..=1.0).contains(&x) => float(x),
                    Ok(x) if (0.0..=100.0).contains(&x) => quote(&format!("{x}%")),
                    _ => "\"1%\"".into(),
                };
                return Err((
                    "is not a probability: a number from 0 to 1, or a percentage".into(),
                    Fix::Value(fix),
                ));
            }
        },
        _ => (f64::NAN, false),
    };
    if (0.0..=1.0).contains(&x) {
        // Not -0, which would be written differently.
        return Ok(x + 0.0);
    }
    let fix = match (percent, x) {
        (_, x) if x.is_nan() => "\"1%\"".into(),
        (_, x) if x < 0.0 => "0.0".into(),
        (false, x) if x <= 100.0 => quote(&format!("{x}%")),
        _ => "\"100%\"".into(),
    };
    let problem = match x.is_nan() {
        true => "is not a number from 0 to 1, or from 0% to 100%",
        false => "is not a probability: 0 to 1, or 0% to 100%",
    };
    Err((problem.into(), Fix::Value(fix)))
}
