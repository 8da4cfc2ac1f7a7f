//! Reads the options of `narrows-host tune`.

use super::engine::Foreign;
use super::plan::namespace;
use crate::arguments::{Argument, Arguments};
use crate::tune::target::World;
use narrows_core::units::parse_seconds;
use std::path::PathBuf;

/// The usage text.
pub const USAGE: &str = "\
narrows-host tune apply [PLAN] [options]
    Apply a plan of `narrows tune plan --json`, from a file or stdin, and print the changes as JSON.
narrows-host tune confirm [options]
    Keep the changes of a plan that was applied with --confirm-within.
narrows-host tune verify [options]
    Compare the host with the applied plans. Exit code 1: a setting differs.
narrows-host tune revert [options]
    Restore all settings and files that applied plans changed, byte for byte.

  --confirm-within SPAN  apply: revert all changes unless they are confirmed in this time, which is
                         1s to 24h; write nothing for the next boot before the confirmation
  --replace              replace queue disciplines that narrows did not install, too
  --force                revert: restore settings that changed after the plan was applied, too
  --last                 revert: only the plan applied last
  --table                print tables instead of JSON
  --netns NAME           network namespace of `ip netns`
  --state DIR            directory of the journals [default: /var/lib/narrows/tune; with --netns
                         /run/narrows/tune]
  --root DIR             directory below which all files are read and written [default: /]
  --id ID                for narrows itself: the journal that the watchdog reverts
  --stop-after N         for tests: end after N steps, as at a power failure
";

/// The action.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Apply a plan.
    Apply,
    /// Confirm the plan applied last.
    Confirm,
    /// Compare the host with the applied plans.
    Verify,
    /// Revert applied plans.
    Revert,
    /// Run as watchdog, which reverts an unconfirmed plan at its deadline.
    Watch,
}

const COMMANDS: [(&str, Command); 5] = [
    ("apply", Command::Apply),
    ("confirm", Command::Confirm),
    ("verify", Command::Verify),
    ("revert", Command::Revert),
    ("watch", Command::Watch),
];

/// The options.
#[derive(Debug)]
pub struct Options {
    /// The action.
    pub command: Command,
    /// File of the plan; `-` is stdin.
    pub plan: String,
    /// Time in which the plan must be confirmed, s; `None`: no confirmation is required.
    pub within: Option<f64>,
    /// Treatment of values that other programs changed after the plan was applied.
    pub foreign: Foreign,
    /// Whether to revert only the plan applied last.
    pub last: bool,
    /// Name of the network namespace to enter, as in `ip netns`.
    pub netns: Option<String>,
    /// Identifier of the journal that a watchdog supervises.
    pub id: String,
    /// The target of the changes.
    pub world: World,
}

/// Range of `--confirm-within`, s.
const WITHIN: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

/// Reads the words of a command line after `narrows-host tune`.
pub fn read(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let command = args.next().unwrap_or_default();
    let (_, command) = *COMMANDS
        .iter()
        .find(|(name, _)| *name == command)
        .ok_or_else(|| {
            let known = "audit, plan, apply, confirm, verify or revert";
            format!("tune {command:?}: write tune {known}\n\n{USAGE}")
        })?;
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
    let mut args = Arguments::new(args, USAGE);
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Operand(plan) if command == Command::Apply && options.plan == "-" => {
                options.plan = plan;
                continue;
            }
            Argument::Operand(word) => return Err(args.unexpected(&word)),
            Argument::Rest(_) => return Err(args.unexpected("--")),
        };
        match option.as_str() {
            "--confirm-within" if command == Command::Apply => {
                options.within = Some(within(&args.value()?)?);
            }
            "--confirm-within" => {
                return Err(format!("{option}: belongs to tune apply; leave it out"));
            }
            "--replace" => options.world.replace = true,
            "--force" => options.foreign = Foreign::Overwrite,
            "--last" => options.last = true,
            "--netns" => options.netns = Some(named(args.value()?)?),
            "--state" => options.world.given = Some(absolute(&args.value()?)?),
            "--root" => options.world.root = PathBuf::from(args.value()?),
            "--id" => options.id = args.value()?,
            _ => options.world.stop_after = args.value()?.parse().ok(),
        }
    }
    Ok(options)
}

fn within(text: &str) -> Result<f64, String> {
    let span = parse_seconds(text).map_err(|e| {
        format!(
            "--confirm-within {text:?} {}\n    write: {}",
            e.problem, e.fix
        )
    })?;
    if !WITHIN.contains(&span.as_s()) {
        return Err(format!(
            "--confirm-within {text}: out of range; write 1s to 24h, such as 120s"
        ));
    }
    Ok(span.as_s())
}

/// Checks the name of a network namespace. An invalid name is an error, so that the plan is not
/// applied to this host's own network instead.
fn named(netns: String) -> Result<String, String> {
    if namespace(&netns) {
        return Ok(netns);
    }
    Err(format!(
        "--netns {netns:?}: not the name of a namespace; write one that `ip netns list` prints"
    ))
}

fn absolute(dir: &str) -> Result<String, String> {
    if dir.starts_with('/') && !dir.split('/').any(|part| part == "..") {
        return Ok(dir.trim_end_matches('/').to_string());
    }
    Err(format!(
        "--state {dir}: not an absolute path; write, e.g., --state /var/lib/narrows/tune"
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
    fn errors_name_the_option_and_the_fix() {
        for (words, part) in [
            ("", "apply, confirm"),
            ("apply --confirm-within 120", "write: 120s"),
            ("apply --confirm-within 1ms", "120s"),
            ("verify x", "unexpected operand"),
            ("verify --state x", "absolute path"),
            ("apply --no", "unknown option"),
            ("revert --confirm-within 1s", "tune apply"),
            ("revert --netns ../1", "ip netns list"),
            ("verify --netns 101%", "ip netns list"),
        ] {
            assert!(asked(words).unwrap_err().contains(part), "{words}");
        }
    }
}
