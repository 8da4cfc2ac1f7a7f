//! Whole runs of the simulator.
//!
//! All files of this folder are one test program, because one program for each file took longer to
//! link than to run. `memory.rs` is a program of its own, because it replaces the allocator.

mod ack_filter;
mod bbr;
mod calls;
mod common;
mod ecn;
mod far_hosts;
mod flows;
mod golden;
mod hosts;
mod htb;
mod ip;
mod lookahead;
mod named_hosts;
mod pictures;
mod reference;
mod registration;
mod registration_queue;
mod signatures;
mod states;
mod summary;
mod timers;
mod topology;
mod traffic;
mod transport;
mod varying;
mod wifi;
mod wifi_dials;
mod wifi_wan;
mod workload;
mod world;

/// Fails if a file of this folder is not a module of this program, because it would not be
/// compiled.
#[test]
fn every_file_of_this_folder_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in folder.read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name
            .strip_suffix(".rs")
            .filter(|m| !["main", "memory"].contains(m))
        else {
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
