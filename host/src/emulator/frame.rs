//! Converts real packets to the form that the network of the core requires.
//!
//! A read from a TUN device returns a `Whole`: one packet, or a super-packet of up to 64 KiB. A
//! super-packet is split here into the segments that a NIC would send. A [`Frame`] is one segment:
//! a range of the whole, and the fields that may change on the path (ECN bits, DSCP). All segments
//! of a super-packet share the whole. The headers of a segment are created when the frame is
//! written; the payload is never changed. The checksum over the payload is left to the receiving
//! kernel's checksum offload, as between a host and its NIC.
//!
//! Sizes are those of Ethernet frames: 14 bytes more than the length of the IP packet, so that
//! metrics equal those of simulated packets.
//!
//! Sources: virtio 1.2, 5.1.6 (the header `virtio_net_hdr`); RFC 791, 1624, 9293; Linux 6.12
//! `net/ipv4/tcp_offload.c` for which flags go to which segment.

use narrows_core::net::Port;
use narrows_core::packet::{self, Ack, Ecn, Packet, flow_hash};
use narrows_core::units::{Bytes, Time};
use std::ops::Range;
use std::sync::Arc;

/// Length of the header `virtio_net_hdr`, which a TUN device puts before each packet, bytes.
pub const VNET: usize = crate::sys::device::VNET_HEADER;
/// Length of the Ethernet header, which counts in the size of a frame, bytes.
const ETHERNET: u32 = 14;
/// Largest length of the headers of a segment, bytes: `virtio_net_hdr`, IP with options, TCP with
/// options.
pub const HEAD: usize = VNET + 60 + 60;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Lengths of the headers of IPv4 without options and of IPv6 without extension headers, bytes.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Numbers of the extension headers of IPv6 (RFC 8200, 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
const FIN_PSH: u8 = 0x01 | 0x08;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// Assignment of packets to flows and probes by their ports.
#[derive(Copy, Clone, Debug, Default)]
pub struct Ports {
    /// The TCP or UDP port of the receiver of flow 0, and the number of flows.
    pub flows: (u16, u16),
    /// The UDP port of the responder of probe 0, and the number of probes.
    pub probes: (u16, u16),
}

impl Ports {
    /// The index of the flow or probe to which one of the two ports belongs. Indices of probes
    /// follow those of the flows.
    fn owner(self, tcp: bool, ports: [u16; 2]) -> Option<u16> {
        let place = |(first, count): (u16, u16)| {
            let place = |port: u16| port.checked_sub(first).filter(|n| *n < count);
            place(ports[1]).or(place(ports[0]))
        };
        let probe = || place(self.probes).map(|n| self.flows.1 + n);
        // A flow with a workload may consist of datagrams.
        place(self.flows).or_else(|| probe().filter(|_| !tcp))
    }
}

/// A packet or super-packet, as read from a device.
#[derive(Debug)]
struct Whole {
    /// The packet, after its `virtio_net_hdr`.
    bytes: Box<[u8]>,
    /// Length of the headers of IP and TCP, bytes; of IP alone if it is no TCP packet.
    head: usize,
    ip_head: usize,
    v6: bool,
    /// Payload of each segment but the last, bytes; of a single packet its whole payload.
    mss: usize,
    tcp: bool,
    identity: u64,
    port: Port,
    owner: Option<u16>,
}

impl Whole {
    fn packet(&self) -> &[u8] {
        &self.bytes[VNET..]
    }
    fn payload(&self) -> usize {
        self.packet().len() - self.head
    }
    fn source(&self) -> &[u8] {
        &self.packet()[addresses(self.v6).0]
    }
    fn destination(&self) -> &[u8] {
        &self.packet()[addresses(self.v6).1]
    }
}

/// The ranges of source and destination address in an IP header.
fn addresses(v6: bool) -> (Range<usize>, Range<usize>) {
    if v6 {
        (8..24, 24..40)
    } else {
        (12..16, 16..20)
    }
}

/// An address as a number: for IPv4 the address itself, for IPv6 a hash.
fn number(address: &[u8]) -> u64 {
    let words = address.chunks_exact(4).map(|word| u64::from(be32(word, 0)));
    words.fold(0, |sum, word| {
        sum.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word
    })
}

/// The fields of an IP header.
struct Ip {
    v6: bool,
    /// Length with options or extension headers, bytes.
    len: usize,
    protocol: u8,
    /// Whether the packet is a fragment other than the first one.
    fragment: bool,
    tos: u8,
}

/// Reads the IP header; `None` if it is incomplete or neither IPv4 nor IPv6.
fn ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4 => Some(Ip {
            v6: false,
            len: usize::from(packet[0] & 15) * 4,
            protocol: packet[9],
            fragment: be16(packet, 6) & 0x1fff != 0,
            tos: packet[1],
        }),
        6 if packet.len() >= IPV6 => {
            let mut ip = Ip {
                v6: true,
                len: IPV6,
                protocol: packet[6],
                fragment: false,
                tos: packet[0] << 4 | packet[1] >> 4,
            };
            while let HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION = ip.protocol {
                let extension = packet.get(ip.len..ip.len + 8)?;
                let len = match ip.protocol {
                    FRAGMENT => 8,
                    _ => (usize::from(extension[1]) + 1) * 8,
                };
                ip.fragment |= ip.protocol == FRAGMENT && be16(extension, 2) >> 3 != 0;
                ip.protocol = extension[0];
                ip.len += len;
                if ip.fragment {
                    break;
                }
            }
            Some(ip)
        }
        _ => None,
    }
}

/// A packet in the emulated network.
#[derive(Clone, Debug)]
pub struct Frame {
    whole: Arc<Whole>,
    enqueued_at: Time,
    /// Offset of its payload in the payload of the whole, bytes.
    offset: u32,
    len: u32,
    /// Size as an Ethernet frame, bytes; of a super-packet, that of all its segments.
    size: u32,
    tos: u8,
    damaged: bool,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The ones' complement sum of 16-bit words, folded.
fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum = words.fold(start, |a, b| a + b);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Passes the frames of a packet read from the device at `port` to `each`, in order. With `whole`,
/// a super-packet stays one frame. Returns `false` if it is no valid packet of IPv4 or IPv6.
/// Multicast packets of IPv6 yield no frames: the kernel sends them by itself, and routers do not
/// forward them.
pub fn cut(
    read: &[u8],
    port: Port,
    ports: Ports,
    whole: bool,
    mut each: impl FnMut(Frame),
) -> bool {
    let Some(packet) = read.get(VNET..) else {
        return false;
    };
    let Some(Ip {
        v6,
        len: ip_head,
        protocol,
        fragment,
        tos,
    }) = ip(packet)
    else {
        return false;
    };
    if v6 && packet[addresses(true).1.start] == 0xff {
        return true;
    }
    let has_ports =
        (protocol == TCP || protocol == UDP) && !fragment && packet.len() >= ip_head + 8;
    let tcp_head = if protocol == TCP && has_ports && packet.len() >= ip_head + 20 {
        usize::from(packet[ip_head + 12] >> 4) * 4
    } else {
        0
    };
    // A data offset below 5 is not valid (RFC 9293, 3.1); the receiver drops the packet.
    let tcp = tcp_head >= 20;
    let head = if tcp { ip_head + tcp_head } else { ip_head };
    if head > packet.len() || head > HEAD - VNET || ip_head < IPV4 {
        return false;
    }
    let (from, to) = if has_ports {
        (be16(packet, ip_head), be16(packet, ip_head + 2))
    } else {
        (0, 0)
    };
    let (source, destination) = addresses(v6);
    let (source, destination) = (number(&packet[source]), number(&packet[destination]));
    let hosts = source.rotate_left(32) ^ destination;
    let ends = u64::from(protocol) << 32 | u64::from(from) << 16 | u64::from(to);
    let payload = packet.len() - head;
    let gso = u16::from_ne_bytes([read[4], read[5]]);
    let super_packet = tcp && read[1] & !GSO_ECN == offload(v6) && gso > 0;
    let mss = if super_packet {
        usize::from(gso)
    } else {
        payload
    };
    let shared = Arc::new(Whole {
        bytes: read.into(),
        head,
        ip_head,
        v6,
        mss,
        tcp,
        identity: hosts.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31) ^ ends,
        port,
        owner: ports.owner(tcp, [from, to]).filter(|_| has_ports),
    });
    let headers = head as u32 + ETHERNET;
    let frame = |offset: usize, len: usize, size: u32| Frame {
        whole: Arc::clone(&shared),
        enqueued_at: Time::ZERO,
        offset: offset as u32,
        len: len as u32,
        size,
        tos,
        damaged: false,
    };
    if whole || payload <= mss {
        let segments = payload.div_ceil(mss.max(1)).max(1) as u32;
        each(frame(0, payload, headers * segments + payload as u32));
        return true;
    }
    for offset in (0..payload).step_by(mss) {
        let len = mss.min(payload - offset);
        each(frame(offset, len, headers + len as u32));
    }
    true
}

/// The GSO type of a super-packet of TCP.
fn offload(v6: bool) -> u8 {
    if v6 { GSO_TCP6 } else { GSO_TCP4 }
}

/// The acknowledgement in a TCP header; `None` in a SYN. `empty`: the segment has no payload.
fn acknowledges(tcp: &[u8], connection: u64, empty: bool) -> Option<Ack> {
    if tcp[13] & SYN != 0 || tcp[13] & ACK == 0 {
        return None;
    }
    let mut ack = Ack {
        connection,
        pure: empty && tcp[13] & !(ACK | ECE | CWR) == 0,
        next: be32(tcp, 8),
        ecn: (tcp[13] & ECE != 0, tcp[13] & CWR != 0),
        ..Ack::default()
    };
    let mut options = &tcp[20..];
    while let [kind, rest @ ..] = options {
        let (len, value) = match (kind, rest) {
            (0, _) => break,
            (1, _) => (1, &[][..]),
            (_, [len, ..]) if *len >= 2 && usize::from(*len) <= options.len() => {
                (usize::from(*len), &options[2..usize::from(*len)])
            }
            _ => break,
        };
        match kind {
            5 => {
                for (place, block) in ack.blocks.0.iter_mut().zip(value.chunks_exact(8)) {
                    *place = (be32(block, 0), be32(block, 4));
                    ack.blocks.1 += 1;
                }
            }
            8 if value.len() == 8 => ack.timestamps = Some((be32(value, 0), be32(value, 4))),
            1 => {}
            _ => ack.pure = false,
        }
        options = &options[len..];
    }
    Some(ack)
}

impl Frame {
    /// The port of the network at which the frame entered.
    pub fn port(&self) -> Port {
        self.whole.port
    }
    /// The index of the flow or probe to which the frame belongs, as data, ACK, ping or answer.
    /// Indices of probes follow those of the flows.
    pub fn owner(&self) -> Option<u16> {
        self.whole.owner
    }
    /// The port of the host to which the frame is addressed: the last byte of the destination
    /// address minus one. `None` if this byte is 0.
    pub fn to_port(&self) -> Option<Port> {
        self.whole.destination().last()?.checked_sub(1)
    }
    /// A hash of the addresses, protocol and ports of its flow.
    pub fn identity(&self) -> u64 {
        self.whole.identity
    }
    /// Whether the frame is an IPv6 packet.
    pub fn is_v6(&self) -> bool {
        self.whole.v6
    }
    /// The byte of the IP header with DSCP and ECN bits.
    pub fn tos(&self) -> u8 {
        self.tos
    }
    /// Whether the frame is a TCP segment with a valid TCP header.
    pub fn is_tcp(&self) -> bool {
        self.whole.tcp
    }
    /// Whether the network has damaged the frame. The receiver would drop it.
    pub fn damaged(&self) -> bool {
        self.damaged
    }
    /// Whether `next` can be appended to this frame, to which frames up to `len` bytes of payload
    /// were appended already.
    pub fn continued_by(&self, len: usize, next: &Frame) -> bool {
        Arc::ptr_eq(&self.whole, &next.whole)
            && len > 0
            && next.offset as usize == self.offset as usize + len
            && len % self.whole.mss == 0
            && next.tos == self.tos
            && !next.damaged
    }
    /// Length of the payload, bytes.
    pub fn payload(&self) -> usize {
        self.len as usize
    }
    /// Returns `len` bytes of payload, from the beginning of this frame on, which may extend over
    /// the following frames.
    pub fn body(&self, len: usize) -> &[u8] {
        let start = self.whole.head + self.offset as usize;
        &self.whole.packet()[start..start + len]
    }
    /// Writes the headers of the frame, including `virtio_net_hdr`, for `len` bytes of payload to
    /// `to`. Returns the used range.
    pub fn headers(&self, len: usize, to: &mut [u8; HEAD]) -> Range<usize> {
        let whole = &*self.whole;
        let packet = whole.packet();
        to[..VNET + whole.head].copy_from_slice(&whole.bytes[..VNET + whole.head]);
        let (vnet, head) = to.split_at_mut(VNET);
        let (ip, transport) = head.split_at_mut(whole.ip_head);
        let alone = len == whole.payload();
        if whole.v6 {
            ip[0] = 0x60 | self.tos >> 4;
            ip[1] = self.tos << 4 | ip[1] & 15;
            if !alone {
                ip[4..6].copy_from_slice(&((whole.head + len - IPV6) as u16).to_be_bytes());
            }
        } else {
            ip[1] = self.tos;
            if !alone {
                let number = (self.offset as usize / whole.mss) as u16;
                ip[2..4].copy_from_slice(&((whole.head + len) as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&be16(packet, 4).wrapping_add(number).to_be_bytes());
            }
            if !alone || self.tos != packet[1] {
                ip[10..12].fill(0);
                let check = !sum(ip, 0);
                ip[10..12].copy_from_slice(&check.to_be_bytes());
            }
        }
        if !alone && whole.tcp {
            let seq = be32(transport, 4).wrapping_add(self.offset);
            transport[4..8].copy_from_slice(&seq.to_be_bytes());
            let last = self.offset as usize + len == whole.payload();
            if !last {
                transport[13] &= !FIN_PSH;
            }
            if self.offset > 0 {
                transport[13] &= !CWR;
            }
            // As the kernel does for a NIC, the checksum field gets the sum over the pseudo-header.
            // The checksum offload adds the sum over the segment.
            let length = (whole.head - whole.ip_head + len) as u32;
            let (from, to) = addresses(whole.v6);
            let check = sum(&ip[from.start..to.end], u32::from(TCP) + length);
            transport[16..18].copy_from_slice(&check.to_be_bytes());
            vnet[0] = NEEDS_CHECKSUM;
            vnet[6..8].copy_from_slice(&(whole.ip_head as u16).to_ne_bytes());
            vnet[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        }
        let still_super = len > whole.mss;
        if !still_super {
            vnet[1] = 0;
            vnet[2..6].fill(0);
        } else if whole.tcp {
            let ecn = if transport[13] & CWR != 0 { GSO_ECN } else { 0 };
            vnet[1] = offload(whole.v6) | ecn;
            vnet[2..4].copy_from_slice(&(whole.head as u16).to_ne_bytes());
            vnet[4..6].copy_from_slice(&(whole.mss as u16).to_ne_bytes());
        }
        0..VNET + whole.head
    }
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
    fn memory(&self, size: Bytes) -> Bytes {
        packet::memory(size, self.ip())
    }
    fn enqueued_at(&self) -> Time {
        self.enqueued_at
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.enqueued_at = now;
    }
    fn flow_hash(&self, seed: u64) -> u32 {
        flow_hash(self.whole.identity, seed)
    }
    fn src_hash(&self, seed: u64) -> u32 {
        flow_hash(number(self.whole.source()), seed)
    }
    fn dst_hash(&self, seed: u64) -> u32 {
        flow_hash(number(self.whole.destination()), seed)
    }
    fn ack(&self) -> Option<Ack> {
        let whole = &*self.whole;
        let head = &whole.packet()[..whole.head];
        whole
            .tcp
            .then(|| acknowledges(&head[whole.ip_head..], whole.identity, self.len == 0))?
    }
    fn ecn(&self) -> Ecn {
        match self.tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    fn set_ce(&mut self) {
        self.tos |= 3;
    }
    fn joined(&self) -> bool {
        self.offset > 0
    }
    fn owner(&self) -> Option<u32> {
        self.whole.owner.map(u32::from)
    }
    fn dscp(&self) -> u8 {
        self.tos >> 2
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.tos = self.tos & 3 | dscp << 2;
    }
    fn damage(&mut self) {
        self.damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports {
        flows: (20_000, 2),
        probes: (7_000, 1),
    };

    /// A super-packet of `payload` bytes, ECT(0), PSH and CWR set, from port 40000 to 20001.
    fn super_packet(payload: usize, mss: u16) -> Vec<u8> {
        let mut read = vec![0; VNET];
        read[0] = NEEDS_CHECKSUM;
        read[1] = GSO_TCP4 | GSO_ECN;
        read[4..6].copy_from_slice(&mss.to_ne_bytes());
        read[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        read[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let mut ip = vec![
            0x45, 0x02, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip[2..4].copy_from_slice(&((52 + payload) as u16).to_be_bytes());
        let check = !sum(&ip, 0);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        read.extend(ip);
        let mut tcp = vec![0; 32];
        tcp[..2].copy_from_slice(&40_000_u16.to_be_bytes());
        tcp[2..4].copy_from_slice(&20_001_u16.to_be_bytes());
        tcp[4..8].copy_from_slice(&(u32::MAX - 999).to_be_bytes());
        (tcp[12], tcp[13]) = (8 << 4, CWR | 0x18);
        read.extend(tcp);
        read.extend((0..payload).map(|i| i as u8));
        read
    }

    fn frames(read: &[u8], whole: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        assert!(cut(read, 0, PORTS, whole, |frame| frames.push(frame)));
        frames
    }

    #[test]
    fn a_super_packet_becomes_the_segments_that_a_card_would_send() {
        let read = super_packet(3000, 1448);
        let cut = frames(&read, false);
        assert_eq!(
            cut.iter().map(|f| f.size().get()).collect::<Vec<_>>(),
            [1514, 1514, 170]
        );
        assert_eq!(
            cut.iter().map(Frame::joined).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert!(
            cut.iter()
                .all(|f| f.owner() == Some(1) && f.ecn() == Ecn::Ect0)
        );
        let mut bytes = Vec::new();
        for (i, frame) in cut.iter().enumerate() {
            let mut head = [0; HEAD];
            let n = frame.headers(frame.payload(), &mut head);
            let head = &head[n];
            let ip = &head[VNET..VNET + 20];
            assert_eq!(sum(ip, 0), 0xffff, "the checksum of segment {i}");
            assert_eq!(usize::from(be16(ip, 2)), 52 + frame.payload());
            // Numbers wrap like those of the card.
            assert_eq!(be16(ip, 4), 0xffff_u16.wrapping_add(i as u16));
            let tcp = &head[VNET + 20..];
            assert_eq!(be32(tcp, 4), (u32::MAX - 999).wrapping_add(1448 * i as u32));
            assert_eq!(tcp[13] & CWR != 0, i == 0);
            assert_eq!(tcp[13] & 0x08 != 0, i == 2);
            assert_eq!((head[0], head[1]), (NEEDS_CHECKSUM, 0));
            bytes.extend_from_slice(frame.body(frame.payload()));
        }
        assert_eq!(bytes, &read[VNET + 52..]);
    }

    #[test]
    fn segments_that_follow_each_other_go_out_as_one() {
        let read = super_packet(5000, 1448);
        let cut = frames(&read, false);
        assert!(cut[0].continued_by(1448, &cut[1]) && cut[0].continued_by(2896, &cut[2]));
        assert!(!cut[0].continued_by(1448, &cut[2]) && !cut[1].continued_by(1448, &cut[3]));
        let mut head = [0; HEAD];
        let n = cut[0].headers(2896, &mut head);
        let head = &head[n];
        assert_eq!(head[1], GSO_TCP4 | GSO_ECN);
        assert_eq!(u16::from_ne_bytes([head[4], head[5]]), 1448);
        assert_eq!(be16(head, VNET + 2), 52 + 2896);
        let mut marked = cut[1].clone();
        marked.set_ce();
        assert!(!cut[0].continued_by(1448, &marked));
        // Two copies of a packet without payload, in a network that duplicates.
        let empty = frames(&super_packet(0, 0), false).remove(0);
        assert!(!empty.continued_by(0, &empty.clone()));
    }

    #[test]
    fn a_mark_changes_the_header_and_its_checksum_alone() {
        let read = super_packet(100, 1448);
        let mut frame = frames(&read, false).remove(0);
        let mut head = [0; HEAD];
        let n = frame.headers(100, &mut head);
        assert_eq!(head[VNET..n.end], read[VNET..VNET + 52]);
        frame.set_ce();
        frame.set_dscp(10);
        let n = frame.headers(100, &mut head);
        assert_eq!(head[VNET + 1], 10 << 2 | 3);
        assert_eq!(sum(&head[VNET..VNET + 20], 0), 0xffff);
        assert_eq!(head[VNET + 20..n.end], read[VNET + 20..VNET + 52]);
    }

    #[test]
    fn a_whole_one_weighs_what_its_segments_do() {
        let read = super_packet(3000, 1448);
        let whole = frames(&read, true);
        assert_eq!((whole.len(), whole[0].size().get()), (1, 3000 + 3 * 66));
        let mut head = [0; HEAD];
        let n = whole[0].headers(3000, &mut head);
        assert_eq!(head[VNET..n.end], read[VNET..VNET + 52]);
        assert_eq!(head[1], GSO_TCP4 | GSO_ECN);
    }

    /// Options: two of padding, timestamps 7 and 8, two more, SACK of 100 to 200 and 300 to 400.
    #[test]
    fn an_ack_says_what_it_acknowledges() {
        let mut tcp = vec![0; 20];
        tcp[8..12].copy_from_slice(&5_000_u32.to_be_bytes());
        tcp[13] = ACK | ECE;
        tcp.extend([1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8, 1, 1, 5, 18]);
        for edge in [100_u32, 200, 300, 400] {
            tcp.extend(edge.to_be_bytes());
        }
        let ack = acknowledges(&tcp, 9, true).unwrap_or_default();
        assert_eq!(
            (ack.pure, ack.next, ack.timestamps),
            (true, 5_000, Some((7, 8)))
        );
        assert_eq!(
            (ack.ecn, ack.sack()),
            ((true, false), &[(100, 200), (300, 400)][..])
        );
        tcp[13] |= SYN;
        assert_eq!(acknowledges(&tcp, 9, true), None);
        // What is cut short ends the list.
        let short = [&[0; 13][..], &[ACK], &[0; 6], &[8, 10, 0]].concat();
        assert_eq!(
            acknowledges(&short, 9, true).unwrap_or_default().timestamps,
            None
        );
    }

    /// The super-packet over IPv6, with flow label 0xabcde and this chain of extension headers.
    fn super_packet6(payload: usize, mss: u16, extensions: &[u8]) -> Vec<u8> {
        let v4 = super_packet(payload, mss);
        let mut read = v4[..VNET].to_vec();
        read[1] = GSO_TCP6 | GSO_ECN;
        let ip_head = (IPV6 + extensions.len()) as u16;
        read[6..8].copy_from_slice(&ip_head.to_ne_bytes());
        let next = if extensions.is_empty() {
            TCP
        } else {
            HOP_BY_HOP
        };
        read.extend([0x60, 0x2a, 0xbc, 0xde, 0, 0, next, 64]);
        let length = (extensions.len() + 32 + payload) as u16;
        read[VNET + 4..VNET + 6].copy_from_slice(&length.to_be_bytes());
        let address = |n| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
        read.extend(address(1));
        read.extend(address(2));
        read.extend(extensions);
        read.extend(&v4[VNET + IPV4..]);
        read
    }

    #[test]
    fn segments_of_ipv6_have_their_length_their_class_and_their_sum() {
        // Hop-by-hop options of eight bytes: a padding of six.
        for extensions in [&[][..], &[TCP, 0, 1, 4, 0, 0, 0, 0]] {
            let read = super_packet6(3000, 1428, extensions);
            let cut = frames(&read, false);
            let headers = (ETHERNET as usize + IPV6 + extensions.len() + 32) as u64;
            assert_eq!(
                cut.iter().map(|f| f.size().get()).collect::<Vec<_>>(),
                [headers + 1428, headers + 1428, headers + 144]
            );
            assert!(
                cut.iter()
                    .all(|f| f.owner() == Some(1) && f.to_port() == Some(1))
            );
            let mut marked = cut[1].clone();
            assert_eq!((marked.ecn(), marked.dscp()), (Ecn::Ect0, 0));
            marked.set_ce();
            marked.set_dscp(46);
            let mut head = [0; HEAD];
            let n = marked.headers(1428, &mut head);
            let ip = &head[n][VNET..VNET + IPV6];
            assert_eq!(ip[..4], [0x6b, 0xba, 0xbc, 0xde], "class, flow label");
            assert_eq!(usize::from(be16(ip, 4)), extensions.len() + 32 + 1428);
            let tcp = VNET + IPV6 + extensions.len();
            assert_eq!(be32(&head, tcp + 4), (u32::MAX - 999).wrapping_add(1428));
            // The sum over addresses, length and protocol.
            let pseudo = sum(&ip[8..40], u32::from(TCP) + 32 + 1428);
            assert_eq!(be16(&head, tcp + 16), pseudo);
            assert_eq!((head[0], head[1]), (NEEDS_CHECKSUM, 0));
            let n = cut[0].headers(2856, &mut head);
            assert_eq!(
                (head[1], n.len()),
                (GSO_TCP6 | GSO_ECN, VNET + IPV6 + extensions.len() + 32)
            );
        }
    }

    #[test]
    fn flows_of_ipv6_differ_by_their_addresses() {
        let read = super_packet6(100, 1428, &[]);
        let mut other = read.clone();
        other[VNET + 23] = 9;
        let of = |read: &[u8]| frames(read, false)[0].identity();
        assert_ne!(of(&read), of(&other));
    }

    #[test]
    fn damaged_headers_of_ipv6_are_refused_and_multicast_has_no_frame() {
        let mut multicast = super_packet6(100, 1428, &[]);
        multicast[VNET + 24] = 0xff;
        assert_eq!(frames(&multicast, false).len(), 0);
        // An extension that is longer than the packet.
        let long = super_packet6(0, 1428, &[TCP, 255, 0, 0, 0, 0, 0, 0]);
        assert!(!cut(&long, 0, PORTS, false, |_| ()));
        let mut short = super_packet6(0, 1428, &[TCP, 0, 0, 0, 0, 0, 0, 0]);
        short.truncate(VNET + IPV6 + 4);
        assert!(!cut(&short, 0, PORTS, false, |_| ()));
    }

    #[test]
    fn what_is_no_ip_is_refused() {
        let mut none = vec![0; VNET + 40];
        none[VNET] = 0x50;
        assert!(!cut(&none, 0, PORTS, false, |_| ()));
        assert!(!cut(&none[..VNET], 0, PORTS, false, |_| ()));
    }
}
