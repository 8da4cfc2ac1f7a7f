//! What each congestion control is famous for, in a small scenario in which Reno does something else.

mod common;

#[path = "signatures/bbr.rs"]
mod bbr;
#[path = "signatures/bbr2.rs"]
mod bbr2;
#[path = "signatures/bbr3.rs"]
mod bbr3;
#[path = "signatures/bic.rs"]
mod bic;
#[path = "signatures/cdg.rs"]
mod cdg;
#[path = "signatures/compound.rs"]
mod compound;
#[path = "signatures/copa.rs"]
mod copa;
#[path = "signatures/cubic.rs"]
mod cubic;
#[path = "signatures/dctcp.rs"]
mod dctcp;
#[path = "signatures/epochs.rs"]
mod epochs;
#[path = "signatures/highspeed.rs"]
mod highspeed;
#[path = "signatures/htcp.rs"]
mod htcp;
#[path = "signatures/hybla.rs"]
mod hybla;
#[path = "signatures/illinois.rs"]
mod illinois;
#[path = "signatures/ledbat.rs"]
mod ledbat;
#[path = "signatures/lp.rs"]
mod lp;
#[path = "signatures/newreno.rs"]
mod newreno;
#[path = "signatures/nv.rs"]
mod nv;
#[path = "signatures/prague.rs"]
mod prague;
#[path = "signatures/remy.rs"]
mod remy;
#[path = "signatures/scalable.rs"]
mod scalable;
#[path = "signatures/timely.rs"]
mod timely;
#[path = "signatures/vegas.rs"]
mod vegas;
#[path = "signatures/veno.rs"]
mod veno;
#[path = "signatures/westwood.rs"]
mod westwood;
#[path = "signatures/xcp.rs"]
mod xcp;
#[path = "signatures/yeah.rs"]
mod yeah;

use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs a scenario that is written as people write them.
fn run(text: &str) -> Run {
    let scenario = Scenario::from_toml(text, "signature", &common::registry()).unwrap_or_else(|e| panic!("{e}"));
    common::play(&scenario)
}
