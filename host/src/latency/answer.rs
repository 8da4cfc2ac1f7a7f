//! The far end of a latency test: one thread, one socket, one protocol; each answer as long as its question.
//!
//! It sleeps in the call that receives, has every buffer before it begins, and answers one datagram at a time: whoever answers many at
//! once makes the first wait for the last. When an answer left its kernel is known only after it has left, so the next
//! answer to the same client tells it.
//!
//! Nobody can use it against somebody else. Every answer is charged to a session or to its source address
//! ([`crate::serve::budget`]), which gets at most as many bytes as came from it; ports at which this host answers get none. Two that
//! answer do not answer each other for ever, whatever their ports and hosts, for no answer is a question:
//!
//! | service | no question |
//! |---|---|
//! | timed questions | the kind `s` |
//! | irtt | the flag for replies |
//! | STAMP | anything but zeros where the sender of RFC 8762, section 4.2.1, has zeros: there a reflector tells what it received |
//! | echo | an echo's answer has nothing that shows it: ports, a rate and a memory end the loop ([`super::repeats`]) |
//!
//! What it remembers of clients is bounded.

use super::exchange::{Stall, LARGEST};
use super::irtt;
use super::policy::Policy;
use super::repeats::Echoed;
use super::stamp::{self, Reflected};
use super::timed_socket::{Even, Got, Left};
use crate::serve::budget::{Accounts, Allowance, Permit};
use crate::serve::metered::AnswerSocket;
use crate::wire::{Cookie, Timed, TIMED};
use crate::{digest, sys, HostError};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Clients that are remembered; the one that was silent for the longest makes room.
const MOST: usize = 1024;
/// Answers whose leaving is awaited.
const LEAVING: usize = 64;
/// The shortest interval that an irtt client is allowed, ns, and its longest test.
const IRTT: (i64, i64) = (10_000, 3_600_000_000_000);
/// Waiting for longer, ns, is a sleep that can be too long.
const LONG: u64 = 200_000;

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

/// Who pays for the answers.
#[derive(Clone, Debug)]
pub enum Payer {
    /// The source address of each question.
    Source(Arc<Accounts>),
    /// The session whose client is the only one that is answered.
    Session(Arc<Allowance>),
}

impl Payer {
    /// A permit to answer `asked` bytes with `answer` bytes.
    pub fn permit(
        &self,
        to: SocketAddr,
        (asked, answer): (usize, usize),
        recognised: bool,
        now: u64,
    ) -> Option<Permit> {
        match self {
            Payer::Source(accounts) => accounts.reply(to, asked, answer, recognised, now),
            Payer::Session(allowance) => allowance.answer(answer.min(asked), now),
        }
    }
    /// The place of that source in tables of fixed size.
    pub fn bucket(&self, ip: IpAddr) -> usize {
        match self {
            Payer::Source(accounts) => accounts.bucket(ip),
            Payer::Session(_) => 0,
        }
    }
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
    socket: AnswerSocket,
    peer: Option<SocketAddr>,
    payer: Payer,
    /// Of an echo.
    echoed: Option<Echoed>,
    answers: Answers,
    policy: Policy,
    stall: Option<Stall>,
    clients: HashMap<Key, Client>,
    leaving: [Option<(u32, Key, u32)>; LEAVING],
    pending: u32,
    even: Even,
}

impl Responder {
    /// At `at`, for everybody or for one peer; it does not answer yet.
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
            clients: HashMap::new(),
            leaving: [None; LEAVING],
            pending: 0,
            even: Even::new(),
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
    /// Does it send everything back?
    pub fn is_echo(&self) -> bool {
        self.answers == Answers::Echo
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
            let got = match self.socket.receive(&mut bytes, !spins) {
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
                let Some(permit) = echoed.and_then(|echoed| echoed.permit(&self.payer, from, datagram, read)) else {
                    return false;
                };
                self.send(datagram, from, got.class, None, permit)
            }
            Answers::Timed(cookie) => {
                let told = Timed::from_bytes(datagram).filter(|told| !told.answer);
                let Some(told) = told.filter(|told| cookie.is_none_or(|cookie| cookie == told.cookie)) else {
                    return false;
                };
                let Some(permit) = self.permit(from, datagram, true, read) else {
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
            let asked = irtt::asked(datagram).and_then(|params| irtt::Session::new(params, IRTT.0, IRTT.1));
            let Some(session) = asked else { return false };
            let Ok(token) = digest::random::<8>().map(u64::from_le_bytes) else {
                return false;
            };
            let welcome = session.welcome(token);
            // It is longer than the open: the first open of a source only pays for the answer to the second.
            let sizes = (datagram.len(), welcome.len());
            let Some(permit) = self.payer.permit(from, sizes, true, read) else {
                return false;
            };
            if flags & irtt::CLOSE == 0 {
                known(&mut self.clients, (from, token), read).irtt = Some(session);
            }
            return self.send(&welcome, from, class, None, permit);
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
        if !session.answer(datagram, times.0, times.1) {
            return false;
        }
        let Some(permit) = self.permit(from, datagram, true, read) else {
            return false;
        };
        self.send(datagram, from, class, None, permit)
    }

    /// To answer a datagram with as many bytes.
    fn permit(&self, from: SocketAddr, datagram: &[u8], recognised: bool, now: u64) -> Option<Permit> {
        self.payer
            .permit(from, (datagram.len(), datagram.len()), recognised, now)
    }

    /// Sends; `awaited`: when it leaves is to be told to that client, under that number.
    fn send(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        class: u8,
        awaited: Option<(Key, u32)>,
        permit: Permit,
    ) -> bool {
        let to = self.peer.is_none().then_some(from);
        // An answer keeps its question's code point; what the network said of congestion is not sent back.
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
