//! What each congestion control is famous for, beside Reno on the same path: small scenarios, seconds of virtual time.

mod common;

#[path = "signatures/vegas.rs"]
mod vegas;
#[path = "signatures/veno.rs"]
mod veno;
#[path = "signatures/yeah.rs"]
mod yeah;
