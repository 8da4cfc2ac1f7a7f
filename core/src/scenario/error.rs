//! Errors of a scenario: each has a place, the problem and the correction. All errors of a scenario
//! are reported at once.

use super::nested::Named;
use super::value::{Entry, Node, Table, Tree, Value};
use super::varying::Files;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::ops::Range;

/// Maximum number of listed errors; the rest is counted.
pub(super) const MOST: usize = 50;

/// An error of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file's name as it was given; empty if there is no file.
    pub file: String,
    /// The line of the error, from 1; `None` for a scenario that is not text.
    pub line: Option<usize>,
    /// The column of the error in characters, from 1; only for errors of syntax.
    pub column: Option<usize>,
    /// The key's path: `path.rtt`, `flow[1].cc`; empty for errors of syntax.
    pub key: String,
    /// The value as it was written, if there is one.
    pub value: Option<String>,
    /// The problem; a continuation of "`key = value`".
    pub problem: String,
    /// The corrected line (or lines, if a section is missing), if there is one.
    pub fix: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            f.write_str(&self.file)?;
            for n in [self.line, self.column].into_iter().flatten() {
                write!(f, ":{n}")?;
            }
            f.write_str(": ")?;
        }
        if !self.key.is_empty() {
            f.write_str(&self.key)?;
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.problem)?;
        if let Some(fix) = &self.fix {
            for (i, line) in fix.lines().enumerate() {
                write!(
                    f,
                    "\n    {}{line}",
                    if i == 0 { "write: " } else { "       " }
                )?;
            }
        }
        Ok(())
    }
}

/// All errors of a scenario, in the order of its lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Errors {
    list: Vec<Error>,
    omitted: usize,
}

impl Errors {
    /// The errors, one by one (the first fifty).
    pub fn list(&self) -> &[Error] {
        &self.list
    }

    /// The error of a text that is not valid TOML.
    pub(super) fn syntax(
        file: &str,
        source: &str,
        message: &str,
        at: Option<Range<usize>>,
    ) -> Errors {
        let start = at.as_ref().map_or(source.len(), |at| at.start);
        let (line, column) = position(source, start);
        let written = source.lines().nth(line - 1).unwrap_or("");
        let key = at.and_then(|at| source.get(at)).unwrap_or("").trim();
        // The line itself is right: no correction of it helps.
        let (message, fix) = match message {
            "duplicate key" => (format!("duplicate key {key}; write it once"), None),
            _ => (message.into(), quoted(written)),
        };
        Errors {
            list: alloc::vec![Error {
                file: file.into(),
                line: Some(line),
                column: Some(column),
                key: String::new(),
                value: None,
                problem: format!("not TOML: {}", printable(&message, 200)),
                fix,
            }],
            omitted: 0,
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            e.fmt(f)?;
        }
        if self.omitted > 0 {
            write!(f, "\n… and {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl Error {
    /// The error of an engine that does not support the key at `path` in a valid scenario, such as
    /// `flow[0].cc`. The place of an absent key is that of its section. `file` and `source` are
    /// those of the `tree`.
    pub fn unsupported(
        tree: &Tree,
        file: &str,
        source: Option<&str>,
        path: &str,
        problem: &str,
    ) -> Error {
        let (mut at, mut value) = (None, None);
        let mut place = Some((&tree.root, path));
        while let Some((table, rest)) = place.take() {
            let follows = |entry: &&Entry| {
                let rest = rest.strip_prefix(super::write::key(&entry.key).as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            let Some(entry) = table.entries.iter().find(follows) else {
                break;
            };
            let mut rest = &rest[super::write::key(&entry.key).len()..];
            let mut node = &entry.node;
            at = entry.key_at.clone().or(at);
            // The number of an entry of a list.
            while let (Value::Array(items), Some((number, behind))) = (
                &node.value,
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')),
            ) {
                let Some(item) = number.parse().ok().and_then(|n: usize| items.get(n)) else {
                    break;
                };
                (node, rest) = (item, behind);
                at = item.at.clone().or(at);
            }
            match (&node.value, rest.strip_prefix('.')) {
                (Value::Table(inner), Some(rest)) => place = Some((inner, rest)),
                (Value::Table(_), None) => {}
                (Value::Array(items), None)
                    if items
                        .iter()
                        .any(|item| matches!(item.value, Value::Table(_))) => {}
                (other, None) => value = Some(show(other)),
                (_, Some(_)) => {}
            }
        }
        Error {
            file: file.into(),
            line: source.map(|source| position(source, at.map_or(0, |at| at.start)).0),
            column: None,
            key: printable(path, 120),
            value,
            problem: problem.into(),
            fix: None,
        }
    }
}

impl core::error::Error for Error {}
impl core::error::Error for Errors {}

/// The correction of the most frequent mistake, missing quotes: `rtt = "40ms"` for `rtt = 40ms`.
fn quoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim();
    let bare = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '%' | '/' | '…');
    let plain =
        !value.is_empty() && value.chars().all(bare) && value.chars().any(|c| !c.is_ascii_digit());
    plain.then(|| format!("{} = \"{value}\"", key.trim()))
}

/// Line and column of a byte, both from 1.
fn position(source: &str, byte: usize) -> (usize, usize) {
    let mut byte = byte.min(source.len());
    while !source.is_char_boundary(byte) {
        byte -= 1;
    }
    let before = &source[..byte];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// `text` on one line and not too long, for any content.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
    }
    out
}

/// `value` as TOML on one line, shortened if it is long.
pub(super) fn show(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    printable(&out, 72)
}

/// Values deeper and longer than this are shortened, because the text is for a person.
fn write_value(out: &mut String, value: &Value, depth: usize) {
    if depth > 4 || out.len() > 400 {
        out.push('…');
        return;
    }
    match value {
        Value::String(s) => {
            let cut: String = s.chars().take(80).collect();
            out.push_str(&super::write::quote(&cut));
        }
        Value::Other(s) => out.push_str(s),
        Value::Integer(n) => out.push_str(&n.to_string()),
        Value::Float(x) => out.push_str(&super::write::float(*x)),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().take(8).enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_value(out, &item.value, depth + 1);
            }
            out.push(']');
        }
        Value::Table(Table { entries }) => {
            out.push('{');
            for (i, e) in entries.iter().take(8).enumerate() {
                let _ = write!(
                    out,
                    "{} {} = ",
                    if i > 0 { "," } else { "" },
                    super::write::key(&e.key)
                );
                write_value(out, &e.node.value, depth + 1);
            }
            out.push_str(" }");
        }
    }
}

/// The correction of an error.
pub(super) enum Fix {
    /// By another value (as TOML).
    Value(String),
    /// By another key.
    Key(&'static str),
    /// By this line.
    Line(String),
    /// No corrected line: the key has to be removed, or only the author can decide.
    None,
}

/// The correction of an error within its line: bytes of the source, and their replacement.
type Edit = (Range<usize>, String);

/// The line of the source with an edit, and with the line's other edits that do not overlap it. So
/// a suggestion contains no other error that has a correction.
fn corrected(source: &str, own: &Edit, edits: &[&Edit]) -> String {
    let start = source[..own.0.start].rfind('\n').map_or(0, |i| i + 1);
    let end = source[own.0.end..]
        .find('\n')
        .map_or(source.len(), |i| own.0.end + i);
    let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
    let mut chosen = alloc::vec![own];
    for edit in edits
        .iter()
        .filter(|(at, _)| start <= at.start && at.end <= end)
    {
        if chosen.iter().all(|(at, _)| apart(at, &edit.0)) {
            chosen.push(edit);
        }
    }
    chosen.sort_by_key(|(at, _)| at.start);
    let (mut line, mut at) = (String::new(), start);
    for (range, by) in chosen {
        line.push_str(&source[at..range.start]);
        line.push_str(by);
        at = range.end;
    }
    let after = source[at..end].trim_end();
    if !after.trim_start().starts_with('#') {
        line.push_str(after);
    }
    printable(line.trim_start(), 400)
}

/// Collects the errors of one document.
pub(super) struct Collector<'a> {
    pub file: &'a str,
    pub source: Option<&'a str>,
    pub files: &'a Files<'a>,
    /// Flows that models refer to by name.
    pub named: Vec<Named>,
    /// Errors with the byte at which they start, for the order of the file, and with their edits.
    errors: Vec<(usize, Error, Option<Edit>)>,
    omitted: usize,
}

impl<'a> Collector<'a> {
    pub fn new(file: &'a str, source: Option<&'a str>, files: &'a Files<'a>) -> Collector<'a> {
        Collector {
            file,
            source,
            files,
            named: Vec::new(),
            errors: Vec::new(),
            omitted: 0,
        }
    }

    /// An error in an existing value; `key_at` is the position of its key.
    pub fn value(
        &mut self,
        path: String,
        key_at: Option<&Range<usize>>,
        node: &Node,
        problem: impl Into<String>,
        fix: Fix,
    ) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let at = key_at.or(node.at.as_ref());
        let key = path.rsplit('.').next().unwrap_or(&path).to_string();
        let (line, edit) = match fix {
            Fix::Value(v) => (Some(format!("{key} = {v}")), self.edit(node.at.as_ref(), v)),
            Fix::Key(k) => (
                Some(match &node.value {
                    Value::Table(_) => format!("[{k}]"),
                    v => format!("{k} = {}", show(v)),
                }),
                self.edit(key_at, k.into()),
            ),
            Fix::Line(line) => (Some(line), None),
            Fix::None => (None, None),
        };
        let value = Some(show(&node.value));
        self.push(at, path, value, problem.into(), line, edit);
    }

    /// An error about a missing key; `near` is the place for it.
    pub fn missing(
        &mut self,
        path: String,
        near: Option<&Range<usize>>,
        problem: impl Into<String>,
        line: String,
    ) {
        self.push(near, path, None, problem.into(), Some(line), None);
    }

    /// Returns whether further errors are only counted, so that they need no correction.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MOST
    }

    fn push(
        &mut self,
        at: Option<&Range<usize>>,
        key: String,
        value: Option<String>,
        problem: String,
        fix: Option<String>,
        edit: Option<Edit>,
    ) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let start = at.map_or(0, |at| at.start);
        let line = self.source.map(|source| position(source, start).0);
        let error = Error {
            file: self.file.into(),
            line,
            column: None,
            key: printable(&key, 120),
            value,
            problem,
            fix,
        };
        self.errors.push((start, error, edit));
    }

    /// The replacement of `at`; `None` without source, or if `at` is more than one line.
    fn edit(&self, at: Option<&Range<usize>>, by: String) -> Option<Edit> {
        let (source, at) = (self.source?, at?);
        (!source.get(at.clone())?.contains('\n')).then(|| (at.clone(), by))
    }

    /// The errors, if any, else `ok`.
    pub fn finish<T>(mut self, ok: Option<T>) -> Result<T, Errors> {
        self.errors.sort_by_key(|(start, ..)| *start);
        let edits: Vec<&Edit> = self
            .errors
            .iter()
            .filter_map(|(.., e)| e.as_ref())
            .collect();
        let list = self.errors.iter().map(|(_, error, edit)| Error {
            fix: match (self.source, edit) {
                (Some(source), Some(own)) => Some(corrected(source, own, &edits)),
                _ => error.fix.clone(),
            },
            ..error.clone()
        });
        let list: Vec<Error> = list.collect();
        match ok {
            Some(ok) if list.is_empty() => Ok(ok),
            _ => Err(Errors {
                list,
                omitted: self.omitted,
            }),
        }
    }
}
