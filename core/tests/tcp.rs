//! Sender and receiver over a path, against what Linux 6.12 does on the same path.

mod pair;

use narrows_core::tcp::wire::AckSegment;
use narrows_core::tcp::Sender;
use narrows_core::units::{Bytes, Rate, Span, Time};
use pair::{config, law, Event, Pair};

fn at_ms(ms: u64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

#[test]
#[ignore = "prints a trace to look at"]
fn trace() {
    let mut p = Pair::new("cubic", Rate::mbit(50), Span::ms(100), 2_500_000, 0.0, None, 1);
    p.keep_log = true;
    let mut last = 0;
    for ms in 0..1500 {
        p.run(at_ms(ms));
        let i = p.sender.info();
        if ms % 20 == 0 || ms / 10 != last {
            last = ms / 10;
            println!(
                "{ms} cwnd {} ssth {:?} fl {} srtt {:?} st {:?} win {} rtx {} acked {}",
                i.cwnd, i.ssthresh, i.in_flight, i.srtt, i.state, i.peer_window, i.retransmits, i.bytes_acked
            );
        }
    }
    for e in &p.log[..900] {
        match e {
            Event::Sent(t, s) => println!(
                "{:.4} > {} {}",
                t.as_s() * 1e3,
                s.seq / 1448,
                if s.psh { "P" } else { "" }
            ),
            Event::AckArrived(t, a) => println!("{:.4} < {} win {}", t.as_s() * 1e3, a.ack / 1448, a.window),
        }
    }
}

#[test]
fn a_shut_window_is_asked_for_until_it_opens() {
    let mut sender = Sender::new(&config(), law("reno"), Some(Bytes::new(100_000)));
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
            at = sender.next_wakeup().expect("a sender that may not send must ask");
            sender.on_timer(at, &mut |s| sent.push(s));
        }
        asked.push(at.as_ns() / 1_000_000);
        assert_eq!(sent.pop().map(|s| (s.len, s.seq)), Some((0, 10 * 1448 - 1)));
    }
    // 240 ms, then twice as long each time, on the edges of the timer wheel.
    assert_eq!(asked, [328, 816, 1792]);
    ack.window = 64_000;
    sender.on_segment(at_ms(2000), &ack, &mut |s| sent.push(s));
    assert_eq!(sent.len(), 10);
}
