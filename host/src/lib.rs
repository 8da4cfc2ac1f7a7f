//! The live engine of narrows, on Linux: the scenario that `narrows-sim` runs in virtual time, over
//! real packets and this machine's own TCP, through the same network of `narrows-core`.
//!
//! | module | holds |
//! |---|---|
//! | [`live`] | the engine: a scenario in, a run out |
//! | [`ready`] | what this machine, this user and the scenario lack for it, with the cure |
//! | [`space`] | a host: a network namespace with one device |
//! | [`with`] | one program with another congestion control |
//! | [`notify`] | its calls of `socket`, answered here; unsafe code |
//! | [`netlink`] | the few messages that furnish it |
//! | [`emulator`] | real packets through the path of the core, in virtual time |
//! | [`packets`] | what the engine knows of its packets |
//! | [`frame`] | a real packet as the core sees it; super-packets cut and joined |
//! | [`traffic`] | flows: kernel sockets, and what TCP_INFO says of them |
//! | [`probe`] | pings and who answers them |
//! | [`instruments`] | how late, how wrong: the run's own error |
//! | [`machine`] | what this kernel is |
//! | [`record`] | the thread that writes a capture |
//! | [`doctor`] | what this machine can do for live runs, measured |
//! | [`clock`] | the run's time on the kernel's clock |
//! | [`shell`] | any program over the path |
//! | [`shell_command`] | its options |
//! | [`process`] | programs in namespaces of their own; unsafe code |
//! | [`serve`] | the far end of measurements |
//! | [`measure`] | the near end |
//! | [`latency`] | how long one answer takes, and whose delay it is |
//! | [`bulk`] | load over TCP, for both ends |
//! | [`tune`] | changing a host, and taking it back |
//! | [`wire`], [`iperf3`] | what the ends say to each other: ours, and iperf3's |
//! | [`row`] | a flow at one instant |
//! | [`bpf`] | programs for the kernel's own machine; unsafe code |
//! | [`schedule`] | how the kernel serves a thread; unsafe code |
//! | [`digest`] | proof of a token |
//! | [`remembered`] | what the kernel knows of a destination |
//! | [`socket`] | sockets of both families; unsafe code, too |
//! | [`strangers`] | every parser of what strangers send, in a row |
//! | [`terminal`] | messages without control characters |
//! | [`sys`] | calls of the kernel; the other unsafe code |
#![deny(unsafe_code)]
#![deny(clippy::print_stderr)]
#![cfg(target_os = "linux")]

pub mod bpf;
pub mod bulk;
pub mod clock;
pub mod digest;
pub mod doctor;
pub mod emulator;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod instruments;
pub mod iperf3;
pub mod latency;
pub mod live;
pub mod machine;
pub mod measure;
pub mod netlink;
pub mod notify;
pub mod packets;
pub mod probe;
pub mod process;
pub mod ready;
pub mod record;
pub mod remembered;
pub mod row;
pub mod schedule;
pub mod serve;
pub mod shell;
pub mod shell_command;
pub mod socket;
pub mod space;
pub mod strangers;
pub mod sys;
pub mod terminal;
pub mod traffic;
pub mod tune;
pub mod untrusted_input;
pub mod wire;
pub mod with;

pub use error::HostError;
pub use frame::Frame;
pub use live::run;
pub use narrows_core::engine::{Options, Progress};
