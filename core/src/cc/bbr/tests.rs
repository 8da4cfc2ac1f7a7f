//! Tests of BBR's rules that depend on the kernel release: each rule is compared with the behaviour
//! before the release that introduced it.

use super::bandwidth::Bw;
use super::{Bbr, Mode, PARAMS};
use crate::cc::{Ack, CongestionControl, Delivery, Host, RateSample, Sent, Start, Totals, Window};
use crate::kernel::Kernel;
use crate::param::Params;
use crate::units::{Rate, Span, Time};

/// A flow whose handshake took 40 ms.
fn bbr(kernel: Kernel) -> (Bbr, Window) {
    let host = Host {
        kernel,
        ..Host::default()
    };
    let (mut bbr, mut w) = (Bbr::new(&Params::defaults(PARAMS), &host), Window::new(10));
    let mut ev = Start::at(Time::ZERO + Span::ms(40));
    (ev.srtt, ev.min_rtt) = (Span::ms(40), Span::ms(40));
    bbr.on_start(&mut w, &ev);
    (bbr, w)
}

/// 1000 packets per second are 12 Mbit/s of IP packets, and 3.5 % less of payload. Since 4.20 the
/// pacing rate is reduced by 1 %.
#[test]
fn the_rate_counted_ip_packets_before_4_19() {
    let paced = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        bbr.full_pipe = true;
        bbr.pace(&mut w, Bw::of(1000, 1_000_000), 256);
        w.pacing.map_or(0.0, Rate::as_mbit)
    };
    let rates = [
        Kernel::published(4, 18),
        Kernel::published(4, 19),
        Kernel::published(4, 20),
    ]
    .map(paced);
    for (rate, expected) in rates.iter().zip([12.0, 11.584, 11.468]) {
        assert!((rate - expected).abs() < 0.002, "{rates:?}");
    }
}

/// A bandwidth-delay product of 40 packets and room for three bursts of two packets: 46. Depending
/// on the release, two more are added in the phase that probes, in all phases, or in none.
#[test]
fn probing_adds_two_packets_to_the_inflight_target() {
    let goals = |kernel| {
        let (mut bbr, _) = bbr(kernel);
        bbr.mode = Mode::ProbeBw;
        let bw = Bw::of(1000, 1_000_000);
        bbr.cycle.phase = 0;
        let probing = bbr.inflight(bw, 257);
        bbr.cycle.phase = 3;
        (probing, bbr.inflight(bw, 256), bbr.inflight(bw, 257))
    };
    assert_eq!(goals(Kernel::published(4, 17)), (48, 46, 48));
    assert_eq!(goals(Kernel::published(4, 18)), (50, 46, 50));
    assert_eq!(goals(Kernel::published(5, 4)), (50, 46, 48));
}

/// An ACK arrives 9 s after the first RTT sample with the same RTT, and another 12 s after the
/// first sample with a higher RTT.
#[test]
fn as_low_a_round_trip_postponed_probe_rtt_before_5_10() {
    let probes = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        for s in [9, 12] {
            let mut ack = Ack::at(Time::ZERO + Span::s(s));
            (ack.in_flight, ack.delivered) = (10, 1);
            let delivery = Delivery {
                rtt: Some(Span::ms(if s == 9 { 40 } else { 50 })),
                ..Delivery::default()
            };
            bbr.take_min_rtt(&mut w, &ack, &delivery);
        }
        bbr.mode == Mode::ProbeRtt
    };
    assert_eq!(
        [Kernel::published(5, 9), Kernel::published(5, 10)].map(probes),
        [false, true]
    );
}

/// A flow resumes after an idle period, and then an ACK arrives that delivers no data.
#[test]
fn any_ack_ended_a_restart_before_4_17() {
    let restarting = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        let mut sent = Sent::at(Time::ZERO + Span::s(1));
        sent.app_limited = true;
        bbr.on_sent(&mut w, &sent);
        let mut delivery = Delivery::default();
        bbr.take_min_rtt(&mut w, &Ack::at(Time::ZERO + Span::s(1)), &delivery);
        let after_nothing = bbr.idle_restart;
        delivery.sample = Some(RateSample {
            prior_delivered: 0,
            delivered: 1,
            interval: Span::ms(40),
            app_limited: true,
        });
        bbr.take_min_rtt(&mut w, &Ack::at(Time::ZERO + Span::s(1)), &delivery);
        (after_nothing, bbr.idle_restart)
    };
    assert_eq!(
        [Kernel::published(4, 16), Kernel::published(4, 17)].map(restarting),
        [(false, false), (true, false)]
    );
}

/// Two intervals of 16 rounds in which a third of the packets is lost. Afterwards the flow uses the
/// policed rate: its gain is 1 since 4.16, and that of its phase before.
#[test]
fn a_policed_rate_has_gain_1_since_4_16() {
    let gain = |kernel| {
        let (mut bbr, _) = bbr(kernel);
        bbr.mode = Mode::ProbeBw;
        let mut totals = Totals::default();
        // Until the policed rate is known.
        for round in 1.. {
            if bbr.policer.is_used() {
                break;
            }
            assert!(round < 100);
            totals.delivered = round * 30;
            totals.lost = round * 15;
            totals.delivered_at = Time::ZERO + Span::ms(40 + 40 * round);
            bbr.bandwidth.rounds.start = true;
            bbr.take_policer(1, false, &totals);
        }
        bbr.cycle.gain = 320;
        bbr.cycle_gain()
    };
    assert_eq!(
        [Kernel::published(4, 15), Kernel::published(4, 16)].map(gain),
        [320, 256]
    );
}

/// The minimum RTT expires, and the next sample is that of an ACK which the receiver may have
/// delayed.
#[test]
fn a_delayed_ack_replaced_the_minimum_rtt_before_4_16() {
    let least = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        let delivery = Delivery {
            rtt: Some(Span::ms(80)),
            maybe_delayed: true,
            ..Delivery::default()
        };
        bbr.take_min_rtt(&mut w, &Ack::at(Time::ZERO + Span::s(12)), &delivery);
        bbr.min_rtt.us()
    };
    assert_eq!(
        [Kernel::published(4, 15), Kernel::published(4, 16)].map(least),
        [Some(80_000), Some(40_000)]
    );
}

#[test]
fn the_end_of_startup_sets_the_threshold_since_4_17() {
    let threshold = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        let before = w.ssthresh;
        bbr.full_pipe = true;
        bbr.judge_drain(&mut w, &Ack::at(Time::ZERO), &Delivery::default());
        w.ssthresh != before
    };
    assert_eq!(
        [Kernel::published(4, 16), Kernel::published(4, 17)].map(threshold),
        [false, true]
    );
}

/// ProbeRTT is over when the application writes again after a pause.
#[test]
fn a_restart_ends_probe_rtt_since_4_19() {
    let mode = |kernel| {
        let (mut bbr, mut w) = bbr(kernel);
        bbr.full_pipe = true;
        bbr.mode = Mode::ProbeRtt;
        let mut ack = Ack::at(Time::ZERO + Span::s(1));
        ack.in_flight = 4;
        bbr.take_min_rtt(&mut w, &ack, &Delivery::default());
        let mut sent = Sent::at(Time::ZERO + Span::s(2));
        sent.app_limited = true;
        bbr.on_sent(&mut w, &sent);
        bbr.mode
    };
    assert_eq!(
        [Kernel::published(4, 18), Kernel::published(4, 19)].map(mode),
        [Mode::ProbeRtt, Mode::ProbeBw]
    );
}

/// 50 packets are in flight, and the next one leaves in 10 ms. At 1000 packets per second, the path
/// delivers 10 until then.
#[test]
fn packets_in_flight_were_those_of_now_before_4_20() {
    let in_flight = |kernel| {
        let (mut bbr, _) = bbr(kernel);
        let sample = RateSample {
            prior_delivered: 0,
            delivered: 40,
            interval: Span::ms(40),
            app_limited: false,
        };
        let delivery = Delivery {
            sample: Some(sample),
            ..Delivery::default()
        };
        bbr.take_bandwidth(&Ack::at(Time::ZERO), &delivery);
        bbr.pacing_gain = 256;
        bbr.in_flight_at_departure(50, Time::ZERO, Time::ZERO + Span::ms(10))
    };
    let [before, since] = [Kernel::published(4, 19), Kernel::published(4, 20)].map(in_flight);
    assert_eq!(before, 50);
    assert!((40..=41).contains(&since), "{since}");
}

#[test]
fn aggregated_acks_enlarge_the_window_since_5_1() {
    let room = |kernel| {
        let (mut bbr, w) = bbr(kernel);
        bbr.full_pipe = true;
        let mut delivery = Delivery {
            sample: Some(RateSample {
                prior_delivered: 0,
                delivered: 40,
                interval: Span::ms(40),
                app_limited: false,
            }),
            ..Delivery::default()
        };
        bbr.take_bandwidth(&Ack::at(Time::ZERO), &delivery);
        bbr.aggregation.epoch.restart(Time::ZERO);
        let mut ack = Ack::at(Time::ZERO);
        ack.delivered = 8;
        delivery.totals.delivered_at = Time::ZERO;
        bbr.take_aggregation(&w, &ack, &delivery);
        bbr.aggregation_room() > 0
    };
    assert_eq!(
        [Kernel::published(5, 0), Kernel::published(5, 1)].map(room),
        [false, true]
    );
}
