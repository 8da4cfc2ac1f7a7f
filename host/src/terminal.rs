//! Text for a terminal: what a stranger sent is shown without its control characters.
//!
//! Every message that the program prints on stderr passes through [`say`]. The counterpart of the Python command is
//! `narrows/render/terminal.py`; both write a control character as JSON does, `\u001b`.

use std::fmt::Display;

/// Whether a character may change more of a terminal than its own place: a control character other than newline and
/// tab, or a mark that reorders a line.
fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The text with its control characters made visible.
///
/// ```
/// assert_eq!(narrows_host::terminal::printable("bbr\x1b[2J\u{9b}m\n"), "bbr\\u001b[2J\\u009bm\n");
/// ```
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Prints a message and a newline on stderr.
#[allow(clippy::print_stderr)]
pub fn say(message: impl Display) {
    eprintln!("{}", printable(&message.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_printable_text_has_no_control_character(text in "\\PC*|.*") {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(is_control));
            prop_assert_eq!(printable(&shown), shown.clone());
        }
    }
}
