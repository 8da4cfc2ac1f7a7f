//! The laws of narrows.
//!
//! Everything between an application and the wire is a fold: (parameters, seed, events) → state.
//! What lives here is told the time (`now` is an argument), never asks for it, does no I/O and
//! draws randomness only from a seed it was given. Engines (`narrows-sim` in virtual time,
//! `narrows-host` over real packets) own the clock and move the packets.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | `Time`, `Span`, `Bytes`, `Rate`, `Gain`: only physics compiles |
//! | [`param`] | parameters, declared once: name, unit, default, range, help, source |
//! | [`registry`] | congestion controls and queue disciplines by name; open to other crates |
//! | [`rng`] | randomness from a named seed |
//! | [`packet`] | what a queue may see of a packet |
//! | [`kernel`] | which Linux a host is: dated rules |
//! | [`transport`] | types that congestion controls, queue disciplines and TCP share |
//! | [`cc`] | congestion controls, one file each |
//! | [`queue`] | queue disciplines, one file each |
//! | [`host`] | what a packet meets before it leaves its own host |
//! | [`net`] | what lies between hosts |
//! | [`tcp`] | Linux's sender and receiver |
//! | [`workload`] | what applications do: pages, video, calls, transfers |
//! | [`scenario`] | the scenario format: the only parser, its errors, its defaults |
//! | [`windowed`] | the best value of a sliding window |
//! | [`capture`] | a run as a pcapng file |
//! | [`figures`] | goodput, percentiles, Jain: computed here once for every engine |
//! | [`engine`] | what every engine shares: the result of a run |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod capture;
pub mod cc;
pub mod engine;
pub mod figures;
pub mod host;
pub mod kernel;
pub mod net;
pub mod packet;
pub mod param;
pub mod queue;
pub mod registry;
pub mod rng;
pub mod scenario;
pub mod tcp;
pub mod transport;
pub mod units;
pub mod windowed;
pub mod workload;
