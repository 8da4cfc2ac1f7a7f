//! The interface of a packet for queue disciplines and links.

use crate::units::{Bytes, Span, Time};
use core::num::NonZeroU32;

/// The two ECN bits of the IP header (RFC 3168).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, codepoint ECT(1) (L4S).
    Ect1,
    /// ECN-capable, codepoint ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// The fields of a TCP acknowledgement that a network may read. Sequence numbers have 32 bits and
/// wrap, as in the header.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// Identifies the connection.
    pub connection: u64,
    /// A pure ACK: no data, no flag but ACK, ECE and CWR, no option but timestamps and SACK.
    pub pure: bool,
    /// The next byte expected: the acknowledgement number.
    pub next: u32,
    /// The timestamp value and the timestamp echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// The flags ECE and CWR.
    pub ecn: (bool, bool),
    /// SACK blocks (first byte, byte after the last) and their number.
    pub blocks: ([(u32, u32); 4], u8),
}

impl Ack {
    /// The SACK blocks.
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.blocks.0[..usize::from(self.blocks.1.min(4))]
    }
}

/// A change of a window, positive or negative, as a congestion header carries it. The unit is 1/256
/// byte, so sums are the same on every machine. Values saturate at ±8 MiB.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Feedback(i32);

impl Feedback {
    const STEPS: f64 = 256.0;

    /// Rounds `bytes` to the nearest representable value.
    pub fn bytes(bytes: f64) -> Feedback {
        Feedback(libm::rint(bytes * Feedback::STEPS) as i32)
    }
    /// Returns the value in bytes.
    pub fn as_bytes(self) -> f64 {
        f64::from(self.0) / Feedback::STEPS
    }
    /// Adds two changes; saturates.
    pub fn and(self, other: Feedback) -> Feedback {
        Feedback(self.0.saturating_add(other.0))
    }
    /// Encodes the value as four bytes of a packet.
    pub fn to_word(self) -> u32 {
        self.0 as u32
    }
    /// Decodes four bytes of a packet.
    pub fn from_word(word: u32) -> Feedback {
        Feedback(word as i32)
    }
}

/// The congestion header of a packet (XCP): the sender's state, and the feedback of routers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Congestion {
    cwnd: NonZeroU32,
    rtt_us: u32,
    /// On departure, the change of the window that the sender requests. Routers reduce this change
    /// to the least that any of them allows.
    pub feedback: Feedback,
}

impl Congestion {
    /// The header of a flow with this window (one byte to 4 GB) and this round-trip time (in
    /// microseconds, up to 71 minutes). A round-trip time of zero means that the sender has no
    /// sample.
    pub fn new(cwnd: Bytes, rtt: Span, feedback: Feedback) -> Congestion {
        let word = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Congestion {
            cwnd: NonZeroU32::new(word(cwnd.get())).unwrap_or(NonZeroU32::MIN),
            rtt_us: word(rtt.as_us()),
            feedback,
        }
    }
    /// Returns the sender's window.
    pub fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd.get()))
    }
    /// Returns the sender's round-trip time; zero before its first sample.
    pub fn rtt(&self) -> Span {
        Span::us(u64::from(self.rtt_us))
    }
}

/// Hashes the identity of a flow under `seed`. All drivers use this function: a simulated flow is
/// identified by its number, a real one by its 5-tuple.
pub fn flow_hash(identity: u64, seed: u64) -> u32 {
    // The finalizer of SplitMix64: every bit of identity and seed affects every bit of the hash.
    let mut z = seed.wrapping_add(identity.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

/// The version of the Internet Protocol of a flow or probe.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Ip {
    /// IPv4 without options: a header of 20 bytes (RFC 791).
    #[default]
    V4,
    /// IPv6 without extension headers: a header of 40 bytes (RFC 8200).
    V6,
}

impl Ip {
    /// Bytes of the IP header.
    pub const fn header(self) -> u16 {
        match self {
            Ip::V4 => 20,
            Ip::V6 => 40,
        }
    }
    /// Bytes by which the IP header is longer than that of IPv4.
    pub const fn beyond_v4(self) -> u16 {
        self.header() - Ip::V4.header()
    }
}

/// The kernel memory that a packet of this size occupies. The rule is payload plus 896 bytes,
/// measured with frames of Linux 6.12's TCP that cross a router, single or in super-packets. The
/// headers are assumed to be those of Ethernet, IP, and TCP with timestamps.
#[inline]
pub fn memory(size: Bytes, ip: Ip) -> Bytes {
    let headers = 66 + u64::from(ip.beyond_v4());
    Bytes::new(size.get().saturating_sub(headers).saturating_add(896))
}

/// A packet as a network reads it. Each driver chooses the type: a 32-byte struct in simulation, a
/// frame buffer with real packets.
pub trait Packet {
    /// Bytes on the wire (whole frames: 1514 for a full segment).
    fn size(&self) -> Bytes;
    /// The time at which the packet entered its current queue; disciplines and delay metrics read
    /// it.
    fn enqueued_at(&self) -> Time;
    /// Sets that time; the owner of the queue calls this once when the packet enters.
    fn set_enqueued_at(&mut self, now: Time);
    /// Returns a hash of the 5-tuple under `seed`.
    fn flow_hash(&self, seed: u64) -> u32;
    /// Returns a hash of the source address under `seed`.
    fn src_hash(&self, seed: u64) -> u32 {
        self.flow_hash(seed)
    }
    /// Returns a hash of the destination address under `seed`.
    fn dst_hash(&self, seed: u64) -> u32 {
        self.flow_hash(seed)
    }
    /// Returns a hash, under `seed`, of the source address before network address translation
    /// (NAT).
    fn src_behind(&self, seed: u64) -> u32 {
        self.src_hash(seed)
    }
    /// Returns a hash, under `seed`, of the destination address behind the NAT.
    fn dst_behind(&self, seed: u64) -> u32 {
        self.dst_hash(seed)
    }
    /// Returns the flow or probe of the packet (data, ACK or response) by its index in the
    /// scenario; probes follow the last flow.
    fn owner(&self) -> Option<u32> {
        None
    }
    /// The ECN bits.
    fn ecn(&self) -> Ecn;
    /// Sets the ECN field to Congestion Experienced.
    fn set_ce(&mut self);
    /// Returns whether the sender sent this packet in the same super-packet as the packet before
    /// it.
    fn joined(&self) -> bool {
        false
    }
    /// The kernel memory that the packet occupies ([`memory`]); queue disciplines with a memory
    /// limit count it. `size` is the packet's [`size`](Packet::size).
    #[inline]
    fn memory(&self, size: Bytes) -> Bytes {
        memory(size, Ip::V4)
    }
    /// Returns the acknowledgement, if the packet is a TCP segment with one and not a SYN.
    fn ack(&self) -> Option<Ack> {
        None
    }
    /// Returns the packet's congestion header, if the packet has one.
    fn congestion(&self) -> Option<Congestion> {
        None
    }
    /// Sets the feedback in its congestion header; routers call this.
    fn set_feedback(&mut self, _feedback: Feedback) {}
    /// Returns the differentiated-services code point.
    fn dscp(&self) -> u8 {
        0
    }
    /// Sets the differentiated-services code point; the lower six bits count.
    fn set_dscp(&mut self, _dscp: u8) {}
    /// Flips a bit, so that the receiver discards the packet.
    fn damage(&mut self) {}
    /// Removes and returns the first segment of a super-packet; `None` if the packet is a single
    /// segment.
    #[inline]
    fn first_segment(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// Returns the earliest departure time that the sender requests, if it requests one.
    fn departure(&self) -> Option<Time> {
        None
    }
}
