//! A link that follows a mahimahi packet-delivery trace.
//!
//! Each line of a trace is an opportunity for 1504 bytes to leave: a packet of 1500 bytes with 4
//! bytes of a TUN device. The bytes are taken from the head of the queue. If a packet is smaller
//! than the opportunity, the next packet uses the rest. If a packet is larger than the opportunity,
//! its remaining bytes wait for the next one; the packet has left when its last byte has. An
//! opportunity at which the link is idle is lost: a packet that arrives later waits for a later
//! opportunity. The trace repeats; a repetition lasts until the time of the last line.
//!
//! Sources: mm-link(1), mahimahi 0.98; Winstein, Sivaraman, Balakrishnan 2013 (the traces). Sizes
//! are converted: a full frame of narrows has 1514 bytes with its Ethernet header of 14 bytes. A
//! full frame has 1504 bytes in mahimahi, with the 4 bytes of the TUN device, and uses one
//! opportunity.
//!
//! Deviations:
//! - Time is exact, where mahimahi's clock has whole milliseconds.
//! - The packet in service leaves the queue as soon as the link is free, where mahimahi takes it at
//!   the opportunity.
//! - A packet that gets the link at the instant another leaves may use the rest of that
//!   opportunity, even if it arrived at that instant.

use crate::units::{Bytes, Rate, Span, Time};
use alloc::vec::Vec;

/// Bytes of an opportunity: 1500 of IP, 4 of TUN.
const OPPORTUNITY: u64 = 1504;
/// Difference between a frame here and a packet on a TUN device: 14 bytes of Ethernet, less 4 of
/// TUN.
const FRAMING: u64 = 10;
/// The departure time of a packet that never leaves. This time is earlier than [`Time::MAX`], which
/// means an idle link.
const NEVER: u64 = u64::MAX - 1;

/// The opportunities of one instant.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Slot {
    /// Nanoseconds since the repetition began.
    at: u64,
    /// Number of opportunities until then, this slot's included.
    until: u64,
}

/// A link that follows a trace; idle at first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryTrace {
    /// The slots in order of time; at least one.
    slots: Vec<Slot>,
    /// Duration of a repetition, in nanoseconds.
    period: u64,
    /// Number of opportunities used or wasted since the beginning.
    used: u64,
    /// Bytes left of the opportunity that was used last.
    left: u64,
    free_at: Time,
}

impl DeliveryTrace {
    /// Creates the link from the milliseconds of a trace, in any order. At least one time must be
    /// above 0, because a repetition lasts until the latest of them.
    pub fn new(mut ms: Vec<u64>) -> Option<DeliveryTrace> {
        ms.sort_unstable();
        let mut slots: Vec<Slot> = Vec::new();
        for (n, ms) in (1..).zip(ms) {
            let at = Span::ms(ms).as_ns();
            match slots.last_mut() {
                Some(slot) if slot.at == at => slot.until = n,
                _ => slots.push(Slot { at, until: n }),
            }
        }
        let period = slots.last()?.at;
        (period > 0).then(|| {
            let mut link = DeliveryTrace {
                slots,
                period,
                used: 0,
                left: 0,
                free_at: Time::ZERO,
            };
            link.used = link.until(Time::ZERO);
            link
        })
    }
    /// Returns the mean rate at which full frames of 1514 bytes can leave.
    pub fn mean(&self) -> Rate {
        let frames = Bytes::new(self.each().saturating_mul(OPPORTUNITY + FRAMING));
        Rate::of(frames, Span::ns(self.period)).unwrap_or_default()
    }
    /// Returns the bytes that can leave between two times in full frames of 1514 bytes.
    pub fn between(&self, from: Time, to: Time) -> Bytes {
        let slots = self.until(to).saturating_sub(self.until(from));
        Bytes::new(slots.saturating_mul(OPPORTUNITY + FRAMING))
    }
    /// Starts to send a packet of `size` bytes at `now`, and returns the time at which it has left.
    /// `now` is not earlier than the time returned last. The departure of a packet that never
    /// leaves is one nanosecond before [`Time::MAX`].
    pub fn serve(&mut self, now: Time, size: Bytes) -> Time {
        if now != self.free_at {
            self.left = 0;
            self.used = self.used.max(self.until(now));
            self.free_at = now;
        }
        let bytes = size.get().saturating_sub(FRAMING).max(1);
        if bytes > self.left {
            let missing = bytes - self.left;
            let more = missing.div_ceil(OPPORTUNITY);
            self.used = self.used.saturating_add(more);
            self.left = more.saturating_mul(OPPORTUNITY).saturating_sub(missing);
            self.free_at = self.time_of(self.used);
        } else {
            self.left -= bytes;
        }
        self.free_at
    }

    /// Returns the number of opportunities in a repetition.
    fn each(&self) -> u64 {
        self.slots.last().map_or(0, |slot| slot.until)
    }
    /// Returns the number of opportunities up to `now`.
    fn until(&self, now: Time) -> u64 {
        let (times, within) = (now.as_ns() / self.period, now.as_ns() % self.period);
        let next = self.slots.partition_point(|slot| slot.at <= within);
        let here = next.checked_sub(1).map_or(0, |at| self.slots[at].until);
        times.saturating_mul(self.each()).saturating_add(here)
    }
    /// Returns the time of the `nth` opportunity, counted from 1.
    fn time_of(&self, nth: u64) -> Time {
        let before = nth.saturating_sub(1);
        let (times, within) = (before / self.each(), before % self.each());
        let slot = self.slots[self.slots.partition_point(|slot| slot.until <= within)];
        let at = times.saturating_mul(self.period).saturating_add(slot.at);
        Time::from_ns(at.min(NEVER))
    }
}
