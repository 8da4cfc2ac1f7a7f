//! Prague: two marks per round trip, a window of 2/p packets at a marking probability p, and a rate
//! that does not depend on the RTT.

use crate::common::registry;
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::param::no_check;
use narrows_core::queue::{Backlog, DropReason, QueueDiscipline, QueueKind, Sink};
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Time};
use narrows_sim::{Options, Packet, Run, run};
use std::collections::VecDeque;

/// One in this number of ECN-capable packets is marked.
const BETWEEN: u64 = 50;

/// First in, first out. One of [`BETWEEN`] packets is marked, however long it waited.
struct Marker {
    packets: VecDeque<Packet>,
    bytes: Bytes,
    capable: u64,
}

impl QueueDiscipline<Packet> for Marker {
    fn enqueue(&mut self, now: Time, mut packet: Packet, sink: &mut dyn Sink<Packet>) {
        if packet.ecn() != Ecn::NotEct {
            self.capable += 1;
            if self.capable % BETWEEN == 0 {
                packet.set_ce();
                sink.marked(now, &packet, DropReason::Aqm);
            }
        }
        self.bytes += packet.size();
        self.packets.push_back(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Sink<Packet>) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes = self.bytes - packet.size();
        Some(packet)
    }
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

fn play(text: &str) -> Run {
    let mut registry = registry();
    registry.register_queue(QueueKind {
        name: "marker",
        help: "marks one packet of fifty",
        source: "",
        params: &[],
        check: no_check,
        feedback: false,
        make: &|_, _| {
            Box::new(Marker {
                packets: VecDeque::new(),
                bytes: Bytes::new(0),
                capable: 0,
            })
        },
    });
    let scenario =
        Scenario::from_toml(text, "prague.toml", &registry).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

/// The link is never full, so only the marker limits the window.
#[test]
fn two_packets_of_a_round_trip_are_marked_whatever_their_share() {
    let alone = |cc: &str| {
        play(&format!(
            "duration = \"20s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"1Gbit\"\nrtt = \
             \"30ms\"\nqueue = \"marker\"\n\
             [host]\necn = \"on\"\n[[flow]]\ncc = \"{cc}\"\n"
        ))
    };
    let p = 1.0 / BETWEEN as f64;
    let prague = alone("prague").flows[0].cwnd_packets.mean;
    assert!((prague * p - 2.0).abs() < 0.2, "{prague}");
    // Reno's is 1.22/√p.
    let reno = alone("reno").flows[0].cwnd_packets.mean;
    assert!(reno < 2.0 / (p.sqrt()), "{reno}");
}

/// The queue is RED, with an average that nearly equals the momentary queue, so that both flows get
/// the same share of marks. (With a marking threshold, the microsecond in which a packet arrives
/// decides which flow is marked. Then either flow may get up to three times the other's rate.)
#[test]
fn near_and_far_get_the_same_rate() {
    let share = |cc: &str| {
        let run = play(&format!(
            "duration = \"25s\"\nwarmup = \"10s\"\n[path]\nrate = \"50Mbit\"\nrtt = \"5ms\"\n\
             queue = {{ kind = \"red\", ecn = true, limit = \"2MB\", min = \"3kB\", max = \
             \"120kB\", \
             probability = 0.5, avpkt = \"1500B\", burst = 30 }}\n\
             [host]\necn = \"on\"\n[[flow]]\ncc = \"{cc}\"\n[[flow]]\ncc = \"{cc}\"\nrtt = \
             \"20ms\"\n"
        ));
        run.flows[0].goodput_mbit / run.flows[1].goodput_mbit
    };
    let (prague, reno) = (share("prague"), share("reno"));
    assert!((0.8..1.25).contains(&prague), "{prague}");
    assert!(reno > 3.0, "{reno}");
}

/// RFC 9332 couples the queues so that both have about the same window (k = 2, section 2.1 and
/// appendix A). The rates then have the inverse ratio of the RTTs, and CUBIC's RTT includes the 15
/// ms of its queue. Below an RTT of 25 ms Prague behaves as at 25 ms. Over 10 ms, CUBIC has an RTT
/// of about 27 ms, so the rates are equal there too. The L4S queue delays by about a millisecond.
#[test]
fn beside_cubic_over_dualpi2_it_has_the_same_window_and_waits_a_millisecond() {
    for (rate, rtt, rates) in [
        ("20Mbit", "10ms", true),
        ("40Mbit", "20ms", false),
        ("100Mbit", "20ms", false),
    ] {
        let run = play(&format!(
            "duration = \"40s\"\n[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\nqueue = \"dualpi2\"\n\
             [[flow]]\ncc = \"prague\"\n[[flow]]\ncc = \"cubic\"\necn = true\n"
        ));
        let [prague, cubic] = [&run.flows[0], &run.flows[1]];
        let share = prague.goodput_mbit / cubic.goodput_mbit;
        let window = share * prague.rtt_ms.mean / cubic.rtt_ms.mean;
        let compared = if rates { share } else { window };
        assert!(
            (1.0 / 1.5..1.5).contains(&compared),
            "{rate} {rtt}: {share} {window}"
        );
        let delay = |class: usize| run.queue.classes[class].delay_ms;
        assert!(delay(0).p99 < 2.0, "{rate} {rtt}: {:?}", delay(0));
        assert!(
            (10.0..20.0).contains(&delay(1).mean),
            "{rate} {rtt}: {:?}",
            delay(1)
        );
    }
}
