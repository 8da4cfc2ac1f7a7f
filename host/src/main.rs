//! `narrows-host`: the program by which narrows accesses the host. The Python package starts it.

#[cfg(feature = "emulator")]
mod live_commands;

use narrows_core::cc::CcKind;
#[cfg(feature = "emulator")]
use narrows_host::emulator::shell_command;
use narrows_host::sys::{self, kernel, process};
use narrows_host::terminal::{json, printable};
use narrows_host::tune::{self, exec_with_cc};
use narrows_host::{HostError, latency, measure, serve, tables};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

const MACHINE: &str = "\
narrows-host machine
    Print release, tick rate and congestion controls of this kernel as JSON.
";

const WRONG: u8 = 2;

/// Whether the arguments contain `--table`, and the other arguments.
fn table_option(args: impl Iterator<Item = String>) -> (bool, impl Iterator<Item = String>) {
    let (table, others): (Vec<String>, Vec<String>) = args.partition(|arg| arg == "--table");
    (!table.is_empty(), others.into_iter())
}

fn serve_command(args: impl Iterator<Item = String>) -> Result<(), HostError> {
    let known = |name: &str| std::env::var(name).ok();
    let mut options = serve::options::read(args, known).map_err(HostError::Unlike)?;
    load_ccs(&mut options.ccs, &options.plugins)?;
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

/// Adds the congestion controls of plugins to `known`.
#[cfg(feature = "emulator")]
fn load_ccs(known: &mut Vec<CcKind>, plugins: &[PathBuf]) -> Result<(), HostError> {
    narrows_host::plugins::add_ccs(known, plugins)
}
#[cfg(not(feature = "emulator"))]
fn load_ccs(_: &mut Vec<CcKind>, plugins: &[PathBuf]) -> Result<(), HostError> {
    match plugins.first() {
        None => Ok(()),
        Some(file) => Err(HostError::Unlike(format!(
            "--plugin {}: this narrows-host was built without plugins; leave it out",
            file.display()
        ))),
    }
}

fn measure_command(args: impl Iterator<Item = String>) -> Result<(), HostError> {
    let (table, args) = table_option(args);
    let known = |name: &str| std::env::var(name).ok();
    let mut options = measure::options::read(args, known).map_err(HostError::Unlike)?;
    load_ccs(&mut options.ccs, &options.plugins)?;
    measure::plan::check(&options).map_err(HostError::Unlike)?;
    sys::remember_signals(options.tied);
    let stream = options.stream;
    let mut planned = |bytes: u64, seconds: f64| {
        if stream {
            // If stdout is closed, the next line of progress detects it.
            let _ = writeln!(std::io::stdout(), "plan {bytes} {seconds:.3}");
        } else {
            narrows_host::terminal::say(format!(
                "{seconds:.0} s, up to {:.1} MB",
                bytes as f64 / 1e6
            ));
        }
    };
    let mut progress = |told: measure::Told| {
        let mut out = std::io::stdout();
        let line = match told {
            measure::Told::Progress(now, end) => format!("progress {now:.3} {end:.3}"),
            measure::Told::Interval(line) => line.words(),
        };
        !stream
            || writeln!(out, "{}", printable(&line))
                .and_then(|()| out.flush())
                .is_ok()
    };
    let measured = measure::run(&options, &mut planned, &mut progress)?;
    let text = match table {
        true => printable(&tables::measurement(&measured)),
        false => json(&measured),
    };
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
    let (table, args) = table_option(args);
    let known = |name: &str| std::env::var(name).ok();
    let options = latency::options::read(args, known).map_err(HostError::Unlike)?;
    sys::remember_signals(options.tied);
    let stream = options.stream;
    let outcome = latency::run(&options, &mut |at| {
        let told = at.outcome;
        let median = told.response.below(2).unwrap_or(0) as f64 / 1000.0;
        let most = told.response.extremes().map_or(0, |e| e.1) as f64 / 1000.0;
        let (answered, lost) = (told.answered, told.lost());
        let interval = at.interval.map(|interval| interval.words() + "\n");
        let mut out = std::io::stdout();
        !stream
            || write!(
                out,
                "progress {:.4} 1\nlive {answered} {lost} {median:.1} {most:.1}\n{}",
                at.share,
                interval.unwrap_or_default()
            )
            .and_then(|()| out.flush())
            .is_ok()
    })?;
    let text = match table {
        true => printable(&tables::latency(&outcome)),
        false => json(&outcome),
    };
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

/// The command `tune`. If `verify` finds a difference, the exit code is 1, without an error
/// message.
fn tune_command(args: impl Iterator<Item = String>) -> ExitCode {
    let mut args = args.peekable();
    if tune::audit::is_command(args.peek()) {
        return match tune::audit::run(args) {
            Ok((text, true)) => say(&printable(&text)),
            Ok((text, false)) => {
                say(&printable(&text));
                ExitCode::FAILURE
            }
            Err(error) => answer(Err(error)),
        };
    }
    let (table, args) = table_option(args);
    let done = tune::options::read(args)
        .map_err(HostError::Unlike)
        .and_then(tune::run);
    match done {
        Ok((done, yes)) => {
            let text = match table {
                true => printable(&tables::tune(&done)),
                false => json(done),
            } + "\n";
            // The changes are made even if stdout is closed.
            let _ = std::io::stdout().write_all(text.as_bytes());
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
    #[cfg(feature = "emulator")]
    let live = format!("{}\n{}\n", live_commands::USAGE, shell_command::USAGE);
    #[cfg(not(feature = "emulator"))]
    let live = "";
    format!(
        "{live}{MACHINE}\n{}\n{}\n{}\n{}\n{}\n{}",
        exec_with_cc::USAGE,
        serve::options::usage(),
        measure::options::usage(),
        latency::options::USAGE,
        tune::audit::USAGE,
        tune::options::USAGE
    )
}

/// The usage of a subcommand, if its options contain `--help` or `-h`. Arguments after `--` belong
/// to another program.
fn help(command: &str, args: &[String]) -> Option<String> {
    let usage = match command {
        "machine" => MACHINE.to_string(),
        "with" => exec_with_cc::USAGE.to_string(),
        "serve" => serve::options::usage(),
        "measure" => measure::options::usage(),
        "latency" => latency::options::USAGE.to_string(),
        "tune" if tune::audit::is_command(args.first()) => tune::audit::USAGE.to_string(),
        "tune" => format!("{}\n{}", tune::audit::USAGE, tune::options::USAGE),
        #[cfg(feature = "emulator")]
        _ => live_commands::usage(command)?.to_string(),
        #[cfg(not(feature = "emulator"))]
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
    #[cfg(feature = "emulator")]
    let args = match live_commands::command(command.as_deref(), args) {
        Ok(code) => return code,
        Err(args) => args,
    };
    match command.as_deref() {
        Some("machine") => say(&format!("{}\n", json(kernel::to_json()))),
        Some("with") => match exec_with_cc::run(args) {
            Ok(code) => ExitCode::from(code),
            Err(error) => answer(Err(error)),
        },
        Some("serve") => answer(serve_command(args)),
        Some("measure") => answer(measure_command(args)),
        Some("latency") => answer(latency_command(args)),
        Some("tune") => tune_command(args),
        Some("hog") => {
            latency::lab::hog();
            ExitCode::SUCCESS
        }
        Some("tied") => tied_command(&args.collect::<Vec<_>>()),
        Some("init") => ExitCode::from(process::init(&args.skip(1).collect::<Vec<_>>())),
        Some("--version") => say(concat!("narrows-host ", env!("CARGO_PKG_VERSION"), "\n")),
        Some("--help" | "-h") => say(&usage()),
        Some(name) => answer(Err(HostError::Unlike(format!(
            "{name}: unknown command\n\n{}",
            usage()
        )))),
        None => {
            eprint!("{}", usage());
            ExitCode::from(WRONG)
        }
    }
}

/// Replaces this process with a program that the kernel kills when the parent process ends.
fn tied_command(args: &[String]) -> ExitCode {
    let [program, rest @ ..] = args else {
        return answer(Err(HostError::Unlike("tied: write a program".into())));
    };
    sys::end_with_parent();
    // Without this limit, a user-mode Linux that panics would write all its memory to a core file.
    let _ = process::without_core_dumps();
    let error = std::process::Command::new(program).args(rest).exec();
    answer(Err(HostError::Missing(format!("{program}: {error}"))))
}

/// Prints a text to stdout. A closed stdout is an error, not a panic.
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
                HostError::Missing(_)
                | HostError::Unlike(_)
                | HostError::Key(..)
                | HostError::Silent(..) => WRONG,
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
        let mut commands = vec!["machine", "with", "serve", "measure", "latency", "tune"];
        if cfg!(feature = "emulator") {
            commands.extend(["run", "ready", "doctor", "shell"]);
        }
        for command in commands {
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
