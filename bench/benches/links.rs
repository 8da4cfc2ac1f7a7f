#![allow(missing_docs)] // what the macros below make has none
//! Measures the time that a link model takes to compute the end of a packet's transmission, for
//! packets back to back.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_core::net::delivery_trace::DeliveryTrace;
use narrows_core::net::link::{Serial, TokenBucket};
use narrows_core::net::rate_schedule::RateSchedule;
use narrows_core::units::{Bytes, Rate, Span, Time};

const N: u64 = 10_000;

fn sizes() -> impl Iterator<Item = Bytes> {
    (0..N).map(|n| Bytes::new(if n % 3 == 0 { 66 } else { 1514 }))
}

fn links(c: &mut Criterion) {
    let mut group = c.benchmark_group("links");
    group.throughput(Throughput::Elements(N));
    let serial = |mut wire: Serial| sizes().fold(Time::ZERO, |now, size| wire.serve(now, size));
    let bucket = |mut bucket: TokenBucket| {
        sizes().fold(Time::ZERO, |mut now, size| {
            while let Err(later) = bucket.take(now, size) {
                now = later;
            }
            now
        })
    };
    let rate = Rate::mbit(100);
    group.bench_function("serial", |b| {
        b.iter_batched(|| Serial::new(rate), serial, BatchSize::SmallInput)
    });
    // The rate changes every 10 ms, which is about eight frames.
    let steps: Vec<(Time, Rate)> = (1..10_000)
        .map(|n| {
            (
                Time::from_ns(n * 10_000_000),
                Rate::mbit(50 + n * 7919 % 100),
            )
        })
        .collect();
    let schedule = RateSchedule::new(rate, &steps).repeating(Span::s(100));
    group.bench_function("serial following a profile", |b| {
        b.iter_batched(
            || Serial::following(schedule.clone()),
            serial,
            BatchSize::SmallInput,
        )
    });
    let trace = DeliveryTrace::new((1..100_000).flat_map(|ms| [ms; 8]).collect());
    group.bench_function("opportunities", |b| {
        b.iter_batched(
            || trace.clone().expect("it lasts"),
            |mut link| sizes().fold(Time::ZERO, |now, size| link.serve(now, size)),
            BatchSize::SmallInput,
        )
    });
    group.bench_function("htb", |b| {
        b.iter_batched(
            || TokenBucket::owing(rate, Bytes::new(1600)),
            bucket,
            BatchSize::SmallInput,
        )
    });
    group.finish();
}

criterion_group!(benches, links);
criterion_main!(benches);
