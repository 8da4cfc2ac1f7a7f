//! Real packets through the path of the core.
//!
//! ```text
//!   near device ──▶ NEAR ┐              ┌ FAR ──▶ far device
//!                        │ path, lines  │
//!   near device ◀── NEAR ┘              └ FAR ◀── far device
//! ```
//!
//! Of a Wi-Fi there is one far device for each station, at the ports from FAR on.
//!
//! **Time is virtual.** A packet enters at the time at which it is read; everything after that is
//! the path's arithmetic, and a packet that is due is written when this thread is awake. Being late
//! delays packets, but the next one is computed from when the last one should have left, so the
//! rate is kept; how late packets are is measured, each of them.
//!
//! **When it is awake.** Up to [`EXACT`]: for every packet that is due or comes. Above, with
//! something in a queue: at multiples of a tick of 100 µs, and what follows each other in a
//! super-packet and is due goes out as one. With nothing in a queue there is no tick: what comes is
//! dealt with when it comes. Never spinning: a thread of the real-time class that did would
//! be stopped by the kernel for 50 ms of each second.
//!
//! | module | holds |
//! |---|---|
//! | [`preflight`], [`doctor`] | whether this machine can run a scenario; what limits its accuracy |
//! | [`engine`] | a scenario in, a run out |
//! | [`frame`], [`packets`] | a real packet as the core sees it; super-packets split and joined |
//! | [`traffic`], [`probe`] | flows through kernel sockets; pings |
//! | [`self_check`] | the error of the run itself: lateness and rate |
//! | [`capture`] | the thread that writes a packet capture |
//! | [`shell`], [`shell_command`] | any program over the path, and its options |

pub mod capture;
pub mod doctor;
pub mod engine;
pub mod frame;
pub mod packets;
pub mod preflight;
pub mod probe;
pub mod self_check;
pub mod shell;
pub mod shell_command;
pub mod traffic;

use self::frame::{Frame, HEAD, Ports};
use crate::emulator::packets::{Observer, Packets};
use crate::emulator::preflight::figure_interval;
use crate::emulator::self_check::Lateness;
use crate::sys;
use crate::sys::clock::Clock;
use narrows_core::engine::{Network, Options, Recorder};
use narrows_core::figures::{LevelMeter, QueueFigures, QueueMeter, Samples};
use narrows_core::net::access::Access;
use narrows_core::net::wifi::Usage;
use narrows_core::net::{NEAR, Port};
use narrows_core::scenario::Scenario;
use narrows_core::units::{Rate, Span, Time};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Up to this rate every packet has its own wake-up.
pub const EXACT: Rate = Rate::mbit(100);
/// Above it, from one wake-up to the next.
pub const TICK: Span = Span::us(100);
/// Reads from one device before the other gets its turn.
const TURN: usize = 64;
/// The longest sleep: so often a request to stop is seen.
const LONGEST: Span = Span::ms(50);
/// The most bytes of payload that go out as one.
const MOST_JOINED: usize = 65_000;

/// Where the receiver of a flow is, and what lies between it and the path.
#[derive(Copy, Clone, Debug)]
pub struct Farther {
    /// The port behind which it is.
    pub receiver: Port,
    /// The line from the path to it.
    pub there: Option<u32>,
    /// The line back.
    pub back: Option<u32>,
}

/// How packets are passed.
#[derive(Copy, Clone, Debug)]
pub struct Manner {
    /// From one wake-up to the next while something waits; `None`: for every packet.
    pub tick: Option<Span>,
    /// What follows each other goes out as one.
    pub join: bool,
    /// Super-packets cross the path whole.
    pub whole: bool,
}

/// A path or a Wi-Fi, its lines, its meters.
pub struct Emulator {
    network: Network<Frame>,
    access: Access<Frame>,
    farther: Vec<Farther>,
    observer: Observer,
    ports: Ports,
    manner: Manner,
    end: Time,
    interval: Option<Span>,
    rate: Rate,
}

/// What it has seen.
pub struct Seen {
    /// Of every hop.
    pub queues: Vec<QueueFigures>,
    /// Random losses of every hop, packets.
    pub random_losses: Vec<u64>,
    /// What each station had of the medium.
    pub used: Vec<Usage>,
    /// Where pings waited, by probe.
    pub levels: Vec<LevelMeter>,
    /// Of the queues and their classes.
    pub samples: Samples,
    /// How late packets were.
    pub lateness: Lateness,
}

/// One run of it.
struct Passage<'a> {
    e: &'a mut Emulator,
    devices: &'a [&'a OwnedFd],
    clock: Clock,
    due: VecDeque<(Time, Port, Frame)>,
    buffer: Vec<u8>,
    fds: Vec<RawFd>,
    samples: Samples,
    next_figures: Time,
    next_rows: Time,
    closed: Option<(Vec<QueueFigures>, Vec<Usage>)>,
    lateness: Lateness,
}

impl Emulator {
    /// Of a scenario's `network`, with meters for its queues.
    pub fn new(
        scenario: &Scenario,
        options: &Options,
        network: Network<Frame>,
        queues: Vec<QueueMeter>,
    ) -> Emulator {
        let wifi = matches!(network, Network::Wifi(_));
        let rate = scenario.path.bottleneck().target();
        let exact = rate <= EXACT || wifi;
        Emulator {
            network,
            access: Access::default(),
            farther: Vec::new(),
            observer: Observer::new(scenario, queues, options, Packets::default()),
            ports: Ports::default(),
            manner: Manner {
                tick: (!exact).then_some(TICK),
                // What an aggregate brings is due at one instant.
                join: !exact || wifi,
                whole: scenario.path.offload,
            },
            end: Time::ZERO + scenario.duration,
            interval: options.sample_interval,
            rate,
        }
    }
    /// Flows by their ports, with the delays of the lines between the path and their receivers:
    /// port of the receiver, there, back.
    pub fn flows(
        mut self,
        ports: Ports,
        delays: impl Iterator<Item = (Port, Span, Span)>,
    ) -> Emulator {
        self.ports = ports;
        for (receiver, there, back) in delays {
            let (there, back) = (self.access.line(there), self.access.line(back));
            self.farther.push(Farther {
                receiver,
                there,
                back,
            });
        }
        self
    }
    /// Tells every packet to a capture.
    pub fn record(&mut self, recorder: Recorder) {
        self.observer.recorder = Some(Box::new(recorder));
    }
    /// No packet passes any more: ends the capture, if there is one. False when it did not take
    /// everything.
    pub fn end_record(&mut self) -> bool {
        self.observer
            .recorder
            .take()
            .is_none_or(|recorder| recorder.finish())
    }
    /// How packets are passed.
    pub fn manner_of(&self) -> Manner {
        self.manner
    }
    /// How packets are passed, to be changed before the run.
    pub fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }
    /// Passes packets between the devices, that at NEAR and those at the ports that follow, until
    /// it is told to stop.
    pub fn run(
        &mut self,
        devices: &[&OwnedFd],
        clock: Clock,
        stop: &AtomicBool,
    ) -> io::Result<Seen> {
        let (seen, ended) = self.pass(devices, clock, stop);
        ended.map_or(Ok(seen), Err)
    }
    /// The same; answers what was seen also where an error ended it.
    pub fn pass(
        &mut self,
        devices: &[&OwnedFd],
        clock: Clock,
        stop: &AtomicBool,
    ) -> (Seen, Option<io::Error>) {
        sys::prefer(-20);
        let lateness = Lateness::new(sys::real_time(20), self.rate);
        let mut passage = Passage {
            devices,
            clock,
            due: VecDeque::new(),
            buffer: vec![0; frame::VNET + 65_536],
            fds: devices.iter().map(|device| device.as_raw_fd()).collect(),
            samples: Samples::default(),
            next_figures: Time::ZERO + figure_interval(self.end),
            next_rows: self.interval.map_or(Time::MAX, |i| Time::ZERO + i),
            closed: None,
            lateness,
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
    /// Does what is due, takes what has come, and sleeps.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.advance(now);
        let more = self.take(now)?;
        self.write()?;
        if more {
            return Ok(());
        }
        let next = self.next();
        let now = self.clock.now();
        if next <= now {
            return Ok(());
        }
        let until = next.min(now + LONGEST);
        match self.e.manner.tick {
            Some(tick) if self.e.network.waits() => {
                let at = Time::from_ns((now.as_ns() / tick.as_ns() + 1) * tick.as_ns());
                self.clock.sleep_until(at);
                self.lateness.woke(at, self.clock.now());
            }
            _ => {
                sys::wait_readable(&self.fds, until.since(now).as_ns())?;
                self.lateness.woke(until, self.clock.now());
            }
        }
        Ok(())
    }
    /// When something is to be done.
    fn next(&self) -> Time {
        let path = self.e.network.next_wakeup().unwrap_or(Time::MAX);
        path.min(self.e.access.next()).min(self.next_look())
    }
    /// When something is to be looked at.
    fn next_look(&self) -> Time {
        if self.closed.is_some() {
            return Time::MAX;
        }
        self.next_figures.min(self.next_rows).min(self.e.end)
    }
    /// Everything up to `now`, in the order of virtual time: the path, lines, then who looks.
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
    /// A frame has come out of the path at `port`.
    fn arrive(&mut self, at: Time, port: Port, frame: Frame) {
        if frame.damaged() {
            return;
        }
        let line = self
            .farther(&frame)
            .filter(|f| f.receiver == port)
            .and_then(|f| f.there);
        match line {
            Some(line) => self.e.access.push(at, line, frame),
            None => self.due.push_back((at, port, frame)),
        }
    }
    /// A frame has come to the end of a line: at its receiver, or at the path.
    fn leave_line(&mut self, at: Time, frame: Frame) {
        match self.farther(&frame) {
            Some(farther) if farther.receiver != frame.port() => {
                self.due.push_back((at, farther.receiver, frame))
            }
            _ => self
                .e
                .network
                .push(at, frame.port(), frame, &mut self.e.observer),
        }
    }
    /// Reads what the hosts have sent; true when there may be more.
    fn take(&mut self, now: Time) -> io::Result<bool> {
        let mut more = false;
        for port in NEAR..=self.e.network.far_hosts() as Port {
            for turn in 1..=TURN {
                let Some(n) = sys::read(self.devices[usize::from(port)], &mut self.buffer)? else {
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
                    match farther.filter(|f| f.receiver == port).and_then(|f| f.back) {
                        Some(line) => access.push(now, line, frame),
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
    /// Writes what is due.
    fn write(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD];
        while let Some((at, port, first)) = self.due.pop_front() {
            let now = self.clock.now();
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
            if let Err(error) = sys::write(
                self.devices[usize::from(port)],
                &head[headers],
                first.body(len),
            ) {
                // A host that has no room drops; anything else is the end.
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => self.lateness.refused += 1,
                    // As on every path, what is for a host whose interface is down is lost.
                    Some(libc::EIO) => self.lateness.down += 1,
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }
    /// Looks at the queues.
    fn look(&mut self, now: Time) {
        let (figures, rows) = (self.next_figures == now, self.next_rows == now);
        let e = &mut *self.e;
        e.observer
            .sample(now, &e.network, figures, rows.then_some(&mut self.samples));
        if figures {
            self.next_figures = now + figure_interval(self.e.end);
        }
        if let Some(interval) = self.e.interval.filter(|_| rows) {
            self.next_rows = now + interval;
        }
        if now >= self.e.end {
            self.close();
        }
    }
    /// The run is over: packets still pass, nobody looks.
    fn close(&mut self) {
        if self.closed.is_some() {
            return;
        }
        let observer = &mut self.e.observer;
        let used = self.e.network.close(&mut observer.queues);
        self.closed = Some((
            observer.queues.iter().map(QueueMeter::figures).collect(),
            used,
        ));
        if self.e.interval.is_some() {
            observer.delays(&mut self.samples);
        }
        self.lateness.close(self.e.end);
    }
}
