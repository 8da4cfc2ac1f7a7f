//! PIE and FQ-PIE compared with Linux 6.12, packet by packet: the recordings of `data/queue/` (see
//! `common/trace.rs`).
//!
//! Only the random numbers are taken from the recording. Everything else must follow: every
//! verdict, every departure, and (`*.state`) the probability, the delay and the departure rate, to
//! the last bit. Then the random numbers are tested against the probabilities.

use crate::trace::{Event, Frame, Recording, Verdict};
use narrows_core::net::link::TokenBucket;
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::{Params, Value};
use narrows_core::queue::fq_pie::FqPie;
use narrows_core::queue::pie::{Coin, Law, Pie, Settings};
use narrows_core::queue::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, Sink};
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::sync::{Arc, Mutex};

/// A probability of 1.
const ONE: f64 = (1u64 << 56) as f64;

/// The random decisions of a recording, as far as known.
#[derive(Default)]
struct Chance {
    /// Did this packet pass unmarked?
    passed: bool,
    /// Each toss: its probability, and how it fell.
    tosses: Vec<(f64, bool)>,
}

/// A coin that falls as it fell in Linux.
struct Recorded(Arc<Mutex<Chance>>);

impl Coin for Recorded {
    fn draw(&mut self, probability: u64) -> bool {
        let mut chance = self.0.lock().unwrap();
        let fell = !chance.passed;
        chance
            .tosses
            .push(((probability as f64 / ONE).min(1.0), fell));
        fell
    }
}

/// The state after an update: time, the probability in units of 2^-64, the delay.
type State = (Time, u64, u64, u64);

/// A discipline whose coin gets each packet's result, and whose state is observed.
struct Watched<Q> {
    queue: Q,
    verdicts: std::vec::IntoIter<Verdict>,
    chance: Arc<Mutex<Chance>>,
    law: fn(&Q) -> Option<&Law>,
    states: Vec<State>,
}

impl<Q: QueueDiscipline<Frame>> QueueDiscipline<Frame> for Watched<Q> {
    fn enqueue(&mut self, now: Time, frame: Frame, sink: &mut dyn Sink<Frame>) {
        let verdict = self.verdicts.next().unwrap();
        self.chance.lock().unwrap().passed = matches!(verdict, Verdict::Pass(_));
        self.queue.enqueue(now, frame, sink);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<Frame>) -> Option<Frame> {
        self.queue.dequeue(now, sink)
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.queue.next_wakeup()
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<Frame>) {
        self.queue.on_wakeup(now, sink);
        if let Some(law) = (self.law)(&self.queue) {
            let rate = law.departure_rate().as_bit() / 8;
            self.states
                .push((now, law.word() << 8, law.delay().as_us(), rate));
        }
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// The file beside a recording: when its timer comes, and what Linux told of its state.
fn state_of(recording: &Recording) -> (Time, Vec<State>) {
    let file = recording.name.replace(".txt", ".state");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/queue");
    let text =
        std::fs::read_to_string(folder.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let ms = |word: &str| Time::ZERO + Span::ms(word.parse().unwrap());
    let (mut first, mut states) = (Time::ZERO, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "update_ms" {
            first = ms(words[2]);
        } else {
            let [word, delay, rate] = [1, 2, 3].map(|n| words[n].parse().unwrap());
            states.push((ms(words[0]), word, delay, rate));
        }
    }
    (first, states)
}

/// Replays a recording with its coins; returns them and the states.
fn follow<Q: QueueDiscipline<Frame>>(
    recording: &Recording,
    make: impl Fn(&QueueContext, Time, Recorded) -> Q,
    law: fn(&Q) -> Option<&Law>,
) -> (Vec<(f64, bool)>, Vec<State>) {
    let context = QueueContext {
        limit: None,
        rate: recording.scenario.path.hops[0].rate,
        hz: 1000,
        seed: 0,
    };
    let (first, _) = state_of(recording);
    let chance = Arc::new(Mutex::new(Chance::default()));
    let mut watched = Watched {
        queue: make(&context, first, Recorded(chance.clone())),
        verdicts: recording.verdicts.clone().into_iter(),
        chance: chance.clone(),
        law,
        states: Vec::new(),
    };
    let agreement = recording.compare(&recording.play(&mut watched));
    println!("{}: {agreement:?}", recording.name);
    assert_eq!(
        agreement.times, agreement.packets,
        "{}: {:?}",
        recording.name, agreement.first
    );

    let tosses = std::mem::take(&mut chance.lock().unwrap().tosses);
    (tosses, watched.states)
}

/// Coins of the probabilities `tosses` fell as often as they should, all together and where they
/// were alike.
fn are_fair(tosses: &[(f64, bool)]) {
    for (least, most) in [(0.0, 1.0), (0.0, 0.02), (0.02, 0.1), (0.1, 0.3), (0.3, 1.0)] {
        let alike = tosses.iter().filter(|(p, _)| (least..most).contains(p));
        let (mut n, mut fell, mut expected, mut variance) = (0, 0, 0.0, 0.0);
        for (p, one) in alike {
            n += 1;
            fell += u32::from(*one);
            expected += p;
            variance += p * (1.0 - p);
        }
        let deviations = (f64::from(fell) - expected) / f64::sqrt(variance.max(1e-9));
        println!(
            "{least} to {most}: {n} tosses, {fell} fell, {expected:.1} expected, {deviations:.2} \
             deviations"
        );
        assert!(
            n == 0 || deviations.abs() < 3.3,
            "{least} to {most}: {deviations}"
        );
    }
    assert!(tosses.iter().all(|(p, fell)| *fell || *p < 1.0));
}

#[test]
fn pie_equals_linux_given_the_same_draws() {
    let (mut all, mut compared) = (Vec::new(), 0);
    for recording in Recording::of(&["pie"]) {
        let params = &recording.scenario.path.hops[0].queue.params;
        let (tosses, ours) = follow(
            &recording,
            |context, first, coin| Pie::following(params, context, first, coin),
            |pie| Some(pie.law()),
        );
        all.extend(tosses);
        // The recording has a line where the probability changed.
        let end = ours.last().unwrap().0;
        let mut ours = ours.into_iter();
        let mut last = 0;
        for linux in state_of(&recording)
            .1
            .into_iter()
            .filter(|state| state.0 <= end)
        {
            let state = ours.find(|state| {
                let stands = state.0 < linux.0;
                assert!(
                    !stands || state.1 == last,
                    "{}: {state:?} before {linux:?}",
                    recording.name
                );
                !stands
            });
            assert_eq!(state, Some(linux), "{}", recording.name);
            last = linux.1;
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
    are_fair(&all);
}

#[test]
fn fq_pie_equals_linux_given_the_same_draws() {
    let mut all = Vec::new();
    for recording in Recording::of(&["fq_pie"]) {
        let params = &recording.scenario.path.hops[0].queue.params;
        let make =
            |context: &QueueContext, first, coin| FqPie::following(params, context, first, coin);
        all.extend(follow(&recording, make, |_| None).0);
    }
    are_fair(&all);
}

#[derive(Default)]
struct Drops(u32);

impl Sink<Frame> for Drops {
    fn dropped(&mut self, _now: Time, _frame: Frame, _why: DropReason) {
        self.0 += 1;
    }
}

/// How much is dropped of the recording's arrivals below its link, which then serves as it comes
/// and not as recorded.
fn drops(recording: &Recording, seed: u64) -> f64 {
    let mut queue = recording.discipline(seed);
    let mut link = TokenBucket::owing(recording.scenario.path.hops[0].rate, Bytes::new(3080));
    let mut drops = Drops::default();
    let mut free = Time::MAX;
    for event in &recording.events {
        let Event::Arrival(now, frame) = *event else {
            continue;
        };
        loop {
            let wakeup = queue.next_wakeup().unwrap();
            if wakeup.min(free) > now {
                break;
            }
            if wakeup <= free {
                queue.on_wakeup(wakeup, &mut drops);
            } else {
                free = serve(&mut *queue, &mut link, free, &mut drops);
            }
        }
        queue.enqueue(now, frame, &mut drops);
        if free == Time::MAX {
            free = serve(&mut *queue, &mut link, now, &mut drops);
        }
    }
    f64::from(drops.0)
}

/// Dequeues as much as the link takes now; returns when it can take more.
fn serve(
    queue: &mut dyn QueueDiscipline<Frame>,
    link: &mut TokenBucket,
    now: Time,
    drops: &mut Drops,
) -> Time {
    loop {
        if let Err(later) = link.take(now, Bytes::ZERO) {
            return later;
        }
        let Some(frame) = queue.dequeue(now, drops) else {
            return Time::MAX;
        };
        link.take(now, frame.size()).unwrap();
    }
}

/// With coins of our own the course is another, but not how much is dropped.
#[test]
fn the_drop_rate_does_not_depend_on_the_seed() {
    for recording in Recording::of(&["pie", "fq_pie"]) {
        let linux = recording
            .verdicts
            .iter()
            .filter(|v| **v == Verdict::Drop)
            .count() as f64;
        let ours: Vec<f64> = (1..=20).map(|seed| drops(&recording, seed)).collect();
        let mean = ours.iter().sum::<f64>() / 20.0;
        let deviation = (ours.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 19.0).sqrt();
        println!(
            "{}: {linux} dropped, ours {mean:.1} ± {deviation:.1}",
            recording.name
        );
        assert!(
            (linux - mean).abs() < 3.0 * deviation + 1.0,
            "{}: {linux}, {mean} ± {deviation}",
            recording.name
        );
    }
}

/// Recorded from `tc -s qdisc`, each 2 ms: PIE's probability moved first 504 ms after `tc qdisc
/// add`, then 16 ms later.
#[test]
fn the_first_update_is_half_a_second_after_the_queue_was_made() {
    let registry = Registry::<Frame>::standard();
    for name in ["pie", "fq_pie"] {
        let kind = registry.queue(name).unwrap();
        for seed in 1..=100 {
            let context = QueueContext {
                limit: None,
                rate: Rate::mbit(20),
                hz: 1000,
                seed,
            };
            let first = (kind.make)(&Params::defaults(kind.params), &context)
                .next_wakeup()
                .unwrap();
            let made_within = Span::ms(504 - 16)..=Span::ms(504);
            assert!(
                made_within.contains(&first.since(Time::ZERO)),
                "{name}, seed {seed}: {first:?}"
            );
        }
    }
}

/// A coin that never falls, and counts how often it is tossed.
struct Never(Arc<Mutex<u32>>);

impl Coin for Never {
    fn draw(&mut self, _probability: u64) -> bool {
        *self.0.lock().unwrap() += 1;
        false
    }
}

/// At p between 1/2 and 0.85 the coin is tossed for the second packet of two, unless the limit
/// dropped one between them.
#[test]
fn a_drop_by_the_limit_clears_the_sum() {
    let context = QueueContext {
        limit: Some(Limit::Packets(3)),
        rate: Rate::mbit(20),
        hz: 1000,
        seed: 1,
    };
    for (fair, full) in [(false, false), (false, true), (true, false), (true, true)] {
        let registry = Registry::<Frame>::standard();
        let params = Params::defaults(
            registry
                .queue(if fair { "fq_pie" } else { "pie" })
                .unwrap()
                .params,
        );
        let tosses = Arc::new(Mutex::new(0));
        let (first, coin) = (Time::ZERO + Span::ms(16), Never(tosses.clone()));
        let mut queue: Box<dyn QueueDiscipline<Frame>> = if fair {
            Box::new(FqPie::following(&params, &context, first, coin))
        } else {
            Box::new(Pie::following(&params, &context, first, coin))
        };
        let mut drops = Drops::default();
        let frame = |enqueued_at| Frame {
            number: 0,
            flow: 0,
            size: 1514,
            dscp: 0,
            ecn: Ecn::NotEct,
            enqueued_at,
            ack: None,
        };
        let at = |s| Time::ZERO + Span::s(s);
        (0..3).for_each(|_| queue.enqueue(at(0), frame(at(0)), &mut drops));
        // A second of service is more than the first burst, and a delay that raises p.
        let mut law = Law::default();
        for (now, left) in [(at(1), 2), (at(2), 1)] {
            assert!(queue.dequeue(now, &mut drops).is_some());
            law.left(
                &Settings::new(&params, 0),
                now,
                at(0),
                Bytes::new(1514),
                Bytes::new(1514 * left),
            );
        }
        (0..2).for_each(|_| queue.enqueue(at(2), frame(at(2)), &mut drops));
        while law.word() < 1 << 55 {
            law.update(&Settings::new(&params, 0), Bytes::new(3 * 1514));
            queue.on_wakeup(queue.next_wakeup().unwrap(), &mut drops);
        }
        assert!((law.word() as f64) < 0.85 * ONE);

        assert!(queue.dequeue(at(2), &mut drops).is_some());
        queue.enqueue(at(2), frame(at(2)), &mut drops);
        if full {
            queue.enqueue(at(2), frame(at(2)), &mut drops);
        }
        assert!(queue.dequeue(at(2), &mut drops).is_some());
        queue.enqueue(at(2), frame(at(2)), &mut drops);
        let tossed = *tosses.lock().unwrap();
        assert_eq!(
            (drops.0, tossed),
            (u32::from(full), u32::from(!full)),
            "fair {fair}"
        );
    }
}

/// Counts bytes and packets that are dropped.
#[derive(Default)]
struct Gone(Backlog);

impl Sink<Frame> for Gone {
    fn dropped(&mut self, _now: Time, frame: Frame, _why: DropReason) {
        self.0.add(frame.size());
    }
    fn marked(&mut self, _now: Time, frame: &Frame, _why: DropReason) {
        assert_eq!(frame.ecn, Ecn::Ce);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A flow that is alone meets PIE's law, however often its queue empties between: that it is
    /// passed over then changes nothing.
    #[test]
    fn a_single_flow_has_the_drops_of_pie(
        steps in prop::collection::vec((0u32..30, 0u32..60, 0u32..60, 0u64..2_000_000), 1..300),
    ) {
        let registry = Registry::<Frame>::standard();
        let context = QueueContext {
            limit: Some(Limit::Packets(10_000)), rate: Rate::mbit(20), hz: 1000, seed: 1,
        };
        let params = |name| Params::defaults(registry.queue(name).unwrap().params);
        let first = Time::ZERO + Span::ms(16);
        let mut pie = Pie::following(&params("pie"), &context, first, Rng::named(1, "coin"));
        let mut fair = FqPie::following(&params("fq_pie"), &context, first, Rng::named(1, "coin"));
        let (mut now, mut drops) = (Time::ZERO, [Drops::default(), Drops::default()]);
        for (ms, arrive, leave, gap) in steps {
            now += Span::ms(u64::from(ms));
            while pie.next_wakeup().is_some_and(|at| at <= now) {
                let at = pie.next_wakeup().unwrap();
                pie.on_wakeup(at, &mut drops[0]);
                fair.on_wakeup(at, &mut drops[1]);
            }
            for number in 0..arrive {
                let frame = Frame { number, flow: 0, size: 1514, dscp: 0, ecn: Ecn::NotEct,
                    enqueued_at: now, ack: None };
                pie.enqueue(now, frame, &mut drops[0]);
                fair.enqueue(now, frame, &mut drops[1]);
            }
            for _ in 0..leave {
                now += Span::ns(gap);
                let left = [pie.dequeue(now, &mut drops[0]), fair.dequeue(now, &mut drops[1])];
                assert_eq!(left[0].is_some(), left[1].is_some());
            }
            assert_eq!(drops[0].0, drops[1].0);
        }
    }

    /// Any parameters at any tick, from idleness of days to a terabit: nothing is lost or made, and
    /// nothing overflows.
    #[test]
    fn no_parameters_break_them(
        fair in any::<bool>(),
        (alpha, beta) in (0u64..=32, 0u64..=32),
        (target, tupdate) in (1u64..1_000_000_000, 1u64..1_000_000_000),
        (ecn, bytemode, by_rate) in (any::<bool>(), any::<bool>(), any::<bool>()),
        hz in prop_oneof![Just(100u32), Just(250), Just(1000)],
        steps in prop::collection::vec((0u32..47, 0u32..60, 0u32..60, 64u16..), 1..200),
    ) {
        let registry = Registry::<Frame>::standard();
        let kind = registry.queue(if fair { "fq_pie" } else { "pie" }).unwrap();
        let mut params = Params::defaults(kind.params);
        params.set("alpha", Value::Count(alpha));
        params.set("beta", Value::Count(beta));
        params.set("target", Value::Span(Span::us(target)));
        params.set("tupdate", Value::Span(Span::us(tupdate)));
        params.set("ecn", Value::Bool(ecn));
        params.set("bytemode", Value::Bool(bytemode));
        params.set("dq_rate_estimator", Value::Bool(by_rate));
        let context = QueueContext { limit: None, rate: Rate::mbit(20), hz, seed: 1 };
        let mut queue = (kind.make)(&params, &context);
        let (mut now, mut came, mut gone) = (Time::from_ns(1), Backlog::default(), Gone::default());
        for (log_gap, arrive, leave, size) in steps {
            now += Span::ns(1 << log_gap);
            // A driver that was late for days wakes it once.
            if queue.next_wakeup().is_some_and(|at| at <= now) {
                queue.on_wakeup(now, &mut gone);
                assert!(queue.next_wakeup() > Some(now));
            }
            for number in 0..arrive {
                let ecn = if number % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
                let flow = number % 3 * 300;
                let frame = Frame { number, flow, size, dscp: 0, ecn, enqueued_at: now, ack: None };
                came.add(frame.size());
                queue.enqueue(now, frame, &mut gone);
            }
            for _ in 0..leave {
                now += Span::ns(u64::from(size));
                if let Some(frame) = queue.dequeue(now, &mut gone) {
                    gone.0.add(frame.size());
                }
            }
            assert_eq!(queue.backlog().packets + gone.0.packets, came.packets);
            assert_eq!(queue.backlog().bytes + gone.0.bytes, came.bytes);
        }
    }
}
