//! The E-model: the quality of a call from its delay and its losses.
//!
//! Algorithm (ITU-T G.107, 06/2015; all parameters that do not depend on the network have the
//! defaults of its Table 3): `R = Ro − Is − Id(Ta) − Ie,eff`, `Ie,eff = Ie + (95 − Ie) · Ppl / (Ppl
//! / BurstR + Bpl)`, `Ppl` in per cent. `Id` is the impairment by talker's echo, listener's echo
//! and absolute delay. `MOS = 1 + 0.035 R + R (R − 60)(100 − R) · 7·10⁻⁶` between R = 0 (1) and R =
//! 100 (4.5) (Annex B).
//!
//! | codec (ITU-T G.113 Appendix I) | Ie | Bpl |
//! |---|---|---|
//! | G.711, with packet-loss concealment (its Appendix I) | 0 | 25.1 |
//! | G.711, no packet-loss concealment | 0 | 4.3 |
//!
//! A call without loss or delay has R = 93.2. All delays of the model follow from the mouth-to-ear
//! delay `Ta`: `T = Ta` and `Tr = 2 Ta`.

use libm::{exp, log10, pow, sqrt};

/// The sensitivity of a codec to losses.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Codec {
    /// Equipment impairment without loss.
    pub ie: f64,
    /// Robustness against loss.
    pub bpl: f64,
}

/// G.711 with packet-loss concealment.
pub const G711_PLC: Codec = Codec { ie: 0.0, bpl: 25.1 };
/// G.711, no packet-loss concealment.
pub const G711: Codec = Codec { ie: 0.0, bpl: 4.3 };

// G.107 Table 3.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const OLR: f64 = SLR + RLR;
const STMR: f64 = 15.0;
const LSTR: f64 = 18.0;
const DS: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
/// Quantisation distortion units.
const QDU: f64 = 1.0;

fn db(x: f64) -> f64 {
    pow(10.0, x / 10.0)
}

/// All noise, in dBm0p at the receiving side's zero (7-3 to 7-7).
fn noise() -> f64 {
    let level = PS - OLR - DS - 14.0;
    let send = PS - SLR - DS - 100.0 + 0.004 * level * level;
    let pre = PR + 10.0 * log10(1.0 + db(10.0 - LSTR));
    let room = RLR - 121.0 + pre + 0.008 * (pre - 35.0) * (pre - 35.0);
    10.0 * log10(db(NC) + db(send) + db(room) + db(NFOR + RLR))
}

/// The signal-to-noise ratio that a call begins with (7-2).
fn basic() -> f64 {
    15.0 - 1.5 * (SLR + noise())
}

/// Impairment that occurs with the voice (7-8 to 7-17).
fn simultaneous(delay_ms: f64) -> f64 {
    let x = OLR + 0.2 * (64.0 + noise() - RLR);
    let loud = 20.0 * (pow(1.0 + pow(x / 8.0, 8.0), 1.0 / 8.0) - x / 8.0);
    let tone = -10.0 * log10(db(-STMR) + exp(-delay_ms / 4.0) * db(-TELR));
    let side = 12.0 * pow(1.0 + pow((tone - 13.0) / 6.0, 8.0), 1.0 / 8.0)
        - 28.0 * pow(1.0 + pow((tone + 1.0) / 19.4, 35.0), 1.0 / 35.0)
        - 13.0 * pow(1.0 + pow((tone - 3.0) / 33.0, 13.0), 1.0 / 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let (y, z) = (
        (basic() - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0,
        46.0 / 30.0 - g / 40.0,
    );
    let quantised = 15.0 * log10(1.0 + pow(10.0, y) + pow(10.0, z));
    loud + side + quantised
}

/// Impairment by delay (7-18 to 7-28).
fn late(delay_ms: f64) -> f64 {
    let t = delay_ms;
    let ro = -1.5 * (noise() - RLR);
    let masked = 40.0 * log10((1.0 + t / 10.0) / (1.0 + t / 150.0));
    let echo = TELR - masked + 6.0 * exp(-0.3 * t * t);
    // Side tone is in its default range, in which no correction applies.
    let re = 80.0 + 2.5 * (echo - 14.0);
    let half = (ro - re) / 2.0;
    let talker = (half + sqrt(half * half + 100.0) - 1.0) * (1.0 - exp(-t));
    let rle = 10.5 * (WEPL + 7.0) * pow(2.0 * t + 1.0, -0.25);
    let half = (basic() - rle) / 2.0;
    let listener = half + sqrt(half * half + 169.0);
    let long = if t <= 100.0 {
        0.0
    } else {
        let x = log10(t / 100.0) / log10(2.0);
        25.0 * (pow(1.0 + pow(x, 6.0), 1.0 / 6.0) - 3.0 * pow(1.0 + pow(x / 3.0, 6.0), 1.0 / 6.0)
            + 2.0)
    };
    talker + listener + long
}

/// The rating of a call, at least 0. `delay_ms` is the mouth-to-ear delay, `loss` the packet loss
/// (0…1), `burst` the length of loss bursts relative to random loss.
pub fn rating(codec: Codec, delay_ms: f64, loss: f64, burst: f64) -> f64 {
    let percent = 100.0 * loss;
    let lost = codec.ie + (95.0 - codec.ie) * percent / (percent / burst.max(1.0) + codec.bpl);
    (basic() - simultaneous(delay_ms) - late(delay_ms) - lost).max(0.0)
}

/// The mean opinion score for a rating.
pub fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_call_has_the_recommendation_s_rating() {
        let r = rating(G711_PLC, 0.0, 0.0, 1.0);
        assert!((r - 93.2).abs() < 0.05, "{r}");
        assert!((mos(93.2) - 4.41).abs() < 0.005);
    }

    /// Cole and Rosenbluth, "Voice over IP performance monitoring" (2001), approximated the model
    /// in this way for delays below 400 ms.
    #[test]
    fn the_delay_impairment_follows_the_usual_fit() {
        for delay in [10.0, 25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0] {
            let beyond: f64 = delay - 177.3;
            let fit = 93.2 - 0.024 * delay - 0.11 * beyond.max(0.0);
            let r = rating(G711_PLC, delay, 0.0, 1.0);
            assert!((r - fit).abs() < 0.3, "{delay} ms: {r}, {fit}");
        }
    }

    #[test]
    fn the_loss_impairment_follows_the_robustness_of_the_codec() {
        let lost =
            |codec, loss, burst| rating(codec, 0.0, 0.0, 1.0) - rating(codec, 0.0, loss, burst);
        assert!((lost(G711, 0.01, 1.0) - 95.0 / 5.3).abs() < 1e-9);
        assert!((lost(G711_PLC, 0.01, 1.0) - 95.0 / 26.1).abs() < 1e-9);
        assert!((lost(G711_PLC, 0.05, 2.0) - 95.0 * 5.0 / 27.6).abs() < 1e-9);
        assert_eq!(rating(G711, 5000.0, 1.0, 1.0), 0.0);
    }

    /// G.107 Annex B, Table B.1.
    #[test]
    fn scores_are_the_table_s() {
        for (r, score) in [
            (90.0, 4.34),
            (80.0, 4.03),
            (70.0, 3.60),
            (60.0, 3.10),
            (50.0, 2.58),
        ] {
            assert!((mos(r) - score).abs() < 0.01, "{r}: {}", mos(r));
        }
        assert_eq!((mos(-1.0), mos(120.0)), (1.0, 4.5));
    }
}
