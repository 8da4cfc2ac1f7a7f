//! Runs flows with a workload over real sockets: the driver of the workloads of the core.
//!
//! A workload is a state machine that plays both ends of a flow. One thread owns the sockets of
//! both hosts, executes the actions of the workloads and reports events to them. A socket belongs
//! to the network namespace that the thread is in when it creates the socket.
//!
//! ```text
//!   Open     the opening side connects to the listening socket of the other side
//!   Write    bytes are written, or wait until the socket is writable
//!   Close    both ends are closed with a reset
//!   Send     a datagram; its first bytes are its number, its time of transmission is stored here
//! ```
//!
//! Both ends of a connection are matched by the source port of its SYN. Each flow has one listening
//! socket and, for datagrams, one socket at each host.
//!
//! Deviations from the simulator: both ends of a connection use the congestion control of the flow.
//! A connection that fails, for example by a timeout, ends the run with an error.

use crate::emulator::application_socket::{
    Kind, asked, broken, datagram_class, datagrams, listening, of_token, prepared, token,
};
use crate::emulator::hosts::SocketOptions;
use crate::emulator::sample_times::{Due, SampleTimes};
use crate::emulator::traffic::Watching;
use crate::error::HostError;
use crate::netns::Space;
use crate::sys::clock::Clock;
use crate::sys::{self, Epoll};
use narrows_core::metrics::{FlowMeter, FlowSample, FlowSamples, WorkloadMetrics};
use narrows_core::packet::Ecn;
use narrows_core::scenario::FlowSpec;
use narrows_core::tcp::Info;
use narrows_core::units::{Span, Time};
use narrows_core::workload::{Action, Conn, Event, LARGEST_DATAGRAM, Setting, Side, Workload};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The ECN bits of a traffic class that mean congestion experienced.
const CE: u8 = 3;
/// Largest read or write, bytes.
const CHUNK: usize = 256 << 10;
/// Longest sleep. A request to stop is noticed within this time.
const LONGEST: Span = Span::ms(50);
/// Time for which datagrams in transit are awaited after the end.
const GRACE: Span = Span::s(2);
/// Real-time priority of the thread, the same as for flows without a workload.
const PRIORITY: i32 = 5;
/// Largest number of open connections of all flows together; further ones are refused.
const MOST_OPEN: usize = 4096;
/// Number of datagrams of each side of a flow whose time of transmission is stored.
const MOST_UNDER_WAY: usize = 1 << 16;

/// The parameters of a flow with a workload.
pub struct Spec {
    /// The index of the flow in the scenario.
    pub number: u32,
    /// The name of the flow in the scenario.
    pub id: String,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// Whether the workload uses only datagrams.
    pub udp: bool,
    /// The congestion control of its connections.
    pub cc: String,
    /// The hosts of server and client, as indices in the list of namespaces.
    pub hosts: [usize; 2],
    /// The source addresses of connections that server and client open; the port is 0 (any).
    pub from: [SocketAddr; 2],
    /// The addresses at which server and client listen.
    pub at: [SocketAddr; 2],
    /// The addresses of the datagram sockets at server and client. Most workloads use datagrams
    /// only for DNS lookups.
    pub datagrams: [SocketAddr; 2],
    /// The DSCP of the flow's packets.
    pub dscp: u8,
    /// The start of the flow.
    pub start: Time,
    /// The end of the flow.
    pub end: Time,
    /// The options of sockets at server and client.
    pub options: [SocketOptions; 2],
}

impl Spec {
    /// The environment of a workload: its seed, and the period that its metrics cover.
    pub fn setting(seed: u64, warmup: Span, flow: &FlowSpec, end: Time, datagram: u16) -> Setting {
        Setting {
            seed,
            from: Time::ZERO + warmup.max(flow.start),
            end,
            datagram,
            ip: flow.ip,
        }
    }
}

/// Observations of all applications.
pub struct Told {
    /// The flows: index, meter of the metrics, metrics of the workload.
    pub flows: Vec<(u32, FlowMeter, WorkloadMetrics)>,
    /// Samples of the flows.
    pub samples: FlowSamples,
}

/// The state of one end of a connection.
#[derive(Default)]
struct End {
    socket: Option<OwnedFd>,
    /// Bytes that the application has written and the kernel has not accepted.
    waiting: u64,
    /// Number of bytes that were read.
    read: u64,
    /// Whether epoll watches the socket for writability.
    full: bool,
}

struct Connection {
    by: Side,
    opened: bool,
    /// The ends at server and client.
    ends: [End; 2],
}

/// Sums over closed connections and sent datagrams.
#[derive(Copy, Clone, Default)]
struct Totals {
    sent: u64,
    again: u64,
    retransmits: u64,
}

impl Totals {
    fn add(&mut self, info: &Info) {
        self.sent += info.bytes_sent;
        self.again += info.bytes_retrans;
        self.retransmits += info.retransmits;
    }
}

struct Application {
    spec: Spec,
    meter: FlowMeter,
    running: bool,
    /// Start of the flow's part of the summary interval.
    measure_from: Time,
    measured: bool,
    over: bool,
    listeners: [Option<OwnedFd>; 2],
    datagrams: [Option<UdpSocket>; 2],
    /// Times of transmission of the datagrams of each side; the index is the number of the datagram
    /// modulo the length.
    times: [Vec<Time>; 2],
    /// The ECN bits of the datagram socket of each side.
    ecn: [Ecn; 2],
    /// The number of the last datagram that each side has sent.
    last: [u64; 2],
    connections: HashMap<Conn, Connection>,
    /// Connections that the other side has not accepted yet, by the source port of the side that
    /// opens.
    unmatched: HashMap<u16, Conn>,
    closed: Totals,
    /// Number of bytes that have arrived at the client.
    delivered: u64,
}

/// The applications of a run, ready to start.
pub struct Applications<'s> {
    epoll: Epoll,
    spaces: &'s [Space],
    /// The index of the namespace that this thread is in.
    here: usize,
    all: Vec<Application>,
    watching: Watching,
    samples: FlowSamples,
    open: usize,
    chunk: Vec<u8>,
}

fn place(side: Side) -> usize {
    match side {
        Side::Server => 0,
        Side::Client => 1,
    }
}

const SIDES: [Side; 2] = [Side::Server, Side::Client];

impl<'s> Applications<'s> {
    /// Opens the sockets of these flows at the hosts of `spaces`. This thread enters the
    /// namespaces.
    pub fn new(
        specs: Vec<Spec>,
        spaces: &'s [Space],
        watching: Watching,
    ) -> Result<Applications<'s>, HostError> {
        sys::socket::allow_descriptors();
        let mut all = Applications {
            epoll: Epoll::new().map_err(HostError::failed("epoll"))?,
            spaces,
            here: usize::MAX,
            all: Vec::new(),
            watching,
            samples: FlowSamples::default(),
            open: 0,
            chunk: vec![0; CHUNK],
        };
        for spec in specs {
            all.add(spec)?;
        }
        Ok(all)
    }

    fn add(&mut self, spec: Spec) -> Result<(), HostError> {
        let number = self.all.len();
        let mut app = Application {
            meter: FlowMeter::new(),
            measure_from: self.watching.warmup.max(spec.start),
            running: false,
            measured: false,
            over: false,
            listeners: [None, None],
            datagrams: [None, None],
            times: [Vec::new(), Vec::new()],
            ecn: [Ecn::NotEct; 2],
            last: [0, 0],
            connections: HashMap::new(),
            unmatched: HashMap::new(),
            closed: Totals::default(),
            delivered: 0,
            spec,
        };
        for side in 0..2 {
            self.enter(app.spec.hosts[side])?;
            let own = app.spec.datagrams;
            let socket = datagrams(own[side], own[1 - side], app.spec.dscp)
                .map_err(HostError::failed("a datagram socket"))?;
            let fd = OwnedFd::from(socket);
            self.watch(&fd, sys::READABLE, token(number, Kind::Datagrams, side))?;
            app.datagrams[side] = Some(fd.into());
            if !app.spec.udp {
                let listener =
                    listening(&app.spec, side).map_err(HostError::failed("a listening socket"))?;
                self.watch(
                    &listener,
                    sys::READABLE,
                    token(number, Kind::Listener, side),
                )?;
                app.listeners[side] = Some(listener);
            }
        }
        self.all.push(app);
        Ok(())
    }

    fn enter(&mut self, host: usize) -> Result<(), HostError> {
        if self.here != host {
            self.spaces[host].enter()?;
            self.here = host;
        }
        Ok(())
    }

    fn watch(&self, fd: &OwnedFd, events: u32, token: u64) -> Result<(), HostError> {
        self.epoll
            .add(fd, events, token)
            .map_err(HostError::failed("epoll"))
    }

    /// Runs the flows until the end of the run, and then awaits the last datagrams.
    pub fn run(mut self, clock: Clock, stop: &AtomicBool) -> Result<Told, HostError> {
        sys::prefer(-10);
        sys::real_time(PRIORITY);
        clock.sleep_until(Time::ZERO);
        let end = self.watching.end;
        let mut times = SampleTimes::new(end, self.watching.interval);
        let last = if self.all.iter().any(|app| app.spec.udp) {
            end + GRACE
        } else {
            end
        };
        loop {
            let now = clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(HostError::Stopped);
            }
            if now < end {
                for app in 0..self.all.len() {
                    self.on_time(now, app, &clock)?;
                }
            }
            if let Some(due) = times.take(now) {
                self.sample(now.min(end), due);
            }
            if now >= end {
                self.close(end);
            }
            if now >= last {
                break;
            }
            let due = self.all.iter().map(Application::due).min();
            let until = due
                .unwrap_or(Time::MAX)
                .min(times.next())
                .min(if now < end { end } else { last })
                .min(now + LONGEST);
            let now = if self.watching.timeless {
                now
            } else {
                clock.now()
            };
            let events = self.epoll.wait(until.since(now).as_ns());
            for (events, token) in events.map_err(HostError::failed("epoll"))? {
                match self.happened(events, token, &clock) {
                    // After the end, the other host may already have closed its connections.
                    Err(HostError::Broken(_)) if clock.now() >= end => {}
                    told => told?,
                }
            }
        }
        let flows = self.all.into_iter().map(|app| {
            let metrics = app.spec.workload.metrics(app.spec.end);
            (app.spec.number, app.meter, metrics)
        });
        Ok(Told {
            flows: flows.collect(),
            samples: self.samples,
        })
    }

    /// Performs the actions of a flow that are due: start, begin of the measurement, end, and
    /// wake-up of the workload.
    fn on_time(&mut self, now: Time, number: usize, clock: &Clock) -> Result<(), HostError> {
        let app = &mut self.all[number];
        if !app.over && !app.running && app.spec.start <= now {
            if app.spec.start >= app.spec.end {
                app.over = true;
            } else {
                app.running = true;
                app.meter.started(now);
                self.notify(now, number, Event::Started, clock)?;
            }
        }
        let app = &self.all[number];
        if app.running && !app.measured && app.measure_from <= now {
            let info = app.info();
            let app = &mut self.all[number];
            app.meter.measure(now, &info);
            app.measured = true;
        }
        if self.all[number].running && self.all[number].spec.end <= now {
            let info = self.all[number].info();
            self.all[number].meter.stopped(now, &info);
            self.stop(number);
        }
        let app = &self.all[number];
        if app.running && app.spec.workload.next_wakeup().is_some_and(|at| at <= now) {
            self.notify(now, number, Event::Woke, clock)?;
        }
        Ok(())
    }

    /// Closes the connections of a flow; datagrams in transit may still arrive.
    fn stop(&mut self, number: usize) {
        let app = &mut self.all[number];
        (app.running, app.over) = (false, true);
        self.open -= app.connections.len();
        app.connections.clear();
        app.listeners = [None, None];
    }

    /// Ends the measurement of all flows at the end of the run.
    fn close(&mut self, end: Time) {
        for number in 0..self.all.len() {
            let app = &mut self.all[number];
            if app.running {
                let info = app.info();
                app.meter.ended(end, &info);
                self.stop(number);
            }
        }
    }

    fn sample(&mut self, now: Time, due: Due) {
        for app in self.all.iter_mut().filter(|app| app.running) {
            let info = app.info();
            if due.metrics {
                app.meter.sample(now, &info);
            }
            if due.point {
                app.meter.point(now, &info);
            }
            if due.rows {
                self.samples.push(FlowSample {
                    ack_rtt_ms: f64::NAN,
                    ..FlowSample::of(now, app.spec.number, &info)
                });
            }
        }
    }

    /// Reports an event to a workload, and executes the actions that follow.
    fn notify(
        &mut self,
        now: Time,
        number: usize,
        event: Event,
        clock: &Clock,
    ) -> Result<(), HostError> {
        let mut events = VecDeque::from([event]);
        let mut todo = Vec::new();
        while let Some(event) = events.pop_front() {
            self.all[number]
                .spec
                .workload
                .on_event(now, event, &mut todo);
            for action in todo.drain(..) {
                if self.all[number].over {
                    continue;
                }
                match action {
                    Action::Open { conn, by, .. } => {
                        let opened = self.connect(number, conn, by)?;
                        if !opened {
                            events.push_back(Event::Refused(conn));
                        }
                    }
                    Action::Write { conn, from, bytes } => {
                        let app = &mut self.all[number];
                        if let Some(connection) = app.connections.get_mut(&conn) {
                            connection.ends[place(from)].waiting += bytes;
                            self.fill(number, conn, place(from))?;
                        }
                    }
                    Action::Close(conn) => self.drop(number, conn),
                    Action::Send {
                        from,
                        number: at,
                        bytes,
                        ecn,
                    } => {
                        self.all[number].send(clock.now(), place(from), at, bytes, ecn);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Opens a connection; `false` if there are too many.
    fn connect(&mut self, number: usize, conn: Conn, by: Side) -> Result<bool, HostError> {
        if self.open >= MOST_OPEN {
            return Ok(false);
        }
        let side = place(by);
        let host = self.all[number].spec.hosts[side];
        self.enter(host)?;
        let spec = &self.all[number].spec;
        let doing = HostError::failed("the socket of a connection");
        let made = || {
            let socket = sys::tcp(SocketAddr::new(spec.from[side].ip(), 0))?;
            prepared(&socket, spec, side)?;
            sys::connect(&socket, spec.at[1 - side])?;
            let port = sys::socket::local(&socket)?.port();
            Ok((socket, port))
        };
        let (socket, port) = made().map_err(doing)?;
        let at = token(number, Kind::Connection(conn), side);
        self.watch(&socket, sys::READABLE | sys::WRITABLE, at)?;
        let mut connection = Connection {
            by,
            opened: false,
            ends: [End::default(), End::default()],
        };
        connection.ends[side] = End {
            socket: Some(socket),
            full: true,
            ..End::default()
        };
        let app = &mut self.all[number];
        app.connections.insert(conn, connection);
        app.unmatched.insert(port, conn);
        self.open += 1;
        Ok(true)
    }

    fn drop(&mut self, number: usize, conn: Conn) {
        let app = &mut self.all[number];
        let Some(connection) = app.connections.remove(&conn) else {
            return;
        };
        self.open -= 1;
        for socket in connection.ends.iter().filter_map(|end| end.socket.as_ref()) {
            app.closed.add(&asked(socket));
        }
        app.unmatched.retain(|_, other| *other != conn);
    }

    /// Writes the waiting bytes of one end of a connection, and watches the socket for writability
    /// while some remain.
    fn fill(&mut self, number: usize, conn: Conn, side: usize) -> Result<(), HostError> {
        let app = &mut self.all[number];
        let Some(connection) = app.connections.get_mut(&conn) else {
            return Ok(());
        };
        let ready = connection.opened || place(connection.by) != side;
        let end = &mut connection.ends[side];
        let Some(socket) = end.socket.as_ref().filter(|_| ready) else {
            return Ok(());
        };
        let mut room = true;
        while end.waiting > 0 && room {
            let some = usize::try_from(end.waiting)
                .unwrap_or(usize::MAX)
                .min(CHUNK);
            match sys::send_some(socket, &self.chunk[..some]) {
                Ok(Some(n)) => end.waiting -= n as u64,
                Ok(None) => room = false,
                Err(error) => return Err(broken(&app.spec.id, &error)),
            }
        }
        let full = end.waiting > 0;
        if full != end.full {
            let events = if full {
                sys::READABLE | sys::WRITABLE
            } else {
                sys::READABLE
            };
            self.epoll
                .change(socket, events, token(number, Kind::Connection(conn), side))
                .map_err(HostError::failed("epoll"))?;
            end.full = full;
        }
        Ok(())
    }

    fn happened(&mut self, events: u32, at: u64, clock: &Clock) -> Result<(), HostError> {
        let (number, kind, side) = of_token(at);
        match kind {
            Kind::Listener => self.accept(number, side),
            Kind::Datagrams => self.receive(number, side, clock),
            Kind::Connection(conn) => self.ready(events, number, conn, side, clock),
        }
    }

    fn accept(&mut self, number: usize, side: usize) -> Result<(), HostError> {
        loop {
            let app = &mut self.all[number];
            let Some(listener) = &app.listeners[side] else {
                return Ok(());
            };
            let Some((socket, from)) =
                sys::socket::accept(listener).map_err(HostError::failed("accept"))?
            else {
                return Ok(());
            };
            // The connection was closed before it was accepted.
            let Some(conn) = app.unmatched.remove(&from.port()) else {
                continue;
            };
            prepared(&socket, &app.spec, side).map_err(HostError::failed("an accepted socket"))?;
            let at = token(number, Kind::Connection(conn), side);
            self.epoll
                .add(&socket, sys::READABLE, at)
                .map_err(HostError::failed("epoll"))?;
            if let Some(connection) = app.connections.get_mut(&conn) {
                connection.ends[side].socket = Some(socket);
            }
            self.fill(number, conn, side)?;
        }
    }

    fn receive(&mut self, number: usize, side: usize, clock: &Clock) -> Result<(), HostError> {
        let mut content = [0; LARGEST_DATAGRAM as usize];
        while let Some((length, class)) = self.all[number].datagrams[side]
            .as_ref()
            .and_then(|socket| sys::receive_classed(socket, &mut content).ok()?)
        {
            let app = &mut self.all[number];
            let (of, sent) = app.sent_at(1 - side, &content[..length]);
            if side == 1 && !app.over {
                app.delivered += length as u64;
            }
            let event = Event::Datagram {
                at: SIDES[side],
                number: of,
                sent,
                bytes: length as u16,
                ce: class & CE == CE,
            };
            self.notify(clock.now(), number, event, clock)?;
        }
        Ok(())
    }

    /// Handles a connection that is readable, writable or broken.
    fn ready(
        &mut self,
        events: u32,
        number: usize,
        conn: Conn,
        side: usize,
        clock: &Clock,
    ) -> Result<(), HostError> {
        let app = &mut self.all[number];
        let Some(connection) = app.connections.get_mut(&conn) else {
            return Ok(());
        };
        let Some(socket) = &connection.ends[side].socket else {
            return Ok(());
        };
        if events & sys::BROKEN != 0 {
            return Err(broken(&app.spec.id, &sys::error_of(socket)));
        }
        if !connection.opened && place(connection.by) == side && events & sys::WRITABLE != 0 {
            connection.opened = true;
            self.fill(number, conn, side)?;
            self.notify(clock.now(), number, Event::Opened(conn), clock)?;
        } else if events & sys::WRITABLE != 0 {
            self.fill(number, conn, side)?;
        }
        if events & sys::READABLE == 0 {
            return Ok(());
        }
        let app = &mut self.all[number];
        let Some(end) = app.connections.get_mut(&conn).map(|c| &mut c.ends[side]) else {
            return Ok(());
        };
        let Some(socket) = &end.socket else {
            return Ok(());
        };
        let before = end.read;
        while let Ok(Some(n)) = sys::discard(socket, CHUNK) {
            if n == 0 {
                break;
            }
            end.read += n as u64;
        }
        let (bytes, new) = (end.read, end.read - before);
        if new == 0 {
            return Ok(());
        }
        if side == 1 {
            app.delivered += new;
        }
        let at = SIDES[side];
        self.notify(
            clock.now(),
            number,
            Event::Arrived { conn, at, bytes },
            clock,
        )
    }
}

impl Application {
    /// The time of the next action of the flow.
    fn due(&self) -> Time {
        if self.over {
            return Time::MAX;
        }
        if !self.running {
            return self.spec.start;
        }
        let measure = if self.measured {
            Time::MAX
        } else {
            self.measure_from
        };
        let woken = self.spec.workload.next_wakeup().unwrap_or(Time::MAX);
        woken.min(self.spec.end).min(measure)
    }

    /// The state of the flow as if it were one connection. Values are sums over its connections;
    /// the RTT is the mean smoothed RTT at the server's ends.
    fn info(&self) -> Info {
        let mut totals = self.closed;
        let mut found = Info {
            bytes_acked: self.delivered,
            ..Info::default()
        };
        let (mut srtt_us, mut measured) = (0, 0);
        for connection in self.connections.values() {
            for (side, end) in connection.ends.iter().enumerate() {
                let Some(socket) = &end.socket else { continue };
                let each = asked(socket);
                totals.add(&each);
                if side == 0 {
                    found.cwnd += each.cwnd;
                    found.in_flight += each.in_flight;
                    srtt_us += each.srtt.as_us();
                    measured += u64::from(each.srtt > Span::ZERO);
                }
            }
        }
        found.srtt = Span::us(srtt_us / measured.max(1));
        found.bytes_sent = totals.sent;
        found.bytes_retrans = totals.again;
        found.retransmits = totals.retransmits;
        found
    }

    /// Sends a datagram. It is lost if a buffer of the kernel is full.
    fn send(&mut self, now: Time, side: usize, number: u64, bytes: u16, ecn: Ecn) {
        let mut content = [0; LARGEST_DATAGRAM as usize];
        content[..8].copy_from_slice(&number.to_le_bytes());
        let times = &mut self.times[side];
        // The table is allocated at the first datagram, because many workloads send none.
        if times.is_empty() {
            times.resize(MOST_UNDER_WAY, Time::ZERO);
        }
        times[number as usize % MOST_UNDER_WAY] = now;
        self.last[side] = number;
        self.closed.sent += u64::from(bytes);
        if let Some(socket) = &self.datagrams[side] {
            if self.ecn[side] != ecn {
                self.ecn[side] = ecn;
                datagram_class(socket, self.spec.dscp, ecn);
            }
            let _ = socket.send(&content[..usize::from(bytes)]);
        }
    }

    /// Number and time of transmission of a datagram that `side` has sent. A datagram shorter than
    /// 8 bytes has only the low bytes of its number.
    fn sent_at(&self, side: usize, content: &[u8]) -> (u64, Time) {
        let known = content.len().min(8);
        let mut bytes = [0; 8];
        bytes[..known].copy_from_slice(&content[..known]);
        let mut number = u64::from_le_bytes(bytes);
        if known < 8 {
            let span = 1_u64 << (8 * known);
            let last = self.last[side];
            number |= last & !(span - 1);
            if number > last {
                number = number.saturating_sub(span);
            }
        }
        let sent = self.times[side].get(number as usize % MOST_UNDER_WAY);
        (number, sent.copied().unwrap_or(Time::ZERO))
    }
}
