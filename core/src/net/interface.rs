//! The sender's own interface: a queue of super-packets, a device with a ring, and a wire slower than what TCP hands down.
//!
//! ```text
//!   TCP ──▶ queue (1000 super-packets) ──▶ ring (BQL) ──▶ wire ──▶ the path
//!    ▲                                                      │
//!    └───────────── completed: a super-packet has left ◀────┘
//! ```
//!
//! What lies in the ring no queue discipline and no sender can take back, so a deep ring is a buffer that nobody sees.
//! *Byte queue limits* ([`Limits`]) let only so many bytes into it as keep the wire busy from one completion to the
//! next; what is completed is what TCP's small queues count.
//!
//! A super-packet is what a sender handed down at once: a packet and those behind it that are
//! [`joined`](Packet::joined). It takes one place in queue and ring; its segments take the wire one by one. A completion
//! comes with each super-packet, as from a card that interrupts for each.
//!
//! Sources: Linux 6.12 `lib/dynamic_queue_limits.c` (Herbert, 3.3), `pfifo_fast` with the device's `txqueuelen` of 1000.

use super::link::Serial;
use crate::packet::Packet;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::collections::VecDeque;

/// Super-packets that wait above the ring (`txqueuelen`).
pub const QUEUE: usize = 1000;
/// How long a limit must have been too large before it shrinks.
const HOLD: Span = Span::s(1);

/// Byte queue limits: so many bytes may be given to the ring that it never runs dry while more wait.
///
/// Law, at each completion: if all was completed although more than the limit had been given, the ring was starved: the
/// limit grows by what was completed beyond what was queued at the last completion, and by what was over it then.
/// If the ring was busy throughout, what it did not need is slack; the least slack of a second is taken off.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    limit: u64,
    queued: u64,
    completed: u64,
    last: u64,
    queued_before: u64,
    over_before: u64,
    last_before: u64,
    slack: Option<u64>,
    slack_since: Time,
}

impl Limits {
    /// Bytes that may be outstanding, more or less one super-packet.
    pub fn limit(&self) -> Bytes {
        Bytes::new(self.limit)
    }
    /// May another super-packet go into the ring? One may exceed the limit.
    pub fn open(&self) -> bool {
        self.queued <= self.limit + self.completed
    }
    /// A super-packet went into the ring.
    pub fn queued(&mut self, size: Bytes) {
        self.last = size.get();
        self.queued += self.last;
    }
    /// So much of it has left.
    pub fn completed(&mut self, now: Time, size: Bytes) {
        let completed = self.completed + size.get();
        let mut over = (self.queued - self.completed).saturating_sub(self.limit);
        let in_ring = self.queued - completed;
        let was_in_ring = self.queued_before > self.completed;
        let all_before = completed >= self.queued_before;
        let mut limit = self.limit;
        if (over > 0 && in_ring == 0) || (self.over_before > 0 && all_before) {
            limit += completed.saturating_sub(self.queued_before) + self.over_before;
            (self.slack, self.slack_since) = (None, now);
        } else if in_ring > 0 && was_in_ring && !all_before {
            let unused = (limit + self.over_before).saturating_sub(2 * size.get());
            let last = match self.over_before {
                0 => 0,
                over => self.last_before.saturating_sub(over),
            };
            let slack = unused.max(last);
            let least = self.slack.map_or(slack, |s| s.min(slack));
            self.slack = Some(least);
            if now > self.slack_since + HOLD {
                limit = limit.saturating_sub(least);
                (self.slack, self.slack_since) = (None, now);
            }
        }
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.completed = completed;
        self.queued_before = self.queued;
        self.over_before = over;
        self.last_before = self.last;
    }
}

/// What comes out of an interface.
pub trait Below<P> {
    /// A packet has left on the wire.
    fn left(&mut self, now: Time, packet: P);
    /// The super-packet that ended with `last` has left and is TCP's no longer; it had `size` bytes on the wire.
    fn completed(&mut self, now: Time, last: &P, size: Bytes);
    /// The queue was full: a packet is lost before it left the host.
    fn dropped(&mut self, now: Time, packet: P);
}

/// One interface.
pub struct Interface<P> {
    wire: Serial,
    /// The packet on the wire, and when it has left.
    sending: Option<P>,
    due: Time,
    ring: VecDeque<P>,
    in_ring: usize,
    most_in_ring: usize,
    limits: Option<Limits>,
    queue: VecDeque<P>,
    in_queue: usize,
    /// The super-packet that arrived last found no room.
    refused: bool,
    /// Bytes of the one on the wire that have left.
    left: Bytes,
}

impl<P: Packet> Interface<P> {
    /// An idle interface of `rate` whose ring holds `ring` super-packets; `bql`: with byte queue limits.
    pub fn new(rate: Rate, ring: u32, bql: bool) -> Interface<P> {
        Interface {
            wire: Serial::new(rate),
            sending: None,
            due: Time::MAX,
            ring: VecDeque::new(),
            in_ring: 0,
            most_in_ring: ring.max(1) as usize,
            limits: bql.then(Limits::default),
            queue: VecDeque::new(),
            in_queue: 0,
            refused: false,
            left: Bytes::new(0),
        }
    }
    /// Super-packets in the ring, the one on the wire included, and above it.
    pub fn backlog(&self) -> (usize, usize) {
        (self.in_ring, self.in_queue)
    }
    /// The limit in force, with byte queue limits.
    pub fn limit(&self) -> Option<Bytes> {
        self.limits.as_ref().map(Limits::limit)
    }
    /// When `poll` must be called; [`Time::MAX`] from an idle interface.
    pub fn next(&self) -> Time {
        self.due
    }
    /// A sender hands a packet down.
    pub fn push(&mut self, now: Time, packet: P, below: &mut impl Below<P>) {
        if packet.joined() {
            if self.refused {
                return below.dropped(now, packet);
            }
        } else {
            self.refused = self.in_queue >= QUEUE;
            if self.refused {
                return below.dropped(now, packet);
            }
            self.in_queue += 1;
        }
        self.queue.push_back(packet);
    }
    /// All of a super-packet has been handed down: what may go into the ring does.
    pub fn flush(&mut self, now: Time) {
        while self.in_queue > 0 && self.in_ring < self.most_in_ring && self.limits.as_ref().is_none_or(Limits::open) {
            let mut size = Bytes::new(0);
            while let Some(packet) = self.queue.pop_front() {
                size += packet.size();
                self.ring.push_back(packet);
                if !self.queue.front().is_some_and(P::joined) {
                    break;
                }
            }
            self.in_queue -= 1;
            self.in_ring += 1;
            if let Some(limits) = &mut self.limits {
                limits.queued(size);
            }
        }
        self.start(now);
    }
    fn start(&mut self, now: Time) {
        if self.sending.is_none() {
            self.sending = self.ring.pop_front();
            self.due = match &self.sending {
                Some(packet) => self.wire.serve(now, packet.size()),
                None => Time::MAX,
            };
        }
    }
    /// Everything that has left by `now`.
    pub fn poll(&mut self, now: Time, below: &mut impl Below<P>) {
        while self.due <= now {
            let at = self.due;
            let Some(packet) = self.sending.take() else { return };
            self.left += packet.size();
            if !self.ring.front().is_some_and(P::joined) {
                let size = core::mem::take(&mut self.left);
                self.in_ring -= 1;
                if let Some(limits) = &mut self.limits {
                    limits.completed(at, size);
                }
                below.completed(at, &packet, size);
                self.flush(at);
            }
            below.left(at, packet);
            self.start(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use alloc::vec::Vec;

    #[derive(Clone, Debug)]
    struct Frame {
        size: u64,
        joined: bool,
    }
    impl Packet for Frame {
        fn size(&self) -> Bytes {
            Bytes::new(self.size)
        }
        fn enqueued_at(&self) -> Time {
            Time::ZERO
        }
        fn set_enqueued_at(&mut self, _now: Time) {}
        fn flow_hash(&self, _seed: u64) -> u32 {
            0
        }
        fn ecn(&self) -> Ecn {
            Ecn::NotEct
        }
        fn set_ce(&mut self) {}
        fn joined(&self) -> bool {
            self.joined
        }
    }
    #[derive(Default)]
    struct Log {
        left: Vec<u64>,
        completed: Vec<(u64, u64)>,
        dropped: usize,
    }
    impl Below<Frame> for Log {
        fn left(&mut self, now: Time, _packet: Frame) {
            self.left.push(now.as_us());
        }
        fn completed(&mut self, now: Time, _last: &Frame, size: Bytes) {
            self.completed.push((now.as_us(), size.get()));
        }
        fn dropped(&mut self, _now: Time, _packet: Frame) {
            self.dropped += 1;
        }
    }
    fn hand_down(i: &mut Interface<Frame>, log: &mut Log, now: Time, segments: usize) {
        for n in 0..segments {
            let frame = Frame {
                size: 1250,
                joined: n > 0,
            };
            i.push(now, frame, log);
        }
        i.flush(now);
    }

    /// 1250 B at 100 Mbit/s are 100 µs.
    #[test]
    fn segments_take_the_wire_one_by_one_and_complete_together() {
        let mut log = Log::default();
        let mut i = Interface::new(Rate::mbit(100), 256, false);
        hand_down(&mut i, &mut log, Time::ZERO, 3);
        hand_down(&mut i, &mut log, Time::ZERO, 1);
        i.poll(Time::ZERO + Span::ms(1), &mut log);
        assert_eq!(log.left, [100, 200, 300, 400]);
        assert_eq!(log.completed, [(300, 3750), (400, 1250)]);
        assert_eq!((i.backlog(), i.next()), ((0, 0), Time::MAX));
    }

    #[test]
    fn a_ring_takes_so_many_super_packets_and_the_queue_a_thousand() {
        let mut log = Log::default();
        let mut i = Interface::new(Rate::mbit(100), 4, false);
        (0..1010).for_each(|_| hand_down(&mut i, &mut log, Time::ZERO, 2));
        assert_eq!((i.backlog(), log.dropped), ((4, 1000), 12));
    }

    /// A sender that always has more: the limit settles at what one completion needs, two super-packets or so, and not at
    /// what the ring could hold.
    #[test]
    fn byte_queue_limits_keep_the_ring_short_and_the_wire_busy() {
        let mut log = Log::default();
        let mut i = Interface::new(Rate::mbit(100), 256, true);
        let mut now = Time::ZERO;
        let mut most = 0;
        for _ in 0..50_000 {
            while i.backlog().1 < 3 {
                hand_down(&mut i, &mut log, now, 2);
            }
            if now > Time::ZERO + Span::s(2) {
                most = most.max(i.backlog().0);
            }
            now = i.next();
            i.poll(now, &mut log);
        }
        assert!(most <= 3, "{most} super-packets of 2500 B in the ring");
        // Not one idle microsecond.
        assert_eq!(log.left.len() as u64 * 100, log.left.last().copied().unwrap_or(0));
    }
}
