//! A simulated run as a capture file: what each packet would look like on the wire.

use crate::packet::{Acks, Headers, Kind, Packet};
use crate::work::{is_works, Owners};
use narrows_core::capture::{self, Capture, Ends, Where};
use narrows_core::net::path;
use narrows_core::net::{Port, FAR, NEAR};
use narrows_core::packet::Packet as _;
use narrows_core::queue::Why;
use narrows_core::scenario::{Direction, FlowSpec, Scenario};
use narrows_core::units::Time;
use narrows_core::workload::DATAGRAM_HEADERS;

/// What packets under way say and have no room for.
pub(crate) type Said<'a> = (&'a Acks, &'a Headers, &'a Owners);

/// A capture, and what its packets are called.
pub(crate) struct Record {
    capture: Capture,
    /// By the number of the hop.
    hops: Vec<String>,
    /// Where each flow's data enters the path.
    senders: Vec<Port>,
    head: Vec<u8>,
}

impl Record {
    /// Of a run of `scenario`.
    pub fn new(capture: Capture, scenario: &Scenario) -> Record {
        let sender = |flow: &FlowSpec| match flow.direction {
            Direction::Down => NEAR,
            Direction::Up => FAR,
        };
        Record {
            capture,
            hops: match &scenario.wifi {
                Some(wifi) => wifi.stack.levels().map(String::from).into(),
                None => path::hop_names(&scenario.path),
            },
            senders: scenario.flows.iter().map(sender).collect(),
            head: Vec::new(),
        }
    }
    /// The run is over; false when not everything could be written.
    pub fn finish(self) -> bool {
        self.capture.finish()
    }
    /// A packet was dropped by a hop, or marked.
    pub fn verdict(&mut self, at: Time, hop: u8, packet: &Packet, said: Said<'_>, dropped: bool, why: Why) {
        let comment = capture::comment(dropped, &self.hops[usize::from(hop)], why);
        self.packet(at, Where::Inside, packet, said, &comment);
    }
    /// A packet was seen.
    pub fn packet(&mut self, at: Time, seen: Where, packet: &Packet, (acks, headers, owners): Said<'_>, comment: &str) {
        self.head.clear();
        let sender = self.senders.get(packet.flow() as usize).copied().unwrap_or(NEAR);
        let ends = match packet.flow() {
            number if is_works(number) => owners.ends(number),
            number => Ends::of(number, sender),
        };
        let payload = packet.size().get().saturating_sub(u64::from(DATAGRAM_HEADERS)) as u16;
        let (dscp, head) = (packet.dscp(), &mut self.head);
        let len = match packet.kind() {
            Kind::Data => capture::segment(ends, dscp, &headers.segment(packet), head),
            Kind::Ack => capture::acknowledgement(ends.back(), dscp, acks.look(packet), head),
            Kind::Ping => capture::datagram(ends, dscp, packet.ecn(), payload, head),
            Kind::Pong => capture::datagram(ends.back(), dscp, packet.ecn(), payload, head),
        };
        let comment = if packet.damaged() && comment.is_empty() {
            "damaged on the way"
        } else {
            comment
        };
        self.capture.packet(at, seen, &self.head, len, comment);
    }
}
