//! `narrows-host shell`: what `narrows shell` becomes. Options in, an exit code out.

use crate::emulator::preflight;
use crate::emulator::shell::{self, End, Program};
use crate::sys::process;
use crate::untrusted_input::{MOST_TRACE_BYTES, lies_inside, read_text};
use crate::{Frame, HostError};
use narrows_core::registry::Registry;
use narrows_core::scenario::value::{Entry, Node, Table, Value};
use narrows_core::scenario::{Scenario, Tree};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// How it is called.
pub const USAGE: &str = "\
narrows-host shell --toml TEXT [options] [-- COMMAND...]   run a program over the path of a scenario

  [path] carries what `near` receives (down), [path.reverse] what it sends (up)

  --toml TEXT     the scenario itself, for stdin is the program's
  --name NAME     what it is called in messages
  --seed N        instead of the scenario's
  --at far|near   where COMMAND runs; near
  --far COMMAND   start this at the far end first, by sh; any number of them
  --near COMMAND  the same at the near end
  --record FILE   every packet into a capture (pcapng) that Wireshark opens
  --json FILE     write what was seen here
  --quiet         do not tell it on stderr
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
    command: Vec<String>,
}

/// A line for the shell, which gives way to its only command.
fn by_sh(at: End, line: &str) -> Program {
    Program {
        at,
        words: vec!["/bin/sh".into(), "-c".into(), line.into()],
    }
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    while let Some(arg) = args.next() {
        if arg == "--" {
            asked.command = args.collect();
            break;
        }
        if arg == "--quiet" {
            asked.quiet = true;
            continue;
        }
        let value = args
            .next()
            .ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"))?;
        match arg.as_str() {
            "--toml" => asked.toml = value,
            "--name" => asked.name = Some(value),
            "--seed" => {
                let seed = value
                    .parse()
                    .map_err(|_| format!("--seed {value}: a seed is a whole number"))?;
                asked.seed = Some(seed);
            }
            "--at" if value == "far" => asked.at = End::Far,
            "--at" if value == "near" => asked.at = End::Near,
            "--at" => return Err(format!("--at {value}: far or near")),
            "--far" => asked.beside.push(by_sh(End::Far, &value)),
            "--near" => asked.beside.push(by_sh(End::Near, &value)),
            "--record" => asked.record = Some(value),
            "--json" => asked.json = Some(value),
            _ => return Err(format!("no option is called {arg}\n\n{USAGE}")),
        }
    }
    if asked.command.is_empty() {
        asked.command = vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into())];
    }
    Ok(asked)
}

/// What every scenario has and a shell does not use: without it, a value that counts for nothing.
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

/// Does it; answers the exit code of the program.
pub fn run(args: impl Iterator<Item = String>) -> Result<u8, HostError> {
    let asked = asked(args).map_err(HostError::Unlike)?;
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
    // Before an hour is spent in a shell; a run that comes to nothing leaves the file empty.
    let json_file = match &asked.json {
        Some(file) => {
            Some(File::create(file).map_err(|e| HostError::Unlike(format!("--json {file}: {e}")))?)
        }
        None => None,
    };
    process::listen();
    preflight::gain_privilege()?;
    let front = Program {
        at: asked.at,
        words: asked.command,
    };
    let seen = shell::run(
        &scenario,
        &registry,
        &front,
        &asked.beside,
        asked.record.as_deref().map(Path::new),
    )?;
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
