//! The options of `narrows-host tune`.

use super::engine::Foreign;
use super::plan::namespace;
use crate::tune::target::World;
use narrows_core::units::parse_seconds;
use std::path::PathBuf;

/// How it is called.
pub const USAGE: &str = "\
narrows-host tune apply [PLAN]        carry out a plan (narrows tune plan --json) from a file or \
stdin; print what was done as JSON
narrows-host tune confirm             keep what was applied with --confirm-within
narrows-host tune verify              is it still so? exit 0, or 1 where something drifted
narrows-host tune revert              put everything back, byte for byte

  --confirm-within SPAN   undo everything, and write nothing for the next boot, unless confirmed \
  by then
  --replace               replace a queue discipline that somebody made, too
  --force                 of revert: put back what somebody has changed since, too
  --last                  of revert: only the plan that was applied last
  --netns NAME            in a network namespace of ip netns
  --state DIR             where journals are; /var/lib/narrows/tune, of other network namespaces \
  than the host's /run/narrows/tune
  --root DIR              what stands before every path of a file
";

/// What to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Carry out a plan.
    Apply,
    /// Keep it.
    Confirm,
    /// Look.
    Verify,
    /// Undo it.
    Revert,
    /// Undo it in time.
    Watch,
}

const COMMANDS: [(&str, Command); 5] = [
    ("apply", Command::Apply),
    ("confirm", Command::Confirm),
    ("verify", Command::Verify),
    ("revert", Command::Revert),
    ("watch", Command::Watch),
];

/// What is asked.
#[derive(Debug)]
pub struct Options {
    /// To do what.
    pub command: Command,
    /// The plan's file; `-` is stdin.
    pub plan: String,
    /// Seconds in which to confirm.
    pub within: Option<f64>,
    /// What to do about what somebody else has changed.
    pub foreign: Foreign,
    /// Only the plan that was applied last.
    pub last: bool,
    /// A network namespace.
    pub netns: Option<String>,
    /// Of which journal.
    pub id: String,
    /// Where.
    pub world: World,
}

/// Somebody must have time to look, and nobody remembers after a day.
const WITHIN: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// Reads them.
pub fn read(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let command = args.next().unwrap_or_default();
    let command = COMMANDS
        .iter()
        .find(|(name, _)| *name == command)
        .map(|(_, c)| *c);
    let command =
        command.ok_or_else(|| format!("tune apply, confirm, verify or revert\n\n{USAGE}"))?;
    let mut options = Options {
        command,
        plan: "-".to_string(),
        within: None,
        foreign: Foreign::Refuse,
        last: false,
        netns: None,
        id: String::new(),
        world: World::default(),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--confirm-within" if command == Command::Apply => {
                let text = value()?;
                let span = parse_seconds(&text).map_err(|e| {
                    format!(
                        "--confirm-within {text:?} {}\n    write: {}",
                        e.problem, e.fix
                    )
                })?;
                if !WITHIN.contains(&span.as_s()) {
                    return Err(format!(
                        "--confirm-within {text}: from 1s to 24h; 120s is usual"
                    ));
                }
                options.within = Some(span.as_s());
            }
            "--replace" => options.world.replace = true,
            "--force" => options.foreign = Foreign::Overwrite,
            "--last" => options.last = true,
            "--netns" => options.netns = Some(named(value()?)?),
            "--state" => options.world.given = Some(absolute(&value()?)?),
            "--root" => options.world.root = PathBuf::from(value()?),
            "--id" => options.id = value()?,
            // For tests: as if the power failed after so many steps.
            "--stop-after" => options.world.stop_after = value()?.parse().ok(),
            _ if arg.starts_with("--") => {
                return Err(format!("no option is called {arg}\n\n{USAGE}"));
            }
            _ if command == Command::Apply && options.plan == "-" => options.plan = arg,
            _ => return Err(format!("{arg}: is one word too many\n\n{USAGE}")),
        }
    }
    Ok(options)
}

/// A name that is none must not come to mean this host's own network.
fn named(netns: String) -> Result<String, String> {
    if namespace(&netns) {
        return Ok(netns);
    }
    Err(format!(
        "--netns {netns:?}: a name as `ip netns list` prints it"
    ))
}

fn absolute(dir: &str) -> Result<String, String> {
    if dir.starts_with('/') && !dir.split('/').any(|part| part == "..") {
        return Ok(dir.trim_end_matches('/').to_string());
    }
    Err(format!(
        "--state {dir}: must be a whole path, like /var/lib/narrows/tune"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Options, String> {
        read(words.split_whitespace().map(str::to_string))
    }

    #[test]
    fn options_are_read() {
        let options = asked("apply plan.json --confirm-within 120s --replace").unwrap();
        assert_eq!((options.within, options.world.replace), (Some(120.0), true));
        assert_eq!(options.plan, "plan.json");
        assert_eq!(asked("revert --force").unwrap().foreign, Foreign::Overwrite);
    }

    #[test]
    fn mistakes_are_told() {
        for (words, part) in [
            ("", "apply, confirm"),
            ("apply --confirm-within 120", "write: 120s"),
            ("apply --confirm-within 1ms", "120s"),
            ("verify x", "too many"),
            ("verify --state x", "whole path"),
            ("apply --no", "no option"),
            ("revert --netns ../1", "ip netns list"),
            ("verify --netns 101%", "ip netns list"),
        ] {
            assert!(asked(words).unwrap_err().contains(part), "{words}");
        }
    }
}
