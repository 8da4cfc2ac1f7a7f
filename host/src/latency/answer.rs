//! The far end of a latency test: one thread, one socket, one protocol; each answer as long as its question.
//!
//! It sleeps in the call that receives, has every buffer before it begins, and answers one datagram at a time: whoever answers many at
//! once makes the first wait for the last. When an answer left its kernel is known only after it has left, so the next
//! answer to the same client tells it.
//!
//! Nobody can use it against somebody else: an answer is never longer than its question (irtt's to an open is 8 bytes longer,
//! as the protocol has it, and rare: [`OPENS`]), and what comes from a port below 1024, or from its own number, gets none, lest two that
//! answer everything answer each other for ever. What it remembers of clients is bounded.

use super::exchange::{Stall, LARGEST};
use super::irtt;
use super::policy::Policy;
use super::stamp::{self, Reflected};
use super::timed_socket::{Even, Got, Left, TimedSocket};
use crate::wire::{Cookie, Timed, TIMED};
use crate::{digest, sys, HostError};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Clients that are remembered; the one that was silent for the longest makes room.
const MOST: usize = 1024;
/// Answers whose leaving is awaited.
const LEAVING: usize = 64;
/// Of irtt, a second, altogether.
pub const OPENS: u32 = 50;
/// The shortest interval that an irtt client is allowed, ns, and its longest test.
const IRTT: (i64, i64) = (10_000, 3_600_000_000_000);
/// Waiting for longer, ns, is a sleep that can be too long.
const LONG: u64 = 200_000;
/// Ports that are privileged.
const PRIVILEGED: u16 = 1024;

/// Who is answered, and how.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Answers {
    /// Everything, as it came.
    Echo,
    /// Timed questions with that cookie, or with any.
    Timed(Option<Cookie>),
    /// STAMP.
    Stamp,
    /// irtt.
    Irtt,
}

/// What a responder has done.
#[derive(Debug, Default)]
pub struct Answered {
    /// Questions answered.
    pub answers: AtomicU64,
    /// Datagrams that got none.
    pub ignored: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    seen: u64,
    count: u32,
    /// Answers that have left and were not told yet: several leave at once after they were held back together.
    followed: VecDeque<(u32, u64)>,
    irtt: Option<irtt::Session>,
}

/// By what a client is known: its address, and the session or token that it tells.
type Key = (SocketAddr, u64);

/// Somebody who answers.
pub struct Responder {
    socket: TimedSocket,
    peer: Option<SocketAddr>,
    port: u16,
    answers: Answers,
    policy: Policy,
    stall: Option<Stall>,
    clients: HashMap<Key, Client>,
    leaving: [Option<(u32, Key, u32)>; LEAVING],
    pending: u32,
    even: Even,
    opens: (u64, u32),
}

impl Responder {
    /// At `at`, for everybody or for one peer; it does not answer yet.
    pub fn new(
        at: SocketAddr,
        peer: Option<SocketAddr>,
        answers: Answers,
        policy: Policy,
        stall: Option<Stall>,
    ) -> io::Result<Responder> {
        let socket = TimedSocket::new(at, peer, true, peer.is_some())?;
        Ok(Responder {
            port: socket.local()?.port(),
            socket,
            peer,
            answers,
            policy,
            stall,
            clients: HashMap::new(),
            leaving: [None; LEAVING],
            pending: 0,
            even: Even::new(),
            opens: (0, 0),
        })
    }
    /// What it does, in a line for whoever started it.
    pub fn name(&self) -> &'static str {
        match self.answers {
            Answers::Echo => "echo",
            Answers::Timed(_) => "board",
            Answers::Stamp => "stamp",
            Answers::Irtt => "irtt",
        }
    }
    /// Where it is.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }
    /// Answers until it is told to stop. The policy is entered by the thread that calls this.
    pub fn run(mut self, done: &Answered, stop: &AtomicBool) -> Result<(), HostError> {
        let _guard = self.policy.enter()?;
        self.policy.apply(self.socket.fd())?;
        let spins = self.policy.spins();
        let mut bytes = vec![0; LARGEST + 1];
        let mut idle = None;
        // The last long sleep: what came while the kernel held this thread asleep did not find it busy.
        let mut slept = (0, 0);
        let mut stall_due = self.stall.map_or(u64::MAX, |stall| sys::monotonic() + stall.every);
        while !stop.load(Relaxed) {
            let waiting = *idle.get_or_insert_with(sys::monotonic);
            let got = if spins {
                self.socket.receive(&mut bytes)
            } else {
                self.socket.wait_for(&mut bytes)
            };
            let got = match got {
                Ok(Some(got)) => got,
                Ok(None) => continue,
                // A client that has gone: its host says so on a socket that has one peer.
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
        if got.len > bytes.len() || from.port() < PRIVILEGED || from.port() == self.port {
            return false;
        }
        if self.pending > 0 {
            self.departures(None);
        }
        let datagram = &mut bytes[..got.len];
        match self.answers {
            Answers::Echo => self.send(datagram, from, got.class, None),
            Answers::Timed(cookie) => {
                let told = Timed::from_bytes(datagram).filter(|told| !told.answer);
                let Some(told) = told.filter(|told| cookie.is_none_or(|cookie| cookie == told.cookie)) else {
                    return false;
                };
                let key = (from, 0);
                let client = known(&mut self.clients, key, read);
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
                self.send(datagram, from, got.class, Some((key, told.number)))
            }
            Answers::Stamp => {
                if datagram.len() < stamp::BASE {
                    return false;
                }
                let key = (from, u64::from(datagram[14]) << 8 | u64::from(datagram[15]));
                let client = known(&mut self.clients, key, read);
                let count = client.count;
                let told = Reflected {
                    received: got.stamp,
                    answered: sys::realtime(),
                    count,
                    ttl: got.ttl,
                    class: got.class,
                    // The extension has room for the last one only.
                    followed: client.followed.pop_back(),
                };
                client.count = count.wrapping_add(1);
                let Some(class) = stamp::reflect(datagram, &told) else {
                    return false;
                };
                // The number that follow-up telemetry names is the reflector's own.
                self.send(datagram, from, class, Some((key, count)))
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
            let second = read / 1_000_000_000;
            if self.opens.0 != second {
                self.opens = (second, 0);
            }
            self.opens.1 += 1;
            let asked = irtt::asked(datagram).and_then(|params| irtt::Session::new(params, IRTT.0, IRTT.1));
            let (Some(session), true) = (asked, self.opens.1 <= OPENS) else {
                return false;
            };
            let Ok(token) = digest::random::<8>().map(u64::from_le_bytes) else {
                return false;
            };
            let welcome = session.welcome(token);
            if flags & irtt::CLOSE == 0 {
                known(&mut self.clients, (from, token), read).irtt = Some(session);
            }
            return self.send(&welcome, from, class, None);
        }
        let Some(key) = irtt::token(datagram).map(|token| (from, token)) else {
            return false;
        };
        if flags & irtt::CLOSE != 0 {
            return self.clients.remove(&key).is_some();
        }
        let Some(client) = self.clients.get_mut(&key) else {
            return false;
        };
        client.seen = read;
        let answered = sys::monotonic();
        let times = ((date(read), read), (date(answered), answered));
        let Some(session) = &mut client.irtt else { return false };
        session.answer(datagram, times.0, times.1) && self.send(datagram, from, class, None)
    }

    /// Sends; `awaited`: when it leaves is to be told to that client, under that number.
    fn send(&mut self, datagram: &[u8], from: SocketAddr, class: u8, awaited: Option<(Key, u32)>) -> bool {
        let to = self.peer.is_none().then_some(from);
        // An answer keeps its question's code point; what the network said of congestion is not sent back.
        let Ok(Some(id)) = self.socket.send(datagram, to, Some(class & !3)) else {
            return false;
        };
        let place = &mut self.leaving[id as usize % LEAVING];
        *place = awaited.map(|(key, number)| (id, key, number));
        self.pending += 1;
        self.departures(Some(id));
        true
    }

    fn departures(&mut self, id: Option<u32>) {
        while let Some(Left { id: left, stamp, .. }) = self.socket.departure() {
            if stamp == 0 {
                continue;
            }
            self.pending = self.pending.saturating_sub(1);
            if let Some((awaited, key, number)) = self.leaving[left as usize % LEAVING] {
                if awaited == left {
                    let even = self.even.of(stamp);
                    if let Some(client) = self.clients.get_mut(&key) {
                        let at = if self.answers == Answers::Stamp { stamp } else { even };
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

fn known(clients: &mut HashMap<Key, Client>, key: Key, now: u64) -> &mut Client {
    if clients.len() >= MOST && !clients.contains_key(&key) {
        let oldest = clients
            .iter()
            .min_by_key(|(_, client)| client.seen)
            .map(|(key, _)| *key);
        clients.retain(|key, _| Some(*key) != oldest);
    }
    let client = clients.entry(key).or_default();
    client.seen = now;
    client
}
