//! `narrows-host measure`: the client of a measurement. It identifies the server, sends pings at
//! random times, and loads the path in phases as the test specifies. Every total in the result is
//! computed from the samples in the result.
//!
//! | module | contents |
//! |---|---|
//! | [`options`], [`plan`] | options; flows, pings and phases of a test |
//! | [`address`] | the address of the server |
//! | [`deadline`] | reads with a time limit for a whole message or object |
//! | [`link`], [`narrows`] | a server of narrows: its control connection, its load |
//! | [`iperf`], [`web`] | other servers: an iperf3 server, a web server and its pages |
//! | [`http`], [`tls`] | messages of HTTP/1.1; TLS for `https://` URLs |
//! | [`voip`] | estimated quality of a call |
//! | [`ping`] | pings during the whole measurement |
//! | [`interval`] | lines about each interval, while the measurement runs |
//! | [`seen`], [`report`] | observations of a measurement, and its JSON document |
//! | [`bulk`] | load, for both ends |
//! | [`transport`] | load over UDP by narrows' own TCP, for both ends |
//! | [`tcp_metrics`] | cached metrics of a destination, and their deletion |
//!
//! Besides the threads for load, one thread sends pings only, and the main thread sends requests,
//! watches the time, and waits for responses. A further thread loads pages if the test has them.

pub mod address;
pub mod bulk;
pub mod datagram_flow;
pub mod deadline;
pub mod http;
pub mod interval;
pub mod iperf;
pub mod link;
pub mod narrows;
#[cfg_attr(not(feature = "transport"), path = "no_opener.rs")]
pub mod opener;
pub mod options;
pub mod pacer;
pub mod ping;
pub mod plan;
pub mod report;
pub mod seen;
pub mod tcp_metrics;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub mod tls;
#[cfg_attr(not(feature = "transport"), path = "no_transport.rs")]
pub mod transport;
pub mod voip;
pub mod web;

use crate::HostError;
use crate::measure::bulk::{Budget, Carriers};
use crate::sys;
use crate::terminal::{field, fields};
use address::resolve;
use http::Url;
use interval::{Intervals, Line, Pinged, Totals};
use iperf::Control;
use link::{Link, Offset, Peer};
use options::{Options, Speaks, Test, Transport, needs_narrows};
use ping::Pings;
use plan::{Direction, Phase};
use seen::{FlowSeen, PhaseSeen, Seen, StoppedBy};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use web::{Gate, PageSpec};

/// Sample interval of flows, ns: with at most [`FEW`] flows, and with more.
const SAMPLES: (u64, u64) = (50_000_000, 100_000_000);
/// Largest number of flows with the shorter sample interval.
const FEW: usize = 4;
/// Interval between two reports of progress, ns.
const PULSE: u64 = 200_000_000;

/// A measurement in progress.
pub struct Run<'a> {
    /// The options of the measurement.
    pub options: &'a Options,
    /// The budget of the measurement.
    pub budget: Arc<Budget>,
    /// Threads for load.
    pub carriers: Arc<Carriers>,
    /// Warnings for the result.
    pub notes: Vec<String>,
    next_stream: u16,
    counted: BTreeMap<&'static str, usize>,
    begin: u64,
    lasts: u64,
    pulsed: u64,
    /// Whether the test has begun. If the user stops it from now on, there is a result with the
    /// observations so far.
    loads: bool,
    intervals: Intervals,
    pinged: Arc<Pinged>,
    progress: &'a mut dyn FnMut(Told) -> bool,
}

/// A report of a measurement that runs.
#[derive(Clone, Debug)]
pub enum Told {
    /// Time since the start, and duration of the measurement, s.
    Progress(f64, f64),
    /// An interval has passed.
    Interval(Line),
}

impl Run<'_> {
    /// Reports the progress at most every `PULSE`; returns whether to continue.
    pub fn pulse(&mut self, now: u64) -> Result<bool, HostError> {
        if sys::stopped() {
            return self.stopped().map(|_| false);
        }
        let lines = self.intervals.passed(now, &self.pinged);
        self.tell(lines)?;
        if now >= self.pulsed + PULSE {
            self.pulsed = now;
            let at = now.saturating_sub(self.begin).min(self.lasts) as f64 / 1e9;
            if !(self.progress)(Told::Progress(at, self.lasts as f64 / 1e9)) {
                return Err(HostError::Stopped);
            }
        }
        Ok(true)
    }
    fn tell(&mut self, lines: Vec<Line>) -> Result<(), HostError> {
        for line in lines {
            if !(self.progress)(Told::Interval(line)) {
                return Err(HostError::Stopped);
            }
        }
        Ok(())
    }
    /// Begins the intervals of a phase.
    pub fn enter(&mut self, phase: &'static str, cc: Option<&str>, now: u64) {
        self.intervals.enter(phase, cc, now, &self.pinged);
    }
    /// Records the sums of the flows for the interval in progress.
    pub fn note(&mut self, totals: Totals) {
        self.intervals.note(totals);
    }
    /// Called when the user has stopped the measurement. Before any load this is an error;
    /// afterwards the test ends regularly, with a result.
    pub fn stopped(&self) -> Result<StoppedBy, HostError> {
        if !self.loads {
            return Err(HostError::Stopped);
        }
        sys::take_stop();
        Ok(StoppedBy::User)
    }
    fn sample_interval(&self, flows: usize) -> u64 {
        if flows <= FEW { SAMPLES.0 } else { SAMPLES.1 }
    }
    /// The name of the next flow, such as `up1`.
    fn name(&mut self, direction: Direction) -> String {
        let place = self.counted.entry(direction.name()).or_insert(0);
        *place += 1;
        format!("{}{place}", direction.name())
    }
    /// Waits for the end of a load phase that began at `from`. `sample` is called at each sample
    /// interval and returns whether the server has ended the phase, and the sums of the flows.
    fn watch(
        &mut self,
        from: u64,
        mut sample: impl FnMut(u64) -> (bool, Totals),
    ) -> Result<StoppedBy, HostError> {
        let interval = self.sample_interval(plan::flows(self.options).len());
        let until = from + self.options.duration.as_ns();
        let mut next = from + interval;
        loop {
            sys::sleep_until(next.min(until));
            let now = sys::monotonic();
            if now >= until {
                return Ok(StoppedBy::Duration);
            }
            if self.budget.spent() {
                return Ok(StoppedBy::MaxData);
            }
            if now >= next {
                next = (next + interval).max(now);
                let (ended, totals) = sample(now);
                self.note(totals);
                if ended {
                    return Ok(StoppedBy::Peer);
                }
            }
            if !self.pulse(now)? {
                return Ok(StoppedBy::User);
            }
        }
    }
    /// The observations that do not depend on the kind of server.
    fn seen(&mut self, measured: Measured) -> Seen {
        Seen {
            begin: self.begin,
            phases: measured.phases,
            flows: measured.flows,
            pings: measured.pings,
            offsets: None,
            common: false,
            moved: self.budget.moved() + measured.pinged,
            stopped_by: measured.stopped_by,
            cpu: measured.cpu,
            far: Value::Null,
            udp_load: Value::Null,
            voip: Value::Null,
            page: Value::Null,
            peer: Value::Null,
            notes: std::mem::take(&mut self.notes),
        }
    }
    /// Waits for `lasts` ns, while the other thread sends pings.
    fn rest(&mut self, lasts: u64) -> Result<StoppedBy, HostError> {
        let until = sys::monotonic() + lasts;
        loop {
            let now = sys::monotonic();
            if now >= until {
                return Ok(StoppedBy::Duration);
            }
            if !self.pulse(now)? {
                return Ok(StoppedBy::User);
            }
            sys::sleep_until(until.min(now + 50_000_000));
        }
    }
}

/// Runs a measurement and returns its JSON. Before any traffic, `planned` is called with the
/// largest number of bytes and the duration in seconds.
pub fn run(
    options: &Options,
    planned: &mut dyn FnMut(u64, f64),
    progress: &mut dyn FnMut(Told) -> bool,
) -> Result<Value, HostError> {
    let phases = plan::phases(options);
    let lasts: u64 = phases.iter().map(|phase| phase.lasts.as_ns()).sum();
    let may_move = plan::may_move(options);
    let mut run = Run {
        options,
        budget: Budget::new(None, may_move.saturating_sub(plan::pings(options))),
        carriers: Arc::new(Carriers::new().map_err(HostError::failed("threads for load"))?),
        notes: Vec::new(),
        next_stream: 1,
        counted: BTreeMap::new(),
        begin: 0,
        lasts,
        pulsed: 0,
        loads: options.test == Test::Ping,
        intervals: Intervals::default(),
        pinged: Arc::default(),
        progress,
    };
    let mut begin = |run: &mut Run| {
        planned(may_move, lasts as f64 / 1e9);
        run.begin = sys::monotonic();
        run.intervals = Intervals::new(options.lines.as_ns(), run.begin);
        report::now()
    };
    let (to, started, seen);
    if options.speaks == Speaks::Http {
        let wrong = || {
            HostError::Unlike(format!(
                "{}: a URL is written https://HOST:PORT/PATH, or with http://",
                options.host
            ))
        };
        let url = Url::parse(&options.host).ok_or_else(wrong)?;
        to = resolve(&url.host, url.port, options.family)?;
        started = begin(&mut run);
        seen = with_web(&url, &mut run, to, &phases)?;
    } else {
        to = resolve(&options.host, options.port, options.family)?;
        let peer = link::meet(to, options.token.as_deref(), link::FAR_END)?;
        let other = |who: &str| {
            Err(HostError::Missing(format!(
                "{to} {who}: leave --speaks out"
            )))
        };
        match (&peer, options.speaks) {
            (Peer::Narrows(_), Speaks::Iperf3) => return other("speaks narrows' protocol"),
            (Peer::Iperf3(..), _) if options.transport != Transport::Tcp => {
                let problem = needs_narrows(options.transport);
                return Err(HostError::Missing(format!("{to}: {problem}")));
            }
            (Peer::Iperf3(..), Speaks::Narrows) => return other("is an iperf3 server"),
            (Peer::Iperf3(..), _) => iperf::able(options)?,
            _ => {}
        }
        started = begin(&mut run);
        seen = match peer {
            Peer::Narrows(link) => with_narrows(link, &mut run, to, &phases)?,
            Peer::Iperf3(socket, cookie, first) => {
                let control = Control::new(socket, cookie, first).map_err(|e| e.of(to))?;
                with_iperf(control, &mut run, to, &phases).map_err(|e| e.of(to))?
            }
        };
    }
    Ok(report::to_json(options, to, &started, may_move, &seen))
}

/// The result of a load phase: start and end (ns), flows, and why it ended.
type Loaded = (u64, u64, Vec<FlowSeen>, StoppedBy);

/// The observations of all phases.
struct Measured {
    phases: Vec<PhaseSeen>,
    flows: Vec<FlowSeen>,
    stopped_by: StoppedBy,
    pings: Vec<Pings>,
    /// Pages loaded during the phases.
    beside: Vec<web::PageSeen>,
    /// Payload of UDP pings in both directions, bytes.
    pinged: u64,
    cpu: u64,
}

/// Runs all phases. Meanwhile `pinging` sends pings, and `beside` loads pages while a phase permits
/// it. `load` runs each load phase.
fn measured(
    run: &mut Run,
    phases: &[Phase],
    pinging: &(dyn Fn(&Pinged) -> std::io::Result<Vec<Pings>> + Sync),
    beside: &(dyn Fn(&Gate) -> Vec<web::PageSeen> + Sync),
    load: &mut dyn FnMut(&mut Run, &Phase) -> Result<Loaded, HostError>,
) -> Result<Measured, HostError> {
    let cpu = sys::process_cpu();
    let pinged = Arc::clone(&run.pinged);
    let mut seen = Measured {
        phases: Vec::new(),
        flows: Vec::new(),
        stopped_by: StoppedBy::Duration,
        pings: Vec::new(),
        beside: Vec::new(),
        pinged: 0,
        cpu: 0,
    };
    let gate = Gate::default();
    let failed = || HostError::Broken("a thread of the measurement failed".into());
    let (loads, pings, others) = std::thread::scope(|scope| {
        let pings = scope.spawn(|| pinging(&pinged));
        let others = scope.spawn(|| beside(&gate));
        let loads = all_phases(run, phases, &mut seen, &gate, load);
        pinged.stop.store(true, Relaxed);
        gate.end();
        if loads.is_err() || seen.stopped_by == StoppedBy::User {
            gate.give_up();
        }
        (loads, pings.join(), others.join())
    });
    let lost = match loads {
        Ok(()) => None,
        Err(error) => match error.loss() {
            Some(why) => Some((why, error)),
            None => return Err(error),
        },
    };
    seen.pings = pings
        .map_err(|_| failed())?
        .map_err(HostError::failed("pinging"))?;
    if let Some((why, error)) = lost {
        // If no ping was answered either, there is no result.
        if seen.pings.iter().all(|pings| pings.received() == 0) {
            return Err(error);
        }
        run.notes.push(format!("the load did not start: {why}"));
        seen.stopped_by = StoppedBy::Lost;
    }
    seen.beside = others.map_err(|_| failed())?;
    seen.cpu = sys::process_cpu().saturating_sub(cpu);
    let of = |p: &Pings| (p.sent.len() + p.received()) as u64 * p.size as u64;
    seen.pinged = seen.pings.iter().filter(|pings| pings.udp).map(of).sum();
    Ok(seen)
}

fn all_phases(
    run: &mut Run,
    phases: &[Phase],
    seen: &mut Measured,
    gate: &Gate,
    load: &mut dyn FnMut(&mut Run, &Phase) -> Result<Loaded, HostError>,
) -> Result<(), HostError> {
    for phase in phases.iter().filter(|phase| phase.lasts.as_ns() > 0) {
        let (from, to);
        if phase.name == "loaded" {
            let before = run.loads;
            run.loads = true;
            gate.open();
            let done = load(run, phase);
            gate.close();
            let (began, ended, mut flows, why) = match done {
                // The user stopped between two load phases; the earlier ones are complete.
                Err(HostError::Stopped) if before => {
                    seen.stopped_by = run.stopped()?;
                    break;
                }
                Err(error) if before => {
                    run.notes
                        .push(format!("the next load phase did not start: {error}"));
                    seen.stopped_by = StoppedBy::Lost;
                    break;
                }
                done => done?,
            };
            (from, to) = (began, ended);
            seen.flows.append(&mut flows);
            seen.stopped_by = why;
        } else {
            from = sys::monotonic();
            run.enter(phase.name, None, from);
            let pages = phase.name == "pages";
            if pages {
                run.loads = true;
                gate.open();
            }
            seen.stopped_by = run.rest(phase.lasts.as_ns())?;
            gate.close();
            // A page that is still loading must not overlap the load.
            let patience = sys::monotonic() + web::PATIENCE;
            while pages
                && seen.stopped_by == StoppedBy::Duration
                && gate.busy()
                && sys::monotonic() < patience
            {
                seen.stopped_by = run.rest(10_000_000)?;
            }
            to = sys::monotonic();
        }
        let lines = run.intervals.leave(to, &run.pinged);
        run.tell(lines)?;
        seen.phases.push(PhaseSeen {
            name: phase.name,
            from,
            to,
            cc: phase.cc.clone(),
        });
        if seen.stopped_by != StoppedBy::Duration {
            break;
        }
    }
    Ok(())
}

fn nothing(_gate: &Gate) -> Vec<web::PageSeen> {
    Vec::new()
}

fn with_narrows(
    mut link: Link,
    run: &mut Run,
    to: SocketAddr,
    phases: &[Phase],
) -> Result<Seen, HostError> {
    let options = run.options;
    let (flows, probes) = (plan::flows(options), plan::probes(options));
    let first = link.offset()?;
    let cookie = link.cookie;
    let mut udp_load = Value::Null;
    let budget = Arc::clone(&run.budget);
    let page = options
        .test
        .pages()
        .then(|| PageSpec::ours(to, &cookie, options.test == Test::PageSequential));
    let pinging = |pinged: &Pinged| {
        ping::by_datagrams_or_handshakes(to, iperf::CLOSED, cookie, &probes, pinged)
    };
    let beside = |gate: &Gate| {
        page.as_ref()
            .map_or_else(Vec::new, |page| web::pages(page, to, &budget, gate))
    };
    let seen = measured(run, phases, &pinging, &beside, &mut |run, phase| {
        forget(&mut link, run, to)?;
        if options.test == Test::UdpFlood {
            let (from, to, told, why) = narrows::flooded(&mut link, run, to)?;
            udp_load = told;
            return Ok((from, to, Vec::new(), why));
        }
        narrows::loaded(&mut link, run, to, &flows, phase.cc.as_deref(), first)
    })?;
    let (last, far) = match seen.stopped_by {
        StoppedBy::Peer | StoppedBy::Lost => (first, Value::Null),
        // After a stop by the user, a failed report is no warning.
        StoppedBy::User => farewell(&mut link).unwrap_or((first, Value::Null)),
        _ => farewell(&mut link).unwrap_or_else(|error| {
            run.notes
                .push(format!("the server did not report at the end: {error}"));
            (first, Value::Null)
        }),
    };
    if seen.pings.iter().all(|pings| pings.received() == 0) {
        run.notes
            .push("no ping was answered: UDP to the server's port is blocked".into());
    } else if seen.pings.iter().all(|pings| !pings.udp) {
        run.notes.push(format!(
            "pings are refused connections to TCP port {}, because UDP to the server's port is \
             blocked",
            iperf::CLOSED
        ));
    }
    let voip = match seen.pings.last() {
        Some(call) if options.test == Test::Voip && call.udp => voip::told(call, &seen.phases),
        _ => Value::Null,
    };
    Ok(Seen {
        offsets: Some((first, last)),
        common: link.welcome["boot"].as_str() == Some(&crate::sys::kernel::boot()),
        far,
        udp_load,
        voip,
        page: page.map_or(Value::Null, |page| {
            web::told(&page, &seen.beside, &seen.phases)
        }),
        peer: json!({
            "address": to.ip().to_string(), "port": to.port(), "speaks": "narrows",
            "version": link.version,
            "kernel": link.welcome["kernel"].as_str().map(field),
            "ccs": fields(&link.welcome["ccs"]), "limits": fields(&link.welcome["limits"]),
        }),
        ..run.seen(seen)
    })
}

/// Fetches the server's report, measures the clock difference again, and ends the session.
fn farewell(link: &mut Link) -> Result<(Offset, Value), HostError> {
    link.say(&json!({ "do": "report" }))?;
    let far = link.expect(&["report"])?;
    let last = link.offset()?;
    link.say(&json!({ "do": "bye" }))?;
    Ok((last, far))
}

fn with_iperf(
    control: Control,
    run: &mut Run,
    to: SocketAddr,
    phases: &[Phase],
) -> Result<Seen, HostError> {
    let probe = plan::probes(run.options)[0];
    let closed = SocketAddr::new(to.ip(), iperf::CLOSED);
    let mut control = Some(control);
    let pinging =
        |pinged: &Pinged| ping::by_handshakes(closed, &probe, pinged).map(|pings| vec![pings]);
    let seen = measured(run, phases, &pinging, &nothing, &mut |run, phase| {
        let control = control.take().map_or_else(|| Control::again(to), Ok)?;
        iperf::loaded(control, run, to, phase.cc.as_deref())
    })?;
    run.notes.push(format!(
        "pings are refused connections to TCP port {}, because an iperf3 server does not answer \
         pings",
        iperf::CLOSED
    ));
    if seen.pings.iter().all(|pings| pings.received() == 0) {
        run.notes
            .push("no ping was answered: a firewall may drop them".into());
    }
    Ok(Seen {
        peer: json!({ "address": to.ip().to_string(), "port": to.port(), "speaks": "iperf3",
        "version": null }),
        ..run.seen(seen)
    })
}

fn with_web(url: &Url, run: &mut Run, to: SocketAddr, phases: &[Phase]) -> Result<Seen, HostError> {
    let options = run.options;
    tls::insecure(options.insecure);
    if !matches!(
        options.test,
        Test::TcpDown | Test::TcpNdown | Test::Page | Test::PageSequential | Test::Ping
    ) {
        return Err(HostError::Missing(format!(
            "{} requires `narrows serve` on the far host; a web server supports tcp_down, \
             tcp_ndown, page, page_sequential and ping",
            options.test.name()
        )));
    }
    let probe = plan::probes(options)[0];
    let budget = Arc::clone(&run.budget);
    let page = options
        .test
        .pages()
        .then(|| PageSpec::of(url, options.test == Test::PageSequential));
    let pinging =
        |pinged: &Pinged| ping::by_handshakes(to, &probe, pinged).map(|pings| vec![pings]);
    let beside = |gate: &Gate| {
        page.as_ref()
            .map_or_else(Vec::new, |page| web::pages(page, to, &budget, gate))
    };
    let seen = measured(run, phases, &pinging, &beside, &mut |run, _| {
        web::loaded(url, run, to)
    })?;
    Ok(Seen {
        page: page.map_or(Value::Null, |page| {
            web::told(&page, &seen.beside, &seen.phases)
        }),
        peer: json!({ "address": to.ip().to_string(), "port": to.port(), "speaks": "http",
        "version": null }),
        ..run.seen(seen)
    })
}

/// Deletes the TCP metrics that both kernels cache about each other, if there are several load
/// phases. These metrics would change the start of later phases.
fn forget(link: &mut Link, run: &mut Run, to: SocketAddr) -> Result<(), HostError> {
    if run.options.cc.len() * run.options.repeats < 2 {
        return Ok(());
    }
    let mut confess = |end: &str, why: &str| {
        let note = format!(
            "{end} caches TCP metrics of the path between flows (tcp_metrics): \
         {why}"
        );
        if !run.notes.contains(&note) {
            run.notes.push(note);
        }
    };
    if let Err(why) = tcp_metrics::forget(to.ip()) {
        confess("this end", &why);
    }
    link.say(&json!({ "do": "forget" }))?;
    if let Some(why) = link.expect(&["forgotten"])?["why"].as_str() {
        confess("the server", &field(why));
    }
    Ok(())
}
