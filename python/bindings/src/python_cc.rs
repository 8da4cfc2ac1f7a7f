//! A congestion control that is a Python class.
//!
//! Only event methods that the class defines are called. Each call passes the window and the event.
//! The method `on_interval` receives all ACKs of an interval together.

use crate::external::{self, About, item};
use narrows_core::cc::{
    self, Ack, Cause, CcKind, CongestionControl, Family, Host, Loss, LostPacket, Need, Reduced,
    Rto, Sample, Sent, SpuriousLoss, Start, StateChange, Window,
};
use narrows_core::param::Params;
use narrows_core::transport::{MSS, State};
use narrows_core::units::{Rate, Span, Time};
use narrows_plugin::monitor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use pyo3::{PyClass, PyClassInitializer};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The window of a sender, as a Python class reads and sets it.
#[pyclass(name = "Window", module = "narrows._core")]
pub struct PyWindow {
    /// The congestion window in packets.
    #[pyo3(get, set)]
    cwnd: f64,
    /// The slow-start threshold in packets; infinite until it is set.
    #[pyo3(get, set)]
    ssthresh: f64,
    /// The pacing rate in Mbit/s. With None, TCP computes it from window and RTT.
    #[pyo3(get, set)]
    pacing_mbit: Option<f64>,
    /// The maximum of `cwnd`, in packets.
    #[pyo3(get)]
    clamp: f64,
    /// Set to true to start a reduction of the window, as after an ECN mark.
    #[pyo3(get, set)]
    reduce: bool,
}

#[pymethods]
impl PyWindow {
    /// Whether `cwnd` is below `ssthresh`.
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

macro_rules! events {
    ($($(#[doc = $doc:literal])* $class:ident as $name:literal {
        $($(#[doc = $about:literal])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[doc = $doc])*
        #[pyclass(frozen, get_all, name = $name, module = "narrows._core")]
        pub struct $class {
            $($(#[doc = $about])* $field: $type,)*
        }
    )*};
}

events! {
    /// The connection is established.
    StartEvent as "Start" {
        now_s: f64, srtt_ms: f64, min_rtt_ms: f64, ecn: bool,
    }
    /// Data leaves while no other data is in flight.
    SentEvent as "Sent" {
        now_s: f64, app_limited: bool,
    }
    /// The RTT sample and delivery information of an ACK.
    SampleEvent as "Sample" {
        now_s: f64, rtt_ms: Option<f64>, srtt_ms: f64, acked: u32, delivered: u64, ece: bool,
        state: &'static str,
    }
    /// An ACK, after loss detection has processed it.
    AckEvent as "Ack" {
        now_s: f64, rtt_ms: Option<f64>, srtt_ms: f64, delivered: u32, lost: u32, marked: u32,
        in_flight: u32, may_grow: bool, cwnd_limited: bool, ece: bool, state: &'static str,
        una: u64, nxt: u64, delivery_rate_mbit: Option<f64>, app_limited: bool,
    }
    /// A congestion signal, at most once per round trip; `cause` is the kind of signal.
    LossEvent as "Loss" {
        now_s: f64, cause: &'static str, in_flight: u32,
    }
    /// One packet was marked lost.
    LostPacketEvent as "LostPacket" {
        now_s: f64, in_flight: u32, lost: u64, app_limited: bool,
    }
    /// The retransmission timer fired.
    RtoEvent as "Rto" {
        now_s: f64,
    }
    /// A reduction of the window has ended.
    ReducedEvent as "Reduced" {
        now_s: f64,
    }
    /// The state of loss recovery has changed from `before` to `after`.
    StateChangeEvent as "StateChange" {
        now_s: f64, before: &'static str, after: &'static str,
    }
    /// A reduction of the window was spurious; `prior_cwnd` is the window before it, in packets.
    SpuriousLossEvent as "SpuriousLoss" {
        now_s: f64, prior_cwnd: u32,
    }
}

fn state(of: State) -> &'static str {
    match of {
        State::Open => "open",
        State::Disorder => "disorder",
        State::Cwr => "cwr",
        State::Recovery => "recovery",
        State::Loss => "loss",
    }
}

fn cause(of: Cause) -> &'static str {
    match of {
        Cause::Loss => "loss",
        Cause::Mark => "mark",
        Cause::TailProbe => "tail_probe",
        Cause::Timeout => "timeout",
        Cause::Asked => "requested",
    }
}

/// The event methods that a class defines.
#[derive(Clone, Copy, Default)]
struct Defines {
    start: bool,
    sent: bool,
    sample: bool,
    ack: bool,
    interval: bool,
    loss: bool,
    packet_lost: bool,
    rto: bool,
    reduced: bool,
    state: bool,
    spurious_loss: bool,
    slow_start: bool,
    describe: bool,
}

/// The common part of all instances of a class.
struct Class {
    class: Py<PyAny>,
    file: String,
    defines: Defines,
    paced: bool,
    owns_recovery: bool,
    flight_record: bool,
    send_buffer_windows: u32,
    /// Length of an interval for `on_interval`; zero means the smoothed RTT.
    interval: Span,
    /// The names of state variables and modes that `describe` has returned so far.
    names: Mutex<BTreeSet<&'static str>>,
}

/// Maximum number of names of state variables and modes of a class.
const MOST_NAMES: usize = 200;

impl Class {
    /// The name as a static string; `None` if the class has too many names.
    fn name(&self, name: &str) -> Option<&'static str> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return Some(known);
        }
        if names.len() >= MOST_NAMES {
            return None;
        }
        let new: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.insert(new);
        Some(new)
    }
}

/// The entry of a class in the registry.
pub fn kind(class: &Bound<'_, PyAny>, spec: &Bound<'_, PyDict>, about: &About) -> PyResult<CcKind> {
    let events: Vec<String> = item(spec, "events")?.extract()?;
    let has = |name: &str| events.iter().any(|event| event == name);
    let defines = Defines {
        start: has("on_start"),
        sent: has("on_sent"),
        sample: has("on_sample"),
        ack: has("on_ack"),
        interval: has("on_interval"),
        loss: has("on_loss"),
        packet_lost: has("on_packet_lost"),
        rto: has("on_rto"),
        reduced: has("on_reduced"),
        state: has("on_state"),
        spurious_loss: has("on_spurious_loss"),
        slow_start: has("in_slow_start"),
        describe: has("describe"),
    };
    let interval_s: f64 = item(spec, "interval_s")?.extract()?;
    let family: String = item(spec, "family")?.extract()?;
    let families = [
        Family::Loss,
        Family::Delay,
        Family::Model,
        Family::Switch,
        Family::Learned,
    ];
    let family = families
        .into_iter()
        .find(|known| known.name() == family)
        .ok_or_else(|| PyValueError::new_err(format!("family = {family:?}: no such family")))?;
    let mut needs = Vec::new();
    for word in item(spec, "needs")?.extract::<Vec<String>>()? {
        needs.push(match word.as_str() {
            "ecn_echo" => Need::EcnEcho,
            "ecn_count" => Need::EcnCount,
            "no_sack" => Need::NoSack,
            "pacing" => Need::Pacing,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "needs has {word:?}; write ecn_echo, ecn_count, no_sack or pacing"
                )));
            }
        });
    }
    let shared = Arc::new(Class {
        class: class.clone().unbind(),
        file: item(spec, "file")?.extract()?,
        defines,
        paced: item(spec, "paced")?.extract()?,
        owns_recovery: item(spec, "owns_recovery")?.extract()?,
        flight_record: defines.packet_lost,
        send_buffer_windows: item(spec, "send_buffer_windows")?.extract()?,
        interval: Span::ns((interval_s * 1e9) as u64),
        names: Mutex::default(),
    });
    Ok(CcKind {
        name: about.name,
        help: about.help,
        source: about.source,
        family,
        year: item(spec, "year")?.extract()?,
        needs: needs.leak(),
        default_in: &[],
        params: about.params,
        make: Box::leak(Box::new(move |params: &Params, host: &Host| {
            make(&shared, params, host)
        })),
    })
}

fn make(class: &Arc<Class>, params: &Params, host: &Host) -> Box<dyn CongestionControl> {
    let made = Python::attach(|py| {
        let made = || -> PyResult<PythonCc> {
            let class_object = class.class.bind(py);
            let instance = class_object.call_method1("__new__", (class_object,))?;
            external::set_params(&instance, params)?;
            instance.setattr("seed", host.seed)?;
            instance.call_method0("__init__")?;
            Ok(PythonCc {
                class: Arc::clone(class),
                instance: instance.unbind(),
                window: Py::new(py, PyWindow::of(&Window::new(10), 10.0))?,
                exact: 10.0,
                rtt: None,
                srtt: Span::ZERO,
                rows: Vec::new(),
                next: None,
                described: Mutex::default(),
            })
        };
        made().map_err(|error| external::report(py, &class.file, &error))
    });
    match made {
        Ok(cc) => Box::new(cc),
        Err(()) => Box::new(Failed),
    }
}

/// Replaces an instance that could not be created; the run ends with an error.
struct Failed;

impl CongestionControl for Failed {
    fn on_ack(&mut self, _w: &mut Window, _ev: &Ack) {}
    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(Failed)
    }
}

impl PyWindow {
    fn of(w: &Window, exact: f64) -> PyWindow {
        let infinite = w.ssthresh >= cc::INFINITE_SSTHRESH;
        PyWindow {
            // The fraction of a packet in `exact` is kept until other code changes the window.
            cwnd: if exact as u32 == w.cwnd {
                exact
            } else {
                f64::from(w.cwnd)
            },
            ssthresh: if infinite {
                f64::INFINITY
            } else {
                f64::from(w.ssthresh)
            },
            pacing_mbit: w.pacing.map(Rate::as_mbit),
            clamp: f64::from(w.clamp),
            reduce: false,
        }
    }
    /// Checks the values that the class set, and copies them to the window of the sender.
    fn give(&self, w: &mut Window) -> Result<(), String> {
        let wrong = |name: &str, value: f64, range: &str| {
            Err(format!("window.{name} is {value}; it must be {range}"))
        };
        if !(self.cwnd.is_finite() && self.cwnd >= 1.0) {
            return wrong("cwnd", self.cwnd, "a finite number of packets, at least 1");
        }
        if self.ssthresh.is_nan() || self.ssthresh < 1.0 {
            return wrong("ssthresh", self.ssthresh, "a number of packets, at least 1");
        }
        if let Some(rate) = self.pacing_mbit.filter(|r| !(r.is_finite() && *r >= 1e-6)) {
            return wrong("pacing_mbit", rate, "None or a finite rate above 0");
        }
        w.cwnd = (self.cwnd as u32).min(w.clamp);
        w.ssthresh = (self.ssthresh as u32).min(cc::INFINITE_SSTHRESH);
        w.pacing = self.pacing_mbit.map(|rate| Rate::bit((rate * 1e6) as u64));
        w.reduce |= self.reduce;
        Ok(())
    }
}

/// One ACK of an interval.
struct Row {
    time: f64,
    rtt: f64,
    counts: [i64; 4],
}

/// The result of `describe`: state variables with numbers, and the name of the mode.
#[derive(Default)]
struct Described {
    values: Vec<(&'static str, f64)>,
    mode: Option<&'static str>,
    fresh: bool,
}

/// A congestion control whose events an instance of a Python class handles.
pub struct PythonCc {
    class: Arc<Class>,
    instance: Py<PyAny>,
    window: Py<PyWindow>,
    /// The congestion window in packets, with its fraction.
    exact: f64,
    /// The RTT of the present ACK, and the smoothed RTT.
    rtt: Option<Span>,
    srtt: Span,
    /// The ACKs of the present interval, and the end of this interval.
    rows: Vec<Row>,
    next: Option<Time>,
    described: Mutex<Described>,
}

impl PythonCc {
    /// Calls a method with the window and an event.
    fn call<E: PyClass + Into<PyClassInitializer<E>>>(
        &mut self,
        w: &mut Window,
        method: &'static str,
        event: E,
    ) {
        Python::attach(|py| {
            let event = Py::new(py, event).map(Py::into_any);
            self.pass(py, w, method, event);
        });
    }
    fn pass(
        &mut self,
        py: Python<'_>,
        w: &mut Window,
        method: &'static str,
        event: PyResult<Py<PyAny>>,
    ) {
        *self.window.borrow_mut(py) = PyWindow::of(w, self.exact);
        let called = event.and_then(|event| {
            let name = PyString::intern(py, method);
            self.instance.call_method1(py, name, (&self.window, event))
        });
        if let Err(error) = called {
            return external::report_in(py, &self.class.file, &error, method);
        }
        let window = self.window.borrow(py);
        match window.give(w) {
            Ok(()) => self.exact = window.cwnd,
            Err(problem) => monitor::fail(method, &problem),
        }
    }
    fn rtt_ms(&self) -> Option<f64> {
        self.rtt.map(Span::as_ms)
    }
    /// Adds an ACK to the present interval; at the end of the interval, calls `on_interval`.
    fn collect(&mut self, w: &mut Window, ev: &Ack) {
        self.rows.push(Row {
            time: ev.now.as_s(),
            rtt: self.rtt.map_or(f64::NAN, Span::as_s),
            counts: [
                ev.delivered.into(),
                ev.lost.into(),
                ev.marked.into(),
                ev.in_flight.into(),
            ],
        });
        let length = match self.class.interval {
            Span::ZERO => self.srtt,
            fixed => fixed,
        };
        let Some(end) = self.next else {
            self.next = Some(ev.now + length);
            return;
        };
        if ev.now < end {
            return;
        }
        self.next = Some(ev.now + length);
        let rows = std::mem::take(&mut self.rows);
        Python::attach(|py| {
            let mut bytes = Vec::with_capacity(rows.len() * 48);
            for row in &rows {
                bytes.extend(row.time.to_le_bytes());
                bytes.extend(row.rtt.to_le_bytes());
                row.counts
                    .iter()
                    .for_each(|n| bytes.extend(n.to_le_bytes()));
            }
            let columns = py
                .import("narrows.models.base")
                .and_then(|base| base.call_method1("acks", (PyBytes::new(py, &bytes),)));
            self.pass(py, w, "on_interval", columns.map(Bound::unbind));
        });
    }
    /// Calls the method `describe` of the class, which returns both the state variables and the
    /// mode.
    fn describe_now(&self) -> Described {
        let read = |py: Python<'_>| -> PyResult<Described> {
            let found = self.instance.call_method0(py, "describe")?;
            let found: Bound<'_, PyDict> = found.bind(py).clone().cast_into().map_err(|_| {
                PyValueError::new_err("describe() returns no dict of numbers and words")
            })?;
            let mut described = Described {
                fresh: true,
                ..Described::default()
            };
            for (key, value) in found.iter() {
                let many = || PyValueError::new_err(format!("more than {MOST_NAMES} names"));
                let name = self
                    .class
                    .name(&key.extract::<String>()?)
                    .ok_or_else(many)?;
                match value.extract::<String>() {
                    Ok(word) if name == "mode" => {
                        described.mode = Some(self.class.name(&word).ok_or_else(many)?);
                    }
                    _ => described.values.push((name, value.extract()?)),
                }
            }
            Ok(described)
        };
        Python::attach(|py| {
            read(py).unwrap_or_else(|error| {
                external::report(py, &self.class.file, &error);
                Described::default()
            })
        })
    }
}

impl CongestionControl for PythonCc {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        self.srtt = ev.srtt;
        self.exact = f64::from(w.cwnd);
        if self.class.defines.start {
            let event = StartEvent {
                now_s: ev.now.as_s(),
                srtt_ms: ev.srtt.as_ms(),
                min_rtt_ms: ev.min_rtt.as_ms(),
                ecn: ev.ecn,
            };
            self.call(w, "on_start", event);
        }
    }
    fn on_sent(&mut self, w: &mut Window, ev: &Sent) {
        if self.class.defines.sent {
            let event = SentEvent {
                now_s: ev.now.as_s(),
                app_limited: ev.app_limited,
            };
            self.call(w, "on_sent", event);
        }
    }
    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        self.rtt = ev.rtt;
        self.srtt = Span::ns(ev.srtt8_us * 125);
        if self.class.defines.sample {
            let event = SampleEvent {
                now_s: ev.now.as_s(),
                rtt_ms: self.rtt_ms(),
                srtt_ms: self.srtt.as_ms(),
                acked: ev.acked,
                delivered: ev.delivered,
                ece: ev.ece,
                state: state(ev.state),
            };
            self.call(w, "on_sample", event);
        }
    }
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if self.class.defines.interval {
            self.collect(w, ev);
        }
        if self.class.defines.ack {
            let sample = ev.delivery.as_ref().and_then(|of| of.sample);
            let rate = sample
                .filter(|of| of.interval > Span::ZERO)
                .map(|of| of.delivered as f64 * f64::from(MSS) * 8e-6 / of.interval.as_s());
            let event = AckEvent {
                now_s: ev.now.as_s(),
                rtt_ms: self.rtt_ms(),
                srtt_ms: self.srtt.as_ms(),
                delivered: ev.delivered,
                lost: ev.lost,
                marked: ev.marked,
                in_flight: ev.in_flight,
                may_grow: ev.may_grow,
                cwnd_limited: ev.cwnd_limited,
                ece: ev.ece,
                state: state(ev.state),
                una: ev.una,
                nxt: ev.nxt,
                delivery_rate_mbit: rate,
                app_limited: sample.is_some_and(|of| of.app_limited),
            };
            self.call(w, "on_ack", event);
        }
    }
    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        if self.class.defines.loss {
            let event = LossEvent {
                now_s: ev.now.as_s(),
                cause: cause(ev.cause),
                in_flight: ev.in_flight,
            };
            self.call(w, "on_loss", event);
        } else {
            // RFC 5681.
            w.ssthresh = (w.cwnd / 2).max(2);
        }
    }
    fn on_packet_lost(&mut self, w: &mut Window, ev: &LostPacket) {
        if self.class.defines.packet_lost {
            let event = LostPacketEvent {
                now_s: ev.now.as_s(),
                in_flight: ev.in_flight,
                lost: ev.lost,
                app_limited: ev.app_limited,
            };
            self.call(w, "on_packet_lost", event);
        }
    }
    fn on_rto(&mut self, w: &mut Window, ev: &Rto) {
        if self.class.defines.rto {
            let event = RtoEvent {
                now_s: ev.now.as_s(),
            };
            self.call(w, "on_rto", event);
        }
    }
    fn on_reduced(&mut self, w: &mut Window, ev: &Reduced) {
        if self.class.defines.reduced {
            let event = ReducedEvent {
                now_s: ev.now.as_s(),
            };
            self.call(w, "on_reduced", event);
        }
    }
    fn on_state(&mut self, w: &mut Window, ev: &StateChange) {
        if self.class.defines.state {
            let event = StateChangeEvent {
                now_s: ev.now.as_s(),
                before: state(ev.from),
                after: state(ev.to),
            };
            self.call(w, "on_state", event);
        }
    }
    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        if self.class.defines.spurious_loss {
            let event = SpuriousLossEvent {
                now_s: ev.now.as_s(),
                prior_cwnd: ev.prior_cwnd,
            };
            self.call(w, "on_spurious_loss", event);
        } else {
            w.cwnd = w.cwnd.max(ev.prior_cwnd);
        }
    }
    fn in_slow_start(&self, w: &Window) -> bool {
        if !self.class.defines.slow_start {
            return w.in_slow_start();
        }
        Python::attach(|py| {
            let asked = Py::new(py, PyWindow::of(w, self.exact))
                .and_then(|window| self.instance.call_method1(py, "in_slow_start", (window,)))
                .and_then(|found| found.extract::<bool>(py));
            asked.unwrap_or_else(|error| {
                external::report(py, &self.class.file, &error);
                false
            })
        })
    }
    fn owns_recovery(&self) -> bool {
        self.class.owns_recovery
    }
    fn needs_pacing(&self) -> bool {
        self.class.paced
    }
    fn needs_delivery(&self) -> bool {
        true
    }
    fn needs_flight_record(&self) -> bool {
        self.class.flight_record
    }
    fn send_buffer_windows(&self) -> u32 {
        self.class.send_buffer_windows
    }
    fn mode(&self) -> Option<&'static str> {
        if !self.class.defines.describe {
            return None;
        }
        let now = self.describe_now();
        let mode = now.mode;
        *self
            .described
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = now;
        mode
    }
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        if !self.class.defines.describe {
            return;
        }
        // `mode` is called first and stores the values of the same instant.
        let kept = std::mem::take(
            &mut *self
                .described
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        let now = if kept.fresh {
            kept
        } else {
            self.describe_now()
        };
        now.values
            .iter()
            .for_each(|(name, value)| visit(name, *value));
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        let copied = Python::attach(|py| {
            let copied = || -> PyResult<PythonCc> {
                let copy = py.import("copy")?.getattr("deepcopy")?;
                Ok(PythonCc {
                    class: Arc::clone(&self.class),
                    instance: copy.call1((&self.instance,))?.unbind(),
                    window: Py::new(py, PyWindow::of(&Window::new(10), 10.0))?,
                    exact: self.exact,
                    rtt: self.rtt,
                    srtt: self.srtt,
                    rows: Vec::new(),
                    next: self.next,
                    described: Mutex::default(),
                })
            };
            copied().map_err(|error| external::report(py, &self.class.file, &error))
        });
        match copied {
            Ok(cc) => Box::new(cc),
            Err(()) => Box::new(Failed),
        }
    }
}
