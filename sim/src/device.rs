//! The network interfaces of sending hosts: queue discipline, device, and the packets that have
//! left it.

use crate::error::SimError;
use crate::packet::{Kind, Packet};
use narrows_core::host::interface::{Below, Cut, Interface};
use narrows_core::metrics::QueueMeter;
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::Packet as _;
use narrows_core::param::Params;
use narrows_core::queue::fq::{self, Fq};
use narrows_core::queue::{DropReason, QueueContext};
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Direction, FlowSpec, HostSpec, Link, Scenario};
use narrows_core::units::{Rate, Time};

/// The packets that have left the interface or were dropped there, and are not handled yet.
#[derive(Debug)]
pub(crate) struct Departures {
    /// Packets that have left the interface, for the path.
    pub packets: Vec<Packet>,
    /// Flows of which a super-packet has left the layers below TCP, one entry for each.
    pub completed: Vec<u32>,
    /// Dropped packets and the reasons. The sender already knows of those that the queue refused on
    /// arrival.
    pub dropped: Vec<(Packet, DropReason)>,
    /// Time of the first departure or drop that is not yet reported; [`Time::MAX`] without one.
    since: Time,
    /// Metrics of the interface's queue.
    pub meter: QueueMeter,
}

impl Departures {
    /// Empty lists; `name` is that of the queue in metrics, and `kind` the queue discipline of the
    /// interface.
    pub fn new(name: &str, kind: &str, warmup: Time) -> Departures {
        Departures {
            packets: Vec::new(),
            completed: Vec::new(),
            dropped: Vec::new(),
            since: Time::MAX,
            meter: QueueMeter::new(name.into(), kind.into(), Vec::new(), warmup),
        }
    }
    /// Records that all departures and drops are reported.
    pub fn reported(&mut self) {
        self.since = Time::MAX;
    }
    /// Removes the newest completion of this flow, which needs no report; returns `false` if there
    /// is none.
    pub fn withdraw(&mut self, flow: u32) -> bool {
        let newest = self.completed.iter().rposition(|of| *of == flow);
        newest.map(|i| self.completed.remove(i)).is_some()
    }
    fn complete(&mut self, now: Time, packet: &Packet) {
        self.since = self.since.min(now);
        if packet.kind() == Kind::Data && packet.payload() > 0 {
            self.completed.push(packet.flow());
        }
    }
}

impl Below<Packet> for Departures {
    fn left(&mut self, now: Time, packet: Packet) {
        self.meter.departed(now, packet.enqueued_at(), 0);
        self.packets.push(packet);
    }
    fn completed(&mut self, now: Time, last: &Packet) {
        self.complete(now, last);
    }
    fn dropped(&mut self, now: Time, packet: Packet, reason: DropReason) {
        self.meter.dropped(now, reason);
        self.complete(now, &packet);
        self.dropped.push((packet, reason));
    }
    fn refused(&mut self, now: Time, packet: Packet, reason: DropReason) {
        self.meter.dropped(now, reason);
        self.since = self.since.min(now);
        self.dropped.push((packet, reason));
    }
    fn marked(&mut self, _now: Time, _packet: &Packet, _why: DropReason) {
        self.meter.marked();
    }
}

impl Cut for Packet {
    fn cut(&mut self) -> Option<Packet> {
        self.first_segment()
    }
}

/// The interface of a host and its departures.
pub(crate) struct Device {
    pub interface: Interface<Packet>,
    pub departures: Departures,
    /// Whether the interface has no rate and only holds packets until their departure times. Flows
    /// then do not delay each other, so one interface serves the hosts at both ends.
    pub free: bool,
}

/// The interfaces of all hosts that have a rate, or in which packets wait for their departure
/// times.
#[derive(Default)]
pub(crate) struct Devices {
    pub list: Vec<Device>,
    /// For each flow, the index of the interface of its near and of its far host, if these have
    /// names; [`NONE`] without an interface. Empty if no flow is between hosts with names.
    of_flows: Vec<[u8; 2]>,
    /// The indices for all other flows and for probes.
    usual: [u8; 2],
}

/// No interface.
const NONE: u8 = u8::MAX;

impl Devices {
    /// The interfaces of the hosts of `scenario`.
    pub fn new(scenario: &Scenario, registry: &Registry<Packet>) -> Result<Devices, SimError> {
        let mut list = Vec::new();
        let mut add = |host, name: &str| -> Result<u8, SimError> {
            let device = Device::new(scenario, host, name, registry)?;
            Ok(device.map_or(NONE, |device| {
                list.push(device);
                list.len() as u8 - 1
            }))
        };
        let index = add(&scenario.host, HOST)?;
        // The interface with a rate of a host without a name is that of the near host.
        let both = scenario.host.nic.is_none();
        let usual = [index, if both { index } else { NONE }];
        let hosts = scenario.hosts.iter();
        let named: Result<Vec<u8>, SimError> = hosts
            .map(|(name, host)| add(host, &format!("{HOST}.{name}")))
            .collect();
        let named = named?;
        let of_flow = |flow: &FlowSpec| {
            let [near, far] = match flow.direction {
                Direction::Down => [flow.sender, flow.receiver],
                Direction::Up => [flow.receiver, flow.sender],
            };
            let of = |number: Option<u8>, usual| {
                number.map_or(usual, |number| named[usize::from(number)])
            };
            [of(near, usual[0]), of(far, usual[1])]
        };
        let of_flows = if named.iter().all(|index| *index == NONE) && index == NONE {
            Vec::new()
        } else {
            scenario.flows.iter().map(of_flow).collect()
        };
        Ok(Devices {
            list,
            of_flows,
            usual,
        })
    }
    /// The interface by which flow or probe `number` of the scenario sends from `port`.
    #[inline]
    pub fn of(&mut self, number: u32, port: Port) -> Option<&mut Device> {
        if self.list.is_empty() {
            return None;
        }
        self.find(number, port)
    }
    #[cold]
    fn find(&mut self, number: u32, port: Port) -> Option<&mut Device> {
        let [near, far] = *self.of_flows.get(number as usize).unwrap_or(&self.usual);
        let index = if port == NEAR { near } else { far };
        self.list.get_mut(usize::from(index))
    }
    /// Time of the next event or report of an interface.
    #[inline]
    pub fn next(&self) -> Time {
        let times = self.list.iter().map(Device::next);
        times.min().unwrap_or(Time::MAX)
    }
    /// The index of the first interface with an event or report at `now`.
    pub fn due(&self, now: Time) -> Option<usize> {
        self.list.iter().position(|device| device.next() <= now)
    }
    /// The interfaces with a rate.
    pub fn with_rate(&self) -> impl Iterator<Item = &Device> {
        self.list.iter().filter(|device| !device.free)
    }
}

/// Name of the host's queue in the metrics.
const HOST: &str = "host";

impl Device {
    /// The interface of a host, if it has a rate or packets wait in it for their departure times.
    fn new(
        scenario: &Scenario,
        host: &HostSpec,
        name: &str,
        registry: &Registry<Packet>,
    ) -> Result<Option<Device>, SimError> {
        let cuts = !scenario.path.offload;
        let seed = Rng::named(scenario.seed, name).next_u64();
        let Some(nic) = &host.nic else {
            return Ok(host.paces_below().then(|| {
                let context = QueueContext {
                    limit: None,
                    rate: Rate::bit(0),
                    hz: host.hz,
                    seed,
                };
                Device {
                    interface: Interface::free(
                        Box::new(Fq::new(&Params::defaults(fq::PARAMS), &context)),
                        cuts,
                    ),
                    departures: Departures::new(name, "fq", Time::ZERO + scenario.warmup),
                    free: true,
                }
            }));
        };
        let kind = registry
            .queue(&nic.qdisc.kind)
            .ok_or_else(|| SimError::UnknownQueue(nic.qdisc.kind.clone()))?;
        let context = nic.queue_context(&scenario.path, host.hz, seed);
        let queue = (kind.make)(&nic.qdisc.params, &context);
        Ok(Some(Device {
            interface: match nic.link {
                Link::Htb { burst } => Interface::behind_htb(nic.rate, burst, queue, cuts),
                _ => Interface::new(nic.rate, queue, nic.ring, nic.bql, cuts),
            },
            departures: Departures::new(name, &nic.qdisc.kind, Time::ZERO + scenario.warmup),
            free: false,
        }))
    }
    /// Time of the interface's next event or report.
    pub fn next(&self) -> Time {
        self.interface.next().min(self.departures.since)
    }
    /// Samples the backlog, once per metrics interval.
    pub fn sample(&mut self, now: Time) {
        self.departures
            .meter
            .sample(now, self.interface.backlog(), |_| self.interface.backlog());
    }
}
