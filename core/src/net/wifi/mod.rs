//! Wi-Fi: an access point and its stations on one medium, as a network of many ports.
//!
//! ```text
//!   NEAR ──▶ distance ──▶ access point ═══ air ═══▶ station n, port n + 1
//!   NEAR ◀── distance ◀── access point ◀══ air ════ station n
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`phy`] | rates and durations |
//! | [`edca`] | contention of the four access categories |
//! | [`ampdu`] | aggregation, block ACK, retries, order |
//! | [`mac`] | FQ-CoDel inside mac80211 |
//! | [`airtime`] | who is served next: in turn or by airtime; AQL |
//! | [`minstrel`] | which rate, and the errors by signal |
//! | `host` | what lies between a host's packets and its antenna: the three stacks |
//! | `medium` | the fold |
//! | `spec` | [`WifiSpec`]: what the medium is made of |
//!
//! **The hops** that [`NetworkObserver`](super::NetworkObserver) is told of are the levels at which
//! a packet waits, with the station as the class: 0, the stack (the qdisc, or mac80211); 1, the
//! driver and its hardware, until a transmission's turn has come; 2, the air: contention,
//! transmission, retries, and the wait for frames that are missing before it; 3, all that together
//! at a station that sends to the access point. A station has the same stack as the access point.
//!
//! Everybody hears everybody; two that begin in the same slot destroy each other's frames wholly;
//! there is no RTS, no power saving, no beacons and no management frames, and stations neither come
//! nor go.

pub mod airtime;
pub mod ampdu;
pub mod edca;
mod host;
pub mod mac;
mod medium;
pub mod minstrel;
pub mod phy;
mod spec;

pub use medium::Wifi;
pub use spec::{Speed, StationSpec, WifiSpec};

use crate::queue::{Backlog, Place, QueueDiscipline, QueueKind};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use ampdu::Limits;
use edca::{ACCESS_POINT, Edca, STATION};
use minstrel::{Chain, Minstrel};
use phy::{Band, Phy, Standard, Width};

/// The level of the qdisc, or of mac80211.
pub const STACK: u8 = 0;
/// The driver's.
pub const DRIVER: u8 = 1;
/// The air.
pub const AIR: u8 = 2;
/// Everything at a station that sends.
pub const UP: u8 = 3;
/// How many levels there are.
pub const LEVELS: usize = 4;

/// The most stations: ports have a byte.
pub const MOST_STATIONS: usize = 250;

/// Frames that the driver of the old stack takes of each category: ath9k's, a quarter of 512
/// descriptors less five.
pub const DRIVER_FRAMES: u64 = 123;

/// Which software queues for the air.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Stack {
    /// A qdisc above a deep driver.
    Before,
    /// FQ-CoDel inside mac80211, stations in turn.
    FqMac,
    /// The same, with airtime fairness and airtime queue limits.
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
    /// As a scenario writes it.
    pub fn name(self) -> &'static str {
        STACKS[self as usize].0
    }
    /// What its levels are called.
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
    /// What is spoken, and how wide.
    pub standard: Standard,
    /// How wide.
    pub width: Width,
    /// Symbols of 3.6 µs.
    pub short_guard: bool,
    /// The highest MCS of a stream, and the most streams.
    pub most: (u8, u8),
    /// Signal over noise, in dB.
    pub snr_db: f64,
}

/// One station.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Peer {
    /// How it is spoken to, and how it speaks.
    pub phy: Phy,
    /// Who chooses among rates up to `phy`'s, both ways; `None`: `phy` it is.
    pub link: Option<Link>,
    /// How often a single frame arrives damaged, from 0 to 1, whatever else damages it.
    pub error: f64,
    /// The distance from `NEAR` to the access point, of its packets.
    pub there: Span,
    /// And back.
    pub back: Span,
}

/// The station that a packet goes to or comes from, by its number from 0.
pub type Route<P> = Box<dyn Fn(&P) -> usize + Send>;
/// Makes the qdisc of a host's category: the host by its number (0 is the access point), the
/// category by its.
pub type MakeQdisc<P> = Box<dyn Fn(usize, usize) -> Box<dyn QueueDiscipline<P>> + Send>;

/// What a medium is made of.
pub struct Setup<P> {
    /// Where in the spectrum.
    pub band: Band,
    /// Of everybody.
    pub stack: Stack,
    /// Frames of a category that the driver of the old stack takes.
    pub driver: u64,
    /// What a transmission may be.
    pub limits: Limits,
    /// Memory of mac80211's queues, as Linux counts it.
    pub mac_memory: Bytes,
    /// At most [`MOST_STATIONS`].
    pub peers: Vec<Peer>,
    /// Which station a packet belongs to.
    pub route: Route<P>,
    /// The qdiscs of the old stack.
    pub qdisc: MakeQdisc<P>,
}

impl<P: 'static> Setup<P> {
    /// Of `wifi`, whose qdisc is of `kind`. `seed` is the scenario's, `hz` the tick of its kernels.
    pub fn of(
        wifi: &WifiSpec,
        kind: &QueueKind<P>,
        seed: u64,
        hz: u32,
        route: Route<P>,
    ) -> Setup<P> {
        let (make, params) = (kind.make, wifi.qdisc.params.clone());
        let rate = wifi.as_path().bottleneck().rate;
        Setup {
            band: wifi.band,
            stack: wifi.stack,
            driver: wifi.driver,
            limits: wifi.limits,
            mac_memory: wifi.mac_memory(),
            peers: wifi.peers(),
            route,
            qdisc: Box::new(move |host, category| {
                let name = format!("wifi/{host}/{category}/queue");
                let place = Place {
                    limit: None,
                    rate,
                    hz,
                    seed: Rng::named(seed, &name).next_u64(),
                };
                make(&params, &place)
            }),
        }
    }
}

/// What a station has had of the medium.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// On the air for it or by it, with answers, failures included; of a collision its part.
    pub airtime: Span,
    /// Transmissions to it and from it; what is sent again unchanged counts again.
    pub transmissions: u64,
    /// To it: transmissions, their frames, and the bytes of Ethernet frames in them.
    pub down: (u64, u64, u64),
    /// Likewise from it.
    pub up: (u64, u64, u64),
    /// Frames that were sent again.
    pub retries: u64,
    /// Transmissions that collided.
    pub collisions: u64,
}

impl Usage {
    /// What has come in addition since `before`.
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

/// What waits, by level and station.
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

/// What all hosts have in common.
pub(crate) struct Shared<P> {
    band: Band,
    stack: Stack,
    driver: u64,
    limits: Limits,
    mac_memory: Bytes,
    peers: Vec<Peer>,
    route: Route<P>,
    qdisc: MakeQdisc<P>,
    levels: Levels,
    usage: Vec<Usage>,
    /// Of each station, to it and from it.
    controls: Vec<[Option<Minstrel>; 2]>,
}

impl<P> Shared<P> {
    /// The control of what a host sends to or from a station.
    fn control(&mut self, host: usize, station: usize) -> Option<&mut Minstrel> {
        self.controls[station][usize::from(host > 0)].as_mut()
    }
    /// The rates of a transmission that is made now: the first, the lowest of all, and the chain.
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
    /// How a host contends.
    fn edca(&self, host: usize) -> &'static [Edca; 4] {
        if host == 0 { &ACCESS_POINT } else { &STATION }
    }
}
