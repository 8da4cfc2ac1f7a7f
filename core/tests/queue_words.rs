//! `sfb` and `hhf` with every parameter at its default or at an end of its range: no packet is lost
//! or created, backlogs are correct, limits hold. A rejected parameter has a valid value in its
//! message.

use crate::trace::Frame;
use narrows_core::packet::Ecn;
use narrows_core::param::{Kind, Param, Params, Value};
use narrows_core::queue::{self, Backlog, DropReason, Limit, QueueContext, QueueKind, Sink};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const KINDS: &[&str] = &["sfb", "hhf"];

fn kind_of(name: &str) -> QueueKind<Frame> {
    queue::kinds::<Frame>()
        .into_iter()
        .find(|kind| kind.name == name)
        .unwrap()
}

/// The default, the least or the most.
fn value(param: &Param, end: u8) -> Value {
    let of = |least, most| match end {
        0 => param.default(),
        1 => least,
        _ => most,
    };
    match param.kind {
        Kind::Count(_, least, most) => of(Value::Count(least), Value::Count(most)),
        Kind::Span(_, least, most) => of(Value::Span(least), Value::Span(most)),
        Kind::Bytes(_, least, most) => of(Value::Bytes(least), Value::Bytes(most)),
        Kind::Packets(_, least, most) => of(Value::Packets(least), Value::Packets(most)),
        Kind::Probability(_) => of(Value::Number(0.0), Value::Number(1.0)),
        _ => param.default(),
    }
}

#[derive(Default)]
struct Gone(Backlog);

impl Sink<Frame> for Gone {
    fn dropped(&mut self, _now: Time, frame: Frame, _why: DropReason) {
        self.0.add(Bytes::new(u64::from(frame.size)));
    }
}

fn limits() -> impl Strategy<Value = Option<Limit>> {
    prop_oneof![
        Just(None),
        (1u64..300).prop_map(|n| Some(Limit::Packets(n))),
        (1u64..400_000).prop_map(|n| Some(Limit::Bytes(Bytes::new(n)))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn packets_are_conserved_at_the_bounds_of_all_parameters(
        at in 0..KINDS.len(),
        ends in prop::collection::vec(0u8..3, 9),
        limit in limits(),
        hz in prop_oneof![Just(100u32), Just(250), Just(1000)],
        steps in prop::collection::vec((0u64..3_000, 0u32..9, 40u16.., any::<bool>()), 1..1500),
    ) {
        let kind = kind_of(KINDS[at]);
        let mut params = Params::defaults(kind.params);
        for (param, end) in kind.params.iter().zip(&ends) {
            params.set(param.name, value(param, *end));
        }
        prop_assume!((kind.check)(&params).is_ok());
        let context = QueueContext { limit, rate: Rate::mbit(20), hz, seed: 1 };
        let mut queue = (kind.make)(&params, &context);
        let (mut gone, mut came, mut now) = (Gone::default(), Backlog::default(), Time::ZERO);
        for (number, (gap, flow, size, leaves)) in (0..).zip(steps) {
            now += Span::us(gap);
            if leaves {
                let waited = queue.backlog().packets;
                let left = queue.dequeue(now, &mut gone);
                prop_assert_eq!(left.is_some(), waited > 0);
                left.into_iter().for_each(|frame| gone.0.add(Bytes::new(u64::from(frame.size))));
            } else {
                let ecn = [Ecn::Ect0, Ecn::NotEct, Ecn::Ce][flow as usize % 3];
                came.add(Bytes::new(u64::from(size)));
                queue.enqueue(now, Frame { number, flow: flow * 100, size, dscp: 0, ecn,
                enqueued_at: now, ack: None }, &mut gone);
            }
            prop_assert_eq!(queue.backlog().packets + gone.0.packets, came.packets);
            prop_assert_eq!(queue.backlog().bytes + gone.0.bytes, came.bytes);
            prop_assert!(limit.is_none_or(|limit| !limit.exceeded(queue.backlog())));
        }
    }
}

#[test]
fn a_turn_that_is_too_long_is_refused_with_one_that_is_not() {
    let kind = kind_of("hhf");
    let mut params = Params::defaults(kind.params);
    params.set("quantum", Value::Bytes(Bytes::new(1 << 20)));
    params.set("non_hh_weight", Value::Count(1 << 20));
    let refusal = (kind.check)(&params).unwrap_err();
    assert_eq!(
        (refusal.param, refusal.fix.as_str()),
        ("non_hh_weight", "2047")
    );
    params.set("non_hh_weight", Value::Count(refusal.fix.parse().unwrap()));
    assert!((kind.check)(&params).is_ok());
}

#[test]
fn by_default_no_flow_below_25_mbit_is_heavy() {
    let kind = kind_of("hhf");
    for (mbit, heavy) in [(20, 0), (30, 1)] {
        let context = QueueContext {
            limit: None,
            rate: Rate::mbit(20),
            hz: 1000,
            seed: 1,
        };
        let mut queue = (kind.make)(&Params::defaults(kind.params), &context);
        assert_eq!(queue.classes(), ["heavy", "light"]);
        for number in 0..1000 {
            let frame = Frame {
                number,
                flow: 1,
                size: 1500,
                dscp: 0,
                ecn: Ecn::NotEct,
                enqueued_at: Time::ZERO,
                ack: None,
            };
            let now = Time::ZERO + Span::us(12_000 * u64::from(number) / mbit);
            queue.enqueue(now, frame, &mut Gone::default());
        }
        assert_eq!(u64::from(queue.backlog_of(0).packets > 0), heavy, "{mbit}");
    }
}

/// Parameters without an effect are rejected by name, with a correction.
#[test]
fn cake_rejects_options_that_a_path_does_not_support() {
    let kind = kind_of("cake");
    let mut params = Params::defaults(kind.params);
    assert!((kind.check)(&params).is_ok());
    params.set("fwmark", Value::Count(0xff));
    let refusal = (kind.check)(&params).unwrap_err();
    assert_eq!((refusal.param, refusal.fix.as_str()), ("fwmark", "0"));
}

/// Packets of one flow that find room at once, of a hundred.
fn taken(kind: &str, set: &[(&'static str, Value)]) -> u64 {
    let kind = kind_of(kind);
    let mut params = Params::defaults(kind.params);
    set.iter().for_each(|(name, value)| {
        params.set(name, value.clone());
    });
    let context = QueueContext {
        limit: None,
        rate: Rate::mbit(20),
        hz: 1000,
        seed: 1,
    };
    let mut queue = (kind.make)(&params, &context);
    let mut gone = Gone::default();
    for number in 0..100 {
        let frame = Frame {
            number,
            flow: 7,
            size: 1514,
            dscp: 0,
            ecn: Ecn::NotEct,
            enqueued_at: Time::ZERO,
            ack: None,
        };
        queue.enqueue(Time::ZERO, frame, &mut gone);
    }
    queue.backlog().packets
}

/// As tc has it: of `max` and `target` the one that is not given follows from the other.
#[test]
fn sfb_has_a_quarter_more_than_its_target_and_four_fifths_of_its_max() {
    assert_eq!(taken("sfb", &[]), 25);
    assert_eq!(taken("sfb", &[("target", Value::Packets(40))]), 50);
    assert_eq!(taken("sfb", &[("max", Value::Packets(60))]), 60);
}

/// Flows 5 and 1029 have one list of heavy flows, with room for one: it goes to the flow that is
/// heavy now.
#[test]
fn an_idle_heavy_flow_is_evicted() {
    let kind = kind_of("hhf");
    let mut params = Params::defaults(kind.params);
    params.set("hh_limit", Value::Count(1));
    let context = QueueContext {
        limit: None,
        rate: Rate::mbit(20),
        hz: 1000,
        seed: 1,
    };
    let mut queue = (kind.make)(&params, &context);
    let mut gone = Gone::default();
    for (flow, s) in [(5, 0), (1029, 10)] {
        let now = Time::ZERO + Span::s(s);
        for number in 0..200 {
            let (size, dscp, ecn, ack) = (1514, 0, Ecn::NotEct, None);
            let frame = Frame {
                number,
                flow,
                size,
                dscp,
                ecn,
                enqueued_at: now,
                ack,
            };
            queue.enqueue(now, frame, &mut gone);
        }
        assert!(queue.backlog_of(0).packets > 50, "flow {flow} is not heavy");
        while queue.dequeue(now, &mut gone).is_some() {}
    }
}
