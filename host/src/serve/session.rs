//! The server's side of a session of narrows' own protocol: a handshake, then requests that open,
//! start and stop streams.
//!
//! ```text
//! client                                       server
//! hello: version, nonce                        greeting: version, nonce, the client's address, is
//! a token required
//! {proof, to: the server's address}            welcome: proof, cookie, limits, this host   or
//! refused: why                                              (the proofs: [`crate::protocols::handshake`])
//! {do: clock, at}                              {is: clock, at, here}
//! {do: open, stream, direction, cc, …}         {is: open, stream}                       or  {is: refused, stream, why}
//! a data connection with the cookie,           {is: joined, stream, cc, …}
//!   or datagrams with cookie and key ([`crate::measure::transport`])
//! {do: start, streams, sample_ms}              {is: started}, then {is: samples, stream, rows} while it runs
//! {do: stop, streams}                          {is: stopped, stream, moved, row} each
//! {do: report}                                 {is: report, …}
//! {do: latency, port}                          {is: latency, thread}: who asks timed questions from there has a thread of his own
//! ```
//!
//! The number of streams is limited, as are the samples that wait for the client to read them. A
//! client that does not read loses rows of samples, and the report states how many. A session
//! without load ends after [`IDLE`] without a request, and every session ends after the largest
//! duration ([`super::limits`]).

mod datagrams;

use super::answering::Answering;
use super::budget::{Allowance, Refused};
use super::counters::Counters;
use super::limits::{BURST, IDLE, ROWS, STREAMS};
use super::metered::Connection;
use super::shared::{Carried, End, Key, Shared, Speaker};
use super::udp::Pinged;
use crate::digest::{from_hex, hex, random};
use crate::latency::answer::Answers;
use crate::measure::bulk::Role;
use crate::measure::pacer::Pacer;
use crate::protocols::handshake::{self, Nonce, Transcript, canonical};
use crate::protocols::tcp_info::Row;
use crate::protocols::wire::{self, ANSWER, Cookie, REQUEST, VERSION};
use crate::sys;
use crate::sys::kernel;
use crate::sys::socket::{self, Wanted};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Largest number of requests processed in one call.
const TURN: usize = 32;
/// Smallest interval between two new threads for timed questions (latency probes) of one session,
/// ns.
const THREADS: u64 = 500_000_000;
/// Time limit from the greeting to the proof, ns.
const HANDSHAKE: u64 = 10_000_000_000;
/// Range of the sample interval, ms.
const SAMPLES: (u64, u64) = (10, 1000);
/// Size of the client's output buffer from which on further samples are dropped, bytes.
const WAITING: usize = 256 << 10;
/// Rows of samples are sent together at this interval (ns), or when a stream has this many.
const TOGETHER: (u64, usize) = (250_000_000, 64);

enum Flow {
    /// The stream is opened; its data connection has not arrived yet.
    Open(Role, Wanted),
    /// A stream of datagrams is opened; its client has not proved its address and port yet.
    Datagrams(Role, Wanted, datagrams::Transport),
    /// The data connection has arrived. The rows are samples that were not sent to the client yet.
    Here(Carried, Vec<Row>),
}

/// A session.
pub struct Session {
    from: IpAddr,
    /// Nonces and addresses of the handshake. The server's address is the one at which this
    /// connection arrived, until the client states another one in its proof.
    transcript: Transcript,
    cookie: Option<Cookie>,
    allowance: Option<Arc<Allowance>>,
    begun: u64,
    heard: u64,
    pinged: Option<Arc<Pinged>>,
    flows: BTreeMap<u16, Flow>,
    interval: u64,
    sample: u64,
    /// Time up to which the replies of this session have used the rate, ns.
    replied: u64,
    /// Time before which no further request is processed, because replies must keep the rate, ns;
    /// `None`: requests are processed.
    waits: Option<u64>,
    told: u64,
    missed: u64,
    cpu: u64,
    answering: Option<Answering>,
    threads: u64,
    /// Time of the next look at streams of datagrams that are being opened, ns; `u64::MAX` without
    /// any.
    opening: u64,
}

fn say(out: &mut Vec<u8>, value: &Value) {
    out.extend(wire::to_frame(value));
}

/// A text field of a request; `None` if it is missing or no text.
fn text<'a>(request: &'a Value, key: &str) -> Option<&'a str> {
    request.get(key).and_then(Value::as_str)
}

fn number(request: &Value, key: &str) -> Option<u64> {
    request.get(key).and_then(Value::as_u64)
}

fn streams(request: &Value) -> Vec<u16> {
    let list = request.get("streams").and_then(Value::as_array);
    let numbers = list.into_iter().flatten().filter_map(Value::as_u64);
    let numbers: BTreeSet<u16> = numbers
        .filter_map(|n| u16::try_from(n).ok())
        .take(STREAMS)
        .collect();
    numbers.into_iter().collect()
}

/// Whether a text has the form of a congestion control's name, so that it may be passed to the
/// kernel.
fn is_name(name: &str) -> bool {
    (1..16).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

impl Session {
    /// A new session, whose client has sent its hello.
    pub fn new(
        link: &Connection,
        client: Nonce,
        now: u64,
        out: &mut Vec<u8>,
        shared: &Shared,
    ) -> Result<Session, End> {
        let transcript = Transcript {
            client,
            server: random().map_err(|_| End::Limit)?,
            from: canonical(link.peer()),
            to: socket::local(link.fd())
                .map(canonical)
                .map_err(|_| End::Limit)?,
        };
        Ok(Session::greeted(link.from(), transcript, now, out, shared))
    }
    /// As [`Session::new`], without a connection: only its addresses are known.
    pub fn greeted(
        from: IpAddr,
        transcript: Transcript,
        now: u64,
        out: &mut Vec<u8>,
        shared: &Shared,
    ) -> Session {
        say(
            out,
            &json!({
                "is": "greeting", "narrows": env!("CARGO_PKG_VERSION"), "protocol": VERSION,
                "nonce": hex(&transcript.server), "token": shared.token.is_some(),
                "you": transcript.from.to_string(),
            }),
        );
        Session {
            from,
            transcript,
            cookie: None,
            allowance: None,
            begun: now,
            heard: now,
            pinged: None,
            flows: BTreeMap::new(),
            interval: 0,
            sample: u64::MAX,
            replied: 0,
            waits: None,
            told: now,
            missed: 0,
            cpu: sys::process_cpu(),
            answering: None,
            threads: 0,
            opening: u64::MAX,
        }
    }
    /// Refuses a client with another version of the protocol. Every version can read the message.
    pub fn refuse_version(version: u8, out: &mut Vec<u8>) {
        let ours = env!("CARGO_PKG_VERSION");
        let (newer, older) = if version < VERSION {
            ("this server", "your narrows")
        } else {
            ("your narrows", "this server")
        };
        let why = format!(
            "{newer} is newer: this server (narrows {ours}) uses version {VERSION} of the \
             protocol, your narrows version {version}; update {older}"
        );
        say(
            out,
            &json!({ "is": "refused", "why": why, "protocol": VERSION }),
        );
    }
    fn join(
        &mut self,
        request: &Value,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        let mut refuse = |why: &str, end: End| {
            say(out, &json!({ "is": "refused", "why": why }));
            Err(end)
        };
        if let Some(token) = &shared.token {
            if let Err(wait) = shared.accounts.may_guess(self.from, now) {
                return refuse(&wait.text(), End::Token);
            }
            let proof = text(request, "proof").and_then(from_hex::<32>);
            let to = text(request, "to")
                .and_then(|to| to.parse().ok())
                .map(canonical);
            let (Some(proof), Some(to)) = (proof, to) else {
                return refuse("no token: the server requires one", End::Token);
            };
            let here = self.transcript.to;
            self.transcript.to = to;
            let right = self
                .transcript
                .proves(token, handshake::Role::Client, &proof);
            shared.accounts.guessed(self.from, right, now);
            if !right {
                return refuse("wrong token: it differs from the server's", End::Token);
            }
            if to != here && !shared.public.contains(&to) {
                let why = format!(
                    "the client has connected to {to}, but this server was reached at {here}: \
                     behind a NAT, start the server with --public {to}; otherwise a host on the \
                     path intercepts the connection"
                );
                return refuse(&why, End::Token);
            }
        }
        let allowance = match shared.admit(self.from, now) {
            Ok(allowance) => allowance,
            Err(full @ (Refused::Full | Refused::Address | Refused::Network)) => {
                return refuse(&full.text(), End::Full);
            }
            Err(other) => return refuse(&other.text(), End::Limit),
        };
        let cookie = random().map_err(|_| End::Limit)?;
        let pinged = Pinged::new(&allowance);
        self.cookie = Some(cookie);
        self.begun = now;
        shared.exchange.join(cookie, &pinged);
        self.pinged = Some(pinged);
        self.allowance = Some(allowance);
        Counters::more(&shared.counters.narrows_clients_total);
        let proof = shared.token.as_ref();
        let proof = proof.map(|token| hex(&self.transcript.proof(token, handshake::Role::Server)));
        let ccs = kernel::ccs();
        let limits = shared.accounts.limits();
        say(
            out,
            &json!({
                "is": "welcome", "proof": proof, "cookie": hex(&cookie), "boot": kernel::boot(),
                "kernel": kernel::release(),
                "ccs": { "available": ccs.available, "allowed": ccs.allowed },
                "transports": datagrams::transports(),
                "pacers": Pacer::ALL.map(Pacer::name),
                "limits": {
                    "rate_bps": limits.rate.map(|rate| rate.as_bit()),
                    "duration_s": limits.duration.as_s(), "bytes": limits.bytes.get(),
                    "streams": STREAMS,
                },
            }),
        );
        Ok(())
    }
    fn open(&mut self, request: &Value, out: &mut Vec<u8>, shared: &Shared) -> Result<(), End> {
        let stream = number(request, "stream").and_then(|n| u16::try_from(n).ok());
        let role = match text(request, "direction") {
            Some("up") => Some(Role::Receiver),
            Some("down") => Some(Role::Sender),
            _ => None,
        };
        let (Some(stream), Some(role)) = (stream, role) else {
            return Err(End::Garbage);
        };
        let cc = text(request, "cc").map(String::from);
        let transport = text(request, "transport").filter(|name| *name != "tcp");
        let why = if self.flows.len() >= STREAMS {
            Some("too many streams")
        } else if self.flows.contains_key(&stream) {
            Some("it is open")
        } else if cc.as_deref().is_some_and(|cc| !is_name(cc)) {
            Some("not the name of a congestion control")
        } else {
            None
        };
        let transport = match (why, transport) {
            (Some(why), _) => Err(why.to_string()),
            (None, Some(name)) => datagrams::requested(name, request, role, cc.as_deref(), shared)
                .ok_or(End::Garbage)?
                .map(Some),
            (None, None) => Ok(None),
        };
        let transport = match transport {
            Ok(transport) => transport,
            Err(why) => {
                say(
                    out,
                    &json!({ "is": "refused", "stream": stream, "why": why }),
                );
                return Ok(());
            }
        };
        let wanted = Wanted {
            cc: cc.filter(|_| role == Role::Sender),
            dscp: number(request, "dscp").unwrap_or(0).min(63) as u8,
            pacing: number(request, "pacing_bytes").filter(|_| role == Role::Sender),
        };
        let flow = match (transport, &self.pinged) {
            (Some(transport), Some(pinged)) => {
                pinged.await_opening(stream, random().map_err(|_| End::Limit)?);
                self.opening = 0;
                Flow::Datagrams(role, wanted, transport)
            }
            _ => Flow::Open(role, wanted),
        };
        self.flows.insert(stream, flow);
        say(out, &json!({ "is": "open", "stream": stream }));
        Ok(())
    }
    fn start(&mut self, request: &Value, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        let interval = number(request, "sample_ms")
            .unwrap_or(100)
            .clamp(SAMPLES.0, SAMPLES.1);
        self.interval = interval * 1_000_000;
        for stream in streams(request) {
            if let Some(Flow::Here(carried, _)) = self.flows.get_mut(&stream) {
                carried.start(shared);
            }
        }
        self.sample = now;
        say(out, &json!({ "is": "started", "here": now }));
    }
    fn stop(&mut self, request: &Value, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        self.tell(out, true, now, shared);
        for stream in streams(request) {
            match self.flows.remove(&stream) {
                Some(Flow::Here(mut carried, _)) => {
                    carried.stop(shared);
                    let told = &carried.stream;
                    let (sending, row) = (told.sending(), told.row(now));
                    let mut row = row.unwrap_or(Row {
                        at: now,
                        ..Row::default()
                    });
                    if told.role() == Role::Receiver {
                        row.bytes = told.moved();
                    }
                    say(
                        out,
                        &json!({
                            "is": "stopped", "stream": stream, "moved": told.moved(),
                            "row": row.to_json(),
                            "mss": sending.mss, "ecn": sending.ecn, "cc": sending.cc,
                        }),
                    );
                    // The client has stopped the stream, so unsent data is of no use.
                    let _ = sys::set_reset(told.socket());
                }
                _ => say(
                    out,
                    &json!({ "is": "stopped", "stream": stream, "moved": 0 }),
                ),
            }
        }
        let runs = |flow: &Flow| matches!(flow, Flow::Here(carried, _) if carried.runs());
        if !self.flows.values().any(runs) {
            self.sample = u64::MAX;
        }
    }
    fn report(&mut self, out: &mut Vec<u8>, shared: &Shared) {
        let load = self
            .pinged
            .as_ref()
            .map(|pinged| pinged.take_load())
            .unwrap_or_default();
        let moved = self
            .allowance
            .as_ref()
            .map_or(0, |allowance| allowance.load().moved());
        let cpu = sys::process_cpu();
        say(
            out,
            &json!({
                "is": "report", "cpu_ns": cpu.saturating_sub(self.cpu),
                "socket_drops": shared.exchange.lost(),
                "missed_samples": self.missed, "moved": moved,
                "answering_ns": shared.exchange.answering(),
                "load": {
                    "packets": load.packets, "bytes": load.bytes, "reordered": load.reordered,
                    "highest": load.highest,
                    "first": load.first, "last": load.last,
                },
            }),
        );
        self.cpu = cpu;
    }
    fn request(
        &mut self,
        request: &Value,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        self.heard = now;
        if self.cookie.is_none() {
            return self.join(request, out, now, shared);
        }
        match text(request, "do") {
            Some("clock") => {
                let at = request.get("at").and_then(Value::as_u64);
                say(
                    out,
                    &json!({ "is": "clock", "at": at, "here": sys::monotonic() }),
                );
            }
            Some("open") => self.open(request, out, shared)?,
            Some("start") => self.start(request, out, now, shared),
            Some("stop") => self.stop(request, out, now, shared),
            Some("report") => self.report(out, shared),
            Some("latency") => {
                let port = number(request, "port").and_then(|port| u16::try_from(port).ok());
                let (Some(port), Some(cookie), Some(allowance)) =
                    (port, self.cookie, &self.allowance)
                else {
                    return Err(End::Garbage);
                };
                let peer = SocketAddr::new(self.from, port);
                // A session has one such thread: that of the last request.
                let why = if self
                    .answering
                    .as_ref()
                    .is_some_and(|answering| answering.peer() == peer)
                {
                    None
                } else if let Err(refused) = Answering::allowed(shared, peer) {
                    Some(refused.to_string())
                } else if now < self.threads {
                    Some("a thread was requested a moment ago: try again in a second".into())
                } else {
                    self.threads = now + THREADS;
                    self.answering = None;
                    match Answering::start(shared, allowance, peer, Answers::Timed(Some(cookie))) {
                        Ok(answering) => {
                            self.answering = Some(answering);
                            None
                        }
                        Err(error) => Some(error.to_string()),
                    }
                };
                say(
                    out,
                    &json!({
                        "is": "latency", "thread": why.is_none(), "why": why,
                        "policy": shared.answering.0.text(),
                    }),
                );
            }
            Some("forget") => {
                let why = crate::measure::tcp_metrics::forget(self.from).err();
                say(out, &json!({ "is": "forgotten", "why": why }));
            }
            Some("bye") => return Err(End::Done),
            _ => return Err(End::Garbage),
        }
        Ok(())
    }
    /// Records a row of samples of every running stream on which this host sends. For streams of
    /// the other direction the client samples itself. Rows sent to the client would delay the
    /// answers to pings on an otherwise idle path. Returns the number of rows.
    fn note(&mut self, out: &[u8], now: u64) -> u64 {
        let (full, mut sampled) = (out.len() > WAITING, 0);
        for flow in self.flows.values_mut() {
            let Flow::Here(carried, rows) = flow else {
                continue;
            };
            if !carried.runs() || carried.stream.role() == Role::Receiver {
                continue;
            }
            if full || rows.len() >= TOGETHER.1 {
                self.missed += 1;
                continue;
            }
            rows.extend(carried.stream.row(now));
            sampled += 1;
        }
        sampled
    }
    /// Charges a reply. Replies are charged separately from the load, because the load may use the
    /// whole rate of the session.
    fn charge(&mut self, bytes: usize, now: u64, shared: &Shared) {
        let Some(rate) = shared.accounts.limits().rate else {
            return;
        };
        let cost = (bytes as u64 * 8).saturating_mul(1_000_000_000) / rate.as_bit().max(1);
        self.replied = self.replied.max(now).saturating_add(cost);
    }
    fn tell(&mut self, out: &mut Vec<u8>, all: bool, now: u64, shared: &Shared) {
        let many = |flow: &Flow| matches!(flow, Flow::Here(_, rows) if rows.len() >= TOGETHER.1);
        if !all && now < self.told + TOGETHER.0 && !self.flows.values().any(many) {
            return;
        }
        self.told = now;
        for (stream, flow) in &mut self.flows {
            let Flow::Here(_, rows) = flow else { continue };
            if rows.is_empty() || out.len() > WAITING {
                continue;
            }
            let list: Vec<Value> = rows.drain(..).map(|row| row.to_json()).collect();
            let frame = wire::to_frame(&json!({ "is": "samples", "stream": stream, "rows": list }));
            debug_assert!(frame.len() <= ANSWER);
            out.extend(frame);
        }
        if self.missed > 0 {
            shared
                .counters
                .dropped_samples_total
                .fetch_max(self.missed, Relaxed);
        }
    }
}

impl Speaker for Session {
    fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End> {
        let mut took = 0;
        self.waits = None;
        // Requests of a client that does not read replies are not processed.
        for _ in 0..TURN {
            if out.len() > WAITING {
                break;
            }
            match wire::frame(&input[took..], REQUEST) {
                Ok(Some(_)) if self.replied > now + BURST => {
                    self.waits = Some(self.replied - BURST);
                    break;
                }
                Ok(Some((request, n))) => {
                    took += n;
                    let before = out.len();
                    self.request(&request, out, now, shared)?;
                    self.charge(out.len().saturating_sub(before), now, shared);
                }
                Ok(None) => break,
                Err(_) => return Err(End::Garbage),
            }
        }
        Ok(took)
    }
    fn most(&self) -> usize {
        4 * REQUEST
    }
    fn joined(
        &mut self,
        stream: u16,
        link: Connection,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        let (Some(Flow::Open(role, wanted)), Some(allowance)) =
            (self.flows.get(&stream), &self.allowance)
        else {
            return Ok(());
        };
        if link.from() != self.from {
            return Ok(());
        }
        self.heard = now;
        let role = *role;
        let socket = link.fd();
        let arrived = socket::arrived_class(socket);
        let may = wanted
            .cc
            .as_deref()
            .map_or(Ok(()), |cc| shared.may_choose(cc));
        let applied = may.and_then(|()| {
            let failed = |error| {
                format!(
                    "{}: {error}",
                    wanted.cc.as_deref().unwrap_or("options of a socket")
                )
            };
            wanted.apply(socket).map_err(failed)
        });
        if let Err(why) = applied {
            say(
                out,
                &json!({ "is": "refused", "stream": stream, "why": why }),
            );
            self.flows.remove(&stream);
            return Ok(());
        }
        if role == Role::Sender {
            // Limits the unsent data in the kernel, which requests more data in time.
            let _ = sys::set_notsent_lowat(socket, crate::measure::bulk::UNSENT);
        }
        say(
            out,
            &json!({ "is": "joined", "stream": stream, "cc": socket::cc_of(socket),
            "class": arrived }),
        );
        let mut carried = Carried::new(link, role, allowance, shared);
        if role == Role::Receiver {
            carried.start(shared);
        }
        self.flows.insert(stream, Flow::Here(carried, Vec::new()));
        Ok(())
    }
    fn tick(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End> {
        if self.cookie.is_none() {
            return if now > self.begun + HANDSHAKE {
                Err(End::Timeout)
            } else {
                Ok(())
            };
        }
        let spent = self
            .allowance
            .as_ref()
            .is_some_and(|allowance| allowance.spent());
        if now.saturating_sub(self.begun) > shared.accounts.limits().duration.as_ns() || spent {
            say(
                out,
                &json!({ "is": "over", "why": "the server's limit of duration or bytes" }),
            );
            return Err(End::Limit);
        }
        if now >= self.opening {
            self.join_datagrams(out, now, shared);
        }
        let ended = self.flows.values().find_map(|flow| match flow {
            Flow::Here(carried, _) => carried.stream.ended(),
            _ => None,
        });
        if let Some(ended) = ended {
            self.tell(out, true, now, shared);
            say(out, &json!({ "is": "over", "why": ended.text() }));
            return Err(End::Limit);
        }
        if now >= self.sample {
            let sampled = self.note(out, now);
            // With many streams, samples are taken less often, so that this thread has time for
            // other clients.
            let interval = self.interval.max(sampled * (1_000_000_000 / ROWS));
            // Samples that are overdue are not made up for.
            self.sample = (self.sample + interval).max(now);
        }
        self.tell(out, false, now, shared);
        if self.answering.as_mut().is_some_and(Answering::works) {
            self.heard = now;
        }
        let carried = |flow: &Flow| matches!(flow, Flow::Here(carried, _) if carried.runs());
        if self.flows.values().any(carried) {
            // Load in progress keeps a session alive. A load without progress for
            // [`super::limits::GONE`] means that the client is lost.
            if self
                .allowance
                .as_ref()
                .is_some_and(|allowance| allowance.stalled(now))
            {
                return Err(End::Timeout);
            }
            self.heard = now;
        }
        if now > self.heard + IDLE {
            return Err(End::Timeout);
        }
        Ok(())
    }
    fn due(&self) -> u64 {
        let limit = if self.cookie.is_some() {
            IDLE
        } else {
            HANDSHAKE
        };
        let waits = self.waits.unwrap_or(u64::MAX);
        self.sample
            .min(self.heard + limit)
            .min(waits)
            .min(self.opening)
    }
    fn waits(&self) -> bool {
        self.waits.is_some()
    }
    fn key(&self) -> Option<Key> {
        self.cookie.map(Key::Narrows)
    }
    fn allowance(&self) -> Option<&Arc<Allowance>> {
        self.allowance.as_ref()
    }
    fn look(&mut self, now: u64) {
        for flow in self.flows.values_mut() {
            if let Flow::Here(carried, _) = flow {
                carried.look(now);
            }
        }
    }
    fn gone(&mut self, shared: &Shared) {
        if let Some(answering) = self.answering.take() {
            shared
                .counters
                .pings_total
                .fetch_add(answering.answers(), Relaxed);
        }
        for flow in self.flows.values_mut() {
            if let Flow::Here(carried, _) = flow {
                carried.stop(shared);
                let _ = sys::set_reset(carried.stream.socket());
            }
        }
        self.flows.clear();
        if let Some(cookie) = self.cookie {
            shared.exchange.leave(&cookie);
        }
        if let Some(allowance) = &self.allowance {
            shared.leave(allowance);
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
