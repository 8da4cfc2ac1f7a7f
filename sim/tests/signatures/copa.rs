//! Copa: a queue of a few packets per flow and equal shares among Copa flows, and a fair share in
//! competition with flows that fill the queue.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run};

fn scenario(path: &str, seconds: u32, flows: &str) -> Scenario {
    let text = format!("duration = \"{seconds}s\"\n[path]\n{path}\n{flows}");
    Scenario::from_toml(&text, "copa", &registry()).unwrap_or_else(|e| panic!("{e}"))
}

const PATH: &str = "rate = \"24Mbit\"\nrtt = \"50ms\"\nbuffer = \"4bdp\"";

fn flows(seconds: u32, flows: &str) -> Run {
    play(&scenario(PATH, seconds, flows))
}

/// Section 3 of the paper: the queue oscillates between zero and 2.5/δ packets per flow, with a
/// mean of 1.25/δ: 10 packets for four flows.
#[test]
fn copa_shares_fairly_with_a_few_packets_in_the_queue() {
    let run = |cc: &str| flows(30, &format!("[[flow]]\ncc = \"{cc}\"\ncount = 4\n"));
    let (copa, reno) = (run("copa"), run("reno"));
    assert!(copa.fairness.jain > 0.97, "{}", copa.fairness.jain);
    let packets = copa.queue.delay_ms.mean / 0.5;
    assert!((5.0..20.0).contains(&packets), "{packets}");
    assert!(reno.queue.delay_ms.mean > 10.0 * copa.queue.delay_ms.mean);
    let total = |run: &Run| run.flows.iter().map(|f| f.goodput_mbit).sum::<f64>();
    assert!(
        total(&copa) > 0.97 * total(&reno),
        "{} {}",
        total(&copa),
        total(&reno)
    );
}

/// The window has a period of five round trips from one maximum to the next.
#[test]
fn the_window_swings_in_five_round_trips() {
    let path = "rate = \"24Mbit\"\nrtt = \"100ms\"\nbuffer = \"4bdp\"";
    let options = Options {
        sample_interval: Some(Span::ms(10)),
        ..Options::default()
    };
    let run = run(
        &scenario(path, 40, "[[flow]]\ncc = \"copa\"\n"),
        &registry(),
        &options,
        &mut |_| true,
    )
    .unwrap();
    let f = &run.samples.flows;
    let from = f.t_s.iter().position(|t| *t >= 10.0).unwrap();
    let cwnd: Vec<f64> = f.cwnd_packets[from..]
        .iter()
        .map(|w| f64::from(*w))
        .collect();
    let mean = cwnd.iter().sum::<f64>() / cwnd.len() as f64;
    let crossings = cwnd
        .windows(2)
        .filter(|w| w[0] <= mean && w[1] > mean)
        .count();
    let period = (f.t_s[f.t_s.len() - 1] - 10.0) / crossings as f64 / 0.1;
    assert!((4.0..6.5).contains(&period), "{period}");
}

/// In competition with CUBIC, Copa never sees the queue empty and switches to its competitive mode.
/// Without that mode it would get almost no goodput.
#[test]
fn beside_cubic_it_competes() {
    let path = "rate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"2bdp\"";
    let share = |competitive: bool| {
        let flows = format!(
            "[[flow]]\ncc = {{ kind = \"copa\", competitive = {competitive} }}\n[[flow]]\ncc = \
             \"cubic\"\n"
        );
        let run = play(&scenario(path, 60, &flows));
        run.flows[0].goodput_mbit / (run.flows[0].goodput_mbit + run.flows[1].goodput_mbit)
    };
    let (with, without) = (share(true), share(false));
    assert!((0.3..0.7).contains(&with), "{with}");
    assert!(without < 0.15, "{without}");
}
