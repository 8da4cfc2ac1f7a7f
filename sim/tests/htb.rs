//! HTB compared with Linux 6.12: the goodput of each flow in its class (`data/htb.txt`), and the
//! effect of guaranteed rates.

use crate::common::{play, registry};
use narrows_core::metrics::{Conditions, compare, median};
use narrows_core::scenario::Scenario;
use narrows_core::units::Rate;
use narrows_sim::Run;

const CASES: &str = include_str!("data/htb.txt");
/// Permitted difference of a class's goodput from Linux's, as a share.
const GOODPUT: f64 = 0.03;

fn read(text: &str, name: &str) -> Scenario {
    Scenario::from_toml(text, name, &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn value(run: &Run, metric: &str, of: &str) -> f64 {
    let flow = || run.flows.iter().find(|flow| flow.id == of).unwrap();
    match metric {
        "goodput_mbit" => flow().goodput_mbit,
        "srtt_ms" => flow().sampled_rtt_ms.mean,
        "ping_p50_ms" => run.probes[0].rtt_ms.p50,
        "ping_p95_ms" => run.probes[0].rtt_ms.p95,
        _ => panic!("no figure is called {metric}"),
    }
}

#[test]
fn classes_get_the_rates_of_linux() {
    let (mut cases, mut wrong) = (0, String::new());
    for case in CASES.split("\n== ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (scenario, metrics) = rest.split_once("\n--\n").unwrap();
        let mut scenario = read(scenario, name);
        let runs = [1, 2, 3].map(|seed| {
            scenario.seed = seed;
            play(&scenario)
        });
        let on = Conditions {
            rate: Rate::mbit(20),
            rtt: scenario.path.rtt(),
            duration: scenario.duration,
            flows: scenario.flows.len(),
        };
        for line in metrics.lines().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let linux: Vec<f64> = words[2..]
                .iter()
                .map(|word| word.parse().unwrap())
                .collect();
            // Linux's runs differ in the start times of flows, and those of narrows in the seed.
            let ours = median(&runs.each_ref().map(|run| value(run, words[0], words[1])));
            let agrees = match words[0] {
                "goodput_mbit" => (ours / median(&linux) - 1.0).abs() <= GOODPUT,
                metric => compare(metric, &linux, ours, &on).unwrap().agrees,
            };
            if !agrees {
                wrong += &format!("{name}: {ours:.4}, in Linux {line}\n");
            }
        }
        cases += 1;
    }
    assert_eq!(cases, 14);
    assert!(wrong.is_empty(), "{wrong}");
}
