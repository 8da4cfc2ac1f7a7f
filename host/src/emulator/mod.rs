//! The emulator: forwards real packets between hosts through the emulated network of the core, in
//! real time.
//!
//! ```text
//!   near device ──▶ NEAR ┐                     ┌ FAR ──▶ far device
//!                        │ path, access links  │
//!   near device ◀── NEAR ┘                     └ FAR ◀── far device
//! ```
//!
//! A Wi-Fi has one far device for each station, at the ports from FAR on.
//!
//! **Time.** A packet enters the path at the time at which it is read. The path computes its
//! departure time, and the forwarding thread writes the packet when it is due. If the thread wakes
//! up late, packets leave late. The next departure is computed from the due time of the previous
//! one, so the rate stays correct. The lateness of each packet is measured.
//!
//! **Wake-ups.** Up to a rate of [`EXACT`], and in a Wi-Fi, the thread wakes up for every packet
//! that arrives or is due. Above this rate, it wakes up at multiples of [`TICK`] while packets are
//! in the network, and above 3.2 Gbit/s more often. Due packets that follow each other in a
//! super-packet are then written as one. While all queues are empty, it wakes up for arrivals only.
//! The thread never spins, because the kernel would suspend a spinning real-time thread for 50 ms
//! in each second by default.
//!
//! | module | contents |
//! |---|---|
//! | [`preflight`], [`doctor`] | checks before a run; suitability of this host for live runs |
//! | [`engine`] | runs a scenario and returns a run |
//! | [`hosts`] | places and settings of hosts |
//! | [`frame`], [`packets`] | real packets as the core sees them; super-packets split and joined |
//! | [`application`], [`application_socket`] | flows with a workload |
//! | [`module_parameters`] | parameters of congestion controls in the kernel |
//! | [`traffic`], [`probe`] | flows through kernel sockets; pings |
//! | [`sample_times`] | times of samples |
//! | [`self_check`] | deviation of a run from its scenario |
//! | [`capture`] | the thread that writes a packet capture |
//! | [`guest`] | the first process of the virtual machine of `--engine linux` |
//! | [`shell`], [`shell_command`] | arbitrary programs over the path; the command and its options |

pub mod application;
pub mod application_socket;
pub mod capture;
pub mod cc_state;
pub mod doctor;
pub mod engine;
pub mod frame;
pub mod guest;
pub mod hosts;
pub mod kernel_queue;
pub mod module_parameters;
pub mod packets;
pub mod preflight;
pub mod probe;
pub mod sample_times;
pub mod self_check;
pub mod shell;
pub mod shell_command;
pub mod tc_words;
pub mod traffic;

use self::frame::{Frame, HEAD, Ports};
use crate::emulator::kernel_queue::Signal;
use crate::emulator::packets::{Observer, Packets};
use crate::emulator::preflight::metric_interval;
use crate::emulator::self_check::Lateness;
use crate::sys;
use crate::sys::clock::Clock;
use crate::sys::gate::wait_which;
use narrows_core::engine::{Network, Options, Recorder};
use narrows_core::metrics::{LevelMeter, QueueMeter, QueueMetrics, Samples};
use narrows_core::net::access::AccessLinks;
use narrows_core::net::wifi::Usage;
use narrows_core::net::{NEAR, Port};
use narrows_core::scenario::Scenario;
use narrows_core::units::{Rate, Span, Time};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest rate at which every packet has its own wake-up.
pub const EXACT: Rate = Rate::mbit(100);
/// Longest interval of wake-ups above the rate [`EXACT`].
pub const TICK: Span = Span::us(100);
/// Largest number of bytes that the path transmits in one interval. The ACKs of an interval arrive
/// together, and a sending application is woken up when half of `notsent_lowat` is unsent (64 KiB
/// by default). Larger bursts would consume this data before the application has written.
const BURST: u64 = 40_000;
/// Shortest interval of wake-ups: the thread wakes up at each one while packets are in transit.
const SHORTEST_TICK: Span = Span::us(50);
/// Largest number of reads from one device before due packets are written.
const TURN: usize = 64;
/// Longest sleep. A request to stop is noticed within this time.
const LONGEST: Span = Span::ms(50);
/// Longest wait in virtual time, where waits take no real time.
const LONGEST_VIRTUAL: Span = Span::s(10);
/// Largest payload that leaves as one packet, bytes.
const MOST_JOINED: usize = 65_000;

/// The hosts of a flow, and the delay lines between its receiver and the path. `D`: a delay, or the
/// index of a delay line; `None`: no delay.
#[derive(Copy, Clone, Debug)]
pub struct Farther<D = Option<u32>> {
    /// The ports of sender and receiver in the network, and the indices of their devices.
    pub ends: [(Port, usize); 2],
    /// From the path to the receiver.
    pub forward: D,
    /// From the receiver to the path.
    pub reverse: D,
}

impl Farther {
    fn receiver(&self) -> Port {
        self.ends[1].0
    }
}

/// Which implementation of queue disciplines the path of a virtual machine uses.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Queues {
    /// The queue disciplines of the kernel.
    #[default]
    Kernel,
    /// The queue disciplines of the core.
    Core,
}

impl Queues {
    /// Returns the queue disciplines that a value of `--queues` names.
    pub fn named(name: &str) -> Result<Queues, String> {
        match name {
            "kernel" => Ok(Queues::Kernel),
            "narrows" => Ok(Queues::Core),
            _ => Err(format!("--queues {name}: unknown; write kernel or narrows")),
        }
    }
}

/// Where a run takes place.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Machine {
    /// This host, with its clock.
    Host,
    /// A virtual machine in virtual time: processing takes no time.
    Virtual(Queues),
}

impl Machine {
    /// The name of the engine.
    pub fn engine(self) -> &'static str {
        match self {
            Machine::Host => "live",
            Machine::Virtual(_) => "linux",
        }
    }
}

/// How packets are forwarded.
#[derive(Copy, Clone, Debug)]
pub struct Manner {
    /// Timer interval while packets wait; `None`: a wake-up for every packet.
    pub tick: Option<Span>,
    /// Whether consecutive packets leave as one.
    pub join: bool,
    /// Whether super-packets cross the path as one packet.
    pub whole: bool,
}

/// A network (path, links or Wi-Fi) with its delay lines and meters.
pub struct Emulator {
    network: Network<Frame>,
    access: AccessLinks<Frame>,
    farther: Vec<Farther>,
    /// The port of the network of each device.
    devices: Vec<Port>,
    observer: Observer,
    /// The capture of the measurement, after its end.
    recorded: Option<Box<Recorder>>,
    ports: Ports,
    manner: Manner,
    /// The queue disciplines of the kernel.
    signals: Vec<Arc<Signal>>,
    longest: Span,
    /// Whether processing takes no time, as in virtual time. The clock is then read once per turn,
    /// and a sample is taken at the next event, since nothing changes before it.
    timeless: bool,
    end: Time,
    interval: Option<Span>,
    rate: Rate,
}

/// The observations of a run.
pub struct Seen {
    /// Metrics of the queue of every hop.
    pub queues: Vec<QueueMetrics>,
    /// Random losses of every hop, packets.
    pub random_losses: Vec<u64>,
    /// Medium use of each station.
    pub used: Vec<Usage>,
    /// Queueing delays of pings, by probe.
    pub levels: Vec<LevelMeter>,
    /// Samples of queues and their classes.
    pub samples: Samples,
    /// Lateness of packets.
    pub lateness: Lateness,
}

/// The state of forwarding during one run.
struct Passage<'a> {
    e: &'a mut Emulator,
    devices: &'a [&'a OwnedFd],
    clock: Clock,
    due: VecDeque<(Time, Port, Frame)>,
    buffer: Vec<u8>,
    fds: Vec<RawFd>,
    samples: Samples,
    next_metrics: Time,
    next_rows: Time,
    closed: Option<(Vec<QueueMetrics>, Vec<Usage>)>,
    lateness: Lateness,
    /// Time at the beginning of the present turn.
    now: Time,
    /// Time until which the thread slept, until its lateness is recorded.
    wakes: Option<Time>,
    /// For each device, whether it may have packets.
    readable: Vec<bool>,
}

/// The interval of wake-ups at a rate above [`EXACT`].
fn tick(rate: Rate) -> Span {
    Span::ns(BURST * 8_000_000_000 / rate.as_bit().max(1)).clamp(SHORTEST_TICK, TICK)
}

impl Emulator {
    /// An emulator for the `network` of a scenario, with meters for its queues.
    pub fn new(
        scenario: &Scenario,
        options: &Options,
        network: Network<Frame>,
        queues: Vec<QueueMeter>,
    ) -> Emulator {
        let wifi = matches!(network, Network::Wifi(_));
        // In a network of links, packets arrive at a host from several links.
        let links = scenario.path.links.is_some();
        let fastest = scenario.path.hops.iter().map(|hop| hop.target()).max();
        let rate = scenario.path.bottleneck().target();
        let devices = (NEAR..=network.far_hosts() as Port).collect();
        let highest = fastest.filter(|_| links).unwrap_or(rate);
        let exact = highest <= EXACT || wifi;
        Emulator {
            network,
            access: AccessLinks::default(),
            farther: Vec::new(),
            devices,
            observer: Observer::new(scenario, queues, options, Packets::default()),
            recorded: None,
            ports: Ports::default(),
            signals: Vec::new(),
            longest: LONGEST,
            timeless: false,
            manner: Manner {
                tick: (!exact).then(|| tick(highest)),
                // In a Wi-Fi, all packets of an aggregate are due at the same time.
                join: !exact || wifi,
                whole: scenario.path.offload,
            },
            end: Time::ZERO + scenario.duration,
            interval: options.sample_interval,
            rate,
        }
    }
    /// Sets the ports of flows, the port of the network of each device, and the hosts and delays of
    /// flows.
    pub fn flows(
        mut self,
        ports: Ports,
        devices: Vec<Port>,
        flows: impl Iterator<Item = Farther<Span>>,
    ) -> Emulator {
        (self.ports, self.devices) = (ports, devices);
        for flow in flows {
            self.farther.push(Farther {
                ends: flow.ends,
                forward: self.access.link(flow.forward),
                reverse: self.access.link(flow.reverse),
            });
        }
        self
    }
    /// The index of the device of the host that receives a frame at a port of the network.
    fn device(&self, port: Port, frame: &Frame) -> usize {
        let owner = frame.owner().map(usize::from);
        let ends = owner.and_then(|owner| self.farther.get(owner));
        let mut ends = ends.iter().flat_map(|farther| farther.ends);
        let own = ends.find(|(at, _)| *at == port);
        own.map_or(usize::from(port), |(_, device)| device)
    }
    /// Sets the signals of queue disciplines of the kernel.
    pub fn signals(&mut self, signals: Vec<Arc<Signal>>) {
        self.signals = signals;
    }
    /// Records every packet in a capture, until the end of the measurement.
    pub fn record(&mut self, recorder: Recorder) {
        self.observer.recorder = Some(Box::new(recorder));
    }
    /// Ends the capture, if there is one, after the last packet. Returns `false` if it is
    /// incomplete.
    pub fn end_record(&mut self) -> bool {
        let recorder = self.recorded.take().or(self.observer.recorder.take());
        recorder.is_none_or(|recorder| recorder.finish())
    }
    /// How packets are forwarded.
    pub fn manner_of(&self) -> Manner {
        self.manner
    }
    /// Switches to virtual time: every packet is forwarded at its own time, at any rate.
    pub fn exact(&mut self) {
        self.longest = LONGEST_VIRTUAL;
        self.timeless = true;
        self.manner.tick = None;
        self.manner.join = matches!(self.network, Network::Wifi(_));
    }
    /// How packets are forwarded, to be changed before the run.
    pub fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }
    /// Forwards packets between the device at NEAR and those at the following ports, until `stop`
    /// is set.
    pub fn run(
        &mut self,
        devices: &[&OwnedFd],
        clock: Clock,
        stop: &AtomicBool,
    ) -> io::Result<Seen> {
        let (seen, ended) = self.pass(devices, clock, stop);
        ended.map_or(Ok(seen), Err)
    }
    /// As [`run`](Self::run), but returns the observations also after an error.
    pub fn pass(
        &mut self,
        devices: &[&OwnedFd],
        clock: Clock,
        stop: &AtomicBool,
    ) -> (Seen, Option<io::Error>) {
        sys::prefer(-20);
        // In virtual time, no wake-up is late.
        let awake = (!self.timeless).then(sys::idle::forbid);
        let awake = awake.and_then(Result::ok).flatten();
        let mut lateness = Lateness::new(sys::real_time(20), self.rate);
        lateness.awake = awake.is_some();
        let mut passage = Passage {
            devices,
            clock,
            due: VecDeque::new(),
            buffer: vec![0; frame::VNET + 65_536],
            fds: devices.iter().map(|device| device.as_raw_fd()).collect(),
            samples: Samples::default(),
            next_metrics: Time::ZERO + metric_interval(self.end),
            next_rows: self.interval.map_or(Time::MAX, |i| Time::ZERO + i),
            closed: None,
            lateness,
            now: Time::ZERO,
            wakes: None,
            readable: vec![true; devices.len()],
            e: self,
        };
        let mut ended = None;
        while ended.is_none() && !stop.load(Ordering::Relaxed) {
            ended = passage.turn().err();
        }
        (passage.seen(), ended)
    }
}

impl Passage<'_> {
    fn seen(mut self) -> Seen {
        self.close();
        self.samples.verdicts = std::mem::take(&mut self.e.observer.verdicts);
        self.lateness.cpu(sys::thread_cpu());
        let (queues, used) = self.closed.unwrap_or_default();
        Seen {
            queues,
            random_losses: self
                .e
                .observer
                .queues
                .iter()
                .map(QueueMeter::random_losses)
                .collect(),
            used,
            levels: std::mem::take(&mut self.e.observer.levels),
            samples: self.samples,
            lateness: self.lateness,
        }
    }
    /// The present time. In virtual time the clock is not read, because that takes CPU time of the
    /// host.
    fn time(&self) -> Time {
        if self.e.timeless {
            self.now
        } else {
            self.clock.now()
        }
    }
    /// Processes due events, reads and writes packets, and sleeps until the next event.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.now = now;
        if let Some(until) = self.wakes.take() {
            self.lateness.woke(until, now);
        }
        self.advance(now);
        let more = self.take(now)?;
        self.write()?;
        if more {
            return Ok(());
        }
        let now = self.time();
        match self.e.manner.tick {
            Some(tick) if self.e.network.waits() => {
                // Packets that are due before the next tick leave at this tick. If each packet left
                // as soon as the previous one is written, none could be joined at high rates.
                let at = Time::from_ns((self.now.as_ns() / tick.as_ns() + 1) * tick.as_ns());
                if now < at {
                    self.clock.sleep_until(at);
                    self.wakes = Some(at);
                }
            }
            _ => {
                let until = self.next().min(now + self.e.longest);
                if now < until {
                    self.wait(until.since(now).as_ns())?;
                    self.wakes = Some(until);
                }
            }
        }
        Ok(())
    }
    /// Waits for packets of the hosts and for packets that leave a queue discipline of the kernel,
    /// at most `timeout` ns.
    fn wait(&mut self, timeout: u64) -> io::Result<()> {
        let (mut fds, mut awaited) = (self.fds.clone(), Vec::new());
        for signal in &self.e.signals {
            if let Some(fd) = signal.awaited() {
                fds.push(fd);
                awaited.push(Arc::clone(signal));
            }
        }
        let readable = wait_which(&fds, timeout)?;
        if self.e.timeless {
            self.readable.copy_from_slice(&readable[..self.fds.len()]);
        }
        let mut left = false;
        for (signal, readable) in awaited.iter().zip(&readable[self.fds.len()..]) {
            if *readable {
                signal.arrived();
                left = true;
            }
        }
        if left {
            self.e.network.rouse(self.clock.now());
        }
        Ok(())
    }
    /// The time of the next event.
    fn next(&self) -> Time {
        let path = self.e.network.next_wakeup().unwrap_or(Time::MAX);
        let look = match self.closed {
            None if self.e.timeless => self.e.end,
            _ => self.next_look(),
        };
        path.min(self.e.access.next()).min(look)
    }
    /// The time of the next sample.
    fn next_look(&self) -> Time {
        if self.closed.is_some() {
            return Time::MAX;
        }
        self.next_metrics.min(self.next_rows).min(self.e.end)
    }
    /// Processes all events up to `now` in the order of their times. Events at the same time are
    /// processed in the order path, delay lines, samples.
    fn advance(&mut self, now: Time) {
        loop {
            let path = self.e.network.next_wakeup().unwrap_or(Time::MAX);
            let access = self.e.access.next();
            let look = self.next_look();
            let at = path.min(access).min(look);
            if at > now {
                return;
            }
            if path == at {
                self.e.network.poll(at, &mut self.e.observer);
                let mut arrivals = std::mem::take(&mut self.e.observer.packets.arrivals);
                for (port, frame) in arrivals.drain(..) {
                    self.arrive(at, port, frame);
                }
                self.e.observer.packets.arrivals = arrivals;
            } else if access == at {
                if let Some(frame) = self.e.access.pop(at) {
                    self.leave_line(at, frame);
                }
            } else {
                self.look(at);
            }
        }
    }
    fn farther(&self, frame: &Frame) -> Option<Farther> {
        self.e.farther.get(usize::from(frame.owner()?)).copied()
    }
    /// Handles a frame that leaves the path at `port`.
    fn arrive(&mut self, at: Time, port: Port, frame: Frame) {
        if frame.damaged() {
            return;
        }
        let line = self
            .farther(&frame)
            .filter(|f| f.receiver() == port)
            .and_then(|f| f.forward);
        match line {
            Some(link) => self.e.access.push(at, link, frame),
            None => self.due.push_back((at, port, frame)),
        }
    }
    /// Handles a frame that leaves a delay line, towards its receiver or the path.
    fn leave_line(&mut self, at: Time, frame: Frame) {
        match self.farther(&frame) {
            Some(farther) if farther.receiver() != frame.port() => {
                self.due.push_back((at, farther.receiver(), frame))
            }
            _ => self
                .e
                .network
                .push(at, frame.port(), frame, &mut self.e.observer),
        }
    }
    /// Reads packets of the hosts; returns `true` if there may be more.
    fn take(&mut self, now: Time) -> io::Result<bool> {
        let mut more = false;
        for device in 0..self.e.devices.len() {
            if !self.readable[device] {
                continue;
            }
            let port = self.e.devices[device];
            for turn in 1..=TURN {
                let Some(n) = sys::read(self.devices[device], &mut self.buffer)? else {
                    break;
                };
                more |= turn == TURN;
                let Emulator {
                    network,
                    access,
                    farther,
                    observer,
                    ports,
                    manner,
                    ..
                } = &mut *self.e;
                let mut known = true;
                let taken = frame::cut(&self.buffer[..n], port, *ports, manner.whole, |frame| {
                    known = frame.has_destination(network);
                    if !known {
                        return;
                    }
                    let farther = frame
                        .owner()
                        .and_then(|owner| farther.get(usize::from(owner)));
                    match farther
                        .filter(|f| f.receiver() == port)
                        .and_then(|f| f.reverse)
                    {
                        Some(link) => access.push(now, link, frame),
                        None => network.push(now, port, frame, observer),
                    }
                });
                if !taken || !known {
                    self.lateness.foreign += 1;
                }
            }
        }
        Ok(more)
    }
    /// Writes due packets.
    fn write(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD];
        while let Some((at, port, first)) = self.due.pop_front() {
            let now = self.time();
            let mut len = first.payload();
            self.lateness.left(now, at, port, &first);
            while self.e.manner.join {
                match self.due.front() {
                    Some((at, p, next))
                        if *p == port
                            && len + next.payload() <= MOST_JOINED
                            && first.continued_by(len, next) =>
                    {
                        len += next.payload();
                        self.lateness.left(now, *at, port, next);
                    }
                    _ => break,
                }
                self.due.pop_front();
            }
            let headers = first.headers(len, &mut head);
            let device = self.e.device(port, &first);
            if let Err(error) = sys::write(self.devices[device], &head[headers], first.body(len)) {
                // A host whose queue is full drops the packet, and one whose interface is down
                // loses it. Any other error ends the run.
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => self.lateness.refused += 1,
                    // The interface of the host is down.
                    Some(libc::EIO) => self.lateness.down += 1,
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }
    /// Samples the queues.
    fn look(&mut self, now: Time) {
        let (metrics, rows) = (self.next_metrics == now, self.next_rows == now);
        let e = &mut *self.e;
        e.observer
            .sample(now, &e.network, metrics, rows.then_some(&mut self.samples));
        if metrics {
            self.next_metrics = now + metric_interval(self.e.end);
        }
        if let Some(interval) = self.e.interval.filter(|_| rows) {
            self.next_rows = now + interval;
        }
        if now >= self.e.end {
            self.close();
        }
    }
    /// Ends the measurement and its capture; packets are still forwarded afterwards.
    fn close(&mut self) {
        if self.closed.is_some() {
            return;
        }
        let observer = &mut self.e.observer;
        let used = self.e.network.close(&mut observer.queues);
        self.e.recorded = observer.recorder.take();
        self.closed = Some((
            observer.queues.iter().map(QueueMeter::metrics).collect(),
            used,
        ));
        if self.e.interval.is_some() {
            observer.delays(&mut self.samples);
        }
        self.lateness.close(self.e.end);
    }
}
