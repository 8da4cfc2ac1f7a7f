//! Compound TCP: it grows fast where the path is long and the queue empty, and behaves as Reno
//! where the buffer is shallow.

use super::run;
use narrows_sim::Run;

fn flows(path: &str, seconds: u32, flows: &[&str]) -> Run {
    let mut text = format!("duration = \"{seconds}s\"\n[path]\n{path}\n");
    for cc in flows {
        text += &format!("[[flow]]\ncc = \"{cc}\"\n");
    }
    run(&text)
}

/// The BDP of 400 Mbit/s and 100 ms is 3300 packets, and random loss takes one packet in 10 000.
/// The response functions of the papers give a mean window of 404 packets for Compound and of 122
/// for Reno.
#[test]
fn compound_fills_a_long_path_with_rare_losses_three_times_as_well() {
    let path = "rate = \"400Mbit\"\nrtt = \"100ms\"\nbuffer = \"1bdp\"\nloss = { probability = \
        \"0.01%\", per = \"packet\" }";
    let goodput = |cc| flows(path, 120, &[cc]).flows[0].goodput_mbit;
    let (compound, reno) = (goodput("compound"), goodput("reno"));
    assert!((2.3..4.5).contains(&(compound / reno)), "{compound} {reno}");
}

/// A loss reduces both windows, and a queue reduces the delay window to zero. So Compound gets no
/// more than a Reno flow with which it shares a shallow buffer.
#[test]
fn compound_is_fair_to_reno_where_the_buffer_is_shallow() {
    let path = "rate = \"10Mbit\"\nrtt = \"40ms\"\nbuffer = \"0.5bdp\"";
    let run = flows(path, 120, &["compound", "reno"]);
    let share = run.flows[0].goodput_mbit / run.flows[1].goodput_mbit;
    assert!((0.7..1.4).contains(&share), "{share}");
}
