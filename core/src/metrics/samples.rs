//! Samples: columns over time. Each column is one vector, so that other languages can read it
//! without copying every row.

use super::serialize;
use super::{DelaySamples, PacketEvents, StateSamples, TransferSamples};
use crate::cc::INFINITE_SSTHRESH;
use crate::queue::Backlog;
use crate::tcp::{Info, State};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// States of a flow; `phase` columns have indices into this.
pub const PHASES: &[&str] = &[
    "slow_start",
    "avoidance",
    "disorder",
    "cwr",
    "recovery",
    "loss",
];

/// The index into [`PHASES`] of a sender's state.
fn phase(info: &Info) -> u8 {
    match info.state {
        State::Open if info.in_slow_start => 0,
        State::Open => 1,
        State::Disorder => 2,
        State::Cwr => 3,
        State::Recovery => 4,
        State::Loss => 5,
    }
}

/// All samples over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// A row per flow and instant, while the flow runs.
    pub flows: FlowSamples,
    /// A row per queue and instant.
    pub queue: QueueSamples,
    /// A row per class of a queue and instant.
    pub classes: ClassSamples,
    /// A row per ping.
    pub pings: PingSamples,
    /// Distributions of delays.
    pub delays: DelaySamples,
    /// A row per packet that was dropped, marked or lost, if the options request them.
    pub verdicts: PacketEvents,
    /// A row per value of a congestion control's internal state and instant, if the options request
    /// them.
    pub states: StateSamples,
    /// A row per transfer.
    pub transfers: TransferSamples,
}

macro_rules! table {
    ($(#[$doc:meta])* $table:ident,
    $(#[$row_doc:meta])* $row:ident { $($(#[$help:meta])* $column:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $table { $($(#[$help])* pub $column: Vec<$type>),* }
        $(#[$row_doc])*
        #[derive(Copy, Clone, PartialEq, Debug)]
        pub struct $row { $($(#[$help])* pub $column: $type),* }
        impl $table {
            /// Appends a row.
            pub fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)*
            }
            /// Number of rows.
            pub fn len(&self) -> usize {
                self.t_s.len()
            }
            pub(super) fn put(&self, to: &mut Vec<u8>) {
                serialize::put(&[self.len() as u64], to);
                $(serialize::put(&self.$column, to);)*
            }
            pub(super) fn take(from: &mut &[u8]) -> Option<$table> {
                let rows = serialize::Cell::take(from)?;
                Some($table { $($column: serialize::take(rows, from)?),* })
            }
            /// Row number `i`.
            ///
            /// # Panics
            /// If there is none.
            pub fn row(&self, i: usize) -> $row {
                $row { $($column: self.$column[i]),* }
            }
            /// Returns whether there is no row.
            pub fn is_empty(&self) -> bool {
                self.t_s.is_empty()
            }
        }
    };
}

table! {
    /// Columns of the flows.
    FlowSamples,
    /// A row of [`FlowSamples`].
    FlowSample {
        /// Time in seconds.
        t_s: f64,
        /// Index of the flow in the scenario.
        flow: u32,
        /// Congestion window in packets.
        cwnd_packets: u32,
        /// Slow-start threshold in packets; [`INFINITE_SSTHRESH`] while it was never set.
        ssthresh_packets: u32,
        /// Packets in flight, as the sender counts them.
        in_flight_packets: u32,
        /// Smoothed round-trip time in milliseconds.
        rtt_ms: f64,
        /// The latest round-trip time sample in milliseconds.
        ack_rtt_ms: f64,
        /// Bytes acknowledged in order.
        delivered_bytes: u64,
        /// Packets retransmitted so far.
        retransmits: u64,
        /// The pacing rate, which also sizes the bursts of flows without pacing, in Mbit/s.
        pacing_mbit: f64,
        /// Index into [`PHASES`].
        phase: u8,
    }
}

table! {
    /// Columns of the classes or bands of queues.
    ClassSamples,
    /// A row of [`ClassSamples`].
    ClassSample {
        /// Time in seconds.
        t_s: f64,
        /// Number of the queue's hop.
        queue: u32,
        /// Number of the class.
        class: u32,
        /// Backlog in bytes.
        backlog_bytes: u64,
        /// Backlog in packets.
        backlog_packets: u64,
    }
}

table! {
    /// Columns of the queues.
    QueueSamples,
    /// A row of [`QueueSamples`].
    QueueSample {
        /// Time in seconds.
        t_s: f64,
        /// Number of the queue's hop.
        queue: u32,
        /// Backlog in bytes.
        backlog_bytes: u64,
        /// Backlog in packets.
        backlog_packets: u64,
        /// Packets dropped so far by discipline and policer.
        drops: u64,
        /// Packets marked so far.
        marks: u64,
    }
}

table! {
    /// Columns of the pings.
    PingSamples,
    /// A row of [`PingSamples`].
    PingSample {
        /// Time of transmission, in seconds.
        t_s: f64,
        /// Index of the probe in the scenario.
        probe: u32,
        /// Round-trip time in milliseconds; NaN for a lost ping.
        rtt_ms: f64,
    }
}

impl FlowSample {
    /// The state of a sender.
    pub fn of(now: Time, flow: u32, info: &Info) -> FlowSample {
        FlowSample {
            t_s: now.as_s(),
            flow,
            cwnd_packets: info.cwnd,
            ssthresh_packets: info.ssthresh.unwrap_or(INFINITE_SSTHRESH),
            in_flight_packets: info.in_flight,
            rtt_ms: info.srtt.as_ms(),
            ack_rtt_ms: info.rtt.as_ms(),
            delivered_bytes: info.bytes_acked,
            retransmits: info.retransmits,
            pacing_mbit: info.pacing.as_mbit(),
            phase: phase(info),
        }
    }
}

impl FlowSamples {
    /// Appends the state of a sender.
    pub fn push_info(&mut self, now: Time, flow: u32, info: &Info) {
        self.push(FlowSample::of(now, flow, info));
    }

    /// Goodput over the last `interval` ([`metric_interval`](super::metric_interval) of the run),
    /// in Mbit/s, if rows are that dense; otherwise since the flow's row before. NaN if the flow
    /// has no row so long ago.
    pub fn goodput_mbit(&self, interval: Span) -> Vec<f64> {
        // Half a nanosecond, for times that are sums of fractions.
        let over = interval.as_s() - 5e-10;
        let flows = self.flow.iter().max().map_or(0, |most| *most as usize + 1);
        let mut before: Vec<VecDeque<(f64, u64)>> = alloc::vec![VecDeque::new(); flows];
        let rows = self.flow.iter().zip(&self.t_s).zip(&self.delivered_bytes);
        rows.map(|((flow, t_s), bytes)| {
            let before = &mut before[*flow as usize];
            while before.get(1).is_some_and(|(at, _)| t_s - at >= over) {
                before.pop_front();
            }
            let from = before.front().filter(|(at, _)| t_s - at >= over).copied();
            before.push_back((*t_s, *bytes));
            from.map_or(f64::NAN, |(at, had)| {
                (bytes - had) as f64 * 8.0 / (t_s - at) / 1e6
            })
        })
        .collect()
    }
}

impl QueueSamples {
    /// Appends the backlog of queue number `queue` at `now`, and its drops and marks so far.
    pub fn push_backlog(
        &mut self,
        now: Time,
        queue: u32,
        backlog: Backlog,
        drops: u64,
        marks: u64,
    ) {
        self.push(QueueSample {
            t_s: now.as_s(),
            queue,
            backlog_bytes: backlog.bytes.get(),
            backlog_packets: backlog.packets,
            drops,
            marks,
        });
    }
}

impl ClassSamples {
    /// Appends the backlog of a class of queue number `queue` at `now`.
    pub fn push_backlog(&mut self, now: Time, queue: u32, class: u32, backlog: Backlog) {
        self.push(ClassSample {
            t_s: now.as_s(),
            queue,
            class,
            backlog_bytes: backlog.bytes.get(),
            backlog_packets: backlog.packets,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goodput(rows: &[(u64, u32, u64)]) -> Vec<f64> {
        let mut samples = FlowSamples::default();
        for (t_ms, flow, bytes_acked) in rows {
            let info = Info {
                bytes_acked: *bytes_acked,
                ..Info::default()
            };
            samples.push_info(Time::ZERO + Span::ms(*t_ms), *flow, &info);
        }
        samples.goodput_mbit(Span::ms(100))
    }

    #[test]
    fn goodput_over_time_is_each_flows_own() {
        let rates = goodput(&[
            (1000, 0, 0),
            (1000, 1, 500_000),
            (2000, 0, 1_000_000),
            (4000, 1, 2_000_000),
        ]);
        assert!(rates[0].is_nan() && rates[1].is_nan());
        assert_eq!(rates[2..], [8.0, 4.0]);
    }

    #[test]
    fn between_dense_rows_goodput_is_that_of_a_tenth_of_a_second() {
        let rows: Vec<_> = (0..=20)
            .map(|i| (10 * i, 0, 10_000 * (i / 10 * 10)))
            .collect();
        let rates = goodput(&rows);
        assert!(rates[..10].iter().all(|x| x.is_nan()));
        assert!(
            rates[10..20].iter().all(|x| (x - 8.0).abs() < 1e-6),
            "{rates:?}"
        );
    }
}
