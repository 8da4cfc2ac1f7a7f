//! To which flow a packet of an application belongs. [`application`](crate::application) defines
//! how the numbers are assigned.

use narrows_core::capture::Endpoints;
use narrows_core::net::{NEAR, Port};

/// Largest number of connections of applications that are open at once; each has some 5 kB.
pub const MOST_OPEN: usize = 1 << 16;

/// Mark of the number of a half of a connection.
pub(crate) const CONNECTION: u32 = 1 << 31;
/// Mark of the number of an application's datagrams.
pub(crate) const DATAGRAM: u32 = 1 << 30;
/// Marks of the number of a transport's connection.
pub(crate) const TRANSPORT: u32 = DATAGRAM | 1 << 29;
const SLOT_BITS: u32 = 16;
const USE_MASK: u32 = (1 << (30 - SLOT_BITS - 1)) - 1;

/// The number of a half: mark, uses, slot, half.
pub(crate) fn half_number(slot: usize, uses: u32, half: usize) -> u32 {
    CONNECTION | (uses & USE_MASK) << (SLOT_BITS + 1) | (slot as u32) << 1 | half as u32
}

/// Is this the number of an application, and not that of a flow or probe of the scenario?
pub(crate) fn is_application(number: u32) -> bool {
    number >= DATAGRAM
}

/// Is this the number of a transport's connection?
pub(crate) fn is_transport(number: u32) -> bool {
    number & (CONNECTION | TRANSPORT) == TRANSPORT
}

/// The slot in the number of a half.
pub(crate) fn slot_of(number: u32) -> usize {
    (number & !CONNECTION) as usize >> 1 & (MOST_OPEN - 1)
}

/// The flows to which the numbers in packets of applications belong, for records of packets.
#[derive(Default)]
pub(crate) struct Owners {
    /// The flow of each application, by its index in the scenario.
    pub applications: Vec<u32>,
    /// The flow of each transport's connection.
    pub transports: Vec<u32>,
    /// For each slot, the flow of its present or last connection, and where the packets of the
    /// opening side enter the path.
    pub slots: Vec<(u32, Port)>,
}

impl Owners {
    /// The flow's index in the scenario.
    pub fn flow(&self, number: u32) -> u32 {
        let found = if number & CONNECTION != 0 {
            self.slots.get(slot_of(number)).map(|(flow, _)| *flow)
        } else if is_transport(number) {
            self.transports.get((number & !TRANSPORT) as usize).copied()
        } else {
            self.applications
                .get((number & !DATAGRAM) as usize)
                .copied()
        };
        found.unwrap_or(number)
    }
    /// The two ends of a packet with this number, the sender of data first.
    pub fn endpoints(&self, number: u32) -> Endpoints {
        let first = match self.slots.get(slot_of(number)) {
            Some((_, port)) if number & CONNECTION != 0 => *port,
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
