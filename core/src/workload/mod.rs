//! Workloads: what the applications at both ends of a flow do with the path.
//!
//! A workload is a fold: told the time and what happened, it answers what is to be done. It plays
//! both ends, the *server* that a flow's data comes from and the *client* that it goes to, but each
//! learns only what has reached it. The engine owns the connections: it opens them with the flow's
//! congestion control, and their handshakes, requests and answers are packets that meet the path's
//! queues like any others, there and back.
//!
//! ```text
//!    event  ──▶ ┌──────────┐ ──▶  action
//!   Started     │          │     Open   a connection, by either side
//!   Woke        │ workload │     Write  bytes on it, from either side
//!   Opened      │          │     Close  it: both ends forget it
//!   Arrived     └──────────┘     Send   a datagram
//!   Datagram      │
//!   Refused       └─▶ next_wakeup, figures
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`draw`] | sizes and gaps drawn at random |
//! | `stream` | what became of numbered datagrams |
//! | `udp` | `udp`, evenly paced, and `bursty` |
//! | `on_off` | `on_off`: speaks and is silent by turns |
//! | `poisson` | `poisson`: transfers that arrive at random |
//! | `web` | `web`: pages |
//! | `rpc` | `rpc`: requests and answers |
//! | `video` | `video`: films of an adaptive bit rate |
//! | `voip` | `voip`: calls |
//! | [`emodel`] | how good a call is |
//! | `torrent` | `torrent`: peers both ways |
//!
//! What is counted from the warm-up on and what over the whole run, each kind's header says.
//!
//! Deviations from what real applications on Linux do: a request and its answer are acknowledged by
//! packets of their own (no ACK rides on data), and connections end without a FIN.

pub mod draw;
pub mod emodel;
mod on_off;
mod poisson;
mod rpc;
mod stream;
mod torrent;
mod udp;
mod video;
mod voip;
mod web;

use crate::figures::WorkloadFigures;
use crate::param::{Param, Params, Refusal};
use crate::units::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// An end of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where its data comes from.
    Server,
    /// Where its data goes to.
    Client,
}

/// What a workload calls one of its connections. Small numbers, used again once it is closed:
/// engines keep a table.
pub type Conn = u32;

/// What a workload is told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The flow begins.
    Started,
    /// The time that [`Workload::next_wakeup`] named has come.
    Woke,
    /// The handshake is over at the side that opened.
    Opened(Conn),
    /// The engine cannot open so many at once; the connection does not exist.
    Refused(Conn),
    /// The application at a side has read so many bytes of a connection, in all.
    Arrived {
        /// Which.
        conn: Conn,
        /// At which side.
        at: Side,
        /// Since it was opened.
        bytes: u64,
    },
    /// A datagram arrives; perhaps twice, perhaps out of its turn.
    Datagram {
        /// At which side.
        at: Side,
        /// As it was sent.
        number: u64,
        /// When it was sent.
        sent: Time,
        /// UDP payload, bytes.
        bytes: u16,
    },
}

/// What a workload wants done.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Open a connection.
    Open {
        /// Under a name that no open connection has.
        conn: Conn,
        /// Who sends the SYN.
        by: Side,
        /// Does the other side send data, too?
        answers: bool,
    },
    /// Write to a connection; what is written before it is open waits for that.
    Write {
        /// Which.
        conn: Conn,
        /// Who writes: who opened it, or with `answers` either.
        from: Side,
        /// How much.
        bytes: u64,
    },
    /// Both ends forget a connection, what is under way included.
    Close(Conn),
    /// Send a datagram.
    Send {
        /// Who sends.
        from: Side,
        /// Given back when it arrives.
        number: u64,
        /// UDP payload, at most [`MOST_DATAGRAM`].
        bytes: u16,
    },
}

/// The most UDP payload of a packet: 1500 of MTU less IP and UDP headers.
pub const MOST_DATAGRAM: u16 = 1472;

/// Ethernet, IP and UDP headers, bytes.
pub const DATAGRAM_HEADERS: u16 = 42;

/// Both applications of a flow, as one fold.
pub trait Workload: Send {
    /// Something has happened at `now`; what is to be done is appended to `todo`, and done in that
    /// order.
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>);
    /// When it wants to be woken.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// What it came to, once the flow is over. Datagrams that were under way at the end have been
    /// told by then.
    fn figures(&self, end: Time) -> WorkloadFigures;
}

/// What a workload is made for.
#[derive(Copy, Clone, Debug)]
pub struct Setting {
    /// Of its random choices.
    pub seed: u64,
    /// The warm-up is over.
    pub from: Time,
    /// The flow's end.
    pub end: Time,
}

/// A kind of workload.
pub struct WorkloadKind {
    /// As a scenario writes it.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Where its form comes from.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What must hold between them.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// The congestion control of its connections where the flow names none.
    pub cc: &'static str,
    /// What it moves and over what, with these parameters.
    pub traffic: fn(&Params) -> Traffic,
    /// A workload of this kind.
    pub make: fn(&Params, Setting) -> Box<dyn Workload>,
}

/// What a workload loads the path with.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Nothing but datagrams.
    pub udp: bool,
    /// Data of its own in both directions, so that the way back should have a rate.
    pub both_ways: bool,
}

/// TCP whose data goes the flow's way.
fn tcp(_: &Params) -> Traffic {
    Traffic {
        udp: false,
        both_ways: false,
    }
}

/// UDP that goes the flow's way.
fn datagrams(_: &Params) -> Traffic {
    Traffic {
        udp: true,
        both_ways: false,
    }
}

impl WorkloadKind {
    /// Has it no use for a congestion control, with these parameters?
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
];

/// The kind called `name`.
pub fn find(name: &str) -> Option<&'static WorkloadKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Names for connections, the freed ones again.
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
