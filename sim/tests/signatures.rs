//! What each congestion control is famous for, beside Reno on the same path: small scenarios, seconds of virtual time.

mod common;

#[path = "signatures/bic.rs"]
mod bic;
#[path = "signatures/epochs.rs"]
mod epochs;
#[path = "signatures/highspeed.rs"]
mod highspeed;
#[path = "signatures/illinois.rs"]
mod illinois;
#[path = "signatures/scalable.rs"]
mod scalable;
