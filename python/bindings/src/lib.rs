//! The extension module `narrows._core`: thin and low-level. `narrows` is what people use; it
//! passes every value on unchecked, and what is wrong with one is found in the core.
//!
//! | file | carries |
//! |---|---|
//! | `tree` | a scenario's value tree between Python and the core, both ways |
//! | `error` | the core's errors as Python exceptions |
//! | `table` | columns of samples out, by Arrow's C stream interface |
//! | `run` | a run in, its result out |
//! | `remy` | Remy's files made into trees of rules |
#![forbid(unsafe_code)]

mod error;
mod remy;
mod run;
mod table;
mod tree;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _core {
    use super::*;
    #[pymodule_export]
    use remy::remy_from_dna;
    #[pymodule_export]
    use run::{
        Run, beside_figure, check_toml, compare_figure, list_json, path_json, path_numbers,
        run_elsewhere, run_toml, run_tree, scenario_files, scenario_to_toml, toml_tables,
        toml_to_tree,
    };
    #[pymodule_export]
    use table::Table;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
