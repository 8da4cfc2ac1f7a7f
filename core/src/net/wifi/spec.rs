//! The description of a Wi-Fi: the standard, the stack, the stations. This is plain data;
//! [`Setup`](super::Setup) is built from it.

use super::airtime::AqlLimits;
use super::ampdu::Limits;
use super::phy::{Band, Phy, Standard, Width};
use super::{Link, Peer, Stack, Tuning};
use crate::net::spec::{HopSpec, PathSpec};
use crate::param::{Choice, Params};
use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A medium and its stations.
#[derive(Clone, PartialEq, Debug)]
pub struct WifiSpec {
    /// The standard.
    pub standard: Standard,
    /// The channel width.
    pub width: Width,
    /// The frequency band.
    pub band: Band,
    /// Whether symbols last 3.6 µs (short guard interval) instead of 4 µs.
    pub short_guard: bool,
    /// The software queues.
    pub stack: Stack,
    /// The qdisc above the driver, in the stack `before`.
    pub qdisc: Choice,
    /// Frames that the driver takes per category, if it has a queue; always in the stack `before`.
    pub driver: Option<u64>,
    /// Limits of one transmission.
    pub limits: Limits,
    /// Settings of the driver and of mac80211.
    pub tuning: Tuning,
    /// The stations, `count` expanded; at least one.
    pub stations: Vec<StationSpec>,
    /// The path between the servers and the access point, if it has hops.
    pub wan: Option<Box<PathSpec>>,
    /// Keys that have no field, by name.
    pub keys: Params,
}

/// One station.
#[derive(Clone, PartialEq, Debug)]
pub struct StationSpec {
    /// The name of the station; unique.
    pub name: String,
    /// The rate of the station.
    pub speed: Speed,
    /// Signal-to-noise ratio in dB. If given, a rate control chooses rates up to `speed`.
    pub snr_db: Option<f64>,
    /// Probability that a single frame arrives damaged, from 0 to 1.
    pub error: f64,
    /// Airtime credit per round of the stack `airtime`, in µs.
    pub weight: u64,
    /// Limits of the pending airtime of each category.
    pub aql: AqlLimits,
    /// Target and interval of CoDel inside mac80211, if they are the station's own.
    pub codel: Option<(Span, Span)>,
    /// Two-way propagation between the access point and the other end of its flows.
    pub rtt: Span,
    /// Keys that have no field, by name.
    pub keys: Params,
}

/// The rate of a station.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Modulation and coding (of one stream, 0 to 9), and streams.
    Mcs(u8, u8),
    /// A rate of 802.11a, b or g, without aggregation.
    Legacy(Rate),
}

/// Memory of mac80211's queues.
const MEMORY_N: Bytes = Bytes::new(4 << 20);
const MEMORY_AC: Bytes = Bytes::new(16 << 20);

impl WifiSpec {
    /// The modulation of a rate; `None` if the standard has no such combination.
    pub fn phy(&self, speed: Speed) -> Option<Phy> {
        match speed {
            Speed::Mcs(mcs, streams) => Phy::new(
                self.standard,
                self.band,
                self.width,
                mcs,
                streams,
                self.short_guard,
            ),
            Speed::Legacy(rate) => Phy::legacy(rate, self.band),
        }
    }
    /// The stations as peers of the medium.
    pub fn peers(&self) -> Vec<Peer> {
        let peer = |station: &StationSpec| {
            let forward = Span::ns(station.rtt.as_ns() / 2);
            Some(Peer {
                phy: self.phy(station.speed)?,
                link: match (station.speed, station.snr_db) {
                    (Speed::Mcs(mcs, streams), Some(snr_db)) => Some(Link {
                        standard: self.standard,
                        width: self.width,
                        short_guard: self.short_guard,
                        most: (mcs, streams),
                        snr_db,
                    }),
                    _ => None,
                },
                error: station.error,
                weight: station.weight,
                aql: station.aql,
                codel: station.codel,
                forward,
                reverse: station.rtt - forward,
            })
        };
        self.stations.iter().filter_map(peer).collect()
    }
    /// The standard's name.
    pub fn standard_name(&self) -> &'static str {
        match self.standard {
            Standard::N => "802.11n",
            Standard::Ac => "802.11ac",
        }
    }
    /// Memory of mac80211's queues, as Linux counts it.
    pub fn mac_memory(&self) -> Bytes {
        match self.standard {
            Standard::N => MEMORY_N,
            Standard::Ac => MEMORY_AC,
        }
    }
    /// The data rate of the symbols of the fastest station.
    pub fn fastest(&self) -> Rate {
        let rates = self.stations.iter().filter_map(|s| self.phy(s.speed));
        rates.map(|phy| phy.rate()).max().unwrap_or(Rate::mbit(1))
    }
    /// Returns the path to the access point if its rate is below the data rate of the fastest
    /// station. Its bottleneck is then that of the scenario.
    pub fn narrower(&self) -> Option<&PathSpec> {
        let wan = self.wan.as_deref();
        wan.filter(|wan| wan.bottleneck().target() < self.fastest())
    }
    /// The medium as a path of one hop, with the fastest station's rate and the shortest distance,
    /// or the narrower path to the access point.
    /// This path is for callers that need only the rate and the distance.
    pub fn as_path(&self) -> PathSpec {
        let rtts = self.stations.iter().map(|s| s.rtt);
        let behind = rtts.min().unwrap_or_default();
        let before = self.wan.as_deref().map_or(Span::ZERO, PathSpec::rtt);
        let rtt = behind + before;
        let Some(wan) = self.narrower() else {
            return PathSpec::from(HopSpec::new(self.fastest(), rtt, self.qdisc.clone()));
        };
        let forward = wan.delay_forward() + Span::ns(behind.as_ns() / 2);
        PathSpec {
            hops: alloc::vec![HopSpec {
                rtt,
                delay_forward: forward,
                ..wan.bottleneck().clone()
            }],
            reverse: wan.reverse.clone(),
            ..wan.clone()
        }
    }
}
