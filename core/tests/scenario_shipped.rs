//! The scenarios of narrows: every one is valid, states its question, and has a result to check.

use crate::common::registry;
use narrows_core::scenario::{Scenario, Tree};
use std::fs;
use std::path::{Path, PathBuf};

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_scenario_is_valid_and_has_a_question() {
    let mut found = Vec::new();
    files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios"),
        &mut found,
    );
    found.sort();
    assert!(found.len() >= 4, "{found:?}");
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let tree = Tree::from_toml(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        let beside =
            |file: &str| fs::read_to_string(path.with_file_name(file)).map_err(|e| e.to_string());
        let scenario = Scenario::from_tree(&tree, &name, Some(&text), &registry(), &beside);
        let scenario = scenario.unwrap_or_else(|e| panic!("{e}"));
        assert!(!scenario.title.is_empty(), "{name}");
        let first = text.lines().next().unwrap_or("");
        assert!(
            first.starts_with("# ") && first.ends_with('?'),
            "{name}: the first line is the question"
        );
    }
}
