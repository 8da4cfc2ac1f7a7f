//! DCTCP: a full link and a short queue at the same time, where packets that waited for longer than
//! a threshold (the step) are marked.

use crate::common::registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run};

/// Runs flows that begin half a millisecond apart, on a link that marks packets that waited for
/// longer than `step`.
fn play(cc: &str, flows: u32, path: &str, step: &str) -> Run {
    let mut text = format!(
        "duration = \"8s\"\nstart_jitter = \"0s\"\n[path]\n{path}\ndelay_forward = \"0s\"\nlink = \
         \"htb\"\n\
         queue = {{ kind = \"codel\", ecn = true, target = \"10s\", ce_threshold = \"{step}\" \
         }}\n[host]\necn = \"on\"\n"
    );
    for i in 0..flows {
        text += &format!("[[flow]]\ncc = \"{cc}\"\nstart = \"{}us\"\n", 500 * i);
    }
    let scenario =
        Scenario::from_toml(&text, "dctcp.toml", &registry()).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        sample_interval: Some(Span::ms(1)),
        ..Options::default()
    };
    run(&scenario, &registry(), &options, &mut |_| true).unwrap()
}

fn goodput(run: &Run) -> f64 {
    run.flows.iter().map(|f| f.goodput_mbit).sum()
}

const LINK: &str = "rate = \"100Mbit\"\nrtt = \"5ms\"";

#[test]
fn the_link_is_full_and_the_queue_is_short() {
    let (dctcp, reno) = (play("dctcp", 1, LINK, "1ms"), play("reno", 1, LINK, "1ms"));
    for run in [&dctcp, &reno] {
        assert!(run.queue.marks > 50 && run.flows[0].retransmits == 0);
        assert!(
            run.flows[0].rtt_ms.mean < 6.5,
            "{}",
            run.flows[0].rtt_ms.mean
        );
    }
    assert!(goodput(&dctcp) > 94.5, "{}", goodput(&dctcp));
    assert!(goodput(&reno) < 80.0, "{}", goodput(&reno));
}

/// Alizadeh et al. 2010, section 3.3: with a marking threshold of K packets, N synchronized windows
/// raise the queue to K + N packets. From there the queue decreases by ½ √(2N (C·RTT + K)) packets.
#[test]
fn the_queue_oscillates_as_in_the_paper() {
    let (c, rtt, k) = (100e6 / 8.0 / 1514.0, 0.020, 0.005_f64);
    for n in [1, 2, 10] {
        let (highest, swing) = (
            k * c + f64::from(n),
            0.5 * (2.0 * f64::from(n) * c * (rtt + k)).sqrt(),
        );
        // The 1st and 99th percentile of the queue, because a single burst may exceed the formula.
        let between = |cc| {
            let run = play(cc, n, "rate = \"100Mbit\"\nrtt = \"20ms\"", "5ms");
            let mut queue = run.samples.queue.backlog_packets[4000..].to_vec();
            queue.sort_unstable();
            (
                queue[queue.len() / 100] as f64,
                queue[queue.len() * 99 / 100] as f64,
            )
        };
        let (low, high) = between("dctcp");
        let message = format!(
            "{n} flows: {low} to {high}; in the paper {:.1} to {highest:.1}",
            highest - swing
        );
        assert!((high - highest).abs() < 3.0, "{message}");
        assert!(((high - low) / swing - 1.0).abs() < 0.3, "{message}");
        // With Reno the queue becomes empty.
        assert_eq!(between("reno").0, 0.0);
    }
}

/// The same section of the paper: the queue never becomes empty if K > C·RTT/7.
#[test]
fn a_step_of_a_seventh_of_the_round_trip_keeps_the_link_busy() {
    let busy = |step| {
        goodput(&play(
            "dctcp",
            2,
            "rate = \"100Mbit\"\nrtt = \"14ms\"",
            step,
        ))
    };
    let (above, far_below) = (busy("3ms"), busy("100us"));
    assert!(above > 95.0, "{above}");
    assert!(far_below < above - 1.0, "{far_below} {above}");
}

/// Without ECN, DCTCP behaves exactly as Reno, packet by packet.
#[test]
fn without_ecn_it_is_reno() {
    let message = |cc: &str| {
        let text = format!(
            "duration = \"4s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"20Mbit\"\nrtt = \
             \"20ms\"\nbuffer = \"0.5bdp\"\n\
             loss = \"0.1%\"\n[[flow]]\nid = \"f\"\ncc = \"{cc}\"\necn = false\n"
        );
        let scenario =
            Scenario::from_toml(&text, "dctcp.toml", &registry()).unwrap_or_else(|e| panic!("{e}"));
        run(&scenario, &registry(), &Options::default(), &mut |_| true)
            .unwrap()
            .samples
    };
    assert_eq!(message("dctcp"), message("reno"));
}
