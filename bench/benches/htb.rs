#![allow(missing_docs)] // what the macros below make has none
//! Measures HTB by the number of its classes: the cost of an enqueue and a dequeue.
//!
//! All leaves have one parent. Packets arrive for all leaves in random order, and each leaf holds
//! some packets. In `own` every leaf is within its own rate, so level 0 is served. In `borrowed`
//! all leaves exceed their rates and wait in the event queue, and the parent lends its rate. One
//! packet leaves for each packet that arrives. The result of a sample is its fastest turn.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use narrows_core::packet::Packet as _;
use narrows_core::queue::{DropReason, QueueContext, QueueDiscipline, Sink};
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::Scenario;
use narrows_core::tcp::wire::Segment;
use narrows_core::units::{Rate, Span, Time};
use narrows_sim::Packet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of packets that are enqueued and dequeued in one measured turn.
const TURN: usize = 2_000;
/// Time from one packet to the next, which is 12 Gbit/s of full frames.
const GAP: Span = Span::us(1);

struct Nobody;

impl Sink<Packet> for Nobody {
    fn dropped(&mut self, _: Time, packet: Packet, _: DropReason) {
        black_box(packet);
    }
}

/// HTB with `leaves` leaves, each for one flow and with `rate` in bit/s, below a parent that can
/// always lend.
fn tree(leaves: u64, rate: u64) -> Box<dyn QueueDiscipline<Packet>> {
    let mut text = String::from(
        "duration = \"1s\"\n[path]\nrate = \"100Gbit\"\nrtt = \"1ms\"\n[path.queue]\nkind = \
         \"htb\"\nclasses = [\n\
         { id = \"1:1\", rate = \"1000Gbit\" },\n",
    );
    for leaf in 0..leaves {
        let id = leaf + 2;
        writeln!(
            text,
            "{{ id = \"1:{id:x}\", parent = \"1:1\", rate = \"{rate}bit\", ceil = \"1000Gbit\", \
             quantum = \"1514B\", \
             match = {{ flow = \"f{leaf}\" }} }},"
        )
        .unwrap();
    }
    text += "]\n";
    for leaf in 0..leaves {
        writeln!(text, "[[flow]]\nid = \"f{leaf}\"\ncc = \"reno\"").unwrap();
    }
    let registry = Registry::standard();
    let scenario = Scenario::from_toml(&text, "bench", &registry).unwrap_or_else(|e| panic!("{e}"));
    let context = QueueContext {
        limit: None,
        rate: Rate::mbit(100_000),
        hz: 1000,
        seed: 1,
    };
    registry
        .make_queue(&scenario.path.hops[0].queue, &context)
        .unwrap()
}

fn classes(c: &mut Criterion) {
    // With 8 bit/s no leaf has tokens again after its first packets.
    for (name, rate) in [("own", 1_000_000_000_000), ("borrowed", 8)] {
        let mut group = c.benchmark_group(format!("htb, {name}"));
        group.throughput(Throughput::Elements(TURN as u64));
        for leaves in [1, 10, 100, 1000] {
            let mut rng = Rng::named(1, "bench/htb");
            let segment = Segment {
                len: 1448,
                ..Segment::default()
            };
            let packets: Vec<Packet> = (0..TURN)
                .map(|_| Packet::data(rng.below(leaves) as u32, &segment))
                .collect();
            let mut queue = tree(leaves, rate);
            let mut now = Time::ZERO;
            let put = |queue: &mut dyn QueueDiscipline<Packet>, now, mut packet: Packet| {
                packet.set_enqueued_at(now);
                queue.enqueue(now, packet, &mut Nobody);
            };
            (0..500).for_each(|i| put(&mut *queue, now, packets[i]));
            group.bench_function(BenchmarkId::from_parameter(leaves), |b| {
                b.iter_custom(|turns| {
                    let mut least = Duration::MAX;
                    for _ in 0..turns {
                        let begin = Instant::now();
                        for packet in &packets {
                            now += GAP;
                            put(&mut *queue, now, *packet);
                            black_box(queue.dequeue(now, &mut Nobody));
                        }
                        least = least.min(begin.elapsed());
                    }
                    least * turns as u32
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, classes);
criterion_main!(benches);
