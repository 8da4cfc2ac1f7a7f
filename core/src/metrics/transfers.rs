//! Transfers: start, size, completion time and slowdown of each.
//!
//! The slowdown of a transfer is its completion time over the time that it needs on an empty path
//! without slow start. The time on an empty path has two parts: the round trips of handshake and
//! data, and the transmission time of all packets. Packets include headers, and the rate is the
//! path's long-term rate. A flow with a `size` is complete when its sender has the last ACK, so its
//! shortest completion time includes two round trips. A transfer of the workload `poisson` is
//! complete when the client has read the last byte. The shortest completion time of such a transfer
//! therefore includes one and a half round trips.

use crate::packet::Ip;
use crate::transport::{HEADERS, MSS};
use alloc::vec::Vec;

/// Columns of transfers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TransferSamples {
    /// Time of the SYN, in seconds.
    pub t_s: Vec<f64>,
    /// Index of the flow in the scenario.
    pub flow: Vec<u32>,
    /// Size in bytes.
    pub bytes: Vec<u64>,
    /// Completion time in seconds; NaN for a transfer that is not complete.
    pub fct_s: Vec<f64>,
    /// Completion time over that on an empty path; NaN if unknown.
    pub slowdown: Vec<f64>,
}

/// The path of a transfer.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Empty {
    /// Round trips from the SYN to the completion.
    pub round_trips: f64,
    /// Base RTT in seconds.
    pub rtt_s: f64,
    /// Rate of the path in Mbit/s; infinite if no hop limits it, NaN if it is unknown.
    pub rate_mbit: f64,
    /// The version of IP.
    pub ip: Ip,
}

impl Empty {
    /// The completion time of a transfer of this size, in seconds.
    pub fn takes_s(&self, bytes: u64) -> f64 {
        let longer = u64::from(self.ip.beyond_v4());
        let wire = bytes + (HEADERS + longer) * bytes.div_ceil(u64::from(MSS) - longer);
        self.round_trips * self.rtt_s + wire as f64 * 8e-6 / self.rate_mbit
    }
}

impl TransferSamples {
    /// Appends a transfer.
    pub fn push(&mut self, t_s: f64, flow: u32, bytes: u64, fct_s: f64, empty: &Empty) {
        self.t_s.push(t_s);
        self.flow.push(flow);
        self.bytes.push(bytes);
        self.fct_s.push(fct_s);
        self.slowdown.push(fct_s / empty.takes_s(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_is_relative_to_an_empty_path() {
        let empty = Empty {
            round_trips: 2.0,
            rtt_s: 0.04,
            rate_mbit: 12.112,
            ip: Ip::V4,
        };
        // One full packet takes 1 ms at this rate.
        assert!((empty.takes_s(1448) - 0.081).abs() < 1e-12);
        // Over IPv6, the same bytes need a second packet.
        let six = Empty {
            ip: Ip::V6,
            ..empty
        };
        assert!((six.takes_s(1428) - 0.081).abs() < 1e-12);
        assert!((six.takes_s(1448) - 0.081 - 106.0 / 1514e3).abs() < 1e-12);
        let mut rows = TransferSamples::default();
        rows.push(1.0, 0, 1448, 0.162, &empty);
        rows.push(2.0, 0, 1448, f64::NAN, &empty);
        assert!((rows.slowdown[0] - 2.0).abs() < 1e-12);
        assert!(rows.slowdown[1].is_nan());
    }
}
