//! Runs arbitrary programs on two hosts that the emulated path connects (`narrows shell`).
//!
//! There are two hosts, `near` and `far`, with programs instead of flows. The run lasts as long as
//! the front program. Background programs that do not end by themselves then receive SIGTERM, and
//! later SIGKILL.
//!
//! **Direction.** Download is towards `near` and upload away from it, as in every measurement:
//! `[path]` carries the traffic to `near` and `[path.reverse]` the traffic from it. The host `near`
//! is therefore at the receiving port of the core's path ([`FAR`](narrows_core::net::FAR)), and the
//! host `far` at its sending port.

use crate::emulator::engine;
use crate::emulator::frame::Frame;
use crate::emulator::hosts::{self, Place};
use crate::emulator::self_check::{Conditions, confess, lateness};
use crate::emulator::traffic::Writes;
use crate::emulator::{Emulator, Machine};
use crate::error::HostError;
use crate::netns::{Space, has_ipv6, overflow};
use crate::sys;
use crate::sys::clock::Clock;
use crate::sys::process;
use narrows_core::engine::Options;
use narrows_core::metrics::QueueMetrics;
use narrows_core::net::Port;
use narrows_core::packet::Ip;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Span, Time, format_rate};
use serde_json::{Value, json};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a background program to listen on a port.
const LISTENS_WITHIN: Duration = Duration::from_secs(1);
/// Time for which a background program may continue after the front program has ended, until
/// SIGTERM, and the same time again until SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// Interval between two checks whether a program has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Shortest and longest interval between two reports of the time, in virtual time. The host ends a
/// virtual machine that uses a minute of CPU time without a report.
const LOOK_VIRTUAL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// Number of context switches since the last report from which on the machine counts as busy.
const BUSY: u64 = 2_000;
/// Duration of the scenario of a shell, longer than any run.
const FOREVER: Span = Span::s(1_000_000_000);

/// A host of a shell.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// The client, to which downloads go.
    #[default]
    Near,
    /// The server.
    Far,
}

impl End {
    /// The name of the host.
    pub fn name(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }
    /// The index of the host's addresses: 0 for `near`, 1 for `far`. It is not the host's port of
    /// the path.
    fn host(self) -> Port {
        match self {
            End::Near => 0,
            End::Far => 1,
        }
    }
}

/// Names and descriptions of a capture's interfaces, in the order of the path's ports: `far` is at
/// the sending port.
const RECORDED: [(&str, &str); 2] = [
    ("far", "the host at the other end of the path"),
    ("near", "the client's end of the path"),
];

/// A program and its host.
#[derive(Clone, Debug)]
pub struct Program {
    /// The host of the program.
    pub at: End,
    /// The name and arguments of the program.
    pub words: Vec<String>,
}

/// The result of a shell.
pub struct Seen {
    /// Exit code of the front program, as shells report it.
    pub code: u8,
    /// Duration of the run.
    pub lasted: Span,
    /// Metrics of every hop.
    pub queues: Vec<HopMetrics>,
    /// Whether the upload has a rate and a queue (`[path.reverse]`); otherwise it is only delayed.
    pub upload_limited: bool,
    /// The result of the self-check.
    pub instruments: Value,
    /// The result of writing the capture.
    pub recorded: Result<(), HostError>,
}

/// Metrics of a hop.
pub struct HopMetrics {
    /// `"down"`, towards `near`, or `"up"`.
    pub direction: &'static str,
    /// The rate of the hop, as text.
    pub rate: String,
    /// Metrics of the hop's queue.
    pub queue: QueueMetrics,
    /// Random losses, packets.
    pub random_losses: u64,
}

/// The place of a host.
fn place(end: End) -> Place {
    Place {
        port: end.host(),
        host: None,
    }
}

/// The content of `/etc/hosts` on a host: both hosts first, then the entries of this machine.
fn hosts_file(address: impl Fn(Port) -> IpAddr) -> String {
    let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let line = |end: End| format!("{} {}\n", address(end.host()), end.name());
    // IPv6 addresses have separate names (`near6`, `far6`), so that a program uses IPv6 only on
    // request.
    let line6 = |end: End| {
        let address = hosts::address(end.host(), 0, Ip::V6, false);
        format!("{address} {}6\n", end.name())
    };
    format!(
        "127.0.0.1 localhost\n{}{}{}{}{own}",
        line(End::Near),
        line(End::Far),
        line6(End::Near),
        line6(End::Far)
    )
}

/// Number of listening TCP sockets and of UDP sockets in this thread's network namespace.
fn listening() -> usize {
    let lines = |table: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
    };
    // The fourth field is the state; 0A means listening. Datagram sockets have no state.
    let tcp = ["tcp", "tcp6"].map(|t| {
        lines(t)
            .lines()
            .filter(|l| l.split_whitespace().nth(3) == Some("0A"))
            .count()
    });
    let udp = ["udp", "udp6"].map(|t| lines(t).lines().count().saturating_sub(1));
    tcp.iter().chain(&udp).sum()
}

/// A running program.
struct Running<'scope> {
    pid: u32,
    thread: thread::ScopedJoinHandle<'scope, (u8, u64)>,
    /// Disconnected when the thread ends.
    ended: mpsc::Receiver<()>,
}

impl Running<'_> {
    /// Waits for the end of the program, at most for `limit`; returns whether it has ended.
    fn ends_within(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        while !self.thread.is_finished() && begin.elapsed() < limit {
            thread::sleep(LOOK);
        }
        self.thread.is_finished()
    }
    /// Ends the program: waits, sends SIGTERM, then SIGKILL. Returns its exit code, and the drops
    /// of the device of its host.
    fn end(self) -> (u8, u64) {
        if !self.ends_within(GRACE) {
            process::signal(self.pid, libc::SIGTERM);
            if !self.ends_within(GRACE) {
                process::signal(self.pid, libc::SIGKILL);
            }
        }
        self.thread.join().unwrap_or((1, 0))
    }
}

/// Starts `program` in `space`, on a thread that waits for its end. With `beside` (a background
/// program), returns only when the program listens on a port, has ended, or after
/// [`LISTENS_WITHIN`].
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    space: &'scope Space,
    program: Program,
    beside: bool,
) -> Result<Running<'scope>, HostError> {
    let (tell, told) = mpsc::channel();
    let (alive, ended) = mpsc::channel();
    let thread = scope.spawn(move || {
        // This sender is dropped at the end of the thread.
        let _alive: mpsc::Sender<()> = alive;
        let prepared = || -> Result<Child, HostError> {
            space.enter()?;
            process::new_hosts_file(&hosts_file(|port| hosts::address(port, 0, Ip::V4, false)))
                .map_err(HostError::failed("mounts of its own"))?;
            process::new_processes().map_err(HostError::failed("processes of its own"))?;
            process::start(&program.words, program.at.name(), beside)
                .map_err(HostError::failed("a program"))
        };
        let before = || if beside { listening() } else { 0 };
        let mut child = match prepared() {
            Ok(child) => child,
            Err(error) => {
                let _ = tell.send(Err(error));
                return (1, 0);
            }
        };
        let (begin, first) = (Instant::now(), before());
        while beside
            && begin.elapsed() < LISTENS_WITHIN
            && listening() <= first
            && matches!(child.try_wait(), Ok(None))
        {
            thread::sleep(LOOK);
        }
        let _ = tell.send(Ok(child.id()));
        let code = child.wait().map_or(1, process::code_of);
        (code, overflow())
    });
    match told.recv() {
        Ok(Ok(pid)) => Ok(Running { pid, thread, ended }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(HostError::Failed(
            "a thread",
            std::io::Error::other("it ended at once"),
        )),
    }
}

/// Runs `front` and the programs `beside` it over the path of `scenario`, whose flows and probes
/// are ignored. Every packet is written to the file `record`, if given.
/// [`gain_privilege`](crate::emulator::preflight::gain_privilege) and [`process::listen`] must have
/// been called.
pub fn run(
    machine: Machine,
    scenario: &Scenario,
    registry: &Registry<Frame>,
    front: &Program,
    beside: &[Program],
    record: Option<&Path>,
    progress: &mut dyn FnMut(Time),
) -> Result<Seen, HostError> {
    for program in beside.iter().chain([front]) {
        if !process::found(&program.words[0]) {
            let text = format!("{}: no such program; nothing was started", program.words[0]);
            return Err(HostError::Missing(text));
        }
    }
    if scenario.wifi.is_some() {
        let problem = "is not supported by a shell, which has two hosts and a path; write [path], \
            or use `narrows run --engine live`";
        return Err(HostError::Key("wifi".into(), problem.into()));
    }
    if scenario.host.keys.get("delayed_ack_max").is_some() {
        let problem = "is not supported by a shell, whose programs open the sockets; remove it";
        return Err(HostError::Key(
            "host.delayed_ack_max".into(),
            problem.into(),
        ));
    }
    if scenario.path.links.is_some() {
        let problem = "is not supported by a shell, whose programs have no routes; write [path]";
        return Err(HostError::Key(scenario.section_of_hop(0), problem.into()));
    }
    let mut scenario = scenario.clone();
    (scenario.flows, scenario.probes) = (Vec::new(), Vec::new());
    (scenario.duration, scenario.warmup) = (FOREVER, Span::ZERO);
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    let mut emulator = engine::emulator(&scenario, registry, &options, machine)?;
    let writer = engine::recorded(&mut emulator, &scenario, record, RECORDED)?;
    let six = has_ipv6();
    let space = |scenario: &Scenario, end: End| hosts::space(scenario, place(end), six);
    let spaces = [
        Space::new(&space(&scenario, End::Near)?)?,
        Space::new(&space(&scenario, End::Far)?)?,
    ];
    let stop = AtomicBool::new(false);
    let clock = Clock::starting_in(Span::ZERO);
    let mut lasted = Span::ZERO;
    let (passed, ended) = thread::scope(|scope| {
        let passing = {
            let (emulator, stop) = (&mut emulator, &stop);
            // In the order of the path's ports.
            let devices = [End::Far, End::Near].map(|end| &spaces[usize::from(end.host())].device);
            scope.spawn(move || emulator.pass(&devices, clock, stop))
        };
        let mut look = Look::new(machine, clock, progress);
        let ended = programs(scope, &spaces, front, beside, &passing, &mut look);
        stop.store(true, Ordering::Relaxed);
        lasted = clock.now().since(Time::ZERO);
        (passing.join(), ended)
    });
    let recorded = engine::end_record(&mut emulator, writer);
    let (code, dropped) = ended?;
    let failed = |_| {
        HostError::Failed(
            "passing packets",
            std::io::Error::other("its thread failed"),
        )
    };
    let (mut passed, error) = passed.map_err(failed)?;
    // After an error, earlier observations are kept.
    passed.lateness.ended = error.map(|error| error.to_string());
    Ok(Seen {
        recorded,
        ..told(&scenario, &emulator, passed, code, dropped, lasted)
    })
}

/// Waits for the end of the front program, and reports the time meanwhile.
///
/// In virtual time the interval between reports becomes longer while the machine is idle. A report
/// takes CPU time, and an idle hour has no other events.
struct Look<'a> {
    machine: Machine,
    interval: Duration,
    switches: u64,
    clock: Clock,
    progress: &'a mut dyn FnMut(Time),
}

impl<'a> Look<'a> {
    fn new(machine: Machine, clock: Clock, progress: &'a mut dyn FnMut(Time)) -> Look<'a> {
        let interval = match machine {
            Machine::Host => LOOK,
            Machine::Virtual(_) => LOOK_VIRTUAL[0],
        };
        Look {
            machine,
            interval,
            switches: 0,
            clock,
            progress,
        }
    }
    /// Waits for the end of a program, at most for the interval; returns `false` if it has ended.
    fn wait(&mut self, ended: &mpsc::Receiver<()>) -> bool {
        let waits = ended.recv_timeout(self.interval) == Err(mpsc::RecvTimeoutError::Timeout);
        (self.progress)(self.clock.now());
        if let Machine::Virtual(_) = self.machine {
            let now = context_switches();
            let busy = now.is_none_or(|n| n.saturating_sub(self.switches) >= BUSY);
            self.interval = next_interval(self.interval, busy);
            self.switches = now.unwrap_or_default();
        }
        waits
    }
}

/// The interval after one in which the machine was busy or idle.
fn next_interval(last: Duration, busy: bool) -> Duration {
    let [least, most] = LOOK_VIRTUAL;
    if busy { least } else { (2 * last).min(most) }
}

/// Number of context switches of this machine, if its kernel reports it.
fn context_switches() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("ctxt "))?;
    number.trim().parse().ok()
}

/// Runs all programs. Returns the exit code of the front program, and the number of packets that
/// the hosts' devices dropped.
fn programs<'scope, T>(
    scope: &'scope thread::Scope<'scope, '_>,
    spaces: &'scope [Space; 2],
    front: &Program,
    beside: &[Program],
    passing: &thread::ScopedJoinHandle<'scope, T>,
    look: &mut Look<'_>,
) -> Result<(u8, u64), HostError> {
    let space = |program: &Program| &spaces[usize::from(program.at.host())];
    let mut others = Vec::new();
    let mut failed = None;
    for program in beside {
        match start(scope, space(program), program.clone(), true) {
            Ok(running) => others.push(running),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let running = match failed {
        Some(error) => Err(error),
        None => start(scope, space(front), front.clone(), false),
    };
    let answer = running.map(|running| {
        let mut asked = None;
        while !running.thread.is_finished() && !passing.is_finished() {
            if let Some(signal) = process::heard() {
                process::signal(running.pid, signal);
                asked = asked.or_else(|| Some(Instant::now()));
            }
            if asked.is_some_and(|at: Instant| at.elapsed() > 4 * GRACE) {
                break;
            }
            if !look.wait(&running.ended) {
                break;
            }
        }
        running.end()
    });
    process::take_terminal_back();
    let mut dropped = 0;
    for other in others {
        dropped = dropped.max(other.end().1);
    }
    answer.map(|(code, own)| (code, own + dropped))
}

fn told(
    scenario: &Scenario,
    emulator: &Emulator,
    passed: crate::emulator::Seen,
    code: u8,
    overflow: u64,
    lasted: Span,
) -> Seen {
    let manner = emulator.manner_of();
    let conditions = Conditions {
        rtt: scenario.path.rtt(),
        drops: passed.queues.iter().map(|queue| queue.drops).sum(),
        overflow,
        qdisc: hosts::qdisc(&scenario.host),
        tick: manner.tick,
        joined: manner.join,
        peaks: false,
        process_cpu: Span::ns(sys::process_cpu()),
        // Traffic of programs is not limited.
        writes: Writes::default(),
        takes_time: true,
        otherwise: Vec::new(),
    };
    let path = &scenario.path;
    let hops = path
        .hops
        .iter()
        .map(|hop| ("down", hop))
        .chain(path.reverse.iter().map(|hop| ("up", hop)));
    let queues = hops.zip(passed.queues).zip(passed.random_losses);
    Seen {
        recorded: Ok(()),
        code,
        lasted,
        instruments: confess(&passed.lateness, &conditions),
        upload_limited: path.reverse.is_some(),
        queues: queues
            .map(|(((direction, hop), queue), random_losses)| HopMetrics {
                direction,
                rate: format_rate(hop.target()),
                queue,
                random_losses,
            })
            .collect(),
    }
}

/// Formats a time in ms with enough digits that a positive time is not shown as zero. Times are
/// whole nanoseconds.
fn millis(ms: f64) -> String {
    let digits = match ms {
        _ if ms >= 1.0 || ms == 0.0 => 2,
        _ if ms >= 0.001 => 3,
        _ => 6,
    };
    format!("{ms:.digits$}")
}

impl HopMetrics {
    /// The metrics as JSON: those of a queue in a run, with the direction and the number of random
    /// losses.
    fn to_json(&self) -> Value {
        let mut told = serde_json::to_value(&self.queue).unwrap_or_default();
        told["direction"] = json!(self.direction);
        told["random_losses"] = json!(self.random_losses);
        told
    }
}

impl Seen {
    /// The result as JSON.
    pub fn to_json(&self, narrows: &str, scenario: &Value, front: &Program) -> Value {
        json!({
            "narrows": narrows,
            "engine": "shell",
            "scenario": scenario,
            "at": front.at.name(),
            "command": front.words,
            "exit_code": self.code,
            "lasted_s": self.lasted.as_s(),
            "queues": self.queues.iter().map(HopMetrics::to_json).collect::<Vec<_>>(),
            "instruments": self.instruments,
        })
    }
    /// The metrics of the queues and the self-check as text.
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        for hop in &self.queues {
            let told = hop.to_json();
            let ms = |q: &str| told["delay_ms"][q].as_f64().map(millis);
            let counted = |n: u64, one: &str, several: &str| {
                format!("{n} {}", if n == 1 { one } else { several })
            };
            let delay = match (ms("p50"), ms("p99")) {
                (Some(p50), Some(p99)) => format!("queueing delay {p50} ms (p50), {p99} ms (p99)"),
                _ => "no packet passed the queue".into(),
            };
            lines.push(format!(
                "{} ({}, {}): {}, {}, {}, {}; {delay}",
                hop.direction,
                hop.queue.name,
                hop.rate,
                hop.queue.kind,
                counted(hop.queue.drops, "drop", "drops"),
                counted(hop.random_losses, "random loss", "random losses"),
                counted(hop.queue.marks, "mark", "marks"),
            ));
        }
        if !self.upload_limited {
            lines.push("up: no rate limit, propagation delay only".into());
        }
        let told = &self.instruments;
        let late = told["lateness_us"]["p99"].as_f64().unwrap_or(0.0);
        let rate = told["rate_error"]["mean"].as_f64().unwrap_or(0.0) * 100.0;
        let why: Vec<&str> = told["why"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let verdict = match told["trusted"].as_bool() {
            Some(true) => "the self-check passed".to_string(),
            Some(false) => format!("the self-check FAILED: {}", why.join("; ")),
            None => {
                lines.push(format!("self-check: no result, because {}", why.join("; ")));
                return lines.join("\n");
            }
        };
        lines.push(format!(
            "self-check: {} packets left {} late (p99), rate error {rate:.2} %; {verdict}",
            told["packets"],
            lateness(late)
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_rare_while_the_machine_is_idle() {
        let seconds = |last, busy| next_interval(Duration::from_secs(last), busy).as_secs();
        assert_eq!(
            [seconds(1, false), seconds(8, false), seconds(10, false)],
            [2, 10, 10]
        );
        assert_eq!(seconds(10, true), 1);
    }

    #[test]
    fn a_delay_above_zero_is_not_shown_as_zero() {
        let shown = [12.345, 0.0424, 0.000_999, 0.000_001, 0.0].map(millis);
        assert_eq!(shown, ["12.35", "0.042", "0.000999", "0.000001", "0.00"]);
    }
}
