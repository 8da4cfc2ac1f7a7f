//! Finds the tree of rules of the congestion control `remy` by a small random search, and prints
//! it:
//!
//!     cargo run --release -p narrows-bench --bin remy > core/src/cc/remy/small.remy
//!     cargo run --release -p narrows-bench --bin remy found     the tree below, without a search
//!
//! The search covers trees of one shape ([`Shape`]). The gap between ACKs determines the rate, in
//! steps. In each step the RTT ratio decides whether the rate grows or decreases, and slower flows
//! accept longer queues. Flows that share a queue therefore converge to equal rates. Six numbers
//! define such a tree. A candidate's score is Remy's: the mean over paths, and over the flows on
//! each, of `log(throughput) − log(delay)`, relative to the fair share and to the path's rtt. The
//! paths have 2 to 100 Mbit/s, 20 to 120 ms, one to four flows, and five BDP of drop-tail buffer.
//!
//! All random numbers come from one seed: the same source prints the same tree.

use narrows_core::cc::remy::tree::DEEPEST;
use narrows_core::registry::Registry;
use narrows_core::rng::Rng;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet, run};
use std::fmt::Write;

/// Number of candidates after the first.
const ROUNDS: usize = 200;
/// The shortest gap between ACKs that the rules distinguish, in ms; [`SLOWEST`] is the longest.
const FASTEST: f64 = 0.05;
const SLOWEST: f64 = 25.0;
/// The window of a rule is the number of packets that its rate sends in this time, in ms.
const HORIZON: f64 = 500.0;

/// The six parameters of a tree.
#[derive(Copy, Clone, Debug)]
struct Shape {
    /// Ratio of a limit between gaps to the next shorter one.
    step: f64,
    /// The rate grows while `rtt_ratio < 1 + bears · gapᵉ`, with the gap in ms and the exponent `e`
    /// of the next field.
    bears: f64,
    /// The exponent `e` in the formula of `bears`.
    exponent: f64,
    /// Factor on the gap if `rtt_ratio` is below that limit; it is less than 1.
    faster: f64,
    /// Factor on the gap if `rtt_ratio` is above that limit; it is more than 1.
    slower: f64,
    /// Factor on the gap if the queue is more than twice as long as at that limit.
    slowest: f64,
}

/// The parameters with which the search begins.
const GUESS: Shape = Shape {
    step: 1.25,
    bears: 0.3,
    exponent: 0.4,
    faster: 0.9,
    slower: 1.1,
    slowest: 1.5,
};

/// The result of the search.
const FOUND: Shape = Shape {
    step: 1.15,
    bears: 0.0544,
    exponent: 0.229,
    faster: 0.974,
    slower: 1.15,
    slowest: 1.7,
};

/// Rounds to three significant digits.
fn plain(x: f64) -> f64 {
    let digits = 10f64.powf(2.0 - x.abs().log10().floor());
    (x * digits).round() / digits
}

impl Shape {
    /// The text of the tree, with `head` as its heading.
    fn text(&self, head: &str) -> String {
        let mut gaps = vec![FASTEST];
        while gaps[gaps.len() - 1] < SLOWEST {
            gaps.push(plain(gaps[gaps.len() - 1] * self.step));
        }
        let mut text = format!("remy-tree 1\n{head}");
        // Before two ACKs have arrived, gap and RTT ratio are unknown.
        text.push_str("rtt_ratio < 0.5\n  multiple 0 increment 10 intersend 1\n");
        self.steps(&mut text, 1, &gaps);
        text
    }
    /// Writes the rules for gaps between the first and the last of `gaps`. Gaps outside this range
    /// use the rules of the nearest gap.
    fn steps(&self, text: &mut String, depth: usize, gaps: &[f64]) {
        let indent = " ".repeat(2 * depth);
        assert!(depth < DEEPEST);
        if let [low, high] = *gaps {
            let queue = self.bears * (low * high).sqrt().powf(self.exponent);
            let window = (HORIZON / low).ceil();
            let ratio = |queue: f64| ((1.0 + queue) * 1e4).round() / 1e4;
            let (borne, twice) = (ratio(queue), ratio(2.0 * queue));
            let rules = [low * self.faster, high * self.slower, high * self.slowest];
            writeln!(text, "{indent}rtt_ratio < {borne}").unwrap();
            writeln!(
                text,
                "{indent}  multiple 0 increment {window} intersend {}",
                plain(rules[0])
            )
            .unwrap();
            writeln!(text, "{indent}  rtt_ratio < {twice}").unwrap();
            for gap in &rules[1..] {
                writeln!(
                    text,
                    "{indent}    multiple 0 increment {window} intersend {}",
                    plain(*gap)
                )
                .unwrap();
            }
            return;
        }
        let middle = gaps.len() / 2;
        writeln!(text, "{indent}rec_rec_ewma < {}", gaps[middle]).unwrap();
        self.steps(text, depth + 1, &gaps[..=middle]);
        self.steps(text, depth + 1, &gaps[middle..]);
    }
    /// A random variation of these parameters.
    fn near(&self, rng: &mut Rng) -> Shape {
        let mut by = |x: f64, most: f64| x * most.powf(2.0 * rng.unit() - 1.0);
        let step = (1.0 + by(self.step - 1.0, 1.4)).clamp(1.15, 1.6);
        let [bears, exponent] = [by(self.bears, 1.6), by(self.exponent, 1.4)];
        let faster = (1.0 - by(1.0 - self.faster, 1.5)).clamp(0.5, 0.99);
        let [slower, slowest] = [
            1.0 + by(self.slower - 1.0, 1.5),
            1.0 + by(self.slowest - 1.0, 1.5),
        ];
        Shape {
            step: plain(step),
            bears: plain(bears),
            exponent: plain(exponent),
            faster: plain(faster),
            slower: plain(slower),
            slowest: plain(slowest),
        }
    }
}

/// The score of a tree: the mean over all flows of all paths.
fn worth(text: &str) -> f64 {
    let registry = Registry::<Packet>::standard();
    let mut sum = 0.0;
    let mut of = 0;
    for rate in [2u64, 10, 40, 100] {
        for rtt in [20u64, 50, 120] {
            for flows in [1u64, 2, 4] {
                let toml = format!(
                    "duration = \"12s\"\nwarmup = \"4s\"\nstart_jitter = \"2s\"\n\
                     [path]\nrate = \"{rate}Mbit\"\nrtt = \"{rtt}ms\"\nbuffer = \"5bdp\"\n\
                     [[flow]]\ncount = {flows}\ncc = {{ kind = \"remy\", tree = '''\n{text}''' }}\n"
                );
                let scenario = Scenario::from_toml(&toml, "search", &registry)
                    .unwrap_or_else(|e| panic!("{e}"));
                let run =
                    run(&scenario, &registry, &Options::default(), &mut |_| true).expect("a run");
                for flow in &run.flows {
                    let share = flow.goodput_mbit.max(1e-6) * flows as f64 / rate as f64;
                    sum += share.ln() - (flow.rtt_ms.mean / rtt as f64).max(1.0).ln();
                    of += 1;
                }
            }
        }
    }
    sum / f64::from(of)
}

fn main() {
    let found = std::env::args().nth(1).is_some_and(|arg| arg == "found");
    let mut best = FOUND;
    if !found {
        let mut rng = Rng::named(1, "remy");
        best = GUESS;
        let mut most = worth(&best.text(""));
        eprintln!("{most:.4} {best:?}");
        for _ in 0..ROUNDS {
            let candidate = best.near(&mut rng);
            let worth = worth(&candidate.text(""));
            if worth > most {
                (best, most) = (candidate, worth);
                eprintln!("{most:.4} {best:?}");
            }
        }
    }
    print!(
        "{}",
        best.text(
            "# For 2 to 100 Mbit/s, 20 to 120 ms, one to four flows, drop-tail buffers of some \
             BDP.\n\
             # Made by bench/src/bin/remy.rs; licence as of the rest of narrows.\n"
        )
    );
}
