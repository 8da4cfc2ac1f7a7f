//! The network between the simulated hosts.

use crate::error::SimError;
use crate::lookahead::Outbox;
use crate::packet::Packet;
use narrows_core::engine::Network;
use narrows_core::metrics::QueueMeter;
use narrows_core::net::lookahead::Lookahead as _;
use narrows_core::net::path::Path;
use narrows_core::net::{Network as _, NetworkObserver, Port};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::Time;

/// The network of a simulated run.
pub(crate) struct SimNetwork {
    pub network: Network<Packet>,
    /// With lookahead: the packets that an end has sent and that have not entered the path yet.
    pub outbox: Option<Box<Outbox>>,
    /// The Wi-Fi station of each flow, then of each probe.
    pub stations: Vec<u8>,
}

impl SimNetwork {
    /// The network of `scenario`, and a meter of each queue.
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

    pub fn next_wakeup(&self) -> Option<Time> {
        self.network.next_wakeup()
    }

    pub fn poll<O: NetworkObserver<Packet>>(&mut self, now: Time, out: &mut O) {
        match (&mut self.network, &self.outbox) {
            (Network::Wired(path), None) => path.poll(now, out),
            (Network::Wired(_), Some(_)) => {}
            (Network::Links(links), _) => links.poll(now, out),
            (Network::Wifi(stations), _) => stations.poll(now, out),
        }
    }

    /// Returns the packet that arrives at `port` as the `n`th from now, if that is known.
    pub fn upcoming(&self, port: Port, n: usize) -> Option<&Packet> {
        match &self.network {
            Network::Wired(path) => path.upcoming(port, n),
            Network::Links(_) | Network::Wifi(_) => None,
        }
    }

    /// With lookahead: the path, and the packets that have not entered it yet.
    #[inline]
    pub fn with_outbox(&mut self) -> Option<(&mut Path<Packet>, &mut Outbox)> {
        match (&mut self.network, &mut self.outbox) {
            (Network::Wired(path), Some(outbox)) => Some((path, outbox)),
            _ => None,
        }
    }
}
