//! The network between the simulated hosts: packets enter at their station's port, and, while its
//! two ends are run in turns, later than they are sent.

use crate::error::SimError;
use crate::packet::Packet;
use crate::packets::Observer;
use crate::post::Outbox;
use narrows_core::engine::Network;
use narrows_core::figures::QueueMeter;
use narrows_core::net::lookahead::Lookahead as _;
use narrows_core::net::path::Path;
use narrows_core::net::{NEAR, Network as _, NetworkObserver, Port};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::Time;

/// The network of a simulated run.
pub(crate) struct SimNetwork {
    pub network: Network<Packet>,
    /// Packets that an end has sent and that are yet to enter the path, where its ends take turns.
    pub outbox: Option<Box<Outbox>>,
    /// The station of each flow, and of each probe after them.
    stations: Vec<u8>,
}

impl SimNetwork {
    /// The network of `scenario`, and a meter for each of its queues.
    pub fn new(
        scenario: &Scenario,
        registry: &Registry<Packet>,
    ) -> Result<(SimNetwork, Vec<QueueMeter>), SimError> {
        let station = Box::new(|packet: &Packet| usize::from(packet.station()));
        let (network, meters) = Network::new(scenario, registry, station)?;
        let flows = scenario.flows.iter().map(|flow| flow.station);
        let stations = flows.chain(scenario.probes.iter().map(|probe| probe.station));
        let sim = SimNetwork {
            network,
            outbox: None,
            stations: stations.map(|station| station.unwrap_or(0)).collect(),
        };
        Ok((sim, meters))
    }

    /// A packet enters. On Wi-Fi, every port but the near one is that of its station.
    #[inline]
    pub fn push(&mut self, now: Time, port: Port, packet: Packet, observer: &mut Observer) {
        match &mut self.outbox {
            Some(sent) => sent.push(now, packet),
            None => self.push_at_once(now, port, packet, observer),
        }
    }
    fn push_at_once(&mut self, now: Time, port: Port, packet: Packet, observer: &mut Observer) {
        match &mut self.network {
            Network::Wired(path) => path.push(now, port, packet, observer),
            Network::Wifi(stations) => {
                let owner = observer.packets.flow_of(&packet) as usize;
                let station = self.stations.get(owner).copied().unwrap_or(0);
                let port = if port == NEAR { NEAR } else { station + 1 };
                stations.push(now, port, packet.at_station(station), observer);
            }
        }
    }

    pub fn next_wakeup(&self) -> Option<Time> {
        self.network.next_wakeup()
    }

    pub fn poll<O: NetworkObserver<Packet>>(&mut self, now: Time, out: &mut O) {
        match (&mut self.network, &self.outbox) {
            (Network::Wired(path), None) => path.poll(now, out),
            (Network::Wired(_), Some(_)) => {}
            (Network::Wifi(stations), _) => stations.poll(now, out),
        }
    }

    /// Returns the packet that arrives at `port` as the `n`th from now, if that is known.
    pub fn upcoming(&self, port: Port, n: usize) -> Option<&Packet> {
        match &self.network {
            Network::Wired(path) => path.upcoming(port, n),
            Network::Wifi(_) => None,
        }
    }

    /// The path whose ends take turns, and what they have sent.
    #[inline]
    pub fn in_turns(&mut self) -> Option<(&mut Path<Packet>, &mut Outbox)> {
        match (&mut self.network, &mut self.outbox) {
            (Network::Wired(path), Some(outbox)) => Some((path, outbox)),
            _ => None,
        }
    }
}
