//! Golden tables: the simulator's results for six questions, stored as text. This test compares
//! them with the results of new runs.
//!
//! | table | question |
//! |---|---|
//! | `golden/buffer.txt` | how large should a buffer be? |
//! | `golden/rate_rtt.txt` | does CUBIC fill a path, whatever its rate and RTT? |
//! | `golden/loss.txt` | how much random loss does each bear? |
//! | `golden/cc.txt` | what does each congestion control get, alone and beside CUBIC? |
//! | `golden/queue.txt` | what does each queue discipline make of a standing queue? |
//! | `golden/wifi.txt` | what does one slow station cost two fast ones, with each stack? |
//!
//! A table that changes is a result that changes: say so in the CHANGELOG.

use crate::common::{json, play, registry};
use narrows_core::cc::Need;
use narrows_core::param::{Params, Value};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;
use std::fmt::Write;
use std::path::PathBuf;

fn scenario(rate: &str, rtt: &str, buffer: &str, loss: &str, cc: &str, flows: u32) -> Scenario {
    let text = format!(
        "duration = \"30s\"\n[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\nbuffer = \
         \"{buffer}\"\nloss = \"{loss}\"\n\
         [[flow]]\ncc = \"{cc}\"\ncount = {flows}\n"
    );
    Scenario::from_toml(&text, "golden", &registry()).unwrap_or_else(|e| panic!("{e}"))
}

/// One row: the text of the varied columns, and the scenario that is run.
type Row = (String, Scenario);

/// The columns after the varied ones, the same for the tables of one path. Values are rounded so
/// coarsely that a difference in the last bit cannot change them.
const FIGURES: &str = "goodput_mbit  queue_p50_ms  queue_p99_ms  retransmits  jain";

fn metrics(run: &Run) -> String {
    let asked = |id: &str| run.flows.iter().all(|f| f.id != "it") || id == "it";
    let goodput: f64 = run
        .flows
        .iter()
        .filter(|f| asked(&f.id))
        .map(|f| f.goodput_mbit)
        .sum();
    let retransmits: u64 = run
        .flows
        .iter()
        .filter(|f| asked(&f.id))
        .map(|f| f.retransmits)
        .sum();
    let delay = run.queue.delay_ms;
    format!(
        "{goodput:12.2}  {:12.1}  {:12.1}  {retransmits:11}  {:4.2}",
        delay.p50, delay.p99, run.fairness.jain
    )
}

fn buffer() -> (String, Vec<Row>) {
    let mut rows = Vec::new();
    for flows in [1, 4] {
        for cc in ["reno", "cubic", "bbr"] {
            for bdp in ["0.1", "0.25", "0.5", "1", "2", "4", "8"] {
                let row = format!("{flows:5}  {cc:5}  {bdp:>10}");
                rows.push((
                    row,
                    scenario("20Mbit", "40ms", &format!("{bdp}bdp"), "0%", cc, flows),
                ));
            }
        }
    }
    ("flows  cc     buffer_bdp".into(), rows)
}

fn rate_rtt() -> (String, Vec<Row>) {
    let mut rows = Vec::new();
    for mbit in ["1", "5", "20", "100", "400"] {
        for ms in ["2", "10", "40", "160"] {
            let row = format!("{mbit:>9}  {ms:>6}");
            let path = (format!("{mbit}Mbit"), format!("{ms}ms"));
            rows.push((row, scenario(&path.0, &path.1, "1bdp", "0%", "cubic", 1)));
        }
    }
    ("rate_mbit  rtt_ms".into(), rows)
}

fn loss() -> (String, Vec<Row>) {
    let mut rows = Vec::new();
    for cc in ["reno", "cubic", "bbr"] {
        for percent in ["0.001", "0.01", "0.1", "0.3", "1", "3", "10", "30"] {
            let row = format!("{cc:5}  {percent:>8}");
            rows.push((
                row,
                scenario("20Mbit", "40ms", "1bdp", &format!("{percent}%"), cc, 1),
            ));
        }
    }
    ("cc     loss_pct".into(), rows)
}

/// Every congestion control with a shallow and a deep buffer, alone and with one CUBIC flow as a
/// competitor. With a competitor, goodput is that of the congestion control's flow only.
fn cc() -> (String, Vec<Row>) {
    let mut rows = Vec::new();
    for kind in registry().ccs() {
        let queue = if kind.needs(Need::EcnEcho) || kind.needs(Need::EcnCount) {
            "queue = { kind = \"codel\", ecn = true, ce_threshold = \"2ms\" }\n"
        } else if kind.needs(Need::Feedback) {
            "queue = \"xcp\"\n"
        } else {
            ""
        };
        for (beside, bdp) in [("", "0.5"), ("", "2"), ("cubic", "2")] {
            let other = if beside.is_empty() {
                ""
            } else {
                "[[flow]]\ncc = \"cubic\"\n"
            };
            let text = format!(
                "duration = \"30s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
                 \"{bdp}bdp\"\n{queue}\
                 [[flow]]\nid = \"it\"\ncc = \"{}\"\n{other}",
                kind.name
            );
            let scenario =
                Scenario::from_toml(&text, "golden", &registry()).unwrap_or_else(|e| panic!("{e}"));
            rows.push((format!("{:10}  {beside:6}  {bdp:>10}", kind.name), scenario));
        }
    }
    ("cc          beside  buffer_bdp".into(), rows)
}

/// Disciplines that have no effect without parameters, with the parameters that are used here.
const ASKED: &[(&str, &str)] = &[(
    "htb",
    concat!(
        r#"{ kind = "htb", default = "1:20", classes = [ { id = "1:1", rate = "16Mbit" }, "#,
        r#"{ id = "1:20", parent = "1:1", rate = "4Mbit", ceil = "16Mbit", limit = "100p" } ] }"#
    ),
)];

/// Every discipline with its default parameters, except for [`ASKED`]; ECN is enabled if it can
/// mark.
fn queue() -> (String, Vec<Row>) {
    let mut rows = Vec::new();
    for kind in registry().queues() {
        if (kind.check)(&Params::defaults(kind.params)).is_err() {
            continue;
        }
        // A discipline that marks only with other parameters does not mark here.
        let mut marking = Params::defaults(kind.params);
        marking.set("ecn", Value::Bool(true));
        let marks =
            kind.params.iter().any(|param| param.name == "ecn") && (kind.check)(&marking).is_ok();
        for (flows, ecn) in [(1, false), (4, false), (4, true)] {
            if ecn && !marks {
                continue;
            }
            let asked = ASKED.iter().find(|(name, _)| *name == kind.name);
            let queue = if let Some((_, asked)) = asked {
                (*asked).into()
            } else if marks {
                format!("{{ kind = \"{}\", ecn = {ecn} }}", kind.name)
            } else {
                format!("\"{}\"", kind.name)
            };
            let text = format!(
                "duration = \"30s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nqueue = {queue}\n\
                 [[flow]]\ncc = \"cubic\"\ncount = {flows}\necn = {ecn}\n"
            );
            let scenario =
                Scenario::from_toml(&text, "golden", &registry()).unwrap_or_else(|e| panic!("{e}"));
            let ecn = if ecn { "yes" } else { "no" };
            rows.push((format!("{:10}  {flows:5}  {ecn:3}", kind.name), scenario));
        }
    }
    ("queue       flows  ecn".into(), rows)
}

/// Runs of three Wi-Fi stations. They vary the stack, the sender, and the rate of the slow station.
fn wifi() -> Vec<Row> {
    let mut rows = Vec::new();
    let fixed = "mcs = 15\n";
    let learned = "mcs = 15\nrate_control = \"minstrel\"\nsnr = \"25dB\"\n";
    for stack in ["before", "fq_mac", "airtime"] {
        for (traffic, flow) in [
            ("down", "cc = \"cubic\""),
            ("up", "cc = \"cubic\"\ndirection = \"up\""),
            ("udp", "workload = { kind = \"udp\", rate = \"50Mbit\" }"),
        ] {
            for (name, fast, slow) in [
                ("mcs0", fixed, "mcs = 0"),
                ("1Mbit", fixed, "rate = \"1Mbit\""),
                ("lossy", fixed, "mcs = 7\nerror = \"20%\""),
                (
                    "learns",
                    learned,
                    "mcs = 15\nrate_control = \"minstrel\"\nsnr = \"12dB\"",
                ),
            ] {
                let text = format!(
                    "duration = \"30s\"\n[wifi]\nband = \"2.4GHz\"\nstack = \"{stack}\"\n\
                     [[wifi.station]]\nname = \"fast\"\ncount = 2\n{fast}[[wifi.station]]\nname = \
                     \"slow\"\n{slow}\n\
                     [[flow]]\nstation = \"fast\"\n{flow}\n[[flow]]\nstation = \"slow\"\n{flow}\n\
                     [[probe]]\nkind = \"ping\"\nstation = \"fast0\"\n"
                );
                let scenario = Scenario::from_toml(&text, "golden", &registry())
                    .unwrap_or_else(|e| panic!("{e}"));
                rows.push((format!("{stack:7}  {traffic:7}  {name:6}"), scenario));
            }
        }
    }
    rows
}

/// The goodput of the first fast station and of the slow station, and the RTT of pings to the first
/// fast station.
fn wifi_metrics(run: &Run) -> String {
    let total: f64 = run
        .stations
        .iter()
        .map(|station| station.goodput_mbit)
        .sum();
    let of = |station: usize| {
        let station = &run.stations[station];
        // A mean of no frames is not a number.
        let frames = |n: f64| {
            if n.is_nan() {
                "-".to_owned()
            } else {
                format!("{n:.1}")
            }
        };
        format!(
            "{:7.2}  {:7.3}  {:>4}  {:>4}  {:7}",
            station.goodput_mbit,
            station.airtime_share,
            frames(station.aggregate.frames),
            frames(station.aggregate_up.frames),
            station.retries
        )
    };
    let ping = &run.probes[0].rtt_ms;
    format!(
        "{total:6.2} | {} | {} | {:6.1}  {:6.1}",
        of(0),
        of(2),
        ping.p50,
        ping.p99
    )
}

/// Returns the results of `f` for each item, computed on one thread per core.
fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let chunk = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let work: Vec<_> = items
            .chunks(chunk)
            .map(|items| scope.spawn(|| items.iter().map(&f).collect::<Vec<R>>()))
            .collect();
        work.into_iter().flat_map(|w| w.join().unwrap()).collect()
    })
}

fn table(about: &str, all: &str, (columns, rows): (String, Vec<Row>)) -> String {
    let mut text = format!(
        "# {about}\n# 30 s, seed 1, {all}; after 6 s of warm-up but retransmits, which are of the \
         whole run.\n"
    );
    writeln!(text, "{columns}  {FIGURES}").unwrap();
    let metrics = in_parallel(&rows, |(_, scenario)| metrics(&play(scenario)));
    for ((row, _), metrics) in rows.iter().zip(metrics) {
        writeln!(text, "{row}  {metrics}").unwrap();
    }
    text
}

/// Compares `now` with the stored table `name`, or stores it if the environment has
/// `NARROWS_GOLDEN=write`.
fn check(name: &str, now: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var("NARROWS_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(&file, now).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&file)
        .unwrap_or_default()
        .replace("\r\n", "\n");
    if stored == now {
        return;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (stored.lines().collect(), now.lines().collect());
    let mut diff = String::new();
    for i in 0..old.len().max(new.len()) {
        match (old.get(i), new.get(i)) {
            (a, b) if a == b => {}
            (a, b) => {
                a.iter().for_each(|a| writeln!(diff, "- {a}").unwrap());
                b.iter().for_each(|b| writeln!(diff, "+ {b}").unwrap());
            }
        }
    }
    panic!(
        "sim/tests/golden/{name} is no longer what comes out:\n  {}\n{diff}\n\
         If it should not be, something broke. If it should, renew the tables:\n    \
         NARROWS_GOLDEN=write cargo test --release -p narrows-sim --test all golden::\n\
         and say what changed, and why, under \"Results change\" in the CHANGELOG.",
        new.get(2).unwrap_or(&"")
    );
}

#[test]
fn how_large_should_a_buffer_be() {
    check(
        "buffer.txt",
        &table(
            "How large should a buffer be? 20 Mbit/s, 40 ms.",
            "fifo",
            buffer(),
        ),
    );
}

#[test]
fn does_cubic_fill_any_path() {
    check(
        "rate_rtt.txt",
        &table(
            "Does CUBIC fill a path, whatever its rate and RTT? One flow, 1 BDP.",
            "fifo",
            rate_rtt(),
        ),
    );
}

#[test]
fn how_much_loss_does_each_bear() {
    check(
        "loss.txt",
        &table(
            "How much random loss does each bear? One flow, 20 Mbit/s, 40 ms, 1 BDP.",
            "fifo",
            loss(),
        ),
    );
}

#[test]
fn goodput_of_each_congestion_control() {
    check(
        "cc.txt",
        &table(
            "What does each congestion control get, alone and beside CUBIC? One flow, 20 Mbit/s, \
             40 ms.",
            "fifo, or what is needed: a step mark at 2 ms for ECN, xcp for feedback",
            cc(),
        ),
    );
}

#[test]
fn persistent_queue_with_each_discipline() {
    check(
        "queue.txt",
        &table(
            "What does each queue discipline make of a standing queue? CUBIC, 20 Mbit/s, 40 ms.",
            "its own limit",
            queue(),
        ),
    );
}

#[test]
fn slow_station_with_each_wifi_stack() {
    let rows = wifi();
    let of = "goodput  airtime  down    up  retries";
    let mut text = "# What does one slow station cost two fast ones? Wi-Fi, 2.4 GHz, 20 MHz.\n\
                    # 30 s, seed 1, after 6 s of warm-up: all, one of the fast stations, the slow \
                    one, pings to a fast one.\n\
                    # Mbit/s, share of the time, frames of an aggregate to it and from it, frames \
                    sent again, ms.\n"
        .to_owned();
    writeln!(
        text,
        "stack    traffic  slow     total | {of} | {of} |    p50     p99"
    )
    .unwrap();
    let metrics = in_parallel(&rows, |(_, scenario)| wifi_metrics(&play(scenario)));
    for ((row, _), metrics) in rows.iter().zip(metrics) {
        writeln!(text, "{row}  {metrics}").unwrap();
    }
    check("wifi.txt", &text);
}

/// All results of a run as text.
fn all_of(run: &Run) -> String {
    format!("{}\n{:?}", json(run), run.samples)
}

#[test]
fn same_seed_same_bytes_again_and_on_any_thread() {
    let scenarios: Vec<Scenario> = [
        ("reno", "0%", 4),
        ("cubic", "0%", 4),
        ("cubic", "1%", 1),
        ("reno", "10%", 2),
    ]
    .map(|(cc, loss, flows)| scenario("20Mbit", "40ms", "0.5bdp", loss, cc, flows))
    .into();
    let first: Vec<String> = scenarios.iter().map(|s| all_of(&play(s))).collect();
    let again: Vec<String> = scenarios.iter().map(|s| all_of(&play(s))).collect();
    // Each of several threads runs all scenarios at the same time, so that different runs are
    // interleaved.
    let threads = in_parallel(&[0, 1, 2, 3], |turn| {
        let mut runs: Vec<(usize, String)> = (0..scenarios.len())
            .map(|i| (i + turn) % scenarios.len())
            .map(|i| (i, all_of(&play(&scenarios[i]))))
            .collect();
        runs.sort();
        runs.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    });
    for other in threads.iter().chain([&again]) {
        // Not assert_eq: megabytes of text would be printed.
        assert!(*other == first, "two runs of one seed differ");
    }
    let mut other_seed = scenarios[0].clone();
    other_seed.seed = 2;
    assert!(all_of(&play(&other_seed)) != first[0]);
}
