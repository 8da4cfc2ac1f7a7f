//! `narrows-host tune audit` and `narrows-host tune plan`: runs the collector on this host, in a
//! network namespace or on a directory tree, or reads its saved output. The rules are those of
//! `narrows_core::tune`, as in the Python package.

use super::plan::namespace;
use crate::arguments::{Argument, Arguments};
use crate::error::HostError;
use crate::untrusted_input::read_text;
use narrows_core::tune::collector::{self, MOST_BYTES, PATIENCE_S};
use narrows_core::tune::facts::Facts;
use narrows_core::tune::findings::{Path, audit};
use narrows_core::tune::plan::Ask;
use narrows_core::tune::planner;
use narrows_core::tune::text::{Audit, plan_lines};
use narrows_core::units::{UnitError, parse_rate, parse_span};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The usage text.
pub const USAGE: &str = "\
narrows-host tune audit [options]
    Report settings that slow or delay the traffic of this host, with reason, remedy and source.
    Exit code 1: settings contradict each other or have no effect.
narrows-host tune plan [options]
    Print the changes that a plan with these options makes. Exit code 1: a requirement is missing.

  --netns NAME           network namespace of `ip netns`
  --root DIR             read the settings from a directory tree with proc, sys and etc
  --facts FILE           read the settings from the saved output of the collector script
  --rate RATE            with --rtt: the path that one connection should be able to fill
  --rtt SPAN             RTT of this path
  --json                 print one JSON object instead of text
  --collector            audit: print the collector script
  --all                  audit: report settings without a finding, too
  --cc CC                plan: congestion control of new connections
  --to PREFIX            plan: apply --cc only to this destination; may be repeated
  --qdisc NAME           plan: queue discipline, or keep
  --dev DEVICE           plan: apply --qdisc only to this interface; may be repeated
  --ecn on|off|passive   plan: request ECN, disable it, or only accept it
  --mtu-probing          plan: try smaller packets after timeouts
  --set KEY=VALUE        plan: sysctl; may be repeated
  --replace              plan: replace configured shapers, schedulers and emulators, too
  --install              plan: on OpenWrt, install missing packages
  --shape DEVICE         plan: shape this interface
  --sqm DEVICE           plan: on OpenWrt, shape this interface with CAKE by sqm
  --down RATE            plan: rate of the shaper for incoming traffic
  --up RATE              plan: rate of the shaper for outgoing traffic

  narrows-host tune audit --rate 100Mbit --rtt 40ms
  narrows-host tune plan --cc bbr --qdisc fq
  narrows-host tune plan --cc bbr --json > plan.json
  narrows-host tune apply plan.json
";

/// Time within which the collector must end.
const PATIENCE: Duration = Duration::from_secs(PATIENCE_S);

/// Whether the arguments of `tune` begin with a command of this module.
pub fn is_command(name: Option<&String>) -> bool {
    matches!(name.map(String::as_str), Some("audit" | "plan"))
}

#[derive(Default)]
struct Options {
    is_plan: bool,
    netns: Option<String>,
    root: Option<String>,
    facts: Option<String>,
    json: bool,
    every: bool,
    collector: bool,
    rate: Option<String>,
    rtt: Option<String>,
    ask: Ask,
}

fn unlike(option: &'static str, text: &str) -> impl Fn(UnitError) -> String {
    let text = text.to_string();
    move |error| {
        format!(
            "{option} {text}: {}; write {option} {}",
            error.problem, error.fix
        )
    }
}

fn kbit(option: &'static str, text: &str) -> Result<u64, String> {
    let rate = parse_rate(text).map_err(unlike(option, text))?;
    Ok((rate.as_mbit() * 1000.0).round_ties_even() as u64)
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        is_plan: args.next().as_deref() == Some("plan"),
        ..Options::default()
    };
    let mut args = Arguments::new(args, USAGE);
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Operand(word) => return Err(args.unexpected(&word)),
            Argument::Rest(_) => return Err(args.unexpected("--")),
        };
        let ask = &mut options.ask;
        match (option.as_str(), options.is_plan) {
            ("--netns", _) => options.netns = Some(args.value()?),
            ("--root", _) => options.root = Some(args.value()?),
            ("--facts", _) => options.facts = Some(args.value()?),
            ("--rate", _) => options.rate = Some(args.value()?),
            ("--rtt", _) => options.rtt = Some(args.value()?),
            ("--json", _) => options.json = true,
            ("--all", false) => options.every = true,
            ("--collector", false) => options.collector = true,
            ("--all" | "--collector", true) => {
                return Err(format!("{option}: belongs to tune audit; leave it out"));
            }
            (_, false) => return Err(format!("{option}: belongs to tune plan; leave it out")),
            ("--cc", _) => ask.cc = Some(args.value()?),
            ("--to", _) => ask.to.push(args.value()?),
            ("--qdisc", _) => ask.qdisc = Some(args.value()?),
            ("--dev", _) => ask.devices.push(args.value()?),
            ("--ecn", _) => ask.ecn = Some(args.value()?),
            ("--mtu-probing", _) => ask.mtu_probing = true,
            ("--set", _) => ask.settings.push(args.value()?),
            ("--replace", _) => ask.replace = true,
            ("--install", _) => ask.install = true,
            ("--shape", _) => ask.shape = Some(args.value()?),
            ("--sqm", _) => ask.sqm = Some(args.value()?),
            ("--down", _) => ask.down_kbit = Some(kbit("--down", &args.value()?)?),
            ("--up", _) => ask.up_kbit = Some(kbit("--up", &args.value()?)?),
            _ => return Err(args.unexpected(&option)),
        }
    }
    options.ask.path = path(options.rate.as_deref(), options.rtt.as_deref())?;
    options.ask.netns.clone_from(&options.netns);
    if let Some(netns) = options.netns.as_ref().filter(|netns| !namespace(netns)) {
        return Err(format!(
            "--netns {netns}: not the name of a namespace; write one that `ip netns list` prints"
        ));
    }
    let sources = [&options.netns, &options.root, &options.facts];
    if sources.into_iter().flatten().count() > 1 && !(options.is_plan && options.netns.is_some()) {
        return Err("--netns, --root, --facts: each selects a host; write only one of them".into());
    }
    Ok(options)
}

fn path(rate: Option<&str>, rtt: Option<&str>) -> Result<Path, String> {
    let (rate, rtt) = match (rate, rtt) {
        (Some(rate), Some(rtt)) => (rate, rtt),
        (None, None) => return Ok(Path::default()),
        _ => return Err("--rate, --rtt: write both: --rate 1Gbit --rtt 80ms".into()),
    };
    let mbit = parse_rate(rate).map_err(unlike("--rate", rate))?;
    let span = parse_span(rtt).map_err(unlike("--rtt", rtt))?;
    Ok(Path {
        rate_mbit: Some(mbit.as_mbit()),
        rtt_ms: Some(span.as_ms()),
    })
}

/// Runs `tune audit` or `tune plan`; returns the text to print, and whether the exit code is 0.
///
/// # Errors
///
/// If an option is wrong, or the settings cannot be read.
pub fn run(args: impl Iterator<Item = String>) -> Result<(String, bool), HostError> {
    let options = read(args).map_err(HostError::Unlike)?;
    if options.collector {
        return Ok((collector::SCRIPT.into(), true));
    }
    let facts = facts(&options)?;
    let unlike = |error: serde_json::Error| HostError::Unlike(format!("plan: {error}"));
    let joined = |lines: Vec<String>| lines.join("\n") + "\n";
    if !options.is_plan {
        let made = Audit::new(&facts, audit(&facts, &options.ask.path));
        let text = match options.json {
            true => serde_json::to_string(&made).map_err(unlike)? + "\n",
            false => joined(made.lines(options.every)),
        };
        return Ok((text, !made.has_errors()));
    }
    let plan = planner::plan(&facts, &options.ask).map_err(HostError::Unlike)?;
    let document = serde_json::to_string(&plan).map_err(unlike)?;
    let text = match options.json {
        true => document + "\n",
        false => joined(plan_lines(&document).map_err(unlike)?),
    };
    Ok((text, plan.able))
}

fn facts(options: &Options) -> Result<Facts, HostError> {
    if let Some(file) = &options.facts {
        let text = read_text(std::path::Path::new(file), MOST_BYTES)
            .map_err(|problem| HostError::Unlike(format!("{file}: it {problem}")))?;
        return collector::parse(&text, file).map_err(HostError::Unlike);
    }
    let (mut command, place) = match (&options.root, &options.netns) {
        (Some(root), _) => {
            if !std::path::Path::new(root).join("proc/sys").is_dir() {
                return Err(HostError::Unlike(format!(
                    "{root}: there is no proc/sys in it; name the tree of a host, with its proc, \
                     sys and etc"
                )));
            }
            let mut command = Command::new("sh");
            command.args(["-s", root]);
            (command, root.as_str())
        }
        (None, Some(netns)) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", netns, "sh", "-s"]);
            (command, netns.as_str())
        }
        (None, None) => {
            let mut command = Command::new("sh");
            command.arg("-s");
            (command, "the collector")
        }
    };
    let failed = |error: std::io::Error| HostError::Missing(format!("{place}: {error}"));
    let pipe = Stdio::piped;
    let mut child = command
        .stdin(pipe())
        .stdout(pipe())
        .spawn()
        .map_err(failed)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // The script is larger than a pipe may be. If the shell ends early, its exit code shows it.
    let writer = std::thread::spawn(move || {
        stdin.map(|mut stdin| stdin.write_all(collector::SCRIPT.as_bytes()))
    });
    let (to, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut read = Vec::new();
        let done = stdout.map(|out| out.take(MOST_BYTES).read_to_end(&mut read));
        let _ = to.send(done.transpose().map(|_| read));
    });
    let Ok(read) = text.recv_timeout(PATIENCE) else {
        let _ = child.kill();
        let _ = child.wait();
        let seconds = PATIENCE.as_secs();
        return Err(HostError::Missing(format!(
            "{place}: the collector did not finish within {seconds} s"
        )));
    };
    let code = child.wait().map_err(failed)?;
    let _ = writer.join();
    if !code.success() {
        return Err(HostError::Missing(format!(
            "{place}: the collector ended with {code}"
        )));
    }
    let read = read.map_err(failed)?;
    collector::parse(&String::from_utf8_lossy(&read), place).map_err(HostError::Unlike)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &str) -> String {
        let words = words.split_whitespace().map(String::from);
        run(words).expect_err("must be refused").to_string()
    }

    #[test]
    fn wrong_options_are_named() {
        assert!(refused("audit --cc bbr").contains("--cc: belongs to tune plan"));
        assert!(refused("plan --all").contains("--all: belongs to tune audit"));
        assert!(refused("audit --rate 1Gbit").contains("write both"));
        assert!(refused("plan --up 18 --shape e").contains("--up 18"));
        assert!(refused("audit --root /tmp --facts x").contains("only one of them"));
        assert!(refused("audit --root /etc").contains("/etc: there is no proc/sys in it"));
    }
}
