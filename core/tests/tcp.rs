//! Sender and receiver over a path, against what Linux 6.12 does on the same path.

mod pair;

use narrows_core::units::{Rate, Span, Time};
use pair::{Event, Pair};

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
