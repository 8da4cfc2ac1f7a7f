//! What a packet meets before it leaves its own host.
//!
//! ```text
//!   TCP ──▶ queue discipline ──▶ ring of the device ──▶ wire
//!    ▲  ▲          │ full: not taken, or dropped           │
//!    │  └──────────┘ told at once (Fate)                   │
//!    └──────────── completed: a super-packet has left ◀────┘
//! ```
//!
//! Where a host's own interface is the narrow place, this is the queue. How deep it is was settled
//! release by release:
//!
//! | since | what | here |
//! |---|---|---|
//! | 3.3 | byte queue limits: the device takes what keeps it busy, the rest waits where a discipline can see it | [`dql`] |
//! | 3.5 | `codel`, `fq_codel` | [`queue`](crate::queue), by the key `qdisc` |
//! | 3.6 | TCP small queues: a connection keeps 128 KiB below it at most | `tcp::sender`, the key `tsq` |
//! | 3.12 | bursts by rate (`tcp_tso_autosize`), and small queues with them; `fq` and its pacing | the keys `autosize`, `tsq`, `qdisc` |
//! | 3.15 | round trips in microseconds, not in ticks | the key `clock` |
//! | 4.9 | BBR, which must be paced | [`cc::bbr`](crate::cc::bbr) |
//! | 4.13 | pacing by TCP itself, under any discipline | the key `pacing` |
//! | 4.16 | `sk_pacing_shift`: a device may ask for more below TCP than a millisecond | the key `pacing_shift` |

pub mod dql;
pub mod interface;

/// What became of a super-packet that was handed down.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Fate {
    /// It waits, or is on its way.
    #[default]
    Sent,
    /// It counts as sent, but something of its flow was dropped: the sender reduces its window
    /// (`NET_XMIT_CN`).
    Congested,
    /// It was not taken: it was never sent, and the sender reduces its window (`NET_XMIT_DROP`).
    Refused,
    /// It has left already: nothing of it lies below TCP.
    Gone,
}

/// Who hands down without asking has sent.
impl From<()> for Fate {
    fn from((): ()) -> Fate {
        Fate::Sent
    }
}
