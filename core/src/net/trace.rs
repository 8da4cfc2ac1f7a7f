//! Files with rates or delays over time: tables of rates, mahimahi's packet-delivery traces, and
//! tables of delays.
//!
//! A table of rates is CSV: a header that names the units, then lines by time, the first at 0.
//!
//! ```text
//! t_s,rate_mbit          t_s, t_ms or t_us; rate_bit, rate_kbit, rate_mbit or rate_gbit
//! 0,12                   12 Mbit/s from the start
//! 1.5,0                  nothing from 1.5 s on
//! 2,8.25
//! ```
//!
//! A rate holds until the next line. The last rate holds forever, unless the table repeats. If the
//! table repeats, the last rate holds as long as the rate before it did, and then the table starts
//! anew.
//!
//! A packet-delivery trace has one whole number of milliseconds on each line, in ascending order:
//! see [`DeliveryTrace`].
//!
//! A table of delays has two numbers on each line: a time and a one-way delay, both in
//! milliseconds. The first time is 0. A delay holds until the next line, and the table repeats as a
//! table of rates does.
//!
//! ```text
//! 0 25                   25 ms from the start
//! 15000 31.5             31.5 ms from 15 s on
//! ```
//!
//! All formats ignore empty lines and lines that begin with `#`. Numbers are plain decimals and
//! are read exactly. The caller limits the size of the file in bytes. A table has at most a million
//! lines, a trace at most five million, and no time is beyond a year.

use super::delay_schedule::DelaySchedule;
use super::delivery_trace::DeliveryTrace;
use super::rate_schedule::RateSchedule;
use crate::units::{Rate, Span, Time, parse_rate, parse_span};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of lines of a table of rates or delays.
pub const MOST_RATES: usize = 1_000_000;
/// Maximum number of lines of a packet-delivery trace.
pub const MOST_OPPORTUNITIES: usize = 5_000_000;
/// The latest time in either format.
pub const LATEST: Span = Span::s(365 * 86_400);
/// The highest rate in a table: the highest of a scenario.
const FASTEST: Rate = Rate::mbit(10_000_000);
/// The longest delay in a table: the longest of a scenario.
pub const LONGEST: Span = Span::s(3600);

/// The contents of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trace {
    /// A table of rates.
    Rates(RateSchedule),
    /// A packet-delivery trace.
    Deliveries(DeliveryTrace),
}

/// An error in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// A description of the problem.
    pub problem: String,
    /// A description of the correction; a correction of one line is that line between backquotes.
    pub fix: String,
}

fn wrong<T>(
    line: usize,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> Result<T, TraceError> {
    Err(TraceError {
        line,
        problem: problem.into(),
        fix: fix.into(),
    })
}

impl Trace {
    /// Reads either format: a first line with a comma begins a table. `repeats` applies to tables;
    /// traces always repeat.
    pub fn read(text: &str, repeats: bool) -> Result<Trace, TraceError> {
        match lines(text).next() {
            Some((_, first)) if first.contains(',') => rates(text, repeats).map(Trace::Rates),
            Some(_) => deliveries(text).map(Trace::Deliveries),
            None => wrong(
                0,
                "it is empty",
                "write a table that begins with `t_s,rate_mbit`, or milliseconds, one on each \
                 line, like `1`",
            ),
        }
    }
    /// Returns the mean rate: of one repetition, or of the first `span` if the table does not
    /// repeat.
    pub fn mean(&self, span: Span) -> Rate {
        match self {
            Trace::Rates(schedule) => schedule.mean(span),
            Trace::Deliveries(deliveries) => deliveries.mean(),
        }
    }
}

/// Returns the lines that are neither empty nor comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..)
        .zip(text.lines().map(str::trim))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the part of a line that a message may show: numbers and headers. A scenario can name any
/// file that the user can read, so other text must not appear in a message.
fn shown(line: &str) -> String {
    let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | ' ');
    let header = |field: &str| {
        ["t_", "time", "rate_", "rate"]
            .iter()
            .any(|word| field.trim().starts_with(word))
    };
    if !line.chars().all(number) && !line.split(',').all(header) {
        return "it".into();
    }
    let mut shown: String = line.chars().filter(|c| !c.is_control()).take(40).collect();
    if line.chars().nth(40).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Accepts digits with at most one decimal point, at most 40 characters in all.
fn is_decimal(field: &str) -> bool {
    let digits = field.bytes().filter(u8::is_ascii_digit).count();
    let points = field.bytes().filter(|b| *b == b'.').count();
    digits > 0 && points <= 1 && digits + points == field.len() && field.len() <= 40
}

/// Reads a table of rates; its header names the units of both columns.
pub fn rates(text: &str, repeats: bool) -> Result<RateSchedule, TraceError> {
    let mut lines = lines(text);
    let Some((number, header)) = lines.next() else {
        return wrong(
            0,
            "it is empty",
            "begin with `t_s,rate_mbit`, then lines like `0,12`",
        );
    };
    let mut names = header.split(',').map(str::trim);
    let unit = |name: Option<&str>| match name? {
        "t_s" => Some("s"),
        "t_ms" => Some("ms"),
        "t_us" => Some("us"),
        "rate_bit" => Some("bit"),
        "rate_kbit" => Some("kbit"),
        "rate_mbit" => Some("Mbit"),
        "rate_gbit" => Some("Gbit"),
        _ => None,
    };
    let (time_unit, rate_unit) = match (unit(names.next()), unit(names.next()), names.next()) {
        (Some(time), Some(rate), None) if time.ends_with('s') && rate.ends_with("bit") => {
            (time, rate)
        }
        _ => {
            let fix = if header.split(',').all(|field| is_decimal(field.trim())) {
                "put `t_s,rate_mbit` (or t_ms, t_us; rate_bit, rate_kbit, rate_gbit) on a line \
                 above"
            } else {
                "write `t_s,rate_mbit`, or with t_ms, t_us; rate_bit, rate_kbit, rate_gbit"
            };
            return wrong(
                number,
                format!("{} is not a header of two columns", shown(header)),
                fix,
            );
        }
    };
    let mut steps: Vec<(Time, Rate)> = Vec::new();
    for (number, line) in lines {
        let mut fields = line.split(',').map(str::trim);
        let (time, rate) = match (fields.next(), fields.next(), fields.next()) {
            (Some(time), Some(rate), None) if is_decimal(time) && is_decimal(rate) => (time, rate),
            _ => {
                let problem = format!(
                    "{} is not a time and a rate, both plain decimals",
                    shown(line)
                );
                return wrong(number, problem, "write a line like `0.5,12.25`");
            }
        };
        let (Ok(at), Ok(rate)) = (
            parse_span(&format!("{time}{time_unit}")),
            parse_rate(&format!("{rate}{rate_unit}")),
        ) else {
            let problem = format!("{} has a number that is too large", shown(line));
            return wrong(number, problem, "times up to a year, rates up to 10 Tbit/s");
        };
        if at > LATEST || rate > FASTEST {
            let problem = format!("{} is out of range", shown(line));
            return wrong(number, problem, "times up to a year, rates up to 10 Tbit/s");
        }
        let at = Time::ZERO + at;
        let times = steps.iter().map(|(at, _)| *at);
        comes_next((number, line, time), at, times, "rate")?;
        steps.push((at, rate));
    }
    let Some((first, rest)) = steps.split_first() else {
        return wrong(
            number,
            "there is no line after the header",
            "add lines like `0,12` below it",
        );
    };
    if steps.iter().all(|(_, rate)| rate.as_bit() == 0) {
        return wrong(
            0,
            "no rate is above 0, so no packet would ever pass",
            "use a rate above 0 in at least one line",
        );
    }
    let schedule = RateSchedule::new(first.1, rest);
    Ok(match steps[..] {
        [.., (before, _), (last, _)] if repeats => {
            schedule.repeating(last.since(Time::ZERO) + last.since(before))
        }
        _ => schedule,
    })
}

/// Reads a packet-delivery trace.
pub fn deliveries(text: &str) -> Result<DeliveryTrace, TraceError> {
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in lines(text) {
        let whole = line.bytes().all(|b| b.is_ascii_digit());
        let ms = match line.parse::<u64>() {
            Ok(ms) if whole && Span::ms(ms) <= LATEST => ms,
            Ok(_) if whole => {
                let problem = format!("{} is later than a year", shown(line));
                return wrong(
                    number,
                    problem,
                    "use milliseconds since the beginning of the trace",
                );
            }
            _ => {
                let rounded = match line.parse::<f64>() {
                    Ok(x) if is_decimal(line) && x < 1e15 => Some(libm::floor(x) as u64),
                    _ => None,
                };
                let fix = rounded.map_or(String::from("write a line like `12`"), |ms| {
                    format!("write `{ms}`")
                });
                return wrong(
                    number,
                    format!("{} is not a whole number of milliseconds", shown(line)),
                    fix,
                );
            }
        };
        if times.last().is_some_and(|before| ms < *before) {
            let problem = format!("{} is before the line before it", shown(line));
            return wrong(number, problem, "sort the lines by time");
        }
        if times.len() == MOST_OPPORTUNITIES {
            let problem = format!("there are more than {MOST_OPPORTUNITIES} lines");
            return wrong(number, problem, "cut the trace into parts");
        }
        times.push(ms);
    }
    if times.is_empty() {
        return wrong(
            0,
            "it is empty",
            "write one whole number of milliseconds on each line, like `1`",
        );
    }
    match DeliveryTrace::new(times) {
        Some(deliveries) => Ok(deliveries),
        None => wrong(
            0,
            "all its times are 0, so it lasts no time",
            "write the time at which the trace repeats in the last line, like `1`",
        ),
    }
}

/// Checks the time of the next line of a table. The first time must be 0, and each later time must
/// come after the `times` of the lines before. `time` is the text of the time.
fn comes_next(
    (number, line, time): (usize, &str, &str),
    at: Time,
    mut times: impl ExactSizeIterator<Item = Time> + DoubleEndedIterator,
    what: &str,
) -> Result<(), TraceError> {
    let count = times.len();
    match times.next_back() {
        None if at != Time::ZERO => wrong(
            number,
            format!("the first time is {time}, and the {what} before it is unknown"),
            "use 0 as the first time, and times relative to it in the other lines",
        ),
        Some(before) if at <= before => wrong(
            number,
            format!("{} does not come after the line before it", shown(line)),
            "sort the lines by time, and use each time once",
        ),
        _ if count == MOST_RATES => wrong(
            number,
            format!("there are more than {MOST_RATES} lines"),
            "cut the table into parts, or take means over longer times",
        ),
        _ => Ok(()),
    }
}

/// Reads a table of delays.
pub fn delays(text: &str, repeats: bool) -> Result<DelaySchedule, TraceError> {
    let mut steps: Vec<(Time, Span, bool)> = Vec::new();
    for (number, line) in lines(text) {
        let mut fields = line.split_whitespace();
        let (time, delay) = match (fields.next(), fields.next(), fields.next()) {
            (Some(time), Some(delay), None) if is_decimal(time) && is_decimal(delay) => {
                (time, delay)
            }
            _ => {
                let problem = format!("{} is not a time and a delay in milliseconds", shown(line));
                return wrong(number, problem, "write a line like `15000 31.5`");
            }
        };
        let ms = |field: &str| parse_span(&format!("{field}ms")).ok();
        let (at, delay) = match (ms(time), ms(delay)) {
            (Some(at), Some(delay)) if at <= LATEST && delay <= LONGEST => (at, delay),
            _ => {
                let problem = format!("{} is out of range", shown(line));
                return wrong(number, problem, "times up to a year, delays up to an hour");
            }
        };
        let at = Time::ZERO + at;
        let times = steps.iter().map(|(at, ..)| *at);
        comes_next((number, line, time), at, times, "delay")?;
        steps.push((at, delay, true));
    }
    let Some((_, first, _)) = steps.first().copied() else {
        return wrong(0, "it is empty", "write lines like `0 25`");
    };
    let period = match steps[..] {
        [.., (before, ..), (last, ..)] if repeats => {
            Some(last.since(Time::ZERO) + last.since(before))
        }
        _ => None,
    };
    let schedule = DelaySchedule::new(first, steps.into_iter().skip(1));
    Ok(match period {
        Some(period) => schedule.repeating(period),
        None => schedule,
    })
}
