//! The extension module `narrows._core`: a low-level interface of the core. Users call the package
//! `narrows`, which passes values on unchecked. The core checks the values and reports errors.
//!
//! | file | contents |
//! |---|---|
//! | `tree` | a scenario's value tree between Python and the core, in both directions |
//! | `error` | the core's errors as Python exceptions |
//! | `table` | columns of samples, by Arrow's C stream interface |
//! | `external` | models from outside: registration, and supervision of their runs |
//! | `python_cc`, `python_queue` | models that are Python classes |
//! | `run` | execution of a scenario, and its result |
//! | `rows` | rows of runs, as columns |
//! | `stepping` | a run that Python advances step by step |
//! | `remy` | conversion of Remy's files to trees of rules |
//! | `tune` | audits of a host, and plans to change it |
#![forbid(unsafe_code)]

mod error;
mod external;
mod python_cc;
mod python_queue;
mod remy;
mod rows;
mod run;
mod stepping;
mod table;
mod tree;
mod tune;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _core {
    use super::*;
    #[pymodule_export]
    use external::{
        exit_if_locked, find_model, load_plugin, plugin_tag, register_cc, register_queue,
        stuck_runs, transports, unregister,
    };
    #[pymodule_export]
    use python_cc::{
        AckEvent, LossEvent, LostPacketEvent, PyWindow, ReducedEvent, RtoEvent, SampleEvent,
        SentEvent, SpuriousLossEvent, StartEvent, StateChangeEvent,
    };
    #[pymodule_export]
    use python_queue::{QueueState, QueuedPacket};
    #[pymodule_export]
    use remy::remy_from_dna;
    #[pymodule_export]
    use rows::{Rows, rows_of};
    #[pymodule_export]
    use run::{
        Run, check_toml, compare_engines, compare_metric, list_json, path_json, path_numbers,
        rules, run_elsewhere, run_toml, run_tree, scenario_defaults, scenario_files,
        scenario_to_toml, toml_tables, toml_to_tree,
    };
    #[pymodule_export]
    use stepping::{Stepper, seconds, start_run};
    #[pymodule_export]
    use table::Table;
    #[pymodule_export]
    use tune::{
        audit_document, audit_findings, audit_lines, cc_states, collector_limits, host_collector,
        host_facts, host_plan, host_summary, kernel_release, kernel_rules, known_effects,
        linux_features, module_package, module_states, plan_lines, shaper_disciplines,
        shaper_kinds, shaper_modules,
    };
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const SCENARIO_FORMAT: usize = narrows_core::scenario::FORMAT;
}
