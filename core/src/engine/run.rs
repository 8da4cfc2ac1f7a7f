//! The result of a run, and its JSON document.

use super::rows::{Cell, Transfer, rows};
use crate::metrics::{
    Empty, Fairness, FlowMetrics, LevelMeter, PathMetrics, ProbeMeter, ProbeMetrics, QueueMetrics,
    Samples, StationMetrics, TransferSamples,
};
use crate::net::wifi::Usage;
use crate::scenario::{Direction, FORMAT, Scenario};
use crate::units::{Rate, Span, Time};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::{Value, json};

/// The result of one scenario on one engine.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name of the engine, such as `"sim"` or `"live"`.
    pub engine: &'static str,
    /// The scenario of the run.
    pub scenario: Scenario,
    /// The seed of every random choice.
    pub seed: u64,
    /// The metrics of each flow, in the order of the scenario.
    pub flows: Vec<FlowMetrics>,
    /// The metrics of the queue of the bottleneck, the hop with the lowest rate on the forward
    /// path.
    pub queue: QueueMetrics,
    /// The metrics of the queue of every hop, by the number of the hop.
    pub queues: Vec<QueueMetrics>,
    /// The metrics of each Wi-Fi station, in the order of the scenario.
    pub stations: Vec<StationMetrics>,
    /// The metrics of each probe, in the order of the scenario.
    pub probes: Vec<ProbeMetrics>,
    /// Fairness among the flows.
    pub fairness: Fairness,
    /// The samples over time.
    pub samples: Samples,
    /// Warnings about keys of the scenario that its author may not intend ([`Scenario::notices`]),
    /// and about flows that timed out.
    pub notices: Vec<String>,
    /// The measured timing errors of an engine that uses a real clock; `None` from an engine in
    /// virtual time, which has no timing error.
    pub instruments: Option<Value>,
    /// Number of threads that handled the flows. Results do not depend on it.
    pub threads: usize,
}

/// A run as it is written; the keys of the file have this order.
#[derive(Serialize)]
struct Document<'a> {
    narrows: &'a str,
    engine: &'a str,
    seed: u64,
    scenario: &'a Value,
    path: PathMetrics,
    flows: &'a [FlowMetrics],
    queue: &'a QueueMetrics,
    queues: &'a [QueueMetrics],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stations: &'a [StationMetrics],
    probes: &'a [ProbeMetrics],
    fairness: &'a Fairness,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    instruments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<&'a Value>,
}

/// The metrics that an engine has collected, by part of the run.
pub struct Outcome {
    /// The metrics of each flow, in the order of the scenario.
    pub flows: Vec<FlowMetrics>,
    /// The metrics of the queue of every hop, by the number of the hop, then those of queues that
    /// only the engine has.
    pub queues: Vec<QueueMetrics>,
    /// The airtime of each Wi-Fi station.
    pub used: Vec<Usage>,
    /// The metrics of each probe, in the order of the scenario.
    pub probes: Vec<ProbeMetrics>,
    /// The samples over time.
    pub samples: Samples,
}

/// The notice about flows whose senders ended their connections; `None` if there are none.
fn ended(flows: &[FlowMetrics]) -> Option<String> {
    const WHY: &str = "because nothing was acknowledged for too long (ETIMEDOUT)";
    let mut list = flows
        .iter()
        .filter_map(|flow| Some((flow.timed_out_s?, flow.id.as_str())));
    let (first_s, id) = list.next()?;
    let rest: Vec<f64> = list.map(|(at_s, _)| at_s).collect();
    if rest.is_empty() {
        return Some(format!(
            "flow {id}: its sender ended the connection at {first_s:.3} s, {WHY}."
        ));
    }
    let least_s = rest.iter().copied().fold(first_s, f64::min);
    let most_s = rest.iter().copied().fold(first_s, f64::max);
    Some(format!(
        "{} flows, {id} the first of them: their senders ended the connections at {least_s:.3} to \
         {most_s:.3} s, {WHY}.",
        rest.len() + 1
    ))
}

impl Run {
    /// Returns the run with the notices of its scenario, and one about flows that timed out.
    pub fn with_notices(self, mut notices: Vec<String>) -> Run {
        notices.extend(ended(&self.flows));
        Run { notices, ..self }
    }
    /// Creates the run of `scenario` by `engine`, without notices and timing errors.
    pub fn new(engine: &'static str, scenario: &Scenario, outcome: Outcome) -> Run {
        let Outcome {
            mut flows,
            queues,
            used,
            probes,
            mut samples,
        } = outcome;
        samples.transfers = transfers(scenario, &flows);
        name_routes(scenario, &mut flows);
        Run {
            engine,
            scenario: scenario.clone(),
            seed: scenario.seed,
            fairness: Fairness::of(&flows, |i| scenario.flows[i].direction == Direction::Up),
            queue: queues[scenario.bottleneck()].clone(),
            stations: station_metrics(scenario, &used, &queues, &flows),
            flows,
            queues,
            probes,
            samples,
            notices: Vec::new(),
            instruments: None,
            threads: 1,
        }
    }
    /// Returns the run in JSON, without the samples. The caller passes the version of `narrows`,
    /// the `scenario` as written, and the `provenance`. The same seed gives the same document,
    /// except for `provenance`.
    pub fn to_json(&self, narrows: &str, scenario: &Value, provenance: Option<&Value>) -> String {
        let document = Document {
            narrows,
            engine: self.engine,
            seed: self.seed,
            scenario,
            path: path_metrics(&self.scenario),
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
        // Writing to memory fails only if a key is not text; every key is.
        serde_json::to_string(&document).unwrap_or_default()
    }
    /// Calls `visit` for each value of the rows of the run ([`rows`]). Returns the number of rows.
    /// The caller passes the version of `narrows`.
    pub fn rows(mut self, narrows: &str, visit: impl FnMut(usize, usize, Cell<'_>)) -> usize {
        let done = &self.samples.transfers;
        let times = done.flow.iter().zip(&done.fct_s).zip(&done.slowdown);
        let transfers: Vec<Transfer> = times
            .filter(|((_, fct_s), _)| !fct_s.is_nan())
            .map(|((flow, fct_s), slowdown)| Transfer {
                flow: *flow as usize,
                fct_s: *fct_s,
                slowdown: *slowdown,
            })
            .collect();
        // Rows do not contain the parts of the document that are left out here.
        self.flows
            .iter_mut()
            .for_each(|flow| flow.series = Vec::new());
        let scenario = json!({"format": FORMAT, "host": {"like": self.scenario.host.like}});
        let document = serde_json::to_value(Document {
            narrows,
            engine: self.engine,
            seed: self.seed,
            scenario: &scenario,
            path: path_metrics(&self.scenario),
            flows: &self.flows,
            queue: &self.queue,
            queues: &[],
            stations: &[],
            probes: &self.probes,
            fairness: &self.fairness,
            notices: &[],
            instruments: self.instruments.as_ref(),
            provenance: None,
        });
        rows(&document.unwrap_or_default(), &transfers, visit)
    }
}

/// Writes the names of the links of each flow's route into its metrics.
fn name_routes(scenario: &Scenario, flows: &mut [FlowMetrics]) {
    let Some(links) = &scenario.path.links else {
        return;
    };
    let name = |link: &u8| links.links[usize::from(*link)].name.clone();
    for (flow, spec) in flows.iter_mut().zip(&scenario.flows) {
        if let Some(route) = &spec.route {
            flow.route = route.forward.iter().map(name).collect();
            flow.route_back = route.back.iter().map(name).collect();
        }
    }
}

/// Returns the metrics of a scenario's path.
pub fn path_metrics(scenario: &Scenario) -> PathMetrics {
    let (path, wifi) = (&scenario.path, scenario.wifi.as_ref());
    let interval = (Time::ZERO + scenario.warmup, Time::ZERO + scenario.duration);
    let rtts = scenario.flows.iter().map(|flow| {
        let station = wifi.and_then(|wifi| wifi.stations.get(usize::from(flow.station?)));
        let wan = wifi.and_then(|wifi| wifi.wan.as_deref());
        let before = wan.map_or(Span::ZERO, |path| path.rtt());
        station.map_or_else(
            || scenario.rtt_of(flow),
            |station| before + station.rtt + flow.rtt,
        )
    });
    let air = wifi.filter(|wifi| wifi.narrower().is_none());
    PathMetrics::of(path, air.map(|wifi| wifi.limits.duration), interval, rtts)
}

/// Returns the transfers of a scenario's flows. The slowdown of a transfer is its completion time
/// divided by that on an empty path. The slowdown is unknown on Wi-Fi, where the rate depends on
/// the station.
fn transfers(scenario: &Scenario, flows: &[FlowMetrics]) -> TransferSamples {
    let path = path_metrics(scenario);
    let mut rows = TransferSamples::default();
    for ((number, flow), spec) in (0..).zip(flows).zip(&scenario.flows) {
        let empty = |round_trips| Empty {
            round_trips,
            rtt_s: scenario.rtt_of(spec).as_s(),
            rate_mbit: match (spec.direction, &spec.route) {
                _ if scenario.wifi.is_some() => f64::NAN,
                (direction, Some(route)) => {
                    let down = direction == Direction::Down;
                    let links = if down { &route.forward } else { &route.back };
                    let rate = scenario.path.rate_over(links);
                    rate.map_or(f64::INFINITY, Rate::as_mbit)
                }
                (Direction::Down, None) => path.rate_mbit,
                (Direction::Up, None) => path.reverse_mbit.unwrap_or(f64::INFINITY),
            },
            ip: spec.ip,
        };
        if let Some(size) = spec.size {
            let at = super::start(scenario, spec).as_s();
            rows.push(at, number, size.get(), flow.fct_s, &empty(2.0));
        }
        for (at, bytes, fct_s) in flow.workload.iter().flat_map(|work| &work.transfers) {
            rows.push(*at, number, *bytes, *fct_s, &empty(1.5));
        }
    }
    rows
}

/// Returns the metrics of every station of a scenario; empty without Wi-Fi. `used` is the airtime
/// of the stations. `levels` are the metrics of the Wi-Fi queues, with stations as classes. `flows`
/// are the metrics of the scenario's flows.
fn station_metrics(
    scenario: &Scenario,
    used: &[Usage],
    levels: &[QueueMetrics],
    flows: &[FlowMetrics],
) -> Vec<StationMetrics> {
    let Some(wifi) = &scenario.wifi else {
        return Vec::new();
    };
    let mut goodput = alloc::vec![0.0; wifi.stations.len()];
    let measured = flows.iter().zip(&scenario.flows);
    for (flow, spec) in measured.filter(|(flow, _)| flow.goodput_mbit.is_finite()) {
        goodput[usize::from(spec.station.unwrap_or(0))] += flow.goodput_mbit;
    }
    let time = scenario.duration - scenario.warmup;
    StationMetrics::of(wifi, time, used, levels, &goodput)
}

/// Returns the metrics of a scenario's probes. `levels` meter the Wi-Fi queues in which the pings
/// of the probes waited. If `samples` is given, a row for each ping and the distribution of each
/// probe's RTTs are added to them.
pub fn probe_metrics<'a>(
    scenario: &Scenario,
    meters: impl Iterator<Item = &'a ProbeMeter>,
    levels: Vec<LevelMeter>,
    mut samples: Option<&mut Samples>,
) -> Vec<ProbeMetrics> {
    let warmup = Time::ZERO + scenario.warmup;
    let mut levels = levels.into_iter();
    let mut metrics = Vec::new();
    for ((number, meter), spec) in (0_u32..).zip(meters).zip(&scenario.probes) {
        let waited = scenario.wifi.as_ref().zip(levels.next());
        metrics.push(ProbeMetrics {
            delay_ms: waited.map(|(wifi, levels)| levels.metrics(wifi.stack)),
            ..meter.metrics(spec.kind.name(), warmup)
        });
        if let Some(samples) = &mut samples {
            meter.samples(number, &mut samples.pings);
            meter.delays(number, warmup, &mut samples.delays);
        }
    }
    metrics
}
