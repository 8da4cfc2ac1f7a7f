//! The tests of the core's public interface: algorithms one by one, replayed recordings,
//! properties.
//!
//! One program for all files of this folder: with a program each, linking took longer than the
//! tests.

mod bbr;
mod cc_properties;
mod codel;
mod common;
mod engine;
mod fq;
#[path = "common/frame.rs"]
mod frame;
mod jitter;
mod loss;
#[path = "common/medium.rs"]
mod medium;
mod metrics;
mod pair;
mod path;
mod path_errors;
mod policer;
mod queue_cake;
mod queue_dualpi2;
mod queue_htb;
mod queue_htb_words;
mod queue_pie;
mod queue_properties;
mod queue_red;
mod queue_replay;
mod queue_sfb;
mod queue_words;
mod rate_schedule;
mod receiver_properties;
mod remy;
mod replay;
mod response;
mod scenario_errors;
mod scenario_kernels;
mod scenario_links;
mod scenario_needs;
mod scenario_parse;
mod scenario_properties;
mod scenario_shipped;
mod scenario_wifi;
mod scoreboard_properties;
mod sender_properties;
mod tcp;
mod topology;
#[path = "common/trace.rs"]
mod trace;
mod units_text;
mod varying;
mod wifi_medium;
mod wifi_properties;

/// A file that is not a module of this program would be compiled by nobody.
#[test]
fn every_file_of_this_folder_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in folder.read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|m| !["main"].contains(m)) else {
            continue;
        };
        let declared = include_str!("main.rs")
            .lines()
            .any(|line| line == format!("mod {module};"));
        assert!(
            declared,
            "tests/{name} is in no test program: add `mod {module};` to tests/main.rs"
        );
    }
}
