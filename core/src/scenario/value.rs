//! The value tree between a language and the scenario parser. TOML and Python build the same tree,
//! so there is one parser, one set of defaults and one set of errors.
//!
//! A tree from TOML has the positions of keys and values (byte ranges). A tree from Python has no
//! positions, and its errors name the key path instead.

use super::error::Errors;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use serde::ser::{Serialize, SerializeMap, Serializer};
use toml::de::{DeTable, DeValue};

/// A whole document: a table of tables and values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tree {
    /// The top level.
    pub root: Table,
}

/// A table, in the order in which it was written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Keys and values.
    pub entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Position of the key in the source, in bytes.
    pub key_at: Option<Range<usize>>,
    /// The value of the key.
    pub node: Node,
}

/// A value and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The position of the value in the source, in bytes.
    pub at: Option<Range<usize>>,
}

/// A value of a configuration language.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A text.
    String(String),
    /// A whole number; wide enough for every `u64` and `i64`.
    Integer(i128),
    /// Any other number, infinities and NaN included.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A list.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
    /// A value that no scenario uses (dates, numbers beyond `i128`), as it was written, so that the
    /// parser can name it in an error.
    Other(String),
}

impl Tree {
    /// A tree without positions.
    pub fn new(entries: Vec<(String, Node)>) -> Tree {
        Tree {
            root: Table::new(entries),
        }
    }
    /// The tree of a TOML document. `file_name` is for the error.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Tree, Errors> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Tree {
                root: from_toml_table(table.get_ref()),
            }),
            Err(e) => Err(Errors::syntax(file_name, text, e.message(), e.span())),
        }
    }
    /// As JSON, keys in order.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Table {
    /// A table without positions.
    pub fn new(entries: Vec<(String, Node)>) -> Table {
        Table {
            entries: entries
                .into_iter()
                .map(|(key, node)| Entry {
                    key,
                    key_at: None,
                    node,
                })
                .collect(),
        }
    }
    /// The entry called `key`; the last one if a language permits several.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|e| e.key == key)
    }
}

impl Node {
    /// A text.
    pub fn string(text: impl Into<String>) -> Node {
        Value::String(text.into()).into()
    }
    /// A whole number.
    pub fn integer(n: impl Into<i128>) -> Node {
        Value::Integer(n.into()).into()
    }
    /// Any other number.
    pub fn float(x: f64) -> Node {
        Value::Float(x).into()
    }
    /// A boolean.
    pub fn bool(b: bool) -> Node {
        Value::Bool(b).into()
    }
    /// A list.
    pub fn array(items: Vec<Node>) -> Node {
        Value::Array(items).into()
    }
    /// A table.
    pub fn table(entries: Vec<(String, Node)>) -> Node {
        Value::Table(Table::new(entries)).into()
    }
    /// A value that no scenario uses, as a person would write it.
    pub fn other(text: impl Into<String>) -> Node {
        Value::Other(text.into()).into()
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        Node { value, at: None }
    }
}

fn from_toml_table(table: &DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_at: Some(key.span()),
            node: Node {
                value: from_toml_value(value.get_ref()),
                at: Some(value.span()),
            },
        })
        .collect();
    // The crate's map is sorted by key. The file's order determines the numbers of flows, and users
    // expect it in output.
    entries.sort_by_key(|e| e.key_at.as_ref().map_or(0, |at| at.start));
    Table { entries }
}

/// Recursion is bounded: the crate rejects more than 80 levels.
fn from_toml_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Value::Integer(n),
            Err(_) => Value::Other(i.to_string()),
        },
        DeValue::Float(f) => match f.as_str().parse() {
            Ok(x) => Value::Float(x),
            Err(_) => Value::Other(f.to_string()),
        },
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(d) => Value::Other(d.to_string()),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|v| Node {
                    value: from_toml_value(v.get_ref()),
                    at: Some(v.span()),
                })
                .collect(),
        ),
        DeValue::Table(t) => Value::Table(from_toml_table(t)),
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.root.serialize(s)
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.entries.len()))?;
        for e in &self.entries {
            map.serialize_entry(&e.key, &e.node)?;
        }
        map.end()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::String(text) | Value::Other(text) => s.serialize_str(text),
            Value::Integer(n) => match (u64::try_from(*n), i64::try_from(*n)) {
                (Ok(n), _) => s.serialize_u64(n),
                (_, Ok(n)) => s.serialize_i64(n),
                _ => s.serialize_f64(*n as f64),
            },
            Value::Float(x) => s.serialize_f64(*x),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Array(items) => s.collect_seq(items),
            Value::Table(t) => t.serialize(s),
        }
    }
}
