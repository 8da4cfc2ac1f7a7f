//! Findings about behaviour of the kernel release that costs goodput or delay, from simulated
//! effects.
//!
//! [`KNOWN_EFFECTS`] has the effect of each rule of TCP on typical paths. `python -m
//! validation.rule_effects` measures these effects: it adds each rule to the release before the one
//! that introduced the rule. A finding names a rule (a change of Linux) that the kernel of the host
//! lacks and whose effect is large. The kernel must have all rules of that earlier release for the
//! same part of TCP. Otherwise the effect was measured with different behaviour. For example, a
//! rule that corrects a regression of 6.16 is no finding for 6.8.
//!
//! A distribution's kernel with patch level 0 (6.8.0-45) contains back-ports. Such a kernel counts
//! as the last stable release of its series. A rule that a stable release of the series contains is
//! therefore no finding.

use super::{Finding, NOTE, Path, Rule};
use crate::kernel::{Kernel, Release, Row, TABLE};
use crate::tune::facts::Facts;
use crate::tune::ordered::Ordered;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

pub(super) const RULES: &[Rule] = &[known_rules];

/// The measured effects as JSON.
pub const KNOWN_EFFECTS: &str = include_str!("known_effects.json");

/// Effects below this share of goodput or RTT are not reported.
const LEAST: f64 = 0.05;

#[derive(Deserialize)]
struct Stored {
    rules: Ordered<Known>,
}

#[derive(Deserialize)]
struct Known {
    needs: Vec<String>,
    effects: Vec<Effect>,
}

#[derive(Deserialize)]
struct Effect {
    path: String,
    goodput_share: Share,
    rtt_share: Share,
}

/// A share with its confidence interval.
#[derive(Deserialize)]
struct Share {
    mean: f64,
    low: f64,
    high: f64,
}

impl Effect {
    /// The improvement by the rule as a share: higher goodput, or lower RTT unless the mean goodput
    /// falls by [`LEAST`] or more. It is the end of the confidence interval with the smaller
    /// improvement.
    fn gain(&self) -> f64 {
        let keeps = self.goodput_share.mean > -LEAST;
        let rtt = if keeps { -self.rtt_share.high } else { 0.0 };
        self.goodput_share.low.max(rtt)
    }
}

fn known_rules(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    // The stored effects are read by a test.
    to.extend(kernel_rules(&facts.release, KNOWN_EFFECTS).unwrap_or_default());
}

/// The name of the release that models this kernel, without the patch level 0; `None` if the text
/// contains no release.
fn modelled(release: &str) -> Option<String> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
    let mut parts = release[..end.unwrap_or(release.len())]
        .split('.')
        .map(|part| {
            let known = (1..=4).contains(&part.len());
            part.parse::<u16>().ok().filter(|_| known)
        });
    let (major, minor) = (parts.next()??, parts.next()??);
    Some(match parts.next().flatten() {
        None | Some(0) => format!("{major}.{minor}"),
        Some(patch) => format!("{major}.{minor}.{patch}"),
    })
}

/// Reports rules that the kernel lacks and whose effect is large.
///
/// # Errors
///
/// If the effects are not JSON of this form.
pub fn kernel_rules(release: &str, effects: &str) -> Result<Vec<Finding>, serde_json::Error> {
    let stored: Stored = serde_json::from_str(effects)?;
    let Some(like) = modelled(release) else {
        return Ok(Vec::new());
    };
    // A release that the simulator does not model has no finding.
    let Some(kernel) = Release::named(&format!("linux-{like}")).map(Kernel::of) else {
        return Ok(Vec::new());
    };
    let named = |name: &str| TABLE.iter().find(|row| row.name == name);
    let lacks = |name: &str| named(name).is_some_and(|row| !kernel.follows(row.rule));
    let mut found = Vec::new();
    for (name, known) in &stored.rules.0 {
        let Some(row) = named(name).filter(|row| !kernel.follows(row.rule)) else {
            continue;
        };
        let worst = known.effects.iter().filter(|effect| effect.gain() >= LEAST);
        let Some(worst) = worst.max_by(|a, b| a.gain().total_cmp(&b.gain())) else {
            continue;
        };
        if !known.needs.iter().any(|other| lacks(other)) {
            found.push(finding(row, worst, &like));
        }
    }
    Ok(found)
}

fn finding(row: &Row, effect: &Effect, like: &str) -> Finding {
    let percent = |share: &Share| match format!("{:.1}", share.mean * 100.0) {
        zero if zero == "-0.0" => "0.0".into(),
        other => other,
    };
    let (goodput, rtt) = (percent(&effect.goodput_share), percent(&effect.rtt_share));
    let (since, path, help) = (row.since.text(), &effect.path, row.help);
    let ports: Vec<String> = row.ports.iter().map(|port| port.text()).collect();
    let ports = match ports.len() {
        0 => String::new(),
        _ => format!("; also in {}", ports.join(", ")),
    };
    Finding::new(
        "kernel-rule",
        NOTE,
        format!("Linux {like} lacks a change of Linux {since}: {help}"),
        format!(
            "in simulation, the change has this effect on {path}: goodput {goodput} %, mean RTT \
             {rtt} %"
        ),
        row.source,
    )
    .about(row.name)
    .remedy(format!(
        "run Linux {since} or newer{ports}; for a path of your own: narrows kernel diff {like} \
         {since} --path scenario.toml"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_effects_are_of_rules_of_this_version() {
        let stored: Stored = serde_json::from_str(KNOWN_EFFECTS).unwrap();
        let is_known = |name: &String| TABLE.iter().any(|row| row.name == *name);
        assert!(!stored.rules.0.is_empty());
        for (name, known) in &stored.rules.0 {
            assert!(is_known(name) && known.needs.iter().all(is_known), "{name}");
        }
    }

    #[test]
    fn a_release_is_named_as_in_a_scenario() {
        let names = [
            "6.12.57+deb13-amd64",
            "6.8.0-45-generic",
            "custom",
            "6.12345",
        ];
        let found = names.map(modelled);
        let text: [Option<&str>; 4] = found.each_ref().map(Option::as_deref);
        assert_eq!(text, [Some("6.12.57"), Some("6.8"), None, None]);
    }
}
