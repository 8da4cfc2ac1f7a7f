//! Rows of runs as columns, which a sweep stores. The engine computes them without the JSON of the
//! run and without its samples.

use crate::error::EngineError;
use crate::run::{Texts, parse_tree, simulated};
use narrows_core::engine::{Cell, Options, Transfer, columns, is_of_run, rows};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyMapping, PyString};
use serde_json::Value;

/// The rows of several runs, by column.
#[pyclass(module = "narrows._core")]
#[derive(Default)]
pub struct Rows {
    rows: usize,
    keys: Option<Py<PyList>>,
    /// The values of each column, up to the last row that has one; `None` for columns without
    /// values.
    columns: Vec<Option<Py<PyList>>>,
}

#[pymethods]
impl Rows {
    /// No rows.
    #[new]
    fn new() -> Rows {
        Rows::default()
    }

    /// Simulates the scenario in nested tables (Python dictionaries), and appends its rows, whose
    /// column `key` is `key`.
    fn run(
        &mut self,
        py: Python<'_>,
        key: Bound<'_, PyString>,
        tree: &Bound<'_, PyMapping>,
        seed: u64,
    ) -> PyResult<()> {
        let (_, mut scenario, _) = parse_tree(tree, Texts::new())?;
        scenario.seed = seed;
        let options = Options {
            sample_interval: None,
            ..Options::default()
        };
        let done = simulated(py, &scenario, &options, None, None)?;
        let before = self.rows;
        let mut failed = Ok(());
        let count = done.rows(env!("CARGO_PKG_VERSION"), |row, column, cell| {
            if failed.is_ok() {
                failed = self.put(py, before + row, column, &cell);
            }
        });
        failed?;
        let keys = self.keys.get_or_insert_with(|| PyList::empty(py).unbind());
        (0..count).try_for_each(|_| keys.bind(py).append(&key))?;
        self.rows += count;
        Ok(())
    }

    /// The columns that have values, as lists by name, with None for missing values.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let Some(keys) = &self.keys else {
            return Ok(found);
        };
        found.set_item("key", keys)?;
        for (name, values) in columns().zip(&self.columns) {
            if let Some(values) = values {
                pad(values.bind(py), self.rows)?;
                found.set_item(name, values)?;
            }
        }
        Ok(found)
    }
}

impl Rows {
    fn put(&mut self, py: Python<'_>, row: usize, column: usize, cell: &Cell<'_>) -> PyResult<()> {
        self.columns.resize_with(columns().len(), || None);
        let values = self.columns[column].get_or_insert_with(|| PyList::empty(py).unbind());
        let values = values.bind(py);
        pad(values, row)?;
        values.append(value(py, cell)?)
    }
}

/// Appends None to a list until it has `rows` elements.
fn pad(values: &Bound<'_, PyList>, rows: usize) -> PyResult<()> {
    (values.len()..rows).try_for_each(|_| values.append(values.py().None()))
}

/// The value of a cell as a Python object. Equal texts are the same object.
fn value<'py>(py: Python<'py>, cell: &Cell<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match cell {
        Cell::Number(x) => PyFloat::new(py, *x).into_any(),
        Cell::Index(n) => PyInt::new(py, *n).into_any(),
        Cell::Json(Value::String(text)) => PyString::intern(py, text).into_any(),
        Cell::Json(Value::Number(number)) => match (number.as_i64(), number.as_u64()) {
            (Some(n), _) => n.into_pyobject(py)?.into_any(),
            (_, Some(n)) => n.into_pyobject(py)?.into_any(),
            _ => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Cell::Json(_) => return Err(EngineError::new_err("a metric is no number or text")),
    })
}

/// The rows of a run of any engine as dictionaries, without the column `key`. The arguments are the
/// JSON of the run and its completed transfers: index of the flow, completion time in s, and
/// slowdown. The row of a run without flows has only the columns of the whole run and
/// `flow_number`.
#[pyfunction]
pub fn rows_of<'py>(
    py: Python<'py>,
    json: &str,
    transfers: Vec<(usize, f64, Option<f64>)>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let document: Value =
        serde_json::from_str(json).map_err(|error| EngineError::new_err(error.to_string()))?;
    let transfers: Vec<Transfer> = transfers
        .into_iter()
        .map(|(flow, fct_s, slowdown)| Transfer {
            flow,
            fct_s,
            slowdown: slowdown.unwrap_or(f64::NAN),
        })
        .collect();
    let mut cells = Vec::new();
    let count = rows(&document, &transfers, |row, column, cell| {
        cells.push((row, column, cell));
    });
    let flowless = document["flows"].as_array().is_none_or(Vec::is_empty);
    let empty = PyDict::new(py);
    for (column, name) in columns().enumerate() {
        if !flowless || is_of_run(column) || name == "flow_number" {
            empty.set_item(name, py.None())?;
        }
    }
    let names: Vec<_> = columns().collect();
    let found: PyResult<Vec<_>> = (0..count).map(|_| empty.copy()).collect();
    let found = found?;
    for (row, column, cell) in cells {
        found[row].set_item(names[column], value(py, &cell)?)?;
    }
    Ok(found)
}
