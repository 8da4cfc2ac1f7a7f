//! Which Linux a host is: dated rules.
//!
//! TCP in Linux changes from release to release, and published experiments ran on old ones. A
//! [`Kernel`] is a release; a [`Rule`] is something that came with one, with the place where that
//! can be looked up. A law asks `kernel.follows(&SOME_RULE)` and does the newer or the older thing;
//! what no rule mentions is as in Linux 6.12. [`RULES`](crate::registry::RULES) collects them.
//!
//! Releases are those of Linus Torvalds. Distributions carry fixes back, so that a kernel called
//! 4.15 may have some of 4.16 and 4.18; nothing here imitates one of them. Their tick is the
//! scenario's (`hz`; Ubuntu's generic kernels have 250).
//!
//! Known to have been otherwise in 4.15, and not imitated, because bulk data from one end to the
//! other hardly shows it:
//! - the receiver began with a buffer of 87 380 B and a window of 20 segments, and tuned itself in
//!   coarser steps (until 4.19 and 4.20); scenarios usually ask for larger buffers than either;
//! - a recovery that was undone by a DSACK or a partial ACK sent nothing more with that ACK (until
//!   5.12 and later);
//! - a tail loss probe of new data did not keep the next one back;
//! - `fq` at the sender counted Ethernet headers in BBR's gaps; `pacing = "fq"` counts as pacing by
//!   the sender does;
//! - BBR in ProbeRTT cut the window only by ACKs that delivered something, and after it restored it
//!   likewise (until 4.19).

/// A release of Linux: `Kernel(6, 12)`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Kernel(pub u16, pub u16);

/// Linux 4.15, which many published experiments with BBR ran on.
pub const LINUX_4_15: Kernel = Kernel(4, 15);
/// Linux 5.15, which the same experiments were repeated on.
pub const LINUX_5_15: Kernel = Kernel(5, 15);
/// Linux 6.12, which narrows is checked against.
pub const LINUX_6_12: Kernel = Kernel(6, 12);

/// The releases a scenario may name, with their names; the first is the default.
pub const KERNELS: &[(&str, Kernel)] = &[
    ("linux-6.12", LINUX_6_12),
    ("linux-5.15", LINUX_5_15),
    ("linux-4.15", LINUX_4_15),
];

impl Default for Kernel {
    fn default() -> Kernel {
        LINUX_6_12
    }
}

impl Kernel {
    /// The release called `name` in a scenario.
    pub fn named(name: &str) -> Option<Kernel> {
        KERNELS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, kernel)| *kernel)
    }
    /// Does this release have the rule?
    pub fn follows(self, rule: &Rule) -> bool {
        // One comparison, not two: laws ask with every packet.
        let number = |Kernel(major, minor)| u32::from(major) << 16 | u32::from(minor);
        number(self) >= number(rule.since)
    }
}

/// Something that Linux does since a release.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// A short name.
    pub name: &'static str,
    /// The first release with it.
    pub since: Kernel,
    /// What it does, and what was done before.
    pub help: &'static str,
    /// Where that stands.
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
