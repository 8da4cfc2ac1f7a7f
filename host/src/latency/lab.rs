//! Compares scheduling policies in a latency test, with and without load on the processors.
//!
//! ```text
//!   round 1:   no load   A  B  C      load   A  B  C
//!   round 2:   no load   A  B  C      load   A  B  C      …
//! ```
//!
//! **Alternating rounds.** Other activity on a host changes over minutes. If policies were measured
//! one after the other, this activity would affect only some of them. Each policy is therefore
//! measured for a part (slice) of every round.
//!
//! **Threshold.** All policies have the same threshold for slow answers, [`SLOW`] by default.
//!
//! **Load** consists of `HOGS` processes of the ordinary scheduling class per processor, which
//! only compute. They end with the load's part of the round, with this process, or after
//! `LONGEST`.
//!
//! **Cost** is reported as two CPU times during the slices of a policy. One is that of this
//! process, including threads that keep processors awake. The other is that of the load processes.
//! The less CPU time the load processes got, the more the policy took from them. The CPU time of
//! the server is not included.

use super::exchange::{Outcome, Pulse};
use super::load::Load;
use super::options::Options;
use super::policy::Policy;
use super::{document, slice};
use crate::HostError;
use crate::sys;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Default response time from which on an answer is slow, ns.
pub const SLOW: u64 = 1_000_000;
/// Number of load processes per processor.
const HOGS: usize = 2;
/// Longest life of a load process, ns.
const LONGEST: u64 = 600_000_000_000;
/// The shortest slice, ns. Starting a slice takes some milliseconds.
const SHORTEST: u64 = 200_000_000;

/// The load processes; dropping this value ends them.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(load: Load) -> Result<Hogs, HostError> {
        let mut hogs = Hogs(Vec::new());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = if load == Load::Cpu { HOGS * cpus } else { 0 };
        let program = std::env::current_exe().map_err(HostError::failed("this program"))?;
        for _ in 0..wanted {
            let child = Command::new(&program)
                .arg("hog")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .map_err(HostError::failed("a process of load"))?;
            hogs.0.push(child);
        }
        Ok(hogs)
    }
    /// Returns the CPU time of the load processes so far, ns.
    fn had(&self) -> u64 {
        let of = |hog: &Child| {
            let told = std::fs::read_to_string(format!("/proc/{}/schedstat", hog.id())).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        };
        self.0.iter().filter_map(of).sum()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// A load process: computes until it is killed, its parent ends, or `LONGEST` has passed.
pub fn hog() {
    // A load process ends with its parent, and by Ctrl-C.
    sys::end_with_parent();
    let end = sys::monotonic() + LONGEST;
    let mut sum = 1_u64;
    while sys::monotonic() < end {
        for i in 0..100_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
        }
    }
}

/// The combination of one policy and one load, and its result.
struct Setup<'a> {
    policy: &'a Policy,
    load: Load,
    refused: Option<String>,
    seen: Outcome,
    far: Value,
    carrier: &'static str,
    cpu: u64,
    hogs: u64,
    wall: u64,
    called_off: bool,
    awake_by: Option<&'static str>,
}

/// Runs the comparison. Returns JSON with common data, and a document for each combination of
/// policy and load.
pub fn run(
    options: &Options,
    to: SocketAddr,
    progress: &mut dyn FnMut(Pulse) -> bool,
) -> Result<Value, HostError> {
    let mut options = options.clone();
    options.plan.slow = options.plan.slow.or(Some(SLOW));
    let policies = options.policies.clone();
    let mut setups: Vec<Setup> = Vec::new();
    for load in &options.loads {
        for policy in &policies {
            setups.push(Setup {
                policy,
                load: *load,
                refused: policy.permitted().err().map(|why| why.to_string()),
                seen: Outcome::default(),
                far: Value::Null,
                carrier: "",
                cpu: 0,
                hogs: 0,
                wall: 0,
                called_off: false,
                awake_by: None,
            });
        }
    }
    let permitted = setups
        .iter()
        .filter(|setup| setup.refused.is_none())
        .count();
    if permitted == 0 {
        let why = setups
            .iter()
            .find_map(|setup| setup.refused.clone())
            .unwrap_or_default();
        return Err(HostError::Missing(format!(
            "none of these policies is permitted on this host: {why}"
        )));
    }
    let rounds = options.rounds.max(1);
    let mut plan = options.plan.clone();
    if plan.lasts < u64::MAX {
        plan.lasts = (plan.lasts / u64::from(rounds)).max(SHORTEST);
    }
    if plan.count < u32::MAX {
        plan.count = (plan.count - plan.warmup).div_ceil(rounds).max(1) + plan.warmup;
    }
    options.plan = plan;
    let slices = (permitted * rounds as usize) as f64;
    let mut done = 0.0;
    let mut interrupted = false;
    'rounds: for _ in 0..rounds {
        for load in options.loads.clone() {
            let hogs = Hogs::start(load)?;
            for setup in setups
                .iter_mut()
                .filter(|s| s.load == load && s.refused.is_none())
            {
                options.policy = setup.policy.clone();
                let before = (sys::process_cpu(), hogs.had(), sys::monotonic());
                let told = slice(&options, to, &mut |pulse| {
                    progress(Pulse {
                        interval: None,
                        share: (done + pulse.share) / slices,
                        outcome: pulse.outcome,
                    })
                });
                let told = match told {
                    Ok(told) => told,
                    // Stopped before any answer of this slice: the earlier slices are kept.
                    Err(HostError::Stopped) if done > 0.0 => {
                        interrupted = true;
                        break 'rounds;
                    }
                    Err(error) => return Err(error),
                };
                setup.cpu += sys::process_cpu() - before.0;
                setup.hogs += hogs.had() - before.1;
                setup.wall += sys::monotonic() - before.2;
                setup.seen.merge(&told.seen);
                setup.far = told.far;
                setup.carrier = told.carrier;
                setup.called_off |= told.called_off;
                setup.awake_by = told.awake_by;
                done += 1.0;
                if told.seen.interrupted || sys::stopped() {
                    interrupted = true;
                    break 'rounds;
                }
            }
        }
    }
    for setup in setups
        .iter_mut()
        .filter(|s| s.refused.is_none() && s.seen.answered == 0)
    {
        setup.refused = Some(format!(
            "the test was stopped before policy {} was measured",
            setup.policy.text()
        ));
    }
    let told = setups.iter().map(|setup| {
        let s = |ns: u64| ns as f64 / 1e9;
        let mut one = json!({ "policy": setup.policy.text(), "load": setup.load.name(),
            "refused": setup.refused });
        if setup.refused.is_none() {
            options.policy = setup.policy.clone();
            one["latency"] = document(&options, to, &setup.seen, &setup.far, setup.carrier);
            one["wall_s"] = json!(s(setup.wall));
            one["cpu_s"] = json!(s(setup.cpu));
            one["load_cpu_s"] = if setup.load == Load::None {
                Value::Null
            } else {
                json!(s(setup.hogs))
            };
            one["called_off"] = json!(setup.called_off);
            one["awake_by"] = json!(setup.awake_by);
        }
        one
    });
    let setups: Vec<Value> = told.collect();
    Ok(json!({
        "narrows": env!("CARGO_PKG_VERSION"),
        "kind": "latency_lab",
        "host": options.host,
        "rounds": rounds,
        "interrupted": interrupted,
        "slow_us": options.plan.slow.map(|ns| ns as f64 / 1000.0),
        "setups": setups,
    }))
}
