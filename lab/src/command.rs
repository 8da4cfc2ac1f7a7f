//! The commands that the web page of the lab sends, in JSON, and their answers.
//!
//! | `op` | other keys | answer |
//! |---|---|---|
//! | `list` | – | `version`, and `list`: the models and keys with their parameters and help |
//! | `check` | `text`, `files` | the scenario as written and with every default, notices, the path |
//! | `start` | `text`, `files`, `seed` | a new run at time zero: names, intervals |
//! | `advance` | `slice_s` | the rows since the last answer, `now_s`, `finished` |
//! | `finish` | – | the rest of the rows, and `run`: the metrics as `narrows run --json` |
//! | `window` | `trace` | the packets from `from_s` until `until_s` of `trace` are kept |
//! | `trace` | – | these packets so far |

use crate::columns::Columns;
use crate::session::Session;
use narrows_core::engine::path_metrics;
use narrows_core::net::path::hop_names;
use narrows_core::net::spec::{HopSpec, PathSpec};
use narrows_core::registry::Registry;
use narrows_core::scenario::list::describe_json;
use narrows_core::scenario::value::Tree;
use narrows_core::scenario::{Direction, Errors, Scenario};
use narrows_core::units::Span;
use narrows_sim::Packet;
use serde_json::{Value, json};

/// The file name that errors state for the scenario.
const NAME: &str = "scenario.toml";

/// Executes a command in JSON, and returns the bytes of its answer.
pub fn answer(session: &mut Session, command: &[u8]) -> Vec<u8> {
    let mut columns = Columns::default();
    let answer = match serde_json::from_slice::<Value>(command) {
        Ok(command) => execute(session, &command, &mut columns),
        Err(error) => Err(failure(format!("the command is not JSON: {error}"))),
    };
    columns.behind(answer.unwrap_or_else(|error| error))
}

/// The answer `{"error": …}` for an error that is not in a scenario.
fn failure(error: impl ToString) -> Value {
    json!({ "error": error.to_string() })
}

fn execute(session: &mut Session, command: &Value, columns: &mut Columns) -> Result<Value, Value> {
    let registry = Registry::<Packet>::standard();
    match command["op"].as_str().unwrap_or_default() {
        "list" => {
            let list = describe_json(&registry, &[]);
            let list: Value = serde_json::from_str(&list).map_err(failure)?;
            Ok(json!({ "version": env!("CARGO_PKG_VERSION"), "list": list }))
        }
        "check" => {
            let (tree, scenario) = read(command, &registry)?;
            Ok(described(&tree, &scenario, &registry))
        }
        "start" => {
            let (tree, mut scenario) = read(command, &registry)?;
            if let Some(seed) = command["seed"].as_u64() {
                replicate(&tree, &mut scenario, seed);
            }
            session.start(scenario, &registry).map_err(failure)
        }
        "advance" => {
            let slice_s = command["slice_s"].as_f64().unwrap_or(1.0);
            session.advance(slice_s, columns).map_err(failure)
        }
        "finish" => session.finish(&registry, columns).map_err(failure),
        "window" => session.window(&command["trace"]).map_err(failure),
        "trace" => session.trace(columns).map_err(failure),
        other => Err(failure(format!("no command is called {other:?}"))),
    }
}

/// Reads the scenario in the keys `text` and `files` of a command.
fn read(command: &Value, registry: &Registry<Packet>) -> Result<(Tree, Scenario), Value> {
    let text = command["text"].as_str().unwrap_or_default();
    let mut tree = Tree::from_toml(text, NAME).map_err(|errors| refused(&errors))?;
    let files = |name: &str| {
        let text = command["files"][name].as_str();
        text.map(String::from)
            .ok_or_else(|| "is not loaded in the lab".to_owned())
    };
    let scenario = Scenario::from_tree(&tree, NAME, Some(text), registry, &files)
        .map_err(|errors| refused(&errors))?;
    tree.migrate();
    Ok((tree, scenario))
}

/// Makes a scenario one of several replications, as `narrows run --seeds` does. Unless the scenario
/// sets `start_jitter`, this jitter is an eighth of the time from the last `start` to the end. Its
/// maximum is the smaller of 5 s and the warm-up.
fn replicate(tree: &Tree, scenario: &mut Scenario, seed: u64) {
    scenario.seed = seed;
    if tree.root.get("start_jitter").is_some() {
        return;
    }
    let Some(latest) = scenario.flows.iter().map(|flow| flow.start.as_ns()).max() else {
        return;
    };
    let part = scenario.duration.as_ns().saturating_sub(latest) / 8;
    let wide = Span::ns(part).min(Span::s(5)).min(scenario.warmup);
    scenario.start_jitter = scenario.start_jitter.max(wide);
}

/// The answer `{"errors": […]}` with each error of a scenario.
fn refused(errors: &Errors) -> Value {
    let list = errors.list().iter().map(|error| {
        json!({
            "line": error.line,
            "column": error.column,
            "key": error.key,
            "fix": error.fix,
            "text": error.to_string(),
        })
    });
    json!({ "errors": list.collect::<Vec<_>>() })
}

/// The answer that describes a valid scenario, for the controls and the drawing of the page.
fn described(tree: &Tree, scenario: &Scenario, registry: &Registry<Packet>) -> Value {
    let full = serde_json::to_value(scenario.to_tree()).unwrap_or_default();
    let flows = scenario.flows.iter().map(|flow| {
        json!({
            "id": flow.id,
            "cc": flow.has_cc().then_some(&flow.cc.kind),
            "up": flow.direction == Direction::Up,
        })
    });
    json!({
        "tree": serde_json::to_value(tree).unwrap_or_default(),
        "full": full,
        "notices": scenario.notices(registry),
        "path": serde_json::to_value(path_metrics(scenario)).unwrap_or_default(),
        "title": scenario.title,
        "duration_s": scenario.duration.as_s(),
        "warmup_s": scenario.warmup.as_s(),
        "seed": scenario.seed,
        "flows": flows.collect::<Vec<_>>(),
        "probes": scenario.probes.len(),
        "hops": hops(scenario),
    })
}

/// The hops of the path in the order of their numbers, forward hops first. A Wi-Fi scenario has the
/// levels of its queueing stack, then the hops of the path before the access point.
fn hops(scenario: &Scenario) -> Value {
    let Some(wifi) = &scenario.wifi else {
        return Value::Array(hops_of(&scenario.path));
    };
    let levels = wifi.stack.levels().into_iter();
    let mut hops: Vec<Value> = levels
        .map(|name| json!({ "name": name, "wifi": true }))
        .collect();
    hops.extend(wifi.wan.iter().flat_map(|path| hops_of(path)));
    Value::Array(hops)
}

fn hops_of(path: &PathSpec) -> Vec<Value> {
    let specs = path.hops.iter().chain(&path.reverse);
    let hops = specs
        .zip(hop_names(path))
        .zip(0..)
        .map(|((hop, name), number)| {
            json!({
                "name": name,
                "queue": hop.queue.kind,
                "reverse": number >= path.hops.len(),
                "rate_mbit": HopSpec::target(hop).as_mbit(),
                "delay_s": hop.delay_forward.as_s(),
                "back_s": (hop.rtt - hop.delay_forward).as_s(),
            })
        });
    hops.collect()
}
