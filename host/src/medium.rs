//! What lies between the hosts of a live run: a path, or an access point and its stations.

use crate::error::HostError;
use crate::frame::Frame;
use narrows_core::figures::{level_meters, QueueMeter, UsageMeter};
use narrows_core::net::path::{self, Path};
use narrows_core::net::wifi::{Setup, Usage, Wifi};
use narrows_core::net::{Network, Out, Port, NEAR};
use narrows_core::queue::Backlog;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::Time;

/// A network for real packets.
pub enum Medium {
    /// Between two hosts.
    Path(Path<Frame>),
    /// Between a host and stations.
    Air(Box<Air>),
}

/// A Wi-Fi, and what its stations have had of it.
pub struct Air {
    wifi: Wifi<Frame>,
    meter: UsageMeter,
    stations: usize,
}

impl Medium {
    /// What a scenario says, and a meter for each of its queues.
    pub fn new(scenario: &Scenario, registry: &Registry<Frame>) -> Result<(Medium, Vec<QueueMeter>), HostError> {
        let unknown = |kind: &str| HostError::Unlike(format!("no queue discipline is called \"{kind}\""));
        let warmup = Time::ZERO + scenario.warmup;
        if let Some(wifi) = &scenario.wifi {
            let kind = registry.queue(&wifi.qdisc.kind);
            let kind = kind.ok_or_else(|| unknown(&wifi.qdisc.kind))?;
            let setup = Setup::of(wifi, kind, scenario.seed, scenario.host.hz, Box::new(Frame::station));
            let air = Air {
                wifi: Wifi::new(setup, scenario.seed),
                meter: UsageMeter::new(warmup),
                stations: wifi.stations.len(),
            };
            return Ok((Medium::Air(Box::new(air)), level_meters(wifi, warmup)));
        }
        let (spec, seed) = (&scenario.path, scenario.seed);
        let (mut disciplines, mut meters) = (Vec::new(), Vec::new());
        let places = path::places(spec, seed, scenario.host.hz);
        for ((hop, place), name) in places.iter().zip(path::hop_names(spec)) {
            let kind = &hop.queue.kind;
            let made = registry.make_queue(&hop.queue, place).ok_or_else(|| unknown(kind))?;
            meters.push(QueueMeter::new(name, kind.clone(), made.classes(), warmup));
            disciplines.push(made);
        }
        Ok((Medium::Path(Path::new(spec, disciplines, seed)), meters))
    }
    /// How many hosts there are beside that at NEAR.
    pub fn far_hosts(&self) -> usize {
        match self {
            Medium::Path(_) => 1,
            Medium::Air(air) => air.stations,
        }
    }
    /// Can it be said where this frame is to go? What a host sends of its own accord goes to nobody.
    pub fn knows(&self, frame: &Frame) -> bool {
        match self {
            Medium::Path(_) => true,
            Medium::Air(air) => frame.station() < air.stations,
        }
    }
    /// A frame enters.
    pub fn push<O: Out<Frame>>(&mut self, now: Time, port: Port, frame: Frame, out: &mut O) {
        match self {
            Medium::Path(path) => path.push(now, port, frame, out),
            Medium::Air(air) => air.wifi.push(now, port, frame, out),
        }
    }
    /// When there is something to do.
    pub fn next_wakeup(&self) -> Option<Time> {
        match self {
            Medium::Path(path) => path.next_wakeup(),
            Medium::Air(air) => air.wifi.next_wakeup(),
        }
    }
    /// Does it.
    pub fn poll<O: Out<Frame>>(&mut self, now: Time, out: &mut O) {
        match self {
            Medium::Path(path) => path.poll(now, out),
            Medium::Air(air) => {
                if let Some(warmup) = air.meter.due(now) {
                    air.wifi.poll(warmup, out);
                    air.meter.begins(air.wifi.usage());
                }
                air.wifi.poll(now, out);
            }
        }
    }
    /// Does anything wait in a queue of a path? On the air every transmission has its own wake-up.
    pub fn waits(&self) -> bool {
        match self {
            Medium::Path(path) => path.hops().any(|hop| !hop.is_empty()),
            Medium::Air(_) => false,
        }
    }
    /// What waits in a queue.
    pub fn backlog(&self, queue: usize) -> Backlog {
        match self {
            Medium::Path(path) => path.hops().nth(queue).map(|hop| hop.backlog()).unwrap_or_default(),
            Medium::Air(air) => air.wifi.backlog(queue),
        }
    }
    /// What waits in a class of a queue.
    pub fn backlog_of(&self, queue: usize, class: usize) -> Backlog {
        match self {
            Medium::Path(path) => {
                let hop = path.hops().nth(queue);
                hop.map(|hop| hop.queue().backlog_of(class)).unwrap_or_default()
            }
            Medium::Air(air) => air.wifi.backlog_of(queue, class),
        }
    }
    /// The run is over: disciplines that have counted tell it. Answers what each station had.
    pub fn counted(&self, meters: &mut [QueueMeter]) -> Vec<Usage> {
        match self {
            Medium::Path(path) => {
                for (hop, meter) in path.hops().zip(meters) {
                    meter.counted(hop.queue());
                }
                Vec::new()
            }
            Medium::Air(air) => air.meter.used(air.wifi.usage()),
        }
    }
}

impl Frame {
    /// The station that it goes to, or comes from.
    pub fn station(&self) -> usize {
        let port = if self.port() == NEAR {
            self.to_port()
        } else {
            Some(self.port())
        };
        port.and_then(|port| usize::from(port).checked_sub(1))
            .unwrap_or(usize::MAX)
    }
}
