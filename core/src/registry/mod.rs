//! Congestion controls, queue disciplines and transports by name. To add a congestion control, a
//! queue discipline or a transport, in this crate or in another, register it.
//!
//! The registry is the only source of such names: Python and `narrows-host` read it.
//!
//! | module | contents |
//! |---|---|
//! | [`linux`] | queue disciplines and settings of a Linux host, for plans and audits |
//! | [`measurement`] | the tests of a measurement |

pub mod linux;
pub mod measurement;

use crate::cc::{self, CcKind};
use crate::packet::Packet;
use crate::param::Choice;
use crate::queue::{self, QueueContext, QueueDiscipline, QueueKind};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use narrows_endpoint as endpoint;

/// The names that a scenario may use. `P` is the driver's packet.
pub struct Registry<P: 'static> {
    ccs: Vec<CcKind>,
    queues: Vec<QueueKind<P>>,
    transports: Vec<endpoint::Kind>,
}

impl<P: Packet + Send + 'static> Registry<P> {
    /// The congestion controls and queue disciplines of narrows.
    pub fn standard() -> Registry<P> {
        Registry {
            ccs: cc::KINDS.to_vec(),
            queues: queue::kinds(),
            transports: Vec::new(),
        }
    }
    /// Adds a congestion control; one of the same name is replaced.
    pub fn register_cc(&mut self, kind: CcKind) {
        self.ccs.retain(|k| k.name != kind.name);
        self.ccs.push(kind);
    }
    /// Adds a queue discipline; one of the same name is replaced.
    pub fn register_queue(&mut self, kind: QueueKind<P>) {
        self.queues.retain(|k| k.name != kind.name);
        self.queues.push(kind);
    }
    /// Adds a transport beside the simulator's TCP; one of the same name is replaced.
    pub fn register_transport(&mut self, kind: endpoint::Kind) {
        self.transports.retain(|k| k.name != kind.name);
        self.transports.push(kind);
    }
    /// Congestion controls in order of registration.
    pub fn ccs(&self) -> &[CcKind] {
        &self.ccs
    }
    /// Queue disciplines in order of registration.
    pub fn queues(&self) -> &[QueueKind<P>] {
        &self.queues
    }
    /// The congestion control called `name`.
    pub fn cc(&self, name: &str) -> Option<&CcKind> {
        self.ccs.iter().find(|k| k.name == name)
    }
    /// The queue discipline called `name`.
    pub fn queue(&self, name: &str) -> Option<&QueueKind<P>> {
        self.queues.iter().find(|k| k.name == name)
    }
    /// Transports in order of registration; narrows itself has none.
    pub fn transports(&self) -> &[endpoint::Kind] {
        &self.transports
    }
    /// The transport called `name`.
    pub fn transport(&self, name: &str) -> Option<&endpoint::Kind> {
        self.transports.iter().find(|k| k.name == name)
    }
    /// Creates a discipline as a scenario specifies it, with nested ones; `None` if there is none
    /// of that name.
    pub fn make_queue(
        &self,
        choice: &Choice,
        context: &QueueContext,
    ) -> Option<Box<dyn QueueDiscipline<P>>> {
        let mut made = (self.queue(&choice.kind)?.make)(&choice.params, context);
        let mut whole = true;
        made.build_nested(&mut |choice, context| {
            let inner = self.make_queue(choice, context);
            whole &= inner.is_some();
            inner
        });
        whole.then_some(made)
    }
}
