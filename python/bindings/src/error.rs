//! Converts errors of the core to exceptions of `narrows.errors`, with their file, line and key.

use narrows_core::scenario::error::Errors;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pyo3::import_exception!(narrows.errors, ScenarioError);
pyo3::import_exception!(narrows.errors, EngineError);

/// A `ScenarioError` that contains all errors of a scenario.
pub fn scenario(py: Python<'_>, errors: &Errors) -> PyErr {
    match problems(py, errors) {
        Ok(problems) => ScenarioError::new_err((errors.to_string(), problems)),
        Err(e) => e,
    }
}

fn problems(py: Python<'_>, errors: &Errors) -> PyResult<Vec<Py<PyAny>>> {
    let class = py.import("narrows.errors")?.getattr("Problem")?;
    let problem = |e: &narrows_core::scenario::error::Error| {
        let kw = PyDict::new(py);
        kw.set_item("message", e.to_string())?;
        kw.set_item("file", &e.file)?;
        kw.set_item("line", e.line)?;
        kw.set_item("column", e.column)?;
        kw.set_item("key", &e.key)?;
        kw.set_item("value", e.value.as_deref())?;
        kw.set_item("problem", &e.problem)?;
        kw.set_item("fix", e.fix.as_deref())?;
        Ok(class.call((), Some(&kw))?.unbind())
    };
    errors.list().iter().map(problem).collect()
}
