//! One section and one of its values: unknown keys, switches, words, texts and files.

use super::error::{Collector, Fix, show};
use super::keys;
use super::model::Offer;
use super::parse::MOST_NAME;
use super::quantity::{Quantity, count, list, number, packets, probability, quantity};
use super::value::{Entry, Node, Table, Value};
use super::write::quote;
use crate::param::{self, Kind, Param, Text, TextKind};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

/// One section being read.
pub(super) struct Section<'t> {
    /// The name of the section in [`keys`].
    pub name: &'static str,
    /// The path of the section in errors: `flow[1]`; empty for the top level.
    pub path: String,
    /// The table of the section in the source.
    pub table: &'t Table,
    /// The position of the section in the source.
    pub at: Option<Range<usize>>,
}

/// One key of a section, present.
pub(super) struct Field<'t> {
    /// The path of the key in errors: `path.rtt`.
    pub path: String,
    /// The entry of the key in the source.
    pub entry: &'t Entry,
}

impl<'t> Section<'t> {
    /// The key called `name`, if it was written.
    pub fn field(&self, name: &str) -> Option<Field<'t>> {
        self.table.get(name).map(|entry| Field {
            path: self.path_of(name),
            entry,
        })
    }
    /// The path of a key in this section.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.into()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

impl Field<'_> {
    /// Returns the value of the key.
    pub fn node(&self) -> &Node {
        &self.entry.node
    }
    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.entry.key
    }
}

/// A list for a person: `a, b, c`.
pub(super) fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

impl Collector<'_> {
    /// Returns the value, or records the error.
    fn keep<T>(&mut self, f: &Field<'_>, read: Result<T, (String, Fix)>) -> Option<T> {
        read.map_err(|(problem, fix)| self.refuse(f, problem, fix))
            .ok()
    }
    /// Records an error in a field.
    pub fn refuse(&mut self, f: &Field<'_>, problem: impl Into<String>, fix: Fix) {
        self.value(
            f.path.clone(),
            f.entry.key_at.as_ref(),
            &f.entry.node,
            problem,
            fix,
        );
    }
    /// A quantity.
    pub fn quantity<Q: Quantity>(
        &mut self,
        f: &Field<'_>,
        bare: &str,
        least: Q,
        most: Q,
    ) -> Option<Q> {
        self.keep(f, quantity(f.node(), bare, least, most))
    }
    /// A count.
    pub fn count(&mut self, f: &Field<'_>, least: u64, most: u64) -> Option<u64> {
        self.keep(f, count(f.node(), least, most))
    }
    /// `true` or `false`.
    pub fn switch(&mut self, f: &Field<'_>) -> Option<bool> {
        let read = match f.node().value {
            Value::Bool(b) => Ok(b),
            ref other => Err(not_a_switch(other, true)),
        };
        self.keep(f, read)
    }
    /// One of `words`; `example` is proposed if none is near.
    pub fn word(
        &mut self,
        f: &Field<'_>,
        words: &[&'static str],
        example: &'static str,
    ) -> Option<&'static str> {
        let written = match &f.node().value {
            Value::String(s) => s.as_str(),
            _ => "",
        };
        let found = words.iter().copied().find(|word| *word == written);
        if found.is_none() {
            let near = keys::nearest(written, words.iter().copied()).unwrap_or(example);
            self.refuse(
                f,
                format!("is none of: {}", listed(words)),
                Fix::Value(quote(near)),
            );
        }
        found
    }
    /// A text of at most `most` characters.
    pub fn text<'t>(&mut self, f: &Field<'t>, most: usize) -> Option<&'t str> {
        match &f.entry.node.value {
            Value::String(s) if s.chars().count() <= most => Some(s),
            Value::String(s) => {
                let cut: String = s.chars().take(most).collect();
                self.refuse(
                    f,
                    format!("is longer than {most} characters"),
                    Fix::Value(quote(&cut)),
                );
                None
            }
            other => {
                self.refuse(f, "is not a string", Fix::Value(quote(&show(other))));
                None
            }
        }
    }

    /// Rejects the unknown keys of a section.
    pub fn known_keys(&mut self, s: &Section<'_>) {
        let names: Vec<&'static str> = keys::of(s.name)
            .filter(|k| k.built)
            .map(|k| k.name)
            .collect();
        // A key that is already present is not proposed.
        let absent: Vec<&'static str> = names
            .iter()
            .copied()
            .filter(|name| s.table.get(name).is_none())
            .collect();
        for entry in &s.table.entries {
            let f = Field {
                path: s.path_of(&super::write::key(&entry.key)),
                entry,
            };
            match keys::of(s.name).find(|k| k.name == entry.key) {
                Some(k) if k.built => {}
                Some(k) => {
                    let problem =
                        format!("({}) is not supported by this version; remove it", k.help);
                    self.refuse(&f, problem, Fix::None);
                }
                None if self.is_full() => self.refuse(&f, "", Fix::None),
                None => {
                    let place = if s.name.is_empty() {
                        "the top level".into()
                    } else {
                        keys::header(s.name)
                    };
                    if s.name == "path.reverse" && keys::of("path.hop").any(|k| k.name == entry.key)
                    {
                        let problem = "is a key of [path] only: the reverse path has the \
                            part of rtt that delay_forward leaves";
                        self.refuse(&f, problem, Fix::None);
                        continue;
                    }
                    let inline = keys::entry(s.name).is_some();
                    let is_section = matches!(entry.node.value, Value::Table(_) | Value::Array(_));
                    if let Some(home) = keys::all()
                        .filter(|k| !inline && (is_section || !k.takes().contains("section")))
                        .find(|k| k.built && k.name == entry.key)
                    {
                        let line = format!("{} = {}", entry.key, show(&entry.node.value));
                        let (home, fix) = match home.section {
                            "" => ("the top level, before any section".into(), line),
                            section => (
                                keys::header(section),
                                format!("{}\n{line}", keys::header(section)),
                            ),
                        };
                        self.refuse(
                            &f,
                            format!("is not a key of {place}, but of {home}"),
                            Fix::Line(fix),
                        );
                        continue;
                    }
                    let near = keys::nearest(&entry.key, absent.iter().copied());
                    let problem = format!("is not a key of {place}; known: {}", listed(&names));
                    self.refuse(&f, problem, near.map_or(Fix::None, Fix::Key));
                }
            }
        }
    }

    /// Reads a parameter by its row of the table.
    pub fn param(&mut self, f: &Field<'_>, p: &Param, known: &[Offer]) -> Option<param::Value> {
        let node = f.node();
        let read = match &p.kind {
            Kind::Bool(default) => match node.value {
                Value::Bool(b) => Ok(param::Value::Bool(b)),
                ref other => Err(not_a_switch(other, *default)),
            },
            Kind::Count(_, least, most) => count(node, *least, *most).map(param::Value::Count),
            Kind::Number(default, least, most) => {
                number(node, *default, *least, *most).map(param::Value::Number)
            }
            Kind::Span(default, least, most) => {
                quantity(node, &unit_of(&default.text(), "ms"), *least, *most)
                    .map(param::Value::Span)
            }
            Kind::Bytes(default, least, most) => {
                quantity(node, &unit_of(&default.text(), "B"), *least, *most)
                    .map(param::Value::Bytes)
            }
            Kind::Rate(default, least, most) => {
                quantity(node, &unit_of(&default.text(), "Mbit"), *least, *most)
                    .map(param::Value::Rate)
            }
            Kind::Packets(default, least, most) => {
                packets(node, *default, *least, *most).map(param::Value::Packets)
            }
            Kind::Probability(_) => probability(node).map(param::Value::Number),
            Kind::Word(words) => match &node.value {
                Value::String(s) if words.contains(&s.as_str()) => {
                    Ok(param::Value::Word(s.clone()))
                }
                // A value that can be `off` can also be switched: `hystart = false`.
                Value::Bool(on) if words.contains(&"off") => {
                    let word = if *on { words[0] } else { "off" };
                    Ok(param::Value::Word(word.into()))
                }
                other => {
                    let written = if let Value::String(s) = other {
                        s.as_str()
                    } else {
                        ""
                    };
                    let near = keys::nearest(written, words.iter().copied())
                        .or(words.first().copied())
                        .unwrap_or("");
                    Err((
                        format!("is none of: {}", listed(words)),
                        Fix::Value(quote(near)),
                    ))
                }
            },
            Kind::Text(kind) => self.file(node, kind).map(param::Value::Text),
            Kind::Sizes(_, least, most) => list(node, "B", *least, *most).map(param::Value::Sizes),
            Kind::Rates(_, least, most) => {
                list(node, "Mbit", *least, *most).map(param::Value::Rates)
            }
            Kind::Handle(_) => super::nested::handle(node),
            Kind::Name => {
                return self
                    .name(f, MOST_NAME, "a name", "a")
                    .map(param::Value::Word);
            }
            Kind::Rows(rows) => return self.rows(f, rows, known),
            Kind::Choice(_) => return self.inner(f, known),
            Kind::Match => return self.matching(f),
        };
        self.keep(f, read)
    }

    /// Reads a text: one of narrows, a file, or a text of several lines in the scenario itself.
    fn file(&self, node: &Node, kind: &TextKind) -> Result<Text, (String, Fix)> {
        let names: Vec<&'static str> = kind.names().collect();
        let example =
            |near: Option<&str>| Fix::Value(quote(near.or(names.first().copied()).unwrap_or("")));
        let Value::String(written) = &node.value else {
            return Err(("is not the name of a file".into(), example(None)));
        };
        if let Some(text) = kind.shipped(written) {
            return Ok(text);
        }
        let itself = written.contains('\n');
        let text: String = if itself {
            written.clone()
        } else {
            (self.files)(written).map_err(|problem| {
                let problem = format!("{problem}; included in narrows: {}", listed(&names));
                (
                    problem,
                    example(keys::nearest(written, names.iter().copied())),
                )
            })?
        };
        (kind.check)(&text).map_err(|e| {
            let place = match e.line {
                0 => String::new(),
                n => format!(" in line {n}"),
            };
            (
                format!("has a mistake{place}: {}; {}", e.problem, e.fix),
                Fix::None,
            )
        })?;
        Ok(Text {
            name: (!itself).then(|| written.clone()),
            text: text.into(),
        })
    }
}

/// The error for a value that is not true or false. The correction is what the value means in other
/// words, such as `"yes"`, otherwise `usual`.
fn not_a_switch(value: &Value, usual: bool) -> (String, Fix) {
    let meant = match value {
        Value::Integer(n) => Some(*n != 0),
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "yes" | "y" | "on" | "true" | "t" | "enabled" | "1" => Some(true),
            "no" | "n" | "off" | "false" | "f" | "disabled" | "none" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    };
    let fix = meant.unwrap_or(usual).to_string();
    ("is not true or false".into(), Fix::Value(fix))
}

/// The unit that an error proposes for a bare number: that of the default in `text`, or `usual` if
/// the default is 0.
pub(super) fn unit_of(text: &str, usual: &str) -> String {
    match text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.') {
        _ if text.starts_with('0') && !text.contains('.') => usual.into(),
        unit => unit.into(),
    }
}
