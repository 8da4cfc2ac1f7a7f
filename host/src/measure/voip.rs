//! How a call would sound: ITU-T G.107's E-model, reduced as by Cole and Rosenbluth (2001) to delay and loss of a G.711 call.
//!
//! `R = 93.2 - Id - Ie`, `Id = 0.024 d + 0.11 (d - 177.3)` (the second term from 177.3 ms on), `Ie = 95 p / (p + 25.1)` with loss `p` in percent
//! and packet-loss concealment (G.113 appendix I), and the mean opinion score from R by G.107 annex B. `d` is from mouth to ear: the
//! packet's 20 ms, a playout buffer of [`BUFFER`], the path. What comes later than the buffer allows is lost. One way is half of the round
//! trip's least, and what queued on top of it that way.

use super::ping::Pings;
use super::report;
use super::seen::PhaseSeen;
use serde_json::{json, Value};

/// Speech in one packet, ms.
const PACKET: f64 = 20.0;
/// Playout buffer, ms.
const BUFFER: f64 = 60.0;

/// The rating and the mean opinion score of a call with so much loss (a share) and one-way delay from mouth to ear (ms).
fn rated(loss: f64, delay: f64) -> (f64, f64) {
    let percent = loss * 100.0;
    let impaired = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
    let r = 93.2 - impaired - 95.0 * percent / (percent + 25.1);
    let mos = match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => 1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6,
    };
    (r, mos.max(1.0))
}

/// A call, by phase and way.
pub fn told(pings: &Pings, phases: &[PhaseSeen]) -> Value {
    let least = pings.sent.iter().filter_map(|ping| ping.rtt).min();
    let Some(least) = least else { return Value::Null };
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
            let (r, mos) = rated(loss, PACKET + BUFFER + half);
            json!({
                "mos": (mos * 100.0).round() / 100.0, "r": (r * 10.0).round() / 10.0, "loss": (loss * 1e5).round() / 1e5,
                "queue_ms": report::distribution(queued),
            })
        };
        json!({ "up": one(&|way| way.0 - bases.0), "down": one(&|way| way.1 - bases.1) })
    };
    json!({ "codec": "G.711", "buffer_ms": BUFFER, "idle": of("idle"), "loaded": of("loaded") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_rated_as_the_model_says() {
        // G.107's default connection without impairment has R = 93.2 and a score of 4.41.
        let (r, mos) = rated(0.0, 0.0);
        assert!((r - 93.2).abs() < 1e-9 && (mos - 4.41).abs() < 0.005, "{r} {mos}");
        // 5 % loss with concealment costs 15.8 points.
        assert!((rated(0.05, 0.0).0 - (93.2 - 95.0 * 5.0 / 30.1)).abs() < 1e-9);
        // From 177.3 ms on delay costs more.
        let slope = |d: f64| rated(0.0, d).0 - rated(0.0, d + 1.0).0;
        assert!((slope(100.0) - 0.024).abs() < 1e-9 && (slope(300.0) - 0.134).abs() < 1e-9);
        assert_eq!(rated(1.0, 1000.0).1, 1.0);
    }
}
