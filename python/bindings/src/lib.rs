//! The extension module `narrows._core`.

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _core {
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
