//! Parameter tables. A table declares each parameter once; validation, `narrows list --verbose`,
//! the documentation and the report use it.

use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A switch.
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
    /// One of the words of a [`Kind::Word`], a [`Kind::Handle`] or a [`Kind::Name`].
    Word(String),
    /// The text of a [`Kind::Text`].
    Text(Text),
    /// A list of sizes.
    Sizes(Vec<Bytes>),
    /// A list of rates.
    Rates(Vec<Rate>),
    /// A list of tables, each with parameters of its own.
    Rows(Vec<Params>),
    /// A nested model.
    Choice(Box<Choice>),
    /// A selection of packets.
    Match(Match),
}

/// A registered name with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The name in the registry.
    pub kind: String,
    /// The parameters of the choice, with defaults for those that were not given.
    pub params: Params,
}

/// The prefix of the name of a congestion control that only the Linux kernel implements, not
/// narrows.
pub const OF_KERNEL: &str = "kernel:";

impl Choice {
    /// For a congestion control that only the Linux kernel implements (`kernel:NAME`): its name in
    /// the kernel.
    pub fn of_kernel(&self) -> Option<&str> {
        self.kind.strip_prefix(OF_KERNEL)
    }
    /// `kind` with these parameters, and the defaults of its table for all others. This function is
    /// for code that builds a scenario without the parser; it checks nothing.
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

/// A selection of packets by flow and by DSCP. A packet matches if both conditions hold. An empty
/// list of flows selects every flow, and an empty set of DSCPs selects every DSCP. If both are
/// empty, no packet matches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Flows and probes as a scenario names them.
    pub names: Vec<String>,
    /// The indices of these flows and probes in the scenario; probes follow the last flow.
    pub flows: Vec<u32>,
    /// DSCP values as a bit mask: bit `n`, counted from the lowest as 0, selects DSCP `n`.
    pub dscp: u64,
}

/// The index of the rejected table of a list, and the reason.
pub type Misplaced = (usize, Refusal);

/// The declaration of a list of tables.
#[derive(Debug)]
pub struct Rows {
    /// Name of the list in messages (plural).
    pub what: &'static str,
    /// Name of one table in messages (singular).
    pub one: &'static str,
    /// Parameters that every table must set.
    pub required: &'static [&'static str],
    /// The parameters of each table.
    pub params: &'static [Param],
    /// Checks conditions between the tables; the error names the table and the reason.
    pub check: fn(&[Params]) -> Result<(), Misplaced>,
    /// The maximum number of tables.
    pub most: usize,
}

/// Each declaration is a static; identity is equality.
impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        core::ptr::eq(self, other)
    }
}

/// A text and its name in a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// The file of the text, or the name of a text that is part of narrows. `None` if the scenario
    /// contains the text.
    pub name: Option<String>,
    /// The text itself.
    pub text: Arc<str>,
}

/// An error in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The line, counted from 1; 0 for the whole text.
    pub line: usize,
    /// The problem.
    pub problem: String,
    /// The correction to make.
    pub fix: String,
}

/// A kind of parameter value: a text of several lines, such as a trace. A scenario names a file or
/// a text that is part of narrows, or contains the text itself.
#[derive(Debug)]
pub struct TextKind {
    /// Texts that are part of narrows, as name and text; the first is the default.
    pub shipped: &'static [(&'static str, &'static str)],
    /// Parses the text and returns its first error.
    pub check: fn(&str) -> Result<(), Mistake>,
}

/// Each declaration is a static; identity is equality.
impl PartialEq for TextKind {
    fn eq(&self, other: &TextKind) -> bool {
        core::ptr::eq(self, other)
    }
}

impl TextKind {
    /// Returns the text of narrows with this name.
    pub fn shipped(&self, name: &str) -> Option<Text> {
        let (name, text) = self.shipped.iter().find(|(n, _)| *n == name)?;
        Some(Text {
            name: Some((*name).into()),
            text: (*text).into(),
        })
    }
    /// Returns the names of the texts of narrows.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.shipped.iter().map(|(name, _)| *name)
    }
}

/// The kind of a parameter, its default and its range (both ends included).
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// On or off.
    Bool(bool),
    /// A count: default, minimum, maximum.
    Count(u64, u64, u64),
    /// A number without dimension: default, minimum, maximum.
    Number(f64, f64, f64),
    /// A span: default, minimum, maximum.
    Span(Span, Span, Span),
    /// Bytes: default, minimum, maximum.
    Bytes(Bytes, Bytes, Bytes),
    /// A rate: default, minimum, maximum.
    Rate(Rate, Rate, Rate),
    /// Packets: default, minimum, maximum.
    Packets(u64, u64, u64),
    /// A probability, from 0 to 1 or in per cent: default.
    Probability(f64),
    /// One word of several; the first is the default.
    Word(&'static [&'static str]),
    /// A text.
    Text(&'static TextKind),
    /// A list of sizes: default, and minimum and maximum of each size.
    Sizes(&'static [Bytes], Bytes, Bytes),
    /// A list of rates: default, and minimum and maximum of each rate.
    Rates(&'static [Rate], Rate, Rate),
    /// A traffic class in tc's notation, `major:minor` in hexadecimal digits: default.
    Handle(&'static str),
    /// A name of letters, digits, `_`, `-` and `.`; empty by default.
    Name,
    /// A list of tables; empty by default.
    Rows(&'static Rows),
    /// A nested model of the registry; the default is the one of this name.
    Choice(&'static str),
    /// A selection of packets; empty by default.
    Match,
}

/// The maximum number of entries of a list.
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
    /// The source of the default.
    pub source: &'static str,
}

/// An error that the range of a single parameter does not exclude: two parameters that exclude each
/// other, or one that is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The parameter.
    pub param: &'static str,
    /// The problem, as the continuation of a sentence that begins with name and value.
    pub problem: String,
    /// A valid value in the scenario's notation (quoted if it is text).
    pub fix: String,
}

/// The check of a table that has no conditions between its parameters: it accepts all values.
pub fn no_check(_: &Params) -> Result<(), Refusal> {
    Ok(())
}

/// Former names of parameters and their present names. Scenarios may still use the former names; no
/// list or page shows them.
const FORMER_NAMES: &[(&str, &str)] = &[("relief_gain", "probe_down_gain")];

impl Param {
    /// The default value.
    pub fn default(&self) -> Value {
        self.kind.default()
    }
    /// Returns whether a scenario may use this name for the parameter: its present name, or a
    /// former one.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || FORMER_NAMES.contains(&(name, self.name))
    }
}

impl Kind {
    /// The name of the kind in messages.
    pub fn what(&self) -> &'static str {
        match self {
            Kind::Bool(_) => "bool",
            Kind::Word(_) => "word",
            Kind::Text(_) => "file",
            Kind::Handle(_) => "class",
            Kind::Name => "name",
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
    /// Returns minimum and maximum, if the kind has them.
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
            Kind::Name => Value::Word(String::new()),
            Kind::Rows(_) => Value::Rows(Vec::new()),
            Kind::Choice(kind) => Value::Choice(Box::new(Choice::new(kind, &[], &[]))),
            Kind::Match => Value::Match(Match::default()),
        }
    }
}

/// Validated values for every row of one table. The getters are for the code that declares the
/// table. For a name that is not in the table, the getters return zero, false or an empty value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Params(BTreeMap<&'static str, Value>);

impl Params {
    /// Returns the default of every parameter.
    pub fn defaults(table: &[Param]) -> Params {
        Params(table.iter().map(|p| (p.name, p.default())).collect())
    }
    /// Replaces one value; the scenario parser has validated it.
    pub fn set(&mut self, name: &'static str, value: Value) {
        self.0.insert(name, value);
    }
    /// Removes and returns one value.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }
    /// All values by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }
    /// All values, mutable.
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
    /// A nested model.
    pub fn choice(&self, name: &str) -> Option<&Choice> {
        if let Some(Value::Choice(choice)) = self.get(name) {
            Some(choice)
        } else {
            None
        }
    }
    /// A selection of packets.
    pub fn matching(&self, name: &str) -> Option<&Match> {
        if let Some(Value::Match(which)) = self.get(name) {
            Some(which)
        } else {
            None
        }
    }
}
