//! Flows without a workload. One thread, which has entered the namespace of a host, has the kernel
//! sockets of all senders and receivers of this host.
//!
//! A sending application writes as much as the kernel accepts. It writes again whenever less than
//! `notsent_lowat` is unsent. A receiving application reads at once. Congestion control and DSCP
//! are socket options. A flow with ECN connects to the second address of its receiver, because the
//! route to this address enables ECN.

use crate::emulator::cc_state;
use crate::emulator::hosts::SocketOptions;
use crate::emulator::sample_times::{Due, SampleTimes};
use crate::error::HostError;
use crate::netns;
use crate::sys::clock::Clock;
use crate::sys::{self, Epoll, TcpInfo};
use narrows_core::metrics::{FlowMeter, FlowSample, FlowSamples, StateSamples};
use narrows_core::tcp::{Info, Limited, State};
use narrows_core::units::{Rate, Span, Time};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest read or write, bytes.
const CHUNK: usize = 256 << 10;
/// Interval at which it is checked whether a completely written transfer is acknowledged.
const ASK: Span = Span::ms(1);
/// Longest sleep. A request to stop is noticed within this time.
const LONGEST: Span = Span::ms(50);
/// Largest number of reads from one connection per event.
const TURN: usize = 16;
/// Number of written bytes after which a flow's writes are counted: the buffers have grown to the
/// required size by then.
const GROWN: u64 = 1 << 20;
/// Real-time priority, below that of the threads that forward packets and answer pings.
const PRIORITY: i32 = 5;
/// The kernel reports this slow-start threshold, or a larger one, while a flow has none.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// A flow that this host sends.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The index of the flow in the scenario.
    pub number: u32,
    /// The name of the flow in the scenario.
    pub id: String,
    /// The congestion control of the flow.
    pub cc: String,
    /// The source address and port of the flow.
    pub from: SocketAddr,
    /// The address and port of the receiver of the flow.
    pub to: SocketAddr,
    /// The DSCP of the flow.
    pub dscp: u8,
    /// The start of the flow.
    pub start: Time,
    /// The time at which the flow stops, or pauses if it has a `restart`.
    pub stop: Option<Time>,
    /// The time at which a paused flow continues.
    pub restart: Option<Time>,
    /// Size of the transfer, bytes; `None`: unlimited.
    pub size: Option<u64>,
    /// The options of the socket.
    pub options: SocketOptions,
}

/// A flow that this host receives.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The address at which the flow arrives.
    pub at: SocketAddr,
    /// DSCP of the ACKs.
    pub dscp: u8,
    /// The congestion control of the listening socket; `None`: the default of the host.
    pub cc: Option<String>,
    /// The options of the listening socket.
    pub options: SocketOptions,
}

/// Parameters of all flows of a run.
#[derive(Copy, Clone, Debug)]
pub struct Watching {
    /// End of the warm-up, which the metrics exclude.
    pub warmup: Time,
    /// End of the run.
    pub end: Time,
    /// Interval of the rows of samples, if they are recorded.
    pub interval: Option<Span>,
    /// Whether samples include the state of congestion controls.
    pub states: bool,
    /// Whether processing takes no time, so that the clock is read once in a turn.
    pub timeless: bool,
}

/// Observations of one host.
pub struct Told {
    /// Index and meter of each flow that the host sends.
    pub meters: Vec<(u32, FlowMeter)>,
    /// Samples of the flows that the host sends.
    pub samples: FlowSamples,
    /// Samples of the states of their congestion controls.
    pub states: StateSamples,
    /// Number of packets dropped by the host's device.
    pub overflow: u64,
    /// Writes of the host's sending applications.
    pub writes: Writes,
}

/// Writes of the sending applications.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Writes {
    /// Number of writable events of flows that have written more than `GROWN`.
    pub asked: u64,
    /// Number of those events at which no unsent data was left.
    pub late: u64,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Running,
    /// Nothing is written until `restart`.
    Silent,
    /// Everything is written; the last acknowledgements are awaited.
    Draining,
    Over,
}

struct Sender {
    flow: Outgoing,
    meter: FlowMeter,
    phase: Phase,
    socket: Option<OwnedFd>,
    written: u64,
    /// Whether nothing was written since the pause.
    resumed: bool,
    /// Start of the flow's part of the summary interval.
    measure_from: Time,
    measured: bool,
    /// The last `TCP_INFO`.
    info: TcpInfo,
}

/// The flows of one host, ready to start.
pub struct Traffic {
    epoll: Epoll,
    senders: Vec<Sender>,
    listeners: Vec<(OwnedFd, u8)>,
    receivers: Vec<Option<OwnedFd>>,
    watching: Watching,
    samples: FlowSamples,
    states: StateSamples,
    writes: Writes,
}

const SENDER: u64 = 0;
const LISTENER: u64 = 1 << 32;
const RECEIVER: u64 = 2 << 32;

impl Traffic {
    /// Opens the listening sockets of the host whose namespace this thread has entered.
    pub fn new(
        outgoing: Vec<Outgoing>,
        incoming: Vec<Incoming>,
        watching: Watching,
    ) -> Result<Traffic, HostError> {
        let epoll = Epoll::new().map_err(HostError::failed("epoll"))?;
        let mut listeners = Vec::new();
        for (i, flow) in incoming.into_iter().enumerate() {
            let listener = sys::tcp(flow.at).map_err(HostError::failed("a listening socket"))?;
            sys::set_dscp(&listener, flow.dscp).map_err(HostError::failed("a code point"))?;
            flow.options
                .set(&listener)
                .map_err(HostError::failed("a listening socket"))?;
            if let Some(cc) = &flow.cc {
                sys::choose_cc(&listener, cc).map_err(HostError::failed("a congestion control"))?;
            }
            sys::listen(&listener).map_err(HostError::failed("a listening socket"))?;
            epoll
                .add(&listener, sys::READABLE, LISTENER | i as u64)
                .map_err(HostError::failed("epoll"))?;
            listeners.push((listener, flow.dscp));
        }
        let sender = |flow: Outgoing| {
            let mut meter = FlowMeter::new();
            if let (Some(stop), Some(restart)) = (flow.stop, flow.restart) {
                meter.silent(stop, restart);
            }
            Sender {
                measure_from: watching.warmup.max(flow.start),
                flow,
                meter,
                phase: Phase::Waiting,
                socket: None,
                written: 0,
                resumed: false,
                measured: false,
                info: TcpInfo::default(),
            }
        };
        Ok(Traffic {
            epoll,
            senders: outgoing.into_iter().map(sender).collect(),
            listeners,
            receivers: Vec::new(),
            watching,
            samples: FlowSamples::default(),
            states: StateSamples::keep(watching.states),
            writes: Writes::default(),
        })
    }

    /// Sends and receives until the end of the run.
    pub fn run(mut self, clock: Clock, stop: &AtomicBool) -> Result<Told, HostError> {
        sys::prefer(-10);
        sys::real_time(PRIORITY);
        clock.sleep_until(Time::ZERO);
        let chunk = vec![0; CHUNK];
        let end = self.watching.end;
        let mut times = SampleTimes::new(end, self.watching.interval);
        loop {
            let now = clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(HostError::Stopped);
            }
            for (i, sender) in self.senders.iter_mut().enumerate() {
                sender.on_time(now.min(end), i as u64, &self.epoll)?;
            }
            if let Some(due) = times.take(now) {
                self.sample(now.min(end), due);
            }
            if now >= end {
                break;
            }
            let due = self
                .senders
                .iter()
                .map(|s| s.due(now))
                .min()
                .unwrap_or(Time::MAX);
            let until = due.min(times.next()).min(end).min(now + LONGEST);
            let now = if self.watching.timeless {
                now
            } else {
                clock.now()
            };
            let events = self.epoll.wait(until.since(now).as_ns());
            for (events, token) in events.map_err(HostError::failed("epoll"))? {
                match self.happened(events, token, &clock, &chunk) {
                    // After the end, the other host may already have closed its connections.
                    Err(HostError::Broken(_)) if clock.now() >= end => break,
                    told => told?,
                }
            }
        }
        for sender in &mut self.senders {
            sender.end(end);
        }
        Ok(Told {
            meters: self
                .senders
                .into_iter()
                .map(|s| (s.flow.number, s.meter))
                .collect(),
            samples: self.samples,
            states: self.states,
            overflow: netns::overflow(),
            writes: self.writes,
        })
    }

    fn happened(
        &mut self,
        events: u32,
        token: u64,
        clock: &Clock,
        chunk: &[u8],
    ) -> Result<(), HostError> {
        let place = (token & u64::from(u32::MAX)) as usize;
        match token & !u64::from(u32::MAX) {
            SENDER => {
                let sender = &mut self.senders[place];
                sender.count(&mut self.writes);
                sender.writable(events, clock, chunk, &self.epoll, token)
            }
            LISTENER => {
                let (listener, dscp) = &self.listeners[place];
                while let Some(socket) =
                    sys::accept(listener).map_err(HostError::failed("accept"))?
                {
                    sys::set_dscp(&socket, *dscp).map_err(HostError::failed("a code point"))?;
                    let token = RECEIVER | self.receivers.len() as u64;
                    self.epoll
                        .add(&socket, sys::READABLE, token)
                        .map_err(HostError::failed("epoll"))?;
                    self.receivers.push(Some(socket));
                }
                Ok(())
            }
            _ => {
                let Some(socket) = &self.receivers[place] else {
                    return Ok(());
                };
                for _ in 0..TURN {
                    match sys::discard(socket, CHUNK) {
                        Ok(None) => return Ok(()),
                        Ok(Some(0)) | Err(_) => {
                            // The sender has finished or stopped.
                            self.receivers[place] = None;
                            return Ok(());
                        }
                        Ok(Some(_)) => {}
                    }
                }
                Ok(())
            }
        }
    }

    fn sample(&mut self, now: Time, due: Due) {
        for sender in self.senders.iter_mut().filter(|s| s.meter.runs()) {
            let info = sender.ask();
            if due.metrics {
                sender.meter.sample(now, &info);
            }
            if due.point {
                sender.meter.point(now, &info);
            }
            // Before the end of the handshake there is no RTT.
            if due.rows && info.srtt > Span::ZERO {
                self.samples.push(row(now, sender.flow.number, &info));
                if self.states.kept {
                    let cc_state::CcState { mode, values } = sender.ask_cc();
                    let number = sender.flow.number;
                    self.states.push_reported(now, number, mode, &values);
                }
            }
        }
    }
}

/// Converts `TCP_INFO` to the form of the core.
pub(crate) fn info(t: &TcpInfo) -> Info {
    Info {
        bytes_acked: t.bytes_acked,
        bytes_sacked: u64::from(t.sacked) * u64::from(t.snd_mss),
        bytes_sent: t.bytes_sent,
        bytes_retrans: t.bytes_retrans,
        retransmits: u64::from(t.total_retrans),
        cwnd: t.snd_cwnd,
        ssthresh: Some(t.snd_ssthresh).filter(|s| *s < NO_SSTHRESH),
        in_flight: (t.unacked + t.retrans).saturating_sub(t.sacked + t.lost),
        srtt: Span::us(u64::from(t.rtt)),
        // `TCP_INFO` does not contain this.
        rtt: Span::ZERO,
        min_rtt: Span::us(u64::from(t.min_rtt)),
        pacing: Rate::bit(t.pacing_rate.saturating_mul(8)),
        delivery_rate: Some(Rate::bit(t.delivery_rate.saturating_mul(8)))
            .filter(|_| t.delivery_rate > 0),
        delivery_rate_app_limited: t.bits[1] & 1 != 0,
        state: match t.ca_state {
            0 => State::Open,
            1 => State::Disorder,
            2 => State::Cwr,
            3 => State::Recovery,
            _ => State::Loss,
        },
        in_slow_start: t.snd_cwnd < t.snd_ssthresh,
        peer_window: u64::from(t.snd_wnd),
        delivered: u64::from(t.delivered),
        delivered_ce: u64::from(t.delivered_ce),
    }
}

fn limited(t: &TcpInfo) -> Limited {
    Limited {
        busy: Span::us(t.busy_time),
        peer_window: Span::us(t.rwnd_limited),
        send_buffer: Span::us(t.sndbuf_limited),
    }
}

/// A row of samples. Its latest RTT sample is unknown, because the kernel does not report it.
fn row(now: Time, flow: u32, info: &Info) -> FlowSample {
    FlowSample {
        ack_rtt_ms: f64::NAN,
        ..FlowSample::of(now, flow, info)
    }
}

impl Sender {
    /// Reads `TCP_INFO`.
    fn ask(&mut self) -> Info {
        if let Some(now) = self.socket.as_ref().and_then(|s| sys::tcp_info(s).ok()) {
            self.info = now;
        }
        info(&self.info)
    }
    /// Reads `TCP_CC_INFO`.
    fn ask_cc(&self) -> cc_state::CcState {
        let socket = self.socket.as_ref();
        let words = socket.and_then(|s| sys::tcp_cc_info(s).ok());
        cc_state::state(&self.flow.cc, &words.unwrap_or_default(), self.info.snd_mss)
    }
    /// The time of the sender's next action.
    fn due(&self, now: Time) -> Time {
        let f = &self.flow;
        let own = match self.phase {
            Phase::Waiting => f.start,
            Phase::Running => f
                .stop
                .filter(|at| f.restart.is_none() || *at > now)
                .unwrap_or(Time::MAX),
            Phase::Silent => f.restart.unwrap_or(Time::MAX),
            Phase::Draining => (now + ASK).min(f.stop.unwrap_or(Time::MAX)),
            Phase::Over => return Time::MAX,
        };
        let measure = if self.measured {
            Time::MAX
        } else {
            self.measure_from
        };
        own.min(measure)
    }
    /// Performs the actions that are due: start, begin of the measurement, pause, stop, and end of
    /// a transfer.
    fn on_time(&mut self, now: Time, token: u64, epoll: &Epoll) -> Result<(), HostError> {
        let stops = self.flow.stop.filter(|stop| *stop <= now);
        if self.phase == Phase::Waiting && self.flow.start <= now {
            // A flow whose start was moved after its stop by jitter does not start.
            if stops.is_some() && self.flow.restart.is_none() {
                self.phase = Phase::Over;
            } else {
                self.connect(now, token, epoll)?;
            }
        }
        if !self.measured && self.phase != Phase::Waiting && self.measure_from <= now {
            let info = self.ask();
            self.meter.measure(now, &info);
            self.measured = true;
        }
        match (self.phase, stops, self.flow.restart) {
            (Phase::Running | Phase::Draining, Some(_), None) => {
                let info = self.ask();
                self.meter.limited(limited(&self.info));
                self.meter.stopped(now, &info);
                self.over();
            }
            (Phase::Running, Some(_), Some(restart)) if now < restart => {
                self.phase = Phase::Silent;
                self.listen_for(0, token, epoll)?;
            }
            (Phase::Silent, _, Some(restart)) if now >= restart => {
                self.phase = Phase::Running;
                self.resumed = true;
                self.listen_for(sys::WRITABLE, token, epoll)?;
            }
            (Phase::Draining, ..) => self.finish(now),
            _ => {}
        }
        Ok(())
    }
    fn connect(&mut self, now: Time, token: u64, epoll: &Epoll) -> Result<(), HostError> {
        let flow = &self.flow;
        let doing = HostError::failed("the socket of a flow");
        let socket = sys::tcp(flow.from).map_err(&doing)?;
        sys::choose_cc(&socket, &flow.cc).map_err(&doing)?;
        flow.options.set(&socket).map_err(&doing)?;
        sys::set_dscp(&socket, flow.dscp).map_err(&doing)?;
        sys::set_reset(&socket).map_err(&doing)?;
        self.meter.started(now);
        sys::connect(&socket, flow.to).map_err(&doing)?;
        epoll.add(&socket, sys::WRITABLE, token).map_err(&doing)?;
        self.socket = Some(socket);
        self.phase = Phase::Running;
        Ok(())
    }
    fn listen_for(&self, events: u32, token: u64, epoll: &Epoll) -> Result<(), HostError> {
        match &self.socket {
            Some(socket) => epoll
                .change(socket, events, token)
                .map_err(HostError::failed("epoll")),
            None => Ok(()),
        }
    }
    /// Counts a writable event, and whether no unsent data was left.
    fn count(&self, writes: &mut Writes) {
        let asked = self.phase == Phase::Running && self.written > GROWN && !self.resumed;
        if let Some(socket) = self.socket.as_ref().filter(|_| asked) {
            writes.asked += 1;
            writes.late += u64::from(sys::unsent(socket).unwrap_or(1) == 0);
        }
    }
    /// Handles a writable or failed socket: writes as much as the kernel accepts.
    fn writable(
        &mut self,
        events: u32,
        clock: &Clock,
        chunk: &[u8],
        epoll: &Epoll,
        token: u64,
    ) -> Result<(), HostError> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        if events & sys::BROKEN != 0 {
            let error = sys::error_of(socket);
            return self.broken(error, clock.now());
        }
        if self.phase != Phase::Running {
            return Ok(());
        }
        loop {
            let left = self.flow.size.map_or(u64::MAX, |size| size - self.written);
            if left == 0 {
                self.phase = Phase::Draining;
                self.listen_for(0, token, epoll)?;
                self.finish(clock.now());
                return Ok(());
            }
            let some = &chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            match sys::send_some(socket, some) {
                Ok(Some(n)) => {
                    self.written += n as u64;
                    self.resumed = false;
                }
                Ok(None) => return Ok(()),
                Err(error) => return self.broken(error, clock.now()),
            }
        }
    }
    /// Handles a failed socket. A connection that the kernel ended for lack of ACKs is a result of
    /// the run.
    fn broken(&mut self, error: std::io::Error, now: Time) -> Result<(), HostError> {
        if error.kind() != std::io::ErrorKind::TimedOut {
            return Err(HostError::Broken(format!("flow {}: {error}", self.flow.id)));
        }
        let info = self.ask();
        self.meter.limited(limited(&self.info));
        self.meter.timed_out(now, &info);
        self.over();
        Ok(())
    }
    /// Ends the flow if the whole transfer is acknowledged.
    fn finish(&mut self, now: Time) {
        let open = self
            .socket
            .as_ref()
            .map_or(0, |s| sys::unacknowledged(s).unwrap_or(0));
        if open == 0 {
            let info = self.ask();
            self.meter.limited(limited(&self.info));
            self.meter.finished(now, &info);
            self.over();
        }
    }
    fn end(&mut self, now: Time) {
        if self.meter.runs() {
            let info = self.ask();
            self.meter.limited(limited(&self.info));
            self.meter.ended(now, &info);
        }
        self.over();
    }
    fn over(&mut self) {
        self.socket = None;
        self.phase = Phase::Over;
    }
}
