//! A run as a capture file for Wireshark and tshark: pcapng, with timestamps in nanoseconds since
//! the start of the run.
//!
//! The file has three interfaces. Two interfaces are the ends of the path, with names that the
//! driver gives ([`INTERFACES`] for a run). At such an end, packets that enter the path are
//! outbound, and packets that leave it are inbound, as tcpdump would show them there. The interface
//! `path` shows events inside the path: every packet that was dropped or marked, with a comment
//! that names the hop and the reason. Of each simulated packet, the file contains the headers and
//! the full length, but no payload.
//!
//! This module generates the headers of simulated packets. Addresses are from 192.0.2.0/24 and
//! 2001:db8:1::/48 (near), and from 198.51.100.0/24 and 2001:db8:2::/48 (far). TCP segments have
//! the options that Linux sends: timestamps always, SACK blocks in ACKs, and counters of accurate
//! ECN. SYNs also have an MSS, SACK-permitted and a window scale of 14. Probes are UDP. Sequence
//! numbers begin at zero. TCP checksums are zero, because there is no payload to sum.
//!
//! The file is sorted by time if no record arrives more than [`HORIZON`] late. Records may arrive
//! out of order: an engine advances a queue only when it must, so it may report a drop after later
//! packets.
//!
//! Sources: draft-ietf-opsawg-pcapng (blocks of types 0x0a0d0d0a, 1, 6); RFC 791, 8200, 9293, 7323,
//! 2018, 768, 9768.

use crate::net::{NEAR, Port};
use crate::packet::Ecn;
use crate::packet::Ip;
use crate::queue::DropReason;
use crate::tcp::wire::{AckSegment, MarkedBytes, Segment};
use crate::text::is_control;
use crate::transport::{TIMESTAMPS, TcpOptions, USUAL_MTU};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The maximum time by which a record may arrive after a record with a later timestamp.
pub const HORIZON: Span = Span::ms(250);
/// The maximum number of bytes of each packet in the file (snap length).
pub const SNAP: usize = 128;
/// The number of bytes that are collected before they are passed to the sink.
const CHUNK: usize = 64 << 10;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: a packet begins with its IP header.
const RAW: u16 = 101;
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
const WINDOW_SCALE: u8 = 14;
/// The kind of the AccECN option of order 1.
const ACCECN_ORDER_1: u8 = 174;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Writes the bytes of the file in order; returns false if it failed to write.
pub type Sink = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// The interfaces of a run at [`NEAR`] and at [`FAR`](crate::net::FAR): name and description.
pub const INTERFACES: [(&str, &str); 2] = [
    ("near", "the senders' end of the path"),
    ("far", "the receivers' end of the path"),
];

/// The place where a packet was seen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Where {
    /// The packet enters the path at this port.
    Enters(Port),
    /// The packet leaves the path at this port.
    Leaves(Port),
    /// The packet is inside the path.
    Inside,
}

/// One record, not yet written.
struct Record {
    at: Time,
    block: Vec<u8>,
}

/// A capture file during a run.
pub struct Capture {
    sink: Sink,
    pending: Vec<Record>,
    flushed: Time,
    out: Vec<u8>,
    failed: bool,
}

impl Capture {
    /// Starts a capture; `title` is its comment, `endpoints` are the names of the interfaces at
    /// [`NEAR`] and at [`FAR`](crate::net::FAR).
    pub fn new(title: &str, endpoints: [(&str, &str); 2], sink: Sink) -> Capture {
        let mut capture = Capture {
            sink,
            pending: Vec::new(),
            flushed: Time::ZERO,
            out: Vec::new(),
            failed: false,
        };
        let mut section = Vec::new();
        section.extend(MAGIC.to_le_bytes());
        section.extend(1_u16.to_le_bytes());
        section.extend(0_u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        option(&mut section, 1, printable(title).as_bytes());
        option(&mut section, 4, b"narrows");
        block(&mut capture.out, SECTION, &section);
        let inside = ("path", "packets that the path dropped or marked");
        for (name, what) in endpoints.into_iter().chain([inside]) {
            let mut interface = Vec::new();
            interface.extend(RAW.to_le_bytes());
            interface.extend(0_u16.to_le_bytes());
            interface.extend((SNAP as u32).to_le_bytes());
            option(&mut interface, 2, name.as_bytes());
            option(&mut interface, 3, what.as_bytes());
            option(&mut interface, 9, &[NANOSECONDS]);
            block(&mut capture.out, INTERFACE, &interface);
        }
        capture
    }

    /// Records a packet of `len` bytes that begins with `head`. An empty comment is left out.
    pub fn packet(&mut self, at: Time, seen: Where, head: &[u8], len: u32, comment: &str) {
        if self.failed {
            return;
        }
        let (interface, flags) = match seen {
            Where::Enters(port) => (u32::from(port != NEAR), OUTBOUND),
            Where::Leaves(port) => (u32::from(port != NEAR), INBOUND),
            Where::Inside => (2, 0),
        };
        let head = &head[..head.len().min(SNAP)];
        let ns = at.as_ns();
        let mut body = Vec::with_capacity(SNAP + 64);
        body.extend(interface.to_le_bytes());
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        body.extend((head.len() as u32).to_le_bytes());
        body.extend(len.max(head.len() as u32).to_le_bytes());
        padded(&mut body, head);
        if !comment.is_empty() {
            option(&mut body, 1, comment.as_bytes());
        }
        if flags != 0 {
            option(&mut body, 2, &flags.to_le_bytes());
        }
        let mut record = Vec::with_capacity(body.len() + 16);
        block(&mut record, PACKET, &body);
        self.pending.push(Record { at, block: record });
        if at.since(self.flushed) > HORIZON + HORIZON {
            self.flush(at - HORIZON);
        }
    }

    /// Sorts and writes the records that are older than `before`.
    fn flush(&mut self, before: Time) {
        self.flushed = before;
        self.pending.sort_by_key(|record| record.at);
        let ready = self.pending.partition_point(|record| record.at < before);
        for record in self.pending.drain(..ready) {
            self.out.extend(record.block);
            if self.out.len() >= CHUNK && !self.failed {
                self.failed = !(self.sink)(&self.out);
                self.out.clear();
            }
        }
    }

    /// Ends the capture: writes the remaining records. Returns false if the sink failed.
    pub fn finish(mut self) -> bool {
        self.flush(Time::MAX);
        !self.failed && (self.sink)(&self.out)
    }
}

/// The comment of a record about a packet that was dropped or marked.
pub fn comment(dropped: bool, hop: &str, reason: DropReason) -> alloc::string::String {
    let because = match reason {
        DropReason::Overflow => "its buffer was full",
        DropReason::Aqm => "its control law decided so",
        DropReason::Loss => "the path lost it at random",
        DropReason::Policer => "its policer found it over its rate",
    };
    format!(
        "{} by hop {hop}: {because}",
        if dropped { "dropped" } else { "marked CE" }
    )
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    // A block with options ends in an end-of-options option.
    let len = 12 + body.len() as u32 + 4;
    out.extend(kind.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(body);
    out.extend(0_u32.to_le_bytes());
    out.extend(len.to_le_bytes());
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes);
    out.extend(core::iter::repeat_n(
        0,
        bytes.len().next_multiple_of(4) - bytes.len(),
    ));
}

/// The text in one line without control characters: programs that print comments pass them to the
/// terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            c if is_control(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// The addresses and ports of a simulated connection. Addresses and ports are derived from the
/// number of the flow or probe, so that no two connections have the same.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Endpoints {
    ip: Ip,
    from: ((Port, u8), u16),
    to: ((Port, u8), u16),
}

impl Endpoints {
    /// The connection from the sender of flow (or probe) `number`, at `sender`, to its receiver.
    pub fn of(number: u32, sender: Port) -> Endpoints {
        const PORTS: u32 = 50_000;
        let place = (number / PORTS % 250) as u8 + 1;
        let receiver = crate::net::NEAR + crate::net::FAR - sender;
        Endpoints {
            ip: Ip::V4,
            from: ((sender, place), 10_000 + (number % PORTS) as u16),
            to: ((receiver, place), 5_001),
        }
    }
    /// Returns the endpoints of the same connection in the other direction.
    pub fn reversed(self) -> Endpoints {
        Endpoints {
            from: self.to,
            to: self.from,
            ..self
        }
    }
    /// Returns the endpoints of a connection with this version of IP.
    pub fn over(self, ip: Ip) -> Endpoints {
        Endpoints { ip, ..self }
    }
}

/// Writes the headers of a segment into `out`; returns the length of its IP packet in bytes.
pub fn segment(endpoints: Endpoints, dscp: u8, s: &Segment, out: &mut Vec<u8>) -> u32 {
    let mut options = Vec::with_capacity(20);
    if s.syn {
        options.extend([2, 4]);
        options.extend(announced(s.options));
        stamps_or_padding(&mut options, s.options.has_timestamps(), (s.tsval, s.tsecr));
        options.extend([1, 3, 3, WINDOW_SCALE]);
    } else {
        if s.options.has_timestamps() {
            options.extend([1, 1]);
            timestamps(&mut options, s.tsval, s.tsecr);
        }
        if s.options.has_accecn() {
            accurate_ecn(&mut options, 3, MarkedBytes::default());
        }
    }
    let (seq, ack) = if s.syn { (0, 0) } else { (s.seq as u32 + 1, 1) };
    let flags = Flags {
        syn: s.syn,
        ack: !s.syn,
        psh: s.psh,
        ece: s.syn && s.cwr,
        cwr: s.cwr,
        // All three flags of a SYN request AccECN (RFC 9768, section 3.1.1).
        ae: s.syn && s.cwr && (s.ecn == Ecn::Ect1 || s.options.has_accecn()),
    };
    tcp(
        endpoints, dscp, s.ecn, seq, ack, flags, 4, &options, s.len, out,
    )
}

/// The value of the MSS option of a host whose segments have these options.
fn announced(options: TcpOptions) -> [u8; 2] {
    let stamps = if options.has_timestamps() {
        TIMESTAMPS
    } else {
        0
    };
    (options.mss() as u16 + stamps as u16).to_be_bytes()
}

/// Writes the SACK-permitted option of a SYN, and its timestamps or padding.
fn stamps_or_padding(options: &mut Vec<u8>, stamped: bool, (tsval, tsecr): (u32, u32)) {
    if stamped {
        options.extend([4, 2]);
        timestamps(options, tsval, tsecr);
    } else {
        options.extend([1, 1, 4, 2]);
    }
}

/// Writes the headers of an acknowledgement into `out`; `endpoints` are reversed by the caller.
pub fn acknowledgement(endpoints: Endpoints, dscp: u8, a: &AckSegment, out: &mut Vec<u8>) -> u32 {
    let mut options = Vec::with_capacity(40);
    if a.syn {
        options.extend([2, 4]);
        let mss = USUAL_MTU - endpoints.ip.header() - 20;
        options.extend(mss.to_be_bytes());
        stamps_or_padding(&mut options, a.marks.has_timestamps(), (a.tsval, a.tsecr));
        options.extend([1, 3, 3, WINDOW_SCALE]);
        if a.marks.counters() > 0 {
            accurate_ecn(&mut options, a.marks.counters(), MarkedBytes::default());
        }
    } else {
        if a.marks.has_timestamps() {
            options.extend([1, 1]);
            timestamps(&mut options, a.tsval, a.tsecr);
        }
        if let Some(bytes) = a.bytes() {
            accurate_ecn(&mut options, a.marks.counters(), bytes);
        }
        let blocks = &a.sacks[..usize::from(a.n_sacks).min(a.sacks.len())];
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for b in blocks {
                options.extend((b.start as u32).wrapping_add(1).to_be_bytes());
                options.extend((b.end as u32).wrapping_add(1).to_be_bytes());
            }
        }
    }
    let window = if a.syn {
        a.window
    } else {
        a.window >> WINDOW_SCALE
    };
    let window = window.min(u64::from(u16::MAX)) as u16;
    let (seq, ack) = if a.syn {
        (0, 1)
    } else {
        (1, (a.ack as u32).wrapping_add(1))
    };
    let flags = Flags {
        syn: a.syn,
        ack: true,
        psh: false,
        // With AccECN, the SYN-ACK reports the ECN field of the SYN; other ACKs carry three bits of
        // the counter (RFC 9768).
        ece: a.marks.ace() & 1 != 0 || a.ece && !(a.syn && a.marks.ace() != 0),
        cwr: a.marks.ace() & 2 != 0,
        ae: a.marks.ace() & 4 != 0,
    };
    tcp(
        endpoints,
        dscp,
        a.marks.ecn(),
        seq,
        ack,
        flags,
        window,
        &options,
        0,
        out,
    )
}

/// Writes the headers of a probe of `len` bytes of payload.
pub fn datagram(endpoints: Endpoints, dscp: u8, ecn: Ecn, len: u16, out: &mut Vec<u8>) -> u32 {
    let total = u32::from(endpoints.ip.header() + 8 + len);
    ip(endpoints, dscp, ecn, UDP, total, out);
    out.extend(endpoints.from.1.to_be_bytes());
    out.extend(endpoints.to.1.to_be_bytes());
    out.extend((8 + len).to_be_bytes());
    out.extend([0, 0]);
    total
}

struct Flags {
    syn: bool,
    ack: bool,
    psh: bool,
    ece: bool,
    cwr: bool,
    ae: bool,
}

#[allow(clippy::too_many_arguments)]
fn tcp(
    endpoints: Endpoints,
    dscp: u8,
    ecn: Ecn,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    options: &[u8],
    len: u32,
    out: &mut Vec<u8>,
) -> u32 {
    let head = 20 + options.len() as u32;
    let total = u32::from(endpoints.ip.header()) + head + len;
    ip(endpoints, dscp, ecn, TCP, total, out);
    out.extend(endpoints.from.1.to_be_bytes());
    out.extend(endpoints.to.1.to_be_bytes());
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    let bit = |set, bit: u8| if set { bit } else { 0 };
    let accurate = bit(flags.ae, 0x01);
    let flags = bit(flags.cwr, 0x80)
        | bit(flags.ece, 0x40)
        | bit(flags.ack, 0x10)
        | bit(flags.psh, 0x08)
        | bit(flags.syn, 0x02);
    out.extend([(head as u8 / 4) << 4 | accurate, flags]);
    out.extend(window.to_be_bytes());
    out.extend([0; 4]);
    out.extend(options);
    total
}

/// The AccECN option of order 1, padded: bytes with ECT(1), CE and, if there are three counters,
/// ECT(0). The counters of ECT(1) and ECT(0) begin at one (RFC 9768 section 3.2.3).
fn accurate_ecn(out: &mut Vec<u8>, counters: u8, bytes: MarkedBytes) {
    out.extend([ACCECN_ORDER_1, 2 + 3 * counters]);
    let mut counter = |value: u32| out.extend(&value.to_be_bytes()[1..]);
    counter(1);
    counter(bytes.ce);
    if counters > 2 {
        counter(bytes.ect0.wrapping_add(1));
        out.push(1);
    }
}

fn timestamps(out: &mut Vec<u8>, value: u32, echo: u32) {
    out.extend([8, 10]);
    out.extend(value.to_be_bytes());
    out.extend(echo.to_be_bytes());
}

fn ip(endpoints: Endpoints, dscp: u8, ecn: Ecn, protocol: u8, total: u32, out: &mut Vec<u8>) {
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let start = out.len();
    let class = dscp << 2 | bits;
    // A super-packet that exceeds the length field is shown with the field's maximum.
    let in_field = |length: u32| (length.min(u32::from(u16::MAX)) as u16).to_be_bytes();
    let ends = [endpoints.from.0, endpoints.to.0];
    if endpoints.ip == Ip::V6 {
        out.extend([0x60 | class >> 4, class << 4, 0, 0]);
        out.extend(in_field(total - u32::from(Ip::V6.header())));
        out.extend([protocol, 64]);
        for (port, place) in ends {
            let network = if port == NEAR { 1 } else { 2 };
            out.extend([0x20, 0x01, 0x0d, 0xb8, 0, network]);
            out.extend([0; 9]);
            out.push(place);
        }
        return;
    }
    out.extend([0x45, class]);
    out.extend(in_field(total));
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    for (port, place) in ends {
        let network = if port == NEAR {
            [192, 0, 2]
        } else {
            [198, 51, 100]
        };
        out.extend(network);
        out.push(place);
    }
    let words = out[start..]
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    out[start + 10..start + 12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::FAR;
    use alloc::sync::Arc;
    use alloc::vec;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The flags AE, CWR and ECE of a packet without link header.
    fn accurate_flags(packet: &[u8]) -> u8 {
        let tcp = &packet[packet.len() - 40..];
        (tcp[12] & 1) << 2 | tcp[13] >> 6
    }

    /// RFC 9768, section 3.1.1: a SYN requests AccECN by all three flags, and a SYN-ACK without CE
    /// or ECT on the SYN has 010.
    #[test]
    fn handshakes_of_accurate_ecn_have_the_flags_of_the_rfc() {
        let (endpoints, mut out) = (Endpoints::of(7, NEAR), Vec::new());
        let mut syn = Segment {
            syn: true,
            cwr: true,
            options: TcpOptions::AccEcn,
            ..Segment::default()
        };
        segment(endpoints, 0, &syn, &mut out);
        assert_eq!(accurate_flags(&out), 0b111);
        syn.options = TcpOptions::default();
        out.clear();
        segment(endpoints, 0, &syn, &mut out);
        assert_eq!(accurate_flags(&out), 0b011);
        for (ace, flags) in [(0b010, 0b010), (0, 0b001)] {
            let syn_ack = AckSegment {
                syn: true,
                ece: true,
                marks: crate::tcp::wire::AckMarks::new(ace, Ecn::NotEct),
                ..AckSegment::default()
            };
            out.clear();
            acknowledgement(endpoints, 0, &syn_ack, &mut out);
            assert_eq!(accurate_flags(&out), flags);
        }
    }

    #[test]
    fn captured_headers_have_the_overhead_of_packets() {
        let endpoints = Endpoints::of(7, NEAR);
        let mut out = Vec::new();
        let data = Segment {
            seq: 1448,
            len: 1448,
            ..Segment::default()
        };
        assert_eq!(
            u64::from(segment(endpoints, 0, &data, &mut out)) + 14,
            data.size().get()
        );
        assert_eq!(out.len(), 52);
        out.clear();
        let syn = Segment {
            syn: true,
            ..Segment::default()
        };
        assert_eq!(
            u64::from(segment(endpoints, 0, &syn, &mut out)) + 14,
            syn.size().get()
        );
        for n_sacks in 0..=3 {
            out.clear();
            let ack = AckSegment {
                n_sacks,
                ..AckSegment::default()
            };
            let len = acknowledgement(endpoints.reversed(), 0, &ack, &mut out);
            assert_eq!(u64::from(len) + 14, ack.size().get());
            assert_eq!(out.len(), len as usize);
        }
    }

    /// RFC 1071's example is over other bytes. A correct checksum makes the header sum to all ones.
    #[test]
    fn the_ip_header_sums_up() {
        let mut out = Vec::new();
        datagram(Endpoints::of(1, FAR), 46, Ecn::Ce, 64, &mut out);
        assert_eq!(out[1], 46 << 2 | 3);
        let sum: u32 = out[..20]
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn records_come_in_order_and_are_whole() {
        let bytes = Arc::new(AtomicUsize::new(0));
        let mut file = vec![];
        let counter = Arc::clone(&bytes);
        let mut capture = Capture::new(
            "test",
            INTERFACES,
            Box::new(move |chunk| {
                counter.fetch_add(chunk.len(), Ordering::Relaxed);
                true
            }),
        );
        for ms in [5, 3, 4, 900, 700] {
            capture.packet(
                Time::ZERO + Span::ms(ms),
                Where::Inside,
                &[0x45; 20],
                1500,
                "why",
            );
        }
        capture.flush(Time::MAX);
        file.extend_from_slice(&capture.out);
        let mut at = 0;
        let mut times = vec![];
        while at < file.len() {
            let word = |at: usize| {
                u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
            };
            let len = word(at + 4) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(word(at + len - 4) as usize, len);
            if word(at) == PACKET {
                times.push(word(at + 16) / 1_000_000);
            }
            at += len;
        }
        assert_eq!(times, [3, 4, 5, 700, 900]);
        assert!(capture.finish());
        assert_eq!(bytes.load(Ordering::Relaxed), file.len());
    }

    #[test]
    fn the_comment_of_a_capture_has_no_control_characters() {
        let title = "a\u{1b}]0;b\u{7}\u{9b}\u{202e}\nc\u{e9}";
        assert_eq!(
            printable(title),
            "a\u{fffd}]0;b\u{fffd}\u{fffd}\u{fffd} c\u{e9}"
        );
    }
}
