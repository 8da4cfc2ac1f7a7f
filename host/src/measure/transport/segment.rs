//! Segments and ACKs of narrows' own TCP as UDP datagrams.
//!
//! All numbers are big-endian. A datagram of data has as many header bytes as a TCP segment with
//! timestamps, IP and UDP headers included. Payload and size on the wire are therefore those of a
//! segment of the kernel.
//!
//! | bytes | all datagrams | | bytes | ACKs only |
//! |---|---|---|---|---|
//! | 0–7 | key of the flow | | 24 | marks: ACE, ECN, counters |
//! | 8 | flags | | 25 | number of SACK blocks |
//! | 9 | zero | | 26–27 | zero |
//! | 10–15 | sequence number, or acknowledged byte | | 28–31 | window, bytes |
//! | 16–19 | timestamp, ms | | 32– | ranges of two 48-bit numbers: one per SACK block, or three |
//! | 20–23 | echoed timestamp, ms | | | |
//!
//! With byte counters of accurate ECN in its marks, an ACK has three ranges, of which the last one
//! holds the counters.
//!
//! The contents are untrusted: every combination of bytes is a valid segment or ACK, or is rejected
//! here. [`super::flow`] rejects those outside of the window.

use crate::sys::datagram::{HEADER, header};
use narrows_core::packet::Ecn;
use narrows_core::tcp::wire::{AckMarks, AckSegment, MAX_SACKS, Range, Segment};

/// The secret of a flow, by which its datagrams are recognised.
pub type Key = [u8; 8];

/// Length of the header of a datagram with data, bytes.
pub const DATA: usize = 24;
/// Length of an ACK without ranges, bytes.
const ACK: usize = 32;
/// Length of a range, bytes.
const RANGE: usize = 12;

const SYN: u8 = 1;
const PSH: u8 = 2;
const CWR: u8 = 4;
const ECE: u8 = 8;
const IS_ACK: u8 = 16;
const KNOWN: u8 = SYN | PSH | CWR | ECE | IS_ACK;

/// A datagram of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// From the sender.
    Data(Segment),
    /// From the receiver.
    Ack(AckSegment),
}

fn put(to: &mut [u8], number: u64) {
    let n = to.len();
    to.copy_from_slice(&number.to_be_bytes()[8 - n..]);
}

fn number(from: &[u8]) -> u64 {
    from.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Encodes the header of a segment.
pub fn of_segment(key: &Key, segment: &Segment) -> [u8; HEADER] {
    let mut bytes = header(key);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes[8] = flag(segment.syn, SYN) | flag(segment.psh, PSH) | flag(segment.cwr, CWR);
    // A SYN with CWR and ECE requests ECN; the sender sets `cwr` for both.
    put(&mut bytes[10..16], segment.seq);
    put(&mut bytes[16..20], segment.tsval.into());
    put(&mut bytes[20..24], segment.tsecr.into());
    bytes
}

/// The number of ranges in an ACK.
fn ranges(n_sacks: u8, counters: u8) -> usize {
    if counters > 0 {
        MAX_SACKS
    } else {
        n_sacks.into()
    }
}

/// Length of an ACK, bytes.
pub fn ack_len(ack: &AckSegment) -> usize {
    ACK + RANGE * ranges(ack.n_sacks, ack.marks.counters())
}

/// Encodes an ACK.
pub fn of_ack(key: &Key, ack: &AckSegment) -> [u8; HEADER] {
    let mut bytes = header(key);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes[8] = IS_ACK | flag(ack.syn, SYN) | flag(ack.ece, ECE);
    put(&mut bytes[10..16], ack.ack);
    put(&mut bytes[16..20], ack.tsval.into());
    put(&mut bytes[20..24], ack.tsecr.into());
    bytes[24] = ack.marks.ace() | ack.marks.counters() << 3;
    bytes[25] = ack.n_sacks;
    put(&mut bytes[28..32], ack.window.min(u32::MAX.into()));
    let n = ranges(ack.n_sacks, ack.marks.counters());
    for (i, range) in ack.sacks[..n].iter().enumerate() {
        let at = ACK + RANGE * i;
        put(&mut bytes[at..at + 6], range.start);
        put(&mut bytes[at + 6..at + 12], range.end);
    }
    bytes
}

/// Decodes a datagram from its first bytes; `None` if it does not belong to the flow with this key.
/// `len`: its length; `ecn`: its ECN bits at arrival.
pub fn read(key: &Key, bytes: &[u8], len: usize, ecn: Ecn) -> Option<Datagram> {
    let head = bytes.first_chunk::<DATA>()?;
    // The comparison takes the same time for every wrong key.
    let differ = head.iter().zip(key).fold(0, |all, (a, b)| all | (a ^ b));
    if differ != 0 || head[8] & !KNOWN != 0 || head[9] != 0 {
        return None;
    }
    let set = |flag: u8| head[8] & flag != 0;
    let (place, tsval) = (number(&head[10..16]), number(&head[16..20]) as u32);
    let tsecr = number(&head[20..24]) as u32;
    if !set(IS_ACK) {
        return Some(Datagram::Data(Segment {
            seq: place,
            len: u32::try_from(len.checked_sub(DATA)?).ok()?,
            tsval,
            tsecr,
            syn: set(SYN),
            psh: set(PSH),
            cwr: set(CWR),
            ecn,
            ..Segment::default()
        }));
    }
    let marks = bytes.first_chunk::<ACK>()?[24];
    let (counters, n_sacks) = (marks >> 3 & 0b11, bytes[25]);
    let room = MAX_SACKS - usize::from(counters > 0);
    if marks >> 5 != 0 || counters == 1 || usize::from(n_sacks) > room {
        return None;
    }
    let n = ranges(n_sacks, counters);
    let bytes = bytes.get(..ACK + RANGE * n).filter(|b| b.len() == len)?;
    let mut sacks = [Range::default(); MAX_SACKS];
    for (i, range) in sacks[..n].iter_mut().enumerate() {
        let at = ACK + RANGE * i;
        range.start = number(&bytes[at..at + 6]);
        range.end = number(&bytes[at + 6..at + 12]);
    }
    Some(Datagram::Ack(AckSegment {
        ack: place,
        window: number(&bytes[28..32]),
        tsval,
        tsecr,
        n_sacks,
        sacks,
        syn: set(SYN),
        ece: set(ECE),
        marks: AckMarks::new(marks & 0b111, ecn).with_counters(counters),
        ..AckSegment::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = *b"flow key";

    #[test]
    fn a_datagram_has_the_payload_of_a_tcp_segment() {
        const IP_AND_UDP: usize = 28;
        let payload = narrows_core::tcp::MSS as usize;
        assert_eq!(IP_AND_UDP + DATA + payload, 1500);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let segment = Segment {
            seq: 1 << 40,
            len: 1448,
            tsval: 7,
            tsecr: u32::MAX,
            psh: true,
            ecn: Ecn::Ce,
            ..Segment::default()
        };
        let bytes = of_segment(&KEY, &segment);
        let read_again = read(&KEY, &bytes, DATA + 1448, Ecn::Ce);
        assert_eq!(read_again, Some(Datagram::Data(segment)));
        assert_eq!(read(b"no key  ", &bytes, DATA + 1448, Ecn::Ce), None);
        let mut ack = AckSegment {
            ack: (1 << 48) - 1,
            window: 65_535,
            tsval: 3,
            tsecr: 9,
            n_sacks: 3,
            ece: true,
            marks: AckMarks::new(5, Ecn::Ect1),
            ..AckSegment::default()
        };
        for (i, range) in ack.sacks.iter_mut().enumerate() {
            (range.start, range.end) = (i as u64, 1 << 41);
        }
        let (bytes, len) = (of_ack(&KEY, &ack), ack_len(&ack));
        assert_eq!(read(&KEY, &bytes, len, Ecn::Ect1), Some(Datagram::Ack(ack)));
        // An AccECN option takes the place of a block.
        let mut with_option = bytes;
        with_option[24] |= 3 << 3;
        assert_eq!(read(&KEY, &with_option, len, Ecn::Ect1), None);
        assert_eq!(read(&KEY, &bytes[..len - 1], len - 1, Ecn::Ect1), None);
        assert_eq!(read(&KEY, &bytes, len + 1, Ecn::Ect1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_rejected(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), len in 0..70_000_usize
        ) {
            let _ = read(&KEY, &bytes, len, Ecn::NotEct);
            let mut ours = KEY.to_vec();
            ours.extend(&bytes);
            if let Some(Datagram::Ack(ack)) = read(&KEY, &ours, ours.len(), Ecn::NotEct) {
                let again = of_ack(&KEY, &ack);
                let read_again = read(&KEY, &again, ack_len(&ack), Ecn::NotEct);
                prop_assert_eq!(read_again, Some(Datagram::Ack(ack)));
            }
        }
    }
}
