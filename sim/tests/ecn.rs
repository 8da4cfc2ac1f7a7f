//! Explicit congestion notification from end to end, over a queue that marks what has waited for longer than a threshold.
//!
//! Linux has that queue too: `codel` with its `ce_threshold`, its own law kept from acting by a target of 10 s. The figures are
//! those of Linux 6.12 in virtual time: 20 Mbit/s by htb, 40 ms, marks after 10 ms, one flow of 30 s.

mod common;

use common::registry;
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::queue::{Backlog, Limit, QueueDiscipline, QueueKind, Sink, Why};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Span, Time};
use narrows_sim::{run, Options, Packet, Run};
use std::collections::VecDeque;

/// First in, first out; what waited for longer than this is marked, or passes if it cannot be.
struct Marker {
    packets: VecDeque<Packet>,
    bytes: Bytes,
}

const THRESHOLD: Span = Span::ms(10);

impl QueueDiscipline<Packet> for Marker {
    fn enqueue(&mut self, now: Time, packet: Packet, sink: &mut dyn Sink<Packet>) {
        if self.packets.len() >= 1000 {
            return sink.dropped(now, packet, Why::Overflow);
        }
        self.bytes += packet.size();
        self.packets.push_back(packet);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<Packet>) -> Option<Packet> {
        let mut packet = self.packets.pop_front()?;
        self.bytes = self.bytes - packet.size();
        if now.since(packet.enqueued_at()) > THRESHOLD && packet.ecn() != Ecn::NotEct {
            packet.set_ce();
            sink.marked(now, &packet, Why::Overflow);
        }
        Some(packet)
    }
    // So that a token bucket takes the head when it may leave, and not before.
    fn peek(&self) -> Option<Bytes> {
        self.packets.front().map(|p| p.size())
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.packets.len() as u64,
        }
    }
}

fn with_marker() -> Registry<Packet> {
    let mut registry = registry();
    registry.register_queue(QueueKind {
        name: "marker",
        help: "marks what has waited",
        source: "",
        params: &[],
        make: |_, place| {
            debug_assert_eq!(place.limit, Some(Limit::Packets(1000)));
            Box::new(Marker {
                packets: VecDeque::new(),
                bytes: Bytes::new(0),
            })
        },
    });
    registry
}

fn play(flow: &str) -> Run {
    let registry = with_marker();
    let text = format!(
        "duration = \"30s\"\nwarmup = \"6s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\n\
         delay_forward = \"0s\"\nbuffer = \"1000p\"\nqueue = \"marker\"\nlink = {{ kind = \"htb\", burst = \"3080B\" }}\n\
         [[flow]]\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text, "ecn.toml", &registry).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

#[test]
fn marks_do_what_they_do_in_linux() {
    // Goodput, smoothed RTT, mean window, marks.
    let linux = [
        ("cubic", 16.84, 42.50, 62.1, 401.0),
        ("reno", 15.82, 42.38, 58.4, 632.0),
        ("bbr", 18.77, 45.12, 139.5, 5204.0),
    ];
    for (cc, mbit, srtt_ms, cwnd, marks) in linux {
        let run = play(&format!("cc = \"{cc}\"\necn = true"));
        let f = &run.flows[0];
        let near = |ours: f64, theirs: f64, share: f64| (ours / theirs - 1.0).abs() < share;
        assert!(near(f.goodput_mbit, mbit, 0.015), "{cc} {}", f.goodput_mbit);
        assert!((f.rtt_ms.mean - srtt_ms).abs() < 0.3, "{cc} {}", f.rtt_ms.mean);
        assert!(near(f.cwnd_packets.mean, cwnd, 0.02), "{cc} {}", f.cwnd_packets.mean);
        assert!(near(run.queue.marks as f64, marks, 0.1), "{cc} {}", run.queue.marks);
        assert_eq!((f.retransmits, run.queue.drops), (0, 0), "{cc}");
    }
}

#[test]
fn who_does_not_ask_is_not_marked() {
    let run = play("cc = \"reno\"");
    assert_eq!(run.queue.marks, 0);
    // Nothing keeps the queue short.
    assert!(run.flows[0].rtt_ms.mean > 60.0, "{}", run.flows[0].rtt_ms.mean);
}
