//! To which flow a packet of a workload belongs. [`work`](crate::work) says how their numbers are
//! made.

use narrows_core::capture::Ends;
use narrows_core::net::{NEAR, Port};

/// The most connections of workloads that are open at once, some 5 kB each.
pub const MOST_OPEN: usize = 1 << 16;

/// Of the number of a half.
pub(crate) const CONNECTION: u32 = 1 << 31;
/// Of the number of a workload's datagrams.
pub(crate) const DATAGRAM: u32 = 1 << 30;
const PLACE_BITS: u32 = 16;
const USE_MASK: u32 = (1 << (30 - PLACE_BITS - 1)) - 1;

/// The number of a half: mark, uses, place, which.
pub(crate) fn half_number(place: usize, uses: u32, half: usize) -> u32 {
    CONNECTION | (uses & USE_MASK) << (PLACE_BITS + 1) | (place as u32) << 1 | half as u32
}

/// Is this a flow's number, and not one of a scenario's own?
pub(crate) fn is_works(number: u32) -> bool {
    number >= DATAGRAM
}

/// Whose the numbers are that packets of workloads carry, for those who show packets.
#[derive(Default)]
pub(crate) struct Owners {
    /// The flow of each workload, by its place in the scenario.
    pub loads: Vec<u32>,
    /// Of each place: the flow whose connection is or was there, and where what its opener sends
    /// enters.
    pub places: Vec<(u32, Port)>,
}

impl Owners {
    /// The flow's place in the scenario.
    pub fn flow(&self, number: u32) -> u32 {
        let found = if number & CONNECTION != 0 {
            self.places.get(place_of(number)).map(|(flow, _)| *flow)
        } else {
            self.loads.get((number & !DATAGRAM) as usize).copied()
        };
        found.unwrap_or(number)
    }
    /// Both ends of what a packet with this number is of, from who sends data.
    pub fn ends(&self, number: u32) -> Ends {
        let first = match self.places.get(place_of(number)) {
            Some((_, port)) if number & CONNECTION != 0 => *port,
            _ => NEAR,
        };
        let ends = Ends::of(number & !1, first);
        if number & CONNECTION != 0 && number & 1 != 0 {
            ends.back()
        } else {
            ends
        }
    }
}

/// The place that the number of a half names.
pub(crate) fn place_of(number: u32) -> usize {
    (number & !CONNECTION) as usize >> 1 & (MOST_OPEN - 1)
}
