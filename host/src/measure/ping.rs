//! Pings of a measurement: UDP datagrams with the cookie of the session, or TCP handshakes with
//! other servers.
//!
//! Each interval has one ping at a random time, so that no cross traffic is synchronized with the
//! pings. Probes with different code points use the same random times with different offsets, so
//! that no ping waits behind another. A separate thread sends each ping when it is due, regardless
//! of earlier answers. A lost ping therefore delays no other one, and the times of the pings do not
//! depend on the queue. The arrival of an answer is the kernel's timestamp. The time between
//! arrival and answer at the server, which the server reports, is subtracted from the RTT. Two
//! errors are reported: how late each ping was sent, and how long the send call of each ping took,
//! which lengthens the RTT. The RTT of a handshake is that of TCP_INFO of the new connection, or
//! for a closed port the time until the reset. If no datagram is answered at the beginning, a
//! firewall probably drops UDP, and the result is that of handshakes instead.

use super::interval::Pinged;
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

/// Time for which answers are awaited after the last ping, ns.
const GRACE: u64 = 1_000_000_000;
/// Longest sleep, ns.
const LONGEST: u64 = 20_000_000;
/// Largest number of concurrent handshakes.
const OPEN: usize = 64;
/// Time after which an unanswered handshake counts as lost, ns. It is less than the second after
/// which the kernel retransmits a SYN.
const PATIENCE: u64 = 990_000_000;
/// Time without an answer to any datagram after which handshakes begin, ns.
const SILENT: u64 = 1_200_000_000;

/// A series of pings.
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
    /// Returns the departure times of the pings one after the other, in ns since the start. Probes
    /// with the same interval and `seed` have the same times.
    fn departures(&self, seed: u64) -> impl FnMut() -> u64 {
        let rng = Rng::named(seed, "pings");
        let mut times = Departures::new(self.interval, Spacing::Random, rng);
        move || times.next_ping().as_ns()
    }
}

/// A random seed.
fn seed() -> std::io::Result<u64> {
    Ok(u64::from_le_bytes(random()?))
}

/// A ping and its answer.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sent {
    /// Departure, ns of this host's clock.
    pub at: u64,
    /// RTT without the time at the server, ns; `None` if the ping was not answered.
    pub rtt: Option<u64>,
    /// Arrival at the server, ns of the server's clock.
    pub received: u64,
    /// Departure of the answer, ns of the server's clock.
    pub answered: u64,
    /// Arrival of the answer, ns of this host's clock.
    pub returned: u64,
    /// Number of pings of this probe that the server had received when it answered.
    pub count: u32,
}

/// The pings of a probe and their results.
#[derive(Clone, Debug, Default)]
pub struct Pings {
    /// The pings in the order of their departure.
    pub sent: Vec<Sent>,
    /// Code point.
    pub dscp: u8,
    /// Mean interval, ns.
    pub interval: u64,
    /// Payload, bytes.
    pub size: usize,
    /// DSCP with which the last answered ping arrived at the server, and DSCP of its answer at this
    /// host.
    pub arrived: Option<(u8, u8)>,
    /// How late each ping was sent, ns.
    pub late: Vec<u64>,
    /// Time from the timestamp in each ping until the send call returned, ns.
    pub leaving: Vec<u64>,
    /// Number of answers that were dropped because the buffer of the socket was full.
    pub drops: u64,
    /// Whether the pings are UDP datagrams; otherwise TCP handshakes.
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

/// Pings `to` by datagrams until `pinged` requests the end. If none is answered, the result is that
/// of handshakes with the TCP port `closed` of the same address, unless these are not answered
/// either.
pub fn by_datagrams_or_handshakes(
    to: SocketAddr,
    closed: u16,
    cookie: Cookie,
    probes: &[Probe],
    pinged: &Pinged,
) -> std::io::Result<Vec<Pings>> {
    let answered = AtomicBool::new(false);
    let handshakes = || {
        let patience = sys::monotonic() + SILENT;
        while sys::monotonic() < patience {
            if pinged.stopping() || answered.load(Relaxed) {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_nanos(LONGEST));
        }
        by_handshakes(SocketAddr::new(to.ip(), closed), &probes[0], pinged).ok()
    };
    let (pings, instead) = std::thread::scope(|scope| {
        let instead = scope.spawn(handshakes);
        let pings = by_datagrams(to, cookie, probes, pinged, &answered);
        (pings, instead.join().ok().flatten())
    });
    let silent = !answered.load(Relaxed);
    match instead.filter(|other| silent && other.received() > 0) {
        Some(other) => pings.map(|_| vec![other]),
        None => pings,
    }
}

/// Pings `to` by datagrams until `shared` requests the end, and then waits for the last answers.
/// The first answer sets `answered`.
fn by_datagrams(
    to: SocketAddr,
    cookie: Cookie,
    probes: &[Probe],
    shared: &Pinged,
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
    // The pings of the probes are spread over the interval, so that they do not queue behind each
    // other.
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
        if stopped.is_none() && shared.stopping() {
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
                    departs: None,
                    head: datagram::header(&ping.to_bytes()),
                    head_len: PING,
                    len: probe.size.max(PING),
                };
                // A ping that cannot be sent, because a buffer is full, counts as lost.
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
                if let Some(rtt) = take(pings, datagram, &cookie, returned) {
                    shared.answered(rtt);
                }
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

/// Records a datagram if it is the first answer to a ping, and then returns its RTT, ns.
fn take(pings: &mut Pings, datagram: &Datagram, cookie: &Cookie, returned: u64) -> Option<u64> {
    let answer = Ping::from_bytes(datagram.bytes())?;
    if answer.kind != Kind::Answer || answer.cookie != *cookie {
        return None;
    }
    let sent = pings.sent.get_mut(answer.number as usize)?;
    if sent.rtt.is_some() {
        return None;
    }
    let held = answer.answered.saturating_sub(answer.received);
    sent.rtt = Some(returned.saturating_sub(sent.at).saturating_sub(held));
    (sent.received, sent.answered, sent.returned, sent.count) =
        (answer.received, answer.answered, returned, answer.count);
    pings.arrived = Some((answer.class >> 2, datagram.class >> 2));
    sent.rtt
}

/// Pings `to` by TCP handshakes until `shared` requests the end. If the port is closed, the reset
/// counts as the answer.
pub fn by_handshakes(to: SocketAddr, probe: &Probe, shared: &Pinged) -> std::io::Result<Pings> {
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
        let stopping = shared.stopping();
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
                    // If `to` is this host, the reset arrives during the call.
                    Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                        let at = sys::monotonic();
                        if let Some(sent) = pings.sent.last_mut() {
                            (sent.rtt, sent.returned) = (Some(at - sent.at), at);
                            shared.answered(at - sent.at);
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
            if let Some(rtt) = sent.rtt {
                shared.answered(rtt);
            }
        }
    }
}
