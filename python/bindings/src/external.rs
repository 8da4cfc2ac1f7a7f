//! Models from outside of narrows (plugins and Python classes): the list of those registered in
//! this process, and the supervision of runs that use them.
//!
//! The calling program registers models. A scenario can only cause a look-up among the entry points
//! of installed packages.

use crate::error::EngineError;
use crate::python_cc;
use crate::python_queue::{self, PythonQueue};
use narrows_core::cc::{CcKind, KINDS};
use narrows_core::param::{Kind, Param, Params, no_check};
use narrows_core::queue::{self, Limit, QueueContext, QueueKind};
use narrows_core::registry::Registry;
use narrows_core::registry::endpoint::{Kind as Transport, Role, Setting};
use narrows_core::scenario::value::{Table, Tree, Value};
use narrows_core::text::is_control;
use narrows_core::units::{Bytes, Rate, Span, Time, parse_bytes, parse_rate, parse_span};
use narrows_plugin::monitor::{self, Model, Monitor};
use narrows_plugin::{erased, load};
use narrows_sim::{Packet, Progress};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

enum Entry {
    Cc(CcKind),
    Queue(QueueKind<Packet>),
    Transport(Transport),
}

impl Entry {
    fn list(&self) -> &'static str {
        match self {
            Entry::Cc(_) => "cc",
            Entry::Queue(_) => "queue",
            Entry::Transport(_) => "transport",
        }
    }
    fn name(&self) -> &'static str {
        match self {
            Entry::Cc(kind) => kind.name,
            Entry::Queue(kind) => kind.name,
            Entry::Transport(kind) => kind.name,
        }
    }
}

static ENTRIES: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// Number of threads whose run was abandoned, because a model does not return from an event.
static STUCK: AtomicUsize = AtomicUsize::new(0);

fn copy(kind: &QueueKind<Packet>) -> QueueKind<Packet> {
    QueueKind { ..*kind }
}

/// The models of narrows and the registered models.
pub fn registry() -> Registry<Packet> {
    let mut registry = Registry::standard();
    for entry in ENTRIES
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
    {
        match entry {
            Entry::Cc(kind) => registry.register_cc(kind.clone()),
            Entry::Queue(kind) => registry.register_queue(copy(kind)),
            Entry::Transport(kind) => registry.register_transport(kind.clone()),
        }
    }
    registry
}

/// Searches the entry points of installed packages for a model that is not registered, and returns
/// whether one was found and registered.
#[pyfunction]
pub fn find_model(py: Python<'_>, kind: &str, name: &str) -> PyResult<bool> {
    let plugins = py.import("narrows.models.plugins")?;
    plugins.call_method1("installed", (kind, name))?.extract()
}

/// The [`registry`] for a scenario. Unregistered models that the scenario names are first searched
/// for in installed packages.
pub fn registry_for(py: Python<'_>, tree: &Tree) -> PyResult<Registry<Packet>> {
    let known = registry();
    let mut unknown = Vec::new();
    let of_transports = |name: &str| known.transports().iter().any(|k| k.ccs.contains(&name));
    names(&tree.root, &mut |list, name| {
        let there = match list {
            "cc" => known.cc(name).is_some() || of_transports(name),
            _ => known.queue(name).is_some() || matches!(name, "pfifo" | "bfifo"),
        };
        if !there {
            unknown.push((list, name.to_owned()));
        }
    });
    if unknown.is_empty() {
        return Ok(known);
    }
    for (list, name) in unknown {
        find_model(py, list, &name)?;
    }
    Ok(registry())
}

/// Calls `visit` for each congestion control and queue discipline that a table or its inner tables
/// name.
fn names<'a>(table: &'a Table, visit: &mut dyn FnMut(&'static str, &'a str)) {
    for entry in &table.entries {
        let list = match entry.key.as_str() {
            "cc" => Some("cc"),
            "queue" => Some("queue"),
            _ => None,
        };
        match (&entry.node.value, list) {
            (Value::String(name), Some(list)) => visit(list, name),
            (Value::Table(inner), list) => {
                let kind = inner.entries.iter().find(|e| e.key == "kind");
                if let (Some(list), Some(Value::String(name))) = (list, kind.map(|e| &e.node.value))
                {
                    visit(list, name);
                }
                names(inner, visit);
            }
            (Value::Array(items), _) => {
                for item in items {
                    if let Value::Table(inner) = &item.value {
                        names(inner, visit);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns whether any model from outside is registered.
pub fn any() -> bool {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    !entries.is_empty()
}

fn add(entry: Entry) -> PyResult<()> {
    let (list, name) = (entry.list(), entry.name());
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(letters) {
        return Err(PyValueError::new_err(format!(
            "name = {name:?}: a name has lower-case letters, digits and underscores, and begins \
             with a letter"
        )));
    }
    let taken = match list {
        "cc" => KINDS.iter().any(|kind| kind.name == name),
        "transport" => false,
        _ => {
            matches!(name, "pfifo" | "bfifo")
                || queue::kinds::<Packet>().iter().any(|k| k.name == name)
        }
    };
    if taken {
        return Err(PyValueError::new_err(format!(
            "name = {name:?}: narrows has a model of this name; write another name, such as \
             \"my_{name}\""
        )));
    }
    try_out(&entry)?;
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|old| (old.list(), old.name()) != (list, name));
    entries.push(entry);
    Ok(())
}

/// Creates an instance with the default parameters, and returns an error if the model fails.
fn try_out(entry: &Entry) -> PyResult<()> {
    if let Entry::Transport(kind) = entry {
        let setting = Setting {
            role: Role::Sender,
            cc: kind.ccs.first().copied().unwrap_or(""),
            ecn: false,
            seed: 1,
            mtu: 1500,
        };
        let opened = (kind.open)(&setting);
        return opened
            .map(drop)
            .map_err(|problem| EngineError::new_err(format!("{}: {problem}", kind.name)));
    }
    let monitor = Arc::default();
    monitor::watched(&monitor, || match entry {
        Entry::Cc(kind) => {
            let cc = (kind.make)(&Params::defaults(kind.params), &Default::default());
            cc.needs_pacing();
        }
        Entry::Queue(kind) => {
            let place = QueueContext {
                limit: Some(Limit::Packets(100)),
                rate: Rate::mbit(10),
                hz: 1000,
                seed: 1,
            };
            (kind.make)(&Params::defaults(kind.params), &place).backlog();
        }
        Entry::Transport(_) => {}
    });
    monitor
        .fault()
        .map_or(Ok(()), |fault| Err(EngineError::new_err(fault.to_string())))
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn model(name: &str, from: &str) -> &'static Model {
    Box::leak(Box::new(Model {
        name: name.into(),
        from: from.into(),
    }))
}

/// Loads a shared library and registers its models. Returns for each model its list (`cc`, `queue`
/// or `transport`) and its name. `origin` names the library in errors.
#[pyfunction]
pub fn load_plugin(
    py: Python<'_>,
    file: PathBuf,
    origin: &str,
) -> PyResult<Vec<(&'static str, &'static str)>> {
    let wrong = |problem: &str| EngineError::new_err(format!("{origin}: {problem}"));
    let transports = py.detach(|| load::transports(&file));
    if let Some(kinds) = transports.map_err(|problem| wrong(&problem))? {
        let mut found = Vec::new();
        for kind in kinds {
            found.push(("transport", kind.name));
            add(Entry::Transport(kind))?;
        }
        return Ok(found);
    }
    let process = monitor::process();
    process.clear();
    let models = py
        .detach(|| load::load(&file))
        .map_err(|problem| wrong(&problem))?;
    if let Some(fault) = process.fault() {
        process.clear();
        return Err(wrong(&fault.problem));
    }
    if models.ccs.is_empty() && models.queues.is_empty() {
        return Err(wrong(
            "exports no model; list the models in narrows_plugin::export!",
        ));
    }
    let mut entries = Vec::new();
    for of in models.ccs {
        entries.push(Entry::Cc(monitor::cc(model(of.name, origin), of)));
    }
    for of in models.queues {
        if erased::nests(&of) {
            return Err(wrong(&format!(
                "{}: a queue discipline of a plugin has no parameters that are queue disciplines \
                 or lists of tables; remove them",
                of.name
            )));
        }
        entries.push(Entry::Queue(monitor::queue(
            model(of.name, origin),
            erased::kind(&of),
        )));
    }
    let mut found = Vec::new();
    for entry in entries {
        found.push((entry.list(), entry.name()));
        add(entry)?;
    }
    Ok(found)
}

/// The loaded transports: name, version of the stack, help, congestion controls.
#[pyfunction]
pub fn transports() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)> {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    let found = entries.iter().filter_map(|entry| match entry {
        Entry::Transport(kind) => Some((kind.name, kind.version, kind.help, kind.ccs.clone())),
        _ => None,
    });
    found.collect()
}

/// The tag with which a plugin must be built to be loaded by this version.
#[pyfunction]
pub fn plugin_tag() -> String {
    narrows_plugin::tag()
}

/// Registers a Python class as a congestion control.
#[pyfunction]
pub fn register_cc(model_class: &Bound<'_, PyAny>, spec: &Bound<'_, PyDict>) -> PyResult<()> {
    let about = About::of(spec)?;
    let kind = python_cc::kind(model_class, spec, &about)?;
    add(Entry::Cc(monitor::cc(model(about.name, &about.from), kind)))
}

/// Registers a Python class as a queue discipline.
#[pyfunction]
pub fn register_queue(model_class: &Bound<'_, PyAny>, spec: &Bound<'_, PyDict>) -> PyResult<()> {
    let about = About::of(spec)?;
    let factory = PythonQueue::factory(model_class, spec)?;
    let kind = QueueKind {
        name: about.name,
        help: about.help,
        source: about.source,
        params: about.params,
        check: no_check,
        feedback: false,
        make: Box::leak(Box::new(move |params: &Params, place: &QueueContext| {
            python_queue::make(&factory, params, place)
        })),
    };
    add(Entry::Queue(monitor::queue(
        model(about.name, &about.from),
        kind,
    )))
}

/// Removes a model from the list of registered models; runs that already use it are not affected.
#[pyfunction]
pub fn unregister(kind: &str, name: &str) {
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|old| (old.list(), old.name()) != (kind, name));
}

/// The number of threads that were abandoned so far, because a model did not return from an event.
#[pyfunction]
pub fn stuck_runs() -> usize {
    STUCK.load(Ordering::Relaxed)
}

/// The part of a registration that congestion controls and queue disciplines have in common.
pub struct About {
    pub name: &'static str,
    pub from: String,
    pub help: &'static str,
    pub source: &'static str,
    pub params: &'static [Param],
}

impl About {
    fn of(spec: &Bound<'_, PyDict>) -> PyResult<About> {
        let rows: Bound<'_, PyList> = item(spec, "params")?.extract()?;
        let mut params = Vec::new();
        for row in rows.iter() {
            params.push(param(&row)?);
        }
        Ok(About {
            name: leak(item(spec, "name")?.extract()?),
            from: item(spec, "from")?.extract()?,
            help: leak(item(spec, "help")?.extract()?),
            source: leak(item(spec, "source")?.extract()?),
            params: params.leak(),
        })
    }
}

pub fn item<'py>(spec: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    spec.get_item(key)?
        .ok_or_else(|| PyValueError::new_err(format!("the specification lacks {key}")))
}

/// A row of a table of parameters: `(name, kind, default, minimum, maximum, words, help, source)`.
fn param(row: &Bound<'_, PyAny>) -> PyResult<Param> {
    type Row<'py> = (
        String,
        String,
        Bound<'py, PyAny>,
        Bound<'py, PyAny>,
        Bound<'py, PyAny>,
        Vec<String>,
        String,
        String,
    );
    let (name, kind, default, least, most, words, help, source): Row<'_> = row.extract()?;
    let wrong = |what: &Bound<'_, PyAny>, problem: String| {
        PyValueError::new_err(format!("{name} = {what}: {problem}"))
    };
    macro_rules! number {
        ($of:expr, $type:ty) => {
            $of.extract::<$type>()
                .map_err(|e| wrong(&$of, e.to_string()))?
        };
    }
    macro_rules! text {
        ($of:expr, $parse:expr) => {{
            let text: String = number!($of, String);
            $parse(&text).map_err(|e| wrong(&$of, format!("{}; write {}", e.problem, e.fix)))?
        }};
    }
    macro_rules! ends {
        ($get:ident, $how:expr, $kind:path, $low:expr, $high:expr) => {{
            let low = if least.is_none() {
                $low
            } else {
                $get!(least, $how)
            };
            let high = if most.is_none() {
                $high
            } else {
                $get!(most, $how)
            };
            let value = $get!(default, $how);
            if value < low || value > high {
                return Err(wrong(
                    &default,
                    format!("the default is not between {least} and {most}"),
                ));
            }
            $kind(value, low, high)
        }};
    }
    let kind = match kind.as_str() {
        "bool" => Kind::Bool(number!(default, bool)),
        "word" => {
            let words: Vec<&'static str> = words.into_iter().map(leak).collect();
            Kind::Word(words.leak())
        }
        "count" => {
            let low = if least.is_none() {
                0
            } else {
                number!(least, u64)
            };
            let high = if most.is_none() {
                u64::from(u32::MAX)
            } else {
                number!(most, u64)
            };
            Kind::Count(number!(default, u64), low, high)
        }
        "number" => {
            let low = if least.is_none() {
                -1e12
            } else {
                number!(least, f64)
            };
            let high = if most.is_none() {
                1e12
            } else {
                number!(most, f64)
            };
            Kind::Number(number!(default, f64), low, high)
        }
        "time" => ends!(text, parse_span, Kind::Span, Span::ZERO, Span::s(86_400)),
        "rate" => ends!(
            text,
            parse_rate,
            Kind::Rate,
            Rate::bit(1),
            Rate::mbit(1_000_000)
        ),
        _ => ends!(
            text,
            parse_bytes,
            Kind::Bytes,
            Bytes::ZERO,
            Bytes::new(1 << 40)
        ),
    };
    let row = Param {
        name: leak(name),
        kind,
        help: leak(help),
        source: leak(source),
    };
    Ok(row)
}

/// Sets the values of parameters as attributes of a Python instance: times in seconds, rates in
/// bits per second, sizes in bytes.
pub fn set_params(instance: &Bound<'_, PyAny>, params: &Params) -> PyResult<()> {
    use narrows_core::param::Value;
    for (name, value) in params.iter() {
        match value {
            Value::Bool(on) => instance.setattr(name, *on)?,
            Value::Count(n) | Value::Packets(n) => instance.setattr(name, *n)?,
            Value::Number(x) => instance.setattr(name, *x)?,
            Value::Span(span) => instance.setattr(name, span.as_s())?,
            Value::Bytes(bytes) => instance.setattr(name, bytes.get())?,
            Value::Rate(rate) => instance.setattr(name, rate.as_bit())?,
            Value::Word(word) => instance.setattr(name, word)?,
            _ => {}
        }
    }
    Ok(())
}

/// Reports an exception of a Python class as a fault of the method that raised it.
///
/// The event `mode` is handled by the method `describe`, and the event `make` by the constructor.
pub fn report(py: Python<'_>, file: &str, error: &PyErr) {
    let method = match monitor::present_event() {
        "mode" => "describe",
        "make" => "__init__",
        event => event,
    };
    report_in(py, file, error, method);
}

/// Reports an exception of a Python class as a fault of a method.
pub fn report_in(py: Python<'_>, file: &str, error: &PyErr, method: &str) {
    let described = py
        .import("narrows.models.faults")
        .and_then(|module| {
            module.call_method1("describe", (error.value(py), file, error.traceback(py)))
        })
        .and_then(|text| text.extract::<String>());
    let text = described.unwrap_or_else(|_| error.to_string());
    monitor::fail(method, &text);
}

/// Interval between two checks of a supervised run.
const VISIT: Duration = Duration::from_millis(50);
/// Number of checks after the interruption of an event until its thread is abandoned.
const GRACE: u32 = 20;

/// Whether a model that holds the interpreter lock ends the process.
static EXITS: AtomicBool = AtomicBool::new(false);

/// From now on, an event that takes too long and holds the interpreter lock ends this process. The
/// exit code is 2, and the message names the model. Nothing else can end such a run, not even a
/// signal. The command line and processes of sweeps call this function; other programs only get a
/// message.
#[pyfunction]
pub fn exit_if_locked() {
    EXITS.store(true, Ordering::Relaxed);
}

/// The state that the thread of a supervised run shares with the supervisor.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Whether the run is over.
    over: AtomicBool,
    /// Number of checks by the supervisor, which needs the interpreter lock for each.
    checks: AtomicU64,
    now_ns: AtomicU64,
    end_ns: AtomicU64,
    /// The directory of the thread below `/proc`, and its identifier in Python.
    thread: Mutex<(PathBuf, u64)>,
}

/// Runs `job` in a thread, so that a model that does not return from an event ends the run and not
/// the program. `job` receives the progress callback, which it passes to the simulator.
pub fn supervised<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&mut dyn FnMut(Progress) -> bool) -> T + Send + 'static,
) -> PyResult<T> {
    let monitor = Arc::<Monitor>::default();
    let shared = Arc::<Shared>::default();
    let (send, receive) = sync_channel(1);
    // `detach` requires `Sync`, which a receiver is not without the mutex.
    let receive = Mutex::new(receive);
    let (of_thread, to_tell) = (Arc::clone(&monitor), Arc::clone(&shared));
    let body = move || {
        let me = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        Python::attach(|py| {
            let number = py
                .import("threading")
                .and_then(|threading| threading.call_method0("get_ident"))
                .and_then(|number| number.extract::<u64>());
            *to_tell
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner) =
                (Path::new("/proc").join(me), number.unwrap_or(0));
            py.detach(|| {
                let mut visit = |at: Progress| {
                    to_tell.now_ns.store(at.now.as_ns(), Ordering::Relaxed);
                    to_tell.end_ns.store(at.end.as_ns(), Ordering::Relaxed);
                    !of_thread.failed() && !to_tell.stop.load(Ordering::Relaxed)
                };
                let done = monitor::watched(&of_thread, || job(&mut visit));
                let _gone = send.send(done);
            });
        });
    };
    // The stack is large enough for recursion in Python classes that is as deep as in the main
    // thread.
    let thread = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(body)?;
    let _guard = Guard::of(&monitor, &shared)?;
    let mut watch = Watch::default();
    let mut stopped = None;
    loop {
        let done = py.detach(|| {
            let receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
            receive.recv_timeout(VISIT)
        });
        match done {
            Ok(done) => {
                py.detach(|| thread.join()).ok();
                return match (stopped, monitor.fault()) {
                    (Some(error), _) => Err(error),
                    (None, Some(fault)) => Err(EngineError::new_err(fault.to_string())),
                    (None, None) => Ok(done),
                };
            }
            Err(RecvTimeoutError::Disconnected) => {
                return match py.detach(|| thread.join()) {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => Err(EngineError::new_err("the run ended without a result")),
                };
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        shared.checks.fetch_add(1, Ordering::Relaxed);
        if stopped.is_none() {
            stopped = visit(py, progress, &shared).err();
        }
        shared.stop.store(stopped.is_some(), Ordering::Relaxed);
        if watch.overdue(py, &monitor, &shared, stopped.is_some()) {
            STUCK.fetch_add(1, Ordering::Relaxed);
            let text = monitor.fault().map(|fault| fault.to_string());
            return Err(stopped.unwrap_or_else(|| EngineError::new_err(text.unwrap_or_default())));
        }
    }
}

fn visit(py: Python<'_>, progress: Option<&Py<PyAny>>, shared: &Shared) -> PyResult<()> {
    py.check_signals()?;
    let time = |of: &AtomicU64| Time::from_ns(of.load(Ordering::Relaxed)).as_s();
    let end = time(&shared.end_ns);
    match progress.filter(|_| end > 0.0) {
        Some(progress) => progress.call1(py, (time(&shared.now_ns), end)).map(drop),
        None => Ok(()),
    }
}

/// A thread that detects an event that takes too long while the supervisor waits for the
/// interpreter lock. It never takes this lock.
struct Guard {
    shared: Arc<Shared>,
    thread: std::thread::JoinHandle<()>,
}

impl Guard {
    fn of(monitor: &Arc<Monitor>, shared: &Arc<Shared>) -> std::io::Result<Guard> {
        let (seen, of_thread) = (Arc::clone(monitor), Arc::clone(shared));
        let thread = std::thread::Builder::new().spawn(move || guard(&seen, &of_thread))?;
        Ok(Guard {
            shared: Arc::clone(shared),
            thread,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }
}

/// Prints a line to stderr without the interpreter. The name of a model comes from a file, so
/// control characters are replaced.
fn say(text: &str) {
    let plain = |c: char| if is_control(c) { '?' } else { c };
    let line: String = text.chars().map(plain).chain(['\n']).collect();
    // Nothing is left to do if stderr is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn guard(monitor: &Monitor, shared: &Shared) {
    let (mut last, mut since_s) = (None, 0.0);
    while !shared.over.load(Ordering::Relaxed) {
        std::thread::park_timeout(VISIT);
        let here = (monitor.call(), shared.checks.load(Ordering::Relaxed));
        let place = (shared.thread.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone();
        if here.0.is_none() || last != Some(here) {
            (last, since_s) = (Some(here), processor_time(&place));
        } else if processor_time(&place) - since_s > monitor::MOST_EVENT_S {
            monitor.overdue();
            let text = monitor.fault().map_or(String::new(), |it| it.to_string());
            if EXITS.load(Ordering::Relaxed) {
                say(&text);
                std::process::exit(2);
            }
            say(&format!(
                "{text}; it holds the interpreter lock, so narrows cannot end the run"
            ));
            return;
        }
    }
}

/// The call of a model in which the thread of a run is, and the processor time since it was first
/// seen.
#[derive(Default)]
struct Watch {
    call: Option<u64>,
    since_s: f64,
    /// Number of checks since the event was interrupted.
    interrupted: u32,
}

impl Watch {
    /// Interrupts an event that takes too long or during which the run is stopped. Returns whether
    /// the event continues for more than `GRACE` checks after the interruption.
    fn overdue(
        &mut self,
        py: Python<'_>,
        monitor: &Monitor,
        shared: &Shared,
        stopped: bool,
    ) -> bool {
        let call = monitor.call();
        let (place, thread) = shared
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if call.is_none() || call != self.call {
            *self = Watch {
                call,
                since_s: processor_time(&place),
                interrupted: 0,
            };
            return false;
        }
        let late = processor_time(&place) - self.since_s > monitor::MOST_EVENT_S;
        if !late && !stopped && self.interrupted == 0 {
            return false;
        }
        if self.interrupted == 0 {
            if late {
                monitor.overdue();
            }
            let module = py.import("narrows.models.faults");
            let _no_python = module.and_then(|of| of.call_method1("interrupt", (thread,)));
        }
        self.interrupted += 1;
        self.interrupted > GRACE
    }
}

/// Processor time of a thread, in seconds. The file `stat` has it in units of 1/100 s on Linux.
fn processor_time(place: &Path) -> f64 {
    let text = std::fs::read_to_string(place.join("stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// A Python class, which all its instances share.
pub type Factory = Arc<Py<PyAny>>;
