//! The version of the scenario format, and the conversion of older texts.
//!
//! A text without `format` has the first format. Each change of the format that would give an older
//! text another meaning, or make it invalid, increments [`FORMAT`] and adds a step to `STEPS`.
//! The steps change the tree of an older text before it is parsed, so the parser knows only the
//! current format.

use super::error::{Collector, Fix};
use super::read::Section;
use super::value::{Node, Table, Tree, Value};
use alloc::format;

/// The format that this version reads and writes.
pub const FORMAT: usize = 1;

/// The key that names the format.
pub(super) const KEY: &str = "format";

/// A conversion to the next format.
type Step = fn(&mut Table);

/// The conversions: the first one is from format 1 to format 2.
const STEPS: [Step; FORMAT - 1] = [];

impl Tree {
    /// Converts the tree of a text to the current format. An invalid or newer format is unchanged;
    /// the parser reports it.
    pub fn migrate(&mut self) {
        migrate(&mut self.root, &STEPS, 1);
    }

    /// Converts a tree of another language's values, which has the current format unless it names
    /// an older one.
    pub(super) fn migrate_values(&mut self) {
        migrate(&mut self.root, &STEPS, FORMAT);
    }
}

/// Executes the steps from the format of a table on; `absent` is the format of a table without the
/// key.
fn migrate(root: &mut Table, steps: &[Step], absent: usize) {
    let written = match root.get(KEY).map(|entry| &entry.node.value) {
        None => Some(absent),
        Some(Value::Integer(number)) => usize::try_from(*number).ok(),
        Some(_) => None,
    };
    let Some(due) = written.and_then(|format| steps.get(format.checked_sub(1)?..)) else {
        return;
    };
    if due.is_empty() {
        return;
    }
    due.iter().for_each(|step| step(root));
    let now = Node::integer(steps.len() as i128 + 1);
    match root.entries.iter_mut().rev().find(|entry| entry.key == KEY) {
        Some(entry) => entry.node.value = now.value,
        None => root
            .entries
            .extend(Table::new(alloc::vec![(KEY.into(), now)]).entries),
    }
}

/// Reports an invalid format, and returns whether it is newer: then no other error is useful.
pub(super) fn is_newer(out: &mut Collector<'_>, top: &Section<'_>) -> bool {
    let Some(field) = top.field(KEY) else {
        return false;
    };
    match field.node().value {
        Value::Integer(number) if number > FORMAT as i128 => {
            let problem = format!(
                "is newer than format {FORMAT}, which this version of narrows reads; install a \
                 newer version"
            );
            out.refuse(&field, problem, Fix::None);
            true
        }
        // Steps have converted older formats.
        _ => {
            out.count(&field, 1, FORMAT as u64);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_convert_older_tables_once() {
        fn rename(root: &mut Table) {
            for entry in root.entries.iter_mut().filter(|entry| entry.key == "old") {
                entry.key = "new".into();
            }
        }
        fn double(root: &mut Table) {
            for entry in root.entries.iter_mut().filter(|entry| entry.key == "new") {
                if let Value::Integer(number) = &mut entry.node.value {
                    *number *= 2;
                }
            }
        }
        let steps: [Step; 2] = [rename, double];
        let converted = |text: &str, absent| {
            let mut tree = Tree::from_toml(text, "a.toml").unwrap();
            migrate(&mut tree.root, &steps, absent);
            migrate(&mut tree.root, &steps, absent);
            tree.to_json()
        };
        assert_eq!(converted("old = 2", 1), "{\"new\":4,\"format\":3}");
        assert_eq!(
            converted("format = 1\nold = 2", 1),
            "{\"format\":3,\"new\":4}"
        );
        assert_eq!(
            converted("format = 2\nnew = 2", 1),
            "{\"format\":3,\"new\":4}"
        );
        // The current format, values without a format, and a newer one are unchanged.
        for same in [
            "{\"format\":3,\"old\":2}",
            "{\"old\":2}",
            "{\"format\":9,\"old\":2}",
        ] {
            let text = same
                .trim_matches(['{', '}'])
                .replace(':', "=")
                .replace(',', "\n");
            assert_eq!(converted(&text, 3), same);
        }
    }
}
