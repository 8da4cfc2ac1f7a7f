//! Proportional rate reduction: how the window comes down to its threshold during recovery.
//!
//! Law (RFC 6937 as Linux 6.12 runs it, in packets): per ACK that delivers anything,
//! `sndcnt = ceil(prr_delivered · ssthresh / prior_cwnd) − prr_out` while more than `ssthresh` is in flight; then
//! `sndcnt = min(max(prr_delivered − prr_out, delivered) + 1 if the ACK is safe, ssthresh − in_flight)`; at least one packet
//! for the very first; `cwnd = in_flight + sndcnt`. Linux divides by the window at entry, not by RFC 9937's RecoverFS.

/// The state of one reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prr {
    /// The window when it began.
    pub prior_cwnd: u32,
    delivered: u32,
    out: u32,
}

impl Prr {
    /// A reduction begins from `cwnd`.
    pub fn begin(cwnd: u32) -> Prr {
        Prr {
            prior_cwnd: cwnd,
            delivered: 0,
            out: 0,
        }
    }
    /// Packets left.
    pub fn sent(&mut self, packets: u32) {
        self.out += packets;
    }
    /// An ACK delivered packets; `safe`: it advanced `una` and showed no new loss. Answers the window, `None` to keep it.
    pub fn on_ack(&mut self, delivered: u32, in_flight: u32, ssthresh: u32, safe: bool) -> Option<u32> {
        if delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        self.delivered += delivered;
        let out = i64::from(self.out);
        let room = i64::from(ssthresh) - i64::from(in_flight);
        let send = if room < 0 {
            let due = (u64::from(ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(self.prior_cwnd));
            due as i64 - out
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

    /// RFC 6937 section 3.1, first example: Reno, cwnd = pipe = 20, one loss; pipe per ACK 1..19.
    #[test]
    fn the_single_loss_of_rfc_6937() {
        let mut prr = Prr::begin(20);
        let mut pipe = 20; // the lost packet has left, two were sent on the first two duplicate ACKs
        prr.out = 0;
        let mut seen = alloc::vec::Vec::new();
        pipe -= 1; // one packet is known lost at entry
        for _ in 0..17 {
            pipe -= 1;
            let cwnd = prr.on_ack(1, pipe, 10, false).unwrap_or(pipe);
            let send = cwnd.saturating_sub(pipe);
            prr.sent(send);
            pipe += send;
            seen.push(pipe);
        }
        // One packet out for every two in, ending at ssthresh.
        assert_eq!(&seen[..4], &[19, 18, 18, 17]);
        assert_eq!(*seen.last().unwrap_or(&0), 10);
    }
}
