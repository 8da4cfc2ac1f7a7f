//! Provides to the core's network what it needs to know about real packets.

use crate::emulator::frame::{Frame, HEAD, VNET};
use narrows_core::engine::{self, Network};
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::Ip;

/// The network observer of a live run.
pub type Observer = engine::Observer<Packets>;

/// Frames that have left the network, for the devices at their ports.
#[derive(Default)]
pub struct Packets {
    /// The frames in the order of their departure.
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
            // For packets other than TCP, the first 8 bytes after the IP header, such as the UDP
            // header, are added.
            head.extend_from_slice(packet.body(payload.min(8)));
        }
        (own.len() + payload) as u32
    }
}

impl Frame {
    /// The version of IP of the frame.
    pub fn ip(&self) -> Ip {
        if self.is_v6() { Ip::V6 } else { Ip::V4 }
    }
    /// The index of the Wi-Fi station to which the frame goes, or from which it comes.
    pub fn station(&self) -> usize {
        let port = if self.port() == NEAR {
            self.to_port()
        } else {
            Some(self.port())
        };
        port.and_then(|port| usize::from(port).checked_sub(1))
            .unwrap_or(usize::MAX)
    }
    /// Whether the frame has a destination in this network. In a Wi-Fi, packets that the kernel
    /// sends by itself may have none. In a network of links, only packets of flows and probes have
    /// a route.
    pub fn has_destination(&self, network: &Network<Frame>) -> bool {
        match network {
            Network::Wired(_) => true,
            Network::Links(_) => self.owner().is_some(),
            Network::Wifi(_) => self.station() < network.far_hosts(),
        }
    }
}
