//! What each congestion control is famous for, beside Reno on the same path: small scenarios, seconds of virtual time.

mod common;

#[path = "signatures/bbr2.rs"]
mod bbr2;
#[path = "signatures/bbr3.rs"]
mod bbr3;
