//! What the live engine knows of its packets.

use crate::emulator::frame::{Frame, HEAD, VNET};
use narrows_core::engine::{self, Network};
use narrows_core::net::{NEAR, Port};

/// The observer of a live run's network.
pub type Observer = engine::Observer<Packets>;

/// Frames that have come out of the network, for the devices at their ports.
#[derive(Default)]
pub struct Packets {
    /// In the order in which they came.
    pub arrivals: Vec<(Port, Frame)>,
}

impl engine::Packets<Frame> for Packets {
    fn owner(&self, packet: &Frame) -> Option<u32> {
        packet.owner().map(u32::from)
    }
    fn is_ping(&self, packet: &Frame) -> bool {
        packet.port() == NEAR
    }
    fn is_damaged(&self, packet: &Frame) -> bool {
        packet.damaged()
    }
    fn arrived(&mut self, port: Port, packet: Frame) {
        self.arrivals.push((port, packet));
    }
    fn dropped(&mut self, _packet: Frame) {}
    fn duplicate(&mut self, packet: &Frame) -> Option<Frame> {
        Some(packet.clone())
    }
    fn headers(&self, packet: &Frame, head: &mut Vec<u8>) -> u32 {
        let mut room = [0; HEAD];
        let payload = packet.payload();
        let range = packet.headers(payload, &mut room);
        let own = &room[VNET..range.end];
        head.extend_from_slice(own);
        if !packet.is_tcp() {
            // Their own headers count as payload: those of UDP are eight bytes.
            head.extend_from_slice(packet.body(payload.min(8)));
        }
        (own.len() + payload) as u32
    }
}

impl Frame {
    /// The station that it goes to, or comes from.
    pub fn station(&self) -> usize {
        let port = if self.port() == NEAR {
            self.to_port()
        } else {
            Some(self.port())
        };
        port.and_then(|port| usize::from(port).checked_sub(1))
            .unwrap_or(usize::MAX)
    }
    /// Has it a destination in this network? What a host sends of its own accord goes to nobody.
    pub fn has_destination(&self, network: &Network<Frame>) -> bool {
        match network {
            Network::Wired(_) => true,
            Network::Wifi(_) => self.station() < network.far_hosts(),
        }
    }
}
