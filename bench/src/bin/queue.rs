//! `queue NAME FLOWS PACKETS TURNS`: so many turns of a discipline alone, as `benches/queues.rs` times them. For what counts
//! instructions: those of 20 turns less those of 10 are those of [`TURN`] times 10 packets.

use narrows_bench::{Standing, TURN};
use narrows_core::queue;
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|word| word.parse::<usize>().ok());
    let (Some(name), Some(flows), Some(standing), Some(turns)) = (args.first(), number(1), number(2), number(3)) else {
        eprintln!("queue NAME FLOWS PACKETS TURNS");
        std::process::exit(2);
    };
    let kinds = queue::kinds();
    let Some(kind) = kinds.iter().find(|kind| kind.name == name) else {
        eprintln!("there is no queue discipline {name}");
        std::process::exit(2);
    };
    let mut queue = Standing::new(kind, flows as u64, standing).expect("defaults that go together");
    let mut least = Duration::MAX;
    for _ in 0..turns {
        let begin = Instant::now();
        queue.turn();
        least = least.min(begin.elapsed());
    }
    println!("{name}: {:.1} ns for a packet", least.as_nanos() as f64 / TURN as f64);
}
