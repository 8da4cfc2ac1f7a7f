//! What narrows and its peers send each other.
//!
//! | module | holds |
//! |---|---|
//! | [`handshake`], [`digest`] | proof of a shared token between two ends; SHA-256, HMAC, random numbers |
//! | [`wire`] | messages of control connections, and datagrams of pings |
//! | [`tcp_info`] | the state of a flow at one instant, as samples carry it |
//! | [`iperf3`] | the messages of iperf3 |
//! | [`parsers`] | every parser of untrusted input, for fuzzing |

pub mod digest;
pub mod handshake;
pub mod iperf3;
pub mod parsers;
pub mod tcp_info;
pub mod wire;
