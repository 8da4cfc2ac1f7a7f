//! The virtual world of narrows: a scenario in, a run out, in virtual time and the same bytes for the same seed.
//!
//! | module | holds |
//! |---|---|
//! | `ends` | what happens to one end of one flow |
//! | `medium` | what lies between the hosts: a path, or a Wi-Fi |
//! | `nic` | how segments leave the sender's host |
//! | [`packet`] | a packet in 32 bytes |
//! | [`timers`] | alarms, lazily re-armed |
//! | `record` | a run as a capture file |
//! | `post` | what an end gets and sends in a turn, flow by flow |
//! | `prefetch` | hints: what is needed next is fetched into the cache, flows lie on large pages |
//! | `turns` | the two ends of a path in turns, which is faster |
//! | `work` | flows with a workload: their connections come and go |
//! | `world` | the engine: network, flows, probes, samplers, and the order of their events |
//!
//! Nothing here knows the time of day: who wants to show progress gets a call every so many events and looks at a clock
//! itself.
#![deny(unsafe_code)]

mod ends;
mod flow;
mod medium;
mod nic;
pub mod packet;
mod post;
mod prefetch;
mod record;
mod rows;
pub mod timers;
mod turns;
mod work;
mod world;

pub use narrows_core::engine::Run;
pub use packet::Packet;
pub use work::MOST_OPEN;
pub use world::{run, run_recorded};

use narrows_core::figures::{figure_interval, picture_interval};
use narrows_core::scenario::Scenario;
use narrows_core::units::{format_span, Span, Time};
use std::fmt;

/// The most rows that a run may sample: some 300 MB.
pub const MOST_ROWS: u64 = 5_000_000;
/// The most seconds that the flows of a run may last, added up: figures keep 112 bytes of each, or up to twice that.
pub const MOST_FLOW_SECONDS: u64 = 5_000_000;
/// The least interval of samples.
pub const LEAST_INTERVAL: Span = Span::us(1);

/// How a scenario is run, beside what it says.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Options {
    /// From one sample to the next; `None` samples nothing. Figures do not depend on it.
    pub sample_interval: Option<Span>,
    /// So many dropped, marked and lost packets are told one by one, the rest is counted; 0 keeps none.
    pub verdicts: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sample_interval: Some(Span::ms(100)),
            verdicts: 0,
        }
    }
}

impl Options {
    /// A row for each sample of a figure, as tables have them unless something else is asked for.
    pub fn usual(scenario: &Scenario) -> Options {
        Options {
            sample_interval: Some(figure_interval(scenario.duration)),
            ..Options::default()
        }
    }
    /// Rows for pictures: 300 to 750 instants, at round intervals, fewer where a run has thousands of flows.
    pub fn pictures(scenario: &Scenario) -> Options {
        Options {
            sample_interval: Some(picture_interval(scenario.duration, scenario.flows.len(), MOST_ROWS)),
            ..Options::default()
        }
    }
}

/// How far a run is.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// Its end.
    pub end: Time,
    /// Events so far.
    pub events: u64,
}

/// Why there is no run.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SimError {
    /// The registry has no such congestion control.
    UnknownCc(String),
    /// The registry has no such queue discipline.
    UnknownQueue(String),
    /// No workload is called so.
    UnknownWorkload(String),
    /// Rows would be too many ([`MOST_ROWS`]) or too dense ([`LEAST_INTERVAL`]).
    IntervalTooShort {
        /// Of what: `"samples"` or `"pings"`.
        of: &'static str,
        /// The interval asked for.
        interval: Span,
        /// The least one that fits.
        at_least: Span,
    },
    /// Figures of so many flows over so long would not fit into memory ([`MOST_FLOW_SECONDS`]).
    TooLong {
        /// Seconds of all flows, added up.
        flow_seconds: u64,
    },
    /// The capture could not be written to its end.
    NotRecorded,
    /// The progress callback said so.
    Stopped,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::UnknownCc(name) => write!(f, "no congestion control is called \"{name}\""),
            SimError::UnknownQueue(name) => write!(f, "no queue discipline is called \"{name}\""),
            SimError::UnknownWorkload(name) => write!(f, "no workload is called \"{name}\""),
            SimError::IntervalTooShort { of, interval, at_least } => {
                let (interval, least) = (format_span(*interval), format_span(*at_least));
                write!(
                    f,
                    "an interval of \"{interval}\" between {of} is too short for this run; \"{least}\" fits"
                )
            }
            SimError::TooLong { flow_seconds } => write!(
                f,
                "the flows last {flow_seconds} s, added up; figures of {MOST_FLOW_SECONDS} s fit into memory: fewer flows, \
                 or a shorter duration"
            ),
            SimError::NotRecorded => write!(f, "the capture could not be written to its end: is the disk full?"),
            SimError::Stopped => write!(f, "the run was stopped"),
        }
    }
}

impl std::error::Error for SimError {}
