//! The [`Line`] that is a UDP socket.

use super::exchange::Line;
use super::policy::Policy;
use crate::HostError;
use crate::sys;
use crate::sys::timed_socket::{Even, Got, Left, TimedSocket};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Number of attempts to get a source port above the server's port.
const TRIES: usize = 32;

/// A line over a connected UDP socket.
pub struct RealLine {
    /// The socket.
    pub socket: TimedSocket,
    even: Even,
    left: VecDeque<Left>,
    spins: bool,
}

impl RealLine {
    /// Opens a socket connected to `to`, with that traffic class. `stamps`: kernel timestamps are
    /// requested. The calling thread must have entered the policy.
    pub fn new(
        to: SocketAddr,
        class: u8,
        stamps: bool,
        policy: &Policy,
    ) -> Result<RealLine, HostError> {
        let any: SocketAddr = if to.is_ipv6() {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        };
        // An echo of narrows limits the answers to a client whose port is not above its own,
        // because that could be another echo.
        let mut lower = Vec::new();
        let socket = loop {
            let socket = TimedSocket::new(any, Some(to), stamps, false)
                .map_err(|e| HostError::Missing(format!("{to}: {e}; is there a route to it?")))?;
            let above = socket.local().is_ok_and(|at| at.port() > to.port());
            if above || lower.len() == TRIES {
                break socket;
            }
            // Rejected sockets stay open until the loop ends, so that the kernel selects other
            // ports.
            lower.push(socket);
        };
        crate::sys::socket::set_class(socket.fd(), class);
        policy.apply(socket.fd())?;
        Ok(RealLine {
            socket,
            even: Even::new(),
            left: VecDeque::new(),
            spins: policy.spins(),
        })
    }
    fn evened(&self, mut got: Got) -> Got {
        got.stamp = self.even.of(got.stamp);
        got
    }
}

impl Line for RealLine {
    fn now(&mut self) -> u64 {
        sys::monotonic()
    }
    fn ahead(&self) -> u64 {
        self.even.ahead()
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        self.socket.send(bytes, None, None)
    }
    fn wait(&mut self, to: &mut [u8], until: u64, exact: bool) -> io::Result<Option<Got>> {
        let now = sys::monotonic();
        self.even.renew(now);
        if self.spins {
            while sys::monotonic() < until {
                if let Some(got) = self.socket.receive(to)? {
                    return Ok(Some(self.evened(got)));
                }
                std::hint::spin_loop();
            }
            return Ok(None);
        }
        let got = if exact {
            if self.socket.wait_until(until, now)? {
                while let Some(left) = self.socket.departure() {
                    self.left.push_back(left);
                }
            }
            self.socket.receive(to)?
        } else {
            self.socket.wait_for(to)?
        };
        Ok(got.map(|got| self.evened(got)))
    }
    fn rest(&mut self, until: u64) {
        self.even.renew(sys::monotonic());
        if self.spins {
            while sys::monotonic() < until && !sys::stopped() {
                std::hint::spin_loop();
            }
        } else {
            sys::sleep_until(until);
        }
    }
    fn departure(&mut self) -> Option<Left> {
        let mut left = self.left.pop_front().or_else(|| self.socket.departure())?;
        left.stamp = self.even.of(left.stamp);
        Some(left)
    }
    fn tells_departures(&self) -> bool {
        self.socket.stamps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_above_that_of_the_far_end_is_chosen_where_there_is_one() {
        for (port, above) in [(7777, true), (45_000, true), (65_535, false)] {
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let line = RealLine::new(to, 0, false, &Policy::default()).expect("a socket");
            assert_eq!(
                line.socket.local().expect("its address").port() > port,
                above
            );
        }
    }
}
