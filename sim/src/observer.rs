//! The observer of the simulated network: it collects packets that arrive, and stores contents of
//! packets in transit.

use crate::owners::{Owners, is_application, is_transport};
use crate::packet::{Acks, Headers, Kind, Packet, Payloads};
use narrows_core::capture::{self, Endpoints};
use narrows_core::engine::{self, sender_port};
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::{Ack, Packet as _};
use narrows_core::scenario::Scenario;
use narrows_core::workload::datagram_headers;

/// The observer of a simulated network.
pub(crate) type Observer = engine::Observer<Packets>;

/// Packets that have arrived, and contents that do not fit into a packet.
pub(crate) struct Packets {
    /// Packets that have left the network, for their hosts.
    pub arrivals: Vec<Packet>,
    pub acks: Acks,
    /// Fields that congestion headers replace in data packets in transit.
    pub headers: Headers,
    /// Contents of the datagrams of transports.
    pub payloads: Payloads,
    /// The flows to which packets of applications and transports belong.
    pub owners: Owners,
    /// Number of pings and of applications' datagrams in transit.
    pub pings: u64,
    /// The port at which each flow's data enters the network.
    senders: Vec<Port>,
}

impl Packets {
    /// Without packets, for a run of `scenario`.
    pub fn new(scenario: &Scenario, owners: Owners) -> Packets {
        Packets {
            arrivals: Vec::new(),
            acks: Acks::default(),
            headers: Headers::default(),
            payloads: Payloads::default(),
            owners,
            pings: 0,
            senders: scenario.flows.iter().map(sender_port).collect(),
        }
    }
    /// The index of a packet's flow in the scenario. Indices of probes follow those of the flows.
    pub fn flow_of(&self, packet: &Packet) -> u32 {
        match packet.flow() {
            number if is_application(number) => self.owners.flow(number),
            number => number,
        }
    }
    /// Frees the content of a packet that was dropped or is not needed any more.
    pub fn forget(&mut self, packet: &Packet) {
        match packet.kind() {
            Kind::Data => drop(self.headers.take(packet)),
            Kind::Ack => drop(self.acks.take(packet)),
            _ if is_transport(packet.flow()) => self.payloads.free(packet.number()),
            Kind::Ping | Kind::Pong => self.pings -= 1,
        }
    }
}

impl engine::Packets<Packet> for Packets {
    fn owner(&self, packet: &Packet) -> Option<u32> {
        Some(self.flow_of(packet))
    }
    fn is_late(&self, packet: &Packet) -> bool {
        self.owners.is_late(packet.flow())
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
            _ if is_transport(packet.flow()) => {
                Some(packet.numbered(self.payloads.copy(packet.number())))
            }
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
        let endpoints = match packet.flow() {
            number if is_application(number) => self.owners.endpoints(number),
            number => Endpoints::of(number, sender),
        };
        let endpoints = endpoints.over(packet.ip());
        let payload = packet
            .size()
            .get()
            .saturating_sub(u64::from(datagram_headers(packet.ip()))) as u16;
        let dscp = packet.dscp();
        match packet.kind() {
            Kind::Data => capture::segment(endpoints, dscp, &self.headers.segment(packet), head),
            Kind::Ack => capture::acknowledgement(
                endpoints.reversed(),
                dscp,
                &self.acks.content(packet),
                head,
            ),
            Kind::Ping => capture::datagram(endpoints, dscp, packet.ecn(), payload, head),
            Kind::Pong => {
                capture::datagram(endpoints.reversed(), dscp, packet.ecn(), payload, head)
            }
        }
    }
}
