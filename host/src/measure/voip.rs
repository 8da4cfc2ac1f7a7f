//! Estimated quality of a G.711 call by the E-model of ITU-T G.107
//! (`narrows_core::workload::emodel`), from pings with the size and interval of its packets.
//!
//! The mouth-to-ear delay consists of 20 ms for the speech in a packet, a playout buffer of
//! `BUFFER`, and half of the minimum RTT. A packet whose queueing delay exceeds the buffer counts
//! as lost. A ping without an answer counts as lost in both directions.

use super::ping::Pings;
use super::report;
use super::seen::PhaseSeen;
use narrows_core::workload::emodel::{G711_PLC, mos, rating};
use serde_json::{Value, json};

/// Duration of the speech in one packet, ms.
const PACKET: f64 = 20.0;
/// Length of the playout buffer, ms.
const BUFFER: f64 = 60.0;

/// The result of a call as JSON, by phase and direction.
pub fn told(pings: &Pings, phases: &[PhaseSeen]) -> Value {
    let least = pings.sent.iter().filter_map(|ping| ping.rtt).min();
    let Some(least) = least else {
        return Value::Null;
    };
    let half = least as f64 / 2e6;
    let ways = report::one_ways(pings);
    let base = |way: fn(&(i128, i128)) -> i128| ways.iter().flatten().map(way).min().unwrap_or(0);
    let bases = (base(|way| way.0), base(|way| way.1));
    let of = |name: &str| {
        let within = |at: u64| {
            phases
                .iter()
                .any(|phase| phase.name == name && phase.from <= at && at < phase.to)
        };
        let packets: Vec<_> = pings
            .sent
            .iter()
            .zip(&ways)
            .filter(|(ping, _)| within(ping.at))
            .map(|(_, way)| way)
            .collect();
        if packets.is_empty() {
            return Value::Null;
        }
        let one = |queued: &dyn Fn(&(i128, i128)) -> i128| {
            let queued: Vec<f64> = packets
                .iter()
                .filter_map(|way| way.as_ref().map(|w| queued(w) as f64 / 1e6))
                .collect();
            let in_time = queued.iter().filter(|ms| **ms <= BUFFER).count();
            let loss = 1.0 - in_time as f64 / packets.len() as f64;
            let r = rating(G711_PLC, PACKET + BUFFER + half, loss, 1.0);
            let mos = mos(r);
            json!({
                "mos": (mos * 100.0).round() / 100.0, "r": (r * 10.0).round() / 10.0,
                "loss": (loss * 1e5).round() / 1e5,
                "queue_ms": report::distribution(queued),
            })
        };
        json!({ "up": one(&|way| way.0 - bases.0), "down": one(&|way| way.1 - bases.1) })
    };
    json!({ "codec": "G.711", "buffer_ms": BUFFER, "idle": of("idle"), "loaded": of("loaded") })
}
