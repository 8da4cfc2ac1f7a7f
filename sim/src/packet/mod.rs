//! A simulated packet. It has 32 bytes, is copied, and is never allocated on the heap.
//!
//! Six of its eight fields depend on the kind of the packet:
//!
//! | field | data | data with header | ACK | ping, pong | datagram |
//! |---|---|---|---|---|---|
//! | `seq` | first byte | window; RTT | next byte; timestamp | number | number |
//! | `word` | timestamp; option | index in `Headers`; option | index in `Acks`; window | 0 | time sent, low half |
//! | `tsecr` | echoed timestamp | feedback | echoed timestamp | 0 | time sent, high half |
//! | `bytes` | payload | payload | frame | frame | frame |
//! | `flow` | flow, half | flow, half | flow, half | probe | application |
//! | `flags`, bits 0 and 1 | ECN | ECN | ECN | ECN | ECN |
//! | `flags`, bit 2 | SYN | SYN | SYN | 0 | 0 |
//! | `flags`, bit 3 | PSH | PSH | IPv6 | IPv6 | IPv6 |
//! | `flags`, bit 4 | joined | joined | 0 | 0 | 0 |
//! | `flags`, bit 5 | CWR | CWR | CWR, or bit 1 of ACE | 0 | 0 |
//! | `flags`, bit 6 | damaged | damaged | damaged | damaged | damaged |
//! | `flags`, bit 7 | 0 | 1 | ECE, or bit 0 of ACE | 0 | 0 |
//!
//! A datagram of a transport is like one of an application, and its `seq` is the number in
//! `Payloads`.
//!
//! - `seq`: two values are the low and the high 32 bits. The window is in bytes and the RTT in µs.
//!   The timestamp of an ACK is its own, and `tsecr` is the one that it echoes.
//! - `bytes`: payload or whole frame, in bytes. A segment and an ACK are created for IPv4; their
//!   label adds the rest of the header of IPv6.
//! - Bit 31 of `word` of an ACK: the ACK is plain, and the other bits are its window. A plain ACK
//!   has no SACK blocks, no other option than timestamps, and no marks except ECE. Its next byte is
//!   below 2³² and its window below 2³¹ bytes, so that the packet contains all of it.
//! - Bit 31 of `word` of data: the packet has the AccECN option. Timestamps are in milliseconds and
//!   runs are shorter than three days, so timestamps do not need this bit.
//! - Bit 30 of `word` of data: the segments of the flow have another size, or no timestamps. The 16
//!   highest bits of `seq` are then their [`Shape`], so such a flow has less than 2⁴⁸ bytes.
//! - Bit 29 of `word` of data: the packet has an IPv6 header. It is zero with a congestion header.
//! - `flow`: the index of a flow in the scenario, or the number of one half of a connection of an
//!   application (`owners`). Indices of probes follow those of the flows.
//! - `joined`: the packet and its predecessor left their host in one super-packet. ACE is the
//!   counter of accurate ECN.
//! - "Header" means a congestion header (XCP). It is stored in the place of the sequence number and
//!   the timestamps, so that routers can read and change it. `contents` has the replaced fields,
//!   and the SACK blocks of ACKs.
//!
//! The other two fields have the same meaning for all kinds. `class` is the kind (bits 0 and 1) and
//! the DSCP (bits 2 to 7). `entered` has three parts:
//!
//! | bits of `entered` | content |
//! |---|---|
//! | 0 to 47 | time when the packet entered its present queue, in ns; behind all queues with two threads, its place |
//! | 48 to 55 | far host: number, translated or not, source or destination |
//! | 56 to 63 | Wi-Fi station |

mod contents;
mod payloads;

pub(crate) use contents::{Acks, Headers};
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::packet::Ip;
use narrows_core::packet::{self, Congestion, Ecn, Feedback};
use narrows_core::tcp::wire::{AckMarks, AckSegment, Segment};
use narrows_core::transport::{HEADERS, MSS, Shape, TIMESTAMPS, TcpOptions};
use narrows_core::units::{Bytes, Span, Time};
pub(crate) use payloads::Payloads;

/// Size of a ping on the wire, bytes: Ethernet, IP and UDP headers and 64 bytes of payload.
pub const PING_SIZE: u16 = 14 + 20 + 8 + PING_PAYLOAD;
/// Payload of a ping, bytes.
pub const PING_PAYLOAD: u16 = 64;

/// The kind of a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment of a flow, towards its receiver.
    Data,
    /// An ACK of a flow, towards its sender.
    Ack,
    /// A ping, or a datagram of an application or transport, towards the far side.
    Ping,
    /// The answer to a ping, or a datagram of an application or transport, towards the near side.
    Pong,
}

/// `flags`: the ECN bits.
const ECN: u8 = 0b11;
const SYN: u8 = 1 << 2;
const PSH: u8 = 1 << 3;
const JOINED: u8 = 1 << 4;
const CWR: u8 = 1 << 5;
const DAMAGED: u8 = 1 << 6;
/// In an ACK: ECE, or bit 0 of ACE.
const ECE: u8 = 1 << 7;
/// In data: the packet has a congestion header.
const HEADER: u8 = 1 << 7;
/// `word`: an ACK is plain.
const PLAIN: u32 = 1 << 31;
/// `word`: data has the AccECN option.
const OPTION: u32 = 1 << 31;
/// `word`: the highest bits of `seq` of data are the shape of its segments.
const SHAPED: u32 = 1 << 30;
/// `word`: data has an IPv6 header.
const SIX: u32 = 1 << 29;
/// `flags`: a packet without data has an IPv6 header.
const SIX_ELSE: u8 = PSH;
/// `seq`: position of the first bit of the shape.
const SHAPE: u32 = 48;
/// `class`: position of the DSCP's first bit.
const DSCP: u8 = 2;
/// Size of an ACK without any option, bytes.
const BARE: u64 = HEADERS - TIMESTAMPS;
/// `entered`: the bits of the time, up to three days.
const WHEN: u64 = (1 << 48) - 1;
/// `entered`: positions of the first bits of the far host and of the station.
const HOST: u32 = 48;
const STATION: u32 = 56;
/// Parts of the byte of the far host: its number; whether its address is translated; whether the
/// host is the source of the packet.
const NUMBER: u8 = 0x3f;
const TRANSLATED: u8 = 1 << 6;
const SOURCE: u8 = 1 << 7;

/// The fields that are equal in all packets of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Label {
    /// The DSCP, in the bits of `class`.
    class: u8,
    host: u8,
    ip: Ip,
}

impl Label {
    /// The label of a flow with this DSCP, far host and version of IP. `translated`: a NAT hides
    /// the address of the host.
    pub fn new(dscp: u8, host: u8, translated: bool, ip: Ip) -> Label {
        Label {
            class: dscp << DSCP,
            ip,
            host: host & NUMBER | if translated { TRANSLATED } else { 0 },
        }
    }
}

/// A simulated packet. The table of this module defines its fields.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    seq: u64,
    entered: u64,
    flow: u32,
    word: u32,
    tsecr: u32,
    bytes: u16,
    class: u8,
    flags: u8,
}

impl Packet {
    /// A data packet with a segment of `flow`.
    #[inline]
    pub fn data(flow: u32, segment: &Segment) -> Packet {
        let flags = flag(segment.syn, SYN)
            | flag(segment.psh, PSH)
            | flag(segment.joined, JOINED)
            | flag(segment.cwr, CWR)
            | ecn_bits(segment.ecn);
        debug_assert!(segment.len <= u32::from(u16::MAX));
        Packet {
            seq: segment.seq | shape(segment.options),
            word: segment.tsval | option(segment.options),
            tsecr: segment.tsecr,
            bytes: segment.len as u16,
            flags,
            ..Packet::blank(flow, Kind::Data)
        }
    }
    /// An ACK of `flow`; `place` is its index in `Acks`.
    #[inline]
    pub fn ack(flow: u32, ack: &AckSegment, place: u32) -> Packet {
        Packet {
            // These fields are those that routers can read in the TCP header.
            seq: ack.ack & u64::from(u32::MAX) | u64::from(ack.tsval) << 32,
            tsecr: ack.tsecr,
            flags: flag(ack.syn, SYN)
                | flag(ack.ece || ack.marks.ace() & 1 != 0, ECE)
                | flag(ack.marks.ace() & 2 != 0, CWR)
                | ecn_bits(ack.marks.ecn()),
            word: place,
            bytes: ack.size().get() as u16,
            ..Packet::blank(flow, Kind::Ack)
        }
    }
    /// An ACK of `flow` that fits into its packet.
    #[inline]
    pub fn plain_ack(flow: u32, ack: &AckSegment) -> Option<Packet> {
        let simple = ack.n_sacks == 0
            && ack.marks == AckMarks::default()
            && !ack.syn
            && ack.feedback == Feedback::default();
        let fits = ack.ack <= u64::from(u32::MAX) && ack.window < u64::from(PLAIN);
        (simple && fits).then(|| Packet {
            seq: ack.ack | u64::from(ack.tsval) << 32,
            tsecr: ack.tsecr,
            flags: flag(ack.ece, ECE),
            word: PLAIN | ack.window as u32,
            bytes: HEADERS as u16,
            ..Packet::blank(flow, Kind::Ack)
        })
    }
    /// Whether this ACK is plain.
    #[inline]
    pub fn is_plain_ack(&self) -> bool {
        self.word & PLAIN != 0
    }
    /// The content of this plain ACK.
    #[inline]
    pub fn plain_content(&self) -> AckSegment {
        AckSegment {
            ack: self.seq & u64::from(u32::MAX),
            window: u64::from(self.word & !PLAIN),
            tsval: (self.seq >> 32) as u32,
            tsecr: self.tsecr,
            ece: self.flags & ECE != 0,
            ..AckSegment::default()
        }
    }
    /// Ping `number` of the probe with the index `flow`.
    pub fn ping(flow: u32, number: u64) -> Packet {
        Packet {
            seq: number,
            bytes: PING_SIZE,
            ..Packet::blank(flow, Kind::Ping)
        }
    }
    /// Datagram `number` of an application, sent at `now`, with `bytes` on the wire; `down`:
    /// towards the far side.
    pub fn datagram(flow: u32, down: bool, number: u64, now: Time, bytes: u16) -> Packet {
        let kind = if down { Kind::Ping } else { Kind::Pong };
        Packet {
            seq: number,
            word: now.as_ns() as u32,
            tsecr: (now.as_ns() >> 32) as u32,
            bytes,
            ..Packet::blank(flow, kind)
        }
    }
    /// This packet with other ECN bits.
    pub fn with_ecn(mut self, bits: u8) -> Packet {
        self.flags = self.flags & !ECN | bits & ECN;
        self
    }
    /// The ECN bits of the packet.
    pub fn ecn_bits(&self) -> u8 {
        self.flags & ECN
    }
    /// This packet with another number.
    pub fn numbered(self, number: u64) -> Packet {
        Packet {
            seq: number,
            ..self
        }
    }
    /// Time at which an application's datagram was sent.
    pub fn sent_at(&self) -> Time {
        Time::from_ns(u64::from(self.tsecr) << 32 | u64::from(self.word))
    }
    /// The answer to this ping.
    pub fn pong(self) -> Packet {
        Packet {
            class: Kind::Pong as u8 | self.class & !(Kind::Pong as u8),
            flags: self.flags & SIX_ELSE,
            entered: self.entered ^ u64::from(SOURCE) << HOST,
            ..self
        }
    }
    fn blank(flow: u32, kind: Kind) -> Packet {
        Packet {
            seq: 0,
            entered: 0,
            flow,
            word: 0,
            tsecr: 0,
            bytes: 0,
            class: kind as u8,
            flags: 0,
        }
    }
    /// The kind of the packet.
    pub fn kind(&self) -> Kind {
        match self.class & 0b11 {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Ping,
            _ => Kind::Pong,
        }
    }
    /// This packet with another DSCP (the lowest six bits of `dscp`).
    pub fn of_class(mut self, dscp: u8) -> Packet {
        self.class = self.class & 0b11 | dscp << DSCP;
        self
    }
    /// This new packet with the label of its flow, sent from the port `from`.
    #[inline]
    pub fn labelled(self, label: Label, from: Port) -> Packet {
        let host = label.host | flag(from == FAR, SOURCE);
        let packet = Packet {
            entered: u64::from(host) << HOST,
            class: self.class & 0b11 | label.class,
            ..self
        };
        match label.ip {
            Ip::V4 => packet,
            Ip::V6 => packet.over_ipv6(),
        }
    }
    #[cold]
    fn over_ipv6(mut self) -> Packet {
        if self.kind() == Kind::Data {
            self.word |= SIX;
        } else {
            self.bytes += Ip::V6.beyond_v4();
            self.flags |= SIX_ELSE;
        }
        self
    }
    /// The version of IP of the packet.
    #[inline]
    pub fn ip(&self) -> Ip {
        let six = match self.kind() {
            Kind::Data => self.word & SIX != 0,
            _ => self.flags & SIX_ELSE != 0,
        };
        if six { Ip::V6 } else { Ip::V4 }
    }
    /// The port at which the packet entered the path.
    pub fn port(&self) -> Port {
        if (self.entered >> HOST) as u8 & SOURCE != 0 {
            FAR
        } else {
            NEAR
        }
    }
    /// Number of the far host, if it is one of several and, as `source` requests, the packet's
    /// source or destination. `behind`: also if a NAT hides its address.
    fn host(&self, source: bool, behind: bool) -> Option<u64> {
        let host = (self.entered >> HOST) as u8;
        let hidden = host & TRANSLATED != 0 && !behind;
        let own = (host & SOURCE != 0) == source && host & NUMBER > 0 && !hidden;
        own.then(|| u64::from(host & NUMBER))
    }
    /// This packet with the Wi-Fi station to or from which it goes.
    pub fn at_station(mut self, station: u8) -> Packet {
        self.entered = self.entered & !(0xff << STATION) | u64::from(station) << STATION;
        self
    }
    /// This packet, which enters no more queue, with its place among those that arrive at the same
    /// time.
    #[inline]
    pub fn with_place(mut self, place: u32) -> Packet {
        self.entered = self.entered & !WHEN | u64::from(place);
        self
    }
    /// The place from [`with_place`](Self::with_place).
    #[inline]
    pub fn place(&self) -> u32 {
        self.entered as u32
    }
    /// This ACK, of which the content is stored as that of `stored`.
    pub fn with_content_of(self, stored: &Packet) -> Packet {
        Packet {
            word: stored.word,
            ..self
        }
    }
    /// The Wi-Fi station.
    pub fn station(&self) -> u8 {
        (self.entered >> STATION) as u8
    }
    /// Removes and returns the first segment of a super-packet; `None` if the packet is a single
    /// segment.
    #[inline]
    pub fn first_segment(&mut self) -> Option<Packet> {
        let full = self.options().payload();
        if u32::from(self.bytes) <= full || self.kind() != Kind::Data {
            return None;
        }
        Some(self.take_first(full as u16))
    }
    /// Calls `act` with each segment of this data, which may be a super-packet.
    #[inline(always)]
    pub fn divide(mut self, mut act: impl FnMut(Packet)) {
        debug_assert_eq!(self.kind(), Kind::Data);
        let full = self.options().payload();
        while u32::from(self.bytes) > full {
            act(self.take_first(full as u16));
        }
        act(self);
    }
    /// Removes and returns the first segment, of `full` bytes, of a super-packet.
    #[inline(always)]
    fn take_first(&mut self, full: u16) -> Packet {
        let first = Packet {
            bytes: full,
            flags: self.flags & !PSH,
            ..*self
        };
        self.seq += u64::from(full);
        self.bytes -= full;
        self.flags = self.flags & !CWR | JOINED;
        first
    }
    /// The size of any data.
    #[inline(never)]
    fn size_of_data(&self) -> Bytes {
        let v4 = self.segment().size();
        if self.word & SIX == 0 {
            return v4;
        }
        let packets = u64::from(self.bytes).div_ceil(u64::from(self.options().payload()));
        let longer = u64::from(Ip::V6.beyond_v4());
        v4 + Bytes::new(longer * packets.max(1))
    }
    /// The TCP options of data.
    #[inline]
    fn options(&self) -> TcpOptions {
        match self.word & (OPTION | SHAPED) {
            0 => TcpOptions::Timestamps,
            OPTION => TcpOptions::AccEcn,
            _ => TcpOptions::Other(Shape::from_bits((self.seq >> SHAPE) as u16)),
        }
    }
    /// Payload of data in bytes; the size of other packets.
    pub fn payload(&self) -> u64 {
        u64::from(self.bytes)
    }
    /// Whether the packet was damaged in transit. Its receiver drops it.
    pub fn damaged(&self) -> bool {
        self.flags & DAMAGED != 0
    }
    /// Whether the packet is an undamaged segment or ACK, which an endpoint handles.
    #[inline]
    pub fn is_of_endpoint(&self) -> bool {
        self.class & 0b10 == 0 && self.flags & DAMAGED == 0
    }
    /// Number of the flow, probe, connection half or application.
    #[inline]
    pub fn flow(&self) -> u32 {
        self.flow
    }
    /// Number of a ping, pong or datagram.
    pub fn number(&self) -> u64 {
        self.seq
    }
    /// Whether the packet has a congestion header.
    #[inline]
    pub fn has_header(&self) -> bool {
        self.flags & HEADER != 0 && self.kind() == Kind::Data
    }
    /// The segment in a data packet without a congestion header; `Headers` also reads those with
    /// one.
    #[inline]
    pub fn segment(&self) -> Segment {
        let [syn, psh, joined, cwr] = [SYN, PSH, JOINED, CWR].map(|bit| self.flags & bit != 0);
        Segment {
            seq: match self.word & SHAPED {
                0 => self.seq,
                _ => self.seq & ((1 << SHAPE) - 1),
            },
            len: u32::from(self.bytes),
            tsval: self.word & !(OPTION | SHAPED | SIX),
            tsecr: self.tsecr,
            syn,
            psh,
            joined,
            ecn: packet::Packet::ecn(self),
            cwr,
            options: self.options(),
            departs: Time::ZERO,
            congestion: None,
        }
    }
}

impl packet::Packet for Packet {
    #[inline]
    fn size(&self) -> Bytes {
        let bytes = u64::from(self.bytes);
        if self.kind() != Kind::Data {
            return Bytes::new(bytes);
        }
        let usual = self.word & (OPTION | SHAPED | SIX) == 0 && self.flags & SYN == 0;
        if usual && bytes <= u64::from(MSS) {
            Bytes::new(HEADERS + bytes)
        } else {
            self.size_of_data()
        }
    }
    #[inline]
    fn memory(&self, size: Bytes) -> Bytes {
        packet::memory(size, self.ip())
    }
    #[inline]
    fn enqueued_at(&self) -> Time {
        Time::from_ns(self.entered & WHEN)
    }
    #[inline]
    fn set_enqueued_at(&mut self, now: Time) {
        self.entered = self.entered & !WHEN | now.as_ns() & WHEN;
    }
    #[inline]
    fn flow_hash(&self, seed: u64) -> u32 {
        packet::flow_hash(u64::from(self.flow) + 1, seed)
    }
    /// The hash of the far host that is the source; if there is none, of the address that all hosts
    /// of this side share.
    fn src_hash(&self, seed: u64) -> u32 {
        address(self.host(true, false), (seed >> 32) as u32, seed)
    }
    fn dst_hash(&self, seed: u64) -> u32 {
        address(self.host(false, false), seed as u32, seed)
    }
    fn src_behind(&self, seed: u64) -> u32 {
        address(self.host(true, true), (seed >> 32) as u32, seed)
    }
    fn dst_behind(&self, seed: u64) -> u32 {
        address(self.host(false, true), seed as u32, seed)
    }
    #[inline]
    fn ecn(&self) -> Ecn {
        match self.flags & ECN {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    fn joined(&self) -> bool {
        self.flags & JOINED != 0
    }
    #[inline]
    fn owner(&self) -> Option<u32> {
        Some(self.flow)
    }
    /// Without SACK blocks, which `Acks::complete` adds; before that, an ACK with SACK blocks is
    /// not `pure`.
    fn ack(&self) -> Option<packet::Ack> {
        (self.kind() == Kind::Ack && self.flags & SYN == 0).then(|| packet::Ack {
            connection: u64::from(self.flow),
            pure: matches!(
                u64::from(self.bytes - self.ip().beyond_v4()),
                HEADERS | BARE
            ),
            next: self.seq as u32,
            timestamps: Some(((self.seq >> 32) as u32, self.tsecr)),
            ecn: (self.flags & ECE != 0, self.flags & CWR != 0),
            ..packet::Ack::default()
        })
    }
    fn set_ce(&mut self) {
        self.flags |= ECN;
    }
    fn congestion(&self) -> Option<Congestion> {
        self.has_header().then(|| {
            let (cwnd, rtt_us) = (self.seq & u64::from(u32::MAX), self.seq >> 32);
            Congestion::new(
                Bytes::new(cwnd),
                Span::us(rtt_us),
                Feedback::from_word(self.tsecr),
            )
        })
    }
    fn set_feedback(&mut self, feedback: Feedback) {
        if self.has_header() {
            self.tsecr = feedback.to_word();
        }
    }
    fn dscp(&self) -> u8 {
        self.class >> DSCP
    }
    fn set_dscp(&mut self, dscp: u8) {
        *self = self.of_class(dscp);
    }
    fn damage(&mut self) {
        self.flags |= DAMAGED;
    }
    /// A super-packet with a congestion header stays whole, because the replaced fields belong to
    /// all of it.
    #[inline]
    fn first_segment(&mut self) -> Option<Packet> {
        if self.has_header() {
            return None;
        }
        Packet::first_segment(self)
    }
}

/// Hash of a far host, or `all`, that of the address that all hosts of a side share.
fn address(host: Option<u64>, all: u32, seed: u64) -> u32 {
    // The bit separates hosts from flows, whose numbers are hashed, too, and are below it.
    host.map_or(all, |number| packet::flow_hash(number | 1 << 40, seed))
}

/// `bit` if it is `set`, otherwise 0; without a branch.
#[inline]
fn flag(set: bool, bit: u8) -> u8 {
    u8::from(set) * bit
}

/// The bit of `word` for the options of data.
fn option(options: TcpOptions) -> u32 {
    match options {
        TcpOptions::Timestamps => 0,
        TcpOptions::AccEcn => OPTION,
        TcpOptions::Other(_) => SHAPED,
    }
}

/// The bits of `seq` for the options of data.
#[inline]
fn shape(options: TcpOptions) -> u64 {
    match options {
        TcpOptions::Timestamps | TcpOptions::AccEcn => 0,
        TcpOptions::Other(shape) => u64::from(shape.bits()) << SHAPE,
    }
}

/// The two ECN bits of the IP header for a codepoint.
pub fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => ECN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_core::packet::Packet as _;

    #[test]
    fn a_packet_is_half_a_cache_line() {
        assert_eq!(std::mem::size_of::<Packet>(), 32);
    }

    #[test]
    fn a_segment_survives_its_packet() {
        let segment = Segment {
            seq: 1 << 40,
            len: 1448,
            tsval: 77,
            tsecr: 78,
            syn: false,
            psh: true,
            joined: true,
            ecn: Ecn::Ect0,
            cwr: true,
            options: TcpOptions::Timestamps,
            departs: Time::ZERO,
            congestion: None,
        };
        let packet = Packet::data(3, &segment);
        assert_eq!(
            (packet.segment(), packet.size()),
            (segment, Bytes::new(1514))
        );
        let syn = Segment {
            syn: true,
            ..Segment::default()
        };
        assert_eq!(
            (
                Packet::data(3, &syn).segment(),
                Packet::data(3, &syn).size()
            ),
            (syn, Bytes::new(74))
        );
    }

    #[test]
    fn the_accecn_option_survives_its_packet_and_its_super_packet() {
        let segment = Segment {
            len: 2 * 1436 + 10,
            // The largest timestamp: three days in milliseconds.
            tsval: 3 * 86_400_000,
            options: TcpOptions::AccEcn,
            ..Segment::default()
        };
        let mut rest = Packet::data(3, &segment);
        assert_eq!(rest.segment(), segment);
        assert_eq!(rest.size(), segment.size());
        let mut cut: Vec<Packet> = std::iter::from_fn(|| rest.first_segment()).collect();
        cut.push(rest);
        let sizes: Vec<u64> = cut.iter().map(|packet| packet.size().get()).collect();
        assert_eq!(sizes, [1514, 1514, 88]);
    }

    #[test]
    fn a_super_packet_is_cut_into_its_segments() {
        let segment = Segment {
            seq: 5,
            len: 2 * 1448 + 10,
            psh: true,
            cwr: true,
            ecn: Ecn::Ect0,
            ..Segment::default()
        };
        let mut rest = Packet::data(3, &segment);
        let whole = rest.size();
        let mut cut: Vec<Packet> = std::iter::from_fn(|| rest.first_segment()).collect();
        cut.push(rest);
        let sizes: u64 = cut.iter().map(|p| p.size().get()).sum();
        assert_eq!((cut.len(), sizes), (3, whole.get()));
        let seen: Vec<_> = cut.iter().map(Packet::segment).collect();
        assert_eq!(
            seen.iter().map(|s| s.seq).collect::<Vec<_>>(),
            [5, 1453, 2901]
        );
        assert_eq!(
            seen.iter().map(|s| s.psh).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(
            seen.iter().map(|s| s.cwr).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert_eq!(
            seen.iter().map(|s| s.joined).collect::<Vec<_>>(),
            [false, true, true]
        );
    }

    /// Each packet with an IPv6 header has 20 bytes more than with one of IPv4, and each segment of
    /// a super-packet, too. Everything else is equal.
    #[test]
    fn ipv6_adds_twenty_bytes_per_packet() {
        let labels = [Ip::V4, Ip::V6].map(|ip| Label::new(46, 3, false, ip));
        let segment = Segment {
            seq: 5,
            len: 2 * 1428 + 7,
            tsval: 259_200_000,
            psh: true,
            options: TcpOptions::new(1428, true, false),
            ..Segment::default()
        };
        let syn = Segment {
            syn: true,
            ..Segment::default()
        };
        let ack = AckSegment {
            ack: 77,
            ..AckSegment::default()
        };
        for (packet, of, packets) in [
            (Packet::data(3, &segment), Some(segment), 3),
            (Packet::data(3, &syn), Some(syn), 1),
            (Packet::ack(3, &ack, 9), None, 1),
            (Packet::ping(3, 9), None, 1),
            (Packet::datagram(3, true, 9, Time::ZERO, 142), None, 1),
        ] {
            let [four, six] = labels.map(|label| packet.labelled(label, NEAR));
            assert_eq!((four.ip(), six.ip()), (Ip::V4, Ip::V6));
            assert_eq!(six.size().get(), four.size().get() + 20 * packets);
            assert_eq!(six.memory(six.size()) - four.memory(four.size()), {
                Bytes::new(20 * (packets - 1))
            });
            assert_eq!(packet::Packet::ack(&six), packet::Packet::ack(&four));
            if let Some(of) = of {
                assert_eq!(six.segment(), of);
            }
        }
        let six = Packet::ping(3, 9).labelled(labels[1], NEAR);
        assert_eq!((six.pong().ip(), six.pong().size().get()), (Ip::V6, 126));
        let mut rest = Packet::data(3, &segment).labelled(labels[1], NEAR);
        let mut cut: Vec<u64> = std::iter::from_fn(|| rest.first_segment())
            .map(|packet| packet.size().get())
            .collect();
        cut.push(rest.size().get());
        assert_eq!(cut, [1514, 1514, 93]);
    }
}
