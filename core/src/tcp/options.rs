//! TCP settings that an administrator makes on a host: pacing, ECN, small queues and the clock.

use crate::cc::CongestionControl;
use crate::units::Bytes;

/// Which flows of a host are paced.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Pacing {
    /// Flows are paced whose congestion control requests it: Linux with any queue discipline except
    /// `fq`.
    #[default]
    Auto,
    /// No flow is paced, not even with a congestion control that requests it.
    Off,
    /// All flows are paced, as with Linux's `fq` at the sender.
    Fq,
}

impl Pacing {
    /// All values, the default first.
    pub const ALL: [Pacing; 3] = [Pacing::Auto, Pacing::Off, Pacing::Fq];

    /// Returns the name of the option in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Pacing::Auto => "auto",
            Pacing::Off => "off",
            Pacing::Fq => "fq",
        }
    }
    /// Returns whether a flow of this congestion control is paced.
    pub(super) fn paces(self, cc: &dyn CongestionControl) -> bool {
        match self {
            Pacing::Auto => cc.needs_pacing(),
            Pacing::Off => false,
            Pacing::Fq => true,
        }
    }
}

/// Which flows request explicit congestion notification, and whether a host agrees to it
/// (`tcp_ecn`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnMode {
    /// Flows with `ecn = true` request ECN, and the other end agrees (value 2, Linux's default).
    #[default]
    Passive,
    /// All flows except those with `ecn = false` request ECN, and the other end agrees (value 1).
    On,
    /// No flow requests ECN, and the other end does not agree (value 0).
    Off,
}

impl EcnMode {
    /// All values, the default first.
    pub const ALL: [EcnMode; 3] = [EcnMode::Passive, EcnMode::On, EcnMode::Off];

    /// Returns the name of the mode in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            EcnMode::Passive => "passive",
            EcnMode::On => "on",
            EcnMode::Off => "off",
        }
    }
}

/// Use of explicit congestion notification by the two ends of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnNegotiation {
    /// Neither uses it.
    #[default]
    Off,
    /// The sender requests the kind that its congestion control needs. The receiver is an ordinary
    /// host: it agrees to RFC 3168 only.
    Requested,
    /// Both ends use the kind of ECN that the sender's congestion control needs.
    Both,
    /// Both ends use accurate ECN as Linux does, for any congestion control. A congestion control
    /// that needs [`EcnUse::Counted`](super::EcnUse::Counted) keeps this kind.
    Accurate,
}

/// Limit of a connection's data below TCP, in the sending host's own queue discipline and device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum SmallQueues {
    /// The limit is the data of 2⁻ˢʰⁱᶠᵗ s at the pacing rate (`sk_pacing_shift`), at least two
    /// super-packets: Linux since 3.12.
    #[default]
    ByRate,
    /// A constant limit in bytes of kernel memory: Linux since 3.6, with 128 KiB.
    Bytes(Bytes),
    /// No limit.
    Off,
}

/// A host's interface with its own queue: it has a rate, or a queue discipline that paces.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Device {
    /// TCP small queues.
    pub tsq: SmallQueues,
    /// Whether its queue discipline paces (`fq`).
    pub paces: bool,
}

/// The clock that measures round trips.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Clock {
    /// Microseconds.
    #[default]
    Us,
    /// Whole milliseconds, at least one: a kernel of 1000 Hz without a finer clock.
    Ms,
    /// Whole ticks of the host, at least one: Linux before 3.15.
    Jiffies,
}

impl Clock {
    /// All values, the default first.
    pub const ALL: [Clock; 3] = [Clock::Us, Clock::Ms, Clock::Jiffies];

    /// Returns the name of the clock in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Clock::Us => "us",
            Clock::Ms => "ms",
            Clock::Jiffies => "jiffies",
        }
    }
    /// Returns the time from `then` to `now` (µs) on this clock, in µs; `hz` is the timer
    /// frequency.
    #[inline(always)]
    pub fn since(self, now: u64, then: u64, hz: u32) -> u64 {
        match self {
            Clock::Us => now.saturating_sub(then),
            Clock::Ms => since_edges(now, then, 1000),
            Clock::Jiffies => since_edges(now, then, 1_000_000 / u64::from(hz.max(1))),
        }
    }
}

/// The time from `then` to `now` on a clock that advances every `tick` µs, at least one tick.
#[cold]
fn since_edges(now: u64, then: u64, tick: u64) -> u64 {
    (now / tick).saturating_sub(then / tick).max(1) * tick
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_counts_the_edges_it_saw() {
        assert_eq!(Clock::Us.since(41_250, 1_900, 250), 39_350);
        assert_eq!(Clock::Ms.since(41_250, 1_900, 250), 40_000);
        assert_eq!(Clock::Ms.since(1_950, 1_900, 250), 1_000);
        // Ticks at 0, 4, ... 40 ms.
        assert_eq!(Clock::Jiffies.since(41_250, 1_900, 250), 40_000);
        assert_eq!(Clock::Jiffies.since(1_950, 1_900, 250), 4_000);
        assert_eq!(Clock::Jiffies.since(41_250, 1_900, 1000), 40_000);
    }
}
