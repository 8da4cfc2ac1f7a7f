//! Types that congestion controls, queue disciplines and TCP share.
//!
//! This module lies below these three modules, so that a congestion control does not depend on the
//! sender that drives it.
//!
//! | file | contents |
//! |---|---|
//! | `jiffies` | [`Jiffies`]: the kernel's tick clock and its timer wheel |
//! | `gso` | [`Gso`]: the largest super-packet |
//! | `signals` | [`EcnUse`], [`Signals`]: requirements of a congestion control |

mod gso;
mod jiffies;
mod signals;

pub use gso::Gso;
pub use jiffies::Jiffies;
pub use signals::{EcnUse, Signals};

/// Payload of a full segment: an MTU of 1500 bytes minus the headers of IP and TCP with the
/// timestamp option.
pub const MSS: u32 = 1448;

/// Header bytes of a segment: Ethernet, IP and TCP headers with the timestamp option.
pub const HEADERS: u64 = 66;

/// Bytes of the AccECN option with its three counters, padded (RFC 9768 section 3.2.3).
pub const ACCECN_OPTION: u64 = 12;

/// TCP options of every segment of a connection. These options decide the payload of a full
/// segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum TcpOptions {
    /// Timestamps.
    #[default]
    Timestamps,
    /// Timestamps and the AccECN option.
    AccEcn,
}

impl TcpOptions {
    /// Payload bytes of a full segment.
    pub const fn payload(self) -> u32 {
        match self {
            TcpOptions::Timestamps => MSS,
            TcpOptions::AccEcn => MSS - ACCECN_OPTION as u32,
        }
    }
    /// Header bytes of a segment.
    pub const fn headers(self) -> u64 {
        match self {
            TcpOptions::Timestamps => HEADERS,
            TcpOptions::AccEcn => HEADERS + ACCECN_OPTION,
        }
    }
    /// Returns the number of full segments in `bytes` of payload.
    #[inline]
    pub const fn full_segments(self, bytes: u64) -> u64 {
        // Two constant divisors, which need no division.
        match self {
            TcpOptions::Timestamps => bytes / TcpOptions::Timestamps.payload() as u64,
            TcpOptions::AccEcn => bytes / TcpOptions::AccEcn.payload() as u64,
        }
    }
    /// Returns the payload of the last, short segment of `bytes`; 0 if all are full.
    #[inline]
    pub const fn short_segment(self, bytes: u64) -> u64 {
        bytes - self.full_segments(bytes) * self.payload() as u64
    }
}

/// The states of congestion avoidance and recovery of Linux (`tcp_ca_state`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Normal operation.
    #[default]
    Open,
    /// Selective or duplicate ACKs, no loss yet.
    Disorder,
    /// The window is being reduced without a detected loss (ECN mark, drop in the own host, tail
    /// loss probe).
    Cwr,
    /// Lost packets are being retransmitted.
    Recovery,
    /// The retransmission timer fired.
    Loss,
}
