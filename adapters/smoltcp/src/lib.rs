//! smoltcp's TCP as a transport of narrows.

mod end;

use end::open;

narrows_endpoint::export! {
    { "smoltcp", "smoltcp 0.14.0", "TCP of smoltcp",
      "cubic,reno,none", narrows_endpoint::ETHERNET_HEADER, open }
}
