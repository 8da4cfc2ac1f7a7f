//! Converts the value tree of a scenario from Python to the core and back.

use narrows_core::scenario::value::{Node, Table, Tree, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyMapping, PySequence, PyString, PyTuple};

/// Maximum depth of nested values, more than any scenario has. It ends the conversion of structures
/// that contain themselves.
const DEEPEST: usize = 32;

/// The value tree of a Python mapping.
pub fn from_python(mapping: &Bound<'_, PyMapping>) -> PyResult<Tree> {
    Ok(Tree::new(entries(mapping, 0)?))
}

fn entries(mapping: &Bound<'_, PyMapping>, depth: usize) -> PyResult<Vec<(String, Node)>> {
    let mut entries = Vec::new();
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        entries.push((
            key.str()?.to_string_lossy().into_owned(),
            node(&value, depth + 1)?,
        ));
    }
    Ok(entries)
}

/// Converts a Python value. A value of a type that no scenario contains is kept as its `repr`, so
/// that the core can quote it in an error. The order of the checks matters: in Python, a bool is an
/// int, and a NumPy integer is recognized only by `__index__`.
fn node(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Node> {
    if let Ok(b) = value.cast::<PyBool>() {
        return Ok(Node::bool(b.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Node::string(text.to_string_lossy()));
    }
    if let Ok(x) = value.cast::<PyFloat>() {
        return Ok(Node::float(x.value()));
    }
    if let Ok(n) = value.extract::<i128>() {
        return Ok(Node::integer(n));
    }
    if depth < DEEPEST {
        if let Ok(mapping) = value.cast::<PyMapping>() {
            return Ok(Node::table(entries(mapping, depth)?));
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            let items = value.cast::<PySequence>()?.to_tuple()?;
            let items: PyResult<Vec<Node>> = items.iter().map(|v| node(&v, depth + 1)).collect();
            return Ok(Node::array(items?));
        }
        return Ok(Node::other(value.repr()?.to_string_lossy()));
    }
    Ok(Node::other("…"))
}

/// Converts a table to a Python dictionary.
pub fn to_python<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for entry in &table.entries {
        dict.set_item(&entry.key, value_to_python(py, &entry.node.value)?)?;
    }
    Ok(dict)
}

fn value_to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(text) | Value::Other(text) => PyString::new(py, text).into_any(),
        Value::Integer(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(x) => PyFloat::new(py, *x).into_any(),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Array(items) => {
            let items: PyResult<Vec<_>> = items
                .iter()
                .map(|n| value_to_python(py, &n.value))
                .collect();
            PyList::new(py, items?)?.into_any()
        }
        Value::Table(table) => to_python(py, table)?.into_any(),
    })
}
