//! The engines `live` and `linux`: run a scenario with the kernel's TCP over the emulated network,
//! and return a run as every engine does.

use crate::emulator::application::{self, Applications};
use crate::emulator::capture::Writer;
use crate::emulator::frame::{Frame, Ports};
use crate::emulator::hosts::{
    self, Place, SocketOptions, address, address_of, ends, far, far_hosts, index,
};
use crate::emulator::preflight;
use crate::emulator::probe::{Echoes, Pinging, Probes};
use crate::emulator::self_check::{Conditions, confess};
use crate::emulator::traffic::{Incoming, Outgoing, Told, Traffic, Watching, Writes};
use crate::emulator::{Emulator, Farther, Machine, Queues, Seen, kernel_queue};
use crate::error::HostError;
use crate::netns::Space;
use crate::sys;
use crate::sys::clock::Clock;
use narrows_core::capture::{Capture, INTERFACES};
use narrows_core::engine::{
    Departures, Network, Options, Outcome, Progress, Recorder, Run, access_delays, probe_metrics,
    start,
};
use narrows_core::metrics::{
    FlowMeter, FlowMetrics, FlowSamples, LimitMetrics, NO_CC, ProbeMeter, StateSamples,
    WorkloadMetrics,
};
use narrows_core::net::{FAR, NEAR};
use narrows_core::packet::Ip;
use narrows_core::param::Choice;
use narrows_core::queue::QueueContext;
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::tcp::EcnNegotiation;
use narrows_core::units::{Span, Time};
use narrows_core::workload;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// First TCP and UDP ports of receivers, senders, responders and pingers, with room for
/// [`preflight::MOST_FLOWS`] or [`preflight::MOST_PROBES`] between them.
const RECEIVERS: u16 = 20_000;
const SENDERS: u16 = 30_000;
const ECHOES: u16 = 7_000;
const PINGERS: u16 = 8_000;

/// Time from when all threads are ready to the beginning of the run.
const AHEAD: Span = Span::ms(20);
/// Interval between two checks whether all flows and pings have ended.
const LOOK: Duration = Duration::from_millis(50);

/// Returns whether flows or probes of a scenario use IPv6.
fn six(scenario: &Scenario) -> bool {
    let flows = scenario.flows.iter().map(|flow| flow.ip);
    let mut all = flows.chain(scenario.probes.iter().map(|probe| probe.ip));
    all.any(|ip| ip == Ip::V6)
}

/// The sender of a flow, whose start has the same jitter as in every engine.
fn outgoing(scenario: &Scenario, number: usize, flow: &FlowSpec) -> Outgoing {
    let [from, to] = ends(flow);
    let place = number as u16;
    Outgoing {
        number: number as u32,
        id: flow.id.clone(),
        cc: flow.cc.of_kernel().unwrap_or(&flow.cc.kind).into(),
        from: SocketAddr::new(address_of(flow, from.port, false), SENDERS + place),
        to: SocketAddr::new(
            address_of(flow, to.port, flow.ecn != EcnNegotiation::Off),
            RECEIVERS + place,
        ),
        dscp: flow.dscp,
        start: start(scenario, flow),
        stop: flow.stop.map(|at| Time::ZERO + at),
        restart: flow.restart.map(|at| Time::ZERO + at),
        size: flow.size.map(|n| n.get()),
        options: SocketOptions::of(scenario, flow.sender, flow.ip),
    }
}

/// The parameters of a flow with a workload, with the same seed as in every engine; `None` if the
/// workload is unknown.
fn application(
    scenario: &Scenario,
    places: &[Place],
    number: usize,
    flow: &FlowSpec,
    choice: &Choice,
) -> Option<application::Spec> {
    let kind = workload::find(&choice.kind)?;
    let both = ends(flow);
    let [server, client] = both.map(|end| end.port);
    let place = number as u16;
    let udp = !flow.has_cc();
    let ecn = flow.ecn != EcnNegotiation::Off;
    let at = |port, ecn, first| SocketAddr::new(address_of(flow, port, ecn), first + place);
    let mut seeds = Rng::named(scenario.seed, &format!("workload/{}", flow.id));
    let end = Time::ZERO
        + flow
            .stop
            .unwrap_or(scenario.duration)
            .min(scenario.duration);
    let largest = scenario.datagram_of(flow);
    let (seed, warmup) = (seeds.next_u64(), scenario.warmup);
    let setting = application::Spec::setting(seed, warmup, flow, end, largest);
    Some(application::Spec {
        number: number as u32,
        id: flow.id.clone(),
        workload: (kind.make)(&choice.params, setting),
        udp,
        cc: flow.cc.of_kernel().unwrap_or(&flow.cc.kind).into(),
        hosts: both.map(|end| index(places, end)),
        from: [server, client].map(|port| SocketAddr::new(address_of(flow, port, false), 0)),
        at: [server, client].map(|port| at(port, ecn, RECEIVERS)),
        datagrams: [at(server, false, RECEIVERS), at(client, false, SENDERS)],
        dscp: flow.dscp,
        start: start(scenario, flow),
        end,
        options: both.map(|end| SocketOptions::of(scenario, end.host, flow.ip)),
    })
}

/// The metrics of a flow, including those of its workload, if it has one.
fn flow_metrics(
    meter: FlowMeter,
    spec: &FlowSpec,
    workload: Option<WorkloadMetrics>,
    interval: Span,
) -> FlowMetrics {
    let cc = if spec.has_cc() {
        spec.cc.kind.as_str()
    } else {
        NO_CC
    };
    let mut metrics = meter.metrics(spec.id.clone(), cc.into(), interval);
    if workload.is_some() {
        metrics.limits = LimitMetrics::unknown();
        metrics.workload = workload;
    }
    metrics
}

pub(crate) fn emulator(
    scenario: &Scenario,
    registry: &Registry<Frame>,
    options: &Options,
    machine: Machine,
) -> Result<Emulator, HostError> {
    let mut signals = Vec::new();
    let (network, meters) = match machine {
        Machine::Virtual(Queues::Kernel) => {
            let mtu = kernel_queue::mtu(scenario);
            let mut make = |choice: &Choice, context: &QueueContext| {
                let (queue, signal) = kernel_queue::create(choice, registry, context, mtu)?;
                signals.extend(signal);
                Ok::<_, HostError>(queue)
            };
            Network::with_queues(scenario, registry, Box::new(Frame::station), &mut make)?
        }
        _ => Network::new(scenario, registry, Box::new(Frame::station))?,
    };
    let places = hosts::places(scenario);
    let flows = scenario.flows.iter().map(|flow| {
        let (forward, reverse) = access_delays(scenario, flow);
        Farther {
            ends: ends(flow).map(|end| (end.port, index(&places, end))),
            forward,
            reverse,
        }
    });
    let ports = Ports {
        flows: (RECEIVERS, scenario.flows.len() as u16),
        probes: (ECHOES, scenario.probes.len() as u16),
    };
    let devices = places.iter().map(|place| place.port).collect();
    let mut emulator =
        Emulator::new(scenario, options, network, meters).flows(ports, devices, flows);
    emulator.signals(signals);
    if matches!(machine, Machine::Virtual(_)) {
        emulator.exact();
    }
    Ok(emulator)
}

/// Runs `scenario` with the TCP of this kernel and writes every packet to the file `record`, if
/// given. An error of that file does not end the run; it is the second part of the result.
/// `progress` is called regularly; when it returns `false`, the run stops.
/// [`preflight::gain_privilege`] must have been called.
pub fn run(
    machine: Machine,
    scenario: &Scenario,
    registry: &Registry<Frame>,
    options: &Options,
    record: Option<&FilePath>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Run, Result<(), HostError>), HostError> {
    preflight::check_scenario(machine, scenario, registry, options)?;
    let mut emulator = emulator(scenario, registry, options, machine)?;
    let writer = recorded(&mut emulator, scenario, record, INTERFACES)?;
    let places = hosts::places(scenario);
    let six = six(scenario);
    let made = |place: &Place| Space::new(&hosts::space(scenario, registry, *place, six)?);
    let spaces: Vec<Space> = places.iter().map(made).collect::<Result<_, HostError>>()?;
    let stop = AtomicBool::new(false);
    let parts = Parts {
        scenario,
        places: &places,
        spaces: &spaces,
        stop: &stop,
        interval: options.sample_interval,
        states: options.states,
        machine,
    };
    let end = Time::ZERO + scenario.duration;
    let seen = thread::scope(|scope| {
        let done = parts.go(scope, &mut emulator, &mut |now| {
            progress(Progress {
                now: now.min(end),
                end,
                events: 0,
            })
        });
        // After any error all threads are stopped, so that they can be joined.
        stop.store(true, Ordering::Relaxed);
        done
    });
    let recorded = end_record(&mut emulator, writer);
    let run = parts.told(machine, &emulator, seen?);
    let run = run.with_notices(scenario.kernel_notices(registry, &release()));
    Ok((run, recorded))
}

/// Writes every packet to the file `record`, if given; `ends` name the interfaces at [`NEAR`] and
/// [`FAR`].
pub(crate) fn recorded(
    emulator: &mut Emulator,
    scenario: &Scenario,
    record: Option<&FilePath>,
    ends: [(&str, &str); 2],
) -> Result<Option<Writer>, HostError> {
    let Some(file) = record else { return Ok(None) };
    let (sink, writer) = Writer::create(file)
        .map_err(|e| HostError::Unlike(format!("--record {}: {e}", file.display())))?;
    let capture = Capture::new(&scenario.title, ends, sink);
    emulator.record(Recorder::new(capture, scenario));
    Ok(Some(writer))
}

/// Ends the capture after the last packet. Fails if the file is incomplete.
pub(crate) fn end_record(emulator: &mut Emulator, writer: Option<Writer>) -> Result<(), HostError> {
    let whole = emulator.end_record();
    writer.map_or(Ok(()), |writer| writer.finish(whole))
}

struct Parts<'a> {
    scenario: &'a Scenario,
    places: &'a [Place],
    spaces: &'a [Space],
    stop: &'a AtomicBool,
    interval: Option<Span>,
    states: bool,
    machine: Machine,
}

/// The results of all threads of a run.
struct Answers {
    passed: Seen,
    hosts: Vec<Told>,
    applications: Option<application::Told>,
    probes: Vec<ProbeMeter>,
}

impl<'p> Parts<'p> {
    /// Starts a thread in the namespace of the host with the index `host`. `make` prepares its
    /// sockets; `work` runs from the beginning of the run.
    fn start<'scope, R: 'scope, T: Send + 'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, 'p>,
        host: usize,
        make: impl FnOnce() -> Result<R, HostError> + Send + 'scope,
        work: impl FnOnce(R, Clock) -> Result<T, HostError> + Send + 'scope,
    ) -> Result<Started<'scope, T>, HostError>
    where
        'p: 'scope,
    {
        let space = &self.spaces[host];
        let (tell_ready, ready) = mpsc::channel();
        let (begin, begins) = mpsc::channel::<Clock>();
        let thread = scope.spawn(move || {
            let made = space.enter().and_then(|()| make());
            let made = match made {
                Ok(made) => {
                    let _ = tell_ready.send(None);
                    made
                }
                Err(error) => {
                    let _ = tell_ready.send(Some(error));
                    return Err(HostError::Stopped);
                }
            };
            // If another thread has failed, the run does not begin.
            work(made, begins.recv().map_err(|_| HostError::Stopped)?)
        });
        match ready.recv() {
            Ok(None) => Ok(Started { begin, thread }),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(HostError::Failed(
                "a thread",
                std::io::Error::other("it ended at once"),
            )),
        }
    }

    /// Executes a whole run: starts all threads, waits for their end, and collects their results.
    fn go<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, 'p>,
        emulator: &'scope mut Emulator,
        progress: &mut dyn FnMut(Time) -> bool,
    ) -> Result<Answers, HostError>
    where
        'p: 'scope,
    {
        let (scenario, stop) = (self.scenario, self.stop);
        let watching = Watching {
            warmup: Time::ZERO + scenario.warmup,
            end: Time::ZERO + scenario.duration,
            interval: self.interval,
            states: self.states,
            timeless: self.machine != Machine::Host,
        };
        let mut hosts = Vec::new();
        // Receivers of downloads are prepared before their senders; those of uploads wait for them.
        for (host, place) in self.places.iter().enumerate().rev() {
            let (mut out, mut incoming) = (Vec::new(), Vec::new());
            let bulk = |(_, flow): &(usize, &FlowSpec)| flow.workload.is_none();
            for (number, flow) in scenario.flows.iter().enumerate().filter(bulk) {
                let flow_out = outgoing(scenario, number, flow);
                let [from, to] = ends(flow);
                if from == *place {
                    out.push(flow_out);
                } else if to == *place {
                    incoming.push(Incoming {
                        at: flow_out.to,
                        dscp: flow.dscp,
                        // With ECN at both ends, the listening socket must have the congestion
                        // control before the connection arrives.
                        cc: (flow.ecn == EcnNegotiation::Both).then_some(flow_out.cc),
                        options: SocketOptions::of(scenario, to.host, flow.ip),
                    });
                }
            }
            let listening = incoming
                .iter()
                .filter_map(|flow: &Incoming| flow.cc.clone());
            let mut ccs: Vec<String> = out
                .iter()
                .map(|flow| flow.cc.clone())
                .chain(listening)
                .collect();
            ccs.sort();
            ccs.dedup();
            let options = SocketOptions::of(scenario, place.host, Ip::V4);
            let machine = self.machine;
            hosts.push(self.start(
                scope,
                host,
                move || {
                    preflight::check_flow_ccs(machine, scenario, &ccs)?;
                    options.check()?;
                    Traffic::new(out, incoming, watching)
                },
                move |traffic, clock| traffic.run(clock, stop),
            )?);
        }
        let specs: Vec<application::Spec> = (0..)
            .zip(&scenario.flows)
            .filter_map(|(number, flow)| {
                application(scenario, self.places, number, flow, flow.workload.as_ref()?)
            })
            .collect();
        let mut applications = None;
        if !specs.is_empty() {
            let (spaces, machine) = (self.spaces, self.machine);
            let mut ccs: Vec<String> = specs
                .iter()
                .filter(|spec| !spec.udp)
                .map(|spec| spec.cc.clone())
                .collect();
            ccs.sort();
            ccs.dedup();
            applications = Some(self.start(
                scope,
                usize::from(NEAR),
                move || {
                    preflight::check_flow_ccs(machine, scenario, &ccs)?;
                    Applications::new(specs, spaces, watching)
                },
                move |applications, clock| applications.run(clock, stop),
            )?);
        }
        let pings: Vec<Pinging> = (0..)
            .zip(&scenario.probes)
            .map(|(i, probe)| Pinging {
                departures: Departures::new(
                    probe.interval,
                    probe.spacing,
                    Rng::named(scenario.seed, &format!("probe/{i}")),
                ),
                dscp: probe.dscp,
                from: SocketAddr::new(address(NEAR, 0, probe.ip, false), PINGERS + i),
                to: SocketAddr::new(
                    address(far(probe.station), probe.host, probe.ip, false),
                    ECHOES + i,
                ),
            })
            .collect();
        let mut probes = None;
        if !pings.is_empty() {
            let mut echoes = Vec::new();
            for port in FAR..=far_hosts(scenario) {
                let places = pings.iter().zip(&scenario.probes);
                let here = places.filter(|(_, probe)| far(probe.station) == port);
                let echoed: Vec<Pinging> = here.map(|(ping, _)| ping.clone()).collect();
                if echoed.is_empty() {
                    continue;
                }
                echoes.push(self.start(
                    scope,
                    usize::from(port),
                    move || Echoes::new(&echoed),
                    move |echoes, _| echoes.run(stop),
                )?);
            }
            let end = watching.end;
            let pingers = self.start(
                scope,
                usize::from(NEAR),
                move || Probes::new(&pings),
                move |probes, clock| probes.run(clock, end, stop),
            )?;
            probes = Some((echoes, pingers));
        }

        let clock = Clock::starting_in(AHEAD);
        let devices: Vec<&OwnedFd> = self.spaces.iter().map(|space| &space.device).collect();
        let passing = scope.spawn(move || emulator.run(&devices, clock, stop));
        let hosts: Vec<_> = hosts.into_iter().map(|host| host.begin(clock)).collect();
        let applications = applications.map(|thread| thread.begin(clock));
        let pinging = probes.map(|(echoes, pingers)| {
            let echoes: Vec<_> = echoes
                .into_iter()
                .map(|echoes| echoes.begin(clock))
                .collect();
            (echoes, pingers.begin(clock))
        });
        let busy = || {
            hosts.iter().any(|thread| !thread.is_finished())
                || applications
                    .as_ref()
                    .is_some_and(|thread| !thread.is_finished())
                || pinging
                    .as_ref()
                    .is_some_and(|(_, pingers)| !pingers.is_finished())
        };
        let mut stopped = false;
        while busy() && !passing.is_finished() {
            if sys::stopped() || !progress(clock.now()) {
                stopped = true;
                break;
            }
            thread::sleep(LOOK);
        }
        stop.store(stopped || passing.is_finished(), Ordering::Relaxed);
        let told: Result<Vec<Told>, HostError> = hosts.into_iter().map(joined).collect();
        let applications = applications.map(joined).transpose();
        let pinged = pinging.map(|(echoes, pingers)| (joined(pingers), echoes));
        stop.store(true, Ordering::Relaxed);
        let passed = passing
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("its thread failed")))
            .map_err(HostError::failed("passing packets"));
        let probes = match pinged {
            Some((meters, echoes)) => {
                let echoed: Result<Vec<()>, HostError> = echoes.into_iter().map(joined).collect();
                meters.and_then(|meters| echoed.map(|_| meters))
            }
            None => Ok(Vec::new()),
        };
        if stopped {
            return Err(HostError::Stopped);
        }
        Ok(Answers {
            passed: passed?,
            hosts: told?,
            applications: applications?,
            probes: probes?,
        })
    }

    /// Combines the results of the threads to a run.
    fn told(&self, machine: Machine, emulator: &Emulator, answers: Answers) -> Run {
        let Answers {
            passed,
            hosts,
            applications,
            probes,
        } = answers;
        let scenario = self.scenario;
        let Seen {
            queues,
            used,
            levels,
            mut samples,
            lateness,
            ..
        } = passed;
        let overflow = hosts.iter().map(|host| host.overflow).sum();
        let mut writes = Writes::default();
        for host in &hosts {
            writes.asked += host.writes.asked;
            writes.late += host.writes.late;
        }
        let mut meters: Vec<(u32, FlowMeter, Option<WorkloadMetrics>)> = Vec::new();
        let (mut tables, mut states) = (Vec::new(), Vec::new());
        for host in hosts {
            let bulk = host.meters.into_iter();
            meters.extend(bulk.map(|(number, meter)| (number, meter, None)));
            tables.push(host.samples);
            states.push(host.states);
        }
        if let Some(told) = applications {
            let flows = told.flows.into_iter();
            meters.extend(flows.map(|(number, meter, work)| (number, meter, Some(work))));
            tables.push(told.samples);
        }
        meters.sort_by_key(|(number, _, _)| *number);
        samples.flows = in_order(&tables);
        samples.states = StateSamples::in_order(&states);
        let interval = scenario.duration - scenario.warmup;
        let flows: Vec<_> = meters
            .into_iter()
            .zip(&scenario.flows)
            .map(|((_, meter, work), spec)| flow_metrics(meter, spec, work, interval))
            .collect();
        if self.interval.is_some() {
            samples.delays.push_workloads(&flows);
        }
        let rows = self.interval.map(|_| &mut samples);
        let probes = probe_metrics(scenario, probes.iter(), levels, rows);
        let manner = emulator.manner_of();
        let conditions = Conditions {
            rtt: shortest_rtt(scenario),
            drops: queues.iter().map(|queue| queue.drops).sum(),
            overflow,
            writes,
            qdisc: hosts::qdisc(&scenario.host),
            tick: manner.tick,
            joined: manner.join,
            peaks: scenario
                .flows
                .iter()
                .any(|flow| flow.cc.kind.starts_with("bbr")),
            process_cpu: Span::ns(sys::process_cpu()),
            takes_time: machine == Machine::Host,
            otherwise: otherwise(scenario),
        };
        let outcome = Outcome {
            flows,
            queues,
            used,
            probes,
            samples,
        };
        Run {
            instruments: Some(confess(&lateness, &conditions)),
            ..Run::new(machine.engine(), scenario, outcome)
        }
    }
}

/// The smallest base RTT of a flow; that of the path without flows.
fn shortest_rtt(scenario: &Scenario) -> Span {
    let path = &scenario.path;
    let rtts = scenario.flows.iter().map(|flow| match &flow.route {
        Some(route) => path.rtt_of(route) + flow.rtt,
        None => path.rtt() + flow.rtt,
    });
    rtts.min().unwrap_or(path.rtt())
}

/// The settings of `[host]` that differ in this kernel: key, and the kernel's value.
fn otherwise(scenario: &Scenario) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    let hz = sys::kernel_hz();
    if hz != scenario.host.hz {
        list.push(("hz", hz.to_string()));
    }
    let here = release();
    let rest = scenario.host.like.strip_prefix(&here);
    if !rest.is_some_and(|patch| patch.is_empty() || patch.starts_with('.')) {
        list.push(("like", here));
    }
    list
}

/// The release series of this kernel, as the key `like` names it: `linux-6.18`.
fn release() -> String {
    let release = sys::kernel::release();
    let mut numbers = release.split(['.', '-']).map(str::trim);
    let mut next = || numbers.next().unwrap_or_default();
    format!("linux-{}.{}", next(), next())
}

/// Merges the rows of several tables, sorted by time and flow.
fn in_order(tables: &[FlowSamples]) -> FlowSamples {
    let mut rows: Vec<(f64, u32, usize, usize)> = Vec::new();
    for (table, samples) in tables.iter().enumerate() {
        let keys = samples.t_s.iter().zip(&samples.flow).enumerate();
        rows.extend(keys.map(|(row, (t_s, flow))| (*t_s, *flow, table, row)));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut all = FlowSamples::default();
    for (_, _, table, row) in rows {
        all.push(tables[table].row(row));
    }
    all
}

/// A thread that is prepared and waits for the beginning of the run.
struct Started<'scope, T> {
    begin: mpsc::Sender<Clock>,
    thread: thread::ScopedJoinHandle<'scope, Result<T, HostError>>,
}

impl<'scope, T> Started<'scope, T> {
    fn begin(self, clock: Clock) -> thread::ScopedJoinHandle<'scope, Result<T, HostError>> {
        let _ = self.begin.send(clock);
        self.thread
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T, HostError>>) -> Result<T, HostError> {
    thread.join().unwrap_or_else(|_| {
        Err(HostError::Failed(
            "a thread",
            std::io::Error::other("it failed"),
        ))
    })
}
