//! Construction of a run: creates flows, probes, a network and timers from the scenario.

use super::World;
use super::event_loop::PROGRESS_EVENTS;
use crate::application::Applications;
use crate::datapath::{Datapath, Probe};
use crate::device::Devices;
use crate::error::SimError;
use crate::flow::{
    Driver, Flow, Flows, MEASURE, NOT_MEASURED, RESTART, START, STOP, TIMERS_PER_FLOW, shared,
    with_tso,
};
use crate::lookahead::{Half, Lookahead};
use crate::network::SimNetwork;
use crate::observer::{Observer, Packets};
use crate::owners::Owners;
use crate::packet::{Label, Packet};
use crate::prefetch::on_large_pages;
use crate::timers::Timers;
use crate::transport::Transports;
use narrows_core::cc::{self, CcKind};
use narrows_core::engine::{Departures, Options, Recorder, access_delays, sender_port, start};
use narrows_core::metrics::{FlowMeter, ProbeMeter, Samples, StateSamples, metric_interval};
use narrows_core::net::access::AccessLinks;
use narrows_core::param::Params;
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::tcp::{Config, Receiver, Sender};
use narrows_core::units::{Span, Time};
use std::sync::Arc;

impl World {
    /// The run of `scenario` at time zero. `stepped`: the caller may stop it after any event, so
    /// lookahead is not used.
    pub(super) fn new(
        scenario: &Scenario,
        registry: &Registry<Packet>,
        options: &Options,
        recorder: Option<Box<Recorder>>,
        stepped: bool,
    ) -> Result<World, SimError> {
        let (network, queues) = SimNetwork::new(scenario, registry)?;
        let timers_of_flows = scenario.flows.len() as u32 * TIMERS_PER_FLOW;
        let first_timer = timers_of_flows + scenario.probes.len() as u32;
        let mut timers = Timers::new(scenario.flows.len(), scenario.probes.len());
        let mut applications = Applications::new(first_timer);
        let mut transports = Transports::default();
        let mut owners = Owners::default();
        let mut access = AccessLinks::default();
        let mut flows = on_large_pages(scenario.flows.len());
        let mut configs = Vec::new();
        for (spec, id) in scenario.flows.iter().zip(0..) {
            let kind = match &spec.transport {
                // The sender and receiver of this flow are unused.
                Some(_) => registry.ccs().first(),
                None => registry.cc(&spec.cc.kind),
            };
            let kind = kind.ok_or_else(|| SimError::UnknownCc(spec.cc.kind.clone()))?;
            let mut flow = flow(scenario, spec, kind, &mut configs, &mut access);
            flow.driver = if let Some(name) = &spec.transport {
                let kind = registry
                    .transport(name)
                    .ok_or_else(|| SimError::UnknownTransport(name.clone()))?;
                Driver::Transport(transports.add(scenario, id, kind, &mut owners)?)
            } else {
                let number = applications.add(scenario, id, kind, &mut owners)?;
                number.map_or(Driver::Tcp, |number| Driver::Application(number as u32))
            };
            set_timers(scenario, spec, id, &mut flow, &mut timers);
            flows.push(flow);
        }
        let mut probes = Vec::new();
        for (spec, number) in scenario.probes.iter().zip(timers_of_flows..) {
            let rng = Rng::named(scenario.seed, &format!("probe/{}", probes.len()));
            let mut departures = Departures::new(spec.interval, spec.spacing, rng);
            let first = departures.next_ping();
            timers.set(
                number,
                Some(first).filter(|at| *at < Time::ZERO + scenario.duration),
            );
            probes.push(Probe {
                meter: ProbeMeter::new(),
                departures,
                label: Label::new(spec.dscp, spec.host, scenario.path.nat, spec.ip),
            });
        }
        applications.reserve(&mut timers);
        timers.sort_fixed();
        let packets = Packets::new(scenario, owners);
        let mut observer = Observer::new(scenario, queues, options, packets);
        observer.recorder = recorder;
        let mut datapath = Datapath {
            flows: Flows::new(flows),
            probes,
            devices: Devices::new(scenario, registry)?,
            offload: scenario.path.offload,
            network,
            access,
            observer,
            timers,
            events: 0,
        };
        let mut lookahead = if applications.is_empty() && transports.is_empty() && !stepped {
            Lookahead::new(&mut datapath).map(Box::new)
        } else {
            None
        };
        let half = lookahead.as_mut().filter(|_| options.threads > 1);
        let half = half.and_then(|lookahead| {
            let packets = Packets::new(scenario, Owners::default());
            let observer = Observer::new(scenario, Vec::new(), options, packets);
            Half::divide(&mut datapath, lookahead, observer).map(Box::new)
        });
        let metric_interval = metric_interval(scenario.duration);
        let sample_interval = options.sample_interval;
        Ok(World {
            datapath,
            applications,
            transports,
            lookahead,
            half,
            end: Time::ZERO + scenario.duration,
            metric_interval,
            next_metrics: Time::ZERO + metric_interval,
            sample_interval: sample_interval.unwrap_or(Span::ZERO),
            next_samples: sample_interval.map_or(Time::MAX, |interval| Time::ZERO + interval),
            samples: Samples {
                states: StateSamples::keep(options.states),
                ..Samples::default()
            },
            next_progress: PROGRESS_EVENTS,
        })
    }
}

/// A flow with its own endpoints; its timers are not set yet.
fn flow(
    scenario: &Scenario,
    spec: &FlowSpec,
    kind: &CcKind,
    configs: &mut Vec<Arc<Config>>,
    access: &mut AccessLinks<Packet>,
) -> Flow {
    let (seed, host) = (scenario.seed, scenario.sender_of(spec));
    let [own, other] = scenario.ends_of(spec);
    let cc_host = cc::Host {
        hz: host.hz,
        kernel: own.kernel,
        gso: own.gso,
        mss: own.options(false).mss(),
        ip: own.ip,
        seed: Rng::named(seed, &format!("cc/{}", spec.id)).next_u64(),
    };
    let unused;
    let params = if spec.transport.is_some() {
        unused = Params::defaults(kind.params);
        &unused
    } else {
        &spec.cc.params
    };
    let sender = Sender::new(
        shared(configs, with_tso(own.under(kind.signals(), spec.ecn))),
        (kind.make)(params, &cc_host),
        spec.size,
    );
    let receiver = Receiver::new(&other.facing(kind.signals(), spec.ecn)).reading(
        scenario.receiver_of(spec).read_latency,
        Rng::named(seed, &format!("reader/{}", spec.id)),
    );
    let (forward, reverse) = access_delays(scenario, spec);
    Flow {
        sender,
        access_forward: access.link(forward).into(),
        access_reverse: access.link(reverse).into(),
        port: sender_port(spec),
        label: Label::new(spec.dscp, spec.host, scenario.path.nat, spec.ip),
        transfer: spec.size.is_some(),
        restarts: spec.restart.is_some(),
        driver: Driver::Tcp,
        receiver,
        received_before: NOT_MEASURED,
        meter: Box::new(FlowMeter::new()),
    }
}

/// Sets the timers of flow `id` that are known before the run.
fn set_timers(scenario: &Scenario, spec: &FlowSpec, id: u32, flow: &mut Flow, timers: &mut Timers) {
    let start = start(scenario, spec);
    let stop = spec.stop.map(|stop| Time::ZERO + stop);
    let restart = spec.restart.map(|restart| Time::ZERO + restart);
    if let (Some(stop), Some(restart)) = (stop, restart) {
        flow.meter.silent(stop, restart);
    }
    let measure = start.max(Time::ZERO + scenario.warmup);
    // Jitter may have moved the start behind the stop.
    let starts = restart.is_some() || stop.is_none_or(|stop| start <= stop);
    let number = id * TIMERS_PER_FLOW;
    let at = [
        (START, starts.then_some(start)),
        (STOP, stop),
        (RESTART, restart),
        (MEASURE, Some(measure)),
    ];
    for (timer, at) in at {
        if let Some(at) = at {
            timers.fix(number + timer, at);
        }
    }
}
