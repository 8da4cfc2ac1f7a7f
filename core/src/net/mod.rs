//! Networks between hosts: hops, links, loss, delay and Wi-Fi.

pub mod access;
pub mod bernoulli;
pub mod delay;
pub mod delivery_trace;
pub mod hop;
pub mod jitter;
pub mod link;
pub mod lookahead;
pub mod loss;
pub mod path;
pub mod policer;
pub mod rate_schedule;
pub mod reorder;
pub mod shape;
pub mod spec;
pub mod trace;
pub mod wifi;

use crate::packet::Ack;
use crate::param::{Param, Params, Refusal};
use crate::queue::DropReason;
use crate::units::Time;

/// A point at which hosts are connected to a network.
pub type Port = u8;

/// The sending side of a [`path::Path`]: data enters and ACKs leave here.
pub const NEAR: Port = 0;
/// The receiving side of a [`path::Path`].
pub const FAR: Port = 1;

/// A model of an effect on packets other than queueing: a kind of loss, of jitter, of policing.
pub struct ElementKind {
    /// Its name in a scenario. The first of a list is the default.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification that it implements.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Checks conditions between parameters; [`no_check`](crate::param::no_check) if there are
    /// none.
    pub check: fn(&Params) -> Result<(), Refusal>,
}

/// The receiver of a network's output: packets at ports, drops and marks. A hop is identified by
/// its number.
pub trait NetworkObserver<P> {
    /// `packet` enters at `port`.
    fn entered(&mut self, _now: Time, _port: Port, _packet: &P) {}
    /// `packet` arrives at `port` now.
    fn arrived(&mut self, now: Time, port: Port, packet: P);
    /// `packet` leaves the queue of a hop now; its delay is the time since `enqueued_at`. `class`
    /// is the discipline's class.
    fn departed(&mut self, _now: Time, _hop: u8, _class: u8, _packet: &P) {}
    /// `packet` was dropped.
    fn dropped(&mut self, now: Time, hop: u8, packet: P, reason: DropReason);
    /// Returns a duplicate of `packet`; `None` where the driver cannot make one.
    fn duplicate(&mut self, _packet: &P) -> Option<P> {
        None
    }
    /// `packet` was marked CE and is forwarded.
    fn marked(&mut self, _now: Time, _hop: u8, _packet: &P, _why: DropReason) {}
    /// Adds the SACK blocks of `packet` to its acknowledgement, where a packet has no room for
    /// them.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// A network. The driver passes it entering packets with their time; the network passes leaving
/// packets to a [`NetworkObserver`] and reports the time of its next event.
pub trait Network<P> {
    /// `packet` enters at `port`.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O);
    /// The time at which `poll` has work; `None` while no packet is in transit.
    fn next_wakeup(&self) -> Option<Time>;
    /// Emits everything due at `now`.
    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O);
}
