#![allow(missing_docs)] // what the macros below make has none
//! Measures the queue disciplines alone: the cost of one enqueue and one dequeue, for several
//! numbers of flows and of queued packets. The result of a sample is its fastest turn, because
//! other load on the machine can only add time.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use narrows_bench::{Standing, TURN};
use narrows_core::queue;
use std::time::{Duration, Instant};

fn queues(c: &mut Criterion) {
    for (flows, standing) in [(1, 100), (1000, 1000), (1000, 10_000)] {
        let mut group = c.benchmark_group(format!("{flows} flows, {standing} packets waiting"));
        group.throughput(Throughput::Elements(TURN as u64));
        for kind in queue::kinds() {
            let Some(mut queue) = Standing::new(&kind, flows, standing) else {
                continue;
            };
            group.bench_function(BenchmarkId::from_parameter(kind.name), |b| {
                b.iter_custom(|turns| {
                    let mut least = Duration::MAX;
                    for _ in 0..turns {
                        let begin = Instant::now();
                        queue.turn();
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
