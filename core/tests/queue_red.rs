//! RED, CHOKe and SFQ compared with Linux 6.12 (the recordings of `data/queue/`, see
//! `common/trace.rs`).
//!
//! Configurations without random decisions (RED with thresholds a byte apart, CHOKe with flows that
//! never meet) must have Linux's result for every packet. For the others, the average follows the
//! recording. Linux's passes below `min` and refusals from `max` on are not random, and its
//! refusals in between must fit the distribution. Last, the same arrivals below the same link must
//! cause as many drops and marks, over many seeds.

use crate::trace::{Event, Frame, Recording, Verdict};
use narrows_core::net::link::TokenBucket;
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::{Params, Value};
use narrows_core::queue::red::law::{Law, Vars};
use narrows_core::queue::red::words::Words;
use narrows_core::queue::{self, DropReason, Limit, QueueContext, QueueDiscipline, Sink};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::VecDeque;

const KINDS: &[&str] = &["red", "choke", "sfq"];
const BY_CHANCE: &[&str] = &[
    "choke-many.txt",
    "choke-mixed.txt",
    "red-ecn.txt",
    "red-harddrop.txt",
    "red-light.txt",
    "red-mixed.txt",
    "sfq-red_ecn.txt",
    "sfq-red_headdrop.txt",
];

fn recordings(by_chance: bool) -> Vec<Recording> {
    let mut all = Recording::of(KINDS);
    all.retain(|recording| BY_CHANCE.contains(&recording.name.as_str()) == by_chance);
    assert!(all.len() >= 8, "{}", all.len());
    all
}

#[test]
fn without_random_draws_every_packet_has_the_fate_of_linux() {
    for recording in recordings(false) {
        let agreement = recording.compare(&recording.play(&mut *recording.discipline(1)));
        assert_eq!(
            agreement.times, agreement.packets,
            "{}: {agreement:?}",
            recording.name
        );
    }
}

/// The words of a recording of RED.
fn words(recording: &Recording) -> Words {
    let hop = recording.scenario.path.bottleneck();
    let params = &hop.queue.params;
    Words::of(
        params,
        params.bytes("min").get(),
        params.bytes("max").get(),
        hop.rate,
    )
}

/// The verdict on an arrival, and the average at that time, in whole bytes.
fn averages(recording: &Recording) -> Vec<(u64, Verdict)> {
    let words = words(recording);
    let law = Law::new(&words, words.min, words.max, false);
    let (mut vars, mut waiting, mut backlog) = (Vars::default(), VecDeque::new(), 0);
    let mut met = Vec::new();
    for event in &recording.events {
        match *event {
            Event::Arrival(now, frame) => {
                vars.arrival(&law, now, backlog);
                let verdict = recording.verdicts[frame.number as usize];
                met.push((vars.average(&law), verdict));
                if verdict != Verdict::Drop {
                    backlog += frame.size().get();
                    waiting.push_back(frame.size().get());
                }
            }
            Event::Departure(now) => match waiting.pop_front() {
                Some(size) => backlog -= size,
                None => vars.idle(now),
            },
        }
    }
    met
}

#[test]
fn below_min_and_from_max_on_the_result_equals_that_of_linux() {
    for recording in Recording::of(&["red"]) {
        let words = words(&recording);
        let met = averages(&recording);
        for (at, (average, verdict)) in met.iter().enumerate() {
            let passed = match verdict {
                Verdict::Waits | Verdict::Unknown => continue,
                verdict => matches!(verdict, Verdict::Pass(_)),
            };
            if *average < words.min || *average >= words.max {
                assert_eq!(
                    passed,
                    *average < words.min,
                    "{} {at}: {average}",
                    recording.name
                );
            }
        }
        let between = met
            .iter()
            .filter(|(a, _)| (words.min..words.max).contains(a))
            .count();
        println!(
            "{}: {between} of {} between the thresholds",
            recording.name,
            met.len()
        );
    }
}

/// The share of R's range at which a packet was refused is uniform, if Linux follows the formula.
/// This applies only if the load is little more than the link's rate: an average outside of the
/// thresholds cuts the longest intervals short.
#[test]
fn between_the_thresholds_linux_draws_as_the_law_does() {
    let (mut bins, mut refused) = ([0_u32; 10], 0_u32);
    for recording in Recording::of(&["red"])
        .iter()
        .filter(|r| r.name.starts_with("red-light"))
    {
        let words = words(recording);
        let range = (words.max - words.min) as f64 / words.probability;
        let (mut count, mut low) = (None, 0);
        for (average, verdict) in averages(recording) {
            if average < words.min || average >= words.max {
                count = None;
                continue;
            }
            let (Some(before), excess) = (count, average - words.min) else {
                assert!(matches!(verdict, Verdict::Pass(_)));
                (count, low) = (Some(0), 0);
                continue;
            };
            let reached = excess * (before + 1);
            count = Some(before + 1);
            if matches!(verdict, Verdict::Pass(_)) {
                low = low.max(reached);
            } else {
                // R lies between the two, and where is spread evenly.
                refused += 1;
                let (from, to) = (low as f64 / range, (reached as f64 / range).min(1.0));
                let share = from + (to - from) * (f64::from(refused) * 0.618_033_988_75).fract();
                bins[((share * 10.0) as usize).min(9)] += 1;
                (count, low) = (Some(0), 0);
            }
        }
    }
    let expected = f64::from(bins.iter().sum::<u32>()) / 10.0;
    let square: f64 = bins
        .iter()
        .map(|n| (f64::from(*n) - expected).powi(2) / expected)
        .sum();
    println!("{bins:?}: chi-square {square:.1}");
    // 9 degrees of freedom: more than 21.7 in one of a hundred.
    assert!(expected > 30.0 && square < 21.7, "{bins:?}: {square}");
}

/// Counts passed, marked and dropped packets.
#[derive(Default)]
struct Counts {
    came: Vec<Ecn>,
    passed: u32,
    marked: u32,
    dropped: u32,
}

impl Sink<Frame> for Counts {
    fn dropped(&mut self, _now: Time, _frame: Frame, _why: DropReason) {
        self.dropped += 1;
    }
}

/// A class of htb, which does not ask an empty discipline.
struct Htb {
    bucket: TokenBucket,
    due: Option<Time>,
}

impl Htb {
    fn serve(&mut self, queue: &mut dyn QueueDiscipline<Frame>, now: Time, counts: &mut Counts) {
        self.due = None;
        while queue.backlog().packets > 0 {
            if let Err(later) = self.bucket.ready(now) {
                self.due = Some(later);
                return;
            }
            let Some(frame) = queue.dequeue(now, counts) else {
                return;
            };
            self.bucket.charge(now, frame.size());
            match frame.ecn == counts.came[frame.number as usize] {
                true => counts.passed += 1,
                false => counts.marked += 1,
            }
        }
    }
}

fn below_htb(recording: &Recording, seed: u64) -> [f64; 2] {
    let mut queue = recording.discipline(seed);
    let rate = recording.scenario.path.bottleneck().rate;
    let mut htb = Htb {
        bucket: TokenBucket::owing(rate, Bytes::new(3080)),
        due: None,
    };
    let mut counts = Counts::default();
    for event in &recording.events {
        let Event::Arrival(now, frame) = *event else {
            continue;
        };
        while let Some(at) = htb.due.filter(|at| *at <= now) {
            htb.serve(&mut *queue, at, &mut counts);
        }
        counts.came.push(frame.ecn);
        queue.enqueue(now, frame, &mut counts);
        if htb.due.is_none() {
            htb.serve(&mut *queue, now, &mut counts);
        }
    }
    while let Some(at) = htb.due {
        htb.serve(&mut *queue, at, &mut counts);
    }
    assert_eq!(
        (counts.passed + counts.marked + counts.dropped) as usize,
        recording.verdicts.len()
    );
    [f64::from(counts.dropped), f64::from(counts.marked)]
}

#[test]
fn random_drops_and_marks_are_as_frequent_as_in_linux() {
    const SEEDS: u64 = 40;
    for recording in recordings(true) {
        let runs: Vec<[f64; 2]> = (0..SEEDS).map(|seed| below_htb(&recording, seed)).collect();
        let marked = |v: &&Verdict| matches!(v, Verdict::Mark(_));
        let linux = [
            recording
                .verdicts
                .iter()
                .filter(|v| **v == Verdict::Drop)
                .count() as f64,
            recording.verdicts.iter().filter(marked).count() as f64,
        ];
        for (what, linux) in linux.into_iter().enumerate() {
            let mean = runs.iter().map(|run| run[what]).sum::<f64>() / SEEDS as f64;
            let square = runs
                .iter()
                .map(|run| (run[what] - mean).powi(2))
                .sum::<f64>();
            let deviation = (square / (SEEDS - 1) as f64).sqrt();
            println!(
                "{} {what}: {mean:.1} ± {deviation:.1}, Linux {linux}",
                recording.name
            );
            assert!(
                (linux - mean).abs() <= 3.0 * deviation + 1.0,
                "{} {what}: {mean} ± {deviation}, Linux {linux}",
                recording.name
            );
        }
    }
}

/// Every switch in some combination, thresholds and limits down to a packet.
fn settings() -> impl Strategy<Value = (usize, Vec<(&'static str, Value)>, Option<Limit>, u64)> {
    let limit = prop_oneof![
        Just(None),
        (1u64..300).prop_map(|n| Some(Limit::Packets(n))),
        (1u64..400_000).prop_map(|n| Some(Limit::Bytes(Bytes::new(n)))),
    ];
    let rate = prop_oneof![Just(1_000u64), Just(20_000_000), Just(1_000_000_000_000)];
    let words = (
        prop::collection::vec(any::<bool>(), 6),
        1000u64..20_000,
        0.0f64..1.0,
        1u64..128,
        1u64..64,
    );
    (0..KINDS.len(), words, limit, rate).prop_map(
        |(kind, (on, min, probability, depth, flows), limit, rate)| {
            let (bytes, packets) = (|n| Value::Bytes(Bytes::new(n)), Value::Packets);
            let mut set = vec![
                ("ecn", Value::Bool(on[0])),
                ("harddrop", Value::Bool(on[1])),
                ("nodrop", Value::Bool(on[0] && on[2])),
                ("adaptive", Value::Bool(on[3])),
                ("gentle", Value::Bool(on[4])),
                ("headdrop", Value::Bool(on[5])),
                ("probability", Value::Number(probability)),
                ("depth", packets(depth)),
                ("flows", Value::Count(flows)),
                ("divisor", Value::Count(1 << (flows % 7))),
                ("redflowlimit", bytes(if on[1] { 100_000 } else { 0 })),
                (
                    "perturb",
                    Value::Span(Span::ms(if on[3] { 100 } else { 0 })),
                ),
            ];
            if KINDS[kind] == "choke" {
                set.extend([("min", packets(min / 1000)), ("max", packets(min / 500))]);
            } else {
                set.extend([("min", bytes(min)), ("max", bytes(3 * min))]);
            }
            (kind, set, limit, rate)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn packets_are_conserved_with_any_parameters(
        (kind, set, limit, rate) in settings(),
        steps in prop::collection::vec((0u64..3_000, 0u32..6, 40u16..1515, any::<bool>()), 1..1500),
    ) {
        let kinds = queue::kinds::<Frame>();
        let kind = kinds.iter().find(|k| k.name == KINDS[kind]).unwrap();
        let mut params = Params::defaults(kind.params);
        for (name, value) in set {
            if params.get(name).is_some() {
                params.set(name, value);
            }
        }
        let context = QueueContext { limit, rate: Rate::bit(rate), hz: 250, seed: 1 };
        let mut queue = (kind.make)(&params, &context);
        let (mut counts, mut now) = (Counts::default(), Time::ZERO);
        let served = |queue: &mut dyn QueueDiscipline<Frame>, now, counts: &mut Counts| {
            let frame = queue.dequeue(now, counts);
            if let Some(frame) = frame {
                let came = counts.came[frame.number as usize];
                assert!(frame.ecn == came || came != Ecn::NotEct);
                counts.passed += 1;
            }
            frame.is_some()
        };
        for (gap, flow, size, leaves) in steps {
            now += Span::us(gap);
            while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
                queue.on_wakeup(at, &mut counts);
                prop_assert!(queue.next_wakeup().is_none_or(|next| next > at));
            }
            if leaves {
                served(&mut *queue, now, &mut counts);
            } else {
                let ecn = if flow % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
                let number = counts.came.len() as u32;
                counts.came.push(ecn);
                queue.enqueue(now, Frame { number, flow: flow * 170, size, dscp: 0, ecn,
                enqueued_at: now, ack: None }, &mut counts);
            }
            let gone = counts.passed + counts.dropped;
            prop_assert_eq!(queue.backlog().packets + u64::from(gone), counts.came.len() as u64);
            if let Some(limit) = limit {
                prop_assert!(!limit.exceeded(queue.backlog()));
            }
        }
        while served(&mut *queue, now, &mut counts) {}
        prop_assert_eq!(queue.backlog().bytes, Bytes::ZERO);
        prop_assert_eq!((counts.passed + counts.dropped) as usize, counts.came.len());
    }
}
