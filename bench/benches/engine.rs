#![allow(missing_docs)] // what the macros below make has none
//! Segments per second, by what is simulated. `make bench` runs these, then the whole process (`bench/process.py`).

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::tcp::scoreboard::Scoreboard;
use narrows_core::tcp::wire::Range;
use narrows_sim::{run, Options, Packet};

fn scenario(registry: &Registry<Packet>, flows: u32, rate: &str, rtt: &str) -> Scenario {
    let text = format!(
        "title = \"bench\"\nduration = \"5s\"\n[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\nbuffer = \"1bdp\"\n\
         [[flow]]\ncc = \"cubic\"\ncount = {flows}\n"
    );
    Scenario::from_toml(&text, "bench", registry).expect("a valid scenario")
}

/// Whole runs: the throughput is segments delivered in order.
fn runs(c: &mut Criterion) {
    let registry = Registry::standard();
    let mut group = c.benchmark_group("run");
    group.sample_size(10);
    for (flows, rate, rtt) in [(1, "100Mbit", "40ms"), (10, "1Gbit", "20ms"), (100, "1Gbit", "20ms")] {
        let scenario = scenario(&registry, flows, rate, rtt);
        let go = || run(&scenario, &registry, &Options::default(), &mut |_| true).expect("a run");
        let bytes: u64 = go()
            .flows
            .iter()
            .filter_map(|f| f.series.last())
            .map(|point| point.1)
            .sum();
        group.throughput(Throughput::Elements(bytes / 1448));
        group.bench_function(format!("{flows} cubic, {rate}, {rtt}"), |b| b.iter(go));
    }
    group.finish();
}

/// 20 000 segments in flight, every second one lost: SACKed one ACK at a time, found lost, sent again, acknowledged.
fn scoreboard(c: &mut Criterion) {
    const N: u64 = 20_000;
    const MSS: u64 = 1448;
    let mut group = c.benchmark_group("scoreboard");
    group.throughput(Throughput::Elements(N));
    group.bench_function("20000 in flight, 10000 holes", |b| {
        let full = || {
            let mut board = Scoreboard::new(MSS as u32);
            (0..N).for_each(|i| board.push(MSS as u32, i, 0, 0));
            board
        };
        let recover = |mut board: Scoreboard| {
            for i in (1..N).step_by(2) {
                let block = Range {
                    start: i * MSS,
                    end: (i + 1) * MSS,
                };
                let at = board.number_of(block.start);
                if let Some(n) = board.next_unsacked(at, block) {
                    board.sack(n);
                }
                board.mark_lost_by_rack(i - 1);
                if let Some(n) = board.next_to_retransmit() {
                    board.resend(n, N + i, 0, true);
                }
            }
            while board.pop_acked(N * MSS).is_some() {}
            board
        };
        b.iter_batched(full, recover, BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, runs, scoreboard);
criterion_main!(benches);
