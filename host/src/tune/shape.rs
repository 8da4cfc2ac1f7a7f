//! Converts the options of shaping disciplines between plans and the kernel: `tbf`, whose queue may
//! be another discipline, and `cake`, which contains its own queues.

use crate::sys::netlink::{Message, attribute, attributes};
use serde_json::{Map, Value};

/// `TCA_TBF_PARMS`, `TCA_TBF_BURST`, and the offset of the rate in the former (`struct
/// tc_tbf_qopt`).
const PARAMETERS: u16 = 1;
const BURST: u16 = 6;
const RATE: usize = 8;
/// `TCA_CAKE_BASE_RATE64`.
const BANDWIDTH: u16 = 2;
/// `TC_LINKLAYER_ETHERNET`: the length of a frame is counted without the cell padding of ATM.
const ETHERNET: u8 = 1;

/// The parameters of shaping.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `tbf`, a token bucket: rate in bytes per second, burst in bytes, and limit of its own queue
    /// in bytes.
    Tbf(u32, u32, u32),
    /// `cake`: rate in bytes per second.
    Cake(u32),
}

/// Reads an option such as `18000kbit`: a number above 0 with the unit `unit`.
fn number(of: &Map<String, Value>, name: &str, unit: &str) -> Result<u64, String> {
    let text = of.get(name).and_then(Value::as_str).unwrap_or_default();
    let digits = text
        .strip_suffix(unit)
        .filter(|d| d.len() <= 10 && d.bytes().all(|b| b.is_ascii_digit()));
    let number = digits
        .and_then(|digits| digits.parse().ok())
        .filter(|n| *n > 0);
    number.ok_or_else(|| format!("{name} {text:?} is invalid; write, e.g., \"18000{unit}\""))
}

/// Reads a rate in kbit/s and converts it to bytes per second. The largest one is 34 Gbit/s, since
/// the kernel's field has 32 bits.
fn rate(of: &Map<String, Value>, name: &str) -> Result<u32, String> {
    u32::try_from(number(of, name, "kbit")? * 125)
        .map_err(|_| format!("{name} is more than 34 Gbit/s, the limit of a shaper"))
}

fn size(of: &Map<String, Value>, name: &str) -> Result<u32, String> {
    u32::try_from(number(of, name, "b")?).map_err(|_| format!("{name} is too large"))
}

impl Shape {
    /// Reads the options of a discipline in a plan; `None` if the discipline does not shape.
    pub fn parse(kind: &str, of: &Map<String, Value>) -> Result<Option<Shape>, String> {
        let (known, shape): (&[&str], _) = match kind {
            "tbf" => {
                let shape = Shape::Tbf(rate(of, "rate")?, size(of, "burst")?, size(of, "limit")?);
                (&["rate", "burst", "limit"], Some(shape))
            }
            "cake" if !of.is_empty() => (&["bandwidth"], Some(Shape::Cake(rate(of, "bandwidth")?))),
            _ => (&[], None),
        };
        match of.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("no plan sets the option {key:.20} of {kind:.20}")),
            None => Ok(shape),
        }
    }
    /// Encodes the options for the kernel.
    pub fn options(self) -> Vec<u8> {
        let made = match self {
            Shape::Tbf(rate, burst, limit) => {
                let mut parameters = [0; 36];
                parameters[1] = ETHERNET;
                parameters[RATE..RATE + 4].copy_from_slice(&rate.to_ne_bytes());
                parameters[24..28].copy_from_slice(&limit.to_ne_bytes());
                Message::new(0, &[])
                    .attribute(PARAMETERS, &parameters)
                    .number(BURST, burst)
            }
            Shape::Cake(rate) => {
                Message::new(0, &[]).attribute(BANDWIDTH, &u64::from(rate).to_ne_bytes())
            }
        };
        made.body().to_vec()
    }
    /// Whether the options that the kernel reports have this rate.
    pub fn is(self, printed: &[u8]) -> bool {
        match self {
            Shape::Tbf(rate, ..) => rate_of("tbf", printed) == Some(rate.into()),
            Shape::Cake(rate) => rate_of("cake", printed) == Some(rate.into()),
        }
    }
}

/// The rate in the options that the kernel reports, bytes per second; `None` if there is none.
fn rate_of(kind: &str, printed: &[u8]) -> Option<u64> {
    let found = attributes(printed);
    match kind {
        "tbf" => {
            let all = attribute(&found, PARAMETERS)?;
            all.get(RATE..)?
                .first_chunk()
                .map(|bytes| u32::from_ne_bytes(*bytes).into())
        }
        "cake" => attribute(&found, BANDWIDTH)?
            .first_chunk()
            .map(|bytes| u64::from_ne_bytes(*bytes)),
        _ => None,
    }
}

/// The rate of a discipline from the options that the kernel reports, such as `rate 18000kbit` or
/// `bandwidth 18000kbit`; `None` if the discipline does not shape.
pub fn printed(kind: &str, options: &[u8]) -> Option<String> {
    let name = if kind == "cake" { "bandwidth" } else { "rate" };
    let rate = rate_of(kind, options).filter(|rate| *rate > 0)?;
    Some(format!("{name} {}kbit", rate / 125))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(kind: &str, options: &Value) -> Result<Option<Shape>, String> {
        Shape::parse(kind, options.as_object().unwrap())
    }

    #[test]
    fn options_are_those_of_a_shaper_with_their_units() {
        let tbf = json!({"rate": "18000kbit", "burst": "3028b", "limit": "112500b"});
        assert_eq!(
            parse("tbf", &tbf),
            Ok(Some(Shape::Tbf(2_250_000, 3028, 112_500)))
        );
        assert_eq!(
            parse("cake", &json!({"bandwidth": "8kbit"})),
            Ok(Some(Shape::Cake(1000)))
        );
        assert_eq!(parse("cake", &json!({})), Ok(None));
        assert_eq!(parse("fq", &json!({})), Ok(None));
        for (kind, odd) in [
            ("tbf", json!({})),
            (
                "tbf",
                json!({"rate": "18Mbit", "burst": "3028b", "limit": "1b"}),
            ),
            (
                "tbf",
                json!({"rate": "0kbit", "burst": "3028b", "limit": "1b"}),
            ),
            (
                "tbf",
                json!({"rate": "9kbit", "burst": "3028b", "limit": "1b", "peakrate": "9kbit"}),
            ),
            ("cake", json!({"bandwidth": "9999999999kbit"})),
            ("cake", json!({"bandwidth": 9})),
            ("fq", json!({"limit": "1b"})),
        ] {
            assert!(parse(kind, &odd).is_err(), "{kind} {odd}");
        }
    }

    #[test]
    fn what_the_kernel_takes_has_the_rate() {
        for (one, other) in [
            (Shape::Tbf(7, 1, 1), Shape::Tbf(8, 1, 1)),
            (Shape::Cake(7), Shape::Cake(8)),
        ] {
            assert!(one.is(&one.options()) && !one.is(&other.options()) && !one.is(&[]));
        }
        let bucket = Shape::Tbf(2_250_000, 3028, 112_500).options();
        assert_eq!(printed("tbf", &bucket).as_deref(), Some("rate 18000kbit"));
        assert_eq!(
            printed("cake", &Shape::Cake(1000).options()).as_deref(),
            Some("bandwidth 8kbit")
        );
        assert_eq!(printed("fq", &bucket), None);
    }
}
