use super::*;
use crate::tcp::MSS;

/// SYNs at 0 and 1 s. Linux 6.12 and 7.3 echo the first SYN in each SYN-ACK.
#[test]
fn each_syn_ack_echoes_the_first_syn() {
    let mut receiver = Receiver::new(&Config::default());
    let mut echoes = alloc::vec::Vec::new();
    let mut arrives = |syn, ms: u64, tsecr: u64| {
        let seg = Segment {
            syn,
            tsval: 100 + ms as u32,
            tsecr: tsecr as u32,
            ..Segment::default()
        };
        receiver.on_segment(Time::ZERO + Span::ms(ms), &seg, &mut |ack| {
            echoes.push(ack.tsecr);
        });
    };
    arrives(true, 0, 0);
    arrives(true, 1000, 0);
    arrives(false, 1040, 1000);
    assert_eq!(
        (receiver.rtt_us, echoes.as_slice()),
        (40_000, &[100, 100][..])
    );
}

/// Linux 6.12, one of three Reno flows over 131 Mbit/s and 143 ms whose `fq_pie` drops the
/// overshoot of slow start. `ss` shows a `rcv_rtt` of 432 ms when the first hole is left, 571
/// ms 0.3 s later and 650 ms another 0.2 s later. No data arrived in order since, and the
/// sender's round trip rose to 640 ms.
#[test]
fn what_comes_beyond_a_hole_tells_the_round_trip_too() {
    let mut receiver = Receiver::new(&Config::default());
    let echo = |ms: u64| crate::tcp::sender::stamp(Time::ZERO + Span::ms(ms));
    let mut arrives = |n: u64, ms: u64, rtt: u64| {
        let seg = Segment {
            seq: n * u64::from(MSS),
            len: MSS,
            syn: ms == 0,
            tsecr: if ms > 0 { echo(ms - rtt) } else { 0 },
            ..Segment::default()
        };
        receiver.on_segment(Time::ZERO + Span::ms(ms), &seg, &mut |_| {});
        receiver.window.rtt_us() / 1000
    };
    arrives(0, 0, 0);
    let in_order = arrives(0, 1000, 432);
    let beyond = (2..100).map(|n| arrives(n, 1000 + 2 * n, 650)).last();
    let again = arrives(1, 1500, 143);
    assert_eq!((in_order, beyond, again), (432, Some(650), 143));
}

#[test]
fn timeouts_of_syn_acks_have_the_limit_since_6_19() {
    let waits = |kernel| {
        let mut receiver = Receiver::new(&Config {
            kernel,
            rto_max: Span::s(3),
            ..Config::default()
        });
        let syn = Segment {
            syn: true,
            ..Segment::default()
        };
        receiver.on_segment(Time::ZERO, &syn, &mut |_| {});
        let mut last = Time::ZERO;
        [(); 4].map(|()| {
            let next = receiver.next_wakeup().unwrap();
            receiver.on_timer(next, &mut |_| {});
            next.since(core::mem::replace(&mut last, next)).as_us() / 1_000_000
        })
    };
    assert_eq!(waits(crate::kernel::Kernel::published(6, 18)), [1, 2, 4, 8]);
    assert_eq!(waits(crate::kernel::Kernel::published(6, 19)), [1, 2, 3, 3]);
}

/// With an RTT of 40 ms, the timer of compressed ACKs fires 1 ms and its slack after the
/// segment that set it.
#[test]
fn a_compressed_ack_had_the_timestamp_of_the_last_segment_before_6_13() {
    let stamps = |kernel| {
        let mut receiver = Receiver::new(&Config {
            kernel,
            rmem_default: crate::units::Bytes::new(60_000),
            rmem_max: crate::units::Bytes::new(60_000),
            ..Config::default()
        });
        receiver.accept(Time::ZERO, 40_000, EcnUse::default());
        // The first ACKs of a connection, and those that enlarge the window, leave at once.
        let early = (0..60).map(|n| (n, 100 + n));
        for (n, ms) in early.chain((61..67).map(|n| (n, 165))) {
            let seg = Segment {
                seq: n * u64::from(MSS),
                len: MSS,
                ..Segment::default()
            };
            receiver.on_segment(Time::ZERO + Span::ms(ms), &seg, &mut |_| {});
        }
        let at = receiver.acks.next_wakeup();
        let mut told = None;
        receiver.on_timer(at, &mut |ack| told = Some(ack.tsval));
        told.unwrap() - crate::tcp::sender::stamp(Time::ZERO + Span::ms(165))
    };
    assert_eq!(stamps(crate::kernel::Kernel::published(6, 12)), 0);
    assert_eq!(stamps(crate::kernel::Kernel::published(6, 13)), 1);
}

/// Linux 6.12 with `tcp_rmem` "4096 20000 60000": the ACK of the segment that fills a hole
/// before 24 others has a window of 13 580 B, because all of them still wait. When the
/// application has read the 25 segments, an ACK with a window of 37 032 B follows at once.
#[test]
fn reading_what_makes_room_for_twice_the_window_is_told_of() {
    let mut receiver = Receiver::new(&Config {
        rmem_default: crate::units::Bytes::new(60_000),
        rmem_max: crate::units::Bytes::new(60_000),
        ..Config::default()
    });
    receiver.accept(Time::ZERO, 24_000, EcnUse::default());
    let mut now = Time::ZERO;
    let mut arrives = |n: u64| {
        now += Span::ms(2);
        let seg = Segment {
            seq: n * u64::from(MSS),
            len: MSS,
            ..Segment::default()
        };
        let mut windows = alloc::vec::Vec::new();
        receiver.on_segment(now, &seg, &mut |ack| windows.push(ack.window));
        windows
    };
    for n in 0..100 {
        arrives(n);
    }
    for n in 101..125 {
        arrives(n);
    }
    assert_eq!(arrives(100), [13_580, 37_032]);
}
