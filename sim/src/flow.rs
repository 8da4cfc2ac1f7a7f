//! A flow with both of its endpoints.

use crate::packet::Label;
use narrows_core::metrics::FlowMeter;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::tcp::{Config, Receiver, Sender};
use std::sync::Arc;

/// Numbers of the timers of a flow, in the order in which they fire at one instant.
pub(crate) const START: u32 = 0;
pub(crate) const STOP: u32 = 1;
pub(crate) const RESTART: u32 = 2;
pub(crate) const MEASURE: u32 = 3;
pub(crate) const SENDER: u32 = 4;
pub(crate) const RECEIVER: u32 = 5;
pub(crate) const TIMERS_PER_FLOW: u32 = 6;

/// One flow. The fields that every packet needs lie between sender and receiver, in a cache line
/// that is loaded with either of them.
#[repr(C)]
pub(crate) struct Flow {
    pub sender: Sender,
    /// Indices of the access links to and from a receiver that is farther away than the path's end.
    pub access_forward: Option<u32>,
    pub access_reverse: Option<u32>,
    /// The port at which the flow's data enters the path; its ACKs enter at the other port.
    pub port: Port,
    pub label: Label,
    pub transfer: bool,
    /// Whether the flow continues after its stop.
    pub restarts: bool,
    /// Which endpoints the flow uses. `sender` and `receiver` are unused except with
    /// [`Driver::Tcp`].
    pub driver: Driver,
    pub receiver: Receiver,
    /// Bytes received before the measured interval; [`NOT_MEASURED`] until the first segment of
    /// this interval arrives.
    pub received_before: u64,
    /// The meter of the metrics. It is boxed, because few events need it.
    pub meter: Box<FlowMeter>,
}

/// [`Flow::received_before`] before the measured interval.
pub(crate) const NOT_MEASURED: u64 = u64::MAX;

/// The endpoints of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    /// The flow's own sender and receiver.
    Tcp,
    /// The application of this index, which has its own connections.
    Application(u32),
    /// The connection of this number, of a transport outside narrows.
    Transport(u32),
}

impl Flow {
    /// Port and label of its data.
    pub fn forward(&self) -> (Port, Label) {
        (self.port, self.label)
    }
    /// The port at which the flow's ACKs enter the path.
    pub fn ack_port(&self) -> Port {
        NEAR + FAR - self.port
    }
}

/// Returns `config`, stored only once for all flows with equal configurations.
pub(crate) fn shared(all: &mut Vec<Arc<Config>>, config: Config) -> Arc<Config> {
    let known = all.iter().find(|known| ***known == config).cloned();
    known.unwrap_or_else(|| {
        all.push(config.into());
        all[all.len() - 1].clone()
    })
}
