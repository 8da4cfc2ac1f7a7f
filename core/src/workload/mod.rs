//! Workloads: the applications at both ends of a flow.
//!
//! A workload is a state machine: it receives events with their time, and returns actions. A
//! workload plays both ends, the *server*, the source of a flow's data, and the *client*, its
//! destination. Each end knows only data that has reached it. The engine owns the connections and
//! opens them with the flow's congestion control. Handshakes, requests and responses are packets
//! that pass the path's queues like any others, in both directions.
//!
//! ```text
//!    event  ──▶ ┌──────────┐ ──▶  action
//!   Started     │          │     Open   a connection, by either side
//!   Woke        │ workload │     Write  bytes on it, from either side
//!   Opened      │          │     Close  it: both ends forget it
//!   Arrived     └──────────┘     Send   a datagram
//!   Datagram      │
//!   Refused       └─▶ next_wakeup, metrics
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`draw`] | random sizes and gaps |
//! | `stream` | statistics of numbered datagrams |
//! | `udp` | `udp`, evenly paced, `bursty`, and `poisson_udp` with random arrivals |
//! | `on_off` | `on_off`: alternating on and off periods |
//! | `poisson` | `poisson` and `empirical`: transfers with random arrivals |
//! | [`cdf`] | flow sizes from a file |
//! | `partition` | `partition`: requests to many workers at once |
//! | `web` | `web`: pages |
//! | `rpc` | `rpc`: requests and responses |
//! | `video` | `video`: adaptive bit rate |
//! | `voip` | `voip`: calls |
//! | [`emodel`] | the quality of a call |
//! | `torrent` | `torrent`: peers in both directions |
//! | `rtc` | `gcc` and `scream`: video calls whose rate adapts to the path |
//!
//! The header of each kind states which metrics cover the summary interval and which the whole run.
//!
//! Deviations from real applications on Linux: an ACK is carried by the first segment of a write
//! only if this segment leaves at once. If the segment has to wait for the congestion window, a
//! pure ACK is sent. Connections end without a FIN.

pub mod cdf;
pub mod draw;
pub mod emodel;
mod on_off;
mod partition;
mod poisson;
mod rpc;
mod rtc;
mod stream;
mod torrent;
mod udp;
mod video;
mod voip;
mod web;

use crate::metrics::WorkloadMetrics;
use crate::packet::Ecn;
use crate::packet::Ip;
use crate::param::{Param, Params, Refusal};
use crate::transport::{MOST_MTU, USUAL_MTU};
use crate::units::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// An end of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// The source of its data.
    Server,
    /// The destination of its data.
    Client,
}

/// The identifier of a workload's connection. Identifiers are small numbers that are reused after
/// close, because engines keep a table.
pub type Conn = u32;

/// An event for a workload.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The flow starts.
    Started,
    /// The time that [`Workload::next_wakeup`] returned has come.
    Woke,
    /// The handshake is complete at the side that opened.
    Opened(Conn),
    /// The engine cannot open another connection; the connection with this identifier does not
    /// exist.
    Refused(Conn),
    /// The application at a side has read this many bytes of a connection, in total.
    Arrived {
        /// The connection.
        conn: Conn,
        /// The side.
        at: Side,
        /// Bytes since it was opened.
        bytes: u64,
    },
    /// A datagram arrives, possibly duplicated or out of order.
    Datagram {
        /// The receiving side.
        at: Side,
        /// The number that the datagram was given when it was sent.
        number: u64,
        /// Time of its transmission.
        sent: Time,
        /// UDP payload, bytes.
        bytes: u16,
        /// Whether a queue has marked it (congestion experienced).
        ce: bool,
    },
}

/// An action that a workload requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Open a connection.
    Open {
        /// The identifier of the connection, which no open connection has.
        conn: Conn,
        /// The side that sends the SYN.
        by: Side,
        /// Whether the other side sends data, too.
        answers: bool,
    },
    /// Write to a connection; data written before the connection is open waits.
    Write {
        /// The connection.
        conn: Conn,
        /// The writing side: the one that opened the connection, or, if it was opened with
        /// `answers`, either one.
        from: Side,
        /// Number of bytes.
        bytes: u64,
    },
    /// Close a connection: both ends drop it, with its data in flight.
    Close(Conn),
    /// Send a datagram.
    Send {
        /// The sending side.
        from: Side,
        /// Returned when it arrives.
        number: u64,
        /// UDP payload, at most [`Setting::datagram`].
        bytes: u16,
        /// Its ECN bits.
        ecn: Ecn,
    },
}

/// Maximum UDP payload of an IPv4 packet with the MTU of Ethernet, 1472 bytes.
pub const MOST_DATAGRAM: u16 = USUAL_MTU - Ip::V4.header() - UDP;

/// Maximum UDP payload of an IPv4 packet with the largest MTU of a host.
pub const LARGEST_DATAGRAM: u16 = MOST_MTU - Ip::V4.header() - UDP;

/// UDP header, bytes.
pub const UDP: u16 = 8;

/// Ethernet header, bytes.
const ETHERNET: u16 = 14;

/// Ethernet, IP and UDP headers, bytes.
pub const fn datagram_headers(ip: Ip) -> u16 {
    ETHERNET + ip.header() + UDP
}

/// Both applications of a flow, as one state machine.
pub trait Workload: Send {
    /// Handles an event at `now`; actions are appended to `todo`, and executed in that order.
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>);
    /// Returns the time at which the workload requests [`Event::Woke`].
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// Returns the metrics of the workload, once the flow is over. Datagrams in flight at the end
    /// have been reported by then.
    fn metrics(&self, end: Time) -> WorkloadMetrics;
}

/// The setting of a workload.
#[derive(Copy, Clone, Debug)]
pub struct Setting {
    /// Seed of the workload's random choices.
    pub seed: u64,
    /// End of the warm-up.
    pub from: Time,
    /// The flow's end.
    pub end: Time,
    /// Maximum UDP payload of a packet, bytes.
    pub datagram: u16,
    /// The version of IP.
    pub ip: Ip,
}

/// A kind of workload.
pub struct WorkloadKind {
    /// The name of the workload in a scenario.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The source of its model.
    pub source: &'static str,
    /// The parameters of the workload.
    pub params: &'static [Param],
    /// Checks conditions between parameters.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// The default congestion control of the workload's connections; empty for datagrams.
    pub cc: &'static str,
    /// The traffic of the workload, with these parameters.
    pub traffic: fn(&Params) -> Traffic,
    /// Creates a workload of this kind.
    pub make: fn(&Params, Setting) -> Box<dyn Workload>,
}

/// The traffic of a workload.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Whether the traffic consists of datagrams only.
    pub udp: bool,
    /// Whether the workload sends data in both directions, so that the reverse path should have a
    /// rate.
    pub both_ways: bool,
}

/// Traffic over TCP, with data in the flow's direction only.
fn tcp(_: &Params) -> Traffic {
    Traffic {
        udp: false,
        both_ways: false,
    }
}

/// Traffic of UDP datagrams, in the flow's direction only.
fn datagrams(_: &Params) -> Traffic {
    Traffic {
        udp: true,
        both_ways: false,
    }
}

impl WorkloadKind {
    /// Returns whether the workload sends only datagrams with these parameters, and so needs no
    /// congestion control.
    pub fn is_udp(&self, params: &Params) -> bool {
        (self.traffic)(params).udp
    }
}

/// Every kind.
pub const KINDS: &[WorkloadKind] = &[
    web::KIND,
    video::KIND,
    voip::KIND,
    rpc::KIND,
    poisson::KIND,
    torrent::KIND,
    udp::KIND,
    udp::BURSTY,
    on_off::KIND,
    udp::POISSON,
    poisson::EMPIRICAL,
    partition::KIND,
    rtc::gcc::KIND,
    rtc::scream::KIND,
];

/// The kind called `name`.
pub fn find(name: &str) -> Option<&'static WorkloadKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Identifiers of connections; freed ones are reused.
#[derive(Clone, Debug, Default)]
struct Names {
    next: Conn,
    free: Vec<Conn>,
}

impl Names {
    fn take(&mut self) -> Conn {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
    fn give_back(&mut self, conn: Conn) {
        self.free.push(conn);
    }
}
