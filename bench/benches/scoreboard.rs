#![allow(missing_docs)] // what the macros below make has none
//! Measures the SACK scoreboard of the sender alone. `bench/scale.py` and `bench/process.py`
//! measure whole runs.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_core::tcp::scoreboard::{Scoreboard, Seg, Snapshot};

/// 20 000 segments are in flight, and every second one is lost. The others are SACKed one at a
/// time, and the lost ones are marked and retransmitted. At the end all are acknowledged.
fn scoreboard(c: &mut Criterion) {
    const N: u64 = 20_000;
    const MSS: u64 = 1448;
    let mut group = c.benchmark_group("scoreboard");
    group.throughput(Throughput::Elements(N));
    group.bench_function("20000 in flight, 10000 holes", |b| {
        let full = || {
            let mut board = Scoreboard::default();
            (0..N).for_each(|i| board.push(MSS, &Seg::sent(i, &Snapshot::default()), 0));
            board
        };
        let recover = |mut board: Scoreboard| {
            for i in (1..N).step_by(2) {
                let from = board.number_of(i * MSS);
                if let Some(n) = board.next_unsacked(from, (i + 1) * MSS) {
                    board.sack(n);
                }
                board.mark_lost_by_rack(i - 1);
                if let Some(n) = board.next_to_retransmit() {
                    board.resend(n, N + i, &Snapshot::default(), true);
                }
            }
            while board.pop_acked(N * MSS).is_some() {}
            board
        };
        b.iter_batched(full, recover, BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, scoreboard);
criterion_main!(benches);
