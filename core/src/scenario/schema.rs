//! One key of a scenario, declared once: its row says what it takes, and a plain one is read and
//! written by its row alone.
//!
//! The table of all rows is [`keys`](super::keys).

use super::error::Collector;
use super::keys;
use super::read::Section;
use super::value;
use super::write::{inline, param_node};
use crate::param::{Kind, Param, Params, Value};
use crate::units::{Bytes, Span};
use alloc::format;
use alloc::string::String;

/// What a key takes.
#[derive(Clone, PartialEq, Debug)]
pub enum Form {
    /// A value that its row says everything about: it is read and written by the row alone.
    Plain(Kind),
    /// What the section's own code reads, in a person's words.
    Told {
        /// What it takes: `time`, `rate`, `bytes`, `count` …
        takes: &'static str,
        /// The default; `required` where there is none.
        default: &'static str,
        /// The values accepted.
        range: &'static str,
    },
}

/// One key.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// The section it stands in; empty for the top level.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it takes, its default and its range.
    pub form: Form,
    /// One line of help.
    pub help: &'static str,
    /// Does this version understand it? What it does not yet is refused, never ignored.
    pub built: bool,
    /// Sections that have the keys of this one without this key: `path.hop` and `path.reverse`
    /// have those of `path`.
    pub without: &'static [&'static str],
}

pub(super) const fn key(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    range: &'static str,
    help: &'static str,
) -> Key {
    let form = Form::Told {
        takes,
        default,
        range,
    };
    row(section, name, form, help)
}

/// A key that is declared here and nowhere else: it is read, written, suggested and listed by its
/// row, and whoever uses it asks the section's `keys` for it.
pub(super) const fn plain(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    help: &'static str,
) -> Key {
    row(section, name, Form::Plain(kind), help)
}

const fn row(section: &'static str, name: &'static str, form: Form, help: &'static str) -> Key {
    Key {
        section,
        name,
        form,
        help,
        built: true,
        without: &[],
    }
}

impl Key {
    /// Of the whole path: no hop has it.
    pub(super) const fn of_the_whole_path(self) -> Key {
        Key {
            without: &["path.hop", "path.reverse"],
            ..self
        }
    }
    /// Of a hop with a distance: the reverse hop has none, since the others say it already.
    pub(super) const fn of_a_distance(self) -> Key {
        Key {
            without: &["path.reverse"],
            ..self
        }
    }
    /// What it takes: `time`, `rate`, `bytes`, `count` …
    pub fn takes(&self) -> &'static str {
        match &self.form {
            Form::Told { takes, .. } => takes,
            Form::Plain(Kind::Bool(_)) => "switch",
            Form::Plain(kind) => kind.what(),
        }
    }
    /// The default, in a person's words; `required` where there is none.
    pub fn default(&self) -> String {
        match &self.form {
            Form::Told { default, .. } => String::from(*default),
            Form::Plain(kind) => written(&kind.default()),
        }
    }
    /// The values accepted, in a person's words.
    pub fn range(&self) -> String {
        match &self.form {
            Form::Told { range, .. } => String::from(*range),
            Form::Plain(Kind::Bool(_)) => "true, false".into(),
            Form::Plain(Kind::Probability(_)) => "0 to 1, or 0% to 100%".into(),
            Form::Plain(Kind::Word(words)) => words.join(", "),
            Form::Plain(kind) => kind.ends().map_or_else(String::new, |(least, most)| {
                format!("{} to {}", written(&least), written(&most))
            }),
        }
    }
    /// Its row as that of a parameter, where it is plain.
    pub(super) fn param(&self) -> Option<Param> {
        let Form::Plain(kind) = &self.form else {
            return None;
        };
        Some(Param {
            name: self.name,
            kind: kind.clone(),
            help: self.help,
            source: "",
        })
    }
    /// Is it of the whole path and of no hop?
    pub(super) fn is_of_the_whole_path(&self) -> bool {
        self.without.contains(&"path.hop")
    }
    /// Is it a key of `section`?
    pub(super) fn is_of(&self, section: &str) -> bool {
        let hop = matches!(section, "path.hop" | "path.reverse");
        self.section == if hop { "path" } else { section } && !self.without.contains(&section)
    }
}

/// A value without the quotes of TOML.
fn written(value: &Value) -> String {
    match param_node(value).value {
        value::Value::String(text) => text,
        // A probability of nothing is 0.
        value::Value::Float(x) => format!("{x}"),
        other => inline(&other),
    }
}

/// The plain keys of a section. What the section's own code takes out has a place of its own in the
/// scenario; the rest stays together, under the names of the keys.
pub(super) struct Plain(Params);

impl Plain {
    /// Every plain key of a section at its default.
    pub fn defaults(section: &str) -> Plain {
        let mut keys = Params::default();
        for p in keys::of(section).filter_map(Key::param) {
            keys.set(p.name, p.default());
        }
        Plain(keys)
    }
    /// A switch.
    pub fn bool(&mut self, name: &str) -> bool {
        matches!(self.0.take(name), Some(Value::Bool(true)))
    }
    /// A count; what is small enough for its place says the row.
    pub fn count(&mut self, name: &str) -> u32 {
        match self.0.take(name) {
            Some(Value::Count(n)) => u32::try_from(n).unwrap_or(u32::MAX),
            _ => 0,
        }
    }
    /// A span.
    pub fn span(&mut self, name: &str) -> Span {
        match self.0.take(name) {
            Some(Value::Span(span)) => span,
            _ => Span::ZERO,
        }
    }
    /// A number.
    pub fn number(&mut self, name: &str) -> f64 {
        match self.0.take(name) {
            Some(Value::Number(x)) => x,
            _ => 0.0,
        }
    }
    /// Bytes.
    pub fn bytes(&mut self, name: &str) -> Bytes {
        match self.0.take(name) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => Bytes::ZERO,
        }
    }
    /// What a word stands for; the first of `all` where it is none of them.
    pub fn word<T: Copy, const N: usize>(
        &mut self,
        name: &str,
        all: [T; N],
        word: fn(T) -> &'static str,
    ) -> T {
        let written = self.0.take(name);
        let meant = |one: &T| matches!(&written, Some(Value::Word(text)) if text == word(*one));
        all.into_iter().find(meant).unwrap_or(all[0])
    }
    /// What nobody has taken out.
    pub fn rest(self) -> Params {
        self.0
    }
}

impl Collector<'_> {
    /// The plain keys of a section, each as it was written or at its default.
    pub fn plain(&mut self, s: &Section<'_>) -> Option<Plain> {
        self.plain_of(s, keys::of(s.name))
    }
    /// The plain ones of these keys.
    pub fn plain_of(
        &mut self,
        s: &Section<'_>,
        rows: impl Iterator<Item = &'static Key>,
    ) -> Option<Plain> {
        let mut read = Params::default();
        let mut good = true;
        for p in rows.filter_map(Key::param) {
            let value = match s.field(p.name) {
                None => Some(p.default()),
                Some(f) => match &p.kind {
                    Kind::Bool(_) => self.switch(&f).map(Value::Bool),
                    Kind::Bytes(_, least, most) => {
                        self.quantity(&f, "B", *least, *most).map(Value::Bytes)
                    }
                    Kind::Word(words) => {
                        let word = self.word(&f, words, words.first().copied().unwrap_or(""));
                        word.map(|word| Value::Word(word.into()))
                    }
                    _ => self.param(&f, &p, &[]),
                },
            };
            match value {
                Some(value) => read.set(p.name, value),
                None => good = false,
            }
        }
        good.then_some(Plain(read))
    }
}
