//! The sending host below TCP: queue discipline, device ring, wire.
//!
//! ```text
//!   TCP ──▶ queue discipline ──▶ ring of the device ──▶ wire
//!    ▲  ▲          │ full: rejected, or dropped            │
//!    │  └──────────┘ reported at once (Fate)               │
//!    └──────────── completed: a super-packet has left ◀────┘
//! ```
//!
//! If a host's own interface is the bottleneck, packets queue here. The following releases of Linux
//! changed how many packets queue here:
//!
//! | since | change | here |
//! |---|---|---|
//! | 3.3 | byte queue limits: the device takes only enough to stay busy | [`dql`] |
//! | 3.5 | `codel`, `fq_codel` | [`queue`](crate::queue), by the key `qdisc` |
//! | 3.6 | TCP small queues: at most 128 KiB of a connection below TCP | the key `tsq` |
//! | 3.12 | bursts and small queues by rate; `fq` and its pacing | `autosize`, `tsq`, `qdisc` |
//! | 3.15 | round trips in microseconds, not in ticks | the key `clock` |
//! | 4.9 | BBR, which requires pacing | [`cc::bbr`](crate::cc::bbr) |
//! | 4.13 | pacing by TCP itself, with any discipline | the key `pacing` |
//! | 4.16 | `sk_pacing_shift`: more than a millisecond below TCP | the key `pacing_shift` |

pub mod dql;
pub mod interface;

/// The result of sending a super-packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Fate {
    /// The super-packet is queued, or on its way.
    #[default]
    Sent,
    /// The super-packet counts as sent, but it or another packet of its flow was dropped: the
    /// sender reduces its window (`NET_XMIT_CN`).
    Congested,
    /// The super-packet was rejected and never sent, and the sender reduces its window
    /// (`NET_XMIT_DROP`).
    Refused,
    /// The super-packet has already left: nothing of it is below TCP.
    Gone,
}

/// A callback without a result counts every packet as sent.
impl From<()> for Fate {
    fn from((): ()) -> Fate {
        Fate::Sent
    }
}
