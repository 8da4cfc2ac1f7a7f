//! `narrows-host latency`: measures response times over UDP and attributes the delay to
//! applications, kernels and network.
//!
//! | module | contents |
//! |---|---|
//! | [`options`] | options of the command |
//! | [`exchange`] | the engine: scheduled questions and their answers, over any line |
//! | [`line`](mod@line), [`tcp_line`], [`null_line`] | a socket, TCP, and no network as lines |
//! | [`protocol`], [`stamp`], [`irtt`] | protocols |
//! | [`answer`], [`repeats`], [`payer`] | the server, its rules against loops, and its accounts |
//! | [`keeper`] | keeps the session open, and opens a new one after a restart of the server |
//! | [`one_way`] | one-way delays and their variation |
//! | [`attribution`] | division of a round trip among applications, kernels and network |
//! | [`histogram`], [`outcome`], [`summary`] | the result, and its JSON document |
//! | [`lab`], [`load`] | the same test under several policies; load on the processors |
//! | [`environment`] | properties of the host that affect the result |
//! | [`policy`] | scheduling policies of a thread |

pub mod answer;
pub mod attribution;
pub mod environment;
pub mod exchange;
pub mod histogram;
pub mod irtt;
pub mod keeper;
pub mod lab;
pub mod line;
pub mod load;
pub mod null_line;
pub mod one_way;
pub mod options;
pub mod outcome;
pub mod payer;
pub mod policy;
pub mod protocol;
pub mod repeats;
pub mod stamp;
pub mod summary;
pub mod tcp_line;

use crate::HostError;
use crate::digest;
use crate::latency::protocol::{Echo, Own, Protocol, Sessions};
use crate::measure::address::resolve;
use crate::measure::link::{self, Peer};
use crate::sys;
use crate::sys::kernel;
use crate::terminal::field;
use exchange::{Line, Outcome, Pace, Plan, Pulse};
use keeper::Keeper;
use line::RealLine;
use options::{Options, Speaks};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use tcp_line::{Handshakes, Messages};

/// Formats a date, given in ns since 1970, as UTC with microseconds.
pub fn date(ns: u64) -> String {
    let (s, us) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
    let (days, of_day) = ((s / 86_400) as i64, s % 86_400);
    // Days since the first of March of the year 0, in eras of 400 years (Howard Hinnant,
    // chrono-compatible date algorithms).
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{us:06}Z")
}

/// Time for which the answer to the first datagram is awaited, ns, and number of attempts. A host
/// that answers none of them is measured over TCP.
const FIRST: (u64, u32) = (250_000_000, 5);

/// The carrier of questions and answers.
enum Carrier {
    Datagrams(RealLine),
    Messages(Messages),
    Handshakes(Handshakes),
}

impl Carrier {
    fn line(&mut self) -> &mut dyn Line {
        match self {
            Carrier::Datagrams(line) => line,
            Carrier::Messages(line) => line,
            Carrier::Handshakes(line) => line,
        }
    }
    /// The name in JSON.
    fn name(&self) -> &'static str {
        match self {
            Carrier::Datagrams(_) => "udp",
            Carrier::Messages(_) => "tcp messages",
            Carrier::Handshakes(_) => "tcp handshakes",
        }
    }
}

/// The connection to a server that is ready for questions.
struct FarEnd {
    line: Carrier,
    /// Whether the clock of the server is that of this host.
    common: bool,
    protocol: Box<dyn Protocol>,
    /// Keeps the session open during the test.
    keeper: Option<Keeper>,
    token: Option<u64>,
    told: Value,
}

/// Whether an error of a datagram shows that a firewall rejects datagrams, or drops those of this
/// host.
fn is_prohibition(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::PermissionDenied | Kind::HostUnreachable | Kind::NetworkUnreachable
    )
}

/// Adds the probable reason and a remedy to an error that shows a prohibition of datagrams.
fn rejected(to: SocketAddr, error: HostError) -> HostError {
    match error {
        HostError::Failed(_, error) if is_prohibition(&error) => HostError::Missing(format!(
            "{to}: {error}: the host cannot be reached, or a firewall rejects datagrams to it; \
             permit UDP port {} in firewalls, or write --speaks tcp --port with an open TCP port",
            to.port()
        )),
        other => other,
    }
}

/// Whether the host answers datagrams at all. The session with it exists, so it can be reached.
fn answers(line: &mut RealLine, mut session: Own) -> Result<bool, HostError> {
    let plan = Plan {
        count: 1,
        warmup: 0,
        pace: Pace::PingPong,
        interval: 0,
        patience: FIRST.0,
        ..Plan::default()
    };
    for _ in 0..FIRST.1 {
        let seen = match exchange::run(&plan, line, &mut session, &mut |_| !sys::stopped()) {
            Ok(seen) => seen,
            Err(HostError::Failed(_, error)) if is_prohibition(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        // An answer to an earlier attempt has another time, and counts as a wrong one.
        if seen.answered + seen.mismatches + seen.duplicates + seen.foreign > 0 {
            return Ok(true);
        }
        if sys::stopped() {
            return Err(HostError::Stopped);
        }
    }
    Ok(false)
}

/// Opens a test with an irtt server; returns the token and the agreed parameters.
fn open_irtt(
    line: &mut RealLine,
    options: &Options,
    to: SocketAddr,
) -> Result<(u64, irtt::Params), HostError> {
    let plan = &options.plan;
    let lasts = plan
        .lasts
        .min(u64::from(plan.count).saturating_mul(plan.interval.max(1000)));
    // An irtt server stops answering after the agreed duration, so twice the planned one is
    // requested.
    let lasts = lasts
        .saturating_mul(2)
        .saturating_add(plan.patience)
        .min(i64::MAX as u64);
    let wanted = irtt::Client::wanted(lasts, plan.interval.max(1000), plan.size, options.dscp);
    let question = irtt::open(wanted);
    let mut bytes = [0; 2048];
    let failed = HostError::failed("asking the irtt server");
    for patience in [200, 400, 800, 1600, 3200] {
        let until = sys::monotonic() + patience * 1_000_000;
        let _ = line.socket.send(&question, None, None);
        while sys::monotonic() < until {
            if sys::stopped() {
                return Err(HostError::Stopped);
            }
            match line.socket.wait_for(&mut bytes) {
                Ok(Some(got)) => match irtt::opened(&bytes[..got.len.min(bytes.len())]) {
                    Some(Ok((token, params))) => return Ok((token, params)),
                    Some(Err(why)) => return Err(HostError::Missing(format!("{to}: {why}"))),
                    None => {}
                },
                Ok(None) => {}
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => sys::sleep_until(until),
                Err(e) => return Err(rejected(to, failed(e))),
            }
        }
    }
    Err(HostError::Missing(format!(
        "{to} does not answer; start `irtt server` or `narrows serve --irtt {}` there, and \
         permit its port in firewalls",
        to.port()
    )))
}

/// Fails, before any question is sent, if the server would end the session before the end of the
/// test.
fn within_limits(options: &Options, to: SocketAddr, allowed_s: &Value) -> Result<(), HostError> {
    let plan = &options.plan;
    let of_count = u64::from(plan.count).saturating_mul(plan.interval);
    let lasts = match plan.pace {
        exchange::Pace::Even => plan.lasts.min(of_count),
        exchange::Pace::PingPong => plan.lasts,
    };
    let lasts_s = lasts as f64 / 1e9;
    match allowed_s.as_f64() {
        Some(allowed) if lasts < u64::MAX && lasts_s > allowed => Err(HostError::Missing(format!(
            "{to} ends sessions after {allowed} s, but the test takes {lasts_s:.0} s: write \
             --duration {allowed}s, or start the server with --duration {:.0}s",
            lasts_s + 60.0
        ))),
        _ => Ok(()),
    }
}

/// Connects to a server of narrows for messages over its session.
fn by_messages(link: link::Link, told: Value) -> FarEnd {
    FarEnd {
        line: Carrier::Messages(Messages::new(link)),
        common: false,
        protocol: Box::new(Echo),
        keeper: None,
        token: None,
        told,
    }
}

fn reach(options: &Options, to: SocketAddr) -> Result<FarEnd, HostError> {
    if options.speaks == Speaks::Tcp {
        let line = Handshakes::new(to, options.dscp).map_err(HostError::failed("a handshake"))?;
        return Ok(FarEnd {
            line: Carrier::Handshakes(line),
            common: false,
            protocol: Box::new(Echo),
            keeper: None,
            token: None,
            told: Value::Null,
        });
    }
    let mut common = false;
    let mut line = RealLine::new(to, options.dscp << 2, options.stamps, &options.policy)?;
    let far = |protocol: Box<dyn Protocol>| (protocol, None, None, Value::Null);
    let (protocol, keeper, token, told) = match options.speaks {
        Speaks::Echo => far(Box::new(Echo)),
        Speaks::Stamp => {
            let session = digest::random::<2>().map(u16::from_be_bytes);
            let session = session.map_err(HostError::failed("random numbers"))?;
            far(Box::new(stamp::Sender::new(session.max(1), options.dscp)))
        }
        Speaks::Board => {
            let cookie = digest::random().map_err(HostError::failed("random numbers"))?;
            far(Box::new(Own { cookie }))
        }
        Speaks::Irtt => {
            let (token, params) = open_irtt(&mut line, options, to)?;
            let asked = options.plan.interval.max(1000) as i64;
            if params.interval > asked && options.plan.pace == exchange::Pace::Even {
                return Err(HostError::Missing(format!(
                    "{to}: the irtt server permits an interval of at least {} ms; write \
                     --interval {}us, or start it with -i",
                    params.interval as f64 / 1e6,
                    params.interval / 1000
                )));
            }
            let told = json!({ "interval_us": params.interval as f64 / 1000.0,
                "duration_s": params.duration as f64 / 1e9 });
            (
                Box::new(irtt::Client::new(token, &params)) as Box<dyn Protocol>,
                None,
                Some(token),
                told,
            )
        }
        Speaks::Tcp | Speaks::Narrows | Speaks::NarrowsTcp => {
            match link::meet(to, options.token.as_deref(), "`narrows serve`")? {
                Peer::Iperf3(..) => {
                    return Err(HostError::Missing(format!(
                        "{to} is an iperf3 server, which does not answer datagrams; use --speaks \
                     with another responder"
                    )));
                }
                Peer::Narrows(mut link) => {
                    within_limits(options, to, &link.welcome["limits"]["duration_s"])?;
                    let about = json!({
                        "version": link.version,
                        "kernel": link.welcome["kernel"].as_str().map(field),
                    });
                    if options.speaks == Speaks::NarrowsTcp {
                        return Ok(by_messages(link, about));
                    }
                    let own = line
                        .socket
                        .local()
                        .map_err(HostError::failed("this socket's address"))?;
                    let answer = keeper::ask_from(&mut link, own.port())?;
                    let session = Own {
                        cookie: link.cookie,
                    };
                    if !answers(&mut line, session)? {
                        return Ok(by_messages(link, about));
                    }
                    let mut told = about;
                    told["thread"] = json!(answer["thread"].as_bool());
                    told["policy"] = json!(answer["policy"].as_str().map(field));
                    common = link.welcome["boot"].as_str() == Some(&kernel::boot());
                    let (keeper, renewed) =
                        Keeper::new(link, to, options.token.clone(), own.port());
                    let sessions = Sessions {
                        own: session,
                        renewed,
                    };
                    (
                        Box::new(sessions) as Box<dyn Protocol>,
                        Some(keeper),
                        None,
                        told,
                    )
                }
            }
        }
    };
    Ok(FarEnd {
        line: Carrier::Datagrams(line),
        common,
        protocol,
        keeper,
        token,
        told,
    })
}

/// The result of one slice of a test.
pub struct Slice {
    /// The outcome.
    pub seen: Outcome,
    /// The server's description of itself.
    pub far: Value,
    /// The carrier of questions and answers.
    pub carrier: &'static str,
    /// Whether the watchdog of real-time threads made a thread ordinary.
    pub called_off: bool,
    /// The method that keeps processors awake.
    pub awake_by: Option<&'static str>,
}

/// Runs one slice: opens the connection, and exchanges questions and answers as planned.
pub fn slice(
    options: &Options,
    to: SocketAddr,
    progress: &mut dyn FnMut(Pulse) -> bool,
) -> Result<Slice, HostError> {
    let guard = options.policy.enter()?;
    sys::prefer_exact_timers();
    let mut far = reach(options, to)?;
    let mut seen = exchange::run(
        &options.plan,
        far.line.line(),
        far.protocol.as_mut(),
        &mut |at| {
            let stopped = sys::stopped();
            if stopped {
                // The signal is consumed, so that a second one can end the wait for answers.
                sys::take_stop();
            }
            !stopped && progress(at)
        },
    )
    .map_err(|error| match far.line {
        Carrier::Datagrams(_) => rejected(to, error).of(to),
        _ => error.of(to),
    })?;
    seen.one_way.common = far.common;
    if let (Some(token), Carrier::Datagrams(line)) = (far.token, &mut far.line) {
        let _ = line.socket.send(&irtt::close(token), None, None);
    }
    if let Some(keeper) = far.keeper {
        seen.reconnections = keeper.reconnections();
    }
    if seen.answered == 0 && seen.interrupted {
        return Err(HostError::Stopped);
    }
    if seen.answered == 0 {
        return Err(silent(options, to, &seen));
    }
    Ok(Slice {
        seen,
        carrier: far.line.name(),
        far: far.told,
        called_off: guard.called_off(),
        awake_by: guard.awake_by(),
    })
}

fn silent(options: &Options, to: SocketAddr, seen: &Outcome) -> HostError {
    let who = match options.speaks {
        Speaks::Narrows | Speaks::NarrowsTcp => {
            "`narrows serve` there answers over TCP; permit its UDP port in firewalls".to_string()
        }
        Speaks::Tcp => "select a TCP port that its firewalls permit with --port".to_string(),
        Speaks::Board => format!(
            "start a responder there, e.g. `narrows serve --board {}`",
            to.port()
        ),
        Speaks::Echo => format!(
            "start an echo service there, e.g. `narrows serve --echo {}`",
            to.port()
        ),
        Speaks::Stamp => format!(
            "start a STAMP reflector there, e.g. `narrows serve --stamp {}`",
            to.port()
        ),
        Speaks::Irtt => "the irtt server accepted the test and then did not answer".to_string(),
    };
    let what = if seen.refused > 0 {
        "refuses datagrams: nothing listens there"
    } else {
        "answers nothing"
    };
    HostError::Missing(format!("{to} {what}; {who}"))
}

/// Runs the command and returns its JSON. A test that the user stops returns its results so far
/// (`interrupted`), if there are any.
pub fn run(options: &Options, progress: &mut dyn FnMut(Pulse) -> bool) -> Result<Value, HostError> {
    let to = resolve(&options.host, options.port, options.family)?;
    let around = crate::latency::environment::seen(to);
    let mut told = if options.is_lab() {
        lab::run(options, to, progress)?
    } else {
        let slice = slice(options, to, progress)?;
        let mut told = document(options, to, &slice.seen, &slice.far, slice.carrier);
        told["called_off"] = json!(slice.called_off);
        told["awake_by"] = json!(slice.awake_by);
        told
    };
    told["findings"] = json!(crate::latency::environment::findings(
        &around,
        options.plan.size
    ));
    told["surroundings"] = around;
    Ok(told)
}

/// The result of a test as JSON, with a description of the test.
fn document(
    options: &Options,
    to: SocketAddr,
    seen: &Outcome,
    far: &Value,
    carrier: &str,
) -> Value {
    let mut told = summary::to_json(&options.plan, seen);
    told["narrows"] = json!(env!("CARGO_PKG_VERSION"));
    told["kind"] = json!("latency");
    told["host"] = json!(options.host);
    told["peer"] = json!({
        "address": to.ip().to_string(), "port": to.port(), "speaks": options.speaks.name(),
        "told": far, "carrier": carrier,
    });
    told["policy"] = json!(options.policy.text());
    told["stamps"] = json!(options.stamps);
    told["kernel"] = json!(kernel::release());
    told
}
