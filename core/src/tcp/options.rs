//! What an administrator may tell a host about its senders.

use crate::cc::CongestionControl;
use crate::units::Bytes;

/// Who is paced.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Pacing {
    /// Who asks for it: Linux, whatever its queue discipline is, unless that is `fq`.
    #[default]
    Auto,
    /// Nobody, not even a congestion control that asks for it.
    Off,
    /// Everybody, as by Linux's `fq` at the sender.
    Fq,
}

impl Pacing {
    /// Every way, the default first.
    pub const ALL: [Pacing; 3] = [Pacing::Auto, Pacing::Off, Pacing::Fq];

    /// As a scenario writes it.
    pub fn word(self) -> &'static str {
        match self {
            Pacing::Auto => "auto",
            Pacing::Off => "off",
            Pacing::Fq => "fq",
        }
    }
    /// Is a flow of this law paced?
    pub(super) fn paces(self, cc: &dyn CongestionControl) -> bool {
        match self {
            Pacing::Auto => cc.needs_pacing(),
            Pacing::Off => false,
            Pacing::Fq => true,
        }
    }
}

/// Who asks for explicit congestion notification (`tcp_ecn`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnMode {
    /// A flow that says so; the other end agrees (2, Linux's default).
    #[default]
    Passive,
    /// Every flow that does not say otherwise (1).
    On,
    /// Nobody, and the other end would not agree (0).
    Off,
}

impl EcnMode {
    /// Every mode, the default first.
    pub const ALL: [EcnMode; 3] = [EcnMode::Passive, EcnMode::On, EcnMode::Off];

    /// As a scenario writes it.
    pub fn word(self) -> &'static str {
        match self {
            EcnMode::Passive => "passive",
            EcnMode::On => "on",
            EcnMode::Off => "off",
        }
    }
}

/// What the two ends of a flow were told about explicit congestion notification.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnEnds {
    /// Neither uses it.
    #[default]
    Off,
    /// The sender asks, as its law needs. The far end is an ordinary host: it agrees to what RFC
    /// 3168 has, and no more.
    Asked,
    /// Both do what the sender's law needs.
    Both,
}

/// How much of one connection may lie below TCP, in the host's own queue and device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum SmallQueues {
    /// What `sk_pacing_shift` makes of its rate, two super-packets at least: Linux since 3.12.
    #[default]
    ByRate,
    /// So many bytes of kernel memory, whatever the rate: Linux since 3.6, with 128 KiB.
    Bytes(Bytes),
    /// As much as there is.
    Off,
}

/// An interface with a queue of its own: one that has a rate, or one whose discipline paces.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Device {
    /// TCP small queues.
    pub tsq: SmallQueues,
    /// Does its discipline pace (`fq`)?
    pub paces: bool,
}

/// The clock that round trips are measured with.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Clock {
    /// Microseconds.
    #[default]
    Us,
    /// Whole milliseconds, one at least: what a kernel of 1000 Hz without a finer clock sees.
    Ms,
    /// Whole ticks of the host's own, one at least: what Linux saw before 3.15.
    Jiffies,
}

impl Clock {
    /// Every clock, the default first.
    pub const ALL: [Clock; 3] = [Clock::Us, Clock::Ms, Clock::Jiffies];

    /// As a scenario writes it.
    pub fn word(self) -> &'static str {
        match self {
            Clock::Us => "us",
            Clock::Ms => "ms",
            Clock::Jiffies => "jiffies",
        }
    }
    /// From `then` to `now` (µs) on this clock of a host with `hz` ticks per second, in µs.
    pub fn since(self, now: u64, then: u64, hz: u32) -> u64 {
        match self {
            Clock::Us => now.saturating_sub(then),
            Clock::Ms => (now / 1000).saturating_sub(then / 1000).max(1) * 1000,
            Clock::Jiffies => {
                let tick = 1_000_000 / u64::from(hz.max(1));
                (now / tick).saturating_sub(then / tick).max(1) * tick
            }
        }
    }
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
