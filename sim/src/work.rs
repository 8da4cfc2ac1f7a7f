//! Flows with a workload: their connections, their datagrams, and who is told of what.
//!
//! A connection is one or two halves, each a [`Sender`] and the [`Receiver`] of what it sends. The
//! half of the side that opened has the handshake; where the other side answers, its half begins
//! established, with the round trip of that handshake. What an end owes one half rides on what it
//! writes to the other: the packet is the data's, the ACK is kept beside it until that arrives.
//!
//! Connections come and go by the thousand. Their places are used again, the longest free first, so
//! memory is bounded by those that are open at once ([`MOST_OPEN`]). What a packet carries as its
//! flow is the number of a half: a mark, how often the place was used, the place, and which half.
//! So what is still under way of a connection that was closed finds nobody, and a queue that
//! tells flows apart sees a new flow in each connection. Datagrams carry the number of their
//! workload, under another mark.

use crate::error::SimError;
use crate::network::SimNetwork;
use crate::nic::{Device, Nic, WayBack};
use crate::owners::{CONNECTION, DATAGRAM, MOST_OPEN, Owners, half_number, place_of};
use crate::packet::{Kind, Label, Packet};
use crate::packets::Observer;
use crate::timers::Timers;
use narrows_core::cc::{self, CcKind};
use narrows_core::figures::WorkloadFigures;
use narrows_core::net::access::Access;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::param::Params;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Direction, Scenario};
use narrows_core::tcp::wire::{AckMarks, AckSegment};
use narrows_core::tcp::{Config, EcnUse, Info, Receiver, Sender};
use narrows_core::units::{Bytes, Span, Time};
use narrows_core::workload::{
    self, Action, Conn, DATAGRAM_HEADERS, Event, Setting, Side, Workload,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Timers of a place: two halves, of each sender and receiver.
const TIMERS_PER_PLACE: u32 = 4;

/// What a workload is carried out on.
pub(crate) struct Net<'a> {
    pub network: &'a mut SimNetwork,
    pub observer: &'a mut Observer,
    pub device: Option<&'a mut Device>,
    pub timers: &'a mut Timers,
    pub access: &'a mut Access<Packet>,
    pub offload: bool,
}

impl Net<'_> {
    /// Where the ACKs of a half go.
    fn way_back(&mut self, now: Time, flow: u32, port: Port, label: Label) -> WayBack<'_> {
        WayBack {
            now,
            flow,
            port,
            label,
            line: None,
            network: self.network,
            access: self.access,
            observer: self.observer,
        }
    }
}

/// What is sent one way on a connection, and who hears it.
struct Half {
    sender: Sender,
    receiver: Receiver,
    /// Where its data enters the path.
    port: Port,
    /// Bytes of which the application was told.
    told: u64,
    /// ACKs of what came the other way, and from which byte on they ride on data.
    riding: VecDeque<(u64, AckSegment)>,
}

struct Connection {
    load: usize,
    name: Conn,
    by: Side,
    opened: bool,
    /// That of the side that opened, then that of the one that answers.
    halves: [Option<Half>; 2],
}

#[derive(Default)]
struct Place {
    uses: u32,
    open: Option<Box<Connection>>,
}

/// One flow with a workload.
struct Load {
    /// Its place in the scenario.
    flow: u32,
    app: Box<dyn Workload>,
    config: Arc<Config>,
    /// Of an end that is the far one.
    far_config: Arc<Config>,
    law: &'static cc::MakeCc,
    cc: Params,
    host: cc::Host,
    /// Of each connection's own seed.
    seeds: Rng,
    /// And of when its applications read, so late at most.
    readers: Rng,
    read_latency: Span,
    /// Where the flow's data enters.
    server: Port,
    label: Label,
    running: bool,
    /// Places of its connections, by their names.
    places: Vec<Option<usize>>,
    /// What its connections came to that are closed.
    closed: Totals,
    /// Bytes that have arrived at the client.
    delivered: u64,
}

/// Sums over connections.
#[derive(Copy, Clone, Default)]
struct Totals {
    sent: u64,
    again: u64,
    retransmits: u64,
    /// Bytes of datagrams.
    datagrams: u64,
}

impl Totals {
    fn add(&mut self, info: &Info) {
        self.sent += info.bytes_sent;
        self.again += info.bytes_retrans;
        self.retransmits += info.retransmits;
    }
}

/// All workloads of a run.
pub(crate) struct Works {
    loads: Vec<Load>,
    places: Vec<Place>,
    free: VecDeque<usize>,
    /// The number of the first timer: a workload's own come first, then those of the places.
    first_timer: u32,
    /// The run is over: what still arrives is told, and nothing follows from it.
    over: bool,
    todo: Vec<Action>,
    events: VecDeque<Event>,
}

fn other(port: Port) -> Port {
    NEAR + FAR - port
}

fn opposite(side: Side) -> Side {
    match side {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    }
}

impl Works {
    /// None yet; their timers begin at `first_timer`.
    pub fn new(first_timer: u32) -> Works {
        Works {
            loads: Vec::new(),
            places: Vec::new(),
            free: VecDeque::new(),
            first_timer,
            over: false,
            todo: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes up the workload of a flow; answers its number.
    pub fn add(
        &mut self,
        scenario: &Scenario,
        number: u32,
        kind: &CcKind,
        owners: &mut Owners,
    ) -> Result<Option<usize>, SimError> {
        let flow = &scenario.flows[number as usize];
        let Some(choice) = &flow.workload else {
            return Ok(None);
        };
        owners.loads.push(number);
        let unknown = || SimError::UnknownWorkload(choice.kind.clone());
        let work = workload::find(&choice.kind).ok_or_else(unknown)?;
        let (config, far_config) = (scenario.host.config(), scenario.host.far_config());
        let mut seeds = Rng::named(scenario.seed, &format!("workload/{}", flow.id));
        let end = flow
            .stop
            .unwrap_or(scenario.duration)
            .min(scenario.duration);
        let start = Time::ZERO + flow.start;
        let setting = Setting {
            seed: seeds.next_u64(),
            from: (Time::ZERO + scenario.warmup).max(start),
            end: Time::ZERO + end,
        };
        self.loads.push(Load {
            flow: number,
            app: (work.make)(&choice.params, setting),
            law: kind.make,
            cc: flow.cc.params.clone(),
            host: cc::Host {
                hz: scenario.host.hz,
                kernel: config.kernel,
                gso: config.gso,
                seed: 0,
            },
            config: config.under(kind.signals(), flow.ecn).into(),
            far_config: far_config.under(kind.signals(), flow.ecn).into(),
            seeds,
            readers: Rng::named(scenario.seed, &format!("reader/{}", flow.id)),
            read_latency: scenario.host.read_latency,
            server: match flow.direction {
                Direction::Down => NEAR,
                Direction::Up => FAR,
            },
            label: Label::new(flow.dscp, flow.host, scenario.path.nat),
            running: false,
            places: Vec::new(),
            closed: Totals::default(),
            delivered: 0,
        });
        Ok(Some(self.loads.len() - 1))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Its own timers come after all others.
    pub fn first_timer(&self) -> u32 {
        self.first_timer
    }

    /// Makes room for the timers that workloads have before any connection is open.
    pub fn reserve(&self, timers: &mut Timers) {
        timers.grow(self.first_timer as usize + self.loads.len());
    }

    /// Nothing is done any more; datagrams that are under way may still arrive.
    pub fn close(&mut self, net: &mut Net<'_>) {
        self.over = true;
        (0..self.loads.len()).for_each(|load| self.stop(load, net));
    }

    /// A flow begins.
    pub fn start(&mut self, now: Time, load: usize, net: &mut Net<'_>) {
        self.loads[load].running = true;
        self.tell(now, load, Event::Started, net);
    }

    /// A flow ends: its connections close and it sends no more.
    pub fn stop(&mut self, load: usize, net: &mut Net<'_>) {
        self.loads[load].running = false;
        for name in 0..self.loads[load].places.len() {
            self.hang_up(load, name as Conn, net);
        }
        net.timers.set(self.first_timer + load as u32, None);
    }

    /// What the flow of a workload comes to, as if it were one connection: sums, and the mean of
    /// round trips.
    pub fn info(&self, load: usize) -> Info {
        let of = &self.loads[load];
        let mut totals = of.closed;
        let mut info = Info {
            bytes_acked: of.delivered,
            ..Info::default()
        };
        let (mut srtt_us, mut measured) = (0, 0);
        for place in of.places.iter().flatten() {
            let halves = self.places[*place]
                .open
                .iter()
                .flat_map(|c| c.halves.iter().flatten());
            for half in halves {
                let each = half.sender.info();
                totals.add(&each);
                if half.port == of.server {
                    info.cwnd += each.cwnd;
                    info.in_flight += each.in_flight;
                    srtt_us += each.srtt.as_us();
                    measured += u64::from(each.srtt > Span::ZERO);
                }
            }
        }
        info.srtt = Span::us(srtt_us / measured.max(1));
        info.bytes_sent = totals.sent + totals.datagrams;
        info.bytes_retrans = totals.again;
        info.retransmits = totals.retransmits;
        info
    }

    /// What a workload saw.
    pub fn figures(&self, load: usize, end: Time) -> WorkloadFigures {
        self.loads[load].app.figures(end)
    }

    /// A packet has come out of the path.
    pub fn arrived(&mut self, now: Time, packet: &Packet, net: &mut Net<'_>) {
        if packet.flow() & CONNECTION == 0 {
            return self.datagram(now, packet, net);
        }
        let (place, half) = (place_of(packet.flow()), packet.flow() & 1);
        let live = self.places.get(place).is_some_and(|p| {
            p.open.is_some() && half_number(place, p.uses, half as usize) == packet.flow()
        });
        if !live {
            return net.observer.packets.forget(packet);
        }
        match packet.kind() {
            Kind::Data => self.data(now, place, half as usize, packet, net),
            _ => self.ack(now, place, half as usize, packet, net),
        }
    }

    fn datagram(&mut self, now: Time, packet: &Packet, net: &mut Net<'_>) {
        net.observer.packets.pings -= 1;
        let load = (packet.flow() & !DATAGRAM) as usize;
        let of = &mut self.loads[load];
        let down = packet.kind() == Kind::Ping;
        let at = if down == (of.server == NEAR) {
            Side::Client
        } else {
            Side::Server
        };
        let bytes = packet.size().get() as u16 - DATAGRAM_HEADERS;
        if at == Side::Client && !self.over {
            of.delivered += u64::from(bytes);
        }
        let event = Event::Datagram {
            at,
            number: packet.number(),
            sent: packet.sent_at(),
            bytes,
        };
        self.tell(now, load, event, net);
    }

    /// Data arrives at the receiver of a half.
    fn data(&mut self, now: Time, place: usize, half: usize, packet: &Packet, net: &mut Net<'_>) {
        let segment = net.observer.packets.headers.take(packet);
        while let Some(ack) = self.riding_on(place, half, segment.seq) {
            self.with_sender(now, place, half ^ 1, net, |sender, nic| {
                sender.on_segment(now, &ack, &mut nic.wire())
            });
        }
        let uses = self.places[place].uses;
        let Some(connection) = self.places[place].open.as_deref_mut() else {
            return;
        };
        let (load, name, by) = (connection.load, connection.name, connection.by);
        let of = &mut self.loads[load];
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let number = half_number(place, uses, half);
        let (port, label) = (other(this.port), of.label);
        let mut way = net.way_back(now, number, port, label);
        this.receiver.on_segment(now, &segment, &mut way.wire());
        let due = this.receiver.next_wakeup();
        net.timers.set(
            timer(self.first_timer, self.loads.len(), place, half, RECEIVER),
            due,
        );
        let total = this.receiver.delivered_bytes();
        let new = total - this.told;
        this.told = total;
        let asked = this.receiver.established().filter(|_| half == 0);
        let (offered, agreed) = (this.receiver.offered(), this.receiver.agreed());
        if let (Some(asked), [_, Some(answer)]) = (asked, &mut connection.halves) {
            if !answer.sender.is_established() {
                let heard = AckSegment {
                    syn: true,
                    window: offered,
                    ece: agreed != EcnUse::Off,
                    marks: AckMarks::new(u8::from(agreed == EcnUse::Counted), Ecn::NotEct),
                    tsval: segment.tsval,
                    ..AckSegment::default()
                };
                let of = &self.loads[load];
                let number = half_number(place, uses, 1);
                let way = (answer.port, of.label);
                let mut nic = Nic::new(
                    now,
                    number,
                    way,
                    net.offload,
                    net.device.as_deref_mut(),
                    net.network,
                    net.observer,
                );
                answer.sender.accept(now, asked, &heard, &mut nic.wire());
                nic.flush();
                let due = answer.sender.next_wakeup();
                net.timers.set(
                    timer(self.first_timer, self.loads.len(), place, 1, SENDER),
                    due,
                );
            }
        }
        if new > 0 {
            let from = if half == 0 { by } else { opposite(by) };
            let at = opposite(from);
            if at == Side::Client {
                self.loads[load].delivered += new;
            }
            let (conn, bytes) = (name, total);
            self.tell(now, load, Event::Arrived { conn, at, bytes }, net);
        }
    }

    /// An ACK that rides on the data from `byte` on, which has arrived.
    fn riding_on(&mut self, place: usize, half: usize, byte: u64) -> Option<AckSegment> {
        let this = self.places[place].open.as_deref_mut()?.halves[half].as_mut()?;
        let arrived = this.riding.front().is_some_and(|(first, _)| *first <= byte);
        arrived
            .then(|| this.riding.pop_front())?
            .map(|(_, ack)| ack)
    }

    /// An ACK arrives at the sender of a half.
    fn ack(&mut self, now: Time, place: usize, half: usize, packet: &Packet, net: &mut Net<'_>) {
        let ack = net.observer.packets.acks.take(packet);
        self.with_sender(now, place, half, net, |sender, nic| {
            sender.on_segment(now, &ack, &mut nic.wire())
        });
        let Some(connection) = self.places[place].open.as_deref_mut() else {
            return;
        };
        if let Some(back) = &mut connection.halves[half ^ 1] {
            back.receiver.on_own_acknowledged(ack.tsecr);
        }
        let [Some(first), answer] = &mut connection.halves else {
            return;
        };
        if connection.opened || !first.sender.is_established() {
            return;
        }
        connection.opened = true;
        if let Some(answer) = answer {
            answer.receiver.accept(
                now,
                first.sender.info().srtt.as_us(),
                first.receiver.agreed(),
            );
        }
        let (load, name) = (connection.load, connection.name);
        self.tell(now, load, Event::Opened(name), net);
    }

    /// Lets the sender of a half work, with the way out of its host, and sets its timer anew.
    fn with_sender(
        &mut self,
        now: Time,
        place: usize,
        half: usize,
        net: &mut Net<'_>,
        work: impl FnOnce(&mut Sender, &mut Nic<'_>),
    ) {
        let uses = self.places[place].uses;
        let Some(connection) = self.places[place].open.as_deref_mut() else {
            return;
        };
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let way = (this.port, self.loads[connection.load].label);
        let number = half_number(place, uses, half);
        let mut nic = Nic::new(
            now,
            number,
            way,
            net.offload,
            net.device.as_deref_mut(),
            net.network,
            net.observer,
        );
        work(&mut this.sender, &mut nic);
        nic.flush();
        let due = this.sender.next_wakeup();
        net.timers.set(
            timer(self.first_timer, self.loads.len(), place, half, SENDER),
            due,
        );
    }

    /// A super-packet of this number has left the host's device.
    pub fn departed(&mut self, now: Time, number: u32, net: &mut Net<'_>) {
        let (place, half) = (place_of(number), (number & 1) as usize);
        let live = |p: &Place| p.open.is_some() && half_number(place, p.uses, half) == number;
        if number & CONNECTION != 0 && self.places.get(place).is_some_and(live) {
            self.with_sender(now, place, half, net, |sender, nic| {
                sender.on_departed(now, &mut nic.wire())
            });
        }
    }

    /// Timer `number` fires.
    pub fn fire(&mut self, now: Time, number: u32, net: &mut Net<'_>) {
        let number = (number - self.first_timer) as usize;
        let Some(number) = number.checked_sub(self.loads.len()) else {
            return self.tell(now, number, Event::Woke, net);
        };
        let (place, half, end) = (number / 4, number / 2 % 2, number % 2);
        if end == SENDER {
            self.with_sender(now, place, half, net, |sender, nic| {
                sender.on_timer(now, &mut nic.wire())
            });
            return self.later(now, place, half, net);
        }
        let uses = self.places[place].uses;
        let Some(connection) = self.places[place].open.as_deref_mut() else {
            return;
        };
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let (port, label) = (other(this.port), self.loads[connection.load].label);
        let number = half_number(place, uses, half);
        let mut way = net.way_back(now, number, port, label);
        this.receiver.on_timer(now, &mut way.wire());
        let due = this
            .receiver
            .next_wakeup()
            .map(|at| at.max(now + Span::ns(1)));
        net.timers.set(
            timer(self.first_timer, self.loads.len(), place, half, RECEIVER),
            due,
        );
    }

    /// A sender that asks again for the instant that it was just given would stop the clock.
    fn later(&mut self, now: Time, place: usize, half: usize, net: &mut Net<'_>) {
        let halves = self.places[place].open.as_deref().map(|c| &c.halves);
        let due = halves.and_then(|halves| halves[half].as_ref()?.sender.next_wakeup());
        let number = timer(self.first_timer, self.loads.len(), place, half, SENDER);
        net.timers
            .set(number, due.map(|at| at.max(now + Span::ns(1))));
    }

    /// Tells a workload what happened, does what it wants, and so on until it wants nothing.
    fn tell(&mut self, now: Time, load: usize, event: Event, net: &mut Net<'_>) {
        let mut next = Some(event);
        while let Some(event) = next {
            let mut todo = std::mem::take(&mut self.todo);
            self.loads[load].app.on_event(now, event, &mut todo);
            for action in todo.drain(..) {
                if self.loads[load].running && !self.over {
                    self.carry_out(now, load, action, net);
                }
            }
            self.todo = todo;
            next = self.events.pop_front();
        }
        if self.loads[load].running && !self.over {
            let due = self.loads[load]
                .app
                .next_wakeup()
                .map(|at| at.max(now + Span::ns(1)));
            net.timers.set(self.first_timer + load as u32, due);
        }
    }

    fn carry_out(&mut self, now: Time, load: usize, action: Action, net: &mut Net<'_>) {
        match action {
            Action::Open { conn, by, answers } => self.open(now, load, conn, by, answers, net),
            Action::Write { conn, from, bytes } => {
                let place = self.loads[load]
                    .places
                    .get(conn as usize)
                    .copied()
                    .flatten();
                let Some(place) = place else { return };
                let by = self.places[place].open.as_deref().map(|c| c.by);
                let half = usize::from(by != Some(from));
                let more = Bytes::new(bytes);
                self.writes(now, place, half, net);
                self.with_sender(now, place, half, net, |sender, nic| {
                    sender.send_more(now, more, &mut nic.wire())
                });
            }
            Action::Close(conn) => self.hang_up(load, conn, net),
            Action::Send {
                from,
                number,
                bytes,
            } => {
                let of = &mut self.loads[load];
                let port = if from == Side::Server {
                    of.server
                } else {
                    other(of.server)
                };
                of.closed.datagrams += u64::from(bytes);
                net.observer.packets.pings += 1;
                let flow = DATAGRAM | load as u32;
                let packet =
                    Packet::datagram(flow, port == NEAR, number, now, bytes + DATAGRAM_HEADERS);
                let way = (port, of.label);
                let device = net.device.as_deref_mut();
                Nic::new(
                    now,
                    flow,
                    way,
                    net.offload,
                    device,
                    net.network,
                    net.observer,
                )
                .ping(packet.labelled(of.label, port));
            }
            _ => {}
        }
    }

    /// An application writes to a half: what its end owes the other half rides on the data, if that
    /// leaves at once.
    fn writes(&mut self, now: Time, place: usize, half: usize, net: &mut Net<'_>) {
        let Some(connection) = self.places[place].open.as_deref_mut() else {
            return;
        };
        let (first, answer) = connection.halves.split_at_mut(1);
        let (Some(this), Some(back)) = (match half {
            0 => (&mut first[0], &mut answer[0]),
            _ => (&mut answer[0], &mut first[0]),
        }) else {
            return;
        };
        let Some(byte) = this.sender.would_send() else {
            return;
        };
        if let Some(ack) = back.receiver.on_write(now) {
            this.riding.push_back((byte, ack));
        }
        let due = back.receiver.next_wakeup();
        net.timers.set(
            timer(
                self.first_timer,
                self.loads.len(),
                place,
                half ^ 1,
                RECEIVER,
            ),
            due,
        );
    }

    fn open(
        &mut self,
        now: Time,
        load: usize,
        name: Conn,
        by: Side,
        answers: bool,
        net: &mut Net<'_>,
    ) {
        let place = match self.free.pop_front() {
            Some(place) => place,
            None if self.places.len() < MOST_OPEN => {
                self.places.push(Place::default());
                let timers = self.loads.len() + self.places.len() * TIMERS_PER_PLACE as usize;
                net.timers.grow(self.first_timer as usize + timers);
                self.places.len() - 1
            }
            None => return self.events.push_back(Event::Refused(name)),
        };
        let of = &mut self.loads[load];
        let port = if by == Side::Server {
            of.server
        } else {
            other(of.server)
        };
        let mut half = |port: Port| {
            let config = if port == NEAR {
                &of.config
            } else {
                &of.far_config
            };
            let host = cc::Host {
                seed: of.seeds.next_u64(),
                ..of.host
            };
            Half {
                sender: Sender::new(config.clone(), (of.law)(&of.cc, &host), Some(Bytes::ZERO)),
                receiver: Receiver::new(config).reading(of.read_latency, of.readers.fork()),
                port,
                told: 0,
                riding: VecDeque::new(),
            }
        };
        let halves = [Some(half(port)), answers.then(|| half(other(port)))];
        if of.places.len() <= name as usize {
            of.places.resize(name as usize + 1, None);
        }
        of.places[name as usize] = Some(place);
        let owners = &mut net.observer.packets.owners.places;
        if owners.len() <= place {
            owners.resize(place + 1, (0, NEAR));
        }
        owners[place] = (of.flow, port);
        self.places[place].open = Some(Box::new(Connection {
            load,
            name,
            by,
            opened: false,
            halves,
        }));
        self.with_sender(now, place, 0, net, |sender, nic| {
            sender.connect(now, &mut nic.wire())
        });
    }

    /// Both ends of a connection forget it.
    fn hang_up(&mut self, load: usize, name: Conn, net: &mut Net<'_>) {
        let Some(place) = self.loads[load]
            .places
            .get_mut(name as usize)
            .and_then(Option::take)
        else {
            return;
        };
        if let Some(connection) = self.places[place].open.take() {
            for half in connection.halves.iter().flatten() {
                self.loads[load].closed.add(&half.sender.info());
            }
        }
        self.places[place].uses = self.places[place].uses.wrapping_add(1);
        for number in 0..TIMERS_PER_PLACE {
            let first = timer(self.first_timer, self.loads.len(), place, 0, SENDER);
            net.timers.set(first + number, None);
        }
        self.free.push_back(place);
    }
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// The number of a timer.
fn timer(first: u32, loads: usize, place: usize, half: usize, end: usize) -> u32 {
    first + loads as u32 + place as u32 * TIMERS_PER_PLACE + (half * 2 + end) as u32
}
