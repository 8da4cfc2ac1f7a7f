//! What each congestion control is famous for, beside Reno on the same path: small scenarios, seconds of virtual time.

mod common;

#[path = "signatures/remy.rs"]
mod remy;
#[path = "signatures/xcp.rs"]
mod xcp;
