//! Writes the fingerprint of the interface of models, which plugins are compared by.
//!
//! Rust has no stable ABI. A plugin fits if it was built by the same compiler from the same
//! declarations of the types that it shares with narrows.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the types and traits that a plugin and narrows share.
const SOURCES: &[&str] = &[
    "src/cc/mod.rs",
    "src/queue/mod.rs",
    "src/packet.rs",
    "src/param.rs",
    "src/kernel",
    "src/transport",
    "src/units",
];

fn files(place: &Path, found: &mut Vec<PathBuf>) {
    match std::fs::read_dir(place) {
        Ok(entries) => entries
            .flatten()
            .for_each(|entry| files(&entry.path(), found)),
        Err(_) => found.push(place.into()),
    }
}

fn main() {
    let mut found = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        files(Path::new(source), &mut found);
    }
    found.sort();
    // FNV-1a: 64 bits suffice to detect a change.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in found {
        let text = std::fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        for byte in text {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("-V").output();
    let version = version.map_or_else(
        |_| "an unknown rustc".into(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    );
    println!("cargo::rustc-env=NARROWS_INTERFACE={hash:016x}, {version}");
}
