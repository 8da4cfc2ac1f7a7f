//! What lies between hosts: networks are folds too.

pub mod access;
pub mod chance;
pub mod delay;
pub mod hop;
pub mod jitter;
pub mod link;
pub mod loss;
pub mod opportunities;
pub mod path;
pub mod policer;
pub mod profile;
pub mod reorder;
pub mod shape;
pub mod spec;
pub mod trace;
pub mod wifi;

use crate::packet::Ack;
use crate::param::{Param, Params, Refusal};
use crate::queue::Why;
use crate::units::Time;

/// A place where hosts hang on a network.
pub type Port = u8;

/// The sending side of a [`path::Path`]: data enters and ACKs leave here.
pub const NEAR: Port = 0;
/// The receiving side of a [`path::Path`].
pub const FAR: Port = 1;

/// One model of something that happens to packets on a path beside queueing: a kind of loss, of
/// jitter, of policing.
pub struct ElementKind {
    /// As a scenario writes it; the first of a list is meant where a table names no kind.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification it is written from.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What must hold between them; [`no_check`](crate::param::no_check) where nothing must.
    pub check: fn(&Params) -> Result<(), Refusal>,
}

/// What comes out of a network: packets at ports, and what its queues dropped or marked. A hop is
/// told by its number.
pub trait NetworkObserver<P> {
    /// `packet` enters at `port`.
    fn entered(&mut self, _now: Time, _port: Port, _packet: &P) {}
    /// `packet` arrives at `port` now.
    fn arrived(&mut self, now: Time, port: Port, packet: P);
    /// `packet` left the queue of a hop now (its delay: since `enqueued_at`), out of the
    /// discipline's `class`.
    fn departed(&mut self, _now: Time, _hop: u8, _class: u8, _packet: &P) {}
    /// `packet` is gone.
    fn dropped(&mut self, now: Time, hop: u8, packet: P, why: Why);
    /// A second `packet` like this one is there; `None` where the driver cannot make one.
    fn duplicate(&mut self, _packet: &P) -> Option<P> {
        None
    }
    /// `packet` was marked CE and goes on.
    fn marked(&mut self, _now: Time, _hop: u8, _packet: &P, _why: Why) {}
    /// Completes what `packet` acknowledges: its SACK blocks, where a packet has no room for them.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
}

/// A network: told what enters and when, it says what comes out and when it wants to be asked
/// again.
pub trait Network<P> {
    /// `packet` enters at `port`.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O);
    /// When `poll` has something to do; `None` while nothing moves.
    fn next_wakeup(&self) -> Option<Time>;
    /// Emits everything due at `now`.
    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O);
}
