//! Runs one set-up of `bench/scale.py`: several flows of one congestion control over one path with
//! a buffer of one BDP, in the engine alone. The queue is drop-tail, or a named discipline with its
//! own limit. It prints the results as JSON; the caller measures its CPU time.
//!
//!     scale CC FLOWS RATE RTT DURATION [QUEUE] [--threads N]
//!                                 e.g. scale cubic 100 1Gbit 20ms 30s fq_codel
//!     scale --list                                 the registered congestion controls
//!
//! The run has no samples over time, but computes all metrics.

#[path = "../../../sim/tests/common/counting.rs"]
mod counting;

use counting::{Counting, counts};
use narrows_core::cc::Need;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::tcp::MSS;
use narrows_sim::{Options, Packet, run};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let registry = Registry::standard();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut threads = 1;
    if let [.., "--threads", number] = args[..] {
        threads = number.parse().unwrap_or(1);
        args.truncate(args.len() - 2);
    }
    let done = match args[..] {
        ["--list"] => Ok(registry
            .ccs()
            .iter()
            .map(|kind| kind.name)
            .collect::<Vec<_>>()
            .join("\n")),
        [cc, flows, rate, rtt, duration] => {
            let needs = |need| registry.cc(cc).is_some_and(|kind| kind.needs(need));
            let queue = if needs(Need::Feedback) {
                "queue = \"xcp\"\n"
            } else {
                ""
            };
            scale(
                &registry,
                cc,
                flows,
                rate,
                rtt,
                duration,
                &format!("{queue}buffer = \"1bdp\""),
                threads,
            )
        }
        [cc, flows, rate, rtt, duration, queue] => {
            let queue = format!("queue = \"{queue}\"");
            scale(&registry, cc, flows, rate, rtt, duration, &queue, threads)
        }
        _ => Err(
            "usage: scale CC FLOWS RATE RTT DURATION [QUEUE] [--threads N], or scale --list".into(),
        ),
    };
    narrows_bench::exit_code(done)
}

#[allow(clippy::too_many_arguments)] // those of the command line
fn scale(
    registry: &Registry<Packet>,
    cc: &str,
    flows: &str,
    rate: &str,
    rtt: &str,
    duration: &str,
    queue: &str,
    threads: usize,
) -> Result<String, String> {
    let text = format!(
        "title = \"scale\"\nduration = \"{duration}\"\n[path]\nrate = \"{rate}\"\nrtt = \
         \"{rtt}\"\n{queue}\n\
         [[flow]]\ncc = \"{cc}\"\ncount = {flows}\n"
    );
    let scenario = Scenario::from_toml(&text, "scale", registry).map_err(|e| e.to_string())?;
    let options = Options {
        sample_interval: None,
        threads,
        ..Options::default()
    };
    let before = counts().live;
    let (mut events, mut end) = (0, counts());
    let run = run(&scenario, registry, &options, &mut |p| {
        (events, end) = (p.events, counts());
        true
    })
    .map_err(|e| e.to_string())?;
    let bytes: u64 = run
        .flows
        .iter()
        .filter_map(|f| f.series.last())
        .map(|point| point.1)
        .sum();
    let retransmits: u64 = run.flows.iter().map(|f| f.retransmits).sum();
    Ok(format!(
        "{{\"segments\": {}, \"retransmits\": {retransmits}, \"drops\": {}, \"events\": {events}, \
         \"jain\": {:.4}, \
         \"heap_bytes\": {}, \"heap_peak_bytes\": {}}}",
        bytes / u64::from(MSS),
        run.queue.drops,
        run.fairness.jain,
        end.live - before,
        end.peak - before,
    ))
}
