//! The door of a far end: one thread that accepts, tells protocols apart by their first bytes, and never waits for anybody.
//!
//! | first bytes | is |
//! |---|---|
//! | `NARR` | ours: control, or load of a session |
//! | 37 of iperf3's cookie | the first is the control connection of a test, those after it with the same cookie are its streams |
//! | `GET ` | an object of a page, of a session |
//!
//! Whatever else is dropped and counted, as is who is silent before it is known ([`UNKNOWN`]). The connections that are not known yet
//! are limited ([`HALF_OPEN`]): when one more comes, the oldest goes, so that a crowd of silent ones shuts nobody out for long.

use super::counters::Counters;
use super::iperf::Test;
use super::page::{Page, What};
use super::session::Session;
use super::shared::{End, Key, Shared, Speaker};
use crate::iperf3::{self, COOKIE};
use crate::socket;
use crate::sys::{self, Epoll};
use crate::wire::{Bad, Hello};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Connections that have not said what they are.
pub const HALF_OPEN: usize = 512;
/// So long they may take, ns.
pub const UNKNOWN: u64 = 5_000_000_000;
/// Bytes that may wait to be sent to one client: the largest page, and then some.
const MOST_OUT: usize = 1 << 20;
/// Bytes that are read by one call.
const READ: usize = 16 << 10;
/// The longest sleep, ns: so often a request to stop is seen.
const LONGEST: u64 = 100_000_000;
/// One that is to be closed has so long to fetch the last words, ns.
const FAREWELL: u64 = 2_000_000_000;
/// Connections accepted before others get their turn.
const TURN: usize = 64;
const LISTENERS: u64 = 1 << 63;

enum Who {
    /// Not known yet.
    Nobody,
    /// HTTP, which asks the door whether a session is there.
    Page(Page),
    /// A client.
    Client(Box<dyn Speaker>),
}

struct Conn {
    socket: OwnedFd,
    from: IpAddr,
    since: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    who: Who,
    metrics: bool,
    key: Option<Key>,
    closing: Option<u64>,
    writing: bool,
    due: u64,
}

/// Where connections come in.
pub struct Listener {
    /// It.
    pub socket: OwnedFd,
    /// Only for who asks for the counters.
    pub metrics: bool,
}

/// The door.
pub struct Door<'a> {
    shared: &'a Shared,
    epoll: Epoll,
    listeners: Vec<Listener>,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    keys: HashMap<Key, usize>,
    scratch: Vec<u8>,
}

impl<'a> Door<'a> {
    /// Behind these listeners.
    pub fn new(listeners: Vec<Listener>, shared: &'a Shared) -> std::io::Result<Door<'a>> {
        let epoll = Epoll::new()?;
        for (i, listener) in listeners.iter().enumerate() {
            epoll.add(&listener.socket, sys::READABLE, LISTENERS | i as u64)?;
        }
        Ok(Door {
            shared,
            epoll,
            listeners,
            conns: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
            scratch: vec![0; READ],
        })
    }
    /// Serves until it is told to stop, and then says goodbye.
    pub fn run(&mut self, stop: &AtomicBool) -> std::io::Result<()> {
        while !stop.load(Relaxed) && !sys::stopped() {
            let now = sys::monotonic();
            let due = self.conns.iter().flatten().map(|conn| conn.due).min();
            let wait = due.map_or(LONGEST, |due| due.saturating_sub(now).min(LONGEST));
            for (events, token) in self.epoll.wait(wait)? {
                if token & LISTENERS != 0 {
                    self.accept((token & !LISTENERS) as usize);
                } else {
                    self.ready(token as usize, events);
                }
            }
            self.tick();
        }
        for at in 0..self.conns.len() {
            self.close(at);
        }
        Ok(())
    }
    fn accept(&mut self, listener: usize) {
        for _ in 0..TURN {
            let Listener { socket, metrics } = &self.listeners[listener];
            // Out of descriptors, or gone already: the next turn tries again.
            let Ok(Some((socket, from))) = socket::accept(socket) else {
                return;
            };
            let metrics = *metrics;
            Counters::more(&self.shared.counters.connections_total);
            self.make_room();
            self.enter(socket, from, metrics);
        }
    }
    fn enter(&mut self, socket: OwnedFd, from: SocketAddr, metrics: bool) {
        socket::no_delay(&socket);
        let at = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        if self.epoll.add(&socket, sys::READABLE, at as u64).is_err() {
            self.free.push(at);
            return;
        }
        Counters::more(&self.shared.counters.connections);
        let now = sys::monotonic();
        self.conns[at] = Some(Conn {
            socket,
            from: from.ip(),
            since: now,
            input: Vec::new(),
            output: Vec::new(),
            who: Who::Nobody,
            metrics,
            key: None,
            closing: None,
            writing: false,
            due: now + UNKNOWN,
        });
    }
    /// Who has been silent for longest makes room for who comes.
    fn make_room(&mut self) {
        let unknown = |conn: &&Conn| matches!(conn.who, Who::Nobody);
        if self.conns.iter().flatten().filter(unknown).count() < HALF_OPEN {
            return;
        }
        let all = self.conns.iter().enumerate();
        let unknown = all.filter_map(|(at, conn)| conn.as_ref().filter(unknown).map(|conn| (conn.since, at)));
        if let Some((_, at)) = unknown.min() {
            Counters::more(&self.shared.counters.dropped_full_total);
            self.close(at);
        }
    }
    fn ready(&mut self, at: usize, events: u32) {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        if events & (sys::READABLE | sys::BROKEN) != 0 {
            let most = match &conn.who {
                Who::Nobody => COOKIE,
                Who::Page(page) => page.most(),
                Who::Client(client) => client.most(),
            };
            let room = most.saturating_sub(conn.input.len()).min(READ);
            if room > 0 || events & sys::BROKEN != 0 {
                // What is more than may wait stays in the kernel, whose window closes.
                match socket::read(&conn.socket, &mut self.scratch[..room.max(1)]) {
                    Ok(Some(0)) | Err(_) => return self.close(at),
                    Ok(Some(n)) => conn.input.extend(&self.scratch[..n]),
                    Ok(None) => {}
                }
            }
        }
        self.turn(at);
    }
    /// Everything that a connection can do now.
    fn turn(&mut self, at: usize) {
        let now = sys::monotonic();
        loop {
            if let Err(end) = self.listen(at, now) {
                self.end(at, end, now);
            }
            self.flush(at, now);
            // An object is written in parts: the next one as soon as the kernel has taken the last.
            let conn = self.conns.get(at).and_then(Option::as_ref);
            if !conn.is_some_and(|conn| conn.output.is_empty() && matches!(&conn.who, Who::Page(page) if page.more())) {
                return;
            }
        }
    }
    fn listen(&mut self, at: usize, now: u64) -> Result<(), End> {
        let shared = self.shared;
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return Ok(());
        };
        if conn.closing.is_some() {
            conn.input.clear();
            if let Who::Page(page) = &mut conn.who {
                *page = Page::new(What::Objects, now);
            }
            return Ok(());
        }
        if matches!(conn.who, Who::Nobody) {
            return self.recognise(at, now);
        }
        match &mut conn.who {
            Who::Nobody => {}
            Who::Page(page) => {
                let took = page.heard(&conn.input, &mut conn.output, now, shared)?;
                conn.input.drain(..took);
                if let Some(cookie) = page.asked() {
                    let there = self.keys.contains_key(&Key::Narrows(cookie));
                    page.allow(there, &mut conn.output, shared);
                }
                page.tick(&mut conn.output, now, shared)?;
                conn.due = page.due();
            }
            Who::Client(client) => {
                let took = client.heard(&conn.input, &mut conn.output, now, shared)?;
                conn.input.drain(..took);
                client.tick(&mut conn.output, now, shared)?;
                conn.due = client.due();
                if conn.key.is_none() {
                    conn.key = client.key();
                    self.keys.extend(conn.key.map(|key| (key, at)));
                }
            }
        }
        Ok(())
    }
    /// What is this connection?
    fn recognise(&mut self, at: usize, now: u64) -> Result<(), End> {
        let shared = self.shared;
        let Some(conn) = self.conns[at].as_mut() else {
            return Ok(());
        };
        if conn.input.is_empty() {
            return if now > conn.since + UNKNOWN {
                Err(End::Timeout)
            } else {
                Ok(())
            };
        }
        let get = b"GET ".iter().zip(&conn.input).all(|(a, b)| a == b);
        if get || conn.metrics {
            if !get {
                return Err(End::Garbage);
            }
            let what = if conn.metrics { What::Metrics } else { What::Objects };
            conn.who = Who::Page(Page::new(what, now));
            return self.listen(at, now);
        }
        match Hello::from_bytes(&conn.input) {
            Ok(Some(Hello::Control)) => {
                conn.input.drain(..crate::wire::HELLO);
                let session = Session::new(conn.from, now, &mut conn.output, shared)?;
                conn.who = Who::Client(Box::new(session));
                return self.listen(at, now);
            }
            Ok(Some(Hello::Data(stream, cookie))) => return self.hand_over(at, Key::Narrows(cookie), stream, now),
            Ok(None) => {}
            Err(Bad::Foreign) if iperf3::may_be_cookie(&conn.input) => {
                if let Some(cookie) = conn.input.first_chunk::<COOKIE>() {
                    let (key, cookie) = (Key::Iperf(*cookie), *cookie);
                    if self.keys.contains_key(&key) {
                        return self.hand_over(at, key, 0, now);
                    }
                    conn.input.drain(..COOKIE);
                    let test = Test::new(conn.from, cookie, now, &mut conn.output, shared)?;
                    conn.who = Who::Client(Box::new(test));
                    return self.listen(at, now);
                }
            }
            Err(_) => return Err(End::Garbage),
        }
        if now > conn.since + UNKNOWN {
            return Err(End::Timeout);
        }
        Ok(())
    }
    /// A connection of load goes to its client.
    fn hand_over(&mut self, at: usize, key: Key, stream: u16, now: u64) -> Result<(), End> {
        let Some(owner) = self.keys.get(&key).copied() else {
            return Err(End::Garbage);
        };
        let Some(conn) = self.conns[at].take() else {
            return Ok(());
        };
        self.free.push(at);
        Counters::less(&self.shared.counters.connections);
        let _ = self.epoll.remove(&conn.socket);
        let Some(client) = self.conns[owner].as_mut() else {
            return Ok(());
        };
        let Who::Client(speaker) = &mut client.who else {
            return Ok(());
        };
        let joined = speaker.joined(stream, conn.socket, conn.from, &mut client.output, now, self.shared);
        client.due = speaker.due();
        if let Err(end) = joined {
            self.end(owner, end, now);
        }
        self.flush(owner, now);
        Ok(())
    }
    /// A visit ends: what was said last may still leave.
    fn end(&mut self, at: usize, end: End, now: u64) {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let counters = &self.shared.counters;
        match end {
            End::Done => {}
            End::Garbage => Counters::more(&counters.dropped_garbage_total),
            End::Timeout => Counters::more(&counters.dropped_timeout_total),
            End::Full => Counters::more(&counters.refused_full_total),
            End::Token => Counters::more(&counters.refused_token_total),
            End::Limit => Counters::more(&counters.refused_limit_total),
        }
        if let Who::Client(client) = &mut conn.who {
            client.gone(self.shared);
        }
        // A client's seat is free at once. An object of a page is on its way yet.
        if !matches!(conn.who, Who::Page(_)) {
            conn.who = Who::Page(Page::new(What::Objects, now));
        }
        if let Some(key) = conn.key.take() {
            self.keys.remove(&key);
        }
        conn.closing = Some(now + FAREWELL);
        conn.due = now + FAREWELL;
    }
    fn flush(&mut self, at: usize, now: u64) {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        while !conn.output.is_empty() {
            match sys::send_some(&conn.socket, &conn.output) {
                Ok(Some(n)) => {
                    conn.output.drain(..n);
                }
                Ok(None) => break,
                Err(_) => return self.close(at),
            }
        }
        let over = conn.closing.is_some_and(|until| conn.output.is_empty() || now >= until);
        if over || conn.output.len() > MOST_OUT {
            return self.close(at);
        }
        let writing = !conn.output.is_empty();
        if writing != conn.writing {
            let events = sys::READABLE | if writing { sys::WRITABLE } else { 0 };
            let _ = self.epoll.change(&conn.socket, events, at as u64);
            conn.writing = writing;
        }
    }
    fn tick(&mut self) {
        let now = sys::monotonic();
        for at in 0..self.conns.len() {
            if self.conns[at].as_ref().is_some_and(|conn| conn.due <= now) {
                self.turn(at);
            }
        }
    }
    fn close(&mut self, at: usize) {
        let Some(mut conn) = self.conns.get_mut(at).and_then(Option::take) else {
            return;
        };
        if let Who::Client(client) = &mut conn.who {
            client.gone(self.shared);
        }
        if let Some(key) = conn.key {
            self.keys.remove(&key);
        }
        let _ = self.epoll.remove(&conn.socket);
        self.free.push(at);
        Counters::less(&self.shared.counters.connections);
    }
}
