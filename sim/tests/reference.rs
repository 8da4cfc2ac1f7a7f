//! The simulator compared with Linux: every stored case of the reference, three seeds each, metric
//! by metric.
//!
//! A case agrees if every metric does. The test fails if fewer cases of any family agree than
//! [`AGREED`] requires. Its sensitivity was tested by hand with the cases of Reno and CUBIC. The
//! number of cases that agree, by family:
//!
//! | mutation of core | A | B | C | H | I | O | all |
//! |---|---|---|---|---|---|---|---|
//! | none | 46 of 46 | 24 of 24 | 20 of 20 | 28 of 28 | 6 of 6 | 4 of 5 | 128 of 129 |
//! | CUBIC's β 0.5 instead of 0.7 | 19 | 22 | 9 | 28 | 6 | 0 | 84 |
//! | no delayed ACK: every segment acknowledged at once | 35 | 16 | 16 | 28 | 6 | 2 | 103 |
//! | HyStart off | 29 | 20 | 8 | 28 | 3 | 4 | 92 |
//!
//! With the policers, shapers and disciplines (the last two mutations were tried in one run, as no
//! case has both):
//!
//! | mutation of core | E | F |
//! |---|---|---|
//! | none | 36 of 37 | 19 of 20 |
//! | a policer's burst halved | 30 | 19 |
//! | CoDel's interval 200 ms instead of 100 | 36 | 16 |
//! | RED's `max` doubled | 36 | 17 |
//!
//! Without the seven policed cases whose burst is about one bandwidth-delay product
//! (`E-police-*-*-*-*`) only one case notices a halved burst, and that by chance.
//!
//! Families are counted separately, so that a loss in one is not hidden by a chance gain in
//! another. Cases with a congestion control or a queue discipline that the registry does not have
//! are left out, and their number is printed.
//!
//! `core/src/metrics/agreement.rs` defines when a metric and when a case agrees. `validation/`
//! compares the same cases with the installed narrows, and also compares Linux with itself and with
//! other references. This test is the part that runs for every commit.

use crate::common::{play, registry};
use narrows_core::metrics::{Agreement, Conditions, compare, median};
use narrows_core::scenario::{Likeness, Scenario};
use narrows_sim::Run;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const STORED: &[&str] = &[
    include_str!("data/reference/linux-6.12-bbr.txt"),
    include_str!("data/reference/linux-6.12-bic.txt"),
    include_str!("data/reference/linux-6.12-cake.txt"),
    include_str!("data/reference/linux-6.12-dctcp.txt"),
    include_str!("data/reference/linux-6.12-host.txt"),
    include_str!("data/reference/linux-6.12-newreno.txt"),
    include_str!("data/reference/linux-6.12-nv.txt"),
    include_str!("data/reference/linux-6.12-queues.txt"),
    include_str!("data/reference/linux-6.12-vegas.txt"),
    include_str!("data/reference/linux-6.12-westwood.txt"),
    include_str!("data/reference/linux-6.12.txt"),
];
/// Cases of Linux 7.3, with its rules.
const STORED_7_3: &[&str] = &[include_str!("data/linux-7.3/cases.txt")];
/// Cases of Linux 6.12 with other settings of its hosts.
const STORED_HOSTS: &[&str] = &[include_str!("data/hosts/linux-6.12.txt")];
/// The least number of cases that must agree, by family. Raise a number when the simulator gets
/// better; lower it only with the reason in the CHANGELOG.
const AGREED: [(&str, usize); 11] = [
    ("A", 96),
    ("B", 46),
    ("C", 47),
    ("D", 13),
    ("E", 35),
    ("F", 36),
    ("G", 37),
    ("H", 40),
    ("I", 9),
    ("N", 24),
    ("O", 3),
];
/// The same for [`STORED_7_3`]. `validation/evidence/ping-phase.md` explains the case K-n11-3.
const AGREED_7_3: [(&str, usize); 7] = [
    ("A", 15),
    ("B", 6),
    ("C", 10),
    ("F", 6),
    ("K", 5),
    ("L", 6),
    ("M", 4),
];
/// The same for [`STORED_HOSTS`]. Two cases with random loss, of which Linux has two runs each,
/// differ in the goodput.
const AGREED_HOSTS: [(&str, usize); 7] = [
    ("initcwnd", 3),
    ("mss536", 3),
    ("mtu9000", 1),
    ("neither", 2),
    ("nosack", 4),
    ("notimestamps", 3),
    ("quickack", 2),
];
const SEEDS: u64 = 3;

/// One metric of a stored case: its name, the congestion control of its flow (`-` for the path),
/// and one value per run of Linux.
struct Metric {
    name: String,
    cc: String,
    runs: Vec<f64>,
    compared: bool,
}

struct Case {
    name: String,
    scenario: Scenario,
    metrics: Vec<Metric>,
}

/// The cases of `texts` that this version can run, and the number of cases that it cannot run.
fn stored(texts: &[&str]) -> (Vec<Case>, usize) {
    let stored = texts.iter().map(|text| {
        text.lines()
            .filter(|l| !l.starts_with('#'))
            .flat_map(|l| [l, "\n"])
            .collect::<String>()
    });
    let texts: Vec<String> = stored.collect();
    let every: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.split("== ").skip(1))
        .collect();
    let known: Vec<&str> = every.iter().copied().filter(|text| can_run(text)).collect();
    let left_out = every.len() - known.len();
    (known.into_iter().map(case).collect(), left_out)
}

/// Returns whether the registry has every congestion control and the queue discipline of a stored
/// case.
fn can_run(text: &str) -> bool {
    let registry = registry();
    // The first word in quotes after the key: the value itself or its `kind`.
    let all = |key: &str, known: &dyn Fn(&str) -> bool| {
        let named = text.split(key).skip(1);
        named.map(|rest| rest.split('"').nth(1).unwrap()).all(known)
    };
    all("cc = ", &|name| registry.cc(name).is_some())
        && all("queue = ", &|name| registry.queue(name).is_some())
}

fn case(text: &str) -> Case {
    let (name, rest) = text.split_once('\n').expect("a name on a line of its own");
    let (scenario, metrics) = rest
        .split_once("\n--\n")
        .expect("a line -- before the figures");
    let metric = |line: &str| {
        let (compared, line) = match line.strip_prefix("late ") {
            Some(line) => (false, line),
            None => (true, line),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        Metric {
            name: words[0].into(),
            cc: words[1].into(),
            runs: words[2..]
                .iter()
                .map(|w| w.parse().expect("a number"))
                .collect(),
            compared,
        }
    };
    Case {
        name: name.into(),
        scenario: Scenario::from_toml(scenario, name, &registry())
            .unwrap_or_else(|e| panic!("{name}: {e}")),
        metrics: metrics
            .lines()
            .filter(|l| !l.is_empty())
            .map(metric)
            .collect(),
    }
}

/// The value of a stored metric in a run of narrows, or NaN if that run has none.
fn value(run: &Run, metric: &Metric) -> f64 {
    let flows: Vec<_> = run.flows.iter().filter(|f| f.cc == metric.cc).collect();
    let mean = |x: &dyn Fn(usize) -> f64| (0..flows.len()).map(x).sum::<f64>() / flows.len() as f64;
    let acked_mb_at = |t: f64| {
        let near = |p: &&(f64, u64, u32, f64)| ((p.0 - t).abs() * 1e9) as u64;
        flows[0]
            .series
            .iter()
            .min_by_key(near)
            .map_or(f64::NAN, |p| p.1 as f64 / 1e6)
    };
    match metric.name.as_str() {
        "goodput_mbit" => flows.iter().map(|f| f.active_goodput_mbit).sum(),
        "jain" => narrows_core::metrics::jain(flows.iter().map(|f| f.active_goodput_mbit)),
        "srtt_ms" => mean(&|i| flows[i].sampled_rtt_ms.mean),
        "retransmit_pct" => mean(&|i| flows[i].run_retransmit_rate * 100.0),
        "cwnd_mean" => flows[0].cwnd_packets.mean,
        "cwnd_p5" => flows[0].cwnd_packets.p5,
        "cwnd_p95" => flows[0].cwnd_packets.p95,
        "acked_mb_at_1s" => acked_mb_at(1.0),
        "acked_mb_at_2s" => acked_mb_at(2.0),
        "acked_mb_at_5s" => acked_mb_at(5.0),
        // The completion time of a transfer that did not finish counts as infinite.
        "fct_s" if flows[0].fct_s.is_nan() => f64::INFINITY,
        "fct_s" => flows[0].fct_s,
        "ping_p50_ms" => run.probes[0].rtt_ms.p50,
        "ping_p95_ms" => run.probes[0].rtt_ms.p95,
        other => panic!("no figure is called {other}"),
    }
}

/// Compares the median `ours` of narrows with the values of Linux.
fn agreement(metric: &Metric, ours: f64, s: &Scenario) -> Agreement {
    let on = Conditions {
        rate: s
            .host
            .nic
            .as_ref()
            .map_or(s.path.bottleneck().target(), |nic| {
                nic.rate.min(s.path.bottleneck().target())
            }),
        rtt: s.path.rtt(),
        duration: s.duration,
        flows: s.flows.len(),
    };
    compare(&metric.name, &metric.runs, ours, &on).expect("a known figure")
}

/// Runs every case with every seed on all cores. Returns the runs of each case, in the order of the
/// seeds.
fn play_all(cases: &[Case]) -> Vec<Vec<Run>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let jobs = cases.len() * SEEDS as usize;
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            threads.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    let mut scenario = cases[job / SEEDS as usize].scenario.clone();
                    scenario.seed = job as u64 % SEEDS + 1;
                    let run = play(&scenario);
                    done.lock().unwrap().insert(job, run);
                }
            });
        }
    });
    let mut runs: Vec<Run> = done.into_inner().unwrap().into_values().collect();
    let mut by_case = Vec::new();
    while !runs.is_empty() {
        let rest = runs.split_off(SEEDS as usize);
        by_case.push(std::mem::replace(&mut runs, rest));
    }
    by_case
}

#[test]
fn the_simulator_agrees_with_linux() {
    let (headline, evidence) = agree(STORED, "Linux 6.12", &AGREED);
    store(&headline, &evidence);
}

#[test]
fn the_simulator_agrees_with_linux_7_3() {
    let (headline, _) = agree(STORED_7_3, "Linux 7.3", &AGREED_7_3);
    for page in ["README.md", "docs/reference/validation.md"] {
        let file = format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(&headline), "{page} lacks: {headline}");
    }
}

#[test]
fn the_simulator_agrees_with_linux_with_other_settings() {
    agree(STORED_HOSTS, "Linux 6.12", &AGREED_HOSTS);
}

/// Runs the cases of `texts`, recorded with Linux `kernel`, and requires at least `agreed` cases of
/// each family to agree. Returns the result in words, and the evidence of each case.
fn agree(texts: &[&str], kernel: &str, agreed: &[(&str, usize)]) -> (String, Vec<String>) {
    let (cases, left_out) = stored(texts);
    let runs = play_all(&cases);
    let (mut families, mut kinds) = (
        BTreeMap::<&str, [usize; 2]>::new(),
        BTreeMap::<&str, [usize; 2]>::new(),
    );
    let mut off = Vec::new();
    let mut evidence = Vec::new();
    for (case, runs) in cases.iter().zip(&runs) {
        let mut good = true;
        let mut tally = [0, 0];
        for metric in case.metrics.iter().filter(|f| f.compared) {
            let ours = median(&runs.iter().map(|r| value(r, metric)).collect::<Vec<_>>());
            let verdict = agreement(metric, ours, &case.scenario);
            let (linux, ok) = (verdict.reference, verdict.agrees);
            good &= ok;
            tally = [tally[0] + usize::from(ok), tally[1] + 1];
            let kind = kinds
                .entry(metric.name.split("_at_").next().unwrap())
                .or_default();
            *kind = [kind[0] + usize::from(ok), kind[1] + 1];
            if !ok {
                let line = format!(
                    "{:24} {:14} {:6} {linux:>10.4} {ours:>10.4}",
                    case.name, metric.name, metric.cc
                );
                off.push(((ours - linux).abs() / (0.1 + linux.abs()), line));
            }
        }
        evidence.push(evidence_of(case, tally));
        let family = families
            .entry(case.name.split('-').next().unwrap())
            .or_default();
        *family = [family[0] + usize::from(good), family[1] + 1];
    }
    let mut report = String::from("figure          agree\n");
    for (name, [good, all]) in &kinds {
        writeln!(report, "{name:14} {good:5} of {all}").unwrap();
    }
    report += "\nfamily  agree\n";
    for (name, [good, all]) in &families {
        writeln!(report, "{name:6} {good:6} of {all}").unwrap();
    }
    off.sort_by(|a, b| b.0.total_cmp(&a.0));
    writeln!(report, "\nworst {:36} cc          linux       here", "").unwrap();
    for (_, line) in off.iter().take(5) {
        writeln!(report, "  {line}").unwrap();
    }
    let good: usize = families.values().map(|f| f[0]).sum();
    let headline = format!(
        "{good} of {} simulated cases agree with {kernel} in every compared metric",
        cases.len()
    );
    let late = cases
        .iter()
        .flat_map(|c| &c.metrics)
        .filter(|f| !f.compared)
        .count();
    writeln!(
        report,
        "\n{headline}; {late} late figures not compared; {left_out} cases left out"
    )
    .unwrap();
    println!("{report}");
    assert_eq!(families.len(), agreed.len());
    for (family, before) in agreed {
        let now = families[family][0];
        assert!(
            now >= *before,
            "{report}\nfamily {family}: {now} cases agree; {before} did before"
        );
    }
    (headline, evidence)
}

/// One line of evidence for `provenance.evidence` of a run: where the case lies, and how many of
/// its metrics agree.
fn evidence_of(case: &Case, [good, all]: [usize; 2]) -> String {
    let like = Likeness::of(&case.scenario, &registry());
    let mut ccs: Vec<&str> = case
        .scenario
        .flows
        .iter()
        .map(|f| f.cc.kind.as_str())
        .collect();
    ccs.sort_unstable();
    ccs.dedup();
    let policer = like
        .policer
        .map_or("null".into(), |policer| format!("{policer:?}"));
    let room = like
        .room_bdp
        .map_or("null".into(), |bdp| format!("{bdp:.4}"));
    let kinds = format!(
        r#""queue": {:?}, "policer": {policer}, "besides": {:?}"#,
        like.queue, like.besides
    );
    format!(
        concat!(
            r#"  {{"case": "{}", "cc": {:?}, {}, "rate_mbit": {}, "rtt_ms": {}, "#,
            r#""buffer_bdp": {}, "headroom": {}, "loss": {}, "agreement": {:.3}}}"#
        ),
        case.name,
        ccs,
        kinds,
        like.rate.as_mbit(),
        like.rtts[0].as_ms(),
        room,
        like.headroom,
        like.loss,
        good as f64 / all as f64,
    )
}

/// Compares with the evidence that is part of the Python package, or stores it there. README and
/// `validation/REPORT.md` must have the same headline.
fn store(headline: &str, evidence: &[String]) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../python/narrows/_evidence.json"
    );
    let source =
        "Linux 6.12's TCP in virtual time; sim/tests/reference.rs compares and writes this";
    let now = format!(
        "{{\"source\": \"{source}\", \"headline\": \"{headline}\", \"cases\": [\n{}\n]}}\n",
        evidence.join(",\n")
    );
    if std::env::var("NARROWS_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(file, now).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        stored == now,
        "python/narrows/_evidence.json is out of date: NARROWS_GOLDEN=write cargo test --release \
         -p narrows-sim --test all reference::"
    );
}

/// Tests the definition of agreement: a flow that sends nothing must not agree in any case.
#[test]
fn an_idle_flow_agrees_nowhere() {
    for case in [STORED, STORED_7_3, STORED_HOSTS]
        .iter()
        .flat_map(|texts| stored(texts).0)
    {
        let all = case.metrics.iter().all(|f| {
            let nothing = if f.name == "fct_s" {
                f64::INFINITY
            } else {
                0.0
            };
            agreement(f, nothing, &case.scenario).agrees
        });
        let unfinished = case
            .metrics
            .iter()
            .any(|f| f.name == "fct_s" && median(&f.runs).is_infinite());
        assert!(!all || unfinished, "{}", case.name);
    }
}
