//! Decides which datagrams an echo answers, so that no two echoes answer each other forever.
//!
//! An echo returns datagrams unchanged, so its answer looks like a question. Three rules break the
//! loop:
//!
//! 1. **Ports.** Questions of `narrows latency` are answered up to the rate of `--packets` if their
//!    source port is above the echo's own port. Of two echoes that follow this rule, at most one
//!    sees the other at a higher port.
//! 2. **Rate.** All other datagrams together are answered at most [`UNRECOGNISED`] times per second
//!    for each source.
//! 3. **Memory.** A datagram is not answered if one with the same bytes, from the same address and
//!    port, was answered within the last second. All datagrams that rule 2 limits are remembered.
//!    Each source has more entries than it can get answers in that time, and sources do not share
//!    entries. Datagrams that rule 1 permits are remembered while the source has free entries; a
//!    used entry becomes free after a second. So datagrams that circulate between this echo and one
//!    that does not follow these rules end one after the other.
//!
//! The tables have a fixed size and a random key. A source here means the index of its token bucket
//! ([`crate::serve::budget::Accounts::bucket`]), which several sources may share.

use super::payer::Payer;
use crate::latency::protocol::Echo;
use crate::serve::budget::{BUCKETS, Permit};
use crate::serve::limits::UNRECOGNISED;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Time for which an answered datagram is remembered, ms.
const LASTS: u64 = 1000;
/// Bits of an entry that hold the time, ms; the others hold the hash.
const TIME: u32 = 20;
/// Number of bytes of a datagram that are compared, at its beginning and at its end.
const COMPARED: (usize, usize) = (256, 64);
/// Number of entries of a source for datagrams of rule 2: more than it gets answers in one second
/// and the burst before.
const LIMITED: usize = 128;
/// Number of entries of a source for datagrams of rule 1.
const KNOWN: usize = 32;

/// Answered datagrams, by source.
#[derive(Debug)]
struct Repeats {
    key: RandomState,
    places: usize,
    /// Entries: the upper bits of a hash, and the time of the answer; 0 is an empty entry.
    seen: Vec<u64>,
}

fn ms(now: u64) -> u64 {
    (now / 1_000_000) & ((1 << TIME) - 1)
}

fn is_young(entry: u64, now: u64) -> bool {
    entry != 0 && ms(now).wrapping_sub(entry) & ((1 << TIME) - 1) <= LASTS
}

impl Repeats {
    fn new(sources: usize, places: usize) -> Repeats {
        Repeats {
            key: RandomState::new(),
            places,
            // The kernel allocates the memory only when it is written.
            seen: vec![0; sources * places],
        }
    }
    fn of(&self, source: usize) -> std::ops::Range<usize> {
        let from = source * self.places % self.seen.len();
        from..from + self.places
    }
    /// Looks the datagram up. Returns the entry to record; `None` if the same datagram was answered
    /// within the last second.
    fn mark(&self, source: usize, from: SocketAddr, bytes: &[u8], now: u64) -> Option<u64> {
        let mut hasher = self.key.build_hasher();
        from.hash(&mut hasher);
        bytes.len().hash(&mut hasher);
        hasher.write(&bytes[..bytes.len().min(COMPARED.0)]);
        hasher.write(&bytes[bytes.len().saturating_sub(COMPARED.1)..]);
        let mark = (hasher.finish() & (u64::MAX << TIME)) | (1 << 63) | ms(now);
        let same = |entry: &u64| *entry >> TIME == mark >> TIME && is_young(*entry, now);
        (!self.seen[self.of(source)].iter().any(same)).then_some(mark)
    }
    /// Records an answer, if the source has a free entry.
    fn remember(&mut self, source: usize, mark: u64, now: u64) {
        let places = self.of(source);
        if let Some(free) = self.seen[places]
            .iter_mut()
            .find(|entry| !is_young(**entry, now))
        {
            *free = mark;
        }
    }
}

/// The filter of an echo.
#[derive(Debug)]
pub struct Echoed {
    port: u16,
    limited: Repeats,
    known: Repeats,
}

impl Echoed {
    /// A filter without entries, for an echo at `port`.
    pub fn new(port: u16) -> Echoed {
        Echoed {
            port,
            limited: Repeats::new(BUCKETS, LIMITED),
            known: Repeats::new(BUCKETS, KNOWN),
        }
    }
    /// A permit to return the datagram, if the three rules permit it.
    pub fn permit(
        &mut self,
        payer: &Payer,
        from: SocketAddr,
        bytes: &[u8],
        now: u64,
    ) -> Option<Permit> {
        let source = payer.bucket(from.ip());
        let known = Echo::recognises(bytes) && from.port() > self.port;
        let repeats = if known {
            &mut self.known
        } else {
            &mut self.limited
        };
        let mark = repeats.mark(source, from, bytes, now)?;
        let permit = payer.permit(from, (bytes.len(), bytes.len()), known, now)?;
        repeats.remember(source, mark, now);
        Some(permit)
    }
}

const _: () = assert!(LIMITED as u64 > UNRECOGNISED * (LASTS + 100) / 1000 + 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::budget::Accounts;
    use crate::serve::limits::Limits;
    use std::collections::VecDeque;
    use std::net::IpAddr;

    const MS: u64 = 1_000_000;

    fn at(address: [u8; 4], port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::from(address), port)
    }

    /// A question of `narrows latency`.
    fn question(number: u64) -> [u8; 40] {
        let mut bytes = [crate::latency::protocol::FILL; 40];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes[8..16].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    #[test]
    fn the_same_bytes_from_the_same_address_count_for_a_second() {
        let mut repeats = Repeats::new(4, 8);
        let (one, other) = (at([192, 0, 2, 1], 4000), at([192, 0, 2, 1], 4001));
        let mark = repeats.mark(3, one, b"hello", 5 * MS).expect("it is new");
        repeats.remember(3, mark, 5 * MS);
        assert_eq!(repeats.mark(3, one, b"hello", 1005 * MS), None);
        assert!(repeats.mark(3, one, b"hello", 1006 * MS).is_some());
        assert!(
            repeats.mark(3, other, b"hello", 6 * MS).is_some()
                && repeats.mark(3, one, b"hallo", 6 * MS).is_some()
        );
        // A source has its own entries, whatever others send.
        for n in 0..1000_u32 {
            let mark = repeats
                .mark(2, one, &n.to_be_bytes(), 7 * MS)
                .expect("it is new");
            repeats.remember(2, mark, 7 * MS);
        }
        assert_eq!(repeats.mark(3, one, b"hello", 8 * MS), None);
    }

    #[test]
    fn a_crowd_that_goes_round_dies_out() {
        let mut repeats = Repeats::new(1, KNOWN);
        let mut round: Vec<u32> = (0..1000).collect();
        for cycle in 0..40 {
            let now = (1 + cycle) * 600 * MS;
            round.retain(|n| {
                let mark = repeats.mark(0, at([192, 0, 2, 1], 4000), &n.to_be_bytes(), now);
                if let Some(mark) = mark {
                    repeats.remember(0, mark, now);
                }
                mark.is_some()
            });
        }
        assert!(round.len() < 1000 - 15 * KNOWN, "{} are left", round.len());
    }

    /// For two seconds, an attacker sends 300 datagrams per millisecond to one echo with the
    /// address of another as the source. Each echo answers 1 ms after it receives a datagram.
    /// Returns the number of answers of both in that time, and afterwards.
    fn storm(ports: (u16, u16), payload: impl Fn(u64) -> Vec<u8>) -> (u64, u64) {
        let addresses = [at([192, 0, 2, 1], ports.0), at([198, 51, 100, 1], ports.1)];
        let payers = addresses.map(|_| Payer::Source(Accounts::new(Limits::default())));
        let mut echoes = addresses.map(|at| Echoed::new(at.port()));
        // Datagrams in transit: time of arrival, destination, and bytes.
        let mut flying: VecDeque<(u64, usize, Vec<u8>)> = VecDeque::new();
        let (mut during, mut after, mut sent) = (0, 0, 0);
        for now in (5000..12_000_u64).map(|n| n * MS) {
            let attacked = now < 7000 * MS;
            while flying.front().is_some_and(|(due, ..)| *due <= now) {
                let Some((_, to, bytes)) = flying.pop_front() else {
                    break;
                };
                let from = addresses[1 - to];
                if echoes[to].permit(&payers[to], from, &bytes, now).is_some() {
                    *(if attacked { &mut during } else { &mut after }) += 1;
                    flying.push_back((now + MS, 1 - to, bytes));
                }
            }
            for _ in 0..300 * u64::from(attacked) {
                sent += 1;
                flying.push_back((now + MS, (sent % 2) as usize, payload(sent)));
            }
        }
        assert!(flying.is_empty(), "{} still go round", flying.len());
        (during, after)
    }

    #[test]
    fn two_echoes_whose_tables_are_full_stop_answering_each_other() {
        for ports in [(7777, 7778), (7778, 7777), (7777, 7777)] {
            // At most one of the two echoes answers questions without the limit; the other one
            // answers 100 per second.
            let (during, after) = storm(ports, |n| question(n).to_vec());
            assert!(during <= 300_000 + 4 * 2 * 111, "{ports:?}: {during}");
            assert!(after <= 2 * 300 + 2 * 111, "{ports:?}: {after}");
            let (during, after) = storm(ports, |n| n.to_be_bytes().to_vec());
            assert!(
                during <= 2 * 2 * 111 && after <= 2 * 111,
                "{ports:?}: {during}, {after}"
            );
        }
    }
}
