//! The path of a data packet and its ACK through the simulator, in the order of this file.
//!
//! | step | function |
//! |---|---|
//! | 1. The sender handles an event and sends segments. | [`Datapath::at_sender`] |
//! | 2. Segments become packets, or super-packets with offload. | [`Nic::send`] |
//! | 3. An interface with a rate or pacing queues them. | [`Device::push`], [`Datapath::leave_device`] |
//! | 4. The packet enters the network, which is in `core/src/net/`. | [`SimNetwork::push`] |
//! | 5. The packet leaves the network. | [`Datapath::deliver`], [`Datapath::arrive`] |
//! | 6. The access link of a receiver with its own `rtt` delays it. | [`Datapath::leave_access_link`] |
//! | 7. The receiver handles the segment. | [`ReceiverEnd::received`] |
//! | 8. Its ACK enters the network: steps 4 and 5 again. | [`AckNic::send`] |
//! | 9. The sender handles the ACK: step 1 again. | [`SenderEnd::acknowledged`] |
//!
//! A function that handles an event of an endpoint returns the time of the endpoint's next timer.
//! The connections of [applications](crate::application) have their own endpoints, and use steps 2
//! to 4 and 8.

use crate::device::{Device, Devices};
use crate::flow::{Flow, Flows, NOT_MEASURED, RECEIVER, SENDER, TIMERS_PER_FLOW};
use crate::network::SimNetwork;
use crate::observer::{Observer, Packets};
use crate::owners::{is_application, is_transport};
use crate::packet::{Kind, Label, Packet};
use crate::timers::Timers;
use narrows_core::engine::{Departures, Network};
use narrows_core::host::Fate;
use narrows_core::metrics::{PacketEvent, ProbeMeter};
use narrows_core::net::access::AccessLinks;
use narrows_core::net::{FAR, NEAR, Network as _, Port};
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::units::{MaybeTime, Rate, Span, Time};

/// The endpoints of all flows and probes, and everything between them.
pub(crate) struct Datapath {
    pub flows: Flows,
    pub probes: Vec<Probe>,
    /// The interfaces of hosts, if these have a rate or packets wait in them for their departure
    /// times.
    pub devices: Devices,
    /// Whether super-packets cross the path as one packet.
    pub offload: bool,
    pub network: SimNetwork,
    /// Access links between the path and receivers farther away.
    pub access: AccessLinks<Packet>,
    pub observer: Observer,
    pub timers: Timers,
    /// Number of events handled.
    pub events: u64,
}

/// One probe.
pub(crate) struct Probe {
    pub meter: ProbeMeter,
    pub departures: Departures,
    pub label: Label,
}

/// The time of an endpoint's next timer, moved after `now`: a timer at `now` itself could fire
/// forever.
fn later(now: Time, due: Option<Time>) -> Option<Time> {
    due.map(|at| at.max(now + Span::ns(1)))
}

// Step 1: the sender.

/// The sender of a flow and the interface of its host, for events of the sender.
pub(crate) struct SenderEnd<'a> {
    flow: &'a mut Flow,
    nic: Nic<'a>,
}

impl SenderEnd<'_> {
    /// Lets the sender handle an event at `now` (`act`) and send the segments that its congestion
    /// control permits. Returns the time of its next timer.
    #[inline(always)]
    fn handle(&mut self, now: Time, act: impl FnOnce(&mut Flow, &mut Nic)) -> Option<Time> {
        self.nic.now = now;
        act(self.flow, &mut self.nic);
        self.nic.flush();
        self.flow.sender.next_wakeup()
    }

    /// Lets the sender handle its timer. Returns the time of its next timer.
    pub fn woken(&mut self, now: Time) -> Option<Time> {
        let due = self.handle(now, |flow, nic| flow.sender.on_timer(now, &mut nic.wire()));
        later(now, due)
    }

    /// The network that the segments enter.
    #[inline]
    pub fn network(&mut self) -> &mut SimNetwork {
        self.nic.network
    }

    /// The contents of packets in transit.
    #[inline]
    pub fn packets(&self) -> &Packets {
        &self.nic.observer.packets
    }
}

impl Datapath {
    /// The sender of flow `id`.
    #[inline(always)]
    pub fn sender(&mut self, id: u32) -> SenderEnd<'_> {
        let flow = &mut self.flows[id as usize];
        let forward = flow.forward();
        let nic = Nic::new(
            Time::ZERO,
            id,
            forward,
            self.offload,
            self.devices.of(id, forward.0),
            &mut self.network,
            &mut self.observer,
        );
        SenderEnd { flow, nic }
    }

    /// Lets the sender of flow `id` handle an event at `now` (`act`). Returns the time of its next
    /// timer.
    #[inline]
    pub fn at_sender(
        &mut self,
        now: Time,
        id: u32,
        act: impl FnOnce(&mut Flow, &mut Nic),
    ) -> Option<Time> {
        self.sender(id).handle(now, act)
    }

    /// Sets the window and the pacing rate of the sender of flow `id`, and sends what they permit.
    pub fn steer(&mut self, now: Time, id: u32, cwnd: u32, pacing: Option<Rate>) {
        let due = self.at_sender(now, id, |flow, nic| {
            flow.sender.steer(now, cwnd, pacing, &mut nic.wire());
        });
        self.timers
            .set(id * TIMERS_PER_FLOW + SENDER, later(now, due));
    }

    /// Sends a ping of probe `number`.
    pub fn ping(&mut self, now: Time, number: usize) {
        let probe = &mut self.probes[number];
        let label = probe.label;
        let id = (self.flows.len() + number) as u32;
        let ping = Packet::ping(id, probe.meter.sent(now)).labelled(label, NEAR);
        self.observer.packets.pings += 1;
        self.nic(now, id, (NEAR, label)).send_datagram(ping);
    }

    /// The interface for the packets of `id`, which enter the network at the port and with the
    /// label of `forward`.
    pub fn nic(&mut self, now: Time, id: u32, forward: (Port, Label)) -> Nic<'_> {
        let number = self.observer.packets.owners.flow(id);
        Nic::new(
            now,
            id,
            forward,
            self.offload,
            self.devices.of(number, forward.0),
            &mut self.network,
            &mut self.observer,
        )
    }
}

// Step 2: segments become packets.

/// The interface of a host during one event: it sends segments one by one or, with offload, joined
/// to super-packets.
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
    #[inline]
    fn new(
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
            device,
            network,
            observer,
        }
    }
    /// The function by which a sender sends a segment. All callers use this one closure, so the
    /// code of the sender is compiled only once. A second copy would fill the instruction cache,
    /// which costs more than a function call.
    pub fn wire(&mut self) -> impl FnMut(Segment) -> Fate + use<'_, 'a> {
        |segment| self.send(segment)
    }
    /// Sends a segment. If there is an interface, the segment may be a whole super-packet.
    #[inline(always)]
    fn send(&mut self, segment: Segment) -> Fate {
        if self.device.is_some() {
            return self.pass_to_device(&segment);
        }
        if self.offload {
            self.hold(segment);
        } else {
            self.divide(segment);
        }
        Fate::Sent
    }
    /// Sends a ping or a datagram of an application.
    pub fn send_datagram(mut self, packet: Packet) {
        match &mut self.device {
            Some(device) => {
                device.push(self.now, packet, Time::ZERO, self.network, self.observer);
            }
            None => self
                .network
                .push(self.now, self.port, packet, self.observer),
        }
    }
    /// Ends the event: sends the segment that was held back to be joined with following ones.
    #[inline]
    pub fn flush(&mut self) {
        if self.held.is_some() {
            self.send_held();
        }
    }
    #[inline(never)]
    fn send_held(&mut self) {
        if let Some(segment) = self.held.take() {
            self.enter_path(&segment);
        }
    }
    /// Joins a segment to the one that was held back, or holds it back instead of that one.
    #[inline(never)]
    fn hold(&mut self, segment: Segment) {
        if !self.held.as_mut().is_some_and(|held| held.join(&segment)) {
            self.send_held();
            self.held = Some(segment);
        }
    }
    #[inline(always)]
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
    #[inline(always)]
    fn enter_path(&mut self, segment: &Segment) {
        let packet = self.packet(segment);
        self.network
            .push(self.now, self.port, packet, self.observer);
    }
    /// Sends the segments of a super-packet one by one.
    #[inline(always)]
    fn divide(&mut self, segment: Segment) {
        if segment.congestion.is_some() {
            // The sender has divided it.
            return self.enter_path(&segment);
        }
        let whole = Packet::data(self.flow, &segment).labelled(self.label, self.port);
        self.network
            .push_segments(self.now, self.port, whole, self.observer);
    }

    // Step 3: the queue of the interface.

    #[cold]
    fn pass_to_device(&mut self, segment: &Segment) -> Fate {
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

impl Device {
    /// Queues a packet or super-packet. Packets that leave the interface at once enter the path.
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
        self.enter_path(now, network, observer);
        let due = departs > Time::ZERO && departs <= now;
        if self.free && due && fate == Fate::Sent && self.departures.withdraw(flow) {
            return Fate::Gone;
        }
        fate
    }
    /// Passes the packets that have left the interface to the path.
    fn enter_path(&mut self, now: Time, network: &mut SimNetwork, observer: &mut Observer) {
        for packet in self.departures.packets.drain(..) {
            network.push(now, packet.port(), packet, observer);
        }
    }
}

impl Datapath {
    /// Lets packets leave the first interface that is due, and enter the path. Their senders may
    /// then send more; `of_application` is called for senders of applications.
    pub fn leave_device(&mut self, now: Time, mut of_application: impl FnMut(&mut Datapath, u32)) {
        let Some(number) = self.devices.due(now) else {
            return;
        };
        let device = &mut self.devices.list[number];
        device.interface.poll(now, &mut device.departures);
        device.enter_path(now, &mut self.network, &mut self.observer);
        for (packet, why) in device.departures.dropped.drain(..) {
            self.observer.judge(now, &packet, PacketEvent::Dropped(why));
            self.observer.packets.forget(&packet);
        }
        let mut completed = std::mem::take(&mut device.departures.completed);
        device.departures.reported();
        for id in completed.drain(..) {
            if is_application(id) {
                of_application(self, id);
                continue;
            }
            let due = self.at_sender(now, id, |flow, nic| {
                flow.sender.on_departed(now, &mut nic.wire());
            });
            self.timers.set(id * TIMERS_PER_FLOW + SENDER, due);
        }
        // Completions that these calls caused are handled in a separate event. The vector is
        // reused.
        let device = &mut self.devices.list[number];
        completed.append(&mut device.departures.completed);
        device.departures.completed = completed;
    }
}

// Step 4: the packet enters the path.

impl SimNetwork {
    /// Passes a packet to the network at `port`. With [lookahead](crate::lookahead), it enters the
    /// network at the end of the window.
    #[inline]
    pub fn push(&mut self, now: Time, port: Port, packet: Packet, observer: &mut Observer) {
        match &mut self.outbox {
            Some(outbox) => outbox.push(now, packet),
            None => self.push_at_once(now, port, packet, observer),
        }
    }
    /// As [`push`](Self::push), for the segments of a super-packet of data.
    #[inline]
    fn push_segments(&mut self, now: Time, port: Port, whole: Packet, observer: &mut Observer) {
        match &mut self.outbox {
            Some(outbox) => outbox.push_segments(now, whole),
            None => whole.divide(|segment| self.push_at_once(now, port, segment, observer)),
        }
    }
    #[inline(never)]
    fn push_at_once(&mut self, now: Time, port: Port, packet: Packet, observer: &mut Observer) {
        match &mut self.network {
            Network::Wired(path) => path.push(now, port, packet, observer),
            Network::Links(links) => links.push(now, port, packet, observer),
            Network::Wifi(stations) => {
                let owner = observer.packets.flow_of(&packet) as usize;
                let station = self.stations.get(owner).copied().unwrap_or(0);
                // Each port except the near one belongs to a station.
                let port = if port == NEAR { NEAR } else { station + 1 };
                stations.push(now, port, packet.at_station(station), observer);
            }
        }
    }
}

// Step 5: the packet leaves the path.

impl Datapath {
    /// Passes the packets that have left the path to their endpoints; `of_application` handles
    /// those of applications and transports.
    pub fn deliver(&mut self, now: Time, mut of_application: impl FnMut(&mut Datapath, &Packet)) {
        for i in 0..self.observer.packets.arrivals.len() {
            let packet = self.observer.packets.arrivals[i];
            if packet.damaged() {
                self.observer.packets.forget(&packet);
            } else if is_application(packet.flow()) {
                of_application(self, &packet);
            } else {
                self.arrive(now, &packet);
            }
        }
        self.observer.packets.arrivals.clear();
    }

    /// Handles a packet of a flow or a probe that arrives at its host.
    #[inline]
    fn arrive(&mut self, now: Time, packet: &Packet) {
        let id = packet.flow();
        match packet.kind() {
            Kind::Data => match self.flows[id as usize].access_forward.get() {
                Some(link) => self.access.push(now, link, *packet),
                None => self.receive(now, packet),
            },
            Kind::Ack => {
                let due = self.sender(id).acknowledged(now, packet);
                self.timers.set(id * TIMERS_PER_FLOW + SENDER, due);
            }
            Kind::Ping => self
                .network
                .push(now, FAR, packet.pong(), &mut self.observer),
            Kind::Pong => self.on_pong(now, packet),
        }
    }

    /// Handles the answer to a ping.
    pub fn on_pong(&mut self, now: Time, pong: &Packet) {
        self.observer.packets.pings -= 1;
        self.probes[pong.flow() as usize - self.flows.len()]
            .meter
            .received(now, pong.number());
    }

    // Step 6: the access link.

    /// Handles the next packet that leaves an access link: data goes to its receiver, an ACK to the
    /// path. `of_transport` handles packets of transports.
    pub fn leave_access_link(
        &mut self,
        now: Time,
        of_transport: impl FnOnce(&mut Datapath, &Packet),
    ) {
        let Some(packet) = self.access.pop(now) else {
            return;
        };
        if is_transport(packet.flow()) {
            return of_transport(self, &packet);
        }
        match packet.kind() {
            Kind::Data => self.receive(now, &packet),
            _ => {
                let port = self.flows[packet.flow() as usize].ack_port();
                self.network.push(now, port, packet, &mut self.observer);
            }
        }
    }

    // Step 7: the receiver.

    fn receive(&mut self, now: Time, packet: &Packet) {
        let due = self.receiver(packet.flow()).received(now, packet);
        self.timers
            .set(packet.flow() * TIMERS_PER_FLOW + RECEIVER, due.get());
    }

    /// The receiver of flow `id`.
    #[inline(always)]
    pub fn receiver(&mut self, id: u32) -> ReceiverEnd<'_> {
        let flow = &mut self.flows[id as usize];
        let nic = AckNic {
            now: Time::ZERO,
            flow: id,
            port: flow.ack_port(),
            label: flow.label,
            link: flow.access_reverse.get(),
            network: &mut self.network,
            access: &mut self.access,
            observer: &mut self.observer,
        };
        ReceiverEnd { flow, nic }
    }

    /// The interface of a host for the ACKs of `flow`, which enter the path at `port`.
    pub fn ack_nic(&mut self, now: Time, flow: u32, port: Port, label: Label) -> AckNic<'_> {
        AckNic {
            now,
            flow,
            port,
            label,
            link: None,
            network: &mut self.network,
            access: &mut self.access,
            observer: &mut self.observer,
        }
    }
}

/// The receiver of a flow and the interface of its host, for events of the receiver.
pub(crate) struct ReceiverEnd<'a> {
    flow: &'a mut Flow,
    nic: AckNic<'a>,
}

impl ReceiverEnd<'_> {
    /// Lets the receiver handle a segment. Returns the time of its next timer.
    #[inline(always)]
    pub fn received(&mut self, now: Time, packet: &Packet) -> MaybeTime {
        if packet.has_header() {
            return self.received_with_header(now, packet);
        }
        self.receive(now, &packet.segment())
    }

    #[inline(never)]
    fn received_with_header(&mut self, now: Time, packet: &Packet) -> MaybeTime {
        let segment = self.nic.observer.packets.headers.take(packet);
        self.receive(now, &segment)
    }

    #[inline(always)]
    fn receive(&mut self, now: Time, segment: &Segment) -> MaybeTime {
        let flow = &mut *self.flow;
        if now >= self.nic.observer.warmup && flow.received_before == NOT_MEASURED {
            flow.received_before = flow.receiver.received_bytes();
        }
        self.nic.now = now;
        flow.receiver.on_segment(now, segment, &mut self.nic.wire());
        flow.receiver.due()
    }

    /// Lets the receiver handle its timer. Returns the time of its next timer.
    pub fn woken(&mut self, now: Time) -> Option<Time> {
        self.nic.now = now;
        self.flow.receiver.on_timer(now, &mut self.nic.wire());
        later(now, self.flow.receiver.next_wakeup())
    }

    /// The network that the ACKs enter.
    #[inline]
    pub fn network(&mut self) -> &mut SimNetwork {
        self.nic.network
    }
}

// Step 8: the ACK.

/// The interface of a receiver's host during one event: ACKs enter the path, or the access link
/// before it.
pub(crate) struct AckNic<'a> {
    now: Time,
    flow: u32,
    port: Port,
    label: Label,
    link: Option<u32>,
    network: &'a mut SimNetwork,
    access: &'a mut AccessLinks<Packet>,
    observer: &'a mut Observer,
}

impl<'a> AckNic<'a> {
    /// The function by which a receiver sends an ACK; one closure for all callers, as in
    /// [`Nic::wire`].
    pub fn wire(&mut self) -> impl FnMut(AckSegment) + use<'_, 'a> {
        #[inline(always)]
        |ack| self.send(ack)
    }
    #[inline(always)]
    fn send(&mut self, ack: AckSegment) {
        let packet = self
            .observer
            .packets
            .acks
            .packet(self.flow, ack)
            .labelled(self.label, self.port);
        match self.link {
            Some(link) => self.access.push(self.now, link, packet),
            None => self
                .network
                .push(self.now, self.port, packet, self.observer),
        }
    }
}

// Step 9: the sender again.

impl SenderEnd<'_> {
    /// Lets the sender handle an ACK, and finishes a transfer whose data are all acknowledged.
    /// Returns the time of the sender's next timer.
    #[inline(always)]
    pub fn acknowledged(&mut self, now: Time, packet: &Packet) -> Option<Time> {
        let ack = self.nic.observer.packets.acks.take(packet);
        self.handle(now, |flow, nic| {
            flow.sender.on_segment(now, &ack, &mut nic.wire());
            if flow.transfer && flow.sender.finished() {
                if flow.meter.runs() {
                    flow.meter.limited(flow.sender.limited(now));
                }
                flow.meter.finished(now, &flow.sender.info());
            }
        })
    }
}
