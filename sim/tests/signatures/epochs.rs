//! The window between one reduction and the next.

use crate::common::registry;
use narrows_core::metrics::{PHASES, median};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run};

/// Congestion avoidance from the end of one recovery to the next loss.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// How long it took, in seconds.
    pub length_s: f64,
    /// Mean progress of the window from its first to its last value: 0.5 on a straight line, more
    /// on a curve that rises fast and then slowly.
    pub come: f64,
    /// The greatest share of its time that the window spent within eight packets.
    pub dwell: f64,
}

/// A flow that is alone on `path` (as a scenario writes it), sampled every 10 ms.
pub fn alone(cc: &str, path: &str, duration: &str) -> Run {
    let text = format!(
        "duration = \"{duration}\"\nstart_jitter = \"0s\"\n[path]\n{path}\n[[flow]]\ncc = \
         \"{cc}\"\n"
    );
    let scenario =
        Scenario::from_toml(&text, "signature", &registry()).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        sample_interval: Some(Span::ms(10)),
        ..Options::default()
    };
    run(&scenario, &registry(), &options, &mut |_| true).expect("a scenario that runs")
}

/// Its epochs. The first is left out: slow start's reduction began it.
pub fn epochs(run: &Run) -> Vec<Epoch> {
    let f = &run.samples.flows;
    let (mut found, mut begun) = (Vec::new(), None::<usize>);
    for i in 0..f.t_s.len() {
        match PHASES[usize::from(f.phase[i])] {
            "avoidance" => begun = begun.or(Some(i)),
            // SACKs come first; a loss ends it, or reordering is all it was.
            "disorder" => {}
            _ => found.extend(
                begun
                    .take()
                    .map(|first| epoch(&f.t_s[first..i], &f.cwnd_packets[first..i])),
            ),
        }
    }
    found.drain(..found.len().min(1));
    found
}

fn epoch(t_s: &[f64], cwnd: &[u32]) -> Epoch {
    let (low, high) = (f64::from(cwnd[0]), f64::from(cwnd[cwnd.len() - 1]));
    let mut sorted = cwnd.to_vec();
    sorted.sort_unstable();
    let within = |i: usize| sorted[i..].partition_point(|c| *c <= sorted[i] + 8);
    let dwell = (0..sorted.len()).map(within).max().unwrap_or(0);
    let mean = cwnd.iter().map(|c| f64::from(*c)).sum::<f64>() / cwnd.len() as f64;
    Epoch {
        length_s: t_s[t_s.len() - 1] - t_s[0],
        come: (mean - low) / (high - low).max(1.0),
        dwell: dwell as f64 / cwnd.len() as f64,
    }
}

/// The middle one of a metric of every epoch.
pub fn typical(epochs: &[Epoch], of: impl Fn(&Epoch) -> f64) -> f64 {
    assert!(!epochs.is_empty(), "no epoch has come to its end");
    median(&epochs.iter().map(of).collect::<Vec<_>>())
}
