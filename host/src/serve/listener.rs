//! The listener of a server: one thread that accepts connections, identifies their protocol by the
//! first bytes, and never blocks.
//!
//! | first bytes | protocol |
//! |---|---|
//! | `NARR` | narrows: control connection, or load of a session |
//! | 37 bytes of iperf3's cookie | the first connection controls a test, later ones with the same cookie are its streams |
//! | `GET ` | HTTP: an object of a page of a session, or counters |
//!
//! Other connections are closed and counted, as are those that do not identify their protocol
//! within [`UNKNOWN`].
//!
//! A connection is *pending* until it belongs to a session. It joins a session when its client
//! starts one, when its iperf3 test is admitted, or when it sends the cookie of a session. A start
//! needs the right token if one is required. The number of pending connections is limited for each
//! address and in total. When a new connection exceeds a limit, the network prefix with the most
//! pending connections loses its oldest one ([`super::pending`]). A network with many pending
//! connections therefore does not exclude the clients of other networks. If an address opens
//! connections too fast, this thread accepts and resets the new ones, which costs two system calls
//! each.
//!
//! Accepted connections never use all file descriptors of the process: `SPARE` of them, or a
//! quarter if that is less, remain for other uses. If the kernel has no descriptor left, the
//! listener accepts the next connection with a reserved descriptor and closes it.

use super::counters::Counters;
use super::iperf::Test;
use super::limits::{GONE, REQUEST, UNKNOWN};
use super::metered::{Accepted, Connection};
use super::page::{Page, What};
use super::session::Session;
use super::shared::{End, Key, Shared, Speaker};
use crate::protocols::iperf3::{self, COOKIE};
use crate::protocols::wire::{Bad, Hello};
use crate::sys::socket;
use crate::sys::{self, Epoll};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Largest output buffer of one client, bytes: more than the largest page.
const MOST_OUT: usize = 1 << 20;
/// Largest number of bytes read by one call.
const READ: usize = 16 << 10;
/// Longest sleep, ns. A request to stop is noticed within this time.
const LONGEST: u64 = 100_000_000;
/// Time in which the peer of a closing connection must acknowledge a further part of the last
/// message, ns. For the whole message it has [`GONE`].
const FAREWELL: u64 = 2_000_000_000;
/// Interval at which the progress of a closing connection is checked, ns.
const CHECK: u64 = 20_000_000;
/// Largest number of connections accepted per event of a listening socket.
const TURN: usize = 64;
/// Largest number of parts of an object written in one call of `turn`.
const PARTS: usize = 16;
/// Interval between two checks of each client's socket memory and silence, ns.
const LOOK: u64 = 250_000_000;
/// Number of descriptors reserved for load, datagrams, counters and `/proc`.
const SPARE: u64 = 64;
/// Pause of accepting when the kernel has no descriptor or memory even to accept and close a
/// connection, ns.
const REST: u64 = 10_000_000;
/// Smallest interval between two messages about failures, ns.
const COMPLAIN: u64 = 1_000_000_000;
const LISTENERS: u64 = 1 << 63;

enum Who {
    /// Not yet identified.
    Nobody,
    /// An HTTP connection; the listener looks up the session of each request.
    Page(Page),
    /// The control connection of a session or of an iperf3 test.
    Client(Box<dyn Speaker>),
}

/// State of a connection whose last message is being sent.
struct Closing {
    /// End of the wait, ns of the monotonic clock: [`FAREWELL`] after the last progress.
    until: u64,
    /// Largest value of `until`.
    most: u64,
    /// Bytes of the last message that the peer has not acknowledged.
    left: u64,
}

struct Conn {
    link: Connection,
    since: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    who: Who,
    metrics: bool,
    key: Option<Key>,
    closing: Option<Closing>,
    /// Time since which an incomplete request waits for its rest, ns of the monotonic clock.
    partial: Option<u64>,
    /// Whether the peer has sent FIN while this end is closing.
    ended: bool,
    /// Events for which epoll watches the connection.
    watched: u32,
    due: u64,
}

impl Conn {
    /// Number of bytes that may be read now.
    fn room(&self) -> usize {
        let most = match &self.who {
            Who::Nobody => COOKIE,
            Who::Page(page) => page.most(),
            Who::Client(client) => client.most(),
        };
        most.saturating_sub(self.input.len()).min(READ)
    }
    /// Records since when an incomplete request waits for its rest, and fails after [`REQUEST`].
    /// `took`: bytes of requests that were processed just now. Time does not count while a request
    /// waits for this server. The request may wait for output that the client has not read, for an
    /// object, or for a rate.
    fn slow(&mut self, took: usize, now: u64) -> Result<(), End> {
        let busy = match &self.who {
            Who::Page(page) => page.busy(),
            Who::Client(client) => client.waits(),
            Who::Nobody => false,
        };
        self.partial = if self.input.is_empty() || !self.output.is_empty() || busy {
            None
        } else if took > 0 {
            Some(now)
        } else {
            self.partial.or(Some(now))
        };
        match self.partial {
            Some(since) if now > since + REQUEST => Err(End::Timeout),
            _ => Ok(()),
        }
    }
    /// The latest time of the next call, ns. `due` is that time without an incomplete request.
    fn next(&self, due: u64) -> u64 {
        self.partial
            .map_or(due, |since| due.min(since + REQUEST + 1))
    }
    /// The epoll events to wait for. Input is not watched while there is no room for it, since
    /// epoll would report it in every call. The data then stays in the kernel, which closes the
    /// receive window.
    fn awaited(&self) -> u32 {
        let reads = if self.room() > 0 && !self.ended {
            sys::READABLE
        } else {
            0
        };
        let writes = if self.output.is_empty() {
            0
        } else {
            sys::WRITABLE
        };
        reads | writes
    }
}

/// A listening socket.
pub struct ListeningSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Whether the socket only serves the counters (`--metrics`).
    pub metrics: bool,
}

/// The event loop of the server.
pub struct Listener<'a> {
    shared: &'a Shared,
    epoll: Epoll,
    listeners: Vec<ListeningSocket>,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    keys: HashMap<Key, usize>,
    /// Index in `conns` of each connection, by the number of the connection.
    ids: HashMap<u64, usize>,
    scratch: Vec<u8>,
    /// Number of descriptors that this process may have.
    descriptors: u64,
    /// Number of descriptors that do not belong to connections.
    own: u64,
    /// A reserved descriptor. It is closed so that one more connection can be accepted when no
    /// other descriptor is left.
    reserve: Option<OwnedFd>,
    /// End of the pause of the listening sockets, ns of the monotonic clock.
    rests: Option<u64>,
    /// Time of the last message about a failure, ns of the monotonic clock.
    complained: Option<u64>,
    looked: u64,
}

impl<'a> Listener<'a> {
    /// An event loop for these listening sockets. `descriptors`: number of descriptors that this
    /// process may have.
    pub fn new(
        listeners: Vec<ListeningSocket>,
        shared: &'a Shared,
        descriptors: u64,
    ) -> io::Result<Listener<'a>> {
        let epoll = Epoll::new()?;
        // The reserved descriptor is a duplicate of an open one, because `confine` prevents opening
        // files.
        let reserve = listeners
            .first()
            .and_then(|listener| listener.socket.try_clone().ok());
        // The kernel assigns the lowest free number, so all others are below it.
        let own = reserve.as_ref().map_or(0, |fd| fd.as_raw_fd() as u64 + 1);
        let listener = Listener {
            shared,
            own,
            epoll,
            listeners,
            conns: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
            ids: HashMap::new(),
            scratch: vec![0; READ],
            descriptors,
            reserve,
            rests: None,
            complained: None,
            looked: 0,
        };
        listener.open()?;
        Ok(listener)
    }
    fn open(&self) -> io::Result<()> {
        for (i, listener) in self.listeners.iter().enumerate() {
            match self
                .epoll
                .add(&listener.socket, sys::READABLE, LISTENERS | i as u64)
            {
                // An earlier attempt, which failed at a later socket, has added this one.
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                other => other?,
            }
        }
        Ok(())
    }
    /// Serves until `stop` is set, then ends every session.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Relaxed) && !sys::stopped() {
            self.step();
        }
        for at in 0..self.conns.len() {
            self.close(at);
        }
    }
    /// Waits for events, handles them, and calls the connections that are due.
    fn step(&mut self) {
        let now = sys::monotonic();
        let due = self.conns.iter().flatten().map(|conn| conn.due).min();
        let due = due.into_iter().chain(self.rests).min();
        let wait = due.map_or(LONGEST, |due| due.saturating_sub(now).min(LONGEST));
        match self.epoll.wait(wait) {
            Ok(events) => {
                for (events, token) in events {
                    if token & LISTENERS != 0 {
                        self.accept((token & !LISTENERS) as usize);
                    } else {
                        self.ready(token as usize, events);
                    }
                }
            }
            Err(error) => self.watch_anew(&error),
        }
        self.tick();
    }
    /// Replaces the epoll instance after waiting has failed. If the kernel has no resources for a
    /// new one, this thread pauses before the next attempt; the server continues in any case.
    fn watch_anew(&mut self, error: &io::Error) {
        self.complain("waiting for clients", error);
        let Ok(epoll) = Epoll::new() else {
            return std::thread::sleep(std::time::Duration::from_nanos(REST));
        };
        self.epoll = epoll;
        self.rest(0);
        for at in 0..self.conns.len() {
            let Some(conn) = &self.conns[at] else {
                continue;
            };
            if self
                .epoll
                .add(conn.link.fd(), conn.watched, at as u64)
                .is_err()
            {
                self.close(at);
            }
        }
    }
    /// Pauses accepting for `time` ns.
    fn rest(&mut self, time: u64) {
        for listener in &self.listeners {
            let _ = self.epoll.remove(&listener.socket);
        }
        self.rests = Some(sys::monotonic() + time);
    }
    /// Reports a failure that does not end the server, at most once per second.
    fn complain(&mut self, doing: &str, error: &io::Error) {
        let now = sys::monotonic();
        if self.complained.is_none_or(|last| now >= last + COMPLAIN) {
            self.complained = Some(now);
            crate::terminal::say(format!(
                "narrows serve: {doing}: {error}; the server goes on"
            ));
        }
    }
    fn accept(&mut self, listener: usize) {
        for _ in 0..TURN {
            let now = sys::monotonic();
            let ListeningSocket { socket, metrics } = &self.listeners[listener];
            let metrics = *metrics;
            match Connection::accept(socket, &self.shared.accounts, metrics, now) {
                Ok(Accepted::None) => return,
                Ok(Accepted::TooMany) => {
                    Counters::more(&self.shared.counters.connections_total);
                    Counters::more(&self.shared.counters.dropped_full_total);
                }
                Ok(Accepted::Connection(link)) => {
                    Counters::more(&self.shared.counters.connections_total);
                    self.enter(link, metrics, now);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        if !self.turn_away(listener) {
                            return;
                        }
                    }
                    // The peer has already closed the connection.
                    _ => return,
                },
            }
        }
    }
    /// Accepts and closes the next connection when the kernel has no descriptor or memory for it.
    /// Otherwise, epoll would report the connection in every call. Returns `false` if that also
    /// failed; the listening sockets then pause.
    fn turn_away(&mut self, listener: usize) -> bool {
        self.reserve = None;
        let taken = socket::accept(&self.listeners[listener].socket);
        let closed = matches!(taken, Ok(Some(_)));
        drop(taken);
        self.reserve = self.listeners[listener].socket.try_clone().ok();
        if closed {
            Counters::more(&self.shared.counters.dropped_full_total);
        } else {
            self.rest(REST);
        }
        closed
    }
    fn enter(&mut self, link: Connection, metrics: bool, now: u64) {
        socket::no_delay(link.fd());
        let (source, id) = (link.source(), link.id());
        let at = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        if self.epoll.add(link.fd(), sys::READABLE, at as u64).is_err() {
            self.free.push(at);
            return;
        }
        Counters::more(&self.shared.counters.connections);
        self.ids.insert(id, at);
        self.conns[at] = Some(Conn {
            link,
            since: now,
            input: Vec::new(),
            output: Vec::new(),
            who: Who::Nobody,
            metrics,
            key: None,
            closing: None,
            partial: None,
            ended: false,
            watched: sys::READABLE,
            due: now + UNKNOWN,
        });
        if let Some(id) = self.shared.accounts.crowded(source) {
            self.make_room(id);
        }
        let used = self.own + self.shared.accounts.descriptors().taken();
        if used + SPARE.min(self.descriptors / 4) >= self.descriptors {
            // There is at least one pending connection: the new one.
            self.make_room(self.shared.accounts.least_wanted().unwrap_or(id));
        }
    }
    /// Closes the pending connection with this number.
    fn make_room(&mut self, id: u64) {
        if let Some(at) = self.ids.get(&id).copied() {
            Counters::more(&self.shared.counters.dropped_full_total);
            self.close(at);
        }
    }
    fn ready(&mut self, at: usize, events: u32) {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        if events & (sys::READABLE | sys::BROKEN) != 0 {
            let room = conn.room();
            if room > 0 || events & sys::BROKEN != 0 {
                match socket::read(conn.link.fd(), &mut self.scratch[..room.max(1)]) {
                    // The peer has ended its direction, but may still read the last message.
                    Ok(Some(0)) if conn.closing.is_some() && events & sys::BROKEN == 0 => {
                        conn.ended = true;
                    }
                    Ok(Some(0)) | Err(_) => return self.close(at),
                    Ok(Some(n)) => conn.input.extend(&self.scratch[..n]),
                    Ok(None) => {}
                }
            }
        }
        self.turn(at);
    }
    /// Reads, processes and writes as much as possible for one connection.
    fn turn(&mut self, at: usize) {
        let now = sys::monotonic();
        for _ in 0..PARTS {
            if let Err(end) = self.listen(at, now) {
                self.end(at, end, now);
            }
            self.flush(at, now);
            // An object is written in parts: the next part is written when the kernel has accepted
            // the previous one.
            let conn = self.conns.get(at).and_then(Option::as_ref);
            let more = |conn: &Conn| {
                conn.output.is_empty() && matches!(&conn.who, Who::Page(page) if page.more(now))
            };
            if !conn.is_some_and(more) {
                return;
            }
        }
        if let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) {
            conn.due = now;
        }
    }
    fn listen(&mut self, at: usize, now: u64) -> Result<(), End> {
        let shared = self.shared;
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return Ok(());
        };
        if conn.closing.is_some() {
            conn.input.clear();
            return Ok(());
        }
        match &mut conn.who {
            Who::Nobody => return self.recognise(at, now),
            Who::Page(page) => {
                let took = page.heard(&conn.input, &mut conn.output, now, shared)?;
                conn.input.drain(..took);
                conn.slow(took, now)?;
            }
            Who::Client(client) => {
                let took = client.heard(&conn.input, &mut conn.output, now, shared)?;
                conn.input.drain(..took);
                client.tick(&mut conn.output, now, shared)?;
                // Remaining input is processed in the next call, after the input of other
                // connections.
                let more = took > 0 && !conn.input.is_empty();
                let due = if more { now } else { client.due() };
                if let Some(allowance) = client.allowance() {
                    conn.link.admit(allowance);
                }
                if conn.key.is_none() {
                    conn.key = client.key();
                    self.keys.extend(conn.key.map(|key| (key, at)));
                }
                conn.slow(took, now)?;
                conn.due = conn.next(due);
                return Ok(());
            }
        }
        self.page(at, now)
    }
    /// Looks up the session of an HTTP request, and writes the next part of an object.
    fn page(&mut self, at: usize, now: u64) -> Result<(), End> {
        let asked = self.conns[at].as_ref().and_then(|conn| match &conn.who {
            Who::Page(page) => page.asked(),
            _ => None,
        });
        let owner = asked.and_then(|cookie| self.keys.get(&Key::Narrows(cookie)).copied());
        let owner = owner.and_then(|owner| self.conns.get(owner)?.as_ref());
        let allowance = owner.and_then(|owner| match &owner.who {
            Who::Client(client) => client.allowance().cloned(),
            _ => None,
        });
        let Some(conn) = self.conns[at].as_mut() else {
            return Ok(());
        };
        let Who::Page(page) = &mut conn.who else {
            return Ok(());
        };
        if asked.is_some() {
            let from = conn.link.from();
            let allowed =
                allowance.filter(|allowance| allowance.ip() == from && conn.link.fetch(allowance));
            page.allow(allowed, &mut conn.output, self.shared);
        }
        page.tick(&mut conn.output, now, |wanted| conn.link.promise(wanted))?;
        let due = page.due();
        conn.due = conn.next(due);
        Ok(())
    }
    /// Identifies the protocol of a connection.
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
            let what = if conn.metrics {
                What::Metrics
            } else {
                What::Objects
            };
            conn.who = Who::Page(Page::new(what, now));
            return self.listen(at, now);
        }
        match Hello::from_bytes(&conn.input) {
            Ok(Some(Hello::Control(nonce))) => {
                conn.input.drain(..crate::protocols::wire::HELLO);
                let session = Session::new(&conn.link, nonce, now, &mut conn.output, shared)?;
                conn.who = Who::Client(Box::new(session));
                return self.listen(at, now);
            }
            Ok(Some(Hello::Data(stream, cookie))) => {
                return self.hand_over(at, Key::Narrows(cookie), stream, now);
            }
            Ok(None) => {}
            Err(Bad::Foreign) if iperf3::may_be_cookie(&conn.input) => {
                if let Some(cookie) = conn.input.first_chunk::<COOKIE>() {
                    let (key, cookie) = (Key::Iperf(*cookie), *cookie);
                    if self.keys.contains_key(&key) {
                        return self.hand_over(at, key, 0, now);
                    }
                    conn.input.drain(..COOKIE);
                    let test = Test::new(conn.link.from(), cookie, now, &mut conn.output, shared)?;
                    conn.who = Who::Client(Box::new(test));
                    return self.listen(at, now);
                }
            }
            Err(Bad::Version(version)) => {
                Session::refuse_version(version, &mut conn.output);
                return Err(End::Garbage);
            }
            Err(_) => return Err(End::Garbage),
        }
        if now > conn.since + UNKNOWN {
            return Err(End::Timeout);
        }
        Ok(())
    }
    /// Passes a connection of load to its session or test.
    fn hand_over(&mut self, at: usize, key: Key, stream: u16, now: u64) -> Result<(), End> {
        let Some(owner) = self.keys.get(&key).copied() else {
            return Err(End::Garbage);
        };
        let Some(conn) = self.conns[at].take() else {
            return Ok(());
        };
        self.free.push(at);
        self.ids.remove(&conn.link.id());
        Counters::less(&self.shared.counters.connections);
        let _ = self.epoll.remove(conn.link.fd());
        let Some(client) = self.conns[owner].as_mut() else {
            return Ok(());
        };
        let Who::Client(speaker) = &mut client.who else {
            return Ok(());
        };
        let joined = speaker.joined(stream, conn.link, &mut client.output, now, self.shared);
        client.due = speaker.due();
        if let Err(end) = joined {
            self.end(owner, end, now);
        }
        self.flush(owner, now);
        Ok(())
    }
    /// Ends the session or test of a connection. The connection is closed when the peer has
    /// acknowledged the last message.
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
        // The seat of the client is free at once. An object of a page may still be in transit.
        if !matches!(conn.who, Who::Page(_)) {
            conn.who = Who::Page(Page::new(What::Objects, now));
        }
        if let Some(key) = conn.key.take() {
            self.keys.remove(&key);
        }
        conn.input.clear();
        if !conn.link.fetches() {
            conn.link.dismiss(conn.output.len());
        } else if end != End::Done {
            // An incomplete object is of no use to the client, so its rest is not sent.
            conn.output.clear();
            let _ = sys::set_reset(conn.link.fd());
        }
        conn.closing = Some(Closing {
            until: now + FAREWELL,
            most: now + GONE,
            left: u64::MAX,
        });
        conn.due = now + FAREWELL;
    }
    fn flush(&mut self, at: usize, now: u64) {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let waited = !conn.output.is_empty();
        while !conn.output.is_empty() {
            match conn.link.send(&conn.output, now) {
                Ok(Some(n)) => {
                    conn.output.drain(..n);
                }
                Ok(None) => break,
                Err(_) => return self.close(at),
            }
        }
        let mut over = conn.output.len() > MOST_OUT;
        if let Some(closing) = &mut conn.closing {
            let left = conn.output.len() as u64 + conn.link.rest();
            if left < closing.left {
                closing.left = left;
                closing.until = (now + FAREWELL).min(closing.most);
            }
            over |= left == 0 || now >= closing.until;
            conn.due = now + CHECK;
        }
        if over {
            return self.close(at);
        }
        // Requests that waited for earlier responses are processed now. No epoll event reports
        // them, because their bytes have been read already.
        let known = !matches!(conn.who, Who::Nobody) && conn.closing.is_none();
        if waited && conn.output.is_empty() && !conn.input.is_empty() && known {
            conn.due = now;
        }
        let awaited = conn.awaited();
        if awaited != conn.watched {
            let _ = self.epoll.change(conn.link.fd(), awaited, at as u64);
            conn.watched = awaited;
        }
    }
    fn tick(&mut self) {
        let now = sys::monotonic();
        if self.rests.is_some_and(|until| until <= now) {
            self.rests = None;
            if let Err(error) = self.open() {
                self.complain("listening", &error);
                self.rests = Some(now + REST);
            }
        }
        if now >= self.looked + LOOK {
            self.looked = now;
            self.look(now);
        }
        for at in 0..self.conns.len() {
            if self.conns[at].as_ref().is_some_and(|conn| conn.due <= now) {
                self.turn(at);
            }
        }
    }
    /// Charges the socket memory of each client and records when the client was last heard. For
    /// every protocol, this function ends the sessions of clients that do not read.
    fn look(&mut self, now: u64) {
        self.shared.accounts.sweep(now);
        for at in 0..self.conns.len() {
            let Some(conn) = self.conns[at].as_mut() else {
                continue;
            };
            conn.link.look(conn.output.len(), now);
            if conn.link.orphaned() {
                self.close(at);
                continue;
            }
            if let Who::Client(client) = &mut conn.who {
                client.look(now);
                // Other connections may have used up the session's bytes, and its duration may be
                // over, so each client is called.
                conn.due = now;
                if client
                    .allowance()
                    .is_some_and(|allowance| allowance.stuck(now))
                {
                    client.ended(&mut conn.output);
                    self.end(at, End::Timeout, now);
                    self.flush(at, now);
                }
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
        self.ids.remove(&conn.link.id());
        let _ = self.epoll.remove(conn.link.fd());
        self.free.push(at);
        Counters::less(&self.shared.counters.connections);
        conn.link.close();
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod sender_tests;
