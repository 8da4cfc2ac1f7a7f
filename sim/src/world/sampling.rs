//! Takes samples at intervals, for metrics and for the table of samples, and closes the metrics at
//! the end of the run.

use super::World;
use crate::application::Applications;
use crate::flow::{Driver, Flow, Flows, NOT_MEASURED, RECEIVER, SENDER, TIMERS_PER_FLOW};
use crate::transport::Transports;
use narrows_core::metrics::SERIES_INTERVAL;
use narrows_core::tcp::Info;
use narrows_core::units::Time;

impl World {
    /// Takes the samples that are due at `now`.
    pub(super) fn sample(&mut self, now: Time) {
        self.catch_up(now);
        self.sample_flows(now);
        self.sample_network(now);
    }

    /// Takes the samples of all flows that are due at `now`.
    pub(super) fn sample_flows(&mut self, now: Time) {
        let (metrics, rows) = (self.next_metrics == now, self.next_samples == now);
        let point = metrics && has_point(now);
        let of_first = self.datapath.flows.numbered();
        let mut of_second = self
            .half
            .as_mut()
            .map(|half| half.datapath.flows.numbered());
        let pairs =
            of_first.map(|first| [Some(first), of_second.as_mut().and_then(Iterator::next)]);
        for (id, flow) in pairs.flatten().flatten() {
            if !flow.meter.runs() {
                continue;
            }
            let info = info(flow, &self.applications, &self.transports);
            if timed_out(flow, &info) {
                continue;
            }
            if metrics {
                flow.meter.sample(now, &info);
            }
            if point {
                flow.meter.point(now, &info);
            }
            if rows {
                self.samples.flows.push_info(now, id, &info);
                let states = &mut self.samples.states;
                match flow.driver {
                    Driver::Tcp => states.push(now, id, None, flow.sender.cc()),
                    Driver::Application(number) if states.kept => {
                        for (name, cc) in self.applications.controls(number as usize) {
                            states.push(now, id, Some(name), cc);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Takes the samples of everything else that are due at `now`, and sets the time of the next
    /// samples.
    pub(super) fn sample_network(&mut self, now: Time) {
        let datapath = &mut self.datapath;
        let (metrics, rows) = (self.next_metrics == now, self.next_samples == now);
        let queue_rows = rows.then_some(&mut self.samples);
        datapath
            .observer
            .sample(now, &datapath.network.network, metrics, queue_rows);
        if metrics {
            datapath
                .devices
                .list
                .iter_mut()
                .for_each(|device| device.sample(now));
        }
        if rows {
            self.next_samples = now + self.sample_interval;
        }
        if metrics {
            self.next_metrics = now + self.metric_interval;
        }
    }

    /// Ends the run: closes the metrics, stops all senders and clears all timers.
    pub(super) fn close(&mut self) {
        let end = self.end;
        self.catch_up(end);
        let datapath = &mut self.datapath;
        for (id, flow) in datapath.flows.numbered() {
            let info = info(flow, &self.applications, &self.transports);
            if !timed_out(flow, &info) && flow.meter.runs() {
                flow.meter.limited(flow.sender.limited(end));
            }
            flow.meter.ended(end, &info);
            if flow.driver == Driver::Tcp {
                let before = flow.received_before;
                flow.meter.received(if before == NOT_MEASURED {
                    0
                } else {
                    flow.receiver.received_bytes() - before
                });
            }
            flow.sender.stop();
            if let Driver::Transport(number) = flow.driver {
                self.transports.close(number);
            }
            for timer in [SENDER, RECEIVER] {
                datapath.timers.set(id * TIMERS_PER_FLOW + timer, None);
            }
            if let Some(lookahead) = &mut self.lookahead {
                lookahead.close(id);
            }
        }
        datapath.timers.cancel_all();
        (self.next_metrics, self.next_samples) = (Time::MAX, Time::MAX);
        self.applications.close(datapath);
    }
}

/// Ends the metrics of a flow at the time when its sender ended the connection, if it did. The
/// state of the sender has not changed since then.
fn timed_out(flow: &mut Flow, info: &Info) -> bool {
    let Some(at) = flow.sender.timed_out().filter(|_| flow.meter.runs()) else {
        return false;
    };
    flow.meter.limited(flow.sender.limited(at));
    flow.meter.timed_out(at, info);
    true
}

/// Whether the time series have a point at `now`.
fn has_point(now: Time) -> bool {
    now.as_ns() % SERIES_INTERVAL.as_ns() == 0
}

/// Takes the samples for metrics at `now`, of flows with their own endpoints.
pub(super) fn sample_metrics(now: Time, flows: &mut Flows) {
    let point = has_point(now);
    for (_, flow) in flows.numbered().filter(|(_, flow)| flow.meter.runs()) {
        let info = flow.sender.info();
        flow.meter.sample(now, &info);
        if point {
            flow.meter.point(now, &info);
        }
    }
}

/// The state of a flow: that of its sender, of its workload's connections, or of its transport.
fn info(flow: &Flow, applications: &Applications, transports: &Transports) -> Info {
    match flow.driver {
        Driver::Tcp => flow.sender.info(),
        Driver::Application(number) => applications.info(number as usize),
        Driver::Transport(number) => transports.info(number),
    }
}
