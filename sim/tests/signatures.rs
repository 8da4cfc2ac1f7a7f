//! What each congestion control is famous for, in a small scenario in which Reno does something else.

mod common;

#[path = "signatures/cdg.rs"]
mod cdg;
#[path = "signatures/nv.rs"]
mod nv;

use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs a scenario that is written as people write them.
fn run(text: &str) -> Run {
    let scenario = Scenario::from_toml(text, "signature", &common::registry()).unwrap_or_else(|e| panic!("{e}"));
    common::play(&scenario)
}
