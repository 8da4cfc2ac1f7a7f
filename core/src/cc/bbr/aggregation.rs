//! Additional window for aggregated ACKs (Wi-Fi, receive offload): while no ACKs arrive, the flow
//! must have enough data in flight.
//!
//! Algorithm: over an epoch, `extra = packets acknowledged − bw · time`. A new epoch begins when
//! `extra` is not positive, or after 2²⁰ packets. Once the pipe is full, the maximum `extra` of the
//! last 5 to 10 round trips is added to the window. `extra` is at most the window, and the addition
//! is at most `bw · 100 ms`.

use super::bandwidth::Bw;
use super::{Ack, Bbr, Delivery, Window};
use crate::units::Time;

/// Length of each of the two successive measurement windows, in round trips.
const WINDOW_ROUNDS: u8 = 5;
/// Maximum number of packets that an epoch acknowledges.
const MOST_ACKED: u32 = 1 << 20;
/// Maximum addition to the window: the packets that `bw` delivers in this time, in µs.
const MOST_US: u64 = 100_000;

/// Packets acknowledged since the start of the epoch, for a comparison with the number that `bw`
/// predicts.
#[derive(Copy, Clone, Debug, Default)]
#[repr(Rust, packed(4))]
pub(in crate::cc) struct Epoch {
    since_us: u64,
    acked: u32,
}

impl Epoch {
    /// Begins an epoch at `now`.
    pub fn restart(&mut self, now: Time) {
        (self.since_us, self.acked) = (now.as_us(), 0);
    }
    /// Adds `delivered` packets that arrived at `at`. Returns how many packets of the epoch exceed
    /// those expected at the rate `bw`.
    pub fn take(&mut self, at: Time, delivered: u32, bw: Bw) -> u64 {
        let (at_us, since_us, acked) = (at.as_us(), self.since_us, self.acked);
        let expected = bw.packets_in(at_us.saturating_sub(since_us));
        let is_over =
            (u64::from(acked) <= expected) | (acked.saturating_add(delivered) >= MOST_ACKED);
        // Values without a branch, because aggregation is irregular.
        let [since_us, acked, expected] = if is_over {
            [at_us, 0, 0]
        } else {
            [since_us, u64::from(acked), expected]
        };
        let acked = (acked + u64::from(delivered)).min(u64::from(MOST_ACKED - 1));
        (self.since_us, self.acked) = (since_us, acked as u32);
        acked - expected
    }
}

/// The epoch, and the maximum excess in the present and in the last window of round trips.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    pub epoch: Epoch,
    extra: [u32; 2],
}

impl Aggregation {
    /// The maximum excess, in packets.
    pub fn extra(&self) -> u32 {
        self.extra[0].max(self.extra[1])
    }
}

impl Bbr {
    pub(super) fn take_aggregation(&mut self, w: &Window, ev: &Ack, d: &Delivery) {
        if self.set.aggregation_gain == 0 || ev.delivered == 0 || d.sample.is_none() {
            return;
        }
        let bw = self.bw();
        let a = &mut self.aggregation;
        if self.bandwidth.rounds.start {
            self.extra_rounds += 1;
            if self.extra_rounds >= WINDOW_ROUNDS {
                self.extra_rounds = 0;
                a.extra = [0, a.extra[0]];
            }
        }
        let extra = a.epoch.take(d.totals.delivered_at, ev.delivered, bw);
        let extra = extra.min(u64::from(w.cwnd)) as u32;
        a.extra[0] = a.extra[0].max(extra);
    }

    /// Number of packets that are added to the window.
    pub(super) fn aggregation_room(&self) -> u64 {
        if self.set.aggregation_gain == 0 || !self.full_pipe {
            return 0;
        }
        let extra =
            (u64::from(self.set.aggregation_gain) * u64::from(self.aggregation.extra())) >> 8;
        extra.min(self.bw().packets_in(MOST_US))
    }
}
