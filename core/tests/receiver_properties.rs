//! The receiver, whatever arrives in whatever order.

use narrows_core::packet::Ecn;
use narrows_core::tcp::wire::{AckSegment, MAX_SACKS, Range, Segment};
use narrows_core::tcp::{Config, EcnUse, Receiver};
use narrows_core::units::{Bytes, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Everything is cut at multiples of it, so that what arrived can be counted in units; eight are a
/// full segment.
const UNIT: u64 = 181;
const FULL: u64 = 8;
/// The most that a transfer is long, in units.
const MOST: u64 = 100 * FULL;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A segment: its start and its length, in units; µs since the one before.
type Arrival = (u64, u64, u64);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![4 => 0u64..400, 2 => 400u64..5_000, 1 => 5_000u64..300_000];
    // Mostly whole segments at their places, sometimes any cut of the stream.
    let cut = prop_oneof![
        9 => (0..MOST / FULL).prop_map(|i| (i * FULL, FULL)),
        1 => (0..MOST - FULL, 1..=FULL),
    ];
    let random = prop::collection::vec((cut, gap), 0..300);
    // Runs with holes, as a real sender makes them, spoilt by the random ones.
    let runs = prop::collection::vec((0..MOST / FULL, 1..30u64, 2..9u64), 0..8);
    (random, runs).prop_map(|(random, runs)| {
        let mut all: Vec<Arrival> = random
            .into_iter()
            .map(|((at, len), gap)| (at, len, gap))
            .collect();
        for (first, n, hole) in runs {
            let run = (first..(first + n).min(MOST / FULL)).filter(|i| i % hole > 0);
            let place = (first as usize * 7) % (all.len() + 1);
            all.splice(place..place, run.map(|i| (i * FULL, FULL, 242)));
        }
        all
    })
}

struct Bench {
    now: Time,
    receiver: Receiver,
    memory_most: u64,
    /// How often each unit has arrived.
    times: Vec<u32>,
    /// One past the highest byte sent.
    sent: u64,
    last: AckSegment,
    echoes: bool,
    acks: u64,
}

impl Bench {
    fn new(rmem_max: u64, ecn: EcnUse) -> Bench {
        let cfg = Config {
            rmem_default: Bytes::new(131_072.min(rmem_max)),
            rmem_max: Bytes::new(rmem_max),
            ecn,
            ..Config::default()
        };
        let mut bench = Bench {
            now: Time::ZERO + Span::ms(5),
            receiver: Receiver::new(&cfg),
            memory_most: rmem_max,
            times: vec![0; MOST as usize],
            sent: 0,
            last: AckSegment::default(),
            echoes: ecn == EcnUse::Echoed,
            acks: 0,
        };
        let syn = Segment {
            syn: true,
            cwr: true,
            ..Segment::default()
        };
        bench
            .receiver
            .on_segment(bench.now, &syn, &mut |a| assert!(a.syn));
        bench.now += Span::ms(40);
        bench
            .receiver
            .on_segment(bench.now, &Segment::default(), &mut |_| {
                panic!("nothing to acknowledge")
            });
        bench
    }

    /// Time passes; timers fire.
    fn wait(&mut self, until: Time) {
        while let Some(at) = self.receiver.next_wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let mut acks = Vec::new();
            self.receiver.on_timer(self.now, &mut |a| acks.push(a));
            acks.iter().for_each(|a| self.check(a));
            assert!(
                self.receiver.next_wakeup().is_none_or(|t| t > self.now),
                "a timer must move"
            );
        }
        self.now = until;
    }

    fn arrive(&mut self, (at, len, gap): Arrival) {
        self.wait(self.now + Span::us(gap));
        let (seq, end) = (at * UNIT, (at + len) * UNIT);
        self.sent = self.sent.max(end);
        (at..at + len).for_each(|unit| self.times[unit as usize] += 1);
        let segment = Segment {
            seq,
            len: (end - seq) as u32,
            tsval: (self.now.as_us() / 1000) as u32,
            psh: at % 3 == 0,
            ecn: [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct][gap as usize % 4],
            cwr: gap % 5 == 0,
            ..Segment::default()
        };
        let mut acks = Vec::new();
        self.receiver
            .on_segment(self.now, &segment, &mut |a| acks.push(a));
        assert!(acks.len() <= 3);
        acks.iter().for_each(|a| self.check(a));
        // One more may be let in when the buffer is just full.
        assert!(self.receiver.waiting_memory() <= self.memory_most + 4096);
    }

    fn arrived_times(&self, block: Range) -> u32 {
        let units = (block.start / UNIT) as usize..(block.end / UNIT) as usize;
        self.times[units].iter().copied().min().unwrap()
    }

    fn check(&mut self, ack: &AckSegment) {
        self.acks += 1;
        assert!(ack.ack >= self.last.ack && ack.ack <= self.sent);
        // An echo of before may be of less.
        assert!(ack.ack == self.receiver.delivered_bytes() || self.echoes);
        let all_below = Range {
            start: 0,
            end: ack.ack,
        };
        assert!(
            ack.ack == 0 || self.arrived_times(all_below) > 0,
            "acknowledged, never arrived"
        );
        assert!(
            self.echoes || ack.ack + ack.window >= self.last.ack + self.last.window,
            "a window was taken back"
        );
        let n = usize::from(ack.n_sacks);
        assert!(n <= MAX_SACKS);
        let blocks = &ack.sacks[..n];
        for b in blocks {
            assert!(b.start < b.end && b.end <= self.sent);
            assert!(self.arrived_times(*b) > 0, "SACKed, never arrived: {ack:?}");
        }
        let touches = |a: &Range, b: &Range| a.start <= b.end && b.start <= a.end;
        let dsack = blocks
            .first()
            .is_some_and(|f| f.start < ack.ack || blocks[1..].iter().any(|b| touches(f, b)));
        if dsack {
            assert!(
                self.arrived_times(blocks[0]) > 1,
                "duplicate, arrived once: {ack:?}"
            );
        }
        let rest = &blocks[usize::from(dsack)..];
        for (i, b) in rest.iter().enumerate() {
            assert!(b.start > ack.ack, "SACKed at the ACK: {ack:?}");
            assert!(
                !rest[..i].iter().any(|a| touches(a, b)),
                "blocks that should be one: {ack:?}"
            );
        }
        self.last = *ack;
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everything_is_delivered_in_the_end(
        arrivals in arrivals(),
        small: bool,
        again in 1u64..4,
        ecn in prop::sample::select(&[EcnUse::Latched, EcnUse::Echoed, EcnUse::Counted][..]),
    ) {
        let mut bench = Bench::new(if small { 40_000 } else { 1 << 24 }, ecn);
        for arrival in arrivals {
            bench.arrive(arrival);
        }
        // A sender repairs, from the first hole on; some of it arrives more than once.
        while bench.receiver.delivered_bytes() < MOST * UNIT {
            let at = bench.receiver.delivered_bytes() / UNIT;
            let len = FULL.min(MOST - at);
            for _ in 0..again {
                bench.arrive((at, len, 500));
            }
            prop_assert!(bench.receiver.delivered_bytes() >= (at + len) * UNIT, "a segment in \
                order was refused");
        }
        prop_assert_eq!(bench.receiver.waiting_memory(), 0);
        // A pending ACK leaves within a second, and then there is silence.
        bench.wait(bench.now + Span::s(1));
        prop_assert_eq!(bench.last.ack, MOST * UNIT);
        prop_assert_eq!(bench.receiver.next_wakeup(), None);
        prop_assert!(bench.acks > 0);
    }
}
