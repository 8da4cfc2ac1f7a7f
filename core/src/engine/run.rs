//! The result of a run, and its JSON document.

use crate::figures::{Fairness, FlowFigures, PathFigures, ProbeFigures, QueueFigures, Samples, StationFigures};
use crate::net::wifi::Usage;
use crate::scenario::Scenario;
use crate::units::Time;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::Value;

/// One scenario run by one engine.
#[derive(Clone, Debug)]
pub struct Run {
    /// `"sim"`, `"live"` …
    pub engine: &'static str,
    /// What was run.
    pub scenario: Scenario,
    /// Of every random choice.
    pub seed: u64,
    /// Per flow, in the scenario's order.
    pub flows: Vec<FlowFigures>,
    /// Of the bottleneck: the narrowest hop on the way there.
    pub queue: QueueFigures,
    /// Of every hop, by its number.
    pub queues: Vec<QueueFigures>,
    /// Per station of a Wi-Fi, in the scenario's order.
    pub stations: Vec<StationFigures>,
    /// Per probe, in the scenario's order.
    pub probes: Vec<ProbeFigures>,
    /// Over the flows.
    pub fairness: Fairness,
    /// Columns over time.
    pub samples: Samples,
    /// What the scenario says that its writer may not mean ([`Scenario::notices`]).
    pub notices: Vec<String>,
    /// What an engine with a clock says of its own error; `None` from one in virtual time, which has none.
    pub instruments: Option<Value>,
}

/// A run as it is written; the order of the keys is that of the file.
#[derive(Serialize)]
struct Document<'a> {
    narrows: &'a str,
    engine: &'a str,
    seed: u64,
    scenario: &'a Value,
    path: PathFigures,
    flows: &'a [FlowFigures],
    queue: &'a QueueFigures,
    queues: &'a [QueueFigures],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stations: &'a [StationFigures],
    probes: &'a [ProbeFigures],
    fairness: &'a Fairness,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    instruments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<&'a Value>,
}

impl Run {
    /// The run in JSON, without the samples. The caller knows the version of `narrows`, how a `scenario` is written, and
    /// the `provenance`, the only key that is not the same for the same seed.
    pub fn to_json(&self, narrows: &str, scenario: &Value, provenance: Option<&Value>) -> String {
        let document = Document {
            narrows,
            engine: self.engine,
            seed: self.seed,
            scenario,
            path: path_figures(&self.scenario),
            flows: &self.flows,
            queue: &self.queue,
            queues: &self.queues,
            stations: &self.stations,
            probes: &self.probes,
            fairness: &self.fairness,
            notices: &self.notices,
            instruments: self.instruments.as_ref(),
            provenance,
        };
        // Writing to memory fails only for keys that are not text, and there are none.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// The path of a scenario in numbers.
pub fn path_figures(scenario: &Scenario) -> PathFigures {
    let (path, wifi) = (&scenario.path, scenario.wifi.as_ref());
    let interval = (Time::ZERO + scenario.warmup, Time::ZERO + scenario.duration);
    let rtts = scenario.flows.iter().map(|flow| {
        let station = wifi.and_then(|wifi| wifi.stations.get(usize::from(flow.station?)));
        station.map_or(path.rtt(), |station| station.rtt) + flow.rtt
    });
    PathFigures::of(path, wifi.is_some(), interval, rtts)
}

/// The figures of every station of a scenario; none without a Wi-Fi. `used` is what each had of the medium, `levels` the
/// figures of the levels with the stations as their classes, `flows` the figures of the scenario's flows.
pub fn station_figures(
    scenario: &Scenario,
    used: &[Usage],
    levels: &[QueueFigures],
    flows: &[FlowFigures],
) -> Vec<StationFigures> {
    let Some(wifi) = &scenario.wifi else {
        return Vec::new();
    };
    let mut goodput = alloc::vec![0.0; wifi.stations.len()];
    let measured = flows.iter().zip(&scenario.flows);
    for (flow, spec) in measured.filter(|(flow, _)| flow.goodput_mbit.is_finite()) {
        goodput[usize::from(spec.station.unwrap_or(0))] += flow.goodput_mbit;
    }
    let time = scenario.duration - scenario.warmup;
    StationFigures::of(wifi, time, used, levels, &goodput)
}
