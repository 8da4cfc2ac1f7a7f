//! The parts of narrows that access a Linux host: live runs, measurements between hosts, and
//! changes of settings. A live run executes a scenario with real packets and this kernel's TCP, and
//! not in virtual time. The packets pass the same emulated network of `narrows-core` as in the
//! simulator.
//!
//! | module | contents |
//! |---|---|
//! | [`emulator`] | live runs: the engine, its flows and pings, the shell, the checks before and after |
//! | [`netns`] | a host: a network namespace with one device |
//! | [`protocols`] | messages that narrows and its peers exchange |
//! | [`parsers`] | every parser of untrusted input, for fuzzing |
//! | [`plugins`] | queue disciplines of plugins in a live run |
//! | [`digest`] | SHA-256, HMAC and random numbers |
//! | [`measure`] | the client of a measurement, and its load |
//! | [`latency`] | response times of single requests, and the component that delays them |
//! | [`serve`] | the server of measurements |
//! | [`tune`] | changes of a host's settings, and their reversal |
//! | [`sys`] | system calls, netlink, BPF; the only unsafe code |
//! | [`arguments`] | command lines |
//! | [`tables`] | results as tables |
//! | [`terminal`] | messages in which control characters of untrusted text are escaped |
//! | [`untrusted_input`] | reads files from untrusted sources, with a limit of size |
//! | [`error`] | errors that prevent or end a run |
//!
//! Four features can be left out, for example on routers. `emulator` has live runs, plugins and
//! parsers for fuzzing, and `tls` has `https://` URLs. `transport` has load by narrows' own TCP
//! over UDP, and `quic` has load by QUIC.
//!
//! The interface of this crate is that of its program. Text from other hosts is escaped before the
//! program prints it:
//!
//! ```
//! let shown = narrows_host::terminal::printable("bbr\x1b[2J");
//! assert_eq!(shown, r"bbr\u001b[2J");
//! ```
#![deny(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]
#![deny(clippy::print_stderr)]
#![cfg(target_os = "linux")]

pub mod arguments;
pub mod digest;
#[cfg(feature = "emulator")]
pub mod emulator;
pub mod error;
pub mod latency;
pub mod measure;
#[cfg(feature = "emulator")]
pub mod netns;
#[cfg(feature = "emulator")]
pub mod parsers;
#[cfg(feature = "emulator")]
pub mod plugins;
pub mod protocols;
pub mod serve;
#[allow(unsafe_code)]
pub mod sys;
pub mod tables;
pub mod terminal;
pub mod tune;
pub mod untrusted_input;

#[cfg(feature = "emulator")]
pub use emulator::engine::run;
#[cfg(feature = "emulator")]
pub use emulator::frame::Frame;
pub use error::HostError;
pub use narrows_core::engine::{Options, Progress};
