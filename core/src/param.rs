//! Parameters, declared once: from the one table come validation, `narrows list --verbose`, the
//! docs and the report.

use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// On or off.
    Bool(bool),
    /// A count.
    Count(u64),
    /// A number without dimension.
    Number(f64),
    /// A length of time.
    Span(Span),
    /// A number of bytes.
    Bytes(Bytes),
    /// A rate.
    Rate(Rate),
    /// A number of packets.
    Packets(u64),
    /// One of the words of a [`Kind::Word`], or a [`Kind::Handle`].
    Word(String),
    /// The text of a [`Kind::Text`].
    Text(Text),
    /// A list of sizes.
    Sizes(Vec<Bytes>),
    /// A list of rates.
    Rates(Vec<Rate>),
    /// A list of tables, each with parameters of its own.
    Rows(Vec<Params>),
    /// A model inside of this one.
    Choice(Box<Choice>),
    /// Which packets are meant.
    Match(Match),
}

/// A registered name with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The name in the registry.
    pub kind: String,
    /// Its whole table, defaults filled in.
    pub params: Params,
}

impl Choice {
    /// `kind` with the defaults of its table but for these parameters, for those who build a
    /// scenario without a parser; nothing is checked.
    pub fn new(kind: &str, table: &[Param], set: &[(&'static str, Value)]) -> Choice {
        let mut params = Params::defaults(table);
        set.iter()
            .for_each(|(name, value)| params.set(name, value.clone()));
        Choice {
            kind: kind.into(),
            params,
        }
    }
}

/// Which packets: those of these flows that have one of these code points. Where it names no flows,
/// of any; where it names no code points, with any; where it names neither, none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Flows and probes as a scenario names them.
    pub names: Vec<String>,
    /// Their places in the scenario; probes count on from the last flow.
    pub flows: Vec<u32>,
    /// Code points, the lowest bit for 0.
    pub dscp: u64,
}

/// Which table of a list is refused, and why.
pub type Misplaced = (usize, Refusal);

/// A list of tables of one kind.
#[derive(Debug)]
pub struct Rows {
    /// What they are called.
    pub what: &'static str,
    /// What one of them is called.
    pub one: &'static str,
    /// Those of its parameters that must be given.
    pub required: &'static [&'static str],
    /// The parameters of each.
    pub params: &'static [Param],
    /// What must hold between them: which one is wrong, and what about it.
    pub check: fn(&[Params]) -> Result<(), Misplaced>,
    /// The most there may be.
    pub most: usize,
}

/// There is one of each.
impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        core::ptr::eq(self, other)
    }
}

/// A text, and what a scenario calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// Its file, or one that comes with narrows; `None` where the scenario holds the text itself.
    pub name: Option<String>,
    /// What it says.
    pub text: Arc<str>,
}

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// In which line, from 1; 0 for the whole.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
    /// What to do.
    pub fix: String,
}

/// A kind of text that is too long for a line: a scenario names a file, or one that comes with
/// narrows, or holds it itself.
#[derive(Debug)]
pub struct TextKind {
    /// Those that come with narrows, name and text; the first is the default.
    pub shipped: &'static [(&'static str, &'static str)],
    /// Reads it, for its mistakes.
    pub check: fn(&str) -> Result<(), Mistake>,
}

/// There is one of each.
impl PartialEq for TextKind {
    fn eq(&self, other: &TextKind) -> bool {
        core::ptr::eq(self, other)
    }
}

impl TextKind {
    /// The one that comes with narrows under this name.
    pub fn shipped(&self, name: &str) -> Option<Text> {
        let (name, text) = self.shipped.iter().find(|(n, _)| *n == name)?;
        Some(Text {
            name: Some((*name).into()),
            text: (*text).into(),
        })
    }
    /// The names of those that come with narrows.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.shipped.iter().map(|(name, _)| *name)
    }
}

/// The kind of a parameter, its default and its range (both ends included).
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// On or off.
    Bool(bool),
    /// A bare count: default, least, most.
    Count(u64, u64, u64),
    /// A bare number: default, least, most.
    Number(f64, f64, f64),
    /// A span: default, least, most.
    Span(Span, Span, Span),
    /// Bytes: default, least, most.
    Bytes(Bytes, Bytes, Bytes),
    /// A rate: default, least, most.
    Rate(Rate, Rate, Rate),
    /// Packets: default, least, most.
    Packets(u64, u64, u64),
    /// A probability, from 0 to 1 or in per cent: the default.
    Probability(f64),
    /// One word of several; the first is the default.
    Word(&'static [&'static str]),
    /// A text.
    Text(&'static TextKind),
    /// A list of sizes: the default, and of each the least and the most.
    Sizes(&'static [Bytes], Bytes, Bytes),
    /// A list of rates: the default, and of each the least and the most.
    Rates(&'static [Rate], Rate, Rate),
    /// A class of traffic as tc names it, `major:minor` in hexadecimal digits: the default.
    Handle(&'static str),
    /// A list of tables; empty by default.
    Rows(&'static Rows),
    /// Another model of the registry that this one is in; by default the one of this name.
    Choice(&'static str),
    /// Which packets; none by default.
    Match,
}

/// The most entries of a list.
pub const MOST_ENTRIES: usize = 10_000;

/// One row of a parameter table.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// The name as written in a scenario (tc's or sysctl's where they have one).
    pub name: &'static str,
    /// Kind, default and range.
    pub kind: Kind,
    /// One line of help.
    pub help: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// What is wrong with a parameter beside its own range: two that do not go together, one that
/// cannot be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Which parameter.
    pub param: &'static str,
    /// What is wrong with it, as it goes on after its name and value.
    pub problem: String,
    /// A value that would do, as a scenario writes it (quoted where it is text).
    pub fix: String,
}

/// The check of a table whose rows say everything.
pub fn no_check(_: &Params) -> Result<(), Refusal> {
    Ok(())
}

impl Param {
    /// The default value.
    pub fn default(&self) -> Value {
        self.kind.default()
    }
}

impl Kind {
    /// What it takes, in a word.
    pub fn what(&self) -> &'static str {
        match self {
            Kind::Bool(_) => "bool",
            Kind::Word(_) => "word",
            Kind::Text(_) => "file",
            Kind::Handle(_) => "class",
            Kind::Rows(_) => "list",
            Kind::Choice(_) => "queue",
            Kind::Match => "match",
            Kind::Count(..) => "count",
            Kind::Number(..) => "number",
            Kind::Span(..) => "time",
            Kind::Bytes(..) => "bytes",
            Kind::Rate(..) => "rate",
            Kind::Packets(..) => "packets",
            Kind::Probability(_) => "probability",
            Kind::Sizes(..) => "list of bytes",
            Kind::Rates(..) => "list of rates",
        }
    }
    /// The least and the most, where there are such.
    pub fn ends(&self) -> Option<(Value, Value)> {
        Some(match self {
            Kind::Count(_, a, b) => (Value::Count(*a), Value::Count(*b)),
            Kind::Number(_, a, b) => (Value::Number(*a), Value::Number(*b)),
            Kind::Span(_, a, b) => (Value::Span(*a), Value::Span(*b)),
            Kind::Bytes(_, a, b) | Kind::Sizes(_, a, b) => (Value::Bytes(*a), Value::Bytes(*b)),
            Kind::Rate(_, a, b) | Kind::Rates(_, a, b) => (Value::Rate(*a), Value::Rate(*b)),
            Kind::Packets(_, a, b) => (Value::Packets(*a), Value::Packets(*b)),
            Kind::Probability(_) => (Value::Number(0.0), Value::Number(1.0)),
            _ => return None,
        })
    }
    /// The default value.
    pub fn default(&self) -> Value {
        match self {
            Kind::Bool(b) => Value::Bool(*b),
            Kind::Count(d, ..) => Value::Count(*d),
            Kind::Number(d, ..) => Value::Number(*d),
            Kind::Span(d, ..) => Value::Span(*d),
            Kind::Bytes(d, ..) => Value::Bytes(*d),
            Kind::Rate(d, ..) => Value::Rate(*d),
            Kind::Packets(d, ..) => Value::Packets(*d),
            Kind::Probability(d) => Value::Number(*d),
            Kind::Word(words) => Value::Word(String::from(words.first().copied().unwrap_or(""))),
            Kind::Sizes(list, ..) => Value::Sizes(list.to_vec()),
            Kind::Rates(list, ..) => Value::Rates(list.to_vec()),
            Kind::Text(kind) => Value::Text(
                kind.names()
                    .next()
                    .and_then(|name| kind.shipped(name))
                    .unwrap_or(Text {
                        name: None,
                        text: "".into(),
                    }),
            ),
            Kind::Handle(handle) => Value::Word(String::from(*handle)),
            Kind::Rows(_) => Value::Rows(Vec::new()),
            Kind::Choice(kind) => Value::Choice(Box::new(Choice::new(kind, &[], &[]))),
            Kind::Match => Value::Match(Match::default()),
        }
    }
}

/// Validated values for every row of one table. The getters are for tables' owners: they answer the
/// type's zero for a name that the table does not have (asserted in tests).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Params(BTreeMap<&'static str, Value>);

impl Params {
    /// Every parameter at its default.
    pub fn defaults(table: &[Param]) -> Params {
        Params(table.iter().map(|p| (p.name, p.default())).collect())
    }
    /// Replaces one value; the scenario parser has validated it.
    pub fn set(&mut self, name: &'static str, value: Value) {
        self.0.insert(name, value);
    }
    /// Takes one value out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }
    /// All values by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }
    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.values_mut()
    }
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
    /// A switch.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }
    /// A count.
    pub fn count(&self, name: &str) -> u64 {
        if let Some(Value::Count(n)) = self.get(name) {
            *n
        } else {
            0
        }
    }
    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        if let Some(Value::Number(x)) = self.get(name) {
            *x
        } else {
            0.0
        }
    }
    /// A span.
    pub fn span(&self, name: &str) -> Span {
        if let Some(Value::Span(s)) = self.get(name) {
            *s
        } else {
            Span::ZERO
        }
    }
    /// Bytes.
    pub fn bytes(&self, name: &str) -> Bytes {
        if let Some(Value::Bytes(b)) = self.get(name) {
            *b
        } else {
            Bytes::ZERO
        }
    }
    /// A rate.
    pub fn rate(&self, name: &str) -> Rate {
        if let Some(Value::Rate(r)) = self.get(name) {
            *r
        } else {
            Rate::default()
        }
    }
    /// Packets.
    pub fn packets(&self, name: &str) -> u64 {
        if let Some(Value::Packets(n)) = self.get(name) {
            *n
        } else {
            0
        }
    }
    /// A word.
    pub fn word(&self, name: &str) -> &str {
        if let Some(Value::Word(w)) = self.get(name) {
            w
        } else {
            ""
        }
    }
    /// A list of sizes.
    pub fn sizes(&self, name: &str) -> &[Bytes] {
        if let Some(Value::Sizes(list)) = self.get(name) {
            list
        } else {
            &[]
        }
    }
    /// A list of rates.
    pub fn rates(&self, name: &str) -> &[Rate] {
        if let Some(Value::Rates(list)) = self.get(name) {
            list
        } else {
            &[]
        }
    }
    /// A text.
    pub fn text(&self, name: &str) -> &str {
        if let Some(Value::Text(text)) = self.get(name) {
            &text.text
        } else {
            ""
        }
    }
    /// The tables of a list.
    pub fn rows(&self, name: &str) -> &[Params] {
        if let Some(Value::Rows(rows)) = self.get(name) {
            rows
        } else {
            &[]
        }
    }
    /// A model inside of this one.
    pub fn choice(&self, name: &str) -> Option<&Choice> {
        if let Some(Value::Choice(choice)) = self.get(name) {
            Some(choice)
        } else {
            None
        }
    }
    /// Which packets.
    pub fn matching(&self, name: &str) -> Option<&Match> {
        if let Some(Value::Match(which)) = self.get(name) {
            Some(which)
        } else {
            None
        }
    }
}
