//! Sender and receiver over a path, against what Linux 6.12 does on the same path.

use crate::pair::{Pair, build_cc, config};
use narrows_core::host::Fate;
use narrows_core::tcp::wire::AckSegment;
use narrows_core::tcp::{Config, Device, Sender, State};
use narrows_core::units::{Bytes, Rate, Span, Time};

fn at_ms(ms: u64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

/// The end of CUBIC's slow start on Linux 6.12 (in virtual time, TCP_INFO each 10 ms): rate in
/// Mbit/s, RTT in ms, buffer in bytes, the window, and the approximate time in ms.
#[test]
fn hystart_ends_where_linux_ends_it() {
    for (rate, rtt, buffer, window, at) in [
        (50, 40, 250_000, 246, 261),
        (50, 40, 1_000_000, 246, 261),
        (10, 20, 25_000, 30, 72),
        (10, 20, 100_000, 30, 72),
        (50, 100, 625_000, 530, 751),
        (50, 100, 2_500_000, 530, 751),
    ] {
        let mut p = Pair::new(
            "cubic",
            Rate::mbit(rate),
            Span::ms(rtt),
            buffer,
            0.0,
            None,
            1,
        );
        p.run(at_ms(at - 3));
        assert_eq!(p.sender.info().ssthresh, None, "{rate} Mbit/s, {rtt} ms");
        p.run(at_ms(at + 3));
        assert_eq!(
            p.sender.info().ssthresh,
            Some(window),
            "{rate} Mbit/s, {rtt} ms"
        );
    }
}

/// The first loss of a CUBIC flow on a path of 50 Mbit/s, 40 ms and a buffer of 250 kB. Linux
/// reduced the window from 346 to 242 packets and retransmitted 16 segments. Linux was back in the
/// state Open between 850 and 890 ms.
#[test]
fn the_first_recovery_is_linux_s() {
    let mut p = Pair::new("cubic", Rate::mbit(50), Span::ms(40), 250_000, 0.0, None, 1);
    p.run(at_ms(890));
    let i = p.sender.info();
    assert_eq!(
        (i.ssthresh, i.cwnd, i.retransmits, i.state),
        (Some(242), 242, 16, State::Open)
    );
}

/// Times in ms of the retransmissions of an unanswered SYN by Linux 6.12 (in virtual time): linear
/// at first, on the edges of the timer wheel. The last edges, 512 ms apart, show that its clock
/// started at tick 71 of 512.
#[test]
fn syns_are_repeated_when_linux_repeats_them() {
    let mut sender = Sender::new(config().into(), build_cc("cubic"), None);
    let mut sent = Vec::new();
    let start = at_ms(71);
    sender.connect(start, &mut |s| sent.push(s));
    let repeated = [(); 10].map(|()| {
        let at = sender
            .next_wakeup()
            .expect("an unanswered SYN is sent again");
        sender.on_timer(at, &mut |s| sent.push(s));
        at.since(start).as_us() / 1000
    });
    let linux = [
        1017, 2041, 3065, 4089, 5113, 7161, 11193, 19385, 35769, 68025,
    ];
    assert_eq!(repeated, linux);
    assert!(sent.len() == 11 && sent.iter().all(|s| s.syn));
}

#[test]
fn a_zero_window_is_probed_until_it_opens() {
    let mut sender = Sender::new(config().into(), build_cc("reno"), Some(Bytes::new(100_000)));
    let mut sent = Vec::new();
    sender.connect(Time::ZERO, &mut |s| sent.push(s));
    let mut ack = AckSegment {
        syn: true,
        window: 10 * 1448,
        ..AckSegment::default()
    };
    sender.on_segment(at_ms(40), &ack, &mut |s| sent.push(s));
    // Ten segments are taken, but the window they filled stays shut.
    ack = AckSegment {
        ack: 10 * 1448,
        window: 0,
        ..AckSegment::default()
    };
    sent.clear();
    sender.on_segment(at_ms(80), &ack, &mut |s| sent.push(s));
    assert!(sent.is_empty());
    let mut asked = Vec::new();
    for _ in 0..3 {
        let mut at = Time::ZERO;
        while sent.is_empty() {
            at = sender
                .next_wakeup()
                .expect("a sender that may not send must ask");
            sender.on_timer(at, &mut |s| sent.push(s));
        }
        asked.push(at.as_ns() / 1_000_000);
        assert_eq!(sent.pop().map(|s| (s.len, s.seq)), Some((0, 10 * 1448 - 1)));
    }
    // 240 ms, then twice as long each time, on the edges of the timer wheel.
    assert_eq!(asked, [328, 816, 1792]);
    // Room for less than a segment is used, but not before the timer.
    ack.window = 1000;
    sender.on_segment(at_ms(2000), &ack, &mut |s| sent.push(s));
    assert!(sent.is_empty());
    while sent.is_empty() {
        let at = sender
            .next_wakeup()
            .expect("what has room must leave some time");
        sender.on_timer(at, &mut |s| sent.push(s));
    }
    assert_eq!(sent.pop().map(|s| (s.seq, s.len)), Some((10 * 1448, 1000)));
    (ack.ack, ack.window) = (10 * 1448 + 1000, 64_000);
    sender.on_segment(at_ms(6000), &ack, &mut |s| sent.push(s));
    // Slow start: ten at first, one more for each of eleven acknowledged.
    assert_eq!(sender.info().cwnd, 21);
    assert_eq!(sent.iter().map(|s| s.len / 1448).sum::<u32>(), 21);
}

/// Linux 6.12 in virtual time, with a full discipline at its own interface. 14 segments
/// acknowledged at tick 279 were the last in flight, RTO 246 ms. It tried one segment at about tick
/// 526, and once more at 1030.
#[test]
fn packets_rejected_by_the_host_are_retried_every_half_second() {
    let device = Some(Device::default());
    let mut sender = Sender::new(
        Config { device, ..config() }.into(),
        build_cc("cubic"),
        None,
    );
    sender.connect(Time::ZERO, &mut |_| Fate::Sent);
    let mut ack = AckSegment {
        syn: true,
        window: 64_000,
        ..AckSegment::default()
    };
    sender.on_segment(at_ms(40), &ack, &mut |_| Fate::Refused);
    let mut tried = Vec::new();
    while tried.len() < 4 {
        let at = sender.next_wakeup().expect("who was refused tries again");
        sender.on_timer(at, &mut |segment| {
            tried.push((at.as_ns() / 1_000_000, segment.len));
            Fate::Refused
        });
    }
    // 240 ms after a first round trip of 40 ms, then 500, on edges of the timer wheel.
    assert_eq!(tried, [288, 792, 1296, 1800].map(|ms| (ms, 1448)));
    assert_eq!(sender.info().in_flight, 0);
    // As soon as one is taken, everything is as always.
    let at = sender.next_wakeup().expect("who was refused tries again");
    sender.on_timer(at, &mut |_| Fate::Sent);
    (ack.syn, ack.ack) = (false, 1448);
    let mut sent = 0;
    sender.on_segment(at + Span::ms(40), &ack, &mut |segment| {
        sent += segment.len;
        Fate::Sent
    });
    assert!(sent > 1448);
}
