//! What lies between the hosts: a path, or an access point and its stations.

use crate::packet::Packet;
use crate::post::Outbox;
use crate::world::Watch;
use crate::SimError;
use narrows_core::engine::station_figures;
use narrows_core::figures::{level_meters, FlowFigures, QueueFigures, QueueMeter, StationFigures, UsageMeter};
use narrows_core::net::path::{self, Path};
use narrows_core::net::wifi::{Setup, Usage, Wifi};
use narrows_core::net::{Network, Out, Port, NEAR};
use narrows_core::queue::{Backlog, QueueKind};
use narrows_core::registry::Registry;
use narrows_core::scenario::{Scenario, WifiSpec};
use narrows_core::units::Time;

/// A network for packets of the virtual world.
pub(crate) enum Medium {
    /// A path, and what an end has sent and the path is yet to be told of, where its ends [take turns](crate::turns).
    Path(Box<Path<Packet>>, Option<Box<Outbox>>),
    Air(Box<Air>),
}

/// A Wi-Fi, whose packets carry their stations.
pub(crate) struct Air {
    wifi: Wifi<Packet>,
    /// The station of each flow, and of each probe after them.
    stations: Vec<u8>,
    meter: UsageMeter,
    /// What the stations had, once the run is over.
    used: Vec<Usage>,
}

impl Medium {
    /// What a scenario says, and a meter for each of its queues.
    pub fn new(scenario: &Scenario, registry: &Registry<Packet>) -> Result<(Medium, Vec<QueueMeter>), SimError> {
        let warmup = Time::ZERO + scenario.warmup;
        let kind = |name: &str| registry.queue(name).ok_or_else(|| SimError::UnknownQueue(name.into()));
        if let Some(wifi) = &scenario.wifi {
            let medium = Medium::air(scenario, wifi, kind(&wifi.qdisc.kind)?);
            return Ok((medium, level_meters(wifi, warmup)));
        }
        let (spec, seed) = (&scenario.path, scenario.seed);
        let (mut disciplines, mut queues) = (Vec::new(), Vec::new());
        let places = path::places(spec, seed, scenario.host.hz);
        for ((hop, place), name) in places.iter().zip(path::hop_names(spec)) {
            let choice = &hop.queue;
            let discipline = registry
                .make_queue(choice, place)
                .ok_or_else(|| SimError::UnknownQueue(choice.kind.clone()))?;
            queues.push(QueueMeter::new(name, choice.kind.clone(), discipline.classes(), warmup));
            disciplines.push(discipline);
        }
        Ok((Medium::Path(Box::new(Path::new(spec, disciplines, seed)), None), queues))
    }

    /// The Wi-Fi of a scenario. `kind` is its qdisc's.
    fn air(scenario: &Scenario, wifi: &WifiSpec, kind: &QueueKind<Packet>) -> Medium {
        let flows = scenario.flows.iter().map(|flow| flow.station);
        let stations = flows.chain(scenario.probes.iter().map(|probe| probe.station));
        let route = Box::new(|packet: &Packet| usize::from(packet.station()));
        Medium::Air(Box::new(Air {
            wifi: Wifi::new(
                Setup::of(wifi, kind, scenario.seed, scenario.host.hz, route),
                scenario.seed,
            ),
            stations: stations.map(|station| station.unwrap_or(0)).collect(),
            meter: UsageMeter::new(Time::ZERO + scenario.warmup),
            used: Vec::new(),
        }))
    }

    /// A packet enters. On the air, every port but the near one is that of its station.
    #[inline]
    pub fn push(&mut self, now: Time, port: Port, packet: Packet, watch: &mut Watch) {
        match self {
            Medium::Path(_, Some(sent)) => sent.push(now, packet),
            medium => medium.push_at_once(now, port, packet, watch),
        }
    }
    fn push_at_once(&mut self, now: Time, port: Port, packet: Packet, watch: &mut Watch) {
        match self {
            Medium::Path(path, _) => path.push(now, port, packet, watch),
            Medium::Air(air) => {
                let owner = watch.flow_of(&packet) as usize;
                let station = air.stations.get(owner).copied().unwrap_or(0);
                let port = if port == NEAR { NEAR } else { station + 1 };
                air.wifi.push(now, port, packet.at_station(station), watch);
            }
        }
    }

    pub fn next_wakeup(&self) -> Option<Time> {
        match self {
            Medium::Path(path, _) => path.next_wakeup(),
            Medium::Air(air) => air.wifi.next_wakeup(),
        }
    }

    pub fn poll<O: Out<Packet>>(&mut self, now: Time, out: &mut O) {
        match self {
            Medium::Path(path, None) => path.poll(now, out),
            Medium::Path(_, Some(_)) => {}
            Medium::Air(air) => {
                if let Some(warmup) = air.meter.due(now) {
                    air.wifi.poll(warmup, out);
                    air.meter.begins(air.wifi.usage());
                }
                air.wifi.poll(now, out);
            }
        }
    }

    /// What arrives next at FAR and at NEAR, as far as that is known.
    pub fn coming(&self, n: usize) -> (Option<&Packet>, Option<&Packet>) {
        match self {
            Medium::Path(path, _) => path.coming(n),
            Medium::Air(_) => (None, None),
        }
    }

    /// The run is over: disciplines that have counted tell it, and what stations had is theirs.
    pub fn counted(&mut self, meters: &mut [QueueMeter]) {
        match self {
            Medium::Path(path, _) => {
                for (hop, meter) in path.hops().zip(meters) {
                    meter.counted(hop.queue());
                }
            }
            Medium::Air(air) => air.used = air.meter.used(air.wifi.usage()),
        }
    }
    /// What waits in a queue.
    pub fn backlog(&self, queue: usize) -> Backlog {
        match self {
            Medium::Path(path, _) => path.hops().nth(queue).map(|hop| hop.backlog()).unwrap_or_default(),
            Medium::Air(air) => air.wifi.backlog(queue),
        }
    }
    /// What waits in a class of a queue.
    pub fn backlog_of(&self, queue: usize, class: usize) -> Backlog {
        match self {
            Medium::Path(path, _) => {
                let hop = path.hops().nth(queue);
                hop.map(|hop| hop.queue().backlog_of(class)).unwrap_or_default()
            }
            Medium::Air(air) => air.wifi.backlog_of(queue, class),
        }
    }
    /// The figures of each station; none of a path. `queues` are its levels'.
    pub fn stations(&self, scenario: &Scenario, queues: &[QueueFigures], flows: &[FlowFigures]) -> Vec<StationFigures> {
        match self {
            Medium::Path(..) => Vec::new(),
            Medium::Air(air) => station_figures(scenario, &air.used, queues, flows),
        }
    }
}
