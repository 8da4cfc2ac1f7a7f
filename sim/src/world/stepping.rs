//! A run that its caller advances step by step, and in which the caller controls one flow.

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
    /// The last RTT sample, if there was one.
    pub rtt: Option<Span>,
    /// The smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// The minimum RTT; zero before the first sample.
    pub min_rtt: Span,
    /// The pacing rate of the sender. In flows without pacing, it only determines the size of
    /// bursts.
    pub pacing: Rate,
    /// Number of packets in flight.
    pub in_flight: u32,
    /// Number of ACKs that arrived since the last observation.
    pub acks: u64,
    /// Number of packets delivered since the last observation.
    pub delivered: u64,
    /// Number of packets detected as lost since the last observation.
    pub lost: u64,
    /// Number of packets reported as marked since the last observation.
    pub marked: u64,
    /// Acknowledged bytes since the last observation per time, Mbit/s; `None` if no time has
    /// passed.
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

    /// From now on, holds the window (packets) and the pacing rate of the flow, in place of its
    /// congestion control. `None` keeps the present window, or the pacing rate held before. Without
    /// a held rate, the sender's own formula applies.
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

    /// Advances the run to `until`, but not beyond its end.
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

    /// Advances the run until `count` more ACKs of the flow have arrived, or to its end. ACKs that
    /// leave the network at one instant are handled together.
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

    /// Returns the state of the flow, and restarts the counters.
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
