//! Load: streams that send or receive as fast as possible or at a limited rate, on a few threads.
//! A stream is a TCP connection, or a flow of datagrams ([`DatagramFlow`]). Server and client use
//! this module.
//!
//! **Threads.** A thread per connection would be the shortest code, but with 500 clients the
//! scheduling of the threads would determine the share of each connection. A single event loop
//! would delay control connections behind load. Therefore control connections have one thread
//! (`serve::listener`), and load has a few: one per processor, at most four, each with its own
//! epoll instance. The threads for load share only counters. A connection stays on its thread, and
//! moves at most 1 MiB at a time, so that all connections progress. An async runtime is not needed,
//! because the only events are those of epoll.
//!
//! Received data is discarded inside the kernel (`MSG_TRUNC`) without a copy. A [`Budget`] limits
//! bytes and rate of all connections of one client. A connection that exceeds the rate pauses. If
//! it receives, its receive window closes meanwhile, so that no further memory is used.

use super::datagram_flow::{DatagramFlow, Ended, Next};
use crate::protocols::tcp_info::Row;
use crate::sys::{self, Epoll};
use portable_atomic::AtomicU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Largest number of bytes that one system call writes or reads.
const CHUNK: usize = 256 << 10;
/// Smallest value of the same limit at low rates, bytes: about one packet.
const LEAST: usize = 1500;
/// A sender writes while less than this is unsent in the kernel, bytes (`TCP_NOTSENT_LOWAT`). At
/// 10 Gbit/s, the kernel sends this amount in 0.4 ms, enough time for the thread to wake up. More
/// unsent data would only be discarded at the end.
pub const UNSENT: u32 = 512 << 10;
/// Largest number of system calls for one connection before the next connection is served.
const TURN: usize = 4;
/// Longest sleep, ns. A request to stop is noticed within this time.
const LONGEST: u64 = 50_000_000;
/// Largest number of threads; more did not increase the rate, because loopback is memory-bound.
const MOST_THREADS: usize = 4;
/// Time by which a budget may be ahead of its rate, ns. At 1 Gbit/s, the 1 MiB of one turn are 8
/// ms.
const AHEAD: u64 = 10_000_000;
/// Pause before a connection again requests bytes from its budget, ns. Bytes that were reserved for
/// other connections may have become available.
const BRIEFLY: u64 = 1_000_000;

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// The role of this host in a connection's load.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// This host sends.
    Sender,
    /// This host receives.
    Receiver,
}

/// The limits of all connections of one client together.
#[derive(Debug)]
pub struct Budget {
    /// Rate in bytes per second; `None`: unlimited.
    rate: Option<u64>,
    most: u64,
    moved: AtomicU64,
    /// Number of bytes that have moved or are reserved. Bytes reserved for one connection are not
    /// available to others.
    promised: AtomicU64,
    /// Time up to which the rate is used, ns of the monotonic clock.
    used: AtomicU64,
    /// Time until which data may be sent without another sign of life of the client, ns of the
    /// monotonic clock.
    alive_until: AtomicU64,
    /// Whether the sockets of the client use more than their share of memory.
    held: AtomicBool,
}

/// Whether a connection may move data now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum May {
    /// It may.
    Move,
    /// Not before this time, ns of the monotonic clock.
    Wait(u64),
    /// Not any more: the budget is used up.
    Stop,
}

impl Budget {
    /// A budget of `most` bytes at `rate` bytes per second (`None`: unlimited rate).
    pub fn new(rate: Option<u64>, most: u64) -> Arc<Budget> {
        Arc::new(Budget {
            rate: rate.map(|rate| rate.max(1)),
            most,
            moved: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            used: AtomicU64::new(0),
            alive_until: AtomicU64::new(u64::MAX),
            held: AtomicBool::new(false),
        })
    }
    /// As [`new`](Self::new), but data may only be sent until the time that [`Budget::alive`] sets,
    /// and not before its first call.
    pub fn watched(rate: Option<u64>, most: u64) -> Arc<Budget> {
        let budget = Budget::new(rate, most);
        budget.alive_until.store(0, Relaxed);
        budget
    }
    /// Records that the client is alive: data may be sent to it until `until`, ns of the monotonic
    /// clock.
    pub fn alive(&self, until: u64) {
        self.alive_until.fetch_max(until, Relaxed);
    }
    /// Time until which data may be sent to the client, ns of the monotonic clock.
    pub fn alive_until(&self) -> u64 {
        self.alive_until.load(Relaxed)
    }
    /// Sets whether the sockets of the client use more than their share of memory. If so, its
    /// senders wait.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Relaxed);
    }
    /// Ends the budget: it counts as used up.
    pub fn stop(&self) {
        self.moved.fetch_max(self.most, Relaxed);
        self.alive_until.store(0, Relaxed);
    }
    /// Whether a connection may send more.
    pub fn may_send(&self, now: u64) -> May {
        match self.may(now) {
            May::Move if now > self.alive_until() || self.held.load(Relaxed) => {
                May::Wait(now + LONGEST)
            }
            may => may,
        }
    }
    /// Whether a connection may move more.
    pub fn may(&self, now: u64) -> May {
        if self.spent() {
            return May::Stop;
        }
        match self.rate {
            Some(_) if self.used.load(Relaxed) > now + AHEAD => May::Wait(self.used.load(Relaxed)),
            _ => May::Move,
        }
    }
    /// Largest number of bytes to move at once: those that the rate moves in `AHEAD`, within
    /// `LEAST` and `CHUNK`.
    pub fn chunk(&self) -> usize {
        let share = |rate: u64| rate.saturating_mul(AHEAD / 1000) / 1_000_000;
        self.rate
            .map_or(CHUNK, |rate| (share(rate) as usize).clamp(LEAST, CHUNK))
    }
    /// Reserves up to `wanted` of the remaining bytes and returns their number. The caller then
    /// reports by [`Budget::kept`] how many of them moved.
    pub fn promise(&self, wanted: u64) -> u64 {
        let mut given = 0;
        let _ = self.promised.fetch_update(Relaxed, Relaxed, |promised| {
            given = wanted.min(self.most.saturating_sub(promised));
            Some(promised + given)
        });
        given
    }
    /// Records that `bytes` of the reserved bytes (`promised`) have moved, and releases the others.
    pub fn kept(&self, now: u64, promised: u64, bytes: u64) {
        self.promised
            .fetch_sub(promised.saturating_sub(bytes), Relaxed);
        self.count(now, bytes);
    }
    /// Records bytes that moved without a reservation.
    pub fn took(&self, now: u64, bytes: u64) {
        self.promised.fetch_add(bytes, Relaxed);
        self.count(now, bytes);
    }
    fn count(&self, now: u64, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
        if let Some(rate) = self.rate {
            let costs = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            let costs = u64::try_from(costs).unwrap_or(u64::MAX);
            // Unused rate does not accumulate.
            let _ = self.used.fetch_update(Relaxed, Relaxed, |used| {
                Some(used.max(now).saturating_add(costs))
            });
        }
    }
    /// Whether the rate is limited.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }
    /// Number of bytes moved.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
    /// Whether the budget is used up.
    pub fn spent(&self) -> bool {
        self.moved() >= self.most
    }
}

/// Bytes of a budget that are reserved for one sender before it sends them. Dropping this value
/// releases the unused ones.
#[derive(Debug)]
pub struct Promised {
    budget: Arc<Budget>,
    left: u64,
}

impl Promised {
    /// A reservation of zero bytes.
    pub fn new(budget: &Arc<Budget>) -> Promised {
        Promised {
            budget: Arc::clone(budget),
            left: 0,
        }
    }
    /// Reserves up to `wanted` more bytes, and returns how many were reserved.
    pub fn more(&mut self, wanted: u64) -> u64 {
        let given = self.budget.promise(wanted);
        self.left += given;
        given
    }
    /// Records sent bytes, including those that were not reserved.
    pub fn sent(&mut self, now: u64, bytes: u64) {
        let kept = bytes.min(self.left);
        self.left -= kept;
        self.budget.kept(now, kept, kept);
        if bytes > kept {
            self.budget.took(now, bytes - kept);
        }
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        self.budget.kept(0, self.left, 0);
    }
}

const RUNS: u8 = 0;
const ENDED: u8 = 1;
const BROKE: u8 = 2;

/// A stream under load.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    role: Role,
    budget: Arc<Budget>,
    moved: AtomicU64,
    state: AtomicU8,
    /// The end of a flow of datagrams; `None` for a TCP connection.
    flow: Option<Mutex<Box<dyn DatagramFlow>>>,
}

/// Properties of a stream's sender.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sending {
    /// Maximum segment size, bytes.
    pub mss: u64,
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Congestion control.
    pub cc: String,
}

impl Stream {
    /// A stream whose load has not started.
    pub fn new(socket: OwnedFd, role: Role, budget: Arc<Budget>) -> Arc<Stream> {
        Arc::new(Stream {
            socket,
            role,
            budget,
            moved: AtomicU64::new(0),
            state: AtomicU8::new(RUNS),
            flow: None,
        })
    }
    /// As [`new`](Self::new), for a flow of datagrams over this socket.
    pub fn datagrams(
        socket: OwnedFd,
        role: Role,
        budget: Arc<Budget>,
        flow: Box<dyn DatagramFlow>,
    ) -> Arc<Stream> {
        Arc::new(Stream {
            socket,
            role,
            budget,
            moved: AtomicU64::new(0),
            state: AtomicU8::new(RUNS),
            flow: Some(Mutex::new(flow)),
        })
    }
    /// Applies `read` to the flow of datagrams; `None` for a TCP connection.
    fn of_flow<T>(&self, read: impl FnOnce(&mut dyn DatagramFlow) -> T) -> Option<T> {
        let flow = self.flow.as_ref()?;
        Some(read(
            &mut **flow.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
    /// Whether the stream consists of datagrams.
    pub fn is_datagrams(&self) -> bool {
        self.flow.is_some()
    }
    /// A sample of a sender; `None` if the kernel reports none.
    pub fn row(&self, now: u64) -> Option<Row> {
        let info = || sys::tcp_info(&self.socket).ok();
        self.of_flow(|flow| flow.row(now))
            .or_else(|| info().map(|info| Row::of(now, &info)))
    }
    /// Bytes that the peer has acknowledged (this host sends) or sent (this host receives).
    pub fn progress(&self) -> u64 {
        match (self.of_flow(|flow| flow.progress()), self.role) {
            (Some(bytes), _) => bytes,
            (None, Role::Receiver) => self.moved(),
            (None, Role::Sender) => sys::tcp_info(&self.socket).map_or(0, |info| info.bytes_acked),
        }
    }
    /// Time since the last packet of the peer, ns.
    pub fn silence(&self, now: u64) -> u64 {
        self.of_flow(|flow| now.saturating_sub(flow.heard()))
            .unwrap_or_else(|| sys::socket::silence(&self.socket))
    }
    /// Properties of the sender.
    pub fn sending(&self) -> Sending {
        let of_flow = self.of_flow(|flow| Sending {
            mss: flow.payload().into(),
            ecn: flow.ecn(),
            cc: flow.cc().into(),
        });
        of_flow.unwrap_or_else(|| {
            let info = sys::tcp_info(&self.socket).unwrap_or_default();
            Sending {
                mss: info.snd_mss.into(),
                ecn: info.options() & sys::ECN != 0,
                cc: sys::socket::cc_of(&self.socket),
            }
        })
    }
    /// Why a flow of datagrams has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.of_flow(|flow| flow.ended()).flatten()
    }
    /// Largest memory of the state of a flow of datagrams, bytes.
    pub fn memory(&self) -> u64 {
        self.of_flow(|flow| flow.memory()).unwrap_or(0)
    }
    /// The socket, for options.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }
    /// The role of this host.
    pub fn role(&self) -> Role {
        self.role
    }
    /// Bytes sent or received.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
    /// Whether the stream has ended: the peer closed it, it failed, or its budget is used up.
    pub fn over(&self) -> bool {
        self.state.load(Relaxed) != RUNS
    }
    /// Whether the connection failed.
    pub fn broken(&self) -> bool {
        self.state.load(Relaxed) == BROKE
    }
    fn events(&self) -> u32 {
        match self.role {
            Role::Sender if !self.is_datagrams() => sys::WRITABLE,
            _ => sys::READABLE,
        }
    }
    /// Moves data as long as the budget and the socket permit it.
    fn turn(&self) -> Next {
        let of_flow = self.of_flow(|flow| {
            let next = flow.turn(&self.socket, &self.budget);
            self.moved.store(flow.moved(), Relaxed);
            next
        });
        match of_flow {
            Some(Next::Stop) => {
                self.state.store(ENDED, Relaxed);
                Next::Stop
            }
            Some(next) => next,
            None => match self.move_bytes() {
                May::Move => Next::Until(u64::MAX),
                May::Wait(until) => Next::At(until),
                May::Stop => Next::Stop,
            },
        }
    }
    /// Moves data of a TCP connection, in at most [`TURN`] system calls.
    fn move_bytes(&self) -> May {
        let chunk = self.budget.chunk();
        for _ in 0..TURN {
            let now = sys::monotonic();
            let may = match self.role {
                Role::Sender => self.budget.may_send(now),
                Role::Receiver => self.budget.may(now),
            };
            match may {
                May::Move => {}
                May::Stop => {
                    self.state.store(ENDED, Relaxed);
                    return May::Stop;
                }
                wait => return wait,
            }
            let promised = self.budget.promise(chunk as u64);
            if promised == 0 {
                // Bytes that are reserved for other connections may become available later.
                return May::Wait(now + BRIEFLY);
            }
            let chunk = promised as usize;
            let moved = match self.role {
                Role::Sender => sys::send_some(&self.socket, &ZEROS[..chunk]),
                Role::Receiver => sys::discard(&self.socket, chunk),
            };
            let bytes = moved.as_ref().ok().copied().flatten().unwrap_or(0) as u64;
            self.budget.kept(now, promised, bytes);
            match moved {
                Ok(Some(0)) => {
                    self.state.store(ENDED, Relaxed);
                    return May::Stop;
                }
                Ok(Some(n)) => {
                    self.moved.fetch_add(n as u64, Relaxed);
                    if n < chunk {
                        return May::Move;
                    }
                }
                Ok(None) => return May::Move,
                Err(_) => {
                    self.state.store(BROKE, Relaxed);
                    return May::Stop;
                }
            }
        }
        May::Move
    }
}

#[derive(Default)]
struct Slots {
    streams: Vec<Option<Arc<Stream>>>,
    /// Generation of each entry of `streams`. Epoll events of an entry's previous stream are
    /// ignored.
    turns: Vec<u32>,
}

impl Slots {
    /// The entry of an epoll token, unless another stream has this entry now.
    fn slot(&mut self, token: u64) -> Option<&mut Option<Arc<Stream>>> {
        let at = (token & u64::from(u32::MAX)) as usize;
        let same = u64::from(*self.turns.get(at)?) == token >> 32;
        self.streams.get_mut(at).filter(|_| same)
    }
}

struct Carrier {
    epoll: Epoll,
    slots: Mutex<Slots>,
    cpu: AtomicU64,
}

/// The thread and entry of a running stream, for its removal.
#[derive(Copy, Clone, Debug)]
pub struct Slot {
    carrier: usize,
    token: u64,
}

impl Default for Slot {
    /// A value that belongs to no stream.
    fn default() -> Slot {
        Slot {
            carrier: usize::MAX,
            token: 0,
        }
    }
}

/// The threads for load.
pub struct Carriers {
    carriers: Vec<Arc<Carrier>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Carriers {
    /// Starts one thread per processor, at most `MOST_THREADS`.
    pub fn new() -> std::io::Result<Carriers> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let stop = Arc::new(AtomicBool::new(false));
        let (mut carriers, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..processors.min(MOST_THREADS) {
            let carrier = Arc::new(Carrier {
                epoll: Epoll::new()?,
                slots: Mutex::default(),
                cpu: AtomicU64::new(0),
            });
            let (mine, stop) = (Arc::clone(&carrier), Arc::clone(&stop));
            threads.push(
                std::thread::Builder::new()
                    .name("load".into())
                    .spawn(move || mine.run(&stop))?,
            );
            carriers.push(carrier);
        }
        Ok(Carriers {
            carriers,
            threads,
            stop,
        })
    }
    /// Starts the load of a stream on the thread with the fewest streams.
    pub fn start(&self, stream: &Arc<Stream>) -> std::io::Result<Slot> {
        let load = |carrier: &Arc<Carrier>| carrier.lock().streams.iter().flatten().count();
        let carrier = (0..self.carriers.len())
            .min_by_key(|i| load(&self.carriers[*i]))
            .unwrap_or(0);
        let token = self.carriers[carrier].add(stream)?;
        Ok(Slot { carrier, token })
    }
    /// Stops the load of a stream.
    pub fn stop(&self, slot: Slot) {
        if let Some(carrier) = self.carriers.get(slot.carrier) {
            carrier.remove(slot.token);
        }
    }
    /// CPU time of all threads for load, ns.
    pub fn cpu(&self) -> u64 {
        self.carriers
            .iter()
            .map(|carrier| carrier.cpu.load(Relaxed))
            .sum()
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Carrier {
    fn lock(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn add(&self, stream: &Arc<Stream>) -> std::io::Result<u64> {
        let mut slots = self.lock();
        let at = slots
            .streams
            .iter()
            .position(Option::is_none)
            .unwrap_or_else(|| {
                slots.streams.push(None);
                slots.turns.push(0);
                slots.streams.len() - 1
            });
        slots.turns[at] = slots.turns[at].wrapping_add(1);
        let token = u64::from(slots.turns[at]) << 32 | at as u64;
        // A socket of datagrams is writable, so its flow has its first turn at once.
        let first = if stream.is_datagrams() {
            sys::WRITABLE
        } else {
            stream.events()
        };
        self.epoll.add(&stream.socket, first, token)?;
        slots.streams[at] = Some(Arc::clone(stream));
        Ok(token)
    }
    fn get(&self, token: u64) -> Option<Arc<Stream>> {
        self.lock().slot(token)?.clone()
    }
    fn remove(&self, token: u64) {
        // The entry is looked up and emptied under one lock, so that no other stream can take it in
        // between.
        let stream = self.lock().slot(token).and_then(Option::take);
        if let Some(stream) = stream {
            let _ = self.epoll.remove(&stream.socket);
        }
    }
    fn run(&self, stop: &AtomicBool) {
        sys::prefer_exact_timers();
        // Streams with a time: that of their next turn, their token, and whether their events are
        // disabled until then.
        let mut waiting: Vec<(u64, u64, bool)> = Vec::new();
        let mut due = Vec::new();
        while !stop.load(Relaxed) {
            let now = sys::monotonic();
            let next = waiting.iter().map(|(at, ..)| at.saturating_sub(now)).min();
            let Ok(events) = self.epoll.wait(next.unwrap_or(LONGEST).min(LONGEST)) else {
                // If this thread ended, its streams would stop without an error.
                std::thread::sleep(std::time::Duration::from_nanos(BRIEFLY));
                continue;
            };
            let now = sys::monotonic();
            due.clear();
            waiting.retain(|(at, token, disabled)| {
                if *at <= now {
                    due.push((*token, *disabled));
                }
                *at > now
            });
            for &(token, disabled) in &due {
                let Some(stream) = self.get(token) else {
                    continue;
                };
                if disabled {
                    let _ = self.epoll.change(&stream.socket, stream.events(), token);
                }
                // A TCP connection has its turn when its socket is ready.
                if stream.is_datagrams() {
                    self.turn(&stream, token, &mut waiting);
                }
            }
            for (events, token) in events {
                let Some(stream) = self.get(token) else {
                    continue;
                };
                let disabled = waiting
                    .iter()
                    .any(|(_, waits, disabled)| *waits == token && *disabled);
                if !stream.is_datagrams() && disabled && events & sys::BROKEN != 0 {
                    // The event of the failed connection would be reported again and again.
                    stream.state.store(BROKE, Relaxed);
                    self.remove(token);
                    continue;
                }
                if stream.is_datagrams() {
                    if events & sys::WRITABLE != 0 {
                        let _ = self.epoll.change(&stream.socket, stream.events(), token);
                    }
                    if due.iter().any(|(other, _)| *other == token) {
                        continue;
                    }
                }
                self.turn(&stream, token, &mut waiting);
            }
            self.cpu.store(sys::thread_cpu(), Relaxed);
        }
    }
    /// Lets a stream take its turn, and arranges its next one.
    fn turn(&self, stream: &Stream, token: u64, waiting: &mut Vec<(u64, u64, bool)>) {
        let next = stream.turn();
        waiting.retain(|(_, waits, _)| *waits != token);
        match next {
            Next::Until(u64::MAX) => {}
            Next::Until(at) => waiting.push((at, token, false)),
            Next::At(at) => {
                let _ = self.epoll.change(&stream.socket, 0, token);
                waiting.push((at, token, true));
            }
            Next::Stop => self.remove(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn a_budget_keeps_its_rate_and_saves_nothing_up() {
        let budget = Budget::new(Some(1_000_000), 5_000_000);
        assert_eq!(budget.may(0), May::Move);
        budget.took(0, 100_000);
        assert_eq!(budget.may(0), May::Wait(100_000_000));
        assert_eq!(budget.may(95_000_000), May::Move);
        // A second without data does not increase the budget.
        budget.took(1_100_000_000, 100_000);
        assert_eq!(budget.may(1_100_000_000), May::Wait(1_200_000_000));
        budget.took(1_200_000_000, 4_800_000);
        assert_eq!(budget.may(u64::MAX / 2), May::Stop);
    }

    #[test]
    fn a_budget_is_never_promised_twice() {
        let budget = Budget::new(None, 1000);
        assert_eq!(
            (budget.promise(600), budget.promise(600), budget.promise(1)),
            (600, 400, 0)
        );
        assert!(!budget.spent());
        budget.kept(0, 600, 100);
        assert_eq!((budget.moved(), budget.promise(600)), (100, 500));
        budget.kept(0, 500, 500);
        budget.kept(0, 400, 400);
        assert_eq!((budget.moved(), budget.may(0)), (1000, May::Stop));
    }

    #[test]
    fn what_a_sender_did_not_send_is_given_back() {
        let budget = Budget::new(None, 1000);
        let (mut one, mut other) = (Promised::new(&budget), Promised::new(&budget));
        assert_eq!((one.more(700), other.more(700), one.more(1)), (700, 300, 0));
        one.sent(0, 200);
        assert_eq!((budget.moved(), budget.spent()), (200, false));
        drop(one);
        assert_eq!(other.more(700), 500);
        // Bytes without a reservation, such as the head of a response, use up the rest.
        other.sent(0, 810);
        assert_eq!(
            (budget.moved(), other.more(1), budget.spent()),
            (1010, 0, true)
        );
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        (near.into(), far.into())
    }

    #[test]
    fn what_one_end_writes_the_other_reads_up_to_the_budget() {
        let carriers = Carriers::new().unwrap();
        let (near, far) = pair();
        let budget = Budget::new(None, 20 << 20);
        let out = Stream::new(near, Role::Sender, Arc::clone(&budget));
        let receiver = Stream::new(far, Role::Receiver, Budget::new(None, u64::MAX));
        carriers.start(&receiver).unwrap();
        carriers.start(&out).unwrap();
        let begin = Instant::now();
        while (!out.over() || receiver.moved() < out.moved())
            && begin.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(out.over() && !out.broken());
        assert_eq!(budget.moved(), 20 << 20);
        assert_eq!(receiver.moved(), out.moved());
    }

    #[test]
    fn who_was_stopped_moves_nothing_more() {
        let carriers = Carriers::new().unwrap();
        let (near, far) = pair();
        let out = Stream::new(near, Role::Sender, Budget::new(None, u64::MAX));
        let receiver = Stream::new(far, Role::Receiver, Budget::new(Some(1_000_000), u64::MAX));
        carriers.start(&receiver).unwrap();
        let slot = carriers.start(&out).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        carriers.stop(slot);
        std::thread::sleep(Duration::from_millis(20));
        let moved = out.moved();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(out.moved(), moved);
        // About 170 ms at 1 MB/s, plus what one turn may be ahead.
        assert!(receiver.moved() < 1_500_000, "{}", receiver.moved());
    }
}
