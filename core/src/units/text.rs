//! Quantities as people write them: `40ms`, `50Mbit`, `250kB` (k = 1000, Ki = 1024). A bare number is refused.

use super::{Bytes, Rate, Span};
use alloc::string::String;

/// Why a text is not a quantity, with the corrected text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// What is wrong, in a person's words.
    pub problem: String,
    /// The text as it should be.
    pub fix: String,
}

/// `40ms`, `1.5s`, `200us`, `3min`.
pub fn parse_span(_text: &str) -> Result<Span, UnitError> {
    todo!()
}
/// `1514B`, `250kB`, `1MiB`.
pub fn parse_bytes(_text: &str) -> Result<Bytes, UnitError> {
    todo!()
}
/// `50Mbit`, `1.5Gbit`.
pub fn parse_rate(_text: &str) -> Result<Rate, UnitError> {
    todo!()
}
/// The shortest text that parses back to the same span.
pub fn format_span(_span: Span) -> String {
    todo!()
}
/// The shortest text that parses back to the same bytes.
pub fn format_bytes(_bytes: Bytes) -> String {
    todo!()
}
/// The shortest text that parses back to the same rate.
pub fn format_rate(_rate: Rate) -> String {
    todo!()
}
