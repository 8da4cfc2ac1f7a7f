//! Errors of a simulated run, and limits of scenarios.

use narrows_core::engine::{Options, TooShort, UnknownQueue, check_rows};
use narrows_core::param::OF_KERNEL;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::units::Span;
use std::fmt;

/// Largest sum of the durations of all flows, in seconds. Metrics have 112 to 224 bytes for each
/// second.
pub const MOST_FLOW_SECONDS: u64 = 5_000_000;
/// Shortest sample interval.
pub const LEAST_INTERVAL: Span = Span::us(1);
/// Shortest interval of pings.
const LEAST_PINGS: Span = Span::us(1);

/// An error of a run.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SimError {
    /// The registry has no such congestion control.
    UnknownCc(String),
    /// The registry has no such queue discipline.
    UnknownQueue(String),
    /// There is no such workload.
    UnknownWorkload(String),
    /// The interval would give more rows than [`MOST_ROWS`](narrows_core::engine::MOST_ROWS), or is
    /// shorter than the shortest one.
    IntervalTooShort {
        /// `"samples"` or `"pings"`.
        of: &'static str,
        /// The requested interval.
        interval: Span,
        /// The shortest interval that is possible.
        at_least: Span,
    },
    /// The metrics of all flows would need too much memory ([`MOST_FLOW_SECONDS`]).
    TooLong {
        /// Sum of the durations of all flows, in seconds.
        flow_seconds: u64,
    },
    /// The registry has no such transport.
    UnknownTransport(String),
    /// An endpoint of a transport has reported a problem.
    Transport {
        /// The flow.
        flow: String,
        /// The problem.
        problem: String,
    },
    /// The flow of this index cannot be controlled: it does not exist, or has a workload or a
    /// transport.
    Uncontrolled(usize),
    /// The progress callback returned `false`.
    Stopped,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::UnknownCc(name) if name.starts_with(OF_KERNEL) => write!(
                f,
                "{name}: only a kernel has this congestion control; write --engine linux or \
                 --engine live"
            ),
            SimError::UnknownCc(name) => write!(f, "no congestion control is called \"{name}\""),
            SimError::UnknownQueue(name) => UnknownQueue(name.clone()).fmt(f),
            SimError::UnknownWorkload(name) => write!(f, "no workload is called \"{name}\""),
            SimError::IntervalTooShort {
                of,
                interval,
                at_least,
            } => {
                let (of, interval, at_least) = (*of, *interval, *at_least);
                TooShort {
                    of,
                    interval,
                    at_least,
                }
                .fmt(f)
            }
            SimError::TooLong { flow_seconds } => write!(
                f,
                "the flows last {flow_seconds} s, added up; figures of {MOST_FLOW_SECONDS} s fit \
                 into memory: fewer flows, \
                 or a shorter duration"
            ),
            SimError::UnknownTransport(name) => write!(
                f,
                "transport \"{name}\" is not loaded; build the adapter with `make adapters`, and \
                 load it with --plugin {name}"
            ),
            SimError::Transport { flow, problem } => {
                write!(f, "flow {flow}: the transport stopped: {problem}")
            }
            SimError::Uncontrolled(flow) => write!(
                f,
                "flow {flow} cannot be controlled: only a flow without a workload can"
            ),
            SimError::Stopped => write!(f, "the run was stopped"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<TooShort> for SimError {
    fn from(
        TooShort {
            of,
            interval,
            at_least,
        }: TooShort,
    ) -> SimError {
        SimError::IntervalTooShort {
            of,
            interval,
            at_least,
        }
    }
}

impl From<UnknownQueue> for SimError {
    fn from(UnknownQueue(name): UnknownQueue) -> SimError {
        SimError::UnknownQueue(name)
    }
}

/// Returns an error for a run whose results would exceed the limit of memory.
pub(crate) fn check(scenario: &Scenario, options: &Options) -> Result<(), SimError> {
    let flow_seconds = flow_seconds(scenario);
    if flow_seconds > MOST_FLOW_SECONDS {
        return Err(SimError::TooLong { flow_seconds });
    }
    Ok(check_rows(scenario, options, LEAST_INTERVAL, LEAST_PINGS)?)
}

/// Sum of the durations of all flows, in seconds.
fn flow_seconds(scenario: &Scenario) -> u64 {
    let stops = |flow: &FlowSpec| flow.stop.filter(|_| flow.restart.is_none());
    let lasts = |flow: &FlowSpec| {
        stops(flow)
            .unwrap_or(scenario.duration)
            .min(scenario.duration)
            - flow.start
    };
    scenario
        .flows
        .iter()
        .map(|flow| lasts(flow).as_ns())
        .sum::<u64>()
        / 1_000_000_000
}
