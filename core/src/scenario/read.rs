//! Reading one value: its type, its unit, its range; and what to write instead.

use super::Choice;
use super::error::{Collector, Fix, show};
use super::keys;
use super::value::{Entry, Node, Table, Value};
use super::write::{float, quote};
use crate::net::ElementKind;
use crate::param::{self, Kind, Param, Params, Refusal, Text, TextKind};
use crate::units::{self, Bytes, Rate, Span, UnitError};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

/// One section being read.
pub(super) struct Section<'t> {
    /// Its name in [`keys::KEYS`].
    pub name: &'static str,
    /// As errors tell it: `flow[1]`; empty for the top level.
    pub path: String,
    /// What was written.
    pub table: &'t Table,
    /// Where it begins.
    pub at: Option<Range<usize>>,
}

/// One key of a section, present.
pub(super) struct Field<'t> {
    /// As errors tell it: `path.rtt`.
    pub path: String,
    /// What was written.
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
    fn node(&self) -> &Node {
        &self.entry.node
    }
    /// The name of the key.
    pub fn name(&self) -> &str {
        &self.entry.key
    }
}

/// What a name may be, with what is read of it.
pub(super) struct Offer {
    /// As a scenario writes it.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What must hold between them.
    pub check: fn(&Params) -> Result<(), Refusal>,
}

/// The models of an element, as a scenario may name them.
pub(super) fn offers(kinds: &'static [ElementKind]) -> Vec<Offer> {
    let offer = |k: &ElementKind| Offer {
        name: k.name,
        params: k.params,
        check: k.check,
    };
    kinds.iter().map(offer).collect()
}

/// What has a dimension.
pub(super) trait Quantity: Copy + Ord {
    const WHAT: &'static str;
    /// Reads a text; `bare` is the unit to propose where there is none.
    fn read(text: &str, bare: &str) -> Result<Self, UnitError>;
    fn text(self) -> String;
}
impl Quantity for Span {
    const WHAT: &'static str = "a time";
    fn read(text: &str, bare: &str) -> Result<Span, UnitError> {
        units::parse_span_near(text, bare)
    }
    fn text(self) -> String {
        units::format_span(self)
    }
}
impl Quantity for Bytes {
    const WHAT: &'static str = "a number of bytes";
    fn read(text: &str, bare: &str) -> Result<Bytes, UnitError> {
        units::parse_bytes_near(text, bare)
    }
    fn text(self) -> String {
        units::format_bytes(self)
    }
}
impl Quantity for Rate {
    const WHAT: &'static str = "a rate";
    fn read(text: &str, bare: &str) -> Result<Rate, UnitError> {
        units::parse_rate_near(text, bare)
    }
    fn text(self) -> String {
        units::format_rate(self)
    }
}

/// Reads `text` as a quantity between `least` and `most`: the quantity, or what is wrong and the
/// corrected text.
pub(super) fn within<Q: Quantity>(
    text: &str,
    bare: &str,
    least: Q,
    most: Q,
) -> Result<Q, UnitError> {
    match Q::read(text, bare) {
        Ok(q) if q < least => Err(UnitError {
            problem: format!("must be at least {}", least.text()),
            fix: least.text(),
        }),
        Ok(q) if q > most => Err(UnitError {
            problem: format!("must be at most {}", most.text()),
            fix: most.text(),
        }),
        Ok(q) => Ok(q),
        Err(e) => {
            let fix = match Q::read(&e.fix, bare) {
                Ok(q) if q < least => least.text(),
                Ok(q) if q > most => most.text(),
                _ => e.fix,
            };
            Err(UnitError {
                problem: e.problem,
                fix,
            })
        }
    }
}

/// The quantity in `node`, or what is wrong and the corrected TOML.
fn quantity<Q: Quantity>(node: &Node, bare: &str, least: Q, most: Q) -> Result<Q, (String, Fix)> {
    let text = match &node.value {
        Value::String(text) => text.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => float(*x),
        // An example in range: the default of nothing in particular.
        _ => {
            let example = Q::read("", bare).err().map(|e| e.fix).unwrap_or_default();
            let fix = within(&example, bare, least, most).map_or_else(|e| e.fix, Q::text);
            return Err((format!("is not {}", Q::WHAT), Fix::Value(quote(&fix))));
        }
    };
    within(&text, bare, least, most).map_err(|e| (e.problem, Fix::Value(quote(&e.fix))))
}

/// The quantities in `node`, a list; or what is wrong and the corrected TOML.
fn list<Q: Quantity>(node: &Node, bare: &str, least: Q, most: Q) -> Result<Vec<Q>, (String, Fix)> {
    let Value::Array(items) = &node.value else {
        let one = quantity(node, bare, least, most)
            .map_or_else(|(_, fix)| fix, |q| Fix::Value(quote(&q.text())));
        let fix = match one {
            Fix::Value(text) => Fix::Value(format!("[{text}]")),
            other => other,
        };
        return Err(("is not a list".into(), fix));
    };
    if items.len() > param::MOST_ENTRIES {
        return Err((
            format!("has more than {} entries", param::MOST_ENTRIES),
            Fix::None,
        ));
    }
    let mut read = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        read.push(quantity(item, bare, least, most).map_err(|(problem, fix)| {
            let mut entries: Vec<String> = items
                .iter()
                .map(|n| super::write::inline(&n.value))
                .collect();
            let fix = match fix {
                Fix::Value(text) => {
                    entries[i] = text;
                    Fix::Value(format!("[{}]", entries.join(", ")))
                }
                other => other,
            };
            (
                format!("has an entry, number {}, that {problem}", i + 1),
                fix,
            )
        })?);
    }
    Ok(read)
}

/// A bare number that a `u64` holds.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(n) => Some(*n),
        Value::Float(x) if libm::trunc(*x) == *x && libm::fabs(*x) < 9e15 => Some(*x as i128),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

/// The count in `node`, or what is wrong and the corrected TOML.
fn count(node: &Node, least: u64, most: u64) -> Result<u64, (String, Fix)> {
    let clamped = whole(&node.value).map_or(i128::from(least.max(1).min(most)), |n| {
        n.clamp(least.into(), most.into())
    });
    let fix = Fix::Value(clamped.to_string());
    match node.value {
        Value::Integer(n) if n < i128::from(least) => {
            Err((format!("must be at least {least}"), fix))
        }
        Value::Integer(n) if n > i128::from(most) => Err((format!("must be at most {most}"), fix)),
        Value::Integer(n) => u64::try_from(n).map_err(|_| ("is not a count".into(), fix)),
        _ => Err(("is not a count (a bare whole number)".into(), fix)),
    }
}

/// The number in `node`, or what is wrong and the corrected TOML.
fn number(node: &Node, default: f64, least: f64, most: f64) -> Result<f64, (String, Fix)> {
    let (x, bare) = match &node.value {
        Value::Integer(n) => (*n as f64, true),
        Value::Float(x) => (*x, true),
        Value::String(s) => (s.trim().parse().unwrap_or(f64::NAN), false),
        _ => (f64::NAN, false),
    };
    let fix = Fix::Value(float(if x.is_nan() {
        default
    } else {
        x.clamp(least, most)
    }));
    if !bare || x.is_nan() {
        Err(("is not a number (a bare one)".into(), fix))
    } else if x < least {
        Err((format!("must be at least {}", float(least)), fix))
    } else if x > most {
        Err((format!("must be at most {}", float(most)), fix))
    } else {
        Ok(x)
    }
}

/// The packets in `node` (`"20p"`), or what is wrong and the corrected TOML.
fn packets(node: &Node, default: u64, least: u64, most: u64) -> Result<u64, (String, Fix)> {
    let written = match &node.value {
        Value::String(s) => s
            .trim()
            .strip_suffix('p')
            .map(|n| (n.trim().parse::<f64>(), true)),
        Value::Integer(n) => Some((Ok(*n as f64), false)),
        _ => None,
    };
    let (n, unit) = match written {
        Some((Ok(n), unit)) if !n.is_nan() => (n, unit),
        _ => (f64::NAN, false),
    };
    // The casts saturate; a limit of packets is far below 2⁵³.
    let near = if n.is_nan() {
        default
    } else {
        (n.max(0.0) as u64).clamp(least, most)
    };
    let fix = Fix::Value(quote(&format!("{near}p")));
    if n.is_nan() {
        Err(("is not a number of packets".into(), fix))
    } else if !unit {
        Err(("needs a unit: p (packets)".into(), fix))
    } else if libm::trunc(n) != n || n < least as f64 || n > most as f64 {
        Err((
            format!("must be whole packets from {least}p to {most}p"),
            fix,
        ))
    } else {
        Ok(n as u64)
    }
}

/// The probability in `node`: `0.01` or `"1%"`.
fn probability(node: &Node) -> Result<f64, (String, Fix)> {
    let (x, percent) = match &node.value {
        Value::Integer(n) => (*n as f64, false),
        Value::Float(x) => (*x, false),
        Value::String(s) => match s.trim().strip_suffix('%') {
            Some(n) => (n.trim().parse::<f64>().unwrap_or(f64::NAN) / 100.0, true),
            None => {
                let fix = match s.trim().parse::<f64>() {
                    Ok(x) if (0.0..=1.0).contains(&x) => float(x),
                    Ok(x) if (0.0..=100.0).contains(&x) => quote(&format!("{x}%")),
                    _ => "\"1%\"".into(),
                };
                return Err((
                    "is not a probability: a bare number from 0 to 1, or percent".into(),
                    Fix::Value(fix),
                ));
            }
        },
        _ => (f64::NAN, false),
    };
    if (0.0..=1.0).contains(&x) {
        // No -0: it would be written back differently.
        return Ok(x + 0.0);
    }
    let fix = match (percent, x) {
        (_, x) if x.is_nan() => "\"1%\"".into(),
        (_, x) if x < 0.0 => "0.0".into(),
        (false, x) if x <= 100.0 => quote(&format!("{x}%")),
        _ => "\"100%\"".into(),
    };
    Err((
        "is not a probability: 0 to 1, or 0% to 100%".into(),
        Fix::Value(fix),
    ))
}

/// What a table has in the place of a bare name or of the bare value of a first parameter.
fn bare(node: &Node, offer: &Offer) -> String {
    match (&node.value, offer.params.first()) {
        (Value::String(name), _) if name == offer.name => format!("kind = {}", quote(name)),
        (value, Some(param)) => format!("{} = {}", param.name, super::write::inline(value)),
        (_, None) => format!("kind = {}", quote(offer.name)),
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
    /// Keeps what was read, or notes what was wrong.
    fn keep<T>(&mut self, f: &Field<'_>, read: Result<T, (String, Fix)>) -> Option<T> {
        read.map_err(|(problem, fix)| self.refuse(f, problem, fix))
            .ok()
    }
    /// Notes what is wrong with a field.
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
    /// One of `words`; `example` is proposed where none is near.
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
                self.refuse(f, "is not a text", Fix::Value(quote(&show(other))));
                None
            }
        }
    }

    /// Refuses the keys of a section that nobody will read.
    pub fn known_keys(&mut self, s: &Section<'_>) {
        let names: Vec<&'static str> = keys::of(s.name)
            .filter(|k| k.built)
            .map(|k| k.name)
            .collect();
        // What stands there already was not meant again.
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
                    let problem = format!(
                        "({}) is not supported yet by this version; take it out",
                        k.help
                    );
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
                        let problem = "is for [path] to say: the way back is as long as the way \
                            there leaves of its rtt";
                        self.refuse(&f, problem, Fix::None);
                        continue;
                    }
                    let inline = keys::entry(s.name).is_some();
                    let is_section = matches!(entry.node.value, Value::Table(_) | Value::Array(_));
                    if let Some(home) = keys::KEYS
                        .iter()
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

    /// One model of an element: a table, of the first kind where it names none; a name; or the bare
    /// value of that kind's first parameter.
    pub fn element(&mut self, f: &Field<'_>, what: &str, known: &[Offer]) -> Option<Choice> {
        let first = known.first()?;
        // Where there are several, a word that is no value of theirs was meant as one of them.
        let word = |text: &str| known.len() > 1 && text.starts_with(|c: char| c.is_alphabetic());
        let named = |name: &str| word(name) || known.iter().any(|offer| offer.name == name);
        let kind = match &f.entry.node.value {
            Value::Table(table) => table.get("kind").map(|e| &e.node.value),
            _ => None,
        };
        let meant = match kind {
            Some(Value::String(name)) => known.iter().find(|offer| offer.name == name),
            _ => Some(first),
        };
        if meant.is_some_and(|offer| self.is_empty(f, offer)) {
            return None;
        }
        let node = match &f.entry.node.value {
            Value::Table(table) if table.get("kind").is_some() => {
                return self.choice(f, what, known, &[]);
            }
            Value::String(name) if named(name) => return self.choice(f, what, known, &[]),
            Value::Table(_) => None,
            _ => Some(f.node()),
        };
        if let Some(node) = node {
            let (Some(param), mut params) = (first.params.first(), Params::defaults(first.params))
            else {
                return None;
            };
            let field = Field {
                path: f.path.clone(),
                entry: f.entry,
            };
            debug_assert_eq!(node, field.node());
            let value = self.param(&field, param, known)?;
            params.set(param.name, value);
            return self.checked(f, first, params);
        }
        self.parameters(f, first, known)
    }

    /// A table without what it is about means nothing, which nobody asks for by a table.
    fn is_empty(&mut self, f: &Field<'_>, offer: &Offer) -> bool {
        let (Value::Table(table), Some(first)) = (&f.node().value, offer.params.first()) else {
            return false;
        };
        let fix = match first.name {
            "spread" => "\"1ms\"",
            "probability" => "\"1%\"",
            _ => return false,
        };
        // Another name may be this one, misspelt.
        let unknown = |e: &Entry| e.key != "kind" && offer.params.iter().all(|p| p.name != e.key);
        if table.get(first.name).is_some() || table.entries.iter().any(unknown) {
            return false;
        }
        let refusal = Refusal {
            param: first.name,
            problem: "is missing".into(),
            fix: fix.into(),
        };
        self.refuse_param(f, offer, refusal);
        true
    }

    /// A registered name, bare or as `{ kind = …, parameters }`. `known` gives the names and their
    /// tables.
    pub fn choice(
        &mut self,
        f: &Field<'_>,
        what: &str,
        known: &[Offer],
        later: &'static [&'static str],
    ) -> Option<Choice> {
        if let Value::Table(table) = &f.entry.node.value {
            if table.get("kind").is_none() {
                let has = |offer: &&Offer, e: &Entry| offer.params.iter().any(|p| p.name == e.key);
                let fits = |offer: &&Offer| table.entries.iter().all(|e| has(offer, e));
                let fix = known.iter().find(fits).map_or(Fix::None, |offer| {
                    let rest = super::write::inline(&f.entry.node.value);
                    let rest = rest.trim_start_matches(['{', ' ']);
                    let comma = if table.entries.is_empty() { " " } else { ", " };
                    Fix::Value(format!("{{ kind = {}{comma}{rest}", quote(offer.name)))
                });
                let names: Vec<&str> = known.iter().map(|offer| offer.name).collect();
                self.refuse(f, format!("has no kind; known: {}", listed(&names)), fix);
                return None;
            }
        }
        let kind = self.kind(f, what)?;
        let name = kind.0;
        let names: Vec<&'static str> = known.iter().map(|offer| offer.name).collect();
        let Some(offer) = known.iter().find(|offer| offer.name == name) else {
            let with = |near: &str| {
                // Only the name is wrong: keep the parameters.
                match kind.1 {
                    Some(field) => (field, Fix::Value(quote(near))),
                    None => (
                        Field {
                            path: f.path.clone(),
                            entry: f.entry,
                        },
                        Fix::Value(quote(near)),
                    ),
                }
            };
            let near = keys::nearest(name, names.iter().copied().chain(later.iter().copied()));
            if later.contains(&name) {
                let (field, fix) = with(names.first().copied().unwrap_or(""));
                let problem = format!(
                    "is not supported yet by this version; {what}s it has: {}",
                    listed(&names)
                );
                self.refuse(&field, problem, fix);
            } else {
                let near = near
                    .filter(|n| names.contains(n))
                    .or(names.first().copied())
                    .unwrap_or("");
                let (field, fix) = with(near);
                self.refuse(
                    &field,
                    format!("is not a known {what}; known: {}", listed(&names)),
                    fix,
                );
            }
            return None;
        };
        self.parameters(f, offer, known)
    }

    /// The parameters of `offer`, which is one of `known`, in a table, or none in a bare name.
    fn parameters(&mut self, f: &Field<'_>, offer: &Offer, known: &[Offer]) -> Option<Choice> {
        let params = self.table(f, offer, known)?;
        self.checked(f, offer, params)
    }

    /// Each parameter of `offer` for itself.
    pub fn table(&mut self, f: &Field<'_>, offer: &Offer, known: &[Offer]) -> Option<Params> {
        let name = offer.name;
        let table = offer.params;
        let mut params = Params::defaults(table);
        for p in table {
            if let Kind::Choice(kind) = p.kind {
                if let Some(choice) = super::nested::default_of(kind, known) {
                    params.set(p.name, param::Value::Choice(Box::new(choice)));
                }
            }
        }
        let mut good = true;
        if let Value::Table(written) = &f.entry.node.value {
            for entry in written.entries.iter().filter(|e| e.key != "kind") {
                let field = Field {
                    path: format!("{}.{}", f.path, super::write::key(&entry.key)),
                    entry,
                };
                let value = match table.iter().find(|p| p.name == entry.key) {
                    Some(p) => self.param(&field, p, known).map(|v| (p.name, v)),
                    None => {
                        let names: Vec<&'static str> = table.iter().map(|p| p.name).collect();
                        let fix = keys::nearest(&entry.key, names.iter().copied())
                            .map_or(Fix::None, Fix::Key);
                        self.refuse(
                            &field,
                            format!("is not a parameter of {name}; it has: {}", listed(&names)),
                            fix,
                        );
                        None
                    }
                };
                match value {
                    Some((name, value)) => params.set(name, value),
                    None => good = false,
                }
            }
        }
        good.then_some(params)
    }

    /// Parameters that are right each for itself, if they are together.
    fn checked(&mut self, f: &Field<'_>, offer: &Offer, params: Params) -> Option<Choice> {
        if let Err(refusal) = (offer.check)(&params) {
            self.refuse_param(f, offer, refusal);
            return None;
        }
        Some(Choice {
            kind: offer.name.into(),
            params,
        })
    }

    /// Tells what a check of parameters found: at the parameter where it was written, else at the
    /// whole choice.
    pub fn refuse_param(&mut self, f: &Field<'_>, offer: &Offer, refusal: Refusal) {
        let Refusal {
            param,
            problem,
            fix,
        } = refusal;
        let written = match &f.entry.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        };
        if let Some(entry) = written.and_then(|table| table.get(param)) {
            let field = Field {
                path: format!("{}.{param}", f.path),
                entry,
            };
            return self.refuse(&field, problem, Fix::Value(fix));
        }
        let mut pairs: Vec<String> = match written {
            Some(table) => {
                let pair = |e: &Entry| {
                    format!(
                        "{} = {}",
                        super::write::key(&e.key),
                        super::write::inline(&e.node.value)
                    )
                };
                table.entries.iter().map(pair).collect()
            }
            None => alloc::vec![bare(f.node(), offer)],
        };
        pairs.push(format!("{param} = {fix}"));
        let fix = format!("{{ {} }}", pairs.join(", "));
        let problem = match problem.as_str() {
            "is missing" | "must be given" => format!("has no {param}"),
            _ => format!("has a {param} that {problem}"),
        };
        self.refuse(f, problem, Fix::Value(fix));
    }

    /// The name in `"name"` or `{ kind = "name", … }`, and the field of `kind` in the second case.
    pub fn kind<'t>(&mut self, f: &Field<'t>, what: &str) -> Option<(&'t str, Option<Field<'t>>)> {
        match &f.entry.node.value {
            Value::String(name) => Some((name, None)),
            Value::Table(t) => match t.get("kind") {
                Some(entry) => {
                    let field = Field {
                        path: format!("{}.kind", f.path),
                        entry,
                    };
                    let name = self.text(&field, 200)?;
                    Some((name, Some(field)))
                }
                None => {
                    self.refuse(f, format!("has no kind: which {what}?"), Fix::None);
                    None
                }
            },
            _ => {
                self.refuse(
                    f,
                    format!("is not a {what}: a name, or {{ kind = … }}"),
                    Fix::None,
                );
                None
            }
        }
    }

    /// One parameter against its row of the table.
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
                // What can be off can also be switched: `hystart = false`.
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
            Kind::Rows(rows) => return self.rows(f, rows, known),
            Kind::Choice(_) => return self.inner(f, known),
            Kind::Match => return self.matching(f),
        };
        self.keep(f, read)
    }

    /// The text that comes with narrows, that lies in a file, or that stands there itself: what has
    /// several lines.
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
                let problem = format!("{problem}; come with narrows: {}", listed(&names));
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

/// What is wrong with a value that is no switch: it is one in other words, or the `usual` one is
/// proposed.
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

/// The unit that a default is written in is the one to propose; that of nothing says nothing.
fn unit_of(text: &str, usual: &str) -> String {
    match text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.') {
        _ if text.starts_with('0') && !text.contains('.') => usual.into(),
        unit => unit.into(),
    }
}
