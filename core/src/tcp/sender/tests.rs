//! Tests of the sender's rules that depend on the Linux release: behaviour with each rule, and
//! before it.

use super::input::News;
use super::output::{Hold, Push};
use super::pacing::Pacer;
use super::{Sender, State};
use crate::cc::bbr::{self, Bbr};
use crate::cc::reno::Reno;
use crate::cc::{Ack, CongestionControl, Host, Loss, Sample, Window};
use crate::kernel::{Kernel, LINUX_4_15, LINUX_6_12};
use crate::param::Params;
use crate::tcp::scoreboard::Seg;
use crate::tcp::wire::{AckSegment, Range, Segment, SynAcks};
use crate::tcp::{Config, MSS, Receiver};
use crate::units::{Bytes, MaybeTime, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

const WINDOW: u64 = 1 << 20;

fn at(us: u64) -> Time {
    Time::ZERO + Span::us(us)
}

/// A connection after `rtt_ms`, with ten segments sent.
fn sender(kernel: Kernel, rtt_ms: u64) -> Sender {
    let cfg = Config {
        kernel,
        ..Config::default()
    };
    connected(cfg, Box::new(Reno), rtt_ms)
}

fn connected(cfg: Config, cc: Box<dyn CongestionControl>, rtt_ms: u64) -> Sender {
    let mut s = Sender::new(cfg.into(), cc, None);
    s.connect(Time::ZERO, &mut |_| ());
    let syn_ack = AckSegment {
        syn: true,
        window: WINDOW,
        ..AckSegment::default()
    };
    s.on_segment(at(rtt_ms * 1000), &syn_ack, &mut |_| ());
    assert_eq!(s.board.packets_out(), 10);
    s
}

/// Acknowledges `segments`, and SACKs those of `sacked`.
fn ack(s: &mut Sender, now: Time, segments: u64, sacked: Option<core::ops::Range<u64>>) {
    let mut ack = AckSegment {
        ack: segments * u64::from(MSS),
        window: WINDOW,
        ..AckSegment::default()
    };
    if let Some(r) = sacked {
        ack.n_sacks = 1;
        ack.sacks[0] = Range {
            start: r.start * u64::from(MSS),
            end: r.end * u64::from(MSS),
        };
    }
    s.on_segment(now, &ack, &mut |_| ());
}

/// ACKs of one to four segments in order, with the window that is known or another one: the path
/// of their own has the results of the general one.
#[test]
fn an_expected_ack_has_the_results_of_any_ack() {
    let mut rng = crate::rng::Rng::named(1, "expected");
    let [mut one, mut other] = [(); 2].map(|()| sender(LINUX_6_12, 20));
    let (mut us, mut expected) = (40_000, 0);
    for _ in 0..500 {
        us += rng.below(3_000);
        let segments = (1 + rng.below(4)).min(u64::from(one.board.packets_out()));
        let ack = AckSegment {
            ack: one.board.una() + segments * u64::from(MSS),
            window: WINDOW + rng.below(2),
            ..AckSegment::default()
        };
        let mut board = one.board.clone();
        expected += u64::from(board.pop_all_untouched(ack.ack, u64::MAX).is_some());
        let due = one.on_ack(at(us), &ack, &mut |_| ());
        assert_eq!(due, other.on_any_ack(at(us), &ack, &mut |_| ()));
        for s in [&mut one, &mut other] {
            s.push(at(us), &mut |_| ());
            s.check_space(at(us));
            s.wake_writer(at(us), &mut |_| ());
        }
        assert_eq!(state(&one), state(&other));
    }
    assert_eq!(expected, 500);
}

/// A receiver gets the segments of two equal senders over a path that loses some of them. The ACKs
/// of one sender take the path for a further SACK in recovery, those of the other the general one:
/// the results are equal.
#[test]
fn a_further_sack_has_the_results_of_any_ack() {
    assert!(further_sacks(|| Box::new(Reno)) > 400);
    let bbr = || Bbr::new(&Params::defaults(bbr::PARAMS), &Host::default());
    assert!(further_sacks(|| Box::new(bbr())) > 400);
}

/// As above, with this congestion control. Returns the number of further SACKs.
fn further_sacks(cc: impl Fn() -> Box<dyn CongestionControl>) -> u32 {
    let mut rng = crate::rng::Rng::named(1, "further SACK");
    let [mut one, mut other] = [(); 2].map(|()| connected(Config::default(), cc(), 20));
    let mut receiver = Receiver::new(&Config::default());
    let mut in_transit: VecDeque<Segment> = VecDeque::new();
    let (mut us, mut selective) = (40_000, 0);
    let syn = Segment {
        syn: true,
        ..Segment::default()
    };
    receiver.on_segment(at(0), &syn, &mut |_| ());
    for i in 0..10 {
        in_transit.push_back(Segment {
            seq: i * u64::from(MSS),
            len: MSS,
            ..Segment::default()
        });
    }
    for _ in 0..20_000 {
        us += rng.below(300);
        let now = at(us);
        let mut acks = Vec::new();
        if let Some(segment) = in_transit.pop_front() {
            if rng.below(30) > 0 {
                receiver.on_segment(now, &segment, &mut |ack| acks.push(ack));
            }
        }
        for ack in acks {
            let mut sent = [Vec::new(), Vec::new()];
            let delivered = one.delivered.packets;
            let handled = one.state == State::Recovery
                && one.on_selective_ack(now, &ack, &mut |s| sent[0].push(s));
            selective += u32::from(handled && one.delivered.packets > delivered);
            let due = !handled && one.on_any_ack(now, &ack, &mut |s| sent[0].push(s));
            assert_eq!(due, other.on_any_ack(now, &ack, &mut |s| sent[1].push(s)));
            for (s, sent) in [&mut one, &mut other].into_iter().zip(&mut sent) {
                s.push(now, &mut |segment| sent.push(segment));
                s.check_space(now);
            }
            assert_eq!(state(&one), state(&other));
            assert_eq!(sent[0], sent[1]);
            in_transit.extend(sent[0].iter().copied());
        }
        if in_transit.is_empty() {
            for s in [&mut one, &mut other] {
                let due = s.next_wakeup().unwrap();
                us = us.max(due.as_us() + 1);
            }
            let mut sent = [Vec::new(), Vec::new()];
            one.on_timer(at(us), &mut |s| sent[0].push(s));
            other.on_timer(at(us), &mut |s| sent[1].push(s));
            assert_eq!(sent[0], sent[1]);
            in_transit.extend(sent[0].iter().copied());
        }
    }
    selective
}

/// The whole state of a sender, for comparisons.
fn state(s: &Sender) -> String {
    let board = crate::tcp::scoreboard::tests::state(&s.board);
    let timer = s.timer.map(|kind| (kind, s.fires));
    let ends = (board, &s.w, timer, s.peer_window);
    let recovery = (s.state, s.undo, s.retrans_stamp, s.reordering, s.sacked);
    let estimates = (&s.rtt, &s.rack, &s.delivered, &s.prr, &s.pacer);
    let mut cc = Vec::new();
    s.cc.describe(&mut |name, value| cc.push((name, value)));
    alloc::format!("{ends:?} {recovery:?} {estimates:?} {cc:?} {:?}", s.info())
}

/// After the handshake, with an RTT of 2 ms: the next wake-up is that of the probe.
#[test]
fn tail_probes_waited_for_ten_milliseconds_at_least_before_4_14() {
    let probe = |kernel| {
        let s = sender(kernel, 2);
        s.next_wakeup().map(|at| at.as_us() / 1000)
    };
    assert_eq!(probe(Kernel::published(4, 13)), Some(2 + 10 + 1));
    assert_eq!(probe(Kernel::published(4, 14)), Some(2 + 2 * 2 + 2 + 1));
}

/// The fourth of ten segments is SACKed: FACK counts it and the three before, three SACKed segments
/// are required otherwise.
#[test]
fn fack_counted_segments_up_to_the_highest_one_before_4_15() {
    let state = |kernel, reordered| {
        let mut s = sender(kernel, 40);
        s.rack.reordering_seen = reordered;
        ack(&mut s, at(80_000), 0, Some(4..5));
        (s.state, s.board.lost_out())
    };
    assert_eq!(state(Kernel::published(4, 14), false), (State::Recovery, 2));
    assert_eq!(state(Kernel::published(4, 14), true).0, State::Disorder);
    assert_eq!(state(Kernel::published(4, 15), false).0, State::Disorder);
}

#[test]
fn short_round_trips_make_bursts_larger_since_5_18() {
    let burst = |kernel| {
        let mut s = sender(kernel, 1);
        s.pacing = Rate::mbit(10);
        s.burst_segments()
    };
    // Half of 65 215 bytes, and a millisecond of the rate.
    assert_eq!(
        [Kernel::published(5, 17), Kernel::published(5, 18)].map(burst),
        [2, 23]
    );
}

#[test]
fn deferral_waits_by_departure_since_5_1_and_for_a_millisecond_at_most_since_6_18() {
    let holds = |kernel| {
        let mut s = sender(kernel, 40);
        s.w.cwnd = 12;
        s.last_sent = MaybeTime::at(at(65_000));
        s.pacer.wstamp = at(65_000);
        // The next ACK is 14.8 ms away; 0.8 ms later the tick has passed.
        let out = s.board.in_flight();
        [65_200, 66_000]
            .map(|us| !matches!(s.should_defer(at(us), out, 8, WINDOW, 60_000), Hold::No))
    };
    assert_eq!(holds(Kernel::published(5, 0)), [true, false]);
    assert_eq!(holds(Kernel::published(5, 1)), [true, true]);
    assert_eq!(holds(Kernel::published(6, 12)), [true, true]);
    assert_eq!(holds(LINUX_6_12), [false, false]);
}

#[test]
fn what_was_deferred_counts_as_limited_since_5_10() {
    let limited = |kernel| {
        let mut s = sender(kernel, 40);
        s.pacing = Rate::mbit(100);
        s.w.cwnd = 12;
        (s.cwnd_limited, s.cwnd_usage_seq) = (false, 0);
        s.last_sent = MaybeTime::at(at(79_400));
        s.pacer.wstamp = at(79_400);
        assert!(!s.write(at(79_500), Push::All, &mut |_| ()));
        s.cwnd_limited
    };
    assert_eq!(
        [Kernel::published(5, 9), Kernel::published(5, 10)].map(limited),
        [false, true]
    );
}

#[test]
fn that_the_window_was_the_limit_was_forgotten_before_6_1() {
    let limited = |kernel| {
        let mut s = sender(kernel, 40);
        s.validate_window(at(41_000), true);
        let snapshot = s.delivered.snapshot();
        s.board.push(MSS.into(), &Seg::sent(41_000, &snapshot), 0);
        s.validate_window(at(41_000), false);
        s.cwnd_limited
    };
    assert_eq!(
        [Kernel::published(6, 0), Kernel::published(6, 1)].map(limited),
        [false, true]
    );
}

#[test]
fn an_unused_window_is_reduced_after_a_timeout_without_an_ack() {
    let kept = |acked: bool| {
        let mut s = sender(LINUX_6_12, 40);
        if acked {
            // The receive window admits no further segment.
            let ack = AckSegment {
                ack: u64::from(MSS),
                window: 9 * u64::from(MSS),
                ..AckSegment::default()
            };
            s.on_segment(at(400_000), &ack, &mut |_| ());
        }
        (s.w.cwnd, s.w.ssthresh) = (40, 20);
        (s.cwnd_limited, s.max_packets_out) = (false, 0);
        // The application, not the send buffer, limits the flow.
        s.send_buffer.blocked = false;
        s.validate_window(at(400_000), false);
        s.w.cwnd
    };
    assert_eq!([false, true].map(kept), [25, 40]);
}

#[test]
fn probes_were_for_idle_tails_before_4_16() {
    let probes = |kernel| {
        let mut s = sender(kernel, 40);
        let full = s.schedule_probe(at(41_000), false);
        s.w.cwnd = 20;
        let room = s.schedule_probe(at(41_000), false);
        s.w.cwnd = 10;
        s.state = State::Cwr;
        [full, room, s.schedule_probe(at(41_000), false)]
    };
    assert_eq!(probes(Kernel::published(4, 15)), [true, false, false]);
    assert_eq!(probes(Kernel::published(4, 16)), [true, true, true]);
}

/// Without a probe, the timeout counts from the last ACK all the same.
#[test]
fn a_timer_is_set_by_every_ack_whether_a_probe_follows_or_not() {
    for kernel in [LINUX_4_15, LINUX_6_12] {
        let mut s = sender(kernel, 40);
        assert!(s.timer.is_some(), "{kernel:?}");
        let first = s.fires;
        ack(&mut s, at(150_000), 2, None);
        assert!(
            s.timer.is_some() && s.fires >= first.max(at(230_000)),
            "{kernel:?}"
        );
    }
}

#[test]
fn a_timeout_took_everything_for_lost_before_4_18() {
    let left = |kernel| {
        let mut s = sender(kernel, 40);
        ack(&mut s, at(80_000), 2, None);
        let recent = s.board.packets_out() - 8;
        assert!(recent > 0);
        s.enter_loss(at(100_000));
        (s.board.in_flight(), s.w.cwnd, recent)
    };
    let (in_flight, cwnd, _) = left(Kernel::published(4, 16));
    assert_eq!((in_flight, cwnd), (0, 1));
    let (in_flight, cwnd, recent) = left(Kernel::published(4, 18));
    assert_eq!((in_flight, cwnd), (recent, recent + 1));
}

/// On a path with reordering RACK waits; three duplicates did not, before RACK counted them.
#[test]
fn three_duplicates_told_a_loss_beside_rack_before_4_18() {
    let lost = |kernel| {
        let mut s = sender(kernel, 40);
        s.rack.reordering_seen = true;
        ack(&mut s, at(80_000), 0, Some(3..6));
        (s.state, s.board.lost_out())
    };
    assert_eq!(lost(Kernel::published(4, 16)), (State::Recovery, 3));
    assert_eq!(lost(Kernel::published(4, 18)), (State::Disorder, 0));
}

/// Without RACK, three duplicates detect losses, up to Linux 6.16.
#[test]
fn rack_can_be_switched_off_before_6_17() {
    let lost = |kernel, rack| {
        let cfg = Config {
            kernel,
            rack,
            ..Config::default()
        };
        let mut s = connected(cfg, Box::new(Reno), 40);
        s.rack.reordering_seen = true;
        ack(&mut s, at(80_000), 0, Some(3..6));
        let after = (s.state, s.board.lost_out());
        s.enter_loss(at(81_000));
        (after, s.board.in_flight() > 0)
    };
    let (by_count, by_rack) = ((State::Recovery, 3), (State::Disorder, 0));
    assert_eq!(lost(Kernel::published(6, 16), false), (by_count, false));
    assert_eq!(lost(Kernel::published(6, 16), true), (by_rack, true));
    assert_eq!(lost(Kernel::published(6, 17), false), (by_rack, true));
}

/// After a tail loss probe, the timeouts of a silent peer double up to the limit.
#[test]
fn timeouts_have_a_limit_since_6_15() {
    let waits = |kernel| {
        let cfg = Config {
            kernel,
            rto_max: Span::s(2),
            ..Config::default()
        };
        let mut s = connected(cfg, Box::new(Reno), 800);
        let mut last = at(800_000);
        [(); 5].map(|()| {
            let next = s.next_wakeup().unwrap();
            s.on_timer(next, &mut |_| ());
            next.since(core::mem::replace(&mut last, next)).as_us() / 100_000
        })
    };
    assert_eq!(waits(Kernel::published(6, 14)), [16, 24, 48, 97, 194]);
    assert_eq!(waits(Kernel::published(6, 15)), [16, 20, 20, 20, 20]);
}

/// Records the delivered packets of the last sample.
#[derive(Clone, Debug)]
struct Delivered(u64);

impl CongestionControl for Delivered {
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.0 = ev.delivered;
    }
    fn on_ack(&mut self, _w: &mut Window, _ev: &Ack) {}
    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("delivered", self.0 as f64);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// An ACK for two segments, then one for three, with one SACKed above them; the SYN counts.
#[test]
fn congestion_controls_knew_the_deliveries_of_earlier_acks_before_6_15() {
    let delivered = |kernel| {
        let cfg = Config {
            kernel,
            ..Config::default()
        };
        let mut s = connected(cfg, Box::new(Delivered(0)), 40);
        let told = |s: &mut Sender, us, segments, sacked| {
            ack(s, at(us), segments, sacked);
            let mut known = 0;
            s.cc.describe(&mut |_, value| known = value as u64);
            known
        };
        [
            told(&mut s, 80_000, 2, None),
            told(&mut s, 81_000, 5, Some(6..7)),
        ]
    };
    assert_eq!(delivered(Kernel::published(6, 14)), [1, 4]);
    assert_eq!(delivered(Kernel::published(6, 15)), [3, 7]);
}

/// Below three duplicates, the first segment alone is lost if recovery begins for another reason;
/// otherwise none.
#[test]
fn two_duplicates_told_nothing() {
    let mut s = sender(LINUX_4_15, 40);
    ack(&mut s, at(80_000), 0, Some(3..5));
    assert_eq!((s.state, s.board.lost_out()), (State::Disorder, 0));
}

/// A congestion control that requests pacing, on a host that does not pace.
#[test]
fn tcp_paces_since_4_13() {
    #[derive(Clone)]
    struct Paced;
    impl CongestionControl for Paced {
        fn on_ack(&mut self, _w: &mut Window, _ev: &Ack) {}
        fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}
        fn needs_pacing(&self) -> bool {
            true
        }
        fn fork(&self) -> Box<dyn CongestionControl> {
            Box::new(self.clone())
        }
    }
    let paces = |kernel| {
        let cfg = Config {
            kernel,
            ..Config::default()
        };
        Pacer::new(&cfg, &Paced).on
    };
    assert_eq!(
        [Kernel::published(4, 12), Kernel::published(4, 13)].map(paces),
        [false, true]
    );
}

/// The fourth of ten segments is SACKed on a path with reordering: the reordering window has not
/// passed for the three before it.
#[test]
fn a_timer_detects_losses_since_4_11() {
    let armed = |kernel| {
        let mut s = sender(kernel, 40);
        s.rack.reordering_seen = true;
        ack(&mut s, at(80_000), 0, Some(3..4));
        s.timer == Some(super::TimerKind::Reorder)
    };
    assert_eq!(
        [Kernel::published(4, 10), Kernel::published(4, 11)].map(armed),
        [false, true]
    );
}

/// An ACK of new data that acknowledges no retransmission, and one of a retransmission.
#[test]
fn an_ack_that_advances_is_safe_since_5_11() {
    let safe = |kernel| {
        let s = sender(kernel, 40);
        let new = News {
            una_advanced: true,
            ..News::default()
        };
        let repaired = News {
            retrans_acked: true,
            ..News::default()
        };
        [s.safe(&new, 0), s.safe(&new, 1), s.safe(&repaired, 0)]
    };
    assert_eq!(safe(Kernel::published(5, 10)), [false, false, true]);
    assert_eq!(safe(Kernel::published(5, 11)), [true, false, false]);
}

/// The first write of 256 KiB is in flight, and the send buffer is so small that this exceeds the
/// limit of memory. Three segments in the middle of a super-packet are SACKed.
#[test]
fn memory_limits_the_split_of_super_packets_since_5_2() {
    let sacked = |kernel| {
        let cfg = Config {
            kernel,
            iw: 300,
            wmem_default: Bytes::new(512),
            wmem_max: Bytes::new(512),
            ..Config::default()
        };
        let mut s = Sender::new(cfg.into(), Box::new(Reno), None);
        s.connect(Time::ZERO, &mut |_| ());
        let syn_ack = AckSegment {
            syn: true,
            window: WINDOW,
            ..AckSegment::default()
        };
        s.on_segment(at(40_000), &syn_ack, &mut |_| ());
        assert!(
            s.send_buffer.overfull(&s.board),
            "{}",
            s.board.packets_out()
        );
        ack(&mut s, at(80_000), 0, Some(110..113));
        s.board.sacked_out()
    };
    assert_eq!(
        [Kernel::published(5, 1), Kernel::published(5, 2)].map(sacked),
        [3, 0]
    );
}

/// Two SYNs are repeated. The SYN-ACK echoes the first one or the last one.
#[test]
fn the_echo_of_the_first_syn_keeps_the_initial_window_since_5_2() {
    let window = |kernel, first: bool| {
        let cfg = Config {
            kernel,
            ..Config::default()
        };
        let mut s = Sender::new(cfg.into(), Box::new(Reno), None);
        s.connect(at(10_000), &mut |_| ());
        let mut last = Time::ZERO;
        for _ in 0..2 {
            last = s.next_wakeup().unwrap();
            s.on_timer(last, &mut |_| ());
        }
        let now = last + Span::ms(40);
        let syn_ack = AckSegment {
            syn: true,
            window: WINDOW,
            tsecr: super::stamp(if first { at(10_000) } else { last }),
            ..AckSegment::default()
        };
        s.on_segment(now, &syn_ack, &mut |_| ());
        (s.w.cwnd, s.info().srtt > Span::s(2))
    };
    assert_eq!(
        [true, false].map(|first| window(Kernel::published(5, 1), first)),
        [(1, true), (1, false)]
    );
    assert_eq!(
        [true, false].map(|first| window(Kernel::published(5, 2), first)),
        [(10, true), (1, false)]
    );
}

/// A listening end repeats its SYN-ACK twice, because of repeated SYNs or of its own timer. Linux
/// reduces the initial window only in the second case, unless the ACK echoes the first SYN-ACK.
#[test]
fn a_server_keeps_its_initial_window_unless_its_own_syn_acks_were_lost() {
    let window = |timeouts, first: bool| {
        let mut s = Sender::new(Config::default().into(), Box::new(Reno), None);
        let syn_acks = SynAcks {
            first: at(10_000),
            repeats: 2,
            timeouts,
        };
        let answer = AckSegment {
            syn: true,
            window: WINDOW,
            tsecr: super::stamp(at(if first { 10_000 } else { 2_010_000 })),
            ..AckSegment::default()
        };
        s.accept(at(2_050_000), syn_acks, &answer, &mut |_| ());
        (s.w.cwnd, s.info().srtt.as_us() / 1000)
    };
    assert_eq!(window(0, false), (10, 40));
    assert_eq!(window(2, false), (1, 40));
    assert_eq!(window(2, true), (10, 2040));
}

/// Nothing is acknowledged from 1 s on, with an RTT of 40 ms. Returns the time at which the
/// connection ends, in tenths of a second.
fn ends_at(cfg: Config) -> u64 {
    let mut s = Sender::new(cfg.into(), Box::new(Reno), None);
    s.connect(at(960_000), &mut |_| ());
    let syn_ack = AckSegment {
        syn: true,
        window: WINDOW,
        ..AckSegment::default()
    };
    s.on_segment(at(1_000_000), &syn_ack, &mut |_| ());
    while let Some(due) = s.next_wakeup() {
        s.on_timer(due, &mut |_| ());
    }
    s.timed_out().unwrap().as_us() / 100_000
}

/// By default, a connection ends at the first timeout at least 924.6 s after the first one: nine
/// doublings of 200 ms, and six times 120 s. A maximum of 1 s makes this 14.4 s.
#[test]
fn a_connection_without_progress_ends_after_the_time_of_fifteen_timeouts() {
    let with = |kernel, retries, rto_max| {
        ends_at(Config {
            kernel: Kernel::named(kernel).unwrap(),
            retries,
            rto_max,
            ..Config::default()
        })
    };
    let longest = crate::tcp::rtt::RTO_MAX;
    assert!((9_260..10_500).contains(&with("linux-6.12", 15, longest)));
    assert_eq!(
        with("linux-6.12", 15, Span::s(1)),
        with("linux-6.12", 15, longest)
    );
    assert!((157..170).contains(&with("linux-7.3", 15, Span::s(1))));
    // 0.2, 0.4, 0.8 and 1.6 s.
    assert!((41..60).contains(&with("linux-7.3", 3, longest)));
}

/// With `tcp_syn_retries` of 6, the tenth repeated SYN is the last one: at 67 s, after five linear
/// timeouts. The connection ends 64 s later.
#[test]
fn a_handshake_without_an_answer_ends_after_131_s() {
    let mut s = sender_of_syn();
    let mut syns = 0;
    while let Some(due) = s.next_wakeup() {
        s.on_timer(due, &mut |_| syns += 1);
    }
    let end_s = s.timed_out().unwrap().as_us() / 1_000_000;
    assert!(syns == 10 && (131..141).contains(&end_s), "{syns}, {end_s}");
}
fn sender_of_syn() -> Sender {
    let mut s = Sender::new(Config::default().into(), Box::new(Reno), None);
    s.connect(at(1_000), &mut |_| ());
    s
}
