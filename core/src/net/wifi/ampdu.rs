//! Aggregation: many frames in one transmission (A-MPDU), acknowledged by one block ACK.
//!
//! ```text
//!   A-MPDU = (delimiter 4 · frame · padding to 4)…    frame = QoS 26 · LLC 8 · payload · FCS 4
//! ```
//!
//! Algorithm: a transmission holds frames up to three limits: 64 frames, a number of bytes, and a
//! duration. Frames are numbered. Consider the oldest frame that is neither acknowledged nor given
//! up. A frame whose number is larger by 64 or more must wait. Frames that the block ACK misses are
//! retransmitted before new frames, and given up after [`SOFTWARE_RETRIES`]. The receiver delivers
//! frames in the order of their numbers: a missing frame holds up later ones until it arrives or is
//! given up.
//!
//! Sources: IEEE 802.11-2016, 9.7 (A-MPDU), 10.24 (block ACK); Linux 6.12 ath9k (4 ms, 30 retries).
//!
//! Deviations: there is no encryption; frames need no minimum spacing; block ACKs are not lost. The
//! receiver learns without delay and airtime that a frame was given up (802.11: BlockAckReq). The
//! receiver's wait for a missing frame is not limited (mac80211: 100 ms).

use super::minstrel::Chain;
use super::phy::Phy;
use crate::units::{Bytes, Span};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Frames of one block ACK window.
pub const WINDOW: u64 = 64;
/// The number of retransmissions after which a frame that block ACKs miss is given up.
pub const SOFTWARE_RETRIES: u8 = 30;

const DELIMITER: u64 = 4;
/// QoS header, LLC/SNAP and FCS, minus the 14 bytes of Ethernet header that they replace.
const MORE_THAN_ETHERNET: u64 = 26 + 8 + 4 - 14;

/// The size of a single Ethernet frame on the air.
pub fn mpdu(frame: Bytes) -> Bytes {
    frame + Bytes::new(MORE_THAN_ETHERNET)
}

/// The size of a transmission with one more frame.
pub fn joined(so_far: Bytes, mpdu: Bytes) -> Bytes {
    Bytes::new(so_far.get().next_multiple_of(4) + DELIMITER) + mpdu
}

/// The limits of a transmission.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Frames, at most [`WINDOW`].
    pub frames: u64,
    /// Bytes on the air; the standard's own limit holds as well.
    pub bytes: Bytes,
    /// Duration of its symbols.
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

/// A frame before or during its transmission.
#[derive(Clone, Debug)]
pub struct Mpdu<P> {
    /// The packet that it carries.
    pub packet: P,
    /// The number of the frame.
    pub number: u64,
    /// The number of block ACKs that reported the frame as missing.
    pub retries: u8,
    /// Whether its first transmission has started.
    pub aired: bool,
    /// The estimated airtime of the frame, while that is pending.
    pub estimate: Span,
}

/// One transmission.
#[derive(Clone, Debug)]
pub struct Ppdu<P> {
    /// The peer, by its number at the host.
    pub peer: usize,
    /// The rate of the transmission. `rate` and `chain` are the numbers of this rate and of those
    /// for later tries, if a rate control chose them.
    pub phy: Phy,
    /// The number of the rate.
    pub rate: u8,
    /// The rates of all tries.
    pub chain: Chain,
    /// The frames of the transmission.
    pub frames: Vec<Mpdu<P>>,
    /// Bytes on the air.
    pub bytes: Bytes,
    /// Whether the transmission is an aggregate, which a block ACK acknowledges.
    pub block: bool,
    /// Whether the transmission may be an aggregate: the receiver supports aggregation, and the
    /// category is not voice.
    pub aggregates: bool,
}

/// The sender's window of frame numbers.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The oldest open number.
    start: u64,
    /// A bit for each number from `start` on: whether it is closed (acknowledged or given up).
    closed: u64,
    next: u64,
}

impl Window {
    /// Returns how many more numbers may be used.
    pub fn free(&self) -> u64 {
        WINDOW - (self.next - self.start).min(WINDOW)
    }
    /// Returns whether another number may be used.
    pub fn is_open(&self) -> bool {
        self.free() > 0
    }
    /// Takes the next number.
    pub fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
    /// Closes a number: it was acknowledged or given up.
    pub fn close(&mut self, number: u64) {
        let slot = number.saturating_sub(self.start);
        if number >= self.start && slot < WINDOW {
            self.closed |= 1 << slot;
        }
        while self.closed & 1 != 0 {
            self.closed >>= 1;
            self.start += 1;
        }
    }
}

/// The receiver's state of one frame number.
#[derive(Clone, Debug)]
enum Slot<P> {
    Missing,
    GivenUp,
    Here(P),
}

/// The receiver's reordering buffer.
#[derive(Clone, Debug)]
pub struct Reorder<P> {
    /// The number of its first slot.
    next: u64,
    slots: VecDeque<Slot<P>>,
}

impl<P> Default for Reorder<P> {
    fn default() -> Reorder<P> {
        Reorder {
            next: 0,
            slots: VecDeque::new(),
        }
    }
}

impl<P> Reorder<P> {
    /// Takes an arriving frame; frames that are then in order go to `up`.
    pub fn arrives(&mut self, number: u64, packet: P, up: &mut Vec<P>) {
        self.put(number, Slot::Here(packet), up);
    }
    /// Skips a frame that will not arrive; frames that are then in order go to `up`.
    pub fn given_up(&mut self, number: u64, up: &mut Vec<P>) {
        self.put(number, Slot::GivenUp, up);
    }
    /// Number of frames that wait for an earlier one.
    pub fn waiting(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| matches!(slot, Slot::Here(_)))
            .count()
    }
    fn put(&mut self, number: u64, slot: Slot<P>, up: &mut Vec<P>) {
        let Some(at) = number.checked_sub(self.next).filter(|at| *at < WINDOW) else {
            return;
        };
        let at = at as usize;
        while self.slots.len() <= at {
            self.slots.push_back(Slot::Missing);
        }
        self.slots[at] = slot;
        while let Some(Slot::GivenUp | Slot::Here(_)) = self.slots.front() {
            self.next += 1;
            if let Some(Slot::Here(packet)) = self.slots.pop_front() {
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
    fn frames_are_delivered_in_order_and_abandoned_gaps_are_skipped() {
        let (mut reorder, mut up) = (Reorder::default(), Vec::new());
        for number in [1, 3, 0] {
            reorder.arrives(number, number, &mut up);
        }
        assert_eq!((up.as_slice(), reorder.waiting()), (&[0, 1][..], 1));
        reorder.given_up(2, &mut up);
        assert_eq!((up.as_slice(), reorder.waiting()), (&[0, 1, 3][..], 0));
    }
}
