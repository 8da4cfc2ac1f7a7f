//! TCP small queues: how much of one connection may lie below TCP, in the host's own queue and device.
//!
//! Law: a super-packet waits while more than `max(2 super-packets, 2⁻¹⁰ s of the pacing rate)` of its connection's memory lies below,
//! and, unless the connection is paced, never more than 1 MiB; a retransmission while more than twice that does. A
//! connection with nothing else in flight always sends. When a super-packet has left the device, a connection that
//! waited goes on.
//!
//! Without an interface of its own rate nothing ever lies below, and nothing is counted.
//! Source: Linux 6.12 `tcp_small_queue_check`, `tcp_wfree`, `tcp_tsq_handler`; `tcp_limit_output_bytes`.

use super::output::PACING_SHIFT;
use crate::units::Rate;
use alloc::collections::VecDeque;

/// The most below TCP without pacing (`tcp_limit_output_bytes`).
const MOST_UNPACED: u64 = 1 << 20;
/// Kernel memory of a super-packet beside its payload.
const OVERHEAD: u64 = 896;

/// What lies below, and whether the connection waits for it to leave.
#[derive(Clone, Debug, Default)]
pub(super) struct SmallQueue {
    /// Is there a device that completes?
    pub counts: bool,
    /// And is it minded?
    pub limits: bool,
    below: VecDeque<u64>,
    bytes: u64,
    waits: bool,
}

impl SmallQueue {
    pub fn new(counts: bool, limits: bool) -> SmallQueue {
        SmallQueue {
            counts,
            limits: counts && limits,
            ..SmallQueue::default()
        }
    }
    /// Must a super-packet of `payload` bytes wait? Twice as patient with retransmissions; never with the only one.
    pub fn holds(&mut self, payload: u64, rate: Rate, paced: bool, again: bool, only: bool) -> bool {
        if !self.limits {
            return false;
        }
        let mut most = (2 * (payload + OVERHEAD)).max((rate.as_bit() / 8) >> PACING_SHIFT);
        if !paced {
            most = most.min(MOST_UNPACED);
        }
        let holds = self.bytes > most << u32::from(again) && !only;
        self.waits |= holds;
        holds
    }
    /// A super-packet was handed down.
    pub fn sent(&mut self, payload: u64) {
        if self.counts {
            self.below.push_back(payload + OVERHEAD);
            self.bytes += payload + OVERHEAD;
        }
    }
    /// The oldest one has left the device. Does the connection wait for that?
    pub fn departed(&mut self) -> bool {
        self.bytes -= self.below.pop_front().unwrap_or(0);
        core::mem::take(&mut self.waits)
    }
    /// Does nothing lie below?
    pub fn is_empty(&self) -> bool {
        self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_super_packets_lie_below_and_one_more() {
        let mut q = SmallQueue::new(true, true);
        let slow = Rate::mbit(8);
        for _ in 0..3 {
            assert!(!q.holds(2896, slow, false, false, false));
            q.sent(2896);
        }
        assert!(q.holds(2896, slow, false, false, false));
        assert!(
            !q.holds(2896, slow, false, true, false),
            "a retransmission may lie twice as deep"
        );
        assert!(
            !q.holds(2896, slow, false, false, true),
            "the only one in flight never waits"
        );
        assert!(q.departed() && !q.departed());
        assert!(!q.holds(2896, slow, false, false, false));
    }

    #[test]
    fn at_a_high_rate_a_millisecond_lies_below_and_without_pacing_a_mebibyte_at_most() {
        let filled = |mbit: u64, paced: bool| {
            let mut q = SmallQueue::new(true, true);
            while !q.holds(65_160, Rate::mbit(mbit), paced, false, false) {
                q.sent(65_160);
            }
            q.bytes
        };
        // 8 Gbit/s are 976 kB in 2⁻¹⁰ s.
        assert!((976_562..976_562 + 67_000).contains(&filled(8_000, true)));
        assert!((1_048_576..1_048_576 + 67_000).contains(&filled(80_000, false)));
        assert!(filled(80_000, true) > 9_000_000);
    }

    #[test]
    fn without_a_device_nothing_is_counted() {
        let mut q = SmallQueue::new(false, true);
        (0..1000).for_each(|_| q.sent(65_160));
        assert!(q.is_empty() && !q.holds(65_160, Rate::mbit(8), false, false, false));
    }
}
