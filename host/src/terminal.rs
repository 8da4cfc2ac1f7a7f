//! Text for a terminal: control characters of untrusted text are replaced by visible escapes.

use narrows_core::text::is_control;
use serde_json::Value;
use std::fmt::Display;

/// The text with visible escapes for its control characters, except line ends.
///
/// ```
/// assert_eq!(narrows_host::terminal::printable("bbr\x1b[2J\u{9b}m\u{61c}\n"),
/// "bbr\\u001b[2J\\u009bm\\u061c\n");
/// ```
pub fn printable(text: &str) -> String {
    escaped(text, is_control)
}

/// Untrusted text within a message: on one line, at most [`LONGEST`] characters.
///
/// ```
/// let shown = narrows_host::terminal::field("no room\nnarrows: all is well");
/// assert_eq!(shown, "no room\\u000anarrows: all is well");
/// ```
pub fn field(text: &str) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for c in text.chars() {
        let before = shown.len();
        escape(c, |c| is_control(c) || c == '\n', &mut shown);
        length += shown[before..].chars().count();
        if length > LONGEST {
            shown.truncate(before);
            return shown + "…";
        }
    }
    shown
}

/// Untrusted JSON, with every text (keys included) converted by [`field`].
pub fn fields(value: &Value) -> Value {
    match value {
        Value::String(text) => field(text).into(),
        Value::Array(list) => list.iter().map(fields).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (field(key), fields(value)))
            .collect(),
        _ => value.clone(),
    }
}

/// A JSON text with the same content, in which control and format characters are escapes.
///
/// ```
/// let value = serde_json::json!({ "why": "\u{9b}31m \u{202e}" });
/// let text = narrows_host::terminal::json(&value);
/// assert_eq!(text, r#"{"why":"\u009b31m \u202e"}"#);
/// assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
/// ```
pub fn json(text: impl Display) -> String {
    // Outside of strings, JSON has no such character.
    printable(&text.to_string())
}

/// Largest number of characters of untrusted text, escapes included.
pub const LONGEST: usize = 300;

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| escape(c, &hidden, &mut shown));
    shown
}

/// Appends a character, or its escape if it is `hidden`.
fn escape(c: char, hidden: impl Fn(char) -> bool, to: &mut String) {
    if hidden(c) {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            to.push_str(&format!("\\u{unit:04x}"));
        }
    } else {
        to.push(c);
    }
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

    /// The calls that write to stdout. Text of another host or of a file is part of JSON there,
    /// which [`json`] has escaped. A new entry needs such a reason.
    const STDOUT: &[&str] = &[
        // JSON of a run, a measurement, a latency test or a change, and its length.
        r#"writeln!(out, "run {} {}", text.len(), samples.len())"#,
        r#"writeln!(out, "measurement {}", text.len())"#,
        r#"writeln!(out, "latency {}", text.len())"#,
        r#"writeln!(out, "{text}")"#,
        r#"writeln!(out, "{}", json(told))"#,
        r#"writeln!(out, "{}", json(serve::limits::Limits::to_json()))"#,
        "write_all(text.as_bytes())",
        // Samples, in binary form for another program.
        "write_all(&samples)",
        // Numbers, and lines of intervals, which have the names of a phase and a control, too.
        r#"writeln!(out, "{}", printable(&line))"#,
        r#"writeln!(lines,"progress {:.3} {:.3}",at.now.as_s(),at.end.as_s())"#,
        r#"writeln!(out, "progress {part:.3} 1")"#,
        r#"writeln!(out, "progress {now:.3} {end:.3}")"#,
        "write!(out,\"progress{:.4}1\\nlive{answered}{lost}{median:.1}{most:.1}\\n{}\",\
         at.share,interval.unwrap_or_default())",
        r#"writeln!(std::io::stdout(), "plan {bytes} {seconds:.3}")"#,
        // Module parameters: names of the registry, and numbers.
        r#"writeln!(std::io::stdout(),"{}",words.join(""))"#,
        // The unit with the path of this program, and the sockets of `serve`.
        r#"write!(out, "{unit}")"#,
        r#"writeln!(out, "{what} at {at}")"#,
        r#"writeln!(out, "{READY}")"#,
    ];

    /// The sources of a crate, without tests, comments and spaces.
    fn sources(of: &std::path::Path, to: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(of).unwrap() {
            let (path, mut code) = (entry.unwrap().path(), String::new());
            let name = path
                .strip_prefix(env!("CARGO_MANIFEST_DIR"))
                .unwrap_or(&path);
            if path.is_dir() {
                sources(&path, to);
            } else if path.extension().is_some_and(|suffix| suffix == "rs")
                && !name.to_string_lossy().contains("tests")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                for line in text
                    .split("#[cfg(test)]")
                    .next()
                    .unwrap_or_default()
                    .lines()
                {
                    let line = line.trim();
                    if !line.starts_with("//") {
                        code.extend(line.chars().filter(|c| *c != ' '));
                    }
                }
                to.push((name.display().to_string(), code));
            }
        }
    }

    /// A call, to its closing bracket.
    fn call(code: &str) -> &str {
        let mut depth = 0;
        for (at, c) in code.char_indices() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if c == ')' && depth == 0 {
                return &code[..=at];
            }
        }
        code
    }

    #[test]
    fn no_text_of_another_host_or_a_file_is_printed_without_this_module() {
        let mut all = Vec::new();
        for of in [
            "src",
            "../core/src",
            "../sim/src",
            "../plugin/src",
            "../python/bindings/src",
        ] {
            sources(
                &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(of),
                &mut all,
            );
        }
        assert!(all.len() > 300, "{} sources", all.len());
        let known: Vec<String> = STDOUT.iter().map(|known| known.replace(' ', "")).collect();
        for (name, code) in &all {
            if name == "src/terminal.rs" {
                continue;
            }
            for print in ["println!(", "dbg!(", "print!("] {
                for (at, _) in code.match_indices(print) {
                    // The usage is a constant.
                    assert_eq!(
                        call(&code[at..]),
                        "print!(\"{}\",usage())",
                        "{name}: use `say`"
                    );
                }
            }
            let Some(first) = code.find("stdout()") else {
                continue;
            };
            assert!(
                [
                    "src/main.rs",
                    "src/live_commands.rs",
                    "src/tune/watchdog.rs"
                ]
                .contains(&name.as_str()),
                "{name}: {}",
                &code[first..]
            );
            for write in ["write!(", "writeln!(", "write_all("] {
                for (at, _) in code.match_indices(write) {
                    let found = call(&code[at..]);
                    assert!(known.iter().any(|known| known == found), "{name}: {found}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_printable_text_has_no_control_character(text in "\\PC*|.*") {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(is_control));
            prop_assert_eq!(printable(&shown), shown.clone());
        }
        #[test]
        fn json_keeps_its_content_and_has_no_control_character(text in "\\PC*|.*|(.\n){0,9}") {
            let value = serde_json::json!({ "a": [&text] });
            let shown = json(&value);
            prop_assert!(!shown.chars().any(|c| is_control(c) || c == '\n'));
            prop_assert_eq!(fields(&value), serde_json::json!({ "a": [field(&text)] }));
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
        #[test]
        fn a_strangers_text_is_one_line_and_no_longer_than_its_limit(
            text in "\\PC*|.*|(.\n){0,400}"
        ) {
            let shown = field(&text);
            prop_assert!(!shown.chars().any(|c| is_control(c) || c == '\n'));
            // The last one may be an ellipsis.
            prop_assert!(shown.chars().count() <= LONGEST + 1);
        }
    }
}
