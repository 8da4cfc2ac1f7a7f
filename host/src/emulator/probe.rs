//! Pings: datagrams with 64 bytes of payload over the emulated path, each answered at once by the
//! far host.
//!
//! One ping is sent in each interval ([`Departures`]). The arrival of an answer is the kernel's
//! timestamp, so a late reader does not lengthen the RTT. A late responder does lengthen it; its
//! thread has a real-time class if permitted.

use crate::error::HostError;
use crate::sys;
use crate::sys::clock::Clock;
use narrows_core::engine::Departures;
use narrows_core::metrics::ProbeMeter;
use narrows_core::units::{Span, Time};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Payload of a ping, bytes.
const PAYLOAD: usize = 64;
/// Time for which answers are awaited after the last ping.
const GRACE: Span = Span::s(2);
/// Longest sleep. A request to stop is noticed within this time.
const LONGEST: Span = Span::ms(50);
/// Real-time priority, below that of the forwarding thread.
const PRIORITY: i32 = 10;

/// A probe.
#[derive(Clone, Debug)]
pub struct Pinging {
    /// Times of the pings.
    pub departures: Departures,
    /// DSCP of pings and answers.
    pub dscp: u8,
    /// Source address and port of the pings.
    pub from: SocketAddr,
    /// Address and port of the responder.
    pub to: SocketAddr,
}

fn bind(at: SocketAddr, dscp: u8) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    let fd = OwnedFd::from(socket);
    sys::set_dscp(&fd, dscp)?;
    Ok(fd.into())
}

/// The probes at the near host, whose namespace this thread has entered.
pub struct Probes(Vec<(Pinging, UdpSocket, ProbeMeter)>);

impl Probes {
    /// Creates their sockets.
    pub fn new(probes: &[Pinging]) -> Result<Probes, HostError> {
        let ready = |probe: &Pinging| {
            let socket = bind(probe.from, probe.dscp)?;
            socket.connect(probe.to)?;
            sys::set_stamps(&socket)?;
            Ok((probe.clone(), socket, ProbeMeter::new()))
        };
        let probes: std::io::Result<_> = probes.iter().map(ready).collect();
        Ok(Probes(
            probes.map_err(HostError::failed("the socket of a probe"))?,
        ))
    }
    /// Sends pings until `end` and then waits for the last answers.
    pub fn run(
        mut self,
        clock: Clock,
        end: Time,
        stop: &AtomicBool,
    ) -> Result<Vec<ProbeMeter>, HostError> {
        sys::prefer(-10);
        sys::real_time(PRIORITY);
        clock.sleep_until(Time::ZERO);
        let fds: Vec<_> = self
            .0
            .iter()
            .map(|(_, socket, _)| socket.as_raw_fd())
            .collect();
        let first = |(probe, _, _): &mut (Pinging, _, _)| probe.departures.next_ping();
        let mut due: Vec<Time> = self.0.iter_mut().map(first).collect();
        let mut open = 0_u64;
        let mut content = [0_u8; PAYLOAD];
        loop {
            let now = clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(HostError::Stopped);
            }
            for ((probe, socket, meter), due) in self.0.iter_mut().zip(&mut due) {
                while *due <= now && *due < end {
                    let number = meter.sent(clock.now());
                    content[..8].copy_from_slice(&number.to_le_bytes());
                    // A ping is lost if a buffer of the kernel is full.
                    let _ = socket.send(&content);
                    open += 1;
                    *due = probe.departures.next_ping();
                }
                let mut answer = [0_u8; PAYLOAD];
                while let Ok(Some((PAYLOAD, stamp))) = sys::receive_stamped(socket, &mut answer) {
                    let number = answer
                        .first_chunk()
                        .map_or(u64::MAX, |n| u64::from_le_bytes(*n));
                    meter.received(clock.of_stamp(stamp), number);
                    open = open.saturating_sub(1);
                }
            }
            let next = due.iter().copied().filter(|at| *at < end).min();
            let until = next.unwrap_or(end + GRACE);
            if next.is_none() && (open == 0 || now >= until) {
                return Ok(self.0.into_iter().map(|(_, _, meter)| meter).collect());
            }
            let wait = until.min(now + LONGEST).since(clock.now());
            sys::wait_readable(&fds, wait.as_ns())
                .map_err(HostError::failed("waiting for answers"))?;
        }
    }
}

/// The responders at a far host, whose namespace this thread has entered.
pub struct Echoes(Vec<UdpSocket>);

impl Echoes {
    /// Creates their sockets.
    pub fn new(probes: &[Pinging]) -> Result<Echoes, HostError> {
        let sockets: std::io::Result<_> = probes
            .iter()
            .map(|probe| bind(probe.to, probe.dscp))
            .collect();
        Ok(Echoes(
            sockets.map_err(HostError::failed("the socket of an echo"))?,
        ))
    }
    /// Answers until `stop` is set.
    pub fn run(self, stop: &AtomicBool) -> Result<(), HostError> {
        sys::prefer(-10);
        sys::real_time(PRIORITY);
        let fds: Vec<_> = self.0.iter().map(AsRawFd::as_raw_fd).collect();
        let mut content = [0_u8; 2 * PAYLOAD];
        while !stop.load(Ordering::Relaxed) {
            for socket in &self.0 {
                while let Ok((n, from)) = socket.recv_from(&mut content) {
                    let _ = socket.send_to(&content[..n], from);
                }
            }
            sys::wait_readable(&fds, LONGEST.as_ns())
                .map_err(HostError::failed("waiting for pings"))?;
        }
        Ok(())
    }
}
