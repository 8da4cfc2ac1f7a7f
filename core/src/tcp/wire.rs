//! Segments and ACKs between a sender and a receiver.
//!
//! Sequence numbers are byte offsets in the stream as `u64`: they never wrap. A SYN uses no
//! sequence space here, and there is no FIN.

use crate::packet::{Congestion, Ecn, Feedback};
use crate::transport::{ACCECN_OPTION, HEADERS, TIMESTAMPS, TcpOptions};
use crate::units::{Bytes, Time};

/// Maximum payload of a super-packet, bytes: 64 KiB with its headers.
pub const MOST_PAYLOAD: u32 = 65_535 - HEADERS as u32;
/// Bytes on the wire of a SYN or SYN-ACK with its options, except the AccECN option.
pub const SYN_SIZE: u64 = 74;
/// The same without timestamps, whose option shares two bytes of padding with that of SACK.
pub const SYN_SIZE_BARE: u64 = SYN_SIZE - 8;
/// Maximum number of SACK blocks beside timestamps.
pub const MAX_SACKS: usize = 3;

/// Bytes `[start, end)` of the stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// The byte after the last byte.
    pub end: u64,
}

/// The SYN-ACKs that a listening end sent.
#[derive(Copy, Clone, Debug, Default)]
pub struct SynAcks {
    /// The time of the first one.
    pub first: Time,
    /// Number of the further ones.
    pub repeats: u32,
    /// Number of those that the timer sent; the others answered repeated SYNs.
    pub timeouts: u32,
}

/// A segment from the sender to the receiver: data, a SYN, or the ACK that ends the handshake
/// (`len` 0, no flag).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Offset of the first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// The sender's timestamp clock, in ms.
    pub tsval: u32,
    /// Echo of the receiver's newest timestamp.
    pub tsecr: u32,
    /// Opens the connection.
    pub syn: bool,
    /// The end of a write (PSH): the receiver should not delay its ACK.
    pub psh: bool,
    /// The segment left the sender in one super-packet with the segment before it.
    pub joined: bool,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
    /// The sender has reduced its window (CWR). On a SYN, with ECE: a request for ECN.
    pub cwr: bool,
    /// The TCP options of the segment. Of a SYN: those that it requests.
    pub options: TcpOptions,
    /// Earliest departure time of the segment, if its host has an interface that paces; zero means
    /// at once.
    pub departs: Time,
    /// The congestion header, if the congestion control of the sender uses one.
    pub congestion: Option<Congestion>,
}

impl Segment {
    /// Bytes on the wire; for a super-packet the sum of its segments.
    pub fn size(&self) -> Bytes {
        let (headers, payload) = (self.options.headers(), self.options.payload());
        Bytes::new(match self.len {
            _ if self.syn && !self.options.has_timestamps() => SYN_SIZE_BARE,
            _ if self.syn => SYN_SIZE,
            len if len <= payload => headers + u64::from(len),
            len => headers * u64::from(len.div_ceil(payload)) + u64::from(len),
        })
    }
    /// Removes the first `full` bytes of a super-packet, and returns them as a segment. The rest is
    /// empty if they are all.
    #[inline]
    pub fn take_part(&mut self, full: u32) -> Segment {
        let len = self.len.min(full);
        let part = Segment {
            len,
            psh: self.psh && len == self.len,
            ..*self
        };
        self.seq += u64::from(len);
        self.len -= len;
        self.joined = true;
        self.cwr = false;
        part
    }
    /// Appends the next segment to this one, as in a super-packet. Returns false if the next
    /// segment does not fit.
    pub fn join(&mut self, next: &Segment) -> bool {
        let fits = next.joined
            && next.seq == self.seq + u64::from(self.len)
            && self.len + next.len <= MOST_PAYLOAD;
        if fits {
            self.len += next.len;
            self.psh |= next.psh;
        }
        fits
    }
}

/// ECN of an ACK except ECE, in one byte: the ACE field and the ECN bits of its IP header. The byte
/// also contains the number of counters in the AccECN option, and whether the ACK lacks timestamps.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct AckMarks(u8);

impl AckMarks {
    /// `ace`: the number of marked packets that have arrived plus five, modulo eight, if they are
    /// counted (RFC 9768).
    pub fn new(ace: u8, ecn: Ecn) -> AckMarks {
        let bits = match ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        AckMarks(ace & 0b111 | bits << 3)
    }
    /// Returns these marks with an AccECN option of two or three counters; with `counters` 0,
    /// without the option.
    pub fn with_counters(self, counters: u8) -> AckMarks {
        AckMarks(self.0 & 0b1001_1111 | counters << 5)
    }
    /// Returns these marks for an ACK with (`stamped`) or without timestamps.
    pub fn with_timestamps(self, stamped: bool) -> AckMarks {
        AckMarks(self.0 & 0b111_1111 | u8::from(!stamped) << 7)
    }
    /// Returns whether the ACK has timestamps.
    pub fn has_timestamps(self) -> bool {
        self.0 >> 7 == 0
    }
    /// The ACE field.
    pub fn ace(self) -> u8 {
        self.0 & 0b111
    }
    /// The number of counters in the AccECN option, 0 without the option. The order of the counters
    /// in the option: bytes with ECT(1), CE and ECT(0).
    pub fn counters(self) -> u8 {
        self.0 >> 5 & 0b11
    }
    /// The ECN bits of its IP header.
    pub fn ecn(self) -> Ecn {
        match self.0 >> 3 & 0b11 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// Payload bytes that arrived with each ECN code point: the counters of an AccECN option, without
/// their initial values. The option carries the low 24 bits of each counter.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct MarkedBytes {
    /// With ECT(0).
    pub ect0: u32,
    /// With CE.
    pub ce: u32,
}

/// An acknowledgement from the receiver to the sender, with the receiver's values at the time it
/// leaves.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct AckSegment {
    /// Every byte below has arrived.
    pub ack: u64,
    /// Bytes that the receiver accepts beyond `ack`.
    pub window: u64,
    /// The receiver's timestamp clock, in ms.
    pub tsval: u32,
    /// Echo of the newest timestamp of a segment that arrived at or below the acknowledged edge.
    pub tsecr: u32,
    /// Number of valid `sacks`.
    pub n_sacks: u8,
    /// SACK blocks, newest first; the first is a DSACK when it reports duplicate data. An AccECN
    /// option leaves room for two blocks. With this option, the last entry of `sacks` holds the
    /// option's counters ([`bytes`](Self::bytes)).
    pub sacks: [Range; MAX_SACKS],
    /// The ACK is the answer to a SYN.
    pub syn: bool,
    /// A marked segment has arrived (ECE). With `syn`: agreement to ECN.
    pub ece: bool,
    /// The ACE field, which counts marks, and the ECN bits of the ACK's own IP header.
    pub marks: AckMarks,
    /// The sum of the routers' feedback in the segments since the last ACK.
    pub feedback: Feedback,
}

impl AckSegment {
    /// Bytes on the wire: 74 for the answer to a SYN, otherwise 66, plus 12, 20 or 28 with 1, 2 or
    /// 3 SACK blocks. An AccECN option of three or two counters adds 12 or 8. Without timestamps,
    /// the answer to a SYN has 8 bytes less, and other ACKs have 12 bytes less.
    pub fn size(&self) -> Bytes {
        let mut plain = match (self.syn, self.n_sacks) {
            (true, _) => SYN_SIZE,
            (_, 0) => HEADERS,
            (_, n) => HEADERS + 4 + 8 * u64::from(n),
        };
        if !self.marks.has_timestamps() {
            plain -= if self.syn {
                SYN_SIZE - SYN_SIZE_BARE
            } else {
                TIMESTAMPS
            };
        }
        Bytes::new(match self.marks.counters() {
            0 => plain,
            3 => plain + ACCECN_OPTION,
            _ => plain + ACCECN_OPTION - 4,
        })
    }
    /// Returns this ACK with `counters` counters of an AccECN option; if there are any, `n_sacks`
    /// is below [`MAX_SACKS`].
    pub fn with_option(mut self, counters: u8, bytes: MarkedBytes) -> AckSegment {
        if counters > 0 {
            self.marks = self.marks.with_counters(counters);
            self.sacks[MAX_SACKS - 1] = Range {
                start: u64::from(bytes.ect0),
                end: u64::from(bytes.ce),
            };
        }
        self
    }
    /// The byte counters of the ACK's AccECN option; `None` without the option.
    pub fn bytes(&self) -> Option<MarkedBytes> {
        let place = self.sacks[MAX_SACKS - 1];
        (self.marks.counters() > 0).then_some(MarkedBytes {
            ect0: place.start as u32,
            ce: place.end as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 7.3: a full segment has 1436 bytes of payload in a frame of 1514, and an ACK 78 bytes.
    #[test]
    fn the_accecn_option_reduces_the_payload() {
        let segment = |len: u32| Segment {
            len,
            options: TcpOptions::AccEcn,
            ..Segment::default()
        };
        let sizes = [0, 1436, 2 * 1436 + 1].map(|len| segment(len).size().get());
        assert_eq!(sizes, [78, 1514, 2 * 1514 + 79]);
        let ack = |n_sacks: u8, counters: u8| {
            let ack = AckSegment {
                n_sacks,
                ..AckSegment::default()
            };
            ack.with_option(counters, MarkedBytes { ect0: 7, ce: 9 })
        };
        let sizes = [(0, 0), (0, 3), (1, 3), (2, 2), (3, 0)].map(|(n, c)| ack(n, c).size().get());
        assert_eq!(sizes, [66, 78, 90, 94, 94]);
        assert_eq!(ack(2, 2).bytes(), Some(MarkedBytes { ect0: 7, ce: 9 }));
        assert_eq!(ack(2, 0).bytes(), None);
    }

    /// The size in memory matters, because thousands of ACKs are in flight at once.
    #[test]
    fn an_ack_has_not_grown() {
        assert_eq!(core::mem::size_of::<AckSegment>(), 80);
    }
}
