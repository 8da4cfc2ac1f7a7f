//! Execution of a scenario, and its result. Rust runs without the interpreter's lock. At intervals
//! it takes the lock, checks for Ctrl-C and reports progress.

use crate::error::{self, EngineError};
use crate::external::{self, registry, registry_for, supervised};
use crate::table::{self, QueueNames, Table};
use crate::tree;
use narrows_core::capture::{Capture, INTERFACES};
use narrows_core::engine::{check_rows, path_metrics};
use narrows_core::metrics::{self, Conditions, QueueMetrics, Samples, compare, metric_interval};
use narrows_core::scenario::list::{describe_json, rules_of};
use narrows_core::scenario::value::Tree;
use narrows_core::scenario::{Likeness, Scenario};
use narrows_core::units::{Rate, Span, parse_span};
use narrows_sim::{Options, Progress};
use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between these checks: short enough for Ctrl-C, and long enough to cost nothing.
const VISIT: Duration = Duration::from_millis(50);

/// Texts by their names in a scenario.
pub type Texts = BTreeMap<String, String>;

/// The result of a run.
#[pyclass(frozen, module = "narrows._core")]
pub struct Run {
    json: String,
    tables: Vec<(&'static str, arrow_array::RecordBatch)>,
    verdicts_left_out: u64,
    files: Texts,
    record_error: Option<String>,
}

#[pymethods]
impl Run {
    /// The metrics as one JSON object, without provenance.
    fn json(&self) -> &str {
        &self.json
    }

    /// One of `samples`, `queue_samples`, `class_samples`, `pings`, `delays`, `verdicts`,
    /// `states`, `transfers`.
    fn table(&self, name: &str) -> PyResult<Table> {
        let found = self.tables.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, batch)| Table(batch.clone()))
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// The files that the scenario names, by that name, with their text.
    #[getter]
    fn files(&self) -> Texts {
        self.files.clone()
    }

    /// Number of dropped, marked and lost packets that `verdicts` leaves out.
    #[getter]
    fn verdicts_left_out(&self) -> u64 {
        self.verdicts_left_out
    }

    /// The reason why the capture is incomplete, if it is.
    #[getter]
    fn record_error(&self) -> Option<&str> {
        self.record_error.as_deref()
    }
}

/// Runs the scenario of a TOML text.
#[pyfunction]
#[pyo3(signature = (text, file_name, *, seed=None, sample_interval=None, verdicts=0, states=false,
record=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn run_toml(
    py: Python<'_>,
    text: &str,
    file_name: &str,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
    record: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let (scenario, files) = parse(py, text, file_name, true)?;
    run(
        py,
        scenario,
        files,
        seed,
        sample_interval,
        verdicts,
        states,
        record,
        progress,
    )
}

/// Runs the scenario of nested tables.
#[pyfunction]
#[pyo3(signature = (tree, *, seed=None, sample_interval=None, verdicts=0, states=false,
record=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn run_tree(
    py: Python<'_>,
    tree: &Bound<'_, PyMapping>,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
    record: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let (_, scenario, files) = parse_tree(tree, Texts::new())?;
    run(
        py,
        scenario,
        files,
        seed,
        sample_interval,
        verdicts,
        states,
        record,
        progress,
    )
}

/// Builds the result of an engine in another process: its JSON, its samples as bytes, and the
/// reason why its capture is incomplete.
#[pyfunction]
#[pyo3(signature = (json, samples, record_error=None))]
pub fn run_elsewhere(json: String, samples: &[u8], record_error: Option<String>) -> PyResult<Run> {
    let wrong =
        |what: &str| EngineError::new_err(format!("the engine's answer is not one: {what}"));
    let metrics: serde_json::Value =
        serde_json::from_str(&json).map_err(|e| wrong(&e.to_string()))?;
    let list = |of: &serde_json::Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let text = |of: &serde_json::Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let names = |of: &serde_json::Value, list_key: &str, key: &str| -> Vec<String> {
        list(of, list_key)
            .iter()
            .map(|entry| text(entry, key))
            .collect()
    };
    let ids = names(&metrics, "flows", "id");
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let probes = probe_ids(list(&metrics, "probes").len());
    let queue = |q: &serde_json::Value| QueueNames {
        name: text(q, "name"),
        classes: names(q, "classes", "name"),
    };
    let queues: Vec<_> = list(&metrics, "queues").iter().map(queue).collect();
    let samples = Samples::from_bytes(samples).ok_or_else(|| wrong("samples"))?;
    let duration =
        parse_span(&text(&metrics["scenario"], "duration")).map_err(|_| wrong("duration"))?;
    Ok(Run {
        json,
        files: Texts::new(),
        record_error,
        verdicts_left_out: samples.verdicts.left_out(),
        tables: table::of(samples, metric_interval(duration), &ids, &probes, &queues)?,
    })
}

fn probe_ids(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("ping{i}")).collect()
}

/// Reads a scenario without running it; returns its notices. A scenario that was `built` here may
/// name any file.
#[pyfunction]
#[pyo3(signature = (text, file_name, *, built=false))]
pub fn check_toml(
    py: Python<'_>,
    text: &str,
    file_name: &str,
    built: bool,
) -> PyResult<Vec<String>> {
    Ok(parse(py, text, file_name, !built)?.0.notices(&registry()))
}

/// The nested tables of a valid scenario, as they were written.
#[pyfunction]
pub fn toml_to_tree<'py>(
    py: Python<'py>,
    text: &str,
    file_name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    parse(py, text, file_name, true)?;
    let mut tree = Tree::from_toml(text, file_name).map_err(|e| error::scenario(py, &e))?;
    tree.migrate();
    tree::to_python(py, &tree.root)
}

/// A TOML text as nested tables, without interpretation.
#[pyfunction]
pub fn toml_tables<'py>(
    py: Python<'py>,
    text: &str,
    file_name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let tree = Tree::from_toml(text, file_name).map_err(|e| error::scenario(py, &e))?;
    tree::to_python(py, &tree.root)
}

/// The files that the valid scenario of a TOML text names, by that name; one that was `built` here
/// may name any.
#[pyfunction]
#[pyo3(signature = (text, file_name, *, built=false))]
pub fn scenario_files(py: Python<'_>, text: &str, file_name: &str, built: bool) -> PyResult<Texts> {
    Ok(parse(py, text, file_name, !built)?.1)
}

/// The TOML text of a valid scenario in nested tables, unchanged. Files that it names are looked up
/// in `files` first.
#[pyfunction]
#[pyo3(signature = (tree, files=None))]
pub fn scenario_to_toml(tree: &Bound<'_, PyMapping>, files: Option<Texts>) -> PyResult<String> {
    Ok(parse_tree(tree, files.unwrap_or_default())?.0.to_toml())
}

/// The nested tables of a valid scenario with every default, as a run reports them.
#[pyfunction]
pub fn scenario_defaults<'py>(
    py: Python<'py>,
    tree: &Bound<'py, PyMapping>,
) -> PyResult<Bound<'py, PyDict>> {
    let (_, scenario, _) = parse_tree(tree, Texts::new())?;
    tree::to_python(py, &scenario.to_tree().root)
}

/// The contents of the registry as one JSON object; only these lists, if any are named.
#[pyfunction]
#[pyo3(signature = (*only))]
pub fn list_json(only: Vec<String>) -> String {
    describe_json(&registry(), &only)
}

/// The dated rules of Linux as a list of tables: `of`, `name`, `since`, `backports`, `help`,
/// `source`, and `active`, whether the release called `like` (`linux-6.12`, `linux-6.12.5`) has the
/// rule.
#[pyfunction]
pub fn rules<'py>(py: Python<'py>, like: &str) -> PyResult<Bound<'py, PyAny>> {
    let Some(tree) = rules_of(like) else {
        let known = narrows_core::kernel::range();
        let problem = format!("{like} is not a release of this version; known: {known}");
        return Err(PyValueError::new_err(problem));
    };
    tree::to_python(py, &tree.root)?.as_any().get_item("rules")
}

/// The kinds and numbers by which a valid scenario's path is compared with stored cases: `Likeness`
/// of `narrows_core`. A buffer of packets counts full frames; the discipline's own limit is `None`.
#[pyfunction]
pub fn path_numbers<'py>(
    py: Python<'py>,
    tree: &Bound<'py, PyMapping>,
) -> PyResult<Bound<'py, PyDict>> {
    let like = Likeness::of(&parse_tree(tree, Texts::new())?.1, &registry());
    let rtts: Vec<f64> = like.rtts.iter().map(|rtt| rtt.as_ms()).collect();
    let numbers = PyDict::new(py);
    numbers.set_item("queue", like.queue)?;
    numbers.set_item("policer", like.policer)?;
    numbers.set_item("besides", like.besides)?;
    numbers.set_item("rate_mbit", like.rate.as_mbit())?;
    numbers.set_item("rtts_ms", rtts)?;
    numbers.set_item("buffer_bdp", like.room_bdp)?;
    numbers.set_item("headroom", like.headroom)?;
    numbers.set_item("loss", like.loss)?;
    Ok(numbers)
}

/// The `path` of a run of this valid scenario, as JSON.
#[pyfunction]
pub fn path_json(tree: &Bound<'_, PyMapping>) -> PyResult<String> {
    let (_, scenario, _) = parse_tree(tree, Texts::new())?;
    Ok(serde_json::to_string(&path_metrics(&scenario)).unwrap_or_default())
}

/// Compares a metric with a reference's runs; returns whether it agrees, the reference's value and
/// the tolerance. The conditions are numbers, because this version may not be able to run the
/// scenario.
#[pyfunction]
#[pyo3(signature = (name, reference, ours, *, rate_mbit, rtt_ms, duration_s, flows))]
pub fn compare_metric(
    name: &str,
    reference: Vec<f64>,
    ours: f64,
    rate_mbit: f64,
    rtt_ms: f64,
    duration_s: f64,
    flows: usize,
) -> PyResult<(bool, f64, f64)> {
    let on = conditions(rate_mbit, rtt_ms, duration_s, flows);
    compare(name, &reference, ours, &on)
        .map(|a| (a.agrees, a.reference, a.tolerance))
        .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

/// Compares a metric of two engines by several runs: the standing, the reference's median and
/// spread, the other median, the tolerance.
#[pyfunction]
#[pyo3(signature = (name, reference, ours, *, rate_mbit, rtt_ms, flows))]
pub fn compare_engines(
    name: &str,
    reference: Vec<f64>,
    ours: Vec<f64>,
    rate_mbit: f64,
    rtt_ms: f64,
    flows: usize,
) -> PyResult<(&'static str, f64, f64, f64, f64)> {
    let on = conditions(rate_mbit, rtt_ms, 0.0, flows);
    metrics::compare_engines(name, &reference, &ours, &on)
        .map(|b| {
            (
                b.standing.name(),
                b.reference,
                b.spread,
                b.ours,
                b.tolerance,
            )
        })
        .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

fn conditions(rate_mbit: f64, rtt_ms: f64, duration_s: f64, flows: usize) -> Conditions {
    Conditions {
        rate: Rate::bit((rate_mbit * 1e6) as u64),
        rtt: Span::ns((rtt_ms * 1e6) as u64),
        duration: Span::ns((duration_s * 1e9) as u64),
        flows,
    }
}

/// Reads files in `folder` once, and stores their text.
struct Reader<'a> {
    folder: &'a Path,
    /// Whether the scenario may be another user's: its files must then be in `folder`.
    confined: bool,
    texts: RefCell<Texts>,
}

impl<'a> Reader<'a> {
    fn new(folder: &'a Path, confined: bool, texts: Texts) -> Reader<'a> {
        let texts = RefCell::new(texts);
        Reader {
            folder,
            confined,
            texts,
        }
    }
    fn read(&self, name: &str) -> Result<String, String> {
        if let Some(text) = self.texts.borrow().get(name) {
            return Ok(text.clone());
        }
        let file = self.folder.join(name);
        let may = if self.confined {
            lies_inside(self.folder, &file)
        } else {
            Ok(())
        };
        let text = may
            .and_then(|()| read(&file))
            .map_err(|problem| match file.to_str() {
                Some(path) if path == name => problem,
                _ => format!("{problem} (as {})", file.display()),
            })?;
        self.texts.borrow_mut().insert(name.into(), text.clone());
        Ok(text)
    }
}

pub fn parse(
    py: Python<'_>,
    text: &str,
    file_name: &str,
    confined: bool,
) -> PyResult<(Scenario, Texts)> {
    let tree = Tree::from_toml(text, file_name).map_err(|e| error::scenario(py, &e))?;
    let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let files = Reader::new(folder, confined, Texts::new());
    let read = |name: &str| files.read(name);
    let registry = registry_for(py, &tree)?;
    let scenario = Scenario::from_tree(&tree, file_name, Some(text), &registry, &read);
    let scenario = scenario.map_err(|e| error::scenario(py, &e))?;
    Ok((scenario, files.texts.into_inner()))
}

/// Additional folders for files of a scenario, set by `--files-from`.
const MORE_FOLDERS: &str = "NARROWS_FILES_FROM";

/// Checks that a file is in `folder` or in a permitted folder, after resolving links.
fn lies_inside(folder: &Path, file: &Path) -> Result<(), String> {
    let real = std::fs::canonicalize(file).map_err(|e| plain(&e))?;
    let own = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let more = std::env::var_os(MORE_FOLDERS).unwrap_or_default();
    let mut folders = std::iter::once(own.to_path_buf()).chain(std::env::split_paths(&more));
    if folders
        .any(|folder| std::fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)))
    {
        return Ok(());
    }
    Err(
        "lies outside of the scenario's folder; copy it there, or allow its folder with \
        --files-from"
            .into(),
    )
}

/// Returns the text of a file that a scenario names, or the problem. It is read by the package's
/// only guard.
fn read(file: &Path) -> Result<String, String> {
    Python::attach(|py| {
        let read = || -> PyResult<Vec<u8>> {
            let guard = PyModule::import(py, "narrows.storage.untrusted_input")?;
            let bytes = guard.call_method1("read", (file, guard.getattr("MOST_TRACE_BYTES")?))?;
            Ok(bytes.extract::<Cow<'_, [u8]>>()?.into_owned())
        };
        let bytes = read().map_err(|e| match e {
            e if e.is_instance_of::<PyFileNotFoundError>(py) => "does not exist".into(),
            e if e.is_instance_of::<PyPermissionError>(py) => "may not be read".into(),
            e => {
                let said = e
                    .value(py)
                    .getattr("strerror")
                    .and_then(|said| said.extract::<String>());
                said.map_or("cannot be read".into(), |said| {
                    format!("cannot be read ({said})")
                })
            }
        })?;
        String::from_utf8(bytes).map_err(|_| "is not text".into())
    })
}

/// The system's error message without its number.
fn plain(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "does not exist".into(),
        std::io::ErrorKind::PermissionDenied => "may not be read".into(),
        std::io::ErrorKind::InvalidData => "is not text".into(),
        _ => "cannot be read".into(),
    }
}

pub fn parse_tree(tree: &Bound<'_, PyMapping>, texts: Texts) -> PyResult<(Tree, Scenario, Texts)> {
    let built = tree::from_python(tree)?;
    let files = Reader::new(Path::new(""), false, texts);
    let registry = registry_for(tree.py(), &built)?;
    let scenario = Scenario::from_tree(&built, "", None, &registry, &|name| files.read(name));
    let scenario = scenario.map_err(|e| error::scenario(tree.py(), &e))?;
    Ok((built, scenario, files.texts.into_inner()))
}

/// The error that ended the writing of a capture.
type RecordError = Arc<Mutex<Option<std::io::Error>>>;

/// A capture into `file`; an error is stored in `error`.
fn capture(file: &Path, title: &str, error: &RecordError) -> PyResult<Capture> {
    let mut out = std::fs::File::create(file)?;
    let error = Arc::clone(error);
    let sink = move |bytes: &[u8]| match out.write_all(bytes) {
        Ok(()) => true,
        Err(e) => {
            *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            false
        }
    };
    Ok(Capture::new(title, INTERFACES, Box::new(sink)))
}

/// The options of a run.
pub fn options(
    scenario: &Scenario,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
) -> PyResult<Options> {
    let mut options = Options {
        verdicts,
        states,
        ..Options::usual(scenario)
    };
    if sample_interval == Some("off") {
        options.sample_interval = None;
    } else if sample_interval == Some("pictures") {
        options.sample_interval = Options::pictures(scenario).sample_interval;
    } else if let Some(text) = sample_interval {
        options.sample_interval = Some(parse_span(text).map_err(|e| {
            EngineError::new_err(format!(
                "sample_interval = {text:?} {}\n    write: {:?}",
                e.problem, e.fix
            ))
        })?);
    } else if let Err(short) = check_rows(scenario, &options, Span::ZERO, Span::ZERO) {
        // Nobody chose the interval. States have several rows per sample.
        if short.of == "samples" {
            options = options.at_least(short.at_least);
        }
    }
    Ok(options)
}

/// A run without models from outside, in this thread.
fn plain_run(
    py: Python<'_>,
    scenario: &Scenario,
    options: &Options,
    capture: Option<Capture>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Result<narrows_sim::Run, narrows_sim::SimError>> {
    let mut stopped = None;
    let result = py.detach(|| {
        let mut visited = Instant::now();
        let mut visit = |at: Progress| {
            if visited.elapsed() < VISIT {
                return true;
            }
            visited = Instant::now();
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.map_or(Ok(()), |f| {
                    f.call1(py, (at.now.as_s(), at.end.as_s())).map(drop)
                })
            });
            told.map_err(|e| stopped = Some(e)).is_ok()
        };
        narrows_sim::run_recorded(scenario, &registry(), options, capture, &mut visit)
    });
    stopped.map_or(Ok(result), Err)
}

#[allow(clippy::too_many_arguments)] // keywords in Python
fn run(
    py: Python<'_>,
    mut scenario: Scenario,
    files: Texts,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
    record: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    scenario.seed = seed.unwrap_or(scenario.seed);
    let options = options(&scenario, sample_interval, verdicts, states)?;
    let record_error = RecordError::default();
    let capture = record
        .map(|file| capture(&file, &scenario.title, &record_error))
        .transpose()?;
    let done = if external::any() {
        let scenario = scenario.clone();
        supervised(py, progress.as_ref(), move |visit| {
            narrows_sim::run_recorded(&scenario, &registry(), &options, capture, visit)
        })
    } else {
        plain_run(py, &scenario, &options, capture, progress.as_ref())
    }?;
    let done = done.map_err(|error| EngineError::new_err(error.to_string()))?;
    let record_error = record_error
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    finished(&scenario, files, done, record_error)
}

/// The result of a run.
pub fn finished(
    scenario: &Scenario,
    files: Texts,
    done: narrows_sim::Run,
    record_error: Option<std::io::Error>,
) -> PyResult<Run> {
    let written = serde_json::to_value(scenario.to_tree()).unwrap_or_default();
    let json = done.to_json(env!("CARGO_PKG_VERSION"), &written, None);
    let ids: Vec<&str> = scenario.flows.iter().map(|f| f.id.as_str()).collect();
    let probes = probe_ids(scenario.probes.len());
    let names = |q: &QueueMetrics| QueueNames {
        name: q.name.clone(),
        classes: q.classes.iter().map(|c| c.name.clone()).collect(),
    };
    let queues: Vec<_> = done.queues.iter().map(names).collect();
    Ok(Run {
        json,
        files,
        record_error: record_error.map(|e| e.to_string()),
        verdicts_left_out: done.samples.verdicts.left_out(),
        tables: table::of(
            done.samples,
            metric_interval(done.scenario.duration),
            &ids,
            &probes,
            &queues,
        )?,
    })
}
