//! The commands of the page. A run that is advanced in slices must have the same results as an
//! undivided run.

#[path = "../../sim/tests/common/counting.rs"]
mod counting;

use counting::{Counting, counts};
use narrows_core::engine::Options;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_lab::{Session, answer};
use narrows_sim::Packet;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TEXT: &str = r#"
duration = "4s"
[path]
rate   = "20Mbit"
rtt    = "40ms"
buffer = "0.5bdp"
[[flow]]
cc = "bbr"
[[flow]]
cc = "cubic"
[[probe]]
kind = "ping"
"#;

/// The JSON of an answer, and the rows of each column by table and name.
fn call(session: &mut Session, command: &Value) -> (Value, Vec<(String, Vec<f64>)>) {
    let bytes = answer(session, command.to_string().as_bytes());
    let len = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let json: Value = serde_json::from_slice(&bytes[4..4 + len]).unwrap();
    let mut numbers = bytes[(4 + len).next_multiple_of(8)..]
        .chunks_exact(8)
        .map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap()));
    let columns = json["columns"].as_array().unwrap().iter().map(|head| {
        let name = format!("{}.{}", head["table"], head["name"]).replace('"', "");
        let rows = head["rows"].as_u64().unwrap() as usize;
        (name, numbers.by_ref().take(rows).collect())
    });
    let columns = columns.collect();
    (json, columns)
}

fn rows(columns: &[(String, Vec<f64>)], name: &str) -> Vec<f64> {
    let found = columns.iter().find(|(n, _)| n == name);
    found.map(|(_, rows)| rows.clone()).unwrap_or_default()
}

#[test]
fn slices_change_neither_the_metrics_nor_the_rows() {
    let registry = Registry::<Packet>::standard();
    let scenario = Scenario::from_toml(TEXT, "scenario.toml", &registry).unwrap();
    let whole = narrows_sim::run(
        &scenario,
        &registry,
        &Options::pictures(&scenario),
        &mut |_| true,
    )
    .unwrap();
    let written = serde_json::to_value(whole.scenario.to_tree()).unwrap();
    let expected = whole.to_json(env!("CARGO_PKG_VERSION"), &written, None);

    let mut session = Session::default();
    let (names, _) = call(&mut session, &json!({ "op": "start", "text": TEXT }));
    assert_eq!(names["flows"].as_array().map(Vec::len), Some(2));
    let (mut times, mut goodput) = (Vec::new(), Vec::new());
    loop {
        let command = json!({ "op": "advance", "slice_s": 0.317 });
        let (progress, columns) = call(&mut session, &command);
        times.extend(rows(&columns, "flows.t_s"));
        goodput.extend(rows(&columns, "flows.goodput_mbit"));
        if progress["finished"] == true {
            break;
        }
    }
    let (last, columns) = call(&mut session, &json!({ "op": "finish" }));
    times.extend(rows(&columns, "flows.t_s"));
    assert_eq!(last["run"], expected);
    assert_eq!(times, whole.samples.flows.t_s);
    assert_eq!(goodput.len(), times.len());
    assert!(!rows(&columns, "pings.rtt_ms").is_empty());
}

#[test]
fn the_packets_of_a_window_leave_the_queue_after_they_enter_it() {
    let mut session = Session::default();
    call(&mut session, &json!({ "op": "start", "text": TEXT }));
    call(&mut session, &json!({ "op": "advance", "slice_s": 1.0 }));
    let window = json!({ "op": "window", "trace": { "from_s": 1.0, "until_s": 1.5 } });
    call(&mut session, &window);
    call(&mut session, &json!({ "op": "advance", "slice_s": 0.5 }));
    let (_, columns) = call(&mut session, &json!({ "op": "trace" }));
    let (t, entered) = (
        rows(&columns, "packets.t_s"),
        rows(&columns, "packets.entered_s"),
    );
    let event = rows(&columns, "packets.event");
    let departs = (0..t.len()).filter(|i| event[*i] == 4.0);
    let mut count = 0;
    for i in departs {
        assert!((1.0..1.5).contains(&t[i]) && entered[i] <= t[i]);
        count += 1;
    }
    // A link of 20 Mbit/s transmits about 826 full frames in 0.5 s.
    assert!((600..1000).contains(&count), "{count}");
}

#[test]
fn errors_have_their_line_and_the_text_of_the_engine() {
    let text = TEXT.replace("rtt    = \"40ms\"", "rtt    = 40");
    let (json, _) = call(
        &mut Session::default(),
        &json!({ "op": "check", "text": text }),
    );
    assert_eq!(json["errors"][0]["line"], 5);
    let shown = json["errors"][0]["text"].as_str().unwrap();
    assert!(
        shown.starts_with("scenario.toml:5: path.rtt = 40"),
        "{shown}"
    );
    let (json, _) = call(&mut Session::default(), &json!({ "op": "advance" }));
    assert_eq!(json["error"], "no run was started");
}

#[test]
fn seeds_spread_the_starts_of_flows_as_replications_do() {
    let start = |text: &str, seed: Option<u64>| {
        let mut session = Session::default();
        let command = json!({ "op": "start", "text": text, "files": {}, "seed": seed });
        call(&mut session, &command);
        let (end, _) = call(&mut session, &json!({ "op": "finish" }));
        let run: Value = serde_json::from_str(end["run"].as_str().unwrap()).unwrap();
        run["scenario"]["start_jitter"].clone()
    };
    // An eighth of 4 s; without a seed, the default of one RTT.
    assert_eq!(start(TEXT, Some(1)), "500ms");
    assert_eq!(start(TEXT, None), "40ms");
    let own = format!("start_jitter = \"10ms\"\n{TEXT}");
    assert_eq!(start(&own, Some(1)), "10ms");
    // At most the warm-up.
    let warm = format!("warmup = \"100ms\"\n{TEXT}");
    assert_eq!(start(&warm, Some(1)), "100ms");
}

/// The memory of a WebAssembly module never shrinks, so a leak must be found here.
#[test]
fn every_run_frees_its_memory() {
    let registry = Registry::<Packet>::standard();
    // Only the queue xcp has the routers of the congestion control xcp.
    let of_cc = registry.ccs().iter().filter(|cc| cc.name != "xcp");
    let of_cc = of_cc.map(|cc| ("fifo", cc.name));
    let of_queue = registry.queues().iter().map(|queue| (queue.name, "cubic"));
    let mut session = Session::default();
    let mut run = |queue: &str, cc: &str| {
        let keys = format!("loss = \"1%\"\nqueue = \"{queue}\"\nrtt ");
        let text = TEXT.replace("\"bbr\"", &format!("\"{cc}\""));
        let text = text.replace("rtt ", &keys);
        for end in ["finish", "trace"] {
            let (started, _) = call(&mut session, &json!({ "op": "start", "text": text }));
            assert!(started["errors"].is_null(), "{started}");
            call(&mut session, &json!({ "op": "window", "trace": {} }));
            call(&mut session, &json!({ "op": "advance", "slice_s": 0.5 }));
            call(&mut session, &json!({ "op": end }));
        }
        session = Session::default();
    };
    // The first run creates what lasts as long as the program.
    run("fifo", "cubic");
    for (queue, cc) in of_cc.chain(of_queue) {
        let before = counts().live;
        run(queue, cc);
        assert_eq!(counts().live, before, "bytes in use after {queue} and {cc}");
    }
}
