//! A run that its caller advances in slices, and whose samples the caller reads in between, to draw
//! a run that is not over.
//!
//! The slices do not affect the result, which is that of [`run`](crate::run).

use super::World;
use crate::error::{SimError, check};
use crate::packet::Packet;
use narrows_core::engine::{Options, PacketTrace, Progress, Run};
use narrows_core::metrics::{PacketEvents, Samples};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Span, Time};

/// A run between two slices.
pub struct Streaming {
    world: World,
    scenario: Scenario,
    options: Options,
    now: Time,
}

impl Streaming {
    /// The run of `scenario` at time zero.
    pub fn new(
        scenario: Scenario,
        registry: &Registry<Packet>,
        options: Options,
    ) -> Result<Streaming, SimError> {
        check(&scenario, &options)?;
        let world = World::new(&scenario, registry, &options, None, false)?;
        Ok(Streaming {
            world,
            scenario,
            options,
            now: Time::ZERO,
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
    /// Returns whether the end of the run is reached.
    pub fn finished(&self) -> bool {
        self.now >= self.world.end
    }
    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.world.datapath.events
    }
    /// Advances the run by `slice`, but not beyond its end.
    pub fn advance(&mut self, slice: Span) -> Result<(), SimError> {
        let until = (self.now + slice).min(self.world.end);
        self.world.run_until(until, &mut proceed)?;
        self.now = until;
        Ok(())
    }
    /// The samples so far. Pings, distributions of delay, and transfers are added only at the end.
    pub fn samples(&self) -> &Samples {
        &self.world.samples
    }
    /// The packets that were dropped, marked or lost so far.
    pub fn verdicts(&self) -> &PacketEvents {
        &self.world.datapath.observer.verdicts
    }
    /// Starts to trace packets into `trace`, in place of any earlier trace.
    pub fn set_trace(&mut self, trace: PacketTrace) {
        self.world.datapath.observer.trace = Some(Box::new(trace));
    }
    /// The traced packets, if a trace was set.
    pub fn trace(&self) -> Option<&PacketTrace> {
        self.world.datapath.observer.trace.as_deref()
    }
    /// Advances the run to its end, and returns the result.
    pub fn finish(mut self, registry: &Registry<Packet>) -> Result<Run, SimError> {
        self.advance(self.world.end.since(self.now))?;
        super::finish(
            self.world,
            &self.scenario,
            registry,
            &self.options,
            &mut proceed,
        )
    }
}

/// A progress callback that never stops the run, since the caller stops between slices.
fn proceed(_: Progress) -> bool {
    true
}
