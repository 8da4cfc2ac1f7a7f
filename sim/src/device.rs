//! The network interface of the sending host: its queue discipline, its device, and the packets
//! that have left it.

use crate::error::SimError;
use crate::packet::{Kind, Packet};
use narrows_core::host::interface::{Below, Cut, Interface};
use narrows_core::metrics::QueueMeter;
use narrows_core::packet::Packet as _;
use narrows_core::param::Params;
use narrows_core::queue::fq::{self, Fq};
use narrows_core::queue::{DropReason, QueueContext};
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Link, Scenario};
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
    /// Empty lists; `kind` is the queue discipline of the interface.
    pub fn new(kind: &str, warmup: Time) -> Departures {
        Departures {
            packets: Vec::new(),
            completed: Vec::new(),
            dropped: Vec::new(),
            since: Time::MAX,
            meter: QueueMeter::new(HOST.into(), kind.into(), Vec::new(), warmup),
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

/// The interface of the near host and its departures.
pub(crate) struct Device {
    pub interface: Interface<Packet>,
    pub departures: Departures,
    /// Whether the interface has no rate and only holds packets until their departure times. Flows
    /// then do not delay each other, so one interface serves the hosts at both ends.
    pub free: bool,
}

/// Name of the host's queue in the metrics.
const HOST: &str = "host";

impl Device {
    /// The interface of `scenario`, if it has a rate or packets wait in it for their departure
    /// times.
    pub fn new(
        scenario: &Scenario,
        registry: &Registry<Packet>,
    ) -> Result<Option<Box<Device>>, SimError> {
        let cuts = !scenario.path.offload;
        let seed = Rng::named(scenario.seed, HOST).next_u64();
        let Some(nic) = &scenario.host.nic else {
            return Ok(scenario.host.paces_below().then(|| {
                let context = QueueContext {
                    limit: None,
                    rate: Rate::bit(0),
                    hz: scenario.host.hz,
                    seed,
                };
                Box::new(Device {
                    interface: Interface::free(
                        Box::new(Fq::new(&Params::defaults(fq::PARAMS), &context)),
                        cuts,
                    ),
                    departures: Departures::new("fq", Time::ZERO + scenario.warmup),
                    free: true,
                })
            }));
        };
        let kind = registry
            .queue(&nic.qdisc.kind)
            .ok_or_else(|| SimError::UnknownQueue(nic.qdisc.kind.clone()))?;
        let context = QueueContext {
            limit: nic
                .buffer
                .map(|buffer| scenario.path.resolve(buffer, nic.rate)),
            rate: nic.rate,
            hz: scenario.host.hz,
            seed,
        };
        let queue = (kind.make)(&nic.qdisc.params, &context);
        Ok(Some(Box::new(Device {
            interface: match nic.link {
                Link::Htb { burst } => Interface::behind_htb(nic.rate, burst, queue, cuts),
                _ => Interface::new(nic.rate, queue, nic.ring, nic.bql, cuts),
            },
            departures: Departures::new(&nic.qdisc.kind, Time::ZERO + scenario.warmup),
            free: false,
        })))
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
