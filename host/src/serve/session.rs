//! A client that speaks narrows' own protocol: greeted, then joined, then any number of streams opened, started, stopped.
//!
//! ```text
//! client                                       server
//! hello                                        greeting: version, nonce, is a token asked for
//! {proof: HMAC(token, nonce)}                  welcome: cookie, limits, this host       or  refused: why
//! {do: clock, at}                              {is: clock, at, here}
//! {do: open, stream, direction, cc, …}         {is: open, stream}                       or  {is: refused, stream, why}
//! a data connection with the cookie            {is: joined, stream, cc, …}
//! {do: start, streams, sample_ms}              {is: started}, then {is: samples, stream, rows} while it runs
//! {do: stop, streams}                          {is: stopped, stream, moved, row} each
//! {do: report}                                 {is: report, …}
//! {do: latency, port}                          {is: latency, thread}: who asks timed questions from there has a thread of his own
//! ```
//!
//! The table of streams is bounded, as are the samples that wait to be fetched: one who does not read loses rows, and the
//! report says how many. A session without load ends after [`IDLE`]; any after the limits' duration.

use super::answering::Answering;
use super::counters::Counters;
use super::shared::{Carried, End, Key, Seat, Shared, Speaker};
use super::udp::Pinged;
use crate::bulk::{Budget, Way};
use crate::digest::{from_hex, hex, hmac, random, same};
use crate::latency::answer::Answers;
use crate::row::Row;
use crate::socket::{self, Wanted};
use crate::wire::{self, Cookie, ANSWER, REQUEST, VERSION};
use crate::{machine, sys};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Streams of one session at once.
const MOST_STREAMS: usize = 256;
/// Without load and without a word, ns.
const IDLE: u64 = 60_000_000_000;
/// From the greeting to the proof, ns.
const HANDSHAKE: u64 = 10_000_000_000;
/// The least time between two samples, ms, and the longest.
const SAMPLES: (u64, u64) = (10, 1000);
/// Bytes that may wait to be read by the client; what comes after it is not sampled.
const WAITING: usize = 256 << 10;
/// Rows leave together, so often (ns) or when so many have come.
const TOGETHER: (u64, usize) = (250_000_000, 64);

enum Flow {
    /// Its connection is awaited.
    Open(Way, Wanted),
    /// It is there.
    Here(Carried, Vec<Row>),
}

/// A session.
pub struct Session {
    from: IpAddr,
    nonce: [u8; 16],
    cookie: Option<Cookie>,
    seat: Option<Seat>,
    begun: u64,
    heard: u64,
    budget: Arc<Budget>,
    pinged: Arc<Pinged>,
    flows: BTreeMap<u16, Flow>,
    interval: u64,
    sample: u64,
    told: u64,
    missed: u64,
    cpu: u64,
    answering: Option<Answering>,
}

fn say(out: &mut Vec<u8>, value: &Value) {
    out.extend(wire::to_frame(value));
}

/// What a request asks for; what it does not have is refused by name.
fn text<'a>(request: &'a Value, key: &str) -> Option<&'a str> {
    request.get(key).and_then(Value::as_str)
}

fn number(request: &Value, key: &str) -> Option<u64> {
    request.get(key).and_then(Value::as_u64)
}

fn streams(request: &Value) -> Vec<u16> {
    let list = request.get("streams").and_then(Value::as_array);
    let numbers = list.into_iter().flatten().filter_map(Value::as_u64);
    numbers
        .filter_map(|n| u16::try_from(n).ok())
        .take(MOST_STREAMS)
        .collect()
}

/// A name that may be given to the kernel.
fn is_name(name: &str) -> bool {
    (1..16).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// Which boot this is, not told as it is: two ends with the same one have the same clock.
pub fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Time namespaces move the clock within one boot.
    let moved = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    hex(&crate::digest::sha256(&[b"narrows", id.as_bytes(), moved.as_bytes()])[..16])
}

impl Session {
    /// One that has said hello.
    pub fn new(from: IpAddr, now: u64, out: &mut Vec<u8>, shared: &Shared) -> Result<Session, End> {
        let nonce = random().map_err(|_| End::Limit)?;
        say(
            out,
            &json!({
                "is": "greeting", "narrows": env!("CARGO_PKG_VERSION"), "protocol": VERSION,
                "nonce": hex(&nonce), "token": shared.token.is_some(),
            }),
        );
        let budget = shared.budget();
        Ok(Session {
            from,
            nonce,
            cookie: None,
            seat: None,
            begun: now,
            heard: now,
            pinged: Pinged::new(from, Arc::clone(&budget)),
            budget,
            flows: BTreeMap::new(),
            interval: 0,
            sample: u64::MAX,
            told: now,
            missed: 0,
            cpu: sys::process_cpu(),
            answering: None,
        })
    }
    fn join(&mut self, request: &Value, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End> {
        let mut refuse = |why: &str, end: End| {
            say(out, &json!({ "is": "refused", "why": why }));
            Err(end)
        };
        if let Some(token) = &shared.token {
            let proof = text(request, "proof").and_then(from_hex::<32>);
            let right = hmac(token.as_bytes(), &self.nonce);
            if !proof.is_some_and(|proof| same(&proof, &right)) {
                return refuse("wrong token, or none: it is asked for at the far end", End::Token);
            }
        }
        let Some(seat) = shared.seat() else {
            return refuse("as many clients as allowed: try again later", End::Full);
        };
        let cookie = random().map_err(|_| End::Limit)?;
        self.seat = Some(seat);
        self.cookie = Some(cookie);
        self.begun = now;
        shared.exchange.join(cookie, &self.pinged);
        Counters::more(&shared.counters.narrows_clients_total);
        let ccs = machine::ccs();
        say(
            out,
            &json!({
                "is": "welcome", "cookie": hex(&cookie), "boot": boot(), "kernel": machine::release(),
                "ccs": { "available": ccs.available, "allowed": ccs.allowed },
                "limits": {
                    "rate_bps": shared.limits.rate.map(|rate| rate.as_bit()),
                    "duration_s": shared.limits.duration.as_s(), "bytes": shared.limits.bytes.get(),
                    "streams": MOST_STREAMS,
                },
            }),
        );
        Ok(())
    }
    fn open(&mut self, request: &Value, out: &mut Vec<u8>) -> Result<(), End> {
        let stream = number(request, "stream").and_then(|n| u16::try_from(n).ok());
        let way = match text(request, "direction") {
            Some("up") => Some(Way::In),
            Some("down") => Some(Way::Out),
            _ => None,
        };
        let (Some(stream), Some(way)) = (stream, way) else {
            return Err(End::Garbage);
        };
        let cc = text(request, "cc").map(String::from);
        let why = if self.flows.len() >= MOST_STREAMS {
            Some("too many streams")
        } else if self.flows.contains_key(&stream) {
            Some("it is open")
        } else if cc.as_deref().is_some_and(|cc| !is_name(cc)) {
            Some("no congestion control has such a name")
        } else {
            None
        };
        if let Some(why) = why {
            say(out, &json!({ "is": "refused", "stream": stream, "why": why }));
            return Ok(());
        }
        let wanted = Wanted {
            cc: cc.filter(|_| way == Way::Out),
            dscp: number(request, "dscp").unwrap_or(0).min(63) as u8,
            pacing: number(request, "pacing_bytes").filter(|_| way == Way::Out),
        };
        self.flows.insert(stream, Flow::Open(way, wanted));
        say(out, &json!({ "is": "open", "stream": stream }));
        Ok(())
    }
    fn start(&mut self, request: &Value, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        let interval = number(request, "sample_ms").unwrap_or(100).clamp(SAMPLES.0, SAMPLES.1);
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
                    let info = sys::tcp_info(told.socket()).unwrap_or_default();
                    let mut row = Row::of(now, &info);
                    if told.way() == Way::In {
                        row.bytes = told.moved();
                    }
                    say(
                        out,
                        &json!({
                            "is": "stopped", "stream": stream, "moved": told.moved(), "row": row.to_json(),
                            "mss": info.snd_mss, "ecn": info.options() & sys::ECN != 0, "cc": socket::cc_of(told.socket()),
                        }),
                    );
                    // What is still under way is of no use to anybody.
                    let _ = sys::set_reset(told.socket());
                }
                _ => say(out, &json!({ "is": "stopped", "stream": stream, "moved": 0 })),
            }
        }
        let runs = |flow: &Flow| matches!(flow, Flow::Here(carried, _) if carried.runs());
        if !self.flows.values().any(runs) {
            self.sample = u64::MAX;
        }
    }
    fn report(&mut self, out: &mut Vec<u8>, shared: &Shared) {
        let load = self.pinged.take_load();
        let cpu = sys::process_cpu();
        say(
            out,
            &json!({
                "is": "report", "cpu_ns": cpu.saturating_sub(self.cpu), "socket_drops": shared.exchange.lost(),
                "missed_samples": self.missed, "moved": self.budget.moved(), "answering_ns": shared.exchange.answering(),
                "load": {
                    "packets": load.packets, "bytes": load.bytes, "reordered": load.reordered, "highest": load.highest,
                    "first": load.first, "last": load.last,
                },
            }),
        );
        self.cpu = cpu;
    }
    fn request(&mut self, request: &Value, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End> {
        self.heard = now;
        if self.cookie.is_none() {
            return self.join(request, out, now, shared);
        }
        match text(request, "do") {
            Some("clock") => {
                let at = request.get("at").and_then(Value::as_u64);
                say(out, &json!({ "is": "clock", "at": at, "here": sys::monotonic() }));
            }
            Some("open") => self.open(request, out)?,
            Some("start") => self.start(request, out, now, shared),
            Some("stop") => self.stop(request, out, now, shared),
            Some("report") => self.report(out, shared),
            Some("latency") => {
                // One for each session: the last one asked for.
                self.answering = None;
                let port = number(request, "port").and_then(|port| u16::try_from(port).ok());
                let answering = port.zip(self.cookie).map(|(port, cookie)| {
                    let peer = SocketAddr::new(self.from, port);
                    Answering::start(shared, peer, Answers::Timed(Some(cookie)))
                });
                let why = match answering {
                    Some(Ok(answering)) => {
                        self.answering = Some(answering);
                        None
                    }
                    Some(Err(error)) => Some(error.to_string()),
                    None => return Err(End::Garbage),
                };
                say(
                    out,
                    &json!({
                        "is": "latency", "thread": why.is_none(), "why": why, "policy": shared.answering.0.text(),
                    }),
                );
            }
            Some("forget") => {
                let why = crate::remembered::forget(self.from).err();
                say(out, &json!({ "is": "forgotten", "why": why }));
            }
            Some("bye") => return Err(End::Done),
            _ => return Err(End::Garbage),
        }
        Ok(())
    }
    /// Notes a row of every stream that sends. What comes is its sender's to note: rows of it would only wait before the answers to
    /// pings, on a path back that is empty otherwise.
    fn note(&mut self, out: &[u8], now: u64) {
        let full = out.len() > WAITING;
        for flow in self.flows.values_mut() {
            let Flow::Here(carried, rows) = flow else { continue };
            if !carried.runs() || carried.stream.way() == Way::In {
                continue;
            }
            if full || rows.len() >= TOGETHER.1 {
                self.missed += 1;
                continue;
            }
            rows.extend(sys::tcp_info(carried.stream.socket()).map(|info| Row::of(now, &info)));
        }
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
            shared.counters.dropped_samples_total.fetch_max(self.missed, Relaxed);
        }
    }
}

impl Speaker for Session {
    fn heard(&mut self, input: &[u8], out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<usize, End> {
        let mut took = 0;
        // Whoever does not read answers gets no more of them.
        while out.len() <= WAITING {
            match wire::frame(&input[took..], REQUEST) {
                Ok(Some((request, n))) => {
                    took += n;
                    self.request(&request, out, now, shared)?;
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
        socket: OwnedFd,
        from: IpAddr,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        let Some(Flow::Open(way, wanted)) = self.flows.get(&stream) else {
            return Ok(());
        };
        if from != self.from {
            return Ok(());
        }
        self.heard = now;
        let way = *way;
        let arrived = socket::arrived_class(&socket);
        if let Err(error) = wanted.apply(&socket) {
            let cc = wanted.cc.as_deref().unwrap_or("?");
            let why = format!("{cc}: {error}; the far end's net.ipv4.tcp_allowed_congestion_control does not have it");
            say(out, &json!({ "is": "refused", "stream": stream, "why": why }));
            self.flows.remove(&stream);
            return Ok(());
        }
        if way == Way::Out {
            // The kernel asks for more in time, and what waits unsent is no load.
            let _ = sys::set_notsent_lowat(&socket, crate::bulk::UNSENT);
        }
        say(
            out,
            &json!({ "is": "joined", "stream": stream, "cc": socket::cc_of(&socket), "class": arrived }),
        );
        let mut carried = Carried::new(socket, way, &self.budget, shared);
        if way == Way::In {
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
        if now.saturating_sub(self.begun) > shared.limits.duration.as_ns() || self.budget.spent() {
            say(
                out,
                &json!({ "is": "over", "why": "the far end's limit of duration or bytes" }),
            );
            return Err(End::Limit);
        }
        if now >= self.sample {
            // Rows that were missed are not made up for.
            self.sample = (self.sample + self.interval).max(now);
            self.note(out, now);
            self.heard = now;
        }
        self.tell(out, false, now, shared);
        if self.answering.as_mut().is_some_and(Answering::works) {
            self.heard = now;
        }
        if now > self.heard + IDLE {
            return Err(End::Timeout);
        }
        Ok(())
    }
    fn due(&self) -> u64 {
        let limit = if self.cookie.is_some() { IDLE } else { HANDSHAKE };
        self.sample.min(self.heard + limit)
    }
    fn key(&self) -> Option<Key> {
        self.cookie.map(Key::Narrows)
    }
    fn gone(&mut self, shared: &Shared) {
        if let Some(answering) = self.answering.take() {
            shared.counters.pings_total.fetch_add(answering.answers(), Relaxed);
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
        self.seat = None;
    }
}
