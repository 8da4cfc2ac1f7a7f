//! Audits of a Linux host and plans to change it. Facts, findings, options and plans are JSON.

use narrows_core::tune::facts::{self, Facts};
use narrows_core::tune::findings::{Path, audit, release};
use narrows_core::tune::plan::Ask;
use narrows_core::tune::text::{self, Audit};
use narrows_core::tune::{collector, features, planner, shaper};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

pyo3::import_exception!(narrows.errors, NarrowsError);

fn unlike(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn read(facts: &str) -> PyResult<Facts> {
    serde_json::from_str(facts).map_err(unlike)
}

/// The text of the collector script.
#[pyfunction]
pub fn host_collector() -> &'static str {
    collector::SCRIPT
}

/// The facts about a host in the output of the collector script; an error begins with `name`.
#[pyfunction]
pub fn host_facts(text: &str, name: &str) -> PyResult<String> {
    let facts = collector::parse(text, name).map_err(NarrowsError::new_err)?;
    serde_json::to_string(&facts).map_err(unlike)
}

/// The limits of a collector's run: its duration in s, and the size of its text in bytes.
#[pyfunction]
pub fn collector_limits() -> (u64, u64) {
    (collector::PATIENCE_S, collector::MOST_BYTES)
}

/// The major and minor number of a kernel release; None if the text has none.
#[pyfunction]
pub fn kernel_release(text: &str) -> Option<(u32, u32)> {
    facts::release(text)
}

/// Values that follow from the facts: `kernel` (major and minor number), `forwards` and `available`
/// (congestion controls).
#[pyfunction]
pub fn host_summary(facts: &str) -> PyResult<String> {
    let facts = read(facts)?;
    let summary = json!({
        "kernel": facts.kernel(),
        "forwards": facts.forwards(),
        "available": facts.available(),
    });
    Ok(summary.to_string())
}

/// The state of each kernel module: `builtin`, `loaded`, `loadable` or `missing`; None if unknown.
#[pyfunction]
pub fn module_states(facts: &str, modules: Vec<String>) -> PyResult<Vec<Option<&'static str>>> {
    let facts = read(facts)?;
    let states = modules.iter().map(|name| facts.has_module(name).name());
    Ok(states.collect())
}

/// The state of each congestion control, likewise.
#[pyfunction]
pub fn cc_states(facts: &str, ccs: Vec<String>) -> PyResult<Vec<Option<&'static str>>> {
    let facts = read(facts)?;
    Ok(ccs.iter().map(|name| facts.has_cc(name).name()).collect())
}

/// The command that installs the package with a missing module, and the reason; None if no such
/// package is known.
#[pyfunction]
pub fn module_package(facts: &str, module: &str) -> PyResult<Option<(Vec<String>, String)>> {
    let found = features::module_package(&read(facts)?, module);
    Ok(found.map(|cure| (cure.command, cure.why)))
}

/// The features of Linux releases: name, first release, description and source of each.
#[pyfunction]
pub fn linux_features() -> Vec<(&'static str, (u32, u32), &'static str, &'static str)> {
    let rows = features::FEATURES.iter();
    rows.map(|row| (row.name, row.since, row.what, row.source))
        .collect()
}

/// The findings of an audit.
#[pyfunction]
pub fn audit_findings(
    facts: &str,
    rate_mbit: Option<f64>,
    rtt_ms: Option<f64>,
) -> PyResult<String> {
    let found = audit(&read(facts)?, &Path { rate_mbit, rtt_ms });
    serde_json::to_string(&found).map_err(unlike)
}

fn document(facts: &str, findings: &str) -> PyResult<Audit> {
    let found = serde_json::from_str(findings).map_err(unlike)?;
    Ok(Audit::new(&read(facts)?, found))
}

/// The document of an audit.
#[pyfunction]
pub fn audit_document(facts: &str, findings: &str) -> PyResult<String> {
    serde_json::to_string(&document(facts, findings)?).map_err(unlike)
}

/// An audit as lines of text; with `every`, settings without a finding, too.
#[pyfunction]
pub fn audit_lines(facts: &str, findings: &str, every: bool) -> PyResult<Vec<String>> {
    Ok(document(facts, findings)?.lines(every))
}

/// The stored effects of the rules of Linux releases.
#[pyfunction]
pub fn known_effects() -> &'static str {
    release::KNOWN_EFFECTS
}

/// The findings about rules that a kernel lacks and whose effect is large.
#[pyfunction]
pub fn kernel_rules(kernel: &str, effects: &str) -> PyResult<String> {
    let found = release::kernel_rules(kernel, effects).map_err(unlike)?;
    serde_json::to_string(&found).map_err(unlike)
}

/// The plan with the changes that the options require.
#[pyfunction]
pub fn host_plan(facts: &str, ask: &str) -> PyResult<String> {
    let ask: Ask = serde_json::from_str(ask).map_err(unlike)?;
    let plan = planner::plan(&read(facts)?, &ask).map_err(NarrowsError::new_err)?;
    serde_json::to_string(&plan).map_err(unlike)
}

/// A plan as lines of text.
#[pyfunction]
pub fn plan_lines(document: &str) -> PyResult<Vec<String>> {
    text::plan_lines(document).map_err(unlike)
}

/// The kernel modules that a shaper requires; with `incoming`, also those for incoming traffic.
#[pyfunction]
pub fn shaper_modules(kind: &str, incoming: bool) -> Vec<String> {
    shaper::modules(kind, incoming)
}

/// The queue disciplines of a shaper with the rate `kbit`, by their parent.
#[pyfunction]
pub fn shaper_disciplines(kind: &str, kbit: u64, handle: &str) -> PyResult<String> {
    serde_json::to_string(&shaper::disciplines(kind, kbit, handle)).map_err(unlike)
}

/// The queue disciplines of a shaper, the best first.
#[pyfunction]
pub fn shaper_kinds() -> Vec<&'static str> {
    shaper::KINDS.to_vec()
}
