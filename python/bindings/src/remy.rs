//! Conversion of the files of the program Remy to trees of rules of narrows.

use narrows_core::cc::remy::from_dna;
use pyo3::prelude::*;

pyo3::import_exception!(narrows.errors, NarrowsError);

/// Returns the tree of rules in a `.dna` file of Remy as text, and its number of rules.
#[pyfunction]
pub fn remy_from_dna(dna: &[u8], name: &str) -> PyResult<(String, usize)> {
    let tree = from_dna(dna)
        .map_err(|e| NarrowsError::new_err(format!("{name}: {}; {}", e.problem, e.fix)))?;
    Ok((tree.to_text(), tree.rules()))
}
