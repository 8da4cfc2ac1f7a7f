//! Writes a measurement as JSON, version 1. docs/reference/measurement.md documents every key.
//! Values that were not measured are null.
//!
//! Times in seconds count from the beginning of the measurement. A ping belongs to the phase in
//! which it was sent. Percentiles are computed by rank, as in `narrows_core::metrics`. The totals
//! of a flow are differences between its first and last row, so they exclude everything before the
//! load, such as handshakes.

use super::options::{Options, SPEAKS, Transport};
use super::ping::Pings;
use super::seen::{FlowSeen, Seen, StoppedBy};
use crate::digest;
use crate::protocols::tcp_info::COLUMNS;
use crate::sys::kernel;
use narrows_core::metrics::rank;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The present date and time in UTC (RFC 3339).
pub fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    rfc3339(since.as_secs(), since.subsec_millis())
}

fn rfc3339(seconds: u64, millis: u32) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z",
        days + 1
    )
}

/// Rounds a value to six significant digits, as in all outputs of narrows. Infinite values and NaN
/// become null.
pub(super) fn shown(x: f64) -> Value {
    if !x.is_finite() {
        return Value::Null;
    }
    json!(format!("{x:.5e}").parse().unwrap_or(x))
}

/// Rounds to six decimals: times in s to 1 µs, times in ms to 1 ns.
fn micro(x: f64) -> Value {
    json!((x * 1e6).round() / 1e6)
}

fn at(sorted: &[f64], q: f64) -> Value {
    rank(q, sorted.len()).map_or(Value::Null, |i| shown(sorted[i]))
}

/// Count, minimum, maximum, mean, and the 50th, 95th and 99th percentiles of the values.
pub(super) fn distribution(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let mean = if values.is_empty() {
        Value::Null
    } else {
        shown(values.iter().sum::<f64>() / values.len() as f64)
    };
    json!({
        "n": values.len(), "min": values.first().map(|x| shown(*x)), "mean": mean,
        "p50": at(&values, 0.5),
        "p95": at(&values, 0.95), "p99": at(&values, 0.99), "max": values.last().map(|x| shown(*x)),
    })
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

struct Axis {
    begin: u64,
}

impl Axis {
    fn s(&self, at: u64) -> f64 {
        (i128::from(at) - i128::from(self.begin)) as f64 / 1e9
    }
}

fn flow(
    flow: &FlowSeen,
    axis: &Axis,
    asked_ecn: bool,
    reverse: &dyn Fn(u8) -> Option<u8>,
) -> Value {
    let first = flow.rows.first().copied().unwrap_or_default();
    let last = flow.rows.last().copied().unwrap_or_default();
    let span = last.at.saturating_sub(first.at) as f64 / 1e9;
    let bytes = last.bytes.saturating_sub(first.bytes);
    // The stack of QUIC does not report these values.
    let quic = flow.protocol == Transport::Quic.name();
    let of_tcp = |value: Value| if quic { Value::Null } else { value };
    let share = |from: u64, to: u64| {
        let seen = flow.sender && !quic && span > 0.0;
        if seen {
            shown((to.saturating_sub(from)) as f64 / 1e6 / span * 100.0)
        } else {
            Value::Null
        }
    };
    let of_sender = |value: Value| if flow.sender { value } else { Value::Null };
    let sent = last.sent.saturating_sub(first.sent);
    let rtts: Vec<f64> = flow
        .rows
        .iter()
        .filter(|row| row.rtt > 0)
        .map(|row| row.rtt as f64 / 1e3)
        .collect();
    let mut rtt = distribution(rtts);
    if let Some(rtt) = rtt.as_object_mut() {
        rtt.remove("n");
        rtt.remove("max");
        if last.min_rtt > 0 {
            rtt.insert("min".into(), shown(last.min_rtt as f64 / 1e3));
        }
    }
    let delivered = last.delivered.saturating_sub(first.delivered);
    let marked = last.delivered_ce.saturating_sub(first.delivered_ce);
    let arrived = flow.arrived.or_else(|| reverse(flow.dscp));
    let rows = flow.rows.iter().map(|row| {
        let s = |us: u64| json!(us as f64 / 1e6);
        let mbit = |bytes: u64| shown(bytes as f64 * 8.0 / 1e6);
        let known = |value: u64, shown: Value| if value > 0 { shown } else { Value::Null };
        if !flow.sender {
            let mut cells = vec![Value::Null; COLUMNS.len()];
            cells[0] = micro(axis.s(row.at));
            cells[1] = json!(row.bytes.saturating_sub(first.bytes));
            return Value::Array(cells);
        }
        json!([
            micro(axis.s(row.at)),
            row.bytes.saturating_sub(first.bytes),
            row.cwnd,
            known(row.rtt, json!(row.rtt as f64 / 1e3)),
            known(row.min_rtt, json!(row.min_rtt as f64 / 1e3)),
            row.retransmits.saturating_sub(first.retransmits),
            of_tcp(json!(row.lost)),
            of_tcp(mbit(row.delivery)),
            known(row.pacing, mbit(row.pacing)),
            of_tcp(s(row.busy.saturating_sub(first.busy))),
            of_tcp(s(row.rwnd_limited.saturating_sub(first.rwnd_limited))),
            of_tcp(s(row.sndbuf_limited.saturating_sub(first.sndbuf_limited))),
            of_tcp(json!(row.delivered_ce.saturating_sub(first.delivered_ce))),
        ])
    });
    json!({
        "id": flow.id, "direction": flow.direction.name(),
        "protocol": flow.protocol,
        "cc": flow.cc, "dscp": flow.dscp,
        "ecn": {
            "asked": asked_ecn, "negotiated": flow.ecn,
            "ce_rate": if flow.ecn == Some(true) && delivered > 0 {
                shown(marked as f64 / delivered as f64)
            } else { Value::Null },
            "dscp_survives": arrived.map(|arrived| arrived == flow.dscp),
        },
        "from_s": micro(axis.s(first.at)), "to_s": micro(axis.s(last.at)), "bytes": bytes,
        "goodput_mbit": if span > 0.0 {
            shown(bytes as f64 * 8.0 / 1e6 / span)
        } else { Value::Null },
        "received_bytes": flow.received,
        "retransmits": if flow.sender {
            json!(last.retransmits.saturating_sub(first.retransmits))
        } else {
            json!(flow.resent)
        },
        "retransmit_rate": of_sender(if sent > 0 {
            shown(last.resent.saturating_sub(first.resent) as f64 / sent as f64)
        } else {
            Value::Null
        }),
        "mss_bytes": flow.mss, "rtt_ms": rtt,
        "busy_pct": share(first.busy, last.busy), "rwnd_limited_pct": share(first.rwnd_limited,
        last.rwnd_limited),
        "sndbuf_limited_pct": share(first.sndbuf_limited, last.sndbuf_limited),
        "columns": COLUMNS, "samples": rows.collect::<Vec<Value>>(),
    })
}

/// One-way delays of each ping, ns: forward and reverse; `None` for unanswered pings and
/// handshakes. Without a common clock, the unknown difference of the clocks is added to the former
/// and subtracted from the latter.
pub(super) fn one_ways(pings: &Pings) -> Vec<Option<(i128, i128)>> {
    let one = |ping: &super::ping::Sent| {
        let i = i128::from;
        (ping.rtt.is_some() && pings.udp).then(|| {
            (
                i(ping.received) - i(ping.at),
                i(ping.returned) - i(ping.answered),
            )
        })
    };
    pings.sent.iter().map(one).collect()
}

fn probe(place: usize, pings: &Pings, axis: &Axis, common: bool) -> Value {
    let ways = one_ways(pings);
    let least =
        |way: &dyn Fn(&(i128, i128)) -> i128| ways.iter().flatten().map(way).min().unwrap_or(0);
    let (forward, reverse) = (least(&|way| way.0), least(&|way| way.1));
    let rows = pings.sent.iter().zip(&ways).map(|(ping, way)| {
        let cell = |ns: Option<i128>| ns.map_or(Value::Null, |ns| micro(ns as f64 / 1e6));
        let plain = way.filter(|_| common);
        json!([
            micro(axis.s(ping.at)),
            ping.rtt.map_or(Value::Null, |ns| micro(ms(ns))),
            cell(plain.map(|way| way.0)),
            cell(plain.map(|way| way.1)),
            cell(way.map(|way| way.0 - forward)),
            cell(way.map(|way| way.1 - reverse)),
        ])
    });
    let received = pings.received();
    // Each answer reports how many pings had arrived at the server. The others were lost on the
    // forward path.
    let arrived = pings
        .sent
        .iter()
        .map(|ping| ping.count as usize)
        .max()
        .filter(|_| pings.udp);
    json!({
        "id": format!("ping{}", place + 1), "protocol": if pings.udp { "udp" } else { "tcp" },
        "dscp": pings.dscp,
        "interval_ms": ms(pings.interval),
        "spacing": "random",
        "payload_bytes": if pings.udp { json!(pings.size) } else { Value::Null },
        "sent": pings.sent.len(), "received": received, "arrived": arrived,
        "dscp_arrived": pings.arrived.map(|(there, _)| there), "dscp_back": pings.arrived.map(|(_,
        reverse)| reverse),
        "columns": ["t_s", "rtt_ms", "forward_ms", "back_ms", "forward_queue_ms", "back_queue_ms"],
        "samples": rows.collect::<Vec<Value>>(),
    })
}

fn latency(seen: &Seen, name: &str) -> Value {
    let within = |at: u64| {
        seen.phases
            .iter()
            .any(|phase| phase.name == name && phase.from <= at && at < phase.to)
    };
    let sent = seen
        .pings
        .iter()
        .flat_map(|pings| &pings.sent)
        .filter(|ping| within(ping.at));
    distribution(sent.filter_map(|ping| ping.rtt).map(ms).collect())
}

fn own_error(seen: &Seen) -> Value {
    let mut late: Vec<f64> = seen
        .pings
        .iter()
        .flat_map(|pings| &pings.late)
        .map(|ns| ms(*ns))
        .collect();
    late.sort_by(f64::total_cmp);
    let leaving = seen.pings.iter().flat_map(|pings| &pings.leaving);
    let mut leaving: Vec<f64> = leaving.map(|ns| ms(*ns)).collect();
    leaving.sort_by(f64::total_cmp);
    let from = seen.phases.first().map_or(0, |phase| phase.from);
    let to = seen.phases.last().map_or(0, |phase| phase.to);
    let span = to.saturating_sub(from).max(1) as f64;
    let clock = match (&seen.offsets, seen.common) {
        (_, true) => {
            json!({ "kind": "common", "offset_ms": 0.0, "error_ms": 0.0, "drift_ms": 0.0 })
        }
        (Some((first, last)), false) => json!({
            "kind": "estimated", "offset_ms": micro(first.ns as f64 / 1e6),
            "error_ms": micro(ms(first.error.max(last.error))),
            "drift_ms": micro((last.ns - first.ns) as f64 / 1e6),
        }),
        (None, false) => {
            json!({ "kind": "none", "offset_ms": null, "error_ms": null, "drift_ms": null })
        }
    };
    let far_cpu = seen.far["cpu_ns"]
        .as_f64()
        .map_or(Value::Null, |ns| shown(ns / span * 100.0));
    json!({
        "lateness_ms": { "p50": at(&late, 0.5), "p99": at(&late, 0.99),
        "max": late.last().map(|x| shown(*x)) },
        "leaving_ms": at(&leaving, 0.5),
        "socket_drops": seen.pings.iter().map(|pings| pings.drops).sum::<u64>(),
        "cpu_pct": shown(seen.cpu as f64 / span * 100.0), "clock": clock,
        "far": {
            "cpu_pct": far_cpu,
            "answering_ms": seen.far["answering_ns"].as_u64().map(|ns| shown(ms(ns))),
            "socket_drops": seen.far["socket_drops"].as_u64(),
            "missed_samples": seen.far["missed_samples"].as_u64(),
        },
        "notes": seen.notes,
    })
}

/// The measurement as JSON.
pub fn to_json(
    options: &Options,
    to: SocketAddr,
    started: &str,
    planned: u64,
    seen: &Seen,
) -> Value {
    let axis = Axis { begin: seen.begin };
    let phases = seen.phases.iter().map(|phase| {
        json!({ "name": phase.name, "from_s": micro(axis.s(phase.from)),
        "to_s": micro(axis.s(phase.to)), "cc": phase.cc })
    });
    let reverse = |dscp: u8| {
        let pings = seen.pings.iter().find(|pings| pings.dscp == dscp);
        pings
            .and_then(|pings| pings.arrived)
            .map(|(_, reverse)| reverse)
    };
    let flows = seen
        .flows
        .iter()
        .map(|each| flow(each, &axis, options.ecn, &reverse));
    let pings = seen
        .pings
        .iter()
        .enumerate()
        .map(|(i, pings)| probe(i, pings, &axis, seen.common));
    let speaks = SPEAKS
        .iter()
        .find(|(_, speaks)| *speaks == options.speaks)
        .map_or("", |(name, _)| name);
    let id = digest::random::<8>().map_or(String::new(), |bytes| digest::hex(&bytes));
    json!({
        "measurement": 1, "narrows": env!("CARGO_PKG_VERSION"), "id": id, "started": started,
        "asked": {
            "host": options.host, "port": options.port, "test": options.test.name(),
            "duration_s": options.duration.as_s(),
            "idle_s": options.idle.as_s(), "streams": options.streams, "cc": options.cc,
            "repeats": options.repeats,
            "dscp": options.dscp, "ecn": options.ecn,
            "pacing_mbit": options.pacing.map(|rate| rate.as_mbit()),
            "max_data_bytes": options.max_data.get(),
            "ping_interval_ms": options.ping_interval.as_ms(), "speaks": speaks,
            "transport": options.transport.name(),
            "pacer": (options.transport == Transport::Udp)
                .then(|| options.pacer.unwrap_or_default().name()),
        },
        "peer": if seen.peer.is_null() { json!({ "address": to.ip().to_string(),
        "port": to.port() }) } else { seen.peer.clone() },
        "phases": phases.collect::<Vec<Value>>(), "flows": flows.collect::<Vec<Value>>(),
        "pings": pings.collect::<Vec<Value>>(),
        "latency_ms": { "idle": latency(seen, "idle"), "loaded": latency(seen, "loaded") },
        "voip": seen.voip, "page": seen.page, "udp_load": seen.udp_load,
        "own_error": own_error(seen),
        "data": {
            "planned_bytes": planned, "moved_bytes": seen.moved,
            "stopped_by": match seen.stopped_by {
                StoppedBy::Duration => "duration",
                StoppedBy::User => "user",
                StoppedBy::MaxData => "max_data",
                StoppedBy::Peer => "peer",
                StoppedBy::Breaker => "circuit_breaker",
                StoppedBy::Lost => "lost",
            },
        },
        "host": kernel::to_json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_calendars() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400, 5), "2000-02-29T00:00:00.005Z");
        assert_eq!(rfc3339(1_767_225_599, 999), "2025-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_distribution_of_nothing_is_null() {
        let none = distribution(Vec::new());
        assert_eq!(
            (&none["n"], &none["p50"], &none["mean"]),
            (&json!(0), &Value::Null, &Value::Null)
        );
        let some = distribution(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (&some["min"], &some["p50"], &some["max"]),
            (&json!(1.0), &json!(2.0), &json!(3.0))
        );
    }
}
