//! What each congestion control is famous for, beside Reno on the same path: small scenarios, seconds of virtual time.

mod common;

#[path = "signatures/htcp.rs"]
mod htcp;
#[path = "signatures/hybla.rs"]
mod hybla;
#[path = "signatures/newreno.rs"]
mod newreno;
#[path = "signatures/westwood.rs"]
mod westwood;
