//! Stands in for QUIC in builds without the feature `quic`.

use crate::measure::bulk::{Budget, Role};
use crate::measure::datagram_flow::DatagramFlow;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whether this program has the transport.
pub const PRESENT: bool = false;
/// Length of a public key, bytes.
pub const KEY: usize = 44;
/// The public key of a server.
pub type PublicKey = [u8; KEY];

fn missing<T>() -> std::io::Result<T> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// The congestion control of that name; there is none.
pub fn cc(_: Option<&str>) -> Result<&'static str, String> {
    Err("this program was built without QUIC".into())
}

/// The public key of this process; there is none.
pub fn public_key() -> std::io::Result<PublicKey> {
    missing()
}

/// The end of a server; there is none.
pub fn accept(
    _: Role,
    _: &'static str,
    _: SocketAddr,
    _: u8,
    _: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    missing()
}

/// The end of a client; there is none.
pub fn connect(
    _: Role,
    _: &'static str,
    _: (PublicKey, SocketAddr),
    _: u8,
    _: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    missing()
}
