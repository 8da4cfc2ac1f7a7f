use super::*;
use crate::protocols::wire::{Kind, Ping, TIMED as TIMED_BYTES, Timed};
use std::net::{Ipv4Addr, Ipv6Addr};

const PORT: u16 = 7007;
/// Another port at which this host answers.
const OTHER: u16 = 8620;
const HERE: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe02)),
);
const THERE: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 201)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe01)),
);

/// The broadcast address of the device.
const EVERYBODY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 255);

/// A loaded program and its map; `None` if this user may not load programs.
fn loaded() -> Option<(OwnedFd, OwnedFd)> {
    let map = bpf::array(2).ok();
    let both = map.and_then(|map| {
        match bpf::load(
            &program(&[PORT, OTHER], &[HERE.0, HERE.1], &[EVERYBODY], &map),
            "test",
        ) {
            Ok(program) => Some((program, map)),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => None,
            Err(e) => panic!("{e}"),
        }
    });
    if both.is_none() {
        println!("left out: this user may not load programs");
    }
    both
}

fn bytes(of: IpAddr) -> Vec<u8> {
    match of {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The Internet checksum of RFC 1071, not complemented.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The sum over UDP header, payload and pseudo-header. It is 0xffff if the checksum is right.
fn udp_sum(from: IpAddr, to: IpAddr, udp: &[u8]) -> u16 {
    let mut all = [bytes(from), bytes(to)].concat();
    all.extend([0, 17]);
    all.extend((udp.len() as u16).to_be_bytes());
    all.extend(udp);
    sum(&all)
}

fn datagram(from: IpAddr, to: IpAddr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut udp = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let check = !udp_sum(from, to, &udp);
    udp[6..8].copy_from_slice(&check.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let mut ip = if from.is_ipv4() {
        frame.extend([0x08, 0x00]);
        let mut ip = vec![0x45, 0xb8];
        ip.extend((20 + udp.len() as u16).to_be_bytes());
        ip.extend([0x12, 0x34, 0x40, 0, 37, 17, 0, 0]);
        ip
    } else {
        frame.extend([0x86, 0xdd]);
        let mut ip = vec![0x6b, 0x80, 0, 0];
        ip.extend((udp.len() as u16).to_be_bytes());
        ip.extend([17, 37]);
        ip
    };
    ip.extend([bytes(from), bytes(to)].concat());
    if from.is_ipv4() {
        let check = !sum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    }
    [frame, ip, udp].concat()
}

fn question() -> Vec<u8> {
    let ping = Ping {
        kind: Kind::Question,
        class: 0,
        probe: 3,
        cookie: [9; 16],
        number: 70_000,
        sent: 123_456_789_012,
        received: 0,
        answered: 0,
        count: 0,
    };
    let mut bytes = ping.to_bytes().to_vec();
    bytes.extend(b"odd");
    bytes
}

/// A timed question, followed by padding.
fn timed() -> Vec<u8> {
    let mut bytes = [0x6e; TIMED_BYTES + 13];
    let asked = Timed {
        cookie: [5; 16],
        number: 7,
        sent: 8,
        ..Timed::default()
    };
    if let Some(head) = bytes.first_chunk_mut() {
        asked.write(head);
    }
    bytes.to_vec()
}

/// The same bytes as an answer.
fn answer(question: &[u8]) -> Vec<u8> {
    let mut bytes = question.to_vec();
    bytes[5] = if bytes[5] == PING.kinds.0 {
        PING.kinds.1
    } else {
        TIMED.kinds.1
    };
    bytes
}

#[test]
fn two_programs_at_different_ports_do_not_answer_each_other() {
    let Some((first, map)) = loaded() else { return };
    let second = bpf::load(
        &program(&[PORT + 1], &[THERE.0, THERE.1], &[], &map),
        "test",
    )
    .expect("it is right");
    for (here, there) in [(HERE.0, THERE.0), (HERE.1, THERE.1)] {
        for payload in [&b"any bytes"[..], &question(), &timed(), &question()[..40]] {
            let asked = datagram(there, here, (PORT + 1, PORT), payload);
            let (verdict, got) = bpf::try_once(&first, &asked).expect("a try");
            assert_eq!(verdict, bpf::BACK);
            assert_eq!(bpf::try_once(&second, &got).expect("a try").0, bpf::PASS);
            // In the other direction only a question of narrows is answered, and the answer is not.
            let asked = datagram(here, there, (PORT, PORT + 1), payload);
            if let (bpf::BACK, got) = bpf::try_once(&second, &asked).expect("a try") {
                assert_eq!(bpf::try_once(&first, &got).expect("a try").0, bpf::PASS);
            }
        }
    }
}

#[test]
fn any_datagram_comes_back_with_right_checksums() {
    let Some((program, map)) = loaded() else {
        return;
    };
    for (here, there) in [(HERE.0, THERE.0), (HERE.1, THERE.1)] {
        for payload in [
            &b""[..],
            b"x",
            b"any bytes at all",
            &[0xff; 1200],
            &question(),
            &timed(),
        ] {
            let asked = datagram(there, here, (40_000, PORT), payload);
            let (verdict, got) = bpf::try_once(&program, &asked).expect("a try");
            assert_eq!(verdict, bpf::BACK);
            assert_eq!(got.len(), asked.len());
            assert_eq!((&got[..6], &got[6..12]), (&asked[6..12], &asked[..6]));
            let end = if here.is_ipv4() { 34 } else { 54 };
            if here.is_ipv4() {
                assert_eq!(sum(&got[14..34]), 0xffff);
                assert_eq!(got[22], 36);
            } else {
                assert_eq!(got[21], 36);
            }
            let to_there = [bytes(here), bytes(there)].concat();
            assert_eq!(got[end - to_there.len()..end], to_there);
            assert_eq!(udp_sum(here, there, &got[end..]), 0xffff);
            assert_eq!(
                got[end..end + 4],
                [PORT.to_be_bytes(), 40_000_u16.to_be_bytes()].concat()
            );
            let now = sys::monotonic();
            if let Some(asked) = Timed::from_bytes(payload) {
                let told = Timed::from_bytes(&got[end + 8..]).expect("an answer");
                assert_eq!(got[end + 8 + TIMED_BYTES..], payload[TIMED_BYTES..]);
                let (received, answered) = (told.received, told.answered);
                assert!(now - received < 10_000_000_000 && received <= answered && answered <= now);
                // The program does not know the count of questions and the departure of earlier
                // answers.
                let expected = Timed {
                    answer: true,
                    class: 0xb8,
                    received,
                    answered,
                    ready: received,
                    read: received,
                    ..asked
                };
                assert_eq!(told, expected);
            } else if payload.starts_with(b"NARP") {
                let answer = Ping::from_bytes(&got[end + 8..]).expect("an answer");
                let asked = Ping::from_bytes(payload).expect("a question");
                assert_eq!((answer.kind, answer.class), (Kind::Answer, 0xb8));
                assert_eq!((answer.probe, answer.cookie), (asked.probe, asked.cookie));
                assert_eq!((answer.number, answer.sent), (asked.number, asked.sent));
                assert!(answer.received <= answer.answered && answer.answered <= now);
                assert!(now - answer.received < 10_000_000_000);
            } else {
                assert_eq!(&got[end + 8..], payload);
            }
        }
    }
    assert_eq!(
        bpf::entry(&map, Count::Answered as u32).expect("a count"),
        12
    );
    assert_eq!(bpf::entry(&map, Count::Stamped as u32).expect("a count"), 4);
}

#[test]
fn whatever_is_not_asked_of_us_goes_on_untouched() {
    let Some((program, _)) = loaded() else { return };
    let fine = datagram(THERE.0, HERE.0, (40_000, PORT), b"question");
    let fine6 = datagram(THERE.1, HERE.1, (40_000, PORT), b"question");
    let but = |frame: &[u8], at: usize, byte: u8| {
        let mut other = frame.to_vec();
        other[at] = byte;
        other
    };
    let others = [
        (
            "another port",
            datagram(THERE.0, HERE.0, (40_000, PORT + 1), b"q"),
        ),
        (
            "an echo that asks",
            datagram(THERE.0, HERE.0, (PORT, PORT), b"q"),
        ),
        (
            "another port that answers",
            datagram(THERE.0, HERE.0, (OTHER, PORT), b"q"),
        ),
        ("the last hop, IPv6", but(&fine6, 21, 1)),
        (
            "an echo at a lower port",
            datagram(THERE.0, HERE.0, (PORT - 1, PORT), b"q"),
        ),
        (
            "too short a question, lower",
            datagram(
                THERE.0,
                HERE.0,
                (PORT - 1, PORT),
                &timed()[..TIMED_BYTES - 1],
            ),
        ),
        (
            "an answer of ours",
            datagram(THERE.0, HERE.0, (40_000, PORT), &answer(&question())),
        ),
        (
            "an answer of ours, IPv6",
            datagram(THERE.1, HERE.1, (40_000, PORT), &answer(&timed())),
        ),
        (
            "a service that asks",
            datagram(THERE.0, HERE.0, (53, PORT), b"q"),
        ),
        ("port zero", datagram(THERE.1, HERE.1, (0, PORT), b"q")),
        (
            "another address",
            datagram(THERE.0, THERE.0, (40_000, PORT), b"q"),
        ),
        (
            "another address, IPv6",
            datagram(THERE.1, THERE.1, (40_000, PORT), b"q"),
        ),
        ("a group", but(&fine, 0, 3)),
        ("from a group", but(&fine, 6, 3)),
        ("options", but(&fine, 14, 0x46)),
        ("the first fragment", but(&fine, 20, 0x20)),
        ("a later fragment", but(&fine, 21, 5)),
        ("TCP", but(&fine, 23, 6)),
        ("TCP, IPv6", but(&fine6, 20, 6)),
        ("ARP", but(&fine, 13, 6)),
        (
            "its own address",
            datagram(HERE.0, HERE.0, (40_000, PORT), b"q"),
        ),
        (
            "its own address, IPv6",
            datagram(HERE.1, HERE.1, (40_000, PORT), b"q"),
        ),
        ("from a group, IPv4", but(&fine, 26, 239)),
        ("from all hosts", but(&fine, 26, 255)),
        (
            "from all hosts of the subnet",
            datagram(EVERYBODY.into(), HERE.0, (40_000, PORT), &question()),
        ),
        ("from loopback", but(&fine, 26, 127)),
        ("from this network", but(&fine, 26, 0)),
        ("from a group, IPv6", but(&fine6, 22, 0xff)),
        ("from nobody, IPv6", {
            let nobody = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            datagram(nobody, HERE.1, (40_000, PORT), &question())
        }),
        ("longer than its frame", {
            let mut longer = fine.clone();
            (longer[17], longer[39]) = (longer[17] + 1, longer[39] + 1);
            longer
        }),
        ("longer than its packet", but(&fine, 39, fine[39] + 1)),
        ("shorter than its packet", but(&fine, 39, fine[39] - 1)),
        ("no room for a header", {
            let mut none = fine.clone();
            (none[17], none[39]) = (27, 7);
            none
        }),
        (
            "longer than its packet, IPv6",
            but(&fine6, 59, fine6[59] + 1),
        ),
        ("cut short", fine[..40].to_vec()),
        ("cut short, IPv6", fine6[..60].to_vec()),
    ];
    for (why, asked) in others {
        let (verdict, got) = bpf::try_once(&program, &asked).expect("a try");
        assert_eq!((verdict, got), (bpf::PASS, asked), "{why}");
    }
    // A short frame is padded with zeros after its packet.
    let padded = [fine.as_slice(), &[0; 18]].concat();
    let (verdict, got) = bpf::try_once(&program, &padded).expect("a try");
    assert_eq!((verdict, got.len()), (bpf::BACK, padded.len()));
    // A question that is too short for its kind is returned unchanged.
    let short = &timed()[..TIMED_BYTES - 1];
    let (_, got) =
        bpf::try_once(&program, &datagram(THERE.0, HERE.0, (40_000, PORT), short)).expect("a try");
    assert_eq!(got[42..], *short);
}

#[test]
fn an_echo_of_another_kind_that_answers_ends() {
    let Some((program, _)) = loaded() else { return };
    for (here, there) in [(HERE.0, THERE.0), (HERE.1, THERE.1)] {
        let mut asked = datagram(there, here, (40_000, PORT), b"question");
        let mut answers = 0;
        // The returned IP header is used for the next datagram, with the original direction of its
        // addresses.
        while let (bpf::BACK, got) = bpf::try_once(&program, &asked).expect("a try") {
            let (at, len) = if here.is_ipv4() { (14, 20) } else { (14, 40) };
            asked[at..at + len].copy_from_slice(&got[at..at + len]);
            let (from, to) = if here.is_ipv4() { (26, 30) } else { (22, 38) };
            let size = to - from;
            let (first, second) = asked[from..to + size].split_at_mut(size);
            first.swap_with_slice(second);
            answers += 1;
            assert!(answers < 256);
        }
        assert_eq!(answers, 36);
    }
}

#[test]
fn one_family_is_enough() {
    let Some((_, map)) = loaded() else { return };
    for (here, there) in [(HERE.0, THERE.0), (HERE.1, THERE.1)] {
        let program =
            bpf::load(&program(&[PORT], &[here], &[], &map), "test").expect("it is right");
        let asked = datagram(there, here, (40_000, PORT), b"question");
        assert_eq!(bpf::try_once(&program, &asked).expect("a try").0, bpf::BACK);
    }
}

#[test]
fn a_device_that_is_not_there_is_said() {
    let error = Echo::attach("none-such", &[PORT], None).expect_err("there is no such device");
    assert!(error.to_string().contains("`ip link`"), "{error}");
}
