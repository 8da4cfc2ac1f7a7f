//! One key of a scenario, declared once: its row contains everything that the parser, the writer,
//! the lists and the documentation need.
//!
//! A key whose value is described completely by a kind of value is read and written by its row. The
//! code of a section takes the value into a field, or leaves it in the `keys` of the section. Other
//! keys are read by the code of their section. The rows of these keys contain the constants that
//! this code uses, so that each default and each range is stated once.
//!
//! The table of all rows is [`keys`](super::keys).

use super::error::{Collector, Fix};
use super::keys;
use super::model::offers;
use super::parse::missing;
use super::read::{Field, Section, unit_of};
use super::value;
use super::write::{inline, param_node, quote};
use crate::net::ElementKind;
use crate::param::{Choice, Kind, Param, Params, Value};
use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The values of a key, and its meaning when it is absent.
#[derive(Clone)]
pub enum Form {
    /// A value with a default, which is part of the kind.
    Plain(Kind),
    /// A required value; the default in the kind is the example in the error message.
    Required(Kind),
    /// A value that may be absent, with the description of that case; the default in the kind is
    /// an example.
    Optional(Kind, &'static str),
    /// A model of an effect on packets, or none.
    Model {
        /// The models.
        kinds: &'static [ElementKind],
        /// The short forms: `probability or { kind, parameters }`.
        takes: &'static str,
    },
    /// A text of at most so many characters, with the meaning of its absence in words.
    Text(usize, &'static str),
    /// A name of at most so many letters, digits, `_`, `-` and `.`, with the meaning of its absence
    /// in words.
    Name(usize, &'static str),
    /// A model of a registry, bare or with parameters: the name of the default, or the meaning of
    /// its absence in words.
    Registered(&'static str),
    /// A section, with the meaning of its absence in words.
    Section(&'static str),
    /// A list of sections.
    Sections {
        /// The type: `list of sections`, or the keys of an entry that is often written inline.
        takes: &'static str,
        /// The maximum number of entries; `None` without a maximum of its own.
        most: Option<usize>,
        /// The meaning of the key's absence, in words.
        absent: &'static str,
    },
    /// A value that the code of the section reads and writes, described in words.
    Custom {
        /// Type of the value: `time`, `rate`, `bytes`, `count` …
        takes: &'static str,
        /// The default; `required` where there is none.
        default: &'static str,
    },
}

/// Words of a row.
#[derive(Copy, Clone)]
enum Words {
    /// A constant text.
    Fixed(&'static str),
    /// A text that a function makes from the constants that the code of the section uses.
    Made(fn() -> String),
}

impl Words {
    fn text(self) -> String {
        match self {
            Words::Fixed(text) => text.into(),
            Words::Made(text) => text(),
        }
    }
}

/// One key.
#[derive(Clone)]
pub struct Key {
    /// The section of the key; empty for the top level.
    pub section: &'static str,
    /// The name of the key.
    pub name: &'static str,
    /// Type, default and range.
    pub form: Form,
    /// The range in words, if the form does not contain it.
    range: Option<Words>,
    /// The meaning of the key's absence in words, if these are made from constants.
    absent: Option<fn() -> String>,
    /// The unit that is proposed for a number without unit; empty: that of the default.
    unit: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Whether this version of narrows supports the key. In a scenario, a key that this version
    /// does not support is an error.
    pub built: bool,
    /// Sections that have the keys of this one without this key: `path.hop` and `path.reverse`
    /// have those of `path`.
    pub without: &'static [&'static str],
}

/// A key that the code of its section reads and writes.
pub(super) const fn custom(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Custom { takes, default }, help)
}

/// A key that the code of its section reads and writes, whose default is a constant of this code.
pub(super) const fn made(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: fn() -> String,
    help: &'static str,
) -> Key {
    custom(section, name, takes, "", help).usually(default)
}

/// A text of at most `most` characters.
pub(super) const fn text(
    section: &'static str,
    name: &'static str,
    most: usize,
    absent: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Text(most, absent), help)
}

/// A name of at most `most` characters, read by [`Collector::name`].
pub(super) const fn named(
    section: &'static str,
    name: &'static str,
    most: usize,
    absent: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Name(most, absent), help)
}

/// A model of a registry.
pub(super) const fn registered(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Registered(default), help)
}

/// A section of its own.
pub(super) const fn section(
    section: &'static str,
    name: &'static str,
    absent: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Section(absent), help)
}

/// A list of sections.
pub(super) const fn sections(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    most: Option<usize>,
    absent: &'static str,
    help: &'static str,
) -> Key {
    row(
        section,
        name,
        Form::Sections {
            takes,
            most,
            absent,
        },
        help,
    )
}

/// A key with a default.
pub(super) const fn plain(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    help: &'static str,
) -> Key {
    row(section, name, Form::Plain(kind), help)
}

/// A required key.
pub(super) const fn required(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    help: &'static str,
) -> Key {
    row(section, name, Form::Required(kind), help)
}

/// A key that may be absent; `absent` describes that case.
pub(super) const fn optional(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    absent: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Optional(kind, absent), help)
}

/// A key that selects a model of an effect on packets.
pub(super) const fn model(
    section: &'static str,
    name: &'static str,
    kinds: &'static [ElementKind],
    takes: &'static str,
    help: &'static str,
) -> Key {
    row(section, name, Form::Model { kinds, takes }, help)
}

const fn row(section: &'static str, name: &'static str, form: Form, help: &'static str) -> Key {
    Key {
        section,
        name,
        form,
        range: None,
        absent: None,
        unit: "",
        help,
        built: true,
        without: &[],
    }
}

impl Key {
    /// Sets the range in words.
    pub(super) const fn within(self, range: &'static str) -> Key {
        Key {
            range: Some(Words::Fixed(range)),
            ..self
        }
    }
    /// Sets the range in words, made from the constants that the code of the section uses.
    pub(super) const fn ranging(self, range: fn() -> String) -> Key {
        Key {
            range: Some(Words::Made(range)),
            ..self
        }
    }
    /// Sets the meaning of the key's absence in words, made from the constants that the code of the
    /// section uses.
    pub(super) const fn usually(self, absent: fn() -> String) -> Key {
        Key {
            absent: Some(absent),
            ..self
        }
    }
    /// Sets the unit that an error proposes for a number without unit.
    pub(super) const fn unit(self, unit: &'static str) -> Key {
        Key { unit, ..self }
    }
    /// Declares a key of the whole path, which no hop has.
    pub(super) const fn of_the_whole_path(self) -> Key {
        Key {
            without: &["path.hop", "path.reverse", "link"],
            ..self
        }
    }
    /// Declares a key of hops with two-way propagation. The reverse hop does not have such a key,
    /// because the values of the forward hops include the reverse direction. A link does not have
    /// such a key, because its propagation has one direction.
    pub(super) const fn of_a_distance(self) -> Key {
        Key {
            without: &["path.reverse", "link"],
            ..self
        }
    }
    /// The kind of its value, if a kind describes it.
    fn kind(&self) -> Option<&Kind> {
        match &self.form {
            Form::Plain(kind) | Form::Required(kind) | Form::Optional(kind, _) => Some(kind),
            _ => None,
        }
    }
    /// Type of the value: `time`, `rate`, `bytes`, `count` …
    pub fn takes(&self) -> &'static str {
        match (&self.form, self.kind()) {
            (
                Form::Model { takes, .. }
                | Form::Sections { takes, .. }
                | Form::Custom { takes, .. },
                _,
            ) => takes,
            (Form::Text(..) | Form::Name(..), _) => "text",
            (Form::Registered(_), _) => "name or { kind, parameters }",
            (Form::Section(_), _) => "section",
            (_, Some(Kind::Bool(_)) | None) => "boolean",
            (_, Some(Kind::Word(_))) => "choice",
            (_, Some(kind)) => kind.what(),
        }
    }
    /// The default in words; `required` where there is none.
    pub fn default(&self) -> String {
        if let Some(absent) = self.absent {
            return absent();
        }
        match &self.form {
            Form::Custom {
                default: absent, ..
            }
            | Form::Optional(_, absent)
            | Form::Text(_, absent)
            | Form::Name(_, absent)
            | Form::Registered(absent)
            | Form::Section(absent)
            | Form::Sections { absent, .. } => String::from(*absent),
            Form::Model { .. } => "none".into(),
            Form::Required(_) => "required".into(),
            Form::Plain(kind) => written(&kind.default()),
        }
    }
    /// The valid values in words.
    pub fn range(&self) -> String {
        match (self.range, self.kind()) {
            (Some(range), _) => range.text(),
            (None, None) => match self.form {
                Form::Text(most, _) => format!("up to {most} characters"),
                Form::Name(most, _) => format!("up to {most} letters, digits, _ - ."),
                Form::Sections {
                    most: Some(most), ..
                } => format!("up to {most}"),
                _ => String::new(),
            },
            (None, Some(Kind::Bool(_))) => "true, false".into(),
            (None, Some(Kind::Probability(_))) => "0 to 1, or 0% to 100%".into(),
            (None, Some(Kind::Word(words))) => words.join(", "),
            (None, Some(kind)) => kind.ends().map_or_else(String::new, |(least, most)| {
                format!("{} to {}", written(&least), written(&most))
            }),
        }
    }
    /// Returns the row of the key as that of a parameter, if a kind describes it.
    fn param(&self) -> Option<Param> {
        Some(Param {
            name: self.name,
            kind: self.kind()?.clone(),
            help: self.help,
            source: "",
        })
    }
    /// Returns whether the value stays in the `keys` of the section unless the section's code takes
    /// it.
    pub(super) fn is_kept(&self) -> bool {
        self.kind().is_some() || matches!(self.form, Form::Model { .. })
    }
    /// Returns whether this is a key of the whole path and of no hop.
    pub(super) fn is_of_the_whole_path(&self) -> bool {
        self.without.contains(&"path.hop")
    }
    /// Returns whether this is a key of `section`.
    pub(super) fn is_of(&self, section: &str) -> bool {
        let hop = matches!(section, "path.hop" | "path.reverse" | "link");
        let of_a_hop = hop && self.section == "path" && !self.without.contains(&section);
        self.section == section && !hop || of_a_hop || self.section == "link" && section == "link"
    }
}

/// A value without the quotes of TOML.
fn written(value: &Value) -> String {
    match param_node(value).value {
        value::Value::String(text) => text,
        // A probability of zero is 0.
        value::Value::Float(x) => format!("{x}"),
        other => inline(&other),
    }
}

/// The type of a field that has the value of one key.
pub(super) trait OfKey: Sized {
    /// The field's value; `None` for a value of another kind.
    fn of(value: Value) -> Option<Self>;
    /// The value for a scenario.
    fn value(&self) -> Value;
}

macro_rules! of_key {
    ($($of:ty, $kind:ident, $found:ident => $read:expr, $write:expr;)*) => {$(
        impl OfKey for $of {
            fn of(value: Value) -> Option<Self> {
                match value {
                    Value::$kind($found) => $read,
                    _ => None,
                }
            }
            fn value(&self) -> Value {
                let $found = self;
                Value::$kind($write)
            }
        }
    )*};
}

of_key! {
    bool, Bool, b => Some(b), *b;
    u64, Count, n => Some(n), *n;
    u32, Count, n => u32::try_from(n).ok(), u64::from(*n);
    u8, Count, n => u8::try_from(n).ok(), u64::from(*n);
    f64, Number, x => Some(x), *x;
    Span, Span, s => Some(s), *s;
    Bytes, Bytes, b => Some(b), *b;
    Rate, Rate, r => Some(r), *r;
    Choice, Choice, c => Some(*c), Box::new(c.clone());
}

/// The values of a section's keys that rows describe. The code of the section takes some into
/// fields; the others stay together, under the names of the keys.
pub(super) struct Values {
    read: Params,
    /// Keys whose values are wrong, or that are missing.
    wrong: Vec<&'static str>,
}

impl Values {
    /// Every key of a section with a default, at this default.
    pub fn defaults(section: &str) -> Values {
        let mut read = Params::default();
        for key in keys::of(section) {
            if let Form::Plain(kind) = &key.form {
                read.set(key.name, kind.default());
            }
        }
        Values {
            read,
            wrong: Vec::new(),
        }
    }
    /// Returns whether the value of this key is wrong, or missing.
    pub fn is_wrong(&self, name: &str) -> bool {
        self.wrong.contains(&name)
    }
    /// The value of a key that is always present; for a wrong one the default of the type.
    pub fn take<T: OfKey + Default>(&mut self, name: &str) -> T {
        self.optional(name).unwrap_or_default()
    }
    /// The value of a key that may be absent; none if it is wrong.
    pub fn optional<T: OfKey>(&mut self, name: &str) -> Option<T> {
        self.read.take(name).and_then(T::of)
    }
    /// The meaning of a word; the first of `names` if the value is none of them.
    pub fn word<T: Copy>(&mut self, name: &str, names: &[(&'static str, T)]) -> T {
        let written = self.read.take(name);
        let meant = |(word, _): &&(&str, T)| matches!(&written, Some(Value::Word(w)) if w == word);
        names.iter().find(meant).unwrap_or(&names[0]).1
    }
    /// The result of `read`; for sections without `keys`, which must take all of their values.
    pub fn all<T>(mut self, read: impl FnOnce(&mut Values) -> T) -> Option<T> {
        if !self.wrong.is_empty() {
            return None;
        }
        let read = read(&mut self);
        debug_assert!(
            self.read.iter().next().is_none(),
            "a key has no use: {:?}",
            self.read
        );
        Some(read)
    }
    /// The values that the section has not taken; `None` if any value is wrong.
    pub fn rest(self) -> Option<Params> {
        self.wrong.is_empty().then_some(self.read)
    }
}

impl Collector<'_> {
    /// The keys of a section that rows describe, as written or at their defaults.
    pub fn values(&mut self, s: &Section<'_>) -> Values {
        self.values_of(s, keys::of(s.name))
    }
    /// The values of the keys in `rows`, as written or at their defaults.
    pub fn values_of(
        &mut self,
        s: &Section<'_>,
        rows: impl Iterator<Item = &'static Key>,
    ) -> Values {
        let (mut read, mut wrong) = (Params::default(), Vec::new());
        for key in rows.filter(|key| key.is_kept()) {
            let value = match (s.field(key.name), &key.form) {
                (Some(f), _) => self.value_of(&f, key),
                (None, Form::Plain(kind)) => Some(kind.default()),
                (None, Form::Required(kind)) => {
                    let example = inline(&param_node(&kind.default()).value);
                    missing(self, s, key.name, &format!("{} = {example}", key.name))
                }
                (None, _) => continue,
            };
            match value {
                Some(value) => read.set(key.name, value),
                None => wrong.push(key.name),
            }
        }
        Values { read, wrong }
    }
    /// A name of at most `most` characters; `what` is its description in the message, `example`
    /// replaces an empty one.
    pub fn name(
        &mut self,
        f: &Field<'_>,
        most: usize,
        what: &str,
        example: &str,
    ) -> Option<String> {
        let name = self.text(f, most)?;
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !name.is_empty() && name.chars().all(fine) {
            return Some(name.into());
        }
        let cleaned: String = name
            .chars()
            .map(|c| if fine(c) { c } else { '_' })
            .collect();
        let fix = if name.is_empty() { example } else { &cleaned };
        let problem = format!("is not {what}: letters, digits, _ - .");
        self.refuse(f, problem, Fix::Value(quote(fix)));
        None
    }
    /// The value of one key.
    fn value_of(&mut self, f: &Field<'_>, key: &'static Key) -> Option<Value> {
        if let Form::Model { kinds, .. } = &key.form {
            let choice = self.element(f, key.name, &offers(kinds))?;
            return Some(Value::Choice(Box::new(choice)));
        }
        let param = key.param()?;
        match &param.kind {
            Kind::Bool(_) => self.switch(f).map(Value::Bool),
            Kind::Bytes(_, least, most) => self.quantity(f, "B", *least, *most).map(Value::Bytes),
            Kind::Span(default, least, most) => {
                let usual = unit_of(&written(&Value::Span(*default)), "ms");
                let unit = if key.unit.is_empty() {
                    &usual
                } else {
                    key.unit
                };
                self.quantity(f, unit, *least, *most).map(Value::Span)
            }
            Kind::Word(words) => {
                let example = words.first().copied().unwrap_or("");
                let word = self.word(f, words, switched(&f.entry.node.value, words, example));
                word.map(|word| Value::Word(word.into()))
            }
            _ => self.param(f, &param, &[]),
        }
    }
    /// Rejects the value of a key unless it is `good` beside the other keys; `fix` is a valid
    /// value.
    pub fn require(
        &mut self,
        f: Option<&Field<'_>>,
        good: bool,
        problem: &str,
        fix: impl FnOnce() -> String,
    ) -> Option<()> {
        match f {
            Some(f) if !good => {
                self.refuse(f, problem, Fix::Value(fix()));
                None
            }
            _ => Some(()),
        }
    }
}

/// The word that a switch means, if `on` and `off` are among the words.
fn switched(value: &value::Value, words: &[&'static str], otherwise: &'static str) -> &'static str {
    let meant = match value {
        value::Value::Integer(0) | value::Value::Bool(false) => "off",
        value::Value::Integer(1) | value::Value::Bool(true) => "on",
        _ => otherwise,
    };
    words
        .iter()
        .find(|word| **word == meant)
        .unwrap_or(&otherwise)
}
