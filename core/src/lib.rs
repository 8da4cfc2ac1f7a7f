//! The deterministic models of narrows: congestion controls, queue disciplines, links, TCP and
//! workloads.
//!
//! Every model is a state machine: parameters, a seed and a sequence of events determine its state.
//! Callers pass the current time as the argument `now`. No model reads a clock, performs I/O or
//! draws random numbers from any source but its seed. Engines (`narrows-sim` in virtual time,
//! `narrows-host` with real packets) own the clock and move the packets.
//!
//! | module | contents |
//! |---|---|
//! | [`units`] | `Time`, `Span`, `Bytes`, `Rate`, `Gain`: arithmetic with checked dimensions |
//! | [`param`] | parameter tables: name, kind with default and range, help, source |
//! | [`registry`] | congestion controls and queue disciplines by name; other crates may add to it |
//! | [`prefetch`] | the memory that an endpoint reads next, for drivers of many flows to prefetch |
//! | [`rng`] | random numbers from a named seed |
//! | [`packet`] | the fields of a packet that queue disciplines and links read |
//! | [`kernel`] | the Linux release that a host runs: rules with the release that introduced them |
//! | [`transport`] | types that congestion controls, queue disciplines and TCP share |
//! | [`cc`] | congestion controls, one file each |
//! | [`queue`] | queue disciplines, one file each |
//! | [`host`] | the sending host below TCP: queue discipline, byte queue limits, device ring |
//! | [`net`] | hops, links, loss, delay and Wi-Fi between hosts |
//! | [`tcp`] | TCP sender and receiver as in Linux |
//! | [`workload`] | applications: pages, video, calls, transfers |
//! | [`scenario`] | the scenario format: its only parser, its errors, its defaults |
//! | [`text`] | which characters of untrusted text could control a terminal |
//! | [`windowed`] | the minimum or maximum of a sliding window |
//! | [`capture`] | a run as a pcapng file |
//! | [`metrics`] | metrics that every engine reports: goodput, percentiles, Jain's index |
//! | [`tune`] | audits of a Linux host, and plans to change it |
//! | [`engine`] | the network, options and results that every engine shares |
//!
//! Units are types. The bandwidth-delay product of 20 Mbit/s and 40 ms has 100 kB:
//!
//! ```
//! use narrows_core::units::{Bytes, Rate, Span};
//! assert_eq!(Rate::mbit(20) * Span::ms(40), Bytes::new(100_000));
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

/// The fingerprint of the Rust interface between narrows and model plugins. The fingerprint
/// consists of a hash of the source files that declare the interface, and the version of the
/// compiler. A plugin can be loaded only if it was built with the same fingerprint.
pub const INTERFACE: &str = env!("NARROWS_INTERFACE");

pub mod capture;
pub mod cc;
pub mod engine;
pub mod host;
pub mod kernel;
pub mod metrics;
pub mod net;
pub mod packet;
pub mod param;
pub mod prefetch;
pub mod queue;
pub mod registry;
pub mod rng;
pub mod scenario;
pub mod tcp;
pub mod text;
pub mod transport;
pub mod tune;
pub mod units;
pub mod windowed;
pub mod workload;
