//! The sender's own interface: a queue discipline, the ring of the device, and the wire.
//!
//! Packets in the ring are beyond the control of discipline and sender, so a deep ring is a hidden
//! buffer. Byte queue limits ([`Dql`]) keep the ring short. A completion is the report of the
//! device that a packet was transmitted. Each completion lets TCP pass on more data (TCP small
//! queues).
//!
//! A packet here is a super-packet of TCP. A super-packet takes one entry in the discipline and one
//! in the ring. On the wire, a super-packet is split into its segments ([`Cut`]), which are sent
//! one by one, unless the path carries super-packets. Each super-packet has its own completion, as
//! from a card that interrupts for each.
//!
//! With `htb` instead of a wire, a class of tc's htb limits the rate above a virtual device (veth).
//! A transmission by this device takes no time. A super-packet leaves when the bucket of the class
//! has no debt from earlier super-packets. The transmission of the super-packet is complete at that
//! instant, and there is no ring.
//!
//! **Result for the sender** ([`Fate`]): a discipline that drops the arriving packet returns it,
//! and it was never sent. Examples are tail drop, and drops on entry of CoDel, PIE and `fq`. A
//! discipline that drops by its control law, or drops another packet of the same flow, only reports
//! congestion (RED, CHOKe, SFB, `fq_codel`, `sfq`, `cake`). A packet that the discipline drops at
//! dequeue is lost without a report.
//!
//! Sources: Linux 6.12 `__dev_queue_xmit`, `sch_direct_xmit`, the return values of each
//! discipline's `enqueue`. The default of an interface is `pfifo_fast` with the device's
//! `txqueuelen` of 1000.

use super::Fate;
use super::dql::Dql;
use crate::net::link::{Serial, TokenBucket};
use crate::packet::Packet;
use crate::queue::{Backlog, DropReason, QueueDiscipline, Sink};
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A packet that may be several segments.
pub trait Cut: Packet + Sized {
    /// Removes and returns the first segment; `None` from a packet of one segment.
    fn cut(&mut self) -> Option<Self>;
}

/// The receiver of an interface's output.
pub trait Below<P> {
    /// A packet has left on the wire. The packet's `enqueued_at` is the time when the sender passed
    /// it on, or its requested departure time if that is later.
    fn left(&mut self, now: Time, packet: P);
    /// All of a super-packet has left, and TCP no longer counts it; `last` is its last segment.
    fn completed(&mut self, now: Time, last: &P);
    /// A super-packet that counted as sent was dropped in the host.
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason);
    /// A super-packet was rejected and is returned to the sender.
    fn refused(&mut self, now: Time, packet: P, reason: DropReason);
    /// The discipline has marked a super-packet, which is forwarded.
    fn marked(&mut self, now: Time, packet: &P, reason: DropReason);
}

/// Receives the drops that occur when a packet leaves the discipline.
struct Leaving<'a, B>(&'a mut B);

impl<P, B: Below<P>> Sink<P> for Leaving<'_, B> {
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason) {
        self.0.dropped(now, packet, reason);
    }
    fn marked(&mut self, now: Time, packet: &P, reason: DropReason) {
        self.0.marked(now, packet, reason);
    }
}

/// Collects the drops that occur while a packet enters; their effect on the sender is determined
/// afterwards.
struct Entering<'a, P, B> {
    dropped: &'a mut Vec<(P, DropReason)>,
    below: &'a mut B,
}

impl<P, B: Below<P>> Sink<P> for Entering<'_, P, B> {
    fn dropped(&mut self, _now: Time, packet: P, reason: DropReason) {
        self.dropped.push((packet, reason));
    }
    fn marked(&mut self, now: Time, packet: &P, reason: DropReason) {
        self.below.marked(now, packet, reason);
    }
}

/// The element that limits the rate.
enum Server {
    Wire(Serial),
    Htb(TokenBucket),
    /// No rate.
    Free,
}

/// One interface.
pub struct Interface<P> {
    server: Server,
    /// Whether the interface splits super-packets.
    cuts: bool,
    /// The packet on the wire, and whether it is the last of its super-packet. `due` is its
    /// departure.
    sending: Option<(P, bool)>,
    due: Time,
    ring: VecDeque<P>,
    in_ring: usize,
    bytes_in_ring: Bytes,
    most_in_ring: usize,
    limits: Option<Dql>,
    queue: Box<dyn QueueDiscipline<P>>,
    /// Wake-up of the discipline.
    wake: Time,
    /// Bytes of the super-packet on the wire that have left.
    left: Bytes,
    /// Packets dropped while a packet entered.
    dropped: Vec<(P, DropReason)>,
}

impl<P: Cut> Interface<P> {
    /// An idle interface of `rate` below `queue` whose ring holds `ring` super-packets. `bql`: the
    /// ring has byte queue limits. `cuts`: the interface splits super-packets; otherwise the path
    /// carries them.
    pub fn new(
        rate: Rate,
        queue: Box<dyn QueueDiscipline<P>>,
        ring: u32,
        bql: bool,
        cuts: bool,
    ) -> Interface<P> {
        Interface {
            server: Server::Wire(Serial::new(rate)),
            cuts,
            sending: None,
            due: Time::MAX,
            ring: VecDeque::new(),
            in_ring: 0,
            bytes_in_ring: Bytes::ZERO,
            most_in_ring: ring.max(1) as usize,
            limits: bql.then(Dql::default),
            wake: queue.next_wakeup().unwrap_or(Time::MAX),
            queue,
            left: Bytes::ZERO,
            dropped: Vec::new(),
        }
    }
    /// An interface with a class of htb with this `burst` instead of a wire; its device has no
    /// ring.
    pub fn behind_htb(
        rate: Rate,
        burst: Bytes,
        queue: Box<dyn QueueDiscipline<P>>,
        cuts: bool,
    ) -> Interface<P> {
        Interface {
            server: Server::Htb(TokenBucket::owing(rate, burst)),
            ..Interface::new(rate, queue, 1, false, cuts)
        }
    }
    /// An interface with a device that takes no time and has no rate: a packet that leaves `queue`
    /// is sent at once.
    pub fn free(queue: Box<dyn QueueDiscipline<P>>, cuts: bool) -> Interface<P> {
        Interface {
            server: Server::Free,
            ..Interface::new(Rate::bit(0), queue, 1, false, cuts)
        }
    }
    /// Number of super-packets in the ring, including the one on the wire, and above it.
    pub fn super_packets(&self) -> (usize, u64) {
        (self.in_ring, self.queue.backlog().packets)
    }
    /// The backlog of ring and discipline; super-packets count as one.
    pub fn backlog(&self) -> Backlog {
        let above = self.queue.backlog();
        Backlog {
            bytes: above.bytes + self.bytes_in_ring,
            packets: above.packets + self.in_ring as u64,
        }
    }
    /// Returns the discipline, for inspection.
    pub fn queue(&self) -> &dyn QueueDiscipline<P> {
        &*self.queue
    }
    /// The present limit of the bytes in the ring; `None` without byte queue limits.
    pub fn limit(&self) -> Option<Bytes> {
        self.limits.as_ref().map(Dql::limit)
    }
    /// Returns when `poll` must be called; [`Time::MAX`] from an idle interface.
    pub fn next(&self) -> Time {
        self.due.min(self.wake)
    }
    /// Takes a super-packet from a sender, with its earliest departure time (a past time means at
    /// once). Returns the result for the sender.
    pub fn push(
        &mut self,
        now: Time,
        mut packet: P,
        departs: Time,
        below: &mut impl Below<P>,
    ) -> Fate {
        let flow = packet.flow_hash(0);
        packet.set_enqueued_at(now.max(departs));
        let mut sink = Entering {
            dropped: &mut self.dropped,
            below,
        };
        self.queue.enqueue_for(now, packet, departs, &mut sink);
        let mut fate = Fate::Sent;
        for (packet, reason) in self.dropped.drain(..) {
            if self.queue.refuses(reason) {
                fate = Fate::Refused;
                below.refused(now, packet, reason);
            } else {
                if fate == Fate::Sent && packet.flow_hash(0) == flow {
                    fate = Fate::Congested;
                }
                below.dropped(now, packet, reason);
            }
        }
        self.flush(now, below);
        fate
    }
    /// Fills the ring as far as there is room.
    fn flush(&mut self, now: Time, below: &mut impl Below<P>) {
        match self.server {
            Server::Wire(_) => self.fill_ring(now, below),
            Server::Htb(_) | Server::Free => self.let_go(now, below),
        }
        // A discipline that requests its present wake-up time again would stop the clock.
        self.wake = self
            .queue
            .next_wakeup()
            .map_or(Time::MAX, |at| at.max(now + Span::ns(1)));
    }
    /// Sends packets while the bucket has no debt, or all packets without a rate.
    fn let_go(&mut self, now: Time, below: &mut impl Below<P>) {
        let mut bucket = match &mut self.server {
            Server::Htb(bucket) => Some(bucket),
            _ => None,
        };
        self.due = Time::MAX;
        while self.queue.backlog().packets > 0 {
            if let Some(Err(later)) = bucket.as_mut().map(|bucket| bucket.ready(now)) {
                self.due = later;
                return;
            }
            let Some(mut packet) = self.queue.dequeue(now, &mut Leaving(below)) else {
                return;
            };
            if let Some(bucket) = &mut bucket {
                bucket.charge(now, packet.size());
            }
            below.completed(now, &packet);
            while let Some(segment) = Some(&mut packet).filter(|_| self.cuts).and_then(Cut::cut) {
                below.left(now, segment);
            }
            below.left(now, packet);
        }
    }
    fn fill_ring(&mut self, now: Time, below: &mut impl Below<P>) {
        while self.in_ring < self.most_in_ring && self.limits.as_ref().is_none_or(Dql::open) {
            let Some(packet) = self.queue.dequeue(now, &mut Leaving(below)) else {
                break;
            };
            let size = packet.size();
            self.ring.push_back(packet);
            self.in_ring += 1;
            self.bytes_in_ring += size;
            if let Some(limits) = &mut self.limits {
                limits.queued(size);
            }
        }
        self.start(now);
    }
    fn start(&mut self, now: Time) {
        if self.sending.is_some() {
            return;
        }
        let first = self
            .ring
            .front_mut()
            .filter(|_| self.cuts)
            .and_then(Cut::cut);
        self.sending = match first {
            Some(segment) => Some((segment, false)),
            None => self.ring.pop_front().map(|packet| (packet, true)),
        };
        self.due = match (&self.sending, &mut self.server) {
            (Some((packet, _)), Server::Wire(wire)) => wire.serve(now, packet.size()),
            _ => Time::MAX,
        };
    }
    /// Handles everything that has left by `now`.
    pub fn poll(&mut self, now: Time, below: &mut impl Below<P>) {
        loop {
            let at = self.next();
            if at > now || at == Time::MAX {
                return;
            }
            if self.wake == at {
                self.queue.on_wakeup(at, &mut Leaving(below));
                self.flush(at, below);
                continue;
            }
            let Some((packet, last)) = self.sending.take() else {
                self.flush(at, below);
                continue;
            };
            self.left += packet.size();
            if last {
                let size = core::mem::take(&mut self.left);
                self.in_ring -= 1;
                self.bytes_in_ring = self.bytes_in_ring - size;
                if let Some(limits) = &mut self.limits {
                    limits.completed(at, size);
                }
                below.completed(at, &packet);
            }
            below.left(at, packet);
            if last {
                self.flush(at, below);
            } else {
                self.start(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::param::Params;
    use crate::queue::{Limit, QueueContext, fifo::Fifo, fq, fq_codel, pfifo_fast::PfifoFast, red};
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// A super-packet of `segments` of 1250 bytes.
    #[derive(Clone, Debug, PartialEq)]
    struct Frame {
        flow: u64,
        segments: u64,
        entered: Time,
    }
    impl Packet for Frame {
        fn size(&self) -> Bytes {
            Bytes::new(1250 * self.segments)
        }
        fn enqueued_at(&self) -> Time {
            self.entered
        }
        fn set_enqueued_at(&mut self, now: Time) {
            self.entered = now;
        }
        fn flow_hash(&self, seed: u64) -> u32 {
            crate::packet::flow_hash(self.flow, seed)
        }
        fn ecn(&self) -> Ecn {
            Ecn::NotEct
        }
        fn set_ce(&mut self) {}
    }
    impl Cut for Frame {
        fn cut(&mut self) -> Option<Frame> {
            (self.segments > 1).then(|| {
                self.segments -= 1;
                Frame {
                    segments: 1,
                    ..self.clone()
                }
            })
        }
    }
    #[derive(Default)]
    struct Log {
        left: Vec<u64>,
        waited_from: Vec<u64>,
        completed: Vec<u64>,
        dropped: Vec<u64>,
        refused: usize,
    }
    impl Below<Frame> for Log {
        fn left(&mut self, now: Time, packet: Frame) {
            self.left.push(now.as_us());
            self.waited_from.push(packet.entered.as_us());
        }
        fn completed(&mut self, now: Time, _last: &Frame) {
            self.completed.push(now.as_us());
        }
        fn dropped(&mut self, _now: Time, packet: Frame, _why: DropReason) {
            self.dropped.push(packet.flow);
        }
        fn refused(&mut self, _now: Time, _packet: Frame, _why: DropReason) {
            self.refused += 1;
        }
        fn marked(&mut self, _now: Time, _packet: &Frame, _why: DropReason) {}
    }
    fn hand_down(
        i: &mut Interface<Frame>,
        log: &mut Log,
        flow: u64,
        now: Time,
        segments: u64,
    ) -> Fate {
        let frame = Frame {
            flow,
            segments,
            entered: Time::ZERO,
        };
        i.push(now, frame, Time::ZERO, log)
    }
    fn interface(queue: Box<dyn QueueDiscipline<Frame>>, ring: u32, bql: bool) -> Interface<Frame> {
        Interface::new(Rate::mbit(100), queue, ring, bql, true)
    }
    fn fifo(limit: u64) -> Box<dyn QueueDiscipline<Frame>> {
        Box::new(Fifo::new(Limit::Packets(limit)))
    }
    const CONTEXT: QueueContext = QueueContext {
        limit: None,
        rate: Rate::bit(100_000_000),
        hz: 1000,
        seed: 1,
    };

    /// 1250 B at 100 Mbit/s are 100 µs.
    #[test]
    fn segments_take_the_wire_one_by_one_and_complete_together() {
        let mut log = Log::default();
        let mut i = interface(Box::new(PfifoFast::new(Limit::Packets(1000))), 256, false);
        hand_down(&mut i, &mut log, 0, Time::ZERO, 3);
        hand_down(&mut i, &mut log, 0, Time::ZERO, 1);
        i.poll(Time::ZERO + Span::ms(1), &mut log);
        assert_eq!(log.left, [100, 200, 300, 400]);
        assert_eq!(log.completed, [300, 400]);
        assert_eq!((i.super_packets(), i.next()), ((0, 0), Time::MAX));
    }

    #[test]
    fn super_packets_are_not_segmented_for_a_path_that_accepts_them() {
        let mut log = Log::default();
        let mut i = Interface::new(Rate::mbit(100), fifo(1000), 256, true, false);
        hand_down(&mut i, &mut log, 0, Time::ZERO, 3);
        i.poll(Time::ZERO + Span::ms(1), &mut log);
        assert_eq!(
            (log.left, log.completed),
            (alloc::vec![300], alloc::vec![300])
        );
    }

    /// Debts are paid first: 2500 B at 100 Mbit/s are 200 µs; the burst of 1250 B is credit at the
    /// start.
    #[test]
    fn behind_htb_a_super_packet_leaves_at_once_and_is_paid_for_afterwards() {
        let mut log = Log::default();
        let mut i = Interface::behind_htb(Rate::mbit(100), Bytes::new(1250), fifo(1000), true);
        for _ in 0..3 {
            hand_down(&mut i, &mut log, 0, Time::ZERO, 2);
        }
        i.poll(Time::ZERO + Span::ms(1), &mut log);
        assert_eq!(log.left, [0, 0, 100, 100, 300, 300]);
        assert_eq!(
            (log.completed, i.next()),
            (alloc::vec![0, 100, 300], Time::MAX)
        );
    }

    #[test]
    fn a_ring_is_limited_and_packets_rejected_by_the_queue_count_as_unsent() {
        let mut log = Log::default();
        let mut i = interface(fifo(1000), 4, false);
        let fates: Vec<Fate> = (0..1010)
            .map(|_| hand_down(&mut i, &mut log, 0, Time::ZERO, 2))
            .collect();
        assert_eq!(
            (i.super_packets(), log.refused, log.dropped.len()),
            ((4, 1000), 6, 0)
        );
        assert!(
            fates[..1004].iter().all(|f| *f == Fate::Sent)
                && fates[1004..].iter().all(|f| *f == Fate::Refused)
        );
    }

    /// `fq_codel` drops the head of the longest queue: its owner sees congestion if its packet is
    /// entering; other flows get no report.
    #[test]
    fn a_drop_of_another_packet_reports_only_congestion() {
        let mut log = Log::default();
        let params = Params::defaults(fq_codel::PARAMS);
        let queue = (fq_codel::kind::<Frame>().make)(
            &params,
            &QueueContext {
                limit: Some(Limit::Packets(10)),
                ..CONTEXT
            },
        );
        let mut i = interface(queue, 1, false);
        let fates: Vec<Fate> = (0..13)
            .map(|_| hand_down(&mut i, &mut log, 7, Time::ZERO, 1))
            .collect();
        assert_eq!(
            fates.iter().filter(|f| **f == Fate::Congested).count(),
            log.dropped.len().min(1)
        );
        assert!(!log.dropped.is_empty() && log.dropped.iter().all(|flow| *flow == 7));
        while i.super_packets().1 < 10 {
            hand_down(&mut i, &mut log, 7, Time::ZERO, 1);
        }
        let before = log.dropped.len();
        assert_eq!(hand_down(&mut i, &mut log, 8, Time::ZERO, 1), Fate::Sent);
        assert!(log.dropped.len() > before && log.refused == 0);
    }

    /// RED drops by its control law: the packet counts as sent.
    #[test]
    fn a_packet_dropped_by_the_aqm_counts_as_sent() {
        let mut log = Log::default();
        let mut i = interface(
            (red::kind::<Frame>().make)(&Params::defaults(red::PARAMS), &CONTEXT),
            1,
            false,
        );
        let mut seen = [0; 3];
        for n in 0..3000u64 {
            let fate = hand_down(&mut i, &mut log, 7, Time::ZERO + Span::us(n), 1);
            seen[fate as usize] += 1;
        }
        assert!(seen[Fate::Congested as usize] > 0, "{seen:?}");
        assert_eq!(log.dropped.len(), seen[Fate::Congested as usize]);
        assert_eq!(log.refused, seen[Fate::Refused as usize]);
    }

    /// `fq` holds packets until they may leave, and the wire wakes for it.
    #[test]
    fn a_departure_time_is_kept_by_a_discipline_that_paces() {
        let mut log = Log::default();
        let mut i = interface(
            (fq::kind::<Frame>().make)(&Params::defaults(fq::PARAMS), &CONTEXT),
            256,
            true,
        );
        for ms in [0, 5, 10] {
            let frame = Frame {
                flow: 1,
                segments: 1,
                entered: Time::ZERO,
            };
            let departs = Time::ZERO + Span::ms(ms);
            assert_eq!(i.push(Time::ZERO, frame, departs, &mut log), Fate::Sent);
        }
        while i.next() < Time::MAX {
            i.poll(i.next(), &mut log);
        }
        // Ten microseconds of timer slack and a hundred on the wire.
        assert_eq!(log.left, [100, 5110, 10_110]);
        // No packet counts as waiting before the departure time that it requested.
        assert_eq!(log.waited_from, [0, 5000, 10_000]);
    }

    /// With a device that takes no time, `fq` alone determines departures, of all segments at once.
    #[test]
    fn a_free_device_gets_due_packets_and_fq_holds_the_others() {
        let mut log = Log::default();
        let mut i = Interface::free(
            (fq::kind::<Frame>().make)(&Params::defaults(fq::PARAMS), &CONTEXT),
            true,
        );
        for ms in [0, 3, 5] {
            let frame = Frame {
                flow: 1,
                segments: 2,
                entered: Time::ZERO,
            };
            i.push(Time::ZERO, frame, Time::ZERO + Span::ms(ms), &mut log);
        }
        assert_eq!((log.left.len(), log.completed.len()), (2, 1));
        while i.next() < Time::MAX {
            i.poll(i.next(), &mut log);
        }
        assert_eq!(log.left, [0, 0, 3010, 3010, 5010, 5010]);
        assert_eq!(log.completed, [0, 3010, 5010]);
    }

    /// A discipline that requests wake-ups at 1, 2 and 3 ms, and counts them.
    #[derive(Default)]
    struct Clock(Arc<AtomicU64>);
    impl QueueDiscipline<Frame> for Clock {
        fn enqueue(&mut self, _: Time, _: Frame, _: &mut dyn Sink<Frame>) {}
        fn dequeue(&mut self, _: Time, _: &mut dyn Sink<Frame>) -> Option<Frame> {
            None
        }
        fn next_wakeup(&self) -> Option<Time> {
            let times = self.0.load(Ordering::Relaxed);
            (times < 3).then(|| Time::ZERO + Span::ms(times + 1))
        }
        fn on_wakeup(&mut self, _: Time, _: &mut dyn Sink<Frame>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn backlog(&self) -> Backlog {
            Backlog::default()
        }
    }
    #[test]
    fn a_discipline_gets_its_requested_wakeup() {
        let woken = Arc::new(AtomicU64::new(0));
        let mut i = interface(Box::new(Clock(woken.clone())), 1, false);
        for ms in 1..=3 {
            assert_eq!(i.next(), Time::ZERO + Span::ms(ms));
            i.poll(i.next(), &mut Log::default());
            assert_eq!(woken.load(Ordering::Relaxed), ms);
        }
        assert_eq!(i.next(), Time::MAX);
    }

    /// A sender with unlimited data: the limit settles at the need of one completion, about two
    /// super-packets, and not at the size of the ring.
    #[test]
    fn byte_queue_limits_keep_the_ring_short_and_the_wire_busy() {
        let mut log = Log::default();
        let mut i = interface(fifo(1000), 256, true);
        let mut now = Time::ZERO;
        let mut most = 0;
        for _ in 0..50_000 {
            while i.super_packets().1 < 3 {
                hand_down(&mut i, &mut log, 0, now, 2);
            }
            if now > Time::ZERO + Span::s(2) {
                most = most.max(i.super_packets().0);
            }
            now = i.next();
            i.poll(now, &mut log);
        }
        assert!(most <= 3, "{most} super-packets of 2500 B in the ring");
        // No idle microsecond.
        assert_eq!(
            log.left.len() as u64 * 100,
            log.left.last().copied().unwrap_or(0)
        );
    }
}
