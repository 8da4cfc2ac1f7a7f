//! Determines the flow to which a packet of an application or transport belongs.
//! [`application`](crate::application) explains the numbers.

use narrows_core::capture::Endpoints;
use narrows_core::net::{NEAR, Port};

/// Largest number of connections of applications that are open at once. Each needs about 5 kB.
pub const MOST_OPEN: usize = 1 << 16;

/// Mark in the number of a half of a connection.
pub(crate) const CONNECTION: u32 = 1 << 31;
/// Mark in the number of an application's datagrams.
pub(crate) const DATAGRAM: u32 = 1 << 30;
/// Marks in the number of a transport's connection.
pub(crate) const TRANSPORT: u32 = DATAGRAM | 1 << 29;
const SLOT_BITS: u32 = 16;
const USE_MASK: u32 = (1 << (30 - SLOT_BITS - 1)) - 1;

/// The number of a half of a connection: mark, number of uses of the slot, slot, half.
pub(crate) fn half_number(slot: usize, uses: u32, half: usize) -> u32 {
    CONNECTION | (uses & USE_MASK) << (SLOT_BITS + 1) | (slot as u32) << 1 | half as u32
}

/// Whether this is a number of an application or transport, and not the index of a flow or probe.
pub(crate) fn is_application(number: u32) -> bool {
    number >= DATAGRAM
}

/// Whether this is the number of a transport's connection.
pub(crate) fn is_transport(number: u32) -> bool {
    number & (CONNECTION | TRANSPORT) == TRANSPORT
}

/// The slot in the number of a half.
pub(crate) fn slot_of(number: u32) -> usize {
    (number & !CONNECTION) as usize >> 1 & (MOST_OPEN - 1)
}

/// The flows to which the numbers in packets of applications and transports belong.
#[derive(Default)]
pub(crate) struct Owners {
    /// For each application, the index of its flow in the scenario.
    pub applications: Vec<u32>,
    /// For each connection of a transport, the index of its flow in the scenario.
    pub transports: Vec<u32>,
    /// For each slot, its present or last connection.
    pub slots: Vec<Opened>,
}

/// A connection of an application, as the owner of packets.
#[derive(Copy, Clone, Default)]
pub(crate) struct Opened {
    /// The index of its flow in the scenario.
    pub flow: u32,
    /// The port at which packets of the opening side enter the path.
    pub port: Port,
    /// The number of its first half.
    pub number: u32,
}

impl Owners {
    /// The index in the scenario of the flow to which the number belongs.
    pub fn flow(&self, number: u32) -> u32 {
        let found = if number & CONNECTION != 0 {
            self.slots.get(slot_of(number)).map(|opened| opened.flow)
        } else if is_transport(number) {
            self.transports.get((number & !TRANSPORT) as usize).copied()
        } else {
            self.applications
                .get((number & !DATAGRAM) as usize)
                .copied()
        };
        found.unwrap_or(number)
    }
    /// Whether the number is that of a closed connection whose slot a later connection uses.
    pub fn is_late(&self, number: u32) -> bool {
        let opened = self.slots.get(slot_of(number));
        number & CONNECTION != 0 && opened.is_some_and(|opened| opened.number != number & !1)
    }
    /// The addresses of both ends of a packet with this number; the sender of data is the first.
    pub fn endpoints(&self, number: u32) -> Endpoints {
        let first = match self.slots.get(slot_of(number)) {
            Some(opened) if number & CONNECTION != 0 => opened.port,
            _ => NEAR,
        };
        let endpoints = Endpoints::of(number & !1, first);
        if number & CONNECTION != 0 && number & 1 != 0 {
            endpoints.reversed()
        } else {
            endpoints
        }
    }
}
