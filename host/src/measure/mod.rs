//! `narrows-host measure`: the near end of a measurement. It finds out who answers, pings evenly all the time, and in between loads the
//! path as the test says; it sums nothing up that is not in its samples.
//!
//! | module | holds |
//! |---|---|
//! | [`options`], [`plan`] | what is asked for; which flows, pings and phases that is |
//! | [`link`], [`narrows`] | a far end of ours: its control connection, its load |
//! | [`ping`] | round trips while all this happens |
//! | [`seen`], [`report`] | what was seen; as JSON |
//!
//! Two threads beside those for load ([`crate::bulk`]): one pings and does nothing else, one (this) asks, watches and waits.

pub mod link;
pub mod narrows;
pub mod options;
pub mod ping;
pub mod plan;
pub mod report;
pub mod seen;

use crate::bulk::{Budget, Carriers};
use crate::wire::Cookie;
use crate::{remembered, sys, HostError};
use link::{Link, Peer};
use options::{Options, Speaks, Test};
use ping::{Pings, Probe};
use plan::Phase;
use seen::{FlowSeen, PhaseSeen, Seen, StoppedBy};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// From one sample of a flow to the next, ns: with few flows, and with many.
const SAMPLES: (u64, u64) = (50_000_000, 100_000_000);
/// So many are few.
const FEW: usize = 4;
/// From one line of progress to the next, ns.
const PULSE: u64 = 200_000_000;

/// A measurement under way.
pub struct Run<'a> {
    /// What is asked for.
    pub options: &'a Options,
    /// What may move.
    pub budget: Arc<Budget>,
    /// Threads for load.
    pub carriers: Carriers,
    /// Bytes of flows that are over.
    pub moved: u64,
    /// To be confessed.
    pub notes: Vec<String>,
    next_stream: u16,
    counted: BTreeMap<&'static str, usize>,
    begin: u64,
    lasts: u64,
    pulsed: u64,
    progress: &'a mut dyn FnMut(f64, f64) -> bool,
}

impl Run<'_> {
    /// Says how far it is, and whether it goes on.
    pub fn pulse(&mut self, now: u64) -> Result<(), HostError> {
        if sys::stopped() {
            return Err(HostError::Stopped);
        }
        if now >= self.pulsed + PULSE {
            self.pulsed = now;
            let at = now.saturating_sub(self.begin).min(self.lasts) as f64 / 1e9;
            if !(self.progress)(at, self.lasts as f64 / 1e9) {
                return Err(HostError::Stopped);
            }
        }
        Ok(())
    }
    fn sample_interval(&self, flows: usize) -> u64 {
        if flows <= FEW {
            SAMPLES.0
        } else {
            SAMPLES.1
        }
    }
    /// Waits for as long as `lasts`, ns, while pings go on.
    fn rest(&mut self, lasts: u64) -> Result<(), HostError> {
        let until = sys::monotonic() + lasts;
        loop {
            let now = sys::monotonic();
            if now >= until {
                return Ok(());
            }
            self.pulse(now)?;
            sys::sleep_until(until.min(now + 50_000_000));
        }
    }
}

/// The first address of a host.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, HostError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = (bare, port).to_socket_addrs().map(|mut list| list.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(HostError::Missing(format!("{host}: no address has this name"))),
        Err(error) => Err(HostError::Missing(format!("{host}: {error}"))),
    }
}

/// Measures; `planned` is told before anything moves, as bytes and seconds.
pub fn run(
    options: &Options,
    planned: &mut dyn FnMut(u64, f64),
    progress: &mut dyn FnMut(f64, f64) -> bool,
) -> Result<Value, HostError> {
    let phases = plan::phases(options);
    let lasts: u64 = phases.iter().map(|phase| phase.lasts.as_ns()).sum();
    if options.speaks == Speaks::Http {
        return Err(HostError::Missing("http is not measured yet".into()));
    }
    let to = resolve(&options.host, options.port)?;
    let peer = link::meet(to, options.token.as_deref())?;
    planned(plan::may_move(options), lasts as f64 / 1e9);
    let started = report::now();
    let mut run = Run {
        options,
        budget: Budget::new(None, options.max_data.get()),
        carriers: Carriers::new().map_err(HostError::failed("threads for load"))?,
        moved: 0,
        notes: Vec::new(),
        next_stream: 1,
        counted: BTreeMap::new(),
        begin: sys::monotonic(),
        lasts,
        pulsed: 0,
        progress,
    };
    let seen = match peer {
        Peer::Narrows(link) => with_narrows(link, &mut run, to, &phases)?,
        Peer::Iperf3(..) => return Err(HostError::Missing("an iperf3 server is not measured yet".into())),
    };
    Ok(report::to_json(options, to, &started, plan::may_move(options), &seen))
}

/// Pings until it is told to stop: by datagrams, or by handshakes where those get no answer.
fn pinging(to: SocketAddr, cookie: Cookie, probes: &[Probe], stop: &AtomicBool) -> Result<Vec<Pings>, HostError> {
    ping::by_datagrams(to, cookie, probes, stop).map_err(HostError::failed("pinging"))
}

fn with_narrows(mut link: Link, run: &mut Run, to: SocketAddr, phases: &[Phase]) -> Result<Seen, HostError> {
    let options = run.options;
    let (flows, probes) = (plan::flows(options), plan::probes(options));
    let first = link.offset()?;
    let cpu = sys::process_cpu();
    let stop = AtomicBool::new(false);
    let cookie = link.cookie;
    run.begin = sys::monotonic();
    let begin = run.begin;
    let (loads, pings) = std::thread::scope(|scope| {
        let pings = scope.spawn(|| pinging(to, cookie, &probes, &stop));
        let loads = all_phases(&mut link, run, to, &flows, phases, first);
        stop.store(true, Relaxed);
        let pings = pings
            .join()
            .unwrap_or_else(|_| Err(HostError::Broken("the thread that pings failed".into())));
        (loads, pings)
    });
    let (loads, pings) = (loads?, pings?);
    let cpu = sys::process_cpu().saturating_sub(cpu);
    let (last, far) = if loads.stopped_by == StoppedBy::Peer {
        (first, Value::Null)
    } else {
        link.say(&json!({ "do": "report" }))?;
        let far = link.expect(&["report"])?;
        let last = link.offset()?;
        link.say(&json!({ "do": "bye" }))?;
        (last, far)
    };
    let by_pings: u64 = pings
        .iter()
        .map(|p| (p.sent.len() + p.received()) as u64 * p.size as u64)
        .sum();
    Ok(Seen {
        begin,
        phases: loads.phases,
        flows: loads.flows,
        pings,
        offsets: Some((first, last)),
        common: link.welcome["boot"].as_str() == Some(&crate::serve::session::boot()),
        moved: run.moved + by_pings,
        stopped_by: loads.stopped_by,
        cpu,
        far,
        udp_load: loads.udp_load,
        page: Value::Null,
        peer: json!({
            "address": to.ip().to_string(), "port": to.port(), "speaks": "narrows", "version": link.version,
            "kernel": link.welcome["kernel"], "ccs": link.welcome["ccs"], "limits": link.welcome["limits"],
        }),
        notes: std::mem::take(&mut run.notes),
    })
}

struct Loads {
    phases: Vec<PhaseSeen>,
    flows: Vec<FlowSeen>,
    udp_load: Value,
    stopped_by: StoppedBy,
}

fn all_phases(
    link: &mut Link,
    run: &mut Run,
    to: SocketAddr,
    specs: &[plan::FlowSpec],
    phases: &[Phase],
    offset: link::Offset,
) -> Result<Loads, HostError> {
    let mut seen = Loads {
        phases: Vec::new(),
        flows: Vec::new(),
        udp_load: Value::Null,
        stopped_by: StoppedBy::Duration,
    };
    for phase in phases {
        let mut from = sys::monotonic();
        let mut until = None;
        if phase.name == "loaded" {
            forget(link, run, to)?;
            let why;
            let end;
            if run.options.test == Test::UdpFlood {
                (from, end, seen.udp_load, why) = narrows::flooded(link, run, to)?;
            } else {
                let (began, ended, mut flows, stopped) =
                    narrows::loaded(link, run, to, specs, phase.cc.as_deref(), offset)?;
                (from, end, why) = (began, ended, stopped);
                seen.flows.append(&mut flows);
            }
            until = Some(end);
            seen.stopped_by = why;
        } else if phase.lasts.as_ns() > 0 {
            run.rest(phase.lasts.as_ns())?;
        } else {
            continue;
        }
        seen.phases.push(PhaseSeen {
            name: phase.name,
            from,
            to: until.unwrap_or_else(sys::monotonic),
            cc: phase.cc.clone(),
        });
        if seen.stopped_by != StoppedBy::Duration {
            break;
        }
    }
    Ok(seen)
}

/// What both kernels remember of each other would favour whoever comes second.
fn forget(link: &mut Link, run: &mut Run, to: SocketAddr) -> Result<(), HostError> {
    if run.options.cc.len() * run.options.repeats < 2 {
        return Ok(());
    }
    let mut confess = |end: &str, why: &str| {
        let note = format!("{end} remembers the path from flow to flow (tcp_metrics): {why}");
        if !run.notes.contains(&note) {
            run.notes.push(note);
        }
    };
    if let Err(why) = remembered::forget(to.ip()) {
        confess("this end", &why);
    }
    link.say(&json!({ "do": "forget" }))?;
    if let Some(why) = link.expect(&["forgotten"])?["why"].as_str() {
        confess("the far end", why);
    }
    Ok(())
}
