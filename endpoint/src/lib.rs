//! The interface of transports outside of narrows.
//!
//! A transport is a protocol implementation without I/O, for example a QUIC stack. An adapter
//! implements [`Endpoint`] for one end of a connection. The simulator passes datagrams between two
//! endpoints over its path. The simulator calls the endpoints in virtual time: an endpoint reads no
//! clock.
//!
//! ```text
//!                 handle ──▶ ┌──────────┐ ──▶ poll     a datagram with its ECN bits
//!   start, offer, on_timeout │ Endpoint │ ──▶ timeout  time of the next timer
//!                        ──▶ └──────────┘ ──▶ stats    window, RTT, losses
//! ```
//!
//! **Order of calls.** After every call of `start`, `handle`, `offer` or `on_timeout`, the
//! simulator calls `poll` until it returns `None`, and then `timeout`. It calls `on_timeout` at the
//! time that `timeout` returned, not earlier and not later.
//!
//! **Determinism.** Equal settings and equal calls must give datagrams of equal sizes at equal
//! times. Random numbers come from [`Setting::seed`]. The contents of datagrams may differ, for
//! example by the random numbers of TLS.
//!
//! | module | contents |
//! |---|---|
//! | this one | the trait that an adapter implements |
//! | [`raw`] | the C interface of a shared library, and [`export!`] |
#![no_std]
extern crate alloc;

pub mod raw;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// No bound on the application's data ([`Endpoint::offer`]).
pub const UNLIMITED: u64 = u64::MAX;

/// The ECN bits of the IP header, with their values there (RFC 3168, section 5).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The value of the two low bits of `bits`.
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The role of an endpoint in its connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// The source of the data. It opens the connection.
    Sender,
    /// The destination of the data. It accepts the connection.
    Receiver,
}

/// The settings of a new endpoint.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Setting<'a> {
    /// The role of the endpoint.
    pub role: Role,
    /// The congestion control, one of [`Kind::ccs`].
    pub cc: &'a str,
    /// Whether the endpoint may use ECN.
    pub ecn: bool,
    /// Seed of all random choices; both ends of a connection have the same one.
    pub seed: u64,
    /// Largest IP packet of the path in bytes, headers included.
    pub mtu: u32,
}

/// Counters and state of an endpoint. A value that the stack does not report is zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Stats {
    /// Application bytes that the peer sent and the application has read in order.
    pub delivered: u64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time in ns.
    pub srtt: u64,
    /// Minimum round-trip time in ns.
    pub min_rtt: u64,
    /// Packets that the sender declared lost.
    pub lost_packets: u64,
    /// Bytes that the sender declared lost.
    pub lost_bytes: u64,
    /// Congestion events: reductions of the window.
    pub congestion_events: u64,
    /// Bytes of a full datagram, by which narrows converts bytes to packets.
    pub datagram: u64,
}

/// One end of a connection.
pub trait Endpoint: Send {
    /// The flow starts. The sender opens the connection.
    fn start(&mut self, now: Nanos);
    /// A datagram arrives, with the ECN bits that it has at its arrival.
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], ecn: Ecn);
    /// Appends the next datagram to `buffer`, which is empty, and returns its ECN bits. `None` if
    /// the endpoint sends nothing at this time.
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn>;
    /// Returns the time of the next timer, pacing included; `None` if no timer is armed.
    fn timeout(&self) -> Option<Nanos>;
    /// The time that [`timeout`](Self::timeout) returned has come.
    fn on_timeout(&mut self, now: Nanos);
    /// The application writes until it has written `total` bytes since the start; [`UNLIMITED`] for
    /// as many as the transport takes. `offer(now, 0)` stops the application; data that it has
    /// already written is still sent.
    fn offer(&mut self, now: Nanos, total: u64);
    /// Counters and state.
    fn stats(&self) -> Stats;
    /// The problem that prevents the endpoint from continuing, for example a closed connection;
    /// `None` if there is none. The run ends with this text.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// The constructor of an endpoint.
pub type Open = dyn Fn(&Setting<'_>) -> Result<Box<dyn Endpoint>, String> + Send + Sync;

/// A transport.
#[derive(Clone)]
pub struct Kind {
    /// The name of the transport in a scenario: lower-case letters, digits and underscores.
    pub name: &'static str,
    /// Package and version of the stack, such as `quinn-proto 0.11.19`.
    pub version: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Congestion controls, the default first.
    pub ccs: Vec<&'static str>,
    /// Bytes of a frame outside of the datagram: 42 for UDP over IPv4 over Ethernet, 14 if the
    /// datagram is an IP packet.
    pub headers: u16,
    /// Creates an endpoint.
    pub open: &'static Open,
}

impl core::fmt::Debug for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish()
    }
}

/// Ethernet, IPv4 and UDP headers in bytes.
pub const UDP_HEADERS: u16 = 14 + 20 + 8;
/// The Ethernet header in bytes.
pub const ETHERNET_HEADER: u16 = 14;
