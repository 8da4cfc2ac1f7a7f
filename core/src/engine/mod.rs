//! Types and functions that all engines share: the simulator, the live engine, and any other.
//!
//! An engine moves the packets of a scenario's flows and probes between its hosts. It needs three
//! parts:
//!
//! - **time**: the engine passes `now` with every call, and reads the time of the next call;
//! - a **[`Network`]**, built from the scenario, which packets enter and leave;
//! - an **[`Observer`]** of that network, which meters its queues and records packets. The engine
//!   describes its own packets to the observer by implementing [`Packets`].
//!
//! The engine drives the hosts itself, meters each flow with a
//! [`FlowMeter`](crate::metrics::FlowMeter) and each probe with a
//! [`ProbeMeter`](crate::metrics::ProbeMeter), and returns a [`Run`].
//!
//! | file | contents |
//! |---|---|
//! | `flow` | place and time at which the data of a flow enters the network |
//! | `network` | [`Network`]: a path between two hosts, or a Wi-Fi |
//! | `observer` | [`Observer`]: meters of queues, drops and marks |
//! | `options` | [`Options`], [`Progress`], and limits of the samples of a run |
//! | `packet_trace` | [`PacketTrace`]: packets of a part of a run, for animations |
//! | `packets` | [`Packets`]: the packets of an engine |
//! | `recorder` | [`Recorder`]: a run as a capture file |
//! | `rows` | [`rows`]: a run as rows of a table, one for each flow |
//! | `run` | [`Run`]: the result of a run, and its JSON document |

mod flow;
mod network;
mod observer;
mod options;
mod packet_trace;
mod packets;
mod probe;
mod recorder;
mod rows;
mod run;

pub use flow::{access_delays, sender_port, start};
pub use network::{Network, Stations, UnknownQueue};
pub use observer::Observer;
pub use options::{MOST_ROWS, Options, Progress, TooShort, check_rows};
pub use packet_trace::{PacketTrace, TraceEvent};
pub use packets::Packets;
pub use probe::Departures;
pub use recorder::Recorder;
pub use rows::{Cell, Transfer, columns, is_of_run, rows};
pub use run::{Outcome, Run, path_metrics, probe_metrics};
