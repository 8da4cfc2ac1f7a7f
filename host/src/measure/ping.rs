//! Pings of a measurement: evenly, over UDP with the session's cookie, or as TCP handshakes where
//! the other end has no such thing.
//!
//! A thread of its own sends each when it is due, and not when the last was answered: a lost one
//! delays nothing, and a queue is seen as it is. An answer's time is the kernel's stamp. From a
//! round trip the time that the far end held the ping is taken off, which it tells. How late each
//! left is the thread's own error, and is told, too; so is how long the kernel took to send it, by
//! which a round trip is too long, at either end. A handshake's round trip is what the kernel
//! measured (TCP_INFO of the new connection), or, from a port where nothing listens, the time to
//! its refusal.

use crate::protocols::wire::{Cookie, Kind, PING, Ping};
use crate::sys::datagram::{self, BATCH, Datagram, Outgoing};
use crate::sys::socket::{self, Wanted};
use crate::sys::{self, Epoll};
use narrows_core::units::Span;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How long answers are awaited after the end, ns.
const GRACE: u64 = 1_000_000_000;
/// The longest sleep, ns.
const LONGEST: u64 = 20_000_000;
/// Handshakes at once that are not answered.
const OPEN: usize = 64;
/// One that is not answered by then is lost, ns; the kernel sends its own SYN again after one
/// second.
const PATIENCE: u64 = 990_000_000;

/// One probe.
#[derive(Copy, Clone, Debug)]
pub struct Probe {
    /// Code point.
    pub dscp: u8,
    /// From one to the next.
    pub interval: Span,
    /// Bytes of payload.
    pub size: usize,
}

/// One ping that was sent.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sent {
    /// When, ns of our clock.
    pub at: u64,
    /// Round trip, ns, if it was answered.
    pub rtt: Option<u64>,
    /// When the far end got it, ns of its clock.
    pub received: u64,
    /// When it answered.
    pub answered: u64,
    /// When the answer came, ns of ours.
    pub back: u64,
    /// How many the far end had got then.
    pub count: u32,
}

/// What came of a probe.
#[derive(Clone, Debug, Default)]
pub struct Pings {
    /// In order.
    pub sent: Vec<Sent>,
    /// Code point.
    pub dscp: u8,
    /// ns.
    pub interval: u64,
    /// Bytes of payload.
    pub size: usize,
    /// The code point with which they arrived at the far end, and their answers here.
    pub arrived: Option<(u8, u8)>,
    /// How late each left, ns.
    pub late: Vec<u64>,
    /// How long each took the kernel from the time that it bears until it was on its way, ns.
    pub leaving: Vec<u64>,
    /// Datagrams that the socket had no room for.
    pub drops: u64,
    /// Are they datagrams?
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
    /// How many were answered.
    pub fn received(&self) -> usize {
        self.sent.iter().filter(|ping| ping.rtt.is_some()).count()
    }
}

/// Pings `to` by datagrams until it is told to stop, and then waits for the last answers.
pub fn by_datagrams(
    to: SocketAddr,
    cookie: Cookie,
    probes: &[Probe],
    stop: &AtomicBool,
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
    // Probes of one interval do not leave at the same instant: they would queue behind each other.
    let begin = sys::monotonic();
    let shift = |i: usize| probes[i].interval.as_ns() * i as u64 / probes.len() as u64;
    let mut due: Vec<u64> = (0..probes.len()).map(|i| begin + shift(i)).collect();
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
                // One that the device has no room for is lost like any other.
                let _ = datagram::send(socket, &[datagram], false);
                pings.leaving.push(sys::monotonic() - at);
                pings.sent.push(Sent {
                    at,
                    ..Sent::default()
                });
                due[i] += probe.interval.as_ns();
            }
            got.clear();
            if let Ok(Some(lost)) = datagram::receive(socket, &mut got) {
                pings.drops = lost.into();
            }
            let (wall, even) = (sys::realtime(), sys::monotonic());
            for datagram in &got {
                let back = even.saturating_sub(wall.saturating_sub(datagram.stamp));
                take(pings, datagram, &cookie, back);
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

/// An answer, if it is one of ours and the first of its number.
fn take(pings: &mut Pings, datagram: &Datagram, cookie: &Cookie, back: u64) {
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
    sent.rtt = Some(back.saturating_sub(sent.at).saturating_sub(held));
    (sent.received, sent.answered, sent.back, sent.count) =
        (answer.received, answer.answered, back, answer.count);
    pings.arrived = Some((answer.class >> 2, datagram.class >> 2));
}

/// Pings `to` by TCP handshakes; `refused`: nothing listens there, and a refusal is an answer.
pub fn by_handshakes(to: SocketAddr, probe: &Probe, stop: &AtomicBool) -> std::io::Result<Pings> {
    sys::prefer(-10);
    let epoll = Epoll::new()?;
    let wanted = Wanted {
        dscp: probe.dscp,
        ..Wanted::default()
    };
    let mut pings = Pings::new(probe, false);
    let mut open: Vec<(usize, OwnedFd)> = Vec::new();
    let mut due = sys::monotonic();
    loop {
        let now = sys::monotonic();
        let stopping = stop.load(Relaxed);
        if !stopping && due <= now {
            pings.late.push(now - due);
            due += probe.interval.as_ns();
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
                    // A refusal within this host comes at once.
                    Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                        let at = sys::monotonic();
                        if let Some(sent) = pings.sent.last_mut() {
                            (sent.rtt, sent.back) = (Some(at - sent.at), at);
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
                    sent.back = at;
                    let _ = sys::set_reset(&fd);
                }
                Some(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    (sent.rtt, sent.back) = (Some(at - sent.at), at);
                }
                Some(_) => {}
            }
        }
    }
}
