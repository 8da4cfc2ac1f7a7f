//! Wi-Fi: an access point and its stations on one medium, as a network of many ports.
//!
//! ```text
//!   NEAR ──▶ distance ──▶ access point ═══ air ═══▶ station n, port n + 1
//!   NEAR ◀── distance ◀── access point ◀══ air ════ station n
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`phy`] | rates and durations |
//! | [`edca`] | contention of the four access categories |
//! | [`ampdu`] | aggregation, block ACK, retries, order |
//! | [`mac`] | FQ-CoDel inside mac80211; CoDel of slow stations |
//! | [`airtime`] | station scheduling: round-robin or by airtime; AQL |
//! | [`minstrel`] | rate control, and frame errors by signal |
//! | `host` | the queues between a host's packets and its antenna: the three stacks |
//! | `medium` | the medium as a [`Network`](super::Network) |
//! | [`wan`] | a path between the servers and the access point |
//! | `spec` | [`WifiSpec`]: the description of a Wi-Fi |
//!
//! **Hops.** [`NetworkObserver`](super::NetworkObserver) reports the levels at which a packet
//! waits, with the station as the class:
//!
//! - 0, the stack: the qdisc, or mac80211;
//! - 1, the driver and its hardware, until the packet's transmission is the next one of its
//!   category;
//! - 2, the air: contention, transmission, retries, and the wait for earlier frames that are
//!   missing;
//! - 3, all of these together, at a station that sends to the access point. A station has the same
//!   stack as the access point.
//!
//! Every host hears every other host. Two hosts that begin in the same slot destroy each other's
//! frames. RTS, power saving, beacons, management frames and association are not modelled.

pub mod airtime;
pub mod ampdu;
pub mod edca;
mod host;
pub mod mac;
mod medium;
pub mod minstrel;
pub mod phy;
mod spec;
pub mod wan;

pub use medium::Wifi;
pub use spec::{Speed, StationSpec, WifiSpec};

use crate::queue::codel::Law;
use crate::queue::{Backlog, QueueContext, QueueDiscipline, QueueKind};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use airtime::{AQL_LIMITS, AQL_THRESHOLD, AqlLimits, WEIGHT};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use ampdu::Limits;
use edca::{ACCESS_POINT, Edca, STATION};
use mac::Slow;
use minstrel::{Chain, Minstrel, expected};
use phy::{Band, Phy, Standard, Width};

/// The level of the qdisc, or of mac80211.
pub const STACK: u8 = 0;
/// The level of the driver.
pub const DRIVER: u8 = 1;
/// The level of the air.
pub const AIR: u8 = 2;
/// The level of all queues at a station that sends.
pub const UP: u8 = 3;
/// The number of levels.
pub const LEVELS: usize = 4;

/// Maximum number of stations: ports have a byte.
pub const MOST_STATIONS: usize = 250;

/// Frames per category that the driver of the stack `before` takes: ath9k's, a quarter of 512
/// descriptors less five.
pub const DRIVER_FRAMES: u64 = 123;

/// Aggregates of each category in the hardware: ath9k's.
pub const TXOPS: u64 = 2;

/// The stack: the software queues before the air.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Stack {
    /// A qdisc above a deep driver.
    Before,
    /// FQ-CoDel inside mac80211, stations round-robin.
    FqMac,
    /// FQ-CoDel in mac80211, with airtime fairness and airtime queue limits.
    #[default]
    Airtime,
}

/// Every stack, by its name.
pub const STACKS: [(&str, Stack); 3] = [
    ("before", Stack::Before),
    ("fq_mac", Stack::FqMac),
    ("airtime", Stack::Airtime),
];

impl Stack {
    /// Returns the name of the stack in a scenario.
    pub fn name(self) -> &'static str {
        STACKS[self as usize].0
    }
    /// Returns the names of the queues through which a packet passes in this stack, in this order.
    pub fn levels(self) -> [&'static str; LEVELS] {
        let stack = if self == Stack::Before {
            "qdisc"
        } else {
            "mac80211"
        };
        [stack, "driver", "air", "up"]
    }
}

/// A link whose rate is chosen by [`minstrel`].
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Link {
    /// The standard.
    pub standard: Standard,
    /// The channel width.
    pub width: Width,
    /// Whether symbols last 3.6 µs (short guard interval).
    pub short_guard: bool,
    /// The highest MCS of a stream, and the maximum number of streams.
    pub most: (u8, u8),
    /// Signal-to-noise ratio, in dB.
    pub snr_db: f64,
}

/// Settings of the driver and of mac80211 that are constants in most kernels.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Aggregates of each category in the hardware.
    pub txops: u64,
    /// Whether the stack `airtime` has airtime queue limits.
    pub aql: bool,
    /// The limits of stations without their own.
    pub aql_limits: AqlLimits,
    /// Maximum pending airtime of all stations together, for a station above its low limit.
    pub aql_threshold: Span,
    /// The weight of stations without their own, in µs.
    pub weight: u64,
    /// Bytes of a queue's turn inside mac80211.
    pub quantum: Bytes,
    /// Target and interval of CoDel inside mac80211.
    pub codel: (Span, Span),
    /// The rule for CoDel of slow stations.
    pub slow: Option<Slow>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            txops: TXOPS,
            aql: true,
            aql_limits: AQL_LIMITS,
            aql_threshold: AQL_THRESHOLD,
            weight: WEIGHT,
            quantum: mac::QUANTUM,
            codel: (mac::TARGET, mac::INTERVAL),
            slow: None,
        }
    }
}

/// One station.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Peer {
    /// The rate in both directions.
    pub phy: Phy,
    /// The link whose rate control chooses rates up to `phy`'s in both directions; `None` means the
    /// constant rate `phy`.
    pub link: Option<Link>,
    /// Probability that a single frame arrives damaged, from 0 to 1, in addition to other errors.
    pub error: f64,
    /// Airtime credit per round of the stack `airtime`, in µs.
    pub weight: u64,
    /// Limits of the pending airtime of each category.
    pub aql: AqlLimits,
    /// Target and interval of CoDel inside mac80211, if they are the station's own.
    pub codel: Option<(Span, Span)>,
    /// Propagation from `NEAR` to the access point.
    pub forward: Span,
    /// Propagation from the access point to `NEAR`.
    pub reverse: Span,
}

/// Returns the station of a packet (source or destination), by its number from 0.
pub type Route<P> = Box<dyn Fn(&P) -> usize + Send>;
/// Creates the qdisc of a host's category: host number (0 is the access point), category number.
pub type MakeQdisc<P> = Box<dyn Fn(usize, usize) -> Box<dyn QueueDiscipline<P>> + Send>;

/// The parts of a medium.
pub struct Setup<P> {
    /// The frequency band.
    pub band: Band,
    /// The stack of all hosts.
    pub stack: Stack,
    /// Frames per category that the driver takes; `None`: the driver has no queue above its
    /// hardware. The stack `before` always has one.
    pub driver: Option<u64>,
    /// The limits of a transmission.
    pub limits: Limits,
    /// Settings of the driver and of mac80211.
    pub tuning: Tuning,
    /// Memory of mac80211's queues, as Linux counts it.
    pub mac_memory: Bytes,
    /// At most [`MOST_STATIONS`].
    pub peers: Vec<Peer>,
    /// Returns the station of a packet.
    pub route: Route<P>,
    /// The qdiscs of the stack `before`.
    pub qdisc: MakeQdisc<P>,
}

impl<P: 'static> Setup<P> {
    /// The parts for `wifi`, with a qdisc of `kind`. `seed` is the scenario's, `hz` is the timer
    /// frequency of its kernels.
    pub fn of(
        wifi: &WifiSpec,
        kind: &QueueKind<P>,
        seed: u64,
        hz: u32,
        route: Route<P>,
    ) -> Setup<P> {
        let (make, params) = (kind.make, wifi.qdisc.params.clone());
        let rate = wifi.fastest();
        Setup {
            band: wifi.band,
            stack: wifi.stack,
            driver: wifi.driver,
            limits: wifi.limits,
            tuning: wifi.tuning,
            mac_memory: wifi.mac_memory(),
            peers: wifi.peers(),
            route,
            qdisc: Box::new(move |host, category| {
                let name = format!("wifi/{host}/{category}/queue");
                let context = QueueContext {
                    limit: None,
                    rate,
                    hz,
                    seed: Rng::named(seed, &name).next_u64(),
                };
                make(&params, &context)
            }),
        }
    }
}

/// A station's use of the medium.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Airtime of frames to and from the station, including answers and failed transmissions; of a
    /// collision, the station's part.
    pub airtime: Span,
    /// Transmissions to the station and from it, each retry included.
    pub transmissions: u64,
    /// To the station: transmissions, their frames, and the bytes of the Ethernet frames in them.
    pub down: (u64, u64, u64),
    /// From it: the same numbers.
    pub up: (u64, u64, u64),
    /// Retransmitted frames.
    pub retries: u64,
    /// Transmissions that collided.
    pub collisions: u64,
}

impl Usage {
    /// The difference from `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        let less = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0 - b.0, a.1 - b.1, a.2 - b.2);
        Usage {
            airtime: self.airtime - before.airtime,
            transmissions: self.transmissions - before.transmissions,
            down: less(self.down, before.down),
            up: less(self.up, before.up),
            retries: self.retries - before.retries,
            collisions: self.collisions - before.collisions,
        }
    }
}

/// The backlog by level and station.
pub(crate) struct Levels {
    stations: [Vec<Backlog>; LEVELS],
    totals: [Backlog; LEVELS],
}

impl Levels {
    fn new(stations: usize) -> Levels {
        Levels {
            stations: core::array::from_fn(|_| alloc::vec![Backlog::default(); stations]),
            totals: [Backlog::default(); LEVELS],
        }
    }
    fn enter(&mut self, level: u8, station: usize, size: Bytes) {
        self.totals[usize::from(level)].add(size);
        self.stations[usize::from(level)][station].add(size);
    }
    fn leave(&mut self, level: u8, station: usize, size: Bytes) {
        self.totals[usize::from(level)].remove(size);
        self.stations[usize::from(level)][station].remove(size);
    }
}

/// The state that all hosts share.
pub(crate) struct Shared<P> {
    band: Band,
    stack: Stack,
    driver: Option<u64>,
    limits: Limits,
    tuning: Tuning,
    mac_memory: Bytes,
    peers: Vec<Peer>,
    route: Route<P>,
    qdisc: MakeQdisc<P>,
    levels: Levels,
    usage: Vec<Usage>,
    /// The rate controls of each station, for transmissions to the station and from it.
    controls: Vec<[Option<Minstrel>; 2]>,
}

impl<P> Shared<P> {
    /// The rate control of the transmissions of a host to or from a station.
    fn control(&mut self, host: usize, station: usize) -> Option<&mut Minstrel> {
        self.controls[station][usize::from(host > 0)].as_mut()
    }
    /// The rates of a new transmission: the first, the lowest of all, and the chain.
    fn rates(&mut self, now: Time, host: usize, station: usize) -> (Phy, Phy, Chain) {
        let phy = self.peers[station].phy;
        let Some(control) = self.control(host, station) else {
            return (phy, phy, [0; 3]);
        };
        let chain = control.choose(now);
        let [first, rest @ ..] = chain.map(|rate| control.phy(rate));
        let slower = |a: Phy, b: Phy| if b.rate() < a.rate() { b } else { a };
        (first, rest.into_iter().fold(first, slower), chain)
    }
    /// The rate at which a host sends to or from a station, without samples.
    fn last_rate(&mut self, host: usize, station: usize) -> Phy {
        let phy = self.peers[station].phy;
        let control = self.control(host, station);
        control.map_or(phy, |control| control.phy(control.best()))
    }
    /// The estimate of a packet's airtime, if the stack has AQL.
    fn estimate(&self, phy: &Phy, size: Bytes) -> Span {
        match self.stack {
            Stack::Airtime => airtime::estimate(phy, size),
            _ => Span::ZERO,
        }
    }
    /// Returns whether CoDel of a station depends on a rate control.
    fn adapts(&self, station: usize) -> bool {
        self.tuning.slow.is_some() && self.peers[station].link.is_some()
    }
    /// CoDel of the packets that a host sends to or from a station.
    fn law(&mut self, host: usize, station: usize) -> Law {
        let Peer {
            phy, error, codel, ..
        } = self.peers[station];
        // A station has one peer, the access point.
        let peers = if host == 0 { self.peers.len() } else { 1 };
        let slow = self.tuning.slow.filter(|slow| {
            let control = self.control(host, station);
            let throughput = control.map_or_else(|| expected(&phy, error), |c| c.expected());
            slow.applies(throughput, peers)
        });
        match (codel, slow) {
            (Some(own), _) => mac::law(own, true),
            (None, Some(slow)) => mac::law(slow.codel, false),
            (None, None) => mac::law(self.tuning.codel, true),
        }
    }
    /// The contention parameters of a host.
    fn edca(&self, host: usize) -> &'static [Edca; 4] {
        if host == 0 { &ACCESS_POINT } else { &STATION }
    }
}
