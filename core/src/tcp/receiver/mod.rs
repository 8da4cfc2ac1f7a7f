//! The receiver of a connection as in Linux 6.12, with an application that reads all data at once
//! or after a short random latency.
//!
//! | file | contents |
//! |---|---|
//! | `expected` | the path of the next full segment |
//! | `ack` | ACK timing: every second segment, quick ACKs, delayed ACKs, compressed ACKs |
//! | `sack` | out-of-order data, and the SACK blocks that report it |
//! | `window` | auto-tuning of the buffer, and the advertised window |
//! | `ecn` | marks: latched, echoed or counted, or accurate ECN |

mod ack;
mod ecn;
mod expected;
mod sack;
mod window;

use super::paws;
use super::wire::{AckMarks, AckSegment, MAX_SACKS, Range, Segment, SynAcks};
use super::{Config, EcnUse};
use crate::kernel::Rule;
use crate::packet::{Ecn, Feedback};
use crate::prefetch::{Prefetch, record};
use crate::rng::Rng;
use crate::transport::Jiffies;
use crate::units::{MaybeTime, Span, Time};
use ack::{Acks, Due};
use ecn::Heed;
use sack::Holes;
use window::Window;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Listen,
    SynReceived,
    Established,
}

/// A segment from the receiver.
#[derive(Copy, Clone)]
enum Reply {
    /// The answer to a SYN, at this time.
    SynAck(Time),
    /// An ACK up to this byte, with ECE or without.
    Ack(u64, bool),
}

/// Data that waits for the application to run. The buffer is resized when the first packet of a
/// read has been copied. All other data read at the same instant counts for the next round.
#[derive(Copy, Clone, Debug)]
struct Unread {
    /// The time when the application runs.
    at: Time,
    /// The first byte.
    start: u64,
    /// The end of the first packet.
    first_end: u64,
    segments: u8,
    /// Whether the first packet takes no more segments.
    full: bool,
}

/// The reading application, which runs some microseconds after its wake-up. The latency of the
/// application decides which segments count for a round of the receive buffer's tuning. Segments
/// that make the window grow are acknowledged singly. With a constant round trip and no latency,
/// every round would end at the same segment. The latency does not delay the other consequences of
/// reading. Room in the buffer and the ACK of a write's end take effect when the segment arrives.
#[derive(Clone, Debug, Default)]
struct Reader {
    /// Maximum latency; the latency is uniformly distributed from zero.
    latency: Span,
    rng: Rng,
}

impl Reader {
    /// Draws a latency.
    fn late(&mut self) -> Span {
        Span::ns(self.rng.below(self.latency.as_ns()))
    }
}

impl SynAcks {
    /// The round trip that the ACK `seg` of a SYN-ACK shows, µs. After several SYN-ACKs only the
    /// echo of a timestamp shows it, in whole milliseconds (`tcp_synack_rtt_meas`); without
    /// timestamps, the result is zero.
    fn rtt_us(self, now: Time, seg: &Segment, stamps: bool) -> u64 {
        if self.repeats == 0 {
            now.since(self.first).as_us().max(1)
        } else if stamps {
            u64::from(super::sender::stamp(now).saturating_sub(seg.tsecr).max(1)) * 1000
        } else {
            0
        }
    }
}

/// `number`, at most `u32::MAX`.
fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

const NO_DSACK: Range = Range {
    start: u64::MAX,
    end: u64::MAX,
};

/// A receiver.
#[derive(Clone, Debug)]
pub struct Receiver {
    ticks: Jiffies,
    phase: Phase,
    /// The next expected byte: every byte below has arrived.
    nxt: u64,
    /// Timestamp to echo: the newest one of segments that started at or below the last ACK number
    /// when they arrived (RFC 7323).
    ts_recent: u32,
    /// Time that the timestamps of ACKs carry: that of the last arrival or timer. Without
    /// [`Rule::CompressedAckStamp`], a compressed ACK carries the time of the last arrival.
    clock: Time,
    holes: Holes,
    acks: Acks,
    window: Window,
    /// Whether the receiver sends selective acknowledgements (SACK).
    sack: bool,
    /// Whether segments have timestamps.
    stamps: bool,
    /// The duplicate data that the next ACK reports, or [`NO_DSACK`].
    dsack: Range,
    /// The kind of ECN that the receiver accepts.
    ecn: EcnUse,
    marks: ecn::Marks,
    /// Routers' feedback for the next ACK.
    feedback: Feedback,
    /// Data for which the application was woken; when the application runs, it reads all data that
    /// has arrived.
    unread: Option<Unread>,
    reader: Reader,

    syn_acks: SynAcks,
    syn_ack_timer: MaybeTime,
    /// The longest timeout of a SYN-ACK.
    syn_ack_longest: Span,
    /// Round trip of the handshake, µs, at most 71 minutes; the upper bound of the ACK delay. Zero:
    /// not measured.
    rtt_us: u32,
}

/// Maximum number of repeated SYN-ACKs, at 1, 3, 7 … s (`tcp_synack_retries`).
const SYN_ACK_RETRIES: u32 = 5;

impl Receiver {
    /// A listening receiver.
    pub fn new(cfg: &Config) -> Receiver {
        let ticks = Jiffies::new(cfg.hz);
        Receiver {
            ticks,
            phase: Phase::Listen,
            nxt: 0,
            ts_recent: 0,
            clock: Time::ZERO,
            holes: Holes::new(cfg.announced().min(cfg.options(false).payload())),
            acks: Acks::new(cfg, ticks),
            window: Window::new(cfg),
            sack: cfg.sack,
            stamps: cfg.timestamps,
            dsack: NO_DSACK,
            ecn: cfg.ecn,
            marks: ecn::Marks::default(),
            feedback: Feedback::default(),
            unread: None,
            reader: Reader::default(),
            syn_acks: SynAcks::default(),
            syn_ack_timer: MaybeTime::NONE,
            syn_ack_longest: if cfg.kernel.follows(Rule::SynAckRtoMax) {
                cfg.longest_timeout()
            } else {
                super::rtt::RTO_MAX
            },
            rtt_us: 0,
        }
    }
    /// Returns this receiver with an application that reads after a random time of up to `latency`;
    /// without this call, the application reads at once.
    pub fn reading(mut self, latency: Span, rng: Rng) -> Receiver {
        self.reader = Reader { latency, rng };
        self
    }

    /// This end has opened the connection, with a round trip of `rtt_us`; its sender performed the
    /// handshake. `ecn` is the kind that both ends agreed on.
    pub fn accept(&mut self, now: Time, rtt_us: u64, ecn: EcnUse) {
        self.phase = Phase::Established;
        self.clock = now;
        self.marks.agree(ecn);
        self.rtt_us = u32_of(rtt_us.max(1));
        self.window.established(now, self.nxt);
        self.acks.established(self.ticks.at(now));
    }
    /// The SYN-ACKs of the handshake, once it is complete.
    pub fn established(&self) -> Option<SynAcks> {
        (self.phase == Phase::Established).then_some(self.syn_acks)
    }
    /// The receive window that the last ACK advertised, in bytes.
    pub fn offered(&self) -> u64 {
        self.window.offered()
    }
    /// The kind of ECN that both ends agreed on.
    pub fn agreed(&self) -> EcnUse {
        self.marks.agreed()
    }
    /// Bytes handed to the application, in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.nxt
    }

    /// Bytes that have arrived, including those behind holes, each counted once.
    pub fn received_bytes(&self) -> u64 {
        self.nxt + self.holes.bytes()
    }

    /// Kernel memory of the data behind holes, in bytes.
    pub fn waiting_memory(&self) -> u64 {
        self.holes.truesize
    }

    /// Handles an arriving segment. It is inlined, so that the segment need not be in memory.
    #[inline(always)]
    pub fn on_segment(&mut self, now: Time, seg: &Segment, wire: &mut impl FnMut(AckSegment)) {
        let tick = self.ticks.at(now);
        if self.expects(now, seg) {
            self.on_expected_segment(now, tick, seg, wire);
        } else {
            // A copy, so that the other path needs no segment in memory.
            let segment = *seg;
            self.on_any_segment(now, &segment, wire);
        }
    }

    /// Handles any segment.
    #[inline(never)]
    fn on_any_segment(&mut self, now: Time, seg: &Segment, wire: &mut impl FnMut(AckSegment)) {
        self.clock = now;
        if seg.syn || self.phase != Phase::Established {
            let fields = Segment {
                seq: seg.seq,
                tsval: seg.tsval,
                tsecr: seg.tsecr,
                syn: seg.syn,
                ecn: seg.ecn,
                cwr: seg.cwr,
                ..Segment::default()
            };
            if !self.on_handshake(now, &fields, wire) {
                return;
            }
        }
        if seg.len > 0 && paws::is_past(self.ts_recent, seg.tsval) {
            return self.refuse(seg.seq, seg.len, wire);
        }
        self.acks.now |= self.marks.on_packet(seg.ecn, seg.len);
        if seg.len > 0 {
            self.on_data(now, seg, wire);
        } else if seg.seq < self.nxt {
            // An old segment without data is a window probe.
            self.send_ack(wire);
        }
    }

    /// Handles a SYN, or the segment that ends the handshake. Returns whether the segment may
    /// contain data.
    #[inline(never)]
    fn on_handshake(
        &mut self,
        now: Time,
        seg: &Segment,
        wire: &mut impl FnMut(AckSegment),
    ) -> bool {
        if seg.syn {
            if self.phase != Phase::Established {
                // Of several SYNs the first to arrive counts: each SYN-ACK echoes its timestamp
                // (`tcp_check_req`).
                if self.phase == Phase::Listen {
                    if self.stamps {
                        self.ts_recent = seg.tsval;
                    }
                    self.marks.on_syn(self.ecn, seg);
                    self.syn_acks.first = now;
                } else {
                    self.syn_acks.repeats += 1;
                }
                self.phase = Phase::SynReceived;
                self.send_syn_ack(now, wire);
            }
            return false;
        }
        if self.phase == Phase::Listen {
            return false;
        }
        self.phase = Phase::Established;
        self.syn_ack_timer = MaybeTime::NONE;
        if seg.seq == 0 && self.stamps {
            self.ts_recent = self.ts_recent.max(seg.tsval);
        }
        self.rtt_us = u32_of(self.syn_acks.rtt_us(now, seg, self.stamps));
        self.window.established(now, self.nxt);
        self.acks.established(self.ticks.at(now));
        true
    }

    /// Rejects data with an old timestamp: the data is answered with an ACK and otherwise ignored.
    #[inline(never)]
    fn refuse(&mut self, seq: u64, len: u32, wire: &mut impl FnMut(AckSegment)) {
        if seq < self.nxt {
            let end = (seq + u64::from(len)).min(self.nxt);
            self.dsack = Range { start: seq, end };
            self.acks
                .enter_quick(self.window.quick_acks(ack::MAX_QUICK));
        }
        self.send_ack(wire);
    }

    #[inline(always)]
    fn on_data(&mut self, now: Time, seg: &Segment, wire: &mut impl FnMut(AckSegment)) {
        if let Some(header) = &seg.congestion {
            self.feedback = self.feedback.and(header.feedback);
        }
        if self.unread.as_ref().is_some_and(|unread| unread.at < now) {
            self.read();
        }
        let range = Range {
            start: seg.seq,
            end: seg.seq + u64::from(seg.len),
        };
        // A segment that ends before the last ACK number is answered and otherwise ignored.
        if range.end >= self.acks.acked {
            // In any position: while a hole is open, only data beyond it shows how the round trip
            // grows.
            self.window
                .measure_rtt_by_stamp(now, seg, self.unread.is_some());
            if seg.seq <= self.acks.acked && self.stamps {
                self.ts_recent = self.ts_recent.max(seg.tsval);
            }
            if seg.cwr {
                self.marks.on_cwr();
                self.acks.now = true;
            }
        }
        if range.end <= self.nxt {
            return self.on_duplicate(range, wire);
        }
        self.window.measure_segment(seg.len);
        if range.start > self.nxt {
            if self.marks.on() {
                self.read_marks(seg.ecn, wire);
            }
            self.on_out_of_order(now, seg.len, range, wire);
        } else {
            self.on_in_order(now, seg, range.end, wire);
        }
    }

    /// The application has read all data.
    #[inline]
    fn read(&mut self) {
        if let Some(unread) = self.unread.take() {
            let end = || self.holes.end().unwrap_or(self.nxt);
            self.window.read(unread.at, unread.first_end, self.nxt, end);
        }
    }

    /// Handles data that has all arrived before: reports it at once, and sends quick ACKs for a
    /// while.
    #[inline(never)]
    fn on_duplicate(&mut self, range: Range, wire: &mut impl FnMut(AckSegment)) {
        self.dsack = range;
        self.acks
            .enter_quick(self.window.quick_acks(ack::MAX_QUICK));
        self.acks.schedule();
        self.send_ack(wire);
    }

    #[inline(always)]
    fn on_in_order(
        &mut self,
        now: Time,
        seg: &Segment,
        end: u64,
        wire: &mut impl FnMut(AckSegment),
    ) {
        self.nxt = end;
        // Data that fills up from behind the hole stays charged until the application has read it.
        let segments = match self.unread {
            Some(unread) => window::truesize_of(
                Range {
                    start: unread.start,
                    end,
                },
                self.holes.mss(),
            ),
            None => window::truesize(seg.len),
        };
        let mut queued = segments + self.holes.truesize;
        let tick = self.ticks.at(now);
        self.data_arrived(tick, seg.psh, seg.len < self.window.segment());
        if self.marks.on() {
            self.read_marks(seg.ecn, wire);
        }
        self.window.measure_rtt_by_window(now, self.nxt);
        if self.window.grow(seg.len, queued, true) {
            self.acks.quick |= 1;
        }
        self.wait_for_reader(now, seg.seq, self.nxt);
        if !self.holes.is_empty() {
            queued = self.fill_hole(now, queued);
        }
        self.acknowledge(now, tick, queued, wire);
    }

    /// The delay of ACKs follows the gap since the last data.
    #[inline(always)]
    fn data_arrived(&mut self, tick: u64, pushed: bool, short: bool) {
        self.acks.data_arrived(
            tick,
            pushed,
            short,
            || self.window.quick_acks(ack::MAX_QUICK),
            || rto_ticks(self.ticks, self.rtt_us.into()),
        );
    }

    /// Sends an ACK of data that has arrived in order, if one is due, or sets its timer. `queued`:
    /// kernel memory of data that is out of order or unread.
    #[inline(always)]
    fn acknowledge(
        &mut self,
        now: Time,
        tick: u64,
        queued: u64,
        wire: &mut impl FnMut(AckSegment),
    ) {
        self.window.queued = queued;
        // Before the application has read, two segments cause an ACK only if it would not shrink
        // the window.
        let many = self.nxt - self.acks.acked > u64::from(self.window.segment())
            && self.window.holds(&mut self.acks.quick);
        self.check_ack(now, tick, many, wire);
        // The application reads everything.
        self.window.queued = self.holes.truesize;
        let due = self.acks.scheduled
            && (self.nxt - self.acks.acked > u64::from(self.window.segment())
                || (self.acks.once_read() && self.window.queued == 0));
        // Room for twice the window is reported even if no data awaits its ACK.
        if due
            || self
                .window
                .doubled(self.acks.acked, self.nxt, &mut self.acks.quick)
        {
            self.send_ack(wire);
        }
    }

    /// Joins data behind the hole, if the data before it is now complete. Returns the kernel memory
    /// of data that is out of order or unread, which was `queued` before.
    #[inline(never)]
    fn fill_hole(&mut self, now: Time, queued: u64) -> u64 {
        let end = self.nxt;
        self.nxt = self.holes.fill(end);
        self.wait_for_reader(now, end, self.nxt);
        if self.holes.is_empty() {
            self.acks.whole();
        }
        match self.unread {
            // Data behind the hole has been merged with it.
            Some(unread) if self.nxt > end => {
                let run = Range {
                    start: unread.start,
                    end: self.nxt,
                };
                self.holes.truesize + window::truesize_of(run, self.holes.mss())
            }
            _ => queued,
        }
    }

    /// Handles the ECN bits of data.
    #[inline(never)]
    fn read_marks(&mut self, ecn: Ecn, wire: &mut impl FnMut(AckSegment)) {
        match self.marks.on_data(ecn, self.nxt) {
            Heed::Nothing => {}
            Heed::Quick => self.acks.enter_quick(self.window.quick_acks(ecn::QUICK)),
            Heed::After(nxt, echo) => {
                if self.acks.is_delayed() {
                    self.emit(Reply::Ack(nxt, echo), wire);
                    self.acks.sent_before(self.nxt);
                }
                self.acks.now = true;
            }
        }
    }

    /// Data from `start` up to `end` waits for the application. Neighbours are merged into one
    /// packet up to its maximum size.
    #[inline]
    fn wait_for_reader(&mut self, now: Time, start: u64, end: u64) {
        let Some(unread) = &mut self.unread else {
            self.unread = Some(Unread {
                at: now + self.reader.late(),
                start,
                first_end: end,
                segments: 1,
                full: false,
            });
            return;
        };
        let more = (end - unread.first_end).div_ceil(u64::from(self.holes.mss()));
        if more == 0 || unread.full {
            return;
        }
        let merged = more.min(window::MERGED);
        unread.full = u64::from(unread.segments) + merged > window::MERGED;
        if !unread.full {
            unread.segments += merged as u8;
            unread.first_end = end;
        }
    }

    #[inline(always)]
    fn on_out_of_order(
        &mut self,
        now: Time,
        len: u32,
        range: Range,
        wire: &mut impl FnMut(AckSegment),
    ) {
        if !self.window.admits(self.holes.truesize) {
            return;
        }
        self.acks.schedule();
        let waiting = self.holes.truesize;
        let duplicate = !self.holes.extend(range) && self.arrive(range, wire);
        // A separate packet is charged to the buffer after the window was opened for it, a merged
        // one before. The first duplicate of an episode may therefore open a window that in-order
        // data no longer can.
        let merged = self.holes.truesize < waiting + window::truesize(len);
        let queued = if merged { self.holes.truesize } else { waiting };
        // Without SACK the window stays constant meanwhile: an ACK that moves it is no duplicate.
        if self.sack && !duplicate && self.window.grow(len, queued, merged) {
            self.acks.quick |= 1;
        }
        self.window.queued = self.holes.truesize;
        if let Some(end) = self.holes.end() {
            self.window.holds_back(end - self.nxt);
        }
        let many = self.nxt - self.acks.acked > u64::from(self.window.segment());
        self.check_ack(now, self.ticks.at(now), many, wire);
    }

    /// Adds `range` beyond a hole to the data and to the SACK blocks; returns whether all of it is
    /// a duplicate.
    #[inline(never)]
    fn arrive(&mut self, range: Range, wire: &mut impl FnMut(AckSegment)) -> bool {
        let duplicate = self.holes.arrive(range);
        if duplicate {
            self.dsack = range;
        }
        let place = self.holes.place_of_block(range);
        if self.holes.is_unexpected(place) && self.acks.compressed > 0 {
            // A pending compressed ACK leaves before the blocks that it would report are evicted.
            // It replaces this segment's ACK.
            self.window.queued = self.holes.truesize;
            self.send_ack(wire);
        }
        self.holes.report(place, range);
        duplicate
    }

    /// Sends the pending ACK, or sets its timer. `tick`: the tick of `now`. `many`: more data than
    /// one full segment is unacknowledged.
    #[inline(always)]
    fn check_ack(&mut self, now: Time, tick: u64, many: bool, wire: &mut impl FnMut(AckSegment)) {
        if !self.acks.scheduled {
            return;
        }
        let leaves = self.acks.at_once(many)
            || if self.holes.is_empty() {
                self.acks.delay(tick, self.ticks, self.rtt_us.into())
            } else {
                !self.sack || self.acks.compress(now, self.nxt, self.least_rtt_us())
            };
        if leaves {
            self.send_ack(wire);
        }
    }

    /// The lesser of two round trips, µs: the one measured for the window, and that of the
    /// handshake if this end measured it.
    #[inline]
    fn least_rtt_us(&self) -> u64 {
        let rtt_us = self.window.rtt_us();
        if self.rtt_us > 0 {
            rtt_us.min(self.rtt_us.into())
        } else {
            rtt_us
        }
    }

    /// Own data leaves: returns the ACK that it carries, if one is pending.
    pub fn on_write(&mut self, now: Time) -> Option<AckSegment> {
        if self.phase != Phase::Established {
            return None;
        }
        let mut rides = None;
        if self.acks.scheduled {
            self.clock = now;
            self.send_ack(&mut |ack| rides = Some(ack));
        }
        self.acks.own_data(self.ticks.at(now));
        rides
    }

    /// A pure ACK acknowledged own data and echoed this timestamp.
    pub fn on_own_acknowledged(&mut self, tsecr: u32) {
        self.window.heard(tsecr);
    }

    /// Handles the time that `next_wakeup` returned (an early call has no effect).
    pub fn on_timer(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        if self.syn_ack_timer.is_due(now) {
            self.syn_ack_timer = MaybeTime::NONE;
            if self.phase == Phase::SynReceived && self.syn_acks.timeouts < SYN_ACK_RETRIES {
                self.syn_acks.timeouts += 1;
                self.syn_acks.repeats += 1;
                self.send_syn_ack(now, wire);
            }
        }
        let rto = rto_ticks(self.ticks, self.rtt_us.into());
        if let Some(due) = self.acks.timer_fired(now, rto) {
            if due == Due::Delayed || self.acks.stamps_compressed() {
                self.clock = now;
            }
            self.send_ack(wire);
        }
    }

    /// Returns when `on_timer` must be called.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        self.due().get()
    }

    /// As [`next_wakeup`](Self::next_wakeup).
    #[inline]
    pub fn due(&self) -> MaybeTime {
        MaybeTime::at(self.syn_ack_timer.or_max().min(self.acks.next_wakeup()))
    }

    fn send_syn_ack(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        let tick = self.ticks.at(now);
        let doubled = super::rtt::RTO_INITIAL_US << self.syn_acks.timeouts.min(SYN_ACK_RETRIES);
        let wait = self
            .ticks
            .from_us(doubled.min(self.syn_ack_longest.as_us()));
        self.syn_ack_timer = MaybeTime::at(self.ticks.fires(tick, tick + wait));
        self.emit(Reply::SynAck(now), wire);
    }

    #[inline(always)]
    fn send_ack(&mut self, wire: &mut impl FnMut(AckSegment)) {
        self.emit_ack(wire);
        self.acks.sent(self.nxt);
    }

    /// The timestamp of a segment from this end that leaves at `now`.
    #[inline]
    fn stamp(&self, now: Time) -> u32 {
        if self.stamps {
            super::sender::stamp(now)
        } else {
            0
        }
    }

    /// Calls `wire` with an ACK. Only this function and [`emit`](Self::emit) call `wire`, so that
    /// the compiler can inline it in both.
    #[inline(never)]
    fn emit_ack(&mut self, wire: &mut impl FnMut(AckSegment)) {
        if self.is_plain() {
            wire(self.plain_ack(self.nxt));
        } else {
            self.emit(Reply::Ack(self.nxt, self.marks.echo()), wire);
        }
    }

    #[inline(never)]
    fn emit(&mut self, reply: Reply, wire: &mut impl FnMut(AckSegment)) {
        wire(match reply {
            Reply::SynAck(now) => self.syn_ack(now),
            Reply::Ack(nxt, echo) => self.ack(nxt, echo),
        });
    }

    /// Builds a SYN-ACK.
    #[inline(always)]
    fn syn_ack(&mut self, now: Time) -> AckSegment {
        AckSegment {
            syn: true,
            window: self.window.offered(),
            tsval: self.stamp(now),
            tsecr: self.ts_recent,
            ece: self.marks.on(),
            marks: AckMarks::new(self.marks.answer(), self.marks.handshake())
                .with_timestamps(self.stamps)
                .with_counters(self.marks.option(0).0),
            ..AckSegment::default()
        }
    }

    /// Returns whether an ACK has no SACK blocks, marks or feedback now.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.holes.is_empty()
            && self.dsack == NO_DSACK
            && !self.marks.on()
            && self.feedback == Feedback::default()
    }

    /// As [`ack`](Self::ack), if [`is_plain`](Self::is_plain) returns true.
    #[inline(always)]
    fn plain_ack(&mut self, ack: u64) -> AckSegment {
        AckSegment {
            ack,
            window: self.offer(),
            tsval: self.stamp(self.clock),
            tsecr: self.ts_recent,
            marks: AckMarks::default().with_timestamps(self.stamps),
            ..AckSegment::default()
        }
    }

    /// The window of an ACK that leaves now.
    #[inline(always)]
    fn offer(&mut self) -> u64 {
        self.window
            .offer(self.acks.acked, self.nxt, &mut self.acks.quick)
    }

    /// Builds an ACK with the acknowledgement number `ack`.
    #[inline(always)]
    fn ack(&mut self, ack: u64, ece: bool) -> AckSegment {
        let window = self.offer();
        let mut sacks = [Range::default(); MAX_SACKS];
        let mut n = 0;
        if self.sack {
            if self.dsack != NO_DSACK {
                sacks[0] = core::mem::replace(&mut self.dsack, NO_DSACK);
                n = 1;
            }
            n += self.holes.copy_blocks(&mut sacks[n..]);
        }
        let (counters, bytes, n_sacks) = self.marks.option(n as u8);
        AckSegment {
            ack,
            window,
            tsval: self.stamp(self.clock),
            tsecr: self.ts_recent,
            n_sacks,
            sacks,
            syn: false,
            ece,
            marks: AckMarks::new(self.marks.ace(), self.marks.control())
                .with_timestamps(self.stamps),
            feedback: core::mem::take(&mut self.feedback),
        }
        .with_option(counters, bytes)
    }
}

/// The retransmission timeout that results from the round trip of the handshake alone, in ticks.
fn rto_ticks(ticks: Jiffies, rtt_us: u64) -> u64 {
    ticks.from_us(match rtt_us {
        0 => super::rtt::RTO_INITIAL_US,
        us => us + super::rtt::RTO_MIN_US.max(2 * us),
    })
}

impl Prefetch for Receiver {
    type Event = Segment;
    /// Passes the first and the last range of data behind a hole to `load`.
    #[inline]
    fn prefetch(&self, _segment: Option<&Segment>, mut load: impl FnMut(*const u8, usize)) {
        if let Some((first, last)) = self.holes.ends() {
            record(first, &mut load);
            record(last, &mut load);
        }
    }
}

#[cfg(test)]
mod tests;
