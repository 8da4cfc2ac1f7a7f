//! Proportional rate reduction: during recovery, the window decreases to `ssthresh`.
//!
//! Algorithm (RFC 6937 as in Linux 6.12, in packets), for each ACK that delivers data:
//!
//! - while more than `ssthresh` is in flight, `sndcnt = ceil(prr_delivered · ssthresh / prior_cwnd)
//!   − prr_out`;
//! - otherwise `sndcnt = min(max(prr_delivered − prr_out, delivered) + 1 if the ACK is safe,
//!   ssthresh − in_flight)`;
//! - `sndcnt` is at least one until a packet has been sent; `cwnd = in_flight + sndcnt`.
//!
//! Linux divides by the window at the start of recovery (`prior_cwnd`), where RFC 9937 divides by
//! RecoverFS. Before 5.19 ([`Rule::PrrCatchesUp`]), an ACK that is not safe released
//! `min(delivered, ssthresh − in_flight)`. Before 5.11 ([`Rule::PrrSafeAck`]), an ACK was safe if
//! it acknowledged a retransmission and showed no retransmission to be lost. Since 5.11, an ACK is
//! safe if it advances `una` and shows no new loss.

use crate::kernel::{Kernel, Rule};

/// The state of one reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prr {
    /// The window when the reduction began, in packets.
    pub prior_cwnd: u32,
    delivered: u32,
    out: u32,
    /// [`Rule::PrrCatchesUp`].
    catches_up: bool,
}

impl Prr {
    /// Begins a reduction from `cwnd`.
    pub fn begin(cwnd: u32, kernel: Kernel) -> Prr {
        Prr {
            prior_cwnd: cwnd,
            delivered: 0,
            out: 0,
            catches_up: kernel.follows(Rule::PrrCatchesUp),
        }
    }
    /// Counts packets that are sent during the reduction.
    pub fn sent(&mut self, packets: u32) {
        self.out += packets;
    }
    /// Handles an ACK that delivered packets; `safe`: it advanced `una` and showed no new loss.
    /// Returns the window, or `None` to keep it.
    pub fn on_ack(
        &mut self,
        delivered: u32,
        in_flight: u32,
        ssthresh: u32,
        safe: bool,
    ) -> Option<u32> {
        if delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        self.delivered += delivered;
        let out = i64::from(self.out);
        let room = i64::from(ssthresh) - i64::from(in_flight);
        let send = if room < 0 {
            let due = (u64::from(ssthresh) * u64::from(self.delivered))
                .div_ceil(u64::from(self.prior_cwnd));
            due as i64 - out
        } else if !safe && !self.catches_up {
            i64::from(delivered).min(room)
        } else {
            (i64::from(self.delivered) - out)
                .max(i64::from(delivered))
                .saturating_add(i64::from(safe))
                .min(room)
        };
        let send = send.max(i64::from(self.out == 0));
        Some((i64::from(in_flight) + send).max(0) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packets in flight at each of `n` ACKs, from the one that begins recovery; each
    /// delivers a packet.
    fn in_flight_at_acks(
        prr: &mut Prr,
        mut in_flight: u32,
        safe: bool,
        n: usize,
    ) -> alloc::vec::Vec<u32> {
        let mut seen = alloc::vec::Vec::new();
        for _ in 0..n {
            seen.push(in_flight);
            let cwnd = prr.on_ack(1, in_flight, 10, safe).unwrap_or(in_flight);
            prr.sent(cwnd.saturating_sub(in_flight));
            in_flight = cwnd.max(in_flight) - 1;
        }
        seen
    }

    /// A single loss at a window of 20 (RFC 6937 section 3.1): the retransmission at once, then a
    /// packet for every second ACK. `expected` has the packets in flight at each ACK. In the RFC's
    /// example, one more ACK has 18 packets in flight, because the RFC divides by the packets in
    /// flight at the start of recovery. Linux divides by the window.
    #[test]
    fn one_packet_leaves_for_two_that_arrived() {
        let expected = [
            18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10,
        ];
        assert_eq!(
            in_flight_at_acks(&mut Prr::begin(20, Kernel::default()), 18, false, 17),
            expected
        );
    }

    /// Two packets are owed. Since 5.19, an ACK that is not safe releases both packets; before, it
    /// released only as many packets as it delivered.
    #[test]
    fn owed_packets_waited_for_a_safe_ack_before_5_19() {
        let window = |kernel, safe| {
            let mut prr = Prr::begin(20, kernel);
            prr.on_ack(3, 4, 10, false);
            prr.sent(1);
            prr.on_ack(1, 4, 10, safe)
        };
        assert_eq!(
            [Kernel::published(5, 17), Kernel::published(5, 19)].map(|k| window(k, false)),
            [Some(5), Some(7)]
        );
        assert_eq!(
            [Kernel::published(5, 17), Kernel::published(5, 19)].map(|k| window(k, true)),
            [Some(8), Some(8)]
        );
    }

    /// Fifteen of twenty lost (RFC 6937 section 3.1, ACKs 17 to 19): a packet per ACK by the
    /// conservative bound. By the slow-start bound, which Linux uses for safe ACKs, two packets
    /// leave.
    #[test]
    fn after_a_burst_of_losses_only_safe_acks_open_the_window() {
        assert_eq!(
            in_flight_at_acks(&mut Prr::begin(20, Kernel::default()), 4, false, 3),
            [4, 4, 4]
        );
        assert_eq!(
            in_flight_at_acks(&mut Prr::begin(20, Kernel::default()), 4, true, 3),
            [4, 5, 6]
        );
    }
}
