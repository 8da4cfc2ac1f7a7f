//! One flow, as the engine keeps it.

use crate::packet::Label;
use crate::work::Works;
use narrows_core::figures::{FlowFigures, FlowMeter, LimitFigures, NO_CC};
use narrows_core::net::Port;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::tcp::{Config, Receiver, Sender};
use narrows_core::units::Time;
use std::sync::Arc;

/// One flow: both of its ends. What every packet needs lies between them, in a line of the cache
/// that is fetched with either.
#[repr(C)]
pub(crate) struct Flow {
    pub sender: Sender,
    /// The lines between the path and a receiver farther away, there and back.
    pub there: Option<u32>,
    pub back: Option<u32>,
    /// Where its data enters the path; its ACKs enter at the other side.
    pub port: Port,
    pub label: Label,
    pub transfer: bool,
    /// Its stop is not its end.
    pub restarts: bool,
    /// Its workload, if it has one: the sender and the receiver then do nothing.
    pub work: Option<u32>,
    pub receiver: Receiver,
    /// Bytes that had arrived when the summary began; `None` until one arrives after that.
    pub received_before: Option<u64>,
    /// Apart, for it is seldom asked for.
    pub meter: Box<FlowMeter>,
}

impl Flow {
    /// Its figures, and those of its workload.
    pub fn figures(self, spec: &FlowSpec, works: &Works, scenario: &Scenario) -> FlowFigures {
        let cc = if spec.has_cc() {
            spec.cc.kind.as_str()
        } else {
            NO_CC
        };
        let end = Time::ZERO
            + spec
                .stop
                .unwrap_or(scenario.duration)
                .min(scenario.duration);
        let load = self.work();
        let mut figures = self.meter.figures(spec.id.clone(), cc.into());
        if let Some(load) = load {
            figures.limits = LimitFigures::unknown();
            figures.workload = Some(works.figures(load, end));
        }
        figures
    }
    /// Its workload.
    pub fn work(&self) -> Option<usize> {
        self.work.map(|load| load as usize)
    }
    /// How its data leaves its host.
    pub fn way(&self) -> (Port, Label) {
        (self.port, self.label)
    }
}

/// `config` in one place for all who are told the same.
pub(crate) fn shared(all: &mut Vec<Arc<Config>>, config: Config) -> Arc<Config> {
    let known = all.iter().find(|known| ***known == config).cloned();
    known.unwrap_or_else(|| {
        all.push(config.into());
        all[all.len() - 1].clone()
    })
}
