//! Accounts of the server: they limit what one session, one source address and all of them together
//! use.
//!
//! Everything that the server sends is charged to an account. The sockets of [`super::metered`]
//! require a [`Permit`] or an [`Allowance`], which only this module issues.
//!
//! - A *session* ([`Allowance`]) belongs to a client that has completed the TCP handshake and,
//!   where one is required, proved that it knows the token. A session is charged a seat, bytes,
//!   rate, packets and memory. The server sends nothing for it once its client has shown no sign of
//!   life for [`SILENCE`]. If all memory is in use, each source may have an equal share. A session
//!   that exceeds its share for [`GONE`] is ended.
//! - A *source* ([`Source`]) is an IPv4 address or the /64 of an IPv6 address. Its sessions,
//!   pending connections, new connections per second, memory and wrong tokens are counted together.
//!   Sessions are also counted by wider prefixes ([`super::shares`]).
//! - An *unvalidated source* of a datagram may be forged. It is sent at most as many bytes as came
//!   from it, and a limited number of answers per second. (RFC 9000, section 8, allows three times
//!   as many bytes.) Ports below 1024, and the UDP ports at which this server answers, are sent
//!   none: services at them might answer the answer.
//!
//! Rates are token buckets in the form of the generic cell rate algorithm (ITU-T I.371). The state
//! of a bucket is one time, up to which its rate is used. Buckets of unvalidated sources are
//! entries of a table of fixed size, selected by a hash with a random key. So forged addresses
//! allocate nothing.

use super::limits::{
    BACKOFF, BURST, CREDIT, FREE_GUESSES, GONE, Limits, OBJECTS, PRIVILEGED, SILENCE, UNRECOGNISED,
};
use super::pending::Pending;
use super::shares::{Descriptors, Shares};
use super::source::Source;
use crate::measure::bulk::{self, May};
use portable_atomic::AtomicU64;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One second, ns.
const SECOND: u64 = 1_000_000_000;
/// Number of token buckets of unvalidated sources.
pub const BUCKETS: usize = 1 << 14;
/// Largest number of sources that are remembered without open sessions and connections.
const ACCOUNTS: usize = 1 << 14;
/// Interval between two removals of idle sources, ns.
const SWEEP: u64 = SECOND / 10;
/// Time after which a source without open connections and wrong tokens is forgotten, ns.
const FORGET: u64 = 600 * SECOND;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Charges `cost` ns to a bucket. Returns `false`, without a charge, if the bucket is more than
/// `burst` ns ahead of `now`.
fn take(used: &mut u64, now: u64, cost: u64, burst: u64) -> bool {
    let from = (*used).max(now);
    if from - now > burst {
        return false;
    }
    *used = from.saturating_add(cost);
    true
}

/// Reason why a session is not admitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All seats are taken.
    Full,
    /// The source address has as many sessions as it may have.
    Address,
    /// A prefix of the source address has as many sessions as it may have.
    Network,
    /// Too many wrong tokens came from the address; seconds until the next attempt.
    Backoff(u64),
}

impl Refused {
    /// The message for the client.
    pub fn text(self) -> String {
        match self {
            Refused::Full => "too many clients: try again later".into(),
            Refused::Address => "too many clients of your address: try again later".into(),
            Refused::Network => "too many clients of your network: try again later".into(),
            Refused::Backoff(s) => {
                format!("too many wrong tokens came from your address: try again in {s} s")
            }
        }
    }
}

/// The resources that one source uses.
#[derive(Debug, Default)]
struct Account {
    memory: u64,
    /// Token bucket of new connections, ns of the monotonic clock.
    new: u64,
    /// Number of consecutive wrong tokens, and the time (ns) until which no other token is checked.
    wrong: u32,
    refused_until: u64,
    seen: u64,
}

impl Account {
    /// Whether the source must be remembered, because its wrong tokens still lengthen the next
    /// wait.
    fn waits(&self, now: u64) -> bool {
        self.refused_until > 0 && self.refused_until + BACKOFF.1 > now
    }
}

/// Result of a charge of memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Held {
    /// Whether the source uses more than its share, so that its senders must wait.
    waits: bool,
    /// The share of each session of the source, bytes.
    session: u64,
}

#[derive(Debug, Default)]
struct Table {
    of: HashMap<Source, Account>,
    clients: u64,
    seats: Shares,
    pending: Pending,
    /// Number of the last accepted connection.
    id: u64,
    memory: u64,
    swept: u64,
    /// Number of sources that are charged memory.
    holders: u64,
}

impl Table {
    /// Replaces a charge of `before` bytes of memory by `bytes`, and compares the source with its
    /// share. The share of a source is half of the limit. If all sources together exceed the limit,
    /// it is an equal part of the limit.
    fn hold(&mut self, source: Source, before: u64, bytes: u64, limit: u64) -> Held {
        self.memory = (self.memory + bytes).saturating_sub(before);
        let Some(account) = self.of.get_mut(&source) else {
            return Held::default();
        };
        let had = account.memory;
        account.memory = (had + bytes).saturating_sub(before);
        let has = account.memory;
        self.holders = self.holders + u64::from(has > 0) - u64::from(had > 0);
        let share = if self.memory > limit {
            (limit / self.holders.max(1)).min(limit / 2)
        } else {
            limit / 2
        };
        Held {
            waits: has > share,
            session: share / self.seats.of(source).max(1),
        }
    }
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
            // Of the sources that must wait, those with the longest waits are kept.
            let least = *until.select_nth_unstable_by(ACCOUNTS, |a, b| b.cmp(a)).1;
            self.of.retain(|source, account| {
                open(source, account) || !account.waits(now) || account.refused_until > least
            });
        }
    }
}

/// State of an unvalidated source.
#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    answers: u64,
    unrecognised: u64,
    /// Received bytes that have not been answered yet.
    credit: u32,
}

/// The accounts of all clients.
#[derive(Debug)]
pub struct Accounts {
    limits: Limits,
    table: Mutex<Table>,
    key: RandomState,
    buckets: Mutex<Vec<Bucket>>,
    /// UDP ports at which this server answers.
    ports: OnceLock<Vec<u16>>,
    descriptors: Arc<Descriptors>,
}

/// The right to send one datagram of at most this size.
#[derive(PartialEq, Eq, Debug)]
pub struct Permit {
    bytes: usize,
}

impl Permit {
    /// Largest size of the datagram, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Accounts {
    /// Accounts with these limits, without clients.
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
    /// The file descriptors of connections, by source.
    pub fn descriptors(&self) -> &Arc<Descriptors> {
        &self.descriptors
    }
    /// Sets the UDP ports at which this server answers. A datagram from such a port gets no answer,
    /// so that two responders do not answer each other.
    pub fn answers_at(&self, ports: Vec<u16>) {
        let _ = self.ports.set(ports);
    }
    /// Whether a datagram from that source port may be answered.
    pub fn answerable(&self, port: u16) -> bool {
        port >= PRIVILEGED && !self.ports.get().is_some_and(|own| own.contains(&port))
    }
    /// The index of a source in tables of [`BUCKETS`] entries.
    pub fn bucket(&self, ip: IpAddr) -> usize {
        self.key.hash_one(Source::from(ip)) as usize % BUCKETS
    }
    /// A permit to send an answer of `answer` bytes to an unvalidated source, which sent a datagram
    /// of `asked` bytes. `recognised`: the datagram is a question of a known protocol, so it cannot
    /// be an answer of another responder.
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
    /// Counts an accepted connection as pending and returns its number; `None` if its source opens
    /// connections too fast.
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
    /// Records that a pending connection was admitted or closed.
    pub(super) fn settled(&self, source: Source, id: u64) {
        lock(&self.table).pending.remove(source, id);
    }
    /// Records that the session of a connection has ended. The connection counts as pending until
    /// it is closed.
    pub(super) fn unsettled(&self, source: Source, id: u64) {
        lock(&self.table).pending.insert(source, id);
    }
    /// Number of the pending connection to close, if this source or all sources together have too
    /// many; otherwise `None`.
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
    /// Number of the pending connection to close first, if there is one.
    pub fn least_wanted(&self) -> Option<u64> {
        lock(&self.table).pending.first()
    }
    /// Fails if the source must wait before its next token is checked.
    pub fn may_guess(&self, ip: IpAddr, now: u64) -> Result<(), Refused> {
        let mut table = lock(&self.table);
        let account = table.account(ip.into(), now);
        match account.refused_until.saturating_sub(now) {
            0 => Ok(()),
            ns => Err(Refused::Backoff(ns.div_ceil(SECOND))),
        }
    }
    /// Records whether the source sent a right or a wrong token.
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
    /// Checks whether one more session of this source may be admitted; the error is the reason
    /// against it.
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
    /// Admits one more session of this source.
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
            exceeds: AtomicU64::new(u64::MAX),
            over: AtomicBool::new(false),
        };
        allowance.alive(now);
        Ok(Arc::new(allowance))
    }
    /// Number of sessions.
    pub fn clients(&self) -> u64 {
        lock(&self.table).clients
    }
    /// Forgets idle sources: those without a session and memory that were last seen more than
    /// `FORGET` ago. It acts at most once per second.
    pub fn sweep(&self, now: u64) {
        let mut table = lock(&self.table);
        if now > table.swept + SECOND {
            table.swept = now;
            table.sweep(now, FORGET);
        }
    }
}

/// Token buckets of a session, ns of the monotonic clock.
#[derive(Debug, Default)]
struct Rates {
    packets: u64,
    answers: u64,
    datagrams: u64,
}

/// The limits and use of one session. Dropping it frees its seat.
#[derive(Debug)]
pub struct Allowance {
    accounts: Arc<Accounts>,
    source: Source,
    ip: IpAddr,
    load: Arc<bulk::Budget>,
    rates: Mutex<Rates>,
    objects: AtomicU64,
    memory: AtomicU64,
    /// Number of TCP streams of the session on which this host sends.
    senders: AtomicU64,
    /// Time at which the client last acknowledged or sent data of a TCP load, ns of the monotonic
    /// clock.
    progress: AtomicU64,
    /// Time since which the session has used more memory than its share while its senders wait, ns;
    /// `u64::MAX` if it does not.
    exceeds: AtomicU64,
    over: AtomicBool,
}

/// The number of datagrams that a session may send now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Datagrams {
    /// This many.
    Send(usize),
    /// None before this time, ns of the monotonic clock.
    Wait(u64),
    /// None any more: the session has ended or used up a limit.
    Stop,
}

impl Allowance {
    /// The address of the session's client.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }
    /// The budget of bytes and rate of the session's TCP load. The threads for load observe it.
    pub fn load(&self) -> &Arc<bulk::Budget> {
        &self.load
    }
    /// Records that the client was heard at that time, ns of the monotonic clock.
    pub fn alive(&self, at: u64) {
        self.load.alive(at + SILENCE);
    }
    /// Adds (`more`) or removes one TCP stream on which this host sends.
    pub(super) fn sends(&self, more: bool) {
        if more {
            self.senders.fetch_add(1, Relaxed);
        } else {
            self.senders.fetch_sub(1, Relaxed);
        }
    }
    /// Records that the client has acknowledged or sent data of a TCP load, or starts one.
    pub(super) fn progressed(&self, now: u64) {
        self.progress.fetch_max(now, Relaxed);
    }
    /// Whether the TCP load has made no progress for [`GONE`].
    pub fn stalled(&self, now: u64) -> bool {
        now > self.progress.load(Relaxed) + GONE
    }
    /// Whether the session must end. It must if it sends to a client that has acknowledged nothing
    /// for [`GONE`], or if it has exceeded its share of memory for [`GONE`].
    /// [`crate::serve::listener`] then ends it.
    pub fn stuck(&self, now: u64) -> bool {
        let exceeds = self.exceeds.load(Relaxed).saturating_add(GONE) < now;
        exceeds || self.senders.load(Relaxed) > 0 && self.stalled(now)
    }
    /// Whether the session has used up its limit of bytes or has ended.
    pub fn spent(&self) -> bool {
        self.over.load(Relaxed) || self.load.spent()
    }
    /// A permit to answer a datagram of the session by one of the same size, `bytes`; `None` if a
    /// limit is reached. The datagram shows that the client is alive.
    pub fn answer(&self, bytes: usize, now: u64) -> Option<Permit> {
        if self.spent() {
            return None;
        }
        let limits = self.accounts.limits();
        let mut rates = lock(&self.rates);
        // The load of a session may use its whole rate. Answers are counted separately, and are
        // refused only if they alone exceed the rate.
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
    /// Charges a received datagram of the session that gets no answer. The datagram shows that the
    /// client is alive.
    pub fn heard(&self, bytes: usize, now: u64) {
        self.alive(now);
        self.load.took(now, bytes as u64);
    }
    /// How many of `wanted` datagrams of `len` bytes the session may send now. These are datagrams
    /// of UDP load, which answer no question.
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
        // Small datagrams are limited by the number of packets per second, large ones by the bit
        // rate.
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
    /// Counts one more connection for objects of pages; `false` if the session may not have one.
    pub(super) fn add_object(&self) -> bool {
        let more = |n: u64| (n < OBJECTS).then_some(n + 1);
        !self.spent() && self.objects.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
    pub(super) fn remove_object(&self) {
        self.objects.fetch_sub(1, Relaxed);
    }
    /// Replaces the charge of one socket of the session, bytes of memory. If the source exceeds its
    /// share, the senders of this session wait. A session that uses more than its part of this
    /// share for [`GONE`] is [`stuck`](Self::stuck).
    pub fn hold(&self, charged: &mut u64, bytes: u64, now: u64) {
        let before = std::mem::replace(charged, bytes);
        let had = self.memory.fetch_add(bytes, Relaxed);
        self.memory.fetch_sub(before, Relaxed);
        let limit = self.accounts.limits().memory.get();
        let held = lock(&self.accounts.table).hold(self.source, before, bytes, limit);
        self.load.hold(held.waits);
        if held.waits && (had + bytes).saturating_sub(before) > held.session {
            self.exceeds.fetch_min(now, Relaxed);
        } else {
            self.exceeds.store(u64::MAX, Relaxed);
        }
    }
    /// Ends the charge of one socket of the session.
    pub fn release(&self, charged: &mut u64) {
        self.hold(charged, 0, u64::MAX);
    }
    /// Ends the session: it sends nothing more, and its seat is free.
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
