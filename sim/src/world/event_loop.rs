//! The event loop of a run.
//!
//! **Order of events.** The earliest event is handled first. At one instant, the order is:
//!
//! 1. the network (its own order is in [`narrows_core::net::path`]) and the packets that leave it;
//! 2. the access links of receivers farther away ([`narrows_core::net::access`]);
//! 3. the interface of the sending host;
//! 4. timers, by number: for each flow start, stop, restart, begin of the summary, sender,
//!    receiver; then probes, then applications;
//! 5. metrics and samples.
//!
//! After each event, the next one is selected anew, so the consequences of a timer are handled
//! before the next timer. With [`lookahead`](crate::lookahead), the loop runs window by window; the
//! results are equal.

use super::World;
use crate::datapath::Datapath;
use crate::error::SimError;
use crate::flow::{Driver, Flow, MEASURE, RECEIVER, RESTART, SENDER, START, STOP, TIMERS_PER_FLOW};
use crate::lookahead::{Lookahead, outbox, run_path};
use crate::owners::{is_application, is_transport};
use crate::packet::Kind;
use crate::prefetch::{load, prefetch};
use narrows_core::engine::Progress;
use narrows_core::net::{FAR, NEAR};
use narrows_core::prefetch::Prefetch as _;
use narrows_core::units::{Span, Time};

/// Number of events between two calls of the progress callback, which take a few milliseconds.
pub(super) const PROGRESS_EVENTS: u64 = 1 << 15;
/// Number of flows from which on their state exceeds the caches of a processor core.
const MANY_FLOWS: usize = 256;

/// One nanosecond later.
pub(super) fn after(now: Time) -> Time {
    now + Span::ns(1)
}

impl World {
    /// Handles all events up to and including `until`. If `until` is after the end of the run,
    /// returns as soon as no ping is in transit.
    pub(super) fn run_until(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        if self.half.is_some() {
            return self.run_halves(until, progress);
        }
        if self.lookahead.is_some() {
            return self.run_windows(until, progress);
        }
        self.run_events(until, progress, |_| false).map(drop)
    }

    /// As [`run_until`](Self::run_until), event by event. If `stop` returns `true` after an event,
    /// returns the time of that event.
    pub(super) fn run_events(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
        mut stop: impl FnMut(&World) -> bool,
    ) -> Result<Option<Time>, SimError> {
        loop {
            let datapath = &mut self.datapath;
            let network = datapath.network.next_wakeup().unwrap_or(Time::MAX);
            let access = datapath.access.next();
            let timer = datapath.timers.next();
            let sampler = self.next_metrics.min(self.next_samples);
            let device = datapath.devices.next();
            let now = network.min(access).min(device).min(timer).min(sampler);
            if now > until || (until > self.end && datapath.observer.packets.pings == 0) {
                return Ok(None);
            }
            if network == now {
                datapath.network.poll(now, &mut datapath.observer);
                self.deliver(now);
            } else if access == now {
                let transports = &mut self.transports;
                datapath.leave_access_link(now, |datapath, packet| {
                    transports.leave_access_link(now, packet, datapath);
                });
            } else if device == now {
                let applications = &mut self.applications;
                datapath.leave_device(now, |datapath, id| applications.depart(now, id, datapath));
            } else if timer == now {
                if let Some(number) = datapath.timers.pop(now) {
                    self.fire(now, number);
                }
            } else {
                self.sample(now);
            }
            self.datapath.events += 1;
            self.report(now, progress)?;
            if stop(self) {
                return Ok(Some(now));
            }
        }
    }

    /// As [`run_until`](Self::run_until), with lookahead.
    fn run_windows(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        loop {
            let sampler = self.next_metrics.min(self.next_samples);
            let pings = self.datapath.observer.packets.pings;
            let Some(lookahead) = &mut self.lookahead else {
                return Ok(());
            };
            let Some(begin) = lookahead.next_window(&self.datapath, sampler, until) else {
                return Ok(());
            };
            if begin > until || (until > self.end && pings == 0) {
                return Ok(());
            }
            // After the end, the last ping ends the run. Therefore nothing may be ahead of it.
            let last = if until > self.end { begin } else { until };
            let end = lookahead.run_receivers(&mut self.datapath, begin, after(last));
            loop {
                let timer = self.datapath.timers.next();
                let sampler = self.next_metrics.min(self.next_samples);
                let now = timer.min(sampler);
                if now >= end {
                    break;
                }
                // At one instant, timers fire in the order of their numbers, and samples follow.
                let timers = if timer == now { now } else { after(now) };
                self.run_senders(after(now), timers);
                if timer == now {
                    if let Some(number) = self.datapath.timers.pop(now) {
                        outbox(&mut self.datapath, |outbox| outbox.caused_by_timer(number));
                        self.fire(now, number);
                    }
                } else {
                    self.sample(now);
                    outbox(&mut self.datapath, |outbox| outbox.begin(now));
                }
                self.datapath.events += 1;
            }
            self.run_senders(end, end);
            self.datapath.events += 1;
            self.report(begin, progress)?;
        }
    }

    fn run_senders(&mut self, arrivals: Time, timers: Time) {
        if let Some(lookahead) = &mut self.lookahead {
            lookahead.run_senders(&mut self.datapath, arrivals, timers);
        }
    }

    /// Calls `progress` once per [`PROGRESS_EVENTS`].
    #[inline]
    pub(super) fn report(
        &mut self,
        now: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let (end, events) = (self.end, self.datapath.events);
        if events >= self.next_progress {
            self.transports.fault()?;
            self.next_progress = events + PROGRESS_EVENTS;
            if !progress(Progress { now, end, events }) {
                return Err(SimError::Stopped);
            }
        }
        Ok(())
    }

    /// Passes the packets that have left the network to their hosts.
    fn deliver(&mut self, now: Time) {
        prefetch_arrivals(&self.datapath);
        let (applications, transports) = (&mut self.applications, &mut self.transports);
        self.datapath.deliver(now, |datapath, packet| {
            if !is_transport(packet.flow()) {
                applications.arrive(now, packet, datapath);
            } else if let Some(link) = transports.access_link(packet, datapath) {
                datapath.access.push(now, link, *packet);
            } else {
                transports.arrive(now, packet, datapath);
            }
        });
    }

    /// Handles timer `number`, which fires.
    fn fire(&mut self, now: Time, number: u32) {
        prefetch_next_timer(&self.datapath);
        let datapath = &mut self.datapath;
        if number >= self.applications.first_timer() {
            return self.applications.fire(now, number, datapath);
        }
        let (id, timer) = (number / TIMERS_PER_FLOW, number % TIMERS_PER_FLOW);
        match datapath.flows.get(id as usize).map(|flow| flow.driver) {
            Some(Driver::Application(number)) => {
                self.fire_application(now, id, number as usize, timer);
            }
            Some(Driver::Transport(number)) => self.fire_transport(now, id, number, timer),
            _ => fire(
                now,
                number,
                datapath,
                self.lookahead.as_deref_mut(),
                self.end,
            ),
        }
    }

    /// Handles a timer of flow `id`, which has the application `number`.
    fn fire_application(&mut self, now: Time, id: u32, number: usize, timer: u32) {
        let info = self.applications.info(number);
        let datapath = &mut self.datapath;
        let meter = &mut datapath.flows[id as usize].meter;
        match timer {
            START => {
                meter.started(now);
                self.applications.start(now, number, datapath);
            }
            STOP => {
                meter.stopped(now, &info);
                self.applications.stop(number, datapath);
            }
            MEASURE => meter.measure(now, &info),
            _ => {}
        }
    }

    /// Handles a timer of flow `id`, which is the connection `number` of a transport.
    fn fire_transport(&mut self, now: Time, id: u32, number: u32, timer: u32) {
        let info = self.transports.info(number);
        let (transports, datapath) = (&mut self.transports, &mut self.datapath);
        let flow = &mut datapath.flows[id as usize];
        match timer {
            START => {
                flow.meter.started(now);
                transports.start(now, number, datapath);
            }
            RESTART => transports.offer(now, number, true, datapath),
            STOP if flow.restarts => transports.offer(now, number, false, datapath),
            STOP => {
                flow.meter.stopped(now, &info);
                transports.stop(number, datapath);
            }
            MEASURE => flow.meter.measure(now, &info),
            _ => transports.wake(now, number, timer, datapath),
        }
    }

    /// Brings the queues of the network up to date before they are sampled, since the network
    /// updates them only when necessary.
    pub(super) fn catch_up(&mut self, now: Time) {
        let datapath = &mut self.datapath;
        run_path(datapath, now);
        datapath.network.poll(now, &mut datapath.observer);
        debug_assert!(datapath.observer.packets.arrivals.is_empty());
    }
}

/// Handles timer `number`, of a probe or of a flow with its own endpoints. `end` is the end of the
/// run.
pub(super) fn fire(
    now: Time,
    number: u32,
    datapath: &mut Datapath,
    lookahead: Option<&mut Lookahead>,
    end: Time,
) {
    let (id, timer) = (number / TIMERS_PER_FLOW, number % TIMERS_PER_FLOW);
    let Some(flow) = datapath.flows.get_mut(id as usize) else {
        let probe = number as usize - datapath.flows.len() * TIMERS_PER_FLOW as usize;
        datapath.ping(now, probe);
        let next = datapath.probes[probe].departures.next_ping();
        return datapath.timers.set(number, (next < end).then_some(next));
    };
    let due = match timer {
        SENDER => {
            let due = datapath.sender(id).woken(now);
            return datapath.timers.set(number, due);
        }
        RECEIVER => {
            let due = datapath.receiver(id).woken(now);
            return datapath.timers.set(number, due);
        }
        START => {
            flow.meter.started(now);
            datapath.at_sender(now, id, |flow, nic| {
                flow.sender.connect(now, &mut nic.wire())
            })
        }
        RESTART => datapath.at_sender(now, id, |flow, nic| {
            flow.sender.resume(now, &mut nic.wire())
        }),
        STOP if flow.restarts => return flow.sender.pause(),
        STOP => {
            stop(now, flow);
            flow.sender.next_wakeup()
        }
        MEASURE => return flow.meter.measure(now, &flow.sender.info()),
        _ => return,
    };
    match lookahead {
        Some(lookahead) => lookahead.set_sender(id, due),
        None => datapath.timers.set(id * TIMERS_PER_FLOW + SENDER, due),
    }
}

/// Stops a flow at its stop time.
fn stop(now: Time, flow: &mut Flow) {
    if flow.meter.runs() {
        flow.meter.limited(flow.sender.limited(now));
    }
    flow.meter.stopped(now, &flow.sender.info());
    flow.sender.stop();
}

/// With many flows, their state exceeds the cache, so the flow of each packet must be loaded from
/// memory. The next arrivals are known: their flows are prefetched while the present ones are
/// handled.
fn prefetch_arrivals(datapath: &Datapath) {
    let flows = &datapath.flows;
    if flows.len() < MANY_FLOWS {
        return;
    }
    let upcoming = |port, n, kind| {
        let packet = datapath.network.upcoming(port, n);
        packet.filter(|p| p.kind() == kind && !is_application(p.flow()))
    };
    let timer = |id: u32, which| datapath.timers.place(id * TIMERS_PER_FLOW + which);
    if let Some(packet) = upcoming(NEAR, 0, Kind::Ack) {
        flows[packet.flow() as usize].sender.prefetch(None, load);
    }
    if let Some(packet) = upcoming(FAR, 1, Kind::Data) {
        prefetch(&flows[packet.flow() as usize].receiver);
        prefetch(timer(packet.flow(), RECEIVER));
    }
    if let Some(packet) = upcoming(NEAR, 1, Kind::Ack) {
        prefetch(&flows[packet.flow() as usize].sender);
        prefetch(timer(packet.flow(), SENDER));
        if let Some(ack) = datapath.observer.packets.acks.look(packet) {
            prefetch(ack);
        }
    }
}

/// As [`prefetch_arrivals`], for the flow of the next timer.
fn prefetch_next_timer(datapath: &Datapath) {
    let flows = &datapath.flows;
    let number = datapath
        .timers
        .coming()
        .filter(|_| flows.len() >= MANY_FLOWS);
    let flow = number.and_then(|number| flows.get((number / TIMERS_PER_FLOW) as usize));
    match (number.map(|number| number % TIMERS_PER_FLOW), flow) {
        (Some(SENDER), Some(flow)) => prefetch(&flow.sender),
        (Some(RECEIVER), Some(flow)) => prefetch(&flow.receiver),
        _ => {}
    }
}
