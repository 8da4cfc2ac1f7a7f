//! Answers by the kernel: an XDP program at a device returns datagrams before the network stack
//! processes them. No process is woken, so the response time consists of transmission, the driver
//! and at most a few hundred instructions.
//!
//! ```text
//!   frame in ──▶ IPv4 or IPv6, UDP, whole, to an address of this device and to our port? ──no──▶ the stack, as ever
//!                   │ yes
//!                   ▼ a question of ours (`NARP`): kind, class and times filled in, the sum of all of it kept
//!                swap ports, addresses, MACs; time to live less one ──▶ frame out
//! ```
//!
//! **Checksums.** Swapping two words leaves a sum unchanged, so the checksum of UDP stays valid.
//! The same is true for the partial checksum of a packet that never crossed a wire. The change of
//! the time to live in the IPv4 header is compensated by the difference (RFC 1624, equation 3). The
//! changed times are compensated inside the payload by two bytes that were zero, as in RFC 7820 for
//! OWAMP and TWAMP. The checksum field of UDP is never changed.
//!
//! **No loops.** The program does not answer answers. Answers of narrows are marked (`a`, `s`). Any
//! datagram that is no question of narrows is returned only to a port above that of the program. Of
//! two programs that would answer each other, at most one has the higher port
//! ([`crate::latency::repeats`] follows the same rule). Against other echo services, the time to
//! live of an answer is that of the question minus one, as after forwarding. Therefore no packet
//! causes more than 255 answers.
//!
//! The program does not answer source ports below 1024, and source ports at which this host
//! answers. It does not answer packets whose time to live ends here, packets with IP options or
//! extension headers, or fragments. It does not answer packets whose lengths do not agree,
//! multicast, or frames with a VLAN tag. It does not answer at addresses that the device did not
//! have at the start. It does not answer a source address that no other host can have. These are
//! multicast, loopback and reserved addresses, its own addresses, and its device's broadcast
//! addresses. No token is required. An answer is as long as its question, but goes to the source
//! address of the question, which may be forged.
//!
//! The program is attached in generic mode, which every driver supports and which requires nothing
//! of the peer. It is removed when this process ends in any way ([`bpf::attach`]).

use crate::HostError;
use crate::sys;
use crate::sys::bpf::{self, Alu, Assembler, Helper, If, Label, Reg, Size};
use crate::sys::bpf::{R0, R1, R2, R3, R4, R5, R6, R7, R9, STACK};
use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

/// Largest number of addresses that a program compares.
const ADDRESSES: usize = 32;
/// Ports below this number belong to services that may answer an answer.
const SERVICES: u16 = 1024;
/// Packets whose time to live or hop limit is below this are not answered.
const HOPS: i32 = 2;

/// Offsets of the type and of the IP header in an Ethernet frame, bytes.
const TYPE: i16 = 12;
const IP: i16 = 14;
/// Offsets in an Ethernet frame with IPv4 without options: type of service, fragmentation, time to
/// live and protocol, checksum, source, destination, end of the header.
const V4: (i16, i16, i16, i16, i16, i16, i16) =
    (IP + 1, IP + 6, IP + 8, IP + 10, IP + 12, IP + 16, IP + 20);
/// Offset of the total length of IPv4, and the part of it that is the IP header, bytes.
const V4_LENGTH: (i16, i32) = (IP + 2, 20);
/// Offsets in an Ethernet frame with IPv6: next header, hop limit, source, destination, end of the
/// header.
const V6: (i16, i16, i16, i16, i16) = (IP + 6, IP + 7, IP + 8, IP + 24, IP + 40);
/// Offset of the payload length of IPv6, and the part of it that is the IP header: 0 bytes.
const V6_LENGTH: (i16, i32) = (IP + 4, 0);
/// Length of the UDP header, bytes.
const UDP: i16 = 8;
const PROTOCOL_UDP: u8 = 17;

/// Offsets in a question of narrows ([`crate::protocols::wire`]), from the UDP header on, bytes. At
/// [`KIND`]: version, kind, class, probe; from [`TIMES`] on: the fields that an answer fills in.
const KIND: i16 = UDP + 4;
const TIMES: i16 = UDP + 36;

/// The layout of a kind of question.
struct Question {
    /// The letters of the question and of its answer.
    kinds: (u8, u8),
    /// Number of bytes from [`TIMES`] on.
    bytes: i16,
    /// Offsets from [`TIMES`] at which an answer has the arrival time of the question.
    came: &'static [i16],
    /// Offset from [`TIMES`] of two bytes that are zero in the question. The answer uses them to
    /// compensate the checksum.
    spare: i16,
}

/// Offsets from [`TIMES`] of arrival and departure, with which both kinds begin. The count of
/// questions follows; the program does not count, so it is zero.
const RECEIVED: i16 = 0;
const ANSWERED: i16 = 8;
/// A ping ends with four zeros.
const PING: Question = Question {
    kinds: (b'q', b'a'),
    bytes: 24,
    came: &[RECEIVED],
    spare: 20,
};
/// A timed question continues with the times at which the datagram was ready and was read. Both are
/// the arrival, because the program does not wait. The departure time and number of the previous
/// answer, which are unknown and therefore zero, and padding follow.
const TIMED: Question = Question {
    kinds: (b't', b's'),
    bytes: 52,
    came: &[RECEIVED, 20, 28],
    spare: 48,
};

/// Offsets on the stack of the program: a key of the map; the traffic class; kind and times of the
/// question; those of the answer. The two timestamps of the answer are aligned to eight bytes.
const KEY: i16 = -8;
const CLASS: i16 = -16;
const OLD: i16 = -72;
const NEW: i16 = -132;

fn two(bytes: [u8; 2]) -> i32 {
    i32::from(u16::from_ne_bytes(bytes))
}

fn port(number: u16) -> i32 {
    two(number.to_be_bytes())
}

/// A counter of the program.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Count {
    /// All answers.
    Answered,
    /// Answers to questions of narrows, with timestamps.
    Stamped,
}

/// Swaps `words` words of `size` bytes behind the packet pointer `base`.
fn swap(a: &mut Assembler, base: Reg, size: Size, one: i16, other: i16, words: i16) {
    let bytes = if size == Size::Two { 2 } else { 4 };
    for i in 0..words {
        a.load(size, R2, base, one + i * bytes);
        a.load(size, R3, base, other + i * bytes);
        a.store(size, base, one + i * bytes, R3);
        a.store(size, base, other + i * bytes, R2);
    }
}

/// Emits code that continues if the address at offset `at` is one of `addresses`, and otherwise
/// jumps to `pass`.
fn one_of(a: &mut Assembler, at: i16, addresses: &[Vec<u8>], pass: Label) {
    let known = a.label();
    for address in addresses {
        let next = a.label();
        for (i, word) in address.chunks_exact(4).enumerate() {
            a.load(Size::Four, R2, R6, at + 4 * i as i16);
            a.four(R3, [word[0], word[1], word[2], word[3]]);
            a.jump_if(R2, If::Unequal, R3, next);
        }
        a.jump(known);
        a.here(next);
    }
    a.jump(pass);
    a.here(known);
}

/// Emits code that jumps to `pass` if the source address at offset `at` is one of `addresses`:
/// those of this host, or broadcast addresses.
fn none_of(a: &mut Assembler, at: i16, addresses: &[Vec<u8>], pass: Label) {
    for address in addresses {
        let next = a.label();
        for (i, word) in address.chunks_exact(4).enumerate() {
            a.load(Size::Four, R2, R6, at + 4 * i as i16);
            a.four(R3, [word[0], word[1], word[2], word[3]]);
            a.jump_if(R2, If::Unequal, R3, next);
        }
        a.jump(pass);
        a.here(next);
    }
}

/// Emits code that continues if the datagram at R9 ends where its IP packet ends, and within the
/// frame. `length`: offset of the length field of IP, and the part of this length before the
/// datagram.
fn whole(a: &mut Assembler, end: i16, length: (i16, i32), pass: Label) {
    a.load(Size::Two, R2, R9, 4);
    a.big_endian(R2, 16);
    a.alu(Alu::And, R2, 0xffff);
    a.jump_if(R2, If::Less, i32::from(UDP), pass);
    a.load(Size::Two, R3, R6, length.0);
    a.big_endian(R3, 16);
    a.mov(R4, R2);
    a.alu(Alu::Add, R4, length.1);
    a.jump_if(R4, If::Unequal, R3, pass);
    a.mov(R4, R6);
    a.alu(Alu::Add, R4, i32::from(end));
    a.alu(Alu::Add, R4, R2);
    a.jump_if(R4, If::Greater, R7, pass);
}

/// Emits code that continues if the datagram at R9 is a question of narrows. It also continues if
/// the datagram is no answer of narrows and its source port is above `own`. Otherwise the code
/// jumps to `pass`.
fn no_answer(a: &mut Assembler, own: u16, pass: Label) {
    let (question, plain) = (a.label(), a.label());
    for kind in [PING, TIMED] {
        let other = a.label();
        a.mov(R2, R9);
        a.alu(Alu::Add, R2, i32::from(TIMES + kind.bytes));
        a.jump_if(R2, If::Greater, R7, other);
        a.load(Size::Four, R2, R9, UDP);
        a.four(R3, *b"NARP");
        a.jump_if(R2, If::Unequal, R3, plain);
        a.load(Size::Two, R2, R9, KIND);
        a.jump_if(
            R2,
            If::Equal,
            two([crate::protocols::wire::DATAGRAM_VERSION, kind.kinds.0]),
            question,
        );
        a.jump_if(
            R2,
            If::Equal,
            two([crate::protocols::wire::DATAGRAM_VERSION, kind.kinds.1]),
            pass,
        );
        a.here(other);
    }
    a.here(plain);
    a.load(Size::Two, R2, R9, 0);
    a.big_endian(R2, 16);
    a.jump_if(R2, If::Less, i32::from(own) + 1, pass);
    a.here(question);
}

/// Emits code that continues if the datagram at R9 is for the port of this program and its sender
/// may be answered. Otherwise the code jumps to `pass`.
fn between(a: &mut Assembler, own: &[u16], pass: Label) {
    a.load(Size::Two, R2, R9, 2);
    a.jump_if(
        R2,
        If::Unequal,
        port(own.first().copied().unwrap_or_default()),
        pass,
    );
    a.load(Size::Two, R2, R9, 0);
    for answers in own {
        a.jump_if(R2, If::Equal, port(*answers), pass);
    }
    a.big_endian(R2, 16);
    a.jump_if(R2, If::Less, i32::from(SERVICES), pass);
    no_answer(a, own.first().copied().unwrap_or_default(), pass);
}

fn count(a: &mut Assembler, map: &OwnedFd, what: Count) {
    let none = a.label();
    a.store(Size::Four, STACK, KEY, what as i32);
    a.map(R1, map);
    a.mov(R2, STACK);
    a.alu(Alu::Add, R2, i32::from(KEY));
    a.call(Helper::Lookup);
    a.jump_if(R0, If::Equal, 0, none);
    a.mov(R1, 1);
    a.add_atomically(R0, 0, R1);
    a.here(none);
}

/// Emits code that turns a question with timestamps at R9 into its answer, and that jumps to
/// `other` for any other datagram.
fn stamp(a: &mut Assembler, map: &OwnedFd, question: &Question, other: Label) {
    a.mov(R2, R9);
    a.alu(Alu::Add, R2, i32::from(TIMES + question.bytes));
    a.jump_if(R2, If::Greater, R7, other);
    a.load(Size::Four, R2, R9, UDP);
    a.four(R3, *b"NARP");
    a.jump_if(R2, If::Unequal, R3, other);
    a.load(Size::Two, R2, R9, KIND);
    a.jump_if(
        R2,
        If::Unequal,
        two([crate::protocols::wire::DATAGRAM_VERSION, question.kinds.0]),
        other,
    );
    // The fields that change: pairs of an offset from the UDP header and one on the stack.
    let places = [KIND]
        .into_iter()
        .chain((0..question.bytes / 4).map(|i| TIMES + 4 * i));
    let words: Vec<(i16, i16)> = places
        .enumerate()
        .map(|(i, at)| (at, 4 * i as i16))
        .collect();
    for (at, i) in &words {
        a.load(Size::Four, R2, R9, *at);
        a.store(Size::Four, STACK, OLD + i, R2);
    }
    // The new values.
    let new = NEW + 4;
    a.store(
        Size::Byte,
        STACK,
        NEW,
        i32::from(crate::protocols::wire::DATAGRAM_VERSION),
    );
    a.store(Size::Byte, STACK, NEW + 1, i32::from(question.kinds.1));
    a.load(Size::Byte, R2, STACK, CLASS);
    a.store(Size::Byte, STACK, NEW + 2, R2);
    a.load(Size::Byte, R2, R9, KIND + 3);
    a.store(Size::Byte, STACK, NEW + 3, R2);
    for i in ANSWERED / 4..question.bytes / 4 {
        a.store(Size::Four, STACK, new + 4 * i, 0);
    }
    for at in [RECEIVED, ANSWERED] {
        a.call(Helper::Now);
        a.big_endian(R0, 64);
        a.store(Size::Eight, STACK, new + at, R0);
    }
    for at in &question.came[1..] {
        for half in [0, 4] {
            a.load(Size::Four, R2, STACK, new + RECEIVED + half);
            a.store(Size::Four, STACK, new + at + half, R2);
        }
    }
    // The difference of the checksums of new and old values, folded to 16 bits. Its complement is
    // stored in the spare bytes.
    let length = i32::from(question.bytes + 4);
    a.mov(R1, STACK);
    a.alu(Alu::Add, R1, i32::from(OLD));
    a.mov(R2, length);
    a.mov(R3, STACK);
    a.alu(Alu::Add, R3, i32::from(NEW));
    a.mov(R4, length);
    a.mov(R5, 0);
    a.call(Helper::ChecksumDifference);
    a.four(R1, [0xff; 4]);
    a.alu(Alu::And, R0, R1);
    fold(a, R0);
    a.alu(Alu::Xor, R0, 0xffff);
    a.store(Size::Two, STACK, new + question.spare, R0);
    for (at, i) in &words {
        a.load(Size::Four, R2, STACK, NEW + i);
        a.store(Size::Four, R9, *at, R2);
    }
    count(a, map, Count::Stamped);
}

/// Emits code that folds a sum of 32 bits to 16 bits and adds the carries. The code changes R1.
fn fold(a: &mut Assembler, sum: Reg) {
    for _ in 0..2 {
        a.mov(R1, sum);
        a.alu(Alu::ShiftRight, R1, 16);
        a.alu(Alu::And, sum, 0xffff);
        a.alu(Alu::Add, sum, R1);
    }
}

/// Emits the part for IPv4 packets. After it, R9 points to the UDP header.
fn v4(a: &mut Assembler, own: &[u16], (here, groups): (&[Vec<u8>], &[Vec<u8>]), pass: Label) {
    let (class, fragment, lives, sum, source, destination, end) = V4;
    a.load(Size::Byte, R2, R6, IP);
    a.jump_if(R2, If::Unequal, 0x45, pass);
    a.load(Size::Two, R2, R6, fragment);
    a.jump_if(R2, If::AnyBit, two([0x3f, 0xff]), pass);
    a.load(Size::Byte, R2, R6, lives + 1);
    a.jump_if(R2, If::Unequal, i32::from(PROTOCOL_UDP), pass);
    one_of(a, destination, here, pass);
    none_of(a, source, here, pass);
    none_of(a, source, groups, pass);
    // Source addresses 0.0.0.0/8 ("this network"), loopback, multicast and reserved ones (RFC
    // 6890).
    a.load(Size::Byte, R2, R6, source);
    for first in [0, 127] {
        a.jump_if(R2, If::Equal, first, pass);
    }
    a.jump_if(R2, If::Greater, 223, pass);
    a.mov(R9, R6);
    a.alu(Alu::Add, R9, i32::from(end));
    whole(a, end, V4_LENGTH, pass);
    between(a, own, pass);
    a.load(Size::Byte, R2, R6, class);
    a.store(Size::Byte, STACK, CLASS, R2);
    a.load(Size::Byte, R2, R6, lives);
    a.jump_if(R2, If::Less, HOPS, pass);
    // ~(~sum + ~old + new)
    a.load(Size::Two, R4, R6, lives);
    a.mov(R2, R4);
    a.alu(Alu::Add, R4, -two([1, 0]));
    a.alu(Alu::Xor, R2, 0xffff);
    a.load(Size::Two, R3, R6, sum);
    a.alu(Alu::Xor, R3, 0xffff);
    a.alu(Alu::Add, R3, R2);
    a.alu(Alu::Add, R3, R4);
    fold(a, R3);
    a.alu(Alu::Xor, R3, 0xffff);
    a.store(Size::Two, R6, sum, R3);
    a.store(Size::Two, R6, lives, R4);
    swap(a, R6, Size::Four, source, destination, 1);
}

/// As [`v4`], for IPv6.
fn v6(a: &mut Assembler, own: &[u16], (here, _): (&[Vec<u8>], &[Vec<u8>]), pass: Label) {
    let (next, lives, source, destination, end) = V6;
    a.mov(R2, R6);
    a.alu(Alu::Add, R2, i32::from(end + UDP));
    a.jump_if(R2, If::Greater, R7, pass);
    a.load(Size::Byte, R2, R6, next);
    a.jump_if(R2, If::Unequal, i32::from(PROTOCOL_UDP), pass);
    one_of(a, destination, here, pass);
    none_of(a, source, here, pass);
    // Multicast source addresses, and those that begin with 16 zero bits: unspecified, loopback and
    // IPv4-mapped ones (RFC 6890).
    a.load(Size::Byte, R2, R6, source);
    a.jump_if(R2, If::Equal, 0xff, pass);
    a.load(Size::Two, R2, R6, source);
    a.jump_if(R2, If::Equal, 0, pass);
    a.mov(R9, R6);
    a.alu(Alu::Add, R9, i32::from(end));
    whole(a, end, V6_LENGTH, pass);
    between(a, own, pass);
    // The traffic class follows the 4 bits of the version, so it extends over two bytes.
    a.load(Size::Two, R2, R6, IP);
    a.big_endian(R2, 16);
    a.alu(Alu::ShiftRight, R2, 4);
    a.store(Size::Byte, STACK, CLASS, R2);
    a.load(Size::Byte, R2, R6, lives);
    a.jump_if(R2, If::Less, HOPS, pass);
    a.alu(Alu::Add, R2, -1);
    a.store(Size::Byte, R6, lives, R2);
    swap(a, R6, Size::Four, source, destination, 4);
}

/// The program for the first of the ports `own`; `own` has all ports at which this host answers.
/// `groups` are the broadcast addresses of the device. R6 points to the frame, R7 to its end, R9 to
/// the UDP header. An address family without addresses is left out, because the kernel rejects
/// unreachable instructions.
pub fn program(
    own: &[u16],
    addresses: &[IpAddr],
    groups: &[Ipv4Addr],
    map: &OwnedFd,
) -> Vec<[u8; 8]> {
    let mut assembler = Assembler::default();
    let a = &mut assembler;
    let (pass, ours, plain) = (a.label(), a.label(), a.label());
    let (mut of_v4, mut of_v6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(v4) => of_v4.push(v4.octets().to_vec()),
            IpAddr::V6(v6) => of_v6.push(v6.octets().to_vec()),
        }
    }
    a.load(Size::Four, R6, R1, 0);
    a.load(Size::Four, R7, R1, 4);
    a.mov(R2, R6);
    a.alu(Alu::Add, R2, i32::from(V4.6 + UDP));
    a.jump_if(R2, If::Greater, R7, pass);
    // Frames with a multicast or broadcast MAC address are not answered.
    for mac in [0, 6] {
        a.load(Size::Byte, R2, R6, mac);
        a.jump_if(R2, If::AnyBit, 1, pass);
    }
    let groups: Vec<Vec<u8>> = groups.iter().map(|of| of.octets().to_vec()).collect();
    type Family = fn(&mut Assembler, &[u16], (&[Vec<u8>], &[Vec<u8>]), Label);
    for (family, addresses, kind) in [
        (v4 as Family, &of_v4, [0x08, 0x00]),
        (v6, &of_v6, [0x86, 0xdd]),
    ] {
        if !addresses.is_empty() {
            let another = a.label();
            a.load(Size::Two, R2, R6, TYPE);
            a.jump_if(R2, If::Unequal, two(kind), another);
            family(a, own, (addresses, &groups), pass);
            a.jump(ours);
            a.here(another);
        }
    }
    a.jump(pass);

    a.here(ours);
    for question in [PING, TIMED] {
        let other = a.label();
        stamp(a, map, &question, other);
        a.jump(plain);
        a.here(other);
    }
    a.here(plain);
    swap(a, R9, Size::Two, 0, 2, 1);
    swap(a, R6, Size::Two, 0, 6, 3);
    count(a, map, Count::Answered);
    a.mov(R0, bpf::BACK);
    a.exit();

    a.here(pass);
    a.mov(R0, bpf::PASS);
    a.exit();
    assembler.finish()
}

/// The attached program. It answers until this value is dropped.
#[derive(Debug)]
pub struct Echo {
    map: OwnedFd,
    _link: OwnedFd,
}

impl Echo {
    /// Attaches a program to `device`. It answers datagrams to the first of `ports` at the device's
    /// addresses, or only at `only`. The other `ports` are those at which the server itself
    /// answers.
    pub fn attach(device: &str, ports: &[u16], only: Option<IpAddr>) -> Result<Echo, HostError> {
        let missing = |why: String| HostError::Missing(format!("--xdp {device}: {why}"));
        let name = CString::new(device).map_err(|_| missing("not the name of a device".into()))?;
        let index = sys::interface(&name)
            .map_err(|_| missing("there is no such device; `ip link` lists them".into()))?;
        let kind = sys::hardware(device).map_err(HostError::failed("the kind of a device"))?;
        // The type is unknown (`None`) for devices without a link-layer address, such as TUN:
        // getifaddrs(3) does not list that address.
        if !matches!(kind, Some(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK)) {
            return Err(missing(
                "its packets have no Ethernet header (a TUN, WireGuard or PPP device, or a \
                 tunnel), which the XDP program requires; leave out --xdp, so that a thread \
                 answers"
                    .into(),
            ));
        }
        let mut addresses =
            sys::addresses(device).map_err(HostError::failed("addresses of a device"))?;
        if let Some(only) = only.filter(|only| !only.is_unspecified()) {
            addresses.retain(|address| *address == only);
        }
        if addresses.is_empty() {
            return Err(missing(
                "it has no such address; write one of its addresses with --bind".into(),
            ));
        }
        if addresses.len() > ADDRESSES {
            let n = addresses.len();
            return Err(missing(format!(
                "it has {n} addresses, more than the {ADDRESSES} that are compared; select one \
                 with --bind"
            )));
        }
        let told = |error: io::Error| {
            refusal(&error).map_or(HostError::Failed("an XDP program", error), missing)
        };
        let map = bpf::array(2).map_err(told)?;
        let groups = sys::broadcasts(device).map_err(HostError::failed("addresses of a device"))?;
        let program = program(ports, &addresses, &groups, &map);
        let loaded = bpf::load(&program, "narrows_echo").map_err(told)?;
        let link = bpf::attach(&loaded, index).map_err(told)?;
        Ok(Echo { map, _link: link })
    }
    /// The value of a counter.
    pub fn count(&self, what: Count) -> u64 {
        bpf::entry(&self.map, what as u32).unwrap_or(0)
    }
}

/// Explains an error of the kernel; `None` if its meaning is not known.
fn refusal(error: &io::Error) -> Option<String> {
    let text = match error.raw_os_error()? {
        libc::EPERM | libc::EACCES => {
            "this user may not load programs into the kernel; run as root (CAP_BPF and \
             CAP_NET_ADMIN) in the initial user namespace"
        }
        libc::ENOSYS => "this kernel has no BPF (CONFIG_BPF_SYSCALL)",
        libc::EBUSY | libc::EEXIST => "the device has another XDP program; `ip link` prints it",
        libc::EINVAL => {
            "this kernel cannot attach an XDP program to it; use Linux 5.9 or later and a \
             device with Ethernet frames"
        }
        libc::EOPNOTSUPP => "this device does not support XDP programs",
        _ => return None,
    };
    Some(text.into())
}

#[cfg(test)]
#[path = "xdp_tests.rs"]
mod tests;
