//! The format of an answer to the page: a JSON object, and after it columns of numbers.

use serde_json::{Value, json};

/// Columns of numbers; each has the name of its table and its own name.
#[derive(Default)]
pub struct Columns {
    heads: Vec<Value>,
    numbers: Vec<f64>,
}

impl Columns {
    /// Adds the column `name` of `table`.
    pub fn push(&mut self, table: &str, name: &str, rows: impl Iterator<Item = f64>) {
        let before = self.numbers.len();
        self.numbers.extend(rows);
        let rows = self.numbers.len() - before;
        self.heads
            .push(json!({ "table": table, "name": name, "rows": rows }));
    }
    /// The bytes of an answer: `object`, to which the list of these columns is added, and then
    /// their numbers.
    pub fn behind(self, mut object: Value) -> Vec<u8> {
        if let Some(map) = object.as_object_mut() {
            map.insert("columns".into(), Value::Array(self.heads));
        }
        let text = object.to_string();
        let mut bytes = Vec::with_capacity(text.len() + 16 + 8 * self.numbers.len());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for number in self.numbers {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }
}
