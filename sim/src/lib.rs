//! The simulator: it runs a scenario in virtual time. The same scenario and seed give the same
//! bytes.
//!
//! | module | contents |
//! |---|---|
//! | `error` | errors that prevent a run |
//! | `flow` | the state of one flow |
//! | `network` | the network between the simulated hosts |
//! | `nic` | transmission of segments through the sender's interface |
//! | `owners` | the connection of a workload to which a packet belongs |
//! | [`packet`] | a packet in 32 bytes |
//! | `packets` | fields of packets outside of their 32 bytes |
//! | [`timers`] | timers, in order of time |
//! | `post` | packets that the flows of one host receive and send in a turn |
//! | `prefetch` | hints that load the next data into the cache; large pages for flows |
//! | `work` | flows with a workload, whose connections begin and end |
//! | `world` | the event loop: network, flows, probes, samplers, and the order of their events |
//! | `world::ends` | one host of one flow |
//! | `world::turns` | simulation of the two hosts of a path in turns, which is faster |
//!
//! The simulator reads no clock. After every few events it calls its caller, which may show the
//! progress.
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
