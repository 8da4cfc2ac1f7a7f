//! Reads the options of `narrows-host measure`.

use crate::arguments::{Argument, Arguments, dscp, first_line, interval_lines, rate_limit, whole};
use crate::measure::address::Family;
use crate::measure::pacer::Pacer;
use crate::measure::transport::terms::standard;
use crate::protocols::wire::PORT;
use narrows_core::cc::CcKind;
pub use narrows_core::registry::measurement::Test;
use narrows_core::registry::measurement::{MOST_STREAMS, TESTS};
use narrows_core::units::{Bytes, Rate, Span, parse_bytes, parse_seconds, parse_span};
use std::path::PathBuf;

/// The usage text.
pub fn usage() -> String {
    let names: Vec<&str> = TESTS.iter().map(|kind| kind.name).collect();
    let (first, rest) = names.split_at(names.len() - 2);
    let several = TESTS.iter().filter(|kind| kind.streams > 1);
    let several: Vec<String> = several
        .map(|kind| format!("{} for {}", kind.streams, kind.name))
        .collect();
    format!(
        "\
narrows-host measure HOST --test NAME [options]
    Measure the path to HOST: a name, an address, or an http:// or https:// URL.

Load:
  --test NAME           {}
                        {}
  --duration SPAN       duration of each load phase [default: 10s]
  --idle SPAN           duration of the idle phase before the load [default: 3s]
  --streams N           streams in each direction [default: {}, otherwise 1]
  --cc A,B              congestion controls; each load phase runs once with each of them, in turn
                        [default: the hosts' own]
  --repeats N           number of measurements with each congestion control, in the order
                        A B A B [default: 1]
  --dscp N|NAME         code point of flows and pings: EF, CS1, AF41, 46 [default: 0]
  --ecn                 no effect; ECN is always reported
  --pacing RATE         maximum rate of each TCP flow (SO_MAX_PACING_RATE); with --test udp_flood,
                        the rate of the datagrams
  --max-data BYTES      end the measurement after this much payload of all loads, pages and pings
                        [default: 2GB]
  --transport T         transport of the flows: tcp (the kernel's), udp (narrows' own TCP over
                        UDP, with any of its congestion controls) or quic (by quinn, with --cc
                        cubic, newreno or bbr) [default: tcp]
  --pacer PACER         with --transport udp: the pacer of the flows, timer (of the program) or
                        txtime (departure times, which the queue discipline fq of the sending host
                        keeps) [default: timer]
  --plugin FILE         with --transport udp: load the congestion controls of a shared library; may
                        be repeated
  --parts N             share --max-data among N measurements [default: 1]
  --ping-interval SPAN  mean time between two pings [default: 20ms]

Connection:
  --port N              port of HOST [default: 5201]
  --ip 4|6              address family, if HOST has both [default: the first of its addresses]
  --speaks PROTOCOL     auto, narrows, iperf3 or http [default: auto]
  --token T             token of HOST [default: $NARROWS_TOKEN]
  --token-file FILE     read the token from the first line of FILE
  --insecure            do not verify the certificate of an https:// server

Output:
  --table               print tables with units instead of JSON
  --stream              for programs: print lines of progress, then the measurement (see
                        docs/reference/measurement.md)
  --interval-lines SPAN with --stream: print a line about each interval of this duration; 0s for
                        none [default: 0s]
  --tied                end with the parent process
",
        first.join(" "),
        rest.join(" "),
        several.join(", ")
    )
}

/// The protocol of the server.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// Detected from the server's first byte.
    Auto,
    /// `narrows serve`.
    Narrows,
    /// `iperf3 -s`.
    Iperf3,
    /// A web server.
    Http,
}

/// The transport of the flows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP of the kernel.
    Tcp,
    /// TCP of narrows over UDP.
    Udp,
    /// QUIC.
    Quic,
}

impl Transport {
    /// All transports.
    pub const ALL: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Quic];

    /// The name of the transport.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Quic => "quic",
        }
    }
    /// Whether this program has the transport.
    fn is_present(self) -> bool {
        match self {
            Transport::Tcp => true,
            Transport::Udp => super::transport::PRESENT,
            Transport::Quic => super::transport::quic::PRESENT,
        }
    }
}

/// All protocols by name.
pub const SPEAKS: [(&str, Speaks); 4] = [
    ("auto", Speaks::Auto),
    ("narrows", Speaks::Narrows),
    ("iperf3", Speaks::Iperf3),
    ("http", Speaks::Http),
];

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server: a name, an address, or a URL.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family to use; `None`: that of the server's first address.
    pub family: Option<Family>,
    /// The test.
    pub test: Test,
    /// Duration of each load phase.
    pub duration: Span,
    /// Duration of the idle phase before the load.
    pub idle: Span,
    /// Number of streams in each direction.
    pub streams: usize,
    /// Congestion controls to measure in turn; if empty, the hosts' defaults.
    pub cc: Vec<String>,
    /// Number of load phases with each congestion control.
    pub repeats: usize,
    /// DSCP of flows and pings.
    pub dscp: u8,
    /// Whether `--ecn` was given; it only appears in the result.
    pub ecn: bool,
    /// Largest rate of each TCP flow, or rate of the datagrams of `udp_flood`.
    pub pacing: Option<Rate>,
    /// Largest payload of all loads, pages and pings, in both directions together.
    pub max_data: Bytes,
    /// Number of measurements that share `max_data`.
    pub parts: u64,
    /// Whether the certificate of a web server is not verified.
    pub insecure: bool,
    /// Mean time between two pings.
    pub ping_interval: Span,
    /// Token of the server.
    pub token: Option<String>,
    /// Protocol of the server.
    pub speaks: Speaks,
    /// Transport of the flows.
    pub transport: Transport,
    /// Pacer of flows over UDP.
    pub pacer: Option<Pacer>,
    /// Congestion controls of flows over UDP.
    pub ccs: Vec<CcKind>,
    /// Shared libraries with more of them.
    pub plugins: Vec<PathBuf>,
    /// Duration of an interval with a line of its own; zero: no such lines.
    pub lines: Span,
    /// Whether to print progress for programs.
    pub stream: bool,
    /// Whether to end with the parent process.
    pub tied: bool,
}

/// Largest number of pings of one probe in a measurement: an hour at 1000 per second.
const MOST_PINGS: u64 = 3_600_000;
/// The error for another server than `narrows serve`.
pub fn needs_narrows(transport: Transport) -> String {
    format!(
        "--transport {} requires `narrows serve` on the far host; start it there, or write \
         --transport tcp",
        transport.name()
    )
}
const LEAST_INTERVAL: Span = Span::ms(1);

/// Reads the words of a command line. `known` returns the value of an environment variable.
pub fn read(
    args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options {
        host: String::new(),
        port: PORT,
        family: None,
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
        transport: Transport::Tcp,
        pacer: None,
        ccs: standard(),
        plugins: Vec::new(),
        lines: Span::ZERO,
        stream: false,
        tied: false,
    };
    let mut chosen = None;
    let mut args = Arguments::new(args, usage());
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Operand(host) if asked.host.is_empty() => {
                asked.host = host;
                continue;
            }
            Argument::Operand(word) => return Err(args.unexpected(&word)),
            Argument::Rest(_) => return Err(args.unexpected("--")),
        };
        match option.as_str() {
            "--ecn" => asked.ecn = true,
            "--insecure" => asked.insecure = true,
            "--stream" => asked.stream = true,
            "--tied" => asked.tied = true,
            "--test" => chosen = Some(test(&args.value()?)?),
            _ => one(&mut asked, &option, &args.value()?)?,
        }
    }
    if asked.host.is_empty() {
        return Err(args.missing("HOST", "narrows measure HOST"));
    }
    // There is no default test here: `narrows measure` runs several tests by default.
    asked.test =
        chosen.ok_or_else(|| format!("--test missing; write, e.g., --test {}", TESTS[0].name))?;
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
            "{}: unknown scheme; write a URL that begins with http:// or https://",
            asked.host
        ));
    }
    if let Some(pacer) = asked.pacer.filter(|_| asked.transport != Transport::Udp) {
        return Err(format!(
            "--pacer {}: only flows of --transport udp have it; add --transport udp, or leave \
             --pacer out",
            pacer.name()
        ));
    }
    if asked.transport != Transport::Tcp {
        if asked.pacing.is_some() && asked.test != Test::UdpFlood {
            return Err(format!(
                "--pacing: not supported with --transport {}; leave it out",
                asked.transport.name()
            ));
        }
        if asked.speaks == Speaks::Http || asked.speaks == Speaks::Iperf3 {
            return Err(needs_narrows(asked.transport));
        }
    }
    let times = asked.repeats.max(1) as u64 * asked.cc.len().max(1) as u64;
    let all = asked
        .duration
        .as_ns()
        .saturating_mul(times)
        .saturating_add(asked.idle.as_ns());
    if all / asked.ping_interval.as_ns() > MOST_PINGS {
        return Err(format!(
            "--ping-interval: more than {MOST_PINGS} pings; write a longer --ping-interval, or a \
             smaller --duration or --repeats"
        ));
    }
    Ok(asked)
}

impl Options {
    /// Largest payload of this measurement, bytes.
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
    Test::named(value)
        .ok_or_else(|| format!("--test {value}: unknown test; write one of {}", names()))
}

fn one(asked: &mut Options, option: &str, value: &str) -> Result<(), String> {
    let wrong = |what: &str| format!("{option} {value}: {what}");
    let unit = |e: narrows_core::units::UnitError| {
        format!("{option} {value}: {}; write {option} {}", e.problem, e.fix)
    };
    let names = |list: Vec<&str>| wrong(&format!("unknown; write one of {}", list.join(" ")));
    match option {
        "--port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            asked.port = port.ok_or_else(|| wrong("not a port; write a number from 1 to 65535"))?;
        }
        "--ip" => asked.family = Some(Family::parse(value)?),
        "--speaks" => {
            let found = SPEAKS.iter().find(|(name, _)| *name == value);
            asked.speaks = found
                .ok_or_else(|| names(SPEAKS.map(|(name, _)| name).to_vec()))?
                .1;
        }
        "--transport" => {
            let found = Transport::ALL.into_iter().find(|one| one.name() == value);
            asked.transport =
                found.ok_or_else(|| names(Transport::ALL.map(Transport::name).to_vec()))?;
            if !asked.transport.is_present() {
                return Err(wrong(
                    "this narrows-host was built without it, like those for routers; write tcp, or \
                     use the narrows-host of a wheel or of `make setup`",
                ));
            }
        }
        "--pacer" => {
            let found = Pacer::named(value);
            asked.pacer = Some(found.ok_or_else(|| names(Pacer::ALL.map(Pacer::name).to_vec()))?);
        }
        "--duration" => {
            asked.duration = parse_seconds(value).map_err(unit)?;
            if asked.duration < Span::ms(500) {
                return Err(wrong("too short; write 500ms or more"));
            }
        }
        "--idle" => asked.idle = parse_seconds(value).map_err(unit)?,
        "--streams" => {
            asked.streams = whole(value, 1..=MOST_STREAMS).map_err(|e| wrong(&e))?;
        }
        "--repeats" => {
            asked.repeats = whole(value, 1..=1000).map_err(|e| wrong(&e))?;
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
                return Err(wrong("not a list of names; write, e.g., bbr,cubic"));
            }
        }
        "--dscp" => {
            asked.dscp = dscp(value).map_err(|e| wrong(&e))?;
        }
        "--plugin" => asked.plugins.push(value.into()),
        "--pacing" => asked.pacing = Some(rate_limit(option, value).map_err(|e| wrong(&e))?),
        "--interval-lines" => asked.lines = interval_lines(value).map_err(|e| wrong(&e))?,
        "--max-data" => asked.max_data = parse_bytes(value).map_err(unit)?,
        "--parts" => {
            asked.parts = whole(value, 1..=16).map_err(|e| wrong(&e))?;
        }
        "--ping-interval" => {
            asked.ping_interval = parse_span(value).map_err(unit)?;
            if asked.ping_interval < LEAST_INTERVAL {
                return Err(wrong("too short; write 1ms or more"));
            }
        }
        "--token-file" => asked.token = Some(first_line(value).map_err(|e| wrong(&e))?),
        _ => asked.token = Some(value.to_string()),
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
    fn the_usage_lists_every_test() {
        assert!(asked("h").unwrap_err().starts_with("--test missing; write"));
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
        for port in ["0", "65536", "-1", "x"] {
            let refused = asked(&format!("h --test tcp_up --port {port}")).unwrap_err();
            let said = "not a port; write a number from 1 to 65535";
            assert_eq!(refused, format!("--port {port}: {said}"));
        }
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
        // The kernel would not limit flows of less than a byte per second.
        for low in ["0bit", "7bit"] {
            let refused = asked(&format!("h --test tcp_down --pacing {low}")).unwrap_err();
            let said = format!("--pacing {low}: too low; write --pacing 8bit or more");
            assert_eq!(refused, said);
        }
        assert!(asked("h --test tcp_down --pacing 8bit").is_ok());
        for transport in ["tcp", "quic"] {
            let line = format!("h --test tcp_up --transport {transport} --pacer timer");
            let refused = asked(&line).unwrap_err();
            assert!(
                refused.starts_with("--pacer timer: only flows"),
                "{refused}"
            );
        }
        let refused = asked("h --test ping --token-file /dev/null").unwrap_err();
        assert!(
            refused.contains("/dev/null: the first line is empty"),
            "{refused}"
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
