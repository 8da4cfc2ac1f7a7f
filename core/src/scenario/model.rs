//! Models with their parameters: `"name"`, `{ kind = "name", parameters }`, and the short form of
//! an element, which is the value of its first parameter.

use super::Choice;
use super::error::{Collector, Fix};
use super::keys;
use super::read::{Field, listed};
use super::value::{Entry, Node, Value};
use super::write::quote;
use crate::net::ElementKind;
use crate::param::{self, Kind, OF_KERNEL, Param, Params, Refusal};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A registered name with its parameters.
pub(super) struct Offer {
    /// The name of the kind in a scenario.
    pub name: &'static str,
    /// The parameters of the kind.
    pub params: &'static [Param],
    /// The check of parameters that depend on each other.
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

/// The table entry that replaces a bare name, or the bare value of a first parameter.
fn bare(node: &Node, offer: &Offer) -> String {
    match (&node.value, offer.params.first()) {
        (Value::String(name), _) if name == offer.name => format!("kind = {}", quote(name)),
        (value, Some(param)) => format!("{} = {}", param.name, super::write::inline(value)),
        (_, None) => format!("kind = {}", quote(offer.name)),
    }
}

/// A congestion control that only a kernel has: `"kernel:NAME"`. Linux permits 15 characters.
pub(super) fn of_kernel(f: &Field<'_>) -> Option<Choice> {
    let Value::String(kind) = &f.entry.node.value else {
        return None;
    };
    let name = kind.strip_prefix(OF_KERNEL)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let right = (1..=15).contains(&name.len()) && name.chars().all(fits);
    right.then(|| Choice {
        kind: kind.clone(),
        params: Params::default(),
    })
}

impl Collector<'_> {
    /// One model of an element: a table, a name, or the bare value of the first kind's first
    /// parameter. A table without a kind is of the first kind.
    pub fn element(&mut self, f: &Field<'_>, what: &str, known: &[Offer]) -> Option<Choice> {
        let first = known.first()?;
        // With several kinds, a word that is no value of theirs is meant as one of them. `nan` and
        // `inf` are numbers, although no value permits them.
        let word = |text: &str| {
            let number = text.trim_end_matches('%').trim().parse::<f64>().is_ok();
            known.len() > 1 && text.starts_with(|c: char| c.is_alphabetic()) && !number
        };
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

    /// Refuses a table without the parameter that gives it an effect.
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
        let unknown =
            |e: &Entry| e.key != "kind" && !offer.params.iter().any(|p| p.is_called(&e.key));
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
        other: &[(&'static str, &str)],
    ) -> Option<Choice> {
        if let Value::Table(table) = &f.entry.node.value {
            if table.get("kind").is_none() {
                let has =
                    |offer: &&Offer, e: &Entry| offer.params.iter().any(|p| p.is_called(&e.key));
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
            let others = other.iter().map(|(other, _)| *other);
            let near = keys::nearest(name, names.iter().copied().chain(others));
            if let Some((_, problem)) = other.iter().find(|(other, _)| *other == name) {
                let (field, fix) = with(names.first().copied().unwrap_or(""));
                self.refuse(&field, *problem, fix);
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

    /// Reads each parameter of `offer` by itself.
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
            // Names that the correction of another name may have.
            let mut absent: Vec<&'static str> = table.iter().map(|p| p.name).collect();
            absent.retain(|name| written.get(name).is_none());
            for entry in written.entries.iter().filter(|e| e.key != "kind") {
                let field = Field {
                    path: format!("{}.{}", f.path, super::write::key(&entry.key)),
                    entry,
                };
                let value = match table.iter().find(|p| p.is_called(&entry.key)) {
                    Some(p) if p.name != entry.key && written.get(p.name).is_some() => {
                        let problem = format!("is the former name of {}, which is present", p.name);
                        self.refuse(&field, problem, Fix::None);
                        None
                    }
                    Some(p) => self.param(&field, p, known).map(|v| (p.name, v)),
                    None => {
                        let names: Vec<&'static str> = table.iter().map(|p| p.name).collect();
                        let near = keys::nearest(&entry.key, absent.iter().copied());
                        absent.retain(|name| near != Some(*name));
                        let fix = near.map_or(Fix::None, Fix::Key);
                        self.refuse(
                            &field,
                            format!("is not a parameter of {name}; known: {}", listed(&names)),
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

    /// Checks parameters that are valid by themselves for conditions between them.
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

    /// Reports the mistake that a check of parameters found: at the parameter where it was written,
    /// else at the whole choice.
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
                    self.refuse(f, format!("has no kind, the name of the {what}"), Fix::None);
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
}
