//! The Linux release that a host runs, as a set of dated rules.
//!
//! TCP in Linux changes from release to release, and published experiments ran on old releases. A
//! [`Kernel`] is a release. A [`Rule`] is a change of behaviour, with the first release that has it
//! and its source. A congestion control calls `kernel.follows(&SOME_RULE)` and applies the newer or
//! the older behaviour. Everything without a rule is as in Linux 6.12.
//! [`RULES`](crate::registry::RULES) collects the rules.
//!
//! Releases are those of Linus Torvalds. Distributions backport fixes, so a kernel called 4.15 may
//! have some changes of 4.16 and 4.18; no rule models such a kernel. The timer frequency is a key
//! of the scenario (`hz`; Ubuntu's generic kernels have 250).
//!
//! Linux 4.15 also differs in the following points. They hardly affect bulk transfers and are not
//! modelled:
//! - the receiver began with a buffer of 87 380 B and a window of 20 segments, which grew in
//!   coarser steps. This ended with 4.19 and 4.20, and most scenarios specify larger buffers;
//! - with the ACK that undid a recovery (a DSACK or a partial ACK), no further data was sent (until
//!   5.12 and later);
//! - a tail loss probe of new data did not delay the next probe;
//! - `fq` at the sender counted Ethernet headers in BBR's gaps; `pacing = "fq"` counts as pacing by
//!   the sender does;
//! - in ProbeRTT, BBR reduced and restored the window only with ACKs that delivered data (until
//!   4.19).

use alloc::vec::Vec;

/// A release of Linux: `Kernel(6, 12)`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Kernel(pub u16, pub u16);

/// Linux 4.15, the kernel of many published experiments with BBR.
pub const LINUX_4_15: Kernel = Kernel(4, 15);
/// Linux 5.15, the kernel of repetitions of these experiments.
pub const LINUX_5_15: Kernel = Kernel(5, 15);
/// Linux 6.12, the release against which narrows is validated.
pub const LINUX_6_12: Kernel = Kernel(6, 12);

/// The releases a scenario may name, with their names; the first is the default.
pub const KERNELS: &[(&str, Kernel)] = &[
    ("linux-6.12", LINUX_6_12),
    ("linux-5.15", LINUX_5_15),
    ("linux-4.15", LINUX_4_15),
];

/// The names of the releases a scenario may name.
pub fn releases() -> Vec<&'static str> {
    KERNELS.iter().map(|(name, _)| *name).collect()
}

impl Default for Kernel {
    fn default() -> Kernel {
        LINUX_6_12
    }
}

impl Kernel {
    /// Returns the release called `name` in a scenario.
    pub fn named(name: &str) -> Option<Kernel> {
        KERNELS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, kernel)| *kernel)
    }
    /// Returns whether this release has the rule.
    pub fn follows(self, rule: &Rule) -> bool {
        // One comparison instead of two: congestion controls call this for every packet.
        let number = |Kernel(major, minor)| u32::from(major) << 16 | u32::from(minor);
        number(self) >= number(rule.since)
    }
}

/// A change of Linux's behaviour.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// A short name.
    pub name: &'static str,
    /// The first release with it.
    pub since: Kernel,
    /// The behaviour since then, and the behaviour before.
    pub help: &'static str,
    /// The commit or release that introduced it.
    pub source: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number_not_by_text() {
        assert!(Kernel(6, 12) > Kernel(6, 2) && Kernel(4, 15) < Kernel(4, 20));
        assert_eq!(Kernel::named("linux-4.15"), Some(LINUX_4_15));
        assert_eq!(Kernel::named("linux-2.4"), None);
    }
}
