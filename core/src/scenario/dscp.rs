//! Differentiated-services code points by name (RFC 2474, 2597, 3246, 5865, 8622).

use super::error::{Collector, Fix};
use super::read::Field;
use super::value::{Node, Value};
use super::write::quote;
use alloc::format;
use alloc::string::String;

/// The default code point.
pub(super) const USUAL: u8 = 0;
/// The valid code points in words.
pub(super) const KNOWN: &str = "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63";

/// The default in a scenario's notation.
pub(super) fn usual() -> String {
    let name = NAMES.iter().find(|(_, value)| *value == USUAL);
    name.map_or_else(String::new, |(name, _)| (*name).into())
}

/// Names and values of code points; the first name of a value is written.
const NAMES: &[(&str, u8)] = &[
    ("BE", 0),
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// A code point by its name, in letters of either case, or its number.
pub fn code_point(text: &str) -> Option<u8> {
    let found = NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map_or_else(
        || text.parse().ok().filter(|n| *n < 64),
        |(_, value)| Some(*value),
    )
}

/// Reads a code point of a scenario.
pub(super) fn read(out: &mut Collector<'_>, f: &Field<'_>) -> Option<u8> {
    let Value::String(name) = &f.entry.node.value else {
        return out.count(f, 0, 63).map(|n| n as u8);
    };
    let found = NAMES.iter().find(|(known, _)| known == name);
    if found.is_none() {
        if let Ok(number @ 0..=63) = name.trim().parse::<u8>() {
            out.refuse(f, "is a number in quotes", Fix::Value(format!("{number}")));
            return None;
        }
        let upper = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(known, _)| *known);
        // A name of the same class, if there is one.
        let class = |known: &str| name.get(..3).is_some_and(|class| known.starts_with(class));
        let near = upper.or_else(|| {
            NAMES
                .iter()
                .map(|(known, _)| *known)
                .find(|known| class(known))
        });
        let problem = format!("is not a code point: {KNOWN}");
        out.refuse(f, problem, Fix::Value(quote(near.unwrap_or("EF"))));
    }
    found.map(|(_, value)| *value)
}

/// A code point in a scenario's notation.
pub(super) fn node(dscp: u8) -> Node {
    match NAMES.iter().find(|(_, value)| *value == dscp) {
        Some((name, _)) => Node::string(*name),
        None => Node::integer(dscp),
    }
}
