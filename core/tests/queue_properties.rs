//! Properties of every registered queue discipline, with any arrivals and departures. No packet is
//! lost or created, packets of a flow keep their order, backlogs are correct, limits hold. The same
//! events give the same results.

use crate::trace::{Frame, Verdict};
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::Params;
use narrows_core::queue::{self, Backlog, DropReason, Limit, QueueContext, QueueKind, Sink};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Their limit is each class's or band's, as in Linux.
const LIMITED_BY_CLASS: &[&str] = &["drr", "fq", "pfifo_fast"];

/// Their flows change queues: what a flow sent before it was heavy may still wait when later
/// packets of it leave.
const OVERTAKEN: &[&str] = &["hhf"];

/// The next event, after a number of µs.
#[derive(Clone, Debug)]
enum Step {
    /// Packets of one flow arrive: flow, size, how many.
    Arrive(u32, u16, u32),
    /// Dequeues of this many packets.
    Leave(u32),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let gap = prop_oneof![6 => 0u64..300, 3 => 300u64..20_000, 1 => 20_000u64..3_000_000];
    let size = prop_oneof![3 => Just(1514u16), 2 => 64u16..1514, 1 => Just(u16::MAX)];
    let step = prop_oneof![
        (0u32..8, size, 1u32..40).prop_map(|(flow, size, n)| Step::Arrive(flow * 100, size, n)),
        (1u32..40).prop_map(Step::Leave),
    ];
    prop::collection::vec((gap, step), 1..200)
}

fn limits() -> impl Strategy<Value = Option<Limit>> {
    prop_oneof![
        Just(None),
        (1u64..100).prop_map(|n| Some(Limit::Packets(n))),
        (1u64..200_000).prop_map(|n| Some(Limit::Bytes(Bytes::new(n)))),
    ]
}

/// Of the link below: 1 kbit/s to 1 Tbit/s.
fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(1_000),
        Just(20_000_000),
        1_000u64..1_000_000_000_000,
        Just(1_000_000_000_000),
    ]
    .prop_map(Rate::bit)
}

#[derive(Default, Debug, PartialEq)]
struct Seen {
    /// By number; `Waits` until something happens.
    verdicts: Vec<Verdict>,
    arrived: Backlog,
    gone: Backlog,
    marks: u64,
}

impl Seen {
    fn leaves(&mut self, frame: &Frame, verdict: Verdict) {
        let before = std::mem::replace(&mut self.verdicts[frame.number as usize], verdict);
        assert_eq!(before, Verdict::Waits, "{frame:?} left twice");
        self.gone.add(frame.size());
    }
    fn waiting(&self) -> Backlog {
        Backlog {
            bytes: self.arrived.bytes - self.gone.bytes,
            packets: self.arrived.packets - self.gone.packets,
        }
    }
}

impl Sink<Frame> for Seen {
    fn dropped(&mut self, _: Time, frame: Frame, _: DropReason) {
        self.leaves(&frame, Verdict::Drop);
    }
    fn marked(&mut self, _: Time, frame: &Frame, _: DropReason) {
        assert_eq!(frame.ecn, Ecn::Ce);
        self.marks += 1;
    }
}

/// Flows 0, 300 and 600 are not ECN-capable, 100, 400, 700 are ECT(0), the others ECT(1).
fn ecn_of(flow: u32) -> Ecn {
    [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][(flow / 100 % 3) as usize]
}

fn play(kind: &QueueKind<Frame>, limit: Option<Limit>, rate: Rate, steps: &[(u64, Step)]) -> Seen {
    let context = QueueContext {
        limit,
        rate,
        hz: 1000,
        seed: 1,
    };
    let mut queue = (kind.make)(&Params::defaults(kind.params), &context);
    let mut seen = Seen::default();
    let mut now = Time::from_ns(1);
    let mut last = vec![None; 1000];
    let mut leave = |queue: &mut dyn queue::QueueDiscipline<Frame>, now, seen: &mut Seen| {
        let left = queue.dequeue(now, seen);
        if let Some(frame) = left {
            let verdict = if frame.ecn == ecn_of(frame.flow) {
                Verdict::Pass(now)
            } else {
                assert_ne!(
                    ecn_of(frame.flow),
                    Ecn::NotEct,
                    "{}: marked {frame:?}",
                    kind.name
                );
                Verdict::Mark(now)
            };
            seen.leaves(&frame, verdict);
            let before = last[frame.flow as usize].replace(frame.number);
            assert!(
                before < Some(frame.number) || OVERTAKEN.contains(&kind.name),
                "{}: {frame:?} overtakes {before:?}",
                kind.name
            );
        }
        assert_eq!(queue.backlog(), seen.waiting(), "{}", kind.name);
        left.is_some()
    };
    let wake = |queue: &mut dyn queue::QueueDiscipline<Frame>, now, seen: &mut Seen| {
        while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
            queue.on_wakeup(at, seen);
            assert!(
                queue.next_wakeup().is_none_or(|next| next > at),
                "{} wakes at {at:?} again",
                kind.name
            );
        }
    };
    for (gap, step) in steps {
        now += Span::us(*gap);
        wake(&mut *queue, now, &mut seen);
        match *step {
            Step::Arrive(flow, size, n) => (0..n).for_each(|_| {
                let frame = Frame {
                    number: seen.verdicts.len() as u32,
                    flow,
                    size,
                    dscp: 0,
                    ecn: ecn_of(flow),
                    enqueued_at: now,
                    ack: None,
                };
                seen.verdicts.push(Verdict::Waits);
                seen.arrived.add(frame.size());
                queue.enqueue(now, frame, &mut seen);
                assert_eq!(queue.backlog(), seen.waiting(), "{}", kind.name);
                if let Some(limit) = limit.filter(|_| !LIMITED_BY_CLASS.contains(&kind.name)) {
                    assert!(
                        !limit.exceeded(queue.backlog()),
                        "{}: {:?}",
                        kind.name,
                        queue.backlog()
                    );
                }
            }),
            Step::Leave(n) => {
                for _ in 0..n {
                    now += Span::us(40);
                    leave(&mut *queue, now, &mut seen);
                }
            }
        }
    }
    // Everything comes out in the end, if it is waited for.
    let mut patience = 100_000;
    while queue.backlog().packets > 0 {
        now += Span::ms(1);
        wake(&mut *queue, now, &mut seen);
        while leave(&mut *queue, now, &mut seen) {}
        patience -= 1;
        assert!(patience > 0, "{} keeps {:?}", kind.name, queue.backlog());
    }
    assert_eq!(queue.backlog(), Backlog::default(), "{}", kind.name);
    seen
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn packets_are_conserved_and_in_order(steps in steps(), limit in limits(), rate in rates()) {
        for kind in queue::kinds::<Frame>() {
            if (kind.check)(&Params::defaults(kind.params)).is_ok() {
                let seen = play(&kind, limit, rate, &steps);
                prop_assert_eq!(&seen, &play(&kind, limit, rate, &steps), "{} twice", kind.name);
            }
        }
    }
}
