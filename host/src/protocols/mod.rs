//! Messages that narrows and its peers exchange.
//!
//! | module | contents |
//! |---|---|
//! | [`handshake`] | proof that both ends know the same token |
//! | [`wire`] | messages of control connections, and datagrams of pings |
//! | [`tcp_info`] | the state of a flow at one time, as samples contain it |
//! | [`iperf3`] | messages of iperf3 |

pub mod handshake;
pub mod iperf3;
pub mod tcp_info;
pub mod wire;
