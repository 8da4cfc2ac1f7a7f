//! `queue NAME FLOWS PACKETS TURNS` runs turns of a queue discipline alone, as `benches/queues.rs`
//! does, for tools that count instructions. `PACKETS` is the standing backlog. The instructions of
//! 20 turns minus those of 10 turns are those of 10 times [`TURN`] packets. The program prints the
//! time per packet of the fastest and of the median turn. With time, the backlog concentrates in
//! few flows, which some disciplines may serve more slowly.

use narrows_bench::{Standing, TURN};
use narrows_core::queue;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|word| word.parse::<usize>().ok());
    let (Some(name), Some(flows), Some(standing), Some(turns @ 1..)) =
        (args.first(), number(1), number(2), number(3))
    else {
        eprintln!("queue NAME FLOWS PACKETS TURNS");
        std::process::exit(2);
    };
    let kinds = queue::kinds();
    let Some(kind) = kinds.iter().find(|kind| kind.name == name) else {
        eprintln!("there is no queue discipline {name}");
        std::process::exit(2);
    };
    let mut queue = Standing::new(kind, flows as u64, standing).expect("defaults that go together");
    let mut times = Vec::new();
    for _ in 0..turns {
        let begin = Instant::now();
        queue.turn();
        times.push(begin.elapsed());
    }
    times.sort();
    let [least, median] = [0, times.len() / 2].map(|at| times[at].as_nanos() as f64 / TURN as f64);
    println!("{name}: {least:.1} ns for a packet, {median:.1} in the median turn");
}
