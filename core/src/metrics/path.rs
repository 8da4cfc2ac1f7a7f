//! The path's limits as numbers, for reports and charts.

use super::six_digits;
use crate::net::policer;
use crate::net::spec::{HopSpec, Link, PathSpec};
use crate::queue::Limit;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::vec::Vec;
use serde::Serialize;

/// A full packet, Mbit.
pub(crate) const FRAME_MBIT: f64 = 1514.0 * 8e-6;
/// Maximum size of a packet on a path with `offload`, Mbit.
pub(crate) const SUPER_MBIT: f64 = 65_536.0 * 8e-6;

/// The limits with which a run's metrics are compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathMetrics {
    /// Long-term rate of the bottleneck on the forward path, in Mbit/s: the target of its link, or
    /// of its policer. For a hop whose rate varies, this is the mean over the summary interval. For
    /// a Wi-Fi, this is the data rate of the symbols of its fastest station.
    #[serde(serialize_with = "six_digits")]
    pub rate_mbit: f64,
    /// Maximum mean rate of the bottleneck over the summary interval. This rate includes the tokens
    /// that the bottleneck's token bucket or policer may hold when the interval begins.
    #[serde(serialize_with = "six_digits")]
    pub capacity_mbit: f64,
    /// Maximum mean rate of arrivals behind the bottleneck in the summary interval: `capacity_mbit`
    /// plus the packet that may be in transmission when the interval begins. Utilisation is the
    /// goodput divided by this rate.
    #[serde(serialize_with = "six_digits")]
    pub arriving_mbit: f64,
    /// Long-term rate of the reverse hop in Mbit/s, if there is one; for a Wi-Fi, `rate_mbit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_mbit: Option<f64>,
    /// Maximum mean rate of arrivals behind the reverse hop in Mbit/s, as `arriving_mbit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_arriving_mbit: Option<f64>,
    /// Whether the rate varies.
    pub varies: bool,
    /// Two-way propagation delay of the path (base RTT) at the start, milliseconds.
    #[serde(serialize_with = "six_digits")]
    pub rtt_ms: f64,
    /// Two-way propagation delays of the flows, including delays outside the path, milliseconds;
    /// each value once, ascending. Without flows, it is the delay of the path.
    pub rtts_ms: Vec<f64>,
    /// The bottleneck's buffer, in bandwidth-delay products; packets count as full frames. `None`
    /// for the discipline's own limit.
    pub buffer_bdp: Option<f64>,
}

/// Mean rate of a hop between two times; its long-term rate if the rate does not vary.
pub(crate) fn passes(hop: &HopSpec, from: Time, to: Time) -> Rate {
    match hop
        .varying
        .as_ref()
        .and_then(|v| v.mean(hop.rate, from, to))
    {
        None => hop.target(),
        Some(rate) => HopSpec {
            rate,
            ..hop.clone()
        }
        .target(),
    }
}

/// Bytes that may pass at once beyond the rate, from accumulated tokens.
fn saved(hop: &HopSpec) -> Bytes {
    let link = match hop.link {
        Link::Serial => Bytes::ZERO,
        Link::Tbf { burst, .. } | Link::Htb { burst } => burst,
        Link::ShapeAverage { bc, be } | Link::ShapePeak { bc, be } => bc + be,
    };
    // Tokens of a policer have no effect if the link has the same rate.
    let policer = hop.policer.as_ref().filter(|_| hop.target() < hop.rate);
    policer.map_or(link, |choice| policer::saved(&choice.params))
}

/// Data that may be in transmission when an interval begins and arrive in it as a whole, Mbit. This
/// is a full packet, on a path with `offload` a super-packet, and on Wi-Fi the longest
/// transmission.
fn in_transmission(path: &PathSpec, air: Option<Span>, rate: Rate) -> f64 {
    match air {
        Some(longest) => rate.as_mbit() * longest.as_s(),
        None if path.offload => SUPER_MBIT,
        None => FRAME_MBIT,
    }
}

impl PathMetrics {
    /// For a path and the summary interval `from` to `to`, with the two-way propagation of each
    /// flow. `air`: both directions share one medium, with this maximum duration of a transmission.
    pub fn of(
        path: &PathSpec,
        air: Option<Span>,
        (from, to): (Time, Time),
        rtts: impl Iterator<Item = Span>,
    ) -> PathMetrics {
        let hop = path.bottleneck();
        let rate = passes(hop, from, to);
        let mut rtts: Vec<f64> = rtts.map(Span::as_ms).collect();
        if rtts.is_empty() {
            rtts.push(path.rtt().as_ms());
        }
        rtts.sort_by(f64::total_cmp);
        rtts.dedup();
        let bytes = path.limit(hop).map(|limit| match limit {
            Limit::Bytes(bytes) => bytes.get(),
            Limit::Packets(packets) => packets.saturating_mul(1514),
        });
        let over = to.since(from).as_s();
        let capacity =
            |hop: &HopSpec, rate: Rate| rate.as_mbit() + saved(hop).get() as f64 * 8e-6 / over;
        let arriving = |hop: &HopSpec, rate: Rate| {
            capacity(hop, rate) + in_transmission(path, air, rate) / over
        };
        PathMetrics {
            rate_mbit: rate.as_mbit(),
            capacity_mbit: capacity(hop, rate),
            arriving_mbit: arriving(hop, rate),
            reverse_arriving_mbit: match air {
                Some(_) => Some(arriving(hop, hop.rate)),
                None => path
                    .reverse
                    .as_ref()
                    .map(|hop| arriving(hop, passes(hop, from, to))),
            },
            reverse_mbit: if air.is_some() {
                Some(hop.rate.as_mbit())
            } else {
                path.reverse
                    .as_ref()
                    .map(|hop| passes(hop, from, to).as_mbit())
            },
            varies: hop.has_varying_rate(),
            rtt_ms: path.rtt().as_ms(),
            rtts_ms: rtts,
            buffer_bdp: bytes.map(|n| n as f64 / path.bdp().get().max(1) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::spec::{Step, Varying};
    use crate::param::{Choice, Params, Value};
    use alloc::boxed::Box;

    fn hop(mbit: u64) -> HopSpec {
        let queue = Choice {
            kind: "fifo".into(),
            params: Params::default(),
        };
        HopSpec::new(Rate::mbit(mbit), Span::ms(40), queue)
    }

    #[test]
    fn the_rate_of_a_hop_includes_shaper_policer_and_steps() {
        let passes = |hop: &HopSpec| passes(hop, Time::ZERO, Time::ZERO + Span::s(1));
        assert_eq!(passes(&hop(20)), Rate::mbit(20));
        let (bc, be) = (Bytes::new(25_000), Bytes::new(25_000));
        let mut peak = hop(2);
        peak.link = Link::ShapePeak { bc, be };
        assert_eq!(passes(&peak), Rate::mbit(4));
        let mut policed = hop(100);
        let set = [
            ("rate", Value::Rate(Rate::mbit(2))),
            ("burst", Value::Bytes(Bytes::new(62_500))),
        ];
        policed.policer = Some(Choice::new("police", policer::KINDS[0].params, &set));
        assert_eq!(passes(&policed), Rate::mbit(2));
        let mut steps = hop(50);
        steps.varying = Some(Box::new(Varying {
            steps: alloc::vec![Step {
                at: Span::ms(500),
                rate: Some(Rate::mbit(10)),
                rtt: None,
                delay: None,
                ordered: true,
                loss: None,
            }],
            ..Varying::default()
        }));
        assert_eq!(passes(&steps), Rate::mbit(30));
    }
}
