//! BBR, version 3: it loses a tenth of what version 1 loses in a shallow buffer, leaves CUBIC a
//! share, and uses most of a path with occasional losses.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// Runs a path of 40 Mbit/s and 40 ms for `duration` with `buffer`; `more` is the rest of the
/// scenario as text.
fn over(duration: &str, buffer: &str, more: &str) -> Run {
    let text = format!(
        "duration = \"{duration}\"\n[path]\nrate = \"40Mbit\"\nrtt = \"40ms\"\nbuffer = \
         \"{buffer}\"\n{more}"
    );
    play(&Scenario::from_toml(&text, more, &registry()).unwrap_or_else(|e| panic!("{e}")))
}
fn four(cc: &str) -> (u64, f64) {
    let run = over(
        "20s",
        "0.5bdp",
        &format!("[[flow]]\ncc = \"{cc}\"\ncount = 4\n"),
    );
    let again = run.flows.iter().map(|f| f.retransmits).sum();
    (again, run.flows.iter().map(|f| f.goodput_mbit).sum())
}

#[test]
fn a_shallow_buffer_has_a_tenth_of_the_drops_of_version_1() {
    let ((v1, fast), (v3, as_fast)) = (four("bbr"), four("bbr3"));
    assert!(v3 * 10 < v1, "{v3} {v1}");
    assert!(as_fast > 0.98 * fast, "{as_fast} {fast}");
}

#[test]
fn beside_cubic_it_is_fairer_than_version_1() {
    for buffer in ["0.5bdp", "4bdp"] {
        let jain = |cc: &str| {
            let flows = format!("[[flow]]\ncc = \"{cc}\"\n[[flow]]\ncc = \"cubic\"\n");
            over("30s", buffer, &flows).fairness.jain
        };
        let (v1, v3) = (jain("bbr"), jain("bbr3"));
        assert!(v3 > 0.85 && v3 > v1 + 0.05, "{buffer}: {v3} {v1}");
    }
}

/// The path has random loss of one packet in two hundred.
#[test]
fn random_losses_leave_it_most_of_a_path_that_reno_cannot_use() {
    let goodput = |cc: &str| {
        let flow = format!("loss = \"0.5%\"\n[[flow]]\ncc = \"{cc}\"\n");
        over("20s", "1bdp", &flow).flows[0].goodput_mbit
    };
    let (v3, reno) = (goodput("bbr3"), goodput("reno"));
    assert!(v3 > 30.0 && reno < 8.0, "{v3} {reno}");
}

fn alone(text: &str, cc: &str) -> Run {
    let text = format!("{text}[[flow]]\ncc = \"{cc}\"\n");
    play(&Scenario::from_toml(&text, cc, &registry()).unwrap_or_else(|e| panic!("{e}")))
}

/// With a policer of 10 Mbit/s on a path of 100 Mbit/s, version 3 finds the policer's rate, and
/// loses less than version 1.
#[test]
fn a_policer_is_lived_with() {
    let path = "duration = \"20s\"\nwarmup = \"5s\"\n[path]\nrate = \"100Mbit\"\nrtt = \"40ms\"\n\
                policer = { rate = \"10Mbit\", burst = \"62.5kB\" }\n";
    let (v1, v3) = (alone(path, "bbr"), alone(path, "bbr3"));
    assert!(
        v3.flows[0].goodput_mbit > 9.0,
        "{}",
        v3.flows[0].goodput_mbit
    );
    let [v1, v3] = [v1, v3].map(|run| run.flows[0].summary_retransmit_rate);
    assert!(v3 < 0.045 && v3 < 0.8 * v1, "{v3} {v1}");
}

/// At 6 s the rate of the path rises tenfold. Version 3 soon finds the new rate. Version 2 is
/// slower, because it ends its probes when it detects a standing queue.
#[test]
fn ten_times_the_rate_is_found_in_seconds() {
    let path = "duration = \"11s\"\nwarmup = \"9s\"\n[path]\nrate = \"10Mbit\"\nrtt = \
        \"40ms\"\nbuffer = \"500KiB\"\n\
                steps = [{ at = \"6s\", rate = \"100Mbit\" }]\n";
    let goodput = |cc: &str| alone(path, cc).flows[0].goodput_mbit;
    let (v2, v3) = (goodput("bbr2"), goodput("bbr3"));
    assert!(v3 > 90.0 && v2 < 30.0, "{v3} {v2}");
}
