//! With any arrivals, the medium neither loses nor creates frames and keeps their order. The same
//! seed gives the same result.

use crate::medium::{Frame, Seen, medium};
use narrows_core::net::wifi::airtime::AQL_LIMITS;
use narrows_core::net::wifi::ampdu::Limits;
use narrows_core::net::wifi::phy::{Band, Phy, Standard, Width};
use narrows_core::net::wifi::{LEVELS, Peer, STACKS, Stack, Usage};
use narrows_core::net::{NEAR, Network, Port};
use narrows_core::queue::Backlog;
use narrows_core::units::{Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

/// Frames of one flow, so many µs after the step before.
#[derive(Clone, Debug)]
struct Burst {
    gap: u64,
    station: usize,
    up: bool,
    size: u64,
    frames: u64,
    flow: u64,
    dscp: u8,
    ecn: bool,
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let gap = prop_oneof![5 => 0u64..400, 3 => 400u64..20_000, 1 => 20_000u64..500_000];
    let size =
        prop_oneof![2 => Just(1514u64), 1 => 60u64..1514, 1 => Just(66u64), 1 => Just(65_535u64)];
    let dscp = prop_oneof![4 => Just(0u8), 1 => Just(8u8), 1 => Just(34u8), 1 => Just(48u8)];
    let one = (
        gap,
        0usize..5,
        any::<bool>(),
        size,
        1u64..60,
        0u64..4,
        dscp,
        any::<bool>(),
    );
    let burst = one.prop_map(|(gap, station, up, size, frames, flow, dscp, ecn)| Burst {
        gap,
        station,
        up,
        size,
        frames,
        flow,
        dscp,
        ecn,
    });
    prop::collection::vec(burst, 1..80)
}

fn stations(error: f64) -> Vec<Peer> {
    let n = |mcs, streams| Phy::new(Standard::N, Band::Ghz5, Width::W20, mcs, streams, true);
    let ac = Phy::new(Standard::Ac, Band::Ghz5, Width::W80, 9, 2, false);
    let legacy = Phy::legacy(Rate::mbit(6), Band::Ghz5);
    let phys = [n(7, 2), n(0, 1), ac, legacy, n(3, 1)];
    let peer = |(i, phy): (usize, &Option<Phy>)| Peer {
        phy: phy.expect("a rate of the standard"),
        link: None,
        error: if i % 2 == 0 { error } else { 0.0 },
        weight: 256,
        aql: AQL_LIMITS,
        codel: None,
        forward: Span::us(i as u64 % 3 * 500),
        reverse: Span::us(i as u64 % 2 * 700),
    };
    phys.iter().enumerate().map(peer).collect()
}

/// Everything that came out until nothing was left inside, and what each station has had.
fn run(stack: Stack, bursts: &[Burst], error: f64, seed: u64) -> (Seen, Vec<Usage>, Time) {
    let mut wifi = medium(stack, 123, Limits::default(), stations(error), seed);
    let (mut seen, mut now, mut number, mut pushed) = (Seen::default(), Time::ZERO, 0, 0);
    for burst in bursts {
        let until = now + Span::us(burst.gap);
        while let Some(at) = wifi.next_wakeup().filter(|at| *at <= until) {
            assert!(at >= now, "time goes back");
            wifi.poll(at, &mut seen);
            now = at;
        }
        now = until;
        for _ in 0..burst.frames {
            let frame = Frame {
                station: burst.station,
                number,
                size: burst.size,
                // Another code point is another flow: mac80211's queues may let one of two
                // categories overtake itself.
                flow: u64::from(burst.dscp) * 100 + burst.station as u64 * 10 + burst.flow,
                dscp: burst.dscp,
                ecn: burst.ecn,
                entered: Time::ZERO,
            };
            number += 1;
            pushed += 1;
            let port = if burst.up {
                burst.station as Port + 1
            } else {
                NEAR
            };
            wifi.push(now, port, frame, &mut seen);
            let out = (seen.arrived.len() + seen.dropped.len()) as u64;
            assert_eq!(wifi.in_transit() + out, pushed);
        }
    }
    while let Some(at) = wifi.next_wakeup() {
        assert!(
            at >= now && at < now + Span::s(1),
            "nothing happens for a second although something is inside"
        );
        wifi.poll(at, &mut seen);
        now = at;
    }
    assert_eq!(wifi.in_transit(), 0);
    assert_eq!((seen.arrived.len() + seen.dropped.len()) as u64, pushed);
    for level in 0..LEVELS {
        assert_eq!(wifi.backlog(level), Backlog::default());
        (0..5).for_each(|station| assert_eq!(wifi.backlog_of(level, station), Backlog::default()));
    }
    (seen, wifi.usage().to_vec(), now)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn frames_are_neither_lost_nor_made_and_flows_keep_their_order(
        bursts in bursts(), error in prop_oneof![Just(0.0), 0.0..0.6, Just(1.0)],
        seed in 0u64..1000,
    ) {
        for (_, stack) in STACKS {
            let (seen, usage, end) = run(stack, &bursts, error, seed);
            let mut last: BTreeMap<(Port, u64, u8), u64> = BTreeMap::new();
            let mut fates: Vec<u64> = seen.dropped.iter().map(|(_, _, number,
                _)| *number).collect();
            let mut before = Time::ZERO;
            for (at, port, frame) in &seen.arrived {
                prop_assert!(*at >= before);
                before = *at;
                prop_assert!(*port == NEAR || usize::from(*port) == frame.station + 1);
                let key = (*port, frame.flow, frame.dscp);
                prop_assert!(last.insert(key,
                    frame.number).is_none_or(|number| number < frame.number));
                fates.push(frame.number);
            }
            fates.sort_unstable();
            prop_assert!(fates.windows(2).all(|pair| pair[0] < pair[1]), "a frame has two fates");
            prop_assert!(usage.iter().all(|u| u.transmissions >= u.collisions));
            let used = usage.iter().fold(Span::ZERO, |sum, u| sum + u.airtime);
            prop_assert!(used <= end.since(Time::ZERO), "more airtime than time");
            let again = run(stack, &bursts, error, seed);
            prop_assert_eq!(&seen, &again.0);
            prop_assert_eq!(&usage, &again.1);
        }
    }

    #[test]
    fn an_access_point_alone_does_not_collide(bursts in bursts(), error in 0.0..0.6) {
        let down: Vec<Burst> = bursts.into_iter().map(|burst| Burst { up: false,
            ..burst }).collect();
        for (_, stack) in STACKS {
            let (_, usage, _) = run(stack, &down, error, 1);
            prop_assert!(usage.iter().all(|u| u.collisions == 0));
        }
    }
}
