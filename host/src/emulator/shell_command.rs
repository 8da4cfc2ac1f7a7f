//! The command `narrows-host shell`, which `narrows shell` executes: options, run and exit code.

use crate::arguments::{Argument, Arguments};
use crate::emulator::shell::{self, End, Program};
use crate::emulator::{Machine, Queues, kernel_queue, preflight};
use crate::sys::process;
use crate::untrusted_input::{MOST_TRACE_BYTES, lies_inside, read_text};
use crate::{Frame, HostError};
use narrows_core::registry::Registry;
use narrows_core::scenario::value::{Entry, Node, Table, Value};
use narrows_core::scenario::{Scenario, Tree};
use narrows_core::units::Time;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The usage text.
pub const USAGE: &str = "\
narrows-host shell --toml TEXT [options] [-- COMMAND...]
    Run COMMAND over the path of a scenario [default: $SHELL]. [path] carries the traffic to `near`
    (download), [path.reverse] the traffic from `near` (upload).

  --toml TEXT     the scenario; stdin belongs to COMMAND
  --name NAME     name of the scenario in messages
  --seed N        seed [default: that of the scenario]
  --at far|near   host of COMMAND [default: near]
  --far COMMAND   run COMMAND on the host far too, by sh; may be repeated
  --near COMMAND  run COMMAND on the host near too, by sh; may be repeated
  --record FILE   write every packet to a capture (pcapng)
  --json FILE     write the observations to FILE
  --queues NAME   queue disciplines of a virtual machine: kernel or narrows [default: kernel]
  --quiet         do not print the observations on stderr
";

#[derive(Default)]
struct Asked {
    toml: String,
    name: Option<String>,
    seed: Option<u64>,
    at: End,
    beside: Vec<Program>,
    json: Option<String>,
    record: Option<String>,
    quiet: bool,
    queues: Queues,
    command: Vec<String>,
}

/// A program that runs `line` by sh. sh replaces itself by the command if the line has only one.
fn by_sh(at: End, line: &str) -> Program {
    Program {
        at,
        words: vec!["/bin/sh".into(), "-c".into(), line.into()],
    }
}

fn asked(args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut args = Arguments::new(args, USAGE);
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Rest(command) => {
                asked.command = command;
                break;
            }
            Argument::Operand(word) => {
                return Err(format!(
                    "{word}: unexpected operand; write -- before the command\n\n{USAGE}"
                ));
            }
        };
        if option == "--quiet" {
            asked.quiet = true;
            continue;
        }
        let value = args.value()?;
        match option.as_str() {
            "--toml" => asked.toml = value,
            "--name" => asked.name = Some(value),
            "--seed" => {
                let seed = value.parse().map_err(|_| {
                    format!("--seed {value}: not a whole number; write, e.g., --seed 1")
                })?;
                asked.seed = Some(seed);
            }
            "--at" if value == "far" => asked.at = End::Far,
            "--at" if value == "near" => asked.at = End::Near,
            "--at" => return Err(format!("--at {value}: unknown host; write far or near")),
            "--far" => asked.beside.push(by_sh(End::Far, &value)),
            "--near" => asked.beside.push(by_sh(End::Near, &value)),
            "--record" => asked.record = Some(value),
            "--queues" => asked.queues = Queues::named(&value)?,
            _ => asked.json = Some(value),
        }
    }
    if asked.command.is_empty() {
        asked.command = vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into())];
    }
    Ok(asked)
}

/// Adds keys that every scenario requires but a shell does not use: a duration, and a flow or
/// probe.
fn fill(tree: &mut Tree) {
    let node = |value| Node { value, at: None };
    let entry = |key: &str, value| Entry {
        key: key.into(),
        key_at: None,
        node: node(value),
    };
    let has = |tree: &Tree, key: &str| tree.root.entries.iter().any(|entry| entry.key == key);
    if !has(tree, "duration") {
        tree.root
            .entries
            .push(entry("duration", Value::String("10s".into())));
    }
    if !has(tree, "flow") && !has(tree, "probe") {
        let ping = entry("kind", Value::String("ping".into()));
        let probes = vec![node(Value::Table(Table {
            entries: vec![ping],
        }))];
        tree.root.entries.push(entry("probe", Value::Array(probes)));
    }
}

/// Runs the subcommand; returns the exit code of the program.
pub fn run(args: impl Iterator<Item = String>) -> Result<u8, HostError> {
    let asked = asked(args).map_err(HostError::Unlike)?;
    run_on(Machine::Host, asked, &mut |_| ())
}

/// Runs the subcommand with the scenario `toml` inside a virtual machine. Lines `progress SECONDS
/// 0` on the console report the time.
pub fn run_in_machine(
    args: impl Iterator<Item = String>,
    toml: String,
    console: &mut dyn Write,
) -> Result<u8, HostError> {
    let mut asked = asked(args).map_err(HostError::Unlike)?;
    asked.toml = toml;
    let machine = Machine::Virtual(asked.queues);
    run_on(machine, asked, &mut |now| {
        // A write error is ignored: the host detects by itself that the console is closed.
        let _ = writeln!(console, "progress {:.3} 0", now.as_s()).and_then(|()| console.flush());
    })
}

fn run_on(machine: Machine, asked: Asked, progress: &mut dyn FnMut(Time)) -> Result<u8, HostError> {
    let name = asked.name.as_deref().unwrap_or("scenario");
    let registry = Registry::<Frame>::standard();
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let files = |file: &str| {
        let file = folder.join(file);
        lies_inside(folder, &file)?;
        read_text(&file, MOST_TRACE_BYTES)
    };
    let wrong = |e: narrows_core::scenario::error::Errors| HostError::Unlike(e.to_string());
    let mut tree = Tree::from_toml(&asked.toml, name).map_err(wrong)?;
    fill(&mut tree);
    let mut scenario =
        Scenario::from_tree(&tree, name, Some(&asked.toml), &registry, &files).map_err(wrong)?;
    scenario.seed = asked.seed.unwrap_or(scenario.seed);
    // The file is created before the run, so that an error appears at once; after a failed run it
    // is empty.
    let json_file = match &asked.json {
        Some(file) => {
            Some(File::create(file).map_err(|e| HostError::Unlike(format!("--json {file}: {e}")))?)
        }
        None => None,
    };
    if machine == Machine::Virtual(Queues::Kernel) {
        kernel_queue::check(&scenario, &registry)
            .map_err(|error| preflight::locate(error, &tree, name, &asked.toml))?;
    }
    process::listen();
    preflight::gain_privilege()?;
    let front = Program {
        at: asked.at,
        words: asked.command,
    };
    let seen = shell::run(
        machine,
        &scenario,
        &registry,
        &front,
        &asked.beside,
        asked.record.as_deref().map(Path::new),
        progress,
    )
    .map_err(|error| preflight::locate(error, &tree, name, &asked.toml))?;
    if !asked.quiet {
        crate::terminal::say(seen.to_text());
    }
    if let Some(mut file) = json_file {
        let written = serde_json::from_str(&scenario.to_json()).unwrap_or_default();
        let json = seen.to_json(env!("CARGO_PKG_VERSION"), &written, &front);
        writeln!(file, "{json}").map_err(HostError::failed("the file of --json"))?;
    }
    seen.recorded?;
    Ok(seen.code)
}
