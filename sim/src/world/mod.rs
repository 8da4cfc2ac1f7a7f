//! The engine.
//!
//! **Order of events.** Time first. At one instant: the network (its own order is in
//! [`narrows_core::net::path`]), then what comes out of the lines to receivers farther away
//! ([`narrows_core::net::access`]), then timers by number, then the samplers; after each of them
//! the order begins anew, so what a timer sends at once is dealt with before the next timer. Per
//! flow the numbers are start, stop, restart, begin of the summary, sender, receiver; probes
//! follow. Where nobody could see the difference the two ends [take turns](self::turns) instead.
//!
//! **The end.** At `duration` every sender stops and the figures are closed. Only when pings are
//! still under way does the world go on, up to [`GRACE`], for the sake of their answers.

mod ends;
mod turns;

use crate::error::{SimError, check};
use crate::flow::{Flow, shared};
use crate::network::SimNetwork;
use crate::nic::{Device, Nic};
use crate::owners::{Owners, is_works};
use crate::packet::{Kind, Label, Packet};
use crate::packets::{Observer, Packets};
use crate::prefetch::{load, on_large_pages, prefetch};
use crate::timers::Timers;
use crate::work::{Net, Works};
use narrows_core::capture::Capture;
use narrows_core::cc;
use narrows_core::engine::{
    Options, Outcome, Progress, Recorder, Run, access_delays, probe_figures, sender_port, start,
};
use narrows_core::figures::{
    FlowMeter, ProbeMeter, QueueMeter, SERIES_INTERVAL, Samples, StateSamples, Verdict,
    figure_interval,
};
use narrows_core::net::access::Access;
use narrows_core::net::{FAR, NEAR};
use narrows_core::prefetch::Prefetch as _;
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Direction, Scenario};
use narrows_core::tcp::{Config, Receiver, Sender};
use narrows_core::units::{Span, Time};
use std::sync::Arc;
use turns::Turns;

/// How long answers to pings are awaited after the end.
const GRACE: Span = Span::s(2);
/// Events from one call of the progress callback to the next: a few milliseconds.
const PROGRESS_EVENTS: u64 = 1 << 16;

/// Timers of a flow, in the order in which they fire at one instant.
const START: u32 = 0;
const STOP: u32 = 1;
const RESTART: u32 = 2;
const MEASURE: u32 = 3;
pub(crate) const SENDER: u32 = 4;
pub(crate) const RECEIVER: u32 = 5;
pub(crate) const TIMERS_PER_FLOW: u32 = 6;

/// So many flows are more than the caches next to a core hold.
const MANY_FLOWS: usize = 256;

/// Runs `scenario`. `progress` is called every so many events; when it answers `false` the run
/// stops.
pub fn run(
    scenario: &Scenario,
    registry: &Registry<Packet>,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Run, SimError> {
    run_recorded(scenario, registry, options, None, progress)
}

/// [`run`], with every packet told to a capture. Where its sink takes no more, the run goes on
/// without it: whoever made the sink knows of it.
pub fn run_recorded(
    scenario: &Scenario,
    registry: &Registry<Packet>,
    options: &Options,
    capture: Option<Capture>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Run, SimError> {
    check(scenario, options)?;
    let mut world = World::new(scenario, registry, options)?;
    world.observer.recorder = capture.map(|capture| Box::new(Recorder::new(capture, scenario)));
    world.take_turns();
    world.run_until(world.end, progress)?;
    world.close();
    let used = world.network.network.close(&mut world.observer.queues);
    let mut queues: Vec<_> = world
        .observer
        .queues
        .iter()
        .map(QueueMeter::figures)
        .collect();
    let device = world.device.as_ref().filter(|device| !device.free);
    queues.extend(device.map(|device| device.departures.meter.figures()));
    let sampled = options.sample_interval.is_some();
    if sampled {
        world.observer.delays(&mut world.samples);
    }
    if world.observer.packets.pings > 0 {
        world.run_until(world.end + GRACE, progress)?;
    }
    if let Some(recorder) = world.observer.recorder.take() {
        let _whole = recorder.finish();
    }
    let mut samples = world.samples;
    samples.verdicts = world.observer.verdicts;
    let probes = world.probes.iter().map(|probe| &probe.meter);
    let probes = probe_figures(
        scenario,
        probes,
        world.observer.levels,
        sampled.then_some(&mut samples),
    );
    let named = world.flows.into_iter().zip(&scenario.flows);
    let flows: Vec<_> = named
        .map(|(f, spec)| f.figures(spec, &world.works, scenario))
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
    Ok(Run {
        notices: scenario.notices(registry),
        ..Run::new("sim", scenario, outcome)
    })
}

/// One probe.
pub(crate) struct Probe {
    pub meter: ProbeMeter,
    interval: Span,
    label: Label,
}

pub(crate) struct World {
    pub network: SimNetwork,
    pub access: Access<Packet>,
    pub offload: bool,
    /// The sender's own, where it has a rate or paces.
    pub device: Option<Box<Device>>,
    pub observer: Observer,
    pub flows: Vec<Flow>,
    pub works: Works,
    pub probes: Vec<Probe>,
    pub timers: Timers,
    /// Where the two ends are run in turns.
    pub turns: Option<Box<Turns>>,
    pub end: Time,
    figure_interval: Span,
    pub(crate) next_figures: Time,
    pub next_samples: Time,
    /// From one row of samples to the next.
    interval: Span,
    samples: Samples,
    pub events: u64,
    next_progress: u64,
}

impl World {
    fn new(
        scenario: &Scenario,
        registry: &Registry<Packet>,
        options: &Options,
    ) -> Result<World, SimError> {
        let seed = scenario.seed;
        let warmup = Time::ZERO + scenario.warmup;
        let (network, queues) = SimNetwork::new(scenario, registry)?;

        let host = &scenario.host;
        let (config, far_config) = (host.config(), host.far_config());
        let mut access = Access::default();
        let mut timers =
            Timers::new(scenario.flows.len() * TIMERS_PER_FLOW as usize + scenario.probes.len());
        let mut flows = on_large_pages(scenario.flows.len());
        let mut works = Works::new(
            (scenario.flows.len() * TIMERS_PER_FLOW as usize + scenario.probes.len()) as u32,
        );
        let mut owners = Owners::default();
        let mut configs: Vec<Arc<Config>> = Vec::new();
        for (i, spec) in scenario.flows.iter().enumerate() {
            let kind = registry
                .cc(&spec.cc.kind)
                .ok_or_else(|| SimError::UnknownCc(spec.cc.kind.clone()))?;
            let work = works.add(scenario, i as u32, kind, &mut owners)?;
            let law = cc::Host {
                hz: host.hz,
                kernel: config.kernel,
                gso: config.gso,
                seed: Rng::named(seed, &format!("cc/{}", spec.id)).next_u64(),
            };
            let own = match spec.direction {
                Direction::Down => &config,
                Direction::Up => &far_config,
            };
            let sender = Sender::new(
                shared(&mut configs, own.under(kind.signals(), spec.ecn)),
                (kind.make)(&spec.cc.params, &law),
                spec.size,
            );
            let mut meter = Box::new(FlowMeter::new(warmup, Time::ZERO + scenario.duration));
            let start = start(scenario, spec);
            let number = i as u32 * TIMERS_PER_FLOW;
            timers.set(number + START, Some(start));
            timers.set(number + STOP, spec.stop.map(|stop| Time::ZERO + stop));
            timers.set(
                number + RESTART,
                spec.restart.map(|restart| Time::ZERO + restart),
            );
            if let (Some(stop), Some(restart)) = (spec.stop, spec.restart) {
                meter.silent(Time::ZERO + stop, Time::ZERO + restart);
            }
            timers.set(number + MEASURE, Some(meter.measure_from(start)));
            let (there, back) = access_delays(scenario, spec);
            flows.push(Flow {
                sender,
                receiver: Receiver::new(&config.facing(kind.signals(), spec.ecn)).reading(
                    host.read_latency,
                    Rng::named(seed, &format!("reader/{}", spec.id)),
                ),
                received_before: None,
                meter,
                port: sender_port(spec),
                label: Label::new(spec.dscp, spec.host, scenario.path.nat),
                transfer: spec.size.is_some(),
                work: work.map(|load| load as u32),
                restarts: spec.restart.is_some(),
                there: access.line(there),
                back: access.line(back),
            });
        }
        let mut probes = Vec::new();
        for (i, spec) in scenario.probes.iter().enumerate() {
            timers.set(
                flows.len() as u32 * TIMERS_PER_FLOW + i as u32,
                Some(Time::ZERO),
            );
            probes.push(Probe {
                meter: ProbeMeter::new(),
                interval: spec.interval,
                label: Label::new(spec.dscp, spec.host, scenario.path.nat),
            });
        }
        works.reserve(&mut timers);
        let interval = options.sample_interval.unwrap_or(Span::ZERO);
        Ok(World {
            network,
            access,
            offload: scenario.path.offload,
            device: Device::of(scenario, registry)?,
            observer: Observer::new(scenario, queues, options, Packets::new(scenario, owners)),
            flows,
            works,
            probes,
            timers,
            turns: None,
            end: Time::ZERO + scenario.duration,
            figure_interval: figure_interval(scenario.duration),
            next_figures: Time::ZERO + figure_interval(scenario.duration),
            next_samples: options
                .sample_interval
                .map_or(Time::MAX, |interval| Time::ZERO + interval),
            interval,
            samples: Samples {
                states: StateSamples::keep(options.states),
                ..Samples::default()
            },
            events: 0,
            next_progress: PROGRESS_EVENTS,
        })
    }

    /// Everything up to and including `until`; after the end of the run, as long as pings are under
    /// way.
    fn run_until(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        if self.turns.is_some() {
            return self.run_in_turns(until, progress);
        }
        loop {
            let network = self.network.next_wakeup().unwrap_or(Time::MAX);
            let access = self.access.next();
            let timer = self.timers.next();
            let sampler = self.next_figures.min(self.next_samples);
            let device = self
                .device
                .as_ref()
                .map_or(Time::MAX, |device| device.next());
            let now = network.min(access).min(device).min(timer).min(sampler);
            if now > until || (until > self.end && self.observer.packets.pings == 0) {
                return Ok(());
            }
            if network == now {
                self.network.poll(now, &mut self.observer);
                self.deliver(now);
            } else if access == now {
                if let Some(packet) = self.access.pop(now) {
                    self.leave_line(now, packet);
                }
            } else if device == now {
                self.leave_host(now);
            } else if timer == now {
                if let Some(number) = self.timers.pop(now) {
                    self.fire(now, number);
                }
            } else {
                self.sample(now);
            }
            self.events += 1;
            self.report(now, progress)?;
        }
    }

    /// Calls `progress` every so many events.
    #[inline]
    pub fn report(
        &mut self,
        now: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        if self.events >= self.next_progress {
            self.next_progress = self.events + PROGRESS_EVENTS;
            let (end, events) = (self.end, self.events);
            if !progress(Progress { now, end, events }) {
                return Err(SimError::Stopped);
            }
        }
        Ok(())
    }

    /// Hands what has come out of the path to the ends.
    fn deliver(&mut self, now: Time) {
        self.look_ahead();
        for i in 0..self.observer.packets.arrivals.len() {
            let packet = self.observer.packets.arrivals[i];
            let id = packet.flow();
            if packet.damaged() {
                self.observer.packets.forget(&packet);
                continue;
            }
            if is_works(id) {
                let (works, mut net) = self.work();
                works.arrived(now, &packet, &mut net);
                continue;
            }
            match packet.kind() {
                Kind::Data => match self.flows[id as usize].there {
                    Some(line) => self.access.push(now, line, packet),
                    None => self.receive(now, &packet),
                },
                Kind::Ack => {
                    let due = self.acknowledged(now, &packet);
                    self.timers.set(id * TIMERS_PER_FLOW + SENDER, due);
                }
                Kind::Ping => self
                    .network
                    .push(now, FAR, packet.pong(), &mut self.observer),
                Kind::Pong => {
                    self.observer.packets.pings -= 1;
                    self.probes[id as usize - self.flows.len()]
                        .meter
                        .received(now, packet.number());
                }
            }
        }
        self.observer.packets.arrivals.clear();
    }

    /// The workloads, and what they are carried out on.
    fn work(&mut self) -> (&mut Works, Net<'_>) {
        let net = Net {
            network: &mut self.network,
            observer: &mut self.observer,
            device: self.device.as_deref_mut(),
            timers: &mut self.timers,
            access: &mut self.access,
            offload: self.offload,
        };
        (&mut self.works, net)
    }

    /// What has left the sender's interface enters the path; who waited for that goes on.
    fn leave_host(&mut self, now: Time) {
        let Some(device) = &mut self.device else {
            return;
        };
        device.interface.poll(now, &mut device.departures);
        device.let_out(now, &mut self.network, &mut self.observer);
        for (packet, why) in device.departures.gone.drain(..) {
            self.observer.judge(now, &packet, Verdict::Dropped(why));
            self.observer.packets.forget(&packet);
        }
        let mut told = std::mem::take(&mut device.departures.of);
        device.departures.told();
        for id in told.drain(..) {
            if is_works(id) {
                let (works, mut net) = self.work();
                works.departed(now, id, &mut net);
                continue;
            }
            let flow = &mut self.flows[id as usize];
            let device = self.device.as_deref_mut();
            let mut nic = Nic::new(
                now,
                id,
                flow.way(),
                self.offload,
                device,
                &mut self.network,
                &mut self.observer,
            );
            flow.sender.on_departed(now, &mut nic.wire());
            nic.flush();
            let due = flow.sender.next_wakeup();
            self.timers.set(id * TIMERS_PER_FLOW + SENDER, due);
        }
        // What came meanwhile is told in its turn.
        if let Some(device) = &mut self.device {
            told.append(&mut device.departures.of);
            device.departures.of = told;
        }
    }

    /// A packet has come to the end of a line: data at its receiver, an ACK at the path.
    fn leave_line(&mut self, now: Time, packet: Packet) {
        match packet.kind() {
            Kind::Data => self.receive(now, &packet),
            _ => {
                let port = NEAR + FAR - self.flows[packet.flow() as usize].port;
                self.network.push(now, port, packet, &mut self.observer);
            }
        }
    }

    /// A segment arrives at its receiver.
    fn receive(&mut self, now: Time, packet: &Packet) {
        let due = self.received(now, packet);
        self.timers
            .set(packet.flow() * TIMERS_PER_FLOW + RECEIVER, due);
    }

    /// Many flows find no room in the cache, and each packet's is cold when it comes. But which
    /// comes next is known: its flow is fetched while others are served.
    fn look_ahead(&self) {
        if self.flows.len() < MANY_FLOWS {
            return;
        }
        let own = |p: &Packet, kind| p.kind() == kind && !is_works(p.flow());
        let first = self.network.upcoming(NEAR, 0);
        if let Some(packet) = first.filter(|p| own(p, Kind::Ack)) {
            let sender = &self.flows[packet.flow() as usize].sender;
            sender.prefetch(None, load);
        }
        let (data, ack) = (
            self.network.upcoming(FAR, 1),
            self.network.upcoming(NEAR, 1),
        );
        if let Some(packet) = data.filter(|p| own(p, Kind::Data)) {
            prefetch(&self.flows[packet.flow() as usize].receiver);
            prefetch(
                self.timers
                    .place(packet.flow() * TIMERS_PER_FLOW + RECEIVER),
            );
        }
        if let Some(packet) = ack.filter(|p| own(p, Kind::Ack)) {
            prefetch(&self.flows[packet.flow() as usize].sender);
            prefetch(self.timers.place(packet.flow() * TIMERS_PER_FLOW + SENDER));
            prefetch(self.observer.packets.acks.look(packet));
        }
    }

    /// As `look_ahead`, for the timer that may be next.
    fn look_ahead_of_timers(&self) {
        let number = self
            .timers
            .coming()
            .filter(|_| self.flows.len() >= MANY_FLOWS);
        let flow = number.and_then(|number| self.flows.get((number / TIMERS_PER_FLOW) as usize));
        match (number.map(|number| number % TIMERS_PER_FLOW), flow) {
            (Some(SENDER), Some(flow)) => prefetch(&flow.sender),
            (Some(RECEIVER), Some(flow)) => prefetch(&flow.receiver),
            _ => {}
        }
    }

    /// Timer `number` fires.
    pub fn fire(&mut self, now: Time, number: u32) {
        self.look_ahead_of_timers();
        let id = number / TIMERS_PER_FLOW;
        if number >= self.works.first_timer() {
            let (works, mut net) = self.work();
            return works.fire(now, number, &mut net);
        }
        if let Some(load) = self.flows.get(id as usize).and_then(Flow::work) {
            return self.fire_work(now, id, load, number % TIMERS_PER_FLOW);
        }
        if number % TIMERS_PER_FLOW >= SENDER && (id as usize) < self.flows.len() {
            let due = match number % TIMERS_PER_FLOW {
                SENDER => self.wake_sender(now, id),
                _ => self.wake_receiver(now, id),
            };
            return self.timers.set(number, due);
        }
        let (network, observer) = (&mut self.network, &mut self.observer);
        let Some(flow) = self.flows.get_mut(id as usize) else {
            let i = number - self.flows.len() as u32 * TIMERS_PER_FLOW;
            let probe = &mut self.probes[i as usize];
            let ping = Packet::ping(self.flows.len() as u32 + i, probe.meter.sent(now))
                .labelled(probe.label, NEAR);
            observer.packets.pings += 1;
            Nic::new(
                now,
                ping.flow(),
                (NEAR, probe.label),
                self.offload,
                self.device.as_deref_mut(),
                network,
                observer,
            )
            .ping(ping);
            let next = now + probe.interval;
            return self.timers.set(number, (next < self.end).then_some(next));
        };
        let mut nic = Nic::new(
            now,
            id,
            flow.way(),
            self.offload,
            self.device.as_deref_mut(),
            network,
            observer,
        );
        match number % TIMERS_PER_FLOW {
            START => {
                flow.meter.started(now);
                flow.sender.connect(now, &mut nic.wire());
                nic.flush();
            }
            RESTART => {
                flow.sender.resume(now, &mut nic.wire());
                nic.flush();
            }
            STOP if flow.restarts => return flow.sender.pause(),
            STOP => {
                if flow.meter.runs() {
                    flow.meter.limited(flow.sender.limited(now));
                }
                flow.meter.stopped(now, &flow.sender.info());
                flow.sender.stop();
                // Jitter may have moved the start behind the stop.
                self.timers.set(id * TIMERS_PER_FLOW + START, None);
            }
            MEASURE => return flow.meter.measure(now, &flow.sender.info()),
            _ => return,
        }
        let due = flow.sender.next_wakeup();
        match &mut self.turns {
            Some(turns) => turns.set_sender(id, due),
            None => self.timers.set(id * TIMERS_PER_FLOW + SENDER, due),
        }
    }

    /// A timer of a flow with a workload.
    fn fire_work(&mut self, now: Time, id: u32, load: usize, which: u32) {
        let info = self.works.info(load);
        let meter = &mut self.flows[id as usize].meter;
        match which {
            START => meter.started(now),
            STOP => meter.stopped(now, &info),
            MEASURE => return meter.measure(now, &info),
            _ => return,
        }
        let (works, mut net) = self.work();
        match which {
            START => works.start(now, load, &mut net),
            _ => works.stop(load, &mut net),
        }
        // Jitter may have moved the start behind the stop.
        self.timers.set(id * TIMERS_PER_FLOW + START, None);
    }

    /// Looks at everything that is watched over time.
    pub fn sample(&mut self, now: Time) {
        self.catch_up(now);
        let (figures, rows) = (self.next_figures == now, self.next_samples == now);
        let point = figures && now.as_ns() % SERIES_INTERVAL.as_ns() == 0;
        for (i, flow) in self
            .flows
            .iter_mut()
            .enumerate()
            .filter(|(_, flow)| flow.meter.runs())
        {
            let info = flow
                .work()
                .map_or_else(|| flow.sender.info(), |load| self.works.info(load));
            if figures {
                flow.meter.sample(now, &info);
            }
            if point {
                flow.meter.point(now, &info);
            }
            if rows {
                self.samples.flows.push_info(now, i as u32, &info);
                if flow.work().is_none() {
                    let states = &mut self.samples.states;
                    states.push(now, i as u32, flow.sender.cc());
                }
            }
        }
        let queue_rows = rows.then_some(&mut self.samples);
        self.observer
            .sample(now, &self.network.network, figures, queue_rows);
        if let Some(device) = self.device.as_mut().filter(|_| figures) {
            device.sample(now);
        }
        if rows {
            self.next_samples = now + self.interval;
        }
        if figures {
            self.next_figures = now + self.figure_interval;
        }
    }

    /// The network looks at its queue only when it must; before others do, it does what is due.
    fn catch_up(&mut self, now: Time) {
        self.run_path(now);
        self.network.poll(now, &mut self.observer);
        debug_assert!(self.observer.packets.arrivals.is_empty());
    }

    /// The run is over: nobody sends, nothing is sampled.
    fn close(&mut self) {
        let end = self.end;
        self.catch_up(end);
        for (id, flow) in (0u32..).zip(&mut self.flows) {
            if flow.meter.runs() {
                flow.meter.limited(flow.sender.limited(end));
            }
            let info = flow
                .work()
                .map_or_else(|| flow.sender.info(), |load| self.works.info(load));
            flow.meter.ended(end, &info);
            if flow.work.is_none() {
                let before = flow.received_before;
                flow.meter
                    .received(before.map_or(0, |before| flow.receiver.received_bytes() - before));
            }
            flow.sender.stop();
            (0..TIMERS_PER_FLOW)
                .for_each(|timer| self.timers.set(id * TIMERS_PER_FLOW + timer, None));
        }
        if let Some(turns) = &mut self.turns {
            (0..self.flows.len() as u32).for_each(|id| turns.close(id));
        }
        (self.next_figures, self.next_samples) = (Time::MAX, Time::MAX);
        let (works, mut net) = self.work();
        works.close(&mut net);
    }
}
