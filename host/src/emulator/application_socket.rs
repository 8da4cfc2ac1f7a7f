//! Sockets of flows with a workload: their options, and the tokens that identify them in epoll
//! events.

use crate::emulator::application::Spec;
use crate::emulator::traffic::info;
use crate::error::HostError;
use crate::sys;
use narrows_core::tcp::Info;
use narrows_core::workload::Conn;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// The kind of a socket.
#[derive(Copy, Clone)]
pub enum Kind {
    /// Accepts connections.
    Listener,
    /// Sends and receives datagrams.
    Datagrams,
    /// One end of this connection.
    Connection(Conn),
}

/// The epoll token of a socket: flow, kind, connection and side.
pub fn token(app: usize, kind: Kind, side: usize) -> u64 {
    let (kind, conn) = match kind {
        Kind::Listener => (0, 0),
        Kind::Datagrams => (1, 0),
        Kind::Connection(conn) => (2, conn),
    };
    (app as u64) << 40 | u64::from(conn) << 8 | kind << 1 | side as u64
}

/// Flow, kind and side of a token.
pub fn of_token(token: u64) -> (usize, Kind, usize) {
    let kind = match token >> 1 & 0x7f {
        0 => Kind::Listener,
        1 => Kind::Datagrams,
        _ => Kind::Connection((token >> 8) as u32),
    };
    ((token >> 40) as usize, kind, (token & 1) as usize)
}

/// The error for a failed connection of a flow.
pub fn broken(id: &str, error: &std::io::Error) -> HostError {
    HostError::Broken(format!("flow {id}: {error}"))
}

/// The state of a connection from the kernel (`TCP_INFO`).
pub fn asked(socket: &OwnedFd) -> Info {
    sys::tcp_info(socket).map_or_else(|_| Info::default(), |told| info(&told))
}

/// Sets the options that both ends of a connection have.
pub fn prepared(socket: &OwnedFd, spec: &Spec) -> std::io::Result<()> {
    sys::choose_cc(socket, &spec.cc)?;
    sys::set_notsent_lowat(socket, spec.notsent_lowat)?;
    sys::set_dscp(socket, spec.dscp)?;
    sys::set_reset(socket)?;
    sys::socket::no_delay(socket);
    Ok(())
}

/// Opens the listening socket of a flow at a side.
pub fn listening(spec: &Spec, side: usize) -> std::io::Result<OwnedFd> {
    let listener = sys::socket::listen(spec.at[side])?;
    // An accepted socket has the congestion control of its listening socket.
    sys::choose_cc(&listener, &spec.cc)?;
    sys::set_dscp(&listener, spec.dscp)?;
    Ok(listener)
}

/// A datagram socket between two addresses.
pub fn datagrams(at: SocketAddr, to: SocketAddr, dscp: u8) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    let fd = OwnedFd::from(socket);
    sys::set_dscp(&fd, dscp)?;
    Ok(fd.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_one_socket() {
        let named = token(7, Kind::Connection(0x1234_5678), 1);
        let (app, kind, side) = of_token(named);
        assert!(matches!(kind, Kind::Connection(0x1234_5678)));
        assert_eq!((app, side), (7, 1));
        assert!(matches!(
            of_token(token(0, Kind::Datagrams, 0)).1,
            Kind::Datagrams
        ));
        assert!(matches!(
            of_token(token(999, Kind::Listener, 1)).1,
            Kind::Listener
        ));
    }
}
