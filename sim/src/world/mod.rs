//! A run of a scenario, from construction to metrics.
//!
//! | file | contents |
//! |---|---|
//! | `construction` | the scenario becomes flows, probes, a network and timers |
//! | `event_loop` | the order of events, with lookahead or event by event |
//! | `halves` | the event loop with lookahead on two threads |
//! | `sampling` | metrics and samples at intervals, and at the end of the run |
//! | `stepping` | a run that its caller advances step by step |
//! | `streaming` | a run that its caller advances in slices, with its samples so far |
//!
//! **The end.** At `duration`, every sender stops and the metrics are closed. If pings or datagrams
//! are still in transit, the run continues until they have arrived, for at most [`GRACE`].

mod construction;
mod event_loop;
mod halves;
mod sampling;
mod stepping;
mod streaming;

pub use stepping::{Observation, Stepping};
pub use streaming::Streaming;

use crate::application::Applications;
use crate::datapath::Datapath;
use crate::error::{SimError, check};
use crate::flow::{Driver, Flow};
use crate::lookahead::{Half, Lookahead};
use crate::packet::Packet;
use crate::transport::Transports;
use narrows_core::capture::Capture;
use narrows_core::engine::{Options, Outcome, Progress, Recorder, Run, probe_metrics};
use narrows_core::metrics::{FlowMetrics, LimitMetrics, NO_CC, QueueMeter, Samples};
use narrows_core::registry::Registry;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::units::{Span, Time};

/// Longest time for which a run continues after its end to let pings arrive.
const GRACE: Span = Span::s(2);

/// Runs `scenario`. `progress` is called at intervals of some milliseconds of real time; if it
/// returns `false`, the run stops with [`SimError::Stopped`].
pub fn run(
    scenario: &Scenario,
    registry: &Registry<Packet>,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Run, SimError> {
    run_recorded(scenario, registry, options, None, progress)
}

/// As [`run`], but also writes every packet to a capture. If the sink of the capture fails, the run
/// continues without it; the caller must detect the failure in its sink.
pub fn run_recorded(
    scenario: &Scenario,
    registry: &Registry<Packet>,
    options: &Options,
    capture: Option<Capture>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Run, SimError> {
    check(scenario, options)?;
    let recorder = capture.map(|capture| Box::new(Recorder::new(capture, scenario)));
    let mut world = World::new(scenario, registry, options, recorder, false)?;
    world.datapath.network.network.use_closed_form();
    finish(world, scenario, registry, options, progress)
}

/// Runs `world` to its end, and returns the result.
fn finish(
    mut world: World,
    scenario: &Scenario,
    registry: &Registry<Packet>,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Run, SimError> {
    let threads = 1 + usize::from(world.half.is_some());
    world.run_until(world.end, progress)?;
    world.close();
    let datapath = &mut world.datapath;
    let observer = &mut datapath.observer;
    let used = datapath.network.network.close(&mut observer.queues);
    let mut queues: Vec<_> = observer.queues.iter().map(QueueMeter::metrics).collect();
    let devices = datapath.devices.with_rate();
    queues.extend(devices.map(|device| device.departures.meter.metrics()));
    let sampled = options.sample_interval.is_some();
    if sampled {
        observer.delays(&mut world.samples);
    }
    if observer.packets.pings > 0 {
        world.run_until(world.end + GRACE, progress)?;
    }
    world.transports.fault()?;
    let (datapath, mut samples) = (world.datapath, world.samples);
    let mut observer = datapath.observer;
    if let Some(recorder) = observer.recorder.take() {
        let _whole = recorder.finish();
    }
    samples.verdicts = observer.verdicts;
    let probes = datapath.probes.iter().map(|probe| &probe.meter);
    let probes = probe_metrics(
        scenario,
        probes,
        observer.levels,
        sampled.then_some(&mut samples),
    );
    let named = datapath.flows.into_vec().into_iter().zip(&scenario.flows);
    let flows: Vec<_> = named
        .map(|(flow, spec)| flow_metrics(flow, spec, &world.applications, scenario))
        .collect();
    if sampled {
        samples.delays.push_workloads(&flows);
    }
    let outcome = Outcome {
        flows,
        queues,
        used,
        probes,
        samples,
    };
    let run = Run::new("sim", scenario, outcome).with_notices(scenario.notices(registry));
    Ok(Run { threads, ..run })
}

/// The metrics of a flow, including those of its workload, if it has one.
fn flow_metrics(
    flow: Flow,
    spec: &FlowSpec,
    applications: &Applications,
    scenario: &Scenario,
) -> FlowMetrics {
    let cc = if spec.has_cc() {
        spec.cc_name()
    } else {
        NO_CC.into()
    };
    let stop = spec.stop.unwrap_or(scenario.duration);
    let end = Time::ZERO + stop.min(scenario.duration);
    let driver = flow.driver;
    let interval = scenario.duration - scenario.warmup;
    let mut metrics = flow.meter.metrics(spec.id.clone(), cc, interval);
    if driver != Driver::Tcp {
        metrics.limits = LimitMetrics::unknown();
    }
    if let Driver::Application(number) = driver {
        metrics.workload = Some(applications.metrics(number as usize, end));
    }
    metrics
}

/// A run: endpoints and network, applications, and the next samples.
struct World {
    datapath: Datapath,
    applications: Applications,
    transports: Transports,
    /// The state of lookahead, if it is used.
    lookahead: Option<Box<Lookahead>>,
    /// With two threads: every second flow; all others are in `datapath`.
    half: Option<Box<Half>>,
    end: Time,
    /// Interval of the samples for metrics, and time of the next one.
    metric_interval: Span,
    next_metrics: Time,
    /// Interval of the rows of samples, and time of the next one.
    sample_interval: Span,
    next_samples: Time,
    samples: Samples,
    /// Number of events at the next call of `progress`.
    next_progress: u64,
}
