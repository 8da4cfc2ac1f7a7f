//! The data for pictures: samples over time, delays, drops and marks agree with the metrics, and
//! recording them does not change the metrics.

use narrows_core::engine::Run;
use narrows_core::metrics::{DELAYS_OF, FIGURE_INTERVAL, VERDICTS};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, run};

const PATH: &str = r#"
duration = "10s"
[path]
rate = "10Mbit"
rtt = "20ms"
buffer = "1bdp"
loss = "0.5%"
[[flow]]
cc = "cubic"
count = 2
[[probe]]
kind = "ping"
interval = "20ms"
"#;

fn done(options: Options) -> Run {
    let registry = Registry::standard();
    let scenario = Scenario::from_toml(PATH, "test", &registry).unwrap();
    run(&scenario, &registry, &options, &mut |_| true).unwrap()
}

fn json(run: &Run) -> String {
    run.to_json("", &serde_json::Value::Null, None)
}

#[test]
fn every_drop_has_a_row_and_so_has_every_loss() {
    let run = done(Options {
        verdicts: 100_000,
        ..Options::default()
    });
    let rows = &run.samples.verdicts;
    let of = |name| {
        rows.verdict
            .iter()
            .filter(|v| VERDICTS[usize::from(**v)] == name)
            .count()
    };
    assert!(run.queue.drops > 0 && of("lost") > 0);
    assert_eq!(
        (of("dropped") as u64, of("marked") as u64),
        (run.queue.drops, run.queue.marks)
    );
    assert_eq!(rows.left_out(), 0);
    assert!(rows.t_s.windows(2).all(|pair| pair[0] <= pair[1]));
    for (verdict, waited) in rows.verdict.iter().zip(&rows.waited_ms) {
        assert_eq!(VERDICTS[usize::from(*verdict)] == "lost", waited.is_nan());
    }
}

#[test]
fn packet_events_are_bounded_optional_and_without_effect() {
    let (none, few) = (
        done(Options::default()),
        done(Options {
            verdicts: 3,
            ..Options::default()
        }),
    );
    assert_eq!(json(&none), json(&few));
    assert_eq!(none.samples.verdicts.t_s.len(), 0);
    assert_eq!(none.samples.verdicts.left_out(), 0);
    let rows = &few.samples.verdicts;
    assert_eq!(rows.t_s.len(), 3);
    assert!(rows.left_out() >= few.queue.drops - 3);
}

#[test]
fn the_delays_go_through_the_metrics() {
    let run = done(Options::default());
    let rows = &run.samples.delays;
    let at = |of: &str, q: f64| {
        let here = |i: &usize| DELAYS_OF[usize::from(rows.of[*i])] == of && rows.share[*i] > q;
        rows.delay_ms[(0..rows.share.len()).find(here).unwrap()]
    };
    assert_eq!(at("queue", 0.5), run.queue.delay_ms.p50);
    assert_eq!(at("queue", 0.95), run.queue.delay_ms.p95);
    let ping = run.probes[0].rtt_ms;
    assert!((at("probe", 0.95) / ping.p95 - 1.0).abs() < 0.01);
}

#[test]
fn the_rows_end_where_the_metrics_end() {
    let run = done(Options::default());
    let queue = &run.samples.queue;
    assert!(queue.drops.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(*queue.drops.last().unwrap() <= run.queue.drops);
    // The mean of goodput over time, weighted by duration, is the flow's goodput.
    let flows = &run.samples.flows;
    let goodput = flows.goodput_mbit(FIGURE_INTERVAL);
    let after: Vec<f64> = (0..goodput.len())
        .filter(|i| flows.flow[*i] == 0 && flows.t_s[*i] > 2.0 + 1e-9)
        .map(|i| goodput[i])
        .collect();
    let mean = after.iter().sum::<f64>() / after.len() as f64;
    assert!(
        (mean / run.flows[0].goodput_mbit - 1.0).abs() < 0.02,
        "{mean}"
    );
}

#[test]
fn pictures_have_hundreds_of_instants_however_long_the_run_is() {
    let registry: Registry<narrows_sim::Packet> = Registry::standard();
    for (duration, count) in [
        ("1s", 1),
        ("10s", 8),
        ("60s", 8),
        ("1h", 2),
        ("60s", 10_000),
        ("24h", 50),
    ] {
        let text = PATH
            .replace("10s", duration)
            .replace("count = 2", &format!("count = {count}"));
        let scenario = Scenario::from_toml(&text, "test", &registry).unwrap();
        let interval = Options::pictures(&scenario).sample_interval.unwrap();
        let instants = scenario.duration.as_ns() / interval.as_ns();
        assert!((150..=1000).contains(&instants), "{duration}: {instants}");
        assert!(instants * count <= narrows_sim::MOST_ROWS);
    }
}
