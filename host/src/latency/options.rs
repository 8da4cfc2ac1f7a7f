//! Reads the options of `narrows-host latency`.

use super::exchange::{LARGEST, Pace, Plan, Stall};
use super::load::Load;
use super::policy::Policy;
use super::protocol::ECHO;
use super::{irtt, stamp};
use crate::arguments::{self, Argument, Arguments, dscp, first_line, interval_lines, whole};
use crate::measure::address::Family;
use crate::protocols::wire;
use narrows_core::units::{Span, format_span, parse_bytes, parse_seconds, parse_span};

/// The usage text.
pub const USAGE: &str = "\
narrows-host latency HOST [options]
    Measure the response time of HOST over UDP, and the parts of it that the applications, the
    kernels and the network cause.

Requests:
  --pace HOW            even: a request each interval; pingpong: a request after each response
                        [default: even]
  --interval SPAN       time between two requests; minimum time with pingpong [default: 1ms; with
                        pingpong 0s]
  --count N             number of requests [default: as many as fit into --duration]
  --duration SPAN       duration after the warm-up [default: 11s, ten percent longer than p99.9
                        requires; unlimited with --count]
  --size BYTES          size of request and response, with UDP only [default: 64B, or what the
                        protocol needs]
  --slow SPAN           responses slower than this are reported individually [default: median +
                        1ms]
  --timeout SPAN        time after which a request without a response counts as lost; used by
                        pingpong and at the end of the test [default: 1s]
  --lead SPAN           wake up this long before each request and poll the clock, to send on time
                        [default: 60us]

Host:
  --policy P[,P...]     scheduling policies (docs/reference/latency-policies.md); several are
                        compared in alternating rounds [default: default]
  --load L[,L...]       other work of this host during the test: none, or cpu, which keeps all
                        processors busy [default: none]
  --rounds N            number of rounds if several policies or loads are compared [default: 4]
  --dscp N|NAME         DSCP of requests and responses [default: 0]
  --no-stamps           use no kernel timestamps; the response time is then not divided between
                        the hosts and the network
  --stall SPAN@SPAN     4ms@100ms: suspend the client for 4 ms in each 100 ms, to check that
                        these delays are attributed to the client

Connection:
  --speaks PROTOCOL     narrows (`narrows serve`; over TCP if it does not reply over UDP), board
                        (its datagrams without a TCP session), echo, stamp, irtt, narrows-tcp
                        (messages over the session of `narrows serve`) or tcp (handshakes with
                        any host) [default: narrows]
  --ip 4|6              address family, if HOST has both [default: the first of its addresses]
  --port N              port of HOST [default: 5201; echo 7, stamp 862, irtt 2112, tcp 443]
  --token T             token of HOST [default: $NARROWS_TOKEN]
  --token-file FILE     read the token from the first line of FILE

Output:
  --table               print tables with units instead of JSON
  --stream              for programs: print lines of progress, then the outcome (see
                        docs/reference/latency.md)
  --interval-lines SPAN with --stream: print a line about each interval of this duration; 0s for
                        none [default: 0s]
  --tied                end with the parent process
";

/// Default duration of each combination of policy and load, all rounds together, ns.
const LAB_LASTS: u64 = 4_000_000_000;

/// The protocol of the server.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// `narrows serve` with a TCP session.
    Narrows,
    /// Timed questions of narrows, without a TCP session.
    Board,
    /// A service that returns datagrams unchanged.
    Echo,
    /// A STAMP reflector (RFC 8762).
    Stamp,
    /// `irtt server`.
    Irtt,
    /// `narrows serve` by messages over its TCP session.
    NarrowsTcp,
    /// Any host, by TCP handshakes.
    Tcp,
}

/// All protocols by name, with the default port.
pub const SPEAKS: [(&str, Speaks, u16); 7] = [
    ("narrows", Speaks::Narrows, wire::PORT),
    ("board", Speaks::Board, wire::PORT),
    ("echo", Speaks::Echo, 7),
    ("stamp", Speaks::Stamp, stamp::PORT),
    ("irtt", Speaks::Irtt, irtt::PORT),
    ("narrows-tcp", Speaks::NarrowsTcp, wire::PORT),
    ("tcp", Speaks::Tcp, 443),
];

/// Shortest time after which a request counts as lost, ns.
const LEAST_TIMEOUT: u64 = 1_000_000;
/// Default and smallest interval of TCP handshakes, ns. A faster sequence could resemble an attack.
const HANDSHAKES: (u64, u64) = (100_000_000, 10_000_000);

impl Speaks {
    /// The name of the protocol.
    pub fn name(self) -> &'static str {
        SPEAKS
            .iter()
            .find(|(_, speaks, _)| *speaks == self)
            .map_or("", |(name, ..)| name)
    }
}

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server: a name or an address.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family to use; `None`: that of the server's first address.
    pub family: Option<Family>,
    /// Protocol of the server.
    pub speaks: Speaks,
    /// Parameters of the test.
    pub plan: Plan,
    /// Scheduling policy of the thread that measures.
    pub policy: Policy,
    /// The policies to compare; the first one is `policy`.
    pub policies: Vec<Policy>,
    /// The loads of the processors to compare.
    pub loads: Vec<Load>,
    /// Number of rounds. Each round measures every combination of policy and load once.
    pub rounds: u32,
    /// DSCP of questions, and requested DSCP of answers.
    pub dscp: u8,
    /// Whether to request kernel timestamps.
    pub stamps: bool,
    /// Token of the server.
    pub token: Option<String>,
    /// Whether to print progress for programs.
    pub stream: bool,
    /// Whether to end with the parent process.
    pub tied: bool,
}

impl Options {
    /// Whether policies or loads are compared.
    pub fn is_lab(&self) -> bool {
        self.policies.len() > 1 || self.loads != [Load::None]
    }
}

/// Reads a comma-separated list, each word by `one`. A word that occurs twice is an error.
fn several<T: PartialEq>(
    value: &str,
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for word in value.split(',') {
        let next = one(word.trim())?;
        if all.contains(&next) {
            return Err(format!("{word} occurs twice; write it once"));
        }
        all.push(next);
    }
    Ok(all)
}

/// Reads the duration and interval of stalls, such as `4ms@100ms`.
pub fn stall(text: &str) -> Result<Stall, String> {
    let parts = text
        .split_once('@')
        .and_then(|(lasts, every)| Some((parse_span(lasts).ok()?, parse_span(every).ok()?)));
    match parts {
        Some((lasts, every)) if every > lasts => Ok(Stall {
            lasts: lasts.as_ns(),
            every: every.as_ns(),
        }),
        _ => Err("not a duration and a longer period; write, e.g., 4ms@100ms".into()),
    }
}

/// Reads the words of a command line. `known` returns the value of an environment variable.
pub fn read(
    args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options {
        host: String::new(),
        port: 0,
        family: None,
        speaks: Speaks::Narrows,
        plan: Plan::default(),
        policy: Policy::default(),
        policies: vec![Policy::default()],
        loads: vec![Load::None],
        rounds: 4,
        dscp: 0,
        stamps: true,
        token: known("NARROWS_TOKEN").filter(|text| !text.is_empty()),
        stream: false,
        tied: false,
    };
    let (mut count, mut duration, mut interval, mut lead) = (None, None, None, None);
    let mut sized = false;
    let mut args = Arguments::new(args, USAGE);
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
            "--stream" => asked.stream = true,
            "--tied" => asked.tied = true,
            "--no-stamps" => asked.stamps = false,
            "--count" => {
                let value = args.value()?;
                let n = value.parse().ok();
                let n = n.filter(|n| (1..=1_000_000_000).contains(n));
                count = Some(n.ok_or_else(|| {
                    format!("--count {value}: must be a whole number from 1 to 1000000000")
                })?);
            }
            "--duration" => duration = Some(span(&option, &args.value()?)?),
            "--interval" => interval = Some(span(&option, &args.value()?)?),
            "--lead" => lead = Some(span(&option, &args.value()?)?),
            _ => {
                sized |= option == "--size";
                one(&mut asked, &option, &args.value()?)?;
            }
        }
    }
    if asked.host.is_empty() {
        return Err(args.missing("HOST", "narrows latency HOST"));
    }
    if asked.port == 0 {
        let usual = SPEAKS.iter().find(|(_, speaks, _)| *speaks == asked.speaks);
        asked.port = usual.map_or(wire::PORT, |(.., port)| *port);
    }
    if sized && matches!(asked.speaks, Speaks::Tcp | Speaks::NarrowsTcp) {
        return Err(format!(
            "--size: has no effect with --speaks {}, whose packets have a fixed size; remove it",
            asked.speaks.name()
        ));
    }
    let lab = asked.is_lab();
    let plan = &mut asked.plan;
    if asked.speaks == Speaks::Tcp {
        let (usual, least) = HANDSHAKES;
        let wanted = *interval.get_or_insert(usual);
        if wanted < least {
            return Err("--interval: too short for TCP handshakes; write 10ms or more".into());
        }
    }
    plan.interval = match (interval, plan.pace) {
        (Some(interval), Pace::Even) if interval < 1000 => {
            return Err(
                "--interval: too short; write 1us or more, or --pace pingpong for requests without \
                 pauses"
                    .into(),
            );
        }
        (Some(interval), _) => interval,
        (None, Pace::Even) => plan.interval,
        (None, Pace::PingPong) => 0,
    };
    if let Some(count) = count {
        plan.count = plan.warmup.saturating_add(count);
        plan.lasts = u64::MAX;
    }
    if count.is_none() && duration.is_none() && lab {
        plan.lasts = LAB_LASTS;
    }
    if let Some(duration) = duration {
        plan.lasts = duration;
        if duration < plan.interval.max(1) {
            return Err(format!(
                "--duration {}: shorter than one interval; write --duration {}",
                format_span(Span::ns(duration)),
                format_span(Span::ns(plan.interval.max(1_000_000).saturating_mul(1000)))
            ));
        }
    }
    if let Some(lead) = lead {
        plan.lead = lead;
        if lead >= plan.interval && plan.pace == Pace::Even {
            let (lead, interval) = (Span::ns(lead), Span::ns(plan.interval));
            return Err(format!(
                "--lead {}: not shorter than the --interval of {}; write --lead {} or less",
                format_span(lead),
                format_span(interval),
                format_span(Span::ns(plan.interval / 2))
            ));
        }
    } else if plan.lead >= plan.interval && plan.pace == Pace::Even {
        plan.lead = plan.interval / 2;
    }
    Ok(asked)
}

fn span(option: &str, value: &str) -> Result<u64, String> {
    // The error for a number without a unit proposes seconds for `--duration`, and smaller units
    // for the other options.
    let parse = if option == "--duration" {
        parse_seconds
    } else {
        parse_span
    };
    parse(value)
        .map(Span::as_ns)
        .map_err(|e| format!("{option} {value}: {}; write {option} {}", e.problem, e.fix))
}

fn one(asked: &mut Options, option: &str, value: &str) -> Result<(), String> {
    let wrong = |problem: &str| arguments::wrong(option, value, problem);
    match option {
        "--ip" => asked.family = Some(Family::parse(value)?),
        "--port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            asked.port = port.ok_or_else(|| wrong("not a port; write a number from 1 to 65535"))?;
        }
        "--speaks" => {
            let found = SPEAKS.iter().find(|(name, ..)| *name == value);
            let names = SPEAKS.map(|(name, ..)| name).join(" ");
            asked.speaks = found
                .ok_or_else(|| wrong(&format!("unknown protocol; write one of {names}")))?
                .1;
        }
        "--pace" => {
            asked.plan.pace = match value {
                "even" => Pace::Even,
                "pingpong" => Pace::PingPong,
                _ => return Err(wrong("unknown pace; write even or pingpong")),
            }
        }
        "--size" => {
            let size = parse_bytes(value)
                .map_err(|e| wrong(&format!("{}; write {option} {}", e.problem, e.fix)))?;
            let size = usize::try_from(size.get())
                .ok()
                .filter(|size| *size <= LARGEST);
            asked.plan.size = size.ok_or_else(|| wrong("too large; write 65507B or less"))?;
            if asked.plan.size < ECHO {
                return Err(wrong(&format!("too small; write {ECHO}B or more")));
            }
        }
        "--slow" => asked.plan.slow = Some(span(option, value)?),
        "--timeout" => {
            asked.plan.patience = span(option, value)?;
            if asked.plan.patience < LEAST_TIMEOUT {
                return Err(wrong("too short; write 1ms or more"));
            }
        }
        "--interval-lines" => {
            asked.plan.lines = interval_lines(value).map_err(|e| wrong(&e))?.as_ns();
        }
        "--policy" => {
            asked.policies = several(value, Policy::parse).map_err(|e| wrong(&e))?;
            asked.policy = asked.policies[0].clone();
        }
        "--load" => asked.loads = several(value, Load::parse).map_err(|e| wrong(&e))?,
        "--rounds" => {
            asked.rounds = whole(value, 1..=1000).map_err(|e| wrong(&e))?;
        }
        "--dscp" => asked.dscp = dscp(value).map_err(|e| wrong(&e))?,
        "--stall" => asked.plan.stall = Some(stall(value).map_err(|e| wrong(&e))?),
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
    fn a_line_is_read_and_a_mistake_names_its_fix() {
        let options =
            asked("h --speaks stamp --count 100 --interval 100us --stall 4ms@1s --dscp ef")
                .unwrap();
        assert_eq!(
            (options.port, options.plan.count, options.dscp),
            (862, 120, 46)
        );
        assert_eq!(
            (options.plan.interval, options.plan.lead),
            (100_000, 60_000)
        );
        assert_eq!(
            options.plan.stall,
            Some(Stall {
                lasts: 4_000_000,
                every: 1_000_000_000
            })
        );
        assert_eq!(asked("h --pace pingpong").unwrap().plan.interval, 0);
        let options = asked("h --policy default,fifo+lock --load none,cpu --rounds 2").unwrap();
        assert!(
            options.is_lab()
                && options.policies.len() == 2
                && options.loads == [Load::None, Load::Cpu]
        );
        assert_eq!((options.rounds, options.plan.lasts), (2, LAB_LASTS));
        assert!(
            !asked("h --policy spin").unwrap().is_lab() && asked("h --load cpu").unwrap().is_lab()
        );
        for speaks in ["tcp", "narrows-tcp"] {
            let error = asked(&format!("h --size 100B --speaks {speaks}")).unwrap_err();
            assert!(error.starts_with("--size: has no effect"), "{error}");
        }
        assert!(asked("h --policy rr,rr").unwrap_err().contains("twice"));
        assert!(asked("h --policy fifo+spin").unwrap_err().contains("awake"));
        assert!(asked("h --load disk").unwrap_err().contains("none or cpu"));
        assert!(
            asked("h --interval 10")
                .unwrap_err()
                .contains("write --interval")
        );
        let short = asked("h --duration 10us").unwrap_err();
        assert!(short.contains("write --duration 1s"), "{short}");
        assert!(
            asked("h --duration 0s --pace pingpong").is_err() && asked("h --duration 10ms").is_ok()
        );
        assert!(
            asked("h --policy spin+rr")
                .unwrap_err()
                .starts_with("--policy spin+rr: a real-time")
        );
        let tcp = asked("h --speaks tcp").unwrap();
        assert_eq!((tcp.port, tcp.plan.interval), (443, 100_000_000));
        let fast = asked("h --speaks tcp --interval 1ms").unwrap_err();
        assert!(fast.ends_with("write 10ms or more"), "{fast}");
        assert!(asked("h --interval 10ns").unwrap_err().contains("pingpong"));
        for (line, said) in [
            ("--timeout 0s", "--timeout 0s: too short; write 1ms or more"),
            ("--size 0B", "--size 0B: too small; write 16B or more"),
            (
                "--lead 10s",
                "--lead 10s: not shorter than the --interval of 1ms; write --lead 500us or less",
            ),
            ("--stall 5ms@1ms", "--stall 5ms@1ms: not a duration"),
        ] {
            let error = asked(&format!("h {line}")).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let options = asked("h --lead 0s --size 64B --timeout 1ms").unwrap();
        assert_eq!((options.plan.lead, options.plan.size), (0, 64));
        // The default is shortened, not refused.
        assert_eq!(asked("h --interval 50us").unwrap().plan.lead, 25_000);
        assert!(
            asked("h --speaks udp")
                .unwrap_err()
                .contains("narrows board echo stamp irtt narrows-tcp tcp")
        );
        assert!(
            asked("h --size 70000B").is_err()
                && asked("h --stall 4ms").is_err()
                && asked("").is_err()
        );
    }
}
