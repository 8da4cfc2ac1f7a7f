//! Messages that narrows and its peers exchange.

pub mod digest;
pub mod handshake;
pub mod iperf3;
pub mod parsers;
pub mod tcp_info;
pub mod wire;
