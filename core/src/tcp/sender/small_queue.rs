//! TCP small queues: the limit of one connection's memory below TCP, in the sending host's own
//! queue discipline and device.
//!
//! Algorithm: a super-packet waits while more than `max(2 super-packets, 2⁻¹⁰ s of the pacing
//! rate)` of its connection's memory is below TCP. The exponent 10 is the default of
//! `sk_pacing_shift`, which drivers of wireless devices lower to fill their aggregates. From 4.20
//! to 6.15, the limit is at most 1 MiB, unless the connection is paced. Since 6.16 the limit is at
//! most 4 MiB, and before 4.20 at most 256 KiB, for paced connections as well. For a
//! retransmission, the limit is twice as high. A connection with at most one super-packet in flight
//! always sends. When a super-packet has left the device, a waiting connection continues.
//!
//! If the host has no interface with its own queue, nothing is ever below TCP, and nothing is
//! counted.
//!
//! From 3.6 to 3.11 the limit was 128 KiB, at any rate. Source: Linux 6.12 `tcp_small_queue_check`,
//! `tcp_wfree`, `tcp_tsq_handler`; `tcp_limit_output_bytes`.

use crate::kernel::{Kernel, Rule};
use crate::tcp::{Device, SmallQueues};
use crate::units::Rate;
use alloc::collections::VecDeque;

/// Upper bound of the limit (`tcp_limit_output_bytes`) since 6.16, bytes.
const MOST: u64 = 4 << 20;
/// Upper bound of the limit from 4.20 to 6.15, for connections without pacing, bytes.
const MOST_UNPACED: u64 = 1 << 20;
/// Upper bound of the limit before 4.20, bytes.
const MOST_BEFORE: u64 = 256 << 10;
/// A socket counts one extra byte. With a limit of two super-packets and two below, a third waits.
const BIAS: u64 = 1;
/// Kernel memory of a super-packet beside its payload.
const OVERHEAD: u64 = 896;

/// Super-packets below TCP, and whether the connection waits for their departure.
#[derive(Clone, Debug, Default)]
pub(super) struct SmallQueue {
    limits: SmallQueues,
    shift: u32,
    /// Upper bounds of the limit without and with pacing, bytes.
    most: u64,
    most_paced: u64,
    below: VecDeque<u64>,
    bytes: u64,
    waits: bool,
    /// The super-packet being passed to the interface has already left.
    passed: bool,
}

impl SmallQueue {
    pub fn new(device: &Device, shift: u32, kernel: Kernel) -> SmallQueue {
        let (most, most_paced) = if kernel.follows(Rule::TsqLimitOfAll) {
            (MOST, MOST)
        } else if kernel.follows(Rule::TsqLimitUnpaced) {
            (MOST_UNPACED, u64::MAX)
        } else {
            (MOST_BEFORE, MOST_BEFORE)
        };
        SmallQueue {
            limits: device.tsq,
            shift,
            most,
            most_paced,
            ..SmallQueue::default()
        }
    }
    /// Returns whether a super-packet of `payload` bytes must wait. `again`: the super-packet is a
    /// retransmission. `only`: at most one super-packet of the connection is in flight, so this one
    /// does not wait.
    pub fn holds(
        &mut self,
        payload: u64,
        rate: Rate,
        paced: bool,
        again: bool,
        only: bool,
    ) -> bool {
        let holds = match self.limits {
            SmallQueues::Off => false,
            SmallQueues::Bytes(most) => self.bytes >= most.get() && !again,
            SmallQueues::ByRate => {
                let mut most = (2 * (payload + OVERHEAD)).max((rate.as_bit() / 8) >> self.shift);
                most = most.min(if paced { self.most_paced } else { self.most });
                self.bytes + BIAS > most << u32::from(again) && !only
            }
        };
        self.waits |= holds;
        holds
    }
    /// The super-packet passed to the interface just now has already left.
    pub fn passes(&mut self) {
        self.passed = true;
    }
    /// Counts a super-packet passed to the interface.
    pub fn sent(&mut self, payload: u64) {
        if core::mem::take(&mut self.passed) {
            return;
        }
        self.below.push_back(payload + OVERHEAD);
        self.bytes += payload + OVERHEAD;
    }
    /// The oldest super-packet has left the device. Returns whether the connection waits for this
    /// departure.
    pub fn departed(&mut self) -> bool {
        self.bytes -= self.below.pop_front().unwrap_or(0);
        core::mem::take(&mut self.waits)
    }
    /// Returns whether nothing is below TCP.
    pub fn is_empty(&self) -> bool {
        self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    fn by_rate(shift: u32) -> SmallQueue {
        SmallQueue::new(&Device::default(), shift, Kernel::default())
    }

    #[test]
    fn two_super_packets_lie_below_and_no_third() {
        let mut q = by_rate(10);
        let slow = Rate::mbit(8);
        for _ in 0..2 {
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
    fn what_has_left_already_takes_no_room() {
        let mut q = by_rate(10);
        for _ in 0..5 {
            assert!(!q.holds(2896, Rate::mbit(8), true, false, false));
            q.passes();
            q.sent(2896);
        }
        assert!(q.is_empty());
    }

    #[test]
    fn at_a_high_rate_a_millisecond_lies_below_and_without_pacing_a_mebibyte_at_most() {
        let filled = |mbit: u64, paced: bool| {
            let mut q = by_rate(10);
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
    fn a_device_may_ask_for_more_and_two_super_packets_are_the_floor() {
        let filled = |shift: u32, mbit: u64| {
            let mut q = by_rate(shift);
            while !q.holds(2896, Rate::mbit(mbit), true, false, false) {
                q.sent(2896);
            }
            q.bytes
        };
        // 800 Mbit/s are 97 656 B in 2⁻¹⁰ s and 781 250 B in 2⁻⁷ s; at 1 Mbit/s both are less than
        // two super-packets.
        assert!((97_656..97_656 + 3_800).contains(&filled(10, 800)));
        assert!((781_250..781_250 + 3_800).contains(&filled(7, 800)));
        assert_eq!([filled(10, 1), filled(7, 1)], [2 * 3_792; 2]);
    }

    #[test]
    fn before_3_12_so_many_bytes_lay_below_whatever_the_rate() {
        let device = Device {
            tsq: SmallQueues::Bytes(Bytes::new(128 << 10)),
            ..Device::default()
        };
        for mbit in [1, 10_000] {
            let mut q = SmallQueue::new(&device, 10, Kernel::default());
            while !q.holds(65_160, Rate::mbit(mbit), false, false, false) {
                q.sent(65_160);
            }
            assert_eq!(q.bytes, 2 * 66_056);
        }
    }

    /// The bytes below TCP of a flow of 100 Gbit/s, in MiB.
    #[test]
    fn the_maximum_below_tcp_follows_the_release() {
        let most = |minor: (u16, u16), paced| {
            let kernel = Kernel::published(minor.0, minor.1);
            let mut q = SmallQueue::new(&Device::default(), 10, kernel);
            while !q.holds(65_536 - OVERHEAD, Rate::mbit(100_000), paced, false, false) {
                q.sent(65_536 - OVERHEAD);
            }
            q.bytes as f64 / f64::from(1 << 20)
        };
        assert_eq!([most((4, 19), false), most((4, 19), true)], [0.25, 0.25]);
        assert_eq!(most((6, 12), false), 1.0);
        assert!(most((6, 12), true) > 10.0);
        assert_eq!([most((6, 16), false), most((6, 16), true)], [4.0, 4.0]);
    }
}
