//! A flow at one instant, as both ends of a measurement note it: whole numbers, in the order that
//! goes over the wire.
//!
//! What it is for a receiver, who has no congestion control, is only the time and the bytes. The
//! columns are Linux's TCP_INFO (include/uapi/linux/tcp.h), each in the kernel's own unit, since
//! rounding is for whoever shows them.

use crate::sys::TcpInfo;
use serde_json::{Value, json};

/// Numbers of a row.
pub const WIDTH: usize = 16;

/// What a measurement calls the columns that it shows; the last three of a row are for its sums.
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

/// A flow at one instant.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// When, ns of the clock of the end that noted it.
    pub at: u64,
    /// Bytes acknowledged; those received, at a receiver.
    pub bytes: u64,
    /// Congestion window, packets.
    pub cwnd: u64,
    /// Smoothed round trip, us.
    pub rtt: u64,
    /// The least within the kernel's window, us.
    pub min_rtt: u64,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Segments taken for lost now.
    pub lost: u64,
    /// Delivery rate, bytes per second.
    pub delivery: u64,
    /// Pacing rate, bytes per second.
    pub pacing: u64,
    /// Time with something to send, us.
    pub busy: u64,
    /// Of that: the receiver's window was the limit.
    pub rwnd_limited: u64,
    /// Of that: the send buffer was.
    pub sndbuf_limited: u64,
    /// Segments whose ACK told of a congestion mark.
    pub delivered_ce: u64,
    /// Segments delivered.
    pub delivered: u64,
    /// Bytes sent, those sent again too.
    pub sent: u64,
    /// Bytes sent again.
    pub resent: u64,
}

/// A rate that the kernel says when it knows none.
const NO_RATE: u64 = u64::MAX;

impl Row {
    /// Of a sender.
    pub fn of(at: u64, info: &TcpInfo) -> Row {
        let rate = |rate: u64| if rate == NO_RATE { 0 } else { rate };
        Row {
            at,
            bytes: info.bytes_acked,
            cwnd: info.snd_cwnd.into(),
            rtt: info.rtt.into(),
            // The kernel's "none yet" is all ones.
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
    /// For the wire.
    pub fn to_json(&self) -> Value {
        json!(self.numbers())
    }
    /// From the wire; `None` when it is no row.
    pub fn from_json(value: &Value) -> Option<Row> {
        let list = value.as_array().filter(|list| list.len() == WIDTH)?;
        let mut n = [0; WIDTH];
        for (to, from) in n.iter_mut().zip(list) {
            *to = from.as_u64()?;
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
    }
}
