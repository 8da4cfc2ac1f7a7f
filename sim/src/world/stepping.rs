//! A run that its caller advances step by step, with control of one flow.

use super::World;
use crate::error::{SimError, check};
use crate::flow::Driver;
use crate::packet::Packet;
use crate::steering::{SharedSteering, Steered, Steering, lock};
use narrows_core::engine::{Options, Progress, Run};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Rate, Span, Time};
use std::sync::Arc;

/// The state of the controlled flow after a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    /// Time in the run.
    pub now: Time,
    /// Whether the run is over.
    pub finished: bool,
    /// The congestion window, in packets.
    pub cwnd: u32,
    /// The RTT of the last ACK that measured one, if there was one.
    pub rtt: Option<Span>,
    /// The smoothed RTT, and the minimum; zero before the first measurement.
    pub srtt: Span,
    /// The minimum RTT.
    pub min_rtt: Span,
    /// The pacing rate of the transport, which also sizes bursts of flows without pacing.
    pub pacing: Rate,
    /// Packets in flight.
    pub in_flight: u32,
    /// ACKs since the last step.
    pub acks: u64,
    /// Packets delivered since the last step.
    pub delivered: u64,
    /// Packets lost since the last step.
    pub lost: u64,
    /// Packets marked since the last step.
    pub marked: u64,
    /// Acknowledged bytes per second since the last step, in Mbit/s; `None` if no time has passed.
    pub goodput_mbit: Option<f64>,
}

/// A run between two steps.
pub struct Stepping {
    world: World,
    scenario: Scenario,
    options: Options,
    flow: usize,
    shared: SharedSteering,
    now: Time,
    /// Time, counters and acknowledged bytes at the last observation.
    before: (Time, Steering, u64),
}

impl Stepping {
    /// The run of `scenario` at time zero. `flow` is the index of the controlled flow.
    pub fn new(
        scenario: Scenario,
        registry: &Registry<Packet>,
        options: Options,
        flow: usize,
    ) -> Result<Stepping, SimError> {
        check(&scenario, &options)?;
        let mut world = World::new(&scenario, registry, &options, None, true)?;
        let shared = SharedSteering::default();
        let controlled = world
            .datapath
            .flows
            .get_mut(flow)
            .filter(|flow| flow.driver == Driver::Tcp)
            .ok_or(SimError::Uncontrolled(flow))?;
        controlled.sender.wrap_cc(|inner| {
            let shared = Arc::clone(&shared);
            Box::new(Steered { inner, shared })
        });
        Ok(Stepping {
            world,
            scenario,
            options,
            flow,
            shared,
            now: Time::ZERO,
            before: Default::default(),
        })
    }

    /// The scenario of the run.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Time in the run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns whether the run is over.
    pub fn finished(&self) -> bool {
        self.now >= self.world.end
    }

    /// Holds the window and the pacing rate of the flow from now on, in the place of its congestion
    /// control. `None` keeps the present window, and the transport's own formula of the rate.
    pub fn hold(&mut self, cwnd: Option<u32>, pacing: Option<Rate>) {
        let datapath = &mut self.world.datapath;
        let present = datapath.flows[self.flow].sender.info().cwnd;
        let (cwnd, pacing) = {
            let mut shared = lock(&self.shared);
            let old = shared.held.unwrap_or((present, None));
            let new = (cwnd.unwrap_or(old.0), pacing.or(old.1));
            shared.held = Some(new);
            new
        };
        datapath.steer(self.now, self.flow as u32, cwnd, pacing);
    }

    /// Advances the run to `until`, at most to its end.
    pub fn run_until(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let until = until.min(self.world.end).max(self.now);
        self.world.run_until(until, progress)?;
        self.now = until;
        Ok(())
    }

    /// Advances the run until `count` more ACKs have arrived at the flow, or to its end. ACKs that
    /// arrive at one instant are handled together.
    pub fn run_acks(
        &mut self,
        count: u64,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let shared = Arc::clone(&self.shared);
        let target = lock(&shared).acks + count;
        let end = self.world.end;
        let stopped = self
            .world
            .run_events(end, progress, |_| lock(&shared).acks >= target)?;
        self.now = stopped.unwrap_or(end);
        Ok(())
    }

    /// The state of the flow; the counters begin again.
    pub fn observe(&mut self) -> Observation {
        let sender = &self.world.datapath.flows[self.flow].sender;
        let info = sender.info();
        let counts = lock(&self.shared).clone();
        let (then, before, acked) = &self.before;
        let passed = self.now.since(*then).as_s();
        let bytes = info.bytes_acked.saturating_sub(*acked);
        let observed = Observation {
            now: self.now,
            finished: self.finished(),
            cwnd: info.cwnd,
            rtt: counts.rtt,
            srtt: info.srtt,
            min_rtt: info.min_rtt,
            pacing: info.pacing,
            in_flight: info.in_flight,
            acks: counts.acks - before.acks,
            delivered: counts.delivered - before.delivered,
            lost: counts.lost - before.lost,
            marked: counts.marked - before.marked,
            goodput_mbit: (passed > 0.0).then(|| bytes as f64 * 8e-6 / passed),
        };
        self.before = (self.now, counts, info.bytes_acked);
        observed
    }

    /// Advances the run to its end, and returns the result.
    pub fn finish(
        mut self,
        registry: &Registry<Packet>,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Run, SimError> {
        self.run_until(self.world.end, progress)?;
        super::finish(
            self.world,
            &self.scenario,
            registry,
            &self.options,
            progress,
        )
    }
}
