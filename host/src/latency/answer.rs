//! The server of a latency test ("responder"): one thread with one socket and one protocol. Each
//! answer is as long as its question, except irtt's answer to an open.
//!
//! The thread sleeps in the receive call, and allocates its buffers in advance. It answers one
//! datagram at a time, because in a batch the first answer would wait for the last one. The kernel
//! reports the departure time of an answer only after its departure, so the next answer to the same
//! client contains it.
//!
//! The service cannot be used to attack other hosts. Every answer is charged to a session or to the
//! source address of its question ([`crate::serve::budget`]). A source address gets at most as many
//! bytes as it sent. Questions from a port at which this server answers get no answer. Two such
//! services cannot answer each other forever, whatever their ports and hosts, because an answer is
//! not accepted as a question:
//!
//! | service | property of an answer that distinguishes it from a question |
//! |---|---|
//! | timed questions | the kind of the datagram is `s` |
//! | irtt | the flag for replies is set |
//! | STAMP | the 28 bytes that a sender leaves zero (RFC 8762, section 4.2.1) are not zero |
//! | echo | none; rules for ports, rates and repeats end such a loop ([`super::repeats`]) |
//!
//! The number of clients whose state is stored is limited, for each source and for all sources
//! together. A client that opens many sessions displaces those of its own network
//! ([`crate::serve::pending`]).

use super::exchange::{LARGEST, Stall};
use super::irtt;
use super::payer::Payer;
use super::policy::Policy;
use super::repeats::Echoed;
use super::stamp::{self, Reflected};
use crate::HostError;
use crate::digest;
use crate::protocols::wire::{Cookie, TIMED, Timed};
use crate::serve::budget::Permit;
use crate::serve::limits::{REMEMBERED, REMEMBERED_OF_SOURCE};
use crate::serve::metered::AnswerSocket;
use crate::serve::pending::Pending;
use crate::serve::source::Source;
use crate::sys;
use crate::sys::timed_socket::{Even, Got, Left};
use portable_atomic::AtomicU64;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Largest number of answers whose departure time is awaited.
const LEAVING: usize = 64;
/// Smallest interval and longest test of an irtt client, ns.
const IRTT: (i64, i64) = (10_000, 3_600_000_000_000);
/// Length from which on a wait is remembered, ns. A datagram that arrived during such a wait did
/// not find the application busy.
const LONG: u64 = 200_000;

/// The protocol of a responder.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Answers {
    /// Every datagram is returned unchanged.
    Echo,
    /// Timed questions of narrows with that cookie; `None`: with any cookie.
    Timed(Option<Cookie>),
    /// STAMP.
    Stamp,
    /// irtt.
    Irtt,
}

/// Counters of a responder.
#[derive(Debug, Default)]
pub struct Answered {
    /// Number of questions answered.
    pub answers: AtomicU64,
    /// Number of datagrams that were not answered.
    pub ignored: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    /// Identifier of the client: its number in the order of arrival, from 1.
    id: u64,
    seen: u64,
    count: u32,
    /// Number and departure time of answers that were not reported to the client yet. Several can
    /// accumulate, because the kernel may hold answers back and then send them together.
    followed: VecDeque<(u32, u64)>,
    irtt: Option<irtt::Session>,
}

/// The key of a client: its address, and the session or token that it sends.
type Key = (SocketAddr, u64);

/// The clients whose state is stored. If a source has too many, its client that was silent for the
/// longest time is removed. If the table is full, a client of the source prefix with the most
/// clients is removed.
#[derive(Default)]
struct Clients {
    of: HashMap<Key, Client>,
    /// The identifiers of the stored clients ([`Client::id`]), by source prefix.
    sources: Pending,
    /// The identifier of the newest client.
    id: u64,
}

impl Clients {
    fn get_mut(&mut self, key: &Key) -> Option<&mut Client> {
        self.of.get_mut(key)
    }
    /// Records that a client was heard at `now`, adds it if it is new, and returns it.
    fn known(&mut self, key: Key, now: u64) -> &mut Client {
        if !self.of.contains_key(&key) {
            self.make_room(source(&key));
            self.id += 1;
            self.sources.insert(source(&key), self.id);
        }
        let id = self.id;
        let new = || Client {
            id,
            ..Client::default()
        };
        let client = self.of.entry(key).or_insert_with(new);
        client.seen = now;
        client
    }
    /// Removes a client if there is no room for one more client of that source.
    fn make_room(&mut self, from: Source) {
        let own = self.sources.of(from).map_or(0, |(n, _)| n);
        let crowded = if own >= REMEMBERED_OF_SOURCE {
            Some(from)
        } else if self.of.len() >= REMEMBERED {
            let first = self.sources.first();
            let first = self.of.iter().find(|(_, client)| Some(client.id) == first);
            first.map(|(key, _)| source(key))
        } else {
            None
        };
        let those = self
            .of
            .iter()
            .filter(|(key, _)| Some(source(key)) == crowded);
        if let Some(key) = those
            .min_by_key(|(_, client)| client.seen)
            .map(|(key, _)| *key)
        {
            self.forget(&key);
        }
    }
    /// Forgets a client; returns whether it was known.
    fn forget(&mut self, key: &Key) -> bool {
        let client = self.of.remove(key);
        if let Some(client) = &client {
            self.sources.remove(source(key), client.id);
        }
        client.is_some()
    }
}

fn source(key: &Key) -> Source {
    key.0.ip().into()
}

/// A responder: the socket, protocol and clients of a service.
pub struct Responder {
    socket: AnswerSocket,
    peer: Option<SocketAddr>,
    payer: Payer,
    /// The datagrams that an echo has answered recently.
    echoed: Option<Echoed>,
    answers: Answers,
    policy: Policy,
    stall: Option<Stall>,
    clients: Clients,
    leaving: [Option<(u32, Key, u32)>; LEAVING],
    pending: u32,
    even: Even,
}

impl Responder {
    /// Opens a responder at address `at`, for the client `peer` or for all clients. It answers from
    /// [`run`](Self::run) on.
    pub fn new(
        at: SocketAddr,
        peer: Option<SocketAddr>,
        answers: Answers,
        policy: Policy,
        stall: Option<Stall>,
        payer: Payer,
    ) -> io::Result<Responder> {
        let socket = AnswerSocket::new(at, peer)?;
        let port = socket.local()?.port();
        Ok(Responder {
            socket,
            peer,
            payer,
            echoed: (answers == Answers::Echo).then(|| Echoed::new(port)),
            answers,
            policy,
            stall,
            clients: Clients::default(),
            leaving: [None; LEAVING],
            pending: 0,
            even: Even::new(),
        })
    }
    /// The name of the service.
    pub fn name(&self) -> &'static str {
        match self.answers {
            Answers::Echo => "echo",
            Answers::Timed(_) => "board",
            Answers::Stamp => "stamp",
            Answers::Irtt => "irtt",
        }
    }
    /// Whether the service is an echo.
    pub fn is_echo(&self) -> bool {
        self.answers == Answers::Echo
    }
    /// The address of the socket.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }
    /// Enters the scheduling policy and answers until `stop` is set.
    pub fn run(mut self, done: &Answered, stop: &AtomicBool) -> Result<(), HostError> {
        let _guard = self.policy.enter()?;
        self.policy.apply(self.socket.fd())?;
        let spins = self.policy.spins();
        let mut bytes = vec![0; LARGEST + 1];
        let mut idle = None;
        // Start and end of the last long wait.
        let mut slept = (0, 0);
        let mut stall_due = self
            .stall
            .map_or(u64::MAX, |stall| sys::monotonic() + stall.every);
        while !stop.load(Relaxed) {
            let waiting = *idle.get_or_insert_with(sys::monotonic);
            let got = match self.socket.receive(&mut bytes, !spins) {
                Ok(Some(got)) => got,
                Ok(None) => continue,
                // On a connected socket, the client's host reports that the client has closed its
                // port.
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => continue,
                Err(e) => return Err(HostError::Failed("waiting for questions", e)),
            };
            let read = sys::monotonic();
            self.even.renew(read);
            idle = None;
            if read - waiting > LONG {
                slept = (waiting, read);
            }
            let came = self.even.of(got.stamp);
            let ready = if slept.0 <= came && came <= slept.1 {
                came
            } else {
                came.max(waiting)
            };
            if let Some(stall) = self.stall.filter(|_| read >= stall_due) {
                let until = read + stall.lasts;
                while sys::monotonic() < until && !sys::stopped() {
                    sys::sleep_until(until);
                }
                stall_due = until + stall.every;
            }
            if self.answer(&mut bytes, &got, ready, read) {
                done.answers.fetch_add(1, Relaxed);
            } else {
                done.ignored.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    fn answer(&mut self, bytes: &mut [u8], got: &Got, ready: u64, read: u64) -> bool {
        let Some(from) = got.from.or(self.peer) else {
            return false;
        };
        if got.len > bytes.len() {
            return false;
        }
        if self.pending > 0 {
            self.departures(None);
        }
        let datagram = &mut bytes[..got.len];
        match self.answers {
            Answers::Echo => {
                let echoed = self.echoed.as_mut();
                let Some(permit) =
                    echoed.and_then(|echoed| echoed.permit(&self.payer, from, datagram, read))
                else {
                    return false;
                };
                self.send(datagram, from, got.class, None, permit)
            }
            Answers::Timed(cookie) => {
                let told = Timed::from_bytes(datagram).filter(|told| !told.answer);
                let Some(told) =
                    told.filter(|told| cookie.is_none_or(|cookie| cookie == told.cookie))
                else {
                    return false;
                };
                let Some(permit) = self.permit(from, datagram, true, read) else {
                    return false;
                };
                let key = (from, 0);
                let client = self.clients.known(key, read);
                client.count = if told.number == 0 {
                    1
                } else {
                    client.count.wrapping_add(1)
                };
                let received = self.even.of(got.stamp);
                let (departed_number, departed) = client.followed.pop_front().unwrap_or_default();
                let answer = Timed {
                    answer: true,
                    class: got.class,
                    received,
                    ready,
                    read,
                    count: client.count,
                    departed,
                    departed_number,
                    answered: sys::monotonic(),
                    ..told
                };
                if let Some(head) = datagram.first_chunk_mut::<TIMED>() {
                    answer.write(head);
                }
                self.send(datagram, from, got.class, Some((key, told.number)), permit)
            }
            Answers::Stamp => {
                if !stamp::is_question(datagram) {
                    return false;
                }
                let Some(permit) = self.permit(from, datagram, true, read) else {
                    return false;
                };
                let key = (from, u64::from(datagram[14]) << 8 | u64::from(datagram[15]));
                let client = self.clients.known(key, read);
                let count = client.count;
                let told = Reflected {
                    received: got.stamp,
                    answered: sys::realtime(),
                    count,
                    ttl: got.ttl,
                    class: got.class,
                    // The extension has room only for the latest departure.
                    followed: client.followed.pop_back(),
                };
                client.count = count.wrapping_add(1);
                let Some(class) = stamp::reflect(datagram, &told) else {
                    return false;
                };
                // Follow-up telemetry identifies an answer by the reflector's sequence number.
                self.send(datagram, from, class, Some((key, count)), permit)
            }
            Answers::Irtt => self.irtt(datagram, from, got.class, read),
        }
    }

    fn irtt(&mut self, datagram: &mut [u8], from: SocketAddr, class: u8, read: u64) -> bool {
        let date = |even: u64| even + self.even.ahead();
        let Some(flags) = irtt::flags(datagram) else {
            return false;
        };
        if flags & irtt::REPLY != 0 {
            return false;
        }
        if flags & irtt::OPEN != 0 {
            let asked =
                irtt::asked(datagram).and_then(|params| irtt::Session::new(params, IRTT.0, IRTT.1));
            let Some(session) = asked else { return false };
            let Ok(token) = digest::random::<8>().map(u64::from_le_bytes) else {
                return false;
            };
            let welcome = session.welcome(token);
            // The answer is longer than the open. The bytes of the first open are therefore
            // credited to the answer to the second one.
            let sizes = (datagram.len(), welcome.len());
            let Some(permit) = self.payer.permit(from, sizes, true, read) else {
                return false;
            };
            if flags & irtt::CLOSE == 0 {
                self.clients.known((from, token), read).irtt = Some(session);
            }
            return self.send(&welcome, from, class, None, permit);
        }
        let Some(key) = irtt::token(datagram).map(|token| (from, token)) else {
            return false;
        };
        if flags & irtt::CLOSE != 0 {
            return self.clients.forget(&key);
        }
        let Some(client) = self.clients.get_mut(&key) else {
            return false;
        };
        client.seen = read;
        let answered = sys::monotonic();
        let times = ((date(read), read), (date(answered), answered));
        let Some(session) = &mut client.irtt else {
            return false;
        };
        if !session.answer(datagram, times.0, times.1) {
            return false;
        }
        let Some(permit) = self.permit(from, datagram, true, read) else {
            return false;
        };
        self.send(datagram, from, class, None, permit)
    }

    /// A permit to answer a datagram by one of the same size; `None` if a limit is reached.
    fn permit(
        &self,
        from: SocketAddr,
        datagram: &[u8],
        recognised: bool,
        now: u64,
    ) -> Option<Permit> {
        self.payer
            .permit(from, (datagram.len(), datagram.len()), recognised, now)
    }

    /// Sends an answer; `false` if it could not be sent. `awaited`: the client to which the
    /// departure is to be reported, and the number that identifies the answer in that report.
    fn send(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        class: u8,
        awaited: Option<(Key, u32)>,
        permit: Permit,
    ) -> bool {
        let to = self.peer.is_none().then_some(from);
        // An answer has the DSCP of its question, but not its ECN bits.
        let Ok(Some(id)) = self.socket.send(datagram, to, class & !3, permit) else {
            return false;
        };
        let place = &mut self.leaving[id as usize % LEAVING];
        *place = awaited.map(|(key, number)| (id, key, number));
        self.pending += 1;
        self.departures(Some(id));
        true
    }

    fn departures(&mut self, id: Option<u32>) {
        while let Some(Left {
            id: left, stamp, ..
        }) = self.socket.departure()
        {
            if stamp == 0 {
                continue;
            }
            self.pending = self.pending.saturating_sub(1);
            if let Some((awaited, key, number)) = self.leaving[left as usize % LEAVING] {
                if awaited == left {
                    let even = self.even.of(stamp);
                    if let Some(client) = self.clients.get_mut(&key) {
                        let at = if self.answers == Answers::Stamp {
                            stamp
                        } else {
                            even
                        };
                        if client.followed.len() == LEAVING {
                            client.followed.pop_front();
                        }
                        client.followed.push_back((number, at));
                    }
                }
            }
            if Some(left) == id {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u32, port: u16) -> SocketAddr {
        SocketAddr::from((std::net::Ipv4Addr::from(address), port))
    }

    /// Checks that a client that sends a datagram per second keeps its state while another source
    /// opens sessions. `stranger` returns the key of each of these by its number.
    fn stays_known(stranger: impl Fn(u64) -> Key) -> Clients {
        let (mut clients, one) = (Clients::default(), (at(0xc633_6401, 4000), 7));
        clients.known(one, 0).count = 5;
        for n in 1..20_000 {
            clients.known(stranger(n), n);
            if n % 3000 == 0 {
                assert!(clients.get_mut(&one).is_some(), "forgotten at {n}");
                clients.known(one, n);
            }
            assert!(clients.of.len() <= REMEMBERED && clients.sources.len() == clients.of.len());
        }
        assert_eq!(clients.known(one, 20_000).count, 5);
        clients
    }

    #[test]
    fn a_stranger_makes_room_by_sessions_of_its_own() {
        // One address with many ports and tokens.
        let clients = stays_known(|n| (at(0xcb00_7101, 1024 + (n % 60_000) as u16), n));
        assert_eq!(clients.of.len(), REMEMBERED_OF_SOURCE + 1);
        // All addresses of a /24, and of a /16.
        let clients = stays_known(|n| (at(0xcb00_7100 + (n % 256) as u32, 4000), n));
        assert_eq!(clients.of.len(), REMEMBERED);
        let clients = stays_known(|n| (at(0xcb00_0000 + (n % 65_536) as u32, 4000), n));
        assert_eq!(clients.of.len(), REMEMBERED);
    }

    #[test]
    fn of_one_source_the_client_that_was_silent_for_the_longest_makes_room() {
        let mut clients = Clients::default();
        let key = |n: u16| (at(0xc000_0201, n), 0);
        for n in 0..REMEMBERED_OF_SOURCE as u16 {
            clients.known(key(n), n.into());
        }
        clients.known(key(0), 100);
        clients.known(key(1000), 101);
        assert!(clients.get_mut(&key(0)).is_some() && clients.get_mut(&key(1)).is_none());
        assert!(clients.forget(&key(0)) && !clients.forget(&key(0)));
        assert_eq!(clients.of.len(), REMEMBERED_OF_SOURCE - 1);
        assert_eq!(clients.sources.len(), REMEMBERED_OF_SOURCE - 1);
    }
}
