//! Execution of a scenario, and its result. The Rust code runs without the lock of the Python
//! interpreter. At intervals it acquires the lock, checks for Ctrl-C and calls the progress
//! function.

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

/// Interval between these checks: short enough to respond to Ctrl-C, and long enough to be
/// negligible.
const VISIT: Duration = Duration::from_millis(50);

/// Texts of files, by the names that a scenario uses for the files.
pub type Texts = BTreeMap<String, String>;

/// The result of a run.
#[pyclass(frozen, module = "narrows._core")]
pub struct Run {
    json: String,
    tables: Vec<(&'static str, arrow_array::RecordBatch)>,
    verdicts_left_out: u64,
    files: Texts,
    record_error: Option<String>,
    threads: usize,
}

#[pymethods]
impl Run {
    /// The metrics as one JSON object, without provenance.
    fn json(&self) -> &str {
        &self.json
    }

    /// The table `samples`, `queue_samples`, `class_samples`, `pings`, `delays`, `verdicts`,
    /// `states` or `transfers`.
    fn table(&self, name: &str) -> PyResult<Table> {
        let found = self.tables.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, batch)| Table(batch.clone()))
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// The texts of the files that the scenario names, by these names.
    #[getter]
    fn files(&self) -> Texts {
        self.files.clone()
    }

    /// Number of dropped, marked and lost packets that are not in the table `verdicts`, because it
    /// is full.
    #[getter]
    fn verdicts_left_out(&self) -> u64 {
        self.verdicts_left_out
    }

    /// The reason why the capture file is incomplete; None if it is complete.
    #[getter]
    fn record_error(&self) -> Option<&str> {
        self.record_error.as_deref()
    }

    /// Number of threads of the simulator that handled the flows.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }
}

/// Runs the scenario in a TOML text. Files that it names are relative to the folder of `file_name`.
#[pyfunction]
#[pyo3(signature = (text, file_name, *, seed=None, sample_interval=None, verdicts=0, states=false,
threads=1, record=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn run_toml(
    py: Python<'_>,
    text: &str,
    file_name: &str,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
    threads: usize,
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
        threads,
        record,
        progress,
    )
}

/// Runs the scenario in nested tables (Python dictionaries).
#[pyfunction]
#[pyo3(signature = (tree, *, seed=None, sample_interval=None, verdicts=0, states=false,
threads=1, record=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub fn run_tree(
    py: Python<'_>,
    tree: &Bound<'_, PyMapping>,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    verdicts: usize,
    states: bool,
    threads: usize,
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
        threads,
        record,
        progress,
    )
}

/// Builds the result of a run that an engine executed in another process. The arguments are its
/// JSON, its samples as bytes, and the reason why its capture file is incomplete.
#[pyfunction]
#[pyo3(signature = (json, samples, record_error=None))]
pub fn run_elsewhere(json: String, samples: &[u8], record_error: Option<String>) -> PyResult<Run> {
    let wrong = |what: &str| {
        EngineError::new_err(format!(
            "the result of the other process is invalid: {what}"
        ))
    };
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
        threads: 1,
    })
}

fn probe_ids(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("ping{i}")).collect()
}

/// Checks a scenario without running it, and returns its notices. With `built`, for a scenario from
/// Python objects, it may name any file.
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

/// The nested tables of a valid scenario in a TOML text, without defaults. Old formats are
/// converted to the present one.
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

/// A TOML text as nested tables, without checks of its content.
#[pyfunction]
pub fn toml_tables<'py>(
    py: Python<'py>,
    text: &str,
    file_name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let tree = Tree::from_toml(text, file_name).map_err(|e| error::scenario(py, &e))?;
    tree::to_python(py, &tree.root)
}

/// The texts of the files that a valid scenario in a TOML text names, by these names. With `built`,
/// for a scenario from Python objects, it may name any file.
#[pyfunction]
#[pyo3(signature = (text, file_name, *, built=false))]
pub fn scenario_files(py: Python<'_>, text: &str, file_name: &str, built: bool) -> PyResult<Texts> {
    Ok(parse(py, text, file_name, !built)?.1)
}

/// Converts a valid scenario in nested tables to TOML, without defaults. Files that it names are
/// first looked up in `files`.
#[pyfunction]
#[pyo3(signature = (tree, files=None))]
pub fn scenario_to_toml(tree: &Bound<'_, PyMapping>, files: Option<Texts>) -> PyResult<String> {
    Ok(parse_tree(tree, files.unwrap_or_default())?.0.to_toml())
}

/// The nested tables of a valid scenario with all defaults filled in, as in the JSON of a run.
#[pyfunction]
pub fn scenario_defaults<'py>(
    py: Python<'py>,
    tree: &Bound<'py, PyMapping>,
) -> PyResult<Bound<'py, PyDict>> {
    let (_, scenario, _) = parse_tree(tree, Texts::new())?;
    tree::to_python(py, &scenario.to_tree().root)
}

/// The contents of the registry as one JSON object; with arguments, only the lists with these
/// names.
#[pyfunction]
#[pyo3(signature = (*only))]
pub fn list_json(only: Vec<String>) -> String {
    describe_json(&registry(), &only)
}

/// The dated rules of Linux as a list of tables: `of`, `name`, `since`, `backports`, `help`,
/// `source`, and `active`: whether the release `like` (such as `linux-6.12` or `linux-6.12.5`) has
/// the rule.
#[pyfunction]
pub fn rules<'py>(py: Python<'py>, like: &str) -> PyResult<Bound<'py, PyAny>> {
    let Some(tree) = rules_of(like) else {
        let known = narrows_core::kernel::range();
        let problem = format!("{like} is not a release of this version; known: {known}");
        return Err(PyValueError::new_err(problem));
    };
    tree::to_python(py, &tree.root)?.as_any().get_item("rules")
}

/// The properties with which the path of a valid scenario is compared with stored cases (`Likeness`
/// of `narrows_core`). A buffer in packets counts as full frames. `buffer_bdp` is `None` if the
/// queue discipline has its default limit.
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

/// The object `path` in the JSON of a run of this valid scenario, as JSON.
#[pyfunction]
pub fn path_json(tree: &Bound<'_, PyMapping>) -> PyResult<String> {
    let (_, scenario, _) = parse_tree(tree, Texts::new())?;
    Ok(serde_json::to_string(&path_metrics(&scenario)).unwrap_or_default())
}

/// Compares a metric with runs of a reference. Returns whether it agrees, the value of the
/// reference and the tolerance. The properties of the scenario are passed as numbers, because this
/// version may not support the scenario.
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

/// Compares a metric of several runs of two engines. Returns the outcome, the median and the spread
/// of the reference, the median of the other engine, and the tolerance.
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

/// Reads files that a scenario names, relative to `folder`, each once, and stores their texts.
struct Reader<'a> {
    folder: &'a Path,
    /// Whether the scenario may be from another user; its files must then be in `folder` or in a
    /// folder of `--files-from`.
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

/// Environment variable with additional folders for files of a scenario, which `--files-from` sets.
const MORE_FOLDERS: &str = "NARROWS_FILES_FROM";

/// Checks that a file is in `folder` or in a folder of `--files-from`, after symbolic links are
/// resolved.
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

/// Returns the text of a file that a scenario names, or the problem as text. The file is read with
/// `narrows.storage.untrusted_input`, as all files of users are.
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

/// A description of an error of the operating system.
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

/// A capture that writes packets to `file`; an error of writing is stored in `error`.
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

/// The options of a run, from the arguments of the Python function.
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
        // The caller did not set the interval. If the default gives too many rows, which states
        // multiply, the interval is longer.
        if short.of == "samples" {
            options = options.at_least(short.at_least);
        }
    }
    Ok(options)
}

/// Executes a run without models from outside, in this thread.
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

/// Executes a run, with or without models from outside.
pub fn simulated(
    py: Python<'_>,
    scenario: &Scenario,
    options: &Options,
    capture: Option<Capture>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<narrows_sim::Run> {
    let done = if external::any() {
        let scenario = scenario.clone();
        // The supervisor observes only one thread.
        let options = Options {
            threads: 1,
            ..*options
        };
        supervised(py, progress, move |visit| {
            narrows_sim::run_recorded(&scenario, &registry(), &options, capture, visit)
        })
    } else {
        plain_run(py, scenario, options, capture, progress)
    }?;
    done.map_err(|error| EngineError::new_err(error.to_string()))
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
    threads: usize,
    record: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    scenario.seed = seed.unwrap_or(scenario.seed);
    let options = Options {
        threads,
        ..options(&scenario, sample_interval, verdicts, states)?
    };
    let record_error = RecordError::default();
    let capture = record
        .map(|file| capture(&file, &scenario.title, &record_error))
        .transpose()?;
    let done = simulated(py, &scenario, &options, capture, progress.as_ref())?;
    let record_error = record_error
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    finished(&scenario, files, done, record_error)
}

/// Builds the result of a finished run: its JSON and its tables.
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
        threads: done.threads,
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
