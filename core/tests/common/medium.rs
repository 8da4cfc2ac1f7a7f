//! A medium whose stations always have something to send.

use narrows_core::net::wifi::airtime::AQL_LIMITS;
use narrows_core::net::wifi::ampdu::Limits;
use narrows_core::net::wifi::phy::{Band, Phy};
use narrows_core::net::wifi::{Peer, Setup, Stack, Tuning, Usage, Wifi};
use narrows_core::net::{NEAR, Network, NetworkObserver, Port};
use narrows_core::packet::{Ecn, Packet, flow_hash};
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{DropReason, Limit};
use narrows_core::units::{Bytes, Span, Time};

/// A packet of a station.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub station: usize,
    pub number: u64,
    pub size: u64,
    pub flow: u64,
    pub dscp: u8,
    pub ecn: bool,
    pub entered: Time,
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn enqueued_at(&self) -> Time {
        self.entered
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.entered = now;
    }
    fn flow_hash(&self, seed: u64) -> u32 {
        flow_hash(self.flow, seed)
    }
    fn ecn(&self) -> Ecn {
        if self.ecn { Ecn::Ect0 } else { Ecn::NotEct }
    }
    fn set_ce(&mut self) {}
    fn dscp(&self) -> u8 {
        self.dscp
    }
}

/// The output.
#[derive(Default, Debug, PartialEq)]
pub struct Seen {
    pub arrived: Vec<(Time, Port, Frame)>,
    pub dropped: Vec<(Time, u8, u64, DropReason)>,
    pub departed: u64,
}

impl NetworkObserver<Frame> for Seen {
    fn arrived(&mut self, now: Time, port: Port, packet: Frame) {
        self.arrived.push((now, port, packet));
    }
    fn departed(&mut self, _now: Time, _hop: u8, _class: u8, _packet: &Frame) {
        self.departed += 1;
    }
    fn dropped(&mut self, now: Time, hop: u8, packet: Frame, reason: DropReason) {
        self.dropped.push((now, hop, packet.number, reason));
    }
}

/// Stations alike, near the access point.
pub fn peers(n: usize, phy: Phy) -> Vec<Peer> {
    let peer = Peer {
        phy,
        link: None,
        error: 0.0,
        weight: 256,
        aql: AQL_LIMITS,
        codel: None,
        forward: Span::ZERO,
        reverse: Span::ZERO,
    };
    vec![peer; n]
}

/// A medium with plain queues of 1000 packets above drivers of so many frames under the old stack.
pub fn medium(
    stack: Stack,
    driver: u64,
    limits: Limits,
    peers: Vec<Peer>,
    seed: u64,
) -> Wifi<Frame> {
    let setup = Setup {
        band: Band::Ghz5,
        stack,
        driver: (stack == Stack::Before).then_some(driver),
        limits,
        tuning: Tuning::default(),
        mac_memory: Bytes::new(4 << 20),
        peers,
        route: Box::new(|frame: &Frame| frame.station),
        qdisc: Box::new(|_, _| Box::new(Fifo::new(Limit::Packets(1000)))),
    };
    Wifi::new(setup, seed)
}

/// The sending side.
#[derive(Copy, Clone, PartialEq)]
pub enum Sends {
    Down,
    Up,
}

/// Payload delivered by station in bit/s of UDP (1472 bytes each), and each station's use of the
/// medium. `direction` always has 300 packets of every station waiting.
pub fn saturated(
    mut wifi: Wifi<Frame>,
    stations: usize,
    direction: Sends,
    duration: Span,
) -> (Vec<f64>, Vec<Usage>) {
    let mut waiting = vec![0u64; stations];
    let mut got = vec![0u64; stations];
    let mut number = 0;
    let mut now = Time::ZERO;
    let end = now + duration;
    let mut seen = Seen::default();
    while now < end {
        for (station, waiting) in waiting.iter_mut().enumerate() {
            while *waiting < 300 {
                let frame = Frame {
                    station,
                    number,
                    size: 1514,
                    flow: station as u64,
                    dscp: 0,
                    ecn: false,
                    entered: now,
                };
                number += 1;
                *waiting += 1;
                let port = if direction == Sends::Up {
                    station as Port + 1
                } else {
                    NEAR
                };
                wifi.push(now, port, frame, &mut seen);
            }
        }
        now = wifi.next_wakeup().unwrap_or(end);
        wifi.poll(now, &mut seen);
        for (_, _, frame) in seen.arrived.drain(..) {
            waiting[frame.station] -= 1;
            got[frame.station] += 1;
        }
        for _ in seen.dropped.drain(..) {}
    }
    let rate = |n: &u64| *n as f64 * 1472.0 * 8.0 / duration.as_s();
    (got.iter().map(rate).collect(), wifi.usage().to_vec())
}
