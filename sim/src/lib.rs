//! The simulator of narrows: it runs a scenario in virtual time. The same scenario and seed give
//! identical results.
//!
//! | module | contents |
//! |---|---|
//! | `world` | a run: construction, event loop, sampling |
//! | `datapath` | the way of a packet from sender to receiver and back, in the order of the file |
//! | `lookahead` | the two ends of the path, run window by window; this is faster |
//! | `application` | flows with an application: connections that open and close |
//! | `transport` | flows whose endpoints are those of a transport outside of narrows |
//! | `network` | the network between the simulated hosts |
//! | `device` | the network interface of the sending host |
//! | `flow` | one flow with both of its endpoints |
//! | `steering` | control of one flow from outside of the run |
//! | `observer` | arrivals, and contents of packets under way |
//! | `owners` | to which flow a packet of an application belongs |
//! | [`packet`] | a packet in 32 bytes |
//! | [`timers`] | numbered timers that are cheap to move |
//! | `prefetch` | hints to the processor and the kernel about memory |
//! | `error` | errors and limits of a run |
//!
//! The simulator does not read a clock. To show progress, a driver passes a callback, which is
//! called at intervals of some milliseconds of real time.
//!
//! ```
//! use narrows_core::registry::Registry;
//! use narrows_core::scenario::{Scenario, Tree};
//!
//! let text = r#"
//! duration = "5s"
//! path = { rate = "10Mbit", rtt = "20ms", buffer = "1bdp" }
//! flow = [{ cc = "cubic" }]
//! "#;
//! let registry = Registry::standard();
//! let files = |name: &str| std::fs::read_to_string(name).map_err(|e| e.to_string());
//! let tree = Tree::from_toml(text, "example").unwrap();
//! let scenario = Scenario::from_tree(&tree, "example", Some(text), &registry, &files).unwrap();
//!
//! let run = narrows_sim::run(&scenario, &registry, &Default::default(), &mut |_| true).unwrap();
//! assert!(run.flows[0].goodput_mbit > 9.0);
//! ```
#![deny(unsafe_code)]

mod application;
mod datapath;
mod device;
mod error;
mod flow;
mod lookahead;
mod network;
mod observer;
mod owners;
pub mod packet;
mod prefetch;
mod steering;
pub mod timers;
mod transport;
mod world;

pub use error::{LEAST_INTERVAL, MOST_FLOW_SECONDS, SimError};
pub use narrows_core::engine::{MOST_ROWS, Options, Progress, Run};
pub use owners::MOST_OPEN;
pub use packet::Packet;
pub use world::{Observation, Stepping, Streaming, run, run_recorded};
