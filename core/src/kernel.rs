//! Which Linux a host is: dated rules.
//!
//! TCP in Linux changes from release to release, and published experiments ran on old ones. A [`Kernel`] is a release; a
//! [`Rule`] is something that came with one, with the place where that can be looked up. A law asks
//! `kernel.follows(&SOME_RULE)` and does the newer or the older thing; what no rule mentions is as in Linux 6.12.

use crate::cc::{bbr, hystart};
use crate::tcp::{prr, rack, receiver, sender};

/// Every rule, by what follows it.
pub const RULES: &[(&str, &[Rule])] = &[
    ("sender", sender::RULES),
    ("loss detection", rack::RULES),
    ("window in recovery", prr::RULES),
    ("receiver", receiver::RULES),
    ("HyStart", hystart::RULES),
    ("bbr", bbr::RULES),
];

/// A release of Linux: `Kernel(6, 12)`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Kernel(pub u16, pub u16);

/// Linux 4.15, which many published experiments with BBR ran on.
pub const LINUX_4_15: Kernel = Kernel(4, 15);
/// Linux 6.12, which narrows is checked against.
pub const LINUX_6_12: Kernel = Kernel(6, 12);

/// The releases a scenario may name, with their names; the first is the default.
pub const KERNELS: &[(&str, Kernel)] = &[("linux-6.12", LINUX_6_12), ("linux-4.15", LINUX_4_15)];

impl Default for Kernel {
    fn default() -> Kernel {
        LINUX_6_12
    }
}

impl Kernel {
    /// The release called `name` in a scenario.
    pub fn named(name: &str) -> Option<Kernel> {
        KERNELS.iter().find(|(n, _)| *n == name).map(|(_, kernel)| *kernel)
    }
    /// Does this release have the rule?
    pub fn follows(self, rule: &Rule) -> bool {
        self >= rule.since
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
