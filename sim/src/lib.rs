//! The virtual world of narrows: a scenario in, a run out, in virtual time and the same bytes for
//! the same seed.
//!
//! | module | holds |
//! |---|---|
//! | `error` | why there is no run |
//! | `flow` | one flow, as the engine keeps it |
//! | `network` | the network between the simulated hosts |
//! | `nic` | how segments leave the sender's host |
//! | `owners` | to which flow a packet of a workload belongs |
//! | [`packet`] | a packet in 32 bytes |
//! | `packets` | what packets carry and have no room for |
//! | [`timers`] | alarms, lazily re-armed |
//! | `post` | what an end gets and sends in a turn, flow by flow |
//! | `prefetch` | hints: what is needed next is fetched into the cache, flows lie on large pages |
//! | `work` | flows with a workload: their connections come and go |
//! | `world` | the engine: network, flows, probes, samplers, and the order of their events; `ends`: one end of one flow;
//! |  | `turns`: the two ends of a path in turns, which is faster |
//!
//! Nothing here knows the time of day: who wants to show progress gets a call every so many events
//! and looks at a clock itself.
#![deny(unsafe_code)]

mod error;
mod flow;
mod network;
mod nic;
mod owners;
pub mod packet;
mod packets;
mod post;
mod prefetch;
pub mod timers;
mod work;
mod world;

pub use error::{LEAST_INTERVAL, MOST_FLOW_SECONDS, SimError};
pub use narrows_core::engine::{MOST_ROWS, Options, Progress, Run};
pub use owners::MOST_OPEN;
pub use packet::Packet;
pub use world::{run, run_recorded};
