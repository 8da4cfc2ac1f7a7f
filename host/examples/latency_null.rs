//! Cost of the latency engine: exchanges over a line without a network and with a free clock,
//! without system calls.
//!
//! `cargo run --release -p narrows-host --example latency_null -- 10000000`

use narrows_host::latency::exchange::{Pace, Plan, run};
use narrows_host::latency::null_line::NullLine;
use narrows_host::latency::protocol::Own;

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

fn main() {
    let count = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(10_000_000);
    let plan = Plan {
        count,
        lasts: u64::MAX,
        pace: Pace::PingPong,
        interval: 0,
        warmup: 0,
        ..Plan::default()
    };
    let (mut least, mut most) = (u64::MAX, 0);
    let began = std::time::Instant::now();
    let seen = run(
        &plan,
        &mut NullLine::default(),
        &mut Own { cookie: [0; 16] },
        &mut |_| {
            let kb = resident_kb();
            (least, most) = (least.min(kb), most.max(kb));
            true
        },
    );
    let took = began.elapsed();
    let answered = seen.map_or(0, |seen| seen.answered);
    println!(
        "{answered} exchanges: {:.0} ns each; {least} to {most} kB resident",
        took.as_nanos() as f64 / f64::from(count)
    );
}
