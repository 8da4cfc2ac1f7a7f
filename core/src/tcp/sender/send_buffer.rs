//! The application's writes, and the socket buffer.
//!
//! The application writes 256 KiB at a time until the buffer is full. The application is woken if
//! at least a third of the buffer is free, and less than half of `TCP_NOTSENT_LOWAT` (default 128
//! KiB) is unsent. Then it writes again. After the handshake, the buffer has 46 080 B of kernel
//! memory, about 32 segments. The buffer grows to hold two congestion windows (three with BBR), but
//! only when it was full while the window was not used up. A sender that loses packets in its first
//! rounds, with SACKed data in the buffer, can therefore run out of data.
//!
//! Unsent data is in kernel buffers, each of at most one super-packet and half the peer's largest
//! window. The edges of these buffers are visible on the wire: a burst is cut from one buffer and
//! filled up from the next one only. The last kernel buffer may still grow, so deferral may wait
//! for it. Source: Linux 6.12 `tcp_sendmsg_locked`, `tcp_grow_skb`, `sk_stream_write_space`,
//! `tcp_sndbuf_expand`.

use super::chrono::Limit;
use super::output::Push;
use super::{Sender, Time};
use crate::host::Fate;
use crate::tcp::Config;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::wire::Segment;
use crate::units::MaybeTime;
use alloc::collections::VecDeque;

/// Size of a write, bytes.
const WRITE: u64 = 262_144;
/// Memory of a kernel buffer beside its payload, bytes.
const OVERHEAD: u64 = 896;
/// Space for headers that Linux adds to the maximum segment size when it sizes the socket buffer
/// (`MAX_TCP_HEADER` and `skb_shared_info`), and memory of a packet's descriptor, bytes. A segment
/// of 1460 bytes takes 2304 bytes.
const SEGMENT_HEADERS: u32 = 512;
const DESCRIPTOR: u32 = 256;
/// Kernel memory of two super-packets of 64 KiB: half of the send queue's memory may exceed the
/// socket buffer by this much.
const CUT_ALLOWANCE: u64 = 2 * (65_536 + 576);
/// Minimum number of segments of a window that the socket buffer holds.
const LEAST_SEGMENTS: u32 = 10;

/// The size of a transfer without end.
pub(super) const ENDLESS: u64 = u64::MAX;

/// One kernel buffer of unsent data: its length, which a super-packet limits, and in the highest
/// bit whether a write ended there.
#[derive(Copy, Clone, Debug, Default)]
struct Chunk(u32);

const PUSH: u32 = 1 << 31;

impl Chunk {
    fn len(self) -> u64 {
        (self.0 & !PUSH).into()
    }
    fn push(self) -> bool {
        self.0 & PUSH != 0
    }
}

/// Data that the application wrote and that was not sent.
#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    /// Bytes that the application wants to send, or [`ENDLESS`].
    pub size: u64,
    written: u64,
    /// Position of the last PSH.
    pushed: u64,
    /// The kernel buffer that is sent from next. This buffer is a separate field, because every ACK
    /// reads it.
    head: Option<Chunk>,
    /// The kernel buffers behind `head`.
    behind: VecDeque<Chunk>,
    buffer: u64,
    /// Kernel memory that Linux assumes for one segment, bytes.
    per_segment: u32,
    /// The buffer was full, and the application waits for its wake-up.
    pub blocked: bool,
    /// The application pauses.
    pub silent: bool,
    /// Time of the application's wake-up: it writes after everything that arrives at the same
    /// instant has been handled.
    pub woken: MaybeTime,
}

/// `TCP_NOTSENT_LOWAT`: the application writes while less than this is unsent, in bytes.
#[inline]
fn low_water(cfg: &Config) -> u64 {
    cfg.notsent_lowat.get().max(1)
}

impl SendBuffer {
    pub fn new(size: Option<u64>, cfg: &Config) -> SendBuffer {
        SendBuffer {
            size: size.unwrap_or(ENDLESS),
            written: 0,
            pushed: 0,
            head: None,
            behind: VecDeque::new(),
            buffer: cfg.wmem_default.get(),
            per_segment: (cfg.peer_mss + SEGMENT_HEADERS).next_power_of_two() + DESCRIPTOR,
            blocked: false,
            silent: false,
            woken: MaybeTime::NONE,
        }
    }
    /// Returns whether no data is unsent.
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }
    /// Number of bytes in the kernel buffer that is sent from next.
    pub fn head(&self) -> Option<u64> {
        self.head.map(Chunk::len)
    }
    /// Returns whether the kernel buffer that is sent from next is the last one.
    pub fn head_is_tail(&self) -> bool {
        self.head.is_some() && self.behind.is_empty()
    }
    /// Fills the head up to `len` bytes from the kernel buffer behind it.
    #[inline]
    pub fn gather(&mut self, len: u64) {
        let Some(head) = &mut self.head else {
            return;
        };
        if head.len() >= len {
            return;
        }
        let Some(next) = self.behind.front_mut() else {
            return;
        };
        let moved = (len - head.len()).min(next.len()) as u32;
        head.0 += moved;
        next.0 -= moved;
        if next.len() == 0 {
            head.0 |= next.0;
            self.behind.pop_front();
        }
    }
    /// Returns whether a write ends after `len` bytes of the head.
    pub fn ends_with(&self, len: u64) -> bool {
        self.head
            .is_some_and(|head| head.len() <= len && head.push())
    }
    /// Removes `len` bytes from the head for a super-packet; returns whether a write ended with
    /// them.
    #[inline]
    pub fn take(&mut self, len: u64) -> bool {
        let Some(head) = &mut self.head else {
            return false;
        };
        head.0 -= len.min(head.len()) as u32;
        let (end, push) = (head.len() == 0, head.push());
        if end {
            self.head = self.behind.pop_front();
        }
        end && push
    }
    /// Enlarges the socket buffer to hold this many windows of `cwnd` packets, up to its maximum.
    #[inline]
    pub fn expand(&mut self, cfg: &Config, windows: u32, cwnd: u32) {
        let segments = u64::from(windows) * u64::from(cwnd.max(LEAST_SEGMENTS));
        let wanted = segments * u64::from(self.per_segment);
        self.buffer = self.buffer.max(wanted.min(cfg.wmem_max.get()));
    }
    /// Kernel memory of all written data that is not acknowledged.
    #[inline]
    fn memory(&self, sent: &Scoreboard) -> u64 {
        self.written - sent.una() + OVERHEAD * (self.buffers() + sent.buffers())
    }
    /// Returns whether [`memory`](Self::memory) is more than twice the socket buffer plus twice
    /// [`CUT_ALLOWANCE`].
    pub fn overfull(&self, sent: &Scoreboard) -> bool {
        self.memory(sent) / 2 > self.buffer + CUT_ALLOWANCE
    }
    /// Number of kernel buffers of unsent data.
    #[inline]
    fn buffers(&self) -> u64 {
        u64::from(self.head.is_some()) + self.behind.len() as u64
    }
    /// The kernel buffer that the application writes to.
    fn tail(&mut self) -> Option<&mut Chunk> {
        self.behind.back_mut().or(self.head.as_mut())
    }
    /// Begins a new kernel buffer for writing.
    fn begin(&mut self) {
        if self.head.is_none() {
            self.head = Some(Chunk::default());
        } else {
            self.behind.push_back(Chunk::default());
        }
    }
    fn has_room(&self, cfg: &Config, sent: &Scoreboard) -> bool {
        self.memory(sent) < self.buffer && self.written - sent.nxt() < low_water(cfg)
    }
    #[inline]
    fn wakes(&self, cfg: &Config, sent: &Scoreboard) -> bool {
        2 * (self.written - sent.nxt()) < low_water(cfg) && {
            let memory = self.memory(sent);
            memory + memory / 2 <= self.buffer
        }
    }
    fn mark_push(&mut self) {
        if let Some(tail) = self.tail() {
            tail.0 |= PUSH;
        }
        self.pushed = self.written;
    }
}

impl Sender {
    /// Called after an ACK and after each burst: wakes an application that waits for room, if there
    /// is room. If the window is not used up, the socket buffer is enlarged first.
    #[inline(always)]
    pub(super) fn check_space(&mut self, now: Time) {
        if !self.send_buffer.blocked {
            return;
        }
        if self.board.in_flight() < self.w.cwnd {
            let windows = self.needs.send_buffer_windows.into();
            self.send_buffer
                .expand(&self.cfg, windows, self.w.cwnd.max(self.reordering + 1));
            self.cwnd_stamp = now;
        }
        if self.send_buffer.wakes(&self.cfg, &self.board) {
            self.send_buffer.blocked = false;
            self.send_buffer.woken = MaybeTime::at(now);
            self.limit_ends(now, Limit::SendBuffer);
        }
    }

    /// Halves the window once for each retransmission timeout that has passed without transmission,
    /// down to the initial window, because the path may have changed. Congestion controls with a
    /// model of the path keep their window.
    fn slow_start_after_idle(&mut self, now: Time) {
        if !self.cfg.slow_start_after_idle
            || self.board.packets_out() > 0
            || self.needs.owns_recovery
        {
            return;
        }
        let Some(last) = self.last_sent.get() else {
            return;
        };
        let tick = self.ticks.at(now);
        let idle = tick - self.ticks.at(last);
        if idle <= self.rto_ticks() {
            return;
        }
        self.w.ssthresh = self.current_ssthresh();
        let least = self.cfg.iw.min(self.w.cwnd);
        let halvings = (idle - 1) / self.rto_ticks().max(1);
        self.w.cwnd = (self.w.cwnd >> halvings.min(31)).max(least);
        self.cwnd_stamp = now;
        self.cwnd_used = 0;
    }

    /// Runs the application, if it was woken.
    pub(super) fn wake_writer<R: Into<Fate>>(
        &mut self,
        now: Time,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        if self.send_buffer.woken.is_due(now) {
            self.fill(now, wire);
            self.send_buffer.woken = MaybeTime::NONE;
        }
    }

    /// Lets an active application write until all data is written or the buffer is full.
    pub(super) fn fill<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        while !self.send_buffer.blocked && !self.send_buffer.silent {
            let left = self.send_buffer.size - self.send_buffer.written;
            if left == 0 {
                return;
            }
            let half = self.board.options.full_segments(self.max_window / 2);
            let goal = u64::from(self.gso_segments).min(half).max(1);
            self.write_once(now, left.min(WRITE), goal * self.full(), wire);
        }
    }

    /// One write of `len` bytes into kernel buffers of `goal` bytes.
    fn write_once<R: Into<Fate>>(
        &mut self,
        now: Time,
        len: u64,
        goal: u64,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        let in_flight = self.board.in_flight();
        if self.send_buffer.written - self.board.nxt() < self.mss()
            && self
                .small_queue
                .as_ref()
                .is_none_or(|queue| queue.is_empty())
            && in_flight < self.w.cwnd
            && self.board.lost_out() <= self.board.retrans_out()
        {
            self.delivered.limit_by_app(in_flight);
        }
        let mut copied = 0;
        while copied < len {
            let mut room = self
                .send_buffer
                .tail()
                .map_or(0, |tail| goal.saturating_sub(tail.len()));
            if room == 0 {
                if !self.send_buffer.has_room(&self.cfg, &self.board) {
                    self.send_buffer.blocked = true;
                    break;
                }
                self.slow_start_after_idle(now);
                if self.send_buffer.is_empty() {
                    self.limit_begins(now, Limit::Busy);
                }
                self.send_buffer.begin();
                room = goal;
            }
            let n = room.min(len - copied);
            let w = &mut self.send_buffer;
            let Some(tail) = w.tail() else { break };
            tail.0 += n as u32;
            if copied == 0 {
                tail.0 &= !PUSH;
            }
            let full = tail.len() >= goal;
            w.written += n;
            copied += n;
            if full && w.written > w.pushed + self.max_window / 2 {
                w.mark_push();
                self.push(now, wire);
            } else if full && w.head_is_tail() {
                self.write(now, Push::One, wire);
            }
        }
        if copied > 0 {
            self.send_buffer.mark_push();
            self.push(now, wire);
        }
    }
}
