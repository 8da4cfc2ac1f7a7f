//! One end of a flow: the sender or the receiver of the simulator, its socket, and its application.
//! The application sends as much as its budget permits.
//!
//! A thread for load ([`crate::measure::bulk`]) calls [`Flow::turn`] when a datagram has arrived or
//! a timer is due. The state machine receives the present time with each event. Consecutive
//! segments leave as one super-packet, which the kernel or the device cuts into datagrams
//! (`UDP_SEGMENT`). Paced segments leave when the pacing timer of the sender fires. With
//! [`Pacer::Txtime`], the sender passes them to the kernel before their departure times, as the TCP
//! of the kernel does above `fq`. For its small queue, a super-packet departs at this time.
//!
//! Datagrams are untrusted. [`segment::read`] rejects those without the key. Segments beyond the
//! advertised window are ignored, as in TCP, so a receiver stores no more than its receive buffer.
//! The sender ignores acknowledgements of data that it has not sent.

use super::breaker::{Breaker, Counts, Tripped};
use super::segment::{self, Datagram, Key};
use super::terms::Terms;
use crate::digest::random;
use crate::measure::bulk::{Budget, May, Promised, Role};
use crate::measure::datagram_flow::{DatagramFlow, Ended, Next};
use crate::measure::pacer::Pacer;
use crate::protocols::tcp_info::Row;
use crate::sys;
use crate::sys::datagram::{self, BATCH, HEADER, Outgoing, SEGMENTS};
use crate::sys::socket;
use narrows_core::cc::{CcKind, Host};
use narrows_core::host::Fate;
use narrows_core::packet::{Ecn, Ip};
use narrows_core::param::Params;
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::tcp::{Config, Device, EcnUse, Receiver, Sender};
use narrows_core::units::{Bytes, Rate, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Largest number of receive calls in one turn.
const READS: usize = 4;
/// Unsent data up to which the application writes more, without a limit of the rate, bytes.
const AHEAD: u64 = 2 << 20;
/// Largest number of writes of the application in one turn.
const WRITES: usize = 64;
/// Pause after the buffer of the socket was full, ns.
const FULL: u64 = 200_000;
/// Pause before the budget is checked again, ns.
const BRIEFLY: u64 = 1_000_000;
/// Longest time until the next turn, ns.
const LONGEST: u64 = 1_000_000_000;
/// Memory of the state of a flow, bytes. It is enough for the records of the packets in a window of
/// 4 MiB.
const MEMORY: u64 = 1 << 20;
/// Largest payload of a super-packet, bytes.
pub(super) const SUPER_PACKET: usize = 65_507;

enum End {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

/// One end of a flow.
pub struct Flow {
    peer: SocketAddr,
    cc: &'static str,
    terms: Terms,
    end: End,
    wire: Wire,
    promised: Promised,
    /// Bytes that the application has written.
    offered: u64,
    /// Bytes sent, including retransmissions, that are charged to the budget.
    charged: u64,
    breaker: Breaker,
    tripped: Option<Tripped>,
    begun: bool,
    /// Arrival of the last datagram of the peer.
    heard: Time,
    /// Whether the kernel cuts super-packets into datagrams.
    gso: bool,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("cc", &self.cc).finish()
    }
}

/// The ECN bits of a traffic class (RFC 3168, section 5).
fn ecn_of(class: u8) -> Ecn {
    match class & 0b11 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

fn bits_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

/// Encodes segments and ACKs, and adds them to the datagrams that wait.
struct Wire {
    key: Key,
    dscp: u8,
    /// Payload of a full segment, bytes.
    payload: u32,
    /// Time zero of the state machine, ns of the monotonic clock.
    base: u64,
    /// Datagrams that wait for the socket.
    out: VecDeque<Outgoing>,
    /// Departure times of super-packets that were encoded before these times.
    departures: VecDeque<Time>,
}

impl Wire {
    fn push(&mut self, (head, head_len): ([u8; HEADER], usize), len: usize, ecn: Ecn, at: Time) {
        self.out.push_back(Outgoing {
            to: None,
            class: Some(self.dscp << 2 | bits_of(ecn)),
            departs: (at > Time::ZERO).then(|| self.base.saturating_add(at.as_ns())),
            head,
            head_len,
            len,
        });
    }
    /// Encodes a segment, or each segment of a super-packet. Returns whether it departs at once.
    fn segment(&mut self, now: Time, whole: Segment) -> Fate {
        let mut from = 0;
        loop {
            let len = (whole.len - from).min(self.payload);
            let (first, last) = (from == 0, from + len == whole.len);
            let segment = Segment {
                seq: whole.seq + u64::from(from),
                len,
                psh: whole.psh && last,
                cwr: whole.cwr && first,
                ..whole
            };
            let head = segment::of_segment(&self.key, &segment);
            let size = segment::DATA + len as usize;
            self.push((head, segment::DATA), size, segment.ecn, whole.departs);
            from += len;
            if last {
                break;
            }
        }
        if whole.departs <= now {
            return Fate::Gone;
        }
        self.departures.push_back(whole.departs);
        Fate::Sent
    }
    fn ack(&mut self, ack: AckSegment) {
        let len = segment::ack_len(&ack);
        let head = segment::of_ack(&self.key, &ack);
        self.push((head, len), len, ack.marks.ecn(), Time::ZERO);
    }
    /// Removes a super-packet that has departed; returns whether there is one.
    fn departed(&mut self, now: Time) -> bool {
        let departed = self.departures.front().is_some_and(|at| *at <= now);
        if departed {
            self.departures.pop_front();
        }
        departed
    }
}

impl Flow {
    /// An end in this role, which exchanges datagrams with `peer` only. `cc`: the congestion
    /// control of the sender, and its pacer, for which the socket is [prepared](Pacer::prepare).
    pub fn new(
        role: Role,
        (cc, pacer): (&CcKind, Pacer),
        terms: Terms,
        (key, peer): (Key, SocketAddr),
        dscp: u8,
        budget: &Arc<Budget>,
    ) -> std::io::Result<Flow> {
        let ip = if peer.is_ipv4() { Ip::V4 } else { Ip::V6 };
        let config = Config {
            ip,
            device: (pacer == Pacer::Txtime).then(|| Device {
                paces: true,
                ..Device::default()
            }),
            ..terms.config()
        };
        let end = match role {
            Role::Sender => End::Sender(Box::new(sender(cc, config)?)),
            Role::Receiver => End::Receiver(Box::new(Receiver::new(&config))),
        };
        Ok(Flow {
            peer,
            cc: cc.name,
            terms,
            end,
            wire: Wire {
                key,
                dscp,
                payload: terms.payload,
                base: sys::monotonic(),
                out: VecDeque::new(),
                departures: VecDeque::new(),
            },
            promised: Promised::new(budget),
            offered: 0,
            charged: 0,
            breaker: Breaker::new(Time::ZERO),
            tripped: None,
            begun: false,
            heard: Time::ZERO,
            gso: true,
        })
    }
    fn time(&self, now: u64) -> Time {
        Time::from_ns(now.saturating_sub(self.wire.base))
    }
    /// Handles a datagram of the peer, from its first bytes, its length and its traffic class.
    fn arrive(&mut self, bytes: &[u8], (len, class): (usize, u8), now: u64, budget: &Budget) {
        let Some(read) = segment::read(&self.wire.key, bytes, len, ecn_of(class)) else {
            return;
        };
        let time = self.time(now);
        self.heard = time;
        let wire = &mut self.wire;
        match (read, &mut self.end) {
            (Datagram::Data(segment), End::Receiver(receiver)) => {
                budget.took(now, len as u64);
                let edge = receiver.delivered_bytes() + receiver.offered();
                let fits = segment.len <= self.terms.payload
                    && segment.seq + u64::from(segment.len) <= edge
                    && (!segment.syn || segment.len == 0);
                if fits {
                    receiver.on_segment(time, &segment, &mut |ack| wire.ack(ack));
                }
            }
            (Datagram::Ack(ack), End::Sender(sender)) => {
                sender.on_segment(time, &ack, &mut |segment| wire.segment(time, segment));
            }
            _ => {}
        }
    }
    /// Starts a sender, handles timers that are due, and lets the application write. Returns the
    /// time at which it may write again, if its budget is the limit.
    fn advance(&mut self, now: u64, budget: &Budget) -> Option<u64> {
        let time = self.time(now);
        let wire = &mut self.wire;
        match &mut self.end {
            End::Receiver(receiver) => {
                if receiver.next_wakeup().is_some_and(|due| due <= time) {
                    receiver.on_timer(time, &mut |ack| wire.ack(ack));
                }
                None
            }
            End::Sender(sender) => {
                if !self.begun {
                    self.begun = true;
                    (self.heard, self.breaker) = (time, Breaker::new(time));
                    sender.connect(time, &mut |segment| wire.segment(time, segment));
                }
                if sender.next_wakeup().is_some_and(|due| due <= time) {
                    sender.on_timer(time, &mut |segment| wire.segment(time, segment));
                }
                while wire.departed(time) {
                    sender.on_departed(time, &mut |segment| wire.segment(time, segment));
                }
                let wait = self.write(now, budget);
                if self.breaker.due() <= time {
                    self.check(time);
                }
                wait
            }
        }
    }
    /// The application writes while its budget permits and little is unsent.
    fn write(&mut self, now: u64, budget: &Budget) -> Option<u64> {
        let time = self.time(now);
        let End::Sender(sender) = &mut self.end else {
            return None;
        };
        let wire = &mut self.wire;
        for _ in 0..WRITES {
            let sent = sender.info().bytes_sent;
            self.promised.sent(now, sent - self.charged);
            self.charged = sent;
            if !sender.is_established() {
                return None;
            }
            match budget.may_send(now) {
                May::Move => {}
                May::Wait(until) => return Some(until),
                May::Stop => return None,
            }
            let most = if budget.is_limited() {
                budget.chunk() as u64
            } else {
                AHEAD
            };
            let unsent = self.offered - sender.nxt();
            if unsent > most / 2 {
                return None;
            }
            let bytes = self.promised.more(most - unsent);
            if bytes == 0 {
                return (unsent == 0).then_some(now + BRIEFLY);
            }
            self.offered += bytes;
            sender.send_more(time, Bytes::new(bytes), &mut |segment| {
                wire.segment(time, segment)
            });
        }
        Some(now + 1)
    }
    /// Lets the circuit breaker check the flow.
    fn check(&mut self, now: Time) {
        let End::Sender(sender) = &self.end else {
            return;
        };
        let info = sender.info();
        let counts = Counts {
            sent: info.bytes_sent,
            resent: info.bytes_retrans,
            payload: self.terms.payload.into(),
        };
        self.tripped = self.breaker.check(now, info.srtt, self.heard, counts);
    }
    /// Time of the next timer, ns of the monotonic clock.
    fn due(&self) -> u64 {
        let due = match &self.end {
            End::Sender(sender) => {
                let timer = Time::earlier(sender.next_wakeup(), Some(self.breaker.due()));
                Time::earlier(timer, self.wire.departures.front().copied())
            }
            End::Receiver(receiver) => receiver.next_wakeup(),
        };
        due.map_or(u64::MAX, |due| self.wire.base.saturating_add(due.as_ns()))
    }
    /// Sends the datagrams that wait. Returns whether the buffer of the socket is full.
    fn flush(&mut self, fd: &OwnedFd, budget: &Budget) -> bool {
        // Nothing is sent to a client without a sign of life.
        if sys::monotonic() > budget.alive_until() {
            self.wire.out.clear();
        }
        let v6 = self.peer.is_ipv6();
        let all = self.wire.out.make_contiguous();
        let (mut at, mut full) = (0, false);
        while at < all.len() && !full {
            let run = together(&all[at..]);
            if !self.gso || run == 1 {
                let some = &all[at..(at + BATCH).min(all.len())];
                match datagram::send(fd, some, v6) {
                    Ok(0) => full = true,
                    Ok(n) => at += n,
                    // The datagram counts as lost.
                    Err(_) => at += 1,
                }
                continue;
            }
            match datagram::send_super_packet(fd, &all[at..at + run], v6) {
                Ok(true) => at += run,
                Ok(false) => full = true,
                Err(error) if is_unsupported(&error) => self.gso = false,
                Err(_) => at += run,
            }
        }
        self.wire.out.drain(..at);
        full
    }
}

impl DatagramFlow for Flow {
    fn cc(&self) -> &'static str {
        self.cc
    }
    fn payload(&self) -> u32 {
        self.terms.payload
    }
    fn ecn(&self) -> bool {
        match &self.end {
            End::Sender(sender) => sender.agreed() != EcnUse::Off,
            End::Receiver(receiver) => receiver.agreed() != EcnUse::Off,
        }
    }
    fn ended(&self) -> Option<Ended> {
        self.tripped.map(|why| Ended::Breaker(why.text()))
    }
    fn heard(&self) -> u64 {
        self.wire.base + self.heard.as_ns()
    }
    fn progress(&self) -> u64 {
        match &self.end {
            End::Sender(sender) => sender.info().bytes_acked,
            End::Receiver(receiver) => receiver.delivered_bytes(),
        }
    }
    fn moved(&self) -> u64 {
        match &self.end {
            End::Sender(sender) => sender.nxt(),
            End::Receiver(receiver) => receiver.delivered_bytes(),
        }
    }
    fn row(&self, now: u64) -> Row {
        let End::Sender(sender) = &self.end else {
            return Row {
                at: now,
                bytes: self.moved(),
                ..Row::default()
            };
        };
        let (info, limited) = (sender.info(), sender.limited(self.time(now)));
        let rate = |rate: Rate| match rate.as_bit() {
            u64::MAX => 0,
            bits => bits / 8,
        };
        Row {
            at: now,
            bytes: info.bytes_acked,
            cwnd: info.cwnd.into(),
            rtt: info.srtt.as_us(),
            min_rtt: info.min_rtt.as_us(),
            retransmits: info.retransmits,
            lost: sender.lost().into(),
            delivery: info.delivery_rate.map_or(0, rate),
            pacing: rate(info.pacing),
            busy: limited.busy.as_us(),
            rwnd_limited: limited.peer_window.as_us(),
            sndbuf_limited: limited.send_buffer.as_us(),
            delivered_ce: info.delivered_ce,
            delivered: info.delivered,
            sent: info.bytes_sent,
            resent: info.bytes_retrans,
        }
    }
    fn turn(&mut self, fd: &OwnedFd, budget: &Budget) -> Next {
        let mut got = Vec::new();
        for _ in 0..READS {
            let now = sys::monotonic();
            if budget.spent() || self.tripped.is_some() {
                return Next::Stop;
            }
            let receives = matches!(self.end, End::Receiver(_));
            let pause = match budget.may(now) {
                May::Wait(until) if receives => Some(until),
                _ => None,
            };
            got.clear();
            if pause.is_none() {
                // An error such as a refused datagram belongs to an earlier datagram.
                let _ = datagram::receive(fd, &mut got);
            } else {
                // Otherwise, epoll would report a pending error again and again.
                let _ = socket::error(fd);
            }
            let peer = self.peer;
            for one in got.iter().filter(|one| one.from == peer) {
                self.arrive(one.bytes(), (one.len, one.class), now, budget);
            }
            let offered = self.advance(now, budget);
            let full = self.flush(fd, budget);
            if let Some(until) = pause {
                return Next::At(until.min(self.due()).max(now + 1));
            }
            if got.len() < BATCH {
                let due = self.due().min(offered.unwrap_or(u64::MAX));
                let due = if full { due.min(now + FULL) } else { due };
                return Next::Until(due.clamp(now + 1, now + LONGEST));
            }
        }
        // More datagrams may wait; other flows take their turn first.
        Next::Until(sys::monotonic())
    }
    fn memory(&self) -> u64 {
        MEMORY
    }
}

/// Whether the kernel or the device cannot cut super-packets into datagrams.
pub(super) fn is_unsupported(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EMSGSIZE)
    )
}

/// Number of the first datagrams that one super-packet can contain: they have one length, class and
/// departure, except that the last one may be shorter.
fn together(all: &[Outgoing]) -> usize {
    let len = all[0].len;
    let alike = |one: &Outgoing| (one.class, one.departs) == (all[0].class, all[0].departs);
    let most = SEGMENTS.min(SUPER_PACKET / len.max(1)).max(1);
    let equal = |one: &&Outgoing| one.len == len && alike(one);
    let n = all.iter().take(most).take_while(equal).count();
    let shorter = |one: &Outgoing| one.len < len && alike(one);
    n + usize::from(n < most && all.get(n).is_some_and(shorter))
}

/// A sender whose application has written nothing.
fn sender(cc: &CcKind, config: Config) -> std::io::Result<Sender> {
    let host = Host {
        hz: config.hz,
        kernel: config.kernel,
        gso: config.gso,
        ip: config.ip,
        mss: config.options(false).mss(),
        seed: u64::from_ne_bytes(random::<8>()?),
    };
    let control = (cc.make)(&Params::defaults(cc.params), &host);
    Ok(Sender::new(Arc::new(config), control, Some(Bytes::new(0))))
}

/// Feeds datagrams of a hostile peer to a new sender and to a new receiver, for fuzzing. A datagram
/// in `bytes` begins with two bytes: its length without the key, and the time before it in ms.
pub fn feed(bytes: &[u8]) {
    const KEY: Key = [7; 8];
    let known = super::terms::standard();
    let Ok(cc) = super::cc(&known, None) else {
        return;
    };
    let budget = Budget::new(None, u64::MAX);
    for (role, pacer) in [
        (Role::Sender, Pacer::Timer),
        (Role::Sender, Pacer::Txtime),
        (Role::Receiver, Pacer::Timer),
    ] {
        let peer = SocketAddr::from(([192, 0, 2, 1], 9));
        let Ok(mut flow) = Flow::new(role, (cc, pacer), Terms::of(cc), (KEY, peer), 0, &budget)
        else {
            return;
        };
        flow.wire.base = 0;
        let (mut rest, mut now) = (bytes, 0);
        flow.advance(now, &budget);
        while let [len, ms, more @ ..] = rest {
            let (datagram, others) = more.split_at(more.len().min((*len).into()));
            rest = others;
            now += u64::from(*ms) * 1_000_000;
            let whole = [&KEY, datagram].concat();
            // Data carries the payload of a full segment, which is not in the input.
            let payload = if role == Role::Receiver {
                flow.terms.payload as usize
            } else {
                0
            };
            let kept = whole.len().min(datagram::KEPT);
            flow.arrive(&whole[..kept], (whole.len() + payload, 0), now, &budget);
            flow.advance(now, &budget);
            flow.wire.out.clear();
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
