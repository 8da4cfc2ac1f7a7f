//! Compound TCP: fast where the path is long and empty, Reno where the buffer is shallow.

use super::run;
use narrows_sim::Run;

fn flows(path: &str, seconds: u32, flows: &[&str]) -> Run {
    let mut text = format!("duration = \"{seconds}s\"\n[path]\n{path}\n");
    for cc in flows {
        text += &format!("[[flow]]\ncc = \"{cc}\"\n");
    }
    run(&text)
}

/// 400 Mbit/s over 100 ms are 3300 packets; one packet in 10 000 is lost, wherever. The papers'
/// response functions give Compound 404 packets and Reno 122.
#[test]
fn compound_fills_a_long_path_with_rare_losses_three_times_as_well() {
    let path = "rate = \"400Mbit\"\nrtt = \"100ms\"\nbuffer = \"1bdp\"\nloss = { probability = \
        \"0.01%\", per = \"packet\" }";
    let goodput = |cc| flows(path, 120, &[cc]).flows[0].goodput_mbit;
    let (compound, reno) = (goodput("compound"), goodput("reno"));
    assert!((2.3..4.5).contains(&(compound / reno)), "{compound} {reno}");
}

/// Losses take both, and the queue ends the delay window: with a Reno flow beside it in a shallow
/// buffer it takes no more.
#[test]
fn compound_is_fair_to_reno_where_the_buffer_is_shallow() {
    let path = "rate = \"10Mbit\"\nrtt = \"40ms\"\nbuffer = \"0.5bdp\"";
    let run = flows(path, 120, &["compound", "reno"]);
    let share = run.flows[0].goodput_mbit / run.flows[1].goodput_mbit;
    assert!((0.7..1.4).contains(&share), "{share}");
}
