//! The Linux release that a host runs, as a set of dated rules.
//!
//! TCP in Linux changes from release to release, and published experiments ran on old releases. A
//! [`Release`] is a version of Linux. A [`Rule`] is a change of behaviour. The row of a rule in
//! [`TABLE`] contains the first release that has the change, the stable releases that also have it,
//! and its source. A [`Kernel`] is a set of rules. A congestion control calls
//! `kernel.follows(Rule::X)` and applies the newer or the older behaviour. Everything without a
//! rule is as in Linux 6.12.
//!
//! Releases are those of Linus Torvalds and of the stable series. Distributions backport further
//! fixes; a scenario models such a kernel by single rules (`with_rules` and `without_rules` of
//! `[host]`). The timer frequency is a key of its own (`hz`; Ubuntu's generic kernels have 250).
//!
//! Older releases also differ in the following points. They hardly affect bulk transfers and are
//! not modelled:
//! - until 4.10, a flow with fewer than four segments in flight retransmitted after fewer
//!   duplicates (early retransmit);
//! - with the ACK that undid a recovery (a DSACK or a partial ACK), no further data was sent (until
//!   5.12 or later);
//! - a tail loss probe of new data did not delay the next probe;
//! - `fq` at the sender included Ethernet headers in BBR's pacing gaps; `pacing = "fq"` computes
//!   gaps as TCP's own pacing does;
//! - in ProbeRTT, BBR reduced and restored the window only with ACKs that delivered data (until
//!   4.19).

mod rules;

pub use rules::{Row, Rule, TABLE};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A release of Linux.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Release {
    /// The first number.
    pub major: u16,
    /// The second number; with the first one, it names a stable series.
    pub minor: u16,
    /// The patch level: 0 as published by Linus Torvalds, [`LAST`](Release::LAST) for the last
    /// stable release of the series.
    pub patch: u16,
}

/// The series that a scenario may name, by their first number: the least and the greatest second
/// number.
const SERIES: [(u16, u16, u16); 4] = [(4, 4, 20), (5, 0, 19), (6, 0, 19), (7, 0, 3)];

/// The release that a host runs unless the scenario specifies another one.
pub const DEFAULT: &str = "linux-6.12";

impl Release {
    /// The patch level of the last stable release of a series.
    pub const LAST: u16 = u16::MAX;

    /// Release `major.minor.patch`.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Release {
        Release {
            major,
            minor,
            patch,
        }
    }
    /// The release called `name` in a scenario: `linux-6.12` or `linux-6.12.5`. A series without a
    /// patch level is its last stable release. `None` for a release that is not modelled.
    pub fn named(name: &str) -> Option<Release> {
        let mut parts = name.strip_prefix("linux-")?.split('.');
        let mut next = || {
            let part = parts.next()?;
            // No sign, no leading zero, no empty part.
            let plain =
                part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            plain.then(|| part.parse::<u16>().ok()).flatten()
        };
        let (major, minor) = (next()?, next()?);
        let patch = match name.matches('.').count() {
            1 => Release::LAST,
            2 => next()?,
            _ => return None,
        };
        let modelled = SERIES
            .iter()
            .any(|(of, least, most)| major == *of && (*least..=*most).contains(&minor));
        modelled.then_some(Release::new(major, minor, patch))
    }
    /// The release as one number, in the order of releases.
    const fn number(self) -> u64 {
        (self.major as u64) << 32 | (self.minor as u64) << 16 | self.patch as u64
    }
    const fn is_of_series(self, other: Release) -> bool {
        self.major == other.major && self.minor == other.minor
    }
    /// The release as text, such as `6.12` or `6.12.5`.
    pub fn text(self) -> String {
        match self.patch {
            0 | Release::LAST => format!("{}.{}", self.major, self.minor),
            patch => format!("{}.{}.{patch}", self.major, self.minor),
        }
    }
}

/// The names of the series that a scenario may name, the oldest first.
pub fn series() -> Vec<String> {
    let of = |(major, least, most): &(u16, u16, u16)| {
        let major = *major;
        (*least..=*most).map(move |minor| format!("linux-{major}.{minor}"))
    };
    SERIES.iter().flat_map(of).collect()
}

/// The newest series that a scenario may name and that is not newer than `release` (`5.15.0-91`);
/// the oldest one for an older release.
pub fn nearest(release: &str) -> String {
    let number = |text: &str| {
        let mut parts = text.split(['.', '-', '+']);
        let mut next = || parts.next().and_then(|part| part.parse::<u16>().ok());
        (next().unwrap_or(0), next().unwrap_or(0))
    };
    let (known, here) = (series(), number(release));
    let not_newer = |name: &&String| number(name.trim_start_matches("linux-")) <= here;
    let found = known.iter().rfind(not_newer).or(known.first());
    found.cloned().unwrap_or_default()
}

/// The releases that a scenario may name, in words.
pub fn range() -> String {
    let (names, last) = (series(), SERIES[SERIES.len() - 1]);
    let [first, most] = [names.first(), names.last()].map(|name| name.map_or("", |n| n));
    debug_assert!(most.ends_with(&format!("{}", last.2)));
    format!("{first} to {most}, also with a patch level: {DEFAULT}.5")
}

/// The rules that a host follows.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Kernel([u64; 2]);

const _: () = assert!(TABLE.len() <= 128, "a Kernel has a bit for each rule");

/// Linux 4.15, the kernel of many published experiments with BBR.
pub const LINUX_4_15: Kernel = Kernel::of(Release::new(4, 15, Release::LAST));
/// Linux 5.15, the kernel of repetitions of these experiments.
pub const LINUX_5_15: Kernel = Kernel::of(Release::new(5, 15, Release::LAST));
/// Linux 6.12, the release against which narrows is validated.
pub const LINUX_6_12: Kernel = Kernel::of(Release::new(6, 12, Release::LAST));
/// Linux 7.3, the newest release that is modelled.
pub const LINUX_7_3: Kernel = Kernel::of(Release::new(7, 3, Release::LAST));

impl Default for Kernel {
    fn default() -> Kernel {
        LINUX_6_12
    }
}

impl core::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = TABLE.iter().filter(|row| self.follows(row.rule));
        f.debug_set().entries(names.map(|row| row.name)).finish()
    }
}

impl Kernel {
    /// The rules of a release.
    pub const fn of(release: Release) -> Kernel {
        let mut kernel = Kernel([0; 2]);
        let mut i = 0;
        while i < TABLE.len() {
            if TABLE[i].is_in(release) {
                kernel = kernel.with(TABLE[i].rule);
            }
            i += 1;
        }
        kernel
    }
    /// The rules of the release `major.minor` as published by Linus Torvalds.
    pub const fn published(major: u16, minor: u16) -> Kernel {
        Kernel::of(Release::new(major, minor, 0))
    }
    /// The rules of the release called `name` in a scenario.
    pub fn named(name: &str) -> Option<Kernel> {
        Release::named(name).map(Kernel::of)
    }
    /// The receive buffer of a host with 4 GB of memory or more, in bytes: initial size and maximum
    /// (`tcp_rmem`).
    pub const fn receive_buffer(self) -> (u64, u64) {
        let (initial, most) = (
            self.follows(Rule::InitialReceiveWindow),
            self.follows(Rule::ReceiveBufferLarge),
        );
        (
            if initial { 128 << 10 } else { 87_380 },
            if most { 32 << 20 } else { 6 << 20 },
        )
    }
    /// Returns whether the host follows the rule.
    #[inline]
    pub const fn follows(self, rule: Rule) -> bool {
        self.0[rule as usize >> 6] >> (rule as usize & 63) & 1 == 1
    }
    /// Returns this set of rules with `rule`.
    pub const fn with(mut self, rule: Rule) -> Kernel {
        self.0[rule as usize >> 6] |= 1 << (rule as usize & 63);
        self
    }
    /// Returns this set of rules without `rule`.
    pub const fn without(mut self, rule: Rule) -> Kernel {
        self.0[rule as usize >> 6] &= !(1 << (rule as usize & 63));
        self
    }
}

/// Declares the rules that one component reads, in one byte each instead of the 16 bytes of a
/// [`Kernel`].
macro_rules! rules_of_component {
    ($($field:ident: $rule:ident),+ $(,)?) => {
        /// The rules of the host's kernel that this component reads.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        struct Rules {
            $($field: bool,)+
        }

        impl Rules {
            fn of(kernel: $crate::kernel::Kernel) -> Rules {
                Rules {
                    $($field: kernel.follows($crate::kernel::Rule::$rule),)+
                }
            }
        }
    };
}
pub(crate) use rules_of_component;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number_not_by_text() {
        let named = |name| Release::named(name).unwrap();
        assert!(named("linux-6.12") > named("linux-6.2"));
        assert!(named("linux-4.15") < named("linux-4.20"));
        assert!(named("linux-6.12.0") < named("linux-6.12.55"));
        assert_eq!(named("linux-6.12").patch, Release::LAST);
        assert_eq!(Kernel::named("linux-4.15"), Some(LINUX_4_15));
    }

    #[test]
    fn names_outside_the_series_are_refused() {
        for wrong in [
            "linux-2.4",
            "linux-4.3",
            "linux-4.21",
            "linux-5.20",
            "linux-7.4",
            "linux-6",
            "linux-6.12.",
            "linux-6.012",
            "linux-6.12.1.1",
            "linux-6.+1",
            "6.12",
            "plan9",
        ] {
            assert_eq!(Release::named(wrong), None, "{wrong}");
        }
        assert_eq!(series().len(), 17 + 20 + 20 + 4);
        assert_eq!(nearest("5.15.0-91-generic"), "linux-5.15");
        assert_eq!([nearest("9.1"), nearest("3.2")], ["linux-7.3", "linux-4.4"]);
        assert!(series().iter().all(|name| Release::named(name).is_some()));
    }

    #[test]
    fn a_back_port_holds_in_its_series_from_its_patch_level_on() {
        let has = |name| {
            Kernel::named(name)
                .unwrap()
                .follows(Rule::TsoDeferralCapped)
        };
        for with in [
            "linux-6.18.0",
            "linux-6.12",
            "linux-6.12.117",
            "linux-6.12.55",
            "linux-7.3",
        ] {
            assert!(has(with), "{with}");
        }
        for without in [
            "linux-6.12.0",
            "linux-6.12.54",
            "linux-5.15.0",
            "linux-6.11",
            "linux-6.17.0",
        ] {
            assert!(!has(without), "{without}");
        }
    }

    #[test]
    fn single_rules_are_added_and_removed() {
        for row in TABLE {
            let kernel = LINUX_6_12;
            assert!(kernel.with(row.rule).follows(row.rule));
            assert!(!kernel.without(row.rule).follows(row.rule));
            assert_eq!(row.rule.row(), row);
            assert_eq!(Rule::named(row.name), Some(row.rule));
        }
    }

    #[test]
    fn rows_are_ordered_named_and_dated() {
        for two in TABLE.windows(2) {
            let ordered = two[0].of != two[1].of || two[0].since <= two[1].since;
            assert!(ordered, "{}", two[1].name);
        }
        for row in TABLE {
            let first = TABLE.iter().position(|other| other.name == row.name);
            assert_eq!(first, Some(row.rule as usize), "{}", row.name);
            assert!(row.name.len() <= 40, "{}", row.name);
            let series = Release::new(row.since.major, row.since.minor, 0);
            assert_eq!(row.since, series, "{}", row.name);
            let early = row
                .ports
                .iter()
                .all(|port| port.number() < row.since.number());
            assert!(early, "{}", row.name);
        }
    }
}
