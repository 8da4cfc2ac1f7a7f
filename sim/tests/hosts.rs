//! Effects of host options on the path: distance, bursts, buffers, clocks.

use crate::common::{self, flow, play, scenario};
use narrows_core::cc::{bbr, cubic};
use narrows_core::param::Params;
use narrows_core::scenario::{Buffer, Link, Nic, ProbeKind, ProbeSpec, Scenario};
use narrows_core::tcp::{Clock, Gso, Pacing, SmallQueues};
use narrows_core::units::{Bytes, Rate, Span};
use narrows_sim::Run;

/// One flow over 40 Mbit/s and 40 ms that starts at the begin of the run.
fn one(cc: &str) -> Scenario {
    let mut s = scenario(Span::s(20));
    s.start_jitter = Span::ZERO;
    s.path.hops[0].rate = narrows_core::units::Rate::mbit(40);
    (s.path.hops[0].rtt, s.path.hops[0].delay_forward) = (Span::ms(40), Span::ms(20));
    s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(200_000)));
    s.flows = vec![flow(cc, cc)];
    s
}

/// The metrics of one flow and of the queue.
fn all_of(run: &Run) -> (String, String) {
    let flows = serde_json::to_string(&run.flows).unwrap();
    (flows, format!("{:?} {:?}", run.samples, run.queue))
}

/// Packets and ACKs arrive at the same instants whether the path or the flow has the propagation
/// delay.
#[test]
fn an_rtt_of_its_own_is_as_good_as_the_path_s() {
    for (forward, loss) in [(20, 0.0), (0, 0.0), (5, 0.01)] {
        let mut near = one("cubic");
        near.path.hops[0].loss = common::loss(loss);
        let mut far = near.clone();
        near.path.hops[0].delay_forward = Span::ms(forward);
        near.flows[0].rtt = Span::ms(120);
        (far.path.hops[0].rtt, far.path.hops[0].delay_forward) =
            (Span::ms(160), Span::ms(4 * forward));
        assert!(
            all_of(&play(&near)) == all_of(&play(&far)),
            "forward {forward} ms"
        );
    }
}

/// The handshake takes one of the flow's own round trips, and a transfer of one window takes
/// another.
#[test]
fn each_flow_has_its_own_round_trip() {
    let mut s = one("reno");
    s.flows = vec![
        flow("near", "reno"),
        flow("far", "reno"),
        flow("farther", "reno"),
    ];
    s.flows[1].start = Span::s(1);
    s.flows[2].start = Span::s(2);
    (s.flows[1].rtt, s.flows[2].rtt) = (Span::ms(120), Span::us(33_333));
    for f in &mut s.flows {
        f.size = Some(Bytes::new(1000));
    }
    s.warmup = Span::ZERO;
    let run = play(&s);
    // 74 B of SYN, 66 B of ACK and 1066 B of data at 5 B/us.
    let sent = (74.0 + 66.0 + 1066.0) / 5.0 * 1e-6;
    for (f, rtt) in run.flows.iter().zip([0.040, 0.160, 0.073_333]) {
        assert!(
            (f.fct_s - 2.0 * rtt - sent).abs() < 1e-9,
            "{}: {}",
            f.id,
            f.fct_s
        );
    }
}

/// The flow with the shorter RTT gets more goodput. The difference is far larger with Reno than
/// with CUBIC, whose window grows with time and not per round trip.
#[test]
fn a_near_flow_gets_more_than_a_far_one() {
    let advantage = |cc: &str| {
        let mut s = one(cc);
        (s.duration, s.warmup) = (Span::s(200), Span::s(40));
        s.flows = vec![flow("near", cc), flow("far", cc)];
        s.flows[1].rtt = Span::ms(120);
        let goodputs: Vec<f64> = play(&s).flows.iter().map(|f| f.goodput_mbit).collect();
        assert!(
            (36.0..38.3).contains(&(goodputs[0] + goodputs[1])),
            "{goodputs:?}"
        );
        goodputs[0] / goodputs[1]
    };
    let (reno, cubic) = (advantage("reno"), advantage("cubic"));
    assert!((1.5..4.5).contains(&cubic), "{cubic}");
    assert!((4.0..12.0).contains(&reno), "{reno}");
}

/// Super-packets of fewer segments make shorter bursts, so the 99th percentile of the delay in the
/// queue is lower.
#[test]
fn small_super_packets_make_small_bursts() {
    let waited = |gso: Gso| {
        let mut s = one("reno");
        s.host.gso = gso;
        s.path.offload = true;
        // The peer's receive window limits the sender to half of the path's rate, so only bursts
        // wait in the queue.
        (s.host.rmem_default, s.host.rmem_max) = (Bytes::new(131_072), Bytes::new(220_000));
        let run = play(&s);
        assert!(run.flows[0].goodput_mbit > 15.0, "{gso:?}");
        (run.queue.delay_ms.p99, run.queue.drops)
    };
    let [one, two, on] = [Gso::Off, Gso::Segments(2), Gso::On].map(waited);
    assert_eq!([one.1, two.1, on.1], [0; 3]);
    assert!(one.0 < two.0 && two.0 <= on.0, "{one:?} {two:?} {on:?}");
}

/// The send buffer limits the data that is sent in one round trip. It is full when its size is
/// exceeded, which may be by up to 64 KiB, the super-packet that was written last.
#[test]
fn a_send_buffer_bounds_the_window() {
    let goodput = |kib: u64| {
        let mut s = one("cubic");
        s.host.wmem_max = Bytes::new(kib << 10);
        play(&s).flows[0].goodput_mbit
    };
    let [small, large] = [64, 256].map(goodput);
    let bound = |kib: f64| kib * 1024.0 * 8.0 / 0.040 / 1e6;
    assert!(small < bound(128.0) && small > bound(64.0), "{small}");
    assert!(large < bound(320.0) && large > 1.3 * small, "{large}");
}

/// The reference is Linux 6.12 in virtual time, with H-TCP over 15.6 Mbit/s and 116 ms, and at most
/// 200 000 B of send buffer. Slow start fills the window, 656 kB, and loses most of it. SACKs are
/// ignored (`TCPWqueueTooBig` counts 174), so a timeout ends it, and retransmissions leave one by
/// one. After 3 s 729 792 B were acknowledged and 23 segments retransmitted, after 3.4 s 31.
#[test]
fn a_small_send_buffer_has_no_memory_to_note_what_arrived() {
    let after_slow_start = |like: &str| {
        let mut s = one("htcp");
        let hop = &mut s.path.hops[0];
        hop.rate = Rate::bit(15_600_000);
        (hop.rtt, hop.delay_forward) = (Span::ms(116), Span::ZERO);
        hop.buffer = Some(Buffer::Bytes(Bytes::new(226_200)));
        hop.link = Link::Tbf {
            burst: Bytes::new(3080),
            peak: None,
        };
        (s.host.wmem_max, s.host.like) = (Bytes::new(200_000), like.into());
        let flows = play(&s).samples.flows;
        [3.0, 3.4].map(|t| {
            let row = flows
                .t_s
                .iter()
                .position(|t_s| (t_s - t).abs() < 0.01)
                .unwrap();
            (flows.delivered_bytes[row], flows.retransmits[row])
        })
    };
    assert_eq!(
        after_slow_start("linux-6.12"),
        [(729_792, 23), (738_480, 31)]
    );
    let [before, _] = after_slow_start("linux-4.15");
    assert!(before.0 > 2_500_000, "{before:?}");
}

/// RTTs measured with a clock of 1 ms resolution are whole milliseconds.
#[test]
fn a_clock_of_milliseconds_sees_no_more() {
    let mut s = one("cubic");
    s.host.clock = Clock::Ms;
    let run = play(&s);
    let rtts = &run.samples.flows.ack_rtt_ms;
    assert!(
        rtts.len() > 100 && rtts.iter().all(|rtt| rtt.fract() == 0.0),
        "{rtts:?}"
    );
    assert!(run.flows[0].goodput_mbit > 36.0);
}

const HTB: Link = Link::Htb {
    burst: Bytes::new(3080),
};

/// A path of 1 Gbit/s and 40 ms whose bottleneck is the sender's own interface, with 50 Mbit/s.
fn behind_a_slow_interface(cc: &str, link: Link, tsq: SmallQueues, ring: u32, bql: bool) -> Run {
    let mut s = one(cc);
    s.path.hops[0].rate = Rate::mbit(1000);
    s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(4_000_000)));
    s.host.nic = Some(Nic {
        ring,
        bql,
        tsq,
        link,
        ..Nic::new(Rate::mbit(50))
    });
    play(&s)
}

/// The reference is Linux 6.12 in virtual time for 20 s, with htb of 50 Mbit/s and a fifo of 1000
/// packets on the sender's interface. CUBIC had 47.78 Mbit/s, a smoothed RTT of 43.2 ms and a
/// window of 257 packets. BBR had 47.08 Mbit/s, 41.9 ms and 346 packets.
#[test]
fn small_queues_limit_a_flow_in_the_queue_of_its_host() {
    for (cc, mbit, rtt_ms, cwnd) in [("cubic", 47.78, 43.2, 257.0), ("bbr", 47.08, 41.9, 346.0)] {
        let run = behind_a_slow_interface(cc, HTB, SmallQueues::ByRate, 256, true);
        let f = &run.flows[0];
        assert!(
            (f.goodput_mbit / mbit - 1.0).abs() < 0.01,
            "{cc} {}",
            f.goodput_mbit
        );
        assert!(
            (f.rtt_ms.mean - rtt_ms).abs() < 0.3,
            "{cc} {}",
            f.rtt_ms.mean
        );
        assert!(
            (f.cwnd_packets.mean / cwnd - 1.0).abs() < 0.05,
            "{cc} {}",
            f.cwnd_packets.mean
        );
        assert_eq!(f.retransmits, 0);
    }
    let bloated = behind_a_slow_interface("cubic", Link::Serial, SmallQueues::Off, 256, true);
    assert!(
        bloated.flows[0].rtt_ms.mean > 300.0,
        "{}",
        bloated.flows[0].rtt_ms.mean
    );
}

/// Packets in a ring cannot be recalled, but two queues in series delay as much as one of the same
/// total length.
#[test]
fn one_queue_is_as_long_as_two() {
    let [plain, limited] = [false, true]
        .map(|bql| behind_a_slow_interface("cubic", Link::Serial, SmallQueues::Off, 64, bql));
    assert_eq!(all_of(&plain), all_of(&limited));
}

#[test]
fn pings_wait_in_the_host_too() {
    let mut s = one("cubic");
    s.path.hops[0].rate = Rate::mbit(1000);
    s.host.nic = Some(Nic {
        tsq: SmallQueues::Off,
        ..Nic::new(Rate::mbit(20))
    });
    s.probes = vec![ProbeSpec {
        kind: ProbeKind::Ping,
        interval: Span::ms(20),
        spacing: Default::default(),
        dscp: 0,
        host: 0,
        ip: Default::default(),
        station: None,
        route: None,
        section: Default::default(),
        keys: Default::default(),
    }];
    let run = play(&s);
    let ping = &run.probes[0];
    assert!(ping.rtt_ms.p50 > 200.0, "{}", ping.rtt_ms.p50);
    // Pings that found the queue full are lost, and the run ends nevertheless.
    assert!(ping.received <= ping.sent);
}

/// One Reno flow over 18 Mbit/s, 60 ms and 54 kB of buffer for 36 s. The reference is Linux 6.12 in
/// virtual time with `fq` at the sender.
#[test]
fn fq_at_the_sender_holds_packets_until_their_departure_time() {
    const LINE: &str =
        "rate = \"18Mbit\"\nbuffer = \"54000B\"\nlink = { kind = \"tbf\", burst = \"3080B\" }\n";
    for direction in ["down", "up"] {
        let text = format!(
            "duration = \"36s\"\nwarmup = \"7.2s\"\nstart_jitter = \"0s\"\n[path]\n{LINE}rtt = \
             \"60ms\"\n[path.reverse]\n{LINE}\
             [host]\npacing = \"fq\"\n[[flow]]\ncc = \"reno\"\nstart = \"17.39ms\"\ndirection = \
             \"{direction}\"\n"
        );
        let run = play(
            &Scenario::from_toml(&text, "fq", &common::registry())
                .unwrap_or_else(|e| panic!("{e}")),
        );
        let f = &run.flows[0];
        assert!(
            (f.goodput_mbit - 16.22).abs() < 0.01,
            "{direction} {}",
            f.goodput_mbit
        );
        assert!(
            (f.rtt_ms.mean - 68.44).abs() < 0.05,
            "{direction} {}",
            f.rtt_ms.mean
        );
        assert!(
            (f.cwnd_packets.mean - 96.75).abs() < 0.05,
            "{direction} {}",
            f.cwnd_packets.mean
        );
        assert!(
            (f.run_retransmit_rate - 0.002467).abs() < 0.00003,
            "{direction} {}",
            f.run_retransmit_rate
        );
        // `fq` at the sender paces by departure times and has no rate, so it is not counted as a
        // queue of the scenario.
        assert_eq!(run.queues.len(), 2);
    }
}

/// The option sets the interface of the near host. Uploads are sent as if there were no interface
/// with a rate.
#[test]
fn uploads_do_not_depend_on_the_near_interface() {
    let [with, without] = ["nic = \"1Gbit\"", ""].map(|nic| {
        let text = format!(
            "duration = \"5s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"30ms\"\n[path.reverse]\nrate = \
             \"20Mbit\"\n[host]\n{nic}\n\
             [[flow]]\ncc = \"cubic\"\ndirection = \"up\"\n"
        );
        let scenario =
            Scenario::from_toml(&text, "up", &common::registry()).unwrap_or_else(|e| panic!("{e}"));
        play(&scenario).flows.remove(0)
    });
    assert_eq!(with.goodput_mbit, without.goodput_mbit);
    assert!(with.goodput_mbit > 18.0, "{}", with.goodput_mbit);
}

/// The rules of old Linux releases have an effect. Linux 4.15 paced BBR by the size of IP packets,
/// 3.6 % faster than intended, so that a small buffer is always full. Slow start with a clock of 1
/// ms resolution differs, too. Other rules matter less here: CUBIC retransmits at most twice as
/// often or half as often, and every flow uses the path fully.
#[test]
fn old_releases_keep_their_behaviour() {
    let with = |cc: &str, like: &str| {
        let mut s = one(cc);
        let params = if cc == "bbr" {
            bbr::PARAMS
        } else {
            cubic::PARAMS
        };
        s.flows[0].cc.params = Params::defaults(params);
        (s.duration, s.warmup) = (Span::s(60), Span::ZERO);
        s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(100 << 10)));
        s.host.like = like.into();
        let run = play(&s);
        let f = &run.flows[0];
        assert!(
            (34.0..38.3).contains(&f.goodput_mbit),
            "{cc} {like}: {}",
            f.goodput_mbit
        );
        (f.retransmits, f.goodput_mbit)
    };
    let [(old, _), (new, _)] = ["linux-4.15", "linux-6.12"].map(|like| with("bbr", like));
    assert!(old > 3 * new, "BBR sent {old} again, and {new} since");
    let [old, new] = ["linux-4.15", "linux-6.12"].map(|like| with("cubic", like));
    assert!(
        old.1 != new.1 && old.0 < 2 * new.0 && new.0 < 2 * old.0,
        "CUBIC sent {old:?} again, and {new:?} since"
    );
}

/// Without pacing, BBR sends its window as fast as ACKs and its own interface permit, so a small
/// buffer overflows repeatedly. With pacing, Linux 6.12 had 18.65 Mbit/s over this path, and
/// retransmitted 3.2 %.
#[test]
fn bbr_without_pacing_overruns_a_small_buffer() {
    let [off, on] = [Pacing::Off, Pacing::Auto].map(|pacing| {
        let mut s = one("bbr");
        s.flows[0].cc.params = Params::defaults(bbr::PARAMS);
        s.duration = Span::s(30);
        s.path.hops[0].rate = Rate::mbit(20);
        s.path.hops[0].buffer = Some(Buffer::Bytes(Bytes::new(15_000)));
        s.host.pacing = pacing;
        let f = play(&s).flows.remove(0);
        assert!(f.goodput_mbit > 17.5, "{pacing:?} {}", f.goodput_mbit);
        f.summary_retransmit_rate
    });
    assert!((0.02..0.05).contains(&on), "{on}");
    assert!(off > 5.0 * on, "{off} without, {on} with");
}
