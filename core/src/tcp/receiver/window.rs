//! The receive window and its auto-tuning.
//!
//! Algorithm (Linux 6.12): memory is counted in *truesize*, the kernel memory of a packet (2344 B
//! for a full segment cut from a super-packet). The advertised window is a share of the free
//! buffer: the ratio of payload to truesize. The window starts at 64 KB, or half the buffer if that
//! is less. The window opens by two segments for each arriving segment, up to that share.
//!
//! Once per round trip, if more data was read than in the round trip before, the buffer grows. Let
//! `W` be twice the data read in this round trip plus sixteen segments. The new buffer holds
//! `W + 2·W·g`, where `g` is the relative increase of the data read over the previous round trip.
//! Data that has arrived and still waits is subtracted from the data read. The reason is that a
//! filled hole releases much data at once, which is no measure of the path's rate.
//!
//! Before 6.6, the share is one half (`tcp_adv_win_scale` = 1). A buffer for `W` then has memory
//! for each segment of it, so that half of this memory is at least the segment.
//!
//! Since 6.16, `W` does not contain the sixteen segments, and the buffer also grows for data behind
//! a hole. From 6.16 to 6.17 the term with `g` was absent, too. Source: Linux 7.3
//! `tcp_rcvbuf_grow`.

use crate::kernel::{Rule, rules_of_component};
use crate::tcp::Config;
use crate::tcp::wire::{Range, Segment};
use crate::transport::MSS;
use crate::units::{MaybeTime, Time};

/// Kernel memory beside the payload of one packet, bytes (measured on Linux 6.12: 2344 B for 1448 B
/// of payload).
const OVERHEAD: u64 = 896;
/// Segments merged into one packet, which has room for 17 fragments. Some segments need two
/// (measured: 31 segments in two packets, 33 in three).
pub(super) const MERGED: u64 = 16;
/// The assumed segment size before any data.
const MSS_GUESS: u32 = 536;
/// Segments shorter than this do not open the window.
const GROW_LEAST: u32 = 128;
/// Shares are in units of 1/256.
const SHARE_BITS: u32 = 8;
/// The share before any segment has shown its overhead.
const SHARE_DEFAULT: u16 = 128;
/// Before 6.6, the buffer is resized with this memory beside the payload of a packet, in bytes. It
/// is raised in steps until half of the memory is at least the segment (`tcp_rcv_space_adjust`).
const MEMORY_BEFORE: u64 = 896;
const MEMORY_STEP_BEFORE: u64 = 128;
/// Number of segments with which the first round of tuning is compared (`TCP_INIT_CWND`). The
/// sender's initial window (`initcwnd` of a route) has no influence.
const FIRST_ROUND: u64 = 10;
/// Number of segments in the first window before 4.20.
const FIRST_WINDOW_BEFORE: u64 = 20;
/// With a round trip below this, the buffer grows beyond `W` only by this round trip's share of it
/// (`tcp_rcvbuf_low_rtt`), µs.
const LOW_RTT_US: u64 = 1000;
/// The window scale is chosen for a buffer of at least this size (`net.core.rmem_max`), for any
/// `tcp_rmem`.
const SCALED_FOR: u64 = 212_992;
/// Maximum window scale: windows are in units of up to 2¹⁴ bytes.
const MAX_SCALE: u32 = 14;

/// Kernel memory of one packet with `len` bytes of payload.
pub(super) fn truesize(len: u32) -> u64 {
    u64::from(len) + OVERHEAD
}
/// Kernel memory of a run of out-of-order data: neighbours are merged, [`MERGED`] segments to a
/// packet of `mss` bytes each.
#[inline(always)]
pub(super) fn truesize_of(run: Range, mss: u32) -> u64 {
    let bytes = run.end - run.start;
    // The usual divisor is a constant, which needs no division.
    let packets = match mss {
        MSS => bytes.div_ceil(MERGED * u64::from(MSS)),
        _ => packets_of(bytes, mss),
    };
    bytes + packets * OVERHEAD
}
// A function of its own, because the compiler would merge both divisions into one.
#[cold]
#[inline(never)]
fn packets_of(bytes: u64, mss: u32) -> u64 {
    bytes.div_ceil(MERGED * u64::from(mss))
}

rules_of_component! {
    receive_window_share: ReceiveWindowShare,
    short_segments_open: ShortSegmentsOpen,
    receiver_rtt_non_zero: ReceiverRttNonZero,
    receiver_rtt_minimum: ReceiverRttMinimum,
    receiver_rtt_when_read: ReceiverRttWhenRead,
    receive_queue_awareness: ReceiveQueueAwareness,
    receive_buffer_by_window: ReceiveBufferByWindow,
    receive_buffer_low_rtt: ReceiveBufferLowRtt,
    receive_buffer_smooth_growth: ReceiveBufferSmoothGrowth,
    receive_buffer_slow_start: ReceiveBufferSlowStart,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    rules: Rules,
    buffer: u64,
    buffer_max: u64,
    share: u16,
    /// Maximum window for the present buffer, in bytes (`window_clamp`).
    clamp: u64,
    /// The window that growth has reached, if memory permits, in bytes (`rcv_ssthresh`).
    threshold: u64,
    /// While at least this much memory is in use, `threshold` cannot grow. This is a bound from
    /// former results.
    full_from: u64,
    /// The window of the last ACK, counted from its acknowledgement number.
    window: u64,
    scale: u8,
    segment: u32,
    /// Payload of the largest segment that may arrive, bytes (`advmss`).
    mss: u32,
    /// Kernel memory of data that is out of order or unread.
    pub queued: u64,
    // dynamic right-sizing
    round_bytes: u64,
    round_start: u64,
    /// Time when the round began, µs.
    round_us: u64,
    rtt8_us: u64,
    last_tsecr: u32,
    /// The end of the window that is measured, and the time at which it began to arrive.
    by_window: (u64, MaybeTime),
}

impl Window {
    pub fn new(cfg: &Config) -> Window {
        let buffer = cfg.rmem_default.get();
        let mss = u64::from(cfg.announced());
        let space = cfg.rmem_max.get().max(buffer).max(SCALED_FOR);
        let most = if cfg.kernel.follows(Rule::InitialReceiveWindow) {
            65_535
        } else {
            FIRST_WINDOW_BEFORE * mss
        };
        let first = (buffer / 2 / mss * mss).min(most);
        Window {
            rules: Rules::of(cfg.kernel),
            buffer,
            buffer_max: cfg.rmem_max.get().max(buffer),
            share: SHARE_DEFAULT,
            clamp: (buffer * u64::from(SHARE_DEFAULT)) >> SHARE_BITS,
            // One segment of the buffer's share stays in reserve.
            threshold: ((buffer * u64::from(SHARE_DEFAULT)) >> SHARE_BITS).saturating_sub(mss),
            full_from: u64::MAX,
            window: first,
            scale: space.ilog2().saturating_sub(15).min(MAX_SCALE) as u8,
            segment: MSS_GUESS.min(cfg.announced()),
            mss: cfg.announced(),
            queued: 0,
            round_bytes: first,
            round_start: 0,
            round_us: 0,
            rtt8_us: 0,
            last_tsecr: 0,
            by_window: (0, MaybeTime::NONE),
        }
    }
    pub fn established(&mut self, now: Time, nxt: u64) {
        self.round_bytes = self.window.min(FIRST_ROUND * u64::from(self.mss));
        self.round_start = nxt;
        self.round_us = now.as_us();
    }
    /// The assumed segment size of the sender.
    pub fn segment(&self) -> u32 {
        self.segment
    }
    pub fn offered(&self) -> u64 {
        self.window
    }
    /// The round trip as measured by this end, µs.
    pub fn rtt_us(&self) -> u64 {
        self.rtt8_us >> 3
    }
    /// Number of quick ACKs: the segments in half the window, at least 2 and at most `most`.
    pub fn quick_acks(&self, most: u32) -> u32 {
        ((self.window / (2 * u64::from(self.segment))) as u32)
            .max(2)
            .min(most)
    }
    fn share_of(&self, bytes: u64) -> u64 {
        (bytes * u64::from(self.share)) >> SHARE_BITS
    }

    /// A longer segment than before shows the overhead of this sender's packets.
    #[inline]
    pub fn measure_segment(&mut self, len: u32) {
        if len.min(self.mss) > self.segment {
            self.segment = len.min(self.mss);
            if self.rules.receive_window_share {
                self.share = ((u64::from(len) << SHARE_BITS) / truesize(len)).max(1) as u16;
                self.clamp = self.share_of(self.buffer);
                self.full_from = u64::MAX;
            }
        }
    }
    /// Opens the window for a segment of `len` bytes, which needs its own packet or `merges` into
    /// another. Returns whether the window opened.
    #[inline]
    pub fn grow(&mut self, len: u32, queued: u64, merges: bool) -> bool {
        len >= GROW_LEAST && queued < self.full_from && self.grow_below(len, queued, merges)
    }
    /// As [`grow`](Self::grow), if the queued memory is below the limit of the last call.
    #[inline(never)]
    fn grow_below(&mut self, len: u32, queued: u64, merges: bool) -> bool {
        let free = self.share_of(self.buffer.saturating_sub(queued));
        let room = self.clamp.min(free).saturating_sub(self.threshold);
        if room == 0 {
            self.full_from = queued;
            return false;
        }
        // A packet whose memory exceeds its payload's share of the window opens less, until both
        // fit.
        let mut step = 2 * u64::from(self.mss);
        let free_of_overhead = merges && self.rules.short_segments_open;
        if !free_of_overhead && self.share_of(truesize(len)) > u64::from(len) {
            step = self.step_for_heavy(len);
            if step == 0 {
                return false;
            }
        }
        self.threshold += room.min(step.max(2 * u64::from(len)));
        true
    }
    fn step_for_heavy(&self, len: u32) -> u64 {
        let mut truesize = self.share_of(truesize(len)) >> 1;
        let mut window = self.share_of(self.buffer_max) >> 1;
        while self.threshold <= window {
            if truesize <= u64::from(len) {
                return 2 * u64::from(self.segment);
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }
    /// Returns whether memory permits that one more packet waits. The buffer grows with waiting
    /// data, up to its maximum.
    pub fn admits(&mut self, queued: u64) -> bool {
        if queued > self.buffer {
            self.buffer = queued.min(self.buffer_max);
            self.full_from = u64::MAX;
        }
        queued <= self.buffer
    }

    /// The window for an ACK of `nxt`, after an ACK of `acked`. `quick`: the number of quick ACKs
    /// left.
    #[inline]
    pub fn offer(&mut self, acked: u64, nxt: u64, quick: &mut u32) -> u64 {
        let left = (acked + self.window).saturating_sub(nxt);
        // The right edge never moves back.
        self.window = self.select(quick).max(self.round_up(left));
        self.window = self.window.min(65_535 << self.scale);
        self.window
    }
    #[inline]
    fn round_up(&self, bytes: u64) -> u64 {
        let unit = 1 << self.scale;
        (bytes + (unit - 1)) & !(unit - 1)
    }
    /// The window that memory permits now. When less than half of the maximum window is free, quick
    /// ACKs end.
    #[inline(always)]
    fn select(&self, quick: &mut u32) -> u64 {
        let mut free = self.share_of(self.buffer.saturating_sub(self.queued));
        if free < self.clamp / 2 {
            let all = self.share_of(self.buffer);
            if free < all / 2 {
                *quick = 0;
                free = free >> self.scale << self.scale;
                if free < all / 16 || free < u64::from(self.segment) {
                    return 0;
                }
            }
        }
        self.round_up(free.min(self.threshold))
    }
    /// Returns whether memory permits at least the window of the last ACK.
    #[inline]
    pub fn holds(&self, quick: &mut u32) -> bool {
        self.select(quick) >= self.window
    }
    /// Returns whether memory permits at least twice the rest of the advertised window, and this
    /// rest is at most half of the maximum window.
    #[inline]
    pub fn doubled(&self, acked: u64, nxt: u64, quick: &mut u32) -> bool {
        let left = (acked + self.window).saturating_sub(nxt);
        2 * left <= self.clamp && {
            let new = self.select(quick);
            new > 0 && new >= 2 * left
        }
    }

    /// An ACK without data echoed this timestamp of this end. Data with the same echo is then no
    /// measurement of the round trip.
    pub fn heard(&mut self, tsecr: u32) {
        self.last_tsecr = tsecr;
    }

    /// Measures the round trip by the echo of this end's own timestamps. `waits`: earlier data
    /// still waits for the application.
    #[inline]
    pub fn measure_rtt_by_stamp(&mut self, now: Time, seg: &Segment, waits: bool) {
        if seg.tsecr != self.last_tsecr && seg.tsecr != 0 && seg.len >= self.segment {
            self.take_stamp(now, seg.tsecr, waits);
        }
    }
    #[inline(never)]
    fn take_stamp(&mut self, now: Time, tsecr: u32, waits: bool) {
        self.last_tsecr = tsecr;
        let ms = u64::from(crate::tcp::sender::stamp(now).saturating_sub(tsecr));
        if ms == 0 && self.rules.receiver_rtt_non_zero {
            return;
        }
        let us = ms.max(1) * 1000;
        let lower = us << 3 < self.rtt8_us && self.rules.receiver_rtt_minimum;
        if self.rtt8_us == 0 || lower {
            self.rtt8_us = us << 3;
        } else if !(waits && self.rules.receiver_rtt_when_read) {
            self.rtt8_us = self.rtt8_us - (self.rtt8_us >> 3) + us;
        }
    }
    /// Measures an upper bound of the round trip, the time in which a whole window arrived, and
    /// keeps the minimum.
    #[inline]
    pub fn measure_rtt_by_window(&mut self, now: Time, nxt: u64) {
        let (until, since) = self.by_window;
        if let Some(since) = since.get() {
            if nxt < until {
                return;
            }
            let us = now.since(since).as_us().max(1);
            if self.rtt8_us == 0 || us << 3 < self.rtt8_us {
                self.rtt8_us = us << 3;
            }
        }
        self.by_window = (nxt + self.window, MaybeTime::at(now));
    }

    /// The application has read everything below `read`; data up to `nxt` has arrived in order, and
    /// out-of-order data reaches to `end`. Once per round trip the buffer is resized.
    #[inline]
    pub fn read(&mut self, now: Time, read: u64, nxt: u64, end: impl FnOnce() -> u64) {
        if self.ends_round(now) {
            self.end_round(now, read, nxt, end());
        }
    }
    /// Returns whether a read at `now` ends a round.
    #[inline(always)]
    fn ends_round(&self, now: Time) -> bool {
        // In whole microseconds, without a division.
        let end_us = self.round_us + (self.rtt8_us >> 3);
        self.rtt8_us > 0 && now.as_ns() >= end_us * 1000
    }
    #[inline(never)]
    fn end_round(&mut self, now: Time, read: u64, nxt: u64, end: u64) {
        let mut bytes = read - self.round_start;
        if self.rules.receive_queue_awareness {
            bytes = bytes.saturating_sub(nxt - read);
        }
        if bytes > self.round_bytes {
            self.resize(bytes, end - nxt);
        }
        self.round_start = read;
        self.round_us = now.as_us();
    }
    /// Data behind a hole reaches `span` bytes beyond the next expected byte. With
    /// [`Rule::ReceiveBufferByWindow`], the buffer grows to hold these bytes, too.
    pub fn holds_back(&mut self, span: u64) {
        if self.rules.receive_buffer_by_window {
            self.resize(self.round_bytes, span);
        }
    }
    /// Enlarges the buffer for `bytes` read in a round trip and `span` bytes of out-of-order data.
    fn resize(&mut self, bytes: u64, span: u64) {
        let by_window = self.rules.receive_buffer_by_window;
        let cushion = if by_window {
            0
        } else {
            16 * u64::from(self.mss)
        };
        let mut window = 2 * bytes + cushion;
        let before = self.round_bytes.max(1);
        let more = bytes.saturating_sub(self.round_bytes);
        let share =
            |part: u64, of: u64| (u128::from(window) * u128::from(part) / u128::from(of)) as u64;
        let growth = if self.rules.receive_buffer_low_rtt && self.rtt_us() < LOW_RTT_US {
            share(self.rtt_us(), LOW_RTT_US)
        } else if !self.rules.receive_buffer_smooth_growth {
            match 4 * more {
                more if more >= 2 * before => window,
                more if more >= before => window / 2,
                _ => 0,
            }
        } else if !by_window || self.rules.receive_buffer_slow_start {
            share(more, before).saturating_mul(2)
        } else {
            0
        };
        window = window.saturating_add(growth);
        if by_window {
            window = window.saturating_add(span);
        }
        let buffer = self.memory_for(window).min(u128::from(self.buffer_max)) as u64;
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.share_of(self.buffer);
            self.full_from = u64::MAX;
        }
        self.round_bytes = bytes;
    }
    /// The size of a buffer that has room for `window` bytes of payload.
    fn memory_for(&self, window: u64) -> u128 {
        if self.rules.receive_window_share {
            return (u128::from(window) << SHARE_BITS) / u128::from(self.share);
        }
        let mss = u64::from(self.mss);
        let mut memory = mss + MEMORY_BEFORE;
        while self.share_of(memory) < mss {
            memory += MEMORY_STEP_BEFORE;
        }
        u128::from(window / mss) * u128::from(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, LINUX_7_3};
    use crate::tcp::MSS;
    use crate::units::{Bytes, Span};

    fn with_rmem(default: u64, max: u64) -> Window {
        Window::new(&Config {
            rmem_default: Bytes::new(default),
            rmem_max: Bytes::new(max),
            ..Config::default()
        })
    }

    /// The window after its first round trip of `rtt`: `came` segments have arrived and been read,
    /// then `waiting` more have arrived.
    fn after_a_round(cfg: &Config, rtt: Span, came: u64, waiting: u64) -> Window {
        let mut window = Window::new(cfg);
        window.established(Time::ZERO, 0);
        window.measure_segment(MSS);
        window.rtt8_us = rtt.as_us() << 3;
        let [read, nxt] = [came, came + waiting].map(|segments| segments * u64::from(MSS));
        window.read(Time::ZERO + rtt, read, nxt, || nxt);
        window
    }

    /// Linux 6.12 with `tcp_rmem` "4096 20000 60000": the SYN-ACK has a scale of 2, and the first
    /// full segment in the buffer leaves a window of 10 900 B.
    #[test]
    fn windows_are_scaled_for_what_a_program_might_ask_for() {
        let mut window = with_rmem(20_000, 60_000);
        assert_eq!(window.scale, 2);
        window.measure_segment(MSS);
        while window.grow(MSS, truesize(MSS), true) {}
        assert_eq!(window.offer(0, 6 * u64::from(MSS), &mut 0), 10_900);
    }

    /// Linux 6.12 with `tcp_rmem` "4096 20000 60000": after a segment of 764 B the window has
    /// opened by two full ones.
    #[test]
    fn a_short_segment_opens_the_window_unless_it_keeps_a_packet_for_itself() {
        let mut window = with_rmem(60_000, 60_000);
        window.measure_segment(MSS);
        window.threshold = 22_481;
        assert!(!window.grow(764, truesize(764), false));
        assert!(window.grow(764, truesize(764), true));
        assert_eq!(window.threshold, 22_481 + 2 * 1448);
    }

    /// Linux 6.12, Illinois with `initcwnd 90` over 8.93 Mbit/s and 140 ms. `ss` shows a
    /// `rcv_space` of 68 056 B, 47 segments, after the first round, and `rb2167820`.
    #[test]
    fn the_first_round_is_measured_against_ten_segments_whatever_the_sender_begins_with() {
        let cfg = Config {
            iw: 90,
            ..Config::default()
        };
        let window = after_a_round(&cfg, Span::ms(140), 47, 0);
        assert_eq!((window.round_bytes, window.buffer), (68_056, 2_167_820));
    }

    /// A round of 200 segments ends when the first of 100 is read that a filled hole has released.
    #[test]
    fn what_waits_makes_no_room() {
        let buffer = |kernel, came, waiting| {
            let cfg = Config {
                kernel,
                ..Config::default()
            };
            after_a_round(&cfg, Span::ms(40), came, waiting).buffer
        };
        let nothing_waits = buffer(Kernel::default(), 101, 0);
        assert_eq!(buffer(Kernel::default(), 200, 99), nothing_waits);
        assert!(buffer(Kernel::published(5, 15), 200, 99) > 3 * nothing_waits);
    }

    /// The buffer after a round of 40 ms and 20 segments, the first one of 10. A share of the
    /// window is payload over kernel memory.
    #[test]
    fn the_growth_of_the_receive_buffer_changed_three_times() {
        let window = |name| {
            let cfg = Config {
                kernel: Kernel::named(name).unwrap(),
                ..Config::default()
            };
            let window = after_a_round(&cfg, Span::ms(40), 20, 0);
            window.share_of(window.buffer).div_ceil(u64::from(MSS))
        };
        // Twice 20 segments and 16; then twice as much, or thrice, because the data doubled. Before
        // 6.6, a segment has 2984 B of memory, of which half counts.
        assert_eq!(
            window("linux-4.15"),
            (2 * (2 * 20 + 16) * 2984 / 2u64).div_ceil(u64::from(MSS))
        );
        assert_eq!(window("linux-6.12"), 3 * (2 * 20 + 16));
        // The initial buffer of 128 KiB, whose share is 56 segments, is enough.
        assert_eq!(window("linux-6.16"), 56);
        assert_eq!(window("linux-6.18"), 3 * 2 * 20);
    }

    #[test]
    fn the_largest_buffer_has_32_mib_since_6_16() {
        let most = |minor| Kernel::published(6, minor).receive_buffer().1;
        assert_eq!([most(15), most(16)], [6 << 20, 32 << 20]);
    }

    /// Linux 6.1.192 and 6.12.117 with `tcp_rmem` "4096 131072 2097152" over 200 ms: 41.9 and 52.2
    /// Mbit/s, windows of 1 MiB and 1.3 MB.
    #[test]
    fn half_of_the_buffer_is_the_window_before_6_6() {
        let clamp = |name| {
            let mut window = Window::new(&Config {
                kernel: Kernel::named(name).unwrap(),
                rmem_max: Bytes::new(2 << 20),
                ..Config::default()
            });
            window.measure_segment(MSS);
            for round in 0..40 {
                let all = round * 400 * u64::from(MSS);
                window.rtt8_us = 200_000 << 3;
                window.round_bytes = 1;
                window.read(Time::ZERO + Span::ms(200 * round), all, all, || all);
            }
            window.clamp
        };
        assert_eq!(clamp("linux-6.5"), 1 << 20);
        assert_eq!(clamp("linux-6.6"), (2 << 20) * 158 / 256);
    }

    #[test]
    fn data_behind_a_hole_enlarges_the_buffer_since_6_16() {
        let buffer = |kernel| {
            let cfg = Config {
                kernel,
                ..Config::default()
            };
            let mut window = after_a_round(&cfg, Span::ms(40), 10, 0);
            window.holds_back(200 * u64::from(MSS));
            window.share_of(window.buffer).div_ceil(u64::from(MSS))
        };
        assert_eq!(buffer(LINUX_7_3), 2 * 10 + 200);
        assert_eq!(buffer(Kernel::default()), 56);
    }

    #[test]
    fn small_round_trips_do_not_double_the_buffer_since_6_19() {
        let buffer = |kernel| {
            let cfg = Config {
                kernel,
                ..Config::default()
            };
            let window = after_a_round(&cfg, Span::us(500), 100, 0);
            window.share_of(window.buffer).div_ceil(u64::from(MSS))
        };
        assert_eq!(buffer(LINUX_7_3), 200 + 100);
        assert!(buffer(Kernel::published(6, 18)) > 2000);
    }

    /// Samples of the receiver: 40 ms, then `next` with or without unread data; the estimate in ms.
    #[test]
    fn the_receiver_s_round_trip_follows_its_release() {
        let estimate = |name, next_ms: u64, waits| {
            let mut window = Window::new(&Config {
                kernel: Kernel::named(name).unwrap(),
                ..Config::default()
            });
            let mut measure = |took_ms: u64, waits| {
                let now = Time::ZERO + Span::s(took_ms + 1);
                let sent = crate::tcp::sender::stamp(now) - took_ms as u32;
                let seg = Segment {
                    len: MSS,
                    tsecr: sent,
                    ..Segment::default()
                };
                window.measure_rtt_by_stamp(now, &seg, waits);
            };
            measure(40, false);
            measure(next_ms, waits);
            window.rtt_us() / 1000
        };
        assert_eq!(estimate("linux-5.15", 20, false), 37);
        assert_eq!(estimate("linux-6.12", 20, false), 20);
        assert_eq!(estimate("linux-6.12.0", 0, false), 35);
        assert_eq!(estimate("linux-6.12", 0, false), 40);
        assert_eq!(estimate("linux-6.12", 80, true), 45);
        assert_eq!(estimate("linux-7.3", 80, true), 40);
        assert_eq!(estimate("linux-7.3", 80, false), 45);
    }

    #[test]
    fn the_first_window_has_64_kib_since_4_20() {
        let first = |kernel| {
            let cfg = Config {
                kernel,
                ..Config::default()
            };
            Window::new(&cfg).offered()
        };
        assert_eq!(first(Kernel::published(4, 19)), 20 * u64::from(MSS));
        assert!(first(Kernel::published(4, 20)) > 40 * u64::from(MSS));
    }
}
