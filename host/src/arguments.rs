//! Reads the command lines of the subcommands. `lexopt` splits them, and the usage text of a
//! subcommand declares its options.
//!
//! A line of a usage text that begins with ` --name VALUE ` declares an option with a value. A line
//! that begins with ` --name ` declares an option without one. Options that the usage does not
//! declare are errors.

use crate::error::reason;
use lexopt::{Arg, Parser};
use narrows_core::scenario::code_point;
use narrows_core::units::{Rate, Span, format_rate, parse_rate, parse_seconds};
use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An argument of a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// An option, with its dashes.
    Option(String),
    /// An operand.
    Operand(String),
    /// The arguments after `--`.
    Rest(Vec<String>),
}

/// The arguments of a subcommand.
pub struct Arguments {
    parser: Parser,
    usage: String,
    option: String,
}

/// The option that a line of a usage declares: its name, and the metavar of its value if it has
/// one.
fn declared(line: &str) -> Option<(&str, Option<&str>)> {
    let line = line
        .strip_prefix("  ")
        .filter(|line| line.starts_with("--"))?;
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let value = (!rest.is_empty() && !rest.starts_with(' '))
        .then(|| rest.split("  ").next().unwrap_or(rest).trim_end());
    Some((name, value))
}

impl Arguments {
    /// The arguments `args` of the subcommand with that usage.
    pub fn new(args: impl IntoIterator<Item = String>, usage: impl Into<String>) -> Arguments {
        Arguments {
            parser: Parser::from_args(args),
            usage: usage.into(),
            option: String::new(),
        }
    }
    /// The next argument.
    pub fn next_argument(&mut self) -> Result<Option<Argument>, String> {
        if let Some(mut raw) = self.parser.try_raw_args() {
            if raw.next_if(|arg| arg == "--").is_some() {
                let rest = raw.map(|arg| arg.to_string_lossy().into_owned());
                return Ok(Some(Argument::Rest(rest.collect())));
            }
        }
        let option = match self.parser.next() {
            Ok(Some(Arg::Long(name))) => format!("--{name}"),
            Ok(Some(Arg::Short(name))) => format!("-{name}"),
            Ok(Some(Arg::Value(word))) => {
                return Ok(Some(Argument::Operand(word.to_string_lossy().into_owned())));
            }
            Ok(None) => return Ok(None),
            Err(lexopt::Error::UnexpectedValue { option, .. }) => {
                return Err(format!("{option}: takes no value; write {option}"));
            }
            Err(error) => return Err(error.to_string()),
        };
        if self.metavar(&option).is_none() {
            return Err(self.unknown(&option));
        }
        self.option.clone_from(&option);
        Ok(Some(Argument::Option(option)))
    }
    /// The value of the option that [`next_argument`](Self::next_argument) has returned.
    pub fn value(&mut self) -> Result<String, String> {
        let option = &self.option;
        match self.parser.value() {
            Ok(value) => Ok(value.to_string_lossy().into_owned()),
            Err(_) => {
                let metavar = self.metavar(option).flatten().unwrap_or("VALUE");
                Err(format!("{option}: needs a value; write {option} {metavar}"))
            }
        }
    }
    /// The error for an operand that the subcommand does not take.
    pub fn unexpected(&self, operand: &str) -> String {
        format!("{operand}: unexpected operand\n\n{}", self.usage)
    }
    /// The error for a missing operand; `example` is a right command line.
    pub fn missing(&self, operand: &str, example: &str) -> String {
        format!("{operand} missing; write {example}\n\n{}", self.usage)
    }
    /// The metavar of an option's value; outer `None`: the usage does not declare the option, inner
    /// `None`: it has no value.
    fn metavar(&self, option: &str) -> Option<Option<&str>> {
        let mut declared = self.usage.lines().filter_map(declared);
        declared
            .find(|(name, _)| *name == option)
            .map(|(_, value)| value)
    }
    fn unknown(&self, option: &str) -> String {
        format!("{option}: unknown option\n\n{}", self.usage)
    }
}

/// Reads a whole number of an option; the error states the range.
pub fn whole<T: Copy + PartialOrd + FromStr + Display>(
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let read = value.parse().ok().filter(|n| range.contains(n));
    let (least, most) = (range.start(), range.end());
    read.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

/// The error of an option with this value. A problem that already begins with the value does not
/// repeat it.
pub fn wrong(option: &str, value: &str, problem: &str) -> String {
    let problem = problem
        .strip_prefix(value)
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(problem);
    format!("{option} {value}: {problem}")
}

/// Reads a rate of at least 8 bit/s. Kernels count rates in whole bytes per second, and 0 often
/// means that there is no limit.
pub fn rate_limit(option: &str, value: &str) -> Result<Rate, String> {
    let rate = parse_rate(value).map_err(|e| format!("{}; write {option} {}", e.problem, e.fix))?;
    if rate < LEAST_RATE {
        let least = format_rate(LEAST_RATE);
        return Err(format!("too low; write {option} {least} or more"));
    }
    Ok(rate)
}

/// Smallest rate of a limit: one byte per second.
const LEAST_RATE: Rate = Rate::bit(8);
/// Shortest interval with a line of its own.
const LEAST_INTERVAL: Span = Span::ms(100);

/// Reads the duration of an interval with a line of its own; zero: no such lines.
pub fn interval_lines(value: &str) -> Result<Span, String> {
    let every = parse_seconds(value).map_err(|e| format!("{}; write {}", e.problem, e.fix))?;
    if every > Span::ZERO && every < LEAST_INTERVAL {
        return Err("too short; write 100ms or more, or 0s for no lines".into());
    }
    Ok(every)
}

/// Length of the longest first line, bytes.
const LONGEST_LINE: u64 = 4096;

/// Reads the first line of a file, without the white space around it.
pub fn first_line(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(LONGEST_LINE + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{}; write the name of a readable file", reason(&error)))?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    if line.len() as u64 > LONGEST_LINE {
        return Err(format!("the first line has more than {LONGEST_LINE} bytes"));
    }
    match std::str::from_utf8(line).map(str::trim) {
        Ok("") => Err("the first line is empty; write a file whose first line is not empty".into()),
        Ok(line) => Ok(line.into()),
        Err(_) => Err("the first line is not text in UTF-8".into()),
    }
}

/// Reads a DSCP, given by name or number.
pub fn dscp(value: &str) -> Result<u8, String> {
    code_point(value).ok_or_else(|| {
        "unknown code point; write a name (EF, CS1, AF41) or a number up to 63".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: &str = "\
narrows-host x HOST [options]

  --port N        TCP port
  --at A|B        side
  --tied          end with the parent
";

    fn all(line: &[&str]) -> Result<Vec<(Argument, Option<String>)>, String> {
        let mut args = Arguments::new(line.iter().map(|arg| arg.to_string()), USAGE);
        let mut found = Vec::new();
        while let Some(arg) = args.next_argument()? {
            let value = match &arg {
                Argument::Option(name) if name != "--tied" => Some(args.value()?),
                _ => None,
            };
            found.push((arg, value));
        }
        Ok(found)
    }

    #[test]
    fn values_stand_behind_a_space_or_an_equals_sign() {
        let option =
            |name: &str, value: &str| (Argument::Option(name.into()), Some(value.to_string()));
        let tied = (Argument::Option("--tied".into()), None);
        let rest = Argument::Rest(vec!["ls".into(), "--port".into()]);
        let host = Argument::Operand("h".into());
        for line in [
            vec!["h", "--port", "7", "--at=A", "--tied", "--", "ls", "--port"],
            vec!["h", "--port=7", "--at", "A", "--tied", "--", "ls", "--port"],
        ] {
            assert_eq!(
                all(&line).unwrap(),
                [
                    (host.clone(), None),
                    option("--port", "7"),
                    option("--at", "A"),
                    tied.clone(),
                    (rest.clone(), None),
                ]
            );
        }
        // A value may begin with a dash or be empty.
        assert_eq!(all(&["--port", "-7"]).unwrap(), [option("--port", "-7")]);
        assert_eq!(all(&["--port="]).unwrap(), [option("--port", "")]);
        assert_eq!(
            all(&["-"]).unwrap(),
            [(Argument::Operand("-".into()), None)]
        );
    }

    #[test]
    fn a_rate_limit_has_a_byte_per_second() {
        assert_eq!(rate_limit("--rate", "8bit"), Ok(Rate::bit(8)));
        for low in ["0bit", "1bit", "7bit"] {
            let error = rate_limit("--rate", low).unwrap_err();
            assert_eq!(error, "too low; write --rate 8bit or more");
        }
        assert!(
            rate_limit("--rate", "5")
                .unwrap_err()
                .ends_with("--rate 5Mbit")
        );
    }

    #[test]
    fn an_error_has_its_option_and_value_once() {
        for problem in ["too long", "5x: too long"] {
            assert_eq!(wrong("--a", "5x", problem), "--a 5x: too long");
        }
    }

    #[test]
    fn interval_lines_have_a_unit_and_a_shortest_interval() {
        assert_eq!(interval_lines("500ms"), Ok(Span::ms(500)));
        assert_eq!(interval_lines("0s"), Ok(Span::ZERO));
        for (wrong, fix) in [
            ("1", "write 1s"),
            ("50ms", "write 100ms or more, or 0s for no lines"),
        ] {
            assert!(interval_lines(wrong).unwrap_err().ends_with(fix), "{wrong}");
        }
    }

    #[test]
    fn errors_begin_with_the_option_and_end_with_what_to_write() {
        for (line, problem) in [
            (vec!["--port"], "--port: needs a value; write --port N"),
            (vec!["--at"], "--at: needs a value; write --at A|B"),
            (vec!["--tied=1"], "--tied: takes no value; write --tied"),
            (
                vec!["--prt", "7"],
                "--prt: unknown option\n\nnarrows-host x",
            ),
            (vec!["-p"], "-p: unknown option\n\nnarrows-host x"),
            (vec!["--"; 1], ""),
        ] {
            match all(&line) {
                Err(error) => assert!(error.starts_with(problem), "{line:?}: {error}"),
                Ok(found) => assert_eq!(found, [(Argument::Rest(Vec::new()), None)]),
            }
        }
    }
}
