//! The characteristic behaviour of each congestion control, in a small scenario in which Reno
//! behaves differently.

mod bbr;
mod bbr2;
mod bbr3;
mod bic;
mod cdg;
mod compound;
mod copa;
mod cubic;
mod dctcp;
mod epochs;
mod highspeed;
mod htcp;
mod hybla;
mod illinois;
mod ledbat;
mod lp;
mod newreno;
mod nv;
mod prague;
mod remy;
mod scalable;
mod timely;
mod vegas;
mod veno;
mod westwood;
mod xcp;
mod yeah;

use crate::common;
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs a scenario that is given as TOML text.
fn run(text: &str) -> Run {
    let scenario = Scenario::from_toml(text, "signature", &common::registry())
        .unwrap_or_else(|e| panic!("{e}"));
    common::play(&scenario)
}
