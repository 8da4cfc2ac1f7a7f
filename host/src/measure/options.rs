//! The options of `narrows-host measure`.

use crate::protocols::wire::PORT;
pub use narrows_core::registry::measurement::Test;
use narrows_core::registry::measurement::{MOST_STREAMS, TESTS};
use narrows_core::scenario::code_point;
use narrows_core::units::{
    Bytes, Rate, Span, format_bytes, parse_bytes, parse_rate, parse_seconds, parse_span,
};

/// How it is called.
pub fn usage() -> String {
    let names: Vec<&str> = TESTS.iter().map(|kind| kind.name).collect();
    let (first, rest) = names.split_at(names.len() - 2);
    let several = TESTS.iter().filter(|kind| kind.streams > 1);
    let several: Vec<String> = several
        .map(|kind| format!("{} for {}", kind.streams, kind.name))
        .collect();
    format!(
        "\
narrows-host measure HOST [options]   measure the path to HOST: a name, an address, or an http:// \
or https:// URL

  --test NAME           {}
                        {}
  --port N              5201
  --duration SPAN       of each loaded phase; 10s
  --idle SPAN           before it; 3s
  --streams N           each way; {}, else 1
  --cc A,B              congestion controls, in turn; the hosts' own
  --repeats N           of each, A B A B; 1
  --dscp N|NAME         code point of flows and pings: EF, CS1, AF41, 46; 0
  --ecn                 say whether congestion is notified, which the hosts' sysctl decides
  --pacing RATE         of each flow at most (SO_MAX_PACING_RATE); of udp_flood: its rate
  --max-data BYTES      stop when so much payload has moved, both ways and all loads together; 2GB
  --parts N             so many measurements share --max-data, this one the first of them; 1
  --ping-interval SPAN  20ms
  --insecure            do not check the certificate of an https:// server
  --token T             the far end's; or in $NARROWS_TOKEN
  --speaks WHO          auto, narrows, iperf3 or http
  --stream              for programs: lines of progress, then the measurement (see \
  docs/reference/measurement.md)
  --tied                end with the process that started this one
",
        first.join(" "),
        rest.join(" "),
        several.join(", ")
    )
}

/// Who the other end is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// To be found out.
    Auto,
    /// `narrows serve`.
    Narrows,
    /// `iperf3 -s`.
    Iperf3,
    /// A web server.
    Http,
}

/// By name.
pub const SPEAKS: [(&str, Speaks); 4] = [
    ("auto", Speaks::Auto),
    ("narrows", Speaks::Narrows),
    ("iperf3", Speaks::Iperf3),
    ("http", Speaks::Http),
];

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// A name, an address, or an URL.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What is measured.
    pub test: Test,
    /// Of a loaded phase.
    pub duration: Span,
    /// Before it.
    pub idle: Span,
    /// Each way.
    pub streams: usize,
    /// In turn; none: the hosts' own.
    pub cc: Vec<String>,
    /// Of each.
    pub repeats: usize,
    /// Of flows and pings.
    pub dscp: u8,
    /// Is it wanted?
    pub ecn: bool,
    /// Of each flow.
    pub pacing: Option<Rate>,
    /// Both ways and all loads together.
    pub max_data: Bytes,
    /// So many measurements share it, this one included.
    pub parts: u64,
    /// The certificate of a web server is not checked.
    pub insecure: bool,
    /// From one ping to the next.
    pub ping_interval: Span,
    /// The far end's.
    pub token: Option<String>,
    /// Who the other end is.
    pub speaks: Speaks,
    /// For programs.
    pub stream: bool,
    /// End with the parent.
    pub tied: bool,
}

/// Pings of one measurement, one probe: an hour of a thousand each second.
const MOST_PINGS: u64 = 3_600_000;
const LEAST_INTERVAL: Span = Span::ms(1);

/// Of a command line. `known` answers variables of the environment.
pub fn read(
    mut args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options {
        host: String::new(),
        port: PORT,
        test: Test::Ping,
        duration: Span::s(10),
        idle: Span::s(3),
        streams: 0,
        cc: Vec::new(),
        repeats: 1,
        dscp: 0,
        ecn: false,
        pacing: None,
        max_data: Bytes::new(2_000_000_000),
        parts: 1,
        insecure: false,
        ping_interval: Span::ms(20),
        token: known("NARROWS_TOKEN").filter(|text| !text.is_empty()),
        speaks: Speaks::Auto,
        stream: false,
        tied: false,
    };
    let mut chosen = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--ecn" => asked.ecn = true,
            "--insecure" => asked.insecure = true,
            "--stream" => asked.stream = true,
            "--tied" => asked.tied = true,
            _ if !arg.starts_with("--") && asked.host.is_empty() => asked.host = arg,
            _ if !arg.starts_with("--") => {
                return Err(format!("one host at a time\n\n{}", usage()));
            }
            _ => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                match arg.as_str() {
                    "--test" => chosen = Some(test(&value)?),
                    _ => one(&mut asked, &arg, &value)?,
                }
            }
        }
    }
    if asked.host.is_empty() {
        return Err(format!("which host?\n\n{}", usage()));
    }
    // The default of `narrows measure` is several tests, so that there is none here.
    asked.test = chosen
        .ok_or_else(|| format!("--test: which test? For instance --test {}", TESTS[0].name))?;
    if asked.streams == 0 {
        asked.streams = asked.test.streams();
    }
    let url = ["http://", "https://"]
        .iter()
        .any(|scheme| asked.host.starts_with(scheme));
    if url && asked.speaks == Speaks::Auto {
        asked.speaks = Speaks::Http;
    }
    if !url && asked.host.contains("://") {
        return Err(format!(
            "{}: a URL begins with http:// or https://",
            asked.host
        ));
    }
    let times = asked.repeats.max(1) as u64 * asked.cc.len().max(1) as u64;
    let all = asked
        .duration
        .as_ns()
        .saturating_mul(times)
        .saturating_add(asked.idle.as_ns());
    if all / asked.ping_interval.as_ns() > MOST_PINGS {
        return Err(format!(
            "more than {MOST_PINGS} pings: a longer --ping-interval, or less of --duration and \
             --repeats"
        ));
    }
    let (pings, most) = (super::plan::pings(&asked), asked.share());
    if pings >= most {
        return Err(format!(
            "--max-data {}: the pings alone move {pings} bytes; more of it, a longer \
             --ping-interval or a shorter --duration",
            format_bytes(asked.max_data)
        ));
    }
    Ok(asked)
}

impl Options {
    /// Bytes that this measurement may move.
    pub fn share(&self) -> u64 {
        self.max_data.get() / self.parts
    }
}

fn test(value: &str) -> Result<Test, String> {
    let names = || {
        TESTS
            .iter()
            .map(|kind| kind.name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    Test::named(value).ok_or_else(|| format!("--test {value}: one of {}", names()))
}

fn one(asked: &mut Options, option: &str, value: &str) -> Result<(), String> {
    let wrong = |what: &str| format!("{option} {value}: {what}");
    let unit = |e: narrows_core::units::UnitError| {
        format!("{option} {value}: {}; write {option} {}", e.problem, e.fix)
    };
    let names = |list: Vec<&str>| wrong(&format!("one of {}", list.join(" ")));
    match option {
        "--port" => {
            asked.port = value
                .parse()
                .map_err(|_| wrong("a port is a number up to 65535"))?
        }
        "--speaks" => {
            let found = SPEAKS.iter().find(|(name, _)| *name == value);
            asked.speaks = found
                .ok_or_else(|| names(SPEAKS.map(|(name, _)| name).to_vec()))?
                .1;
        }
        "--duration" => {
            asked.duration = parse_seconds(value).map_err(unit)?;
            if asked.duration < Span::ms(500) {
                return Err(wrong("half a second at least"));
            }
        }
        "--idle" => asked.idle = parse_seconds(value).map_err(unit)?,
        "--streams" => {
            let n = value
                .parse()
                .ok()
                .filter(|n| (1..=MOST_STREAMS).contains(n));
            asked.streams =
                n.ok_or_else(|| wrong(&format!("a number from 1 to {MOST_STREAMS}")))?;
        }
        "--repeats" => {
            let n = value.parse().ok().filter(|n| (1..=1000).contains(n));
            asked.repeats = n.ok_or_else(|| wrong("a number from 1 to 1000"))?;
        }
        "--cc" => {
            let name = |name: &str| {
                (1..16).contains(&name.len())
                    && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            };
            asked.cc = value
                .split(',')
                .map(|name| name.trim().to_string())
                .collect();
            if !asked.cc.iter().all(|cc| name(cc)) {
                return Err(wrong("names with commas between: bbr,cubic"));
            }
        }
        "--dscp" => {
            asked.dscp = code_point(value)
                .ok_or_else(|| wrong("a name (EF, CS1, AF41) or a number up to 63"))?;
        }
        "--pacing" => asked.pacing = Some(parse_rate(value).map_err(unit)?),
        "--max-data" => asked.max_data = parse_bytes(value).map_err(unit)?,
        "--parts" => {
            let n = value.parse().ok().filter(|n| (1..=16).contains(n));
            asked.parts = n.ok_or_else(|| wrong("a number from 1 to 16"))?;
        }
        "--ping-interval" => {
            asked.ping_interval = parse_span(value).map_err(unit)?;
            if asked.ping_interval < LEAST_INTERVAL {
                return Err(wrong("1ms at least"));
            }
        }
        "--token" => asked.token = Some(value.to_string()),
        _ => return Err(format!("no option is called {option}\n\n{}", usage())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Options, String> {
        read(line.split_whitespace().map(String::from), |_| None)
    }

    #[test]
    fn without_a_test_it_is_told_which_there_are() {
        assert!(asked("h").unwrap_err().starts_with("--test: which test?"));
        let usage = usage();
        assert!(
            TESTS.iter().all(|kind| usage.contains(kind.name)),
            "{usage}"
        );
    }

    #[test]
    fn a_line_is_read_and_a_mistake_names_its_fix() {
        let options =
            asked("h --test tcp_ndown --cc bbr,cubic --dscp ef --max-data 10MB --pacing 5Mbit")
                .unwrap();
        assert_eq!(
            (options.streams, options.dscp, options.cc.len()),
            (12, 46, 2)
        );
        assert!(
            asked("h --test tcp")
                .unwrap_err()
                .contains("tcp_up tcp_down")
        );
        for (option, bare) in [("--duration", "10"), ("--idle", "2")] {
            let fix = format!("write {option} {bare}s");
            assert!(
                asked(&format!("h --test ping {option} {bare}"))
                    .unwrap_err()
                    .ends_with(&fix)
            );
        }
        assert!(asked("h --ping-interval 10").unwrap_err().ends_with("10ms"));
        assert!(
            asked("h --test ping --max-data 1kB")
                .unwrap_err()
                .contains("the pings alone move")
        );
        assert!(
            asked("").is_err()
                && asked("a b").is_err()
                && asked("h --cc ../x").is_err()
                && asked("h --dscp 64").is_err()
        );
        assert!(
            asked("htps://h/x --test ping")
                .unwrap_err()
                .contains("begins with http://")
        );
        for url in ["http://h/x", "https://h/x"] {
            assert_eq!(
                asked(&format!("{url} --test ping")).unwrap().speaks,
                Speaks::Http
            );
        }
    }
}
