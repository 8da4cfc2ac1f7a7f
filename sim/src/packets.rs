//! What the simulator keeps of its packets beside their 32 bytes.

use crate::owners::{Owners, is_works};
use crate::packet::{Acks, Headers, Kind, Packet};
use narrows_core::capture::{self, Ends};
use narrows_core::engine::{self, sender_port};
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::{Ack, Packet as _};
use narrows_core::scenario::Scenario;
use narrows_core::workload::DATAGRAM_HEADERS;

/// The observer of a simulated network.
pub(crate) type Observer = engine::Observer<Packets>;

/// What packets carry and have no room for, and where they have arrived.
pub(crate) struct Packets {
    /// Packets that have come out of the network, for their hosts.
    pub arrivals: Vec<Packet>,
    pub acks: Acks,
    /// Of data with congestion headers under way.
    pub headers: Headers,
    /// Of packets of workloads.
    pub owners: Owners,
    /// Pings and datagrams whose fate is open.
    pub pings: u64,
    /// Where each flow's data enters the network.
    senders: Vec<Port>,
}

impl Packets {
    /// None yet, of a run of `scenario`.
    pub fn new(scenario: &Scenario, owners: Owners) -> Packets {
        Packets {
            arrivals: Vec::new(),
            acks: Acks::default(),
            headers: Headers::default(),
            owners,
            pings: 0,
            senders: scenario.flows.iter().map(sender_port).collect(),
        }
    }
    /// The flow that a packet is of, by its place in the scenario; probes count on.
    pub fn flow_of(&self, packet: &Packet) -> u32 {
        match packet.flow() {
            number if is_works(number) => self.owners.flow(number),
            number => number,
        }
    }
    /// A packet is gone.
    pub fn forget(&mut self, packet: &Packet) {
        match packet.kind() {
            Kind::Data => drop(self.headers.take(packet)),
            Kind::Ack => drop(self.acks.take(packet)),
            Kind::Ping | Kind::Pong => self.pings -= 1,
        }
    }
}

impl engine::Packets<Packet> for Packets {
    fn owner(&self, packet: &Packet) -> Option<u32> {
        Some(self.flow_of(packet))
    }
    fn is_ping(&self, packet: &Packet) -> bool {
        packet.kind() == Kind::Ping
    }
    fn is_damaged(&self, packet: &Packet) -> bool {
        packet.damaged()
    }
    #[inline]
    fn arrived(&mut self, _port: Port, packet: Packet) {
        self.arrivals.push(packet);
    }
    fn dropped(&mut self, packet: Packet) {
        self.forget(&packet);
    }
    fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        match packet.kind() {
            Kind::Data if packet.has_header() => Some(self.headers.copy(packet)),
            Kind::Data => Some(*packet),
            Kind::Ack => Some(self.acks.copy(packet)),
            Kind::Ping | Kind::Pong => {
                self.pings += 1;
                Some(*packet)
            }
        }
    }
    fn completes(&self, packet: &Packet, ack: &mut Ack) {
        self.acks.complete(packet, ack);
    }
    fn headers(&self, packet: &Packet, head: &mut Vec<u8>) -> u32 {
        let sender = self
            .senders
            .get(packet.flow() as usize)
            .copied()
            .unwrap_or(NEAR);
        let ends = match packet.flow() {
            number if is_works(number) => self.owners.ends(number),
            number => Ends::of(number, sender),
        };
        let payload = packet
            .size()
            .get()
            .saturating_sub(u64::from(DATAGRAM_HEADERS)) as u16;
        let dscp = packet.dscp();
        match packet.kind() {
            Kind::Data => capture::segment(ends, dscp, &self.headers.segment(packet), head),
            Kind::Ack => capture::acknowledgement(ends.back(), dscp, self.acks.look(packet), head),
            Kind::Ping => capture::datagram(ends, dscp, packet.ecn(), payload, head),
            Kind::Pong => capture::datagram(ends.back(), dscp, packet.ecn(), payload, head),
        }
    }
}
