//! Limits of the far end: what one session, one source address and all of them together may use.
//!
//! Everything that this host sends for somebody is charged here, and nothing can be sent without:
//! the sockets of [`super::metered`] take a [`Permit`] or an [`Allowance`], which only this module
//! issues.
//!
//! - A *session* ([`Allowance`]) has passed the TCP handshake and, where one is required, the
//!   token. It is charged seats, bytes, rate, packets and memory, and it sends nothing once its
//!   client has shown no sign of life for [`SILENCE`].
//! - A *source* ([`Source`]) is an IPv4 address or the /64 of an IPv6 address. Its sessions,
//!   pending connections, new connections per second, memory and wrong tokens are counted together.
//!   Sessions are also counted by wider prefixes ([`super::shares`]).
//! - An *unvalidated source* of a datagram may be forged. It gets at most as many bytes as came
//!   from it (RFC 9000, section 8, allows three times as many), and a limited number of answers per
//!   second. A port that answers by itself gets none.
//!
//! Rates are token buckets in the form of the generic cell rate algorithm (ITU-T I.371): a bucket
//! is the time up to which it is used. Buckets of unvalidated sources lie in a table of fixed size
//! under a random key, so that forged addresses allocate nothing.

use super::limits::{
    BACKOFF, BURST, CREDIT, FREE_GUESSES, GONE, Limits, OBJECTS, PRIVILEGED, SILENCE, UNRECOGNISED,
};
use super::pending::Pending;
use super::shares::{Descriptors, Shares};
use super::source::Source;
use crate::measure::bulk::{self, May};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// ns.
const SECOND: u64 = 1_000_000_000;
/// Token buckets of unvalidated sources.
pub const BUCKETS: usize = 1 << 14;
/// Source addresses that are remembered while they have nothing open.
const ACCOUNTS: usize = 1 << 14;
/// From one removal of idle accounts to the next, ns.
const SWEEP: u64 = SECOND / 10;
/// A source is forgotten after so long without anything open and without a wrong token, ns.
const FORGET: u64 = 600 * SECOND;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes `cost` ns out of a bucket that may be ahead of time by `burst` ns.
fn take(used: &mut u64, now: u64, cost: u64, burst: u64) -> bool {
    let from = (*used).max(now);
    if from - now > burst {
        return false;
    }
    *used = from.saturating_add(cost);
    true
}

/// Why somebody is not admitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All seats are taken.
    Full,
    /// This address has as many sessions as one address may have.
    Address,
    /// A prefix of this address has as many sessions as one such prefix may have.
    Network,
    /// Too many wrong tokens came from this address; seconds until the next attempt.
    Backoff(u64),
}

impl Refused {
    /// For the client.
    pub fn text(self) -> String {
        match self {
            Refused::Full => "as many clients as allowed: try again later".into(),
            Refused::Address => {
                "as many clients of your address as allowed: try again later".into()
            }
            Refused::Network => {
                "as many clients of your network as allowed: try again later".into()
            }
            Refused::Backoff(s) => {
                format!("too many wrong tokens came from your address: try again in {s} s")
            }
        }
    }
}

/// What one source has in use.
#[derive(Debug, Default)]
struct Account {
    memory: u64,
    /// Bucket of new connections.
    new: u64,
    /// Wrong tokens in a row, and until when no other is looked at.
    wrong: u32,
    refused_until: u64,
    seen: u64,
}

impl Account {
    /// Whether wrong tokens would be forgotten with it that still count.
    fn waits(&self, now: u64) -> bool {
        self.refused_until > 0 && self.refused_until + BACKOFF.1 > now
    }
}

#[derive(Debug, Default)]
struct Table {
    of: HashMap<Source, Account>,
    clients: u64,
    seats: Shares,
    pending: Pending,
    /// Number of the last connection.
    id: u64,
    memory: u64,
    swept: u64,
}

impl Table {
    fn account(&mut self, source: Source, now: u64) -> &mut Account {
        if self.of.len() >= ACCOUNTS && !self.of.contains_key(&source) && now > self.swept + SWEEP {
            self.swept = now;
            self.sweep(now, SECOND);
        }
        let account = self.of.entry(source).or_default();
        account.seen = now;
        account
    }
    fn sweep(&mut self, now: u64, age: u64) {
        let seats = &self.seats;
        let open = |source: &Source, account: &Account| account.memory > 0 || seats.of(*source) > 0;
        self.of.retain(|source, account| {
            open(source, account) || account.waits(now) || account.seen + age > now
        });
        let waiting = self
            .of
            .iter()
            .filter(|(source, account)| account.waits(now) && !open(source, account));
        let waiting = waiting.map(|(_, account)| account);
        let mut until: Vec<u64> = waiting.map(|account| account.refused_until).collect();
        if until.len() > ACCOUNTS {
            // Those that have to wait for the longest are kept.
            let least = *until.select_nth_unstable_by(ACCOUNTS, |a, b| b.cmp(a)).1;
            self.of.retain(|source, account| {
                open(source, account) || !account.waits(now) || account.refused_until > least
            });
        }
    }
}

/// Of an unvalidated source.
#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    answers: u64,
    unrecognised: u64,
    /// Bytes that came and were not answered.
    credit: u32,
}

/// Everybody's use of the far end.
#[derive(Debug)]
pub struct Accounts {
    limits: Limits,
    table: Mutex<Table>,
    key: RandomState,
    buckets: Mutex<Vec<Bucket>>,
    /// UDP ports at which something here answers.
    ports: OnceLock<Vec<u16>>,
    descriptors: Arc<Descriptors>,
}

/// The right to send so many bytes in one datagram, once.
#[derive(PartialEq, Eq, Debug)]
pub struct Permit {
    bytes: usize,
}

impl Permit {
    /// Bytes that may be sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Accounts {
    /// Nobody has anything yet.
    pub fn new(limits: Limits) -> Arc<Accounts> {
        Arc::new(Accounts {
            limits,
            table: Mutex::default(),
            key: RandomState::new(),
            buckets: Mutex::new(vec![Bucket::default(); BUCKETS]),
            ports: OnceLock::new(),
            descriptors: Arc::default(),
        })
    }
    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Descriptors of connections.
    pub fn descriptors(&self) -> &Arc<Descriptors> {
        &self.descriptors
    }
    /// At these UDP ports something here answers: nothing is sent to such a port, lest two of them
    /// answer each other.
    pub fn answers_at(&self, ports: Vec<u16>) {
        let _ = self.ports.set(ports);
    }
    /// Whether a datagram from that port may be answered.
    pub fn answerable(&self, port: u16) -> bool {
        port >= PRIVILEGED && !self.ports.get().is_some_and(|own| own.contains(&port))
    }
    /// The place of a source in tables of [`BUCKETS`] places.
    pub fn bucket(&self, ip: IpAddr) -> usize {
        self.key.hash_one(Source::from(ip)) as usize % BUCKETS
    }
    /// A permit to answer an unvalidated source that sent `asked` bytes with `answer` bytes.
    /// `recognised`: the datagram is a question of a known protocol, which no answer of this
    /// host is.
    pub fn reply(
        &self,
        to: SocketAddr,
        asked: usize,
        answer: usize,
        recognised: bool,
        now: u64,
    ) -> Option<Permit> {
        if !self.answerable(to.port()) {
            return None;
        }
        let at = self.bucket(to.ip());
        let mut buckets = lock(&self.buckets);
        let bucket = &mut buckets[at];
        let (rate, used) = if recognised {
            (self.limits.packets, &mut bucket.answers)
        } else {
            (
                UNRECOGNISED.min(self.limits.packets),
                &mut bucket.unrecognised,
            )
        };
        if !take(used, now, SECOND / rate.max(1), BURST) {
            return None;
        }
        let credit = bucket.credit.saturating_add(asked as u32);
        if (credit as usize) < answer {
            bucket.credit = credit.min(CREDIT);
            return None;
        }
        bucket.credit = (credit - answer as u32).min(CREDIT);
        Some(Permit { bytes: answer })
    }
    /// A connection has been accepted: its number, or `None` where its source makes more of them
    /// than one may.
    pub(super) fn connected(&self, source: Source, now: u64) -> Option<u64> {
        let mut table = lock(&self.table);
        let (rate, burst) = self.limits.new_connections;
        let (cost, account) = (SECOND / rate.max(1), table.account(source, now));
        if !take(&mut account.new, now, cost, burst * cost) {
            return None;
        }
        table.id += 1;
        let id = table.id;
        table.pending.insert(source, id);
        Some(id)
    }
    /// A pending connection was admitted or closed.
    pub(super) fn settled(&self, source: Source, id: u64) {
        lock(&self.table).pending.remove(source, id);
    }
    /// The session of a connection has ended: it is pending again until it is closed.
    pub(super) fn unsettled(&self, source: Source, id: u64) {
        lock(&self.table).pending.insert(source, id);
    }
    /// The pending connection that has to be closed, where this source or all together have too
    /// many.
    pub fn crowded(&self, source: Source) -> Option<u64> {
        let pending = &lock(&self.table).pending;
        let own = pending.of(source);
        let own = own.filter(|(n, _)| *n > self.limits.pending_per_address());
        let all = || {
            pending
                .first()
                .filter(|_| pending.len() > self.limits.pending())
        };
        own.map(|(_, oldest)| oldest).or_else(all)
    }
    /// The pending connection that is closed where one has to be.
    pub fn least_wanted(&self) -> Option<u64> {
        lock(&self.table).pending.first()
    }
    /// Whether a wrong token of this source would be looked at now.
    pub fn may_guess(&self, ip: IpAddr, now: u64) -> Result<(), Refused> {
        let mut table = lock(&self.table);
        let account = table.account(ip.into(), now);
        match account.refused_until.saturating_sub(now) {
            0 => Ok(()),
            ns => Err(Refused::Backoff(ns.div_ceil(SECOND))),
        }
    }
    /// A token was right or wrong.
    pub fn guessed(&self, ip: IpAddr, right: bool, now: u64) {
        let mut table = lock(&self.table);
        let account = table.account(ip.into(), now);
        if right {
            (account.wrong, account.refused_until) = (0, 0);
            return;
        }
        account.wrong = account.wrong.saturating_add(1);
        if let Some(n) = account.wrong.checked_sub(FREE_GUESSES) {
            let wait = BACKOFF
                .0
                .checked_shl(n.min(20))
                .unwrap_or(BACKOFF.1)
                .min(BACKOFF.1);
            account.refused_until = now + wait;
        }
    }
    /// Whether there is a seat for one more session of this source.
    pub fn room(&self, ip: IpAddr, now: u64) -> Result<(), Refused> {
        let mut table = lock(&self.table);
        let source = Source::from(ip);
        table.account(source, now);
        let most = self.limits.seats();
        if table.clients >= self.limits.clients {
            return Err(Refused::Full);
        }
        if table.seats.of(source) >= self.limits.per_address() {
            return Err(Refused::Address);
        }
        if !table.seats.has_room(source, most) {
            return Err(Refused::Network);
        }
        Ok(())
    }
    /// One more session of this source.
    pub fn admit(self: &Arc<Self>, ip: IpAddr, now: u64) -> Result<Arc<Allowance>, Refused> {
        self.room(ip, now)?;
        let source = Source::from(ip);
        {
            let mut table = lock(&self.table);
            table.clients += 1;
            table.seats.add(source);
        }
        let load = bulk::Budget::watched(
            self.limits.rate.map(|rate| rate.as_bit() / 8),
            self.limits.bytes.get(),
        );
        let allowance = Allowance {
            accounts: Arc::clone(self),
            source,
            ip,
            load,
            rates: Mutex::default(),
            objects: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            senders: AtomicU64::new(0),
            progress: AtomicU64::new(now),
            over: AtomicBool::new(false),
        };
        allowance.alive(now);
        Ok(Arc::new(allowance))
    }
    /// Sessions now.
    pub fn clients(&self) -> u64 {
        lock(&self.table).clients
    }
    /// Forgets sources that have had nothing open for long.
    pub fn sweep(&self, now: u64) {
        let mut table = lock(&self.table);
        if now > table.swept + SECOND {
            table.swept = now;
            table.sweep(now, FORGET);
        }
    }
}

/// Buckets of a session.
#[derive(Debug, Default)]
struct Rates {
    packets: u64,
    answers: u64,
    datagrams: u64,
}

/// What one session may use. Its seat is free again when it ends.
#[derive(Debug)]
pub struct Allowance {
    accounts: Arc<Accounts>,
    source: Source,
    ip: IpAddr,
    load: Arc<bulk::Budget>,
    rates: Mutex<Rates>,
    objects: AtomicU64,
    memory: AtomicU64,
    /// TCP streams of this host that send.
    senders: AtomicU64,
    /// When its client last acknowledged or sent some of a TCP load, ns of the even clock.
    progress: AtomicU64,
    over: AtomicBool,
}

/// How many datagrams may leave now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Datagrams {
    /// So many.
    Send(usize),
    /// None before this time, ns of the even clock.
    Wait(u64),
    /// None any more.
    Stop,
}

impl Allowance {
    /// Whose it is.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }
    /// Bytes and rate of TCP load, which the threads for load obey.
    pub fn load(&self) -> &Arc<bulk::Budget> {
        &self.load
    }
    /// Its client was heard at that time, ns of the even clock.
    pub fn alive(&self, at: u64) {
        self.load.alive(at + SILENCE);
    }
    /// One more of its TCP streams sends, or one less.
    pub(super) fn sends(&self, more: bool) {
        if more {
            self.senders.fetch_add(1, Relaxed);
        } else {
            self.senders.fetch_sub(1, Relaxed);
        }
    }
    /// Its client has acknowledged or sent some of a TCP load, or begins one.
    pub(super) fn progressed(&self, now: u64) {
        self.progress.fetch_max(now, Relaxed);
    }
    /// Nothing of its TCP load has been acknowledged or has come for [`GONE`].
    pub fn stalled(&self, now: u64) -> bool {
        now > self.progress.load(Relaxed) + GONE
    }
    /// It sends to a client that reads nothing; [`crate::serve::listener`] ends it.
    pub fn stuck(&self, now: u64) -> bool {
        self.senders.load(Relaxed) > 0 && self.stalled(now)
    }
    /// Nothing is left, or it has ended.
    pub fn spent(&self) -> bool {
        self.over.load(Relaxed) || self.load.spent()
    }
    /// A permit to answer a datagram of the session with as many bytes; the datagram is a sign of
    /// life.
    pub fn answer(&self, bytes: usize, now: u64) -> Option<Permit> {
        if self.spent() {
            return None;
        }
        let limits = self.accounts.limits();
        let mut rates = lock(&self.rates);
        // The load of a session uses its rate up to the last byte; answers beside it are refused
        // only where they alone exceed it.
        let cost = limits
            .rate
            .map_or(0, |rate| bytes as u64 * 8 * SECOND / rate.as_bit().max(1));
        if !take(
            &mut rates.packets,
            now,
            SECOND / limits.packets.max(1),
            BURST,
        ) || !take(&mut rates.answers, now, cost, BURST)
        {
            return None;
        }
        drop(rates);
        self.alive(now);
        self.load.took(now, bytes as u64);
        Some(Permit { bytes })
    }
    /// A datagram of the session that gets no answer has come: a sign of life, and it is charged.
    pub fn heard(&self, bytes: usize, now: u64) {
        self.alive(now);
        self.load.took(now, bytes as u64);
    }
    /// How many of `wanted` datagrams of `len` bytes may leave without a question.
    pub fn datagrams(&self, wanted: usize, len: usize, now: u64) -> Datagrams {
        if self.spent() {
            return Datagrams::Stop;
        }
        match self.load.may_send(now) {
            May::Move => {}
            May::Wait(until) => return Datagrams::Wait(until),
            May::Stop => return Datagrams::Stop,
        }
        let limits = self.accounts.limits();
        let rate = limits.udp_rate.as_bit().max(1);
        // Small datagrams cost what a packet costs, large ones what their bytes cost.
        let cost = (len as u64 * 8 * SECOND / rate).max(SECOND / limits.udp_packets.max(1));
        let most = (self.load.chunk() / len.max(1)).clamp(1, wanted.max(1));
        let mut rates = lock(&self.rates);
        let mut n = 0;
        while n < most && take(&mut rates.datagrams, now, cost, cost.max(5_000_000)) {
            n += 1;
        }
        if n == 0 {
            return Datagrams::Wait(
                rates
                    .datagrams
                    .saturating_sub(cost.max(5_000_000))
                    .max(now + 1),
            );
        }
        Datagrams::Send(n)
    }
    /// One more connection for objects of pages.
    pub(super) fn add_object(&self) -> bool {
        let more = |n: u64| (n < OBJECTS).then_some(n + 1);
        !self.spent() && self.objects.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
    pub(super) fn remove_object(&self) {
        self.objects.fetch_sub(1, Relaxed);
    }
    /// Charges memory of one of its sockets instead of what was charged for it before. Where the
    /// session's address or all sessions together hold more than allowed, its senders wait
    /// until they do not.
    pub fn hold(&self, charged: &mut u64, bytes: u64) {
        let before = std::mem::replace(charged, bytes);
        self.memory.fetch_add(bytes, Relaxed);
        self.memory.fetch_sub(before, Relaxed);
        let limit = self.accounts.limits().memory.get();
        let mut table = lock(&self.accounts.table);
        table.memory = (table.memory + bytes).saturating_sub(before);
        let all = table.memory;
        let Some(account) = table.of.get_mut(&self.source) else {
            return;
        };
        account.memory = (account.memory + bytes).saturating_sub(before);
        self.load.hold(all > limit || account.memory > limit / 2);
    }
    /// The session has ended: it sends nothing any more, and its seat is free.
    pub fn end(&self) {
        if self.over.swap(true, Relaxed) {
            return;
        }
        self.load.stop();
        let mut table = lock(&self.accounts.table);
        table.clients = table.clients.saturating_sub(1);
        table.seats.remove(self.source);
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
