//! Aggregation: many frames in one transmission, answered by one block ACK that tells which have
//! arrived.
//!
//! ```text
//!   A-MPDU = (delimiter 4 · frame · padding to 4)…     frame = QoS header 26 · LLC 8 · payload · FCS 4
//! ```
//!
//! Law: a transmission holds frames up to the first of 64 of them, so many bytes, so long on the
//! air. Frames are numbered; none is sent whose number is 64 or more beyond the oldest that is
//! neither acknowledged nor given up. What the block ACK misses is sent again, before what was
//! never sent, and given up after [`SOFTWARE_RETRIES`]. The receiver hands frames on in the order
//! of their numbers: one that is missing holds up those behind it until it comes or is given up.
//!
//! Sources: IEEE 802.11-2016, 9.7 (A-MPDU), 10.24 (block ACK); Linux 6.12 ath9k (4 ms, 30 retries).
//! Deviations: nothing is encrypted; frames need no distance from each other; answers are not lost;
//! that a frame was given up reaches the receiver at once and free of charge (802.11 sends a
//! BlockAckReq); mac80211 does not wait for a missing frame beyond 100 ms, here it is waited for.

use super::minstrel::Chain;
use super::phy::Phy;
use crate::units::{Bytes, Span};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Frames of one block ACK window.
pub const WINDOW: u64 = 64;
/// So often a frame that the block ACK missed is sent again.
pub const SOFTWARE_RETRIES: u8 = 30;

const DELIMITER: u64 = 4;
/// QoS header, LLC/SNAP and FCS, less the 14 bytes of Ethernet header that they replace.
const MORE_THAN_ETHERNET: u64 = 26 + 8 + 4 - 14;

/// What a frame of Ethernet is on the air, single.
pub fn mpdu(frame: Bytes) -> Bytes {
    frame + Bytes::new(MORE_THAN_ETHERNET)
}

/// How large a transmission becomes by one more frame.
pub fn joined(so_far: Bytes, mpdu: Bytes) -> Bytes {
    Bytes::new(so_far.get().next_multiple_of(4) + DELIMITER) + mpdu
}

/// What one transmission may be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Frames, at most [`WINDOW`].
    pub frames: u64,
    /// Bytes on the air; the standard's own limit holds as well.
    pub bytes: Bytes,
    /// How long its symbols last.
    pub duration: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frames: WINDOW,
            bytes: Bytes::new(1_048_575),
            duration: Span::ms(4),
        }
    }
}

/// A frame on its way to the air.
#[derive(Clone, Debug)]
pub struct Mpdu<P> {
    /// What it carries.
    pub packet: P,
    /// Its number.
    pub number: u64,
    /// How often a block ACK has missed it.
    pub retries: u8,
    /// Has its first transmission come to its turn?
    pub aired: bool,
    /// The time on the air that it was estimated to take, as long as that is pending.
    pub estimate: Span,
}

/// One transmission.
#[derive(Clone, Debug)]
pub struct Ppdu<P> {
    /// To which of its host's peers.
    pub peer: usize,
    /// How it is sent: now, and by the number of that rate and those that follow, where a control
    /// chose them.
    pub phy: Phy,
    /// The rate's number.
    pub rate: u8,
    /// Those of all tries.
    pub chain: Chain,
    /// Its frames.
    pub frames: Vec<Mpdu<P>>,
    /// Bytes on the air.
    pub bytes: Bytes,
    /// Is it an aggregate, which a block ACK answers?
    pub block: bool,
    /// Was its receiver able to take aggregates?
    pub aggregates: bool,
}

/// The sender's window: which numbers may be sent.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The oldest number that is open.
    start: u64,
    /// Which from there on are not: acknowledged or given up.
    closed: u64,
    next: u64,
}

impl Window {
    /// How many numbers more may be sent.
    pub fn free(&self) -> u64 {
        WINDOW - (self.next - self.start).min(WINDOW)
    }
    /// May another number be sent?
    pub fn is_open(&self) -> bool {
        self.free() > 0
    }
    /// The next number.
    pub fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
    /// A number was acknowledged or given up.
    pub fn close(&mut self, number: u64) {
        let place = number.saturating_sub(self.start);
        if number >= self.start && place < WINDOW {
            self.closed |= 1 << place;
        }
        while self.closed & 1 != 0 {
            self.closed >>= 1;
            self.start += 1;
        }
    }
}

/// What the receiver knows of a number.
#[derive(Clone, Debug)]
enum Place<P> {
    Missing,
    GivenUp,
    Here(P),
}

/// The receiver's buffer.
#[derive(Clone, Debug)]
pub struct Reorder<P> {
    /// The number of its first place.
    next: u64,
    places: VecDeque<Place<P>>,
}

impl<P> Default for Reorder<P> {
    fn default() -> Reorder<P> {
        Reorder {
            next: 0,
            places: VecDeque::new(),
        }
    }
}

impl<P> Reorder<P> {
    /// A frame has arrived; what is in order goes to `up`.
    pub fn arrives(&mut self, number: u64, packet: P, up: &mut Vec<P>) {
        self.put(number, Place::Here(packet), up);
    }
    /// A frame will not arrive.
    pub fn given_up(&mut self, number: u64, up: &mut Vec<P>) {
        self.put(number, Place::GivenUp, up);
    }
    /// Frames that wait for one before them.
    pub fn waiting(&self) -> usize {
        self.places
            .iter()
            .filter(|place| matches!(place, Place::Here(_)))
            .count()
    }
    fn put(&mut self, number: u64, place: Place<P>, up: &mut Vec<P>) {
        let Some(at) = number.checked_sub(self.next).filter(|at| *at < WINDOW) else {
            return;
        };
        let at = at as usize;
        while self.places.len() <= at {
            self.places.push_back(Place::Missing);
        }
        self.places[at] = place;
        while let Some(Place::GivenUp | Place::Here(_)) = self.places.front() {
            self.next += 1;
            if let Some(Place::Here(packet)) = self.places.pop_front() {
                up.push(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_two_full_frames_fill_an_aggregate_of_802_11n() {
        let frame = mpdu(Bytes::new(1514));
        assert_eq!(frame, Bytes::new(1538));
        let sizes = (0..64).scan(Bytes::ZERO, |size, _| {
            *size = joined(*size, frame);
            Some(*size)
        });
        assert_eq!(
            sizes.take_while(|size| *size <= Bytes::new(65_535)).count(),
            42
        );
    }

    #[test]
    fn a_frame_begins_at_a_multiple_of_four_bytes() {
        let joined = |so_far, frame| joined(Bytes::new(so_far), Bytes::new(frame)).get();
        assert_eq!((joined(0, 1538), joined(1542, 100)), (1542, 1544 + 4 + 100));
    }

    #[test]
    fn the_window_moves_with_its_oldest_number() {
        let mut window = Window::default();
        let taken: Vec<u64> =
            core::iter::from_fn(|| window.is_open().then(|| window.take())).collect();
        assert_eq!(taken, (0..64).collect::<Vec<_>>());
        (1..64).for_each(|number| window.close(number));
        assert!(!window.is_open());
        window.close(0);
        assert_eq!((window.start, window.take()), (64, 64));
    }

    #[test]
    fn frames_go_up_in_order_and_over_gaps_that_were_given_up() {
        let (mut reorder, mut up) = (Reorder::default(), Vec::new());
        for number in [1, 3, 0] {
            reorder.arrives(number, number, &mut up);
        }
        assert_eq!((up.as_slice(), reorder.waiting()), (&[0, 1][..], 1));
        reorder.given_up(2, &mut up);
        assert_eq!((up.as_slice(), reorder.waiting()), (&[0, 1, 3][..], 0));
    }
}
