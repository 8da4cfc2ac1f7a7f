//! What a queue discipline may see of a packet.

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

/// What a network may see of a TCP segment that acknowledges (numbers as in the header: they wrap).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// Tells its connection from all others.
    pub connection: u64,
    /// Nothing but an acknowledgement: no data, no flag but ACK, ECE and CWR, no option but
    /// timestamps and SACK.
    pub pure: bool,
    /// The next byte expected.
    pub next: u32,
    /// Its timestamp and the one it echoes.
    pub timestamps: Option<(u32, u32)>,
    /// The flags ECE and CWR.
    pub ecn: (bool, bool),
    /// SACK blocks, from and to; so many of them.
    pub blocks: ([(u32, u32); 4], u8),
}

impl Ack {
    /// The SACK blocks.
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.blocks.0[..usize::from(self.blocks.1.min(4))]
    }
}

/// A change of a window in bytes, positive or not, as a congestion header carries it: counted in
/// 1/256 byte, so that it adds up the same everywhere; what does not fit (8 MB) is the most that
/// does.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Feedback(i32);

impl Feedback {
    const STEPS: f64 = 256.0;

    /// The nearest to so many bytes.
    pub fn bytes(bytes: f64) -> Feedback {
        Feedback(libm::rint(bytes * Feedback::STEPS) as i32)
    }
    /// In bytes.
    pub fn as_bytes(self) -> f64 {
        f64::from(self.0) / Feedback::STEPS
    }
    /// Both.
    pub fn and(self, other: Feedback) -> Feedback {
        Feedback(self.0.saturating_add(other.0))
    }
    /// As four bytes of a packet.
    pub fn to_word(self) -> u32 {
        self.0 as u32
    }
    /// From four bytes of a packet.
    pub fn from_word(word: u32) -> Feedback {
        Feedback(word as i32)
    }
}

/// The congestion header of a packet (XCP): what its sender tells routers of itself, and what they
/// answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Congestion {
    cwnd: NonZeroU32,
    rtt_us: u32,
    /// The change of its window that the sender asks for; then the least that any router on the
    /// way has allowed.
    pub feedback: Feedback,
}

impl Congestion {
    /// Of a flow with this window (one byte to 4 GB) and this round-trip time (in microseconds, up
    /// to 71 minutes; zero where the sender knows none yet).
    pub fn new(cwnd: Bytes, rtt: Span, feedback: Feedback) -> Congestion {
        let word = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Congestion {
            cwnd: NonZeroU32::new(word(cwnd.get())).unwrap_or(NonZeroU32::MIN),
            rtt_us: word(rtt.as_us()),
            feedback,
        }
    }
    /// The sender's window.
    pub fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd.get()))
    }
    /// The sender's round-trip time; zero where it knows none yet.
    pub fn rtt(&self) -> Span {
        Span::us(u64::from(self.rtt_us))
    }
}

/// A hash of what a flow is known by, under `seed`. One function for every driver: a simulated flow
/// is known by its number, a real one by its 5-tuple.
pub fn flow_hash(identity: u64, seed: u64) -> u32 {
    // The finalizer of SplitMix64: every bit of identity and seed moves every bit of the hash.
    let mut z = seed.wrapping_add(identity.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

/// A packet as a network sees it. Drivers choose the type: a 32-byte struct in simulation, a frame
/// buffer live.
pub trait Packet {
    /// Bytes on the wire (whole frames: 1514 for a full segment).
    fn size(&self) -> Bytes;
    /// When it entered the queue it is in; disciplines and delay figures read it.
    fn enqueued_at(&self) -> Time;
    /// Called once by the queue's host when the packet enters.
    fn set_enqueued_at(&mut self, now: Time);
    /// A hash of the 5-tuple under `seed`.
    fn flow_hash(&self, seed: u64) -> u32;
    /// A hash of the address it comes from under `seed`.
    fn src_hash(&self, seed: u64) -> u32 {
        self.flow_hash(seed)
    }
    /// A hash of the address it goes to under `seed`.
    fn dst_hash(&self, seed: u64) -> u32 {
        self.flow_hash(seed)
    }
    /// Likewise of the host behind it, where that address is what a translation shows of several.
    fn src_behind(&self, seed: u64) -> u32 {
        self.src_hash(seed)
    }
    /// Likewise where it goes to.
    fn dst_behind(&self, seed: u64) -> u32 {
        self.dst_hash(seed)
    }
    /// The flow or probe that it belongs to, data, ACK or answer, by its place in the scenario;
    /// probes count on from the last flow.
    fn owner(&self) -> Option<u32> {
        None
    }
    /// The ECN bits.
    fn ecn(&self) -> Ecn;
    /// Sets "congestion experienced".
    fn set_ce(&mut self);
    /// Did the sender hand it down in one super-packet with the packet before it?
    fn joined(&self) -> bool {
        false
    }
    /// What it takes of a kernel's memory: disciplines with a limit of memory count that. Measured
    /// with frames of Linux 6.12's TCP that cross a router, single or in super-packets: their
    /// payload and 896 bytes (a frame without options has 66 of headers). Who asks knows its
    /// `size`.
    #[inline]
    fn memory(&self, size: Bytes) -> Bytes {
        Bytes::new(size.get().saturating_sub(66).saturating_add(896))
    }
    /// What it acknowledges, if it is a TCP segment that does (SYNs apart).
    fn ack(&self) -> Option<Ack> {
        None
    }
    /// Its congestion header, if it carries one.
    fn congestion(&self) -> Option<Congestion> {
        None
    }
    /// A router writes into its congestion header.
    fn set_feedback(&mut self, _feedback: Feedback) {}
    /// The differentiated-services code point.
    fn dscp(&self) -> u8 {
        0
    }
    /// Sets the differentiated-services code point; the lower six bits count.
    fn set_dscp(&mut self, _dscp: u8) {}
    /// A bit of it flips: its receiver will not take it.
    fn damage(&mut self) {}
    /// Takes the first segment off a super-packet, which is the rest then; `None` of what is one
    /// segment.
    #[inline]
    fn first_segment(&mut self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// When the sender wants it to leave (its earliest departure time), where it says so.
    fn departure(&self) -> Option<Time> {
        None
    }
}
