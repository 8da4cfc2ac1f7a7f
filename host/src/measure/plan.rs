//! The plan of a test: flows with their DSCPs, pings, and phases. This module sends nothing.
//!
//! The names are those of flent (`rrul`, `tcp_ndown`, ...). `rrul` has four flows in each direction
//! with four different DSCPs by default, and pings with the same DSCPs. In `rrul_be`, all flows
//! have the same DSCP.

use super::options::{Options, Test};
use super::ping::Probe;
use narrows_core::units::{Span, format_bytes};

/// The DSCPs of `rrul`: best effort, CS1 (background), CS5, and EF (expedited forwarding).
const CLASSES: [u8; 4] = [0, 8, 40, 46];
/// The packets of a G.711 call: every 20 ms, 160 bytes of audio (64 kbit/s) and 12 bytes of RTP
/// header, with DSCP EF.
pub const CALL: Probe = Probe {
    dscp: 46,
    interval: Span::ms(20),
    size: 172,
};
/// Largest duration of the recovery phase after each load phase, in which queues drain.
const RECOVERY: Span = Span::s(2);
/// Time to set up and close flows between two phases, as assumed for the number of pings.
const BETWEEN: Span = Span::ms(500);
/// Bytes by which a paced flow may exceed its rate.
const PACED_AHEAD: u64 = 1 << 20;
/// Payload of a ping, bytes.
const PING: usize = 64;

/// The direction of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From this host.
    Up,
    /// To this host.
    Down,
}

impl Direction {
    /// The name of the direction.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// A flow, which each load phase has.
#[derive(Copy, Clone, Debug)]
pub struct FlowSpec {
    /// The direction of the flow.
    pub direction: Direction,
    /// Code point.
    pub dscp: u8,
}

/// A phase of the measurement.
#[derive(Clone, Debug)]
pub struct Phase {
    /// `idle`, `pages` (without load), `loaded` or `recovery`.
    pub name: &'static str,
    /// The duration of the phase.
    pub lasts: Span,
    /// Congestion control of the flows.
    pub cc: Option<String>,
}

/// The flows of each load phase.
pub fn flows(options: &Options) -> Vec<FlowSpec> {
    use Direction::{Down, Up};
    let ways: &[Direction] = match options.test {
        Test::TcpUp | Test::TcpNup => &[Up],
        Test::TcpDown | Test::TcpNdown => &[Down],
        Test::Rrul
        | Test::RrulBe
        | Test::Bidir
        | Test::Voip
        | Test::Page
        | Test::PageSequential => &[Up, Down],
        Test::UdpFlood | Test::Ping => &[],
    };
    let class = |i: usize| match options.test {
        Test::Rrul => CLASSES[i % CLASSES.len()],
        _ => options.dscp,
    };
    ways.iter()
        .flat_map(|direction| {
            (0..options.streams).map(move |i| FlowSpec {
                direction: *direction,
                dscp: class(i),
            })
        })
        .collect()
}

/// The probes of a test. In the test `voip`, the last one has the packets of a call.
pub fn probes(options: &Options) -> Vec<Probe> {
    let probe = |dscp| Probe {
        dscp,
        interval: options.ping_interval,
        size: PING,
    };
    match options.test {
        Test::Rrul => CLASSES.map(probe).to_vec(),
        Test::Voip => vec![probe(options.dscp), CALL],
        _ => vec![probe(options.dscp)],
    }
}

/// The phases of a test: idle, then a load phase for each congestion control in turn, repeated in
/// the order A B A B. So slow changes of the path affect all congestion controls alike.
pub fn phases(options: &Options) -> Vec<Phase> {
    let phase = |name, lasts, cc: Option<&String>| Phase {
        name,
        lasts,
        cc: cc.cloned(),
    };
    if options.test == Test::Ping {
        return vec![phase("idle", options.duration, None)];
    }
    let ccs: Vec<Option<&String>> = if options.cc.is_empty() {
        vec![None]
    } else {
        options.cc.iter().map(Some).collect()
    };
    let mut all = Vec::new();
    if options.idle > Span::ZERO {
        all.push(phase("idle", options.idle, None));
    }
    if options.test.pages() {
        all.push(phase("pages", options.duration, None));
    }
    for _ in 0..options.repeats {
        for cc in &ccs {
            all.push(phase("loaded", options.duration, *cc));
            all.push(phase("recovery", RECOVERY.min(options.idle), None));
        }
    }
    all
}

/// Largest number of bytes that the test moves: those at the pacing rate, if there is one, and at
/// most the limit of `--max-data`.
pub fn may_move(options: &Options) -> u64 {
    let most = options.share();
    let phases = (options.repeats * options.cc.len().max(1)) as u64;
    let flows = match options.test {
        Test::UdpFlood => 1,
        Test::Ping => return most.min(pings(options)),
        // The number of pages is not known in advance.
        Test::Page | Test::PageSequential => return most,
        _ => flows(options).len() as u64,
    };
    match options.pacing {
        Some(rate) => {
            // The initial window of a paced sender, and a window in transit, are not covered by its
            // rate.
            let each = (rate * options.duration).get().saturating_add(PACED_AHEAD);
            most.min((each.saturating_mul(flows * phases)).saturating_add(pings(options)))
        }
        None => most,
    }
}

/// Rejects options with which the pings alone would use up `--max-data`.
pub fn check(options: &Options) -> Result<(), String> {
    let pings = pings(options);
    if pings < options.share() {
        return Ok(());
    }
    Err(format!(
        "--max-data {}: the pings alone move {pings} bytes; write more, a longer --ping-interval \
         or a shorter --duration",
        format_bytes(options.max_data)
    ))
}

/// Payload of all pings in both directions, bytes, including those sent while flows are set up and
/// closed.
pub fn pings(options: &Options) -> u64 {
    let phases = phases(options);
    let all: u64 = phases
        .iter()
        .map(|phase| phase.lasts.as_ns() + BETWEEN.as_ns())
        .sum();
    let each = |probe: &Probe| (all / probe.interval.as_ns() + 1) * 2 * probe.size as u64;
    probes(options).iter().map(each).sum()
}

#[cfg(test)]
mod tests {
    use super::super::options::read;
    use super::*;

    fn asked(line: &str) -> Options {
        read(line.split_whitespace().map(String::from), |_| None).unwrap()
    }

    #[test]
    fn congestion_controls_take_turns() {
        let phases = phases(&asked(
            "h --test bidir --cc bbr,cubic --repeats 2 --idle 1s",
        ));
        let names: Vec<_> = phases.iter().map(|p| (p.name, p.cc.as_deref())).collect();
        let loaded: Vec<_> = names
            .iter()
            .filter(|(name, _)| *name == "loaded")
            .map(|(_, cc)| cc.unwrap())
            .collect();
        assert_eq!(loaded, ["bbr", "cubic", "bbr", "cubic"]);
        assert_eq!(names[0], ("idle", None));
        assert_eq!(phases.last().unwrap().name, "recovery");
    }

    #[test]
    fn rrul_has_a_class_for_each_flow_and_its_ping() {
        let options = asked("h --test rrul");
        assert_eq!(
            flows(&options).iter().map(|f| f.dscp).collect::<Vec<_>>(),
            [0, 8, 40, 46, 0, 8, 40, 46]
        );
        assert_eq!(probes(&options).len(), 4);
        assert_eq!(flows(&asked("h --test tcp_ndown")).len(), 12);
        assert!(flows(&asked("h --test ping")).is_empty());
    }

    #[test]
    fn what_may_move_is_bounded_by_pacing_or_by_the_limit() {
        assert_eq!(
            may_move(&asked("h --test tcp_up --max-data 5MB")),
            5_000_000
        );
        let paced = may_move(&asked(
            "h --test tcp_up --pacing 8Mbit --duration 1s --idle 0s",
        ));
        assert!((1_000_000..2_100_000).contains(&paced), "{paced}");
        let of = |line: &str| may_move(&asked(line));
        // The estimate never exceeds the limit.
        assert_eq!(of("h --test rrul --max-data 5MB --parts 2"), 2_500_000);
        assert_eq!(of("h --test page --pacing 8Mbit --max-data 5MB"), 5_000_000);
    }

    #[test]
    fn pings_beyond_the_permitted_payload_are_an_error() {
        let error = check(&asked("h --test ping --max-data 1kB")).unwrap_err();
        assert!(error.contains("the pings alone move"), "{error}");
    }

    #[test]
    fn pages_have_an_idle_time_before_them_without_any() {
        let names: Vec<_> = phases(&asked("h --test page"))
            .iter()
            .map(|p| p.name)
            .collect();
        assert_eq!(names, ["idle", "pages", "loaded", "recovery"]);
    }
}
