//! Tests of BBR, version 3: the test cases of the draft, and each rule by itself.

pub(in crate::cc) mod path;

use super::long_term::inflight_at_loss;
use super::signals::{Short, UNBOUND};
use super::version::{V3, params};
use super::*;
use crate::cc::bbr::bandwidth::Bw;
use crate::cc::{FlightSample, RateSample, Totals};
use crate::param::Value;
use crate::transport::State;
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;
use path::Path;

/// A path of 10 Mbit/s and 40 ms, with a bandwidth-delay product of 34.5 packets and a buffer of
/// `bdp` products.
fn path(bdp: f64) -> Path {
    Path::new(V3, 10.0, 40, (34.5 * bdp) as u64)
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b
}

// Startup and Drain

#[test]
fn startup_finds_the_bandwidth_within_two_per_cent() {
    let mut p = path(8.0);
    p.reach(Mode::Drain);
    assert!(p.cc.startup.full_now && p.cc.startup.full);
    let bw = p.cc.max_bw.get().packets_per_s();
    assert!(near(bw, p.rate(), 0.02), "{bw} {}", p.rate());
    // log2(34.5/10) round trips of growth, three without, and one to see the first.
    assert!(
        (4..=9).contains(&p.cc.rounds.count),
        "{}",
        p.cc.rounds.count
    );
    assert_eq!(p.lost, 0);
}

/// An increase by 25 % is growth. Three round trips with smaller increases fill the pipe, and round
/// trips that the application limited do not count.
#[test]
fn three_round_trips_without_growth_fill_the_pipe() {
    let mut cc = Bbr3::new(&Params::defaults(PARAMS), &Host::default());
    cc.rounds.start = true;
    let mut judge = |rate: u64, app_limited| {
        let sample = RateSample {
            prior_delivered: 0,
            delivered: rate,
            interval: Span::s(1),
            app_limited,
        };
        cc.judge_pipe(&sample, Bw::of(rate, 1_000_000));
        cc.startup.full
    };
    for rate in [1000, 1250, 1500, 1500] {
        assert!(!judge(rate, false));
    }
    assert!(!judge(1563, false));
    assert!(!judge(1900, false));
    assert!(!judge(1900, false));
    assert!(!judge(1900, true));
    assert!(judge(1900, false));
}

#[test]
fn startup_gains_are_the_drafts() {
    let p = path(1.0);
    assert_eq!(p.cc.gains(), (710, 512));
    let rate = p.w.pacing.map_or(0.0, Rate::as_mbit);
    // 10 packets in 40 ms.
    assert!(
        near(rate, 0.99 * 2.77 * 10.0 * 1448.0 * 8.0 / 0.04 / 1e6, 0.002),
        "{rate}"
    );
}

#[test]
fn losses_end_startup_though_the_application_limits() {
    let mut p = path(8.0);
    p.supply = Some(25);
    p.run(1.0);
    assert_eq!(p.mode(), Mode::Startup);
    // 4 %, evenly spread; then four times as many, in runs: too few places.
    p.drops = |n| n % 25 == 0;
    p.run(1.0);
    assert_eq!(p.mode(), Mode::Startup);
    p.supply = Some(60);
    p.drops = |n| n % 50 < 5;
    p.run(0.5);
    assert_eq!(p.mode(), Mode::Startup);
    p.drops = |n| n % 8 == 0;
    assert!(p.until(1.0, |p| p.mode() == Mode::Drain));
    assert!(p.cc.startup.full && p.cc.startup.full_now);
    let least = p.cc.bdp(p.cc.bw());
    assert!(p.cc.long.inflight >= least && p.cc.long.inflight < UNBOUND);
}

/// A loss rate above 2 % ends Startup. The bound is the number of packets delivered in the round
/// trip, if this is more than the bandwidth-delay product.
#[test]
fn losses_in_startup_set_the_bound_to_the_delivered_amount() {
    let mut p = path(0.5);
    p.set_rate(100.0);
    p.buffer = 100;
    p.reach(Mode::Drain);
    assert!(p.lost > 6);
    let (long, bdp) = (p.cc.long.inflight as f64, p.bdp());
    assert!(long >= 0.99 * bdp && long <= bdp + 130.0, "{long} {bdp}");
    assert_eq!(p.cc.undo.mode, Some(Mode::Startup));
}

#[test]
fn an_application_that_limits_never_fills_the_pipe() {
    let mut p = path(8.0);
    p.supply = Some(10);
    p.run(4.5);
    assert_eq!(p.phases.len(), 1);
}

#[test]
fn drain_ends_with_a_product_in_flight() {
    let mut p = path(8.0);
    p.reach(Mode::Drain);
    assert_eq!(p.cc.gains(), (128, 512));
    let since = p.cc.rounds.count;
    assert!(p.in_flight() > p.bdp() as u32);
    p.reach(Mode::Down);
    assert!(p.in_flight() <= p.cc.inflight(p.cc.bw(), UNIT) as u32 + 1);
    assert!(p.cc.rounds.count - since <= 2);
}

#[test]
fn drain_ends_after_three_round_trips() {
    assert_eq!(path(8.0).drains_for(), 4);
}

// the cycle

#[test]
fn a_cycle_has_the_phases_down_cruise_refill_and_up() {
    let mut p = path(4.0);
    p.run(20.0);
    use Mode::*;
    let order: Vec<Mode> = p
        .phases
        .iter()
        .map(|(_, m)| *m)
        .filter(|m| *m != ProbeRtt)
        .collect();
    assert_eq!(order[..6], [Startup, Drain, Down, Cruise, Refill, Up]);
    assert!(order.windows(2).all(|two| match two[0] {
        Down => matches!(two[1], Cruise | Refill),
        Cruise => matches!(two[1], Refill | Down | Cruise),
        Refill => matches!(two[1], Up | Down),
        Up => matches!(two[1], Down | Cruise),
        _ => true,
    }));
    let gains = |mode| {
        let mut cc = p.cc.clone();
        cc.mode = mode;
        cc.gains()
    };
    assert_eq!(
        [Down, Cruise, Refill, Up, ProbeRtt].map(gains),
        [(230, 512), (256, 512), (256, 512), (320, 576), (256, 128)]
    );
    assert_eq!(p.lost, 0);
    // 1 % of margin, and the cost of ProbeRTT.
    assert!(
        p.delivered as f64 / 20.0 > 0.95 * p.rate(),
        "{}",
        p.delivered
    );
}

/// With a large bandwidth-delay product, the time to the next probe is 2 to 3 s. With a small one,
/// it is the number of round trips in which Reno's window grows by the product.
#[test]
fn it_waits_two_to_three_seconds_or_as_long_as_reno() {
    let waits = |mbit, ms, rounds: fn(&Path) -> u64| {
        let mut p = Path::new(V3, mbit, ms, 100_000);
        p.cc.set.probe_rtt_interval = Span::s(1000);
        let mut waits = Vec::new();
        for _ in 0..4 {
            p.reach(Mode::Down);
            let (now, since) = (p.now, rounds(&p));
            p.reach(Mode::Refill);
            waits.push(((p.now - now) as f64 / 1e9, rounds(&p) - since));
            p.reach(Mode::Up);
        }
        waits
    };
    let clock = waits(100.0, 100, |p| p.cc.rounds.count.into());
    assert!(
        clock.iter().all(|(s, _)| (2.0..3.3).contains(s)),
        "{clock:?}"
    );
    assert!(
        clock.iter().any(|w| (w.0 - clock[0].0).abs() > 0.01),
        "{clock:?}"
    );
    // 4 Mbit/s and 40 ms: 14 packets.
    let reno = waits(4.0, 40, |p| p.cc.rounds.count.into());
    assert!(reno.iter().all(|(_, n)| (12..=16).contains(n)), "{reno:?}");
}

#[test]
fn probe_up_ends_when_the_bandwidth_stops_growing() {
    let mut p = path(8.0);
    p.reach(Mode::Up);
    let since = p.cc.rounds.count;
    p.reach(Mode::Down);
    assert!(p.cc.startup.full_now);
    assert_eq!(p.cc.rounds.count - since, 3);
    assert_eq!(p.cc.long.inflight, UNBOUND);
    assert!(!p.cc.long.too_high);
}

#[test]
fn losses_in_probe_up_set_the_bound_and_end_the_phase() {
    let mut p = path(4.0);
    p.reach(Mode::Up);
    p.run(0.05);
    p.drops = |n| n % 10 == 0;
    let window = f64::from(p.w.cwnd);
    p.reach(Mode::Down);
    assert!(p.cc.long.too_high && !p.cc.long.sampling);
    let long = p.cc.long.inflight as f64;
    assert!(
        long >= (0.7 * p.bdp()).floor() && long <= window,
        "{long} {window}"
    );
    assert_eq!(p.cc.undo.mode, Some(Mode::Up));
}

/// Losses of a flow that its application limits set no bound, but end the probe.
#[test]
fn a_limited_flow_ends_its_probe_without_a_bound() {
    let mut p = path(4.0);
    p.reach(Mode::Up);
    p.supply = Some(20);
    p.run(0.15);
    assert_eq!(p.mode(), Mode::Up);
    p.drops = |n| n % 10 == 0;
    p.reach(Mode::Down);
    assert_eq!(
        p.cc.long.inflight, UNBOUND,
        "{:?} {:?}",
        p.phases, p.cc.long
    );
}

#[test]
fn an_application_limited_flow_continues_probe_up() {
    let mut p = path(4.0);
    p.reach(Mode::Up);
    p.supply = Some(20);
    p.run(1.5);
    assert_eq!(p.mode(), Mode::Up);
}

/// ProbeDown lasts until at most 85 % of the bound, and at most one product, are in flight. In
/// Cruise, the window stays within these limits.
#[test]
fn headroom_is_left_while_cruising() {
    let mut p = path(4.0);
    p.reach(Mode::Cruise);
    let (cc, mut w) = (&mut p.cc, p.w.clone());
    assert!(cc.is_time_to_cruise(35) && !cc.is_time_to_cruise(37));
    cc.long.inflight = 30;
    assert_eq!(cc.inflight_with_headroom(), 26);
    assert!(cc.is_time_to_cruise(26) && !cc.is_time_to_cruise(27));
    let mut window = |mode| {
        let mut ack = Ack::at(Time::ZERO);
        ack.delivered = 100;
        cc.mode = mode;
        cc.set_window(&mut w, &ack, &Delivery::default());
        w.cwnd
    };
    assert_eq!(
        [Mode::Cruise, Mode::Down, Mode::Refill, Mode::Up].map(&mut window),
        [26, 30, 30, 30]
    );
    cc.long.inflight = 4;
    assert_eq!(cc.inflight_with_headroom(), 4);
}

/// The path becomes slower during ProbeDown: the queue does not decrease, and a probe follows
/// without Cruise.
#[test]
fn down_ends_after_its_time_though_much_is_in_flight() {
    let mut p = path(8.0);
    p.reach(Mode::Down);
    // The minimum round trip is set too low: a product is never as much as is in flight.
    p.cc.min_rtt.start(Span::ms(30), Time::from_ns(p.now));
    p.cc.long.inflight = 8;
    p.set_rate(2.0);
    let at = p.phases.len();
    p.buffer = 10_000;
    p.cc.long.inflight = 12;
    p.cc.set.headroom = 0.9;
    p.reach(Mode::Refill);
    assert!(
        !p.phases[at..].iter().any(|(_, m)| *m == Mode::Cruise),
        "{:?}",
        p.phases
    );
}

/// After a probe with too many losses the next probe stops at the bound. If it causes no losses,
/// another probe follows at once.
#[test]
fn a_probe_without_losses_is_followed_by_a_steeper_one() {
    let mut p = path(4.0);
    p.reach(Mode::Cruise);
    p.cc.long.too_high = true;
    p.cc.long.inflight = 36;
    p.reach(Mode::Up);
    let at = p.phases.len();
    p.reach(Mode::Down);
    assert!(p.cc.long.cautious && !p.cc.long.too_high);
    p.reach(Mode::Refill);
    let (down, refill) = (p.phases[at].0, p.phases[p.phases.len() - 1].0);
    assert!(refill - down < 0.15, "{:?}", &p.phases[at..]);
    assert!(!p.cc.long.cautious);
}

/// The bound grows by 1, 2, 4 … packets per window acknowledged, while the window is the limit.
#[test]
fn the_bound_grows_twice_as_much_in_every_round_trip() {
    let mut cc = path(4.0).cc;
    let w = Window::new(64);
    cc.mode = Mode::Up;
    cc.startup.full = true;
    cc.long.inflight = 20;
    cc.long.steepen(w.cwnd);
    let mut d = Delivery::default();
    let mut round_trip = |cc: &mut Bbr3, cwnd_limited| {
        let before = cc.long.inflight;
        d.flight = Some(FlightSample {
            in_flight: 10,
            cwnd_limited,
            ..Default::default()
        });
        for i in 1..=64 {
            cc.rounds.start = i == 64;
            cc.adapt_long(&w, &d, 1, Time::ZERO, false);
        }
        cc.long.inflight - before
    };
    assert_eq!(
        [true; 4].map(|limited| round_trip(&mut cc, limited)),
        [1, 2, 4, 8]
    );
    assert_eq!(round_trip(&mut cc, false), 0);
    // A bound that the window has not reached does not grow.
    cc.long.inflight = 65;
    assert_eq!(round_trip(&mut cc, true), 0);
}

#[test]
fn an_inflight_amount_without_losses_raises_the_bound() {
    let mut cc = path(4.0).cc;
    cc.long.inflight = 50;
    let mut d = Delivery::default();
    let flight = |in_flight, lost| {
        Some(FlightSample {
            in_flight,
            lost,
            ..Default::default()
        })
    };
    d.flight = flight(60, 2);
    cc.adapt_long(&Window::new(10), &d, 1, Time::ZERO, false);
    assert_eq!(cc.long.inflight, 50);
    d.flight = flight(60, 1);
    cc.adapt_long(&Window::new(10), &d, 1, Time::ZERO, false);
    assert_eq!(cc.long.inflight, 60);
}

/// (lost + x)/(in flight + x) = 2 %: after 99 packets without loss, two losses are allowed; after
/// one loss among 99 packets, one more; after two losses, none.
#[test]
fn the_threshold_is_crossed_within_a_burst() {
    assert_eq!(inflight_at_loss(0.02, 100, 1), 101);
    assert_eq!(inflight_at_loss(0.02, 100, 2), 100);
    assert_eq!(inflight_at_loss(0.02, 100, 3), 99);
    assert_eq!(inflight_at_loss(0.02, 1000, 1), 1019);
    assert_eq!(inflight_at_loss(0.02, 1000, 40), 999);
    let cc = path(1.0).cc;
    assert!(!cc.is_too_high(2, 100) && cc.is_too_high(3, 100));
}

/// The calculation of the draft: 137 round trips with 1 % loss reduce the rate to a quarter, which
/// Refill and ProbeUp double twice.
#[test]
fn one_per_cent_of_loss_is_borne_for_137_round_trips() {
    let left = libm::pow(0.99, 137.0) * 4.0;
    assert!((left - 1.01).abs() < 0.005);
    let mut p = path(2.0);
    p.set_rate(50.0);
    p.buffer = 350;
    p.drops = |n| n % 101 == 7;
    p.run(10.0);
    let rate = p.delivered as f64 / 10.0;
    assert!(rate > 0.75 * p.rate(), "{rate} {}", p.rate());
}

// short-term bounds

#[test]
fn losses_while_cruising_lower_the_short_bounds_by_a_round_trip_at_most_by_beta() {
    let mut cc = path(4.0).cc;
    let mut w = Window::new(100);
    cc.mode = Mode::Cruise;
    let cycle = |cc: &mut Bbr3, bw: u64, inflight| {
        cc.max_bw.next_cycle();
        cc.latest = Latest {
            bw: Bw(bw),
            inflight,
            ends: 0,
            over: true,
            lost: true,
        };
    };
    let sample = |delivered, us| RateSample {
        prior_delivered: 0,
        delivered,
        interval: Span::us(us),
        app_limited: false,
    };
    let d = Delivery::default();
    cc.take_signals(&w, &d, &sample(1, 1), Bw(1000));
    assert_eq!((cc.short.bw, cc.short.inflight), (Short::NONE.bw, UNBOUND));
    cycle(&mut cc, 900, 80);
    cc.take_signals(&w, &d, &sample(80, 1), Bw(900));
    assert_eq!((cc.short.bw, cc.short.inflight), (Bw(900), 80));
    assert_eq!(cc.bw(), Bw(900));
    cycle(&mut cc, 10, 5);
    cc.take_signals(&w, &d, &sample(5, 1), Bw(10));
    assert_eq!((cc.short.bw, cc.short.inflight), (Bw(630), 56));
    // The window respects it; the next probe does not.
    let mut ack = Ack::at(Time::ZERO);
    ack.delivered = 1;
    cc.min_rtt.start(Span::s(1), Time::ZERO);
    cc.set_window(&mut w, &ack, &d);
    assert!(w.cwnd <= 56);
    cc.refill(0);
    assert_eq!(cc.short.inflight, UNBOUND);
    // During a probe, losses do not lower them.
    cycle(&mut cc, 10, 5);
    cc.take_signals(&w, &d, &sample(5, 1), Bw(10));
    assert_eq!(cc.short.inflight, UNBOUND);
}

/// The maximum rate is that of two cycles. Rates that the application limited count only if they
/// are higher.
#[test]
fn the_greatest_rate_is_forgotten_after_two_cycles() {
    let mut p = path(4.0);
    p.run(6.0);
    let mut cc = p.cc.clone();
    let bw = cc.max_bw.get();
    cc.max_bw.next_cycle();
    assert_eq!(cc.max_bw.get(), bw);
    cc.max_bw.next_cycle();
    assert_eq!(cc.max_bw.get(), bw, "a cycle without any rate is none");
    let sample = |app_limited| RateSample {
        prior_delivered: 0,
        delivered: 1,
        interval: Span::s(1),
        app_limited,
    };
    let d = Delivery::default();
    cc.max_bw.next_cycle();
    cc.take_signals(&p.w, &d, &sample(true), Bw(bw.0 / 2));
    cc.max_bw.next_cycle();
    assert_eq!(cc.max_bw.get(), bw, "limited by the application");
    cc.take_signals(&p.w, &d, &sample(false), Bw(bw.0 / 2));
    cc.max_bw.next_cycle();
    assert_eq!(cc.max_bw.get(), Bw(bw.0 / 2));
}

#[test]
fn ten_times_the_bandwidth_is_found_in_few_probes() {
    let mut p = path(8.0);
    p.run(5.5);
    p.set_rate(100.0);
    p.buffer = 3000;
    let found = p.until(12.0, |p| {
        p.cc.max_bw.get().packets_per_s() > 0.95 * p.rate()
    });
    assert!(
        found,
        "{} {:?}",
        p.cc.max_bw.get().packets_per_s(),
        p.phases
    );
}

#[test]
fn a_tenth_of_the_bandwidth_is_known_after_two_cycles() {
    let mut p = Path::new(V3, 100.0, 40, 700);
    p.run(5.5);
    p.set_rate(10.0);
    let down = |p: &Path| p.phases.iter().filter(|(_, m)| *m == Mode::Down).count();
    let before = down(&p);
    let found = p.until(40.0, |p| {
        p.cc.max_bw.get().packets_per_s() < 1.05 * p.rate()
    });
    assert!(found && down(&p) - before <= 4, "{:?}", p.phases);
}

// the least round trip

#[test]
fn probe_rtt_starts_after_five_seconds_and_lasts_200_ms_and_a_round() {
    let mut p = path(8.0);
    p.reach(Mode::Cruise);
    p.reach(Mode::ProbeRtt);
    let at = p.now as f64 / 1e9;
    assert!((4.9..=5.8).contains(&at), "{at}");
    p.run(0.1);
    let half = (p.bdp() / 2.0) as u32;
    assert!((half - 1..=half + 2).contains(&p.w.cwnd), "{}", p.w.cwnd);
    assert_eq!(p.cc.gains(), (256, 128));
    p.reach(Mode::Cruise);
    let lasted = p.now as f64 / 1e9 - at;
    assert!((0.2..0.4).contains(&lasted), "{lasted}");
    assert_eq!(p.cc.short.inflight, UNBOUND);
    p.reach(Mode::ProbeRtt);
    let again = p.now as f64 / 1e9 - at;
    assert!((5.2..6.0).contains(&again), "{again}");
}

/// Half a bandwidth-delay product in flight for 200 ms in every five seconds costs at most 2 % of
/// the rate.
#[test]
fn probe_rtt_costs_two_per_cent() {
    let cost: f64 = 0.5 * 0.2 / 5.0;
    assert!(cost <= 0.02 + 1e-9);
}

#[test]
fn idleness_is_as_good_as_probe_rtt() {
    let mut p = path(8.0);
    p.reach(Mode::Cruise);
    p.supply = Some(0);
    p.run(6.0);
    p.supply = None;
    p.until(0.1, |_| true);
    assert_ne!(p.mode(), Mode::ProbeRtt);
    p.run(1.0);
    assert!(
        !p.phases.iter().any(|(_, m)| *m == Mode::ProbeRtt),
        "{:?}",
        p.phases
    );
}

#[test]
fn probe_rtt_within_startup_returns_to_it() {
    let mut p = path(8.0);
    p.supply = Some(10);
    p.reach(Mode::ProbeRtt);
    assert!(p.until(1.0, |p| p.mode() != Mode::ProbeRtt));
    assert_eq!(p.mode(), Mode::Startup);
}

#[test]
fn a_least_round_trip_is_believed_for_ten_seconds() {
    let mut p = path(8.0);
    p.reach(Mode::Cruise);
    p.rtt_ns += 20_000_000;
    p.run(4.0);
    assert_eq!(
        p.cc.min_rtt.us(),
        Some(p.cc.min_rtt.us().unwrap_or(0).min(43_000))
    );
    p.run(8.0);
    assert!(p.cc.min_rtt.us().is_some_and(|us| us >= 60_000));
}

// the window

#[test]
fn four_packets_are_the_least_on_a_path_that_holds_none() {
    let mut p = Path::new(V3, 0.5, 5, 20);
    p.run(4.0);
    assert!(p.cc.startup.full);
    assert!(p.w.cwnd >= 4, "{}", p.w.cwnd);
    assert!(near(p.cc.bw().packets_per_s(), p.rate(), 0.05));
    p.cc.long.inflight = 1;
    p.run(0.5);
    assert!(p.w.cwnd >= 4);
}

#[test]
fn aggregated_acks_are_added_to_the_window() {
    let mut p = path(8.0);
    p.run(3.0);
    let (mut cc, mut w) = (p.cc.clone(), p.w.clone());
    let mut ack = Ack::at(Time::from_ns(p.now));
    ack.delivered = 20;
    let d = Delivery {
        totals: Totals {
            delivered: p.delivered,
            delivered_at: Time::from_ns(p.now),
            lost: 0,
        },
        ..Delivery::default()
    };
    cc.take_aggregation(&w, &ack, &d);
    assert!(cc.extra_acked() >= 19, "{}", cc.extra_acked());
    w.cwnd = 1000;
    cc.set_window(&mut w, &ack, &d);
    let goal = cc.products(cc.bw(), cc.gains().1) + cc.extra_acked();
    assert_eq!(u64::from(w.cwnd), goal);
}

/// Losses alone do not reduce the window. A timeout does, and the end of recovery restores it.
#[test]
fn recovery_restores_the_window() {
    let mut p = path(4.0);
    p.reach(Mode::Cruise);
    let before = p.w.cwnd;
    let (cc, w) = (&mut p.cc, &mut p.w);
    let now = Time::from_ns(p.now);
    let change = |cc: &mut Bbr3, w: &mut Window, from, to| {
        let mut ev = StateChange::at(now);
        (ev.from, ev.to) = (from, to);
        cc.on_state(w, &ev);
    };
    cc.on_loss(w, &Loss::at(now));
    assert_eq!(w.cwnd, before);
    w.cwnd = 1;
    change(cc, w, State::Open, State::Loss);
    assert_eq!(cc.window_unmodulated(w), u64::from(before));
    change(cc, w, State::Loss, State::Open);
    assert_eq!(w.cwnd, before);
}

#[test]
fn a_mistaken_recovery_is_undone() {
    let undone = |mode: Mode| {
        let mut p = path(4.0);
        p.reach(Mode::Cruise);
        p.reach(Mode::Up);
        let before = p.w.cwnd;
        p.cc.long.inflight = 90;
        p.cc.short.inflight = 80;
        p.cc.save_state(&p.w);
        p.cc.undo.mode = Some(mode);
        (p.cc.long.inflight, p.cc.short.inflight) = (20, 10);
        p.cc.mode = Mode::Down;
        p.w.cwnd = 5;
        let mut ev = SpuriousLoss::at(Time::from_ns(p.now));
        ev.prior_cwnd = before;
        p.cc.on_spurious_loss(&mut p.w, &ev);
        assert_eq!(p.w.cwnd, before);
        assert_eq!(p.cc.long.inflight, 90);
        (p.cc.mode, p.cc.short.inflight, p.cc.startup.full)
    };
    assert_eq!(undone(Mode::Up), (Mode::Refill, UNBOUND, true));
    assert_eq!(undone(Mode::Startup), (Mode::Startup, 80, false));
}

/// The stored state is that before the first loss of an episode, although this loss lowers the
/// bound.
#[test]
fn the_first_loss_saves_the_state_before_it() {
    let mut p = path(4.0);
    p.reach(Mode::Up);
    p.run(0.05);
    p.drops = |n| n % 10 == 0;
    p.reach(Mode::Down);
    assert!(p.cc.long.inflight < UNBOUND);
    let mut ev = SpuriousLoss::at(Time::from_ns(p.now));
    ev.totals.delivered = p.delivered;
    p.cc.on_spurious_loss(&mut p.w, &ev);
    assert_eq!((p.cc.long.inflight, p.cc.mode), (UNBOUND, Mode::Refill));
}

/// A policer of 10 Mbit/s, whose bucket contains at most 40 packets, on a path of 100 Mbit/s.
#[test]
fn a_policer_is_lived_with() {
    let mut p = Path::new(V3, 100.0, 40, 1000);
    let ns = f64::from(crate::transport::MSS) * 8e3 / 10.0;
    p.policer = Some((40.0, 40.0, ns));
    p.run(10.0);
    let (delivered, lost) = (p.delivered, p.lost);
    p.run(20.0);
    let rate = (p.delivered - delivered) as f64 / 20.0;
    let lost = (p.lost - lost) as f64 / 20.0;
    assert!(rate > 0.75 * 1e9 / ns, "{rate}");
    assert!(lost < 0.1 * rate, "{lost} {rate}");
}

// marks

#[test]
fn marks_count_only_if_ecn_is_enabled_and_the_rtt_is_short() {
    let marked = |ecn: bool, ms: u64| {
        let mut table = Params::defaults(&params(&V3));
        table.set("ecn", Value::Bool(ecn));
        let mut cc = Bbr3::new(&table, &Host::default());
        cc.min_rtt.start(Span::ms(ms), Time::ZERO);
        cc.mode = Mode::Cruise;
        cc.latest.over = true;
        cc.rounds.start = true;
        let d = Delivery {
            flight: Some(FlightSample {
                in_flight: 100,
                delivered: 100,
                delivered_ce: 100,
                ..Default::default()
            }),
            ..Delivery::default()
        };
        let w = Window::new(100);
        cc.take_marks(&w, &d);
        cc.long.sampling = true;
        cc.mode = Mode::Up;
        cc.adapt_long(&w, &d, 1, Time::ZERO, false);
        (cc.short.inflight, cc.mode)
    };
    assert_eq!(marked(false, 4), (UNBOUND, Mode::Up));
    assert_eq!(marked(true, 6), (UNBOUND, Mode::Up));
    assert_eq!(marked(true, 4), (66, Mode::Down));
}
