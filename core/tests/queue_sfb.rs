//! SFB compared with Linux 6.12, packet by packet: the recordings of `data/queue/` (see
//! `common/trace.rs`), of one flow each, because Linux's hash of several flows is unknown. For many
//! flows the distributions must be equal, over many seeds.
//!
//! For one flow, only the random numbers are taken from the recording: each is one that Linux may
//! have drawn. Everything else must follow, for every packet. Then the random numbers are tested:
//! the shares of refused packets, and of dropped ones that could have been marked, must fit the
//! probabilities.

use crate::trace::{Event, Frame, Recording, Verdict};
use narrows_core::net::link::TokenBucket;
use narrows_core::packet::{Ecn, Packet};
use narrows_core::queue::sfb::{Coin, Sfb};
use narrows_core::queue::{DropReason, QueueContext, QueueDiscipline, Sink};
use narrows_core::rng::Rng;
use narrows_core::units::{Bytes, Time};
use std::sync::{Arc, Mutex};

/// A packet whose flow is somewhere else under each seed.
struct Hashed(Frame);

impl Packet for Hashed {
    fn size(&self) -> Bytes {
        self.0.size()
    }
    fn enqueued_at(&self) -> Time {
        self.0.enqueued_at
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.0.enqueued_at = now;
    }
    fn flow_hash(&self, seed: u64) -> u32 {
        Rng::named(seed ^ u64::from(self.0.flow), "flow").next_u64() as u32
    }
    fn ecn(&self) -> Ecn {
        self.0.ecn
    }
    fn set_ce(&mut self) {
        self.0.set_ce();
    }
}

/// A draw: its probability, what came of it, and whether the packet could be marked.
type Draw = (f64, Verdict, bool);

/// The coin's input for the next packet, and its requests.
#[derive(Default)]
struct Chance {
    verdict: Verdict,
    markable: bool,
    draws: Vec<Draw>,
}

/// Draws what Linux may have drawn.
struct Recorded(Arc<Mutex<Chance>>);

impl Coin for Recorded {
    fn draw(&mut self, probability: u32) -> u32 {
        let mut chance = self.0.lock().unwrap();
        let draw = (
            f64::from(probability) / 65_536.0,
            chance.verdict,
            chance.markable,
        );
        chance.draws.push(draw);
        match chance.verdict {
            Verdict::Pass(_) | Verdict::Waits | Verdict::Unknown => 65_535,
            Verdict::Mark(_) => probability - 1,
            Verdict::Drop => 0,
        }
    }
}

struct Played(Vec<Verdict>);

impl Sink<Hashed> for Played {
    fn dropped(&mut self, _now: Time, frame: Hashed, _why: DropReason) {
        self.0[frame.0.number as usize] = Verdict::Drop;
    }
}

/// Plays a recording with its draws.
fn follow(recording: &Recording, seed: u64) -> Vec<Draw> {
    let hop = recording.scenario.path.bottleneck();
    let context = QueueContext {
        limit: None,
        rate: hop.rate,
        hz: 1000,
        seed,
    };
    let chance = Arc::new(Mutex::new(Chance::default()));
    let mut queue = Sfb::following(&hop.queue.params, &context, Recorded(chance.clone()));
    let mut played = Played(vec![Verdict::Waits; recording.verdicts.len()]);
    let mut came = Vec::new();
    for event in &recording.events {
        match *event {
            Event::Arrival(now, frame) => {
                let mut coin = chance.lock().unwrap();
                coin.verdict = recording.verdicts[frame.number as usize];
                coin.markable = frame.ecn != Ecn::NotEct;
                drop(coin);
                came.push(frame.ecn);
                queue.enqueue(now, Hashed(frame), &mut played);
            }
            Event::Departure(now) => {
                if let Some(Hashed(frame)) = queue.dequeue(now, &mut played) {
                    let number = frame.number as usize;
                    played.0[number] = if frame.ecn == came[number] {
                        Verdict::Pass(now)
                    } else {
                        Verdict::Mark(now)
                    };
                }
            }
        }
    }
    let agreement = recording.compare(&played.0);
    println!("{}: {agreement:?}", recording.name);
    assert_eq!(
        agreement.times, agreement.packets,
        "{}: {agreement:?}",
        recording.name
    );
    std::mem::take(&mut chance.lock().unwrap().draws)
}

/// `happened` as often as the probabilities say? Within three standard deviations.
fn is_fair(what: &str, tosses: impl Iterator<Item = (f64, bool)>) {
    let (mut n, mut happened, mut expected, mut variance) = (0, 0.0, 0.0, 0.0);
    for (probability, did) in tosses {
        n += 1;
        happened += f64::from(u8::from(did));
        expected += probability;
        variance += probability * (1.0 - probability);
    }
    let off = (happened - expected) / f64::max(variance, 1.0).sqrt();
    println!("{what}: {happened} of {n}, expected {expected:.1}: {off:+.2} standard deviations");
    assert!(off.abs() < 3.0, "{what}: {off}");
}

#[test]
fn every_packet_has_the_fate_of_linux_given_the_same_draws() {
    let mut draws = Vec::new();
    for recording in Recording::of(&["sfb"]) {
        draws.extend(follow(&recording, 1));
        // Wherever its bins are.
        (2..10).for_each(|seed| drop(follow(&recording, seed)));
    }
    assert!(draws.len() > 5000, "{}", draws.len());
    draws.retain(|(_, verdict, _)| *verdict != Verdict::Waits);
    for (least, most) in [
        (0.0, 1.0),
        (0.0, 0.2),
        (0.2, 0.4),
        (0.4, 0.6),
        (0.6, 0.8),
        (0.8, 1.0),
    ] {
        let alike = draws.iter().filter(|(p, ..)| (least..most).contains(p));
        let refused = alike
            .clone()
            .map(|(p, verdict, _)| (*p, !matches!(verdict, Verdict::Pass(_))));
        is_fair(&format!("refused, {least} to {most}"), refused);
        let dropped = alike
            .filter(|(.., markable)| *markable)
            .map(|(p, verdict, _)| ((2.0 * p - 1.0).max(0.0), *verdict == Verdict::Drop));
        is_fair(
            &format!("dropped though ECN-capable, {least} to {most}"),
            dropped,
        );
    }
}

/// For the same arrivals below the same link: drops of the eight flows near their shares, of the
/// two above, of the thin one; marks.
fn below_htb(recording: &Recording, seed: u64) -> [f64; 4] {
    let hop = recording.scenario.path.bottleneck();
    let context = QueueContext {
        limit: None,
        rate: hop.rate,
        hz: 1000,
        seed,
    };
    let mut queue = Sfb::new(&hop.queue.params, &context);
    let mut bucket = TokenBucket::owing(hop.rate, Bytes::new(3080));
    let mut played = Played(vec![Verdict::Waits; recording.verdicts.len()]);
    let mut came = Vec::new();
    let mut due = None;
    for event in &recording.events {
        let Event::Arrival(now, frame) = *event else {
            continue;
        };
        while let Some(at) = due.filter(|at| *at <= now) {
            due = None;
            if queue.backlog().packets == 0 {
                continue;
            }
            due = Some(bucket.ready(at).err().unwrap_or(at));
            if due > Some(at) {
                continue;
            }
            if let Some(Hashed(left)) = queue.dequeue(at, &mut played) {
                bucket.charge(at, left.size());
                let marked = left.ecn != came[left.number as usize];
                played.0[left.number as usize] = if marked {
                    Verdict::Mark(at)
                } else {
                    Verdict::Pass(at)
                };
            }
        }
        came.push(frame.ecn);
        queue.enqueue(now, Hashed(frame), &mut played);
        due = due.or(Some(now));
    }
    outcome(recording, &played.0)
}

fn outcome(recording: &Recording, verdicts: &[Verdict]) -> [f64; 4] {
    let mut counts = [0.0; 4];
    for event in &recording.events {
        let Event::Arrival(_, frame) = event else {
            continue;
        };
        match (verdicts[frame.number as usize], frame.flow) {
            (Verdict::Drop, 0..8) => counts[0] += 1.0,
            (Verdict::Drop, 30) => counts[2] += 1.0,
            (Verdict::Drop, _) => counts[1] += 1.0,
            (Verdict::Mark(_), _) => counts[3] += 1.0,
            _ => {}
        }
    }
    counts
}

#[test]
fn many_flows_have_the_distribution_of_linux() {
    const SEEDS: u64 = 40;
    let recording = &Recording::of(&["sfb_mix"])[0];
    let runs: Vec<[f64; 4]> = (0..SEEDS).map(|seed| below_htb(recording, seed)).collect();
    for (what, linux) in outcome(recording, &recording.verdicts)
        .into_iter()
        .enumerate()
    {
        let mean = runs.iter().map(|run| run[what]).sum::<f64>() / SEEDS as f64;
        let square = runs
            .iter()
            .map(|run| (run[what] - mean).powi(2))
            .sum::<f64>();
        let deviation = (square / (SEEDS - 1) as f64).sqrt();
        println!("{what}: {mean:.1} ± {deviation:.1}, Linux {linux}");
        assert!(
            (linux - mean).abs() <= 3.0 * deviation + 1.0,
            "{what}: {mean} ± {deviation}, Linux {linux}"
        );
    }
}
