//! A packet in 32 bytes, copied and never allocated.
//!
//! What an ACK says does not fit (SACK blocks), so it lies in a slab and the packet carries its
//! place. The slab gives places back as ACKs arrive: in the steady state nothing is allocated. Of
//! data with a congestion header the sequence number and the timestamps lie in another: the header
//! takes their room, where routers find it.

use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::packet::{self, Congestion, Ecn, Feedback};
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::transport::{HEADERS, MSS};
use narrows_core::units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Ethernet, IP and UDP headers and 64 bytes of payload.
pub const PING_SIZE: u16 = 14 + 20 + 8 + PING_PAYLOAD;
/// Payload of a probe, in bytes.
pub const PING_PAYLOAD: u16 = 64;

/// What a packet is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment of a flow, towards its receiver.
    Data,
    /// An ACK of a flow, towards its sender.
    Ack,
    /// A probe or a workload's datagram, towards the far end.
    Ping,
    /// A probe's answer, or a workload's datagram towards the near end.
    Pong,
}

/// Flags of a packet: the lowest two bits are ECN's.
const ECN: u8 = 0b11;
const SYN: u8 = 1 << 2;
const PSH: u8 = 1 << 3;
const JOINED: u8 = 1 << 4;
const CWR: u8 = 1 << 5;
const DAMAGED: u8 = 1 << 6;
/// Of an ACK.
const ECE: u8 = 1 << 7;
/// Of data: it carries a congestion header.
const HEADER: u8 = 1 << 7;
/// `class` holds the kind in its lowest two bits and the code point above.
const DSCP: u8 = 2;
/// The part of `entered` that is a time: three days.
const WHEN: u64 = (1 << 48) - 1;
/// Above it the host at the far end, and above that the station.
const HOST: u32 = 48;
const STATION: u32 = 56;
/// Of the host's byte: its number, whether the path shows an address in its place that stands for
/// all, whether it is the source.
const NUMBER: u8 = 0x3f;
const TRANSLATED: u8 = 1 << 6;
const SOURCE: u8 = 1 << 7;

/// What all packets of a flow bear.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Label {
    dscp: u8,
    host: u8,
}

impl Label {
    /// A differentiated-services code point, and a host at the far end, whose address the path
    /// hides where it is `translated`.
    pub fn new(dscp: u8, host: u8, translated: bool) -> Label {
        Label {
            dscp,
            host: host & NUMBER | if translated { TRANSLATED } else { 0 },
        }
    }
}

/// A packet of the virtual world.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Data: the offset of its first byte, or its header's window below its round-trip time. ACK:
    /// the next byte expected, below its timestamp. Ping, pong: its number.
    seq: u64,
    /// When it entered the queue it is in, in ns; the highest byte is its station, of a medium
    /// that has any, the next its host at the far end.
    entered: u64,
    /// The flow's place in the scenario; probes count on from the last flow.
    flow: u32,
    /// Data: the sender's timestamp, or with a header its place in the slab. ACK: its place in the
    /// slab. Datagram: when it was sent, low half.
    word: u32,
    /// The echo of the other end's timestamp, or its header's feedback. Datagram: when it was
    /// sent, high half.
    tsecr: u32,
    /// Data: its payload. Others: bytes on the wire.
    bytes: u16,
    /// Kind and differentiated-services code point.
    class: u8,
    /// ECN and what a segment carries.
    flags: u8,
}

impl Packet {
    /// A segment of `flow`.
    #[inline]
    pub fn data(flow: u32, segment: &Segment) -> Packet {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(segment.syn, SYN)
            | flag(segment.psh, PSH)
            | flag(segment.joined, JOINED)
            | flag(segment.cwr, CWR)
            | bits(segment.ecn);
        debug_assert!(segment.len <= u32::from(u16::MAX));
        let (seq, word, tsecr, bytes) = (
            segment.seq,
            segment.tsval,
            segment.tsecr,
            segment.len as u16,
        );
        Packet {
            seq,
            word,
            tsecr,
            bytes,
            flags,
            ..Packet::blank(flow, Kind::Data)
        }
    }
    /// An ACK of `flow` whose content lies at `place`.
    #[inline]
    pub fn ack(flow: u32, ack: &AckSegment, place: u32) -> Packet {
        let flag = |set, bit| if set { bit } else { 0 };
        Packet {
            // What the network may read of it, as the header has it.
            seq: ack.ack & u64::from(u32::MAX) | u64::from(ack.tsval) << 32,
            tsecr: ack.tsecr,
            flags: flag(ack.syn, SYN)
                | flag(ack.ece || ack.marks.ace() & 1 != 0, ECE)
                | flag(ack.marks.ace() & 2 != 0, CWR)
                | bits(ack.marks.ecn()),
            word: place,
            bytes: ack.size().get() as u16,
            ..Packet::blank(flow, Kind::Ack)
        }
    }
    /// The `number`th packet of a probe.
    pub fn ping(flow: u32, number: u64) -> Packet {
        Packet {
            seq: number,
            bytes: PING_SIZE,
            ..Packet::blank(flow, Kind::Ping)
        }
    }
    /// Datagram `number` of a workload, of `bytes` on the wire; `down`: towards the far end.
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
    /// When a workload's datagram was sent.
    pub fn sent_at(&self) -> Time {
        Time::from_ns(u64::from(self.tsecr) << 32 | u64::from(self.word))
    }
    /// The answer to this ping.
    pub fn pong(self) -> Packet {
        Packet {
            class: Kind::Pong as u8 | self.class & !(Kind::Pong as u8),
            flags: 0,
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
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.class & 0b11 {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Ping,
            _ => Kind::Pong,
        }
    }
    /// The same with another code point (the lowest six bits count).
    pub fn of_class(mut self, dscp: u8) -> Packet {
        self.class = self.class & 0b11 | dscp << DSCP;
        self
    }
    /// The same with a flow's label, on its way from this end of the path.
    #[inline]
    pub fn labelled(self, label: Label, from: Port) -> Packet {
        let host = label.host | if from == FAR { SOURCE } else { 0 };
        Packet {
            entered: self.entered & !(0xff << HOST) | u64::from(host) << HOST,
            ..self.of_class(label.dscp)
        }
    }
    /// The end that it came from.
    pub fn port(&self) -> Port {
        if (self.entered >> HOST) as u8 & SOURCE != 0 {
            FAR
        } else {
            NEAR
        }
    }
    /// The number of the host at the far end, if it is one of several and the source, or not the
    /// source. `behind`: though the path shows another address.
    fn host(&self, source: bool, behind: bool) -> Option<u64> {
        let host = (self.entered >> HOST) as u8;
        let hidden = host & TRANSLATED != 0 && !behind;
        let own = (host & SOURCE != 0) == source && host & NUMBER > 0 && !hidden;
        own.then(|| u64::from(host & NUMBER))
    }
    /// The same on its way to or from a station.
    pub fn at_station(mut self, station: u8) -> Packet {
        self.entered = self.entered & !(0xff << STATION) | u64::from(station) << STATION;
        self
    }
    /// Its station.
    pub fn station(&self) -> u8 {
        (self.entered >> STATION) as u8
    }
    /// The first segment of a super-packet, which is the rest then; `None` of a segment.
    #[inline]
    pub fn first_segment(&mut self) -> Option<Packet> {
        if u32::from(self.bytes) <= MSS || self.kind() != Kind::Data {
            return None;
        }
        let first = Packet {
            bytes: MSS as u16,
            flags: self.flags & !PSH,
            ..*self
        };
        self.seq += u64::from(MSS);
        self.bytes -= MSS as u16;
        self.flags = self.flags & !CWR | JOINED;
        Some(first)
    }
    /// Payload of data; of others their size.
    pub fn payload(&self) -> u64 {
        u64::from(self.bytes)
    }
    /// The flow's packet arrived damaged: whoever gets it drops it.
    pub fn damaged(&self) -> bool {
        self.flags & DAMAGED != 0
    }
    /// The flow's place in the scenario; probes count on from the last flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }
    /// The number of a ping or pong.
    pub fn number(&self) -> u64 {
        self.seq
    }
    /// Does it carry a congestion header?
    #[inline]
    pub fn has_header(&self) -> bool {
        self.flags & HEADER != 0 && self.kind() == Kind::Data
    }
    /// The segment that a data packet carries; one with a header is [`Headers`]'s to know.
    #[inline]
    pub fn segment(&self) -> Segment {
        let [syn, psh, joined, cwr] = [SYN, PSH, JOINED, CWR].map(|bit| self.flags & bit != 0);
        Segment {
            seq: self.seq,
            len: u32::from(self.bytes),
            tsval: self.word,
            tsecr: self.tsecr,
            syn,
            psh,
            joined,
            ecn: packet::Packet::ecn(self),
            cwr,
            departs: Time::ZERO,
            congestion: None,
        }
    }
}

impl packet::Packet for Packet {
    #[inline]
    fn size(&self) -> Bytes {
        match self.kind() {
            Kind::Data if self.flags & SYN == 0 && u32::from(self.bytes) <= MSS => {
                Bytes::new(HEADERS + u64::from(self.bytes))
            }
            Kind::Data => self.segment().size(),
            _ => Bytes::new(u64::from(self.bytes)),
        }
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
    /// One host sends to all, unless the flow is of one of several at the far end.
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
    /// Its SACK blocks lie elsewhere ([`Acks::complete`]); until then an ACK that has some counts
    /// as one with something else in it.
    fn ack(&self) -> Option<packet::Ack> {
        (self.kind() == Kind::Ack && self.flags & SYN == 0).then(|| packet::Ack {
            connection: u64::from(self.flow),
            pure: u64::from(self.bytes) == HEADERS,
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
    /// What a congestion header displaces belongs to all of it: it stays whole.
    #[inline]
    fn first_segment(&mut self) -> Option<Packet> {
        if self.has_header() {
            return None;
        }
        Packet::first_segment(self)
    }
}

/// A host's hash, or that of the address that stands for all.
fn address(host: Option<u64>, all: u32, seed: u64) -> u32 {
    // Flows' identities begin at 1 and end below this.
    host.map_or(all, |number| packet::flow_hash(number | 1 << 40, seed))
}

/// The ECN bits of a header.
fn bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => ECN,
    }
}

/// Places that are used again.
#[derive(Debug)]
struct Slab<T> {
    places: Vec<T>,
    free: VecDeque<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            places: Vec::new(),
            free: VecDeque::new(),
        }
    }
}

impl<T: Copy> Slab<T> {
    fn put(&mut self, content: T) -> u32 {
        match self.free.pop_front() {
            Some(place) => {
                self.places[place as usize] = content;
                place
            }
            None => {
                self.places.push(content);
                self.places.len() as u32 - 1
            }
        }
    }
    fn look(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
    fn take(&mut self, place: u32) -> T {
        self.free.push_back(place);
        self.places[place as usize]
    }
}

/// What data with a congestion header has no room for.
#[derive(Copy, Clone, Debug)]
struct Displaced {
    seq: u64,
    tsval: u32,
    tsecr: u32,
}

/// What is displaced by congestion headers under way.
#[derive(Debug, Default)]
pub(crate) struct Headers(Slab<Displaced>);

impl Headers {
    /// A segment of `flow` whose header is `header`.
    pub fn packet(&mut self, flow: u32, segment: &Segment, header: &Congestion) -> Packet {
        let plain = Packet::data(flow, segment);
        let &Segment {
            seq, tsval, tsecr, ..
        } = segment;
        Packet {
            seq: header.cwnd().get() | header.rtt().as_us() << 32,
            word: self.0.put(Displaced { seq, tsval, tsecr }),
            tsecr: header.feedback.to_word(),
            flags: plain.flags | HEADER,
            ..plain
        }
    }
    /// A second packet that says what this one does.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let displaced = *self.0.look(packet.word);
        Packet {
            word: self.0.put(displaced),
            ..*packet
        }
    }
    /// The segment of a data packet, with a header or without.
    #[inline]
    pub fn segment(&self, packet: &Packet) -> Segment {
        if !packet.has_header() {
            return packet.segment();
        }
        let &Displaced { seq, tsval, tsecr } = self.0.look(packet.word);
        Segment {
            seq,
            tsval,
            tsecr,
            congestion: packet::Packet::congestion(packet),
            ..packet.segment()
        }
    }
    /// The same of one that is under way no longer: its place is free.
    #[inline(always)]
    pub fn take(&mut self, packet: &Packet) -> Segment {
        if packet.has_header() {
            self.take_header(packet)
        } else {
            packet.segment()
        }
    }
    #[cold]
    fn take_header(&mut self, packet: &Packet) -> Segment {
        let segment = self.segment(packet);
        self.0.take(packet.word);
        segment
    }
}

/// What ACKs under way say.
#[derive(Debug, Default)]
pub(crate) struct Acks(Slab<AckSegment>);

impl Acks {
    /// Sends `ack` for `flow`.
    pub fn packet(&mut self, flow: u32, ack: AckSegment) -> Packet {
        Packet::ack(flow, &ack, self.0.put(ack))
    }
    /// A second packet that says what this one does.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let ack = *self.0.look(packet.word);
        Packet {
            word: self.0.put(ack),
            ..*packet
        }
    }
    /// What an ACK says that is still under way.
    pub fn look(&self, packet: &Packet) -> &AckSegment {
        self.0.look(packet.word)
    }
    /// Adds the SACK blocks that a router may read of it.
    pub fn complete(&self, packet: &Packet, ack: &mut packet::Ack) {
        let said = self.look(packet);
        let blocks = said
            .sacks
            .iter()
            .map(|block| (block.start as u32, block.end as u32));
        ack.blocks.1 = said.n_sacks;
        for (to, block) in ack.blocks.0.iter_mut().zip(blocks) {
            *to = block;
        }
        ack.pure = true;
    }
    /// What an ACK says that is under way no longer; its place is free.
    pub fn take(&mut self, packet: &Packet) -> AckSegment {
        debug_assert_eq!(packet.kind(), Kind::Ack);
        self.0.take(packet.word)
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
    fn a_super_packet_is_cut_into_its_segments() {
        let segment = Segment {
            seq: 5,
            len: 2 * MSS + 10,
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

    #[test]
    fn places_of_acks_are_used_again() {
        let mut acks = Acks::default();
        for ack in 0..1000 {
            let sent = AckSegment {
                ack,
                ..AckSegment::default()
            };
            let packet = acks.packet(0, sent);
            assert_eq!(acks.take(&packet), sent);
        }
        assert_eq!(acks.0.places.len(), 1);
    }

    #[test]
    fn a_congestion_header_travels_and_takes_nothing_from_its_segment() {
        let mut headers = Headers::default();
        let header = Congestion::new(
            Bytes::new(4_000_000_000),
            Span::us(4_000_000_000),
            Feedback::bytes(-2.5),
        );
        let segment = Segment {
            seq: 1 << 50,
            len: 1448,
            tsval: 77,
            tsecr: 78,
            psh: true,
            congestion: Some(header),
            ..Segment::default()
        };
        let mut packet = headers.packet(3, &segment, &header);
        let copy = headers.copy(&packet);
        assert_eq!(
            (packet.size(), packet.congestion()),
            (Bytes::new(1514), Some(header))
        );
        packet.set_feedback(Feedback::bytes(9.0));
        assert_eq!(headers.take(&copy), segment);
        let heard = headers.take(&packet);
        assert_eq!(
            heard.congestion.map(|c| c.feedback),
            Some(Feedback::bytes(9.0))
        );
        assert_eq!((heard.seq, headers.0.places.len()), (1 << 50, 2));
        let mut plain = Packet::data(3, &segment);
        plain.set_feedback(Feedback::bytes(9.0));
        assert_eq!((plain.congestion(), plain.segment().tsecr), (None, 78));
    }
}
