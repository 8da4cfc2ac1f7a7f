//! A flow with both of its endpoints.

use crate::packet::Label;
use crate::prefetch::{on_large_pages, prefetch};
use crate::timers::FIXED;
pub(crate) use crate::timers::TIMERS_PER_FLOW;
use narrows_core::metrics::FlowMeter;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::tcp::{Config, Receiver, Sender};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Numbers of the timers of a flow, in the order in which they fire at one instant. Those
/// before `SENDER` are fixed.
pub(crate) const START: u32 = 0;
pub(crate) const STOP: u32 = 1;
pub(crate) const RESTART: u32 = 2;
pub(crate) const MEASURE: u32 = 3;
pub(crate) const SENDER: u32 = FIXED;
pub(crate) const RECEIVER: u32 = FIXED + 1;

/// One flow. The fields that every packet needs lie between sender and receiver, in a cache line
/// that is loaded with either of them.
#[repr(C)]
pub(crate) struct Flow {
    pub sender: Sender,
    /// Indices of the access links to and from a receiver that is farther away than the path's end.
    pub access_forward: AccessLink,
    pub access_reverse: AccessLink,
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

/// The index of an access link in four bytes, or no link.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessLink(u32);

impl From<Option<u32>> for AccessLink {
    fn from(index: Option<u32>) -> AccessLink {
        AccessLink(index.unwrap_or(u32::MAX))
    }
}

impl AccessLink {
    /// The index of the link, if there is one.
    #[inline(always)]
    pub fn get(self) -> Option<u32> {
        (self.0 < u32::MAX).then_some(self.0)
    }
}

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

/// The flows of a run, or every second one of them.
pub(crate) struct Flows {
    list: Vec<Flow>,
    /// Number of flows in the run.
    all: usize,
    /// Binary logarithm of the distance between the numbers of neighbours in `list`: 0 or 1.
    step: u32,
    /// Number of the first flow.
    first: usize,
}

impl Flows {
    /// All flows of a run.
    pub fn new(list: Vec<Flow>) -> Flows {
        Flows {
            all: list.len(),
            list,
            step: 0,
            first: 0,
        }
    }
    /// Number of flows in the run.
    pub fn len(&self) -> usize {
        self.all
    }
    /// Whether these are only every second flow.
    #[inline]
    pub fn divided(&self) -> bool {
        self.step > 0
    }
    /// Whether the first flow of the run is one of these.
    pub fn begin_with_first(&self) -> bool {
        self.first == 0
    }
    /// Whether flow `id` of the run is one of these.
    #[inline]
    pub fn hold(&self, id: usize) -> bool {
        id & self.step as usize == self.first
    }
    /// Returns flow `id`, which is one of these or does not exist.
    #[inline]
    pub fn get(&self, id: usize) -> Option<&Flow> {
        (id < self.all).then(|| &self[id])
    }
    /// As [`get`](Self::get), to change the flow.
    #[inline]
    pub fn get_mut(&mut self, id: usize) -> Option<&mut Flow> {
        (id < self.all).then(|| &mut self[id])
    }
    /// All of these flows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.list.iter()
    }
    /// All of these flows with their numbers, in order. The records that a sample reads are
    /// prefetched.
    pub fn numbered(&mut self) -> impl Iterator<Item = (u32, &mut Flow)> {
        let numbers = (self.first as u32..).step_by(1 << self.step);
        let mut rest = self.list.as_mut_slice();
        let flows = std::iter::from_fn(move || {
            let (flow, behind) = std::mem::take(&mut rest).split_first_mut()?;
            if let Some(next) = behind.get(2) {
                prefetch(&next.sender);
                prefetch(&next.meter);
            }
            if let Some(next) = behind.first() {
                prefetch(next.sender.cc());
                prefetch(&*next.meter);
            }
            rest = behind;
            Some(flow)
        });
        numbers.zip(flows)
    }
    /// Removes every second flow, beginning with the second one, and returns them.
    pub fn divide(&mut self) -> Flows {
        let mut halves = [0, 1].map(|first| Flows {
            list: on_large_pages(self.all.div_ceil(2)),
            all: self.all,
            step: 1,
            first,
        });
        for (id, flow) in self.list.drain(..).enumerate() {
            halves[id % 2].list.push(flow);
        }
        let [even, odd] = halves;
        *self = even;
        odd
    }
    /// Adds the flows that [`divide`](Self::divide) removed.
    pub fn join(&mut self, odd: Flows) {
        let mut list = on_large_pages(self.all);
        let mut odd = odd.list.into_iter();
        for flow in self.list.drain(..) {
            list.push(flow);
            list.extend(odd.next());
        }
        *self = Flows::new(list);
    }
    /// All flows, as a vector. Flows that [`divide`](Self::divide) removed are missing.
    pub fn into_vec(self) -> Vec<Flow> {
        self.list
    }
}

impl Index<usize> for Flows {
    type Output = Flow;
    #[inline]
    fn index(&self, id: usize) -> &Flow {
        debug_assert!(self.hold(id));
        &self.list[id >> self.step]
    }
}

impl IndexMut<usize> for Flows {
    #[inline]
    fn index_mut(&mut self, id: usize) -> &mut Flow {
        debug_assert!(self.hold(id));
        &mut self.list[id >> self.step]
    }
}

/// The configuration of a host whose driver divides super-packets, as [`Nic`](crate::datapath::Nic)
/// does.
pub(crate) fn with_tso(config: Config) -> Config {
    Config {
        tso: true,
        ..config
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
