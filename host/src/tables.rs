//! The results of `narrows-host` as tables, with a unit in each column of values.

use serde_json::Value;

/// A column: its heading, the JSON pointer of its value in a row, and the number of digits after
/// the point. Texts have no digits.
type Column = (&'static str, &'static str, usize);

/// A table: the JSON pointer of its rows, which are a list or an object, and its columns. An empty
/// pointer in a column stands for the key of the row.
type Table = (&'static str, &'static [Column]);

const MEASUREMENT: &[Table] = &[
    (
        "/latency_ms",
        &[
            ("latency", "", 0),
            ("pings", "/n", 0),
            ("p50 ms", "/p50", 3),
            ("p95 ms", "/p95", 3),
            ("p99 ms", "/p99", 3),
            ("max ms", "/max", 3),
        ],
    ),
    (
        "/flows",
        &[
            ("flow", "/id", 0),
            ("cc", "/cc", 0),
            ("goodput Mbit/s", "/goodput_mbit", 2),
            ("RTT p50 ms", "/rtt_ms/p50", 3),
            ("RTT p95 ms", "/rtt_ms/p95", 3),
            ("retransmits", "/retransmits", 0),
            ("busy %", "/busy_pct", 1),
        ],
    ),
];

const TIMES: &[Column] = &[
    ("component of the response time", "", 0),
    ("responses", "/n", 0),
    ("mean µs", "/mean", 1),
    ("p50 µs", "/p50", 1),
    ("p99 µs", "/p99", 1),
    ("max µs", "/max", 1),
];
const LATENCY: &[Table] = &[
    (
        "",
        &[
            ("requests sent", "/sent", 0),
            ("replies", "/answered", 0),
            ("lost", "/lost", 0),
            ("mean µs", "/response_us/mean", 1),
            ("p50 µs", "/response_us/p50", 1),
            ("p99 µs", "/response_us/p99", 1),
            ("max µs", "/response_us/max", 1),
            ("RTT p50 µs", "/rtt_us/p50", 1),
        ],
    ),
    ("/parts_us", TIMES),
];

const TUNE: &[Table] = &[
    (
        "/done",
        &[
            ("change", "/id", 0),
            ("before", "/before", 0),
            ("after", "/after", 0),
        ],
    ),
    ("/already", &[("already set", "", 0)]),
    ("/right", &[("in effect", "", 0)]),
    (
        "/drifted",
        &[
            ("not in effect", "/id", 0),
            ("current value", "/is", 0),
            ("remedy", "/fix", 0),
        ],
    ),
    ("/reverted", &[("restored", "", 0)]),
    ("/left", &[("left out", "/id", 0), ("reason", "/why", 0)]),
    ("/notes", &[("note", "", 0)]),
    ("/overridden", &[("warning", "", 0)]),
    (
        "",
        &[
            ("plan", "/title", 0),
            ("time to confirm s", "/unconfirmed_s", 0),
            ("command to confirm", "/confirm", 0),
            ("command to revert", "/revert", 0),
        ],
    ),
];

/// A measurement as tables.
pub fn measurement(result: &Value) -> String {
    tables(result, MEASUREMENT)
}

/// Response times as tables.
pub fn latency(result: &Value) -> String {
    tables(result, LATENCY)
}

/// The result of `tune` as tables.
pub fn tune(result: &Value) -> String {
    tables(result, TUNE)
}

fn tables(result: &Value, tables: &[Table]) -> String {
    let found = tables.iter().filter_map(|(at, columns)| {
        let rows = match result.pointer(at)? {
            _ if at.is_empty() => vec![(String::new(), result)],
            Value::Object(rows) => rows.iter().map(|(key, row)| (key.clone(), row)).collect(),
            Value::Array(rows) => rows.iter().map(|row| (text(row), row)).collect(),
            _ => Vec::new(),
        };
        let rows = rows.iter().filter(|(_, row)| !row.is_null());
        let cells = |(key, row): &(String, &Value)| -> Vec<Option<String>> {
            let cell = |(_, at, digits): &Column| match at.is_empty() {
                true => Some(key.clone()),
                false => row.pointer(at).and_then(|value| shown(value, *digits)),
            };
            columns.iter().map(cell).collect()
        };
        let rows: Vec<Vec<Option<String>>> = rows.map(cells).collect();
        table(columns, &rows)
    });
    found.collect::<Vec<_>>().join("\n\n")
}

fn text(value: &Value) -> String {
    let text = value.as_str().map(String::from);
    text.unwrap_or_else(|| value.to_string())
}

/// A value with so many digits after the point; `None` for a missing one.
fn shown(value: &Value, digits: usize) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Number(number) => number.as_f64().map(|number| format!("{number:.digits$}")),
        value => Some(text(value)),
    }
}

/// Rows below their headings, without columns that have no value; `None` if nothing is left.
fn table(columns: &[Column], rows: &[Vec<Option<String>>]) -> Option<String> {
    let has_value = |at: &usize| rows.iter().any(|row| row[*at].is_some());
    let kept: Vec<usize> = (0..columns.len()).filter(has_value).collect();
    let cell = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_else(|| "–".into());
    let mut lines = vec![
        kept.iter()
            .map(|at| columns[*at].0.to_string())
            .collect::<Vec<_>>(),
    ];
    lines.extend(
        rows.iter()
            .map(|row| kept.iter().map(|at| cell(row, *at)).collect()),
    );
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
    let widths: Vec<usize> = (0..kept.len()).map(|at| width(at).unwrap_or(0)).collect();
    let is_number = |cell: &String| cell == "–" || cell.parse::<f64>().is_ok();
    let numeric = |at: usize| lines[1..].iter().all(|line| is_number(&line[at]));
    let aligned = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match numeric(at) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    (!kept.is_empty()).then(|| lines.iter().map(aligned).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_aligned_and_columns_without_a_value_are_left_out() {
        let flow = |id: &str, mbit: f64| json!({"id": id, "cc": null, "goodput_mbit": mbit});
        let result = json!({"flows": [flow("down1", 9.5), flow("up10", 112.25)]});
        assert_eq!(
            measurement(&result),
            "flow   goodput Mbit/s\n\
             down1            9.50\n\
             up10           112.25"
        );
    }

    #[test]
    fn results_of_tune_are_tables() {
        let done = json!({"id": "sysctl:a", "before": "0", "after": ["x", "y"]});
        let result = json!({"done": [done], "already": ["module:b"], "revert": "narrows-host"});
        assert_eq!(
            tune(&result),
            "change    before  after\n\
             sysctl:a       0  [\"x\",\"y\"]\n\n\
             already set\n\
             module:b\n\n\
             command to revert\n\
             narrows-host"
        );
        assert_eq!(tune(&json!({"right": []})), "");
    }
}
