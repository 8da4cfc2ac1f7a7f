//! quinn-proto 0.11.14, an earlier release with known faults, as a transport of narrows.
//!
//! The adapter is that of the present release.

#[path = "../../../quinn/src/end.rs"]
mod end;

use end::open;
use quinn_proto::PathStats;
use std::time::Duration;

narrows_endpoint::export! {
    { "quinn_0_11_14", "quinn-proto 0.11.14", "QUIC of quinn, earlier release",
      "cubic,newreno,bbr", narrows_endpoint::UDP_HEADERS, open }
}

/// This release does not report the minimum round-trip time.
fn min_rtt(_path: &PathStats) -> Duration {
    Duration::ZERO
}
