//! BBR's parts, one at a time: the test passes ACKs directly and reads the state.

use narrows_core::cc::{
    Ack, CongestionControl, Delivery, Host, Loss, RateSample, Rto, Sent, SpuriousLoss, Start,
    Totals, Window, bbr,
};
use narrows_core::param::Params;
use narrows_core::tcp::{MSS, State};
use narrows_core::units::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const RTT: Span = Span::ms(40);
const STARTUP: f64 = 739.0 / 256.0;

/// The contents of an ACK; all other fields are neutral.
#[derive(Clone, Debug)]
struct AckInput {
    after: Span,
    delivered: u32,
    /// Packets per second of its sample.
    rate: u64,
    new_round: bool,
    app_limited: bool,
    lost: u32,
    in_flight: u32,
    rtt: Span,
    maybe_delayed: bool,
    state: State,
    departure_ahead: Span,
}

/// A round trip at 4000 packets/s, of which 160 make a bandwidth-delay product, with too much in
/// flight to end anything.
const ROUND: AckInput = AckInput {
    after: RTT,
    delivered: 10,
    rate: 4000,
    new_round: true,
    app_limited: false,
    lost: 0,
    in_flight: 1000,
    rtt: RTT,
    maybe_delayed: false,
    state: State::Open,
    departure_ahead: Span::ZERO,
};

struct Flow {
    cc: Box<dyn CongestionControl>,
    w: Window,
    now: Time,
    totals: Totals,
}

impl Flow {
    fn new(seed: u64) -> Flow {
        let host = Host {
            seed,
            ..Host::default()
        };
        let mut cc = (bbr::KIND.make)(&Params::defaults(bbr::PARAMS), &host);
        let mut w = Window::new(10);
        let now = Time::ZERO + Span::s(1);
        let totals = Totals {
            delivered: 1,
            delivered_at: now,
            lost: 0,
        };
        let mut start = Start::at(now);
        (start.srtt, start.min_rtt, start.totals) = (RTT, RTT, totals);
        cc.on_start(&mut w, &start);
        Flow { cc, w, now, totals }
    }
    fn ack(&mut self, ack: &AckInput) {
        self.now += ack.after;
        let before = self.totals.delivered;
        self.totals.delivered += u64::from(ack.delivered);
        self.totals.lost += u64::from(ack.lost);
        self.totals.delivered_at = self.now;
        let mut d = Delivery::default();
        let interval = Span::ms(100);
        d.sample = (ack.delivered > 0).then_some(RateSample {
            prior_delivered: if ack.new_round { before } else { 0 },
            delivered: ack.rate / 10,
            interval,
            app_limited: ack.app_limited,
        });
        d.rtt = Some(ack.rtt);
        d.maybe_delayed = ack.maybe_delayed;
        d.prior_in_flight = ack.in_flight;
        d.next_departure = self.now + ack.departure_ahead;
        d.totals = self.totals;
        let mut ev = Ack::at(self.now);
        ev.delivered = ack.delivered;
        ev.lost = ack.lost;
        ev.in_flight = ack.in_flight;
        ev.state = ack.state;
        ev.delivery = Some(d);
        self.w.app_limited = false;
        self.cc.on_ack(&mut self.w, &ev);
    }
    fn rounds(&mut self, n: usize) {
        (0..n).for_each(|_| self.ack(&ROUND));
    }
    fn lose(&mut self) {
        self.cc.on_loss(&mut self.w, &Loss::at(self.now));
    }
    fn show(&self, what: &str) -> f64 {
        let mut found = f64::NAN;
        self.cc.describe(&mut |name, value| {
            if name == what {
                found = value;
            }
        });
        found
    }
    fn gain(&self) -> f64 {
        self.show("pacing_gain")
    }
    fn bw(&self) -> u64 {
        self.show("bw_packets_per_s").round() as u64
    }
    fn mode(&self) -> &'static str {
        ["startup", "drain", "probe bw", "probe rtt"][self.show("mode") as usize]
    }
    fn policed(&self) -> bool {
        self.show("policed") > 0.0
    }
    /// In ProbeBW, with 4000 packets/s and a window that has reached its goal.
    fn settled(seed: u64) -> Flow {
        let mut flow = Flow::new(seed);
        flow.rounds(4);
        assert_eq!(flow.mode(), "drain");
        flow.ack(&AckInput {
            in_flight: 0,
            ..ROUND
        });
        assert_eq!(flow.mode(), "probe bw");
        flow.w.cwnd = 2000;
        flow.ack(&AckInput {
            after: Span::ZERO,
            new_round: false,
            delivered: 1,
            ..ROUND
        });
        assert_eq!(flow.w.cwnd, flow.goal());
        flow
    }
    /// Two products of 160 packets, what an ACK may bring at once, three bursts of a millisecond;
    /// even, and 2 more when asking for more.
    fn goal(&self) -> u32 {
        let extra = (self.show("extra_acked") as u32).min(399);
        let bursts =
            3 * ((self.w.pacing.unwrap().as_bit() / 8 / 1024 / u64::from(MSS)) as u32).max(2);
        let even = (320 + extra + bursts + 1) & !1;
        even + if self.gain() > 1.0 { 2 } else { 0 }
    }
    /// The same, at the beginning of the phase with `gain`.
    fn at_gain(gain: f64) -> Flow {
        for seed in 0.. {
            let mut flow = Flow::settled(seed);
            for _ in 0..20 {
                let before = flow.gain();
                flow.step_phase();
                if flow.gain() == gain && before != gain {
                    return flow;
                }
            }
        }
        unreachable!()
    }
    /// Enough of everything to end any phase.
    fn step_phase(&mut self) {
        self.ack(&AckInput {
            after: RTT + Span::us(1),
            ..ROUND
        });
    }
}

#[test]
fn the_greatest_rate_is_that_of_ten_round_trips() {
    let mut flow = Flow::settled(1);
    flow.ack(&AckInput {
        rate: 6000,
        ..ROUND
    });
    flow.rounds(10);
    assert_eq!(flow.bw(), 6000);
    flow.rounds(1);
    assert_eq!(flow.bw(), 4000);
    // Within one round trip nothing is forgotten, however long it takes.
    flow.ack(&AckInput {
        rate: 5000,
        ..ROUND
    });
    for _ in 0..100 {
        flow.ack(&AckInput {
            new_round: false,
            ..ROUND
        });
    }
    assert_eq!(flow.bw(), 5000);
}

#[test]
fn a_rate_limited_by_the_application_counts_only_upwards() {
    let mut flow = Flow::settled(1);
    let limited = |rate| AckInput {
        rate,
        app_limited: true,
        ..ROUND
    };
    (0..20).for_each(|_| flow.ack(&limited(1000)));
    assert_eq!(flow.bw(), 4000);
    flow.ack(&limited(4500));
    assert_eq!(flow.bw(), 4500);
}

#[test]
fn startup_ends_after_three_round_trips_without_a_quarter_more() {
    let mut flow = Flow::new(1);
    flow.ack(&ROUND);
    // A quarter more each time is growth; a little less is not.
    for rate in [5000, 6250, 7820] {
        flow.ack(&AckInput { rate, ..ROUND });
        assert_eq!((flow.mode(), flow.gain()), ("startup", STARTUP));
    }
    let flat = |rate| AckInput { rate, ..ROUND };
    flow.ack(&flat(9000));
    flow.ack(&flat(9700));
    assert_eq!(flow.mode(), "startup");
    // Neither what the application limits nor ACKs of the same round trip are a verdict.
    flow.ack(&AckInput {
        app_limited: true,
        ..flat(9000)
    });
    flow.ack(&AckInput {
        new_round: false,
        ..flat(9000)
    });
    assert_eq!(flow.mode(), "startup");
    flow.ack(&flat(9700));
    assert_eq!((flow.mode(), flow.gain()), ("drain", 88.0 / 256.0));
    // The threshold shows the bandwidth-delay product: 9700/s · 40 ms and three bursts of Startup,
    // 27 packets each, even.
    assert_eq!(flow.w.ssthresh, 388 + 3 * 27 + 1);
}

#[test]
fn growth_in_startup_begins_the_count_anew() {
    let mut flow = Flow::new(1);
    flow.rounds(3);
    flow.ack(&AckInput {
        rate: 5000,
        ..ROUND
    });
    (0..2).for_each(|_| {
        flow.ack(&AckInput {
            rate: 5000,
            ..ROUND
        })
    });
    assert_eq!(flow.mode(), "startup");
    flow.ack(&AckInput {
        rate: 5000,
        ..ROUND
    });
    assert_eq!(flow.mode(), "drain");
}

#[test]
fn drain_ends_with_one_product_in_flight_when_the_next_packet_departs() {
    // 160 packets, three bursts of two, even: 166. In a millisecond 3 whole packets are
    // acknowledged.
    for (in_flight, ahead, mode) in [
        (167, Span::ZERO, "drain"),
        (166, Span::ZERO, "probe bw"),
        (169, Span::ms(1), "probe bw"),
        (170, Span::ms(1), "drain"),
    ] {
        let mut flow = Flow::new(1);
        flow.rounds(4);
        flow.ack(&AckInput {
            in_flight,
            departure_ahead: ahead,
            ..ROUND
        });
        assert_eq!(flow.mode(), mode, "{in_flight} in flight, {ahead:?}");
        let expected = if mode == "drain" { STARTUP } else { 2.0 };
        assert_eq!(flow.show("cwnd_gain"), expected);
    }
}

#[test]
fn the_cycle_starts_in_any_phase_except_the_draining_one() {
    let mut first = [0; 8];
    for seed in 0..700 {
        let mut flow = Flow::settled(seed);
        assert_ne!(flow.gain(), 0.75);
        // How many phases until 1.25 comes?
        let mut n = 0;
        while flow.gain() <= 1.0 {
            flow.step_phase();
            n += 1;
        }
        first[n] += 1;
    }
    assert_eq!((first[7], first.iter().sum::<i32>()), (0, 700));
    assert!(
        first[..7].iter().all(|n| (60..=140).contains(n)),
        "{first:?}"
    );
}

#[test]
fn the_cycle_is_more_less_and_six_times_the_same() {
    let mut flow = Flow::at_gain(1.25);
    let mut gains = Vec::new();
    for _ in 0..9 {
        gains.push(flow.gain());
        flow.step_phase();
    }
    assert_eq!(gains, [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.25]);
}

#[test]
fn phases_end_when_they_should() {
    // 1.25 · 160 + 3 bursts of 3, even, and 2 more: 212; with a burst about to leave. And 160 + 3 ·
    // 2, even: 166.
    let least = AckInput {
        after: RTT,
        in_flight: 190,
        ..ROUND
    };
    let long = AckInput {
        after: RTT + Span::us(1),
        ..least.clone()
    };
    let ends = |gain, ack: &AckInput| {
        let mut flow = Flow::at_gain(gain);
        flow.ack(ack);
        flow.gain() != gain
    };
    // More: time alone is not enough, nor are losses or packets in flight without time.
    assert!(!ends(1.25, &long));
    assert!(!ends(
        1.25,
        &AckInput {
            lost: 1,
            ..least.clone()
        }
    ));
    assert!(!ends(
        1.25,
        &AckInput {
            in_flight: 300,
            ..least.clone()
        }
    ));
    assert!(ends(
        1.25,
        &AckInput {
            lost: 1,
            ..long.clone()
        }
    ));
    assert!(ends(
        1.25,
        &AckInput {
            in_flight: 212,
            ..long.clone()
        }
    ));
    assert!(!ends(
        1.25,
        &AckInput {
            in_flight: 206,
            ..long.clone()
        }
    ));
    // Less: either is enough.
    assert!(!ends(0.75, &least));
    assert!(ends(0.75, &long));
    let soon = |in_flight| AckInput {
        after: Span::ms(1),
        in_flight,
        ..ROUND
    };
    assert!(ends(0.75, &soon(164)));
    assert!(!ends(0.75, &soon(170)));
    // Cruising: time, and nothing else. From the end of "less" six such phases follow each other.
    let mut flow = Flow::at_gain(0.75);
    flow.step_phase();
    let begun = flow.now;
    while flow.gain() == 1.0 {
        flow.ack(&AckInput {
            after: Span::ms(1),
            in_flight: 10,
            lost: 1,
            ..ROUND
        });
    }
    assert_eq!(flow.now.since(begun), Span::ms(6 * 41));
}

#[test]
fn probe_rtt_comes_after_ten_seconds_and_lasts_200_ms_and_a_round_trip() {
    let mut flow = Flow::settled(3);
    let before = flow.w.cwnd;
    let seen = Time::ZERO + Span::s(1);
    let higher = AckInput {
        rtt: Span::ms(50),
        after: Span::ms(5),
        new_round: false,
        ..ROUND
    };
    while flow.mode() != "probe rtt" {
        assert!(flow.show("min_rtt_ms") == 40.0 && !flow.w.app_limited);
        flow.ack(&higher);
    }
    // More than ten seconds; from the last ACK that showed as little, which came with the last
    // round trip.
    let waited = flow.now.since(seen);
    assert_eq!(waited, Span::ms(10_005));
    assert_eq!(
        (flow.w.cwnd, flow.gain(), flow.w.app_limited),
        (4, 1.0, true)
    );
    assert_eq!(flow.show("min_rtt_ms"), 50.0);
    // The 200 ms begin when no more than 4 packets are in flight.
    flow.ack(&AckInput {
        after: Span::s(1),
        in_flight: 5,
        ..higher.clone()
    });
    let few = |after, new_round| AckInput {
        after,
        new_round,
        in_flight: 4,
        ..higher.clone()
    };
    flow.ack(&few(Span::ZERO, false));
    flow.ack(&few(Span::ms(300), false));
    assert_eq!(flow.mode(), "probe rtt", "a round trip is missing");
    flow.ack(&few(Span::ZERO, true));
    assert_eq!(flow.mode(), "probe bw");
    assert!(flow.w.cwnd >= before, "{} after {before}", flow.w.cwnd);

    // And time, where round trips are short.
    let mut flow = Flow::settled(3);
    while flow.mode() != "probe rtt" {
        flow.ack(&higher);
    }
    flow.ack(&few(Span::ms(1), false));
    for ms in 1..=200 {
        flow.ack(&few(Span::ms(1), true));
        assert_eq!(flow.mode(), "probe rtt", "{ms}");
    }
    flow.ack(&few(Span::ms(1), true));
    assert_eq!(flow.mode(), "probe bw");
}

#[test]
fn a_flow_back_from_idleness_does_not_probe_and_a_delayed_ack_is_no_round_trip() {
    let mut flow = Flow::settled(1);
    let late = AckInput {
        after: Span::s(11),
        rtt: Span::ms(60),
        maybe_delayed: true,
        ..ROUND
    };
    let mut sent = Sent::at(flow.now);
    sent.app_limited = true;
    sent.totals = flow.totals;
    flow.cc.on_sent(&mut flow.w, &sent);
    // It restarts at the rate it knew.
    assert_eq!(flow.w.pacing.unwrap().as_bit() / 8, paced(4000, 1.0));
    flow.ack(&late);
    assert_eq!((flow.mode(), flow.show("min_rtt_ms")), ("probe bw", 40.0));
    flow.ack(&AckInput {
        after: Span::ms(1),
        maybe_delayed: false,
        ..late
    });
    assert_eq!((flow.mode(), flow.show("min_rtt_ms")), ("probe rtt", 60.0));
}

/// 0.99 · gain · rate in bytes per second, as it is rounded: the rate by 2⁻²⁴ packets per µs, the
/// gain by 1/256.
fn paced(rate: u64, gain: f64) -> u64 {
    let bw = (rate << 24) / 1_000_000;
    let scaled = (bw * u64::from(MSS) * (gain * 256.0) as u64) >> 8;
    (scaled * 990_000) >> 24
}

#[test]
fn recovery_conserves_packets_and_restores_the_window() {
    let mut flow = Flow::settled(1);
    let before = flow.w.cwnd;
    let recovering = |in_flight, delivered, lost, new_round| AckInput {
        after: Span::ms(1),
        in_flight,
        delivered,
        lost,
        new_round,
        state: State::Recovery,
        ..ROUND
    };
    flow.lose();
    flow.ack(&recovering(300, 2, 5, false));
    assert_eq!(flow.w.cwnd, 302);
    flow.ack(&recovering(290, 1, 8, false));
    assert_eq!(flow.w.cwnd, 294, "less what was lost");
    flow.ack(&recovering(310, 3, 0, false));
    assert_eq!(flow.w.cwnd, 313, "what is in flight and was delivered");
    // After a round trip it grows to its goal again.
    flow.ack(&recovering(290, 4, 0, true));
    assert_eq!(flow.w.cwnd, 317);
    flow.ack(&recovering(20, 1, 400, false));
    assert_eq!(flow.w.cwnd, 4, "never below the least");
    flow.ack(&AckInput {
        after: Span::ms(1),
        new_round: false,
        ..ROUND
    });
    assert!(flow.w.cwnd >= before - 2, "{} after {before}", flow.w.cwnd);
}

#[test]
fn a_timeout_restarts_the_full_pipe_check_and_counts_as_loss() {
    let mut flow = Flow::new(1);
    flow.rounds(3);
    flow.lose();
    flow.w.cwnd = 1;
    let mut rto = Rto::at(flow.now);
    rto.totals = flow.totals;
    flow.cc.on_rto(&mut flow.w, &rto);
    // The first verdict after it compares with nothing.
    flow.ack(&ROUND);
    assert_eq!(flow.mode(), "startup");
    flow.rounds(1);
    assert_eq!(flow.mode(), "startup");
    flow.rounds(2);
    assert_eq!(flow.mode(), "drain");
}

/// Round trips of an interval: losses at its beginning and end, `lost` of every 100 delivered, at
/// `rate` packets/s.
fn interval(flow: &mut Flow, rounds: u32, rate: u64, lost: u32) {
    for _ in 0..rounds {
        let n = rate as u32 * 40 / 1000;
        flow.ack(&AckInput {
            delivered: n,
            lost: n * lost / 100,
            rate: 8000,
            ..ROUND
        });
    }
}

/// The first loss, within a round trip.
fn begin(flow: &mut Flow) {
    flow.ack(&AckInput {
        lost: 1,
        rate: 8000,
        new_round: false,
        ..ROUND
    });
}

#[test]
fn two_equal_intervals_detect_a_policer() {
    for (first, second, found) in [
        (1000, 1000, true),
        (1000, 1100, true),
        (1000, 900, true),
        (1000, 1200, false),
        (1000, 850, false),
    ] {
        let mut flow = Flow::settled(1);
        begin(&mut flow);
        interval(&mut flow, 4, first, 30);
        assert!(!flow.policed());
        interval(&mut flow, 4, second, 30);
        assert_eq!(flow.policed(), found, "{first} and {second}");
        if found {
            assert!(
                flow.bw().abs_diff((first + second) / 2) <= 1 + second / 100,
                "{}",
                flow.bw()
            );
            assert_eq!(flow.gain(), 1.0);
        }
    }
}

#[test]
fn a_policer_loses_a_fifth_and_more() {
    for (lost, found) in [(19, false), (20, true)] {
        let mut flow = Flow::settled(1);
        begin(&mut flow);
        interval(&mut flow, 9, 2500, lost);
        assert_eq!(flow.policed(), found, "{lost} of 100");
    }
}

#[test]
fn intervals_too_short_too_long_or_application_limited_are_ignored() {
    let mut flow = Flow::settled(1);
    begin(&mut flow);
    interval(&mut flow, 4, 1000, 30);
    interval(&mut flow, 3, 1000, 30);
    assert!(!flow.policed(), "four round trips at least");
    interval(&mut flow, 1, 1000, 30);
    assert!(flow.policed());

    let mut flow = Flow::settled(1);
    begin(&mut flow);
    interval(&mut flow, 4, 1000, 30);
    // No loss for 17 round trips: the interval before is forgotten too, and the next loss begins a
    // first one.
    interval(&mut flow, 17, 1000, 0);
    begin(&mut flow);
    interval(&mut flow, 4, 1000, 30);
    assert!(!flow.policed());

    let mut flow = Flow::settled(1);
    begin(&mut flow);
    interval(&mut flow, 4, 1000, 30);
    flow.ack(&AckInput {
        app_limited: true,
        ..ROUND
    });
    begin(&mut flow);
    interval(&mut flow, 4, 1000, 30);
    assert!(!flow.policed());
}

fn policed() -> Flow {
    let mut flow = Flow::settled(1);
    begin(&mut flow);
    interval(&mut flow, 8, 1000, 30);
    assert!(flow.policed() && flow.bw() == 1000);
    flow
}

#[test]
fn a_policed_rate_is_used_for_48_round_trips() {
    let mut flow = policed();
    flow.rounds(47);
    assert!(flow.policed());
    flow.rounds(1);
    assert!(!flow.policed());
}

#[test]
fn an_undone_reduction_forgets_policers_and_judges_the_pipe_anew() {
    let mut flow = policed();
    let mut spurious = SpuriousLoss::at(flow.now);
    (spurious.prior_cwnd, spurious.totals) = (1000, flow.totals);
    let cwnd = flow.w.cwnd;
    flow.cc.on_spurious_loss(&mut flow.w, &spurious);
    assert!(!flow.policed());
    assert_eq!(flow.w.cwnd, cwnd, "it comes back when recovery ends");

    let mut flow = Flow::new(1);
    flow.rounds(3);
    spurious.now = flow.now;
    flow.cc.on_spurious_loss(&mut flow.w, &spurious);
    flow.rounds(3);
    assert_eq!(flow.mode(), "startup");
    flow.rounds(1);
    assert_eq!(flow.mode(), "drain");
}

#[test]
fn acks_in_clumps_make_room_for_100_ms_at_most() {
    let clump = |delivered| AckInput {
        delivered,
        after: Span::ZERO,
        new_round: false,
        ..ROUND
    };
    let mut flow = Flow::settled(1);
    let quiet = flow.show("extra_acked");
    flow.ack(&AckInput {
        after: Span::s(1),
        new_round: false,
        ..clump(1)
    });
    flow.ack(&clump(200));
    assert_eq!(flow.show("extra_acked"), f64::max(201.0, quiet));
    for _ in 0..2 {
        flow.ack(&clump(200));
    }
    // 4000 packets/s deliver 399 in 100 ms, rounded down.
    assert!(flow.show("extra_acked") > 400.0);
    assert_eq!(flow.w.cwnd, flow.goal());
    // Forgotten after two times five round trips, once the rate has caught up with the clump.
    flow.rounds(4);
    assert!(flow.show("extra_acked") > 400.0);
    flow.rounds(10);
    assert!(
        flow.show("extra_acked") < 200.0,
        "{}",
        flow.show("extra_acked")
    );
}

#[test]
fn until_the_pipe_is_full_pacing_only_rises() {
    let mut flow = Flow::new(1);
    // Ten packets in 40 ms.
    assert_eq!(flow.w.pacing.unwrap().as_bit() / 8, paced(250, STARTUP));
    flow.ack(&AckInput { rate: 100, ..ROUND });
    assert_eq!(flow.w.pacing.unwrap().as_bit() / 8, paced(250, STARTUP));
    assert_eq!(flow.w.min_burst, 2);
    let mut slow = Flow::settled(1);
    (0..12).for_each(|_| slow.ack(&AckInput { rate: 100, ..ROUND }));
    assert_eq!(slow.w.min_burst, 1, "less than 1.2 Mbit/s");
}

prop_compose! {
    fn anything()(
        after in prop_oneof![8 => 0u64..5_000, 4 => 5_000u64..100_000, 1 => 100_000u64..20_000_000],
        delivered in prop_oneof![1 => Just(0u32), 8 => 1u32..5, 2 => 0u32..2000,
        1 => 0u32..2_000_000],
        rate in prop_oneof![6 => 100u64..20_000, 1 => Just(0u64), 1 => 0u64..1_000_000_000],
        new_round in prop::bool::weighted(0.3),
        app_limited in prop::bool::weighted(0.1),
        lost in prop_oneof![5 => Just(0u32), 3 => 0u32..20, 1 => 0u32..1_000_000],
        in_flight in prop_oneof![6 => 0u32..500, 1 => 0u32..1_000_000],
        rtt in prop_oneof![6 => 10_000u64..100_000, 1 => 1u64..10, 1 => 0u64..100_000_000],
        maybe_delayed: bool,
        state in prop::sample::select(&[State::Open, State::Disorder, State::Recovery,
        State::Loss][..]),
        ahead in 0u64..100_000,
    ) -> AckInput {
        AckInput {
            after: Span::us(after), delivered, rate, new_round, app_limited, lost, in_flight,
            rtt: Span::us(rtt), maybe_delayed,
            state, departure_ahead: Span::us(ahead),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// With any input, the window is valid and pacing stays below 0.99 · gain · bandwidth.
    #[test]
    fn no_ack_makes_bbr_lose_its_mind(seed in 0u64..100, clamp in prop_oneof![Just(u32::MAX),
        4u32..1000],
            ack in prop::collection::vec((anything(), 0u8..30), 1..200)) {
        let mut flow = Flow::new(seed);
        flow.w.clamp = clamp;
        for (ack, other) in &ack {
            match other {
                0 => flow.lose(),
                1 => {
                    flow.lose();
                    flow.w.cwnd = ack.in_flight + 1;
                    let mut rto = Rto::at(flow.now);
                    rto.totals = flow.totals;
                    flow.cc.on_rto(&mut flow.w, &rto);
                }
                2 => {
                    let mut ev = SpuriousLoss::at(flow.now);
                    (ev.prior_cwnd, ev.totals) = (ack.in_flight, flow.totals);
                    flow.cc.on_spurious_loss(&mut flow.w, &ev);
                }
                3 => {
                    let mut ev = Sent::at(flow.now);
                    (ev.app_limited, ev.totals) = (ack.app_limited, flow.totals);
                    flow.cc.on_sent(&mut flow.w, &ev);
                }
                _ => {}
            }
            let was_startup = flow.mode() == "startup" || flow.mode() == "probe rtt";
            flow.ack(ack);
            let cwnd = flow.w.cwnd;
            prop_assert!(cwnd >= 1 && cwnd <= clamp, "{cwnd} of {clamp} by {ack:?}");
            prop_assert!(flow.mode() != "probe rtt" || cwnd <= 4);
            let most = 0.99 * flow.gain() * flow.show("bw_packets_per_s") * f64::from(MSS);
            let pacing = flow.w.pacing.unwrap().as_bit() / 8;
            prop_assert!(was_startup || pacing as f64 <= most + 1.0, "{pacing} of {most} by \
                {ack:?}");
            prop_assert!((1..=2).contains(&flow.w.min_burst));
        }
    }
}
