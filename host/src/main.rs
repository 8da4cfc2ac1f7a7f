//! `narrows-host`: the program of narrows that accesses the host. The Python package starts it.

use narrows_core::registry::Registry;
use narrows_core::scenario::{Scenario, Tree};
use narrows_core::units::{Span, parse_span};
use narrows_host::arguments::{Argument, Arguments};
use narrows_host::emulator::{Machine, Queues, doctor, guest, preflight, shell_command};
use narrows_host::sys::machine::power_off;
use narrows_host::sys::{self, kernel, process};
use narrows_host::terminal::json;
use narrows_host::tune::{self, exec_with_cc};
use narrows_host::untrusted_input::{MOST_TEXT_BYTES, MOST_TRACE_BYTES, lies_inside, read_text};
use narrows_host::{HostError, Options, Progress, latency, measure, plugins, serve};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

const USAGE: &str = "\
narrows-host run [FILE] [options]
    Run a scenario over real packets and print the run as JSON. FILE is the scenario; without FILE,
    or for -, it is read from stdin.

narrows-host ready [CC...]
    Check that this host can run scenarios, with the congestion controls CC. Exit code 2: something
    is missing; the message states the remedy.

narrows-host machine
    Print release, tick rate and congestion controls of this kernel as JSON.

narrows-host doctor [--stream]
    Measure for some seconds what this host can do, and print it as JSON.

Options of run:
  --name NAME             name of the scenario in messages and the base of relative file names
                          [default: FILE]
  --seed N                seed [default: that of the scenario]
  --sample-interval SPAN  time between two samples, e.g. 100ms; off: no samples; pictures: some
                          hundred samples of the run
  --record FILE           write every packet to a capture (pcapng)
  --states                sample the internal state of congestion controls that report it
  --verdicts N            list the first N packets that are dropped, marked or lost
                          [default: 0]
  --plugin FILE           load the queue disciplines of a shared library; may be repeated
  --queues NAME           queue disciplines of a virtual machine: kernel or narrows
                          [default: kernel]
  --built                 allow the scenario to name files outside its folder: for scenarios that a
                          program built
  --stream                for programs: print lines of progress, then the run and its samples
  --tied                  end with the parent process
";

const WRONG: u8 = 2;

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
    preflight::check_scenario(machine, &scenario, &registry, &options)?;
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
    let (run, recorded) = ran?;
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

fn serve_command(args: impl Iterator<Item = String>) -> Result<(), HostError> {
    let known = |name: &str| std::env::var(name).ok();
    let options = serve::options::read(args, known).map_err(HostError::Unlike)?;
    let mut out = std::io::stdout();
    if options.unit {
        let program = std::env::current_exe().map_err(HostError::failed("this program"))?;
        let unit = serve::options::unit(&program.display().to_string());
        return write!(out, "{unit}").map_err(HostError::failed("stdout"));
    }
    if options.show_limits {
        return writeln!(out, "{}", json(serve::limits::Limits::to_json()))
            .map_err(HostError::failed("stdout"));
    }
    sys::remember_signals(options.tied);
    serve::run(&options, &mut |what, at| {
        // The parent process waits for these lines; it may have closed stdout.
        let _ = writeln!(out, "{what} at {at}").and_then(|()| out.flush());
    })
}

fn measure_command(args: impl Iterator<Item = String>) -> Result<(), HostError> {
    let known = |name: &str| std::env::var(name).ok();
    let options = measure::options::read(args, known).map_err(HostError::Unlike)?;
    measure::plan::check(&options).map_err(HostError::Unlike)?;
    sys::remember_signals(options.tied);
    let stream = options.stream;
    let mut planned = |bytes: u64, seconds: f64| {
        if stream {
            // A closed stdout is detected at the next line of progress.
            let _ = writeln!(std::io::stdout(), "plan {bytes} {seconds:.3}");
        } else {
            narrows_host::terminal::say(format!(
                "{seconds:.0} s, up to {:.1} MB",
                bytes as f64 / 1e6
            ));
        }
    };
    let mut progress = |now: f64, end: f64| {
        let mut out = std::io::stdout();
        !stream
            || writeln!(out, "progress {now:.3} {end:.3}")
                .and_then(|()| out.flush())
                .is_ok()
    };
    let measured = measure::run(&options, &mut planned, &mut progress)?;
    let text = json(&measured);
    let mut out = std::io::stdout().lock();
    let told = if stream {
        writeln!(out, "measurement {}", text.len()).and_then(|()| out.write_all(text.as_bytes()))
    } else {
        writeln!(out, "{text}")
    };
    told.and_then(|()| out.flush())
        .map_err(HostError::failed("stdout"))?;
    if measured["data"]["stopped_by"] == "user" {
        return Err(HostError::Stopped);
    }
    Ok(())
}

fn latency_command(args: impl Iterator<Item = String>) -> Result<(), HostError> {
    let known = |name: &str| std::env::var(name).ok();
    let options = latency::options::read(args, known).map_err(HostError::Unlike)?;
    sys::remember_signals(options.tied);
    let stream = options.stream;
    let outcome = latency::run(&options, &mut |at| {
        let told = at.outcome;
        let median = told.response.below(2).unwrap_or(0) as f64 / 1000.0;
        let most = told.response.extremes().map_or(0, |e| e.1) as f64 / 1000.0;
        let (answered, lost) = (told.answered, told.lost());
        let mut out = std::io::stdout();
        !stream
            || writeln!(
                out,
                "progress {:.4} 1\nlive {answered} {lost} {median:.1} {most:.1}",
                at.share
            )
            .and_then(|()| out.flush())
            .is_ok()
    })?;
    let text = json(&outcome);
    let mut out = std::io::stdout().lock();
    let told = if stream {
        writeln!(out, "latency {}", text.len()).and_then(|()| out.write_all(text.as_bytes()))
    } else {
        writeln!(out, "{text}")
    };
    told.and_then(|()| out.flush())
        .map_err(HostError::failed("stdout"))?;
    if outcome["interrupted"] == true {
        return Err(HostError::Stopped);
    }
    Ok(())
}

/// A difference has exit code 1 and is not an error.
fn tune_command(args: impl Iterator<Item = String>) -> ExitCode {
    let done = tune::options::read(args)
        .map_err(HostError::Unlike)
        .and_then(tune::run);
    match done {
        Ok((done, yes)) => {
            // The changes are made even if stdout is closed.
            let _ = writeln!(std::io::stdout(), "{}", json(done));
            if yes {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => answer(Err(error)),
    }
}

/// The usage of all subcommands.
fn usage() -> String {
    format!(
        "{USAGE}\n{}\n{}\n{}\n{}\n{}\n{}",
        shell_command::USAGE,
        exec_with_cc::USAGE,
        serve::options::usage(),
        measure::options::usage(),
        latency::options::USAGE,
        tune::options::USAGE
    )
}

/// The usage of a subcommand if its options request it; options behind `--` belong to a program.
fn help(command: &str, args: &[String]) -> Option<String> {
    let usage = match command {
        "run" | "ready" | "machine" | "doctor" => USAGE.to_string(),
        "shell" => shell_command::USAGE.to_string(),
        "with" => exec_with_cc::USAGE.to_string(),
        "serve" => serve::options::usage(),
        "measure" => measure::options::usage(),
        "latency" => latency::options::USAGE.to_string(),
        "tune" => tune::options::USAGE.to_string(),
        _ => return None,
    };
    let mut own = args.iter().take_while(|arg| *arg != "--");
    own.any(|arg| arg == "--help" || arg == "-h")
        .then_some(usage)
}

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1).map(OsString::into_string);
    let mut args = match args.collect::<Result<Vec<_>, _>>() {
        Ok(args) => args.into_iter(),
        Err(arg) => {
            let problem = format!("{}: this argument is not UTF-8", arg.to_string_lossy());
            return answer(Err(HostError::Unlike(problem)));
        }
    };
    let command = args.next();
    if let Some(usage) = help(command.as_deref().unwrap_or_default(), args.as_slice()) {
        return say(&usage);
    }
    match command.as_deref() {
        Some("run") => {}
        Some("ready") => return answer(preflight::check_machine(&args.collect::<Vec<_>>())),
        Some("machine") => {
            return say(&format!("{}\n", json(kernel::to_json())));
        }
        Some("doctor") => {
            let stream = args.any(|arg| arg == "--stream");
            sys::remember_signals(stream);
            return answer(examine(stream));
        }
        Some("shell") => {
            return match shell_command::run(args) {
                Ok(code) => ExitCode::from(code),
                Err(error) => answer(Err(error)),
            };
        }
        Some("with") => {
            return match exec_with_cc::run(args) {
                Ok(code) => ExitCode::from(code),
                Err(error) => answer(Err(error)),
            };
        }
        Some("serve") => return answer(serve_command(args)),
        Some("measure") => return answer(measure_command(args)),
        Some("latency") => return answer(latency_command(args)),
        Some("tune") => return tune_command(args),
        Some("hog") => {
            latency::lab::hog();
            return ExitCode::SUCCESS;
        }
        Some("guest") => return guest_command(&args.collect::<Vec<_>>()),
        Some("tied") => return tied_command(&args.collect::<Vec<_>>()),
        Some("init") => return ExitCode::from(process::init(&args.skip(1).collect::<Vec<_>>())),
        Some("--version") => {
            return say(concat!("narrows-host ", env!("CARGO_PKG_VERSION"), "\n"));
        }
        Some("--help" | "-h") => {
            return say(&usage());
        }
        _ => {
            eprint!("{}", usage());
            return ExitCode::from(WRONG);
        }
    }
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

/// Replaces this process with a program that the kernel kills when the parent process ends.
fn tied_command(args: &[String]) -> ExitCode {
    let [program, rest @ ..] = args else {
        return answer(Err(HostError::Unlike("tied: write a program".into())));
    };
    sys::end_with_parent();
    // A kernel that panics would write all its memory; without this, nothing else changes.
    let _ = process::without_core_dumps();
    let error = std::process::Command::new(program).args(rest).exec();
    answer(Err(HostError::Missing(format!("{program}: {error}"))))
}

/// The first process of a virtual machine: a run or a shell, then the end of the machine.
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

/// A closed stdout is an error, not a panic.
fn say(text: &str) -> ExitCode {
    answer(
        std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(HostError::failed("stdout")),
    )
}

fn answer(result: Result<(), HostError>) -> ExitCode {
    ExitCode::from(code_of(result))
}

/// Prints an error and returns the exit code.
fn code_of(result: Result<(), HostError>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            narrows_host::terminal::say(&error);
            match error {
                HostError::Stopped => sys::stopped_code(),
                HostError::Missing(_) | HostError::Unlike(_) => WRONG,
                _ => 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_usage() {
        let words = |line: &str| {
            line.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        for command in [
            "run", "ready", "machine", "doctor", "shell", "with", "serve", "measure", "latency",
            "tune",
        ] {
            let name = format!("narrows-host {command}");
            for line in ["--help", "-h", "--seed 1 -h"] {
                let usage = help(command, &words(line));
                assert!(
                    usage.is_some_and(|usage| usage.contains(&name)),
                    "{command} {line}"
                );
            }
            assert_eq!(help(command, &words("--seed 1 -- ls -h")), None);
        }
        assert_eq!(help("init", &words("3 ls --help")), None);
    }
}
