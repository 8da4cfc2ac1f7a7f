//! Pings of a measurement: over UDP with the cookie of the session, or as TCP handshakes with other
//! servers.
//!
//! Each interval has one ping at a random time, so that no cross traffic is synchronized with the
//! pings. Pings with several code points share the random part, so that none waits behind another.
//! A separate thread sends each ping when it is due, regardless of earlier answers. So a lost ping
//! delays no other one, and sampling does not depend on the queue. The arrival of an answer is the
//! kernel's timestamp. The time that the server held the ping, which it reports, is subtracted
//! from the RTT. The lateness of each departure is an error of the thread and is reported. So is
//! the time until the kernel sent it, which lengthens the RTT, at both ends. The RTT of a handshake
//! is that of TCP_INFO of the new connection, or for a closed port the time to its refusal. If no
//! datagram is answered at the beginning, a firewall probably drops UDP, and handshakes replace
//! the datagrams.

use crate::digest::random;
use crate::protocols::wire::{Cookie, Kind, PING, Ping};
use crate::sys::datagram::{self, BATCH, Datagram, Outgoing};
use crate::sys::socket::{self, Wanted};
use crate::sys::{self, Epoll};
use narrows_core::engine::Departures;
use narrows_core::rng::Rng;
use narrows_core::scenario::Spacing;
use narrows_core::units::Span;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Time for which answers are awaited after the end, ns.
const GRACE: u64 = 1_000_000_000;
/// Longest sleep, ns.
const LONGEST: u64 = 20_000_000;
/// Largest number of unanswered handshakes.
const OPEN: usize = 64;
/// Time after which a handshake is lost, ns; the kernel retransmits its SYN after one second.
const PATIENCE: u64 = 990_000_000;
/// Time without an answer to a datagram after which handshakes begin, ns.
const SILENT: u64 = 1_200_000_000;

/// A probe.
#[derive(Copy, Clone, Debug)]
pub struct Probe {
    /// Code point.
    pub dscp: u8,
    /// Mean interval.
    pub interval: Span,
    /// Payload, bytes.
    pub size: usize,
}

impl Probe {
    /// The times of its pings in ns from the first interval on. All probes with the same `seed`
    /// have the same random part.
    fn departures(&self, seed: u64) -> impl FnMut() -> u64 {
        let rng = Rng::named(seed, "pings");
        let mut times = Departures::new(self.interval, Spacing::Random, rng);
        move || times.next_ping().as_ns()
    }
}

/// A seed that no other traffic has.
fn seed() -> std::io::Result<u64> {
    Ok(u64::from_le_bytes(random()?))
}

/// A ping.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sent {
    /// Departure, ns of our clock.
    pub at: u64,
    /// RTT, ns, if it was answered.
    pub rtt: Option<u64>,
    /// Arrival at the server, ns of its clock.
    pub received: u64,
    /// Departure of the answer, ns of its clock.
    pub answered: u64,
    /// Arrival of the answer, ns of our clock.
    pub returned: u64,
    /// Number of pings that the server had received then.
    pub count: u32,
}

/// The result of a probe.
#[derive(Clone, Debug, Default)]
pub struct Pings {
    /// The pings in order.
    pub sent: Vec<Sent>,
    /// Code point.
    pub dscp: u8,
    /// Mean interval, ns.
    pub interval: u64,
    /// Payload, bytes.
    pub size: usize,
    /// Code points with which pings arrived at the server, and answers at this host.
    pub arrived: Option<(u8, u8)>,
    /// Lateness of each ping, ns.
    pub late: Vec<u64>,
    /// Time from the timestamp of each ping until the kernel sent it, ns.
    pub leaving: Vec<u64>,
    /// Datagrams for which the socket had no room.
    pub drops: u64,
    /// Whether they are datagrams.
    pub udp: bool,
}

impl Pings {
    fn new(probe: &Probe, udp: bool) -> Pings {
        Pings {
            dscp: probe.dscp,
            interval: probe.interval.as_ns(),
            size: probe.size,
            udp,
            ..Pings::default()
        }
    }
    /// Number of answered pings.
    pub fn received(&self) -> usize {
        self.sent.iter().filter(|ping| ping.rtt.is_some()).count()
    }
}

/// Sends datagrams to `to` until `stop` is set. If none is answered, the result is that of
/// handshakes with the port `closed` of this host, unless nothing answers these either.
pub fn by_datagrams_or_handshakes(
    to: SocketAddr,
    closed: u16,
    cookie: Cookie,
    probes: &[Probe],
    stop: &AtomicBool,
) -> std::io::Result<Vec<Pings>> {
    let answered = AtomicBool::new(false);
    let handshakes = || {
        let patience = sys::monotonic() + SILENT;
        while sys::monotonic() < patience {
            if stop.load(Relaxed) || answered.load(Relaxed) {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_nanos(LONGEST));
        }
        by_handshakes(SocketAddr::new(to.ip(), closed), &probes[0], stop).ok()
    };
    let (pings, instead) = std::thread::scope(|scope| {
        let instead = scope.spawn(handshakes);
        let pings = by_datagrams(to, cookie, probes, stop, &answered);
        (pings, instead.join().ok().flatten())
    });
    let silent = !answered.load(Relaxed);
    match instead.filter(|other| silent && other.received() > 0) {
        Some(other) => pings.map(|_| vec![other]),
        None => pings,
    }
}

/// Sends datagrams to `to` until `stop` is set, and then waits for the last answers. The first
/// answer sets `answered`.
fn by_datagrams(
    to: SocketAddr,
    cookie: Cookie,
    probes: &[Probe],
    stop: &AtomicBool,
    answered: &AtomicBool,
) -> std::io::Result<Vec<Pings>> {
    sys::prefer(-10);
    let any: SocketAddr = if to.is_ipv6() {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    } else {
        (std::net::Ipv4Addr::UNSPECIFIED, 0).into()
    };
    let mut sockets = Vec::new();
    for probe in probes {
        let fd = socket::datagrams(any)?;
        socket::connect_datagrams(&fd, to)?;
        socket::set_class(&fd, probe.dscp << 2);
        sockets.push(fd);
    }
    let fds: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let mut all: Vec<Pings> = probes.iter().map(|probe| Pings::new(probe, true)).collect();
    // Probes of one interval are spread: at the same time they would queue behind each other.
    let (begin, seed) = (sys::monotonic(), seed()?);
    let shift = |i: usize| probes[i].interval.as_ns() * i as u64 / probes.len() as u64;
    let mut departures: Vec<_> = probes.iter().map(|probe| probe.departures(seed)).collect();
    let mut due: Vec<u64> = (0..probes.len())
        .map(|i| begin + shift(i) + departures[i]())
        .collect();
    let mut got: Vec<Datagram> = Vec::with_capacity(BATCH);
    let mut stopped = None;
    loop {
        let now = sys::monotonic();
        if stopped.is_none() && stop.load(Relaxed) {
            stopped = Some(now);
        }
        for (i, probe) in probes.iter().enumerate() {
            let (pings, socket) = (&mut all[i], &sockets[i]);
            while stopped.is_none() && due[i] <= now {
                let at = sys::monotonic();
                pings.late.push(at.saturating_sub(due[i]));
                let ping = Ping {
                    kind: Kind::Question,
                    class: 0,
                    probe: i as u8,
                    cookie,
                    number: pings.sent.len() as u32,
                    sent: at,
                    received: 0,
                    answered: 0,
                    count: 0,
                };
                let datagram = Outgoing {
                    to: None,
                    class: None,
                    head: datagram::header(&ping.to_bytes()),
                    head_len: PING,
                    len: probe.size.max(PING),
                };
                // A ping for which the device has no room is lost.
                let _ = datagram::send(socket, &[datagram], false);
                pings.leaving.push(sys::monotonic() - at);
                pings.sent.push(Sent {
                    at,
                    ..Sent::default()
                });
                due[i] = begin + shift(i) + departures[i]();
            }
            got.clear();
            if let Ok(Some(lost)) = datagram::receive(socket, &mut got) {
                pings.drops = lost.into();
            }
            let (wall, even) = (sys::realtime(), sys::monotonic());
            for datagram in &got {
                let returned = even.saturating_sub(wall.saturating_sub(datagram.stamp));
                take(pings, datagram, &cookie, returned);
            }
            if pings.arrived.is_some() {
                answered.store(true, Relaxed);
            }
        }
        let open = all.iter().any(|pings| pings.received() < pings.sent.len());
        if let Some(stopped) = stopped {
            if !open || now > stopped + GRACE {
                return Ok(all);
            }
        }
        let next = due.iter().min().copied().filter(|_| stopped.is_none());
        let wait = next.unwrap_or(u64::MAX).saturating_sub(sys::monotonic());
        if got.len() < BATCH {
            sys::wait_readable(&fds, wait.min(LONGEST))?;
        }
    }
}

/// Records a datagram if it is the first answer to a ping.
fn take(pings: &mut Pings, datagram: &Datagram, cookie: &Cookie, returned: u64) {
    let Some(answer) = Ping::from_bytes(datagram.bytes()) else {
        return;
    };
    if answer.kind != Kind::Answer || answer.cookie != *cookie {
        return;
    }
    let Some(sent) = pings.sent.get_mut(answer.number as usize) else {
        return;
    };
    if sent.rtt.is_some() {
        return;
    }
    let held = answer.answered.saturating_sub(answer.received);
    sent.rtt = Some(returned.saturating_sub(sent.at).saturating_sub(held));
    (sent.received, sent.answered, sent.returned, sent.count) =
        (answer.received, answer.answered, returned, answer.count);
    pings.arrived = Some((answer.class >> 2, datagram.class >> 2));
}

/// Measures handshakes with `to`; `refused`: the port is closed, and a refusal is an answer.
pub fn by_handshakes(to: SocketAddr, probe: &Probe, stop: &AtomicBool) -> std::io::Result<Pings> {
    sys::prefer(-10);
    let epoll = Epoll::new()?;
    let wanted = Wanted {
        dscp: probe.dscp,
        ..Wanted::default()
    };
    let mut pings = Pings::new(probe, false);
    let mut open: Vec<(usize, OwnedFd)> = Vec::new();
    let (begin, mut departures) = (sys::monotonic(), probe.departures(seed()?));
    let mut due = begin + departures();
    loop {
        let now = sys::monotonic();
        let stopping = stop.load(Relaxed);
        if !stopping && due <= now {
            pings.late.push(now - due);
            due = begin + departures();
            pings.sent.push(Sent {
                at: now,
                ..Sent::default()
            });
            if open.len() < OPEN {
                match socket::connect(to, &wanted) {
                    Ok(fd) => {
                        epoll.add(&fd, sys::WRITABLE, pings.sent.len() as u64 - 1)?;
                        open.push((pings.sent.len() - 1, fd));
                    }
                    // A refusal by this host arrives at once.
                    Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                        let at = sys::monotonic();
                        if let Some(sent) = pings.sent.last_mut() {
                            (sent.rtt, sent.returned) = (Some(at - sent.at), at);
                        }
                    }
                    Err(_) => {}
                }
            }
        }
        open.retain(|(number, _)| now.saturating_sub(pings.sent[*number].at) < PATIENCE);
        if stopping && open.is_empty() {
            return Ok(pings);
        }
        let wait = if stopping {
            LONGEST
        } else {
            due.saturating_sub(sys::monotonic()).min(LONGEST)
        };
        for (_, number) in epoll.wait(wait)? {
            let at = sys::monotonic();
            let Some(place) = open.iter().position(|(n, _)| *n as u64 == number) else {
                continue;
            };
            let (number, fd) = open.swap_remove(place);
            let sent = &mut pings.sent[number];
            match socket::error(&fd) {
                None => {
                    let measured = sys::tcp_info(&fd).map_or(0, |info| u64::from(info.rtt) * 1000);
                    sent.rtt = Some(if measured > 0 { measured } else { at - sent.at });
                    sent.returned = at;
                    let _ = sys::set_reset(&fd);
                }
                Some(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    (sent.rtt, sent.returned) = (Some(at - sent.at), at);
                }
                Some(_) => {}
            }
        }
    }
}
