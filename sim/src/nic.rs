//! How a sender's segments leave its host: onto the path at once, or first through an interface of its own rate.

use crate::medium::Medium;
use crate::packet::{Kind, Packet};
use crate::world::Watch;
use narrows_core::net::interface::{Below, Interface};
use narrows_core::net::{Port, NEAR};
use narrows_core::packet::Packet as _;
use narrows_core::tcp::wire::Segment;
use narrows_core::units::{Bytes, Time};

/// What has left the interface.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Packets, for the path.
    pub packets: Vec<Packet>,
    /// Flows of which a super-packet has left.
    pub of: Vec<u32>,
    /// Pings that found the host's own queue full.
    pub lost_pings: u64,
    /// Packets with a congestion header that did.
    pub lost_headers: Vec<Packet>,
}

impl Departures {
    fn tell(&mut self, packet: &Packet) {
        if packet.kind() == Kind::Data && packet.segment().len > 0 {
            self.of.push(packet.flow());
        }
    }
}

impl Below<Packet> for Departures {
    fn left(&mut self, _now: Time, packet: Packet) {
        self.packets.push(packet);
    }
    fn completed(&mut self, _now: Time, last: &Packet, _size: Bytes) {
        self.tell(last);
    }
    fn dropped(&mut self, _now: Time, packet: Packet) {
        // Whatever becomes of it, it lies below TCP no longer.
        if !packet.joined() {
            self.tell(&packet);
        }
        self.lost_pings += u64::from(packet.kind() == Kind::Ping);
        if packet.has_header() {
            self.lost_headers.push(packet);
        }
    }
}

/// The way out of one host at one instant: segments one by one or, with offload, joined to super-packets.
pub(crate) struct Nic<'a> {
    now: Time,
    flow: u32,
    port: Port,
    dscp: u8,
    offload: bool,
    held: Option<Segment>,
    interface: Option<&'a mut Interface<Packet>>,
    path: &'a mut Medium,
    watch: &'a mut Watch,
}

impl<'a> Nic<'a> {
    pub fn new(
        now: Time,
        flow: u32,
        (port, dscp): (Port, u8),
        offload: bool,
        interface: Option<&'a mut Interface<Packet>>,
        path: &'a mut Medium,
        watch: &'a mut Watch,
    ) -> Nic<'a> {
        Nic {
            now,
            flow,
            port,
            dscp,
            offload,
            held: None,
            // A scenario's interface is the one at its near end.
            interface: interface.filter(|_| port == NEAR),
            path,
            watch,
        }
    }
    /// What a sender is handed to send by. From here alone, so that all of a sender's work is compiled once: a second copy of
    /// it would cost the instruction cache more than the call of a function does.
    pub fn wire(&mut self) -> impl FnMut(Segment) + use<'_, 'a> {
        |segment| self.send(segment)
    }
    /// A segment leaves.
    fn send(&mut self, segment: Segment) {
        if !self.offload {
            return self.let_out(&segment);
        }
        if self.held.as_mut().is_some_and(|held| held.join(&segment)) {
            return;
        }
        self.let_go();
        self.held = Some(segment);
    }
    /// A ping leaves.
    pub fn ping(mut self, ping: Packet) {
        self.push(ping);
        self.flush();
    }
    /// No more leave at this instant.
    pub fn flush(&mut self) {
        self.let_go();
        if let Some(interface) = &mut self.interface {
            interface.flush(self.now);
        }
    }
    fn let_go(&mut self) {
        if let Some(segment) = self.held.take() {
            self.let_out(&segment);
        }
    }
    #[inline]
    fn let_out(&mut self, segment: &Segment) {
        let packet = match &segment.congestion {
            None => Packet::data(self.flow, segment),
            Some(header) => self.watch.headers.packet(self.flow, segment, header),
        };
        self.push(packet.of_class(self.dscp));
    }
    fn push(&mut self, packet: Packet) {
        match &mut self.interface {
            Some(interface) => interface.push(self.now, packet, &mut self.watch.departures),
            None => self.path.push(self.now, self.port, packet, self.watch),
        }
    }
}
