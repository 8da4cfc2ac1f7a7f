//! TCP as Linux 6.12 runs it: a sender and a receiver, both folds.
//!
//! | file | holds |
//! |---|---|
//! | [`wire`] | what travels: segments and ACKs, and their size on the wire |
//! | [`sender`] | connects, sends, repairs; the states of recovery |
//! | [`receiver`] | reassembles, acknowledges, offers a window |
//! | [`scoreboard`] | what the sender knows of every segment in flight |
//! | [`flight`] | and what more, for laws that ask |
//! | [`rack`] | which of them are lost |
//! | `past` | what a timestamp shows to be too old |
//! | [`prr`] | how the window comes down in recovery |
//! | [`rtt`] | round-trip times and the timeout |
//! | [`options`] | what an administrator may choose |

pub mod flight;
pub mod options;
mod past;
pub mod prr;
pub mod rack;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod wire;

pub use crate::transport::{EcnUse, Gso, MSS, State};
pub use options::{Clock, Device, EcnEnds, EcnMode, Pacing, SmallQueues};
pub use receiver::Receiver;
pub use sender::Sender;

use crate::kernel::Kernel;
use crate::transport::Signals;
use crate::units::{Bytes, Rate, Span};

/// `sk_pacing_shift`: a burst carries 2⁻¹⁰ of a second of the pacing rate, about 1 ms.
pub const PACING_SHIFT: u32 = 10;

/// What both ends of a connection are told when they are made.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Initial window in packets.
    pub iw: u32,
    /// The kernel's tick: timers fire on it.
    pub hz: u32,
    /// Whose rules it follows.
    pub kernel: Kernel,
    /// An interface of its own rate, which tells when packets have left it
    /// ([`Sender::on_departed`]).
    pub device: Option<Device>,
    /// After a silence of more than a timeout the window comes down, by half for each timeout
    /// (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Are bursts sized by the rate (`tcp_tso_autosize`), or as large as they may be?
    pub autosize: bool,
    /// Bursts and small queues hold 2 to the minus this of a second of the pacing rate
    /// (`sk_pacing_shift`).
    pub pacing_shift: u32,
    /// Who is paced.
    pub pacing: Pacing,
    /// The largest super-packet.
    pub gso: Gso,
    /// What round trips are measured with.
    pub clock: Clock,
    /// Receive buffer at the start.
    pub rmem_default: Bytes,
    /// The most that auto-tuning may give it.
    pub rmem_max: Bytes,
    /// Send buffer at the start.
    pub wmem_default: Bytes,
    /// The most that it may grow to.
    pub wmem_max: Bytes,
    /// The application writes while less than this waits unsent.
    pub notsent_lowat: Bytes,
    /// How a sender asks for ECN; what a receiver agrees to.
    pub ecn: EcnUse,
    /// Does the receiver select what it acknowledges (SACK)?
    pub sack: bool,
}

/// Linux 6.12 with buffers that may grow to 512 MiB.
impl Default for Config {
    fn default() -> Config {
        Config {
            iw: 10,
            hz: 1000,
            kernel: Kernel::default(),
            device: None,
            slow_start_after_idle: true,
            autosize: true,
            pacing_shift: PACING_SHIFT,
            pacing: Pacing::Auto,
            gso: Gso::On,
            clock: Clock::Us,
            rmem_default: Bytes::new(128 << 10),
            rmem_max: Bytes::new(512 << 20),
            wmem_default: Bytes::new(16 << 10),
            wmem_max: Bytes::new(512 << 20),
            notsent_lowat: Bytes::new(128 << 10),
            ecn: EcnUse::Off,
            sack: true,
        }
    }
}

impl Config {
    /// For the sender of a connection whose congestion control requires `signals`.
    pub fn under(&self, signals: Signals, ecn: EcnEnds) -> Config {
        Config {
            ecn: if ecn == EcnEnds::Off {
                EcnUse::Off
            } else {
                signals.ecn
            },
            sack: signals.sack,
            ..self.clone()
        }
    }
    /// Likewise for its receiver.
    pub fn facing(&self, signals: Signals, ecn: EcnEnds) -> Config {
        let mut config = self.under(signals, ecn);
        if ecn == EcnEnds::Asked {
            config.ecn = EcnUse::Latched;
        }
        config
    }
}

/// What TCP_INFO shows of a sender, and a little more.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Info {
    /// Bytes acknowledged cumulatively.
    pub bytes_acked: u64,
    /// Bytes that the receiver has beyond those, as selective acknowledgments say: whole segments.
    pub bytes_sacked: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retrans: u64,
    /// Packets retransmitted.
    pub retransmits: u64,
    /// Congestion window in packets.
    pub cwnd: u32,
    /// Slow-start threshold in packets; `None` while it was never set.
    pub ssthresh: Option<u32>,
    /// Packets in flight, as the sender counts them.
    pub in_flight: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// The round-trip time measured last.
    pub rtt: Span,
    /// The least round-trip time of the connection.
    pub min_rtt: Span,
    /// The rate at which bursts are sized (and packets paced, where they are).
    pub pacing: Rate,
    /// The rate at which packets were delivered, of the newest sample that the application did not
    /// limit, or of a faster one; `None` before the first.
    pub delivery_rate: Option<Rate>,
    /// Did the application limit that one?
    pub delivery_rate_app_limited: bool,
    /// The state of recovery.
    pub state: State,
    /// Is it in slow start, as its congestion control has it?
    pub in_slow_start: bool,
    /// The peer's window in bytes.
    pub peer_window: u64,
    /// Packets delivered, as the receiver reports them; the handshake counts as one.
    pub delivered: u64,
    /// Of them in ACKs that reported marks (ECE).
    pub delivered_ce: u64,
}

/// For how long what limited a sender.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Limited {
    /// Something written waited or was in flight.
    pub busy: Span,
    /// Of that: the peer's window was what kept data back.
    pub peer_window: Span,
    /// Of that: the send buffer was, since it held all that had been written and not acknowledged.
    pub send_buffer: Span,
}
