//! A sample of a flow ("row"), as both ends of a measurement record it. A row is sent as a list of
//! integers.
//!
//! A receiver records only time and bytes. Apart from the time, a row of a sender has values of
//! Linux's TCP_INFO (include/uapi/linux/tcp.h) in the units of the kernel. The report converts them
//! to the units in the names of `COLUMNS`.

use crate::sys::TcpInfo;
use serde_json::{Value, json};

/// Number of integers of a row.
pub const WIDTH: usize = 16;

/// Names of the columns in the result of a measurement. The last three integers of a row have no
/// column; they are used for totals.
pub const COLUMNS: [&str; 13] = [
    "t_s",
    "acked_bytes",
    "cwnd_packets",
    "rtt_ms",
    "min_rtt_ms",
    "retransmits",
    "lost",
    "delivery_mbit",
    "pacing_mbit",
    "busy_s",
    "rwnd_limited_s",
    "sndbuf_limited_s",
    "delivered_ce",
];

/// The state of a flow at one time.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Time, ns of the clock of the end that recorded it.
    pub at: u64,
    /// Number of bytes acknowledged since the start of the connection; at a receiver, of bytes
    /// received.
    pub bytes: u64,
    /// Congestion window, packets.
    pub cwnd: u64,
    /// Smoothed RTT, us.
    pub rtt: u64,
    /// Minimum RTT within the kernel's window, us.
    pub min_rtt: u64,
    /// Number of retransmitted segments since the start of the connection.
    pub retransmits: u64,
    /// Number of segments that the sender considers lost now.
    pub lost: u64,
    /// Delivery rate, bytes per second.
    pub delivery: u64,
    /// Pacing rate, bytes per second.
    pub pacing: u64,
    /// Time in which the sender had data to send, us.
    pub busy: u64,
    /// Part of it limited by the receiver's window, us.
    pub rwnd_limited: u64,
    /// Part of it limited by the send buffer, us.
    pub sndbuf_limited: u64,
    /// Number of delivered segments with a congestion mark (CE).
    pub delivered_ce: u64,
    /// Number of segments delivered.
    pub delivered: u64,
    /// Number of bytes sent, including retransmits.
    pub sent: u64,
    /// Number of bytes retransmitted.
    pub resent: u64,
}

/// The pacing rate that the kernel reports while there is none.
const NO_RATE: u64 = u64::MAX;

impl Row {
    /// The row of a sender.
    pub fn of(at: u64, info: &TcpInfo) -> Row {
        let rate = |rate: u64| if rate == NO_RATE { 0 } else { rate };
        Row {
            at,
            bytes: info.bytes_acked,
            cwnd: info.snd_cwnd.into(),
            rtt: info.rtt.into(),
            // The kernel represents an unknown minimum RTT by all ones.
            min_rtt: if info.min_rtt == u32::MAX {
                0
            } else {
                info.min_rtt.into()
            },
            retransmits: info.total_retrans.into(),
            lost: info.lost.into(),
            delivery: info.delivery_rate,
            pacing: rate(info.pacing_rate),
            busy: info.busy_time,
            rwnd_limited: info.rwnd_limited,
            sndbuf_limited: info.sndbuf_limited,
            delivered_ce: info.delivered_ce.into(),
            delivered: info.delivered.into(),
            sent: info.bytes_sent,
            resent: info.bytes_retrans,
        }
    }
    fn numbers(&self) -> [u64; WIDTH] {
        [
            self.at,
            self.bytes,
            self.cwnd,
            self.rtt,
            self.min_rtt,
            self.retransmits,
            self.lost,
            self.delivery,
            self.pacing,
            self.busy,
            self.rwnd_limited,
            self.sndbuf_limited,
            self.delivered_ce,
            self.delivered,
            self.sent,
            self.resent,
        ]
    }
    /// Encodes the row.
    pub fn to_json(&self) -> Value {
        json!(self.numbers())
    }
    /// Decodes a row; `None` if it is invalid. Values that the kernel keeps in 32 bits must fit.
    pub fn from_json(value: &Value) -> Option<Row> {
        let list = value.as_array().filter(|list| list.len() == WIDTH)?;
        let mut n = [0; WIDTH];
        for (to, from) in n.iter_mut().zip(list) {
            *to = from.as_u64()?;
        }
        for narrow in [2, 3, 4, 5, 6, 12, 13] {
            u32::try_from(n[narrow]).ok()?;
        }
        Some(Row {
            at: n[0],
            bytes: n[1],
            cwnd: n[2],
            rtt: n[3],
            min_rtt: n[4],
            retransmits: n[5],
            lost: n[6],
            delivery: n[7],
            pacing: n[8],
            busy: n[9],
            rwnd_limited: n[10],
            sndbuf_limited: n[11],
            delivered_ce: n[12],
            delivered: n[13],
            sent: n[14],
            resent: n[15],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_and_nothing_else_is_one() {
        let info = TcpInfo {
            bytes_acked: u64::MAX,
            min_rtt: u32::MAX,
            pacing_rate: u64::MAX,
            snd_cwnd: 10,
            ..TcpInfo::default()
        };
        let row = Row::of(7, &info);
        assert_eq!((row.min_rtt, row.pacing, row.cwnd), (0, 0, 10));
        assert_eq!(Row::from_json(&row.to_json()), Some(row));
        assert_eq!(Row::from_json(&json!([1, 2])), None);
        assert_eq!(Row::from_json(&json!(vec!["1"; WIDTH])), None);
        // An RTT that the kernel could not store.
        let mut numbers = row.numbers();
        numbers[3] = 1 << 32;
        assert_eq!(Row::from_json(&json!(numbers)), None);
    }
}
