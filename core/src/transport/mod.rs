//! Types that congestion controls, queue disciplines and TCP share.
//!
//! This module lies below all three, so that a congestion control does not depend on the sender
//! that drives it.
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

/// The states of congestion avoidance and recovery of Linux (`tcp_ca_state`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Normal operation.
    #[default]
    Open,
    /// Selective or duplicate ACKs, no loss yet.
    Disorder,
    /// The window is being reduced without loss (ECN, tail probe).
    Cwr,
    /// Lost packets are being retransmitted.
    Recovery,
    /// The retransmission timer fired.
    Loss,
}
