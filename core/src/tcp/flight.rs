//! What was in flight, lost and marked when each packet left, for laws that ask
//! ([`CongestionControl::needs_flight_record`](crate::cc::CongestionControl::needs_flight_record)).
//!
//! A ring by the scoreboard's numbers beside it; a connection whose law does not ask has none. A
//! number may be asked about from when its packet left until something leaves after it was
//! acknowledged.

use alloc::vec::Vec;

/// What was so when a packet was last sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Packets in flight, this one included.
    pub in_flight: u32,
    /// Packets found lost so far.
    pub lost: u64,
    /// Packets delivered so far of which ACKs with marks told.
    pub delivered_ce: u64,
}

/// The records of one connection.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    ring: Vec<Flight>,
    limited: bool,
    /// Until everything below is acknowledged.
    limited_to: u64,
}

impl Flights {
    /// Packet `number` leaves; `first` is the first that is not acknowledged.
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
    /// Something was sent, or the window did not let it: is that the `limit`? `una` and `nxt` are
    /// the scoreboard's.
    pub fn used(&mut self, limit: bool, una: u64, nxt: u64) {
        if limit || una >= self.limited_to {
            (self.limited, self.limited_to) = (limit, nxt);
        }
    }
    /// Was the window used up at any time in the last round trip? So the draft of BBR defines it
    /// (C.is_cwnd_limited). Linux before 6.1 forgets it too soon; by the published maps of
    /// version 2, that did not.
    pub fn window_limits(&self) -> bool {
        self.limited
    }
    /// What was so when packet `number` left.
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
