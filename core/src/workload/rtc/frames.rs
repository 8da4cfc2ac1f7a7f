//! Frames at the receiver of a call: delay, loss and stalls.
//!
//! A frame is complete when all its packets have arrived. Its delay is the time from its capture
//! until then. A complete frame is shown unless a later one was shown before. The picture stalls if
//! the time from one shown frame to the next is more than `max(3 δ, δ + 150 ms)`, with the frame
//! interval δ. Source: W3C, "Identifiers for WebRTC's Statistics API", `freezeCount`. The stalled
//! time is that from one shown frame to the next.

use super::Setting;
use crate::metrics::{Histogram, Metric, Named};
use crate::units::{Span, Time};
use alloc::vec::Vec;

/// Number of newest frames that can still be completed.
const OPEN: usize = 1024;
/// Number of newest packets in which duplicates are detected.
const SEEN: u64 = 4096;

#[derive(Copy, Clone)]
struct Frame {
    number: u64,
    captured: Time,
    /// Packets that have not arrived.
    missing: u64,
}

pub(super) struct Frames {
    interval: Span,
    setting: Setting,
    /// The frame at each place, by its number modulo [`OPEN`].
    open: Vec<Frame>,
    /// The newest packets that have arrived, by their number modulo [`SEEN`].
    seen: Vec<u64>,
    captured: u64,
    /// Number of the first frame after the warm-up.
    first: Option<u64>,
    last: u64,
    complete: u64,
    delay: Histogram,
    shown: Option<(u64, Time)>,
    stalls: u64,
    stalled: Span,
}

impl Frames {
    pub fn new(interval: Span, setting: Setting) -> Frames {
        let none = Frame {
            number: u64::MAX,
            captured: Time::ZERO,
            missing: 0,
        };
        Frames {
            interval,
            setting,
            open: alloc::vec![none; OPEN],
            seen: alloc::vec![u64::MAX; SEEN as usize],
            captured: 0,
            first: None,
            last: 0,
            complete: 0,
            delay: Histogram::new(),
            shown: None,
            stalls: 0,
            stalled: Span::ZERO,
        }
    }
    /// A frame of this many packets is captured.
    pub fn captured(&mut self, now: Time, number: u64, packets: u64) {
        if now >= self.setting.from {
            self.first.get_or_insert(number);
            self.captured += 1;
        }
        self.last = number;
        self.open[number as usize % OPEN] = Frame {
            number,
            captured: now,
            missing: packets,
        };
    }
    /// A packet of a frame arrives; returns false if it is a duplicate.
    pub fn arrived(&mut self, now: Time, frame: u64, packet: u64) -> bool {
        let seen = &mut self.seen[(packet % SEEN) as usize];
        if *seen == packet {
            return false;
        }
        *seen = packet;
        let open = &mut self.open[frame as usize % OPEN];
        if open.number != frame || open.missing == 0 {
            return true;
        }
        open.missing -= 1;
        if open.missing > 0 {
            return true;
        }
        let captured = open.captured;
        if captured >= self.setting.from {
            self.complete += 1;
            self.delay.record(now.since(captured));
        }
        if self.shown.is_none_or(|(newest, _)| frame > newest) {
            if let Some((_, since)) = self.shown {
                self.gap(now, since);
            }
            self.shown = Some((frame, now));
        }
        true
    }
    fn gap(&mut self, now: Time, since: Time) {
        let usual = self.interval;
        let most = (usual + usual + usual).max(usual + Span::ms(150));
        let gap = now.since(since.max(self.setting.from));
        if gap > most {
            self.stalls += 1;
            self.stalled = self.stalled + gap;
        }
    }
    /// The delays of complete frames.
    pub fn delays(&self) -> &Histogram {
        &self.delay
    }
    /// Metrics up to `end`; frames from `waiting` on have not left the sender.
    pub fn metrics(&self, end: Time, waiting: Option<u64>) -> Named {
        let first = self.first.unwrap_or(u64::MAX);
        let waiting = waiting.map_or(0, |number| {
            (self.last + 1).saturating_sub(number.max(first))
        });
        let sent = self.captured.saturating_sub(waiting);
        let mut shown = Frames {
            open: Vec::new(),
            seen: Vec::new(),
            delay: Histogram::new(),
            ..*self
        };
        let since = self.shown.map_or(self.setting.from, |(_, at)| at);
        shown.gap(end, since);
        let loss = 1.0 - self.complete.min(sent) as f64 / sent as f64;
        alloc::vec![
            ("frames", Metric::Count(self.captured)),
            ("frame_loss_share", Metric::Number(loss)),
            ("frame_delay_ms", Metric::Quantiles(self.delay.quantiles())),
            ("stalls", Metric::Count(shown.stalls)),
            ("stalled_s", Metric::Number(shown.stalled.as_s())),
        ]
    }
}
