//! How a sender's segments leave its host: onto the path at once, or first through an interface of
//! its own rate.

use crate::error::SimError;
use crate::network::SimNetwork;
use crate::packet::{Kind, Label, Packet};
use crate::packets::Observer;
use narrows_core::figures::QueueMeter;
use narrows_core::host::Fate;
use narrows_core::host::interface::{Below, Cut, Interface};
use narrows_core::net::access::Access;
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::Packet as _;
use narrows_core::param::Params;
use narrows_core::queue::fq::{self, Fq};
use narrows_core::queue::{Place, Why};
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Link, Scenario};
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::units::{Rate, Time};

/// What has come out of the interface, and what became of it there.
#[derive(Debug)]
pub(crate) struct Departures {
    /// Packets, for the path.
    pub packets: Vec<Packet>,
    /// Flows of which a super-packet lies below TCP no longer.
    pub of: Vec<u32>,
    /// Packets that are gone, for whoever keeps what they carried; of those that were not taken
    /// TCP knows already.
    pub gone: Vec<(Packet, Why)>,
    /// Since when something is to be told; [`Time::MAX`] while nothing is.
    since: Time,
    /// The host's own queue, where there is one.
    pub meter: QueueMeter,
}

impl Departures {
    /// None yet, from an interface under the discipline `kind`.
    pub fn new(kind: &str, warmup: Time) -> Departures {
        Departures {
            packets: Vec::new(),
            of: Vec::new(),
            gone: Vec::new(),
            since: Time::MAX,
            meter: QueueMeter::new(HOST.into(), kind.into(), Vec::new(), warmup),
        }
    }
    /// All is told.
    pub fn told(&mut self) {
        self.since = Time::MAX;
    }
    /// The newest of this flow that has left is not to be told. Was there one?
    fn forget(&mut self, flow: u32) -> bool {
        let newest = self.of.iter().rposition(|of| *of == flow);
        newest.map(|i| self.of.remove(i)).is_some()
    }
    fn tell(&mut self, now: Time, packet: &Packet) {
        self.since = self.since.min(now);
        if packet.kind() == Kind::Data && packet.payload() > 0 {
            self.of.push(packet.flow());
        }
    }
}

impl Below<Packet> for Departures {
    fn left(&mut self, now: Time, packet: Packet) {
        self.meter.departed(now, packet.enqueued_at(), 0);
        self.packets.push(packet);
    }
    fn completed(&mut self, now: Time, last: &Packet) {
        self.tell(now, last);
    }
    fn dropped(&mut self, now: Time, packet: Packet, why: Why) {
        self.meter.dropped(why);
        self.tell(now, &packet);
        self.gone.push((packet, why));
    }
    fn refused(&mut self, now: Time, packet: Packet, why: Why) {
        self.meter.dropped(why);
        self.since = self.since.min(now);
        self.gone.push((packet, why));
    }
    fn marked(&mut self, _now: Time, _packet: &Packet, _why: Why) {
        self.meter.marked();
    }
}

impl Cut for Packet {
    fn cut(&mut self) -> Option<Packet> {
        self.first_segment()
    }
}

/// The interface of the near host, and what comes out of it.
pub(crate) struct Device {
    pub interface: Interface<Packet>,
    pub departures: Departures,
    /// It keeps no rate, only times: no flow waits for another, and so it stands for those of both
    /// ends.
    pub free: bool,
}

/// How the host's own queue is called among the hops'.
const HOST: &str = "host";

impl Device {
    /// As the scenario has it, if its interface has a rate or paces.
    pub fn of(
        scenario: &Scenario,
        registry: &Registry<Packet>,
    ) -> Result<Option<Box<Device>>, SimError> {
        let cuts = !scenario.path.offload;
        let seed = Rng::named(scenario.seed, HOST).next_u64();
        let Some(nic) = &scenario.host.nic else {
            return Ok(scenario.host.paces_below().then(|| {
                let place = Place {
                    limit: None,
                    rate: Rate::bit(0),
                    hz: scenario.host.hz,
                    seed,
                };
                Box::new(Device {
                    interface: Interface::free(
                        Box::new(Fq::new(&Params::defaults(fq::PARAMS), &place)),
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
        let place = Place {
            limit: nic
                .buffer
                .map(|buffer| scenario.path.resolve(buffer, nic.rate)),
            rate: nic.rate,
            hz: scenario.host.hz,
            seed,
        };
        let queue = (kind.make)(&nic.qdisc.params, &place);
        Ok(Some(Box::new(Device {
            interface: match nic.link {
                Link::Htb { burst } => Interface::behind_htb(nic.rate, burst, queue, cuts),
                _ => Interface::new(nic.rate, queue, nic.ring, nic.bql, cuts),
            },
            departures: Departures::new(&nic.qdisc.kind, Time::ZERO + scenario.warmup),
            free: false,
        })))
    }
    /// When it has something to do or to tell.
    pub fn next(&self) -> Time {
        self.interface.next().min(self.departures.since)
    }
    /// A super-packet is handed down; what leaves at once goes onto the path.
    fn push(
        &mut self,
        now: Time,
        packet: Packet,
        departs: Time,
        network: &mut SimNetwork,
        observer: &mut Observer,
    ) -> Fate {
        let flow = packet.flow();
        let fate = self
            .interface
            .push(now, packet, departs, &mut self.departures);
        self.let_out(now, network, observer);
        let had_come = departs > Time::ZERO && departs <= now;
        if self.free && had_come && fate == Fate::Sent && self.departures.forget(flow) {
            return Fate::Gone;
        }
        fate
    }
    /// What has left it goes onto the path.
    pub fn let_out(&mut self, now: Time, network: &mut SimNetwork, observer: &mut Observer) {
        for packet in self.departures.packets.drain(..) {
            network.push(now, packet.port(), packet, observer);
        }
    }
    /// Each figure interval: what waits.
    pub fn sample(&mut self, now: Time) {
        self.departures
            .meter
            .sample(now, self.interface.backlog(), |_| self.interface.backlog());
    }
}

/// The way out of one host at one instant: segments one by one or, with offload, joined to
/// super-packets.
pub(crate) struct Nic<'a> {
    now: Time,
    flow: u32,
    port: Port,
    label: Label,
    offload: bool,
    held: Option<Segment>,
    device: Option<&'a mut Device>,
    network: &'a mut SimNetwork,
    observer: &'a mut Observer,
}

impl<'a> Nic<'a> {
    pub fn new(
        now: Time,
        flow: u32,
        (port, label): (Port, Label),
        offload: bool,
        device: Option<&'a mut Device>,
        network: &'a mut SimNetwork,
        observer: &'a mut Observer,
    ) -> Nic<'a> {
        Nic {
            now,
            flow,
            port,
            label,
            offload,
            held: None,
            // A scenario's interface with a rate is the one at its near end.
            device: device.filter(|device| port == NEAR || device.free),
            network,
            observer,
        }
    }
    /// What a sender is handed to send by. From here alone, so that all of a sender's work is
    /// compiled once: a second copy of it would cost the instruction cache more than the call
    /// of a function does.
    pub fn wire(&mut self) -> impl FnMut(Segment) -> Fate + use<'_, 'a> {
        |segment| self.send(segment)
    }
    /// A segment leaves, or a whole super-packet for the interface.
    fn send(&mut self, segment: Segment) -> Fate {
        if self.device.is_some() {
            return self.hand_down(&segment);
        }
        if !self.offload {
            self.let_out(&segment);
            return Fate::Sent;
        }
        if self.held.as_mut().is_some_and(|held| held.join(&segment)) {
            return Fate::Sent;
        }
        self.flush();
        self.held = Some(segment);
        Fate::Sent
    }
    /// A ping leaves.
    pub fn ping(mut self, ping: Packet) {
        match &mut self.device {
            Some(device) => {
                device.push(self.now, ping, Time::ZERO, self.network, self.observer);
            }
            None => self.network.push(self.now, self.port, ping, self.observer),
        }
    }
    /// No more leave at this instant.
    pub fn flush(&mut self) {
        if let Some(segment) = self.held.take() {
            self.let_out(&segment);
        }
    }
    #[inline]
    fn packet(&mut self, segment: &Segment) -> Packet {
        let packet = match &segment.congestion {
            None => Packet::data(self.flow, segment),
            Some(header) => self
                .observer
                .packets
                .headers
                .packet(self.flow, segment, header),
        };
        packet.labelled(self.label, self.port)
    }
    #[inline]
    fn let_out(&mut self, segment: &Segment) {
        let packet = self.packet(segment);
        self.network
            .push(self.now, self.port, packet, self.observer);
    }
    #[cold]
    fn hand_down(&mut self, segment: &Segment) -> Fate {
        let packet = self.packet(segment);
        let Some(device) = &mut self.device else {
            return Fate::Sent;
        };
        device.push(
            self.now,
            packet,
            segment.departs,
            self.network,
            self.observer,
        )
    }
}

/// Where a receiver's ACKs go: onto the path, or first onto the line that leads there.
pub(crate) struct WayBack<'a> {
    pub now: Time,
    pub flow: u32,
    /// Where its ACKs enter the path.
    pub port: Port,
    pub label: Label,
    pub line: Option<u32>,
    pub network: &'a mut SimNetwork,
    pub access: &'a mut Access<Packet>,
    pub observer: &'a mut Observer,
}

impl<'a> WayBack<'a> {
    /// What a receiver is handed to send by; from here alone, as [`Nic::wire`].
    pub fn wire(&mut self) -> impl FnMut(AckSegment) + use<'_, 'a> {
        |ack| self.send(ack)
    }
    fn send(&mut self, ack: AckSegment) {
        let packet = self
            .observer
            .packets
            .acks
            .packet(self.flow, ack)
            .labelled(self.label, self.port);
        match self.line {
            Some(line) => self.access.push(self.now, line, packet),
            None => self
                .network
                .push(self.now, self.port, packet, self.observer),
        }
    }
}
