//! The receiving end of a connection, as Linux 6.12 runs it, with an application that reads at once.
//!
//! | file | holds |
//! |---|---|
//! | `ack` | when an ACK leaves: every second segment, quick ACKs, delayed ACKs, compressed ones |
//! | `sack` | what arrived out of order, and the blocks that report it |
//! | `window` | how much may come: auto-tuning of the buffer, the window offered |

mod ack;
mod sack;
mod window;

use super::timer::Ticks;
use super::wire::{AckSegment, Range, Segment, MAX_SACKS};
use super::Config;
use crate::units::Time;
use ack::Acks;
use sack::Holes;
use window::Window;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Listen,
    SynReceived,
    Established,
}

/// One receiver.
#[derive(Clone, Debug)]
pub struct Receiver {
    ticks: Ticks,
    phase: Phase,
    /// Every byte below has arrived and was read.
    nxt: u64,
    /// Timestamp to echo: that of the segment that came when the last ACK's edge was due.
    ts_recent: u32,
    holes: Holes,
    acks: Acks,
    window: Window,
    dsack: Option<Range>,
    /// When the application was last woken; it reads once for all that arrived in one instant.
    woken: Option<Time>,

    syn_ack_sent: Time,
    syn_ack_timer: Option<Time>,
    syn_ack_timeouts: u32,
    /// Handshake round trip, µs: bounds delayed ACKs.
    rtt_us: u64,
}

/// A SYN-ACK is repeated at 1, 3, 7 … s, five times (`tcp_synack_retries`).
const SYN_ACK_RETRIES: u32 = 5;

impl Receiver {
    /// A receiver that listens.
    pub fn new(cfg: &Config) -> Receiver {
        let ticks = Ticks::new(cfg.hz);
        Receiver {
            ticks,
            phase: Phase::Listen,
            nxt: 0,
            ts_recent: 0,
            holes: Holes::default(),
            acks: Acks::new(cfg.hz),
            window: Window::new(cfg),
            dsack: None,
            woken: None,
            syn_ack_sent: Time::ZERO,
            syn_ack_timer: None,
            syn_ack_timeouts: 0,
            rtt_us: 0,
        }
    }

    /// Bytes handed to the application, in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.nxt
    }

    /// Kernel memory taken by what waits behind a hole, in bytes.
    pub fn waiting_memory(&self) -> u64 {
        self.holes.truesize
    }

    /// A segment arrives.
    pub fn on_segment(&mut self, now: Time, seg: &Segment, wire: &mut impl FnMut(AckSegment)) {
        if seg.syn {
            if self.phase != Phase::Established {
                self.ts_recent = seg.tsval;
                self.phase = Phase::SynReceived;
                self.send_syn_ack(now, wire);
            }
            return;
        }
        match self.phase {
            Phase::Listen => return,
            Phase::SynReceived => {
                self.phase = Phase::Established;
                self.syn_ack_timer = None;
                self.rtt_us = now.since(self.syn_ack_sent).as_us().max(1);
                self.window.established(now, self.nxt);
                self.acks.established(self.ticks.at(now));
            }
            Phase::Established => {}
        }
        if seg.len > 0 {
            self.on_data(now, seg, wire);
        } else if seg.seq < self.nxt {
            // An old segment without data asks how large the window is.
            self.send_ack(now, wire);
        }
    }

    fn on_data(&mut self, now: Time, seg: &Segment, wire: &mut impl FnMut(AckSegment)) {
        let range = Range {
            start: seg.seq,
            end: seg.seq + u64::from(seg.len),
        };
        if seg.seq <= self.acks.acked {
            self.ts_recent = self.ts_recent.max(seg.tsval);
        }
        if range.end <= self.nxt {
            // Seen before: say so, at once and for a while.
            self.dsack = Some(range);
            self.acks.enter_quick(self.window.quick_acks(ack::MAX_QUICK));
            self.acks.schedule();
            self.send_ack(now, wire);
            return;
        }
        if let Some(then) = self.woken.filter(|t| *t < now) {
            self.window.read(then, self.nxt);
            self.woken = None;
        }
        self.window.measure_segment(seg.len);
        if range.start > self.nxt {
            self.on_out_of_order(now, seg.len, range, wire);
        } else {
            self.on_in_order(now, seg, range.end, wire);
        }
    }

    fn on_in_order(&mut self, now: Time, seg: &Segment, end: u64, wire: &mut impl FnMut(AckSegment)) {
        self.window.measure_rtt_by_stamp(now, seg);
        self.nxt = end;
        let queued = window::truesize(seg.len);
        self.acks.data_arrived(
            self.ticks.at(now),
            seg.psh || seg.len < self.window.segment(),
            self.window.quick_acks(ack::MAX_QUICK),
            self.rto_ticks(),
        );
        self.window.measure_rtt_by_window(now, self.nxt);
        if self.window.grow(seg.len, queued + self.holes.truesize) {
            self.acks.quick |= 1;
        }
        if !self.holes.is_empty() {
            self.nxt = self.holes.fill(self.nxt);
            if self.holes.is_empty() {
                self.acks.now = true;
            }
        }
        self.window.queued = queued + self.holes.truesize;
        self.check_ack(now, wire);
        // The application reads everything.
        self.window.queued = self.holes.truesize;
        self.woken = Some(now);
        if self.acks.scheduled
            && (self.nxt - self.acks.acked > u64::from(self.window.segment())
                || (self.acks.pushed && self.window.queued == 0)
                || self.window.doubled(self.acks.acked, self.nxt))
        {
            self.send_ack(now, wire);
        }
    }

    fn on_out_of_order(&mut self, now: Time, len: u32, range: Range, wire: &mut impl FnMut(AckSegment)) {
        if !self.window.admits(self.holes.truesize) {
            return;
        }
        self.acks.schedule();
        let duplicate = self.holes.covers(range);
        if duplicate {
            self.dsack = Some(range);
        } else {
            self.holes.insert(range);
        }
        if self.holes.third_block_or_new(range) && self.acks.compressed > 0 {
            // A pending compressed ACK leaves before the blocks it would report are pushed out. It takes this segment's
            // turn, too.
            self.window.queued = self.holes.truesize;
            self.send_ack(now, wire);
        }
        self.holes.report(range);
        if self.window.grow(len, self.holes.truesize) {
            self.acks.quick |= 1;
        }
        self.window.queued = self.holes.truesize;
        self.check_ack(now, wire);
    }

    fn check_ack(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        if !self.acks.scheduled {
            return;
        }
        let leaves = self.acks.at_once(self.nxt, self.window.segment())
            || if self.holes.is_empty() {
                self.acks.delay(now, self.ticks, self.rtt_us)
            } else {
                self.acks.compress(now, self.nxt, self.least_rtt_us())
            };
        if leaves {
            self.send_ack(now, wire);
        }
    }

    /// The round trip as the window sees it, at most that of the handshake where there is one.
    fn least_rtt_us(&self) -> u64 {
        let rtt_us = self.window.rtt_us();
        if self.rtt_us > 0 {
            rtt_us.min(self.rtt_us)
        } else {
            rtt_us
        }
    }

    /// A time that `next_wakeup` named has come (coming early does no harm).
    pub fn on_timer(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        if self.syn_ack_timer.is_some_and(|t| t <= now) {
            self.syn_ack_timer = None;
            if self.phase == Phase::SynReceived && self.syn_ack_timeouts < SYN_ACK_RETRIES {
                self.syn_ack_timeouts += 1;
                self.send_syn_ack(now, wire);
            }
        }
        let rto = self.rto_ticks();
        if self.acks.timer_fired(now, rto) {
            self.send_ack(now, wire);
        }
    }

    /// When `on_timer` must be called.
    pub fn next_wakeup(&self) -> Option<Time> {
        [self.syn_ack_timer, self.acks.next_wakeup()]
            .into_iter()
            .flatten()
            .min()
    }

    fn rto_ticks(&self) -> u64 {
        self.ticks
            .from_us(self.rtt_us + super::rtt::RTO_MIN_US.max(2 * self.rtt_us))
    }

    fn send_syn_ack(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        self.syn_ack_sent = now;
        let tick = self.ticks.at(now);
        let wait = self
            .ticks
            .from_us(super::rtt::RTO_INITIAL_US << self.syn_ack_timeouts.min(SYN_ACK_RETRIES));
        self.syn_ack_timer = Some(self.ticks.fires(tick, tick + wait));
        wire(AckSegment {
            syn: true,
            window: self.window.offered(),
            tsval: super::sender::stamp(now),
            tsecr: self.ts_recent,
            ..AckSegment::default()
        });
    }

    fn send_ack(&mut self, now: Time, wire: &mut impl FnMut(AckSegment)) {
        let window = self.window.offer(self.acks.acked, self.nxt);
        let mut sacks = [Range::default(); MAX_SACKS];
        let mut n = 0;
        for block in self.dsack.take().into_iter().chain(self.holes.blocks()).take(MAX_SACKS) {
            sacks[n] = block;
            n += 1;
        }
        wire(AckSegment {
            ack: self.nxt,
            window,
            tsval: super::sender::stamp(now),
            tsecr: self.ts_recent,
            n_sacks: n as u8,
            sacks,
            syn: false,
        });
        self.acks.sent(self.nxt);
    }
}
