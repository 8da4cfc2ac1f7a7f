//! The datagram socket of a server, on its own thread, so that answers to pings do not wait behind
//! load.
//!
//! One socket serves all clients. A datagram belongs to the session whose cookie it carries. A
//! datagram of iperf3 carries no cookie; its source address and port identify the stream. The
//! server knows both only after a TCP connection from the same address has opened a session or
//! test. An answer is as long as its question, so the server cannot be used to amplify traffic to a
//! forged address. Other datagrams are counted and dropped. The size of the tables depends on the
//! number of clients, which is limited, and not on datagrams.
//!
//! Counters follow iperf3: a gap in the sequence numbers adds to the losses, and a late datagram
//! subtracts one. Jitter is computed as in RFC 1889, so the clocks of the two hosts need not agree.

use super::budget::{Accounts, Allowance};
use super::counters::Counters;
use super::metered::{Answers, DatagramSocket, Flooded};
use crate::measure::bulk::Role;
use crate::protocols::iperf3::datagram;
use crate::protocols::wire::{Cookie, Kind, Opening, Ping, TIMED, Timed};
use crate::sys;
use crate::sys::datagram::{BATCH, Datagram, Outgoing, header};
use crate::sys::socket;
use portable_atomic::AtomicU64;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of probes (series of pings) of one session. Each ping carries the number of its
/// probe.
pub const PROBES: usize = 16;
/// Niceness of the thread, if permitted: pings are answered before load is moved.
pub const NICENESS: i32 = -10;
/// Longest sleep, ns. A request to stop is noticed within this time.
const LONGEST: u64 = 50_000_000;
/// Lateness beyond which a sender skips the overdue datagrams, ns.
const LATE: u64 = 100_000_000;
/// Pause after the buffer of the socket was full, ns.
const PAUSE: u64 = 500_000;
/// Largest number of receive calls before datagrams are sent.
const READS: usize = 8;
/// Time for which tests send before the next datagrams are received, ns.
const SENDING: u64 = 1_000_000;

/// Counters of received UDP load of a session, which is not answered.
#[derive(Copy, Clone, Debug, Default)]
pub struct Load {
    /// Number of datagrams.
    pub packets: u64,
    /// Number of payload bytes of these datagrams.
    pub bytes: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// The highest sequence number plus one.
    pub highest: u64,
    /// Arrival of the first datagram, ns of the monotonic clock.
    pub first: u64,
    /// Arrival of the last datagram, ns of the monotonic clock.
    pub last: u64,
}

/// The part of a session that the datagram thread uses.
#[derive(Debug)]
pub struct Pinged {
    allowance: Arc<Allowance>,
    counts: [AtomicU32; PROBES],
    load: Mutex<Load>,
    /// Streams of datagrams that are being opened.
    openings: Mutex<BTreeMap<u16, Awaiting>>,
}

/// A stream of datagrams that is being opened.
#[derive(Copy, Clone, Debug)]
struct Awaiting {
    key: [u8; 8],
    /// The address and port at which the client has proved that it receives.
    proved: Option<SocketAddr>,
}

impl Pinged {
    /// A session without datagrams, charged to `allowance`.
    pub fn new(allowance: &Arc<Allowance>) -> Arc<Pinged> {
        Arc::new(Pinged {
            allowance: Arc::clone(allowance),
            counts: Default::default(),
            load: Mutex::default(),
            openings: Mutex::default(),
        })
    }
    fn openings(&self) -> MutexGuard<'_, BTreeMap<u16, Awaiting>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits for the datagrams that open this stream. The caller limits the number of streams.
    pub fn await_opening(&self, stream: u16, key: [u8; 8]) {
        let awaiting = Awaiting { key, proved: None };
        self.openings().insert(stream, awaiting);
    }
    /// Whether streams of datagrams are being opened.
    pub fn is_opening(&self) -> bool {
        !self.openings().is_empty()
    }
    /// Returns the streams whose client has proved its address since the last call, with their keys
    /// and these addresses.
    pub fn take_opened(&self) -> Vec<(u16, [u8; 8], SocketAddr)> {
        let mut openings = self.openings();
        let opened: Vec<_> = openings
            .iter()
            .filter_map(|(stream, one)| Some((*stream, one.key, one.proved?)))
            .collect();
        for (stream, ..) in &opened {
            openings.remove(stream);
        }
        opened
    }
    /// Handles a request to open a stream. Returns the key of the stream; `None` if the stream is
    /// not awaited.
    fn open(&self, opening: &Opening, from: SocketAddr) -> Option<[u8; 8]> {
        let mut openings = self.openings();
        let awaiting = openings.get_mut(&opening.stream)?;
        if opening.key == awaiting.key {
            awaiting.proved = Some(from);
        }
        Some(awaiting.key)
    }
    /// Returns the counters of received load and resets them.
    pub fn take_load(&self) -> Load {
        std::mem::take(&mut *self.load.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn count(&self, ping: &Ping, len: usize, at: u64) {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if load.packets == 0 {
            load.first = at;
        }
        load.last = at;
        load.packets += 1;
        load.bytes += len as u64;
        load.reordered += u64::from(u64::from(ping.number) < load.highest);
        load.highest = load.highest.max(u64::from(ping.number) + 1);
    }
}

/// Counters of an iperf3 stream.
#[derive(Copy, Clone, Debug, Default)]
pub struct Counts {
    /// The highest sequence number received (this host receives), or the number of datagrams sent
    /// (this host sends).
    pub packets: u64,
    /// Number of missing datagrams.
    pub errors: u64,
    /// Payload, bytes.
    pub bytes: u64,
    /// Jitter, s.
    pub jitter: f64,
    transit: Option<f64>,
    next: u64,
}

impl Counts {
    /// Counts a received datagram with its sequence number. The times at which it was sent and
    /// received are in s, each by the clock of that host.
    fn came(&mut self, number: u64, sent: f64, received: f64, bytes: usize) {
        self.bytes += bytes as u64;
        if number > self.packets {
            // The number is untrusted input: missing datagrams are counted, not listed.
            self.errors = self.errors.saturating_add(number - self.packets - 1);
            self.packets = number;
        } else {
            self.errors = self.errors.saturating_sub(1);
        }
        let transit = received - sent;
        let moved = (transit - self.transit.unwrap_or(transit)).abs();
        if moved.is_finite() {
            self.jitter += (moved - self.jitter) / 16.0;
            self.transit = Some(transit);
        }
    }
}

/// An iperf3 stream of datagrams.
#[derive(Debug)]
pub struct UdpStream {
    role: Role,
    len: usize,
    wide: bool,
    /// Interval between two datagrams, ns.
    interval: u64,
    allowance: Arc<Allowance>,
    running: AtomicBool,
    counts: Mutex<Counts>,
}

impl UdpStream {
    /// A stream of datagrams with `len` bytes of payload. `rate`: bit/s of payload, 0 means as fast
    /// as possible; `wide`: sequence numbers have 64 bits.
    pub fn new(
        role: Role,
        len: usize,
        rate: u64,
        wide: bool,
        allowance: &Arc<Allowance>,
    ) -> Arc<UdpStream> {
        let bits = len as u64 * 8 * 1_000_000_000;
        Arc::new(UdpStream {
            role,
            len,
            wide,
            interval: bits.checked_div(rate).unwrap_or(0),
            allowance: Arc::clone(allowance),
            running: AtomicBool::new(false),
            counts: Mutex::default(),
        })
    }
    /// The role of this host in the stream.
    pub fn role(&self) -> Role {
        self.role
    }
    /// Starts the stream: datagrams are sent or counted from now on.
    pub fn start(&self) {
        self.lock().next = sys::monotonic();
        self.running.store(true, Relaxed);
    }
    /// Stops the stream.
    pub fn stop(&self) {
        self.running.store(false, Relaxed);
    }
    /// The counters.
    pub fn counts(&self) -> Counts {
        *self.lock()
    }
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An iperf3 test over UDP, and the streams of it that have opened.
#[derive(Debug)]
pub struct Awaited {
    /// Source address of its streams.
    pub ip: IpAddr,
    /// The streams of the test, in the order of their numbers.
    pub streams: Vec<Arc<UdpStream>>,
    /// Number of streams that have opened.
    pub come: AtomicUsize,
    /// Source addresses and ports of the streams that have opened, in the order of `streams`.
    pub from: Mutex<Vec<SocketAddr>>,
    /// Arrival of the last datagram, ns of the monotonic clock.
    pub last: AtomicU64,
    /// Index of the stream that sends next.
    pub next: AtomicUsize,
}

#[derive(Default)]
struct Tables {
    sessions: HashMap<Cookie, Arc<Pinged>>,
    awaited: Vec<Arc<Awaited>>,
    /// Tests in which this host sends.
    senders: Vec<Arc<Awaited>>,
    streams: HashMap<SocketAddr, Arc<UdpStream>>,
}

/// The datagram socket and its tables, shared by the datagram thread and the listener.
pub struct Exchange {
    socket: DatagramSocket,
    at: SocketAddr,
    accounts: Arc<Accounts>,
    tables: Mutex<Tables>,
    counters: Arc<Counters>,
    lost: AtomicU64,
    answering: AtomicU64,
}

impl Exchange {
    /// Opens the socket at that address.
    pub fn new(
        at: SocketAddr,
        accounts: &Arc<Accounts>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Exchange> {
        let socket = DatagramSocket::new(at)?;
        Ok(Exchange {
            at: socket.local()?,
            socket,
            accounts: Arc::clone(accounts),
            tables: Mutex::default(),
            counters,
            lost: AtomicU64::new(0),
            answering: AtomicU64::new(0),
        })
    }
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns the socket, whose address and port the sockets for single clients share.
    pub fn fd(&self) -> &OwnedFd {
        self.socket.fd()
    }
    /// The address and port of the socket.
    pub fn at(&self) -> SocketAddr {
        self.at
    }
    /// A socket at the same address and port, for datagrams of one peer only. Until it is
    /// connected, it may receive datagrams of other peers; its reader compares their source.
    pub fn socket_to(&self, peer: SocketAddr) -> std::io::Result<OwnedFd> {
        let fd = socket::shared_datagrams(self.at)?;
        socket::refuse_broadcasts(&fd)?;
        socket::limit_output(&fd);
        socket::connect_datagrams(&fd, sys::datagram::mapped(peer, self.at.is_ipv6()))?;
        Ok(fd)
    }
    /// From now on, pings with that cookie are answered.
    pub fn join(&self, cookie: Cookie, session: &Arc<Pinged>) {
        self.lock().sessions.insert(cookie, Arc::clone(session));
    }
    /// From now on, pings with that cookie are not answered.
    pub fn leave(&self, cookie: &Cookie) {
        self.lock().sessions.remove(cookie);
    }
    /// Registers a test that waits for its streams. Returns `false` while another test of the same
    /// address waits, since their streams could not be distinguished.
    pub fn await_streams(&self, awaited: &Arc<Awaited>) -> bool {
        let mut tables = self.lock();
        if tables.awaited.iter().any(|other| other.ip == awaited.ip) {
            return false;
        }
        tables.awaited.push(Arc::clone(awaited));
        true
    }
    /// Ends the wait for streams.
    pub fn awaited(&self, awaited: &Arc<Awaited>) {
        self.lock()
            .awaited
            .retain(|other| !Arc::ptr_eq(other, awaited));
    }
    /// Ends the wait for the streams of a test and starts them.
    pub fn begin(&self, test: &Arc<Awaited>) {
        self.awaited(test);
        test.streams.iter().for_each(|stream| stream.start());
        if test.streams.iter().any(|one| one.role == Role::Sender) {
            self.lock().senders.push(Arc::clone(test));
        }
    }
    /// Removes the streams of a test.
    pub fn forget(&self, awaited: &Arc<Awaited>) {
        self.awaited(awaited);
        let from = awaited.from.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = self.lock();
        tables.senders.retain(|test| !Arc::ptr_eq(test, awaited));
        for (from, stream) in from.iter().zip(&awaited.streams) {
            stream.stop();
            tables.streams.remove(from);
        }
    }
    /// Number of received datagrams that were dropped because the buffer of the socket was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
    /// Approximate median of the time that one call needs to send the waiting answers, ns.
    pub fn answering(&self) -> u64 {
        self.answering.load(Relaxed)
    }
    /// Adds a sample: the estimate moves towards it by a sixteenth of its value. Steps up and down
    /// balance at the median (frugal streaming, Ma, Muthukrishnan, Sandler 2013).
    fn took(&self, ns: u64) {
        let known = self.answering.load(Relaxed);
        let step = known / 16 + 1;
        let next = match ns.cmp(&known) {
            _ if known == 0 => ns,
            std::cmp::Ordering::Greater => known + step,
            std::cmp::Ordering::Less => known - step,
            std::cmp::Ordering::Equal => known,
        };
        self.answering.store(next, Relaxed);
    }
    /// Receives, answers, counts and sends datagrams until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        sys::prefer(NICENESS);
        let mut got: Vec<Datagram> = Vec::with_capacity(READS * BATCH);
        let mut answers = Answers::default();
        let mut first = 0;
        while !stop.load(Relaxed) {
            got.clear();
            for calls in 1..=READS {
                if let Ok(Some(lost)) = self.socket.receive(&mut got) {
                    let lost = u64::from(lost);
                    let more = lost.saturating_sub(self.lost.swap(lost, Relaxed));
                    self.counters.socket_drops_total.fetch_add(more, Relaxed);
                }
                if got.len() < calls * BATCH {
                    break;
                }
            }
            let sending = {
                let mut tables = self.lock();
                let wall = sys::realtime();
                for datagram in &got {
                    let ago = wall.saturating_sub(datagram.stamp);
                    let at = sys::monotonic().saturating_sub(ago);
                    tables.came(datagram, at, &self.accounts, &self.counters, &mut answers);
                }
                tables.senders.clone()
            };
            if !answers.is_empty() {
                let from = sys::monotonic();
                self.socket.answer(&mut answers);
                self.took(sys::monotonic() - from);
            }
            let wait = self.turns(&sending, &mut first);
            if got.len() < READS * BATCH && wait > 0 {
                self.socket.wait(wait);
            }
        }
    }
    /// Lets each test send once, beginning with the one at index `first`, and stops after
    /// [`SENDING`], so that pings do not wait for all tests. Returns the time until the next
    /// datagram is due, ns. A test with many streams sends no more often than a test with one.
    fn turns(&self, tests: &[Arc<Awaited>], first: &mut usize) -> u64 {
        let (begun, mut wait) = (sys::monotonic(), LONGEST);
        for i in 0..tests.len() {
            let at = (*first + i) % tests.len();
            wait = wait.min(self.turn(&tests[at]));
            if sys::monotonic() - begun > SENDING {
                *first = at + 1;
                return 0;
            }
        }
        wait
    }
    /// Sends the due datagrams of a test, at most [`BATCH`] of all its streams together. Returns
    /// the time until its next datagram is due, ns.
    fn turn(&self, test: &Awaited) -> u64 {
        let from = test.from.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, streams) = (test.next.load(Relaxed), from.len().min(test.streams.len()));
        let (mut left, mut wait) = (BATCH, LONGEST);
        for i in 0..streams {
            let at = (first + i) % streams;
            let stream = &test.streams[at];
            if stream.role == Role::Receiver || !stream.running.load(Relaxed) {
                continue;
            }
            let (sent, until) = self.send(from[at], stream, left);
            (left, wait) = (left - sent, wait.min(until));
            if left == 0 {
                test.next.store(at + 1, Relaxed);
                return if i + 1 < streams { 0 } else { wait };
            }
        }
        wait
    }
    /// Sends the due datagrams of a stream, at most `most`. Returns their number and the time until
    /// the next one is due, ns.
    fn send(&self, to: SocketAddr, stream: &UdpStream, most: usize) -> (usize, u64) {
        let now = sys::monotonic();
        let mut counts = stream.lock();
        if stream.interval > 0 && now.saturating_sub(counts.next) > LATE {
            counts.next = now;
        }
        let due = match stream.interval {
            0 => most as u64,
            _ if counts.next > now => return (0, counts.next - now),
            interval => ((now - counts.next) / interval + 1).min(most as u64),
        };
        let first = counts.packets + 1;
        let datagram = |i: usize| {
            let (head, head_len) = datagram::header(first + i as u64, now, stream.wide);
            Outgoing {
                to: Some(to),
                class: None,
                departs: None,
                head: header(&head[..head_len]),
                head_len,
                len: stream.len,
            }
        };
        let wanted = (due as usize, stream.len);
        let (sent, full) = match self.socket.flood(&stream.allowance, wanted, now, datagram) {
            Flooded::All(sent) => (sent, false),
            Flooded::Some(sent) => (sent, true),
            Flooded::Wait(until) => return (0, until.saturating_sub(now).clamp(1, LONGEST)),
            Flooded::Stop => {
                stream.stop();
                return (0, LONGEST);
            }
        };
        counts.packets += sent;
        counts.bytes += sent * stream.len as u64;
        counts.next = counts.next.saturating_add(sent * stream.interval);
        self.counters
            .down_bytes_total
            .fetch_add(sent * stream.len as u64, Relaxed);
        let wait = if full {
            PAUSE
        } else {
            counts.next.saturating_sub(now).min(LONGEST)
        };
        (sent as usize, wait)
    }
}

impl Tables {
    /// Processes a datagram that arrived at `at`, ns of the monotonic clock. The answer, if any, is
    /// as long as the datagram.
    fn came(
        &mut self,
        datagram: &Datagram,
        at: u64,
        accounts: &Accounts,
        counters: &Counters,
        answers: &mut Answers,
    ) {
        if !self.read(datagram, at, accounts, counters, answers) {
            Counters::more(&counters.dropped_datagrams_total);
        }
    }
    /// Reads a datagram; returns false if the datagram belongs to no client.
    fn read(
        &mut self,
        datagram: &Datagram,
        at: u64,
        accounts: &Accounts,
        counters: &Counters,
        answers: &mut Answers,
    ) -> bool {
        if !accounts.answerable(datagram.from.port()) {
            return false;
        }
        let (bytes, len) = (datagram.bytes(), datagram.len);
        let ip = datagram.from.ip();
        let mine =
            |session: &&Arc<Pinged>| session.allowance.ip() == ip && !session.allowance.spent();
        if let Some(ping) = Ping::from_bytes(bytes) {
            let Some(session) = self.sessions.get(&ping.cookie).filter(mine) else {
                return false;
            };
            match ping.kind {
                Kind::Question => {
                    let count = session.counts.get(usize::from(ping.probe));
                    let Some((count, permit)) = count.zip(session.allowance.answer(len, at)) else {
                        return false;
                    };
                    Counters::more(&counters.pings_total);
                    let answer = Ping {
                        kind: Kind::Answer,
                        class: datagram.class,
                        received: at,
                        answered: sys::monotonic(),
                        count: count.fetch_add(1, Relaxed).wrapping_add(1),
                        ..ping
                    };
                    answers.push(answered(datagram, &answer.to_bytes()), permit);
                }
                Kind::Load => {
                    session.allowance.heard(len, at);
                    counters.up_bytes_total.fetch_add(len as u64, Relaxed);
                    session.count(&ping, len, at);
                }
                Kind::Answer => return false,
            }
            return true;
        }
        if let Some(timed) = Timed::from_bytes(bytes).filter(|timed| !timed.answer) {
            // The kernel did not deliver it to the thread of its client, because a NAT has changed
            // its source port.
            let session = self.sessions.get(&timed.cookie).filter(mine);
            let Some(permit) = session.and_then(|session| session.allowance.answer(len, at)) else {
                return false;
            };
            Counters::more(&counters.pings_total);
            answers.push(
                answered(datagram, &timed_answer(&timed, datagram, at)),
                permit,
            );
            return true;
        }
        if let Some(opening) = Opening::from_bytes(bytes).filter(|opening| !opening.answer) {
            let session = self.sessions.get(&opening.cookie).filter(mine);
            let key = session.and_then(|session| session.open(&opening, datagram.from));
            let Some((session, key)) = session.zip(key) else {
                return false;
            };
            let Some(permit) = session.allowance.answer(len, at) else {
                return false;
            };
            let answer = Opening {
                answer: true,
                key,
                ..opening
            };
            answers.push(answered(datagram, &answer.to_bytes()), permit);
            return true;
        }
        if let Some(answer) = datagram::greeting(bytes, len) {
            // The first datagram of a stream may be repeated, because its answer was lost.
            if !self.streams.contains_key(&datagram.from) && !self.meet(datagram.from, at) {
                return false;
            }
            let known = self.streams.get(&datagram.from);
            let Some(permit) = known.and_then(|stream| stream.allowance.answer(len, at)) else {
                return false;
            };
            answers.push(answered(datagram, &answer), permit);
            return true;
        }
        let Some(stream) = self.streams.get(&datagram.from) else {
            return false;
        };
        if stream.role == Role::Receiver
            && stream.running.load(Relaxed)
            && !stream.allowance.spent()
        {
            if let Some((sent, number)) = datagram::read(bytes, stream.wide) {
                stream.lock().came(number, sent, at as f64 / 1e9, len);
                stream.allowance.heard(len, at);
                counters.up_bytes_total.fetch_add(len as u64, Relaxed);
            }
        }
        true
    }
    /// Assigns a new source address and port to the next stream of the test that waits for it;
    /// `false` if no test does.
    fn meet(&mut self, from: SocketAddr, at: u64) -> bool {
        let Some(awaited) = self.awaited.iter().find(|awaited| awaited.ip == from.ip()) else {
            return false;
        };
        let come = awaited.come.load(Relaxed);
        let Some(stream) = awaited.streams.get(come) else {
            return false;
        };
        self.streams.insert(from, Arc::clone(stream));
        awaited
            .from
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(from);
        awaited.come.store(come + 1, Relaxed);
        awaited.last.store(at, Relaxed);
        true
    }
}

/// The answer of this thread to a timed question.
fn timed_answer(asked: &Timed, datagram: &Datagram, at: u64) -> [u8; TIMED] {
    let mut head = [0; TIMED];
    let now = sys::monotonic();
    let answer = Timed {
        answer: true,
        class: datagram.class,
        received: at,
        ready: at,
        read: now,
        answered: now,
        count: asked.number.wrapping_add(1),
        ..*asked
    };
    answer.write(&mut head);
    head
}

/// Returns an answer that is as long as the question and has its traffic class.
fn answered(question: &Datagram, bytes: &[u8]) -> Outgoing {
    Outgoing {
        to: Some(question.from),
        class: Some(question.class),
        departs: None,
        head: header(bytes),
        head_len: bytes.len().min(question.len),
        len: question.len,
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::*;
    use crate::sys::socket;
    use std::os::fd::AsRawFd;

    #[test]
    fn losses_and_late_ones_are_counted_as_iperf3_does() {
        let mut counts = Counts::default();
        for number in [1, 2, 5, 4, 6] {
            counts.came(number, number as f64, number as f64 + 0.5, 100);
        }
        assert_eq!((counts.packets, counts.errors, counts.bytes), (6, 1, 500));
        assert_eq!(counts.jitter, 0.0);
        counts.came(u64::MAX, f64::NAN, 1.0, 1);
        counts.came(7, 7.0, 7.5 + 0.016, 100);
        assert!((counts.jitter - 0.001).abs() < 1e-9, "{}", counts.jitter);
    }

    #[test]
    fn a_test_has_the_same_turns_whatever_the_number_of_its_streams() {
        const ROUNDS: usize = 20;
        let shared = super::super::fed::limited(Limits {
            udp_packets: 10_000_000,
            udp_rate: narrows_core::units::Rate::mbit(100_000),
            ..Limits::default()
        });
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = peer.local_addr().unwrap();
        let exchange = &shared.exchange;
        let test = |ip: &str, streams: usize| {
            let allowance = shared
                .admit(ip.parse().unwrap(), sys::monotonic())
                .expect("a seat");
            let stream = || UdpStream::new(Role::Sender, 100, 0, false, &allowance);
            let test = Arc::new(Awaited {
                ip: allowance.ip(),
                streams: std::iter::repeat_with(stream).take(streams).collect(),
                come: streams.into(),
                from: vec![to; streams].into(),
                last: 0.into(),
                next: 0.into(),
            });
            exchange.begin(&test);
            test
        };
        let tests = [test("192.0.2.1", 128), test("198.51.100.1", 1)];
        let sent = |test: &Awaited| -> Vec<u64> {
            test.streams
                .iter()
                .map(|one| one.counts().packets)
                .collect()
        };
        assert_eq!(exchange.lock().senders.len(), 2);
        for _ in 0..ROUNDS {
            for test in &tests {
                exchange.turn(test);
            }
        }
        let [many, one] = [sent(&tests[0]), sent(&tests[1])];
        let (all, most) = (many.iter().sum::<u64>(), (ROUNDS * BATCH) as u64);
        assert!(all > 0 && all <= most && one[0] > 0 && one[0] <= most);
        // The streams of a test send alternately, too.
        assert!(many.iter().filter(|n| **n > 0).count() > 1, "{many:?}");
        assert!(exchange.turns(&tests, &mut 1) <= LONGEST);
        exchange.forget(&tests[0]);
        assert_eq!(exchange.lock().senders.len(), 1);
    }

    #[test]
    fn who_is_not_known_gets_no_answer_and_leaves_no_trace() {
        let mut tables = Tables::default();
        let counters = Counters::default();
        let fd = socket::datagrams("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = socket::local(&fd).unwrap();
        let ping = Ping {
            kind: Kind::Question,
            class: 0,
            probe: 0,
            cookie: [1; 16],
            number: 3,
            sent: 5,
            received: 0,
            answered: 0,
            count: 0,
        };
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(&ping.to_bytes(), at).unwrap();
        peer.send_to(b"9876", at).unwrap();
        peer.send_to(&[0; 900], at).unwrap();
        let mut got = Vec::new();
        while got.len() < 3 {
            sys::wait_readable(&[fd.as_raw_fd()], LONGEST).unwrap();
            crate::sys::datagram::receive(&fd, &mut got).unwrap();
        }
        let accounts = Accounts::new(Limits::default());
        let mut answers = Answers::default();
        for datagram in &got {
            tables.came(datagram, 9, &accounts, &counters, &mut answers);
        }
        assert!(answers.is_empty());
        assert_eq!(counters.dropped_datagrams_total.load(Relaxed), 3);
        assert!(tables.streams.is_empty());
        // With the cookie, from the session's address: one answer of the same length.
        let mine = accounts.admit("127.0.0.1".parse().unwrap(), 9).unwrap();
        tables.sessions.insert([1; 16], Pinged::new(&mine));
        tables.came(&got[0], 9, &accounts, &counters, &mut answers);
        let answer = answers.iter().next().unwrap();
        assert_eq!((answer.len, answer.head_len), (64, 64));
        let told = Ping::from_bytes(&answer.head).unwrap();
        assert_eq!(
            (told.kind, told.received, told.count, told.number),
            (Kind::Answer, 9, 1, 3)
        );
        // From another address: nothing.
        let theirs = accounts.admit("127.0.0.2".parse().unwrap(), 9).unwrap();
        tables.sessions.insert([1; 16], Pinged::new(&theirs));
        let mut answers = Answers::default();
        tables.came(&got[0], 9, &accounts, &counters, &mut answers);
        assert!(answers.is_empty());
        // Neither from a port at which this server answers, nor when the session has ended.
        tables.sessions.insert([1; 16], Pinged::new(&mine));
        mine.end();
        tables.came(&got[0], 9, &accounts, &counters, &mut answers);
        assert!(answers.is_empty());
    }
}
