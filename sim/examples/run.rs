//! A minimal driver: `cargo run --release --example run -- FILE.toml [SEED]` prints the run as
//! JSON. It is for profilers and hosts without Python; users run `narrows run`.

use narrows_core::registry::Registry;
use narrows_core::scenario::{Scenario, Tree};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(file) = args.next() else {
        eprintln!("usage: run FILE.toml [SEED]");
        return ExitCode::from(2);
    };
    match run(&file, args.next()) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run(file: &str, seed: Option<String>) -> Result<String, String> {
    let registry = Registry::standard();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let files = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|e| e.to_string());
    let tree = Tree::from_toml(&text, file).map_err(|e| e.to_string())?;
    let mut scenario = Scenario::from_tree(&tree, file, Some(&text), &registry, &files)
        .map_err(|e| e.to_string())?;
    if let Some(seed) = seed {
        scenario.seed = seed
            .parse()
            .map_err(|_| format!("{seed}: a seed is a whole number"))?;
    }
    let run = narrows_sim::run(&scenario, &registry, &Default::default(), &mut |_| true)
        .map_err(|e| e.to_string())?;
    let scenario = serde_json::from_str(&scenario.to_json()).map_err(|e| e.to_string())?;
    Ok(run.to_json(env!("CARGO_PKG_VERSION"), &scenario, None))
}
