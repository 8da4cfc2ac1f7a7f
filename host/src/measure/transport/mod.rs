//! Load by transports of this program over UDP. The first one is the sender and the receiver of the
//! simulator, driven by a clock. Any congestion control of the registry can send over a real path,
//! without a kernel that has it. The second one is QUIC ([`quic`]).
//!
//! | file | contents |
//! |---|---|
//! | [`segment`] | segments and ACKs as datagrams |
//! | [`terms`] | what both ends agree on, and the settings of a host's TCP |
//! | [`breaker`] | the circuit breaker, which ends a flow whose losses stay too high |
//! | [`flow`] | one end of a flow: its state machine and its socket |
//! | [`quic`] | one end of a flow over QUIC |
//!
//! **Opening.** A session of [`crate::serve`] opens the stream over its control connection, which
//! has proved the client's address and, if required, the token. Then the client sends a datagram
//! with the cookie of the session ([`Opening`](crate::protocols::wire::Opening)). The server
//! answers it by one of equal length, with a random key. A second datagram with this key proves
//! that the client receives at its address and port. Only then does the server connect a socket to
//! the client, and the stream may start. Every further datagram carries the key, or is one of QUIC.
//!
//! **Congestion.** The rate is that of the congestion control. RFC 8085 section 3.1 requires this
//! of a bulk transfer over UDP. The circuit breaker is that of RFC 8084.
//!
//! **Differences from TCP of the kernel.** The thread that drives a flow is scheduled as all
//! others, so ACKs and paced packets may leave some 10 µs late. A full send buffer of the socket
//! takes the place of TCP small queues. The queue discipline `fq` paces the packets only with the
//! [pacer](crate::measure::pacer) `txtime`.

pub mod breaker;
pub mod flow;
#[cfg_attr(not(feature = "quic"), path = "no_quic.rs")]
pub mod quic;
pub mod segment;
pub mod terms;

pub use flow::Flow;
pub use terms::{Terms, cc};

use crate::measure::bulk::{Budget, Role};
use crate::measure::datagram_flow::DatagramFlow;
use crate::measure::pacer::Pacer;
use narrows_core::cc::CcKind;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whether this program has the transport.
pub const PRESENT: bool = true;

/// One end of a flow of narrows' own TCP ([`Flow::new`]).
pub fn own(
    role: Role,
    cc: (&CcKind, Pacer),
    terms: Terms,
    to: (segment::Key, SocketAddr),
    dscp: u8,
    budget: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    let flow = Flow::new(role, cc, terms, to, dscp, budget)?;
    Ok(Box::new(flow))
}
