//! Audits of a Linux host, and plans to change it.
//!
//! The collector script prints the facts about a host. The rules of the audit judge these facts,
//! and the planner finds the changes that a requested setting needs. Nothing here accesses the
//! host. `narrows-host` and the Python package run the collector; `narrows-host` applies plans.
//!
//! | module | contents |
//! |---|---|
//! | [`collector`] | the script that reads a host, and the parser of its output |
//! | [`facts`] | what is known about a host |
//! | [`features`] | features of Linux releases; packages that contain a kernel or a module |
//! | [`findings`] | the rules of the audit |
//! | [`plan`] | a plan: the requested options, the changes, the requirements |
//! | [`planner`] | the changes that the requested options need |
//! | [`persist`] | the files that repeat a change at boot |
//! | [`routes`] | routes with a congestion control |
//! | [`shaper`] | the queue disciplines of a shaper |
//! | [`text`] | audits and plans as text and JSON |

pub mod collector;
pub mod facts;
pub mod features;
pub mod findings;
pub mod ordered;
pub mod persist;
pub mod plan;
pub mod planner;
pub mod routes;
pub mod shaper;
pub mod text;

use crate::registry::linux::PACED;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// Whether a congestion control requests pacing.
fn is_paced(name: &str) -> bool {
    PACED.contains(&name)
}

/// The parts, joined with commas and with `and` before the last part.
fn listed<T: AsRef<str>>(parts: &[T]) -> String {
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        text += match at {
            0 => "",
            _ if at + 1 == parts.len() => " and ",
            _ => ", ",
        };
        text += part.as_ref();
    }
    text
}

/// A number with six significant digits, as `%g` of C prints it.
fn general(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => String::from(text),
    };
    if (-4..6).contains(&exponent) {
        return short(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs())
}

/// A text in quotes, with escapes for characters that are not printed, as Python's `repr` prints
/// it.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut shown = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => shown += "\\\\",
            '\n' => shown += "\\n",
            '\r' => shown += "\\r",
            '\t' => shown += "\\t",
            c if c == quote => {
                shown.push('\\');
                shown.push(c);
            }
            c if crate::text::is_control(c) => {
                let _ = match c as u32 {
                    code @ ..=0xff => write!(shown, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(shown, "\\u{code:04x}"),
                    code => write!(shown, "\\U{code:08x}"),
                };
            }
            c => shown.push(c),
        }
    }
    shown.push(quote);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_written_as_in_python() {
        let shown = [100.0, 117.5, 0.2, 1e6, 123_456.7, 1e-5, 0.0].map(general);
        assert_eq!(
            shown,
            ["100", "117.5", "0.2", "1e+06", "123457", "1e-05", "0"]
        );
        assert_eq!(quoted("a'b\x07\\"), r#""a'b\x07\\""#);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
