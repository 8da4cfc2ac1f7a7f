//! Flows with a workload ("applications"): their connections and datagrams, and the events that the
//! workload receives.
//!
//! A connection has one or two halves. Each is a [`Sender`] and the [`Receiver`] of its data. The
//! half of the opening side performs the handshake. If the other side sends data, too, its half
//! starts as established, with the RTT of this handshake. Data of one half may carry an ACK of the
//! other half. The packet is then the data packet, and the ACK is stored until this data arrives.
//!
//! The slots of closed connections are reused, in the order in which they were freed. Therefore the
//! memory depends on the number of simultaneous connections, which is limited ([`MOST_OPEN`]). The
//! flow number in a packet identifies a half. It consists of a mark, the number of uses of the
//! slot, the slot, and the half. A late packet of a closed connection therefore finds no receiver,
//! and a fair queue treats each connection as a new flow. The flow number of a datagram is the
//! number of its application, with another mark.

use crate::datapath::{Datapath, Nic};
use crate::error::SimError;
use crate::flow::with_tso;
use crate::owners::{CONNECTION, DATAGRAM, MOST_OPEN, Opened, Owners, half_number, slot_of};
use crate::packet::{Kind, Label, Packet, ecn_bits};
use crate::timers::Timers;
use narrows_core::cc::{self, CcKind, CongestionControl};
use narrows_core::metrics::{MOST_CONNECTIONS, WorkloadMetrics};
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::packet::Ip;
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::param::Params;
use narrows_core::rng::Rng;
use narrows_core::scenario::{Direction, Scenario};
use narrows_core::tcp::wire::{AckMarks, AckSegment};
use narrows_core::tcp::{Config, EcnUse, Info, Receiver, Sender};
use narrows_core::units::{Bytes, Span, Time};
use narrows_core::workload::{
    self, Action, Conn, Event, Setting, Side, Workload, datagram_headers,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of timers of a slot: those of sender and receiver of both halves.
const TIMERS_PER_SLOT: u32 = 4;

/// One direction of a connection: the sender and the receiver of its data.
struct Half {
    sender: Sender,
    receiver: Receiver,
    /// The port at which the data of this half enters the path.
    port: Port,
    /// Number of received bytes that were reported to the application.
    reported: u64,
    /// ACKs of the other half that data of this half carries, each with the sequence number of the
    /// first byte of that data.
    riding: VecDeque<(u64, AckSegment)>,
}

struct Connection {
    app: usize,
    name: Conn,
    by: Side,
    opened: bool,
    /// The half of the opening side, then that of the other side.
    halves: [Option<Half>; 2],
}

#[derive(Default)]
struct Slot {
    uses: u32,
    open: Option<Box<Connection>>,
}

/// A flow with a workload.
struct Application {
    /// The index of the flow in the scenario.
    flow: u32,
    workload: Box<dyn Workload>,
    config: Arc<Config>,
    /// The configuration of the far host.
    far_config: Arc<Config>,
    new_cc: &'static cc::MakeCc,
    cc: Params,
    host: cc::Host,
    /// Random numbers for the seeds of connections.
    seeds: Rng,
    /// Random numbers for read delays of receivers.
    readers: Rng,
    read_latency: Span,
    /// The port of the server, which sends the flow's data.
    server: Port,
    label: Label,
    running: bool,
    /// The slot of each open connection, by the name of the connection.
    slots: Vec<Option<usize>>,
    /// Sums over closed connections.
    closed: Totals,
    /// Number of bytes that have arrived at the client.
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

/// All applications of a run.
pub(crate) struct Applications {
    applications: Vec<Application>,
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    /// Number of the first timer of applications. The timers of applications precede those of the
    /// slots.
    first_timer: u32,
    /// Whether the run is over. Arrivals are then still reported, but actions of applications are
    /// ignored.
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

impl Applications {
    /// An empty list of applications, whose timers begin with number `first_timer`.
    pub fn new(first_timer: u32) -> Applications {
        Applications {
            applications: Vec::new(),
            slots: Vec::new(),
            free: VecDeque::new(),
            first_timer,
            over: false,
            todo: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Adds the application of flow `number` and returns its index; `None` if the flow has no
    /// workload.
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
        owners.applications.push(number);
        let unknown = || SimError::UnknownWorkload(choice.kind.clone());
        let factory = workload::find(&choice.kind).ok_or_else(unknown)?;
        // The server, which sends most of the data, is the sender of the flow.
        let [sender, receiver] = scenario.ends_of(flow);
        let (kernel, gso, mss) = (sender.kernel, sender.gso, sender.options(false).mss());
        let (config, far_config) = match flow.direction {
            Direction::Down => (sender, receiver),
            Direction::Up => (receiver, sender),
        };
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
            datagram: scenario.datagram_of(flow),
            ip: flow.ip,
        };
        self.applications.push(Application {
            flow: number,
            workload: (factory.make)(&choice.params, setting),
            new_cc: kind.make,
            cc: flow.cc.params.clone(),
            host: cc::Host {
                hz: scenario.sender_of(flow).hz,
                kernel,
                gso,
                mss,
                ip: flow.ip,
                seed: 0,
            },
            config: with_tso(config.under(kind.signals(), flow.ecn)).into(),
            far_config: with_tso(far_config.under(kind.signals(), flow.ecn)).into(),
            seeds,
            readers: Rng::named(scenario.seed, &format!("reader/{}", flow.id)),
            read_latency: scenario.receiver_of(flow).read_latency,
            server: match flow.direction {
                Direction::Down => NEAR,
                Direction::Up => FAR,
            },
            label: Label::new(flow.dscp, flow.host, scenario.path.nat, flow.ip),
            running: false,
            slots: Vec::new(),
            closed: Totals::default(),
            delivered: 0,
        });
        Ok(Some(self.applications.len() - 1))
    }

    /// Returns whether there are no applications.
    pub fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// Number of the first timer of applications; it follows all other timers.
    pub fn first_timer(&self) -> u32 {
        self.first_timer
    }

    /// Reserves the timers that applications have before any connection is open.
    pub fn reserve(&self, timers: &mut Timers) {
        timers.grow(self.first_timer as usize + self.applications.len());
    }

    /// Ends all applications at the end of the run. Datagrams in transit may still arrive.
    pub fn close(&mut self, datapath: &mut Datapath) {
        self.over = true;
        (0..self.applications.len()).for_each(|app| self.stop(app, datapath));
    }

    /// Starts the application `app`.
    pub fn start(&mut self, now: Time, app: usize, datapath: &mut Datapath) {
        self.applications[app].running = true;
        self.notify(now, app, Event::Started, datapath);
    }

    /// Stops the application `app`: its connections are closed, and it sends nothing more.
    pub fn stop(&mut self, app: usize, datapath: &mut Datapath) {
        self.applications[app].running = false;
        for name in 0..self.applications[app].slots.len() {
            self.close_connection(app, name as Conn, datapath);
        }
        datapath.timers.set(self.first_timer + app as u32, None);
    }

    /// The state of a flow as if it were one connection. Values are sums over its connections; the
    /// RTT is the mean smoothed RTT of the server's halves.
    pub fn info(&self, app: usize) -> Info {
        let of = &self.applications[app];
        let mut totals = of.closed;
        let mut info = Info {
            bytes_acked: of.delivered,
            ..Info::default()
        };
        let (mut srtt_us, mut measured) = (0, 0);
        for slot in of.slots.iter().flatten() {
            let halves = self.slots[*slot]
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

    /// The congestion controls of an application's established connections, with the names of the
    /// connections, at most [`MOST_CONNECTIONS`]. They are those of the server's senders.
    pub fn controls(&self, app: usize) -> impl Iterator<Item = (Conn, &dyn CongestionControl)> {
        let of = &self.applications[app];
        let connections = of.slots.iter().flatten();
        connections
            .filter_map(move |slot| {
                let connection = self.slots[*slot].open.as_ref()?;
                let mut halves = connection.halves.iter().flatten();
                let half = halves.find(|half| half.port == of.server)?;
                let sender = &half.sender;
                sender
                    .is_established()
                    .then(|| (connection.name, sender.cc()))
            })
            .take(MOST_CONNECTIONS)
    }

    /// The metrics of an application.
    pub fn metrics(&self, app: usize, end: Time) -> WorkloadMetrics {
        self.applications[app].workload.metrics(end)
    }

    /// Handles a packet of an application that has left the path.
    pub fn arrive(&mut self, now: Time, packet: &Packet, datapath: &mut Datapath) {
        if packet.flow() & CONNECTION == 0 {
            return self.datagram(now, packet, datapath);
        }
        let (slot, half) = (slot_of(packet.flow()), packet.flow() & 1);
        let live = self.slots.get(slot).is_some_and(|p| {
            p.open.is_some() && half_number(slot, p.uses, half as usize) == packet.flow()
        });
        if !live {
            return datapath.observer.packets.forget(packet);
        }
        match packet.kind() {
            Kind::Data => self.data(now, slot, half as usize, packet, datapath),
            _ => self.ack(now, slot, half as usize, packet, datapath),
        }
    }

    fn datagram(&mut self, now: Time, packet: &Packet, datapath: &mut Datapath) {
        datapath.observer.packets.pings -= 1;
        let app = (packet.flow() & !DATAGRAM) as usize;
        let of = &mut self.applications[app];
        let down = packet.kind() == Kind::Ping;
        let at = if down == (of.server == NEAR) {
            Side::Client
        } else {
            Side::Server
        };
        let bytes = packet.size().get() as u16 - datagram_headers(packet.ip());
        if at == Side::Client && !self.over {
            of.delivered += u64::from(bytes);
        }
        let event = Event::Datagram {
            at,
            number: packet.number(),
            sent: packet.sent_at(),
            bytes,
            ce: packet.ecn() == Ecn::Ce,
        };
        self.notify(now, app, event, datapath);
    }

    /// Handles data that arrives at the receiver of a half.
    fn data(
        &mut self,
        now: Time,
        slot: usize,
        half: usize,
        packet: &Packet,
        datapath: &mut Datapath,
    ) {
        let segment = datapath.observer.packets.headers.take(packet);
        while let Some(ack) = self.riding_on(slot, half, segment.seq) {
            self.with_sender(now, slot, half ^ 1, datapath, |sender, nic| {
                sender.on_segment(now, &ack, &mut nic.wire())
            });
        }
        let uses = self.slots[slot].uses;
        let Some(connection) = self.slots[slot].open.as_deref_mut() else {
            return;
        };
        let (app, name, by) = (connection.app, connection.name, connection.by);
        let of = &mut self.applications[app];
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let number = half_number(slot, uses, half);
        let (port, label) = (other(this.port), of.label);
        let mut nic = datapath.ack_nic(now, number, port, label);
        this.receiver.on_segment(now, &segment, &mut nic.wire());
        let due = this.receiver.next_wakeup();
        datapath.timers.set(
            timer(
                self.first_timer,
                self.applications.len(),
                slot,
                half,
                RECEIVER,
            ),
            due,
        );
        let total = this.receiver.delivered_bytes();
        let new = total - this.reported;
        this.reported = total;
        let syn_acks = this.receiver.established().filter(|_| half == 0);
        let (offered, agreed) = (this.receiver.offered(), this.receiver.agreed());
        if let (Some(syn_acks), [_, Some(answer)]) = (syn_acks, &mut connection.halves) {
            if !answer.sender.is_established() {
                let heard = AckSegment {
                    syn: true,
                    window: offered,
                    ece: agreed != EcnUse::Off,
                    marks: AckMarks::new(u8::from(agreed == EcnUse::Counted), Ecn::NotEct),
                    tsval: segment.tsval,
                    tsecr: segment.tsecr,
                    ..AckSegment::default()
                };
                let of = &self.applications[app];
                let number = half_number(slot, uses, 1);
                let way = (answer.port, of.label);
                let mut nic = datapath.nic(now, number, way);
                answer.sender.accept(now, syn_acks, &heard, &mut nic.wire());
                nic.flush();
                let due = answer.sender.next_wakeup();
                datapath.timers.set(
                    timer(self.first_timer, self.applications.len(), slot, 1, SENDER),
                    due,
                );
            }
        }
        if new > 0 {
            let from = if half == 0 { by } else { opposite(by) };
            let at = opposite(from);
            if at == Side::Client {
                self.applications[app].delivered += new;
            }
            let (conn, bytes) = (name, total);
            self.notify(now, app, Event::Arrived { conn, at, bytes }, datapath);
        }
    }

    /// Removes and returns the first ACK that data up to sequence number `byte` carries; that data
    /// has arrived.
    fn riding_on(&mut self, slot: usize, half: usize, byte: u64) -> Option<AckSegment> {
        let this = self.slots[slot].open.as_deref_mut()?.halves[half].as_mut()?;
        let arrived = this.riding.front().is_some_and(|(first, _)| *first <= byte);
        arrived
            .then(|| this.riding.pop_front())?
            .map(|(_, ack)| ack)
    }

    /// Handles an ACK that arrives at the sender of a half.
    fn ack(
        &mut self,
        now: Time,
        slot: usize,
        half: usize,
        packet: &Packet,
        datapath: &mut Datapath,
    ) {
        let ack = datapath.observer.packets.acks.take(packet);
        self.with_sender(now, slot, half, datapath, |sender, nic| {
            sender.on_segment(now, &ack, &mut nic.wire())
        });
        let Some(connection) = self.slots[slot].open.as_deref_mut() else {
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
        let (app, name) = (connection.app, connection.name);
        self.notify(now, app, Event::Opened(name), datapath);
    }

    /// Calls `act` with the sender of a half and its interface, and sets the sender's timer.
    fn with_sender(
        &mut self,
        now: Time,
        slot: usize,
        half: usize,
        datapath: &mut Datapath,
        act: impl FnOnce(&mut Sender, &mut Nic<'_>),
    ) {
        let uses = self.slots[slot].uses;
        let Some(connection) = self.slots[slot].open.as_deref_mut() else {
            return;
        };
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let way = (this.port, self.applications[connection.app].label);
        let number = half_number(slot, uses, half);
        let mut nic = datapath.nic(now, number, way);
        act(&mut this.sender, &mut nic);
        nic.flush();
        let due = this.sender.next_wakeup();
        datapath.timers.set(
            timer(
                self.first_timer,
                self.applications.len(),
                slot,
                half,
                SENDER,
            ),
            due,
        );
    }

    /// Notifies the sender of the half with this number that a super-packet has left the interface.
    pub fn depart(&mut self, now: Time, number: u32, datapath: &mut Datapath) {
        let (slot, half) = (slot_of(number), (number & 1) as usize);
        let live = |p: &Slot| p.open.is_some() && half_number(slot, p.uses, half) == number;
        if number & CONNECTION != 0 && self.slots.get(slot).is_some_and(live) {
            self.with_sender(now, slot, half, datapath, |sender, nic| {
                sender.on_departed(now, &mut nic.wire())
            });
        }
    }

    /// Handles timer `number`, which fires.
    pub fn fire(&mut self, now: Time, number: u32, datapath: &mut Datapath) {
        let number = (number - self.first_timer) as usize;
        let Some(number) = number.checked_sub(self.applications.len()) else {
            return self.notify(now, number, Event::Woke, datapath);
        };
        let (slot, half, end) = (number / 4, number / 2 % 2, number % 2);
        if end == SENDER {
            self.with_sender(now, slot, half, datapath, |sender, nic| {
                sender.on_timer(now, &mut nic.wire())
            });
            return self.later(now, slot, half, datapath);
        }
        let uses = self.slots[slot].uses;
        let Some(connection) = self.slots[slot].open.as_deref_mut() else {
            return;
        };
        let Some(this) = connection.halves[half].as_mut() else {
            return;
        };
        let (port, label) = (other(this.port), self.applications[connection.app].label);
        let number = half_number(slot, uses, half);
        let mut nic = datapath.ack_nic(now, number, port, label);
        this.receiver.on_timer(now, &mut nic.wire());
        let due = this
            .receiver
            .next_wakeup()
            .map(|at| at.max(now + Span::ns(1)));
        datapath.timers.set(
            timer(
                self.first_timer,
                self.applications.len(),
                slot,
                half,
                RECEIVER,
            ),
            due,
        );
    }

    /// Sets the timer of a sender to a time after `now`, since a timer at `now` itself could fire
    /// forever.
    fn later(&mut self, now: Time, slot: usize, half: usize, datapath: &mut Datapath) {
        let halves = self.slots[slot].open.as_deref().map(|c| &c.halves);
        let due = halves.and_then(|halves| halves[half].as_ref()?.sender.next_wakeup());
        let number = timer(
            self.first_timer,
            self.applications.len(),
            slot,
            half,
            SENDER,
        );
        datapath
            .timers
            .set(number, due.map(|at| at.max(now + Span::ns(1))));
    }

    /// Passes an event to an application and executes the actions that it requests, until it
    /// requests none.
    fn notify(&mut self, now: Time, app: usize, event: Event, datapath: &mut Datapath) {
        let mut next = Some(event);
        while let Some(event) = next {
            let mut todo = std::mem::take(&mut self.todo);
            self.applications[app]
                .workload
                .on_event(now, event, &mut todo);
            for action in todo.drain(..) {
                if self.applications[app].running && !self.over {
                    self.execute(now, app, action, datapath);
                }
            }
            self.todo = todo;
            next = self.events.pop_front();
        }
        if self.applications[app].running && !self.over {
            let due = self.applications[app]
                .workload
                .next_wakeup()
                .map(|at| at.max(now + Span::ns(1)));
            datapath.timers.set(self.first_timer + app as u32, due);
        }
    }

    fn execute(&mut self, now: Time, app: usize, action: Action, datapath: &mut Datapath) {
        match action {
            Action::Open { conn, by, answers } => self.open(now, app, conn, by, answers, datapath),
            Action::Write { conn, from, bytes } => {
                let slot = self.applications[app]
                    .slots
                    .get(conn as usize)
                    .copied()
                    .flatten();
                let Some(slot) = slot else { return };
                let by = self.slots[slot].open.as_deref().map(|c| c.by);
                let half = usize::from(by != Some(from));
                let more = Bytes::new(bytes);
                self.writes(now, slot, half, datapath);
                self.with_sender(now, slot, half, datapath, |sender, nic| {
                    sender.send_more(now, more, &mut nic.wire())
                });
            }
            Action::Close(conn) => self.close_connection(app, conn, datapath),
            Action::Send {
                from,
                number,
                bytes,
                ecn,
            } => {
                let of = &mut self.applications[app];
                let port = if from == Side::Server {
                    of.server
                } else {
                    other(of.server)
                };
                of.closed.datagrams += u64::from(bytes);
                datapath.observer.packets.pings += 1;
                let flow = DATAGRAM | app as u32;
                let frame = bytes + datagram_headers(Ip::V4);
                let packet = Packet::datagram(flow, port == NEAR, number, now, frame);
                let way = (port, of.label);
                datapath
                    .nic(now, flow, way)
                    .send_datagram(packet.with_ecn(ecn_bits(ecn)).labelled(of.label, port));
            }
            _ => {}
        }
    }

    /// Called when an application writes to a half. If data can leave at once, it carries the
    /// pending ACK of the other half.
    fn writes(&mut self, now: Time, slot: usize, half: usize, datapath: &mut Datapath) {
        let Some(connection) = self.slots[slot].open.as_deref_mut() else {
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
        datapath.timers.set(
            timer(
                self.first_timer,
                self.applications.len(),
                slot,
                half ^ 1,
                RECEIVER,
            ),
            due,
        );
    }

    fn open(
        &mut self,
        now: Time,
        app: usize,
        name: Conn,
        by: Side,
        answers: bool,
        datapath: &mut Datapath,
    ) {
        let slot = match self.free.pop_front() {
            Some(slot) => slot,
            None if self.slots.len() < MOST_OPEN => {
                self.slots.push(Slot::default());
                let timers = self.applications.len() + self.slots.len() * TIMERS_PER_SLOT as usize;
                datapath.timers.grow(self.first_timer as usize + timers);
                self.slots.len() - 1
            }
            None => return self.events.push_back(Event::Refused(name)),
        };
        let of = &mut self.applications[app];
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
                sender: Sender::new(
                    config.clone(),
                    (of.new_cc)(&of.cc, &host),
                    Some(Bytes::ZERO),
                ),
                receiver: Receiver::new(config).reading(of.read_latency, of.readers.fork()),
                port,
                reported: 0,
                riding: VecDeque::new(),
            }
        };
        let halves = [Some(half(port)), answers.then(|| half(other(port)))];
        if of.slots.len() <= name as usize {
            of.slots.resize(name as usize + 1, None);
        }
        of.slots[name as usize] = Some(slot);
        let owners = &mut datapath.observer.packets.owners.slots;
        if owners.len() <= slot {
            owners.resize(slot + 1, Opened::default());
        }
        owners[slot] = Opened {
            flow: of.flow,
            port,
            number: half_number(slot, self.slots[slot].uses, 0),
        };
        self.slots[slot].open = Some(Box::new(Connection {
            app,
            name,
            by,
            opened: false,
            halves,
        }));
        self.with_sender(now, slot, 0, datapath, |sender, nic| {
            sender.connect(now, &mut nic.wire())
        });
    }

    /// Closes a connection by removing both of its endpoints, without packets.
    fn close_connection(&mut self, app: usize, name: Conn, datapath: &mut Datapath) {
        let Some(slot) = self.applications[app]
            .slots
            .get_mut(name as usize)
            .and_then(Option::take)
        else {
            return;
        };
        if let Some(connection) = self.slots[slot].open.take() {
            for half in connection.halves.iter().flatten() {
                self.applications[app].closed.add(&half.sender.info());
            }
        }
        self.slots[slot].uses = self.slots[slot].uses.wrapping_add(1);
        for number in 0..TIMERS_PER_SLOT {
            let first = timer(self.first_timer, self.applications.len(), slot, 0, SENDER);
            datapath.timers.set(first + number, None);
        }
        self.free.push_back(slot);
    }
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// The number of the timer of an endpoint.
fn timer(first: u32, applications: usize, slot: usize, half: usize, end: usize) -> u32 {
    first + applications as u32 + slot as u32 * TIMERS_PER_SLOT + (half * 2 + end) as u32
}
