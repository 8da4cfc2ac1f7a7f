//! Types that congestion controls, queue disciplines and TCP share.
//!
//! This module lies below these three modules, so that a congestion control does not depend on the
//! sender that drives it.
//!
//! | file | contents |
//! |---|---|
//! | `jiffies` | [`Jiffies`]: the kernel's tick clock and its timer wheel |
//! | `gso` | [`Gso`]: the largest super-packet |
//! | `segment` | [`TcpOptions`], [`MSS`], [`HEADERS`]: size and options of segments |
//! | `signals` | [`EcnUse`], [`Signals`]: requirements of a congestion control |

mod gso;
mod jiffies;
mod segment;
mod signals;

pub use gso::Gso;
pub use jiffies::Jiffies;
pub use segment::{
    ACCECN_OPTION, HEADERS, MOST_MSS, MOST_MTU, MSS, Shape, TIMESTAMPS, TcpOptions, USUAL_MTU,
};
pub use signals::{EcnUse, Signals};

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
