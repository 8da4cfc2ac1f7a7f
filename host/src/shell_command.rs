//! `narrows-host shell`: what `narrows shell` becomes. Options in, an exit code out.

use crate::shell::{self, Program};
use crate::{process, ready, Frame, HostError};
use narrows_core::net::{FAR, NEAR};
use narrows_core::registry::Registry;
use narrows_core::scenario::{Scenario, Tree};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// How it is called.
pub const USAGE: &str = "\
narrows-host shell --toml TEXT [options] [-- COMMAND...]   run a program over the path of a scenario

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
    far: bool,
    beside: Vec<Program>,
    json: Option<String>,
    record: Option<String>,
    quiet: bool,
    command: Vec<String>,
}

/// A line for the shell, which gives way to its only command.
fn by_sh(at: u8, line: &str) -> Program {
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
        let value = args.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"))?;
        match arg.as_str() {
            "--toml" => asked.toml = value,
            "--name" => asked.name = Some(value),
            "--seed" => {
                let seed = value
                    .parse()
                    .map_err(|_| format!("--seed {value}: a seed is a whole number"))?;
                asked.seed = Some(seed);
            }
            "--at" if value == "far" || value == "near" => asked.far = value == "far",
            "--at" => return Err(format!("--at {value}: far or near")),
            "--far" => asked.beside.push(by_sh(FAR, &value)),
            "--near" => asked.beside.push(by_sh(NEAR, &value)),
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

/// Does it; answers the exit code of the program.
pub fn run(args: impl Iterator<Item = String>) -> Result<u8, HostError> {
    let asked = asked(args).map_err(HostError::Unlike)?;
    let name = asked.name.as_deref().unwrap_or("scenario");
    let registry = Registry::<Frame>::standard();
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let files = |file: &str| std::fs::read_to_string(folder.join(file)).map_err(|e| format!("cannot be read ({e})"));
    let wrong = |e: narrows_core::scenario::error::Errors| HostError::Unlike(e.to_string());
    let tree = Tree::from_toml(&asked.toml, name).map_err(wrong)?;
    let mut scenario = Scenario::from_tree(&tree, name, Some(&asked.toml), &registry, &files).map_err(wrong)?;
    scenario.seed = asked.seed.unwrap_or(scenario.seed);
    // Before an hour is spent in a shell; a run that comes to nothing leaves the file empty.
    let json_file = match &asked.json {
        Some(file) => Some(File::create(file).map_err(|e| HostError::Unlike(format!("--json {file}: {e}")))?),
        None => None,
    };
    process::listen();
    ready::gain_privilege()?;
    let front = Program {
        at: if asked.far { FAR } else { NEAR },
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
        eprintln!("{}", seen.to_text());
    }
    if let Some(mut file) = json_file {
        let written = serde_json::from_str(&scenario.to_json()).unwrap_or_default();
        let json = seen.to_json(env!("CARGO_PKG_VERSION"), &written, &front);
        writeln!(file, "{json}").map_err(HostError::failed("the file of --json"))?;
    }
    Ok(seen.code)
}
