//! `fq` where it holds packets back itself, and what must always hold.

use crate::trace::{Event, Frame, Recording, Verdict};
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::{Kind, Params, Value};
use narrows_core::queue::fq::{Fq, PARAMS};
use narrows_core::queue::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, Sink};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Counts what goes.
#[derive(Default)]
struct Count {
    dropped: u64,
    marked: u64,
}

impl Sink<Frame> for Count {
    fn dropped(&mut self, _: Time, _: Frame, _: DropReason) {
        self.dropped += 1;
    }
    fn marked(&mut self, _: Time, _: &Frame, _: DropReason) {
        self.marked += 1;
    }
}

/// Takes all that may go, as a card that is never busy.
fn serve(queue: &mut dyn QueueDiscipline<Frame>, now: Time, verdicts: &mut [Verdict]) {
    while let Some(frame) = queue.dequeue(now, &mut Count::default()) {
        verdicts[frame.number as usize] = Verdict::Pass(now);
    }
}

/// The verdicts on the recorded arrivals if only the discipline delays them.
fn run_alone(recording: &Recording, queue: &mut dyn QueueDiscipline<Frame>) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Drop; recording.verdicts.len()];
    let arrivals = recording.events.iter().filter_map(|event| match event {
        Event::Arrival(now, frame) => Some((*now, Some(*frame))),
        Event::Departure(_) => None,
    });
    for (now, frame) in arrivals.chain([(Time::MAX, None)]) {
        while let Some(at) = queue.next_wakeup().filter(|at| *at < now) {
            queue.on_wakeup(at, &mut Count::default());
            serve(queue, at, &mut verdicts);
        }
        let Some(frame) = frame else { break };
        // The interrupt that woke the recorded sender, on the same machine, looked after all
        // timers, slack or not.
        if queue.next_wakeup().is_some() {
            serve(queue, now, &mut verdicts);
        }
        queue.enqueue(now, frame, &mut Count::default());
        serve(queue, now, &mut verdicts);
    }
    verdicts
}

#[test]
fn it_paces_every_packet_as_linux() {
    let recordings = Recording::of(&["fq_alone"]);
    assert_eq!(recordings.len(), 2);
    for recording in recordings {
        let ours = run_alone(&recording, &mut *recording.discipline(1));
        let agreement = recording.compare(&ours);
        println!("{}: {agreement:?}", recording.name);
        assert_eq!(agreement.verdicts, agreement.packets, "{agreement:?}");
        // A tick may fire a timer within its slack of 10 us, too: once here.
        assert!(agreement.times + 1 >= agreement.packets, "{agreement:?}");
    }
}

/// A packet that names its departure time.
#[derive(Clone, Debug)]
struct Timed(Frame, Time);

impl Packet for Timed {
    fn size(&self) -> Bytes {
        self.0.size()
    }
    fn enqueued_at(&self) -> Time {
        self.0.enqueued_at
    }
    fn set_enqueued_at(&mut self, _: Time) {}
    fn flow_hash(&self, seed: u64) -> u32 {
        self.0.flow_hash(seed)
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
    fn departure(&self) -> Option<Time> {
        Some(self.1)
    }
}
impl Sink<Timed> for Count {
    fn dropped(&mut self, _: Time, _: Timed, _: DropReason) {
        self.dropped += 1;
    }
}

#[test]
fn departure_times_are_kept_up_to_the_horizon() {
    let mut queue = Fq::<Timed>::new(&Params::defaults(PARAMS), &context(None));
    let mut sink = Count::default();
    let at = |ms| Time::ZERO + Span::ms(ms);
    // One flow, out of order, two for the same time, and one beyond the horizon of 10 s.
    for (number, ms) in [30, 10, 20, 10, 10_001].into_iter().enumerate() {
        queue.enqueue(
            at(0),
            Timed(frame(number as u32, 1, 1514, 0, at(0)), at(ms)),
            &mut sink,
        );
    }
    assert_eq!((sink.dropped, queue.backlog().packets), (1, 4));
    let (mut now, mut left) = (at(0), Vec::new());
    while queue.backlog().packets > 0 {
        match queue.dequeue(now, &mut sink) {
            Some(packet) => left.push((packet.0.number, now)),
            None => now = queue.next_wakeup().expect("it names a time"),
        }
    }
    let slack = Span::us(10);
    let expect = [(1, 10), (3, 10), (2, 20), (0, 30)].map(|(number, ms)| (number, at(ms) + slack));
    assert_eq!(left, expect);
}

fn context(limit: Option<Limit>) -> QueueContext {
    QueueContext {
        limit,
        rate: Rate::mbit(10),
        hz: 1000,
        seed: 1,
    }
}

fn frame(number: u32, flow: u32, size: u16, dscp: u8, now: Time) -> Frame {
    Frame {
        number,
        flow,
        size,
        dscp,
        ecn: Default::default(),
        enqueued_at: now,
        ack: None,
    }
}

#[test]
fn bands_share_by_their_weights() {
    let mut queue = Fq::<Frame>::new(&Params::defaults(PARAMS), &context(None));
    let (mut sent, mut number) = ([0_u64; 3], 0);
    let mut sink = Count::default();
    // Code points of the high, the middle and the low band; all of them have packets all the time.
    for round in 0..20_000 {
        for (flow, dscp) in [12, 0, 10].into_iter().enumerate() {
            if queue.backlog_of(flow).packets < 50 {
                number += 1;
                queue.enqueue(
                    Time::ZERO,
                    frame(number, flow as u32, 1514, dscp, Time::ZERO),
                    &mut sink,
                );
            }
        }
        if round >= 200 {
            let packet = queue.dequeue(Time::ZERO, &mut sink).expect("a packet");
            assert_eq!(queue.class_served(), packet.flow as usize);
            sent[packet.flow as usize] += 1;
        }
    }
    // 9 : 3 : 1, within a round of the low band (44 packets).
    assert!(
        (sent[0] as f64 / sent[2] as f64 - 9.0).abs() < 0.5,
        "{sent:?}"
    );
    assert!(
        (sent[1] as f64 / sent[2] as f64 - 3.0).abs() < 0.2,
        "{sent:?}"
    );
    assert_eq!(sink.dropped, 0);
}

/// A value within the range of a row, from a number.
fn value(kind: &Kind, n: u64) -> Value {
    let within = |least: u64, most: u64| least + n % (most - least).saturating_add(1).max(1);
    match kind {
        Kind::Bool(_) => Value::Bool(n % 2 == 0),
        Kind::Count(_, a, b) => Value::Count(within(*a, *b)),
        Kind::Packets(_, a, b) => Value::Packets(within(*a, *b)),
        Kind::Span(_, a, b) => Value::Span(Span::ns(within(a.as_ns(), b.as_ns()))),
        Kind::Bytes(_, a, b) => Value::Bytes(Bytes::new(within(a.get(), b.get()))),
        Kind::Rate(_, a, b) => Value::Rate(Rate::bit(within(a.as_bit(), b.as_bit()))),
        kind => panic!("no such row: {kind:?}"),
    }
}

/// Random settings: a number of the row and one for the value, small or any.
fn settings() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let number = prop_oneof![0..100_u64, 0..10_000_000_u64, any::<u64>()];
    proptest::collection::vec((0..PARAMS.len(), number), 0..6)
}

/// Gaps in microseconds, flows, sizes, code points; a flow of 8 dequeues a packet instead.
fn events() -> impl Strategy<Value = Vec<(u64, u32, u16, u8)>> {
    let gap = prop_oneof![3 => Just(0), 3 => 0..3_000_u64, 1 => 0..200_000_u64];
    proptest::collection::vec((gap, 0..12_u32, 46..1515_u16, 0..64_u8), 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None,
    ..ProptestConfig::default() })]

    /// With any parameters: nothing is lost or made, bytes are counted, flows keep their order,
    /// limits hold, and what waits comes out in the end.
    #[test]
    fn every_sequence_of_events_is_handled(settings in settings(), events in events(),
        limit in proptest::option::of(1..40_u64)) {
        let mut params = Params::defaults(PARAMS);
        for (row, n) in settings {
            params.set(PARAMS[row].name, value(&PARAMS[row].kind, n));
        }
        let limit = limit.map(Limit::Packets);
        let flow_limit = params.packets("flow_limit");
        let mut queue = Fq::<Frame>::new(&params, &context(limit));
        let mut sink = Count::default();
        let (mut now, mut came, mut went) = (Time::from_ns(1_000_000_007), 0_u32, 0_u64);
        let mut waits: Vec<Frame> = Vec::new();
        let mut last = [0_u32; 12];
        let mut check = |frame: Frame, waits: &mut Vec<Frame>| {
            let at = waits.iter().position(|w| w.number == frame.number).expect("it waited");
            waits.remove(at);
            assert!(last[frame.flow as usize] < frame.number, "{frame:?}");
            last[frame.flow as usize] = frame.number;
        };
        for (gap, flow, size, dscp) in events {
            now += Span::us(gap);
            if flow >= 8 {
                if let Some(frame) = queue.dequeue(now, &mut sink) {
                    check(frame, &mut waits);
                    went += 1;
                }
            } else {
                came += 1;
                let before = sink.dropped;
                let frame = frame(came, flow, size, dscp, now);
                queue.enqueue(now, frame, &mut sink);
                if sink.dropped == before {
                    waits.push(frame);
                }
            }
            let backlog = Backlog {
                packets: waits.len() as u64,
                bytes: Bytes::new(waits.iter().map(|w| u64::from(w.size)).sum()),
            };
            prop_assert_eq!(queue.backlog(), backlog);
            prop_assert_eq!(u64::from(came), backlog.packets + went + sink.dropped);
            let classes: u64 = (0..3).map(|class| queue.backlog_of(class).packets).sum();
            prop_assert_eq!(classes, backlog.packets);
            if let Some(Limit::Packets(most)) = limit {
                // Beside what the fast path holds.
                prop_assert!((0..3).all(|class| queue.backlog_of(class).packets <= most + 8));
            }
            let of = |flow| waits.iter().filter(|w| w.flow == flow).count() as u64;
            let longest = (0..8).map(of).max();
            prop_assert!(params.count("orphan_mask") < 8 || longest <= Some(flow_limit + 8));
        }
        let mut idle = 0;
        while queue.backlog().packets > 0 {
            match queue.dequeue(now, &mut sink) {
                Some(frame) => check(frame, &mut waits),
                None => {
                    let at = queue.next_wakeup().expect("it names a time");
                    prop_assert!(at > now || idle == 0);
                    (now, idle) = (now.max(at), idle + 1);
                    queue.on_wakeup(now, &mut sink);
                }
            }
        }
    }
}
