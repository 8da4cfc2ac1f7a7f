//! TCP as in Linux 6.12: a sender and a receiver, both deterministic state machines.
//!
//! | file | contents |
//! |---|---|
//! | [`wire`] | segments and ACKs, and their size on the wire |
//! | [`sender`] | connection setup, transmission, loss recovery |
//! | [`receiver`] | reassembly, ACKs, receive window |
//! | [`scoreboard`] | the sender's record of every segment in flight |
//! | [`flight`] | records of packets in flight, for congestion controls that need them |
//! | [`rack`] | loss detection by RACK |
//! | `paws` | rejection of old timestamps (PAWS) |
//! | [`prr`] | proportional rate reduction of the window |
//! | [`rtt`] | round-trip times and the retransmission timeout |
//! | [`options`] | TCP settings of a host |

pub mod flight;
pub mod options;
mod paws;
pub mod prr;
pub mod rack;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod wire;

pub use crate::transport::{EcnUse, Gso, MSS, State, TcpOptions};
pub use options::{Clock, Device, EcnMode, EcnNegotiation, Pacing, SmallQueues};
pub use receiver::Receiver;
pub use sender::Sender;

use crate::kernel::{Kernel, Rule};
use crate::packet::Ip;
use crate::transport::{Signals, TIMESTAMPS};
use crate::units::{Bytes, Rate, Span};

/// `sk_pacing_shift`: a burst carries 2⁻¹⁰ s of the pacing rate, about 1 ms.
pub const PACING_SHIFT: u32 = 10;

/// The configuration of both ends of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Initial window in packets.
    pub iw: u32,
    /// Timer frequency of the kernel, in Hz; timers fire on its ticks.
    pub hz: u32,
    /// The release whose rules apply.
    pub kernel: Kernel,
    /// The host's interface, if it has a queue of its own; it reports departures of packets
    /// ([`Sender::on_departed`]).
    pub device: Option<Device>,
    /// Whether the window is halved once for each retransmission timeout that passes while the
    /// connection is idle (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Whether bursts are sized by the rate (`tcp_tso_autosize`); otherwise they have the maximum
    /// size.
    pub autosize: bool,
    /// Bursts and small queues hold 2⁻ˢʰⁱᶠᵗ s of the pacing rate (`sk_pacing_shift`).
    pub pacing_shift: u32,
    /// Which flows are paced.
    pub pacing: Pacing,
    /// The largest super-packet.
    pub gso: Gso,
    /// Whether the driver takes super-packets and divides them itself (TSO), unless segments have a
    /// congestion header each. Otherwise, the sender divides those that do not go to a
    /// [`device`](Self::device).
    pub tso: bool,
    /// The clock that measures round trips.
    pub clock: Clock,
    /// Initial receive buffer.
    pub rmem_default: Bytes,
    /// Maximum receive buffer of auto-tuning.
    pub rmem_max: Bytes,
    /// Initial send buffer.
    pub wmem_default: Bytes,
    /// Maximum send buffer.
    pub wmem_max: Bytes,
    /// The application writes while fewer bytes than this are unsent (`tcp_notsent_lowat`).
    pub notsent_lowat: Bytes,
    /// The kind of ECN that a sender requests, and that a receiver agrees to.
    pub ecn: EcnUse,
    /// Whether the receiver sends selective acknowledgements (SACK).
    pub sack: bool,
    /// The longest retransmission timeout (`tcp_rto_max_ms`) of kernels with [`Rule::RtoMax`]; in
    /// others it is 120 s.
    pub rto_max: Span,
    /// Whether RACK detects losses (bit 0 of `tcp_recovery`). In kernels with [`Rule::RackOnly`],
    /// RACK always detects losses.
    pub rack: bool,
    /// Number of timeouts whose usual duration ends a connection without progress
    /// (`tcp_retries2`).
    pub retries: u32,
    /// Minimum of the variance part of a retransmission timeout, µs (`tcp_rto_min_us`).
    pub rto_min_us: u32,
    /// The maximum segment size that the host announces (MSS option, without other options), bytes.
    pub mss: u32,
    /// The maximum segment size that the other end announces, bytes.
    pub peer_mss: u32,
    /// Whether segments have timestamps (`tcp_timestamps`).
    pub timestamps: bool,
    /// Whether all ACKs are quick ACKs (`quickack` of a route).
    pub quick_ack: bool,
    /// The longest delay of an ACK (`icsk_delack_max`).
    pub delayed_ack_max: Span,
    /// The version of IP.
    pub ip: Ip,
}

/// The maximum segment size of an MTU of 1500 bytes, with the space of all TCP options.
pub const USUAL_MSS: u32 = MSS + TIMESTAMPS as u32;
/// Default of `tcp_retries2`.
pub const RETRIES: u32 = 15;
/// The longest delay of an ACK (`TCP_DELACK_MAX`).
pub const DELAYED_ACK_MAX: Span = Span::ms(200);

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
            tso: false,
            clock: Clock::Us,
            rmem_default: Bytes::new(128 << 10),
            rmem_max: Bytes::new(512 << 20),
            wmem_default: Bytes::new(16 << 10),
            wmem_max: Bytes::new(512 << 20),
            notsent_lowat: Bytes::new(128 << 10),
            ecn: EcnUse::Off,
            sack: true,
            rto_max: rtt::RTO_MAX,
            rack: true,
            retries: RETRIES,
            rto_min_us: rtt::RTO_MIN_US as u32,
            mss: USUAL_MSS,
            peer_mss: USUAL_MSS,
            timestamps: true,
            quick_ack: false,
            delayed_ack_max: DELAYED_ACK_MAX,
            ip: Ip::V4,
        }
    }
}

impl Config {
    /// The longest retransmission timeout.
    pub fn longest_timeout(&self) -> Span {
        if self.kernel.follows(Rule::RtoMax) {
            self.rto_max
        } else {
            rtt::RTO_MAX
        }
    }
    /// Returns whether RACK detects losses; otherwise, the number of SACKed segments does.
    pub fn has_rack(&self) -> bool {
        self.rack || self.kernel.follows(Rule::RackOnly)
    }
    /// The configuration of a sender whose congestion control requires `signals`.
    pub fn under(&self, signals: Signals, ecn: EcnNegotiation) -> Config {
        Config {
            ecn: match ecn {
                EcnNegotiation::Off => EcnUse::Off,
                EcnNegotiation::Accurate if signals.ecn != EcnUse::Counted => EcnUse::Accurate,
                _ => signals.ecn,
            },
            sack: self.sack && signals.sack,
            ..self.clone()
        }
    }
    /// The configurations of both ends after their handshake: SACK and timestamps need both, and a
    /// segment is not longer than the other end announces.
    pub fn negotiate(one: &mut Config, other: &mut Config) {
        let (sack, timestamps) = (one.sack && other.sack, one.timestamps && other.timestamps);
        (one.peer_mss, other.peer_mss) = (other.mss, one.mss);
        for end in [one, other] {
            (end.sack, end.timestamps) = (sack, timestamps);
        }
    }
    /// The options of the segments that this end sends.
    pub fn options(&self, accecn: bool) -> TcpOptions {
        let mss = self.mss.min(self.peer_mss) - self.stamps();
        TcpOptions::new(mss, self.timestamps, accecn)
    }
    /// Payload of the largest segment that the other end may send, without the AccECN option.
    pub fn announced(&self) -> u32 {
        self.mss - self.stamps()
    }
    fn stamps(&self) -> u32 {
        if self.timestamps {
            TIMESTAMPS as u32
        } else {
            0
        }
    }
    /// The configuration of the receiver for a sender whose congestion control requires `signals`.
    pub fn facing(&self, signals: Signals, ecn: EcnNegotiation) -> Config {
        let mut config = self.under(signals, ecn);
        if ecn == EcnNegotiation::Requested {
            config.ecn = EcnUse::Latched;
        }
        config
    }
}

/// The values that TCP_INFO shows of a sender, and a few more.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Info {
    /// Bytes acknowledged cumulatively.
    pub bytes_acked: u64,
    /// Bytes SACKed above the cumulative acknowledgement: the number of SACKed segments times the
    /// size of a full segment.
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
    /// Packets in flight, as the sender estimates them
    /// ([`Scoreboard::in_flight`](scoreboard::Scoreboard::in_flight)).
    pub in_flight: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// The latest round-trip time sample.
    pub rtt: Span,
    /// The minimum round-trip time of the connection.
    pub min_rtt: Span,
    /// The pacing rate, which also sizes the bursts of flows without pacing.
    pub pacing: Rate,
    /// Delivery rate of the newest sample that the application did not limit, or of a later sample
    /// with at least this rate. `None` before the first sample.
    pub delivery_rate: Option<Rate>,
    /// Whether the application limited the sample of the delivery rate.
    pub delivery_rate_app_limited: bool,
    /// The state of recovery.
    pub state: State,
    /// Whether the congestion control is in slow start.
    pub in_slow_start: bool,
    /// The peer's receive window in bytes.
    pub peer_window: u64,
    /// Packets delivered, by ACKs and SACKs; the handshake counts as one.
    pub delivered: u64,
    /// Packets delivered by ACKs that reported marks (ECE).
    pub delivered_ce: u64,
}

/// Time during which a sender had data to deliver, and the parts of it in which each cause limited
/// the sender.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Limited {
    /// Time with data unsent or in flight.
    pub busy: Span,
    /// Part of `busy` in which the peer's window was the limit.
    pub peer_window: Span,
    /// Part of `busy` in which the send buffer was the limit: it was full of unacknowledged data.
    pub send_buffer: Span,
}
