//! What travels between a sender and a receiver.
//!
//! Sequence numbers are byte offsets in the stream as `u64`: they never wrap. SYN and FIN take no
//! sequence space here; they are flags.

use crate::packet::{Congestion, Ecn, Feedback};
use crate::transport::{HEADERS, MSS};
use crate::units::{Bytes, Time};

/// The most payload of a super-packet: 64 KiB with its headers.
pub const MOST_PAYLOAD: u32 = 65_535 - HEADERS as u32;
/// A SYN or SYN-ACK with its options.
pub const SYN_SIZE: u64 = 74;
/// The most SACK blocks that fit beside timestamps.
pub const MAX_SACKS: usize = 3;

/// Bytes `[start, end)` of the stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// From the sender to the receiver: data, a SYN, or the ACK that ends the handshake (`len` 0, no
/// flag).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Offset of the first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// The sender's timestamp clock, in ms.
    pub tsval: u32,
    /// Echo of the receiver's timestamp that arrived last.
    pub tsecr: u32,
    /// Opens the connection.
    pub syn: bool,
    /// The end of a write: the receiver should not sit on its ACK.
    pub psh: bool,
    /// Left the sender in one super-packet with the segment before it.
    pub joined: bool,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
    /// The sender has reduced its window (CWR). On a SYN, with ECE: it asks for ECN.
    pub cwr: bool,
    /// When it may leave its host, where that has an interface that paces; zero is at once.
    pub departs: Time,
    /// What it tells routers and hears from them, where its law asks for that.
    pub congestion: Option<Congestion>,
}

impl Segment {
    /// Bytes on the wire; of a super-packet, those of the segments that it is cut into at last.
    pub fn size(&self) -> Bytes {
        Bytes::new(match self.len {
            _ if self.syn => SYN_SIZE,
            len if len <= MSS => HEADERS + u64::from(len),
            len => HEADERS * u64::from(len.div_ceil(MSS)) + u64::from(len),
        })
    }
    /// Joins the segment behind this one to it: a super-packet on its way. False when it does not
    /// fit.
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

/// ECN in an ACK beside ECE, in one byte: the ACE field and the bits of its IP header.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct AckMarks(u8);

impl AckMarks {
    /// `ace`: marked packets that have arrived, and five more, modulo eight, where they are counted
    /// (RFC 9768).
    pub fn new(ace: u8, ecn: Ecn) -> AckMarks {
        let bits = match ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        AckMarks(ace & 0b111 | bits << 3)
    }
    /// The ACE field.
    pub fn ace(self) -> u8 {
        self.0 & 0b111
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

/// From the receiver to the sender, frozen when it was sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct AckSegment {
    /// Every byte below has arrived.
    pub ack: u64,
    /// Bytes the receiver can take beyond `ack`.
    pub window: u64,
    /// The receiver's timestamp clock, in ms.
    pub tsval: u32,
    /// Echo of the timestamp of the segment that advanced the window's left edge.
    pub tsecr: u32,
    /// How many of `sacks` are valid.
    pub n_sacks: u8,
    /// SACK blocks, newest first; the first is a DSACK when it reports duplicate data.
    pub sacks: [Range; MAX_SACKS],
    /// Answers a SYN.
    pub syn: bool,
    /// A marked segment has arrived (ECE). With `syn`: agrees to ECN.
    pub ece: bool,
    /// What it says of counted marks, and its own ECN bits.
    pub marks: AckMarks,
    /// What routers wrote into the segments that arrived since the last ACK, all together.
    pub feedback: Feedback,
}

impl AckSegment {
    /// Bytes on the wire: 66, and 12, 20, 28 more with 1, 2, 3 SACK blocks.
    pub fn size(&self) -> Bytes {
        Bytes::new(match (self.syn, self.n_sacks) {
            (true, _) => SYN_SIZE,
            (_, 0) => HEADERS,
            (_, n) => HEADERS + 4 + 8 * u64::from(n),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousands of them are under way at once.
    #[test]
    fn an_ack_has_not_grown() {
        assert_eq!(core::mem::size_of::<AckSegment>(), 80);
    }
}
