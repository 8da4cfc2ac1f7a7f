//! A run that Python advances step by step.

use crate::error::EngineError;
use crate::external::{self, registry, supervised};
use crate::run::{Run, finished, options, parse, parse_tree};
use narrows_core::units::{Rate, Time, parse_span};
use narrows_sim::{Progress, SimError, Stepping};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A run between two steps; it contains no run after the end.
#[pyclass(frozen, module = "narrows._core")]
pub struct Stepper {
    stepping: Mutex<Option<Stepping>>,
    files: BTreeMap<String, String>,
}

/// Starts a run of a scenario in a TOML text or in nested tables; it is at time zero. `control` is
/// the ID of the controlled flow, by default that of the first flow.
#[pyfunction]
#[pyo3(signature = (scenario, file_name, *, control=None, seed=None, sample_interval=None,
states=false))]
pub fn start_run(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    file_name: &str,
    control: Option<&str>,
    seed: Option<u64>,
    sample_interval: Option<&str>,
    states: bool,
) -> PyResult<Stepper> {
    let (mut scenario, files) = match scenario.cast::<PyMapping>() {
        Ok(tree) => {
            let (_, scenario, files) = parse_tree(tree, BTreeMap::new())?;
            (scenario, files)
        }
        Err(_) => parse(py, &scenario.extract::<String>()?, file_name, true)?,
    };
    scenario.seed = seed.unwrap_or(scenario.seed);
    let ids: Vec<&str> = scenario.flows.iter().map(|flow| flow.id.as_str()).collect();
    let flow = match control {
        None => 0,
        Some(id) => ids.iter().position(|known| *known == id).ok_or_else(|| {
            EngineError::new_err(format!(
                "control = {id:?}: no such flow; write one of {}",
                ids.join(", ")
            ))
        })?,
    };
    let options = options(&scenario, sample_interval, 0, states)?;
    let begin = move |_: &mut dyn FnMut(Progress) -> bool| {
        Stepping::new(scenario, &registry(), options, flow)
    };
    let stepping = act(py, begin)?.map_err(|e| EngineError::new_err(e.to_string()))?;
    Ok(Stepper {
        stepping: Mutex::new(Some(stepping)),
        files,
    })
}

/// Converts a time with its unit to seconds.
#[pyfunction]
pub fn seconds(text: &str) -> PyResult<f64> {
    parse_span(text)
        .map(|span| span.as_s())
        .map_err(|e| EngineError::new_err(format!("{text:?} {}; write {:?}", e.problem, e.fix)))
}

/// Executes a part of a run with `job`, in a supervised thread if models from outside are
/// registered.
fn act<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&mut dyn FnMut(Progress) -> bool) -> T + Send + 'static,
) -> PyResult<T> {
    if external::any() {
        return supervised(py, None, job);
    }
    let mut stopped = None;
    let done = py.detach(|| {
        let mut visit = |_: Progress| {
            let signals = Python::attach(|py| py.check_signals());
            signals.map_err(|error| stopped = Some(error)).is_ok()
        };
        job(&mut visit)
    });
    stopped.map_or(Ok(done), Err)
}

/// The condition that ends a step: a time, or a number of ACKs.
#[derive(Clone, Copy)]
enum Goal {
    At(Time),
    Acks(u64),
}

#[pymethods]
impl Stepper {
    /// Sets the window in packets and the pacing rate in bit/s, if they are given. Then advances
    /// the run to a time in nanoseconds, or by a number of ACKs of the controlled flow. Returns the
    /// state of this flow.
    #[pyo3(signature = (*, until_ns=None, acks=None, cwnd=None, pacing_bit=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        until_ns: Option<u64>,
        acks: Option<u64>,
        cwnd: Option<u32>,
        pacing_bit: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut stepping = self.lock().take().ok_or_else(over)?;
        let goal = match (until_ns, acks) {
            (Some(ns), _) => Goal::At(Time::from_ns(ns)),
            (None, acks) => Goal::Acks(acks.unwrap_or(1)),
        };
        let job = move |visit: &mut dyn FnMut(Progress) -> bool| {
            if cwnd.is_some() || pacing_bit.is_some() {
                stepping.hold(cwnd, pacing_bit.map(Rate::bit));
            }
            let done = match goal {
                Goal::At(until) => stepping.run_until(until, visit),
                Goal::Acks(count) => stepping.run_acks(count, visit),
            };
            done.map(|()| stepping)
        };
        let stepped: Result<Stepping, SimError> = act(py, job)?;
        let mut stepping = stepped.map_err(|e| EngineError::new_err(e.to_string()))?;
        let seen = stepping.observe();
        *self.lock() = Some(stepping);
        let found = PyDict::new(py);
        found.set_item("t_s", seen.now.as_s())?;
        found.set_item("finished", seen.finished)?;
        found.set_item("cwnd", seen.cwnd)?;
        found.set_item("rtt_ms", seen.rtt.map(|rtt| rtt.as_ms()))?;
        found.set_item("srtt_ms", seen.srtt.as_ms())?;
        found.set_item("min_rtt_ms", seen.min_rtt.as_ms())?;
        found.set_item("pacing_mbit", seen.pacing.as_mbit())?;
        found.set_item("in_flight", seen.in_flight)?;
        found.set_item("acks", seen.acks)?;
        found.set_item("delivered", seen.delivered)?;
        found.set_item("lost", seen.lost)?;
        found.set_item("marked", seen.marked)?;
        found.set_item("goodput_mbit", seen.goodput_mbit)?;
        Ok(found)
    }

    /// Time in the run, and its duration, in nanoseconds.
    fn times_ns(&self) -> PyResult<(u64, u64)> {
        let stepping = self.lock();
        let stepping = stepping.as_ref().ok_or_else(over)?;
        Ok((stepping.now().as_ns(), stepping.scenario().duration.as_ns()))
    }

    /// Advances the run to its end, and returns the result.
    fn finish(&self, py: Python<'_>) -> PyResult<Run> {
        let stepping = self.lock().take().ok_or_else(over)?;
        let scenario = stepping.scenario().clone();
        let done = act(py, move |visit| stepping.finish(&registry(), visit))?;
        let done = done.map_err(|e| EngineError::new_err(e.to_string()))?;
        finished(&scenario, self.files.clone(), done, None)
    }
}

impl Stepper {
    fn lock(&self) -> MutexGuard<'_, Option<Stepping>> {
        self.stepping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn over() -> PyErr {
    EngineError::new_err("the run is over; start another one")
}
