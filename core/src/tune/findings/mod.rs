//! Rules that audit a host. Each rule is a function from facts to findings, and each module lists
//! its rules.
//!
//! | module | subjects |
//! |---|---|
//! | `control` | kernel, congestion controls, sockets, namespaces |
//! | `release` | rules of TCP that the kernel lacks |
//! | `queues` | queue disciplines, pacing, BQL, rings, offloads, coalescing |
//! | `tcp` | buffers for a path, ECN, MTU probing, TCP features, governor |
//! | `wifi` | queues, airtime and link of wireless interfaces |
//! | `system` | files read at boot, machine or container, router |
//!
//! A finding has a fact, its relevance, a remedy and a source.

mod control;
pub(super) mod queues;
pub mod release;
pub(super) mod system;
mod tcp;
mod wifi;

use super::facts::Facts;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The severity of a finding, the worst first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A setting does not work or contradicts another one.
    Error,
    /// A setting costs goodput or latency on real paths.
    Warning,
    /// Information; no problem.
    Note,
    /// Checked without a problem.
    Good,
}

/// The severities with their names, the worst first.
pub const SEVERITIES: [(Severity, &str); 4] = [
    (Severity::Error, "error"),
    (Severity::Warning, "warning"),
    (Severity::Note, "note"),
    (Severity::Good, "good"),
];

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule, for example `pacing` or `qdisc`.
    pub id: Cow<'static, str>,
    /// Its severity.
    pub severity: Severity,
    /// Interface, namespace or file that was checked; empty for the whole host.
    pub subject: String,
    /// The fact.
    pub what: String,
    /// Its relevance.
    pub why: String,
    /// A remedy, or an empty string.
    pub fix: String,
    /// Source: a release of Linux, a document, or a file of the host.
    pub source: String,
}

impl Finding {
    /// A finding about the whole host, without a remedy.
    fn new(
        id: &'static str,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        source: impl Into<String>,
    ) -> Finding {
        Finding {
            id: id.into(),
            severity,
            subject: String::new(),
            what: what.into(),
            why: why.into(),
            fix: String::new(),
            source: source.into(),
        }
    }
    fn about(self, subject: impl Into<String>) -> Finding {
        let subject = subject.into();
        Finding { subject, ..self }
    }
    fn remedy(self, fix: impl Into<String>) -> Finding {
        let fix = fix.into();
        Finding { fix, ..self }
    }
}

/// The path that one connection of the host should be able to fill with its TCP buffers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// Rate, Mbit/s.
    pub rate_mbit: Option<f64>,
    /// RTT, ms.
    pub rtt_ms: Option<f64>,
}

impl Path {
    /// The bandwidth-delay product, rate times RTT, in bytes; `None` if either is unknown.
    pub fn bdp_bytes(&self) -> Option<f64> {
        Some(self.rate_mbit? * 1e6 / 8.0 * self.rtt_ms? / 1e3)
    }
}

type Rule = fn(&Facts, &Path, &mut Vec<Finding>);

/// All findings, the most severe first, and findings of the same severity in the order of the
/// rules. Without values in `path`, findings state the rate for which the TCP buffers suffice.
pub fn audit(facts: &Facts, path: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    for rules in [
        control::RULES,
        release::RULES,
        queues::RULES,
        tcp::RULES,
        wifi::RULES,
        system::RULES,
    ] {
        rules.iter().for_each(|rule| rule(facts, path, &mut found));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// The number of findings of a severity.
pub fn count(found: &[Finding], severity: Severity) -> usize {
    found
        .iter()
        .filter(|finding| finding.severity == severity)
        .count()
}

/// A sentence with the numbers of errors and warnings.
pub fn verdict(found: &[Finding]) -> String {
    let [errors, warnings] = [Severity::Error, Severity::Warning].map(|of| count(found, of));
    let named = |n: usize, name: &str| match n {
        0 => format!("no {name}s"),
        1 => format!("1 {name}"),
        _ => format!("{n} {name}s"),
    };
    if errors + warnings == 0 {
        return "The audit found no errors and no warnings.".into();
    }
    let (errors, warnings) = (named(errors, "error"), named(warnings, "warning"));
    format!("The audit found {errors} and {warnings}.")
}

/// `yes` if the condition holds, otherwise `no`.
fn pick<T>(condition: bool, yes: T, no: T) -> T {
    if condition { yes } else { no }
}

const NOTE: Severity = Severity::Note;
const GOOD: Severity = Severity::Good;
const WARNING: Severity = Severity::Warning;
const ERROR: Severity = Severity::Error;
/// A source.
const IP_SYSCTL: &str = "Documentation/networking/ip-sysctl.rst of Linux";
