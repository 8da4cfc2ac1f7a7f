//! Commands of `narrows-host` that run scenarios over real packets: `run`, `ready`, `doctor`,
//! `shell`, and the first process of a virtual machine.

use crate::{WRONG, answer, code_of};
use narrows_core::registry::Registry;
use narrows_core::scenario::{Scenario, Tree};
use narrows_core::units::{Span, parse_span};
use narrows_host::arguments::{Argument, Arguments};
use narrows_host::emulator::module_parameters::{self, Setting};
use narrows_host::emulator::{Machine, Queues, doctor, guest, preflight, shell_command};
use narrows_host::sys;
use narrows_host::sys::machine::power_off;
use narrows_host::terminal::json;
use narrows_host::untrusted_input::{MOST_TEXT_BYTES, MOST_TRACE_BYTES, lies_inside, read_text};
use narrows_host::{HostError, Options, Progress, plugins};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// The usage text.
pub const USAGE: &str = "\
narrows-host run [FILE] [options]
    Run a scenario over real packets and print the run as JSON. FILE is the scenario; without FILE,
    or if FILE is -, the scenario is read from stdin.

narrows-host ready [CC...]
    Check that this host can run scenarios, with the congestion controls CC. Exit code 2: a
    requirement is not met; the message states the remedy.

narrows-host doctor [--stream]
    Measure for some seconds what this host can do, and print it as JSON.

Options of run:
  --name NAME             name of the scenario in messages; relative file names start at its
                          folder [default: FILE]
  --seed N                seed [default: that of the scenario]
  --sample-interval SPAN  time between two samples, e.g. 100ms; off: no samples; pictures: 300 to
                          750 samples in the whole run
  --record FILE           write every packet to a capture (pcapng)
  --states                sample the internal state of congestion controls that report it
  --verdicts N            list the first N packets that are dropped, marked or lost
                          [default: 0]
  --plugin FILE           load the queue disciplines of a shared library; may be repeated
  --queues NAME           queue disciplines of a virtual machine: kernel or narrows
                          [default: kernel]
  --built                 allow the scenario to name files outside its folder: for scenarios that a
                          program built
  --kernel-parameters     print the command line with which a kernel has the parameters of the
                          congestion controls, and end
  --stream                for programs: print lines of progress, then the run and its samples
  --tied                  end with the parent process
";

#[derive(Default)]
enum Interval {
    #[default]
    Usual,
    Off,
    Pictures,
    Of(Span),
}

#[derive(Default)]
struct Asked {
    file: Option<String>,
    name: Option<String>,
    seed: Option<u64>,
    interval: Interval,
    verdicts: usize,
    states: bool,
    record: Option<PathBuf>,
    plugins: Vec<PathBuf>,
    stream: bool,
    tied: bool,
    built: bool,
    kernel_parameters: bool,
    queues: Queues,
}

fn asked(args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut args = Arguments::new(args, USAGE);
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Operand(file) if asked.file.is_none() => {
                asked.file = Some(file);
                continue;
            }
            Argument::Operand(word) => return Err(args.unexpected(&word)),
            Argument::Rest(words) => {
                for word in words {
                    match asked.file {
                        None => asked.file = Some(word),
                        Some(_) => return Err(args.unexpected(&word)),
                    }
                }
                continue;
            }
        };
        match option.as_str() {
            "--stream" => asked.stream = true,
            "--tied" => asked.tied = true,
            "--built" => asked.built = true,
            "--kernel-parameters" => asked.kernel_parameters = true,
            "--states" => asked.states = true,
            "--name" => asked.name = Some(args.value()?),
            "--queues" => asked.queues = Queues::named(&args.value()?)?,
            "--record" => asked.record = Some(args.value()?.into()),
            "--plugin" => asked.plugins.push(args.value()?.into()),
            "--seed" => asked.seed = Some(number(&option, &args.value()?)?),
            "--verdicts" => asked.verdicts = number(&option, &args.value()?)?,
            _ => {
                let text = args.value()?;
                asked.interval = match text.as_str() {
                    "off" => Interval::Off,
                    "pictures" => Interval::Pictures,
                    _ => Interval::Of(parse_span(&text).map_err(|e| {
                        format!("{option} {text:?} {}\n    write: {:?}", e.problem, e.fix)
                    })?),
                };
            }
        }
    }
    Ok(asked)
}

fn number<T: FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{option} {text}: not a whole number; write, e.g., {option} 1"))
}

fn text(file: Option<&str>) -> Result<String, String> {
    match file {
        None | Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map(|_| text)
                .map_err(|e| format!("stdin: {e}"))
        }
        Some(file) => {
            read_text(Path::new(file), MOST_TEXT_BYTES).map_err(|wrong| format!("{file}: {wrong}"))
        }
    }
}

fn run(asked: &Asked, machine: Machine, lines: &mut dyn Write) -> Result<(), HostError> {
    let wrong = |text: String| HostError::Unlike(text);
    let mut registry = Registry::standard();
    plugins::register(&mut registry, &asked.plugins)?;
    let text = text(asked.file.as_deref()).map_err(wrong)?;
    let name = asked
        .name
        .as_deref()
        .or(asked.file.as_deref())
        .unwrap_or("stdin");
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let files = |file: &str| {
        let file = folder.join(file);
        if !asked.built {
            lies_inside(folder, &file)?;
        }
        read_text(&file, MOST_TRACE_BYTES)
    };
    let tree = Tree::from_toml(&text, name).map_err(|e| wrong(e.to_string()))?;
    let scenario = Scenario::from_tree(&tree, name, Some(&text), &registry, &files);
    let mut scenario = scenario.map_err(|e| wrong(e.to_string()))?;
    scenario.seed = asked.seed.unwrap_or(scenario.seed);
    let usual = match asked.interval {
        Interval::Usual => Options::usual(&scenario).at_least(preflight::LEAST_INTERVAL),
        Interval::Pictures => Options::pictures(&scenario).at_least(preflight::LEAST_INTERVAL),
        Interval::Off => Options {
            sample_interval: None,
            ..Options::default()
        },
        Interval::Of(span) => Options {
            sample_interval: Some(span),
            ..Options::default()
        },
    };
    let options = Options {
        verdicts: asked.verdicts,
        states: asked.states,
        ..usual
    };
    let located = |error| preflight::locate(error, &tree, name, &text);
    if asked.kernel_parameters {
        let settings = module_parameters::settings(&scenario, &registry).map_err(located)?;
        let words: Vec<String> = settings.iter().map(Setting::word).collect();
        let told = writeln!(std::io::stdout(), "{}", words.join(" "));
        return told.map_err(HostError::failed("stdout"));
    }
    preflight::check_scenario(machine, &scenario, &registry, &options).map_err(located)?;
    preflight::gain_privilege()?;
    let mut progress = |at: Progress| {
        if plugins::failure().is_err() {
            return false;
        }
        if asked.stream {
            let told = writeln!(lines, "progress {:.3} {:.3}", at.now.as_s(), at.end.as_s());
            return told.and_then(|()| lines.flush()).is_ok();
        }
        true
    };
    let record = asked.record.as_deref();
    let ran = narrows_host::run(
        machine,
        &scenario,
        &registry,
        &options,
        record,
        &mut progress,
    );
    plugins::failure()?;
    let (run, recorded) = ran.map_err(located)?;
    let written = serde_json::from_str(&scenario.to_json()).unwrap_or_default();
    let text = json(run.to_json(env!("CARGO_PKG_VERSION"), &written, None));
    let mut out = std::io::stdout().lock();
    let told = if asked.stream {
        let samples = run.samples.to_bytes();
        writeln!(out, "run {} {}", text.len(), samples.len())
            .and_then(|()| out.write_all(text.as_bytes()))
            .and_then(|()| out.write_all(&samples))
    } else {
        writeln!(out, "{text}")
    };
    told.and_then(|()| out.flush())
        .map_err(HostError::failed("stdout"))?;
    recorded
}

fn examine(stream: bool) -> Result<(), HostError> {
    let mut out = std::io::stdout();
    let told = doctor::look(&mut |part| {
        if stream {
            let mut out = std::io::stdout();
            return writeln!(out, "progress {part:.3} 1")
                .and_then(|()| out.flush())
                .is_ok();
        }
        true
    })?;
    writeln!(out, "{}", json(told)).map_err(HostError::failed("stdout"))
}

/// The command `run`.
fn run_command(args: impl Iterator<Item = String>) -> ExitCode {
    let asked = match asked(args) {
        Ok(asked) => asked,
        Err(problem) => {
            narrows_host::terminal::say(&problem);
            return ExitCode::from(WRONG);
        }
    };
    sys::remember_signals(asked.tied);
    answer(run(&asked, Machine::Host, &mut std::io::stdout()))
}

/// The usage of a command.
pub fn usage(command: &str) -> Option<&'static str> {
    match command {
        "run" | "ready" | "doctor" => Some(USAGE),
        "shell" => Some(shell_command::USAGE),
        _ => None,
    }
}

/// Runs the command if it is one of this module; otherwise returns the arguments.
pub fn command<I: Iterator<Item = String>>(name: Option<&str>, mut args: I) -> Result<ExitCode, I> {
    Ok(match name {
        Some("run") => run_command(args),
        Some("ready") => answer(preflight::check_machine(&args.collect::<Vec<_>>())),
        Some("doctor") => {
            let stream = args.any(|arg| arg == "--stream");
            sys::remember_signals(stream);
            answer(examine(stream))
        }
        Some("shell") => match shell_command::run(args) {
            Ok(code) => ExitCode::from(code),
            Err(error) => answer(Err(error)),
        },
        Some("guest") => guest_command(&args.collect::<Vec<_>>()),
        _ => return Err(args),
    })
}

/// The first process of a virtual machine: executes a run or a shell, then powers the machine off.
fn guest_command(args: &[String]) -> ExitCode {
    // The kernel appends an option of its own (`console=tty0`).
    let [folder, ..] = args else {
        return answer(Err(HostError::Unlike(
            "guest: write the folder of the run".into(),
        )));
    };
    let inside = args.get(1).is_some_and(|word| word == "inside");
    let done = guest::enter(folder, inside).and_then(|(arguments, mut console)| {
        let mut arguments = arguments.into_iter();
        if arguments.next().as_deref() == Some(guest::SHELL) {
            let toml = std::fs::read_to_string(Path::new(folder).join("scenario"));
            let toml = toml.map_err(HostError::failed("the scenario"))?;
            return shell_command::run_in_machine(arguments, toml, &mut console);
        }
        let asked = asked(arguments).map_err(HostError::Unlike)?;
        run(&asked, Machine::Virtual(asked.queues), &mut console).map(|()| 0)
    });
    let code = match done {
        Ok(code) => code,
        Err(error) => code_of(Err(error)),
    };
    if std::process::id() != 1 {
        return ExitCode::from(code);
    }
    guest::leave(folder, code);
    power_off()
}
