//! Limits of the far end: what one session, one source address and all of them together may use.
//!
//! Everything that this host sends for somebody is charged here, and nothing can be sent without: the sockets of [`super::metered`]
//! take a [`Permit`] or an [`Allowance`], which only this module issues.
//!
//! - A *session* ([`Allowance`]) has passed the TCP handshake and, where one is required, the token. It is charged seats, bytes,
//!   rate, packets and memory, and it sends nothing once its client has shown no sign of life for [`SILENCE`].
//! - A *source* ([`Source`]) is an IPv4 address or the /64 of an IPv6 address. Its sessions, pending connections, new connections
//!   per second, memory and wrong tokens are counted together.
//! - An *unvalidated source* of a datagram may be forged. It gets at most as many bytes as came from it (RFC 9000, section 8, allows
//!   three times as many), and a limited number of answers per second. A port that answers by itself gets none.
//!
//! Rates are token buckets in the form of the generic cell rate algorithm (ITU-T I.371): a bucket is the time up to which it is
//! used. Buckets of unvalidated sources lie in a table of fixed size under a random key, so that forged addresses allocate nothing.

use super::limits::{Limits, BACKOFF, BURST, CREDIT, FREE_GUESSES, OBJECTS, PRIVILEGED, SILENCE, UNRECOGNISED};
use crate::bulk::{self, May};
use std::collections::hash_map::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// ns.
const SECOND: u64 = 1_000_000_000;
/// Token buckets of unvalidated sources.
const BUCKETS: usize = 1 << 14;
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

/// A source address as limits see it: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source(u128);

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Source {
        match ip.to_canonical() {
            IpAddr::V4(v4) => Source(u128::from(v4.to_ipv6_mapped())),
            IpAddr::V6(v6) => Source(u128::from(v6) >> 64 << 64),
        }
    }
}

/// Why somebody is not admitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All seats are taken.
    Full,
    /// This address has as many sessions as one address may have.
    Address,
    /// Too many wrong tokens came from this address; seconds until the next attempt.
    Backoff(u64),
}

impl Refused {
    /// For the client.
    pub fn text(self) -> String {
        match self {
            Refused::Full => "as many clients as allowed: try again later".into(),
            Refused::Address => "as many clients of your address as allowed: try again later".into(),
            Refused::Backoff(s) => format!("too many wrong tokens came from your address: try again in {s} s"),
        }
    }
}

/// What one source has in use.
#[derive(Debug, Default)]
struct Account {
    clients: u64,
    pending: usize,
    memory: u64,
    /// Bucket of new connections.
    new: u64,
    /// Wrong tokens in a row, and until when no other is looked at.
    wrong: u32,
    refused_until: u64,
    seen: u64,
}

#[derive(Debug, Default)]
struct Table {
    of: HashMap<Source, Account>,
    clients: u64,
    pending: usize,
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
        let open = |account: &Account| account.clients > 0 || account.pending > 0 || account.memory > 0;
        self.of.retain(|_, account| open(account) || account.seen + age > now);
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
        })
    }
    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// At these UDP ports something here answers: nothing is sent to such a port, lest two of them answer each other.
    pub fn answers_at(&self, ports: Vec<u16>) {
        let _ = self.ports.set(ports);
    }
    /// Whether a datagram from that port may be answered.
    pub fn answerable(&self, port: u16) -> bool {
        port >= PRIVILEGED && !self.ports.get().is_some_and(|own| own.contains(&port))
    }
    /// A permit to answer an unvalidated source that sent `asked` bytes with `answer` bytes. `recognised`: the datagram is a question
    /// of a known protocol, which no answer is.
    pub fn reply(&self, to: SocketAddr, asked: usize, answer: usize, recognised: bool, now: u64) -> Option<Permit> {
        if !self.answerable(to.port()) {
            return None;
        }
        let at = self.key.hash_one(Source::from(to.ip())) as usize % BUCKETS;
        let mut buckets = lock(&self.buckets);
        let bucket = &mut buckets[at];
        let (rate, used) = if recognised {
            (self.limits.packets, &mut bucket.answers)
        } else {
            (UNRECOGNISED.min(self.limits.packets), &mut bucket.unrecognised)
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
    /// A connection has been accepted; false: its source makes more of them than one may.
    pub(super) fn connected(&self, source: Source, now: u64) -> bool {
        let mut table = lock(&self.table);
        let (rate, burst) = self.limits.new_connections;
        let account = table.account(source, now);
        if !take(
            &mut account.new,
            now,
            SECOND / rate.max(1),
            burst * SECOND / rate.max(1),
        ) {
            return false;
        }
        account.pending += 1;
        table.pending += 1;
        true
    }
    /// A pending connection was admitted or closed.
    pub(super) fn settled(&self, source: Source) {
        let mut table = lock(&self.table);
        table.pending = table.pending.saturating_sub(1);
        if let Some(account) = table.of.get_mut(&source) {
            account.pending = account.pending.saturating_sub(1);
        }
    }
    /// The session of a connection has ended: it is pending again until it is closed.
    pub(super) fn unsettled(&self, source: Source) {
        let mut table = lock(&self.table);
        table.pending += 1;
        table.of.entry(source).or_default().pending += 1;
    }
    /// Who has too many pending connections: this source, or whichever has most of them.
    pub fn crowded(&self, source: Source) -> Option<Source> {
        let table = lock(&self.table);
        let mine = table.of.get(&source).map_or(0, |account| account.pending);
        if mine > self.limits.pending_per_address() {
            return Some(source);
        }
        let most = table
            .of
            .iter()
            .max_by_key(|(source, account)| (account.pending, **source));
        most.filter(|_| table.pending > self.limits.pending())
            .map(|(source, _)| *source)
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
        if let Some(n) = account.wrong.checked_sub(FREE_GUESSES + 1) {
            let wait = BACKOFF.0.checked_shl(n.min(20)).unwrap_or(BACKOFF.1).min(BACKOFF.1);
            account.refused_until = now + wait;
        }
    }
    /// Whether there is a seat for one more session of this source.
    pub fn room(&self, ip: IpAddr, now: u64) -> Result<(), Refused> {
        let mut table = lock(&self.table);
        let mine = table.account(ip.into(), now).clients;
        if table.clients >= self.limits.clients {
            return Err(Refused::Full);
        }
        if mine >= self.limits.per_address() {
            return Err(Refused::Address);
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
            table.account(source, now).clients += 1;
        }
        let load = bulk::Budget::watched(self.limits.rate.map(|rate| rate.as_bit() / 8), self.limits.bytes.get());
        let allowance = Allowance {
            accounts: Arc::clone(self),
            source,
            ip,
            load,
            rates: Mutex::default(),
            objects: AtomicU64::new(0),
            memory: AtomicU64::new(0),
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
    /// Nothing is left, or it has ended.
    pub fn spent(&self) -> bool {
        self.over.load(Relaxed) || self.load.spent()
    }
    /// A permit to answer a datagram of the session with as many bytes; the datagram is a sign of life.
    pub fn answer(&self, bytes: usize, now: u64) -> Option<Permit> {
        if self.spent() {
            return None;
        }
        let limits = self.accounts.limits();
        let mut rates = lock(&self.rates);
        // The load of a session uses its rate up to the last byte; answers beside it are refused only where they alone exceed it.
        let cost = limits
            .rate
            .map_or(0, |rate| bytes as u64 * 8 * SECOND / rate.as_bit().max(1));
        if !take(&mut rates.packets, now, SECOND / limits.packets.max(1), BURST)
            || !take(&mut rates.answers, now, cost, BURST)
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
        let rate = self.accounts.limits().udp_rate.as_bit().max(1);
        let cost = (len as u64 * 8 * SECOND / rate).max(1);
        let most = (self.load.chunk() / len.max(1)).clamp(1, wanted.max(1));
        let mut rates = lock(&self.rates);
        let mut n = 0;
        while n < most && take(&mut rates.datagrams, now, cost, cost.max(5_000_000)) {
            n += 1;
        }
        if n == 0 {
            return Datagrams::Wait(rates.datagrams.saturating_sub(cost.max(5_000_000)).max(now + 1));
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
    /// Charges memory of one of its sockets instead of what was charged for it before. Where the session's address or all sessions
    /// together hold more than allowed, its senders wait until they do not.
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
        if let Some(account) = table.of.get_mut(&self.source) {
            account.clients = account.clients.saturating_sub(1);
        }
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::PENDING_OF_ADDRESS;
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_unvalidated_source_gets_no_more_than_it_sent_and_so_often() {
        let accounts = Accounts::new(Limits {
            packets: 1000,
            ..Limits::default()
        });
        accounts.answers_at(vec![8620]);
        let (to, now) = (at("192.0.2.1:4000"), SECOND);
        assert_eq!(accounts.reply(to, 22, 30, true, now), None);
        assert_eq!(accounts.reply(to, 22, 30, true, now), Some(Permit { bytes: 30 }));
        assert_eq!(accounts.reply(to, 10, 30, true, now), None);
        // Ports that answer by themselves.
        for port in [53, 862, 8620] {
            assert_eq!(accounts.reply(SocketAddr::new(to.ip(), port), 64, 64, true, now), None);
        }
        // 100 ms ahead at most, and then as many as the rate has.
        let other = at("[2001:db8::1]:4000");
        let count = |to, now| {
            (0..500)
                .filter(|_| accounts.reply(to, 64, 64, true, now).is_some())
                .count()
        };
        assert_eq!(count(other, now), 101);
        // The same /64.
        assert_eq!(count(at("[2001:db8::2]:4001"), now), 0);
        assert_eq!(count(other, now + SECOND / 2), 101);
        let plain = (0..500).filter(|_| accounts.reply(other, 64, 64, false, now).is_some());
        assert_eq!(plain.count(), 11);
    }

    #[test]
    fn pending_connections_of_one_address_crowd_out_only_their_own() {
        let accounts = Accounts::new(Limits::default());
        let (crowd, one) = (
            Source::from(at("192.0.2.1:1").ip()),
            Source::from(at("192.0.2.2:1").ip()),
        );
        for _ in 0..PENDING_OF_ADDRESS {
            assert!(accounts.connected(crowd, 5));
            assert_eq!(accounts.crowded(crowd), None);
        }
        assert!(accounts.connected(crowd, 5) && accounts.connected(one, 5));
        assert_eq!((accounts.crowded(crowd), accounts.crowded(one)), (Some(crowd), None));
        // 1024 at once, then 256 in a second.
        let mut more = (0..5000).filter(|_| accounts.connected(crowd, 5)).count() + PENDING_OF_ADDRESS + 1;
        assert!((1024..=1026).contains(&more), "{more}");
        more = (0..5000).filter(|_| accounts.connected(crowd, 5 + SECOND)).count();
        assert!((255..=257).contains(&more), "{more}");
        assert!(accounts.connected(one, 5));
    }

    #[test]
    fn a_wrong_token_costs_more_time_each_time() {
        let accounts = Accounts::new(Limits::default());
        let (ip, mut now) = (at("192.0.2.1:1").ip(), 5);
        let mut waits = Vec::new();
        for _ in 0..12 {
            accounts.guessed(ip, false, now);
            let wait = accounts.may_guess(ip, now).err();
            waits.push(wait.map_or(0, |refused| match refused {
                Refused::Backoff(s) => s,
                other => panic!("{other:?}"),
            }));
            now += waits.last().copied().unwrap_or(0) * SECOND;
            assert_eq!(accounts.may_guess(ip, now), Ok(()));
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(accounts.may_guess(at("192.0.2.2:1").ip(), 5), Ok(()));
        accounts.guessed(ip, true, now);
        accounts.guessed(ip, false, now);
        assert_eq!(accounts.may_guess(ip, now), Ok(()));
    }

    #[test]
    fn senders_wait_while_their_sockets_hold_too_much() {
        let accounts = Accounts::new(Limits::default());
        let one = accounts.admit(at("192.0.2.1:1").ip(), 5).expect("a seat");
        let (mut first, mut second) = (0, 0);
        one.hold(&mut first, 200_000_000);
        assert_eq!(one.load().may_send(6), May::Move);
        one.hold(&mut second, 100_000_000);
        assert!(matches!(one.load().may_send(6), May::Wait(_)));
        one.hold(&mut first, 0);
        assert_eq!(one.load().may_send(6), May::Move);
    }

    #[test]
    fn a_table_of_many_addresses_stays_small() {
        let accounts = Accounts::new(Limits::default());
        for n in 0..100_000_u32 {
            let source = Source::from(IpAddr::from(n.to_be_bytes()));
            let now = u64::from(n) * 1_000_000;
            assert!(accounts.connected(source, now));
            accounts.settled(source);
        }
        assert!(lock(&accounts.table).of.len() <= ACCOUNTS + 200);
    }
}
