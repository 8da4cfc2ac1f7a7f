//! HTB by its own clock: the recordings of Linux 6.12 (`data/queue/htb-*.txt`) on a link without
//! limit, and what must hold whatever comes.

use crate::trace::{Event, Frame, Recording, Verdict};
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::queue::{Backlog, DropReason, QueueContext, QueueDiscipline, Sink};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The verdicts on packets.
struct Fates(Vec<Verdict>);

impl Sink<Frame> for Fates {
    fn dropped(&mut self, _: Time, frame: Frame, _: DropReason) {
        self.0[frame.number as usize] = Verdict::Drop;
    }
}

/// A link that takes whatever the discipline lets go.
fn drain(queue: &mut dyn QueueDiscipline<Frame>, now: Time, fates: &mut Fates) {
    while let Some(frame) = queue.dequeue(now, fates) {
        fates.0[frame.number as usize] = Verdict::Pass(now);
    }
}

/// Everything of its own up to `now`.
fn wake(queue: &mut dyn QueueDiscipline<Frame>, now: Time, fates: &mut Fates) {
    while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
        queue.on_wakeup(at, fates);
        drain(queue, at, fates);
    }
}

fn play(recording: &Recording) -> (Vec<Verdict>, Box<dyn QueueDiscipline<Frame>>) {
    let mut queue = recording.discipline(1);
    let mut fates = Fates(vec![Verdict::Waits; recording.verdicts.len()]);
    for event in &recording.events {
        if let Event::Arrival(now, frame) = *event {
            wake(&mut *queue, now, &mut fates);
            queue.enqueue(now, frame, &mut fates);
            drain(&mut *queue, now, &mut fates);
        }
    }
    wake(&mut *queue, Time::from_ns(1 << 40), &mut fates);
    (fates.0, queue)
}

/// That kernel's clock has steps of 256 ns, and its timers are late by up to one or two. A packet
/// behind a late one is late, too.
const LATE: Span = Span::us(2);

/// Bytes, packets, overlimits and borrowed packets of every leaf, as `tc -s class show` told them
/// there.
fn counts_are_linuxes(recording: &Recording, queue: &dyn QueueDiscipline<Frame>) {
    let file = format!(
        "{}/tests/data/queue/{}",
        env!("CARGO_MANIFEST_DIR"),
        recording.name
    );
    let text = std::fs::read_to_string(file).unwrap();
    let mut leaves = 0;
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("# counts "))
    {
        let (id, rest) = line.split_once(' ').unwrap();
        let Some(class) = queue.classes().iter().position(|name| name == id) else {
            continue;
        };
        let linux: Vec<u64> = rest.split(' ').map(|n| n.parse().unwrap()).collect();
        let ours = queue.counts_of(class).unwrap();
        let counted = [
            ours.sent.bytes.get(),
            ours.sent.packets,
            ours.overlimits,
            ours.borrowed,
        ];
        assert_eq!(
            counted,
            [linux[0], linux[1], linux[3], linux[4]],
            "{}: {id}",
            recording.name
        );
        leaves += 1;
    }
    assert!(leaves > 2, "{}", recording.name);
}

#[test]
fn with_its_own_clock_departure_times_equal_those_of_linux() {
    let recordings = Recording::of(&["htb"]);
    assert_eq!(recordings.len(), 5);
    for recording in recordings {
        let (ours, queue) = play(&recording);
        counts_are_linuxes(&recording, &*queue);
        for (number, (ours, linux)) in ours.iter().zip(&recording.verdicts).enumerate() {
            let late = match (ours.departure(), linux.departure()) {
                (Some(ours), Some(linux)) => ours <= linux && linux.since(ours) <= LATE,
                (ours, linux) => ours == linux,
            };
            assert!(
                late,
                "{}: packet {number}: {ours:?}, in Linux {linux:?}",
                recording.name
            );
        }
    }
}

/// A discipline as a scenario has it.
fn made(queue: &str) -> Box<dyn QueueDiscipline<Frame>> {
    let registry = Registry::<Frame>::standard();
    let text = format!(
        "duration = \"1s\"\n[path]\nrate = \"10Gbit\"\nrtt = \"1ms\"\nqueue = \
         {queue}\n[[flow]]\ncc = \"cubic\"\n"
    );
    let scenario =
        Scenario::from_toml(&text, "htb", &registry).unwrap_or_else(|e| panic!("{e}\n{queue}"));
    let hop = scenario.path.bottleneck();
    let context = QueueContext {
        limit: None,
        rate: hop.rate,
        hz: 1000,
        seed: 1,
    };
    registry.make_queue(&hop.queue, &context).unwrap()
}

fn frame(number: u32, dscp: u8, size: u16, now: Time) -> Frame {
    Frame {
        number,
        flow: u32::from(dscp),
        size,
        dscp,
        ecn: Ecn::NotEct,
        enqueued_at: now,
        ack: None,
    }
}

/// A tree at random: classes of which those without children are leaves, each with the code point
/// of its place.
#[derive(Clone, Debug)]
struct Class {
    parent: Option<usize>,
    rate: u64,
    ceil: u64,
    words: String,
}

fn leaves(tree: &[Class]) -> Vec<usize> {
    (0..tree.len())
        .filter(|i| tree.iter().all(|class| class.parent != Some(*i)))
        .collect()
}

fn written(tree: &[Class], queue: &str) -> String {
    let leaves = leaves(tree);
    let classes: Vec<String> = (tree.iter().enumerate())
        .map(|(i, class)| {
            let parent = class
                .parent
                .map_or(String::new(), |p| format!("parent = \"1:{:x}\", ", p + 1));
            let end = if leaves.contains(&i) {
                format!(", match = {{ dscp = {} }}, {queue}", i + 1)
            } else {
                String::new()
            };
            let Class {
                rate, ceil, words, ..
            } = class;
            format!(
                "{{ id = \"1:{:x}\", {parent}rate = \"{rate}bit\", ceil = \
                 \"{ceil}bit\"{words}{end} }}",
                i + 1
            )
        })
        .collect();
    format!("{{ kind = \"htb\", classes = [ {} ] }}", classes.join(", "))
}

fn trees(rates: std::ops::Range<f64>) -> impl Strategy<Value = Vec<Class>> {
    let rate = rates.prop_map(|power| 10f64.powf(power) as u64);
    let words = (0u8..8, 1u64..20, 0u64..5, 0u64..5).prop_map(|(prio, quantum, burst, cburst)| {
        let (quantum, burst, cburst) = (quantum * 500, burst * 1500, cburst * 1500);
        format!(
            ", prio = {prio}, quantum = \"{quantum}B\", burst = \"{burst}B\", cburst = \
            \"{cburst}B\""
        )
    });
    let class = (any::<prop::sample::Index>(), rate, 1u64..50, words);
    prop::collection::vec(class, 1..14).prop_map(|list| {
        let mut tree: Vec<Class> = Vec::new();
        for (n, (parent, rate, more, words)) in list.into_iter().enumerate() {
            // Three of four hang below somebody; nobody is deeper than eight.
            let parent = (n > 0 && n % 4 > 0).then(|| parent.index(n));
            let depth = std::iter::successors(parent, |p| tree[*p].parent).count();
            let ceil = (rate * (more + 9) / 10).min(10_000_000_000_000);
            tree.push(Class {
                parent: parent.filter(|_| depth < 8),
                rate,
                ceil,
                words,
            });
        }
        tree
    })
}

#[derive(Default)]
struct Gone {
    dropped: Backlog,
    left: Vec<Frame>,
}

impl Sink<Frame> for Gone {
    fn dropped(&mut self, _: Time, frame: Frame, _: DropReason) {
        self.dropped.add(frame.size());
    }
}

/// The same cases in every run.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The excess of a class over its guaranteed rate, in bytes: a leaky bucket.
struct Above {
    rate: f64,
    level: f64,
    at: Time,
    most: f64,
}

impl Above {
    fn of(rate: u64) -> Above {
        Above {
            rate: rate as f64 / 8e9,
            level: 0.0,
            at: Time::ZERO,
            most: 0.0,
        }
    }
    fn sent(&mut self, now: Time, size: u16) {
        let leaked = now.since(self.at).as_ns() as f64 * self.rate;
        self.level = (self.level - leaked).max(0.0) + f64::from(size);
        (self.at, self.most) = (now, self.most.max(self.level));
    }
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn packets_are_conserved_at_any_rate(
        tree in trees(3.0..13.0),
        queue in prop::sample::select(vec![
            "limit = \"5p\"", "queue = \"fq_codel\"", "queue = \"cake\", limit = \"3p\"", "queue \
                = \"pie\"", "queue = \"fq\"",
            "queue = { kind = \"cake\", bandwidth = \"1Mbit\" }",
            "queue = { kind = \"htb\", classes = [ { id = \"2:1\", rate = \"300kbit\", match = { \
             dscp = 1 } } ] }",
        ]),
        steps in prop::collection::vec((0u64..4_000_000, 0u8..16, 64u16.., 0u8..4), 1..300),
    ) {
        let mut queue = made(&written(&tree, queue));
        let (mut gone, mut came, mut now, mut asked) = (Gone::default(), Backlog::default(),
            Time::from_ns(1), 0);
        for (number, (gap, dscp, size, asks)) in (0..).zip(steps) {
            now += Span::ns(gap);
            while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
                queue.on_wakeup(at, &mut gone);
                prop_assert!(queue.next_wakeup().is_none_or(|next| next > at));
            }
            let frame = frame(number, dscp, size, now);
            came.add(frame.size());
            queue.enqueue(now, frame, &mut gone);
            for _ in 0..asks {
                asked += 1;
                let frame = queue.dequeue(now, &mut gone);
                gone.left.extend(frame);
            }
            let left: u64 = gone.left.iter().map(|frame| u64::from(frame.size)).sum();
            prop_assert_eq!(queue.backlog().packets,
            came.packets - gone.dropped.packets - gone.left.len() as u64);
            prop_assert_eq!(queue.backlog().bytes.get(),
            came.bytes.get() - gone.dropped.bytes.get() - left);
        }
        prop_assert!(gone.left.len() <= asked);
        let mut numbers: Vec<u32> = gone.left.iter().map(|frame| frame.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), gone.left.len());
        let total: u64 = (0..queue.classes().len()).map(|i| queue.backlog_of(i).packets).sum();
        prop_assert_eq!(total, queue.backlog().packets);
        // Every packet leaves in the end.
        let mut patience = 100_000;
        while queue.backlog().packets > 0 && patience > 0 {
            patience -= 1;
            match queue.dequeue(now, &mut gone) {
                Some(_) => {}
                None => {
                    let next = queue.next_wakeup();
                    prop_assert!(next.is_some() || queue.backlog().packets == 0);
                    // A control law with frequent wake-ups need not be polled in between.
                    now = next.unwrap_or(now).max(now + Span::ms(500));
                    queue.on_wakeup(now, &mut gone);
                }
            }
        }
        prop_assert_eq!(queue.backlog().packets, 0);
    }
}

proptest! {
    #![proptest_config(config(60))]

    /// All leaves of a tree, some of them at times without packets, on a link without limit.
    #[test]
    fn no_class_exceeds_its_ceil_and_every_class_gets_its_rate(tree in trees(5.0..8.0),
        sizes in prop::collection::vec(64u16..=1514, 14),
        stops in prop::collection::vec(any::<bool>(), 14)) {
        let mut queue = made(&written(&tree, "limit = \"4p\""));
        let leaves = leaves(&tree);
        let mut gone = Gone::default();
        let mut above: Vec<Above> = tree.iter().map(|class| Above::of(class.ceil)).collect();
        let mut sent = vec![0u64; tree.len()];
        let (mut now, mut number) = (Time::from_ns(1), 0);
        let end = Time::from_ns(2_000_000_000);
        let mut waits = vec![0u32; tree.len()];
        let mut steps = 0;
        while now < end && steps < 20_000 {
            steps += 1;
            // Those that stop are silent in every second tenth of a second.
            let silent = now.as_ns() / 100_000_000 % 2 == 1;
            for leaf in leaves.iter().filter(|leaf| !(silent && stops[**leaf])) {
                while waits[*leaf] < 3 {
                    queue.enqueue(now, frame(number, *leaf as u8 + 1, sizes[*leaf], now),
                    &mut gone);
                    (number, waits[*leaf]) = (number + 1, waits[*leaf] + 1);
                }
            }
            match queue.dequeue(now, &mut gone) {
                Some(frame) => {
                    let leaf = usize::from(frame.dscp - 1);
                    waits[leaf] -= 1;
                    sent[leaf] += u64::from(frame.size);
                    above[leaf].sent(now, frame.size);
                }
                None => {
                    let tick = Time::from_ns((now.as_ns() / 100_000_000 + 1) * 100_000_000);
                    now = queue.next_wakeup().map_or(tick, |at| at.min(tick));
                    queue.on_wakeup(now, &mut gone);
                }
            }
        }
        prop_assert_eq!(gone.dropped.packets, 0);
        for leaf in leaves {
            let Class { ceil, rate, words, .. } = &tree[leaf];
            let bytes = |name: &str| -> f64 {
                let text = words.split(name).nth(1).unwrap().split('"').nth(1).unwrap();
                text.trim_end_matches('B').parse::<f64>().unwrap()
            };
            // A bucket without parameters holds 1600 bytes, and the tokens of a tick.
            let depth = bytes(" cburst = ").max(1600.0) + *ceil as f64 / 8e9;
            // A packet's time is rounded down, to a nanosecond.
            let rounding = number as f64 * *ceil as f64 / 8e9;
            let most = depth + f64::from(sizes[leaf]) + rounding + 1.0;
            prop_assert!(above[leaf].most <= most, "class {}: {} above its ceil, {most} allowed",
                leaf, above[leaf].most);
            if !stops[leaf] {
                let due = *rate as f64 / 8e9 * now.as_ns() as f64;
                prop_assert!(sent[leaf] as f64 >= due * 0.999 - 2.0 * f64::from(sizes[leaf]),
                    "class {}: {} of {due}", leaf, sent[leaf]);
            }
        }
    }

    /// A class with packets that may borrow does so while the parent has tokens: none are wasted.
    #[test]
    fn unused_rate_is_lent(
        rates in prop::collection::vec((1u64..100, 0u8..8, 1u64..10), 1..10),
        sizes in prop::collection::vec(64u16..=1514, 10),
    ) {
        let all: u64 = rates.iter().map(|(rate, ..)| rate * 10_000).sum::<u64>() * 2;
        let mut tree = vec![Class { parent: None, rate: all, ceil: all, words: String::new() }];
        tree.extend(rates.iter().map(|(rate, prio, quantum)| Class {
            parent: Some(0),
            rate: rate * 10_000,
            ceil: all,
            words: format!(", prio = {prio}, quantum = \"{}B\"", quantum * 1514),
        }));
        let mut queue = made(&written(&tree, "limit = \"4p\""));
        let (mut gone, mut now, mut number, mut sent) = (Gone::default(), Time::from_ns(1), 0,
            vec![0u64; tree.len()]);
        let mut waits = vec![0u32; tree.len()];
        while now < Time::from_ns(3_000_000_000) {
            for leaf in 1..tree.len() {
                while waits[leaf] < 2 {
                    queue.enqueue(now, frame(number, leaf as u8 + 1, sizes[leaf - 1], now),
                    &mut gone);
                    (number, waits[leaf]) = (number + 1, waits[leaf] + 1);
                }
            }
            match queue.dequeue(now, &mut gone) {
                Some(frame) => {
                    waits[usize::from(frame.dscp - 1)] -= 1;
                    sent[usize::from(frame.dscp - 1)] += u64::from(frame.size);
                }
                None => {
                    now = queue.next_wakeup().unwrap();
                    queue.on_wakeup(now, &mut gone);
                }
            }
        }
        let due = all as f64 / 8e9 * now.as_ns() as f64;
        let total: u64 = sent.iter().sum();
        prop_assert!((total as f64 - due).abs() <= due * 0.001 + 16_000.0, "{total} of {due}");
        // Of those with the best priority each has its rate and, of the rest, by its quantum.
        let best = rates.iter().map(|(_, prio, _)| *prio).min().unwrap();
        let guaranteed = |i: usize| rates[i].0 as f64 * 10_000.0 / 8e9 * now.as_ns() as f64;
        let share = |i: usize| sent[i + 1] as f64 - guaranteed(i);
        let quanta: u64 = rates.iter().filter(|(_, prio, _)| *prio == best).map(|(..,
            quantum)| quantum).sum();
        for (i, (_, prio, quantum)) in rates.iter().enumerate() {
            let due = if *prio == best { due / 2.0 * *quantum as f64 / quanta as f64 } else { 0.0 };
            prop_assert!((share(i) - due).abs() <= due * 0.05 + 40_000.0, "{i}: {} of {due}, \
                {rates:?}", share(i));
        }
    }
}

#[test]
fn direct_packets_are_first_and_not_shaped() {
    let mut queue = made(
        "{ kind = \"htb\", classes = [ { id = \"1:1\", rate = \"1Mbit\", match = { dscp = 8 } } ] \
         }",
    );
    let mut gone = Gone::default();
    let now = Time::from_ns(1);
    for number in 0..20 {
        queue.enqueue(
            now,
            frame(number, if number < 10 { 8 } else { 0 }, 1514, now),
            &mut gone,
        );
    }
    let left: Vec<u32> = std::iter::from_fn(|| queue.dequeue(now, &mut gone))
        .map(|frame| frame.number)
        .collect();
    // Then what the bucket of 1600 bytes lets go: it may go into debt once.
    assert_eq!(left, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 1]);
    // 1600 bytes at 1 Mbit/s are 12.8 ms, 3028 are 24.224.
    assert_eq!(queue.next_wakeup(), Some(now + Span::us(24_224 - 12_800)));
}

#[test]
fn unmatched_packets_join_the_default_class() {
    let queue = "{ kind = \"htb\", default = \"1:2\", classes = [ { id = \"1:1\", rate = \
        \"1Mbit\", match = { dscp = [8, \"EF\"] } }, { id = \"1:2\", rate = \"1Mbit\" }, { id = \
        \"1:3\", rate = \"1Mbit\", match = { dscp = [46, 10] } } ] }";
    let mut queue = made(queue);
    for (number, dscp) in [0, 8, 46, 10, 12].into_iter().enumerate() {
        queue.enqueue(
            Time::ZERO,
            frame(number as u32, dscp, 100, Time::ZERO),
            &mut Gone::default(),
        );
    }
    assert_eq!(queue.classes(), ["1:1", "1:2", "1:3", "direct"]);
    assert_eq!(
        [0, 1, 2, 3].map(|class| queue.backlog_of(class).packets),
        [2, 2, 1, 0]
    );
}
