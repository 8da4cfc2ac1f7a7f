//! smoltcp 0.13.1, an earlier release with known faults, as a transport of narrows.
//!
//! The adapter is that of the present release.

#[path = "../../../smoltcp/src/end.rs"]
mod end;

use end::open;

narrows_endpoint::export! {
    { "smoltcp_0_13", "smoltcp 0.13.1", "TCP of smoltcp, earlier release",
      "cubic,reno,none", narrows_endpoint::ETHERNET_HEADER, open }
}
