//! The QUIC implementation quinn-proto as a transport of narrows.

mod end;

use end::open;
use quinn_proto::PathStats;
use std::time::Duration;

narrows_endpoint::export! {
    { "quinn", "quinn-proto 0.11.19", "QUIC of quinn",
      "cubic,newreno,bbr", narrows_endpoint::UDP_HEADERS, open }
}

/// The minimum round-trip time that quinn reports.
fn min_rtt(path: &PathStats) -> Duration {
    path.min_rtt
}
