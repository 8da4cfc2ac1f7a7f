//! Messages that narrows and its peers exchange.

pub mod handshake;
pub mod iperf3;
pub mod tcp_info;
pub mod wire;
