//! Packets in flight, losses and marks at the time each packet left, for congestion controls that
//! need them
//! ([`CongestionControl::needs_flight_record`](crate::cc::CongestionControl::needs_flight_record)).
//!
//! The records are a ring indexed by the scoreboard's numbers. Connections whose congestion control
//! does not need such records have none. A record is valid from the departure of its packet until
//! the packet is acknowledged and another packet leaves.

use alloc::vec::Vec;

/// The state of the connection when a packet was last sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Packets in flight, this one included.
    pub in_flight: u32,
    /// Packets marked lost so far.
    pub lost: u64,
    /// Packets delivered so far by ACKs that reported CE marks.
    pub delivered_ce: u64,
}

/// The records of one connection.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    ring: Vec<Flight>,
    limited: bool,
    /// `limited` keeps its value until all data below this sequence number is acknowledged.
    limited_to: u64,
}

impl Flights {
    /// Records packet `number`, which leaves; `first` is the first unacknowledged packet.
    pub fn sent(&mut self, first: u64, number: u64, flight: Flight) {
        let needed = (number + 1).saturating_sub(first) as usize;
        if needed > self.ring.len() {
            let size = needed.next_power_of_two().max(16);
            let mut ring = alloc::vec![Flight::default(); size];
            if !self.ring.is_empty() {
                for i in first..number {
                    ring[i as usize & (size - 1)] = self.of(i);
                }
            }
            self.ring = ring;
        }
        let mask = self.ring.len() - 1;
        self.ring[number as usize & mask] = flight;
    }
    /// Called after a transmission, or an attempt that the window stopped: `limit` is whether the
    /// window is used up. `una` and `nxt` are sequence numbers, as in the scoreboard.
    pub fn used(&mut self, limit: bool, una: u64, nxt: u64) {
        if limit || una >= self.limited_to {
            (self.limited, self.limited_to) = (limit, nxt);
        }
    }
    /// Returns whether the window was used up at any time in the last round trip, as in the BBR
    /// draft (C.is_cwnd_limited). Linux before 6.1 clears its own flag earlier. The published
    /// measurements of BBR version 2 show that its flag is not cleared earlier.
    pub fn window_limits(&self) -> bool {
        self.limited
    }
    /// Returns the record of packet `number`.
    pub fn of(&self, number: u64) -> Flight {
        let mask = self.ring.len().wrapping_sub(1);
        self.ring
            .get(number as usize & mask)
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_the_window_was_used_up_holds_for_a_round_trip() {
        let mut flights = Flights::default();
        flights.used(true, 0, 100);
        flights.used(false, 50, 150);
        assert!(flights.window_limits());
        flights.used(false, 100, 200);
        assert!(!flights.window_limits());
    }

    #[test]
    fn a_record_is_kept_while_the_ring_grows() {
        let mut flights = Flights::default();
        for i in 0..1000u64 {
            let flight = Flight {
                in_flight: i as u32,
                lost: 3 * i,
                delivered_ce: 0,
            };
            flights.sent(i / 2, i, flight);
            for known in i / 2..=i {
                assert_eq!(flights.of(known).lost, 3 * known);
            }
        }
    }
}
