//! The medium by itself: one saturated station compared with the closed form, many with Bianchi's
//! model, twelve points each.
//!
//! Bianchi's model is that of G. Bianchi, *Performance Analysis of the IEEE 802.11 Distributed
//! Coordination Function*, 2000, with the retry limit of Wu et al. (2002). Every station transmits
//! in a slot with probability τ, and collides with p. The equations are `p = 1 − (1 − τ)^(n − 1)`
//! and `τ = Σ pⁱ / Σ pⁱ (Wᵢ + 1) / 2` over the stages of its window.

use crate::medium::{Sends, medium, peers, saturated};
use narrows_core::net::wifi::Stack;
use narrows_core::net::wifi::ampdu::{Limits, joined, mpdu};
use narrows_core::net::wifi::edca::{ACCESS_POINT, Edca, RETRIES, STATION};
use narrows_core::net::wifi::phy::{Band, Phy, Standard, Width};
use narrows_core::units::{Bytes, Span};

/// MCS, streams, width, frames of an aggregate.
const POINTS: [(Standard, u8, u8, Width, u64); 12] = [
    (Standard::N, 0, 1, Width::W20, 1),
    (Standard::N, 0, 1, Width::W20, 64),
    (Standard::N, 3, 1, Width::W20, 8),
    (Standard::N, 7, 1, Width::W20, 1),
    (Standard::N, 7, 1, Width::W20, 32),
    (Standard::N, 7, 2, Width::W20, 64),
    (Standard::N, 4, 2, Width::W40, 16),
    (Standard::N, 7, 4, Width::W40, 64),
    (Standard::Ac, 8, 1, Width::W20, 4),
    (Standard::Ac, 9, 2, Width::W40, 64),
    (Standard::Ac, 5, 1, Width::W80, 2),
    (Standard::Ac, 9, 2, Width::W80, 64),
];

struct Exchange {
    /// Payload in bits.
    bits: f64,
    /// Seconds: frames, answer, penalty after a collision.
    frames: f64,
    answer: f64,
    penalty: f64,
}

/// How large a transmission of `n` full frames is, and whether it is within the limits.
fn transmission(phy: &Phy, n: u64) -> Option<Bytes> {
    let frame = mpdu(Bytes::new(1514));
    let bytes = match n {
        1 => frame,
        n => (0..n).fold(Bytes::ZERO, |size, _| joined(size, frame)),
    };
    (n == 1 || bytes <= phy.most_bytes().min(phy.bytes_in(Span::ms(4)))).then_some(bytes)
}

/// A full aggregate of full frames.
fn exchange(phy: &Phy, frames: u64) -> Exchange {
    let most = (1..=frames)
        .rev()
        .find_map(|n| Some((n, transmission(phy, n)?)));
    let (n, bytes) = most.expect("a single frame always goes");
    let sifs = Band::Ghz5.sifs().as_s();
    Exchange {
        bits: n as f64 * 1472.0 * 8.0,
        frames: phy.duration(bytes).as_s(),
        answer: sifs + phy.ack_duration(n > 1).as_s(),
        penalty: Band::Ghz5.penalty().as_s(),
    }
}

fn aifs(edca: &Edca) -> f64 {
    (Band::Ghz5.sifs().as_ns() + u64::from(edca.aifsn) * 9000) as f64 / 1e9
}

fn points() -> impl Iterator<Item = (Phy, u64)> {
    POINTS
        .iter()
        .map(|(standard, mcs, streams, width, frames)| {
            let phy = Phy::new(*standard, Band::Ghz5, *width, *mcs, *streams, true);
            (phy.expect("a rate of the standard"), *frames)
        })
}

fn limits(frames: u64) -> Limits {
    Limits {
        frames,
        ..Limits::default()
    }
}

#[test]
fn one_saturated_station_gets_the_throughput_of_the_closed_form() {
    for (phy, frames) in points() {
        let edca = &ACCESS_POINT[1];
        let backoff = f64::from(edca.cw_min) / 2.0 * 9e-6;
        let x = exchange(&phy, frames);
        let expected = x.bits / (aifs(edca) + backoff + x.frames + x.answer);
        let wifi = medium(Stack::Before, 1000, limits(frames), peers(1, phy), 1);
        let (got, usage) = saturated(wifi, 1, Sends::Down, Span::s(4));
        let off = got[0] / expected - 1.0;
        println!(
            "{:>7.1} Mbit/s, {frames:>2} frames: {:.2} Mbit/s, {:+.2} %",
            phy.rate().as_mbit(),
            got[0] / 1e6,
            off * 100.0
        );
        assert!(
            off.abs() < 0.03,
            "{phy:?}, {frames} frames: {} instead of {expected}",
            got[0]
        );
        assert_eq!((usage[0].retries, usage[0].collisions), (0, 0));
    }
}

/// τ and p of `n` saturated stations.
fn fixed_point(n: usize, edca: &Edca) -> (f64, f64) {
    let tau = |p: f64| {
        let (mut window, mut weight, mut attempts, mut slots) =
            (f64::from(edca.cw_min) + 1.0, 1.0, 0.0, 0.0);
        for _ in 0..=RETRIES {
            attempts += weight;
            slots += weight * (window + 1.0) / 2.0;
            weight *= p;
            window = (2.0 * window).min(f64::from(edca.cw_max) + 1.0);
        }
        attempts / slots
    };
    // The difference falls with p: bisection.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let p: f64 = (low + high) / 2.0;
        if 1.0 - (1.0 - tau(p)).powi(n as i32 - 1) > p {
            low = p;
        } else {
            high = p;
        }
    }
    (tau(low), low)
}

#[test]
fn many_saturated_stations_get_the_throughput_of_bianchis_model() {
    // The model assumes that the other stations are independent of a station's own window. Its
    // error is 5 % of the slotted process for two stations and 3 % for three.
    for ((phy, frames), n) in points().zip([5, 10, 20, 30, 50].into_iter().cycle()) {
        let edca = &STATION[1];
        let (tau, p) = fixed_point(n, edca);
        let x = exchange(&phy, frames);
        let some = 1.0 - (1.0 - tau).powi(n as i32);
        let alone = n as f64 * tau * (1.0 - tau).powi(n as i32 - 1);
        let slot = (1.0 - some) * 9e-6
            + alone * (x.frames + x.answer + aifs(edca))
            + (some - alone) * (x.frames + x.penalty + aifs(edca));
        let expected = alone * x.bits / slot;
        let wifi = medium(Stack::Before, 1000, limits(frames), peers(n, phy), 1);
        // Some forty thousand transmissions.
        let duration = Span::us((slot / some * 4e10) as u64);
        let (got, usage) = saturated(wifi, n, Sends::Up, duration);
        let transmissions: u64 = usage.iter().map(|u| u.transmissions).sum();
        let collided: u64 = usage.iter().map(|u| u.collisions).sum();
        let measured = collided as f64 / transmissions as f64;
        let total: f64 = got.iter().sum();
        println!(
            "{n:>2} stations, {:>7.1} Mbit/s, {frames:>2} frames: p {measured:.4} ({p:.4}), {:.2} \
             Mbit/s ({:+.2} %)",
            phy.rate().as_mbit(),
            total / 1e6,
            (total / expected - 1.0) * 100.0
        );
        assert!(
            (measured / p - 1.0).abs() < 0.05,
            "{n} stations: p = {measured} instead of {p}"
        );
        assert!(
            (total / expected - 1.0).abs() < 0.05,
            "{n} stations: {total} instead of {expected}"
        );
    }
}
