//! Networks between hosts: hops, links, loss, delay and Wi-Fi.
//!
//! | module | contents |
//! |---|---|
//! | [`access`] | access links: the delay between the shared path and single receivers |
//! | `closed_form` | the closed form of a FIFO before a serial link |
//! | [`bernoulli`] | random trials per packet, for loss, duplication, corruption and reordering |
//! | [`delay`] | propagation with a constant delay |
//! | [`delay_schedule`] | a propagation delay over time |
//! | [`delivery_trace`] | a link that follows a packet-delivery trace |
//! | [`hop`] | a hop: loss, policer, queue, link |
//! | [`jitter`] | propagation with a delay that varies randomly or over time |
//! | [`link`] | links with a constant or varying rate, token buckets |
//! | [`lookahead`] | access to arrivals that are already determined |
//! | [`loss`] | models of random loss |
//! | [`path`] | the path between two hosts |
//! | [`policer`] | policers |
//! | [`rate_schedule`] | a rate over time, and its integral |
//! | [`reorder`] | reordering |
//! | [`shape`] | traffic shaping of routers |
//! | [`spec`] | the description of a path |
//! | [`topology`] | a network of links, in which each flow has a route |
//! | [`trace`] | files with rates or delays over time |
//! | [`wifi`] | an access point and its stations |

pub mod access;
pub mod bernoulli;
mod closed_form;
pub mod delay;
pub mod delay_schedule;
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
pub mod topology;
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

/// A model of an effect on packets other than queueing, such as a model of loss, jitter or
/// policing.
pub struct ElementKind {
    /// The name in a scenario. In a list of kinds, the first one is the default.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification that it implements.
    pub source: &'static str,
    /// The parameters of the model.
    pub params: &'static [Param],
    /// Checks conditions between parameters; [`no_check`](crate::param::no_check) if there are
    /// none.
    pub check: fn(&Params) -> Result<(), Refusal>,
}

/// The receiver of a network's output: packets at ports, drops and marks. A hop is identified by
/// its number.
pub trait NetworkObserver<P> {
    /// Called when `packet` enters at `port`.
    fn entered(&mut self, _now: Time, _port: Port, _packet: &P) {}
    /// Called when `packet` arrives at `port`.
    fn arrived(&mut self, now: Time, port: Port, packet: P);
    /// Called when `packet` leaves the queue of a hop; its queueing delay is the time since
    /// `enqueued_at`. `class` is the discipline's class.
    fn departed(&mut self, _now: Time, _hop: u8, _class: u8, _packet: &P) {}
    /// Called in the place of [`departed`](Self::departed) for a hop in closed form
    /// ([`path::Path::use_closed_form`]). The call may come after the time of departure, but
    /// not after the next time at which the hop is served. For each packet, `departures` returns
    /// two times: when it left the queue, and when it had entered. All must be taken.
    fn have_departed(&mut self, _hop: u8, departures: impl Iterator<Item = (Time, Time)>) {
        departures.for_each(drop);
    }
    /// Called when `packet` was dropped.
    fn dropped(&mut self, now: Time, hop: u8, packet: P, reason: DropReason);
    /// Returns the number of the flow of `packet`; probes follow the last flow. In a network of
    /// links, this number determines the route of the packet.
    fn owner(&self, _packet: &P) -> u32 {
        0
    }
    /// Returns whether the connection of `packet` is closed and its number is used by a later
    /// connection. [`owner`](Self::owner) then returns the flow of the later connection.
    fn is_late(&self, _packet: &P) -> bool {
        false
    }
    /// Returns a duplicate of `packet`; `None` where the engine cannot make one.
    fn duplicate(&mut self, _packet: &P) -> Option<P> {
        None
    }
    /// Called when `packet` was marked CE and is forwarded.
    fn marked(&mut self, _now: Time, _hop: u8, _packet: &P, _why: DropReason) {}
    /// Adds those fields of an acknowledgement, such as SACK blocks, that do not fit into `packet`.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// A network. The engine passes entering packets with their time to the network. The network passes
/// leaving packets to a [`NetworkObserver`], and reports the time of its next event.
pub trait Network<P> {
    /// Passes a `packet` that enters at `port` to the network.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O);
    /// Returns the time of the next event, or `None` if none is due.
    fn next_wakeup(&self) -> Option<Time>;
    /// Handles all events up to `now`, and passes their packets to `out`.
    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O);
}
