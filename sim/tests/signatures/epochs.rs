//! Properties of the congestion window between one reduction and the next.

use crate::common::registry;
use narrows_core::metrics::{PHASES, median};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run};

/// Congestion avoidance from the end of one recovery to the next loss.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Duration of the epoch, in seconds.
    pub length_s: f64,
    /// The mean window minus the lowest, divided by the highest minus the lowest. It is 0.5 if the
    /// window grows linearly, and more if it grows fast and then slowly.
    pub come: f64,
    /// The greatest share of the epoch that the window spent within any range of eight packets.
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

/// The epochs of the run's flow. The first is left out, because the reduction at the end of slow
/// start began it.
pub fn epochs(run: &Run) -> Vec<Epoch> {
    let f = &run.samples.flows;
    let (mut found, mut begun) = (Vec::new(), None::<usize>);
    for i in 0..f.t_s.len() {
        match PHASES[usize::from(f.phase[i])] {
            "avoidance" => begun = begun.or(Some(i)),
            // SACKs may indicate a loss or only reordering; only a recovery that follows ends the
            // epoch.
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

/// The median of one metric over all epochs.
pub fn typical(epochs: &[Epoch], of: impl Fn(&Epoch) -> f64) -> f64 {
    assert!(!epochs.is_empty(), "no epoch has come to its end");
    median(&epochs.iter().map(of).collect::<Vec<_>>())
}
