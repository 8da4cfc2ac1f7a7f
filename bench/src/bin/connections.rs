//! Measures the cost of short connections: transfers of 10 kB begin at random times over a fast
//! path. The program measures the CPU time and memory of the engine.
//!
//!     connections [NUMBER]          [default: 100000]
//!
//! It prints JSON. The cost per connection should not depend on their number: run it with 10 000
//! and with 1 000 000.

#[path = "../../../sim/tests/common/counting.rs"]
mod counting;

use counting::{Counting, counts};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet, run};
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Connections per second. At an RTT of 40 ms about 60 are open at the same time.
const PER_SECOND: u64 = 1000;

fn main() -> ExitCode {
    let many = std::env::args()
        .nth(1)
        .map_or(Ok(100_000), |n| n.parse::<u64>());
    narrows_bench::exit_code(many.map_err(|e| e.to_string()).and_then(measure))
}

fn measure(many: u64) -> Result<String, String> {
    let text = format!(
        "duration = \"{}s\"\nwarmup = \"0s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"40ms\"\n[[flow]]\n\
         workload = {{ kind = \"poisson\", load = \"80Mbit\", mean = \"10kB\", sizes = \"fixed\" \
         }}\n",
        (many / PER_SECOND).max(1)
    );
    let registry: Registry<Packet> = Registry::standard();
    let scenario =
        Scenario::from_toml(&text, "connections", &registry).map_err(|e| e.to_string())?;
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    let (before, begun) = (counts(), Instant::now());
    let done = run(&scenario, &registry, &options, &mut |_| true).map_err(|e| e.to_string())?;
    let (after, took) = (counts(), begun.elapsed());
    let seen = done.flows[0].workload.as_ref().ok_or("no figures")?;
    let completed = seen.number("completed");
    Ok(format!(
        "{{\"connections\": {completed}, \"seconds\": {:.3}, \"us_each\": {:.2}, \
         \"allocations_each\": {:.1}, \"heap_peak_bytes\": {}}}",
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / completed,
        (after.allocations - before.allocations) as f64 / completed,
        after.peak.saturating_sub(before.live),
    ))
}
