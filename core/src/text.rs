//! Untrusted text: which characters could control a terminal instead of being shown.

/// Returns whether a character could change more of a terminal's display than its own cell. Such
/// characters are control characters other than newline and tab, line and paragraph separators
/// (U+2028, U+2029), and format characters. Format characters (Unicode's category Cf) can reorder
/// or hide the text around them.
///
/// ```
/// use narrows_core::text::is_control;
///
/// assert!(is_control('\x1b') && is_control('\u{202e}'));
/// assert!(!is_control('\n') && !is_control('µ'));
/// ```
pub fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}
