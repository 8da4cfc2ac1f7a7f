//! Checks in some seconds how well this host is suited for live runs, and names remedies.
//!
//! | finding | measurement |
//! |---|---|
//! | privilege | creation of a namespace with a device; every live run creates two |
//! | congestion controls | those that the kernel has, permits to this user, and can load |
//! | tick, timer slack, real-time class | settings of the kernel |
//! | idle wake-up | lateness after sleeps of 5 ms, in which a processor enters an idle state |
//! | tick of 100 µs | lateness after sleeps of 100 µs; both with the calls and the class of the engine's thread |
//! | bare forwarder | pings through two namespaces and a loop that copies packets: the smallest possible RTT of a live run |
//!
//! The limits are those of the self-check of a run ([`crate::emulator::self_check`]). A lateness is
//! too large if it exceeds both 0.2 ms and 5 % of the RTT.

use crate::emulator::preflight;
use crate::emulator::probe::{Echoes, Pinging, Probes};
use crate::error::HostError;
use crate::netns::{Peer, Space, SpaceSpec};
use crate::sys;
use crate::sys::clock::Clock;
use crate::sys::kernel;
use crate::sys::netlink::RouteMetrics;
use narrows_core::engine::Departures;
use narrows_core::metrics::Histogram;
use narrows_core::rng::Rng;
use narrows_core::scenario::Spacing;
use narrows_core::units::{Span, Time};
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The grade of a finding.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Grade {
    /// Suitable.
    Good,
    /// Live runs work with less accuracy.
    Poor,
    /// Some or all live runs do not work.
    Missing,
}

/// The result of one check.
#[derive(Debug)]
struct Finding {
    what: &'static str,
    grade: Grade,
    /// The result in words.
    found: String,
    /// The remedy; empty if none is needed.
    cure: String,
    /// The numbers of the result as JSON.
    numbers: Value,
}

impl Finding {
    fn new(
        what: &'static str,
        grade: Grade,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        let (found, cure) = (found.into(), cure.into());
        Finding {
            what,
            grade,
            found,
            cure,
            numbers: Value::Null,
        }
    }
    fn numbers(self, numbers: Value) -> Finding {
        Finding { numbers, ..self }
    }
    fn to_json(&self) -> Value {
        let grade = match self.grade {
            Grade::Good => "good",
            Grade::Poor => "poor",
            Grade::Missing => "missing",
        };
        json!({ "what": self.what, "grade": grade, "found": self.found, "cure": self.cure,
        "numbers": self.numbers })
    }
}

/// Timer interval of the live engine.
const TICK: Span = Span::us(100);
const TICKING: Span = Span::s(3);
/// Duration of a sleep in which a processor enters an idle state.
const REST: Span = Span::ms(5);
const RESTING: Span = Span::s(1);
/// Largest lateness that is acceptable at every RTT.
const GOOD: Span = Span::us(200);
/// Largest median lateness of wake-ups after which idle states are not reported as a problem.
const GOOD_REST: Span = Span::us(100);
/// Largest median RTT of a good bare forwarder.
const GOOD_FORWARDER: Span = Span::us(300);
/// Largest lateness as a share of the RTT.
const PART_OF_RTT: f64 = 0.05;
/// Largest share of a processor's time that the hypervisor may take without a report (steal time).
const STOLEN: f64 = 0.01;
const FORWARDING: Span = Span::s(2);

/// Runs all checks in about 6 s and returns their results as JSON. `progress` receives the
/// completed share (0 to 1) and returns whether to continue. The process must have a single thread,
/// because it may create a user namespace.
pub fn look(progress: &mut dyn FnMut(f64) -> bool) -> Result<Value, HostError> {
    let mut step = |part| match !sys::stopped() && progress(part) {
        true => Ok(()),
        false => Err(HostError::Stopped),
    };
    step(0.0)?;
    let mut found = Vec::new();
    let user = sys::ids().0;
    let able = preflight::check_machine(&[]);
    let privileged = able.is_ok();
    found.push(match &able {
        Ok(()) if user == 0 => Finding::new("privilege", Grade::Good, "root", ""),
        Ok(()) => Finding::new("privilege", Grade::Good, "a user namespace", ""),
        Err(error) => {
            // The message states the remedy after its first colon.
            let text = error.to_string();
            let (what, cure) = text.split_once(": ").unwrap_or((&text, ""));
            Finding::new("privilege", Grade::Missing, what, cure)
        }
    });
    found.push(congestion_controls(user == 0));
    found.extend(settings());
    let stolen = stolen_time();
    // As during a live run.
    let _awake = sys::idle::forbid();
    let (rest, _) = on_a_thread(|| late(REST, RESTING));
    step(0.15)?;
    let (ticking, real_time) = on_a_thread(|| late(TICK, TICKING));
    step(0.6)?;
    found.push(real_time_class(real_time));
    found.push(idle(&rest, us(&ticking, 0.5)));
    found.push(tick(&ticking, real_time, stolen_time() - stolen));
    if privileged {
        found.push(forwarder()?);
    }
    step(1.0)?;
    let worst = |grade| found.iter().any(|f: &Finding| f.grade == grade);
    let least_ms = us(&ticking, 0.99) / 1e3 / PART_OF_RTT;
    let verdict = if !privileged {
        "no live runs".to_string()
    } else if us(&ticking, 0.99) <= GOOD.as_ns() as f64 / 1e3 {
        "live runs of any RTT".to_string()
    } else {
        format!("live runs with an RTT of at least {least_ms:.0} ms, under the present load")
    };
    Ok(json!({
        "verdict": verdict,
        "able": privileged,
        "good": !worst(Grade::Poor) && !worst(Grade::Missing),
        "kernel": kernel::to_json(),
        "findings": found.iter().map(Finding::to_json).collect::<Vec<_>>(),
    }))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // Scheduling class and timer slack are properties of the thread and end with it.
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn read(file: &str) -> String {
    fs::read_to_string(file)
        .unwrap_or_default()
        .trim()
        .to_string()
}

fn us(late: &Histogram, q: f64) -> f64 {
    late.percentile(q)
        .map_or(f64::NAN, |span| span.as_ns() as f64 / 1e3)
}

fn quantiles(late: &Histogram) -> Value {
    json!({ "p50": us(late, 0.5), "p99": us(late, 0.99), "p99_9": us(late, 0.999), "max": us(late,
    1.0) })
}

fn congestion_controls(root: bool) -> Finding {
    let ccs = kernel::ccs();
    let known = ["reno", "cubic", "bbr"];
    let has = |list: &[String], name: &str| list.iter().any(|n| n == name);
    let missing: Vec<&str> = known
        .into_iter()
        .filter(|n| !has(&ccs.available, n))
        .collect();
    let forbidden = ccs
        .available
        .iter()
        .filter(|n| !root && !has(&ccs.allowed, n));
    let forbidden: Vec<&str> = forbidden.map(String::as_str).collect();
    let mut cures = Vec::new();
    for name in &missing {
        cures.push(if has(&ccs.loadable, name) {
            format!("`sudo modprobe tcp_{name}`")
        } else {
            format!(
                "use a kernel with {name} (CONFIG_TCP_CONG_{})",
                name.to_uppercase()
            )
        });
    }
    if !forbidden.is_empty() {
        cures.push(format!(
            "`sudo sysctl net.ipv4.tcp_allowed_congestion_control=\"{}\"`",
            ccs.available.join(" ")
        ));
    }
    let mut text = ccs.available.join(", ");
    if !forbidden.is_empty() {
        text += &format!("; not permitted to this user: {}", forbidden.join(", "));
    }
    if !ccs.loadable.is_empty() {
        text += &format!("; loadable: {}", ccs.loadable.join(", "));
    }
    let grade = if missing.is_empty() && forbidden.is_empty() {
        Grade::Good
    } else {
        Grade::Missing
    };
    let numbers =
        json!({ "available": ccs.available, "allowed": ccs.allowed, "loadable": ccs.loadable });
    Finding::new("congestion controls", grade, text, cures.join("; ")).numbers(numbers)
}

/// Settings of the kernel: tick, timer slack, processors.
fn settings() -> Vec<Finding> {
    let hz = sys::kernel_hz();
    let slack = read("/proc/self/timerslack_ns")
        .parse::<f64>()
        .unwrap_or(50_000.0)
        / 1e3;
    let load: f64 = read("/proc/loadavg")
        .split_whitespace()
        .next()
        .and_then(|x| x.parse().ok())
        .unwrap_or(0.0);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let busy = load > 0.5 * processors as f64;
    let few = processors < 2;
    vec![
        Finding::new(
            "tick",
            Grade::Good,
            format!(
                "{hz} Hz: write `hz = {hz}` under [host] for a simulation of this machine, or \
                use `narrows agree`"
            ),
            "",
        )
        .numbers(json!({ "hz": hz })),
        Finding::new(
            "timer slack",
            Grade::Good,
            format!("{slack:.0} µs; live runs set it to 1 ns"),
            "",
        )
        .numbers(json!({ "us": slack })),
        Finding::new(
            "processors",
            if busy || few {
                Grade::Poor
            } else {
                Grade::Good
            },
            format!("{processors}, load {load:.1}"),
            match (busy, few) {
                (true, _) => "end other programs, or wait for them: live runs need 1.5 processors",
                (_, true) => "use two processors: one forwards packets, the other runs the hosts",
                _ => "",
            },
        )
        .numbers(json!({ "processors": processors, "load": load })),
    ]
}

fn real_time_class(permitted: bool) -> Finding {
    let number = |name: &str| {
        read(&format!("/proc/sys/kernel/{name}"))
            .parse::<i64>()
            .ok()
    };
    let (runtime, period) = (number("sched_rt_runtime_us"), number("sched_rt_period_us"));
    let numbers = json!({ "permitted": permitted, "runtime_us": runtime, "period_us": period });
    if !permitted {
        let text = "not permitted: the forwarding thread competes with all other threads";
        let cure = "run as root, or `ulimit -r 20` where limits.conf has `rtprio 20` for this user";
        return Finding::new("real-time class", Grade::Poor, text, cure).numbers(numbers);
    }
    let throttle = match (runtime, period) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 && runtime < period => {
            format!(
                "permitted for {:.0} % of each {:.1} s; a run that needs more reports it \
                 (`sudo sysctl kernel.sched_rt_runtime_us=-1`)",
                100.0 * runtime as f64 / period as f64,
                period as f64 / 1e6
            )
        }
        _ => "permitted, never throttled".to_string(),
    };
    Finding::new("real-time class", Grade::Good, throttle, "").numbers(numbers)
}

/// Measures how late a thread wakes up that sleeps until each multiple of `interval`. Also returns
/// whether the thread has a real-time class.
fn late(interval: Span, duration: Span) -> (Histogram, bool) {
    sys::prefer(-20);
    let real_time = sys::real_time(20);
    let clock = Clock::starting_in(interval);
    let mut late = Histogram::new();
    let mut at = Time::ZERO;
    while at < Time::ZERO + duration && !sys::stopped() {
        clock.sleep_until(at);
        let now = clock.now();
        late.record(now.since(at));
        // Intervals that have passed are skipped.
        let ticks = now.since(at).as_ns() / interval.as_ns() + 1;
        at = Time::from_ns(at.as_ns() + ticks * interval.as_ns());
    }
    (late, real_time)
}

/// The finding about wake-ups of idle processors. `ticking_us`: median lateness with sleeps so
/// short that processors do not become idle, µs.
fn idle(late: &Histogram, ticking_us: f64) -> Finding {
    let p50 = us(late, 0.5);
    let text = format!("late by p50 {p50:.0} µs, p99 {:.0} µs", us(late, 0.99));
    let good = p50 <= GOOD_REST.as_ns() as f64 / 1e3;
    // If wake-ups are late without idle states, too, the cause is other threads.
    let (grade, cure) = match (good, ticking_us > 0.5 * p50) {
        (true, _) => (Grade::Good, ""),
        (_, true) => (Grade::Poor, "end other programs, or run as root"),
        _ => (
            Grade::Poor,
            "disable deep sleep of the processors: `sudo cpupower idle-set -D 10`, or `idle=poll` \
             for the kernel of a guest",
        ),
    };
    Finding::new("idle wake-up", grade, text, cure).numbers(quantiles(late))
}

fn tick(late: &Histogram, real_time: bool, stolen: f64) -> Finding {
    let p99 = us(late, 0.99);
    let stolen = stolen / TICKING.as_s();
    let mut text = format!(
        "late by p50 {:.0} µs, p99 {p99:.0} µs, p99.9 {:.0} µs",
        us(late, 0.5),
        us(late, 0.999)
    );
    if stolen > STOLEN {
        text += &format!(
            "; the hypervisor used {:.0} % of a processor",
            100.0 * stolen
        );
    }
    let good = p99 <= GOOD.as_ns() as f64 / 1e3;
    let cure = match (good, stolen > STOLEN, real_time) {
        (true, _, _) => String::new(),
        (_, true, _) => "use a machine that is less shared".into(),
        (_, _, false) => "run as root, for the real-time class".into(),
        _ => "end other programs; see idle wake-up".into(),
    };
    let mut numbers = quantiles(late);
    numbers["stolen"] = json!(stolen);
    numbers["real_time"] = json!(real_time);
    let grade = if good { Grade::Good } else { Grade::Poor };
    Finding::new("tick of 100 µs", grade, text, cure).numbers(numbers)
}

/// Steal time of all processors since the boot, s.
fn stolen_time() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = text
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
    // The unit in /proc/stat is 1/USER_HZ, 1/100 s.
    of.unwrap_or(0.0) / 100.0
}

/// Measures the RTT of pings between two hosts that a loop connects by copying packets.
fn forwarder() -> Result<Finding, HostError> {
    let at = |n| IpAddr::from([10, 0, 0, n]);
    let spec = |own, other| SpaceSpec {
        addresses: vec![at(own)],
        peers: vec![Peer {
            address: at(other),
            metrics: RouteMetrics {
                iw: 10,
                ecn: false,
                mss: None,
                quickack: false,
                rto_min_ms: None,
            },
        }],
        qdisc: "pfifo",
        ..SpaceSpec::default()
    };
    let spaces = [Space::new(&spec(1, 2))?, Space::new(&spec(2, 1))?];
    let ping = [Pinging {
        departures: Departures::new(Span::ms(5), Spacing::Constant, Rng::default()),
        dscp: 0,
        from: SocketAddr::new(at(1), 8000),
        to: SocketAddr::new(at(2), 7000),
    }];
    let stop = AtomicBool::new(false);
    let failed = || {
        HostError::Failed(
            "the bare forwarder",
            std::io::Error::other("a thread failed"),
        )
    };
    let meters = thread::scope(|scope| {
        let echo = scope.spawn(|| {
            spaces[1]
                .enter()
                .and_then(|()| Echoes::new(&ping)?.run(&stop))
        });
        let copy = scope.spawn(|| copy(&spaces, &stop));
        let pinging = scope.spawn(|| {
            spaces[0].enter()?;
            // The responder is ready after this time.
            let clock = Clock::starting_in(Span::ms(50));
            clock.sleep_until(Time::ZERO);
            Probes::new(&ping)?.run(clock, Time::ZERO + FORWARDING, &stop)
        });
        while !pinging.is_finished() && !sys::stopped() {
            thread::sleep(std::time::Duration::from_millis(20));
        }
        stop.store(sys::stopped(), Ordering::Relaxed);
        let meters = pinging.join();
        stop.store(true, Ordering::Relaxed);
        let (echoed, copied) = (echo.join(), copy.join());
        let meters = meters.map_err(|_| failed())??;
        echoed.map_err(|_| failed())??;
        copied
            .map_err(|_| failed())?
            .map_err(HostError::failed("the bare forwarder"))?;
        Ok::<_, HostError>(meters)
    })?;
    let rtt = meters[0]
        .metrics(narrows_core::scenario::ProbeKind::Ping.name(), Time::ZERO)
        .rtt_ms;
    let (p50, p99) = (1e3 * rtt.p50, 1e3 * rtt.p99);
    let good = p50 <= GOOD_FORWARDER.as_ns() as f64 / 1e3;
    let (grade, cure) = match good {
        true => (Grade::Good, ""),
        false => (
            Grade::Poor,
            "see idle wake-up; each ping wakes four threads",
        ),
    };
    let text = format!("RTT of a ping: p50 {p50:.0} µs, p99 {p99:.0} µs");
    Ok(
        Finding::new("bare forwarder", grade, text, cure)
            .numbers(json!({ "p50": p50, "p99": p99 })),
    )
}

/// Copies packets between two devices until `stop` is set.
fn copy(spaces: &[Space; 2], stop: &AtomicBool) -> std::io::Result<()> {
    sys::prefer(-20);
    sys::real_time(20);
    let fds = [0, 1].map(|i: usize| spaces[i].device.as_raw_fd());
    let mut packet = vec![0; 65_536 + 64];
    while !stop.load(Ordering::Relaxed) {
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(n) = sys::read(&spaces[from].device, &mut packet)? {
                // The packet is lost if the receiving device's queue is full.
                let _ = sys::write(&spaces[to].device, &packet[..n], &[]);
            }
        }
        sys::wait_readable(&fds, Span::ms(20).as_ns())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(us: &[u64]) -> Histogram {
        let mut late = Histogram::new();
        us.iter().for_each(|x| late.record(Span::us(*x)));
        late
    }

    #[test]
    fn lateness_has_a_remedy() {
        let good = tick(&histogram(&[10, 20, 30]), true, 0.0);
        assert_eq!((good.grade, good.cure.as_str()), (Grade::Good, ""));
        for (real_time, stolen, word) in [
            (true, 0.0, "end other"),
            (false, 0.0, "root"),
            (true, 0.5, "shared"),
        ] {
            let poor = tick(&histogram(&[900, 900]), real_time, stolen);
            assert_eq!(poor.grade, Grade::Poor);
            assert!(poor.cure.contains(word), "{}", poor.cure);
        }
        assert_eq!(idle(&histogram(&[20, 20]), 10.0).grade, Grade::Good);
        assert!(idle(&histogram(&[400, 400]), 10.0).cure.contains("sleep"));
        assert!(
            idle(&histogram(&[400, 400]), 390.0)
                .cure
                .contains("end other")
        );
    }

    #[test]
    fn a_missing_real_time_class_has_a_remedy() {
        assert!(real_time_class(false).cure.contains("root"));
    }
}
