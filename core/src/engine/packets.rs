//! The packets of an engine, as the observer and the recorder of a run see them.

use crate::net::Port;
use crate::packet::Ack;
use alloc::vec::Vec;

/// The packets of an engine: the properties that the observer needs and the network does not.
pub trait Packets<P> {
    /// Returns the flow of a packet by its index in the scenario; probes follow the last flow.
    /// `None` for a packet of neither a flow nor a probe.
    fn owner(&self, packet: &P) -> Option<u32>;
    /// Returns whether the connection of a packet is closed and its number is used by a later
    /// connection. `owner` then returns the flow of the later connection.
    fn is_late(&self, _packet: &P) -> bool {
        false
    }
    /// Returns whether a packet travels from a probe to the responding host.
    fn is_ping(&self, packet: &P) -> bool;
    /// Returns whether a packet arrived damaged.
    fn is_damaged(&self, packet: &P) -> bool;
    /// Takes a packet that has left the network at `port`.
    fn arrived(&mut self, port: Port, packet: P);
    /// Takes a packet that the network has dropped.
    fn dropped(&mut self, packet: P);
    /// Returns a duplicate of this packet; `None` where there cannot be one.
    fn duplicate(&mut self, packet: &P) -> Option<P>;
    /// Adds those fields of an acknowledgement that do not fit into the packet.
    fn completes(&self, _packet: &P, _ack: &mut Ack) {}
    /// Appends a packet's headers, from the IP header on, to `head`; returns its whole length in
    /// bytes.
    fn headers(&self, packet: &P, head: &mut Vec<u8>) -> u32;
}
