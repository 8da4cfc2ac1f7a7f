//! Tests of BBR's rules that depend on the kernel release: each rule is compared with the behaviour
//! before the release that introduced it.

use super::bandwidth::Bw;
use super::{Bbr, Mode, PARAMS};
use crate::cc::{Ack, CongestionControl, Delivery, Host, RateSample, Sent, Start, Window};
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
        bbr.pipe.full = true;
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
fn two_packets_more_are_asked_for() {
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
