//! The options of `narrows-host latency`.

use super::exchange::{LARGEST, Pace, Plan, Stall};
use super::lab::Load;
use super::policy::Policy;
use super::{irtt, stamp};
use crate::protocols::wire;
use narrows_core::units::{Span, format_span, parse_bytes, parse_seconds, parse_span};

/// How it is called.
pub const USAGE: &str = "\
narrows-host latency HOST [options]   how long an answer takes, and whose delay it is

  --speaks WHO          narrows (`narrows serve`), board (its datagrams without a session), echo, \
  stamp or irtt; narrows
  --port N              5201; of echo 7, stamp 862, irtt 2112
  --pace HOW            even: each interval, whatever was answered; pingpong: when the last was \
  answered; even
  --interval SPAN       1ms; of pingpong at least, 0s
  --count N             questions; as many as fit into the duration
  --duration SPAN       of the questions that count: 11s, a tenth more of them than p99.9 needs; \
  with --count without a limit
  --size BYTES          of a question and its answer; 64B, or what the protocol needs
  --slow SPAN           an answer is slow from here on; the median and 1ms
  --timeout SPAN        an answer is lost after it, in pingpong and at the end; 1s
  --lead SPAN           the application wakes so much before a question is due and watches the \
  clock; 60us
  --policy P[,P...]     how this host serves the application, see \
  docs/reference/latency-policies.md; default
                        several are tried in turns: default,nice,rr,fifo+lock,spin,awake
  --load L[,L...]       what else its processors do meanwhile: none, or cpu, which keeps all of \
  them busy; none
  --rounds N            turns, where there are several; 4
  --dscp N|NAME         code point; 0
  --no-stamps           without the kernel's stamps: nobody is blamed
  --stall SPAN@SPAN     stand still for so long so often, to see who is blamed: 4ms@100ms
  --token T             the far end's; or in $NARROWS_TOKEN
  --stream              for programs: lines of progress, then the outcome (see \
  docs/reference/latency.md)
  --tied                end with the process that started this one
";

/// Of each set-up, all its turns together, where nothing else is asked for, ns.
const LAB_LASTS: u64 = 4_000_000_000;

/// What the far end speaks.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// `narrows serve`: with a session.
    Narrows,
    /// Our datagrams, without a session.
    Board,
    /// Datagrams come back as they went.
    Echo,
    /// RFC 8762.
    Stamp,
    /// `irtt server`.
    Irtt,
}

/// By name, with the usual port.
pub const SPEAKS: [(&str, Speaks, u16); 5] = [
    ("narrows", Speaks::Narrows, wire::PORT),
    ("board", Speaks::Board, wire::PORT),
    ("echo", Speaks::Echo, 7),
    ("stamp", Speaks::Stamp, stamp::PORT),
    ("irtt", Speaks::Irtt, irtt::PORT),
];

impl Speaks {
    /// Its name.
    pub fn name(self) -> &'static str {
        SPEAKS
            .iter()
            .find(|(_, speaks, _)| *speaks == self)
            .map_or("", |(name, ..)| name)
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it speaks.
    pub speaks: Speaks,
    /// What is done.
    pub plan: Plan,
    /// How this host serves it.
    pub policy: Policy,
    /// The same, where several are tried in turns; the first is the one above.
    pub policies: Vec<Policy>,
    /// What else its processors do.
    pub loads: Vec<Load>,
    /// Turns.
    pub rounds: u32,
    /// Code point.
    pub dscp: u8,
    /// Does the kernel stamp?
    pub stamps: bool,
    /// The far end's.
    pub token: Option<String>,
    /// For programs.
    pub stream: bool,
    /// End with the parent.
    pub tied: bool,
}

impl Options {
    /// Are several set-ups tried in turns?
    pub fn is_lab(&self) -> bool {
        self.policies.len() > 1 || self.loads != [Load::None]
    }
}

/// Words between commas, each as `one` has it, none twice.
fn several<T: PartialEq>(
    value: &str,
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for word in value.split(',') {
        let next = one(word.trim())?;
        if all.contains(&next) {
            return Err(format!("{word} is there twice"));
        }
        all.push(next);
    }
    Ok(all)
}

/// `4ms@100ms`.
pub fn stall(text: &str) -> Result<Stall, String> {
    let parts = text
        .split_once('@')
        .and_then(|(lasts, every)| Some((parse_span(lasts).ok()?, parse_span(every).ok()?)));
    match parts {
        Some((lasts, every)) if every > lasts => Ok(Stall {
            lasts: lasts.as_ns(),
            every: every.as_ns(),
        }),
        _ => Err(format!(
            "--stall {text}: how long and how often, e.g. 4ms@100ms"
        )),
    }
}

/// Of a command line. `known` answers variables of the environment.
pub fn read(
    mut args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options {
        host: String::new(),
        port: 0,
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
    let (mut count, mut duration, mut interval) = (None, None, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--stream" => asked.stream = true,
            "--tied" => asked.tied = true,
            "--no-stamps" => asked.stamps = false,
            _ if !arg.starts_with("--") && asked.host.is_empty() => asked.host = arg,
            _ if !arg.starts_with("--") => return Err(format!("one host at a time\n\n{USAGE}")),
            "--count" => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                let n = value
                    .parse()
                    .ok()
                    .filter(|n| (1..=1_000_000_000).contains(n));
                count =
                    Some(n.ok_or_else(|| {
                        format!("--count {value}: a number from 1 to 1000000000")
                    })?);
            }
            "--duration" | "--interval" => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                let span = span(&arg, &value)?;
                *(if arg == "--duration" {
                    &mut duration
                } else {
                    &mut interval
                }) = Some(span);
            }
            _ => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                one(&mut asked, &arg, &value)?;
            }
        }
    }
    if asked.host.is_empty() {
        return Err(format!("which host?\n\n{USAGE}"));
    }
    if asked.port == 0 {
        let usual = SPEAKS.iter().find(|(_, speaks, _)| *speaks == asked.speaks);
        asked.port = usual.map_or(wire::PORT, |(.., port)| *port);
    }
    let lab = asked.is_lab();
    let plan = &mut asked.plan;
    plan.interval = match (interval, plan.pace) {
        (Some(interval), Pace::Even) if interval < 1000 => {
            return Err(
                "--interval: 1us at least; what is to be as fast as it goes is --pace pingpong"
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
                "--duration {}: not even one question leaves in that time; write --duration {}",
                format_span(Span::ns(duration)),
                format_span(Span::ns(plan.interval.max(1_000_000).saturating_mul(1000)))
            ));
        }
    }
    if plan.lead >= plan.interval && plan.pace == Pace::Even {
        plan.lead = plan.interval / 2;
    }
    Ok(asked)
}

fn span(option: &str, value: &str) -> Result<u64, String> {
    // The time of the whole command is told in seconds, everything else in less.
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
    // What is wrong with one of several has that one's name before it.
    let wrong = |what: &str| {
        let what = what
            .strip_prefix(value)
            .and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(what);
        format!("{option} {value}: {what}")
    };
    match option {
        "--port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            asked.port = port.ok_or_else(|| wrong("a port is a number from 1 to 65535"))?;
        }
        "--speaks" => {
            let found = SPEAKS.iter().find(|(name, ..)| *name == value);
            let names = SPEAKS.map(|(name, ..)| name).join(" ");
            asked.speaks = found.ok_or_else(|| wrong(&format!("one of {names}")))?.1;
        }
        "--pace" => {
            asked.plan.pace = match value {
                "even" => Pace::Even,
                "pingpong" => Pace::PingPong,
                _ => return Err(wrong("one of even pingpong")),
            }
        }
        "--size" => {
            let size = parse_bytes(value)
                .map_err(|e| wrong(&format!("{}; write {option} {}", e.problem, e.fix)))?;
            let size = usize::try_from(size.get())
                .ok()
                .filter(|size| *size <= LARGEST);
            asked.plan.size = size.ok_or_else(|| wrong("65507B at most"))?;
        }
        "--slow" => asked.plan.slow = Some(span(option, value)?),
        "--timeout" => asked.plan.patience = span(option, value)?.max(1_000_000),
        "--lead" => asked.plan.lead = span(option, value)?,
        "--policy" => {
            asked.policies = several(value, Policy::parse).map_err(|e| wrong(&e))?;
            asked.policy = asked.policies[0].clone();
        }
        "--load" => asked.loads = several(value, Load::parse).map_err(|e| wrong(&e))?,
        "--rounds" => {
            let rounds = value.parse().ok().filter(|n| (1..=1000).contains(n));
            asked.rounds = rounds.ok_or_else(|| wrong("a number from 1 to 1000"))?;
        }
        "--dscp" => {
            let dscp = narrows_core::scenario::code_point(value);
            asked.dscp =
                dscp.ok_or_else(|| wrong("a name (EF, CS1, AF41) or a number up to 63"))?;
        }
        "--stall" => asked.plan.stall = Some(stall(value)?),
        "--token" => asked.token = Some(value.to_string()),
        _ => return Err(format!("no option is called {option}\n\n{USAGE}")),
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
        assert!(asked("h --policy rr,rr").unwrap_err().contains("twice"));
        assert!(asked("h --policy fifo+spin").unwrap_err().contains("awake"));
        assert!(asked("h --load disk").unwrap_err().contains("none cpu"));
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
        assert!(asked("h --interval 10ns").unwrap_err().contains("pingpong"));
        assert!(
            asked("h --speaks tcp")
                .unwrap_err()
                .contains("narrows board echo stamp irtt")
        );
        assert!(
            asked("h --size 70000B").is_err()
                && asked("h --stall 4ms").is_err()
                && asked("").is_err()
        );
    }
}
