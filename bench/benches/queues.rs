#![allow(missing_docs)] // what the macros below make has none
//! The queue disciplines alone: what it costs to put a packet in and to take one out, with so many flows and packets
//! waiting.
//!
//! Packets come from all flows in an order without pattern, and one leaves for each that comes, so that the backlog
//! stands. Time goes by so slowly that nobody has stood for long: the laws look, and let pass. Of the turns of a sample
//! the one that took least counts, for whatever else the machine does can only add.

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use narrows_core::packet::Packet as _;
use narrows_core::param::Params;
use narrows_core::queue::{self, Limit, Place, Sink, Why};
use narrows_core::rng::Rng;
use narrows_core::tcp::wire::Segment;
use narrows_core::units::{Rate, Span, Time};
use narrows_sim::Packet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Packets in and out in one measured turn.
const TURN: usize = 2_000;

struct Nobody;

impl Sink<Packet> for Nobody {
    fn dropped(&mut self, _: Time, packet: Packet, _: Why) {
        black_box(packet);
    }
}

fn queues(c: &mut Criterion) {
    for (flows, standing) in [(1, 100), (1000, 1000), (1000, 10_000)] {
        let mut group = c.benchmark_group(format!("{flows} flows, {standing} packets waiting"));
        group.throughput(Throughput::Elements(TURN as u64));
        let mut rng = Rng::named(1, "bench/queues");
        let segment = Segment {
            len: 1448,
            ..Segment::default()
        };
        let packets: Vec<Packet> = (0..TURN)
            .map(|_| Packet::data(rng.below(flows) as u32, &segment))
            .collect();
        for kind in queue::kinds::<Packet>() {
            let params = Params::defaults(kind.params);
            if (kind.check)(&params).is_err() {
                continue;
            }
            let place = Place {
                limit: Some(Limit::Packets(1_000_000)),
                rate: Rate::mbit(10_000),
                hz: 1000,
                seed: 1,
            };
            let mut queue = (kind.make)(&params, &place);
            let mut now = Time::ZERO;
            let put = |queue: &mut dyn queue::QueueDiscipline<Packet>, now, mut packet: Packet| {
                packet.set_enqueued_at(now);
                queue.enqueue(now, packet, &mut Nobody);
            };
            (0..standing).for_each(|i| put(&mut *queue, now, packets[i % TURN]));
            group.bench_function(BenchmarkId::from_parameter(kind.name), |b| {
                b.iter_custom(|turns| {
                    let mut least = Duration::MAX;
                    for _ in 0..turns {
                        let begin = Instant::now();
                        for packet in &packets {
                            now += Span::ns(100);
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

criterion_group!(benches, queues);
criterion_main!(benches);
